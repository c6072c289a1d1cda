/* test_http.c - the HTTP server: real sockets, clients that are good, slow,
 * rude or wrong, and a handler that answers now, later or bit by bit.
 *
 * Server and clients share the process: a client's wait is the server's turn.
 */
#include "daemon/http.h"
#include "daemon/http_sock.h"
#include "lib/caller.h"
#include "lib/folder.h"
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const char operator_token[] = "an-operator-token-of-27-bytes";
static const char job_token[] = "the-token-of-job-seven";

struct scene {
    struct http *http;
    char path[300];
    struct http_exchange *kept, *stream;
    int ncalls, ngone;
    double ran_s;
    size_t nmore; /* blocks that `more` has still to write */
};

static struct scene scene;

static void say(struct http_exchange *ex, const char *text)
{
    http_answer(ex, 200, "text/plain", (struct firn_bytes){text, strlen(text)});
}

static void gone(void *arg)
{
    struct scene *s = arg;
    s->ngone++;
    s->stream = NULL;
}

static void more(void *arg)
{
    static const char block[10000];
    struct scene *s = arg;
    if (s->nmore == 0) {
        http_stream_end(s->stream);
        return;
    }
    s->nmore--;
    assert_true(
        http_stream_write(s->stream, (struct firn_bytes){block, sizeof block}));
}

static void handle(void *arg, struct http_exchange *ex,
                   const struct http_request *request)
{
    struct scene *s = arg;
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
        snprintf(text, sizeof text, "%d %d %s", request->caller.is_operator,
                 request->caller.job, request->caller.user);
        say(ex, text);
    } else if (strcmp(request->path, "/query") == 0) {
        const char *q = http_query(ex, "q"), *h = http_header(ex, "X-Word");
        http_set_header(ex, "X-Back", "one\r\nX-Evil: two");
        snprintf(text, sizeof text, "%s|%s", q ? q : "-", h ? h : "-");
        say(ex, text);
    } else {
        http_fail(ex, FIRN_ENOENT, "there is no \"such\"\nthing");
    }
}

static int job_of_token(void *arg, const char *token)
{
    (void)arg;
    return sock_same_secret(token, job_token) ? 7 : -1;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A turn of a loop that runs the server when http.h says so, and only then. */
static void pump(void *arg)
{
    struct scene *s = arg;
    int wait_ms;
    if (s->http == NULL)
        return;
    struct pollfd one = {.fd = http_fd(s->http, &wait_ms), .events = POLLIN};
    if (poll(&one, 1, 0) == 0 && wait_ms != 0 &&
        (wait_ms < 0 || now_s() < s->ran_s + 1e-3 * wait_ms))
        return;
    s->ran_s = now_s();
    http_run(s->http);
}

static struct http_config config(void)
{
    return (struct http_config){.socket = scene.path,
                                .token = operator_token,
                                .job_of_token = job_of_token,
                                .handle = handle,
                                .arg = &scene};
}

static int start(void **state)
{
    memset(&scene, 0, sizeof scene);
    if (folder_make(state) != 0)
        return 1;
    snprintf(scene.path, sizeof scene.path, "%s/s", folder_path());
    struct http_config c = config();
    c.address = "127.0.0.1:0";
    c.body_max = 100000;
    c.timeout_s = 0.3;
    struct firn_error err;
    return http_open(&scene.http, &c, &err) != FIRN_OK;
}

static int stop(void **state)
{
    http_close(scene.http);
    scene.http = NULL;
    return folder_remove(state);
}

static struct caller dial(void)
{
    struct caller caller = {.pump = pump, .arg = &scene};
    caller_open_path(&caller, scene.path);
    return caller;
}

static struct caller dial_port(void)
{
    struct caller caller = {.pump = pump, .arg = &scene};
    caller_open_port(&caller, http_port(scene.http));
    return caller;
}

static void expect(struct reply reply, int status, const char *body)
{
    assert_int_equal(reply.status, status);
    if (body != NULL)
        assert_string_equal(reply.body, body);
    reply_release(&reply);
}

static void turn(int times)
{
    for (int i = 0; i < times; i++)
        pump(&scene);
}

/* --- cases ------------------------------------------------------------- */

static void a_body_comes_back_on_a_kept_connection(void **state)
{
    (void)state;
    struct caller c = dial();
    expect(caller_ask(&c, "POST", "/echo", NULL, "hello"), 200, "hello");
    expect(caller_ask(&c, "POST", "/echo", NULL, ""), 200, "");
    expect(caller_ask(&c, "POST", "/echo", NULL, "again"), 200, "again");
    assert_int_equal(scene.ncalls, 3);
    caller_close(&c);
}

static void a_failure_is_json_with_code_and_escaped_text(void **state)
{
    (void)state;
    struct caller c = dial();
    expect(caller_ask(&c, "GET", "/nothing", NULL, ""), 404,
           "{\"error\": {\"code\": \"not-found\", \"text\": "
           "\"there is no \\\"such\\\"\\nthing\"}}\n");
    caller_close(&c);
}

static void parameters_are_decoded_and_headers_cannot_be_split(void **state)
{
    (void)state;
    struct caller c = dial();
    struct reply r = caller_ask(&c, "GET", "/query?q=a%20b%2f%41&z=1",
                                "X-Word: w w\r\n", "");
    assert_string_equal(r.body, "a b/A|w w");
    assert_non_null(strstr(r.head, "X-Back: oneX-Evil: two\r\n"));
    assert_null(strstr(r.head, "\nX-Evil"));
    assert_non_null(strstr(r.head, "X-Content-Type-Options: nosniff\r\n"));
    reply_release(&r);
    /* A NUL cannot end a text early. */
    expect(caller_ask(&c, "GET", "/query?q=a%00b%zz%", NULL, ""), 200,
           "a%00b%zz%|-");
    expect(caller_ask(&c, "GET", "/who%00", NULL, ""), 404, NULL);
    caller_close(&c);
}

static void paths_with_dots_or_control_characters_are_refused(void **state)
{
    (void)state;
    const char *bad[] = {"/a/../b", "/..",    "/a/..",        "/a/./b",
                         "/%2e%2e", "/a%0ab", "/a%7fb",       "/%1b[0m",
                         "/a/%2e.", "/.",     "/a/%2e%2e/who"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct caller c = dial();
        expect(caller_ask(&c, "GET", bad[i], NULL, ""), 400, NULL);
        caller_close(&c);
    }
    assert_int_equal(scene.ncalls, 0);
    struct caller c = dial();
    expect(caller_ask(&c, "GET", "/a..b/.c/..d", NULL, ""), 404, NULL);
    assert_int_equal(scene.ncalls, 1); /* those are only names */
    caller_close(&c);
}

static void an_answer_may_come_later(void **state)
{
    (void)state;
    struct caller a = dial(), b = dial();
    const char ask[] = "GET /later HTTP/1.1\r\nHost: x\r\n\r\n";
    caller_send(&a, ask, sizeof ask - 1);
    while (scene.kept == NULL)
        turn(1);
    turn(20);
    caller_hear(&a);
    assert_int_equal(a.n, 0);
    /* Others are served meanwhile. */
    expect(caller_ask(&b, "POST", "/echo", NULL, "me"), 200, "me");
    int wait_ms;
    say(scene.kept, "at last");
    http_fd(scene.http, &wait_ms);
    assert_int_equal(wait_ms, 0); /* there is something to do at once */
    expect(caller_reply(&a), 200, "at last");
    expect(caller_ask(&a, "POST", "/echo", NULL, "on"), 200, "on");
    caller_close(&a);
    caller_close(&b);
}

static void an_answer_to_a_client_that_left_harms_nobody(void **state)
{
    (void)state;
    struct caller a = dial();
    const char ask[] = "GET /later HTTP/1.1\r\nHost: x\r\n\r\n";
    caller_send(&a, ask, sizeof ask - 1);
    while (scene.kept == NULL)
        turn(1);
    caller_close(&a);
    turn(20);
    say(scene.kept, "to nobody");
    turn(20);
    struct caller b = dial();
    expect(caller_ask(&b, "POST", "/echo", NULL, "me"), 200, "me");
    caller_close(&b);
}

static void requests_in_one_packet_are_answered_in_order(void **state)
{
    (void)state;
    struct caller c = dial();
    const char ask[] =
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\none"
        "GET /later HTTP/1.1\r\nHost: x\r\n\r\n"
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nthree";
    caller_send(&c, ask, sizeof ask - 1);
    expect(caller_reply(&c), 200, "one");
    while (scene.kept == NULL)
        turn(1);
    turn(10);
    assert_int_equal(scene.ncalls, 2);
    say(scene.kept, "two");
    expect(caller_reply(&c), 200, "two");
    expect(caller_reply(&c), 200, "three");
    caller_close(&c);
}

static void a_body_over_the_limit_is_refused(void **state)
{
    (void)state;
    char *big = calloc(1, 100002);
    memset(big, 'x', 100001);
    struct caller c = dial();
    expect(caller_ask(&c, "POST", "/echo", NULL, big), 413, NULL);
    assert_int_equal(scene.ncalls, 0);
    caller_close(&c);
    big[100000] = '\0';
    c = dial();
    struct reply r = caller_ask(&c, "POST", "/echo", NULL, big);
    assert_int_equal(r.status, 200);
    assert_int_equal(r.nbody, 100000);
    reply_release(&r);
    caller_close(&c);
    free(big);
}

static void a_chunked_body_over_the_limit_is_refused(void **state)
{
    (void)state;
    static char chunk[5 + 0x4000 + 2];
    struct caller c = dial();
    const char head[] = "POST /echo HTTP/1.1\r\nHost: x\r\n"
                        "Transfer-Encoding: chunked\r\n\r\n";
    memcpy(chunk, "4000\r\n", 6);
    memset(chunk + 6, 'y', sizeof chunk - 6);
    memcpy(chunk + sizeof chunk - 2, "\r\n", 2);
    caller_send(&c, head, sizeof head - 1);
    for (int i = 0; i < 8; i++) {
        caller_send(&c, "4000\r\n", 6);
        caller_send(&c, chunk + 6, 0x4000 - 1);
        caller_send(&c, "z\r\n", 3);
        turn(3);
    }
    caller_send(&c, "0\r\n\r\n", 5);
    expect(caller_reply(&c), 413, NULL);
    assert_int_equal(scene.ncalls, 0);
    caller_close(&c);
}

static void garbage_is_refused_or_hung_up_on(void **state)
{
    (void)state;
    const char *garbage[] = {
        "\r\n\x01\x02\x03 nonsense\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET /who HTTP/1.1\r\nContent-Length: -5\r\nHost: x\r\n\r\n",
        "GET /who HTTP/1.1\r\nContent-Length: 1e99\r\nHost: x\r\n\r\n",
        "GET /who HTTP/1.1\r\nno colon here\r\nHost: x\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        struct caller c = dial();
        caller_send(&c, garbage[i], strlen(garbage[i]));
        struct reply r = caller_reply(&c);
        assert_true(r.status == 0 || r.status >= 400);
        reply_release(&r);
        caller_close(&c);
    }
    assert_int_equal(scene.ncalls, 0);
}

static void a_head_without_end_is_refused(void **state)
{
    (void)state;
    static char line[1000];
    memset(line, 'h', sizeof line);
    memcpy(line, "X-A: ", 5);
    memcpy(line + sizeof line - 2, "\r\n", 2);
    struct caller c = dial();
    const char head[] = "GET /who HTTP/1.1\r\nHost: x\r\n";
    caller_send(&c, head, sizeof head - 1);
    for (int i = 0; i < 40 && caller_send(&c, line, sizeof line); i++)
        turn(1);
    struct reply r = caller_reply(&c);
    assert_true(r.status == 0 || r.status == 431 || r.status == 413);
    reply_release(&r);
    caller_close(&c);
    assert_int_equal(scene.ncalls, 0);
}

static void a_client_that_dribbles_is_dropped(void **state)
{
    (void)state;
    struct caller c = dial();
    const char head[] = "GET /who HTTP/1.1\r\nX-Slow: ";
    double start_s = now_s();
    caller_send(&c, head, sizeof head - 1);
    while (!c.is_closed && now_s() < start_s + 4) {
        struct timespec nap = {.tv_nsec = 20000000};
        caller_send(&c, "s", 1);
        caller_hear(&c);
        nanosleep(&nap, NULL);
    }
    assert_true(c.is_closed);
    assert_true(now_s() - start_s >= 0.25);
    caller_close(&c);
}

static void the_socket_tells_who_calls(void **state)
{
    (void)state;
    struct caller c = dial();
    struct reply r = caller_ask(&c, "GET", "/who", NULL, "");
    assert_int_equal(r.status, 200);
    assert_int_equal(strncmp(r.body, "1 -1 ", 5), 0);
    assert_true(strlen(r.body) > 5);
    reply_release(&r);
    char header[200];
    snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", job_token);
    /* A job is that job even on the operator's socket. */
    expect(caller_ask(&c, "GET", "/who", header, ""), 200, "0 7 job 7");
    caller_close(&c);
}

static void a_port_wants_a_token(void **state)
{
    (void)state;
    char good[200], job[200];
    snprintf(good, sizeof good, "Authorization: bearer %s\r\n", operator_token);
    snprintf(job, sizeof job, "Authorization: Bearer %s\r\n", job_token);
    const char *bad[] = {NULL,
                         "Authorization: Bearer wrong\r\n",
                         "Authorization: Bearer \r\n",
                         "Authorization: Basic YTpi\r\n",
                         "Authorization: an-operator-token-of-27-bytes\r\n",
                         "Authorization: Bearer an-operator-token-of-27-byte"
                         "\r\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct caller c = dial_port();
        struct reply r = caller_ask(&c, "GET", "/who", bad[i], "");
        assert_int_equal(r.status, 401);
        assert_non_null(strstr(r.head, "WWW-Authenticate: Bearer"));
        reply_release(&r);
        caller_close(&c);
    }
    assert_int_equal(scene.ncalls, 0);
    struct caller c = dial_port();
    expect(caller_ask(&c, "GET", "/who", good, ""), 200, "1 -1 token");
    expect(caller_ask(&c, "GET", "/who", job, ""), 200, "0 7 job 7");
    caller_close(&c);
    c = dial(); /* a wrong token is wrong on the socket too */
    expect(caller_ask(&c, "GET", "/who", bad[1], ""), 401, NULL);
    caller_close(&c);
}

static void open_stream(struct caller *c)
{
    const char ask[] = "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n";
    caller_send(c, ask, sizeof ask - 1);
    while (scene.stream == NULL)
        turn(1);
}

static void a_stream_comes_bit_by_bit(void **state)
{
    (void)state;
    struct caller c = dial();
    open_stream(&c);
    caller_wait(&c, 10);
    assert_non_null(strstr(c.in, "text/event-stream"));
    size_t nhead = c.n;
    turn(10);
    assert_true(http_stream_write(scene.stream, (struct firn_bytes){"ab", 2}));
    caller_wait(&c, nhead + 2);
    assert_non_null(strstr(c.in, "ab"));
    assert_true(http_stream_write(scene.stream, (struct firn_bytes){"cd", 2}));
    assert_true(http_stream_write(scene.stream, (struct firn_bytes){"ef", 2}));
    http_stream_end(scene.stream);
    expect(caller_reply(&c), 200, "abcdef");
    turn(10);
    assert_int_equal(scene.ngone, 1);
    expect(caller_ask(&c, "POST", "/echo", NULL, "on"), 200, "on");
    caller_close(&c);
    turn(10);
    assert_int_equal(scene.ngone, 1);
}

static void a_reader_that_hangs_up_is_noticed(void **state)
{
    (void)state;
    struct caller c[2] = {dial(), dial_port()};
    for (int i = 0; i < 2; i++) {
        char ask[200];
        snprintf(ask, sizeof ask,
                 "GET /stream HTTP/1.1\r\nHost: x\r\n"
                 "Authorization: Bearer %s\r\n\r\n",
                 operator_token);
        caller_send(&c[i], ask, strlen(ask));
        while (scene.stream == NULL)
            turn(1);
        caller_wait(&c[i], 10);
        turn(10);
        caller_close(&c[i]);
        for (int k = 0; k < 100000 && scene.ngone == i; k++)
            turn(1);
        assert_int_equal(scene.ngone, i + 1);
    }
}

static void a_reader_that_is_slow_is_told_to_the_writer(void **state)
{
    (void)state;
    static const char block[32768];
    struct caller c = dial();
    open_stream(&c);
    size_t n = 0;
    while (n < 200 &&
           http_stream_write(scene.stream, (struct firn_bytes){block, 32768})) {
        n++;
        turn(2);
    }
    /* 1 MiB here, and what the sockets hold; not more. */
    assert_true(n >= 32 && n < 100);
    assert_int_equal(scene.ngone, 0);
    http_stream_end(scene.stream);
    struct reply r = caller_reply(&c);
    assert_int_equal(r.nbody, n * 32768); /* all that was taken, arrives */
    reply_release(&r);
    caller_close(&c);
    turn(10);
    assert_int_equal(scene.ngone, 1);
}

static void a_source_is_read_as_fast_as_it_is_taken(void **state)
{
    (void)state;
    struct caller c = dial();
    scene.nmore = 100;
    open_stream(&c);
    turn(200);
    assert_true(scene.nmore > 60); /* nobody reads: it waits */
    struct reply r = caller_reply(&c);
    assert_int_equal(r.nbody, 1000000);
    reply_release(&r);
    turn(10);
    assert_int_equal(scene.ngone, 1);
    caller_close(&c);
}

static void closing_ends_streams_and_drops_what_is_kept(void **state)
{
    (void)state;
    struct caller a = dial(), b = dial();
    const char ask[] = "GET /later HTTP/1.1\r\nHost: x\r\n\r\n";
    open_stream(&a);
    caller_send(&b, ask, sizeof ask - 1);
    while (scene.kept == NULL)
        turn(1);
    http_close(scene.http);
    scene.http = NULL;
    assert_int_equal(scene.ngone, 1);
    struct stat st;
    assert_int_equal(stat(scene.path, &st), -1);
    caller_wait(&b, 1000000);
    assert_true(b.is_closed);
    assert_int_equal(b.n, 0);
    caller_close(&a);
    caller_close(&b);
}

static void the_socket_is_private(void **state)
{
    (void)state;
    struct stat st;
    assert_int_equal(stat(scene.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    /* In a folder that others can enter it is not made. */
    struct http_config c = config();
    struct firn_error err;
    struct http *second = NULL;
    char open_folder[300], path[310];
    snprintf(open_folder, sizeof open_folder, "%s/open", folder_path());
    snprintf(path, sizeof path, "%s/s", open_folder);
    assert_int_equal(mkdir(open_folder, 0755), 0);
    chmod(open_folder, 0755);
    c.socket = path;
    assert_int_equal(http_open(&second, &c, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "not private"));
    assert_null(second);
    /* One that is missing is made as it must be. */
    assert_int_equal(rmdir(open_folder), 0);
    assert_int_equal(http_open(&second, &c, &err), FIRN_OK);
    assert_int_equal(stat(open_folder, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    http_close(second);
    assert_int_equal(rmdir(open_folder), 0);
}

static void
a_second_daemon_is_refused_and_a_dead_ones_socket_replaced(void **state)
{
    (void)state;
    struct http_config c = config();
    struct firn_error err;
    struct http *second = NULL;
    assert_int_equal(http_open(&second, &c, &err), FIRN_EIO);
    assert_non_null(strstr(err.text, "another daemon listens"));
    struct caller a = dial(); /* the first one is unharmed */
    expect(caller_ask(&a, "POST", "/echo", NULL, "me"), 200, "me");
    caller_close(&a);
    http_close(scene.http);
    scene.http = NULL;

    /* A socket that nobody listens on any more. */
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%.100s", scene.path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    close(fd);
    assert_int_equal(http_open(&scene.http, &c, &err), FIRN_OK);
    a = dial();
    expect(caller_ask(&a, "POST", "/echo", NULL, "me"), 200, "me");
    caller_close(&a);
    http_close(scene.http);
    scene.http = NULL;

    /* A file that is no socket is left alone. */
    FILE *file = fopen(scene.path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(http_open(&second, &c, &err), FIRN_EINVAL);
    struct stat st;
    assert_int_equal(stat(scene.path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
}

static void a_config_that_cannot_be_is_refused(void **state)
{
    (void)state;
    struct firn_error err;
    struct http *http = NULL;
    struct http_config none = {.handle = handle};
    assert_int_equal(http_open(&http, &none, &err), FIRN_EINVAL);
    const char *addresses[] = {
        "127.0.0.1",       ":1",   "127.0.0.1:", "::1:80",      "host:80",
        "127.0.0.1:70000", "[::1", "[::1]80",    "127.0.0.1:-1"};
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        struct http_config c = {
            .handle = handle, .token = operator_token, .address = addresses[i]};
        assert_int_equal(http_open(&http, &c, &err), FIRN_EINVAL);
        assert_non_null(strstr(err.text, addresses[i]));
    }
    const char *tokens[] = {NULL, "", "short"};
    for (size_t i = 0; i < 3; i++) {
        struct http_config c = {
            .handle = handle, .token = tokens[i], .address = "127.0.0.1:0"};
        assert_int_equal(http_open(&http, &c, &err), FIRN_EINVAL);
        assert_non_null(strstr(err.text, "token"));
    }
    static char path[300];
    memset(path, 'p', sizeof path - 1);
    path[0] = '/';
    struct http_config c = {.handle = handle, .socket = path};
    assert_int_equal(http_open(&http, &c, &err), FIRN_EINVAL);
    assert_null(http);
}

static void secrets_are_equal_or_not(void **state)
{
    (void)state;
    assert_true(sock_same_secret("", ""));
    assert_true(sock_same_secret(job_token, job_token));
    assert_false(sock_same_secret(job_token, "the-token-of-job-seve"));
    assert_false(sock_same_secret(job_token, "the-token-of-job-seven "));
    assert_false(sock_same_secret("a", "b"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(a_body_comes_back_on_a_kept_connection),
        CASE(a_failure_is_json_with_code_and_escaped_text),
        CASE(parameters_are_decoded_and_headers_cannot_be_split),
        CASE(paths_with_dots_or_control_characters_are_refused),
        CASE(an_answer_may_come_later),
        CASE(an_answer_to_a_client_that_left_harms_nobody),
        CASE(requests_in_one_packet_are_answered_in_order),
        CASE(a_body_over_the_limit_is_refused),
        CASE(a_chunked_body_over_the_limit_is_refused),
        CASE(garbage_is_refused_or_hung_up_on),
        CASE(a_head_without_end_is_refused),
        CASE(a_client_that_dribbles_is_dropped),
        CASE(the_socket_tells_who_calls),
        CASE(a_port_wants_a_token),
        CASE(a_stream_comes_bit_by_bit),
        CASE(a_reader_that_hangs_up_is_noticed),
        CASE(a_reader_that_is_slow_is_told_to_the_writer),
        CASE(a_source_is_read_as_fast_as_it_is_taken),
        CASE(closing_ends_streams_and_drops_what_is_kept),
        CASE(the_socket_is_private),
        CASE(a_second_daemon_is_refused_and_a_dead_ones_socket_replaced),
        CASE(a_config_that_cannot_be_is_refused),
        CASE(secrets_are_equal_or_not),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
