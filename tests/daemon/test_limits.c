/* test_limits.c - time limits and idle jobs, with a clock that the test moves.
 */
#include "daemon/loopwork.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/daemon/loopscene.h"
#include <cmocka.h>
#include <string.h>

static double util;

static bool load(void *state, firn_job_id job, struct firn_load *out)
{
    (void)state, (void)job;
    *out = (struct firn_load){util, 1};
    return true;
}

struct looked {
    const char *kind;
    int n;
};

static bool look(void *arg, const struct store_event *event)
{
    struct looked *looked = arg;
    looked->n += strcmp(event->kind, looked->kind) == 0;
    return true;
}

/* Events of that kind so far. */
static int count(struct loopscene *s, const char *kind)
{
    struct looked looked = {kind, 0};
    struct firn_error err = {0};
    assert_int_equal(
        store_each_event(s->loop->store, 0, 10000, look, &looked, &err),
        FIRN_OK);
    return looked.n;
}

static void expect(struct loopscene *s, const char *text)
{
    assert_string_equal(loopscene_text(s), text);
}

static void a_job_is_warned_and_ended_at_its_limit(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x4:v100@16", "fifo", false);
    loopscene_submit(&s, "a", "limit: 10m\nwarn: 2m\nrestart: allowed");
    loopscene_turn(&s);
    expect(&s, "a running n0[0]");
    loopscene_pass(&s, 470);
    assert_int_equal(count(&s, "limit-near"), 0);
    loopscene_pass(&s, 30);
    assert_int_equal(count(&s, "limit-near"), 1);
    loopscene_kill(&s); /* the time goes on over a restart */
    loopscene_open(&s, "1x4:v100@16", "fifo", true);
    loopscene_pass(&s, 80);
    expect(&s, "a running n0[0]");
    loopscene_pass(&s, 40);
    assert_int_equal(count(&s, "cancelling"), 1);
    loopscene_close(&s);
}

static void an_idle_job_is_reported_once_and_ended_if_it_asks_for_it(void **u)
{
    (void)u;
    struct loopscene s;
    util = 0.5;
    loopscene_play.load = load;
    loopscene_open(&s, "1x4:v100@16", "fifo", false);
    loopscene_submit(&s, "a", "idle: {after: 10m}\nrestart: allowed");
    loopscene_submit(&s, "b",
                     "idle: {after: 20m, then: end}\nrestart: allowed");
    loopscene_turn(&s);
    for (int i = 0; i < 60; i++)
        loopscene_pass(&s, 20);
    assert_int_equal(count(&s, "idle"), 0); /* both compute */
    util = 0;
    for (int i = 0; i < 40; i++)
        loopscene_pass(&s, 20);
    assert_int_equal(count(&s, "idle"), 1);
    assert_int_equal(count(&s, "cancelling"), 0);
    for (int i = 0; i < 40; i++)
        loopscene_pass(&s, 20);
    assert_int_equal(count(&s, "idle"), 1);
    assert_int_equal(count(&s, "cancelling"), 1);
    assert_true(loopscene_job(&s, "b")->is_ending);
    loopscene_close(&s);
}

static void an_idle_job_keeps_its_fewest_gpus_if_it_asks_for_it(void **unused)
{
    (void)unused;
    struct loopscene s;
    util = 0.5;
    loopscene_play.load = load;
    loopscene_open(&s, "1x4:v100@16", "pollux", false);
    loopscene_submit(&s, "a",
                     "gpus: 1..4\nelastic: {threads: 4}\n"
                     "idle: {after: 10m, then: shrink}");
    loopscene_turn(&s);
    loopscene_pass(&s, 20);
    assert_true(loopscene_job(&s, "a")->ask.gpus_max == 4);
    util = 0;
    for (int i = 0; i < 40; i++)
        loopscene_pass(&s, 20);
    assert_int_equal(count(&s, "idle"), 1);
    assert_int_equal(count(&s, "cancelling"), 0);
    assert_int_equal(loopscene_job(&s, "a")->ask.gpus_max, 1);
    loopscene_leave(&s, "a"); /* from the GPUs that it had */
    loopscene_turn(&s);
    loopscene_pass(&s, 300);
    expect(&s, "a running n0[0]");
    loopscene_close(&s);
}

static void a_job_that_reports_progress_is_not_idle(void **unused)
{
    (void)unused;
    struct loopscene s;
    util = 0;
    loopscene_play.load = load;
    loopscene_open(&s, "1x4:v100@16", "fifo", false);
    loopscene_submit(&s, "a",
                     "idle: {after: 10m, then: end}\nrestart: allowed");
    loopscene_turn(&s);
    for (int i = 0; i < 60; i++) {
        loopscene_pass(&s, 60);
        loopscene_report(&s, "a", 0.01 * (i + 1), 1, 100);
    }
    expect(&s, "a running n0[0]");
    loopscene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_job_is_warned_and_ended_at_its_limit),
        CASE(an_idle_job_is_reported_once_and_ended_if_it_asks_for_it),
        CASE(an_idle_job_keeps_its_fewest_gpus_if_it_asks_for_it),
        CASE(a_job_that_reports_progress_is_not_idle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
