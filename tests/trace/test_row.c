/* test_row.c - CSV rows: columns by name, quotes, strict numbers. */
#include "trace/row.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

enum { A, B, C };
static const char *const columns[] = {"a", "b", "c", NULL};

static struct lines *from(const char *text)
{
    return lines_from((struct firn_bytes){text, strlen(text)});
}

/* Opens `text`, of which columns a and b are needed, and reads one row. */
static struct lines *first_row(struct row *row, const char *text)
{
    struct firn_error err;
    struct lines *in = from(text);
    *row = (struct row){0};
    assert_int_equal(row_open(row, in, columns, 2, &err), FIRN_OK);
    assert_int_equal(row_next(row, in, &err), FIRN_ROW_JOB);
    return in;
}

static void columns_are_found_by_name_in_any_order(void **state)
{
    (void)state;
    struct row row;
    struct lines *in = first_row(&row, "x, b ,\"a\"\n1,2,3\n");
    assert_string_equal(row_text(&row, A), "3");
    assert_string_equal(row_text(&row, B), "2");
    assert_string_equal(row_text(&row, C), "");
    assert_true(row_has(&row, A));
    assert_false(row_has(&row, C));
    lines_close(in);
}

static void quoted_fields_keep_commas_and_quotes(void **state)
{
    (void)state;
    struct row row;
    struct lines *in =
        first_row(&row, "a,b,c\n\"one, \"\"two\"\"\",\"\",\" x \"\n");
    assert_string_equal(row_text(&row, A), "one, \"two\"");
    assert_string_equal(row_text(&row, B), "");
    assert_string_equal(row_text(&row, C), " x ");
    lines_close(in);
}

static void nameless_columns_at_the_end_may_be_missing(void **state)
{
    (void)state;
    struct row row;
    struct firn_error err;
    struct lines *in = first_row(&row, "a,b,,\n1,2\n1,2,3,4\n1\n1,2,3,4,5\n");
    assert_int_equal(row_next(&row, in, &err), FIRN_ROW_JOB);
    assert_int_equal(row_next(&row, in, &err), FIRN_ROW_BAD);
    assert_string_equal(err.text, "has 1 field, the header has 4");
    assert_int_equal(row_next(&row, in, &err), FIRN_ROW_BAD);
    assert_string_equal(err.text, "has 5 fields, the header has 4");
    assert_int_equal(row_next(&row, in, &err), FIRN_ROW_END);
    lines_close(in);
}

static void a_wrong_header_is_refused_with_a_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"", "has no header"},
        {"\n\n", "has no header"},
        {"a,c\n", "header: no column 'b'"},
        {"a,b,a\n", "header: column 'a' appears twice"},
        {"a,\"b\n", "header: field 2: the quote is not closed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct row row = {0};
        struct firn_error err;
        struct lines *in = from(cases[i].text);
        assert_int_equal(row_open(&row, in, columns, 2, &err), FIRN_EINVAL);
        assert_string_equal(err.text, cases[i].sentence);
        lines_close(in);
    }
}

static void a_number_out_of_range_is_reported_with_its_column(void **state)
{
    (void)state;
    struct row row;
    struct firn_error err;
    int n = 7;
    double x = 7;
    struct lines *in = first_row(&row, "a,b,c\n-1,4.5,nan\n");
    assert_false(row_int(&row, A, 1, 8, &n, &err));
    assert_string_equal(err.text,
                        "'a' is -1: must be a whole number from 1 to 8");
    assert_false(row_int(&row, B, 1, 8, &n, &err));
    assert_string_equal(err.text,
                        "'b' is 4.5: must be a whole number from 1 to 8");
    assert_false(row_time(&row, A, &x, &err));
    assert_string_equal(err.text,
                        "'a' is -1: must be a number from 0 to 1e+15");
    assert_false(row_span(&row, C, &x, &err));
    assert_string_equal(err.text,
                        "'c' is nan: must be a number above 0, to 1e+15");
    assert_int_equal(n, 7); /* left as it was */
    assert_true(x == 7);
    assert_true(row_number(&row, A, -5, 5, &x, &err) && x == -1);
    lines_close(in);
}

static void strange_bytes_are_not_repeated_to_the_user(void **state)
{
    (void)state;
    struct row row;
    struct firn_error err;
    int n;
    struct lines *in =
        first_row(&row, "a,b,c\n\x1b[31m,,"
                        "0123456789012345678901234567890123456789012345\n");
    assert_false(row_int(&row, A, 0, 1, &n, &err));
    assert_memory_equal(err.text, "'a' is ?[31m: ", 14);
    assert_false(row_int(&row, B, 0, 1, &n, &err));
    assert_memory_equal(err.text, "'b' is empty: ", 14);
    assert_false(row_int(&row, C, 0, 1, &n, &err));
    assert_non_null(strstr(err.text, "56789...: must"));
    lines_close(in);
}

static void too_many_fields_are_a_bad_row(void **state)
{
    (void)state;
    char text[512] = "a,b,c\n";
    for (int i = 0; i < 100; i++)
        strncat(text, "1,", sizeof text - strlen(text) - 1);
    struct row row = {0};
    struct firn_error err;
    struct lines *in = from(text);
    assert_int_equal(row_open(&row, in, columns, 3, &err), FIRN_OK);
    assert_int_equal(row_next(&row, in, &err), FIRN_ROW_BAD);
    assert_string_equal(err.text, "has more than 64 fields");
    lines_close(in);
}

static void a_nul_byte_is_a_bad_row_and_reading_goes_on(void **state)
{
    (void)state;
    static const char text[] = "a,b,c\n1,\0,3\n1,2,3\n";
    struct row row = {0};
    struct firn_error err;
    struct lines *in = lines_from((struct firn_bytes){text, sizeof text - 1});
    assert_int_equal(row_open(&row, in, columns, 3, &err), FIRN_OK);
    assert_int_equal(row_next(&row, in, &err), FIRN_ROW_BAD);
    assert_non_null(strstr(err.text, "NUL"));
    assert_int_equal(row_next(&row, in, &err), FIRN_ROW_JOB);
    assert_int_equal(row_next(&row, in, &err), FIRN_ROW_END);
    lines_close(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_found_by_name_in_any_order),
        cmocka_unit_test(quoted_fields_keep_commas_and_quotes),
        cmocka_unit_test(nameless_columns_at_the_end_may_be_missing),
        cmocka_unit_test(a_wrong_header_is_refused_with_a_sentence),
        cmocka_unit_test(a_number_out_of_range_is_reported_with_its_column),
        cmocka_unit_test(strange_bytes_are_not_repeated_to_the_user),
        cmocka_unit_test(too_many_fields_are_a_bad_row),
        cmocka_unit_test(a_nul_byte_is_a_bad_row_and_reading_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
