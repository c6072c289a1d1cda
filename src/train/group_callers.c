/* group_callers.c - connections to a leader until they are authenticated.
 *
 * Anyone who reaches the port can call. A caller is nothing but a descriptor
 * and a handshake until it has proven the group's key: it has AUTH_S seconds
 * for that, however it spends them, and no caller waits for another. There are
 * at most PENDING callers, and PER_ADDRESS of one address; one more drops the
 * oldest, of its own address where that one is full. A member that is dropped
 * that way calls again (group_tcp.c), and is then the newest.
 *
 * A caller is read as soon as it is accepted, and at most ACCEPTS are accepted
 * before all are read again: a flood of calls cannot push out a member before
 * it was read.
 *
 * Cost: one poll over all callers for each wait.
 */
#include "train/groupwork.h"
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PENDING = 256, PER_ADDRESS = 64, ACCEPTS = 16 };
static const double auth_s = 5;

struct caller {
    int fd;
    double until_s;
    unsigned char address[16]; /* IPv6, or IPv4 in its first four */
    struct grp_shake shake;
};

struct grp_callers {
    int n, nrefused;
    struct caller caller[PENDING]; /* the oldest first */
};

struct grp_callers *firn_grp_callers_new(void)
{
    return calloc(1, sizeof(struct grp_callers));
}

void firn_grp_callers_free(struct grp_callers *callers)
{
    for (int i = 0; callers != NULL && i < callers->n; i++)
        close(callers->caller[i].fd);
    free(callers);
}

int firn_grp_callers_refused(const struct grp_callers *callers)
{
    return callers->nrefused;
}

static void forget(struct grp_callers *all, int i)
{
    all->n--;
    memmove(&all->caller[i], &all->caller[i + 1],
            (size_t)(all->n - i) * sizeof all->caller[0]);
}

static void drop(struct grp_callers *all, int i)
{
    close(all->caller[i].fd);
    all->nrefused++;
    forget(all, i);
}

/* Makes room for one more caller of this address. */
static void make_room(struct grp_callers *all, const unsigned char *address)
{
    int oldest = -1, nsame = 0;
    for (int i = all->n - 1; i >= 0; i--)
        if (memcmp(all->caller[i].address, address, 16) == 0) {
            oldest = i;
            nsame++;
        }
    if (nsame >= PER_ADDRESS)
        drop(all, oldest);
    else if (all->n >= PENDING)
        drop(all, 0);
}

static void read_address(unsigned char out[16],
                         const struct sockaddr_storage *from)
{
    memset(out, 0, 16);
    if (from->ss_family == AF_INET)
        memcpy(out, &((const struct sockaddr_in *)from)->sin_addr, 4);
    else if (from->ss_family == AF_INET6)
        memcpy(out, &((const struct sockaddr_in6 *)from)->sin6_addr, 16);
}

/* Accepts one caller; false: none is waiting. */
static bool take_in(struct grp_callers *all, const struct grp_door *door)
{
    struct sockaddr_storage from = {0};
    socklen_t size = sizeof from;
    unsigned char address[16];
    int fd = accept(door->listener, (struct sockaddr *)&from, &size);
    if (fd < 0) {
        if ((errno == EMFILE || errno == ENFILE) && all->n > 0)
            drop(all, 0); /* a descriptor for the next try */
        if (errno != EAGAIN)
            firn_grp_nap(0.001);
        return false;
    }
    read_address(address, &from);
    make_room(all, address);
    struct caller *c = &all->caller[all->n++];
    c->fd = fd;
    c->until_s = firn_grp_now_s() + auth_s;
    memcpy(c->address, address, sizeof address);
    firn_grp_set_up(fd);
    firn_grp_shake_expect(&c->shake, door->key);
    return true;
}

/* What a step of a handshake leaves to do. */
enum heard { HEARD_WAITS, HEARD_MORE, HEARD_IN, HEARD_OUT };

static enum heard hear_step(struct caller *c, const struct grp_door *door)
{
    struct grp_shake *s = &c->shake;
    unsigned char *at;
    size_t room = firn_grp_shake_room(s, &at);
    ssize_t n = recv(c->fd, at, room, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return HEARD_WAITS;
    if (n <= 0)
        return HEARD_OUT;
    struct shake_out out = firn_grp_shake_take(s, (size_t)n);
    if (s->state == SHAKE_JUDGE)
        out = firn_grp_shake_judge(s, door->judge(door->arg, &s->claim));
    /* A new connection has room for a few hundred bytes. */
    if (out.n > 0 && send(c->fd, out.at, out.n, MSG_NOSIGNAL) != (ssize_t)out.n)
        return HEARD_OUT;
    if (s->state == SHAKE_NO_MEMBER || s->state == SHAKE_REFUSED)
        return HEARD_OUT;
    return s->state == SHAKE_DONE ? HEARD_IN : HEARD_MORE;
}

/* Reads from a caller. True: it was admitted or dropped. */
static bool hear(struct grp_callers *all, int i, const struct grp_door *door)
{
    struct caller *c = &all->caller[i];
    enum heard heard;
    do
        heard = hear_step(c, door);
    while (heard == HEARD_MORE);
    if (heard == HEARD_WAITS)
        return false;
    if (heard == HEARD_OUT) {
        drop(all, i);
        return true;
    }
    struct grp_claim claim = c->shake.claim;
    int fd = c->fd;
    forget(all, i);
    door->let_in(door->arg, &claim, fd);
    return true;
}

void firn_grp_callers_hear(struct grp_callers *callers,
                           const struct grp_door *door, int wait_ms)
{
    struct pollfd p[PENDING + 1] = {{.fd = door->listener, .events = POLLIN}};
    for (int i = 0; i < callers->n; i++)
        p[i + 1] =
            (struct pollfd){.fd = callers->caller[i].fd, .events = POLLIN};
    poll(p, (nfds_t)callers->n + 1, wait_ms);
    double now_s = firn_grp_now_s();
    for (int i = callers->n - 1; i >= 0; i--) /* the newest first */
        if (p[i + 1].revents == 0 || !hear(callers, i, door)) {
            if (now_s > callers->caller[i].until_s)
                drop(callers, i);
        }
    if (p[0].revents == 0)
        return;
    for (int n = 0; n < ACCEPTS && take_in(callers, door); n++)
        (void)hear(callers, callers->n - 1, door);
}
