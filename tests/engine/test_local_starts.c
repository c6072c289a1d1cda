/* test_local_starts.c - several starts on one host: one commit for all of their
 * numbers, launches one after the other, and what comes in between.
 */
#define _GNU_SOURCE
#include "engine/herd.h"
#include "engine/localwork.h"
#include "lib/folder.h"
#include "lib/livehost.h"
#include "lib/workers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS = 6 };

static struct livehost host;

static struct local *engine(void)
{
    return host.state;
}

/* Nothing is launched and no attempt is asked to leave before go_on(). */
static void hold_up(void)
{
    engine()->launches.paid_s = engine()->asks.paid_s = INFINITY;
}

static void go_on(void)
{
    engine()->launches.paid_s = engine()->asks.paid_s = 0;
    engine()->has_changes = engine()->is_stale = true;
}

/* Steps of jobs that wait until they are ended, in this order; job i gets GPU
 * i. */
static void say(const int *ids, int n)
{
    for (int i = 0; i < n; i++) {
        char gpu[32];
        snprintf(gpu, sizeof gpu, "n%d[%d]", ids[i] / 4, ids[i] % 4);
        livehost_work(&host, ids[i], "obey", folder_file("ready"));
        livehost_say(&host, ids[i], gpu);
    }
}

static void settle(void)
{
    assert_int_equal(host.engine->settled(host.state, &host.err), FIRN_OK);
}

/* Job 0 has a number and no process. */
static void number_one(void)
{
    hold_up();
    say((const int[]){0}, 1);
    settle();
    livehost_drain(&host);
    assert_int_equal(livehost_attempt(&host, 0), 1);
    assert_int_equal(host.nkept, 1);
    assert_int_equal(livehost_phase(&host, 0), FIRN_PHASE_QUEUED);
}

/* Nothing of the attempt was written, so no process of it can have begun. */
static void never_began(int id, int attempt)
{
    char path[400];
    struct stat st;
    snprintf(path, sizeof path, "%s/epoch-%d", host.jobs[id].folder, attempt);
    assert_int_not_equal(stat(path, &st), 0);
}

/* Waits until this attempt runs; the jobs come in any order. */
static void await_run(int id, int attempt)
{
    char text[40];
    snprintf(text, sizeof text, "RUNNING %d.%d; ", id, attempt);
    while (!livehost_has_seen(&host, text))
        livehost_pass_ms(&host, 5);
}

static void end_all(int n)
{
    for (int i = 0; i < n; i++)
        host.engine->cancel(host.state, i);
    for (int i = 0; i < n; i++)
        while (livehost_phase(&host, i) != FIRN_PHASE_GONE)
            livehost_pass_ms(&host, 5);
}

/* --- numbers and order ---------------------------------------------------- */

static void
jobs_that_start_together_have_one_commit_for_their_numbers(void **state)
{
    (void)state;
    static const int ids[] = {0, 1, 2, 3, 4, 5};
    say(ids, JOBS);
    settle();
    for (int i = 0; i < JOBS; i++)
        await_run(i, 1);
    assert_int_equal(host.nkept, 1);
    end_all(JOBS);
}

static void jobs_are_launched_in_the_order_of_their_steps(void **state)
{
    (void)state;
    static const int ids[] = {3, 5, 0, 4, 1, 2};
    hold_up();
    say(ids, JOBS);
    settle();
    livehost_drain(&host);
    assert_string_equal(host.seen, "");
    go_on();
    livehost_await_phase(&host, FIRN_PHASE_STARTING, ids[JOBS - 1]);
    const char *at = host.seen;
    for (int i = 0; i < JOBS; i++) {
        char text[40];
        snprintf(text, sizeof text, "STARTING %d.1; ", ids[i]);
        at = strstr(at, text);
        if (at == NULL)
            fail_msg("job %d is not launched in its turn: %s", ids[i],
                     host.seen);
    }
    end_all(JOBS);
}

static void
four_launches_at_most_are_made_at_once_and_the_others_later(void **state)
{
    (void)state;
    static const int ids[] = {0, 1, 2, 3, 4, 5};
    int n = 0;
    say(ids, JOBS);
    settle();
    for (int i = 0; i < JOBS; i++)
        n += livehost_phase(&host, i) == FIRN_PHASE_STARTING;
    assert_in_range(n, 1, 4);
    for (int i = 0; i < JOBS; i++)
        await_run(i, 1);
    end_all(JOBS);
}

static void work_is_paced_by_its_price(void **state)
{
    (void)state;
    struct pace pace = {.burst_s = 0.01};
    assert_true(pace_next_s(&pace, 100) <= 100);
    pace_pay(&pace, 100, 0.01);
    assert_true(pace_next_s(&pace, 100) <= 100); /* 10 ms are lent */
    pace_pay(&pace, 100, 0.01);
    assert_float_equal(pace_next_s(&pace, 100), 100.01, 1e-9);
    assert_true(pace_next_s(&pace, 100.011) <= 100.011);
    pace_pay(&pace, 100.011, 0.5); /* paid at 100.52, lent 0.01 of it */
    assert_float_equal(pace_next_s(&pace, 100.02), 100.51, 1e-9);
    assert_true(pace_next_s(&pace, 200) <= 200); /* time does not add up */
    pace_pay(&pace, 200, 0.03);
    assert_float_equal(pace_next_s(&pace, 200), 200.02, 1e-9);
}

static void jobs_whose_numbers_are_not_on_disk_are_not_launched(void **state)
{
    (void)state;
    static const int ids[] = {0, 1, 2};
    host.nunkept = 1;
    say(ids, 3);
    settle();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(livehost_phase(&host, i), FIRN_PHASE_QUEUED);
        never_began(i, 1);
    }
    for (int i = 0; i < 3; i++) /* with the next number, when there is room */
        await_run(i, 2);
    end_all(3);
}

/* --- between number and launch -------------------------------------------- */

static void a_stop_before_the_launch_ends_the_attempt_at_once(void **state)
{
    (void)state;
    number_one();
    livehost_say(&host, 0, "");
    assert_int_equal(livehost_phase(&host, 0), FIRN_PHASE_GONE);
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.attempt, 1);
    assert_int_equal(left.end, FIRN_END_LOST);
    never_began(0, 1);
    go_on(); /* its GPU is free */
    say((const int[]){0}, 1);
    settle();
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    assert_int_equal(livehost_attempt(&host, 0), 2);
    end_all(1);
}

static void a_cancel_before_the_launch_ends_the_job_at_once(void **state)
{
    (void)state;
    number_one();
    host.engine->cancel(host.state, 0);
    struct firn_event failed = livehost_await(&host, FIRN_EVENT_FAIL, 0);
    assert_int_equal(failed.attempt, 1);
    assert_int_equal(failed.end, FIRN_END_KILLED);
    assert_int_equal(livehost_phase(&host, 0), FIRN_PHASE_GONE);
    never_began(0, 1);
}

static void a_move_before_the_launch_starts_the_next_attempt_there(void **state)
{
    (void)state;
    number_one();
    livehost_say(&host, 0, "n1[2-3]");
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.attempt, 1);
    assert_int_equal(left.end, FIRN_END_LOST);
    go_on();
    settle();
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    assert_int_equal(livehost_attempt(&host, 0), 2);
    assert_int_equal(roster_find(&engine()->roster, 0)->held.ngpus, 2);
    never_began(0, 1);
    end_all(1);
}

static void a_gpu_of_a_numbered_job_is_not_given_out(void **state)
{
    (void)state;
    number_one();
    livehost_work(&host, 1, "obey", folder_file("ready"));
    livehost_step(&host, 1, "n0[0]");
    livehost_drain(&host);
    assert_int_equal(livehost_attempt(&host, 1), 0);
    host.engine->cancel(host.state, 0);
    livehost_await(&host, FIRN_EVENT_FAIL, 0);
    go_on();
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 1);
    end_all(2);
}

static void numbers_without_a_launch_are_found_never_started_by_the_next_engine(
    void **state)
{
    (void)state;
    static const int ids[] = {0, 1, 2};
    hold_up();
    say(ids, 3);
    settle();
    livehost_close(&host); /* as a kill: nothing is done at the end */
    livehost_open(&host, "local", "2x4:v100");
    for (int i = 0; i < 3; i++) {
        char gpu[32];
        snprintf(gpu, sizeof gpu, "n0[%d]", i);
        livehost_work(&host, i, "obey", folder_file("ready"));
        assert_int_equal(livehost_adopt(&host, i, gpu), FIRN_OK);
    }
    for (int i = 0; i < 3; i++) {
        char text[40];
        await_run(i, 2);
        snprintf(text, sizeof text, "LEFT %d.1=0; ", i);
        assert_true(livehost_has_seen(&host, text));
    }
    end_all(3);
}

/* --- requests to leave -----------------------------------------------------
 */

static void the_time_to_leave_begins_when_an_attempt_is_asked(void **state)
{
    (void)state;
    say((const int[]){0}, 1);
    settle();
    await_run(0, 1);
    hold_up();
    livehost_say(&host, 0, "");
    const struct rosterjob *job = roster_find(&engine()->roster, 0);
    assert_true(isinf(job->until_s));
    livehost_pass_ms(&host, 20);
    assert_int_equal(livehost_phase(&host, 0), FIRN_PHASE_LEAVING);
    assert_false(livehost_has_seen(&host, "LEFT"));
    go_on();
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.end, FIRN_END_CHECKPOINT);
}

/* --- a lost event --------------------------------------------------------- */

static void an_attempt_whose_event_is_lost_is_seen_by_the_sweep(void **state)
{
    (void)state;
    say((const int[]){0}, 1);
    settle();
    struct roster *roster = &engine()->roster;
    struct rosterjob *job = roster_find(roster, 0);
    assert_int_equal(job->phase, FIRN_PHASE_STARTING);
    assert_int_equal(inotify_rm_watch(roster->notes, job->watch), 0);
    roster_wake_drain(roster);
    job->is_noted = false;
    double limit_s = job->until_s; /* firn would look then, too */
    await_run(0, 1);
    assert_true(local_now_s(engine()) < limit_s);
    end_all(1);
}

/* --- a shepherd that begins late ------------------------------------------ */

/* When the folder /proc is opened for the `late_at`-th time, a process begins
 * that has this mark, as a shepherd does whose engine was killed between fork()
 * and execve(). */
static int late_at;
static pid_t late;
static char late_mark[HERD_TEXT];

static void begin_late(void)
{
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    late = fork();
    if (late == 0) {
        char *argv[] = {"test", "--late", NULL}, *env[] = {late_mark, NULL};
        dup2(ends[1], 1);
        close(ends[0]);
        execve(workers_program(), argv, env);
        _exit(1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
}

DIR *opendir(const char *name)
{
    DIR *(*real)(const char *) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "opendir");
    if (late_at > 0 && strcmp(name, "/proc") == 0 && --late_at == 0)
        begin_late();
    return real(name);
}

static void a_shepherd_that_begins_during_the_search_is_not_killed(void **state)
{
    (void)state;
    hold_up();
    say((const int[]){0}, 1);
    settle();
    herd_shepherd(late_mark, host.mark, 0, 1);
    livehost_close(&host);
    livehost_open(&host, "local", "2x4:v100");
    livehost_work(&host, 0, "obey", folder_file("ready"));
    mkdir(host.jobs[0].folder, 0700);
    late_at = 2; /* the first search looks for a shepherd, the second kills */
    hold_up();
    assert_int_equal(livehost_adopt(&host, 0, "n0[0]"), FIRN_OK);
    struct firn_event event;
    do
        assert_true(host.engine->next(host.state, 0, &event, &host.err));
    while (event.kind == FIRN_EVENT_PHASE);
    assert_int_equal(late_at, 0);
    assert_int_equal(event.kind, FIRN_EVENT_LEFT); /* FAIL: it is lost */
    assert_int_equal(event.attempt, 1);
    assert_int_equal(waitpid(late, NULL, WNOHANG), 0);
    kill(late, SIGKILL);
    waitpid(late, NULL, 0);
    end_all(1);
}

static int set_up(void **state)
{
    return livehost_set_up(&host, "local", "2x4:v100", state);
}

static int tear_down(void **state)
{
    return livehost_tear_down(&host, state);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--late") == 0) {
        if (write(1, "x", 1) == 1)
            pause();
        return 0;
    }
    int code = workers_main(argc, argv);
    if (code >= 0)
        return code;
    const struct CMUnitTest tests[] = {
        CASE(jobs_that_start_together_have_one_commit_for_their_numbers),
        CASE(jobs_are_launched_in_the_order_of_their_steps),
        CASE(four_launches_at_most_are_made_at_once_and_the_others_later),
        cmocka_unit_test(work_is_paced_by_its_price),
        CASE(jobs_whose_numbers_are_not_on_disk_are_not_launched),
        CASE(a_stop_before_the_launch_ends_the_attempt_at_once),
        CASE(a_cancel_before_the_launch_ends_the_job_at_once),
        CASE(a_move_before_the_launch_starts_the_next_attempt_there),
        CASE(a_gpu_of_a_numbered_job_is_not_given_out),
        CASE(
            numbers_without_a_launch_are_found_never_started_by_the_next_engine),
        CASE(the_time_to_leave_begins_when_an_attempt_is_asked),
        CASE(an_attempt_whose_event_is_lost_is_seen_by_the_sweep),
        CASE(a_shepherd_that_begins_during_the_search_is_not_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
