/* launcher.c - a request to the launcher: connect, send, receive.
 *
 * A connection has one request and one answer, each one packet.
 */
#define _GNU_SOURCE
#include "engine/launcher.h"
#include "base/buf.h"
#include "base/str.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static int dial(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct timeval patience = {.tv_sec = 10};
    if (!str_copy(at.sun_path, sizeof at.sun_path, path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 &&
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) ==
            0 &&
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) ==
            0 &&
        connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
        return fd;
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return -1;
}

enum firn_status launcher_ask(const char *socket, const struct launchmsg *msg,
                              long *number, struct firn_error *err)
{
    char answer[512];
    struct firn_buf line = {0};
    ssize_t n = -1;
    int fd = dial(socket);
    launchmsg_write(msg, &line);
    if (fd >= 0 && send(fd, line.at, line.n, MSG_NOSIGNAL) == (ssize_t)line.n)
        n = recv(fd, answer, sizeof answer - 1, 0);
    int error = n == 0 ? ECONNRESET : errno;
    buf_release(&line);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return firn_fail(err, FIRN_EIO,
                         "the launcher at '%.120s' does not answer: %s; is "
                         "firn-launch running?",
                         socket, strerror(error));
    answer[n] = '\0';
    answer[strcspn(answer, "\n")] = '\0';
    if (strncmp(answer, "ok ", 3) != 0)
        return firn_fail(err, FIRN_EREFUSED, "launcher: %.300s",
                         strncmp(answer, "no ", 3) == 0 ? answer + 3 : answer);
    *number = strtol(answer + 3, NULL, 10);
    return FIRN_OK;
}
