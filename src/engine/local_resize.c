/* local_resize.c - a running attempt gets other GPUs without a restart.
 *
 *     want, GPUs not free yet   it waits; the old layout trains on
 *     files written, SIGHUP     under way: it holds the old and the new GPUs
 *     `resized`: done           it holds the new ones
 *     `resized`: failed         it holds the old ones, and leaves: a restart
 *
 * What the trainer or the layout does not allow is a restart from the
 * beginning. Two jobs that each wait for the other's GPUs would wait for ever:
 * the job that finds that out restarts.
 *
 * The end of a resize is read in local_resized.c.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/holding.h"
#include "engine/launchfile.h"
#include "engine/localwork.h"
#include "engine/procs.h"
#include "engine/resizefile.h"
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static const double gpus_limit_s = 120; /* until the new GPUs are free */

/* --- what can be resized without a stop ------------------------------------
 */

static bool is_one_host(const struct local *local,
                        const struct firn_alloc *alloc)
{
    return local->gpus.has_nvml || firn_alloc_nodes(alloc) == 1;
}

static bool can_resize(struct local *local, const struct localjob *job,
                       const struct firn_alloc *to)
{
    const struct firn_alloc *held = &job->base.held;
    struct firn_launch launch = {0};
    if (!(local->join_s > 0) || job->base.phase != FIRN_PHASE_RUNNING ||
        job->pid == 0 || job->is_over || job->base.is_numbered ||
        job->base.is_planned || job->base.is_cancelled)
        return false;
    if (held->is_shared || to->is_shared ||
        !firn_how_equal(&held->how, &to->how) || !is_one_host(local, held) ||
        !is_one_host(local, to))
        return false;
    return local->host.launch(local->host.arg, job->base.id, &launch) &&
           launch.can_join && !launch.is_per_node && launch.mate == NULL &&
           launch.trouble == NULL && launch.threads >= to->ngpus;
}

/* --- GPUs ------------------------------------------------------------------
 */

/* The job that holds one of the wanted GPUs; NULL: none but this one does. */
static const struct localjob *holder(const struct local *local,
                                     const struct localjob *job)
{
    const struct firn_alloc *want = &job->base.want;
    for (size_t i = 0; i < local->roster.jobs.n; i++) {
        const struct rosterjob *other = local->roster.jobs.at[i];
        if (other == &job->base)
            continue;
        for (int k = 0; k < want->nparts; k++)
            for (uint64_t bits = want->parts[k].gpus; bits != 0;
                 bits &= bits - 1)
                if (holding_has(&other->held, &want->parts[k], bits & -bits))
                    return (const struct localjob *)other;
    }
    return NULL;
}

/* --- files ------------------------------------------------------------------
 */

static enum firn_status write_files(struct local *local, struct localjob *job,
                                    const struct resize *resize,
                                    struct firn_error *err)
{
    struct firn_launch launch = {0};
    struct launchfile file;
    if (!local->host.launch(local->host.arg, job->base.id, &launch))
        return firn_fail(err, FIRN_ENOENT, "there is no job %d", job->base.id);
    roster_launch_begin(&job->base, &launch, &file);
    file.cgroup = local->cgroup;
    local_variables(local, job, &launch, &file);
    enum firn_status status =
        roster_resize_write(&job->base, &file, resize, err);
    launchfile_release(&file);
    return status;
}

/* --- a resize ---------------------------------------------------------------
 */

/* The trainer cannot be resized as it runs: it is restarted. */
static void restart(struct local *local, struct localjob *job)
{
    job->waits_s = 0;
    if (job->base.want.nparts > 0)
        local_leave(local, job);
}

static void begin(struct local *local, struct localjob *job)
{
    struct firn_error err = {0};
    struct resize resize = {.number = job->nresizes + 1,
                            .prepare_s = local->join_s,
                            .old = FIRN_ALLOC_NONE,
                            .next = FIRN_ALLOC_NONE};
    holding_copy(&resize.old, &job->base.held);
    holding_copy(&resize.next, &job->base.want);
    resize_ranks(&resize);
    struct firn_alloc both = FIRN_ALLOC_NONE;
    holding_copy(&both, &resize.old);
    holding_join(&both, &resize.next);
    enum firn_status status =
        local_devices_change(local, job, &both)
            ? write_files(local, job, &resize, &err)
            : firn_fail(&err, FIRN_EIO, "it is restarted instead");
    holding_release(&both);
    if (status == FIRN_OK) {
        job->nresizes = resize.number;
        job->waits_s = 0;
        holding_copy(&job->before, &resize.old);
        holding_copy(&job->after, &resize.next);
        holding_join(&job->base.held, &resize.next);
        procs_signal(job->pid, job->start, SIGHUP);
        failpoint("engine.resize.signal.after");
    } else {
        log_warn("job %d: %s", job->base.id, err.text);
        restart(local, job);
    }
    resize_release(&resize);
}

/* Begins as soon as the GPUs are free. */
static void try_to_begin(struct local *local, struct localjob *job)
{
    double now_s = local_now_s(local);
    const struct localjob *other = holder(local, job);
    bool able = !job->must_restart && can_resize(local, job, &job->base.want);
    bool is_free =
        other == NULL && !local_is_foreign_on(local, &job->base.want);
    bool waited = now_s > job->waits_s + gpus_limit_s ||
                  (other != NULL && other->waits_s > 0);
    if (able && is_free)
        begin(local, job);
    else if (!able || waited)
        restart(local, job);
}

bool local_resize(struct local *local, struct localjob *job,
                  const struct firn_alloc *to)
{
    if (job->base.held.nparts == 0)
        return false;
    if (job->after.nparts > 0 && !job->base.is_planned) {
        roster_want(&local->roster, &job->base, to); /* when this one is over */
        return true;
    }
    if (holding_is_same_run(&job->base.held, to) ||
        !can_resize(local, job, to)) {
        job->waits_s = 0;
        return false;
    }
    roster_want(&local->roster, &job->base, to);
    job->base.again_s = 0;
    job->waits_s = local_now_s(local);
    return true;
}

void local_resize_some(struct local *local)
{
    for (size_t i = 0; i < local->roster.jobs.n; i++) {
        struct localjob *job = (struct localjob *)local->roster.jobs.at[i];
        if (job->waits_s > 0 && job->base.phase == FIRN_PHASE_RUNNING)
            try_to_begin(local, job);
    }
}
