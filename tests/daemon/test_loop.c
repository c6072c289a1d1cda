/* test_loop.c - jobs through the loop, over an engine that the test plays.
 */
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#define SOFT "gpus: 1\ncheckpoint: {grace: 10}"

static void a_job_starts_runs_and_ends(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x2:v100@16", "fifo", false);
    struct live_job *job = loopscene_submit(&s, "a", "gpus: 2");
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s), "a running n0[0-1]");
    assert_int_equal(job->attempt, 1);
    assert_true(job->started_s > 0);
    loopscene_done(&s, "a");
    assert_string_equal(loopscene_text(&s), "a succeeded -");
    assert_int_equal(round_view(s.loop->desk.round, 0).gpus_free, 2);
    loopscene_close(&s);
}

static void gpus_are_given_once_and_the_next_waits(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x2:v100@16", "fifo", false);
    loopscene_submit(&s, "a", "gpus: 2");
    loopscene_submit(&s, "b", "gpus: 1");
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s), "a running n0[0-1]; b pending -");
    assert_int_equal(loopscene_attempts(), 1);
    loopscene_done(&s, "a");
    assert_string_equal(loopscene_text(&s), "a succeeded -; b running n0[0]");
    loopscene_close(&s);
}

static void
a_waiting_job_is_cancelled_at_once_a_running_one_when_gone(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    struct live_job *a = loopscene_submit(&s, "a", SOFT);
    struct live_job *b = loopscene_submit(&s, "b", SOFT);
    loopscene_turn(&s);
    loopscene_cancel(&s, b);
    assert_int_equal(b->state, LIVE_CANCELLED);
    loopscene_cancel(&s, a);
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s),
                        "a completing n0[0]; b cancelled -");
    loopscene_leave(&s, "a");
    assert_string_equal(loopscene_text(&s), "a cancelled -; b cancelled -");
    loopscene_close(&s);
}

static void
a_held_job_leaves_its_gpus_and_comes_back_when_released(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    struct live_job *job = loopscene_submit(&s, "a", SOFT);
    loopscene_turn(&s);
    loopscene_hold(&s, job, true);
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s), "a preempting n0[0]");
    loopscene_hold(&s, job, false); /* before it has left */
    loopscene_turn(&s);
    assert_int_equal(loopscene_attempts(), 1);
    loopscene_leave(&s, "a");
    assert_string_equal(loopscene_text(&s), "a running n0[0]");
    assert_int_equal(job->attempt, 2);
    loopscene_close(&s);
}

static void gpus_of_who_is_made_to_leave_are_nobodys_until_then(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open(&s, "1x2:v100@16", "fifo", false);
    struct live_job *a = loopscene_submit(&s, "a", SOFT);
    loopscene_turn(&s);
    loopscene_cancel(&s, a); /* and takes its time */
    loopscene_submit(&s, "b", SOFT);
    struct live_job *c = loopscene_submit(&s, "c", SOFT);
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s),
                        "a completing n0[0]; b running n0[1]; c pending -");
    assert_int_equal(c->attempt, 0);
    assert_int_equal(
        loop_new_round(s.loop, firn_policy_find("tiresias", &err), &err),
        FIRN_OK);
    loopscene_leave(&s, "a");
    assert_string_equal(loopscene_text(&s),
                        "a cancelled -; b running n0[1]; c running n0[0]");
    loopscene_hold(&s, c, true);
    loopscene_submit(&s, "d", SOFT);
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s),
                        "a cancelled -; b running n0[1]; c preempting n0[0]; "
                        "d pending -");
    loopscene_leave(&s, "c");
    assert_string_equal(
        loopscene_text(&s),
        "a cancelled -; b running n0[1]; c pending -; d running n0[0]");
    loopscene_close(&s);
}

static void what_cannot_be_stopped_is_pinned(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open(&s, "2x1:v100@16", "tiresias", false);
    struct live_job *rigid = loopscene_submit(&s, "rigid", "gpus: 1");
    loopscene_turn(&s);
    const struct track *track = desk_track(&s.loop->desk, rigid->id);
    assert_true(track->is_pinned);
    assert_int_equal(track->round_id, FIRN_NO_JOB);
    assert_int_equal(round_view(s.loop->desk.round, 0).gpus_up, 1);
    loopscene_hold(&s, rigid, true);
    assert_int_equal(loop_drain(s.loop, 0, true, &err), FIRN_OK);
    loopscene_turn(&s);
    assert_int_equal(rigid->state, LIVE_RUNNING);
    loopscene_done(&s, "rigid");
    assert_int_equal(loop_drain(s.loop, 0, false, &err), FIRN_OK);
    assert_int_equal(round_view(s.loop->desk.round, 0).gpus_up, 2);
    loopscene_close(&s);
}

static void a_drained_node_is_left_and_not_used(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open(&s, "2x1:v100@16", "fifo", false);
    loopscene_submit(&s, "a", SOFT);
    loopscene_turn(&s);
    assert_int_equal(loop_drain(s.loop, 0, true, &err), FIRN_OK);
    loopscene_turn(&s);
    loopscene_leave(&s, "a");
    assert_string_equal(loopscene_text(&s), "a running n1[0]");
    loopscene_kill(&s);
    loopscene_open(&s, "2x1:v100@16", "fifo", true); /* and remembered */
    assert_true(s.loop->dock.is_drained[0]);
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s), "a running n1[0]");
    assert_int_equal(loop_drain(s.loop, 7, true, &err), FIRN_ENOENT);
    loopscene_close(&s);
}

static void failures_are_tried_again_as_often_as_the_job_says(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    struct live_job *job =
        loopscene_submit(&s, "a", "gpus: 1\nretry: {on: [failure], max: 1}");
    loopscene_turn(&s);
    loopscene_fail(&s, "a", FIRN_END_FAILED, 3);
    assert_int_equal(job->reason, LIVE_BECAUSE_RETRY);
    assert_int_equal(loopscene_attempts(), 0); /* not at once */
    loopscene_pass(&s, 5);
    assert_string_equal(loopscene_text(&s), "a running n0[0]");
    loopscene_fail(&s, "a", FIRN_END_FAILED, 128 + 9);
    assert_string_equal(loopscene_text(&s), "a failed -");
    assert_int_equal(job->reason, LIVE_BECAUSE_SIGNAL);
    assert_int_equal(job->exit_status, 128 + 9);
    loopscene_close(&s);
}

static void out_of_memory_is_tried_once_with_more(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:t4@16,1x1:a100@40", "fifo", false);
    struct live_job *job = loopscene_submit(&s, "a", "gpus: 1\nmemory: 10");
    loopscene_turn(&s);
    assert_string_equal(job->held, "n0[0]");
    loopscene_fail(&s, "a", FIRN_END_MEMORY, 1);
    assert_true(job->ask.mem_gib > 16); /* it had 16 to itself */
    loopscene_pass(&s, 5);
    assert_string_equal(job->held, "n1[0]");
    loopscene_fail(&s, "a", FIRN_END_MEMORY, 1);
    assert_int_equal(job->state, LIVE_FAILED);
    assert_int_equal(job->reason, LIVE_BECAUSE_OUT_OF_MEMORY);
    struct live_job *last =
        loopscene_submit(&s, "b", "gpus: 1\ngpu: [a100]\nmemory: 30");
    loopscene_turn(&s);
    loopscene_fail(&s, "b", FIRN_END_MEMORY, 1); /* there is no larger one */
    assert_int_equal(last->state, LIVE_FAILED);
    loopscene_close(&s);
}

static void the_next_try_is_kept_from_gpus_that_are_too_small(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:t4@16,1x1:p100@24,1x1:a100@40", "fifo", false);
    struct live_job *job = loopscene_submit(
        &s, "a", "gpus: 1\ncheckpoint: {grace: 9}\nmemory: 12");
    loopscene_turn(&s);
    assert_string_equal(job->held, "n0[0]");
    loopscene_report(&s, "a", 0.1, 1, 15 * 1024); /* it said 12 */
    loopscene_fail(&s, "a", FIRN_END_MEMORY, 1);
    assert_true(fabs(job->ask.mem_gib - 22.5) < 1e-9); /* half as much again */
    loopscene_pass(&s, 5);
    const struct firn_job *in_round =
        desk_job(&s.loop->desk, desk_track(&s.loop->desk, job->id));
    assert_true(in_round->spec.mem_gib == job->ask.mem_gib);
    assert_int_equal(in_round->type_mask, 6); /* no T4 any more */
    assert_string_equal(job->held, "n1[0]");
    loopscene_close(&s);
}

static void reports_become_rates_and_times_left(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x2:v100@16", "fifo", false);
    struct live_job *job =
        loopscene_submit(&s, "a", "gpus: 2\ncheckpoint: {grace: 10}");
    loopscene_turn(&s);
    /* Half of 100 steps, 2 s each: 100 s are left, whatever was guessed. */
    loopscene_report(&s, "a", 0.5, 2, 4096);
    const struct track *track = desk_track(&s.loop->desk, job->id);
    const struct firn_job *seen = desk_job(&s.loop->desk, track);
    assert_true(fabs(firn_job_left_s(seen, dock_now_s(&s.loop->dock)) - 100) <
                3);
    struct firn_view view =
        round_view(s.loop->desk.round, dock_now_s(&s.loop->dock));
    struct firn_way one = {.gpus = 1}, two = {.gpus = 2};
    assert_true(fabs(firn_view_rate(&view, seen, &two) - seen->rate) < 1e-9);
    assert_true(fabs(firn_view_rate(&view, seen, &one) * 1.8 - seen->rate) <
                1e-9);
    assert_true(firn_view_load(&view, seen, NULL).mem_gib == 4);
    loopscene_close(&s);
}

static void new_bounds_resize_a_job_that_runs(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open(&s, "1x4:v100@16", "pollux", false);
    struct live_job *job =
        loopscene_submit(&s, "a", "gpus: 1..2\nelastic: {threads: 4}");
    loopscene_turn(&s);
    assert_int_equal(job->state, LIVE_RUNNING);
    assert_string_equal(job->held, "n0[0]");
    book_bounds(s.loop->book, job, 4, 4, 1, &err);
    loop_changed(s.loop, job);
    loopscene_pass(&s, 100);
    assert_string_equal(loopscene_text(&s), "a resizing n0[0]");
    loopscene_leave(&s, "a");
    assert_string_equal(loopscene_text(&s), "a running n0[0-3]");
    assert_int_equal(job->attempt, 2);
    loopscene_close(&s);
}

static void bounds_that_are_nowhere_take_a_job_off_its_gpus(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open(&s, "1x2:v100@16", "fifo", false);
    struct live_job *job =
        loopscene_submit(&s, "a", "gpus: 2\nelastic: {threads: 8}");
    loopscene_turn(&s);
    book_bounds(s.loop->book, job, 8, 8, 1, &err);
    loop_changed(s.loop, job);
    loopscene_submit(&s, "b", SOFT);
    loopscene_turn(&s);
    assert_int_equal(job->state, LIVE_PREEMPTING);
    loopscene_leave(&s, "a");
    assert_string_equal(loopscene_text(&s), "a pending -; b running n0[0]");
    assert_int_equal(job->reason, LIVE_BECAUSE_NEVER);
    book_bounds(s.loop->book, job, 1, 1, 1, &err);
    loop_changed(s.loop, job);
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s), "a running n0[1]; b running n0[0]");
    loopscene_close(&s);
}

static void a_job_that_can_never_run_says_so_and_blocks_no_other(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    struct live_job *job = loopscene_submit(&s, "a", "gpus: 9");
    loopscene_submit(&s, "b", "gpus: 1");
    loopscene_turn(&s);
    assert_int_equal(job->reason, LIVE_BECAUSE_NEVER);
    assert_non_null(strstr(job->why, "wants 9 GPUs"));
    assert_string_equal(loopscene_text(&s), "a pending -; b running n0[0]");
    loopscene_close(&s);
}

static void jobs_go_on_under_another_policy(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open(&s, "1x2:v100@16", "fifo", false);
    loopscene_submit(&s, "a", SOFT);
    loopscene_submit(&s, "b", "gpus: 1");
    loopscene_turn(&s);
    assert_int_equal(
        loop_new_round(s.loop, firn_policy_find("tiresias", &err), &err),
        FIRN_OK);
    loopscene_submit(&s, "c", SOFT);
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s),
                        "a running n0[0]; b running n0[1]; c pending -");
    loopscene_done(&s, "b"); /* which was pinned before */
    assert_int_equal(loopscene_job(&s, "c")->state, LIVE_RUNNING);
    loopscene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_job_starts_runs_and_ends),
        CASE(gpus_are_given_once_and_the_next_waits),
        CASE(a_waiting_job_is_cancelled_at_once_a_running_one_when_gone),
        CASE(a_held_job_leaves_its_gpus_and_comes_back_when_released),
        CASE(gpus_of_who_is_made_to_leave_are_nobodys_until_then),
        CASE(what_cannot_be_stopped_is_pinned),
        CASE(a_drained_node_is_left_and_not_used),
        CASE(failures_are_tried_again_as_often_as_the_job_says),
        CASE(out_of_memory_is_tried_once_with_more),
        CASE(the_next_try_is_kept_from_gpus_that_are_too_small),
        CASE(reports_become_rates_and_times_left),
        CASE(new_bounds_resize_a_job_that_runs),
        CASE(bounds_that_are_nowhere_take_a_job_off_its_gpus),
        CASE(a_job_that_can_never_run_says_so_and_blocks_no_other),
        CASE(jobs_go_on_under_another_policy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
