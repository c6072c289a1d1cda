/* test_cadence.c - decisions at multiples, completions rounded, first starts
 * charged.
 */
#include "lib/play.h"
#include "sim/cadence.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void honest_cadence_changes_no_time(void **state)
{
    (void)state;
    struct cadence c = cadence_every(0, 0, false);
    assert_true(c.decide_s(&c, 12.34) == 12.34);
    assert_true(c.finish_s(&c, 0.1 + 0.2) == 0.1 + 0.2);
    assert_false(c.charges_first_start);
    assert_string_equal(c.name, "events");
}

static void times_are_rounded_up_to_multiples(void **state)
{
    (void)state;
    struct cadence c = cadence_every(60, 1, true);
    assert_true(c.decide_s(&c, 0) == 0);
    assert_true(c.decide_s(&c, 0.001) == 60);
    assert_true(c.decide_s(&c, 60) == 60);
    assert_true(c.decide_s(&c, 60.5) == 120);
    assert_true(c.finish_s(&c, 2) == 2);
    assert_true(c.finish_s(&c, 2.25) == 3);
    assert_true(c.charges_first_start);
    assert_string_equal(c.name, "rounds");
}

/* 3 x 0.1 is 0.30000000000000004, a rounding error above a multiple of 0.1:
 * it is that multiple, and no time goes back. */
static void time_within_rounding_of_a_multiple_is_not_pushed_on(void **state)
{
    (void)state;
    struct cadence c = cadence_every(0.1, 0.1, false);
    double at_s = 0.1 + 0.1 + 0.1;
    assert_true(c.finish_s(&c, at_s) >= at_s);
    assert_true(c.finish_s(&c, at_s) < 0.31);
    for (int i = 0; i < 100000; i++) {
        double end_s = i * 0.037;
        assert_true(c.finish_s(&c, end_s) >= end_s);
        assert_true(c.finish_s(&c, end_s) < end_s + 0.1 + 1e-9);
    }
}

/* In the log each start and stop is at a multiple of the interval. */
static void check_decisions(const struct play *play, double interval_s)
{
    struct firn_buf log = play_read(play->log);
    long seen = 0;
    for (char *line = log.at; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        char kind[16] = "";
        double at_s;
        if (sscanf(line, "%lf\t%15s", &at_s, kind) != 2)
            continue;
        if (strcmp(kind, "start") == 0 || strcmp(kind, "stop") == 0) {
            assert_true(fmod(at_s, interval_s) == 0);
            seen++;
        }
    }
    assert_true(seen > 0);
    mem_free(log.at);
}

/* One GPU, a decision a minute:
 *   a comes at 0, [0..100)
 *   b comes at 10; the GPU is free at 100, the next decision is at 120:
 *     [120..150)
 *   c comes at 149 and waits for 180 though the GPU is free at 150:
 *     [180..190) */
static void interval_decides_only_at_its_multiples(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x1:v100", "a,0,1,100\nb,10,1,30\nc,149,1,10\n");
    play.options.interval_s = 60;
    play_run(&play, "fifo");
    assert_true(play_end(&play, "a") == 100);
    assert_true(play_job(&play, "b")->first_start_s == 120);
    assert_true(play_end(&play, "b") == 150);
    assert_true(play_job(&play, "c")->first_start_s == 180);
    assert_true(play_end(&play, "c") == 190);
    check_decisions(&play, 60);
    play_close(&play);
}

/* A threshold crossed at 20 takes effect at 60. a 1 GPU [0..60), b [60..70),
 * a again [120..160): the decision after 70 is at 120. */
static void interval_holds_for_wake_ups_too(void **state)
{
    (void)state;
    static const char *const queues[] = {"tiresias.thresholds=20"};
    struct play play;
    play_open(&play, "1x1:v100", "a,0,1,100\nb,10,1,10\n");
    play.options.interval_s = 60;
    play.options.settings = queues;
    play.options.nsettings = 1;
    play_run(&play, "tiresias");
    assert_true(play_end(&play, "b") == 70);
    assert_true(play_end(&play, "a") == 160);
    check_decisions(&play, 60);
    play_close(&play);
}

/* Completions at 10.25 and 0.5 after its start are seen at 11 and 12; what
 * the GPUs did until then counts as held. */
static void quantum_rounds_completions_up(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x1:v100", "a,0,1,10.25\nb,1,1,0.5\n");
    play.options.quantum_s = 1;
    play_run(&play, "fifo");
    assert_true(play_end(&play, "a") == 11);
    assert_true(play_job(&play, "b")->first_start_s == 11);
    assert_true(play_end(&play, "b") == 12);
    assert_true(play.result.gpu_s_given == 12);
    play_close(&play);
}

/* With a cost of 5 s, each start is charged: a [0..15), b [15..30). The
 * resumption after the preemption costs as much again. */
static void first_start_is_charged_when_asked(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x1:v100", "a,0,1,10\nb,1,1,10\n");
    play.options.restart_s = 5;
    play_run(&play, "fifo");
    assert_true(play_end(&play, "a") == 10 && play_end(&play, "b") == 20);
    play.options.charges_first_start = true;
    play_run(&play, "fifo");
    assert_true(play_end(&play, "a") == 15 && play_end(&play, "b") == 30);
    assert_true(play.result.gpu_s_overhead == 10);
    assert_int_equal(play.result.restarts, 0);
    play_close(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(honest_cadence_changes_no_time),
        cmocka_unit_test(times_are_rounded_up_to_multiples),
        cmocka_unit_test(time_within_rounding_of_a_multiple_is_not_pushed_on),
        cmocka_unit_test(interval_decides_only_at_its_multiples),
        cmocka_unit_test(interval_holds_for_wake_ups_too),
        cmocka_unit_test(quantum_rounds_completions_up),
        cmocka_unit_test(first_start_is_charged_when_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
