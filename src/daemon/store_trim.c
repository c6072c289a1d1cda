/* store_trim.c - deletes old rows, a few at a time.
 *
 * A caller deletes in steps, each a bounded number of rows, so that no turn of
 * the loop takes long: it walks a table by ascending id and keeps its place.
 * Pages that become free are used again by later rows: the file grows to the
 * size of what is kept and stays there; it is not made smaller.
 *
 * (1) No row of an unfinished job is deleted, however old: each statement
 * checks it. (2) The ids of deleted rows are not given out again: those of
 * events by SQLite (AUTOINCREMENT), those of jobs because the newest job is
 * kept.
 */
#include "daemon/storework.h"

static int64_t limit_of(size_t most)
{
    return most < INT32_MAX ? (int64_t)most : INT32_MAX;
}

/* The last id of the next `most` rows, and the earliest time among them. */
static enum firn_status look(struct store *store, enum store_sql which,
                             int64_t after, size_t most, int64_t *last,
                             double *earliest_s, struct firn_error *err)
{
    sqlite3_stmt *sql = store_sql(store, which);
    sqlite3_bind_int64(sql, 1, after);
    sqlite3_bind_int64(sql, 2, limit_of(most));
    if (sql == NULL || sqlite3_step(sql) != SQLITE_ROW)
        return store_unread(store, err);
    *last = sqlite3_column_int64(sql, 0); /* 0: there is none */
    *earliest_s = sqlite3_column_double(sql, 1);
    sqlite3_reset(sql);
    return FIRN_OK;
}

enum firn_status store_trim(struct store *store, enum store_list list,
                            double before_s, size_t most, struct store_trim *at,
                            struct firn_error *err)
{
    static const enum store_sql looks[] = {SQL_OLD_EVENTS, SQL_OLD_REPORTS},
                                trims[] = {SQL_TRIM_EVENTS, SQL_TRIM_REPORTS};
    int64_t last = 0;
    double earliest_s = 0;
    FIRN_TRY(
        look(store, looks[list], at->after, most, &last, &earliest_s, err));
    at->is_done = last <= at->after || earliest_s >= before_s;
    if (at->is_done)
        return FIRN_OK;
    struct store_change change = store_change(store, trims[list], 3);
    store_give_int(&change, 1, at->after);
    store_give_int(&change, 2, last);
    store_give_real(&change, 3, before_s);
    FIRN_TRY(store_apply(store, &change, err));
    at->after = last;
    return FIRN_OK;
}

enum firn_status store_each_end(struct store *store, firn_job_id after,
                                size_t most, store_end_fn *fn, void *arg,
                                struct firn_error *err)
{
    sqlite3_stmt *sql = store_sql(store, SQL_EACH_END);
    int rc = sql != NULL ? SQLITE_ROW : SQLITE_ERROR;
    sqlite3_bind_int(sql, 1, after);
    sqlite3_bind_int64(sql, 2, limit_of(most));
    while (rc == SQLITE_ROW && (rc = sqlite3_step(sql)) == SQLITE_ROW) {
        struct store_end end = {
            sqlite3_column_int(sql, 0), sqlite3_column_int(sql, 1) != 0,
            sqlite3_column_double(sql, 2), sqlite3_column_int64(sql, 3)};
        if (!fn(arg, &end))
            rc = SQLITE_DONE;
    }
    if (rc != SQLITE_DONE)
        return store_unread(store, err);
    sqlite3_reset(sql);
    return FIRN_OK;
}

static enum firn_status forget(struct store *store, enum store_sql which,
                               firn_job_id id, size_t most,
                               struct firn_error *err)
{
    struct store_change change = store_change(store, which, most > 0 ? 2 : 1);
    store_give_int(&change, 1, id);
    if (most > 0)
        store_give_int(&change, 2, limit_of(most));
    return store_apply(store, &change, err);
}

enum firn_status store_forget_job(struct store *store, firn_job_id id,
                                  size_t most, bool *is_gone,
                                  struct firn_error *err)
{
    *is_gone = false;
    FIRN_TRY(forget(store, SQL_FORGET_REPORTS, id, most, err));
    sqlite3_stmt *sql = store_sql(store, SQL_HAS_REPORTS);
    sqlite3_bind_int(sql, 1, id);
    int rc = sql != NULL ? sqlite3_step(sql) : SQLITE_ERROR;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        return store_unread(store, err);
    sqlite3_reset(sql);
    if (rc == SQLITE_ROW)
        return FIRN_OK;
    FIRN_TRY(forget(store, SQL_KEEP_USAGE, id, 0, err));
    FIRN_TRY(forget(store, SQL_FORGET_SPANS, id, 0, err));
    FIRN_TRY(forget(store, SQL_FORGET_ATTEMPTS, id, 0, err));
    FIRN_TRY(forget(store, SQL_FORGET_JOB, id, 0, err));
    *is_gone = true;
    return FIRN_OK;
}
