/* slowcalls.c - a library that makes every process of a test slow at random.
 *
 * A test that takes one event for another, or looks at the clock, passes a
 * thousand times on an idle machine and fails once on a busy one. With this
 * library loaded before all others (LD_PRELOAD), and so in every process that a
 * test starts, a call that other processes can see the effect of is now and
 * then delayed, before it or after: what happens between two calls of one
 * process then happens in many more orders. `make slow` runs all tests of the
 * live parts so.
 *
 *     SLOW_CALLS=0.03,60     three calls in a hundred, 60 ms at most
 *     SLOW_CALLS=0.01,1500   rarely and long, like a machine that swaps
 *
 * Without the variable nothing is delayed. The order of things is the kernel's:
 * there is no seed, and a failure is not played again but looked for.
 *
 * What it does not reach: programs that are linked without libc, calls that
 * libc makes itself (stdio, posix_spawn), and sanitizers, which want to be
 * first in a process.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double chance, most_s;
static __thread uint64_t drawn;

__attribute__((constructor)) static void read_wish(void)
{
    const char *wish = getenv("SLOW_CALLS");
    double most_ms = 0;
    if (wish == NULL || sscanf(wish, "%lf,%lf", &chance, &most_ms) != 2)
        chance = 0;
    most_s = most_ms / 1000;
}

/* From 0 to below 1: xorshift, begun anew in each thread and process. */
static double draw(void)
{
    struct timespec now;
    if (drawn == 0) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        drawn = (uint64_t)now.tv_nsec * 2654435761u + 1 +
                ((uint64_t)syscall(SYS_gettid) << 32);
    }
    drawn ^= drawn << 13;
    drawn ^= drawn >> 7;
    drawn ^= drawn << 17;
    return (double)(drawn >> 11) / 9007199254740992.0;
}

/* By the system call itself: in a signal's handler, too. */
static void delay(void)
{
    if (chance <= 0 || draw() >= chance)
        return;
    int error = errno;
    double s = most_s * draw();
    struct timespec time = {(time_t)s, (long)(1e9 * (s - (double)(time_t)s))};
    syscall(SYS_nanosleep, &time, NULL);
    errno = error;
}

/* The function of that name that would have been called. */
#define FIND(name)                 \
    static __typeof__(&name) real; \
    if (real == NULL)              \
    *(void **)&real = dlsym(RTLD_NEXT, #name)

#define SLOW(type, name, parameters, arguments)                 \
    __attribute__((visibility("default"))) type name parameters \
    {                                                           \
        FIND(name);                                             \
        delay();                                                \
        type result = real arguments;                           \
        delay();                                                \
        return result;                                          \
    }

/* Files. */
SLOW(int, rename, (const char *from, const char *to), (from, to))
SLOW(int, renameat, (int a, const char *from, int b, const char *to),
     (a, from, b, to))
SLOW(int, unlink, (const char *path), (path))
SLOW(int, unlinkat, (int at, const char *path, int how), (at, path, how))
SLOW(int, close, (int fd), (fd))
SLOW(int, flock, (int fd, int how), (fd, how))
SLOW(int, fsync, (int fd), (fd))
SLOW(int, fdatasync, (int fd), (fd))
SLOW(ssize_t, read, (int fd, void *to, size_t n), (fd, to, n))
SLOW(ssize_t, write, (int fd, const void *from, size_t n), (fd, from, n))

/* Processes. */
SLOW(int, kill, (pid_t pid, int number), (pid, number))
SLOW(pid_t, waitpid, (pid_t pid, int *status, int how), (pid, status, how))
SLOW(int, pthread_create,
     (pthread_t * out, const pthread_attr_t *how, void *(*run)(void *),
      void *with),
     (out, how, run, with))

/* Sockets and what wakes; an address is a union of libc's own here. */
SLOW(int, connect, (int fd, __CONST_SOCKADDR_ARG to, socklen_t n), (fd, to, n))
SLOW(int, accept4, (int fd, __SOCKADDR_ARG from, socklen_t *n, int how),
     (fd, from, n, how))
SLOW(ssize_t, send, (int fd, const void *from, size_t n, int how),
     (fd, from, n, how))
SLOW(ssize_t, recv, (int fd, void *to, size_t n, int how), (fd, to, n, how))
SLOW(ssize_t, sendmsg, (int fd, const struct msghdr *what, int how),
     (fd, what, how))
SLOW(ssize_t, recvmsg, (int fd, struct msghdr *what, int how), (fd, what, how))
SLOW(int, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms))
SLOW(int, epoll_wait, (int fd, struct epoll_event *out, int n, int ms),
     (fd, out, n, ms))
SLOW(int, epoll_pwait,
     (int fd, struct epoll_event *out, int n, int ms, const sigset_t *mask),
     (fd, out, n, ms, mask))

/* Those that do not fit above. */

static bool has_mode(int how)
{
    return (how & O_CREAT) != 0 || (how & O_TMPFILE) == O_TMPFILE;
}

#define OPEN(name, parameters, arguments)                       \
    __attribute__((visibility("default"))) int name parameters  \
    {                                                           \
        FIND(name);                                             \
        va_list rest;                                           \
        va_start(rest, how);                                    \
        mode_t mode = has_mode(how) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                           \
        delay();                                                \
        int result = real arguments;                            \
        delay();                                                \
        return result;                                          \
    }
OPEN(open, (const char *path, int how, ...), (path, how, mode))
OPEN(openat, (int at, const char *path, int how, ...), (at, path, how, mode))

__attribute__((visibility("default"))) pid_t fork(void)
{
    FIND(fork);
    delay();
    pid_t pid = real();
    if (pid == 0)
        drawn = 0;
    delay();
    return pid;
}

__attribute__((visibility("default"))) int
execve(const char *path, char *const argv[], char *const env[])
{
    FIND(execve);
    delay();
    return real(path, argv, env);
}

__attribute__((visibility("default"), noreturn)) void _exit(int status)
{
    delay();
    for (;;)
        syscall(SYS_exit_group, status);
}
