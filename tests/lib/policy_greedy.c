/* policy_greedy.c - every job that fits runs, by id, and is never moved.
 *
 * It has no rank: it asks the view for the waiting jobs, as a policy does that
 * orders them its own way.
 */
#include "toys.h"

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    (void)state;
    const struct firn_job *const *waiting = firn_view_waiting(view);
    firn_plan_keep_all(plan);
    for (size_t i = 0; i < view->nwaiting; i++)
        if (!firn_plan_give(plan, waiting[i], waiting[i]->spec.gpus))
            firn_plan_note(plan, waiting[i], "needs %d, %d are free",
                           waiting[i]->spec.gpus, firn_plan_free(plan));
    return FIRN_OK;
}

const struct firn_policy_def toy_greedy = {
    .name = "greedy",
    .summary = "every job that fits runs, by id",
    .decide = decide,
};
