/* test_procs.c - a request reaches the descendant that has a handler for it. */
#define _GNU_SOURCE
#include "engine/procs.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The pipe to the test: 'r' when the descendant is ready, 'a' when asked. */
static int out;

static void on_request(int number)
{
    (void)number;
    if (write(out, "a", 1) != 1)
        _exit(1);
}

/* A process that waits, with a handler or without, and dies with its parent's
 * thread. */
static void wait_below(bool has_handler)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (has_handler)
        signal(SIGUSR1, on_request);
    if (write(out, "r", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static void *fork_below(void *arg)
{
    if (fork() == 0)
        wait_below(*(const bool *)arg);
    for (;;)
        pause(); /* the child dies with this thread */
    return NULL;
}

/* A process without a handler whose second thread has such a child. */
static pid_t start(bool has_handler, int *in)
{
    int ends[2];
    char byte = 0;
    assert_int_equal(pipe(ends), 0);
    out = ends[1];
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pthread_create(&thread, NULL, fork_below, &has_handler);
        for (;;)
            pause();
    }
    close(ends[1]);
    *in = ends[0];
    assert_int_equal(read(*in, &byte, 1), 1);
    assert_int_equal(byte, 'r');
    return pid;
}

static void end(pid_t pid, int in)
{
    char byte;
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    while (read(in, &byte, 1) > 0)
        ; /* until the descendant is gone */
    close(in);
}

static void a_handler_below_another_thread_is_found(void **state)
{
    (void)state;
    int in;
    char byte = 0;
    pid_t pid = start(true, &in);
    assert_true(procs_ask(pid, SIGUSR1));
    assert_int_equal(read(in, &byte, 1), 1);
    assert_int_equal(byte, 'a');
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0); /* it got no signal */
    end(pid, in);
}

static void a_process_without_a_handler_gets_no_signal(void **state)
{
    (void)state;
    int in;
    pid_t pid = start(false, &in);
    assert_false(procs_ask(pid, SIGUSR1));
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
    assert_int_equal(procs_signal_below(pid, SIGSTOP, SIGCONT), 1);
    end(pid, in);
}

static void a_process_that_is_gone_is_not_asked(void **state)
{
    (void)state;
    int in;
    pid_t pid = start(true, &in);
    end(pid, in);
    assert_false(procs_ask(pid, SIGUSR1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handler_below_another_thread_is_found),
        cmocka_unit_test(a_process_without_a_handler_gets_no_signal),
        cmocka_unit_test(a_process_that_is_gone_is_not_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
