/* test_sia.c - Sia's simulator, held against its numbers.
 *
 * The bar is a run of the artifact's code with another solver (GLPK); costs
 * that are rounded to two decimals make many assignments equally good, so
 * solvers differ by half a per cent. The small cases are worked by hand with
 * these tables: an application of one epoch, batch 100 and nothing else, one
 * GPU; a step of 1 s on a T4, which cifar10's slowdown makes 1.8 s.
 */
#include "compat/siashelf.h"
#include <firn/compat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/data.h"
#include "lib/play.h"
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLUSTER "6x4:t4,2x8:a100,3x8:2080ti"
#define HEADER  "name,time,application,num_replicas,batch_size\n"

/* ---- a small world ---- */

/* Folders from the outside in, then the files in them. */
static const char *const folders[] = {
    "sia",    "sia/apps",    "sia/apps/cifar10",
    "pollux", "pollux/apps", "pollux/apps/cifar10"};
enum { NFOLDERS = sizeof folders / sizeof *folders };

static void path_in(const struct play *play, const char *rel, char *out)
{
    snprintf(out, 2 * PLAY_PATH, "%s/%s", play->folder, rel);
}

static void put(const struct play *play, const char *rel, const char *text)
{
    char path[2 * PLAY_PATH];
    path_in(play, rel, path);
    play_write(path, text);
}

static const char *const suffixes[] = {"aws", "dgx-ext", "rtx"};

/* Tables with the given step times on each type, and one epoch of `steps`. */
static void open_small(struct play *play, const char *rows,
                       const double step_s[3], double steps)
{
    char text[512], path[2 * PLAY_PATH];
    play_open(play, CLUSTER, "");
    snprintf(text, sizeof text, HEADER "%s", rows);
    play_write(play->trace, text);
    for (size_t i = 0; i < NFOLDERS; i++) {
        path_in(play, folders[i], path);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    for (int t = 0; t < 3; t++) {
        char rel[64];
        snprintf(rel, sizeof rel, "sia/apps/cifar10/placements-%s.csv",
                 suffixes[t]);
        snprintf(text, sizeof text,
                 "placement,local_bsz,step_time,sync_time\n1,100,%.17g,1e-6\n",
                 step_s[t]);
        put(play, rel, text);
        snprintf(rel, sizeof rel, "sia/apps/cifar10/scalability-%s.csv",
                 suffixes[t]);
        snprintf(text, sizeof text,
                 "num_nodes,num_replicas,local_bsz,step_time,sync_time\n"
                 "2,2,100,%.17g,1e-6\n",
                 step_s[t]);
        put(play, rel, text);
    }
    snprintf(text, sizeof text,
             "progress,iteration,metric,grad_sqr,grad_var\n%g,%g,0,1,1\n",
             steps, steps);
    put(play, "pollux/apps/cifar10/validation-100.csv", text);
    play->options.profiles = play->folder;
    play->options.restart_s = firn_sim_defaults().restart_s;
    play->options.world = firn_compat_find("sia", NULL);
    assert_non_null(play->options.world);
}

static void close_small(struct play *play)
{
    char path[2 * PLAY_PATH], rel[64];
    for (int t = 0; t < 3; t++) {
        snprintf(rel, sizeof rel, "sia/apps/cifar10/placements-%s.csv",
                 suffixes[t]);
        path_in(play, rel, path);
        unlink(path);
        snprintf(rel, sizeof rel, "sia/apps/cifar10/scalability-%s.csv",
                 suffixes[t]);
        path_in(play, rel, path);
        unlink(path);
    }
    path_in(play, "pollux/apps/cifar10/validation-100.csv", path);
    unlink(path);
    for (int i = NFOLDERS - 1; i >= 0; i--) {
        path_in(play, folders[i], path);
        rmdir(path);
    }
    play_close(play);
}

static const double same[3] = {1, 1, 1}, a100_twice[3] = {1, 0.5, 0.8};

/* Submitted at 53, seen at 60, 50 s of restart, then 100 steps of 1.8 s: from
 * 110 to 290. */
static void
a_job_is_seen_at_the_round_and_pays_for_its_first_start(void **unused)
{
    (void)unused;
    struct play play;
    open_small(&play, "a,53,cifar10,1,100\n", same, 100);
    play_run(&play, "sia");
    assert_true(play_job(&play, "a")->first_start_s == 60);
    assert_true(play_end(&play, "a") == 290);
    assert_int_equal(play_job(&play, "a")->restarts, 0);
    close_small(&play);
}

/* The A100 takes half as long. Nothing is known at 60, so the T4, the first
 * type, is as good. At 120 the job was seen for 10 s; projected, the A100 is
 * worth 2, damped by what a restart is believed to take (30 s) at age 67:
 * 2 * 67 / 97 = 1.38, cost 0.85 against 1. It moves, and really pays 50 s: from
 * 170 on, having done 10 / 1.8 of 100 steps, 0.9 s each: 85 s, until 255. */
static void a_type_never_run_on_is_projected(void **unused)
{
    (void)unused;
    struct play play;
    open_small(&play, "a,53,cifar10,1,100\n", a100_twice, 100);
    play_run(&play, "sia");
    assert_true(play_end(&play, "a") == 255);
    assert_int_equal(play_job(&play, "a")->restarts, 1);
    close_small(&play);
}

/* The A100 is 0.5 % faster. From age 6000 s on that outweighs the damping, but
 * by less than the rounding of costs, and the job stays on its T4: 10000 steps
 * of 1.8 s from 110 on. */
static void costs_are_rounded_to_two_decimals(void **unused)
{
    (void)unused;
    const double little[3] = {1, 1 / 1.005, 1};
    struct play play;
    open_small(&play, "a,53,cifar10,1,100\n", little, 10000);
    play_run(&play, "sia");
    assert_true(play_end(&play, "a") == 18110);
    assert_int_equal(play_job(&play, "a")->restarts, 0);
    close_small(&play);
}

/* 13 steps of 1.8 s are 23.4 s, rounded to 23: from 110 to 133. The other job,
 * which comes at 61, waits for the decision at 120. */
static void epochs_end_at_whole_seconds(void **unused)
{
    (void)unused;
    struct play play;
    open_small(&play, "a,0,cifar10,1,100\nb,61,cifar10,1,100\n", same, 13);
    play_run(&play, "sia");
    assert_true(play_end(&play, "a") == 133);
    assert_true(play_job(&play, "b")->first_start_s == 120);
    assert_true(play_end(&play, "b") == 193);
    close_small(&play);
}

/* ---- the bar ---- */

static bool is_quick(void)
{
    return getenv("FIRN_QUICK") != NULL;
}

/* The folder above; NULL when it is not there. */
static const char *data_root(void)
{
    static char root[1024];
    const char *apps = data_path("sia/apps");
    if (apps == NULL || data_path("pollux/apps") == NULL) {
        print_message("the measured tables are not here\n");
        return NULL;
    }
    snprintf(root, sizeof root, "%s", apps);
    root[strlen(root) - strlen("/sia/apps")] = '\0';
    return root;
}

static void philly_6_is_within_two_per_cent_of_the_artifact(void **unused)
{
    (void)unused;
    /* Those of the first ten jobs that end before the first tie. */
    static const struct {
        const char *name;
        double jct_s;
    } jobs[] = {{"cifar10-0", 546}, {"bert-4", 997},    {"cifar10-5", 652},
                {"cifar10-6", 594}, {"cifar10-7", 602}, {"cifar10-8", 648},
                {"cifar10-9", 663}};
    const char *root = data_root();
    const char *trace = data_path("sia/workloads/philly/workload-6.csv");
    if (is_quick())
        print_message("too long for a quick run\n");
    if (root == NULL || trace == NULL || is_quick())
        skip();
    struct play play;
    play_open(&play, CLUSTER, "");
    snprintf(play.trace, sizeof play.trace, "%s", trace);
    play.options.trace = trace;
    play.options.profiles = root;
    play.options.restart_s = firn_sim_defaults().restart_s;
    play.options.world = firn_compat_find("sia", NULL);
    play_run(&play, "sia");
    print_message("mean JCT %.2f s (artifact 2090.06), %.2f s of processor\n",
                  play.result.jct_mean_s, play.result.cpu_s);
    assert_int_equal(play.result.jobs, 160);
    assert_true(fabs(play.result.jct_mean_s / 2090.06 - 1) < 0.02);
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        if (play_job(&play, jobs[i].name)->jct_s != jobs[i].jct_s)
            fail_msg("%s took %g s, not %g", jobs[i].name,
                     play_job(&play, jobs[i].name)->jct_s, jobs[i].jct_s);
    play.trace[0] = '\0'; /* not ours to remove */
    play_close(&play);
}

static void limits_of_applications_are_the_artifacts(void **unused)
{
    (void)unused;
    struct siashelf shelf = {.root = data_root()};
    const struct siaapp *app;
    if (shelf.root == NULL)
        skip();
    assert_int_equal(siashelf_find(&shelf, "deepspeech2", &app, NULL), FIRN_OK);
    assert_true(app->limits[0].b_max == 80 && app->limits[2].b_max == 57);
    assert_int_equal(siashelf_find(&shelf, "yolov3", &app, NULL), FIRN_OK);
    assert_true(app->limits[0].b_max == 16 && app->limits[1].b_max == 32 &&
                app->limits[2].b_max == 8);
    assert_true(app->restart_s == 80 && app->believed_s == 45 &&
                app->slowdown == 1.2);
    siashelf_release(&shelf);
}

/* ---- refused options ---- */

static void says(struct play *play, const char *policy, const char *text)
{
    assert_int_not_equal(play_try(play, policy), FIRN_OK);
    if (strstr(play->err.text, text) == NULL)
        fail_msg("'%s' does not say '%s'", play->err.text, text);
}

static void another_cluster_is_refused(void **unused)
{
    (void)unused;
    static const char *const others[] = {
        "16x4:t4", "2x8:a100,6x4:t4,3x8:2080ti", "6x4:t4,2x8:a100,2x8:2080ti",
        "6x4:t4,2x8:a100,3x8:2080ti,1x4:rtx6000"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct play play;
        struct firn_cluster other;
        open_small(&play, "a,0,cifar10,1,100\n", same, 10);
        assert_int_equal(firn_cluster_open(&other, others[i], NULL), FIRN_OK);
        play.options.cluster = &other;
        says(&play, "sia", CLUSTER);
        firn_cluster_release(&other);
        close_small(&play);
    }
}

static void options_the_artifact_never_had_are_refused(void **unused)
{
    (void)unused;
    struct play play;
    open_small(&play, "a,0,cifar10,1,100\n", same, 10);
    const struct firn_sim_options usual = play.options;
    says(&play, "fifo", "it had sia");
    play.options.mtbf_s = 1000;
    says(&play, "sia", "never had failures");
    play.options = usual;
    play.options.elastic_max = 4;
    says(&play, "sia", "never had elastic bounds");
    play.options = usual;
    play.options.restart_s = 60;
    says(&play, "sia", "never had restart costs");
    play.options = usual;
    play.options.profiles = NULL;
    says(&play, "sia", "measured tables");
    play.options = usual;
    close_small(&play);
}

static void an_unknown_application_lists_the_known_ones(void **unused)
{
    (void)unused;
    struct play play;
    struct siashelf shelf = {.root = "/no/such/folder"};
    const struct siaapp *app = NULL;
    struct firn_error err = {0};
    open_small(&play, "a,0,gpt_pmp,1,100\n", same, 10);
    says(&play, "sia", "line 2: no application 'gpt_pmp'; known: bert");
    close_small(&play);
    assert_int_equal(siashelf_find(&shelf, "gpt_pmp", &app, &err), FIRN_ENOENT);
    assert_non_null(strstr(err.text, "known: bert, cifar10, deepspeech2"));
    assert_null(app);
}

static void a_missing_table_is_named(void **unused)
{
    (void)unused;
    struct play play;
    open_small(&play, "a,0,bert,1,100\n", same, 10);
    says(&play, "sia", "pollux/apps/bert");
    close_small(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_job_is_seen_at_the_round_and_pays_for_its_first_start),
        cmocka_unit_test(a_type_never_run_on_is_projected),
        cmocka_unit_test(costs_are_rounded_to_two_decimals),
        cmocka_unit_test(epochs_end_at_whole_seconds),
        cmocka_unit_test(philly_6_is_within_two_per_cent_of_the_artifact),
        cmocka_unit_test(limits_of_applications_are_the_artifacts),
        cmocka_unit_test(another_cluster_is_refused),
        cmocka_unit_test(options_the_artifact_never_had_are_refused),
        cmocka_unit_test(an_unknown_application_lists_the_known_ones),
        cmocka_unit_test(a_missing_table_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
