/* test_simforecast.c - what policies are told to expect, worked by hand.
 *
 * A toy profile with round numbers, asked directly; and policies driven
 * through the round that compare forecasts with what jobs report.
 */
#include "base/buf.h"
#include "base/rng.h"
#include "lib/data.h"
#include "lib/drive.h"
#include "lib/play.h"
#include "lib/temp.h"
#include "lib/toys.h"
#include "sim/simforecast.h"
#include "sim/truth_table.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A sample takes 0.1 s on a T4, which holds 10 of them, and 0.05 s on a V100,
 * which holds 5. Two GPUs of one node synchronise in 0.5 s, GPUs of two nodes
 * in 1 s, nothing overlaps. Two stages of 100 iterations at batch 10: V = 9,
 * G = 1, then G = 0. */
static const char toy[] =
    "app toy\nsource test\norigin invented\nhardware none\nmethod made up\n"
    "synthetic yes\nbatch_initial 10\nbatch_max 1000\nlocal_min 4\n"
    "progress 200\nrestart_s 7\n"
    "time t4 beta_s 0.1 batch_max 10 local.alpha_s 0.5 pair.alpha_s 1\n"
    "memory_mib t4 1024 512\nutilisation t4 0.25 0.05\n"
    "time v100 beta_s 0.05 batch_max 5\nbeside toy 1.25\n"
    "batches 10 20\nstage 100 1 9 1 9\nstage 200 0 1 0 1\n";

/* An iteration takes 1 s a pass whatever the batch. */
static const char flat[] =
    "app flat\nsource test\norigin invented\nhardware none\nmethod made up\n"
    "synthetic yes\nbatch_initial 10\nbatch_max 40\nlocal_min 4\n"
    "local_max 40\nprogress 200\ntime t4 alpha_s 1\n"
    "batches 10 20\nstage 100 1 9 1 9\nstage 200 0 1 0 1\n";

static char folder[TEMP_FOLDER];

static int make_toys(void **state)
{
    (void)state;
    temp_open(folder);
    temp_write(folder, "toy.txt", toy);
    temp_write(folder, "flat.txt", flat);
    return 0;
}

static int remove_toys(void **state)
{
    (void)state;
    temp_close(folder);
    return 0;
}

/* A cluster, its truth and its forecasts. */
struct bench {
    struct firn_cluster cluster;
    struct truth_table *table;
    struct truth base, truth;
    struct forecaster *forecast;
};

static void bench_open(struct bench *b, const char *spec, const char *profiles)
{
    struct firn_error err = {0};
    *b = (struct bench){0};
    assert_int_equal(firn_cluster_open(&b->cluster, spec, &err), FIRN_OK);
    b->base = truth_from_trace(&b->cluster, 0.5, 1.5);
    if (profiles != NULL) {
        if (truth_table_open(&b->table, profiles, &b->cluster,
                             FIRN_SIM_FREEZE_OFF, &err) != FIRN_OK)
            fail_msg("%s", err.text);
        b->truth = truth_from_table(b->table, &b->base, "firn");
    }
    b->forecast = simforecast_new(&b->base, b->table);
}

static void bench_close(struct bench *b)
{
    forecaster_free(b->forecast);
    truth_table_free(b->table);
    firn_cluster_release(&b->cluster);
}

static double ask(const struct bench *b, const struct firn_job *job, int gpus,
                  int nodes, firn_type_id type, unsigned tunes)
{
    struct firn_way way = {
        .gpus = gpus, .nodes = nodes, .type = type, .tunes = tunes};
    double rate = simforecast_rate(b->forecast, job, &way, 0);
    assert_true(simforecast_rate(b->forecast, job, &way, 0) == rate);
    return rate;
}

static struct firn_job make_job(const char *app, int gpus, int batch)
{
    return (struct firn_job){
        .spec = {.name = "j",
                 .app = app,
                 .group = "",
                 .types = "",
                 .gpus = gpus,
                 .gpus_min = 1,
                 .gpus_max = 64,
                 .duration_s = 200,
                 .batch = batch},
        .type_mask = 3,
    };
}

/* Type 0 is T4 in nodes of 2, type 1 V100 in nodes of 4. Alone on one T4 an
 * iteration of 10 samples takes 1 s: that is the reference.
 *   2 T4, packed: 5 samples each, 0.5 s and 0.5 s of sync: 1
 *   2 T4 on two nodes: 0.5 and 1: 1 / 1.5
 *   1 V100: two passes of 5 in 0.25 s each: 2; it is not synchronised
 *   5 V100: 2 samples in 0.1 s: 10, on two nodes by itself */
static void rates_are_the_fits_for_each_way(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, "4x2:t4,2x4:v100", folder);
    struct firn_job job = make_job("toy", 1, 10);
    assert_true(play_near(ask(&b, &job, 1, 0, 0, 0), 1));
    assert_true(play_near(ask(&b, &job, 1, 0, FIRN_ANY_TYPE, 0), 1));
    assert_true(play_near(ask(&b, &job, 2, 0, 0, 0), 1));
    assert_true(play_near(ask(&b, &job, 2, 1, 0, 0), 1));
    assert_true(play_near(ask(&b, &job, 2, 2, 0, 0), 1 / 1.5));
    assert_true(play_near(ask(&b, &job, 1, 0, 1, 0), 2));
    assert_true(play_near(ask(&b, &job, 5, 0, 1, 0), 10));
    assert_true(ask(&b, &job, 2, 3, 0, 0) == 0); /* more nodes than GPUs */
    assert_true(ask(&b, &job, 4, 1, 0, 0) == 0); /* no node has four */
    job.id = 1;
    job.type_mask = 2; /* its reference is the V100 then */
    assert_true(ask(&b, &job, 1, 0, 0, 0) == 0);
    assert_true(play_near(ask(&b, &job, 1, 0, FIRN_ANY_TYPE, 0), 1));
    bench_close(&b);
}

/* (gpus / asked)^0.5 and the type's speed. */
static void jobs_without_a_profile_go_by_the_exponent(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, "4x2:t4,1x4:v100", NULL);
    double speed = b.cluster.types[1].speed;
    struct firn_job job = make_job("unheard", 2, 0);
    assert_true(ask(&b, &job, 2, 0, 0, 0) == 1);
    assert_true(play_near(ask(&b, &job, 8, 0, FIRN_ANY_TYPE, 0), 2));
    assert_true(play_near(ask(&b, &job, 2, 0, 1, 0), speed));
    assert_int_equal(simforecast_gpus_max(b.forecast, &job, 0), 64);
    struct firn_way asked = {.gpus = 2, .type = FIRN_ANY_TYPE};
    struct firn_load load = simforecast_load(b.forecast, &job, &asked, 0);
    assert_true(isnan(load.util) && isnan(load.mem_gib));
    job.spec.mem_gib = 12;
    assert_true(simforecast_load(b.forecast, &job, &asked, 0).mem_gib == 12);
    assert_true(simforecast_slowdown(b.forecast, &job, &job) == 1.5);
    bench_close(&b);
}

/* Batch 15 on one T4 is 16 samples in 1.6 s, worth 10 / 6.625 iterations in
 * the first stage, 1.6 in the second; the first lasts 106 of 206 s, here 200.
 * On two T4: 8 samples each, 0.8 s and 0.5 s of sync, worth the same: 1.6 /
 * 1.3 in both. On a V100: 15 samples in 0.75 s, worth 10 / 7, then 1.5. */
static void the_gain_of_a_batch_follows_the_stage_of_training(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, "4x2:t4,1x4:v100", folder);
    struct firn_job job = make_job("toy", 1, 15);
    double end_s = 200 * 106. / 206;
    double first = (10 / 7. / 0.75) / (10 / 6.625 / 1.6);
    assert_true(play_near(ask(&b, &job, 2, 0, 0, 0), 1.6 / 1.3));
    assert_true(play_near(ask(&b, &job, 1, 0, 1, 0), first));
    job.done_s = end_s - 0.01;
    assert_true(play_near(ask(&b, &job, 1, 0, 1, 0), first));
    job.done_s = end_s; /* to the rounding */
    assert_true(play_near(ask(&b, &job, 1, 0, 1, 0), 2));
    assert_true(play_near(ask(&b, &job, 2, 0, 0, 0), 1.6 / 1.3));
    job.done_s = 0; /* back to a checkpoint */
    assert_true(play_near(ask(&b, &job, 1, 0, 1, 0), first));
    bench_close(&b);
}

/* Goodput is gain / passes. On one GPU anything beyond 10 samples takes two
 * passes: 40 are worth 10 / (9 / 4 + 1) in 2 s, better than 1 in 1 s; two GPUs
 * run them in one pass. In the second stage 40 are worth 4. */
static void a_tuned_batch_is_the_best_of_its_stage(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, "4x2:t4", folder);
    struct firn_job job = make_job("flat", 1, 10);
    job.type_mask = 1;
    double gain = 10 / 3.25;
    assert_true(play_near(ask(&b, &job, 1, 0, 0, 0), 1));
    assert_true(play_near(ask(&b, &job, 1, 0, 0, FIRN_TUNE_BATCH), gain / 2));
    assert_true(play_near(ask(&b, &job, 2, 0, 0, FIRN_TUNE_BATCH), gain));
    job.done_s = 100;
    assert_true(play_near(ask(&b, &job, 1, 0, 0, FIRN_TUNE_BATCH), 2));
    assert_true(play_near(ask(&b, &job, 2, 0, 0, FIRN_TUNE_BATCH), 4));
    assert_int_equal(simforecast_gpus_max(b.forecast, &job, 0), 2);
    assert_int_equal(simforecast_gpus_max(b.forecast, &job, FIRN_TUNE_BATCH),
                     10);
    bench_close(&b);
}

/* Reported at half the speed the fit expects: so everywhere. */
static void reports_correct_every_way(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, "4x2:t4,1x4:v100", folder);
    struct firn_job job = make_job("toy", 1, 10);
    struct firn_part part = {.node = 0, .gpus = 3};
    struct firn_report report = {.rate = 0.5};
    struct truth_near alone = {.sharers = 1};
    job.held = (struct firn_alloc){
        .parts = &part, .nparts = 1, .ngpus = 2, .how = FIRN_HOW_AS_SUBMITTED};
    simforecast_learn(b.forecast, &job, &report, &alone);
    assert_true(ask(&b, &job, 2, 0, 0, 0) == 0.5);
    assert_true(play_near(ask(&b, &job, 1, 0, 1, 0), 1));
    report.rate = 0; /* stopped: says nothing */
    simforecast_learn(b.forecast, &job, &report, &alone);
    assert_true(ask(&b, &job, 2, 0, 0, 0) == 0.5);
    job.id = 1; /* another one in its slot */
    assert_true(ask(&b, &job, 2, 0, 0, 0) == 1);
    bench_close(&b);
}

/* Half its fit on two T4, twice its fit on the V100 (2 there): both stay, and
 * what was never tried is corrected by the mean, (0.5 x 2)^(1/2). */
static void ways_that_were_tried_keep_their_own_correction(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, "4x2:t4,1x4:v100", folder);
    struct firn_job job = make_job("toy", 1, 15);
    struct firn_part part = {.node = 0, .gpus = 3};
    struct truth_near alone = {.sharers = 1};
    double two = ask(&b, &job, 2, 0, 0, 0), v100 = ask(&b, &job, 1, 0, 1, 0);
    double split = ask(&b, &job, 2, 2, 0, 0);
    struct firn_report report = {.rate = 0.5 * two};
    job.held = (struct firn_alloc){
        .parts = &part, .nparts = 1, .ngpus = 2, .how = FIRN_HOW_AS_SUBMITTED};
    simforecast_learn(b.forecast, &job, &report, &alone);
    assert_true(play_near(ask(&b, &job, 2, 2, 0, 0), 0.5 * split));
    part = (struct firn_part){.node = 4, .gpus = 1};
    job.held.ngpus = 1;
    report.rate = 2 * v100;
    simforecast_learn(b.forecast, &job, &report, &alone);
    assert_true(ask(&b, &job, 1, 1, 1, 0) == 2 * v100);
    assert_true(ask(&b, &job, 2, 1, 0, 0) == 0.5 * two);
    assert_true(ask(&b, &job, 2, 0, FIRN_ANY_TYPE, 0) == 0.5 * two);
    assert_true(play_near(ask(&b, &job, 2, 2, 0, 0), split));
    job.done_s = 150; /* the ratios hold in the next stage: 2 on the V100 */
    assert_true(play_near(ask(&b, &job, 1, 0, 1, 0), 4));
    bench_close(&b);
}

/* 1.25 beside its kind; 1.5, the constant, beside others. One observation of
 * half the rate it has alone is a slowdown of 2: (1.25 + 2) / 2. */
static void slowdowns_are_measured_then_observed(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, "4x2:t4", folder);
    struct firn_job job = make_job("toy", 1, 10),
                    other = make_job("flat", 1, 0);
    struct firn_job unheard = make_job("unheard", 1, 0);
    struct firn_part part = {.node = 0, .gpus = 1};
    struct firn_report report = {.rate = 0.5};
    struct truth_near near = {.sharers = 2, .napps = 1, .apps = {"toy"}};
    job.type_mask = other.type_mask = unheard.type_mask = 1;
    other.slot = other.id = 1;
    unheard.slot = unheard.id = 2;
    assert_true(play_near(simforecast_slowdown(b.forecast, &job, &job), 1.25));
    assert_true(play_near(simforecast_slowdown(b.forecast, &job, &other), 1.5));
    assert_true(
        play_near(simforecast_slowdown(b.forecast, &job, &unheard), 1.5));
    assert_true(
        play_near(simforecast_slowdown(b.forecast, &unheard, &job), 1.5));
    job.held = (struct firn_alloc){
        .parts = &part, .nparts = 1, .ngpus = 1, .how = FIRN_HOW_AS_SUBMITTED};
    simforecast_learn(b.forecast, &job, &report, &near);
    assert_true(play_near(simforecast_slowdown(b.forecast, &job, &job), 1.625));
    assert_true(play_near(simforecast_slowdown(b.forecast, &job, &other), 1.5));
    assert_true(ask(&b, &job, 1, 0, 0, 0) == 1); /* no news of it alone */
    bench_close(&b);
}

/* Two GPUs: 5 samples on each. 1024 + 5 x 512 MiB; 0.25 + 5 x 0.05. */
static void memory_and_utilisation_come_from_the_profile(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, "4x2:t4", folder);
    struct firn_job job = make_job("toy", 2, 10);
    job.type_mask = 1;
    job.spec.mem_gib = 12; /* the profile knows better */
    struct firn_way asked = {.gpus = 2, .type = FIRN_ANY_TYPE};
    struct firn_load load = simforecast_load(b.forecast, &job, &asked, 0);
    assert_true(play_near(load.mem_gib, 3.5));
    assert_true(play_near(load.util, 0.5));
    bench_close(&b);
}

/* The same questions in another order, of the shipped profiles. */
static void answers_do_not_depend_on_the_order_of_questions(void **state)
{
    (void)state;
    enum { QUESTIONS = 400 };
    struct bench b, c;
    struct firn_way ways[QUESTIONS];
    double rates[QUESTIONS];
    struct rng rng;
    bench_open(&b, "sia", "builtin");
    bench_open(&c, "sia", "builtin");
    struct firn_job job = make_job("cifar10", 2, 512);
    job.type_mask = (uint32_t)(1 << b.cluster.ntypes) - 1;
    rng_seed(&rng, 1);
    for (int i = 0; i < QUESTIONS; i++) {
        int gpus = 1 + (int)rng_below(&rng, 100);
        ways[i] = (struct firn_way){
            .gpus = gpus,
            .nodes = (int)rng_below(&rng, 20),
            .type = (int)rng_below(&rng, (uint64_t)b.cluster.ntypes + 1) - 1,
            .tunes = (unsigned)rng_below(&rng, 4)};
        rates[i] = simforecast_rate(b.forecast, &job, &ways[i], 0);
        assert_true(rates[i] >= 0);
    }
    for (int i = QUESTIONS - 1; i >= 0; i--)
        assert_true(simforecast_rate(c.forecast, &job, &ways[i], 0) ==
                    rates[i]);
    bench_close(&b);
    bench_close(&c);
}

/* The same forecasts with the measured tables at hand and without, where the
 * batch is the reference's; the truth is another. */
static void forecasts_never_look_into_the_tables(void **state)
{
    (void)state;
    const char *apps = data_path("pollux/apps.csv");
    struct bench b, c;
    char dir[512];
    if (apps == NULL) {
        print_message("no Pollux tables\n");
        skip();
    }
    snprintf(dir, sizeof dir, "%.*s", (int)(strstr(apps, "pollux") - apps - 1),
             apps);
    bench_open(&b, "4x4:t4", "builtin");
    bench_open(&c, "4x4:t4", dir);
    struct firn_job job = make_job("cifar10", 1, 128);
    struct firn_part part = {.node = 0, .gpus = 3};
    struct firn_alloc alloc = {
        .parts = &part, .nparts = 1, .ngpus = 2, .how = FIRN_HOW_AS_SUBMITTED};
    job.type_mask = 1;
    for (int gpus = 1; gpus <= 16; gpus *= 2)
        assert_true(ask(&b, &job, gpus, 0, 0, 0) ==
                    ask(&c, &job, gpus, 0, 0, 0));
    double fit = ask(&c, &job, 2, 0, 0, 0);
    assert_true(play_near(b.truth.rate(&b.truth, &job, &alloc, 1), fit));
    assert_false(play_near(c.truth.rate(&c.truth, &job, &alloc, 1), fit));
    bench_close(&b);
    bench_close(&c);
}

/* ---- through the round ---- */

static struct {
    long asked, moved;
    double worst;
} seen;

/* Elastic, and compares the forecast of what each job holds with its report
 * where it has no neighbours. */
static enum firn_status compare(void *state, const struct firn_view *view,
                                struct firn_plan *plan)
{
    const struct firn_job *const *jobs = firn_view_running(view);
    for (size_t i = 0; i < view->nrunning; i++) {
        const struct firn_alloc *held = &jobs[i]->held;
        struct firn_way way = {
            .gpus = held->ngpus,
            .nodes = firn_alloc_nodes(held),
            .type = view->cluster->nodes[held->parts[0].node].type,
            .tunes = held->tunes};
        double rate = firn_view_rate(view, jobs[i], &way);
        seen.asked++;
        seen.moved += fabs(rate - 1) > 0.2;
        seen.worst = fmax(seen.worst, fabs(rate / jobs[i]->rate - 1));
    }
    return toy_elastic.decide(state, view, plan);
}

static const struct firn_policy_def comparing = {
    .name = "comparing",
    .summary = "elastic, and asks",
    .needs = FIRN_NEED_FORECAST,
    .does = FIRN_DOES_PREEMPT | FIRN_DOES_RESIZE | FIRN_DOES_MOVE,
    .decide = compare,
};

static void write_elastic(const struct play *play, const char *app)
{
    struct firn_buf rows = {0};
    buf_puts(&rows, "#firn-trace 1\nname,submit_s,gpus,duration_s,app,batch,"
                    "gpus_min,gpus_max\n");
    for (int i = 0; i < 40; i++)
        buf_printf(&rows, "j%d,%d,%d,%d,%s,%d,1,16\n", i, 97 * i, 1 + i % 4,
                   500 + 131 * (i % 7), app, 128 + 64 * (i % 5));
    play_write(play->trace, rows.at);
    buf_release(&rows);
}

/* With noise on reports a job may be believed to be in another stage than it
 * reported from, where its gain is a little different. */
static void forecast_of_what_is_held_is_what_was_reported(void **state)
{
    (void)state;
    static const char *const apps[] = {"cifar10", "unheard"};
    for (size_t i = 0; i < 4; i++) {
        struct play play;
        struct drive run;
        play_open(&play, "4x4:t4", "#");
        write_elastic(&play, apps[i % 2]);
        play.options.profiles = "builtin";
        play.options.noise.report = i < 2 ? 0 : 0.5;
        memset(&seen, 0, sizeof seen);
        assert_int_equal(drive_try(&play, &comparing, &run), FIRN_OK);
        assert_true(seen.asked > 50);
        assert_true(seen.worst < (i < 2 ? 1e-9 : 0.01));
        buf_release(&run.text);
        play_close(&play);
    }
}

/* The same scene; every job always on what it asked for, so that without noise
 * nothing but 1 is reported. */
static void noise_reaches_forecasts(void **state)
{
    (void)state;
    struct play play;
    struct drive run;
    play_open(&play, "4x4:t4", "a,0,1,100\nb,10,2,50\nc,20,1,70\nd,30,4,10\n");
    for (int i = 0; i < 2; i++) {
        play.options.noise.throughput = i == 0 ? 0 : 0.9;
        play.options.seed = 3;
        memset(&seen, 0, sizeof seen);
        assert_int_equal(drive_try(&play, &comparing, &run), FIRN_OK);
        assert_true(seen.asked > 0);
        assert_true(i == 0 ? seen.moved == 0 : seen.moved > 0);
        buf_release(&run.text);
    }
    play_close(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_the_fits_for_each_way),
        cmocka_unit_test(jobs_without_a_profile_go_by_the_exponent),
        cmocka_unit_test(the_gain_of_a_batch_follows_the_stage_of_training),
        cmocka_unit_test(a_tuned_batch_is_the_best_of_its_stage),
        cmocka_unit_test(reports_correct_every_way),
        cmocka_unit_test(ways_that_were_tried_keep_their_own_correction),
        cmocka_unit_test(slowdowns_are_measured_then_observed),
        cmocka_unit_test(memory_and_utilisation_come_from_the_profile),
        cmocka_unit_test(answers_do_not_depend_on_the_order_of_questions),
        cmocka_unit_test(forecasts_never_look_into_the_tables),
        cmocka_unit_test(forecast_of_what_is_held_is_what_was_reported),
        cmocka_unit_test(noise_reaches_forecasts),
    };
    return cmocka_run_group_tests(tests, make_toys, remove_toys);
}
