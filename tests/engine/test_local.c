/* test_local.c - a live engine with real processes: starts, ends, leaves,
 * resizes, sharing, and two attempts never at once.
 *
 * The local engine; test_slurm_live.c is the same with another one. */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/failpoint.h"
#include "engine/attemptfiles.h"
#include "lib/fakeslurm.h"
#include "lib/folder.h"
#include "lib/livehost.h"
#include "lib/workers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef LIVE_ENGINE
#define LIVE_ENGINE "local"
#endif

static struct livehost host;

static struct firn_buf file_of(const char *name)
{
    struct firn_buf text = {0};
    int top = open(folder_path(), O_RDONLY | O_DIRECTORY);
    assert_true(attempt_get(top, name, &text));
    close(top);
    return text;
}

static void is_seen(const char *text)
{
    if (strstr(host.seen, text) == NULL)
        fail_msg("'%s' is not in '%s'", text, host.seen);
}

/* --- one job -------------------------------------------------------------- */

static void a_job_runs_to_its_end(void **state)
{
    (void)state;
    livehost_work(&host, 0, "exit", "0");
    livehost_step(&host, 0, "n0[0-1]");
    struct firn_event end = livehost_await(&host, FIRN_EVENT_DONE, 0);
    assert_int_equal(end.end, FIRN_END_DONE);
    assert_int_equal(end.exit_status, 0);
    assert_int_equal(end.attempt, 1);
    is_seen("STARTING 0.1; ");
    assert_int_equal(livehost_phase(&host, 0), FIRN_PHASE_GONE);
}

static void a_failed_job_reports_its_exit_status(void **state)
{
    (void)state;
    livehost_work(&host, 0, "exit", "5");
    livehost_step(&host, 0, "n0[0]");
    struct firn_event end = livehost_await(&host, FIRN_EVENT_FAIL, 0);
    assert_int_equal(end.end, FIRN_END_FAILED);
    assert_int_equal(end.exit_status, 5);
}

static void a_job_out_of_memory_ends_with_memory(void **state)
{
    (void)state;
    struct livehost_job *j = livehost_work(&host, 0, "say", "x");
    j->argv[3] = "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB";
    j->argv[4] = "1";
    livehost_step(&host, 0, "n0[0]");
    struct firn_event end = livehost_await(&host, FIRN_EVENT_FAIL, 0);
    assert_int_equal(end.end, FIRN_END_MEMORY);
}

/* One line of a dump, exactly. */
static void has_line(const struct firn_buf *text, const char *line)
{
    size_t n = strlen(line);
    for (const char *at = text->at; at != NULL; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, line, n) == 0 && at[n] == '\n')
            return;
    }
    fail_msg("no line '%s' in:\n%s", line, text->at);
}

static void hostile_arguments_and_variables_arrive_unchanged(void **state)
{
    (void)state;
    struct livehost_job *j =
        livehost_work(&host, 0, "dump", folder_file("dump"));
    j->argv[4] = "$(touch x) `id` ; rm -rf \"$HOME\" 'a' \\";
    j->argv[5] = "line\nbreak\ttab \xff\xc3\xa4";
    j->argv[6] = "";
    j->argv[7] = "env 3\nA=b\nend 0\n\n";
    j->env[0] = "X=$(id)\n'\" y=z";
    j->env[1] = "LOCAL_RANK=77";
    livehost_step(&host, 0, "n0[0]");
    livehost_await(&host, FIRN_EVENT_DONE, 0);
    struct firn_buf text = file_of("dump.0");
    has_line(&text, "$(touch x) `id` ; rm -rf \"$HOME\" 'a' \\x5c");
    has_line(&text, "line\\x0abreak\\x09tab \\xff\\xc3\\xa4");
    has_line(&text, "");
    has_line(&text, "env 3\\x0aA=b\\x0aend 0\\x0a\\x0a");
    has_line(&text, "X=$(id)\\x0a'\" y=z");
    has_line(&text, "LOCAL_RANK=77"); /* the user's goes over ours */
    buf_release(&text);
}

static void workers_get_torchruns_variables_and_firns(void **state)
{
    (void)state;
    struct livehost_job *j =
        livehost_work(&host, 3, "dump", folder_file("dump"));
    char line[300];
    setenv("FIRN_OPERATORS_SECRET", "x", 1);
    j->threads = 5;
    livehost_step(&host, 3, "n0[1,3] n1[2]");
    livehost_await(&host, FIRN_EVENT_DONE, 3);
    unsetenv("FIRN_OPERATORS_SECRET");
    struct firn_buf text = file_of("dump.1");
    const char *const lines[] = {"RANK=1",
                                 "WORLD_SIZE=3",
                                 "LOCAL_RANK=1",
                                 "GROUP_RANK=0",
                                 "LOCAL_WORLD_SIZE=2",
                                 "CUDA_VISIBLE_DEVICES=1,3",
                                 "FIRN_JOB=3",
                                 "FIRN_EPOCH=1",
                                 "FIRN_URL=unix:/nowhere",
                                 "FIRN_THREADS=5",
                                 "FIRN_TOKEN=secret",
                                 "FIRN_GPUS=n0[1,3] n1[2]",
                                 "MASTER_ADDR=127.0.0.1"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        has_line(&text, lines[i]);
    snprintf(line, sizeof line, "cwd=%s", folder_path());
    has_line(&text, line);
    assert_non_null(strstr(text.at, "MASTER_PORT="));
    assert_null(strstr(text.at, "FIRN_OPERATORS_SECRET"));
    assert_null(strstr(text.at, "FIRN_SHARE"));
    assert_null(strstr(text.at, "FIRN_LAYOUT"));
    buf_release(&text);
    text = file_of("dump.2");
    has_line(&text, "LOCAL_RANK=0");
    has_line(&text, "GROUP_RANK=1");
    has_line(&text, "LOCAL_WORLD_SIZE=1");
    has_line(&text, "CUDA_VISIBLE_DEVICES=2");
    buf_release(&text);
}

static void a_job_may_have_one_process_a_node(void **state)
{
    (void)state;
    struct livehost_job *j =
        livehost_work(&host, 0, "dump", folder_file("dump"));
    j->is_per_node = true;
    livehost_step(&host, 0, "n0[0-2] n1[0-1]");
    livehost_await(&host, FIRN_EVENT_DONE, 0);
    struct firn_buf text = file_of("dump.1");
    has_line(&text, "WORLD_SIZE=2");
    has_line(&text, "LOCAL_WORLD_SIZE=1");
    has_line(&text, "CUDA_VISIBLE_DEVICES=0,1");
    buf_release(&text);
}

static void each_attempt_appends_to_the_log(void **state)
{
    (void)state;
    for (int i = 1; i <= 2; i++) {
        struct livehost_job *j =
            livehost_work(&host, 0, "say", i == 1 ? "first" : "second");
        j->argv[4] = "0";
        j->job.held = (struct firn_alloc)FIRN_ALLOC_NONE;
        livehost_step(&host, 0, "n0[0]");
        livehost_await(&host, FIRN_EVENT_DONE, 0);
    }
    struct firn_buf text = file_of("job-0.log");
    const char *first = strstr(text.at, "first\n");
    const char *second = strstr(text.at, "second\n");
    assert_true(first != NULL && second != NULL && first < second);
    buf_release(&text);
}

/* --- leaving -------------------------------------------------------------- */

static void a_stop_asks_for_a_checkpoint_and_reports_left(void **state)
{
    (void)state;
    livehost_work(&host, 0, "obey", folder_file("ready"));
    livehost_step(&host, 0, "n0[0-1]");
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    workers_await(folder_file("ready"), 2);
    assert_int_equal(livehost_phase(&host, 0), FIRN_PHASE_RUNNING);
    livehost_step(&host, 0, "");
    assert_int_equal(livehost_phase(&host, 0), FIRN_PHASE_LEAVING);
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.end, FIRN_END_CHECKPOINT);
    assert_int_equal(left.exit_status, 83);
    is_seen("RUNNING 0.1; LEAVING 0.1; LEFT 0.1=83; ");
    assert_int_equal(livehost_phase(&host, 0), FIRN_PHASE_GONE);
}

static void a_stop_in_the_middle_of_a_start_leaves_nothing(void **state)
{
    (void)state;
    livehost_work(&host, 0, "obey", folder_file("ready"));
    livehost_step(&host, 0, "n0[0]");
    livehost_step(&host, 0, "");
    livehost_await(&host, FIRN_EVENT_LEFT, 0);
    pid_t pids[4];
    size_t n = workers_pids(folder_file("ready"), pids, 4);
    assert_true(n == 0 || workers_is_gone(pids[0]));
}

static void a_job_that_cannot_checkpoint_is_ended(void **state)
{
    (void)state;
    livehost_work(&host, 0, "wait", folder_file("ready"))->can_checkpoint =
        false;
    livehost_step(&host, 0, "n0[0]");
    workers_await(folder_file("ready"), 1);
    livehost_step(&host, 0, "");
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.end, FIRN_END_KILLED);
    assert_int_equal(left.exit_status, 128 + SIGTERM);
}

static void a_cancelled_job_fails_and_all_of_it_is_gone(void **state)
{
    (void)state;
    pid_t pids[4];
    livehost_work(&host, 0, "tree", folder_file("ready"))->grace_s = 0.05;
    livehost_step(&host, 0, "n0[0]");
    workers_await(folder_file("ready"), 3);
    host.engine->cancel(host.state, 0);
    struct firn_event end = livehost_await(&host, FIRN_EVENT_FAIL, 0);
    assert_int_equal(end.end, FIRN_END_KILLED);
    assert_int_equal(workers_pids(folder_file("ready"), pids, 4), 3);
    for (int i = 0; i < 3; i++)
        assert_true(workers_is_gone(pids[i]));
}

static void a_cancelled_job_that_waits_fails_at_once(void **state)
{
    (void)state;
    livehost_work(&host, 0, "obey", folder_file("ready"));
    livehost_work(&host, 1, "obey", folder_file("ready1"));
    livehost_step(&host, 0, "n0[0]");
    livehost_step(&host, 1, "n0[0]");
    assert_int_equal(livehost_phase(&host, 1), FIRN_PHASE_QUEUED);
    host.engine->cancel(host.state, 1);
    struct firn_event end = livehost_await(&host, FIRN_EVENT_FAIL, 1);
    assert_int_equal(end.end, FIRN_END_KILLED);
    assert_int_equal(livehost_attempt(&host, 1), 0); /* none was used */
    host.engine->cancel(host.state, 5); /* no such job: no effect */
}

/* --- resizing, sharing, waiting ------------------------------------------- */

static void a_resize_leaves_and_starts_the_next_attempt(void **state)
{
    (void)state;
    livehost_work(&host, 0, "obey", folder_file("ready"));
    livehost_step(&host, 0, "n0[0]");
    workers_await(folder_file("ready"), 1);
    livehost_step(&host, 0, "n0[0-2]");
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.attempt, 1);
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    workers_await(folder_file("ready"), 4);
    is_seen("LEFT 0.1=83; STARTING 0.2; RUNNING 0.2; ");
}

static void a_start_waits_until_its_gpus_are_free(void **state)
{
    (void)state;
    livehost_work(&host, 0, "obey", folder_file("ready"));
    livehost_work(&host, 1, "obey", folder_file("ready1"));
    livehost_step(&host, 0, "n0[0-1]");
    workers_await(folder_file("ready"), 2);
    livehost_say(&host, 0, "n0[0]");
    livehost_say(&host, 1, "n0[1]");
    host.engine->settled(host.state, &host.err);
    assert_int_equal(livehost_phase(&host, 1),
                     FIRN_PHASE_QUEUED); /* not a moment before */
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 1);
    const char *left = strstr(host.seen, "LEFT 0.1");
    const char *started = strstr(host.seen, "STARTING 1.1");
    assert_true(left != NULL && started != NULL && left < started);
}

static void sharing_jobs_run_together_and_whole_jobs_wait(void **state)
{
    (void)state;
    livehost_work(&host, 0, "dump", folder_file("dump"));
    livehost_work(&host, 1, "obey", folder_file("ready1"));
    livehost_work(&host, 2, "obey", folder_file("ready2"));
    livehost_work(&host, 4, "obey", folder_file("ready4"));
    livehost_step(&host, 1, "n0[0]~");
    livehost_step(&host, 2, "n0[0]~");
    workers_await(folder_file("ready1"), 1);
    livehost_await_ready(&host, folder_file("ready2"), 1);
    livehost_step(&host, 4, "n0[0]");
    livehost_step(&host, 0, "n0[0]~"); /* a third sharer */
    livehost_drain(&host);
    assert_int_equal(livehost_phase(&host, 0), FIRN_PHASE_QUEUED);
    assert_int_equal(livehost_phase(&host, 4), FIRN_PHASE_QUEUED);
    livehost_step(&host, 1, "");
    livehost_await(&host, FIRN_EVENT_DONE, 0);
    assert_int_equal(livehost_phase(&host, 4), FIRN_PHASE_QUEUED);
    struct firn_buf text = file_of("dump.0");
    has_line(&text, "FIRN_SHARE=1");
    has_line(&text, "FIRN_MEM_SHARE=0.5");
    buf_release(&text);
    livehost_step(&host, 2, "");
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 4);
}

static void a_leaving_neighbour_does_not_restart_a_sharing_job(void **state)
{
    (void)state;
    livehost_work(&host, 0, "obey", folder_file("ready"));
    livehost_step(&host, 0, "n0[0]~");
    workers_await(folder_file("ready"), 1);
    livehost_step(&host, 0, "n0[0]");
    livehost_drain(&host);
    assert_int_not_equal(livehost_phase(&host, 0), FIRN_PHASE_LEAVING);
    livehost_step(&host, 0, "n0[0]~"); /* but joining asks for less memory */
    assert_int_equal(livehost_phase(&host, 0), FIRN_PHASE_LEAVING);
    workers_await(folder_file("ready"), 1);
}

static void
a_refused_number_leaves_the_job_queued_until_it_is_given(void **state)
{
    (void)state;
    livehost_work(&host, 0, "exit", "0");
    host.nrefused = 2;
    livehost_step(&host, 0, "n0[0]");
    assert_int_equal(livehost_phase(&host, 0), FIRN_PHASE_QUEUED);
    struct firn_event end = livehost_await(&host, FIRN_EVENT_DONE, 0);
    assert_int_equal(end.attempt, 1);
    assert_int_equal(host.nrefused, 0);
}

static void an_unrequested_checkpoint_is_resumed(void **state)
{
    (void)state;
    pid_t pids[2];
    livehost_work(&host, 0, "obey", folder_file("ready"));
    livehost_step(&host, 0, "n0[0]");
    workers_await(folder_file("ready"), 1);
    assert_int_equal(workers_pids(folder_file("ready"), pids, 2), 1);
    kill(pids[0], SIGUSR1); /* not by the engine */
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.end, FIRN_END_CHECKPOINT);
    livehost_await_phase(&host, FIRN_PHASE_STARTING, 0);
    workers_await(folder_file("ready"), 2);
    assert_int_equal(livehost_attempt(&host, 0), 2);
}

/* The shepherd is stopped, and its exit file is written in its place. */
static void a_supervisor_that_hangs_after_the_end_is_killed(void **state)
{
    (void)state;
    struct attempt_pid pid = {0};
    const char *option =
        strcmp(LIVE_ENGINE, "slurm") == 0 ? "force" : "force-s";
    assert_int_equal(firn_option_set(host.engine->options, host.state,
                                     LIVE_ENGINE, option, "0", &host.err),
                     FIRN_OK);
    livehost_work(&host, 0, "obey", folder_file("ready"));
    livehost_step(&host, 0, "n0[0]");
    workers_await(folder_file("ready"), 1);
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    int folder = attempt_folder(host.jobs[0].folder, 1, false);
    assert_int_equal(attempt_pid_get(folder, &pid), ATTEMPT_PRESENT);
    assert_int_equal(kill((pid_t)pid.pid, SIGSTOP), 0);
    struct attempt_exit result = {1, FIRN_END_DONE, 0};
    assert_int_equal(attempt_exit_put(folder, &result, &host.err), FIRN_OK);
    close(folder);
    struct firn_event end = livehost_await(&host, FIRN_EVENT_DONE, 0);
    assert_int_equal(end.attempt, 1);
    workers_await_gone((pid_t)pid.pid); /* its lock is free a moment before */
}

static void a_step_to_missing_gpus_is_an_error(void **state)
{
    (void)state;
    struct firn_part part = {.node = 0, .gpus = 1u << 4};
    struct firn_alloc to = {
        .parts = &part, .nparts = 1, .ngpus = 1, .how = FIRN_HOW_AS_SUBMITTED};
    struct firn_step step = {.kind = FIRN_STEP_START,
                             .job = &livehost_work(&host, 0, "exit", "0")->job,
                             .to = &to};
    assert_int_equal(host.engine->apply(host.state, &step, &host.err),
                     FIRN_EINVAL);
    part = (struct firn_part){.node = 2, .gpus = 1};
    assert_int_equal(host.engine->apply(host.state, &step, &host.err),
                     FIRN_EINVAL);
}

static void next_waits_as_long_as_it_may_and_no_longer(void **state)
{
    (void)state;
    struct firn_event event;
    double begin_s = host.engine->now_s(host.state);
    assert_false(host.engine->next(host.state, begin_s - 5, &event, &host.err));
    assert_false(
        host.engine->next(host.state, (double)INFINITY, &event, &host.err));
    assert_false(
        host.engine->next(host.state, begin_s + 0.05, &event, &host.err));
    double now_s = host.engine->now_s(host.state);
    assert_true(now_s >= begin_s + 0.05 && now_s < begin_s + 20);
    livehost_work(&host, 0, "exit", "0");
    livehost_step(&host, 0, "n0[0]");
    do
        assert_true(
            host.engine->next(host.state, now_s + 120, &event, &host.err));
    while (event.kind != FIRN_EVENT_DONE);
    assert_true(event.at_s >= now_s);
}

static bool is_quiet(void)
{
    struct pollfd fd = {.fd = host.engine->wake_fd(host.state),
                        .events = POLLIN};
    for (int i = 0; i < 2000; i++) {
        livehost_drain(&host);
        if (poll(&fd, 1, 0) == 0)
            return true;
        poll(NULL, 0, 1); /* a program just started has our descriptors yet */
    }
    return false;
}

/* A loop that watches it would spin otherwise. */
static void the_descriptor_is_quiet_when_there_is_nothing_to_do(void **state)
{
    (void)state;
    assert_true(is_quiet());
    livehost_work(&host, 0, "obey", folder_file("ready"));
    livehost_work(&host, 1, "obey", folder_file("ready1"));
    livehost_step(&host, 0, "n0[0]");
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    assert_true(is_quiet());
    livehost_step(&host, 1, "n0[0]"); /* waits */
    assert_true(is_quiet());
    workers_await(folder_file("ready"), 1);
    livehost_step(&host, 0, "");
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 1);
    assert_true(is_quiet());
}

/* Many resizes in a row; each rank of each attempt takes a lock of its own and
 * would find one of an older attempt. */
static void two_attempts_never_run_at_once(void **state)
{
    (void)state;
    static const char *const gpus[] = {"n0[0-1]", "n0[1-3]", "n1[0-1]",
                                       "n0[0] n1[1]"};
    char lock[400];
    snprintf(lock, sizeof lock, "%s", folder_file("turn"));
    struct livehost_job *j =
        livehost_work(&host, 0, "alone", folder_file("ready"));
    j->argv[4] = lock;
    size_t n = 0;
    for (int i = 0; i < 4; i++) {
        livehost_step(&host, 0, gpus[i]);
        if (i > 0)
            livehost_await(&host, FIRN_EVENT_LEFT, 0);
        n += i == 1 ? 3 : 2;
        livehost_await_ready(&host, folder_file("ready"), n);
    }
    livehost_step(&host, 0, "");
    livehost_step(&host, 0, "n0[0]"); /* wanted again before it is gone */
    livehost_await(&host, FIRN_EVENT_LEFT, 0);
    livehost_await_ready(&host, folder_file("ready"), n + 1);
    struct firn_buf text = file_of("ready");
    assert_null(strstr(text.at, "TWICE"));
    buf_release(&text);
    assert_int_equal(livehost_attempt(&host, 0), 5);
}

static int set_up(void **state)
{
    return livehost_set_up(&host, LIVE_ENGINE, "2x4:v100", state);
}

static int tear_down(void **state)
{
    return livehost_tear_down(&host, state);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv)
{
    int code = fakeslurm_main(argc, argv);
    if (code < 0)
        code = workers_main(argc, argv);
    if (code >= 0)
        return code;
    const struct CMUnitTest tests[] = {
        CASE(a_job_runs_to_its_end),
        CASE(a_failed_job_reports_its_exit_status),
        CASE(a_job_out_of_memory_ends_with_memory),
        CASE(hostile_arguments_and_variables_arrive_unchanged),
        CASE(workers_get_torchruns_variables_and_firns),
        CASE(a_job_may_have_one_process_a_node),
        CASE(each_attempt_appends_to_the_log),
        CASE(a_stop_asks_for_a_checkpoint_and_reports_left),
        CASE(a_stop_in_the_middle_of_a_start_leaves_nothing),
        CASE(a_job_that_cannot_checkpoint_is_ended),
        CASE(a_cancelled_job_fails_and_all_of_it_is_gone),
        CASE(a_cancelled_job_that_waits_fails_at_once),
        CASE(a_resize_leaves_and_starts_the_next_attempt),
        CASE(a_start_waits_until_its_gpus_are_free),
        CASE(sharing_jobs_run_together_and_whole_jobs_wait),
        CASE(a_leaving_neighbour_does_not_restart_a_sharing_job),
        CASE(a_refused_number_leaves_the_job_queued_until_it_is_given),
        CASE(an_unrequested_checkpoint_is_resumed),
        CASE(a_supervisor_that_hangs_after_the_end_is_killed),
        CASE(a_step_to_missing_gpus_is_an_error),
        CASE(next_waits_as_long_as_it_may_and_no_longer),
        CASE(the_descriptor_is_quiet_when_there_is_nothing_to_do),
        CASE(two_attempts_never_run_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
