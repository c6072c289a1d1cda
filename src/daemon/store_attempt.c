/* store_attempt.c - ends of attempts that no event of the engine told.
 *
 * An attempt (a row of `epochs`) is open until it has an end. Its end may be
 * told late, when the next attempt has begun already, or never, when the
 * scheduler was killed in between. The next attempt begins only after the one
 * before is gone, so an open row ends, at the latest, when the next one
 * started.
 *
 * (1) A row that has an end keeps it. (2) After store_close_over() no finished
 * job has an open row.
 *
 * Cost: store_close_attempts() looks at the rows of one job; store_close_over()
 * at all rows, once, when the file is opened.
 */
#include "daemon/storework.h"

enum firn_status store_close_attempts(struct store *store,
                                      const struct store_epoch *last,
                                      int *nclosed, struct firn_error *err)
{
    struct store_change change = store_change(store, SQL_CLOSE_EPOCHS, 5);
    store_give_int(&change, 1, last->job);
    store_give_int(&change, 2, last->epoch);
    store_give_real(&change, 3, last->ended_s);
    store_give_int(&change, 4, last->end);
    store_give_int(&change, 5, last->exit_status);
    FIRN_TRY(store_apply(store, &change, err));
    *nclosed = store_nchanged(store);
    return FIRN_OK;
}

enum firn_status store_close_over(struct store *store, int *nclosed,
                                  struct firn_error *err)
{
    struct store_change change = store_change(store, SQL_CLOSE_OVER, 1);
    store_give_int(&change, 1, FIRN_END_LOST);
    FIRN_TRY(store_apply(store, &change, err));
    *nclosed = store_nchanged(store);
    return FIRN_OK;
}
