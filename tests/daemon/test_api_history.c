/* test_api_history.c - the past over the API: events backwards, spans of GPUs,
 * reports of a job, and jobs from the newest on.
 */
#include "apiscene.h"
#include "base/buf.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The numbers `key` of all members of a list: "3 2 1". */
static const char *numbers(const json_t *root, const char *list,
                           const char *key)
{
    static char out[512];
    size_t n = 0;
    const json_t *items = json_object_get(root, list);
    out[0] = '\0';
    for (size_t i = 0; i < json_array_size(items); i++)
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%s", n > 0 ? " " : "",
                              api_at(json_array_get(items, i), key));
    return out;
}

static void expect_numbers(const char *target, const char *list,
                           const char *key, const char *want, const char *next)
{
    json_t *page = api_ask("GET", target, "", 200);
    assert_string_equal(numbers(page, list, key), want);
    api_expect(page, "next", next);
    json_decref(page);
}

static void events_are_read_backwards_in_pages(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        api_just("POST", "/jobs", api_simple, 201);
    api_just("POST", "/jobs/2/hold", "", 200);
    api_just("POST", "/jobs/2/release", "", 200);
    expect_numbers("/events?newest=1&limit=2", "events", "id", "5 4", "4");
    expect_numbers("/events?before=4&limit=2", "events", "id", "3 2", "2");
    expect_numbers("/events?before=2&limit=2", "events", "id", "1", "-");
    expect_numbers("/events?newest=1&kind=submitted", "events", "id", "3 2 1",
                   "-");
    expect_numbers("/events?newest=1&job=2", "events", "id", "5 4 2", "-");
    expect_numbers("/events?newest=1&limit=0", "events", "id", "", "-");
    expect_numbers("/events?before=0", "events", "id", "", "-");
    expect_numbers("/events?after=3", "events", "id", "4 5", "-");
    api_just("GET", "/events?before=x", "", 400);
}

static void jobs_are_listed_from_the_newest_on(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        api_just("POST", "/jobs", api_simple, 201);
    api_just("POST", "/jobs/4/cancel", "", 200);
    expect_numbers("/jobs?newest=1&limit=2", "jobs", "id", "5 4", "4");
    expect_numbers("/jobs?before=4&limit=2", "jobs", "id", "3 2", "2");
    expect_numbers("/jobs?before=2", "jobs", "id", "1", "-");
    expect_numbers("/jobs?newest=1&state=cancelled", "jobs", "id", "4", "-");
    expect_numbers("/jobs?limit=2", "jobs", "id", "1 2", "2");
}

/* --- spans ---------------------------------------------------------------- */

static void hold(firn_job_id id, double at_s, const char *gpus)
{
    struct firn_error err;
    api_scene.now_s = at_s;
    assert_int_equal(book_held(api_scene.book, api_job_of(id), gpus, &err),
                     FIRN_OK);
}

static double scene_now(void *arg)
{
    return ((const struct api_scene *)arg)->now_s;
}

/* "1:1000-1200 zero[0]; ..." from there on; an open span ends with "now". */
static const char *spans(int since_s)
{
    static char out[1024];
    char target[64];
    size_t n = 0;
    snprintf(target, sizeof target, "/history?since_s=%d", since_s);
    json_t *page = api_ask("GET", target, "", 200);
    const json_t *list = json_object_get(page, "spans");
    out[0] = '\0';
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *span = json_array_get(list, i);
        const json_t *to = json_array_get(span, 2);
        n += (size_t)snprintf(
            out + n, sizeof out - n, "%s%lld:%.0f-", i > 0 ? "; " : "",
            (long long)json_integer_value(json_array_get(span, 0)),
            json_number_value(json_array_get(span, 1)));
        n += (size_t)(json_is_null(to)
                          ? snprintf(out + n, sizeof out - n, "now ")
                          : snprintf(out + n, sizeof out - n, "%.0f ",
                                     json_number_value(to)));
        n += (size_t)snprintf(out + n, sizeof out - n, "%s",
                              json_string_value(json_array_get(span, 3)));
    }
    json_decref(page);
    return out;
}

static void spans_come_from_changes_and_from_attempts_before(void **state)
{
    (void)state;
    struct firn_error err;
    int64_t attempt;
    book_clock(api_scene.book, scene_now, &api_scene);
    api_just("POST", "/jobs", api_simple, 201);
    api_just("POST", "/jobs", api_elastic, 201);
    hold(1, 2000, "n0[0-1]");
    assert_int_equal(
        book_next_attempt(api_scene.book, api_job_of(1), &attempt, &err),
        FIRN_OK);
    hold(2, 2100, "n1[0]");
    hold(2, 2200, "n1[0-3]");
    hold(1, 2300, "-");
    assert_string_equal(spans(1500), "1:2000-2300 zero[0-1]; 2:2100-2200 n1[0];"
                                     " 2:2200-now n1[0-3]");
    /* Job 1 held its GPUs when this window opened; job 2 holds them still. */
    const char *later = spans(2250);
    assert_memory_equal(later, "1:2000-2300 zero[0-1]; 2:", 25);
    assert_non_null(strstr(later, "-now n1[0-3]"));
}

static void a_window_without_changes_shows_what_is_held(void **state)
{
    (void)state;
    book_clock(api_scene.book, scene_now, &api_scene);
    api_just("POST", "/jobs", api_simple, 201);
    api_run_job(1);
    hold(1, 2000, "n0[0-1]");
    const char *shown = spans(3000);
    assert_non_null(strstr(shown, "-now zero[0-1]"));
    json_t *page = api_ask("GET", "/history?since_s=3000", "", 200);
    assert_string_equal(numbers(page, "jobs", "name"), "a");
    json_decref(page);
    api_just("GET", "/history?since_s=-1", "", 400);
}

/* --- reports ---------------------------------------------------------------
 */

static void report(firn_job_id id, const char *body)
{
    char target[64], headers[256];
    const struct live_job *job = api_job_of(id);
    snprintf(target, sizeof target, "/jobs/%d/reports", id);
    snprintf(headers, sizeof headers,
             "Authorization: Bearer %s\r\nFirn-Attempt: %lld\r\n", job->token,
             (long long)job->attempt);
    json_decref(api_ask_with("POST", target, headers, body, 200));
}

static void reports_of_a_job_are_a_table_thinned_to_the_limit(void **state)
{
    (void)state;
    api_just("POST", "/jobs", api_simple, 201);
    api_run_job(1);
    for (int i = 1; i <= 5; i++) {
        char body[128];
        snprintf(body, sizeof body,
                 "{\"step\": %d, \"progress\": 0.%d, \"loss\": %d.5}", 10 * i,
                 i, 9 - i);
        report(1, body);
    }
    json_t *all = api_ask("GET", "/jobs/1/reports", "", 200);
    const json_t *rows = json_object_get(all, "rows");
    assert_int_equal(json_array_size(rows), 5);
    assert_string_equal(
        json_string_value(json_array_get(json_object_get(all, "columns"), 5)),
        "loss");
    const json_t *last = json_array_get(rows, 4);
    assert_int_equal(json_array_size(last), 12);
    assert_int_equal(json_integer_value(json_array_get(last, 2)), 50);
    assert_true(json_number_value(json_array_get(last, 5)) == 4.5);
    assert_true(json_is_null(json_array_get(last, 4))); /* no step_s */
    json_decref(all);
    json_t *few = api_ask("GET", "/jobs/1/reports?limit=2", "", 200);
    rows = json_object_get(few, "rows");
    assert_int_equal(json_array_size(rows), 2); /* of 5: the 2nd and the 5th */
    assert_int_equal(
        json_integer_value(json_array_get(json_array_get(rows, 1), 2)), 50);
    api_expect(few, "kept", "5");
    json_decref(few);
    api_just("GET", "/jobs/9/reports", "", 404);
    api_just("GET", "/forecast", "", 501); /* this host has none */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(events_are_read_backwards_in_pages),
        CASE(jobs_are_listed_from_the_newest_on),
        CASE(spans_come_from_changes_and_from_attempts_before),
        CASE(a_window_without_changes_shows_what_is_held),
        CASE(reports_of_a_job_are_a_table_thinned_to_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
