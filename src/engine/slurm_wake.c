/* slurm_wake.c - when the Slurm engine has something to do though nothing
 * happened.
 *
 * Commands under way and the epochs' folders wake it by themselves (the latter
 * where workers are on this host too, or the file system tells). The timer is
 * set for the earliest of all that is due.
 */
#include "engine/slurmwork.h"
#include <math.h>

static double due_s(const struct slurmjob *job, double now_s)
{
    return job->base.held.nparts > 0 ? job->look_s
                                     : roster_due_s(&job->base, now_s);
}

void slurm_wake_arm(struct slurm *l)
{
    double now_s = slurm_now_s(l), due = slurm_inbox_due_s(l);
    if (commands_count(l->commands, SLURM_CMD_QUEUE) == 0)
        due = fmin(due, l->queue_due_s);
    if (commands_count(l->commands, SLURM_CMD_NODES) == 0)
        due = fmin(due, l->nodes_due_s);
    for (size_t i = 0; i < l->roster.jobs.n; i++)
        due = fmin(due, due_s(slurm_at(l, i), now_s));
    roster_wake_arm(&l->roster, now_s, due);
}
