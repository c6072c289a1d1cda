/* test_join.c - the table of a resize without a stop, and its board.
 *
 * The table is walked over every phase and event; what must hold of it is
 * written here as sentences about all of them.
 */
#include "wire/join.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static bool next(int phase, int event, struct firn_join_row *row)
{
    return firn_join_next((enum firn_join_phase)phase,
                          (enum firn_join_event)event, row);
}

/* --- the table ------------------------------------------------------------ */

static void every_phase_and_event_is_in_the_table_or_impossible(void **state)
{
    /* . impossible, else the first letter of the next phase */
    static const char *const want[FIRN_JOIN_NPHASES] = {
        /* order ready lost late withdrawn refused commit member cleared */
        [FIRN_JOIN_IDLE] = "P......B.",
        [FIRN_JOIN_PREPARING] = ".SFFF..B.",
        [FIRN_JOIN_SWITCHING] = "..FFFFDB.",
        [FIRN_JOIN_DONE] = ".......BI",
        [FIRN_JOIN_FAILED] = ".......BI",
        [FIRN_JOIN_BROKEN] = "........."};
    static const char letter[] = "IPSDFB";
    (void)state;
    for (int p = 0; p < FIRN_JOIN_NPHASES; p++)
        for (int e = 0; e < FIRN_JOIN_NEVENTS; e++) {
            struct firn_join_row row;
            char found = next(p, e, &row) ? letter[row.next] : '.';
            if (found != want[p][e])
                fail_msg("'%s' when '%s': %c, not %c",
                         firn_join_event_words((enum firn_join_event)e),
                         firn_join_phase_words((enum firn_join_phase)p), found,
                         want[p][e]);
        }
    struct firn_join_row row;
    assert_false(next(FIRN_JOIN_NPHASES, 0, &row));
    assert_false(next(0, FIRN_JOIN_NEVENTS, &row));
}

static void before_the_commit_a_fault_keeps_the_old_layout(void **state)
{
    (void)state;
    for (int p = FIRN_JOIN_PREPARING; p <= FIRN_JOIN_SWITCHING; p++)
        for (int e = FIRN_JOIN_ON_JOINER_LOST; e <= FIRN_JOIN_ON_REFUSED; e++) {
            struct firn_join_row row;
            if (!next(p, e, &row))
                continue;
            assert_int_equal(row.next, FIRN_JOIN_FAILED);
            assert_true(row.acts & FIRN_JOIN_DO_KEEP);
            assert_true(row.acts & FIRN_JOIN_DO_END_NEW);
            assert_false(row.acts & (FIRN_JOIN_DO_SWAP | FIRN_JOIN_DO_RESUME));
        }
}

static void only_a_commit_swaps_and_only_a_lost_member_resumes(void **state)
{
    (void)state;
    for (int p = 0; p < FIRN_JOIN_NPHASES; p++)
        for (int e = 0; e < FIRN_JOIN_NEVENTS; e++) {
            struct firn_join_row row;
            if (!next(p, e, &row))
                continue;
            bool swaps = (row.acts & FIRN_JOIN_DO_SWAP) != 0;
            bool resumes = (row.acts & FIRN_JOIN_DO_RESUME) != 0;
            assert_int_equal(swaps, p == FIRN_JOIN_SWITCHING &&
                                        e == FIRN_JOIN_ON_COMMIT);
            assert_int_equal(resumes, e == FIRN_JOIN_ON_MEMBER_LOST);
            assert_int_equal(row.next == FIRN_JOIN_DONE, swaps);
            assert_int_equal(row.acts & ~(unsigned)FIRN_JOIN_DO_ALL, 0);
        }
}

static void every_phase_that_is_not_broken_leads_back_to_idle(void **state)
{
    bool leads[FIRN_JOIN_NPHASES] = {[FIRN_JOIN_IDLE] = true};
    (void)state;
    for (int turn = 0; turn < FIRN_JOIN_NPHASES; turn++)
        for (int p = 0; p < FIRN_JOIN_NPHASES; p++)
            for (int e = 0; e < FIRN_JOIN_NEVENTS; e++) {
                struct firn_join_row row;
                if (next(p, e, &row) && leads[row.next])
                    leads[p] = true;
            }
    for (int p = 0; p < FIRN_JOIN_NPHASES; p++)
        assert_int_equal(leads[p], p != FIRN_JOIN_BROKEN);
}

/* --- the board ------------------------------------------------------------ */

static struct firn_join_order grown(void)
{
    return (struct firn_join_order){
        .nold = 1, .nnew = 2, .from = {0, -1}, .limit_s = 5};
}

static void a_board_is_shared_by_the_descriptor(void **state)
{
    struct firn_join_board *board = NULL, *seen = NULL;
    char path[64];
    (void)state;
    int fd = firn_join_board_make(&board);
    assert_true(fd >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    assert_int_equal(firn_join_board_open(&seen, path, NULL), FIRN_OK);
    struct firn_join_order order = grown();
    assert_int_equal(firn_join_give(board, &order), 1);
    assert_int_equal(atomic_load(&seen->word),
                     firn_join_word(1, FIRN_JOIN_PREPARING));
    assert_int_equal(firn_join_give(board, &order), 0); /* one is under way */
    assert_false(firn_join_all_ready(seen, 1));
    atomic_store(&seen->ready[1], 1 + 1);
    assert_true(firn_join_all_ready(board, 1));
    assert_false(firn_join_all_ready(board, 2));
    firn_join_board_close(seen);
    firn_join_board_close(board);
    close(fd);
}

static void of_two_that_move_the_word_one_wins(void **state)
{
    struct firn_join_board *board = NULL;
    struct firn_join_row row;
    (void)state;
    int fd = firn_join_board_make(&board);
    assert_true(fd >= 0);
    struct firn_join_order order = grown();
    assert_int_equal(firn_join_give(board, &order), 1);
    assert_true(firn_join_move(board, 1, FIRN_JOIN_PREPARING,
                               FIRN_JOIN_ON_READY, &row));
    assert_false(
        firn_join_move(board, 1, FIRN_JOIN_PREPARING, FIRN_JOIN_ON_LATE, &row));
    assert_false(firn_join_move(board, 2, FIRN_JOIN_SWITCHING,
                                FIRN_JOIN_ON_COMMIT, &row));
    assert_true(firn_join_move(board, 1, FIRN_JOIN_SWITCHING,
                               FIRN_JOIN_ON_COMMIT, &row));
    assert_int_equal(firn_join_give(board, &order), 0); /* not cleared yet */
    assert_true(
        firn_join_move(board, 1, FIRN_JOIN_DONE, FIRN_JOIN_ON_CLEARED, &row));
    assert_int_equal(firn_join_give(board, &order), 2);
    firn_join_board_close(board);
    close(fd);
}

static void old_processes_that_prepare_hold_the_switch_back(void **state)
{
    struct firn_join_board *board = NULL;
    (void)state;
    int fd = firn_join_board_make(&board);
    assert_true(fd >= 0);
    struct firn_join_order order = grown();
    uint64_t number = firn_join_give(board, &order);
    atomic_store(&board->ready[1], number + 1);
    assert_true(firn_join_all_ready(board, number));
    atomic_store(&board->prepares, 1);
    assert_false(firn_join_all_ready(board, number));
    atomic_store(&board->set[0], number); /* of an earlier order */
    assert_false(firn_join_all_ready(board, number));
    atomic_store(&board->set[0], number + 1);
    assert_true(firn_join_all_ready(board, number));
    firn_join_board_close(board);
    close(fd);
}

static void orders_that_make_no_sense_are_refused(void **state)
{
    struct firn_join_order order;
    (void)state;
    order = grown();
    assert_true(firn_join_is_valid(&order));
    order.from[1] = 0; /* one process twice */
    assert_false(firn_join_is_valid(&order));
    order = grown();
    order.from[0] = 1; /* there is no old process 1 */
    assert_false(firn_join_is_valid(&order));
    order = grown();
    order.nnew = 0;
    assert_false(firn_join_is_valid(&order));
    order = grown();
    order.nnew = FIRN_JOIN_PROCS + 1;
    assert_false(firn_join_is_valid(&order));
    order = grown();
    order.limit_s = 0;
    assert_false(firn_join_is_valid(&order));
    order = grown();
    memset(order.layout, '0', sizeof order.layout);
    assert_false(firn_join_is_valid(&order));
}

static void a_layout_says_the_owner_of_each_thread(void **state)
{
    struct firn_join_order order = grown();
    int owner[4];
    (void)state;
    assert_true(firn_join_owners(&order, 4, owner)); /* even: 0 0 1 1 */
    assert_int_equal(owner[1], 0);
    assert_int_equal(owner[2], 1);
    assert_false(firn_join_owners(&order, 1, owner)); /* two need a thread */
    snprintf(order.layout, sizeof order.layout, "1,0,0,0");
    assert_true(firn_join_owners(&order, 4, owner));
    assert_int_equal(owner[0], 1);
    assert_int_equal(owner[3], 0);
    assert_false(firn_join_owners(&order, 3, owner));
    assert_false(firn_join_owners(&order, 5, owner));
    snprintf(order.layout, sizeof order.layout, "1,0,0,2");
    assert_false(firn_join_owners(&order, 4, owner));
}

static void other_files_are_not_boards(void **state)
{
    struct firn_join_board *board = NULL;
    struct firn_error err = {0};
    (void)state;
    assert_int_equal(firn_join_board_open(&board, "/dev/null", &err),
                     FIRN_ENOENT);
    assert_int_equal(firn_join_board_open(&board, "/proc/self/fd/999", &err),
                     FIRN_ENOENT);
    assert_null(board);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_phase_and_event_is_in_the_table_or_impossible),
        cmocka_unit_test(before_the_commit_a_fault_keeps_the_old_layout),
        cmocka_unit_test(only_a_commit_swaps_and_only_a_lost_member_resumes),
        cmocka_unit_test(every_phase_that_is_not_broken_leads_back_to_idle),
        cmocka_unit_test(a_board_is_shared_by_the_descriptor),
        cmocka_unit_test(of_two_that_move_the_word_one_wins),
        cmocka_unit_test(old_processes_that_prepare_hold_the_switch_back),
        cmocka_unit_test(orders_that_make_no_sense_are_refused),
        cmocka_unit_test(a_layout_says_the_owner_of_each_thread),
        cmocka_unit_test(other_files_are_not_boards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
