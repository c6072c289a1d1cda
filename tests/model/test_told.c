/* test_told.c - what is made of the durations that users tell. */
#include "base/rng.h"
#include "model/told.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool is_near(double a, double b, double tolerance)
{
    return fabs(a - b) < tolerance;
}

static void a_duration_is_believed_before_any_job_has_ended(void **state)
{
    (void)state;
    struct told told = {0};
    assert_true(told_training_s(&told, 100, 0) == 100);
    assert_true(told_training_s(&told, 100, 25) == 75);
    assert_true(told_training_s(&told, 20, 25) == -5);
}

/* 100 s were told and 110 taken: w = 1 / 5^2. Without starts slope is
 * w 100 10 / (4 + w 100^2) = 40 / 404. With 25 s of start and end the matrix is
 * 1/10^2 + w = 0.05, w 75 = 3 and 4 + w 75^2 = 229, its determinant 2.45, so
 * that shift is 1.6 / 2.45 and slope 0.3 / 2.45. */
static void a_first_job_is_divided_between_start_and_training(void **state)
{
    (void)state;
    struct told told = {0};
    told_add(&told, 100, 110);
    assert_true(is_near(told_training_s(&told, 50, 0), 54.9504950, 1e-6));
    assert_true(is_near(told_training_s(&told, 100, 25), 84.8367347, 1e-6));
    assert_true(is_near(told_training_s(&told, 50, 25), 28.7142857, 1e-6));
}

static void users_may_be_wrong_by_seconds_or_by_a_ratio(void **state)
{
    (void)state;
    struct told seconds = {0}, ratio = {0};
    for (int training_s = 20; training_s <= 80; training_s += 20) {
        told_add(&seconds, training_s + 28, training_s + 25);
        told_add(&ratio, 1.3 * (training_s + 25), training_s + 25);
    }
    for (int training_s = 30; training_s <= 100; training_s += 70) {
        assert_true(is_near(told_training_s(&seconds, training_s + 28, 25),
                            training_s, 0.4));
        assert_true(
            is_near(told_training_s(&ratio, 1.3 * (training_s + 25), 25),
                    training_s, 0.8));
    }
}

/* All of them trained for 50 s, whatever their users told. */
static void durations_that_say_nothing_give_the_mean(void **state)
{
    (void)state;
    struct told told = {0};
    for (int i = 0; i < 12; i++)
        told_add(&told, 60 + 37 * i % 61, 75);
    for (int told_s = 60; told_s <= 120; told_s += 30)
        assert_true(is_near(told_training_s(&told, told_s, 25), 50, 6));
}

static void a_longer_duration_never_means_less_training(void **state)
{
    (void)state;
    struct told told = {0};
    told_add(&told, 60, 100);
    told_add(&told, 120, 70);
    double less_s = told_training_s(&told, 60, 25);
    assert_true(less_s > 40 && less_s < 80);
    assert_true(told_training_s(&told, 200, 25) == less_s);
}

static void old_jobs_fade(void **state)
{
    (void)state;
    struct told told = {0};
    for (int i = 0; i < 100; i++)
        told_add(&told, 100, 200);
    for (int i = 0; i < 60; i++)
        told_add(&told, 100, 100);
    assert_true(is_near(told_training_s(&told, 100, 0), 100, 5));
}

static void numbers_that_are_no_times_are_passed_over(void **state)
{
    (void)state;
    static const double wrong[] = {0, -1, (double)NAN, (double)INFINITY};
    struct told told = {0};
    for (int i = 0; i < 4; i++) {
        told_add(&told, wrong[i], 10);
        told_add(&told, 10, wrong[i]);
    }
    assert_true(told.w == 0 && told_is_sound(&told));
    told_add(&told, 10, 20);
    assert_true(told.w > 0 && told_is_sound(&told));
    told.wy = (double)NAN;
    assert_false(told_is_sound(&told));
    told = (struct told){1, 10, 1, 0, 0}; /* a mean of 10, of squares 1 */
    assert_false(told_is_sound(&told));
}

enum { JOBS = 12 };

/* What told.h says is least, of all jobs. */
static double loss(const double told_s[JOBS], const double took_s[JOBS],
                   double around_s, double shift, double slope)
{
    double sum = pow(shift / (0.4 * around_s), 2) + pow(slope / 0.5, 2);
    for (int i = 0; i < JOBS; i++) {
        double x = told_s[i] - around_s, y = took_s[i] - told_s[i];
        double w = pow(0.05 * told_s[i], -2) * pow(0.95, JOBS - 1 - i);
        sum += w * pow(y - shift - slope * x, 2);
    }
    return sum;
}

/* Of drawn users: no line near the one that is found fits better. */
static void the_line_is_the_best_there_is(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 7);
    for (int draw = 0; draw < 200; draw++) {
        struct told told = {0};
        double told_s[JOBS], took_s[JOBS], around_s = 5 + 30 * rng_unit(&rng);
        for (int i = 0; i < JOBS; i++) {
            took_s[i] = around_s + 100 * rng_unit(&rng);
            told_s[i] = took_s[i] * (0.8 + 0.6 * rng_unit(&rng));
            told_add(&told, told_s[i], took_s[i]);
        }
        double shift = told_training_s(&told, around_s, around_s);
        double slope =
            told_training_s(&told, around_s + 1, around_s) - shift - 1;
        double best = loss(told_s, took_s, around_s, shift, slope);
        for (int i = 0; i < 9; i++)
            assert_true(loss(told_s, took_s, around_s,
                             shift + 0.1 * (i % 3 - 1),
                             slope + 0.01 * (i / 3 - 1)) >= best - 1e-9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_duration_is_believed_before_any_job_has_ended),
        cmocka_unit_test(a_first_job_is_divided_between_start_and_training),
        cmocka_unit_test(users_may_be_wrong_by_seconds_or_by_a_ratio),
        cmocka_unit_test(durations_that_say_nothing_give_the_mean),
        cmocka_unit_test(a_longer_duration_never_means_less_training),
        cmocka_unit_test(old_jobs_fade),
        cmocka_unit_test(numbers_that_are_no_times_are_passed_over),
        cmocka_unit_test(the_line_is_the_best_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
