/* test_api.c - jobs on the API, and who may call what.
 *
 * Whether an answer waits for its commit is seen by leaving the commit out.
 */
#include "apiscene.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* --- jobs -------------------------------------------------------------- */

static void a_submit_is_answered_after_its_commit(void **state)
{
    (void)state;
    char text[300];
    api_scene.keeps_changes = true;
    int n = snprintf(text, sizeof text,
                     "POST /v1/jobs HTTP/1.1\r\nHost: x\r\n"
                     "Content-Length: %zu\r\n\r\n%s",
                     strlen(api_simple), api_simple);
    caller_send(&api_scene.caller, text, (size_t)n);
    for (int i = 0; i < 200; i++)
        caller_hear(&api_scene.caller);
    assert_true(api_is_waiting(api_scene.api));
    assert_int_equal(book_count(api_scene.book), 1);
    assert_int_equal(api_scene.caller.n, 0);
    api_scene.keeps_changes = false;
    struct reply r = caller_reply(&api_scene.caller);
    assert_int_equal(r.status, 201);
    assert_non_null(strstr(r.body, "\"name\": \"a\""));
    reply_release(&r);
    assert_false(api_is_waiting(api_scene.api));
    assert_int_equal(api_scene.nchanged, 1);
}

static void a_failed_commit_is_answered_with_an_error(void **state)
{
    (void)state;
    char text[300];
    api_scene.keeps_changes = true;
    int n = snprintf(text, sizeof text,
                     "POST /v1/jobs HTTP/1.1\r\nHost: x\r\n"
                     "Content-Length: %zu\r\n\r\n%s",
                     strlen(api_simple), api_simple);
    caller_send(&api_scene.caller, text, (size_t)n);
    while (!api_is_waiting(api_scene.api))
        caller_hear(&api_scene.caller);
    struct firn_error err;
    firn_fail(&err, FIRN_EIO, "the disk is full");
    store_rollback(api_scene.store);
    api_settle(api_scene.api, FIRN_EIO, &err);
    struct reply r = caller_reply(&api_scene.caller);
    assert_int_equal(r.status, 500);
    assert_non_null(strstr(r.body, "the disk is full"));
    reply_release(&r);
    json_t *health = api_ask("GET", "/health", "", 503);
    api_expect(health, "error.code", "store-failed");
    json_decref(health);
}

static void the_same_request_id_makes_one_job(void **state)
{
    (void)state;
    const char *names[] = {"Idempotency-Key: k1\r\n", "Request-Id: k1\r\n"};
    json_t *first = api_ask_with("POST", "/v1/jobs", names[0], api_simple, 201);
    api_expect(first, "id", "1");
    for (int i = 0; i < 2; i++) {
        json_t *again =
            api_ask_with("POST", "/v1/jobs", names[i], api_simple, 200);
        api_expect(again, "id", "1");
        json_decref(again);
    }
    json_t *other =
        api_ask_with("POST", "/v1/jobs", names[0], api_elastic, 409);
    api_expect(other, "error.code", "key-used");
    json_decref(other);
    json_t *new =
        api_ask_with("POST", "/v1/jobs", "Request-Id: k2\r\n", api_simple, 201);
    api_expect(new, "id", "2");
    json_decref(new);
    assert_int_equal(book_count(api_scene.book), 2);
    assert_int_equal(api_scene.nchanged, 2);
    char longer[300] = "Request-Id: ";
    memset(longer + 12, 'k', 200);
    memcpy(longer + 212, "\r\n", 3);
    json_decref(api_ask_with("POST", "/v1/jobs", longer, api_simple, 400));
    assert_int_equal(metrics_get(api_scene.metrics, METRIC_SUBMITS, 0), 2);
    assert_int_equal(metrics_get(api_scene.metrics, METRIC_SUBMITS, 1), 2);
    assert_int_equal(metrics_get(api_scene.metrics, METRIC_SUBMITS, 2), 2);
    json_decref(first);
}

static void a_job_file_may_be_json(void **state)
{
    (void)state;
    const char json[] = "{\"name\":\"\\u0061b\",\"run\":[\"echo\",\"a\\/b\","
                        "\"\\ud83d\\ude00\"],\n\t\"gpus\":\"1..4\","
                        "\"elastic\":{\"consistency\":\"D1\"}}";
    const char type[] = "Content-Type: application/json\r\n";
    json_t *job = api_ask_with("POST", "/jobs", type, json, 201);
    api_expect(job, "name", "ab");
    api_expect(job, "gpus_min", "1");
    api_expect(job, "gpus_max", "4");
    json_decref(job);
    job = api_ask("GET", "/jobs/ab", "", 200);
    api_expect(job, "ask.run.1", "a/b");
    api_expect(job, "ask.run.2", "\xf0\x9f\x98\x80");
    api_expect(job, "file", json);
    json_decref(job);
    json_decref(
        api_ask_with("POST", "/jobs", type, "{\"name\":1,\"name\":2}", 400));
    json_decref(api_ask_with("POST", "/jobs", type, "{", 400));
}

static void a_wrong_job_file_is_refused_with_its_line(void **state)
{
    (void)state;
    json_t *error = api_ask("POST", "/v1/jobs",
                            "name: a\nrun: [x]\ngpus: 1\nbogus: 2\n", 400);
    assert_non_null(strstr(api_at(error, "error.text"), "4"));
    assert_non_null(strstr(api_at(error, "error.text"), "bogus"));
    json_decref(error);
    api_just("POST", "/v1/jobs", "", 400);
    struct reply r = caller_ask(&api_scene.caller, "POST", "/v1/jobs",
                                "Content-Type: application/yaml\r\n",
                                "name: \"a\x1b[31m\"\nrun: [x]\ngpus: 1\n");
    assert_int_equal(r.status, 400);
    assert_null(strchr(r.body, 0x1b));
    reply_release(&r);
    assert_int_equal(book_count(api_scene.book), 0);
}

static void jobs_are_shown_without_their_tokens(void **state)
{
    (void)state;
    api_just("POST", "/v1/jobs", api_simple, 201);
    const char *names[] = {"/v1/jobs/1", "/jobs/1", "/v1/jobs/a"};
    for (int i = 0; i < 3; i++) {
        struct reply r =
            caller_ask(&api_scene.caller, "GET", names[i], NULL, "");
        assert_int_equal(r.status, 200);
        assert_null(strstr(r.body, api_job_of(1)->token));
        assert_non_null(strstr(r.body, "\"state\": \"pending\""));
        assert_non_null(strstr(r.body, "\"reason\": \"new\""));
        reply_release(&r);
    }
    api_just("GET", "/v1/jobs/2", "", 404);
    api_just("GET", "/v1/jobs/%27%3b--", "", 404);
    api_just("GET", "/v1/jobs/-1", "", 404);
}

/* As JSON does; the parser would refuse them bare. */
static void line_breaks_of_a_job_come_back_escaped(void **state)
{
    (void)state;
    api_just("POST", "/v1/jobs",
             "{\"run\": [\"sh\", \"a\\n\\tb\"], \"env\": {\"X\": \"c\\nd\"}}",
             201);
    json_t *job = api_ask("GET", "/v1/jobs/1", "", 200);
    api_expect(job, "ask.run.1", "a\n\tb");
    api_expect(job, "ask.env.0", "X=c\nd");
    json_decref(job);
}

static void lists_have_pages_and_filters(void **state)
{
    (void)state;
    for (int i = 0; i < 7; i++)
        api_just("POST", "/v1/jobs", api_simple, 201);
    api_just("POST", "/v1/jobs/3/cancel", "", 200);
    api_says("GET", "/v1/jobs?limit=3",
             "jobs.2.id=3 jobs.2.state=cancelled jobs.3.id=- next=3");
    api_says("GET", "/v1/jobs?limit=4&after=3",
             "jobs.0.id=4 jobs.3.id=7 next=-");
    api_says("GET", "/v1/jobs?state=cancelled,failed",
             "jobs.0.id=3 jobs.1.id=-");
    api_says("GET", "/v1/jobs?all=1&state=pending&after=5",
             "jobs.0.id=6 jobs.1.id=7 jobs.2.id=-");
    api_says("GET", "/v1/jobs?user=unknown", "jobs.0.id=-");
    api_says("GET", "/v1/jobs?pending=2",
             "jobs.1.id=2 jobs.2.id=3 jobs.2.state=cancelled jobs.3.id=- "
             "pending_left=0 pending_more=4 next=-");
    api_says("GET", "/v1/jobs?pending=5&limit=2",
             "jobs.1.id=2 next=2 pending_left=3 pending_more=0");
    const char *wrong[] = {
        "state=bogus", "limit=-1", "limit=1x",  "limit=100001",
        "after=",      "all=2",    "pending=x", "after=99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char target[100];
        snprintf(target, sizeof target, "/v1/jobs?%s", wrong[i]);
        api_just("GET", target, "", 400);
    }
}

static void jobs_are_cancelled_held_released_and_changed(void **state)
{
    (void)state;
    api_just("POST", "/v1/jobs", api_elastic, 201);
    api_says("POST", "/v1/jobs/1/hold", "held=true");
    api_just("POST", "/v1/jobs/1/hold", "", 200); /* twice is once */
    api_says("POST", "/v1/jobs/e/release", "held=false");
    json_t *job =
        api_ask("PATCH", "/v1/jobs/1",
                "{\"gpus\": {\"min\": 2, \"max\": 6}, \"priority\": 70}", 200);
    api_expect(job, "gpus_min", "2");
    api_expect(job, "gpus_max", "6");
    api_expect(job, "priority", "70");
    json_decref(job);
    assert_int_equal(api_scene.nchanged, 5);
    api_says("POST", "/v1/jobs/1/cancel", "state=cancelled");
    assert_int_equal(api_scene.ncancelled, 1);
    const char *changes[] = {"cancel", "hold", "release"};
    for (int i = 0; i < 3; i++) {
        char target[100];
        snprintf(target, sizeof target, "/v1/jobs/1/%s", changes[i]);
        api_just("POST", target, "", 409);
    }
    api_just("PATCH", "/v1/jobs/1", "{\"priority\": 1}", 409);
    api_just("POST", "/v1/jobs/5/cancel", "", 404);
}

static void a_job_may_be_held_from_the_start(void **state)
{
    (void)state;
    json_t *job = api_ask("POST", "/v1/jobs?hold=1", api_simple, 201);
    api_expect(job, "held", "true");
    json_decref(job);
    api_just("POST", "/v1/jobs?hold=2", api_simple, 400);
    assert_int_equal(book_count(api_scene.book), 1);
}

static void a_job_that_runs_is_cancelled_once(void **state)
{
    (void)state;
    api_just("POST", "/v1/jobs", api_simple, 201);
    api_run_job(1);
    for (int i = 0; i < 2; i++) {
        json_t *job = api_ask("POST", "/v1/jobs/1/cancel", "", 200);
        api_expect(job, "state", "running");
        api_expect(job, "ending", "true");
        json_decref(job);
    }
    assert_int_equal(api_scene.ncancelled, 1);
}

static void an_invalid_change_changes_nothing(void **state)
{
    (void)state;
    api_just("POST", "/v1/jobs", api_simple, 201); /* not elastic */
    int priority = api_job_of(1)->ask.priority;
    const char *wrong[] = {
        "",
        "[]",
        "{}",
        "{\"gpus\": 0}",
        "{\"gpus\": 1.5}",
        "{\"gpus\": \"1..2\"}",
        "{\"gpus\": {\"min\": 3, \"max\": 2}}",
        "{\"gpus\": {\"min\": 1, \"most\": 2}}",
        "{\"priority\": 5, \"gpus\": {\"min\": 1, \"max\": 2}}",
        "{\"priority\": 101}",
        "{\"priority\": -1}",
        "{\"priority\": null}",
        "{\"priority\": 1, \"priority\": 2}",
        "{\"state\": \"succeeded\"}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        api_just("PATCH", "/v1/jobs/1", wrong[i], 400);
    assert_int_equal(api_job_of(1)->ask.gpus_max, 2);
    assert_int_equal(api_job_of(1)->ask.priority, priority);
    assert_int_equal(api_scene.nchanged, 1);
}

/* --- rights ------------------------------------------------------------ */

/* A path of the table with something in place of ":id". */
static void target_of(const struct api_route *route, const char *word,
                      char out[200])
{
    const char *colon = strchr(route->path, ':');
    if (colon == NULL)
        snprintf(out, 200, "/v1%s", route->path);
    else
        snprintf(out, 200, "/v1%.*s%s%s", (int)(colon - route->path),
                 route->path, word, colon + strcspn(colon, "/"));
}

static int status_of(struct caller *caller, const struct api_route *route,
                     const char *word, const char *header)
{
    char target[200];
    target_of(route, word, target);
    struct reply r = caller_ask(caller, route->method, target, header, "");
    int status = r.status;
    reply_release(&r);
    return status;
}

static void every_route_refuses_unknown_callers(void **state)
{
    (void)state;
    size_t n;
    const struct api_route *routes = api_routes(&n);
    const char *headers[] = {NULL,
                             "Authorization: Bearer wrong-token-16-16\r\n"};
    api_just("POST", "/v1/jobs", api_simple, 201);
    assert_true(n > 15);
    for (size_t i = 0; i < 2 * n; i++) {
        if (routes[i / 2].right == ACCESS_RIGHT_OPEN)
            continue;
        struct caller c = {.pump = api_scene_turn, .arg = &api_scene};
        caller_open_port(&c, http_port(api_scene.http));
        assert_int_equal(status_of(&c, &routes[i / 2], "1", headers[i % 2]),
                         401);
        caller_close(&c);
    }
    assert_int_equal(book_count(api_scene.book), 1);
    assert_false(api_job_of(1)->is_ending || api_job_of(1)->is_held);
}

static void a_job_may_only_report_for_itself(void **state)
{
    (void)state;
    size_t n;
    const struct api_route *routes = api_routes(&n);
    char own[200];
    struct caller tcp = {.pump = api_scene_turn, .arg = &api_scene};
    caller_open_port(&tcp, http_port(api_scene.http));
    api_just("POST", "/v1/jobs", api_simple, 201);
    api_just("POST", "/v1/jobs", api_simple, 201);
    snprintf(own, sizeof own, "Authorization: Bearer %s\r\n",
             api_job_of(1)->token);
    for (size_t i = 0; i < n; i++) {
        int own_job = status_of(&api_scene.caller, &routes[i], "1", own);
        int other_job = status_of(&api_scene.caller, &routes[i], "2", own);
        int operators = 0;
        assert_int_equal(status_of(&tcp, &routes[i], "1", own), own_job);
        assert_int_equal(status_of(&tcp, &routes[i], "2", own), other_job);
        if (routes[i].right == ACCESS_RIGHT_REPORT) {
            assert_int_equal(own_job, 400); /* reached; an empty report */
            assert_int_equal(other_job, 403);
            operators = status_of(&api_scene.caller, &routes[i], "1", NULL);
            assert_int_equal(operators, 403);
            assert_int_equal(status_of(&api_scene.caller, &routes[i], "a", own),
                             403);
        } else if (routes[i].right == ACCESS_RIGHT_ANYONE ||
                   routes[i].right == ACCESS_RIGHT_METRICS) {
            assert_int_equal(own_job, 200);
        } else if (routes[i].right != ACCESS_RIGHT_OPEN) {
            assert_int_equal(own_job, 403);
            assert_int_equal(other_job, 403);
        }
    }
    caller_close(&tcp);
    assert_int_equal(book_count(api_scene.book), 2);
    assert_false(api_job_of(1)->is_ending || api_job_of(2)->is_held);
}

static void
a_job_file_without_workdir_runs_in_the_submitters_directory(void **state)
{
    (void)state;
    static const char own[] = "run: [/bin/true]\nworkdir: /own\n";
    api_just("POST", "/v1/jobs?workdir=%2Fhome%2Fann%20b", api_simple, 201);
    assert_string_equal(api_job_of(1)->ask.workdir, "/home/ann b");
    api_just("POST", "/v1/jobs?workdir=/home", own, 201);
    assert_string_equal(api_job_of(2)->ask.workdir, "/own");
    api_just("POST", "/v1/jobs", api_simple, 201);
    assert_string_equal(api_job_of(3)->ask.workdir, "");
    api_just("POST", "/v1/jobs?workdir=home", api_simple, 400);
    api_just("POST", "/v1/jobs?workdir=%2Fa%0Ab", api_simple, 400);
    assert_int_equal(book_count(api_scene.book), 3);
}

static void unknown_paths_and_methods_are_told_apart(void **state)
{
    (void)state;
    api_just("GET", "/v1/nothing", "", 404);
    api_just("GET", "/v1", "", 404);
    api_just("GET", "/v1/jobs/", "", 404);
    api_just("GET", "/v1/jobs/1/logs/x", "", 404);
    api_just("DELETE", "/v1/jobs/1", "", 405);
    struct reply r = caller_ask(&api_scene.caller, "PUT", "/v1/jobs", NULL, "");
    assert_int_equal(r.status, 405);
    assert_non_null(strstr(r.head, "Allow: POST, GET\r\n"));
    reply_release(&r);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(a_submit_is_answered_after_its_commit),
        CASE(a_failed_commit_is_answered_with_an_error),
        CASE(the_same_request_id_makes_one_job),
        CASE(a_job_file_may_be_json),
        CASE(a_wrong_job_file_is_refused_with_its_line),
        CASE(jobs_are_shown_without_their_tokens),
        CASE(line_breaks_of_a_job_come_back_escaped),
        CASE(lists_have_pages_and_filters),
        CASE(jobs_are_cancelled_held_released_and_changed),
        CASE(a_job_may_be_held_from_the_start),
        CASE(a_job_that_runs_is_cancelled_once),
        CASE(an_invalid_change_changes_nothing),
        CASE(every_route_refuses_unknown_callers),
        CASE(a_job_may_only_report_for_itself),
        CASE(a_job_file_without_workdir_runs_in_the_submitters_directory),
        CASE(unknown_paths_and_methods_are_told_apart),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
