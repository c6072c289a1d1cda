/* test_memseen.c - what was seen of models is kept apart, saved and loaded. */
#include "base/buf.h"
#include "daemon/memseen.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct firn_job_spec job(const char *app, const char *precision,
                                const char *mode)
{
    struct firn_job_spec spec = {.app = app};
    assert_true(
        firn_training_set(&spec.training, FIRN_TRAINING_PRECISION, precision));
    assert_true(firn_training_set(&spec.training, FIRN_TRAINING_MODE, mode));
    return spec;
}

static void models_and_modes_are_kept_apart(void **state)
{
    (void)state;
    struct memseen *seen = memseen_new();
    struct firn_job_spec full = job("a", "bf16", ""),
                         lora = job("a", "bf16", "lora"),
                         rank = job("a", "bf16", ""),
                         other = job("b", "bf16", "");
    struct firn_peak_seen now = {.mean = 1.25, .n = 3};
    rank.training.lora = 16; /* LoRA, too */
    assert_true(memseen_ratio(seen, &full) == 0);
    memseen_put(seen, &full, &now);
    assert_true(memseen_ratio(seen, &full) == 1.25);
    assert_true(memseen_ratio(seen, &lora) == 0);
    assert_true(memseen_ratio(seen, &other) == 0);
    now.mean = 1.5;
    memseen_put(seen, &lora, &now);
    assert_true(memseen_ratio(seen, &rank) == 1.5);
    assert_true(memseen_ratio(seen, &full) == 1.25);
    memseen_free(seen);
}

static void what_is_saved_is_loaded(void **state)
{
    (void)state;
    struct memseen *seen = memseen_new(), *again = memseen_new();
    struct firn_job_spec spec = job("a model", "amp", "qlora");
    struct firn_peak_seen now = {
        .mean = 1.1, .floor = 1.0 / 3, .n = 7, .failures = 2};
    struct firn_buf text = {0}, twice = {0};
    memseen_put(seen, &spec, &now);
    memseen_save(seen, &text);
    memseen_load(again, text.at);
    struct firn_peak_seen got = memseen_get(again, &spec);
    assert_memory_equal(&got, &now, sizeof now);
    memseen_save(again, &twice);
    assert_string_equal(text.at, twice.at);
    /* Damaged lines are left out. */
    memseen_load(again, "1 1 1\nx\n9 0 1 0 k\n1 0 -1 0 k\nnan 0 1 0 k\n\n");
    buf_clear(&twice);
    memseen_save(again, &twice);
    assert_string_equal(text.at, twice.at);
    buf_release(&text);
    buf_release(&twice);
    memseen_free(seen);
    memseen_free(again);
}

static void the_oldest_of_many_is_forgotten(void **state)
{
    (void)state;
    struct memseen *seen = memseen_new();
    struct firn_peak_seen now = {.mean = 1.5, .n = 1};
    char name[16];
    for (int i = 0; i <= 256; i++) {
        snprintf(name, sizeof name, "m%d", i);
        struct firn_job_spec spec = job(name, "", "");
        memseen_put(seen, &spec, &now);
        if (i == 255) { /* the first is the newest now */
            spec.app = "m0";
            memseen_put(seen, &spec, &now);
        }
    }
    struct firn_job_spec first = job("m0", "", ""), second = job("m1", "", "");
    assert_true(memseen_ratio(seen, &first) == 1.5);
    assert_true(memseen_ratio(seen, &second) == 0);
    memseen_free(seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_and_modes_are_kept_apart),
        cmocka_unit_test(what_is_saved_is_loaded),
        cmocka_unit_test(the_oldest_of_many_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
