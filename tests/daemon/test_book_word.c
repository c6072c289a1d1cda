/* test_book_word.c - what users and trainers say of a job, taken or refused.
 */
#include "daemon/book.h"
#include "tests/daemon/storescene.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include <cmocka.h>
#include <string.h>

static void gpus_and_priorities_out_of_bounds_are_refused(void **state)
{
    (void)state;
    static const int wrong[][2] = {{0, 1}, {2, 1}, {-1, 4}, {1, 1000000}};
    struct liveset d = liveset_open();
    struct live_job *job = liveset_add(&d, "a");
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(
            book_bounds(d.book, job, wrong[i][0], wrong[i][1], 1, &oops),
            FIRN_EINVAL);
    job->ask.is_elastic = false;
    assert_int_equal(book_bounds(d.book, job, 1, 2, 1, &oops), FIRN_EINVAL);
    assert_non_null(strstr(oops.text, "is not elastic"));
    assert_int_equal(book_bounds(d.book, job, 2, 2, 1, &oops), FIRN_OK);
    assert_int_equal(book_priority(d.book, job, -1, 1, &oops), FIRN_EINVAL);
    assert_int_equal(book_priority(d.book, job, 101, 1, &oops), FIRN_EINVAL);
    assert_int_equal(book_priority(d.book, job, 100, 1, &oops), FIRN_OK);
    assert_int_equal(job->ask.gpus_max, 2);
    liveset_close(&d);
}

static void a_job_keeps_its_number_of_elastic_threads(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    struct live_job *job = liveset_add(&d, "a");
    int64_t attempt = 0;
    job->ask.is_elastic = true;
    job->ask.threads = 0;
    mem_free(job->ask.consistency);
    job->ask.consistency = mem_strdup(""); /* no 'elastic' in its file */
    assert_int_equal(book_bounds(d.book, job, 1, 4, 1, &oops), FIRN_OK);
    assert_int_equal(job->ask.threads, 0); /* none has begun */
    assert_int_equal(book_next_attempt(d.book, job, &attempt, &oops), FIRN_OK);
    assert_int_equal(book_bounds(d.book, job, 2, 2, 1, &oops), FIRN_OK);
    liveset_reopen(&d);
    job = book_job(d.book, 1);
    assert_int_equal(job->ask.threads, 4);
    assert_int_equal(book_bounds(d.book, job, 1, 5, 1, &oops), FIRN_OK);
    assert_int_equal(book_bounds(d.book, job, 1, 4, 1, &oops), FIRN_OK);
    assert_int_equal(job->ask.threads, 5);
    mem_free(job->ask.consistency);
    job->ask.consistency = mem_strdup("D1");
    assert_int_equal(book_bounds(d.book, job, 1, 6, 1, &oops), FIRN_EINVAL);
    assert_non_null(strstr(oops.text, "5 elastic threads"));
    assert_int_equal(job->ask.gpus_max, 4);
    liveset_close(&d);
}

static void a_retry_makes_the_job_pending_with_more_memory(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    struct live_job *job = liveset_add(&d, "a");
    book_state(d.book, job, LIVE_RUNNING, LIVE_BECAUSE_NONE, 1, "", &oops);
    assert_int_equal(book_retry(d.book, job, 24, 2, "out of memory", &oops),
                     FIRN_OK);
    liveset_reopen(&d);
    job = book_job(d.book, 1);
    assert_int_equal(job->state, LIVE_PENDING);
    assert_int_equal(job->reason, LIVE_BECAUSE_RETRY);
    assert_int_equal(job->nretries, 1);
    assert_true(job->ask.mem_gib == 24);
    assert_int_equal(book_retry(d.book, job, 0, 2, "again", &oops), FIRN_OK);
    assert_true(job->ask.mem_gib == 24);
    liveset_close(&d);
}

static void impossible_reports_are_refused_and_change_nothing(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    struct live_job *job = liveset_add(&d, "a");
    int64_t attempt = 0;
    struct firn_trainer_report good = firn_trainer_report_unknown();
    double variance[LIVE_LAYERS + 1] = {0};
    book_next_attempt(d.book, job, &attempt, &oops);
    book_next_attempt(d.book, job, &attempt, &oops);
    good.progress = 0.5;
    good.step = 100;
    assert_int_equal(book_report(d.book, job, 2, &good, 7, &oops), FIRN_OK);
    scene_commit(d.store);
    struct firn_trainer_report wrong[10];
    for (int i = 0; i < 10; i++)
        wrong[i] = good;
    wrong[0].progress = 0.4;
    wrong[1].progress = -0.5;
    wrong[2].progress = NAN;
    wrong[3].progress = 1.5;
    wrong[4].step = 99;
    wrong[5].step_s = INFINITY;
    wrong[6].part_s[FIRN_STEP_REDUCE] = -3;
    wrong[7].loss = NAN;
    wrong[8].variance = variance;
    wrong[8].nlayers = LIVE_LAYERS + 1;
    wrong[9].variance = variance;
    wrong[9].nlayers = 3;
    variance[2] = INFINITY;
    for (int i = 0; i < 10; i++)
        assert_int_equal(book_report(d.book, job, 2, &wrong[i], 8, &oops),
                         FIRN_EINVAL);
    assert_int_equal(book_report(d.book, job, 1, &good, 8, &oops), FIRN_EINVAL);
    assert_string_equal(oops.text, "a report of attempt 1 of job 1, which is "
                                   "in its attempt 2");
    assert_int_equal(book_report(d.book, job, 3, &good, 8, &oops), FIRN_EINVAL);
    assert_false(store_has_changes(d.store));
    assert_true(job->last.progress == 0.5 && job->reported_s == 7);
    book_report(d.book, job, 2, &wrong[0], 8, &oops);
    assert_string_equal(oops.text, "a report's progress fell from 0.5 to 0.4");
    liveset_close(&d);
}

static void progress_may_fall_from_one_attempt_to_the_next(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    struct live_job *job = liveset_add(&d, "a");
    int64_t attempt = 0;
    double variance[] = {1, 2, 3};
    struct firn_trainer_report report = firn_trainer_report_unknown();
    report.progress = 0.5;
    report.step = 50;
    report.variance = variance;
    report.nlayers = 3;
    book_next_attempt(d.book, job, &attempt, &oops);
    assert_int_equal(book_report(d.book, job, 1, &report, 7, &oops), FIRN_OK);
    liveset_reopen(&d);
    job = book_job(d.book, 1);
    assert_true(job->last.variance == job->variance && job->variance[2] == 3);
    report.progress = 0.4; /* the same start, also after a restart of ours */
    assert_int_equal(book_report(d.book, job, 1, &report, 8, &oops),
                     FIRN_EINVAL);
    book_next_attempt(d.book, job, &attempt, &oops);
    report.step = 40;
    report.variance = NULL;
    assert_int_equal(book_report(d.book, job, 2, &report, 9, &oops), FIRN_OK);
    assert_null(job->last.variance);
    report = firn_trainer_report_unknown(); /* knows nothing */
    assert_int_equal(book_report(d.book, job, 2, &report, 9, &oops), FIRN_OK);
    assert_true(job->last.progress == 0.4 && job->last.step == 40);
    liveset_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(gpus_and_priorities_out_of_bounds_are_refused),
        CASE(a_job_keeps_its_number_of_elastic_threads),
        CASE(a_retry_makes_the_job_pending_with_more_memory),
        CASE(impossible_reports_are_refused_and_change_nothing),
        CASE(progress_may_fall_from_one_attempt_to_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
