/* test_peakseen.c - ratios by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <firn/peakseen.h>
#include <math.h>

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-12))
        fail_msg("%.17g instead of %.17g", got, want);
}

static void nothing_seen_leaves_the_prediction(void **state)
{
    (void)state;
    struct firn_peak_seen seen = {0};
    near(firn_peak_ratio(&seen), 1);
    firn_peak_saw(&seen, 0, 10);
    firn_peak_saw(&seen, 10, -1);
    firn_peak_saw(&seen, 10, NAN);
    near(firn_peak_ratio(&seen), 1);
    assert_int_equal(seen.n, 0);
}

/* Predicted 40, seen 50: x = 1.25. 1 + 0.25/2 = 1.125; 1.125 + 0.125/3 = 7/6;
 * then predicted 40, seen 36: 7/6 + (0.9 - 7/6)/4 = 1.1. */
static void peaks_are_averaged_with_the_prediction(void **state)
{
    (void)state;
    struct firn_peak_seen seen = {0};
    firn_peak_saw(&seen, 40, 50);
    near(firn_peak_ratio(&seen), 1.125);
    firn_peak_saw(&seen, 40, 50);
    near(firn_peak_ratio(&seen), 7.0 / 6);
    firn_peak_saw(&seen, 40, 36);
    near(firn_peak_ratio(&seen), 1.1);
    assert_int_equal(seen.n, 3);
}

/* From the eighth on a peak counts for an eighth. */
static void old_peaks_are_forgotten(void **state)
{
    (void)state;
    struct firn_peak_seen seen = {.mean = 1, .n = 100};
    firn_peak_saw(&seen, 10, 18);
    near(firn_peak_ratio(&seen), 1.1);
    firn_peak_saw(&seen, 10, 11);
    near(firn_peak_ratio(&seen), 1.1);
}

/* 1024 times too much counts as twice: 1 + 1/2; a tenth counts as half. */
static void an_absurd_peak_is_bounded(void **state)
{
    (void)state;
    struct firn_peak_seen seen = {0};
    firn_peak_saw(&seen, 10, 10240);
    near(firn_peak_ratio(&seen), 1.5);
    seen = (struct firn_peak_seen){0};
    firn_peak_saw(&seen, 10, 1);
    near(firn_peak_ratio(&seen), 0.75);
    for (int i = 0; i < 200; i++)
        firn_peak_saw(&seen, 10, 0.1);
    assert_true(firn_peak_ratio(&seen) >= 0.5);
}

/* High end 32 on a GPU of 40: above 1.02 x 40/32 = 1.275. The next attempt was
 * planned with that and ran out again, on 40 with a high end of 30 at ratio 1
 * (38.25 planned): 1.02 x 40/30 = 1.36 is less than 1.1 x 1.275 = 1.4025. */
static void running_out_raises_the_ratio_above_what_there_was(void **state)
{
    (void)state;
    struct firn_peak_seen seen = {0};
    firn_peak_ran_out(&seen, 32, 40);
    near(firn_peak_ratio(&seen), 1.275);
    firn_peak_ran_out(&seen, 30, 40);
    near(firn_peak_ratio(&seen), 1.4025);
    assert_int_equal(seen.failures, 2);
    /* Smaller peaks do not take it back; larger ones raise it. */
    firn_peak_saw(&seen, 10, 9);
    near(firn_peak_ratio(&seen), 1.4025);
    for (int i = 0; i < 100; i++)
        firn_peak_saw(&seen, 10, 18);
    assert_true(firn_peak_ratio(&seen) > 1.7);
    for (int i = 0; i < 10; i++)
        firn_peak_ran_out(&seen, 0, 0);
    near(firn_peak_ratio(&seen), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_seen_leaves_the_prediction),
        cmocka_unit_test(peaks_are_averaged_with_the_prediction),
        cmocka_unit_test(old_peaks_are_forgotten),
        cmocka_unit_test(an_absurd_peak_is_bounded),
        cmocka_unit_test(running_out_raises_the_ratio_above_what_there_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
