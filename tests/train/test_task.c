/* test_task.c - shares and draws of tasks, likeness, the guard. */
#include "base/rng.h"
#include <firn/task.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TASKS = 3, PARAMETERS = 200 };

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-12 * (1 + fabs(b))))
        fail_msg("%.17g is not %.17g", a, b);
}

static void annealed_shares_go_from_proportional_to_nearly_even(void **state)
{
    (void)state;
    const uint64_t nsamples[] = {10000, 100};
    struct firn_task_mix mix = {.mode = FIRN_TASK_SPATIAL,
                                .ntasks = 2,
                                .nsamples = nsamples,
                                .nepochs = 5};
    double share[2];
    /* e = 1: a = 1, 10000 : 100 */
    assert_int_equal(firn_task_shares(&mix, 0, share, NULL), FIRN_OK);
    assert_near(share[0], 100.0 / 101);
    assert_near(share[1], 1.0 / 101);
    /* e = 3 of 5: a = 0.6, 100^0.6 = 15.8489... : 1 */
    assert_int_equal(firn_task_shares(&mix, 2, share, NULL), FIRN_OK);
    assert_near(share[0] / share[1], 15.848931924611133);
    /* e = 5: a = 0.2, 100^0.2 = 2.5119 : 1 */
    assert_int_equal(firn_task_shares(&mix, 4, share, NULL), FIRN_OK);
    assert_near(share[0] / share[1], 2.51188643150958);
    assert_near(share[0] + share[1], 1);
    double later[2];
    assert_int_equal(firn_task_shares(&mix, 9, later, NULL), FIRN_OK);
    assert_memory_equal(share, later, sizeof share); /* stays at the end */
    mix.nepochs = 1; /* one epoch: proportional */
    assert_int_equal(firn_task_shares(&mix, 0, share, NULL), FIRN_OK);
    assert_near(share[0], 100.0 / 101);
}

static void temporal_tasks_come_one_after_the_other(void **state)
{
    (void)state;
    struct firn_task_mix mix = {
        .mode = FIRN_TASK_TEMPORAL, .ntasks = TASKS, .nepochs = 7};
    static const size_t expect[] = {0, 0, 0, 1, 1, 2, 2, 2, 2};
    for (uint64_t epoch = 0; epoch < 9; epoch++) {
        double share[TASKS];
        assert_int_equal(firn_task_shares(&mix, epoch, share, NULL), FIRN_OK);
        for (size_t i = 0; i < TASKS; i++)
            assert_true(share[i] == (i == expect[epoch]));
        assert_int_equal(firn_task_of_step(&mix, epoch, epoch * 31),
                         expect[epoch]);
    }
    mix.mode = FIRN_TASK_NORMAL;
    assert_int_equal(firn_task_of_step(&mix, 6, 3), 0);
    mix.mode = FIRN_TASK_TEMPORAL;
    mix.nepochs = 2; /* fewer epochs than tasks */
    assert_int_equal(firn_task_of_step(&mix, 1, 0), 1);
}

static void draws_have_their_shares_and_repeat(void **state)
{
    (void)state;
    const uint64_t nsamples[TASKS] = {3000, 1000, 500};
    struct firn_task_mix mix = {.mode = FIRN_TASK_SPATIAL,
                                .ntasks = TASKS,
                                .nsamples = nsamples,
                                .nepochs = 4,
                                .seed = 99},
                         other = mix;
    enum { STEPS = 20000 };
    other.seed = 98;
    for (uint64_t epoch = 0; epoch < 4; epoch++) {
        double share[TASKS];
        size_t count[TASKS] = {0}, ndiffer = 0;
        assert_int_equal(firn_task_shares(&mix, epoch, share, NULL), FIRN_OK);
        for (uint64_t step = 0; step < STEPS; step++) {
            size_t task = firn_task_of_step(&mix, epoch, step);
            assert_true(task < TASKS);
            count[task]++;
            assert_int_equal(firn_task_of_step(&mix, epoch, step), task);
            ndiffer += firn_task_of_step(&other, epoch, step) != task;
        }
        for (size_t i = 0; i < TASKS; i++) {
            /* Five deviations of a binomial. */
            double wide = 5 * sqrt(share[i] * (1 - share[i]) / STEPS);
            assert_true(fabs((double)count[i] / STEPS - share[i]) < wide);
        }
        assert_true(ndiffer > STEPS / 10); /* another seed, other draws */
    }
}

static void wrong_mixes_are_named(void **state)
{
    (void)state;
    const uint64_t nsamples[] = {5, 0};
    struct firn_error err = {0};
    double share[2] = {7, 7};
    struct firn_task_mix mix = {.mode = FIRN_TASK_SPATIAL, .nepochs = 3};
    assert_int_equal(firn_task_shares(&mix, 0, share, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "at least one task"));
    mix.ntasks = 2;
    assert_int_equal(firn_task_shares(&mix, 0, share, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "samples"));
    mix.nsamples = nsamples;
    assert_int_equal(firn_task_shares(&mix, 0, share, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "task 2 has no samples"));
    assert_true(share[0] == 7 && share[1] == 7);
    for (uint64_t step = 0; step < 50; step++) /* still never that task */
        assert_int_equal(firn_task_of_step(&mix, 0, step), 0);
}

static void similarity_equals_a_hand_calculation(void **state)
{
    (void)state;
    const double f[] = {1, 3}, g[] = {3, 1}, zero[] = {0, 0};
    const double only_first[] = {2, 0}, only_second[] = {0, 5};
    assert_near(firn_task_similarity(f, f, 2), 1);
    const double f4[] = {4, 12};
    assert_near(firn_task_similarity(f, f4, 2), 1); /* four times the samples */
    /* f/(f+g) = 1/4, 3/4; g/(f+g) = 3/4, 1/4: (3 + 3) / (1 + 9) = 0.6 */
    assert_near(firn_task_similarity(f, g, 2), 0.6);
    assert_near(firn_task_similarity(g, f, 2), 0.6);
    assert_near(firn_task_similarity(only_first, only_second, 2), 0);
    assert_near(firn_task_similarity(f, zero, 2), 0);
    assert_near(firn_task_similarity(zero, zero, 2), 0);
    const double bad[] = {INFINITY, 1};
    assert_near(firn_task_similarity(f, bad, 2), 0);
}

static void add_gradients(double *fisher, uint64_t seed, size_t first, size_t n)
{
    struct rng rng;
    rng_seed(&rng, seed);
    for (size_t sample = 0; sample < n; sample++) {
        float grad[PARAMETERS];
        for (size_t i = 0; i < PARAMETERS; i++) {
            bool strong = i >= first && i < first + PARAMETERS / 2;
            grad[i] = (float)(rng_normal(&rng) * (strong ? 3 : 0.3));
        }
        firn_task_fisher_add(fisher, grad, PARAMETERS);
    }
}

static void tasks_that_move_the_same_parameters_are_alike(void **state)
{
    (void)state;
    double a[PARAMETERS] = {0}, b[PARAMETERS] = {0}, far[PARAMETERS] = {0};
    add_gradients(a, 1, 0, 60);
    add_gradients(b, 2, 0, 40); /* other samples, fewer of them */
    add_gradients(far, 3, PARAMETERS / 2, 60);
    double alike = firn_task_similarity(a, b, PARAMETERS);
    double unlike = firn_task_similarity(a, far, PARAMETERS);
    assert_true(alike > 0.9 && unlike < 0.2);
    float grad[2] = {2, -3};
    double fisher[2] = {1, 1};
    firn_task_fisher_add(fisher, grad, 2);
    assert_true(fisher[0] == 5 && fisher[1] == 10);
}

static void the_guard_decides_after_two_epochs(void **state)
{
    (void)state;
    const struct firn_task_guard guard = {.margin = 0.05};
    const double alone[] = {2, 1, 0.8};
    const double good[] = {5, 1.04, 0.7}, bad[] = {1, 1.06, 0.9};
    assert_int_equal(firn_task_judge(&guard, bad, alone, 0),
                     FIRN_TASK_TOO_EARLY);
    assert_int_equal(firn_task_judge(&guard, bad, alone, 1),
                     FIRN_TASK_TOO_EARLY);
    assert_int_equal(firn_task_judge(&guard, good, alone, 2), FIRN_TASK_PAYS);
    assert_int_equal(firn_task_judge(&guard, bad, alone, 2), FIRN_TASK_UNDO);
    assert_int_equal(firn_task_judge(&guard, good, alone, 3), FIRN_TASK_PAYS);
    const struct firn_task_guard patient = {.margin = 0.05, .epochs = 3};
    assert_int_equal(firn_task_judge(&patient, bad, alone, 2),
                     FIRN_TASK_TOO_EARLY);
    const double broken[] = {1, NAN}, unknown[] = {1, NAN};
    assert_int_equal(firn_task_judge(&guard, broken, alone, 2), FIRN_TASK_UNDO);
    assert_int_equal(firn_task_judge(&guard, good, unknown, 2),
                     FIRN_TASK_TOO_EARLY);
    /* Losses below zero: five per cent worse is nearer to zero. */
    const double below[] = {-1, -2}, near[] = {-1, -1.91};
    const double worse[] = {-1, -1.89};
    assert_int_equal(firn_task_judge(&guard, near, below, 2), FIRN_TASK_PAYS);
    assert_int_equal(firn_task_judge(&guard, worse, below, 2), FIRN_TASK_UNDO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(annealed_shares_go_from_proportional_to_nearly_even),
        cmocka_unit_test(temporal_tasks_come_one_after_the_other),
        cmocka_unit_test(draws_have_their_shares_and_repeat),
        cmocka_unit_test(wrong_mixes_are_named),
        cmocka_unit_test(similarity_equals_a_hand_calculation),
        cmocka_unit_test(tasks_that_move_the_same_parameters_are_alike),
        cmocka_unit_test(the_guard_decides_after_two_epochs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
