/* test_linear.c - least squares against closed forms and against search. */
#include "base/arena.h"
#include "base/rng.h"
#include "math/linear.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { ROWS = 12, COLS = 4, CASES = 400 };

struct instance {
    double a[ROWS * COLS], y[ROWS];
    struct linear_problem p;
};

static void draw(struct instance *in, struct rng *rng, size_t cols)
{
    in->p = (struct linear_problem){in->a, in->y, ROWS, cols};
    for (size_t i = 0; i < ROWS * cols; i++)
        in->a[i] = rng_normal(rng);
    for (size_t i = 0; i < ROWS; i++)
        in->y[i] = 3 * rng_normal(rng);
}

static void a_line_through_points_has_the_known_slope(void **state)
{
    (void)state;
    /* y over x = 1, 2, 3, 4 with y = 2, 4, 5, 7: slope 1.6, intercept 0.5. */
    double a[] = {1, 1, 1, 2, 1, 3, 1, 4}, y[] = {2, 4, 5, 7}, x[2];
    struct linear_problem p = {a, y, 4, 2};
    struct arena arena = {0};
    assert_int_equal(linear_fit(&p, x, &arena, NULL), FIRN_OK);
    assert_true(fabs(x[0] - 0.5) < 1e-12 && fabs(x[1] - 1.6) < 1e-12);
    arena_release(&arena);
}

/* At the best x the residual is orthogonal to every column. */
static void the_residual_is_orthogonal_to_the_columns(void **state)
{
    (void)state;
    struct arena arena = {0};
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct instance in;
        struct rng rng;
        double x[COLS];
        rng_seed(&rng, seed);
        draw(&in, &rng, COLS);
        assert_int_equal(linear_fit(&in.p, x, &arena, NULL), FIRN_OK);
        for (int j = 0; j < COLS; j++) {
            double dot = 0;
            for (int i = 0; i < ROWS; i++) {
                double r = -in.y[i];
                for (int k = 0; k < COLS; k++)
                    r += in.a[i * COLS + k] * x[k];
                dot += r * in.a[i * COLS + j];
            }
            if (fabs(dot) > 1e-9)
                fail_msg("seed %d: column %d: %g", (int)seed, j, dot);
        }
        arena_reset(&arena);
    }
    arena_release(&arena);
}

static void dependent_columns_share_the_weight(void **state)
{
    (void)state;
    double a[] = {1, 1, 2, 2, 3, 3}, y[] = {2, 4, 6}, x[2];
    struct linear_problem p = {a, y, 3, 2};
    struct arena arena = {0};
    assert_int_equal(linear_fit(&p, x, &arena, NULL), FIRN_OK);
    assert_true(fabs(x[0] - 1) < 1e-9 && fabs(x[1] - 1) < 1e-9);
    arena_release(&arena);
}

/* The oracle: of all sets of positive columns, the best feasible one. */
static double best_subset(const struct instance *in, struct arena *arena)
{
    double zero[COLS] = {0}, best = linear_cost(&in->p, zero);
    size_t n = in->p.cols;
    for (unsigned set = 1; set < 1u << n; set++) {
        double a[ROWS * COLS], x[COLS], whole[COLS] = {0};
        size_t k = 0;
        bool is_feasible = true;
        for (size_t j = 0; j < n; j++)
            k += set >> j & 1;
        for (size_t i = 0; i < ROWS; i++)
            for (size_t j = 0, at = 0; j < n; j++)
                if (set >> j & 1)
                    a[i * k + at++] = in->a[i * n + j];
        struct linear_problem p = {a, in->y, ROWS, k};
        assert_int_equal(linear_fit(&p, x, arena, NULL), FIRN_OK);
        for (size_t j = 0, at = 0; j < n; j++)
            if (set >> j & 1)
                whole[j] = x[at++];
        for (size_t j = 0; j < n; j++)
            is_feasible = is_feasible && whole[j] >= 0;
        if (is_feasible)
            best = fmin(best, linear_cost(&in->p, whole));
    }
    return best;
}

static void non_negative_is_as_good_as_the_best_subset(void **state)
{
    (void)state;
    struct arena arena = {0};
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct instance in;
        struct rng rng;
        double x[COLS];
        rng_seed(&rng, seed);
        draw(&in, &rng, 1 + seed % COLS);
        assert_int_equal(linear_fit_nonneg(&in.p, x, &arena, NULL), FIRN_OK);
        double best = best_subset(&in, &arena), got = linear_cost(&in.p, x);
        for (size_t j = 0; j < in.p.cols; j++)
            if (x[j] < 0)
                fail_msg("seed %d: x[%zu] is %g", (int)seed, j, x[j]);
        if (fabs(got - best) > 1e-9 * (1 + best))
            fail_msg("seed %d: cost %.12g, best %.12g", (int)seed, got, best);
        arena_reset(&arena);
    }
    arena_release(&arena);
}

static void bad_input_is_refused_and_x_is_left(void **state)
{
    (void)state;
    double a[] = {1, NAN}, y[] = {1, 2}, x[] = {7};
    struct linear_problem p = {a, y, 2, 1}, none = {a, y, 0, 1};
    struct arena arena = {0};
    struct firn_error err;
    assert_int_equal(linear_fit(&p, x, &arena, &err), FIRN_EINVAL);
    assert_string_equal(err.text, "least squares: row 2 is not finite");
    assert_int_equal(linear_fit_nonneg(&none, x, &arena, &err), FIRN_EDATA);
    assert_true(x[0] == 7);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_through_points_has_the_known_slope),
        cmocka_unit_test(the_residual_is_orthogonal_to_the_columns),
        cmocka_unit_test(dependent_columns_share_the_weight),
        cmocka_unit_test(non_negative_is_as_good_as_the_best_subset),
        cmocka_unit_test(bad_input_is_refused_and_x_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
