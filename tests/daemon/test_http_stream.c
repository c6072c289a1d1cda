/* test_http_stream.c - streams with readers that are good, slow or gone; how
 * the server opens and closes, and whom it leaves room for.
 */
#include "daemon/http_sock.h"
#include "httpscene.h"
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
#include <unistd.h>

#include <cmocka.h>

static void open_stream(struct caller *c)
{
    const char ask[] = "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n";
    caller_send(c, ask, sizeof ask - 1);
    while (http_scene.stream == NULL)
        http_scene_turns(1);
}

static void a_stream_arrives_piece_by_piece(void **state)
{
    (void)state;
    struct caller c = http_dial();
    open_stream(&c);
    caller_wait(&c, 10);
    assert_non_null(strstr(c.in, "text/event-stream"));
    size_t nhead = c.n;
    http_scene_turns(10);
    assert_true(
        http_stream_write(http_scene.stream, (struct firn_bytes){"ab", 2}));
    caller_wait(&c, nhead + 2);
    assert_non_null(strstr(c.in, "ab"));
    assert_true(
        http_stream_write(http_scene.stream, (struct firn_bytes){"cd", 2}));
    assert_true(
        http_stream_write(http_scene.stream, (struct firn_bytes){"ef", 2}));
    http_stream_end(http_scene.stream);
    http_expect(caller_reply(&c), 200, "abcdef");
    http_scene_turns(10);
    assert_int_equal(http_scene.ngone, 1);
    http_expect(caller_ask(&c, "POST", "/echo", NULL, "on"), 200, "on");
    caller_close(&c);
    http_scene_turns(10);
    assert_int_equal(http_scene.ngone, 1);
}

static void a_reader_that_hangs_up_is_noticed(void **state)
{
    (void)state;
    struct caller c[2] = {http_dial(), http_dial_port()};
    for (int i = 0; i < 2; i++) {
        char ask[200];
        snprintf(ask, sizeof ask,
                 "GET /stream HTTP/1.1\r\nHost: x\r\n"
                 "Authorization: Bearer %s\r\n\r\n",
                 http_token);
        caller_send(&c[i], ask, strlen(ask));
        while (http_scene.stream == NULL)
            http_scene_turns(1);
        caller_wait(&c[i], 10);
        http_scene_turns(10);
        caller_close(&c[i]);
        double end_s = http_scene_now_s() + 60;
        while (http_scene.ngone == i && http_scene_now_s() < end_s)
            http_scene_turns(1);
        assert_int_equal(http_scene.ngone, i + 1);
    }
}

/* Bytes that a socket takes before its peer reads, which is the host's to say.
 */
static size_t socket_holds(void)
{
    static const char block[10000];
    size_t n = 0;
    int ends[2];
    ssize_t done;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    while ((done = send(ends[0], block, sizeof block, MSG_DONTWAIT)) > 0)
        n += (size_t)done;
    close(ends[0]);
    close(ends[1]);
    return n;
}

static void a_write_to_a_slow_reader_fails(void **state)
{
    (void)state;
    static const char block[32768];
    struct caller c = http_dial();
    open_stream(&c);
    size_t n = 0, most = 60 + 2 * socket_holds() / sizeof block;
    while (n < 2 * most &&
           http_stream_write(http_scene.stream,
                             (struct firn_bytes){block, 32768})) {
        n++;
        http_scene_turns(2);
    }
    /* 1 MiB here, and what the sockets hold; not more. */
    assert_true(n >= 32 && n < most);
    assert_int_equal(http_scene.ngone, 0);
    http_stream_end(http_scene.stream);
    struct reply r = caller_reply(&c);
    assert_int_equal(r.nbody, n * 32768); /* all that was taken, arrives */
    reply_release(&r);
    caller_close(&c);
    http_scene_turns(10);
    assert_int_equal(http_scene.ngone, 1);
}

static void a_source_is_read_as_fast_as_the_client_takes_it(void **state)
{
    (void)state;
    struct caller c = http_dial();
    size_t most = 20 + socket_holds() / 10000, n = 60 + most;
    http_scene.nmore = n;
    open_stream(&c);
    http_scene_turns((int)(2 * n));
    assert_true(http_scene.nmore > n - most); /* no client reads: it waits */
    struct reply r = caller_reply(&c);
    assert_int_equal(r.nbody, n * 10000);
    reply_release(&r);
    http_scene_turns(10);
    assert_int_equal(http_scene.ngone, 1);
    caller_close(&c);
}

/* After some turns there is nothing to do: nothing readable, a time to wait. */
static void expect_rest(void)
{
    int wait_ms;
    http_scene_turns(50);
    struct pollfd one = {.fd = http_fd(http_scene.http, &wait_ms),
                         .events = POLLIN};
    assert_int_equal(poll(&one, 1, 0), 0);
    assert_true(wait_ms != 0);
}

static void an_idle_connection_does_not_wake_the_loop(void **state)
{
    (void)state;
    static char big[90001];
    const char later[] = "GET /later HTTP/1.1\r\nHost: x\r\n\r\nGET /who";
    const char head[] = "POST /echo HTTP/1.1\r\nHost: x\r\n"
                        "Content-Length: 90000\r\n\r\n";
    struct caller idle = http_dial(), kept = http_dial(), left = http_dial();
    struct caller stream = http_dial(), slow = http_dial();
    expect_rest();
    caller_send(&kept, later, sizeof later - 1); /* with more behind it */
    expect_rest();
    caller_send(&left, later, sizeof later - 1);
    expect_rest();
    caller_close(&left); /* while its answer is kept */
    expect_rest();
    open_stream(&stream);
    caller_send(&stream, "GET /who", 8);
    expect_rest();
    memset(big, 'x', sizeof big - 1);
    for (int i = 0; i < 3; i++) { /* answers that no client reads */
        caller_send(&slow, head, sizeof head - 1);
        caller_send(&slow, big, sizeof big - 1);
        http_scene_turns(20);
    }
    expect_rest();

    struct reply r = caller_reply(&slow);
    assert_int_equal(r.nbody, 90000);
    reply_release(&r);
    caller_close(&idle);
    caller_close(&kept);
    caller_close(&stream);
    caller_close(&slow);
    expect_rest();
    assert_int_equal(http_scene.ngone, 1);
}

static void closing_ends_streams_and_drops_unanswered_requests(void **state)
{
    (void)state;
    struct caller a = http_dial(), b = http_dial();
    const char ask[] = "GET /later HTTP/1.1\r\nHost: x\r\n\r\n";
    open_stream(&a);
    caller_send(&b, ask, sizeof ask - 1);
    while (http_scene.kept == NULL)
        http_scene_turns(1);
    http_close(http_scene.http);
    http_scene.http = NULL;
    assert_int_equal(http_scene.ngone, 1);
    struct stat st;
    assert_int_equal(stat(http_scene.path, &st), -1);
    caller_wait(&b, 1000000);
    assert_true(b.is_closed);
    assert_int_equal(b.n, 0);
    caller_close(&a);
    caller_close(&b);
}

static void closing_ends_a_stream_that_was_just_woken(void **state)
{
    (void)state;
    struct caller c = http_dial();
    open_stream(&c);
    caller_wait(&c, 10);
    http_scene_turns(10);
    http_stream_wake(http_scene.stream); /* as a followed log is, each turn */
    http_close(http_scene.http);
    http_scene.http = NULL;
    assert_int_equal(http_scene.ngone, 1);
    caller_close(&c);
}

static void the_socket_is_private(void **state)
{
    (void)state;
    struct stat st;
    assert_int_equal(stat(http_scene.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    /* In a folder that others can enter it is not made. */
    struct http_config c = http_scene_config();
    struct firn_error err;
    struct http *second = NULL;
    char open_folder[300], path[310];
    snprintf(open_folder, sizeof open_folder, "%s/open", folder_path());
    snprintf(path, sizeof path, "%s/s", open_folder);
    assert_int_equal(mkdir(open_folder, 0755), 0);
    chmod(open_folder, 0755);
    c.socket = path;
    assert_int_equal(http_open(&second, &c, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "lets other users enter it"));
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
    struct http_config c = http_scene_config();
    struct firn_error err;
    struct http *second = NULL;
    assert_int_equal(http_open(&second, &c, &err), FIRN_EIO);
    assert_non_null(strstr(err.text, "another daemon listens"));
    struct caller a = http_dial(); /* the first one is unharmed */
    http_expect(caller_ask(&a, "POST", "/echo", NULL, "me"), 200, "me");
    caller_close(&a);
    http_close(http_scene.http);
    http_scene.http = NULL;

    /* A socket without a listener. */
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%.100s", http_scene.path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    close(fd);
    assert_int_equal(http_open(&http_scene.http, &c, &err), FIRN_OK);
    a = http_dial();
    http_expect(caller_ask(&a, "POST", "/echo", NULL, "me"), 200, "me");
    caller_close(&a);
    http_close(http_scene.http);
    http_scene.http = NULL;

    /* A file that is no socket is left alone. */
    FILE *file = fopen(http_scene.path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(http_open(&second, &c, &err), FIRN_EINVAL);
    struct stat st;
    assert_int_equal(stat(http_scene.path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
}

static void an_invalid_config_is_refused(void **state)
{
    (void)state;
    struct firn_error err;
    struct http *http = NULL;
    struct http_config none = {.handle = http_scene_handle};
    assert_int_equal(http_open(&http, &none, &err), FIRN_EINVAL);
    const char *addresses[] = {
        "127.0.0.1",       ":1",   "127.0.0.1:", "::1:80",      "host:80",
        "127.0.0.1:70000", "[::1", "[::1]80",    "127.0.0.1:-1"};
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        struct http_config c = {.handle = http_scene_handle,
                                .token = http_token,
                                .address = addresses[i]};
        assert_int_equal(http_open(&http, &c, &err), FIRN_EINVAL);
        assert_non_null(strstr(err.text, addresses[i]));
    }
    const char *tokens[] = {NULL, "", "short"};
    for (size_t i = 0; i < 3; i++) {
        struct http_config c = {.handle = http_scene_handle,
                                .token = tokens[i],
                                .address = "127.0.0.1:0"};
        assert_int_equal(http_open(&http, &c, &err), FIRN_EINVAL);
        assert_non_null(strstr(err.text, "token"));
    }
    static char path[300];
    memset(path, 'p', sizeof path - 1);
    path[0] = '/';
    struct http_config c = {.handle = http_scene_handle, .socket = path};
    assert_int_equal(http_open(&http, &c, &err), FIRN_EINVAL);
    assert_null(http);
}

static void secrets_are_equal_or_not(void **state)
{
    (void)state;
    assert_true(sock_same_secret("", ""));
    assert_true(sock_same_secret(http_job_token, http_job_token));
    assert_false(sock_same_secret(http_job_token, "the-token-of-job-seve"));
    assert_false(sock_same_secret(http_job_token, "the-token-of-job-seven "));
    assert_false(sock_same_secret("a", "b"));
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(a_stream_arrives_piece_by_piece),
        CASE(a_reader_that_hangs_up_is_noticed),
        CASE(a_write_to_a_slow_reader_fails),
        CASE(a_source_is_read_as_fast_as_the_client_takes_it),
        CASE(an_idle_connection_does_not_wake_the_loop),
        CASE(closing_ends_streams_and_drops_unanswered_requests),
        CASE(closing_ends_a_stream_that_was_just_woken),
        CASE(the_socket_is_private),
        CASE(a_second_daemon_is_refused_and_a_dead_ones_socket_replaced),
        CASE(an_invalid_config_is_refused),
        CASE(secrets_are_equal_or_not),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
