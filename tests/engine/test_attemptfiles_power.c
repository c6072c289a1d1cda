/* test_attemptfiles_power.c - the power is cut while an attempt's files are
 * written: what a sync has put on disk is there, and no part of a file is
 * believed.
 *
 * The calls of attemptfiles.c to the file system pass through this program,
 * which notes them. From the notes the folder is built as it may be after a cut
 * at any call: contents that were not synced are there up to any byte, or not
 * at all; names that were made or changed since the folder was synced may be as
 * before, each for itself. Every such folder is read by the engine's readers.
 *
 * (1) A pid or an exit whose writing had succeeded is read as it was written.
 * (2) One whose writing had only begun is read as it was written, or is absent:
 * never a part of it, never the blanks that were reserved for it. (3) A file
 * that is not synced (fence, launch) is absent, whole, or a beginning of it.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/mem.h"
#include "base/vec.h"
#include "engine/attemptfiles.h"
#include "lib/folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES = 32, FDS = 256, NAME = 64 };

/* --- notes ---------------------------------------------------------------- */

enum kind { MAKE, TRUNCATE, WRITE, SYNC, RENAME, SYNC_FOLDER, MARK };

struct op {
    enum kind kind;
    int file; /* its number, by when it was made */
    size_t at;
    char name[NAME], to[NAME];
    struct firn_buf bytes;
};

static VEC(struct op) ops;
static bool is_noting;
static int folder_fd = -1;
static int file_of_fd[FDS]; /* 1 + the file's number; 0: none of ours */
static size_t place_of_fd[FDS];
static int nfiles;
static struct {
    char name[NAME];
    int file;
} names[FILES];
static int nnames;

static int name_at(const char *name)
{
    for (int i = 0; i < nnames; i++)
        if (strcmp(names[i].name, name) == 0)
            return i;
    return -1;
}

static void note(struct op op)
{
    vec_add(&ops, op);
}

static void set_name(const char *name, int file)
{
    int i = name_at(name);
    if (i < 0) {
        assert_true(nnames < FILES);
        i = nnames++;
        snprintf(names[i].name, NAME, "%s", name);
    }
    names[i].file = file;
}

static void note_open(int fd, const char *name, int flags)
{
    int i = name_at(name);
    if (fd < 0 || fd >= FDS || (flags & O_ACCMODE) == O_RDONLY)
        return;
    struct op op = {.kind = TRUNCATE};
    snprintf(op.name, NAME, "%s", name);
    if (i < 0) {
        set_name(name, nfiles++);
        i = name_at(name);
        op.kind = MAKE;
    }
    op.file = names[i].file;
    if (op.kind == MAKE || (flags & O_TRUNC) != 0)
        note(op);
    file_of_fd[fd] = 1 + op.file;
    place_of_fd[fd] = 0;
}

/* --- the calls ------------------------------------------------------------ */

#define REAL(name, type) ((type)(uintptr_t)dlsym(RTLD_NEXT, name))

int openat(int folder, const char *name, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    unsigned mode = (flags & O_CREAT) != 0 ? va_arg(args, unsigned) : 0;
    va_end(args);
    int fd = REAL("openat", int (*)(int, const char *, int, ...))(folder, name,
                                                                  flags, mode);
    if (is_noting && folder == folder_fd)
        note_open(fd, name, flags);
    return fd;
}

ssize_t write(int fd, const void *from, size_t n)
{
    if (is_noting && fd >= 0 && fd < FDS && file_of_fd[fd] > 0) {
        struct op op = {
            .kind = WRITE, .file = file_of_fd[fd] - 1, .at = place_of_fd[fd]};
        buf_add(&op.bytes, from, n);
        place_of_fd[fd] += n;
        note(op);
    }
    return REAL("write", ssize_t(*)(int, const void *, size_t))(fd, from, n);
}

int fsync(int fd)
{
    if (is_noting && fd == folder_fd)
        note((struct op){.kind = SYNC_FOLDER});
    else if (is_noting && fd >= 0 && fd < FDS && file_of_fd[fd] > 0)
        note((struct op){.kind = SYNC, .file = file_of_fd[fd] - 1});
    return 0;
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    if (is_noting && from_folder == folder_fd) {
        struct op op = {.kind = RENAME, .file = names[name_at(from)].file};
        snprintf(op.name, NAME, "%s", from);
        snprintf(op.to, NAME, "%s", to);
        note(op);
        set_name(to, op.file);
        names[name_at(from)].file = -1;
        names[name_at(from)].name[0] = '\0';
    }
    return REAL("renameat", int (*)(int, const char *, int, const char *))(
        from_folder, from, to_folder, to);
}

int close(int fd)
{
    if (fd >= 0 && fd < FDS)
        file_of_fd[fd] = 0;
    return REAL("close", int (*)(int))(fd);
}

/* --- a story -------------------------------------------------------------- */

static const struct attempt_pid the_pid = {12, 4321, 987654};
static const struct attempt_exit the_exit = {12, 2, 137};
static const char the_launch[] = "firn-launch 1\nend 0\n";
enum { PID_IS_THERE = 1, EXIT_IS_THERE };

static void mark(int number)
{
    note((struct op){.kind = MARK, .file = number});
}

static void write_story(void)
{
    struct firn_error err;
    struct firn_bytes launch = {the_launch, sizeof the_launch - 1};
    folder_fd = open(folder_path(), O_RDONLY | O_DIRECTORY);
    assert_true(folder_fd >= 0);
    is_noting = true;
    assert_int_equal(attempt_fence_raise(folder_fd, 1, &err), FIRN_OK);
    assert_int_equal(attempt_fence_raise(folder_fd, 12, &err), FIRN_OK);
    assert_int_equal(attempt_put(folder_fd, "launch", launch, &err), FIRN_OK);
    assert_int_equal(attempt_exit_reserve(folder_fd, &err), FIRN_OK);
    assert_int_equal(attempt_pid_put(folder_fd, &the_pid, &err), FIRN_OK);
    mark(PID_IS_THERE);
    assert_int_equal(attempt_exit_put(folder_fd, &the_exit, &err), FIRN_OK);
    mark(EXIT_IS_THERE);
    is_noting = false;
    close(folder_fd);
    folder_fd = -1;
}

/* --- folders as they may be ----------------------------------------------- */

/* Behind the first `n` notes: contents of each file, synced and written. */
struct content {
    struct firn_buf synced, written;
};

static void contents(size_t n, struct content out[FILES])
{
    for (size_t i = 0; i < n; i++) {
        const struct op *op = &ops.at[i];
        struct content *c = &out[op->kind == MARK ? 0 : op->file];
        if (op->kind == TRUNCATE || op->kind == MAKE) {
            buf_clear(&c->written);
        } else if (op->kind == WRITE) {
            while (c->written.n < op->at + op->bytes.n)
                buf_putc(&c->written, '\0');
            memcpy(c->written.at + op->at, op->bytes.at, op->bytes.n);
        } else if (op->kind == SYNC) {
            buf_clear(&c->synced);
            buf_add(&c->synced, c->written.at, c->written.n);
        }
    }
}

static bool is_of_names(const struct op *op)
{
    return op->kind == MAKE || op->kind == RENAME;
}

/* The names behind `n` notes, of which those since the last sync of the folder
 * are there by the bits of `which`. Returns how many there are to choose. */
static int names_behind(size_t n, unsigned which, int out[FILES],
                        char name_of[FILES][NAME])
{
    size_t synced = 0;
    int nchoices = 0, nout = 0;
    for (size_t i = 0; i < n; i++)
        if (ops.at[i].kind == SYNC_FOLDER)
            synced = i;
    for (size_t i = 0; i < n; i++) {
        const struct op *op = &ops.at[i];
        if (!is_of_names(op))
            continue;
        if (i >= synced && (which >> nchoices++ & 1) == 0)
            continue;
        const char *name = op->kind == MAKE ? op->name : op->to;
        int at = 0;
        while (at < nout && strcmp(name_of[at], name) != 0)
            at++;
        nout += at == nout;
        snprintf(name_of[at], NAME, "%s", name);
        out[at] = op->file;
    }
    for (int i = nout; i < FILES; i++)
        out[i] = -1;
    return nchoices;
}

static long nfolders;

static void put_file(const char *name, const struct firn_buf *text, size_t n)
{
    int fd = open(folder_file(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    if (n > 0)
        assert_int_equal(write(fd, text->at, n), n);
    close(fd);
}

/* Contents that are not synced are there up to `cut` bytes of 0, 1, ...; -1: as
 * they were synced, if they were. */
static void build(const int files[FILES], char name_of[FILES][NAME],
                  const struct content all[FILES], long cut)
{
    folder_empty(folder_path());
    for (int i = 0; i < FILES && files[i] >= 0; i++) {
        const struct content *c = &all[files[i]];
        bool is_synced = c->synced.n == c->written.n && c->synced.n > 0 &&
                         memcmp(c->synced.at, c->written.at, c->synced.n) == 0;
        struct firn_buf text = {0};
        const struct firn_buf *from =
            is_synced || cut < 0 ? &c->synced : &c->written;
        buf_add(&text, from->n > 0 ? from->at : "", from->n);
        if (!is_synced && cut >= 0 && (size_t)cut < text.n) {
            /* behind the cut it is as it was before, or ends */
            size_t had = c->synced.n > (size_t)cut ? c->synced.n : (size_t)cut;
            if (had > (size_t)cut)
                memcpy(text.at + cut, c->synced.at + cut, had - (size_t)cut);
            text.n = had;
        }
        put_file(name_of[i], &text, text.n);
        buf_release(&text);
    }
}

static bool is_beginning(int folder, const char *name, const char *a,
                         const char *b)
{
    struct firn_buf text = {0};
    bool is_there = (int)attempt_get(folder, name, &text) == 1;
    bool is_good = !is_there || text.n == 0 ||
                   (text.n <= strlen(a) && memcmp(a, text.at, text.n) == 0) ||
                   (text.n <= strlen(b) && memcmp(b, text.at, text.n) == 0);
    buf_release(&text);
    return is_good;
}

static void read_it(int acked)
{
    struct attempt_pid pid = {0};
    struct attempt_exit how = {0};
    int folder = open(folder_path(), O_RDONLY | O_DIRECTORY);
    assert_true(folder >= 0);
    nfolders++;
    bool has_pid = (int)attempt_pid_get(folder, &pid) == 1;
    bool has_exit = (int)attempt_exit_get(folder, &how) == 1;
    if (acked >= PID_IS_THERE)
        assert_true(has_pid); /* (1) */
    if (acked >= EXIT_IS_THERE)
        assert_true(has_exit);
    if (has_pid) { /* (2) */
        assert_int_equal(pid.attempt, the_pid.attempt);
        assert_int_equal(pid.pid, the_pid.pid);
        assert_int_equal(pid.start, the_pid.start);
    }
    if (has_exit) {
        assert_int_equal(how.attempt, the_exit.attempt);
        assert_int_equal(how.end, the_exit.end);
        assert_int_equal(how.status, the_exit.status);
    }
    assert_true(is_beginning(folder, "fence", "firn-fence 1 12\n", /* (3) */
                             "firn-fence 1 1\n"));
    assert_true(is_beginning(folder, "launch", the_launch, ""));
    close(folder);
}

static void cut_behind(size_t n, int acked)
{
    static const long cuts[] = {-1, 0,  1,  5,  10, 11, 12,  13, 14,
                                15, 16, 17, 18, 20, 60, 126, 127};
    struct content all[FILES] = {0};
    int files[FILES];
    char name_of[FILES][NAME] = {{0}};
    contents(n, all);
    int nchoices = names_behind(n, 0, files, name_of);
    assert_true(nchoices < 12);
    /* All of them in the soak; in the check every fifth, and all few. */
    bool is_all = getenv("FIRN_SOAK") != NULL || nchoices < 4;
    for (unsigned which = 0; which < 1u << nchoices; which += is_all ? 1 : 5)
        for (size_t i = is_all ? 0 : which % 4; i < sizeof cuts / sizeof *cuts;
             i += is_all ? 1 : 6) {
            memset(name_of, 0, sizeof name_of);
            names_behind(n, which, files, name_of);
            build(files, name_of, all, cuts[i]);
            read_it(acked);
        }
    for (int i = 0; i < FILES; i++) {
        buf_release(&all[i].synced);
        buf_release(&all[i].written);
    }
}

static void a_cut_at_any_call_leaves_what_was_said_and_nothing_half(void **s)
{
    (void)s;
    int acked = 0;
    write_story();
    assert_true(ops.n > 15);
    for (size_t i = 0; i <= ops.n; i++) {
        cut_behind(i, acked);
        if (i < ops.n && ops.at[i].kind == MARK)
            acked = ops.at[i].file;
    }
    print_message("%zu calls, %ld folders\n", ops.n, nfolders);
    for (size_t i = 0; i < ops.n; i++)
        buf_release(&ops.at[i].bytes);
    vec_release(&ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_cut_at_any_call_leaves_what_was_said_and_nothing_half,
            folder_make, folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
