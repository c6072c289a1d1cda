/* test_llm.c - shapes by name, their parameters, and MARP as printed.
 *
 * Published counts; formulas worked by hand in the comments.
 */
#include <firn/memory.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

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

static void parameter_counts_are_the_published_ones(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double params;
    } published[] = {
        {"gpt2", 124439808},
        {"gpt2-medium", 354823168},
        {"gpt2-large", 774030080},
        {"gpt2-xl", 1557611200},
        {"bert-base", 109482240},
        {"bert-large", 335141888},
        {"llama-7b", 6738415616},
        {"llama-13b", 13015864320},
        {"llama-33b", 32528943616},
        {"llama-65b", 65285660672},
        {"llama-2-7b", 6738415616},
        {"llama-2-70b", 68976648192},
        {"llama-3-8b", 8030261248},
        {"llama-3-70b", 70553706496},
        {"llama-3.2-1b", 1235814400},
        {"llama-3.2-3b", 3212749824},
        {"llama-3.1-405b", 405853388800},
    };
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        struct firn_llm_shape s = shape(published[i].name);
        double got = firn_llm_params(&s, 512);
        if (got != published[i].params)
            fail_msg("%s: %.0f parameters, not %.0f", s.name, got,
                     published[i].params);
    }
}

static void an_unknown_model_names_the_nearest(void **state)
{
    (void)state;
    struct firn_llm_shape s = {.hidden = 7};
    struct firn_error err;
    assert_int_equal(firn_llm_find(&s, "gpt2-xxl", &err), FIRN_ENOENT);
    assert_non_null(strstr(err.text, "did you mean 'gpt2-xl'"));
    assert_int_equal(s.hidden, 7);
    assert_int_equal(firn_llm_find(&s, "LLaMA-7B", &err), FIRN_OK);
    assert_int_equal(s.hidden, 4096);
}

static void a_shape_may_be_written_in_numbers(void **state)
{
    (void)state;
    static const char *const bad[] = {"llm-",
                                      "llm-768x12x12",
                                      "llm-768x12x12x50257x",
                                      "llm-768x12x7x9",
                                      "llm-0x12x12x50257",
                                      "llm-768x-12x12x9",
                                      "llm-768 x12x12x9",
                                      "llm-99999999999999999999x1x1x1",
                                      "llm-768x12x12x50257 "};
    struct firn_llm_shape s = {.hidden = 7}, named;
    struct firn_error err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(firn_llm_find(&s, bad[i], &err), FIRN_ENOENT);
    assert_int_equal(s.hidden, 7);
    assert_int_equal(firn_llm_find(&s, "llm-768x12x12x50257", &err), FIRN_OK);
    assert_int_equal(firn_llm_find(&named, "gpt2", &err), FIRN_OK);
    assert_true(firn_llm_params(&s, 1024) == firn_llm_params(&named, 1024));
}

static void shapes_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    struct firn_llm_shape good = {
        .hidden = 768, .layers = 12, .heads = 12, .vocab = 50257};
    struct firn_llm_shape s = good;
    struct firn_error err;
    assert_int_equal(firn_llm_complete(&s, &err), FIRN_OK);
    assert_int_equal(s.ffn, 3072);
    assert_int_equal(s.kv_heads, 12);
    int *const fields[] = {&s.hidden, &s.layers, &s.heads, &s.vocab};
    for (size_t i = 0; i < 4; i++) {
        s = good;
        *fields[i] = 0;
        assert_int_equal(firn_llm_complete(&s, &err), FIRN_EINVAL);
        *fields[i] = -3;
        assert_int_equal(firn_llm_complete(&s, &err), FIRN_EINVAL);
    }
    s = good;
    s.heads = 11;
    assert_int_equal(firn_llm_complete(&s, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "768"));
    s = good;
    s.kv_heads = 5;
    assert_int_equal(firn_llm_complete(&s, &err), FIRN_EINVAL);
}

static void lora_counts_both_thin_matrices(void **state)
{
    (void)state;
    struct firn_llm_shape s = shape("llama-3-8b");
    /* rank 8 on q and v: q 4096 + 4096, v 4096 + 1024 (8 of 32 heads):
     * 8 x 13312 x 32 layers. */
    assert_true(firn_llm_lora_params(&s, 8, FIRN_LLM_Q | FIRN_LLM_V) ==
                8.0 * 13312 * 32);
    /* gate, up, down: 3 (4096 + 14336) */
    assert_true(firn_llm_lora_params(
                    &s, 2, FIRN_LLM_GATE | FIRN_LLM_UP | FIRN_LLM_DOWN) ==
                2.0 * 3 * 18432 * 32);
    s = shape("gpt2"); /* has no gate */
    assert_true(firn_llm_lora_params(&s, 2, FIRN_LLM_GATE) == 0);
}

static void marp_is_the_printed_formula(void **state)
{
    (void)state;
    /* h 4, l 2, V 10: W = 40 + 2 (192 + 52) = 528.
     * s 3, B 6, a 2, t 2, d 3: 20 W / 2 = 5280;
     * s B h l = 3 6 4 2 = 144; 10/3 + 24/6 + 5 2 3/(3 4 2) = 3.333 + 4 + 1.25
     * = 8.58333; 144 x 8.58333 = 1236. */
    struct firn_llm_shape s = {
        .hidden = 4, .layers = 2, .heads = 2, .vocab = 10};
    assert_true(firn_marp_params(&s) == 528);
    assert_true(near(firn_marp_bytes(&s, 3, 6, 2, 3), 5280 + 1236));
}

static void marp_gives_the_papers_plan_for_gpt2_7b(void **state)
{
    (void)state;
    /* "When training the GPT2-7B model with a batch size of 2, 8 cards of A100
     * GPUs are needed": t = 4, d = 2. With 32 layers of 4096, 32 heads and
     * sequences of 1024, W = 6,650,007,552 and 20 W / 4 = 33.25 GB. Four cards
     * (d = 1) have s B h l 26 = 268,435,456 x 26 = 6.98 GB more, 40.23 GB:
     * too much for a 40 GB card. Eight (d = 2) have 3.49 GB: 36.74 GB. Fewer
     * tensor-parallel cards never fit. */
    struct firn_llm_shape s = shape("gpt2-7b");
    const double a100 = 40e9;
    assert_true(firn_marp_params(&s) == 6650007552.0);
    assert_true(near(firn_marp_bytes(&s, 1024, 2, 4, 1), 40229359616.0));
    assert_true(near(firn_marp_bytes(&s, 1024, 2, 4, 2), 36739698688.0));
    assert_true(firn_marp_bytes(&s, 1024, 2, 4, 1) > a100);
    assert_true(firn_marp_bytes(&s, 1024, 2, 4, 2) < a100);
    assert_true(firn_marp_bytes(&s, 1024, 2, 2, 2) > a100);
    assert_true(firn_marp_bytes(&s, 1024, 2, 1, 2) > a100);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(parameter_counts_are_the_published_ones),
        cmocka_unit_test(an_unknown_model_names_the_nearest),
        cmocka_unit_test(a_shape_may_be_written_in_numbers),
        cmocka_unit_test(shapes_that_make_no_sense_are_refused),
        cmocka_unit_test(lora_counts_both_thin_matrices),
        cmocka_unit_test(marp_is_the_printed_formula),
        cmocka_unit_test(marp_gives_the_papers_plan_for_gpt2_7b),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
