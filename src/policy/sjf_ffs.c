/* sjf_ffs.c - shortest job first, with first-fit sharing.
 *
 * The baseline of Luo et al. (SJF-BSBF, section VI-A): as sjf-bsbf, but a job
 * that finds too few free GPUs takes the first ones that hold one job, whatever
 * it costs the two. Hosts come in the order of their first GPU. Memory still
 * has to fit: the job is run in as many passes as that takes. Everything else
 * is in pairing.c.
 *
 * Nothing is ever preempted or moved.
 *
 * Cost: that of pairing.c.
 */
#include "policy/pairing.h"

static double first_fit(const struct pairing_rule *rule,
                        const struct pairing_pair *pair)
{
    (void)rule;
    return pair->place;
}

static const struct pairing_rule first = {.score = first_fit};

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    (void)state;
    pairing_decide(view, plan, &first);
    return FIRN_OK;
}

const struct firn_policy_def firn_policy_sjf_ffs = {
    .size = sizeof(struct firn_policy_def),
    .name = "sjf-ffs",
    .summary = "shortest job first, shares the first GPUs that hold one job",
    .paper = "Luo et al., Wise Resource Sharing, 2024",
    .needs = FIRN_NEED_DURATION | FIRN_NEED_FORECAST,
    .does = FIRN_DOES_SHARE,
    .decide = decide,
};
