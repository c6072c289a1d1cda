/* test_counted.c - how long jobs train by their number of iterations. */
#include "base/rng.h"
#include "model/counted.h"
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

static void nothing_is_known_before_any_job_has_ended(void **state)
{
    (void)state;
    struct counted counted = {0};
    assert_true(counted_training_s(&counted, 100) == 0);
    counted_add(&counted, 0, 10);
    counted_add(&counted, 100, -1);
    counted_add(&counted, (double)NAN, 10);
    counted_add(&counted, 100, (double)INFINITY);
    assert_true(counted_training_s(&counted, 100) == 0);
}

/* 100 iterations took 10 s: w = 1 / 0.5^2 = 4. The matrix is 1/2^2 + 4 = 4.25,
 * 400 and 40000, its determinant 10000, and the right side 40 and 4000: slope
 * is (4.25 4000 - 400 40) / 10000 = 0.1, shift 0. */
static void one_job_gives_the_time_of_an_iteration(void **state)
{
    (void)state;
    struct counted counted = {0};
    counted_add(&counted, 100, 10);
    assert_true(is_near(counted_training_s(&counted, 100), 10, 1e-9));
    assert_true(is_near(counted_training_s(&counted, 250), 25, 1e-9));
    assert_true(counted_training_s(&counted, 0) == 0);
}

/* 100 iterations took 4 s, then 400 took 10: weights 25 x 0.95 and 4, sums
 * 27.75, 3975, 877500, 135 and 25500. With 1/4 more the determinant is
 * 28 877500 - 3975^2 = 8769375, slope (28 25500 - 3975 135) / that =
 * 0.020226641 and shift (135 - 3975 slope) / 28 = 1.949968. */
static void two_jobs_tell_first_iterations_from_later_ones(void **state)
{
    (void)state;
    struct counted counted = {0};
    counted_add(&counted, 100, 4);
    counted_add(&counted, 400, 10);
    assert_true(is_near(counted_training_s(&counted, 1000), 22.176609, 1e-5));
    assert_true(is_near(counted_training_s(&counted, 200), 5.9953, 1e-4));
}

/* A short job took relatively little: the line would begin below 0. */
static void more_iterations_never_take_less_time(void **state)
{
    (void)state;
    struct counted counted = {0};
    counted_add(&counted, 10, 1);
    counted_add(&counted, 100, 40);
    double before_s = 0;
    for (int n = 1; n < 2000; n *= 2) {
        double now_s = counted_training_s(&counted, n);
        assert_true(now_s > before_s);
        before_s = now_s;
    }
    struct counted falling = {0};
    counted_add(&falling, 100, 40);
    counted_add(&falling, 200, 10);
    assert_true(counted_training_s(&falling, 400) >
                counted_training_s(&falling, 100));
    assert_true(counted_training_s(&falling, 100) > 0);
}

/* 300 jobs of random lengths, wrong by 5 %. */
static void the_line_is_found_under_noise(void **state)
{
    (void)state;
    struct counted counted = {0};
    struct rng rng;
    rng_seed(&rng, 7);
    for (int i = 0; i < 300; i++) {
        double n = 100 + 900 * rng_unit(&rng);
        double noise = 0.95 + 0.1 * rng_unit(&rng);
        counted_add(&counted, n, (1.5 + 0.02 * n) * noise);
    }
    for (int n = 100; n <= 2000; n += 100)
        assert_true(is_near(counted_training_s(&counted, n) / (1.5 + 0.02 * n),
                            1, 0.05));
}

static void
an_iteration_that_became_slower_is_known_after_twenty_jobs(void **state)
{
    (void)state;
    struct counted counted = {0};
    for (int i = 0; i < 200; i++)
        counted_add(&counted, 100 + i, 0.1 * (100 + i));
    for (int i = 0; i < 60; i++)
        counted_add(&counted, 100 + i, 0.2 * (100 + i));
    assert_true(counted_training_s(&counted, 150) > 0.9 * 30);
}

static void sums_of_a_broken_file_are_found(void **state)
{
    (void)state;
    struct counted counted = {0};
    counted_add(&counted, 100, 4);
    counted_add(&counted, 400, 10);
    assert_true(counted_is_sound(&counted));
    assert_false(counted_is_sound(&(struct counted){0}));
    struct counted broken = counted;
    broken.wnn = broken.wn * broken.wn / broken.w / 2;
    assert_false(counted_is_sound(&broken));
    broken = counted;
    broken.wt = (double)NAN;
    assert_false(counted_is_sound(&broken));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_known_before_any_job_has_ended),
        cmocka_unit_test(one_job_gives_the_time_of_an_iteration),
        cmocka_unit_test(two_jobs_tell_first_iterations_from_later_ones),
        cmocka_unit_test(more_iterations_never_take_less_time),
        cmocka_unit_test(the_line_is_found_under_noise),
        cmocka_unit_test(
            an_iteration_that_became_slower_is_known_after_twenty_jobs),
        cmocka_unit_test(sums_of_a_broken_file_are_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
