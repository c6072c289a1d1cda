/* test_api_live.c - the API beside jobs: reports, logs, events,
 * questions, metrics.
 */
#include "apiscene.h"
#include "lib/folder.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* --- reports ----------------------------------------------------------- */

static json_t *report(firn_job_id id, const char *attempt, const char *body,
                      int status)
{
    char header[300], target[64];
    snprintf(header, sizeof header, "Authorization: Bearer %s\r\n%s%s%s",
             api_job_of(id)->token, attempt ? "Firn-Epoch: " : "",
             attempt ? attempt : "", attempt ? "\r\n" : "");
    snprintf(target, sizeof target, "/jobs/%d/reports", id);
    return api_ask_with("POST", target, header, body, status);
}

static void a_report_is_answered_with_orders(void **state)
{
    (void)state;
    api_just("POST", "/v1/jobs", api_simple, 201);
    api_run_job(1);
    json_t *orders = report(1, "1", "{\"step\": 10, \"progress\": 0.25}", 200);
    api_expect(orders, "nfrozen", "3"); /* what the host said */
    json_decref(orders);
    assert_int_equal(api_scene.nreported, 1);
    api_says("GET", "/v1/jobs/1",
             "progress=0.25 report.step=10 epochs.0.epoch=1");
}

static void impossible_reports_change_nothing(void **state)
{
    (void)state;
    api_just("POST", "/v1/jobs", api_simple, 201);
    api_run_job(1);
    json_decref(report(1, "1", "{\"step\": 10, \"progress\": 0.25}", 200));
    const char *wrong[] = {"",
                           "{",
                           "{\"step\": 5, \"progress\": 0.25}",
                           "{\"step\": 11, \"progress\": 0.2}",
                           "{\"step\": 11, \"progress\": NaN}",
                           "{\"step\": 11, \"progress\": 1e999}",
                           "{\"step\": -1}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        json_decref(report(1, "1", wrong[i], 400));
    const char *attempts[] = {NULL, "", "x", "-1", "1 2"};
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++)
        json_decref(report(1, attempts[i], "{\"step\": 12}", 400));
    json_decref(report(1, "0", "{\"step\": 12}", 410));
    json_decref(report(1, "2", "{\"step\": 12}", 410));
    assert_int_equal(api_scene.nreported, 1);
    assert_int_equal(api_job_of(1)->last.step, 10);
    assert_int_equal(
        metrics_get(api_scene.metrics, METRIC_REPORTS, METRIC_REPORT_TAKEN), 1);
    assert_int_equal(
        metrics_get(api_scene.metrics, METRIC_REPORTS, METRIC_REPORT_STALE), 2);
    assert_int_equal(
        metrics_get(api_scene.metrics, METRIC_REPORTS, METRIC_REPORT_REFUSED),
        12);
}

/* --- logs -------------------------------------------------------------- */

static void write_log(const char *mode, const char *text)
{
    FILE *file = fopen(api_scene.log, mode);
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void expect_log(const char *query, const char *body, const char *header)
{
    char target[200];
    snprintf(target, sizeof target, "/v1/jobs/1/logs%s", query);
    struct reply r = caller_ask(&api_scene.caller, "GET", target, NULL, "");
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, body);
    if (header != NULL)
        assert_non_null(strstr(r.head, header));
    reply_release(&r);
}

static void logs_come_in_pieces_or_from_their_end(void **state)
{
    (void)state;
    api_just("POST", "/v1/jobs", api_simple, 201);
    expect_log("", "", NULL); /* nothing there yet */
    expect_log("?tail=3&limit=9", "", "Firn-Size: 0\r\n");
    write_log("w", "one\ntwo\nthree\n");
    expect_log("", "one\ntwo\nthree\n", NULL);
    expect_log("?offset=4&limit=3", "two", "Firn-Next-Offset: 7\r\n");
    expect_log("?offset=99&limit=3", "", "Firn-Next-Offset: 14\r\n");
    expect_log("?offset=8", "three\n", NULL);
    expect_log("?offset=99", "", NULL);
    expect_log("?tail=1", "three\n", NULL);
    expect_log("?tail=2", "two\nthree\n", NULL);
    expect_log("?tail=3", "one\ntwo\nthree\n", NULL);
    expect_log("?tail=9", "one\ntwo\nthree\n", NULL);
    expect_log("?tail=0", "", NULL);
    write_log("a", "half");
    expect_log("?tail=1", "half", NULL);
    expect_log("?tail=2", "three\nhalf", NULL);
    api_just("GET", "/v1/jobs/1/logs?offset=-1", "", 400);
    api_just("GET", "/v1/jobs/1/logs?limit=1048577", "", 400);
    api_just("GET", "/v1/jobs/2/logs", "", 404);
}

static void a_log_that_is_a_link_is_not_followed(void **state)
{
    (void)state;
    api_just("POST", "/v1/jobs", api_simple, 201);
    char secret[300];
    snprintf(secret, sizeof secret, "%s/firn.db", folder_path());
    assert_int_equal(symlink(secret, api_scene.log), 0);
    struct reply r =
        caller_ask(&api_scene.caller, "GET", "/v1/jobs/1/logs", NULL, "");
    assert_int_equal(r.status, 400);
    assert_non_null(strstr(r.body, "is a symbolic link, not a plain file"));
    reply_release(&r);
}

/* The halves of a log of which 1000 bytes were dropped. */
static void offsets_stay_when_the_oldest_bytes_are_dropped(void **state)
{
    (void)state;
    char older[400];
    static const char first[] = "firn: %d bytes of output came before this "
                                "line; this log keeps the newest 1 MiB\n";
    api_just("POST", "/v1/jobs", api_simple, 201);
    snprintf(older, sizeof older, "%s.1", api_scene.log);
    FILE *file = fopen(older, "w");
    assert_non_null(file);
    int n = fprintf(file, first, 1000);
    n += fprintf(file, "old\n");
    fclose(file);
    file = fopen(api_scene.log, "w");
    int end = 1000 + n + fprintf(file, first, 1000 + n);
    end += fprintf(file, "new\n");
    fclose(file);
    char query[64], header[64];
    snprintf(header, sizeof header, "Firn-Size: %d\r\n", end);
    expect_log("?tail=1&limit=100", "new\n", header);
    snprintf(header, sizeof header, "Firn-Next-Offset: %d\r\n", end);
    expect_log("?tail=1&limit=100", "new\n", header);
    snprintf(query, sizeof query, "?offset=%d&limit=4", 1000 + n - 4);
    expect_log(query, "old\n", "Firn-Dropped: 1000\r\n");
    expect_log("?offset=0&limit=5", "firn:", "Firn-Offset: 1000\r\n");
    expect_log("?offset=0&limit=5", "firn:", "Firn-Next-Offset: 1005\r\n");
    snprintf(query, sizeof query, "?offset=%d", end - 4);
    expect_log(query, "new\n", "Firn-Offset: ");
    struct reply r = /* both halves, one behind the other */
        caller_ask(&api_scene.caller, "GET", "/v1/jobs/1/logs", NULL, "");
    assert_int_equal(r.nbody, end - 1000);
    reply_release(&r);
    snprintf(query, sizeof query, "log.kept_bytes=%d log.dropped_bytes=1000",
             end - 1000);
    api_says("GET", "/v1/jobs/1", query);
}

static void a_removed_log_is_answered_with_410(void **state)
{
    (void)state;
    struct firn_error err;
    int64_t attempt;
    api_just("POST", "/v1/jobs", api_simple, 201);
    struct live_job *job = api_job_of(1);
    expect_log("", "", NULL);
    assert_int_equal(book_next_attempt(api_scene.book, job, &attempt, &err),
                     FIRN_OK);
    expect_log("", "", NULL); /* it is to come */
    assert_int_equal(book_state(api_scene.book, job, LIVE_FAILED,
                                LIVE_BECAUSE_EXIT, 5000, "it ended", &err),
                     FIRN_OK);
    struct reply r =
        caller_ask(&api_scene.caller, "GET", "/v1/jobs/1/logs", NULL, "");
    assert_int_equal(r.status, 410);
    assert_non_null(strstr(r.body, "the job's log was removed"));
    reply_release(&r);
    api_says("GET", "/v1/jobs/1", "log.removed=true log.kept_bytes=0");
}

static void a_long_log_comes_whole(void **state)
{
    (void)state;
    enum { LINES = 40000 };
    api_just("POST", "/v1/jobs", api_simple, 201);
    FILE *file = fopen(api_scene.log, "w");
    assert_non_null(file);
    for (int i = 0; i < LINES; i++)
        fprintf(file, "line %06d of this job's log file\n", i);
    fclose(file);
    struct reply r =
        caller_ask(&api_scene.caller, "GET", "/v1/jobs/1/logs", NULL, "");
    assert_int_equal(r.nbody, LINES * 35);
    assert_int_equal(strncmp(r.body + 35 * 31234, "line 031234 ", 12), 0);
    reply_release(&r);
    r = caller_ask(&api_scene.caller, "GET", "/v1/jobs/1/logs?tail=30000", NULL,
                   "");
    assert_int_equal(r.nbody, 30000 * 35);
    reply_release(&r);
}

static void hear(const char *text)
{
    for (int i = 0; i < 5000; i++) {
        if (strstr(api_scene.caller.in, text) != NULL)
            return;
        caller_hear(&api_scene.caller);
    }
    fail_msg("never heard '%s'", text);
}

static void a_followed_log_ends_with_its_job(void **state)
{
    (void)state;
    struct firn_error err;
    const char ask[] = "GET /v1/jobs/1/logs?follow=1 HTTP/1.1\r\nHost: x\r\n"
                       "\r\n";
    api_just("POST", "/v1/jobs", api_simple, 201);
    caller_send(&api_scene.caller, ask, sizeof ask - 1);
    hear("text/plain");
    assert_true(api_wants_tick(api_scene.api));
    write_log("w", "first");
    hear("first");
    write_log("a", "second");
    hear("second");
    write_log("w", "anew"); /* shorter: from its start */
    hear("anew");
    write_log("a", ", last");
    assert_int_equal(book_state(api_scene.book, api_job_of(1), LIVE_FAILED,
                                LIVE_BECAUSE_EXIT, 5000, "it ended", &err),
                     FIRN_OK);
    struct reply r = caller_reply(&api_scene.caller);
    assert_string_equal(r.body, "firstsecondanew, last");
    reply_release(&r);
    for (int i = 0; i < 10; i++)
        api_scene_turn(&api_scene);
    assert_false(api_wants_tick(api_scene.api));
}

/* --- events ------------------------------------------------------------ */

static void events_come_in_pages(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        api_just("POST", "/v1/jobs", api_simple, 201);
    api_just("POST", "/v1/jobs/2/hold", "", 200);
    api_says("GET", "/v1/events?limit=2",
             "events.0.id=1 events.0.kind=submitted events.1.job=2 "
             "events.2.id=- last=2");
    api_says("GET", "/v1/events?after=2",
             "events.0.job=3 events.1.kind=held last=4");
    api_says("GET", "/v1/events?job=2",
             "events.0.id=2 events.1.id=4 events.2.id=-");
    api_just("GET", "/v1/events?after=x", "", 400);
}

static void send_to_stream(struct caller *c, const char *query,
                           const char *header)
{
    char ask[300];
    *c = (struct caller){.pump = api_scene_turn, .arg = &api_scene};
    caller_open_path(c, api_scene.path);
    int n = snprintf(ask, sizeof ask,
                     "GET /v1/events%s HTTP/1.1\r\nHost: x\r\n"
                     "Accept: text/event-stream\r\n%s\r\n",
                     query, header);
    caller_send(c, ask, (size_t)n);
    caller_wait(c, 50);
}

static void await(struct caller *c, const char *text)
{
    for (int i = 0; i < 5000 && strstr(c->in, text) == NULL; i++)
        caller_hear(c);
    if (strstr(c->in, text) == NULL)
        fail_msg("never heard '%s' but '%s'", text, c->in);
}

static void an_event_stream_resumes_behind_the_last_seen_event(void **state)
{
    (void)state;
    struct caller now, then, later, one;
    for (int i = 0; i < 3; i++)
        api_just("POST", "/v1/jobs", api_simple, 201);
    send_to_stream(&now, "", "");
    send_to_stream(&then, "", "Last-Event-ID: 1\r\n");
    send_to_stream(&later, "?after=2", "");
    send_to_stream(&one, "?after=0&job=4", "");
    await(&then, "id: 3\nevent: submitted\ndata: {\"id\": 3");
    await(&later, "id: 3\n");
    api_just("POST", "/v1/jobs", api_simple, 201);
    struct caller *all[] = {&now, &then, &later, &one};
    for (int i = 0; i < 4; i++)
        await(all[i], "id: 4\n");
    assert_null(strstr(now.in, "id: 3\n"));
    assert_null(strstr(then.in, "id: 1\n"));
    assert_non_null(strstr(then.in, "id: 2\n"));
    assert_null(strstr(later.in, "id: 2\n"));
    assert_null(strstr(one.in, "id: 3\n"));
    for (int i = 0; i < 4; i++)
        caller_close(all[i]);
}

static void an_event_is_sent_after_its_commit(void **state)
{
    (void)state;
    struct caller c, late;
    struct firn_error err;
    api_just("POST", "/v1/jobs", api_simple, 201);
    send_to_stream(&c, "?after=1", "");
    api_scene.keeps_changes = true;
    assert_int_equal(book_hold(api_scene.book, api_job_of(1), true, 2000, &err),
                     FIRN_OK);
    send_to_stream(&late, "?after=0", ""); /* reads while it is not */
    await(&late, "id: 1\n");
    for (int i = 0; i < 200; i++) {
        caller_hear(&c);
        caller_hear(&late);
    }
    assert_null(strstr(c.in, "id: 2\n"));
    assert_null(strstr(late.in, "id: 2\n"));
    api_scene.keeps_changes = false;
    await(&c, "id: 2\nevent: held\n");
    await(&late, "id: 2\nevent: held\n");
    caller_close(&c);
    caller_close(&late);
}

static void many_events_reach_a_slow_reader_in_order(void **state)
{
    (void)state;
    enum { EVENTS = 3000 };
    struct firn_error err;
    struct caller c;
    for (int i = 0; i < EVENTS; i++) {
        struct store_event event = {.at_s = i,
                                    .job = FIRN_NO_JOB,
                                    .kind = "note",
                                    .text = "a \"text\"\nof two lines"};
        assert_int_equal(store_add_event(api_scene.store, &event, &err),
                         FIRN_OK);
    }
    assert_int_equal(store_commit(api_scene.store, &err), FIRN_OK);
    api_just("POST", "/v1/jobs", api_simple, 201); /* event 3001 */
    send_to_stream(&c, "?after=0", "");
    await(&c, "id: 3001\n");
    char *at = c.in;
    for (int i = 1; i <= EVENTS; i++) {
        char want[32];
        snprintf(want, sizeof want, "id: %d\n", i);
        at = strstr(at, want);
        assert_non_null(at);
    }
    assert_non_null(strstr(c.in, "\\\"text\\\"\\nof two"));
    caller_close(&c);
}

/* --- the rest ---------------------------------------------------------- */

static void why_eta_and_plan_are_answered_by_the_host(void **state)
{
    (void)state;
    api_just("POST", "/v1/jobs", api_simple, 201);
    api_says("GET", "/v1/jobs/a/why", "reason=capacity job=1");
    api_just("POST", "/v1/jobs/1/hold", "", 200);
    api_just("GET", "/v1/jobs/1/why", "", 422);
    api_just("GET", "/v1/jobs/1/eta", "", 501); /* this host has none */
    json_t *answer = api_ask("POST", "/v1/plan", api_elastic, 200);
    api_expect(answer, "gpus", "4");
    json_decref(answer);
    api_just("POST", "/v1/plan", "bogus: 1\n", 400);
    assert_int_equal(book_count(api_scene.book), 1); /* it changed nothing */
    assert_int_equal(api_scene.nasked, 3);
}

static void
metrics_have_gauges_of_now_and_counters_since_the_start(void **state)
{
    (void)state;
    api_just("POST", "/v1/jobs", api_simple, 201);
    api_just("POST", "/v1/jobs", api_simple, 201);
    api_just("POST", "/v1/jobs/2/cancel", "", 200);
    api_just("GET", "/v1/jobs/9", "", 404);
    api_just("GET", "/nothing", "", 404);
    struct caller stranger = {.pump = api_scene_turn, .arg = &api_scene};
    caller_open_port(&stranger, http_port(api_scene.http));
    struct reply refusal = caller_ask(&stranger, "GET", "/v1/jobs", NULL, "");
    assert_int_equal(refusal.status, 401);
    reply_release(&refusal);
    caller_close(&stranger);
    metrics_observe(api_scene.metrics, METRIC_ROUND_S, 0.02);
    metrics_add(api_scene.metrics, METRIC_STEPS, 0, 3);
    api_scene.is_drained = true;
    struct reply r = caller_ask(&api_scene.caller, "GET", "/metrics", NULL, "");
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.head, "application/openmetrics-text"));
    const char *lines[] = {
        "\nfirn_jobs{state=\"pending\"} 1\n",
        "\nfirn_jobs{state=\"cancelled\"} 1\n",
        "\nfirn_gpus{state=\"free\"} 1\n",
        "\nfirn_gpus{state=\"held\"} 2\n",
        "\nfirn_gpus{state=\"outside\"} 1\n",
        "\nfirn_gpus{state=\"drained\"} 8\n",
        "\nfirn_nodes{state=\"up\"} 1\n",
        "\nfirn_submits_total{result=\"new\"} 2\n",
        "\nfirn_steps_total{kind=\"start\"} 3\n",
        "\nfirn_round_seconds_bucket{le=\"0.01\"} 0\n",
        "\nfirn_round_seconds_bucket{le=\"0.03\"} 1\n",
        "\nfirn_round_seconds_bucket{le=\"+Inf\"} 1\n",
        "\nfirn_round_seconds_count 1\n",
        "\nfirn_http_requests_total{method=\"POST\",route=\"/jobs\","
        "status=\"201\"} 2\n",
        "\nfirn_http_requests_total{method=\"GET\",route=\"/jobs/:id\","
        "status=\"404\"} 1\n",
        "\nfirn_http_requests_total{method=\"other\",route=\"other\","
        "status=\"401\"} 1\n",
        "\nfirn_http_requests_total{method=\"other\",route=\"other\","
        "status=\"404\"} 1\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (strstr(r.body, lines[i]) == NULL)
            fail_msg("no line %s in %s", lines[i], r.body);
    assert_string_equal(r.body + r.nbody - 6, "# EOF\n");
    reply_release(&r);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(a_report_is_answered_with_orders),
        CASE(impossible_reports_change_nothing),
        CASE(logs_come_in_pieces_or_from_their_end),
        CASE(a_log_that_is_a_link_is_not_followed),
        CASE(offsets_stay_when_the_oldest_bytes_are_dropped),
        CASE(a_removed_log_is_answered_with_410),
        CASE(a_long_log_comes_whole),
        CASE(a_followed_log_ends_with_its_job),
        CASE(events_come_in_pages),
        CASE(an_event_stream_resumes_behind_the_last_seen_event),
        CASE(an_event_is_sent_after_its_commit),
        CASE(many_events_reach_a_slow_reader_in_order),
        CASE(why_eta_and_plan_are_answered_by_the_host),
        CASE(metrics_have_gauges_of_now_and_counters_since_the_start),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
