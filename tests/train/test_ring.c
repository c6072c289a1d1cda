/* test_ring.c - gloo's order: by hand, and against a ring that is played. */
#include "base/rng.h"
#include <firn/fold.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 11 };

/* 2^24, a power from which on a float cannot count: 2^24 + 1 is 2^24, while
 * -2^24 + 1 is exact. So sums of these and ones tell their order. */
#define BIG 16777216.0f

static void three_ranks_by_hand(void **state)
{
    (void)state;
    /* 7 elements, 28 bytes, 3 ranks: 6 segments of ceil(28/6) = 5, rounded up
     * to 8 bytes: 2 elements. Groups of 2 segments: elements 0-3, 4-6, none.
     * Group 0 is (x2 + x1) + x0, group 1 is (x0 + x2) + x1. */
    float x[3][7], out[7];
    const float *in[] = {x[0], x[1], x[2]};
    for (int i = 0; i < 7; i++)
        x[0][i] = -BIG, x[1][i] = 1, x[2][i] = BIG;
    firn_fold_ring_f32(out, in, 3, 7);
    for (int i = 0; i < 4; i++)
        assert_true(out[i] == 0); /* (BIG + 1) - BIG */
    for (int i = 4; i < 7; i++)
        assert_true(out[i] == 1); /* (-BIG + BIG) + 1 */
    for (int i = 0; i < 7; i++)
        x[0][i] = BIG, x[1][i] = -BIG, x[2][i] = 1;
    firn_fold_ring_f32(out, in, 3, 7);
    for (int i = 0; i < 4; i++)
        assert_true(out[i] == 1); /* (1 - BIG) + BIG */
    for (int i = 4; i < 7; i++)
        assert_true(out[i] == 0); /* (BIG + 1) - BIG */
}

static void four_ranks_by_hand(void **state)
{
    (void)state;
    /* 16 elements, 64 bytes: 8 segments of 8 bytes, groups of 4 elements.
     * Orders 3210, 0321, 1032, 2103: ((-BIG + 1) + BIG) + 1 is 2, and
     * ((1 - BIG) + 1) + BIG too, ((BIG + 1) - BIG) + 1 is 1, and
     * ((1 + BIG) + 1) - BIG is 0. */
    float x[4][16], out[16];
    const float *in[4];
    static const float value[4] = {1, BIG, 1, -BIG};
    static const float want[4] = {2, 2, 1, 0};
    for (int v = 0; v < 4; v++) {
        in[v] = x[v];
        for (int i = 0; i < 16; i++)
            x[v][i] = value[v];
    }
    firn_fold_ring_f32(out, in, 4, 16);
    for (int i = 0; i < 16; i++)
        assert_true(out[i] == want[i / 4]);
}

/* A ring that is played: every rank has its own copy, passes a group of
 * segments to the rank before it, and adds what comes from the rank after. */
static void play(float **copy, size_t nin, size_t n)
{
    size_t bytes = 4 * n, segments = 2 * nin, each;
    while (segments * 1048576 < bytes)
        segments++;
    while (segments % nin != 0)
        segments++;
    each = (bytes + segments - 1) / segments;
    while (each % 4 != 0)
        each++;
    each = each / 4 * (segments / nin);
    for (size_t step = 0; step + 1 < nin; step++)
        for (size_t rank = 0; rank < nin; rank++) {
            size_t group = (rank + 1 + step) % nin;
            size_t to = (rank + nin - 1) % nin;
            for (size_t i = group * each; i < n && i < (group + 1) * each; i++)
                copy[to][i] = copy[rank][i] + copy[to][i];
        }
    for (size_t r = 0; r < nin; r++) /* rank r has group r now */
        for (size_t i = r * each; i < n && i < (r + 1) * each; i++)
            copy[0][i] = copy[r][i];
}

static void compare(size_t nin, size_t n, struct rng *rng)
{
    float *in[RANKS] = {0}, *copy[RANKS] = {0}, *out = malloc(n * sizeof *out);
    float *plain = malloc(n * sizeof *plain);
    for (size_t v = 0; v < nin; v++) {
        in[v] = malloc(n * sizeof *out);
        copy[v] = malloc(n * sizeof *out);
        for (size_t i = 0; i < n; i++)
            in[v][i] = (float)(rng_unit(rng) - 0.5);
        memcpy(copy[v], in[v], n * sizeof *out);
    }
    firn_fold_ring_f32(out, (const float *const *)in, nin, n);
    firn_fold_f32(plain, (const float *const *)in, nin, n, 1);
    play(copy, nin, n);
    assert_memory_equal(out, copy[0], n * sizeof *out);
    if (nin > 2 && n > 500) /* two operands commute */
        assert_memory_not_equal(out, plain, n * sizeof *out);
    for (size_t v = 0; v < nin; v++) {
        free(in[v]);
        free(copy[v]);
    }
    free(out);
    free(plain);
}

static void the_rule_is_a_ring_that_runs_backwards(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 2, 7, 16, 100, 1001, 4099};
    struct rng rng;
    rng_seed(&rng, 77);
    for (size_t nin = 1; nin <= RANKS; nin++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            compare(nin, sizes[s], &rng);
}

/* From two mebibytes a rank on the segments are bound by their size. */
static void long_vectors_have_more_segments(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 78);
    compare(2, 1048576 + 5, &rng);
    compare(3, 1835008 + 7, &rng);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_ranks_by_hand),
        cmocka_unit_test(four_ranks_by_hand),
        cmocka_unit_test(the_rule_is_a_ring_that_runs_backwards),
        cmocka_unit_test(long_vectors_have_more_segments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
