/* test_losscurve.c - fitting and reading loss curves, by hand and measured. */
#include "base/rng.h"
#include "lib/csv.h"
#include "lib/data.h"
#include "math/stats.h"
#include <firn/losscurve.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { EPOCHS = 10, TASKS = 64, NAME = 96 };

static void assert_near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * (1e-9 + fabs(b))))
        fail_msg("%g is not %g", a, b);
}

static struct firn_losscurve curve_of(double b0, double b1, double b2,
                                      double b3)
{
    return (struct firn_losscurve){
        .b = {b0, b1, b2, b3}, .scale = 1, .noise = 1e-4, .k_max = 10};
}

static void the_curve_is_equation_three(void **state)
{
    (void)state;
    struct firn_losscurve c = curve_of(0.2, 1, 0.5, 0.25);
    /* k = 2: 1 / (0.25 * 4 + 0.5 * 2 + 1) + 0.2 = 1/3 + 0.2 */
    assert_near(firn_losscurve_at(&c, 2).value, 1.0 / 3 + 0.2, 1e-12);
    assert_near(firn_losscurve_at(&c, 0).value, 1.2, 1e-12);
    assert_true(firn_losscurve_at(&c, 11).extrapolated);
    assert_false(firn_losscurve_at(&c, 10).extrapolated);
    c.scale = 3; /* losses that were divided by 3 */
    assert_near(firn_losscurve_at(&c, 2).value, 1 + 0.6, 1e-12);
}

static void convergence_is_equation_two(void **state)
{
    (void)state;
    /* 1 / (k + 1): 1/((k+1)(k+2)) <= 0.001 first at k = 31: 1/1056 (k = 30
     * gives 1/992) */
    struct firn_losscurve c = curve_of(0, 1, 1, 0);
    assert_near(firn_losscurve_converge(&c, 0.001, 0, 1e6), 31, 1e-12);
    assert_near(firn_losscurve_converge(&c, 0.001, 40, 1e6), 40, 1e-12);
    assert_near(firn_losscurve_converge(&c, 0.001, 0, 20), 20, 1e-12);
    assert_near(firn_losscurve_converge(&c, 0.001, 0, 31.5), 31, 1e-12);
}

static void convergence_agrees_with_a_scan(void **state)
{
    (void)state;
    const uint64_t seed = 41;
    struct rng rng;
    rng_seed(&rng, seed);
    for (int round = 0; round < 2000; round++) {
        struct firn_losscurve c =
            curve_of(rng_unit(&rng), 0.5 + rng_unit(&rng),
                     round % 3 ? rng_exp(&rng, 0.2) : 0, rng_exp(&rng, 0.01));
        double from = (double)rng_below(&rng, 4);
        double limit = 5 + (double)rng_below(&rng, 3000);
        double k = from;
        while (k < limit && firn_losscurve_at(&c, k).value -
                                    firn_losscurve_at(&c, k + 1).value >
                                1e-3)
            k++;
        double got = firn_losscurve_converge(&c, 1e-3, from, limit);
        if (fabs(got - k) > 1e-9)
            fail_msg("seed %llu round %d: %g, not %g", (unsigned long long)seed,
                     round, got, k);
    }
}

static void reach_is_the_inverse_of_the_curve(void **state)
{
    (void)state;
    struct firn_losscurve c = curve_of(0.2, 1, 0.5, 0.25);
    assert_near(firn_losscurve_reach(&c, 1.0 / 3 + 0.2), 2, 1e-9);
    assert_true(isinf(firn_losscurve_reach(&c, 0.2)));
    assert_near(firn_losscurve_reach(&c, 1.3) + 1, 1, 1e-12);
    c = curve_of(0.2, 1, 0, 0); /* flat */
    assert_true(isinf(firn_losscurve_reach(&c, 0.5)));
    c = curve_of(0.1, 1, 0.5, 0);
    for (double k = 0.5; k < 100; k *= 1.7)
        assert_near(firn_losscurve_reach(&c, firn_losscurve_at(&c, k).value), k,
                    1e-9);
}

static void transfer_divides_the_curve(void **state)
{
    (void)state;
    struct firn_losscurve c = curve_of(0.2, 1, 0.5, 0.25);
    struct firn_losscurve t;
    struct firn_error err;
    assert_int_equal(firn_losscurve_transfer(&c, 0.25, &t, &err), FIRN_OK);
    for (double k = 0; k < 9; k++)
        assert_near(firn_losscurve_at(&t, k).value,
                    firn_losscurve_at(&c, k).value / 1.25, 1e-12);
    /* so the same target is met earlier */
    assert_true(firn_losscurve_reach(&t, 0.4) < firn_losscurve_reach(&c, 0.4));
    assert_int_equal(firn_losscurve_transfer(&c, -1, &t, &err), FIRN_EINVAL);
}

static void head_start_is_the_distance_along_the_curve(void **state)
{
    (void)state;
    struct firn_losscurve c = curve_of(0, 1, 1, 0); /* 1 / (k + 1) */
    /* 1/5 is the curve's loss at 4, seen at 1: 3 ahead; 1/7 at 6, seen at 2: 4
     * ahead; the mean is 3.5 */
    struct firn_loss_obs obs[3] = {{1, 0.2}, {2, 1.0 / 7}, {3, -1}};
    assert_near(firn_losscurve_head_start(&c, obs, 3), 3.5, 1e-9);
    assert_near(firn_losscurve_head_start(&c, obs + 2, 1) + 1, 1, 1e-12);
    c.b[0] = 0.5; /* below the floor: twice k_max = 20, less 1 */
    assert_near(firn_losscurve_head_start(&c, obs, 1), 19, 1e-9);
}

static void noise_hits_a_target_before_the_curve_does(void **state)
{
    (void)state;
    struct firn_losscurve c = curve_of(0, 1, 1, 0); /* 1 / (k + 1) */
    /* meets 0.1 at k = 9 without noise (even odds at 9 itself) */
    assert_near(firn_losscurve_hit(&c, 0.1, 0, 1, 100), 9, 1e-12);
    c.noise = 0.05;
    double with_noise = firn_losscurve_hit(&c, 0.1, 0, 1, 100);
    assert_true(with_noise < 9 && with_noise > 2);
    assert_near(firn_losscurve_hit(&c, 0.01, 0, 1, 10), 10, 1e-12);
    assert_near(firn_losscurve_hit(&c, 0.1, 5, 0, 10), 10, 1e-12);
}

static void fit_finds_the_curve_again(void **state)
{
    (void)state;
    struct firn_losscurve truth = curve_of(0.15, 0.9, 0.4, 0.1), c;
    struct firn_loss_obs obs[12];
    for (int i = 0; i < 12; i++)
        obs[i] =
            (struct firn_loss_obs){i, 2 * firn_losscurve_at(&truth, i).value};
    assert_int_equal(firn_losscurve_fit(&c, FIRN_LOSSCURVE_YMIR,
                                        (double)INFINITY, obs, 12, NULL),
                     FIRN_OK);
    for (double k = 0; k < 30; k += 3)
        assert_near(firn_losscurve_at(&c, k).value,
                    2 * firn_losscurve_at(&truth, k).value, 0.02);
    assert_near(firn_losscurve_reach(&c, 0.5),
                firn_losscurve_reach(&truth, 0.25), 0.02);
    /* Optimus's form has no k^2: it fits this curve worse */
    struct firn_losscurve o;
    assert_int_equal(firn_losscurve_fit(&o, FIRN_LOSSCURVE_OPTIMUS,
                                        (double)INFINITY, obs, 12, NULL),
                     FIRN_OK);
    assert_near(o.b[3] + 1, 1, 1e-12);
    assert_true(o.noise > c.noise);
}

static void coefficients_are_never_negative(void **state)
{
    (void)state;
    const uint64_t seed = 99;
    struct rng rng;
    rng_seed(&rng, seed);
    for (int round = 0; round < 200; round++) {
        struct firn_loss_obs obs[10];
        struct firn_losscurve c;
        size_t n = 3 + (size_t)rng_below(&rng, 8);
        for (size_t i = 0; i < n; i++)
            obs[i] =
                (struct firn_loss_obs){(double)i + 1, 0.05 + rng_unit(&rng)};
        if (firn_losscurve_fit(&c, FIRN_LOSSCURVE_YMIR, 0.5, obs, n, NULL) !=
            FIRN_OK)
            continue;
        double before = (double)INFINITY;
        for (double k = 0; k < 50; k++) {
            double l = firn_losscurve_at(&c, k).value;
            if (!(l <= before) || l < 0 || c.b[0] * c.scale > 0.5)
                fail_msg("seed %llu round %d: L(%g) = %g",
                         (unsigned long long)seed, round, k, l);
            before = l;
        }
    }
}

static void bad_and_too_few_points_are_reported(void **state)
{
    (void)state;
    struct firn_error err;
    struct firn_losscurve c = curve_of(9, 9, 9, 9);
    struct firn_loss_obs obs[5] = {
        {1, 1}, {2, (double)NAN}, {3, 0.5}, {4, -1}, {5, 0.4}};
    assert_int_equal(firn_loss_check(&obs[3], &err), FIRN_EINVAL);
    assert_string_equal(err.text, "the loss after 4 steps is -1");
    assert_int_equal(
        firn_losscurve_fit(&c, FIRN_LOSSCURVE_YMIR, 1, obs, 4, &err),
        FIRN_EDATA);
    assert_non_null(strstr(err.text, "2 usable losses (2 refused)"));
    assert_near(c.b[0], 9, 1e-12);
    assert_int_equal(
        firn_losscurve_fit(&c, FIRN_LOSSCURVE_YMIR, 1, obs, 5, &err), FIRN_OK);
    assert_int_equal(c.nskipped, 2);
    struct firn_loss_obs rising[3] = {{1, 1}, {2, 1.5}, {3, 2}};
    assert_int_equal(
        firn_losscurve_fit(&c, FIRN_LOSSCURVE_YMIR, 1, rising, 3, &err),
        FIRN_EDATA);
}

/* --- measured --------------------------------------------------------------
 *
 * The tasks are the configurations of the authors' workloads (model, data
 * set, learning rate, accumulation), each with its own target, of which the
 * curve by epoch was published. A job ends at the first epoch whose metric
 * meets the target, at the latest after ten. Known when predicting: the
 * first `seen` epochs and the target. The loss is 1 - metric. Tasks that end
 * within the epochs seen need no prediction and are left out. */

struct task {
    char key[NAME];
    double target, loss[EPOCHS];
    int epochs;
};

static struct {
    struct task at[TASKS];
    int n;
} tasks;

static struct task *task_of(const char *key, bool add)
{
    for (int i = 0; i < tasks.n; i++)
        if (strcmp(tasks.at[i].key, key) == 0)
            return &tasks.at[i];
    if (!add)
        return NULL;
    assert_true(tasks.n < TASKS);
    struct task *t = &tasks.at[tasks.n++];
    *t = (struct task){.epochs = 0};
    snprintf(t->key, NAME, "%s", key);
    return t;
}

static bool load_targets(const char *rel)
{
    const char *path = data_path(rel);
    struct csv *csv = path != NULL ? csv_open(path) : NULL;
    if (csv == NULL)
        return false;
    while (csv_next(csv)) {
        char key[NAME];
        snprintf(key, NAME, "%s %s %s", csv_text(csv, "application"),
                 csv_text(csv, "target_lr"),
                 csv_text(csv, "target_gradient_steps"));
        task_of(key, true)->target = csv_number(csv, "target_metric");
    }
    csv_close(csv);
    return true;
}

static bool load_curves(void)
{
    const char *path = data_path("ymir/hpo_curves.csv");
    struct csv *csv = path != NULL ? csv_open(path) : NULL;
    if (csv == NULL)
        return false;
    while (csv_next(csv)) {
        char key[NAME];
        snprintf(key, NAME, "%s@%s %s %s", csv_text(csv, "model"),
                 csv_text(csv, "dataset"), csv_text(csv, "lr"),
                 csv_text(csv, "grad_accum_steps"));
        struct task *t = task_of(key, false);
        if (t != NULL && t->epochs < EPOCHS)
            t->loss[t->epochs++] = 1 - csv_number(csv, "value");
    }
    csv_close(csv);
    return true;
}

static bool load_tasks(void)
{
    static const char *const workloads[] = {
        "ymir/workloads/FM-1-vit.csv", "ymir/workloads/FM-1-vit-large.csv",
        "ymir/workloads/FM-1-roberta-base.csv",
        "ymir/workloads/FM-1-roberta-large.csv"};
    tasks.n = 0;
    for (int i = 0; i < 4; i++)
        if (!load_targets(workloads[i]))
            return false;
    return load_curves();
}

/* The curves are printed with six digits. */
static double target_loss(const struct task *t)
{
    return 1 - t->target + 1e-6;
}

static int true_end(const struct task *t)
{
    for (int i = 0; i < t->epochs; i++)
        if (t->loss[i] <= target_loss(t))
            return i + 1;
    return 0;
}

static bool fit_prefix(const struct task *t, int seen,
                       enum firn_losscurve_form form, struct firn_losscurve *c)
{
    struct firn_loss_obs obs[EPOCHS];
    for (int i = 0; i < seen; i++)
        obs[i] = (struct firn_loss_obs){i + 1, t->loss[i]};
    return firn_losscurve_fit(c, form, 0.98 * target_loss(t), obs, (size_t)seen,
                              NULL) == FIRN_OK;
}

static double predicted_end(const struct task *t, int seen,
                            enum firn_losscurve_form form)
{
    struct firn_losscurve c;
    if (!fit_prefix(t, seen, form, &c))
        return EPOCHS; /* the limit of the job */
    return firn_losscurve_hit(&c, target_loss(t), seen, 1, EPOCHS);
}

typedef double prediction(const struct task *t, int seen,
                          enum firn_losscurve_form form);

static double always_ten(const struct task *t, int seen,
                         enum firn_losscurve_form form)
{
    (void)t, (void)seen, (void)form;
    return EPOCHS;
}

struct score {
    double mean, max;
    size_t n;
};

static struct score evaluate(int seen, prediction *predict,
                             enum firn_losscurve_form form)
{
    double predicted[TASKS], measured[TASKS];
    size_t n = 0;
    for (int i = 0; i < tasks.n; i++) {
        int end = true_end(&tasks.at[i]);
        if (end <= seen)
            continue;
        predicted[n] = predict(&tasks.at[i], seen, form);
        measured[n++] = end;
    }
    return (struct score){stats_mape(predicted, measured, n),
                          stats_max_ape(predicted, measured, n), n};
}

static void iterations_to_target_are_predicted_from_a_prefix(void **state)
{
    (void)state;
    if (!load_tasks()) {
        print_message("no fine-tuning curves: skipped\n");
        skip();
    }
    for (int seen = 3; seen <= 8; seen++) {
        const enum firn_losscurve_form ymir = FIRN_LOSSCURVE_YMIR;
        const enum firn_losscurve_form optimus = FIRN_LOSSCURVE_OPTIMUS;
        struct score y = evaluate(seen, predicted_end, ymir);
        struct score o = evaluate(seen, predicted_end, optimus);
        struct score ten = evaluate(seen, always_ten, ymir);
        print_message(
            "%d epochs seen, %zu tasks: Ymir mean %.1f %% max %.1f %%; Optimus "
            "%.1f, %.1f; always ten %.1f, %.1f\n",
            seen, y.n, 100 * y.mean, 100 * y.max, 100 * o.mean, 100 * o.max,
            100 * ten.mean, 100 * ten.max);
        if (seen >= 5)
            assert_true(y.mean <= 0.1);
        if (seen >= 6)
            assert_true(y.mean < ten.mean && y.max <= 0.25);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_curve_is_equation_three),
        cmocka_unit_test(convergence_is_equation_two),
        cmocka_unit_test(convergence_agrees_with_a_scan),
        cmocka_unit_test(reach_is_the_inverse_of_the_curve),
        cmocka_unit_test(transfer_divides_the_curve),
        cmocka_unit_test(head_start_is_the_distance_along_the_curve),
        cmocka_unit_test(noise_hits_a_target_before_the_curve_does),
        cmocka_unit_test(fit_finds_the_curve_again),
        cmocka_unit_test(coefficients_are_never_negative),
        cmocka_unit_test(bad_and_too_few_points_are_reported),
        cmocka_unit_test(iterations_to_target_are_predicted_from_a_prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
