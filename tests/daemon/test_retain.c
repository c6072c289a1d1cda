/* test_retain.c - what is removed of finished jobs, by age and by number, and
 * what is not: all of a living job, all that a job wrote, all behind a link. */
#define _GNU_SOURCE
#include "daemon/retain.h"
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include <cmocka.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOFT "gpus: 1\ncheckpoint: {grace: 10}\n"
static const double DAY_S = 86400;

/* --- files --------------------------------------------------------------- */

static const char *in_job(firn_job_id id, const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "jobs/%d%s%s", id, *name ? "/" : "", name);
    return folder_file(path);
}

static bool is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static void make(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void make_folder(const char *path)
{
    (void)mkdir(path, 0700);
    assert_true(is_there(path));
}

/* As an engine leaves it. */
static void make_job(firn_job_id id)
{
    make_folder(folder_file("jobs"));
    make_folder(in_job(id, ""));
    make_folder(in_job(id, "epoch-1"));
    make(in_job(id, "epoch-1/exit"));
    make(in_job(id, "epoch-1/pid"));
    make(in_job(id, "log"));
    make(in_job(id, "log.1"));
    make(in_job(id, "lock"));
    make(in_job(id, "fence"));
}

static enum retain_left remove_files(firn_job_id id, int nfiles)
{
    struct retain_budget budget = {nfiles, INFINITY};
    return retain_files(folder_path(), id, 1, &budget);
}

static void the_files_of_a_job_go_and_its_folder_with_them(void **state)
{
    (void)state;
    make_job(1);
    make_folder(in_job(1, "ckpt"));
    make_folder(folder_file("control"));
    make_folder(folder_file("control/1"));
    make(folder_file("control/1/lock"));
    assert_int_equal(remove_files(1, 1000), RETAIN_GONE);
    assert_false(is_there(in_job(1, "")));
    assert_false(is_there(folder_file("control/1")));
    assert_int_equal(remove_files(1, 1000), RETAIN_GONE); /* again: no harm */
}

static void what_the_job_wrote_stays(void **state)
{
    (void)state;
    make_job(1);
    make_folder(in_job(1, "ckpt"));
    make(in_job(1, "ckpt/1-00000007.ckpt"));
    make_folder(in_job(1, "work"));
    make(in_job(1, "work/log"));
    make(in_job(1, "results.csv"));
    assert_int_equal(remove_files(1, 1000), RETAIN_GONE);
    assert_true(is_there(in_job(1, "ckpt/1-00000007.ckpt")));
    assert_true(is_there(in_job(1, "work/log")));
    assert_true(is_there(in_job(1, "results.csv")));
    assert_false(is_there(in_job(1, "log")));
    assert_false(is_there(in_job(1, "log.1")));
    assert_false(is_there(in_job(1, "epoch-1")));
}

static void no_link_is_followed(void **state)
{
    (void)state;
    make_job(1);
    make_folder(folder_file("outside"));
    make_folder(folder_file("outside/epoch-1"));
    make(folder_file("outside/log"));
    make(folder_file("outside/epoch-1/pid"));
    make_folder(in_job(1, "epoch-1/deep"));
    assert_int_equal(
        symlink(folder_file("outside"), in_job(1, "epoch-1/deep/link")), 0);
    assert_int_equal(unlink(in_job(1, "log")), 0);
    assert_int_equal(symlink(folder_file("outside/log"), in_job(1, "log")), 0);
    assert_int_equal(symlink(folder_file("outside"), in_job(2, "")), 0);
    make_job(3);
    folder_empty(in_job(3, "epoch-1"));
    assert_int_equal(rmdir(in_job(3, "epoch-1")), 0);
    assert_int_equal(symlink(folder_file("outside"), in_job(3, "epoch-1")), 0);
    assert_int_equal(remove_files(1, 1000), RETAIN_GONE);
    assert_int_equal(remove_files(2, 1000), RETAIN_KEPT);
    assert_int_equal(remove_files(3, 1000), RETAIN_GONE);
    assert_false(is_there(in_job(1, "")));
    assert_true(is_there(in_job(2, ""))); /* the link itself */
    assert_false(is_there(in_job(3, "")));
    assert_true(is_there(folder_file("outside/log")));
    assert_true(is_there(folder_file("outside/epoch-1/pid")));
}

static void a_job_whose_lock_is_held_is_not_touched(void **state)
{
    (void)state;
    make_job(1);
    int fd = open(in_job(1, "lock"), O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(remove_files(1, 1000), RETAIN_KEPT);
    assert_true(is_there(in_job(1, "log")));
    assert_true(is_there(in_job(1, "epoch-1/pid")));
    close(fd);
    assert_int_equal(remove_files(1, 1000), RETAIN_GONE);
    assert_false(is_there(in_job(1, "")));
}

static void without_descriptors_nothing_counts_as_gone(void **state)
{
    (void)state;
    struct rlimit was, none;
    make_job(1);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(next);
    for (int more = 0; more < 8; more++) {
        none = (struct rlimit){(rlim_t)(next + more), was.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        enum retain_left left = remove_files(1, 1000);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
        assert_int_equal(left == RETAIN_GONE, !is_there(in_job(1, "")));
        if (left == RETAIN_GONE)
            make_job(1);
    }
}

static void a_large_folder_goes_in_steps(void **state)
{
    (void)state;
    enum { N = 1000, STEP = 100 };
    char name[64];
    int nsteps = 1;
    make_job(1);
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "epoch-1/worker-%d", i);
        make(in_job(1, name));
    }
    while (remove_files(1, STEP) == RETAIN_MORE)
        nsteps++;
    assert_true(nsteps >= N / STEP && nsteps <= 2 * N / STEP);
    assert_false(is_there(in_job(1, "")));
}

/* --- a pass -------------------------------------------------------------- */

static void open_scene(struct loopscene *s, struct config_keep keep)
{
    loopscene_open(s, "1x1:v100@16", "fifo", false);
    s->config.keep = keep;
}

static struct live_job *finish(struct loopscene *s, const char *name)
{
    struct live_job *job = loopscene_submit(s, name, SOFT);
    loopscene_turn(s);
    make_job(job->id);
    loopscene_done(s, name);
    return job;
}

/* `seconds` later, until a pass that began then is over. */
static void pass(struct loopscene *s, double seconds)
{
    loopscene_pass(s, seconds);
    for (int i = 0; i < 30; i++)
        loopscene_turn(s);
}

static bool has_row(struct loopscene *s, firn_job_id id)
{
    struct live_job *job = NULL;
    struct firn_error err = {0};
    enum firn_status status = store_read_job(s->loop->store, id, &job, &err);
    live_job_free(status == FIRN_OK ? job : NULL);
    return status == FIRN_OK;
}

static void logs_go_by_age_and_rows_stay(void **state)
{
    (void)state;
    struct loopscene s;
    open_scene(&s, (struct config_keep){.jobs_days = 30});
    firn_job_id old = finish(&s, "old")->id;
    pass(&s, 29 * DAY_S);
    assert_true(is_there(in_job(old, "log")));
    firn_job_id young = finish(&s, "young")->id;
    struct live_job *lives = loopscene_submit(&s, "lives", SOFT);
    loopscene_turn(&s);
    make_job(lives->id);
    pass(&s, 2 * DAY_S);
    assert_false(is_there(in_job(old, "")));
    assert_true(is_there(in_job(young, "log")));
    assert_true(has_row(&s, old));
    pass(&s, 300 * DAY_S);
    assert_false(is_there(in_job(young, "")));
    assert_true(is_there(in_job(lives->id, "log"))); /* it still runs */
    assert_true(is_there(in_job(lives->id, "epoch-1/pid")));
    assert_int_equal(lives->state, LIVE_RUNNING);
    loopscene_close(&s);
}

static void logs_go_by_number_the_oldest_first(void **state)
{
    (void)state;
    struct loopscene s;
    char name[16];
    open_scene(&s, (struct config_keep){.jobs = 3});
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "j%d", i);
        finish(&s, name);
    }
    for (firn_job_id id = 1; id <= 6; id++)
        assert_true(is_there(in_job(id, "log"))); /* none is old enough */
    pass(&s, 1300);
    for (firn_job_id id = 1; id <= 6; id++)
        assert_int_equal(is_there(in_job(id, "log")), id > 3);
    loopscene_close(&s);
}

static void rows_go_by_number_and_numbers_are_not_used_again(void **state)
{
    (void)state;
    struct loopscene s;
    struct live_job *job = NULL;
    struct firn_error err = {0};
    char name[16];
    open_scene(&s, (struct config_keep){.rows = 2});
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "j%d", i);
        finish(&s, name);
    }
    pass(&s, 1300);
    for (firn_job_id id = 1; id <= 5; id++) {
        assert_int_equal(has_row(&s, id), id > 3);
        assert_int_equal(is_there(in_job(id, "")), id > 3);
        assert_int_equal(book_job(s.loop->book, id) != NULL, id > 3);
    }
    assert_int_equal(book_find(s.loop->book, "2", &job, &err), FIRN_ENOENT);
    assert_string_equal(err.text,
                        "job 2 is finished and no longer kept (keep-rows)");
    assert_int_equal(book_find(s.loop->book, "6", &job, &err), FIRN_ENOENT);
    assert_non_null(strstr(err.text, "there is no job 6"));
    assert_int_equal(finish(&s, "next")->id, 6);
    loopscene_close(&s);
    loopscene_open(&s, "1x1:v100@16", "fifo", true);
    assert_int_equal(loopscene_submit(&s, "more", SOFT)->id, 7);
    loopscene_close(&s);
}

static void a_job_that_a_living_one_needs_is_kept(void **state)
{
    (void)state;
    struct loopscene s;
    open_scene(&s, (struct config_keep){.jobs_days = 1, .rows = 1});
    firn_job_id first = finish(&s, "first")->id;
    firn_job_id other = finish(&s, "other")->id;
    finish(&s, "third");
    struct live_job *next = loopscene_submit(&s, "next", SOFT);
    loopscene_turn(&s);
    next->how.after = first;
    pass(&s, 10 * DAY_S);
    assert_true(is_there(in_job(first, "log")));
    assert_true(has_row(&s, first));
    assert_false(is_there(in_job(other, "")));
    assert_false(has_row(&s, other));
    next->how.after = FIRN_NO_JOB;
    pass(&s, 1300);
    assert_false(is_there(in_job(first, "")));
    assert_false(has_row(&s, first));
    loopscene_close(&s);
}

/* --- events and reports -------------------------------------------------- */

struct seen {
    firn_job_id job;
    int nof, nothers;
};

static bool see(void *arg, const struct store_event *event)
{
    struct seen *seen = arg;
    if (event->job == seen->job)
        seen->nof++;
    else
        seen->nothers++;
    return true;
}

static struct seen events_of(struct loopscene *s, firn_job_id job)
{
    struct seen seen = {.job = job};
    struct firn_error err = {0};
    assert_int_equal(
        store_each_event(s->loop->store, 0, 100000, see, &seen, &err), FIRN_OK);
    return seen;
}

static bool count_report(void *arg, int64_t attempt, double at_s,
                         const struct firn_trainer_report *report)
{
    (void)attempt;
    (void)at_s;
    (void)report;
    ++*(int *)arg;
    return true;
}

static int reports_of(struct loopscene *s, firn_job_id job)
{
    int n = 0;
    struct firn_error err = {0};
    assert_int_equal(
        store_each_report(s->loop->store, job, count_report, &n, &err),
        FIRN_OK);
    return n;
}

static void events_and_reports_go_by_age_but_not_of_living_jobs(void **state)
{
    (void)state;
    struct loopscene s;
    struct firn_error err = {0};
    open_scene(&s, (struct config_keep){.events_days = 30});
    struct live_job *over = loopscene_submit(&s, "over", SOFT);
    loopscene_turn(&s);
    loopscene_report(&s, "over", 0.5, 0.1, 100);
    loopscene_done(&s, "over");
    struct live_job *lives = loopscene_submit(&s, "lives", SOFT);
    loopscene_turn(&s);
    loopscene_report(&s, "lives", 0.5, 0.1, 100);
    for (int i = 0; i < 1000; i++) { /* more than one step of a pass */
        struct store_event event = {
            .at_s = 1, .job = FIRN_NO_JOB, .kind = "k", .text = "t"};
        assert_int_equal(store_add_event(s.loop->store, &event, &err), FIRN_OK);
    }
    int of_living = events_of(&s, lives->id).nof;
    assert_true(of_living > 0 && events_of(&s, over->id).nof > 0);
    assert_int_equal(reports_of(&s, over->id), 1);
    pass(&s, 29 * DAY_S);
    assert_true(events_of(&s, over->id).nof > 0);
    pass(&s, 2 * DAY_S);
    assert_int_equal(events_of(&s, over->id).nof, 0);
    assert_int_equal(events_of(&s, lives->id).nof, of_living);
    assert_int_equal(events_of(&s, lives->id).nothers, 0);
    assert_int_equal(reports_of(&s, over->id), 0);
    assert_int_equal(reports_of(&s, lives->id), 1);
    assert_true(has_row(&s, over->id));
    loopscene_close(&s);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(the_files_of_a_job_go_and_its_folder_with_them),
        CASE(what_the_job_wrote_stays),
        CASE(no_link_is_followed),
        CASE(a_job_whose_lock_is_held_is_not_touched),
        CASE(without_descriptors_nothing_counts_as_gone),
        CASE(a_large_folder_goes_in_steps),
        CASE(logs_go_by_age_and_rows_stay),
        CASE(logs_go_by_number_the_oldest_first),
        CASE(rows_go_by_number_and_numbers_are_not_used_again),
        CASE(a_job_that_a_living_one_needs_is_kept),
        CASE(events_and_reports_go_by_age_but_not_of_living_jobs),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
