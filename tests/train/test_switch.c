/* test_switch.c - the next task is ready when the present one is done. */
#include <firn/task.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

struct work {
    long ms;
    atomic_bool *may_end; /* NULL: when the time is over */
    double took_s;
    int order; /* when it was done: 1, 2, ... */
    int *counter;
    bool fails, silently;
    bool usr1_blocked;
};

/* At most a minute, in case the test does not end it. */
static void await(const atomic_bool *may_end)
{
    for (int i = 0; may_end != NULL && i < 60000 && !atomic_load(may_end); i++)
        sleep_ms(1);
}

static enum firn_status prepare(void *arg, struct firn_error *err)
{
    struct work *w = arg;
    sigset_t blocked;
    double start_s = now_s();
    sleep_ms(w->ms);
    await(w->may_end);
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    w->usr1_blocked = sigismember(&blocked, SIGUSR1) == 1;
    w->order = ++*w->counter;
    w->took_s = now_s() - start_s;
    if (w->fails && w->silently)
        return FIRN_EIO;
    if (w->fails)
        return firn_fail(err, FIRN_ENOENT, "no file '%s'", "weights.bin");
    return FIRN_OK;
}

/* The first stage ends when the present task has computed for a while, so that
 * much of the work is done beside it; only the rest is waited for. */
static void the_pause_is_less_than_the_work(void **state)
{
    (void)state;
    int counter = 0;
    atomic_bool has_computed = false;
    struct work loader = {.may_end = &has_computed, .counter = &counter};
    struct work weights = {.ms = 30, .counter = &counter};
    const struct firn_switch_stage stages[] = {{"loader", prepare, &loader},
                                               {"weights", prepare, &weights}};
    struct firn_switch *s = NULL;
    struct firn_switch_times times;
    assert_int_equal(firn_switch_start(&s, stages, 2, NULL), FIRN_OK);
    sleep_ms(40);
    assert_false(firn_switch_ready(s));
    atomic_store(&has_computed, true);
    double before_s = now_s();
    assert_int_equal(firn_switch_take(s, &times, NULL), FIRN_OK);
    double pause_s = now_s() - before_s;
    print_message("prepared %.0f ms, waited %.0f ms\n", 1e3 * times.prepare_s,
                  1e3 * times.waited_s);
    assert_true(times.stage_s[0] >= loader.took_s && loader.took_s > 0);
    assert_true(times.stage_s[1] >= weights.took_s && weights.took_s >= 0.029);
    assert_true(times.prepare_s == times.stage_s[0] + times.stage_s[1]);
    assert_true(times.waited_s > 0 && times.waited_s <= pause_s);
    assert_true(loader.order == 1 && weights.order == 2);
    assert_true(weights.usr1_blocked);
}

/* The shortest pause of a few: any may be one of the machine's own. */
static void with_warning_enough_there_is_no_pause(void **state)
{
    (void)state;
    int counter = 0;
    struct work loader = {.ms = 30, .counter = &counter};
    const struct firn_switch_stage stage = {"loader", prepare, &loader};
    double shortest_s = 1;
    for (int i = 0; i < 20 && shortest_s >= 0.015; i++) {
        struct firn_switch *s = NULL;
        struct firn_switch_times times;
        assert_int_equal(firn_switch_start(&s, &stage, 1, NULL), FIRN_OK);
        for (int k = 0; k < 60000 && !firn_switch_ready(s); k++)
            sleep_ms(1);
        assert_true(firn_switch_ready(s));
        assert_int_equal(firn_switch_take(s, &times, NULL), FIRN_OK);
        assert_true(times.stage_s[1] == 0);
        if (times.waited_s < shortest_s)
            shortest_s = times.waited_s;
    }
    assert_true(shortest_s < 0.015);
}

static void take_returns_the_error_of_a_failed_stage(void **state)
{
    (void)state;
    int counter = 0;
    struct work loader = {.counter = &counter};
    struct work weights = {.counter = &counter, .fails = true};
    struct work never = {.counter = &counter};
    const struct firn_switch_stage stages[] = {{"loader", prepare, &loader},
                                               {"weights", prepare, &weights},
                                               {"warm", prepare, &never}};
    struct firn_switch *s = NULL;
    struct firn_switch_times times;
    struct firn_error err = {0};
    assert_int_equal(firn_switch_start(&s, stages, 3, NULL), FIRN_OK);
    assert_int_equal(firn_switch_take(s, &times, &err), FIRN_ENOENT);
    assert_int_equal(err.status, FIRN_ENOENT);
    assert_string_equal(err.text, "weights: no file 'weights.bin'");
    assert_int_equal(never.order, 0);
    weights.silently = true;
    assert_int_equal(firn_switch_start(&s, stages, 3, NULL), FIRN_OK);
    assert_int_equal(firn_switch_take(s, NULL, &err), FIRN_EIO);
    assert_string_equal(err.text, "weights: input/output error");
    assert_int_equal(firn_switch_start(&s, stages, 3, NULL), FIRN_OK);
    assert_int_equal(firn_switch_take(s, NULL, NULL), FIRN_EIO);
}

static void wrong_stages_are_refused(void **state)
{
    (void)state;
    struct firn_switch_stage stages[9] = {{"a", prepare, NULL}};
    struct firn_switch *s = NULL;
    struct firn_error err = {0};
    assert_int_equal(firn_switch_start(&s, stages, 9, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "9 stages"));
    assert_int_equal(firn_switch_start(&s, stages, 2, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "stage 2"));
    assert_null(s);
    assert_int_equal(firn_switch_start(&s, NULL, 0, &err), FIRN_OK);
    assert_int_equal(firn_switch_take(s, NULL, &err), FIRN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pause_is_less_than_the_work),
        cmocka_unit_test(with_warning_enough_there_is_no_pause),
        cmocka_unit_test(take_returns_the_error_of_a_failed_stage),
        cmocka_unit_test(wrong_stages_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
