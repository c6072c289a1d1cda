/* test_restart.c - what a start with many jobs costs, counted and not timed.
 *
 * A start on N jobs and one on 2N: the statements that SQLite runs, the steps
 * of its machine, and what the engine is asked. All of these may grow with the
 * jobs, none faster.
 */
#include "fullstate.h"
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>
#include <stdio.h>

/* --- counting ------------------------------------------------------------ */

struct cost {
    long statements, steps, settled, phases;
};

static struct cost cost;

static int on_statement(unsigned what, void *arg, void *sql, void *more)
{
    (void)arg;
    (void)more;
    if (what == SQLITE_TRACE_STMT)
        cost.statements++;
    else
        cost.steps += sqlite3_stmt_status(sql, SQLITE_STMTSTATUS_VM_STEP, 1);
    return 0;
}

/* For each connection that is opened from here on. */
static int watch(sqlite3 *db, const char **text, const void *api)
{
    (void)text;
    (void)api;
    return sqlite3_trace_v2(db, SQLITE_TRACE_STMT | SQLITE_TRACE_PROFILE,
                            on_statement, NULL);
}

static enum firn_status settled(void *state, struct firn_error *err)
{
    cost.settled++;
    return loopscene_engine.settled(state, err);
}

static enum firn_phase phase(void *state, firn_job_id job)
{
    cost.phases++;
    return loopscene_engine.phase(state, job);
}

/* --- starts -------------------------------------------------------------- */

static struct cost start_with(int njobs, int ran_every)
{
    struct fullstate full = {.history = njobs,
                             .living = njobs,
                             .ran_every = ran_every,
                             .oldest_s = 100};
    struct firn_engine_def engine = loopscene_engine;
    struct firn_error err = {0};
    struct config config = {0};
    struct loop *loop = NULL;
    char state[512], socket[512];
    snprintf(state, sizeof state, "%s", folder_path());
    snprintf(socket, sizeof socket, "%s", folder_file("s"));
    char *argv[] = {"firnd",    "--state", state,      "--gpus", "1x2:v100@16",
                    "--policy", "icefrog", "--socket", socket,   NULL};
    engine.settled = settled;
    engine.phase = phase;
    loopscene_remove_state();
    assert_int_equal(fullstate_fill(folder_path(), &full, &err), FIRN_OK);
    assert_int_equal(config_flags(&config, 9, argv, &err), FIRN_OK);
    assert_int_equal(config_finish(&config, &err), FIRN_OK);
    struct loop_setup setup = {
        .config = &config, .engine = &engine, .is_deaf = true};
    cost = (struct cost){0};
    sqlite3_auto_extension((void (*)(void))watch);
    assert_int_equal(loop_open(&loop, &setup, &err), FIRN_OK);
    sqlite3_cancel_auto_extension((void (*)(void))watch);
    struct cost was = cost;
    assert_int_equal(round_state(loop->desk.round)->nwaiting, njobs);
    loop_close(loop);
    config_release(&config);
    return was;
}

static void
a_start_runs_a_statement_for_each_job_that_ran_and_few_more(void **state)
{
    enum { N = 1000, EVERY = 10, MORE = 120 };
    (void)state;
    struct cost few = start_with(N, EVERY), many = start_with(2 * N, EVERY);
    assert_in_range(few.statements, 1, N / EVERY + MORE);
    assert_in_range(many.statements, 1, 2 * N / EVERY + MORE);
}

static void the_steps_of_a_start_grow_with_the_jobs_and_no_faster(void **state)
{
    enum { N = 1000, STEPS_A_JOB = 1000 };
    (void)state;
    struct cost few = start_with(N, 2), many = start_with(2 * N, 2);
    assert_in_range(few.steps, N, (uintmax_t)STEPS_A_JOB * N);
    assert_in_range(many.steps, N, (uintmax_t)(2.2 * (double)few.steps));
}

static void the_engine_is_not_asked_to_settle_for_jobs_that_wait(void **state)
{
    enum { N = 1000 };
    (void)state;
    struct cost c = start_with(N, 0);
    assert_in_range(c.settled, 0, 5);
    assert_in_range(c.phases, 0, 2 * N);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_start_runs_a_statement_for_each_job_that_ran_and_few_more),
        CASE(the_steps_of_a_start_grow_with_the_jobs_and_no_faster),
        CASE(the_engine_is_not_asked_to_settle_for_jobs_that_wait),
    };
    return cmocka_run_group_tests_name("daemon/restart", tests, NULL, NULL);
}
