/* group_tcp.c - how the leaders of several hosts find each other.
 *
 * Process 0 listens at the address all were given. Every other leader listens
 * at a port of its own, calls process 0 and says which processes it leads; when
 * the hosts are complete, process 0 sends each the list of all. Then every
 * leader calls those before it in the list and is called by those behind it, so
 * that each pair has one connection.
 *
 * Every connection begins with the handshake of groupauth.h: both sides prove
 * the group's key, neither sends it. Only then is anything else sent, and only
 * then does a caller learn what is wrong with its rank or placement. A leader
 * that finds a stranger at the port, or is dropped (group_callers.c), calls
 * again until its time is up: an older group may still hold the port. A member
 * that is refused with a reason fails at once, with that reason.
 *
 *   list:  u32 hosts; then for each u32 first rank, u32 processes, u32 port,
 *          address of 64 bytes
 *
 * The key keeps out every process that does not have it. The connections
 * themselves are neither encrypted nor protected against one who can change
 * packets on the network between the hosts.
 */
#include "train/groupwork.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ENTRY = 12 + GRP_ADDRESS,
    JOIN = 1, /* kinds of callers */
    PEER = 2
};
static const double try_s = 10; /* for one call, before the next */

struct rally {
    struct firn_group *g;
    uint64_t name;
    double until_s;
    int listener, port, kind;
    char refused[GRP_WHY]; /* why the last member was not admitted */
};

/* A member to be called. */
struct callee {
    int first, port;
    const char *address;
};

static void put_u32(unsigned char *at, uint64_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static int get_int(const unsigned char *at)
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++)
        v |= (uint32_t)at[i] << (8 * i);
    return v <= 0x7fffffff ? (int)v : -1;
}

/* --- being called -------------------------------------------------------- */

/* Has the other side closed this connection? */
static bool is_closed(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* The host that has one of these processes; -1: none is known to. */
static int find_host(const struct firn_group *g, int first, int nprocs)
{
    for (int h = 0; h < g->nhosts; h++) {
        const struct grp_host *host = &g->host[h];
        if (first < host->first + host->nprocs && host->first < first + nprocs)
            return h;
    }
    return -1;
}

/* Is it the same host, whose connection is gone? */
static bool is_again(const struct grp_host *host, const struct grp_claim *c)
{
    return host->fd >= 0 && host->first == c->first &&
           host->nprocs == c->nprocs && is_closed(host->fd);
}

static bool is_new(const struct rally *r, const struct grp_claim *c)
{
    const struct firn_group *g = r->g;
    int h = find_host(g, c->first, c->nprocs);
    if (h >= 0 && is_again(&g->host[h], c))
        return true;
    if (r->kind == JOIN)
        return h < 0;
    return h > g->at_host && g->host[h].fd < 0 &&
           g->host[h].first == c->first && g->host[h].nprocs == c->nprocs;
}

static const char *judge(void *arg, const struct grp_claim *c)
{
    struct rally *r = arg;
    const struct firn_group *g = r->g;
    char *why = r->refused;
    if (c->name != r->name)
        snprintf(why, GRP_WHY, "it is of another group, or another attempt");
    else if (c->world != g->nprocs)
        snprintf(why, GRP_WHY, "its group has %d processes, this one has %d",
                 c->world, g->nprocs);
    else if (c->shape != g->shape)
        snprintf(why, GRP_WHY,
                 "process %d was set up otherwise than process %d", c->first,
                 g->rank);
    else if (c->kind != r->kind || c->called != r->port)
        snprintf(why, GRP_WHY, "it called port %d and reached port %d",
                 c->called, r->port);
    else if (c->first < 1 || c->nprocs < 1 || c->first >= g->nprocs ||
             c->nprocs > g->nprocs - c->first || c->port < 1 || c->port > 65535)
        snprintf(why, GRP_WHY, "it cannot be process %d and lead %d of %d",
                 c->first, c->nprocs, g->nprocs);
    else if (!is_new(r, c))
        snprintf(why, GRP_WHY,
                 "processes %d to %d are not awaited, or are here already",
                 c->first, c->first + c->nprocs - 1);
    else
        return NULL;
    return why;
}

/* Process 0 learns of a host. */
static void enlist(struct rally *r, const struct grp_claim *c, int fd)
{
    struct firn_group *g = r->g;
    struct grp_host new = {.first = c->first, .nprocs = c->nprocs, .fd = fd};
    int at = find_host(g, c->first, c->nprocs);
    if (firn_grp_end_of(fd, true, new.address) < 0) {
        close(fd); /* gone again: it will call once more */
        return;
    }
    new.port = c->port;
    if (at >= 0) {
        close(g->host[at].fd);
        g->host[at] = new;
        return;
    }
    for (at = 0; at < g->nhosts && g->host[at].first < c->first;)
        at++;
    memmove(&g->host[at + 1], &g->host[at],
            (size_t)(g->nhosts - at) * sizeof new);
    g->host[at] = new;
    g->nhosts++;
}

static void let_in(void *arg, const struct grp_claim *c, int fd)
{
    struct rally *r = arg;
    struct firn_group *g = r->g;
    if (r->kind == JOIN) {
        enlist(r, c, fd);
        return;
    }
    struct grp_host *host = &g->host[find_host(g, c->first, c->nprocs)];
    if (host->fd >= 0)
        close(host->fd);
    host->fd = fd;
}

/* The lowest rank of which nothing is known yet; -1: all are here. */
static int missing(const struct rally *r)
{
    const struct firn_group *g = r->g;
    if (r->kind == PEER) {
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

static enum firn_status fail_to_come(struct rally *r, int nrefused,
                                     struct firn_error *err)
{
    char also[GRP_WHY + 64] = "";
    if (r->refused[0] != '\0')
        snprintf(also, sizeof also, "; a member was refused: %s", r->refused);
    else if (nrefused > 0)
        snprintf(also, sizeof also,
                 "; callers without this group's key that were sent away: %d",
                 nrefused);
    return firn_grp_fail(r->g, err, "process %d did not come for %.3g s%s",
                         missing(r), r->g->timeout_s, also);
}

/* Will a member that is waited for never come? */
static bool is_lost(const struct rally *r)
{
    const struct grp_watch *watch = &r->g->watch;
    return watch->is_lost != NULL && watch->is_lost(watch->arg);
}

static enum firn_status fail_as_lost(struct rally *r, struct firn_error *err)
{
    return firn_grp_fail(r->g, err, "process %d waited in vain: %s", r->g->rank,
                         r->g->watch.why);
}

static enum firn_status answer_calls(struct rally *r, int kind,
                                     struct firn_error *err)
{
    struct firn_group *g = r->g;
    struct grp_door door = {r->listener, g->key, judge, let_in, r};
    struct grp_callers *callers = firn_grp_callers_new();
    enum firn_status status = FIRN_OK;
    if (callers == NULL)
        return firn_grp_fail(g, err, "process %d has no memory", g->rank);
    r->kind = kind;
    while (status == FIRN_OK && missing(r) >= 0) {
        firn_grp_callers_hear(callers, &door, 20);
        if (is_lost(r))
            status = fail_as_lost(r, err);
        else if (firn_grp_now_s() > r->until_s)
            status = fail_to_come(r, firn_grp_callers_refused(callers), err);
    }
    firn_grp_callers_free(callers);
    return status;
}

/* --- calling ------------------------------------------------------------- */

/* The handshake of a caller; it ends in the state of `s`. */
static void shake_hands(struct rally *r, int fd, const struct grp_claim *claim,
                        struct grp_shake *s)
{
    double until_s = firn_grp_now_s() + try_s;
    struct shake_out out = firn_grp_shake_call(s, r->g->key, claim);
    unsigned char *at;
    if (until_s > r->until_s)
        until_s = r->until_s;
    while (firn_grp_send_all(fd, out.at, out.n, until_s)) {
        size_t room = firn_grp_shake_room(s, &at);
        ssize_t n = room > 0 ? recv(fd, at, room, 0) : 0;
        out.n = 0;
        if (n > 0)
            out = firn_grp_shake_take(s, (size_t)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR) ||
                 !firn_grp_wait_on(fd, POLLIN, until_s))
            return;
    }
}

/* Calls once: a connection to a member that lets this host in, or -1. What
 * became of it is in `s`; it is left alone when there was no connection. */
static int call_member(struct rally *r, int kind, const struct callee *to,
                       struct grp_shake *s)
{
    const struct firn_group *g = r->g;
    double until_s = firn_grp_now_s() + try_s;
    int fd = firn_grp_call(to->address, to->port,
                           until_s < r->until_s ? until_s : r->until_s);
    if (fd < 0)
        return -1;
    if (r->listener < 0) { /* at the way out to process 0 */
        char address[GRP_ADDRESS];
        if (firn_grp_end_of(fd, false, address) > 0)
            r->listener = firn_grp_listen(address, 0);
        if (r->listener < 0)
            r->listener = firn_grp_listen(NULL, 0);
        r->port = firn_grp_end_of(r->listener, false, address);
    }
    struct grp_claim claim = {kind,     r->name,   g->shape, g->nprocs,
                              g->first, g->nlocal, r->port,  to->port};
    shake_hands(r, fd, &claim, s);
    if (s->state == SHAKE_DONE)
        return fd;
    close(fd);
    return -1;
}

/* The error of a caller that was not admitted. */
static enum firn_status fail_of(struct rally *r, const struct callee *to,
                                const struct grp_shake *s,
                                struct firn_error *err)
{
    static const char stranger[] =
        "does not have this group's key: FIRN_GROUP_KEY differs, or another "
        "program listens there";
    static const char *const texts[] = {
        [SHAKE_WANTS_HELLO] = "did not come", /* no connection */
        [SHAKE_WANTS_PROOF] = "",
        [SHAKE_JUDGE] = "",
        [SHAKE_WANTS_ANSWER] = "does not answer",
        [SHAKE_WANTS_VERDICT] = "did not let this host in",
        [SHAKE_DONE] = "left before all had come",
        [SHAKE_NO_MEMBER] = stranger,
        [SHAKE_REFUSED] = "refuses this host: "};
    return firn_grp_fail(r->g, err, "process %d at %s, port %d, %s%s",
                         to->first, to->address, to->port, texts[s->state],
                         s->state == SHAKE_REFUSED ? s->why : "");
}

/* Calls until it is let in, refused, or its time is up. */
static enum firn_status call_peer(struct rally *r, struct grp_host *host,
                                  struct firn_error *err)
{
    struct callee to = {host->first, host->port, host->address};
    struct grp_shake s = {.state = SHAKE_WANTS_HELLO};
    double pause_s = 0.02;
    while (firn_grp_now_s() < r->until_s) {
        s.state = SHAKE_WANTS_HELLO;
        host->fd = call_member(r, PEER, &to, &s);
        if (host->fd >= 0)
            return FIRN_OK;
        if (s.state == SHAKE_REFUSED || s.state == SHAKE_WANTS_HELLO)
            break; /* it listens since before process 0 listed it */
        firn_grp_nap(pause_s);
        pause_s = pause_s < 0.2 ? pause_s * 2 : pause_s;
    }
    return fail_of(r, &to, &s, err);
}

static enum firn_status call_peers(struct rally *r, struct firn_error *err)
{
    struct firn_group *g = r->g;
    for (int h = 1; h < g->at_host; h++)
        FIRN_TRY(call_peer(r, &g->host[h], err));
    return answer_calls(r, PEER, err);
}

/* --- the list of hosts --------------------------------------------------- */

static enum firn_status send_list(struct rally *r, struct firn_error *err)
{
    struct firn_group *g = r->g;
    size_t n = 4 + (size_t)g->nhosts * ENTRY;
    unsigned char *list = calloc(1, n);
    if (list == NULL)
        return firn_grp_fail(g, err, "process %d has no memory", g->rank);
    put_u32(list, (uint64_t)g->nhosts);
    for (int h = 0; h < g->nhosts; h++) {
        unsigned char *at = list + 4 + (size_t)h * ENTRY;
        put_u32(at, (uint64_t)g->host[h].first);
        put_u32(at + 4, (uint64_t)g->host[h].nprocs);
        put_u32(at + 8, (uint64_t)g->host[h].port);
        memcpy(at + 12, g->host[h].address, GRP_ADDRESS);
    }
    enum firn_status status = FIRN_OK;
    for (int h = 1; h < g->nhosts && status == FIRN_OK; h++)
        if (!firn_grp_send_all(g->host[h].fd, list, n, r->until_s))
            status =
                firn_grp_fail(g, err, "process %d is gone", g->host[h].first);
    free(list);
    return status;
}

/* Reads the list; false: it does not hold together. */
static bool read_list(struct rally *r, int fd)
{
    struct firn_group *g = r->g;
    unsigned char count[4], entry[ENTRY];
    if (!firn_grp_read_all(fd, count, sizeof count, r->until_s))
        return false;
    int nhosts = get_int(count), rank = 0;
    if (nhosts < 2 || nhosts > g->nprocs)
        return false;
    for (int h = 0; h < nhosts; h++) {
        if (!firn_grp_read_all(fd, entry, ENTRY, r->until_s))
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

/* Calls process 0 until it lets this host in and all have come. */
static enum firn_status join(struct rally *r,
                             const struct firn_group_config *config,
                             struct firn_error *err)
{
    struct grp_shake s = {.state = SHAKE_WANTS_HELLO};
    struct callee to = {0, config->port, config->address};
    double pause_s = 0.02;
    while (firn_grp_now_s() < r->until_s && s.state != SHAKE_REFUSED) {
        if (is_lost(r))
            return fail_as_lost(r, err);
        int fd = call_member(r, JOIN, &to, &s);
        if (fd >= 0 && read_list(r, fd))
            return FIRN_OK;
        if (fd >= 0)
            close(fd);
        r->g->host[0].fd = -1;
        firn_grp_nap(pause_s);
        if (s.state == SHAKE_NO_MEMBER && pause_s < 0.2)
            pause_s *= 2;
    }
    return fail_of(r, &to, &s, err);
}

enum firn_status firn_grp_rendezvous(struct firn_group *g,
                                     const struct firn_group_config *config,
                                     struct firn_error *err)
{
    struct rally r = {
        .g = g,
        .name = firn_grp_hash(0xcbf29ce484222325u, g->name, strlen(g->name)),
        .until_s = firn_grp_now_s() + g->timeout_s,
        .listener = -1};
    enum firn_status status = FIRN_OK;
    if (g->rank == 0) {
        g->host[0].nprocs = g->nlocal;
        r.port = config->port;
        r.listener = g->watch.listener > 0
                         ? g->watch.listener - 1
                         : firn_grp_listen(config->address, config->port);
        g->watch.listener = 0;
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
