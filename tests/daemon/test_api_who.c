/* test_api_who.c - every change has its caller in the events, and every refusal
 * is counted and said in the log, at most one line a second for each peer.
 */
#include "apiscene.h"
#include "base/buf.h"
#include "base/log.h"
#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const char *me(void)
{
    static char name[64];
    const struct passwd *entry = getpwuid(geteuid());
    if (entry != NULL)
        snprintf(name, sizeof name, "%s", entry->pw_name);
    else
        snprintf(name, sizeof name, "uid %u", (unsigned)geteuid());
    return name;
}

/* "kind caller" of all events after `after`, a line each. */
static void expect_events(int after, const char *want)
{
    char target[64];
    struct firn_buf out = {0};
    snprintf(target, sizeof target, "/events?after=%d", after);
    json_t *page = api_ask("GET", target, "", 200);
    const json_t *list = json_object_get(page, "events");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *event = json_array_get(list, i);
        buf_printf(&out, "%s ", api_at(event, "kind"));
        buf_printf(&out, "%s\n", api_at(event, "caller"));
    }
    if (strcmp(out.at, want) != 0)
        fail_msg("events are\n%s, not\n%s", out.at, want);
    buf_release(&out);
    json_decref(page);
}

static void every_change_has_its_caller(void **state)
{
    (void)state;
    static const char *const kinds[] = {
        "submitted", "held",   "released",  "bounds",     "priority", "drained",
        "undrained", "policy", "submitted", "cancelling", "cancelled"};
    struct firn_buf want = {0};
    api_just("POST", "/jobs", api_elastic, 201);
    api_just("POST", "/jobs/e/hold", "", 200);
    api_just("POST", "/jobs/e/hold", "", 200); /* no change, no event */
    api_just("POST", "/jobs/e/release", "", 200);
    api_just("PATCH", "/jobs/e",
             "{\"gpus\": {\"min\": 1, \"max\": 2}, \"priority\": 7}", 200);
    api_just("POST", "/nodes/n1/drain", "", 200);
    api_just("POST", "/nodes/n1/drain", "", 200); /* no change, no event */
    api_just("POST", "/nodes/n1/undrain", "", 200);
    api_just("PATCH", "/policy", "{\"name\": \"sjf\"}", 200);
    api_just("POST", "/jobs", api_simple, 201);
    api_just("POST", "/jobs/a/cancel", "", 200);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        buf_printf(&want, "%s %s\n", kinds[i], me());
    expect_events(0, want.at);
    buf_release(&want);
}

static struct caller dial(void)
{
    struct caller c = {.pump = api_scene_turn, .arg = &api_scene};
    caller_open_port(&c, http_port(api_scene.http));
    return c;
}

static void over_tcp_the_caller_is_the_token_and_the_address(void **state)
{
    (void)state;
    char header[128];
    struct caller c = dial();
    snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", api_token);
    struct reply r = caller_ask(&c, "POST", "/jobs", header, api_simple);
    assert_int_equal(r.status, 201);
    reply_release(&r);
    caller_close(&c);
    expect_events(0, "submitted token, 127.0.0.1\n");
    /* What firnd does by itself has none. */
    api_run_job(1);
    api_scene_turn(&api_scene);
    expect_events(1, "attempt -\nrunning -\n");
}

/* --- refusals ------------------------------------------------------------ */

static struct firn_buf heard;
static int nlines, nrefused;

static void hear(void *arg, enum log_level level, const char *text)
{
    static const char start[] = "refused requests from 127.0.0.1: ";
    (void)arg, (void)level;
    buf_printf(&heard, "%s\n", text);
    if (strncmp(text, start, sizeof start - 1) != 0)
        return;
    nlines++;
    nrefused += atoi(text + sizeof start - 1);
}

static void ask_without_token(void)
{
    struct caller c = dial();
    struct reply r = caller_ask(&c, "GET", "/jobs",
                                "Authorization: Bearer not-the-token\r\n", "");
    assert_int_equal(r.status, 401);
    reply_release(&r);
    caller_close(&c);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void refused_tokens_are_counted_and_logged_once_a_second(void **state)
{
    (void)state;
    enum { REFUSALS = 60 };
    buf_clear(&heard);
    nlines = nrefused = 0;
    log_set_sink(hear, NULL);
    double began_s = now_s();
    ask_without_token();
    assert_int_equal(nlines, 1); /* the first at once */
    for (int i = 1; i < REFUSALS; i++)
        ask_without_token();
    double until_s = now_s() + 120;
    while (nrefused < REFUSALS && now_s() < until_s)
        api_scene_turn(&api_scene);
    double took_s = now_s() - began_s;
    log_set_sink(NULL, NULL);
    assert_int_equal(nrefused, REFUSALS);
    assert_true(nlines <= 2 + (int)took_s);
    assert_non_null(strstr(heard.at, "without a known token"));
    assert_true(metrics_get(api_scene.metrics, METRIC_REFUSALS,
                            HTTP_REFUSED_TOKEN) == REFUSALS);
    buf_release(&heard);
}

static void a_caller_without_the_right_is_counted(void **state)
{
    (void)state;
    char header[128];
    api_just("POST", "/jobs", api_simple, 201);
    snprintf(header, sizeof header, "Authorization: Bearer %s\r\n",
             api_job_of(1)->token);
    json_decref(api_ask_with("POST", "/jobs/1/cancel", header, "", 403));
    assert_true(metrics_get(api_scene.metrics, METRIC_REFUSALS,
                            HTTP_REFUSED_RIGHT) == 1);
}

static void a_job_reports_under_its_number_in_digits_only(void **state)
{
    (void)state;
    char header[128];
    api_just("POST", "/jobs", api_simple, 201);
    snprintf(header, sizeof header, "Authorization: Bearer %s\r\n",
             api_job_of(1)->token);
    json_decref(api_ask_with("POST", "/jobs/1e0/reports", header, "", 403));
    json_decref(api_ask_with("POST", "/jobs/1.0/reports", header, "", 403));
    json_decref(api_ask_with("POST", "/jobs/1/reports", header, "", 400));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_change_has_its_caller),
        CASE(over_tcp_the_caller_is_the_token_and_the_address),
        CASE(refused_tokens_are_counted_and_logged_once_a_second),
        CASE(a_caller_without_the_right_is_counted),
        CASE(a_job_reports_under_its_number_in_digits_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
