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
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double lock_wait_s = 10;
static const double remains_grace_s = 5; /* of those whom nobody waits for */
static const double write_again_s = 60;

void shepherd_say(struct shepherd *s, const char *fmt, ...)
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
    if (s->kind != HERD_ONE)
        joblog_write(&s->output, (struct firn_bytes){text, size});
    else if (s->log >= 0 && write(s->log, text, size) < 0)
        return; /* srun is gone */
}

void shepherd_pause(double s)
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
        int64_t fence = 0;
        if (epoch_fence(s->above, &fence) == EPOCH_PRESENT &&
            fence > s->launch.epoch)
            return SHEPHERD_FENCED;
        if (clock_elapsed_s() >= until_s)
            return SHEPHERD_LOCKED;
        shepherd_pause(0.005);
    }
}

static int read_launch(struct shepherd *s)
{
    struct firn_buf text = {0};
    enum firn_status status = FIRN_EIO;
    enum epoch_found found = epoch_get(s->folder, "launch", &text);
    if (found == EPOCH_PRESENT)
        status = launchfile_read(&s->launch,
                                 (struct firn_bytes){text.at, text.n}, NULL);
    buf_release(&text);
    if (found == EPOCH_UNKNOWN)
        return SHEPHERD_IO;
    return status == FIRN_OK ? SHEPHERD_OVER : SHEPHERD_BAD;
}

/* Was this never written? A file that cannot be looked at may be there. */
static int check_absent(const struct shepherd *s, const char *name)
{
    struct stat st;
    if (fstatat(s->folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return SHEPHERD_FENCED;
    return errno == ENOENT ? SHEPHERD_OVER : SHEPHERD_IO;
}

/* (1) */
int shepherd_check_fence(const struct shepherd *s)
{
    int64_t fence = 0;
    enum epoch_found found = epoch_fence(s->above, &fence);
    if (found == EPOCH_UNKNOWN)
        return SHEPHERD_IO;
    if (found != EPOCH_PRESENT || s->launch.epoch < fence)
        return SHEPHERD_FENCED;
    int code = s->kind != HERD_ONE ? check_absent(s, "pid") : SHEPHERD_OVER;
    return code == SHEPHERD_OVER ? check_absent(s, "exit") : code;
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

int shepherd_open(struct shepherd *s, const char *path)
{
    tidy_descriptors();
    take_signals(s);
    s->folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->folder >= 0)
        s->above = openat(s->folder, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->above < 0 || s->signals < 0)
        return SHEPHERD_IO;
    if (s->kind != HERD_HERE &&
        (s->notes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) >= 0)
        inotify_add_watch(s->notes, path, IN_CLOSE_WRITE);
    return read_launch(s);
}

/* What comes late of an earlier epoch is gone before anything is started. */
static int wait_for_workers(const struct shepherd *s)
{
    double until_s = clock_elapsed_s() + lock_wait_s;
    for (;;) {
        int lock = epoch_workers_lock(s->above, false);
        if (lock >= 0)
            close(lock);
        if (lock != -1)
            return lock >= 0 ? SHEPHERD_OVER : SHEPHERD_IO;
        if (clock_elapsed_s() >= until_s)
            return SHEPHERD_LOCKED;
        shepherd_pause(0.02);
    }
}

/* A log that may not be written to is the job's failure, with a sentence in
 * our own output. */
static int open_log(struct shepherd *s)
{
    struct firn_error err = {0};
    enum firn_status status =
        joblog_open(&s->output, s->launch.log, s->launch.log_max_bytes, &err);
    s->log = s->output.out;
    if (status == FIRN_EINVAL) {
        dprintf(2, "%s\n", err.text);
        s->bad_status = JOBLOG_REFUSED;
    }
    return status == FIRN_EIO ? SHEPHERD_IO : SHEPHERD_OVER;
}

static int enter(struct shepherd *s, const char *path)
{
    int code = shepherd_open(s, path);
    if (code == SHEPHERD_OVER)
        code = take_lock(s);
    if (code == SHEPHERD_OVER && s->kind == HERD_FAR)
        code = wait_for_workers(s);
    failpoint("shepherd.lock.after");
    if (code == SHEPHERD_OVER)
        code = shepherd_check_fence(s);
    if (code != SHEPHERD_OVER)
        return code;
    setsid(); /* fails when the engine did it */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        return SHEPHERD_IO;
    code = open_log(s);
    if (code != SHEPHERD_OVER)
        return code;
    s->kernel = shepherd_kernel(); /* before they are counted */
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
    if (s->kind == HERD_FAR) {
        shepherd_tell(s, EPOCH_LEAVE);
        return;
    }
    procs_signal_below(s->self, SIGTERM); /* (3) */
    procs_signal_below(s->self, SIGCONT);
}

double shepherd_short_grace_s(const struct shepherd *s)
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
        shepherd_end(s, shepherd_short_grace_s(s));
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
        if (s->kind == HERD_FAR)
            continue;
        for (size_t i = 0; i < s->launch.workers.n; i++)
            if (s->workers[i].pid == pid && !s->workers[i].is_over)
                shepherd_note(s, &s->workers[i], status);
    }
}

/* Asks each worker once, as soon as it can hear. True: some could not yet. */
static bool ask(struct shepherd *s)
{
    bool is_more = false;
    if (s->kind == HERD_FAR)
        shepherd_tell(s, EPOCH_CHECKPOINT);
    for (size_t i = 0; s->kind != HERD_FAR && i < s->launch.workers.n; i++) {
        struct herded *worker = &s->workers[i];
        if (worker->is_over || worker->was_asked)
            continue;
        worker->was_asked = procs_ask(worker->pid, SIGUSR1);
        is_more = is_more || !worker->was_asked;
    }
    return is_more;
}

/* Milliseconds until it is to be done again. Workers of other hosts are told;
 * after a while srun goes too. */
static int kill_all(struct shepherd *s, double now_s)
{
    static const double far_wait_s = 5;
    if (s->kind == HERD_FAR) {
        s->killed_s = s->killed_s > 0 ? s->killed_s : now_s;
        shepherd_tell(s, EPOCH_KILL);
        if (now_s < s->killed_s + far_wait_s)
            return 100;
    }
    cage_kill(&s->cage);
    procs_signal_below(s->self, SIGKILL); /* (3) */
    return 20;
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
    if (s->stage == STAGE_KILLED)
        return kill_all(s, now_s);
    double left_s = s->until_s - now_s;
    if (is_deaf && left_s > 0.05)
        left_s = 0.05;
    return left_s > 0 ? (int)(left_s * 1000 < 1e6 ? left_s * 1000 : 1e6) + 1
                      : 0;
}

void shepherd_obey(struct shepherd *s, enum epoch_word word)
{
    s->was_told = s->was_told || word != EPOCH_GO;
    if (word == EPOCH_CHECKPOINT && s->stage == STAGE_RUNNING) {
        s->stage = STAGE_ASKED;
        s->until_s = clock_elapsed_s() + s->launch.grace_s;
    }
    if (word >= EPOCH_LEAVE)
        shepherd_end(s, s->launch.grace_s);
    if (word == EPOCH_KILL)
        s->stage = STAGE_KILLED;
}

static void take_in(struct shepherd *s)
{
    struct signalfd_siginfo info;
    while (read(s->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGUSR1)
            shepherd_obey(s, EPOCH_CHECKPOINT);
        if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT)
            shepherd_obey(s, EPOCH_LEAVE);
    }
    if (s->kind != HERD_HERE)
        shepherd_listen(s);
}

void shepherd_watch(struct shepherd *s)
{
    enum { LOOK_MS = 1000 }; /* where nothing tells us of a file */
    while (reap(s)) {
        struct pollfd fds[] = {{.fd = s->signals, .events = POLLIN},
                               {.fd = s->notes, .events = POLLIN},
                               {.fd = s->output.in, .events = POLLIN}};
        int ms = advance(s);
        if (s->kind != HERD_HERE && (ms < 0 || ms > LOOK_MS))
            ms = LOOK_MS;
        poll(fds, 3, ms);
        joblog_pump(&s->output);
        take_in(s);
    }
    joblog_drain(&s->output); /* before the verdict, which looks at it */
}

bool shepherd_is_early(struct shepherd *s)
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
        struct stat st; /* a folder that was deleted does not come back */
        bool is_deleted = fstat(s->folder, &st) == 0 && st.st_nlink == 0;
        if (is_deleted || clock_elapsed_s() >= until_s)
            return SHEPHERD_IO;
        shepherd_pause(1);
    }
    failpoint("shepherd.exit.after");
    return SHEPHERD_OVER;
}

static int run(const char *folder, enum shepherd_kind kind)
{
    struct shepherd s = {.self = getpid(),
                         .kind = kind,
                         .path = folder,
                         .notes = -1,
                         .folder = -1,
                         .above = -1,
                         .lock = -1,
                         .log = -1,
                         .signals = -1,
                         .kernel = -1,
                         .output = {.fd = -1, .in = -1, .out = -1},
                         .cage = {.folder = -1},
                         .bad_status = -1,
                         .ended_status = -1};
    failpoint("shepherd.enter.before");
    int code = enter(&s, folder);
    if (code == SHEPHERD_OVER) {
        bool may_start = !shepherd_is_early(&s) && s.bad_status < 0;
        if (may_start && kind == HERD_FAR)
            shepherd_start_far(&s);
        else if (may_start)
            shepherd_start(&s);
        shepherd_watch(&s);
        bool is_gone =
            s.workers == NULL || kind != HERD_FAR || shepherd_gather(&s);
        code = is_gone ? leave(&s) : SHEPHERD_LOCKED;
    }
    joblog_close(&s.output);
    mem_free(s.workers);
    launchfile_release(&s.launch);
    return code;
}

int shepherd_main(const char *folder)
{
    return run(folder, HERD_HERE);
}

int shepherd_args(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--shepherd") == 0)
        return run(argv[2], HERD_HERE);
    if (argc == 3 && strcmp(argv[1], "--shepherd-slurm") == 0)
        return run(argv[2], HERD_FAR);
    if (argc == 4 && strcmp(argv[1], "--worker") == 0)
        return shepherd_one(argv[2], argv[3]);
    return -1;
}
