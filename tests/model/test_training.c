/* test_training.c - settings of training by their words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <firn/peak.h>

static void nothing_said_is_what_frenzys_formula_speaks_of(void **unused)
{
    (void)unused;
    struct firn_training training = {0};
    struct firn_memory_job job = {.is_checkpointing = true};
    firn_training_apply(&training, &job);
    assert_int_equal(job.precision, FIRN_PRECISION_MEGATRON);
    assert_int_equal(job.optimizer, FIRN_OPTIMIZER_ADAMW);
    assert_int_equal(job.attention, FIRN_ATTENTION_EAGER);
    assert_false(job.is_checkpointing);
    for (int i = 0; i < FIRN_TRAINING_SETTINGS; i++)
        assert_string_equal(
            firn_training_word(&training, (enum firn_training_setting)i), "");
}

static void a_word_sets_its_setting_alone(void **unused)
{
    (void)unused;
    struct firn_training training = {0};
    struct firn_memory_job job = {0};
    assert_true(firn_training_set(&training, FIRN_TRAINING_PRECISION, "bf16"));
    assert_true(
        firn_training_set(&training, FIRN_TRAINING_OPTIMIZER, "sgd-plain"));
    assert_true(firn_training_set(&training, FIRN_TRAINING_ATTENTION, "sdpa"));
    assert_true(
        firn_training_set(&training, FIRN_TRAINING_CHECKPOINTING, "layers"));
    firn_training_apply(&training, &job);
    assert_int_equal(job.precision, FIRN_PRECISION_BF16);
    assert_int_equal(job.optimizer, FIRN_OPTIMIZER_SGD_PLAIN);
    assert_int_equal(job.attention, FIRN_ATTENTION_SDPA);
    assert_true(job.is_checkpointing);
    assert_string_equal(firn_training_word(&training, FIRN_TRAINING_OPTIMIZER),
                        "sgd-plain");
    assert_true(firn_training_set(&training, FIRN_TRAINING_PRECISION, ""));
    firn_training_apply(&training, &job);
    assert_int_equal(job.precision, FIRN_PRECISION_MEGATRON);
    assert_int_equal(job.attention, FIRN_ATTENTION_SDPA);
}

static void an_unknown_word_changes_nothing(void **unused)
{
    (void)unused;
    struct firn_training training = {.precision = 2};
    assert_false(firn_training_set(&training, FIRN_TRAINING_PRECISION, "fp8"));
    assert_false(firn_training_set(&training, FIRN_TRAINING_ATTENTION, "bf16"));
    assert_int_equal(training.precision, 2);
    assert_int_equal(training.attention, 0);
}

/* Every word of peak.h that a job file has, and what it becomes. */
static void words_of_peaks_are_read_and_applied(void **unused)
{
    (void)unused;
    struct firn_training training = {0};
    struct firn_peak_job job = {0};
    static const struct {
        enum firn_training_setting setting;
        const char *word;
    } said[] = {{FIRN_TRAINING_LOSS, "fused"},
                {FIRN_TRAINING_MODE, "qlora"},
                {FIRN_TRAINING_ZERO, "fsdp"},
                {FIRN_TRAINING_LORA_PRECISION, "bf16"},
                {FIRN_TRAINING_LORA, "64"},
                {FIRN_TRAINING_LORA_ON, "q,v"},
                {FIRN_TRAINING_OFFLOAD, "optimizer,activations"},
                {FIRN_TRAINING_ACCUMULATION, "4"}};
    assert_false(firn_training_peak(&training, &job));
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        struct firn_training alone = {0};
        assert_true(firn_training_set(&alone, said[i].setting, said[i].word));
        job = (struct firn_peak_job){0};
        assert_true(firn_training_peak(&alone, &job));
        assert_true(
            firn_training_set(&training, said[i].setting, said[i].word));
    }
    job = (struct firn_peak_job){0};
    assert_true(firn_training_peak(&training, &job));
    assert_int_equal(job.loss, FIRN_LOSS_FUSED);
    assert_int_equal(job.adapter, FIRN_ADAPTER_QLORA);
    assert_int_equal(job.zero, 3);
    assert_true(job.is_adapter_half);
    assert_int_equal(job.rank, 64);
    assert_int_equal(job.on, FIRN_LLM_Q | FIRN_LLM_V);
    assert_true(job.offloads_optimizer && job.offloads_activations);
    assert_int_equal(training.accumulation, 4);
    assert_false(firn_training_set(&training, FIRN_TRAINING_LORA, "0"));
    assert_false(firn_training_set(&training, FIRN_TRAINING_LORA_ON, "x"));
    assert_false(firn_training_set(&training, FIRN_TRAINING_ZERO, "4"));
    assert_int_equal(training.lora, 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_said_is_what_frenzys_formula_speaks_of),
        cmocka_unit_test(a_word_sets_its_setting_alone),
        cmocka_unit_test(an_unknown_word_changes_nothing),
        cmocka_unit_test(words_of_peaks_are_read_and_applied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
