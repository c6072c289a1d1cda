/* slurm_resized.c - which GPUs an attempt trains on: after a resize, or a
 * crash.
 *
 * An attempt has its first allocation (`gpus`) and further ones (`pilots`). In
 * which of them it trains is in `resize` and `resized` (engine/resizefile.h):
 *
 *     no `resize`            in the first one
 *     `resized` is lower     under way: in the old GPUs; the new ones are held
 *     `resized` is as high   in the new GPUs if it is done, else in the old
 *
 * A pilot with GPUs of the layout that trains is USED; what is left over is
 * wanted by a growth that had not begun, or goes back (slurm_resize.c). So a
 * firnd that dies at any point of a growth leaves nothing that the next one
 * does not find by its list and its tag.
 */
#define _GNU_SOURCE
#include "base/log.h"
#include "base/str.h"
#include "engine/holding.h"
#include "engine/slurmwork.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double ended_limit_s = 30; /* for Slurm's word on the pilots */
static const double again_s = 60;       /* before a growth is tried again */

static bool has_part(const struct firn_alloc *alloc,
                     const struct firn_part *part)
{
    for (int i = 0; i < alloc->nparts; i++)
        if (alloc->parts[i].node == part->node &&
            alloc->parts[i].board == part->board)
            return (alloc->parts[i].gpus & part->gpus) == part->gpus;
    return false;
}

/* --- the end of a resize -------------------------------------------------- */

void slurm_resized_report(struct slurm *slurm, const struct slurmjob *job,
                          const struct resized *resized, bool stays)
{
    char *why = slurm->why[slurm->nwhy++ % SLURM_WHYS];
    str_copy(why, sizeof slurm->why[0], resized->why);
    slurm_report(slurm, (struct firn_event){.kind = FIRN_EVENT_RESIZED,
                                            .job = job->base.id,
                                            .attempt = job->base.attempt,
                                            .is_resized = resized->is_done,
                                            .stays = stays,
                                            .pause_s = resized->pause_s,
                                            .prepare_s = resized->prepare_s,
                                            .why = why});
}

/* The job trains on as it was after a growth that failed: no further allocation
 * is asked for until the bar ends. A second failure is answered by a restart,
 * which a trainer that cannot be joined needs. */
static bool stay(struct slurm *slurm, struct slurmjob *job,
                 const struct resized *resized, bool had_joiners)
{
    char why[SLURM_EXCERPT];
    if (resized->is_done)
        job->nfailures = 0;
    if (resized->is_done || !had_joiners || job->nfailures++ > 0)
        return false;
    snprintf(why, sizeof why, "its last growth failed: %.100s", resized->why);
    struct firn_alloc trains = slurm_resized_trains(job);
    job->again_s = slurm_now_s(slurm) + again_s;
    slurm_bar_gpus(slurm, job->base.id, trains.ngpus, why);
    holding_release(&trains);
    return true;
}

static bool has_joining(const struct slurmjob *job)
{
    for (size_t i = 0; i < job->pilots.n; i++)
        if (job->pilots.at[i].state == PILOT_JOINING)
            return true;
    return false;
}

static void settle(struct slurm *slurm, struct slurmjob *job,
                   const struct resized *resized)
{
    bool has_joiners = has_joining(job);
    enum pilot_event event = resized->is_done ? PILOT_ON_DONE : PILOT_ON_FAILED;
    holding_release(&job->before);
    holding_release(&job->after);
    slurm_pilots_happen(slurm, job, PILOT_JOINING, event);
    slurm_pilots_happen(slurm, job, PILOT_LEAVING, event);
    slurm_resized_hold(job);
    bool stays = stay(slurm, job, resized, has_joiners);
    slurm_resized_report(slurm, job, resized, stays);
    job->must_restart = !stays && !resized->is_done;
    if (job->base.want.nparts > 0 && !job->base.is_planned)
        job->waits_s = slurm_now_s(slurm); /* if that is what is wanted */
}

void slurm_resized_look(struct slurm *slurm, struct slurmjob *job)
{
    struct resized resized = {0};
    if (job->after.nparts == 0)
        return;
    int folder = attempt_folder(job->base.folder, job->base.attempt, false);
    if (folder < 0)
        return;
    enum attempt_found found = resized_get(folder, &resized);
    close(folder);
    if (found == ATTEMPT_PRESENT && resized.number == job->nresizes)
        settle(slurm, job, &resized);
}

bool slurm_pilots_are_unclear(struct slurm *slurm, struct slurmjob *job)
{
    double now_s = slurm_now_s(slurm);
    bool has_used = false;
    for (size_t i = 0; i < job->pilots.n; i++)
        has_used = has_used || job->pilots.at[i].state == PILOT_USED;
    if (!has_used || job->base.is_planned || job->has_lost_pilot)
        return false;
    if (!(job->ended_s > 0)) {
        job->ended_s = now_s;
        slurm_poll_soon(slurm);
    }
    return !(slurm->queue_known_s > job->ended_s) &&
           now_s < job->ended_s + ended_limit_s;
}

/* --- after a restart of firnd --------------------------------------------- */

/* A pilot that is to have the GPUs of an earlier one (slurm_chain.c) has no
 * workers as long as that one is listed. */
static bool is_second(const struct slurmjob *job, size_t i)
{
    const struct firn_part *part = &job->pilots.at[i].part;
    for (size_t k = 0; k < i; k++) {
        const struct firn_part *other = &job->pilots.at[k].part;
        if (other->node == part->node && other->board == part->board &&
            (other->gpus & part->gpus) != 0)
            return true;
    }
    return false;
}

/* The states of the pilots, by the layouts before and after a resize; `after`
 * is empty if none is under way. */
static void place_pilots(struct slurm *slurm, struct slurmjob *job,
                         const struct firn_alloc *trains,
                         const struct firn_alloc *after)
{
    double now_s = slurm_now_s(slurm);
    for (size_t i = 0; i < job->pilots.n; i++) {
        struct slurm_pilot *pilot = &job->pilots.at[i];
        bool was = has_part(trains, &pilot->part) && !is_second(job, i);
        bool is_next = after->nparts > 0 && has_part(after, &pilot->part);
        pilot->asked_s = pilot->known_s = now_s;
        pilot->settle_s = now_s + slurm_settle_s(slurm);
        pilot->state = was && after->nparts > 0 && !is_next ? PILOT_LEAVING
                       : was                                ? PILOT_USED
                       : is_next                            ? PILOT_JOINING
                                                            : PILOT_ASKED;
    }
}

static void recover(struct slurm *slurm, struct slurmjob *job, int folder)
{
    struct resize resize;
    struct resized resized = {0};
    const struct firn_alloc none = FIRN_ALLOC_NONE;
    if (resize_get(folder, &resize) != ATTEMPT_PRESENT) {
        place_pilots(slurm, job, &job->own, &none);
        resize_release(&resize);
        return;
    }
    (void)resized_get(folder, &resized);
    job->nresizes = resize.number;
    if (resized.number == resize.number) {
        place_pilots(slurm, job, resized.is_done ? &resize.next : &resize.old,
                     &none);
    } else {
        slurm_take_gpus(&job->before, &job->base.want, &resize.old);
        slurm_take_gpus(&job->after, &job->base.want, &resize.next);
        place_pilots(slurm, job, &resize.old, &resize.next);
    }
    resize_release(&resize);
}

void slurm_resize_recover(struct slurm *slurm, struct slurmjob *job)
{
    struct firn_alloc gpus = FIRN_ALLOC_NONE;
    int folder = attempt_folder(job->base.folder, job->base.attempt, false);
    if (folder < 0)
        return;
    bool is_known =
        resize_gpus_get(folder, &gpus) == ATTEMPT_PRESENT && gpus.nparts > 0;
    if (is_known) {
        slurm_take_gpus(&job->own, &job->base.want, &gpus);
        if (slurm_pilots_read(job) == ATTEMPT_DAMAGED)
            log_warn("job %d: the list of its allocations is damaged; what "
                     "Slurm has of them goes back",
                     job->base.id);
        recover(slurm, job, folder);
        slurm_resized_hold(job);
    }
    holding_release(&gpus);
    close(folder);
    if (is_known && job->after.nparts == 0 &&
        !holding_is_same_run(&job->base.held, &job->base.want))
        job->waits_s = slurm_now_s(slurm);
    for (size_t i = 0; i < job->pilots.n && job->after.nparts == 0; i++)
        if (job->pilots.at[i].state == PILOT_ASKED)
            job->waits_s = slurm_now_s(slurm);
}
