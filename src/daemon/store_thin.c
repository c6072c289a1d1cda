/* store_thin.c - how many reports of a job are kept.
 *
 * A trainer reports for weeks; all that is wanted of old reports is the course.
 * When a job has more than STORE_REPORTS, every second one of the older half is
 * deleted. So the newest half is whole, and what is older becomes the sparser
 * the older it is: after a million reports there is one in some hundred of the
 * first. The very first stays.
 *
 * Cost: a walk over STORE_REPORTS index entries for every STORE_REPORTS / 4
 * reports of a job.
 */
#include "daemon/storework.h"

enum firn_status store_count_reports(struct store *store, firn_job_id job,
                                     int64_t *out, struct firn_error *err)
{
    sqlite3_stmt *sql = store_sql(store, SQL_COUNT_REPORTS);
    if (sql == NULL)
        return store_unread(store, err);
    sqlite3_bind_int(sql, 1, job);
    if (sqlite3_step(sql) != SQLITE_ROW)
        return store_unread(store, err);
    *out = sqlite3_column_int64(sql, 0);
    sqlite3_reset(sql);
    return FIRN_OK;
}

enum firn_status store_thin_reports(struct store *store, firn_job_id job,
                                    int64_t *nreports, struct firn_error *err)
{
    if (*nreports <= STORE_REPORTS || store->is_stalled)
        return FIRN_OK;
    struct store_change change = store_change(store, SQL_THIN_REPORTS, 2);
    store_give_int(&change, 1, job);
    store_give_int(&change, 2, *nreports - STORE_REPORTS / 2);
    FIRN_TRY(store_apply(store, &change, err));
    *nreports -= store_nchanged(store);
    return FIRN_OK;
}
