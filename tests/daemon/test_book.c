/* test_book.c - memory, disk and history tell one story.
 */
#include "base/buf.h"
#include "base/failpoint.h"
#include "base/mem.h"
#include "daemon/book.h"
#include "daemon/storework.h"
#include "tests/daemon/storescene.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void a_submitted_job_waits_and_has_a_token(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    struct live_job *job = liveset_add(&d, ""),
                    *other = liveset_add(&d, "resnet");
    assert_int_equal(job->state, LIVE_PENDING);
    assert_int_equal(job->reason, LIVE_BECAUSE_NEW);
    assert_string_equal(job->ask.name, "job-1");
    assert_string_equal(job->ask.queue, "");
    assert_string_equal(job->held, "-");
    assert_int_equal(strspn(job->token, "0123456789abcdef"), 64);
    assert_string_not_equal(job->token, other->token);
    assert_int_equal(book_count(d.book), 2);
    assert_ptr_equal(book_at(d.book, 1), other);
    struct firn_buf before = job_as_text(job);
    liveset_reopen(&d);
    struct firn_buf after = job_as_text(book_job(d.book, 1));
    assert_string_equal(before.at, after.at);
    buf_release(&before);
    buf_release(&after);
    liveset_close(&d);
}

static void a_request_makes_one_job_also_across_restarts(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    bool is_new = false;
    firn_job_id ann = liveset_submit(&d, "a", "ann", "r-1", &is_new)->id;
    assert_true(is_new);
    for (int restart = 0; restart < 2; restart++) {
        assert_int_equal(liveset_submit(&d, "b", "ann", "r-1", &is_new)->id,
                         ann);
        assert_false(is_new);
        liveset_reopen(&d);
    }
    assert_int_not_equal(liveset_submit(&d, "a", "bob", "r-1", &is_new)->id,
                         ann);
    assert_true(is_new);
    assert_int_not_equal(liveset_submit(&d, "a", "ann", "r-2", &is_new)->id,
                         ann);
    assert_int_not_equal(liveset_submit(&d, "a", "ann", "", &is_new)->id, ann);
    assert_int_not_equal(liveset_submit(&d, "a", "ann", NULL, &is_new)->id,
                         ann);
    assert_true(is_new);
    assert_int_equal(book_count(d.book), 5);
    liveset_close(&d);
}

static void a_request_id_of_strange_letters_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"a b", "a\n", "\x7f", "\xc3\xa9"};
    struct liveset d = liveset_open();
    struct live_job *job = NULL;
    bool is_new = false;
    char longest[130];
    memset(longest, 'r', sizeof longest);
    longest[129] = '\0';
    for (size_t i = 0; i <= 4; i++) {
        struct live_ask ask = {.name = mem_strdup("a")};
        assert_int_equal(book_submit(d.book, &ask, "",
                                     i < 4 ? wrong[i] : longest, 1, &job,
                                     &is_new, &oops),
                         FIRN_EINVAL);
        assert_non_null(ask.name); /* still the caller's */
        live_ask_release(&ask);
    }
    longest[128] = '\0';
    assert_non_null(liveset_submit(&d, "a", "ann", longest, NULL));
    assert_int_equal(book_count(d.book), 1);
    liveset_close(&d);
}

static void a_job_is_found_by_number_name_and_beginning(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        firn_job_id want;
    } cases[] = {{"1", 1},    {"resnet", 4},  {"resnet-50", 2},
                 {"b", 3},    {"resnet-", 2}, {"77-", 5},
                 {"gone", 6}, {"go", 6},      {"resnet-50-", -1}};
    struct liveset d = liveset_open();
    static const char *const names[] = {"resnet", "resnet-50", "bert",
                                        "resnet", "77-days",   "gone"};
    struct live_job *job = NULL;
    for (size_t i = 0; i < 6; i++)
        job = liveset_add(&d, names[i]);
    assert_int_equal(book_state(d.book, job, LIVE_CANCELLED, LIVE_BECAUSE_USER,
                                1, "cancelled", &oops),
                     FIRN_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct live_job *found = NULL;
        enum firn_status status =
            book_find(d.book, cases[i].word, &found, &oops);
        assert_int_equal(status, cases[i].want < 0 ? FIRN_ENOENT : FIRN_OK);
        assert_int_equal(found != NULL ? found->id : -1, cases[i].want);
    }
    assert_int_equal(book_find(d.book, "res", &job, &oops), FIRN_EINVAL);
    assert_string_equal(oops.text, "'res' could be resnet, resnet-50");
    static const char *const wrong[] = {"", "a b", "'; DROP TABLE jobs", "%",
                                        "res\n"};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(book_find(d.book, wrong[i], &job, &oops), FIRN_ENOENT);
    liveset_close(&d);
}

static void digits_alone_name_a_job_by_its_number_only(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    static const char *const none[] = {
        "77", "7", "0", "00", "3", "2147483648", "99999999999999999999"};
    struct live_job *job = NULL;
    liveset_add(&d, "77-prod");
    liveset_add(&d, "2147483648-prod");
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_int_equal(book_find(d.book, none[i], &job, &oops), FIRN_ENOENT);
        assert_non_null(strstr(oops.text, "digits alone name a job by its "
                                          "number"));
    }
    assert_int_equal(book_find(d.book, "2", &job, &oops), FIRN_OK);
    assert_int_equal(job->id, 2);
    assert_int_equal(book_find(d.book, "77-", &job, &oops), FIRN_OK);
    assert_int_equal(job->id, 1);
    liveset_close(&d);
}

static void many_names_are_not_all_listed(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    struct live_job *job = NULL;
    for (int i = 0; i < 9; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        liveset_add(&d, name);
    }
    assert_int_equal(book_find(d.book, "x", &job, &oops), FIRN_EINVAL);
    assert_string_equal(oops.text, "'x' could be x0, x1, x2, x3, x4, ...");
    liveset_close(&d);
}

static void a_token_belongs_to_one_job(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    enum { JOBS = 300 };
    for (int i = 0; i < JOBS; i++)
        liveset_add(&d, "j");
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 1; i <= JOBS; i++) {
            char token[70] = "";
            memcpy(token, book_job(d.book, i)->token, 64);
            assert_int_equal(book_token(d.book, token), i);
            token[63] = (char)(token[63] == '0' ? '1' : '0');
            assert_int_equal(book_token(d.book, token), FIRN_NO_JOB);
            token[63] = '\0';
            assert_int_equal(book_token(d.book, token), FIRN_NO_JOB);
        }
        assert_int_equal(book_token(d.book, ""), FIRN_NO_JOB);
        liveset_reopen(&d);
    }
    liveset_close(&d);
}

struct heard {
    size_t n;
    char text[1024];
};

static void hear(void *arg, const struct store_event *event)
{
    struct heard *heard = arg;
    size_t at = strlen(heard->text);
    heard->n++;
    snprintf(heard->text + at, sizeof heard->text - at, "%d %s: %s\n",
             event->job, event->kind, event->text);
}

static bool read_event(void *arg, const struct store_event *event)
{
    hear(arg, event);
    return true;
}

static void every_change_is_an_event_on_disk_and_for_the_listener(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    struct heard heard = {0}, kept = {0};
    book_listen(d.book, hear, &heard);
    struct live_job *job = liveset_add(&d, "a");
    int64_t attempt = 0;
    struct store_attempt end = {.job = 1,
                                .number = 1,
                                .started_s = 100,
                                .ended_s = 200,
                                .end = FIRN_END_DONE,
                                .exit_status = 0,
                                .held = "n0[0]"};
    book_priority(d.book, job, 7, 101, &oops);
    book_bounds(d.book, job, 2, 4, 102, &oops);
    book_hold(d.book, job, true, 103, &oops);
    book_hold(d.book, job, true, 103, &oops); /* is no change */
    book_hold(d.book, job, false, 104, &oops);
    book_state(d.book, job, LIVE_STARTING, LIVE_BECAUSE_NONE, 105, "on n0",
               &oops);
    book_held(d.book, job, "n0[0]", &oops);
    book_next_attempt(d.book, job, &attempt, &oops);
    book_state(d.book, job, LIVE_RUNNING, LIVE_BECAUSE_NONE, 106, "seen",
               &oops);
    book_cancel(d.book, job, 107, "ann wants it gone", &oops);
    book_attempt_ended(d.book, job, &end, &oops);
    book_state(d.book, job, LIVE_CANCELLED, LIVE_BECAUSE_USER, 108, "by ann",
               &oops);
    assert_string_equal(heard.text,
                        "1 submitted: a was submitted by ann\n"
                        "1 priority: from 0 to 7\n"
                        "1 bounds: from 1..8 to 2..4 GPUs\n"
                        "1 held: held by its user\n"
                        "1 released: released by its user\n"
                        "1 starting: on n0\n"
                        "1 gpus: n0[0]\n"
                        "1 attempt: attempt 1\n"
                        "1 running: seen\n"
                        "1 cancelling: ann wants it gone\n"
                        "1 ended: attempt 1 ended: done, exit status "
                        "0\n"
                        "1 cancelled: ann wants it gone\n");
    assert_true(job->started_s == 106 && job->ended_s == 108);
    struct firn_buf before = job_as_text(job);
    liveset_reopen(&d);
    store_each_event(d.store, 0, 100, read_event, &kept, &oops);
    assert_string_equal(kept.text, heard.text);
    struct firn_buf after = job_as_text(book_job(d.book, 1));
    assert_string_equal(before.at, after.at);
    buf_release(&before);
    buf_release(&after);
    liveset_close(&d);
}

static void add_usage(void *arg, const struct store_usage *usage)
{
    *(double *)arg += usage->gpu_s;
}

static double gpu_seconds(const struct liveset *d, double now_s)
{
    double sum = 0;
    assert_int_equal(
        store_each_usage(d->store, 0, now_s, add_usage, &sum, &oops), FIRN_OK);
    return sum;
}

static void an_ended_attempt_takes_the_times_of_its_cluster(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    struct live_job *job = liveset_add(&d, "a");
    int64_t attempt = 0;
    struct store_attempt end = {.job = 1,
                                .number = 1,
                                .started_s = 100,
                                .ended_s = 200,
                                .end = FIRN_END_DONE,
                                .held = "n0[0-1]"};
    struct store_attempt times = {
        .job = 1, .number = 1, .started_s = 150, .ended_s = 201};
    book_held_next(d.book, job, "n0[0-1]", &oops);
    book_next_attempt(d.book, job, &attempt, &oops);
    book_attempt_times(d.book, &times, "ann", &oops); /* it is still open */
    book_attempt_ended(d.book, job, &end, &oops);
    assert_true(gpu_seconds(&d, 300) == 2 * 100);
    book_attempt_times(d.book, &times, "ben", &oops); /* it is ann's job */
    assert_true(gpu_seconds(&d, 300) == 2 * 100);
    assert_int_equal(book_attempt_times(d.book, &times, "ann", &oops), FIRN_OK);
    assert_true(gpu_seconds(&d, 300) == 2 * 51);
    times.started_s = times.ended_s; /* it never began */
    assert_int_equal(book_attempt_times(d.book, &times, NULL, &oops), FIRN_OK);
    assert_true(gpu_seconds(&d, 300) == 0);
    liveset_close(&d);
}

static double now_60_s(void *arg)
{
    (void)arg;
    return 60;
}

static void the_next_attempts_gpus_are_not_those_of_an_open_one(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    struct live_job *job = liveset_add(&d, "a");
    int64_t attempt = 0;
    book_clock(d.book, now_60_s, NULL);
    book_held_next(d.book, job, "n0[0]", &oops);
    book_next_attempt(d.book, job, &attempt, &oops);
    book_held_next(d.book, job, "n0[0-7]", &oops); /* its end comes late */
    assert_true(gpu_seconds(&d, 100) == 40);
    book_held(d.book, job, "n0[0-1]", &oops); /* it grew */
    assert_true(gpu_seconds(&d, 100) == 2 * 40);
    liveset_close(&d);
}

static void the_same_state_again_writes_nothing(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    struct live_job *job = liveset_add(&d, "a");
    scene_commit(d.store);
    book_state(d.book, job, LIVE_PENDING, LIVE_BECAUSE_NEW, 1, "other words",
               &oops);
    assert_false(store_has_changes(d.store));
    assert_string_equal(job->why, "other words");
    book_state(d.book, job, LIVE_PENDING, LIVE_BECAUSE_CAPACITY, 1, "2 free",
               &oops);
    assert_true(store_has_changes(d.store));
    liveset_reopen(&d);
    assert_int_equal(book_job(d.book, 1)->reason, LIVE_BECAUSE_CAPACITY);
    liveset_close(&d);
}

static void a_finished_job_cannot_be_changed(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    struct live_job *job = liveset_add(&d, "a");
    int64_t attempt = 0;
    struct firn_trainer_report report = firn_trainer_report_unknown();
    book_state(d.book, job, LIVE_LOST, LIVE_BECAUSE_VANISHED, 1, "gone", &oops);
    enum firn_status statuses[] = {
        book_state(d.book, job, LIVE_PENDING, LIVE_BECAUSE_NONE, 2, "", &oops),
        book_hold(d.book, job, true, 2, &oops),
        book_bounds(d.book, job, 1, 1, 2, &oops),
        book_priority(d.book, job, 2, 2, &oops),
        book_cancel(d.book, job, 2, "", &oops),
        book_retry(d.book, job, 2, 2, "", &oops),
        book_next_attempt(d.book, job, &attempt, &oops),
        book_report(d.book, job, 0, &report, 2, &oops)};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        assert_int_equal(statuses[i], FIRN_EINVAL);
    assert_string_equal(oops.text, "job 1 (a) is over: it was lost");
    assert_int_equal(job->state, LIVE_LOST);
    assert_int_equal(job->attempt, 0);
    liveset_close(&d);
}

static void an_attempt_is_on_disk_when_its_number_is_given_out(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    struct live_job *job = liveset_add(&d, "a");
    int64_t attempt = 0;
    for (int64_t want = 1; want <= 3; want++) {
        assert_int_equal(book_next_attempt(d.book, job, &attempt, &oops),
                         FIRN_OK);
        assert_int_equal(attempt, want);
        assert_false(store_has_changes(d.store));
        liveset_close(&d); /* without a commit */
        d = liveset_open();
        job = book_job(d.book, 1);
        assert_int_equal(job->attempt, want);
    }
    struct store_attempt end = {.job = 1,
                                .number = 2,
                                .started_s = 1,
                                .ended_s = 2,
                                .end = FIRN_END_FAILED,
                                .exit_status = 9,
                                .held = ""};
    assert_int_equal(book_attempt_ended(d.book, job, &end, &oops), FIRN_OK);
    assert_int_equal(job->exit_status, 0); /* it was not the last */
    end.number = 3;
    assert_int_equal(book_attempt_ended(d.book, job, &end, &oops), FIRN_OK);
    assert_int_equal(job->exit_status, 9);
    end.number = 4;
    assert_int_equal(book_attempt_ended(d.book, job, &end, &oops), FIRN_EINVAL);
    liveset_close(&d);
}

/* A child is killed around the commit of its start number. */
static void a_killed_daemon_never_uses_a_number_twice(void **state)
{
    (void)state;
    static const char *const points[] = {
        "book.attempt.before", "store.commit.before", "store.commit.after",
        "book.attempt.after"};
    struct liveset d = liveset_open();
    liveset_add(&d, "a");
    scene_commit(d.store);
    liveset_close(&d);
    int64_t given = 0;
    for (size_t i = 0; i < 4; i++) {
        int fd[2];
        assert_int_equal(pipe(fd), 0);
        pid_t pid = fork();
        if (pid == 0) {
            int64_t attempt = 0;
            char point[64];
            snprintf(point, sizeof point, "%s:3", points[i]);
            setenv("FIRN_FAILPOINT", point, 1);
            failpoint_state = 2; /* has to look again */
            d = liveset_open();
            while (book_next_attempt(d.book, book_job(d.book, 1), &attempt,
                                     &oops) == FIRN_OK &&
                   write(fd[1], &attempt, sizeof attempt) == sizeof attempt)
                ;
            _exit(1);
        }
        close(fd[1]);
        for (int64_t attempt = 0; read(fd[0], &attempt, sizeof attempt) > 0;) {
            assert_true(attempt > given);
            given = attempt;
        }
        close(fd[0]);
        assert_int_equal(scene_wait(pid), 128 + SIGKILL);
        d = liveset_open();
        int64_t kept = book_job(d.book, 1)->attempt;
        assert_int_equal(kept, given + (i >= 2)); /* not given out, or not */
        liveset_close(&d);
        given = kept;
    }
}

static void finished_jobs_leave_memory_and_are_read_back(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    book_keep(d.book, 3);
    char token[65];
    for (int i = 1; i <= 10; i++) {
        struct live_job *job = liveset_add(&d, "j");
        if (i == 2)
            memcpy(token, job->token, 65);
        if (i <= 8)
            book_state(d.book, job, LIVE_SUCCEEDED, LIVE_BECAUSE_NONE, i, "",
                       &oops);
    }
    assert_int_equal(book_count(d.book), 5); /* 3 that are over, 2 that live */
    assert_int_equal(book_at(d.book, 0)->id, 6);
    assert_int_equal(book_token(d.book, token), FIRN_NO_JOB);
    struct live_job *back = book_job(d.book, 2);
    assert_non_null(back);
    assert_int_equal(back->state, LIVE_SUCCEEDED);
    assert_int_equal(book_count(d.book), 6);
    assert_int_equal(book_at(d.book, 0)->id, 2);
    assert_int_equal(book_token(d.book, token), 2);
    liveset_add(&d, "one-more"); /* 6 goes, which was over before 2 came back */
    assert_int_equal(book_at(d.book, 0)->id, 2);
    assert_int_equal(book_at(d.book, 1)->id, 7);
    assert_null(book_job(d.book, 12));
    assert_null(book_job(d.book, FIRN_NO_JOB));
    liveset_reopen(&d);
    assert_int_equal(book_count(d.book), 11);
    for (int i = 0; i < 11; i++)
        assert_int_equal(book_at(d.book, (size_t)i)->id, i + 1);
    liveset_close(&d);
}

static void a_rolled_back_store_stops_the_book(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    struct live_job *job = liveset_add(&d, "a");
    scene_commit(d.store);
    struct live_job *gone = liveset_add(&d, "b");
    sqlite3_exec(d.store->db, "DELETE FROM jobs WHERE id = 2", NULL, NULL,
                 NULL);
    assert_int_equal(book_priority(d.book, gone, 7, 1, &oops), FIRN_EIO);
    assert_non_null(strstr(oops.text, "not in the file"));
    assert_int_equal(book_priority(d.book, job, 9, 1, &oops), FIRN_EIO);
    assert_int_equal(store_commit(d.store, &oops), FIRN_EIO);
    assert_int_equal(book_hold(d.book, job, true, 1, &oops), FIRN_EIO);
    assert_int_equal(store_commit(d.store, &oops), FIRN_OK); /* nothing */
    book_close(d.book);
    assert_int_equal(book_open(&d.book, d.store, &oops), FIRN_OK);
    assert_int_equal(book_count(d.book), 1);
    assert_int_equal(liveset_add(&d, "b")->id, 2);
    scene_commit(d.store);
    liveset_close(&d);
}

static void a_paused_book_takes_jobs_and_moves_none(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    book_keep(d.book, 1);
    struct live_job *jobs[10];
    for (int i = 0; i < 10; i++)
        jobs[i] = liveset_add(&d, "before");
    for (int i = 0; i < 5; i++)
        assert_int_equal(book_state(d.book, jobs[i], LIVE_CANCELLED,
                                    LIVE_BECAUSE_USER, 1, "", &oops),
                         FIRN_OK);
    book_pause(d.book);
    for (int i = 0; i < 200; i++) {
        struct live_job *job =
            liveset_submit(&d, "late", "ann", i == 0 ? "key" : NULL, NULL);
        assert_int_equal(book_count(d.book), 10);
        assert_ptr_equal(book_job(d.book, job->id), job);
        assert_int_equal(book_token(d.book, job->token), job->id);
    }
    bool is_new = true;
    assert_int_equal(liveset_submit(&d, "late", "ann", "key", &is_new)->id, 11);
    assert_false(is_new);
    for (int i = 0; i < 10; i++)
        assert_ptr_equal(book_job(d.book, i + 1), jobs[i]);
    book_resume(d.book);
    assert_int_equal(book_count(d.book), 210);
    for (size_t i = 1; i < 210; i++)
        assert_true(book_at(d.book, i - 1)->id < book_at(d.book, i)->id);
    liveset_add(&d, "behind"); /* and those that are over leave again */
    assert_int_equal(book_count(d.book), 207);
    assert_int_equal(book_at(d.book, 0)->id, 5); /* the newest that is over */
    liveset_reopen(&d);
    assert_int_equal(book_count(d.book), 211);
    liveset_close(&d);
}

static void finished_jobs_come_back_in_their_places(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    for (int i = 0; i < 60; i++) {
        struct live_job *job = liveset_add(&d, "a");
        if (i % 7 != 3 && i % 5 != 0)
            continue;
        assert_int_equal(book_state(d.book, job, LIVE_SUCCEEDED,
                                    LIVE_BECAUSE_NONE, 1, "", &oops),
                         FIRN_OK);
    }
    liveset_reopen(&d);
    assert_int_equal(book_count(d.book), 60);
    for (size_t i = 0; i < 60; i++) {
        const struct live_job *job = book_at(d.book, i);
        assert_int_equal(job->id, i + 1);
        assert_int_equal(live_state_is_over(job->state),
                         i % 7 == 3 || i % 5 == 0);
        assert_int_equal(book_token(d.book, job->token), job->id);
    }
    liveset_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_submitted_job_waits_and_has_a_token),
        CASE(a_request_makes_one_job_also_across_restarts),
        CASE(a_request_id_of_strange_letters_is_refused),
        CASE(a_job_is_found_by_number_name_and_beginning),
        CASE(digits_alone_name_a_job_by_its_number_only),
        CASE(many_names_are_not_all_listed),
        CASE(a_token_belongs_to_one_job),
        CASE(every_change_is_an_event_on_disk_and_for_the_listener),
        CASE(the_same_state_again_writes_nothing),
        CASE(a_finished_job_cannot_be_changed),
        CASE(an_attempt_is_on_disk_when_its_number_is_given_out),
        CASE(a_killed_daemon_never_uses_a_number_twice),
        CASE(finished_jobs_leave_memory_and_are_read_back),
        CASE(a_rolled_back_store_stops_the_book),
        CASE(an_ended_attempt_takes_the_times_of_its_cluster),
        CASE(the_next_attempts_gpus_are_not_those_of_an_open_one),
        CASE(a_paused_book_takes_jobs_and_moves_none),
        CASE(finished_jobs_come_back_in_their_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
