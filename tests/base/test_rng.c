/* test_rng.c - streams that never change, and the shape of the draws. */
#include "base/rng.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

enum { DRAWS = 200000 };

/* xoshiro256** from the state 1, 2, 3, 4 begins with these; the first is
 * rotl(2 * 5, 7) * 9 = 11520, worked by hand. */
static void the_generator_is_xoshiro256starstar(void **state)
{
    (void)state;
    struct rng rng = {{1, 2, 3, 4}};
    assert_int_equal(rng_u64(&rng), 11520);
    assert_int_equal(rng_u64(&rng), 0);
    assert_int_equal(rng_u64(&rng), 1509978240);
}

static void the_same_seed_gives_the_same_stream(void **state)
{
    (void)state;
    struct rng a, b, c;
    rng_seed(&a, 7);
    rng_seed(&b, 7);
    rng_seed(&c, 8);
    int same = 0;
    for (int i = 0; i < 100; i++) {
        uint64_t draw = rng_u64(&a);
        assert_int_equal(draw, rng_u64(&b));
        same += draw == rng_u64(&c);
    }
    assert_int_equal(same, 0);
}

/* Fixed bits: a change of any of these changes every generated trace. */
static void the_first_draws_of_seed_one_never_change(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 1);
    assert_int_equal(rng_u64(&rng), 0xb3f2af6d0fc710c5);
    assert_true(rng_unit(&rng) == 0x1.0a76ab2c8e6c9p-1);
    assert_true(rng_exp(&rng, 100.0) == 0x1.556cf65da9c66p+6);
    assert_true(rng_normal(&rng) == -0x1.e259e36aecd31p-1);
}

static void unit_draws_fill_zero_to_one(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 3);
    double sum = 0.0, min = 1.0, max = 0.0;
    for (int i = 0; i < DRAWS; i++) {
        double u = rng_unit(&rng);
        assert_true(u >= 0.0 && u < 1.0);
        sum += u;
        min = u < min ? u : min;
        max = u > max ? u : max;
    }
    assert_true(fabs(sum / DRAWS - 0.5) < 0.005);
    assert_true(min < 0.001 && max > 0.999);
}

static void draws_below_n_are_even(void **state)
{
    (void)state;
    struct rng rng;
    int count[7] = {0};
    rng_seed(&rng, 4);
    for (int i = 0; i < DRAWS; i++)
        count[rng_below(&rng, 7)]++;
    for (int i = 0; i < 7; i++)
        assert_true(fabs(count[i] - DRAWS / 7.0) < 900.0);
    assert_int_equal(rng_below(&rng, 1), 0);
    /* two thirds of 2^64: with a plain remainder the lower half of the range
     * would come twice as often as the upper */
    uint64_t n = UINT64_MAX / 3 * 2, low = 0;
    for (int i = 0; i < 10000; i++)
        low += rng_below(&rng, n) < n / 2;
    assert_in_range(low, 4700, 5300);
}

static void exponential_and_normal_have_their_moments(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 5);
    double e = 0.0, m = 0.0, v = 0.0;
    int within = 0;
    for (int i = 0; i < DRAWS; i++) {
        double x = rng_exp(&rng, 10.0);
        assert_true(x >= 0.0 && isfinite(x));
        e += x;
        double z = rng_normal(&rng);
        m += z;
        v += z * z;
        within += fabs(z) < 1.0;
    }
    assert_true(fabs(e / DRAWS - 10.0) < 0.1);
    assert_true(fabs(m / DRAWS) < 0.01);
    assert_true(fabs(v / DRAWS - 1.0) < 0.02);
    assert_true(fabs((double)within / DRAWS - 0.6827) < 0.005);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_generator_is_xoshiro256starstar),
        cmocka_unit_test(the_same_seed_gives_the_same_stream),
        cmocka_unit_test(the_first_draws_of_seed_one_never_change),
        cmocka_unit_test(unit_draws_fill_zero_to_one),
        cmocka_unit_test(draws_below_n_are_even),
        cmocka_unit_test(exponential_and_normal_have_their_moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
