/* ports.c - ports below those that the system hands out, in pairs.
 *
 * firn's trainers meet on the port above MASTER_PORT, so two are wanted. The
 * promise is an abstract socket with the port in its name: such names are those
 * of one network namespace, as ports are, need no file, and go with whoever has
 * the descriptor. Only those who ask here keep to it.
 *
 * Cost: some system calls for each pair that is tried, PORT_TRIES at most.
 */
#define _GNU_SOURCE
#include "engine/ports.h"
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PORT_FIRST = 10000, PORTS = 20000, PORT_TRIES = 200 };

static bool is_free(int port)
{
    struct sockaddr_in where = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return true;
    bool is_bound = bind(fd, (struct sockaddr *)&where, sizeof where) == 0;
    close(fd);
    return is_bound;
}

/* False: it is promised to somebody. */
static bool promise_port(int port, int *promise)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1,
                     "firn-port-%d", port);
    socklen_t size =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    *promise = fd;
    if (fd < 0 || bind(fd, (struct sockaddr *)&name, size) == 0)
        return true;
    bool is_taken = errno == EADDRINUSE;
    close(fd);
    *promise = -1;
    return !is_taken;
}

int ports_pick(uint64_t seed, int *promise)
{
    *promise = -1;
    for (uint64_t i = 0; i < PORT_TRIES; i++) {
        int port = PORT_FIRST + 2 * (int)((seed + i * 613) % (PORTS / 2));
        if (!promise_port(port, promise))
            continue;
        if (is_free(port) && is_free(port + 1))
            return port;
        if (*promise >= 0)
            close(*promise);
        *promise = -1;
    }
    return PORT_FIRST;
}
