/* group_sock.c - TCP sockets of a group: listening, calling, whole messages.
 *
 * All sockets are non-blocking and closed on exec. A leader under the scheduler
 * listens at a port that the scheduler holds for its user (engine/ports.c):
 * such a port can be bound with SO_REUSEPORT by that user and by no other. That
 * option is used only where the port cannot be bound without it, so that two
 * groups which were given the same port do not share it unnoticed.
 */
#define _DEFAULT_SOURCE /* SO_REUSEPORT */
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

void firn_grp_set_up(int fd)
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

/* A listening socket, or -1 with errno. */
static int listen_on(const struct addrinfo *a, bool shares_port)
{
    int on = 1, fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (shares_port)
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

int firn_grp_listen(const char *address, int port)
{
    int fd = -1, why = EADDRNOTAVAIL;
    struct addrinfo *list = look_up(address, port, true);
    for (struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next) {
        fd = listen_on(a, false);
        if (fd < 0 && errno == EADDRINUSE) /* held for this user? */
            fd = listen_on(a, true);
        if (fd < 0)
            why = errno;
    }
    if (list != NULL)
        freeaddrinfo(list);
    if (fd < 0 && address != NULL && why == EADDRNOTAVAIL)
        return firn_grp_listen(NULL, port);
    if (fd >= 0)
        firn_grp_set_up(fd);
    errno = why;
    return fd;
}

int firn_grp_end_of(int fd, bool peer, char address[GRP_ADDRESS])
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

bool firn_grp_wait_on(int fd, short events, double until_s)
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
    firn_grp_set_up(fd);
    int code = connect(fd, a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
    if (code == EINPROGRESS && firn_grp_wait_on(fd, POLLOUT, until_s)) {
        socklen_t n = sizeof code;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &n) != 0)
            code = errno;
    }
    if (code == 0)
        return fd;
    close(fd);
    return -1;
}

int firn_grp_call(const char *address, int port, double until_s)
{
    struct addrinfo *list = look_up(address, port, false);
    int fd = -1;
    for (struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next)
        fd = call_one(a, until_s);
    if (list != NULL)
        freeaddrinfo(list);
    return fd;
}

bool firn_grp_send_all(int fd, const void *bytes, size_t n, double until_s)
{
    const char *at = bytes;
    while (n > 0) {
        ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);
        if (sent > 0) {
            at += sent;
            n -= (size_t)sent;
        } else if ((errno != EAGAIN && errno != EINTR) ||
                   !firn_grp_wait_on(fd, POLLOUT, until_s)) {
            return false;
        }
    }
    return true;
}

bool firn_grp_read_all(int fd, void *bytes, size_t n, double until_s)
{
    char *at = bytes;
    while (n > 0) {
        ssize_t got = recv(fd, at, n, 0);
        if (got > 0) {
            at += got;
            n -= (size_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR) ||
                   !firn_grp_wait_on(fd, POLLIN, until_s)) {
            return false;
        }
    }
    return true;
}
