/* faultcalls.c - a library that makes the n-th call of a program fail.
 *
 * Loaded before all others (LD_PRELOAD), with the file of a plan in FAULT_PLAN
 * (lib/faultplan.h), it counts the calls of daemon, shepherd and trainer, and
 * answers some of them itself: by an error, without making the call, or by half
 * a write. So each place where a call may fail is tried in turn, and not only
 * those that a full disk or a low limit happens to hit.
 *
 * What it does not reach: calls that libc makes itself (stdio's, those within
 * posix_spawn), programs without libc, and sanitizers, which want to be first
 * in a process. SQLite calls through the table of libc's functions and is
 * reached: its pread and pwrite count as read and write.
 *
 * A disk that is full takes what lies within the file and refuses what makes
 * it longer, as file systems do that write in place.
 */
#define _GNU_SOURCE
#include "lib/faultplan.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define OURS __attribute__((visibility("default")))

static struct faultplan *plan;
static int role = -1;

static bool has_word(const char *text, size_t n, const char *word)
{
    return memmem(text, n, word, strlen(word) + 1) != NULL;
}

static int role_of(const char *words, size_t n)
{
    const char *slash = n > 0 ? strrchr(words, '/') : NULL;
    if (n == 0)
        return -1;
    if (has_word(words, n, "--shepherd"))
        return FAULT_SHEPHERD;
    if (strcmp(slash != NULL ? slash + 1 : words, "firnd") == 0)
        return FAULT_DAEMON;
    return getenv("FIRN_JOB") != NULL ? FAULT_TRAINER : -1;
}

__attribute__((constructor)) static void read_plan(void)
{
    char words[8192] = "";
    const char *path = getenv("FAULT_PLAN");
    long fd = path != NULL
                  ? syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC)
                  : -1;
    if (fd < 0)
        return;
    void *at = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED,
                    (int)fd, 0);
    syscall(SYS_close, fd);
    fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_CLOEXEC);
    long n = syscall(SYS_read, fd, words, sizeof words - 1);
    syscall(SYS_close, fd);
    role = role_of(words, n > 0 ? (size_t)n : 0);
    plan = at != MAP_FAILED && role >= 0 ? at : NULL;
}

/* The first that fails is kept for people; memory is no place to print. */
static void keep(enum fault_call call, const char *function, const char *path,
                 int fd)
{
    char link[40], target[120] = "";
    int error = errno;
    if (path == NULL && fd >= 0 && call != FAULT_MEMORY) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        path = target;
    }
    if (call != FAULT_MEMORY)
        snprintf(plan->struck, sizeof plan->struck, "%s(%.120s)", function,
                 path != NULL ? path : "");
    errno = error;
}

/* Is the path one that the plan is about? */
static bool is_meant(const char *path, int fd)
{
    char link[40], target[300] = "";
    int error = errno;
    if (plan->only[0] == '\0')
        return true;
    if (path == NULL && fd >= 0) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n =
            syscall(SYS_readlinkat, AT_FDCWD, link, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        path = target;
    }
    errno = error;
    return path != NULL && strstr(path, plan->only) != NULL;
}

/* 0: the call is made. Else the error, or FAULT_SHORT. */
static int strike(enum fault_call call, const char *function, const char *path,
                  int fd)
{
    if (plan == NULL || !is_meant(path, fd))
        return 0;
    long n = atomic_fetch_add(&plan->counts[role][call], 1) + 1;
    long nth = plan->nth;
    if (nth == 0 || n < nth || n >= nth + plan->length || plan->role != role ||
        plan->call != (int)call)
        return 0;
    if (atomic_fetch_add(&plan->nstruck, 1) == 0)
        keep(call, function, path, fd);
    return plan->error;
}

static bool is_full(void)
{
    return plan != NULL && plan->is_disk_full != 0 && role != FAULT_TRAINER;
}

static bool is_nowhere(int at, const char *path)
{
    return is_full() && syscall(SYS_faccessat, at, path, F_OK) != 0;
}

/* Pipes and events fail in other ways than files: they are interrupted. */
static enum fault_call kind_of(int fd, enum fault_call of_file)
{
    struct stat st;
    if (plan == NULL || of_file == FAULT_SEND || fstat(fd, &st) != 0)
        return of_file;
    return S_ISREG(st.st_mode) ? of_file : FAULT_PIPE;
}

/* Would a write of `n` bytes at `offset` (below 0: at the file's own place)
 * make the file longer than a full disk allows? */
static bool is_too_long(int fd, size_t n, off_t offset)
{
    struct stat st;
    if (!is_full() || n == 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    if (offset < 0)
        offset = (fcntl(fd, F_GETFL) & O_APPEND) != 0 ? st.st_size
                                                      : lseek(fd, 0, SEEK_CUR);
    return offset + (off_t)n > st.st_size;
}

/* Half a write is the business of those that write. */
static bool refuse(int error)
{
    if (error > 0)
        errno = error;
    return error > 0;
}

/* The function of that name that would have been called. */
#define FIND(name)                 \
    static __typeof__(&name) real; \
    if (real == NULL)              \
    *(void **)&real = dlsym(RTLD_NEXT, #name)

#define FAIL(type, bad, call, name, path, fd, parameters, arguments) \
    OURS type name parameters                                        \
    {                                                                \
        FIND(name);                                                  \
        if (refuse(strike(FAULT_##call, #name, path, fd)))           \
            return bad;                                              \
        return real arguments;                                       \
    }

/* --- files ---------------------------------------------------------------- */

static bool is_made(int how)
{
    return (how & O_CREAT) != 0 || (how & O_TMPFILE) == O_TMPFILE;
}

#define OPEN(name, at, parameters, arguments)                   \
    OURS int name parameters                                    \
    {                                                           \
        FIND(name);                                             \
        va_list rest;                                           \
        va_start(rest, how);                                    \
        mode_t mode = is_made(how) ? va_arg(rest, mode_t) : 0;  \
        va_end(rest);                                           \
        int error = strike(FAULT_OPEN, #name, path, -1);        \
        if (error == 0 && is_made(how) && is_nowhere(at, path)) \
            error = ENOSPC;                                     \
        if (refuse(error))                                      \
            return -1;                                          \
        return real arguments;                                  \
    }
OPEN(open, AT_FDCWD, (const char *path, int how, ...), (path, how, mode))
OPEN(open64, AT_FDCWD, (const char *path, int how, ...), (path, how, mode))
OPEN(openat, at, (int at, const char *path, int how, ...),
     (at, path, how, mode))
OPEN(openat64, at, (int at, const char *path, int how, ...),
     (at, path, how, mode))
FAIL(FILE *, NULL, OPEN, fopen, path, -1, (const char *path, const char *how),
     (path, how))
FAIL(FILE *, NULL, OPEN, fopen64, path, -1, (const char *path, const char *how),
     (path, how))
FAIL(DIR *, NULL, OPEN, opendir, path, -1, (const char *path), (path))
FAIL(DIR *, NULL, OPEN, fdopendir, NULL, fd, (int fd), (fd))
FAIL(int, -1, OPEN, mkstemp, path, -1, (char *path), (path))
FAIL(int, -1, OPEN, mkstemp64, path, -1, (char *path), (path))

#define READ(name, parameters, arguments)                             \
    OURS ssize_t name parameters                                      \
    {                                                                 \
        FIND(name);                                                   \
        if (refuse(strike(kind_of(fd, FAULT_READ), #name, NULL, fd))) \
            return -1;                                                \
        return real arguments;                                        \
    }
READ(read, (int fd, void *to, size_t n), (fd, to, n))
READ(pread, (int fd, void *to, size_t n, off_t at), (fd, to, n, at))
READ(pread64, (int fd, void *to, size_t n, off_t at), (fd, to, n, at))

#define WRITE(call, name, offset, parameters, arguments)        \
    OURS ssize_t name parameters                                \
    {                                                           \
        FIND(name);                                             \
        int error = strike(kind_of(fd, call), #name, NULL, fd); \
        if (error == FAULT_SHORT && n > 1)                      \
            n /= 2;                                             \
        if (error == FAULT_SHORT)                               \
            error = 0;                                          \
        if (error == 0 && is_too_long(fd, n, offset))           \
            error = ENOSPC;                                     \
        if (refuse(error))                                      \
            return -1;                                          \
        return real arguments;                                  \
    }
WRITE(FAULT_WRITE, write, -1, (int fd, const void *from, size_t n),
      (fd, from, n))
WRITE(FAULT_WRITE, pwrite, at, (int fd, const void *from, size_t n, off_t at),
      (fd, from, n, at))
WRITE(FAULT_WRITE, pwrite64, at, (int fd, const void *from, size_t n, off_t at),
      (fd, from, n, at))
WRITE(FAULT_SEND, send, 0, (int fd, const void *from, size_t n, int how),
      (fd, from, n, how))

FAIL(int, -1, RENAME, rename, from, -1, (const char *from, const char *to),
     (from, to))
FAIL(int, -1, RENAME, renameat, from, -1,
     (int a, const char *from, int b, const char *to), (a, from, b, to))

static void be_slow(void)
{
    long us = plan != NULL ? plan->sync_us : 0;
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    if (us > 0)
        syscall(SYS_nanosleep, &time, NULL);
}

#define SYNC(name)                                       \
    OURS int name(int fd)                                \
    {                                                    \
        FIND(name);                                      \
        be_slow();                                       \
        if (refuse(strike(FAULT_SYNC, #name, NULL, fd))) \
            return -1;                                   \
        return real(fd);                                 \
    }
SYNC(fsync)
SYNC(fdatasync)

#define TRUNCATE(name)                                       \
    OURS int name(int fd, off_t size)                        \
    {                                                        \
        FIND(name);                                          \
        int error = strike(FAULT_TRUNCATE, #name, NULL, fd); \
        if (refuse(error))                                   \
            return -1;                                       \
        return real(fd, size);                               \
    }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

#define ALLOCATE(name)                                       \
    OURS int name(int fd, off_t at, off_t size)              \
    {                                                        \
        FIND(name);                                          \
        int error = strike(FAULT_TRUNCATE, #name, NULL, fd); \
        if (error == 0 && is_too_long(fd, (size_t)size, at)) \
            error = ENOSPC;                                  \
        return error != 0 ? error : real(fd, at, size);      \
    }
ALLOCATE(posix_fallocate)
ALLOCATE(posix_fallocate64)

#define MKDIR(name, at, parameters, arguments)            \
    OURS int name parameters                              \
    {                                                     \
        FIND(name);                                       \
        int error = strike(FAULT_MKDIR, #name, path, -1); \
        if (error == 0 && is_nowhere(at, path))           \
            error = ENOSPC;                               \
        if (refuse(error))                                \
            return -1;                                    \
        return real arguments;                            \
    }
MKDIR(mkdir, AT_FDCWD, (const char *path, mode_t mode), (path, mode))
MKDIR(mkdirat, at, (int at, const char *path, mode_t mode), (at, path, mode))

FAIL(int, -1, UNLINK, unlink, path, -1, (const char *path), (path))
FAIL(int, -1, UNLINK, unlinkat, path, -1, (int at, const char *path, int how),
     (at, path, how))
FAIL(int, -1, UNLINK, rmdir, path, -1, (const char *path), (path))

FAIL(int, -1, STAT, stat, path, -1, (const char *path, struct stat *out),
     (path, out))
FAIL(int, -1, STAT, lstat, path, -1, (const char *path, struct stat *out),
     (path, out))
FAIL(int, -1, STAT, fstatat, path, -1,
     (int at, const char *path, struct stat *out, int how),
     (at, path, out, how))
FAIL(int, -1, STAT, access, path, -1, (const char *path, int how), (path, how))
FAIL(int, -1, STAT, faccessat, path, -1,
     (int at, const char *path, int how, int flags), (at, path, how, flags))
FAIL(ssize_t, -1, STAT, readlink, path, -1,
     (const char *path, char *to, size_t n), (path, to, n))

FAIL(int, -1, LOCK, flock, NULL, fd, (int fd, int how), (fd, how))

/* --- processes ------------------------------------------------------------ */

FAIL(pid_t, -1, FORK, fork, NULL, -1, (void), ())
FAIL(int, -1, EXEC, execve, path, -1,
     (const char *path, char *const argv[], char *const env[]),
     (path, argv, env))

/* They return the error. */
#define SPAWN(name)                                                            \
    OURS int name(                                                             \
        pid_t *pid, const char *path, const posix_spawn_file_actions_t *files, \
        const posix_spawnattr_t *how, char *const argv[], char *const env[])   \
    {                                                                          \
        FIND(name);                                                            \
        int error = strike(FAULT_FORK, #name, path, -1);                       \
        return error != 0 ? error : real(pid, path, files, how, argv, env);    \
    }
SPAWN(posix_spawn)
SPAWN(posix_spawnp)

/* --- sockets, and what wakes; addresses are a union of libc's own -------- */

FAIL(int, -1, SOCKET, socket, NULL, -1, (int family, int type, int protocol),
     (family, type, protocol))
FAIL(int, -1, SOCKET, accept, NULL, fd,
     (int fd, __SOCKADDR_ARG from, socklen_t *n), (fd, from, n))
FAIL(int, -1, SOCKET, accept4, NULL, fd,
     (int fd, __SOCKADDR_ARG from, socklen_t *n, int how), (fd, from, n, how))
FAIL(ssize_t, -1, SEND, recv, NULL, fd, (int fd, void *to, size_t n, int how),
     (fd, to, n, how))
FAIL(int, -1, EVENT, epoll_create1, NULL, -1, (int how), (how))
FAIL(int, -1, EVENT, timerfd_create, NULL, -1, (clockid_t clock, int how),
     (clock, how))
FAIL(int, -1, EVENT, signalfd, NULL, fd,
     (int fd, const sigset_t *mask, int how), (fd, mask, how))
FAIL(int, -1, EVENT, inotify_init1, NULL, -1, (int how), (how))
FAIL(int, -1, EVENT, inotify_add_watch, path, fd,
     (int fd, const char *path, uint32_t mask), (fd, path, mask))
FAIL(int, -1, EVENT, pipe2, NULL, -1, (int ends[2], int how), (ends, how))
FAIL(int, -1, EVENT, memfd_create, name, -1, (const char *name, unsigned how),
     (name, how))
FAIL(int, -1, WAIT, epoll_wait, NULL, fd,
     (int fd, struct epoll_event *out, int n, int ms), (fd, out, n, ms))
FAIL(int, -1, WAIT, epoll_pwait, NULL, fd,
     (int fd, struct epoll_event *out, int n, int ms, const sigset_t *mask),
     (fd, out, n, ms, mask))
FAIL(int, -1, WAIT, poll, NULL, -1, (struct pollfd * fds, nfds_t n, int ms),
     (fds, n, ms))

/* What is added takes memory of the kernel's; libuv aborts without. */
OURS int epoll_ctl(int on, int what, int fd, struct epoll_event *event)
{
    FIND(epoll_ctl);
    if (what == EPOLL_CTL_ADD &&
        refuse(strike(FAULT_MEMORY, "epoll_ctl", NULL, fd)))
        return -1;
    return real(on, what, fd, event);
}

/* Of those without a function of their own, the one that makes a descriptor. */
OURS long syscall(long number, ...)
{
    static long (*real)(long, ...);
    long a[6];
    va_list rest;
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    va_start(rest, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(rest, long);
    va_end(rest);
    if (number == SYS_pidfd_open &&
        refuse(strike(FAULT_EVENT, "pidfd_open", NULL, -1)))
        return -1;
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* --- memory: dlsym() itself asks for some -------------------------------- */

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);

OURS void *malloc(size_t size)
{
    if (refuse(strike(FAULT_MEMORY, "malloc", NULL, -1)))
        return NULL;
    return __libc_malloc(size);
}

OURS void *calloc(size_t n, size_t size)
{
    if (refuse(strike(FAULT_MEMORY, "calloc", NULL, -1)))
        return NULL;
    return __libc_calloc(n, size);
}

OURS void *realloc(void *old, size_t size)
{
    if (refuse(strike(FAULT_MEMORY, "realloc", NULL, -1)))
        return NULL;
    return __libc_realloc(old, size);
}

#define MMAP(name)                                                  \
    OURS void *name(void *at, size_t n, int how, int flags, int fd, \
                    off_t offset)                                   \
    {                                                               \
        FIND(name);                                                 \
        if (refuse(strike(FAULT_MEMORY, #name, NULL, -1)))          \
            return MAP_FAILED;                                      \
        return real(at, n, how, flags, fd, offset);                 \
    }
MMAP(mmap)
MMAP(mmap64)

/* --- the time of day ----------------------------------------------------- */

static long offset_s(void)
{
    return plan != NULL ? plan->clock_s : 0;
}

OURS int clock_gettime(clockid_t which, struct timespec *t)
{
    FIND(clock_gettime);
    int result = real(which, t);
    if (result == 0 && which == CLOCK_REALTIME)
        t->tv_sec += offset_s();
    return result;
}

OURS time_t time(time_t *out)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out != NULL)
        *out = t.tv_sec;
    return t.tv_sec;
}

OURS int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    FIND(gettimeofday);
    int result = real(t, zone);
    if (result == 0)
        t->tv_sec += offset_s();
    return result;
}
