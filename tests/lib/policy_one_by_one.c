/* policy_one_by_one.c - the job with the lowest id runs, alone.
 *
 * Its plan starts empty and mentions one job, so it also shows what happens to
 * those not mentioned. It never preempts: a job before the running one would
 * have been running.
 */
#include "toys.h"

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    (void)state;
    if (view->njobs > 0) {
        const struct firn_job *first = firn_view_jobs(view)[0];
        firn_plan_give(plan, first, first->spec.gpus);
    }
    return FIRN_OK;
}

const struct firn_policy_def toy_one_by_one = {
    .name = "one-by-one",
    .summary = "the job with the lowest id runs, alone",
    .decide = decide,
};
