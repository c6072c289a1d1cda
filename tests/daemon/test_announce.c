/* test_announce.c - which states are told, and how many commands run at once.
 */
#include "daemon/announce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include <cmocka.h>
#include <math.h>

static char name[] = "n", user[] = "ann";

static struct live_job job_in(enum live_state state, char *notify)
{
    struct live_job job = {.id = 7, .state = state};
    job.ask.name = name;
    job.ask.user = user;
    job.ask.notify = notify;
    str_copy(job.why, sizeof job.why, "because");
    return job;
}

static size_t told(enum live_state state, const char *words, bool stopped)
{
    char notify[64];
    struct announce *announce = announce_new();
    str_copy(notify, sizeof notify, words);
    struct live_job job = job_in(state, notify);
    announce_state(announce, &job, stopped);
    size_t n = announce_waiting(announce);
    announce_free(announce);
    return n;
}

static void only_what_the_job_asks_for_is_told(void **unused)
{
    (void)unused;
    assert_int_equal(told(LIVE_SUCCEEDED, "end", false), 1);
    assert_int_equal(told(LIVE_CANCELLED, "preemption,end", false), 1);
    assert_int_equal(told(LIVE_FAILED, "end,failure", false), 1);
    assert_int_equal(told(LIVE_LOST, "failure", false), 1);
    assert_int_equal(told(LIVE_SUCCEEDED, "failure", false), 0);
    assert_int_equal(told(LIVE_PREEMPTING, "preemption", true), 1);
    assert_int_equal(told(LIVE_PREEMPTING, "preemption", false), 0);
    assert_int_equal(told(LIVE_PREEMPTING, "end,failure", true), 0);
    assert_int_equal(told(LIVE_SUCCEEDED, "", false), 0);
    assert_int_equal(told(LIVE_SUCCEEDED, "ends", false), 0);
}

static void commands_are_started_in_a_burst_and_then_at_a_rate(void **unused)
{
    (void)unused;
    char notify[] = "end";
    struct announce *announce = announce_new();
    struct live_job job = job_in(LIVE_SUCCEEDED, notify);
    assert_true(isinf(announce_turn(announce, NULL, 0)));
    for (int i = 0; i < 30; i++)
        announce_state(announce, &job, false);
    double next_s = announce_turn(announce, NULL, 100);
    assert_int_equal(announce_waiting(announce), 30 - ANNOUNCE_BURST);
    assert_true(next_s > 100 && next_s <= 101);
    announce_turn(announce, NULL, 101);
    assert_int_equal(announce_waiting(announce),
                     30 - ANNOUNCE_BURST - ANNOUNCE_RATE_S);
    assert_true(isinf(announce_turn(announce, NULL, 200)));
    assert_int_equal(announce_waiting(announce), 0);
    announce_free(announce);
}

static void no_more_than_the_limit_wait(void **unused)
{
    (void)unused;
    char notify[] = "end";
    struct announce *announce = announce_new();
    struct live_job job = job_in(LIVE_SUCCEEDED, notify);
    for (int i = 0; i < ANNOUNCE_MOST + 10; i++)
        announce_state(announce, &job, false);
    assert_int_equal(announce_waiting(announce), ANNOUNCE_MOST);
    announce_free(announce);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_the_job_asks_for_is_told),
        cmocka_unit_test(commands_are_started_in_a_burst_and_then_at_a_rate),
        cmocka_unit_test(no_more_than_the_limit_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
