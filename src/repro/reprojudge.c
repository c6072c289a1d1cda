/* reprojudge.c - decides whether a claim of a paper holds.
 *
 * Two runs are compared only if the same number of jobs finished in both: the
 * mean of a policy that rejects jobs is not comparable.
 */
#include "repro/reprojudge.h"
#include <math.h>

static const double EVEN = 0.005; /* smaller differences count as none */

struct sides {
    struct repro_cell *of, *over;
};

static struct sides sides_at(const struct repro_part *part,
                             const struct repro_claim *claim,
                             enum repro_rules rules, int point)
{
    int over = claim->over_point >= 0 ? claim->over_point : point;
    return (struct sides){
        book_cell(part, rules, claim->of_policy, point),
        book_cell(part, rules, claim->over_policy, over),
    };
}

/* The figure of a claim at one point for one metric (reprojudge.h). */
static double figure_of(const struct repro_book *book,
                        const struct repro_part *part,
                        const struct repro_claim *claim, enum repro_rules rules,
                        int point, int metric)
{
    const struct metric *of = &part->scenario->metric[metric];
    int over = claim->over_point >= 0 ? claim->over_point : point;
    double a = book_value(book, part, rules, claim->of_policy, point, metric);
    double b = book_value(book, part, rules, claim->over_policy, over, metric);
    if (of->is_more_good) {
        double swapped = a;
        a = b;
        b = swapped;
    }
    switch (claim->kind) {
    case REPRO_TIMES:
        return b / a;
    case REPRO_LESS:
        return 1 - a / b;
    case REPRO_BELOW:
        return of->is_time ? a / part->scenario->unit_s : a;
    default:
        return a / b;
    }
}

static double figure_at(const struct repro_book *book,
                        const struct repro_part *part,
                        const struct repro_claim *claim, enum repro_rules rules,
                        int point)
{
    double figure =
        figure_of(book, part, claim, rules, point, claim->metric_at);
    if (claim->beyond_at < 0)
        return figure;
    return figure /
           figure_of(book, part, claim, rules, point, claim->beyond_at);
}

/* Is the paper's number an upper limit? */
static bool is_limit(const struct repro_claim *claim)
{
    return claim->kind == REPRO_AT_MOST || claim->kind == REPRO_BELOW;
}

static double figure(const struct repro_book *book,
                     const struct repro_part *part,
                     const struct repro_claim *claim, enum repro_rules rules)
{
    if (claim->point >= 0)
        return figure_at(book, part, claim, rules, claim->point);
    double worst = NAN;
    for (int i = 0; i < part->scenario->npoints; i++) {
        double now = figure_at(book, part, claim, rules, i);
        struct sides sides = sides_at(part, claim, rules, i);
        if (sides.of->is_absent || sides.over->is_absent)
            continue;
        if (isnan(now))
            return NAN;
        bool is_worse = is_limit(claim) ? now > worst : now < worst;
        if (isnan(worst) || is_worse)
            worst = now;
    }
    return worst;
}

static double needed(const struct repro_claim *claim)
{
    if (claim->kind == REPRO_TIMES)
        return claim->paper > 1 ? 1 + claim->share * (claim->paper - 1)
                                : claim->paper;
    return claim->kind == REPRO_LESS ? claim->share * claim->paper
                                     : claim->paper;
}

/* The reason why the two sides cannot be compared, or NULL. */
static const char *obstacle(const struct repro_book *book,
                            const struct repro_part *part,
                            const struct repro_claim *claim,
                            enum repro_rules rules)
{
    int from = claim->point >= 0 ? claim->point : 0;
    int to = claim->point >= 0 ? claim->point + 1 : part->scenario->npoints;
    for (int i = from; i < to; i++) {
        struct sides sides = sides_at(part, claim, rules, i);
        if (sides.of->is_absent || sides.over->is_absent)
            continue;
        long of = book_jobs(book, sides.of), over = book_jobs(book, sides.over);
        if (sides.of->is_missing || sides.over->is_missing)
            return "no policy";
        if (of < 0 || over < 0 || sides.of->n == 0 || sides.over->n == 0)
            return "failed";
        if (of != over && (claim->over_point < 0 || claim->over_point == i))
            return "jobs differ";
    }
    return NULL;
}

/* Is one side not public at every point of the claim? */
static bool is_absent(const struct repro_part *part,
                      const struct repro_claim *claim, enum repro_rules rules)
{
    int from = claim->point >= 0 ? claim->point : 0;
    int to = claim->point >= 0 ? claim->point + 1 : part->scenario->npoints;
    for (int i = from; i < to; i++) {
        struct sides sides = sides_at(part, claim, rules, i);
        if (!sides.of->is_absent && !sides.over->is_absent)
            return false;
    }
    return true;
}

static const char *word_for(const struct repro_claim *claim, double ours,
                            double least)
{
    if (is_limit(claim))
        return ours <= least ? "yes" : "above";
    double none = claim->kind == REPRO_TIMES ? 1 : 0;
    bool is_even = fabs(ours - none) < EVEN;
    if (ours >= least && !(is_even && claim->paper == none))
        return "yes";
    if (is_even)
        return "even";
    return ours > none ? "short" : "reversed";
}

static bool has_rules(const struct repro_part *part,
                      const struct repro_claim *claim, enum repro_rules rules)
{
    const struct repro_policy *of = &part->scenario->policies[claim->of_policy];
    const struct repro_policy *over =
        &part->scenario->policies[claim->over_policy];
    if (rules == REPRO_HONEST)
        return (of->policy || of->model) && (over->policy || over->model);
    return of->compat && over->compat;
}

struct repro_verdict judge(const struct repro_book *book,
                           const struct repro_part *part,
                           const struct repro_claim *claim)
{
    struct repro_verdict verdict = {
        .ours = {NAN, NAN}, .needed = needed(claim), .word = "failed"};
    if (part->skip[0] != '\0') {
        verdict.is_skipped = true;
        verdict.word = "skipped";
        return verdict;
    }
    if (is_absent(part, claim, REPRO_HONEST)) {
        verdict.is_absent = true;
        verdict.word = "not reproducible";
        return verdict;
    }
    for (int i = 0; i < REPRO_NRULES; i++)
        if (has_rules(part, claim, (enum repro_rules)i))
            verdict.ours[i] = figure(book, part, claim, (enum repro_rules)i);
    bool is_honest = !claim->is_compat && has_rules(part, claim, REPRO_HONEST);
    verdict.by = is_honest ? REPRO_HONEST : REPRO_COMPAT;
    const char *why = obstacle(book, part, claim, verdict.by);
    double ours = verdict.ours[verdict.by];
    if (why == NULL && !isnan(ours))
        why = word_for(claim, ours, verdict.needed);
    verdict.word = why != NULL ? why : "failed";
    verdict.holds = verdict.word[0] == 'y';
    return verdict;
}

struct repro_tally tally_part(const struct repro_book *book,
                              const struct repro_part *part)
{
    struct repro_tally tally = {0};
    for (unsigned i = 0; i < part->scenario->claims_count; i++) {
        struct repro_verdict verdict =
            judge(book, part, &part->scenario->claims[i]);
        tally.held += verdict.holds;
        tally.skipped += verdict.is_skipped;
        tally.absent += verdict.is_absent;
        tally.claims += !verdict.is_skipped && !verdict.is_absent;
    }
    return tally;
}

struct repro_tally tally_book(const struct repro_book *book)
{
    struct repro_tally tally = {0};
    for (size_t i = 0; i < book->parts.n; i++) {
        struct repro_tally part = tally_part(book, &book->parts.at[i]);
        tally.claims += part.claims;
        tally.held += part.held;
        tally.skipped += part.skipped;
        tally.absent += part.absent;
    }
    return tally;
}
