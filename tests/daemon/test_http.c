/* test_http.c - requests: whole, in pieces, too large, wrong, slow, of callers
 * who are known or not; answers now and later.
 */
#include "base/rng.h"
#include "httpscene.h"
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <cmocka.h>

static void a_body_comes_back_on_a_kept_connection(void **state)
{
    (void)state;
    struct caller c = http_dial();
    http_expect(caller_ask(&c, "POST", "/echo", NULL, "hello"), 200, "hello");
    http_expect(caller_ask(&c, "POST", "/echo", NULL, ""), 200, "");
    http_expect(caller_ask(&c, "POST", "/echo", NULL, "again"), 200, "again");
    assert_int_equal(http_scene.ncalls, 3);
    caller_close(&c);
}

static void a_failure_is_json_with_code_and_escaped_text(void **state)
{
    (void)state;
    struct caller c = http_dial();
    http_expect(caller_ask(&c, "GET", "/nothing", NULL, ""), 404,
                "{\"error\": {\"code\": \"not-found\", \"text\": "
                "\"there is no \\\"such\\\"\\nthing\"}}\n");
    caller_close(&c);
}

static void parameters_are_decoded_and_headers_cannot_be_split(void **state)
{
    (void)state;
    struct caller c = http_dial();
    struct reply r = caller_ask(&c, "GET", "/query?q=a%20b%2f%41&z=1",
                                "X-Word: w w\r\n", "");
    assert_string_equal(r.body, "a b/A|w w");
    assert_non_null(strstr(r.head, "X-Back: oneX-Evil: two\r\n"));
    assert_null(strstr(r.head, "\nX-Evil"));
    assert_non_null(strstr(r.head, "X-Content-Type-Options: nosniff\r\n"));
    reply_release(&r);
    /* A NUL cannot end a text early. */
    http_expect(caller_ask(&c, "GET", "/query?q=a%00b%zz%", NULL, ""), 200,
                "a%00b%zz%|-");
    http_expect(caller_ask(&c, "GET", "/who%00", NULL, ""), 404, NULL);
    caller_close(&c);
}

static void paths_with_dots_or_control_characters_are_refused(void **state)
{
    (void)state;
    const char *bad[] = {"/a/../b", "/..",    "/a/..",        "/a/./b",
                         "/%2e%2e", "/a%0ab", "/a%7fb",       "/%1b[0m",
                         "/a/%2e.", "/.",     "/a/%2e%2e/who"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct caller c = http_dial();
        http_expect(caller_ask(&c, "GET", bad[i], NULL, ""), 400, NULL);
        caller_close(&c);
    }
    assert_int_equal(http_scene.ncalls, 0);
    struct caller c = http_dial();
    http_expect(caller_ask(&c, "GET", "/a..b/.c/..d", NULL, ""), 404, NULL);
    assert_int_equal(http_scene.ncalls, 1); /* those are only names */
    caller_close(&c);
}

static void an_answer_may_come_later(void **state)
{
    (void)state;
    struct caller a = http_dial(), b = http_dial();
    const char ask[] = "GET /later HTTP/1.1\r\nHost: x\r\n\r\n";
    caller_send(&a, ask, sizeof ask - 1);
    while (http_scene.kept == NULL)
        http_scene_turns(1);
    http_scene_turns(20);
    caller_hear(&a);
    assert_int_equal(a.n, 0);
    /* Others are served meanwhile. */
    http_expect(caller_ask(&b, "POST", "/echo", NULL, "me"), 200, "me");
    int wait_ms;
    http_scene_say(http_scene.kept, "at last");
    http_fd(http_scene.http, &wait_ms);
    assert_int_equal(wait_ms, 0); /* there is something to do at once */
    http_expect(caller_reply(&a), 200, "at last");
    http_expect(caller_ask(&a, "POST", "/echo", NULL, "on"), 200, "on");
    caller_close(&a);
    caller_close(&b);
}

static void an_answer_to_a_client_that_left_is_dropped(void **state)
{
    (void)state;
    struct caller a = http_dial();
    const char ask[] = "GET /later HTTP/1.1\r\nHost: x\r\n\r\n";
    caller_send(&a, ask, sizeof ask - 1);
    while (http_scene.kept == NULL)
        http_scene_turns(1);
    caller_close(&a);
    http_scene_turns(20);
    http_scene_say(http_scene.kept, "too late");
    http_scene_turns(20);
    struct caller b = http_dial();
    http_expect(caller_ask(&b, "POST", "/echo", NULL, "me"), 200, "me");
    caller_close(&b);
}

static void requests_in_one_packet_are_answered_in_order(void **state)
{
    (void)state;
    struct caller c = http_dial();
    const char ask[] =
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\none"
        "GET /later HTTP/1.1\r\nHost: x\r\n\r\n"
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nthree";
    caller_send(&c, ask, sizeof ask - 1);
    http_expect(caller_reply(&c), 200, "one");
    while (http_scene.kept == NULL)
        http_scene_turns(1);
    http_scene_turns(10);
    assert_int_equal(http_scene.ncalls, 2);
    http_scene_say(http_scene.kept, "two");
    http_expect(caller_reply(&c), 200, "two");
    http_expect(caller_reply(&c), 200, "three");
    caller_close(&c);
}

static void a_body_over_the_limit_is_refused(void **state)
{
    (void)state;
    char *big = calloc(1, 100002);
    memset(big, 'x', 100001);
    struct caller c = http_dial();
    http_expect(caller_ask(&c, "POST", "/echo", NULL, big), 413, NULL);
    assert_int_equal(http_scene.ncalls, 0);
    caller_close(&c);
    big[100000] = '\0';
    c = http_dial();
    struct reply r = caller_ask(&c, "POST", "/echo", NULL, big);
    assert_int_equal(r.status, 200);
    assert_int_equal(r.nbody, 100000);
    reply_release(&r);
    caller_close(&c);
    free(big);
}

/* A loop that looks at nothing but the descriptor serves a request whole. */
static void the_descriptor_is_readable_while_there_is_more_to_read(void **state)
{
    (void)state;
    static char big[90001];
    const char head[] = "POST /echo HTTP/1.1\r\nHost: x\r\n"
                        "Content-Length: 90000\r\n\r\n";
    int wait_ms, fd = http_fd(http_scene.http, &wait_ms);
    struct caller c = http_dial();
    memset(big, 'x', sizeof big - 1);
    caller_send(&c, head, sizeof head - 1);
    caller_send(&c, big, sizeof big - 1);
    struct pollfd one = {.fd = fd, .events = POLLIN};
    for (int i = 0; i < 100 && poll(&one, 1, 0) == 1; i++)
        http_run(http_scene.http);
    assert_int_equal(http_scene.ncalls, 1);
    http_expect(caller_reply(&c), 200, big);
    caller_close(&c);
}

static void a_chunked_body_over_the_limit_is_refused(void **state)
{
    (void)state;
    static char chunk[5 + 0x4000 + 2];
    struct caller c = http_dial();
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
        http_scene_turns(3);
    }
    caller_send(&c, "0\r\n\r\n", 5);
    http_expect(caller_reply(&c), 413, NULL);
    assert_int_equal(http_scene.ncalls, 0);
    caller_close(&c);
}

/* For who sends less than a request and waits. */
static int start_in_a_hurry(void **state)
{
    double usual_s = http_scene_timeout_s;
    http_scene_timeout_s = 0.3;
    int failed = http_scene_start(state);
    http_scene_timeout_s = usual_s;
    return failed;
}
#define HURRIED(name) \
    cmocka_unit_test_setup_teardown(name, start_in_a_hurry, http_scene_stop)

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
        struct caller c = http_dial();
        caller_send(&c, garbage[i], strlen(garbage[i]));
        struct reply r = caller_reply(&c);
        assert_true(r.status == 0 || r.status >= 400);
        reply_release(&r);
        caller_close(&c);
    }
    assert_int_equal(http_scene.ncalls, 0);
}

/* Bytes changed, lost and put in: the server answers or hangs up, and goes
 * on. */
static void no_mutated_request_stops_the_server(void **state)
{
    (void)state;
    const char good[] = "POST /echo?q=%41%42&z HTTP/1.1\r\nHost: x\r\n"
                        "Authorization: Bearer the-token-of-job-seven\r\n"
                        "Content-Length: 5\r\nConnection: close\r\n\r\nhello";
    const uint64_t seed = 20;
    struct rng rng;
    print_message("seed %llu\n", (unsigned long long)seed);
    rng_seed(&rng, seed);
    for (int i = getenv("FIRN_QUICK") != NULL ? 450 : 0; i < 500; i++) {
        char text[sizeof good + 8];
        size_t n = sizeof good - 1;
        memcpy(text, good, n);
        for (uint64_t k = 1 + rng_below(&rng, 4); k > 0; k--) {
            size_t at = (size_t)rng_below(&rng, n - 1);
            uint64_t what = rng_below(&rng, 3);
            if (what == 0)
                text[at] = (char)rng_below(&rng, 256);
            else if (what == 1)
                memmove(text + at, text + at + 1, --n - at);
            else if (n < sizeof text - 1)
                memmove(text + at + 1, text + at, n++ - at);
        }
        struct caller c = http_dial();
        caller_send(&c, text, n);
        shutdown(c.fd, SHUT_WR);
        for (int k = 0; k < 3; k++)
            caller_hear(&c);
        caller_close(&c);
    }
    struct caller c = http_dial();
    http_expect(caller_ask(&c, "POST", "/echo", NULL, "me"), 200, "me");
    caller_close(&c);
}

static void a_head_without_end_is_refused(void **state)
{
    (void)state;
    static char line[1000];
    memset(line, 'h', sizeof line);
    memcpy(line, "X-A: ", 5);
    memcpy(line + sizeof line - 2, "\r\n", 2);
    struct caller c = http_dial();
    const char head[] = "GET /who HTTP/1.1\r\nHost: x\r\n";
    caller_send(&c, head, sizeof head - 1);
    for (int i = 0; i < 40 && caller_send(&c, line, sizeof line); i++)
        http_scene_turns(1);
    struct reply r = caller_reply(&c);
    assert_true(r.status == 0 || r.status == 431 || r.status == 413);
    reply_release(&r);
    caller_close(&c);
    assert_int_equal(http_scene.ncalls, 0);
}

static void a_client_that_sends_slowly_is_disconnected(void **state)
{
    (void)state;
    double start_s = http_scene_now_s();
    struct caller c = http_dial();
    const char head[] = "GET /who HTTP/1.1\r\nX-Slow: ";
    caller_send(&c, head, sizeof head - 1);
    while (!c.is_closed && http_scene_now_s() < start_s + 60) {
        struct timespec nap = {.tv_nsec = 20000000};
        caller_send(&c, "s", 1);
        caller_hear(&c);
        nanosleep(&nap, NULL);
    }
    assert_true(c.is_closed);
    assert_true(http_scene_now_s() - start_s >= 0.25);
    caller_close(&c);
}

/* One that began in time, and was all sent while the server did other things
 * for longer than a request may take. A machine that stands still in the midst
 * of it proves nothing: the next try may. */
static void
requests_that_came_while_the_server_was_busy_are_answered(void **state)
{
    (void)state;
    const char head[] = "GET /who HTTP/1.1\r\nHost: x\r\n", end[] = "\r\n";
    bool is_answered = false;
    for (int i = 0; i < 20 && !is_answered; i++) {
        struct timespec busy = {.tv_nsec = 400000000};
        struct caller c = http_dial();
        caller_send(&c, head, sizeof head - 1);
        http_scene_turns(2);
        nanosleep(&busy, NULL);
        if (caller_send(&c, end, sizeof end - 1)) {
            struct reply r = caller_reply(&c);
            is_answered = r.status == 200;
            reply_release(&r);
        }
        caller_close(&c);
    }
    assert_true(is_answered);
}

static void the_unix_socket_tells_the_user_of_the_caller(void **state)
{
    (void)state;
    struct caller c = http_dial();
    struct reply r = caller_ask(&c, "GET", "/who", NULL, "");
    assert_int_equal(r.status, 200);
    assert_int_equal(strncmp(r.body, "1 -1 ", 5), 0);
    assert_true(strlen(r.body) > 5);
    reply_release(&r);
    char header[200];
    snprintf(header, sizeof header, "Authorization: Bearer %s\r\n",
             http_job_token);
    /* A job is that job even on the operator's socket. */
    http_expect(caller_ask(&c, "GET", "/who", header, ""), 200, "0 7 job 7");
    caller_close(&c);
}

static void a_port_needs_a_token(void **state)
{
    (void)state;
    char good[200], job[200];
    snprintf(good, sizeof good, "Authorization: bearer %s\r\n", http_token);
    snprintf(job, sizeof job, "Authorization: Bearer %s\r\n", http_job_token);
    const char *bad[] = {NULL,
                         "Authorization: Bearer wrong\r\n",
                         "Authorization: Bearer \r\n",
                         "Authorization: Basic YTpi\r\n",
                         "Authorization: an-operator-token-of-27-bytes\r\n",
                         "Authorization: Bearer an-operator-token-of-27-byte"
                         "\r\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct caller c = http_dial_port();
        struct reply r = caller_ask(&c, "GET", "/who", bad[i], "");
        assert_int_equal(r.status, 401);
        assert_non_null(strstr(r.head, "WWW-Authenticate: Bearer"));
        reply_release(&r);
        caller_close(&c);
    }
    assert_int_equal(http_scene.ncalls, 0);
    struct caller c = http_dial_port();
    http_expect(caller_ask(&c, "GET", "/who", good, ""), 200, "1 -1 token");
    http_expect(caller_ask(&c, "GET", "/who", job, ""), 200, "0 7 job 7");
    caller_close(&c);
    c = http_dial(); /* a wrong token is wrong on the socket too */
    http_expect(caller_ask(&c, "GET", "/who", bad[1], ""), 401, NULL);
    caller_close(&c);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(a_body_comes_back_on_a_kept_connection),
        CASE(a_failure_is_json_with_code_and_escaped_text),
        CASE(parameters_are_decoded_and_headers_cannot_be_split),
        CASE(paths_with_dots_or_control_characters_are_refused),
        CASE(an_answer_may_come_later),
        CASE(an_answer_to_a_client_that_left_is_dropped),
        CASE(requests_in_one_packet_are_answered_in_order),
        CASE(a_body_over_the_limit_is_refused),
        CASE(the_descriptor_is_readable_while_there_is_more_to_read),
        CASE(a_chunked_body_over_the_limit_is_refused),
        HURRIED(garbage_is_refused_or_hung_up_on),
        CASE(no_mutated_request_stops_the_server),
        CASE(a_head_without_end_is_refused),
        HURRIED(a_client_that_sends_slowly_is_disconnected),
        HURRIED(requests_that_came_while_the_server_was_busy_are_answered),
        CASE(the_unix_socket_tells_the_user_of_the_caller),
        CASE(a_port_needs_a_token),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
