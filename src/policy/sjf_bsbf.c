/* sjf_bsbf.c - shortest job first, with the best sharing benefit first.
 *
 * A job that finds too few free GPUs may share those of running jobs, if the
 * two together are better off than one after the other: Theorem 1 of Luo et
 * al. says that the best moment to join is now or after the other's end, so
 * the mean completion time of the pair is compared for these two
 * (firn/pairtime.h). Of those that pass, the hosts with the least mean are
 * taken. A job for which none passes waits. Everything else is in pairing.c.
 *
 * Nothing is ever preempted or moved. A slowdown that is not known is no
 * reason to share. The time left and all slowdowns are the engine's forecasts,
 * which learn from what jobs report; the paper has them from measurements made
 * before.
 *
 * Cost: that of pairing.c.
 */
#include "policy/pairing.h"

static double mean_s(const struct firn_pairtime *pair, double place)
{
    (void)place;
    return firn_pairtime_shares(pair) ? firn_pairtime_shared(pair)
                                      : (double)NAN;
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    (void)state;
    pairing_decide(view, plan, mean_s);
    return FIRN_OK;
}

const struct firn_policy_def firn_policy_sjf_bsbf = {
    .name = "sjf-bsbf",
    .summary = "shortest job first, shares GPUs where the pair gains by it",
    .paper = "Luo et al., Wise Resource Sharing, 2024",
    .needs = FIRN_NEED_DURATION | FIRN_NEED_FORECAST,
    .does = FIRN_DOES_SHARE,
    .decide = decide,
};
