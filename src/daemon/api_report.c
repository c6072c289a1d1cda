/* api_report.c - a trainer sends a report and gets its orders.
 *
 * The caller is the job itself: api.c has checked its token. A report of an
 * older attempt is 410: that process has been replaced and is ending. A report
 * with impossible numbers is 400 and changes nothing.
 *
 * Each report is a write to the disk and an update of the models, so a job may
 * send REPORTS_BURST of them at once and REPORTS_PER_S after that (a token
 * bucket for each job); above it the answer is 429, and the trainer keeps its
 * newest report for later (src/train/reporter.c).
 *
 * The reports of a job are kept, thinned as they age (store.h). A list of them
 * is a table with a row for each; with more than `limit` of them every second,
 * third, ... is left out, and the newest is always there.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "daemon/apiwork.h"
#include <firn/message.h>
#include <limits.h>
#include <math.h>

enum { REPORTS_BURST = 200, REPORTS_PER_S = 10 };
enum { ROWS_USUAL = 500, ROWS_MOST = 2000 };

static void count(struct api_call *call, enum metric_report what)
{
    if (call->api->host.metrics != NULL)
        metrics_add(call->api->host.metrics, METRIC_REPORTS, (int)what, 1);
}

/* Is the report of the job's present attempt? The header tells; Firn-Epoch is
 * its older name. False: the request was answered. */
static bool is_of_this_attempt(struct api_call *call,
                               const struct live_job *job)
{
    const char *header = http_header(call->exchange, "Firn-Attempt");
    long attempt;
    if (header == NULL)
        header = http_header(call->exchange, "Firn-Epoch");
    if (header == NULL || !str_int(header, 0, LONG_MAX, &attempt)) {
        count(call, METRIC_REPORT_REFUSED);
        http_fail(call->exchange, FIRN_EINVAL,
                  "a report needs the header 'Firn-Attempt: N'");
        return false;
    }
    if (attempt == job->attempt && !live_state_is_over(job->state))
        return true;
    count(call, METRIC_REPORT_STALE);
    http_refuse(call->exchange, 410, "stale-attempt",
                "this attempt of the job has ended");
    return false;
}

/* One more report of this job at this moment? false: it was answered. */
static bool is_within_rate(struct api_call *call, struct live_job *job)
{
    double now_s = clock_elapsed_s();
    double more = (now_s - job->reports_left_s) * REPORTS_PER_S;
    job->reports_left = job->reports_left_s > 0
                            ? fmin(job->reports_left + more, REPORTS_BURST)
                            : REPORTS_BURST;
    job->reports_left_s = now_s;
    if (job->reports_left >= 1) {
        job->reports_left--;
        return true;
    }
    count(call, METRIC_REPORT_REFUSED);
    api_turned_away(call->api, HTTP_REFUSED_RATE, &call->request->caller);
    http_set_header(call->exchange, "Retry-After", "1");
    http_fail(call->exchange, FIRN_ELIMIT,
              "the job reports more than 10 times a second");
    return false;
}

static void reply_orders(struct api_call *call, const struct live_job *job)
{
    char text[512];
    struct firn_buf out = {0};
    size_t n = firn_orders_write(text, sizeof text, &job->orders);
    if (n >= sizeof text)
        FIRN_BUG("orders of %zu bytes", n);
    buf_add(&out, text, n);
    api_reply(call, 200, &out);
}

void api_report_post(struct api_call *call)
{
    const struct api_host *host = &call->api->host;
    struct live_job *job =
        book_job(host->book, (firn_job_id)call->request->caller.job);
    struct firn_bytes body = call->request->body;
    double variance[LIVE_LAYERS];
    struct firn_trainer_report report;
    struct firn_error err;
    if (job == NULL) {
        http_fail(call->exchange, FIRN_ENOENT, "there is no such job");
        return;
    }
    if (!is_of_this_attempt(call, job) || !is_within_rate(call, job))
        return;
    enum firn_status status = firn_trainer_report_read(
        &report, variance, LIVE_LAYERS, body.at, body.n, &err);
    if (status == FIRN_OK)
        status = book_report(host->book, job, job->attempt, &report,
                             host->now_s(host->arg), &err);
    if (status != FIRN_OK) {
        count(call, METRIC_REPORT_REFUSED);
        api_fail(call, &err);
        return;
    }
    count(call, METRIC_REPORT_TAKEN);
    if (host->reported != NULL)
        host->reported(host->arg, job);
    reply_orders(call, job);
}

/* --- the reports of a job so far ------------------------------------------ */

struct rows {
    struct firn_buf out;
    int64_t every, at, n; /* one row for each `every` reports; the index */
};

static bool add_row(void *arg, int64_t attempt, double at_s,
                    const struct firn_trainer_report *report)
{
    struct rows *rows = arg;
    int64_t behind = rows->n - 1 - rows->at++; /* the newest: 0 */
    if (behind % rows->every != 0)
        return true;
    const double numbers[] = {report->progress,   report->step_s,
                              report->loss,       report->metric,
                              report->memory_mib, report->utilisation};
    const int64_t counts[] = {report->batch, report->passes, report->nfrozen};
    jsonbuf_open(&rows->out, NULL, '[');
    jsonbuf_double(&rows->out, NULL, at_s);
    jsonbuf_int(&rows->out, NULL, attempt);
    jsonbuf_int(&rows->out, NULL, (int64_t)report->step);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        /* A loss may be negative, and is then not told from an unknown one. */
        jsonbuf_double(&rows->out, NULL,
                       numbers[i] >= 0 ? numbers[i] : (double)NAN);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        jsonbuf_int(&rows->out, NULL, counts[i] >= 0 ? counts[i] : 0);
    jsonbuf_close(&rows->out, ']');
    return true;
}

void api_report_list(struct api_call *call)
{
    static const char columns[] =
        "[\"at_s\", \"attempt\", \"step\", \"progress\", \"step_s\", "
        "\"loss\", \"metric\", \"memory_mib\", \"utilisation\", "
        "\"batch\", \"passes\", \"nfrozen\"]";
    struct store *store = call->api->host.store;
    struct live_job *job;
    struct firn_error err;
    struct rows rows = {.every = 1};
    int64_t limit;
    if (!api_query_int(call, "limit", ROWS_MOST, ROWS_USUAL, &limit) ||
        !api_find_job(call, &job))
        return;
    enum firn_status status =
        store_count_reports(store, job->id, &rows.n, &err);
    if (limit > 0 && rows.n > limit)
        rows.every = (rows.n + limit - 1) / limit;
    jsonbuf_open(&rows.out, NULL, '{');
    jsonbuf_raw(&rows.out, "columns", columns);
    jsonbuf_int(&rows.out, "kept", rows.n);
    jsonbuf_open(&rows.out, "rows", '[');
    if (status == FIRN_OK && limit > 0)
        status = store_each_report(store, job->id, add_row, &rows, &err);
    jsonbuf_close(&rows.out, ']');
    jsonbuf_close(&rows.out, '}');
    if (status == FIRN_OK) {
        api_reply(call, 200, &rows.out);
        return;
    }
    buf_release(&rows.out);
    api_fail(call, &err);
}
