/* api_history.c - who held which GPUs, and when: the last hours as spans.
 *
 * A change of a job's GPUs is an event of kind "gpus". From the newest event
 * back to `since_s` they are collected, put in the order of their jobs, and two
 * neighbours of one job make a span. What a job held when the window opened has
 * no event in it: its attempts tell.
 *
 *     events in the window      n0[0-3]      -          n0[0-7]
 *     spans of the job        ==|============|          |============ open
 *                             ^ from the attempt that was open at since_s
 *
 * (1) Spans of one job do not overlap; a span without an end is held now.
 * (2) An answer has at most SPANS_MOST events and LOOK_MOST rows behind it; if
 *     there are more, `since_s` of the answer is the moment from which on it is
 *     whole.
 *
 * Cost: a walk over the events of the window, a sort, and one look at the
 * attempts of each job that was there before the window.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/vec.h"
#include "daemon/apiwork.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SPANS_MOST = 20000, LOOK_MOST = 200000, DAY_S = 86400 };

struct change {
    firn_job_id job;
    int64_t id;
    double at_s;
    char *gpus; /* "-": none */
};

struct history {
    const struct api *api;
    struct firn_buf out;
    double since_s;
    bool is_cut;
    VEC(struct change) changes;
    VEC(firn_job_id) jobs; /* that have a span */
    /* The attempt that was open at since_s. */
    double began_s;
    char *held;
};

static bool note_change(void *arg, const struct store_event *event)
{
    struct history *history = arg;
    if (event->at_s < history->since_s)
        return false;
    if (history->changes.n == SPANS_MOST) {
        history->is_cut = true;
        return false;
    }
    struct change change = {event->job, event->id, event->at_s,
                            mem_strdup(event->text)};
    vec_add(&history->changes, change);
    return true;
}

static int by_job(const void *one, const void *two)
{
    const struct change *a = one, *b = two;
    if (a->job != b->job)
        return a->job < b->job ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* --- what is written ------------------------------------------------------ */

/* `to_s` 0: open. */
static void put_span(struct history *history, firn_job_id job, double from_s,
                     double to_s, const char *gpus)
{
    struct firn_buf named = {0};
    const struct api_host *host = &history->api->host;
    if (strcmp(gpus, "-") == 0 || gpus[0] == '\0')
        return;
    if (host->gpus_text != NULL)
        host->gpus_text(host->arg, gpus, &named);
    jsonbuf_open(&history->out, NULL, '[');
    jsonbuf_int(&history->out, NULL, job);
    jsonbuf_double(&history->out, NULL, from_s);
    jsonbuf_double(&history->out, NULL, to_s > 0 ? to_s : (double)NAN);
    jsonbuf_text(&history->out, NULL, named.n > 0 ? named.at : gpus);
    jsonbuf_close(&history->out, ']');
    buf_release(&named);
    if (history->jobs.n == 0 || history->jobs.at[history->jobs.n - 1] != job)
        vec_add(&history->jobs, job);
}

static bool note_open(void *arg, const struct store_attempt *attempt)
{
    struct history *history = arg;
    if (attempt->started_s >= history->since_s ||
        (attempt->end >= 0 && attempt->ended_s <= history->since_s))
        return true;
    mem_free(history->held);
    history->held = mem_strdup(attempt->held);
    history->began_s = attempt->started_s;
    return true;
}

/* What the job held when the window opened, until `to_s`. */
static void put_before(struct history *history, firn_job_id job, double to_s)
{
    struct firn_error ignored; /* it is shown without what cannot be read */
    history->held = NULL;
    store_each_attempt(history->api->host.store, job, note_open, history,
                       &ignored);
    if (history->held != NULL)
        put_span(history, job, history->began_s, to_s, history->held);
    mem_free(history->held);
    history->held = NULL;
}

/* The changes from `i` on that are of one job; returns where the next begins.
 */
static size_t put_job(struct history *history, size_t i)
{
    const struct change *at = history->changes.at;
    const struct live_job *job = book_job(history->api->host.book, at[i].job);
    size_t next = i;
    if (job == NULL || job->submitted_s < history->since_s)
        put_before(history, at[i].job, at[i].at_s);
    for (; next < history->changes.n && at[next].job == at[i].job; next++) {
        bool is_last =
            next + 1 == history->changes.n || at[next + 1].job != at[i].job;
        double to_s = !is_last ? at[next + 1].at_s
                      : job != NULL && live_state_is_over(job->state)
                          ? job->ended_s
                          : 0;
        put_span(history, at[i].job, at[next].at_s, to_s, at[next].gpus);
    }
    return next;
}

static bool has_changes(const struct history *history, firn_job_id job)
{
    size_t low = 0, high = history->changes.n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (history->changes.at[mid].job < job)
            low = mid + 1;
        else
            high = mid;
    }
    return low < history->changes.n && history->changes.at[low].job == job;
}

/* Jobs that hold the same GPUs since before the window. */
static void put_steady(struct history *history)
{
    struct book *book = history->api->host.book;
    for (size_t i = 0; i < book_count(book); i++) {
        const struct live_job *job = book_at(book, i);
        if (live_state_is_over(job->state) || job->held == NULL ||
            strcmp(job->held, "-") == 0 || has_changes(history, job->id))
            continue;
        put_span(history, job->id,
                 job->ran_since_s > 0 ? job->ran_since_s : job->started_s, 0,
                 job->held);
    }
}

static void put_jobs(struct history *history)
{
    struct firn_buf *out = &history->out;
    jsonbuf_open(out, "jobs", '[');
    for (size_t i = 0; i < history->jobs.n; i++) {
        const struct live_job *job =
            book_job(history->api->host.book, history->jobs.at[i]);
        if (job == NULL)
            continue;
        jsonbuf_open(out, NULL, '{');
        jsonbuf_int(out, "id", job->id);
        jsonbuf_text(out, "name", job->ask.name);
        jsonbuf_text(out, "user", job->ask.user);
        jsonbuf_text(out, "queue", job->ask.queue);
        jsonbuf_text(out, "state", live_state_name(job->state));
        jsonbuf_double(out, "submitted_s", job->submitted_s);
        jsonbuf_close(out, '}');
    }
    jsonbuf_close(out, ']');
}

static void put_all(struct history *history, double now_s)
{
    struct firn_buf *out = &history->out;
    size_t n = history->changes.n;
    if (history->is_cut)
        history->since_s = history->changes.at[n - 1].at_s;
    if (n > 0)
        qsort(history->changes.at, n, sizeof *history->changes.at, by_job);
    jsonbuf_open(out, NULL, '{');
    jsonbuf_double(out, "since_s", history->since_s);
    jsonbuf_double(out, "now_s", now_s);
    jsonbuf_open(out, "spans", '[');
    for (size_t i = 0; i < n;)
        i = put_job(history, i);
    put_steady(history);
    jsonbuf_close(out, ']');
    put_jobs(history);
    jsonbuf_close(out, '}');
}

void api_history_get(struct api_call *call)
{
    const struct api_host *host = &call->api->host;
    double now_s = host->now_s(host->arg);
    int64_t last = store_last_event(host->store), since;
    struct firn_error err;
    int64_t fallback = now_s > DAY_S ? (int64_t)(now_s - DAY_S) : 0;
    if (!api_query_int(call, "since_s", INT64_MAX, fallback, &since))
        return;
    struct history history = {.api = call->api, .since_s = (double)since};
    struct store_events which = {.before = last + 1,
                                 .from = last - LOOK_MOST,
                                 .kind = "gpus",
                                 .job = FIRN_NO_JOB};
    enum firn_status status =
        store_each_event_back(host->store, &which, note_change, &history, &err);
    if (status == FIRN_OK) {
        put_all(&history, now_s);
        api_reply(call, 200, &history.out);
    } else {
        api_fail(call, &err);
    }
    for (size_t i = 0; i < history.changes.n; i++)
        mem_free(history.changes.at[i].gpus);
    vec_release(&history.changes);
    vec_release(&history.jobs);
    buf_release(&history.out);
}
