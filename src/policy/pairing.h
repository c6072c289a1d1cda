/* pairing.h - shortest job first on GPUs of its own, else on those of others.
 *
 * What sjf-bsbf and sjf-ffs have in common: the order, and putting a job that
 * finds too few free GPUs beside running ones. Which of them, a score says.
 */
#ifndef POLICY_PAIRING_H
#define POLICY_PAIRING_H
#include <firn/pairtime.h>
#include <firn/policy.h>

/* A new job and a host. Slowdowns may be NaN, not known. */
struct pairing_pair {
    struct firn_pairtime time;
    double wait_s; /* until as many GPUs as the new job wants come free, going
                    * by those that run now; infinity when they are too few.
                    * Only for rules that read it */
    double place;  /* the host's first GPU, counted from the cluster's */
};

/* Which hosts. The score of a pair is the lower the better, NaN for never; it
 * does not fall when a slowdown or the new job's time grows, and what is never
 * stays so. */
struct pairing_rule {
    double (*score)(const struct pairing_rule *rule,
                    const struct pairing_pair *pair);
    bool searches; /* Algorithm 2: the sub-batch with the shortest pair time;
                    * else the largest that fits */
    bool judges_gangs; /* a gang beside several hosts is scored again as a
                        * whole, at the worst of its slowdowns */
    bool reads_wait;
};

/* A round: what runs stays, then the waiting ones in turn. */
void pairing_decide(const struct firn_view *view, struct firn_plan *plan,
                    const struct pairing_rule *rule);

#endif
