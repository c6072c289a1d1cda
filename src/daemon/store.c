/* store.c - statements, attempts, events, reports and settings of the state.
 *
 * (1) Every change goes through store_apply() of store_redo.c, which opens the
 * transaction and keeps the change until it is on disk. (2) All values are
 * bound, never written into a statement. (3) Reading never leaves a statement
 * open: its callbacks may not change the store. (4) Numbers of events are
 * counted here, above all earlier ones; events of a damaged file above
 * EVENTS_END are deleted.
 *
 * Durable means: WAL, synchronous=FULL, so a commit is one write and one sync
 * of the log, whatever the number of changes.
 */
#include "daemon/store.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "daemon/recover.h"
#include "daemon/storework.h"
#include <string.h>

/* A thousand events a second for 280 000 years; and every number below it is
 * exact in a double, as JSON readers have them. */
#define EVENTS_END "9007199254740992"
static const int64_t events_end = INT64_C(9007199254740992);

static const char *const texts[SQL_N] = {
    [SQL_CLOSE_ATTEMPTS] = "UPDATE epochs SET how = ?4, exit_status = ?5,"
                           " ended_s = max(started_s, ifnull((SELECT"
                           " min(n.started_s) FROM epochs AS n WHERE"
                           " n.job = epochs.job AND n.epoch > epochs.epoch),"
                           " ?3)) WHERE job = ?1 AND epoch <= ?2 AND how < 0",
    [SQL_CLOSE_OVER] = "UPDATE epochs SET how = ?1, ended_s = max(started_s,"
                       " ifnull((SELECT min(n.started_s) FROM epochs AS n"
                       " WHERE n.job = epochs.job AND n.epoch > epochs.epoch),"
                       " (SELECT j.ended_s FROM jobs AS j WHERE"
                       " j.id = epochs.job))) WHERE how < 0 AND EXISTS (SELECT"
                       " 1 FROM jobs AS j WHERE j.id = epochs.job AND"
                       " j.over = 1)",
    [SQL_BEGIN] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_NEXT_ID] = "SELECT ifnull(max(id), 0) FROM jobs"
                    " WHERE id < ?1",
    [SQL_NEXT_EVENT] =
        "SELECT max(ifnull((SELECT max(id) FROM events"
        " WHERE id < " EVENTS_END "), 0), ifnull((SELECT"
        " CAST(seq AS INTEGER) FROM sqlite_sequence"
        " WHERE name = 'events' AND seq < " EVENTS_END " AND seq > 0), 0))",
    [SQL_BAD_EVENTS] =
        "SELECT id FROM events WHERE id >= " EVENTS_END " LIMIT 1",
    [SQL_DROP_EVENTS] = "DELETE FROM events WHERE id >= ?1",
    [SQL_FIND_REQUEST] = "SELECT id FROM jobs"
                         " WHERE user = ?1 AND request = ?2 AND request <> ''",
    [SQL_FIND_NAME] = "SELECT id FROM jobs WHERE name = ?1"
                      " ORDER BY id DESC LIMIT 1",
    [SQL_FIND_PREFIX] = "SELECT name, max(id) FROM jobs WHERE name >= ?1"
                        " AND substr(name, 1, length(?1)) = ?1 AND name < ?2"
                        " AND over <= ?3 GROUP BY name ORDER BY name",
    [SQL_PUT_ATTEMPT] = "INSERT INTO epochs (job, epoch, started_s, ended_s,"
                        " how, exit_status, held) VALUES (?1, ?2, ?3, ?4, ?5,"
                        " ?6, ?7) ON CONFLICT (job, epoch) DO UPDATE SET"
                        " started_s = ?3, ended_s = ?4, how = ?5,"
                        " exit_status = ?6, held = ?7",
    [SQL_PUT_SPAN] = "INSERT INTO spans (job, epoch, gpu_s, since_s, gpus)"
                     " VALUES (?1, ?2, 0, ?3, ?4) ON CONFLICT (job, epoch)"
                     " DO UPDATE SET since_s = CASE WHEN gpu_s = 0 THEN ?3"
                     " ELSE since_s END",
    [SQL_RESIZE_ATTEMPT] = "UPDATE spans SET gpu_s = gpu_s + gpus * max(0,"
                           " ?3 - since_s), since_s = max(since_s, ?3),"
                           " gpus = ?4 WHERE job = ?1 AND epoch = ?2 AND"
                           " EXISTS (SELECT 1 FROM epochs AS e WHERE"
                           " e.job = ?1 AND e.epoch = ?2 AND e.how < 0)",
    [SQL_TIME_SPAN] = "UPDATE spans SET since_s = ?3 WHERE job = ?1 AND"
                      " epoch = ?2 AND gpu_s = 0 AND EXISTS (SELECT 1 FROM"
                      " epochs AS e JOIN jobs AS j ON j.id = e.job WHERE"
                      " e.job = ?1 AND e.epoch = ?2 AND e.how >= 0 AND"
                      " (?4 = '' OR j.user = ?4))",
    [SQL_TIME_ATTEMPT] = "UPDATE epochs SET started_s = ?3, ended_s = ?4 WHERE"
                         " job = ?1 AND epoch = ?2 AND how >= 0 AND (?5 = ''"
                         " OR EXISTS (SELECT 1 FROM jobs AS j WHERE"
                         " j.id = ?1 AND j.user = ?5))",
    [SQL_KEEP_USAGE] =
        "INSERT INTO usage (day, user, project, app, gpu_s, attempts)"
        " SELECT CAST(e.ended_s / 86400 AS INTEGER), j.user, j.project, j.app,"
        " s.gpu_s + s.gpus * max(0, e.ended_s - s.since_s), 1 FROM epochs AS e"
        " JOIN spans AS s ON s.job = e.job AND s.epoch = e.epoch"
        " JOIN jobs AS j ON j.id = e.job WHERE e.job = ?1"
        " ON CONFLICT (day, user, project, app) DO UPDATE SET"
        " gpu_s = gpu_s + excluded.gpu_s, attempts = attempts + 1",
    [SQL_FORGET_SPANS] = "DELETE FROM spans WHERE job = ?1",
    [SQL_EACH_USAGE] =
        "SELECT e.job, e.started_s, ifnull(s.since_s, 0), e.ended_s, e.how,"
        " ifnull(s.gpu_s, 0), ifnull(s.gpus, 0), j.user, j.project, j.app,"
        " e.held FROM epochs AS e JOIN jobs AS j ON j.id = e.job LEFT JOIN"
        " spans AS s ON s.job = e.job AND s.epoch = e.epoch"
        " WHERE e.how < 0 OR e.ended_s >= ?1 ORDER BY e.job, e.epoch",
    [SQL_EACH_KEPT_USAGE] = "SELECT day, user, project, app, gpu_s, attempts"
                            " FROM usage WHERE (day + 1) * 86400 >= ?1"
                            " ORDER BY day, user, project, app",
    [SQL_EACH_ATTEMPT] = "SELECT epoch, started_s, ended_s, how, exit_status,"
                         " held, cause, for_job, first_step_s FROM epochs"
                         " WHERE job = ?1"
                         " ORDER BY epoch",
    [SQL_STOP_ATTEMPT] = "UPDATE epochs SET cause = ?3, for_job = ?4"
                         " WHERE job = ?1 AND epoch = ?2 AND cause = ''",
    [SQL_FIRST_STEP] = "UPDATE epochs SET first_step_s = ?3"
                       " WHERE job = ?1 AND epoch = ?2",
    [SQL_ADD_EVENT] = "INSERT INTO events (at_s, job, kind, text, caller, id,"
                      " cause, for_job) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7,"
                      " ?8)",
    [SQL_EACH_EVENT] =
        "SELECT id, at_s, job, kind, text, caller, cause, for_job"
        " FROM events WHERE id > ?1 ORDER BY id LIMIT ?2",
    [SQL_EACH_BACK] =
        "SELECT id, at_s, job, kind, text, caller, cause, for_job"
        " FROM events WHERE id < ?1 AND id >= ?2 AND (?3 = '' OR kind = ?3)"
        " AND (?4 < 0 OR job = ?4) ORDER BY id DESC",
    [SQL_ADD_REPORT] = "INSERT INTO reports (job, epoch, at_s, report)"
                       " VALUES (?1, ?2, ?3, ?4)",
    [SQL_EACH_REPORT] = "SELECT epoch, at_s, report FROM reports"
                        " WHERE job = ?1 ORDER BY id",
    [SQL_COUNT_REPORTS] = "SELECT count(*) FROM reports WHERE job = ?1",
    [SQL_THIN_REPORTS] = "DELETE FROM reports WHERE id IN (SELECT id FROM"
                         " (SELECT id, row_number() OVER (ORDER BY id) AS n"
                         " FROM reports WHERE job = ?1)"
                         " WHERE n <= ?2 AND n % 2 = 0)",
    [SQL_PUT_META] = "INSERT INTO meta (key, value) VALUES (?1, ?2)"
                     " ON CONFLICT (key) DO UPDATE SET value = ?2",
    [SQL_GET_META] = "SELECT value FROM meta WHERE key = ?1",
    [SQL_TRIM_REPORTS] = "DELETE FROM reports WHERE id > ?1 AND id <= ?2"
                         " AND at_s < ?3 AND NOT EXISTS (SELECT 1 FROM"
                         " jobs WHERE jobs.id = reports.job AND over = 0)",
    [SQL_OLD_REPORTS] = "SELECT max(id), min(at_s) FROM (SELECT id, at_s"
                        " FROM reports WHERE id > ?1 ORDER BY id LIMIT ?2)",
    [SQL_TRIM_EVENTS] = "DELETE FROM events WHERE id > ?1 AND id <= ?2"
                        " AND at_s < ?3 AND NOT EXISTS (SELECT 1 FROM"
                        " jobs WHERE jobs.id = events.job AND over = 0)",
    [SQL_OLD_EVENTS] = "SELECT max(id), min(at_s) FROM (SELECT id, at_s"
                       " FROM events WHERE id > ?1 ORDER BY id LIMIT ?2)",
    [SQL_EACH_END] = "SELECT id, over, ended_s, epoch FROM jobs"
                     " WHERE id > ?1 ORDER BY id LIMIT ?2",
    [SQL_FORGET_REPORTS] = "DELETE FROM reports WHERE id IN (SELECT id FROM"
                           " reports WHERE job = ?1 LIMIT ?2)",
    [SQL_HAS_REPORTS] = "SELECT id FROM reports WHERE job = ?1 LIMIT 1",
    [SQL_FORGET_ATTEMPTS] = "DELETE FROM epochs WHERE job = ?1",
    [SQL_FORGET_JOB] = "DELETE FROM jobs WHERE id = ?1 AND over = 1",
};

/* --- statements ---------------------------------------------------------- */

sqlite3_stmt *store_sql(struct store *store, enum store_sql which)
{
    sqlite3_stmt **at = &store->sql[which];
    if (*at != NULL) {
        sqlite3_reset(*at);
        sqlite3_clear_bindings(*at);
        return *at;
    }
    char *made = texts[which] == NULL ? store_job_sql(which) : NULL;
    sqlite3_prepare_v3(store->db, made != NULL ? made : texts[which], -1,
                       SQLITE_PREPARE_PERSISTENT, at, NULL);
    mem_free(made);
    return *at;
}

void store_bind(sqlite3_stmt *sql, int at, const char *text)
{
    sqlite3_bind_text(sql, at, text != NULL ? text : "", -1, SQLITE_STATIC);
}

bool store_row_is_unread(sqlite3_stmt *row)
{
    return sqlite3_errcode(sqlite3_db_handle(row)) == SQLITE_NOMEM;
}

enum firn_status store_unread(struct store *store, struct firn_error *err)
{
    store_suspect(store);
    return firn_fail(err, FIRN_EIO, "%.300s: could not be read: %s",
                     store->path, sqlite3_errmsg(store->db));
}

enum firn_status store_count(struct store *store, struct firn_error *err)
{
    sqlite3_stmt *sql = store_sql(store, SQL_NEXT_ID);
    sqlite3_bind_int64(sql, 1, (int64_t)store->first_id + STORE_IDS_SPAN);
    if (sql == NULL || sqlite3_step(sql) != SQLITE_ROW)
        return store_unread(store, err);
    firn_job_id last = sqlite3_column_int(sql, 0);
    sqlite3_reset(sql);
    store->next_id = last + 1 > store->first_id ? last + 1 : store->first_id;
    sql = store_sql(store, SQL_NEXT_EVENT);
    if (sql == NULL || sqlite3_step(sql) != SQLITE_ROW)
        return store_unread(store, err);
    store->next_event = sqlite3_column_int64(sql, 0) + 1;
    sqlite3_reset(sql);
    return FIRN_OK;
}

enum firn_status store_drop_events(struct store *store, struct firn_error *err)
{
    sqlite3_stmt *sql = store_sql(store, SQL_BAD_EVENTS);
    int code = sql != NULL ? sqlite3_step(sql) : SQLITE_ERROR;
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return store_unread(store, err);
    int64_t id = code == SQLITE_ROW ? sqlite3_column_int64(sql, 0) : 0;
    sqlite3_reset(sql);
    if (code == SQLITE_DONE)
        return FIRN_OK;
    log_warn("%s: event %lld cannot be: events from %lld on are deleted",
             store->path, (long long)id, (long long)events_end);
    struct store_change change = store_change(store, SQL_DROP_EVENTS, 1);
    store_give_int(&change, 1, events_end);
    FIRN_TRY(store_apply(store, &change, err));
    enum firn_status status = store_commit(store, err);
    return status == FIRN_EUNSAVED ? FIRN_OK : status;
}

int64_t store_last_event(const struct store *store)
{
    return store->next_event - 1;
}

firn_job_id store_next_id(const struct store *store)
{
    return store->next_id;
}

firn_job_id store_first_id(const struct store *store)
{
    return store->first_id;
}

/* --- reading ------------------------------------------------------------- */

/* Shows every row to `fn` until it returns false. */
typedef bool row_fn(void *arg, sqlite3_stmt *row);

static enum firn_status each(struct store *store, sqlite3_stmt *sql, row_fn *fn,
                             void *arg, struct firn_error *err)
{
    int rc = sql != NULL ? SQLITE_ROW : SQLITE_ERROR;
    while (rc == SQLITE_ROW && (rc = sqlite3_step(sql)) == SQLITE_ROW) {
        bool goes_on = fn(arg, sql);
        if (store_row_is_unread(sql))
            rc = SQLITE_NOMEM;
        else if (!goes_on)
            rc = SQLITE_DONE;
    }
    if (rc != SQLITE_DONE)
        return store_unread(store, err);
    sqlite3_reset(sql);
    return FIRN_OK;
}

static const char *column(sqlite3_stmt *row, int at)
{
    const char *text = (const char *)sqlite3_column_text(row, at);
    return text != NULL ? text : "";
}

static bool note_id(void *arg, sqlite3_stmt *row)
{
    *(firn_job_id *)arg = sqlite3_column_int(row, 0);
    return false;
}

enum firn_status store_find_request(struct store *store, const char *user,
                                    const char *request, firn_job_id *out,
                                    struct firn_error *err)
{
    firn_job_id id = FIRN_NO_JOB;
    sqlite3_stmt *sql = store_sql(store, SQL_FIND_REQUEST);
    store_bind(sql, 1, user);
    store_bind(sql, 2, request);
    FIRN_TRY(each(store, sql, note_id, &id, err));
    *out = id;
    return FIRN_OK;
}

enum firn_status store_find_name(struct store *store, const char *name,
                                 firn_job_id *out, struct firn_error *err)
{
    firn_job_id id = FIRN_NO_JOB;
    sqlite3_stmt *sql = store_sql(store, SQL_FIND_NAME);
    store_bind(sql, 1, name);
    FIRN_TRY(each(store, sql, note_id, &id, err));
    *out = id;
    return FIRN_OK;
}

struct name_look {
    store_name_fn *fn;
    void *arg;
};

static bool show_name(void *arg, sqlite3_stmt *row)
{
    const struct name_look *look = arg;
    return look->fn(look->arg, column(row, 0), sqlite3_column_int(row, 1));
}

/* Names have only letters, digits and . _ -, all below 0x7f. */
enum firn_status store_find_prefix(struct store *store, const char *word,
                                   bool with_over, store_name_fn *fn, void *arg,
                                   struct firn_error *err)
{
    struct name_look look = {fn, arg};
    struct firn_buf last = {0};
    sqlite3_stmt *sql = store_sql(store, SQL_FIND_PREFIX);
    buf_printf(&last, "%s\x7f", word);
    store_bind(sql, 1, word);
    store_bind(sql, 2, last.at);
    sqlite3_bind_int(sql, 3, with_over);
    enum firn_status status = each(store, sql, show_name, &look, err);
    buf_release(&last);
    return status;
}

/* --- attempts, events, reports ------------------------------------------- */

enum firn_status store_put_attempt(struct store *store,
                                   const struct store_attempt *attempt,
                                   struct firn_error *err)
{
    struct store_change change = store_change(store, SQL_PUT_ATTEMPT, 7);
    store_give_int(&change, 1, attempt->job);
    store_give_int(&change, 2, attempt->number);
    store_give_real(&change, 3, attempt->started_s);
    store_give_real(&change, 4, attempt->ended_s);
    store_give_int(&change, 5, attempt->end);
    store_give_int(&change, 6, attempt->exit_status);
    store_give_text(store, &change, 7, attempt->held);
    FIRN_TRY(store_apply(store, &change, err));
    struct store_change span = store_change(store, SQL_PUT_SPAN, 4);
    store_give_int(&span, 1, attempt->job);
    store_give_int(&span, 2, attempt->number);
    store_give_real(&span, 3, attempt->started_s);
    store_give_real(&span, 4, recover_gpus(attempt->held));
    return store_apply(store, &span, err);
}

enum firn_status store_stop_attempt(struct store *store, firn_job_id job,
                                    int64_t number,
                                    const struct live_stop *stop,
                                    struct firn_error *err)
{
    struct store_change change = store_change(store, SQL_STOP_ATTEMPT, 4);
    store_give_int(&change, 1, job);
    store_give_int(&change, 2, number);
    store_give_text(store, &change, 3, live_cause_name(stop->cause));
    store_give_int(&change, 4, stop->for_job);
    return store_apply(store, &change, err);
}

enum firn_status store_first_step(struct store *store, firn_job_id job,
                                  int64_t number, double first_step_s,
                                  struct firn_error *err)
{
    struct store_change change = store_change(store, SQL_FIRST_STEP, 3);
    store_give_int(&change, 1, job);
    store_give_int(&change, 2, number);
    store_give_real(&change, 3, first_step_s);
    return store_apply(store, &change, err);
}

/* The columns `cause` and `for_job`. */
static struct live_stop stop_of(sqlite3_stmt *row, int at)
{
    return (struct live_stop){live_cause_named(column(row, at)),
                              sqlite3_column_int(row, at + 1)};
}

struct attempt_look {
    store_attempt_fn *fn;
    void *arg;
    firn_job_id job;
};

static bool show_attempt(void *arg, sqlite3_stmt *row)
{
    const struct attempt_look *look = arg;
    struct store_attempt attempt = {
        look->job,
        sqlite3_column_int64(row, 0),
        store_judge_s(sqlite3_column_double(row, 1)),
        store_judge_s(sqlite3_column_double(row, 2)),
        sqlite3_column_int(row, 3),
        sqlite3_column_int(row, 4),
        column(row, 5),
        stop_of(row, 6),
        store_judge_s(sqlite3_column_double(row, 8))};
    return store_judge_count(attempt.number) ? look->fn(look->arg, &attempt)
                                             : true;
}

enum firn_status store_each_attempt(struct store *store, firn_job_id job,
                                    store_attempt_fn *fn, void *arg,
                                    struct firn_error *err)
{
    struct attempt_look look = {fn, arg, job};
    sqlite3_stmt *sql = store_sql(store, SQL_EACH_ATTEMPT);
    sqlite3_bind_int(sql, 1, job);
    return each(store, sql, show_attempt, &look, err);
}

enum firn_status store_add_event(struct store *store, struct store_event *event,
                                 struct firn_error *err)
{
    struct store_change change = store_change(store, SQL_ADD_EVENT, 8);
    store_give_real(&change, 1, event->at_s);
    store_give_int(&change, 2, event->job);
    store_give_text(store, &change, 3, event->kind);
    store_give_text(store, &change, 4, event->text);
    store_give_text(store, &change, 5, event->caller);
    store_give_int(&change, 6, store->next_event);
    store_give_text(store, &change, 7, live_cause_name(event->stop.cause));
    store_give_int(&change, 8, event->stop.for_job);
    FIRN_TRY(store_apply(store, &change, err));
    event->id = store->next_event++;
    return FIRN_OK;
}

struct event_look {
    store_event_fn *fn;
    void *arg;
};

static bool show_event(void *arg, sqlite3_stmt *row)
{
    const struct event_look *look = arg;
    struct store_event event = {sqlite3_column_int64(row, 0),
                                store_judge_s(sqlite3_column_double(row, 1)),
                                sqlite3_column_int(row, 2),
                                column(row, 3),
                                column(row, 4),
                                column(row, 5),
                                stop_of(row, 6)};
    return look->fn(look->arg, &event);
}

enum firn_status store_each_event(struct store *store, int64_t after,
                                  size_t most, store_event_fn *fn, void *arg,
                                  struct firn_error *err)
{
    struct event_look look = {fn, arg};
    sqlite3_stmt *sql = store_sql(store, SQL_EACH_EVENT);
    sqlite3_bind_int64(sql, 1, after);
    sqlite3_bind_int64(sql, 2, most < INT64_MAX ? (int64_t)most : INT64_MAX);
    return each(store, sql, show_event, &look, err);
}

enum firn_status store_each_event_back(struct store *store,
                                       const struct store_events *which,
                                       store_event_fn *fn, void *arg,
                                       struct firn_error *err)
{
    struct event_look look = {fn, arg};
    sqlite3_stmt *sql = store_sql(store, SQL_EACH_BACK);
    sqlite3_bind_int64(sql, 1, which->before);
    sqlite3_bind_int64(sql, 2, which->from);
    store_bind(sql, 3, which->kind);
    sqlite3_bind_int64(sql, 4, which->job == FIRN_NO_JOB ? -1 : which->job);
    return each(store, sql, show_event, &look, err);
}

enum firn_status store_add_report(struct store *store, firn_job_id job,
                                  int64_t attempt, double at_s,
                                  const struct firn_trainer_report *report,
                                  struct firn_error *err)
{
    size_t n = firn_trainer_report_write(NULL, 0, report);
    char *text = mem_new(n + 1, 1);
    firn_trainer_report_write(text, n + 1, report);
    struct store_change change = store_change(store, SQL_ADD_REPORT, 4);
    store_give_int(&change, 1, job);
    store_give_int(&change, 2, attempt);
    store_give_real(&change, 3, at_s);
    store_give_text(store, &change, 4, text);
    mem_free(text);
    return store_apply(store, &change, err);
}

struct report_look {
    store_report_fn *fn;
    void *arg;
    double variance[LIVE_LAYERS];
};

/* A report that cannot be read is left out. */
static bool show_report(void *arg, sqlite3_stmt *row)
{
    struct report_look *look = arg;
    struct firn_trainer_report report;
    const char *text = column(row, 2);
    struct firn_error ignored;
    if (firn_trainer_report_read(&report, look->variance, LIVE_LAYERS, text,
                                 strlen(text), &ignored) != FIRN_OK)
        return true;
    return look->fn(look->arg, sqlite3_column_int64(row, 0),
                    store_judge_s(sqlite3_column_double(row, 1)), &report);
}

enum firn_status store_each_report(struct store *store, firn_job_id job,
                                   store_report_fn *fn, void *arg,
                                   struct firn_error *err)
{
    struct report_look look = {.fn = fn, .arg = arg};
    sqlite3_stmt *sql = store_sql(store, SQL_EACH_REPORT);
    sqlite3_bind_int(sql, 1, job);
    return each(store, sql, show_report, &look, err);
}

/* --- small things -------------------------------------------------------- */

enum firn_status store_put_meta(struct store *store, const char *key,
                                struct firn_bytes value, struct firn_error *err)
{
    struct store_change change = store_change(store, SQL_PUT_META, 2);
    store_give_text(store, &change, 1, key);
    store_give_blob(store, &change, 2, value);
    return store_apply(store, &change, err);
}

struct meta_look {
    struct firn_buf *out;
    bool is_there;
};

static bool take_meta(void *arg, sqlite3_stmt *row)
{
    struct meta_look *look = arg;
    look->is_there = true;
    const char *at = sqlite3_column_blob(row, 0);
    size_t n = at != NULL ? (size_t)sqlite3_column_bytes(row, 0) : 0;
    buf_add(look->out, n > 0 ? at : "", n);
    return false;
}

enum firn_status store_get_meta(struct store *store, const char *key,
                                struct firn_buf *out, struct firn_error *err)
{
    struct meta_look look = {out, false};
    sqlite3_stmt *sql = store_sql(store, SQL_GET_META);
    store_bind(sql, 1, key);
    FIRN_TRY(each(store, sql, take_meta, &look, err));
    if (!look.is_there)
        return firn_fail(err, FIRN_ENOENT, "nothing is kept as '%.100s'", key);
    return FIRN_OK;
}

/* --- ends of attempts that the engine did not report ---------------------- */

/* An attempt is open until it has an end. Its end may come late, after the next
 * attempt has begun, or never, when firnd was killed in between. The next one
 * begins only after the processes of the one before are gone, so an open
 * attempt ended at the latest when the next one started. An attempt that has an
 * end keeps it. */
enum firn_status store_close_attempts(struct store *store,
                                      const struct store_attempt *last,
                                      int *nclosed, struct firn_error *err)
{
    struct store_change change = store_change(store, SQL_CLOSE_ATTEMPTS, 5);
    store_give_int(&change, 1, last->job);
    store_give_int(&change, 2, last->number);
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

/* --- reports that are kept ------------------------------------------------ */

/* When a job has more than STORE_REPORTS_MOST reports, every second one of the
 * older half is deleted: the newer half stays whole, and the rest gets sparser
 * with age; the very first stays. Costs a walk over STORE_REPORTS_MOST index
 * entries for every STORE_REPORTS_MOST / 4 reports. */
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
    if (*nreports <= STORE_REPORTS_MOST || store->is_stalled)
        return FIRN_OK;
    struct store_change change = store_change(store, SQL_THIN_REPORTS, 2);
    store_give_int(&change, 1, job);
    store_give_int(&change, 2, *nreports - STORE_REPORTS_MOST / 2);
    FIRN_TRY(store_apply(store, &change, err));
    *nreports -= store_nchanged(store);
    return FIRN_OK;
}
