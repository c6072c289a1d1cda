/* api_usage.c - shares of users and projects, and GPU-hours used, on the API.
 *
 * `by` of /usage names the columns: user, project, app, in any order. Attempts
 * that began before `since` count the part of their GPU-seconds that lies
 * behind it, spread evenly over the attempt; sums of days likewise. Rows are by
 * their columns.
 *
 * Cost: O(attempts since then x rows) in the worst case; rows are found by a
 * hash.
 */
#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"
#include "daemon/apiwork.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 3 };
static const char *const column_names[COLUMNS] = {"user", "project", "app"};

struct usage_row {
    double gpu_s;
    int64_t attempts, jobs;
    firn_job_id last; /* attempts come job by job */
};

struct usage_sum {
    int by[COLUMNS], nby; /* columns, in the order asked for */
    double since_s, now_s;
    struct map keys;
    VEC(struct usage_row) rows;
};

void api_shares_get(struct api_call *call)
{
    const struct api_host *host = &call->api->host;
    struct firn_buf out = {0};
    if (!api_has(call, host->shares != NULL))
        return;
    host->shares(host->arg, &out);
    api_reply(call, 200, &out);
}

/* "user,project" into columns. */
static bool read_by(const char *text, struct usage_sum *sum)
{
    while (*text != '\0') {
        size_t n = strcspn(text, ",");
        int found = -1;
        for (int i = 0; i < COLUMNS; i++)
            if (strlen(column_names[i]) == n &&
                strncmp(text, column_names[i], n) == 0)
                found = i;
        for (int i = 0; i < sum->nby; i++)
            if (sum->by[i] == found)
                found = -1;
        if (found < 0)
            return false;
        sum->by[sum->nby++] = found;
        text += n + (text[n] == ',');
    }
    return sum->nby > 0;
}

static void add_usage(void *arg, const struct store_usage *usage)
{
    struct usage_sum *sum = arg;
    const char *values[COLUMNS] = {usage->user, usage->project, usage->app};
    double from_s = fmax(usage->started_s, sum->since_s);
    double until_s = fmin(usage->ended_s, sum->now_s);
    double span_s = usage->ended_s - usage->started_s;
    double part = span_s > 0 ? (until_s - from_s) / span_s : 1;
    struct firn_buf key = {0};
    if (until_s < sum->since_s)
        return;
    for (int i = 0; i < sum->nby; i++)
        buf_printf(&key, "%s%s", i > 0 ? "\n" : "", values[sum->by[i]]);
    size_t at = (size_t)map_add(&sum->keys, key.n > 0 ? key.at : "");
    buf_release(&key);
    vec_reserve(&sum->rows, at + 1);
    if (at >= sum->rows.n) {
        sum->rows.n = at + 1;
        sum->rows.at[at] = (struct usage_row){.last = FIRN_NO_JOB};
    }
    struct usage_row *row = &sum->rows.at[at];
    row->gpu_s += usage->gpu_s * fmin(fmax(part, 0), 1);
    row->attempts += usage->attempts;
    row->jobs += usage->job != FIRN_NO_JOB && usage->job != row->last;
    row->last = usage->job;
}

static const struct usage_sum *sorted; /* one thread */

static int by_key(const void *a, const void *b)
{
    return strcmp(map_name(&sorted->keys, *(const int *)a),
                  map_name(&sorted->keys, *(const int *)b));
}

static void add_row(const struct usage_sum *sum, int at, struct firn_buf *out)
{
    const struct usage_row *row = &sum->rows.at[at];
    const char *key = map_name(&sum->keys, at);
    jsonbuf_open(out, NULL, '{');
    for (int i = 0; i < sum->nby; i++) {
        char value[512];
        size_t n = strcspn(key, "\n");
        size_t kept = n < sizeof value - 1 ? n : sizeof value - 1;
        memcpy(value, key, kept);
        value[kept] = '\0';
        jsonbuf_text(out, column_names[sum->by[i]], value);
        key += n + (key[n] == '\n');
    }
    jsonbuf_double(out, "gpu_hours", row->gpu_s / 3600);
    jsonbuf_int(out, "jobs", row->jobs);
    jsonbuf_int(out, "attempts", row->attempts);
    jsonbuf_close(out, '}');
}

static void write_sum(const struct usage_sum *sum, struct firn_buf *out)
{
    double all_gpu_s = 0;
    int *order = mem_new(sum->rows.n + 1, sizeof *order);
    for (size_t i = 0; i < sum->rows.n; i++) {
        order[i] = (int)i;
        all_gpu_s += sum->rows.at[i].gpu_s;
    }
    sorted = sum;
    if (sum->rows.n > 1)
        qsort(order, sum->rows.n, sizeof *order, by_key);
    jsonbuf_open(out, NULL, '{');
    jsonbuf_double(out, "since_s", sum->since_s);
    jsonbuf_double(out, "now_s", sum->now_s);
    jsonbuf_double(out, "gpu_hours", all_gpu_s / 3600);
    jsonbuf_open(out, "usage", '[');
    for (size_t i = 0; i < sum->rows.n; i++)
        add_row(sum, order[i], out);
    jsonbuf_close(out, ']');
    jsonbuf_close(out, '}');
    mem_free(order);
}

void api_usage_get(struct api_call *call)
{
    const struct api_host *host = &call->api->host;
    const char *by = http_query(call->exchange, "by");
    struct usage_sum sum = {.now_s = host->now_s(host->arg)};
    struct firn_buf out = {0};
    struct firn_error err = {0};
    int64_t seconds;
    if (!api_query_int(call, "seconds", INT32_MAX, 30 * 86400, &seconds))
        return;
    sum.since_s = sum.now_s - (double)seconds;
    if (!read_by(by != NULL ? by : "user,project", &sum)) {
        http_fail(call->exchange, FIRN_EINVAL,
                  "'by' must be one or several of user, project, app with "
                  "commas between");
        return;
    }
    if (store_each_usage(host->store, sum.since_s, sum.now_s, add_usage, &sum,
                         &err) != FIRN_OK) {
        api_fail(call, &err);
    } else {
        write_sum(&sum, &out);
        api_reply(call, 200, &out);
    }
    vec_release(&sum.rows);
    map_release(&sum.keys);
}
