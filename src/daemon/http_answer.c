/* http_answer.c - exchanges: a request that is answered now, later, or bit by
 * bit.
 *
 * A connection whose exchange is kept is suspended: libmicrohttpd does not look
 * at it until it is resumed. So is a stream that has nothing to send; its
 * socket is watched by the server itself for the reader's hangup. For streams,
 * a client that has shut down its sending side has hung up.
 *
 * (1) An exchange is answered once; a second answer is a bug.
 * (2) `gone` is called exactly once for each stream, and nothing of an
 *     exchange is touched after that.
 * (3) A stream holds at most STREAM_BYTES that its reader has not taken.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/jsonwrite.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/httpwork.h"
#include <ctype.h>
#include <string.h>

enum { STREAM_BYTES = 1 << 20, BLOCK_BYTES = 16 << 10 };

/* --- exchanges --------------------------------------------------------- */

struct http_exchange *exchange_new(struct http *http,
                                   struct MHD_Connection *mhd)
{
    struct http_exchange *ex = mem_new(1, sizeof *ex);
    ex->http = http;
    ex->mhd = mhd;
    ex->conn = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
                   ->socket_context;
    ex->next = http->exchanges;
    if (ex->next != NULL)
        ex->next->before = ex;
    http->exchanges = ex;
    ex->conn->exchange = ex;
    return ex;
}

static void exchange_free(struct http_exchange *ex)
{
    ex->conn->exchange = NULL;
    conn_watch(ex->conn);
    if (ex->next != NULL)
        ex->next->before = ex->before;
    if (ex->before != NULL)
        ex->before->next = ex->next;
    else
        ex->http->exchanges = ex->next;
    if (ex->response != NULL)
        MHD_destroy_response(ex->response);
    for (int i = 0; i < ex->nheaders; i++) {
        mem_free(ex->headers[i].name);
        mem_free(ex->headers[i].value);
    }
    buf_release(&ex->body);
    buf_release(&ex->out);
    mem_free(ex);
}

void exchange_over(struct http_exchange *ex)
{
    void (*gone)(void *) = ex->gone;
    void *arg = ex->arg;
    ex->conn->since_s = clock_elapsed_s();
    conn_expect(ex->conn);
    ex->http->is_woken = true; /* the next request may be here already */
    exchange_free(ex);
    if (gone != NULL)
        gone(arg); /* invariant (2) */
}

static void resume(struct http_exchange *ex)
{
    if (!ex->is_suspended)
        return;
    ex->is_suspended = false;
    ex->http->is_woken = true;
    conn_watch(ex->conn);
    MHD_resume_connection(ex->mhd);
}

static void suspend(struct http_exchange *ex)
{
    ex->is_suspended = true;
    conn_watch(ex->conn);
    MHD_suspend_connection(ex->mhd);
}

void exchange_cut(struct http_exchange *ex)
{
    ex->is_cut = true;
    conn_watch(ex->conn);
    resume(ex);
}

enum MHD_Result exchange_proceed(struct http_exchange *ex)
{
    if (ex->response != NULL) {
        enum MHD_Result queued =
            MHD_queue_response(ex->mhd, (unsigned)ex->status, ex->response);
        MHD_destroy_response(ex->response);
        ex->response = NULL;
        conn_watch(ex->conn);
        return queued;
    }
    if (ex->phase == HTTP_ANSWERED || ex->http->is_closing)
        return MHD_NO;
    suspend(ex);
    return MHD_YES;
}

const char *http_query(const struct http_exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->mhd, MHD_GET_ARGUMENT_KIND,
                                       name);
}

const char *http_header(const struct http_exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->mhd, MHD_HEADER_KIND, name);
}

/* --- answers ----------------------------------------------------------- */

void http_set_header(struct http_exchange *exchange, const char *name,
                     const char *value)
{
    if (exchange->nheaders == HTTP_HEADERS)
        FIRN_BUG("more than %d headers of an answer", HTTP_HEADERS);
    char *clean = mem_strdup(value), *to = clean;
    for (const char *at = value; *at != '\0'; at++)
        if ((unsigned char)*at >= 0x20 && *at != 0x7f)
            *to++ = *at;
    *to = '\0';
    exchange->headers[exchange->nheaders].name = mem_strdup(name);
    exchange->headers[exchange->nheaders++].value = clean;
}

void http_watch(struct http_exchange *exchange, http_answered *answered,
                void *arg, int number)
{
    exchange->answered = answered;
    exchange->answered_arg = arg;
    exchange->number = number;
}

static void decide(struct http_exchange *ex, int status, const char *type,
                   struct MHD_Response *response)
{
    if (ex->phase == HTTP_ANSWERED)
        FIRN_BUG("an exchange was answered twice");
    if (response == NULL)
        FIRN_BUG("out of memory for an answer");
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    bool is_kept = false;
    for (int i = 0; i < ex->nheaders; i++) {
        MHD_add_response_header(response, ex->headers[i].name,
                                ex->headers[i].value);
        is_kept = is_kept || strcmp(ex->headers[i].name, "Cache-Control") == 0;
    }
    if (!is_kept)
        MHD_add_response_header(response, "Cache-Control", "no-store");
    ex->phase = HTTP_ANSWERED;
    ex->response = response;
    ex->status = status;
    if (ex->answered != NULL)
        ex->answered(ex->answered_arg, ex->number, status, &ex->request);
    resume(ex);
}

void http_answer(struct http_exchange *exchange, int status,
                 const char *content_type, struct firn_bytes body)
{
    char *packed = NULL;
    size_t npacked = 0;
    if (http_pack(exchange, content_type, body, &packed, &npacked)) {
        http_set_header(exchange, "Content-Encoding", "gzip");
        http_set_header(exchange, "Vary", "Accept-Encoding");
        body = (struct firn_bytes){packed, npacked};
    }
    /* The library takes a writable pointer, and copies. */
    union {
        const char *in;
        void *out;
    } bytes = {.in = body.n > 0 ? body.at : ""};
    decide(exchange, status, content_type,
           MHD_create_response_from_buffer(body.n, bytes.out,
                                           MHD_RESPMEM_MUST_COPY));
    mem_free(packed);
}

void http_refuse(struct http_exchange *exchange, int status, const char *code,
                 const char *text)
{
    struct firn_buf out = {0};
    jsonbuf_open(&out, NULL, '{');
    jsonbuf_open(&out, "error", '{');
    jsonbuf_text(&out, "code", code);
    jsonbuf_text(&out, "text", text);
    buf_puts(&out, "}}\n");
    http_answer(exchange, status, "application/json",
                (struct firn_bytes){out.at, out.n});
    buf_release(&out);
}

void http_fail(struct http_exchange *exchange, enum firn_status status,
               const char *text)
{
    char code[64];
    str_copy(code, sizeof code, firn_status_text(status));
    for (char *at = code; *at != '\0'; at++)
        if (!isalnum((unsigned char)*at))
            *at = '-';
    http_refuse(exchange, firn_status_http(status), code, text);
}

/* --- streams ----------------------------------------------------------- */

static ssize_t on_read(void *arg, uint64_t pos, char *to, size_t max)
{
    (void)pos;
    struct http_exchange *ex = arg;
    if (!ex->is_cut && !ex->is_ended && ex->out.n == 0 && ex->more != NULL)
        ex->more(ex->arg);
    if (ex->is_cut)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    size_t left = ex->out.n - ex->out_at, n = left < max ? left : max;
    if (n > 0) {
        memcpy(to, ex->out.at + ex->out_at, n);
        ex->out_at += n;
    }
    if (ex->out_at == ex->out.n) {
        buf_clear(&ex->out);
        ex->out_at = 0;
    }
    if (n > 0)
        return (ssize_t)n;
    if (ex->is_ended)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (ex->http->is_closing) /* no call would wake it any more */
        return MHD_CONTENT_READER_END_WITH_ERROR;
    suspend(ex);
    return 0;
}

void http_stream(struct http_exchange *exchange, const char *content_type,
                 void (*gone)(void *arg), void *arg)
{
    exchange->is_stream = true;
    exchange->gone = gone;
    exchange->arg = arg;
    decide(exchange, MHD_HTTP_OK, content_type,
           MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES,
                                             on_read, exchange, NULL));
}

void http_stream_more(struct http_exchange *exchange, void (*more)(void *arg))
{
    exchange->more = more;
}

void http_stream_wake(struct http_exchange *exchange)
{
    /* Before it is first read the connection waits for its answer, not for
     * us; decide() has resumed it. */
    resume(exchange);
}

bool http_stream_write(struct http_exchange *exchange, struct firn_bytes data)
{
    if (exchange->is_cut || exchange->is_ended ||
        exchange->out.n - exchange->out_at + data.n > STREAM_BYTES)
        return false;
    if (exchange->out_at > STREAM_BYTES) {
        size_t left = exchange->out.n - exchange->out_at;
        memmove(exchange->out.at, exchange->out.at + exchange->out_at, left);
        exchange->out.n = left;
        exchange->out_at = 0;
    }
    if (data.n > 0)
        buf_add(&exchange->out, data.at, data.n);
    resume(exchange);
    return true;
}

void http_stream_end(struct http_exchange *exchange)
{
    exchange->is_ended = true;
    resume(exchange);
}
