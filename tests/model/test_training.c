/* test_training.c - settings of training by their words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <firn/memory.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_said_is_what_frenzys_formula_speaks_of),
        cmocka_unit_test(a_word_sets_its_setting_alone),
        cmocka_unit_test(an_unknown_word_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
