/* api_json.c - jobs and small things as JSON.
 *
 * Written by hand into a buffer: a list of a hundred thousand jobs is one walk
 * and no tree. Whether a comma is missing is seen by the last byte, which is an
 * opening bracket or not. Every text goes through buf_json_string(); a job's
 * token is in none of it.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/apiwork.h"
#include <firn/message.h>

/* Most texts have nothing to be escaped, and go in one piece. */
static void add_text(struct firn_buf *out, const char *text)
{
    size_t n = 0;
    while (text[n] >= 0x20 && text[n] < 0x7f && text[n] != '"' &&
           text[n] != '\\')
        n++;
    if (text[n] != '\0') {
        buf_json_string(out, text);
        return;
    }
    buf_putc(out, '"');
    buf_add(out, text, n);
    buf_putc(out, '"');
}

static void key_of(struct firn_buf *out, const char *key)
{
    char last = out->n > 0 ? out->at[out->n - 1] : '{';
    if (last != '{' && last != '[')
        buf_add(out, ", ", 2);
    if (key == NULL)
        return;
    add_text(out, key);
    buf_add(out, ": ", 2);
}

void api_json_open(struct firn_buf *out, const char *key, char bracket)
{
    key_of(out, key);
    buf_putc(out, bracket);
}

void api_json_close(struct firn_buf *out, char bracket)
{
    buf_putc(out, bracket);
}

void api_json_text(struct firn_buf *out, const char *key, const char *value)
{
    key_of(out, key);
    add_text(out, value != NULL ? value : "");
}

void api_json_int(struct firn_buf *out, const char *key, int64_t value)
{
    key_of(out, key);
    if (value > -(1LL << 53) && value < 1LL << 53)
        buf_double(out, (double)value); /* whole: no printf */
    else
        buf_printf(out, "%lld", (long long)value);
}

void api_json_double(struct firn_buf *out, const char *key, double value)
{
    key_of(out, key);
    buf_json_double(out, value);
}

void api_json_bool(struct firn_buf *out, const char *key, bool value)
{
    key_of(out, key);
    buf_puts(out, value ? "true" : "false");
}

void api_json_raw(struct firn_buf *out, const char *key, const char *json)
{
    key_of(out, key);
    buf_puts(out, json);
}

/* Times that have not come yet are left out. */
static void add_time(struct firn_buf *out, const char *key, double at_s)
{
    if (at_s > 0)
        api_json_double(out, key, at_s);
}

/* The JSON of a model's shape as an object, or as text if it is none. */
static void add_model(struct firn_buf *out, const char *key, const char *text)
{
    json_t *shape = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    size_t n = shape != NULL ? json_dumpb(shape, NULL, 0, JSON_COMPACT) : 0;
    if (n == 0) {
        api_json_text(out, key, text);
        return;
    }
    char *json = mem_new(n + 1, 1);
    json_dumpb(shape, json, n, JSON_COMPACT);
    api_json_raw(out, key, json);
    mem_free(json);
    json_decref(shape);
}

static void add_field(struct firn_buf *out, enum job_field_id id,
                      const struct live_ask *ask)
{
    const struct job_field *field = &job_fields[id];
    const void *member = live_ask_member(ask, id);
    const char *key = job_field_json(field);
    switch (job_field_storage(field)) {
    case JOB_AS_TEXT:
        if (field->kind == JOB_MODEL && (*(char *const *)member)[0] != '\0')
            add_model(out, key, *(char *const *)member);
        else
            api_json_text(out, key, *(char *const *)member);
        return;
    case JOB_AS_LIST:
        api_json_open(out, key, '[');
        for (char **item = *(char **const *)member; *item != NULL; item++)
            api_json_text(out, NULL, *item);
        api_json_close(out, ']');
        return;
    case JOB_AS_INT:
        api_json_int(out, key, *(const int *)member);
        return;
    case JOB_AS_COUNT:
        api_json_int(out, key, *(const int64_t *)member);
        return;
    case JOB_AS_BOOL:
        api_json_bool(out, key, *(const bool *)member);
        return;
    case JOB_AS_REAL:
        api_json_double(out, key, *(const double *)member);
        return;
    }
}

void api_json_gpus(struct firn_buf *out, const struct api *api, const char *key,
                   const char *held)
{
    struct firn_buf named = {0};
    if (api->host.gpus_text != NULL && held != NULL)
        api->host.gpus_text(api->host.arg, held, &named);
    api_json_text(out, key, named.n > 0 ? named.at : held);
    buf_release(&named);
}

/* The book has what was last written of a job; why one waits changes with the
 * others, and is found when it is asked for. */
static void add_reason(struct firn_buf *out, const struct api *api,
                       const struct live_job *job)
{
    enum live_reason reason = job->reason;
    char why[LIVE_TEXT];
    str_copy(why, sizeof why, job->why);
    if (job->state == LIVE_PENDING && api->host.waits != NULL &&
        !api->is_paused)
        api->host.waits(api->host.arg, job, &reason, why);
    api_json_text(out, "reason", live_reason_name(reason));
    api_json_text(out, "why", why);
}

static void add_line(struct firn_buf *out, const struct api *api,
                     const struct live_job *job)
{
    api_json_int(out, "id", job->id);
    for (int i = 0; i < JOB_NFIELDS; i++)
        if (job_fields[i].where & JOB_IN_LIST)
            add_field(out, (enum job_field_id)i, &job->ask);
    api_json_text(out, "state", live_state_name(job->state));
    add_reason(out, api, job);
    api_json_bool(out, "held", job->is_held);
    api_json_bool(out, "ending", job->is_ending);
    api_json_gpus(out, api, "gpus", job->held);
    api_json_int(out, "attempt", job->epoch);
    api_json_int(out, "epoch", job->epoch); /* older name of it */
    api_json_int(out, "retries", job->nretries);
    add_time(out, "submitted_s", job->submitted_s);
    add_time(out, "started_s", job->started_s);
    add_time(out, "ended_s", job->ended_s);
    if (job->epoch > 0)
        api_json_double(
            out, "ran_s",
            book_ran_s(api->host.book, job, api->host.now_s(api->host.arg)));
    if (job->reported_s > 0 && job->last.progress >= 0)
        api_json_double(out, "progress", job->last.progress);
}

void api_json_job(struct firn_buf *out, const struct api *api,
                  const struct live_job *job)
{
    api_json_open(out, NULL, '{');
    add_line(out, api, job);
    api_json_close(out, '}');
}

/* The fields that are not in lists. A text that firnd works out itself is left
 * out when it is "". */
static void add_ask(struct firn_buf *out, const struct live_ask *ask)
{
    api_json_open(out, "ask", '{');
    for (int i = 0; i < JOB_NFIELDS; i++) {
        const struct job_field *field = &job_fields[i];
        const char *const *member = live_ask_member(ask, (enum job_field_id)i);
        if (field->where & JOB_IN_LIST ||
            (field->key == NULL && job_field_storage(field) == JOB_AS_TEXT &&
             (*member)[0] == '\0'))
            continue;
        add_field(out, (enum job_field_id)i, ask);
    }
    api_json_close(out, '}');
}

static void add_report(struct firn_buf *out, const struct live_job *job)
{
    if (!(job->reported_s > 0))
        return;
    size_t n = firn_trainer_report_write(NULL, 0, &job->last) + 1;
    char *text = mem_new(n, 1);
    firn_trainer_report_write(text, n, &job->last);
    api_json_double(out, "reported_s", job->reported_s);
    api_json_raw(out, "report", text);
    mem_free(text);
}

struct attempts {
    struct firn_buf *out;
    const struct api *api;
};

static bool add_attempt(void *arg, const struct store_epoch *attempt)
{
    static const char *const ends[] = {"done",   "checkpoint", "failed",
                                       "killed", "memory",     "lost"};
    const struct attempts *attempts = arg;
    struct firn_buf *out = attempts->out;
    bool is_over = attempt->end >= 0 && attempt->end <= FIRN_END_LOST;
    api_json_open(out, NULL, '{');
    api_json_int(out, "attempt", attempt->epoch);
    api_json_int(out, "epoch", attempt->epoch); /* older name of it */
    api_json_gpus(out, attempts->api, "gpus", attempt->held);
    add_time(out, "started_s", attempt->started_s);
    add_time(out, "ended_s", attempt->ended_s);
    if (is_over) {
        api_json_text(out, "end", ends[attempt->end]);
        api_json_int(out, "exit_status", attempt->exit_status);
    }
    api_json_close(out, '}');
    return true;
}

/* `attempts`, and once more under `epochs`, the older name. */
static void add_attempts(struct firn_buf *out, const struct api *api,
                         firn_job_id id)
{
    struct firn_buf list = {0};
    struct attempts attempts = {&list, api};
    struct firn_error ignored; /* a job is shown without what cannot be read */
    api_json_open(&list, NULL, '[');
    store_each_epoch(api->host.store, id, add_attempt, &attempts, &ignored);
    api_json_close(&list, ']');
    api_json_raw(out, "attempts", list.at);
    api_json_raw(out, "epochs", list.at);
    buf_release(&list);
}

/* Left out when there is nothing to say. */
static void add_not_merged(struct firn_buf *out, const struct api *api,
                           const struct live_job *job)
{
    struct firn_buf list = {0};
    if (api->host.not_merged != NULL)
        api->host.not_merged(api->host.arg, job, &list);
    if (list.n > 2)
        api_json_raw(out, "not_merged", list.at);
    buf_release(&list);
}

void api_json_whole_job(struct firn_buf *out, struct api *api,
                        const struct live_job *job)
{
    api_json_open(out, NULL, '{');
    add_line(out, api, job);
    if (live_state_is_over(job->state))
        api_json_int(out, "exit_status", job->exit_status);
    add_not_merged(out, api, job);
    add_ask(out, &job->ask);
    add_report(out, job);
    api_json_log(out, api, job);
    add_attempts(out, api, job->id);
    api_json_text(out, "request", job->request);
    api_json_text(out, "file", job->text);
    api_json_close(out, '}');
}
