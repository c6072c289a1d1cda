/* pairing.h - shortest job first on GPUs of its own, else on those of others.
 *
 * What sjf-bsbf and sjf-ffs have in common: the order, and putting a job that
 * finds too few free GPUs beside running ones. Which of them, a score says.
 */
#ifndef POLICY_PAIRING_H
#define POLICY_PAIRING_H
#include <firn/pairtime.h>
#include <firn/policy.h>

/* How good a host is for a new job: the lower the better, NaN for never. It
 * does not fall when a time or a slowdown grows. `place` counts GPUs from the
 * first of the cluster on. Slowdowns may be NaN, not known. */
typedef double pairing_score(const struct firn_pairtime *pair, double place);

/* A round: what runs stays, then the waiting ones in turn. */
void pairing_decide(const struct firn_view *view, struct firn_plan *plan,
                    pairing_score *score);

#endif
