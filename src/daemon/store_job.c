/* store_job.c - a job as a row of the state file, and back.
 *
 * One table names every column with its field; from it come the statements,
 * the values that are bound and the reading back, so that these cannot
 * disagree. (The table in the file is made by store_open.c's steps: a new
 * column is a new step there and a line here.)
 *
 * (1) States and reasons are kept by name, so that their order may change. (2)
 * Lists are their texts one after another, each with its NUL. (3) What cannot
 * be understood (an unknown state, a list without its last NUL, a report that
 * is no JSON, a number out of its range: store_judge.c) makes the row bad: it
 * is left out, said, and stays on disk. (4) The id of another job is stored as
 * id + 1, and 0 for FIRN_NO_JOB: the columns' default, and what files of older
 * versions have.
 *
 * Cost: some 60 columns, 6 microseconds a job; bench/store.c measures it.
 */
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/storework.h"
#include <string.h>

enum kind {
    INT,
    JOB_ID,
    I64,
    U64,
    FLAG,
    REAL,
    TEXT,
    CHARS,
    LIST,
    STATE,
    REASON
};

struct field {
    const char *column;
    enum kind kind;
    bool changes; /* in a job's life: written by store_put_job */
    size_t at, size;
};

#define SIZE_OF(f) sizeof(((struct live_job *)0)->f)
#define OF_JOB(f, kind, changes)                                    \
    {                                                               \
#f, kind, changes, offsetof(struct live_job, f), SIZE_OF(f) \
    }
#define OF_ASK(f, kind, changes)                                            \
    {                                                                       \
#f, kind, changes, offsetof(struct live_job, ask.f), SIZE_OF(ask.f) \
    }

#define OF_HOW(f, kind)                                                      \
    {                                                                        \
        "how_" #f, kind, true, offsetof(struct live_job, how.f), sizeof(int) \
    }

static const struct field fields[] = {
    OF_JOB(id, INT, false),
    OF_ASK(name, TEXT, false),
    OF_ASK(queue, TEXT, false),
    OF_ASK(user, TEXT, false),
    OF_ASK(app, TEXT, false),
    OF_ASK(priority, INT, true),
    OF_ASK(argv, LIST, false),
    OF_ASK(env, LIST, false),
    OF_ASK(workdir, TEXT, false),
    OF_ASK(gpus_min, INT, true),
    OF_ASK(gpus_max, INT, true),
    OF_ASK(types, TEXT, false),
    OF_ASK(may_share, FLAG, false),
    OF_ASK(model, TEXT, false),
    OF_ASK(seq, INT, false),
    OF_ASK(batch, INT, false),
    OF_ASK(freeze, TEXT, false),
    OF_ASK(freeze_max, REAL, false),
    OF_ASK(consistency, TEXT, false),
    OF_ASK(threads, INT, true),
    OF_ASK(base, TEXT, false),
    OF_ASK(dataset, TEXT, false),
    OF_ASK(objective, TEXT, false),
    OF_ASK(may_merge, FLAG, false),
    OF_ASK(ckpt_dir, TEXT, false),
    OF_ASK(grace_s, REAL, false),
    OF_ASK(ckpt_every_s, REAL, false),
    OF_ASK(is_elastic, FLAG, false),
    OF_ASK(can_checkpoint, FLAG, false),
    OF_ASK(may_restart, FLAG, false),
    OF_ASK(retries_max, INT, false),
    OF_ASK(retry_on_failure, FLAG, false),
    OF_ASK(retry_on_lost, FLAG, false),
    OF_ASK(duration_s, REAL, false),
    OF_ASK(mem_gib, REAL, true),
    OF_ASK(deadline_s, REAL, false),
    OF_ASK(target_epochs, U64, false),
    OF_ASK(target_iterations, U64, false),
    OF_ASK(target_metric, REAL, false),
    OF_ASK(inbox, TEXT, false),
    OF_JOB(text, TEXT, false),
    OF_JOB(request, TEXT, false),
    OF_JOB(token, CHARS, false),
    OF_JOB(submitted_s, REAL, false),
    OF_JOB(started_s, REAL, true),
    OF_JOB(ended_s, REAL, true),
    OF_JOB(state, STATE, true),
    OF_JOB(reason, REASON, true),
    OF_JOB(why, CHARS, true),
    OF_JOB(is_held, FLAG, true),
    OF_JOB(is_ending, FLAG, true),
    OF_JOB(epoch, I64, true),
    OF_JOB(nretries, INT, true),
    OF_JOB(exit_status, INT, true),
    OF_JOB(gpu_type, CHARS, true),
    OF_JOB(held, TEXT, true),
    OF_HOW(passes, INT),
    OF_HOW(tensor, INT),
    OF_HOW(parallel, INT),
    OF_HOW(stages, INT),
    OF_HOW(merged_with, JOB_ID),
    OF_HOW(after, JOB_ID),
    OF_JOB(reported_s, REAL, true),
    OF_JOB(reported_epoch, I64, true),
};

/* Behind the fields: is it over; the last report and the orders, as JSON. */
enum { NFIELDS = sizeof fields / sizeof *fields, OVER = NFIELDS, LAST, ORDERS };
static const char *const extra[] = {"over", "last", "orders"};
enum { NCOLUMNS = NFIELDS + sizeof extra / sizeof *extra };

static const char *column_name(int i)
{
    return i < NFIELDS ? fields[i].column : extra[i - NFIELDS];
}

/* --- statements ---------------------------------------------------------- */

/* "name, queue, ..." or "name = ?2, ..." of those that change. Parameters are
 * numbered by column, from 1. */
static void list_columns(struct firn_buf *sql, bool only_changes)
{
    const char *comma = "";
    for (int i = 0; i < NCOLUMNS; i++) {
        if (only_changes && i < NFIELDS && !fields[i].changes)
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
    case INT:
        store_give_int(change, at, *(const int *)value);
        return;
    case JOB_ID: /* (4) */
        store_give_int(change, at, *(const firn_job_id *)value + 1);
        return;
    case I64:
        store_give_int(change, at, *(const int64_t *)value);
        return;
    case U64:
        store_give_int(change, at, (int64_t) * (const uint64_t *)value);
        return;
    case FLAG:
        store_give_int(change, at, *(const bool *)value);
        return;
    case REAL:
        store_give_real(change, at, *(const double *)value);
        return;
    case TEXT:
        store_give_text(store, change, at, *(char *const *)value);
        return;
    case CHARS:
        store_give_text(store, change, at, value);
        return;
    case LIST:
        give_list(store, change, at, *(char **const *)value);
        return;
    case STATE:
        store_give_text(store, change, at,
                        live_state_name(*(const enum live_state *)value));
        return;
    case REASON:
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
        if (which == SQL_ADD_JOB || i == 0 || fields[i].changes)
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

/* Looked up once: a row has some forty whole numbers. */
static const struct store_range *range_of(const struct field *field)
{
    static struct store_range known[NFIELDS];
    struct store_range *range = &known[field - fields];
    if (range->column == NULL)
        *range = store_judge_range(field->column);
    return range;
}

/* False: it cannot be understood. */
static bool read_field(sqlite3_stmt *row, int at, const struct field *field,
                       void *value)
{
    const char *text = "";
    int64_t whole = 0;
    if (field->kind < REAL &&
        !store_judge_whole(row, at, range_of(field), &whole))
        return false;
    if (field->kind >= TEXT && field->kind != LIST)
        text = (const char *)sqlite3_column_text(row, at);
    switch (field->kind) {
    case INT:
        *(int *)value = (int)whole;
        return true;
    case JOB_ID:
        *(firn_job_id *)value = (firn_job_id)whole - 1;
        return true;
    case I64:
    case U64:
        *(int64_t *)value = whole;
        return true;
    case FLAG:
        *(bool *)value = whole != 0;
        return true;
    case REAL:
        return store_judge_real(row, at, value);
    case TEXT:
        *(char **)value = mem_strdup(text != NULL ? text : "");
        return text != NULL;
    case CHARS:
        return text != NULL && str_copy(value, field->size, text);
    case LIST:
        *(char ***)value = read_list(row, at);
        return *(char ***)value != NULL;
    case STATE:
        return text != NULL && live_state_named(text, value);
    case REASON:
        return text != NULL && live_reason_named(text, value);
    }
    return false;
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

/* NULL: bad. */
static struct live_job *read_row(const struct store *store, sqlite3_stmt *row)
{
    struct live_job *job = mem_new(1, sizeof *job);
    bool is_good = true;
    int i = 0;
    for (; i < NFIELDS && is_good; i++)
        is_good = read_field(row, i, &fields[i], (char *)job + fields[i].at);
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
    log_warn("the row of job %lld cannot be understood (%s) and is left out",
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
        if (job == NULL)
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
    sqlite3_reset(sql);
    if (rc == SQLITE_DONE)
        return firn_fail(err, FIRN_ENOENT, "there is no job %d", id);
    if (job == NULL)
        return firn_fail(err, FIRN_EDATA,
                         "the row of job %d cannot be understood", id);
    *out = job;
    return FIRN_OK;
}
