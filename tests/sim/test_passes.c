/* test_passes.c - gradient accumulation: a step in more passes than it needs.
 *
 * A pass of b samples takes 0.2 + 0.1 b s on a T4, which holds 12 of them; two
 * GPUs of a node synchronise in 0.5 s, and nothing overlaps. A GPU needs 1 GiB
 * and 0.625 GiB a sample. Less than 2 samples a pass are never run. Beside
 * another a step takes 1.25 times as long.
 *
 * A batch of 12 on one T4 takes 1.4 s in one pass, 2 x 0.8 in two, 4 x 0.5 in
 * four and 6 x 0.4 in six, the most there can be; it needs 8.5, 4.75, 2.875 and
 * 2.25 GiB.
 */
#include "lib/play.h"
#include "lib/temp.h"
#include "sim/simforecast.h"
#include "sim/truth_table.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const char toy[] =
    "app toy\nsource test\norigin invented\nhardware none\nmethod made up\n"
    "synthetic yes\nbatch_initial 12\nbatch_max 48\nlocal_min 2\n"
    "local_max 12\nprogress 200\n"
    "time t4 alpha_s 0.2 beta_s 0.1 batch_max 12 local.alpha_s 0.5\n"
    "memory_mib t4 1024 640\nbeside toy 1.25\n";

static char folder[TEMP_FOLDER];

static int make_toy(void **state)
{
    (void)state;
    temp_open(folder);
    temp_write(folder, "toy.txt", toy);
    return 0;
}

static int remove_toy(void **state)
{
    (void)state;
    temp_close(folder);
    return 0;
}

/* A cluster, its truth and its forecasts. */
struct lab {
    struct firn_cluster cluster;
    struct truth_table *table;
    struct truth base, truth;
    struct forecaster *forecast;
};

static void lab_open(struct lab *lab)
{
    struct firn_error err = {0};
    assert_int_equal(firn_cluster_open(&lab->cluster, "1x2:t4", &err), FIRN_OK);
    lab->base = truth_from_trace(&lab->cluster, 1, 1.5);
    if (truth_table_open(&lab->table, folder, &lab->cluster,
                         FIRN_SIM_FREEZE_OFF, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    lab->truth = truth_from_table(lab->table, &lab->base, "firn");
    lab->forecast = simforecast_new(&lab->base, lab->table);
}

static void lab_close(struct lab *lab)
{
    forecaster_free(lab->forecast);
    truth_table_free(lab->table);
    firn_cluster_release(&lab->cluster);
}

static struct firn_job make_job(int gpus, int batch)
{
    return (struct firn_job){.spec = {.name = "j",
                                      .app = "toy",
                                      .group = "",
                                      .types = "",
                                      .gpus = gpus,
                                      .gpus_min = 1,
                                      .gpus_max = 2,
                                      .duration_s = 200,
                                      .batch = batch},
                             .type_mask = 1};
}

/* What really happens, and what is expected, must be the same here: there are
 * no tables. */
static void expect_rate(const struct lab *lab, const struct firn_job *job,
                        int passes, double rate)
{
    int gpus = job->spec.gpus;
    struct firn_part part = {0, 0, gpus == 2 ? 3 : 1};
    struct firn_alloc alloc = {&part, 1, gpus, false, 0, FIRN_HOW_AS_SUBMITTED};
    alloc.how.passes = passes;
    struct firn_way way = {.gpus = gpus, .passes = passes};
    struct truth_near alone = {.sharers = 1};
    struct truth_pace pace =
        lab->truth.pace(&lab->truth, job, &alloc, &alone, 0);
    if (!play_near(pace.rate, rate))
        fail_msg("%d passes: rate %g, not %g", passes, pace.rate, rate);
    assert_true(isinf(pace.until_s)); /* the batch is what it was */
    assert_true(play_near(simforecast_rate(lab->forecast, job, &way, 0), rate));
}

static void more_passes_cost_time(void **state)
{
    struct lab lab = {.table = NULL};
    struct firn_job one = make_job(1, 12), two = make_job(2, 12);
    (void)state;
    two.id = two.slot = 1;
    lab_open(&lab);
    expect_rate(&lab, &one, 0, 1);
    expect_rate(&lab, &one, 1, 1);
    expect_rate(&lab, &one, 2, 1.4 / 1.6);
    expect_rate(&lab, &one, 4, 1.4 / 2);
    expect_rate(&lab, &one, 5, 1.4 / 2);    /* 3 samples: four of them do */
    expect_rate(&lab, &one, 8, 1.4 / 2.4);  /* 2 samples, six times */
    expect_rate(&lab, &one, 64, 1.4 / 2.4); /* no less than 2 */
    /* two GPUs: 0.8 + 0.5 s; two passes of 3: 0.5, then 0.5 + 0.5 */
    expect_rate(&lab, &two, 0, 1);
    expect_rate(&lab, &two, 2, 1.3 / 1.5);
    lab_close(&lab);
}

/* Batch 24 on one GPU takes two passes as it is: fewer are not to be had. */
static void no_fewer_passes_than_memory_allows(void **state)
{
    struct lab lab = {.table = NULL};
    struct firn_job job = make_job(1, 24);
    (void)state;
    lab_open(&lab);
    expect_rate(&lab, &job, 0, 1);
    expect_rate(&lab, &job, 1, 1);
    expect_rate(&lab, &job, 2, 1);
    expect_rate(&lab, &job, 4, 2.8 / 3.2);
    lab_close(&lab);
}

static void more_passes_need_less_memory(void **state)
{
    static const struct {
        int passes;
        double gib;
    } rows[] = {{0, 8.5},   {1, 8.5},  {2, 4.75},
                {4, 2.875}, {6, 2.25}, {9, 2.25}};
    struct lab lab = {.table = NULL};
    struct firn_job job = make_job(1, 12);
    (void)state;
    lab_open(&lab);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct firn_way way = {.gpus = 1, .passes = rows[i].passes};
        double gib = simforecast_load(lab.forecast, &job, &way, 0).mem_gib;
        if (!play_near(gib, rows[i].gib))
            fail_msg("%d passes: %g GiB", rows[i].passes, gib);
    }
    lab_close(&lab);
}

/* A way with passes is corrected by what was reported there, and only that
 * way: others have the mean, which is the same with a single report. */
static void reports_correct_the_way_that_was_run(void **state)
{
    struct lab lab = {.table = NULL};
    struct firn_job job = make_job(1, 12);
    struct firn_part part = {0, 0, 1};
    struct truth_near alone = {.sharers = 1};
    struct firn_way way = {.gpus = 1, .passes = 2}, plain = {.gpus = 1};
    (void)state;
    lab_open(&lab);
    job.held =
        (struct firn_alloc){&part, 1, 1, false, 0, FIRN_HOW_AS_SUBMITTED};
    job.held.how.passes = 2;
    /* 0.875 was expected; 0.7 is 0.8 of that */
    struct firn_report report = {.rate = 0.7};
    simforecast_learn(lab.forecast, &job, &report, &alone);
    assert_true(play_near(simforecast_rate(lab.forecast, &job, &way, 0), 0.7));
    assert_true(
        play_near(simforecast_rate(lab.forecast, &job, &plain, 0), 0.8));
    /* then in one pass as expected: the two ways differ */
    job.held.how.passes = 0;
    report.rate = 1;
    simforecast_learn(lab.forecast, &job, &report, &alone);
    assert_true(play_near(simforecast_rate(lab.forecast, &job, &plain, 0), 1));
    assert_true(play_near(simforecast_rate(lab.forecast, &job, &way, 0), 0.7));
    lab_close(&lab);
}

/* Two jobs of 280 s for one T4 of 16 GiB: 8.5 twice with a margin of 10 % are
 * too much, 8.5 + 4.75 are not. b joins a in two passes: a goes at 0.8 and ends
 * at 350, b at 0.875 / 1.25 = 0.7 and has done 245 by then; the other 35 at
 * 0.875, since it keeps its passes: 390. */
static void a_job_joins_in_the_passes_that_fit(void **state)
{
    struct play play;
    (void)state;
    play_open(&play, "1x1:t4",
              "#firn-trace 1\nname,submit_s,gpus,duration_s,app,batch\n"
              "a,0,1,280,toy,12\nb,0,1,280,toy,12\n");
    play.options.profiles = folder;
    play.options.shares = true;
    play_run(&play, "sjf-bsbf");
    assert_true(play_near(play_end(&play, "a"), 350));
    assert_true(play_near(play_end(&play, "b"), 390));
    play_close(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_passes_cost_time),
        cmocka_unit_test(no_fewer_passes_than_memory_allows),
        cmocka_unit_test(more_passes_need_less_memory),
        cmocka_unit_test(reports_correct_the_way_that_was_run),
        cmocka_unit_test(a_job_joins_in_the_passes_that_fit),
    };
    return cmocka_run_group_tests(tests, make_toy, remove_toy);
}
