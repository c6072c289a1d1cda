/* joblog.c - from the pipe of a job's processes into its log.
 *
 * Invariants:
 * (1) each of the two files has at most half of the limit, so both together
 *     have at most the limit;
 * (2) a file ends with a line end, unless the line came in pieces and the file
 *     was full between two of them, or the line is longer than a file;
 * (3) nothing here blocks: the pipe is read without blocking, and a failed
 *     write is counted, not repeated;
 * (4) the file is opened without following a symbolic link, and only a plain
 *     file is written to.
 *
 * A log that is over the limit when it is opened (it was written by an older
 * firn, or with a higher limit) is cut down first: its newest part is copied,
 * at most half of the limit.
 *
 * splice(2) is not used because ends of lines have to be found, for (2).
 *
 * The pipe has 256 KiB, not the 1 MiB that a user may have: once all pipes of a
 * user have 64 MiB together, the kernel makes further ones small, those of the
 * user's other programs too.
 *
 * Cost: a wake-up, a read and a write for each piece of output.
 */
#define _GNU_SOURCE
#include "engine/joblog.h"
#include "base/clock.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ROOM = 64 << 10,
    PUMP_BYTES = 1 << 20,
    PIPE_BYTES = 256 << 10,
    LINE = 200,
    PATH_SIZE = 4200
};
static const double again_after_s = 1;

/* --- the file ------------------------------------------------------------- */

static void name_with(const struct joblog *log, const char *ending,
                      char out[PATH_SIZE])
{
    snprintf(out, PATH_SIZE, "%s%s", log->path, ending);
}

/* Writes all bytes; false: errno, and `*done` bytes were written. */
static bool write_all(const struct joblog *log, int fd, struct firn_bytes bytes,
                      size_t *done)
{
    *done = 0;
    while (*done < bytes.n) {
        ssize_t n = log->write(fd, bytes.at + *done, bytes.n - *done);
        if (n > 0)
            *done += (size_t)n;
        else if (n == 0 || errno != EINTR) {
            errno = n == 0 ? EIO : errno;
            return false;
        }
    }
    return true;
}

static bool append(struct joblog *log, struct firn_bytes bytes)
{
    size_t done;
    bool is_good = write_all(log, log->fd, bytes, &done);
    log->size += (int64_t)done;
    if (done > 0)
        log->is_in_line = bytes.at[done - 1] != '\n';
    return is_good;
}

static struct firn_bytes head_line(const struct joblog *log, int64_t base,
                                   char out[LINE])
{
    int n = snprintf(out, LINE,
                     "firn: %lld bytes of output came before this line; this "
                     "log keeps the newest %.6g MiB\n",
                     (long long)base, (double)log->max / (1 << 20));
    return (struct firn_bytes){out, (size_t)n};
}

/* Where the supervisor runs as the job's user and firnd reads the log, the
 * folder has firnd's group (launch/asuser.h): the group reads the file. */
static void share(int fd, const char *path, const struct stat *st)
{
    char folder[PATH_SIZE];
    struct stat above;
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash == NULL || (st->st_mode & 0040) != 0 || st->st_uid != geteuid())
        return;
    *slash = '\0';
    if (stat(folder[0] != '\0' ? folder : "/", &above) == 0 &&
        (above.st_mode & S_ISGID) != 0 && above.st_gid == st->st_gid &&
        fchmod(fd, 0660) != 0)
        return; /* firnd cannot show it */
}

/* (4) A descriptor, or -1 with errno; ELOOP, EISDIR, ENXIO: refused. */
static int open_plain(const char *path, int flags)
{
    struct stat st;
    int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY,
                  0600);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        share(fd, path, &st);
        return fd;
    }
    close(fd);
    errno = ENXIO;
    return -1;
}

/* Opens the file, and writes its first line if it needs one. False: errno;
 * tried again at the next write. */
static bool open_half(struct joblog *log)
{
    char line[LINE];
    struct stat st;
    if (log->fd < 0) {
        log->fd = open_plain(log->path, O_RDWR | O_APPEND | O_CREAT);
        if (log->fd < 0)
            return false;
        log->size = fstat(log->fd, &st) == 0 ? (int64_t)st.st_size : 0;
        log->is_in_line = false;
    }
    if (log->size > 0 || log->base == 0 ||
        append(log, head_line(log, log->base, line)))
        return true;
    int error = errno;
    if (ftruncate(log->fd, 0) == 0) /* all of the line or nothing */
        log->size = 0;
    errno = error;
    return false;
}

/* Makes the new file first, so that `log` is missing only for a moment; without
 * space for a third file, it is made after the oldest half is gone. The oldest
 * is deleted, not replaced by rename(): ext4 writes a file that replaces
 * another to disk at once. */
static bool rotate(struct joblog *log)
{
    char older[PATH_SIZE], draft[PATH_SIZE];
    name_with(log, ".1", older);
    name_with(log, ".new", draft);
    if (log->is_in_line && !append(log, (struct firn_bytes){"\n", 1}))
        return false;
    unlink(draft);
    int fd = open_plain(draft, O_RDWR | O_APPEND | O_CREAT | O_EXCL);
    unlink(older);
    bool is_moved = rename(log->path, older) == 0 || errno == ENOENT;
    if (is_moved && fd >= 0 && rename(draft, log->path) == 0) {
        close(log->fd);
        log->fd = fd;
    } else {
        int error = errno;
        if (fd >= 0)
            close(fd);
        unlink(draft);
        errno = error;
        if (!is_moved)
            return false;
        close(log->fd);
        log->fd = -1;
    }
    log->base += log->size;
    log->size = 0;
    return open_half(log);
}

/* How many of the bytes fit into this half: (1), (2). */
static size_t fitting(const struct joblog *log, struct firn_bytes bytes)
{
    int64_t left = log->max / 2 - log->size;
    if (log->max == 0 || (int64_t)bytes.n <= left)
        return bytes.n;
    if (left <= 0)
        return 0;
    const char *end = memrchr(bytes.at, '\n', (size_t)left);
    if (end != NULL)
        return (size_t)(end - bytes.at) + 1;
    bool may_end_here = !log->is_in_line && log->size > LINE;
    return may_end_here ? 0 : (size_t)left - 1;
}

/* Returns how many bytes could not be written. */
static size_t put(struct joblog *log, struct firn_bytes bytes)
{
    if (!open_half(log))
        return bytes.n;
    while (bytes.n > 0) {
        int64_t before = log->size;
        size_t n = fitting(log, bytes);
        bool is_good = append(log, (struct firn_bytes){bytes.at, n});
        size_t done = (size_t)(log->size - before);
        bytes.at += done;
        bytes.n -= done;
        if (!is_good || (bytes.n > 0 && !rotate(log)))
            return bytes.n;
    }
    return 0;
}

/* --- lost bytes ----------------------------------------------------------- */

static void lose(struct joblog *log, size_t n)
{
    log->error = errno;
    log->nlost += (int64_t)n;
    log->again_s = clock_elapsed_s() + again_after_s;
}

/* Writes how many bytes were lost. False: too early, or that write failed. */
static bool tell_lost(struct joblog *log)
{
    char line[LINE];
    if (clock_elapsed_s() < log->again_s)
        return false;
    int n = snprintf(line, sizeof line,
                     "%sfirn: %lld bytes of output were lost here: %s\n",
                     log->is_in_line ? "\n" : "", (long long)log->nlost,
                     strerror(log->error));
    if (put(log, (struct firn_bytes){line, (size_t)n}) > 0) {
        lose(log, 0);
        return false;
    }
    log->nlost = 0;
    return true;
}

void joblog_write(struct joblog *log, struct firn_bytes bytes)
{
    if (log->path == NULL)
        return;
    if (log->nlost > 0 && !tell_lost(log)) {
        log->nlost += (int64_t)bytes.n;
        return;
    }
    size_t left = put(log, bytes);
    if (left > 0)
        lose(log, left); /* (3) */
}

/* --- opening -------------------------------------------------------------- */

/* Copies the newest part of a log that is too long into the older half. False:
 * the log stays as it is until it is next rotated. */
static bool copy_newest(struct joblog *log, const struct joblog_view *view)
{
    char draft[PATH_SIZE], older[PATH_SIZE], line[LINE];
    char *room = mem_new(ROOM, 1);
    name_with(log, ".new", draft);
    name_with(log, ".1", older);
    unlink(draft);
    int64_t at = view->end - log->max / 2 + LINE;
    int64_t base = at - (int64_t)head_line(log, at, line).n;
    struct firn_bytes head = head_line(log, base, line);
    size_t done;
    at = base + (int64_t)head.n; /* so that offsets do not change */
    int fd = open_plain(draft, O_WRONLY | O_CREAT | O_EXCL);
    bool is_good = fd >= 0 && write_all(log, fd, head, &done);
    while (is_good && at < view->end) {
        ssize_t n = joblog_read(view, at, room, ROOM);
        is_good =
            n > 0 &&
            write_all(log, fd, (struct firn_bytes){room, (size_t)n}, &done);
        at += n;
    }
    mem_free(room);
    if (fd >= 0)
        close(fd);
    is_good = is_good && rename(draft, older) == 0 &&
              (unlink(log->path) == 0 || errno == ENOENT);
    unlink(draft);
    return is_good;
}

/* Finds where the log ends, and shortens a log that is over the limit. */
static void take_up(struct joblog *log)
{
    struct joblog_view view;
    struct stat st;
    joblog_view(&view, log->path);
    log->base = view.base[1];
    if (log->max > 0 && view.end - view.first > log->max &&
        copy_newest(log, &view)) {
        close(log->fd);
        log->fd = -1;
        log->base = view.end;
        log->fd = open_plain(log->path, O_RDWR | O_APPEND | O_CREAT | O_EXCL);
    }
    joblog_view_close(&view);
    if (log->fd >= 0 && fstat(log->fd, &st) == 0) {
        char last = '\n';
        log->size = (int64_t)st.st_size;
        if (log->size > 0 && pread(log->fd, &last, 1, st.st_size - 1) == 1)
            log->is_in_line = last != '\n';
    }
}

static enum firn_status refused(const char *path, int error,
                                struct firn_error *err)
{
    return firn_fail(err, FIRN_EINVAL,
                     "the job's log is %s, not a plain file: remove '%.300s'",
                     error == ELOOP    ? "a symbolic link"
                     : error == EISDIR ? "a folder"
                                       : "a device, pipe or socket",
                     path);
}

static bool is_refusal(int error)
{
    return error == ELOOP || error == EISDIR || error == ENXIO;
}

enum firn_status joblog_check(const char *path, struct firn_error *err)
{
    int fd = open_plain(path, O_RDONLY);
    if (fd < 0 && is_refusal(errno))
        return refused(path, errno, err);
    if (fd >= 0)
        close(fd);
    return FIRN_OK;
}

static enum firn_status open_pipe(struct joblog *log, struct firn_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return firn_fail(err, FIRN_EIO,
                         "cannot create the pipe for its output: %s",
                         strerror(errno));
    log->in = ends[0];
    log->out = ends[1];
    fcntl(log->in, F_SETFL, O_NONBLOCK);       /* of this end alone */
    fcntl(log->out, F_SETPIPE_SZ, PIPE_BYTES); /* or it stays smaller */
    log->room = mem_new(ROOM, 1);
    log->tail = mem_new(JOBLOG_TAIL, 1);
    return FIRN_OK;
}

enum firn_status joblog_open(struct joblog *log, const char *path, int64_t max,
                             struct firn_error *err)
{
    *log = (struct joblog){.path = strcmp(path, "/dev/null") != 0 ? path : NULL,
                           .fd = -1,
                           .max = max > 0 && max < JOBLOG_LEAST ? JOBLOG_LEAST
                                                                : max,
                           .in = -1,
                           .out = -1,
                           .write = write};
    if (log->path != NULL) {
        log->fd = open_plain(path, O_RDWR | O_APPEND | O_CREAT);
        if (log->fd < 0 && is_refusal(errno))
            return refused(path, errno, err);
        if (log->fd < 0)
            lose(log, 0);
        take_up(log);
    }
    return open_pipe(log, err);
}

void joblog_close(struct joblog *log)
{
    int *const all[] = {&log->fd, &log->in, &log->out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (*all[i] >= 0)
            close(*all[i]);
        *all[i] = -1;
    }
    mem_free(log->room);
    mem_free(log->tail);
    log->room = log->tail = NULL;
}

/* --- the pipe ------------------------------------------------------------- */

static void keep_tail(struct joblog *log, struct firn_bytes bytes)
{
    if (bytes.n > JOBLOG_TAIL) {
        bytes.at += bytes.n - JOBLOG_TAIL;
        bytes.n = JOBLOG_TAIL;
    }
    size_t kept = JOBLOG_TAIL - bytes.n;
    kept = kept < log->ntail ? kept : log->ntail;
    memmove(log->tail, log->tail + log->ntail - kept, kept);
    memcpy(log->tail + kept, bytes.at, bytes.n);
    log->ntail = kept + bytes.n;
}

static void take(struct joblog *log, int64_t most)
{
    while (most > 0 && log->in >= 0) {
        size_t want = most < ROOM ? (size_t)most : ROOM;
        ssize_t n = read(log->in, log->room, want);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        struct firn_bytes bytes = {log->room, (size_t)n};
        keep_tail(log, bytes);
        joblog_write(log, bytes);
        most -= n;
        if ((size_t)n < want)
            return; /* empty; poll() reports more */
    }
}

void joblog_pump(struct joblog *log)
{
    take(log, PUMP_BYTES);
}

void joblog_drain(struct joblog *log)
{
    int n = 0;
    if (log->in >= 0 && ioctl(log->in, FIONREAD, &n) == 0)
        take(log, n);
}
