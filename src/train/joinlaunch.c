/* joinlaunch.c - the board of resizes, for launchers that are not firnd.
 *
 * firnd's supervisor uses wire/join.h itself; this is the same for a program
 * that only has libfirn_train: tests and measurements in Python, a site's own
 * launcher.
 */
#include "wire/join.h"
#include <errno.h>
#include <firn/join.h>
#include <stdio.h>
#include <string.h>

_Static_assert((int)FIRN_JOIN_STATE_FAILED == (int)FIRN_JOIN_FAILED,
               "states are phases");

enum firn_status firn_join_board_new(struct firn_join_board **out, int *fd,
                                     struct firn_error *err)
{
    *fd = firn_join_board_make(out);
    return *fd >= 0 ? FIRN_OK
                    : firn_fail(err, FIRN_EIO, "no memory for a board: %s",
                                strerror(errno));
}

void firn_join_board_free(struct firn_join_board *board)
{
    firn_join_board_close(board);
}

uint64_t firn_join_board_order(struct firn_join_board *board, int nold,
                               int nnew, const int *from, const char *layout,
                               double limit_s)
{
    struct firn_join_order order = {
        .nold = nold, .nnew = nnew, .limit_s = limit_s};
    if (nnew < 1 || nnew > FIRN_JOIN_PROCS ||
        strlen(layout) >= sizeof order.layout)
        return 0;
    for (int i = 0; i < nnew; i++)
        order.from[i] = from[i];
    snprintf(order.layout, sizeof order.layout, "%s", layout);
    return firn_join_give(board, &order);
}

struct firn_join_told firn_join_board_told(const struct firn_join_board *board)
{
    const struct firn_join_result *r = &board->result;
    struct firn_join_told told = {
        .state = (int)firn_join_phase_of(atomic_load(&board->word)),
        .can = (int)atomic_load(&board->can),
        .pause_s = r->pause_s,
        .prepare_s = r->prepare_s,
        .step = r->step};
    snprintf(told.why, sizeof told.why, "%s", r->why);
    return told;
}

bool firn_join_board_give_up(struct firn_join_board *board, uint64_t order)
{
    struct firn_join_row row;
    return firn_join_move(board, order, FIRN_JOIN_PREPARING,
                          FIRN_JOIN_ON_JOINER_LOST, &row);
}

bool firn_join_board_clear(struct firn_join_board *board, uint64_t order)
{
    struct firn_join_row row;
    return firn_join_move(board, order, FIRN_JOIN_DONE, FIRN_JOIN_ON_CLEARED,
                          &row) ||
           firn_join_move(board, order, FIRN_JOIN_FAILED, FIRN_JOIN_ON_CLEARED,
                          &row);
}
