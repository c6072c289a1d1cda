/* test_store_file.c - a state file that is in use, damaged, of another age, or
 * killed.
 */
#include "base/buf.h"
#include "base/failpoint.h"
#include "base/mem.h"
#include "core/jobfields.h"
#include "daemon/storework.h"
#include "lib/folder.h"
#include "tests/daemon/storescene.h"
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
#include <unistd.h>

static void a_second_daemon_is_refused_until_the_first_is_dead(void **state)
{
    (void)state;
    int fd[2];
    char byte = 0;
    struct store *store = NULL;
    assert_int_equal(pipe(fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
        store_scene();
        if (write(fd[1], "!", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(fd[0], &byte, 1), 1);
    assert_int_equal(
        store_open(&store, folder_path(), told, sizeof told, &oops), FIRN_EIO);
    assert_non_null(strstr(oops.text, "another firnd"));
    assert_null(store);
    kill(pid, SIGKILL);
    assert_int_equal(scene_wait(pid), 128 + SIGKILL);
    close(fd[0]);
    close(fd[1]);
    store_close(store_scene());
}

/* --- files that cannot be read ------------------------------------------- */

static void path_in(char *out, size_t n, const char *name)
{
    snprintf(out, n, "%s/%s", folder_path(), name);
}

static void write_at(const char *name, long offset, const char *text, size_t n)
{
    char path[300];
    path_in(path, sizeof path, name);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, text, n, offset), n);
    close(fd);
}

static void one_committed_job(void)
{
    struct store *store = store_scene();
    struct live_job *job = job_scene(1);
    scene_add(store, job);
    scene_commit(store);
    live_job_free(job);
    store_close(store);
    assert_string_equal(told, "");
}

/* The name in `told` is that of a file. */
static void check_moved(void)
{
    const char *at = strstr(told, "moved to ");
    assert_non_null(at);
    char path[400] = "";
    sscanf(at, "moved to %399[^,]", path);
    assert_non_null(strstr(path, "firn.db.unreadable-20"));
    assert_int_equal(access(path, F_OK), 0);
}

static void an_unreadable_file_is_moved_aside_and_named(void **state)
{
    (void)state;
    char noise[4096];
    memset(noise, 0x5a, sizeof noise);
    for (int kind = 0; kind < 3; kind++) {
        one_committed_job();
        if (kind == 0)
            write_at("firn.db", 0, noise, 100); /* no database */
        if (kind == 1)
            write_at("firn.db", 4096, noise, 4096); /* a page of it */
        char path[300];
        path_in(path, sizeof path, "firn.db");
        if (kind == 2)
            assert_int_equal(truncate(path, 8192), 0);
        struct store *store = store_scene();
        check_moved();
        assert_int_equal(scene_count(store, true, NULL), 0);
        assert_true(store_next_id(store) > 200000000);
        struct live_job *job = job_scene(store_next_id(store));
        scene_add(store, job);
        scene_commit(store);
        firn_job_id next = store_next_id(store);
        live_job_free(job);
        store_close(store);
        store = store_scene(); /* and not again */
        assert_string_equal(told, "");
        assert_int_equal(store_next_id(store), next);
        store_close(store);
        unlink(path); /* as if killed before the new one was there */
        store = store_scene();
        assert_true(store_next_id(store) > 200000000);
        store_close(store);
        unlink(path);
    }
}

/* The text that begins a file; "" when there is none. */
static void read_begin(const char *path, char *out, size_t n)
{
    int fd = open(path, O_RDONLY);
    ssize_t got = fd >= 0 ? read(fd, out, n - 1) : 0;
    out[got > 0 ? got : 0] = '\0';
    if (fd >= 0)
        close(fd);
}

/* How many of the files that were moved aside begin so. */
static int count_aside(const char *pattern, const char *text)
{
    char path[300], begin[32];
    glob_t found;
    int n = 0;
    path_in(path, sizeof path, pattern);
    if (glob(path, 0, NULL, &found) != 0)
        return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        read_begin(found.gl_pathv[i], begin, sizeof begin);
        n += strncmp(begin, text, strlen(text)) == 0;
        unlink(found.gl_pathv[i]);
    }
    globfree(&found);
    return n;
}

/* At the pass of a point that `where` says. */
static void die_moving(const char *where)
{
    pid_t pid = fork();
    if (pid == 0) {
        setenv("FIRN_FAILPOINT", where, 1);
        failpoint_reset();
        store_scene();
        _exit(0);
    }
    assert_int_equal(scene_wait(pid), 128 + SIGKILL);
}

static void a_kill_while_a_file_is_moved_aside_loses_nothing(void **state)
{
    (void)state;
    static const char *const points[] = {"before", "after"};
    char where[64], path[300];
    for (int i = 0; i < 8; i++) {
        one_committed_job();
        write_at("firn.db", 0, "no database, not at all", 23);
        write_at("firn.db-wal", 0, "w", 1);
        snprintf(where, sizeof where, "store.aside.%s:%d", points[i % 2],
                 1 + i / 2);
        die_moving(where);
        struct store *store = store_scene();
        assert_int_equal(scene_count(store, true, NULL), 0);
        assert_true(store_next_id(store) > 200000000);
        store_close(store);
        assert_int_equal(count_aside("firn.db.unreadable-*-wal", "w"), 1);
        assert_int_equal(count_aside("firn.db.unreadable-*", "no data"), 1);
        path_in(path, sizeof path, "firn.db");
        unlink(path);
    }
}

static void the_wal_of_an_unreadable_file_is_moved_aside_too(void **state)
{
    (void)state;
    one_committed_job();
    write_at("firn.db", 0, "no database, not at all", 23);
    write_at("firn.db-wal", 0, "w", 1);
    store_close(store_scene());
    char path[400] = "";
    sscanf(strstr(told, "moved to "), "moved to %380[^,]", path);
    strncat(path, "-wal", 10);
    assert_int_equal(access(path, F_OK), 0);
}

static void
damage_that_is_met_later_is_looked_for_at_the_next_start(void **state)
{
    (void)state;
    char noise[4096], mark[300];
    struct live_job *job = NULL;
    memset(noise, 0x5a, sizeof noise);
    path_in(mark, sizeof mark, "firn.db-suspect");
    one_committed_job();
    struct store *store = store_scene();
    assert_int_equal(store_read_job(store, 1, &job, &oops), FIRN_OK);
    live_job_free(job);
    sqlite3_db_release_memory(store->db);
    write_at("firn.db", 4096, noise, 4096); /* where the jobs begin */
    assert_int_equal(store_read_job(store, 1, &job, &oops), FIRN_EIO);
    assert_non_null(strstr(oops.text, "malformed"));
    assert_int_equal(access(mark, F_OK), 0);
    store_close(store);
    store_close(store_scene());
    check_moved();
    assert_int_not_equal(access(mark, F_OK), 0);
    /* A mark beside a good file is gone when that has been seen. */
    write_at("firn.db-suspect", 0, "", 0);
    store_close(store_scene());
    assert_string_equal(told, "");
    assert_int_not_equal(access(mark, F_OK), 0);
}

static void a_newer_file_is_refused_and_left_alone(void **state)
{
    (void)state;
    one_committed_job();
    char path[300];
    sqlite3 *db = NULL;
    path_in(path, sizeof path, "firn.db");
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_exec(db, "PRAGMA user_version = 99", NULL, NULL, NULL);
    sqlite3_close(db);
    struct store *store = NULL;
    assert_int_equal(
        store_open(&store, folder_path(), told, sizeof told, &oops), FIRN_EIO);
    assert_non_null(strstr(oops.text, "version 99"));
    assert_non_null(strstr(oops.text, "firn.db: "));
    assert_null(store);
    assert_int_equal(folder_count(), 2); /* the lock and the file */
}

static void a_state_folder_that_is_not_a_folder_is_an_error(void **state)
{
    (void)state;
    struct store *store = NULL;
    char path[300];
    write_at("file", 0, "x", 1);
    path_in(path, sizeof path, "file");
    assert_int_equal(store_open(&store, path, told, sizeof told, &oops),
                     FIRN_EIO);
    assert_non_null(strstr(oops.text, "is no folder"));
    path_in(path, sizeof path, "no/such/place");
    assert_int_equal(store_open(&store, path, told, sizeof told, &oops),
                     FIRN_EIO);
}

static int number(sqlite3 *db, const char *sql);

static void a_commit_is_one_write_and_one_sync_of_the_log(void **state)
{
    (void)state;
    struct store *store = store_scene();
    assert_int_equal(number(store->db, "PRAGMA synchronous"), 2);
    assert_int_equal(number(store->db, "SELECT journal_mode = 'wal' FROM "
                                       "pragma_journal_mode"),
                     1);
    store_close(store);
}

static void only_the_owner_may_read_the_state_file(void **state)
{
    (void)state;
    struct store *store = store_scene();
    static const char *const names[] = {"firn.db", "firn.db-wal"};
    for (size_t i = 0; i < 2; i++) {
        char path[300];
        struct stat about;
        path_in(path, sizeof path, names[i]);
        assert_int_equal(stat(path, &about), 0);
        assert_int_equal(about.st_mode & 0777, 0600);
    }
    store_close(store);
}

/* --- migrations ---------------------------------------------------------- */

static const char *const fake_steps[] = {
    "CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (1)",
    "ALTER TABLE a ADD COLUMN y INTEGER; UPDATE a SET y = x + 1",
    "CREATE TABLE b (z); INSERT INTO b SELECT y + 1 FROM a",
    "CREATE TABLE c (z); INSERT INTO nowhere VALUES (1)",
};

static int number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    int value = -1;
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW)
        value = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    return value;
}

static void an_older_file_is_migrated_step_by_step(void **state)
{
    (void)state;
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(store_migrate(db, fake_steps, 1, &oops), FIRN_OK);
    assert_int_equal(number(db, "PRAGMA user_version"), 1);
    assert_int_equal(number(db, "SELECT x FROM a"), 1);
    assert_int_equal(store_migrate(db, fake_steps, 3, &oops), FIRN_OK);
    assert_int_equal(number(db, "PRAGMA user_version"), 3);
    assert_int_equal(number(db, "SELECT count(*) FROM a"), 1);
    assert_int_equal(number(db, "SELECT z FROM b"), 3);
    /* A step that fails is not half there. */
    assert_int_equal(store_migrate(db, fake_steps, 4, &oops), FIRN_EIO);
    assert_non_null(strstr(oops.text, "step 4"));
    assert_int_equal(number(db, "PRAGMA user_version"), 3);
    assert_int_equal(number(db, "SELECT count(*) FROM c"), -1);
    assert_int_equal(store_migrate(db, fake_steps, 2, &oops), FIRN_EIO);
    assert_non_null(strstr(oops.text, "newer"));
    sqlite3_close(db);
}

/* Kind, name and text of every object, blanks left out of the text. */
static char *schema_of(sqlite3 *db)
{
    struct firn_buf out = {0};
    sqlite3_stmt *stmt = NULL;
    assert_int_equal(
        sqlite3_prepare_v2(db,
                           "SELECT type, name, replace(sql, ' ', '') FROM "
                           "sqlite_schema ORDER BY 1, 2",
                           -1, &stmt, NULL),
        SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW)
        buf_printf(&out, "%s %s %s\n", sqlite3_column_text(stmt, 0),
                   sqlite3_column_text(stmt, 1), sqlite3_column_text(stmt, 2));
    sqlite3_finalize(stmt);
    return out.at;
}

static void a_new_file_has_the_schema_that_the_steps_leave(void **state)
{
    (void)state;
    size_t nsteps;
    const char *const *steps = store_schema(&nsteps);
    sqlite3 *grown = NULL;
    assert_int_equal(sqlite3_open(":memory:", &grown), SQLITE_OK);
    for (size_t n = 1; n <= nsteps; n++) {
        struct firn_buf whole = {0};
        sqlite3 *made = NULL;
        assert_true(store_schema_whole(steps, n, &whole));
        assert_null(strstr(whole.at, "ALTER"));
        assert_int_equal(sqlite3_open(":memory:", &made), SQLITE_OK);
        assert_int_equal(store_migrate(made, steps, n, &oops), FIRN_OK);
        assert_int_equal(store_migrate(grown, steps, n, &oops), FIRN_OK);
        assert_int_equal(number(made, "PRAGMA user_version"), n);
        char *at_once = schema_of(made), *in_steps = schema_of(grown);
        assert_string_equal(at_once, in_steps);
        mem_free(at_once);
        mem_free(in_steps);
        buf_release(&whole);
        sqlite3_close(made);
    }
    sqlite3_close(grown);
}

static void a_column_is_added_before_a_key_of_the_table(void **state)
{
    (void)state;
    static const char *const bound[] = {
        "CREATE TABLE a (x INTEGER, y DEFAULT (1), PRIMARY KEY (x, y))",
        "ALTER TABLE a ADD COLUMN z INTEGER"};
    struct firn_buf whole = {0};
    assert_true(store_schema_whole(bound, 2, &whole));
    assert_string_equal(whole.at,
                        "CREATE TABLE a (x INTEGER, y DEFAULT (1), z INTEGER, "
                        "PRIMARY KEY (x, y));");
    buf_release(&whole);
}

static void steps_that_do_more_than_add_are_run_one_by_one(void **state)
{
    (void)state;
    static const char *const absent[] = {"ALTER TABLE a ADD COLUMN z INTEGER"};
    static const char *const first[] = {"CREATE TABLE a (x)"};
    struct firn_buf whole = {0};
    assert_true(store_schema_whole(first, 1, &whole));
    assert_string_equal(whole.at, "CREATE TABLE a (x);");
    assert_false(store_schema_whole(fake_steps, 1, &whole)); /* INSERT */
    assert_false(store_schema_whole(absent, 1, &whole));
    buf_release(&whole);
}

static void a_file_of_the_first_firnd_is_read(void **state)
{
    (void)state;
    static const char *const columns[] = {"passes", "tensor",      "parallel",
                                          "stages", "merged_with", "after"};
    char path[300];
    char sql[100];
    sqlite3 *db = NULL;
    one_committed_job();
    path_in(path, sizeof path, "firn.db");
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        snprintf(sql, sizeof sql, "ALTER TABLE jobs DROP COLUMN how_%s",
                 columns[i]);
        assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    }
    for (int i = 0; i < JOB_NFIELDS; i++) {
        snprintf(sql, sizeof sql, "ALTER TABLE jobs DROP COLUMN %s",
                 job_fields[i].name);
        if (job_fields[i].since > 1)
            assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL),
                             SQLITE_OK);
    }
    assert_int_equal(sqlite3_exec(db,
                                  "ALTER TABLE jobs DROP COLUMN gpu_type;"
                                  "ALTER TABLE events DROP COLUMN caller;"
                                  "ALTER TABLE events DROP COLUMN cause;"
                                  "ALTER TABLE events DROP COLUMN for_job;"
                                  "ALTER TABLE epochs DROP COLUMN cause;"
                                  "ALTER TABLE epochs DROP COLUMN for_job;"
                                  "ALTER TABLE epochs DROP COLUMN first_step_s;"
                                  "DROP TABLE spans; DROP TABLE usage",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_exec(db, "PRAGMA user_version = 1", NULL, NULL, NULL);
    sqlite3_close(db);
    struct store *store = store_scene();
    struct live_job *job = NULL;
    assert_int_equal(store_read_job(store, 1, &job, &oops), FIRN_OK);
    assert_string_equal(job->held, "n0[0-3]");
    assert_int_equal(job->how.tensor, 0);
    assert_int_equal(job->how.merged_with, FIRN_NO_JOB);
    assert_int_equal(job->how.after, FIRN_NO_JOB);
    assert_string_equal(job->ask.inbox, "");
    assert_string_equal(job->gpu_type, "");
    live_job_free(job);
    store_close(store);
}

static void partners_are_stored_as_id_plus_one_as_in_older_files(void **state)
{
    (void)state;
    char path[300];
    sqlite3 *db = NULL;
    one_committed_job();
    path_in(path, sizeof path, "firn.db");
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "UPDATE jobs SET how_merged_with = 8, "
                                  "how_after = 0",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    struct store *store = store_scene();
    struct live_job *job = NULL;
    assert_int_equal(store_read_job(store, 1, &job, &oops), FIRN_OK);
    assert_int_equal(job->how.merged_with, 7);
    assert_int_equal(job->how.after, FIRN_NO_JOB);
    job->how.after = 3;
    assert_int_equal(store_put_job(store, job, &oops), FIRN_OK);
    scene_commit(store);
    live_job_free(job);
    store_close(store);
    sqlite3_stmt *row = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_prepare_v2(db, "SELECT how_merged_with, how_after FROM jobs", -1,
                       &row, NULL);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(row, 0), 8);
    assert_int_equal(sqlite3_column_int(row, 1), 4);
    sqlite3_finalize(row);
    sqlite3_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_second_daemon_is_refused_until_the_first_is_dead),
        CASE(an_unreadable_file_is_moved_aside_and_named),
        CASE(a_kill_while_a_file_is_moved_aside_loses_nothing),
        CASE(the_wal_of_an_unreadable_file_is_moved_aside_too),
        CASE(damage_that_is_met_later_is_looked_for_at_the_next_start),
        CASE(a_newer_file_is_refused_and_left_alone),
        CASE(a_state_folder_that_is_not_a_folder_is_an_error),
        CASE(a_commit_is_one_write_and_one_sync_of_the_log),
        CASE(only_the_owner_may_read_the_state_file),
        CASE(an_older_file_is_migrated_step_by_step),
        CASE(a_new_file_has_the_schema_that_the_steps_leave),
        CASE(a_column_is_added_before_a_key_of_the_table),
        CASE(steps_that_do_more_than_add_are_run_one_by_one),
        CASE(a_file_of_the_first_firnd_is_read),
        CASE(partners_are_stored_as_id_plus_one_as_in_older_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
