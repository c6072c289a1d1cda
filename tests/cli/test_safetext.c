/* test_safetext.c - characters that control a terminal are escaped. */
#include "base/rng.h"
#include "cli/safetext.c" /* programs link libfirn.a, which has no cli */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void assert_safe(const char *text, const char *want)
{
    struct firn_buf out = {0};
    safe_puts(&out, text);
    assert_string_equal(out.n > 0 ? out.at : "", want);
    buf_release(&out);
}

static void text_in_any_script_is_unchanged(void **state)
{
    (void)state;
    assert_safe("", "");
    assert_safe("resnet-50 \\ {x}", "resnet-50 \\ {x}");
    assert_safe("na\xc3\xafve \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x90\xa7",
                "na\xc3\xafve \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x90\xa7");
}

static void control_characters_are_escaped(void **state)
{
    (void)state;
    assert_safe("a\x1b[2Jb", "a\\x1b[2Jb");
    assert_safe("a\nb\tc\r\x7f", "a\\x0ab\\x09c\\x0d\\x7f");
    assert_safe("\xc2\x9b"
                "31m",
                "\\u009b31m"); /* CSI as one character */
}

static void direction_marks_are_escaped(void **state)
{
    (void)state;
    assert_safe("a\xe2\x80\xae"
                "b",
                "a\\u202eb");
    assert_safe("\xe2\x81\xa6x\xef\xbb\xbf", "\\u2066x\\ufeff");
}

static void bytes_that_are_no_utf8_become_visible(void **state)
{
    (void)state;
    assert_safe("\xff", "\\xff");
    assert_safe("\xc0\x9b", "\\xc0\\x9b");          /* overlong escape */
    assert_safe("\xe0\x80\x9b", "\\xe0\\x80\\x9b"); /* longer still */
    assert_safe("\xed\xa0\x80", "\\xed\\xa0\\x80"); /* half of a pair */
    assert_safe("\xe2\x80", "\\xe2\\x80");          /* cut off */
    assert_safe("\x9b"
                "1m",
                "\\x9b1m"); /* CSI of eight bits */
}

/* Does the text contain a character that controls a terminal? */
static bool is_tame(const char *text, bool has_lines)
{
    for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
        bool is_kept = has_lines && (*s == '\n' || *s == '\t');
        if ((*s < 0x20 && !is_kept) || *s == 0x7f)
            return false;
        if (*s == 0xc2 && s[1] >= 0x80 && s[1] <= 0x9f)
            return false;
    }
    return true;
}

static void pieces_of_any_size_give_the_same_escaped_text(void **state)
{
    (void)state;
    static const unsigned char likely[] = {0x1b, '[',  0xe2, 0x80, 0xae, 0xc2,
                                           0x9b, '\r', '\n', '\t', 'a',  0xf0,
                                           0x9f, 0x90, 0xa7, 0xff, 0x7f, 0};
    uint64_t seed = 7;
    struct rng rng;
    rng_seed(&rng, seed);
    print_message("seed %llu\n", (unsigned long long)seed);
    int nscenes = getenv("FIRN_QUICK") ? 200 : 5000;
    for (int scene = 0; scene < nscenes; scene++) {
        char bytes[40];
        size_t n = (size_t)rng_below(&rng, sizeof bytes);
        for (size_t i = 0; i < n; i++)
            bytes[i] = rng_below(&rng, 4)
                           ? (char)likely[rng_below(&rng, sizeof likely)]
                           : (char)rng_below(&rng, 256);
        struct firn_buf whole = {0}, parts = {0};
        struct safe_feed one = {0}, many = {0};
        buf_puts(&whole, "");
        buf_puts(&parts, "");
        safe_feed(&one, &whole, (struct firn_bytes){bytes, n});
        safe_feed_end(&one, &whole);
        for (size_t at = 0; at < n;) {
            size_t m = 1 + (size_t)rng_below(&rng, 5);
            m = m < n - at ? m : n - at;
            safe_feed(&many, &parts, (struct firn_bytes){bytes + at, m});
            at += m;
        }
        safe_feed_end(&many, &parts);
        assert_string_equal(whole.n ? whole.at : "", parts.n ? parts.at : "");
        assert_true(is_tame(whole.n ? whole.at : "", true));
        buf_release(&whole);
        buf_release(&parts);
    }
}

static void newlines_and_tabs_of_a_log_are_kept(void **state)
{
    (void)state;
    static const char text[] = "one\r\n 10%\r 20%\r\ntwo\n\n\x1b[1m";
    struct firn_buf out = {0};
    struct safe_feed feed = {0};
    for (size_t i = 0; i < sizeof text - 1; i++)
        safe_feed(&feed, &out, (struct firn_bytes){text + i, 1});
    safe_feed_end(&feed, &out);
    assert_string_equal(out.at, "one\n 10%\n 20%\ntwo\n\n\\x1b[1m");
    buf_release(&out);
}

static void a_quoted_text_has_no_bare_quote_and_no_newline(void **state)
{
    (void)state;
    struct firn_buf out = {0};
    assert_true(safe_quote(&out, "a\"b\\c\nd\xe2\x80\xa8\xf3\xa0\x80\x81"));
    assert_string_equal(out.at, "\"a\\\"b\\\\c\\u000ad\\u2028\\U000e0001\"");
    assert_false(safe_quote(&out, "x\xff"));
    assert_string_equal(out.at, "\"a\\\"b\\\\c\\u000ad\\u2028\\U000e0001\"");
    buf_release(&out);
}

static void the_width_is_the_number_of_characters(void **state)
{
    (void)state;
    assert_int_equal(safe_width("na\xc3\xafve"), 5);
    assert_int_equal(safe_prefix("na\xc3\xafve", 3), 4);
    assert_int_equal(safe_prefix("na\xc3\xafve", 2), 2);
    assert_int_equal(safe_prefix("ab", 9), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_in_any_script_is_unchanged),
        cmocka_unit_test(control_characters_are_escaped),
        cmocka_unit_test(direction_marks_are_escaped),
        cmocka_unit_test(bytes_that_are_no_utf8_become_visible),
        cmocka_unit_test(pieces_of_any_size_give_the_same_escaped_text),
        cmocka_unit_test(newlines_and_tabs_of_a_log_are_kept),
        cmocka_unit_test(a_quoted_text_has_no_bare_quote_and_no_newline),
        cmocka_unit_test(the_width_is_the_number_of_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
