/* test_peak_terms.c - terms of the breakdown, worked by hand on small models.
 *
 * Every mode of firn/peak.h that test_peak.c does not count has its numbers
 * here; the sentence above an assertion is the calculation. 48 tokens (3
 * samples of 16) make the backward pass of the loss the peak.
 */
#include <firn/peak.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MIB 1048576.0

enum { TOKENS = 48 };

static void set(struct firn_peak_job *job, const char *setting,
                const char *word)
{
    struct firn_error err = {0};
    if (firn_peak_set(job, setting, word, &err) != FIRN_OK)
        fail_msg("%s %s: %s", setting, word, err.text);
}

static struct firn_peak_job job_of(const char *config)
{
    struct firn_peak_job j = {
        .seq = 16, .micro_batch = 3, .mode = FIRN_MODE_BF16};
    struct firn_error err = {0};
    if (firn_arch_read(&j.arch, (struct firn_bytes){config, strlen(config)},
                       &err) != FIRN_OK)
        fail_msg("%s", err.text);
    assert_int_equal(firn_peak_check(&j, NULL), FIRN_OK);
    return j;
}

/* A layer: 4 x 64 + 3 x 256 + 16 = 1040 parameters; all: 2 x 1040 + 8 + 800,
 * and 800 of the output unless it is tied. */
#define LLAMA(tied)                                                         \
    "{\"model_type\":\"llama\",\"hidden_size\":8,\"num_hidden_layers\":2,"  \
    "\"num_attention_heads\":2,\"intermediate_size\":32,\"vocab_size\":100" \
    ",\"tie_word_embeddings\":" tied "}"

static const char qwen3_moe[] =
    "{\"model_type\":\"qwen3_moe\",\"hidden_size\":8,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":2,\"num_key_value_heads\":2,\"head_dim\":4,"
    "\"intermediate_size\":32,\"moe_intermediate_size\":6,\"num_experts\":4,"
    "\"num_experts_per_tok\":2,\"vocab_size\":100,"
    "\"tie_word_embeddings\":false}";

/* Asserts that a term has this many bytes. */
static void has(const struct firn_peak_job *job, enum firn_peak_term term,
                double bytes)
{
    struct firn_peak m = firn_peak_of(job);
    double got = m.terms_mib[term] * MIB;
    if (fabs(got - bytes) > 1e-6 * (1 + bytes))
        fail_msg("%s: %.3f bytes, not %.3f (peak: %s)",
                 firn_peak_term_word(term), got, bytes,
                 firn_peak_moment_word(m.moment));
}

/* --- layers --------------------------------------------------------------- */

static void t5_keeps_the_matrices_of_plain_attention(void **state)
{
    (void)state;
    struct firn_peak_job j =
        job_of("{\"model_type\":\"t5\",\"d_model\":8,\"num_layers\":2,"
               "\"num_heads\":2,\"d_kv\":4,\"d_ff\":32,\"vocab_size\":100}");
    /* 4 self-attentions of 9 bytes a head and pair; one shared bias of zeros
     * in bf16; 16 bytes of indices a pair. */
    has(&j, FIRN_TERM_MATRICES,
        4 * 9 * 2 * TOKENS * 16 + 2 * 2 * 256 + 16 * 256);
    /* q, k, v in fp32 and the output: 112 a token. To the encoder: 4 x 8 in
     * bf16 and 4 a head: 72. */
    has(&j, FIRN_TERM_ATTENTION, TOKENS * (4 * 112 + 2 * 72));
    /* ReLU and what dropout leaves, 32 wide. */
    has(&j, FIRN_TERM_MLP, TOKENS * 4 * 2 * 32 * 2);
    /* Masks of width 8 and 32: 48 in the encoder, 56 in the decoder. */
    has(&j, FIRN_TERM_MASKS, TOKENS * 2 * (48 + 56));
    /* 10 bytes a norm: 2 and 3 a layer, 2 at the ends; the encoder's output,
     * masks at four ends. */
    has(&j, FIRN_TERM_NORMS, TOKENS * (2 * 160 + 2 * 240 + 2 * 80 + 16 + 32));
    /* Logits as they come: log-softmax and two gradients in bf16. */
    has(&j, FIRN_TERM_LOGITS, TOKENS * 100 * 6);
}

static void adapters_on_experts_are_added_to_a_copy_of_them(void **state)
{
    (void)state;
    struct firn_peak_job j = job_of(qwen3_moe);
    set(&j, "lora", "2");
    set(&j, "lora_on", "all");
    /* A layer: attention 2 x 4 x 16; experts 2 x 4 x (2 x (8 + 12) + 14). */
    assert_true(firn_peak_of(&j).trained == 2 * (128 + 432));
    has(&j, FIRN_TERM_ADAPTERS, 4 * 1120);
    /* 4 x 3 x 8 x 6 weights and 432 of adapters in bf16, for each layer. */
    has(&j, FIRN_TERM_CASTS, 2 * 2 * (576 + 432));
    /* 2 of 4 experts: input 8, 4 products of 6, output 8; router 12 x 4. */
    has(&j, FIRN_TERM_EXPERTS, TOKENS * 2 * (2 * 2 * (8 + 24 + 8) + 48));
    set(&j, "lora_on", "q,v");
    has(&j, FIRN_TERM_CASTS, 0);
    assert_true(firn_peak_of(&j).trained == 2 * 2 * 2 * 16);
}

static void autocast_does_not_reach_experts(void **state)
{
    (void)state;
    struct firn_peak_job j = job_of(qwen3_moe);
    set(&j, "precision", "amp");
    /* Not embedding and experts: a layer's attention 4 x 64, norms 2 x 8 and
     * 2 x 4, router 8 x 4; the last norm and the output. */
    has(&j, FIRN_TERM_CASTS, 2 * (2 * (256 + 16 + 8 + 32) + 8 + 800));
    /* In fp32: 2 x 4 x (8 + 24 + 8); the router's copy 2 x 8, 12 x 4. */
    has(&j, FIRN_TERM_EXPERTS, TOKENS * 2 * (2 * 4 * (8 + 24 + 8) + 16 + 48));
}

static void scores_under_tanh_are_kept_too(void **state)
{
    (void)state;
    struct firn_peak_job j =
        job_of("{\"model_type\":\"gemma2\",\"hidden_size\":8,"
               "\"num_hidden_layers\":2,\"num_attention_heads\":2,"
               "\"num_key_value_heads\":2,\"head_dim\":4,"
               "\"intermediate_size\":32,\"vocab_size\":100}");
    /* No fused kernel. bf16: softmax in fp32 and bf16, tanh in bf16: 8 a head
     * and pair. */
    has(&j, FIRN_TERM_MATRICES, 2 * 8 * 2 * TOKENS * 16);
    set(&j, "precision", "fp32");
    has(&j, FIRN_TERM_MATRICES, 2 * 8 * 2 * TOKENS * 16);
    set(&j, "precision", "bf16");
    j.arch.has_score_cap = false;
    has(&j, FIRN_TERM_MATRICES, 0);
}

static void a_config_may_say_that_gemma2_has_no_caps(void **state)
{
    (void)state;
#define GEMMA2(more)                                                        \
    "{\"model_type\":\"gemma2\",\"hidden_size\":8,\"num_hidden_layers\":2," \
    "\"num_attention_heads\":2,\"intermediate_size\":32,"                   \
    "\"vocab_size\":100" more "}"
    struct firn_peak_job j = job_of(GEMMA2(""));
    assert_true(j.arch.has_score_cap && j.arch.has_logit_cap);
    j = job_of(GEMMA2(",\"attn_logit_softcapping\":null"));
    assert_true(!j.arch.has_score_cap && j.arch.has_logit_cap);
    j = job_of(GEMMA2(",\"final_logit_softcapping\":null"));
    assert_true(j.arch.has_score_cap && !j.arch.has_logit_cap);
}

static void queries_joined_anew_cost_a_copy_of_the_output(void **state)
{
    (void)state;
    struct firn_peak_job j = job_of(
        "{\"model_type\":\"phi3\",\"hidden_size\":8,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":2,\"intermediate_size\":32,"
        "\"vocab_size\":100,\"tie_word_embeddings\":false}");
    /* q and k rotated 16, the matrix's output 24, the kernel's 8 and a copy
     * 8, in bf16; 4 a head. */
    has(&j, FIRN_TERM_ATTENTION, TOKENS * 2 * ((16 + 24 + 8 + 8) * 2 + 8));
}

/* --- gradients ------------------------------------------------------------ */

static void a_tied_embedding_has_three_gradients(void **state)
{
    (void)state;
    struct firn_peak_job j = job_of(LLAMA("true"));
    j.seq = 1;
    j.micro_batch = 1;
    set(&j, "optimizer", "adamw-fused");
    assert_int_equal(firn_peak_of(&j).moment, FIRN_MOMENT_EMBEDDING);
    has(&j, FIRN_TERM_GRADIENTS, 2 * (2 * 1040 + 8 + 800));
    has(&j, FIRN_TERM_WORK, 2 * 2 * 800);
}

static void kept_gradients_are_there_at_the_loss(void **state)
{
    (void)state;
    struct firn_peak_job j = job_of(LLAMA("false"));
    assert_int_equal(firn_peak_of(&j).moment, FIRN_MOMENT_LOSS_BACK);
    has(&j, FIRN_TERM_GRADIENTS, 0);
    set(&j, "gradients", "keep");
    has(&j, FIRN_TERM_GRADIENTS, 2 * 3688);
}

/* --- optimizers and adapters ---------------------------------------------- */

static void adafactor_keeps_rows_and_columns(void **state)
{
    (void)state;
    struct firn_peak_job j = job_of(LLAMA("false"));
    set(&j, "optimizer", "adafactor");
    /* fp32, a number a row and one a column of matrices of 8 x 32. */
    has(&j, FIRN_TERM_MOMENTS, 3688 * 4 * (1.0 / 8 + 1.0 / 32));
}

static void lion_keeps_one_moment_in_fp32_and_8_bit_adam_two_bytes(void **state)
{
    (void)state;
    struct firn_peak_job j = job_of(LLAMA("false"));
    has(&j, FIRN_TERM_MOMENTS, 4 * 3688);
    set(&j, "optimizer", "lion");
    has(&j, FIRN_TERM_MOMENTS, 4 * 3688);
    set(&j, "optimizer", "adamw-8bit");
    has(&j, FIRN_TERM_MOMENTS, (2 + 8.0 / 256) * 3688);
}

static void master_weights_are_counted_beside(void **state)
{
    (void)state;
    struct firn_peak_job j = job_of(LLAMA("false"));
    set(&j, "precision", "bf16-master");
    has(&j, FIRN_TERM_WEIGHTS, 2 * 3688);
    has(&j, FIRN_TERM_MASTER, 4 * 3688);
    has(&j, FIRN_TERM_MOMENTS, 8 * 3688);
}

static void dora_has_magnitudes_and_keeps_outputs(void **state)
{
    (void)state;
    struct firn_peak_job j = job_of(LLAMA("false"));
    set(&j, "adapter", "dora");
    set(&j, "lora", "2");
    set(&j, "lora_on", "q,v");
    /* A layer: 2 x 2 x 16 and 2 magnitudes of 8. */
    has(&j, FIRN_TERM_ADAPTERS, 4 * 2 * (64 + 16));
    /* Inputs in fp32 and 2 ranks each; outputs in bf16 and fp32. */
    has(&j, FIRN_TERM_LORA,
        TOKENS * 2 * (2 * 8 * 4 + 2 * 2 * 4 + 2 * 8 * (2 + 4)));
}

static void selective_recomputation_keeps_products(void **state)
{
    (void)state;
    struct firn_peak_job j = job_of(LLAMA("false"));
    has(&j, FIRN_TERM_MLP, TOKENS * 2 * 4 * 32 * 2);
    double whole = firn_peak_of(&j).expected_mib;
    set(&j, "checkpointing", "selective");
    /* Gate and up, bf16; the layer in its backward pass comes on top when the
     * peak is there. */
    assert_int_equal(firn_peak_of(&j).moment, FIRN_MOMENT_LOSS_BACK);
    has(&j, FIRN_TERM_MLP, TOKENS * 2 * 2 * 32 * 2);
    assert_true(firn_peak_of(&j).expected_mib < whole);
    set(&j, "checkpointing", "layers");
    has(&j, FIRN_TERM_MLP, 0);
    has(&j, FIRN_TERM_INPUTS, TOKENS * 2 * 8 * 2);
}

/* --- several GPUs --------------------------------------------------------- */

static void offload_takes_optimizer_and_inputs_away(void **state)
{
    (void)state;
    struct firn_peak_job j = job_of(LLAMA("false"));
    j.arch.layers = 6;
    set(&j, "checkpointing", "layers");
    has(&j, FIRN_TERM_INPUTS, TOKENS * 6 * 8 * 2);
    set(&j, "offload", "optimizer,activations");
    has(&j, FIRN_TERM_INPUTS, 0); /* at the loss none is there */
    has(&j, FIRN_TERM_MOMENTS, 0);
    set(&j, "checkpointing", "off");
    has(&j, FIRN_TERM_NORMS, 0);
    has(&j, FIRN_TERM_MLP, 0);
}

/* At the loss no matrix is unpacked; in a layer's backward pass one of 8 x 32
 * in bf16 is. */
static void qlora_unpacks_a_matrix_in_the_pass_of_its_layer(void **state)
{
    (void)state;
    struct firn_peak_job j = job_of(LLAMA("false"));
    set(&j, "adapter", "qlora");
    set(&j, "lora", "2");
    set(&j, "lora_on", "q,v");
    set(&j, "checkpointing", "layers");
    has(&j, FIRN_TERM_CASTS, 0);
    j.arch.vocab = 4; /* the loss is small: the layer is the peak */
    double packed = firn_peak_of(&j).terms_mib[FIRN_TERM_WORK];
    set(&j, "adapter", "lora");
    double plain = firn_peak_of(&j).terms_mib[FIRN_TERM_WORK];
    assert_true(fabs((packed - plain) * MIB - 8 * 32 * 2) < 1e-6);
}

/* Autocast copies the output matrix (800) and 2 layers' norms, of 16, and the
 * last, of 8; no matrix of a layer. */
static void autocast_copies_no_packed_matrix(void **state)
{
    (void)state;
    struct firn_peak_job j = job_of(LLAMA("false"));
    set(&j, "adapter", "qlora");
    set(&j, "lora", "2");
    set(&j, "lora_on", "q,v");
    set(&j, "precision", "amp");
    has(&j, FIRN_TERM_CASTS, 2 * (800 + 2 * 16 + 8));
}

static void sequence_parallel_divides_norms(void **state)
{
    (void)state;
    struct firn_peak_job j = job_of(LLAMA("false"));
    j.tp = 2;
    /* 2 norms of 8 bytes a layer and the last, which is not divided. */
    has(&j, FIRN_TERM_NORMS, TOKENS * (2 * 2 * 64 + 64));
    set(&j, "sequence", "yes");
    has(&j, FIRN_TERM_NORMS, TOKENS * (2 * 2 * 64 / 2 + 64));
}

static void a_pipeline_keeps_layers_of_its_micro_batches(void **state)
{
    (void)state;
    struct firn_peak_job j = job_of(LLAMA("false"));
    j.arch.layers = 8;
    j.pp = 4;
    j.micro_batches = 8;
    j.arch.vocab = 4; /* the first stage, which has no logits, is the peak */
    struct firn_peak m = firn_peak_of(&j);
    assert_int_equal(m.stage, 0);
    /* 2 layers of 4 micro-batches, and the one in its backward pass is one of
     * them. */
    has(&j, FIRN_TERM_MLP, TOKENS * 2 * 4 * 4 * 32 * 2);
    has(&j, FIRN_TERM_WEIGHTS, 2 * (2 * 1040 + 4 * 8));
}

static void expert_parallel_divides_experts_alone(void **state)
{
    (void)state;
    struct firn_peak_job j = job_of(qwen3_moe);
    double all = firn_arch_params(&j.arch);
    j.dp = 4;
    has(&j, FIRN_TERM_WEIGHTS, 2 * all);
    j.ep = 4;
    has(&j, FIRN_TERM_WEIGHTS, 2 * (all - 2 * 576 * 3.0 / 4));
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(t5_keeps_the_matrices_of_plain_attention),
        cmocka_unit_test(adapters_on_experts_are_added_to_a_copy_of_them),
        cmocka_unit_test(autocast_does_not_reach_experts),
        cmocka_unit_test(scores_under_tanh_are_kept_too),
        cmocka_unit_test(a_config_may_say_that_gemma2_has_no_caps),
        cmocka_unit_test(queries_joined_anew_cost_a_copy_of_the_output),
        cmocka_unit_test(a_tied_embedding_has_three_gradients),
        cmocka_unit_test(kept_gradients_are_there_at_the_loss),
        cmocka_unit_test(adafactor_keeps_rows_and_columns),
        cmocka_unit_test(
            lion_keeps_one_moment_in_fp32_and_8_bit_adam_two_bytes),
        cmocka_unit_test(master_weights_are_counted_beside),
        cmocka_unit_test(dora_has_magnitudes_and_keeps_outputs),
        cmocka_unit_test(selective_recomputation_keeps_products),
        cmocka_unit_test(offload_takes_optimizer_and_inputs_away),
        cmocka_unit_test(qlora_unpacks_a_matrix_in_the_pass_of_its_layer),
        cmocka_unit_test(autocast_copies_no_packed_matrix),
        cmocka_unit_test(sequence_parallel_divides_norms),
        cmocka_unit_test(a_pipeline_keeps_layers_of_its_micro_batches),
        cmocka_unit_test(expert_parallel_divides_experts_alone),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
