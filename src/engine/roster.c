/* roster.c - the jobs of a live engine: their order, their GPUs, their events.
 *
 * Invariants:
 * (1) a GPU is given out only when every attempt that held it is gone: the
 *     engine empties `held` when the processes are gone, not before;
 * (2) waiting jobs are started in the order of their steps, but a job whose
 *     GPUs are free does not wait for one whose GPUs are not;
 * (3) time starts at the time of day and then follows the monotonic clock: it
 *     never goes back and does not jump;
 * (4) jobs are sorted by id, so that loops over jobs have one order.
 *
 * Cost: finding a job is a linear search; a start looks at every attempt for
 * each wanted GPU. There are at most GPUs times jobs_per_gpu attempts.
 */
#include "engine/roster.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/holding.h"
#include <string.h>
#include <time.h>

static const double first_wait_s = 0.125, longest_wait_s = 60;
static const double short_life_s = 30; /* a shorter attempt delays the next */

void roster_open(struct roster *r)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    r->offset_s =
        (double)t.tv_sec + 1e-9 * (double)t.tv_nsec - clock_elapsed_s();
    r->poll = r->timer = r->notes = -1;
}

double roster_now_s(const struct roster *r)
{
    return clock_elapsed_s() + r->offset_s; /* (3) */
}

/* --- jobs ----------------------------------------------------------------- */

struct rosterjob *roster_find(const struct roster *r, firn_job_id id)
{
    for (size_t i = 0; i < r->jobs.n; i++)
        if (r->jobs.at[i]->id == id)
            return r->jobs.at[i];
    return NULL;
}

struct rosterjob *roster_add(struct roster *r, firn_job_id id, size_t size)
{
    struct rosterjob *job = roster_find(r, id);
    if (job != NULL)
        return job;
    job = mem_new(1, size);
    *job =
        (struct rosterjob){.id = id, .phase = FIRN_PHASE_QUEUED, .watch = -1};
    size_t i = r->jobs.n;
    vec_add(&r->jobs, job);
    for (; i > 0 && r->jobs.at[i - 1]->id > id; i--) /* (4) */
        r->jobs.at[i] = r->jobs.at[i - 1];
    r->jobs.at[i] = job;
    return job;
}

void roster_drop(struct roster *r, struct rosterjob *job)
{
    size_t i = 0;
    while (r->jobs.at[i] != job)
        i++;
    for (; i + 1 < r->jobs.n; i++)
        r->jobs.at[i] = r->jobs.at[i + 1];
    r->jobs.n--;
    holding_release(&job->want);
    mem_free(job);
}

void roster_want(struct roster *r, struct rosterjob *job,
                 const struct firn_alloc *gpus)
{
    holding_copy(&job->want, gpus);
    job->turn = r->turns++;
}

bool roster_move(struct roster *r, struct rosterjob *job,
                 const struct firn_alloc *gpus)
{
    roster_want(r, job, gpus);
    job->again_s = 0;
    job->ntries = 0;
    if (job->held.nparts == 0 || job->phase == FIRN_PHASE_LEAVING)
        return false;
    if (holding_is_same_run(&job->held, gpus)) {
        holding_copy(&job->held, gpus);
        return false;
    }
    if (!job->is_numbered)
        return true;
    roster_unnumber(job); /* it gets another one */
    roster_report_end(r, job, FIRN_EVENT_LEFT, FIRN_END_LOST);
    return false;
}

bool roster_unwant(struct roster *r, struct rosterjob *job,
                   enum firn_event_kind kind, enum firn_end end)
{
    holding_release(&job->want);
    if (job->is_numbered && kind == FIRN_EVENT_LEFT)
        end = FIRN_END_LOST; /* the attempt has had no process */
    roster_unnumber(job);
    if (job->held.nparts > 0)
        return true;
    roster_report_end(r, job, kind, end);
    return false;
}

enum firn_status roster_launch(const struct rosterjob *job,
                               const struct firn_engine_host *host,
                               struct firn_launch *out, struct firn_error *err)
{
    if (host->launch == NULL || !host->launch(host->arg, job->id, out))
        return firn_fail(
            err, FIRN_ENOENT,
            "job %d cannot be taken over: firnd has no record of it", job->id);
    return FIRN_OK;
}

void roster_enter(struct rosterjob *job, const struct firn_launch *launch)
{
    job->folder = mem_strdup(launch->folder);
    job->grace_s = launch->grace_s;
    job->can_checkpoint = launch->can_checkpoint;
}

void roster_take_over(struct rosterjob *job, const struct firn_launch *launch)
{
    holding_copy(&job->held, &job->want);
    roster_enter(job, launch);
    job->began_s = 0; /* not known: long ago */
    job->has_run = launch->has_run;
    job->phase = FIRN_PHASE_STARTING;
}

void roster_requeue(struct roster *r, struct rosterjob *job, bool was_planned)
{
    bool was_short = roster_now_s(r) - job->began_s < short_life_s;
    job->phase = FIRN_PHASE_QUEUED;
    job->again_s = 0;
    if (was_planned || !was_short)
        job->ntries = 0;
    else
        roster_retry(r, job, "its last attempt ended soon after its start");
}

void roster_retry(struct roster *r, struct rosterjob *job, const char *why)
{
    double wait_s = first_wait_s;
    for (int i = 0; i < job->ntries && wait_s < longest_wait_s; i++)
        wait_s *= 2;
    job->ntries++;
    job->again_s = roster_now_s(r) + wait_s;
    log_warn("job %d: next try to start it in %.2f s: %s", job->id, wait_s,
             why);
}

void roster_unsure(struct rosterjob *job, const char *file, int error)
{
    if (!job->is_unsure)
        log_warn("job %d: cannot read '%s/epoch-%lld%s%s': %s; firn decides "
                 "nothing about this job until it is readable",
                 job->id, job->folder != NULL ? job->folder : "",
                 (long long)job->attempt, file[0] != '\0' ? "/" : "", file,
                 strerror(error));
    job->is_unsure = true;
}

void roster_sure(struct rosterjob *job)
{
    if (job->is_unsure)
        log_info("job %d: its files are readable again", job->id);
    job->is_unsure = false;
}

/* --- GPUs ----------------------------------------------------------------- */

bool roster_is_held(const struct roster *r, const struct firn_part *part,
                    uint64_t bit)
{
    for (size_t i = 0; i < r->jobs.n; i++)
        if (holding_has(&r->jobs.at[i]->held, part, bit))
            return true;
    return false;
}

/* Counts the attempts on this GPU; `is_whole`: one of them does not share. */
static int holders(const struct roster *r, const struct firn_part *part,
                   uint64_t bit, bool *is_whole)
{
    int n = 0;
    for (size_t i = 0; i < r->jobs.n; i++) {
        const struct firn_alloc *held = &r->jobs.at[i]->held;
        if (!holding_has(held, part, bit))
            continue;
        n++;
        *is_whole = *is_whole || !held->is_shared;
    }
    return n;
}

/* All these GPUs are free for a start: (1). */
static bool is_free(const struct roster *r, const struct roster_limits *limits,
                    const struct firn_alloc *want)
{
    int most = want->is_shared ? limits->jobs_per_gpu : 1;
    if (limits->is_taken != NULL && limits->is_taken(limits->engine, want))
        return false;
    for (int i = 0; i < want->nparts; i++)
        for (int k = 0; k < FIRN_BOARD_GPUS; k++) {
            uint64_t bit = (uint64_t)1 << k;
            bool is_whole = false;
            if ((want->parts[i].gpus & bit) == 0)
                continue;
            int n = holders(r, &want->parts[i], bit, &is_whole);
            if (is_whole || n >= most)
                return false;
        }
    return true;
}

struct rosterjob *roster_next_to_start(const struct roster *r,
                                       const struct roster_limits *limits)
{
    struct rosterjob *first = NULL;
    double now_s = roster_now_s(r);
    for (size_t i = 0; i < r->jobs.n; i++) {
        struct rosterjob *job = r->jobs.at[i];
        if (job->phase == FIRN_PHASE_QUEUED && job->want.nparts > 0 &&
            !job->is_numbered && job->again_s <= now_s &&
            (first == NULL || job->turn < first->turn) &&
            is_free(r, limits, &job->want))
            first = job; /* (2) */
    }
    return first;
}

struct rosterjob *roster_next_to_launch(const struct roster *r)
{
    struct rosterjob *first = NULL;
    for (size_t i = 0; i < r->jobs.n; i++)
        if (r->jobs.at[i]->is_numbered &&
            (first == NULL || r->jobs.at[i]->turn < first->turn))
            first = r->jobs.at[i];
    return first;
}

/* --- events --------------------------------------------------------------- */

void roster_report(struct roster *r, struct firn_event event)
{
    event.at_s = roster_now_s(r);
    vec_add(&r->events, event);
}

void roster_report_end(struct roster *r, const struct rosterjob *job,
                       enum firn_event_kind kind, enum firn_end end)
{
    roster_report(r, (struct firn_event){.kind = kind,
                                         .job = job->id,
                                         .attempt = job->attempt,
                                         .end = (int)end});
}

void roster_phase(struct roster *r, struct rosterjob *job,
                  enum firn_phase phase)
{
    if (job->phase == phase)
        return;
    job->phase = phase;
    job->has_run = job->has_run || phase == FIRN_PHASE_RUNNING;
    if (phase != FIRN_PHASE_QUEUED)
        roster_report(r, (struct firn_event){.kind = FIRN_EVENT_PHASE,
                                             .job = job->id,
                                             .attempt = job->attempt,
                                             .prepare_s = job->prepared_s,
                                             .phase = (int)phase});
}

bool roster_has_events(const struct roster *r)
{
    return r->nreported < r->events.n;
}
