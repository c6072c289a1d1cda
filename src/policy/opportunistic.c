/* opportunistic.c - first come, first served, on the fastest GPUs there are.
 *
 * The baseline of Frenzy's evaluation: the next job takes the fastest type that
 * can hold it all, or else idle GPUs of any type, fastest first. It looks
 * neither at memory headroom nor at which job could have used the fast GPUs
 * better.
 *
 * Cost: O(log jobs) per job started.
 */
#include <firn/policy.h>

struct opportunistic {
    bool skip;
};

static const struct firn_option options[] = {
    FIRN_BOOL(struct opportunistic, skip, "skip", "0",
              "let later jobs pass one that does not fit"),
    {0},
};

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    const struct opportunistic *options_set = state;
    unsigned skip = options_set->skip ? FIRN_SERVE_SKIP : FIRN_SERVE_STRICT;
    firn_plan_serve(plan, view, skip | FIRN_SERVE_FASTEST);
    return FIRN_OK;
}

const struct firn_policy_def firn_policy_opportunistic = {
    .size = sizeof(struct firn_policy_def),
    .name = "opportunistic",
    .summary = "first come, first served, fastest GPU type first",
    .paper = "baseline of Frenzy",
    .needs = FIRN_NEED_TYPES,
    .options = options,
    .state_size = sizeof(struct opportunistic),
    .decide = decide,
    .rank = firn_rank_fcfs,
};
