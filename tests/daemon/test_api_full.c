/* test_api_full.c - what callers are answered while the disk takes no writes.
 */
#include "apiscene.h"
#include "daemon/apiwork.h"
#include "daemon/storework.h"
#include "tests/daemon/diskvfs.h"
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void ask(const char *method, const char *path, const char *body)
{
    char text[500];
    int n = snprintf(text, sizeof text,
                     "%s /v1%s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu"
                     "\r\n\r\n%s",
                     method, path, strlen(body), body);
    caller_send(&api_scene.caller, text, (size_t)n);
}

/* It is asked, and its answer waits for the disk. */
static void ask_and_wait(const char *method, const char *path, const char *body)
{
    ask(method, path, body);
    while (!api_is_waiting(api_scene.api))
        caller_hear(&api_scene.caller);
    for (int i = 0; i < 50; i++)
        caller_hear(&api_scene.caller);
    assert_true(api_is_waiting(api_scene.api));
    assert_int_equal(api_scene.caller.n, 0);
}

static void expect_reply(int status, const char *part)
{
    struct reply r = caller_reply(&api_scene.caller);
    assert_int_equal(r.status, status);
    assert_non_null(strstr(r.body, part));
    reply_release(&r);
}

static void disk_full(void)
{
    disk_fail(DISK_FULL, 1, LONG_MAX / 2);
}

static void disk_good(void)
{
    disk_fail(DISK_FULL, 0, 0);
    api_scene.store->disk.retry_s = 0;
}

static void
a_submit_that_met_the_full_disk_is_answered_when_it_is_on_disk(void **state)
{
    (void)state;
    disk_full();
    ask_and_wait("POST", "/jobs", api_simple);
    assert_int_equal(store_room(api_scene.store), ROOM_FULL);
    disk_good();
    expect_reply(201, "\"name\": \"a\"");
    assert_false(store_is_stalled(api_scene.store));
}

static void a_change_that_stays_pending_is_answered_as_not_on_disk(void **state)
{
    (void)state;
    disk_full();
    ask_and_wait("POST", "/jobs", api_simple);
    api_scene.api->waiting.at[0].since_s = -1e9;
    expect_reply(507, "is not on disk");
    disk_good();
    api_scene_turn(&api_scene);
    assert_false(store_is_stalled(api_scene.store));
}

static void a_full_disk_shows_jobs_and_refuses_new_ones(void **state)
{
    (void)state;
    api_just("POST", "/v1/jobs", api_simple, 201);
    api_just("POST", "/v1/jobs", api_elastic, 201);
    disk_full();
    ask_and_wait("POST", "/jobs/1/hold", "");
    api_scene.api->waiting.at[0].since_s = -1e9;
    expect_reply(507, "is not on disk");
    api_says("GET", "/v1/jobs/1", "id=1 state=pending");
    api_says("GET", "/v1/jobs/2", "id=2");
    api_just("GET", "/v1/jobs", "", 200);
    api_just("GET", "/v1/events", "", 200);
    api_just("GET", "/v1/health", "", 200);
    api_just("POST", "/v1/plan", api_simple, 200);
    static const char *const refused[] = {"/v1/jobs", "/v1/jobs/2/hold",
                                          "/v1/nodes/n0/drain"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        json_t *answer =
            api_ask("POST", refused[i], i == 0 ? api_simple : "", 507);
        api_expect(answer, "error.code", "disk-full");
        assert_non_null(strstr(api_at(answer, "error.text"), "make room"));
        json_decref(answer);
    }
    assert_int_equal(book_count(api_scene.book), 2);
    disk_good();
    api_scene_turn(&api_scene);
    assert_true(api_job_of(1)->is_held);
    assert_false(api_job_of(2)->is_held);
}

static void
a_cancel_is_taken_whatever_the_disk_and_answered_behind_it(void **state)
{
    (void)state;
    api_just("POST", "/v1/jobs", api_simple, 201);
    disk_full();
    ask_and_wait("POST", "/jobs/1/cancel", "");
    assert_int_equal(api_scene.ncancelled, 1); /* the engine is told before */
    ask("GET", "/jobs/1", "");
    disk_good();
    expect_reply(200, "\"id\": 1");
    expect_reply(200, "\"id\": 1");
}

static void without_its_reserve_firnd_takes_changes_but_no_jobs(void **state)
{
    (void)state;
    api_just("POST", "/v1/jobs", api_simple, 201);
    disk_fail(DISK_FULL, 1, 1); /* once: the reserve helps */
    api_just("POST", "/v1/jobs/1/hold", "", 200);
    assert_int_equal(store_room(api_scene.store), ROOM_SPENT);
    api_just("POST", "/v1/jobs", api_simple, 507);
    api_just("POST", "/v1/jobs/1/release", "", 200);
    api_just("POST", "/v1/jobs/1/cancel", "", 200);
}

int main(void)
{
    disk_install();
    const struct CMUnitTest tests[] = {
        CASE(a_submit_that_met_the_full_disk_is_answered_when_it_is_on_disk),
        CASE(a_change_that_stays_pending_is_answered_as_not_on_disk),
        CASE(a_full_disk_shows_jobs_and_refuses_new_ones),
        CASE(a_cancel_is_taken_whatever_the_disk_and_answered_behind_it),
        CASE(without_its_reserve_firnd_takes_changes_but_no_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
