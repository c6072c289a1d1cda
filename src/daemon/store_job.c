/* store_job.c - a job as a row of the state file, and back.
 *
 * One table has every column with its member; the fields that a user sets come
 * from core/jobfields.def. Statements, bound values and reading back are made
 * from it. (The table in the file is made by store_schema.c: a field with
 * `.since` gets its step there; a column of firnd's own needs a step and a line
 * here.)
 *
 * (1) States and reasons are kept by name, so that their order may change. (2)
 * Lists are their texts one after another, each with its NUL. (3) A row with a
 * value that cannot be understood (an unknown state, a list without its last
 * NUL, a report that is not JSON, a number out of bounds: store_judge.c) is
 * left out, the log names it, and it stays on disk. (4) The id of another job
 * is stored as id + 1, and 0 for FIRN_NO_JOB: the default of the column, and
 * the value in files of older versions.
 *
 * Cost: some 60 columns, 6 microseconds a job; bench/store.c measures it.
 */
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/storework.h"
#include <limits.h>
#include <string.h>

/* Of a column: enum job_storage, or one of these. */
enum { I64 = JOB_AS_REAL + 1, JOB_ID, CHARS, STATE, REASON };

struct field {
    const char *column;
    int kind;
    bool changes; /* after the submit: written by store_put_job */
    size_t at, size;
    int64_t least, most; /* of whole numbers */
};

#define AT(f) offsetof(struct live_job, f), sizeof(((struct live_job *)0)->f)
#define FIELD(f, kind, changes)              \
    {                                        \
#f, kind, changes, AT(f), 0, INT_MAX \
    }
#define COUNTED(column, f)                            \
    {                                                 \
        column, I64, true, AT(f), 0, INT64_C(1) << 53 \
    }
#define HOW(f, kind, most)                        \
    {                                             \
        "how_" #f, kind, true, AT(how.f), 0, most \
    }

/* The number of a job, the fields that its user sets, and what firnd keeps of
 * it. Of the former job_fields[] has the bounds and which of them change. */
static const struct field fields[] = {
    FIELD(id, JOB_AS_INT, false),
#define JOB_FIELD(f, kind, ...) \
    {#f, JOB_STORAGE_##kind, false, AT(ask.f), 0, INT_MAX},
#include "core/jobfields.def"
    FIELD(text, JOB_AS_TEXT, false),
    FIELD(request, JOB_AS_TEXT, false),
    FIELD(token, CHARS, false),
    FIELD(submitted_s, JOB_AS_REAL, false),
    FIELD(started_s, JOB_AS_REAL, true),
    FIELD(ended_s, JOB_AS_REAL, true),
    FIELD(state, STATE, true),
    FIELD(reason, REASON, true),
    FIELD(why, CHARS, true),
    FIELD(is_held, JOB_AS_BOOL, true),
    FIELD(is_ending, JOB_AS_BOOL, true),
    COUNTED("epoch", attempt),
    FIELD(nretries, JOB_AS_INT, true),
    {"exit_status", JOB_AS_INT, true, AT(exit_status), INT_MIN, INT_MAX},
    FIELD(gpu_type, CHARS, true),
    FIELD(held, JOB_AS_TEXT, true),
    HOW(passes, JOB_AS_INT, 1 << 20),
    HOW(tensor, JOB_AS_INT, 1 << 20),
    HOW(parallel, JOB_AS_INT, INT_MAX),
    HOW(stages, JOB_AS_INT, 1 << 20),
    HOW(merged_with, JOB_ID, INT_MAX - 1),
    HOW(after, JOB_ID, INT_MAX - 1),
    FIELD(reported_s, JOB_AS_REAL, true),
    COUNTED("reported_epoch", reported_attempt),
};

/* Behind the fields: is it over; the last report and the orders, as JSON. */
enum { NFIELDS = sizeof fields / sizeof *fields, OVER = NFIELDS, LAST, ORDERS };
static const char *const extra[] = {"over", "last", "orders"};
enum { NCOLUMNS = NFIELDS + sizeof extra / sizeof *extra };

static const char *column_name(int i)
{
    return i < NFIELDS ? fields[i].column : extra[i - NFIELDS];
}

/* The row of core/jobfields.def; NULL: the column is none of a user's. */
static const struct job_field *asked(int i)
{
    return i >= 1 && i <= JOB_NFIELDS ? &job_fields[i - 1] : NULL;
}

static bool changes(int i)
{
    return asked(i) != NULL ? (asked(i)->where & JOB_CHANGES) != 0
                            : i >= NFIELDS || fields[i].changes;
}

/* --- statements ---------------------------------------------------------- */

/* "name, queue, ..." or "name = ?2, ..." of those that change. Parameters are
 * numbered by column, from 1. */
static void list_columns(struct firn_buf *sql, bool only_changes)
{
    const char *comma = "";
    for (int i = 0; i < NCOLUMNS; i++) {
        if (only_changes && !changes(i))
            continue;
        buf_printf(sql, "%s%s", comma, column_name(i));
        if (only_changes)
            buf_printf(sql, " = ?%d", i + 1);
        comma = ", ";
    }
}

char *store_job_sql(enum store_sql which)
{
    struct firn_buf sql = {0};
    if (which == SQL_ADD_JOB) {
        buf_puts(&sql, "INSERT INTO jobs (");
        list_columns(&sql, false);
        buf_puts(&sql, ") VALUES (");
        for (int i = 0; i < NCOLUMNS; i++)
            buf_printf(&sql, "%s?%d", i > 0 ? ", " : "", i + 1);
        buf_putc(&sql, ')');
        return sql.at;
    }
    if (which == SQL_PUT_JOB) {
        buf_puts(&sql, "UPDATE jobs SET ");
        list_columns(&sql, true);
        buf_puts(&sql, " WHERE id = ?1");
        return sql.at;
    }
    buf_puts(&sql, "SELECT ");
    list_columns(&sql, false);
    buf_puts(&sql, " FROM jobs");
    if (which == SQL_READ_JOB)
        buf_puts(&sql, " WHERE id = ?1");
    else if (which == SQL_LIVE_JOBS)
        buf_puts(&sql, " WHERE over = 0 ORDER BY id");
    else if (which == SQL_OVER_JOBS)
        buf_puts(&sql, " WHERE over = 1 ORDER BY id DESC LIMIT ?1");
    else
        buf_puts(&sql, " ORDER BY id");
    return sql.at;
}

/* --- writing ------------------------------------------------------------- */

static void give_list(struct store *store, struct store_change *change, int at,
                      char *const *list)
{
    struct firn_buf blob = {0};
    for (size_t i = 0; list != NULL && list[i] != NULL; i++)
        buf_add(&blob, list[i], strlen(list[i]) + 1);
    store_give_blob(store, change, at,
                    (struct firn_bytes){blob.n > 0 ? blob.at : "", blob.n});
    buf_release(&blob);
}

static void give_field(struct store *store, struct store_change *change, int at,
                       const struct field *field, const void *value)
{
    switch (field->kind) {
    case JOB_AS_INT:
        store_give_int(change, at, *(const int *)value);
        return;
    case JOB_ID: /* (4) */
        store_give_int(change, at, *(const firn_job_id *)value + 1);
        return;
    case I64:
    case JOB_AS_COUNT:
        store_give_int(change, at, *(const int64_t *)value);
        return;
    case JOB_AS_BOOL:
        store_give_int(change, at, *(const bool *)value);
        return;
    case JOB_AS_REAL:
        store_give_real(change, at, *(const double *)value);
        return;
    case JOB_AS_TEXT:
        store_give_text(store, change, at, *(char *const *)value);
        return;
    case CHARS:
        store_give_text(store, change, at, value);
        return;
    case JOB_AS_LIST:
        give_list(store, change, at, *(char **const *)value);
        return;
    case STATE:
        store_give_text(store, change, at,
                        live_state_name(*(const enum live_state *)value));
        return;
    default: /* REASON */
        store_give_text(store, change, at,
                        live_reason_name(*(const enum live_reason *)value));
        return;
    }
}

static void give_extra(struct store *store, struct store_change *change,
                       const struct live_job *job)
{
    store_give_int(change, OVER + 1, live_state_is_over(job->state));
    size_t n = job->reported_s > 0
                   ? firn_trainer_report_write(NULL, 0, &job->last)
                   : 0;
    char *text = mem_new(n + 1, 1);
    if (n > 0)
        firn_trainer_report_write(text, n + 1, &job->last);
    store_give_text(store, change, LAST + 1, text);
    mem_free(text);
    char orders[256];
    size_t norders = firn_orders_write(orders, sizeof orders, &job->orders);
    if (norders >= sizeof orders)
        FIRN_BUG("orders of %zu bytes", norders);
    store_give_text(store, change, ORDERS + 1, orders);
}

static enum firn_status write_job(struct store *store, enum store_sql which,
                                  const struct live_job *job,
                                  struct firn_error *err)
{
    struct store_change change = store_change(store, which, NCOLUMNS);
    for (int i = 0; i < NFIELDS; i++)
        if (which == SQL_ADD_JOB || i == 0 || changes(i))
            give_field(store, &change, i + 1, &fields[i],
                       (const char *)job + fields[i].at);
    give_extra(store, &change, job);
    return store_apply(store, &change, err);
}

enum firn_status store_add_job(struct store *store, const struct live_job *job,
                               struct firn_error *err)
{
    FIRN_TRY(write_job(store, SQL_ADD_JOB, job, err));
    if (job->id >= store->next_id)
        store->next_id = job->id + 1;
    return FIRN_OK;
}

enum firn_status store_put_job(struct store *store, const struct live_job *job,
                               struct firn_error *err)
{
    return write_job(store, SQL_PUT_JOB, job, err);
}

/* --- reading ------------------------------------------------------------- */

static char **read_list(sqlite3_stmt *row, int at)
{
    const char *blob = sqlite3_column_blob(row, at);
    size_t bytes = (size_t)sqlite3_column_bytes(row, at), n = 0;
    if (bytes > 0 && (blob == NULL || blob[bytes - 1] != '\0'))
        return NULL;
    for (size_t i = 0; i < bytes; i++)
        n += blob[i] == '\0';
    char **list = mem_new(n + 1, sizeof *list);
    for (size_t i = 0; i < n; i++, blob += strlen(blob) + 1)
        list[i] = mem_strdup(blob);
    return list;
}

/* True: it is a whole number within its bounds, or no whole number is wanted. A
 * number that was not given is 0, whatever the bounds. */
static bool read_whole(sqlite3_stmt *row, int at, int64_t *out)
{
    const struct field *field = &fields[at];
    const struct job_field *ask = asked(at);
    int64_t least = field->least, most = field->most;
    *out = 0;
    if (field->kind != JOB_AS_INT && field->kind != I64 &&
        field->kind != JOB_ID && field->kind != JOB_AS_BOOL &&
        field->kind != JOB_AS_COUNT)
        return true;
    if (ask != NULL && ask->most > 0)
        most = ask->most;
    if (field->kind == JOB_AS_COUNT)
        most = INT64_MAX;
    return store_judge_whole(row, at, least, most, out);
}

/* False: it cannot be understood. */
static bool read_field(sqlite3_stmt *row, int at, void *value)
{
    const struct field *field = &fields[at];
    const char *text = "";
    int64_t whole;
    if (!read_whole(row, at, &whole))
        return false;
    if (field->kind == JOB_AS_TEXT || field->kind >= CHARS)
        text = (const char *)sqlite3_column_text(row, at);
    switch (field->kind) {
    case JOB_AS_INT:
        *(int *)value = (int)whole;
        return true;
    case JOB_ID:
        *(firn_job_id *)value = (firn_job_id)whole - 1;
        return true;
    case I64:
    case JOB_AS_COUNT:
        *(int64_t *)value = whole;
        return true;
    case JOB_AS_BOOL:
        *(bool *)value = whole != 0;
        return true;
    case JOB_AS_REAL:
        return store_judge_real(row, at, value);
    case JOB_AS_TEXT:
        *(char **)value = mem_strdup(text != NULL ? text : "");
        return text != NULL;
    case CHARS:
        return text != NULL && str_copy(value, field->size, text);
    case JOB_AS_LIST:
        *(char ***)value = read_list(row, at);
        return *(char ***)value != NULL;
    case STATE:
        return text != NULL && live_state_named(text, value);
    case REASON:
        return text != NULL && live_reason_named(text, value);
    default:
        return false;
    }
}

static bool read_extra(sqlite3_stmt *row, struct live_job *job)
{
    struct firn_error ignored;
    const char *last = (const char *)sqlite3_column_text(row, LAST);
    const char *orders = (const char *)sqlite3_column_text(row, ORDERS);
    job->last = firn_trainer_report_unknown();
    job->orders = firn_orders_none();
    if (last == NULL || orders == NULL)
        return false;
    if (last[0] != '\0') {
        job->variance = mem_new(LIVE_LAYERS, sizeof *job->variance);
        if (firn_trainer_report_read(&job->last, job->variance, LIVE_LAYERS,
                                     last, strlen(last), &ignored) != FIRN_OK)
            return false;
    }
    return firn_orders_read(&job->orders, orders, strlen(orders), &ignored) ==
           FIRN_OK;
}

/* NULL: bad, or unknown: store_row_is_unread(). */
static struct live_job *read_row(const struct store *store, sqlite3_stmt *row)
{
    struct live_job *job = mem_new(1, sizeof *job);
    bool is_good = true;
    int i = 0;
    for (; i < NFIELDS && is_good; i++)
        is_good = read_field(row, i, (char *)job + fields[i].at);
    const char *culprit = i > 0 ? column_name(i - 1) : "";
    if (is_good) {
        is_good = read_extra(row, job);
        culprit = "last report or orders";
    }
    if (is_good) {
        culprit = store_judge_job(job, sqlite3_column_int(row, OVER),
                                  store->first_id);
        is_good = culprit == NULL;
    }
    if (is_good)
        return job;
    if (store_row_is_unread(row))
        culprit = NULL; /* the reading fails; nothing is known of the row */
    if (culprit != NULL)
        log_warn(
            "the row of job %lld cannot be understood (%s) and is left out",
            (long long)sqlite3_column_int64(row, 0), culprit);
    live_job_free(job);
    return NULL;
}

static enum firn_status each_job(struct store *store, sqlite3_stmt *sql,
                                 store_job_fn *fn, void *arg, size_t *nbad,
                                 struct firn_error *err)
{
    int rc = sql != NULL ? SQLITE_ROW : SQLITE_ERROR;
    *nbad = 0;
    while (rc == SQLITE_ROW && (rc = sqlite3_step(sql)) == SQLITE_ROW) {
        struct live_job *job = read_row(store, sql);
        if (job == NULL && store_row_is_unread(sql))
            rc = SQLITE_NOMEM;
        else if (job == NULL)
            (*nbad)++;
        else if (!fn(arg, job))
            rc = SQLITE_DONE;
    }
    if (rc != SQLITE_DONE)
        return store_unread(store, err);
    sqlite3_reset(sql);
    return FIRN_OK;
}

enum firn_status store_each_job(struct store *store, bool with_over,
                                store_job_fn *fn, void *arg, size_t *nbad,
                                struct firn_error *err)
{
    enum store_sql which = with_over ? SQL_ALL_JOBS : SQL_LIVE_JOBS;
    return each_job(store, store_sql(store, which), fn, arg, nbad, err);
}

enum firn_status store_each_over(struct store *store, size_t most,
                                 store_job_fn *fn, void *arg, size_t *nbad,
                                 struct firn_error *err)
{
    sqlite3_stmt *sql = store_sql(store, SQL_OVER_JOBS);
    sqlite3_bind_int64(sql, 1, (int64_t)(most < INT32_MAX ? most : INT32_MAX));
    return each_job(store, sql, fn, arg, nbad, err);
}

enum firn_status store_read_job(struct store *store, firn_job_id id,
                                struct live_job **out, struct firn_error *err)
{
    sqlite3_stmt *sql = store_sql(store, SQL_READ_JOB);
    sqlite3_bind_int(sql, 1, id);
    int rc = sql != NULL ? sqlite3_step(sql) : SQLITE_ERROR;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        return store_unread(store, err);
    struct live_job *job = rc == SQLITE_ROW ? read_row(store, sql) : NULL;
    if (rc == SQLITE_ROW && job == NULL && store_row_is_unread(sql))
        return store_unread(store, err);
    sqlite3_reset(sql);
    if (rc == SQLITE_DONE)
        return firn_fail(err, FIRN_ENOENT, "there is no job %d", id);
    if (job == NULL)
        return firn_fail(err, FIRN_EDATA,
                         "the row of job %d cannot be understood", id);
    *out = job;
    return FIRN_OK;
}
