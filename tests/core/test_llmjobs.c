/* test_llmjobs.c - language models as jobs: memory, speed, and who takes them.
 *
 * Worked by hand with gpt2 (h 768, 12 layers, 12 heads, 124 439 808 parameters)
 * at batch 8 and sequences of 1024. A sample takes 6 x 124 439 808 x 1024 + 12
 * x 12 x 768 x 1024^2 = 880 522 297 344 flops, of which a V100 does 0.737 x
 * 125e12 a second, and 12 x 12 x 1024^2 = 150 994 944 numbers of attention
 * matrices, of which it does 0.01548 x 900e9; the host takes 9.24 ms a layer. A
 * node moves 5.4e9 bytes a second and the network 13.8e9; gradients are 248 879
 * 616 bytes (model/llm_speeds.def).
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
#include <firn/parallel.h>
#include <firn/policy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double flops = 880522297344.0, v100 = 0.737 * 125e12;
static const double numbers = 150994944.0, matrix_s = 0.01548 * 900e9;
static const double host = 12 * 9.24e-3, grads = 248879616.0;
static const double node = 5.4e9, net = 13.8e9;

/* Seconds in which a V100 computes that many samples of gpt2. */
static double on_v100(double samples)
{
    return samples * (flops / v100 + numbers / matrix_s);
}

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

/* A model of firn/arch.h, and a word that firn/memory.h does not have, go by
 * firn/peak.h; a shape of firn/llm.h with its own words does not. */
static void a_modern_model_is_predicted_by_its_peak(void **state)
{
    (void)state;
    struct firn_cluster cluster = cluster_of("1x8:h100@80");
    struct firn_job_spec spec = model("qwen3-8b", 8, 8);
    struct llmjob llm = llmjobs_open(&cluster, &spec, 1);
    assert_true(llm.is_peak);
    spec = model("llama-3-8b", 8, 8);
    llm = llmjobs_open(&cluster, &spec, 1);
    assert_false(llm.is_peak);
    assert_true(firn_training_set(&spec.training, FIRN_TRAINING_OPTIMIZER,
                                  "adamw-fused"));
    llm = llmjobs_open(&cluster, &spec, 1);
    assert_true(llm.is_peak);
    /* What a GPU must have is what firn/peak.h says of t 2, d 4. */
    struct llmspot spot = llmjobs_packed(&cluster, 0, 8, 0);
    struct firn_peak_job peak = llm.peak;
    double need_gib = 0;
    peak.tp = 2;
    peak.dp = 4;
    peak.micro_batch = 2;
    peak.micro_batches = 1;
    llmjobs_expect(&llm, &spot,
                   (struct llmhow){2, FIRN_PARALLEL_DATA, .passes = 1},
                   &need_gib);
    expect_near(need_gib, firn_peak_of(&peak).device_mib / 1024);
    firn_cluster_release(&cluster);
}

/* Batch 8, 2048 tokens, on 8 H100 of 80: every way of training that people use
 * has a plan that fits. */
static void eight_billion_parameters_fit_eight_h100(void **state)
{
    (void)state;
    static const struct {
        const char *app, *precision, *checkpointing;
    } ways[] = {{"llama-3-8b", "", ""},
                {"llama-3-8b", "bf16", ""},
                {"llama-3-8b", "amp", "layers"},
                {"llama-3.1-8b", "bf16", ""},
                {"llama-3.1-8b", "bf16-master", "selective"},
                {"qwen3-8b", "", "layers"}};
    struct firn_cluster cluster = cluster_of("1x8:h100@80");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct firn_job_spec spec = model(ways[i].app, 8, 8);
        spec.seq = 2048;
        assert_true(firn_training_set(&spec.training, FIRN_TRAINING_PRECISION,
                                      ways[i].precision));
        assert_true(firn_training_set(&spec.training,
                                      FIRN_TRAINING_CHECKPOINTING,
                                      ways[i].checkpointing));
        struct llmjob llm = llmjobs_open(&cluster, &spec, 1);
        struct llmplans plans = llmjobs_plans(&llm, &cluster, 1, 1, 8);
        int fitting = 0;
        for (size_t k = 0; k < plans.n; k++)
            fitting += plans.at[k].need_gib <= 80 && plans.at[k].samples_s > 0;
        if (fitting == 0)
            fail_msg("%s %s has no plan", ways[i].app, ways[i].precision);
        vec_release(&plans);
    }
    firn_cluster_release(&cluster);
}

static void say(struct firn_job_spec *spec, enum firn_training_setting setting,
                const char *word)
{
    if (!firn_training_set(&spec->training, setting, word))
        fail_msg("setting %d does not take %s", (int)setting, word);
}

/* GPT-2 on one GPU in fp32, with the words that `firn memory` has by default:
 * both say the same. */
static void a_job_that_says_fp32_needs_what_firn_memory_prints(void **state)
{
    (void)state;
    struct firn_cluster cluster = cluster_of("1x1:h100@80");
    struct firn_job_spec spec = model("gpt2", 4, 1);
    double need_gib = 0;
    say(&spec, FIRN_TRAINING_PRECISION, "fp32");
    struct firn_peak_job peak = {
        .seq = spec.seq, .micro_batch = 4, .is_eager = true};
    assert_int_equal(firn_arch_find(&peak.arch, "gpt2", NULL), FIRN_OK);
    assert_int_equal(firn_peak_check(&peak, NULL), FIRN_OK);
    struct llmjob llm = llmjobs_open(&cluster, &spec, 1);
    struct llmspot spot = llmjobs_packed(&cluster, 0, 1, 0);
    llmjobs_expect(&llm, &spot, (struct llmhow){0}, &need_gib);
    expect_near(need_gib, firn_peak_of(&peak).device_mib / 1024);
    firn_cluster_release(&cluster);
}

/* 70B in bf16 are 131 GiB: one copy on each of 8 GPUs of 80 does not fit, one
 * copy over all of them does. */
static void seventy_billion_with_lora_and_zero_3_fit_eight_a100(void **state)
{
    (void)state;
    struct firn_cluster cluster = cluster_of("1x8:a100@80");
    struct firn_job_spec spec = model("llama-3.1-70b", 8, 8);
    spec.seq = 2048;
    say(&spec, FIRN_TRAINING_LORA, "16");
    say(&spec, FIRN_TRAINING_LORA_ON, "all");
    say(&spec, FIRN_TRAINING_PRECISION, "bf16");
    say(&spec, FIRN_TRAINING_CHECKPOINTING, "layers");
    say(&spec, FIRN_TRAINING_ZERO, "fsdp");
    struct llmjob llm = llmjobs_open(&cluster, &spec, 1);
    struct llmplans plans = llmjobs_plans(&llm, &cluster, 1, 8, 8);
    bool is_found = false;
    for (size_t i = 0; i < plans.n; i++) {
        const struct llmplan *p = &plans.at[i];
        assert_true(p->need_gib <= 80);
        assert_int_equal(p->zero, p->d > 1 ? 3 : 0);
        is_found = is_found || (p->t == 1 && p->d == 8);
    }
    assert_true(is_found);
    vec_release(&plans);
    firn_cluster_release(&cluster);
}

/* copies x passes x samples of a pass is the batch, whatever the plan. */
static void every_plan_keeps_the_global_batch(void **state)
{
    (void)state;
    struct firn_cluster cluster = cluster_of("2x8:h100@80,1x4:v100@16");
    struct firn_job_spec spec = model("llama-3-8b", 48, 8);
    spec.seq = 2048;
    say(&spec, FIRN_TRAINING_PRECISION, "bf16");
    say(&spec, FIRN_TRAINING_LOSS, "fused");
    struct llmjob llm = llmjobs_open(&cluster, &spec, 3);
    struct llmplans plans = llmjobs_plans(&llm, &cluster, 3, 1, 16);
    bool has_passes = false, has_zero = false;
    assert_true(plans.n > 0);
    for (size_t i = 0; i < plans.n; i++) {
        const struct llmplan *p = &plans.at[i];
        assert_int_equal(p->d * p->passes * p->micro_batch, 48);
        assert_true(p->need_gib <= cluster.types[p->type].mem_gib);
        assert_true(p->expected_gib <= p->high_gib &&
                    p->high_gib < p->need_gib);
        has_passes = has_passes || p->passes > 1;
        has_zero = has_zero || p->zero == 3;
    }
    assert_true(has_passes && has_zero);
    vec_release(&plans);
    firn_cluster_release(&cluster);
}

/* A trainer that cannot shard, accumulate or split layers is left with one
 * whole copy and one pass on each GPU. */
static void plans_are_within_what_the_trainer_can_do(void **state)
{
    (void)state;
    struct firn_cluster cluster = cluster_of("1x8:h100@80");
    struct firn_job_spec spec = model("qwen2.5-1.5b", 16, 8);
    spec.cannot = FIRN_CAN_ALL;
    struct llmjob llm = llmjobs_open(&cluster, &spec, 1);
    struct llmplans plans = llmjobs_plans(&llm, &cluster, 1, 1, 8);
    assert_true(plans.n > 0);
    for (size_t i = 0; i < plans.n; i++) {
        assert_int_equal(plans.at[i].t, 1);
        assert_int_equal(plans.at[i].zero, 0);
        assert_int_equal(plans.at[i].saves, 0);
        assert_int_equal(plans.at[i].passes, 1);
    }
    vec_release(&plans);
    firn_cluster_release(&cluster);
}

/* The first plan, on 4 GPUs, of 8B in bf16 at batch 8 and 1024 tokens: 15 GiB
 * of weights, as many of gradients, twice as many of moments. */
static struct llmplan first_plan_of(const char *gpus, unsigned can,
                                    const char *checkpointing)
{
    struct llmplan first = {.t = 0};
    struct firn_cluster cluster = cluster_of(gpus);
    struct firn_job_spec spec = model("llama-3.1-8b", 8, 4);
    say(&spec, FIRN_TRAINING_PRECISION, "bf16");
    say(&spec, FIRN_TRAINING_OPTIMIZER, "adamw-fused");
    say(&spec, FIRN_TRAINING_CHECKPOINTING, checkpointing);
    say(&spec, FIRN_TRAINING_LOSS, "fused");
    spec.cannot = FIRN_CAN_ALL & ~can;
    struct firn_job job = {.spec = spec, .type_mask = 1};
    job.spec.gpus_min = job.spec.gpus_max = 4;
    struct llmjob llm = llmjobs_open(&cluster, &job.spec, 1);
    struct llmplans plans = llmjobs_plans(&llm, &cluster, 1, 4, 4);
    for (size_t i = 0; i < plans.n; i++) {
        struct llmhow how = {.tensor = plans.at[i].t};
        struct firn_llm_way ways[64];
        struct llmplan again;
        assert_true(llmjobs_ways(&llm, &cluster, &job, 1, ways, 64) == plans.n);
        struct firn_how as = FIRN_HOW_AS_SUBMITTED;
        as.parallel = how.parallel = ways[i].way.parallel;
        as.passes = how.passes = ways[i].way.passes;
        as.tensor = how.tensor;
        assert_int_equal(firn_job_lacks(&job, &as), 0);
        /* As the plan is told to the trainer, it is predicted. */
        struct llmspot spot = llmjobs_packed(&cluster, 0, 4, 0);
        assert_true(llmjobs_memory(&llm, &spot, how, &again));
        expect_near(again.need_gib, plans.at[i].need_gib);
        assert_int_equal(again.zero, plans.at[i].zero);
        assert_int_equal(again.saves, plans.at[i].saves);
    }
    if (plans.n > 0)
        first = plans.at[0];
    vec_release(&plans);
    firn_cluster_release(&cluster);
    return first;
}

/* Stage 1 leaves whole gradients and stage 2 whole weights: of those that fit,
 * the lowest goes first, which sends the least. */
static void the_lowest_stage_of_zero_that_fits_goes_first(void **state)
{
    (void)state;
    static const struct {
        const char *gpus;
        unsigned can;
        int zero; /* -1: there is no plan */
    } cases[] = {
        {"1x4:h100@141", FIRN_CAN_ZERO | FIRN_CAN_SHARDED, 0},
        {"1x4:h100@80", FIRN_CAN_ZERO | FIRN_CAN_SHARDED, 1},
        {"1x4:a100@40", FIRN_CAN_ZERO | FIRN_CAN_SHARDED, 2},
        {"1x4:a100@40", FIRN_CAN_ZERO, 2},
        {"1x4:a100@40", FIRN_CAN_SHARDED, 3},
        {"1x4:a100@40", FIRN_CAN_RESIZE, -1},
        {"1x4:a10@24", FIRN_CAN_ZERO | FIRN_CAN_SHARDED, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct llmplan plan =
            first_plan_of(cases[i].gpus, cases[i].can, "layers");
        if (plan.t == 0 ? cases[i].zero >= 0 : plan.zero != cases[i].zero)
            fail_msg("case %zu: stage %d of %d x %d, %g GiB", i, plan.zero,
                     plan.t, plan.d, plan.need_gib);
        assert_int_equal(plan.saves, 0);
    }
}

/* What saves memory at the price of time is ordered where nothing else fits, of
 * a trainer that can and whose user leaves it open. */
static void
activations_and_optimizer_are_saved_where_nothing_else_fits(void **state)
{
    (void)state;
    enum { BOTH = FIRN_SAVES_ACTIVATIONS | FIRN_SAVES_HOST };
    static const struct {
        const char *gpus;
        unsigned can;
        const char *checkpointing;
        int saves; /* -1: there is no plan */
    } cases[] = {
        {"1x4:h100@141", FIRN_CAN_RECOMPUTE | FIRN_CAN_OFFLOAD, "", 0},
        {"1x4:h100@80", FIRN_CAN_RECOMPUTE, "layers", -1},
        {"1x4:h100@80", FIRN_CAN_RECOMPUTE | FIRN_CAN_ZERO, "", 0},
        {"1x4:a100@36", FIRN_CAN_RECOMPUTE | FIRN_CAN_ZERO, "",
         FIRN_SAVES_ACTIVATIONS},
        {"1x4:a100@36", FIRN_CAN_RECOMPUTE | FIRN_CAN_ZERO, "off", -1},
        {"1x4:a100@36", FIRN_CAN_ZERO, "", -1},
        {"1x4:h100@80", FIRN_CAN_OFFLOAD, "", FIRN_SAVES_HOST},
        {"1x4:a100@45", FIRN_CAN_OFFLOAD | FIRN_CAN_RECOMPUTE, "", -1},
        {"1x4:h100@52", FIRN_CAN_OFFLOAD | FIRN_CAN_RECOMPUTE, "", BOTH},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct llmplan plan =
            first_plan_of(cases[i].gpus, cases[i].can, cases[i].checkpointing);
        if (plan.t == 0 ? cases[i].saves >= 0 : plan.saves != cases[i].saves)
            fail_msg("case %zu: %d with ZeRO %d, %g GiB", i, plan.saves,
                     plan.zero, plan.need_gib);
    }
}

/* The user's number of passes is kept, also where one would do. */
static void passes_that_the_user_says_are_kept(void **state)
{
    (void)state;
    struct firn_cluster cluster = cluster_of("1x8:h100@80");
    struct firn_job_spec spec = model("qwen2.5-0.5b", 16, 8);
    say(&spec, FIRN_TRAINING_ACCUMULATION, "2");
    struct llmjob llm = llmjobs_open(&cluster, &spec, 1);
    struct llmplans plans = llmjobs_plans(&llm, &cluster, 1, 1, 8);
    assert_true(plans.n > 0);
    for (size_t i = 0; i < plans.n; i++)
        assert_int_equal(plans.at[i].passes, 2);
    vec_release(&plans);
    firn_cluster_release(&cluster);
}

/* Twice the memory was seen: all but the CUDA context counts twice, whether
 * firn/peak.h predicts the model, its memory alone, or firn/memory.h; and of
 * Frenzy's formula nothing is left. */
static void a_ratio_that_was_seen_scales_the_prediction(void **state)
{
    (void)state;
    struct firn_cluster cluster = cluster_of("1x1:h100@80");
    struct firn_job_spec specs[] = {model("qwen2.5-0.5b", 4, 1),
                                    model("gpt2-350m", 4, 1),
                                    model("gpt2-350m", 4, 1)};
    struct llmspot spot = llmjobs_packed(&cluster, 0, 1, 0);
    struct llmhow how = {.passes = 1};
    assert_true(
        firn_training_set(&specs[1].training, FIRN_TRAINING_PRECISION, "bf16"));
    for (size_t i = 0; i < 3; i++) {
        struct llmplan one, two;
        struct llmjob llm = llmjobs_open(&cluster, &specs[i], 1);
        assert_true(llm.is_peak == (i == 0) && llm.is_counted == (i == 1));
        assert_true(llmjobs_memory(&llm, &spot, how, &one));
        specs[i].mem_ratio = 2;
        llm = llmjobs_open(&cluster, &specs[i], 1);
        assert_true(llmjobs_memory(&llm, &spot, how, &two));
        expect_near(two.expected_gib, 2 * one.expected_gib);
        expect_near(two.high_gib, 2 * one.high_gib);
        expect_near(two.reserved_gib, 2 * one.reserved_gib);
        expect_near(two.need_gib - two.high_gib, one.need_gib - one.high_gib);
        struct llmplans plans = llmjobs_plans(&llm, &cluster, 1, 1, 1);
        assert_int_equal(plans.n, 1);
        expect_near(plans.at[0].marp_gib, two.need_gib);
        vec_release(&plans);
    }
    firn_cluster_release(&cluster);
}

/* The nearest first, each with what it lacks and its largest term. */
static void what_does_not_fit_says_by_how_much_and_why(void **state)
{
    (void)state;
    struct firn_cluster cluster = cluster_of("1x8:a100@80,1x2:v100@16");
    struct firn_job_spec spec = model("llama-3.1-70b", 8, 8);
    struct llmmiss miss[3];
    say(&spec, FIRN_TRAINING_PRECISION, "bf16");
    struct llmjob llm = llmjobs_open(&cluster, &spec, 3);
    size_t n = llmjobs_misses(&llm, &cluster, 3, 8, miss, 3);
    assert_int_equal(n, 3);
    for (size_t i = 0; i < n; i++) {
        assert_true(miss[i].plan.room_gib < 0);
        expect_near(miss[i].plan.room_gib,
                    cluster.types[miss[i].plan.type].mem_gib -
                        miss[i].plan.need_gib);
        assert_true(miss[i].term_gib > 0);
        if (i > 0)
            assert_true(miss[i - 1].plan.room_gib >= miss[i].plan.room_gib);
    }
    spec = model("llama-3-8b", 8, 8); /* by firn/memory.h */
    llm = llmjobs_open(&cluster, &spec, 3);
    assert_int_equal(llmjobs_misses(&llm, &cluster, 3, 8, miss, 3), 0);
    firn_cluster_release(&cluster);
}

/* The text of a config.json is the model; its numbers are those of the name. */
static void a_config_says_the_model(void **state)
{
    (void)state;
    static const char text[] =
        "{\"model_type\":\"qwen2\",\"hidden_size\":896,"
        "\"num_hidden_layers\":24,\"num_attention_heads\":14,"
        "\"num_key_value_heads\":2,\"intermediate_size\":4864,"
        "\"vocab_size\":151936,\"tie_word_embeddings\":true}";
    struct firn_cluster cluster = cluster_of("1x1:h100@80");
    struct llmspot spot = llmjobs_packed(&cluster, 0, 1, 0);
    struct firn_job_spec named = model("qwen2.5-0.5b", 4, 1);
    struct firn_job_spec given = model("qwen2-12345678", 4, 1);
    struct llmplan a, b;
    given.config = text;
    assert_true(llmjobs_is(&given));
    struct llmjob llm = llmjobs_open(&cluster, &named, 1);
    assert_true(llmjobs_memory(&llm, &spot, (struct llmhow){.tensor = 0}, &a));
    llm = llmjobs_open(&cluster, &given, 1);
    assert_true(llmjobs_memory(&llm, &spot, (struct llmhow){.tensor = 0}, &b));
    expect_near(a.need_gib, b.need_gib);
    given.config = "{\"model_type\":\"qwen2\"}";
    assert_false(llmjobs_is(&given));
    firn_cluster_release(&cluster);
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
                               .speed = firn_llm_speed_of("v100", 1),
                               .mem_gib = 32};
        assert_true(llmjobs_rate(&llm, &spot, (struct llmhow){.tensor = 0}) >=
                    0);
    }
    firn_cluster_release(&cluster);
}

/* One GPU: 8 samples and the host. Two of a node, d 2: 4 samples, the host, and
 * 2 x 1/2 x grads through the node. */
static void data_parallel_waits_for_the_gradients(void **state)
{
    (void)state;
    struct firn_cluster c = cluster_of("2x4:v100");
    struct firn_job_spec spec = model("gpt2", 8, 1);
    struct llmjob llm = llmjobs_open(&c, &spec, 1);
    double one_s = on_v100(8) + host;
    struct llmspot spot = llmjobs_packed(&c, 0, 1, 0);
    expect_near(llm.ref_samples_s, 8 / one_s);
    expect_near(llmjobs_rate(&llm, &spot, (struct llmhow){.tensor = 0}), 1);
    spot = llmjobs_packed(&c, 0, 2, 0);
    expect_near(llmjobs_rate(&llm, &spot, (struct llmhow){.tensor = 1}),
                one_s / (on_v100(4) + host + grads / node));
    /* one on each of two nodes: over the network */
    spot = llmjobs_packed(&c, 0, 2, 2);
    expect_near(llmjobs_rate(&llm, &spot, (struct llmhow){.tensor = 1}),
                one_s / (on_v100(4) + host + grads / net));
    /* 8 GPUs, 4 on each node, share the network: 2 x 7/8 */
    spot = llmjobs_packed(&c, 0, 8, 0);
    expect_near(llmjobs_rate(&llm, &spot, (struct llmhow){.tensor = 1}),
                one_s / (on_v100(1) + host + 1.75 * grads / (net / 4)));
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
    double one_s = on_v100(8) + host, bytes = 4.0 * 12 * 8 * 1024 * 768 * 2;
    struct llmspot spot = llmjobs_packed(&c, 0, 2, 0);
    expect_near(llmjobs_rate(&llm, &spot, (struct llmhow){.tensor = 2}),
                one_s / (on_v100(4) + host + bytes / node));
    spot = llmjobs_packed(&c, 0, 2, 2);
    expect_near(llmjobs_rate(&llm, &spot, (struct llmhow){.tensor = 2}),
                one_s / (on_v100(4) + host + bytes / net));
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
    double one_s = on_v100(8) + host;
    expect_near(llmjobs_rate(&llm, &spot, (struct llmhow){.tensor = 0}),
                one_s / (on_v100(3) + host + 2 * 2.0 / 3 * grads / node));
    firn_cluster_release(&c);
}

/* A t4 has 0.52 of a V100's peak, 320 of its 900 GB/s, 14.25 ms a layer on the
 * host and a network of 1.84e9; the slowest counts, and the least memory. */
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
    expect_near(spot.speed.half_flops_s, 0.52 * v100);
    expect_near(spot.speed.matrix_s, matrix_s * 320 / 900);
    expect_near(llmjobs_rate(&llm, &spot, (struct llmhow){.tensor = 1}),
                (on_v100(2) + host) /
                    (flops / (0.52 * v100) + numbers / (matrix_s * 320 / 900) +
                     12 * 14.25e-3 + grads / 1.84e9));
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
    expect_near(
        llmjobs_expect(&llm, &large, (struct llmhow){.tensor = 0}, &need_gib),
        1);
    assert_true(need_gib > 31e9 / (1 << 30) && need_gib < 80);
    assert_true(llmjobs_expect(&llm, &small, (struct llmhow){.tensor = 0},
                               &need_gib) == 0);
    /* 48 layers of 1600, 25 heads, 1 557 611 200 parameters */
    double work = 6 * 1557611200.0 * 1024 + 12.0 * 48 * 1600 * 1024 * 1024;
    double matrices = 25 * 1024.0 * 1024 * 48;
    double large_s = 48 * 8.63e-3 + 2 * (work / (0.737 * 312e12) +
                                         matrices / (0.01548 * 2039e9));
    double small_s = 48 * 13.37e-3 + 2 * (work / (0.737 * 53.8e12) +
                                          matrices / (0.01548 * 616e9));
    expect_near(llmjobs_rate(&llm, &small, (struct llmhow){.tensor = 0}),
                0.1 * large_s / small_s);
    firn_cluster_release(&c);
}

/* Checkpointing computes a third more, and SDPA has no matrices. fp32 goes at
 * 12.8e12 and has them in its rate. */
static void a_model_trains_as_its_job_says(void **state)
{
    (void)state;
    struct firn_cluster c = cluster_of("1x4:v100");
    struct firn_job_spec spec = model("gpt2", 8, 1);
    struct llmjob llm = llmjobs_open(&c, &spec, 1);
    assert_int_equal(llm.job.precision, FIRN_PRECISION_MEGATRON);
    firn_training_set(&spec.training, FIRN_TRAINING_CHECKPOINTING, "layers");
    llm = llmjobs_open(&c, &spec, 1);
    expect_near(8 / llm.ref_samples_s, 4.0 / 3 * (on_v100(8) + host));
    firn_training_set(&spec.training, FIRN_TRAINING_CHECKPOINTING, "");
    firn_training_set(&spec.training, FIRN_TRAINING_ATTENTION, "sdpa");
    firn_training_set(&spec.training, FIRN_TRAINING_PRECISION, "amp");
    llm = llmjobs_open(&c, &spec, 1);
    expect_near(8 / llm.ref_samples_s, 8 * flops / v100 + host);
    firn_training_set(&spec.training, FIRN_TRAINING_PRECISION, "fp32");
    llm = llmjobs_open(&c, &spec, 1);
    expect_near(8 / llm.ref_samples_s, 8 * flops / 12.8e12 + host);
    firn_cluster_release(&c);
}

/* A model in bf16 with SGD fits where Megatron's 20 bytes a parameter do not.
 */
static void settings_say_which_gpus_hold_a_model(void **state)
{
    (void)state;
    struct firn_cluster c = cluster_of("1x8:2080ti");
    struct firn_job_spec spec = model("gpt2-774m", 2, 0);
    char types[LLMJOBS_TYPES_TEXT];
    llmjobs_fill(&c, &spec);
    assert_int_equal(spec.gpus, 4);
    spec = model("gpt2-774m", 2, 0);
    firn_training_set(&spec.training, FIRN_TRAINING_PRECISION, "bf16");
    firn_training_set(&spec.training, FIRN_TRAINING_OPTIMIZER, "sgd-plain");
    firn_training_set(&spec.training, FIRN_TRAINING_CHECKPOINTING, "layers");
    llmjobs_fill(&c, &spec);
    assert_int_equal(spec.gpus, 1);
    llmjobs_restrict(&c, &spec, types);
    assert_string_equal(spec.types, "2080ti");
    firn_cluster_release(&c);
}

/* A trace has the settings as words, and a simulation follows them: 100 s on
 * the reference, with the samples a second that the job's own reference has. */
static void a_trace_says_how_a_model_trains(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x1:v100",
              "#firn-trace 1\nname,submit_s,gpus,duration_s,app,batch,seq,"
              "precision,checkpointing\n"
              "a,0,1,100,gpt2,8,1024,,layers\n");
    play_run(&play, "fifo");
    assert_true(play_near(play_end(&play, "a"), 100));
    expect_near(play.result.samples_s_mean,
                8 / (4.0 / 3 * (on_v100(8) + host)));
    play_close(&play);
}

/* GPUs left open: a number that fits on both types. Asked for: the fewest on
 * the faster type. The samples to train are the same. */
static void a_simulation_may_ask_for_gpus_as_a_user_would(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x8:2080ti,1x2:a100",
              "#firn-trace 1\nname,submit_s,gpus,duration_s,app,batch,seq\n"
              "a,0,0,100,gpt2-774m,2,1024\n");
    play_run(&play, "fifo");
    assert_int_equal(play_job(&play, "a")->gpus, 4);
    double samples = play.result.samples_s_mean * play_end(&play, "a");
    play.options.asks_gpus = true;
    play_run(&play, "opportunistic");
    assert_int_equal(play_job(&play, "a")->gpus, 1);
    assert_true(
        play_near(play.result.samples_s_mean * play_end(&play, "a"), samples));
    play_close(&play);
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
            gpus[t] = (struct firn_llm_gpus){c.types[t].name, spot.mem_gib, 1,
                                             spot.fullest, c.types[t].ngpus};
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
    struct firn_job_spec none = model("gpt2-774m", 2, 0), asked = none,
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
        cmocka_unit_test(a_modern_model_is_predicted_by_its_peak),
        cmocka_unit_test(eight_billion_parameters_fit_eight_h100),
        cmocka_unit_test(a_job_that_says_fp32_needs_what_firn_memory_prints),
        cmocka_unit_test(seventy_billion_with_lora_and_zero_3_fit_eight_a100),
        cmocka_unit_test(every_plan_keeps_the_global_batch),
        cmocka_unit_test(plans_are_within_what_the_trainer_can_do),
        cmocka_unit_test(the_lowest_stage_of_zero_that_fits_goes_first),
        cmocka_unit_test(
            activations_and_optimizer_are_saved_where_nothing_else_fits),
        cmocka_unit_test(passes_that_the_user_says_are_kept),
        cmocka_unit_test(a_ratio_that_was_seen_scales_the_prediction),
        cmocka_unit_test(what_does_not_fit_says_by_how_much_and_why),
        cmocka_unit_test(a_config_says_the_model),
        cmocka_unit_test(a_huge_batch_overflows_nothing),
        cmocka_unit_test(data_parallel_waits_for_the_gradients),
        cmocka_unit_test(tensor_parallel_has_traffic_in_each_layer),
        cmocka_unit_test(a_batch_that_does_not_divide_leaves_gpus_waiting),
        cmocka_unit_test(the_slowest_and_the_smallest_count),
        cmocka_unit_test(a_model_that_does_not_fit_crawls),
        cmocka_unit_test(a_model_trains_as_its_job_says),
        cmocka_unit_test(settings_say_which_gpus_hold_a_model),
        cmocka_unit_test(a_trace_says_how_a_model_trains),
        cmocka_unit_test(a_simulation_may_ask_for_gpus_as_a_user_would),
        cmocka_unit_test(splits_of_a_model_are_those_of_firn_llm_plans),
        cmocka_unit_test(asking_for_gpus_changes_no_work),
        cmocka_unit_test(only_types_with_the_memory_are_accepted),
        cmocka_unit_test(a_job_never_goes_where_it_does_not_fit),
        cmocka_unit_test(every_policy_runs_models_to_their_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
