/* test_attempts.c - attempts have an end, whatever ended them; and what is told
 * of them: how long a job had GPUs, and whether its work was kept.
 */
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOFT "gpus: 1\ncheckpoint: {grace: 10}\n"

static bool add_row(void *arg, const struct store_attempt *row)
{
    struct firn_buf *out = arg;
    buf_printf(out, "%s%lld %d %s", out->n > 0 ? "; " : "",
               (long long)row->number, row->end,
               row->end < 0                     ? "open"
               : row->ended_s >= row->started_s ? "closed"
                                                : "ends before it starts");
    return true;
}

/* "1 1 closed; 2 -1 open": attempts, with their ends. */
static const char *rows(struct loopscene *s, const char *name)
{
    static char out[256];
    struct firn_buf text = {0};
    struct firn_error err = {0};
    assert_int_equal(store_each_attempt(s->loop->store,
                                        loopscene_job(s, name)->id, add_row,
                                        &text, &err),
                     FIRN_OK);
    snprintf(out, sizeof out, "%s", text.n > 0 ? text.at : "");
    buf_release(&text);
    return out;
}

static double ran_s(struct loopscene *s, const char *name)
{
    return book_ran_s(s->loop->book, loopscene_job(s, name),
                      dock_now_s(&s->loop->dock));
}

static void an_attempt_that_a_resize_ended_has_an_end(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open(&s, "1x4:v100@16", "pollux", false);
    struct live_job *job =
        loopscene_submit(&s, "a", "gpus: 1..2\nelastic: {threads: 4}");
    loopscene_turn(&s);
    loopscene_pass(&s, 100);
    book_bounds(s.loop->book, job, 4, 4, 1, &err);
    loop_changed(s.loop, job);
    loopscene_pass(&s, 100);
    loopscene_leave(&s, "a");
    assert_int_equal(job->attempt, 2);
    assert_string_equal(rows(&s, "a"), "1 1 closed; 2 -1 open");
    loopscene_pass(&s, 50);
    assert_true(fabs(ran_s(&s, "a") - 250) < 10);
    loopscene_done(&s, "a");
    assert_string_equal(rows(&s, "a"), "1 1 closed; 2 0 closed");
    loopscene_close(&s);
}

static void both_jobs_of_a_resized_pair_have_their_attempts_closed(void **u)
{
    (void)u;
    struct loopscene s;
    loopscene_open_pair(&s);
    struct live_job *b = loopscene_job(&s, "b");
    loopscene_pass(&s, 10);
    loopscene_hold(&s, b, true);
    loopscene_turn(&s);
    loopscene_leave(&s, "a");
    loopscene_pass(&s, 10);
    assert_null(strstr(rows(&s, "b"), "open"));
    assert_null(strstr(strstr(rows(&s, "a"), "1 "), "1 -1 open"));
    loopscene_close(&s);
}

/* Killed when the next attempt was on disk and the end of the one before was
 * not. */
static void an_attempt_without_an_end_gets_one_at_the_next_start(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    loopscene_submit(&s, "a", SOFT);
    loopscene_turn(&s);
    loopscene_pass(&s, 100);
    loopscene_fail(&s, "a", FIRN_END_LOST, 0);
    loopscene_submit(&s, "b", SOFT "retry: {max: 3}");
    loopscene_turn(&s);
    struct live_job *b = loopscene_job(&s, "b");
    double started_s = dock_now_s(&s.loop->dock);
    loopscene_pass(&s, 100);
    loopscene_fail(&s, "b", FIRN_END_FAILED, 1);
    loopscene_pass(&s, 100);
    assert_int_equal(b->attempt, 2);
    struct store_attempt open = {.job = b->id,
                                 .number = 1,
                                 .started_s = started_s,
                                 .end = -1,
                                 .held = "n0[0]"};
    struct store_attempt over = open;
    over.job = loopscene_job(&s, "a")->id;
    store_put_attempt(s.loop->store, &open, &err);
    store_put_attempt(s.loop->store, &over, &err);
    assert_int_equal(store_commit(s.loop->store, &err), FIRN_OK);
    assert_string_equal(rows(&s, "a"), "1 -1 open");
    assert_string_equal(rows(&s, "b"), "1 -1 open; 2 -1 open");
    loopscene_kill(&s);
    loopscene_open(&s, "1x1:v100@16", "fifo", true);
    assert_string_equal(rows(&s, "a"), "1 5 closed"); /* a job that is over */
    assert_string_equal(rows(&s, "b"), "1 5 closed; 2 -1 open");
    assert_true(ran_s(&s, "b") < 350);
    loopscene_close(&s);
}

static void a_finished_job_has_no_open_attempt(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open(&s, "1x2:v100@16", "fifo", false);
    struct live_job *a = loopscene_submit(&s, "a", SOFT);
    struct live_job *b = loopscene_submit(&s, "b", "gpus: 1");
    loopscene_turn(&s);
    loopscene_pass(&s, 100);
    book_state(s.loop->book, a, LIVE_LOST, LIVE_BECAUSE_VANISHED,
               dock_now_s(&s.loop->dock), "gone", &err);
    loopscene_cancel(&s, b);
    loopscene_turn(&s);
    loopscene_leave(&s, "b");
    assert_string_equal(rows(&s, "a"), "1 5 closed");
    assert_string_equal(rows(&s, "b"), "1 3 closed");
    double had_s = ran_s(&s, "a");
    loopscene_pass(&s, 1000);
    assert_true(ran_s(&s, "a") == had_s && fabs(had_s - 100) < 10);
    loopscene_close(&s);
}

/* --- what is told -------------------------------------------------------- */

/* A job of these lines runs, and is stopped for `b`, which is shorter. */
static void stop_it(struct loopscene *s, const char *lines)
{
    loopscene_open(s, "1x1:v100@16", "srtf", false);
    loopscene_submit(s, "a", lines);
    loopscene_turn(s);
    loopscene_pass(s, 2000);
    loopscene_submit(s, "b", SOFT "duration: 10s");
    loopscene_turn(s);
    assert_int_equal(loopscene_job(s, "a")->state, LIVE_PREEMPTING);
}

static void a_stopped_job_says_whether_its_work_was_kept(void **unused)
{
    (void)unused;
    struct loopscene s;
    stop_it(&s, SOFT "duration: 1h");
    loopscene_leave(&s, "a");
    assert_string_equal(loopscene_job(&s, "a")->why,
                        "stopped by a checkpoint; waits for GPUs");
    loopscene_close(&s);
    loopscene_remove_state();
    stop_it(&s, "gpus: 1\nrestart: allowed\nduration: 1h");
    loopscene_leave_as(&s, "a", FIRN_END_KILLED, 143);
    assert_string_equal(loopscene_job(&s, "a")->why,
                        "stopped; it writes no checkpoints, and the work of "
                        "attempt 1 (33 min) is lost; waits for GPUs");
    loopscene_close(&s);
    loopscene_remove_state();
    stop_it(&s, SOFT "duration: 1h");
    loopscene_leave_as(&s, "a", FIRN_END_KILLED, 137);
    assert_non_null(
        strstr(loopscene_job(&s, "a")->why, "no checkpoint was written then"));
    loopscene_close(&s);
}

static void the_time_of_a_job_that_waits_does_not_grow(void **unused)
{
    (void)unused;
    struct loopscene s;
    stop_it(&s, SOFT "duration: 1h");
    loopscene_leave(&s, "a");
    double had_s = ran_s(&s, "a");
    assert_true(fabs(had_s - 2000) < 10);
    loopscene_pass(&s, 1000);
    assert_int_equal(loopscene_job(&s, "a")->state, LIVE_PENDING);
    assert_true(ran_s(&s, "a") == had_s);
    loopscene_done(&s, "b");
    loopscene_pass(&s, 500);
    assert_true(fabs(ran_s(&s, "a") - had_s - 500) < 10);
    loopscene_kill(&s);
    loopscene_open(&s, "1x1:v100@16", "srtf", true);
    assert_true(fabs(ran_s(&s, "a") - had_s - 500) < 10);
    loopscene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_attempt_that_a_resize_ended_has_an_end),
        CASE(both_jobs_of_a_resized_pair_have_their_attempts_closed),
        CASE(an_attempt_without_an_end_gets_one_at_the_next_start),
        CASE(a_finished_job_has_no_open_attempt),
        CASE(a_stopped_job_says_whether_its_work_was_kept),
        CASE(the_time_of_a_job_that_waits_does_not_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
