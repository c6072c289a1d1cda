/* slurm_queue.c - compares squeue's answer with the engine's records.
 *
 * A Slurm job is ours by its tag: cell, job and attempt. Slurm's job numbers
 * mean nothing across a crash of its controller, which forgets the last
 * seconds, gives numbers out again, and revives cancelled jobs. So:
 *
 * (1) an attempt's Slurm job is found by tag in every answer; its number is the
 *     one in the last answer;
 * (2) an answer counts for an attempt only if it was asked for after sbatch had
 *     returned;
 * (3) a Slurm job with our cell that belongs to no current attempt is an
 * orphan: once two answers show it, it is cancelled until it is gone. An
 * attempt that has just ended disappears by itself.
 *
 * A heterogeneous job is one line for each component; it is over when all are.
 */
#define _GNU_SOURCE
#include "base/log.h"
#include "base/str.h"
#include "engine/holding.h"
#include "engine/slurmwork.h"
#include <math.h>
#include <stdio.h>

static const double orphan_every_s = 2;

/* The state of a job with components in these states. */
static enum slurm_state both(enum slurm_state a, enum slurm_state b)
{
    bool is_over_a = slurm_state_is_over(a), is_over_b = slurm_state_is_over(b);
    if (is_over_a != is_over_b)
        return is_over_a ? b : a;
    if (is_over_a)
        return a > b ? a : b; /* the worse */
    if (a == SLURM_RUNNING || b == SLURM_RUNNING)
        return SLURM_RUNNING;
    return a > b ? a : b;
}

/* (1) The Slurm job with this tag; of several, the first that is not over. */
static const struct slurm_job *find(const struct slurm *slurm,
                                    const struct slurm_jobs *jobs,
                                    const struct slurm_tag *tag,
                                    const char *user, int64_t *id,
                                    enum slurm_state *state)
{
    const struct slurm_job *found = NULL;
    for (size_t i = 0; i < jobs->at.n; i++) {
        const struct slurm_job *at = &jobs->at.at[i];
        if (!at->is_ours || at->pilot != 0 || at->tag.cell != tag->cell ||
            at->tag.job != tag->job || at->tag.attempt != tag->attempt ||
            !slurm_is_user(slurm, user, at->user))
            continue;
        if (found != NULL && *id == at->id)
            *state = both(*state, at->state);
        else if (found == NULL || slurm_state_is_over(*state)) {
            *id = at->id;
            *state = at->state;
            found = at;
        }
    }
    return found;
}

/* Why Slurm does not start it: of the reasons of its components, that which
 * keeps it longest ("Resources" of the first may hide a limit of the next). */
static const char *reason_of(const struct slurm_jobs *jobs,
                             const struct slurm_job *found)
{
    const char *reason = found->reason;
    const struct slurm_job *end = jobs->at.at + jobs->at.n;
    for (const struct slurm_job *at = found; at < end && at->id == found->id;
         at++) /* by id and component */
        if (at->state == SLURM_PENDING &&
            slurm_pending_of(at->reason) > slurm_pending_of(reason))
            reason = at->reason;
    return reason;
}

static void look_for(struct slurm *slurm, struct slurmjob *job,
                     const struct slurm_jobs *jobs, double asked_s)
{
    struct slurm_tag tag = {slurm->cell, job->base.id, job->base.attempt};
    int64_t id = 0;
    enum slurm_state state = SLURM_PENDING;
    if (job->base.held.nparts == 0 || job->inbox[0] != '\0' ||
        job->submit == SUBMIT_NONE)
        return;
    const struct slurm_job *found =
        find(slurm, jobs, &tag, job->user, &id, &state);
    if (found != NULL) {
        slurm_seen(slurm, job, id, state);
        snprintf(job->reason, sizeof job->reason, "%.60s",
                 reason_of(jobs, found));
    } else if (job->submit != SUBMIT_ASKED && asked_s >= job->known_s) {
        job->is_seen = false; /* (2) */
        job->nmissing++;
        job->look_s = 0;
    }
}

/* --- orphans -------------------------------------------------------------- */

static bool is_wanted(const struct slurm *slurm, const struct slurm_job *at)
{
    const struct slurmjob *job = slurm_find(slurm, (firn_job_id)at->tag.job);
    return job != NULL && job->base.held.nparts > 0 &&
           job->base.attempt == at->tag.attempt && job->slurm_id == at->id &&
           slurm_is_user(slurm, job->user, at->user);
}

static struct slurm_orphan *orphan_of(struct slurm *slurm,
                                      const struct slurm_job *at)
{
    for (size_t i = 0; i < slurm->orphans.n; i++)
        if (slurm->orphans.at[i].id == at->id &&
            slurm->orphans.at[i].tag.job == at->tag.job &&
            slurm->orphans.at[i].tag.attempt == at->tag.attempt)
            return &slurm->orphans.at[i];
    struct slurm_orphan orphan = {
        .id = at->id, .tag = at->tag, .since_s = slurm_now_s(slurm)};
    str_copy(orphan.user, sizeof orphan.user,
             slurm_user_listed(slurm, at->user));
    vec_add(&slurm->orphans, orphan);
    return &slurm->orphans.at[slurm->orphans.n - 1];
}

/* Its attempt has just ended, and Slurm has not seen that yet: cancelled now,
 * it would be CANCELLED in Slurm's accounting. */
static bool is_ending(const struct slurm *slurm,
                      const struct slurm_orphan *orphan)
{
    for (size_t i = 0; i < slurm->releases.n; i++) {
        const struct slurm_release *release = &slurm->releases.at[i];
        if (release->tag.job == orphan->tag.job &&
            release->tag.attempt == orphan->tag.attempt &&
            slurm_now_s(slurm) < release->since_s + fmax(slurm->force_s, 1))
            return !release->was_withdrawn;
    }
    return false;
}

static void cancel(struct slurm *slurm, struct slurm_orphan *orphan)
{
    double now_s = slurm_now_s(slurm);
    if (orphan->nseen < 2 || is_ending(slurm, orphan) ||
        now_s < orphan->cancel_s + orphan_every_s)
        return;
    if (!(orphan->cancel_s > 0))
        log_warn("job %lld: Slurm's job %lld belongs to attempt %lld, which is "
                 "not current; firn cancels it",
                 (long long)orphan->tag.job, (long long)orphan->id,
                 (long long)orphan->tag.attempt);
    orphan->cancel_s = now_s;
    slurm_cancel(slurm, orphan->user, &orphan->tag, orphan->id, false);
}

/* (3) */
static void sweep(struct slurm *slurm, const struct slurm_jobs *jobs)
{
    for (size_t i = 0; i < slurm->orphans.n; i++)
        slurm->orphans.at[i].nseen *= -1; /* not in this answer so far */
    for (size_t i = 0; i < jobs->at.n; i++) {
        const struct slurm_job *at = &jobs->at.at[i];
        bool is_part = i > 0 && jobs->at.at[i - 1].id == at->id;
        if (is_part || !at->is_ours || at->pilot != 0 ||
            at->tag.cell != slurm->cell || slurm_state_is_over(at->state) ||
            is_wanted(slurm, at))
            continue;
        struct slurm_orphan *orphan = orphan_of(slurm, at);
        orphan->nseen = 1 - orphan->nseen;
        if (at->state != SLURM_COMPLETING)
            cancel(slurm, orphan);
    }
    size_t n = 0;
    for (size_t i = 0; i < slurm->orphans.n; i++)
        if (slurm->orphans.at[i].nseen > 0)
            slurm->orphans.at[n++] = slurm->orphans.at[i];
    slurm->orphans.n = n;
}

/* Forgets GPUs of ended attempts that Slurm no longer counts. */
static void drop_releases(struct slurm *slurm, const struct slurm_jobs *jobs,
                          double asked_s)
{
    size_t n = 0;
    for (size_t i = 0; i < slurm->releases.n; i++) {
        struct slurm_release *release = &slurm->releases.at[i];
        int64_t id = 0;
        enum slurm_state state = SLURM_PENDING;
        bool is_there = find(slurm, jobs, &release->tag, release->user, &id,
                             &state) != NULL &&
                        !slurm_state_is_over(state);
        if (!is_there && asked_s > release->since_s)
            holding_release(&release->held);
        else
            slurm->releases.at[n++] = *release;
    }
    slurm->releases.n = n;
}

void slurm_queue_take(struct slurm *slurm, const struct slurm_jobs *jobs,
                      double asked_s)
{
    if (slurm->cell == 0)
        return; /* no job was ever submitted */
    for (size_t i = 0; i < slurm->roster.jobs.n; i++)
        look_for(slurm, slurm_at(slurm, i), jobs, asked_s);
    slurm_pilots_take(slurm, jobs, asked_s);
    slurm_returns_take(slurm, jobs, asked_s);
    slurm->queue_known_s = asked_s;
    bool is_sure = slurm_nodes_use(slurm, asked_s); /* before sweep() */
    slurm_pending_look(slurm, is_sure);
    sweep(slurm, jobs);
    slurm_times_take(slurm, jobs);
    drop_releases(slurm, jobs, asked_s);
}
