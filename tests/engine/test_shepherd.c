/* test_shepherd.c - one attempt: lock, fence, workers, signals, the whole tree,
 * how it ended. */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/clock.h"
#include "engine/attemptfiles.h"
#include "engine/cgroup.h"
#include "engine/launchfile.h"
#include "engine/procs.h"
#include "engine/shepherd.h"
#include "lib/folder.h"
#include "lib/workers.h"
#include <firn/launch.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* An attempt in the making; its folder is the case's own. */
struct bench {
    struct launchfile launch;
    char job[300], folder[320], log[320], ready[320];
    int above, dir;
};

static void bench_open(struct bench *b, int64_t attempt, int nworkers)
{
    struct firn_error err;
    memset(b, 0, sizeof *b);
    snprintf(b->job, sizeof b->job, "%s/job", folder_path());
    snprintf(b->folder, sizeof b->folder, "%s/epoch-%lld", b->job,
             (long long)attempt);
    snprintf(b->log, sizeof b->log, "%s/log", folder_path());
    snprintf(b->ready, sizeof b->ready, "%s/ready", folder_path());
    b->dir = attempt_folder(b->job, attempt, true);
    assert_true(b->dir >= 0);
    b->above = open(b->job, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int lock = attempt_lock(b->above);
    if (lock >= 0) {
        assert_int_equal(attempt_fence_raise(b->above, attempt, &err), FIRN_OK);
        close(lock);
    }
    b->launch.job = 7;
    b->launch.attempt = attempt;
    b->launch.workdir = folder_path();
    b->launch.log = b->log;
    b->launch.grace_s = 60;
    b->launch.can_checkpoint = true;
    vec_add(&b->launch.common, "FIRN_EPOCH=1");
    for (int i = 0; i < nworkers; i++) {
        char rank[32];
        snprintf(rank, sizeof rank, "RANK=%d", i);
        launchfile_add_worker(&b->launch);
        launchfile_add_own(&b->launch, arena_strdup(&b->launch.text, rank));
    }
    vec_add(&b->launch.argv, workers_program());
    vec_add(&b->launch.argv, "--work");
}

static void bench_arg(struct bench *b, const char *arg)
{
    vec_add(&b->launch.argv, arg);
}

static pid_t bench_spawn(struct bench *b)
{
    struct firn_buf text = {0};
    struct firn_error err;
    pid_t pid;
    char *argv[] = {(char *)workers_program(), "--shepherd", b->folder, NULL};
    launchfile_write(&b->launch, &text);
    assert_int_equal(attempt_put(b->dir, "launch",
                                 (struct firn_bytes){text.at, text.n}, &err),
                     FIRN_OK);
    buf_release(&text);
    assert_int_equal(posix_spawn(&pid, argv[0], NULL, NULL, argv, environ), 0);
    return pid;
}

/* Waits for the shepherd; its own status. */
static int bench_wait(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static struct attempt_exit bench_end(struct bench *b, pid_t pid)
{
    struct attempt_exit how = {0};
    assert_int_equal(bench_wait(pid), SHEPHERD_OVER);
    assert_true(attempt_exit_get(b->dir, &how));
    assert_int_equal(how.attempt, b->launch.attempt);
    int lock = attempt_lock(b->above);
    assert_true(lock >= 0); /* it is free */
    close(lock);
    return how;
}

static void bench_close(struct bench *b)
{
    close(b->dir);
    close(b->above);
    launchfile_release(&b->launch);
}

/* Runs `work` to its end. */
static struct attempt_exit run(const char *const *work, int nworkers)
{
    struct bench b;
    bench_open(&b, 1, nworkers);
    for (; *work != NULL; work++)
        bench_arg(&b, *work);
    struct attempt_exit how = bench_end(&b, bench_spawn(&b));
    bench_close(&b);
    return how;
}

#define RUN(n, ...) run((const char *const[]){__VA_ARGS__, NULL}, n)

static void an_attempt_whose_workers_exit_with_0_is_done(void **state)
{
    (void)state;
    struct attempt_exit how = RUN(3, "exit", "0");
    assert_int_equal(how.end, FIRN_END_DONE);
    assert_int_equal(how.status, 0);
}

static void a_failed_worker_reports_its_status(void **state)
{
    (void)state;
    struct attempt_exit how = RUN(2, "exit", "3");
    assert_int_equal(how.end, FIRN_END_FAILED);
    assert_int_equal(how.status, 3);
}

static void an_unrequested_signal_is_a_failure(void **state)
{
    (void)state;
    struct attempt_exit how = RUN(1, "die", "9");
    assert_int_equal(how.end, FIRN_END_FAILED);
    assert_int_equal(how.status, 137);
}

static void a_program_that_is_not_there_fails_with_127(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 1, 2);
    b.launch.argv.at[0] = "no-such-program";
    struct attempt_exit how = bench_end(&b, bench_spawn(&b));
    assert_int_equal(how.end, FIRN_END_FAILED);
    assert_int_equal(how.status, 127);
    struct firn_buf log = {0};
    int top = open(folder_path(), O_RDONLY | O_DIRECTORY);
    assert_true(attempt_get(top, "log", &log));
    close(top);
    assert_non_null(strstr(log.at, "firn: cannot run 'no-such-program' in "));
    buf_release(&log);
    bench_close(&b);
}

static void a_text_file_without_an_interpreter_line_is_not_run(void **state)
{
    (void)state;
    struct bench b;
    struct firn_error err;
    char path[400];
    bench_open(&b, 1, 1);
    static const char text[] = "echo once >ran\n";
    assert_int_equal(attempt_put(b.above, "script",
                                 (struct firn_bytes){text, sizeof text - 1},
                                 &err),
                     FIRN_OK);
    snprintf(path, sizeof path, "%s/script", b.job);
    assert_int_equal(chmod(path, 0700), 0);
    b.launch.argv.at[0] = path;
    struct attempt_exit how = bench_end(&b, bench_spawn(&b));
    assert_int_equal(how.status, 126);
    snprintf(path, sizeof path, "%s/ran", folder_path());
    assert_int_not_equal(access(path, F_OK), 0);
    bench_close(&b);
}

static void out_of_memory_is_recognised_by_the_last_output(void **state)
{
    (void)state;
    struct attempt_exit how =
        RUN(1, "say", "torch.cuda.OutOfMemoryError: CUDA out of memory.", "1");
    assert_int_equal(how.end, FIRN_END_MEMORY);
    assert_int_equal(how.status, 1);
}

static void
output_of_an_earlier_attempt_does_not_mean_out_of_memory(void **state)
{
    (void)state;
    struct bench b;
    RUN(1, "say", "CUDA out of memory.", "1");
    bench_open(&b, 2, 1);
    bench_arg(&b, "say");
    bench_arg(&b, "assertion failed");
    bench_arg(&b, "1");
    struct attempt_exit how = bench_end(&b, bench_spawn(&b));
    assert_int_equal(how.end, FIRN_END_FAILED);
    struct firn_buf log = {0};
    int top = open(folder_path(), O_RDONLY | O_DIRECTORY);
    assert_true(attempt_get(top, "log", &log)); /* appended */
    close(top);
    assert_non_null(strstr(log.at, "CUDA out of memory."));
    assert_non_null(strstr(log.at, "assertion failed"));
    buf_release(&log);
    bench_close(&b);
}

static void a_successful_job_may_print_out_of_memory(void **state)
{
    (void)state;
    struct attempt_exit how = RUN(1, "say", "recovered: out of memory", "0");
    assert_int_equal(how.end, FIRN_END_DONE);
}

/* Starts `what`, waits for `nready` processes, sends a signal; the end. */
static struct attempt_exit ask(struct bench *b, const char *what, size_t nready,
                               int number)
{
    bench_arg(b, what);
    bench_arg(b, b->ready);
    pid_t pid = bench_spawn(b);
    workers_await(b->ready, nready);
    kill(pid, number);
    return bench_end(b, pid);
}

static void sigusr1_reaches_all_workers_and_they_leave(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 1, 3);
    struct attempt_exit how = ask(&b, "obey", 3, SIGUSR1);
    assert_int_equal(how.end, FIRN_END_CHECKPOINT);
    assert_int_equal(how.status, 83);
    bench_close(&b);
}

static void a_worker_without_a_handler_is_asked_when_it_has_one(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 1, 1);
    struct attempt_exit how = ask(&b, "late", 1, SIGUSR1);
    assert_int_equal(how.end, FIRN_END_CHECKPOINT); /* did not die of it */
    bench_close(&b);
}

static void
a_worker_without_a_handler_gets_sigterm_after_the_grace(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 1, 1);
    b.launch.grace_s = 0.1;
    double begin_s = clock_elapsed_s();
    struct attempt_exit how = ask(&b, "wait", 1, SIGUSR1);
    double took_s = clock_elapsed_s() - begin_s;
    assert_int_equal(how.end, FIRN_END_KILLED);
    assert_true(took_s >= 0.1);
    /* It may be too slow to die of it before the second grace has passed. */
    if (how.status != 128 + SIGKILL || took_s < 0.2)
        assert_int_equal(how.status, 128 + SIGTERM);
    bench_close(&b);
}

static void
a_worker_that_ignores_sigterm_is_killed_after_the_grace(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 1, 2);
    b.launch.grace_s = 0.1;
    struct attempt_exit how = ask(&b, "stubborn", 2, SIGTERM);
    assert_int_equal(how.end, FIRN_END_KILLED);
    assert_int_equal(how.status, 128 + SIGKILL);
    bench_close(&b);
}

/* The worker, its child in another session, and that one's child. */
static void all_descendants_die_also_in_another_session(void **state)
{
    (void)state;
    struct bench b;
    pid_t pids[8];
    bench_open(&b, 1, 1);
    b.launch.grace_s = 0.1;
    struct attempt_exit how = ask(&b, "tree", 3, SIGTERM);
    assert_int_equal(how.end, FIRN_END_KILLED);
    assert_int_equal(workers_pids(b.ready, pids, 8), 3);
    for (int i = 0; i < 3; i++)
        assert_true(workers_is_gone(pids[i]));
    bench_close(&b);
}

static void
processes_left_by_workers_are_ended_and_do_not_change_the_end(void **state)
{
    (void)state;
    struct bench b;
    pid_t pids[8];
    bench_open(&b, 1, 1);
    b.launch.grace_s = 0.1;
    bench_arg(&b, "leave");
    bench_arg(&b, b.ready);
    struct attempt_exit how = bench_end(&b, bench_spawn(&b));
    assert_int_equal(how.end, FIRN_END_DONE);
    assert_int_equal(workers_pids(b.ready, pids, 8), 2);
    assert_true(workers_is_gone(pids[0]) && workers_is_gone(pids[1]));
    bench_close(&b);
}

static void a_control_group_is_used_where_it_can_be(void **state)
{
    (void)state;
    struct bench b;
    struct cgroup cgroup;
    char name[CGROUP_NAME];
    pid_t pids[8];
    cgroup_name(name, 7, 1, getpid()); /* not used by any attempt */
    if (!cgroup_open(&cgroup, CGROUP_ON, name)) {
        print_message("no control group can be made here: skipped\n");
        skip();
    }
    cgroup_close(&cgroup);
    bench_open(&b, 1, 1);
    b.launch.grace_s = 0.1;
    b.launch.cgroup = CGROUP_ON;
    struct attempt_exit how = ask(&b, "tree", 3, SIGTERM);
    assert_int_equal(how.end, FIRN_END_KILLED);
    assert_int_equal(workers_pids(b.ready, pids, 8), 3);
    for (int i = 0; i < 3; i++)
        assert_true(workers_is_gone(pids[i]));
    struct firn_buf log = {0};
    int top = open(folder_path(), O_RDONLY | O_DIRECTORY);
    assert_true(attempt_get(top, "log", &log));
    close(top);
    assert_non_null(strstr(log.at, "1 process, in a control group"));
    buf_release(&log);
    bench_close(&b);
}

static void a_fence_above_it_refuses_a_late_shepherd(void **state)
{
    (void)state;
    struct bench b;
    struct firn_error err;
    bench_open(&b, 3, 1);
    bench_arg(&b, "exit");
    bench_arg(&b, "0");
    assert_int_equal(attempt_fence_raise(b.above, 4, &err), FIRN_OK);
    assert_int_equal(bench_wait(bench_spawn(&b)), SHEPHERD_FENCED);
    struct attempt_exit how;
    struct attempt_pid pid;
    assert_false(attempt_exit_get(b.dir, &how));
    assert_false(attempt_pid_get(b.dir, &pid));
    assert_int_equal(attempt_fence_raise(b.above, 3, &err), FIRN_OK);
    int64_t fence = 0;
    assert_int_equal(attempt_fence(b.above, &fence), ATTEMPT_PRESENT);
    assert_int_equal(fence, 4); /* never falls */
    bench_close(&b);
}

static void no_worker_starts_while_the_lock_is_held(void **state)
{
    (void)state;
    struct bench b;
    struct firn_error err;
    struct attempt_pid pid;
    bench_open(&b, 1, 1);
    bench_arg(&b, "exit");
    bench_arg(&b, "0");
    int lock = attempt_lock(b.above);
    assert_true(lock >= 0);
    pid_t shepherd = bench_spawn(&b);
    for (int i = 0; i < 20; i++) { /* time enough to do it wrong */
        poll(NULL, 0, 5);
        assert_false(attempt_pid_get(b.dir, &pid));
    }
    assert_int_equal(attempt_fence_raise(b.above, 2, &err), FIRN_OK);
    assert_int_equal(bench_wait(shepherd), SHEPHERD_FENCED);
    close(lock);
    bench_close(&b);
}

static void an_attempt_is_not_run_twice(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 1, 1);
    bench_arg(&b, "exit");
    bench_arg(&b, "0");
    bench_end(&b, bench_spawn(&b));
    assert_int_equal(bench_wait(bench_spawn(&b)), SHEPHERD_FENCED);
    bench_close(&b);
}

static void workers_keep_the_lock_when_their_shepherd_is_killed(void **state)
{
    (void)state;
    struct bench b;
    pid_t pids[2];
    bench_open(&b, 1, 1);
    bench_arg(&b, "wait");
    bench_arg(&b, b.ready);
    pid_t pid = bench_spawn(&b);
    workers_await(b.ready, 1);
    assert_int_equal(attempt_lock(b.above), -1);
    assert_int_equal(workers_pids(b.ready, pids, 2), 1);
    kill(pid, SIGKILL);
    bench_wait(pid);
    int lock = -1; /* the worker dies with it, and then only is it free */
    for (int i = 0; i < 24000 && (lock = attempt_lock(b.above)) < 0; i++)
        poll(NULL, 0, 5);
    assert_true(lock >= 0);
    workers_await_gone(pids[0]);
    close(lock);
    bench_close(&b);
}

static void a_bad_launch_file_starts_nothing(void **state)
{
    (void)state;
    struct bench b;
    struct firn_error err;
    struct firn_buf text = {0};
    pid_t pid;
    bench_open(&b, 1, 1);
    bench_arg(&b, "exit");
    launchfile_write(&b.launch, &text);
    text.n--;
    assert_int_equal(attempt_put(b.dir, "launch",
                                 (struct firn_bytes){text.at, text.n}, &err),
                     FIRN_OK);
    buf_release(&text);
    char *argv[] = {(char *)workers_program(), "--shepherd", b.folder, NULL};
    assert_int_equal(posix_spawn(&pid, argv[0], NULL, NULL, argv, environ), 0);
    assert_int_equal(bench_wait(pid), SHEPHERD_BAD);
    bench_close(&b);
}

static void a_request_before_the_start_starts_nothing(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 1, 1);
    bench_arg(&b, "wait");
    bench_arg(&b, b.ready);
    int lock = attempt_lock(b.above); /* it has to wait */
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &before); /* as the engine does for it */
    pid_t pid = bench_spawn(&b);
    sigprocmask(SIG_SETMASK, &before, NULL);
    kill(pid, SIGUSR1);
    close(lock);
    struct attempt_exit how = bench_end(&b, pid);
    assert_int_equal(how.end, FIRN_END_CHECKPOINT);
    assert_int_equal(workers_ready(b.ready), 0);
    bench_close(&b);
}

#define CASE(name) \
    cmocka_unit_test_setup_teardown(name, folder_make, workers_sweep)

int main(int argc, char **argv)
{
    int code = workers_main(argc, argv);
    if (code >= 0)
        return code;
    const struct CMUnitTest tests[] = {
        CASE(an_attempt_whose_workers_exit_with_0_is_done),
        CASE(a_failed_worker_reports_its_status),
        CASE(an_unrequested_signal_is_a_failure),
        CASE(a_program_that_is_not_there_fails_with_127),
        CASE(a_text_file_without_an_interpreter_line_is_not_run),
        CASE(out_of_memory_is_recognised_by_the_last_output),
        CASE(output_of_an_earlier_attempt_does_not_mean_out_of_memory),
        CASE(a_successful_job_may_print_out_of_memory),
        CASE(sigusr1_reaches_all_workers_and_they_leave),
        CASE(a_worker_without_a_handler_is_asked_when_it_has_one),
        CASE(a_worker_without_a_handler_gets_sigterm_after_the_grace),
        CASE(a_worker_that_ignores_sigterm_is_killed_after_the_grace),
        CASE(all_descendants_die_also_in_another_session),
        CASE(processes_left_by_workers_are_ended_and_do_not_change_the_end),
        CASE(a_control_group_is_used_where_it_can_be),
        CASE(a_fence_above_it_refuses_a_late_shepherd),
        CASE(no_worker_starts_while_the_lock_is_held),
        CASE(an_attempt_is_not_run_twice),
        CASE(workers_keep_the_lock_when_their_shepherd_is_killed),
        CASE(a_bad_launch_file_starts_nothing),
        CASE(a_request_before_the_start_starts_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
