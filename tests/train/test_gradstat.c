/* test_gradstat.c - variance by layer: by hand, and against long doubles. */
#include "base/rng.h"
#include <firn/freeze.h>
#include <firn/gradstat.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 9, LAYERS = 5, N = 5 * 611 };

static float grad[RANKS][N], mean[N];
static const float *rank[RANKS];
/* An empty layer, one element, and sizes that are no multiple of anything. */
static const size_t start[LAYERS + 1] = {0, 1001, 1001, 1002, 2000, N};

static void make_gradients(uint64_t seed, double noise)
{
    struct rng rng;
    rng_seed(&rng, seed);
    for (size_t i = 0; i < N; i++) {
        double common = rng_normal(&rng) * (1 + (double)(i / 611));
        for (size_t v = 0; v < RANKS; v++)
            grad[v][i] = (float)(common + noise * rng_normal(&rng));
    }
    for (size_t v = 0; v < RANKS; v++)
        rank[v] = grad[v];
}

/* Estimator (a) in long double, the textbook's way. */
static long double oracle(size_t layer, size_t nranks)
{
    long double sum = 0;
    for (size_t i = start[layer]; i < start[layer + 1]; i++) {
        long double m = 0, s = 0;
        for (size_t v = 0; v < nranks; v++)
            m += (long double)grad[v][i];
        m /= (long double)nranks;
        for (size_t v = 0; v < nranks; v++)
            s += ((long double)grad[v][i] - m) * ((long double)grad[v][i] - m);
        sum += s / (long double)(nranks - 1);
    }
    return sum;
}

static void assert_close(double a, long double b, double share)
{
    if (!(fabsl((long double)a - b) <= (long double)share * fabsl(b)))
        fail_msg("%.17g is not %.17Lg", a, b);
}

static void two_layers_by_hand(void **state)
{
    (void)state;
    const float a[] = {1, 2, 3}, b[] = {3, 2, 9}, c[] = {5, 2, 0};
    const float *const three[] = {a, b, c};
    const size_t layer[] = {0, 2, 3};
    double sum[2] = {100, 200};
    firn_gradstat_across(sum, three, 3, layer, 2, 0);
    /* means 3, 2, 4: (4 + 0 + 4) / 2 + 0, and (1 + 25 + 16) / 2 */
    assert_true(sum[0] == 104 && sum[1] == 221);
    firn_gradstat_across(sum, three, 3, layer, 2, 1); /* the first is frozen */
    assert_true(sum[0] == 104 && sum[1] == 242);
    double between[2] = {0, 0};
    firn_gradstat_between(between, a, b, layer, 2, 0);
    /* half of 4 + 0, half of 36 */
    assert_true(between[0] == 2 && between[1] == 18);
    firn_gradstat_between(between, a, b, layer, 2, 1);
    assert_true(between[0] == 2 && between[1] == 36);
}

static void squares_by_hand(void **state)
{
    (void)state;
    const float a[] = {1, 2, 3}, b[] = {3, 2, 9}, c[] = {5, 2, 0};
    const float of_all[] = {3, 2, 4};
    const size_t layer[] = {0, 2, 3};
    double squares[2] = {0, 0}, sum[2] = {0, 0};
    firn_gradstat_squares(squares, a, layer, 2, 0);
    assert_true(squares[0] == 5 && squares[1] == 9);
    firn_gradstat_squares(squares, b, layer, 2, 0);
    firn_gradstat_squares(squares, c, layer, 2, 0);
    assert_true(squares[0] == 47 && squares[1] == 90);
    firn_gradstat_from_squares(sum, squares, of_all, 3, layer, 2, 0);
    /* (47 - 3 * 13) / 2 and (90 - 3 * 16) / 2, as above */
    assert_true(sum[0] == 4 && sum[1] == 21);
}

static void variance_is_that_of_long_doubles(void **state)
{
    (void)state;
    for (size_t nranks = 2; nranks <= RANKS; nranks++) {
        double sum[LAYERS] = {0};
        make_gradients(nranks, 1e-3);
        firn_gradstat_across(sum, rank, nranks, start, LAYERS, 0);
        for (size_t k = 0; k < LAYERS; k++)
            assert_close(sum[k], oracle(k, nranks), 1e-11);
        assert_true(sum[1] == 0);
    }
}

/* Ranks that differ by noise as large as their mean: no digits cancel. */
static void the_form_by_squares_agrees(void **state)
{
    (void)state;
    double squares[LAYERS] = {0}, sum[LAYERS] = {0};
    make_gradients(5, 1);
    for (size_t i = 0; i < N; i++) {
        double m = 0;
        for (size_t v = 0; v < 4; v++)
            m += (double)grad[v][i];
        mean[i] = (float)(m / 4);
    }
    for (size_t v = 0; v < 4; v++)
        firn_gradstat_squares(squares, grad[v], start, LAYERS, 0);
    firn_gradstat_from_squares(sum, squares, mean, 4, start, LAYERS, 0);
    for (size_t k = 0; k < LAYERS; k++)
        assert_close(sum[k], oracle(k, 4), 1e-6);
}

/* Three steps of estimates in, psi out, against (3) in long double. */
static void the_frozen_penalty_is_that_of_long_doubles(void **state)
{
    (void)state;
    double sum[LAYERS] = {0}, storage[FIRN_FREEZE_DOUBLES(LAYERS)];
    long double want[LAYERS] = {0}, all = 0, rest;
    struct firn_freeze freeze;
    for (uint64_t step = 0; step < 3; step++) {
        make_gradients(step, 0.3);
        firn_gradstat_across(sum, rank, 4, start, LAYERS, 0);
        for (size_t k = 0; k < LAYERS; k++)
            want[k] += oracle(k, 4) / 3;
    }
    for (size_t k = 0; k < LAYERS; k++) {
        sum[k] /= 3;
        all += want[k];
    }
    firn_freeze_init(&freeze, storage, LAYERS);
    assert_int_equal(firn_freeze_observe(&freeze, sum, LAYERS, NULL), FIRN_OK);
    rest = all;
    for (size_t l = 0; l < LAYERS; l++) {
        assert_close(firn_freeze_penalty(&freeze, l), rest / all, 1e-6);
        rest -= want[l];
    }
    /* and the test can see 1e-5 */
    sum[0] *= 1 + 1e-5;
    assert_int_equal(firn_freeze_observe(&freeze, sum, LAYERS, NULL), FIRN_OK);
    rest = (all - want[0]) / all;
    assert_true(fabsl((long double)firn_freeze_penalty(&freeze, 1) - rest) >
                1e-6L * rest);
}

static void the_same_gradients_give_the_same_bits_at_any_address(void **state)
{
    (void)state;
    static float moved[4][N + 3];
    const float *at[4];
    double sum[LAYERS] = {0}, again[LAYERS] = {0}, other[LAYERS] = {0};
    make_gradients(9, 0.1);
    for (size_t v = 0; v < 4; v++) {
        memcpy(moved[v] + v, grad[v], sizeof grad[v]);
        at[v] = moved[v] + v;
    }
    firn_gradstat_across(sum, rank, 4, start, LAYERS, 0);
    firn_gradstat_across(again, at, 4, start, LAYERS, 0);
    assert_memory_equal(sum, again, sizeof sum);
    /* a layer cut in two is another order of the same sum */
    const size_t cut[] = {0, 502, 1001};
    firn_gradstat_across(other, rank, 4, cut, 2, 0);
    assert_close(other[0] + other[1], (long double)sum[0], 1e-13);
    assert_true(other[0] + other[1] != sum[0]);
}

static void step_times_are_means_of_whole_steps(void **state)
{
    (void)state;
    struct firn_steptimes times = {0};
    assert_true(firn_steptimes_mean(&times, FIRN_STEP_DATA) == 0);
    assert_true(firn_steptimes_step(&times) == 0);
    firn_steptimes_add(&times, FIRN_STEP_FORWARD, 1);
    firn_steptimes_add(&times, FIRN_STEP_FORWARD, 2); /* two passes */
    firn_steptimes_add(&times, FIRN_STEP_UPDATE, 0.5);
    firn_steptimes_end(&times);
    firn_steptimes_add(&times, FIRN_STEP_FORWARD, 1);
    assert_true(firn_steptimes_mean(&times, FIRN_STEP_FORWARD) == 3);
    firn_steptimes_end(&times);
    assert_true(firn_steptimes_mean(&times, FIRN_STEP_FORWARD) == 2);
    assert_true(firn_steptimes_mean(&times, FIRN_STEP_UPDATE) == 0.25);
    assert_true(firn_steptimes_step(&times) == 2.25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_layers_by_hand),
        cmocka_unit_test(squares_by_hand),
        cmocka_unit_test(variance_is_that_of_long_doubles),
        cmocka_unit_test(the_form_by_squares_agrees),
        cmocka_unit_test(the_frozen_penalty_is_that_of_long_doubles),
        cmocka_unit_test(the_same_gradients_give_the_same_bits_at_any_address),
        cmocka_unit_test(step_times_are_means_of_whole_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
