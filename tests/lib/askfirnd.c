/* askfirnd.c - a question to firnd by its socket, which may die meanwhile.
 */
#define _GNU_SOURCE
#include "lib/askfirnd.h"
#include "base/clock.h"
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static enum askfirnd_end last_end;

enum askfirnd_end askfirnd_end(void)
{
    return last_end;
}

static int dial(const char *path)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    snprintf(where.sun_path, sizeof where.sun_path, "%.100s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&where, sizeof where) == 0)
        return fd;
    close(fd);
    return -1;
}

static int ask(const char *path, const char *request, double until_s,
               char reply[ASKFIRND_TEXT])
{
    size_t n = 0;
    int fd = dial(path), status = 0;
    bool is_whole = false;
    reply[0] = '\0';
    last_end = ASKFIRND_UNSENT;
    if (fd < 0)
        return 0;
    last_end = ASKFIRND_CUT;
    if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
        until_s = 0;
    while (!is_whole && n < ASKFIRND_TEXT - 1) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        double left_s = until_s - clock_elapsed_s();
        if (left_s <= 0 || poll(&p, 1, (int)(left_s * 1000) + 1) <= 0) {
            last_end = ASKFIRND_LATE;
            break;
        }
        ssize_t got = recv(fd, reply + n, ASKFIRND_TEXT - 1 - n, 0);
        if (got < 0)
            break;
        is_whole = got == 0;
        n += (size_t)got;
    }
    close(fd);
    reply[n] = '\0';
    if (is_whole && strncmp(reply, "HTTP/1.1 ", 9) == 0)
        status = (int)strtol(reply + 9, NULL, 10);
    if (status != 0)
        last_end = ASKFIRND_ANSWERED;
    return status;
}

int askfirnd_get(const char *socket, const char *target, double until_s,
                 char reply[ASKFIRND_TEXT])
{
    char text[300];
    snprintf(
        text, sizeof text,
        "GET /v1%.200s HTTP/1.1\r\nHost: firn\r\nConnection: close\r\n\r\n",
        target);
    return ask(socket, text, until_s, reply);
}

int askfirnd_submit(const char *socket, const char *key, const char *job,
                    double until_s, char reply[ASKFIRND_TEXT])
{
    char text[2 * ASKFIRND_TEXT];
    snprintf(text, sizeof text,
             "POST /v1/jobs HTTP/1.1\r\nHost: firn\r\nConnection: close\r\n"
             "Content-Type: application/yaml\r\nIdempotency-Key: %.60s\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             key, strlen(job), job);
    return ask(socket, text, until_s, reply);
}

int askfirnd_send(const char *socket, const char *method, const char *target,
                  const char *body, double until_s, char reply[ASKFIRND_TEXT])
{
    char text[ASKFIRND_TEXT];
    snprintf(text, sizeof text,
             "%.8s /v1%.200s HTTP/1.1\r\nHost: firn\r\nConnection: close\r\n"
             "Content-Type: application/json\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             method, target, strlen(body), body);
    return ask(socket, text, until_s, reply);
}
