/* test_store_full.c - a disk that is full or fails: what was changed in memory
 * is on disk in the end, once and in order, and nothing is acknowledged before.
 *
 * The disk is diskvfs.h. The history of each case is the same; on a disk that
 * never fails it leads to one text of the whole file, and so it must with every
 * fault.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "daemon/bookwork.h"
#include "daemon/storework.h"
#include "lib/folder.h"
#include "tests/daemon/diskvfs.h"
#include "tests/daemon/storescene.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- a history ------------------------------------------------------------ */

static void add_text(sqlite3 *db, const char *table, struct firn_buf *out)
{
    struct firn_buf sql = {0};
    sqlite3_stmt *stmt = NULL;
    buf_printf(&sql, "SELECT * FROM %s ORDER BY 1, 2", table);
    assert_int_equal(sqlite3_prepare_v2(db, sql.at, -1, &stmt, NULL),
                     SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        buf_puts(out, table);
        for (int i = 0; i < sqlite3_column_count(stmt); i++) {
            const char *text = (const char *)sqlite3_column_text(stmt, i);
            bool is_token = strcmp(sqlite3_column_name(stmt, i), "token") == 0;
            buf_printf(out, "|%s", is_token || text == NULL ? "" : text);
        }
        buf_putc(out, '\n');
    }
    sqlite3_finalize(stmt);
    buf_release(&sql);
}

/* All of the file but for the tokens, which are drawn. */
static char *whole_text(struct store *store)
{
    static const char *const tables[] = {"jobs", "epochs", "events", "reports",
                                         "meta"};
    struct firn_buf out = {0};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        add_text(store->db, tables[i], &out);
    return out.at;
}

static double fixed_s(void *arg)
{
    (void)arg;
    return 1000;
}

enum { NTURNS = 6 };

/* Changes of the turn `i`: many rows, one large. */
static void turn(struct liveset *d, int i)
{
    char name[32], *large = mem_new(20001, 1);
    struct live_ask ask = {0};
    struct live_job *job = NULL;
    bool is_new = false;
    int64_t attempt = 0;
    snprintf(name, sizeof name, "job%d", i);
    memset(large, 'x', 20000);
    ask.name = mem_strdup(name);
    ask.gpus_min = ask.gpus_max = 1;
    assert_int_equal(
        book_submit(d->book, &ask, large, name, 1000 + i, &job, &is_new, &oops),
        FIRN_OK);
    mem_free(large);
    assert_true(is_new);
    assert_int_equal(job->id, i + 1);
    assert_int_equal(book_open_attempt(d->book, job, &attempt, &oops), FIRN_OK);
    assert_int_equal(book_held(d->book, job, "n0[0]", &oops), FIRN_OK);
    if (i > 1) {
        struct live_job *other = book_job(d->book, i - 1);
        struct store_attempt end = {
            .job = i - 1, .number = 1, .ended_s = 0.1 + 1e3 / 3, .held = "-"};
        assert_int_equal(book_attempt_ended(d->book, other, &end, &oops),
                         FIRN_OK);
        assert_int_equal(book_state(d->book, other, LIVE_SUCCEEDED,
                                    LIVE_BECAUSE_NONE, 2000.0 / 7, "done",
                                    &oops),
                         FIRN_OK);
    }
}

/* The next try is due now. */
static enum firn_status commit_now(struct store *store)
{
    store->disk.retry_s = 0;
    return store_commit(store, &oops);
}

static char *faultless(void)
{
    struct liveset d = liveset_open();
    book_clock(d.book, fixed_s, NULL);
    for (int i = 0; i < NTURNS; i++) {
        turn(&d, i);
        scene_commit(d.store);
    }
    char *text = whole_text(d.store);
    liveset_close(&d);
    return text;
}

/* The history with a fault; the disk is well again behind turn `heals`. */
static long with_fault(const char *expected, int heals)
{
    struct liveset d = liveset_open();
    book_clock(d.book, fixed_s, NULL);
    for (int i = 0; i < NTURNS; i++) {
        turn(&d, i);
        if (i >= heals)
            disk_fail(DISK_FULL, 0, 0);
        enum firn_status status = commit_now(d.store);
        assert_true(status == FIRN_OK || status == FIRN_EUNSAVED);
        assert_int_equal(status == FIRN_EUNSAVED, store_is_stalled(d.store));
        assert_int_equal(store_has_changes(d.store), status != FIRN_OK);
        assert_int_equal(store_rollbacks(d.store), 0);
        if (status == FIRN_OK) /* what is acknowledged is there */
            assert_int_equal(scene_count(d.store, true, NULL), i + 1);
        assert_int_equal(book_count(d.book), i + 1);
    }
    long calls = disk_calls();
    disk_fail(DISK_FULL, 0, 0);
    assert_int_equal(commit_now(d.store), FIRN_OK);
    char *text = whole_text(d.store);
    assert_string_equal(text, expected);
    mem_free(text);
    liveset_close(&d);
    return calls;
}

static void anew(void)
{
    void *state = NULL;
    folder_remove(&state);
    folder_make(&state);
}

/* Every write in the soak, every fifth in the check, every 11th under a
 * sanitizer. */
static long stride(void)
{
    if (getenv("FIRN_SOAK") != NULL)
        return 1;
    return getenv("FIRN_QUICK") != NULL ? 11 : 5;
}

static void one_failed_write_anywhere_loses_nothing(void **state)
{
    (void)state;
    char *expected = faultless();
    long n = 0, calls = LONG_MAX;
    for (enum disk_fault how = DISK_FULL; how <= DISK_BROKEN; how++)
        for (long at = 1; at <= calls; at += stride(), n++) {
            anew();
            struct liveset d = liveset_open(); /* made without faults */
            liveset_close(&d);
            disk_fail(how, at, 1);
            calls = with_fault(expected, NTURNS);
        }
    print_message("%ld single faults\n", n);
    assert_true(n > 50);
    mem_free(expected);
}

static void a_disk_that_fills_at_any_write_loses_nothing(void **s)
{
    (void)s;
    char *expected = faultless();
    long n = 0;
    for (enum disk_fault how = DISK_FULL; how <= DISK_BROKEN; how++)
        for (int heals = 1; heals <= NTURNS; heals += 2)
            for (long at = 1; at < 60; at += 3 * stride(), n++) {
                anew();
                struct liveset d = liveset_open();
                liveset_close(&d);
                disk_fail(how, at, LONG_MAX / 2);
                with_fault(expected, heals);
            }
    print_message("%ld lasting faults\n", n);
    mem_free(expected);
}

/* --- while it is stalled -------------------------------------------------- */

static void the_number_of_an_attempt_is_on_disk_before_it_is_used(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    struct live_job *job = liveset_add(&d, "a");
    int64_t attempt = -1;
    scene_commit(d.store);
    disk_fail(DISK_FULL, 1, LONG_MAX / 2);
    assert_int_equal(book_next_attempt(d.book, job, &attempt, &oops),
                     FIRN_EUNSAVED);
    assert_int_equal(attempt, -1);
    assert_int_equal(store_room(d.store), ROOM_FULL);
    assert_non_null(strstr(oops.text, "cannot be written"));
    disk_fail(DISK_FULL, 0, 0);
    liveset_close(&d);
}

static void
a_process_that_ends_while_stalled_has_lost_only_what_was_pending(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    liveset_add(&d, "a");
    scene_commit(d.store);
    disk_fail(DISK_BROKEN, 1, LONG_MAX / 2);
    liveset_add(&d, "b");
    assert_int_equal(store_commit(d.store, &oops), FIRN_EUNSAVED);
    assert_int_equal(scene_count(d.store, true, NULL), 1); /* readings go on */
    disk_fail(DISK_FULL, 0, 0);
    liveset_close(&d);
    d = liveset_open();
    assert_string_equal(told, "");
    assert_int_equal(book_count(d.book), 1);
    assert_int_equal(liveset_add(&d, "c")->id, 2);
    liveset_close(&d);
}

static void retries_on_a_full_disk_become_rare(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    liveset_add(&d, "a");
    disk_fail(DISK_FULL, 1, LONG_MAX / 2);
    assert_int_equal(store_commit(d.store, &oops), FIRN_EUNSAVED);
    double before_s = d.store->disk.delay_s;
    assert_true(before_s > 0 && before_s < 1);
    for (int i = 0; i < 10; i++)
        assert_int_equal(commit_now(d.store), FIRN_EUNSAVED);
    assert_true(d.store->disk.delay_s > before_s);
    long calls = disk_calls();
    assert_int_equal(store_commit(d.store, &oops), FIRN_EUNSAVED);
    assert_int_equal(disk_calls(), calls); /* not before its time */
    disk_fail(DISK_FULL, 0, 0);
    assert_int_equal(commit_now(d.store), FIRN_OK);
    assert_true(isinf(store_retry_s(d.store)));
    liveset_close(&d);
}

/* --- the reserve ---------------------------------------------------------- */

static bool has_reserve(const struct store *store)
{
    struct firn_buf path = {0};
    struct stat about;
    store_reserve_path(store, &path);
    bool is_there = stat(path.at, &about) == 0 && about.st_size > 0 &&
                    512 * (long)about.st_blocks >= (long)about.st_size;
    buf_release(&path);
    return is_there;
}

static void a_failed_write_deletes_the_reserve_which_is_made_again(void **s)
{
    (void)s;
    struct liveset d = liveset_open();
    assert_false(has_reserve(d.store));
    store_look(d.store);
    assert_true(has_reserve(d.store));
    assert_null(store_trouble(d.store));
    liveset_add(&d, "a");
    disk_fail(DISK_FULL, 1, 1); /* giving it up helps */
    assert_int_equal(store_commit(d.store, &oops), FIRN_OK);
    assert_false(has_reserve(d.store));
    assert_int_equal(store_room(d.store), ROOM_SPENT);
    assert_non_null(strstr(store_trouble(d.store), "no job is taken"));
    d.store->disk.looked_s = -1e9;
    store_look(d.store);
    assert_true(has_reserve(d.store));
    assert_int_equal(store_room(d.store), ROOM_AMPLE);
    assert_null(store_trouble(d.store));
    liveset_close(&d);
}

static void the_reserve_of_an_earlier_run_is_used(void **state)
{
    (void)state;
    struct stat first, second;
    struct firn_buf path = {0};
    struct liveset d = liveset_open();
    store_look(d.store);
    store_reserve_path(d.store, &path);
    assert_int_equal(stat(path.at, &first), 0);
    liveset_close(&d);
    d = liveset_open();
    store_look(d.store);
    assert_int_equal(stat(path.at, &second), 0);
    assert_int_equal(first.st_ino, second.st_ino);
    assert_int_equal(first.st_size, second.st_size);
    liveset_close(&d);
    buf_release(&path);
}

static void without_room_for_shared_memory_the_state_is_read(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    liveset_add(&d, "a");
    scene_commit(d.store);
    liveset_close(&d);
    disk_no_shm(true);
    disk_fail(DISK_FULL, 1, LONG_MAX / 2);
    d = liveset_open();
    assert_string_equal(told, "");
    assert_int_equal(book_count(d.book), 1);
    liveset_add(&d, "b");
    assert_int_equal(store_commit(d.store, &oops), FIRN_EUNSAVED);
    disk_fail(DISK_FULL, 0, 0);
    assert_int_equal(commit_now(d.store), FIRN_OK);
    liveset_close(&d);
    disk_no_shm(false);
    d = liveset_open();
    assert_int_equal(book_count(d.book), 2);
    liveset_close(&d);
}

int main(void)
{
    disk_install();
    const struct CMUnitTest tests[] = {
        CASE(one_failed_write_anywhere_loses_nothing),
        CASE(a_disk_that_fills_at_any_write_loses_nothing),
        CASE(the_number_of_an_attempt_is_on_disk_before_it_is_used),
        CASE(a_process_that_ends_while_stalled_has_lost_only_what_was_pending),
        CASE(retries_on_a_full_disk_become_rare),
        CASE(a_failed_write_deletes_the_reserve_which_is_made_again),
        CASE(the_reserve_of_an_earlier_run_is_used),
        CASE(without_room_for_shared_memory_the_state_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
