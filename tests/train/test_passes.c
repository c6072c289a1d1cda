/* test_passes.c - a batch in passes has the gradient of the batch. */
#include "base/rng.h"
#include <firn/passes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WEIGHTS = 16, BATCH = 50 };

static void sizes_differ_by_at_most_one_larger_ones_first(void **state)
{
    (void)state;
    static const size_t expect[4][2] = {{0, 3}, {3, 3}, {6, 2}, {8, 2}};
    for (size_t i = 0; i < 4; i++) {
        struct firn_pass p = firn_passes_at(10, 4, i);
        assert_int_equal(p.start, expect[i][0]);
        assert_int_equal(p.size, expect[i][1]);
        assert_true(p.weight == (double)expect[i][1] / 10);
    }
    assert_int_equal(firn_passes_at(10, 4, 4).size, 0);
    assert_int_equal(firn_passes_count(10, 0), 1);
    assert_int_equal(firn_passes_count(3, 7), 3); /* none is empty */
    assert_int_equal(firn_passes_count(0, 2), 0);
    assert_int_equal(firn_passes_at(0, 2, 0).size, 0);
}

static void every_cut_covers_the_batch_once(void **state)
{
    (void)state;
    for (size_t batch = 1; batch <= 64; batch++)
        for (size_t s = 1; s <= 70; s++) {
            size_t n = firn_passes_count(batch, s), next = 0;
            size_t first = firn_passes_at(batch, s, 0).size;
            double sum = 0;
            for (size_t i = 0; i < n; i++) {
                struct firn_pass p = firn_passes_at(batch, s, i);
                assert_int_equal(p.start, next);
                assert_true(p.size == first || p.size + 1 == first);
                next += p.size;
                sum += p.weight;
            }
            assert_int_equal(next, batch);
            assert_true(fabs(sum - 1) < 1e-14);
        }
}

/* Linear regression: samples x, targets y, the gradient of the mean of
 * (w x - y)^2 over samples start .. start + size - 1. */
struct problem {
    float x[BATCH][WEIGHTS], y[BATCH], w[WEIGHTS];
};

static void make_problem(struct problem *p, uint64_t seed)
{
    struct rng rng;
    rng_seed(&rng, seed);
    for (size_t i = 0; i < BATCH; i++) {
        for (size_t j = 0; j < WEIGHTS; j++)
            p->x[i][j] = (float)rng_normal(&rng);
        p->y[i] = (float)rng_normal(&rng);
    }
    for (size_t j = 0; j < WEIGHTS; j++)
        p->w[j] = (float)rng_normal(&rng);
}

static void mean_gradient(const struct problem *p, size_t start, size_t size,
                          float *grad)
{
    memset(grad, 0, WEIGHTS * sizeof *grad);
    for (size_t i = start; i < start + size; i++) {
        float error = -p->y[i];
        for (size_t j = 0; j < WEIGHTS; j++)
            error += p->w[j] * p->x[i][j];
        for (size_t j = 0; j < WEIGHTS; j++)
            grad[j] += 2 * error * p->x[i][j];
    }
    for (size_t j = 0; j < WEIGHTS; j++)
        grad[j] /= (float)size;
}

static void in_passes(const struct problem *p, size_t s, float *sum)
{
    for (size_t i = 0; i < firn_passes_count(BATCH, s); i++) {
        float grad[WEIGHTS];
        struct firn_pass pass = firn_passes_at(BATCH, s, i);
        mean_gradient(p, pass.start, pass.size, grad);
        firn_passes_add(sum, grad, WEIGHTS, pass, i);
    }
}

/* The largest difference, relative to the largest entry. */
static double apart(const float *a, const float *b)
{
    double most = 0, size = 0;
    for (size_t j = 0; j < WEIGHTS; j++) {
        most = fmax(most, fabs((double)a[j] - (double)b[j]));
        size = fmax(size, fabs((double)b[j]));
    }
    return most / size;
}

static void the_weighted_sum_is_the_gradient_of_the_batch(void **state)
{
    (void)state;
    struct problem p;
    float whole[WEIGHTS], cut[WEIGHTS], again[WEIGHTS], naive[WEIGHTS];
    make_problem(&p, 5);
    mean_gradient(&p, 0, BATCH, whole);
    for (size_t s = 1; s <= BATCH; s++) {
        in_passes(&p, s, cut);
        assert_true(apart(cut, whole) < 1e-5);
        in_passes(&p, s, again);
        assert_memory_equal(cut, again, sizeof cut); /* bit by bit */
    }
    in_passes(&p, 1, cut);
    assert_memory_equal(cut, whole, sizeof cut); /* one pass is the batch */
    /* The failing twin: 1/s for every pass, with 50 = 17 + 17 + 16. */
    for (size_t i = 0; i < 3; i++) {
        float grad[WEIGHTS];
        struct firn_pass pass = firn_passes_at(BATCH, 3, i);
        mean_gradient(&p, pass.start, pass.size, grad);
        pass.weight = 1.0 / 3;
        firn_passes_add(naive, grad, WEIGHTS, pass, i);
    }
    assert_true(apart(naive, whole) > 1e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_differ_by_at_most_one_larger_ones_first),
        cmocka_unit_test(every_cut_covers_the_batch_once),
        cmocka_unit_test(the_weighted_sum_is_the_gradient_of_the_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
