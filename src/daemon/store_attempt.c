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
    FIRN_TRY(store_begin(store, err));
    sqlite3_stmt *sql = store_sql(store, SQL_CLOSE_EPOCHS);
    sqlite3_bind_int(sql, 1, last->job);
    sqlite3_bind_int64(sql, 2, last->epoch);
    sqlite3_bind_double(sql, 3, last->ended_s);
    sqlite3_bind_int(sql, 4, last->end);
    sqlite3_bind_int(sql, 5, last->exit_status);
    FIRN_TRY(store_step(store, sql, err));
    *nclosed = sqlite3_changes(store->db);
    return FIRN_OK;
}

enum firn_status store_close_over(struct store *store, int *nclosed,
                                  struct firn_error *err)
{
    FIRN_TRY(store_begin(store, err));
    sqlite3_stmt *sql = store_sql(store, SQL_CLOSE_OVER);
    sqlite3_bind_int(sql, 1, FIRN_END_LOST);
    FIRN_TRY(store_step(store, sql, err));
    *nclosed = sqlite3_changes(store->db);
    return FIRN_OK;
}
