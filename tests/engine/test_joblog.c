/* test_joblog.c - a job's output: the limit, the two halves, offsets, and
 * writes that fail. */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/rng.h"
#include "engine/joblog.h"
#include "lib/folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
enum { MAX = 8192, HALF = MAX / 2 };

static const char *path(void)
{
    return folder_file("log");
}

static void open_log(struct joblog *log, int64_t max)
{
    static char kept[300];
    struct firn_error err = {0};
    snprintf(kept, sizeof kept, "%s", path());
    assert_int_equal(joblog_open(log, kept, max, &err), FIRN_OK);
}

static void say(struct joblog *log, const char *text, size_t n)
{
    joblog_write(log, (struct firn_bytes){text, n});
}

static int64_t size_of(const char *name)
{
    struct stat st;
    return stat(folder_file(name), &st) == 0 ? (int64_t)st.st_size : 0;
}

/* (1) of joblog.c. */
static void assert_limits(int64_t max)
{
    assert_true(size_of("log") <= max / 2);
    assert_true(size_of("log.1") <= max / 2);
}

/* All bytes from `*offset` on; those that were dropped are counted. */
static int64_t follow(int64_t *offset, struct firn_buf *out)
{
    struct joblog_view view;
    char room[1000];
    int64_t dropped = 0;
    ssize_t n;
    assert_true(joblog_view(&view, path()));
    if (*offset < view.first) {
        dropped = view.first - *offset;
        *offset = view.first;
    }
    while ((n = joblog_read(&view, *offset, room, sizeof room)) > 0) {
        buf_add(out, room, (size_t)n);
        *offset += n;
    }
    assert_int_equal(*offset, view.end);
    joblog_view_close(&view);
    return dropped;
}

/* Without the lines that are firn's own. */
static void leave_out_ours(struct firn_buf *text)
{
    struct firn_buf out = {0};
    const char *at = text->at, *end = text->at + text->n;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop != NULL ? stop + 1 : end;
        if (strncmp(at, "firn: ", 6) != 0)
            buf_add(&out, at, (size_t)(stop - at));
        at = stop;
    }
    buf_release(text);
    *text = out;
}

static void output_below_the_limit_is_the_file(void **state)
{
    (void)state;
    struct joblog log;
    struct joblog_view view;
    struct stat st;
    open_log(&log, MAX);
    say(&log, "one\ntwo\n", 8);
    joblog_close(&log);
    open_log(&log, MAX); /* another attempt goes on behind it */
    say(&log, "three\n", 6);
    joblog_close(&log);
    assert_int_equal(size_of("log"), 14);
    assert_int_equal(stat(path(), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_true(joblog_view(&view, path()));
    assert_int_equal(view.first, 0);
    assert_int_equal(view.end, 14);
    joblog_view_close(&view);
}

/* Lines of `n` bytes, so that the halves end before, at and behind a line. */
static void a_half_ends_at_a_line_and_never_above_its_limit(void **state)
{
    (void)state;
    for (size_t n = 5; n <= 70; n += n < 60 ? 11 : 1) {
        struct joblog log;
        char line[80];
        int64_t total = 0, offset = 0;
        struct firn_buf all = {0};
        folder_empty(folder_path());
        open_log(&log, MAX);
        for (int i = 0; total < 3 * MAX; i++) {
            memset(line, 'a' + i % 26, n);
            line[n - 1] = '\n';
            say(&log, line, n);
            total += (int64_t)n;
            assert_limits(MAX);
        }
        assert_true(follow(&offset, &all) > 0);
        assert_true(all.n > MAX / 2); /* what is kept is more than a half */
        leave_out_ours(&all);
        assert_int_equal(all.n % n, 0); /* no line is cut */
        assert_memory_equal(all.at + all.n - n, line, n);
        buf_release(&all);
        joblog_close(&log);
    }
}

static void a_half_that_is_exactly_full_is_not_left_early(void **state)
{
    (void)state;
    struct joblog log;
    char text[HALF + 1];
    memset(text, 'x', sizeof text);
    text[HALF - 1] = '\n';
    open_log(&log, MAX);
    say(&log, text, HALF);
    assert_int_equal(size_of("log"), HALF);
    assert_int_equal(size_of("log.1"), 0);
    say(&log, "y", 1);
    assert_int_equal(size_of("log.1"), HALF);
    assert_true(size_of("log") > 0 && size_of("log") < 200);
    joblog_close(&log);
}

/* A reader that keeps up: what it reads is what was written. */
static void a_follower_across_rotations_misses_nothing(void **state)
{
    (void)state;
    struct rng rng;
    struct firn_buf written = {0}, seen = {0};
    struct joblog log;
    int64_t offset = 0;
    rng_seed(&rng, 7);
    open_log(&log, MAX);
    for (int i = 0; i < 2000; i++) {
        char line[400];
        int width = 1 + (int)rng_below(&rng, 300);
        int n = snprintf(line, sizeof line, "%d %*d\n", i, width, i);
        buf_add(&written, line, (size_t)n);
        say(&log, line, (size_t)n);
        if (rng_below(&rng, 40) == 0) { /* another attempt */
            joblog_close(&log);
            open_log(&log, MAX);
        }
        assert_int_equal(follow(&offset, &seen), 0);
        assert_limits(MAX);
    }
    leave_out_ours(&seen);
    assert_true(strcmp(seen.at, written.at) == 0);
    assert_true(offset > (int64_t)written.n); /* our lines are counted too */
    buf_release(&seen);
    buf_release(&written);
    joblog_close(&log);
}

static void a_late_reader_is_told_how_much_was_dropped(void **state)
{
    (void)state;
    struct joblog log;
    struct firn_buf all = {0};
    int64_t offset = 0;
    open_log(&log, MAX);
    for (int i = 0; i < 10000; i++)
        say(&log, "0123456\n", 8);
    int64_t dropped = follow(&offset, &all);
    assert_true(dropped > 0);
    assert_int_equal(dropped + (int64_t)all.n, offset);
    assert_true(strncmp(all.at, "firn: ", 6) == 0); /* and in the log itself */
    assert_int_equal(joblog_base(all.at, all.n), dropped);
    assert_non_null(strstr(all.at, "keeps the newest 0.0078125 MiB\n"));
    buf_release(&all);
    joblog_close(&log);
}

static void a_line_longer_than_a_half_is_cut(void **state)
{
    (void)state;
    struct joblog log;
    struct firn_buf all = {0};
    char text[3 * MAX];
    int64_t offset = 0;
    memset(text, 'x', sizeof text);
    open_log(&log, MAX);
    say(&log, text, sizeof text);
    assert_limits(MAX);
    assert_true(follow(&offset, &all) > 0);
    leave_out_ours(&all);
    assert_int_equal(strspn(all.at, "x\n"), all.n);
    buf_release(&all);
    joblog_close(&log);
}

static void without_a_limit_all_is_kept(void **state)
{
    (void)state;
    struct joblog log;
    open_log(&log, 0);
    for (int i = 0; i < 5000; i++)
        say(&log, "0123456\n", 8);
    joblog_close(&log);
    assert_int_equal(size_of("log"), 40000);
    assert_int_equal(size_of("log.1"), 0);
}

/* --- writes that fail ----------------------------------------------------- */

static int64_t room; /* bytes until the disk is full */
static unsigned nwrites;

static ssize_t stutter(int fd, const void *bytes, size_t n)
{
    if (++nwrites % 3 == 0) {
        errno = EINTR;
        return -1;
    }
    size_t part = 1 + nwrites % 7;
    return write(fd, bytes, part < n ? part : n);
}

static ssize_t fill(int fd, const void *bytes, size_t n)
{
    if (room <= 0) {
        errno = ENOSPC;
        return -1;
    }
    ssize_t done = write(fd, bytes, (int64_t)n < room ? n : (size_t)room);
    room -= done > 0 ? done : 0;
    return done;
}

static void short_and_interrupted_writes_lose_nothing(void **state)
{
    (void)state;
    struct joblog log;
    struct firn_buf seen = {0}, written = {0};
    int64_t offset = 0;
    open_log(&log, MAX);
    log.write = stutter;
    for (int i = 0; i < 1000; i++) {
        char line[40];
        int n = snprintf(line, sizeof line, "line %d\n", i);
        say(&log, line, (size_t)n);
        buf_add(&written, line, (size_t)n);
        assert_int_equal(follow(&offset, &seen), 0);
    }
    assert_int_equal(log.nlost, 0);
    leave_out_ours(&seen);
    assert_true(strcmp(seen.at, written.at) == 0);
    buf_release(&seen);
    buf_release(&written);
    joblog_close(&log);
}

/* At each byte of the log in turn, rotations included. */
static void a_full_disk_loses_bytes_and_says_how_many(void **state)
{
    (void)state;
    for (int64_t full_at = 0; full_at < MAX; full_at += 61) {
        struct joblog log;
        struct firn_buf all = {0};
        int64_t offset = 0;
        long long logged = 0, printed = 0;
        char line[80], last[80];
        folder_empty(folder_path());
        open_log(&log, MAX);
        log.write = fill;
        room = full_at;
        for (int i = 0; i < 800; i++) {
            int n = snprintf(line, sizeof line, "output %06d\n", i);
            say(&log, line, (size_t)n);
            printed += n;
        }
        long long lost = log.nlost;
        assert_true(lost > 0 && lost <= printed);
        assert_limits(MAX);
        room = INT64_MAX;
        say(&log, "x\n", 2); /* still before the next try */
        assert_int_equal(log.nlost, lost + 2);
        log.again_s = 0;
        say(&log, "back\n", 5);
        assert_int_equal(log.nlost, 0);
        follow(&offset, &all);
        const char *at = strstr(all.at, " bytes of output were lost here: ");
        assert_non_null(at);
        assert_non_null(strstr(at, "No space left on device\n"));
        assert_string_equal(all.at + all.n - 5, "back\n");
        while (at > all.at && at[-1] != '\n')
            at--;
        assert_int_equal(sscanf(at, "firn: %lld %79s", &logged, last), 2);
        assert_int_equal(logged, lost + 2);
        buf_release(&all);
        joblog_close(&log);
    }
}

static void a_log_that_cannot_be_made_yet_does_not_stop_the_job(void **state)
{
    (void)state;
    struct joblog log;
    struct firn_error err = {0};
    char far[300];
    snprintf(far, sizeof far, "%s/later/log", folder_path());
    assert_int_equal(joblog_open(&log, far, MAX, &err), FIRN_OK);
    say(&log, "lost\n", 5);
    assert_int_equal(log.nlost, 5);
    assert_int_equal(mkdir(folder_file("later"), 0700), 0);
    log.again_s = 0;
    say(&log, "kept\n", 5);
    assert_int_equal(log.nlost, 0);
    joblog_close(&log);
    assert_true(size_of("later/log") > 5);
    unlink(folder_file("later/log"));
    rmdir(folder_file("later"));
}

/* --- what is there before ------------------------------------------------- */

static void expect_refused(const char *what)
{
    struct joblog log;
    struct joblog_view view;
    struct firn_error err = {0};
    assert_int_equal(joblog_open(&log, path(), MAX, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, what));
    joblog_close(&log);
    assert_int_equal(joblog_check(path(), &err), FIRN_EINVAL);
    assert_false(joblog_view(&view, path()));
    joblog_view_close(&view);
}

static void links_folders_and_pipes_are_refused(void **state)
{
    (void)state;
    char outside[300];
    struct stat st;
    snprintf(outside, sizeof outside, "%s", folder_file("outside"));
    close(open(outside, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(symlink(outside, path()), 0);
    expect_refused("a symbolic link");
    assert_int_equal(stat(outside, &st), 0);
    assert_int_equal(st.st_size, 0);
    unlink(path());
    assert_int_equal(symlink(folder_file("nowhere"), path()), 0);
    expect_refused("a symbolic link");
    assert_int_not_equal(access(folder_file("nowhere"), F_OK), 0);
    unlink(path());
    assert_int_equal(mkfifo(path(), 0600), 0);
    expect_refused("a device, pipe or socket");
    unlink(path());
    assert_int_equal(mkdir(path(), 0700), 0);
    expect_refused("a folder");
    rmdir(path());
}

static void write_file(const char *name, const char *line, int n)
{
    FILE *file = fopen(folder_file(name), "w");
    assert_non_null(file);
    for (int i = 0; i < n; i++)
        fprintf(file, line, i);
    fclose(file);
}

static void a_log_of_an_older_firn_is_read_and_cut_down(void **state)
{
    (void)state;
    struct joblog log;
    struct joblog_view view;
    struct firn_buf all = {0};
    int64_t offset = 0;
    write_file("log", "line %06d\n", 10000);
    int64_t before = size_of("log");
    assert_int_equal(follow(&offset, &all), 0);
    assert_int_equal(all.n, before);
    buf_clear(&all);
    open_log(&log, MAX);
    say(&log, "new\n", 4);
    joblog_close(&log);
    assert_limits(MAX);
    offset = 0;
    assert_true(follow(&offset, &all) > 0);
    leave_out_ours(&all);
    assert_non_null(strstr(all.at, "line 009998\nline 009999\nnew\n"));
    buf_release(&all);
    assert_true(joblog_view(&view, path()));
    char last[12]; /* offsets are as before */
    assert_int_equal(joblog_read(&view, before - 12, last, 12), 12);
    assert_memory_equal(last, "line 009999\n", 12);
    joblog_view_close(&view);
}

/* A writer that was killed between its two renames. */
static void a_log_without_its_newer_half_goes_on_where_it_ended(void **state)
{
    (void)state;
    struct joblog log;
    struct joblog_view view;
    open_log(&log, MAX);
    for (int i = 0; i < 3000; i++)
        say(&log, "0123456\n", 8);
    joblog_close(&log);
    assert_int_equal(unlink(path()), 0);
    assert_true(joblog_view(&view, path()));
    int64_t end = view.end;
    assert_int_equal(end - view.first, size_of("log.1"));
    joblog_view_close(&view);
    open_log(&log, MAX);
    say(&log, "on\n", 3);
    joblog_close(&log);
    assert_true(joblog_view(&view, path()));
    assert_int_equal(view.base[1], end);
    assert_true(view.fd[0] >= 0);
    joblog_view_close(&view);
}

static void halves_that_do_not_belong_together_are_not_joined(void **state)
{
    (void)state;
    struct joblog_view view;
    write_file("log.1", "old %d\n", 10);
    write_file("log", "firn: 500%d bytes of output came before this line; x\n",
               1);
    assert_true(joblog_view(&view, path()));
    assert_int_equal(view.first, 5000);
    assert_int_equal(view.fd[0], -1);
    joblog_view_close(&view);
    static const char *const bad[] = {
        "firn: 99999999999999999999 bytes of output came before this line;",
        "firn: -1 bytes of output came before this line;",
        "firn:  bytes of output came before this line;",
        "firn: 12 bytes of output",
        "",
        "x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(joblog_base(bad[i], strlen(bad[i])), 0);
}

/* --- the pipe ------------------------------------------------------------- */

static void the_pipe_is_taken_in_and_never_waited_for(void **state)
{
    (void)state;
    struct joblog log;
    open_log(&log, MAX);
    joblog_pump(&log); /* empty: returns */
    joblog_drain(&log);
    assert_int_equal(write(log.out, "a\nb\n", 4), 4);
    joblog_pump(&log);
    assert_int_equal(size_of("log"), 4);
    assert_int_equal(log.ntail, 4);
    char text[JOBLOG_TAIL];
    memset(text, '-', sizeof text);
    assert_int_equal(write(log.out, text, sizeof text - 1), sizeof text - 1);
    assert_int_equal(write(log.out, "end", 3), 3);
    joblog_drain(&log);
    assert_int_equal(log.ntail, JOBLOG_TAIL);
    assert_memory_equal(log.tail + JOBLOG_TAIL - 4, "-end", 4);
    joblog_close(&log);
}

/* A stranger that has the pipe and fills it faster than it is emptied. */
static void draining_ends_while_the_pipe_is_filled(void **state)
{
    (void)state;
    struct joblog log;
    open_log(&log, MAX);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char text[4096];
        memset(text, 'y', sizeof text);
        close(log.in);
        while (write(log.out, text, sizeof text) > 0)
            ;
        _exit(0);
    }
    struct pollfd fd = {.fd = log.in, .events = POLLIN};
    assert_int_equal(poll(&fd, 1, 60000), 1);
    for (int i = 0; i < 3; i++) {
        joblog_drain(&log);
        joblog_pump(&log);
    }
    assert_limits(MAX);
    joblog_close(&log); /* the reading end: the child ends by SIGPIPE */
    int status = 0;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
}

#define CASE(name) \
    cmocka_unit_test_setup_teardown(name, folder_make, folder_remove)

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(output_below_the_limit_is_the_file),
        CASE(a_half_ends_at_a_line_and_never_above_its_limit),
        CASE(a_half_that_is_exactly_full_is_not_left_early),
        CASE(a_follower_across_rotations_misses_nothing),
        CASE(a_late_reader_is_told_how_much_was_dropped),
        CASE(a_line_longer_than_a_half_is_cut),
        CASE(without_a_limit_all_is_kept),
        CASE(short_and_interrupted_writes_lose_nothing),
        CASE(a_full_disk_loses_bytes_and_says_how_many),
        CASE(a_log_that_cannot_be_made_yet_does_not_stop_the_job),
        CASE(links_folders_and_pipes_are_refused),
        CASE(a_log_of_an_older_firn_is_read_and_cut_down),
        CASE(a_log_without_its_newer_half_goes_on_where_it_ended),
        CASE(halves_that_do_not_belong_together_are_not_joined),
        CASE(the_pipe_is_taken_in_and_never_waited_for),
        CASE(draining_ends_while_the_pipe_is_filled),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
