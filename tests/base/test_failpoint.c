/* test_failpoint.c - a process dies or stops at the named point only. */
#include "base/failpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child passes three points "a" and one "b"; how many passes it survived,
 * or -1 when it was not killed. */
static int passes(const char *setting)
{
    int ends[2], status;
    char byte;
    int n = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (setting != NULL)
            setenv("FIRN_FAILPOINT", setting, 1);
        else
            unsetenv("FIRN_FAILPOINT");
        failpoint_reset();
        static const char *const points[] = {"a", "b", "a", "a"};
        for (int i = 0; i < 4; i++) {
            failpoint(points[i]);
            if (write(ends[1], "x", 1) != 1)
                _exit(1);
        }
        _exit(0);
    }
    close(ends[1]);
    while (read(ends[0], &byte, 1) == 1)
        n++;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status))
        assert_int_equal(WTERMSIG(status), SIGKILL);
    else
        assert_int_equal(WEXITSTATUS(status), 0);
    return WIFSIGNALED(status) ? n : -1;
}

static void failpoint_reset_reads_the_variable_again(void **state)
{
    (void)state;
    failpoint("a");
    assert_int_equal(failpoint_state, 0); /* nothing is to be done */
    assert_int_equal(passes("a:2"), 2);
}

static void without_the_variable_no_point_has_an_effect(void **state)
{
    (void)state;
    assert_int_equal(passes(NULL), -1);
}

static void the_named_point_kills_at_the_pass_that_is_asked_for(void **state)
{
    (void)state;
    assert_int_equal(passes("a"), 0);
    assert_int_equal(passes("a:1"), 0);
    assert_int_equal(passes("a:2"), 2);
    assert_int_equal(passes("a:3"), 3);
    assert_int_equal(passes("b"), 1);
}

static void another_name_or_too_high_a_count_has_no_effect(void **state)
{
    (void)state;
    assert_int_equal(passes("c"), -1);
    assert_int_equal(passes("a:4"), -1);
    assert_int_equal(passes(""), -1);
}

static void slash_stop_stops_the_process_once(void **state)
{
    (void)state;
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("FIRN_FAILPOINT", "a:2/stop", 1);
        failpoint_reset();
        for (int i = 0; i < 4; i++)
            failpoint("a");
        _exit(7);
    }
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    assert_int_equal(kill(pid, SIGCONT), 0);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_the_variable_no_point_has_an_effect),
        cmocka_unit_test(the_named_point_kills_at_the_pass_that_is_asked_for),
        cmocka_unit_test(failpoint_reset_reads_the_variable_again),
        cmocka_unit_test(another_name_or_too_high_a_count_has_no_effect),
        cmocka_unit_test(slash_stop_stops_the_process_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
