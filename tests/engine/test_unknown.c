/* test_unknown.c - files of a job that cannot be read, are damaged or deleted.
 *
 * What cannot be read decides nothing; what was deleted or damaged is not taken
 * for a job that was never started; a job has one attempt at a time whatever
 * became of its files. Descriptors are made short by the limit of this process:
 * each number of free ones is tried, so that each open fails once.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "engine/attemptfiles.h"
#include "engine/herd.h"
#include "engine/localwork.h"
#include "lib/alloc_text.h"
#include "lib/fakeslurm.h"
#include "lib/folder.h"
#include "lib/livehost.h"
#include "lib/workers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FREE_MAX = 6, LOOKS = 24000 };

static struct livehost host;
static struct rlimit usual;

/* Lets this process open only `n` more descriptors. */
static void leave_free(int n)
{
    int fds[FREE_MAX] = {0}, nfds = 0;
    struct rlimit few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    while (nfds <= n)
        assert_true((fds[nfds++] = open("/dev/null", O_RDONLY)) >= 0);
    few = usual;
    few.rlim_cur = (rlim_t)fds[n]; /* holes below it were filled first */
    while (nfds > 0)
        close(fds[--nfds]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
}

static void leave_all(void)
{
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
}

static struct attempt_pid shepherd_of(int64_t attempt)
{
    struct attempt_pid pid = {0};
    int folder = attempt_folder(host.jobs[0].folder, attempt, false);
    assert_int_equal(attempt_pid_get(folder, &pid), ATTEMPT_PRESENT);
    close(folder);
    return pid;
}

/* Job 0 has one worker that waits until it is asked to end. */
static pid_t start(const char *work)
{
    pid_t pids[8];
    size_t before = workers_ready(folder_file("ready"));
    livehost_work(&host, 0, work, folder_file("ready"));
    livehost_step(&host, 0, "n0[0]");
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    workers_await(folder_file("ready"), before + 1);
    assert_int_equal(workers_pids(folder_file("ready"), pids, 8), before + 1);
    return pids[before];
}

static void restart_engine(void)
{
    struct livehost_job job = host.jobs[0];
    livehost_close(&host);
    livehost_open(&host, "local", "2x4:v100");
    livehost_work(&host, 0, "obey", folder_file("ready"));
    host.jobs[0].grace_s = job.grace_s;
}

/* Also one that was asked before. */
static void await_phase(enum firn_phase phase)
{
    for (int i = 0; i < LOOKS && livehost_phase(&host, 0) != phase &&
                    !livehost_has_seen(&host, "LEFT");
         i++)
        livehost_pass_ms(&host, 5);
    if (livehost_phase(&host, 0) != phase)
        fail_msg("phase %d, seen: %s", (int)livehost_phase(&host, 0),
                 host.seen);
}

static void await_no_shepherd(const struct attempt_pid *pid)
{
    for (int i = 0; i < LOOKS && procs_start((pid_t)pid->pid) == pid->start;
         i++)
        poll(NULL, 0, 5);
}

static void an_end_that_cannot_be_read_now_is_read_later(void **state)
{
    (void)state;
    for (int n = 0; n < FREE_MAX; n++) {
        start("obey");
        struct attempt_pid pid = shepherd_of(livehost_attempt(&host, 0));
        host.seen[0] = '\0';
        kill((pid_t)pid.pid, SIGTERM); /* it ends, KILLED and not planned */
        await_no_shepherd(&pid);
        leave_free(n);
        livehost_pass_ms(&host, 60);
        leave_all();
        char end[32]; /* it may have been read with what was left */
        snprintf(end, sizeof end, "FAIL 0.%d=%d", n + 1, 128 + SIGTERM);
        if (!livehost_has_seen(&host, end))
            livehost_await(&host, FIRN_EVENT_FAIL, 0);
        assert_true(livehost_has_seen(&host, end));
        assert_false(livehost_has_seen(&host, "LEFT"));
        assert_int_equal(livehost_attempt(&host, 0), n + 1);
        remove(folder_file("ready"));
    }
}

static void a_running_job_is_kept_when_descriptors_are_short(void **state)
{
    (void)state;
    pid_t worker = start("obey");
    for (int n = 0; n < FREE_MAX; n++) {
        restart_engine();
        host.seen[0] = '\0';
        struct firn_job *job = &host.jobs[0].job;
        job->held = alloc_read("n0[0]", &host.text);
        leave_free(n);
        assert_int_equal(host.engine->adopt(host.state, job, 1, &host.err),
                         FIRN_OK);
        livehost_pass_ms(&host, 60);
        leave_all();
        await_phase(FIRN_PHASE_RUNNING);
        assert_false(livehost_has_seen(&host, "LEFT"));
        assert_false(livehost_has_seen(&host, "FAIL"));
        assert_false(workers_is_gone(worker));
        assert_int_equal(livehost_attempt(&host, 0), 1);
    }
}

/* A folder in the place of the exit file: it opens, and reading it fails. */
static void hide_exit(bool is_hidden)
{
    char path[400], aside[420];
    snprintf(path, sizeof path, "%s/epoch-1/exit", host.jobs[0].folder);
    snprintf(aside, sizeof aside, "%s.aside", path);
    if (is_hidden) {
        for (int i = 0; i < LOOKS && access(path, F_OK) != 0; i++)
            poll(NULL, 0, 5);
        assert_int_equal(rename(path, aside), 0);
        assert_int_equal(mkdir(path, 0700), 0);
    } else {
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(rename(aside, path), 0);
    }
}

static void an_exit_that_cannot_be_read_is_waited_for(void)
{
    start("obey");
    struct attempt_pid pid = shepherd_of(1);
    host.seen[0] = '\0';
    kill((pid_t)pid.pid, SIGUSR1); /* it writes a checkpoint and leaves */
    hide_exit(true);
    await_no_shepherd(&pid);
    livehost_pass_ms(&host, 1000);
    assert_string_equal(host.seen, "");
    hide_exit(false);
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.end, FIRN_END_CHECKPOINT);
    assert_int_equal(left.attempt, 1);
}

static void an_exit_that_cannot_be_read_decides_nothing(void **state)
{
    (void)state;
    an_exit_that_cannot_be_read_is_waited_for();
}

static void
an_unreadable_exit_file_decides_nothing_when_slurm_says_over(void **state)
{
    livehost_tear_down(&host, state);
    assert_int_equal(livehost_set_up(&host, "slurm", "", state), 0);
    an_exit_that_cannot_be_read_is_waited_for();
}

/* --- deleted -------------------------------------------------------------- */

/* `what` below the job's folder; "": all of it. */
static void delete (const char *what)
{
    char command[700];
    snprintf(command, sizeof command, "rm -rf -- '%s'%s%s", host.jobs[0].folder,
             what[0] != '\0' ? "/" : "", what);
    assert_int_equal(system(command), 0);
}

static void
a_job_that_deletes_its_files_is_not_started_beside_itself(void **state)
{
    (void)state;
    static const char *const whats[] = {"", "lock", "epoch-1", "epoch-1/pid",
                                        "lock fence epoch-1"};
    for (size_t i = 0; i < sizeof whats / sizeof *whats; i++) {
        pid_t worker = start("obey");
        struct attempt_pid pid = shepherd_of(livehost_attempt(&host, 0));
        char what[64];
        if (strcmp(whats[i], "lock fence epoch-1") == 0) {
            delete ("lock");
            delete ("fence");
        }
        snprintf(what, sizeof what, "%s",
                 strchr(whats[i], ' ') != NULL ? "epoch-1" : whats[i]);
        char *number = strchr(what, '1'); /* of this start */
        if (number != NULL)
            *number = (char)('0' + livehost_attempt(&host, 0));
        delete (what);
        restart_engine();
        host.seen[0] = '\0';
        assert_int_equal(livehost_adopt(&host, 0, "n0[0]"), FIRN_OK);
        await_phase(FIRN_PHASE_RUNNING);
        livehost_pass_ms(&host, 50);
        assert_false(workers_is_gone(worker));
        assert_int_equal(workers_ready(folder_file("ready")), 1);
        assert_int_equal(livehost_attempt(&host, 0), pid.attempt);
        livehost_step(&host, 0, ""); /* it can still be asked to leave */
        await_phase(FIRN_PHASE_GONE);
        assert_true(workers_is_gone(worker));
        remove(folder_file("ready"));
    }
}

static void an_attempt_with_deleted_files_ends_as_lost(void **state)
{
    (void)state;
    pid_t worker = start("wait");
    struct attempt_pid pid = shepherd_of(1);
    delete ("");
    restart_engine();
    assert_int_equal(livehost_adopt(&host, 0, "n0[0]"), FIRN_OK);
    await_phase(FIRN_PHASE_RUNNING);
    kill((pid_t)pid.pid, SIGTERM);
    struct firn_event end = livehost_await(&host, FIRN_EVENT_FAIL, 0);
    assert_int_equal(end.end, FIRN_END_LOST);
    assert_true(workers_is_gone(worker));
    assert_int_equal(livehost_attempt(&host, 0), 1);
}

/* Before the engine has looked once. */
static void a_job_that_deletes_its_files_at_once_is_running(void **state)
{
    (void)state;
    pid_t pids[2];
    livehost_work(&host, 0, "obey", folder_file("ready"));
    livehost_step(&host, 0, "n0[0]");
    workers_await(folder_file("ready"), 1);
    delete ("");
    const struct local *engine = host.state;
    assert_int_equal(roster_find(&engine->roster, 0)->phase,
                     FIRN_PHASE_STARTING);
    await_phase(FIRN_PHASE_RUNNING);
    assert_int_equal(workers_pids(folder_file("ready"), pids, 2), 1);
    assert_false(workers_is_gone(pids[0]));
    assert_int_equal(livehost_attempt(&host, 0), 1);
    livehost_step(&host, 0, ""); /* no file of it is left to find it by */
    await_phase(FIRN_PHASE_GONE);
}

/* Its shepherd is killed, its files are gone, and descendants of it live on. */
static void orphans_without_files_are_killed_before_a_start(void **state)
{
    (void)state;
    pid_t pids[4];
    livehost_work(&host, 0, "tree", folder_file("ready"));
    livehost_step(&host, 0, "n0[0]");
    workers_await(folder_file("ready"), 3);
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    struct attempt_pid pid = shepherd_of(1);
    kill((pid_t)pid.pid, SIGKILL);
    await_no_shepherd(&pid);
    delete ("");
    restart_engine();
    assert_int_equal(livehost_adopt(&host, 0, "n0[0]"), FIRN_OK);
    struct firn_event end = livehost_await(&host, FIRN_EVENT_FAIL, 0);
    assert_int_equal(end.end, FIRN_END_LOST);
    assert_int_equal(workers_pids(folder_file("ready"), pids, 4), 3);
    for (int i = 0; i < 3; i++)
        assert_true(workers_is_gone(pids[i]));
}

/* A process of the job that no attempt accounts for: as after a database was
 * restored from a backup. */
static void
a_job_waits_for_marked_processes_of_it_before_it_starts(void **state)
{
    (void)state;
    char mark[HERD_TEXT];
    herd_worker(mark, host.mark, 0, 7);
    pid_t old = fork();
    assert_true(old >= 0);
    if (old == 0) {
        char *const argv[] = {"sleep", "600", NULL}, *const env[] = {mark,
                                                                     NULL};
        execve("/bin/sleep", argv, env);
        execve("/usr/bin/sleep", argv, env);
        _exit(127);
    }
    for (int i = 0; i < LOOKS && procs_has_variable(old, mark) != 1; i++)
        poll(NULL, 0, 5);
    livehost_work(&host, 0, "exit", "0");
    livehost_step(&host, 0, "n0[0]");
    int status = 0;
    for (int i = 0; i < LOOKS && waitpid(old, &status, WNOHANG) == 0 &&
                    !livehost_has_seen(&host, "DONE");
         i++)
        livehost_pass_ms(&host, 5);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    livehost_await(&host, FIRN_EVENT_DONE, 0);
}

static void a_job_of_another_state_folder_is_left_alone(void **state)
{
    (void)state;
    char mark[HERD_TEXT];
    herd_worker(mark, "0123456789abcdef", 0, 7);
    pid_t other = fork();
    assert_true(other >= 0);
    if (other == 0) {
        char *const argv[] = {"sleep", "600", NULL}, *const env[] = {mark,
                                                                     NULL};
        execve("/bin/sleep", argv, env);
        execve("/usr/bin/sleep", argv, env);
        _exit(127);
    }
    livehost_work(&host, 0, "exit", "0");
    livehost_step(&host, 0, "n0[0]");
    livehost_await(&host, FIRN_EVENT_DONE, 0);
    assert_int_equal(waitpid(other, NULL, WNOHANG), 0);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
}

/* --- damaged -------------------------------------------------------------- */

static void write_over(const char *name, const char *text)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", host.jobs[0].folder, name);
    unlink(path);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static void damaged_files_are_not_a_job_that_never_started(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
    } cases[] = {{"exit", ""},
                 {"exit", "firn-exit 1 99 0 0\n"},
                 {"exit", "firn-exit 2 1 0 0\n"},
                 {"exit", "nonsense"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[64];
        start("obey");
        struct attempt_pid pid = shepherd_of(livehost_attempt(&host, 0));
        kill((pid_t)pid.pid, SIGTERM);
        await_no_shepherd(&pid);
        snprintf(name, sizeof name, "epoch-%lld/%s", (long long)pid.attempt,
                 cases[i].name);
        write_over(name, cases[i].text);
        snprintf(name, sizeof name, "epoch-%lld/pid", (long long)pid.attempt);
        write_over(name, "firn-pid 1");
        restart_engine();
        assert_int_equal(livehost_adopt(&host, 0, "n0[0]"), FIRN_OK);
        struct firn_event end = livehost_await(&host, FIRN_EVENT_FAIL, 0);
        assert_int_equal(end.end, FIRN_END_LOST);
        assert_int_equal(livehost_attempt(&host, 0), i + 1);
        remove(folder_file("ready"));
    }
}

static void a_link_in_place_of_a_file_is_not_followed(void **state)
{
    (void)state;
    struct attempt_exit how;
    struct attempt_pid pid;
    struct firn_error err = {0};
    int folder = attempt_folder(folder_path(), 1, true);
    assert_true(folder >= 0);
    write_over("../victim", "firn-exit 1 1 0 0\n");
    assert_int_equal(symlinkat(folder_file("victim"), folder, "exit"), 0);
    assert_int_equal(symlinkat(folder_file("victim"), folder, "pid.draft"), 0);
    assert_int_equal(attempt_exit_get(folder, &how), ATTEMPT_DAMAGED);
    pid = (struct attempt_pid){1, getpid(), 1};
    assert_int_equal(attempt_pid_put(folder, &pid, &err), FIRN_EIO);
    assert_int_equal(attempt_pid_get(folder, &pid), ATTEMPT_ABSENT);
    close(folder);
    assert_int_equal(symlink(folder_path(), folder_file("linked")), 0);
    assert_int_equal(attempt_above(folder_file("linked")), -1);
    assert_int_equal(attempt_missing(errno), ATTEMPT_ABSENT);
}

static void only_enoent_and_enotdir_mean_absent(void **state)
{
    (void)state;
    assert_int_equal(attempt_missing(ENOENT), ATTEMPT_ABSENT);
    assert_int_equal(attempt_missing(ENOTDIR), ATTEMPT_ABSENT);
    assert_int_equal(attempt_missing(ELOOP), ATTEMPT_DAMAGED);
    static const int others[] = {EMFILE, ENFILE, EIO,    EACCES,
                                 EPERM,  EINTR,  ENOMEM, ESTALE};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(attempt_missing(others[i]), ATTEMPT_UNKNOWN);
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
    int code = fakeslurm_main(argc, argv);
    if (code < 0)
        code = workers_main(argc, argv);
    if (code >= 0)
        return code;
    const struct CMUnitTest tests[] = {
        CASE(an_end_that_cannot_be_read_now_is_read_later),
        CASE(a_running_job_is_kept_when_descriptors_are_short),
        CASE(an_exit_that_cannot_be_read_decides_nothing),
        CASE(an_unreadable_exit_file_decides_nothing_when_slurm_says_over),
        CASE(a_job_that_deletes_its_files_is_not_started_beside_itself),
        CASE(a_job_that_deletes_its_files_at_once_is_running),
        CASE(an_attempt_with_deleted_files_ends_as_lost),
        CASE(orphans_without_files_are_killed_before_a_start),
        CASE(a_job_waits_for_marked_processes_of_it_before_it_starts),
        CASE(a_job_of_another_state_folder_is_left_alone),
        CASE(damaged_files_are_not_a_job_that_never_started),
        CASE(a_link_in_place_of_a_file_is_not_followed),
        cmocka_unit_test(only_enoent_and_enotdir_mean_absent),
    };
    return cmocka_run_group_tests_name("unknown", tests, NULL, NULL);
}
