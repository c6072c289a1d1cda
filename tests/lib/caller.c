/* caller.c - an HTTP client for tests of a server in the same process.
 */
#include "caller.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE_S = 120 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void settle(struct caller *caller, int fd)
{
    assert_true(fd >= 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    caller->fd = fd;
    caller->n = 0;
    caller->is_closed = false;
    caller->in = calloc(1, caller->cap = 4096);
    assert_non_null(caller->in);
}

void caller_open_path(struct caller *caller, const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    settle(caller, fd);
}

void caller_open_port(struct caller *caller, int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    settle(caller, fd);
}

void caller_close(struct caller *caller)
{
    close(caller->fd);
    free(caller->in);
    caller->in = NULL;
}

static void rest(struct caller *caller, short events)
{
    struct pollfd one = {.fd = caller->fd, .events = events};
    poll(&one, 1, 1);
}

bool caller_send(struct caller *caller, const char *bytes, size_t n)
{
    double until_s = now_s() + PATIENCE_S;
    while (n > 0) {
        assert_true(now_s() < until_s);
        ssize_t done = send(caller->fd, bytes, n, MSG_NOSIGNAL);
        if (done < 0 && errno != EAGAIN)
            return false;
        if (done > 0) {
            bytes += done;
            n -= (size_t)done;
        } else {
            caller->pump(caller->arg);
            rest(caller, POLLOUT);
        }
    }
    return true;
}

void caller_hear(struct caller *caller)
{
    caller->pump(caller->arg);
    for (;;) {
        if (caller->cap - caller->n < 4096) {
            caller->in = realloc(caller->in, caller->cap *= 2);
            assert_non_null(caller->in);
        }
        ssize_t n = recv(caller->fd, caller->in + caller->n,
                         caller->cap - caller->n - 1, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            caller->is_closed = true;
        if (n <= 0)
            return;
        caller->n += (size_t)n;
        caller->in[caller->n] = '\0';
    }
}

void caller_wait(struct caller *caller, size_t n)
{
    double until_s = now_s() + PATIENCE_S;
    for (;;) {
        caller_hear(caller);
        if (caller->n >= n || caller->is_closed)
            return;
        assert_true(now_s() < until_s);
        rest(caller, POLLIN);
    }
}

static const char *head_value(const char *head, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = head; at != NULL; at = strchr(at, '\n')) {
        if (*at == '\n')
            at++;
        if (strncasecmp(at, name, n) == 0 && at[n] == ':')
            return at + n + 1 + strspn(at + n + 1, " ");
    }
    return NULL;
}

/* Bytes of the chunked body at `in`; 0: not whole. Put together in `out`, if
 * that is not NULL. */
static size_t take_chunks(const char *in, const char *end, struct reply *out)
{
    const char *at = in;
    for (;;) {
        const char *line = strstr(at, "\r\n");
        if (line == NULL)
            return 0;
        size_t n = strtoul(at, NULL, 16);
        if (line + 2 + n + 2 > end)
            return 0;
        if (out != NULL) {
            memcpy(out->body + out->nbody, line + 2, n);
            out->nbody += n;
        }
        at = line + 2 + n + 2;
        if (n == 0)
            return (size_t)(at - in);
    }
}

/* Bytes of the body behind a whole head; false: not all are there. */
static bool body_size(const struct caller *caller, size_t nhead,
                      bool *is_chunked, size_t *out)
{
    char *gap = caller->in + nhead - 1, last = *gap;
    *gap = '\0'; /* names of headers are looked for in the head alone */
    const char *length = head_value(caller->in, "Content-Length");
    *gap = last;
    bool is_interim = strncmp(caller->in + 9, "100", 3) == 0;
    *is_chunked = length == NULL && !is_interim;
    *out = length != NULL ? strtoul(length, NULL, 10) : 0;
    if (!*is_chunked)
        return caller->n - nhead >= *out;
    *out = take_chunks(caller->in + nhead, caller->in + caller->n, NULL);
    return *out > 0;
}

/* Takes a whole answer from what was heard; false: there is none yet. */
static bool take(struct caller *caller, struct reply *out)
{
    const char *gap = strstr(caller->in, "\r\n\r\n");
    size_t nhead = gap != NULL ? (size_t)(gap - caller->in) + 4 : 0, nbody;
    bool is_chunked;
    if (gap == NULL || !body_size(caller, nhead, &is_chunked, &nbody))
        return false;
    out->head = calloc(1, nhead + 1);
    out->body = calloc(1, nbody + 1);
    assert_true(out->head != NULL && out->body != NULL);
    memcpy(out->head, caller->in, nhead);
    out->status = (int)strtol(out->head + 9, NULL, 10);
    if (is_chunked) {
        take_chunks(caller->in + nhead, caller->in + caller->n, out);
    } else {
        memcpy(out->body, caller->in + nhead, nbody);
        out->nbody = nbody;
    }
    caller->n -= nhead + nbody;
    memmove(caller->in, caller->in + nhead + nbody, caller->n + 1);
    return true;
}

struct reply caller_reply(struct caller *caller)
{
    struct reply out = {0};
    double until_s = now_s() + PATIENCE_S;
    while (!take(caller, &out)) {
        if (caller->is_closed)
            return (struct reply){0};
        assert_true(now_s() < until_s);
        rest(caller, POLLIN);
        caller_hear(caller);
    }
    return out;
}

struct reply caller_ask(struct caller *caller, const char *method,
                        const char *target, const char *headers,
                        const char *body)
{
    size_t nbody = strlen(body);
    char head[2048];
    int n = snprintf(head, sizeof head,
                     "%s %s HTTP/1.1\r\nHost: firn\r\n"
                     "Content-Length: %zu\r\n%s\r\n",
                     method, target, nbody, headers ? headers : "");
    assert_true(n > 0 && (size_t)n < sizeof head);
    if (!caller_send(caller, head, (size_t)n) ||
        !caller_send(caller, body, nbody))
        caller_hear(caller);
    return caller_reply(caller);
}

void reply_release(struct reply *reply)
{
    free(reply->head);
    free(reply->body);
    *reply = (struct reply){0};
}
