/* test_forecaster.c - what reports make of a forecast, worked by hand.
 *
 * Without profiles a rate is (n / gpus)^0.5 times the speed of the type, so
 * every number here can be followed. Step times and pairs: the tests of the
 * two feeders, tests/sim/test_simforecast.c, tests/daemon/test_liveforecast.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/forecaster.h"
#include "core/forecaster_merge.h"
#include <math.h>

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-12)

struct bench {
    struct firn_cluster cluster;
    struct known known;
    struct trainer *trainer;
    struct forecaster *f;
    struct firn_job job;
    struct firn_part part;
};

static void open_bench(struct bench *b, bool is_recorded)
{
    struct firn_error err = {0};
    *b = (struct bench){0};
    assert_int_equal(
        firn_cluster_parse_spec(&b->cluster, "4x4:t4@16,1x4:v100@16", &err),
        FIRN_OK);
    b->known = (struct known){.format = "", .cluster = &b->cluster};
    b->trainer = trainer_new(&b->known, FREEZE_POLICY);
    struct forecaster_priors priors = {.cluster = &b->cluster,
                                       .known = &b->known,
                                       .trainer = b->trainer,
                                       .scaling = 0.5,
                                       .share_slowdown = 1.5,
                                       .is_recorded = is_recorded};
    b->f = forecaster_new(&priors);
    b->job = (struct firn_job){.spec = {.name = "j",
                                        .app = "mine",
                                        .group = "",
                                        .types = "",
                                        .gpus = 1,
                                        .gpus_min = 1,
                                        .gpus_max = 16,
                                        .duration_s = 1000},
                               .type_mask = 3};
}

static void close_bench(struct bench *b)
{
    forecaster_free(b->f);
    trainer_free(b->trainer);
    firn_cluster_release(&b->cluster);
}

static const struct forecaster_key first = {0, 0};

static double rate(struct bench *b, int gpus)
{
    struct firn_way way = {.gpus = gpus};
    return forecaster_rate(b->f, first, &b->job, &way, b->job.done_s);
}

/* From `gpus` GPUs of node 0. */
static void report(struct bench *b, int gpus, double at_rate, bool is_alone)
{
    b->part = (struct firn_part){0, 0, ((uint64_t)1 << gpus) - 1};
    b->job.held = (struct firn_alloc){.parts = &b->part,
                                      .nparts = 1,
                                      .ngpus = gpus,
                                      .how = FIRN_HOW_AS_SUBMITTED};
    struct forecaster_report report = {.job = &b->job,
                                       .rate = at_rate,
                                       .done_s = b->job.done_s,
                                       .is_alone = is_alone,
                                       .beside = "other"};
    forecaster_learn(b->f, first, &report);
}

static void reports_in_a_row_are_averaged(void **unused)
{
    (void)unused;
    struct bench b;
    open_bench(&b, true);
    report(&b, 1, 0.8, true);
    NEAR(rate(&b, 1), 0.8);
    report(&b, 1, 1.2, true);
    NEAR(rate(&b, 1), 1);
    report(&b, 1, 1.2, true);
    NEAR(rate(&b, 1), 1.1);
    NEAR(rate(&b, 4), 2 * 1.1); /* and so in every other way */
    close_bench(&b);
}

static void the_first_report_after_a_restart_replaces_the_mean(void **unused)
{
    (void)unused;
    struct bench b;
    open_bench(&b, true);
    report(&b, 1, 0.8, true);
    report(&b, 1, 1.2, true);
    b.job.starts++;
    report(&b, 1, 0.6, true);
    NEAR(rate(&b, 1), 0.6);
    close_bench(&b);
}

static void a_way_not_tried_has_the_geometric_mean(void **unused)
{
    (void)unused;
    struct bench b;
    open_bench(&b, true);
    report(&b, 1, 0.5, true); /* half its fit */
    b.job.starts++;
    report(&b, 4, 4, true); /* twice its fit */
    NEAR(rate(&b, 1), 0.5);
    NEAR(rate(&b, 4), 4);
    NEAR(rate(&b, 16), 4 * 1);
    close_bench(&b);
}

/* A report is of a share of the work a second, so with twice the work the same
 * report is twice the rate. */
static void a_corrected_duration_keeps_the_share_of_work_a_second(void **unused)
{
    (void)unused;
    struct bench b;
    open_bench(&b, false);
    report(&b, 1, 0.8, true);
    b.job.spec.duration_s = 2000;
    NEAR(rate(&b, 1), 1.6);
    NEAR(rate(&b, 4), 3.2);
    close_bench(&b);
}

static void reports_survive_a_change_of_the_spec(void **unused)
{
    (void)unused;
    struct bench b;
    open_bench(&b, false);
    report(&b, 4, 1, true); /* half its fit */
    b.job.spec.gpus = 4;    /* its fit there is 1 now */
    forecaster_respec(b.f, first);
    NEAR(rate(&b, 4), 1);
    NEAR(rate(&b, 1), 0.5);
    close_bench(&b);
}

static void a_slot_forgets_the_job_that_had_it(void **unused)
{
    (void)unused;
    struct bench b;
    open_bench(&b, true);
    report(&b, 1, 0.5, true);
    struct firn_way way = {.gpus = 1};
    struct forecaster_key next = {0, 7};
    NEAR(forecaster_rate(b.f, next, &b.job, &way, 0), 1);
    NEAR(rate(&b, 1), 1); /* and of it nothing is left */
    assert_false(forecaster_is_seen(b.f, first));
    close_bench(&b);
}

/* Users' durations say nothing of the rate alone: it is taken to be slowed by
 * a tenth until it is seen alone. A trace's durations do. */
static void
a_job_seen_only_beside_another_is_taken_to_be_slowed_by_a_tenth(void **unused)
{
    (void)unused;
    struct bench b;
    open_bench(&b, false);
    report(&b, 1, 0.45, false);
    NEAR(rate(&b, 1), 0.5);
    assert_false(forecaster_is_seen(b.f, first));
    report(&b, 1, 0.9, true);
    NEAR(rate(&b, 1), 0.9); /* what was guessed counts no longer */
    assert_true(forecaster_is_seen(b.f, first));
    close_bench(&b);
    open_bench(&b, true);
    report(&b, 1, 0.45, false);
    NEAR(rate(&b, 1), 1);
    close_bench(&b);
}

static void durations_of_a_user_refer_to_the_types_of_the_job(void **unused)
{
    (void)unused;
    struct bench b;
    struct firn_way v100 = {.gpus = 1, .type = 1};
    open_bench(&b, false);
    double speed = b.cluster.types[1].speed;
    assert_true(speed > 1);
    b.job.type_mask = 2; /* the V100 only */
    NEAR(forecaster_rate(b.f, first, &b.job, &v100, 0), 1);
    close_bench(&b);
    open_bench(&b, true);
    b.job.type_mask = 2;
    NEAR(forecaster_rate(b.f, first, &b.job, &v100, 0), speed);
    close_bench(&b);
}

/* One T4 and eight V100: no T4 node could hold nine. */
static void a_mix_that_one_type_could_not_hold_is_learned_live(void **unused)
{
    (void)unused;
    struct bench b;
    struct firn_error err = {0};
    int counts[FIRN_TYPES_MAX];
    open_bench(&b, false);
    firn_cluster_release(&b.cluster);
    forecaster_free(b.f);
    assert_int_equal(
        firn_cluster_parse_spec(&b.cluster, "1x1:t4@16,1x8:v100@16", &err),
        FIRN_OK);
    struct forecaster_priors priors = {
        .cluster = &b.cluster, .scaling = 0.5, .share_slowdown = 1.5};
    b.f = forecaster_new(&priors);
    struct firn_part parts[] = {{0, 0, 1}, {1, 0, 0xff}};
    b.job.held = (struct firn_alloc){
        .parts = parts, .nparts = 2, .ngpus = 9, .how = FIRN_HOW_AS_SUBMITTED};
    struct forecaster_report report = {
        .job = &b.job, .rate = 2.5, .is_alone = true};
    forecaster_learn(b.f, first, &report);
    struct firn_way held = forecaster_held(b.f, first, &b.job, counts);
    assert_int_equal(held.type, 1);
    NEAR(forecaster_rate(b.f, first, &b.job, &held, 0), 2.5);
    close_bench(&b);
}

static void memory_is_never_below_what_the_trainer_reports(void **unused)
{
    (void)unused;
    struct bench b;
    struct firn_way way = {.gpus = 1};
    open_bench(&b, false);
    assert_true(isnan(forecaster_load(b.f, first, &b.job, &way, 0).mem_gib));
    forecaster_learn_load(b.f, first, &(struct firn_load){0.5, 3});
    forecaster_learn_load(b.f, first, &(struct firn_load){0.4, 2});
    struct firn_load load = forecaster_load(b.f, first, &b.job, &way, 0);
    NEAR(load.mem_gib, 3);
    NEAR(load.util, 0.5);
    b.job.spec.mem_gib = 8;
    NEAR(forecaster_load(b.f, first, &b.job, &way, 0).mem_gib, 8);
    b.job.spec.mem_gib = 1;
    NEAR(forecaster_load(b.f, first, &b.job, &way, 0).mem_gib, 3);
    close_bench(&b);
}

/* Half of the memory does not go with the batch. A trace's figure is of the job
 * as it was run. */
static void more_passes_halve_the_memory_that_goes_with_the_batch(void **unused)
{
    (void)unused;
    struct bench b;
    struct firn_way two = {.gpus = 1, .passes = 2};
    open_bench(&b, false);
    b.job.spec.mem_gib = 8;
    NEAR(forecaster_load(b.f, first, &b.job, &two, 0).mem_gib, 6);
    b.job.spec.mem_gib = 0;
    forecaster_learn_load(b.f, first, &(struct firn_load){0.5, 4});
    NEAR(forecaster_load(b.f, first, &b.job, &two, 0).mem_gib, 3);
    close_bench(&b);
    open_bench(&b, true);
    b.job.spec.mem_gib = 8;
    NEAR(forecaster_load(b.f, first, &b.job, &two, 0).mem_gib, 8);
    close_bench(&b);
}

/* 100 s and 60 s alone; each at 0.8 of that together: the second is done after
 * 75 s, when the first has 40 s left, alone. */
static void the_longer_of_two_merged_jobs_goes_on_alone(void **unused)
{
    (void)unused;
    struct merge_side side[2] = {
        {.work_s = 100, .alone = 1, .together = 0.8},
        {.work_s = 60, .alone = 1, .together = 0.8, .after = 1.5}};
    struct firn_merge merge = {0};
    assert_true(merge_expect(side, FIRN_MERGE_TOGETHER, &merge));
    NEAR(merge.left_s[1], 75);
    NEAR(merge.left_s[0], 115);
    NEAR(merge.weight, (2 * 60 + 100) / 190.0);
    assert_false(merge_expect(side, FIRN_MERGE_AFTER, &merge)); /* not new */
    side[1].is_new = true;
    assert_true(merge_expect(side, FIRN_MERGE_AFTER, &merge));
    NEAR(merge.left_s[1], 100 + 60 / 1.5);
    side[0].together = 0;
    assert_false(merge_expect(side, FIRN_MERGE_TOGETHER, &merge));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_in_a_row_are_averaged),
        cmocka_unit_test(the_first_report_after_a_restart_replaces_the_mean),
        cmocka_unit_test(a_way_not_tried_has_the_geometric_mean),
        cmocka_unit_test(a_corrected_duration_keeps_the_share_of_work_a_second),
        cmocka_unit_test(reports_survive_a_change_of_the_spec),
        cmocka_unit_test(a_slot_forgets_the_job_that_had_it),
        cmocka_unit_test(
            a_job_seen_only_beside_another_is_taken_to_be_slowed_by_a_tenth),
        cmocka_unit_test(durations_of_a_user_refer_to_the_types_of_the_job),
        cmocka_unit_test(a_mix_that_one_type_could_not_hold_is_learned_live),
        cmocka_unit_test(memory_is_never_below_what_the_trainer_reports),
        cmocka_unit_test(more_passes_halve_the_memory_that_goes_with_the_batch),
        cmocka_unit_test(the_longer_of_two_merged_jobs_goes_on_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
