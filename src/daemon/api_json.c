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

static void add_list(struct firn_buf *out, const char *key, char *const *list)
{
    api_json_open(out, key, '[');
    for (size_t i = 0; list != NULL && list[i] != NULL; i++)
        api_json_text(out, NULL, list[i]);
    api_json_close(out, ']');
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
    api_json_text(out, "name", job->ask.name);
    api_json_text(out, "user", job->ask.user);
    api_json_text(out, "queue", job->ask.queue);
    api_json_int(out, "priority", job->ask.priority);
    api_json_text(out, "state", live_state_name(job->state));
    add_reason(out, api, job);
    api_json_bool(out, "held", job->is_held);
    api_json_bool(out, "ending", job->is_ending);
    api_json_int(out, "gpus_min", job->ask.gpus_min);
    api_json_int(out, "gpus_max", job->ask.gpus_max);
    api_json_gpus(out, api, "gpus", job->held);
    api_json_int(out, "epoch", job->epoch);
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

static void add_ask(struct firn_buf *out, const struct live_ask *ask)
{
    api_json_open(out, "ask", '{');
    add_list(out, "run", ask->argv);
    add_list(out, "env", ask->env);
    api_json_text(out, "workdir", ask->workdir);
    api_json_text(out, "app", ask->app);
    api_json_text(out, "types", ask->types);
    api_json_bool(out, "may_share", ask->may_share);
    api_json_bool(out, "may_merge", ask->may_merge);
    api_json_bool(out, "is_elastic", ask->is_elastic);
    api_json_bool(out, "can_checkpoint", ask->can_checkpoint);
    api_json_bool(out, "may_restart", ask->may_restart);
    api_json_int(out, "retries_max", ask->retries_max);
    api_json_double(out, "duration_s", ask->duration_s);
    api_json_double(out, "mem_gib", ask->mem_gib);
    api_json_double(out, "deadline_s", ask->deadline_s);
    if (ask->inbox[0] != '\0')
        api_json_text(out, "inbox", ask->inbox);
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

struct epochs {
    struct firn_buf *out;
    const struct api *api;
};

static bool add_epoch(void *arg, const struct store_epoch *epoch)
{
    static const char *const ends[] = {"done",   "checkpoint", "failed",
                                       "killed", "memory",     "lost"};
    const struct epochs *epochs = arg;
    struct firn_buf *out = epochs->out;
    bool is_over = epoch->end >= 0 && epoch->end <= FIRN_END_LOST;
    api_json_open(out, NULL, '{');
    api_json_int(out, "epoch", epoch->epoch);
    api_json_gpus(out, epochs->api, "gpus", epoch->held);
    add_time(out, "started_s", epoch->started_s);
    add_time(out, "ended_s", epoch->ended_s);
    if (is_over) {
        api_json_text(out, "end", ends[epoch->end]);
        api_json_int(out, "exit_status", epoch->exit_status);
    }
    api_json_close(out, '}');
    return true;
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
    struct firn_error ignored; /* a job is shown without what cannot be read */
    api_json_open(out, NULL, '{');
    add_line(out, api, job);
    if (live_state_is_over(job->state))
        api_json_int(out, "exit_status", job->exit_status);
    add_not_merged(out, api, job);
    add_ask(out, &job->ask);
    add_report(out, job);
    api_json_log(out, api, job);
    struct epochs epochs = {out, api};
    api_json_open(out, "epochs", '[');
    store_each_epoch(api->host.store, job->id, add_epoch, &epochs, &ignored);
    api_json_close(out, ']');
    api_json_text(out, "request", job->request);
    api_json_text(out, "file", job->text);
    api_json_close(out, '}');
}
