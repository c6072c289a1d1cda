/* httpd.c - a scheduler for tests: gives every POST the prepared answer. */
#include "httpd.h"
#include "base/str.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static void answer_oddly(struct httpd *h, int fd, enum httpd_mode mode)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: "
                               "application/json\r\nContent-Length: "
                               "100000000\r\n\r\n{\"stop\":1,";
    static const char nonsense[] = "\x01\x02 stop stop stop\r\n\r\n";
    if (mode == HTTPD_SILENT) {
        listener_wait(&h->at, -1, 0, -1);
    } else if (mode == HTTPD_NONSENSE) {
        listener_say(&h->at, fd, nonsense, sizeof nonsense - 1);
    } else if (listener_say(&h->at, fd, head, sizeof head - 1) &&
               mode != HTTPD_CUT) {
        while (listener_say(&h->at, fd, "                                ",
                            mode == HTTPD_DRIP ? 1 : 32))
            if (mode == HTTPD_DRIP && !listener_wait(&h->at, -1, 0, 10))
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
        listener_say(&h->at, fd, out, (size_t)n);
    else
        answer_oddly(h, fd, mode);
}

static void serve(struct httpd *h, int fd)
{
    char text[sizeof h->body];
    char *body = listener_hear(&h->at, fd, text, sizeof text);
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
    for (int fd; (fd = listener_accept(&h->at)) >= 0; close(fd))
        serve(h, fd);
    return NULL;
}

void httpd_start(struct httpd *httpd, const char *path)
{
    *httpd = (struct httpd){.mode = HTTPD_ANSWER, .status = 200, .text = "{}"};
    pthread_mutex_init(&httpd->lock, NULL);
    pthread_cond_init(&httpd->news, NULL);
    listener_open(&httpd->at, path);
    assert_int_equal(pthread_create(&httpd->thread, NULL, run, httpd), 0);
}

void httpd_stop(struct httpd *httpd)
{
    listener_stop(&httpd->at);
    pthread_join(httpd->thread, NULL);
    listener_close(&httpd->at);
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

void httpd_place_make(struct httpd_place *place)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(place->dir, sizeof place->dir, "%s/firn-report.XXXXXX",
             tmp != NULL && strlen(tmp) < 40 ? tmp : "/tmp");
    assert_non_null(mkdtemp(place->dir));
    snprintf(place->socket, sizeof place->socket, "%s/s", place->dir);
    snprintf(place->url, sizeof place->url, "unix:%s", place->socket);
}
