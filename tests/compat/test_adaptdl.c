/* test_adaptdl.c - AdaptDL's simulator against the numbers its authors
 * published, and against runs of their code.
 *
 * Tiresias and Optimus are deterministic there, so equality is the bar: the
 * average completion times of all their workloads to the last digit, and for
 * workload 6 the single completions, placements and restarts.
 */
#include "base/buf.h"
#include "lib/csv.h"
#include "lib/data.h"
#include "lib/play.h"
#include <firn/compat.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool has_data(void)
{
    if (data_path("pollux/apps") != NULL &&
        data_path("pollux/interpolated") != NULL)
        return true;
    print_message("no $FIRN_DATA/pollux: left out\n");
    return false;
}

/* The folder that holds pollux/. */
static const char *root(void)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/..", data_path("pollux"));
    return path;
}

static void open_world(struct play *play, const char *rows)
{
    play_open(play, "16x4:t4", rows);
    play->options.world = firn_compat_find("adaptdl", NULL);
    play->options.profiles = root();
    play->options.restart_s = 30;
}

/* ---- published averages ---- */

static double average(const char *policy, const char *load, const char *name)
{
    char rel[96];
    struct firn_cluster cluster;
    struct firn_error err = {0};
    struct firn_sim_result result = {0};
    bool is_one = strcmp(load, "1.0") == 0;
    snprintf(rel, sizeof rel, "pollux/workloads%s%s/%s.csv", is_one ? "" : "-",
             is_one ? "" : load, name);
    assert_int_equal(firn_cluster_parse_spec(&cluster, "16x4:t4", &err),
                     FIRN_OK);
    struct firn_sim_options options = firn_sim_defaults();
    options.trace = data_path(rel);
    options.world = firn_compat_find("adaptdl", NULL);
    options.cluster = &cluster;
    options.policy = policy;
    options.profiles = root();
    if (firn_sim_run(&options, &result, &err) != FIRN_OK)
        fail_msg("%s: %s", rel, err.text);
    firn_cluster_release(&cluster);
    return result.jct_mean_s;
}

/* All loads of a policy; how many runs there were. */
static int compare(const char *policy)
{
    struct csv *csv = csv_open(data_path("pollux/paper_results_avg_jct.csv"));
    size_t n = strlen(policy);
    int runs = 0;
    assert_non_null(csv);
    while (csv_next(csv)) {
        const char *config = csv_text(csv, "config");
        const char *workload = csv_text(csv, "workload");
        if (strncmp(config, policy, n) != 0 || config[n] != '-' ||
            strcmp(csv_text(csv, "experiment"), "results-jobload") != 0)
            continue;
        if (getenv("FIRN_QUICK") != NULL && strcmp(config + n, "-0.5") != 0)
            continue;
        double want = csv_number(csv, "avg_jct_s");
        double got = average(policy, config + n + 1, workload);
        if (got != want)
            fail_msg("%s %s: %.17g, published %.17g", config, workload, got,
                     want);
        runs++;
    }
    csv_close(csv);
    return runs;
}

static void tiresias_has_the_published_averages(void **state)
{
    (void)state;
    if (!has_data())
        skip();
    assert_true(compare("tiresias") == (getenv("FIRN_QUICK") ? 5 : 20));
}

static void optimus_has_the_published_averages(void **state)
{
    (void)state;
    if (!has_data())
        skip();
    assert_true(compare("optimus") == (getenv("FIRN_QUICK") ? 5 : 20));
}

/* ---- workload 6, job by job ---- */

struct expected {
    const char *name;
    double end_s;
    int restarts;
};

static void expect_jobs(const struct play *play, const struct expected *jobs)
{
    for (; jobs->name != NULL; jobs++) {
        const struct play_job *job = play_job(play, jobs->name);
        if (job->end_s != jobs->end_s || job->restarts != jobs->restarts)
            fail_msg("%s ends at %g after %d restarts, not %g and %d",
                     jobs->name, job->end_s, job->restarts, jobs->end_s,
                     jobs->restarts);
    }
}

/* "n3[0-3] n7[1,3]" -> "4,2" */
static void add_shape(const char *alloc, struct firn_buf *out)
{
    int counts[16], n = 0;
    for (const char *at = strchr(alloc, '['); at != NULL;
         at = strchr(at, '[')) {
        int count = 0, from, to, used;
        for (at++; sscanf(at, "%d%n", &from, &used) == 1;) {
            at += used;
            to = from;
            if (*at == '-' && sscanf(at, "-%d%n", &to, &used) == 1)
                at += used;
            count += to - from + 1;
            at += *at == ',';
        }
        counts[n++] = count;
    }
    for (int g = 4; g >= 1; g--)
        for (int i = 0; i < n; i++)
            if (counts[i] == g)
                buf_printf(out, "%s%d", out->n > 0 ? "," : "", g);
}

/* The shape that the job with this id got at that moment, from the log; "" for
 * none. */
static struct firn_buf shape_at(const struct play *play, double at_s, int id)
{
    struct firn_buf log = play_read(play->log), out = {0};
    buf_puts(&out, "");
    char *rest = log.at;
    for (char *line = rest; rest != NULL && *rest != '\0'; line = rest) {
        double time_s;
        char kind[16];
        int job, used = 0;
        rest = strchr(line, '\n');
        if (rest != NULL)
            *rest++ = '\0';
        if (sscanf(line, "%lf\t%15[a-z]\t%d\t%n", &time_s, kind, &job, &used) ==
                3 &&
            used > 0 && time_s == at_s && job == id &&
            (strcmp(kind, "start") == 0 || strcmp(kind, "resize") == 0))
            add_shape(line + used, &out);
    }
    buf_release(&log);
    return out;
}

struct placed {
    double at_s;
    int id;
    const char *shape;
};

static void expect_shapes(const struct play *play, const struct placed *placed)
{
    for (; placed->shape != NULL; placed++) {
        struct firn_buf got = shape_at(play, placed->at_s, placed->id);
        if (strcmp(got.at, placed->shape) != 0)
            fail_msg("job %d gets '%s' at %g s, not '%s'", placed->id, got.at,
                     placed->at_s, placed->shape);
        buf_release(&got);
    }
}

static void open_workload_6(struct play *play)
{
    open_world(play, "x,0,1,1\n");
    play->options.trace = data_path("pollux/workloads/workload-6.csv");
}

static void tiresias_runs_workload_6_as_the_artifact_does(void **state)
{
    static const struct expected jobs[] = {
        {"cifar10-0", 1000, 0},
        {"cifar10-1", 1120, 0},
        {"deepspeech2-2", 3920, 0},
        {"cifar10-3", 932, 0},
        {"bert-4", 3269, 0},
        {"cifar10-5", 1974, 0},
        {"ncf-6", 1697, 0},
        {"ncf-7", 1937, 0},
        {"cifar10-8", 2860, 0},
        {"ncf-9", 2057, 0},
        {NULL, 0, 0},
    };
    static const struct placed placed[] = {
        {60, 0, "4,2"},      {180, 1, "4,2"},       {360, 2, "4,4"},
        {420, 3, "4,4,4,4"}, {780, 4, "4,4"},       {1320, 5, "4,4,4"},
        {2460, 10, "4,2"},   {2760, 13, "4,4,4,4"}, {3960, 18, "4,4,4,4,4,4"},
        {3960, 19, ""},      {4020, 19, "4,4,4,4"}, {0, 0, NULL},
    };
    struct play p;
    (void)state;
    if (!has_data())
        skip();
    open_workload_6(&p);
    play_run(&p, "tiresias");
    assert_true(p.result.jct_mean_s == 3469.69375);
    assert_true(p.result.jct_p50_s == 1247.5);
    assert_true(p.result.jct_max_s == 54709);
    assert_true(p.result.makespan_s == 78609 - 53);
    assert_int_equal(p.result.restarts, 43);
    assert_true(fabs(p.result.gpu_s_given / 3600 - 1140.41) < 0.005);
    expect_jobs(&p, jobs);
    expect_shapes(&p, placed);
    play_close(&p);
}

static void optimus_runs_workload_6_as_the_artifact_does(void **state)
{
    static const struct expected jobs[] = {
        {"cifar10-0", 955, 0},      {"cifar10-1", 1075, 0},
        {"deepspeech2-2", 3174, 0}, {"cifar10-3", 1055, 0},
        {"bert-4", 2389, 0},        {"cifar10-5", 1955, 0},
        {"ncf-6", 1697, 0},         {"ncf-7", 1937, 0},
        {"cifar10-8", 2815, 0},     {"ncf-9", 2057, 0},
        {"bert-10", 6134, 16},      {NULL, 0, 0},
    };
    static const struct placed placed[] = {
        {60, 0, "4,4"},        {180, 1, "4,4"},
        {360, 2, "4,4,2"},     {420, 3, "4,4,3"},
        {780, 4, "4,4,4,1"},   {1320, 5, "4,4,3"},
        {2460, 10, "4,4,4,1"}, {2760, 13, "4,4,4,1"},
        {3120, 15, "4,4"},     {3120, 16, "4,3,1"},
        {3480, 10, "4,2"},     {3480, 18, "4,4,4,4,4,3,2,2,1"},
        {3540, 10, "4,2,1"},   {3600, 10, "4,3,2,1,1"},
        {3600, 13, "4,4,1"},   {3720, 10, "4,1"},
        {3720, 13, "4"},       {0, 0, NULL},
    };
    struct play p;
    (void)state;
    if (!has_data())
        skip();
    open_workload_6(&p);
    play_run(&p, "optimus");
    assert_true(p.result.jct_mean_s == 5301.875);
    assert_true(p.result.jct_p50_s == 2494);
    assert_true(p.result.jct_max_s == 55338);
    assert_true(p.result.makespan_s == 66299 - 53);
    assert_int_equal(p.result.restarts, 870);
    assert_true(fabs(p.result.gpu_s_given / 3600 - 1126.67) < 0.005);
    expect_jobs(&p, jobs);
    expect_shapes(&p, placed);
    play_close(&p);
}

/* The artifact was run with other rounds too: 730 restarts and 2.2 % less at
 * 120 s, 1168 and 1.1 % more at 10 s. */
static void
rounds_of_other_lengths_do_what_they_do_in_the_artifact(void **state)
{
    static const struct {
        double interval_s, change;
        long restarts;
    } rows[] = {{120, -0.022, 730}, {10, 0.011, 1168}};
    struct play p;
    (void)state;
    if (!has_data())
        skip();
    open_workload_6(&p);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        p.options.interval_s = rows[i].interval_s;
        play_run(&p, "optimus");
        assert_int_equal(p.result.restarts, rows[i].restarts);
        double change = p.result.jct_mean_s / 5301.875 - 1;
        assert_true(fabs(change - rows[i].change) < 0.0005);
    }
    play_close(&p);
}

/* ---- rules of a round ---- */

static const char header[] =
    "#firn-trace 1\n"
    "name,submit_s,gpus,duration_s,gpus_min,gpus_max,app,batch\n";

static void open_rows(struct play *play, const char *rows)
{
    struct firn_buf text = {0};
    buf_printf(&text, "%s%s", header, rows);
    open_world(play, text.at);
    buf_release(&text);
}

/* ncf at 32768 on one GPU ends 77 s after it got the GPU: 30 s of restart and
 * 47 s of work. A job at 0 is seen at 60, one at 60 too, one at 61 at 120. */
static void an_arrival_waits_for_the_next_round(void **state)
{
    struct play p;
    (void)state;
    if (!has_data())
        skip();
    open_rows(&p, "a,0,1,1,1,64,ncf,32768\n"
                  "b,60,1,1,1,64,ncf,32768\n"
                  "c,61,1,1,1,64,ncf,32768\n");
    play_run(&p, "tiresias");
    assert_true(play_end(&p, "a") == 60 + 77);
    assert_true(play_end(&p, "b") == 60 + 77);
    assert_true(play_end(&p, "c") == 120 + 77);
    assert_true(p.result.gpu_s_overhead == 90);
    assert_true(p.result.gpu_s_given == 3 * 77);
    play_close(&p);
}

/* 64 GPUs: `a` takes one, `b` all of them. `a` ends at 137, in the round until
 * 180; `b` starts only there, although all its GPUs are free from 137 on. */
static void gpus_idle_until_the_round_ends(void **state)
{
    struct play p;
    (void)state;
    if (!has_data())
        skip();
    open_rows(&p, "a,0,1,1,1,64,ncf,32768\n"
                  "b,30,64,1,1,64,imagenet,12800\n");
    play_run(&p, "tiresias");
    assert_true(play_end(&p, "a") == 137);
    assert_true(play_job(&p, "b")->first_start_s == 180);
    play_close(&p);
}

/* ---- Tiresias ---- */

/* `t` with 40 GPUs reaches 57600 GPU-seconds after 1440 s, at 1500; `s`, which
 * came before it, with 24 after 2400 s, at 2460. At 2520 `u` with 24 is seen
 * in the first queue and leaves 40: they go to `t`, which fell first, and `s`
 * waits (by submission `s` would stay and `t` stop). At 4920 `u` falls, behind
 * `s`, which then gets its 24 GPUs back. */
static void the_job_demoted_first_runs_first(void **state)
{
    struct play p;
    (void)state;
    if (!has_data())
        skip();
    open_rows(&p, "s,0,24,1,1,64,imagenet,6400\n"
                  "t,1,40,1,1,64,imagenet,6400\n"
                  "u,2500,24,1,1,64,imagenet,6400\n");
    play_run(&p, "tiresias");
    assert_int_equal(play_job(&p, "s")->restarts, 1);
    assert_int_equal(play_job(&p, "t")->restarts, 0);
    assert_true(play_job(&p, "u")->first_start_s == 2520);
    assert_true(play_job(&p, "s")->queue_s == 60 + (4920 - 2520));
    play_close(&p);
}

/* ---- refused options ---- */

static void expect_refusal(struct play *p, const char *policy, const char *text)
{
    assert_int_not_equal(play_try(p, policy), FIRN_OK);
    if (strstr(p->err.text, text) == NULL)
        fail_msg("'%s' does not say '%s'", p->err.text, text);
}

static void only_the_policies_of_the_artifact_exist(void **state)
{
    struct play p;
    (void)state;
    if (!has_data())
        skip();
    open_rows(&p, "a,0,1,1,1,64,ncf,32768\n");
    expect_refusal(&p, "fifo", "tiresias, optimus, pollux");
    play_close(&p);
}

static void options_the_artifact_never_had_are_refused(void **state)
{
    struct play p;
    (void)state;
    if (!has_data())
        skip();
    open_rows(&p, "a,0,1,1,1,64,ncf,32768\n");
    struct firn_sim_options usual = p.options;
    p.options.noise.report = 0.1;
    expect_refusal(&p, "tiresias", "noise");
    p.options = usual;
    p.options.mtbf_s = 1000;
    p.options.mttr_s = 10;
    expect_refusal(&p, "tiresias", "failures");
    p.options = usual;
    p.options.quantum_s = 5;
    expect_refusal(&p, "tiresias", "quantum");
    p.options = usual;
    p.options.restart_s = 10;
    expect_refusal(&p, "tiresias", "restart");
    p.options = usual;
    p.options.interval_s = 7.5;
    expect_refusal(&p, "tiresias", "part of a second");
    p.options = usual;
    p.options.profiles = NULL;
    expect_refusal(&p, "tiresias", "FIRN_DATA");
    p.options = usual;
    p.options.profiles = p.folder;
    expect_refusal(&p, "tiresias", "FIRN_DATA");
    play_close(&p);
}

static void another_cluster_is_refused(void **state)
{
    static const char *const specs[] = {"8x4:t4", "16x8:t4", "8x4:t4,8x4:v100"};
    (void)state;
    if (!has_data())
        skip();
    for (int i = 0; i < 3; i++) {
        struct play p;
        play_open(&p, specs[i], "a,0,1,1\n");
        p.options.world = firn_compat_find("adaptdl", NULL);
        p.options.profiles = root();
        p.options.restart_s = 30;
        expect_refusal(&p, "tiresias", "16 nodes of 4 GPUs");
        play_close(&p);
    }
}

static void an_unknown_application_lists_the_known_ones(void **state)
{
    struct play p;
    (void)state;
    if (!has_data())
        skip();
    open_rows(&p, "a,0,1,1,1,64,gpt9,32\n");
    expect_refusal(&p, "tiresias", "gpt9");
    assert_non_null(strstr(p.err.text, "bert, cifar10, deepspeech2"));
    play_close(&p);
    open_rows(&p, "a,0,1,1,1,64,ncf,32768\nb,5,1,1,1,64,gpt9,32\n");
    expect_refusal(&p, "tiresias", "gpt9");
    play_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiresias_has_the_published_averages),
        cmocka_unit_test(optimus_has_the_published_averages),
        cmocka_unit_test(tiresias_runs_workload_6_as_the_artifact_does),
        cmocka_unit_test(optimus_runs_workload_6_as_the_artifact_does),
        cmocka_unit_test(
            rounds_of_other_lengths_do_what_they_do_in_the_artifact),
        cmocka_unit_test(an_arrival_waits_for_the_next_round),
        cmocka_unit_test(gpus_idle_until_the_round_ends),
        cmocka_unit_test(the_job_demoted_first_runs_first),
        cmocka_unit_test(only_the_policies_of_the_artifact_exist),
        cmocka_unit_test(options_the_artifact_never_had_are_refused),
        cmocka_unit_test(another_cluster_is_refused),
        cmocka_unit_test(an_unknown_application_lists_the_known_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
