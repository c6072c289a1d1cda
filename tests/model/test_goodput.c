/* test_goodput.c - efficiency by hand, and the authors' own test vectors. */
#include "base/rng.h"
#include <firn/goodput.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool near(double a, double b, double tolerance)
{
    return fabs(a - b) <= tolerance * fabs(b);
}

/* Expected: the values of AdaptDL's simulator for these statistics. */
static void gain_agrees_with_the_authors_simulator(void **state)
{
    (void)state;
    static const struct {
        double batch0, batch, g, v, gain, efficiency;
    } rows[] = {
        {128, 300, 15.8051873, 13.0743911, 1.350548377, 0.576233974},
        {128, 2052, 0.0238077708, 3.32902435, 14.485190401, 0.903559635},
        {200, 3600, 4.3479477, 14.5262794, 3.661369891, 0.203409438},
        {8, 224, 239.749498, 16668.6935, 20.248177865, 0.723149209},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct firn_noise n = {rows[i].g, rows[i].v, rows[i].batch0};
        assert_true(near(firn_gain(&n, rows[i].batch), rows[i].gain, 1e-8));
        assert_true(
            near(firn_efficiency(&n, rows[i].batch), rows[i].efficiency, 1e-8));
    }
}

static void efficiency_falls_from_one_and_gain_rises(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        struct rng rng;
        rng_seed(&rng, seed);
        struct firn_noise n = {rng_exp(&rng, 1), rng_exp(&rng, 100),
                               1 + (double)rng_below(&rng, 100)};
        double b = n.batch0, gain = firn_gain(&n, b);
        double efficiency = firn_efficiency(&n, b);
        assert_true(near(gain, 1, 1e-12) && near(efficiency, 1, 1e-12));
        for (int i = 0; i < 10; i++) {
            b *= 1 + rng_unit(&rng);
            double g = firn_gain(&n, b), e = firn_efficiency(&n, b);
            if (g < gain || e > efficiency ||
                g > (1 + n.grad_var / n.grad_sqr) * (1 + 1e-12))
                fail_msg("seed %d: batch %g", (int)seed, b);
            gain = g;
            efficiency = e;
        }
    }
}

static void statistics_at_their_limits_stay_finite(void **state)
{
    (void)state;
    struct firn_noise no_noise = {1, 0, 10}, no_signal = {0, 1, 10};
    struct firn_noise negative = {-0.1, 1, 10}, none = {0, 0, 10};
    assert_true(firn_gain(&no_noise, 40) == 1);
    assert_true(firn_efficiency(&no_signal, 40) == 1);
    assert_true(firn_efficiency(&negative, 40) == 1);
    assert_true(isfinite(firn_efficiency(&none, 40)));
}

/* The model and the statistics of the authors' test vectors. */
static struct firn_itertime vector_model(void)
{
    struct firn_sync_law far = {.alpha_s = 0.05, .beta_s = 0.003};
    return (struct firn_itertime){
        .alpha_s = 0.02,
        .beta_s = 0.0006,
        .gamma = 1.5,
        .local = {.alpha_s = 0.02, .beta_s = 0.001},
        .pair = far,
        .far = far,
    };
}

static void the_best_batch_agrees_with_the_authors_search(void **state)
{
    (void)state;
    static const struct {
        int nodes, gpus;
        double goodput, batch;
    } rows[] = {{1, 1, 1322.31405, 128},
                {1, 4, 3235.02512, 81},
                {2, 8, 3319.40028, 94},
                {8, 32, 3137.24084, 77}};
    struct firn_itertime m = vector_model();
    struct firn_noise noise = {0.5, 2, 128};
    struct firn_batch_limits limits = {32, 1024, 4096};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct firn_shape where = {.nodes = rows[i].nodes,
                                   .gpus = rows[i].gpus,
                                   .theta = 1,
                                   .omega = 1};
        struct firn_batch_choice c =
            firn_goodput_best(&m, &noise, &limits, &where, 1);
        if (!near(c.goodput, rows[i].goodput, 1e-6) ||
            c.batch_per_gpu != rows[i].batch || c.accum_steps != 1)
            fail_msg("%d GPUs: %.9g at %g x %d", rows[i].gpus, c.goodput,
                     c.batch_per_gpu, c.accum_steps);
        /* Frozen penalty 0.8: the same batch, four fifths of the goodput. */
        double before = c.goodput;
        c = firn_goodput_best(&m, &noise, &limits, &where, 0.8);
        assert_true(near(c.goodput, 0.8 * before, 1e-12));
        assert_true(c.batch_per_gpu == rows[i].batch);
    }
}

static void goodput_is_throughput_times_efficiency(void **state)
{
    (void)state;
    struct firn_itertime m = vector_model();
    struct firn_noise noise = {1, 3, 100};
    struct firn_shape s = {.nodes = 1,
                           .gpus = 2,
                           .batch_per_gpu = 100,
                           .accum_steps = 2,
                           .theta = 1,
                           .omega = 1};
    /* B = 400, scale 4: gain 4 / (3/4 + 1), efficiency 4/7. */
    assert_true(near(firn_efficiency(&noise, 400), 4.0 / 7, 1e-12));
    assert_true(near(firn_goodput_at(&m, &noise, &s, 0.5),
                     firn_itertime_throughput(&m, &s) * 2 / 7, 1e-12));
}

/* Goodput takes fewer divisions than its three factors. */
static void goodput_is_the_product_for_any_statistics(void **state)
{
    (void)state;
    struct firn_itertime m;
    struct rng rng;
    const uint64_t seed = 3;
    firn_itertime_default(&m);
    rng_seed(&rng, seed);
    for (int i = 0; i < 2000; i++) {
        struct firn_noise n = {rng_exp(&rng, 1), rng_exp(&rng, 100),
                               1 + (double)rng_below(&rng, 100)};
        n.grad_sqr = i % 5 == 1 ? 0 : i % 5 == 2 ? -1 : n.grad_sqr;
        n.grad_var = i % 7 == 1 ? 0 : n.grad_var;
        struct firn_shape s = {.nodes = 1,
                               .gpus = 1 + (int)rng_below(&rng, 8),
                               .batch_per_gpu = 1 + (double)rng_below(&rng, 99),
                               .accum_steps = (int)rng_below(&rng, 4),
                               .theta = 1,
                               .omega = 1};
        int passes = s.accum_steps > 1 ? s.accum_steps : 1;
        double batch = s.gpus * s.batch_per_gpu * passes;
        double want =
            firn_itertime_throughput(&m, &s) * firn_efficiency(&n, batch) * 0.7;
        if (!near(firn_goodput_at(&m, &n, &s, 0.7), want, 1e-12))
            fail_msg("seed %d round %d", (int)seed, i);
    }
}

static void a_batch_over_the_memory_is_accumulated(void **state)
{
    (void)state;
    struct firn_itertime m = vector_model();
    struct firn_noise noise = {1e-9, 1, 64}; /* noise: larger is better */
    struct firn_batch_limits limits = {8, 32, 256};
    struct firn_shape one = {.nodes = 1, .gpus = 1, .theta = 1, .omega = 1};
    struct firn_batch_choice c =
        firn_goodput_best(&m, &noise, &limits, &one, 1);
    assert_true(c.batch_per_gpu == 32 && c.accum_steps >= 2);
    limits.total_max = 32; /* below the initial batch */
    c = firn_goodput_best(&m, &noise, &limits, &one, 1);
    assert_true(c.goodput == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gain_agrees_with_the_authors_simulator),
        cmocka_unit_test(efficiency_falls_from_one_and_gain_rises),
        cmocka_unit_test(statistics_at_their_limits_stay_finite),
        cmocka_unit_test(the_best_batch_agrees_with_the_authors_search),
        cmocka_unit_test(goodput_is_throughput_times_efficiency),
        cmocka_unit_test(goodput_is_the_product_for_any_statistics),
        cmocka_unit_test(a_batch_over_the_memory_is_accumulated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
