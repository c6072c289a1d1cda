/* store_schema.c - the schema of the state file: its steps, and checking it.
 *
 * The schema is a list of steps; user_version counts those that a file has had.
 * Columns of fields that users set come from core/jobfields.def. (1) Each step
 * is committed with its number, so that a crash between two steps leaves a file
 * of the older version. (2) Before any step the schema of the file is compared
 * with that of a database in memory which has had the same steps, by the text
 * of its statements: a table that is missing, changed or unknown, a view or a
 * trigger make the file a damaged one. SQLite runs triggers and CHECKs within
 * our own statements, so nothing that firn did not write may be there. (3)
 * Indexes only repeat what is in the tables: one that is missing, changed or
 * unknown is made anew or dropped, and the file is good. (4) A version above
 * ours was written by a newer firn and is refused; one below 0 is damage. (5) A
 * comparison has three answers: as it should be, other, unknown. SQLite returns
 * no row and no text also when it lacks memory or cannot read: that is unknown,
 * and no file is called damaged, and no index dropped, because of it. (6) A new
 * file, and the database in memory, are made by one transaction that has the
 * columns of later steps in their tables from the start: SQLite parses the
 * whole schema again for each column that is added. The text of such a table is
 * that which the steps leave; if a file differs from it, the steps are run one
 * by one and the file is compared again before it is called damaged.
 *
 * Cost: a database of six tables in memory, 0.5 ms (6 ms with a statement for
 * each column).
 */
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "daemon/storework.h"
#include <ctype.h>
#include <string.h>

enum { STEPS_MAX = 64 };

/* The steps of what firnd keeps itself. The columns of fields that users set
 * are added to them: to step 1 before its text, of a field with `.since` to the
 * step of that number. */
static const char *const own_steps[] = {
    /* 1 */
    " text TEXT, request TEXT,"
    " token TEXT, submitted_s REAL, started_s REAL, ended_s REAL,"
    " state TEXT NOT NULL, reason TEXT NOT NULL, why TEXT, is_held INTEGER,"
    " is_ending INTEGER, epoch INTEGER, nretries INTEGER,"
    " exit_status INTEGER, held TEXT, reported_s REAL, reported_epoch INTEGER,"
    " over INTEGER NOT NULL, last TEXT, orders TEXT);"
    "CREATE INDEX jobs_name ON jobs (name);"
    "CREATE INDEX jobs_live ON jobs (id) WHERE over = 0;"
    "CREATE UNIQUE INDEX jobs_request ON jobs (user, request)"
    " WHERE request <> '';"
    "CREATE TABLE epochs (job INTEGER, epoch INTEGER, started_s REAL,"
    " ended_s REAL, how INTEGER, exit_status INTEGER, held TEXT,"
    " PRIMARY KEY (job, epoch)) WITHOUT ROWID;"
    "CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, at_s REAL,"
    " job INTEGER, kind TEXT, text TEXT);"
    "CREATE TABLE reports (id INTEGER PRIMARY KEY, job INTEGER,"
    " epoch INTEGER, at_s REAL, report TEXT);"
    "CREATE INDEX reports_job ON reports (job);"
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;",
    /* 2: inbox, of jobs that came through the engine's own queue */
    "",
    /* 3: how a job is run on what it holds */
    "ALTER TABLE jobs ADD COLUMN how_passes INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN how_tensor INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN how_parallel INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN how_stages INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN how_merged_with INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN how_after INTEGER NOT NULL DEFAULT 0;",
    /* 4: the GPU type that a job keeps to */
    "ALTER TABLE jobs ADD COLUMN gpu_type TEXT NOT NULL DEFAULT '';",
    /* 5: the caller whose request caused an event */
    "ALTER TABLE events ADD COLUMN caller TEXT NOT NULL DEFAULT '';",
    /* 6: how a language model trains */
    "",
    /* 7: scan and guarantee of elastic jobs */
    "",
    /* 8: what a trainer can do, and the rule of its batch */
    "",
    /* 9: how an application trains */
    "",
    /* 10: processes of a job, and what it waits for */
    "",
    /* 11: GPU-seconds of an attempt up to since_s, GPUs from then on; and
     * the sums of attempts that are kept no longer */
    "CREATE TABLE spans (job INTEGER, epoch INTEGER, gpu_s REAL, since_s REAL,"
    " gpus REAL, PRIMARY KEY (job, epoch)) WITHOUT ROWID;"
    "CREATE TABLE usage (day INTEGER, user TEXT, project TEXT, app TEXT,"
    " gpu_s REAL, attempts INTEGER, PRIMARY KEY (day, user, project, app))"
    " WITHOUT ROWID;",
    /* 12: whom a job notifies, and what it asks of Slurm */
    "",
    /* 13: why a job loses GPUs, and for which job */
    "ALTER TABLE events ADD COLUMN cause TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE events ADD COLUMN for_job INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE epochs ADD COLUMN cause TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE epochs ADD COLUMN for_job INTEGER NOT NULL DEFAULT 0;",
    /* 14: seconds from the start of an attempt to its first step; 0: not known
     */
    "ALTER TABLE epochs ADD COLUMN first_step_s REAL NOT NULL DEFAULT 0;",
};

static const char *sql_type(const struct job_field *field)
{
    switch (job_field_storage(field)) {
    case JOB_AS_TEXT:
        return "TEXT";
    case JOB_AS_LIST:
        return "BLOB";
    case JOB_AS_REAL:
        return "REAL";
    default:
        return "INTEGER";
    }
}

/* The columns of fields that step `number` adds. */
static void add_fields(struct firn_buf *out, int number)
{
    for (int i = 0; i < JOB_NFIELDS; i++) {
        const struct job_field *field = &job_fields[i];
        const char *type = sql_type(field);
        if (number == 1 && field->since <= 1)
            buf_printf(out, " %s %s%s,", field->name, type,
                       i == JOB_FIELD_name ? " NOT NULL" : "");
        else if (number > 1 && field->since == number)
            buf_printf(out,
                       "ALTER TABLE jobs ADD COLUMN %s %s NOT NULL DEFAULT "
                       "%s;",
                       field->name, type,
                       type[0] == 'T'   ? "''"
                       : type[0] == 'B' ? "x''"
                                        : "0");
    }
}

/* Made once and kept for the life of the process. */
const char *const *store_schema(size_t *n)
{
    static const char *steps[STEPS_MAX];
    static size_t nsteps;
    size_t nown = sizeof own_steps / sizeof *own_steps, most = nown;
    for (int i = 0; i < JOB_NFIELDS; i++)
        if ((size_t)job_fields[i].since > most)
            most = (size_t)job_fields[i].since;
    if (most > STEPS_MAX)
        FIRN_BUG("%zu steps of the schema", most);
    for (; nsteps < most; nsteps++) {
        struct firn_buf fields = {0}, step = {0};
        add_fields(&fields, (int)nsteps + 1);
        if (nsteps == 0)
            buf_printf(&step, "CREATE TABLE jobs (id INTEGER PRIMARY KEY,%s%s",
                       fields.at, own_steps[0]);
        else
            buf_printf(&step, "%s%s", nsteps < nown ? own_steps[nsteps] : "",
                       fields.n > 0 ? fields.at : "");
        steps[nsteps] = step.at;
        buf_release(&fields);
    }
    *n = nsteps;
    return steps;
}

/* --- steps --------------------------------------------------------------- */

/* Where SQLite adds a column to a table: before the comma of its first
 * constraint, else before its closing bracket. NULL if no bracket closes it. */
static const char *column_end(const char *columns)
{
    static const char key[] = ", PRIMARY KEY (";
    int depth = 0;
    for (const char *at = columns; *at != '\0'; at++) {
        if (depth == 0 && (*at == ')' || strncmp(at, key, sizeof key - 1) == 0))
            return at;
        depth += *at == '(' ? 1 : *at == ')' ? -1 : 0;
    }
    return NULL;
}

/* Adds a column to the table of that name in `out`, as SQLite would. False if
 * there is no such table. */
static bool add_column(struct firn_buf *out, const char *table, size_t ntable,
                       const char *column, size_t ncolumn)
{
    struct firn_buf head = {0}, whole = {0};
    buf_printf(&head, "CREATE TABLE %.*s (", (int)ntable, table);
    const char *at = out->n > 0 ? strstr(out->at, head.at) : NULL;
    const char *end = at != NULL ? column_end(at + head.n) : NULL;
    if (end != NULL) {
        buf_add(&whole, out->at, (size_t)(end - out->at));
        buf_printf(&whole, ", %.*s%s", (int)ncolumn, column, end);
        buf_clear(out);
        buf_add(out, whole.at, whole.n);
    }
    buf_release(&head);
    buf_release(&whole);
    return end != NULL;
}

/* (6): adds a statement of a step to `out`; false if it is of another kind. */
static bool join_statement(struct firn_buf *out, const char *sql, size_t n)
{
    static const char *const made[] = {"CREATE TABLE ", "CREATE INDEX ",
                                       "CREATE UNIQUE INDEX "};
    static const char alter[] = "ALTER TABLE ", add[] = " ADD COLUMN ";
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (strncmp(sql, made[i], strlen(made[i])) == 0) {
            buf_add(out, sql, n);
            buf_putc(out, ';');
            return true;
        }
    if (strncmp(sql, alter, sizeof alter - 1) != 0)
        return false;
    const char *table = sql + sizeof alter - 1;
    size_t ntable = strcspn(table, " ");
    const char *column = table + ntable + sizeof add - 1;
    return strncmp(table + ntable, add, sizeof add - 1) == 0 &&
           add_column(out, table, ntable, column, (size_t)(sql + n - column));
}

bool store_schema_whole(const char *const *steps, size_t nsteps,
                        struct firn_buf *out)
{
    bool is_whole = true;
    buf_clear(out);
    for (size_t i = 0; i < nsteps && is_whole; i++)
        for (const char *at = steps[i]; is_whole;) {
            at += strspn(at, "; ");
            if (*at == '\0')
                break;
            size_t n = strcspn(at, ";");
            is_whole = join_statement(out, at, n);
            at += n;
        }
    return is_whole && out->n > 0;
}

static bool pragma_int(sqlite3 *db, const char *sql, sqlite3_int64 *out)
{
    sqlite3_stmt *stmt = NULL;
    bool is_there = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK &&
                    sqlite3_step(stmt) == SQLITE_ROW;
    if (is_there)
        *out = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return is_there;
}

static bool run_step(sqlite3 *db, const char *step, size_t number)
{
    struct firn_buf sql = {0};
    buf_printf(&sql, "BEGIN IMMEDIATE; %s; PRAGMA user_version = %zu; COMMIT",
               step, number);
    bool is_done = sqlite3_exec(db, sql.at, NULL, NULL, NULL) == SQLITE_OK;
    buf_release(&sql);
    return is_done;
}

enum firn_status store_migrate(sqlite3 *db, const char *const *steps,
                               size_t nsteps, struct firn_error *err)
{
    sqlite3_int64 version = 0;
    if (!pragma_int(db, "PRAGMA user_version", &version))
        return firn_fail(err, FIRN_EIO, "its version cannot be read: %s",
                         sqlite3_errmsg(db));
    if (version < 0)
        return firn_fail(err, FIRN_EDATA, "its version is %lld",
                         (long long)version);
    if ((size_t)version > nsteps)
        return firn_fail(err, FIRN_EIO,
                         "it is of version %lld, and this firnd knows "
                         "versions up to %zu only: a newer one made it",
                         (long long)version, nsteps);
    struct firn_buf whole = {0};
    bool is_made = version == 0 && store_schema_whole(steps, nsteps, &whole) &&
                   run_step(db, whole.at, nsteps);
    if (!is_made && !sqlite3_get_autocommit(db))
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    buf_release(&whole);
    for (size_t i = (size_t)version; i < nsteps && !is_made; i++) {
        if (run_step(db, steps[i], i + 1))
            continue;
        firn_fail(err, FIRN_EIO, "step %zu to its present shape failed: %s",
                  i + 1, sqlite3_errmsg(db));
        if (!sqlite3_get_autocommit(db))
            sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
        return FIRN_EIO;
    }
    return FIRN_OK;
}

/* --- the shape ------------------------------------------------------------ */

/* Is it of SQLite's own: the counter of events, indexes of primary keys? */
#define IS_OURS "name NOT LIKE 'sqlite!_%' ESCAPE '!'"

/* (5) */
enum answer { AS_IT_SHOULD_BE, OTHER, UNKNOWN };

/* "" for NULL; NULL when there is no memory for the text. */
static const char *text_of(sqlite3_stmt *row, int at)
{
    if (sqlite3_column_type(row, at) == SQLITE_NULL)
        return "";
    return (const char *)sqlite3_column_text(row, at);
}

/* A reading of `db` failed: is the file damaged, or is that unknown? */
static enum firn_status fail_reading(sqlite3 *db, const char *what,
                                     struct firn_error *err)
{
    int code = sqlite3_errcode(db);
    return firn_fail(err, store_is_damage(code) ? FIRN_EDATA : FIRN_EIO,
                     "%s: %s", what, sqlite3_errmsg(db));
}

/* The same but for blanks, which a dump may change. */
static bool is_same(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (isspace((unsigned char)*a))
            a++;
        while (isspace((unsigned char)*b))
            b++;
        if (*a != *b || *a == '\0')
            return *a == *b;
    }
}

/* Does `db` have an object of that kind and name, made by the same statement?
 * After UNKNOWN sqlite3_errcode() tells why. */
static enum answer compare(sqlite3 *db, const char *type, const char *name,
                           const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    enum answer answer = UNKNOWN;
    int code = sqlite3_prepare_v2(
        db, "SELECT sql FROM sqlite_schema WHERE type = ?1 AND name = ?2", -1,
        &stmt, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_bind_text(stmt, 1, type, -1, SQLITE_STATIC);
    if (code == SQLITE_OK)
        code = sqlite3_bind_text(stmt, 2, name, -1, SQLITE_STATIC);
    if (code == SQLITE_OK)
        code = sqlite3_step(stmt);
    if (code == SQLITE_DONE) {
        answer = OTHER;
    } else if (code == SQLITE_ROW) {
        const char *made_by = text_of(stmt, 0);
        if (made_by != NULL)
            answer = is_same(made_by, sql) ? AS_IT_SHOULD_BE : OTHER;
    }
    sqlite3_finalize(stmt);
    return answer;
}

/* Statements that mend the file's indexes; collected, since no schema changes
 * while it is read. */
struct shape {
    sqlite3 *db, *model;
    struct firn_buf repairs;
    struct firn_error *err;
};

static enum firn_status judge_index(struct shape *shape, const char *name)
{
    char *drop = sqlite3_mprintf("DROP INDEX \"%w\";", name);
    if (drop == NULL)
        return firn_fail(shape->err, FIRN_EIO, "its indexes: no memory");
    log_warn("the state has an index '%.100s' that firnd did not make: it is "
             "dropped",
             name);
    buf_puts(&shape->repairs, drop);
    sqlite3_free(drop);
    return FIRN_OK;
}

static enum firn_status judge_one(struct shape *shape, sqlite3_stmt *row)
{
    const char *type = text_of(row, 0), *name = text_of(row, 1);
    const char *sql = text_of(row, 2);
    if (type == NULL || name == NULL || sql == NULL)
        return fail_reading(shape->db, "its schema", shape->err);
    switch (compare(shape->model, type, name, sql)) {
    case AS_IT_SHOULD_BE:
        return FIRN_OK;
    case UNKNOWN: /* of our own database in memory */
        return firn_fail(shape->err, FIRN_EIO,
                         "its schema could not be compared: %s",
                         sqlite3_errmsg(shape->model));
    case OTHER:
        break;
    }
    if (strcmp(type, "index") == 0)
        return judge_index(shape, name);
    return firn_fail(shape->err, FIRN_EDATA,
                     "it has a %.20s '%.100s' that firnd did not make so", type,
                     name);
}

/* Every object of the file, by the model. */
static enum firn_status judge_all(struct shape *shape)
{
    sqlite3_stmt *stmt = NULL;
    enum firn_status status = FIRN_OK;
    int code =
        sqlite3_prepare_v2(shape->db,
                           "SELECT type, name, sql FROM sqlite_schema WHERE NOT"
                           " (type IN ('table', 'index') AND NOT " IS_OURS ")",
                           -1, &stmt, NULL);
    if (code == SQLITE_OK)
        while (status == FIRN_OK && (code = sqlite3_step(stmt)) == SQLITE_ROW)
            status = judge_one(shape, stmt);
    if (status == FIRN_OK && code != SQLITE_DONE)
        status = fail_reading(shape->db, "its schema", shape->err);
    sqlite3_finalize(stmt);
    return status;
}

static enum firn_status find_one(struct shape *shape, sqlite3_stmt *row)
{
    const char *type = text_of(row, 0), *name = text_of(row, 1);
    const char *sql = text_of(row, 2);
    if (type == NULL || name == NULL || sql == NULL)
        return firn_fail(shape->err, FIRN_EIO, "its schema: no memory");
    switch (compare(shape->db, type, name, sql)) {
    case AS_IT_SHOULD_BE:
        return FIRN_OK;
    case UNKNOWN:
        return fail_reading(shape->db, "its schema could not be compared",
                            shape->err);
    case OTHER:
        break;
    }
    if (strcmp(type, "index") != 0)
        return firn_fail(shape->err, FIRN_EDATA, "its table '%s' is gone",
                         name);
    buf_printf(&shape->repairs, "%s;", sql);
    return FIRN_OK;
}

/* Every object of the model, by the file. */
static enum firn_status find_missing(struct shape *shape)
{
    sqlite3_stmt *stmt = NULL;
    enum firn_status status = FIRN_OK;
    int code = sqlite3_prepare_v2(shape->model,
                                  "SELECT type, name, sql FROM sqlite_schema"
                                  " WHERE " IS_OURS,
                                  -1, &stmt, NULL);
    if (code == SQLITE_OK)
        while (status == FIRN_OK && (code = sqlite3_step(stmt)) == SQLITE_ROW)
            status = find_one(shape, stmt);
    if (status == FIRN_OK && code != SQLITE_DONE)
        status = firn_fail(shape->err, FIRN_EIO,
                           "its schema could not be compared: %s",
                           sqlite3_errmsg(shape->model));
    sqlite3_finalize(stmt);
    return status;
}

static enum firn_status mend(struct shape *shape)
{
    if (shape->repairs.n == 0)
        return FIRN_OK;
    struct firn_buf sql = {0};
    buf_printf(&sql, "BEGIN IMMEDIATE; %s COMMIT", shape->repairs.at);
    enum firn_status status = FIRN_OK;
    if (sqlite3_exec(shape->db, sql.at, NULL, NULL, NULL) != SQLITE_OK) {
        status =
            fail_reading(shape->db, "its indexes cannot be made", shape->err);
        if (!sqlite3_get_autocommit(shape->db))
            sqlite3_exec(shape->db, "ROLLBACK", NULL, NULL, NULL);
    }
    buf_release(&sql);
    return status;
}

/* A database in memory that has had the first `n` steps, one by one or, where
 * that is possible, as a whole. */
static enum firn_status make_model(sqlite3 **out, const char *const *steps,
                                   size_t n, bool one_by_one,
                                   struct firn_error *err)
{
    struct firn_buf whole = {0};
    if (sqlite3_open(":memory:", out) != SQLITE_OK)
        return firn_fail(err, FIRN_EIO, "no memory for a database in memory");
    bool is_made = !one_by_one && store_schema_whole(steps, n, &whole) &&
                   run_step(*out, whole.at, n);
    if (!is_made && !sqlite3_get_autocommit(*out))
        sqlite3_exec(*out, "ROLLBACK", NULL, NULL, NULL);
    buf_release(&whole);
    for (size_t i = 0; i < n && !is_made; i++) {
        if (run_step(*out, steps[i], i + 1))
            continue;
        if (!store_may_pass(sqlite3_errcode(*out)))
            FIRN_BUG("step %zu of the schema: %s", i + 1, sqlite3_errmsg(*out));
        return firn_fail(err, FIRN_EIO,
                         "its schema could not be compared: step %zu: %s",
                         i + 1, sqlite3_errmsg(*out));
    }
    return FIRN_OK;
}

static enum firn_status judge(sqlite3 *db, const char *const *steps, size_t n,
                              bool one_by_one, struct firn_error *err)
{
    struct shape shape = {.db = db, .err = err};
    enum firn_status status =
        make_model(&shape.model, steps, n, one_by_one, err);
    if (status == FIRN_OK)
        status = judge_all(&shape);
    if (status == FIRN_OK)
        status = find_missing(&shape);
    if (status == FIRN_OK)
        status = mend(&shape);
    buf_release(&shape.repairs);
    sqlite3_close(shape.model);
    return status;
}

enum firn_status store_check_schema(sqlite3 *db, const char *const *steps,
                                    size_t nsteps, struct firn_error *err)
{
    sqlite3_int64 version = 0;
    if (!pragma_int(db, "PRAGMA user_version", &version))
        return fail_reading(db, "its version cannot be read", err);
    if (version < 0 || (size_t)version > nsteps)
        return FIRN_OK; /* store_migrate() says it */
    enum firn_status status = judge(db, steps, (size_t)version, false, err);
    if (status == FIRN_EDATA) /* (6) */
        status = judge(db, steps, (size_t)version, true, err);
    return status;
}
