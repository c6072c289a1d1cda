/* test_pool.c - tasks in child processes: order, crashes, interruption.
 *
 * A fake task does what `acts` has for its number.
 */
#include "cli/pool.c" /* programs link libfirn.a, which has no cli */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/resource.h>
#include <time.h>

enum act { SQUARE, FAIL, CRASH, LEAVE, HANG, DEAF };

struct fake {
    const enum act *acts;
    int watched;       /* calls of watch() */
    int nlooks;        /* a thousand are more than a minute */
    double seen_share; /* progress sent by the second task */
};

static void sleep_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static enum firn_status act(void *arg, size_t task, struct pool_child *child,
                            void *out, struct firn_error *err)
{
    const struct fake *fake = arg;
    *(long *)out = (long)(task * task);
    pool_share(child, 0.25);
    switch (fake->acts ? fake->acts[task] : SQUARE) {
    case SQUARE: /* later tasks end earlier */
        sleep_ms(task < 8 ? 40 - 5 * (long)task : 0);
        return FIRN_OK;
    case FAIL:
        return firn_fail(err, FIRN_EINVAL, "task %zu is bad", task);
    case CRASH: {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        raise(SIGABRT);
        return FIRN_OK;
    }
    case LEAVE:
        _exit(3);
    case HANG:
        while (!*pool_stop())
            sleep_ms(5);
        return firn_fail(err, FIRN_EINTR, "interrupted");
    case DEAF:
        for (;;)
            sleep_ms(1000);
    }
    return FIRN_OK;
}

static void run_pool(struct pool *pool, struct fake *fake, size_t ntasks,
                     int width)
{
    *pool = (struct pool){.ntasks = ntasks,
                          .out_size = sizeof(long),
                          .width = width,
                          .arg = fake,
                          .run = act};
}

static void outcomes_are_in_the_order_of_tasks(void **state)
{
    (void)state;
    static const int widths[] = {1, 3, 8, 100};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        struct fake fake = {0};
        struct pool pool;
        run_pool(&pool, &fake, 20, widths[w]);
        pool_run(&pool);
        assert_false(pool.is_interrupted);
        for (size_t i = 0; i < 20; i++) {
            assert_int_equal(pool.outcomes[i].state, POOL_ENDED);
            assert_int_equal(pool.outcomes[i].status, FIRN_OK);
            assert_true(pool.outcomes[i].has_out);
            assert_int_equal(*(long *)pool.outcomes[i].out, (long)(i * i));
        }
        pool_release(&pool);
    }
}

static void a_crashed_task_is_reported_and_the_others_finish(void **state)
{
    (void)state;
    static const enum act acts[] = {SQUARE, CRASH, FAIL, LEAVE, SQUARE};
    struct fake fake = {.acts = acts};
    struct pool pool;
    run_pool(&pool, &fake, 5, 2);
    pool_run(&pool);
    assert_int_equal(pool.outcomes[0].status, FIRN_OK);
    assert_int_equal(pool.outcomes[1].status, FIRN_EIO);
    assert_false(pool.outcomes[1].has_out);
    assert_non_null(strstr(pool.outcomes[1].text, "killed by signal 6 ("));
    assert_int_equal(pool.outcomes[2].status, FIRN_EINVAL);
    assert_string_equal(pool.outcomes[2].text, "task 2 is bad");
    assert_string_equal(pool.outcomes[3].text,
                        "the process exited with status 3 without a result");
    assert_int_equal(*(long *)pool.outcomes[4].out, 16);
    pool_release(&pool);
}

/* Interrupts when the two tasks that end have ended and the task between them
 * has sent its progress. */
static void interrupt(void *arg, const struct pool *pool)
{
    struct fake *fake = arg;
    bool has_said = pool->outcomes[1].share > 0 || ++fake->nlooks > 1000;
    if (pool_progress(pool).nended == 2 && has_said && fake->watched++ == 0) {
        fake->seen_share = pool->outcomes[1].share;
        raise(SIGINT);
    }
}

static void an_interrupt_keeps_finished_outcomes(void **state)
{
    (void)state;
    static const enum act acts[] = {SQUARE, HANG, SQUARE, HANG, SQUARE};
    struct fake fake = {.acts = acts};
    struct pool pool;
    run_pool(&pool, &fake, 5, 2);
    pool.watch = interrupt;
    pool_run(&pool);
    assert_true(pool.is_interrupted);
    assert_int_equal(pool.outcomes[0].state, POOL_ENDED);
    assert_int_equal(pool.outcomes[1].state, POOL_STOPPED);
    assert_int_equal(pool.outcomes[2].state, POOL_ENDED);
    assert_int_equal(pool.outcomes[3].state, POOL_STOPPED);
    assert_int_equal(pool.outcomes[4].state, POOL_WAITING);
    assert_true(fake.seen_share == 0.25);
    pool_release(&pool);
}

static void interrupt_twice(void *arg, const struct pool *pool)
{
    struct fake *fake = arg;
    (void)pool;
    if (fake->watched++ < 4)
        raise(SIGTERM);
}

static void a_child_that_ignores_sigterm_is_killed(void **state)
{
    (void)state;
    static const enum act acts[] = {DEAF};
    struct fake fake = {.acts = acts};
    struct pool pool;
    run_pool(&pool, &fake, 1, 1);
    pool.watch = interrupt_twice;
    pool_run(&pool);
    assert_true(pool.is_interrupted);
    assert_int_equal(pool.outcomes[0].state, POOL_STOPPED);
    pool_release(&pool);
}

static void a_pool_without_tasks_returns_at_once(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct pool pool;
    run_pool(&pool, &fake, 0, 4);
    pool_run(&pool);
    assert_false(pool.is_interrupted);
    pool_release(&pool);
}

static void
progress_sums_all_tasks_and_names_the_first_running_one(void **state)
{
    (void)state;
    struct pool_outcome outcomes[] = {{.state = POOL_ENDED},
                                      {.state = POOL_RUNNING, .share = 0.5},
                                      {.state = POOL_STOPPED, .share = 0.25},
                                      {.state = POOL_RUNNING, .share = 0.25},
                                      {.state = POOL_WAITING}};
    struct pool pool = {.ntasks = 5, .outcomes = outcomes};
    struct pool_progress at = pool_progress(&pool);
    assert_true(at.share == 0.4);
    assert_int_equal(at.nended, 1);
    assert_int_equal(at.running, 1);
    outcomes[1].state = outcomes[3].state = POOL_ENDED;
    at = pool_progress(&pool);
    assert_true(at.share == 3.25 / 5);
    assert_int_equal(at.nended, 3);
    assert_int_equal(at.running, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outcomes_are_in_the_order_of_tasks),
        cmocka_unit_test(a_crashed_task_is_reported_and_the_others_finish),
        cmocka_unit_test(an_interrupt_keeps_finished_outcomes),
        cmocka_unit_test(a_child_that_ignores_sigterm_is_killed),
        cmocka_unit_test(a_pool_without_tasks_returns_at_once),
        cmocka_unit_test(
            progress_sums_all_tasks_and_names_the_first_running_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
