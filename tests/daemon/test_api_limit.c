/* test_api_limit.c - what a user or a trainer can ask for without end has a
 * limit: jobs in the queue, reports a second, reports on disk.
 */
#include "apiscene.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* --- jobs ---------------------------------------------------------------- */

static void above_the_limit_a_submit_is_refused_until_a_job_ends(void **state)
{
    (void)state;
    static const char key[] = "Idempotency-Key: k1\r\n";
    book_limits(api_scene.book, 3, 0);
    json_decref(api_ask_with("POST", "/jobs", key, api_simple, 201));
    api_just("POST", "/jobs", api_elastic, 201);
    api_just("POST", "/jobs", api_elastic, 201);
    struct reply r =
        caller_ask(&api_scene.caller, "POST", "/jobs", NULL, api_simple);
    assert_int_equal(r.status, 429);
    assert_non_null(strstr(r.body, "3 jobs wait or run"));
    assert_non_null(strstr(r.body, "jobs-max"));
    assert_non_null(strstr(r.head, "Retry-After: 60"));
    reply_release(&r);
    /* What was taken before is answered as before. */
    json_decref(api_ask_with("POST", "/jobs", key, api_simple, 200));
    api_just("POST", "/jobs/1/cancel", "", 200);
    api_just("POST", "/jobs", api_simple, 201);
    api_just("POST", "/jobs", api_simple, 429);
    assert_true(metrics_get(api_scene.metrics, METRIC_REFUSALS,
                            HTTP_REFUSED_RATE) == 2);
}

static void a_user_has_a_limit_of_its_own(void **state)
{
    (void)state;
    char header[128];
    struct caller c = {.pump = api_scene_turn, .arg = &api_scene};
    book_limits(api_scene.book, 0, 2);
    for (int i = 0; i < 2; i++)
        api_just("POST", "/jobs", api_simple, 201);
    json_t *said = api_ask("POST", "/jobs", api_simple, 429);
    assert_non_null(strstr(api_at(said, "error.text"), "user-jobs-max"));
    json_decref(said);
    /* Another user: over TCP that is the token. */
    snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", api_token);
    caller_open_port(&c, http_port(api_scene.http));
    for (int i = 0; i < 3; i++) {
        struct reply r = caller_ask(&c, "POST", "/jobs", header, api_simple);
        assert_int_equal(r.status, i < 2 ? 201 : 429);
        reply_release(&r);
    }
    caller_close(&c);
}

static void the_limit_holds_over_a_restart(void **state)
{
    (void)state;
    struct firn_error err;
    struct book *again = NULL;
    api_just("POST", "/jobs", api_simple, 201);
    api_just("POST", "/jobs", api_simple, 201);
    api_just("POST", "/jobs/1/cancel", "", 200); /* over: does not count */
    assert_int_equal(book_open(&again, api_scene.store, &err), FIRN_OK);
    book_limits(again, 2, 0);
    for (int i = 0; i < 2; i++) {
        struct live_ask ask = {.gpus_min = 1, .gpus_max = 1};
        struct live_job *job;
        bool is_new;
        assert_int_equal(
            book_submit(again, &ask, "", "", 1, &job, &is_new, &err),
            i == 0 ? FIRN_OK : FIRN_ELIMIT);
        live_ask_release(&ask);
    }
    book_close(again);
}

/* --- reports ------------------------------------------------------------- */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int report(void)
{
    char header[300];
    snprintf(header, sizeof header,
             "Authorization: Bearer %s\r\nFirn-Epoch: 1\r\n",
             api_job_of(1)->token);
    struct reply r = caller_ask(&api_scene.caller, "POST", "/jobs/1/reports",
                                header, "{\"step\": 10, \"progress\": 0.5}");
    int status = r.status;
    assert_true((status == 429) == (strstr(r.head, "Retry-After: 1") != NULL));
    reply_release(&r);
    return status;
}

static void a_job_that_reports_too_often_is_told_to_wait(void **state)
{
    (void)state;
    api_just("POST", "/jobs", api_simple, 201);
    api_run_job(1);
    double began_s = now_s();
    int ntaken = 0;
    while (report() == 200)
        ntaken++;
    /* 200 at once and 10 a second, however slow this machine is. */
    assert_true(ntaken >= 200);
    assert_true(ntaken <= 201 + 10 * (now_s() - began_s));
    int status = 429;
    while (status == 429 && now_s() < began_s + 120)
        status = report();
    assert_int_equal(status, 200);
    assert_int_equal(api_job_of(1)->nreports, ntaken + 1);
}

struct kept {
    int n;
    uint64_t steps[4000];
};

static bool keep(void *arg, int64_t attempt, double at_s,
                 const struct firn_trainer_report *one)
{
    struct kept *kept = arg;
    (void)attempt, (void)at_s;
    assert_true(kept->n < 4000);
    kept->steps[kept->n++] = one->step;
    return true;
}

static void old_reports_are_thinned_and_new_ones_are_whole(void **state)
{
    (void)state;
    enum { REPORTS = 9000 };
    static struct kept kept;
    struct firn_error err;
    struct firn_trainer_report one = firn_trainer_report_unknown();
    api_just("POST", "/jobs", api_simple, 201);
    api_run_job(1);
    struct live_job *job = api_job_of(1);
    for (int i = 1; i <= REPORTS; i++) {
        one.step = (uint64_t)i;
        one.progress = 0.0001 * i;
        if (i == REPORTS / 2)
            job->nreports = 0; /* as after a restart: counted again */
        assert_int_equal(book_report(api_scene.book, job, 1, &one, i, &err),
                         FIRN_OK);
    }
    assert_int_equal(store_commit(api_scene.store, &err), FIRN_OK);
    kept.n = 0;
    assert_int_equal(store_each_report(api_scene.store, 1, keep, &kept, &err),
                     FIRN_OK);
    assert_true(kept.n <= STORE_REPORTS_MOST);
    assert_int_equal(kept.n, job->nreports);
    assert_int_equal(kept.steps[0], 1);
    for (int i = 0; i < STORE_REPORTS_MOST / 2; i++)
        assert_int_equal(kept.steps[kept.n - 1 - i], REPORTS - i);
    for (int i = 1; i < kept.n; i++)
        assert_true(kept.steps[i] > kept.steps[i - 1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(above_the_limit_a_submit_is_refused_until_a_job_ends),
        CASE(a_user_has_a_limit_of_its_own),
        CASE(the_limit_holds_over_a_restart),
        CASE(a_job_that_reports_too_often_is_told_to_wait),
        CASE(old_reports_are_thinned_and_new_ones_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
