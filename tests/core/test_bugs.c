/* test_bugs.c - what must never happen aborts with a sentence.
 *
 * These are mistakes of core or of a policy's declaration, not of a plan: a
 * wrong plan is refused (test_check.c), but GPUs taken twice after the check,
 * or a rank that is no number, would make every later answer wrong.
 */
#include "core/round.h"
#include "core/serve.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "bug.h"
#include "scene.h"
#include "toys.h"
#include <cmocka.h>
#include <math.h>

#define YARD "2 nodes x 4 gpus; A wants 2 on n0[0-1]; B wants 2"

static struct scene *yard(void)
{
    return scene_new(YARD, &toy_greedy, NULL);
}

static void take_held(void *arg)
{
    struct scene *scene = arg;
    struct firn_alloc alloc = scene_alloc(scene, "n0[1-2]");
    freemap_take(&scene_state(scene)->map, &alloc);
}

static void give_free(void *arg)
{
    struct scene *scene = arg;
    struct firn_alloc alloc = scene_alloc(scene, "n0[1-2]");
    freemap_give(&scene_state(scene)->map, &alloc);
}

static void give_whole_as_shared(void *arg)
{
    struct scene *scene = arg;
    struct firn_alloc alloc = scene_alloc(scene, "n0[0-1]~");
    freemap_give(&scene_state(scene)->map, &alloc);
}

static void gpus_cannot_be_held_twice_or_given_back_unheld(void **unused)
{
    (void)unused;
    struct scene *scene = yard();
    expect_bug(take_held, scene, "GPUs are taken that are not free");
    expect_bug(give_free, scene, "GPUs are given back that are not held");
    expect_bug(give_whole_as_shared, scene, "given back that are not held");
    scene_free(scene);
}

static void drop_waiting(void *arg)
{
    struct state *state = scene_state(arg);
    state_drop(state, state_job(state, 1), 1);
}

static void hold_running(void *arg)
{
    struct state *state = scene_state(arg);
    struct firn_alloc alloc = scene_alloc(arg, "n1[0-1]");
    state_hold(state, state_job(state, 0), &alloc, 1);
}

static void hold_nothing(void *arg)
{
    struct state *state = scene_state(arg);
    state_hold(state, state_job(state, 1), &(struct firn_alloc)FIRN_ALLOC_NONE,
               1);
}

static void jobs_cannot_be_stopped_or_started_twice(void **unused)
{
    (void)unused;
    struct scene *scene = yard();
    expect_bug(drop_waiting, scene, "job 1 is stopped but does not run");
    expect_bug(hold_running, scene, "job 0 cannot be given GPUs");
    expect_bug(hold_nothing, scene, "job 1 cannot be given GPUs");
    scene_free(scene);
}

/* ---- policies that are declared wrong ---- */

static enum firn_status keep_all_late(void *state, const struct firn_view *view,
                                      struct firn_plan *plan)
{
    (void)state;
    firn_plan_drop(plan, firn_view_jobs(view)[0]);
    firn_plan_keep_all(plan);
    return FIRN_OK;
}

static enum firn_status serve(void *state, const struct firn_view *view,
                              struct firn_plan *plan)
{
    (void)state;
    firn_plan_serve(plan, view, FIRN_SERVE_SKIP);
    return FIRN_OK;
}

static struct firn_rank no_number(const void *state, const struct firn_job *job,
                                  double now_s)
{
    (void)state, (void)job, (void)now_s;
    return (struct firn_rank){NAN, INFINITY};
}

static struct firn_rank over_already(const void *state,
                                     const struct firn_job *job, double now_s)
{
    (void)state, (void)job;
    return (struct firn_rank){0, now_s};
}

static void run(void *arg)
{
    struct scene *scene = scene_new(YARD, arg, NULL);
    scene_decide(scene, 1);
}

static void policies_that_break_the_contract_are_named(void **unused)
{
    (void)unused;
    struct firn_policy_def late = {.name = "late", .decide = keep_all_late};
    expect_bug(run, &late, "firn_plan_keep_all must come first");
    struct firn_policy_def rankless = {.name = "rankless", .decide = serve};
    expect_bug(run, &rankless, "policy rankless serves by rank but has none");
    struct firn_policy_def nan = {
        .name = "nan", .decide = serve, .rank = no_number};
    expect_bug(run, &nan, "policy nan ranks a job with NaN");
    struct firn_policy_def hasty = {
        .name = "hasty", .decide = serve, .rank = over_already};
    expect_bug(run, &hasty, "policy hasty gives a rank that has ended already");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_cannot_be_held_twice_or_given_back_unheld),
        cmocka_unit_test(jobs_cannot_be_stopped_or_started_twice),
        cmocka_unit_test(policies_that_break_the_contract_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
