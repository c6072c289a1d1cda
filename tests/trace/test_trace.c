/* test_trace.c - files: order, groups, bad rows, what is no trace. */
#include "base/buf.h"
#include "base/rng.h"
#include "base/vec.h"
#include "lib/temp.h"
#include "lib/trace_text.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct firn_trace_options strict = {.strict = true};

static const char header[] = "job_id,submit_s,duration_s,num_gpus,vc\n";

/* Reads a file of these bytes; "FILE" stands for its name in `want`. */
static void expect_bytes(const char *bytes, size_t n,
                         const struct firn_trace_options *options,
                         const char *want)
{
    char path[64];
    temp_file(path, (struct firn_bytes){bytes, n});
    struct firn_buf got = trace_text_file(path, options);
    struct firn_buf full = {0};
    for (; *want != '\0'; want++) {
        if (strncmp(want, "FILE", 4) != 0) {
            buf_putc(&full, *want);
            continue;
        }
        buf_puts(&full, path);
        want += 3;
    }
    assert_string_equal(got.at, full.at);
    unlink(path);
    buf_release(&got);
    buf_release(&full);
}

/* The same with philly's header before `rows`. */
static void expect(const char *rows, const struct firn_trace_options *options,
                   const char *want)
{
    struct firn_buf text = {0};
    buf_printf(&text, "%s%s", header, rows);
    expect_bytes(text.at, text.n, options, want);
    buf_release(&text);
}

static const char unsorted_rows[] = "a,30,1,1,x\nb,10,1,1,y\nc,20,1,1,x\n"
                                    "d,30,1,1,y\ne,10,1,1,y\n";

static void rows_out_of_order_come_out_in_order_ties_by_line(void **state)
{
    (void)state;
    expect(unsorted_rows, NULL,
           "3: job b,10,1,1,1,1,,y,0,0,0,,0,-1,0\n"
           "6: job e,10,1,1,1,1,,y,0,0,0,,0,-1,0\n"
           "4: job c,20,1,1,1,1,,x,0,0,0,,0,-1,0\n"
           "2: job a,30,1,1,1,1,,x,0,0,0,,0,-1,0\n"
           "5: job d,30,1,1,1,1,,y,0,0,0,,0,-1,0\n"
           "report 5 0 0 3\n");
}

/* 30, then 10: the second row ends it. */
static void a_reader_that_trusts_the_order_stops_where_it_is_wrong(void **state)
{
    (void)state;
    struct firn_trace_options trusting = {.trusts_order = true};
    struct firn_trace *trace = NULL;
    struct firn_job_spec spec;
    struct firn_error err = {0};
    char path[64];
    char bytes[256];
    snprintf(bytes, sizeof bytes,
             "job_id,submit_s,duration_s,num_gpus,vc\n"
             "a,30,1,1,x\nb,10,1,1,y\n");
    temp_file(path, (struct firn_bytes){bytes, strlen(bytes)});
    assert_int_equal(firn_trace_open(&trace, path, &trusting, &err), FIRN_OK);
    assert_true(firn_trace_next(trace, &spec, &err));
    assert_false(firn_trace_next(trace, &spec, &err));
    assert_int_equal(err.status, FIRN_EDATA);
    assert_non_null(strstr(err.text, "line 3: not in order"));
    firn_trace_close(trace);
    remove(path);
}

static void a_strict_reader_refuses_the_first_row_out_of_order(void **state)
{
    (void)state;
    expect(unsorted_rows, &strict,
           "open: FILE: line 3: submitted at 10 s, before line 2 at 30 s: not "
           "in order\n");
}

static void a_strict_reader_names_the_first_trouble_in_the_file(void **state)
{
    (void)state;
    expect("a,5,1,1,x\nb,6,1,0,x\nc,4,1,1,x\n", &strict,
           "2: job a,5,1,1,1,1,,x,0,0,0,,0,-1,0\n"
           "end: FILE: line 3: 'num_gpus' is 0: must be a whole number from 1 "
           "to 1048576\n"
           "report 1 0 1 0\n"
           "FILE: line 3: 'num_gpus' is 0: must be a whole number from 1 to "
           "1048576\n");
}

static void bad_rows_are_counted_once_in_an_indexed_file_too(void **state)
{
    (void)state;
    expect("a,30,1,1,x\nb,10,0,1,y\nc,20,1,1,x\nd\ne,5,x,1,x\nf,,1,1,x\n", NULL,
           "4: job c,20,1,1,1,1,,x,0,0,0,,0,-1,0\n"
           "2: job a,30,1,1,1,1,,x,0,0,0,,0,-1,0\n"
           "report 2 0 4 1\n"
           "FILE: line 3: 'duration_s' is 0: must be a number above 0, to "
           "1e+15\n"
           "FILE: line 5: has 1 field, the header has 5\n"
           "FILE: line 6: 'duration_s' is x: must be a number above 0, to "
           "1e+15\n");
}

static void a_group_is_read_alone_and_its_order_alone_counts(void **state)
{
    (void)state;
    struct firn_trace_options of_x = {.strict = true, .group = "x"};
    expect("a,10,1,1,x\nb,5,1,1,y\nc,20,1,1,x\n", &of_x,
           "2: job a,10,1,1,1,1,,x,0,0,0,,0,-1,0\n"
           "4: job c,20,1,1,1,1,,x,0,0,0,,0,-1,0\n"
           "report 2 0 0 0\n");
    struct firn_trace_options of_z = {.group = "z"};
    expect("a,10,1,1,x\nb,5,1,1,y\nc,20,1,1,x\n", &of_z,
           "open: FILE: no job of group 'z'; there are: x, y\n");
}

static void a_path_may_name_the_group(void **state)
{
    (void)state;
    char path[64], with_group[80];
    struct firn_buf text = fixture("philly");
    temp_file(path, (struct firn_bytes){text.at, text.n});
    snprintf(with_group, sizeof with_group, "%s#red", path);
    struct firn_buf got = trace_text_file(with_group, NULL);
    assert_string_equal(got.at, "3: job 11,60,4,7200,4,4,,red,0,0,0,,0,-1,0\n"
                                "report 1 0 0 0\n");
    buf_release(&got);
    assert_int_equal(rename(path, with_group), 0); /* now it is the name */
    got = trace_text_file(with_group, NULL);
    assert_non_null(strstr(got.at, "report 3 0 0 0\n"));
    unlink(with_group);
    buf_release(&got);
    buf_release(&text);
}

static void a_file_that_is_no_trace_is_refused_with_a_sentence(void **state)
{
    (void)state;
    expect_bytes("", 0, NULL, "open: FILE: the file is empty\n");
    expect_bytes("\0\1\2\3\n", 5, NULL,
                 "open: FILE: is not text: its first line has a NUL byte or "
                 "more than 65536 bytes\n");
    expect_bytes(
        "hello, \x1b world\n", 15, NULL,
        "open: FILE: no trace format knows this first line: 'hello, ? "
        "world' (formats: firn, plain, philly, pollux, titan, "
        "easyscale, rubick, muri, tiresias, chronus, gavel, alibaba)\n");
    struct firn_buf got = trace_text_file("tests", NULL);
    assert_string_equal(got.at,
                        "open: tests: is a directory, not a trace file\n");
    buf_release(&got);
    got = trace_text_file("/dev/null", NULL);
    assert_non_null(strstr(got.at, "must be a regular file"));
    buf_release(&got);
    got = trace_text_file("-", NULL);
    assert_non_null(strstr(got.at, "must be a file"));
    buf_release(&got);
    struct firn_trace *trace = NULL;
    struct firn_error err;
    assert_int_equal(firn_trace_open(&trace, "no/such/file", NULL, &err),
                     FIRN_ENOENT);
    assert_non_null(strstr(err.text, "no/such/file"));
    firn_trace_close(NULL);
}

static void a_file_of_only_bad_rows_opens_and_reports_them(void **state)
{
    (void)state;
    expect("a,1,1,-3,x\n", NULL,
           "report 0 0 1 0\n"
           "FILE: line 2: 'num_gpus' is -3: must be a whole number from 1 to "
           "1048576\n");
}

static void a_refused_job_counts_as_bad(void **state)
{
    (void)state;
    char path[64], want[160];
    struct firn_buf text = fixture("philly");
    temp_file(path, (struct firn_bytes){text.at, text.n});
    snprintf(want, sizeof want, "%s: line 2: job '10' wants too much", path);
    for (int is_strict = 0; is_strict < 2; is_strict++) {
        struct firn_trace *trace;
        struct firn_error err = {0};
        struct firn_job_spec spec;
        struct firn_trace_options options = {.strict = is_strict};
        assert_int_equal(firn_trace_open(&trace, path, &options, &err),
                         FIRN_OK);
        assert_true(firn_trace_next(trace, &spec, &err));
        enum firn_status status =
            firn_trace_refuse(trace, &spec, "wants too much", &err);
        assert_int_equal(status, is_strict ? FIRN_EINVAL : FIRN_OK);
        if (is_strict)
            assert_string_equal(err.text, want);
        const struct firn_trace_report *report = firn_trace_report(trace);
        assert_int_equal(report->jobs, 0);
        assert_int_equal(report->bad, 1);
        assert_string_equal(report->first_bad[0], want);
        assert_string_equal(firn_trace_format(trace)->name, "philly");
        firn_trace_close(trace);
    }
    unlink(path);
    buf_release(&text);
}

/* A shuffled file gives what the sorted one gives, line numbers aside. */
static void shuffled_files_read_as_sorted_ones(void **state)
{
    (void)state;
    enum { JOBS = 3000 };
    struct rng rng;
    uint64_t seed = 5;
    rng_seed(&rng, seed);
    int order[JOBS];
    for (int i = 0; i < JOBS; i++)
        order[i] = i;
    for (int i = JOBS - 1; i > 0; i--) {
        int j = (int)rng_below(&rng, (uint64_t)i + 1);
        int kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    char path[64];
    struct firn_buf text = {0};
    buf_puts(&text, header);
    for (int i = 0; i < JOBS; i++) /* rows of uneven length */
        buf_printf(&text, "%d,%d,1,1,%.*s\n", order[i], order[i], order[i] % 37,
                   "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy");
    temp_file(path, (struct firn_bytes){text.at, text.n});
    struct firn_trace *trace;
    struct firn_error err = {0};
    struct firn_job_spec spec;
    assert_int_equal(firn_trace_open(&trace, path, NULL, &err), FIRN_OK);
    for (int i = 0; i < JOBS; i++) {
        assert_true(firn_trace_next(trace, &spec, &err));
        assert_int_equal(strtol(spec.name, NULL, 10), i);
        assert_int_equal(strlen(spec.group), i % 37);
        assert_int_equal(order[spec.line - 2], i);
    }
    assert_false(firn_trace_next(trace, &spec, &err));
    assert_int_equal(err.status, FIRN_OK);
    firn_trace_close(trace);
    unlink(path);
    buf_release(&text);
}

static void firns_own_columns_are_named_with_their_lines(void **state)
{
    (void)state;
    static const char text[] = "#firn-trace 1\n"
                               "name,submit_s,gpus,duration_s,one_type\n"
                               "a,0,1,9,1\n# aside\nb,0,1,9,-1\nc,0,1,9,\n";
    expect_bytes(
        text, sizeof text - 1, NULL,
        "3: job a,0,1,9,1,1,,,0,0,0,,0,-1,0,1\n"
        "6: job c,0,1,9,1,1,,,0,0,0,,0,-1,0\n"
        "report 2 0 1 0\n"
        "FILE: line 5: 'one_type' is -1: must be a whole number from 0 "
        "to 1\n");
    expect_bytes(
        text, sizeof text - 1, &strict,
        "3: job a,0,1,9,1,1,,,0,0,0,,0,-1,0,1\n"
        "end: FILE: line 5: 'one_type' is -1: must be a whole number "
        "from 0 to 1\n"
        "report 1 0 1 0\n"
        "FILE: line 5: 'one_type' is -1: must be a whole number from 0 "
        "to 1\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_out_of_order_come_out_in_order_ties_by_line),
        cmocka_unit_test(
            a_reader_that_trusts_the_order_stops_where_it_is_wrong),
        cmocka_unit_test(a_strict_reader_refuses_the_first_row_out_of_order),
        cmocka_unit_test(a_strict_reader_names_the_first_trouble_in_the_file),
        cmocka_unit_test(bad_rows_are_counted_once_in_an_indexed_file_too),
        cmocka_unit_test(a_group_is_read_alone_and_its_order_alone_counts),
        cmocka_unit_test(a_path_may_name_the_group),
        cmocka_unit_test(a_file_that_is_no_trace_is_refused_with_a_sentence),
        cmocka_unit_test(a_file_of_only_bad_rows_opens_and_reports_them),
        cmocka_unit_test(a_refused_job_counts_as_bad),
        cmocka_unit_test(shuffled_files_read_as_sorted_ones),
        cmocka_unit_test(firns_own_columns_are_named_with_their_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
