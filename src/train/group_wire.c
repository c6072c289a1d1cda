/* group_wire.c - messages between the leaders of a group's hosts.
 *
 * Both sides know what comes next, so a message is a head with a number and a
 * size, which are checked, and the bytes of its pieces. All flows of an
 * exchange go on at once over sockets that never block, so two leaders that
 * both send before they read cannot hold each other up. A leader that fails
 * sends the sentence in place of its next message; one that vanishes is seen
 * by its closed connection, one that is silent by the clock.
 *
 *   u32 mark, u32 kind, u64 number, u64 bytes       little endian
 *
 * Gradients travel as they lie in memory; hosts of another byte order are
 * refused when they meet (group_tcp.c).
 */
#include "train/groupwork.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD = 24, KIND_DATA = 1, KIND_FAILED = 2, MARK = 0x70726766 };

/* One direction of one flow. */
struct stream {
    unsigned char head[HEAD];
    struct grp_piece *piece;
    size_t npieces, at; /* 0 while in the head, then the piece + 1 */
    size_t done;        /* bytes of the current piece */
    uint64_t nbytes;
    bool over;
};

struct talk {
    int host;
    struct stream out, in;
    double moved_s; /* when bytes last moved */
};

static void put_u64(unsigned char *at, uint64_t value, int n)
{
    for (int i = 0; i < n; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t get_u64(const unsigned char *at, int n)
{
    uint64_t value = 0;
    for (int i = 0; i < n; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static void write_head(unsigned char *head, uint32_t kind, uint64_t number,
                       uint64_t nbytes)
{
    put_u64(head, MARK, 4);
    put_u64(head + 4, kind, 4);
    put_u64(head + 8, number, 8);
    put_u64(head + 16, nbytes, 8);
}

static struct stream stream_of(struct grp_piece *piece, size_t npieces)
{
    struct stream s = {
        .piece = piece, .npieces = npieces, .over = npieces == 0};
    for (size_t i = 0; i < npieces; i++)
        s.nbytes += piece[i].n;
    return s;
}

/* --- failures ------------------------------------------------------------ */

static enum firn_status lost(struct firn_group *g, const struct talk *t,
                             const char *how, struct firn_error *err)
{
    g->host[t->host].torn = true;
    return firn_grp_fail(g, err, "process %d %s", g->host[t->host].first, how);
}

/* The rest of a message that says why the other host has failed. */
static enum firn_status take_failure(struct firn_group *g, struct talk *t,
                                     uint64_t nbytes, struct firn_error *err)
{
    char text[GRP_TEXT] = "";
    size_t n = nbytes < sizeof text ? (size_t)nbytes : 0, done = 0;
    struct pollfd poller = {.fd = g->host[t->host].fd, .events = POLLIN};
    while (done < n && poll(&poller, 1, 200) > 0) {
        ssize_t got = recv(poller.fd, text + done, n - done, 0);
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    text[done] = '\0';
    for (size_t i = 0; i < done; i++)
        if (text[i] < ' ' || text[i] > '~')
            text[i] = '?';
    if (done == 0)
        return lost(g, t, "has failed", err);
    return firn_grp_fail(g, err, "%s", text);
}

void firn_grp_tell_failed(struct firn_group *g, const char *text)
{
    unsigned char message[HEAD + GRP_TEXT];
    size_t n = strlen(text);
    for (int h = 0; h < g->nhosts; h++) {
        struct grp_host *host = &g->host[h];
        if (host->fd < 0 || host->torn)
            continue;
        write_head(message, KIND_FAILED, host->nout, n);
        memcpy(message + HEAD, text, n);
        if (send(host->fd, message, HEAD + n, MSG_NOSIGNAL) < 0)
            host->torn = true;
        shutdown(host->fd, SHUT_WR);
        host->torn = true;
    }
}

/* Unread bytes would turn the close into a reset that destroys what the other
 * side has not read yet; so they are read, but not for long. */
void firn_grp_hang_up(struct firn_group *g)
{
    double until_s = firn_grp_now_s() + 0.2;
    char waste[4096];
    if (g->control != NULL && atomic_load(&g->control->failed) == 2)
        firn_grp_tell_failed(g, g->control->text);
    for (int h = 0; h < g->nhosts; h++) {
        struct grp_host *host = &g->host[h];
        if (host->fd < 0)
            continue;
        struct pollfd poller = {.fd = host->fd, .events = POLLIN};
        while (host->torn && firn_grp_now_s() < until_s &&
               poll(&poller, 1, 20) > 0 &&
               recv(host->fd, waste, sizeof waste, 0) > 0)
            ;
        close(host->fd);
        host->fd = -1;
    }
}

/* --- moving bytes -------------------------------------------------------- */

/* Where the next bytes are; n 0: this part is finished. */
static struct grp_piece rest_of(struct stream *s)
{
    if (s->at == 0)
        return (struct grp_piece){s->head + s->done, HEAD - s->done};
    struct grp_piece *p = &s->piece[s->at - 1];
    return (struct grp_piece){(char *)p->at + s->done, p->n - s->done};
}

static void step_on(struct stream *s)
{
    s->at++;
    s->done = 0;
    s->over = s->at > s->npieces;
}

static enum firn_status check_head(struct firn_group *g, struct talk *t,
                                   struct firn_error *err)
{
    const unsigned char *head = t->in.head;
    uint64_t kind = get_u64(head + 4, 4), nbytes = get_u64(head + 16, 8);
    if (get_u64(head, 4) == MARK && kind == KIND_FAILED)
        return take_failure(g, t, nbytes, err);
    if (get_u64(head, 4) != MARK || kind != KIND_DATA ||
        get_u64(head + 8, 8) != g->host[t->host].nin || nbytes != t->in.nbytes)
        return lost(g, t, "is in another call", err);
    return FIRN_OK;
}

static bool would_wait(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static enum firn_status pump_in(struct firn_group *g, struct talk *t,
                                struct firn_error *err)
{
    struct stream *s = &t->in;
    while (!s->over) {
        struct grp_piece rest = rest_of(s);
        if (rest.n == 0) {
            if (s->at == 0)
                FIRN_TRY(check_head(g, t, err));
            step_on(s);
            continue;
        }
        ssize_t n = recv(g->host[t->host].fd, rest.at, rest.n, 0);
        if (n < 0 && would_wait())
            return FIRN_OK;
        if (n <= 0)
            return lost(g, t, "is gone", err);
        s->done += (size_t)n;
        t->moved_s = firn_grp_now_s();
    }
    return FIRN_OK;
}

/* A connection that takes no more may still bring the reason. */
static enum firn_status pump_out(struct firn_group *g, struct talk *t,
                                 struct firn_error *err)
{
    struct stream *s = &t->out;
    while (!s->over) {
        struct grp_piece rest = rest_of(s);
        if (rest.n == 0) {
            step_on(s);
            continue;
        }
        ssize_t n = send(g->host[t->host].fd, rest.at, rest.n, MSG_NOSIGNAL);
        if (n < 0 && would_wait())
            return FIRN_OK;
        if (n < 0 && t->in.at == 0 && t->in.done < HEAD) {
            struct stream reason = t->in;
            t->in.over = false;
            FIRN_TRY(pump_in(g, t, err));
            t->in = reason;
        }
        if (n < 0)
            return lost(g, t, "is gone", err);
        s->done += (size_t)n;
        t->moved_s = firn_grp_now_s();
    }
    return FIRN_OK;
}

/* One wait for all that are not done; how many are not in *nopen. */
static enum firn_status turn(struct firn_group *g, struct talk *talk, size_t n,
                             size_t *nopen, struct pollfd *poller,
                             struct firn_error *err)
{
    *nopen = 0;
    for (size_t i = 0; i < n; i++) {
        struct talk *t = &talk[i];
        int events = (t->in.over ? 0 : POLLIN) | (t->out.over ? 0 : POLLOUT);
        poller[i] =
            (struct pollfd){.fd = events != 0 ? g->host[t->host].fd : -1,
                            .events = (short)events};
        *nopen += events != 0;
    }
    if (*nopen == 0)
        return FIRN_OK;
    if (poll(poller, (nfds_t)n, 50) < 0 && errno != EINTR)
        return firn_grp_fail(g, err, "process %d: %s", g->rank,
                             strerror(errno));
    double now_s = firn_grp_now_s();
    for (size_t i = 0; i < n; i++) {
        if (poller[i].fd < 0)
            continue;
        if (poller[i].revents != 0) {
            if ((poller[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0 &&
                !talk[i].in.over)
                FIRN_TRY(pump_in(g, &talk[i], err));
            if (!talk[i].out.over)
                FIRN_TRY(pump_out(g, &talk[i], err));
        } else if (now_s - talk[i].moved_s > 1.5 * g->timeout_s)
            return lost(g, &talk[i], "was silent for too long", err);
    }
    if (g->watch.is_lost != NULL && g->watch.is_lost(g->watch.arg))
        return firn_grp_fail(g, err, "%s", g->watch.why);
    return firn_grp_sound(g, err);
}

static enum firn_status run(struct firn_group *g, struct talk *talk,
                            struct pollfd *poller, size_t n,
                            struct firn_error *err)
{
    enum firn_status status = FIRN_OK;
    for (size_t nopen = 1; status == FIRN_OK && nopen > 0;)
        status = turn(g, talk, n, &nopen, poller, err);
    for (size_t i = 0; i < n; i++) {
        const struct stream *out = &talk[i].out;
        struct grp_host *host = &g->host[talk[i].host];
        if (!out->over && (out->at > 0 || out->done > 0))
            host->torn = true;
        host->nout += out->npieces > 0;
        host->nin += talk[i].in.npieces > 0;
    }
    return status;
}

enum firn_status firn_grp_exchange(struct firn_group *g,
                                   const struct grp_flow *flow, size_t nflows,
                                   struct firn_error *err)
{
    struct talk *talk = calloc(nflows + 1, sizeof *talk);
    struct pollfd *poller = calloc(nflows + 1, sizeof *poller);
    enum firn_status status;
    if (talk == NULL || poller == NULL) {
        status = firn_grp_fail(g, err, "process %d has no memory", g->rank);
    } else {
        for (size_t i = 0; i < nflows; i++) {
            talk[i] = (struct talk){
                .host = flow[i].host,
                .out = stream_of(flow[i].out, flow[i].nout),
                .in = stream_of(flow[i].in, flow[i].nin),
                .moved_s = firn_grp_now_s(),
            };
            write_head(talk[i].out.head, KIND_DATA, g->host[flow[i].host].nout,
                       talk[i].out.nbytes);
        }
        status = run(g, talk, poller, nflows, err);
    }
    free(talk);
    free(poller);
    return status;
}

int firn_grp_host_of(const struct firn_group *g, int rank)
{
    int h = 0;
    while (h + 1 < g->nhosts && g->host[h + 1].first <= rank)
        h++;
    return h;
}
