/* test_stats.c - errors and R2 by hand; quick log and exp against libm. */
#include "base/rng.h"
#include "math/quick.h"
#include "math/stats.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void errors_are_shares_of_the_measurement(void **state)
{
    (void)state;
    double predicted[] = {1.1, 1.8, 4}, measured[] = {1, 2, 4};
    assert_true(fabs(stats_mape(predicted, measured, 3) - 0.2 / 3) < 1e-15);
    assert_true(fabs(stats_max_ape(predicted, measured, 3) - 0.1) < 1e-15);
    assert_true(isnan(stats_mape(predicted, measured, 0)));
}

static void r2_is_one_for_truth_and_zero_for_the_mean(void **state)
{
    (void)state;
    double y[] = {1, 2, 3, 6}, mean[] = {3, 3, 3, 3}, half[] = {1, 2, 3, 4};
    double flat[] = {2, 2}, off[] = {2, 3};
    assert_true(stats_r2(y, y, 4) == 1);
    assert_true(stats_r2(mean, y, 4) == 0);
    /* SS_tot = 4 + 1 + 0 + 9 = 14, SS_res = 4. */
    assert_true(fabs(stats_r2(half, y, 4) - (1 - 4.0 / 14)) < 1e-15);
    assert_true(stats_r2(flat, flat, 2) == 1);
    assert_true(isinf(stats_r2(off, flat, 2)));
}

static void the_median_is_in_the_middle(void **state)
{
    (void)state;
    double odd[] = {9, 1, 5}, even[] = {4, 1, 3, 2};
    assert_true(stats_median(odd, 3) == 5 && stats_median(even, 4) == 2.5);
    assert_true(stats_mean(odd, 3) == 5 && isnan(stats_median(odd, 0)));
}

static void quick_log_and_exp_agree_with_libm(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 11);
    for (int i = 0; i < 200000; i++) {
        double x = 1400 * rng_unit(&rng) - 700, want = exp(x);
        if (fabs(quick_exp(x) / want - 1) > 2e-15)
            fail_msg("seed 11: exp(%.17g)", x);
        x = exp(1200 * rng_unit(&rng) - 600);
        want = log(x);
        if (fabs(quick_log(x) - want) > 2e-15 * fmax(1, fabs(want)))
            fail_msg("seed 11: log(%.17g)", x);
    }
    assert_true(quick_log(1) == 0 && quick_exp(0) == 1);
    assert_true(quick_exp(-1e9) > 0 && quick_exp(-1e9) < 1e-300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_shares_of_the_measurement),
        cmocka_unit_test(r2_is_one_for_truth_and_zero_for_the_mean),
        cmocka_unit_test(the_median_is_in_the_middle),
        cmocka_unit_test(quick_log_and_exp_agree_with_libm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
