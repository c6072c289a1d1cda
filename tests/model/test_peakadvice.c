/* test_peakadvice.c - changes with which a job fits a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <firn/peakplan.h>
#include <stdio.h>
#include <string.h>

enum { MANY = 64 };

static const struct firn_llm_gpus h100 = {
    .name = "h100", .mem_gib = 80, .speed = 1, .node_gpus = 8, .count = 8};

static struct firn_peak_job model(const char *name, int micro_batch)
{
    struct firn_peak_job job = {
        .seq = 2048, .micro_batch = micro_batch, .mode = FIRN_MODE_BF16};
    assert_int_equal(firn_arch_find(&job.arch, name, NULL), FIRN_OK);
    assert_int_equal(firn_peak_check(&job, NULL), FIRN_OK);
    return job;
}

static double price(const struct firn_peak_advice *a)
{
    return a->slowdown * (a->changes_training ? 3 : 1);
}

/* Applies the options of an advice, as firn memory would. */
static struct firn_peak_job with(struct firn_peak_job job, const char *text)
{
    char copy[FIRN_ADVICE_TEXT], *rest = copy, *word;
    char *words[16] = {NULL};
    int n = 0;
    snprintf(copy, sizeof copy, "%s", text);
    while (n < 15 && (word = strtok_r(rest, " ", &rest)) != NULL)
        words[n++] = word;
    for (int i = 0; i < n; i++) {
        const char *name = words[i] + 2, *value = words[i + 1];
        if (strcmp(name, "checkpointing") == 0) {
            job.recompute = FIRN_RECOMPUTE_LAYERS;
            continue;
        }
        if (strcmp(name, "selective") == 0) {
            job.recompute = FIRN_RECOMPUTE_SELECTIVE;
            continue;
        }
        if (strcmp(name, "micro-batch") == 0) {
            job.keeps_gradients = true;
            name = "micro_batch";
        }
        if (strcmp(name, "lora-on") == 0)
            name = "lora_on";
        if (strcmp(name, "qlora") == 0) {
            job.adapter = FIRN_ADAPTER_QLORA;
            name = "lora";
        }
        struct firn_error err = {0};
        if (firn_peak_set(&job, name, value, &err) != FIRN_OK)
            fail_msg("%s %s: %s", name, value, err.text);
        i++;
    }
    assert_int_equal(firn_peak_check(&job, NULL), FIRN_OK);
    return job;
}

static size_t advise(const struct firn_peak_job *job, double mem_gib,
                     struct firn_peak_advice out[MANY], size_t max)
{
    size_t n = firn_peak_advise(job, mem_gib, &h100, out, max);
    assert_true(n <= max);
    for (size_t i = 0; i < n; i++) {
        struct firn_peak_job changed = with(*job, out[i].text);
        double mib = firn_peak_of(&changed).device_mib;
        if (mib > mem_gib * 1024 || mib != out[i].device_mib)
            fail_msg("%s: %g MiB, %g MiB said", out[i].text, mib,
                     out[i].device_mib);
        assert_int_equal(out[i].gpus, changed.tp * changed.pp * changed.dp);
        if (i > 0)
            assert_true(price(&out[i - 1]) <= price(&out[i]));
    }
    return n;
}

static bool has(const struct firn_peak_advice *all, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i].text, text) == 0)
            return true;
    return false;
}

static void a_job_that_fits_needs_no_change(void **state)
{
    (void)state;
    struct firn_peak_advice out[MANY];
    struct firn_peak_job job = model("qwen2.5-0.5b", 1);
    assert_int_equal(firn_peak_advise(&job, 80, &h100, out, MANY), 0);
}

/* Every kind of change is found where it does it alone, and what is cheap in
 * time comes first. */
static void each_single_change_is_found(void **state)
{
    (void)state;
    static const char *const texts[] = {"--loss fused", "--checkpointing",
                                        "--zero 3 --dp 8",
                                        "--lora 16 --lora-on all"};
    struct firn_peak_advice out[MANY];
    struct firn_peak_job job = model("llama-3.1-8b", 2);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct firn_peak_job changed = with(job, texts[i]);
        double gib = firn_peak_of(&changed).device_mib / 1024;
        assert_true(gib * 1024 < firn_peak_of(&job).device_mib);
        size_t n = advise(&job, gib, out, MANY);
        if (!has(out, n, texts[i]) && strstr(texts[i], "lora") == NULL)
            fail_msg("%s is missing at %g GiB", texts[i], gib);
    }
}

static void the_largest_micro_batch_that_fits_is_found(void **state)
{
    (void)state;
    struct firn_peak_advice out[MANY];
    struct firn_peak_job job = model("qwen2.5-1.5b", 16);
    size_t n = advise(&job, 80, out, MANY);
    char text[FIRN_ADVICE_TEXT];
    struct firn_peak_job kept = job;
    kept.keeps_gradients = true;
    int most = firn_peak_largest(&kept, 80);
    assert_true(most >= 1 && most < 16);
    snprintf(text, sizeof text, "--micro-batch %d", most);
    assert_true(has(out, n, text));
    kept.micro_batch = most;
    assert_true(firn_peak_of(&kept).device_mib <= 80 * 1024);
    kept.micro_batch = most + 1;
    assert_true(firn_peak_of(&kept).device_mib > 80 * 1024);
}

/* Of all that is found, the three that are asked for are the cheapest. */
static void three_are_the_cheapest_of_all(void **state)
{
    (void)state;
    static const char *const names[] = {"llama-3.1-8b", "qwen2.5-7b",
                                        "mistral-7b", "gemma-2b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int gib = 16; gib <= 80; gib += 16) {
            struct firn_peak_advice three[MANY], all[MANY];
            struct firn_peak_job job = model(names[i], 8);
            size_t n = advise(&job, gib, three, 3);
            size_t most = advise(&job, gib, all, MANY);
            assert_true(most >= n);
            for (size_t k = 0; k < n; k++)
                assert_true(price(&three[k]) <= price(&all[k]) + 1e-12);
        }
}

/* Two are not enough: three together are tried. */
static void three_changes_together_are_tried(void **state)
{
    (void)state;
    struct firn_peak_advice out[MANY];
    struct firn_peak_job job = model("llama-3.1-8b", 32);
    size_t n = 0;
    int gib = 160;
    bool is_found = false;
    for (; gib > 4 && !is_found; gib -= 2) {
        n = advise(&job, gib, out, 3);
        for (size_t i = 0; i < n; i++)
            is_found = is_found || (strstr(out[i].text, "--micro-batch") &&
                                    strstr(out[i].text, "--qlora") &&
                                    strstr(out[i].text, "--loss"));
    }
    assert_true(is_found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_that_fits_needs_no_change),
        cmocka_unit_test(each_single_change_is_found),
        cmocka_unit_test(the_largest_micro_batch_that_fits_is_found),
        cmocka_unit_test(three_are_the_cheapest_of_all),
        cmocka_unit_test(three_changes_together_are_tried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
