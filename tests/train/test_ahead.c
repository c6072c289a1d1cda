/* test_ahead.c - a process that is started early waits for its environment. */
#define _GNU_SOURCE
#include "wire/aheadgate.h"
#include <firn/ahead.h>
#include <firn/report.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static bool has(const char *name, const char *value)
{
    const char *text = getenv(name);
    return text != NULL && strcmp(text, value) == 0;
}

/* The child: 0 if it has been let through with the environment of the start. */
static int early(void)
{
    if (firn_ahead_was_called() || !firn_ahead_wait() ||
        !firn_ahead_was_called())
        return 2;
    if (firn_ahead_wait()) /* it passes once */
        return 3;
    if (getenv("FIRN_GATE") != NULL || getenv("CUDA_VISIBLE_DEVICES") != NULL)
        return 4;
    if (!has("RANK", "1") || !has("FIRN_ATTEMPT", "7") || !has("KEPT", "x"))
        return 5;
    return firn_process_age_s() < 5 ? 0 : 6;
}

/* Starts the child with one end of a gate; the other end is in *gate. */
static pid_t start(int *gate)
{
    int ends[2];
    char text[16];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        snprintf(text, sizeof text, "%d", ends[1]);
        setenv("FIRN_GATE", text, 1);
        setenv("CUDA_VISIBLE_DEVICES", "", 1);
        setenv("RANK", "0", 1);
        setenv("KEPT", "x", 1);
        _exit(early());
    }
    close(ends[1]);
    *gate = ends[0];
    return pid;
}

static int status_of(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static double now_s(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static const char *const of_the_start[] = {"RANK=1", "FIRN_ATTEMPT=7", "KEPT=x",
                                           NULL};

static void a_prepared_process_gets_the_environment_of_its_start(void **state)
{
    (void)state;
    int gate = -1;
    char byte = 0;
    pid_t pid = start(&gate);
    assert_int_equal(read(gate, &byte, 1), 1);
    assert_int_equal(byte, FIRN_GATE_READY);
    assert_true(firn_gate_open(gate, of_the_start, now_s()));
    close(gate);
    assert_int_equal(status_of(pid), 0);
}

/* The supervisor opens the gate and closes its end before the process comes. */
static void
a_gate_that_is_open_already_lets_a_late_process_through(void **state)
{
    (void)state;
    int ends[2];
    char text[16];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_true(firn_gate_open(ends[0], of_the_start, now_s()));
    close(ends[0]);
    pid_t pid = fork();
    if (pid == 0) {
        snprintf(text, sizeof text, "%d", ends[1]);
        setenv("FIRN_GATE", text, 1);
        setenv("KEPT", "x", 1);
        _exit(early());
    }
    close(ends[1]);
    assert_int_equal(status_of(pid), 0);
}

static void a_process_that_is_not_needed_ends_with_status_one(void **state)
{
    (void)state;
    int gate = -1;
    pid_t pid = start(&gate);
    close(gate);
    assert_int_equal(status_of(pid), 1);
}

/* A program that is executed again behind the gate is as old as the gate has
 * been open; a process that was started later has its own age. */
static void an_age_counts_from_the_gate_on(void **state)
{
    (void)state;
    char text[40];
    double age_s;
    while (!((age_s = firn_process_age_s()) > 0))
        continue;
    snprintf(text, sizeof text, "%.6f", now_s() + 1000);
    setenv("FIRN_GATE_OPENED", text, 1);
    assert_true(firn_process_age_s() == 0);
    setenv("FIRN_GATE_OPENED", "0.000001", 1); /* when the machine started */
    assert_true(firn_process_age_s() >= age_s);
    assert_true(firn_process_age_s() < now_s());
    unsetenv("FIRN_GATE_OPENED");
}

static void without_a_gate_nothing_is_waited_for(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0)
        _exit(firn_ahead_wait() || !firn_ahead_was_called());
    assert_int_equal(status_of(pid), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prepared_process_gets_the_environment_of_its_start),
        cmocka_unit_test(
            a_gate_that_is_open_already_lets_a_late_process_through),
        cmocka_unit_test(a_process_that_is_not_needed_ends_with_status_one),
        cmocka_unit_test(an_age_counts_from_the_gate_on),
        cmocka_unit_test(without_a_gate_nothing_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
