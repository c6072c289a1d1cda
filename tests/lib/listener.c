/* listener.c - the socket of a server in a test, and a way to end it. */
#include "lib/listener.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static bool listen_port(struct listener *l)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t n = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    l->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(l->fd, (struct sockaddr *)&at, sizeof at) != 0 ||
        getsockname(l->fd, (struct sockaddr *)&at, &n) != 0)
        return false;
    l->port = ntohs(at.sin_port);
    return listen(l->fd, 8) == 0;
}

static bool listen_path(struct listener *l, const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    snprintf(l->path, sizeof l->path, "%s", path);
    l->fd = socket(AF_UNIX, SOCK_STREAM, 0);
    unlink(path);
    return bind(l->fd, (struct sockaddr *)&at, sizeof at) == 0 &&
           listen(l->fd, 8) == 0;
}

void listener_open(struct listener *l, const char *path)
{
    *l = (struct listener){0};
    assert_int_equal(pipe(l->stop), 0);
    assert_true(path != NULL ? listen_path(l, path) : listen_port(l));
    fcntl(l->fd, F_SETFD, FD_CLOEXEC);
    fcntl(l->stop[0], F_SETFD, FD_CLOEXEC);
    fcntl(l->stop[1], F_SETFD, FD_CLOEXEC);
}

void listener_stop(const struct listener *l)
{
    assert_int_equal(write(l->stop[1], "x", 1), 1);
}

void listener_close(struct listener *l)
{
    close(l->fd);
    close(l->stop[0]);
    close(l->stop[1]);
    if (l->path[0] != '\0')
        unlink(l->path);
}

bool listener_wait(const struct listener *l, int fd, short events,
                   int timeout_ms)
{
    struct pollfd fds[2] = {{.fd = l->stop[0], .events = POLLIN},
                            {.fd = fd, .events = events}};
    while (poll(fds, fd >= 0 ? 2 : 1, timeout_ms) < 0 && errno == EINTR)
        ;
    return fds[0].revents == 0;
}

int listener_accept(const struct listener *l)
{
    int fd = -1;
    while (fd < 0 && listener_wait(l, l->fd, POLLIN, -1))
        fd = accept(l->fd, NULL, NULL);
    return fd;
}

bool listener_say(const struct listener *l, int fd, const char *text, size_t n)
{
    while (n > 0) {
        if (!listener_wait(l, fd, POLLOUT, -1))
            return false;
        ssize_t sent = send(fd, text, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (sent > 0) {
            text += sent;
            n -= (size_t)sent;
        }
    }
    return true;
}

char *listener_hear(const struct listener *l, int fd, char *text, size_t max)
{
    size_t n = 0;
    for (;;) {
        text[n] = '\0';
        char *end = strstr(text, "\r\n\r\n");
        char *length = strstr(text, "Content-Length: ");
        size_t want = length != NULL ? strtoul(length + 16, NULL, 10) : 0;
        if (end != NULL && strlen(end + 4) >= want)
            return end + 4;
        if (n + 1 >= max || !listener_wait(l, fd, POLLIN, -1))
            return NULL;
        ssize_t got = recv(fd, text + n, max - 1 - n, 0);
        if (got <= 0)
            return NULL;
        n += (size_t)got;
    }
}
