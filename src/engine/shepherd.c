/* shepherd.c - enter, watch, leave.
 *
 *   enter   lock, fence, log; else nothing is ever started
 *   watch   children that end and signals that come, until nobody is left
 *   leave   the exit file; the lock goes with the process
 *
 * Invariants:
 * (1) nothing is started without the lock and a fence at or below the epoch;
 * (2) the exit file is written when no descendant is left, never before: the
 *     kernel gives us every orphan below us (child subreaper), so "no child
 *     left" means that all are gone, also those in sessions of their own;
 * (3) a signal is sent only to what descends from us.
 *
 * Cost: asleep between events; a look at /proc only while a job leaves.
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
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double lock_wait_s = 10;
static const double remains_grace_s = 5; /* of those whom nobody waits for */
static const double write_again_s = 60;

void shepherd_say(const struct shepherd *s, const char *fmt, ...)
{
    char text[1024] = "firn: ";
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text + 6, sizeof text - 8, fmt, args);
    va_end(args);
    size_t size = 6 + (n < 0 ? 0 : (size_t)n);
    if (size > sizeof text - 2)
        size = sizeof text - 2;
    text[size++] = '\n';
    if (s->log >= 0 && write(s->log, text, size) < 0)
        return; /* a full disk: nobody to tell */
}

static void pause_s(double s)
{
    struct timespec t = {(time_t)s, (long)(1e9 * (s - (double)(time_t)s))};
    nanosleep(&t, NULL);
}

/* Whatever the scheduler forgot to close is not ours to keep; 0 to 2 are there,
 * so that no file of ours is taken for them. */
static void tidy_descriptors(void)
{
    while (true) {
        int fd = open("/dev/null", O_RDWR);
        if (fd > 2)
            close(fd);
        if (fd < 0 || fd > 2)
            break;
    }
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return;
    for (struct dirent *e; (e = readdir(folder)) != NULL;) {
        int fd = (int)strtol(e->d_name, NULL, 10);
        if (fd > 2 && fd != dirfd(folder))
            close(fd);
    }
    closedir(folder);
}

/* Somebody who looks whether the lock is free has it for a moment. */
static int take_lock(struct shepherd *s)
{
    double until_s = clock_elapsed_s() + lock_wait_s;
    for (;;) {
        s->lock = epoch_lock(s->above);
        if (s->lock >= 0)
            return SHEPHERD_OVER;
        if (s->lock == -2)
            return SHEPHERD_IO;
        int64_t fence = epoch_fence(s->above);
        if (fence > s->launch.epoch)
            return SHEPHERD_FENCED;
        if (clock_elapsed_s() >= until_s)
            return SHEPHERD_LOCKED;
        pause_s(0.005);
    }
}

static int read_launch(struct shepherd *s)
{
    struct firn_buf text = {0};
    enum firn_status status = FIRN_EIO;
    if (epoch_get(s->folder, "launch", &text))
        status = launchfile_read(&s->launch,
                                 (struct firn_bytes){text.at, text.n}, NULL);
    buf_release(&text);
    return status == FIRN_OK ? SHEPHERD_OVER : SHEPHERD_BAD;
}

/* (1) */
static int check_fence(const struct shepherd *s)
{
    int64_t fence = epoch_fence(s->above);
    if (fence < 0 || s->launch.epoch < fence)
        return SHEPHERD_FENCED;
    if (faccessat(s->folder, "pid", F_OK, 0) == 0 ||
        faccessat(s->folder, "exit", F_OK, 0) == 0)
        return SHEPHERD_FENCED; /* was run before */
    return SHEPHERD_OVER;
}

static void take_signals(struct shepherd *s)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGPIPE);
    sigprocmask(SIG_SETMASK, &set, NULL);
    s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int publish_pid(const struct shepherd *s)
{
    struct epoch_pid pid = {s->launch.epoch, getpid(), procs_start(getpid())};
    if (epoch_exit_reserve(s->folder, NULL) != FIRN_OK ||
        epoch_pid_put(s->folder, &pid, NULL) != FIRN_OK)
        return SHEPHERD_IO;
    return SHEPHERD_OVER;
}

static int enter(struct shepherd *s, const char *path)
{
    tidy_descriptors();
    take_signals(s);
    s->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->folder >= 0)
        s->above = openat(s->folder, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->above < 0 || s->signals < 0)
        return SHEPHERD_IO;
    int code = read_launch(s);
    if (code == SHEPHERD_OVER)
        code = take_lock(s);
    failpoint("shepherd.lock.after");
    if (code == SHEPHERD_OVER)
        code = check_fence(s);
    if (code != SHEPHERD_OVER)
        return code;
    setsid(); /* fails when the engine did it */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        return SHEPHERD_IO;
    s->log = open(s->launch.log, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    s->log_start = s->log >= 0 ? lseek(s->log, 0, SEEK_END) : 0;
    s->ooms = shepherd_ooms();
    code = publish_pid(s);
    failpoint("shepherd.pid.after");
    return code;
}

void shepherd_end(struct shepherd *s, double grace_s)
{
    if (s->stage >= STAGE_ENDED)
        return;
    s->stage = STAGE_ENDED;
    s->until_s = clock_elapsed_s() + grace_s;
    procs_signal_below(s->self, SIGTERM); /* (3) */
    procs_signal_below(s->self, SIGCONT);
}

static double short_grace_s(const struct shepherd *s)
{
    return s->launch.grace_s < remains_grace_s ? s->launch.grace_s
                                               : remains_grace_s;
}

void shepherd_note(struct shepherd *s, struct herded *worker, int status)
{
    int code =
        WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    worker->is_over = true;
    s->nleft--;
    if (code == FIRN_EXIT_CHECKPOINT)
        s->has_checkpoint = true;
    else if (s->bad_status < 0 && s->stage >= STAGE_ENDED)
        s->ended_status = s->ended_status >= 0 ? s->ended_status : code;
    else if (s->bad_status < 0 && worker->was_asked && code == 128 + SIGUSR1)
        s->ended_status = code;
    else if (s->bad_status < 0 && code != 0)
        s->bad_status = code;
    bool is_lame = s->bad_status >= 0 || s->ended_status >= 0;
    if (is_lame || s->nleft == 0)
        shepherd_end(s, short_grace_s(s));
}

/* False: no child is left (2). */
static bool reap(struct shepherd *s)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid == 0)
            return true;
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            return false;
        for (size_t i = 0; i < s->launch.workers.n; i++)
            if (s->workers[i].pid == pid && !s->workers[i].is_over)
                shepherd_note(s, &s->workers[i], status);
    }
}

/* Asks each worker once, as soon as it can hear. True: some could not yet. */
static bool ask(struct shepherd *s)
{
    bool is_more = false;
    for (size_t i = 0; i < s->launch.workers.n; i++) {
        struct herded *worker = &s->workers[i];
        if (worker->is_over || worker->was_asked)
            continue;
        worker->was_asked = procs_ask(worker->pid, SIGUSR1);
        is_more = is_more || !worker->was_asked;
    }
    return is_more;
}

/* What is due now; how long to wait then, in milliseconds. */
static int advance(struct shepherd *s)
{
    double now_s = clock_elapsed_s();
    bool is_deaf = false;
    if (s->stage == STAGE_RUNNING)
        return -1;
    if (s->stage == STAGE_ASKED && now_s >= s->until_s)
        shepherd_end(s, s->launch.grace_s);
    else if (s->stage == STAGE_ASKED)
        is_deaf = ask(s);
    else if (s->stage == STAGE_ENDED && now_s >= s->until_s)
        s->stage = STAGE_KILLED;
    if (s->stage == STAGE_KILLED) {
        cage_kill(&s->cage);
        procs_signal_below(s->self, SIGKILL); /* (3) */
        return 20;
    }
    double left_s = s->until_s - now_s;
    if (is_deaf && left_s > 0.05)
        left_s = 0.05;
    return left_s > 0 ? (int)(left_s * 1000 < 1e6 ? left_s * 1000 : 1e6) + 1
                      : 0;
}

static void take_in(struct shepherd *s)
{
    struct signalfd_siginfo info;
    while (read(s->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGUSR1 && s->stage == STAGE_RUNNING) {
            s->stage = STAGE_ASKED;
            s->until_s = clock_elapsed_s() + s->launch.grace_s;
        }
        if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT)
            shepherd_end(s, s->launch.grace_s);
    }
}

static void watch(struct shepherd *s)
{
    while (reap(s)) {
        struct pollfd fd = {.fd = s->signals, .events = POLLIN};
        poll(&fd, 1, advance(s));
        take_in(s);
    }
}

/* Asked to leave before there was anything: nothing is lost. */
static bool is_early(struct shepherd *s)
{
    take_in(s);
    if (s->stage == STAGE_RUNNING)
        return false;
    if (s->stage == STAGE_ASKED)
        s->has_checkpoint = true;
    else
        s->ended_status = 128 + SIGTERM;
    return true;
}

static int leave(struct shepherd *s)
{
    struct epoch_exit how = shepherd_verdict(s);
    double until_s = clock_elapsed_s() + write_again_s;
    static const char *const words[] = {[FIRN_END_FAILED] = "failed",
                                        [FIRN_END_KILLED] = "was ended",
                                        [FIRN_END_MEMORY] = "ran out of memory",
                                        [FIRN_END_LOST] = NULL};
    if (words[how.end] != NULL)
        shepherd_say(s, "epoch %lld %s, status %d", (long long)how.epoch,
                     words[how.end], how.status);
    cage_close(&s->cage);
    failpoint("shepherd.exit.before");
    while (epoch_exit_put(s->folder, &how, NULL) != FIRN_OK) {
        if (clock_elapsed_s() >= until_s)
            return SHEPHERD_IO;
        pause_s(1);
    }
    failpoint("shepherd.exit.after");
    return SHEPHERD_OVER;
}

int shepherd_main(const char *folder)
{
    struct shepherd s = {.self = getpid(),
                         .folder = -1,
                         .above = -1,
                         .lock = -1,
                         .log = -1,
                         .signals = -1,
                         .cage = {.folder = -1},
                         .bad_status = -1,
                         .ended_status = -1};
    failpoint("shepherd.enter.before");
    int code = enter(&s, folder);
    if (code == SHEPHERD_OVER) {
        if (!is_early(&s))
            shepherd_start(&s);
        watch(&s);
        code = leave(&s);
    }
    mem_free(s.workers);
    launchfile_release(&s.launch);
    return code;
}
