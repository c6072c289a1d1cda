/* store_open.c - the state file opened: locked, checked, brought up to date.
 *
 * (1) One daemon at a time: firnd.lock is locked by fcntl(), whose locks end
 * with the process and do not pass to its children, which may outlive it. (2)
 * A file that SQLite cannot read, or whose quick check fails, is renamed with
 * its -wal and -shm to firn.db.unreadable-<time> and a new one is begun; ids
 * in it start from the seconds since 2020, above those of the lost one, whose
 * jobs may still run. A large file is checked without its history, so that it
 * is open soon; whoever meets damage there leaves a mark beside it
 * (firn.db-suspect), and the next start checks all. (3) A file of a newer firn,
 * or one that cannot be opened for want of rights or space, is an error and
 * stays where it is. (4) Each step of the schema is committed with its number,
 * so that a crash between two is a file of the older kind.
 *
 * The file is made with mode 0600 (SQLite gives -wal and -shm the same): it
 * has the jobs' tokens in it.
 */
#include "base/buf.h"
#include "base/failpoint.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/storework.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A file up to this size is checked whole, in about half a second. */
enum { BUSY_MS = 2000, WHOLE_BYTES = 64 << 20 };

static const char *const schema[] = {
    /* 1 */
    "CREATE TABLE jobs (id INTEGER PRIMARY KEY, name TEXT NOT NULL,"
    " queue TEXT, user TEXT, app TEXT, priority INTEGER, argv BLOB, env BLOB,"
    " workdir TEXT, gpus_min INTEGER, gpus_max INTEGER, types TEXT,"
    " may_share INTEGER, model TEXT, seq INTEGER, batch INTEGER, freeze TEXT,"
    " freeze_max REAL, consistency TEXT, threads INTEGER, base TEXT,"
    " dataset TEXT, objective TEXT, may_merge INTEGER, ckpt_dir TEXT,"
    " grace_s REAL, ckpt_every_s REAL, is_elastic INTEGER,"
    " can_checkpoint INTEGER, may_restart INTEGER, retries_max INTEGER,"
    " retry_on_failure INTEGER, retry_on_lost INTEGER, duration_s REAL,"
    " mem_gib REAL, deadline_s REAL, target_epochs INTEGER,"
    " target_iterations INTEGER, target_metric REAL, text TEXT, request TEXT,"
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
    /* 2: jobs that came by the engine's own queue */
    "ALTER TABLE jobs ADD COLUMN inbox TEXT NOT NULL DEFAULT ''",
    /* 3: how a job is run on what it holds */
    "ALTER TABLE jobs ADD COLUMN how_passes INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN how_tensor INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN how_parallel INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN how_stages INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN how_merged_with INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN how_after INTEGER NOT NULL DEFAULT 0;",
    /* 4: the GPU type that a job keeps to */
    "ALTER TABLE jobs ADD COLUMN gpu_type TEXT NOT NULL DEFAULT ''",
    /* 5: the caller that asked for what an event tells */
    "ALTER TABLE events ADD COLUMN caller TEXT NOT NULL DEFAULT ''",
};

/* What opening came to. */
enum shape { GOOD, DAMAGED, REFUSED };

/* --- the folder and its lock --------------------------------------------- */

static enum firn_status fail_file(const char *path, const char *what,
                                  struct firn_error *err)
{
    return firn_fail(err, FIRN_EIO, "%.300s: %s: %s", path, what,
                     strerror(errno));
}

static enum firn_status make_folder(const char *dir, struct firn_error *err)
{
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return fail_file(dir, "cannot be made", err);
    struct stat about;
    if (stat(dir, &about) != 0 || !S_ISDIR(about.st_mode))
        return firn_fail(err, FIRN_EIO, "%.300s is no folder", dir);
    return FIRN_OK;
}

static enum firn_status take_lock(const char *dir, int *out,
                                  struct firn_error *err)
{
    struct firn_buf path = {0};
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    enum firn_status status = FIRN_OK;
    buf_printf(&path, "%s/firnd.lock", dir);
    int fd = open(path.at, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        status = fail_file(path.at, "cannot be opened", err);
    } else if (fcntl(fd, F_SETLK, &lock) != 0) {
        status = errno == EACCES || errno == EAGAIN
                     ? firn_fail(err, FIRN_EIO,
                                 "%.300s is in use by another firnd", dir)
                     : fail_file(path.at, "cannot be locked", err);
        close(fd);
    } else {
        *out = fd;
    }
    buf_release(&path);
    return status;
}

/* --- the schema ---------------------------------------------------------- */

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
    if (version < 0 || (size_t)version > nsteps)
        return firn_fail(err, FIRN_EIO,
                         "it is of version %lld, and this firnd knows "
                         "versions up to %zu only: a newer one made it",
                         (long long)version, nsteps);
    for (size_t i = (size_t)version; i < nsteps; i++) {
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

/* --- opening and checking ------------------------------------------------ */

static bool is_damage(sqlite3 *db)
{
    int code = sqlite3_errcode(db) & 0xff;
    return code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
}

/* The first line that quick_check says is "ok" when all is well. */
static bool passes(sqlite3 *db, const char *check)
{
    sqlite3_stmt *stmt = NULL;
    bool is_good =
        sqlite3_prepare_v2(db, check, -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW &&
        strcmp((const char *)sqlite3_column_text(stmt, 0), "ok") == 0;
    sqlite3_finalize(stmt);
    return is_good;
}

static void suspect_path(const char *path, struct firn_buf *out)
{
    buf_printf(out, "%s-suspect", path);
}

void store_suspect(const struct store *store)
{
    struct firn_buf mark = {0};
    if (!is_damage(store->db))
        return;
    suspect_path(store->path, &mark);
    int fd = open(mark.at, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    buf_release(&mark);
}

static bool passes_check(sqlite3 *db, const char *path)
{
    static const char *const parts[] = {"PRAGMA quick_check(jobs)",
                                        "PRAGMA quick_check(epochs)",
                                        "PRAGMA quick_check(meta)"};
    struct firn_buf mark = {0};
    struct stat about = {0};
    suspect_path(path, &mark);
    bool is_suspect = access(mark.at, F_OK) == 0;
    bool is_good = true;
    if (is_suspect || (stat(path, &about) == 0 && about.st_size <= WHOLE_BYTES))
        is_good = passes(db, "PRAGMA quick_check(1)");
    else
        for (size_t i = 0; i < sizeof parts / sizeof *parts && is_good; i++)
            is_good = passes(db, parts[i]);
    if (is_suspect && is_good)
        unlink(mark.at);
    buf_release(&mark);
    return is_good;
}

static const char *const settings[] = {
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
    "PRAGMA journal_size_limit = 67108864",
};

static enum shape set_up(sqlite3 *db, const char *path, struct firn_error *err)
{
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (sqlite3_exec(db, settings[i], NULL, NULL, NULL) != SQLITE_OK) {
            bool damage = is_damage(db);
            firn_fail(err, FIRN_EIO, "%s: %s", settings[i], sqlite3_errmsg(db));
            return damage ? DAMAGED : REFUSED;
        }
    if (!passes_check(db, path)) {
        int code = sqlite3_errcode(db) & 0xff;
        firn_fail(err, FIRN_EIO, "it fails its check");
        return code == SQLITE_OK || code == SQLITE_ROW || is_damage(db)
                   ? DAMAGED
                   : REFUSED;
    }
    if (store_migrate(db, schema, sizeof schema / sizeof *schema, err) !=
        FIRN_OK)
        return is_damage(db) ? DAMAGED : REFUSED;
    return GOOD;
}

/* Whether closing leaves the -wal as it is: it may be the better part. */
static void keep_log(sqlite3 *db, int is_kept)
{
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, is_kept, NULL);
}

/* Opens the file, which is made with the right mode before. */
static enum shape open_db(const char *path, sqlite3 **out,
                          struct firn_error *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        fail_file("it", "cannot be opened", err);
        return REFUSED;
    }
    close(fd);
    sqlite3 *db = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    enum shape shape = REFUSED;
    if (sqlite3_open_v2(path, &db, flags, NULL) != SQLITE_OK)
        firn_fail(err, FIRN_EIO, "%s",
                  db != NULL ? sqlite3_errmsg(db) : "no memory");
    else {
        sqlite3_busy_timeout(db, BUSY_MS);
        shape = set_up(db, path, err);
        keep_log(db, shape == DAMAGED);
    }
    if (shape == GOOD)
        *out = db;
    else
        sqlite3_close(db);
    return shape;
}

/* --- what cannot be read ------------------------------------------------- */

/* Renames the file and what belongs to it; `name` gets the new name. */
static enum firn_status move_aside(const char *path, struct firn_buf *name,
                                   struct firn_error *err)
{
    static const char *const parts[] = {"-wal", "-shm", "-suspect", ""};
    time_t now = time(NULL);
    struct tm utc = {0};
    char stamp[32] = "";
    gmtime_r(&now, &utc);
    strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &utc);
    for (int i = 1; i == 1 || access(name->at, F_OK) == 0; i++) {
        buf_clear(name);
        buf_printf(name, "%s.unreadable-%s", path, stamp);
        if (i > 1)
            buf_printf(name, "-%d", i);
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct firn_buf from = {0}, to = {0};
        buf_printf(&from, "%s%s", path, parts[i]);
        buf_printf(&to, "%s%s", name->at, parts[i]);
        failpoint("store.aside.before");
        bool is_moved = rename(from.at, to.at) == 0 || errno == ENOENT;
        failpoint("store.aside.after");
        if (!is_moved)
            fail_file(from.at, "cannot be moved aside", err);
        buf_release(&from);
        buf_release(&to);
        if (!is_moved)
            return FIRN_EIO;
    }
    return FIRN_OK;
}

static enum firn_status begin_anew(struct store *store, char *said,
                                   size_t nsaid, struct firn_error *err)
{
    struct firn_buf name = {0};
    char why[200];
    str_copy(why, sizeof why, err->text);
    enum firn_status status = move_aside(store->path, &name, err);
    if (status == FIRN_OK && open_db(store->path, &store->db, err) != GOOD) {
        char context[300];
        str_copy(context, sizeof context, store->path);
        status = firn_fail_in(err, context);
    }
    if (status == FIRN_OK) {
        struct firn_buf text = {0};
        buf_printf(&text,
                   "the state in %s cannot be read (%s); it was moved to %s, "
                   "and a new one was begun",
                   store->path, why, name.at);
        str_copy(said, nsaid, text.at);
        buf_release(&text);
    }
    buf_release(&name);
    return status;
}

/* Is there one that was moved aside, now or ever? */
static bool has_lost_one(const char *dir)
{
    static const char beginning[] = "firn.db.unreadable-";
    bool is_there = false;
    DIR *folder = opendir(dir);
    if (folder == NULL)
        return false;
    for (struct dirent *e; !is_there && (e = readdir(folder)) != NULL;)
        is_there = strncmp(e->d_name, beginning, sizeof beginning - 1) == 0;
    closedir(folder);
    return is_there;
}

/* Seconds since 2020: nobody had more than a job a second ever since. */
static enum firn_status start_above(struct store *store, struct firn_error *err)
{
    char text[32];
    long seconds = (long)time(NULL) - 1577836800L;
    bool is_sane = seconds > 1 && seconds < INT_MAX / 2;
    store->first_id = (firn_job_id)(is_sane ? seconds : INT_MAX / 2);
    int n = snprintf(text, sizeof text, "%d", store->first_id);
    struct firn_bytes bytes = {text, (size_t)n};
    FIRN_TRY(store_put_meta(store, "first_id", bytes, err));
    return store_commit(store, err);
}

static enum firn_status load_ids(struct store *store, const char *dir,
                                 struct firn_error *err)
{
    struct firn_buf text = {0};
    long first = 1;
    enum firn_status status = store_get_meta(store, "first_id", &text, err);
    if (status == FIRN_OK && !str_int(text.at, 1, INT_MAX, &first))
        first = 1;
    buf_release(&text);
    if (status != FIRN_OK && status != FIRN_ENOENT)
        return status;
    store->first_id = (firn_job_id)first;
    FIRN_TRY(store_count(store, err));
    if (store->next_id > 1 || !has_lost_one(dir))
        return FIRN_OK;
    FIRN_TRY(start_above(store, err));
    return store_count(store, err);
}

static enum firn_status open_file(struct store *store, const char *dir,
                                  char *said, size_t nsaid,
                                  struct firn_error *err)
{
    char context[300];
    struct firn_error why = {0};
    switch (open_db(store->path, &store->db, &why)) {
    case GOOD:
        break;
    case DAMAGED:
        FIRN_TRY(begin_anew(store, said, nsaid, &why) == FIRN_OK
                     ? FIRN_OK
                     : firn_fail(err, FIRN_EIO, "%s", why.text));
        break;
    case REFUSED:
        str_copy(context, sizeof context, store->path);
        return firn_fail(err, FIRN_EIO, "%s: %s", context, why.text);
    }
    return load_ids(store, dir, err);
}

enum firn_status store_open(struct store **out, const char *dir, char *said,
                            size_t nsaid, struct firn_error *err)
{
    char report[1024] = "";
    struct store *store = mem_new(1, sizeof *store);
    store->lock_fd = -1;
    enum firn_status status = make_folder(dir, err);
    int n = snprintf(store->path, sizeof store->path, "%s/firn.db", dir);
    if (status == FIRN_OK && (size_t)n >= sizeof store->path - 64)
        status = firn_fail(err, FIRN_EIO, "%.100s...: too long a path", dir);
    if (status == FIRN_OK)
        status = take_lock(dir, &store->lock_fd, err);
    if (status == FIRN_OK)
        status = open_file(store, dir, report, sizeof report, err);
    if (status != FIRN_OK) {
        store_close(store);
        return status;
    }
    if (nsaid > 0)
        str_copy(said, nsaid, report);
    *out = store;
    return FIRN_OK;
}

void store_close(struct store *store)
{
    if (store == NULL)
        return;
    if (store->db != NULL)
        store_rollback(store);
    for (int i = 0; i < SQL_N; i++)
        sqlite3_finalize(store->sql[i]);
    sqlite3_close(store->db);
    if (store->lock_fd >= 0)
        close(store->lock_fd);
    mem_free(store);
}
