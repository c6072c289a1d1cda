/* group_tcp.c - how the leaders of several hosts find each other.
 *
 * Process 0 listens at the address all were given. Every other leader listens
 * at a port of its own, calls process 0 and says who it is; when the hosts are
 * complete, process 0 sends each the list of all. Then every leader calls those
 * before it in the list and is called by those behind it, so that each pair
 * has one connection.
 *
 * A caller shows the group's token and the hash of its placement first, in one
 * message of a fixed size; whoever does not is dropped, whoever is slow about
 * it is dropped after some seconds, and neither keeps the others waiting. A
 * leader that is dropped calls again until its time is up: an older group may
 * still hold the port.
 *
 *   hello:   "firngrp1", u32 byte order, u32 kind, u64 placement, u32 first
 *            rank, u32 processes, u32 port, u32 0, token of 256 bytes
 *   welcome: the same with "firnhere" and the hosts for processes; then for
 *            each u32 first rank, u32 processes, u32 port, address of 64 bytes
 *
 * The token keeps strangers and neighbours' jobs out; it is sent as it is, so
 * it is no protection on a network that others can listen to.
 */
#include "train/groupwork.h"
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    HELLO = 40 + GRP_TOKEN,
    ENTRY = 12 + GRP_ADDRESS,
    JOIN = 1, /* kinds of hello */
    PEER = 2,
    PENDING = 64, /* callers that have not said yet who they are */
    HELLO_S = 30  /* in which they say it: one may stand still meanwhile */
};

struct rally {
    struct firn_group *g;
    const char *token;
    double until_s;
    int listener, port;
    unsigned char hello[HELLO]; /* room to make one */
};

static void put_u32(unsigned char *at, uint64_t value)
{
    uint32_t v = (uint32_t)value;
    memcpy(at, &v, sizeof v);
}

static int get_int(const unsigned char *at)
{
    uint32_t v;
    memcpy(&v, at, sizeof v);
    return v <= 0x7fffffff ? (int)v : -1;
}

/* --- sockets ---------------------------------------------------------------
 */

static void set_up(int fd)
{
    int on = 1;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static struct addrinfo *look_up(const char *address, int port, bool listening)
{
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = listening ? AI_PASSIVE : 0};
    struct addrinfo *list = NULL;
    return getaddrinfo(address, service, &hints, &list) == 0 ? list : NULL;
}

/* Listens at the address, or at all when it is not one of this machine. */
static int listen_at(const char *address, int port)
{
    int fd = -1, why = EADDRNOTAVAIL;
    struct addrinfo *list = look_up(address, port, true);
    for (struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next) {
        int on = 1;
        fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, 64) != 0) {
            why = errno;
            close(fd);
            fd = -1;
        }
    }
    if (list != NULL)
        freeaddrinfo(list);
    if (fd < 0 && address != NULL && why == EADDRNOTAVAIL)
        return listen_at(NULL, port);
    if (fd >= 0)
        set_up(fd);
    errno = why;
    return fd;
}

/* The address and port of one end of a connection. */
static int name_of(int fd, bool peer, char address[GRP_ADDRESS])
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at;
    char port[16];
    if ((peer ? getpeername(fd, (struct sockaddr *)&at, &n)
              : getsockname(fd, (struct sockaddr *)&at, &n)) != 0 ||
        getnameinfo((struct sockaddr *)&at, n, address, GRP_ADDRESS, port,
                    sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return -1;
    return (int)strtol(port, NULL, 10);
}

static bool wait_on(int fd, short events, double until_s)
{
    for (;;) {
        double left_s = until_s - firn_grp_now_s();
        if (left_s <= 0)
            return false;
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, left_s > 1 ? 1000 : (int)(left_s * 1000) + 1);
        if (n > 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
    }
}

static int call_one(const struct addrinfo *a, double until_s)
{
    int fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
    if (fd < 0)
        return -1;
    set_up(fd);
    int code = connect(fd, a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
    if (code == EINPROGRESS && wait_on(fd, POLLOUT, until_s)) {
        socklen_t n = sizeof code;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &n) != 0)
            code = errno;
    }
    if (code == 0)
        return fd;
    close(fd);
    return -1;
}

static int call(const char *address, int port, double until_s)
{
    struct addrinfo *list = look_up(address, port, false);
    int fd = -1;
    for (struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next)
        fd = call_one(a, until_s);
    if (list != NULL)
        freeaddrinfo(list);
    return fd;
}

static bool send_all(int fd, const void *bytes, size_t n, double until_s)
{
    const char *at = bytes;
    while (n > 0) {
        ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);
        if (sent > 0) {
            at += sent;
            n -= (size_t)sent;
        } else if ((errno != EAGAIN && errno != EINTR) ||
                   !wait_on(fd, POLLOUT, until_s)) {
            return false;
        }
    }
    return true;
}

static bool read_all(int fd, void *bytes, size_t n, double until_s)
{
    char *at = bytes;
    while (n > 0) {
        ssize_t got = recv(fd, at, n, 0);
        if (got > 0) {
            at += got;
            n -= (size_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR) ||
                   !wait_on(fd, POLLIN, until_s)) {
            return false;
        }
    }
    return true;
}

/* --- who is there ----------------------------------------------------------
 */

static void make_hello(struct rally *r, const char *word, int kind, int nprocs)
{
    unsigned char *at = r->hello;
    memset(at, 0, HELLO);
    memcpy(at, word, 8);
    put_u32(at + 8, 0x01020304);
    put_u32(at + 12, (uint64_t)kind);
    memcpy(at + 16, &r->g->shape, 8);
    put_u32(at + 24, (uint64_t)r->g->first);
    put_u32(at + 28, (uint64_t)nprocs);
    put_u32(at + 32, (uint64_t)r->port);
    memcpy(at + 40, r->token, strlen(r->token));
}

/* Is this what a member of the group would say? Looks at all of the token,
 * whatever is wrong with it. */
static bool is_ours(struct rally *r, const unsigned char *said,
                    const char *word, int kind)
{
    make_hello(r, word, kind, 0);
    unsigned differs = 0;
    for (int i = 40; i < HELLO; i++)
        differs |= (unsigned)(said[i] ^ r->hello[i]);
    return differs == 0 && memcmp(said, r->hello, 24) == 0;
}

/* Takes a caller for the host it says it is. False: it makes no sense. */
static bool enlist(struct rally *r, const unsigned char *said, int fd)
{
    struct firn_group *g = r->g;
    int first = get_int(said + 24), nprocs = get_int(said + 28);
    int port = get_int(said + 32);
    if (first < 1 || nprocs < 1 || first >= g->nprocs ||
        nprocs > g->nprocs - first || port < 1 || port > 65535)
        return false;
    int at = g->nhosts;
    for (int h = 0; h < g->nhosts; h++) {
        const struct grp_host *host = &g->host[h];
        if (first < host->first + host->nprocs && host->first < first + nprocs)
            return false;
        if (host->first > first && at == g->nhosts)
            at = h;
    }
    struct grp_host new = {.first = first, .nprocs = nprocs, .fd = fd};
    if (name_of(fd, true, new.address) < 0)
        return false;
    new.port = port;
    memmove(&g->host[at + 1], &g->host[at],
            (size_t)(g->nhosts - at) * sizeof new);
    g->host[at] = new;
    g->nhosts++;
    return true;
}

/* A caller that comes later than this leader in the list. */
static bool connect_peer(struct rally *r, const unsigned char *said, int fd)
{
    struct firn_group *g = r->g;
    int h = 0, first = get_int(said + 24);
    while (h < g->nhosts && g->host[h].first != first)
        h++;
    if (h == g->nhosts || h <= g->at_host || g->host[h].fd >= 0)
        return false;
    g->host[h].fd = fd;
    return true;
}

/* The lowest rank of which nothing is known yet; -1: all are here. */
static int missing(const struct firn_group *g, int kind)
{
    if (kind == PEER) {
        for (int h = g->at_host + 1; h < g->nhosts; h++)
            if (g->host[h].fd < 0)
                return g->host[h].first;
        return -1;
    }
    int rank = 0;
    for (int h = 0; h < g->nhosts && g->host[h].first == rank; h++)
        rank += g->host[h].nprocs;
    return rank < g->nprocs ? rank : -1;
}

struct caller {
    int fd;
    size_t n;
    double until_s;
    unsigned char said[HELLO];
};

/* Reads on what a caller says. True: it is done with, one way or the other. */
static bool hear(struct rally *r, struct caller *c, int kind)
{
    ssize_t n = recv(c->fd, c->said + c->n, HELLO - c->n, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    bool ours = false;
    if (n > 0) {
        c->n += (size_t)n;
        if (c->n < HELLO)
            return false;
        ours = is_ours(r, c->said, "firngrp1", kind) &&
               (kind == JOIN ? enlist(r, c->said, c->fd)
                             : connect_peer(r, c->said, c->fd));
    }
    if (!ours)
        close(c->fd);
    return true;
}

/* One wait for new callers and for what the present ones say. */
static void hear_all(struct rally *r, int kind, struct caller *caller,
                     int *ncallers)
{
    struct pollfd p[PENDING + 1] = {{.fd = r->listener, .events = POLLIN}};
    int n = *ncallers;
    for (int i = 0; i < n; i++)
        p[i + 1] = (struct pollfd){.fd = caller[i].fd, .events = POLLIN};
    poll(p, (nfds_t)n + 1, 20);
    double now_s = firn_grp_now_s();
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (p[i + 1].revents != 0 && hear(r, &caller[i], kind))
            continue;
        if (now_s > caller[i].until_s) {
            close(caller[i].fd);
            continue;
        }
        caller[kept++] = caller[i];
    }
    if (p[0].revents != 0 && kept < PENDING) {
        int fd = accept(r->listener, NULL, NULL);
        if (fd >= 0) {
            set_up(fd);
            caller[kept++] =
                (struct caller){.fd = fd, .until_s = now_s + HELLO_S};
        }
    }
    *ncallers = kept;
}

static enum firn_status answer_calls(struct rally *r, int kind,
                                     struct firn_error *err)
{
    struct firn_group *g = r->g;
    struct caller *caller = calloc(PENDING, sizeof *caller);
    int ncallers = 0;
    enum firn_status status = FIRN_OK;
    if (caller == NULL)
        return firn_grp_fail(g, err, "process %d has no memory", g->rank);
    while (status == FIRN_OK && missing(g, kind) >= 0) {
        hear_all(r, kind, caller, &ncallers);
        if (firn_grp_now_s() > r->until_s)
            status = firn_grp_fail(g, err, "process %d did not come for %.3g s",
                                   missing(g, kind), g->timeout_s);
    }
    for (int i = 0; i < ncallers; i++)
        close(caller[i].fd);
    free(caller);
    return status;
}

/* --- the list of hosts -----------------------------------------------------
 */

static enum firn_status send_list(struct rally *r, struct firn_error *err)
{
    struct firn_group *g = r->g;
    size_t n = HELLO + (size_t)g->nhosts * ENTRY;
    unsigned char *list = calloc(1, n);
    if (list == NULL)
        return firn_grp_fail(g, err, "process %d has no memory", g->rank);
    make_hello(r, "firnhere", JOIN, g->nhosts);
    memcpy(list, r->hello, HELLO);
    for (int h = 0; h < g->nhosts; h++) {
        unsigned char *at = list + HELLO + (size_t)h * ENTRY;
        put_u32(at, (uint64_t)g->host[h].first);
        put_u32(at + 4, (uint64_t)g->host[h].nprocs);
        put_u32(at + 8, (uint64_t)g->host[h].port);
        memcpy(at + 12, g->host[h].address, GRP_ADDRESS);
    }
    enum firn_status status = FIRN_OK;
    for (int h = 1; h < g->nhosts && status == FIRN_OK; h++)
        if (!send_all(g->host[h].fd, list, n, r->until_s))
            status =
                firn_grp_fail(g, err, "process %d is gone", g->host[h].first);
    free(list);
    return status;
}

/* Reads the list; false: not ours, or it does not hold together. */
static bool read_list(struct rally *r, int fd)
{
    struct firn_group *g = r->g;
    unsigned char said[HELLO], entry[ENTRY];
    if (!read_all(fd, said, HELLO, r->until_s) ||
        !is_ours(r, said, "firnhere", JOIN))
        return false;
    int nhosts = get_int(said + 28), rank = 0;
    if (nhosts < 2 || nhosts > g->nprocs)
        return false;
    for (int h = 0; h < nhosts; h++) {
        if (!read_all(fd, entry, ENTRY, r->until_s))
            return false;
        struct grp_host *host = &g->host[h];
        *host = (struct grp_host){.first = get_int(entry),
                                  .nprocs = get_int(entry + 4),
                                  .port = get_int(entry + 8),
                                  .fd = -1};
        memcpy(host->address, entry + 12, GRP_ADDRESS);
        host->address[GRP_ADDRESS - 1] = '\0';
        if (host->first != rank || host->nprocs < 1 ||
            host->nprocs > g->nprocs - rank)
            return false;
        rank += host->nprocs;
        if (host->first == g->first)
            g->at_host = h;
    }
    g->nhosts = nhosts;
    g->host[0].fd = fd;
    return rank == g->nprocs && g->at_host > 0;
}

/* Calls process 0 until it lets this host in. */
static enum firn_status join(struct rally *r,
                             const struct firn_group_config *config,
                             struct firn_error *err)
{
    struct firn_group *g = r->g;
    bool answered = false;
    while (firn_grp_now_s() < r->until_s) {
        int fd = call(config->address, config->port, r->until_s);
        if (fd >= 0 && r->listener < 0) { /* at the way out to process 0 */
            char address[GRP_ADDRESS];
            if (name_of(fd, false, address) > 0)
                r->listener = listen_at(address, 0);
            if (r->listener < 0)
                r->listener = listen_at(NULL, 0);
            r->port = name_of(r->listener, false, address);
        }
        answered |= fd >= 0;
        make_hello(r, "firngrp1", JOIN, g->nlocal);
        if (fd >= 0 && r->port > 0 &&
            send_all(fd, r->hello, HELLO, r->until_s) && read_list(r, fd))
            return FIRN_OK;
        if (fd >= 0)
            close(fd);
        g->host[0].fd = -1;
        firn_grp_nap(0.02);
    }
    return firn_grp_fail(g, err, "process 0 at %s, port %d, %s",
                         config->address, config->port,
                         answered ? "does not let this host in: another token "
                                    "or placement, or not all came"
                                  : "did not come");
}

static enum firn_status call_peers(struct rally *r, struct firn_error *err)
{
    struct firn_group *g = r->g;
    make_hello(r, "firngrp1", PEER, g->nlocal);
    for (int h = 1; h < g->at_host; h++) {
        struct grp_host *host = &g->host[h];
        host->fd = call(host->address, host->port, r->until_s);
        if (host->fd < 0 || !send_all(host->fd, r->hello, HELLO, r->until_s))
            return firn_grp_fail(g, err, "process %d at %s is gone",
                                 host->first, host->address);
    }
    return answer_calls(r, PEER, err);
}

enum firn_status firn_grp_rendezvous(struct firn_group *g,
                                     const struct firn_group_config *config,
                                     struct firn_error *err)
{
    struct rally r = {.g = g,
                      .token = config->token,
                      .until_s = firn_grp_now_s() + g->timeout_s,
                      .listener = -1};
    enum firn_status status = FIRN_OK;
    if (g->rank == 0) {
        g->host[0].nprocs = g->nlocal;
        r.listener = listen_at(config->address, config->port);
        if (r.listener < 0)
            status = firn_grp_fail(g, err,
                                   "process 0 cannot listen at port "
                                   "%d: %s",
                                   config->port, strerror(errno));
        if (status == FIRN_OK)
            status = answer_calls(&r, JOIN, err);
        if (status == FIRN_OK)
            status = send_list(&r, err);
    } else {
        status = join(&r, config, err);
        if (status == FIRN_OK)
            status = call_peers(&r, err);
    }
    if (r.listener >= 0)
        close(r.listener);
    return status;
}
