/* policy_elastic.c - each round anew: every job gets the least it needs, by id,
 * then everything that is left, by id.
 *
 * The plan starts empty, so jobs are stopped, resized and moved as they come
 * to stand. Growing a job is a second word about it in the same plan.
 */
#include "toys.h"

/* As much as there is, up to what it can use. */
static void grow(struct firn_plan *plan, const struct firn_job *job)
{
    int has = firn_plan_of(plan, job)->ngpus;
    int most = has + firn_plan_free(plan);
    if (most > job->spec.gpus_max)
        most = job->spec.gpus_max;
    for (int n = most; n > has; n--)
        if (firn_plan_give(plan, job, n))
            return;
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    (void)state;
    const struct firn_job *const *jobs = firn_view_jobs(view);
    for (size_t i = 0; i < view->njobs; i++)
        firn_plan_give(plan, jobs[i], jobs[i]->spec.gpus_min);
    for (size_t i = 0; i < view->njobs; i++)
        if (firn_plan_of(plan, jobs[i])->nparts > 0)
            grow(plan, jobs[i]);
    return FIRN_OK;
}

const struct firn_policy_def toy_elastic = {
    .name = "elastic",
    .summary = "each job the least, then all that is left",
    .does = FIRN_DOES_PREEMPT | FIRN_DOES_RESIZE | FIRN_DOES_MOVE,
    .decide = decide,
};
