/* policy_sharer.c - jobs that accept it join others on their GPUs.
 *
 * A waiting job that may share joins the first running job of its size that
 * has room, else takes half-shares of free GPUs that others may join later. A
 * job that may not share takes whole GPUs.
 */
#include "toys.h"

static bool accepts(const struct firn_view *view, const struct firn_job *job,
                    const struct firn_alloc *alloc)
{
    for (int i = 0; i < alloc->nparts; i++) {
        int type = view->cluster->nodes[alloc->parts[i].node].type;
        if ((job->type_mask >> type & 1) == 0)
            return false;
    }
    return true;
}

static bool join(struct firn_plan *plan, const struct firn_view *view,
                 const struct firn_job *job)
{
    const struct firn_job *const *jobs = firn_view_jobs(view);
    for (size_t i = 0; i < view->njobs; i++) {
        const struct firn_alloc *host = firn_plan_of(plan, jobs[i]);
        if (host->ngpus == job->spec.gpus && accepts(view, job, host) &&
            firn_plan_share(plan, job, jobs[i]))
            return true;
    }
    return false;
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    (void)state;
    const struct firn_job *const *waiting = firn_view_waiting(view);
    firn_plan_keep_all(plan);
    for (size_t i = 0; i < view->nwaiting; i++) {
        const struct firn_job *job = waiting[i];
        struct firn_want want = {.gpus = job->spec.gpus,
                                 .shared = job->spec.may_share};
        if (!want.shared || !join(plan, view, job))
            firn_plan_give_want(plan, job, &want);
    }
    return FIRN_OK;
}

const struct firn_policy_def toy_sharer = {
    .name = "sharer",
    .summary = "jobs that accept it join others on their GPUs",
    .does = FIRN_DOES_SHARE,
    .decide = decide,
};
