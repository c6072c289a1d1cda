/* test_sharing.c - usage and packing rules: by hand and as measured. */
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

enum { ROWS = 256, NAME = 32, APPS = 16, SPLITS = 8 };

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

static void too_few_rows_are_reported(void **state)
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

/* --- rules ---------------------------------------------------------- */

static void memory_and_utilisation_decide_which_jobs_may_share(void **state)
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

struct r2 {
    double all;   /* over the held-out rows of all applications */
    double worst; /* of the applications, each by itself */
};

/* Each application is fitted alone, its rows held out by random quarters. */
static struct r2 held_out_r2(const char *column, double cap, uint64_t seed)
{
    struct rng rng;
    struct usage_table t = {.n = 0};
    double predicted[ROWS], measured[ROWS];
    rng_seed(&rng, seed);
    if (!load(&t, column, &rng)) {
        print_message("no h200 table: skipped\n");
        skip();
    }
    size_t n = 0;
    struct r2 r2 = {.worst = 1};
    for (int app = 0; app < t.napps; app++) {
        size_t more = cross(&t, app, cap, predicted + n, measured + n);
        r2.worst = fmin(r2.worst, stats_r2(predicted + n, measured + n, more));
        n += more;
    }
    r2.all = stats_r2(predicted, measured, n);
    return r2;
}

/* The means over eight splits; the least of them in *least. */
static struct r2 mean_r2(const char *column, double cap, double *least)
{
    struct r2 sum = {0, 0};
    *least = 1;
    for (uint64_t seed = 1; seed <= SPLITS; seed++) {
        struct r2 r2 = held_out_r2(column, cap, seed);
        sum.all += r2.all / SPLITS;
        sum.worst += r2.worst / SPLITS;
        *least = fmin(*least, r2.all);
    }
    print_message(
        "%s, rows held out by quarters, seeds 1 to %d: R2 %.4f (least "
        "%.4f); worst application %.2f\n",
        column, SPLITS, sum.all, *least, sum.worst);
    return sum;
}

static void memory_of_held_out_rows_is_predicted(void **state)
{
    (void)state;
    double least;
    struct r2 r2 = mean_r2("peak_alloc_mib", (double)INFINITY, &least);
    assert_true(least >= 0.99 && r2.worst >= 0.9);
}

static void utilisation_of_held_out_rows_is_predicted(void **state)
{
    (void)state;
    double least;
    mean_r2("gpu_util_pct", 100, &least);
    assert_true(least >= 0.9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_form_finds_the_coefficients),
        cmocka_unit_test(product_form_knows_that_activations_go_with_the_batch),
        cmocka_unit_test(a_row_at_the_cap_is_a_bound),
        cmocka_unit_test(too_few_rows_are_reported),
        cmocka_unit_test(memory_and_utilisation_decide_which_jobs_may_share),
        cmocka_unit_test(lambda_is_one_alone_zero_when_forbidden),
        cmocka_unit_test(memory_of_held_out_rows_is_predicted),
        cmocka_unit_test(utilisation_of_held_out_rows_is_predicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
