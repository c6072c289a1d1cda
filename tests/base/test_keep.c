/* test_keep.c - what is kept reads back as the same bits, or not at all.
 */
#include "base/keep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include <cmocka.h>
#include <limits.h>
#include <math.h>
#include <string.h>

static const double numbers[] = {0,
                                 1,
                                 0.1,
                                 -1e-300,
                                 1.7976931348623157e308,
                                 4.9e-324,
                                 (double)INFINITY,
                                 -(double)INFINITY};

static struct keep open_kept(const struct firn_buf *buf)
{
    struct keep in;
    struct firn_error err = {0};
    assert_int_equal(
        keep_open(&in, (struct firn_bytes){buf->at, buf->n}, "test", 3, &err),
        FIRN_OK);
    return in;
}

/* Greater ones are not read: they could be a neighbour's. */
static const long ints[] = {INT_MIN,          -1, 0, 7, 9007199254740991,
                            -9007199254740991};

static void numbers_and_texts_come_back(void **unused)
{
    (void)unused;
    struct firn_buf out = {0};
    struct firn_error err = {0};
    size_t n;
    keep_begin(&out, "test", 3);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        keep_double(&out, numbers[i]);
    keep_double(&out, (double)NAN);
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        keep_int(&out, ints[i]);
    keep_text(&out, "");
    keep_text(&out, "a\nb:c \xc3\xa9");
    struct keep in = open_kept(&out);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        double back = keep_read_double(&in);
        assert_memory_equal(&back, &numbers[i], sizeof back);
    }
    assert_true(isnan(keep_read_double(&in)));
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        assert_true(keep_read_int(&in, LONG_MIN, LONG_MAX) == ints[i]);
    keep_read_text(&in, &n);
    assert_int_equal(n, 0);
    assert_memory_equal(keep_read_text(&in, &n), "a\nb:c \xc3\xa9", 8);
    assert_int_equal(n, 8);
    assert_int_equal(keep_close(&in, &err), FIRN_OK);
    buf_release(&out);
}

static void names_keep_their_numbers(void **unused)
{
    (void)unused;
    struct firn_buf out = {0};
    struct firn_error err = {0};
    struct map names = {0}, back = {0};
    map_add(&names, "b");
    map_add(&names, "");
    map_add(&names, "a");
    keep_begin(&out, "test", 3);
    keep_names(&out, &names);
    struct keep in = open_kept(&out);
    keep_read_names(&in, &back);
    assert_int_equal(keep_close(&in, &err), FIRN_OK);
    assert_int_equal(back.n, 3);
    for (int i = 0; i < 3; i++)
        assert_string_equal(map_name(&back, i), map_name(&names, i));
    map_release(&names);
    map_release(&back);
    buf_release(&out);
}

/* What is not there is 0, and the end tells. */
static void keep_close_reports_a_missing_field(void **unused)
{
    static const char *const texts[] = {"",
                                        "x\n",
                                        "7",
                                        "1\n2:ab",
                                        "1\n9999999999999999999:a\n",
                                        "1\n:\n",
                                        "1\n3:ab\n",
                                        "1\n-1:\n",
                                        "1e999\n"};
    (void)unused;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct firn_buf out = {0};
        struct firn_error err = {0};
        size_t n;
        keep_begin(&out, "test", 3);
        buf_puts(&out, texts[i]);
        struct keep in = open_kept(&out);
        keep_read_double(&in);
        keep_read_text(&in, &n);
        assert_true(keep_read_double(&in) == 0);
        assert_int_equal(keep_read_int(&in, 0, 9), 0);
        assert_int_equal(keep_close(&in, &err), FIRN_EDATA);
        assert_string_equal(err.text, "the kept state of test is damaged");
        buf_release(&out);
    }
}

static void bytes_of_another_owner_or_version_are_an_error(void **unused)
{
    (void)unused;
    struct firn_error err = {0};
    struct keep in;
    static const char theirs[] = "firn-keep other 3\n1\n";
    assert_int_equal(keep_open(&in,
                               (struct firn_bytes){theirs, sizeof theirs - 1},
                               "test", 3, &err),
                     FIRN_EDATA);
    assert_string_equal(err.text, "the kept state is not that of test, version "
                                  "3: it begins with 'firn-keep other 3'");
    assert_int_equal(
        keep_open(&in, (struct firn_bytes){NULL, 0}, "test", 3, &err),
        FIRN_EDATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_texts_come_back),
        cmocka_unit_test(names_keep_their_numbers),
        cmocka_unit_test(keep_close_reports_a_missing_field),
        cmocka_unit_test(bytes_of_another_owner_or_version_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
