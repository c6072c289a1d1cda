/* httpd.c - a scheduler for tests: answers every POST as it was told to. */
#include "httpd.h"
#include "base/str.h"
#include <arpa/inet.h>
#include <errno.h>
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
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* Waits for bytes, room or the end. False: it is to stop. */
static bool wait_for(struct httpd *h, int fd, short events, int timeout_ms)
{
    struct pollfd fds[2] = {{.fd = h->stop[0], .events = POLLIN},
                            {.fd = fd, .events = events}};
    while (poll(fds, fd >= 0 ? 2 : 1, timeout_ms) < 0 && errno == EINTR)
        ;
    return fds[0].revents == 0;
}

static bool say(struct httpd *h, int fd, const char *text, size_t n)
{
    while (n > 0) {
        if (!wait_for(h, fd, POLLOUT, -1))
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

/* The whole request into `text`; where its body starts, or NULL. */
static char *hear(struct httpd *h, int fd, char *text, size_t max)
{
    size_t n = 0;
    for (;;) {
        text[n] = '\0';
        char *end = strstr(text, "\r\n\r\n");
        char *length = strstr(text, "Content-Length: ");
        if (end != NULL && length != NULL &&
            strlen(end + 4) >= strtoul(length + 16, NULL, 10))
            return end + 4;
        if (n + 1 >= max || !wait_for(h, fd, POLLIN, -1))
            return NULL;
        ssize_t got = recv(fd, text + n, max - 1 - n, 0);
        if (got <= 0)
            return NULL;
        n += (size_t)got;
    }
}

static void answer_oddly(struct httpd *h, int fd, enum httpd_mode mode)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: "
                               "application/json\r\nContent-Length: "
                               "100000000\r\n\r\n{\"stop\":1,";
    static const char nonsense[] = "\x01\x02 stop stop stop\r\n\r\n";
    if (mode == HTTPD_SILENT) {
        wait_for(h, -1, 0, -1);
    } else if (mode == HTTPD_NONSENSE) {
        say(h, fd, nonsense, sizeof nonsense - 1);
    } else if (say(h, fd, head, sizeof head - 1) && mode != HTTPD_CUT) {
        while (say(h, fd, "                                ",
                   mode == HTTPD_DRIP ? 1 : 32))
            if (mode == HTTPD_DRIP && !wait_for(h, -1, 0, 10))
                break;
    }
}

static void answer(struct httpd *h, int fd)
{
    char out[1024];
    pthread_mutex_lock(&h->lock);
    enum httpd_mode mode = h->mode;
    int n = snprintf(out, sizeof out,
                     "HTTP/1.1 %d Told so\r\nContent-Length: %zu\r\n"
                     "Connection: close\r\n\r\n%s",
                     h->status, strlen(h->text), h->text);
    pthread_mutex_unlock(&h->lock);
    if (mode == HTTPD_ANSWER)
        say(h, fd, out, (size_t)n);
    else
        answer_oddly(h, fd, mode);
}

static void serve(struct httpd *h, int fd)
{
    char text[sizeof h->body];
    char *body = hear(h, fd, text, sizeof text);
    if (body == NULL)
        return;
    pthread_mutex_lock(&h->lock);
    str_copy(h->body, sizeof h->body, body);
    body[-1] = '\0';
    str_copy(h->head, sizeof h->head, text);
    pthread_mutex_unlock(&h->lock);
    answer(h, fd);
    pthread_mutex_lock(&h->lock);
    h->nrequests++;
    pthread_cond_broadcast(&h->news);
    pthread_mutex_unlock(&h->lock);
}

static void *run(void *arg)
{
    struct httpd *h = arg;
    while (wait_for(h, h->listener, POLLIN, -1)) {
        int fd = accept(h->listener, NULL, NULL);
        if (fd < 0)
            continue;
        serve(h, fd);
        close(fd);
    }
    return NULL;
}

static bool listen_port(struct httpd *h)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t n = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    h->listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(h->listener, (struct sockaddr *)&at, sizeof at) != 0 ||
        getsockname(h->listener, (struct sockaddr *)&at, &n) != 0)
        return false;
    h->port = ntohs(at.sin_port);
    return listen(h->listener, 8) == 0;
}

static bool listen_path(struct httpd *h, const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    snprintf(h->path, sizeof h->path, "%s", path);
    h->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    unlink(path);
    return bind(h->listener, (struct sockaddr *)&at, sizeof at) == 0 &&
           listen(h->listener, 8) == 0;
}

void httpd_start(struct httpd *httpd, const char *path)
{
    *httpd = (struct httpd){.mode = HTTPD_ANSWER, .status = 200, .text = "{}"};
    pthread_mutex_init(&httpd->lock, NULL);
    pthread_cond_init(&httpd->news, NULL);
    assert_int_equal(pipe(httpd->stop), 0);
    assert_true(path != NULL ? listen_path(httpd, path) : listen_port(httpd));
    assert_int_equal(pthread_create(&httpd->thread, NULL, run, httpd), 0);
}

void httpd_stop(struct httpd *httpd)
{
    assert_int_equal(write(httpd->stop[1], "x", 1), 1);
    pthread_join(httpd->thread, NULL);
    close(httpd->listener);
    close(httpd->stop[0]);
    close(httpd->stop[1]);
    if (httpd->path[0] != '\0')
        unlink(httpd->path);
    pthread_mutex_destroy(&httpd->lock);
    pthread_cond_destroy(&httpd->news);
}

void httpd_tell(struct httpd *httpd, enum httpd_mode mode, int status,
                const char *text)
{
    pthread_mutex_lock(&httpd->lock);
    httpd->mode = mode;
    httpd->status = status;
    snprintf(httpd->text, sizeof httpd->text, "%s", text);
    pthread_mutex_unlock(&httpd->lock);
}

bool httpd_wait(struct httpd *httpd, int nrequests, double timeout_s)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)timeout_s + 1;
    pthread_mutex_lock(&httpd->lock);
    while (httpd->nrequests < nrequests &&
           pthread_cond_timedwait(&httpd->news, &httpd->lock, &until) == 0)
        ;
    bool there = httpd->nrequests >= nrequests;
    pthread_mutex_unlock(&httpd->lock);
    return there;
}

void httpd_last(struct httpd *httpd, char head[2048], char body[8192])
{
    pthread_mutex_lock(&httpd->lock);
    memcpy(head, httpd->head, sizeof httpd->head);
    memcpy(body, httpd->body, sizeof httpd->body);
    pthread_mutex_unlock(&httpd->lock);
}
