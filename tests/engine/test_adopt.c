/* test_adopt.c - a local engine that was killed, and the next one. */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/failpoint.h"
#include "base/rng.h"
#include "engine/attemptfiles.h"
#include "engine/cgroup.h"
#include "engine/localwork.h"
#include "lib/folder.h"
#include "lib/livehost.h"
#include "lib/workers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct livehost host;

/* Another process runs the engine until `after` processes are ready, or until
 * its failpoint, and is killed. */
static void run_and_kill(const char *what, size_t after, const char *point)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct livehost other;
        char work[600];
        if (point != NULL)
            setenv("FIRN_FAILPOINT", point, 1);
        failpoint_reset();
        livehost_open(&other, "local", "2x4:v100");
        snprintf(work, sizeof work, "%s %s", what, folder_file("ready"));
        livehost_job(&other, 0, work);
        livehost_step(&other, 0, "n0[0-1]");
        if (point == NULL)
            workers_await(folder_file("ready"), after);
        else
            livehost_await(&other, FIRN_EVENT_DONE, 0);
        kill(getpid(), SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    livehost_work(&host, 0, what, folder_file("ready"));
}

static void a_running_job_is_taken_over_and_can_be_stopped(void **state)
{
    (void)state;
    pid_t pids[4];
    run_and_kill("obey", 2, NULL);
    assert_int_equal(livehost_adopt(&host, 0, "n0[0-1]"), FIRN_OK);
    assert_int_equal(livehost_phase(&host, 0), FIRN_PHASE_RUNNING);
    livehost_work(&host, 1, "exit", "0");
    livehost_step(&host, 1, "n0[1]"); /* its GPUs are its own */
    livehost_drain(&host);
    assert_int_equal(livehost_phase(&host, 1), FIRN_PHASE_QUEUED);
    assert_int_equal(workers_pids(folder_file("ready"), pids, 4), 2);
    assert_false(workers_is_gone(pids[0])); /* the very same processes */
    livehost_step(&host, 0, "");
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.end, FIRN_END_CHECKPOINT);
    assert_int_equal(left.attempt, 1);
    livehost_await(&host, FIRN_EVENT_DONE, 1);
}

static void an_end_while_the_engine_was_down_becomes_an_event(void **state)
{
    (void)state;
    pid_t pids[4];
    run_and_kill("obey", 2, NULL);
    assert_int_equal(workers_pids(folder_file("ready"), pids, 4), 2);
    kill(pids[0], SIGUSR1);
    kill(pids[1], SIGUSR1);
    int above = -1, lock = -1; /* all of it is gone when the lock is free */
    above = open(host.jobs[0].folder, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 24000 && (lock = attempt_lock(above)) < 0; i++)
        poll(NULL, 0, 5);
    assert_true(lock >= 0);
    close(lock);
    close(above);
    assert_int_equal(livehost_adopt(&host, 0, "n0[0-1]"), FIRN_OK);
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.end, FIRN_END_CHECKPOINT);
    livehost_await_phase(&host, FIRN_PHASE_STARTING, 0); /* still wanted */
    workers_await(folder_file("ready"), 4);
}

static void a_shepherd_killed_with_the_engine_is_lost(void **state)
{
    (void)state;
    struct attempt_pid pid;
    run_and_kill("wait", 2, NULL);
    int folder = attempt_folder(host.jobs[0].folder, 1, false);
    assert_true(attempt_pid_get(folder, &pid));
    close(folder);
    kill((pid_t)pid.pid, SIGKILL);
    assert_int_equal(livehost_adopt(&host, 0, "n0[0-1]"), FIRN_OK);
    struct firn_event end = livehost_await(&host, FIRN_EVENT_FAIL, 0);
    assert_int_equal(end.end, FIRN_END_LOST);
    pid_t pids[4];
    assert_int_equal(workers_pids(folder_file("ready"), pids, 4), 2);
    assert_true(workers_is_gone(pids[0]) && workers_is_gone(pids[1]));
}

/* Killed between the number and the shepherd: nothing ran, nothing will. */
static void an_attempt_that_never_started_is_fenced_off(void **state)
{
    (void)state;
    static const char *const points[] = {
        "engine.number.after", "engine.launch.after", "engine.fence.after",
        "engine.fork.before"};
    for (int i = 0; i < 4; i++) {
        run_and_kill("exit", 0, points[i]);
        host.jobs[0].argv[3] = "0";
        host.seen[0] = '\0';
        int64_t attempt = livehost_attempt(&host, 0);
        assert_int_equal(attempt, 2 * i + 1);
        assert_int_equal(livehost_adopt(&host, 0, "n0[0]"), FIRN_OK);
        struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
        assert_int_equal(left.end, FIRN_END_LOST);
        assert_int_equal(left.attempt, attempt);
        struct firn_event end = livehost_await(&host, FIRN_EVENT_DONE, 0);
        assert_int_equal(end.attempt, attempt + 1);
        int above = open(host.jobs[0].folder, O_RDONLY | O_DIRECTORY);
        int64_t fence = 0;
        assert_int_equal(attempt_fence(above, &fence), ATTEMPT_PRESENT);
        assert_true(fence > attempt);
        close(above);
    }
}

/* Killed just after the shepherd was spawned: whatever that one is at, it runs
 * once, and is taken over or found to have ended. */
static void a_shepherd_spawned_last_of_all_runs_once(void **state)
{
    (void)state;
    run_and_kill("obey", 0, "engine.fork.after");
    assert_int_equal(livehost_adopt(&host, 0, "n0[0-1]"), FIRN_OK);
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    workers_await(folder_file("ready"), 2);
    livehost_drain(&host);
    pid_t pids[8];
    assert_int_equal(workers_pids(folder_file("ready"), pids, 8), 2);
    livehost_step(&host, 0, "");
    livehost_await(&host, FIRN_EVENT_LEFT, 0);
}

static void a_job_without_a_record_cannot_be_taken_over(void **state)
{
    (void)state;
    run_and_kill("exit", 0, "engine.fork.before");
    host.jobs[0].argv[0] = NULL;
    assert_int_equal(livehost_adopt(&host, 0, "n0[0]"), FIRN_ENOENT);
    assert_int_equal(livehost_phase(&host, 0), FIRN_PHASE_GONE);
}

/* Its environment is longer than any piece that is read at once. */
static char large[2][100000];

static void orphans_are_gone_before_their_gpu_is_free(const char *what)
{
    struct attempt_pid pid;
    pid_t pids[4];
    livehost_work(&host, 0, what, folder_file("ready"));
    for (int i = 0; i < 2; i++) {
        memset(large[i], 'x', sizeof large[i] - 1);
        large[i][0] = (char)('A' + i);
        large[i][1] = '=';
        host.jobs[0].env[i] = large[i];
    }
    livehost_work(&host, 1, "exit", "0");
    livehost_step(&host, 0, "n0[0]");
    workers_await(folder_file("ready"), 3);
    livehost_step(&host, 1, "n0[0]");
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    int folder = attempt_folder(host.jobs[0].folder, 1, false);
    assert_true(attempt_pid_get(folder, &pid));
    close(folder);
    assert_int_equal(workers_pids(folder_file("ready"), pids, 4), 3);
    kill((pid_t)pid.pid, SIGKILL);
    struct firn_event end = livehost_await(&host, FIRN_EVENT_FAIL, 0);
    assert_int_equal(end.end, FIRN_END_LOST);
    for (int i = 0; i < 3; i++)
        assert_true(workers_is_gone(pids[i]));
    int held = open(folder_file("ready.held"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(flock(held, LOCK_EX | LOCK_NB), 0);
    close(held);
    livehost_await(&host, FIRN_EVENT_DONE, 1);
}

/* Orphans of a dead shepherd are found by the lock that they have. */
static void orphans_are_killed_and_only_then_are_gpus_free(void **state)
{
    (void)state;
    orphans_are_gone_before_their_gpu_is_free("clan");
}

/* Those that closed it, as daemons and what Python starts do, by what they were
 * started with. */
static void orphans_without_the_lock_file_are_found(void **state)
{
    (void)state;
    orphans_are_gone_before_their_gpu_is_free("tree");
}

static void orphans_whose_first_thread_ended_are_found(void **state)
{
    (void)state;
    orphans_are_gone_before_their_gpu_is_free("headless");
}

/* Those that have nothing of ours are in their control group, if there is one.
 */
static void orphans_without_marks_are_found_by_their_control_group(void **state)
{
    (void)state;
    struct cgroup cgroup;
    char name[CGROUP_NAME];
    cgroup_name(name, 0, 0, getpid()); /* not used by any attempt */
    if (!cgroup_open(&cgroup, CGROUP_ON, name)) {
        print_message("no control group can be made here: skipped\n");
        skip();
    }
    char path[sizeof cgroup.path];
    memcpy(path, cgroup.path, sizeof path);
    mkdirat(cgroup.folder, "inner", 0700); /* as the job itself may */
    cgroup_close(&cgroup);
    assert_int_equal(access(path, F_OK), -1);
    ((struct local *)host.state)->cgroup = CGROUP_ON;
    orphans_are_gone_before_their_gpu_is_free("bare");
}

/* Wherever a shepherd dies, the engine finds out what that means. */
static void
the_end_of_a_killed_shepherd_follows_from_where_it_died(void **state)
{
    (void)state;
    static const struct {
        const char *point;
        enum firn_event_kind kind;
        enum firn_end end;
    } cases[] = {
        {"shepherd.lock.after", FIRN_EVENT_LEFT, FIRN_END_LOST},
        {"engine.rename.before:1", FIRN_EVENT_LEFT, FIRN_END_LOST}, /* pid */
        {"shepherd.pid.after", FIRN_EVENT_FAIL, FIRN_END_LOST},
        {"shepherd.fork.after", FIRN_EVENT_FAIL, FIRN_END_LOST},
        {"shepherd.exit.before", FIRN_EVENT_FAIL, FIRN_END_LOST},
        {"engine.rename.before:2", FIRN_EVENT_FAIL, FIRN_END_LOST}, /* exit */
        {"shepherd.exit.after", FIRN_EVENT_DONE, FIRN_END_DONE},
    };
    failpoint("test"); /* this process has looked, and dies nowhere */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("FIRN_FAILPOINT", cases[i].point, 1);
        livehost_work(&host, 0, "exit", "0");
        livehost_step(&host, 0, "n0[0]");
        struct firn_event end = livehost_await(&host, cases[i].kind, 0);
        assert_int_equal(end.end, cases[i].end);
        unsetenv("FIRN_FAILPOINT");
        if (end.kind == FIRN_EVENT_LEFT) /* started again by itself */
            assert_int_equal(livehost_await(&host, FIRN_EVENT_DONE, 0).attempt,
                             end.attempt + 1);
        assert_int_equal(livehost_phase(&host, 0), FIRN_PHASE_GONE);
    }
}

/* A stopped shepherd forwards no signals. */
static void a_shepherd_that_hangs_is_killed_with_its_workers(void **state)
{
    (void)state;
    struct attempt_pid pid;
    pid_t pids[4];
    assert_int_equal(firn_option_set(host.engine->options, host.state, "local",
                                     "force-s", "0.1", &host.err),
                     FIRN_OK);
    livehost_work(&host, 0, "clan", folder_file("ready"))->grace_s = 0.05;
    livehost_step(&host, 0, "n0[0]");
    workers_await(folder_file("ready"), 3);
    int folder = attempt_folder(host.jobs[0].folder, 1, false);
    assert_true(attempt_pid_get(folder, &pid));
    close(folder);
    kill((pid_t)pid.pid, SIGSTOP);
    livehost_step(&host, 0, "");
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.end, FIRN_END_KILLED);
    assert_int_equal(left.exit_status, 128 + SIGKILL);
    assert_int_equal(workers_pids(folder_file("ready"), pids, 4), 3);
    for (int i = 0; i < 3; i++)
        assert_true(workers_is_gone(pids[i]));
}

/* It stops itself right after it wrote the exit file. */
static void a_shepherd_that_hangs_after_its_exit_file_is_killed(void **state)
{
    (void)state;
    failpoint("test"); /* this process has looked, and stops nowhere */
    assert_int_equal(firn_option_set(host.engine->options, host.state, "local",
                                     "force-s", "0", &host.err),
                     FIRN_OK);
    setenv("FIRN_FAILPOINT", "shepherd.exit.after/stop", 1);
    livehost_work(&host, 0, "exit", "3");
    livehost_step(&host, 0, "n0[0]");
    struct firn_event end = livehost_await(&host, FIRN_EVENT_FAIL, 0);
    unsetenv("FIRN_FAILPOINT");
    assert_int_equal(end.end, FIRN_END_FAILED);
    assert_int_equal(end.exit_status, 3);
    assert_int_equal(livehost_phase(&host, 0), FIRN_PHASE_GONE);
}

static void use_shepherd(const char *path)
{
    assert_int_equal(firn_option_set(host.engine->options, host.state, "local",
                                     "shepherd", path, &host.err),
                     FIRN_OK);
}

/* One that does nothing, as on a machine that does nothing for long: its time
 * is over. */
static pid_t start_slowly(void)
{
    struct local *engine = host.state;
    pid_t pids[2];
    FILE *out = fopen(folder_file("slow"), "w");
    fprintf(out, "#!/bin/sh\nexec %s --work wait %s\n", workers_program(),
            folder_file("ready"));
    fclose(out);
    chmod(folder_file("slow"), 0700);
    use_shepherd(folder_file("slow"));
    livehost_work(&host, 0, "exit", "0");
    livehost_step(&host, 0, "n0[0]");
    workers_await(folder_file("ready"), 1);
    livehost_drain(&host);
    roster_find(&engine->roster, 0)->until_s = 0;
    engine->has_changes = engine->is_stale = true;
    assert_int_equal(workers_pids(folder_file("ready"), pids, 2), 1);
    return pids[0];
}

static void is_made_again(void)
{
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.end, FIRN_END_LOST);
    use_shepherd(workers_program());
    assert_int_equal(livehost_await(&host, FIRN_EVENT_DONE, 0).attempt, 2);
}

static void a_start_that_takes_too_long_is_killed_and_repeated(void **state)
{
    (void)state;
    pid_t slow = start_slowly();
    is_made_again();
    workers_await_gone(slow);
}

/* It comes to run when its end has been decided. */
static void a_start_killed_just_as_it_succeeds_is_repeated(void **state)
{
    (void)state;
    pid_t slow = start_slowly();
    struct attempt_pid pid = {1, slow, procs_start(slow)};
    livehost_drain(&host);
    int folder = attempt_folder(host.jobs[0].folder, 1, false);
    assert_int_equal(attempt_pid_put(folder, &pid, &host.err), FIRN_OK);
    close(folder);
    is_made_again();
}

static const char *const places[] = {"n0[0-1]", "n1[0-2]", "n0[0] n1[3]",
                                     "n0[2-3]"};

/* An engine's process: takes over what the last one left, moves the job, and
 * lives until it is killed. */
static void live(int cycle, const char *lock)
{
    struct livehost *h = &host;
    char work[900];
    snprintf(work, sizeof work, "alone %s %s", folder_file("ready"), lock);
    livehost_job(h, 0, work);
    if (livehost_attempt(h, 0) > 0)
        livehost_adopt(h, 0, places[(cycle + 3) % 4]);
    livehost_step(h, 0, places[cycle % 4]);
    struct firn_event event;
    for (;;)
        h->engine->next(h->state, h->engine->now_s(h->state) + 60, &event,
                        &h->err);
}

/* Each rank holds a lock of its own that another attempt would find. */
static void engines_killed_at_any_moment_never_run_a_job_twice(void **state)
{
    (void)state;
    struct rng rng;
    char lock[400];
    int n = getenv("FIRN_QUICK") != NULL ? 4 : 10;
    uint64_t seed = (uint64_t)getpid();
    rng_seed(&rng, seed);
    snprintf(lock, sizeof lock, "%s", folder_file("turn"));
    livehost_work(&host, 0, "alone", folder_file("ready"));
    for (int i = 0; i < n; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            live(i, lock);
        for (int k = 0; k < 24000 && livehost_attempt(&host, 0) == 0; k++)
            poll(NULL, 0, 5); /* the first lives until there is an attempt */
        poll(NULL, 0, (int)rng_below(&rng, 120));
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    char work[900];
    snprintf(work, sizeof work, "alone %s %s", folder_file("ready"), lock);
    livehost_job(&host, 0, work);
    assert_int_equal(livehost_adopt(&host, 0, places[(n - 1) % 4]), FIRN_OK);
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    livehost_step(&host, 0, "");
    livehost_await(&host, FIRN_EVENT_LEFT, 0);
    while (livehost_phase(&host, 0) != FIRN_PHASE_GONE)
        livehost_await(&host, FIRN_EVENT_LEFT, 0);
    struct firn_buf text = {0};
    int top = open(folder_path(), O_RDONLY | O_DIRECTORY);
    attempt_get(top, "ready", &text);
    close(top);
    if (text.n > 0 && strstr(text.at, "TWICE") != NULL)
        fail_msg("seed %llu: two attempts at once:\n%s",
                 (unsigned long long)seed, text.at);
    buf_release(&text);
    pid_t pids[64];
    size_t npids = workers_pids(folder_file("ready"), pids, 64);
    for (size_t i = 0; i < npids; i++)
        assert_true(workers_is_gone(pids[i]));
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
    int code = workers_main(argc, argv);
    if (code >= 0)
        return code;
    const struct CMUnitTest tests[] = {
        CASE(a_running_job_is_taken_over_and_can_be_stopped),
        CASE(an_end_while_the_engine_was_down_becomes_an_event),
        CASE(a_shepherd_killed_with_the_engine_is_lost),
        CASE(an_attempt_that_never_started_is_fenced_off),
        CASE(a_shepherd_spawned_last_of_all_runs_once),
        CASE(a_job_without_a_record_cannot_be_taken_over),
        CASE(the_end_of_a_killed_shepherd_follows_from_where_it_died),
        CASE(engines_killed_at_any_moment_never_run_a_job_twice),
        CASE(a_shepherd_that_hangs_is_killed_with_its_workers),
        CASE(a_shepherd_that_hangs_after_its_exit_file_is_killed),
        CASE(a_start_that_takes_too_long_is_killed_and_repeated),
        CASE(a_start_killed_just_as_it_succeeds_is_repeated),
        CASE(orphans_are_killed_and_only_then_are_gpus_free),
        CASE(orphans_without_the_lock_file_are_found),
        CASE(orphans_whose_first_thread_ended_are_found),
        CASE(orphans_without_marks_are_found_by_their_control_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
