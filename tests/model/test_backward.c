/* test_backward.c - backward time under freezing, by hand and as measured. */
#include "lib/csv.h"
#include "lib/data.h"
#include "math/stats.h"
#include <firn/freeze.h>
#include <firn/itertime.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 512, NAME = 32 };

static void assert_near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * (1e-9 + fabs(b))))
        fail_msg("%g is not %g", a, b);
}

static void equation_six_as_printed(void **state)
{
    (void)state;
    /* 0.001 + 0.9 * 0.25^0.5 * 0.010 = 0.001 + 0.9 * 0.5 * 0.010 = 0.0055 */
    assert_near(firn_backward_printed(0.001, 0.9, 0.5, 0.25, 0.010), 0.0055,
                1e-12);
    assert_near(firn_backward_printed(0.001, 0.9, 0.5, 0, 0.010), 0.001, 1e-12);
}

static struct firn_backward_obs row(double batch, double frozen)
{
    double left = 1 - frozen / 20;
    struct firn_backward_obs o = {batch, 20, frozen, left * left, left, 0, 0};
    o.base_s = 1e-3 + 1e-4 * batch;
    /* 0.2 ms to launch 20 layers, the rest of the time with theta */
    o.bwd_s = 2e-4 * left + (o.base_s - 2e-4) * o.theta;
    return o;
}

static void fit_finds_launch_and_compute(void **state)
{
    (void)state;
    struct firn_backward_obs obs[24];
    struct firn_backward m;
    size_t n = 0;
    for (double b = 8; b <= 64; b *= 2)
        for (double l = 0; l < 20; l += 4)
            obs[n++] = row(b, l);
    assert_int_equal(firn_backward_fit(&m, obs, n, NULL), FIRN_OK);
    struct firn_backward_obs at = row(24, 10);
    struct firn_backward_time t = firn_backward_at(&m, &at);
    assert_near(t.bwd_s, at.bwd_s, 0.03);
    assert_false(t.extrapolated);
    at = row(24, 19);
    assert_true(firn_backward_at(&m, &at).extrapolated);
    at = row(128, 10);
    assert_true(firn_backward_at(&m, &at).extrapolated);
}

static void prior_answers_before_any_row(void **state)
{
    (void)state;
    struct firn_backward m = firn_backward_prior();
    struct firn_backward_obs at = {32, 10, 5, 0.25, 0.5, 0.010, 0};
    /* 0.010 (0.5 * 0.5 + 0.5 * 0.25) = 0.00375 */
    assert_near(firn_backward_at(&m, &at).bwd_s, 0.00375, 1e-12);
    assert_true(firn_backward_at(&m, &at).extrapolated);
}

static void bad_rows_are_named_and_left_out(void **state)
{
    (void)state;
    struct firn_error err;
    struct firn_backward_obs obs[8];
    struct firn_backward m = firn_backward_prior();
    for (int i = 0; i < 8; i++)
        obs[i] = row(8 << (i % 3), i);
    obs[1].bwd_s = -1;
    obs[2].bwd_s = (double)NAN;
    obs[3].base_s = 0;
    obs[4].theta = 1.5;
    assert_int_equal(firn_backward_check(&obs[1], &err), FIRN_EINVAL);
    assert_string_equal(err.text, "the backward time is -1 s");
    assert_int_equal(firn_backward_check(&obs[4], &err), FIRN_EINVAL);
    assert_int_equal(firn_backward_fit(&m, obs, 8, NULL), FIRN_OK);
    assert_int_equal(m.nused, 4);
    assert_int_equal(m.nskipped, 4);
    m = firn_backward_prior();
    assert_int_equal(firn_backward_fit(&m, obs, 5, &err), FIRN_EDATA);
    assert_near(m.coef[2], 0.5, 1e-12);
}

/* --- measured ------------------------------------------------------------- */

struct table {
    struct firn_backward_obs obs[ROWS];
    double iter_s[ROWS];
    char app[ROWS][NAME];
    size_t n;
};

static bool load(struct table *t, const char *path)
{
    struct csv *csv = path != NULL ? csv_open(path) : NULL;
    if (csv == NULL)
        return false;
    double base_s = 0;
    while (t->n < ROWS && csv_next(csv)) {
        struct firn_backward_obs *o = &t->obs[t->n];
        *o =
            (struct firn_backward_obs){csv_number(csv, "batch"),
                                       csv_number(csv, "layers"),
                                       csv_number(csv, "frozen"),
                                       csv_number(csv, "flops_unfrozen_ratio"),
                                       csv_number(csv, "params_unfrozen_ratio"),
                                       0,
                                       csv_number(csv, "bwd_ms") / 1e3};
        if (!(o->nfrozen > 0)) /* the first row of its batch */
            base_s = o->bwd_s;
        o->base_s = base_s;
        t->iter_s[t->n] = csv_number(csv, "iter_ms") / 1e3;
        snprintf(t->app[t->n++], NAME, "%s", csv_text(csv, "model"));
    }
    csv_close(csv);
    return true;
}

struct score {
    double predicted[ROWS], measured[ROWS];
    double steps[ROWS]; /* predicted by the step model instead */
    size_t n;
};

/* The step model, fitted to whole iterations as a scheduler sees them. */
static struct firn_step_obs step_of(const struct table *t, size_t i)
{
    const struct firn_backward_obs *o = &t->obs[i];
    return (struct firn_step_obs){
        {1, 1, 1, o->batch, 1, o->theta, o->omega}, t->iter_s[i], (double)NAN};
}

/* Fits an application without one frozen share, predicts that share. */
static void hold_out(const struct table *t, const char *app, double share,
                     struct score *out)
{
    static struct firn_backward_obs fit[ROWS];
    static struct firn_step_obs steps[ROWS];
    struct firn_itertime_fit how = {.form = FIRN_FORM_FULL};
    struct firn_itertime step;
    struct firn_backward m;
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->app[i], app) == 0 &&
            fabs(t->obs[i].nfrozen / t->obs[i].nlayers - share) > 1e-9) {
            steps[n] = step_of(t, i);
            fit[n++] = t->obs[i];
        }
    firn_itertime_default(&step);
    assert_int_equal(firn_itertime_refit(&step, steps, n, &how, NULL), FIRN_OK);
    assert_int_equal(firn_backward_fit(&m, fit, n, NULL), FIRN_OK);
    for (size_t i = 0; i < t->n; i++) {
        if (strcmp(t->app[i], app) != 0 ||
            fabs(t->obs[i].nfrozen / t->obs[i].nlayers - share) > 1e-9)
            continue;
        out->predicted[out->n] = firn_backward_at(&m, &t->obs[i]).bwd_s;
        struct firn_shape shape = step_of(t, i).shape;
        out->steps[out->n] = firn_itertime_backward(&step, &shape);
        out->measured[out->n++] = t->obs[i].bwd_s;
    }
}

/* Whether row i is the first of its application with this frozen share, and
 * neither the smallest nor the largest share. */
static bool starts_share(const struct table *t, size_t i)
{
    bool first = true, larger = false;
    for (size_t j = 0; j < t->n; j++) {
        if (strcmp(t->app[j], t->app[i]) != 0)
            continue;
        if (j < i && fabs(t->obs[j].nfrozen - t->obs[i].nfrozen) < 1e-9)
            first = false;
        larger = larger || t->obs[j].nfrozen > t->obs[i].nfrozen;
    }
    return first && larger && t->obs[i].nfrozen > 0;
}

/* Mean and median error over all held-out shares of a table. */
static double hold_out_all(const char *what, const char *path, size_t nrows,
                           double *median)
{
    static struct table t;
    static struct score all;
    static double ape[ROWS];
    t.n = all.n = 0;
    if (path == NULL || !load(&t, path)) {
        print_message("no %s: skipped\n", what);
        skip();
    }
    for (size_t i = 0, first = 0; i < t.n; i++) {
        if (starts_share(&t, i))
            hold_out(&t, t.app[i], t.obs[i].nfrozen / t.obs[i].nlayers, &all);
        if (i + 1 == t.n || strcmp(t.app[i], t.app[i + 1]) != 0) {
            print_message("  %-14s %5.1f %%\n", t.app[i],
                          100 * stats_mape(all.predicted + first,
                                           all.measured + first,
                                           all.n - first));
            first = all.n;
        }
    }
    for (size_t i = 0; i < all.n; i++)
        ape[i] = fabs(all.predicted[i] / all.measured[i] - 1);
    double mean = stats_mape(all.predicted, all.measured, all.n);
    *median = stats_median(ape, all.n);
    print_message("%s: backward, frozen share held out: mean %.1f %%, median "
                  "%.1f %% of %zu rows\n",
                  what, 100 * mean, 100 * *median, all.n);
    double steps = stats_mape(all.steps, all.measured, all.n);
    print_message("  the same by the step model: mean %.1f %%\n", 100 * steps);
    assert_int_equal(all.n, nrows);
    assert_true(mean < steps);
    return mean;
}

static void held_out_frozen_shares_are_predicted(void **state)
{
    (void)state;
    double median,
        mean = hold_out_all("first H200 table", data_path("h200/freeze.csv"),
                            88, &median);
    assert_true(mean < 0.08 && median < 0.05);
}

static void held_out_shares_of_a_second_table_are_predicted(void **state)
{
    (void)state;
    double median,
        mean = hold_out_all("second H200 table", "profiles/h200/freeze.csv",
                            288, &median);
    assert_true(mean < 0.08 && median < 0.055);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equation_six_as_printed),
        cmocka_unit_test(fit_finds_launch_and_compute),
        cmocka_unit_test(prior_answers_before_any_row),
        cmocka_unit_test(bad_rows_are_named_and_left_out),
        cmocka_unit_test(held_out_frozen_shares_are_predicted),
        cmocka_unit_test(held_out_shares_of_a_second_table_are_predicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
