/* roster.c - the jobs that a live engine keeps: who is there, whose turn it is.
 *
 * Invariants:
 * (1) a GPU is given out only when every attempt that held it is gone: `held`
 * is emptied by the engine, when the processes are gone and not before; (2) who
 * waits is started in the order of the steps, but nobody waits for one whose
 * GPUs are not free; (3) time is that of day at the beginning, and passes as
 * the monotonic clock does: it never goes back and does not jump; (4) jobs lie
 * by id, so that what is done for all is done in one order.
 *
 * Cost: a search is a walk, a start looks at every attempt for each GPU that is
 * wanted; attempts are at most as many as GPUs times sharers.
 */
#include "engine/roster.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/holding.h"
#include <string.h>
#include <time.h>

static const double first_wait_s = 0.125, longest_wait_s = 60;
static const double lived_s = 30; /* longer: no start in vain */

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
    if (!holding_is_same_run(&job->held, gpus))
        return true;
    holding_copy(&job->held, gpus);
    return false;
}

bool roster_unwant(struct roster *r, struct rosterjob *job,
                   enum firn_event_kind kind, enum firn_end end)
{
    holding_release(&job->want);
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
        return firn_fail(err, FIRN_ENOENT,
                         "job %d is to be taken over, and nobody knows it",
                         job->id);
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
    job->began_s = 0; /* long ago, for all we know */
    job->has_run = launch->has_run;
    job->phase = FIRN_PHASE_STARTING;
}

void roster_requeue(struct roster *r, struct rosterjob *job, bool was_planned)
{
    bool was_short = roster_now_s(r) - job->began_s < lived_s;
    job->phase = FIRN_PHASE_QUEUED;
    job->again_s = 0;
    if (was_planned || !was_short)
        job->ntries = 0;
    else
        roster_retry(r, job, "it ended as soon as it was started");
}

void roster_retry(struct roster *r, struct rosterjob *job, const char *why)
{
    double wait_s = first_wait_s;
    for (int i = 0; i < job->ntries && wait_s < longest_wait_s; i++)
        wait_s *= 2;
    job->ntries++;
    job->again_s = roster_now_s(r) + wait_s;
    log_warn("job %d: not started for %.2f s: %s", job->id, wait_s, why);
}

void roster_unsure(struct rosterjob *job, const char *file, int error)
{
    if (!job->is_unsure)
        log_warn("job %d: cannot read '%s/epoch-%lld%s%s': %s; firn decides "
                 "nothing about this job until it can",
                 job->id, job->folder != NULL ? job->folder : "",
                 (long long)job->attempt, file[0] != '\0' ? "/" : "", file,
                 strerror(error));
    job->is_unsure = true;
}

void roster_sure(struct rosterjob *job)
{
    if (job->is_unsure)
        log_info("job %d: its files can be read again", job->id);
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

/* How many attempts are on this GPU, and is one of them not of a sharer? */
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

/* (1) */
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
            job->again_s <= now_s &&
            (first == NULL || job->turn < first->turn) &&
            is_free(r, limits, &job->want))
            first = job; /* (2) */
    }
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
                                         .epoch = job->attempt,
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
                                             .epoch = job->attempt,
                                             .phase = (int)phase});
}

bool roster_has_events(const struct roster *r)
{
    return r->nreported < r->events.n;
}
