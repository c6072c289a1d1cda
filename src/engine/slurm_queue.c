/* slurm_queue.c - what squeue says, laid beside what we think is there.
 *
 * A Slurm job is ours by its tag: cell, job and epoch. Numbers of Slurm's mean
 * nothing across a crash of its controller, which forgets the last seconds,
 * gives numbers out again, and brings back what was cancelled. So:
 *
 * (1) an epoch's Slurm job is found by tag in every answer; its number is what
 *     the last answer says;
 * (2) an answer counts for an epoch only if it was asked for after sbatch had
 *     returned;
 * (3) a tag of ours that belongs to no epoch that is there is cancelled, again
 *     and again until it is gone, once it was seen twice: an epoch that just
 *     ended goes by itself.
 *
 * A heterogeneous job is one line for each component; it is over when all are.
 */
#define _GNU_SOURCE
#include "base/log.h"
#include "engine/holding.h"
#include "engine/slurmwork.h"
#include <stdio.h>

static const double answer_s = 20, stray_every_s = 2;

void slurm_seen(struct slurm *l, struct slurmjob *job, int64_t id,
                enum slurm_state state)
{
    if (job->slurm_id != 0 && job->slurm_id != id)
        log_warn("job %d: epoch %lld is now Slurm's job %lld", job->base.id,
                 (long long)job->base.epoch, (long long)id);
    if (!job->is_seen || job->state != state)
        job->look_s = 0;
    job->slurm_id = id;
    job->submit = SUBMIT_DONE;
    job->said[0] = '\0';
    job->is_seen = true;
    job->state = state;
    job->nmissing = 0;
    bool is_revived = state == SLURM_PENDING && job->has_pid;
    job->nrevived = is_revived ? job->nrevived + 1 : 0;
    if (l->away_s > 0)
        job->look_s = 0;
}

/* Of two components, what is true of both. */
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

/* (1) Of several jobs with one tag, the first that is not over. */
static const struct slurm_job *find(const struct slurm_jobs *jobs,
                                    const struct slurm_tag *tag, int64_t *id,
                                    enum slurm_state *state)
{
    const struct slurm_job *found = NULL;
    for (size_t i = 0; i < jobs->at.n; i++) {
        const struct slurm_job *at = &jobs->at.at[i];
        if (!at->is_ours || at->tag.cell != tag->cell ||
            at->tag.job != tag->job || at->tag.epoch != tag->epoch)
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

static void look_for(struct slurm *l, struct slurmjob *job,
                     const struct slurm_jobs *jobs, double asked_s)
{
    struct slurm_tag tag = {l->cell, job->base.id, job->base.epoch};
    int64_t id = 0;
    enum slurm_state state = SLURM_PENDING;
    if (job->base.held.nparts == 0 || job->inbox[0] != '\0' ||
        job->submit == SUBMIT_NONE)
        return;
    const struct slurm_job *found = find(jobs, &tag, &id, &state);
    if (found != NULL) {
        slurm_seen(l, job, id, state);
        job->seen_s = asked_s;
        snprintf(job->reason, sizeof job->reason, "%.60s", found->reason);
    } else if (job->submit != SUBMIT_ASKED && asked_s >= job->known_s) {
        job->is_seen = false; /* (2) */
        job->nmissing++;
        job->look_s = 0;
    }
}

/* --- what nobody wants ---------------------------------------------------- */

static bool is_wanted(const struct slurm *l, const struct slurm_job *at)
{
    const struct slurmjob *job = slurm_find(l, (firn_job_id)at->tag.job);
    return job != NULL && job->base.held.nparts > 0 &&
           job->base.epoch == at->tag.epoch && job->slurm_id == at->id;
}

static struct slurm_stray *stray_of(struct slurm *l, const struct slurm_job *at)
{
    for (size_t i = 0; i < l->strays.n; i++)
        if (l->strays.at[i].id == at->id &&
            l->strays.at[i].tag.job == at->tag.job &&
            l->strays.at[i].tag.epoch == at->tag.epoch)
            return &l->strays.at[i];
    struct slurm_stray stray = {
        .id = at->id, .tag = at->tag, .since_s = slurm_now_s(l)};
    vec_add(&l->strays, stray);
    return &l->strays.at[l->strays.n - 1];
}

static void cancel(struct slurm *l, struct slurm_stray *stray)
{
    char id[32], mark[SLURM_TAG_MAX + 8];
    const char *argv[] = {"scancel", "--quiet",
                          slurm_mark_option(&stray->tag, mark), id, NULL};
    double now_s = slurm_now_s(l);
    if (stray->nseen < 2 || now_s < stray->cancel_s + stray_every_s)
        return;
    if (!(stray->cancel_s > 0))
        log_warn("Slurm's job %lld (job %lld, epoch %lld) is nobody's any "
                 "more; it is cancelled",
                 (long long)stray->id, (long long)stray->tag.job,
                 (long long)stray->tag.epoch);
    stray->cancel_s = now_s;
    snprintf(id, sizeof id, "%lld", (long long)stray->id);
    slurm_run(l, argv,
              &(struct command){.limit_s = answer_s, .tag = SLURM_CMD_CANCEL});
}

/* (3) */
static void sweep(struct slurm *l, const struct slurm_jobs *jobs)
{
    for (size_t i = 0; i < l->strays.n; i++)
        l->strays.at[i].nseen = -l->strays.at[i].nseen; /* not yet again */
    for (size_t i = 0; i < jobs->at.n; i++) {
        const struct slurm_job *at = &jobs->at.at[i];
        bool is_part = i > 0 && jobs->at.at[i - 1].id == at->id;
        if (is_part || !at->is_ours || at->tag.cell != l->cell ||
            slurm_state_is_over(at->state) || is_wanted(l, at))
            continue;
        struct slurm_stray *stray = stray_of(l, at);
        stray->nseen = 1 - stray->nseen;
        if (at->state != SLURM_COMPLETING)
            cancel(l, stray);
    }
    size_t n = 0;
    for (size_t i = 0; i < l->strays.n; i++)
        if (l->strays.at[i].nseen > 0)
            l->strays.at[n++] = l->strays.at[i];
    l->strays.n = n;
}

/* GPUs of epochs that are gone are not ours for ever. */
static void drop_rests(struct slurm *l, const struct slurm_jobs *jobs,
                       double asked_s)
{
    size_t n = 0;
    for (size_t i = 0; i < l->rests.n; i++) {
        struct slurm_rest *rest = &l->rests.at[i];
        int64_t id = 0;
        enum slurm_state state = SLURM_PENDING;
        bool is_there = find(jobs, &rest->tag, &id, &state) != NULL &&
                        !slurm_state_is_over(state);
        if (!is_there && asked_s > rest->since_s)
            holding_release(&rest->held);
        else
            l->rests.at[n++] = *rest;
    }
    l->rests.n = n;
}

void slurm_queue_take(struct slurm *l, const struct slurm_jobs *jobs,
                      double asked_s)
{
    if (l->cell == 0)
        return; /* no job of ours was ever there */
    for (size_t i = 0; i < l->roster.jobs.n; i++)
        look_for(l, slurm_at(l, i), jobs, asked_s);
    sweep(l, jobs);
    drop_rests(l, jobs, asked_s);
}
