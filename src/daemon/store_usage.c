/* store_usage.c - GPU-seconds of attempts, exact over restarts of firnd.
 *
 * The span of an attempt has GPU-seconds up to since_s and the GPUs held from
 * then on; since_s moves when a running job is resized. So the GPU-seconds of
 * an attempt are gpu_s + gpus * (ended_s - since_s), and those of an open one
 * the same with now. They change in the same commit as the attempt itself: an
 * attempt is charged once, whenever firnd is killed. An attempt whose end
 * firnd did not see ends as store_close_attempts() and store_close_over() say.
 *
 * (1) A half-share of a GPU counts half. (2) Rows of versions that did not
 * count have gpus 0 and since_s 0: their text of GPUs is counted instead. (3)
 * When a finished job is removed from the database, its GPU-seconds go to the
 * sum of the day on which the attempt ended.
 *
 * Cost: a walk over the attempts.
 */
#include "daemon/recover.h"
#include "daemon/storework.h"
#include <math.h>

enum firn_status store_resize_attempt(struct store *store, firn_job_id job,
                                      int64_t number, double at_s,
                                      const char *held, struct firn_error *err)
{
    if (number == 0)
        return FIRN_OK;
    struct store_change change = store_change(store, SQL_RESIZE_ATTEMPT, 4);
    store_give_int(&change, 1, job);
    store_give_int(&change, 2, number);
    store_give_real(&change, 3, at_s);
    store_give_real(&change, 4, recover_gpus(held));
    return store_apply(store, &change, err);
}

enum firn_status store_time_attempt(struct store *store,
                                    const struct store_attempt *times,
                                    const char *user, struct firn_error *err)
{
    struct store_change span = store_change(store, SQL_TIME_SPAN, 4);
    store_give_text(store, &span, 4, user != NULL ? user : "");
    store_give_int(&span, 1, times->job);
    store_give_int(&span, 2, times->number);
    store_give_real(&span, 3, times->started_s);
    FIRN_TRY(store_apply(store, &span, err));
    struct store_change change = store_change(store, SQL_TIME_ATTEMPT, 5);
    store_give_int(&change, 1, times->job);
    store_give_int(&change, 2, times->number);
    store_give_real(&change, 3, times->started_s);
    store_give_real(&change, 4, times->ended_s);
    store_give_text(store, &change, 5, user != NULL ? user : "");
    return store_apply(store, &change, err);
}

static const char *text_at(sqlite3_stmt *row, int at)
{
    const char *text = (const char *)sqlite3_column_text(row, at);
    return text != NULL ? text : "";
}

static void show_row(sqlite3_stmt *row, double now_s, store_usage_fn *fn,
                     void *arg)
{
    struct store_usage usage = {
        .job = sqlite3_column_int(row, 0),
        .started_s = store_judge_s(sqlite3_column_double(row, 1)),
        .is_open = sqlite3_column_int(row, 4) < 0,
        .gpu_s = sqlite3_column_double(row, 5),
        .user = text_at(row, 7),
        .project = text_at(row, 8),
        .app = text_at(row, 9),
        .attempts = 1};
    double since_s = store_judge_s(sqlite3_column_double(row, 2));
    double gpus = sqlite3_column_double(row, 6);
    usage.ended_s =
        usage.is_open ? now_s : store_judge_s(sqlite3_column_double(row, 3));
    if (since_s <= 0) { /* (2) */
        since_s = usage.started_s;
        gpus = recover_gpus(text_at(row, 10));
    }
    usage.gpu_s += gpus * fmax(0, usage.ended_s - since_s);
    fn(arg, &usage);
}

static void show_kept(sqlite3_stmt *row, store_usage_fn *fn, void *arg)
{
    double day_s = 86400 * sqlite3_column_double(row, 0);
    struct store_usage usage = {.job = FIRN_NO_JOB,
                                .user = text_at(row, 1),
                                .project = text_at(row, 2),
                                .app = text_at(row, 3),
                                .started_s = day_s,
                                .ended_s = day_s + 86400,
                                .gpu_s = sqlite3_column_double(row, 4),
                                .attempts = sqlite3_column_int64(row, 5)};
    fn(arg, &usage);
}

enum firn_status store_each_usage(struct store *store, double since_s,
                                  double now_s, store_usage_fn *fn, void *arg,
                                  struct firn_error *err)
{
    static const enum store_sql both[] = {SQL_EACH_KEPT_USAGE, SQL_EACH_USAGE};
    for (int i = 0; i < 2; i++) {
        sqlite3_stmt *sql = store_sql(store, both[i]);
        int rc = sql != NULL ? SQLITE_ROW : SQLITE_ERROR;
        sqlite3_bind_double(sql, 1, since_s);
        while (rc == SQLITE_ROW && (rc = sqlite3_step(sql)) == SQLITE_ROW) {
            if (i == 0)
                show_kept(sql, fn, arg);
            else
                show_row(sql, now_s, fn, arg);
        }
        if (rc != SQLITE_DONE)
            return store_unread(store, err);
        sqlite3_reset(sql);
    }
    return FIRN_OK;
}
