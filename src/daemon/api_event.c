/* api_event.c - the daemon's history: as pages, and as a stream of server-sent
 * events.
 *
 * A stream reads the store as fast as its client takes it, from the id that
 * the client saw last (Last-Event-ID, or `after`), else from now on. Events
 * are shown once they are on disk: a crash takes back only events that no
 * client has seen, so that "after the one I saw" always means the same.
 *
 * A stream without events for QUIET_S sends an empty comment, because proxies
 * close silent connections.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "daemon/apiwork.h"
#include <stdlib.h>
#include <string.h>

enum { PAGE_USUAL = 1000, PAGE_MOST = 10000, READ_AT_ONCE = 200, QUIET_S = 15 };
enum { LOOK_MOST = 200000 }; /* rows that a page backwards looks at */

static void add_event(struct firn_buf *out, const struct api *api,
                      const struct store_event *event)
{
    jsonbuf_open(out, NULL, '{');
    jsonbuf_int(out, "id", event->id);
    jsonbuf_double(out, "at_s", event->at_s);
    if (event->job != FIRN_NO_JOB)
        jsonbuf_int(out, "job", event->job);
    jsonbuf_text(out, "kind", event->kind);
    if (strcmp(event->kind, "gpus") == 0) {
        api_json_gpus(out, api, "text", event->text);
        api_json_gpus(out, api, "gpus", event->text);
    } else
        jsonbuf_text(out, "text", event->text);
    if (event->caller != NULL && event->caller[0] != '\0')
        jsonbuf_text(out, "caller", event->caller);
    api_json_stop(out, &event->stop);
    jsonbuf_close(out, '}');
}

/* --- pages ------------------------------------------------------------- */

struct page {
    const struct api *api;
    struct firn_buf out;
    firn_job_id job; /* FIRN_NO_JOB: all */
    int64_t last, left;
};

static bool add_to_page(void *arg, const struct store_event *event)
{
    struct page *page = arg;
    if (page->left == 0)
        return false;
    page->last = event->id;
    if (page->job != FIRN_NO_JOB && page->job != event->job)
        return true;
    page->left--;
    add_event(&page->out, page->api, event);
    return true;
}

static void reply_page(struct api_call *call, int64_t after, firn_job_id job)
{
    struct page page = {.api = call->api, .last = after, .job = job};
    struct firn_error err;
    if (!api_query_int(call, "limit", PAGE_MOST, PAGE_USUAL, &page.left))
        return;
    jsonbuf_open(&page.out, NULL, '{');
    jsonbuf_open(&page.out, "events", '[');
    if (store_each_event(call->api->host.store, after, SIZE_MAX / 2,
                         add_to_page, &page, &err) != FIRN_OK) {
        buf_release(&page.out);
        api_fail(call, &err);
        return;
    }
    jsonbuf_close(&page.out, ']');
    jsonbuf_int(&page.out, "last", page.last);
    jsonbuf_close(&page.out, '}');
    api_reply(call, 200, &page.out);
}

/* The page is full, or the event is on it; `last` is then the lowest id that
 * was looked at. */
static bool add_back(void *arg, const struct store_event *event)
{
    struct page *page = arg;
    if (page->left == 0)
        return false;
    page->last = event->id;
    page->left--;
    add_event(&page->out, page->api, event);
    return true;
}

/* From `before` back. `next` is missing when no older event is left. */
static void reply_back(struct api_call *call, int64_t before, firn_job_id job)
{
    struct store *store = call->api->host.store;
    const char *kind = http_query(call->exchange, "kind");
    struct page page = {.api = call->api};
    struct store_events which = {.before = before,
                                 .from = before - LOOK_MOST,
                                 .kind = kind != NULL ? kind : "",
                                 .job = job};
    struct firn_error err;
    if (!api_query_int(call, "limit", PAGE_MOST, PAGE_USUAL, &page.left))
        return;
    jsonbuf_open(&page.out, NULL, '{');
    jsonbuf_open(&page.out, "events", '[');
    if (store_each_event_back(store, &which, add_back, &page, &err) !=
        FIRN_OK) {
        buf_release(&page.out);
        api_fail(call, &err);
        return;
    }
    jsonbuf_close(&page.out, ']');
    jsonbuf_int(&page.out, "last", store_last_event(store));
    int64_t next = page.left == 0 ? page.last : which.from;
    if (next > 1)
        jsonbuf_int(&page.out, "next", next);
    jsonbuf_close(&page.out, '}');
    api_reply(call, 200, &page.out);
}

/* --- streams ----------------------------------------------------------- */

struct read {
    struct firn_buf out;
    struct api_stream *stream;
    bool is_done;
};

static bool add_to_stream(void *arg, const struct store_event *event)
{
    struct read *read = arg;
    struct api_stream *stream = read->stream;
    if (event->id > stream->api->settled_id) {
        read->is_done = true;
        return false;
    }
    stream->last = event->id;
    if (stream->job != FIRN_NO_JOB && stream->job != event->job)
        return true;
    struct firn_buf data = {0};
    add_event(&data, stream->api, event);
    buf_printf(&read->out, "id: %lld\nevent: %s\ndata: %s\n\n",
               (long long)event->id, event->kind, data.at);
    buf_release(&data);
    return true;
}

static void more_events(void *arg)
{
    struct api_stream *stream = arg;
    struct read read = {.stream = stream};
    struct firn_error err;
    while (read.out.n == 0 && !read.is_done &&
           stream->last < stream->api->settled_id) {
        int64_t before = stream->last;
        enum firn_status status =
            store_each_event(stream->api->host.store, before, READ_AT_ONCE,
                             add_to_stream, &read, &err);
        if (status != FIRN_OK || stream->last == before)
            read.is_done = true;
    }
    if (read.out.n > 0)
        api_stream_write(stream, (struct firn_bytes){read.out.at, read.out.n});
    buf_release(&read.out);
}

static void tick(struct api_stream *stream)
{
    if (clock_elapsed_s() - stream->wrote_s > QUIET_S)
        api_stream_write(stream, (struct firn_bytes){":\n\n", 3});
}

/* From Last-Event-ID, `after`, or now. */
static void open_events(struct api_call *call, int64_t after, firn_job_id job)
{
    const char *seen = http_header(call->exchange, "Last-Event-ID");
    char *end = NULL;
    if (seen != NULL && seen[0] >= '0' && seen[0] <= '9') {
        long long id = strtoll(seen, &end, 10);
        if (*end == '\0')
            after = id;
    }
    struct api_stream *stream =
        api_stream_open(call, "text/event-stream", more_events);
    if (stream == NULL)
        return;
    stream->tick = tick;
    stream->job = job;
    stream->last = after >= 0 ? after : call->api->settled_id;
}

void api_event_list(struct api_call *call)
{
    const char *accept = http_header(call->exchange, "Accept");
    int64_t after, before, job, is_stream, is_newest;
    if (!api_query_int(call, "after", INT64_MAX, -1, &after) ||
        !api_query_int(call, "job", INT32_MAX, FIRN_NO_JOB, &job) ||
        !api_query_int(call, "before", INT64_MAX / 2, -1, &before) ||
        !api_query_int(call, "newest", 1, 0, &is_newest) ||
        !api_query_int(call, "follow", 1, 0, &is_stream))
        return;
    if (is_newest != 0 && before < 0)
        before = store_last_event(call->api->host.store) + 1;
    if (is_stream != 0 ||
        (accept != NULL && strncmp(accept, "text/event-stream", 17) == 0))
        open_events(call, after, (firn_job_id)job);
    else if (before >= 0)
        reply_back(call, before, (firn_job_id)job);
    else
        reply_page(call, after >= 0 ? after : 0, (firn_job_id)job);
}
