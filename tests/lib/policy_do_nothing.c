/* policy_do_nothing.c - the smallest policy: everything stays as it is. */
#include "toys.h"

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    (void)state, (void)view;
    firn_plan_keep_all(plan);
    return FIRN_OK;
}

const struct firn_policy_def toy_do_nothing = {
    .name = "do-nothing",
    .summary = "leaves everything as it is",
    .decide = decide,
};
