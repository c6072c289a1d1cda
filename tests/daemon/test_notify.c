/* test_notify.c - systemd is told: ready, alive, stopping; and a slow turn is
 * named.
 *
 * The test plays systemd: it binds the socket and reads the datagrams. The
 * scheduler runs in a child process over an engine that stands still when it is
 * told to.
 */
#define _GNU_SOURCE
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/log.h"
#include "daemon/notify.h"
#include <cmocka.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG_MS = 60000 };

/* Binds it, and puts its name into the environment. */
static int listen_at(bool is_abstract)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char name[sizeof at.sun_path];
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (is_abstract)
        snprintf(name, sizeof name, "@firn-test-%ld", (long)getpid());
    else
        snprintf(name, sizeof name, "%.80s/notify", folder_path());
    size_t n = strlen(name);
    memcpy(at.sun_path, name, n);
    if (is_abstract)
        at.sun_path[0] = '\0';
    size_t size = offsetof(struct sockaddr_un, sun_path) + n + !is_abstract;
    assert_int_equal(bind(fd, (struct sockaddr *)&at, (socklen_t)size), 0);
    setenv("NOTIFY_SOCKET", name, 1);
    return fd;
}

/* The next message within `wait_ms` milliseconds; "": there is none. */
static const char *message(int fd, int wait_ms)
{
    static char out[256];
    struct pollfd at = {.fd = fd, .events = POLLIN};
    out[0] = '\0';
    if (poll(&at, 1, wait_ms) == 1) {
        ssize_t n = recv(fd, out, sizeof out - 1, 0);
        out[n > 0 ? n : 0] = '\0';
    }
    return out;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* --- the protocol -------------------------------------------------------- */

static void messages_go_to_a_path_and_to_an_abstract_name(void **unused)
{
    (void)unused;
    for (int is_abstract = 0; is_abstract < 2; is_abstract++) {
        struct notify notify;
        int fd = listen_at(is_abstract);
        setenv("WATCHDOG_USEC", "2", 1);
        notify_open(&notify);
        assert_null(getenv("NOTIFY_SOCKET")); /* no job inherits it */
        assert_null(getenv("WATCHDOG_USEC"));
        assert_true(notify.every_s == 1e-6);
        notify_ready(&notify);
        assert_true(begins(message(fd, LONG_MS), "READY=1\n"));
        notify.sent_s -= 1; /* half of its time is over */
        assert_true(notify_alive(&notify) < 1);
        assert_string_equal(message(fd, LONG_MS), "WATCHDOG=1");
        notify_stopping(&notify);
        assert_true(begins(message(fd, LONG_MS), "STOPPING=1\n"));
        notify_close(&notify);
        close(fd);
    }
    loopscene_remove_state();
}

static void without_a_socket_or_a_watchdog_nothing_is_sent(void **unused)
{
    (void)unused;
    struct notify notify;
    static const char *const bad[] = {"", "x", "@", "relative/path"};
    notify_open(&notify);
    assert_true(notify.fd < 0 && isinf(notify_alive(&notify)));
    notify_ready(&notify);
    notify_close(&notify);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("NOTIFY_SOCKET", bad[i], 1);
        notify_open(&notify);
        assert_true(notify.fd < 0);
    }
    int fd = listen_at(true);
    setenv("WATCHDOG_USEC", "1000000", 1);
    setenv("WATCHDOG_PID", "1", 1); /* another process's */
    notify_open(&notify);
    assert_true(notify.fd >= 0 && notify.every_s == 0);
    assert_true(isinf(notify_alive(&notify)));
    notify_close(&notify);
    setenv("NOTIFY_SOCKET", "@firn-test-where-nothing-listens", 1);
    notify_open(&notify);
    notify_ready(&notify); /* fails, is logged, and is no end */
    assert_true(notify.has_failed);
    notify_close(&notify);
    close(fd);
}

/* --- the loop ------------------------------------------------------------ */

static int stand_still_fd; /* readable: the engine hangs */

static int wake_fd(void *state)
{
    (void)state;
    return eventfd(0, EFD_CLOEXEC);
}

static bool next(void *state, double until_s, struct firn_event *out,
                 struct firn_error *err)
{
    struct pollfd at = {.fd = stand_still_fd, .events = POLLIN};
    while (poll(&at, 1, 0) == 1)
        pause();
    return loopscene_engine.next(state, until_s, out, err);
}

static void child(void)
{
    struct firn_error err = {0};
    struct firn_engine_def engine = loopscene_engine;
    struct config config = {0};
    struct loop *loop = NULL;
    char state[512];
    engine.next = next;
    engine.wake_fd = wake_fd;
    snprintf(state, sizeof state, "%s", folder_path());
    char *argv[] = {"firnd",       "--state",  state,  "--gpus",
                    "1x1:v100@16", "--policy", "fifo", NULL};
    struct loop_setup setup = {
        .config = &config, .engine = &engine, .is_deaf = true};
    if (config_flags(&config, 7, argv, &err) != FIRN_OK ||
        config_finish(&config, &err) != FIRN_OK ||
        loop_open(&loop, &setup, &err) != FIRN_OK ||
        loop_run(loop, &err) != FIRN_OK)
        _exit(9);
    loop_close(loop);
    config_release(&config);
    _exit(0);
}

static void a_turn_that_does_not_end_sends_no_sign_of_life(void **unused)
{
    (void)unused;
    int status = 0, fd = listen_at(false);
    setenv("WATCHDOG_USEC", "100000", 1);
    stand_still_fd = eventfd(0, EFD_CLOEXEC);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        child();
    assert_true(begins(message(fd, LONG_MS), "READY=1\n"));
    for (int i = 0; i < 3; i++) /* from a loop with nothing to do */
        assert_string_equal(message(fd, LONG_MS), "WATCHDOG=1");
    assert_int_equal(eventfd_write(stand_still_fd, 1), 0);
    for (int n = 0; *message(fd, 600) != '\0'; n++)
        assert_true(n < 100); /* those before it stood still */
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    close(stand_still_fd);
    close(fd);
}

static void the_end_is_told_before_the_last_commit(void **unused)
{
    (void)unused;
    int status = 0, fd = listen_at(true);
    unsetenv("WATCHDOG_USEC");
    stand_still_fd = eventfd(0, EFD_CLOEXEC);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        child();
    assert_true(begins(message(fd, LONG_MS), "READY=1\n"));
    kill(pid, SIGTERM);
    assert_true(begins(message(fd, LONG_MS), "STOPPING=1\n"));
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    unsetenv("NOTIFY_SOCKET");
    close(stand_still_fd);
    close(fd);
}

/* --- slow turns ---------------------------------------------------------- */

static void keep_line(void *arg, enum log_level level, const char *text)
{
    struct firn_buf *out = arg;
    if (level == LOG_WARN)
        buf_printf(out, "%s\n", text);
}

static void a_turn_over_its_budget_is_named_with_its_parts(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_buf lines = {0};
    struct firn_error err = {0};
    double next_s = 0;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    log_set_sink(keep_line, &lines);
    buf_puts(&lines, "");
    loopscene_turn(&s);
    assert_null(strstr(lines.at, "a turn took")); /* within 1 s */
    s.loop->watch.budget_s = -1;                  /* every turn is over that */
    loop_turn(s.loop, &next_s, &err);
    log_set_sink(NULL, NULL);
    assert_non_null(strstr(lines.at, "a turn took "));
    static const char *const parts[] = {
        "s of processor time", "requests ", "engine events ",
        "decision ",           "commit ",   "answers "};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        assert_non_null(strstr(lines.at, parts[i]));
    assert_true(metrics_get(s.loop->metrics, METRIC_TURNS_SLOW, 0) == 1);
    buf_release(&lines);
    loopscene_close(&s);
}

static void a_slow_turn_names_its_slowest_route(void **unused)
{
    (void)unused;
    struct turnwatch watch = {.budget_s = -1};
    struct firn_buf text = {0};
    turnwatch_begin(&watch);
    turnwatch_request(&watch, "GET", "/v1/jobs", 0.25);
    turnwatch_request(&watch, "POST", "/v1/plan", 2.5);
    turnwatch_request(&watch, "GET", "/v1/health", 0);
    watch.forecast_s = 2.25;
    assert_true(turnwatch_end(&watch, &text));
    assert_non_null(strstr(text.at, "(3, slowest POST /v1/plan 2.50 s, "
                                    "forecasts 2.25 s)"));
    buf_clear(&text);
    turnwatch_begin(&watch);
    assert_true(turnwatch_end(&watch, &text)); /* soon after: no line */
    assert_int_equal(text.n, 0);
    watch.logged_s -= 100;
    turnwatch_begin(&watch);
    assert_true(turnwatch_end(&watch, &text));
    assert_non_null(strstr(text.at, "; 1 more turns over 1.0 s"));
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(messages_go_to_a_path_and_to_an_abstract_name),
        CASE(without_a_socket_or_a_watchdog_nothing_is_sent),
        CASE(a_turn_that_does_not_end_sends_no_sign_of_life),
        CASE(the_end_is_told_before_the_last_commit),
        CASE(a_turn_over_its_budget_is_named_with_its_parts),
        CASE(a_slow_turn_names_its_slowest_route),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
