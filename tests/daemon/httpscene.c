/* httpscene.c - an HTTP server and its handler, for tests. */
#include "httpscene.h"
#include "daemon/http_sock.h"
#include "lib/folder.h"
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

const char http_token[] = "an-operator-token-of-27-bytes";
const char http_job_token[] = "the-token-of-job-seven";

struct http_scene http_scene;
double http_scene_timeout_s = 100;
double http_scene_unknown_s;
int http_scene_places;

void http_scene_say(struct http_exchange *ex, const char *text)
{
    http_answer(ex, 200, "text/plain", (struct firn_bytes){text, strlen(text)});
}

static void gone(void *arg)
{
    struct http_scene *s = arg;
    s->ngone++;
    s->stream = NULL;
}

static void more(void *arg)
{
    static const char block[10000];
    struct http_scene *s = arg;
    if (s->nmore == 0) {
        http_stream_end(s->stream);
        return;
    }
    s->nmore--;
    assert_true(
        http_stream_write(s->stream, (struct firn_bytes){block, sizeof block}));
}

void http_scene_handle(void *arg, struct http_exchange *ex,
                       const struct http_request *request)
{
    struct http_scene *s = arg;
    char text[200];
    s->ncalls++;
    if (strcmp(request->path, "/echo") == 0) {
        http_answer(ex, 200, "text/plain", request->body);
    } else if (strcmp(request->path, "/later") == 0) {
        s->kept = ex;
    } else if (strcmp(request->path, "/stream") == 0) {
        s->stream = ex;
        http_stream(ex, "text/event-stream", gone, s);
        if (s->nmore > 0)
            http_stream_more(ex, more);
    } else if (strcmp(request->path, "/who") == 0) {
        snprintf(text, sizeof text, "%d %d %s",
                 request->caller.role == ACCESS_OPERATOR, request->caller.job,
                 request->caller.user);
        http_scene_say(ex, text);
    } else if (strcmp(request->path, "/query") == 0) {
        const char *q = http_query(ex, "q"), *h = http_header(ex, "X-Word");
        http_set_header(ex, "X-Back", "one\r\nX-Evil: two");
        snprintf(text, sizeof text, "%s|%s", q ? q : "-", h ? h : "-");
        http_scene_say(ex, text);
    } else {
        http_fail(ex, FIRN_ENOENT, "there is no \"such\"\nthing");
    }
}

static int job_of_token(void *arg, const char *token)
{
    (void)arg;
    return sock_same_secret(token, http_job_token) ? 7 : -1;
}

static void turned_away(void *arg, enum http_refusal why,
                        const struct http_caller *peer)
{
    struct http_scene *s = arg;
    (void)peer;
    s->nturned_away[why]++;
}

double http_scene_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A turn of a loop that runs the server when http.h says so, and only then. */
static void pump(void *arg)
{
    struct http_scene *s = arg;
    int wait_ms;
    if (s->http == NULL)
        return;
    struct pollfd one = {.fd = http_fd(s->http, &wait_ms), .events = POLLIN};
    if (poll(&one, 1, 0) == 0 && wait_ms != 0 &&
        (wait_ms < 0 || http_scene_now_s() < s->ran_s + 1e-3 * wait_ms))
        return;
    s->ran_s = http_scene_now_s();
    http_run(s->http);
}

struct http_config http_scene_config(void)
{
    return (struct http_config){.socket = http_scene.path,
                                .token = http_token,
                                .job_of_token = job_of_token,
                                .handle = http_scene_handle,
                                .turned_away = turned_away,
                                .arg = &http_scene};
}

int http_scene_start(void **state)
{
    memset(&http_scene, 0, sizeof http_scene);
    if (folder_make(state) != 0)
        return 1;
    snprintf(http_scene.path, sizeof http_scene.path, "%s/s", folder_path());
    struct http_config c = http_scene_config();
    c.address = "127.0.0.1:0";
    c.body_max = 100000;
    c.timeout_s = http_scene_timeout_s;
    c.unknown_s = http_scene_unknown_s;
    c.places = http_scene_places;
    struct firn_error err;
    return http_open(&http_scene.http, &c, &err) != FIRN_OK;
}

int http_scene_stop(void **state)
{
    http_close(http_scene.http);
    http_scene.http = NULL;
    return folder_remove(state);
}

struct caller http_dial(void)
{
    struct caller caller = {.pump = pump, .arg = &http_scene};
    caller_open_path(&caller, http_scene.path);
    return caller;
}

struct caller http_dial_port(void)
{
    struct caller caller = {.pump = pump, .arg = &http_scene};
    caller_open_port(&caller, http_port(http_scene.http));
    return caller;
}

void http_expect(struct reply reply, int status, const char *body)
{
    assert_int_equal(reply.status, status);
    if (body != NULL)
        assert_string_equal(reply.body, body);
    reply_release(&reply);
}

void http_scene_turns(int times)
{
    for (int i = 0; i < times; i++)
        pump(&http_scene);
}
