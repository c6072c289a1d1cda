/* test_all.c - the contract of every registered trace format.
 *
 * Each format has a fixture of a few good rows, and everything here is derived
 * from it: other line ends, cut files, spoilt fields. A new format gets these
 * tests by its line in traces.def and its fixture.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "lib/temp.h"
#include "lib/trace_text.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef void check(const struct firn_trace_def *def, const char *text);

/* Runs `check` on each format with its fixture. */
static void each(check *run)
{
    size_t n;
    const struct firn_trace_def *const *defs = firn_traces(&n);
    assert_true(n >= 11);
    for (size_t i = 0; i < n; i++) {
        struct firn_buf text = fixture(defs[i]->name);
        run(defs[i], text.at);
        buf_release(&text);
    }
}

static struct firn_buf read_text(const struct firn_trace_def *def,
                                 const char *text)
{
    return trace_text(def, (struct firn_bytes){text, strlen(text)});
}

static bool sniffs(const struct firn_trace_def *def, const char *text)
{
    return def->sniff((struct firn_bytes){text, strcspn(text, "\n")});
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        n++;
    return n;
}

static void check_record(const struct firn_trace_def *def, const char *text)
{
    (void)text;
    assert_true(*def->name != '\0' && strlen(def->name) < 16);
    assert_true(strlen(def->summary) > 10 && strlen(def->summary) <= 60);
    assert_true(def->state_size > 0);
    assert_non_null(def->sniff);
    assert_non_null(def->open);
    assert_non_null(def->next);
    assert_ptr_equal(trace_def(def->name), def); /* names are unique */
}

static void every_record_is_complete(void **state)
{
    (void)state;
    each(check_record);
}

static void check_sniff(const struct firn_trace_def *def, const char *text)
{
    size_t n;
    const struct firn_trace_def *const *defs = firn_traces(&n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(sniffs(defs[i], text), defs[i] == def);
    struct firn_buf marked = {0};
    buf_printf(&marked, "\xef\xbb\xbf%s", text);
    assert_true(sniffs(def, marked.at));
    buf_release(&marked);
}

static void a_header_is_known_by_its_own_format_only(void **state)
{
    (void)state;
    each(check_sniff);
}

static void check_garbage(const struct firn_trace_def *def, const char *text)
{
    (void)text;
    struct rng rng;
    rng_seed(&rng, 11);
    char bytes[64];
    assert_false(def->sniff((struct firn_bytes){NULL, 0}));
    assert_false(def->sniff((struct firn_bytes){"", 0}));
    for (int i = 0; i < 1000; i++) {
        for (size_t j = 0; j < sizeof bytes; j++)
            bytes[j] = (char)rng_below(&rng, 256);
        assert_false(def->sniff((struct firn_bytes){bytes, sizeof bytes}));
    }
}

static void garbage_is_no_header(void **state)
{
    (void)state;
    each(check_garbage);
}

static void check_good(const struct firn_trace_def *def, const char *text)
{
    struct firn_buf got = read_text(def, text);
    assert_true(count(got.at, ": job ") >= 3);
    assert_int_equal(count(got.at, ": bad"), 0);
    buf_release(&got);
}

static void good_rows_give_sound_jobs(void **state)
{
    (void)state;
    each(check_good);
}

/* Replaces each line end by `end`; no end at the end of the last line if
 * `is_open`. */
static struct firn_buf with_ends(const char *text, const char *end,
                                 bool is_open)
{
    struct firn_buf out = {0};
    for (; *text != '\0'; text++) {
        if (*text != '\n')
            buf_putc(&out, *text);
        else if (!is_open || text[1] != '\0')
            buf_puts(&out, end);
    }
    return out;
}

static void check_ends(const struct firn_trace_def *def, const char *text)
{
    struct firn_buf want = read_text(def, text);
    struct firn_buf forms[3] = {with_ends(text, "\r\n", false),
                                with_ends(text, "\n", true)};
    buf_printf(&forms[2], "\xef\xbb\xbf%s\n \n", text);
    for (int i = 0; i < 3; i++) {
        struct firn_buf got = read_text(def, forms[i].at);
        assert_string_equal(got.at, want.at);
        buf_release(&got);
        buf_release(&forms[i]);
    }
    buf_release(&want);
}

static void line_ends_marks_and_blank_lines_change_nothing(void **state)
{
    (void)state;
    each(check_ends);
}

static void check_cut(const struct firn_trace_def *def, const char *text)
{
    size_t n = strlen(text);
    for (size_t length = 0; length < n; length++) {
        char *part = mem_new(length + 1, 1); /* so that ASan sees its end */
        memcpy(part, text, length);
        struct firn_buf got =
            trace_text(def, (struct firn_bytes){part, length});
        assert_true(count(got.at, "\n") <= count(text, "\n"));
        buf_release(&got);
        mem_free(part);
    }
    struct firn_buf none = read_text(def, "");
    assert_memory_equal(none.at, "open: ", 6);
    buf_release(&none);
}

static void a_cut_file_is_read_as_far_as_it_goes(void **state)
{
    (void)state;
    each(check_cut);
}

/* `text` with field `field` of its last line replaced; false when there is no
 * such field. Quotes are not understood: the fixtures' last lines have none. */
static bool spoil(const char *text, int field, const char *by,
                  struct firn_buf *out)
{
    size_t n = strlen(text) - 1;
    while (n > 0 && text[n - 1] != '\n')
        n--;
    const char *at = text + n;
    for (int i = 0; i < field; i++) {
        at += strcspn(at, ",\n");
        if (*at != ',')
            return false;
        at++;
    }
    buf_add(out, text, (size_t)(at - text));
    buf_puts(out, by);
    buf_puts(out, at + strcspn(at, ",\n"));
    return true;
}

static void check_spoilt(const struct firn_trace_def *def, const char *text)
{
    static const char *const values[] = {
        "-1",  "0",      "nan",  "inf",     "1e999", "-0.5",
        "",    "x",      "1e18", "9999999", "\"",    "\"a\"b",
        "0x8", "1,2,3,", "7 7",  "\xff",    "#",     "2147483648"};
    int negative = 0, fields = 0;
    for (int field = 0;; field++) {
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            struct firn_buf spoilt = {0};
            if (!spoil(text, field, values[v], &spoilt)) {
                assert_true(field >= 4);
                assert_true(negative >= 3); /* GPUs, submission, duration */
                assert_int_equal(fields, field);
                return;
            }
            struct firn_buf got = read_text(def, spoilt.at);
            if (strcmp(values[v], "-1") == 0)
                negative += count(got.at, "is -1: must be");
            if (strcmp(values[v], "1,2,3,") == 0)
                fields += count(got.at, "fields, the header has");
            if (strcmp(values[v], "\"") == 0)
                assert_int_equal(count(got.at, "the quote is not closed"), 1);
            if (strcmp(values[v], "\"a\"b") == 0)
                assert_int_equal(count(got.at, "after the closing quote"), 1);
            buf_release(&got);
            buf_release(&spoilt);
        }
    }
}

static void
a_spoilt_field_gives_a_sentence_and_never_an_unsound_job(void **state)
{
    (void)state;
    each(check_spoilt);
}

/* The fixture and one row that no format can read, in a file. */
static void check_strict(const struct firn_trace_def *def, const char *text)
{
    char path[64], want[128];
    struct firn_buf bad = {0};
    (void)def;
    buf_printf(&bad, "%s?\n", text);
    int line = count(bad.at, "\n");
    temp_file(path, (struct firn_bytes){bad.at, bad.n});
    snprintf(want, sizeof want, "%s: line %d: has 1 field, the header has",
             path, line);

    struct firn_buf easy = trace_text_file(path, NULL);
    assert_non_null(strstr(easy.at, want));
    assert_null(strstr(easy.at, "end: "));
    assert_true(count(easy.at, ": job ") >= 3);

    struct firn_buf hard =
        trace_text_file(path, &(struct firn_trace_options){.strict = true});
    char ending[160];
    snprintf(ending, sizeof ending, "end: %s", want);
    assert_non_null(strstr(hard.at, ending));
    assert_int_equal(count(hard.at, ": job "), count(easy.at, ": job "));

    unlink(path);
    buf_release(&bad);
    buf_release(&easy);
    buf_release(&hard);
}

static void a_bad_row_is_counted_or_when_strict_ends_the_reading(void **state)
{
    (void)state;
    each(check_strict);
}

static void check_header_only(const struct firn_trace_def *def,
                              const char *text)
{
    char path[64], want[128];
    bool is_ours = strcmp(def->name, "firn") == 0; /* two lines of header */
    size_t n = strcspn(text, "\n") + 1;
    if (is_ours)
        n += strcspn(text + n, "\n") + 1;
    temp_file(path, (struct firn_bytes){text, n});
    struct firn_buf got = trace_text_file(path, NULL);
    snprintf(want, sizeof want,
             "open: %s: a %s trace with a header and no rows\n", path,
             def->name);
    assert_string_equal(got.at, want);
    unlink(path);
    buf_release(&got);
}

static void a_file_with_only_a_header_is_refused(void **state)
{
    (void)state;
    each(check_header_only);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_complete),
        cmocka_unit_test(a_header_is_known_by_its_own_format_only),
        cmocka_unit_test(garbage_is_no_header),
        cmocka_unit_test(good_rows_give_sound_jobs),
        cmocka_unit_test(line_ends_marks_and_blank_lines_change_nothing),
        cmocka_unit_test(a_cut_file_is_read_as_far_as_it_goes),
        cmocka_unit_test(
            a_spoilt_field_gives_a_sentence_and_never_an_unsound_job),
        cmocka_unit_test(a_bad_row_is_counted_or_when_strict_ends_the_reading),
        cmocka_unit_test(a_file_with_only_a_header_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
