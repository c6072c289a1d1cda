/* test_paralleltime.c - a profile's application, sharded and in stages.
 *
 * One toy, worked by hand: a sample takes 1 s on one GPU, 0.25 s of it forward
 * (phi 0.25); 8 layers, of which the first 4 have half the FLOPs and 0.75 of
 * the parameters. An all-reduce takes 0.4 s in a node and 4 s between nodes.
 */
#include "base/buf.h"
#include "base/str.h"
#include "model/paralleltime.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define HEAD                                                             \
    "app toy\nsource test\norigin test\nhardware none\nmethod made up\n" \
    "synthetic yes\nbatch_initial 8\nbatch_max 64\nlocal_min 1\n"        \
    "local_max 8\nlayer_count 8\nstates_mib 8000\n"
#define TIME                                                                \
    "time a100 beta_s 1 phi 0.25 phi_fixed 0.25 gamma 1 local.alpha_s 0.4 " \
    "pair.alpha_s 4 far.alpha_s 4 flop_beta 1 flop_gamma 1 sync_beta 1\n"   \
    "memory_mib a100 1000 100\n"
#define SHARDED \
    "sharded a100 gamma_lm 2 para_beta 1 local.alpha_s 1 pair.alpha_s 10\n"
#define PIPELINE "pipeline a100 micro_batch 2 act_s 0.01 far_act_s 0.1\n"
#define FROZEN   "frozen 0 1 1\nfrozen 4 0.5 0.25\nfrozen 7 0.125 0.0625\n"

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(1, fabs(b));
}

static enum firn_status parse(struct firn_profile *p, const char *text,
                              struct firn_error *err)
{
    return firn_profile_parse(p, (struct firn_bytes){text, strlen(text)},
                              "toy.txt", err);
}

static void read_toy(struct firn_profile *p)
{
    struct firn_error err = {0};
    if (parse(p, HEAD TIME SHARDED PIPELINE FROZEN, &err) != FIRN_OK)
        fail_msg("%s", err.text);
}

/* A run with a total batch of 8. */
static struct parallel_run runs(const struct firn_profile *p, int nodes,
                                int gpus, enum firn_parallel parallel,
                                int stages)
{
    struct parallel_run run = {
        .shape = {.nodes = nodes, .gpus = gpus, .theta = 1, .omega = 1},
        .parallel = parallel,
        .stages = stages};
    run.shape.gpus_on_fullest = gpus / nodes;
    struct firn_batch_split split = parallel_split(p, &p->gpus[0], &run, 8, 8);
    run.shape.batch_per_gpu = split.batch_per_gpu;
    run.shape.accum_steps = split.accum_steps;
    return run;
}

static double seconds(const struct firn_profile *p,
                      const struct parallel_run *run)
{
    return parallel_iteration(p, &p->gpus[0], run);
}

/* Two samples a GPU: forward 0.5, backward 1.5, the gather of 1 s overlapped
 * with both (gamma_lm 2), then 0.4 s of reduce-scatter (gamma 1). */
static void sharded_gathers_in_both_passes(void **state)
{
    (void)state;
    struct firn_profile p;
    read_toy(&p);
    struct parallel_run run = runs(&p, 1, 4, FIRN_PARALLEL_SHARDED, 0);
    assert_true(run.shape.batch_per_gpu == 2);
    assert_true(near(seconds(&p, &run), sqrt(1.25) + sqrt(3.25) + 0.4));
    /* (10): theta 0.5, omega 0.25 */
    run.frozen = 4;
    assert_true(
        near(seconds(&p, &run), sqrt(1.25) + sqrt(0.75 * 0.75 + 0.0625) + 0.1));
    /* over two nodes the gather takes 10 s and the scatter 4 */
    run = runs(&p, 2, 4, FIRN_PARALLEL_SHARDED, 0);
    assert_true(near(seconds(&p, &run), sqrt(100.25) + sqrt(102.25) + 4));
    firn_profile_release(&p);
}

/* Two stages of half the FLOPs. Micro-batches of two samples, four of them:
 * forward 0.25 each stage, backward 0.75, 0.02 s of activations and as much of
 * gradients between them, and three times the 1 s of a stage: K = 4. */
static void a_pipeline_of_two_stages(void **state)
{
    (void)state;
    struct firn_profile p;
    read_toy(&p);
    struct parallel_run run = runs(&p, 1, 2, FIRN_PARALLEL_PIPELINE, 2);
    assert_true(run.shape.batch_per_gpu == 2 && run.shape.accum_steps == 4);
    assert_true(near(seconds(&p, &run), 0.5 + 0.02 + 1.5 + 0.02 + 3));
    /* (12), the first stage frozen whole: no backward there, and nothing is
     * sent to it only if the second had frozen layers, which it has not. */
    run.frozen = 4;
    assert_true(near(seconds(&p, &run), 0.5 + 0.02 + 0.75 + 0.02 + 3));
    /* six of eight: the second stage has theta (0.25 / 0.5), and is silent */
    run.frozen = 6;
    assert_true(near(seconds(&p, &run), 0.5 + 0.02 + 0.375 + 3 * 0.625));
    firn_profile_release(&p);
}

/* Two replicas of two stages: (13). Each has four samples, K = 2; the stages
 * synchronise 0.75 and 0.25 of the parameters, 0.4 s in all. */
static void replicas_of_a_pipeline_synchronise(void **state)
{
    (void)state;
    struct firn_profile p;
    read_toy(&p);
    struct parallel_run run = runs(&p, 1, 4, FIRN_PARALLEL_PIPELINE, 2);
    assert_true(run.shape.batch_per_gpu == 2 && run.shape.accum_steps == 2);
    assert_true(near(seconds(&p, &run), 0.52 + 1 + 1.52 + 0.4));
    /* the first stage frozen whole has nothing to synchronise */
    run.frozen = 4;
    assert_true(near(seconds(&p, &run), 0.52 + 1 + 0.77 + 0.1));
    /* A pipeline in each of two nodes: only replicas are far apart. */
    run = runs(&p, 2, 4, FIRN_PARALLEL_PIPELINE, 2);
    assert_true(near(seconds(&p, &run), 0.52 + 1 + 1.52 + 4));
    /* One pipeline over two nodes: two near hops and a far one. Layers 1 to 4
     * have half the FLOPs, the others by pieces of the line: 0.25 each. */
    run = runs(&p, 2, 4, FIRN_PARALLEL_PIPELINE, 4);
    assert_true(
        near(seconds(&p, &run), 0.5 + 1.5 + 2 * (0.02 + 0.2 + 0.02) + 3 * 0.5));
    firn_profile_release(&p);
}

/* One stage is a whole copy: four replicas of it are plain data parallel. */
static void one_stage_is_data_parallel(void **state)
{
    (void)state;
    struct firn_profile p;
    read_toy(&p);
    struct parallel_run run = runs(&p, 1, 4, FIRN_PARALLEL_PIPELINE, 1);
    struct parallel_run data = runs(&p, 1, 4, FIRN_PARALLEL_DATA, 0);
    assert_true(near(seconds(&p, &run), 2 + 0.4));
    assert_true(near(seconds(&p, &data), 2 + 0.4));
    run = runs(&p, 1, 3, FIRN_PARALLEL_PIPELINE, 2);
    assert_true(isnan(seconds(&p, &run))); /* 2 does not divide 3 */
    firn_profile_release(&p);
}

/* 1000 + 100 a sample, and 8000 of states. */
static void memory_is_divided(void **state)
{
    (void)state;
    struct firn_profile p;
    read_toy(&p);
    const struct firn_profile_gpu *gpu = &p.gpus[0];
    struct parallel_run run = runs(&p, 1, 4, FIRN_PARALLEL_DATA, 0);
    assert_true(near(parallel_mem_mib(&p, gpu, &run), 1200 + 8000));
    run = runs(&p, 1, 4, FIRN_PARALLEL_SHARDED, 0);
    assert_true(near(parallel_mem_mib(&p, gpu, &run), 1200 + 2000));
    /* two micro-batches of two samples under way, half the layers each */
    run = runs(&p, 1, 4, FIRN_PARALLEL_PIPELINE, 2);
    assert_true(near(parallel_mem_mib(&p, gpu, &run), 1200 + 4000));
    /* of four stages: four micro-batches, a quarter of the layers each */
    run = runs(&p, 1, 4, FIRN_PARALLEL_PIPELINE, 4);
    assert_true(near(parallel_mem_mib(&p, gpu, &run), 1200 + 2000));
    firn_profile_release(&p);
}

static void sharded_and_pipeline_lines_read_back_the_same(void **state)
{
    (void)state;
    struct firn_profile p, again;
    struct firn_buf text = {0};
    struct firn_error err = {0};
    read_toy(&p);
    assert_int_equal(parallel_of(&p.gpus[0]), 1u << FIRN_PARALLEL_SHARDED |
                                                  1u << FIRN_PARALLEL_PIPELINE);
    firn_profile_write(&p, &text);
    assert_int_equal(parse(&again, text.at, &err), FIRN_OK);
    assert_true(again.states_mib == 8000);
    assert_memory_equal(&again.gpus[0].sharded, &p.gpus[0].sharded,
                        sizeof p.gpus[0].sharded);
    assert_memory_equal(&again.gpus[0].pipeline, &p.gpus[0].pipeline,
                        sizeof p.gpus[0].pipeline);
    firn_profile_release(&again);
    firn_profile_release(&p);
    buf_release(&text);
    assert_int_equal(parse(&p, HEAD TIME FROZEN, &err), FIRN_OK);
    assert_int_equal(parallel_of(&p.gpus[0]), 0);
    firn_profile_release(&p);
}

static void wrong_lines_are_named(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {HEAD SHARDED TIME FROZEN, "'time' before it"},
        {HEAD TIME SHARDED SHARDED FROZEN, "twice"},
        {HEAD TIME "sharded a100 local.alpha_s 1\n" FROZEN, "needs 'gamma_lm'"},
        {HEAD TIME "pipeline a100 micro_batch 0\n" FROZEN, "micro_batch"},
        {HEAD TIME "pipeline a100 micro_batch 2 speed 3\n" FROZEN, "'speed'"},
        {HEAD TIME "pipeline a100 micro_batch\n" FROZEN, "micro_batch"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct firn_profile p;
        struct firn_error err = {0};
        assert_int_equal(parse(&p, wrong[i][0], &err), FIRN_EINVAL);
        if (strstr(err.text, wrong[i][1]) == NULL)
            fail_msg("%zu: %s", i, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sharded_gathers_in_both_passes),
        cmocka_unit_test(a_pipeline_of_two_stages),
        cmocka_unit_test(replicas_of_a_pipeline_synchronise),
        cmocka_unit_test(one_stage_is_data_parallel),
        cmocka_unit_test(memory_is_divided),
        cmocka_unit_test(sharded_and_pipeline_lines_read_back_the_same),
        cmocka_unit_test(wrong_lines_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
