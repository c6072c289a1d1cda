/* test_reprojudge.c - when a claim of a paper holds.
 *
 * The cells of the book are a table here: values[rules][policy][point][metric],
 * which is the value of every draw, times factors[policy][draw].
 */
#include "repro/reprojudge.c" /* programs link libfirn.a, which has no repro */
#include "repro/reprostat.c"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { POLICIES = 3, POINTS = 3, METRICS = 2, DRAWS = 4 };
enum { OURS, OTHER, VARIANT };

static double values[REPRO_NROWS][POLICIES][POINTS][METRICS];
static double factors[POLICIES][DRAWS];
static long njobs[REPRO_NROWS][POLICIES][POINTS];
static struct repro_cell cells[REPRO_NROWS][POLICIES][POINTS];
static struct repro_policy policies[POLICIES];
static struct repro_scenario scenario;
static struct repro_part part;
static struct repro_book book;

struct repro_cell *book_cell(const struct repro_part *of,
                             enum repro_rules rules, int policy, int point)
{
    (void)of;
    return &cells[rules][policy][point];
}

double book_draw(const struct repro_book *of, const struct repro_part *in,
                 const struct repro_cell *cell, int metric, int draw)
{
    const double *all = &values[0][0][0][0];
    ptrdiff_t at = cell - &cells[0][0][0];
    (void)of;
    (void)in;
    return all[at * METRICS + metric] * factors[at / POINTS % POLICIES][draw];
}

long book_jobs(const struct repro_book *of, const struct repro_cell *cell)
{
    const long *all = &njobs[0][0][0];
    (void)of;
    return all[cell - &cells[0][0][0]];
}

/* One point; both policies take 1 s and finish 10 jobs. */
static int set_up(void **state)
{
    (void)state;
    memset(cells, 0, sizeof cells);
    memset(policies, 0, sizeof policies);
    memset(&scenario, 0, sizeof scenario);
    memset(&part, 0, sizeof part);
    for (int p = 0; p < POLICIES; p++) {
        for (int i = 0; i < DRAWS; i++)
            factors[p][i] = 1;
        policies[p].policy = "fifo";
        policies[p].variant_at = -1;
    }
    for (int r = 0; r < REPRO_NROWS; r++)
        for (int p = 0; p < POLICIES; p++)
            for (int i = 0; i < POINTS; i++) {
                for (int m = 0; m < METRICS; m++)
                    values[r][p][i][m] = 1;
                njobs[r][p][i] = 10;
                cells[r][p][i].n = 1;
                cells[r][p][i].ndraws = 1;
            }
    book.plant = NULL;
    scenario.policies = policies;
    scenario.policies_count = POLICIES;
    scenario.npoints = 1;
    scenario.unit_s = 1;
    part.scenario = &scenario;
    return 0;
}

static struct repro_claim claim_of(enum repro_kind kind, double paper)
{
    return (struct repro_claim){.kind = kind,
                                .paper = paper,
                                .share = 0.8,
                                .of_policy = OURS,
                                .over_policy = OTHER,
                                .over_point = -1,
                                .beyond_at = -1};
}

/* The verdict when policy OTHER has `over` and policy OURS 1. */
static const char *verdict_for(enum repro_kind kind, double paper, double over)
{
    struct repro_claim claim = claim_of(kind, paper);
    values[REPRO_HONEST][OTHER][0][0] = over;
    return judge(&book, &part, &claim).word;
}

/* Gives every cell three draws. Policy OTHER has the ratios 1.1, 1.2 and 1.5,
 * all of them times `times`. The logarithms are 0.0953, 0.1823 and 0.4055, with
 * mean 0.2277 and standard deviation 0.1600; t is 4.303 for two degrees of
 * freedom. 4.303 x 0.1600 / sqrt(3) = 0.3974, so the interval is exp(0.2277 -
 * 0.3974) = 0.8439 to exp(0.2277 + 0.3974) = 1.8685 around 1.2557. */
static void draw_three(double times)
{
    static const double ratios[] = {1.1, 1.2, 1.5};
    struct repro_cell *all = &cells[0][0][0];
    for (size_t i = 0; i < sizeof cells / sizeof *all; i++)
        all[i].ndraws = 3;
    for (int i = 0; i < 3; i++)
        factors[OTHER][i] = times * ratios[i];
}

static void the_interval_of_three_ratios_is_that_worked_by_hand(void **state)
{
    (void)state;
    struct repro_claim claim = claim_of(REPRO_TIMES, 1.5);
    draw_three(1);
    struct repro_figure ours = judge(&book, &part, &claim).ours[REPRO_HONEST];
    assert_true(fabs(ours.at - 1.2557) < 0.0001);
    assert_true(fabs(ours.low - 0.8439) < 0.0001);
    assert_true(fabs(ours.high - 1.8685) < 0.0001);
    assert_int_equal(ours.draws, 3);
    claim.kind = REPRO_LESS; /* 1 - 1 / x */
    ours = judge(&book, &part, &claim).ours[REPRO_HONEST];
    assert_true(fabs(ours.at - 0.2036) < 0.0001);
    assert_true(fabs(ours.low + 0.1850) < 0.0001);
    assert_true(fabs(ours.high - 0.4648) < 0.0001);
    claim.kind = REPRO_AT_MOST; /* 1 / x */
    ours = judge(&book, &part, &claim).ours[REPRO_HONEST];
    assert_true(fabs(ours.at - 0.7964) < 0.0001);
    assert_true(fabs(ours.low - 0.5352) < 0.0001);
    assert_true(fabs(ours.high - 1.1850) < 0.0001);
}

static void quantiles_of_student_are_those_of_the_tables(void **state)
{
    (void)state;
    assert_true(fabs(stat_t975(1) - 12.706) < 0.001);
    assert_true(fabs(stat_t975(19) - 2.093) < 0.001);
    assert_true(fabs(stat_t975(30) - 2.042) < 0.001);
    assert_true(fabs(stat_t975(40) - 2.021) < 0.001);
    assert_true(fabs(stat_t975(100) - 1.984) < 0.001);
}

static void the_whole_interval_must_reach_what_is_needed(void **state)
{
    (void)state;
    draw_three(1); /* 0.844 to 1.868; needed: 1 + 0.8 (paper - 1) */
    assert_string_equal(verdict_for(REPRO_TIMES, 1.5, 1), "undecided");
    assert_string_equal(verdict_for(REPRO_TIMES, 1.5, 1.7), "yes");
    assert_string_equal(verdict_for(REPRO_TIMES, 3, 1), "even");
    assert_string_equal(verdict_for(REPRO_TIMES, 3, 1.25), "short");
    assert_string_equal(verdict_for(REPRO_TIMES, 1.5, 0.6), "even");
    assert_string_equal(verdict_for(REPRO_TIMES, 1.5, 0.5), "reversed");
    assert_string_equal(verdict_for(REPRO_TIMES, 1, 1), "undecided");
    /* limit of 1 / x: 0.535 to 1.185 */
    assert_string_equal(verdict_for(REPRO_AT_MOST, 1.2, 1), "yes");
    assert_string_equal(verdict_for(REPRO_AT_MOST, 1.1, 1), "undecided");
    assert_string_equal(verdict_for(REPRO_AT_MOST, 0.5, 1), "above");
}

static void a_draw_that_is_hard_for_both_policies_changes_nothing(void **state)
{
    (void)state;
    struct repro_claim claim = claim_of(REPRO_TIMES, 1.5);
    draw_three(1);
    struct repro_figure before = judge(&book, &part, &claim).ours[REPRO_HONEST];
    factors[OURS][1] *= 100;
    factors[OTHER][1] *= 100;
    struct repro_figure after = judge(&book, &part, &claim).ours[REPRO_HONEST];
    assert_true(fabs(before.low - after.low) < 1e-12);
    assert_true(fabs(before.high - after.high) < 1e-12);
}

static void a_limit_on_a_value_has_the_interval_of_the_mean(void **state)
{
    (void)state;
    struct repro_claim claim = claim_of(REPRO_BELOW, 0);
    draw_three(1);
    claim.of_policy = OTHER; /* 1.1, 1.2, 1.5: mean 1.2667, deviation 0.2082 */
    struct repro_figure ours = judge(&book, &part, &claim).ours[REPRO_HONEST];
    assert_true(fabs(ours.at - 1.2667) < 0.0001);
    assert_true(fabs(ours.high - 1.7838) < 0.0001); /* + 4.3027 x 0.1202 */
}

static void a_ratio_with_zero_never_holds(void **state)
{
    (void)state;
    assert_string_equal(verdict_for(REPRO_TIMES, 1.5, 0), "zero");
    values[REPRO_HONEST][OURS][0][0] = 0;
    assert_string_equal(verdict_for(REPRO_TIMES, 1.5, 1), "zero");
    assert_string_equal(verdict_for(REPRO_LESS, 0.5, 1), "zero");
    assert_string_equal(verdict_for(REPRO_AT_MOST, 0.5, 1), "zero");
    assert_string_equal(verdict_for(REPRO_TIMES, 1.5, 0), "even");
    draw_three(1);
    factors[OTHER][1] = 0;
    values[REPRO_HONEST][OURS][0][0] = 1;
    assert_string_equal(verdict_for(REPRO_TIMES, 1.5, 9), "zero");
}

static void a_limit_is_not_kept_by_a_parameter_that_does_nothing(void **state)
{
    (void)state;
    struct repro_claim claim = claim_of(REPRO_AT_MOST, 1.17);
    struct repro_sweep sweep = {0};
    claim.over_policy = OURS;
    claim.over_at = "0";
    claim.point = 2;
    claim.over_point = 0;
    claim.least = 0.02;
    scenario.npoints = POINTS;
    scenario.sweep = &sweep;
    assert_string_equal(judge(&book, &part, &claim).word, "inert");
    values[REPRO_HONEST][OURS][2][0] = 1.01;
    assert_string_equal(judge(&book, &part, &claim).word, "inert");
    values[REPRO_HONEST][OURS][2][0] = 1.03;
    assert_string_equal(judge(&book, &part, &claim).word, "yes");
    values[REPRO_HONEST][OURS][2][0] = 0.97; /* it may also help */
    assert_string_equal(judge(&book, &part, &claim).word, "yes");
    values[REPRO_HONEST][OURS][2][0] = 1.18;
    assert_string_equal(judge(&book, &part, &claim).word, "above");
}

static void another_policy_is_no_reference_for_a_parameter(void **state)
{
    (void)state;
    struct repro_claim claim = claim_of(REPRO_TIMES, 1);
    struct repro_sweep sweep = {0};
    claim.point = -1; /* every point */
    claim.least = 0.02;
    scenario.npoints = POINTS;
    scenario.sweep = &sweep;
    for (int i = 0; i < POINTS; i++)
        values[REPRO_HONEST][OTHER][i][0] = 2 + i;
    assert_string_equal(judge(&book, &part, &claim).word, "inert");
    values[REPRO_HONEST][OURS][1][0] = 1.03; /* against the first point */
    assert_string_equal(judge(&book, &part, &claim).word, "yes");
}

static void a_variant_is_judged_beside_the_policy_of_the_paper(void **state)
{
    (void)state;
    struct repro_claim claim = claim_of(REPRO_TIMES, 1.5);
    struct repro_verdict verdict;
    values[REPRO_HONEST][OTHER][0][0] = 1.2;
    assert_false(judge_variant(&book, &part, &claim, &verdict));
    policies[OURS].variant_at = VARIANT;
    values[REPRO_HONEST][VARIANT][0][0] = 0.5;
    assert_true(judge_variant(&book, &part, &claim, &verdict));
    assert_string_equal(verdict.word, "yes");
    assert_true(fabs(verdict.ours[REPRO_HONEST].at - 2.4) < 1e-12);
    assert_string_equal(judge(&book, &part, &claim).word, "short");
    scenario.claims = &claim;
    scenario.claims_count = 1;
    struct repro_tally tally = tally_part(&book, &part);
    assert_int_equal(tally.held, 0);
    assert_int_equal(tally.variants, 1);
    assert_int_equal(tally.variants_held, 1);
}

static void
a_planted_policy_is_judged_instead_of_that_of_the_claim(void **state)
{
    (void)state;
    struct repro_claim claim = claim_of(REPRO_TIMES, 1.5);
    values[REPRO_HONEST][OTHER][0][0] = 2;
    values[REPRO_PLANTED][OURS][0][0] = 3;
    assert_string_equal(judge(&book, &part, &claim).word, "yes");
    book.plant = "worst";
    assert_string_equal(judge(&book, &part, &claim).word, "reversed");
    policies[OURS].policy = NULL; /* of the artifact alone: OTHER is planted */
    policies[OURS].compat = policies[OTHER].compat = "yarn-cs";
    values[REPRO_COMPAT][OTHER][0][0] = 2;
    assert_string_equal(judge(&book, &part, &claim).word, "even");
}

static void a_factor_must_reach_four_fifths_of_its_gain(void **state)
{
    (void)state;
    assert_string_equal(verdict_for(REPRO_TIMES, 1.5, 1.41), "yes");
    assert_string_equal(verdict_for(REPRO_TIMES, 1.5, 1.39), "short");
    assert_string_equal(verdict_for(REPRO_TIMES, 1.5, 1.004), "even");
    assert_string_equal(verdict_for(REPRO_TIMES, 1.5, 0.9), "reversed");
}

static void better_means_more_than_half_a_percent(void **state)
{
    (void)state;
    assert_string_equal(verdict_for(REPRO_TIMES, 1, 1.006), "yes");
    assert_string_equal(verdict_for(REPRO_TIMES, 1, 1.004), "even");
    assert_string_equal(verdict_for(REPRO_TIMES, 0.98, 0.99), "yes");
}

static void a_reduction_must_reach_four_fifths(void **state)
{
    (void)state;
    assert_string_equal(verdict_for(REPRO_LESS, 0.5, 1 / 0.59), "yes");
    assert_string_equal(verdict_for(REPRO_LESS, 0.5, 1 / 0.61), "short");
    assert_string_equal(verdict_for(REPRO_LESS, 0.5, 0.5), "reversed");
}

static void a_limit_must_not_be_exceeded(void **state)
{
    (void)state;
    assert_string_equal(verdict_for(REPRO_AT_MOST, 0.5, 2.01), "yes");
    assert_string_equal(verdict_for(REPRO_AT_MOST, 0.5, 1.99), "above");
    scenario.metric[0].is_time = true;
    scenario.unit_s = 3600;
    values[REPRO_HONEST][OURS][0][0] = 7300;
    assert_string_equal(verdict_for(REPRO_BELOW, 2, 1), "above");
    values[REPRO_HONEST][OURS][0][0] = 7100;
    assert_string_equal(verdict_for(REPRO_BELOW, 2, 1), "yes");
}

static void for_a_utilisation_the_sides_are_exchanged(void **state)
{
    (void)state;
    scenario.metric[0].is_more_good = true;
    assert_string_equal(verdict_for(REPRO_TIMES, 1.5, 1 / 1.41), "yes");
    assert_string_equal(verdict_for(REPRO_TIMES, 1.5, 1.41), "reversed");
}

static void without_a_point_the_worst_point_decides(void **state)
{
    (void)state;
    struct repro_claim claim = claim_of(REPRO_TIMES, 1.5);
    static const double over[POINTS] = {2, 1.39, 3};
    claim.point = -1;
    scenario.npoints = POINTS;
    for (int i = 0; i < POINTS; i++)
        values[REPRO_HONEST][OTHER][i][0] = over[i];
    assert_string_equal(judge(&book, &part, &claim).word, "short");
    cells[REPRO_HONEST][OURS][1].is_absent = true; /* it is not public */
    assert_string_equal(judge(&book, &part, &claim).word, "yes");
    values[REPRO_HONEST][OTHER][2][0] = NAN;
    cells[REPRO_HONEST][OTHER][2].n = 0;
    assert_string_equal(judge(&book, &part, &claim).word, "failed");
}

static void runs_with_different_numbers_of_jobs_are_not_compared(void **state)
{
    (void)state;
    njobs[REPRO_HONEST][OTHER][0] = 9;
    assert_string_equal(verdict_for(REPRO_TIMES, 1.5, 9), "jobs differ");
    njobs[REPRO_HONEST][OTHER][0] = -1;
    assert_string_equal(verdict_for(REPRO_TIMES, 1.5, 9), "failed");
    cells[REPRO_HONEST][OTHER][0].is_missing = true;
    assert_string_equal(verdict_for(REPRO_TIMES, 1.5, 9), "no policy");
}

static void a_second_metric_divides_the_first(void **state)
{
    (void)state;
    struct repro_claim claim = claim_of(REPRO_TIMES, 1.5);
    claim.beyond_at = 1;
    values[REPRO_HONEST][OTHER][0][0] = 3;
    values[REPRO_HONEST][OTHER][0][1] = 2; /* 3 / 2 = 1.5 */
    assert_string_equal(judge(&book, &part, &claim).word, "yes");
    values[REPRO_HONEST][OTHER][0][1] = 2.5;
    assert_string_equal(judge(&book, &part, &claim).word, "short");
    values[REPRO_HONEST][OTHER][0][0] = 0.9; /* both groups suffer */
    values[REPRO_HONEST][OTHER][0][1] = 0.3;
    assert_string_equal(judge(&book, &part, &claim).word, "reversed");
}

static void a_policy_of_the_artifact_alone_is_judged_there(void **state)
{
    (void)state;
    struct repro_claim claim = claim_of(REPRO_TIMES, 1.5);
    policies[OURS].policy = NULL;
    policies[OURS].compat = policies[OTHER].compat = "yarn-cs";
    values[REPRO_COMPAT][OTHER][0][0] = 2;
    struct repro_verdict verdict = judge(&book, &part, &claim);
    assert_string_equal(verdict.word, "yes");
    assert_int_equal(verdict.by, REPRO_COMPAT);
    assert_true(isnan(verdict.ours[REPRO_HONEST].at));
}

static void claims_without_data_are_not_counted(void **state)
{
    (void)state;
    struct repro_claim claims[2] = {claim_of(REPRO_TIMES, 1.5),
                                    claim_of(REPRO_TIMES, 1.5)};
    claims[1].point = 1;
    scenario.npoints = 2;
    scenario.claims = claims;
    scenario.claims_count = 2;
    values[REPRO_HONEST][OTHER][0][0] = 2;
    cells[REPRO_HONEST][OURS][1].is_absent = true;
    struct repro_tally tally = tally_part(&book, &part);
    assert_int_equal(tally.claims, 1);
    assert_int_equal(tally.held, 1);
    assert_int_equal(tally.absent, 1);
    snprintf(part.skip, sizeof part.skip, "FIRN_DATA is not set");
    tally = tally_part(&book, &part);
    assert_int_equal(tally.claims, 0);
    assert_int_equal(tally.skipped, 2);
}

#define CASE(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_interval_of_three_ratios_is_that_worked_by_hand),
        CASE(quantiles_of_student_are_those_of_the_tables),
        CASE(the_whole_interval_must_reach_what_is_needed),
        CASE(a_draw_that_is_hard_for_both_policies_changes_nothing),
        CASE(a_limit_on_a_value_has_the_interval_of_the_mean),
        CASE(a_ratio_with_zero_never_holds),
        CASE(a_limit_is_not_kept_by_a_parameter_that_does_nothing),
        CASE(another_policy_is_no_reference_for_a_parameter),
        CASE(a_variant_is_judged_beside_the_policy_of_the_paper),
        CASE(a_planted_policy_is_judged_instead_of_that_of_the_claim),
        CASE(a_factor_must_reach_four_fifths_of_its_gain),
        CASE(better_means_more_than_half_a_percent),
        CASE(a_reduction_must_reach_four_fifths),
        CASE(a_limit_must_not_be_exceeded),
        CASE(for_a_utilisation_the_sides_are_exchanged),
        CASE(without_a_point_the_worst_point_decides),
        CASE(runs_with_different_numbers_of_jobs_are_not_compared),
        CASE(a_second_metric_divides_the_first),
        CASE(a_policy_of_the_artifact_alone_is_judged_there),
        CASE(claims_without_data_are_not_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
