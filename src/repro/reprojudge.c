/* reprojudge.c - decides whether a claim of a paper holds.
 *
 * Two runs are compared only if the same number of jobs finished in both: the
 * mean of a policy that rejects jobs is not comparable.
 */
#include "repro/reprojudge.h"
#include "base/mem.h"
#include <math.h>
#include <string.h>

static const double EVEN = 0.005; /* smaller differences count as none */

/* Verdicts from the worst to the best. */
enum word {
    FAILED,
    NO_POLICY,
    JOBS_DIFFER,
    ZERO,
    REVERSED,
    ABOVE,
    EVEN_,
    SHORT,
    INERT,
    UNDECIDED,
    YES,
};

static const char *const words[] = {
    "failed", "no policy", "jobs differ", "zero",      "reversed", "above",
    "even",   "short",     "inert",       "undecided", "yes",
};

/* --- the two sides -------------------------------------------------------- */

struct sides {
    struct repro_cell *of, *over;
};

static struct sides sides_at(const struct repro_book *book,
                             const struct repro_part *part,
                             const struct repro_claim *claim,
                             enum repro_rules rules, int point)
{
    int over = claim->over_point >= 0 ? claim->over_point : point;
    bool is_self = claim->of_policy == claim->over_policy;
    enum repro_rules of_rules = rules, over_rules = rules;
    int of_policy = claim->of_policy;
    if (book->plant != NULL && rules == REPRO_COMPAT)
        of_policy = claim->over_policy;
    else if (book->plant != NULL) {
        of_rules = REPRO_PLANTED;
        over_rules = is_self ? REPRO_PLANTED : rules;
    }
    return (struct sides){
        book_cell(part, of_rules, of_policy, point),
        book_cell(part, over_rules, claim->over_policy, over),
    };
}

/* b / a of one draw for one metric (reprojudge.h); 1 if both are 0. */
static double gain_of(const struct repro_book *book,
                      const struct repro_part *part, const struct sides *sides,
                      int metric, int draw)
{
    double a = book_draw(book, part, sides->of, metric, draw);
    double b = book_draw(book, part, sides->over, metric, draw);
    if (a == b)
        return 1;
    return part->scenario->metric[metric].is_more_good ? a / b : b / a;
}

/* --- figures -------------------------------------------------------------- */

/* Interval of 1 / x, and of 1 - 1 / x. */
static struct repro_figure inverse(struct repro_figure x)
{
    return (struct repro_figure){1 / x.at, 1 / x.high, 1 / x.low, x.draws};
}

static struct repro_figure reduction(struct repro_figure x)
{
    return (struct repro_figure){1 - 1 / x.at, 1 - 1 / x.low, 1 - 1 / x.high,
                                 x.draws};
}

static struct repro_figure value_at(const struct repro_book *book,
                                    const struct repro_part *part,
                                    const struct repro_claim *claim,
                                    const struct sides *sides)
{
    const struct metric *metric = &part->scenario->metric[claim->metric_at];
    double unit_s = metric->is_time ? part->scenario->unit_s : 1;
    int n = sides->of->ndraws;
    double *x = mem_new((size_t)n + 1, sizeof *x);
    for (int i = 0; i < n; i++)
        x[i] = book_draw(book, part, sides->of, claim->metric_at, i) / unit_s;
    struct repro_figure figure = stat_mean(x, n);
    mem_free(x);
    return figure;
}

/* The figure of a claim at one point; its interval is NaN if one side is 0 in
 * a draw. */
static struct repro_figure figure_at(const struct repro_book *book,
                                     const struct repro_part *part,
                                     const struct repro_claim *claim,
                                     enum repro_rules rules, int point)
{
    struct sides sides = sides_at(book, part, claim, rules, point);
    if (claim->kind == REPRO_BELOW)
        return value_at(book, part, claim, &sides);
    /* Number of draws that both sides have. */
    int n = sides.of->ndraws < sides.over->ndraws ? sides.of->ndraws
                                                  : sides.over->ndraws;
    double *x = mem_new((size_t)n + 1, sizeof *x);
    for (int i = 0; i < n; i++) {
        x[i] = gain_of(book, part, &sides, claim->metric_at, i);
        if (claim->beyond_at >= 0)
            x[i] /= gain_of(book, part, &sides, claim->beyond_at, i);
    }
    struct repro_figure figure = stat_ratio(x, n);
    mem_free(x);
    if (claim->kind == REPRO_AT_MOST)
        return inverse(figure);
    return claim->kind == REPRO_LESS ? reduction(figure) : figure;
}

/* Is the paper's number an upper limit? */
static bool is_limit(const struct repro_claim *claim)
{
    return claim->kind == REPRO_AT_MOST || claim->kind == REPRO_BELOW;
}

static double needed(const struct repro_claim *claim)
{
    if (claim->kind == REPRO_LESS)
        return claim->share * claim->paper;
    if (claim->kind != REPRO_TIMES || claim->paper < 1)
        return claim->paper;
    return 1 + fmax(EVEN, claim->share * (claim->paper - 1));
}

/* --- verdicts ------------------------------------------------------------- */

static enum word word_for(const struct repro_claim *claim,
                          struct repro_figure ours, double least)
{
    double none = claim->kind == REPRO_TIMES ? 1 : 0;
    if (isnan(ours.at))
        return FAILED;
    if (isnan(ours.low)) /* one side is 0 in a draw */
        return ZERO;
    if (is_limit(claim))
        return ours.high <= least ? YES : ours.low > least ? ABOVE : UNDECIDED;
    if (ours.low >= least)
        return YES;
    if (ours.high >= least)
        return UNDECIDED;
    if (ours.high <= none - EVEN)
        return REVERSED;
    return ours.low < none + EVEN ? EVEN_ : SHORT;
}

/* The reason why the two sides cannot be compared at a point, or YES. */
static enum word obstacle(const struct repro_book *book,
                          const struct repro_claim *claim,
                          const struct sides *sides, int point)
{
    long of = book_jobs(book, sides->of), over = book_jobs(book, sides->over);
    bool is_same_point = claim->over_point < 0 || claim->over_point == point;
    if (sides->of->is_missing || sides->over->is_missing)
        return NO_POLICY;
    if (of < 0 || over < 0 || sides->of->n == 0 || sides->over->n == 0)
        return FAILED;
    return of != over && is_same_point ? JOBS_DIFFER : YES;
}

/* Does the varied parameter change the metric of `of` by the share `least`
 * between the reference and this point? */
static bool is_moved(const struct repro_book *book,
                     const struct repro_part *part,
                     const struct repro_claim *claim, enum repro_rules rules,
                     int point)
{
    bool has_reference =
        claim->of_policy == claim->over_policy && claim->over_at != NULL;
    struct repro_claim self = *claim;
    self.kind = REPRO_TIMES;
    self.over_policy = claim->of_policy;
    self.over_point = has_reference ? claim->over_point : 0;
    self.beyond_at = -1;
    struct repro_figure moved = figure_at(book, part, &self, rules, point);
    return moved.low >= 1 + claim->least ||
           moved.high <= 1 / (1 + claim->least);
}

/* Does a claim with `beyond` hold only because the other group suffers more? */
static bool is_harmful(const struct repro_book *book,
                       const struct repro_part *part,
                       const struct repro_claim *claim, enum repro_rules rules,
                       int point)
{
    struct repro_claim alone = *claim;
    alone.beyond_at = -1;
    return claim->beyond_at >= 0 &&
           figure_at(book, part, &alone, rules, point).high < 1;
}

struct range {
    int from, to;
};

static struct range points_of(const struct repro_part *part,
                              const struct repro_claim *claim)
{
    if (claim->point >= 0)
        return (struct range){claim->point, claim->point + 1};
    return (struct range){0, part->scenario->npoints};
}

static bool is_inert(const struct repro_book *book,
                     const struct repro_part *part,
                     const struct repro_claim *claim, enum repro_rules rules)
{
    struct range points = points_of(part, claim);
    if (!(claim->least > 0))
        return false;
    for (int i = points.from; i < points.to; i++)
        if (is_moved(book, part, claim, rules, i))
            return false;
    return true;
}

/* Is one side not public at every point of the claim? */
static bool is_absent(const struct repro_book *book,
                      const struct repro_part *part,
                      const struct repro_claim *claim, enum repro_rules rules)
{
    struct range points = points_of(part, claim);
    for (int i = points.from; i < points.to; i++) {
        struct sides sides = sides_at(book, part, claim, rules, i);
        if (!sides.of->is_absent && !sides.over->is_absent)
            return false;
    }
    return true;
}

/* Judges by one set of rules: the worst point decides. */
static enum word judge_by(const struct repro_book *book,
                          const struct repro_part *part,
                          const struct repro_claim *claim,
                          enum repro_rules rules, struct repro_figure *ours)
{
    struct range points = points_of(part, claim);
    enum word worst = YES;
    bool is_first = true;
    for (int i = points.from; i < points.to; i++) {
        struct sides sides = sides_at(book, part, claim, rules, i);
        if (sides.of->is_absent || sides.over->is_absent)
            continue;
        struct repro_figure now = figure_at(book, part, claim, rules, i);
        enum word word = obstacle(book, claim, &sides, i);
        if (word == YES)
            word = word_for(claim, now, needed(claim));
        if (word == YES && is_harmful(book, part, claim, rules, i))
            word = REVERSED;
        bool is_lower = is_limit(claim) ? now.at > ours->at : now.at < ours->at;
        if (is_first || word < worst || (word == worst && is_lower)) {
            worst = word;
            *ours = now;
        }
        is_first = false;
    }
    if (is_first)
        return FAILED;
    return worst == YES && is_inert(book, part, claim, rules) ? INERT : worst;
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
    struct repro_figure none = {NAN, NAN, NAN, 0};
    struct repro_verdict verdict = {.ours = {none, none},
                                    .needed = needed(claim)};
    enum word by[REPRO_NRULES] = {FAILED, FAILED};
    if (part->skip[0] != '\0') {
        verdict.is_skipped = true;
        verdict.word = "skipped";
        return verdict;
    }
    if (is_absent(book, part, claim, REPRO_HONEST)) {
        verdict.is_absent = true;
        verdict.word = "not reproducible";
        return verdict;
    }
    for (int i = 0; i < REPRO_NRULES; i++)
        if (has_rules(part, claim, (enum repro_rules)i))
            by[i] = judge_by(book, part, claim, (enum repro_rules)i,
                             &verdict.ours[i]);
    bool is_honest = !claim->is_compat && has_rules(part, claim, REPRO_HONEST);
    verdict.by = is_honest ? REPRO_HONEST : REPRO_COMPAT;
    verdict.word = words[by[verdict.by]];
    verdict.holds = by[verdict.by] == YES;
    verdict.is_undecided = by[verdict.by] == UNDECIDED;
    return verdict;
}

bool judge_variant(const struct repro_book *book, const struct repro_part *part,
                   const struct repro_claim *claim, struct repro_verdict *out)
{
    int at = part->scenario->policies[claim->of_policy].variant_at;
    struct repro_claim other = *claim;
    if (at < 0 || book->plant != NULL)
        return false;
    other.of_policy = at;
    if (claim->over_policy == claim->of_policy)
        other.over_policy = at;
    *out = judge(book, part, &other);
    return !out->is_skipped && !out->is_absent && out->by == REPRO_HONEST;
}

struct repro_tally tally_part(const struct repro_book *book,
                              const struct repro_part *part)
{
    struct repro_tally tally = {0};
    for (unsigned i = 0; i < part->scenario->claims_count; i++) {
        const struct repro_claim *claim = &part->scenario->claims[i];
        struct repro_verdict verdict = judge(book, part, claim), variant;
        tally.held += verdict.holds;
        tally.undecided += verdict.is_undecided;
        tally.skipped += verdict.is_skipped;
        tally.absent += verdict.is_absent;
        tally.claims += !verdict.is_skipped && !verdict.is_absent;
        if (judge_variant(book, part, claim, &variant)) {
            tally.variants++;
            tally.variants_held += variant.holds;
        }
    }
    return tally;
}

struct repro_tally tally_book(const struct repro_book *book, const char *paper)
{
    struct repro_tally tally = {0};
    for (size_t i = 0; i < book->parts.n; i++) {
        const struct repro_part *at = &book->parts.at[i];
        if (paper != NULL && strcmp(at->scenario->paper, paper) != 0)
            continue;
        struct repro_tally part = tally_part(book, at);
        tally.claims += part.claims;
        tally.held += part.held;
        tally.undecided += part.undecided;
        tally.skipped += part.skipped;
        tally.absent += part.absent;
        tally.variants += part.variants;
        tally.variants_held += part.variants_held;
    }
    return tally;
}
