/* test_jsontext.c - JSON text indented, invalid JSON rejected.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "cli/jsontext.c"
#include <string.h>

static struct firn_bytes bytes(const char *text)
{
    return (struct firn_bytes){text, strlen(text)};
}

static void what_comes_out_has_a_line_for_each_value(void **unused)
{
    static const char *const texts[][2] = {
        {"{}", "{}"},
        {" [ ] ", "[]"},
        {"[1,-2.5,1e+30,true,null,\"\"]",
         "[\n  1,\n  -2.5,\n  1e+30,\n  true,\n  null,\n  \"\"\n]"},
        {"{\"a\":{\"b\":[[1],{}]}, \"c\" : \"x y\"}",
         "{\n  \"a\": {\n    \"b\": [\n      [\n        1\n      ],\n      "
         "{}\n    ]\n  },\n  \"c\": \"x y\"\n}"},
        {"\"\\t \\\" \\\\ \\/ \\u0007\"", "\"\\t \\\" \\\\ / \\u0007\""},
        {"\"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\"",
         "\"\\u00E4 \\u20AC \\uD83D\\uDE00\""},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct firn_buf out = {0};
        struct firn_bytes rest = bytes(texts[i][0]);
        assert_true(jsontext_value(&rest, 0, &out));
        assert_string_equal(out.at, texts[i][1]);
        buf_release(&out);
    }
}

static void what_is_no_json_is_refused(void **unused)
{
    static const char *const texts[] = {
        "",         "{",           "[1",     "[1,]",    "{\"a\"}",
        "{\"a\":}", "{1:2}",       "\"open", "\"\\x\"", "nul",
        "\"\x01\"", "\"\\u12g4\"", "[1 2]",  "]",       "{\"a\":1"};
    (void)unused;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct firn_buf out = {0};
        struct firn_bytes rest = bytes(texts[i]);
        if (jsontext_value(&rest, 0, &out) && rest.n == 0)
            fail_msg("'%s' is taken for JSON", texts[i]);
        buf_release(&out);
    }
    char deep[400];
    memset(deep, '[', sizeof deep);
    struct firn_bytes rest = {deep, sizeof deep};
    assert_false(jsontext_value(&rest, 0, NULL));
}

static void bytes_that_are_no_letters_cannot_move_a_cursor(void **unused)
{
    (void)unused;
    struct firn_buf out = {0};
    struct firn_bytes rest = bytes("\"a\x9b\xff\xc0\x80\xed\xa0\x80z\"");
    assert_true(jsontext_value(&rest, 0, &out));
    for (size_t i = 0; i < out.n; i++)
        assert_in_range((unsigned char)out.at[i], ' ', '~');
    assert_non_null(strstr(out.at, "\\uFFFD"));
    buf_release(&out);
}

static void a_key_is_found_by_its_whole_name(void **unused)
{
    (void)unused;
    static const char text[] =
        "{\"job\":{\"next\":7},\"jobs\":[1,2],\"next\":12}";
    struct firn_bytes rest = bytes(text);
    struct firn_buf list = {0};
    size_t n = 0;
    assert_true(jsontext_find(&rest, "jobs"));
    assert_true(jsontext_items(&rest, 1, &n, &list));
    assert_string_equal(list.at, "\n  1,\n  2");
    assert_int_equal(n, 2);
    assert_true(jsontext_find(&rest, "next"));
    assert_memory_equal(rest.at, "12", 2);
    rest = bytes(text);
    assert_false(jsontext_find(&rest, "nex"));
    rest = bytes("[]");
    assert_false(jsontext_find(&rest, "next"));
    buf_release(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_out_has_a_line_for_each_value),
        cmocka_unit_test(what_is_no_json_is_refused),
        cmocka_unit_test(bytes_that_are_no_letters_cannot_move_a_cursor),
        cmocka_unit_test(a_key_is_found_by_its_whole_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
