/* test_store_upgrade.c - state files of every older schema are opened.
 *
 * tests/daemon/schemas/N.sql is a state file of schema N as text: its tables, a
 * job, its attempt, an event and a report. The files are frozen. firnd compares
 * the schema of a file with the steps of store_schema.c by their text, so a
 * change of a step that was released would make firnd move the state file of
 * every user aside as damaged; here it makes a test fail instead.
 *
 * The schemas behind the last release may change still, and have no file yet.
 * FIRN_UPDATE=1 writes the file of the newest schema if there is none, by the
 * program sqlite3; it never changes a file.
 */
#include "base/buf.h"
#include "daemon/storework.h"
#include "lib/folder.h"
#include "tests/daemon/storescene.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void schema_path(char out[64], size_t number)
{
    snprintf(out, 64, "tests/daemon/schemas/%zu.sql", number);
}

static void database_path(char out[400])
{
    snprintf(out, 400, "%s/firn.db", folder_path());
}

static bool read_text(const char *path, struct firn_buf *out)
{
    char room[4096];
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return false;
    for (size_t n; (n = fread(room, 1, sizeof room, file)) > 0;)
        buf_add(out, room, n);
    assert_int_equal(fclose(file), 0);
    return out->n > 0;
}

/* --- files that are written ---------------------------------------------- */

static void fill(struct store *store)
{
    struct live_job *job = job_scene(1);
    struct store_attempt attempt = {
        .job = 1, .number = 5, .started_s = 10, .end = -1, .held = "n0[0-3]"};
    struct store_event event = {
        .at_s = 11, .job = 1, .kind = "started", .text = "starts on n0[0-3]"};
    struct firn_trainer_report report = firn_trainer_report_unknown();
    report.progress = 0.5;
    scene_add(store, job);
    assert_int_equal(store_put_attempt(store, &attempt, &oops), FIRN_OK);
    assert_int_equal(store_add_event(store, &event, &oops), FIRN_OK);
    assert_int_equal(store_add_report(store, 1, 5, 12, &report, &oops),
                     FIRN_OK);
    scene_commit(store);
    live_job_free(job);
}

/* A file of the first `number` steps, with the rows of `full` as far as it has
 * their columns. */
static void copy_down(sqlite3 *db, const char *full, size_t number)
{
    static const char *const tables[] = {"jobs", "epochs", "events", "reports"};
    size_t nsteps;
    char sql[8192], columns[2048];
    const char *const *steps = store_schema(&nsteps);
    assert_int_equal(store_migrate(db, steps, number, &oops), FIRN_OK);
    snprintf(sql, sizeof sql, "ATTACH '%s' AS old", full);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        sqlite3_stmt *row = NULL;
        snprintf(sql, sizeof sql,
                 "SELECT group_concat(name) FROM pragma_table_info('%s')",
                 tables[i]);
        sqlite3_prepare_v2(db, sql, -1, &row, NULL);
        assert_int_equal(sqlite3_step(row), SQLITE_ROW);
        snprintf(columns, sizeof columns, "%s",
                 (const char *)sqlite3_column_text(row, 0));
        sqlite3_finalize(row);
        snprintf(sql, sizeof sql, "INSERT INTO %s (%s) SELECT %s FROM old.%s",
                 tables[i], columns, columns, tables[i]);
        assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    }
    sqlite3_exec(db, "DETACH old", NULL, NULL, NULL);
}

static void write_schema(size_t number)
{
    char path[64], full[400], made[400], command[1200];
    sqlite3 *db = NULL;
    schema_path(path, number);
    database_path(full);
    snprintf(made, sizeof made, "%s/made.db", folder_path());
    unlink(made);
    assert_int_equal(sqlite3_open(made, &db), SQLITE_OK);
    copy_down(db, full, number);
    sqlite3_close(db);
    snprintf(command, sizeof command,
             "{ sqlite3 '%s' .dump && echo 'PRAGMA user_version = %zu;'; } "
             ">'%s'",
             made, number, path);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
}

static void write_missing(size_t nsteps)
{
    char path[64];
    struct store *store = store_scene();
    fill(store);
    store_close(store);
    for (size_t i = 1; i <= nsteps; i++) {
        schema_path(path, i);
        if (access(path, F_OK) != 0)
            write_schema(i);
    }
    char full[400];
    database_path(full);
    unlink(full);
}

/* --- files that are read ------------------------------------------------- */

static bool count_event(void *arg, const struct store_event *event)
{
    *(int *)arg += event->job == 1 && strcmp(event->kind, "started") == 0;
    return true;
}

static bool count_attempt(void *arg, const struct store_attempt *attempt)
{
    *(int *)arg += attempt->number == 5 && attempt->started_s == 10;
    return true;
}

static bool count_report(void *arg, int64_t attempt, double at_s,
                         const struct firn_trainer_report *report)
{
    *(int *)arg += attempt == 5 && at_s == 12 && report->progress == 0.5;
    return true;
}

/* What schema 1 had is all there; what came later has its default or value. */
static void check_rows(struct store *store)
{
    struct live_job *job = NULL, *as_written = job_scene(1);
    int nevents = 0, nattempts = 0, nreports = 0;
    assert_int_equal(store_read_job(store, 1, &job, &oops), FIRN_OK);
    assert_string_equal(job->ask.name, as_written->ask.name);
    assert_string_equal(job->ask.argv[0], as_written->ask.argv[0]);
    assert_string_equal(job->held, as_written->held);
    assert_int_equal(job->state, as_written->state);
    assert_int_equal(job->attempt, as_written->attempt);
    assert_true(job->submitted_s == as_written->submitted_s);
    store_each_event(store, 0, 100, count_event, &nevents, &oops);
    store_each_attempt(store, 1, count_attempt, &nattempts, &oops);
    store_each_report(store, 1, count_report, &nreports, &oops);
    assert_int_equal(nevents, 1);
    assert_int_equal(nattempts, 1);
    assert_int_equal(nreports, 1);
    live_job_free(job);
    live_job_free(as_written);
}

/* Opened, changed, and opened again: nothing is lost. */
static void upgrade(const struct firn_buf *text)
{
    char path[400];
    sqlite3 *db = NULL;
    struct live_job *job = NULL, *again = NULL;
    database_path(path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text->at, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    struct store *store = store_scene();
    assert_string_equal(told, ""); /* not taken for damaged */
    check_rows(store);
    assert_int_equal(store_read_job(store, 1, &job, &oops), FIRN_OK);
    job->nretries = 77;
    assert_int_equal(store_put_job(store, job, &oops), FIRN_OK);
    scene_commit(store);
    store_close(store);
    store = store_scene();
    assert_string_equal(told, "");
    check_rows(store);
    assert_int_equal(store_read_job(store, 1, &again, &oops), FIRN_OK);
    assert_true(job_same(job, again));
    live_job_free(job);
    live_job_free(again);
    store_close(store);
    unlink(path);
}

static void a_state_file_of_every_older_schema_is_upgraded(void **state)
{
    (void)state;
    size_t nsteps, nread = 0;
    store_schema(&nsteps);
    if (getenv("FIRN_UPDATE") != NULL)
        write_missing(nsteps);
    for (size_t i = 1; i <= nsteps; i++) {
        char path[64];
        struct firn_buf text = {0};
        schema_path(path, i);
        if (read_text(path, &text)) {
            upgrade(&text);
            nread++;
        }
        buf_release(&text);
    }
    assert_true(nread >= 10);
}

/* "State file: schema 10." in CHANGELOG.md, once for each release. */
static void the_schema_of_every_release_is_kept(void **state)
{
    (void)state;
    static const char words[] = "State file: schema ";
    struct firn_buf text = {0};
    size_t nfound = 0, nsteps;
    store_schema(&nsteps);
    assert_true(read_text("CHANGELOG.md", &text));
    buf_putc(&text, '\0');
    for (const char *at = text.at; (at = strstr(at, words)) != NULL; nfound++) {
        char path[64];
        at += sizeof words - 1;
        unsigned long number = strtoul(at, NULL, 10);
        schema_path(path, number);
        if (access(path, F_OK) != 0)
            fail_msg("a release has schema %lu, and there is no %s: run this "
                     "test with FIRN_UPDATE=1",
                     number, path);
        assert_true(number <= nsteps);
    }
    assert_true(nfound > 0);
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_state_file_of_every_older_schema_is_upgraded),
        CASE(the_schema_of_every_release_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
