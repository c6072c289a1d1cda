/* test_message.c - reports and orders as JSON: round trips, and refusals. */
#include "base/rng.h"
#include <firn/message.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LAYERS = 8, TEXT = 4096 };

static struct firn_trainer_report sample(const double *variance)
{
    struct firn_trainer_report r = firn_trainer_report_unknown();
    r.step = 120;
    r.epoch = 2;
    r.progress = 0.25;
    r.part_s[FIRN_STEP_FORWARD] = 0.0125;
    r.nfrozen = 3;
    r.psi = 0.8;
    r.variance = variance;
    r.nlayers = variance != NULL ? 2 : 0;
    return r;
}

static enum firn_status read_text(struct firn_trainer_report *out,
                                  double *variance, const char *text,
                                  struct firn_error *err)
{
    return firn_trainer_report_read(out, variance, LAYERS, text, strlen(text),
                                    err);
}

static void a_report_is_written_as_small_json(void **state)
{
    (void)state;
    const double variance[] = {1.5, 0.1};
    char text[TEXT];
    struct firn_trainer_report r = sample(variance);
    size_t n = firn_trainer_report_write(text, sizeof text, &r);
    assert_string_equal(text, "{\"step\":120,\"epoch\":2,\"progress\":0.25,"
                              "\"nfrozen\":3,\"psi\":0.8,"
                              "\"part_s\":{\"forward\":0.0125},"
                              "\"variance\":[1.5,0.1]}");
    assert_int_equal(n, strlen(text));
}

static void an_embedding_and_the_time_of_a_start_read_back(void **state)
{
    (void)state;
    char text[TEXT];
    double variance[LAYERS];
    struct firn_trainer_report r = sample(NULL), back;
    struct firn_error err = {0};
    r.prepare_s = 12.5;
    r.nembedding = FIRN_MESSAGE_EMBEDDING;
    for (int i = 0; i < r.nembedding; i++)
        r.embedding[i] = 1.0 / (1 + i);
    assert_true(firn_trainer_report_write(text, TEXT, &r) < TEXT);
    assert_int_equal(read_text(&back, variance, text, &err), FIRN_OK);
    assert_true(back.prepare_s == 12.5);
    assert_int_equal(back.nembedding, r.nembedding);
    assert_memory_equal(back.embedding, r.embedding, sizeof r.embedding);
    r.embedding[3] = (double)NAN; /* is left out as a whole */
    firn_trainer_report_write(text, TEXT, &r);
    assert_null(strstr(text, "embedding"));
    assert_int_equal(read_text(&back, variance, "{\"embedding\":[1,-2]}", &err),
                     FIRN_EINVAL);
    char many[TEXT] = "{\"embedding\":[0";
    for (int i = 0; i < FIRN_MESSAGE_EMBEDDING; i++)
        strcat(many, ",0");
    strcat(many, "]}");
    assert_int_equal(read_text(&back, variance, many, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "more than 32 numbers"));
}

static void what_does_not_fit_is_measured_and_not_written(void **state)
{
    (void)state;
    char text[TEXT];
    struct firn_trainer_report r = sample(NULL);
    size_t n = firn_trainer_report_write(NULL, 0, &r);
    memset(text, 'x', sizeof text);
    assert_int_equal(firn_trainer_report_write(text, n, &r), n);
    assert_int_equal(text[0], 'x');
    assert_int_equal(firn_trainer_report_write(text, n + 1, &r), n);
    assert_int_equal(strlen(text), n);
    struct firn_orders orders = {.nfrozen = 2, -1, 1, -1};
    assert_int_equal(firn_orders_write(NULL, 0, &orders), 22);
    assert_int_equal(firn_orders_write(text, 23, &orders), 22);
    assert_string_equal(text, "{\"nfrozen\":2,\"stop\":1}");
}

static double any_number(struct rng *rng)
{
    double scale = 1;
    for (uint64_t i = rng_below(rng, 40); i > 0; i--)
        scale *= rng_below(rng, 2) ? 10 : 0.1;
    return rng_unit(rng) * scale;
}

static void fill(struct firn_trainer_report *r, double *variance,
                 struct rng *rng)
{
    *r = firn_trainer_report_unknown();
    r->step = rng_below(rng, (uint64_t)1 << 53);
    r->epoch = rng_below(rng, 1000);
    r->progress = rng_unit(rng);
    r->effective = rng_unit(rng) * 1e6;
    r->step_s = rng_unit(rng);
    for (int i = 0; i < FIRN_STEP_NPARTS; i++)
        r->part_s[i] = rng_below(rng, 3) ? rng_unit(rng) * 1e-3 : -1;
    r->loss = any_number(rng);
    r->metric = any_number(rng);
    r->memory_mib = rng_unit(rng) * 1e5;
    r->utilisation = rng_unit(rng);
    r->batch = (int)rng_below(rng, 1000000001);
    r->passes = (int)rng_below(rng, 100);
    r->nthreads = rng_below(rng, 2) ? 8 : -1;
    r->psi = rng_unit(rng);
    r->nlayers = rng_below(rng, LAYERS + 1);
    for (size_t i = 0; i < r->nlayers; i++)
        variance[i] = any_number(rng) - any_number(rng);
    r->variance = variance;
}

static void what_is_written_reads_back_bit_by_bit(void **state)
{
    (void)state;
    struct rng rng;
    uint64_t seed = 20;
    int n = getenv("FIRN_QUICK") != NULL ? 200 : 2000;
    print_message("seed %llu\n", (unsigned long long)seed);
    rng_seed(&rng, seed);
    for (int i = 0; i < n; i++) {
        double variance[LAYERS], again[LAYERS];
        struct firn_trainer_report r, back;
        struct firn_error err = {0};
        char text[TEXT], twice[TEXT];
        fill(&r, variance, &rng);
        assert_true(firn_trainer_report_write(text, TEXT, &r) < TEXT);
        if (read_text(&back, again, text, &err) != FIRN_OK)
            fail_msg("%s: %s", err.text, text);
        assert_int_equal(back.nlayers, r.nlayers);
        assert_memory_equal(again, variance, r.nlayers * sizeof *again);
        assert_true(back.step == r.step && back.epoch == r.epoch);
        assert_memory_equal(back.part_s, r.part_s, sizeof r.part_s);
        assert_true(back.loss == r.loss && back.metric == r.metric &&
                    back.progress == r.progress && back.psi == r.psi &&
                    back.effective == r.effective && back.step_s == r.step_s &&
                    back.memory_mib == r.memory_mib &&
                    back.utilisation == r.utilisation);
        assert_true(back.batch == r.batch && back.passes == r.passes &&
                    back.nfrozen == -1 && back.nthreads == r.nthreads);
        firn_trainer_report_write(twice, TEXT, &back);
        assert_string_equal(text, twice);
    }
}

static void a_locale_with_commas_changes_nothing(void **state)
{
    (void)state;
    /* Not installed everywhere; then this is the round trip once more. */
    const char *names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "fa_IR.UTF-8"};
    const double variance[] = {1.5, 0.1};
    for (size_t i = 0; i < 3; i++) {
        char text[TEXT];
        double back[LAYERS];
        struct firn_trainer_report r = sample(variance), again;
        setlocale(LC_ALL, names[i]);
        firn_trainer_report_write(text, sizeof text, &r);
        assert_non_null(strstr(text, "[1.5,0.1]"));
        assert_int_equal(read_text(&again, back, text, NULL), FIRN_OK);
        assert_true(back[0] == 1.5 && back[1] == 0.1);
    }
    setlocale(LC_ALL, "C");
}

static void numbers_that_cannot_be_sent_are_left_out_or_cut(void **state)
{
    (void)state;
    const double variance[] = {1, NAN};
    char text[TEXT];
    struct firn_trainer_report r = firn_trainer_report_unknown();
    r.variance = variance;
    r.nlayers = 2;
    r.loss = INFINITY;
    r.step_s = NAN;
    r.progress = 1.25; /* more than all: all */
    r.step = UINT64_MAX;
    firn_trainer_report_write(text, sizeof text, &r);
    assert_string_equal(
        text, "{\"step\":9007199254740992,\"epoch\":0,\"progress\":1}");
}

static void unknown_keys_are_passed_over(void **state)
{
    (void)state;
    double v[LAYERS];
    struct firn_trainer_report r;
    struct firn_error err = {0};
    const char *text =
        " { \"new\" : [ 1, {\"a\":[], \"b\" : {}}, \"x\\u00e9\\n\", null ] ,\n"
        "\t\"step\":7, \"part_s\":{\"sleep\":[true,false],\"data\":0.5},"
        "\"h\xc3\xbc\":-1e-3,\"loss\":null, \"variance\":[ ] } \r\n";
    if (read_text(&r, v, text, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    assert_int_equal(r.step, 7);
    assert_true(r.part_s[FIRN_STEP_DATA] == 0.5 && r.loss == -1);
    assert_true(r.variance == v && r.nlayers == 0);
    assert_int_equal(read_text(&r, v, "{}", &err), FIRN_OK);
    assert_null(r.variance);
}

static void assert_refused(const char *text, const char *why)
{
    double v[LAYERS];
    struct firn_error err = {0};
    struct firn_trainer_report r = {.step = 99};
    if (read_text(&r, v, text, &err) != FIRN_EINVAL)
        fail_msg("taken: %s", text);
    if (strstr(err.text, why) == NULL)
        fail_msg("%s: '%s' does not say '%s'", text, err.text, why);
    assert_int_equal(r.step, 99); /* untouched */
}

static void hostile_numbers_are_refused_with_a_sentence(void **state)
{
    (void)state;
    assert_refused("{\"step\":-1}", "'step' is -1, not within 0");
    assert_refused("{\"step\":1.5}", "'step' is 1.5, not a whole number");
    assert_refused("{\"step\":9007199254740994}", "'step'");
    assert_refused("{\"batch\":2000000000}", "'batch' is 2e+09");
    assert_refused("{\"nfrozen\":-2}", "'nfrozen' is -2");
    assert_refused("{\"psi\":1.01}", "'psi' is 1.01, not within 0 and 1");
    assert_refused("{\"progress\":-0.1}", "'progress'");
    assert_refused("{\"memory_mib\":1e13}", "'memory_mib'");
    assert_refused("{\"part_s\":{\"data\":-1}}", "'data' is -1");
    assert_refused("{\"loss\":1e999}", "beyond all numbers");
    assert_refused("{\"loss\":nan}", "a number is wanted");
    assert_refused("{\"loss\":Infinity}", "a number is wanted");
    assert_refused("{\"loss\":\"1\"}", "a number is wanted");
    assert_refused("{\"loss\":true}", "a number is wanted");
    assert_refused("{\"variance\":[1,1,1,1,1,1,1,1,1]}", "more than 8 layers");
    assert_refused("{\"variance\":1}", "'[' is wanted");
    assert_refused("{\"part_s\":[1]}", "'{' is wanted");
}

static void broken_json_is_refused_with_the_byte(void **state)
{
    (void)state;
    assert_refused("", "byte 1: the text ends where '{' is wanted");
    assert_refused("[]", "byte 1: '{' is wanted");
    assert_refused("{\"step\":1", "ends where ',' is wanted");
    assert_refused("{\"step\":1,}", "'\"' is wanted");
    assert_refused("{\"step\" 1}", "':' is wanted");
    assert_refused("{step:1}", "'\"' is wanted");
    assert_refused("{\"step\":1}x", "something follows");
    assert_refused("{\"step\":1}{}", "something follows");
    assert_refused("{\"step\":01}", "a number is wanted");
    assert_refused("{\"step\":1.}", "a number is wanted");
    assert_refused("{\"step\":.5}", "a number is wanted");
    assert_refused("{\"step\":+1}", "a number is wanted");
    assert_refused("{\"step\":1e}", "a number is wanted");
    assert_refused("{\"step\":0x10}", "wanted");
    assert_refused("{\"a\":\"\\x\"}", "backslash");
    assert_refused("{\"a\":\"\\u12g4\"}", "four hexadecimal digits");
    assert_refused("{\"a\":\"\\ud800\"}", "half of a surrogate pair");
    assert_refused("{\"a\":\"\\udc00\\ud800\"}", "half of a surrogate pair");
    assert_refused("{\"a\":\"\n\"}", "control character");
    assert_refused("{\"a\":\"", "ends inside of a string");
    assert_refused("{\"a\":\"\\", "ends inside of a string");
    assert_refused("{\"a\":tru}", "a number is wanted");
    assert_refused("{\"a\":[1 2]}", "',' is wanted");
    assert_refused("{\"a\":[1}", "',' is wanted");
}

static void a_key_twice_is_refused_however_it_is_spelt(void **state)
{
    (void)state;
    assert_refused("{\"step\":1,\"step\":1}", "'step' is there twice");
    assert_refused("{\"step\":1,\"\\u0073tep\":1}", "'step' is there twice");
    assert_refused("{\"x\":1,\"x\":1}", "'x' is there twice");
    assert_refused("{\"x\":{\"y\":1,\"z\":2,\"y\":1}}", "'y' is there twice");
    assert_refused("{\"part_s\":{\"data\":1,\"data\":1}}", "twice");
    double v[LAYERS];
    struct firn_trainer_report r;
    /* The same key in another object is another key. */
    assert_int_equal(
        read_text(&r, v, "{\"x\":{\"x\":1},\"y\":{\"x\":1}}", NULL), FIRN_OK);
}

static void depth_members_and_length_have_limits(void **state)
{
    (void)state;
    double v[LAYERS];
    struct firn_trainer_report r;
    char text[2048];
    size_t n = 0;
    assert_int_equal(read_text(&r, v, "{\"a\":[[[[[[[]]]]]]]}", NULL), FIRN_OK);
    assert_refused("{\"a\":[[[[[[[[]]]]]]]]}", "levels of nesting");
    n = 1;
    text[0] = '{';
    for (int i = 0; i < 65; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\"k%d\":0",
                              i > 0 ? "," : "", i);
    snprintf(text + n, sizeof text - n, "}");
    assert_refused(text, "more than 64 members");
    memset(text, '1', 100);
    memcpy(text, "{\"loss\":", 8);
    memcpy(text + 100, "}", 2);
    assert_refused(text, "a number of 92 characters");
    struct firn_error err;
    assert_int_equal(firn_trainer_report_read(&r, v, LAYERS, text,
                                              FIRN_MESSAGE_BYTES + 1, &err),
                     FIRN_EINVAL); /* not one byte of it is read */
    assert_non_null(strstr(err.text, "1048576 are the most"));
}

static void every_prefix_and_every_changed_byte_is_harmless(void **state)
{
    (void)state;
    const double variance[] = {1.5, 0.1};
    char text[TEXT];
    double v[LAYERS];
    struct firn_trainer_report r = sample(variance), back;
    size_t n = firn_trainer_report_write(text, sizeof text, &r);
    for (size_t i = 0; i < n; i++) {
        char *cut = malloc(i > 0 ? i : 1); /* exact, for the sanitizers */
        assert_non_null(cut);
        memcpy(cut, text, i);
        assert_int_equal(
            firn_trainer_report_read(&back, v, LAYERS, cut, i, NULL),
            FIRN_EINVAL);
        free(cut);
        for (int c = 0; c < 256; c += 5) {
            char was = text[i];
            text[i] = (char)c;
            firn_trainer_report_read(&back, v, LAYERS, text, n, NULL);
            text[i] = was;
        }
    }
    assert_int_equal(firn_trainer_report_read(&back, v, LAYERS, text, n, NULL),
                     FIRN_OK);
}

static void each_order_is_read_on_its_own(void **state)
{
    (void)state;
    struct firn_orders o = {0};
    struct firn_error err = {0};
    const char *text = "{\"stop\":true,\"note\":\"hi\",\"passes\":3,"
                       "\"batch\":64}";
    assert_int_equal(firn_orders_read(&o, text, strlen(text), &err), FIRN_OK);
    assert_true(o.nfrozen == -1 && o.passes == 3 && o.stop == 1 &&
                o.batch == 64);
    static const char *const bad[] = {"{\"stop\":2}",
                                      "{\"passes\":0}",
                                      "{\"nfrozen\":-1}",
                                      "{\"passes\":1.5}",
                                      "{\"nfrozen\":1e10}",
                                      "{\"stop\":\"1\"}",
                                      "stop",
                                      "{\"stop\":1,\"stop\":0}",
                                      "{\"batch\":0}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct firn_orders was = {1, 2, 3, 4};
        assert_int_equal(firn_orders_read(&was, bad[i], strlen(bad[i]), &err),
                         FIRN_EINVAL);
        assert_memory_equal(err.text, "orders: byte", 12);
        assert_true(was.nfrozen == 1 && was.batch == 4);
    }
    struct firn_orders none = firn_orders_none();
    char out[TEXT];
    assert_int_equal(firn_orders_write(out, sizeof out, &none), 2);
    assert_string_equal(out, "{}");
}

/* What a trainer can do is a list of words; a newer trainer's words are passed
 * over, and a report without the key says nothing of it. */
static void abilities_are_words_and_unknown_ones_are_passed_over(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int can;
    } cases[] = {
        {"{\"can\":\"resize,passes\"}", FIRN_CAN_RESIZE | FIRN_CAN_PASSES},
        {"{\"can\":\"pipeline\"}", FIRN_CAN_PIPELINE},
        {"{\"can\":\"none\"}", 0},
        {"{\"can\":\"\"}", 0},
        {"{\"can\":\"freeze,teleport,batch\"}",
         FIRN_CAN_FREEZE | FIRN_CAN_BATCH},
        {"{\"can\":null}", -1},
        {"{}", -1},
    };
    struct firn_trainer_report r;
    struct firn_error err = {0};
    double variance[LAYERS];
    char text[TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(read_text(&r, variance, cases[i].text, &err), FIRN_OK);
        assert_int_equal(r.can, cases[i].can);
    }
    assert_int_equal(read_text(&r, variance, "{\"can\":3}", &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "'can' is not a text of words"));
    for (int can = 0; can <= FIRN_CAN_ALL; can++) {
        struct firn_trainer_report was = sample(NULL);
        was.can = can;
        firn_trainer_report_write(text, sizeof text, &was);
        assert_int_equal(read_text(&r, variance, text, &err), FIRN_OK);
        assert_int_equal(r.can, can);
    }
}

static void every_part_of_a_step_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(firn_step_part_name(FIRN_STEP_DATA), "data");
    assert_string_equal(firn_step_part_name(FIRN_STEP_UPDATE), "update");
    assert_string_equal(firn_step_part_name(FIRN_STEP_NPARTS), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_is_written_as_small_json),
        cmocka_unit_test(an_embedding_and_the_time_of_a_start_read_back),
        cmocka_unit_test(what_does_not_fit_is_measured_and_not_written),
        cmocka_unit_test(what_is_written_reads_back_bit_by_bit),
        cmocka_unit_test(a_locale_with_commas_changes_nothing),
        cmocka_unit_test(numbers_that_cannot_be_sent_are_left_out_or_cut),
        cmocka_unit_test(unknown_keys_are_passed_over),
        cmocka_unit_test(hostile_numbers_are_refused_with_a_sentence),
        cmocka_unit_test(broken_json_is_refused_with_the_byte),
        cmocka_unit_test(a_key_twice_is_refused_however_it_is_spelt),
        cmocka_unit_test(depth_members_and_length_have_limits),
        cmocka_unit_test(every_prefix_and_every_changed_byte_is_harmless),
        cmocka_unit_test(each_order_is_read_on_its_own),
        cmocka_unit_test(abilities_are_words_and_unknown_ones_are_passed_over),
        cmocka_unit_test(every_part_of_a_step_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
