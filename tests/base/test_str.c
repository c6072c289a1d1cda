/* test_str.c - strict numbers, nearest names, copies and trims. */
#include "base/rng.h"
#include "base/str.h"
#include "lib/trials.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void reads(const char *text, double want)
{
    double got = -12345.0;
    if (!str_double(text, &got) || got != want)
        fail_msg("'%s' gave %.17g, not %.17g", text, got, want);
}

static void refuses(const char *text)
{
    double got = -12345.0;
    if (str_double(text, &got))
        fail_msg("'%s' was read as %.17g", text, got);
    assert_true(got == -12345.0); /* untouched */
}

static void decimals_are_read(void **state)
{
    (void)state;
    reads("0", 0.0);
    reads("1e3", 1000.0);
    reads(" 7 ", 7.0);
    reads("\t-7\r\n", -7.0);
    reads("+2.50", 2.5);
    reads(".5", 0.5);
    reads("5.", 5.0);
    reads("0.1", 0.1);
    reads("1E-2", 0.01);
    reads("9007199254740993", 9007199254740992.0);
    reads("123456789012345678901234567890", 123456789012345678901234567890.0);
    reads("0.000000000000000000000000000001", 1e-30);
    reads("-1.7976931348623157e308", -1.7976931348623157e308);
    reads("5e-324", 4.9406564584124654e-324);
    reads("1e-999", 0.0);
    reads("0e99999999999", 0.0);
}

static void a_text_that_is_not_a_decimal_is_refused(void **state)
{
    (void)state;
    const char *bad[] = {
        "",      " ",      "7x",       "x7",    "nan",   "inf", "NaN",
        "-inf",  "0x10",   "1e",       "1e+",   "e5",    ".",   "-",
        "+-1",   "1 2",    "1,5",      "1.2.3", "1e5x",  "--1", "1e1e1",
        "1e999", "-1e999", "infinity", "0b1",   "1_000", "1f",  "\xc2\xa0 1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuses(bad[i]);
}

static void random_texts_are_read_as_strtod_reads_them(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct rng rng;
        rng_seed(&rng, seed);
        for (int i = 0, n = trials(50000); i < n; i++) {
            char text[64];
            unsigned long long whole = rng_u64(&rng) >> rng_below(&rng, 64);
            unsigned long long part = rng_u64(&rng) >> rng_below(&rng, 64);
            snprintf(text, sizeof text, "%s%llu.%llue%d", i % 3 ? "" : "-",
                     whole, part, (int)rng_below(&rng, 80) - 40);
            if (i % 2)
                *strchr(text, 'e') = '\0';
            double got = 0.0;
            if (!str_double(text, &got) || got != strtod(text, NULL))
                fail_msg("seed %d: '%s' gave %.17g", (int)seed, text, got);
        }
    }
}

static void the_locale_does_not_matter(void **state)
{
    (void)state;
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL)
        setlocale(LC_NUMERIC, "fr_FR.UTF-8");
    reads("1.5e-30", 1.5e-30);
    reads("0.12345678901234567890123", 0.12345678901234567890123);
    refuses("1,5");
    setlocale(LC_NUMERIC, "C");
}

static void integers_are_whole_and_in_range(void **state)
{
    (void)state;
    long n = -1;
    assert_true(str_int("8.0", 0, 10, &n));
    assert_int_equal(n, 8);
    assert_true(str_int(" -3 ", -3, 10, &n));
    assert_int_equal(n, -3);
    assert_true(str_int("1e3", 0, 1000, &n));
    assert_int_equal(n, 1000);
    n = 77;
    assert_false(str_int("8.5", 0, 10, &n));
    assert_false(str_int("11", 0, 10, &n));
    assert_false(str_int("-1", 0, 10, &n));
    assert_false(str_int("", 0, 10, &n));
    assert_false(str_int("1e30", 0, 1L << 40, &n));
    assert_false(str_int("99999999999999999999", -5, 5, &n));
    assert_int_equal(n, 77);
}

static void an_id_is_decimal_digits_alone(void **state)
{
    (void)state;
    static const char *const bad[] = {"",   "1e0",  "1.0", "+1",  "-1",  " 1",
                                      "1 ", "0x10", "1_",  "101", "1e0x"};
    long n = -1;
    assert_true(str_id("0", 100, &n) && n == 0);
    assert_true(str_id("17", 100, &n) && n == 17);
    assert_true(str_id("100", 100, &n) && n == 100);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (str_id(bad[i], 100, &n))
            fail_msg("'%s' is taken as the id %ld", bad[i], n);
    assert_int_equal(n, 100);
}

static void names_are_compared_without_case(void **state)
{
    (void)state;
    assert_true(str_equal_nocase("V100", "v100"));
    assert_true(str_equal_nocase("", ""));
    assert_false(str_equal_nocase("v10", "v100"));
    assert_false(str_equal_nocase("v100", "v10"));
    assert_false(str_equal_nocase("@", "`")); /* 32 apart, no letters */
}

static void the_nearest_name_is_found_when_it_is_near(void **state)
{
    (void)state;
    const char *names[] = {"fifo", "sjf", "srtf", "tiresias"};
    assert_int_equal(str_nearest("fifa", names, 4), 0);
    assert_int_equal(str_nearest("FIFO", names, 4), 0);
    assert_int_equal(str_nearest("tiresas", names, 4), 3);
    assert_int_equal(str_nearest("srtff", names, 4), 2);
    assert_int_equal(str_nearest("sjff", names, 4), 1);
    assert_int_equal(str_nearest("pollux-agent", names, 4), -1);
    assert_int_equal(str_nearest("fifo", names, 0), -1);
    const char *ties[] = {"ab", "ac"};
    assert_int_equal(str_nearest("ad", ties, 2), 0);
    char long_text[3000];
    memset(long_text, 'f', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    assert_int_equal(str_nearest(long_text, names, 4), -1);
}

static void copies_are_cut_and_terminated(void **state)
{
    (void)state;
    char out[4] = "zzz";
    assert_true(str_copy(out, sizeof out, "abc"));
    assert_string_equal(out, "abc");
    assert_false(str_copy(out, sizeof out, "abcd"));
    assert_string_equal(out, "abc");
    assert_true(str_copy(out, sizeof out, ""));
    assert_string_equal(out, "");
    assert_false(str_copy(out, 0, "x"));
}

static void trimming_cuts_both_ends_only(void **state)
{
    (void)state;
    char a[] = " \t a b \r\n", b[] = "   ", c[] = "", d[] = "x";
    assert_string_equal(str_trim(a), "a b");
    assert_string_equal(str_trim(b), "");
    assert_string_equal(str_trim(c), "");
    assert_string_equal(str_trim(d), "x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decimals_are_read),
        cmocka_unit_test(a_text_that_is_not_a_decimal_is_refused),
        cmocka_unit_test(random_texts_are_read_as_strtod_reads_them),
        cmocka_unit_test(the_locale_does_not_matter),
        cmocka_unit_test(integers_are_whole_and_in_range),
        cmocka_unit_test(an_id_is_decimal_digits_alone),
        cmocka_unit_test(names_are_compared_without_case),
        cmocka_unit_test(the_nearest_name_is_found_when_it_is_near),
        cmocka_unit_test(copies_are_cut_and_terminated),
        cmocka_unit_test(trimming_cuts_both_ends_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
