/* test_loop_signal.c - signals that come while the scheduler stops.
 *
 * The scheduler runs in a child process, over an engine that sends the signals
 * at chosen moments; the parent looks at how it ended and what it kept.
 */
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

static int again; /* the signal that comes while the loop is closed */

static int wake_fd(void *state)
{
    (void)state;
    return eventfd(0, EFD_CLOEXEC);
}

/* The first turn has begun: the first signal. */
static bool next(void *state, double until_s, struct firn_event *out,
                 struct firn_error *err)
{
    static bool is_sent;
    if (!is_sent)
        raise(SIGTERM);
    is_sent = true;
    return loopscene_engine.next(state, until_s, out, err);
}

static void close_engine(void *state)
{
    raise(again);
    loopscene_engine.close(state);
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
    engine.close = close_engine;
    snprintf(state, sizeof state, "%s", folder_path());
    char *argv[] = {"firnd",       "--state",  state,  "--gpus",
                    "1x1:v100@16", "--policy", "fifo", NULL};
    struct loop_setup setup = {
        .config = &config, .engine = &engine, .is_deaf = true};
    alarm(120);
    if (config_flags(&config, 7, argv, &err) != FIRN_OK ||
        config_finish(&config, &err) != FIRN_OK ||
        loop_open(&loop, &setup, &err) != FIRN_OK ||
        loop_run(loop, &err) != FIRN_OK)
        _exit(9);
    raise(again); /* between the loop's end and its last commit */
    loop_close(loop);
    config_release(&config);
    _exit(0);
}

static void stops_with(int number)
{
    struct loopscene s;
    struct firn_buf text = {0};
    struct firn_error err = {0};
    int status = 0;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    loopscene_submit(&s, "a", "gpus: 1\ncheckpoint: {grace: 10}");
    loopscene_turn(&s);
    loopscene_kill(&s); /* no policy state is kept */
    again = number;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        child();
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status))
        fail_msg("signal %d ended it: a second signal cut it short",
                 WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    loopscene_open(&s, "1x1:v100@16", "fifo", true);
    assert_int_equal(store_get_meta(s.loop->store, "round", &text, &err),
                     FIRN_OK);
    assert_non_null(strstr(text.at, "1 0\n")); /* book's id, round's id */
    buf_release(&text);
    loopscene_close(&s);
    loopscene_remove_state();
}

static void a_second_signal_does_not_cut_the_shutdown_short(void **unused)
{
    (void)unused;
    stops_with(SIGTERM);
    stops_with(SIGINT);
    stops_with(SIGHUP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_second_signal_does_not_cut_the_shutdown_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
