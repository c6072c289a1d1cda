/* test_slurm_pilot_table.c - every state and event of a further allocation. */
#include "engine/slurm_pilot_table.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bool next(int state, int event, struct pilot_row *row)
{
    return pilot_next((enum pilot_state)state, (enum pilot_event)event, row);
}

/* Slurm itself has said that it does not have the allocation. */
static bool is_slurms_word(int event)
{
    return event == PILOT_ON_OVER || event == PILOT_ON_MISSING ||
           event == PILOT_ON_REFUSED;
}

static void an_allocation_is_forgotten_by_slurms_word_only(void **state)
{
    (void)state;
    struct pilot_row row;
    for (int s = 0; s < PILOT_NSTATES; s++)
        for (int e = 0; e < PILOT_NEVENTS; e++) {
            if (!next(s, e, &row))
                continue;
            assert_true((unsigned)row.next < PILOT_NSTATES);
            assert_int_equal(row.acts & ~(unsigned)PILOT_DO_ALL, 0);
            assert_int_equal(row.next == PILOT_GONE,
                             (row.acts & PILOT_DO_FORGET) != 0);
            if (row.next == PILOT_GONE)
                assert_true(is_slurms_word(e));
        }
}

static void what_goes_back_is_cancelled_and_what_is_kept_is_not(void **state)
{
    (void)state;
    struct pilot_row row;
    for (int s = 0; s < PILOT_NSTATES; s++)
        for (int e = 0; e < PILOT_NEVENTS; e++) {
            if (!next(s, e, &row))
                continue;
            if (row.next == PILOT_RETURNING && s != PILOT_RETURNING)
                assert_true(row.acts & PILOT_DO_CANCEL);
            if (row.next != PILOT_RETURNING)
                assert_false(row.acts & PILOT_DO_CANCEL);
        }
}

static void workers_are_lost_only_where_some_train(void **state)
{
    (void)state;
    struct pilot_row row;
    for (int s = 0; s < PILOT_NSTATES; s++)
        for (int e = 0; e < PILOT_NEVENTS; e++)
            if (next(s, e, &row) && (row.acts & PILOT_DO_LOSE) != 0)
                assert_int_equal(s, PILOT_USED);
    assert_true(next(PILOT_USED, PILOT_ON_OVER, &row) &&
                (row.acts & PILOT_DO_LOSE) != 0);
}

static void an_attempt_that_ends_gives_every_allocation_back(void **state)
{
    (void)state;
    struct pilot_row row;
    for (int s = 0; s < PILOT_GONE; s++) {
        assert_true(next(s, PILOT_ON_UNWANTED, &row));
        assert_int_equal(row.next, PILOT_RETURNING);
        assert_true(next(row.next, PILOT_ON_MISSING, &row));
        assert_int_equal(row.next, PILOT_GONE);
    }
    for (int e = 0; e < PILOT_NEVENTS; e++)
        assert_false(next(PILOT_GONE, e, &row));
}

static void slurms_answers_mean_something_in_every_state(void **state)
{
    (void)state;
    struct pilot_row row;
    static const int answers[] = {PILOT_ON_PENDING, PILOT_ON_RUNS,
                                  PILOT_ON_OVER, PILOT_ON_MISSING};
    for (int s = 0; s < PILOT_GONE; s++)
        for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
            assert_true(next(s, answers[i], &row));
}

static void a_growth_and_a_shrink_go_through_all_states(void **state)
{
    (void)state;
    static const int events[] = {
        PILOT_ON_PENDING, PILOT_ON_RUNS, PILOT_ON_FILL, PILOT_ON_DONE,
        PILOT_ON_EMPTY,   PILOT_ON_DONE, PILOT_ON_OVER};
    static const int states[] = {PILOT_QUEUED, PILOT_HELD,    PILOT_JOINING,
                                 PILOT_USED,   PILOT_LEAVING, PILOT_RETURNING,
                                 PILOT_GONE};
    int at = PILOT_ASKED;
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        struct pilot_row row;
        assert_true(next(at, events[i], &row));
        at = row.next;
        assert_int_equal(at, states[i]);
    }
}

static void a_resize_begins_and_ends_only_where_it_can(void **state)
{
    (void)state;
    struct pilot_row row;
    for (int s = 0; s < PILOT_NSTATES; s++) {
        assert_int_equal(next(s, PILOT_ON_FILL, &row), s == PILOT_HELD);
        assert_int_equal(next(s, PILOT_ON_EMPTY, &row), s == PILOT_USED);
        bool is_under_way = s == PILOT_JOINING || s == PILOT_LEAVING;
        assert_int_equal(next(s, PILOT_ON_DONE, &row), is_under_way);
        assert_int_equal(next(s, PILOT_ON_FAILED, &row), is_under_way);
    }
    assert_true(next(PILOT_JOINING, PILOT_ON_FAILED, &row));
    assert_int_equal(row.next, PILOT_RETURNING); /* the old layout trains on */
    assert_true(next(PILOT_LEAVING, PILOT_ON_FAILED, &row));
    assert_int_equal(row.next, PILOT_USED);
}

static void what_slurm_refuses_a_restart_may_get(void **state)
{
    (void)state;
    struct pilot_row row;
    assert_true(next(PILOT_ASKED, PILOT_ON_REFUSED, &row));
    assert_true(row.acts & PILOT_DO_RESTART);
    assert_true(next(PILOT_QUEUED, PILOT_ON_LATE, &row));
    assert_true(row.acts & PILOT_DO_BAR); /* training goes on as it is */
    assert_false(row.acts & PILOT_DO_RESTART);
}

static void every_state_and_event_has_its_words(void **state)
{
    (void)state;
    for (int s = 0; s < PILOT_NSTATES; s++)
        assert_true(strlen(pilot_state_words((enum pilot_state)s)) > 5);
    for (int e = 0; e < PILOT_NEVENTS; e++)
        assert_true(strlen(pilot_event_words((enum pilot_event)e)) > 5);
    assert_string_equal(pilot_state_words(PILOT_NSTATES), "");
    assert_string_equal(pilot_event_words(PILOT_NEVENTS), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allocation_is_forgotten_by_slurms_word_only),
        cmocka_unit_test(what_goes_back_is_cancelled_and_what_is_kept_is_not),
        cmocka_unit_test(workers_are_lost_only_where_some_train),
        cmocka_unit_test(an_attempt_that_ends_gives_every_allocation_back),
        cmocka_unit_test(slurms_answers_mean_something_in_every_state),
        cmocka_unit_test(a_growth_and_a_shrink_go_through_all_states),
        cmocka_unit_test(a_resize_begins_and_ends_only_where_it_can),
        cmocka_unit_test(what_slurm_refuses_a_restart_may_get),
        cmocka_unit_test(every_state_and_event_has_its_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
