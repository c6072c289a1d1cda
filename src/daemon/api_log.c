/* api_log.c - a job's output: a piece of it, all of it, or all that is to come.
 *
 * The bytes are passed on as they are; who shows them on a terminal makes them
 * harmless. A piece (`limit`) says in its headers where it began, where the
 * next one begins and how long the file is. Without a limit the answer is a
 * stream, read from the file as fast as it is taken, to where the file ends
 * now, or (`follow`) until the job is over, through all its starts.
 *
 * `tail=N` begins N lines before the end; it looks back at most TAIL_BYTES.
 *
 * The path comes from the host and has nothing of a client in it. A file that
 * is not there yet is empty; one that became shorter is read from its start.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "daemon/apiwork.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 20, BLOCK = 64 << 10, TAIL_BYTES = 16 << 20 };

/* The file's size; 0 when it is not there. `fd` is to be closed when >= 0. */
static int64_t open_log(const struct api_host *host, const struct live_job *job,
                        int *fd)
{
    char path[4096];
    struct stat st;
    *fd = -1;
    if (!host->log_path(host->arg, job, path, sizeof path))
        return 0;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (*fd < 0)
        return 0;
    if (fstat(*fd, &st) == 0 && S_ISREG(st.st_mode))
        return (int64_t)st.st_size;
    close(*fd);
    *fd = -1;
    return 0;
}

/* Where the last `nlines` lines begin. */
static int64_t tail_offset(int fd, int64_t size, int64_t nlines)
{
    char block[BLOCK];
    int64_t end = size, least = size > TAIL_BYTES ? size - TAIL_BYTES : 0;
    while (end > least) {
        int64_t from = end - least > BLOCK ? end - BLOCK : least;
        ssize_t n = pread(fd, block, (size_t)(end - from), (off_t)from);
        if (n < (ssize_t)(end - from))
            return end; /* it became shorter */
        for (int64_t i = end - from - 1; i >= 0; i--)
            if (block[i] == '\n' && from + i != size - 1 && --nlines <= 0)
                return from + i + 1;
        end = from;
    }
    return least;
}

/* --- a piece ----------------------------------------------------------- */

static void set_number(struct api_call *call, const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    http_set_header(call->exchange, name, text);
}

static void reply_piece(struct api_call *call, const struct live_job *job,
                        int64_t offset, int64_t limit)
{
    struct firn_buf out = {0};
    int fd;
    int64_t size = open_log(&call->api->host, job, &fd);
    if (offset > size)
        offset = size;
    if (limit > size - offset)
        limit = size - offset;
    char *piece = mem_new((size_t)limit + 1, 1);
    ssize_t n = fd >= 0 ? pread(fd, piece, (size_t)limit, (off_t)offset) : 0;
    if (fd >= 0)
        close(fd);
    if (n < 0) {
        http_fail(call->exchange, FIRN_EIO, "the job's output cannot be read");
    } else {
        set_number(call, "Firn-Offset", offset);
        set_number(call, "Firn-Next-Offset", offset + n);
        set_number(call, "Firn-Size", size);
        buf_add(&out, piece, (size_t)n);
        api_reply_as(call, 200, "text/plain; charset=utf-8", &out);
    }
    mem_free(piece);
}

/* --- all that is to come ----------------------------------------------- */

/* What there is to read now; ends the stream when there will be no more. */
static int64_t look(struct api_stream *stream, int *fd)
{
    const struct api_host *host = &stream->api->host;
    const struct live_job *job = book_job(host->book, stream->job);
    *fd = -1;
    /* Asked before the size is, so that nothing written before its end is
     * missed. */
    bool is_last = job == NULL || live_state_is_over(job->state);
    int64_t size = job != NULL ? open_log(host, job, fd) : 0;
    if (stream->end >= 0) {
        is_last = true;
        size = size < stream->end ? size : stream->end;
    } else if (size < stream->offset) {
        stream->offset = 0;
    }
    if (is_last && size <= stream->offset)
        http_stream_end(stream->exchange);
    return size > stream->offset ? size - stream->offset : 0;
}

static void more_log(void *arg)
{
    struct api_stream *stream = arg;
    char block[BLOCK];
    int fd;
    int64_t left = look(stream, &fd);
    if (fd < 0)
        return;
    size_t want = left < BLOCK ? (size_t)left : BLOCK;
    ssize_t n = pread(fd, block, want, (off_t)stream->offset);
    close(fd);
    if (n <= 0)
        return;
    stream->offset += n;
    api_stream_write(stream, (struct firn_bytes){block, (size_t)n});
}

static void tick(struct api_stream *stream)
{
    http_stream_wake(stream->exchange); /* more_log() looks */
}

static void stream_log(struct api_call *call, firn_job_id job, int64_t offset,
                       int64_t end)
{
    struct api_stream *stream =
        api_stream_open(call, "text/plain; charset=utf-8", more_log);
    if (stream == NULL)
        return;
    stream->tick = tick;
    stream->job = job;
    stream->offset = offset;
    stream->end = end;
}

void api_log_get(struct api_call *call)
{
    const struct api_host *host = &call->api->host;
    struct live_job *job;
    int64_t offset, limit, tail, is_followed;
    int fd;
    if (!api_has(call, host->log_path != NULL) || !api_find_job(call, &job) ||
        !api_query_int(call, "offset", INT64_MAX, 0, &offset) ||
        !api_query_int(call, "limit", PIECE, -1, &limit) ||
        !api_query_int(call, "tail", INT32_MAX, -1, &tail) ||
        !api_query_int(call, "follow", 1, 0, &is_followed))
        return;
    int64_t size = open_log(host, job, &fd);
    if (tail == 0)
        offset = size;
    else if (tail > 0 && fd >= 0)
        offset = tail_offset(fd, size, tail);
    if (fd >= 0)
        close(fd);
    if (is_followed == 0 && limit >= 0)
        reply_piece(call, job, offset, limit);
    else
        stream_log(call, job->id, offset, is_followed != 0 ? -1 : size);
}
