/* store_open.c - opens the state file: locks it, checks it, migrates it.
 *
 * (1) One daemon at a time: firnd.lock is locked by fcntl(), whose locks end
 * with the process and do not pass to its children, which may outlive it. (2)
 * A file that SQLite cannot read, whose schema is not ours (store_schema.c) or
 * whose quick check fails, is renamed with its -wal and -shm to
 * firn.db.unreadable-<time> and a new one is begun; ids in it start from the
 * seconds since 2020, above those of the lost one, whose jobs may still run. A
 * large file is checked without its history, so that it is open soon; a reader
 * that meets damage there leaves a mark beside it (firn.db-suspect), and the
 * next start checks all. (3) A file of a newer firn, one that cannot be opened
 * for want of rights, and one of which a comparison had no answer (no memory,
 * no descriptor, a lock, a page that could not be read) is an error and stays
 * where it is: damage is what SQLite found in the file, and nothing else. (4) A
 * power cut loses no acknowledged change: the folder is synced when it is made,
 * SQLite syncs it when it makes its log. (5) On a full disk the
 * reserve is given up, and if that does not help the file is opened without the
 * -shm file, which needs no room: what is there can be shown. Only a folder
 * without a state cannot be begun on a full disk.
 *
 * The file is made with mode 0600 (SQLite gives -wal and -shm the same): it
 * has the jobs' tokens in it.
 */
#include "base/buf.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/storework.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A file up to this size is checked whole, in about half a second. */
enum { BUSY_MS = 2000, WHOLE_BYTES = 64 << 20, SAME_SECOND = 1000 };

/* What opening came to. */
enum shape { GOOD, DAMAGED, REFUSED, STUCK };

/* How SQLite locks the file. Alone it needs no -shm, and so no room. */
enum locking { SHARED, ALONE };

/* --- the folder and its lock --------------------------------------------- */

static enum firn_status fail_file(const char *path, const char *what,
                                  struct firn_error *err)
{
    return firn_fail(err, FIRN_EIO, "%.300s: %s: %s", path, what,
                     strerror(errno));
}

/* (4) */
static void sync_parent(const char *dir)
{
    struct firn_buf parent = {0};
    buf_printf(&parent, "%s/..", dir);
    int fd = open(parent.at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    buf_release(&parent);
}

static enum firn_status make_folder(const char *dir, struct firn_error *err)
{
    struct stat about;
    bool is_new = mkdir(dir, 0700) == 0;
    if (!is_new && errno != EEXIST)
        return fail_file(dir, "cannot be made", err);
    if (is_new)
        sync_parent(dir);
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

/* --- opening and checking ------------------------------------------------ */

/* SQLite may only read the file. Its header says so, by the version that may
 * write it; or the file could not be opened for writing just now (no
 * descriptor, a failing disk), SQLite opened it for reading, and that may pass.
 */
static enum shape shape_of_read_only(const char *path)
{
    enum { PLACE = 18, NEWEST = 2 };
    unsigned char version = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? pread(fd, &version, 1, PLACE) : -1;
    if (fd >= 0)
        close(fd);
    return n == 1 && version > NEWEST ? DAMAGED : STUCK;
}

/* A step of opening has failed. What the disk does may pass: (5). Damage is
 * what is in the file: (2); of everything else nothing is known: (3). */
static enum shape shape_of(sqlite3 *db)
{
    int code = sqlite3_extended_errcode(db);
    if (code == SQLITE_READONLY_DIRECTORY || code == SQLITE_READONLY_CANTINIT ||
        code == SQLITE_IOERR_NOMEM)
        return REFUSED;
    switch (code & 0xff) {
    case SQLITE_READONLY:
        return shape_of_read_only(sqlite3_db_filename(db, "main"));
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        return STUCK;
    default:
        return store_is_damage(code) ? DAMAGED : REFUSED;
    }
}

/* The first line of a check that did not succeed. SQLite writes what it could
 * not read, and what it has no memory for, into the same lines as damage. */
static enum shape shape_of_line(const char *text)
{
    static const char number[] = "error code=";
    const char *at = strstr(text, number);
    if (at != NULL &&
        store_may_pass((int)strtol(at + sizeof number - 1, NULL, 10)))
        return STUCK;
    return strstr(text, "failed to get page") != NULL ? STUCK : DAMAGED;
}

/* The first line of a good check is "ok". */
static enum shape check(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    enum shape shape = DAMAGED;
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK ||
        sqlite3_step(stmt) != SQLITE_ROW) {
        shape = shape_of(db);
    } else if (sqlite3_column_type(stmt, 0) == SQLITE_TEXT) {
        const char *text = (const char *)sqlite3_column_text(stmt, 0);
        if (text == NULL)
            shape = REFUSED; /* no memory */
        else
            shape = strcmp(text, "ok") == 0 ? GOOD : shape_of_line(text);
    }
    sqlite3_finalize(stmt);
    return shape;
}

static enum shape check_file(sqlite3 *db, const char *path)
{
    static const char *const parts[] = {"PRAGMA quick_check(jobs)",
                                        "PRAGMA quick_check(epochs)",
                                        "PRAGMA quick_check(meta)"};
    struct firn_buf mark = {0};
    struct stat about = {0};
    store_suspect_path(path, &mark);
    bool is_suspect = access(mark.at, F_OK) == 0 || errno != ENOENT;
    enum shape shape = GOOD;
    if (is_suspect)
        shape = check(db, "PRAGMA integrity_check(1)");
    else if (stat(path, &about) == 0 && about.st_size <= WHOLE_BYTES)
        shape = check(db, "PRAGMA quick_check(1)");
    else
        for (size_t i = 0; i < sizeof parts / sizeof *parts && shape == GOOD;
             i++)
            shape = check(db, parts[i]);
    if (is_suspect && shape == GOOD)
        unlink(mark.at);
    buf_release(&mark);
    return shape;
}

static const char *const settings[] = {
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
    "PRAGMA journal_size_limit = 67108864",
};

/* (2), (3) */
static enum shape judge_schema(sqlite3 *db, struct firn_error *err)
{
    size_t n;
    const char *const *steps = store_schema(&n);
    switch (store_check_schema(db, steps, n, err)) {
    case FIRN_OK:
        return GOOD;
    case FIRN_EDATA:
        return DAMAGED;
    default:
        return shape_of(db) == STUCK ? STUCK : REFUSED;
    }
}

static enum shape migrate(sqlite3 *db, struct firn_error *err)
{
    size_t n;
    const char *const *steps = store_schema(&n);
    enum firn_status status = store_migrate(db, steps, n, err);
    int code = sqlite3_errcode(db);
    if (status == FIRN_OK)
        return GOOD;
    if (status == FIRN_EDATA)
        return DAMAGED;
    return code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE
               ? REFUSED
               : shape_of(db);
}

static enum shape set_up(sqlite3 *db, const char *path, struct firn_error *err)
{
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (sqlite3_exec(db, settings[i], NULL, NULL, NULL) != SQLITE_OK) {
            enum shape shape = shape_of(db);
            firn_fail(err, FIRN_EIO, "%s: %s", settings[i], sqlite3_errmsg(db));
            return shape;
        }
    enum shape shape = judge_schema(db, err);
    if (shape != GOOD)
        return shape;
    if (sqlite3_db_readonly(db, "main") == 1) { /* open() could write */
        shape = shape_of_read_only(path);
        firn_fail(err, FIRN_EIO, "%s",
                  shape == DAMAGED ? "its header says that it is read-only"
                                   : "it could only be opened for reading");
        return shape;
    }
    shape = check_file(db, path);
    if (shape != GOOD) {
        firn_fail(err, FIRN_EIO,
                  shape == DAMAGED ? "it fails its check"
                                   : "it could not be read to be checked");
        return shape;
    }
    return migrate(db, err);
}

/* A path that is not a regular file can never be opened. */
static bool has_no_file(const char *path, struct firn_error *err)
{
    static const char *const parts[] = {"", "-wal", "-shm"};
    bool is_other = false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !is_other; i++) {
        struct firn_buf name = {0};
        struct stat about;
        buf_printf(&name, "%s%s", path, parts[i]);
        is_other = stat(name.at, &about) == 0 && !S_ISREG(about.st_mode);
        if (is_other)
            firn_fail(err, FIRN_EIO, "firn.db%s is no file", parts[i]);
        buf_release(&name);
    }
    return is_other;
}

/* Opens the file, which is made with the right mode before. */
static enum shape open_db(const char *path, enum locking locking, sqlite3 **out,
                          struct firn_error *err)
{
    if (has_no_file(path, err))
        return DAMAGED;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        bool may_pass = errno == ENOSPC || errno == EDQUOT || errno == EIO;
        fail_file("it", "cannot be opened", err);
        return may_pass ? STUCK : REFUSED;
    }
    close(fd);
    sqlite3 *db = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    enum shape shape = STUCK;
    if (sqlite3_open_v2(path, &db, flags, NULL) != SQLITE_OK ||
        (locking == ALONE && sqlite3_exec(db, "PRAGMA locking_mode = EXCLUSIVE",
                                          NULL, NULL, NULL) != SQLITE_OK)) {
        firn_fail(err, FIRN_EIO, "%s",
                  db != NULL ? sqlite3_errmsg(db) : "no memory");
        if (db == NULL || shape_of(db) != STUCK)
            shape = REFUSED;
    } else {
        sqlite3_busy_timeout(db, BUSY_MS);
        shape = set_up(db, path, err);
        /* Closing leaves the -wal as it is: it may have the newest changes. */
        sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE,
                          shape == DAMAGED, NULL);
    }
    if (shape == GOOD)
        *out = db;
    else
        sqlite3_close(db);
    return shape;
}

/* (5) */
static enum shape open_with_room(struct store *store, struct firn_error *err)
{
    enum shape shape = open_db(store->path, SHARED, &store->db, err);
    if (shape == STUCK && store_room_give_up(store)) {
        log_warn("%s: %s: the reserve is given up", store->path, err->text);
        shape = open_db(store->path, SHARED, &store->db, err);
    }
    if (shape == STUCK) {
        shape = open_db(store->path, ALONE, &store->db, err);
        if (shape == GOOD)
            log_warn("%s: the disk has no room: other programs cannot read the "
                     "state until firnd is started anew",
                     store->path);
    }
    return shape == STUCK ? REFUSED : shape;
}

/* --- unreadable files --------------------------------------------------- */

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
    for (int i = 1; i == 1 || access(name->at, F_OK) == 0 || errno != ENOENT;
         i++) {
        if (i > SAME_SECOND)
            return fail_file(name->at, "cannot be looked for", err);
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

static enum firn_status begin_anew(struct store *store, char *notice,
                                   size_t nnotice, struct firn_error *err)
{
    struct firn_buf name = {0};
    char why[200];
    str_copy(why, sizeof why, err->text);
    enum firn_status status = move_aside(store->path, &name, err);
    if (status == FIRN_OK && open_with_room(store, err) != GOOD) {
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
        str_copy(notice, nnotice, text.at);
        buf_release(&text);
    }
    buf_release(&name);
    return status;
}

/* Is there a file that was moved aside, now or earlier? */
static enum firn_status find_lost(const char *dir, bool *is_there,
                                  struct firn_error *err)
{
    static const char beginning[] = "firn.db.unreadable-";
    DIR *folder = opendir(dir);
    *is_there = false;
    if (folder == NULL)
        return fail_file(dir, "cannot be read", err);
    errno = 0;
    for (struct dirent *e; !*is_there && (e = readdir(folder)) != NULL;)
        *is_there = strncmp(e->d_name, beginning, sizeof beginning - 1) == 0;
    enum firn_status status =
        errno == 0 ? FIRN_OK : fail_file(dir, "cannot be read", err);
    closedir(folder);
    return status;
}

/* Seconds since 2020: above every earlier id, at less than a job a second. */
static enum firn_status start_above(struct store *store, struct firn_error *err)
{
    char text[32];
    long seconds = (long)time(NULL) - 1577836800L;
    bool is_sane = seconds > 1 && seconds < INT_MAX / 2;
    store->first_id = (firn_job_id)(is_sane ? seconds : INT_MAX / 2);
    int n = snprintf(text, sizeof text, "%d", store->first_id);
    struct firn_bytes bytes = {text, (size_t)n};
    FIRN_TRY(store_put_meta(store, "first_id", bytes, err));
    enum firn_status status = store_commit(store, err);
    return status == FIRN_EUNSAVED ? FIRN_OK : status; /* counted anew then */
}

static enum firn_status load_ids(struct store *store, const char *dir,
                                 struct firn_error *err)
{
    struct firn_buf text = {0};
    long first = 1;
    enum firn_status status = store_get_meta(store, "first_id", &text, err);
    if (status == FIRN_OK &&
        !str_int(text.n > 0 ? text.at : "", 1, INT_MAX / 2, &first))
        first = 1;
    buf_release(&text);
    if (status != FIRN_OK && status != FIRN_ENOENT)
        return status;
    store->first_id = (firn_job_id)first;
    FIRN_TRY(store_count(store, err));
    FIRN_TRY(store_drop_events(store, err));
    bool has_lost_one = false;
    if (store->next_id == 1)
        FIRN_TRY(find_lost(dir, &has_lost_one, err));
    if (!has_lost_one)
        return FIRN_OK;
    FIRN_TRY(start_above(store, err));
    return store_count(store, err);
}

static enum firn_status open_file(struct store *store, const char *dir,
                                  char *notice, size_t nnotice,
                                  struct firn_error *err)
{
    char context[300];
    struct firn_error why = {0};
    switch (open_with_room(store, &why)) {
    case GOOD:
        break;
    case DAMAGED:
        FIRN_TRY(begin_anew(store, notice, nnotice, &why) == FIRN_OK
                     ? FIRN_OK
                     : firn_fail(err, FIRN_EIO, "%s", why.text));
        break;
    case STUCK:
    case REFUSED:
        str_copy(context, sizeof context, store->path);
        return firn_fail(err, FIRN_EIO, "%s: %s", context, why.text);
    }
    return load_ids(store, dir, err);
}

enum firn_status store_open(struct store **out, const char *dir, char *notice,
                            size_t nnotice, struct firn_error *err)
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
    if (nnotice > 0)
        str_copy(notice, nnotice, report);
    *out = store;
    return FIRN_OK;
}

void store_close(struct store *store)
{
    if (store == NULL)
        return;
    if (store->db != NULL)
        store_rollback(store);
    vec_release(&store->redo);
    arena_release(&store->redo_text);
    for (int i = 0; i < SQL_N; i++)
        sqlite3_finalize(store->sql[i]);
    sqlite3_close(store->db);
    if (store->lock_fd >= 0)
        close(store->lock_fd);
    mem_free(store);
}
