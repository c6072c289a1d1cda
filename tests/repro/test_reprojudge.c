/* test_reprojudge.c - when a claim of a paper holds.
 *
 * The cells of the book are a table here: values[rules][policy][point][metric].
 */
#include "repro/reprojudge.c" /* programs link libfirn.a, which has no repro */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { POLICIES = 2, POINTS = 3, METRICS = 2, OURS = 0, OTHER = 1 };

static double values[REPRO_NRULES][POLICIES][POINTS][METRICS];
static long njobs[REPRO_NRULES][POLICIES][POINTS];
static struct repro_cell cells[REPRO_NRULES][POLICIES][POINTS];
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

double book_value(const struct repro_book *of, const struct repro_part *in,
                  enum repro_rules rules, int policy, int point, int metric)
{
    (void)of;
    (void)in;
    return values[rules][policy][point][metric];
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
    for (int r = 0; r < REPRO_NRULES; r++)
        for (int p = 0; p < POLICIES; p++)
            for (int i = 0; i < POINTS; i++) {
                for (int m = 0; m < METRICS; m++)
                    values[r][p][i][m] = 1;
                njobs[r][p][i] = 10;
                cells[r][p][i].n = 1;
            }
    policies[OURS].policy = policies[OTHER].policy = "fifo";
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
    assert_true(isnan(verdict.ours[REPRO_HONEST]));
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
