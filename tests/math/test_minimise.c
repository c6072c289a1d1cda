/* test_minimise.c - known minima, with and without bounds, and kinks. */
#include "base/fmath.h"
#include "base/rng.h"
#include "math/minimise.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = MINIMISE_VARS };

static double infinite[MOST], minus_infinite[MOST];

static struct minimise_result run(minimise_function *f, void *ctx, size_t n,
                                  const double *lower, const double *upper,
                                  double *x)
{
    struct minimise_problem p = {.n = n, .function = f, .ctx = ctx};
    struct minimise_result result;
    for (size_t i = 0; i < MOST; i++) {
        infinite[i] = INFINITY;
        minus_infinite[i] = -INFINITY;
    }
    p.lower = lower ? lower : minus_infinite;
    p.upper = upper ? upper : infinite;
    assert_int_equal(minimise_run(&p, x, &result, NULL), FIRN_OK);
    return result;
}

static double rosenbrock(void *ctx, const double *x, double *g)
{
    (void)ctx;
    double a = 1 - x[0], b = x[1] - x[0] * x[0];
    g[0] = -2 * a - 400 * x[0] * b;
    g[1] = 200 * b;
    return a * a + 100 * b * b;
}

static void rosenbrock_ends_in_its_valley_at_one_one(void **state)
{
    (void)state;
    double x[] = {-1.2, 1};
    struct minimise_result r = run(rosenbrock, NULL, 2, NULL, NULL, x);
    assert_true(r.converged && r.value < 1e-9);
    assert_true(fabs(x[0] - 1) < 1e-4 && fabs(x[1] - 1) < 1e-4);
    assert_in_range(r.evals, 20, 60);
}

static void rosenbrock_stops_at_a_bound_across_the_valley(void **state)
{
    (void)state;
    /* x0 <= 0.5: the best is x0 = 0.5, x1 = 0.25, value 0.25. */
    double x[] = {-1.2, 1}, upper[] = {0.5, INFINITY};
    struct minimise_result r = run(rosenbrock, NULL, 2, NULL, upper, x);
    assert_true(r.converged && x[0] == 0.5);
    assert_true(fabs(x[1] - 0.25) < 1e-5 && fabs(r.value - 0.25) < 1e-9);
    /* x1 >= 1.5: x0 solves 2 (x0 - 1) - 400 x0 (1.5 - x0^2) = 0 near
     * sqrt(1.5): 1.224371, value 0.050426. */
    double y[] = {2, 3}, lower[] = {-INFINITY, 1.5};
    double upward[] = {INFINITY, INFINITY};
    r = run(rosenbrock, NULL, 2, lower, upward, y);
    assert_true(y[1] == 1.5);
    assert_true(fabs(y[0] - 1.224371) < 1e-5 &&
                fabs(r.value - 0.050426) < 1e-6);
}

/* f = (x - c)' A (x - c) / 2 with A tridiagonal: 2 on, -1 beside. */
static double chain(void *ctx, const double *x, double *g)
{
    const double *c = ctx;
    double f = 0;
    for (int i = 0; i < 3; i++) {
        g[i] = 2 * (x[i] - c[i]);
        if (i > 0)
            g[i] -= x[i - 1] - c[i - 1];
        if (i < 2)
            g[i] -= x[i + 1] - c[i + 1];
    }
    for (int i = 0; i < 3; i++)
        f += (x[i] - c[i]) * g[i] / 2;
    return f;
}

static void a_quadratic_in_a_box_has_the_known_corner(void **state)
{
    (void)state;
    /* c = (2, 0, 0), x0 <= 1: with x0 = 1 the others solve
     * 2 x1 - x2 = -1, 2 x2 - x1 = 0: x1 = -2/3, x2 = -1/3;
     * g0 = 2 (1 - 2) + 2/3 = -4/3, f = (-1)(-4/3) / 2 = 2/3.
     * With x1 >= -0.5 too: x2 = -1/4, g0 = -3/2, g1 = 2(-1/2) + 1 + 1/4 = 1/4,
     * f = (3/2 - 1/8) / 2 = 11/16. */
    double c[] = {2, 0, 0}, x[] = {0, 5, -5};
    double lower[] = {-9, -9, -9}, upper[] = {1, 9, 9};
    struct minimise_result r = run(chain, c, 3, lower, upper, x);
    assert_true(r.converged && fabs(r.value - 2.0 / 3) < 1e-9);
    assert_true(x[0] == 1 && fabs(x[1] + 2.0 / 3) < 1e-5 &&
                fabs(x[2] + 1.0 / 3) < 1e-5);
    lower[1] = -0.5;
    r = run(chain, c, 3, lower, upper, x);
    assert_true(r.converged && fabs(r.value - 11.0 / 16) < 1e-9);
    assert_true(x[0] == 1 && x[1] == -0.5 && fabs(x[2] + 0.25) < 1e-5);
}

static void a_fixed_variable_does_not_move(void **state)
{
    (void)state;
    double c[] = {2, 0, 0}, x[] = {0, 5, -5};
    double lower[] = {1, -9, -9}, upper[] = {1, 9, 9};
    struct minimise_result r = run(chain, c, 3, lower, upper, x);
    assert_true(x[0] == 1 && fabs(r.value - 2.0 / 3) < 1e-9);
}

struct bowl {
    int n;
    double a[MOST][MOST], c[MOST];
};

static double bowl_at(void *ctx, const double *x, double *g)
{
    const struct bowl *bowl = ctx;
    double f = 0;
    for (int i = 0; i < bowl->n; i++) {
        g[i] = 0;
        for (int j = 0; j < bowl->n; j++)
            g[i] += bowl->a[i][j] * (x[j] - bowl->c[j]);
    }
    for (int i = 0; i < bowl->n; i++)
        f += g[i] * (x[i] - bowl->c[i]) / 2;
    return f;
}

/* A = M'M + 0.1 on a random M, the centre often outside the box [-1, 1]. */
static void draw_bowl(struct bowl *bowl, struct rng *rng)
{
    double m[MOST][MOST];
    bowl->n = 1 + (int)rng_below(rng, MOST);
    for (int i = 0; i < bowl->n; i++) {
        bowl->c[i] = 2 * rng_normal(rng);
        for (int j = 0; j < bowl->n; j++)
            m[i][j] = rng_normal(rng);
    }
    for (int i = 0; i < bowl->n; i++)
        for (int j = 0; j < bowl->n; j++) {
            bowl->a[i][j] = i == j ? 0.1 : 0;
            for (int k = 0; k < bowl->n; k++)
                bowl->a[i][j] += m[k][i] * m[k][j];
        }
}

/* The conditions for the minimum of a convex bowl in a box: inside no slope, on
 * a bound none that points inwards. */
static void random_bowls_end_where_no_slope_points_inwards(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct bowl bowl;
        struct rng rng;
        double lower[MOST], upper[MOST], x[MOST], g[MOST];
        rng_seed(&rng, seed);
        draw_bowl(&bowl, &rng);
        for (int i = 0; i < MOST; i++) {
            lower[i] = -1;
            upper[i] = rng_below(&rng, 4) ? 1 : INFINITY;
            x[i] = 3 * rng_normal(&rng);
        }
        struct minimise_problem p = {(size_t)bowl.n, bowl_at, &bowl, lower,
                                     upper,          1e-15,   1e-7,  0};
        struct minimise_result r;
        assert_int_equal(minimise_run(&p, x, &r, NULL), FIRN_OK);
        bowl_at(&bowl, x, g);
        for (int i = 0; i < bowl.n; i++) {
            bool ok = x[i] >= lower[i] && x[i] <= upper[i] &&
                      (x[i] == lower[i] || g[i] < 1e-3) &&
                      (x[i] == upper[i] || g[i] > -1e-3);
            if (!ok)
                fail_msg("seed %d: x[%d] = %g, slope %g", (int)seed, i, x[i],
                         g[i]);
        }
    }
}

/* |x - 1| + |y + 2| over norms: a cone, no slope at its tip. */
static double cone(void *ctx, const double *x, double *g)
{
    (void)ctx;
    double a = x[0] - 1, b = x[1] + 2, r = sqrt(a * a + b * b + 1e-300);
    g[0] = a / r;
    g[1] = b / r;
    return r;
}

static void a_kink_ends_the_search_near_its_tip(void **state)
{
    (void)state;
    double x[] = {7, 3};
    struct minimise_result r = run(cone, NULL, 2, NULL, NULL, x);
    assert_true(r.value < 1e-3 && r.evals < 200);
}

static double only_nan(void *ctx, const double *x, double *g)
{
    (void)ctx;
    g[0] = x[0];
    return NAN;
}

static void a_bad_problem_leaves_the_start_as_it_was(void **state)
{
    (void)state;
    double x[] = {3}, lower[] = {1}, upper[] = {0};
    struct minimise_problem p = {
        .n = 1, .function = cone, .lower = lower, .upper = upper};
    struct minimise_result r;
    struct firn_error err;
    assert_int_equal(minimise_run(&p, x, &r, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "variable 0"));
    upper[0] = 9;
    p.function = only_nan;
    assert_int_equal(minimise_run(&p, x, &r, &err), FIRN_EINVAL);
    p.n = MOST + 1;
    assert_int_equal(minimise_run(&p, x, &r, &err), FIRN_EINVAL);
    p.n = 0;
    assert_int_equal(minimise_run(&p, x, &r, &err), FIRN_EINVAL);
    assert_true(x[0] == 3);
}

/* The step-time model of Pollux (OSDI 2021, section 3.2). Parameters: alpha
 * and beta of the gradient, of the network between nodes and within a node,
 * and gamma, how far the two overlap. */
struct steps {
    int n, nodes[3], gpus[3], batch[3];
    double compute_s[3], step_s[3];
};

static double rmse(const double *error, const double (*slope)[7], int n,
                   double *g)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += error[i] * error[i];
    double root = sqrt(sum / n);
    for (int i = 0; i < n && root > 0; i++)
        for (int j = 0; j < 7; j++)
            g[j] += error[i] * slope[i][j] / (n * root);
    return root;
}

/* d log step = (C^gamma dC / C + N^gamma dN / N) / S and, for gamma,
 * ((C^gamma log C + N^gamma log N) / S - log S / gamma) / gamma, with
 * S = C^gamma + N^gamma. */
static double step_error(void *ctx, const double *p, double *g)
{
    const struct steps *obs = ctx;
    double compute_err[3], compute_slope[3][7] = {{0}};
    double step_err[3], step_slope[3][7] = {{0}};
    memset(g, 0, 7 * sizeof *g);
    for (int i = 0; i < obs->n; i++) {
        double c = p[0] + p[1] * obs->batch[i], network = 1.00000001e-8;
        double more = fmax(obs->gpus[i] - 2, 1e-8);
        int at = obs->gpus[i] == 1 ? -1 : obs->nodes[i] > 1 ? 2 : 4;
        if (at > 0)
            network = p[at] + p[at + 1] * more;
        double cg = fm_pow(c, p[6]), ng = fm_pow(network, p[6]), s = cg + ng;
        compute_err[i] = fm_log(c) - fm_log(obs->compute_s[i]);
        compute_slope[i][0] = 1 / c;
        compute_slope[i][1] = obs->batch[i] / c;
        step_err[i] = fm_log(s) / p[6] - fm_log(obs->step_s[i]);
        step_slope[i][0] = cg / c / s;
        step_slope[i][1] = cg / c / s * obs->batch[i];
        if (at > 0) {
            step_slope[i][at] = ng / network / s;
            step_slope[i][at + 1] = ng / network / s * more;
        }
        step_slope[i][6] =
            ((cg * fm_log(c) + ng * fm_log(network)) / s - fm_log(s) / p[6]) /
            p[6];
    }
    double f = rmse(compute_err, (const double(*)[7])compute_slope, obs->n, g) +
               rmse(step_err, (const double(*)[7])step_slope, obs->n, g) +
               1e-3 * (p[6] - 1) * (p[6] - 1);
    g[6] += 2e-3 * (p[6] - 1);
    for (int at = 2; at <= 4; at += 2) {
        double ratio = p[at + 1] / p[at];
        f += 1e-2 * ratio * ratio;
        g[at] -= 2e-2 * ratio * ratio / p[at];
        g[at + 1] += 2e-2 * ratio / p[at];
    }
    return f;
}

static const struct steps three = {
    3,
    {1, 1, 2},
    {1, 2, 8},
    {128, 100, 64},
    {0.1, 0.08, 0.06},
    {0.101, 0.11, 0.15},
};

static void the_gradient_of_the_step_model_is_that_of_its_value(void **state)
{
    (void)state;
    struct steps obs = three;
    double p[] = {0.02, 0.0006, 0.05, 0.003, 0.02, 0.001, 1.5}, g[7], none[7];
    assert_true(fabs(step_error(&obs, p, g) - 0.29553076122) < 1e-10);
    for (int j = 0; j < 7; j++) {
        double at = p[j], h = 1e-6 * at;
        p[j] = at + h;
        double up = step_error(&obs, p, none);
        p[j] = at - h;
        double down = step_error(&obs, p, none);
        p[j] = at;
        assert_true(fabs((up - down) / (2 * h) - g[j]) <
                    1e-5 * fmax(fabs(g[j]), 1));
    }
}

static void the_step_model_fits_three_measurements(void **state)
{
    (void)state;
    struct steps obs = three;
    double lower[] = {1e-8, 1e-8, 1e-8, 1e-8, 1e-8, 1e-8, 1};
    double upper[] = {INFINITY, INFINITY, INFINITY, INFINITY,
                      INFINITY, INFINITY, 10};
    double p[] = {0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001};
    struct minimise_result r = run(step_error, &obs, 7, lower, upper, p);
    const double best[] = {0.01777, 0.00065, 0.03019, 0.0129,
                           0.03909, 1e-8,    1.20008};
    assert_true(r.value < 0.0233384 && r.value > 0.0233382 && r.evals < 300);
    for (int j = 0; j < 7; j++)
        assert_true(fabs(p[j] - best[j]) < 1e-3 * best[j]);
}

/* One measurement, half of its compute time taken for alpha. Between the batch
 * slopes 4.00742e-4 and 4.04846e-4, which make one error zero or the other,
 * the value is flat, at log(0.103115323 / 0.102589987) = 0.0051077 and 1e-2
 * for each ratio beta / alpha of 1; the answer is where the search first gets
 * there. The Fortran code gets to 4.02636e-4. */
static void the_step_model_fits_one_measurement(void **state)
{
    (void)state;
    const double fixed = 0.102589987 / 2;
    struct steps one = {1, {1}, {1}, {128}, {0.102589987}, {0.103115323}};
    double lower[] = {fixed, 1e-8, 1e-8, 1e-8, 1e-8, 1e-8, 1};
    double upper[] = {fixed, INFINITY, 1e-8, 1e-8, 1e-8, 1e-8, 10};
    double p[] = {fixed, 0.01, 1e-8, 1e-8, 1e-8, 1e-8, 1.001};
    struct minimise_result r = run(step_error, &one, 7, lower, upper, p);
    assert_true(fabs(r.value - 0.0251077) < 1e-6 && r.evals < 100);
    assert_true(fabs(p[1] - 4.02636e-4) < 1e-8 && fabs(p[6] - 1.001) < 1e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rosenbrock_ends_in_its_valley_at_one_one),
        cmocka_unit_test(rosenbrock_stops_at_a_bound_across_the_valley),
        cmocka_unit_test(a_quadratic_in_a_box_has_the_known_corner),
        cmocka_unit_test(a_fixed_variable_does_not_move),
        cmocka_unit_test(random_bowls_end_where_no_slope_points_inwards),
        cmocka_unit_test(a_kink_ends_the_search_near_its_tip),
        cmocka_unit_test(a_bad_problem_leaves_the_start_as_it_was),
        cmocka_unit_test(the_gradient_of_the_step_model_is_that_of_its_value),
        cmocka_unit_test(the_step_model_fits_three_measurements),
        cmocka_unit_test(the_step_model_fits_one_measurement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
