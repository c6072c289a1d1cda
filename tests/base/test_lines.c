/* test_lines.c - lines of memory and of files, against a plain splitter. */
#include "base/lines.h"
#include "base/mem.h"
#include "base/rng.h"
#include "lib/temp.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct lines *from_text(const char *text)
{
    return lines_from((struct firn_bytes){text, strlen(text)});
}

static void ends_of_both_kinds_are_cut(void **state)
{
    (void)state;
    struct lines *lines = from_text("a\nbc\r\n\n\r\nlast");
    const char *want[] = {"a", "bc", "", "", "last"};
    const int64_t offset[] = {0, 2, 6, 7, 9};
    for (long i = 0; i < 5; i++) {
        assert_string_equal(lines_next(lines), want[i]);
        assert_int_equal(lines_number(lines), i + 1);
        assert_int_equal(lines_offset(lines), offset[i]);
        assert_false(lines_bad(lines));
    }
    assert_null(lines_next(lines));
    assert_null(lines_next(lines));
    assert_int_equal(lines_at(lines), 13);
    assert_int_equal(lines_size(lines), 13);
    lines_close(lines);
    lines_close(NULL);
}

static void an_empty_source_has_no_line(void **state)
{
    (void)state;
    struct lines *lines = lines_from((struct firn_bytes){NULL, 0});
    assert_null(lines_next(lines));
    lines_close(lines);
    lines = from_text("\n");
    assert_string_equal(lines_next(lines), "");
    assert_null(lines_next(lines));
    lines_close(lines);
}

static void the_caller_may_scribble_on_a_line(void **state)
{
    (void)state;
    static const char text[] = "one\ntwo\n"; /* read-only memory */
    struct lines *lines = from_text(text);
    char *line = lines_next(lines);
    memset(line, 'x', 3);
    assert_string_equal(lines_next(lines), "two");
    assert_string_equal(text, "one\ntwo\n");
    lines_close(lines);
}

static void a_line_with_a_nul_is_bad_and_the_next_is_not(void **state)
{
    (void)state;
    struct lines *lines = lines_from((struct firn_bytes){"a\0b\nc\n", 6});
    assert_string_equal(lines_next(lines), "");
    assert_true(lines_bad(lines));
    assert_string_equal(lines_next(lines), "c");
    assert_false(lines_bad(lines));
    assert_int_equal(lines_number(lines), 2);
    lines_close(lines);
}

/* A line of n bytes and its end, then "after". */
static void check_long(size_t n, const char *end, bool is_bad)
{
    size_t size = n + strlen(end) + 5;
    char *text = mem_new(size + 1, 1);
    memset(text, 'y', n);
    snprintf(text + n, size + 1 - n, "%safter", end);
    struct lines *lines = lines_from((struct firn_bytes){text, size});
    char *line = lines_next(lines);
    assert_int_equal(lines_bad(lines), is_bad);
    assert_int_equal(strlen(line), is_bad ? 0 : n);
    assert_string_equal(lines_next(lines), "after");
    assert_int_equal(lines_offset(lines), n + strlen(end));
    assert_int_equal(lines_number(lines), 2);
    assert_false(lines_bad(lines));
    assert_null(lines_next(lines));
    lines_close(lines);
    mem_free(text);
}

static void a_line_over_the_limit_is_bad_and_the_next_is_not(void **state)
{
    (void)state;
    size_t max = LINES_MAX;
    check_long(max - 1, "\n", false);
    check_long(max, "\n", false);
    check_long(max, "\r\n", false);
    check_long(max + 1, "\n", true);
    check_long(max + 1, "\r\n", true);
    check_long(4 * max - 1, "\n", true);
    check_long(4 * max, "\n", true);
    check_long(4 * max + 1, "\n", true);
    check_long(40 * max, "\r\n", true);
}

static void a_long_last_line_is_bad_too(void **state)
{
    (void)state;
    for (size_t more = 1; more < 6 * (size_t)LINES_MAX; more += LINES_MAX) {
        size_t n = (size_t)LINES_MAX + more;
        char *text = mem_new(n, 1);
        memset(text, 'z', n);
        struct lines *lines = lines_from((struct firn_bytes){text, n});
        assert_string_equal(lines_next(lines), "");
        assert_true(lines_bad(lines));
        assert_null(lines_next(lines));
        assert_int_equal(lines_at(lines), n);
        lines_close(lines);
        mem_free(text);
    }
}

/* Where each line of the text starts, by the plainest means. */
static size_t starts_of(const char *text, size_t n, int64_t *starts)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || text[i - 1] == '\n')
            starts[count++] = (int64_t)i;
    return count;
}

static size_t random_text(char *text, size_t size, struct rng *rng)
{
    for (size_t i = 0; i < size; i++) {
        uint64_t draw = rng_below(rng, 40);
        text[i] = draw == 0 ? '\n' : (char)('a' + (char)(draw % 26));
    }
    return size;
}

static void check_line(struct lines *lines, const char *text, size_t n,
                       int64_t start)
{
    const char *line = lines_next(lines);
    assert_non_null(line);
    assert_int_equal(lines_offset(lines), start);
    const char *end = memchr(text + start, '\n', n - (size_t)start);
    size_t length = end ? (size_t)(end - text - start) : n - (size_t)start;
    assert_int_equal(strlen(line), length);
    assert_memory_equal(line, text + start, length);
}

/* Reads all in order, then at random places. */
static void check_all(struct lines *lines, const char *text, size_t n,
                      struct rng *rng)
{
    int64_t *starts = mem_new(n + 1, sizeof *starts);
    size_t count = starts_of(text, n, starts);
    for (size_t i = 0; i < count; i++)
        check_line(lines, text, n, starts[i]);
    assert_null(lines_next(lines));
    assert_int_equal(lines_number(lines), count);
    for (int k = 0; k < 200; k++) {
        size_t i = (size_t)rng_below(rng, count);
        lines_seek(lines, starts[i], (long)i + 1);
        check_line(lines, text, n, starts[i]);
        assert_int_equal(lines_number(lines), i + 1);
        if (i + 1 < count)
            check_line(lines, text, n, starts[i + 1]);
    }
    assert_false(lines_failed(lines));
    mem_free(starts);
}

static void memory_and_file_agree_with_a_plain_splitter(void **state)
{
    (void)state;
    enum { BYTES = 700001 }; /* over two windows */
    char *text = mem_new(BYTES, 1);
    struct rng rng;
    rng_seed(&rng, 11);
    size_t n = random_text(text, BYTES, &rng);
    struct lines *lines = lines_from((struct firn_bytes){text, n});
    check_all(lines, text, n, &rng);
    lines_close(lines);
    char path[TEMP_FOLDER];
    temp_file(path, (struct firn_bytes){text, n});
    struct firn_error err = {0};
    assert_int_equal(lines_open(&lines, path, &err), FIRN_OK);
    assert_int_equal(lines_size(lines), n);
    check_all(lines, text, n, &rng);
    lines_close(lines);
    unlink(path);
    mem_free(text);
}

static void an_unreadable_file_is_an_error(void **state)
{
    (void)state;
    struct lines *lines = NULL;
    struct firn_error err = {0};
    assert_int_equal(lines_open(&lines, "/no/such/file", &err), FIRN_ENOENT);
    assert_non_null(strstr(err.text, "/no/such/file"));
    assert_int_equal(lines_open(&lines, "/tmp", &err), FIRN_EIO);
    assert_non_null(strstr(err.text, "/tmp: is a directory"));
    assert_null(lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_of_both_kinds_are_cut),
        cmocka_unit_test(an_empty_source_has_no_line),
        cmocka_unit_test(the_caller_may_scribble_on_a_line),
        cmocka_unit_test(a_line_with_a_nul_is_bad_and_the_next_is_not),
        cmocka_unit_test(a_line_over_the_limit_is_bad_and_the_next_is_not),
        cmocka_unit_test(a_long_last_line_is_bad_too),
        cmocka_unit_test(memory_and_file_agree_with_a_plain_splitter),
        cmocka_unit_test(an_unreadable_file_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
