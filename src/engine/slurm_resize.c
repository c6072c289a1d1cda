/* slurm_resize.c - an attempt on Slurm gets other GPUs without a restart.
 *
 *     want, GPUs not free yet     it waits; the old layout trains on
 *     GPUs free                   one further allocation for each node that
 *                                 has new GPUs is asked for: a pilot
 *     all pilots run              `launch-K` and `resize` are written; the
 *                                 supervisor starts joiners as steps in them
 *     `resized`: done             pilots without workers go back to Slurm
 *     `resized`: failed           new pilots go back; the job trains on as it
 *                                 was for a minute, and restarts if its next
 *                                 growth fails too, or if it has to shrink
 *
 * Slurm does not divide an allocation: a worker can leave, but its GPU is free
 * for others only when the whole allocation is. So a resize keeps or gives back
 * each allocation as a whole, and keeps the first one, in which the supervisor
 * is. What does not fit that, and what the trainer does not allow, is a
 * restart, and the job's events say why.
 *
 * While Slurm does not start a pilot, training goes on. After a minute the
 * pilot is withdrawn and the host is told that the job may not have more GPUs
 * for now (slurm_bars.c), so the policy gives the GPUs to others.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/holding.h"
#include "engine/launchfile.h"
#include "engine/slurmwork.h"
#include <math.h>
#include <stdio.h>
#include <unistd.h>

static const double gpus_limit_s = 120; /* until the new GPUs are free */

/* --- what can be resized without a stop ----------------------------------- */

/* The GPUs of `part` that the allocation has. */
static uint64_t common(const struct firn_alloc *alloc,
                       const struct firn_part *part)
{
    uint64_t bits = 0;
    for (int i = 0; i < alloc->nparts; i++)
        if (alloc->parts[i].node == part->node &&
            alloc->parts[i].board == part->board)
            bits |= alloc->parts[i].gpus & part->gpus;
    return bits;
}

/* Each allocation is kept or given back as a whole, the first one is kept. */
static bool is_whole(const struct slurmjob *job, const struct firn_alloc *to)
{
    for (int i = 0; i < job->own.nparts; i++)
        if (common(to, &job->own.parts[i]) != job->own.parts[i].gpus)
            return false;
    for (size_t i = 0; i < job->pilots.n; i++) {
        const struct slurm_pilot *pilot = &job->pilots.at[i];
        uint64_t bits = common(to, &pilot->part);
        if (bits != 0 && bits != pilot->part.gpus)
            return false;
    }
    return job->own.nparts > 0;
}

const char *slurm_resize_obstacle(struct slurm *slurm,
                                  const struct slurmjob *job,
                                  const struct firn_alloc *to)
{
    const struct firn_alloc *held = &job->base.held;
    struct firn_launch launch = {0};
    if (!(slurm->join_s > 0) || job->base.phase != FIRN_PHASE_RUNNING ||
        !job->has_pid || job->inbox[0] != '\0' || job->base.is_numbered ||
        job->base.is_planned || job->base.is_cancelled || job->is_unread ||
        job->has_lost_pilot)
        return "";
    if (!slurm->host.launch(slurm->host.arg, job->base.id, &launch) ||
        !launch.can_join || launch.is_per_node || launch.mate != NULL ||
        launch.trouble != NULL || launch.threads < to->ngpus)
        return "";
    if (held->is_shared || to->is_shared ||
        !firn_how_equal(&held->how, &to->how))
        return "";
    if (!is_whole(job, to))
        return "Slurm does not divide an allocation, and its first one stays "
               "as long as it runs";
    return NULL;
}

bool slurm_resize(struct slurm *slurm, struct slurmjob *job,
                  const struct firn_alloc *to)
{
    if (job->base.held.nparts == 0)
        return false;
    if (job->own.nparts == 0)
        holding_copy(&job->own, &job->base.held);
    if (job->after.nparts > 0 && !job->base.is_planned) {
        roster_want(&slurm->roster, &job->base, to); /* when this is over */
        return true;
    }
    bool is_same = holding_is_same_run(&job->base.held, to);
    const char *why = slurm_resize_obstacle(slurm, job, to);
    if (why != NULL || (is_same && job->pilots.n == 0)) {
        struct resized resized = {.number = job->nresizes};
        if (why != NULL && why[0] != '\0' && !is_same) {
            str_copy(resized.why, sizeof resized.why, why);
            slurm_resized_report(slurm, job, &resized, false);
        }
        job->waits_s = 0;
        return false;
    }
    roster_want(&slurm->roster, &job->base, to);
    job->base.again_s = 0;
    job->waits_s = slurm_now_s(slurm);
    job->look_s = 0;
    return true;
}

/* --- GPUs and allocations ------------------------------------------------- */

/* Another job holds one of these GPUs, or a foreign one uses it. */
static bool is_taken(const struct slurm *slurm, const struct slurmjob *job,
                     const struct firn_part *part)
{
    struct firn_part copy = *part;
    struct firn_alloc one = {.parts = &copy, .nparts = 1};
    for (size_t i = 0; i < slurm->roster.jobs.n; i++) {
        const struct rosterjob *other = slurm->roster.jobs.at[i];
        if (other != &job->base && common(&other->held, part) != 0)
            return true;
    }
    return slurm_is_taken(slurm, &one);
}

/* Pilots that are not wanted, and were not used, go back. */
static void drop_unwanted(struct slurm *slurm, struct slurmjob *job)
{
    for (size_t i = job->pilots.n; i-- > 0;) {
        const struct slurm_pilot *pilot = &job->pilots.at[i];
        bool is_free = pilot->state == PILOT_ASKED ||
                       pilot->state == PILOT_QUEUED ||
                       pilot->state == PILOT_HELD;
        if (is_free && common(&job->base.want, &pilot->part) == 0)
            slurm_pilot_happens(slurm, job, i, PILOT_ON_UNWANTED);
    }
}

/* Asks for pilots on wanted GPUs that no allocation of the job has. False: it
 * waits for some. */
static bool have_all(struct slurm *slurm, struct slurmjob *job,
                     struct firn_error *err)
{
    bool is_all = true;
    for (int i = 0; i < job->base.want.nparts; i++) {
        struct firn_part part = job->base.want.parts[i];
        part.gpus &= ~common(&job->base.held, &part);
        if (part.gpus == 0)
            continue;
        is_all = false;
        if (slurm_now_s(slurm) < job->again_s || slurm->away_s > 0 ||
            is_taken(slurm, job, &part))
            continue;
        if (slurm_pilot_ask(slurm, job, &part, err) != FIRN_OK)
            return false;
        slurm_resized_hold(job);
    }
    for (size_t i = 0; i < job->pilots.n; i++)
        is_all = is_all && job->pilots.at[i].state != PILOT_ASKED &&
                 job->pilots.at[i].state != PILOT_QUEUED;
    return is_all;
}

/* --- files ---------------------------------------------------------------- */

static enum firn_status write_files(struct slurm *slurm, struct slurmjob *job,
                                    const struct resize *resize,
                                    struct firn_error *err)
{
    struct firn_launch launch = {0};
    struct launchfile file;
    if (!slurm->host.launch(slurm->host.arg, job->base.id, &launch))
        return firn_fail(err, FIRN_ENOENT, "there is no job %d", job->base.id);
    roster_launch_begin(&job->base, &launch, &file);
    slurm_variables(slurm, job, &resize->next, &launch, &file);
    enum firn_status status =
        roster_resize_write(&job->base, &file, resize, err);
    launchfile_release(&file);
    int folder = attempt_folder(job->base.folder, job->base.attempt, false);
    if (status == FIRN_OK && folder >= 0) /* wakes the supervisor by inotify */
        (void)attempt_request_put(folder, "ask", job->request, NULL);
    failpoint("engine.resize.signal.after");
    if (folder >= 0)
        close(folder);
    return status;
}

/* --- a resize ------------------------------------------------------------- */

enum firn_status slurm_resize_begin(struct slurm *slurm, struct slurmjob *job,
                                    const struct firn_alloc *to,
                                    struct firn_error *err)
{
    struct resize resize = {.number = job->nresizes + 1,
                            .prepare_s = slurm->join_s,
                            .old = slurm_resized_trains(job),
                            .next = FIRN_ALLOC_NONE};
    holding_copy(&resize.next, to);
    resize_ranks(&resize);
    enum firn_status status = write_files(slurm, job, &resize, err);
    if (status == FIRN_OK) {
        job->nresizes = resize.number;
        job->waits_s = 0;
        holding_copy(&job->before, &resize.old);
        holding_copy(&job->after, &resize.next);
        for (size_t i = job->pilots.n; i-- > 0;) {
            bool is_in = common(&job->after, &job->pilots.at[i].part) != 0;
            if (job->pilots.at[i].state == PILOT_HELD && is_in)
                slurm_pilot_happens(slurm, job, i, PILOT_ON_FILL);
            else if (job->pilots.at[i].state == PILOT_USED && !is_in)
                slurm_pilot_happens(slurm, job, i, PILOT_ON_EMPTY);
        }
    }
    resize_release(&resize);
    return status;
}

static bool is_trained(const struct slurmjob *job)
{
    struct firn_alloc trains = slurm_resized_trains(job);
    bool is_same = holding_is_same_run(&trains, &job->base.want);
    holding_release(&trains);
    return is_same;
}

/* True: a restart is needed. */
static bool advance(struct slurm *slurm, struct slurmjob *job)
{
    struct firn_error err = {0};
    bool is_late = slurm_now_s(slurm) > job->waits_s + gpus_limit_s &&
                   !(job->again_s > slurm_now_s(slurm));
    drop_unwanted(slurm, job);
    if (is_trained(job) && !job->must_restart) {
        job->waits_s = 0;
        return false;
    }
    const char *why = slurm_resize_obstacle(slurm, job, &job->base.want);
    if (job->must_restart && job->refusal[0] != '\0') {
        struct resized resized = {.number = job->nresizes};
        str_copy(resized.why, sizeof resized.why, job->refusal);
        slurm_resized_report(slurm, job, &resized, false);
        job->refusal[0] = '\0';
    }
    if (job->must_restart || why != NULL || is_late)
        return !is_trained(job);
    if (have_all(slurm, job, &err) &&
        slurm_resize_begin(slurm, job, &job->base.want, &err) == FIRN_OK)
        return false;
    if (err.text[0] != '\0') {
        log_warn("job %d: %s", job->base.id, err.text);
        return true;
    }
    return false;
}

bool slurm_resize_look(struct slurm *slurm, struct slurmjob *job)
{
    if (job->base.held.nparts == 0)
        return false;
    slurm_resized_look(slurm, job);
    if (!(job->waits_s > 0) || job->base.phase != FIRN_PHASE_RUNNING ||
        job->base.is_planned || job->base.want.nparts == 0 ||
        job->has_lost_pilot)
        return false;
    bool must_leave = advance(slurm, job);
    if (must_leave) {
        job->waits_s = 0;
        job->must_restart = false;
    }
    return must_leave;
}
