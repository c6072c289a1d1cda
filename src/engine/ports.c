/* ports.c - three ports in a row, bound for the workers of one attempt.
 *
 *   first      MASTER_PORT: for the program, e.g. torch.distributed
 *   first + 1  for firn's trainers (train/group_tcp.c)
 *   first + 2  the same for a co-trained job
 *
 * All are below the system's ephemeral ports. A socket is first bound without
 * options, which fails if another socket has the port, and gets its options
 * afterwards. It never listens, so it gets no connection. The options decide
 * which processes can bind the port while it is held:
 *
 *   SO_REUSEPORT on all: a process of the same user that sets this option too.
 *     The kernel compares the users of the sockets, so no other user can bind
 *     the port, with any option and at any address (Linux,
 *     inet_csk_bind_conflict). firn's trainers set it.
 *   SO_REUSEADDR on `first` alone: any process that sets this option too. The
 *     store of torch.distributed sets this option and not the other one; with
 *     SO_REUSEPORT alone it could not listen. So another user can still take
 *     MASTER_PORT before the program does.
 *
 * Invariants
 *   1. The process that holds the ports and the worker that listens at them
 *      have the same user.
 *   2. Sockets are closed on exec: no worker inherits one.
 *
 * Cost: some system calls for each port that is tried, PORT_TRIES at most.
 */
#define _GNU_SOURCE
#include "engine/ports.h"
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORT_FIRST = 10000, PORTS = 20000, PORT_STEP = 4, PORT_TRIES = 200 };

static int bind_all(int family, int port)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6,
                               .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in four = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)port)};
    bool is_six = family == AF_INET6;
    const struct sockaddr *at =
        is_six ? (const struct sockaddr *)&six : (const struct sockaddr *)&four;
    socklen_t size = is_six ? sizeof six : sizeof four;
    int off = 0, fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (is_six) /* IPv4 as well */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, at, size) == 0)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

/* A bound socket, or -1. A host without IPv6 has IPv4 alone. */
static int hold(int port, bool is_for_all)
{
    int on = 1, fd = bind_all(AF_INET6, port);
    if (fd < 0 && errno != EADDRINUSE)
        fd = bind_all(AF_INET, port);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (is_for_all)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return fd;
}

void ports_release(struct ports *ports)
{
    for (int i = 0; i < PORTS_HELD; i++) {
        if (ports->held[i] >= 0)
            close(ports->held[i]);
        ports->held[i] = -1;
    }
}

void ports_hold_at(struct ports *out, int first)
{
    out->first = first;
    for (int i = 0; i < PORTS_HELD; i++)
        out->held[i] = hold(first + i, i == 0);
}

bool ports_hold(struct ports *out, uint64_t seed)
{
    *out = (struct ports){PORT_FIRST, {-1, -1, -1}};
    for (uint64_t i = 0; i < PORT_TRIES; i++) {
        uint64_t place = (seed + i * 613) % (PORTS / PORT_STEP);
        out->first = PORT_FIRST + PORT_STEP * (int)place;
        int n = 0;
        while (n < PORTS_HELD) {
            out->held[n] = hold(out->first + n, n == 0);
            if (out->held[n] < 0)
                break;
            n++;
        }
        if (n == PORTS_HELD)
            return true;
        ports_release(out);
    }
    out->first = PORT_FIRST;
    return false;
}
