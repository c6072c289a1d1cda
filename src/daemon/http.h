/* http.h - an HTTP server inside the daemon's loop.
 *
 * libmicrohttpd without threads of its own: its epoll descriptor is watched by
 * the loop, so that handlers run between rounds and share all state without a
 * lock. (The house's first plan was a thread and a queue; one thread is less
 * to get wrong, and submits are bound by the disk, not by the processor.)
 *
 * A handler answers at once, or keeps the exchange and answers later: a submit
 * when its commit is on disk, a log or an event stream bit by bit. Bodies and
 * headers are bounded; a client that is slow or silent is dropped; nothing
 * that it sends is ever in a path, a query or a format.
 */
#ifndef DAEMON_HTTP_H
#define DAEMON_HTTP_H
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stdint.h>

struct http;
struct http_exchange; /* one request and its answer */

/* Who asks. A socket's owner is known by its credentials; over TCP a token
 * must be shown: the operator's, or a job's own (which may report only). */
struct http_caller {
    bool is_operator;
    int job;          /* a job's token; -1: none */
    char user[64];    /* "root", "uid 1000", "token", "job 7" */
    char address[48]; /* of the other end of TCP; "" on the Unix socket */
};

/* Why a request, or a connection, is not served. */
enum http_refusal {
    HTTP_REFUSED_TOKEN, /* none, or an unknown one: 401 */
    HTTP_REFUSED_RIGHT, /* a known caller that may not do that: 403 */
    HTTP_REFUSED_SHAPE, /* a head that two readers read differently: 400 */
    HTTP_REFUSED_SLOW,  /* no token, or no whole request, in its time */
    HTTP_REFUSED_CROWD, /* too many connections; the oldest unknown is closed */
    HTTP_REFUSED_RATE,  /* too many requests: 429 */
    HTTP_NREFUSALS
};

struct http_request {
    const char *method, *path; /* decoded; no ".." parts */
    struct firn_bytes body;
    struct http_caller caller;
};

/* Called once for each whole request. */
typedef void http_handler(void *arg, struct http_exchange *exchange,
                          const struct http_request *request);

struct http_config {
    const char *socket;  /* path of the Unix socket, mode 0600; NULL: none */
    const char *address; /* "127.0.0.1:7070"; NULL: none */
    const char *token;   /* the operator's; needed with an address */
    /* Is this a job's token? Its id, or -1. Constant time. */
    int (*job_of_token)(void *arg, const char *token);
    http_handler *handle;
    void *arg;
    /* Told of answers that no handler gave, with number -1: see http_watch().
     * MAY be NULL. */
    void (*refused)(void *arg, int number, int status);
    /* Told of requests and connections that are refused before a handler sees
     * them. MAY be NULL. */
    void (*turned_away)(void *arg, enum http_refusal why,
                        const struct http_caller *peer);
    size_t body_max;  /* 0: 1 MiB */
    double timeout_s; /* a whole request, or nothing, within; 0: 30 */
    double unknown_s; /* a good token over TCP within; 0: 5 */
    int places;       /* connections on each of TCP and socket; 0: 1000, or a
                         quarter of the descriptors if that is less */
};

/* Another for the operator's; NULL: none, which a server with an address does
 * not take. */
void http_set_token(struct http *http, const char *token);
enum firn_status http_open(struct http **out, const struct http_config *config,
                           struct firn_error *err);
/* Streams are cut (`gone` is called), kept exchanges are dropped unanswered. */
void http_close(struct http *http);
/* To be watched for reading; then, and after at most `*wait_ms` (-1: no limit),
 * call run. Asked again after each turn. */
int http_fd(const struct http *http, int *wait_ms);
void http_run(struct http *http);
int http_port(const struct http *http); /* when asked for port 0 */

/* A query parameter or header, or NULL. */
const char *http_query(const struct http_exchange *exchange, const char *name);
const char *http_header(const struct http_exchange *exchange, const char *name);

/* A header of the answer to come; both are copied. At most four. Bytes that no
 * header can have are left out. */
void http_set_header(struct http_exchange *exchange, const char *name,
                     const char *value);
/* Told of the answer's status when it is decided, for counting. */
void http_watch(struct http_exchange *exchange,
                void (*answered)(void *arg, int number, int status), void *arg,
                int number);
/* Answers, now or later; the exchange is gone then. `body` is copied. */
void http_answer(struct http_exchange *exchange, int status,
                 const char *content_type, struct firn_bytes body);
/* {"error": {"code": "...", "text": "..."}} by the status's own number. */
void http_fail(struct http_exchange *exchange, enum firn_status status,
               const char *text);
/* The same with a status of HTTP that no firn_status has: 401, 403, ... */
void http_refuse(struct http_exchange *exchange, int status, const char *code,
                 const char *text);

/* A stream: begin, then write as often as one likes until it is closed by
 * either side. `gone` is called once when it is over. */
void http_stream(struct http_exchange *exchange, const char *content_type,
                 void (*gone)(void *arg), void *arg);
/* `more` is called whenever all is sent: it may write, or end the stream. So a
 * stream is never read faster from its source than it is taken. A writer that
 * has something new while nothing is left to send says so by http_stream_wake.
 */
void http_stream_more(struct http_exchange *exchange, void (*more)(void *arg));
void http_stream_wake(struct http_exchange *exchange);
/* False: the reader is too slow (more than 1 MiB behind) or gone. */
bool http_stream_write(struct http_exchange *exchange, struct firn_bytes data);
void http_stream_end(struct http_exchange *exchange);

#endif
