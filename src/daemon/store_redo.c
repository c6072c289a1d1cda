/* store_redo.c - transactions, and their replay when the disk refuses one.
 *
 * SQLite rolls a transaction back when the disk is full. The jobs in memory
 * have changed by then, and processes may have been started. Rather than undo
 * that, the changes of the transaction are kept here as statements with their
 * values, and are written again, all of them in one transaction, until the
 * commit succeeds.
 *
 * (1) `redo` has every change since the last commit that succeeded, in order,
 *     whatever SQLite has been told of it; a commit that succeeds empties it.
 * (2) The file is the state after the last commit that succeeded; the file
 *     with `redo` applied is what the book has in memory. So a replay is exact:
 *     it begins from the file and has the same statements with the same bits.
 * (3) While the store is stalled SQLite has no transaction open, so a reading
 *     sees the last commit, and never a part of `redo`.
 * (4) No change is acknowledged, and no number of an attempt given out, before
 *     store_commit() is FIRN_OK: a firnd that ends while its changes are
 * pending loses no acknowledged change. The next firnd finds the processes by
 * the engine's files. (5) Ids of jobs and events are counted in memory, so that
 * they are the same before and behind the commit. (6) A failure that cannot
 * pass (damage, a refused statement) rolls all of it back: store_torn().
 * Further changes are refused, and the next commit fails, so that nothing of a
 * torn turn is acknowledged. (7) Pending changes are bounded by the number of
 * jobs: while the store is stalled the API refuses all changes but cancels, and
 * no job is started.
 *
 * When a sync fails the frames may be on disk all the same, and a crash at that
 * moment leaves the transaction there, unacknowledged and whole. In this
 * process the replay writes the same places of the log again before it syncs,
 * so a kernel that forgets a failed sync loses nothing.
 *
 * Cost: a copy of each value, one allocation from an arena for each change.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/storework.h"
#include <string.h>

/* --- a change ------------------------------------------------------------ */

struct store_change store_change(struct store *store, enum store_sql which,
                                 int nvalues)
{
    size_t bytes = (size_t)nvalues * sizeof(struct store_value);
    return (struct store_change){which, nvalues,
                                 arena_alloc(&store->redo_text, bytes)};
}

void store_give_int(struct store_change *change, int at, int64_t value)
{
    change->values[at - 1] =
        (struct store_value){.kind = STORE_INT, .whole = value};
}

void store_give_real(struct store_change *change, int at, double value)
{
    change->values[at - 1] =
        (struct store_value){.kind = STORE_REAL, .real = value};
}

static void give_bytes(struct store *store, struct store_value *to,
                       struct firn_bytes bytes)
{
    char *copy = arena_alloc(&store->redo_text, bytes.n + 1);
    if (bytes.n > 0)
        memcpy(copy, bytes.at, bytes.n);
    to->at = copy;
    to->n = bytes.n;
}

void store_give_text(struct store *store, struct store_change *change, int at,
                     const char *text)
{
    struct store_value *to = &change->values[at - 1];
    to->kind = STORE_TEXT;
    text = text != NULL ? text : "";
    give_bytes(store, to, (struct firn_bytes){text, strlen(text)});
}

void store_give_blob(struct store *store, struct store_change *change, int at,
                     struct firn_bytes blob)
{
    struct store_value *to = &change->values[at - 1];
    to->kind = STORE_BLOB;
    give_bytes(store, to, blob);
}

static int bind_value(sqlite3_stmt *sql, int at, const struct store_value *v)
{
    switch (v->kind) {
    case STORE_INT:
        return sqlite3_bind_int64(sql, at, v->whole);
    case STORE_REAL:
        return sqlite3_bind_double(sql, at, v->real);
    case STORE_TEXT:
        return sqlite3_bind_text64(sql, at, v->at, v->n, SQLITE_STATIC,
                                   SQLITE_UTF8);
    case STORE_BLOB:
        return sqlite3_bind_blob64(sql, at, v->at, v->n, SQLITE_STATIC);
    }
    return SQLITE_OK;
}

/* --- SQLite's side ------------------------------------------------------- */

bool store_may_pass(int code)
{
    switch (code & 0xff) {
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN: /* no descriptor is left, or no inode */
    case SQLITE_READONLY: /* the file system was made so after an error */
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
    case SQLITE_NOMEM:
        return true;
    default:
        return false;
    }
}

/* A closed list: a code that is not known to come from the file does not. */
bool store_is_damage(int code)
{
    switch (code & 0xff) {
    case SQLITE_ERROR: /* a statement that the file's schema does not allow */
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
    case SQLITE_SCHEMA:
    case SQLITE_TOOBIG:
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
        return true;
    default:
        return false;
    }
}

static int step(struct store *store, enum store_sql which)
{
    sqlite3_stmt *sql = store_sql(store, which);
    int code = sql != NULL ? sqlite3_step(sql) : sqlite3_errcode(store->db);
    if (code != SQLITE_DONE)
        return code;
    sqlite3_reset(sql);
    return SQLITE_OK;
}

/* A job that is not in the file changes no row. */
static int run(struct store *store, const struct store_change *change)
{
    sqlite3_stmt *sql = store_sql(store, change->which);
    if (sql == NULL)
        return sqlite3_errcode(store->db);
    int code = SQLITE_OK;
    for (int i = 0; i < change->nvalues && code == SQLITE_OK; i++)
        code = bind_value(sql, i + 1, &change->values[i]);
    if (code == SQLITE_OK)
        code = sqlite3_step(sql);
    if (code != SQLITE_DONE)
        return code;
    sqlite3_reset(sql);
    return change->which == SQL_PUT_JOB && sqlite3_changes(store->db) != 1
               ? SQLITE_NOTFOUND
               : SQLITE_OK;
}

static int begin(struct store *store)
{
    if (store->is_changing)
        return SQLITE_OK;
    int code = step(store, SQL_BEGIN);
    store->is_changing = code == SQLITE_OK;
    return code;
}

/* Ends all statements, which would else keep a rollback from working. */
static void undo(struct store *store)
{
    for (int i = 0; i < SQL_N; i++)
        sqlite3_reset(store->sql[i]);
    if (!sqlite3_get_autocommit(store->db))
        step(store, SQL_ROLLBACK);
    store->is_changing = false;
}

static void forget(struct store *store)
{
    store->redo.n = 0;
    arena_reset(&store->redo_text);
    store->is_stalled = false;
}

/* The transaction is gone for good: memory is ahead of the disk. */
static void take_back(struct store *store)
{
    struct firn_error ignored;
    undo(store);
    forget(store);
    store->nrollbacks++;
    store_count(store, &ignored);
}

enum firn_status store_torn(struct store *store, struct firn_error *err)
{
    store_suspect(store);
    firn_fail(err, FIRN_EIO, "%.300s: could not be written: %s", store->path,
              store->disk.why);
    take_back(store);
    store->has_failed = true;
    return FIRN_EIO;
}

/* Notes SQLite's error and ends its transaction. False: it is permanent. */
static bool stall(struct store *store, int code)
{
    str_copy(store->disk.why, sizeof store->disk.why,
             code == SQLITE_NOTFOUND ? "a job is not in the file"
                                     : sqlite3_errmsg(store->db));
    if (!store_may_pass(code))
        return false;
    undo(store);
    store->is_stalled = true;
    return true;
}

/* --- changes and commits ------------------------------------------------- */

/* Has SQLite ended the transaction by itself, as behind a failed reading? The
 * next statement would be a transaction of its own. */
static bool has_lost_it(const struct store *store)
{
    return store->is_changing && sqlite3_get_autocommit(store->db);
}

enum firn_status store_apply(struct store *store,
                             const struct store_change *change,
                             struct firn_error *err)
{
    if (store->has_failed)
        return firn_fail(err, FIRN_EIO,
                         "%.300s: an earlier change of this transaction could "
                         "not be written, and it was rolled back",
                         store->path);
    vec_add(&store->redo, *change);
    if (store->is_stalled)
        return FIRN_OK;
    if (has_lost_it(store)) {
        stall(store, SQLITE_IOERR);
        return FIRN_OK;
    }
    int code = begin(store);
    if (code == SQLITE_OK)
        code = run(store, change);
    if (code == SQLITE_OK || stall(store, code))
        return FIRN_OK;
    return store_torn(store, err);
}

int store_nchanged(const struct store *store)
{
    return store->is_stalled ? 0 : sqlite3_changes(store->db);
}

/* Writes all pending changes again, from the first on. */
static int replay(struct store *store)
{
    int code = begin(store);
    for (size_t i = 0; i < store->redo.n && code == SQLITE_OK; i++)
        code = run(store, &store->redo.at[i]);
    if (code == SQLITE_OK)
        code = step(store, SQL_COMMIT);
    store->is_changing = store->is_changing && code != SQLITE_OK;
    return code;
}

static enum firn_status unsaved(const struct store *store,
                                struct firn_error *err)
{
    const char *trouble = store_trouble(store);
    return firn_fail(err, FIRN_EUNSAVED, "%s",
                     trouble != NULL ? trouble : store->disk.why);
}

/* Tries pending changes again, after a failed write or its delay. */
static enum firn_status try_again(struct store *store, bool is_fresh,
                                  struct firn_error *err)
{
    bool again = !is_fresh || store_room_failed(store);
    while (again) {
        int code = replay(store);
        if (code == SQLITE_OK) {
            size_t n = store->redo.n;
            forget(store);
            store_room_wrote(store);
            log_info("%zu changes that had been pending are on disk", n);
            return FIRN_OK;
        }
        if (!stall(store, code)) {
            store_torn(store, err);
            store->has_failed = false;
            return FIRN_EIO;
        }
        again = store_room_failed(store);
    }
    return unsaved(store, err);
}

enum firn_status store_commit(struct store *store, struct firn_error *err)
{
    if (store->has_failed) {
        store->has_failed = false;
        return firn_fail(err, FIRN_EIO,
                         "%.300s: a change could not be written, and all that "
                         "came with it was rolled back",
                         store->path);
    }
    if (store->redo.n == 0)
        return FIRN_OK;
    if (store->is_stalled && store->disk.room == ROOM_FULL)
        return clock_elapsed_s() < store->disk.retry_s
                   ? unsaved(store, err)
                   : try_again(store, false, err);
    if (store->is_stalled)
        return try_again(store, true, err);
    failpoint("store.commit.before");
    int code = has_lost_it(store) ? SQLITE_IOERR : step(store, SQL_COMMIT);
    if (code != SQLITE_OK && stall(store, code))
        return try_again(store, true, err);
    if (code != SQLITE_OK) {
        store_torn(store, err);
        store->has_failed = false; /* reported here */
        return FIRN_EIO;
    }
    store->is_changing = false;
    forget(store);
    store_room_wrote(store);
    failpoint("store.commit.after");
    return FIRN_OK;
}

void store_rollback(struct store *store)
{
    if (store->redo.n > 0 || store->is_changing)
        take_back(store);
    store->has_failed = false;
}

bool store_has_changes(const struct store *store)
{
    return store->redo.n > 0 || store->has_failed;
}

bool store_is_stalled(const struct store *store)
{
    return store->is_stalled;
}

unsigned store_rollbacks(const struct store *store)
{
    return store->nrollbacks;
}
