/* test_sharing.c - usage, packing rules, pairs: by hand and as measured. */
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

enum { ROWS = 256, NAME = 32, APPS = 16, PAIRS = 128 };

static void assert_near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * (1e-9 + fabs(b))))
        fail_msg("%g is not %g", a, b);
}

/* --- regression ---------------------------------------------------------- */

static void linear_form_finds_the_coefficients(void **state)
{
    (void)state;
    /* 100 + 2 m + 50 theta + 30 omega: at (32, 0.5, 0.5) 100+64+25+15 = 204 */
    struct firn_usage_obs obs[160];
    struct firn_usage u;
    for (int i = 0; i < 160; i++) {
        int k = i % 8;
        struct firn_usage_obs o = {8 << (i % 4), 1 - 0.1 * k, 1 - 0.01 * k * k,
                                   0};
        o.value = 100 + 2 * o.batch + 50 * o.theta + 30 * o.omega;
        obs[i] = o;
    }
    assert_int_equal(
        firn_usage_fit(&u, FIRN_USAGE_LINEAR, (double)INFINITY, obs, 160, NULL),
        FIRN_OK);
    struct firn_usage_obs at = {32, 0.5, 0.5, 0};
    assert_near(firn_usage_at(&u, &at).value, 204, 0.01);
    assert_false(firn_usage_at(&u, &at).extrapolated);
    at.batch = 65;
    assert_true(firn_usage_at(&u, &at).extrapolated);
}

static void product_form_knows_that_activations_go_with_the_batch(void **state)
{
    (void)state;
    /* 500 omega + 10 m theta: at (16, 0.5, 0.8) 400 + 80 = 480 */
    struct firn_usage_obs obs[24];
    struct firn_usage u;
    size_t n = 0;
    for (double m = 8; m <= 64; m *= 2)
        for (int i = 0; i < 6; i++) {
            double theta = 1 - 0.15 * i;
            double omega = 1 - 0.02 * i * i;
            obs[n++] = (struct firn_usage_obs){m, theta, omega,
                                               500 * omega + 10 * m * theta};
        }
    assert_int_equal(
        firn_usage_fit(&u, FIRN_USAGE_PRODUCT, (double)INFINITY, obs, n, NULL),
        FIRN_OK);
    struct firn_usage_obs at = {16, 0.5, 0.8, 0};
    assert_near(firn_usage_at(&u, &at).value, 480, 1e-6);
}

static void a_row_at_the_cap_is_a_bound(void **state)
{
    (void)state;
    /* 3 m, seen through a cap of 100 */
    struct firn_usage_obs obs[120];
    struct firn_usage u;
    for (int i = 0; i < 120; i++) {
        double m = 10 * (i % 6 + 1);
        obs[i] = (struct firn_usage_obs){m, 1, 1, fmin(3 * m, 100)};
    }
    assert_int_equal(firn_usage_fit(&u, FIRN_USAGE_LINEAR, 100, obs, 120, NULL),
                     FIRN_OK);
    struct firn_usage_obs at = {15, 1, 1, 0};
    assert_near(firn_usage_at(&u, &at).value, 45, 0.05);
    at.batch = 60;
    assert_near(firn_usage_at(&u, &at).value, 100, 1e-9);
}

static void too_few_rows_are_said(void **state)
{
    (void)state;
    struct firn_usage_obs obs[5] = {{8, 1, 1, 5},
                                    {16, 1, 1, -5},
                                    {16, 1, 1, 5},
                                    {0, 1, 1, 5},
                                    {32, 1, 1, 9}};
    struct firn_usage u = {.cap = 7};
    struct firn_error err;
    assert_int_equal(firn_usage_fit(&u, FIRN_USAGE_LINEAR, 100, obs, 5, &err),
                     FIRN_EDATA);
    assert_non_null(strstr(err.text, "3 usable rows (2 refused)"));
    assert_near(u.cap, 7, 1e-12);
    assert_int_equal(firn_usage_check(&obs[1], &err), FIRN_EINVAL);
    assert_string_equal(err.text, "the measured value is -5");
}

/* --- rules -----------------------------------------------------------------
 */

static void two_rules_decide_who_may_share(void **state)
{
    (void)state;
    /* 1.1 (40000 + 30000) = 77000 MiB; 55 + 45 = 100 % */
    struct firn_share_need need[2] = {{40000, 55}, {30000, 45}};
    assert_int_equal(firn_share_check(need, 2, 77001), FIRN_SHARE_OK);
    assert_int_equal(firn_share_check(need, 2, 76999), FIRN_SHARE_MEMORY);
    need[1].util_pct = 46;
    assert_int_equal(firn_share_check(need, 2, 80000), FIRN_SHARE_BUSY);
    need[1].mem_mib = (double)NAN;
    assert_int_equal(firn_share_check(need, 2, 80000), FIRN_SHARE_MEMORY);
}

static void lambda_is_one_alone_zero_when_forbidden(void **state)
{
    (void)state;
    assert_near(firn_share_lambda(0, FIRN_SHARE_BUSY, 0.9), 1, 1e-12);
    assert_near(firn_share_lambda(1, FIRN_SHARE_OK, 0.9), 0.9, 1e-12);
    assert_near(firn_share_lambda(1, FIRN_SHARE_BUSY, 0.9) + 1, 1, 1e-12);
}

/* --- pairs -----------------------------------------------------------------
 */

static void pairs_shrink_to_their_classes_and_these_to_all(void **state)
{
    (void)state;
    static const int class_of[] = {0, 0, 1};
    double storage[FIRN_PAIRS_DOUBLES(3, 2)];
    struct firn_pairs p;
    firn_pairs_init(&p, storage, 3, class_of, 2, 1.5);
    assert_near(firn_pairs_xi(&p, 0, 2).xi, 1.5, 1e-12);
    assert_true(firn_pairs_xi(&p, 0, 2).extrapolated);
    assert_int_equal(firn_pairs_add(&p, 0, 2, 3, 1, NULL), FIRN_OK);
    /* all: (1.5 + 3)/2 = 2.25; class 0 beside 1: (3 + 2.25)/2 = 2.625;
     * the pair: (3 + 2.625)/2 = 2.8125; its class mate gets 2.625 */
    assert_near(firn_pairs_xi(&p, 0, 2).xi, 2.8125, 1e-12);
    assert_near(firn_pairs_xi(&p, 1, 2).xi, 2.625, 1e-12);
    assert_false(firn_pairs_xi(&p, 1, 2).extrapolated);
    assert_near(firn_pairs_xi(&p, 2, 0).xi, 2.25, 1e-12);
    assert_true(firn_pairs_xi(&p, 2, 0).extrapolated);
    assert_near(firn_pairs_xi(&p, 9, 0).xi, 2.25, 1e-12);
}

static void old_news_fades(void **state)
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

static void a_bad_pair_is_parted_after_it_settled(void **state)
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
    /* one stall among them does not part them, xi_a = 2 + 0.3 (3 - 2) */
    assert_false(firn_share_watch(&watch, &rule, 3, 1.2));
    assert_near(watch.xi_a, 2.3, 1e-9);
    /* 2.3 + 0.3 (3 - 2.3) = 2.51 > 2.5 */
    assert_true(firn_share_watch(&watch, &rule, 3, 1.2));
    assert_near(firn_share_gain(0.9, 2), 1.5, 1e-12);
}

static void xi_lies_between_what_was_seen(void **state)
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
        double most = 1.5, least = 1.5;
        for (int i = 0; i < 30; i++) {
            double xi = 0.8 + rng_exp(&rng, 0.5);
            most = fmax(most, xi);
            least = fmin(least, fmax(xi, 1));
            assert_int_equal(firn_pairs_add(&p, rng_below(&rng, 5),
                                            rng_below(&rng, 5), xi,
                                            0.5 + rng_unit(&rng), NULL),
                             FIRN_OK);
        }
        for (size_t a = 0; a < 5; a++)
            for (size_t b = 0; b < 5; b++) {
                double xi = firn_pairs_xi(&p, a, b).xi;
                if (xi < least - 1e-9 || xi > most + 1e-9)
                    fail_msg("seed %llu round %d: xi %g",
                             (unsigned long long)seed, round, xi);
            }
    }
}

/* --- measured ------------------------------------------------------------- */

struct usage_table {
    struct firn_usage_obs obs[ROWS];
    int app[ROWS], fold[ROWS];
    size_t n;
    int napps;
};

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

static bool load(struct usage_table *t, const char *column, struct rng *rng)
{
    const char *path = data_path("h200/freeze.csv");
    struct csv *csv = path != NULL ? csv_open(path) : NULL;
    if (csv == NULL)
        return false;
    names.n = 0;
    while (t->n < ROWS && csv_next(csv)) {
        double value = csv_number(csv, column);
        if (isnan(value)) /* utilisation is there for some rows */
            continue;
        t->obs[t->n] = (struct firn_usage_obs){
            csv_number(csv, "batch"), csv_number(csv, "flops_unfrozen_ratio"),
            csv_number(csv, "params_unfrozen_ratio"), value};
        t->fold[t->n] = (int)rng_below(rng, 4);
        t->app[t->n++] = number_of(csv_text(csv, "model"));
    }
    csv_close(csv);
    t->napps = names.n;
    return true;
}

/* Predicts each quarter of an application's rows from the others. */
static size_t cross(const struct usage_table *t, int app, double cap,
                    double *predicted, double *measured)
{
    size_t out = 0;
    for (int fold = 0; fold < 4; fold++) {
        struct firn_usage_obs fit[ROWS];
        struct firn_usage u;
        enum firn_usage_form form =
            isinf(cap) ? FIRN_USAGE_PRODUCT : FIRN_USAGE_LINEAR;
        size_t n = 0;
        for (size_t i = 0; i < t->n; i++)
            if (t->app[i] == app && t->fold[i] != fold)
                fit[n++] = t->obs[i];
        assert_int_equal(firn_usage_fit(&u, form, cap, fit, n, NULL), FIRN_OK);
        for (size_t i = 0; i < t->n; i++)
            if (t->app[i] == app && t->fold[i] == fold) {
                predicted[out] = firn_usage_at(&u, &t->obs[i]).value;
                measured[out++] = t->obs[i].value;
            }
    }
    return out;
}

/* R2 over all applications, each fitted alone, rows held out by quarters; the
 * worst of the applications in *worst. */
static double held_out_r2(const char *column, double cap, double *worst)
{
    const uint64_t seed = 3;
    struct rng rng;
    struct usage_table t = {.n = 0};
    double predicted[ROWS], measured[ROWS];
    rng_seed(&rng, seed);
    if (!load(&t, column, &rng)) {
        print_message("no h200 table: skipped\n");
        skip();
    }
    size_t n = 0;
    *worst = 1;
    for (int app = 0; app < t.napps; app++) {
        size_t more = cross(&t, app, cap, predicted + n, measured + n);
        double r2 = stats_r2(predicted + n, measured + n, more);
        print_message("  %-14s %.3f\n", names.name[app], r2);
        *worst = fmin(*worst, r2);
        n += more;
    }
    double r2 = stats_r2(predicted, measured, n);
    print_message("%s, rows held out by quarters (seed %llu): R2 %.3f of %zu\n",
                  column, (unsigned long long)seed, r2, n);
    return r2;
}

static void memory_of_held_out_rows_is_predicted(void **state)
{
    (void)state;
    double worst;
    double r2 = held_out_r2("peak_alloc_mib", (double)INFINITY, &worst);
    assert_true(r2 >= 0.99 && worst >= 0.9);
}

static void utilisation_of_held_out_rows_is_predicted(void **state)
{
    (void)state;
    double worst;
    assert_true(held_out_r2("gpu_util_pct", 100, &worst) >= 0.9);
}

/* --- measured pairs --------------------------------------------------------
 */

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

static void pairs_never_seen_are_guessed_and_then_learnt(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_form_finds_the_coefficients),
        cmocka_unit_test(product_form_knows_that_activations_go_with_the_batch),
        cmocka_unit_test(a_row_at_the_cap_is_a_bound),
        cmocka_unit_test(too_few_rows_are_said),
        cmocka_unit_test(two_rules_decide_who_may_share),
        cmocka_unit_test(lambda_is_one_alone_zero_when_forbidden),
        cmocka_unit_test(pairs_shrink_to_their_classes_and_these_to_all),
        cmocka_unit_test(old_news_fades),
        cmocka_unit_test(bad_slowdowns_are_refused),
        cmocka_unit_test(a_bad_pair_is_parted_after_it_settled),
        cmocka_unit_test(xi_lies_between_what_was_seen),
        cmocka_unit_test(memory_of_held_out_rows_is_predicted),
        cmocka_unit_test(utilisation_of_held_out_rows_is_predicted),
        cmocka_unit_test(pairs_never_seen_are_guessed_and_then_learnt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
