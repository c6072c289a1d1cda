/* test_fold.c - folds against a plain loop, bit by bit. */
#include "base/rng.h"
#include <firn/fold.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 20, ROOM = 6000, SLACK = 16 };

static float pool[RANKS][ROOM + SLACK];
static double wide_pool[RANKS][ROOM + SLACK];

static bool same_f32(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static bool same_f64(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* Gradients of very different sizes; some values that are not ordinary. */
static float any_value(struct rng *rng)
{
    static const float odd[] = {0,        -0.0f,    INFINITY,     -INFINITY,
                                FLT_MAX,  -FLT_MAX, FLT_TRUE_MIN, FLT_MIN,
                                -FLT_MIN, 1e-42f,   -3e-45f};
    if (rng_below(rng, 40) == 0)
        return odd[rng_below(rng, sizeof odd / sizeof *odd)];
    if (rng_below(rng, 200) == 0)
        return NAN;
    return ldexpf((float)(rng_unit(rng) - 0.5), (int)rng_below(rng, 40) - 20);
}

static void fill(uint64_t seed)
{
    struct rng rng;
    rng_seed(&rng, seed);
    for (size_t v = 0; v < RANKS; v++)
        for (size_t i = 0; i < ROOM + SLACK; i++) {
            pool[v][i] = any_value(&rng);
            wide_pool[v][i] = (double)pool[v][i] * (1 + rng_unit(&rng));
        }
}

/* One fold of operands that begin at odd places; `out` in_place is in[0]. */
static void compare_f32(size_t nin, size_t n, size_t shift, float divisor,
                        bool in_place)
{
    static float want[ROOM], got[ROOM + SLACK];
    const float *in[RANKS];
    float *out = got + shift % 5;
    for (size_t v = 0; v < nin; v++)
        in[v] = pool[v] + (shift + 3 * v) % SLACK;
    for (size_t i = 0; i < n; i++) {
        volatile float s = in[0][i];
        for (size_t v = 1; v < nin; v++)
            s = s + in[v][i];
        want[i] = divisor == 1 ? s : s / divisor;
    }
    if (in_place) {
        memcpy(out, in[0], n * sizeof *out);
        in[0] = out;
    }
    out[n] = 77;
    firn_fold_f32(out, in, nin, n, divisor);
    for (size_t i = 0; i < n; i++)
        assert_true(same_f32(want[i], out[i]));
    assert_true(out[n] == 77); /* and not one element more */
}

static void compare_f64(size_t nin, size_t n, size_t shift, double divisor)
{
    static double got[ROOM + SLACK];
    const double *in[RANKS];
    double *out = got + shift % 3;
    for (size_t v = 0; v < nin; v++)
        in[v] = wide_pool[v] + (shift + 5 * v) % SLACK;
    out[n] = 77;
    firn_fold_f64(out, in, nin, n, divisor);
    for (size_t i = 0; i < n; i++) {
        volatile double s = in[0][i];
        for (size_t v = 1; v < nin; v++)
            s = s + in[v][i];
        assert_true(same_f64(divisor == 1 ? s : s / divisor, out[i]));
    }
    assert_true(out[n] == 77);
}

static const size_t sizes[] = {0, 1, 2, 3, 5, 15, 16, 17, 31, 64, 67, 131};
enum { NSIZES = sizeof sizes / sizeof *sizes };

static void a_fold_is_the_sum_in_the_order_of_its_operands(void **state)
{
    (void)state;
    for (size_t nin = 1; nin <= RANKS; nin++)
        for (size_t s = 0; s < NSIZES; s++)
            for (size_t shift = 0; shift < 7; shift++) {
                float divisor = shift % 2 ? 1 : (float)nin;
                compare_f32(nin, sizes[s], shift, divisor, shift % 3 == 0);
                compare_f64(nin, sizes[s], shift, (double)divisor);
            }
}

static void long_vectors_are_summed_in_the_same_order(void **state)
{
    (void)state;
    for (size_t nin = 1; nin <= RANKS; nin++) {
        compare_f32(nin, 5001, nin, (float)nin, nin % 2);
        compare_f64(nin, 5001, nin, (double)nin);
    }
}

/* Beyond 4 MiB results go past the caches where the machine can. */
static void very_long_vectors_are_summed_in_the_same_order(void **state)
{
    (void)state;
    enum { LONG = (4 << 20) / sizeof(float) + 37 };
    float *in[8], *out = malloc((LONG + 4) * sizeof *out);
    for (size_t v = 0; v < 8; v++) {
        in[v] = malloc(LONG * sizeof *out);
        for (size_t i = 0; i < LONG; i++)
            in[v][i] = pool[v][(i * (v + 1)) % ROOM];
    }
    for (size_t nin = 2; nin <= 8; nin = nin == 4 ? 8 : nin + 1) {
        out[1 + LONG] = 77;
        firn_fold_f32(out + 1, (const float *const *)in, nin, LONG, (float)nin);
        for (size_t i = 0; i < LONG; i++) {
            float s = in[0][i];
            for (size_t v = 1; v < nin; v++)
                s = s + in[v][i];
            if (!same_f32(s / (float)nin, out[1 + i]))
                fail_msg("%zu operands differ at %zu", nin, i);
        }
        assert_true(out[1 + LONG] == 77);
    }
    for (size_t v = 0; v < 8; v++)
        free(in[v]);
    free(out);
}

static void another_order_gives_other_bits(void **state)
{
    (void)state;
    static float forth[ROOM], back[ROOM];
    for (size_t nin = 3; nin <= RANKS; nin++) {
        const float *in[RANKS], *turned[RANKS];
        size_t ndiffer = 0;
        for (size_t v = 0; v < nin; v++)
            in[v] = turned[nin - 1 - v] = pool[v];
        firn_fold_f32(forth, in, nin, 1000, 1);
        firn_fold_f32(back, turned, nin, 1000, 1);
        for (size_t i = 0; i < 1000; i++)
            ndiffer += !same_f32(forth[i], back[i]);
        assert_true(ndiffer > 10);
    }
}

static void a_running_sum_has_the_bits_of_the_fold(void **state)
{
    (void)state;
    static float acc[ROOM], all[ROOM];
    static double wide_acc[ROOM], wide_all[ROOM];
    const float *in[RANKS];
    const double *wide_in[RANKS];
    for (size_t v = 0; v < RANKS; v++) {
        in[v] = pool[v];
        wide_in[v] = wide_pool[v];
    }
    memcpy(acc, in[0], sizeof acc);
    memcpy(wide_acc, wide_in[0], sizeof wide_acc);
    for (size_t v = 1; v < RANKS; v++) {
        firn_fold_add_f32(acc, in[v], ROOM);
        firn_fold_add_f64(wide_acc, wide_in[v], ROOM);
    }
    firn_fold_scale_f32(acc, ROOM, RANKS);
    firn_fold_scale_f64(wide_acc, ROOM, RANKS);
    firn_fold_f32(all, in, RANKS, ROOM, RANKS);
    firn_fold_f64(wide_all, wide_in, RANKS, ROOM, RANKS);
    for (size_t i = 0; i < ROOM; i++) {
        assert_true(same_f32(acc[i], all[i]));
        assert_true(same_f64(wide_acc[i], wide_all[i]));
    }
}

/* Powers of two are multiplied by: the same bits down to the last denormal. */
static void any_divisor_divides(void **state)
{
    (void)state;
    static const float divisors[] = {
        2,        4,         3,  7,     0.25f,    1e20f, 1e-20f,
        0x1p120f, 0x1p-120f, -2, 65536, INFINITY, 0};
    for (size_t d = 0; d < sizeof divisors / sizeof *divisors; d++) {
        compare_f32(2, 3001, d, divisors[d], false);
        compare_f64(2, 3001, d, (double)divisors[d]);
    }
}

static void flattened_tensors_come_back(void **state)
{
    (void)state;
    char a[] = "one", b[] = "", c[] = "three", flat[9];
    char x[4] = "", z[6] = "";
    const void *tensors[] = {a, b, c};
    void *back[] = {x, NULL, z};
    size_t bytes[] = {3, 0, 5};
    firn_fold_flatten(flat, tensors, bytes, 3);
    flat[8] = '\0';
    assert_string_equal(flat, "onethree");
    firn_fold_spread(back, flat, bytes, 3);
    assert_string_equal(x, "one");
    assert_string_equal(z, "three");
}

int main(void)
{
    const uint64_t seed = 20231;
    printf("seed %llu\n", (unsigned long long)seed);
    fill(seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fold_is_the_sum_in_the_order_of_its_operands),
        cmocka_unit_test(long_vectors_are_summed_in_the_same_order),
        cmocka_unit_test(very_long_vectors_are_summed_in_the_same_order),
        cmocka_unit_test(another_order_gives_other_bits),
        cmocka_unit_test(a_running_sum_has_the_bits_of_the_fold),
        cmocka_unit_test(any_divisor_divides),
        cmocka_unit_test(flattened_tensors_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
