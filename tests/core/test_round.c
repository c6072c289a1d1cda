/* test_round.c - events in, steps out, and what happens when either is wrong.
 */
#include "core/round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc_text.h"
#include "base/buf.h"
#include "scene.h"
#include "toys.h"
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define YARD "2 nodes x 4 gpus; "

/* ---- events ---- */

static void expect_einval(struct scene *scene, struct firn_event event,
                          const char *said)
{
    struct firn_error err = {0};
    char before[128];
    snprintf(before, sizeof before, "%s", scene_text(scene));
    assert_int_equal(round_event(scene->round, &event, &err), FIRN_EINVAL);
    if (strstr(err.text, said) == NULL)
        fail_msg("the sentence is \"%s\"", err.text);
    assert_string_equal(scene_text(scene), before);
}

static void events_for_jobs_that_are_not_there_are_refused(void **unused)
{
    (void)unused;
    struct scene *scene =
        scene_new(YARD "A wants 2; B wants 1", &toy_greedy, NULL);
    scene_done(scene, "A");
    static const enum firn_event_kind kinds[] = {
        FIRN_EVENT_DONE, FIRN_EVENT_FAIL, FIRN_EVENT_REPORT};
    for (size_t i = 0; i < 3; i++) {
        struct firn_event event = {.kind = kinds[i]};
        expect_einval(scene, event, "event for job 0, which is not there");
        event.job = 99;
        expect_einval(scene, event, "event for job 99, which is not there");
        event.job = FIRN_NO_JOB;
        expect_einval(scene, event, "event for job -1, which is not there");
    }
    scene_free(scene);
}

static void events_for_nodes_that_are_not_there_are_refused(void **unused)
{
    (void)unused;
    struct scene *scene = scene_new(YARD "A wants 2", &toy_greedy, NULL);
    struct firn_event event = {.kind = FIRN_EVENT_NODE_DOWN, .node = 2};
    expect_einval(scene, event, "there is no node 2");
    event = (struct firn_event){.kind = FIRN_EVENT_NODE_UP, .node = -1};
    expect_einval(scene, event, "there is no node -1");
    scene_free(scene);
}

static void a_job_that_never_fits_is_refused_and_asks_for_nothing(void **unused)
{
    (void)unused;
    struct scene *scene = scene_new(YARD, &toy_greedy, NULL);
    struct firn_job_spec spec = {.name = "A",
                                 .app = "",
                                 .group = "",
                                 .types = "",
                                 .gpus = 9,
                                 .gpus_min = 9,
                                 .gpus_max = 9,
                                 .duration_s = 1};
    struct firn_event event = {.kind = FIRN_EVENT_SUBMIT, .spec = &spec};
    expect_einval(scene, event, "'A' wants 9 GPUs");
    assert_false(round_is_due(scene->round));
    scene_free(scene);
}

static void most_events_ask_for_a_decision_and_reports_do_not(void **unused)
{
    (void)unused;
    struct scene *scene = scene_new(YARD "A wants 2", &toy_greedy, NULL);
    assert_true(round_is_due(scene->round)); /* A came */
    scene_decide(scene, 0); /* and the scene has sent A's report since */
    assert_false(round_is_due(scene->round));
    scene_submit(scene, "B wants 1");
    assert_true(round_is_due(scene->round));
    scene_decide(scene, 1);
    scene_timer(scene);
    assert_true(round_is_due(scene->round));
    scene_decide(scene, 2);
    scene_node(scene, 1, false);
    assert_true(round_is_due(scene->round));
    scene_decide(scene, 3);
    scene_done(scene, "A");
    assert_true(round_is_due(scene->round));
    scene_decide(scene, 4);
    assert_int_equal(round_count(scene->round), 5);
    scene_free(scene);
}

static bool is_due_after(struct scene *scene, double done_s)
{
    struct firn_error err = {0};
    struct firn_event event = {.kind = FIRN_EVENT_REPORT,
                               .at_s = scene->now_s,
                               .job = 0,
                               .report = {done_s, 1, scene->now_s}};
    assert_int_equal(round_event(scene->round, &event, &err), FIRN_OK);
    return round_is_due(scene->round);
}

static void a_last_step_on_shared_gpus_asks_for_a_decision(void **unused)
{
    static const char three[] = "1 nodes x 1 gpus; A wants 1 for 100 shares; "
                                "B wants 1 shares; C wants 1 shares";
    (void)unused;
    struct scene *scene = scene_new(three, &toy_sharer, NULL);
    scene_decide(scene, 0);
    assert_false(is_due_after(scene, 99));
    assert_true(is_due_after(scene, 100));
    scene_decide(scene, 1);
    assert_false(is_due_after(scene, 100)); /* it is known */
    scene_free(scene);
    scene = scene_new(three, &toy_greedy, NULL); /* A has its GPU alone */
    scene_decide(scene, 0);
    assert_false(is_due_after(scene, 100));
    scene_free(scene);
}

static void a_lost_node_stops_its_jobs_and_only_those(void **unused)
{
    (void)unused;
    struct scene *scene =
        scene_new(YARD "A wants 2 on n0[0-1]; B wants 3 on n0[2] n1[0-1]; "
                       "C wants 1 on n1[3]",
                  &toy_do_nothing, NULL);
    scene->now_s = 10;
    scene_node(scene, 1, false);
    assert_string_equal(scene_steps(scene), "LOSE B; LOSE C");
    assert_string_equal(scene_text(scene), "A: n0[0-1]  B: -  C: -");
    assert_true(scene_job(scene, "B")->served_gpu_s == 30);
    assert_true(scene_job(scene, "B")->done_s == 10);
    assert_int_equal(scene_state(scene)->map.free_gpus, 2);
    scene_node(scene, 1, false); /* again: nothing happens */
    assert_string_equal(scene_text(scene), "A: n0[0-1]  B: -  C: -");
    scene_node(scene, 1, true);
    assert_int_equal(scene_state(scene)->map.free_gpus, 6);
    scene_free(scene);
}

static void lost_jobs_start_again_elsewhere(void **unused)
{
    (void)unused;
    struct scene *scene =
        scene_new(YARD "A wants 2; B wants 2; C wants 4", &toy_greedy, NULL);
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene),
                        "A: n0[0-1]  B: n0[2-3]  C: n1[0-3]");
    scene_node(scene, 0, false);
    scene_decide(scene, 5);
    assert_string_equal(scene_text(scene), "A: -  B: -  C: n1[0-3]");
    scene_done(scene, "C");
    scene_decide(scene, 6);
    assert_string_equal(scene_text(scene), "A: n1[0-1]  B: n1[2-3]");
    scene_node(scene, 0, true);
    scene_submit(scene, "D wants 4");
    scene_decide(scene, 7);
    assert_string_equal(scene_text(scene),
                        "A: n1[0-1]  B: n1[2-3]  D: n0[0-3]");
    scene_free(scene);
}

/* ---- decisions ---- */

static void a_refused_plan_leaves_things_as_they_were(void **unused)
{
    (void)unused;
    struct scene *scene = scene_new(YARD "A wants 2 on n0[0-1]; B wants 2",
                                    &toy_liar, "liar.lie=preempt");
    struct firn_error err = {0};
    struct firn_buf before = freemap_text(&scene_state(scene)->map);
    scene_timer(scene);
    for (int i = 1; i < 5; i++) {
        assert_int_equal(scene_try(scene, i, &err), FIRN_EREFUSED);
        struct firn_buf after = freemap_text(&scene_state(scene)->map);
        assert_string_equal(before.at, after.at);
        buf_release(&after);
    }
    assert_true(scene_job(scene, "A")->since_s == 0);
    assert_true(scene_job(scene, "A")->served_gpu_s == 0);
    assert_int_equal(scene_job(scene, "A")->starts, 1);
    assert_int_equal(round_steps(scene->round), 0);
    buf_release(&before);
    scene_free(scene);
}

static void an_engine_that_fails_stops_the_round(void **unused)
{
    (void)unused;
    struct scene *scene = scene_new(YARD "A wants 2", &toy_greedy, NULL);
    struct firn_error err = {0};
    scene->engine_fails = true;
    assert_int_equal(scene_try(scene, 1, &err), FIRN_EIO);
    assert_non_null(strstr(err.text, "out of order"));
    assert_string_equal(scene_text(scene), "A: -");
    scene->engine_fails = false;
    scene_decide(scene, 2);
    assert_string_equal(scene_text(scene), "A: n0[0-1]");
    scene_free(scene);
}

static void the_toy_policies_give_the_plans_they_are_named_for(void **unused)
{
    (void)unused;
    static const char *const text =
        "2 nodes x 4 gpus; A wants 2 shares from 2 to 8; B wants 2 shares; "
        "C wants 3";
    static const struct {
        const struct firn_policy_def *policy;
        const char *first, *then; /* then: A is done */
    } cases[] = {
        {&toy_do_nothing, "A: -  B: -  C: -", "B: -  C: -"},
        {&toy_one_by_one, "A: n0[0-1]  B: -  C: -", "B: n0[0-1]  C: -"},
        {&toy_greedy, "A: n0[0-1]  B: n0[2-3]  C: n1[0-2]",
         "B: n0[2-3]  C: n1[0-2]"},
        {&toy_sharer, "A: n0[0-1]~  B: n0[0-1]~  C: n1[0-2]",
         "B: n0[0-1]~  C: n1[0-2]"},
        {&toy_elastic, "A: n0[0-1] n1[3]  B: n0[2-3]  C: n1[0-2]",
         "B: n0[2-3]  C: n1[0-2]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene *scene = scene_new(text, cases[i].policy, NULL);
        scene_decide(scene, 0);
        assert_string_equal(scene_text(scene), cases[i].first);
        scene_decide(scene, 1);
        assert_string_equal(scene_steps(scene), "");
        scene_done(scene, "A");
        scene_decide(scene, 2);
        assert_string_equal(scene_text(scene), cases[i].then);
        scene_free(scene);
    }
}

static void notes_reach_the_jobs_and_go_when_they_start(void **unused)
{
    (void)unused;
    struct scene *scene =
        scene_new("1 node x 4 gpus; A wants 3; B wants 2", &toy_greedy, NULL);
    scene_decide(scene, 0);
    assert_string_equal(scene_job(scene, "B")->note, "needs 2, 1 are free");
    assert_string_equal(scene_job(scene, "A")->note, "");
    scene_done(scene, "A");
    scene_decide(scene, 1);
    assert_string_equal(scene_job(scene, "B")->note, "");
    scene_free(scene);
}

static void the_engine_hears_when_all_is_settled(void **unused)
{
    (void)unused;
    struct scene *scene = scene_new(YARD "A wants 2", &toy_greedy, NULL);
    long before = scene->nsettled;
    scene_decide(scene, 0);
    assert_int_equal(scene->nsettled, before + 1);
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_for_jobs_that_are_not_there_are_refused),
        cmocka_unit_test(events_for_nodes_that_are_not_there_are_refused),
        cmocka_unit_test(a_job_that_never_fits_is_refused_and_asks_for_nothing),
        cmocka_unit_test(a_last_step_on_shared_gpus_asks_for_a_decision),
        cmocka_unit_test(most_events_ask_for_a_decision_and_reports_do_not),
        cmocka_unit_test(a_lost_node_stops_its_jobs_and_only_those),
        cmocka_unit_test(lost_jobs_start_again_elsewhere),
        cmocka_unit_test(a_refused_plan_leaves_things_as_they_were),
        cmocka_unit_test(an_engine_that_fails_stops_the_round),
        cmocka_unit_test(the_toy_policies_give_the_plans_they_are_named_for),
        cmocka_unit_test(notes_reach_the_jobs_and_go_when_they_start),
        cmocka_unit_test(the_engine_hears_when_all_is_settled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
