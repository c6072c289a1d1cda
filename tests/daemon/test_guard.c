/* test_guard.c - sharings and resizes that turn out worse are undone, once.
 *
 * Rates are those the test reports: of 100 steps, D / 100 / step_s for a job
 * whose duration is D.
 */
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SHARER "gpus: 1\nmemory: 4\nshare: allowed\ncheckpoint: {grace: 10}\n"

static double undone(struct loopscene *s, int kind)
{
    return metrics_get(s->loop->metrics, METRIC_UNDONE, kind);
}

/* Rate 1 alone for `a`; then `b` joins it. */
static void share(struct loopscene *s, const char *policy)
{
    loopscene_open(s, "1x1:v100@16", policy, false);
    loopscene_submit(s, "a", SHARER "app: left\nduration: 10000s");
    loopscene_turn(s);
    loopscene_report(s, "a", 0.1, 100, 4096);
    loopscene_submit(s, "b", SHARER "app: right\nduration: 1000s");
    loopscene_turn(s);
    assert_string_equal(loopscene_text(s),
                        "a running n0[0]~; b running n0[0]~");
}

static void a_bad_share_is_undone_once_and_not_repeated(void **unused)
{
    (void)unused;
    struct loopscene s;
    share(&s, "sjf-bsbf");
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(loopscene_job(&s, "b")->state, LIVE_RUNNING);
        loopscene_pass(&s, 10);
        loopscene_report(&s, "a", 0.1 + 0.01 * i, 400, 4096); /* rate 1/4 */
    }
    loopscene_pass(&s, 10);
    assert_string_equal(loopscene_text(&s),
                        "a running n0[0]~; b preempting n0[0]~");
    assert_non_null(strstr(loopscene_job(&s, "b")->why, "slow each other"));
    loopscene_leave(&s, "b");
    assert_true(undone(&s, METRIC_UNDO_SHARE) == 1);
    for (int i = 1; i <= 5; i++) {
        loopscene_pass(&s, 60);
        loopscene_report(&s, "a", 0.2 + 0.01 * i, 100, 4096);
    }
    assert_string_equal(loopscene_text(&s), "a running n0[0]~; b pending -");
    assert_true(undone(&s, METRIC_UNDO_SHARE) == 1);
    loopscene_submit(&s, "c", SHARER "app: right\nduration: 10s");
    loopscene_pass(&s, 60); /* of the same application: not tried either */
    assert_int_equal(loopscene_job(&s, "c")->state, LIVE_PENDING);
    loopscene_close(&s);
}

static double busy; /* share of the time that GPUs compute; 0: not known */

static bool load(void *state, firn_job_id id, struct firn_load *out)
{
    (void)state;
    (void)id;
    if (busy > 0)
        *out = (struct firn_load){.util = busy, .mem_gib = 2};
    return busy > 0;
}

/* How busy jobs keep a GPU comes from the engine alone. */
static const char *pair_when(double seen)
{
    static char text[100];
    struct loopscene s;
    const char *job = "gpus: 1\nshare: allowed\napp: x\nduration: 1000s\n"
                      "checkpoint: {grace: 10}";
    busy = seen;
    loopscene_play.load = load;
    loopscene_open(&s, "1x1:v100@16", "icefrog", false);
    loopscene_submit(&s, "a", job);
    loopscene_turn(&s);
    for (int i = 1; i <= 3; i++) {
        loopscene_pass(&s, 10);
        loopscene_report(&s, "a", 0.01 * i, 10, -1);
    }
    loopscene_done(&s, "a");
    loopscene_submit(&s, "b", job);
    loopscene_submit(&s, "c", job);
    loopscene_pass(&s, 400); /* the GPUs are divided anew */
    snprintf(text, sizeof text, "%s", loopscene_text(&s));
    loopscene_close(&s);
    loopscene_remove_state();
    return text;
}

static void jobs_share_where_the_engine_sees_room_for_both(void **unused)
{
    (void)unused;
    static const char both[] = "a succeeded -; b running n0[0]~; "
                               "c running n0[0]~";
    assert_string_equal(pair_when(0.45), both);
    assert_string_not_equal(pair_when(0.55), both);
    assert_string_not_equal(pair_when(0), both); /* not known */
}

static void bad_pairs_are_remembered_over_a_restart(void **unused)
{
    (void)unused;
    struct loopscene s;
    share(&s, "sjf-bsbf");
    for (int i = 1; i <= 3; i++)
        loopscene_report(&s, "a", 0.1 + 0.01 * i, 400, 4096);
    loopscene_pass(&s, 10);
    loopscene_leave(&s, "b");
    loopscene_close(&s);
    loopscene_open(&s, "1x1:v100@16", "sjf-bsbf", true);
    loopscene_pass(&s, 60);
    loopscene_report(&s, "a", 0.3, 100, 4096);
    loopscene_pass(&s, 60);
    assert_string_equal(loopscene_text(&s), "a running n0[0]~; b pending -");
    loopscene_close(&s);
}

/* 1/2.1 + 1/2 = 0.98 of one after the other, and 1/2.4 + 1/2.4 = 0.83. */
static void a_pair_is_parted_if_it_does_clearly_less(void **unused)
{
    static const struct {
        const char *known;
        double ms;
        const char *after;
    } cases[] = {
        {"right\tleft\t2\t40\n", 210, "a running n0[0]~; b running n0[0]~"},
        {"right\tleft\t2.4\t40\n", 240,
         "a running n0[0]~; b preempting n0[0]~"}};
    (void)unused;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct loopscene s;
        share(&s, "sjf-ffs");
        liveforecast_load_slowdowns(s.loop->desk.forecast, cases[k].known);
        for (int i = 1; i <= 4; i++) {
            loopscene_pass(&s, 10);
            loopscene_report(&s, "a", 0.1 + 0.01 * i, cases[k].ms, 4096);
        }
        loopscene_pass(&s, 10);
        assert_string_equal(loopscene_text(&s), cases[k].after);
        loopscene_close(&s);
        loopscene_remove_state();
    }
}

static void a_good_share_stays(void **unused)
{
    (void)unused;
    struct loopscene s;
    share(&s, "sjf-bsbf");
    for (int i = 1; i <= 8; i++) {
        loopscene_report(&s, "a", 0.1 + 0.01 * i, i % 2 ? 150 : 130, 4096);
        loopscene_pass(&s, 10);
    }
    assert_string_equal(loopscene_text(&s),
                        "a running n0[0]~; b running n0[0]~");
    assert_true(undone(&s, METRIC_UNDO_SHARE) == 0);
    loopscene_close(&s);
}

static void one_slow_report_parts_no_pair(void **unused)
{
    (void)unused;
    struct loopscene s;
    share(&s, "sjf-bsbf");
    loopscene_report(&s, "a", 0.11, 130, 4096);
    loopscene_report(&s, "a", 0.12, 350, 4096);
    for (int i = 0; i < 4; i++)
        loopscene_report(&s, "a", 0.13 + 0.01 * i, 130, 4096);
    assert_string_equal(loopscene_text(&s),
                        "a running n0[0]~; b running n0[0]~");
    loopscene_close(&s);
}

/* It asks for no forecast before it shares, so a second mistake is its last. */
static void a_policy_that_does_not_listen_is_made_to(void **unused)
{
    (void)unused;
    struct loopscene s;
    int away = 0;
    share(&s, "sjf-ffs");
    for (int i = 1; i <= 20; i++) {
        bool both = loopscene_job(&s, "b")->state == LIVE_RUNNING;
        loopscene_report(&s, "a", 0.1 + 0.01 * i, both ? 400 : 100, 4096);
        loopscene_pass(&s, 10);
        if (loopscene_job(&s, "b")->state == LIVE_PREEMPTING) {
            loopscene_leave(&s, "b");
            away++;
        }
    }
    assert_in_range(away, 1, 2);
    assert_int_equal(loopscene_job(&s, "b")->state, LIVE_PENDING);
    loopscene_close(&s);
}

/* Slowed twice, which is nothing to the guard and too much for it. */
static void icefrog_parts_a_bad_pair_by_itself(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    share(&s, "sjf-bsbf");
    struct live_job *a = loopscene_job(&s, "a"), *b = loopscene_job(&s, "b");
    liveforecast_load_seen(s.loop->desk.forecast, a->id, 4096, 0.3);
    liveforecast_load_seen(s.loop->desk.forecast, b->id, 4096, 0.3);
    assert_int_equal(
        loop_new_round(s.loop, firn_policy_find("icefrog", &err), &err),
        FIRN_OK);
    int away = 0;
    for (int i = 1; i <= 30; i++) {
        bool both = a->state == LIVE_RUNNING && b->state == LIVE_RUNNING;
        if (a->state == LIVE_RUNNING)
            loopscene_report(&s, "a", 0.1 + 0.01 * i, both ? 200 : 100, 4096);
        loopscene_pass(&s, 70);
        assert_true(a->state == LIVE_RUNNING || b->state == LIVE_RUNNING);
        if (a->state == LIVE_PREEMPTING || b->state == LIVE_PREEMPTING) {
            loopscene_leave(&s, a->state == LIVE_PREEMPTING ? "a" : "b");
            away++;
        }
        assert_true(away == 0 || a->state != b->state); /* not again */
    }
    assert_true(away >= 1);
    assert_true(undone(&s, METRIC_UNDO_SHARE) == 1);
    loopscene_close(&s);
}

/* Rate 1 on one GPU, which is all there is until the third report; `worse` on
 * more. Where it is after `n` reports. */
static int sizes(struct loopscene *s, const char *policy, double worse, int n,
                 int *resizes)
{
    loopscene_open(s, "1x4:v100@16", policy, false);
    loopscene_submit(s, "x", "gpus: 3\nduration: 1000s");
    loopscene_turn(s);
    struct live_job *a = loopscene_submit(
        s, "a",
        "gpus: 1..4\nelastic: {threads: 4}\nduration: 10000s\napp: odd\n"
        "checkpoint: {grace: 10}");
    *resizes = 0;
    for (int i = 1; i <= n; i++) {
        loopscene_pass(s, 70);
        if (a->state == LIVE_RESIZING) {
            loopscene_leave(s, "a");
            ++*resizes;
        }
        if (a->state != LIVE_RUNNING)
            fail_msg("%s %s: %s", policy, loopscene_text(s), a->why);
        const struct firn_job *job =
            desk_job(&s->loop->desk, desk_track(&s->loop->desk, a->id));
        assert_true(i > 3 || job->held.ngpus == 1);
        loopscene_report(s, "a", 0.01 * i,
                         job->held.ngpus == 1 ? 100 : 100 / worse, 1024);
        if (i == 3)
            loopscene_done(s, "x");
    }
    const struct firn_job *job =
        desk_job(&s->loop->desk, desk_track(&s->loop->desk, a->id));
    return job->held.ngpus;
}

static void a_bad_resize_goes_back_and_stays(void **unused)
{
    (void)unused;
    static const char *const policies[] = {"pollux", "icefrog", "easyscale",
                                           "firn", "sia"};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct loopscene s;
        int resizes;
        int gpus = sizes(&s, policies[i], 0.5, 40, &resizes);
        assert_int_equal(gpus, 1);
        assert_in_range(resizes, 2, 6);
        assert_true(undone(&s, METRIC_UNDO_RESIZE) >= 1);
        loopscene_remove(NULL);
        loopscene_close(&s);
        folder_make(NULL);
    }
}

static void a_good_resize_stays(void **unused)
{
    (void)unused;
    struct loopscene s;
    int resizes;
    assert_true(sizes(&s, "pollux", 3, 20, &resizes) > 1);
    assert_true(undone(&s, METRIC_UNDO_RESIZE) == 0);
    loopscene_close(&s);
}

static void ends_are_held_against_what_was_told(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    loopscene_submit(&s, "a", SHARER "duration: 10000s");
    loopscene_turn(&s);
    loopscene_report(&s, "a", 0.5, 1, 4096); /* 50 s left */
    loopscene_pass(&s, 100);
    assert_true(metrics_get(s.loop->metrics, METRIC_ETA_ERROR, 0) == 0);
    loopscene_done(&s, "a");
    assert_true(metrics_get(s.loop->metrics, METRIC_ETA_ERROR, 0) == 1);
    assert_true(metrics_get(s.loop->metrics, METRIC_RATE_ERROR, 0) == 1);
    loopscene_close(&s);
}

/* What it says before it has left is about the GPUs that it had. */
static void more_gpus_are_not_judged_by_a_start_that_leaves(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x2:v100@16", "easyscale", false);
    loopscene_submit(&s, "b", "gpus: 1\nduration: 1000s");
    loopscene_submit(&s, "a",
                     "gpus: 1..2\nelastic: {threads: 2}\n"
                     "checkpoint: {grace: 10}\nduration: 10000s");
    loopscene_turn(&s);
    loopscene_report(&s, "a", 0.1, 100, 4096);
    loopscene_done(&s, "b");
    loopscene_pass(&s, 600);
    assert_int_equal(loopscene_job(&s, "a")->state, LIVE_RESIZING);
    loopscene_report(&s, "a", 0.11, 100, 4096);
    loopscene_pass(&s, 600); /* a round, in which it is judged */
    loopscene_leave(&s, "a");
    assert_string_equal(loopscene_text(&s), "b succeeded -; a running n0[0-1]");
    loopscene_report(&s, "a", 0.12, 150, 4096); /* but now it is slower */
    loopscene_pass(&s, 600);
    loopscene_leave(&s, "a");
    assert_string_equal(loopscene_text(&s), "b succeeded -; a running n0[0]");
    loopscene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_bad_share_is_undone_once_and_not_repeated),
        CASE(jobs_share_where_the_engine_sees_room_for_both),
        CASE(bad_pairs_are_remembered_over_a_restart),
        CASE(a_pair_is_parted_if_it_does_clearly_less),
        CASE(a_good_share_stays),
        CASE(one_slow_report_parts_no_pair),
        CASE(a_policy_that_does_not_listen_is_made_to),
        CASE(icefrog_parts_a_bad_pair_by_itself),
        CASE(a_bad_resize_goes_back_and_stays),
        CASE(a_good_resize_stays),
        CASE(ends_are_held_against_what_was_told),
        CASE(more_gpus_are_not_judged_by_a_start_that_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
