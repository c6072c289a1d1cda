/* api_job.c - jobs on the API: submit, list, show, change, end.
 *
 * A submit is exact: a client that does not know whether its request arrived
 * sends it again with the same Idempotency-Key (or Request-Id), and gets the
 * job that it made before. The same key with another file is a mistake, and
 * said to be one.
 *
 * A list is by rising id, and in pages: `after` is the last id of the page
 * before. It shows what is in memory, that is all that is not over and the
 * newest of what is; with `all=1` what only the disk has, too, unless only
 * jobs that are not over are asked for. With `newest=1`, or `before` as the
 * last id of the page before, a list is of the jobs in memory by falling id.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/after.h"
#include "daemon/apiwork.h"
#include "daemon/jobfile.h"
#include <stdio.h>
#include <string.h>

enum { LIST_USUAL = 1000, LIST_MOST = 100000 };

/* --- submit ------------------------------------------------------------ */

static void count_submit(struct api_call *call, enum metric_submit what)
{
    if (call->api->host.metrics != NULL)
        metrics_add(call->api->host.metrics, METRIC_SUBMITS, (int)what, 1);
}

static void reply_job(struct api_call *call, int status,
                      const struct live_job *job)
{
    struct firn_buf out = {0};
    api_json_job(&out, call->api, job);
    api_reply(call, status, &out);
}

/* `hold=1`: in the same commit, so that no round sees it free. */
static enum firn_status submit_ask(struct api_call *call, struct live_ask *ask,
                                   bool is_held, struct live_job **job,
                                   bool *is_new, struct firn_error *err)
{
    const struct api_host *host = &call->api->host;
    const char *request = http_header(call->exchange, "Idempotency-Key");
    double now_s = host->now_s(host->arg);
    if (request == NULL)
        request = http_header(call->exchange, "Request-Id");
    /* The body ends with a NUL, and has no other. */
    enum firn_status status =
        book_submit(host->book, ask, call->request->body.at,
                    request != NULL ? request : "", now_s, job, is_new, err);
    if (status != FIRN_OK) {
        live_ask_release(ask);
        return status;
    }
    char why[LIVE_TEXT];
    if (*is_new && (*job)->ask.waits_for[0] != '\0' &&
        after_judge(host->book, (*job)->ask.waits_for, why) != AFTER_READY)
        return book_hold_why(host->book, *job, true, now_s, why, err);
    if (is_held && *is_new)
        return book_hold(host->book, *job, true, now_s, err);
    return FIRN_OK;
}

static void submit(struct api_call *call, struct live_ask *ask, bool is_held)
{
    const struct api_host *host = &call->api->host;
    struct firn_error err;
    struct live_job *job = NULL;
    bool is_new = false;
    if (submit_ask(call, ask, is_held, &job, &is_new, &err) != FIRN_OK) {
        count_submit(call, METRIC_SUBMIT_REFUSED);
        if (err.status == FIRN_ELIMIT) {
            api_turned_away(call->api, HTTP_REFUSED_RATE,
                            &call->request->caller);
            http_set_header(call->exchange, "Retry-After", "60");
        }
        api_fail(call, &err);
    } else if (is_new) {
        count_submit(call, METRIC_SUBMIT_NEW);
        if (host->changed != NULL)
            host->changed(host->arg, job);
        reply_job(call, 201, job);
    } else if (strcmp(job->text, call->request->body.at) != 0) {
        count_submit(call, METRIC_SUBMIT_REFUSED);
        http_refuse(call->exchange, 409, "key-used",
                    "this request id has been used for another job file");
    } else {
        count_submit(call, METRIC_SUBMIT_AGAIN);
        reply_job(call, 200, job);
    }
}

/* Names in `after` become numbers. False: it was answered. */
static bool take_after(struct api_call *call, struct live_ask *ask,
                       bool is_held)
{
    struct firn_buf text = {0};
    struct firn_error err = {0};
    if (ask->waits_for[0] == '\0')
        return true;
    if (is_held)
        firn_fail(&err, FIRN_EINVAL,
                  "a job with 'after' is held by itself: leave out --hold");
    else
        after_resolve(call->api->host.book, ask->waits_for, &text, &err);
    if (err.status == FIRN_OK && text.n > 0) {
        mem_free(ask->waits_for);
        ask->waits_for = mem_strdup(text.at);
    }
    buf_release(&text);
    if (err.status == FIRN_OK)
        return true;
    live_ask_release(ask);
    api_fail(call, &err);
    return false;
}

/* A job that can never run is refused if the client asks for that. False: it
 * was answered. */
static bool check_fit(struct api_call *call, struct live_ask *ask)
{
    const struct api_host *host = &call->api->host;
    const char *header = http_header(call->exchange, "Firn-Check");
    struct firn_error err = {0};
    if (header == NULL || strcmp(header, "fits") != 0 || host->fits == NULL ||
        host->fits(host->arg, ask, &err) == FIRN_OK)
        return true;
    live_ask_release(ask);
    http_refuse(call->exchange, 409, "never-fits", err.text);
    return false;
}

/* A job beyond a quota of its user or project is refused. False: it was
 * answered. */
static bool check_quota(struct api_call *call, struct live_ask *ask)
{
    const struct api_host *host = &call->api->host;
    struct firn_error err = {0};
    if (host->admits == NULL || host->admits(host->arg, ask, &err) == FIRN_OK)
        return true;
    live_ask_release(ask);
    if (err.status == FIRN_ELIMIT)
        http_set_header(call->exchange, "Retry-After", "60");
    api_fail(call, &err);
    return false;
}

void api_job_submit(struct api_call *call)
{
    const struct api_host *host = &call->api->host;
    struct live_ask ask;
    struct firn_error err;
    int64_t is_held;
    if (host->may_run != NULL &&
        host->may_run(host->arg, &call->request->caller, &err) != FIRN_OK) {
        count_submit(call, METRIC_SUBMIT_REFUSED);
        http_refuse(call->exchange, 403, "forbidden", err.text);
    } else if (api_query_int(call, "hold", 1, 0, &is_held) &&
               api_read_ask(call, &ask) && check_fit(call, &ask) &&
               check_quota(call, &ask) && take_after(call, &ask, is_held != 0))
        submit(call, &ask, is_held != 0);
    else
        count_submit(call, METRIC_SUBMIT_REFUSED);
}

/* --- list -------------------------------------------------------------- */

struct list {
    const struct api *api;
    struct firn_buf out;
    unsigned states; /* bits by enum live_state; 0: all */
    const char *user;
    int64_t after, left;
    int64_t before; /* from the newest on: ids below it; -1: from the oldest */
    int64_t pending_left; /* -1: as many as there are */
    int64_t nleft_out;    /* pending ones */
    firn_job_id last;
    bool has_more;
};

/* "pending,running" into bits. */
static bool read_states(struct api_call *call, unsigned *out)
{
    const char *at = http_query(call->exchange, "state");
    *out = 0;
    while (at != NULL && *at != '\0') {
        char name[32];
        enum live_state state;
        size_t n = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", n < 31 ? (int)n : 31, at);
        if (!live_state_named(name, &state)) {
            http_fail(call->exchange, FIRN_EINVAL,
                      "'state' must be names of states with commas between");
            return false;
        }
        *out |= 1u << state;
        at += n + (at[n] == ',');
    }
    return true;
}

/* False: the page is full. */
static bool list_job(struct list *list, const struct live_job *job)
{
    if (job->id <= list->after ||
        (list->before >= 0 && job->id >= list->before) ||
        (list->states != 0 && !(list->states >> job->state & 1)) ||
        (list->user != NULL && strcmp(job->ask.user, list->user) != 0))
        return true;
    bool is_pending = job->state == LIVE_PENDING;
    if (is_pending && list->pending_left == 0) {
        list->nleft_out++;
        return true;
    }
    list->has_more = list->left == 0;
    if (list->has_more)
        return false;
    list->left--;
    list->pending_left -= is_pending && list->pending_left > 0;
    list->last = job->id;
    api_json_job(&list->out, list->api, job);
    return true;
}

static bool list_read(void *arg, struct live_job *job)
{
    struct list *list = arg;
    const struct live_job *living = /* of these memory knows more */
        live_state_is_over(job->state)
            ? NULL
            : book_job(list->api->host.book, job->id);
    bool goes_on = list_job(list, living != NULL ? living : job);
    live_job_free(job);
    return goes_on;
}

/* The first in memory whose id is above `after`. */
static size_t first_after(struct book *book, int64_t after)
{
    size_t low = 0, high = book_count(book);
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (book_at(book, mid)->id <= after)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static enum firn_status list_all(struct api_call *call, struct list *list,
                                 bool from_disk, struct firn_error *err)
{
    struct book *book = call->api->host.book;
    size_t nbad;
    unsigned living = 0;
    for (int s = 0; s <= (int)LIVE_LOST; s++)
        living |= (unsigned)!live_state_is_over((enum live_state)s) << s;
    if (from_disk && list->before < 0 &&
        (list->states == 0 || (list->states & ~living) != 0))
        return store_each_job(call->api->host.store, true, list_read, list,
                              &nbad, err);
    if (list->before >= 0) {
        size_t left = first_after(book, list->before - 1);
        while (left > 0 && list_job(list, book_at(book, left - 1)))
            left--;
        return FIRN_OK;
    }
    size_t i = first_after(book, list->after);
    while (i < book_count(book) && list_job(list, book_at(book, i)))
        i++;
    return FIRN_OK;
}

void api_job_list(struct api_call *call)
{
    struct list list = {.api = call->api,
                        .user = http_query(call->exchange, "user")};
    struct firn_error err;
    int64_t all, is_newest;
    if (!read_states(call, &list.states) ||
        !api_query_int(call, "limit", LIST_MOST, LIST_USUAL, &list.left) ||
        !api_query_int(call, "after", INT32_MAX, 0, &list.after) ||
        !api_query_int(call, "pending", INT32_MAX, -1, &list.pending_left) ||
        !api_query_int(call, "before", INT32_MAX, -1, &list.before) ||
        !api_query_int(call, "newest", 1, 0, &is_newest) ||
        !api_query_int(call, "all", 1, 0, &all))
        return;
    if (is_newest != 0 && list.before < 0)
        list.before = INT32_MAX;
    jsonbuf_open(&list.out, NULL, '{');
    jsonbuf_open(&list.out, "jobs", '[');
    if (list_all(call, &list, all != 0, &err) != FIRN_OK) {
        buf_release(&list.out);
        api_fail(call, &err);
        return;
    }
    jsonbuf_close(&list.out, ']');
    if (list.has_more)
        jsonbuf_int(&list.out, "next", list.last);
    if (list.pending_left >= 0) {
        jsonbuf_int(&list.out, "pending_left", list.pending_left);
        jsonbuf_int(&list.out, "pending_more", list.nleft_out);
    }
    jsonbuf_close(&list.out, '}');
    api_reply(call, 200, &list.out);
}

void api_job_get(struct api_call *call)
{
    struct live_job *job;
    if (api_find_job(call, &job)) {
        struct firn_buf out = {0};
        api_json_whole_job(&out, call->api, job, call->access);
        api_reply(call, 200, &out);
    }
}

/* --- changes ----------------------------------------------------------- */

/* A change went well, or not: one answer for all of them. */
static void changed(struct api_call *call, struct live_job *job,
                    enum firn_status status, const struct firn_error *err)
{
    const struct api_host *host = &call->api->host;
    if (status != FIRN_OK) {
        api_fail(call, err);
        return;
    }
    if (host->changed != NULL)
        host->changed(host->arg, job);
    reply_job(call, 200, job);
}

/* Its own user, or an operator who asks for it? */
static struct live_stop asked_by(const struct api_call *call,
                                 const struct live_job *job)
{
    bool is_own = strcmp(call->request->caller.user, job->ask.user) == 0;
    return (struct live_stop){is_own ? LIVE_CAUSE_USER : LIVE_CAUSE_OPERATOR,
                              FIRN_NO_JOB};
}

/* `force=1`: without the grace in which a job writes a checkpoint. */
static void force(struct api_call *call, struct live_job *job)
{
    const struct api_host *host = &call->api->host;
    if (!live_state_is_over(job->state) &&
        (host->kill == NULL || !host->kill(host->arg, job)))
        http_refuse(call->exchange, 501, "not-here",
                    "this backend ends jobs by their grace only; the job is "
                    "being cancelled");
    else
        reply_job(call, 200, job);
}

void api_job_cancel(struct api_call *call)
{
    const struct api_host *host = &call->api->host;
    struct live_job *job;
    struct firn_error err;
    char why[LIVE_TEXT];
    int64_t is_forced;
    if (!api_query_int(call, "force", 1, 0, &is_forced) ||
        !api_find_living(call, &job))
        return;
    if (!job->is_ending) {
        snprintf(why, sizeof why, "cancelled by %s",
                 call->request->caller.user);
        struct live_stop before = book_because(host->book, asked_by(call, job));
        enum firn_status status =
            book_cancel(host->book, job, host->now_s(host->arg), why, &err);
        if (status == FIRN_OK && host->cancel != NULL)
            host->cancel(host->arg, job);
        book_because(host->book, before);
        if (status != FIRN_OK) {
            api_fail(call, &err);
            return;
        }
    }
    if (is_forced != 0)
        force(call, job);
    else
        reply_job(call, 200, job);
}

static void hold(struct api_call *call, bool is_held)
{
    const struct api_host *host = &call->api->host;
    struct live_job *job;
    struct firn_error err;
    if (!api_find_living(call, &job))
        return;
    enum firn_status status = FIRN_OK;
    struct live_stop before = {LIVE_CAUSE_NONE, FIRN_NO_JOB};
    if (is_held)
        before = book_because(host->book, asked_by(call, job));
    if (job->is_held != is_held)
        status =
            book_hold(host->book, job, is_held, host->now_s(host->arg), &err);
    changed(call, job, status, &err);
    book_because(host->book, before);
}

void api_job_hold(struct api_call *call)
{
    hold(call, true);
}

void api_job_release(struct api_call *call)
{
    hold(call, false);
}

/* What a PATCH asks for; -1: not changed. */
struct patch {
    int gpus_min, gpus_max, priority;
};

/* A whole number within the field's bounds, and at least `least`. */
static bool read_whole(const json_t *value, enum job_field_id id, int least,
                       int *out)
{
    const struct job_field *field = &job_fields[id];
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < field->least || number < least ||
        number > field->most)
        return false;
    *out = (int)number;
    return true;
}

/* NULL, or what is wrong. */
static const char *read_patch(const json_t *root, struct patch *out)
{
    const json_t *gpus = json_object_get(root, "gpus");
    const json_t *priority = json_object_get(root, "priority");
    if (json_object_size(root) == 0)
        return "the body must have 'gpus' or 'priority'";
    if (priority != NULL &&
        !read_whole(priority, JOB_FIELD_priority, 0, &out->priority))
        return "'priority' must be a whole number from 0 to 100";
    if (gpus == NULL)
        return NULL;
    if (read_whole(gpus, JOB_FIELD_gpus_min, 1, &out->gpus_min)) {
        out->gpus_max = out->gpus_min;
        return NULL;
    }
    if (json_object_size(gpus) != 2 ||
        !read_whole(json_object_get(gpus, "min"), JOB_FIELD_gpus_min, 1,
                    &out->gpus_min) ||
        !read_whole(json_object_get(gpus, "max"), JOB_FIELD_gpus_min,
                    out->gpus_min, &out->gpus_max))
        return "'gpus' must be a number, or {\"min\": M, \"max\": N} with "
               "1 <= M <= N";
    return NULL;
}

void api_job_patch(struct api_call *call)
{
    const char *keys[JOB_NFIELDS + 1] = {NULL};
    const struct api_host *host = &call->api->host;
    struct patch patch = {-1, -1, -1};
    struct live_job *job;
    json_t *root;
    struct firn_error err;
    size_t nkeys = 0;
    for (int i = 0; i < JOB_NFIELDS; i++)
        if (job_fields[i].where & JOB_PATCH)
            keys[nkeys++] = job_fields[i].key;
    if (!api_find_living(call, &job) || !api_read_object(call, keys, &root))
        return;
    const char *wrong = read_patch(root, &patch);
    json_decref(root);
    if (wrong != NULL) {
        http_fail(call->exchange, FIRN_EINVAL, wrong);
        return;
    }
    /* The first may be refused; the second, being in range, is not. */
    double now_s = host->now_s(host->arg);
    enum firn_status status = FIRN_OK;
    if (patch.gpus_min >= 0)
        status = book_bounds(host->book, job, patch.gpus_min, patch.gpus_max,
                             now_s, &err);
    if (status == FIRN_OK && patch.priority >= 0)
        status = book_priority(host->book, job, patch.priority, now_s, &err);
    changed(call, job, status, &err);
}
