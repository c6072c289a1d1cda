/* test_api_node.c - the API's nodes, the trouble of engines, and the policy.
 */
#include "apiscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static void nodes_are_listed_and_drained(void **state)
{
    (void)state;
    json_t *list = api_ask("GET", "/v1/nodes", "", 200);
    api_expect(list, "nodes.0.name", "n0");
    api_expect(list, "nodes.0.free", "1");
    api_expect(list, "nodes.0.outside", "1");
    api_expect(list, "nodes.1.drained", "false");
    json_decref(list);
    api_just("POST", "/v1/nodes/n1/drain", "", 200);
    list = api_ask("GET", "/v1/nodes", "", 200);
    api_expect(list, "nodes.1.drained", "true");
    json_decref(list);
    api_just("POST", "/v1/nodes/n1/undrain", "", 200);
    assert_false(api_scene.is_drained);
    api_just("POST", "/v1/nodes/n7/drain", "", 404);
    api_just("POST", "/v1/nodes/n%22%0b/drain", "", 400);
}

static void trouble_and_nodes_that_are_down_are_shown(void **state)
{
    (void)state;
    json_t *answer = api_ask("GET", "/v1/nodes", "", 200);
    api_expect(answer, "nodes.1.why", "-");
    api_expect(answer, "trouble", "-");
    json_decref(answer);
    api_scene.trouble = "no \"answer\"";
    api_scene.why = "a fan";
    answer = api_ask("GET", "/v1/nodes", "", 200);
    api_expect(answer, "nodes.1.why", "a fan");
    api_expect(answer, "nodes.1.up", "false");
    api_expect(answer, "trouble", "no \"answer\"");
    json_decref(answer);
    answer = api_ask("GET", "/v1/health", "", 200);
    api_expect(answer, "status", "ok");
    api_expect(answer, "trouble", "no \"answer\"");
    json_decref(answer);
    struct reply r = caller_ask(&api_scene.caller, "GET", "/metrics", NULL, "");
    assert_non_null(strstr(r.body, "\nfirn_engine_trouble 1\n"));
    reply_release(&r);
    api_scene.trouble = api_scene.why = NULL;
}

static void gpus_are_shown_by_the_names_of_nodes(void **state)
{
    (void)state;
    struct firn_error err;
    api_just("POST", "/v1/jobs", api_simple, 201);
    struct live_job *job = api_job_of(1);
    assert_int_equal(book_held(api_scene.book, job, "n0[0-1]", &err), FIRN_OK);
    int64_t attempt;
    assert_int_equal(book_next_attempt(api_scene.book, job, &attempt, &err),
                     FIRN_OK);
    json_t *answer = api_ask("GET", "/v1/jobs/1", "", 200);
    api_expect(answer, "gpus", "zero[0-1]");
    api_expect(answer, "epochs.0.gpus", "zero[0-1]");
    json_decref(answer);
    answer = api_ask("GET", "/v1/jobs", "", 200);
    api_expect(answer, "jobs.0.gpus", "zero[0-1]");
    json_decref(answer);
    answer = api_ask("GET", "/v1/events?after=0", "", 200);
    api_expect(answer, "events.1.kind", "gpus");
    api_expect(answer, "events.1.text", "zero[0-1]");
    json_decref(answer);
    assert_string_equal(job->held, "n0[0-1]"); /* as it is kept */
}

static void the_policy_is_shown_and_changed(void **state)
{
    (void)state;
    json_t *policy = api_ask("GET", "/v1/policy", "", 200);
    api_expect(policy, "name", "fifo");
    json_decref(policy);
    policy = api_ask("PATCH", "/v1/policy",
                     "{\"name\": \"tiresias\", \"options\": {\"thresholds\": "
                     "\"60,120\"}}",
                     200);
    api_expect(policy, "name", "tiresias");
    bool is_there = false;
    size_t i;
    json_t *option;
    json_array_foreach(json_object_get(policy, "options"), i, option)
    {
        if (strcmp(api_at(option, "name"), "thresholds") != 0)
            continue;
        is_there = true;
        api_expect(option, "value", "60,120");
        assert_string_not_equal(api_at(option, "default"), "60,120");
    }
    assert_true(is_there);
    json_decref(policy);
    api_just("PATCH", "/v1/policy", "{\"options\": {\"a\": 1.5}}", 200);
    assert_string_equal(api_scene.value, "1.5");
    api_just("PATCH", "/v1/policy", "{\"options\": {\"a\": true}}", 200);
    assert_string_equal(api_scene.value, "yes");
    api_just("PATCH", "/v1/policy", "{\"name\": \"bogus\"}", 404);
    const char *wrong[] = {"{}",
                           "{\"name\": 1}",
                           "{\"options\": []}",
                           "{\"options\": {\"a\": []}}",
                           "{\"x\": 1}",
                           "1"};
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++)
        api_just("PATCH", "/v1/policy", wrong[k], 400);
    assert_string_equal(api_scene.policy, "tiresias");
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(nodes_are_listed_and_drained),
        CASE(trouble_and_nodes_that_are_down_are_shown),
        CASE(gpus_are_shown_by_the_names_of_nodes),
        CASE(the_policy_is_shown_and_changed),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
