/* test_buf.c - text, numbers in their shortest form, JSON and CSV strings.
 *
 * The oracle for numbers is the C library: a text is right when strtod reads
 * it back equal, and shortest when no printf precision below its own does.
 */
#include "base/buf.h"
#include "base/rng.h"
#include "lib/trials.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void says(double value, const char *text)
{
    char out[STR_DOUBLE_MAX];
    assert_string_equal(double_text(value, out), text);
}

static void numbers_have_no_noise_and_no_loss(void **state)
{
    (void)state;
    says(20023.4736, "20023.4736");
    says(11962.511, "11962.511");
    says(86400, "86400");
    says(-7, "-7");
    says(0.0, "0");
    says(-0.0, "0");
    says(0.1, "0.1");
    says(-0.5, "-0.5");
    says(0.1 + 0.2, "0.30000000000000004");
    says(1.0 / 3.0, "0.3333333333333333");
    says(1000000.000001, "1000000.000001");
    says(2.05, "2.05");
    says(100.000001, "100.000001");
    says(0.0001, "0.0001");
    says(1e-5, "1e-05");
    says(1e22, "1e+22");
    says(9007199254740991.0, "9007199254740991");
    says(-9007199254740991.0, "-9007199254740991");
    says(9007199254740992.0, "9007199254740992");
    says(DBL_MAX, "1.7976931348623157e+308");
    says(4.9406564584124654e-324, "5e-324");
    says((double)NAN, "nan");
    says((double)INFINITY, "inf");
    says(-(double)INFINITY, "-inf");
}

static void check_round_trip(double value, uint64_t seed)
{
    char text[STR_DOUBLE_MAX], shorter[512];
    double_text(value, text);
    if (strtod(text, NULL) != value)
        fail_msg("seed %llu: %.17g became %s", (unsigned long long)seed, value,
                 text);
    int digits = 0, zeros = 0, started = 0;
    for (const char *at = text; *at != '\0' && *at != 'e'; at++) {
        if (*at < '0' || *at > '9')
            continue;
        started |= *at != '0';
        digits += started;
        zeros = *at == '0' ? zeros + started : 0;
    }
    digits -= zeros;
    if (digits < 2 || fabs(value) < DBL_MIN)
        return;
    snprintf(shorter, sizeof shorter, "%.*g", digits - 1, value);
    if (strtod(shorter, NULL) == value)
        fail_msg("seed %llu: %s could be %s", (unsigned long long)seed, text,
                 shorter);
}

static void any_bit_pattern_reads_back_equal_and_is_shortest(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct rng rng;
        rng_seed(&rng, seed);
        for (int i = 0, n = trials(20000); i < n; i++) {
            uint64_t bits = rng_u64(&rng);
            double value;
            memcpy(&value, &bits, sizeof value);
            if (isfinite(value))
                check_round_trip(value, seed);
            value = (double)rng_below(&rng, 1000000000000) / 1000.0;
            check_round_trip(value, seed);
            value = rng_unit(&rng) * (double)rng_below(&rng, 2000000000);
            check_round_trip(value, seed);
            value = -(double)(rng_u64(&rng) >> rng_below(&rng, 64));
            check_round_trip(value, seed);
        }
    }
}

static void the_locale_does_not_matter(void **state)
{
    (void)state;
    const char *names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"};
    for (size_t i = 0; i < 3; i++)
        if (setlocale(LC_NUMERIC, names[i]) != NULL)
            break;
    says(1.0 / 3.0, "0.3333333333333333");
    says(1e-7, "1e-07");
    setlocale(LC_NUMERIC, "C");
}

static void text_is_always_terminated(void **state)
{
    (void)state;
    struct firn_buf buf = {0};
    for (int i = 0; i < 1000; i++) {
        buf_printf(&buf, "%d,", i);
        assert_int_equal(buf.at[buf.n], 0);
        assert_int_equal(strlen(buf.at), buf.n);
    }
    assert_int_equal(buf.n, 10 * 2 + 90 * 3 + 900 * 4);
    assert_memory_equal(buf.at + buf.n - 8, "998,999,", 8);
    buf_clear(&buf);
    assert_string_equal(buf.at, "");
    buf_add(&buf, NULL, 0);
    buf_puts(&buf, "");
    buf_putc(&buf, 'x');
    buf_printf(&buf, "%s", "");
    assert_string_equal(buf.at, "x");
    buf_release(&buf);
    buf_release(&buf);
    buf_release(NULL);
}

static void a_printf_longer_than_the_buffer_is_whole(void **state)
{
    (void)state;
    struct firn_buf buf = {0};
    char long_text[5000];
    memset(long_text, 'y', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    buf_puts(&buf, "start ");
    buf_printf(&buf, "%s %d", long_text, 42);
    assert_int_equal(buf.n, 6 + 4999 + 3);
    assert_string_equal(buf.at + 6 + 4999, " 42");
    buf_release(&buf);
}

static void json_says(const char *text, const char *want)
{
    struct firn_buf buf = {0};
    buf_json_string(&buf, text);
    assert_string_equal(buf.at, want);
    buf_release(&buf);
}

static void json_strings_are_escaped_and_valid_utf8(void **state)
{
    (void)state;
    json_says("", "\"\"");
    json_says("a\"b\\c/", "\"a\\\"b\\\\c/\"");
    json_says("\n\t\r\b\f\x01\x1f\x7f",
              "\"\\n\\t\\r\\b\\f\\u0001\\u001f\x7f\"");
    json_says("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
              "\"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
    json_says("\xff", "\"\xef\xbf\xbd\"");
    json_says("a\xc3", "\"a\xef\xbf\xbd\"");               /* cut short */
    json_says("\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\""); /* overlong */
    json_says("\xed\xa0\x80",                              /* half of a pair */
              "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    json_says("\xf4\x90\x80\x80",
              "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    json_says("\xe2\x82\"", "\"\xef\xbf\xbd\xef\xbf\xbd\\\"\"");
}

static void json_numbers_that_are_not_finite_are_null(void **state)
{
    (void)state;
    struct firn_buf buf = {0};
    buf_json_double(&buf, 1.5);
    buf_putc(&buf, ' ');
    buf_json_double(&buf, (double)NAN);
    buf_putc(&buf, ' ');
    buf_json_double(&buf, (double)INFINITY);
    assert_string_equal(buf.at, "1.5 null null");
    buf_release(&buf);
}

static void csv_strings_are_quoted_when_they_must_be(void **state)
{
    (void)state;
    struct firn_buf buf = {0};
    buf_csv_string(&buf, "plain text");
    buf_putc(&buf, ',');
    buf_csv_string(&buf, "a,b");
    buf_putc(&buf, ',');
    buf_csv_string(&buf, "say \"no\"");
    buf_putc(&buf, ',');
    buf_csv_string(&buf, "two\nlines");
    assert_string_equal(buf.at,
                        "plain text,\"a,b\",\"say \"\"no\"\"\",\"two\nlines\"");
    buf_release(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_no_noise_and_no_loss),
        cmocka_unit_test(any_bit_pattern_reads_back_equal_and_is_shortest),
        cmocka_unit_test(the_locale_does_not_matter),
        cmocka_unit_test(text_is_always_terminated),
        cmocka_unit_test(a_printf_longer_than_the_buffer_is_whole),
        cmocka_unit_test(json_strings_are_escaped_and_valid_utf8),
        cmocka_unit_test(json_numbers_that_are_not_finite_are_null),
        cmocka_unit_test(csv_strings_are_quoted_when_they_must_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
