/* test_store_power.c - the power is cut at any write: what was acknowledged is
 * there, and nothing half.
 *
 * A history of transactions is written through diskvfs.h, which notes every
 * write, truncation, sync and deletion. From the notes the files are built as
 * they may be after a cut: what was synced is there; of what was not, any part
 * may be, in any order, torn at sectors of 512 bytes; a file whose creation was
 * not synced may be missing, one whose deletion was not may be back. Each image
 * is opened by store_open(). Its text must be that of the history after a
 * transaction t, where t is not before the last that was acknowledged; and
 * nothing may be moved aside.
 *
 * Between two syncs of a file a cut at any moment leaves a subset of the writes
 * between them, so subsets are built once for each sync. Up to EXHAUSTIVE of
 * them all subsets are; of more, each one missing, each one alone, each prefix,
 * and random ones. Cuts within writes (torn) are random.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/vec.h"
#include "daemon/bookwork.h"
#include "daemon/storework.h"
#include "tests/daemon/diskvfs.h"
#include "tests/daemon/storescene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SECTOR = 512, TURNS_MAX = 400, PENDING_MAX = 4000 };

static char *texts[TURNS_MAX + 1]; /* of the whole file, behind each commit */
static long nimages;
static struct rng rng;

static bool is_soak(void)
{
    return getenv("FIRN_SOAK") != NULL;
}

static bool is_quick(void) /* under a sanitizer */
{
    return getenv("FIRN_QUICK") != NULL;
}

/* --- the text of a state -------------------------------------------------- */

static void add_rows(sqlite3 *db, const char *table, struct firn_buf *out)
{
    struct firn_buf sql = {0};
    sqlite3_stmt *stmt = NULL;
    buf_printf(&sql, "SELECT * FROM %s ORDER BY 1, 2", table);
    assert_int_equal(sqlite3_prepare_v2(db, sql.at, -1, &stmt, NULL),
                     SQLITE_OK);
    int code;
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
        buf_puts(out, table);
        for (int i = 0; i < sqlite3_column_count(stmt); i++) {
            const char *text = (const char *)sqlite3_column_text(stmt, i);
            buf_printf(out, "|%s", text != NULL ? text : "NULL");
        }
        buf_putc(out, '\n');
    }
    assert_int_equal(code, SQLITE_DONE);
    sqlite3_finalize(stmt);
    buf_release(&sql);
}

static char *text_of(struct store *store)
{
    static const char *const tables[] = {"jobs", "epochs", "events", "reports",
                                         "meta"};
    struct firn_buf out = {0};
    buf_puts(&out, "state\n");
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        add_rows(store->db, tables[i], &out);
    return out.at;
}

/* --- a history ------------------------------------------------------------ */

/* A turn of the daemon: a new job, a start, an end, something kept. */
static void change(struct liveset *d, int i)
{
    char name[32];
    struct firn_buf large = {0};
    int64_t attempt = 0;
    snprintf(name, sizeof name, "job%d", i);
    if (i % 2 == 0) {
        struct live_job *job = liveset_submit(d, name, "ann", name, NULL);
        assert_int_equal(book_open_attempt(d->book, job, &attempt, &oops),
                         FIRN_OK);
    } else {
        struct live_job *job = book_job(d->book, i / 2 + 1);
        assert_int_equal(book_held(d->book, job, "n0[0]", &oops), FIRN_OK);
        assert_int_equal(book_state(d->book, job, LIVE_RUNNING,
                                    LIVE_BECAUSE_NONE, i, "runs", &oops),
                         FIRN_OK);
    }
    for (int k = 0; k < 600 * (i % 3); k++)
        buf_printf(&large, "%d ", i);
    struct firn_bytes bytes = {large.n > 0 ? large.at : "", large.n};
    assert_int_equal(store_put_meta(d->store, "round", bytes, &oops), FIRN_OK);
    buf_release(&large);
}

/* A file that has had `nsteps` steps of the schema only, of an older firnd. */
static void make_older(size_t nsteps)
{
    char path[600];
    size_t n;
    const char *const *steps = store_schema(&n);
    sqlite3 *db = NULL;
    assert_true(nsteps < n);
    snprintf(path, sizeof path, "%s/firn.db", folder_path());
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "PRAGMA journal_mode = WAL;"
                                  "PRAGMA synchronous = FULL",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(store_migrate(db, steps, nsteps, &oops), FIRN_OK);
    sqlite3_close(db);
}

/* Writes it down; the log goes into the file every few pages. With `nsteps` it
 * begins with an older file, which is migrated. */
static void write_history(int nturns, int pages, size_t nsteps)
{
    disk_record(true);
    if (nsteps > 0)
        make_older(nsteps);
    struct liveset d = liveset_open();
    sqlite3_wal_autocheckpoint(d.store->db, pages);
    texts[0] = text_of(d.store);
    disk_mark(0);
    for (int i = 0; i < nturns; i++) {
        change(&d, i);
        texts[i + 1] = text_of(d.store); /* it reads its own changes */
        scene_commit(d.store);
        disk_mark(i + 1);
    }
    liveset_close(&d);
    disk_mark(nturns);
}

static void forget_history(void)
{
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        mem_free(texts[i]);
        texts[i] = NULL;
    }
    disk_record(false);
}

/* --- files as the disk has them ------------------------------------------- */

struct image {
    bool is_there;
    struct firn_buf bytes;
};

/* What is synced of a file, and what has come since. */
struct medium {
    struct image synced;
    VEC(const struct disk_op *) pending;
    bool was_created;    /* not synced yet: it may be missing */
    struct image before; /* a deletion that is not synced: it may be back */
};

static struct medium media[DISK_NFILES];

static void put_bytes(struct image *image, long at, const char *bytes, size_t n)
{
    static const char zeros[4096];
    image->is_there = true;
    while (image->bytes.n < (size_t)at + n) {
        size_t more = (size_t)at + n - image->bytes.n;
        buf_add(&image->bytes, zeros,
                more < sizeof zeros ? more : sizeof zeros);
    }
    if (n > 0)
        memcpy(image->bytes.at + at, bytes, n);
}

static void apply(struct image *image, const struct disk_op *op)
{
    if (op->kind == DISK_WRITE)
        put_bytes(image, op->at, op->bytes, op->n);
    else if (op->kind == DISK_TRUNCATE && (size_t)op->at < image->bytes.n)
        image->bytes.n = (size_t)op->at;
}

/* Sectors of it, each or not. */
static void apply_torn(struct image *image, const struct disk_op *op)
{
    if (op->kind != DISK_WRITE) {
        apply(image, op);
        return;
    }
    for (size_t from = 0; from < op->n;) {
        size_t at = (size_t)op->at + from;
        size_t n = SECTOR - at % SECTOR;
        n = n < op->n - from ? n : op->n - from;
        if (rng_below(&rng, 2))
            put_bytes(image, (long)at, op->bytes + from, n);
        from += n;
    }
}

static struct image copy_of(const struct image *from)
{
    struct image to = {.is_there = from->is_there};
    buf_add(&to.bytes, from->bytes.n > 0 ? from->bytes.at : "", from->bytes.n);
    return to;
}

static void sync_medium(struct medium *m)
{
    for (size_t i = 0; i < m->pending.n; i++)
        apply(&m->synced, m->pending.at[i]);
    m->pending.n = 0;
}

/* SQLite syncs the folder with the first sync of a log or journal that it has
 * made; not with that of a database. Until then names may be lost, or be back.
 */
static void sync_folder(void)
{
    for (enum disk_file f = 0; f < DISK_NFILES; f++) {
        media[f].was_created = false;
        buf_release(&media[f].before.bytes);
        media[f].before = (struct image){0};
    }
}

static void delete_medium(struct medium *m)
{
    sync_medium(m);
    buf_release(&m->before.bytes);
    m->before = m->synced;
    m->synced = (struct image){0};
    m->was_created = false;
}

static void write_medium(struct medium *m, const struct disk_op *op)
{
    if (!m->synced.is_there && m->pending.n == 0)
        m->was_created = true;
    assert_true(m->pending.n < PENDING_MAX);
    vec_add(&m->pending, op);
}

/* --- opening one ---------------------------------------------------------- */

static void write_image(const char *name, const struct image *image)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder_path(), name);
    unlink(path);
    if (!image->is_there)
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(
        write(fd, image->bytes.n > 0 ? image->bytes.at : "", image->bytes.n),
        image->bytes.n);
    close(fd);
}

/* `acked`: the last transaction that was acknowledged, -1 while the state is
 * made; `begun`: the last that was begun. */
static void check_image(const struct image images[DISK_NFILES], int acked,
                        int begun)
{
    static const char *const names[] = {"firn.db", "firn.db-wal",
                                        "firn.db-journal"};
    struct store *store = NULL;
    char *text = NULL;
    int found = -1;
    folder_empty(folder_path());
    for (int f = 0; f < DISK_NFILES; f++)
        write_image(names[f], &images[f]);
    nimages++;
    if (store_open(&store, folder_path(), told, sizeof told, &oops) != FIRN_OK)
        fail_msg("image %ld, behind %d: %s", nimages, acked, oops.text);
    assert_string_equal(told, "");
    text = text_of(store);
    for (int t = acked < 0 ? 0 : acked; t <= begun && found < 0; t++)
        if (strcmp(texts[t], text) == 0)
            found = t;
    if (found < 0)
        fail_msg("image %ld is no state from %d to %d:\n%.2000s", nimages,
                 acked, begun, text);
    mem_free(text);
    store_close(store);
}

/* One of the files has a part of what is pending, the others what they may. */
static void check_part(enum disk_file file, const struct image *part, int acked,
                       int begun)
{
    struct image images[DISK_NFILES];
    for (enum disk_file f = 0; f < DISK_NFILES; f++) {
        const struct medium *m = &media[f];
        images[f] = copy_of(f == file ? part : &m->synced);
        for (size_t i = 0; f != file && i < m->pending.n; i++)
            if (rng_below(&rng, 2))
                apply(&images[f], m->pending.at[i]);
    }
    check_image(images, acked, begun);
    for (enum disk_file f = 0; f < DISK_NFILES; f++)
        buf_release(&images[f].bytes);
}

typedef bool pick_fn(size_t i, size_t n, long which);

static void check_picked(enum disk_file file, pick_fn *pick, long which,
                         int acked, int begun)
{
    const struct medium *m = &media[file];
    struct image part = copy_of(&m->synced);
    for (size_t i = 0; i < m->pending.n; i++)
        if (pick(i, m->pending.n, which))
            apply(&part, m->pending.at[i]);
    if (file == DISK_DB)
        part.is_there = true; /* made by store_open() before SQLite's turn */
    check_part(file, &part, acked, begun);
    buf_release(&part.bytes);
}

static bool by_bits(size_t i, size_t n, long which)
{
    (void)n;
    return which >> i & 1;
}

static bool all_but(size_t i, size_t n, long which)
{
    (void)n;
    return (long)i != which;
}

static bool up_to(size_t i, size_t n, long which)
{
    (void)n;
    return (long)i < which;
}

static bool by_chance(size_t i, size_t n, long which)
{
    (void)i;
    (void)n;
    (void)which;
    return rng_below(&rng, 2);
}

static void check_torn(enum disk_file file, int acked, int begun)
{
    const struct medium *m = &media[file];
    struct image part = copy_of(&m->synced);
    for (size_t i = 0; i < m->pending.n; i++)
        apply_torn(&part, m->pending.at[i]);
    check_part(file, &part, acked, begun);
    buf_release(&part.bytes);
}

/* Every way in which the writes since the last sync may have come through. */
static void check_cuts(enum disk_file file, int acked, int begun)
{
    const struct medium *m = &media[file];
    size_t n = m->pending.n, exhaustive = is_soak() ? 9 : is_quick() ? 3 : 5;
    if (n <= exhaustive) {
        for (long bits = 0; bits < 1L << n; bits++)
            check_picked(file, by_bits, bits, acked, begun);
    } else {
        long step = is_soak() ? 1 : (long)n / 6 + 1;
        for (long i = 0; i < (long)n; i += step) {
            check_picked(file, all_but, i, acked, begun);
            check_picked(file, up_to, i, acked, begun);
        }
        for (int i = 0; i < (is_soak() ? 20 : is_quick() ? 1 : 4); i++)
            check_picked(file, by_chance, 0, acked, begun);
    }
    for (int i = 0; i < (is_soak() ? 20 : is_quick() ? 1 : 3); i++)
        check_torn(file, acked, begun);
    struct image missing = {0};
    if (m->was_created)
        check_part(file, &missing, acked, begun);
    if (m->before.is_there)
        check_part(file, &m->before, acked, begun);
}

/* The notes from the first to the last; cuts before each sync. */
static void cut_everywhere(int nturns)
{
    size_t n;
    const struct disk_op *ops = disk_ops(&n);
    int acked = -1;
    for (size_t i = 0; i < n; i++) {
        const struct disk_op *op = &ops[i];
        struct medium *m = &media[op->file];
        int begun = acked < nturns ? acked + 1 : nturns;
        switch (op->kind) {
        case DISK_WRITE:
        case DISK_TRUNCATE:
            write_medium(m, op);
            break;
        case DISK_SYNC:
            check_cuts(op->file, acked, begun);
            sync_medium(m);
            if (op->file != DISK_DB && m->was_created)
                sync_folder();
            break;
        case DISK_DELETE:
            check_cuts(op->file, acked, begun);
            delete_medium(m);
            check_cuts(op->file, acked, begun); /* it may be back */
            if (op->at)                         /* with the folder */
                sync_medium(m);
            break;
        case DISK_MARK:
            acked = (int)op->at;
            break;
        }
    }
    for (enum disk_file f = DISK_DB; f < DISK_NFILES; f++)
        check_cuts(f, acked, acked);
    sync_folder();
    for (enum disk_file f = DISK_DB; f < DISK_NFILES; f++) {
        sync_medium(&media[f]);
        buf_release(&media[f].synced.bytes);
        vec_release(&media[f].pending);
        media[f] = (struct medium){0};
    }
}

static void run(int nturns, int pages, size_t nsteps, uint64_t seed)
{
    rng_seed(&rng, seed);
    folder_empty(folder_path());
    write_history(nturns, pages, nsteps);
    size_t n;
    disk_ops(&n);
    assert_true(n > (size_t)(3 * nturns));
    /* Opening an image writes, too: the notes end here. */
    disk_pause();
    cut_everywhere(nturns);
    forget_history();
}

static void a_cut_at_any_write_of_a_short_history_loses_nothing(void **state)
{
    (void)state;
    run(4, 4, 0, 1);    /* nearly every commit goes into the file at once */
    run(4, 1000, 0, 2); /* all stay in the log until the end */
    print_message("%ld images\n", nimages);
    assert_true(nimages > 200);
}

static void a_cut_while_an_older_file_is_migrated_loses_nothing(void **state)
{
    (void)state;
    long before = nimages;
    run(1, 4, 1, 3);
    print_message("%ld images\n", nimages - before);
    assert_true(nimages - before > 200);
}

static void a_cut_in_a_long_history_loses_nothing(void **state)
{
    (void)state;
    long before = nimages;
    if (!is_soak()) {
        print_message("with FIRN_SOAK=1\n");
        return;
    }
    for (uint64_t seed = 2; seed < 12; seed++) {
        run(40, seed % 5 == 0 ? 1000 : (int)(2 + 7 * (seed % 4)), seed % 3,
            seed);
        print_message("seed %d, %ld images\n", (int)seed, nimages - before);
        fflush(stdout);
    }
}

int main(void)
{
    disk_install();
    const struct CMUnitTest tests[] = {
        CASE(a_cut_at_any_write_of_a_short_history_loses_nothing),
        CASE(a_cut_while_an_older_file_is_migrated_loses_nothing),
        CASE(a_cut_in_a_long_history_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
