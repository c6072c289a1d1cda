/* slurm_times.c - when attempts began and ended, by Slurm's own account.
 *
 * The engine reports an attempt's end when its exit file lies there and its
 * locks are free. Slurm notes the end when its controller hears of it, which
 * may be seconds later on a busy cluster, and its start is later than the
 * submission by the time in Slurm's queue. So that firn's accounting agrees
 * with Slurm's to the second, the host is told both times once Slurm has them
 * (FIRN_EVENT_TIMES), and corrects the row of the attempt.
 *
 * Slurm lists a job for MinJobAge (300 s by default) after its end. So a firnd
 * that is started within that time corrects what its predecessor did not.
 *
 * Invariants:
 * (1) only attempts that the host has an end of: not a job's present attempt;
 * (2) once for each Slurm job, while Slurm lists it and firnd lives;
 * (3) every user can give a Slurm job the name of one of firn's: the host
 * compares the Slurm job's user with the firn job's.
 *
 * Cost: O(jobs that are over and listed) for each answer of squeue, times a
 * binary search.
 */
#include "base/str.h"
#include "engine/slurmwork.h"
#include <string.h>

/* The place of this Slurm job in the list, by number, or where it belongs. */
static size_t place_of(const struct slurm *slurm, const struct slurm_job *at,
                       bool *is_there)
{
    size_t from = 0, to = slurm->timed.n;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (slurm->timed.at[middle].slurm_id < at->id)
            from = middle + 1;
        else
            to = middle;
    }
    *is_there = from < slurm->timed.n &&
                slurm->timed.at[from].slurm_id == at->id &&
                slurm->timed.at[from].job == at->tag.job &&
                slurm->timed.at[from].attempt == at->tag.attempt;
    return from;
}

static void add(struct slurm *slurm, size_t place, const struct slurm_job *at)
{
    struct slurm_timed timed = {.job = at->tag.job,
                                .attempt = at->tag.attempt,
                                .slurm_id = at->id,
                                .is_listed = true};
    vec_add(&slurm->timed, timed);
    memmove(&slurm->timed.at[place + 1], &slurm->timed.at[place],
            (slurm->timed.n - 1 - place) * sizeof *slurm->timed.at);
    slurm->timed.at[place] = timed;
}

/* The name, kept until the engine closes; NULL: firnd's own user. */
static const char *keep_user(struct slurm *slurm, const char *listed)
{
    const char *user = slurm_user_listed(slurm, listed);
    if (user[0] == '\0')
        return NULL;
    for (size_t i = 0; i < slurm->users.n; i++)
        if (strcmp(slurm->users.at[i], user) == 0)
            return slurm->users.at[i];
    vec_add(&slurm->users, arena_strdup(&slurm->text, user));
    return slurm->users.at[slurm->users.n - 1];
}

/* (1) */
static bool is_present(const struct slurm *slurm, const struct slurm_job *at)
{
    const struct slurmjob *job = slurm_find(slurm, (firn_job_id)at->tag.job);
    return job != NULL && job->base.held.nparts > 0 &&
           job->base.attempt <= at->tag.attempt;
}

static void look(struct slurm *slurm, const struct slurm_job *at)
{
    bool is_there = false;
    if (!at->is_ours || at->pilot != 0 || at->component > 0 ||
        at->tag.cell != slurm->cell || at->tag.job > INT32_MAX ||
        !slurm_state_is_over(at->state) || !(at->ended_s > 0) ||
        is_present(slurm, at))
        return;
    size_t place = place_of(slurm, at, &is_there);
    if (is_there) {
        slurm->timed.at[place].is_listed = true;
        return;
    }
    double began_s = at->began_s > 0 && at->began_s < at->ended_s ? at->began_s
                                                                  : at->ended_s;
    add(slurm, place, at);
    slurm_report(slurm, (struct firn_event){
                            .kind = FIRN_EVENT_TIMES,
                            .job = (firn_job_id)at->tag.job,
                            .attempt = at->tag.attempt,
                            .began_s = began_s,
                            .ended_s = at->ended_s,
                            .user = keep_user(slurm, at->user)}); /* (3) */
}

void slurm_times_take(struct slurm *slurm, const struct slurm_jobs *jobs)
{
    for (size_t i = 0; i < slurm->timed.n; i++)
        slurm->timed.at[i].is_listed = false;
    for (size_t i = 0; i < jobs->at.n; i++)
        look(slurm, &jobs->at.at[i]);
    size_t n = 0;
    for (size_t i = 0; i < slurm->timed.n; i++)
        if (slurm->timed.at[i].is_listed) /* (2) */
            slurm->timed.at[n++] = slurm->timed.at[i];
    slurm->timed.n = n;
}
