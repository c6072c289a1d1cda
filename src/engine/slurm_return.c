/* slurm_return.c - further allocations that go back to Slurm.
 *
 * A pilot that is not wanted any more is cancelled by name and number, once a
 * second, until Slurm does not have it. Till then its GPUs count as ours, so
 * that no foreign job is suspected there. A pilot in Slurm's queue that belongs
 * to no list (its attempt is over, or a crashed controller revived it) is given
 * back the same way, once two answers show it.
 */
#define _GNU_SOURCE
#include "base/log.h"
#include "base/str.h"
#include "engine/holding.h"
#include "engine/slurmwork.h"
#include <stdio.h>

enum { BOARDS = 16 };
static const double cancel_every_s = 1;

/* As its user; the launcher cancels by number only. */
static void cancel(struct slurm *slurm, struct slurm_return *back)
{
    char number[32], mark[SLURM_TAG_MAX], name[SLURM_TAG_MAX + 8];
    double now_s = slurm_now_s(slurm);
    bool is_known = back->pilot.slurm_id > 0;
    if (now_s < back->cancel_s + cancel_every_s ||
        (back->user[0] != '\0' && !is_known))
        return;
    back->cancel_s = now_s;
    slurm_pilot_print(&back->tag, back->pilot.number, mark);
    snprintf(name, sizeof name, "--name=%s", mark);
    snprintf(number, sizeof number, "%lld", (long long)back->pilot.slurm_id);
    const char *argv[] = {"scancel", "--quiet", name, is_known ? number : NULL,
                          NULL};
    slurm_cancel_by(slurm, back->user, &back->tag, argv);
    slurm_poll_soon(slurm);
}

static struct slurm_return *add(struct slurm *slurm,
                                const struct slurm_tag *tag, const char *user,
                                const struct slurm_pilot *pilot)
{
    struct slurm_return back = {.tag = *tag, .pilot = *pilot};
    str_copy(back.user, sizeof back.user, user);
    back.pilot.state = PILOT_RETURNING;
    back.pilot.nmissing = 0;
    back.pilot.known_s = slurm_now_s(slurm);
    vec_add(&slurm->returns, back);
    return &slurm->returns.at[slurm->returns.n - 1];
}

void slurm_return(struct slurm *slurm, const struct slurmjob *job,
                  const struct slurm_pilot *pilot)
{
    struct slurm_tag tag = {slurm->cell, job->base.id, job->base.attempt};
    cancel(slurm, add(slurm, &tag, job->user, pilot));
}

void slurm_return_all(struct slurm *slurm, struct slurmjob *job)
{
    for (size_t i = 0; i < job->pilots.n; i++)
        slurm_return(slurm, job, &job->pilots.at[i]);
    vec_release(&job->pilots);
    holding_release(&job->own);
    holding_release(&job->before);
    holding_release(&job->after);
    job->npilots = job->nresizes = 0;
    job->nfailures = 0;
    job->waits_s = job->again_s = job->ended_s = 0;
    job->has_lost_pilot = job->must_restart = false;
}

void slurm_return_known(struct slurm *slurm, firn_job_id job, int64_t attempt,
                        int64_t number, int64_t slurm_id)
{
    for (size_t i = 0; i < slurm->returns.n; i++) {
        struct slurm_return *back = &slurm->returns.at[i];
        if (back->tag.job == job && back->tag.attempt == attempt &&
            back->pilot.number == number) {
            back->pilot.slurm_id = slurm_id;
            back->pilot.known_s = slurm_now_s(slurm);
            back->cancel_s = 0;
            cancel(slurm, back);
        }
    }
}

const struct slurm_job *slurm_pilot_find(const struct slurm *slurm,
                                         const struct slurm_jobs *jobs,
                                         const struct slurm_tag *tag,
                                         const char *user, int64_t number)
{
    const struct slurm_job *found = NULL;
    for (size_t i = 0; i < jobs->at.n; i++) {
        const struct slurm_job *at = &jobs->at.at[i];
        if (at->is_ours && at->pilot == number &&
            slurm_is_user(slurm, user, at->user) && at->tag.cell == tag->cell &&
            at->tag.job == tag->job && at->tag.attempt == tag->attempt &&
            (found == NULL || slurm_state_is_over(found->state)))
            found = at;
    }
    return found;
}

/* --- pilots of no list ---------------------------------------------------- */

static bool is_listed(const struct slurm *slurm, const struct slurm_job *at)
{
    const struct slurmjob *job = (const struct slurmjob *)roster_find(
        &slurm->roster, (firn_job_id)at->tag.job);
    if (job != NULL && job->is_unread)
        return true; /* its list was not read yet */
    for (size_t i = 0; job != NULL && i < job->pilots.n; i++)
        if (job->base.attempt == at->tag.attempt &&
            job->pilots.at[i].number == at->pilot)
            return true;
    for (size_t i = 0; i < slurm->returns.n; i++)
        if (slurm->returns.at[i].tag.job == at->tag.job &&
            slurm->returns.at[i].tag.attempt == at->tag.attempt &&
            slurm->returns.at[i].pilot.number == at->pilot)
            return true;
    return false;
}

static void adopt_orphans(struct slurm *slurm, const struct slurm_jobs *jobs)
{
    for (size_t i = 0; i < jobs->at.n; i++) {
        const struct slurm_job *at = &jobs->at.at[i];
        if (!at->is_ours || at->pilot == 0 || at->tag.cell != slurm->cell ||
            slurm_state_is_over(at->state) || at->state == SLURM_COMPLETING ||
            is_listed(slurm, at))
            continue;
        log_warn("job %lld: Slurm's job %lld is an allocation that attempt "
                 "%lld does not use; firn gives it back",
                 (long long)at->tag.job, (long long)at->id,
                 (long long)at->tag.attempt);
        struct slurm_pilot pilot = {.number = at->pilot, .slurm_id = at->id};
        const char *user = slurm_user_listed(slurm, at->user);
        (void)add(slurm, &at->tag, user, &pilot); /* the next answer cancels */
    }
}

void slurm_returns_take(struct slurm *slurm, const struct slurm_jobs *jobs,
                        double asked_s)
{
    size_t n = 0;
    for (size_t i = 0; i < slurm->returns.n; i++) {
        struct slurm_return back = slurm->returns.at[i];
        struct pilot_row row = {PILOT_RETURNING, 0};
        const struct slurm_job *found = slurm_pilot_find(
            slurm, jobs, &back.tag, back.user, back.pilot.number);
        bool counts = asked_s >= back.pilot.known_s;
        if (found != NULL && !slurm_state_is_over(found->state)) {
            back.pilot.slurm_id = found->id;
            back.pilot.nmissing = 0;
            (void)pilot_next(PILOT_RETURNING,
                             found->state == SLURM_PENDING ? PILOT_ON_PENDING
                                                           : PILOT_ON_RUNS,
                             &row);
        } else if (counts && found != NULL) {
            (void)pilot_next(PILOT_RETURNING, PILOT_ON_OVER, &row);
        } else if (counts && ++back.pilot.nmissing >= 2 &&
                   slurm_now_s(slurm) >= back.pilot.settle_s) {
            (void)pilot_next(PILOT_RETURNING, PILOT_ON_MISSING, &row);
        }
        bool is_ending = found != NULL && found->state == SLURM_COMPLETING;
        if ((row.acts & PILOT_DO_CANCEL) != 0 && !is_ending)
            cancel(slurm, &back);
        if (row.next != PILOT_GONE)
            slurm->returns.at[n++] = back;
    }
    slurm->returns.n = n;
    adopt_orphans(slurm, jobs);
}

void slurm_returns_add(const struct slurm *slurm, firn_node_id node,
                       uint64_t ours[16])
{
    for (size_t i = 0; i < slurm->returns.n; i++) {
        const struct firn_part *part = &slurm->returns.at[i].pilot.part;
        if (part->node == node && part->board < BOARDS)
            ours[part->board] |= part->gpus;
    }
}
