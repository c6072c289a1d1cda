/* test_timeleft.c - work left, time to accuracy, fairness: by hand. */
#include "base/rng.h"
#include <firn/progress.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-12 * (1 + fabs(b))))
        fail_msg("%g is not %g", a, b);
}

static void work_left_is_all_samples_less_those_that_counted(void **state)
{
    (void)state;
    /* 10 epochs of 50000; 100000 samples at 0.8 counted 80000 */
    assert_near(firn_progress_done(100000, 0.8), 80000);
    assert_near(firn_progress_left(10, 50000, 80000), 420000);
    assert_near(firn_progress_left(1, 100, 150), 0);
    assert_near(firn_progress_done(100, 1.5), 100);
}

static void time_to_accuracy_is_age_and_work_over_progress(void **state)
{
    (void)state;
    /* (1): 600 + 420000 / 700 = 1200 s */
    assert_near(firn_progress_tacc(600, 420000, 700), 1200);
    assert_near(firn_progress_tacc(600, 0, 0), 600);
    assert_true(isinf(firn_progress_tacc(600, 1, 0)));
    /* nothing now: 600 + 300 + 420000 / 700 = 1500 s */
    assert_near(firn_progress_tacc_idle(600, 300, 420000, 700), 1500);
    assert_near(firn_progress_tacc_idle(600, 300, 0, 700), 600);
}

static void ice_share_compares_with_the_best_allocation(void **state)
{
    (void)state;
    /* T_acc = inf, 100 + 1000/2 = 600, 100 + 1000/5 = 300: 0, 1/2, 1 */
    const double e[] = {0, 2, 5};
    double share[3];
    firn_progress_shares(100, 1000, e, 3, share);
    assert_near(share[0], 0);
    assert_near(share[1], 0.5);
    assert_near(share[2], 1);
    firn_progress_shares(100, 1000, e, 1, share);
    assert_near(share[0], 0);
}

static void rho_is_time_shared_over_time_with_an_equal_part(void **state)
{
    (void)state;
    /* Half its life 8 of 4 GPUs were asked for, half 2 of 4: the mean of 2 and
     * 0.5 is 1.25. Alone 1000 s: fair 1250 s; it took 1500 s: 1.2. */
    struct firn_contention c = {0};
    assert_near(firn_contention_mean(&c), 1);
    firn_contention_add(&c, 750, 8, 4);
    firn_contention_add(&c, 750, 2, 4);
    firn_contention_add(&c, -1, 2, 4);
    assert_near(firn_contention_mean(&c), 1.25);
    double fair_s = firn_fairness_alone(1000, firn_contention_mean(&c));
    assert_near(fair_s, 1250);
    assert_near(firn_fairness_rho(1500, fair_s), 1.2);
    assert_near(firn_fairness_alone(1000, 0.3), 1000);
    assert_true(isnan(firn_fairness_rho(1, 0)));
}

static void the_summary_leaves_out_jobs_without_rho(void **state)
{
    (void)state;
    const double rho[] = {0.5, (double)NAN, 1.5, 1, (double)INFINITY};
    struct firn_fairness f = firn_fairness_of(rho, 5);
    assert_int_equal(f.njobs, 3);
    assert_near(f.worst, 1.5);
    assert_near(f.mean, 1);
    assert_near(f.unfair_share, 1.0 / 3);
    assert_int_equal(firn_fairness_of(rho, 0).njobs, 0);
}

static void more_progress_is_never_a_smaller_share(void **state)
{
    (void)state;
    const uint64_t seed = 5;
    struct rng rng;
    rng_seed(&rng, seed);
    for (int round = 0; round < 500; round++) {
        double e[6], share[6];
        for (int i = 0; i < 6; i++)
            e[i] = rng_exp(&rng, 100);
        firn_progress_shares(rng_exp(&rng, 50), rng_exp(&rng, 1e5), e, 6,
                             share);
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < 6; j++)
                if ((e[i] > e[j] && share[i] < share[j]) || share[i] > 1)
                    fail_msg("seed %llu round %d", (unsigned long long)seed,
                             round);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_left_is_all_samples_less_those_that_counted),
        cmocka_unit_test(time_to_accuracy_is_age_and_work_over_progress),
        cmocka_unit_test(ice_share_compares_with_the_best_allocation),
        cmocka_unit_test(rho_is_time_shared_over_time_with_an_equal_part),
        cmocka_unit_test(the_summary_leaves_out_jobs_without_rho),
        cmocka_unit_test(more_progress_is_never_a_smaller_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
