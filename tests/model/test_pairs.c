/* test_pairs.c - how slow pairs get: by hand, and as measured. */
#include "base/rng.h"
#include "lib/csv.h"
#include "lib/data.h"
#include "math/stats.h"
#include <firn/sharing.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { NAME = 32, APPS = 16, PAIRS = 128 };

static void assert_near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * (1e-9 + fabs(b))))
        fail_msg("%g is not %g", a, b);
}

/* --- pairs ---------------------------------------------------------- */

static void a_pair_shrinks_to_its_class_and_a_class_to_all(void **state)
{
    (void)state;
    static const int class_of[] = {0, 0, 1};
    double storage[FIRN_PAIRS_DOUBLES(3, 2)];
    struct firn_pairs p;
    firn_pairs_init(&p, storage, 3, class_of, 2, 1.5);
    assert_near(firn_pairs_xi(&p, 0, 2).xi, 1.5, 1e-12);
    assert_true(firn_pairs_xi(&p, 0, 2).extrapolated);
    assert_int_equal(firn_pairs_add(&p, 0, 2, 3, 1, NULL), FIRN_OK);
    /* all: (1.5 + 3)/2 = 2.25; class 0 beside 1: (3 + 2.25)/2 = 2.625. What 0
     * feels and 2 does: (3 + 2.25)/2 each, so 1 + 1.625^2 / 1.25 = 3.1125, and
     * with the class (3.1125 + 2.625)/2 = 2.86875; the pair itself:
     * (3 + 2.86875)/2 = 2.934375. The other of its class, never seen: 2.625. */
    assert_near(firn_pairs_xi(&p, 0, 2).xi, 2.934375, 1e-12);
    assert_near(firn_pairs_xi(&p, 1, 2).xi, 2.625, 1e-12);
    assert_false(firn_pairs_xi(&p, 1, 2).extrapolated);
    assert_near(firn_pairs_xi(&p, 2, 0).xi, 2.25, 1e-12);
    assert_true(firn_pairs_xi(&p, 2, 0).extrapolated);
    assert_near(firn_pairs_xi(&p, 9, 0).xi, 2.25, 1e-12);
}

static void old_observations_fade(void **state)
{
    (void)state;
    static const int class_of[] = {0};
    double storage[FIRN_PAIRS_DOUBLES(1, 1)];
    struct firn_pairs p;
    firn_pairs_init(&p, storage, 1, class_of, 1, 1.5);
    p.pair_shrink = 0;
    for (int i = 0; i < 200; i++)
        assert_int_equal(firn_pairs_add(&p, 0, 0, 2, 1, NULL), FIRN_OK);
    assert_near(firn_pairs_xi(&p, 0, 0).xi, 2, 1e-12);
    /* then 1: after n more, 1 + (20/21)^n; n = 60: 1.0535 */
    for (int i = 0; i < 60; i++)
        assert_int_equal(firn_pairs_add(&p, 0, 0, 0.9, 1, NULL), FIRN_OK);
    assert_near(firn_pairs_xi(&p, 0, 0).xi, 1.0535, 1e-3);
}

static void bad_slowdowns_are_refused(void **state)
{
    (void)state;
    static const int class_of[] = {0};
    double storage[FIRN_PAIRS_DOUBLES(1, 1)];
    struct firn_pairs p;
    struct firn_error err;
    firn_pairs_init(&p, storage, 1, class_of, 1, 1.5);
    assert_int_equal(firn_pairs_add(&p, 0, 1, 2, 1, &err), FIRN_EINVAL);
    assert_int_equal(firn_pairs_add(&p, 0, 0, 0, 1, &err), FIRN_EINVAL);
    assert_int_equal(firn_pairs_add(&p, 0, 0, (double)INFINITY, 1, &err),
                     FIRN_EINVAL);
    assert_near(firn_pairs_xi(&p, 0, 0).xi, 1.5, 1e-12);
}

static void a_slow_pair_is_separated_after_three_observations(void **state)
{
    (void)state;
    struct firn_share_rule rule = firn_share_rule_default();
    struct firn_share_watch watch = {0};
    /* 1/2.2 + 1/2.2 = 0.91: worse than taking turns, but wait for three */
    assert_false(firn_share_watch(&watch, &rule, 2.2, 2.2));
    assert_false(firn_share_watch(&watch, &rule, 2.2, 2.2));
    assert_true(firn_share_watch(&watch, &rule, 2.2, 2.2));
    watch = (struct firn_share_watch){0};
    for (int i = 0; i < 20; i++) /* 1/2 + 1/1.2 = 1.33 */
        assert_false(firn_share_watch(&watch, &rule, 2, 1.2));
    /* one stall does not separate them, xi_a = 2 + 0.3 (3 - 2) */
    assert_false(firn_share_watch(&watch, &rule, 3, 1.2));
    assert_near(watch.xi_a, 2.3, 1e-9);
    /* 2.3 + 0.3 (3 - 2.3) = 2.51 > 2.5 */
    assert_true(firn_share_watch(&watch, &rule, 3, 1.2));
    assert_near(firn_share_gain(0.9, 2), 1.5, 1e-12);
}

static void xi_stays_between_1_and_twice_the_largest_observed(void **state)
{
    (void)state;
    const uint64_t seed = 77;
    struct rng rng;
    rng_seed(&rng, seed);
    for (int round = 0; round < 200; round++) {
        static const int class_of[] = {0, 1, 1, 2, -1};
        double storage[FIRN_PAIRS_DOUBLES(5, 3)];
        struct firn_pairs p;
        firn_pairs_init(&p, storage, 5, class_of, 3, 1.5);
        double most = 1.5;
        for (int i = 0; i < 30; i++) {
            double xi = 0.8 + rng_exp(&rng, 0.5);
            most = fmax(most, xi);
            assert_int_equal(firn_pairs_add(&p, rng_below(&rng, 5),
                                            rng_below(&rng, 5), xi,
                                            0.5 + rng_unit(&rng), NULL),
                             FIRN_OK);
        }
        for (size_t a = 0; a < 5; a++)
            for (size_t b = 0; b < 5; b++) {
                double xi = firn_pairs_xi(&p, a, b).xi;
                if (xi < 1 || xi > 2 * most - 1 + 1e-9)
                    fail_msg("seed %llu round %d: xi %g",
                             (unsigned long long)seed, round, xi);
            }
    }
}

/* --- measured pairs ---------------------------------------------------- */

static struct {
    char name[APPS][NAME];
    int n;
} names;

static int number_of(const char *name)
{
    for (int i = 0; i < names.n; i++)
        if (strcmp(names.name[i], name) == 0)
            return i;
    assert_true(names.n < APPS);
    snprintf(names.name[names.n], NAME, "%s", name);
    return names.n++;
}

struct pair_table {
    size_t a[PAIRS], b[PAIRS];
    double xi_a[PAIRS], xi_b[PAIRS];
    size_t n;
};

static bool load_pairs(struct pair_table *t, const char *rel)
{
    const char *path = data_path(rel);
    struct csv *csv = path != NULL ? csv_open(path) : NULL;
    if (csv == NULL)
        return false;
    names.n = 0;
    while (t->n < PAIRS && csv_next(csv)) {
        if (csv_number(csv, "frozen_a") > 0)
            continue;
        t->a[t->n] = (size_t)number_of(csv_text(csv, "a"));
        t->b[t->n] = (size_t)number_of(csv_text(csv, "b"));
        t->xi_a[t->n] = fmax(csv_number(csv, "xi_a"), 1);
        t->xi_b[t->n++] = fmax(csv_number(csv, "xi_b"), 1);
    }
    csv_close(csv);
    return true;
}

static void learn(struct firn_pairs *p, const struct pair_table *t, size_t i)
{
    firn_pairs_add(p, t->a[i], t->b[i], t->xi_a[i], 1, NULL);
    firn_pairs_add(p, t->b[i], t->a[i], t->xi_b[i], 1, NULL);
}

/* Which of the three classes the names of the tables belong to, by their
 * measured utilisation. */
static int class_by_name(const char *name)
{
    static const struct {
        const char *name;
        double util_pct;
    } util[] = {{"resnet18-c", 27},    {"vgg16-c", 100},   {"googlenet-c", 22},
                {"mobilenetv2-c", 18}, {"resnet50-c", 40}, {"resnet18-i", 95},
                {"resnet50-i", 100},   {"bert-base", 100}};
    for (size_t i = 0; i < sizeof util / sizeof *util; i++)
        if (strcmp(util[i].name, name) == 0)
            return firn_share_class(util[i].util_pct);
    return -1;
}

/* Mean error on a pair never seen, from the classes of the others (after
 * `seen` observations of it). */
static double unseen_pairs(const struct pair_table *t, int seen)
{
    int class_of[APPS];
    double storage[FIRN_PAIRS_DOUBLES(APPS, 3)];
    double predicted[2 * PAIRS], measured[2 * PAIRS];
    size_t n = 0;
    for (int i = 0; i < names.n; i++)
        class_of[i] = class_by_name(names.name[i]);
    for (size_t out = 0; out < t->n; out++) {
        struct firn_pairs p;
        firn_pairs_init(&p, storage, (size_t)names.n, class_of, 3, 1.5);
        for (size_t i = 0; i < t->n; i++)
            if (i != out)
                learn(&p, t, i);
        for (int i = 0; i < seen; i++)
            learn(&p, t, out);
        predicted[n] = firn_pairs_xi(&p, t->a[out], t->b[out]).xi;
        measured[n++] = t->xi_a[out];
        if (t->a[out] == t->b[out])
            continue;
        predicted[n] = firn_pairs_xi(&p, t->b[out], t->a[out]).xi;
        measured[n++] = t->xi_b[out];
    }
    return stats_mape(predicted, measured, n);
}

static void pairs_never_seen_are_guessed_and_then_learned(void **state)
{
    (void)state;
    static const char *const tables[] = {"h200/pairs_timeslice.csv",
                                         "h200/pairs_mps.csv",
                                         "h200/pairs_frozen_timeslice.csv"};
    for (int i = 0; i < 3; i++) {
        struct pair_table t = {.n = 0};
        if (!load_pairs(&t, tables[i])) {
            print_message("no table of pairs: skipped\n");
            skip();
        }
        double unseen = unseen_pairs(&t, 0);
        double once = unseen_pairs(&t, 1);
        double often = unseen_pairs(&t, 5);
        print_message("%s, one pair held out: xi off by %.1f %%, after one "
                      "observation %.1f %%, after five %.1f %%\n",
                      tables[i], 100 * unseen, 100 * once, 100 * often);
        assert_true(unseen < 0.25);
        assert_true(once < 0.75 * unseen && often < once);
    }
}

/* --- the merged public table ---------------------------------------- */

enum { JOBS = 128, SLOWDOWNS = 4096 };

struct slowdown {
    size_t a, b;
    double xi;
    bool held_out;
};

static struct {
    struct slowdown at[SLOWDOWNS];
    size_t n;
    char job[JOBS][NAME * 2];
    size_t njobs;
} merged;

static size_t job_number(const char *job, const char *batch)
{
    char name[NAME * 2];
    snprintf(name, sizeof name, "%s/%s", job, batch);
    for (size_t i = 0; i < merged.njobs; i++)
        if (strcmp(merged.job[i], name) == 0)
            return i;
    assert_true(merged.njobs < JOBS);
    snprintf(merged.job[merged.njobs], sizeof name, "%s", name);
    return merged.njobs++;
}

static bool load_merged(const char *source, const char *gpu, struct rng *rng)
{
    const char *path = data_path("derived/gpu_sharing_slowdown.csv");
    struct csv *csv = path != NULL ? csv_open(path) : NULL;
    if (csv == NULL)
        return false;
    merged.n = merged.njobs = 0;
    while (csv_next(csv) && merged.n + 2 <= SLOWDOWNS) {
        if (strcmp(csv_text(csv, "source"), source) != 0 ||
            strcmp(csv_text(csv, "gpu"), gpu) != 0)
            continue;
        size_t a = job_number(csv_text(csv, "job_a"), csv_text(csv, "batch_a"));
        size_t b = job_number(csv_text(csv, "job_b"), csv_text(csv, "batch_b"));
        bool out = rng_below(rng, 2) == 0;
        merged.at[merged.n++] = (struct slowdown){
            a, b, fmax(csv_number(csv, "slowdown_a"), 1), out};
        merged.at[merged.n++] = (struct slowdown){
            b, a, fmax(csv_number(csv, "slowdown_b"), 1), out};
    }
    csv_close(csv);
    return true;
}

/* Mean error on the half held out, of the table and of one mean for all. */
static double unseen_half(double *one_mean)
{
    static double storage[FIRN_PAIRS_DOUBLES(JOBS, 1)];
    static double predicted[SLOWDOWNS], measured[SLOWDOWNS], same[SLOWDOWNS];
    static const int class_of[JOBS];
    struct firn_pairs p;
    firn_pairs_init(&p, storage, merged.njobs, class_of, 1, 1.5);
    for (size_t i = 0; i < merged.n; i++)
        if (!merged.at[i].held_out)
            firn_pairs_add(&p, merged.at[i].a, merged.at[i].b, merged.at[i].xi,
                           1, NULL);
    size_t n = 0;
    for (size_t i = 0; i < merged.n; i++) {
        if (!merged.at[i].held_out)
            continue;
        predicted[n] = firn_pairs_xi(&p, merged.at[i].a, merged.at[i].b).xi;
        same[n] = p.all_mean;
        measured[n++] = merged.at[i].xi;
    }
    *one_mean = stats_mape(same, measured, n);
    return stats_mape(predicted, measured, n);
}

static void half_of_a_table_predicts_the_other(void **state)
{
    (void)state;
    static const char *const tables[][2] = {{"lucid", "RTX3090"},
                                            {"gavel", "V100"},
                                            {"gavel", "P100"},
                                            {"gavel", "K80"},
                                            {"titan", "V100"}};
    const uint64_t seed = 11;
    struct rng rng;
    rng_seed(&rng, seed);
    for (int i = 0; i < 5; i++) {
        double one_mean;
        if (!load_merged(tables[i][0], tables[i][1], &rng)) {
            print_message("no table of slowdowns: skipped\n");
            skip();
        }
        double off = unseen_half(&one_mean);
        print_message("%s %s, half held out (seed %llu): xi off by %.1f %%, "
                      "one mean for all by %.1f %%\n",
                      tables[i][0], tables[i][1], (unsigned long long)seed,
                      100 * off, 100 * one_mean);
        assert_true(off < 0.15 && off < 0.8 * one_mean);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_shrinks_to_its_class_and_a_class_to_all),
        cmocka_unit_test(old_observations_fade),
        cmocka_unit_test(bad_slowdowns_are_refused),
        cmocka_unit_test(a_slow_pair_is_separated_after_three_observations),
        cmocka_unit_test(xi_stays_between_1_and_twice_the_largest_observed),
        cmocka_unit_test(pairs_never_seen_are_guessed_and_then_learned),
        cmocka_unit_test(half_of_a_table_predicts_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
