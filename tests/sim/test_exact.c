/* test_exact.c - published traces: exact results, and every one runs.
 *
 * The two averages of common5000 are those other simulators agree on; they
 * must come out to the last digit. Everything here needs the data folder and
 * is skipped without it.
 */
#include "lib/data.h"
#include "lib/play.h"
#include <firn/trace.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Runs common5000 on 192 GPUs; skips when it is not there. */
static double common5000(const char *policy, const char *const *setting)
{
    struct firn_sim_options options = firn_sim_defaults();
    struct firn_sim_result result;
    struct firn_cluster cluster;
    struct firn_error err = {0};
    options.trace = data_path("derived/common5000.csv");
    if (options.trace == NULL) {
        print_message("no derived/common5000.csv here\n");
        skip();
    }
    assert_int_equal(firn_cluster_open(&cluster, "1x192:v100", &err), FIRN_OK);
    options.cluster = &cluster;
    options.policy = policy;
    options.settings = setting;
    options.nsettings = setting != NULL;
    if (firn_sim_run(&options, &result, &err) != FIRN_OK)
        fail_msg("%s: %s", policy, err.text);
    assert_int_equal(result.jobs, 5000);
    assert_int_equal(result.bad_rows, 0);
    firn_cluster_release(&cluster);
    return result.jct_mean_s;
}

static void fifo_on_common5000_is_exact(void **state)
{
    (void)state;
    assert_true(common5000("fifo", NULL) == 20023.4736);
}

static void sjf_on_common5000_is_exact(void **state)
{
    (void)state;
    assert_true(common5000("sjf", NULL) == 11962.511);
}

/* On one type of GPU yarn-cs and opportunistic are fifo. */
static void fifo_has_two_namesakes_on_one_type(void **state)
{
    (void)state;
    assert_true(common5000("yarn-cs", NULL) == 20023.4736);
    assert_true(common5000("opportunistic", NULL) == 20023.4736);
}

static void strict_and_skipping_differ_on_common5000(void **state)
{
    (void)state;
    static const char *const skip_on[] = {"fifo.skip=1"};
    static const char *const skip_off[] = {"sjf.skip=0"};
    double strict_s = common5000("fifo", NULL);
    double skipping_s = common5000("fifo", skip_on);
    assert_true(skipping_s < strict_s);
    assert_true(common5000("sjf", skip_off) > 11962.511);
}

/* ---- every trace runs ---- */

struct tour {
    struct firn_cluster cluster;
    int files, formats;
    char seen[16][FIRN_NAME_MAX];
    bool is_quick;
};

static void note_format(struct tour *tour, const char *name)
{
    for (int i = 0; i < tour->formats; i++)
        if (strcmp(tour->seen[i], name) == 0)
            return;
    assert_true(tour->formats < 16);
    snprintf(tour->seen[tour->formats++], FIRN_NAME_MAX, "%s", name);
}

/* Rows that are jobs; -1 when it is no trace. */
static long count_jobs(struct tour *tour, const char *path)
{
    struct firn_trace *trace;
    struct firn_job_spec spec;
    struct firn_error err = {0};
    long n = 0;
    if (firn_trace_open(&trace, path, NULL, &err) != FIRN_OK)
        return -1;
    while (firn_trace_next(trace, &spec, &err))
        n++;
    note_format(tour, firn_trace_format(trace)->name);
    firn_trace_close(trace);
    return n;
}

static void run_file(struct tour *tour, const char *path)
{
    struct firn_sim_options options = firn_sim_defaults();
    struct firn_sim_result result;
    struct firn_error err = {0};
    long njobs = count_jobs(tour, path);
    if (njobs <= 0)
        return;
    options.trace = path;
    options.cluster = &tour->cluster;
    options.policy = "fifo";
    if (firn_sim_run(&options, &result, &err) != FIRN_OK)
        fail_msg("%s: %s", path, err.text);
    if (result.jobs != njobs || result.unfinished != 0)
        fail_msg("%s: %ld of %ld jobs finished; the first bad row: %s", path,
                 result.jobs, njobs, result.first_bad[0]);
    assert_true(result.jct_mean_s > 0 && isfinite(result.jct_mean_s));
    assert_true(result.gpu_alloc_ratio > 0 && result.gpu_alloc_ratio <= 1);
    assert_true(result.queue_mean_s >= 0);
    tour->files++;
}

static void walk(struct tour *tour, const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        char path[1024];
        struct stat info;
        size_t n = strlen(entry->d_name);
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.' || stat(path, &info) != 0)
            continue;
        if (S_ISDIR(info.st_mode))
            walk(tour, path);
        else if (n > 4 && strcmp(entry->d_name + n - 4, ".csv") == 0 &&
                 !(tour->is_quick && info.st_size > 20000))
            run_file(tour, path);
    }
    closedir(dir);
}

/* Types that traces name, enough of each for the largest job. */
static const char spec[] =
    "64x8:v100,64x8:v100-16,64x8:v100-32,64x8:t4,"
    "64x8:p100,64x8:g2,64x8:g3,64x8:a10,64x8:k80,64x8:a100,64x8:1080ti";

static void every_trace_in_the_data_folder_runs(void **state)
{
    (void)state;
    const char *root = data_path(".");
    struct firn_error err = {0};
    struct tour tour = {.is_quick = getenv("FIRN_QUICK") != NULL};
    if (root == NULL) {
        print_message("no data folder here\n");
        skip();
    }
    if (firn_cluster_open(&tour.cluster, spec, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    walk(&tour, root);
    print_message("%d traces of %d formats\n", tour.files, tour.formats);
    assert_true(tour.is_quick || tour.formats >= 8);
    firn_cluster_release(&tour.cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fifo_on_common5000_is_exact),
        cmocka_unit_test(sjf_on_common5000_is_exact),
        cmocka_unit_test(fifo_has_two_namesakes_on_one_type),
        cmocka_unit_test(strict_and_skipping_differ_on_common5000),
        cmocka_unit_test(every_trace_in_the_data_folder_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
