/* slurm_hold.c - the GPUs of a job's allocations, as one allocation.
 *
 * What an attempt holds is its first allocation and all further ones that it
 * has; what it trains on is the first one and those with workers.
 */
#include "engine/holding.h"
#include "engine/slurmwork.h"

void slurm_take_gpus(struct firn_alloc *to, const struct firn_alloc *like,
                     const struct firn_alloc *gpus)
{
    struct firn_alloc all = *like;
    all.parts = gpus->parts;
    all.nparts = gpus->nparts;
    all.ngpus = gpus->ngpus;
    holding_copy(to, &all);
}

static void add_part(struct firn_alloc *to, const struct firn_part *part)
{
    struct firn_part copy = *part;
    struct firn_alloc one = {.parts = &copy, .nparts = 1};
    holding_join(to, &one);
}

struct firn_alloc slurm_resized_trains(const struct slurmjob *job)
{
    struct firn_alloc trains = FIRN_ALLOC_NONE;
    slurm_take_gpus(&trains, &job->base.held,
                    job->own.nparts > 0 ? &job->own : &job->base.held);
    for (size_t i = 0; i < job->pilots.n; i++)
        if (job->pilots.at[i].state == PILOT_USED ||
            job->pilots.at[i].state == PILOT_LEAVING)
            add_part(&trains, &job->pilots.at[i].part);
    return trains;
}

void slurm_resized_hold(struct slurmjob *job)
{
    if (job->own.nparts == 0)
        return;
    struct firn_alloc held = FIRN_ALLOC_NONE;
    slurm_take_gpus(&held, &job->base.held, &job->own);
    for (size_t i = 0; i < job->pilots.n; i++)
        add_part(&held, &job->pilots.at[i].part);
    holding_release(&job->base.held);
    job->base.held = held;
}
