/* shepherd_enter.c - before anything is started: descriptors, signals, files.
 *
 * Also what every shepherd needs at any time: a line in the job's log, a pause.
 *
 * Invariant (1) of shepherd.c is checked here: a shepherd goes on only with a
 * fence at or below its attempt, and without a pid file of an earlier run.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "engine/shepherd.h"
#include "engine/shepherdwork.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct shepherd shepherd_new(const char *path, enum shepherd_kind kind)
{
    return (struct shepherd){.self = getpid(),
                             .kind = kind,
                             .path = path,
                             .notes = -1,
                             .folder = -1,
                             .above = -1,
                             .lock = -1,
                             .log = -1,
                             .signals = -1,
                             .kernel = -1,
                             .gate = -1,
                             .output = {.fd = -1, .in = -1, .out = -1},
                             .cgroup = {.folder = -1},
                             .bad_status = -1,
                             .ended_status = -1};
}

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
    if (s->kind != SHEPHERD_TASK && s->output.is_in_line)
        joblog_write(&s->output, (struct firn_bytes){"\n", 1});
    if (s->kind != SHEPHERD_TASK)
        joblog_write(&s->output, (struct firn_bytes){text, size});
    else if (s->log >= 0 && write(s->log, text, size) < 0)
        return; /* srun is gone */
}

void shepherd_pause(double s)
{
    struct timespec t = {(time_t)s, (long)(1e9 * (s - (double)(time_t)s))};
    nanosleep(&t, NULL);
}

/* Opens 0 to 2 if they are closed, so that no later file gets those numbers,
 * and closes what the scheduler left open. */
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

int shepherd_read_launch(struct shepherd *s)
{
    struct firn_buf text = {0};
    enum firn_status status = FIRN_EIO;
    enum attempt_found found = attempt_get(s->folder, "launch", &text);
    if (found == ATTEMPT_PRESENT)
        status = launchfile_read(&s->launch,
                                 (struct firn_bytes){text.at, text.n}, NULL);
    buf_release(&text);
    if (found == ATTEMPT_UNKNOWN)
        return SHEPHERD_IO;
    return status == FIRN_OK ? SHEPHERD_OVER : SHEPHERD_BAD;
}

/* SHEPHERD_OVER only if the file certainly does not exist. */
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
    enum attempt_found found = attempt_fence(s->above, &fence);
    if (found == ATTEMPT_UNKNOWN)
        return SHEPHERD_IO;
    if (found != ATTEMPT_PRESENT || s->launch.attempt < fence)
        return SHEPHERD_FENCED;
    int code =
        s->kind != SHEPHERD_TASK ? check_absent(s, "pid") : SHEPHERD_OVER;
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
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGPIPE);
    sigprocmask(SIG_SETMASK, &set, NULL);
    s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int shepherd_open(struct shepherd *s)
{
    tidy_descriptors();
    take_signals(s);
    s->folder = open(s->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->folder >= 0)
        s->above = openat(s->folder, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (s->above < 0 || s->signals < 0)
        return SHEPHERD_IO;
    if (s->kind != SHEPHERD_LOCAL &&
        (s->notes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) >= 0)
        inotify_add_watch(s->notes, s->path, IN_CLOSE_WRITE);
    return shepherd_read_launch(s);
}
