/* test_store_hostile.c - a state file that is damaged, or that someone wrote
 * into: firnd opens it or moves it aside, and works.
 *
 * A generator takes a good file and changes one thing: a table or an index is
 * dropped, a column has another type, a trigger or a view is there, a column of
 * a table has a value from the list of extremes, bytes are flipped, pages are
 * cut, zeroed or exchanged. Each is opened in a process of its own with a limit
 * of time by the whole loop, over an engine that the test plays, three times at
 * most (as a service manager would); it takes a new job, and the next opening
 * finds nothing to move aside. Only a newer version may be refused.
 *
 * In the check a part of it; all of it, and many more flips, with FIRN_SOAK=1.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "daemon/storework.h"
#include "loopscene.h"
#include "tests/daemon/diskvfs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIME_LIMIT_S = 300, TRIES = 3 };
enum { WORKS, REFUSED = 10, MOVED_AGAIN, DOES_NOT_WORK, FORGETS };

static struct firn_buf good; /* the bytes of a good firn.db */
static long nworked, nmoved; /* of all cases */

static bool is_soak(void)
{
    return getenv("FIRN_SOAK") != NULL;
}

/* `normal` in the check, four times as much under a sanitizer. */
static int step(int normal)
{
    return getenv("FIRN_QUICK") != NULL ? 4 * normal : normal;
}

/* --- a good file ---------------------------------------------------------- */

static const char *in_folder(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", folder_path(), name);
    return path;
}

static void read_file(const char *path, struct firn_buf *out)
{
    char block[65536];
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    for (ssize_t n; (n = read(fd, block, sizeof block)) > 0;)
        buf_add(out, block, (size_t)n);
    close(fd);
}

/* Jobs in most states, attempts, reports, events and all that is kept. */
static void make_good(void)
{
    struct loopscene s;
    loopscene_open(&s, "2x2:v100@16", "fifo", false);
    loopscene_submit(&s, "done", "gpus: 1\ncheckpoint: {grace: 10}");
    loopscene_submit(&s, "runs", "gpus: 2\ncheckpoint: {grace: 10}");
    loopscene_submit(&s, "grows", "gpus: 1..2\ncheckpoint: {grace: 10}");
    loopscene_turn(&s);
    loopscene_report(&s, "runs", 0.25, 0.5, 1000);
    loopscene_done(&s, "done");
    loopscene_submit(&s, "waits", "gpus: 4");
    loopscene_hold(&s, loopscene_submit(&s, "held", "gpus: 1"), true);
    loopscene_turn(&s);
    loopscene_close(&s);
    read_file(in_folder("firn.db"), &good);
    assert_true(good.n > 20000);
}

/* --- one case ------------------------------------------------------------- */

static bool was_moved(void)
{
    glob_t found;
    bool is_there =
        glob(in_folder("firn.db.unreadable-*"), 0, NULL, &found) == 0;
    globfree(&found);
    return is_there;
}

static struct loop *open_once(struct config *config, struct firn_error *err)
{
    struct loop *loop = NULL;
    char state[400];
    snprintf(state, sizeof state, "%s", folder_path());
    char *argv[] = {"firnd",       "--state",  state,  "--gpus",
                    "2x2:v100@16", "--policy", "fifo", NULL};
    *config = (struct config){0};
    if (config_flags(config, 7, argv, err) != FIRN_OK ||
        config_finish(config, err) != FIRN_OK)
        return NULL;
    struct loop_setup setup = {
        .config = config, .engine = &loopscene_engine, .is_deaf = true};
    if (loop_open(&loop, &setup, err) != FIRN_OK)
        config_release(config);
    return loop;
}

static struct loop *open_in_the_end(struct config *config)
{
    struct loop *loop = NULL;
    struct firn_error err = {0};
    for (int i = 0; i < TRIES && loop == NULL; i++)
        loop = open_once(config, &err);
    if (loop == NULL)
        fprintf(stderr, "refused: %s\n", err.text);
    return loop;
}

static bool submit(struct loop *loop, firn_job_id *id)
{
    struct firn_error err = {0};
    struct live_ask ask = {.name = mem_strdup("new")};
    struct live_job *job = NULL;
    bool is_new = false;
    double next_s = 0;
    ask.gpus_min = ask.gpus_max = 1;
    ask.argv = mem_new(2, sizeof *ask.argv);
    ask.argv[0] = mem_strdup("true");
    if (book_submit(loop->book, &ask, "run: true", "", 5000, &job, &is_new,
                    &err) != FIRN_OK)
        return false;
    loop_changed(loop, job);
    *id = job->id;
    for (int i = 0; i < 3; i++)
        if (loop_turn(loop, &next_s, &err) != FIRN_OK)
            return false;
    return true;
}

/* In the child. */
static int live_with_it(void)
{
    struct config config;
    firn_job_id id = 0;
    alarm(TIME_LIMIT_S);
    struct loop *loop = open_in_the_end(&config);
    if (loop == NULL)
        return REFUSED;
    if (!submit(loop, &id))
        return DOES_NOT_WORK;
    loop_close(loop);
    config_release(&config);
    char said[512] = "";
    struct store *store = NULL;
    struct live_job *job = NULL;
    struct firn_error err = {0};
    if (store_open(&store, folder_path(), said, sizeof said, &err) != FIRN_OK)
        return REFUSED;
    if (said[0] != '\0')
        return MOVED_AGAIN;
    if (store_read_job(store, id, &job, &err) != FIRN_OK)
        return FORGETS;
    live_job_free(job);
    store_close(store);
    return WORKS;
}

static void empty_folder(void)
{
    loopscene_remove_state();
}

/* What is in the folder is opened; `what` names it if something is wrong. */
static void check(const char *what, bool may_be_refused)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (freopen(in_folder("err"), "w", stderr) == NULL)
            _exit(99);
        int code = live_with_it();
        fflush(stderr);
        _exit(code);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    if (code != WORKS && !(code == REFUSED && may_be_refused)) {
        struct firn_buf err = {0};
        read_file(in_folder("err"), &err);
        fail_msg("%s: %d: %.300s", what, code, err.n > 0 ? err.at : "");
    }
    if (was_moved())
        nmoved++;
    else
        nworked++;
}

static void write_good(size_t n)
{
    empty_folder();
    int fd = open(in_folder("firn.db"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, good.at, n), n);
    close(fd);
}

/* The good file with a few statements run over it; false: they failed. */
static bool change(const char *sql)
{
    sqlite3 *db = NULL;
    write_good(good.n);
    assert_int_equal(sqlite3_open(in_folder("firn.db"), &db), SQLITE_OK);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL);
    bool is_done = sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
    sqlite3_close(db);
    return is_done;
}

static bool with(const char *sql)
{
    if (!change(sql))
        return false;
    check(sql, false);
    return true;
}

/* --- the list of the good file's tables ----------------------------------- */

typedef void column_fn(const char *table, const char *column, const char *type);

static void each_column(column_fn *fn)
{
    static const char sql[] =
        "SELECT m.name, c.name, c.type FROM sqlite_schema m"
        " JOIN pragma_table_xinfo(m.name) c WHERE m.type = 'table'";
    sqlite3 *db = NULL, *copy = NULL;
    sqlite3_stmt *stmt = NULL;
    write_good(good.n);
    assert_int_equal(sqlite3_open(in_folder("firn.db"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_open(":memory:", &copy), SQLITE_OK);
    sqlite3_backup *b = sqlite3_backup_init(copy, "main", db, "main");
    sqlite3_backup_step(b, -1);
    sqlite3_backup_finish(b);
    sqlite3_close(db);
    assert_int_equal(sqlite3_prepare_v2(copy, sql, -1, &stmt, NULL), SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW)
        fn((const char *)sqlite3_column_text(stmt, 0),
           (const char *)sqlite3_column_text(stmt, 1),
           (const char *)sqlite3_column_text(stmt, 2));
    sqlite3_finalize(stmt);
    sqlite3_close(copy);
}

/* --- schemas -------------------------------------------------------------- */

static void a_foreign_schema_is_moved_aside_or_repaired(void **state)
{
    (void)state;
    static const char *const moved[] = {
        "DROP TABLE jobs",
        "DROP TABLE epochs",
        "DROP TABLE events",
        "DROP TABLE reports",
        "DROP TABLE meta",
        "PRAGMA user_version = 0",
        "PRAGMA user_version = 2",
        "PRAGMA user_version = -1",
        "CREATE TRIGGER t BEFORE UPDATE ON jobs BEGIN SELECT RAISE(ABORT, 'x');"
        " END",
        "CREATE TRIGGER t BEFORE UPDATE ON jobs BEGIN SELECT RAISE(IGNORE); "
        "END",
        "CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM jobs; END",
        "CREATE TRIGGER t AFTER UPDATE ON jobs BEGIN UPDATE jobs SET epoch ="
        " epoch + 1; END",
        "CREATE VIEW v AS SELECT * FROM jobs",
        "CREATE TABLE extra (a)",
        "CREATE VIRTUAL TABLE extra USING fts5(a)",
        "ALTER TABLE jobs ADD COLUMN more TEXT",
        "ALTER TABLE jobs RENAME TO work",
        "ALTER TABLE jobs DROP COLUMN held",
        "ALTER TABLE jobs RENAME COLUMN held TO has",
        "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql ="
        " replace(sql, 'epoch INTEGER', 'epoch INTEGER CHECK (epoch < 1)')",
        "PRAGMA writable_schema = 1; DELETE FROM sqlite_schema",
        "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET rootpage = 1",
        "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = 'x'",
        "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = NULL WHERE"
        " type = 'table'",
    };
    static const char *const mended[] = {
        "DROP INDEX jobs_name",
        "DROP INDEX jobs_live",
        "DROP INDEX jobs_request",
        "DROP INDEX reports_job",
        "CREATE INDEX mine ON jobs (user)",
        "CREATE UNIQUE INDEX mine ON jobs (state)",
        "DROP INDEX jobs_name; CREATE UNIQUE INDEX jobs_name ON jobs (name)",
        "DROP INDEX jobs_live; CREATE INDEX jobs_live ON jobs (id) WHERE over ="
        " 1",
        "ANALYZE",
        "VACUUM",
        "PRAGMA journal_mode = DELETE",
    };
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++) {
        if (strstr(moved[i], "UNIQUE INDEX mine") == NULL && with(moved[i]) &&
            !was_moved())
            fail_msg("was not moved aside: %s", moved[i]);
    }
    for (size_t i = 0; i < sizeof mended / sizeof *mended; i++)
        if (with(mended[i]) && was_moved())
            fail_msg("was moved aside: %s", mended[i]);
}

static void retype(const char *table, const char *column, const char *type)
{
    static int turn;
    struct firn_buf sql = {0};
    if (!is_soak() && turn++ % step(11) != 0)
        return;
    buf_printf(&sql,
               "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql ="
               " replace(sql, '%s %s', '%s %s') WHERE name = '%s'",
               column, type, column,
               strcmp(type, "TEXT") == 0 ? "INTEGER" : "TEXT", table);
    with(sql.at);
    buf_release(&sql);
}

static void a_column_of_another_type_does_not_stop_firnd(void **state)
{
    (void)state;
    each_column(retype);
}

static void a_newer_version_alone_is_refused(void **state)
{
    (void)state;
    assert_true(change("PRAGMA user_version = 1000"));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(99);
        int code = live_with_it();
        fflush(stderr);
        _exit(code);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    assert_int_equal(WEXITSTATUS(status), REFUSED);
    assert_false(was_moved());
}

/* --- values --------------------------------------------------------------- */

static const char *const extremes[] = {
    "NULL",
    "0",
    "-1",
    "2147483647",
    "9007199254740991",
    "9223372036854775807",
    "-9223372036854775808",
    "1e308",
    "9e999",
    "-9e999",
    "''",
    "'x'",
    "'9223372036854775807'",
    "x'00ff00'",
    "zeroblob(3000000)",
    "hex(randomblob(100000))",
};

static void extreme(const char *table, const char *column, const char *type)
{
    static int turn;
    (void)type;
    for (size_t i = 0; i < sizeof extremes / sizeof *extremes; i++)
        for (int one = 0; one <= 1; one++) {
            struct firn_buf sql = {0};
            if (!is_soak() && turn++ % step(37) != 0)
                continue;
            buf_printf(&sql, "UPDATE OR IGNORE %s SET %s = %s%s", table, column,
                       extremes[i],
                       one ? " WHERE rowid = (SELECT max(rowid)" : "");
            if (one)
                buf_printf(&sql, " FROM %s)", table);
            with(sql.at);
            buf_release(&sql);
        }
}

static void an_extreme_value_in_any_column_does_not_stop_firnd(void **state)
{
    (void)state;
    each_column(extreme);
}

/* Those that were harmful once. */
static void values_that_once_crashed_firnd_are_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "INSERT INTO events (id, at_s, job, kind, text) VALUES"
        " (9223372036854775800, 1, 1, 'k', 't')",
        "INSERT INTO events (id, at_s, job, kind, text) VALUES"
        " (9223372036854775807, 1, 1, 'k', 't')",
        "UPDATE sqlite_sequence SET seq = 9223372036854775807",
        "UPDATE sqlite_sequence SET seq = 'x'",
        "DELETE FROM sqlite_sequence",
        "UPDATE jobs SET epoch = 9223372036854775807",
        "INSERT INTO epochs (job, epoch, started_s, ended_s, how, exit_status,"
        " held) VALUES (2, 9223372036854775807, 1, 0, -1, 0, '-')",
        "UPDATE jobs SET id = 2147483647 WHERE id = 2",
        "UPDATE jobs SET id = 9223372036854775807 WHERE id = 2",
        "UPDATE jobs SET id = -5 WHERE id = 2",
        "UPDATE jobs SET over = 1 - over",
        "UPDATE jobs SET held = 'n0[0-99999999]'",
        "UPDATE jobs SET gpus_min = 2147483647, gpus_max = 2147483647",
        "INSERT OR REPLACE INTO meta VALUES ('first_id', '2147483647')",
        "INSERT OR REPLACE INTO meta VALUES ('first_id', x'')",
        "UPDATE meta SET value = x''",
        "UPDATE meta SET value = zeroblob(100000)",
        "UPDATE meta SET value = randomblob(1000)",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(with(cases[i]));
}

/* --- bytes ---------------------------------------------------------------- */

/* A flip may be one of the version's own bytes. */
static bool is_newer(void)
{
    unsigned char version[4];
    int fd = open(in_folder("firn.db"), O_RDONLY);
    bool is_read = pread(fd, version, 4, 60) == 4;
    close(fd);
    return is_read && version[0] < 0x80 &&
           (version[0] | version[1] | version[2] | (version[3] > 4)) != 0;
}

static void put_at(long at, const void *bytes, size_t n)
{
    int fd = open(in_folder("firn.db"), O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, n, at), n);
    close(fd);
}

static void flipped_bytes_do_not_stop_firnd(void **state)
{
    (void)state;
    struct rng rng;
    char what[64];
    int n = is_soak() ? 5000 : 40 / step(1);
    rng_seed(&rng, 7);
    for (int i = 0; i < n; i++) {
        write_good(good.n);
        long at = i < n / 5 ? (long)rng_below(&rng, 200)
                            : (long)rng_below(&rng, (uint32_t)good.n);
        char byte = (char)(good.at[at] ^ (1 << rng_below(&rng, 8)));
        put_at(at, &byte, 1);
        snprintf(what, sizeof what, "byte %ld, %02x", at, byte & 0xff);
        check(what, is_newer());
    }
}

static void damaged_pages_do_not_stop_firnd(void **state)
{
    (void)state;
    enum { PAGE = 4096 };
    static const char zeros[PAGE];
    char what[64];
    long npages = (long)good.n / PAGE;
    for (long page = 0; page < npages; page += is_soak() ? 1 : step(5)) {
        write_good((size_t)(page * PAGE + page % 2 * 512));
        snprintf(what, sizeof what, "cut at page %ld", page);
        check(what, false);
        write_good(good.n);
        put_at(page * PAGE, zeros, PAGE);
        snprintf(what, sizeof what, "zeroed page %ld", page);
        check(what, false);
        write_good(good.n);
        put_at(page * PAGE, good.at + (page + 1) % npages * PAGE, PAGE);
        snprintf(what, sizeof what, "page %ld is its neighbour", page);
        check(what, false);
    }
}

static void a_path_that_is_not_a_file_is_moved_aside(void **state)
{
    (void)state;
    static const char *const names[] = {"firn.db", "firn.db-wal",
                                        "firn.db-shm"};
    for (size_t i = 0; i < 3; i++) {
        write_good(good.n);
        unlink(in_folder(names[i]));
        assert_int_equal(mkdir(in_folder(names[i]), 0700), 0);
        check(names[i], false);
        assert_true(was_moved());
    }
}

static int set_up(void **state)
{
    folder_make(state);
    if (good.n == 0)
        make_good();
    return 0;
}

#undef CASE
#define CASE(name) \
    cmocka_unit_test_setup_teardown(name, set_up, loopscene_remove)

int main(void)
{
    disk_install();
    const struct CMUnitTest tests[] = {
        CASE(a_foreign_schema_is_moved_aside_or_repaired),
        CASE(a_column_of_another_type_does_not_stop_firnd),
        CASE(a_newer_version_alone_is_refused),
        CASE(an_extreme_value_in_any_column_does_not_stop_firnd),
        CASE(values_that_once_crashed_firnd_are_refused),
        CASE(flipped_bytes_do_not_stop_firnd),
        CASE(damaged_pages_do_not_stop_firnd),
        CASE(a_path_that_is_not_a_file_is_moved_aside),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    print_message("%ld files opened, %ld moved aside\n", nworked, nmoved);
    buf_release(&good);
    return failed;
}
