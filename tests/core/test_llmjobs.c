/* test_llmjobs.c - language models as jobs: memory, speed, and who takes them.
 *
 * Worked by hand with gpt2 (h 768, 12 layers, 124 439 808 parameters) at batch
 * 8 and sequences of 1024. A sample takes 6 x 124 439 808 x 1024 + 12 x 12 x
 * 768 x 1024^2 = 880 522 297 344 flops, a V100 does 42e12 a second, NVLink
 * moves 150e9 bytes a second and the network 12.5e9; gradients are 248 879 616
 * bytes.
 */
#include "core/llmjobs.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/rng.h"
#include "lib/play.h"
#include <firn/llmplan.h>
#include <firn/policy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double flops = 880522297344.0, v100 = 42e12, grads = 248879616.0;

static struct firn_job_spec model(const char *app, int batch, int gpus)
{
    return (struct firn_job_spec){.name = "a",
                                  .app = app,
                                  .group = "",
                                  .types = "",
                                  .gpus = gpus,
                                  .gpus_min = gpus,
                                  .gpus_max = gpus,
                                  .duration_s = 100,
                                  .batch = batch,
                                  .seq = 1024};
}

static struct firn_cluster cluster_of(const char *text)
{
    struct firn_cluster cluster;
    struct firn_error err = {0};
    if (firn_cluster_parse_spec(&cluster, text, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    return cluster;
}

static void expect_near(double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-9 * fabs(expected)))
        fail_msg("%.15g instead of %.15g", got, expected);
}

static void a_model_has_a_name_a_batch_and_a_sequence(void **state)
{
    (void)state;
    struct firn_job_spec spec = model("GPT2-XL", 8, 1);
    assert_true(llmjobs_is(&spec));
    spec.seq = 0;
    assert_false(llmjobs_is(&spec));
    spec = model("gpt2", 0, 1);
    assert_false(llmjobs_is(&spec));
    spec = model("resnet50", 8, 1);
    assert_false(llmjobs_is(&spec));
}

/* Under a sanitizer, the test is that nothing overflows. */
static void a_huge_batch_overflows_nothing(void **state)
{
    (void)state;
    static const int batches[] = {1000000000, INT_MAX};
    struct firn_cluster cluster = cluster_of("1x8:v100@32,2x8:a100@80");
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        char types[LLMJOBS_TYPES_TEXT];
        struct firn_job_spec spec = model("gpt2-124m", batches[i], 0);
        struct llmjob llm = llmjobs_open(&cluster, &spec, 3);
        assert_int_equal(llmjobs_gpus_max(&llm), INT_MAX);
        llmjobs_fill(&cluster, &spec);
        spec.gpus_min = spec.gpus = 1;
        spec.gpus_max = 24;
        llmjobs_restrict(&cluster, &spec, types);
        struct llmspot spot = {.gpus = 8,
                               .nodes = 1,
                               .fullest = 8,
                               .step = 8,
                               .speed = 1,
                               .mem_gib = 32};
        assert_true(llmjobs_rate(&llm, &spot, 0) >= 0);
    }
    firn_cluster_release(&cluster);
}

/* One GPU: 8 samples in 8 x flops / v100. Two of a node, d 2: half of that and
 * 2 x 1/2 x grads / 150e9. */
static void data_parallel_waits_for_the_gradients(void **state)
{
    (void)state;
    struct firn_cluster c = cluster_of("2x4:v100");
    struct firn_job_spec spec = model("gpt2", 8, 1);
    struct llmjob llm = llmjobs_open(&c, &spec, 1);
    double one_s = 8 * flops / v100;
    struct llmspot spot = llmjobs_packed(&c, 0, 1, 0);
    expect_near(llm.ref_samples_s, 8 / one_s);
    expect_near(llmjobs_rate(&llm, &spot, 0), 1);
    spot = llmjobs_packed(&c, 0, 2, 0);
    expect_near(llmjobs_rate(&llm, &spot, 1),
                one_s / (one_s / 2 + grads / 150e9));
    /* one on each of two nodes: over the network */
    spot = llmjobs_packed(&c, 0, 2, 2);
    expect_near(llmjobs_rate(&llm, &spot, 1),
                one_s / (one_s / 2 + grads / 12.5e9));
    /* 8 GPUs, 4 on each node, share the network: 2 x 7/8 */
    spot = llmjobs_packed(&c, 0, 8, 0);
    expect_near(llmjobs_rate(&llm, &spot, 1),
                one_s / (one_s / 8 + 1.75 * grads / (12.5e9 / 4)));
    firn_cluster_release(&c);
}

/* t 2: half the time, and 4 all-reduces a layer of 8 x 1024 x 768 values of 2
 * bytes, 2 x 1/2 of them on the way. */
static void tensor_parallel_has_traffic_in_each_layer(void **state)
{
    (void)state;
    struct firn_cluster c = cluster_of("2x4:v100");
    struct firn_job_spec spec = model("gpt2", 8, 1);
    struct llmjob llm = llmjobs_open(&c, &spec, 1);
    double one_s = 8 * flops / v100, bytes = 4.0 * 12 * 8 * 1024 * 768 * 2;
    struct llmspot spot = llmjobs_packed(&c, 0, 2, 0);
    expect_near(llmjobs_rate(&llm, &spot, 2),
                one_s / (one_s / 2 + bytes / 150e9));
    spot = llmjobs_packed(&c, 0, 2, 2);
    expect_near(llmjobs_rate(&llm, &spot, 2),
                one_s / (one_s / 2 + bytes / 12.5e9));
    firn_cluster_release(&c);
}

/* Batch 8 on 3 GPUs: 3 samples each, though only 8 of the 9 are any good. */
static void a_batch_that_does_not_divide_leaves_gpus_waiting(void **state)
{
    (void)state;
    struct firn_cluster c = cluster_of("1x4:v100");
    struct firn_job_spec spec = model("gpt2", 8, 1);
    struct llmjob llm = llmjobs_open(&c, &spec, 1);
    struct llmspot spot = llmjobs_packed(&c, 0, 3, 0);
    double one_s = 8 * flops / v100;
    expect_near(llmjobs_rate(&llm, &spot, 0),
                one_s / (3 * flops / v100 + 2 * 2.0 / 3 * grads / 150e9));
    firn_cluster_release(&c);
}

/* A t4 has half a V100's speed; the slowest counts, and the least memory. */
static void the_slowest_and_the_smallest_count(void **state)
{
    (void)state;
    struct firn_cluster c = cluster_of("1x2:t4,1x4:v100");
    struct firn_job_spec spec = model("gpt2", 2, 1);
    struct llmjob llm = llmjobs_open(&c, &spec, 3);
    struct firn_part parts[] = {{0, 0, 1}, {1, 0, 1}};
    struct firn_alloc alloc = {
        .parts = parts, .nparts = 2, .ngpus = 2, .how = FIRN_HOW_AS_SUBMITTED};
    struct llmspot spot = llmjobs_held(&c, &alloc);
    assert_int_equal(spot.nodes, 2);
    assert_int_equal(spot.fullest, 1);
    assert_int_equal(spot.step, 1);
    expect_near(spot.mem_gib, 16);
    expect_near(spot.speed, 0.5);
    expect_near(llmjobs_rate(&llm, &spot, 1),
                (2 * flops / v100) / (flops / (v100 / 2) + grads / 12.5e9));
    firn_cluster_release(&c);
}

/* 20 bytes a parameter: 31e9 at least, on a 2080ti of 11 GiB. A forecast says
 * that it cannot be, and truth goes at a tenth. */
static void a_model_that_does_not_fit_crawls(void **state)
{
    (void)state;
    struct firn_cluster c = cluster_of("1x1:a100-80,1x1:2080ti");
    struct firn_job_spec spec = model("gpt2-1.5b", 2, 1);
    struct llmjob llm = llmjobs_open(&c, &spec, 3);
    struct llmspot large = llmjobs_packed(&c, 0, 1, 0);
    struct llmspot small = llmjobs_packed(&c, 1, 1, 0);
    double need_gib = 0;
    expect_near(llmjobs_expect(&llm, &large, 0, &need_gib), 1);
    assert_true(need_gib > 31e9 / (1 << 30) && need_gib < 80);
    assert_true(llmjobs_expect(&llm, &small, 0, &need_gib) == 0);
    expect_near(llmjobs_rate(&llm, &small, 0), 0.1 * 0.64 / 1.54);
    firn_cluster_release(&c);
}

/* firn_llm_plans() is the oracle: the same plans in the same order. */
static void splits_of_a_model_are_those_of_firn_llm_plans(void **state)
{
    (void)state;
    static const char *const clusters[] = {"3x8:2080ti,2x8:a100,1x4:rtx6000",
                                           "1x4:v100", "2x4:a100-80,4x2:v100"};
    static const char *const apps[] = {"gpt2", "gpt2-350m", "gpt2-774m",
                                       "gpt2-7b", "llama-7b"};
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct rng rng;
        rng_seed(&rng, seed);
        struct firn_cluster c = cluster_of(clusters[rng_below(&rng, 3)]);
        struct firn_job_spec spec =
            model(apps[rng_below(&rng, 5)], 1 + (int)rng_below(&rng, 32), 1);
        struct llmjob llm = llmjobs_open(&c, &spec, 7);
        struct firn_llm_gpus gpus[FIRN_TYPES_MAX];
        for (int t = 0; t < c.ntypes; t++) {
            struct llmspot spot = llmjobs_packed(&c, t, 1000, 0);
            gpus[t] = (struct firn_llm_gpus){c.types[t].name, spot.mem_gib,
                                             spot.speed, spot.fullest,
                                             c.types[t].ngpus};
        }
        struct firn_llm_plan_options options = {
            .types = gpus, .ntypes = (size_t)c.ntypes, .batch = spec.batch};
        struct firn_llm_plan right[256];
        size_t nright = firn_llm_plans(&llm.job, &options, right, 256);
        struct llmplans plans = llmjobs_plans(&llm, &c, 7, 1, c.ngpus);
        size_t n = 0;
        assert_true(nright <= 256);
        for (size_t i = 0; i < plans.n; i++) {
            const struct llmplan *p = &plans.at[i];
            assert_true(p->room_gib >= 0 ||
                        p->marp_gib <= c.types[p->type].mem_gib);
            if (p->room_gib < 0)
                continue;
            if (n >= nright || p->type != right[n].type || p->t != right[n].t ||
                p->d != right[n].d)
                fail_msg("seed %d: plan %zu is type %d, t %d, d %d", (int)seed,
                         n, p->type, p->t, p->d);
            expect_near(p->samples_s, right[n].samples_s);
            expect_near(p->need_gib * 1024, right[n].memory.device_mib);
            n++;
        }
        assert_int_equal(n, nright);
        vec_release(&plans);
        firn_cluster_release(&c);
    }
}

/* Whatever number of GPUs is put in, the samples to train stay: the duration
 * times the speed it refers to. */
static void asking_for_gpus_changes_no_work(void **state)
{
    (void)state;
    struct firn_cluster c = cluster_of("3x8:2080ti,2x8:a100,1x4:rtx6000");
    struct firn_job_spec none = model("gpt2-774m", 8, 0), asked = none,
                         filled = none;
    llmjobs_ask(&c, &asked);
    llmjobs_fill(&c, &filled);
    assert_true(asked.gpus >= 1 && asked.gpus_min == asked.gpus &&
                asked.gpus_max == asked.gpus);
    assert_true(filled.gpus_min <= asked.gpus && filled.gpus >= asked.gpus &&
                filled.gpus_max >= filled.gpus);
    struct llmjob a = llmjobs_open(&c, &asked, 7);
    struct llmjob f = llmjobs_open(&c, &filled, 7);
    expect_near(asked.duration_s * a.ref_samples_s,
                filled.duration_s * f.ref_samples_s);
    firn_cluster_release(&c);
}

static void only_types_with_the_memory_are_accepted(void **state)
{
    (void)state;
    struct firn_cluster c = cluster_of("1x8:2080ti,1x4:rtx6000,1x2:a100");
    char text[LLMJOBS_TYPES_TEXT];
    struct firn_job_spec spec = model("gpt2-350m", 2, 1); /* 7.1e9 + 6.9e9 */
    llmjobs_restrict(&c, &spec, text);
    assert_string_equal(spec.types, "rtx6000|a100");
    spec = model("gpt2-350m", 2, 4); /* a quarter of it on each */
    llmjobs_restrict(&c, &spec, text);
    assert_string_equal(spec.types, "2080ti|rtx6000");
    spec = model("gpt2-350m", 2, 1);
    spec.types = "2080ti|a100";
    llmjobs_restrict(&c, &spec, text);
    assert_string_equal(spec.types, "a100");
    spec = model("gpt2-7b", 2, 1);
    llmjobs_restrict(&c, &spec, text);
    assert_string_equal(spec.types, "");
    assert_true(spec.mem_gib > 6.65e9 * 20 / (1 << 30));
    firn_cluster_release(&c);
}

#define COLUMNS "#firn-trace 1\nname,submit_s,gpus,duration_s,app,batch,seq\n"

/* The 2080ti is free and comes first, but cannot hold it. */
static void a_job_never_goes_where_it_does_not_fit(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x8:2080ti,1x1:a100",
              COLUMNS "a,0,1,100,gpt2-350m,2,1024\n"
                      "b,0,1,100,gpt2-350m,2,1024\n"
                      "c,0,1,50,gpt2-7b,2,1024\n");
    play_run(&play, "fifo");
    assert_true(play_near(play_end(&play, "a"), 100));
    assert_true(play_near(play_end(&play, "b"), 200));
    assert_int_equal(play.result.jobs, 2);
    assert_int_equal(play.result.bad_rows, 1);
    assert_non_null(
        strstr(play.result.first_bad[0], "GiB on each GPU; the largest"));
    play_close(&play);
}

/* Models with and without GPUs, beside jobs that are none. */
static void every_policy_runs_models_to_their_ends(void **state)
{
    (void)state;
    size_t n;
    const struct firn_policy_def *const *all = firn_policies(&n);
    struct firn_buf text = {0};
    static const char *const apps[] = {"gpt2-124m", "gpt2-774m", "bert-large",
                                       "gpt2-7b"};
    buf_puts(&text, COLUMNS);
    for (int i = 0; i < 24; i++)
        buf_printf(&text,
                   i % 6 == 5 ? "j%d,%d,%d,600,,,\n"
                              : "j%d,%d,%d,600,%s,%d,512\n",
                   i, 100 * i, i % 3 == 0 ? 0 : 8, apps[i % 4], 2 << i % 4);
    struct play play;
    play_open(&play, "1x8:2080ti,2x8:a100-80", text.at);
    for (size_t i = 0; i < n; i++) {
        play_run(&play, all[i]->name);
        if (play.result.jobs != 24)
            fail_msg("%s finished %ld", all[i]->name, play.result.jobs);
    }
    play.options.noise.throughput = 0.3;
    play.options.profiles = "builtin";
    play_run(&play, "frenzy");
    assert_int_equal(play.result.jobs, 24);
    play_close(&play);
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_has_a_name_a_batch_and_a_sequence),
        cmocka_unit_test(a_huge_batch_overflows_nothing),
        cmocka_unit_test(data_parallel_waits_for_the_gradients),
        cmocka_unit_test(tensor_parallel_has_traffic_in_each_layer),
        cmocka_unit_test(a_batch_that_does_not_divide_leaves_gpus_waiting),
        cmocka_unit_test(the_slowest_and_the_smallest_count),
        cmocka_unit_test(a_model_that_does_not_fit_crawls),
        cmocka_unit_test(splits_of_a_model_are_those_of_firn_llm_plans),
        cmocka_unit_test(asking_for_gpus_changes_no_work),
        cmocka_unit_test(only_types_with_the_memory_are_accepted),
        cmocka_unit_test(a_job_never_goes_where_it_does_not_fit),
        cmocka_unit_test(every_policy_runs_models_to_their_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
