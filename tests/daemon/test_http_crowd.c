/* test_http_crowd.c - connections without a token do not keep out those with
 * one, nor the Unix socket.
 */
#include "httpscene.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { PLACES = 64, UNKNOWN = PLACES / 4, PEER = PLACES / 16, CROWD = 1200 };

static const char half[] = "GET /who HTTP/1.1\r\nHost: x\r\nX-Slow: ";

/* --- clients that send no token ------------------------------------------ */

/* From 127.0.0.`from`, with half a head sent; -1: no descriptor. */
static int dribbler(int from)
{
    struct sockaddr_in me = {.sin_family = AF_INET,
                             .sin_addr.s_addr =
                                 htonl(INADDR_LOOPBACK - 1 + (uint32_t)from)};
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port =
                                 htons((uint16_t)http_port(http_scene.http)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&me, sizeof me) != 0 ||
        connect(fd, (struct sockaddr *)&at, sizeof at) != 0) {
        close(fd);
        return -1;
    }
    send(fd, half, sizeof half - 1, MSG_NOSIGNAL);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static bool is_closed(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

/* Runs the server until `fd` is closed by it. */
static void await_close(int fd)
{
    double until_s = http_scene_now_s() + 120;
    while (!is_closed(fd)) {
        assert_true(http_scene_now_s() < until_s);
        http_scene_turns(1);
    }
}

/* --- servers ------------------------------------------------------------- */

static int start(void **state, double unknown_s, int places)
{
    http_scene_unknown_s = unknown_s;
    http_scene_places = places;
    double usual_s = http_scene_timeout_s;
    http_scene_timeout_s = 1000;
    int failed = http_scene_start(state);
    http_scene_timeout_s = usual_s;
    http_scene_unknown_s = 0;
    http_scene_places = 0;
    return failed;
}

static int start_small(void **state)
{
    return start(state, 1000, PLACES);
}

static int start_hurried(void **state)
{
    return start(state, 0.3, PLACES);
}

static int start_usual(void **state)
{
    return start(state, 1000, 0);
}

/* --- cases --------------------------------------------------------------- */

static void
the_oldest_connection_of_an_address_without_a_token_is_closed(void **state)
{
    (void)state;
    int fds[PEER + 1];
    for (int i = 0; i < PEER + 1; i++) {
        fds[i] = dribbler(1);
        assert_true(fds[i] >= 0);
        http_scene_turns(20);
    }
    await_close(fds[0]);
    for (int i = 1; i < PEER + 1; i++) {
        assert_false(is_closed(fds[i]));
        close(fds[i]);
    }
    close(fds[0]);
    assert_int_equal(http_scene.nturned_away[HTTP_REFUSED_CROWD], 1);
}

static void the_oldest_connection_without_a_token_is_closed(void **state)
{
    (void)state;
    int fds[UNKNOWN + 3];
    for (int i = 0; i < UNKNOWN + 3; i++) {
        fds[i] = dribbler(1 + i / PEER);
        assert_true(fds[i] >= 0);
        http_scene_turns(20);
    }
    for (int i = 0; i < 3; i++)
        await_close(fds[i]);
    for (int i = 0; i < UNKNOWN + 3; i++) {
        assert_int_equal(is_closed(fds[i]), i < 3);
        close(fds[i]);
    }
}

static void a_client_without_a_token_in_time_is_disconnected(void **state)
{
    (void)state;
    char header[100];
    snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", http_token);
    struct caller known = http_dial_port();
    http_expect(caller_ask(&known, "GET", "/who", header, ""), 200,
                "1 -1 token");
    struct caller here = http_dial();
    caller_send(&here, half, sizeof half - 1);
    struct caller slow = http_dial_port();
    double until_s = http_scene_now_s() + 120;
    caller_send(&slow, half, sizeof half - 1);
    while (!slow.is_closed && http_scene_now_s() < until_s) {
        struct timespec nap = {.tv_nsec = 20000000};
        caller_send(&slow, "s", 1);
        caller_hear(&slow);
        nanosleep(&nap, NULL);
    }
    assert_true(slow.is_closed);
    assert_int_equal(http_scene.nturned_away[HTTP_REFUSED_SLOW], 1);
    caller_close(&slow);
    /* One that has shown its token, and one of the Unix socket, stay. */
    http_expect(caller_ask(&known, "GET", "/who", header, ""), 200,
                "1 -1 token");
    caller_send(&here, "\r\n\r\n", 4);
    struct reply r = caller_reply(&here);
    assert_int_equal(r.status, 200);
    reply_release(&r);
    caller_close(&here);
    caller_close(&known);
}

static void the_longest_idle_connection_is_closed_for_a_new_one(void **state)
{
    (void)state;
    char header[100];
    struct caller all[PLACES + 1];
    snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", http_token);
    for (int i = 0; i < PLACES + 1; i++) {
        all[i] = http_dial_port();
        http_expect(caller_ask(&all[i], "GET", "/who", header, ""), 200,
                    "1 -1 token");
    }
    await_close(all[0].fd);
    for (int i = 0; i < PLACES + 1; i++) {
        assert_int_equal(is_closed(all[i].fd), i == 0);
        caller_close(&all[i]);
    }
}

/* CROWD connections that send half a head, a byte more now and then, and are
 * made anew when the server closes them. Runs until it is killed. */
static void crowd(int ready)
{
    struct rlimit files;
    int fds[CROWD];
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    for (int i = 0; i < CROWD; i++)
        fds[i] = dribbler(1);
    if (write(ready, "r", 1) != 1)
        _exit(1);
    for (int i = 0;; i = (i + 1) % CROWD) {
        struct timespec nap = {.tv_nsec = 100000};
        if (fds[i] < 0 || is_closed(fds[i])) {
            if (fds[i] >= 0)
                close(fds[i]);
            fds[i] = dribbler(1);
        } else {
            send(fds[i], "s", 1, MSG_NOSIGNAL);
        }
        nanosleep(&nap, NULL);
    }
}

static void
a_token_is_answered_beside_a_thousand_connections_without(void **state)
{
    (void)state;
    char header[100], byte;
    int ready[2];
    double worst_s = 0;
    snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", http_token);
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        crowd(ready[1]);
    fcntl(ready[0], F_SETFL, O_NONBLOCK);
    while (read(ready[0], &byte, 1) != 1) /* all have been opened */
        http_scene_turns(1);
    for (int i = 0; i < 20; i++) {
        double start_s = http_scene_now_s();
        struct caller c = i % 2 == 0 ? http_dial_port() : http_dial();
        struct reply r = caller_ask(&c, "GET", "/who", header, "");
        double took_s = http_scene_now_s() - start_s;
        assert_int_equal(r.status, 200);
        worst_s = took_s > worst_s ? took_s : worst_s;
        reply_release(&r);
        caller_close(&c);
        http_scene_turns(50);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ready[0]);
    close(ready[1]);
    print_message("# %d connections without a token: the slowest of 20 answers "
                  "to a token took %.0f ms\n",
                  CROWD, worst_s * 1e3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            the_oldest_connection_of_an_address_without_a_token_is_closed,
            start_small, http_scene_stop),
        cmocka_unit_test_setup_teardown(
            the_oldest_connection_without_a_token_is_closed, start_small,
            http_scene_stop),
        cmocka_unit_test_setup_teardown(
            a_client_without_a_token_in_time_is_disconnected, start_hurried,
            http_scene_stop),
        cmocka_unit_test_setup_teardown(
            the_longest_idle_connection_is_closed_for_a_new_one, start_small,
            http_scene_stop),
        cmocka_unit_test_setup_teardown(
            a_token_is_answered_beside_a_thousand_connections_without,
            start_usual, http_scene_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
