/* reprojudge.h - decides whether a claim of a paper holds.
 *
 * With a = the metric of policy `of` and b = the metric of policy `over`
 * (exchanged for metrics where more is better), the figure of a claim is:
 *
 *     times      b / a; at least 1 + share (paper - 1), or the paper's number
 *                itself if that is not above 1. A paper's 1 means "better": the
 *                figure must be above 1.005
 *     less       1 - a / b; at least share x paper
 *     at-most    a / b; at most the paper's number
 *     below      a in the scenario's unit; at most the paper's number
 *
 * With `beyond`, a `times` is divided by the `times` of another metric: does
 * the policy help one group of jobs more than another?
 *
 * A claim without a point covers all points of the sweep; the worst one
 * decides. The claim is judged by firn's own rules, unless it asks for those of
 * the published simulator or a policy exists only there.
 */
#ifndef REPRO_JUDGE_H
#define REPRO_JUDGE_H
#include "repro/reprorun.h"

struct repro_verdict {
    double ours[REPRO_NRULES]; /* figure by rules; NaN: not run, or failed */
    double needed;
    enum repro_rules by; /* the rules that decided */
    bool holds;
    bool is_skipped;  /* the data are not there */
    bool is_absent;   /* the data are not public */
    const char *word; /* "yes", or a short reason: "short", "reversed" */
};

struct repro_verdict judge(const struct repro_book *book,
                           const struct repro_part *part,
                           const struct repro_claim *claim);

struct repro_tally {
    int claims, held, skipped, absent; /* claims: neither of the last two */
};

struct repro_tally tally_part(const struct repro_book *book,
                              const struct repro_part *part);
struct repro_tally tally_book(const struct repro_book *book);

#endif
