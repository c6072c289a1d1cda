/* test_room.c - every cell of the table of a full disk, and its invariants. */
#include "daemon/room.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <string.h>

/* The table once more, by hand: the next state and the actions. */
static const struct {
    enum room next;
    unsigned actions;
} expected[ROOM_N][ROOM_EVENT_N] = {
    /* saw none, saw little, saw enough, write failed, wrote, made, no reserve
     */
    {{ROOM_SPENT, ROOM_GIVE_UP},
     {ROOM_LOW, 0},
     {ROOM_AMPLE, 0},
     {ROOM_SPENT, ROOM_GIVE_UP | ROOM_RETRY},
     {ROOM_AMPLE, 0},
     {ROOM_AMPLE, 0},
     {ROOM_SPENT, 0}},
    {{ROOM_SPENT, ROOM_GIVE_UP},
     {ROOM_LOW, 0},
     {ROOM_AMPLE, 0},
     {ROOM_SPENT, ROOM_GIVE_UP | ROOM_RETRY},
     {ROOM_LOW, 0},
     {ROOM_LOW, 0},
     {ROOM_SPENT, 0}},
    {{ROOM_SPENT, 0},
     {ROOM_SPENT, 0},
     {ROOM_SPENT, ROOM_MAKE},
     {ROOM_FULL, ROOM_RETRY_LATER},
     {ROOM_SPENT, 0},
     {ROOM_AMPLE, 0},
     {ROOM_SPENT, 0}},
    {{ROOM_FULL, 0},
     {ROOM_FULL, 0},
     {ROOM_FULL, 0},
     {ROOM_FULL, ROOM_RETRY_LATER},
     {ROOM_SPENT, 0},
     {ROOM_FULL, 0},
     {ROOM_FULL, 0}},
};

static void every_cell_of_the_table_is_as_documented(void **state)
{
    (void)state;
    for (enum room r = 0; r < ROOM_N; r++)
        for (enum room_event e = 0; e < ROOM_EVENT_N; e++) {
            struct room_step step = room_on(r, e);
            assert_int_equal(step.next, expected[r][e].next);
            assert_int_equal(step.actions, expected[r][e].actions);
        }
}

static void a_failed_write_is_retried_at_once_only_once(void **s)
{
    (void)s;
    for (enum room r = 0; r < ROOM_N; r++) {
        int ntries = 0, nfreed = 0;
        enum room at = r;
        for (int i = 0; i < 10; i++) {
            struct room_step step = room_on(at, ROOM_WRITE_FAILED);
            ntries += (step.actions & ROOM_RETRY) != 0;
            nfreed += (step.actions & ROOM_GIVE_UP) != 0;
            at = step.next;
        }
        assert_true(ntries <= 1 && nfreed <= 1);
        assert_int_equal(at, ROOM_FULL);
    }
}

static void only_a_commit_leaves_the_state_full(void **state)
{
    (void)state;
    for (enum room_event e = 0; e < ROOM_EVENT_N; e++)
        assert_int_equal(room_on(ROOM_FULL, e).next != ROOM_FULL,
                         e == ROOM_WROTE);
}

static void from_every_state_room_leads_back_to_ample(void **state)
{
    (void)state;
    for (enum room r = 0; r < ROOM_N; r++) {
        enum room at = room_on(r, ROOM_WROTE).next;
        struct room_step step = room_on(at, ROOM_SAW_ENOUGH);
        if (step.actions & ROOM_MAKE)
            step = room_on(step.next, ROOM_MADE_RESERVE);
        assert_int_equal(step.next, ROOM_AMPLE);
    }
}

static void the_states_have_different_names(void **state)
{
    (void)state;
    for (enum room r = 1; r < ROOM_N; r++)
        assert_string_not_equal(room_name(r), room_name(r - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell_of_the_table_is_as_documented),
        cmocka_unit_test(a_failed_write_is_retried_at_once_only_once),
        cmocka_unit_test(only_a_commit_leaves_the_state_full),
        cmocka_unit_test(from_every_state_room_leads_back_to_ample),
        cmocka_unit_test(the_states_have_different_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
