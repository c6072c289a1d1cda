/* test_arch.c - architectures by config.json and by name.
 *
 * tests/model/configs/counts.csv has the parameters of each file as counted by
 * the classes of the transformers library (5.22) built without memory.
 */
#include "base/files.h"
#include "base/lines.h"
#include <firn/arch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static enum firn_status read_text(const char *text, struct firn_arch *out,
                                  struct firn_error *err)
{
    return firn_arch_read(out, (struct firn_bytes){text, strlen(text)}, err);
}

static struct firn_arch read_file(const char *path)
{
    struct firn_buf text = {0};
    struct firn_error err = {0};
    struct firn_arch arch;
    assert_int_equal(files_text(&text, path, &err), FIRN_OK);
    if (firn_arch_read(&arch, (struct firn_bytes){text.at, text.n}, &err) !=
        FIRN_OK)
        fail_msg("%s: %s", path, err.text);
    firn_buf_release(&text);
    return arch;
}

static void counts_equal_those_of_the_library(void **state)
{
    (void)state;
    struct lines *lines;
    int n = 0;
    assert_int_equal(lines_open(&lines, "tests/model/configs/counts.csv", NULL),
                     FIRN_OK);
    lines_next(lines);
    for (char *line; (line = lines_next(lines)); n++) {
        char *comma = strchr(line, ',');
        assert_non_null(comma);
        *comma = '\0';
        struct firn_arch arch = read_file(line);
        double want = strtod(comma + 1, NULL);
        if (firn_arch_params(&arch) != want)
            fail_msg("%s: %.0f counted, %.0f wanted", line,
                     firn_arch_params(&arch), want);
    }
    lines_close(lines);
    assert_int_equal(n, 40);
}

/* The count of a named model is the one published with it. */
static void names_have_the_published_counts(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double params;
    } want[] = {
        {"llama-3.1-8b", 8030261248},      {"llama-3.1-70b", 70553706496},
        {"mistral-7b", 7241732096},        {"mixtral-8x7b", 46702792704},
        {"qwen2.5-7b", 7615616512},        {"qwen2.5-0.5b", 494032768},
        {"gemma-2-9b", 9241705984},        {"gemma-7b", 8537680896},
        {"phi-3-mini", 3821079552},        {"opt-125m", 125239296},
        {"roberta-base", 124697433},       {"vit-base", 86567656},
        {"qwen3-30b-a3b", 30532122624},    {"t5-small", 60506624},
        {"LLAMA-3.2-1B", 1235814400},      {"deepseek-v2-lite", 15706484224},
        {"qwen1.5-moe-a2.7b", 14315784192}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct firn_arch arch;
        struct firn_error err = {0};
        if (firn_arch_find(&arch, want[i].name, &err) != FIRN_OK)
            fail_msg("%s: %s", want[i].name, err.text);
        if (firn_arch_params(&arch) != want[i].params)
            fail_msg("%s: %.0f", want[i].name, firn_arch_params(&arch));
    }
}

static void every_named_model_makes_sense(void **state)
{
    (void)state;
    assert_true(firn_arch_count() > 80);
    for (size_t i = 0; i < firn_arch_count(); i++) {
        struct firn_arch arch, again;
        struct firn_error err = {0};
        firn_arch_at(i, &arch);
        if (firn_arch_check(&arch, &err) != FIRN_OK)
            fail_msg("%s: %s", arch.name, err.text);
        assert_int_equal(firn_arch_find(&again, arch.name, &err), FIRN_OK);
        assert_string_equal(again.name, arch.name);
    }
}

static void an_unknown_name_suggests_the_nearest(void **state)
{
    (void)state;
    struct firn_arch arch;
    struct firn_error err = {0};
    assert_int_equal(firn_arch_find(&arch, "qwen3-8bb", &err), FIRN_ENOENT);
    assert_non_null(strstr(err.text, "'qwen3-8b'"));
    assert_int_equal(firn_arch_find(&arch, "zzzzzzzzzzzzzzz", &err),
                     FIRN_ENOENT);
    assert_non_null(strstr(err.text, "--model list"));
}

#define LLAMA                                                             \
    "\"model_type\":\"llama\",\"num_hidden_layers\":2,\"hidden_size\":64" \
    ",\"intermediate_size\":96"

static void a_bad_number_is_refused_by_its_key(void **state)
{
    (void)state;
    static const struct {
        const char *text, *has;
    } cases[] = {
        {"{" LLAMA ",\"num_attention_heads\":4}", "vocab_size is missing"},
        {"{" LLAMA ",\"vocab_size\":9}", "num_attention_heads is missing"},
        {"{" LLAMA ",\"num_attention_heads\":0,\"vocab_size\":9}",
         "num_attention_heads is 0"},
        {"{" LLAMA ",\"num_attention_heads\":-4,\"vocab_size\":9}",
         "num_attention_heads is -4"},
        {"{" LLAMA ",\"num_attention_heads\":4.5,\"vocab_size\":9}",
         "num_attention_heads is 4.5"},
        {"{" LLAMA ",\"num_attention_heads\":\"4\",\"vocab_size\":9}",
         "num_attention_heads is no number"},
        {"{" LLAMA ",\"num_attention_heads\":4,\"vocab_size\":1e99}",
         "vocab_size is 1e+99"},
        {"{" LLAMA ",\"num_attention_heads\":4,\"vocab_size\":999999999}",
         "vocab_size is 999999999"},
        {"{" LLAMA ",\"num_attention_heads\":4,\"vocab_size\":[9]}",
         "vocab_size is no number"},
        {"{" LLAMA ",\"num_attention_heads\":4,\"num_key_value_heads\":3,"
         "\"vocab_size\":9}",
         "num_key_value_heads is 3; it must divide num_attention_heads"},
        {"{" LLAMA ",\"num_attention_heads\":7,\"vocab_size\":9}",
         "no multiple of num_attention_heads (7)"},
        {"{\"model_type\":\"gpt2\",\"n_embd\":0,\"n_layer\":1}", "n_embd is 0"},
        {"{\"model_type\":\"mixtral\",\"num_hidden_layers\":2,"
         "\"hidden_size\":64,\"intermediate_size\":96,"
         "\"num_attention_heads\":4,\"vocab_size\":9,"
         "\"num_local_experts\":2,\"num_experts_per_tok\":3}",
         "num_experts_per_tok is 3; there are 2 experts"},
        {"{\"hidden_size\":64}", "model_type is missing"},
        {"{", ""},
        {"[]", "object"},
        {"", ""},
        {"{" LLAMA "} x", "follows"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct firn_arch arch;
        struct firn_error err = {0};
        if (read_text(cases[i].text, &arch, &err) == FIRN_OK)
            fail_msg("accepted: %s", cases[i].text);
        if (!strstr(err.text, cases[i].has))
            fail_msg("%s: %s", cases[i].text, err.text);
    }
}

static void an_unknown_family_is_taken_for_llama_or_refused(void **state)
{
    (void)state;
    struct firn_arch arch;
    struct firn_error err = {0};
    assert_int_equal(
        read_text("{\"model_type\":\"newton\",\"hidden_size\":64,"
                  "\"num_hidden_layers\":2,\"num_attention_heads\":4,"
                  "\"intermediate_size\":96,\"vocab_size\":9,"
                  "\"rms_norm_eps\":1e-5}",
                  &arch, &err),
        FIRN_OK);
    assert_string_equal(arch.taken, "llama");
    assert_string_equal(arch.name, "newton");
    assert_int_equal(read_text("{\"model_type\":\"mamba\",\"d_model\":64,"
                               "\"num_layers\":2}",
                               &arch, &err),
                     FIRN_ENOENT);
    assert_non_null(strstr(err.text, "'mamba' is not known"));
}

/* r (in + out): q and v of llama-3.2-1b, rank 16, as peft counts them. */
static void adapters_are_counted_as_peft_counts_them(void **state)
{
    (void)state;
    struct firn_arch arch;
    unsigned all = 127;
    assert_int_equal(firn_arch_find(&arch, "llama-3.2-1b", NULL), FIRN_OK);
    assert_true(firn_arch_lora_params(&arch, 16, FIRN_LLM_Q | FIRN_LLM_V,
                                      NULL) == 1703936);
    assert_true(firn_arch_lora_params(&arch, 64, all, NULL) == 45088768);
    arch = read_file("bench/gpu/configs/mixtral-small.json");
    assert_true(firn_arch_lora_params(&arch, 64, all, NULL) == 5505024);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(counts_equal_those_of_the_library),
        cmocka_unit_test(names_have_the_published_counts),
        cmocka_unit_test(every_named_model_makes_sense),
        cmocka_unit_test(an_unknown_name_suggests_the_nearest),
        cmocka_unit_test(a_bad_number_is_refused_by_its_key),
        cmocka_unit_test(an_unknown_family_is_taken_for_llama_or_refused),
        cmocka_unit_test(adapters_are_counted_as_peft_counts_them),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
