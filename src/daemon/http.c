/* http.c - an HTTP server inside the daemon's loop, by libmicrohttpd.
 *
 * libmicrohttpd serves one listening socket a server, so there are up to two
 * of them, and one epoll descriptor over both that the loop watches.
 *
 *     READING --whole--> HANDED --answer--> ANSWERED --sent--> gone
 *                          |                    ^
 *                          +--kept: suspended---+
 *
 * (1) A handler sees whole requests of known callers only; others are refused
 *     before their body is read.
 * (2) Memory for one client: 32 KiB of head, body_max of body, one answer, one
 *     MiB of a stream; http_conn.c limits the number of clients.
 * (3) A connection has timeout_s to send a whole request, counted from its
 *     first byte or from the end of the one before; sending slowly gains
 *     nothing. A client that takes no byte of its answer is closed after as
 * long. On TCP it has unknown_s to send a token. (4) Our descriptor is readable
 * when any connection can go on. libmicrohttpd reads a piece at a time and says
 * only by its timeout that there is more; here every connection is in our
 * descriptor too, for what it waits for: bytes of a request, or room for an
 * answer.
 */
#include "daemon/http.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/http_sock.h"
#include "daemon/httpwork.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DROPPED_MOST = 64, EVENTS = 64 };

/* --- connections ------------------------------------------------------- */

static void on_connection(void *arg, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        conn_open(arg, mhd, context);
    else if (*context != NULL)
        conn_close(*context);
}

/* --- callers and paths ------------------------------------------------ */

/* The token behind "Bearer "; NULL: the header is something else. */
static const char *bearer(const char *header)
{
    if (strncasecmp(header, "Bearer ", 7) != 0)
        return NULL;
    header += 7;
    while (*header == ' ')
        header++;
    return *header != '\0' ? header : NULL;
}

static void turn_away(const struct http_exchange *ex, enum http_refusal why)
{
    const struct http_config *config = &ex->http->config;
    if (config->turned_away != NULL)
        config->turned_away(config->arg, why, &ex->conn->peer);
}

/* If there is a token it counts, on the Unix socket too: a job that runs as
 * firnd's user is that job, not an operator. */
static bool know_caller(struct http_exchange *ex)
{
    const struct http_config *config = &ex->http->config;
    struct http_caller *caller = &ex->request.caller;
    const char *header = http_header(ex, "Authorization");
    *caller = ex->conn->peer;
    if (header == NULL)
        return ex->conn->is_local;
    const char *token = bearer(header);
    if (token == NULL)
        return false;
    if (config->token != NULL && sock_same_secret(token, config->token)) {
        caller->role = ACCESS_OPERATOR;
        if (!ex->conn->is_local)
            str_copy(caller->user, sizeof caller->user, "token");
        return true;
    }
    caller->role = ACCESS_GUEST;
    if (config->user_of_token != NULL &&
        config->user_of_token(config->arg, token, caller))
        return true;
    if (config->session_of_token != NULL &&
        config->session_of_token(config->arg, token, caller))
        return true;
    if (config->job_of_token == NULL)
        return false;
    caller->role = ACCESS_JOB;
    caller->job = config->job_of_token(config->arg, token);
    snprintf(caller->user, sizeof caller->user, "job %d", caller->job);
    return caller->job >= 0;
}

/* Is it one of the few things that need no token, and was none sent? The caller
 * is a guest then, and its connection stays unknown. */
static bool is_open_to_all(struct http_exchange *ex)
{
    const struct http_config *config = &ex->http->config;
    return http_header(ex, "Authorization") == NULL &&
           config->is_open != NULL &&
           config->is_open(config->arg, ex->request.method, ex->request.path);
}

/* No control characters, no "." or ".." parts. */
static bool is_plain_path(const char *path)
{
    if (path[0] != '/')
        return false;
    for (const char *at = path; *at != '\0'; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return false;
        if (at[0] != '/' || at[1] != '.')
            continue;
        const char *end = at + (at[2] == '.' ? 3 : 2);
        if (*end == '/' || *end == '\0')
            return false;
    }
    return true;
}

/* The refusals that need no body: invariant (1). */
static void look(struct http_exchange *ex, const char *version)
{
    const char *length = http_header(ex, "Content-Length"), *wrong;
    double n;
    int status = http_head_wrong(ex, version, &wrong);
    if (status != 0) {
        turn_away(ex, HTTP_REFUSED_SHAPE);
        http_set_header(ex, "Connection", "close");
        http_refuse(ex, status,
                    status == MHD_HTTP_NOT_IMPLEMENTED ? "not-here"
                    : status == MHD_HTTP_BAD_REQUEST   ? "invalid-input"
                                                       : "too-large",
                    wrong);
        return;
    }
    bool is_known = know_caller(ex);
    if (!is_known && !is_open_to_all(ex)) {
        turn_away(ex, HTTP_REFUSED_TOKEN);
        http_set_header(ex, "Connection", "close");
        http_set_header(ex, "WWW-Authenticate", "Bearer");
        http_refuse(ex, MHD_HTTP_UNAUTHORIZED, "unauthorised",
                    "a token that this daemon knows is needed: "
                    "'Authorization: Bearer TOKEN'");
        return;
    }
    if (is_known && ex->conn->state == HTTP_UNKNOWN)
        ex->conn->state = HTTP_KNOWN;
    if (!is_plain_path(ex->request.path)) {
        http_refuse(ex, MHD_HTTP_BAD_REQUEST, "invalid-input",
                    "there is no such path");
    } else if (length != NULL && (!str_double(length, &n) ||
                                  n > (double)ex->http->config.body_max)) {
        http_refuse(ex, MHD_HTTP_CONTENT_TOO_LARGE, "too-large",
                    "the body of the request is too large");
    }
}

static void take_body(struct http_exchange *ex, const char *data, size_t n)
{
    if (ex->phase != HTTP_READING || ex->is_over_limit)
        return;
    ex->is_over_limit = ex->body.n + n > ex->http->config.body_max;
    if (ex->is_over_limit)
        buf_release(&ex->body);
    else
        buf_add(&ex->body, data, n);
}

static void hand_over(struct http_exchange *ex)
{
    struct http *http = ex->http;
    ex->phase = HTTP_HANDED;
    ex->conn->since_s = 0;
    if (ex->is_over_limit) {
        http_refuse(ex, MHD_HTTP_CONTENT_TOO_LARGE, "too-large",
                    "the body of the request is too large");
        return;
    }
    ex->request.body =
        (struct firn_bytes){ex->body.at != NULL ? ex->body.at : "", ex->body.n};
    http->config.handle(http->config.arg, ex, &ex->request);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *mhd,
                                  const char *url, const char *method,
                                  const char *version, const char *data,
                                  size_t *ndata, void **context)
{
    struct http_exchange *ex = *context;
    if (ex == NULL) {
        *context = ex = exchange_new(arg, mhd);
        ex->request.path = url;
        ex->request.method = method;
        const struct http_config *config = &ex->http->config;
        http_watch(ex, config->refused, config->arg, -1);
        look(ex, version);
        conn_expect(ex->conn);
        return ex->phase == HTTP_ANSWERED ? exchange_proceed(ex) : MHD_YES;
    }
    if (*ndata > 0) {
        take_body(ex, data, *ndata);
        *ndata = 0;
        return MHD_YES;
    }
    if (ex->phase == HTTP_READING)
        hand_over(ex);
    return exchange_proceed(ex);
}

static int nibble(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    int low = tolower((unsigned char)c);
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

/* "%41" to "A", in place. What is no such code, and "%00", stays as it is: a
 * text never ends before its end. */
static size_t unescape(void *arg, struct MHD_Connection *mhd, char *text)
{
    (void)arg, (void)mhd;
    char *to = text;
    for (const char *at = text; *at != '\0'; at++) {
        int high = at[0] == '%' ? nibble(at[1]) : -1;
        int low = high >= 0 ? nibble(at[2]) : -1;
        if (low >= 0 && high + low > 0) {
            *to++ = (char)(high * 16 + low);
            at += 2;
        } else {
            *to++ = *at;
        }
    }
    *to = '\0';
    return (size_t)(to - text);
}

/* --- the server -------------------------------------------------------- */

static void on_completed(void *arg, struct MHD_Connection *mhd, void **context,
                         enum MHD_RequestTerminationCode how)
{
    (void)arg, (void)mhd, (void)how;
    struct http_exchange *ex = *context;
    *context = NULL;
    if (ex != NULL)
        exchange_over(ex);
}

static enum firn_status serve(struct http *http, int fd, int places,
                              bool is_tls, struct firn_error *err)
{
    unsigned timeout_s = (unsigned)http->config.timeout_s + 1;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)http->certificate},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)http->key},
        {MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    unsigned with_tls = is_tls ? MHD_USE_TLS : 0;
    struct MHD_Daemon *server = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | with_tls, 0, NULL, NULL,
        on_request, http, MHD_OPTION_LISTEN_SOCKET, (MHD_socket)fd,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, http,
        MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)places,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_HEAD_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, timeout_s, MHD_OPTION_STRICT_FOR_CLIENT,
        1, MHD_OPTION_ARRAY, is_tls ? tls : none, MHD_OPTION_END);
    if (server == NULL) {
        close(fd);
        if (is_tls)
            return firn_fail(err, FIRN_EINVAL,
                             "the HTTP server cannot start with TLS: the "
                             "certificate and its key do not belong together, "
                             "or one of them is damaged");
        return firn_fail(err, FIRN_EIO, "the HTTP server cannot start: %s",
                         strerror(errno));
    }
    http->servers[http->nservers++] = server;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    int inner = MHD_get_daemon_info(server, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    if (epoll_ctl(http->epoll_fd, EPOLL_CTL_ADD, inner, &event) != 0)
        return firn_fail(err, FIRN_EIO, "cannot watch the HTTP server: %s",
                         strerror(errno));
    return FIRN_OK;
}

static enum firn_status check(const struct http_config *config,
                              struct firn_error *err)
{
    if (config->socket == NULL && config->address == NULL)
        return firn_fail(err, FIRN_EINVAL,
                         "the HTTP server has nothing to listen on");
    if (config->address != NULL &&
        (config->token == NULL || strlen(config->token) < 16))
        return firn_fail(err, FIRN_EINVAL,
                         "to listen on address '%s' needs a token of at least "
                         "16 characters",
                         config->address);
    if (config->certificate != NULL && config->address != NULL &&
        MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return firn_fail(err, FIRN_EINVAL,
                         "this libmicrohttpd is built without TLS");
    if (sodium_init() < 0)
        return firn_fail(err, FIRN_EIO, "libsodium cannot start");
    return FIRN_OK;
}

static enum firn_status listen_all(struct http *http, struct firn_error *err)
{
    const struct http_config *config = &http->config;
    int fd;
    http->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (http->epoll_fd < 0)
        return firn_fail(err, FIRN_EIO, "cannot watch sockets: %s",
                         strerror(errno));
    if (config->address != NULL) {
        FIRN_TRY(sock_listen_address(&fd, &http->port, config->address, err));
        /* More than we let be: a dropped one has its place for a turn yet. */
        int dropped = http->places < DROPPED_MOST ? http->places : DROPPED_MOST;
        FIRN_TRY(serve(http, fd, http->places + dropped,
                       http->certificate != NULL, err));
    }
    if (config->socket != NULL) {
        FIRN_TRY(sock_listen_path(&fd, config->socket, config->group, err));
        http->socket = mem_strdup(config->socket); /* ours to remove */
        FIRN_TRY(serve(http, fd, http->places, false, err));
    }
    return FIRN_OK;
}

enum firn_status http_open(struct http **out, const struct http_config *config,
                           struct firn_error *err)
{
    FIRN_TRY(check(config, err));
    struct http *http = mem_new(1, sizeof *http);
    http->config = *config;
    if (config->token != NULL)
        http->config.token = http->token = mem_strdup(config->token);
    if (config->certificate != NULL) {
        http->certificate = mem_strdup(config->certificate);
        http->key = mem_strdup(config->key);
    }
    if (config->body_max == 0)
        http->config.body_max = 1 << 20;
    if (!(config->timeout_s > 0))
        http->config.timeout_s = 30;
    if (!(config->unknown_s > 0))
        http->config.unknown_s = 5;
    http->places = conn_places(config);
    enum firn_status status = listen_all(http, err);
    if (status != FIRN_OK) {
        http_close(http);
        return status;
    }
    *out = http;
    return FIRN_OK;
}

static void forget_token(struct http *http)
{
    if (http->token != NULL)
        sodium_memzero(http->token, strlen(http->token));
    mem_free(http->token);
    http->config.token = http->token = NULL;
}

void http_set_token(struct http *http, const char *token)
{
    if (token == NULL && http->config.address != NULL)
        return;
    forget_token(http);
    if (token != NULL)
        http->config.token = http->token = mem_strdup(token);
}

void http_close(struct http *http)
{
    if (http == NULL)
        return;
    http->is_closing = true;
    for (struct http_exchange *ex = http->exchanges; ex; ex = ex->next)
        if (ex->is_suspended)
            exchange_cut(ex);
    for (int i = 0; i < http->nservers; i++) {
        MHD_run(http->servers[i]); /* answers on their way, and what was cut */
        MHD_run(http->servers[i]);
        MHD_stop_daemon(http->servers[i]);
    }
    if (http->epoll_fd >= 0)
        close(http->epoll_fd);
    if (http->socket != NULL)
        sock_unlink(http->socket);
    mem_free(http->socket);
    if (http->key != NULL)
        sodium_memzero(http->key, strlen(http->key));
    mem_free(http->key);
    mem_free(http->certificate);
    forget_token(http);
    mem_free(http);
}

int http_fd(const struct http *http, int *wait_ms)
{
    double limit_ms = -1;
    if (http->conns != NULL)
        limit_ms = fmax(http->sweep_s - clock_elapsed_s(), 0) * 1e3 + 1;
    for (int i = 0; i < http->nservers; i++) {
        MHD_UNSIGNED_LONG_LONG ms;
        if (MHD_get_timeout(http->servers[i], &ms) == MHD_YES &&
            (limit_ms < 0 || (double)ms < limit_ms))
            limit_ms = (double)ms;
    }
    if (http->is_woken)
        limit_ms = 0;
    *wait_ms = limit_ms > 1e6 ? 1000000 : (int)limit_ms;
    return http->epoll_fd;
}

void http_run(struct http *http)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(http->epoll_fd, events, EVENTS, 0);
    for (int i = 0; i < n; i++) {
        struct http_conn *conn = events[i].data.ptr;
        bool is_gone = events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
        if (is_gone && conn != NULL && conn->exchange != NULL &&
            conn->exchange->is_stream)
            exchange_cut(conn->exchange); /* its reader hung up */
    }
    http->is_woken = false;
    for (int i = 0; i < http->nservers; i++)
        MHD_run(http->servers[i]);
    conn_sweep(http); /* after it: what came while we did other things is in */
}

int http_port(const struct http *http)
{
    return http->port;
}
