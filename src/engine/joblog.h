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
 * When `log` is full it becomes `log.1` in the place of the one before, and a
 * new `log` begins with a line that has the number of all bytes before it. By
 * that number a byte of the log has an offset that counts from the job's first
 * byte, over all attempts, and does not change when older bytes are dropped. A
 * log without such a line (the first half, or one of an older firn) begins at
 * offset 0.
 *
 * A write that fails (the disk is full) loses those bytes and nothing else: the
 * job goes on, the bytes are counted, and the number is written into the log as
 * soon as a write works again. It is tried again once a second.
 */
#ifndef ENGINE_JOBLOG_H
#define ENGINE_JOBLOG_H
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The status that a job ends with when its log may not be opened. */
enum { JOBLOG_REFUSED = 73 };
/* The smallest limit that is kept; 0 is "no limit". */
enum { JOBLOG_LEAST = 4096 };
enum { JOBLOG_TAIL = 1 << 14 };

/* --- writing ------------------------------------------------------------ */

typedef ssize_t joblog_writer(int fd, const void *bytes, size_t n);

struct joblog {
    const char *path; /* of `log`; borrowed */
    int fd;           /* -1: not open */
    int64_t max;      /* bytes of both files; 0: no limit */
    int64_t base;     /* the offset of the file's first byte */
    int64_t size;     /* of the file */
    bool is_in_line;  /* the last byte was no line end */
    int64_t nlost;    /* bytes lost and not yet told in the log */
    int error;        /* why: errno */
    double again_s;   /* before that no write is tried */
    int in, out;      /* of the pipe; -1: there is none */
    char *room;       /* what was just read */
    char *tail;       /* the last JOBLOG_TAIL bytes that came by the pipe */
    size_t ntail;
    joblog_writer *write; /* write(2), but in tests */
};

/* Opens or makes the file, and the pipe. FIRN_EINVAL: what has the file's name
 * is a symbolic link or no plain file; it is not touched, and the sentence says
 * so. FIRN_EIO: there is no pipe. A file that cannot be
 * opened for other reasons is tried again later, as a write that failed. The
 * path must stay. To be closed in any case. */
enum firn_status joblog_open(struct joblog *log, const char *path, int64_t max,
                             struct firn_error *err);
void joblog_close(struct joblog *log);

/* Appends to the file. */
void joblog_write(struct joblog *log, struct firn_bytes bytes);
/* Takes in what is in the pipe, at most some 1 MiB, and never waits. */
void joblog_pump(struct joblog *log);
/* Takes in what is in the pipe at this moment, however fast it is filled. */
void joblog_drain(struct joblog *log);

/* --- reading ------------------------------------------------------------ */

/* Both files as they are at one moment. */
struct joblog_view {
    int fd[2];       /* log.1, log; -1: not there */
    int64_t base[2]; /* offsets of their first bytes */
    int64_t first; /* the oldest byte that is kept; those below were dropped */
    int64_t end;   /* behind the last one */
};

/* False: `log` is no plain file, and is not read. No file at all is an empty
 * log. To be closed in any case. */
bool joblog_view(struct joblog_view *view, const char *path);
void joblog_view_close(struct joblog_view *view);
/* Bytes from `offset` on, `n` at most, or fewer where a file ends; 0: there are
 * none, or they were dropped; -1: errno. */
ssize_t joblog_read(const struct joblog_view *view, int64_t offset, char *out,
                    size_t n);
/* The offset that the first line of a file says; 0: it says none. */
int64_t joblog_base(const char *text, size_t n);

/* Why the file of that name is refused as a log: a sentence; FIRN_OK when it
 * is not. */
enum firn_status joblog_check(const char *path, struct firn_error *err);

#endif
