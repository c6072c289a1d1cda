/* test_memory.c - the tensors that each way of training keeps.
 *
 * A fit that adds nothing leaves the counting, worked by hand in the comments.
 */
#include "base/rng.h"
#include <firn/memory.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#define MIB 1048576.0

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

static struct firn_llm_shape shape(const char *name)
{
    struct firn_llm_shape s;
    struct firn_error err;
    assert_int_equal(firn_llm_find(&s, name, &err), FIRN_OK);
    assert_int_equal(firn_llm_complete(&s, &err), FIRN_OK);
    return s;
}

static struct firn_memory_job job(const char *name, int seq, int micro_batch)
{
    return (struct firn_memory_job){.shape = shape(name),
                                    .seq = seq,
                                    .micro_batch = micro_batch,
                                    .precision = FIRN_PRECISION_AMP,
                                    .attention = FIRN_ATTENTION_SDPA,
                                    .tp = 1,
                                    .dp = 1};
}

/* A fit that adds nothing to the counting. */
static struct firn_memory_fit bare(void)
{
    return (struct firn_memory_fit){.act_scale = 1,
                                    .attn_scale = 1,
                                    .logit_scale = 1,
                                    .low = {1, 1},
                                    .high = {1, 1},
                                    .params_max = 1e12,
                                    .seq_max = 1 << 20,
                                    .tokens_max = 1e12};
}

/* h 8, f 32, l 2, a 2, V 100, s 4: W = 800 + 32 + 2 (768 + 104) + 16. */
static struct firn_memory_job tiny(void)
{
    struct firn_memory_job j = {.shape = {.hidden = 8,
                                          .layers = 2,
                                          .heads = 2,
                                          .vocab = 100,
                                          .is_tied = true},
                                .seq = 4,
                                .micro_batch = 3};
    assert_int_equal(firn_memory_check(&j, NULL), FIRN_OK);
    return j;
}

enum { TINY_W = 800 + 32 + 2 * 872 + 16 };

static void each_precision_keeps_its_tensors(void **state)
{
    (void)state;
    struct firn_memory_fit fit = bare();
    struct firn_memory_job j = tiny();
    /* 12 tokens. Activations a layer, token and unit of h: fp32 114, bf16 58,
     * amp 86; the attention of a token, 2 heads x 4 positions x 9, 5, 7;
     * 12 bytes x 100 logits a token. Static: 16, 8, 16 bytes W; amp's copies
     * 2 W. */
    static const struct {
        double stat, copies, unit, attn;
    } want[] = {{16, 0, 114, 9}, {8, 0, 58, 5}, {16, 2, 86, 7}, {20, 0, 34, 5}};
    for (int p = 0; p < 4; p++) {
        j.precision = (enum firn_precision)p;
        double live = 12 * (2 * (want[p].unit * 8 + want[p].attn * 8) + 1200);
        struct firn_memory m = firn_memory_of(&j, &fit);
        assert_true(near(m.alloc_mib * MIB,
                         (want[p].stat + want[p].copies) * TINY_W + live));
        assert_true(near(m.activations_mib * MIB, live));
        j.attention = FIRN_ATTENTION_SDPA;
        m = firn_memory_of(&j, &fit);
        assert_true(
            near(m.activations_mib * MIB, live - 12 * 2 * want[p].attn * 8));
        j.attention = FIRN_ATTENTION_EAGER;
    }
}

static void the_optimizer_keeps_its_moments(void **state)
{
    (void)state;
    struct firn_memory_fit fit = bare();
    struct firn_memory_job j = tiny();
    j.precision = FIRN_PRECISION_AMP;
    static const double moments[] = {8, 4, 0};
    for (int o = 0; o < 3; o++) {
        j.optimizer = (enum firn_optimizer)o;
        struct firn_memory m = firn_memory_of(&j, &fit);
        assert_true(near(m.optimizer_mib * MIB + 1, moments[o] * TINY_W + 1));
        assert_true(near(m.weights_mib * MIB, 6.0 * TINY_W));
        assert_true(near(m.gradients_mib * MIB, 4.0 * TINY_W));
    }
    /* Megatron: 2 weights, 2 + 4 gradients, 12 optimizer: 20 bytes. */
    j.precision = FIRN_PRECISION_MEGATRON;
    j.optimizer = FIRN_OPTIMIZER_ADAMW;
    struct firn_memory m = firn_memory_of(&j, &fit);
    assert_true(near((m.weights_mib + m.gradients_mib + m.optimizer_mib) * MIB,
                     20.0 * TINY_W));
}

static void checkpointing_keeps_the_inputs_of_layers(void **state)
{
    (void)state;
    struct firn_memory_fit fit = bare();
    struct firn_memory_job j = tiny();
    j.is_checkpointing = true;
    j.precision = FIRN_PRECISION_FP32;
    /* Inputs 4 x 8 x 2 layers x 12 tokens = 768; the loss 12 x 100 x 12 tokens
     * = 14400; one layer 12 (114 x 8 + 9 x 8) = 11808; Adam's scratch 4 W =
     * 10368. The loss wins: 16 W + 768 + 14400. */
    struct firn_memory m = firn_memory_of(&j, &fit);
    assert_true(near(m.alloc_mib * MIB, 16.0 * TINY_W + 768 + 14400));
    /* With one token the scratch wins, and counts as the optimizer's. */
    j.micro_batch = 1;
    j.seq = 1;
    double w = firn_llm_params(&j.shape, 1);
    m = firn_memory_of(&j, &fit);
    assert_true(near(m.optimizer_mib * MIB, 12 * w));
    assert_true(m.activations_mib == 0);
    /* With a small vocabulary the layer wins. */
    j = tiny();
    j.is_checkpointing = true;
    j.shape.vocab = 2;
    j.micro_batch = 30;
    w = firn_llm_params(&j.shape, 4);
    m = firn_memory_of(&j, &fit);
    assert_true(near(m.alloc_mib * MIB, 16 * w + 7680 + 118080));
}

static void freed_gradients_are_there_only_at_the_end(void **state)
{
    (void)state;
    struct firn_memory_fit fit = bare();
    struct firn_memory_job j = tiny();
    j.frees_gradients = true;
    /* fp32, 12 tokens: the loss has 12 W and 12 (2 x 984 + 1200) = 38016
     * bytes; the step 16 W and 4 W of scratch, 20736 more than 12 W. */
    struct firn_memory m = firn_memory_of(&j, &fit);
    assert_true(near(m.alloc_mib * MIB, 12.0 * TINY_W + 38016));
    assert_true(m.gradients_mib == 0);
    /* A quarter of the tokens: the step wins. */
    j.micro_batch = 1;
    m = firn_memory_of(&j, &fit);
    assert_true(near(m.alloc_mib * MIB, 20.0 * TINY_W));
    assert_true(near(m.gradients_mib * MIB, 4.0 * TINY_W));
    /* Plain SGD has no scratch: the end of the backward pass, 8 W and one
     * layer of 4 tokens, 4 x 984; the loss would be 4 W + 12672. */
    j.optimizer = FIRN_OPTIMIZER_SGD_PLAIN;
    m = firn_memory_of(&j, &fit);
    assert_true(near(m.alloc_mib * MIB, 8.0 * TINY_W + 3936));
}

static void tensor_parallel_divides_all_but_the_norms(void **state)
{
    (void)state;
    struct firn_memory_fit fit = bare();
    struct firn_memory_job j = tiny();
    j.tp = 2;
    /* fp32: 18 h shared, 96 h divided; attention and logits divided. */
    double live = 12 * (2 * (18 * 8 + 48 * 8 + 9 * 4) + 600);
    struct firn_memory m = firn_memory_of(&j, &fit);
    assert_true(near(m.alloc_mib * MIB, 8.0 * TINY_W + live));
    /* Megatron's is MARP's: 10 + 24/t + 5 a s/(h t) */
    j.precision = FIRN_PRECISION_MEGATRON;
    m = firn_memory_of(&j, &fit);
    double marp = firn_marp_bytes(&j.shape, 4, 3, 2, 1) -
                  20 * firn_marp_params(&j.shape) / 2;
    assert_true(near(m.activations_mib * MIB, marp + 12.0 * 600));
}

static void zero_divides_stage_by_stage(void **state)
{
    (void)state;
    struct firn_memory_fit fit = bare();
    struct firn_memory_job j = tiny();
    j.dp = 4;
    /* Replicas: gradients twice (buckets). Stage 3: two layers are whole. */
    static const double want[][3] = {
        {4, 8, 8}, {4, 4, 2}, {4, 1, 2}, {1, 1, 2}};
    for (int z = 0; z < 4; z++) {
        j.zero = z;
        struct firn_memory m = firn_memory_of(&j, &fit);
        double whole = z == 3 ? 2 * 872 * 4 : 0;
        assert_true(near(m.weights_mib * MIB, want[z][0] * TINY_W + whole));
        assert_true(near(m.gradients_mib * MIB, want[z][1] * TINY_W));
        assert_true(near(m.optimizer_mib * MIB, want[z][2] * TINY_W));
    }
}

static void lora_trains_only_the_adapters(void **state)
{
    (void)state;
    struct firn_memory_fit fit = bare();
    struct firn_memory_job j = job("llama-7b", 512, 1);
    j.precision = FIRN_PRECISION_BF16;
    struct firn_memory full = firn_memory_of(&j, &fit);
    j.lora_rank = 8;
    j.lora_on = FIRN_LLM_Q | FIRN_LLM_V;
    struct firn_memory m = firn_memory_of(&j, &fit);
    /* 8 x 4 x 4096 x 32 = 4,194,304: the count that LoRA's users know. */
    assert_true(m.trained_params == 4194304);
    assert_true(near(m.gradients_mib, 4194304 * 2 / MIB));
    assert_true(near(m.optimizer_mib, 4194304 * 4 / MIB));
    assert_true(m.expected_mib < 0.6 * full.expected_mib);
    assert_true(m.is_extrapolated);
}

/* Frozen and sharded weights do not move: 70B with LoRA over 8 GPUs was said to
 * need 109 GiB more for fragmentation of the whole model. */
static void frozen_and_sharded_weights_do_not_fragment(void **state)
{
    (void)state;
    struct firn_memory_job j = job("llama-3-70b", 2048, 2);
    j.precision = FIRN_PRECISION_BF16;
    j.is_checkpointing = true;
    j.lora_rank = 8;
    j.lora_on = FIRN_LLM_Q | FIRN_LLM_V;
    j.zero = 3;
    j.dp = 8;
    struct firn_memory m = firn_memory_of(&j, NULL);
    assert_true(m.expected_mib < 40 * 1024);
    assert_true(m.device_mib < 80 * 1024);
    /* Trained replicas keep what calibration found: 1.577 bytes a parameter. */
    struct firn_memory_fit fit = bare();
    fit.frag_param = 1;
    struct firn_memory_job t = tiny();
    t.is_checkpointing = true;
    m = firn_memory_of(&t, &fit);
    assert_true(near((m.reserved_mib - m.alloc_mib) * MIB, TINY_W));
    t.dp = 4;
    t.zero = 3;
    m = firn_memory_of(&t, &fit);
    assert_true(near((m.reserved_mib - m.alloc_mib) * MIB, TINY_W / 4.0));
}

static void parts_add_up_and_the_interval_holds_the_expected(void **state)
{
    (void)state;
    const uint64_t seed = 20261115;
    struct rng rng;
    size_t nshapes;
    const struct firn_llm_shape *shapes = firn_llm_shapes(&nshapes);
    rng_seed(&rng, seed);
    for (int i = 0; i < 20000; i++) {
        struct firn_memory_job j = {
            .shape = shapes[rng_below(&rng, nshapes)],
            .seq = 1 << (1 + rng_below(&rng, 12)),
            .micro_batch = 1 + (int)rng_below(&rng, 64),
            .precision = (enum firn_precision)rng_below(&rng, 4),
            .optimizer = (enum firn_optimizer)rng_below(&rng, 3),
            .attention = (enum firn_attention)rng_below(&rng, 2),
            .is_checkpointing = rng_below(&rng, 2),
            .lora_rank = rng_below(&rng, 2) ? 0 : 8,
            .lora_on = FIRN_LLM_Q,
            .zero = (int)rng_below(&rng, 4),
            .dp = 1 << rng_below(&rng, 5)};
        assert_int_equal(firn_memory_check(&j, NULL), FIRN_OK);
        struct firn_memory m = firn_memory_of(&j, NULL);
        double sum = m.weights_mib + m.gradients_mib + m.optimizer_mib +
                     m.activations_mib + m.overhead_mib;
        if (!near(sum, m.expected_mib) || !(m.low_mib <= m.expected_mib) ||
            !(m.expected_mib <= m.high_mib) || !(m.overhead_mib > 0))
            fail_msg("seed %llu, case %d", (unsigned long long)seed, i);
        j.micro_batch++;
        struct firn_memory more = firn_memory_of(&j, NULL);
        if (more.expected_mib < m.expected_mib)
            fail_msg("seed %llu, case %d: a larger batch takes less",
                     (unsigned long long)seed, i);
    }
}

static void jobs_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    struct firn_error err;
    struct firn_memory_job good = job("gpt2-xl", 1024, 1), j = good;
    j.tp = 2; /* of 25 heads */
    assert_int_equal(firn_memory_check(&j, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "25 heads"));
    j = good;
    j.seq = 0;
    assert_int_equal(firn_memory_check(&j, &err), FIRN_EINVAL);
    j = good;
    j.micro_batch = -1;
    assert_int_equal(firn_memory_check(&j, &err), FIRN_EINVAL);
    j = good;
    j.zero = 4;
    assert_int_equal(firn_memory_check(&j, &err), FIRN_EINVAL);
    j = good;
    j.lora_rank = 4;
    assert_int_equal(firn_memory_check(&j, &err), FIRN_EINVAL);
}

static void what_was_not_measured_is_extrapolated(void **state)
{
    (void)state;
    struct firn_memory_job j = job("gpt2-medium", 1024, 8);
    struct firn_memory m = firn_memory_of(&j, NULL);
    assert_false(m.is_extrapolated);
    double spread = m.high_mib / m.expected_mib;
    j.dp = 2;
    m = firn_memory_of(&j, NULL);
    assert_true(m.is_extrapolated);
    assert_true(m.high_mib / m.expected_mib > spread);
    j = job("llama-7b", 1024, 1);
    assert_true(firn_memory_of(&j, NULL).is_extrapolated);
    j = job("gpt2-medium", 2048, 1);
    assert_true(firn_memory_of(&j, NULL).is_extrapolated);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(each_precision_keeps_its_tensors),
        cmocka_unit_test(the_optimizer_keeps_its_moments),
        cmocka_unit_test(checkpointing_keeps_the_inputs_of_layers),
        cmocka_unit_test(freed_gradients_are_there_only_at_the_end),
        cmocka_unit_test(tensor_parallel_divides_all_but_the_norms),
        cmocka_unit_test(zero_divides_stage_by_stage),
        cmocka_unit_test(lora_trains_only_the_adapters),
        cmocka_unit_test(frozen_and_sharded_weights_do_not_fragment),
        cmocka_unit_test(parts_add_up_and_the_interval_holds_the_expected),
        cmocka_unit_test(jobs_that_make_no_sense_are_refused),
        cmocka_unit_test(what_was_not_measured_is_extrapolated),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
