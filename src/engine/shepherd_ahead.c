/* shepherd_ahead.c - a supervisor whose attempt is still to come.
 *
 * The engine starts it as `PROGRAM --shepherd-ahead JOB/ahead`, with one end of
 * a pair of sockets as its standard input, while other jobs still use the GPUs.
 * It starts the workers at once, each with a gate (wire/aheadgate.h), and
 * waits:
 *
 *     "ready SECONDS MIB"   to the engine, when all workers wait at their gates
 *     "go ATTEMPT MARK"     from the engine: number, launch file and fence of
 *                           the attempt are written. It becomes the supervisor
 *                           of that attempt, as if it were started now:
 *                           shepherd.c enters the attempt, and the workers are
 *                           let through their gates where others are started
 *     end of the line       the engine does not need it, or firnd is gone: it
 *                           kills all its processes and exits
 *
 * So a prepared job is no attempt: it has no number, no lock, no GPU, no file
 * but its launch file, and to lose it loses nothing but time. A firnd that is
 * killed takes it along; one that is killed behind "go" leaves a supervisor
 * like any other, which the fence keeps out if it is too late.
 *
 * Invariants
 *   1. No gate is opened before the attempt was entered: lock, fence, pid file.
 *   2. The lock is taken on the open file that the workers inherited, so that
 *      they hold it as other workers do.
 *   3. Nothing is left behind: workers die with this process.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/failpoint.h"
#include "engine/procs.h"
#include "engine/shepherd.h"
#include "engine/shepherdwork.h"
#include "wire/aheadgate.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE = 256, GATES = 64 };

struct waiting {
    int line; /* to the engine */
    char text[LINE];
    size_t ntext;
    double began_s;
    bool is_ready; /* was told */
    int64_t attempt;
    char mark[LINE];
};

/* --- the end without an attempt --------------------------------------------
 */

static int end_all(struct shepherd *s, const char *why)
{
    shepherd_say(s, "the processes that were prepared end: %s", why);
    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0 && errno == ECHILD)
            break;
        if (pid > 0)
            continue;
        procs_signal_below(s->self, SIGKILL, 0);
        shepherd_pause(0.005);
    }
    joblog_drain(&s->output);
    return SHEPHERD_FENCED;
}

/* --- what comes in ---------------------------------------------------------
 */

static void tell_ready(struct shepherd *s, struct waiting *w)
{
    char text[LINE];
    double mib = 0;
    for (size_t i = 0; i < s->nparked; i++) {
        if (!s->parked[i].is_ready)
            return;
        mib += procs_resident_mib(s->parked[i].pid);
    }
    w->is_ready = true;
    int n = snprintf(text, sizeof text, "ready %.6f %.1f\n",
                     clock_elapsed_s() - w->began_s, mib);
    if (write(w->line, text, (size_t)n) != n)
        return; /* the engine is gone: the line ends */
}

static void hear_gates(struct shepherd *s, struct waiting *w)
{
    char byte;
    for (size_t i = 0; i < s->nparked; i++)
        if (!s->parked[i].is_ready &&
            recv(s->parked[i].gate, &byte, 1, MSG_DONTWAIT) == 1)
            s->parked[i].is_ready = byte == FIRN_GATE_READY;
    if (!w->is_ready)
        tell_ready(s, w);
}

/* True: a worker has ended before it was let through. */
static bool has_lost(struct shepherd *s)
{
    bool has = false;
    for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) > 0;)
        for (size_t i = 0; i < s->nparked; i++)
            has = has || s->parked[i].pid == pid;
    return has;
}

static bool is_asked_to_end(const struct shepherd *s)
{
    struct signalfd_siginfo info;
    bool is = false;
    while (read(s->signals, &info, sizeof info) == (ssize_t)sizeof info)
        is = is || info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT ||
             info.ssi_signo == SIGUSR1;
    return is;
}

/* "go ATTEMPT MARK"; false: another text. */
static bool parse(struct waiting *w)
{
    char *end = NULL;
    if (strncmp(w->text, "go ", 3) != 0)
        return false;
    w->attempt = strtoll(w->text + 3, &end, 10);
    if (w->attempt < 1 || *end != ' ')
        return false;
    snprintf(w->mark, sizeof w->mark, "%s", end + 1);
    return true;
}

/* 1: the engine said "go". -1: the line has ended. 0: nothing yet. */
static int hear_line(struct waiting *w)
{
    ssize_t n = recv(w->line, w->text + w->ntext, sizeof w->text - 1 - w->ntext,
                     MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return -1;
    w->ntext += (size_t)n;
    w->text[w->ntext] = '\0';
    char *end = strchr(w->text, '\n');
    if (end == NULL)
        return w->ntext < sizeof w->text - 1 ? 0 : -1;
    *end = '\0';
    return parse(w) ? 1 : -1;
}

static void wait_a_while(const struct shepherd *s, const struct waiting *w)
{
    struct pollfd fds[3 + GATES] = {{.fd = s->signals, .events = POLLIN},
                                    {.fd = w->line, .events = POLLIN},
                                    {.fd = s->output.in, .events = POLLIN}};
    nfds_t n = 3;
    for (size_t i = 0; i < s->nparked && n < 3 + GATES; i++)
        if (!s->parked[i].is_ready)
            fds[n++] =
                (struct pollfd){.fd = s->parked[i].gate, .events = POLLIN};
    poll(fds, n, 1000);
}

/* --- the whole -------------------------------------------------------------
 */

static int open_all(struct shepherd *s, struct waiting *w)
{
    int code = shepherd_open(s);
    if (code != SHEPHERD_OVER)
        return code;
    w->line = fcntl(0, F_DUPFD_CLOEXEC, 3);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (w->line < 0 || nothing < 0 || dup2(nothing, 0) < 0 ||
        s->launch.workers.n > GATES)
        return SHEPHERD_IO;
    close(nothing);
    s->lock = attempt_lock_file(s->above); /* (2) */
    setsid();
    if (s->lock < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0 ||
        joblog_open(&s->output, s->launch.log, s->launch.log_max_bytes, NULL) !=
            FIRN_OK)
        return SHEPHERD_IO;
    s->log = s->output.out;
    return SHEPHERD_OVER;
}

/* From the folder of the preparation to that of the attempt. */
static int go(struct shepherd *s, const struct waiting *w, char *path,
              size_t size)
{
    char name[48];
    const char *slash = strrchr(s->path, '/');
    int n = slash != NULL ? (int)(slash - s->path) : 0;
    snprintf(name, sizeof name, "epoch-%lld", (long long)w->attempt);
    snprintf(path, size, "%.*s/%s", n, s->path, name);
    firn_gate_remark(environ, w->mark);
    failpoint("shepherd.go.after");
    close(s->folder);
    s->folder =
        openat(s->above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    s->path = path;
    s->parked_launch = s->launch;
    s->launch = (struct launchfile){0};
    int code = s->folder >= 0 ? shepherd_read_launch(s) : SHEPHERD_IO;
    if (code == SHEPHERD_OVER && (s->launch.attempt != w->attempt ||
                                  s->launch.job != s->parked_launch.job))
        code = SHEPHERD_BAD;
    return code;
}

int shepherd_ahead(struct shepherd *s, char *path, size_t size)
{
    struct waiting w = {.line = -1, .began_s = clock_elapsed_s()};
    int code = open_all(s, &w), heard = 0;
    if (code != SHEPHERD_OVER)
        return code;
    failpoint("shepherd.park.before");
    shepherd_join_open(s);
    if (!shepherd_park(s))
        return end_all(s, "one of them could not be started");
    failpoint("shepherd.park.after");
    while (heard == 0) {
        wait_a_while(s, &w);
        joblog_pump(&s->output);
        if (is_asked_to_end(s))
            return end_all(s, "the scheduler asked for it");
        if (has_lost(s))
            return end_all(s, "one of them ended before it had its GPUs");
        hear_gates(s, &w);
        heard = hear_line(&w);
    }
    if (heard < 0)
        return end_all(s, "the job does not start next");
    s->waited_s = clock_elapsed_s() - w.began_s;
    code = go(s, &w, path, size);
    close(w.line);
    return code;
}
