/* joblog.h - a job's output on disk: the newest part of it, up to a limit.
 *
 * The processes of a job write into one pipe, and the shepherd writes what it
 * reads there into the log. So the log has one writer, and no process can write
 * past the limit, whatever its speed: a job that prints faster than the
 * shepherd writes waits in its own write().
 *
 * The log is two files, each up to half of the limit:
 *
 *     log.1    the older half; it does not change any more
 *     log      the newer half; bytes are appended
 *
 * When `log` is full it replaces `log.1`, and a new `log` begins with a line
 * that holds the number of all bytes before it. So each byte has an offset from
 * the job's first byte, over all attempts, that does not change when older
 * bytes are dropped. A log without such a line (the first half, or one of an
 * older firn) begins at offset 0.
 *
 * A failed write (the disk is full) loses those bytes and nothing else: the job
 * goes on, the bytes are counted, and the number is logged once a write works
 * again. Writing is retried once a second.
 */
#ifndef ENGINE_JOBLOG_H
#define ENGINE_JOBLOG_H
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The exit status of a job whose log is not a plain file. */
enum { JOBLOG_REFUSED = 73 };
/* Smaller limits are raised to this; 0 is "no limit". */
enum { JOBLOG_LEAST = 4096 };
enum { JOBLOG_TAIL = 1 << 14 };

/* --- writing -------------------------------------------------------------- */

typedef ssize_t joblog_writer(int fd, const void *bytes, size_t n);

struct joblog {
    const char *path; /* of `log`; borrowed */
    int fd;           /* -1: not open */
    int64_t max;      /* bytes of both files; 0: no limit */
    int64_t base;     /* the offset of the file's first byte */
    int64_t size;     /* of the file */
    bool is_in_line;  /* the last byte was not a line end */
    int64_t nlost;    /* bytes lost and not yet mentioned in the log */
    int error;        /* why: errno */
    double again_s;   /* the next try to write */
    int in, out;      /* of the pipe; -1: there is none */
    char *room;       /* buffer for reads */
    char *tail;       /* the last JOBLOG_TAIL bytes that came by the pipe */
    size_t ntail;
    joblog_writer *write; /* write(2); replaced in tests */
};

/* Opens or creates the file, and a pipe. FIRN_EINVAL: the path is a symbolic
 * link or not a plain file; it is left alone. FIRN_EIO: no pipe. Another error
 * of the file counts as a failed write. `path` must outlive `log`. Close it in
 * any case. */
enum firn_status joblog_open(struct joblog *log, const char *path, int64_t max,
                             struct firn_error *err);
void joblog_close(struct joblog *log);

/* Appends to the file. */
void joblog_write(struct joblog *log, struct firn_bytes bytes);
/* Copies the pipe into the file, at most about 1 MiB; never waits. */
void joblog_pump(struct joblog *log);
/* Copies what is in the pipe now, however fast it is filled. */
void joblog_drain(struct joblog *log);

/* --- reading -------------------------------------------------------------- */

/* Both files at one moment. */
struct joblog_view {
    int fd[2];       /* log.1, log; -1: not there */
    int64_t base[2]; /* offsets of their first bytes */
    int64_t first;   /* the oldest byte that is kept */
    int64_t end;     /* behind the last one */
};

/* False: `log` is not a plain file. A missing file is an empty log. Close the
 * view in any case. */
bool joblog_view(struct joblog_view *view, const char *path);
void joblog_view_close(struct joblog_view *view);
/* Reads up to `n` bytes from `offset` on, fewer where a file ends; 0: none, or
 * dropped; -1: errno. */
ssize_t joblog_read(const struct joblog_view *view, int64_t offset, char *out,
                    size_t n);
/* The offset in the first line of a file; 0: the line has none. */
int64_t joblog_base(const char *text, size_t n);

/* FIRN_EINVAL, with the reason, for a path that cannot be a log. */
enum firn_status joblog_check(const char *path, struct firn_error *err);

#endif
