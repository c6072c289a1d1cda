/* recover.c - after a restart: running jobs are adopted, waiting jobs wait on.
 *
 * The book has the last attempt of each living job and the GPUs that it holds;
 * the number was on disk before the process existed, so there is no process
 * that the book does not know. A job that holds GPUs goes back into the
 * round with them and to the engine, which finds out what became of the
 * processes: what lives is watched, what is gone becomes an event like any
 * other. Nothing is started here.
 *
 * Round ids are given as they were when the policy's state was kept, so that
 * the policy finds its jobs; those that came later get new ones behind them.
 *
 * Cost: O(jobs log jobs), and a look at the attempts of jobs that ever ran.
 */
#include "daemon/recover.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/loopwork.h"
#include <ctype.h>
#include <firn/parallel.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- one job ------------------------------------------------------------- */

struct history {
    const struct loop *loop;
    struct track *track;
    firn_node_id
        node;      /* of the last attempt on a node that is still there; -1 */
    int64_t last;  /* of the attempts that cannot be running any more */
    bool has_open; /* one of these has no end */
};

/* Adds an attempt to the GPU time that it has had. */
static bool add_attempt(void *arg, const struct store_attempt *attempt)
{
    struct history *history = arg;
    struct live_job *job = book_job(history->loop->book, history->track->id);
    if (job != NULL && attempt->end < 0 && attempt->number == job->attempt)
        job->stop = attempt->stop;
    struct state_past *past = &history->track->past;
    struct firn_alloc held = FIRN_ALLOC_NONE;
    history->has_open = history->has_open ||
                        (attempt->end < 0 && attempt->number <= history->last);
    if (!recover_alloc(attempt->held, &held))
        return true;
    if (past->starts++ == 0)
        past->first_start_s = attempt->started_s;
    past->gpus_most =
        held.ngpus > past->gpus_most ? held.ngpus : past->gpus_most;
    past->since_s = attempt->started_s;
    if (attempt->end >= 0 && attempt->ended_s > attempt->started_s) {
        past->held_s += attempt->ended_s - attempt->started_s;
        past->served_gpu_s +=
            held.ngpus * (attempt->ended_s - attempt->started_s);
        past->since_s = attempt->ended_s;
    }
    history->track->opened_s = attempt->started_s;
    if (held.nparts > 0 && dock_renumber(&history->loop->dock, &held) &&
        held.parts[0].node < history->loop->dock.cluster.nnodes)
        history->node = held.parts[0].node;
    mem_free(held.parts);
    return true;
}

/* How it is run on what it holds. Ids of partners are those of the round,
 * which are not known before all jobs are in: partner_recover(). What a text of
 * an older firnd says has no more than its split. */
static void recover_how(struct firn_alloc *held, const struct live_job *job)
{
    struct firn_how said = held->how;
    held->how = job->how;
    held->how.merged_with = held->how.after = FIRN_NO_JOB;
    if (held->how.parallel == 0) {
        held->how.parallel = said.parallel;
        held->how.stages = said.stages;
    }
    if (held->how.passes == 0 && job->orders.passes > 0)
        held->how.passes = job->orders.passes;
}

/* The tunes that a running job may have under the policy. Which of several it
 * was started with is not kept: a job with elastic threads keeps its batch. */
static unsigned recover_tunes(const struct loop *loop,
                              const struct live_job *job)
{
    unsigned tunes = loop->desk.policy->tunes;
    if ((tunes & FIRN_TUNE_BATCH) == 0 || (tunes & FIRN_TUNE_THREADS) == 0)
        return tunes;
    return tunes & ~(unsigned)(job->ask.threads > 0 ? FIRN_TUNE_BATCH
                                                    : FIRN_TUNE_THREADS);
}

/* Takes over a job that has, or may have, processes. */
static void take_over(struct loop *loop, struct live_job *job,
                      struct firn_alloc *held)
{
    struct track *track = desk_track_make(&loop->desk, job->id);
    struct firn_error err = {0};
    struct firn_job_spec spec;
    recover_how(held, job);
    held->tunes = recover_tunes(loop, job);
    desk_spec(&loop->desk, job, &spec);
    track->duration_s = spec.duration_s; /* a pinned job gets no other */
    track->granted = *held;
    track->open_attempt = job->attempt;
    if (loop->dock.renumbered.n > 0) {
        struct firn_buf text = {0};
        firn_alloc_print(held, &text);
        book_wrote(loop->book, book_held(loop->book, job, text.at, &err), &err);
        buf_release(&text);
    }
    struct happening what = {.event = LIFE_RECOVERED_RUNNING,
                             .to = held,
                             .err = &err,
                             .is_adopted = true};
    loop_happens(loop, job, &what);
    bool is_refused = what.status != FIRN_OK; /* by the round */
    if (!what.is_adopted) {
        struct firn_event lost = {.kind = FIRN_EVENT_FAIL,
                                  .job = job->id,
                                  .attempt = job->attempt,
                                  .end = FIRN_END_LOST};
        loop_event(loop, &lost);
    }
    if (live_state_is_over(job->state) || partner_lead(loop->book, job) != NULL)
        return; /* a partner's turn comes when all jobs are in */
    if (job->is_ending)
        loop_cancelled(loop, job);
    else if (job->is_held || desk_job(&loop->desk, track) != NULL)
        loop_changed(loop, job); /* also bounds that it had no time to keep */
    else if (is_refused && track->open_attempt > 0)
        loop_sent_away(loop, job, err.text,
                       (struct live_stop){LIVE_CAUSE_POLICY, FIRN_NO_JOB});
}

/* After all jobs are in: jobs that a partner trains go on as they were. */
static void recover_partners(struct loop *loop)
{
    partner_recover(&loop->desk);
    for (size_t i = 0; i < loop->desk.led.n; i++) {
        struct live_job *job = book_job(loop->book, loop->desk.led.at[i]);
        if (job->is_ending)
            loop_cancelled(loop, job);
        else if (job->is_held)
            loop_changed(loop, job);
    }
    loop_check_partners(loop);
}

/* Sums up its attempts and finds its last node. An attempt before the one that
 * holds GPUs is over, whether its end was written down or not: it gets one. */
static struct history read_history(struct loop *loop, struct live_job *job)
{
    struct firn_error err = {0};
    struct track *track = desk_track_make(&loop->desk, job->id);
    bool may_run = strcmp(job->held, "-") != 0;
    struct history history = {.loop = loop, .track = track, .node = -1};
    history.last = may_run ? job->attempt - 1 : job->attempt;
    if (job->attempt == 0)
        return history;
    enum firn_status status =
        store_each_attempt(loop->store, job->id, add_attempt, &history, &err);
    if (status == FIRN_OK && history.has_open) {
        struct store_attempt last = {.number = history.last,
                                     .ended_s = dock_now_s(&loop->dock),
                                     .end = FIRN_END_LOST};
        status = book_close_attempts(loop->book, job, &last, &err);
        track->past = (struct state_past){0};
        if (book_wrote(loop->book, status, &err))
            status = store_each_attempt(loop->store, job->id, add_attempt,
                                        &history, &err);
    }
    if (status != FIRN_OK)
        log_warn("job %d: %s", job->id, err.text);
    return history;
}

static void recover_job(struct loop *loop, struct live_job *job)
{
    struct firn_alloc held = FIRN_ALLOC_NONE;
    struct firn_error err = {0};
    struct history history = read_history(loop, job);
    if (history.node >= 0) /* an older firnd did not write that */
        book_wrote(loop->book,
                   desk_type_keep(&loop->desk, job, history.node, &err), &err);
    if (job->attempt > 0 && recover_alloc(job->held, &held) &&
        held.nparts > 0) {
        if (dock_renumber(&loop->dock, &held)) {
            take_over(loop, job, &held);
            return;
        }
        log_warn("job %d was on a node that is no longer there", job->id);
        mem_free(held.parts);
    }
    if (job->is_ending) {
        loop_cancelled(loop, job);
        return;
    }
    if (job->state == LIVE_PENDING && job->reason == LIVE_BECAUSE_RETRY)
        loop_wait_on(loop, job, history.track->past.since_s);
    loop_happens_why(loop, job, LIFE_RECOVERED_GONE, NULL);
}

/* --- all of them --------------------------------------------------------- */

/* Ids of a round, each of which takes four bytes here. A number above that is
 * a damaged one, or firnd has run for years: the policy begins afresh. */
enum { MOST_IDS = 1 << 24 };

struct turn {
    firn_job_id round_id, book_id;
};

static int by_round_id(const void *a, const void *b)
{
    const struct turn *p = a, *q = b;
    if (p->round_id != q->round_id)
        return p->round_id < q->round_id ? -1 : 1;
    return (p->book_id > q->book_id) - (p->book_id < q->book_id);
}

/* Reads the ids of the last round, by book id, and finds where its policy's
 * bytes begin.
 * Anything that does not read as it was written is as if it were not there. */
static size_t read_ids(struct loop *loop, struct firn_buf *text,
                       struct turn *turns, size_t nturns, size_t *nids)
{
    struct firn_error err = {0};
    size_t n = strlen(loop->desk.policy->name), at = 0, i = 0;
    int ids = 0;
    *nids = 0;
    if (store_get_meta(loop->store, "round", text, &err) != FIRN_OK ||
        text->n < n + 2 || strncmp(text->at, loop->desk.policy->name, n) != 0 ||
        text->at[n] != ' ')
        return text->n;
    const char *count = text->at + n + 1;
    if (!recover_number(&count, MOST_IDS, &ids) || *count != '\n')
        return text->n;
    *nids = (size_t)ids;
    while (at < text->n && text->at[at] != '\n')
        at++;
    for (at++; at < text->n && text->at[at] != '\n'; at++) {
        int book_id = 0, round_id = 0;
        const char *line = text->at + at;
        if (!recover_number(&line, INT_MAX / 2, &book_id) || *line++ != ' ' ||
            !recover_number(&line, INT_MAX / 2, &round_id) || *line != '\n')
            return text->n;
        while (i < nturns && turns[i].book_id < book_id)
            i++;
        if (i < nturns && turns[i].book_id == book_id &&
            (size_t)round_id < *nids)
            turns[i].round_id = round_id;
        at = (size_t)(line - text->at);
    }
    return at + 1;
}

static void skip_to(struct loop *loop, size_t round_id)
{
    while (loop->desk.books.n < round_id)
        vec_add(&loop->desk.books, FIRN_NO_JOB);
}

/* Restores the book ids of jobs that have left the round. */
static void recover_gone(struct loop *loop)
{
    struct firn_buf text = {0};
    struct firn_error none = {0};
    if (store_get_meta(loop->store, "gone", &text, &none) == FIRN_OK &&
        text.n > 0) {
        const char *at = text.at;
        int round_id = 0, book_id = 0;
        while (recover_number(&at, INT_MAX / 2, &round_id) && *at++ == ' ' &&
               recover_number(&at, INT_MAX / 2, &book_id) && *at++ == '\n')
            if ((size_t)round_id < loop->desk.books.n &&
                loop->desk.books.at[round_id] == FIRN_NO_JOB)
                loop->desk.books.at[round_id] = book_id;
    }
    buf_release(&text);
}

/* The jobs that began anew: loop_guard.c. */
static void recover_anew(struct loop *loop)
{
    struct firn_buf text = {0};
    struct firn_error none = {0};
    if (store_get_meta(loop->store, "anew", &text, &none) == FIRN_OK &&
        text.n > 0) {
        const char *at = text.at;
        int id = 0, attempt = 0;
        while (recover_number(&at, INT_MAX / 2, &id) && *at++ == ' ' &&
               recover_number(&at, INT_MAX / 2, &attempt) && *at++ == '\n') {
            struct live_job *job = book_job(loop->book, id);
            if (job == NULL || desk_track(&loop->desk, id) == NULL)
                continue;
            job->anew = attempt;
            desk_task_anew(&loop->desk, job);
        }
    }
    buf_release(&text);
}

/* All tracks first: the end of one job may end its partner's attempt. */
static enum firn_status begin_tracks(struct loop *loop,
                                     const struct turn *turns, size_t n,
                                     struct firn_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct live_job *job = book_job(loop->book, turns[i].book_id);
        struct track *track = desk_track_make(&loop->desk, job->id);
        if (job->attempt == 0)
            continue;
        if (strcmp(job->held, "-") != 0)
            track->open_attempt = job->attempt;
        FIRN_TRY(dock_layout(&loop->dock, job, err));
    }
    return FIRN_OK;
}

enum firn_status recover_jobs(struct loop *loop, struct firn_error *err)
{
    struct firn_buf text = {0};
    size_t n = 0, nids = 0, count = book_count(loop->book);
    struct turn *turns = mem_new(count + 1, sizeof *turns);
    for (size_t i = 0; i < count; i++) {
        const struct live_job *job = book_at(loop->book, i);
        if (!live_state_is_over(job->state))
            turns[n++] = (struct turn){INT_MAX, job->id};
    }
    enum firn_status status = begin_tracks(loop, turns, n, err);
    if (status != FIRN_OK) {
        mem_free(turns);
        return status;
    }
    recover_anew(loop);
    size_t at = read_ids(loop, &text, turns, n, &nids);
    qsort(turns, n, sizeof *turns, by_round_id);
    for (size_t i = 0; i < n; i++) {
        skip_to(loop,
                turns[i].round_id < INT_MAX ? (size_t)turns[i].round_id : nids);
        recover_job(loop, book_job(loop->book, turns[i].book_id));
    }
    skip_to(loop, nids);
    if (nids > 0) /* of the same policy */
        recover_gone(loop);
    recover_partners(loop);
    struct firn_error bad = {0};
    if (at < text.n &&
        round_load(loop->desk.round,
                   (struct firn_bytes){text.at + at, text.n - at},
                   &bad) != FIRN_OK)
        log_warn("policy %s begins afresh: %s", loop->desk.policy->name,
                 bad.text);
    buf_release(&text);
    mem_free(turns);
    if (book_broken(loop->book)->status != FIRN_OK)
        return firn_fail(err, book_broken(loop->book)->status, "%s",
                         book_broken(loop->book)->text);
    return FIRN_OK;
}
