/* test_roster.c - the jobs that a live engine keeps: order, turns, GPUs, and
 * the events it owes. No process is started. */
#include "engine/roster.h"
#include "lib/alloc_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <poll.h>

/* An engine's job is longer than its base. */
struct longjob {
    struct rosterjob base;
    int more[4];
};

static struct roster roster;
static struct arena text;
static bool is_others;

static struct rosterjob *add(firn_job_id id, const char *gpus)
{
    struct rosterjob *job = roster_add(&roster, id, sizeof(struct longjob));
    struct firn_alloc want = alloc_read(gpus, &text);
    assert_false(roster_move(&roster, job, &want));
    return job;
}

static bool is_taken(const void *engine, const struct firn_alloc *gpus)
{
    (void)gpus;
    return *(const bool *)engine;
}

/* Starts the next job: it holds what it wants. -1: none. */
static firn_job_id start(void)
{
    const struct roster_limits limits = {2, is_taken, &is_others};
    struct rosterjob *job = roster_next_to_start(&roster, &limits);
    if (job == NULL)
        return -1;
    job->held = job->want; /* the want is not used after it */
    job->want = (struct firn_alloc)FIRN_ALLOC_NONE;
    job->phase = FIRN_PHASE_RUNNING;
    return job->id;
}

static void turn(void *engine)
{
    ++*(int *)engine;
    roster_wake_drain(&roster);
}

/* The second turn has something to tell. */
static void turn_twice(void *engine)
{
    turn(engine);
    if (*(int *)engine == 2)
        roster_report(&roster, (struct firn_event){.kind = FIRN_EVENT_NODE_UP});
}

static void arm(void *engine)
{
    (void)engine;
    roster_wake_arm(&roster, roster_now_s(&roster), (double)INFINITY);
}

static void arm_soon(void *engine)
{
    (void)engine;
    double now_s = roster_now_s(&roster);
    roster_wake_arm(&roster, now_s, now_s + 0.01);
}

/* --- cases ---------------------------------------------------------------- */

static void jobs_are_sorted_by_id(void **state)
{
    (void)state;
    add(5, "n0[0]");
    add(2, "n0[0]");
    struct rosterjob *nine = add(9, "n0[0]");
    assert_int_equal(((struct longjob *)nine)->more[3], 0);
    assert_ptr_equal(roster_add(&roster, 9, sizeof(struct longjob)), nine);
    assert_int_equal(roster.jobs.n, 3);
    for (size_t i = 1; i < 3; i++)
        assert_true(roster.jobs.at[i - 1]->id < roster.jobs.at[i]->id);
    roster_drop(&roster, roster_find(&roster, 5));
    assert_null(roster_find(&roster, 5));
    assert_non_null(roster_find(&roster, 2));
    assert_ptr_equal(roster.jobs.at[1], nine);
}

static void
jobs_start_in_the_order_of_steps_among_those_with_free_gpus(void **state)
{
    (void)state;
    add(3, "n0[0-1]");
    add(1, "n0[1-2]"); /* waits for 3 */
    add(2, "n0[3]");
    assert_int_equal(start(), 3);
    assert_int_equal(start(), 2);
    assert_int_equal(start(), -1);
    mem_free(roster_find(&roster, 3)->held.parts);
    roster_find(&roster, 3)->held = (struct firn_alloc)FIRN_ALLOC_NONE;
    assert_int_equal(start(), 1);
}

static void a_gpu_takes_sharing_jobs_up_to_its_limit(void **state)
{
    (void)state;
    for (firn_job_id id = 0; id < 3; id++)
        add(id, "n0[0]~");
    add(3, "n0[0]");
    is_others = true;
    assert_int_equal(start(), -1);
    is_others = false;
    assert_int_equal(start(), 0);
    assert_int_equal(start(), 1);
    assert_int_equal(start(), -1);
    struct firn_alloc first = alloc_read("n0[0]", &text);
    struct firn_alloc second = alloc_read("n0[1]", &text);
    assert_true(roster_is_held(&roster, first.parts, 1));
    assert_false(roster_is_held(&roster, second.parts, 2));
}

static void each_failed_start_doubles_the_wait(void **state)
{
    (void)state;
    struct rosterjob *job = add(0, "n0[0]");
    double wait_s = 0.125;
    for (int i = 0; i < 12; i++) {
        double before_s = roster_now_s(&roster);
        roster_retry(&roster, job, "a test");
        assert_true(job->again_s >= before_s + wait_s);
        assert_true(job->again_s <= roster_now_s(&roster) + wait_s);
        wait_s = wait_s < 60 ? 2 * wait_s : wait_s;
    }
    assert_int_equal(start(), -1);
    assert_true(roster_due_s(job, 0) == job->again_s);
    job->began_s = roster_now_s(&roster) - 31; /* it lived */
    roster_requeue(&roster, job, false);
    assert_int_equal(job->ntries, 0);
    assert_true(isinf(roster_due_s(job, 0)));
    job->began_s = roster_now_s(&roster) - 1;
    roster_requeue(&roster, job, false);
    assert_int_equal(job->ntries, 1);
    roster_requeue(&roster, job, true);
    assert_int_equal(start(), 0);
}

static void a_move_asks_to_leave_unless_it_is_the_same_run(void **state)
{
    (void)state;
    struct rosterjob *job = add(0, "n0[0-1]");
    struct firn_alloc same = alloc_read("n0[0-1]", &text);
    struct firn_alloc other = alloc_read("n0[2]", &text);
    assert_int_equal(start(), 0);
    assert_false(roster_move(&roster, job, &same));
    assert_true(roster_move(&roster, job, &other));
    job->phase = FIRN_PHASE_LEAVING;
    assert_false(roster_move(&roster, job, &other));
    assert_true(
        roster_unwant(&roster, job, FIRN_EVENT_LEFT, FIRN_END_CHECKPOINT));
    assert_false(roster_has_events(&roster));
    job = add(1, "n0[3]");
    assert_false(roster_unwant(&roster, job, FIRN_EVENT_FAIL, FIRN_END_KILLED));
    assert_true(roster_has_events(&roster));
}

static void pending_events_are_returned_first_and_wake_the_engine(void **state)
{
    (void)state;
    int nturns = 0;
    const struct roster_work work = {turn, arm, &nturns};
    struct pollfd fd = {.fd = roster.poll, .events = POLLIN};
    struct firn_event event;
    struct rosterjob *job = add(4, "n0[0]");
    arm(NULL);
    assert_int_equal(poll(&fd, 1, 0), 0);
    roster_phase(&roster, job, FIRN_PHASE_STARTING);
    roster_phase(&roster, job, FIRN_PHASE_STARTING); /* no news */
    roster_report_end(&roster, job, FIRN_EVENT_FAIL, FIRN_END_LOST);
    arm(NULL);
    assert_int_equal(poll(&fd, 1, 1000), 1);
    assert_true(roster_next(&roster, &work, 0, &event));
    assert_int_equal(event.kind, FIRN_EVENT_PHASE);
    assert_int_equal(event.phase, FIRN_PHASE_STARTING);
    assert_true(roster_next(&roster, &work, 0, &event));
    assert_int_equal(event.kind, FIRN_EVENT_FAIL);
    assert_int_equal(event.end, FIRN_END_LOST);
    assert_int_equal(event.job, 4);
    assert_int_equal(nturns, 0);
    double until_s = roster_now_s(&roster) + 0.03;
    assert_false(roster_next(&roster, &work, until_s, &event));
    assert_true(roster_now_s(&roster) >= until_s);
    assert_int_equal(poll(&fd, 1, 0), 0);
    assert_true(nturns >= 1);
}

static void next_does_what_is_due_while_it_waits(void **state)
{
    (void)state;
    int nturns = 0;
    const struct roster_work work = {turn_twice, arm_soon, &nturns};
    struct firn_event event;
    double until_s = roster_now_s(&roster) + 60;
    add(4, "n0[0]");
    assert_true(roster_next(&roster, &work, until_s, &event));
    assert_int_equal(event.kind, FIRN_EVENT_NODE_UP);
    assert_int_equal(nturns, 2);
}

static int set_up(void **state)
{
    struct firn_error err;
    (void)state;
    is_others = false;
    roster = (struct roster){0};
    roster_open(&roster);
    return roster_wake_open(&roster, -1, "nothing", &err) != FIRN_OK;
}

static int tear_down(void **state)
{
    (void)state;
    while (roster.jobs.n > 0) {
        mem_free(roster.jobs.at[roster.jobs.n - 1]->held.parts);
        roster_drop(&roster, roster.jobs.at[roster.jobs.n - 1]);
    }
    roster_close(&roster);
    arena_release(&text);
    return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(jobs_are_sorted_by_id),
        CASE(jobs_start_in_the_order_of_steps_among_those_with_free_gpus),
        CASE(a_gpu_takes_sharing_jobs_up_to_its_limit),
        CASE(each_failed_start_doubles_the_wait),
        CASE(a_move_asks_to_leave_unless_it_is_the_same_run),
        CASE(pending_events_are_returned_first_and_wake_the_engine),
        CASE(next_does_what_is_due_while_it_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
