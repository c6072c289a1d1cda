/* test_jsonread.c - the events of the JSON reader, members and values.
 *
 * What is rejected, byte by byte, is in tests/wire/test_message.c and
 * tests/cli/test_jsontext.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/jsonread.h"
#include <string.h>

static struct jsonread reader(const char *text, struct firn_error *err)
{
    struct jsonread in;
    jsonread_init(&in, text, strlen(text), err);
    return in;
}

static void each_event_has_its_text_and_place(void **unused)
{
    static const struct {
        enum jsonread_event event;
        const char *token;
        unsigned depth; /* after it */
        bool is_first, is_plain;
    } want[] = {
        {JSONREAD_OPEN, "{", 1, false, false},
        {JSONREAD_KEY, "\"a\"", 1, true, true},
        {JSONREAD_OPEN, "[", 2, false, false},
        {JSONREAD_NUMBER, "-1.5e3", 2, true, false},
        {JSONREAD_WORD, "null", 2, false, false},
        {JSONREAD_OPEN, "[", 3, false, false},
        {JSONREAD_CLOSE, "]", 2, true, false},
        {JSONREAD_CLOSE, "]", 1, false, false},
        {JSONREAD_KEY, "\"\xc3\xa4\"", 1, false, false},
        {JSONREAD_STRING, "\"\\n\"", 1, false, false},
        {JSONREAD_CLOSE, "}", 0, false, false},
    };
    struct jsonread in =
        reader(" {\"a\" : [-1.5e3, null,[]],\"\xc3\xa4\":\"\\n\"} ", NULL);
    (void)unused;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        bool is_member_value = in.wants_value; /* or the whole */
        assert_int_equal(jsonread_next(&in), want[i].event);
        assert_int_equal(in.token.n, strlen(want[i].token));
        assert_memory_equal(in.token.at, want[i].token, in.token.n);
        assert_int_equal(in.depth, want[i].depth);
        bool is_string =
            want[i].event == JSONREAD_KEY || want[i].event == JSONREAD_STRING;
        if (is_string)
            assert_int_equal(in.is_plain, want[i].is_plain);
        if (!is_member_value)
            assert_int_equal(in.is_first, want[i].is_first);
    }
    assert_int_equal(jsonread_next(&in), JSONREAD_END);
    assert_int_equal(jsonread_next(&in), JSONREAD_END);
}

static void after_a_failure_the_first_sentence_stays(void **unused)
{
    struct firn_error err = {0};
    struct jsonread in = reader("[1 2]", &err);
    double x = 7;
    (void)unused;
    jsonread_enter(&in, '[');
    while (jsonread_element(&in))
        jsonread_number(&in, &x, 0);
    jsonread_fail(&in, "later");
    jsonread_skip(&in);
    jsonread_end(&in);
    assert_int_equal(jsonread_next(&in), JSONREAD_FAILED);
    assert_int_equal(in.status, FIRN_EINVAL);
    assert_string_equal(err.text, "byte 4: ',' is wanted here");
    assert_true(x == 1);
}

static void a_value_of_another_kind_fails_at_its_first_byte(void **unused)
{
    static const char *const texts[] = {"\"1\"", "[1]", "true", "{}"};
    (void)unused;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct firn_error err = {0};
        struct jsonread in = reader(texts[i], &err);
        double x = 7;
        jsonread_number(&in, &x, 0);
        assert_string_equal(err.text, "byte 1: a number is wanted here");
        assert_true(x == 7);
    }
    struct firn_error err = {0};
    struct jsonread in = reader("[1,{}]", &err);
    jsonread_enter(&in, '[');
    jsonread_skip(&in);
    jsonread_enter(&in, '[');
    assert_string_equal(err.text, "byte 4: '[' is wanted here");
}

static void an_array_is_no_object_and_an_object_no_array(void **unused)
{
    struct firn_error err = {0};
    struct jsonread in = reader("[]", &err);
    struct jsonread_keys keys = {0};
    char key[8];
    (void)unused;
    jsonread_enter(&in, '[');
    assert_false(jsonread_member(&in, &keys, key, sizeof key));
    assert_int_equal(in.status, FIRN_EINVAL);
    in = reader("{}", &err);
    jsonread_enter(&in, '{');
    assert_false(jsonread_element(&in));
    assert_int_equal(in.status, FIRN_EINVAL);
    in = reader("[]", &err);
    jsonread_enter(&in, '[');
    jsonread_skip(&in); /* there is no value */
    assert_int_equal(in.status, FIRN_EINVAL);
}

static void a_key_is_given_without_escapes_or_as_empty_if_long(void **unused)
{
    struct jsonread in = reader("{\"\\u00e9\\/\":1,\"12345678\":2}", NULL);
    struct jsonread_keys keys = {0};
    char key[8];
    (void)unused;
    jsonread_enter(&in, '{');
    assert_true(jsonread_member(&in, &keys, key, sizeof key));
    assert_string_equal(key, "\xc3\xa9/");
    jsonread_skip(&in);
    assert_true(jsonread_member(&in, &keys, key, sizeof key));
    assert_string_equal(key, "");
    jsonread_skip(&in);
    assert_false(jsonread_member(&in, &keys, key, sizeof key));
    jsonread_end(&in);
    assert_int_equal(in.status, FIRN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_event_has_its_text_and_place),
        cmocka_unit_test(after_a_failure_the_first_sentence_stays),
        cmocka_unit_test(a_value_of_another_kind_fails_at_its_first_byte),
        cmocka_unit_test(an_array_is_no_object_and_an_object_no_array),
        cmocka_unit_test(a_key_is_given_without_escapes_or_as_empty_if_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
