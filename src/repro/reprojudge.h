/* reprojudge.h - does a paper's claim hold?
 *
 * With a = the metric of the policy the claim is `of` and b = that of the one
 * it is `over` (the other way round where more is better):
 *
 *     times      b / a, which must reach 1 + share (paper - 1); a paper's that
 *                is not above 1 must be reached as it is, and with 1, which
 *                says "better" and no more, a half per cent is no difference
 *     less       1 - a / b, which must reach share x paper
 *     at-most    a / b, which must not be above the paper's
 *     below      a, in the scenario's unit, which must not be above it either
 *
 * With `beyond` a times is divided by that of another metric: are these jobs
 * helped more than those?
 *
 * A claim without a point is about all points of the sweep that are not
 * missing; the one where it does worst decides. firn's own rules decide; where
 * the claim says so, or a policy is run by the published simulator's rules
 * only, those do.
 */
#ifndef REPRO_JUDGE_H
#define REPRO_JUDGE_H
#include "repro/reprorun.h"

struct repro_verdict {
    double ours[REPRO_NRULES]; /* NaN: not run by these rules, or failed */
    double needed;
    enum repro_rules by; /* which decided */
    bool holds;
    bool is_skipped;  /* no data: neither holds nor not */
    bool is_absent;   /* nor can it be told from what is public */
    const char *word; /* "yes", or why not, in a word or two */
};

struct repro_verdict judge(const struct repro_book *book,
                           const struct repro_part *part,
                           const struct repro_claim *claim);

struct repro_tally {
    int claims, held, skipped, absent; /* claims: without the last two */
};

struct repro_tally tally_part(const struct repro_book *book,
                              const struct repro_part *part);
struct repro_tally tally_book(const struct repro_book *book);

#endif
