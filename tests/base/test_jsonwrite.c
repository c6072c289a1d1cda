/* test_jsonwrite.c - JSON written into fixed memory and into a buffer is the
 * same, and characters are decoded and encoded by one rule.
 */
#include "base/buf.h"
#include "base/jsonwrite.h"
#include "base/utf8.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void write_all(struct jsonwrite *w)
{
    jsonwrite_open(w, NULL, '{');
    jsonwrite_int(w, "least", INT64_MIN);
    jsonwrite_count(w, "most", UINT64_MAX);
    jsonwrite_double(w, "x", 0.1);
    jsonwrite_double(w, "no", (double)NAN);
    jsonwrite_bool(w, "yes", true);
    jsonwrite_text(w, "text", "a\"\\\n\x01\xc3\xa9\xff\xe2\x82 b");
    jsonwrite_open(w, "list", '[');
    jsonwrite_int(w, NULL, 0);
    jsonwrite_raw(w, NULL, "{}");
    jsonwrite_close(w, ']');
    jsonwrite_close(w, '}');
}

static const char want[] =
    "{\"least\":-9223372036854775808,\"most\":18446744073709551615,\"x\":0.1,"
    "\"no\":null,\"yes\":true,"
    "\"text\":"
    "\"a\\\"\\\\\\n\\u0001\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd "
    "b\",\"list\":[0,{}]}";

static void memory_that_is_too_small_gets_the_beginning(void **state)
{
    (void)state;
    for (size_t max = 0; max < sizeof want + 8; max++) {
        char out[sizeof want + 8];
        memset(out, '#', sizeof out);
        struct jsonwrite w = {.out = out, .max = max};
        write_all(&w);
        assert_int_equal(w.n, sizeof want - 1);
        size_t n = max < sizeof want - 1 ? max : sizeof want - 1;
        assert_memory_equal(out, want, n);
        assert_int_equal(out[n], '#');
    }
}

static void a_buffer_has_a_blank_behind_each_comma_and_colon(void **state)
{
    (void)state;
    struct firn_buf out = {0};
    jsonbuf_open(&out, NULL, '{');
    jsonbuf_text(&out, "a", NULL);
    jsonbuf_open(&out, "b", '[');
    for (int i = 0; i < 40; i++)
        jsonbuf_int(&out, NULL, i);
    jsonbuf_close(&out, ']');
    jsonbuf_bool(&out, "c", false);
    jsonbuf_double(&out, "d", 2.5);
    jsonbuf_close(&out, '}');
    assert_ptr_equal(strstr(out.at, "{\"a\": \"\", \"b\": [0, 1, 2, "), out.at);
    assert_non_null(strstr(out.at, "38, 39], \"c\": false, \"d\": 2.5}"));
    assert_true(out.n < out.cap && out.at[out.n] == '\0');
    buf_release(&out);
}

static void a_key_with_special_characters_is_escaped(void **state)
{
    (void)state;
    struct firn_buf out = {0};
    jsonbuf_open(&out, NULL, '{');
    jsonbuf_key(&out, "a\"b");
    jsonbuf_int(&out, NULL, 1);
    jsonbuf_key(&out, "\n");
    jsonbuf_open(&out, NULL, '[');
    jsonbuf_close(&out, ']');
    jsonbuf_close(&out, '}');
    assert_string_equal(out.at, "{\"a\\\"b\": 1, \"\\n\": []}");
    buf_release(&out);
}

static void every_character_is_decoded_as_it_was_encoded(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        char text[4];
        uint32_t back = 1;
        if (c == 0xd800)
            c = 0xe000;
        size_t n = utf8_encode(c, text);
        assert_int_equal(utf8_decode(text, n, &back), n);
        assert_int_equal(back, c);
        for (size_t k = 1; k < n; k++)
            assert_int_equal(utf8_decode(text, k, &back), -1);
    }
}

static void longer_forms_surrogates_and_beyond_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"\x80",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xe0\x80\x80",
                                      "\xed\xa0\x80",
                                      "\xf0\x80\x80\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf8\x88\x80\x80",
                                      "\xff",
                                      "\xc3x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint32_t c = 0;
        assert_int_equal(utf8_decode(bad[i], strlen(bad[i]), &c), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_is_too_small_gets_the_beginning),
        cmocka_unit_test(a_buffer_has_a_blank_behind_each_comma_and_colon),
        cmocka_unit_test(a_key_with_special_characters_is_escaped),
        cmocka_unit_test(every_character_is_decoded_as_it_was_encoded),
        cmocka_unit_test(longer_forms_surrogates_and_beyond_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
