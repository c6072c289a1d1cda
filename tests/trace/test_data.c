/* test_data.c - the published files, where they are: every row accounted for.
 *
 * Each file must be known by the right format, and its jobs, ignored and bad
 * rows must add up to its lines less the header.
 */
#include "base/lines.h"
#include "lib/data.h"
#include "lib/trace_text.h"
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct totals {
    long jobs, ignored, bad, unsorted, nominal;
    double gpu_s;
};

static long count_lines(const char *path)
{
    struct lines *in;
    struct firn_error err;
    long n = 0;
    assert_int_equal(lines_open(&in, path, &err), FIRN_OK);
    for (const char *line; (line = lines_next(in)) != NULL;)
        n += *line != '\0';
    lines_close(in);
    return n;
}

static struct totals read_file(const char *path, const char *format)
{
    struct totals totals = {0};
    struct firn_trace *trace = NULL;
    struct firn_error err = {0};
    struct firn_job_spec spec;
    if (firn_trace_open(&trace, path, NULL, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    assert_string_equal(firn_trace_format(trace)->name, format);
    double last_s = 0;
    while (firn_trace_next(trace, &spec, &err)) {
        assert_true(spec.submit_s >= last_s);
        last_s = spec.submit_s;
        totals.gpu_s += spec.gpus * spec.duration_s;
        totals.nominal += spec.is_nominal;
    }
    assert_int_equal(err.status, FIRN_OK);
    const struct firn_trace_report *report = firn_trace_report(trace);
    totals.jobs = report->jobs;
    totals.ignored = report->ignored;
    totals.bad = report->bad;
    totals.unsorted = report->unsorted;
    firn_trace_close(trace);
    assert_int_equal(totals.jobs + totals.ignored + totals.bad,
                     count_lines(path) - 1);
    return totals;
}

/* Says so and skips when the data are not here. */
static struct totals read_data(const char *rel, const char *format)
{
    const char *path = data_path(rel);
    if (path == NULL) {
        print_message("no %s here\n", rel);
        skip();
    }
    return read_file(path, format);
}

/* Every .csv of a folder: no bad row, none ignored. Returns how many. */
static int read_folder(const char *rel, const char *format, const char *except)
{
    const char *root = data_path(rel);
    if (root == NULL) {
        print_message("no %s here\n", rel);
        skip();
    }
    DIR *folder = opendir(root);
    assert_non_null(folder);
    int n = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        size_t length = strlen(entry->d_name);
        if (length < 5 || strcmp(entry->d_name + length - 4, ".csv") != 0 ||
            (except != NULL && strcmp(entry->d_name, except) == 0))
            continue;
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", root, entry->d_name);
        struct totals totals = read_file(path, format);
        if (totals.bad != 0 || totals.ignored != 0)
            fail_msg("%s: %ld bad, %ld ignored", path, totals.bad,
                     totals.ignored);
        n++;
    }
    closedir(folder);
    return n;
}

static void published_pollux_and_sia_workloads_are_read(void **state)
{
    (void)state;
    static const char *const folders[] = {
        "pollux/workloads",        "pollux/workloads-0.5",
        "pollux/workloads-1.5",    "pollux/workloads-2.0",
        "sia/workloads/philly",    "pollux/workloads-realistic",
        "sia/workloads/newtrace",  "sia/workloads/saturn",
        "sia/workloads/rate_10",   "sia/workloads/rate_20",
        "sia/workloads/rate_30",   "sia/workloads/rate_40",
        "sia/workloads/rate_50",   "sia/workloads/scale_2x",
        "sia/workloads/scale_4x",  "sia/workloads/scale_8x",
        "sia/workloads/scale_16x", "sia/workloads/scale_32x"};
    int n = 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        n += read_folder(folders[i], "pollux", NULL);
    assert_int_equal(n, 5 * 5 + 6 + 10 + 7 + 5 * 10 + 5);
    assert_int_equal(
        read_data("pollux/workloads/workload-6.csv", "pollux").jobs, 160);
}

static void published_philly_traces_are_read(void **state)
{
    (void)state;
    struct totals philly = read_data("philly/philly_jobs.csv", "philly");
    assert_int_equal(philly.jobs, 82247);
    assert_int_equal(philly.bad + philly.unsorted + philly.nominal, 0);
    struct totals plain = read_data("derived/common5000.csv", "plain");
    assert_int_equal(plain.jobs, 5000);
}

static void published_titan_and_easyscale_traces_are_read(void **state)
{
    (void)state;
    assert_int_equal(read_folder("ymir/workloads", "titan", NULL), 8);
    struct totals easy = read_data("easyscale/workload.csv", "easyscale");
    assert_int_equal(easy.jobs, 68);
    assert_int_equal(easy.nominal, 68);
}

static void published_rubick_workloads_are_read(void **state)
{
    (void)state;
    struct totals base =
        read_data("rubick/workloads/workload-base.csv", "rubick");
    assert_int_equal(base.jobs, 406);
    assert_int_equal(base.bad + base.unsorted + base.nominal, 0);
    assert_int_equal(read_data("rubick/workloads/naive.csv", "rubick").jobs,
                     10);
}

static void published_muri_and_sjf_bsbf_traces_are_read(void **state)
{
    (void)state;
    assert_int_equal(read_folder("muri", "muri", NULL), 9);
    assert_int_equal(read_folder("sjf_bsbf/trace-data", "muri", "add_job.csv"),
                     13);
}

static void published_tiresias_and_chronus_traces_are_read(void **state)
{
    (void)state;
    assert_int_equal(read_data("tiresias/60_job.csv", "tiresias").jobs, 60);
    struct totals chronus =
        read_data("chronus/philly_jobs_with_models.csv", "chronus");
    assert_int_equal(chronus.jobs, 30735);
    assert_int_equal(chronus.ignored, 205);
    assert_true(chronus.unsorted > 15000);
}

static void published_gavel_traces_are_read_by_group(void **state)
{
    (void)state;
    struct totals all = read_data("gavel/msr_vc_traces_seed0.csv", "gavel");
    assert_int_equal(all.jobs, 15264);
    assert_int_equal(
        read_data("gavel/physical_cluster_traces.csv", "gavel").jobs, 251);
    char path[1024];
    struct firn_trace *trace;
    struct firn_error err = {0};
    snprintf(path, sizeof path, "%s#0e4a51",
             data_path("gavel/msr_vc_traces_seed0.csv"));
    assert_int_equal(firn_trace_open(&trace, path,
                                     &(struct firn_trace_options){.strict = 1},
                                     &err),
                     FIRN_OK);
    struct firn_job_spec spec;
    while (firn_trace_next(trace, &spec, &err))
        assert_string_equal(spec.group, "0e4a51");
    assert_int_equal(firn_trace_report(trace)->jobs, 1181);
    firn_trace_close(trace);
}

static void published_alibaba_pods_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *rel;
        long jobs, bad;
    } files[] = {{"alibaba/gpu_v2023/openb_pod_list_default.csv", 7063, 1},
                 {"alibaba/gpu_v2023/openb_pod_list_gpuspec33.csv", 7063, 1},
                 {"alibaba/gpu_v2023/openb_pod_list_gpushare100.csv", 7061, 3}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct totals pods = read_data(files[i].rel, "alibaba");
        assert_int_equal(pods.jobs, files[i].jobs);
        assert_int_equal(pods.bad, files[i].bad);
        assert_int_equal(pods.ignored, 1088);
    }
    struct firn_trace *trace = NULL;
    struct firn_error err = {0};
    const char *path =
        data_path("alibaba/gpu_v2023/openb_pod_list_multigpu50.csv");
    assert_int_equal(firn_trace_open(&trace, path, NULL, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "nothing to replay"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_pollux_and_sia_workloads_are_read),
        cmocka_unit_test(published_philly_traces_are_read),
        cmocka_unit_test(published_titan_and_easyscale_traces_are_read),
        cmocka_unit_test(published_rubick_workloads_are_read),
        cmocka_unit_test(published_muri_and_sjf_bsbf_traces_are_read),
        cmocka_unit_test(published_tiresias_and_chronus_traces_are_read),
        cmocka_unit_test(published_gavel_traces_are_read_by_group),
        cmocka_unit_test(published_alibaba_pods_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
