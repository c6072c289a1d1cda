/* test_report.c - `firn report`: statistics of runs, and which jobs moved the
 * mean, with numbers worked by hand.
 */
/* Programs link libfirn.a, which has no cli. */
#include "cli/report_page.c"
#include "cli/report_read.c"
#include "cli/report_svg.c"
#include "lib/folder.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define HEAD                                                                 \
    "name,app,group,gpus,submit_s,first_start_s,end_s,jct_s,queue_s,held_s," \
    "served_gpu_s,restarts,rho\n"

static void put_file(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder_path(), name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void read_all(struct report *report)
{
    struct firn_error err = {0};
    if (report_read(report, folder_path(), &err) != FIRN_OK)
        fail_msg("%s", err.text);
}

/* Jobs a, b, c of 1 GPU: under fast 10, 20, 30 s, under slow 10, 80, 60 s. */
static void put_two(void)
{
    put_file("t--slow.jobs.csv", HEAD "c,,,1,0,30,60,60,30,30,30,1,2\n"
                                      "a,,,1,0,0,10,10,0,10,10,0,1\n"
                                      "b,,,1,0,60,80,80,60,20,20,0,4\n");
    put_file("t--fast.jobs.csv", HEAD "a,,,1,0,0,10,10,0,10,10,0,1\n"
                                      "b,,,1,0,0,20,20,0,20,20,0,1\n"
                                      "c,,,1,0,0,30,30,0,30,30,0,1\n");
    put_file(
        "t--fast.timeline.csv",
        "time_s,running,waiting,gpus_up,gpus_held,gpus_progressing,"
        "gpus_free_fragmented\n0,3,0,4,3,3,0\n10,2,0,4,2,2,0\n30,0,0,4,0,0,"
        "0\n");
}

static void runs_are_sorted_by_their_mean_completion_time(void **state)
{
    (void)state;
    struct report report = {0};
    put_two();
    read_all(&report);
    assert_int_equal(report.runs.n, 2);
    const struct report_run *fast = &report.runs.at[0];
    const struct report_run *slow = &report.runs.at[1];
    assert_string_equal(fast->policy, "fast");
    assert_string_equal(fast->trace, "t");
    assert_true(fabs(fast->jct_s - 20) < 1e-9);
    assert_true(fabs(slow->jct_s - 50) < 1e-9);
    assert_true(fabs(slow->p50_s - 60) < 1e-9);
    assert_true(fabs(slow->p90_s - 76) < 1e-9); /* 60 + 0.8 (80 - 60) */
    assert_true(fabs(slow->queue_s - 30) < 1e-9);
    assert_true(fabs(slow->makespan_s - 80) < 1e-9);
    assert_true(slow->restarts == 1);
    /* 3 of 4 GPUs for 10 s and 2 of 4 for 20 s: 70 of 120. */
    assert_true(fabs(fast->held - 70.0 / 120) < 1e-9);
    assert_true(isnan(slow->held));
    report_release(&report);
}

static void the_page_names_the_jobs_that_moved_the_mean(void **state)
{
    (void)state;
    struct report report = {0};
    struct firn_buf page = {0};
    put_two();
    read_all(&report);
    report_page(&report, &page);
    /* b: 60 s more, a third of it 20 s; c: 30 s more, 10 s. */
    const char *b = strstr(page.at, "<tr><td>b</td><td>1</td><td>20s</td>"
                                    "<td>1m20s</td><td>20s</td><td class='t'>"
                                    "waits 1m00s longer</td></tr>");
    const char *c = strstr(page.at, "<tr><td>c</td><td>1</td><td>30s</td>"
                                    "<td>1m00s</td><td>10s</td>");
    assert_non_null(b);
    assert_non_null(c);
    assert_true(b < c);
    assert_non_null(strstr(page.at, "The mean is 30s longer over 3 jobs"));
    assert_non_null(strstr(page.at, "fast has the lowest mean completion "
                                    "time, 20s, 60 % below that of slow"));
    assert_null(strstr(page.at, "<script"));
    assert_null(strstr(page.at, "http")); /* nothing is loaded */
    buf_release(&page);
    report_release(&report);
}

static void hostile_names_are_escaped(void **state)
{
    (void)state;
    struct report report = {0};
    struct firn_buf page = {0};
    put_file("x--p.jobs.csv", HEAD
             "\"<img src=x>, \"\"quoted\"\"\",,,1,0,0,10,10,0,10,10,0,1\n");
    read_all(&report);
    assert_string_equal(report.runs.at[0].jobs.at[0].name,
                        "<img src=x>, \"quoted\"");
    report_page(&report, &page);
    assert_null(strstr(page.at, "<img"));
    assert_non_null(strstr(page.at, "&lt;img src=x&gt;, &quot;quoted&quot;"));
    buf_release(&page);
    report_release(&report);
}

static void a_folder_without_results_is_an_error_with_a_remedy(void **state)
{
    (void)state;
    struct report report = {0};
    struct firn_error err = {0};
    assert_int_equal(report_read(&report, folder_path(), &err), FIRN_ENOENT);
    assert_non_null(strstr(err.text, "firn sim --out"));
    put_file("t--p.jobs.csv", "no,columns\n1,2\n");
    assert_int_equal(report_read(&report, folder_path(), &err), FIRN_EDATA);
    report_release(&report);
}

static void percentiles_lie_between_ranks(void **state)
{
    (void)state;
    const double values[] = {1, 2, 4};
    assert_true(report_percentile(values, 3, 0) == 1);
    assert_true(report_percentile(values, 3, 0.5) == 2);
    assert_true(report_percentile(values, 3, 0.75) == 3);
    assert_true(report_percentile(values, 3, 1) == 4);
    assert_true(isnan(report_percentile(values, 0, 0.5)));
}

#define CASE(name) \
    cmocka_unit_test_setup_teardown(name, folder_make, folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(runs_are_sorted_by_their_mean_completion_time),
        CASE(the_page_names_the_jobs_that_moved_the_mean),
        CASE(hostile_names_are_escaped),
        CASE(a_folder_without_results_is_an_error_with_a_remedy),
        cmocka_unit_test(percentiles_lie_between_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
