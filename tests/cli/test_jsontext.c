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

static struct jsonread reader(const char *text)
{
    struct jsonread in;
    jsonread_init(&in, text, strlen(text), NULL);
    return in;
}

static void each_value_is_printed_on_its_own_line(void **unused)
{
    static const char *const texts[][3] = {
        {"{}", "{}", "{}"},
        {" [ ] ", "[]", "[]"},
        {"[1,-2.5, 1e+30,true,null,\"\"]",
         "[\n  1,\n  -2.5,\n  1e+30,\n  true,\n  null,\n  \"\"\n]",
         "[1,-2.5,1e+30,true,null,\"\"]"},
        {"{\"a\":{\"b\":[[1],{}]}, \"c\" : \"x y\"}",
         "{\n  \"a\": {\n    \"b\": [\n      [\n        1\n      ],\n      "
         "{}\n    ]\n  },\n  \"c\": \"x y\"\n}",
         "{\"a\":{\"b\":[[1],{}]},\"c\":\"x y\"}"},
        {"\"\\t \\\" \\\\ \\/ \\u0007\"", "\"\\t \\\" \\\\ / \\u0007\"",
         "\"\\t \\\" \\\\ / \\u0007\""},
        {"{\"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\":0}",
         "{\n  \"\\u00E4 \\u20AC \\uD83D\\uDE00\": 0\n}",
         "{\"\\u00E4 \\u20AC \\uD83D\\uDE00\":0}"},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int line = 0; line < 2; line++) {
            struct firn_buf out = {0};
            struct jsonread in = reader(texts[i][0]);
            jsontext_value(&in, -line, &out);
            jsonread_end(&in);
            assert_int_equal(in.status, FIRN_OK);
            assert_string_equal(out.at, texts[i][1 + line]);
            buf_release(&out);
        }
}

static void text_that_is_not_json_is_rejected(void **unused)
{
    static const char *const texts[] = {
        "",         "{",           "[1",     "[1,]",    "{\"a\"}",
        "{\"a\":}", "{1:2}",       "\"open", "\"\\x\"", "nul",
        "\"\x01\"", "\"\\u12g4\"", "[1 2]",  "]",       "{\"a\":1",
        "1 2",      "[01]",        "[1.]",   "[1}",     "{\"a\":1,}"};
    (void)unused;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct firn_buf out = {0};
        struct jsonread in = reader(texts[i]);
        jsontext_value(&in, 0, &out);
        jsonread_end(&in);
        if (in.status == FIRN_OK)
            fail_msg("'%s' is taken for JSON", texts[i]);
        buf_release(&out);
    }
}

static void sixty_four_levels_are_printed_and_more_are_rejected(void **unused)
{
    (void)unused;
    for (size_t depth = 64; depth <= 65; depth++) {
        char deep[2 * 65 + 1] = "";
        struct firn_buf out = {0};
        memset(deep, '[', depth);
        memset(deep + depth, ']', depth);
        struct jsonread in = reader(deep);
        jsontext_value(&in, -1, &out);
        if (depth == 64)
            assert_string_equal(out.at, deep);
        assert_int_equal(in.status, depth == 64 ? FIRN_OK : FIRN_EINVAL);
        buf_release(&out);
    }
}

static void invalid_utf8_is_printed_as_ascii(void **unused)
{
    (void)unused;
    struct firn_buf out = {0};
    struct jsonread in = reader("\"a\x9b\xff\xc0\x80\xed\xa0\x80z\"");
    jsontext_value(&in, 0, &out);
    assert_int_equal(in.status, FIRN_OK);
    for (size_t i = 0; i < out.n; i++)
        assert_in_range((unsigned char)out.at[i], ' ', '~');
    assert_non_null(strstr(out.at, "\\uFFFD"));
    buf_release(&out);
}

static void elements_of_several_arrays_make_one_list(void **unused)
{
    static const char *const pages[] = {"[1,{\"a\":2}]", "[]", "[3]", "{}"};
    struct firn_buf list = {0};
    size_t n = 0;
    (void)unused;
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        struct jsonread in = reader(pages[i]);
        jsontext_items(&in, 1, &n, &list);
        jsonread_end(&in);
        assert_int_equal(in.status, i < 3 ? FIRN_OK : FIRN_EINVAL);
    }
    assert_string_equal(list.at, "\n  1,\n  {\n    \"a\": 2\n  },\n  3");
    assert_int_equal(n, 3);
    buf_release(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_value_is_printed_on_its_own_line),
        cmocka_unit_test(text_that_is_not_json_is_rejected),
        cmocka_unit_test(sixty_four_levels_are_printed_and_more_are_rejected),
        cmocka_unit_test(invalid_utf8_is_printed_as_ascii),
        cmocka_unit_test(elements_of_several_arrays_make_one_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
