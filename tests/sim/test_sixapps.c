/* test_sixapps.c - the profiles behind the workload of SJF-BSBF, simulated.
 *
 * The run times that trace/sixapps.def has are those of the profiles. Memory of
 * profiles/bsbf forbids some pairs at the whole batch, and the simulator then
 * runs the guest in passes.
 */
#include "lib/play.h"
#include "lib/temp.h"
#include "sim/simforecast.h"
#include "sim/truth_table.h"
#include <firn/policy.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *app;
    int samples;
} apps[] = {
#define SIX(app, jobs, samples, small, large) {app, samples},
#define SIX_TIME(app, gpus, seconds)
#define SIX_STEP(app, seconds)
#include "trace/sixapps.def"
#undef SIX
#undef SIX_TIME
#undef SIX_STEP
};

static const struct {
    const char *app;
    int gpus;
    double s;
} times[] = {
#define SIX(app, jobs, samples, small, large)
#define SIX_TIME(app, gpus, seconds) {app, gpus, seconds},
#define SIX_STEP(app, seconds)
#include "trace/sixapps.def"
#undef SIX
#undef SIX_TIME
#undef SIX_STEP
};

enum {
    NAPPS = sizeof apps / sizeof *apps,
    NTIMES = sizeof times / sizeof *times
};

#define HEADER     \
    "#firn-trace " \
    "1\nname,submit_s,gpus,duration_s,app,batch,nominal,may_share\n"

/* Every job alone on GPUs of its own, with the profile's duration. */
static void
the_run_times_of_the_workload_are_those_of_the_profiles(void **unused)
{
    char rows[4096] = HEADER;
    struct play play;
    (void)unused;
    for (int i = 0; i < NTIMES; i++) {
        int samples = 0;
        for (int k = 0; k < NAPPS; k++)
            if (strcmp(apps[k].app, times[i].app) == 0)
                samples = apps[k].samples;
        size_t n = strlen(rows);
        snprintf(rows + n, sizeof rows - n, "j%d,0,%d,1,%s,%d,1,0\n", i,
                 times[i].gpus, times[i].app, samples * times[i].gpus);
    }
    play_open(&play, "100x4:2080ti", rows);
    play.options.profiles = "builtin";
    play_run(&play, "fifo");
    for (int i = 0; i < NTIMES; i++) {
        char name[16];
        snprintf(name, sizeof name, "j%d", i);
        double s = play_end(&play, name);
        if (fabs(s - times[i].s) > 0.001 * s + 0.1)
            fail_msg("%s on %d GPUs takes %g s, not %g", times[i].app,
                     times[i].gpus, s, times[i].s);
    }
    play_close(&play);
}

/* ---- accumulation ---- */

static int passes_of_guest;
static struct firn_policy_def watched;

/* sjf-bsbf, and in how many passes the job called guest runs. */
static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    enum firn_status status =
        firn_policy_find("sjf-bsbf", NULL)->decide(state, view, plan);
    const struct firn_job *const *waiting = firn_view_waiting(view);
    for (size_t i = 0; i < view->nwaiting; i++) {
        const struct firn_alloc *alloc = firn_plan_of(plan, waiting[i]);
        if (strcmp(waiting[i]->spec.name, "guest") == 0 && alloc->nparts > 0)
            passes_of_guest = alloc->how.passes;
    }
    return status;
}

/* The passes of a guest that joins a host of a day; -1: it waits for it. */
static int join(const char *cluster, const char *host, int host_batch,
                const char *guest, int batch)
{
    char rows[512];
    struct play play;
    snprintf(rows, sizeof rows,
             HEADER "host,0,1,86400,%s,%d,0,1\nguest,10,1,600,%s,%d,0,1\n",
             host, host_batch, guest, batch);
    watched = *firn_policy_find("sjf-bsbf", NULL);
    watched.decide = decide;
    passes_of_guest = -1;
    play_open(&play, cluster, rows);
    play.options.profiles = "builtin";
    play.options.policy_def = &watched;
    play_run(&play, "sjf-bsbf");
    int passes = play_end(&play, "guest") < play_end(&play, "host")
                     ? passes_of_guest
                     : -1;
    play_close(&play);
    return passes;
}

/* A 2080 Ti has 11264 MiB, of which 11264 / 1.1 = 10240 may be planned. On one
 * GPU a batch beyond the initial one is run in two passes (Pollux's rule), so
 * ncf needs 2050 + 0.00415 x 16384 = 2118. bert needs 3712 + 514 b: 9881 with
 * all 12 samples, which do not fit beside it, and 6796 with 6, which do: 8914.
 * Beside cifar10 with 256 samples in a pass (2154 + 7.277 x 256 = 4017) the 6
 * do not fit (10813) and the 4 of four passes do (5768, in all 9785). With 100
 * GiB all fit, and the slowdown alone decides: Gavel's Transformer is slowed
 * less at its whole batch. */
static void memory_forbids_the_batch_and_half_of_it_is_taken(void **unused)
{
    (void)unused;
    assert_int_equal(join("1x1:2080ti", "ncf", 32768, "bert", 12), 2);
    assert_int_equal(join("1x1:2080ti", "cifar10", 512, "bert", 12), 4);
    assert_int_equal(join("1x1:2080ti@100", "ncf", 32768, "bert", 12), 0);
    assert_int_equal(join("1x1:2080ti@100", "cifar10", 512, "bert", 12), 0);
    /* bert leaves 359 MiB: nothing fits beside it */
    assert_int_equal(join("1x1:2080ti", "bert", 12, "ncf", 32768), -1);
}

/* ---- slowdowns by the samples of both ---- */

/* Half a pass of 12 samples: 2 x 0.8 s instead of 1.4. Beside another of 12
 * samples a pass of 12 takes 2 times as long, one of 6 1.25 times. */
static const char toy[] =
    "app toy\nsource test\norigin invented\nhardware none\nmethod made up\n"
    "synthetic yes\nbatch_initial 12\nbatch_max 48\nlocal_min 2\n"
    "local_max 12\nprogress 200\n"
    "time t4 alpha_s 0.2 beta_s 0.1 batch_max 12\n"
    "beside toy 3\nbeside_at t4 12 toy 12 2\nbeside_at t4 6 toy 12 1.25\n"
    "beside_at t4 12 toy 3 1.1\n";

static struct firn_job toy_job(int id)
{
    return (struct firn_job){.id = id,
                             .slot = id,
                             .spec = {.name = "j",
                                      .app = "toy",
                                      .group = "",
                                      .types = "",
                                      .gpus = 1,
                                      .gpus_min = 1,
                                      .gpus_max = 1,
                                      .duration_s = 200,
                                      .batch = 12},
                             .type_mask = 1};
}

static void a_slowdown_depends_on_the_samples_of_both_jobs(void **unused)
{
    static const struct {
        int mine, theirs; /* passes */
        double xi, alone; /* and the rate alone */
    } rows[] = {{1, 1, 2, 1},
                {2, 1, 1.25, 1.4 / 1.6},
                {1, 4, 1.1, 1},
                {1, 2, 2, 1}}; /* 6 is as near to 12 as to 3: the first row */
    char folder[TEMP_FOLDER];
    struct firn_cluster cluster;
    struct truth_table *table;
    struct firn_error err = {0};
    struct firn_job a = toy_job(0), b = toy_job(1);
    (void)unused;
    temp_open(folder);
    temp_write(folder, "toy.txt", toy);
    assert_int_equal(firn_cluster_open(&cluster, "1x1:t4", &err), FIRN_OK);
    struct truth base = truth_from_trace(&cluster, 1, 1.5);
    if (truth_table_open(&table, folder, &cluster, FIRN_SIM_FREEZE_OFF, &err) !=
        FIRN_OK)
        fail_msg("%s", err.text);
    struct truth truth = truth_from_table(table, &base, "firn");
    struct forecaster *forecast = simforecast_new(&base, table);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct firn_part part = {0, 0, 1};
        struct firn_alloc mine = {&part, 1, 1, true, 0, FIRN_HOW_AS_SUBMITTED};
        struct firn_alloc theirs = mine;
        mine.how.passes = rows[i].mine;
        theirs.how.passes = rows[i].theirs;
        struct truth_near near = {.sharers = 2, .napps = 1, .njobs = 1};
        near.apps[0] = "toy";
        near.jobs[0].job = &b;
        near.jobs[0].alloc = &theirs;
        double rate = truth.pace(&truth, &a, &mine, &near, 0).rate;
        assert_true(play_near(rate, rows[i].alone / rows[i].xi));
        struct firn_way way = {.gpus = 1, .passes = rows[i].mine};
        struct firn_way other = {.gpus = 1, .passes = rows[i].theirs};
        assert_true(
            play_near(simforecast_slowdown_in(forecast, &a, &way, &b, &other),
                      rows[i].xi));
    }
    forecaster_free(forecast);
    truth_table_free(table);
    firn_cluster_release(&cluster);
    temp_close(folder);
}

/* An injected slowdown holds for measured pairs too: a day at 2 beside 600 s at
 * 2: the guest ends after 1200 s. */
static void an_injected_slowdown_replaces_the_measured_ones(void **unused)
{
    struct play play;
    (void)unused;
    play_open(&play, "1x1:2080ti",
              HEADER "host,0,1,86400,ncf,32768,0,1\n"
                     "guest,10,1,600,cifar10,256,0,1\n");
    play.options.profiles = "builtin";
    play.options.share_slowdown = 2;
    play.options.slows_all = true;
    play_run(&play, "sjf-bsbf");
    assert_true(play_near(play_end(&play, "guest"), 1210));
    play.options.slows_all = false;
    play_run(&play, "sjf-bsbf");
    assert_true(play_end(&play, "guest") < 1000);
    play_close(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            the_run_times_of_the_workload_are_those_of_the_profiles),
        cmocka_unit_test(memory_forbids_the_batch_and_half_of_it_is_taken),
        cmocka_unit_test(a_slowdown_depends_on_the_samples_of_both_jobs),
        cmocka_unit_test(an_injected_slowdown_replaces_the_measured_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
