/* reprojudge.h - decides whether a claim of a paper holds.
 *
 * With a = the metric of policy `of` and b = the metric of policy `over`
 * (exchanged for metrics where more is better), the figure of a claim is:
 *
 *     times      b / a; needed: 1 + share (paper - 1), or the paper's number
 *                itself if that is below 1. A paper's 1 means "better": 1.005
 *     less       1 - a / b; needed: share x paper
 *     at-most    a / b; needed: at most the paper's number
 *     below      a in the scenario's unit; needed: at most the paper's number
 *
 * With `beyond`, a `times` is divided by the `times` of another metric: does
 * the policy help one group of jobs more than another? It must not harm the
 * first one.
 *
 * Each draw of the workload gives a figure, because both policies run it. The
 * claim is judged by the 95 % interval of their mean (reprostat.h), from `low`
 * to `high`; with one draw by the figure itself, low = high. In this order:
 *
 *     yes         all of the interval reaches what is needed
 *     undecided   a part of it does
 *     reversed    all of it has the opposite sign, by 0.5 % or more
 *     even        it contains differences below 0.5 %
 *     short       the sign is right, the effect is too small
 *     above       (at-most, below) all of it is above the limit
 *     inert       it would be "yes", but the claim demands that the varied
 *                 parameter `acts`, i.e. changes the metric of `of` by that
 *                 share against the first point (or `over-at`), and it does not
 *     zero        one side is 0 in a draw: there is no ratio
 *
 * A claim without a point covers all points of the sweep; the worst verdict
 * decides, then the worst figure. The claim is judged by firn's own rules,
 * unless it asks for those of the published simulator or a policy exists only
 * there. If policy `of` has a variant, the claim is judged a second time with
 * the variant in its place; that verdict is only shown.
 *
 * In a planted book (reprorun.h) `of` is the planted policy. By the rules of a
 * published simulator, which has no other policies, it is policy `over`. A
 * claim that holds then cannot fail, and says nothing.
 */
#ifndef REPRO_JUDGE_H
#define REPRO_JUDGE_H
#include "repro/reprorun.h"

struct repro_verdict {
    struct repro_figure ours[REPRO_NRULES]; /* NaN: not run, or failed */
    double needed;
    enum repro_rules by; /* the rules that decided */
    bool holds;
    bool is_undecided;
    bool is_skipped;  /* the data are not there */
    bool is_absent;   /* the data are not public */
    const char *word; /* of the list above, or "failed", "jobs differ", ... */
};

struct repro_verdict judge(const struct repro_book *book,
                           const struct repro_part *part,
                           const struct repro_claim *claim);

/* The verdict with the variant of policy `of`; false if it has none, or if the
 * claim is judged by the rules of a published simulator, which has none. */
bool judge_variant(const struct repro_book *book, const struct repro_part *part,
                   const struct repro_claim *claim, struct repro_verdict *out);

struct repro_tally {
    int claims; /* neither skipped nor absent */
    int held, undecided, skipped, absent;
    int variants, variants_held; /* claims judged with a variant too */
};

struct repro_tally tally_part(const struct repro_book *book,
                              const struct repro_part *part);
/* Scenarios of one paper, or of all with NULL. */
struct repro_tally tally_book(const struct repro_book *book, const char *paper);

#endif
