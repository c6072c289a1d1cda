/* test_livecosts.c - measured costs of starts, stops and resizes. */
#include "base/buf.h"
#include "daemon/livecosts.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

static void a_cost_is_the_mean_of_the_applications_measurements(void **state)
{
    (void)state;
    struct livecosts *costs = livecosts_new();
    assert_true(livecosts_mean(costs, "a", LIVECOST_START) < 0);
    livecosts_add(costs, "a", LIVECOST_START, 10);
    livecosts_add(costs, "a", LIVECOST_START, 20);
    livecosts_add(costs, "a", LIVECOST_START, (double)NAN);
    livecosts_add(costs, "a", LIVECOST_START, -1);
    assert_true(livecosts_mean(costs, "a", LIVECOST_START) == 15);
    assert_true(livecosts_mean(costs, "a", LIVECOST_STOP) < 0);
    livecosts_free(costs);
}

static void an_unknown_application_costs_what_all_jobs_cost(void **state)
{
    (void)state;
    struct livecosts *costs = livecosts_new();
    livecosts_add(costs, "a", LIVECOST_STOP, 1);
    livecosts_add(costs, "b", LIVECOST_STOP, 3);
    assert_true(livecosts_mean(costs, "c", LIVECOST_STOP) == 2);
    assert_true(livecosts_mean(costs, "b", LIVECOST_STOP) == 3);
    livecosts_free(costs);
}

static void a_cost_that_changed_is_known_after_a_few(void **state)
{
    (void)state;
    struct livecosts *costs = livecosts_new();
    for (int i = 0; i < 1000; i++)
        livecosts_add(costs, "a", LIVECOST_START, 100);
    for (int i = 0; i < 12; i++)
        livecosts_add(costs, "a", LIVECOST_START, 10);
    assert_true(livecosts_mean(costs, "a", LIVECOST_START) < 13);
    livecosts_free(costs);
}

static void a_restart_is_a_stop_and_a_start(void **state)
{
    (void)state;
    struct livecosts *costs = livecosts_new();
    struct firn_costs out = {.restart = {.pause_s = -1},
                             .resize = {.pause_s = -1}};
    livecosts_of(costs, "a", NULL, &out);
    assert_false(out.is_seen || out.can_resize);
    assert_true(out.restart.pause_s < 0 && out.resize.pause_s < 0);
    struct firn_profile profile = {.resize = {2, 12, 0}};
    livecosts_of(costs, "a", &profile, &out); /* before it was measured here */
    assert_true(out.can_resize && out.resize.pause_s == 2);
    livecosts_add(costs, "a", LIVECOST_START, 15);
    livecosts_add(costs, "a", LIVECOST_END, 1);
    livecosts_of(costs, "a", &profile, &out); /* before any stop */
    assert_true(out.is_seen && out.restart.pause_s == 16);
    livecosts_add(costs, "a", LIVECOST_STOP, 2);
    livecosts_add(costs, "a", LIVECOST_PAUSE, 0.5);
    livecosts_add(costs, "a", LIVECOST_PREPARE, 8);
    livecosts_add(costs, "a", LIVECOST_SLOWDOWN, 2);
    livecosts_of(costs, "a", &profile, &out);
    assert_true(out.is_seen && out.restart.pause_s == 17);
    assert_true(out.first_s == 15); /* nothing has to stop before it */
    assert_true(out.resize.pause_s == 0.5 && out.resize.prepare_s == 8);
    assert_true(firn_cost_lost_s(&out.resize) == 4.5);
    assert_true(livecosts_start_s(costs, "a") == 15);
    livecosts_add(costs, "a", LIVECOST_FIRST, 2); /* slow first steps */
    livecosts_of(costs, "a", &profile, &out);
    assert_true(out.restart.pause_s == 19 && out.first_s == 17);
    assert_true(livecosts_start_s(costs, "a") == 17);
    assert_true(livecosts_around_s(costs, "a") == 18);
    livecosts_free(costs);
}

static void costs_outlive_a_restart(void **state)
{
    (void)state;
    struct livecosts *costs = livecosts_new(), *again = livecosts_new();
    struct firn_buf text = {0}, second = {0};
    livecosts_add(costs, "", LIVECOST_START, 4);
    livecosts_add(costs, "a b", LIVECOST_PAUSE, 0.125);
    livecosts_save(costs, &text);
    buf_puts(&text, "broken\t1\nx\t1\t1\tno\t1\n\t\t\t\n");
    livecosts_load(again, text.at);
    livecosts_save(again, &second);
    text.n -= 31; /* without what cannot be read */
    assert_memory_equal(text.at, second.at, second.n);
    assert_true(livecosts_mean(again, "", LIVECOST_START) == 4);
    assert_true(livecosts_mean(again, "c", LIVECOST_PAUSE) == 0.125);
    buf_release(&text);
    buf_release(&second);
    livecosts_free(costs);
    livecosts_free(again);
}

/* 25 s of start and end; the numbers are those of test_told.c. */
static void a_training_time_is_that_of_the_applications_users(void **state)
{
    (void)state;
    struct livecosts *costs = livecosts_new(), *again = livecosts_new();
    struct firn_buf text = {0}, second = {0};
    livecosts_add(costs, "a b", LIVECOST_START, 20);
    livecosts_add(costs, "a b", LIVECOST_END, 5);
    assert_true(livecosts_training_s(costs, "a b", 100) == 75);
    livecosts_ended(costs, "a b", 100, 110);
    double training_s = livecosts_training_s(costs, "a b", 100);
    assert_true(fabs(training_s - 84.8367347) < 1e-6);
    assert_true(livecosts_training_s(costs, "a b", 5) == 0.5);
    assert_true(livecosts_training_s(costs, "other", 100) == 75);
    livecosts_save(costs, &text);
    livecosts_load(again, text.at);
    buf_clear(&text);
    livecosts_save_told(costs, &text);
    size_t n = text.n;
    buf_puts(&text, "broken\t1\na b\t1\t10\t1\t0\t0\n"
                    "a b\tnan\t1\t1\t1\t1\nx\t\t\t\n\n");
    livecosts_load_told(again, text.at);
    assert_true(livecosts_training_s(again, "a b", 100) == training_s);
    livecosts_save_told(again, &second);
    assert_int_equal(second.n, n);
    assert_memory_equal(text.at, second.at, n);
    buf_release(&text);
    buf_release(&second);
    livecosts_free(costs);
    livecosts_free(again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cost_is_the_mean_of_the_applications_measurements),
        cmocka_unit_test(an_unknown_application_costs_what_all_jobs_cost),
        cmocka_unit_test(a_cost_that_changed_is_known_after_a_few),
        cmocka_unit_test(a_restart_is_a_stop_and_a_start),
        cmocka_unit_test(costs_outlive_a_restart),
        cmocka_unit_test(a_training_time_is_that_of_the_applications_users),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
