/* test_frenzy.c - plans by memory, and where HAS puts them.
 *
 * Node(n, s) of the paper is a node with n idle GPUs of s GB, Job(n, s) a job
 * that wants n of them with s GB each. Types: 2080ti 11, a100 40, a100-80 and
 * a800 80 GiB. Language models get their plans from core/llmjobs.h through a
 * stand-in around the policy: in a scene every job named L... is a GPT-2 of
 * 7B with sequences of 1024, every S... one of 124M with 512, both of batch 2.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rng.h"
#include "core/llmjobs.h"
#include "core/state.h"
#include "lib/play.h"
#include "scene_random.h"
#include <cmocka.h>
#include <firn/parallel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- language models in scenes ---- */

static const struct firn_cluster *here;

static struct firn_job_spec spec_of(const struct firn_job *job)
{
    struct firn_job_spec spec = job->spec;
    spec.app = *spec.name == 'L' ? "gpt2-7b" : "gpt2-124m";
    if (*spec.name == 'M') /* of firn/arch.h */
        spec.app = "llama-3.1-8b";
    if (*spec.name == 'N') /* of firn/llm.h, with none of the newer words */
        spec.app = "llama-3-8b";
    return spec;
}

static size_t llm_ways(void *state, const struct firn_job *job,
                       struct firn_llm_way *out, size_t max)
{
    (void)state;
    struct firn_job_spec spec = spec_of(job);
    if (spec.seq == 0)
        return 0;
    struct llmjob llm = llmjobs_open(here, &spec, job->type_mask);
    return llmjobs_ways(&llm, here, job, 1, out, max);
}

static const struct firn_forecast_def forecast = {.llm_ways = llm_ways};

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    struct firn_view with = *view;
    with.forecast = &forecast;
    here = view->cluster;
    return firn_policy_find("frenzy", NULL)->decide(state, &with, plan);
}

static struct firn_policy_def with_ways;

static struct scene *open_scene(const char *text, const char *settings)
{
    with_ways = *firn_policy_find("frenzy", NULL);
    with_ways.decide = decide;
    struct scene *scene = scene_new(text, &with_ways, settings);
    for (struct state_job *sj = scene_state(scene)->first; sj; sj = sj->after)
        if (strchr("LS", *sj->job.spec.name)) {
            sj->job.spec.seq = *sj->job.spec.name == 'L' ? 1024 : 512;
            sj->job.spec.batch = 2;
        } else if (strchr("MN", *sj->job.spec.name)) {
            sj->job.spec.seq = 2048;
            sj->job.spec.batch = 8;
        }
    return scene;
}

static void places(const char *text, const char *settings, const char *expected)
{
    struct scene *scene = open_scene(text, settings);
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), expected);
    scene_decide(scene, 1);
    assert_string_equal(scene_steps(scene), ""); /* and there it stays */
    assert_int_equal(scene->did, 0);
    scene_free(scene);
}

/* ---- HAS ---- */

/* n0 is Node(6, 80), n1 Node(3, 40). */
static void job_2_32_goes_to_node_3_40_rather_than_node_6_80(void **unused)
{
    (void)unused;
    places("1 node x 8 gpus of a100-80; 1 node x 4 gpus of a100; "
           "A wants 2 mem 32; X wants 2 on n0[0-1]; Y wants 1 on n1[0]",
           NULL, "A: n1[1-2]  X: n0[0-1]  Y: n1[0]");
}

/* Four Node(1, 40) before one Node(4, 40): exactly four are enough. */
static void job_4_35_goes_to_node_4_40_rather_than_four_of_one(void **unused)
{
    (void)unused;
    places("4 nodes x 1 gpus of a100; 1 node x 4 gpus of a100; "
           "A wants 4 mem 35",
           NULL, "A: n4[0-3]");
}

/* Node(3, 80) is the tighter fit, but its GPUs are the larger ones. */
static void small_gpus_come_before_a_tight_fit(void **unused)
{
    (void)unused;
    places("1 node x 3 gpus of a100-80; 1 node x 6 gpus of a100; "
           "A wants 2 mem 32",
           NULL, "A: n1[0-1]");
    places("1 node x 3 gpus of a100; 1 node x 2 gpus of a100; A wants 2", NULL,
           "A: n1[0-1]"); /* of one size the tight fit */
}

static void a_gpu_has_the_memory_that_is_wanted(void **unused)
{
    (void)unused;
    places("1 node x 4 gpus of a100; 1 node x 4 gpus of a100-80; "
           "A wants 2 mem 45; B wants 2 mem 40; C wants 1 mem 80",
           NULL, "A: n1[0-1]  B: n0[0-1]  C: n1[2]");
}

/* 7 GPUs: n1 has 4, the most, and the rest are 3: n2 has exactly 3. */
static void without_a_node_for_all_the_emptiest_comes_first(void **unused)
{
    (void)unused;
    places("1 node x 4 gpus of a100; 1 node x 4 gpus of a100; "
           "1 node x 3 gpus of a100; A wants 7; X wants 1 on n0[0]",
           NULL, "A: n0[1-3] n1[0-3]  X: n0[0]");
    /* a single node of larger GPUs before two of small ones */
    places("2 nodes x 2 gpus of a100; 1 node x 4 gpus of a100-80; A wants 3",
           NULL, "A: n2[0-2]");
}

/* 5 GPUs: two nodes of 2 are the emptiest, and for the last GPU the smallest
 * that does is a free a100. 6 GPUs of nodes with 3, 3 and 4 idle: the four are
 * taken whole, and of the nodes that hold the other two the one of smaller
 * GPUs. As printed, types do not matter. */
static void emptiest_nodes_may_be_of_several_types(void **unused)
{
    (void)unused;
    const char *nodes = "3 nodes x 1 gpus of a100; 3 nodes x 2 gpus of a100-80;"
                        " A wants 5";
    places(nodes, NULL, "A: n0[0] n3[0-1] n4[0-1]");
    places("1 node x 3 gpus of a100; 1 node x 3 gpus of a100-80; "
           "1 node x 4 gpus of a100-80; A wants 6",
           NULL, "A: n0[0-1] n2[0-3]");
    /* one type before several */
    places(nodes, "frenzy.mix=0", "A: n3[0-1] n4[0-1] n5[0]");
    places("3 nodes x 1 gpus of a100; 1 node x 2 gpus of a100-80; A wants 5",
           "frenzy.mix=0", "A: n0[0] n1[0] n2[0] n3[0-1]");
}

static void jobs_without_a_language_model_may_prefer_fast_gpus(void **unused)
{
    (void)unused;
    const char *text = "1 node x 4 gpus of 2080ti; 1 node x 4 gpus of a100; "
                       "A wants 2";
    places(text, NULL, "A: n0[0-1]");
    places(text, "frenzy.others=fastest", "A: n1[0-1]");
}

/* ---- the queue ---- */

static void a_job_that_does_not_fit_is_passed_over(void **unused)
{
    (void)unused;
    const char *text = "1 node x 4 gpus; A wants 3; B wants 2; C wants 1";
    places(text, NULL, "A: n0[0-2]  B: -  C: n0[3]");
    places(text, "frenzy.skip=0", "A: n0[0-2]  B: -  C: -");
}

static void a_waiting_job_has_a_note_why_it_waits(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene("1 node x 4 gpus of a100; A wants 3; "
                                     "B wants 2 mem 20; C wants 2",
                                     NULL);
    scene_decide(scene, 0);
    assert_string_equal(scene_job(scene, "B")->note,
                        "needs 2 GPUs of 20 GiB, 1 free");
    assert_string_equal(scene_job(scene, "C")->note, "needs 2 GPUs, 1 free");
    scene_free(scene);
}

/* ---- plans of language models ---- */

/* W = 50257 4096 + 32 (12 4096^2 + 13 4096) = 6 650 007 552 parameters of 20
 * bytes; s B h l = 1024 x 2 x 4096 x 32 = 268 435 456 and 5 a s / h = 40:
 *   t 4, d 1   33.250e9 + 0.268e9 (10 + 6 + 10)   = 40.229e9   too much
 *   t 4, d 2   33.250e9 + 0.268e9 (5 + 3 + 5)     = 36.740e9
 *   t 8, d 1   16.625e9 + 0.268e9 (10 + 3 + 5)    = 21.457e9
 * so no 4 GPUs do. On nodes of 4 GPUs, the largest of the paper, t 8 cannot be;
 * on a node of 8 the plan with fewer GPUs and the smaller t is the paper's too,
 * but by efficiency t 8 is first: its messages are smaller than gradients. */
static void gpt2_7b_takes_8_a100_with_t_4_and_d_2(void **unused)
{
    (void)unused;
    static const struct {
        const char *nodes, *settings, *note;
        int tensor;
    } cases[] = {
        {"2 nodes x 4 gpus", NULL, "plan 1 of 1: tensor 4 x data 2", 4},
        {"1 node x 8 gpus", "frenzy.rank=fewest",
         "plan 1 of 2: tensor 4 x data 2", 4},
        {"1 node x 8 gpus", NULL, "plan 1 of 2: tensor 8 x data 1", 8},
    };
    for (int i = 0; i < 3; i++) {
        char text[80];
        snprintf(text, sizeof text, "%s of a100; L wants 8 from 1 to 8",
                 cases[i].nodes);
        struct scene *scene = open_scene(text, cases[i].settings);
        scene_decide(scene, 0);
        const struct firn_job *job = scene_job(scene, "L");
        assert_int_equal(job->held.ngpus, 8);
        assert_int_equal(job->held.how.tensor, cases[i].tensor);
        assert_string_equal(job->note, cases[i].note);
        scene_free(scene);
    }
}

/* (4, 1) needs 40.229e9 bytes and so 4 of the larger GPUs: "it has to settle
 * for" 8 of the smaller ones while those are not free. */
static void the_first_plan_that_can_be_now_is_taken(void **unused)
{
    (void)unused;
    const char *settings = "frenzy.rank=fewest";
    const char *nodes = "1 node x 8 gpus of a100; 1 node x 4 gpus of a100-80; ";
    struct firn_buf text = {0};
    buf_printf(&text, "%sL wants 8 from 4 to 8", nodes);
    struct scene *scene = open_scene(text.at, settings);
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), "L: n1[0-3]");
    scene_free(scene);
    buf_clear(&text);
    buf_printf(&text, "%sL wants 8 from 4 to 8; X wants 1 on n1[0]", nodes);
    scene = open_scene(text.at, settings);
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), "L: n0[0-7]  X: n1[0]");
    scene_free(scene);
    buf_release(&text);
}

/* One GPU is the most efficient plan, and the paper's plan asks for memory
 * only: the smallest GPU that has it, however slow. With serve = speed it keeps
 * to types as fast as the best; of two as fast the smaller memory is taken. */
static void a_plan_is_served_by_memory_or_also_by_speed(void **unused)
{
    (void)unused;
    const char *text = "1 node x 2 gpus of 2080ti; 1 node x 2 gpus of a100-80; "
                       "1 node x 2 gpus of a100; S1 wants 1 from 1 to 2; "
                       "S2 wants 1 from 1 to 2; S3 wants 1 from 1 to 2";
    places(text, NULL, "S1: n0[0]  S2: n0[1]  S3: n2[0]");
    places(text, "frenzy.serve=speed", "S1: n2[0]  S2: n2[1]  S3: n1[0]");
}

/* Batch 2 is faster on two GPUs. */
static void rank_says_which_plan_comes_first(void **unused)
{
    (void)unused;
    const char *text = "1 node x 2 gpus of a100; S1 wants 1 from 1 to 2";
    places(text, NULL, "S1: n0[0]");
    places(text, "frenzy.rank=fewest", "S1: n0[0]");
    places(text, "frenzy.rank=speed", "S1: n0[0-1]");
}

/* Batch 8, 2048 tokens, with the formula of the paper and with our memory, and
 * whether it is planned as a shape of firn/llm.h or by firn/peak.h. */
static void eight_billion_parameters_get_a_plan_on_eight_h100(void **unused)
{
    (void)unused;
    static const char *const settings[] = {NULL, "memory=ours"};
    for (size_t i = 0; i < 2; i++) {
        struct scene *scene = open_scene(
            "1 node x 8 gpus of h100; N wants 8 from 1 to 8", settings[i]);
        scene_decide(scene, 0);
        assert_true(scene_job(scene, "N")->held.ngpus >= 1);
        assert_true(scene_job(scene, "N")->held.how.tensor >= 1);
        scene_free(scene);
        scene = open_scene("1 node x 8 gpus of h100; M wants 8 from 1 to 8",
                           settings[i]);
        scene_decide(scene, 0);
        const struct firn_alloc *held = &scene_job(scene, "M")->held;
        assert_true(held->ngpus >= 1);
        assert_true(held->how.passes >= 1);
        assert_int_equal(
            8 % (held->ngpus / held->how.tensor * held->how.passes), 0);
        scene_free(scene);
    }
}

/* In Megatron's precision 8B need 20 bytes a parameter, 150 GiB: no GPU has
 * them. A trainer that can only shard is given a sharded plan, one with the
 * stages of ZeRO the second, which sends less, one that can only split layers
 * another.
 */
static void a_plan_is_within_what_the_trainer_can_do(void **unused)
{
    (void)unused;
    static const struct {
        unsigned cannot;
        int parallel;
    } cases[] = {{FIRN_CAN_TENSOR | FIRN_CAN_ZERO, FIRN_PARALLEL_SHARDED},
                 {FIRN_CAN_TENSOR | FIRN_CAN_SHARDED,
                  FIRN_PARALLEL_DATA | FIRN_SAVES_GRADIENTS},
                 {FIRN_CAN_SHARDED | FIRN_CAN_ZERO, 0}};
    for (size_t i = 0; i < 3; i++) {
        struct scene *scene =
            open_scene("1 node x 8 gpus of h100; M wants 8 from 1 to 8", NULL);
        struct state_job *sj = scene_state(scene)->first;
        sj->job.spec.cannot = cases[i].cannot;
        scene_decide(scene, 0);
        const struct firn_alloc *held = &scene_job(scene, "M")->held;
        assert_true(held->ngpus > 1);
        assert_int_equal(held->how.parallel, cases[i].parallel);
        if (cases[i].parallel == 0)
            assert_true(held->how.tensor > 1);
        else
            assert_int_equal(held->how.tensor, 1);
        scene_free(scene);
    }
}

static void a_gang_keeps_its_number(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 8 gpus of a100-80; L wants 4", NULL);
    scene_decide(scene, 0);
    assert_int_equal(scene_job(scene, "L")->held.ngpus, 4);
    assert_true(scene_job(scene, "L")->held.how.tensor >= 2);
    scene_free(scene);
}

/* Memory of the split that a job has, by our figure, fits each of its GPUs. */
static void expect_fit(const struct scene *scene, const struct firn_job *job,
                       uint64_t seed)
{
    const struct firn_cluster *cluster = &scene->cluster;
    struct firn_job_spec spec = spec_of(job);
    if (job->held.nparts == 0 || job->spec.seq == 0)
        return;
    struct llmjob llm = llmjobs_open(cluster, &spec, job->type_mask);
    struct llmspot spot = llmjobs_held(cluster, &job->held);
    const struct firn_how *how = &job->held.how;
    struct llmhow as = {.tensor = how->tensor,
                        .parallel = how->parallel,
                        .passes = how->passes};
    double need_gib = 0;
    if (!(llmjobs_expect(&llm, &spot, as, &need_gib) > 0))
        fail_msg("seed %llu: %s needs %g GiB of %g", (unsigned long long)seed,
                 job->spec.name, need_gib, spot.mem_gib);
}

static void no_plan_exceeds_memory(void **unused)
{
    (void)unused;
    static const char *const types[] = {"2080ti", "a100", "a100-80", "t4",
                                        "rtx6000"};
    for (uint64_t seed = 0; seed < (uint64_t)trials(200); seed++) {
        struct rng rng;
        struct firn_buf text = {0};
        rng_seed(&rng, seed);
        for (int i = 0; i < 3; i++)
            buf_printf(&text, "%d nodes x %d gpus of %s; ",
                       1 + (int)rng_below(&rng, 3), 1 << rng_below(&rng, 4),
                       types[(seed + (uint64_t)i) % 5]);
        buf_puts(&text, "1 node x 8 gpus of a100-80");
        for (int i = 0; i < 12; i++)
            buf_printf(&text, "; %c%d wants 4 from 1 to 16 mem 1",
                       rng_below(&rng, 2) ? 'L' : 'S', i);
        struct scene *scene =
            open_scene(text.at, "frenzy.memory=ours frenzy.mix=0");
        scene_decide(scene, 0);
        for (struct state_job *sj = scene_state(scene)->first; sj;
             sj = sj->after)
            expect_fit(scene, &sj->job, seed);
        assert_int_equal(scene->did, 0);
        scene_free(scene);
        buf_release(&text);
    }
}

/* ---- in the simulator ---- */

/* A model without a number of GPUs, alone: it gets its most efficient plan, and
 * takes its samples over the speed of that; with rank = speed the fastest,
 * which is sooner. */
static void a_model_without_gpus_is_run_to_its_end(void **unused)
{
    (void)unused;
    struct play play;
    play_open(&play, "1x8:a100-80",
              "#firn-trace 1\nname,submit_s,gpus,duration_s,app,batch,seq\n"
              "a,0,0,100,gpt2-7b,2,1024\n");
    const char *settings[] = {"frenzy.rank=speed"};
    play.options.settings = settings;
    play.options.nsettings = 1;
    play_run(&play, "frenzy");
    assert_true(play_end(&play, "a") < 99);
    assert_true(play_job(&play, "a")->served_gpu_s > 4 * play_end(&play, "a"));
    play.options.nsettings = 0;
    play_run(&play, "frenzy");
    struct firn_job_spec spec = {.name = "a",
                                 .app = "gpt2-7b",
                                 .types = "",
                                 .duration_s = 100,
                                 .batch = 2,
                                 .seq = 1024};
    llmjobs_fill(&play.cluster, &spec);
    struct llmjob llm = llmjobs_open(&play.cluster, &spec, 1);
    struct llmplans plans = llmjobs_plans(&llm, &play.cluster, 1, 1, 8);
    size_t best = 0;
    while (plans.at[best].room_gib < 0)
        best++;
    /* durations of a trace refer to that plan */
    int gpus = plans.at[best].t * plans.at[best].d;
    assert_int_equal(gpus, 4);
    assert_true(play_near(play_end(&play, "a"), 100));
    assert_true(play_near(play_job(&play, "a")->served_gpu_s, 100 * gpus));
    vec_release(&plans);
    play_close(&play);
}

/* ---- speed ---- */

/* 10 000 jobs of 100 kinds wait; a GPU is free that none of them fits on. */
static void ten_thousand_waiting_jobs_cost_milliseconds(void **unused)
{
    (void)unused;
    enum { JOBS = 10000, ROUNDS = 5 };
    struct firn_buf text = {0};
    buf_puts(&text, "9 nodes x 8 gpus of a100-80; X wants 71 on n0[0-7] "
                    "n1[0-7] n2[0-7] n3[0-7] n4[0-7] n5[0-7] n6[0-7] n7[0-7] "
                    "n8[0-6]");
    for (int i = 0; i < trials(JOBS); i++)
        buf_printf(&text, "; L%d wants 8 from %d to %d", i, 2 + i % 10,
                   8 + i / 10 % 10);
    struct scene *scene = open_scene(text.at, NULL);
    scene_decide(scene, 0);
    clock_t begin = clock();
    for (int i = 1; i <= ROUNDS; i++)
        scene_decide(scene, i);
    double ms = 1e3 * (double)(clock() - begin) / CLOCKS_PER_SEC / ROUNDS;
    print_message("%.3f ms a round\n", ms);
    if (trials(JOBS) == JOBS)
        assert_true(ms < 100); /* about 1; room for a busy machine */
    scene_free(scene);
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(job_2_32_goes_to_node_3_40_rather_than_node_6_80),
        cmocka_unit_test(job_4_35_goes_to_node_4_40_rather_than_four_of_one),
        cmocka_unit_test(small_gpus_come_before_a_tight_fit),
        cmocka_unit_test(a_gpu_has_the_memory_that_is_wanted),
        cmocka_unit_test(without_a_node_for_all_the_emptiest_comes_first),
        cmocka_unit_test(jobs_without_a_language_model_may_prefer_fast_gpus),
        cmocka_unit_test(emptiest_nodes_may_be_of_several_types),
        cmocka_unit_test(a_job_that_does_not_fit_is_passed_over),
        cmocka_unit_test(a_waiting_job_has_a_note_why_it_waits),
        cmocka_unit_test(gpt2_7b_takes_8_a100_with_t_4_and_d_2),
        cmocka_unit_test(the_first_plan_that_can_be_now_is_taken),
        cmocka_unit_test(a_plan_is_served_by_memory_or_also_by_speed),
        cmocka_unit_test(rank_says_which_plan_comes_first),
        cmocka_unit_test(eight_billion_parameters_get_a_plan_on_eight_h100),
        cmocka_unit_test(a_plan_is_within_what_the_trainer_can_do),
        cmocka_unit_test(a_gang_keeps_its_number),
        cmocka_unit_test(no_plan_exceeds_memory),
        cmocka_unit_test(a_model_without_gpus_is_run_to_its_end),
        cmocka_unit_test(ten_thousand_waiting_jobs_cost_milliseconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
