/* local_resized.c - the end of a resize without a stop, and what a crash left.
 *
 * `resize` is on disk before the supervisor can know of it, and `resized` says
 * what became of it (engine/resizefile.h). A later firnd reads both, holds both
 * sets of GPUs while a resize is under way, and sends the signal again, which
 * changes nothing if it came before.
 */
#define _GNU_SOURCE
#include "base/str.h"
#include "engine/holding.h"
#include "engine/localwork.h"
#include "engine/procs.h"
#include "engine/resizefile.h"
#include <math.h>
#include <signal.h>
#include <unistd.h>

static void forget(struct localjob *job)
{
    holding_release(&job->before);
    holding_release(&job->after);
    job->waits_s = 0;
    job->must_restart = false;
}

void local_resize_forget(struct localjob *job)
{
    forget(job);
    job->nresizes = 0;
}

/* --- its end -----------------------------------------------------------------
 */

static void report(struct local *local, const struct localjob *job,
                   const struct resized *resized)
{
    char *why = local->why[local->nwhy++ % LOCAL_WHYS];
    str_copy(why, sizeof local->why[0], resized->why);
    struct firn_event event = {.kind = FIRN_EVENT_RESIZED,
                               .job = job->base.id,
                               .attempt = job->base.attempt,
                               .is_resized = resized->is_done,
                               .pause_s = resized->pause_s,
                               .prepare_s = resized->prepare_s,
                               .why = why};
    roster_report(&local->roster, event);
}

static void settle(struct local *local, struct localjob *job,
                   const struct resized *resized)
{
    holding_copy(&job->base.held,
                 resized->is_done ? &job->after : &job->before);
    (void)local_devices_change(local, job, &job->base.held);
    forget(job);
    report(local, job, resized);
    if (job->base.want.nparts == 0 || job->base.is_planned ||
        holding_is_same_run(&job->base.held, &job->base.want))
        return;
    job->waits_s = local_now_s(local); /* for the next turn */
    job->must_restart = !resized->is_done;
    local->has_changes = local->is_stale = true;
}

void local_resize_look(struct local *local, struct localjob *job)
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
        settle(local, job, &resized);
}

double local_resize_due_s(const struct local *local, const struct localjob *job)
{
    static const double look_every_s = 0.2;
    return job->waits_s > 0 ? local_now_s(local) + look_every_s
                            : (double)INFINITY;
}

/* --- after a restart of firnd ------------------------------------------------
 */

/* `gpus` with all else as in `like`. */
static void take_gpus(struct firn_alloc *to, const struct firn_alloc *like,
                      const struct firn_alloc *gpus)
{
    struct firn_alloc all = *like;
    all.parts = gpus->parts;
    all.nparts = gpus->nparts;
    all.ngpus = gpus->ngpus;
    holding_copy(to, &all);
}

static void recover(struct local *local, struct localjob *job, int folder)
{
    struct resize resize;
    struct resized resized = {0};
    struct firn_alloc gpus = FIRN_ALLOC_NONE;
    struct firn_alloc *held = &job->base.held;
    bool has_resize = resize_get(folder, &resize) == ATTEMPT_PRESENT;
    if (!has_resize) {
        if (resize_gpus_get(folder, &gpus) == ATTEMPT_PRESENT &&
            gpus.nparts > 0)
            take_gpus(held, &job->base.want, &gpus);
        holding_release(&gpus);
        return;
    }
    (void)resized_get(folder, &resized);
    job->nresizes = resize.number;
    if (resized.number == resize.number) {
        take_gpus(held, &job->base.want,
                  resized.is_done ? &resize.next : &resize.old);
    } else {
        take_gpus(&job->before, &job->base.want, &resize.old);
        take_gpus(&job->after, &job->base.want, &resize.next);
        holding_copy(held, &job->before);
        holding_join(held, &job->after);
    }
    resize_release(&resize);
    (void)local;
}

void local_resize_recover(struct local *local, struct localjob *job)
{
    int folder = attempt_folder(job->base.folder, job->base.attempt, false);
    if (folder < 0)
        return;
    recover(local, job, folder);
    close(folder);
    if (job->after.nparts == 0 &&
        !holding_is_same_run(&job->base.held, &job->base.want))
        job->waits_s = local_now_s(local);
}

void local_resize_remind(struct localjob *job)
{
    if (job->after.nparts > 0 && job->pid != 0 && !job->is_over)
        procs_signal(job->pid, job->start, SIGHUP);
}
