/* childcmd.c - commands in process groups of their own, on one epoll set.
 *
 *     waiting --a place is free--> running --it has ended--> draining --> over
 *                                     |                        ^
 *                                     +--limit: killed---------+
 *
 * The set holds the pipes of running commands, pidfds that report ends, and a
 * timer for the earliest deadline, which also makes the set readable while an
 * ended command was not returned yet. Without pidfds in the kernel the timer
 * polls. Input is a file in memory: nothing has to be written while the command
 * runs, and no pipe can break.
 *
 * Invariants:
 * (1) a process is waited for only after its group has been signalled for the
 *     last time: until then its number and its group's number are its own;
 * (2) everything that is ready is read or closed, so that the set is not
 *     readable without a reason: a pidfd is closed after its report, a pipe at
 *     its end;
 * (3) no descriptor of ours is open in a command, and those that become 0 to 2
 *     are moved above 2 first.
 *
 * A process that a command left behind may keep its pipes open: output counts
 * until a moment after the command's end. A killed command that does not die
 * (it hangs in the kernel) is reported as late after the same moment, and is
 * waited for at later calls.
 *
 * Processes that a command moved to a group of their own are not killed.
 *
 * Cost: a few system calls for each running command at every call; nmax is
 * small.
 */
#define _GNU_SOURCE
#include "engine/childcmd.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fdlimit.h"
#include "base/vec.h"
#include "engine/procs.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum {
    TEXT_MAX = 64 << 20, /* bytes kept of one stream */
    PIECE = 1 << 16,     /* bytes of one read ... */
    PIECES = 16,         /* ... and reads before the next command's turn */
    KILLED = 128 + SIGKILL,
    UNKNOWN = 255, /* its status is lost */
};
static const double grace_s = 0.2;       /* for pipes, after the end */
static const double look_every_s = 0.02; /* without a pidfd */
static const double close_within_s = 2;  /* for killed commands to die */

enum phase { WAITING, RUNNING, DRAINING, OVER };

struct child {
    struct arena words;
    char **argv, **env;
    struct firn_buf input;
    double limit_s, start_s, until_s; /* until_s: the next deadline */
    enum phase phase;
    pid_t pid;
    int pidfd, out_fd, err_fd; /* -1: closed */
    bool has_ended;            /* and can be waited for */
    struct firn_buf out, err;
    struct command_done done;
};

struct commands {
    int poll, timer, nmax, nrunning;
    VEC(struct child *) children; /* in the order of commands_start() */
    VEC(struct child *) over;     /* in the order of ends; not returned yet */
    struct child *reported;       /* returned last; owns those texts */
    VEC(pid_t) undead;            /* killed, but not dead yet */
};

/* --- one command ---------------------------------------------------------- */

static char **copy_words(struct arena *arena, const char *const *words)
{
    size_t n = 0;
    while (words != NULL && words[n] != NULL)
        n++;
    char **copy = arena_alloc(arena, (n + 1) * sizeof *copy);
    for (size_t i = 0; i < n; i++)
        copy[i] = arena_strdup(arena, words[i]);
    return copy;
}

static struct child *child_new(const struct command *command)
{
    struct child *child = mem_new(1, sizeof *child);
    child->argv = copy_words(&child->words, command->argv);
    child->env = copy_words(&child->words, command->env);
    if (command->input.n > 0)
        buf_add(&child->input, command->input.at, command->input.n);
    child->limit_s = command->limit_s;
    child->pidfd = child->out_fd = child->err_fd = -1;
    child->done.tag = command->tag;
    child->done.about = command->about;
    child->done.more = command->more;
    return child;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd); /* and out of the set */
    *fd = -1;
}

static void child_free(struct child *child)
{
    if (child == NULL)
        return;
    close_fd(&child->pidfd);
    close_fd(&child->out_fd);
    close_fd(&child->err_fd);
    arena_release(&child->words);
    buf_release(&child->input);
    buf_release(&child->out);
    buf_release(&child->err);
    mem_free(child);
}

/* --- start ---------------------------------------------------------------- */

static bool watch(const struct commands *c, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
    return epoll_ctl(c->poll, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* Above the standard three: (3). -1 with errno. */
static int lift(int fd)
{
    if (fd < 0 || fd > 2)
        return fd;
    int up = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    int error = errno;
    close(fd);
    errno = error;
    return up;
}

/* What the command reads. */
static int open_input(const struct child *child)
{
    if (child->input.n == 0)
        return lift(open("/dev/null", O_RDONLY | O_CLOEXEC));
    int fd = lift(memfd_create("input", MFD_CLOEXEC));
    for (size_t n = 0; fd >= 0 && n < child->input.n;) {
        ssize_t got = write(fd, child->input.at + n, child->input.n - n);
        if (got < 0 && errno != EINTR)
            close_fd(&fd);
        n += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        lseek(fd, 0, SEEK_SET);
    return fd;
}

/* A pipe whose reading end is ours and does not block. */
static bool open_pipe(const struct commands *c, int *ours, int *theirs)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    *ours = lift(ends[0]);
    *theirs = lift(ends[1]);
    return *ours >= 0 && *theirs >= 0 &&
           fcntl(*ours, F_SETFL, O_NONBLOCK) == 0 && watch(c, *ours);
}

/* Our own variables, replaced by the command's. */
static char **all_variables(struct child *child)
{
    size_t nown = 0, nall = 0, n = 0;
    while (child->env[nown] != NULL)
        nown++;
    while (environ[nall] != NULL)
        nall++;
    char **all = arena_alloc(&child->words, (nall + nown + 1) * sizeof *all);
    for (size_t i = 0; i < nall; i++) {
        bool is_over = false;
        for (size_t k = 0; k < nown && !is_over; k++) {
            size_t size = strcspn(child->env[k], "=") + 1; /* "NAME=" */
            is_over = strncmp(child->env[k], environ[i], size) == 0;
        }
        if (!is_over)
            all[n++] = environ[i];
    }
    memcpy(all + n, child->env, nown * sizeof *all);
    return all;
}

/* Default signal handling, whatever ours is. */
static int set_signals(posix_spawnattr_t *attr)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    sigdelset(&all, SIGKILL);
    sigdelset(&all, SIGSTOP);
    posix_spawnattr_setpgroup(attr, 0);
    posix_spawnattr_setsigmask(attr, &none);
    posix_spawnattr_setsigdefault(attr, &all);
    return posix_spawnattr_setflags(attr, POSIX_SPAWN_SETPGROUP |
                                              POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
}

/* 0, or errno. */
static int spawn(struct child *child, const int fds[3])
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    if (child->argv[0] == NULL)
        return EINVAL;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    int error = set_signals(&attr);
    for (int i = 0; i < 3 && error == 0; i++)
        error = posix_spawn_file_actions_adddup2(&actions, fds[i], i);
    fdlimit_child_begin();
    if (error == 0)
        error = posix_spawnp(&child->pid, child->argv[0], &actions, &attr,
                             child->argv, all_variables(child));
    fdlimit_child_end();
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    return error;
}

static int open_and_spawn(const struct commands *c, struct child *child)
{
    int fds[3] = {open_input(child), -1, -1};
    int error = 0;
    if (fds[0] < 0 || !open_pipe(c, &child->out_fd, &fds[1]) ||
        !open_pipe(c, &child->err_fd, &fds[2]))
        error = errno;
    if (error == 0)
        error = spawn(child, fds);
    for (int i = 0; i < 3; i++)
        close_fd(&fds[i]);
    return error;
}

static void start(struct commands *c, struct child *child)
{
    int error = open_and_spawn(c, child);
    buf_release(&child->input);
    if (error != 0) {
        close_fd(&child->out_fd);
        close_fd(&child->err_fd);
        buf_printf(&child->err, "cannot run '%s': %s",
                   child->argv[0] != NULL ? child->argv[0] : "",
                   strerror(error));
        child->phase = OVER;
        vec_add(&c->over, child);
        return;
    }
    child->done.has_run = true;
    child->phase = RUNNING;
    child->start_s = clock_elapsed_s();
    child->until_s = child->start_s + child->limit_s;
    child->pidfd = procs_open(child->pid);
    if (child->pidfd >= 0 && !watch(c, child->pidfd))
        close_fd(&child->pidfd);
    c->nrunning++;
}

/* --- while it runs -------------------------------------------------------- */

/* Reads the available output; closes the pipe at its end. */
static void gather(int *fd, struct firn_buf *text)
{
    char piece[PIECE];
    for (int i = 0; i < PIECES && *fd >= 0; i++) {
        ssize_t got = read(*fd, piece, sizeof piece);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0) {
            close_fd(fd);
            return;
        }
        size_t room = TEXT_MAX - text->n;
        buf_add(text, piece, (size_t)got < room ? (size_t)got : room);
    }
}

static void look_for_end(struct child *child, double now_s)
{
    siginfo_t info = {0};
    if (child->has_ended)
        return;
    int rc =
        waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    bool is_gone = rc < 0 && errno == ECHILD;
    if (!is_gone && (rc < 0 || info.si_pid == 0))
        return;
    child->has_ended = true;
    child->phase = DRAINING;
    child->until_s = now_s + grace_s;
    child->done.took_s = now_s - child->start_s;
    close_fd(&child->pidfd); /* (2) */
}

/* Waits for an ended command: (1). */
static void reap(struct commands *c, struct child *child)
{
    int status = 0;
    pid_t got;
    do
        got = waitpid(child->pid, &status, WNOHANG);
    while (got < 0 && errno == EINTR);
    child->done.status = UNKNOWN;
    if (got == child->pid && WIFEXITED(status))
        child->done.status = WEXITSTATUS(status);
    else if (got == child->pid && WIFSIGNALED(status))
        child->done.status = 128 + WTERMSIG(status);
    if (got == 0) {
        child->done.status = KILLED;
        vec_add(&c->undead, child->pid);
    }
}

/* Advances a command; true: it is over. */
static bool tend(struct commands *c, struct child *child, double now_s)
{
    look_for_end(child, now_s); /* before its last output is read */
    gather(&child->out_fd, &child->out);
    gather(&child->err_fd, &child->err);
    if (child->phase == RUNNING && now_s >= child->until_s) {
        kill(-child->pid, SIGKILL); /* with all that it started */
        child->done.is_late = true;
        child->done.took_s = now_s - child->start_s;
        child->phase = DRAINING;
        child->until_s = now_s + grace_s;
    }
    bool has_no_pipe = child->out_fd < 0 && child->err_fd < 0;
    if (child->phase != DRAINING ||
        (now_s < child->until_s && !(child->has_ended && has_no_pipe)))
        return false;
    reap(c, child);
    child->phase = OVER;
    close_fd(&child->pidfd);
    close_fd(&child->out_fd);
    close_fd(&child->err_fd);
    return true;
}

static void bury(struct commands *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->undead.n; i++)
        if (waitpid(c->undead.at[i], NULL, WNOHANG) == 0)
            c->undead.at[n++] = c->undead.at[i];
    c->undead.n = n;
}

/* --- all commands --------------------------------------------------------- */

/* Advances the running commands, then starts waiting ones. */
static void turn(struct commands *c)
{
    double now_s = clock_elapsed_s();
    size_t n = 0;
    for (size_t i = 0; i < c->children.n; i++) {
        struct child *child = c->children.at[i];
        if (child->phase != WAITING && tend(c, child, now_s)) {
            vec_add(&c->over, child);
            c->nrunning--;
        }
    }
    for (size_t i = 0; i < c->children.n; i++) {
        struct child *child = c->children.at[i];
        if (child->phase == WAITING && c->nrunning < c->nmax)
            start(c, child);
        if (child->phase != OVER)
            c->children.at[n++] = child;
    }
    c->children.n = n;
    bury(c);
}

static void arm(const struct commands *c)
{
    double now_s = clock_elapsed_s(), due_s = INFINITY;
    for (size_t i = 0; i < c->children.n; i++) {
        const struct child *child = c->children.at[i];
        double until_s = child->until_s;
        if (child->phase == WAITING)
            continue;
        if (!child->has_ended && child->pidfd < 0 &&
            now_s + look_every_s < until_s)
            until_s = now_s + look_every_s;
        due_s = until_s < due_s ? until_s : due_s;
    }
    if (c->over.n > 0)
        due_s = now_s;
    struct itimerspec spec = {{0, 0}, {0, 0}};
    if (isfinite(due_s)) {
        double in_s = due_s > now_s ? due_s - now_s : 0;
        spec.it_value.tv_sec = (time_t)in_s;
        spec.it_value.tv_nsec =
            (long)(1e9 * (in_s - (double)spec.it_value.tv_sec)) + 1;
        if (spec.it_value.tv_nsec > 999999999)
            spec.it_value.tv_nsec = 999999999;
    }
    timerfd_settime(c->timer, 0, &spec, NULL);
}

enum firn_status commands_open(struct commands **out, int nmax,
                               struct firn_error *err)
{
    if (nmax < 1)
        return firn_fail(err, FIRN_EINVAL,
                         "the limit of %d commands at once is too low", nmax);
    struct commands *c = mem_new(1, sizeof *c);
    c->nmax = nmax;
    c->poll = epoll_create1(EPOLL_CLOEXEC);
    c->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (c->poll < 0 || c->timer < 0 || !watch(c, c->timer)) {
        enum firn_status status = firn_fail(
            err, FIRN_EIO, "cannot watch commands: %s", strerror(errno));
        commands_close(c);
        return status;
    }
    *out = c;
    return FIRN_OK;
}

void commands_close(struct commands *c)
{
    if (c == NULL)
        return;
    for (size_t i = 0; i < c->children.n; i++) {
        struct child *child = c->children.at[i];
        if (child->phase != WAITING) {
            if (!child->has_ended)
                kill(-child->pid, SIGKILL);
            vec_add(&c->undead, child->pid);
        }
        child_free(child);
    }
    double until_s = clock_elapsed_s() + close_within_s;
    for (bury(c); c->undead.n > 0 && clock_elapsed_s() < until_s; bury(c))
        nanosleep(&(struct timespec){0, 500000}, NULL);
    for (size_t i = 0; i < c->over.n; i++)
        child_free(c->over.at[i]);
    child_free(c->reported);
    vec_release(&c->children);
    vec_release(&c->over);
    vec_release(&c->undead);
    close_fd(&c->timer);
    close_fd(&c->poll);
    mem_free(c);
}

void commands_start(struct commands *c, const struct command *command)
{
    struct child *child = child_new(command);
    if (c->nrunning < c->nmax && c->nrunning == (int)c->children.n)
        start(c, child);
    if (child->phase != OVER)
        vec_add(&c->children, child);
    arm(c);
}

int commands_fd(const struct commands *c)
{
    return c->poll;
}

static struct firn_bytes text_of(const struct firn_buf *buf)
{
    return buf->n > 0 ? (struct firn_bytes){buf->at, buf->n}
                      : (struct firn_bytes){"", 0};
}

bool commands_next(struct commands *c, struct command_done *out)
{
    uint64_t times;
    while (read(c->timer, &times, sizeof times) > 0)
        ;
    child_free(c->reported);
    c->reported = NULL;
    turn(c);
    if (c->over.n > 0) {
        struct child *child = c->reported = c->over.at[0];
        memmove(c->over.at, c->over.at + 1, --c->over.n * sizeof *c->over.at);
        child->done.out = text_of(&child->out);
        child->done.err = text_of(&child->err);
        *out = child->done;
    }
    arm(c);
    return c->reported != NULL;
}

int commands_count(const struct commands *c, int tag)
{
    int n = 0;
    for (size_t i = 0; i < c->children.n; i++)
        n += tag == -1 || c->children.at[i]->done.tag == tag;
    return n;
}
