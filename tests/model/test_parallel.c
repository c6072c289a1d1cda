/* test_parallel.c - sharded, pipeline, hybrid and tensor parallel by hand. */
#include "base/rng.h"
#include <firn/parallel.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fmax(1, fabs(b));
}

static const struct firn_freeze_law plain = {0, 1, 1, 0, 1};

/* C = 1 (phi 0.2: F = 0.2, B = 0.8), reduce-scatter 0.6, gather 0.6. */
static struct firn_sharded sharded(void)
{
    struct firn_sync_law law = {.alpha_s = 0.6};
    return (struct firn_sharded){
        .base = {.alpha_s = 1,
                 .phi = 0.2,
                 .phi_fixed = 0.2,
                 .gamma = 1,
                 .local = law,
                 .pair = law,
                 .far = law,
                 .flop_beta = 1,
                 .flop_gamma = 1,
                 .sync_beta = 1},
        .gather = law,
        .gamma_lm = 2,
        .para_beta = 1,
    };
}

static struct firn_shape shape(int gpus, double theta, double omega)
{
    return (struct firn_shape){.nodes = 1,
                               .gpus = gpus,
                               .batch_per_gpu = 1,
                               .theta = theta,
                               .omega = omega};
}

static void sharded_backward_overlaps_the_gather(void **state)
{
    (void)state;
    struct firn_sharded m = sharded();
    struct firn_shape four = shape(4, 1, 1), one = shape(1, 1, 1);
    struct firn_shape half = shape(4, 0.5, 0.5);
    /* (9): sqrt(0.8^2 + 0.6^2) = 1. */
    assert_true(near(firn_sharded_backward(&m, &four), 1));
    /* Forward sqrt(0.2^2 + 0.6^2), then 1 + 0.6 with gamma = 1. */
    assert_true(near(firn_sharded_iteration(&m, &four), sqrt(0.4) + 1.6));
    assert_true(near(firn_sharded_iteration(&m, &one), 1));
    /* (10): sqrt(0.4^2 + 0.3^2) = 0.5; forward as before; sync 0.3. */
    assert_true(near(firn_sharded_backward(&m, &half), 0.5));
    assert_true(near(firn_sharded_iteration(&m, &half), sqrt(0.4) + 0.8));
    m.para_alpha_s = 0.1;
    m.para_beta = 0.5; /* 0.1 + 0.5 x 0.5 x 0.6 = 0.25 */
    assert_true(near(firn_sharded_backward(&m, &half), sqrt(0.16 + 0.0625)));
}

static void sharded_accumulation_repeats_the_pass(void **state)
{
    (void)state;
    struct firn_sharded m = sharded();
    struct firn_shape s = shape(4, 1, 1);
    s.accum_steps = 3;
    assert_true(near(firn_sharded_iteration(&m, &s),
                     2 * (sqrt(0.4) + 1) + sqrt(0.4) + 1.6));
}

/* Three stages: forward 1, 2, 3; backward twice that; 0.1 each way. */
static void stages(struct firn_stage s[3])
{
    for (int j = 0; j < 3; j++)
        s[j] = (struct firn_stage){.forward_s = j + 1,
                                   .backward_s = 2 * (j + 1),
                                   .act_s = 0.1,
                                   .grad_s = 0.1,
                                   .sync_s = 0.5,
                                   .theta = 1,
                                   .omega = 1};
}

static void a_pipeline_is_the_papers_sum_at_one_micro_batch(void **state)
{
    (void)state;
    struct firn_stage s[3];
    stages(s);
    /* (11): 6 + 0.2 + 12 + 0.2; the last stage sends nothing on. */
    assert_true(near(firn_pipeline_iteration(s, 3, 1, &plain), 18.4));
    /* K = 5: 4 more turns of the slowest stage, 9 s each. */
    assert_true(near(firn_pipeline_iteration(s, 3, 5, &plain), 54.4));
    assert_true(near(firn_pipeline_iteration(s, 1, 1, &plain), 3));
    assert_true(isnan(firn_pipeline_iteration(s, 0, 1, &plain)));
    assert_true(isnan(firn_pipeline_iteration(s, 3, 0, &plain)));
}

static void a_frozen_stage_sends_no_gradient_back(void **state)
{
    (void)state;
    struct firn_stage s[3];
    struct firn_freeze_law law = {0.05, 1, 1, 0, 1};
    stages(s);
    /* (12): stage 0 frozen whole, stage 1 by half. Backward 0 + (0.05 + 2) +
     * 6; stage 1 has frozen layers, so nothing goes to stage 0; stage 2 has
     * none, so 0.1 s go to stage 1. */
    s[0].theta = s[0].omega = 0;
    s[1].theta = s[1].omega = 0.5;
    assert_true(near(firn_pipeline_iteration(s, 3, 1, &law), 6.2 + 8.05 + 0.1));
}

static void replicas_synchronise_stage_by_stage(void **state)
{
    (void)state;
    struct firn_stage s[3];
    stages(s);
    /* (13): 1.5 s; overlapped with 12.2 s of backward, gamma = 1 and 2. */
    assert_true(near(firn_hybrid_iteration(s, 3, 1, 4, &plain, 1), 19.9));
    assert_true(near(firn_hybrid_iteration(s, 3, 1, 4, &plain, 2),
                     6.2 + sqrt(12.2 * 12.2 + 1.5 * 1.5)));
    assert_true(near(firn_hybrid_iteration(s, 3, 1, 1, &plain, 1), 18.4));
    /* Stage 0 frozen: no sync of it, and no backward. */
    s[0].theta = s[0].omega = 0;
    assert_true(
        near(firn_hybrid_iteration(s, 3, 1, 4, &plain, 1), 6.2 + 10.2 + 1));
    assert_true(isnan(firn_hybrid_iteration(s, 3, 1, 0, &plain, 1)));
}

static void freezing_more_stages_never_takes_longer(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        struct rng rng;
        struct firn_stage s[6];
        struct firn_freeze_law law;
        int p = 1 + (int)(seed % 6), k = 1 + (int)(seed % 9);
        rng_seed(&rng, seed);
        law = (struct firn_freeze_law){0.1 * rng_unit(&rng), rng_unit(&rng),
                                       0.5 + 0.7 * rng_unit(&rng),
                                       0.1 * rng_unit(&rng), rng_unit(&rng)};
        for (int j = 0; j < p; j++)
            s[j] = (struct firn_stage){rng_unit(&rng),
                                       rng_unit(&rng),
                                       rng_unit(&rng),
                                       rng_unit(&rng),
                                       rng_unit(&rng),
                                       1,
                                       1};
        double before = firn_hybrid_iteration(s, p, k, 2, &law, 1.5);
        for (int j = 0; j < p; j++)
            for (int part = 1; part <= 2; part++) { /* half, then whole */
                s[j].theta = s[j].omega = 1 - part / 2.0;
                double now = firn_hybrid_iteration(s, p, k, 2, &law, 1.5);
                if (now > before + 1e-12)
                    fail_msg("seed %d: stage %d", (int)seed, j);
                before = now;
            }
    }
}

static void tensor_parallel_divides_compute_and_adds_all_reduces(void **state)
{
    (void)state;
    struct firn_tensor m = {.layers = 10,
                            .seq = 1000,
                            .hidden = 500,
                            .bytes_per_value = 2,
                            .latency_s = 1e-5,
                            .bandwidth_bytes_s = 1e9};
    assert_true(near(firn_tensor_step(&m, 8, 3, 1), 8));
    /* 3 x 10^6 bytes; t = 4: 6e-5 + 1.5 x 3e-3 s each, 40 of them. */
    assert_true(near(firn_tensor_step(&m, 8, 3, 4), 2 + 40 * 0.00456));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sharded_backward_overlaps_the_gather),
        cmocka_unit_test(sharded_accumulation_repeats_the_pass),
        cmocka_unit_test(a_pipeline_is_the_papers_sum_at_one_micro_batch),
        cmocka_unit_test(a_frozen_stage_sends_no_gradient_back),
        cmocka_unit_test(replicas_synchronise_stage_by_stage),
        cmocka_unit_test(freezing_more_stages_never_takes_longer),
        cmocka_unit_test(tensor_parallel_divides_compute_and_adds_all_reduces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
