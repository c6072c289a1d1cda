/* test_fmath.c - log, exp, pow and sine against long double libm.
 *
 * BOUND is the promise of the header; the fixed bits at the end pin the
 * results across machines and compilers.
 */
#include "base/fmath.h"
#include "base/rng.h"
#include "lib/trials.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#define BOUND 4e-16L
enum { DRAWS = 200000 };

static void near(const char *what, double x, double got, long double want)
{
    long double error = want == 0.0L ? fabsl((long double)got)
                                     : fabsl(((long double)got - want) / want);
    if (!(error < BOUND))
        fail_msg("%s of %.17g: %.17g is off by %Lg", what, x, got, error);
}

static void log_is_near(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 1);
    for (int i = 0, n = trials(DRAWS); i < n; i++) {
        double x =
            ldexp(1.0 + rng_unit(&rng), (int)rng_below(&rng, 2040) - 1020);
        near("log", x, fm_log(x), logl(x));
        x = 1.0 + (rng_unit(&rng) - 0.5) * ldexp(1.0, -(i % 52));
        near("log", x, fm_log(x), logl(x));
    }
    near("log", 5e-324, fm_log(5e-324), logl(5e-324));
    near("log", 1.7e308, fm_log(1.7e308), logl(1.7e308));
}

static void exp_is_near(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 2);
    for (int i = 0, n = trials(DRAWS); i < n; i++) {
        double x = rng_unit(&rng) * 1400.0 - 700.0;
        near("exp", x, fm_exp(x), expl(x));
        x = (rng_unit(&rng) - 0.5) * ldexp(1.0, -(i % 60));
        near("exp", x, fm_exp(x), expl(x));
    }
}

/* Is long double wider than double? Valgrind computes it no better, and then
 * powl() is no oracle. */
static bool has_oracle(void)
{
    volatile long double tiny = 0x1p-60L;
    return 1.0L + tiny != 1.0L;
}

static void pow_is_near(void **state)
{
    (void)state;
    struct rng rng;
    if (!has_oracle())
        skip();
    rng_seed(&rng, 3);
    for (int i = 0, n = trials(DRAWS); i < n; i++) {
        double x = fm_exp(rng_unit(&rng) * 40.0 - 20.0);
        double y = (rng_unit(&rng) - 0.5) * 60.0;
        near("pow", x, fm_pow(x, y), powl(x, y));
        x = 1.0 + rng_unit(&rng) * 255.0; /* GPUs, with a scaling exponent */
        y = rng_unit(&rng);
        near("pow", x, fm_pow(x, y), powl(x, y));
    }
}

/* The turn is folded to an eighth by hand: sinl of 2 pi t is no oracle where
 * the result is near zero. */
static long double sin_turn(double turns)
{
    const long double two_pi = 6.283185307179586476925286766559005768L;
    double t = turns - floor(turns + 0.5);
    if (t > 0.25)
        t = 0.5 - t;
    if (t < -0.25)
        t = -0.5 - t;
    return sinl(two_pi * t);
}

static void sine_is_near(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 4);
    for (int i = 0, n = trials(DRAWS); i < n; i++) {
        double t = (rng_unit(&rng) - 0.5) * ldexp(1.0, i % 60 - 30);
        near("sine", t, fm_sin_turn(t), sin_turn(t));
    }
}

static void special_values_are_exact(void **state)
{
    (void)state;
    assert_true(fm_log(1.0) == 0.0);
    assert_true(fm_log(0.0) == -(double)INFINITY);
    assert_true(isnan(fm_log(-1.0)));
    assert_true(fm_exp(0.0) == 1.0);
    assert_true(fm_exp(-1e9) == 0.0);
    assert_true(isinf(fm_exp(1e9)));
    assert_true(isnan(fm_exp((double)NAN)));
    assert_true(fm_pow(0.3, 1.0) == 0.3);
    assert_true(fm_pow(1.0, 0.3) == 1.0);
    assert_true(fm_pow(7.0, 0.0) == 1.0);
    assert_true(fm_pow(0.0, 0.9) == 0.0);
    assert_true(isinf(fm_pow(10.0, 1e307)));
    assert_true(fm_pow(0.1, 1e307) == 0.0);
    assert_true(fm_pow(2.0, 10.0) == 1024.0);
    assert_true(fm_sin_turn(0.0) == 0.0);
    assert_true(fm_sin_turn(0.25) == 1.0);
    assert_true(fm_sin_turn(0.5) == 0.0);
    assert_true(fm_sin_turn(0.75) == -1.0);
    assert_true(fm_sin_turn(1e15) == 0.0);
}

/* Sums over many points, to the last bit: the same on every machine. */
static void the_bits_never_change(void **state)
{
    (void)state;
    double sums[4] = {0};
    for (int i = 1; i <= 1000; i++) {
        sums[0] += fm_log(i * 0.37);
        sums[1] += fm_exp(i * 0.01 - 5.0);
        sums[2] += fm_pow(i * 0.11, 0.9);
        sums[3] += fm_sin_turn(i * 0.0123);
    }
    assert_true(sums[0] == 0x1.335e03b51cd25p+12);
    assert_true(sums[1] == 0x1.d217c081fee3cp+13);
    assert_true(sums[2] == 0x1.1af1efdade693p+15);
    assert_true(sums[3] == 0x1.167afc6bf5ff2p+4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_is_near),
        cmocka_unit_test(exp_is_near),
        cmocka_unit_test(pow_is_near),
        cmocka_unit_test(sine_is_near),
        cmocka_unit_test(special_values_are_exact),
        cmocka_unit_test(the_bits_never_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
