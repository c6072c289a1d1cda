/* test_stopsignal.c - SIGUSR1 is an order, and whose handler it was hears it.
 */
#include "train/stopsignal.h"
#include <firn/report.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static volatile sig_atomic_t nothers;

static void other_handler(int number)
{
    (void)number;
    nothers++;
}

static void the_signal_is_an_order_without_any_scheduler(void **state)
{
    (void)state;
    struct sigaction other = {.sa_handler = other_handler}, now;
    struct firn_reporter *r = NULL, *second = NULL;
    unsetenv("FIRN_URL");
    sigaction(SIGUSR1, &other, NULL);
    assert_int_equal(firn_reporter_open(&r, NULL, NULL), FIRN_OK);
    assert_int_equal(firn_reporter_orders(r).stop, -1);
    struct firn_trainer_report report = firn_trainer_report_unknown();
    uint64_t nsent = 9, ndropped = 9, nfailed = 9;
    /* Goes nowhere, and is fine. */
    assert_int_equal(firn_reporter_say(r, &report, NULL), FIRN_OK);
    firn_reporter_counts(r, &nsent, &ndropped, &nfailed);
    assert_true(nsent == 0 && ndropped == 1 && nfailed == 0);
    raise(SIGUSR1);
    assert_int_equal(firn_reporter_orders(r).stop, 1);
    assert_int_equal(nothers, 1); /* who was there before hears it too */

    /* One opened later has not heard it; either may be closed first. */
    assert_int_equal(firn_reporter_open(&second, NULL, NULL), FIRN_OK);
    assert_int_equal(firn_reporter_orders(second).stop, -1);
    firn_reporter_close(r, 0);
    raise(SIGUSR1);
    assert_int_equal(firn_reporter_orders(second).stop, 1);
    assert_int_equal(nothers, 2);
    firn_reporter_close(second, 0);
    sigaction(SIGUSR1, NULL, &now);
    assert_true(now.sa_handler == other_handler);
    raise(SIGUSR1);
    assert_int_equal(nothers, 3);
    other.sa_handler = SIG_DFL;
    sigaction(SIGUSR1, &other, NULL);
}

static void without_catching_the_signal_is_left_alone(void **state)
{
    (void)state;
    struct sigaction other = {.sa_handler = other_handler};
    struct firn_reporter_config c = {.attempt = -1};
    struct firn_reporter *r = NULL;
    sigaction(SIGUSR1, &other, NULL);
    assert_int_equal(firn_reporter_open(&r, &c, NULL), FIRN_OK);
    raise(SIGUSR1);
    assert_int_equal(firn_reporter_orders(r).stop, -1);
    firn_reporter_close(r, 0);
    other.sa_handler = SIG_DFL;
    sigaction(SIGUSR1, &other, NULL);
}

static void (*below)(int, siginfo_t *, void *);

static void above(int number, siginfo_t *info, void *context)
{
    nothers++;
    below(number, info, context);
}

static void a_handler_put_over_ours_may_call_ours(void **state)
{
    (void)state;
    struct sigaction over = {.sa_flags = SA_SIGINFO}, was, now;
    nothers = 0;
    assert_int_equal(firn_stopsignal_catch(NULL), FIRN_OK);
    over.sa_sigaction = above;
    sigaction(SIGUSR1, &over, &was);
    below = was.sa_sigaction;
    unsigned before = firn_stopsignal_count();
    raise(SIGUSR1);
    assert_int_equal(firn_stopsignal_count(), before + 1);
    assert_int_equal(nothers, 1);
    firn_stopsignal_release(); /* not ours to remove now */
    sigaction(SIGUSR1, NULL, &now);
    assert_true(now.sa_sigaction == above);
    raise(SIGUSR1);
    /* Caught again, the two do not call each other without end. */
    assert_int_equal(firn_stopsignal_catch(NULL), FIRN_OK);
    raise(SIGUSR1);
    assert_int_equal(firn_stopsignal_count(), before + 3);
    assert_int_equal(nothers, 3);
    sigaction(SIGUSR1, &was, NULL);
    firn_stopsignal_release(); /* now it goes */
    sigaction(SIGUSR1, NULL, &now);
    assert_true(now.sa_handler == SIG_DFL);
}

/* As Slurm ends a job that it preempts. */
static void sigterm_is_an_order_where_the_cluster_sends_it(void **state)
{
    (void)state;
    struct sigaction now;
    unsigned before = firn_stopsignal_count();
    assert_int_equal(firn_stopsignal_catch(NULL), FIRN_OK);
    sigaction(SIGTERM, NULL, &now);
    assert_true(now.sa_handler == SIG_DFL); /* not without FIRN_TERM */
    firn_stopsignal_release();
    setenv("FIRN_TERM", "checkpoint", 1);
    assert_int_equal(firn_stopsignal_catch(NULL), FIRN_OK);
    raise(SIGTERM);
    raise(SIGUSR1);
    assert_int_equal(firn_stopsignal_count(), before + 2);
    pid_t child = fork(); /* a library's helper ends by it, as ever */
    if (child == 0) {
        raise(SIGTERM);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    firn_stopsignal_release();
    unsetenv("FIRN_TERM");
    sigaction(SIGTERM, NULL, &now);
    assert_true(now.sa_handler == SIG_DFL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_signal_is_an_order_without_any_scheduler),
        cmocka_unit_test(without_catching_the_signal_is_left_alone),
        cmocka_unit_test(a_handler_put_over_ours_may_call_ours),
        cmocka_unit_test(sigterm_is_an_order_where_the_cluster_sends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
