/* api_log.c - the output of a job: a piece of it, all of it, or as it comes.
 *
 * The bytes are passed on unchanged; a client that shows them on a terminal
 * must escape them. Offsets count from the first byte that the job ever wrote:
 * they stay the same when the oldest bytes are dropped (engine/joblog.h). A
 * piece
 * (`limit`) says in its headers where it began, where the next one begins, how
 * many bytes were dropped, and where the log ends. An offset that was dropped
 * becomes that of the oldest byte that is kept.
 *
 * Without a limit the answer is a stream, read from the files as fast as it is
 * taken, to where the log ends now, or (`follow`) until the job has finished,
 * over all its attempts. A stream whose next byte is dropped before it could
 * be sent ends there: what a client has counted is then still the offset of its
 * next byte, and a further request tells it how many it missed.
 *
 * `tail=N` begins N lines before the end; it looks back at most TAIL_BYTES.
 *
 * The path comes from the host, not from the client. A log that does not exist
 * yet is empty; one that became shorter is read from its start; one that is not
 * a regular file is refused with a sentence.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "daemon/apiwork.h"
#include "engine/joblog.h"
#include <stdio.h>
#include <unistd.h>

enum { PIECE = 1 << 20, BLOCK = 64 << 10, TAIL_BYTES = 16 << 20 };

/* False: it must not be read; `err` may be NULL. Close it in any case. */
static bool open_log(const struct api_host *host, const struct live_job *job,
                     struct joblog_view *view, struct firn_error *err)
{
    char path[4096];
    *view = (struct joblog_view){.fd = {-1, -1}};
    if (!host->log_path(host->arg, job, path, sizeof path))
        return true;
    if (joblog_view(view, path))
        return true;
    joblog_check(path, err);
    return false;
}

/* From `offset` on; fewer only where the log ends. */
static ssize_t read_log(const struct joblog_view *view, int64_t offset,
                        char *out, size_t want)
{
    size_t done = 0;
    while (done < want) {
        ssize_t n =
            joblog_read(view, offset + (int64_t)done, out + done, want - done);
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

/* Where the last `nlines` lines begin. */
static int64_t tail_offset(const struct joblog_view *view, int64_t nlines)
{
    char block[BLOCK];
    int64_t end = view->end, least = view->first;
    if (end - least > TAIL_BYTES)
        least = end - TAIL_BYTES;
    while (end > least) {
        int64_t from = end - least > BLOCK ? end - BLOCK : least;
        ssize_t n = read_log(view, from, block, (size_t)(end - from));
        if (n < (ssize_t)(end - from))
            return end; /* it became shorter */
        for (int64_t i = end - from - 1; i >= 0; i--)
            if (block[i] == '\n' && from + i != view->end - 1 && --nlines <= 0)
                return from + i + 1;
        end = from;
    }
    return least;
}

/* Was the log removed? A finished job that has run had one, unless it came
 * through the inbox. */
static bool was_removed(const struct live_job *job,
                        const struct joblog_view *view)
{
    return view->fd[0] < 0 && view->fd[1] < 0 &&
           live_state_is_over(job->state) && job->attempt > 0 &&
           job->ask.inbox[0] == '\0';
}

void api_json_log(struct firn_buf *out, const struct api *api,
                  const struct live_job *job)
{
    struct joblog_view view;
    if (api->host.log_path == NULL)
        return;
    bool is_read = open_log(&api->host, job, &view, NULL);
    bool is_removed = is_read && was_removed(job, &view);
    if (is_read && (view.end > 0 || is_removed)) {
        jsonbuf_open(out, "log", '{');
        jsonbuf_int(out, "kept_bytes", view.end - view.first);
        jsonbuf_int(out, "dropped_bytes", view.first);
        jsonbuf_bool(out, "removed", is_removed);
        jsonbuf_close(out, '}');
    }
    joblog_view_close(&view);
}

/* --- a piece ----------------------------------------------------------- */

static void set_number(struct api_call *call, const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    http_set_header(call->exchange, name, text);
}

static void reply_piece(struct api_call *call, const struct joblog_view *view,
                        int64_t offset, int64_t limit)
{
    struct firn_buf out = {0};
    if (limit > view->end - offset)
        limit = view->end - offset;
    char *piece = mem_new((size_t)limit + 1, 1);
    ssize_t n = read_log(view, offset, piece, (size_t)limit);
    if (n < 0) {
        http_fail(call->exchange, FIRN_EIO, "the job's output cannot be read");
    } else {
        set_number(call, "Firn-Offset", offset);
        set_number(call, "Firn-Next-Offset", offset + n);
        set_number(call, "Firn-Dropped", view->first);
        set_number(call, "Firn-Size", view->end);
        buf_add(&out, piece, (size_t)n);
        api_reply_as(call, 200, "text/plain; charset=utf-8", &out);
    }
    mem_free(piece);
}

/* --- a stream ---------------------------------------------------------- */

/* Finds the bytes to read now; ends the stream if no more will come. */
static int64_t look(struct api_stream *stream, struct joblog_view *view)
{
    const struct api_host *host = &stream->api->host;
    const struct live_job *job = book_job(host->book, stream->job);
    *view = (struct joblog_view){.fd = {-1, -1}};
    /* Asked before the size is, so that nothing written before its end is
     * missed. */
    bool is_last = job == NULL || live_state_is_over(job->state);
    if (job != NULL && !open_log(host, job, view, NULL))
        is_last = true;
    int64_t end = view->end;
    if (stream->end >= 0) {
        is_last = true;
        end = end < stream->end ? end : stream->end;
    } else if (end < stream->offset) {
        stream->offset = view->first; /* it became shorter */
    }
    if (stream->offset < view->first) {
        is_last = true; /* the next byte was dropped */
        end = stream->offset;
    }
    if (is_last && end <= stream->offset)
        http_stream_end(stream->exchange);
    return end > stream->offset ? end - stream->offset : 0;
}

static void more_log(void *arg)
{
    struct api_stream *stream = arg;
    struct joblog_view view;
    char block[BLOCK];
    int64_t left = look(stream, &view);
    size_t want = left < BLOCK ? (size_t)left : BLOCK;
    ssize_t n = read_log(&view, stream->offset, block, want);
    joblog_view_close(&view);
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
    set_number(call, "Firn-Offset", offset);
    struct api_stream *stream =
        api_stream_open(call, "text/plain; charset=utf-8", more_log);
    if (stream == NULL)
        return;
    stream->tick = tick;
    stream->job = job;
    stream->offset = offset;
    stream->end = end;
}

/* An offset that was dropped becomes that of the oldest byte kept. */
static int64_t kept_offset(const struct joblog_view *view, int64_t offset,
                           bool is_followed)
{
    if (offset < view->first)
        return view->first;
    return offset > view->end && !is_followed ? view->end : offset;
}

void api_log_get(struct api_call *call)
{
    const struct api_host *host = &call->api->host;
    struct live_job *job;
    struct joblog_view view;
    struct firn_error err = {0};
    int64_t offset, limit, tail, is_followed;
    if (!api_has(call, host->log_path != NULL) || !api_find_job(call, &job) ||
        !api_query_int(call, "offset", INT64_MAX, 0, &offset) ||
        !api_query_int(call, "limit", PIECE, -1, &limit) ||
        !api_query_int(call, "tail", INT32_MAX, -1, &tail) ||
        !api_query_int(call, "follow", 1, 0, &is_followed))
        return;
    if (!open_log(host, job, &view, &err)) {
        api_fail(call, &err);
        joblog_view_close(&view);
        return;
    }
    if (was_removed(job, &view)) {
        http_refuse(call->exchange, 410, "gone",
                    "the job's log was removed, or none of its processes ever "
                    "started: logs of finished jobs are kept for a time "
                    "(keep-jobs, keep-jobs-days)");
        return;
    }
    if (tail >= 0)
        offset = tail > 0 ? tail_offset(&view, tail) : view.end;
    offset = kept_offset(&view, offset, is_followed != 0);
    if (is_followed == 0 && limit >= 0)
        reply_piece(call, &view, offset, limit);
    else
        stream_log(call, job->id, offset, is_followed != 0 ? -1 : view.end);
    joblog_view_close(&view);
}
