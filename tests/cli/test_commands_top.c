/* test_commands_top.c - `firn top` on a terminal: keys, order, colours, a job's
 * pages.
 *
 * The program runs on a pseudo-terminal of 30 lines against a daemon with
 * prepared answers; what it writes is read until an expected text is there.
 */
#define _XOPEN_SOURCE 700 /* pseudo-terminals */
#include "lib/firncmd.h"
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define JOBS                                                           \
    "GET /v1/jobs?limit=100000&after=0&all=0&state=running%2Cstarting" \
    "%2Cresizing%2Cpreempting%2Ccompleting%2Cpending&pending=1000"

static const char jobs[] =
    "{\"jobs\": ["
    "{\"id\": 3, \"name\": \"slow\", \"user\": \"ann\", \"state\": "
    "\"running\", "
    "\"reason\": \"none\", \"gpus_min\": 2, \"gpus_max\": 2, \"gpus\": "
    "\"n0[0-1]\", \"ran_s\": 7200, \"progress\": 0.5, \"utilisation\": 0.9}, "
    "{\"id\": 5, \"name\": \"idle\", \"user\": \"bob\", \"state\": "
    "\"running\", "
    "\"reason\": \"none\", \"gpus_min\": 1, \"gpus_max\": 4, \"gpus\": "
    "\"n0[2]\", \"ran_s\": 60, \"utilisation\": 0.01}, "
    "{\"id\": 7, \"name\": \"later\\u001b[2J\", \"user\": \"ann\", \"state\": "
    "\"pending\", \"reason\": \"capacity\", \"gpus_min\": 4, \"gpus_max\": 4, "
    "\"gpus\": \"-\"}]}";
static const char nodes[] =
    "{\"nodes\": [{\"name\": \"n0\", \"type\": \"v100\", \"mem_gib\": 16, "
    "\"gpus\": 4, \"free\": 1, \"outside\": 0, \"up\": true, \"drained\": "
    "false}]}";
static char forecast[512];

/* ---- the pseudo-terminal ---- */

static struct {
    int fd;
    pid_t pid;
    char seen[1 << 16]; /* all that was written since the last look */
    size_t n;
} term;

static void start(const char *every)
{
    struct winsize size = {.ws_row = 30, .ws_col = 120};
    if (access(cmd_program(), X_OK) != 0) {
        print_message("skipped: there is no %s\n", cmd_program());
        skip();
    }
    snprintf(forecast, sizeof forecast,
             "{\"jobs\": [{\"id\": 7, \"position\": 1, \"start_at_s\": %lld, "
             "\"finish_at_s\": %lld}, {\"id\": 3, \"finish_at_s\": %lld}]}",
             (long long)time(NULL) + 3658, (long long)time(NULL) + 7258,
             (long long)time(NULL) + 3658);
    fake_tell(&cmd_fake, JOBS, 200, jobs);
    fake_tell(&cmd_fake, "GET /v1/nodes", 200, nodes);
    fake_tell(&cmd_fake, "GET /v1/forecast", 200, forecast);
    term.fd = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(term.fd >= 0 && grantpt(term.fd) == 0 &&
                unlockpt(term.fd) == 0);
    char name[64];
    snprintf(name, sizeof name, "%s", ptsname(term.fd));
    ioctl(term.fd, TIOCSWINSZ, &size);
    term.n = 0;
    term.pid = fork();
    if (term.pid == 0) {
        setsid();
        int fd = open(name, O_RDWR);
        if (fd < 0 || dup2(fd, 0) < 0 || dup2(fd, 1) < 0)
            _exit(125);
        execl(cmd_program(), "firn", "top", "--every", every, (char *)NULL);
        _exit(126);
    }
}

/* Reads until `text` was written; what was before it is gone then. */
static void expect(const char *text)
{
    for (int waits = 0; waits < 300;) {
        char *found = term.n > 0 ? strstr(term.seen, text) : NULL;
        if (found != NULL) {
            size_t used = (size_t)(found - term.seen) + strlen(text);
            memmove(term.seen, term.seen + used, term.n - used + 1);
            term.n -= used;
            return;
        }
        struct pollfd one = {.fd = term.fd, .events = POLLIN};
        if (poll(&one, 1, 100) <= 0) {
            waits++;
            continue;
        }
        if (term.n > sizeof term.seen / 2) /* keep the newer half */
            term.n = 0;
        ssize_t got =
            read(term.fd, term.seen + term.n, sizeof term.seen - term.n - 1);
        if (got <= 0)
            break;
        for (ssize_t i = 0; i < got; i++)
            if (term.seen[term.n + (size_t)i] == '\0')
                term.seen[term.n + (size_t)i] = ' ';
        term.n += (size_t)got;
        term.seen[term.n] = '\0';
    }
    fail_msg("no '%s' in:\n%s", text, term.n > 0 ? term.seen : "");
}

static void type(const char *keys)
{
    assert_int_equal(write(term.fd, keys, strlen(keys)), strlen(keys));
}

static int end(void)
{
    int status = 0;
    char rest[4096];
    while (waitpid(term.pid, &status, WNOHANG) == 0) {
        struct pollfd one = {.fd = term.fd, .events = POLLIN};
        if (poll(&one, 1, 20) > 0 && read(term.fd, rest, sizeof rest) < 0)
            continue;
    }
    close(term.fd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- cases ---- */

static void the_list_has_positions_forecasts_and_utilisation(void **unused)
{
    (void)unused;
    start("1h");
    expect("\x1b[?1049h");
    expect("2 running, 1 pending   by state");
    expect("3 of 4 in use");
    expect("60 % of the time of 3 measured GPUs");
    expect("START  END  REASON");
    expect("\x1b[7m 3  slow"); /* selected */
    expect("90%   50%   2h      -   1h");
    expect("\x1b[31m 5  idle");          /* red: 1 % busy */
    expect("\x1b[33m 7  later\\x1b[2J"); /* yellow, and escaped */
    expect("1h   2h  capacity");
    type("q");
    assert_int_equal(end(), 0);
}

static void keys_select_sort_and_reverse(void **unused)
{
    (void)unused;
    start("1h");
    expect("\x1b[7m 3  slow");
    type("\x1b[B"); /* down */
    expect("\x1b[7m 5  idle");
    type("jj"); /* the last one */
    expect("\x1b[7m 7  later");
    type("s");
    expect("by number");
    type("r");
    expect("by number, reversed");
    expect(" 7  later");
    expect(" 5  idle");
    expect(" 3  slow");
    type("?");
    expect("keys and columns");
    type("x");
    expect("by number, reversed");
    type("q");
    assert_int_equal(end(), 0);
}

static void keys_show_why_a_job_waits_and_its_output(void **unused)
{
    (void)unused;
    fake_tell(&cmd_fake, "GET /v1/jobs/7/why", 200,
              "{\"why\": \"waits for 4 GPUs; 1 free\", \"state\": \"pending\", "
              "\"reason\": \"capacity\"}");
    fake_tell(&cmd_fake, "GET /v1/jobs/7/logs?tail=200", 200,
              "epoch 1\nepoch 2\x1b[31m\n");
    start("1h");
    expect("\x1b[7m 3  slow");
    type("\x1b[F"); /* end */
    expect("\x1b[7m 7  later");
    type("w");
    expect("why: job 7");
    expect("waits for 4 GPUs; 1 free");
    type("l");
    expect("output of job 7");
    expect("epoch 2\\x1b[31m");
    type("q");
    expect("\x1b[7m 7  later");
    type("\r");
    expect("job 7"); /* there is no answer prepared: the error is shown */
    expect("no answer is prepared");
    type("\x1b");
    expect("\x1b[7m 7  later");
    type("q");
    assert_int_equal(end(), 0);
}

static bool has_asked(const char *what)
{
    struct fake_request one;
    for (int i = 0; fake_request(&cmd_fake, i, &one); i++)
        if (strcmp(one.what, what) == 0)
            return true;
    return false;
}

static void a_job_is_cancelled_after_a_question_only(void **unused)
{
    (void)unused;
    fake_tell(&cmd_fake, "POST /v1/jobs/3/cancel", 200, "{}");
    start("1h");
    expect("\x1b[7m 3  slow");
    type("c");
    expect("cancel job 3? y: yes");
    type("n");
    expect("\x1b[7m 3  slow");
    assert_false(has_asked("POST /v1/jobs/3/cancel"));
    type("c");
    expect("cancel job 3? y: yes");
    type("y");
    expect("job 3: cancelled");
    assert_true(has_asked("POST /v1/jobs/3/cancel"));
    type("q");
    assert_int_equal(end(), 0);
}

static void an_error_is_shown_and_goes_when_firnd_answers(void **unused)
{
    (void)unused;
    start("0.2");
    expect("\x1b[7m 3  slow");
    fake_tell(&cmd_fake, "GET /v1/nodes", 500, "{}");
    expect("HTTP status 500");
    fake_tell(&cmd_fake, "GET /v1/nodes", 200, nodes);
    expect("up/down  enter show");
    kill(term.pid, SIGTERM);
    assert_int_equal(end(), 130);
}

static void without_colours_only_bold_and_reverse_remain(void **unused)
{
    (void)unused;
    setenv("NO_COLOR", "1", 1);
    start("1h");
    expect("\x1b[7m 3  slow");
    expect("\r\n 5  idle"); /* no colour */
    type("q");
    assert_int_equal(end(), 0);
    unsetenv("NO_COLOR");
}

static void unknown_values_are_last_and_a_selection_stays(void **unused)
{
    (void)unused;
    static const char fewer[] =
        "{\"jobs\": [{\"id\": 3, \"name\": \"slow\", \"state\": \"running\"}, "
        "{\"id\": 7, \"name\": \"later\", \"state\": \"pending\"}]}";
    start("0.2");
    expect("\x1b[7m 3  slow");
    type("j");
    expect("\x1b[7m 5  idle");
    type("ssss");
    expect("by busy");
    expect(" 3  slow");
    expect(" 5  idle");
    expect(" 7  later");
    type("r");
    expect("by busy, reversed");
    expect("\x1b[7m 5  idle"); /* still selected, now the first */
    expect(" 3  slow");
    expect(" 7  later"); /* unknown: last in both directions */
    fake_tell(&cmd_fake, JOBS, 200, fewer); /* the selected job ends */
    expect("1 running, 1 pending");
    expect("\x1b[7m 3  slow");
    type("q");
    assert_int_equal(end(), 0);
}

#define CASE(name) \
    cmocka_unit_test_setup_teardown(name, cmd_setup, cmd_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_list_has_positions_forecasts_and_utilisation),
        CASE(keys_select_sort_and_reverse),
        CASE(keys_show_why_a_job_waits_and_its_output),
        CASE(a_job_is_cancelled_after_a_question_only),
        CASE(an_error_is_shown_and_goes_when_firnd_answers),
        CASE(without_colours_only_bold_and_reverse_remain),
        CASE(unknown_values_are_last_and_a_selection_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
