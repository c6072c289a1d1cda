/* shepherd.c - the whole life of a shepherd: enter, start, watch, leave.
 *
 *   enter   takes the lock, checks the fence, opens the log; else starts
 * nothing start   starts the workers (shepherd_start.c) watch   handles signals
 * and ends of children until none is left leave   writes the exit file; the
 * lock is freed by the end of the process
 *
 * Invariants:
 * (1) nothing is started without the lock and a fence at or below the attempt;
 * (2) the exit file is written when no descendant is left, never before: this
 *     process adopts every orphan below it (child subreaper), so "no child
 *     left" means no descendant left, also none in a session of its own;
 * (3) a signal is sent only to descendants of this process.
 *
 * Cost: asleep between events; reads /proc only while a job leaves.
 */
#define _GNU_SOURCE
#include "engine/shepherd.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "engine/procs.h"
#include "engine/shepherdwork.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <firn/launch.h>
#include <firn/report.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double lock_wait_s = 10;
static const double write_again_s = 60;

/* Waits for the lock: a process that tests the lock holds it for a moment. */
static int take_lock(struct shepherd *s)
{
    double until_s = clock_elapsed_s() + lock_wait_s;
    for (;;) {
        int lock = s->parked != NULL ? attempt_lock_opened(s->above, s->lock)
                                     : attempt_lock(s->above);
        if (lock >= 0) {
            s->lock = lock;
            return SHEPHERD_OVER;
        }
        if (lock == -2)
            return SHEPHERD_IO;
        int64_t fence = 0;
        if (attempt_fence(s->above, &fence) == ATTEMPT_PRESENT &&
            fence > s->launch.attempt)
            return SHEPHERD_FENCED;
        if (clock_elapsed_s() >= until_s)
            return SHEPHERD_LOCKED;
        shepherd_pause(0.005);
    }
}

/* Waits until no worker of an earlier attempt is left. */
static int wait_for_workers(const struct shepherd *s)
{
    double until_s = clock_elapsed_s() + lock_wait_s;
    for (;;) {
        int lock = attempt_workers_lock(s->above, false);
        if (lock >= 0)
            close(lock);
        if (lock != -1)
            return lock >= 0 ? SHEPHERD_OVER : SHEPHERD_IO;
        if (clock_elapsed_s() >= until_s)
            return SHEPHERD_LOCKED;
        shepherd_pause(0.02);
    }
}

/* Opens the log, unless workers were prepared: they write to it already. */
static int open_log(struct shepherd *s)
{
    struct firn_error err = {0};
    if (s->output.in >= 0)
        return SHEPHERD_OVER;
    enum firn_status status =
        joblog_open(&s->output, s->launch.log, s->launch.log_max_bytes, &err);
    s->log = s->output.out;
    if (status == FIRN_EIO)
        return SHEPHERD_IO;
    if (status == FIRN_EINVAL) { /* not a plain file: the job fails */
        dprintf(2, "%s\n", err.text);
        s->bad_status = JOBLOG_REFUSED;
    }
    return SHEPHERD_OVER;
}

/* With the folder and the launch file open. */
static int enter(struct shepherd *s)
{
    int code = take_lock(s);
    if (code == SHEPHERD_OVER && s->kind == SHEPHERD_SLURM)
        code = wait_for_workers(s);
    failpoint("shepherd.lock.after");
    if (code == SHEPHERD_OVER)
        code = shepherd_check_fence(s);
    if (code != SHEPHERD_OVER)
        return code;
    setsid(); /* fails if the engine has made the session */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        return SHEPHERD_IO;
    code = open_log(s);
    if (code != SHEPHERD_OVER)
        return code;
    s->kernel = shepherd_kernel(); /* before the kills are counted */
    s->ooms = shepherd_ooms();
    struct attempt_pid pid = {s->launch.attempt, s->self, procs_start(s->self)};
    bool is_good = attempt_exit_reserve(s->folder, NULL) == FIRN_OK &&
                   attempt_pid_put(s->folder, &pid, NULL) == FIRN_OK;
    failpoint("shepherd.pid.after");
    return is_good ? SHEPHERD_OVER : SHEPHERD_IO;
}

static int leave(struct shepherd *s)
{
    struct attempt_exit result = shepherd_verdict(s);
    double until_s = clock_elapsed_s() + write_again_s;
    static const char *const verbs[] = {[FIRN_END_FAILED] = "failed",
                                        [FIRN_END_KILLED] = "was ended",
                                        [FIRN_END_MEMORY] = "ran out of memory",
                                        [FIRN_END_LOST] = NULL};
    if (verbs[result.end] != NULL)
        shepherd_say(s, "attempt %lld %s, status %d", (long long)result.attempt,
                     verbs[result.end], result.status);
    cgroup_close(&s->cgroup);
    failpoint("shepherd.exit.before");
    while (attempt_exit_put(s->folder, &result, NULL) != FIRN_OK) {
        struct stat st; /* a deleted folder does not come back */
        bool is_deleted = fstat(s->folder, &st) == 0 && st.st_nlink == 0;
        if (is_deleted || clock_elapsed_s() >= until_s)
            return SHEPHERD_IO;
        shepherd_pause(1);
    }
    failpoint("shepherd.exit.after");
    /* The exit status of the batch step is the job's, which Slurm's accounting
     * keeps. An attempt that left as it was asked to has done what it should.
     */
    bool is_shown = s->kind == SHEPHERD_SLURM && result.status > 0 &&
                    result.status < 256 && result.end != FIRN_END_CHECKPOINT;
    return is_shown ? result.status : SHEPHERD_OVER;
}

/* The attempt, from its entry to its end. */
static int attempt(struct shepherd *s)
{
    int code = enter(s);
    if (code != SHEPHERD_OVER)
        return code;
    bool may_start = !shepherd_is_early(s) && s->bad_status < 0;
    s->start_joiner = shepherd_start_joiner;
    s->start_spare = shepherd_start_spare;
    s->start_steps = shepherd_start_steps;
    if (may_start)
        shepherd_join_open(s);
    if (may_start && s->kind == SHEPHERD_SLURM)
        shepherd_start_srun(s);
    else if (may_start) {
        shepherd_start(s);
        shepherd_spare_learn(s, &s->launch);
    } else
        shepherd_unpark(s);
    shepherd_watch(s);
    bool is_gone =
        s->workers == NULL || s->kind != SHEPHERD_SLURM || shepherd_gather(s);
    return is_gone ? leave(s) : SHEPHERD_LOCKED;
}

static void release(struct shepherd *s)
{
    shepherd_spare_end(s);
    joblog_close(&s->output);
    shepherd_join_close(s);
    mem_free(s->workers);
    mem_free(s->parked);
    launchfile_release(&s->launch);
    launchfile_release(&s->parked_launch);
}

static int run(const char *folder, enum shepherd_kind kind,
               const struct identity *user)
{
    struct shepherd s = shepherd_new(folder, kind);
    s.user = user;
    failpoint("shepherd.enter.before");
    int code = shepherd_open(&s);
    if (code == SHEPHERD_OVER)
        code = attempt(&s);
    release(&s);
    return code;
}

static int run_ahead(const char *folder)
{
    struct shepherd s = shepherd_new(folder, SHEPHERD_LOCAL);
    char path[4300];
    int code = shepherd_ahead(&s, path, sizeof path);
    if (code == SHEPHERD_OVER)
        code = attempt(&s);
    release(&s); /* prepared workers that are left die with this process */
    return code;
}

int shepherd_main(const char *folder)
{
    return run(folder, SHEPHERD_LOCAL, NULL);
}

/* Started by the launcher as root: see engine/identity.h. */
static int run_for_user(const char *own, const char *user, const char *folder)
{
    struct identity firnd, worker;
    if (!identity_read(own, &firnd) || !identity_read(user, &worker) ||
        !identity_supervise(&firnd))
        return SHEPHERD_BAD;
    return run(folder, SHEPHERD_LOCAL, &worker);
}

int shepherd_args(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--shepherd") == 0)
        return run(argv[2], SHEPHERD_LOCAL, NULL);
    if (argc == 3 && strcmp(argv[1], "--shepherd-ahead") == 0)
        return run_ahead(argv[2]);
    if (argc == 5 && strcmp(argv[1], "--shepherd-for") == 0)
        return run_for_user(argv[2], argv[3], argv[4]);
    if (argc == 3 && strcmp(argv[1], "--shepherd-slurm") == 0)
        return run(argv[2], SHEPHERD_SLURM, NULL);
    if (argc == 4 && strcmp(argv[1], "--worker") == 0)
        return shepherd_task(argv[2], argv[3], 0, 0);
    if (argc == 3 && strcmp(argv[1], "--pilot") == 0)
        return shepherd_pilot(argv[2]);
    if (argc == 6 && strcmp(argv[1], "--joiner") == 0)
        return shepherd_task(argv[2], argv[3], strtoll(argv[4], NULL, 10),
                             (size_t)strtoull(argv[5], NULL, 10));
    return -1;
}
