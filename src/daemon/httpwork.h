/* httpwork.h - what the parts of the HTTP server share; for http*.c.
 *
 * http.c has the server and what comes in, http_conn.c its connections,
 * http_head.c which heads are refused; http_answer.c has exchanges and what
 * goes out.
 */
#ifndef DAEMON_HTTPWORK_H
#define DAEMON_HTTPWORK_H
#include "daemon/http.h"
#include <microhttpd.h>

enum { HTTP_HEADERS = 8, HTTP_HEAD_BYTES = 32 << 10 };

/* See http_conn.c. */
enum http_conn_state { HTTP_UNKNOWN, HTTP_KNOWN, HTTP_DROPPED };

/* A connection, from accept to close. */
struct http_conn {
    struct http_conn *next, *before;
    struct http *http;
    struct http_exchange *exchange; /* NULL: between two */
    int fd;
    uint32_t watched; /* events of it that the loop is woken by */
    bool is_local;
    enum http_conn_state state;
    double opened_s;
    double since_s; /* waits for a whole request since; 0: does not wait */
    struct http_caller peer;
};

enum http_phase { HTTP_READING, HTTP_HANDED, HTTP_ANSWERED };

struct http_exchange {
    struct http_exchange *next, *before;
    struct http *http;
    struct http_conn *conn;
    struct MHD_Connection *mhd;
    enum http_phase phase;
    bool is_suspended, is_over_limit;
    struct http_request request;
    struct firn_buf body;
    struct MHD_Response *response;
    int status;
    struct {
        char *name, *value;
    } headers[HTTP_HEADERS];
    int nheaders;
    http_answered *answered;
    void *answered_arg;
    int number;
    /* streams */
    bool is_stream, is_ended, is_cut;
    struct firn_buf out;
    size_t out_at;
    void (*gone)(void *arg);
    void (*more)(void *arg);
    void *arg;
};

struct http {
    struct http_config config;
    char *socket, *token, *certificate, *key;
    struct MHD_Daemon *servers[2];
    int nservers;
    int epoll_fd, port;
    bool is_woken, is_closing;
    int places;     /* connections, on TCP and on the Unix socket each */
    double sweep_s; /* when the first of them is over its time */
    struct http_conn *conns;
    struct http_exchange *exchanges;
};

/* The HTTP status of a head that two readers can take for different requests,
 * with a sentence; 0: the head is in order. See http_head.c. */
int http_head_wrong(struct http_exchange *ex, const char *version,
                    const char **text);

/* How many connections the socket and TCP have each. */
int conn_places(const struct http_config *config);
/* Opens a connection into `context`; another may be closed for it. */
void conn_open(struct http *http, struct MHD_Connection *mhd, void **context);
void conn_close(struct http_conn *conn);
/* Wakes the loop for the events that the connection waits for now. */
void conn_watch(struct http_conn *conn);
/* Its deadline has changed. */
void conn_expect(struct http_conn *conn);
/* Closes connections whose deadline has passed. */
void conn_sweep(struct http *http);

struct http_exchange *exchange_new(struct http *http,
                                   struct MHD_Connection *mhd);
/* Sends what has been decided, or keeps the exchange. */
enum MHD_Result exchange_proceed(struct http_exchange *ex);
/* Ends it without sending more: the client is gone or is to be. */
void exchange_cut(struct http_exchange *ex);
/* Frees an ended exchange, after calling `gone`. */
void exchange_over(struct http_exchange *ex);

/* Compresses an answer of that type, if it is worth it and the client accepts
 * it; the caller frees `*out` (mem_free). False: send it as it is. */
bool http_pack(const struct http_exchange *exchange, const char *type,
               struct firn_bytes body, char **out, size_t *n);

#endif
