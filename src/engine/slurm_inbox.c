/* slurm_inbox.c - jobs that users gave to a closed partition of Slurm's.
 */
#include "engine/slurmwork.h"
#include <math.h>
#include <string.h>

enum firn_status slurm_inbox_open(struct slurm *l, struct firn_error *err)
{
    if (l->inbox_partition[0] != '\0' && strcmp(l->inbox_partition, "off") != 0)
        return firn_fail(err, FIRN_EINVAL, "slurm.inbox is not there yet");
    return FIRN_OK;
}

void slurm_inbox_close(struct slurm *l)
{
    l->inbox = NULL;
}

void slurm_inbox_poll(struct slurm *l)
{
    (void)l;
}

double slurm_inbox_due_s(const struct slurm *l)
{
    (void)l;
    return INFINITY;
}

void slurm_inbox_answer(struct slurm *l, const struct command_done *done)
{
    (void)l;
    (void)done;
}

void slurm_inbox_start(struct slurm *l, struct slurmjob *job)
{
    (void)l;
    job->submit = SUBMIT_UNSURE;
}

void slurm_inbox_cancel(struct slurm *l, struct slurmjob *job)
{
    (void)l;
    (void)job;
}
