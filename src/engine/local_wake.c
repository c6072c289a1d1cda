/* local_wake.c - what wakes the local engine, besides its roster's folders.
 *
 * The shepherds' pidfds, readable when one is over; and a timer set for the
 * earliest of all deadlines. Where the kernel has no pidfd, or no inotify is
 * left, the timer looks instead.
 */
#include "engine/localwork.h"
#include "engine/procs.h"
#include <math.h>
#include <unistd.h>

static const double look_every_s = 0.05; /* when nothing wakes us */

/* When a job has to be looked at though nothing wakes us. */
static double due_s(const struct localjob *job, double now_s)
{
    if (job->base.held.nparts == 0)
        return roster_due_s(&job->base, now_s);
    bool is_blind =
        job->is_over || job->pidfd < 0 ||
        (job->base.phase == FIRN_PHASE_STARTING &&
         (job->base.watch < 0 || job->scan_s > 0)); /* its folder is gone */
    double due = job->base.phase == FIRN_PHASE_RUNNING ? (double)INFINITY
                                                       : job->base.until_s;
    return is_blind && now_s + look_every_s < due ? now_s + look_every_s : due;
}

void local_wake_arm(struct local *l)
{
    double now_s = local_now_s(l), due = l->others_s;
    for (size_t i = 0; i < l->roster.jobs.n; i++) {
        double job_s =
            due_s((const struct localjob *)l->roster.jobs.at[i], now_s);
        due = job_s < due ? job_s : due;
    }
    roster_wake_arm(&l->roster, now_s, due);
}

void local_watch_pid(struct local *l, struct localjob *job)
{
    job->pidfd = procs_open(job->pid);
    if (job->pidfd >= 0 && !roster_wake_add(&l->roster, job->pidfd)) {
        close(job->pidfd);
        job->pidfd = -1;
    }
}

void local_unwatch_pid(struct localjob *job)
{
    if (job->pidfd >= 0)
        close(job->pidfd); /* and out of the set */
    job->pidfd = -1;
}

void local_unwatch(struct local *l, struct localjob *job)
{
    local_unwatch_pid(job);
    roster_unwatch(&l->roster, &job->base);
}
