/* test_files.c - folders in order, files as texts, and lists of lines. */
#include "base/buf.h"
#include "base/files.h"
#include "lib/temp.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char folder[TEMP_FOLDER];

static const char *path_of(const char *name)
{
    static char path[TEMP_PATH];
    temp_name(path, folder, name);
    return path;
}

static void write_file(const char *name, const char *bytes, size_t n)
{
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
    (void)state;
    temp_open(folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    temp_close(folder);
    return 0;
}

static void a_folder_is_listed_in_the_order_of_bytes(void **state)
{
    (void)state;
    static const char *const made[] = {"b.txt", "a.txt", "Z.txt",  ".c.txt",
                                       "a.csv", ".txt",  "ab.txt", "txt"};
    static const char *const want[] = {"Z.txt", "a.txt", "ab.txt", "b.txt"};
    struct files all = {0}, some = {0};
    for (size_t i = 0; i < 8; i++)
        write_file(made[i], "", 0);
    assert_true(files_list(&all, folder, ""));
    assert_true(files_list(&some, folder, ".txt"));
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(unlink(path_of(made[i])), 0);
    assert_int_equal(all.n, 6);
    assert_string_equal(all.at[1], path_of("a.csv"));
    assert_int_equal(some.n, 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(some.at[i], path_of(want[i]));
    files_release(&all);
    files_release(&some);
    assert_true(files_list(&some, folder, ""));
    assert_int_equal(some.n, 0);
    files_release(&some);
}

static void a_path_that_is_not_a_folder_is_an_error(void **state)
{
    (void)state;
    struct files none = {0};
    write_file("a", "", 0);
    assert_false(files_list(&none, path_of("a"), ""));
    assert_int_equal(errno, ENOTDIR);
    assert_int_equal(unlink(path_of("a")), 0);
    assert_false(files_list(&none, path_of("a"), ""));
    assert_int_equal(errno, ENOENT);
    assert_int_equal(none.n, 0);
}

static void a_name_is_longer_than_its_ending(void **state)
{
    (void)state;
    assert_true(files_ends("a.txt", ".txt"));
    assert_true(files_ends("a", ""));
    assert_false(files_ends(".txt", ".txt"));
    assert_false(files_ends("a.txt.gz", ".txt"));
    assert_false(files_ends("t", ".txt"));
}

static void a_file_is_read_as_lines_and_added(void **state)
{
    (void)state;
    static const char bytes[] = "one\r\nt\0wo\n\nlast";
    struct firn_buf text = {0};
    struct firn_error err = {0};
    write_file("f", bytes, sizeof bytes - 1);
    buf_puts(&text, "before ");
    assert_int_equal(files_text(&text, path_of("f"), &err), FIRN_OK);
    assert_string_equal(text.at, "before one\n?\n\nlast\n");
    assert_int_equal(unlink(path_of("f")), 0);
    assert_int_equal(files_text(&text, path_of("f"), &err), FIRN_ENOENT);
    assert_non_null(strstr(err.text, path_of("f")));
    assert_int_equal(files_text(&text, folder, &err), FIRN_EIO);
    buf_release(&text);
}

static void shipped_files_come_one_after_another(void **state)
{
    (void)state;
    static const char *const list[] = {"a/x", "one", "two",   NULL, "a/y",
                                       NULL,  "a/z", "three", NULL, NULL};
    const char *const *at = list;
    struct firn_buf text = {0};
    assert_string_equal(files_shipped(&at, &text), "a/x");
    assert_string_equal(text.at, "one\ntwo\n");
    assert_string_equal(files_shipped(&at, &text), "a/y");
    assert_int_equal(text.n, 0);
    assert_string_equal(files_shipped(&at, &text), "a/z");
    assert_string_equal(text.at, "three\n");
    assert_null(files_shipped(&at, &text));
    assert_null(files_shipped(&at, &text));
    assert_int_equal(text.n, 0);
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_is_listed_in_the_order_of_bytes),
        cmocka_unit_test(a_path_that_is_not_a_folder_is_an_error),
        cmocka_unit_test(a_name_is_longer_than_its_ending),
        cmocka_unit_test(a_file_is_read_as_lines_and_added),
        cmocka_unit_test(shipped_files_come_one_after_another),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
