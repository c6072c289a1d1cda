/* test_fit.c - the bounded fit against closed forms and grid search. */
#include "base/arena.h"
#include "base/rng.h"
#include "math/fit.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { POINTS = 15 };

struct points {
    double x[POINTS], y[POINTS];
    int n;
};

/* y = p0 + p1 x. */
static void line(void *ctx, const double *p, double *r, double *jac)
{
    const struct points *q = ctx;
    for (int i = 0; i < q->n; i++) {
        r[i] = p[0] + p[1] * q->x[i] - q->y[i];
        if (jac != NULL) {
            jac[2 * i] = 1;
            jac[2 * i + 1] = q->x[i];
        }
    }
}

/* y = p0 exp(-p1 x): two parameters, curved. */
static void decay(void *ctx, const double *p, double *r, double *jac)
{
    const struct points *q = ctx;
    for (int i = 0; i < q->n; i++) {
        double e = exp(-p[1] * q->x[i]);
        r[i] = p[0] * e - q->y[i];
        if (jac != NULL) {
            jac[2 * i] = e;
            jac[2 * i + 1] = -p[0] * q->x[i] * e;
        }
    }
}

struct two {
    double start[2], lower[2], upper[2], prior[2], scale[2];
};

static struct fit_problem problem(struct points *q, fit_residuals *f,
                                  const struct two *t)
{
    return (struct fit_problem){.nparams = 2,
                                .nresiduals = (size_t)q->n,
                                .residuals = f,
                                .ctx = q,
                                .start = t->start,
                                .lower = t->lower,
                                .upper = t->upper,
                                .prior = t->prior,
                                .scale = t->scale,
                                .ridge = 1e-3};
}

/* The objective of fit_run, computed independently. */
static double cost(const struct fit_problem *q, const double *p)
{
    double r[POINTS], sum = 0;
    q->residuals(q->ctx, p, r, NULL);
    for (size_t i = 0; i < q->nresiduals; i++) {
        double s = q->soft;
        sum += s > 0 ? 2 * s * s * (sqrt(1 + r[i] * r[i] / s / s) - 1)
                     : r[i] * r[i];
    }
    for (size_t j = 0; j < q->nparams; j++) {
        double d = q->ridge * (p[j] - q->prior[j]) / q->scale[j];
        sum += d * d;
    }
    return sum;
}

static double between(struct rng *rng, double lo, double hi)
{
    return lo + (hi - lo) * rng_unit(rng);
}

static void a_line_with_ridge_is_the_closed_form(void **state)
{
    (void)state;
    struct arena arena = {0};
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct rng rng;
        struct points q = {.n = 2 + (int)(seed % (POINTS - 2))};
        struct two t = {{0, 0},
                        {-INFINITY, -INFINITY},
                        {INFINITY, INFINITY},
                        {1, 2},
                        {1, 3}};
        double p[2], aa = 0, ab = 0, bb = 0, ya = 0, yb = 0;
        struct fit_result result;
        rng_seed(&rng, seed);
        for (int i = 0; i < q.n; i++) {
            q.x[i] = 4 * rng_unit(&rng);
            q.y[i] = rng_normal(&rng);
            aa += 1;
            ab += q.x[i];
            bb += q.x[i] * q.x[i];
            ya += q.y[i];
            yb += q.x[i] * q.y[i];
        }
        struct fit_problem f = problem(&q, line, &t);
        f.ridge = 0.5;
        assert_int_equal(fit_run(&f, p, &result, &arena, NULL), FIRN_OK);
        /* Normal equations with ridge^2 / scale^2 on the diagonal. */
        aa += 0.25;
        ya += 0.25 * 1;
        bb += 0.25 / 9;
        yb += 0.25 / 9 * 2;
        double det = aa * bb - ab * ab;
        double a = (ya * bb - yb * ab) / det, b = (aa * yb - ab * ya) / det;
        if (fabs(p[0] - a) > 1e-6 || fabs(p[1] - b) > 1e-6)
            fail_msg("seed %d: %g %g, not %g %g", (int)seed, p[0], p[1], a, b);
        assert_true(result.converged);
        arena_reset(&arena);
    }
    arena_release(&arena);
}

/* The oracle: a grid over the box, refined around its best point. */
static double grid_search(const struct fit_problem *q, const struct two *t)
{
    double lo[2], hi[2], best = INFINITY, at[2] = {0};
    memcpy(lo, t->lower, sizeof lo);
    memcpy(hi, t->upper, sizeof hi);
    for (int level = 0; level < 12; level++) {
        for (int i = 0; i <= 40; i++)
            for (int j = 0; j <= 40; j++) {
                double p[2] = {lo[0] + (hi[0] - lo[0]) * i / 40,
                               lo[1] + (hi[1] - lo[1]) * j / 40};
                double c = cost(q, p);
                if (c < best) {
                    best = c;
                    memcpy(at, p, sizeof at);
                }
            }
        for (int j = 0; j < 2; j++) {
            double half = (hi[j] - lo[j]) / 6;
            lo[j] = fmax(t->lower[j], at[j] - half);
            hi[j] = fmin(t->upper[j], at[j] + half);
        }
    }
    return best;
}

static void a_boxed_curve_is_as_good_as_grid_search(void **state)
{
    (void)state;
    struct arena arena = {0};
    int on_bound = 0, cases = getenv("FIRN_QUICK") != NULL ? 40 : 300;
    for (int seed = 1; seed <= cases; seed++) {
        struct rng rng;
        struct points q = {.n = 2 + seed % (POINTS - 2)};
        struct two t = {{1, 1}, {0.2, 0.1}, {3, 2.5}, {1, 1}, {1, 1}};
        double p[2], a, b;
        struct fit_result result;
        rng_seed(&rng, (uint64_t)seed);
        a = between(&rng, 0.05, 3.5);
        b = between(&rng, 0.02, 3);
        for (int i = 0; i < q.n; i++) {
            q.x[i] = between(&rng, 0, 3);
            q.y[i] = a * exp(-b * q.x[i]) + 0.02 * rng_normal(&rng);
        }
        struct fit_problem f = problem(&q, decay, &t);
        f.soft = seed % 2 == 0 ? 0.05 : 0;
        assert_int_equal(fit_run(&f, p, &result, &arena, NULL), FIRN_OK);
        double want = grid_search(&f, &t), got = cost(&f, p);
        for (int j = 0; j < 2; j++) {
            if (p[j] < t.lower[j] || p[j] > t.upper[j])
                fail_msg("seed %d: parameter %d is %g", seed, j, p[j]);
            on_bound += p[j] - t.lower[j] < 1e-6 || t.upper[j] - p[j] < 1e-6;
        }
        if (got > want * (1 + 1e-4) + 1e-9)
            fail_msg("seed %d: cost %.9g, grid %.9g", seed, got, want);
        if (fabs(got - result.cost) > 1e-9 * (1 + got))
            fail_msg("seed %d: says %g, is %g", seed, result.cost, got);
        arena_reset(&arena);
    }
    assert_true(on_bound > cases / 20); /* the bounds were tried */
    arena_release(&arena);
}

static void one_point_stays_near_the_prior(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct points q = {.x = {1}, .y = {5}, .n = 1};
    struct two t = {{1, 2}, {0, 0}, {INFINITY, INFINITY}, {1, 2}, {1, 1}};
    struct fit_problem f = problem(&q, line, &t);
    struct fit_result result;
    double p[2];
    /* 3 + d = 5 with d shared equally: 2 and 3. */
    assert_int_equal(fit_run(&f, p, &result, &arena, NULL), FIRN_OK);
    assert_true(fabs(p[0] - 2) < 1e-3 && fabs(p[1] - 3) < 1e-3);
    arena_release(&arena);
}

static void an_outlier_does_not_drag_a_soft_fit(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct points q = {.n = POINTS};
    struct two t = {
        {0, 0}, {-INFINITY, -INFINITY}, {INFINITY, INFINITY}, {0, 0}, {1, 1}};
    for (int i = 0; i < POINTS; i++) {
        q.x[i] = i;
        q.y[i] = i == 7 ? 1000 : 1 + 2.0 * i;
    }
    struct fit_problem f = problem(&q, line, &t);
    struct fit_result result;
    double hard[2], soft[2];
    assert_int_equal(fit_run(&f, hard, &result, &arena, NULL), FIRN_OK);
    f.soft = 0.1;
    assert_int_equal(fit_run(&f, soft, &result, &arena, NULL), FIRN_OK);
    assert_true(fabs(hard[0] - 1) > 10);
    assert_true(fabs(soft[0] - 1) < 0.1 && fabs(soft[1] - 2) < 0.01);
    arena_release(&arena);
}

static void bad_problems_are_refused(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct firn_error err;
    struct points q = {.x = {1}, .y = {NAN}, .n = 1};
    struct two t = {{1, 1}, {0, 0}, {2, 2}, {1, 1}, {1, 1}};
    struct fit_problem f = problem(&q, line, &t);
    struct fit_result result;
    double p[2] = {8, 9};
    assert_int_equal(fit_run(&f, p, &result, &arena, &err), FIRN_EINVAL);
    f.nresiduals = 0;
    assert_int_equal(fit_run(&f, p, &result, &arena, &err), FIRN_EDATA);
    f.nresiduals = 1;
    t.upper[1] = -1;
    assert_int_equal(fit_run(&f, p, &result, &arena, &err), FIRN_EINVAL);
    assert_true(p[0] == 8 && p[1] == 9);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_with_ridge_is_the_closed_form),
        cmocka_unit_test(a_boxed_curve_is_as_good_as_grid_search),
        cmocka_unit_test(one_point_stays_near_the_prior),
        cmocka_unit_test(an_outlier_does_not_drag_a_soft_fit),
        cmocka_unit_test(bad_problems_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
