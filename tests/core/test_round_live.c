/* test_round_live.c - what only a live scheduler asks of a round: jobs with a
 * past, GPUs that are out of scheduling.
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
#include <math.h>
#include <string.h>

#define YARD "2 nodes x 4 gpus; "

static const struct firn_job_spec plain = {.name = "R",
                                           .app = "",
                                           .group = "",
                                           .types = "",
                                           .gpus = 2,
                                           .gpus_min = 2,
                                           .gpus_max = 2,
                                           .duration_s = 100};

static const struct state_past past = {.since_s = 3,
                                       .first_start_s = 1,
                                       .held_s = 4,
                                       .served_gpu_s = 8,
                                       .starts = 2,
                                       .gpus_most = 4,
                                       .report = {7, 1.5, 5}};

static void a_restored_job_holds_what_it_held_and_has_its_past(void **unused)
{
    (void)unused;
    struct scene *scene = scene_new(YARD, &toy_do_nothing, NULL);
    struct firn_alloc held = scene_alloc(scene, "n1[1-2]");
    struct round_job job = {4, &plain, &held, past};
    struct firn_error err = {0};
    assert_int_equal(round_restore(scene->round, &job, 10, &err), FIRN_OK);
    assert_true(round_is_due(scene->round));
    const struct firn_job *seen = state_job(round_state(scene->round), 4);
    assert_int_equal(seen->state, FIRN_JOB_RUNNING);
    assert_true(firn_alloc_equal(&seen->held, &held));
    assert_true(seen->since_s == 3 && seen->first_start_s == 1);
    assert_true(firn_job_served_gpu_s(seen, 10) == 8 + 2 * 7);
    assert_true(firn_job_done_s(seen, 10) == 7 + 1.5 * 5);
    assert_int_equal(seen->starts, 2);
    assert_int_equal(scene_state(scene)->map.free_gpus, 6);
    assert_int_equal(round_decide(scene->round, 10, &err), FIRN_OK);
    assert_int_equal(round_steps(scene->round), 0);
    scene_free(scene);
}

static void a_restored_job_may_wait(void **unused)
{
    (void)unused;
    struct scene *scene = scene_new(YARD, &toy_do_nothing, NULL);
    struct firn_alloc none = FIRN_ALLOC_NONE;
    struct round_job job = {0, &plain, &none, {.since_s = 2}};
    struct firn_error err = {0};
    assert_int_equal(round_restore(scene->round, &job, 10, &err), FIRN_OK);
    const struct firn_job *seen = state_job(round_state(scene->round), 0);
    assert_int_equal(seen->state, FIRN_JOB_WAITING);
    assert_true(isnan(seen->first_start_s));
    assert_int_equal(scene_state(scene)->nwaiting, 1);
    scene_free(scene);
}

static void gpus_are_not_restored_twice(void **unused)
{
    (void)unused;
    struct scene *scene = scene_new(YARD, &toy_do_nothing, NULL);
    struct firn_alloc held = scene_alloc(scene, "n1[1-2]");
    struct firn_alloc clash = scene_alloc(scene, "n1[2-3]");
    struct firn_alloc beyond = scene_alloc(scene, "n5[0]");
    struct round_job a = {0, &plain, &held, past};
    struct round_job b = {1, &plain, &clash, past};
    struct firn_error err = {0};
    assert_int_equal(round_restore(scene->round, &a, 10, &err), FIRN_OK);
    assert_int_equal(round_restore(scene->round, &b, 10, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "not free"));
    b.held = &beyond;
    assert_int_equal(round_restore(scene->round, &b, 10, &err), FIRN_EINVAL);
    assert_null(state_job(round_state(scene->round), 1));
    scene_free(scene);
}

static void a_withdrawn_job_frees_its_gpus_without_a_step(void **unused)
{
    (void)unused;
    struct scene *scene =
        scene_new(YARD "A wants 4 on n0[0-3]", &toy_do_nothing, NULL);
    round_withdraw(scene->round, 0, 5);
    assert_null(state_job(round_state(scene->round), 0));
    assert_int_equal(scene_state(scene)->map.free_gpus, 8);
    assert_int_equal(round_steps(scene->round), 0);
    scene_free(scene);
}

static void no_job_is_placed_on_blocked_gpus(void **unused)
{
    (void)unused;
    struct scene *scene =
        scene_new(YARD "A wants 3; B wants 3; C wants 2", &toy_greedy, NULL);
    struct firn_alloc two = scene_alloc(scene, "n0[0-1]");
    assert_true(round_block(scene->round, &two));
    assert_false(round_block(scene->round, &two));
    assert_int_equal(round_view(scene->round, 0).gpus_up, 6);
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene),
                        "A: n1[0-2]  B: n0[2-3] n1[3]  C: -");
    round_unblock(scene->round, &two);
    assert_true(round_is_due(scene->round));
    assert_int_equal(round_view(scene->round, 0).gpus_up, 8);
    scene_decide(scene, 1);
    assert_string_equal(scene_text(scene),
                        "A: n1[0-2]  B: n0[2-3] n1[3]  C: n0[0-1]");
    struct firn_alloc held = scene_alloc(scene, "n1[3]");
    assert_false(round_block(scene->round, &held));
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restored_job_holds_what_it_held_and_has_its_past),
        cmocka_unit_test(a_restored_job_may_wait),
        cmocka_unit_test(gpus_are_not_restored_twice),
        cmocka_unit_test(a_withdrawn_job_frees_its_gpus_without_a_step),
        cmocka_unit_test(no_job_is_placed_on_blocked_gpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
