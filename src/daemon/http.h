/* http.h - an HTTP server inside the daemon's loop.
 *
 * libmicrohttpd without threads of its own: the loop watches its epoll
 * descriptor, so that handlers run between rounds and share all state without a
 * lock. Submits are bound by the disk, not by the processor.
 *
 * A handler answers at once, or keeps the exchange and answers later: a submit
 * when its commit is on disk, a log or an event stream piece by piece. Bodies
 * and headers are bounded; a slow or silent client is disconnected; bytes of a
 * client are never used as a path, an SQL statement or a format.
 */
#ifndef DAEMON_HTTP_H
#define DAEMON_HTTP_H
#include "daemon/access.h"
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stdint.h>

struct http;
struct http_exchange; /* one request and its answer */

/* The caller: on the Unix socket known by its credentials, over TCP by its
 * token, which is the operator's, that of a user, or that of a job (which may
 * only report). */
struct http_caller {
    enum access_role role;
    int job;          /* a job's token; -1: none */
    int token;        /* a user's token: its number; -1: a session of a
                         browser; 0: none */
    char user[64];    /* "root", "uid 1000", "token", "job 7" */
    char address[48]; /* of a TCP client; "" on the Unix socket */
};

/* Why a request, or a connection, is not served. */
enum http_refusal {
    HTTP_REFUSED_TOKEN, /* a missing or unknown token: 401 */
    HTTP_REFUSED_RIGHT, /* a known caller without the right: 403 */
    HTTP_REFUSED_SHAPE, /* a head that programs read differently: 400 */
    HTTP_REFUSED_SLOW,  /* no token, or no whole request, in time */
    HTTP_REFUSED_CROWD, /* closed because of too many connections */
    HTTP_REFUSED_RATE,  /* too many requests: 429 */
    HTTP_NREFUSALS
};

struct http_request {
    const char *method, *path; /* decoded; no ".." parts */
    struct firn_bytes body;
    struct http_caller caller;
};

/* Called with the status of the answer. */
typedef void http_answered(void *arg, int number, int status,
                           const struct http_request *request);
/* Called once for each whole request. */
typedef void http_handler(void *arg, struct http_exchange *exchange,
                          const struct http_request *request);

struct http_config {
    const char *socket;  /* path of the Unix socket; NULL: none */
    const char *group;   /* group that may use the socket (mode 0660); NULL:
                            only firnd's user (mode 0600) */
    const char *address; /* "127.0.0.1:7070"; NULL: none */
    /* Texts of a certificate chain and its key: TLS on `address`. NULL: none.
     */
    const char *certificate, *key;
    const char *token; /* the operator's; needed with an address */
    /* The id of the job with this token, or -1. Constant time. */
    int (*job_of_token)(void *arg, const char *token);
    /* Fills role, user and token number for the token of a user; false: no user
     * has it. Constant time. May be NULL. */
    bool (*user_of_token)(void *arg, const char *token,
                          struct http_caller *caller);
    /* The role of a user of the Unix socket. NULL: firnd's own user and root
     * are operators, others guests. */
    enum access_role (*role_of_uid)(void *arg, uid_t uid, const char *user);
    /* Sets the caller whose session of a browser has this token, or returns
     * false. Constant time. May be NULL. */
    bool (*session_of_token)(void *arg, const char *token,
                             struct http_caller *caller);
    /* May this be asked for without a token? NULL: nothing may. */
    bool (*is_open)(void *arg, const char *method, const char *path);
    http_handler *handle;
    void *arg;
    /* Called for answers that no handler gave, with number -1: see
     * http_watch(). May be NULL. */
    http_answered *refused;
    /* Called for requests and connections that are refused before a handler
     * gets them. May be NULL. */
    void (*turned_away)(void *arg, enum http_refusal why,
                        const struct http_caller *peer);
    size_t body_max;  /* 0: 1 MiB */
    double timeout_s; /* for a whole request, or between two; 0: 30 */
    double unknown_s; /* until a good token over TCP; 0: 5 */
    int places;       /* connections on each of TCP and socket; 0: 1000, or a
                         quarter of the descriptors if that is less */
};

/* Replaces the operator's token. A server with an address needs one. */
void http_set_token(struct http *http, const char *token);
enum firn_status http_open(struct http **out, const struct http_config *config,
                           struct firn_error *err);
/* Ends streams (`gone` is called) and drops kept exchanges unanswered. */
void http_close(struct http *http);
/* A descriptor to watch for reading: call http_run() when it is ready, and
 * after
 * `*wait_ms` (-1: no limit). Ask again after each turn. */
int http_fd(const struct http *http, int *wait_ms);
void http_run(struct http *http);
int http_port(const struct http *http); /* when asked for port 0 */

/* A query parameter or header, or NULL. */
const char *http_query(const struct http_exchange *exchange, const char *name);
const char *http_header(const struct http_exchange *exchange, const char *name);
/* Does the client accept that coding of an answer: "gzip"? */
bool http_accepts(const struct http_exchange *exchange, const char *coding);

/* Sets a header of the answer; both texts are copied. At most eight. Bytes that
 * are not allowed in headers are left out. Cache-Control is 'no-store' unless
 * it is set here. */
void http_set_header(struct http_exchange *exchange, const char *name,
                     const char *value);
/* Has `answered` called with the status of the answer, for counting. */
void http_watch(struct http_exchange *exchange, http_answered *answered,
                void *arg, int number);
/* Answers and frees the exchange. `body` is copied. */
void http_answer(struct http_exchange *exchange, int status,
                 const char *content_type, struct firn_bytes body);
/* Answers {"error": {"code": "...", "text": "..."}} with the HTTP status and
 * code of a firn_status. */
void http_fail(struct http_exchange *exchange, enum firn_status status,
               const char *text);
/* The same with any HTTP status: 401, 403, ... */
void http_refuse(struct http_exchange *exchange, int status, const char *code,
                 const char *text);

/* Begins a stream, to which any number of writes follow until either side ends
 * it. `gone` is called once when it has ended. */
void http_stream(struct http_exchange *exchange, const char *content_type,
                 void (*gone)(void *arg), void *arg);
/* Has `more` called whenever all bytes are sent: it may write, or end the
 * stream. So the source is never read faster than the client takes it. A writer
 * that gets new data later calls http_stream_wake(). */
void http_stream_more(struct http_exchange *exchange, void (*more)(void *arg));
void http_stream_wake(struct http_exchange *exchange);
/* False: the client is more than 1 MiB behind, or gone. */
bool http_stream_write(struct http_exchange *exchange, struct firn_bytes data);
void http_stream_end(struct http_exchange *exchange);

#endif
