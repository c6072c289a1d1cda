/* http_conn.c - connections of the HTTP server: their deadlines and their
 * number.
 *
 * On TCP a connection is unknown until a whole head with a good token has come
 * over it; over the Unix socket the kernel names the other end, so that none is
 * unknown. Every program that reaches the port can make unknown connections;
 * they must not take the place of those that have shown a token.
 *
 *              opened by TCP                opened by the Unix socket
 *                    |                                |
 *                 UNKNOWN ---- good token ----->    KNOWN
 *                    |                                |
 *        unknown_s, or one of too many     timeout_s without a request
 *                    |                                |
 *                    +----------> DROPPED <-----------+
 *
 * (1) TCP and the Unix socket have separate numbers: whatever comes by TCP, the
 *     socket is served.
 * (2) A TCP connection is unknown for at most unknown_s, however busily its
 *     client sends. After that, timeout_s holds for each whole request.
 * (3) Of all TCP connections at most a quarter is unknown, and at most a
 *     sixteenth unknown and from one address (two at least in each case). When
 *     a new one is above such a limit, the oldest that counts there is dropped.
 * So a client that sends its token at once is served beside any number that do
 * not. (4) When all places are known, the one idle for longest is dropped; when
 * none is idle, the new one. (5) The limits follow the descriptors that the
 * process may have: a part of them is kept for the engine and the store
 * (base/fdlimit.h).
 *
 * A dropped connection is shut down; libmicrohttpd sees its end at its next
 * turn and closes it. Cost: a walk over the connections for each new one.
 */
#include "base/clock.h"
#include "base/fdlimit.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/http_sock.h"
#include "daemon/httpwork.h"
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { PLACES_MOST = 1000, UNKNOWN_PART = 4, PEER_PART = 16 };

int conn_places(const struct http_config *config)
{
    int most = config->places > 0 ? config->places : PLACES_MOST;
    return (int)fdlimit_http_share((unsigned)most, 2); /* (5) */
}

/* A part of the places, at least two. */
static int part_of(int places, int part)
{
    return places / part > 2 ? places / part : 2;
}

/* --- what wakes the loop ----------------------------------------------- */

static uint32_t wanted(const struct http_conn *conn)
{
    const struct http_exchange *ex = conn->exchange;
    if (ex == NULL || ex->phase == HTTP_READING)
        return EPOLLIN;
    if (ex->is_cut || (ex->is_suspended && !ex->is_stream))
        return 0;
    return (ex->is_stream ? EPOLLRDHUP : 0) | (ex->is_suspended ? 0 : EPOLLOUT);
}

/* Invariant (4) of http.c. Not in the descriptor at all when nothing is wanted,
 * for the kernel tells of a hang-up even then, again and again. */
void conn_watch(struct http_conn *conn)
{
    struct epoll_event event = {.events = wanted(conn), .data.ptr = conn};
    if (event.events == conn->watched)
        return;
    int how = conn->watched == 0  ? EPOLL_CTL_ADD
              : event.events == 0 ? EPOLL_CTL_DEL
                                  : EPOLL_CTL_MOD;
    epoll_ctl(conn->http->epoll_fd, how, conn->fd, &event);
    conn->watched = event.events;
}

/* --- too many, too slow ------------------------------------------------ */

static void drop(struct http_conn *conn, enum http_refusal why)
{
    struct http *http = conn->http;
    conn->state = HTTP_DROPPED;
    http->is_woken = true;
    shutdown(conn->fd, SHUT_RDWR);
    if (http->config.turned_away != NULL)
        http->config.turned_away(http->config.arg, why, &conn->peer);
}

/* The connections that count, and the one that is closed first. */
struct crowd {
    int n;
    struct http_conn *oldest;
};

/* The list has the newest first. */
static void count(struct crowd *crowd, struct http_conn *conn)
{
    crowd->n++;
    crowd->oldest = conn;
}

/* Invariants (3) and (4), after `fresh` has come by TCP. */
static void make_room(struct http_conn *fresh)
{
    struct crowd all = {0, fresh}, unknown = {0, fresh}, peers = {0, fresh};
    struct http_conn *idle = NULL;
    int places = fresh->http->places;
    for (struct http_conn *c = fresh->http->conns; c != NULL; c = c->next) {
        if (c->is_local || c->state == HTTP_DROPPED)
            continue;
        count(&all, c);
        if (c->state == HTTP_KNOWN && c->exchange == NULL &&
            (idle == NULL || c->since_s < idle->since_s))
            idle = c;
        if (c->state != HTTP_UNKNOWN)
            continue;
        count(&unknown, c);
        if (strcmp(c->peer.address, fresh->peer.address) == 0)
            count(&peers, c);
    }
    if (peers.n > part_of(places, PEER_PART))
        drop(peers.oldest, HTTP_REFUSED_CROWD);
    else if (unknown.n > part_of(places, UNKNOWN_PART))
        drop(unknown.oldest, HTTP_REFUSED_CROWD);
    else if (all.n > places)
        drop(unknown.n > 1  ? unknown.oldest
             : idle != NULL ? idle
                            : fresh,
             HTTP_REFUSED_CROWD);
}

/* Its deadline; 0: none. */
static double deadline_s(const struct http_conn *conn)
{
    const struct http_config *config = &conn->http->config;
    if (conn->state == HTTP_DROPPED)
        return 0;
    if (conn->state == HTTP_UNKNOWN)
        return conn->opened_s + config->unknown_s; /* (2) */
    return conn->since_s > 0 ? conn->since_s + config->timeout_s : 0;
}

/* libmicrohttpd closes silent connections, this closes slow ones. */
void conn_sweep(struct http *http)
{
    double now_s = clock_elapsed_s(), next_s = now_s + 3600;
    if (now_s < http->sweep_s)
        return;
    for (struct http_conn *c = http->conns; c != NULL; c = c->next) {
        double at_s = deadline_s(c);
        if (at_s > 0 && at_s <= now_s)
            drop(c, HTTP_REFUSED_SLOW);
        else if (at_s > 0 && at_s < next_s)
            next_s = at_s;
    }
    http->sweep_s = next_s;
}

void conn_expect(struct http_conn *conn)
{
    double at_s = deadline_s(conn);
    if (at_s > 0 && at_s < conn->http->sweep_s)
        conn->http->sweep_s = at_s;
}

/* --- life -------------------------------------------------------------- */

void conn_open(struct http *http, struct MHD_Connection *mhd, void **context)
{
    struct http_conn *conn = mem_new(1, sizeof *conn);
    struct sockaddr_storage at = {0};
    socklen_t n = sizeof at;
    conn->http = http;
    conn->fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)
                   ->connect_fd;
    conn->opened_s = conn->since_s = clock_elapsed_s();
    conn->peer = (struct http_caller){.job = -1};
    if (getsockname(conn->fd, (struct sockaddr *)&at, &n) == 0)
        conn->is_local = at.ss_family == AF_UNIX;
    conn->state = conn->is_local ? HTTP_KNOWN : HTTP_UNKNOWN;
    if (conn->is_local)
        sock_peer(conn->fd, &http->config, &conn->peer);
    else
        sock_peer_address(conn->fd, conn->peer.address);
    conn->next = http->conns;
    if (conn->next != NULL)
        conn->next->before = conn;
    http->conns = conn;
    conn_watch(conn);
    if (!conn->is_local)
        make_room(conn);
    conn_expect(conn);
    *context = conn;
}

void conn_close(struct http_conn *conn)
{
    if (conn->watched != 0)
        epoll_ctl(conn->http->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
    if (conn->next != NULL)
        conn->next->before = conn->before;
    if (conn->before != NULL)
        conn->before->next = conn->next;
    else
        conn->http->conns = conn->next;
    mem_free(conn);
}
