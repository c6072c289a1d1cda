/* test_table.c - columns line up, and no line ends in a space.
 */
#include "base/buf.h"
#include "base/table.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void prints(struct table *table, const char *text)
{
    struct firn_buf out = {0};
    buf_puts(&out, "");
    table_print(table, &out);
    assert_string_equal(out.at, text);
    buf_release(&out);
    table_release(table);
}

static void columns_line_up_left_and_right(void **state)
{
    (void)state;
    struct table table;
    table_init(&table, "lr");
    table_cell(&table, "policy");
    table_cell(&table, "jobs");
    table_cell(&table, "fifo");
    table_cellf(&table, "%d", 5000);
    table_cell(&table, "opportunistic");
    table_cellf(&table, "%d", 7);
    prints(&table, "policy         jobs\n"
                   "fifo           5000\n"
                   "opportunistic     7\n");
}

static void no_line_ends_in_a_space(void **state)
{
    (void)state;
    struct table table;
    table_init(&table, "lll");
    table_cell(&table, "a");
    table_cell(&table, "");
    table_cell(&table, "");
    table_cell(&table, "long");
    table_cell(&table, "");
    table_cell(&table, "x");
    table_cell(&table, "last");
    prints(&table, "a\n"
                   "long    x\n"
                   "last\n");
}

static void widths_count_characters_not_bytes(void **state)
{
    (void)state;
    struct table table;
    table_init(&table, "ll");
    table_cell(&table, "\xc3\xa4\xc3\xb6");
    table_cell(&table, "x");
    table_cell(&table, "abc");
    table_cell(&table, "y");
    prints(&table, "\xc3\xa4\xc3\xb6   x\n"
                   "abc  y\n");
}

static void an_empty_table_prints_nothing(void **state)
{
    (void)state;
    struct table table;
    table_init(&table, "lr");
    prints(&table, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_line_up_left_and_right),
        cmocka_unit_test(no_line_ends_in_a_space),
        cmocka_unit_test(widths_count_characters_not_bytes),
        cmocka_unit_test(an_empty_table_prints_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
