/* test_store_memory.c - opening the state file while SQLite gets no memory, no
 * descriptor or no answer of the disk: nothing is moved aside or lost.
 *
 * (1) What could not be compared is unknown: the opening is refused with a
 * sentence, or it succeeds, and every job is read or the reading fails. (2) The
 * file is never renamed. (3) The next opening, without a fault, finds
 * every row. Each kind of opening is tried: a file as it was closed, one with
 * the log of a firnd that was killed, an older one that must be migrated, and
 * one whose index must be made again.
 *
 * Allocations are made to fail through SQLITE_CONFIG_MALLOC, the n-th alone or
 * every one from the n-th on, until there are fewer than n; calls on files
 * through diskvfs.h. FIRN_SOAK=1 tries all of them, else each k-th.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "daemon/storework.h"
#include "lib/folder.h"
#include "tests/daemon/diskvfs.h"
#include "tests/daemon/storescene.h"
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

enum { NJOBS = 4, TEXT_BYTES = 30000 };

/* --- memory that fails ---------------------------------------------------- */

static sqlite3_mem_methods plain;
static struct {
    long n, from, times; /* times 0: none fails */
} memory;

static bool is_refused(void)
{
    long n = ++memory.n;
    return memory.times > 0 && n >= memory.from &&
           n - memory.from < memory.times;
}

static void *get(int n)
{
    return is_refused() ? NULL : plain.xMalloc(n);
}

static void *resize(void *old, int n)
{
    return is_refused() ? NULL : plain.xRealloc(old, n);
}

static void memory_fail(long from, long times)
{
    memory.n = 0;
    memory.from = from;
    memory.times = times;
}

/* Without its lookaside memory SQLite asks for all that it needs. */
static void memory_install(void)
{
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &plain),
                     SQLITE_OK);
    sqlite3_mem_methods ours = plain;
    ours.xMalloc = get;
    ours.xRealloc = resize;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &ours), SQLITE_OK);
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0), SQLITE_OK);
}

/* --- state files ---------------------------------------------------------- */

/* The bytes of firn.db and its log, and all rows as text. */
static struct {
    struct firn_buf db, wal;
    char *rows;
} kept;

static void read_bytes(const char *name, struct firn_buf *out)
{
    char part[4096];
    size_t n;
    buf_clear(out);
    FILE *file = fopen(folder_file(name), "rb");
    while (file != NULL && (n = fread(part, 1, sizeof part, file)) > 0)
        buf_add(out, part, n);
    if (file != NULL)
        fclose(file);
}

static void write_bytes(const char *name, const struct firn_buf *bytes)
{
    unlink(folder_file(name));
    if (bytes->n == 0)
        return;
    FILE *file = fopen(folder_file(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes->at, 1, bytes->n, file), bytes->n);
    assert_int_equal(fclose(file), 0);
}

static void restore(void)
{
    unlink(folder_file("firn.db-shm"));
    write_bytes("firn.db", &kept.db);
    write_bytes("firn.db-wal", &kept.wal);
}

static char *rows_of(struct store *store)
{
    static const char *const sql[] = {
        "SELECT id || name || length(text) || state || over FROM jobs",
        "SELECT job || '.' || epoch || held FROM epochs",
        "SELECT id || kind || text FROM events",
        "SELECT key || hex(value) FROM meta"};
    struct firn_buf out = {0};
    for (size_t i = 0; i < sizeof sql / sizeof *sql; i++) {
        sqlite3_stmt *row = NULL;
        assert_int_equal(sqlite3_prepare_v2(store->db, sql[i], -1, &row, NULL),
                         SQLITE_OK);
        while (sqlite3_step(row) == SQLITE_ROW)
            buf_printf(&out, "%s\n", (const char *)sqlite3_column_text(row, 0));
        assert_int_equal(sqlite3_finalize(row), SQLITE_OK);
    }
    return out.at;
}

/* Jobs with texts of several pages, of which some pages are free again. */
static struct store *fill(void)
{
    struct store *store = store_scene();
    for (int i = 1; i <= NJOBS; i++) {
        struct live_job *job = job_scene(i);
        char name[20], *text = mem_new(TEXT_BYTES + 1, 1);
        memset(text, 'a' + i, TEXT_BYTES);
        mem_free(job->text);
        job->text = text;
        snprintf(name, sizeof name, "job%d", i);
        mem_free(job->ask.name);
        job->ask.name = mem_strdup(name);
        snprintf(name, sizeof name, "request%d", i);
        mem_free(job->request);
        job->request = mem_strdup(name);
        job->state = i == 1 ? LIVE_SUCCEEDED : LIVE_RUNNING;
        scene_add(store, job);
        live_job_free(job);
    }
    struct firn_bytes value = {"value", 5};
    struct store_event event = {.at_s = 1, .job = 1, .kind = "k", .text = "t"};
    struct store_attempt attempt = {.job = 2, .number = 1, .held = "n0[0]"};
    assert_int_equal(store_put_meta(store, "key", value, &oops), FIRN_OK);
    assert_int_equal(store_add_event(store, &event, &oops), FIRN_OK);
    assert_int_equal(store_put_attempt(store, &attempt, &oops), FIRN_OK);
    scene_commit(store);
    assert_int_equal(sqlite3_exec(store->db,
                                  "UPDATE jobs SET text = 'short' WHERE id > 2",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    return store;
}

static void keep_closed(void)
{
    struct store *store = fill();
    store_close(store);
    read_bytes("firn.db", &kept.db);
    read_bytes("firn.db-wal", &kept.wal);
    store = store_scene();
    kept.rows = rows_of(store);
    store_close(store);
}

/* The log still has what was written last. */
static void keep_killed(void)
{
    struct store *store = fill();
    read_bytes("firn.db", &kept.db);
    read_bytes("firn.db-wal", &kept.wal);
    assert_true(kept.wal.n > TEXT_BYTES);
    kept.rows = rows_of(store);
    store_close(store);
}

static void keep_changed(const char *sql)
{
    struct store *store = fill();
    kept.rows = rows_of(store);
    assert_int_equal(sqlite3_exec(store->db, sql, NULL, NULL, NULL), SQLITE_OK);
    store_close(store);
    read_bytes("firn.db", &kept.db);
    read_bytes("firn.db-wal", &kept.wal);
}

/* Copies the rows of a table into the file of the older version. */
static void copy_rows(sqlite3 *older, const char *table)
{
    struct firn_buf sql = {0};
    sqlite3_stmt *row = NULL;
    buf_printf(&sql,
               "SELECT 'INSERT INTO main.%s (' || c || ') SELECT ' || c ||"
               " ' FROM newer.%s' FROM (SELECT group_concat(name) AS c FROM"
               " pragma_table_info('%s', 'main'))",
               table, table, table);
    assert_int_equal(sqlite3_prepare_v2(older, sql.at, -1, &row, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    assert_int_equal(sqlite3_exec(older,
                                  (const char *)sqlite3_column_text(row, 0),
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_finalize(row);
    buf_release(&sql);
}

/* The same rows in a file that lacks the last step. */
static void keep_older(void)
{
    static const char *const tables[] = {"jobs", "epochs", "events", "meta"};
    struct store *store = fill();
    struct firn_buf attach = {0};
    sqlite3 *older = NULL;
    size_t n;
    const char *const *steps = store_schema(&n);
    kept.rows = rows_of(store);
    store_close(store);
    assert_int_equal(sqlite3_open(folder_file("older"), &older), SQLITE_OK);
    assert_int_equal(store_migrate(older, steps, n - 1, &oops), FIRN_OK);
    buf_printf(&attach, "ATTACH '%s' AS newer", folder_file("firn.db"));
    assert_int_equal(sqlite3_exec(older, attach.at, NULL, NULL, NULL),
                     SQLITE_OK);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        copy_rows(older, tables[i]);
    sqlite3_close(older);
    buf_release(&attach);
    read_bytes("older", &kept.db);
    buf_clear(&kept.wal);
}

static void keep_unindexed(void)
{
    keep_changed("DROP INDEX jobs_name; CREATE INDEX foreign_one ON jobs"
                 " (state)");
}

static int make_folder(void **state)
{
    memory_fail(0, 0);
    return folder_make(state);
}

static int remove_folder(void **state)
{
    memory_fail(0, 0);
    disk_refuse(SQLITE_OK, 0, 0);
    buf_release(&kept.db);
    buf_release(&kept.wal);
    mem_free(kept.rows);
    kept.rows = NULL;
    return folder_remove(state);
}

/* --- an opening with a fault ---------------------------------------------- */

static bool count_job(void *arg, struct live_job *job)
{
    live_job_free(job);
    ++*(int *)arg;
    return true;
}

/* True: it was opened. */
static bool open_with_fault(void)
{
    struct store *store = NULL;
    struct firn_error why = {0};
    char notice[1024] = "";
    size_t nbad = 0;
    int njobs = 0;
    if (store_open(&store, folder_path(), notice, sizeof notice, &why) !=
        FIRN_OK) {
        assert_string_not_equal(why.text, "");
        return false;
    }
    assert_string_equal(notice, ""); /* (2) */
    bool is_read =
        store_each_job(store, true, count_job, &njobs, &nbad, &why) == FIRN_OK;
    assert_int_equal(nbad, 0);
    if (is_read) /* (1) */
        assert_int_equal(njobs, NJOBS);
    store_close(store);
    return is_read;
}

static bool has_file(const char *beginning)
{
    bool is_there = false;
    DIR *folder = opendir(folder_path());
    assert_non_null(folder);
    for (struct dirent *e; (e = readdir(folder)) != NULL;)
        is_there |= strncmp(e->d_name, beginning, strlen(beginning)) == 0;
    closedir(folder);
    return is_there;
}

/* (2), (3) */
static void opens_intact(void)
{
    assert_false(has_file("firn.db.unreadable-"));
    struct store *store = store_scene();
    assert_string_equal(told, "");
    char *rows = rows_of(store);
    assert_string_equal(rows, kept.rows);
    mem_free(rows);
    store_close(store);
}

static long stride(long normal)
{
    if (getenv("FIRN_SOAK") != NULL)
        return 1;
    return getenv("FIRN_QUICK") != NULL ? 7 * normal : normal;
}

/* Each n-th allocation fails, alone or with all behind it. */
static void memory_fails_everywhere(long times, long step)
{
    long n = 1, ntried = 0, nrefused = 0;
    for (bool is_struck = true; is_struck; n += step) {
        restore();
        memory_fail(n, times);
        bool is_open = open_with_fault();
        is_struck = memory.n >= n;
        memory_fail(0, 0);
        assert_true(is_open || is_struck);
        nrefused += !is_open;
        ntried++;
        opens_intact();
    }
    print_message("# %ld allocations, %ld tried, %ld refused\n", n - step,
                  ntried, nrefused);
    assert_true(nrefused > 0);
}

static void the_state_survives_each_allocation_that_fails(void **state)
{
    (void)state;
    keep_closed();
    memory_fails_everywhere(1, stride(401));
}

static void the_state_survives_the_end_of_memory(void **state)
{
    (void)state;
    keep_closed();
    memory_fails_everywhere(INT32_MAX, stride(853));
}

static void
the_state_of_a_killed_firnd_survives_allocations_that_fail(void **state)
{
    (void)state;
    keep_killed();
    memory_fails_everywhere(1, stride(787));
}

static void an_older_state_survives_allocations_that_fail(void **state)
{
    (void)state;
    keep_older();
    memory_fails_everywhere(1, stride(811));
}

static void a_state_without_an_index_survives_allocations_that_fail(void **s)
{
    (void)s;
    keep_unindexed();
    memory_fails_everywhere(1, stride(823));
}

/* --- calls that fail ------------------------------------------------------ */

/* Each n-th call on a file, and those behind it: once, thrice, or for ever. */
static void calls_fail_everywhere(int code, long times, long step)
{
    long n = 1, ntried = 0;
    for (bool is_struck = true; is_struck; n += step) {
        restore();
        disk_refuse(code, n, times);
        bool is_open = open_with_fault();
        is_struck = disk_refusable() >= n;
        disk_refuse(SQLITE_OK, 0, 0);
        assert_true(is_open || is_struck);
        ntried++;
        opens_intact();
    }
    print_message("# code %d, %ld times: %ld tried\n", code, times, ntried);
}

/* In the check each scene meets each code, a third of them each number. */
static void calls_fail_in_scene(size_t scene)
{
    static const int codes[] = {SQLITE_IOERR, SQLITE_BUSY, SQLITE_CANTOPEN,
                                SQLITE_FULL, SQLITE_IOERR_NOMEM};
    static const long times[] = {1, 3, INT32_MAX};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        for (size_t j = 0; j < sizeof times / sizeof *times; j++)
            if (getenv("FIRN_SOAK") != NULL || (i + j + scene) % 3 == 0)
                calls_fail_everywhere(codes[i], times[j],
                                      stride(19 + (long)(i + scene)));
}

static void the_state_survives_each_call_that_fails(void **state)
{
    (void)state;
    keep_closed();
    calls_fail_in_scene(0);
}

static void the_state_of_a_killed_firnd_survives_calls_that_fail(void **state)
{
    (void)state;
    keep_killed();
    calls_fail_in_scene(1);
}

static void an_older_state_survives_calls_that_fail(void **state)
{
    (void)state;
    keep_older();
    calls_fail_in_scene(2);
}

static void a_state_without_an_index_survives_calls_that_fail(void **state)
{
    (void)state;
    keep_unindexed();
    calls_fail_in_scene(3);
}

static void the_state_survives_a_want_of_descriptors(void **state)
{
    (void)state;
    enum { MOST = 12 };
    struct rlimit before, few;
    keep_killed();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    bool is_open = false;
    for (int n = 0; n < MOST; n++) {
        restore();
        int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
        assert_true(lowest >= 0);
        close(lowest);
        few = before;
        few.rlim_cur = (rlim_t)(lowest + n);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        is_open = open_with_fault();
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        opens_intact();
    }
    assert_true(is_open);
}

/* A file that was moved aside may hide behind a folder that cannot be read: ids
 * must not begin at 1 then. */
static void a_want_of_descriptors_gives_no_id_twice(void **state)
{
    (void)state;
    struct rlimit before, few;
    struct store *store = NULL;
    struct firn_buf rubbish = {0};
    buf_puts(&rubbish, "not a database, but longer than its header would be: "
                       "sixteen bytes and many more, and a hundred at least");
    write_bytes("firn.db", &rubbish);
    buf_release(&rubbish);
    store_close(store_scene()); /* moved aside */
    assert_true(has_file("firn.db.unreadable-"));
    unlink(folder_file("firn.db"));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (int n = 0; n < 12; n++) {
        int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
        close(lowest);
        few = before;
        few.rlim_cur = (rlim_t)(lowest + n);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        bool is_open = store_open(&store, folder_path(), told, sizeof told,
                                  &oops) == FIRN_OK;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        if (is_open)
            assert_true(store_next_id(store) > 1000000);
        if (is_open)
            store_close(store);
    }
}

#define MEMORY_CASE(name) \
    cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    memory_install();
    disk_install();
    const struct CMUnitTest tests[] = {
        MEMORY_CASE(the_state_survives_each_allocation_that_fails),
        MEMORY_CASE(the_state_survives_the_end_of_memory),
        MEMORY_CASE(the_state_of_a_killed_firnd_survives_allocations_that_fail),
        MEMORY_CASE(an_older_state_survives_allocations_that_fail),
        MEMORY_CASE(a_state_without_an_index_survives_allocations_that_fail),
        MEMORY_CASE(the_state_survives_each_call_that_fails),
        MEMORY_CASE(the_state_of_a_killed_firnd_survives_calls_that_fail),
        MEMORY_CASE(an_older_state_survives_calls_that_fail),
        MEMORY_CASE(a_state_without_an_index_survives_calls_that_fail),
        MEMORY_CASE(the_state_survives_a_want_of_descriptors),
        MEMORY_CASE(a_want_of_descriptors_gives_no_id_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
