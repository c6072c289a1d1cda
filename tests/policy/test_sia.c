/* test_sia.c - goodput over GPU types, one assignment a round.
 *
 * Costs are (rho r)^-0.5 for r the rate over the job's smallest, and 1.1 for a
 * job left out. Unless a case says otherwise rates are the scene's, r / (1 +
 * 0.1 (r - 1)): 1, 1.818, 3.077 on 1, 2, 4 GPUs, cost 1, 0.742, 0.570 held.
 * A restart is believed to cost 30 s.
 */
#include "policy/sia.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "scene.h"
#include <cmocka.h>
#include <math.h>
#include <string.h>

static struct scene *open_scene(const char *text, const char *settings)
{
    return scene_new(text, firn_policy_find("sia", NULL), settings);
}

static void expect(struct scene *scene, double now_s, const char *expected)
{
    scene_decide(scene, now_s);
    assert_string_equal(scene_text(scene), expected);
}

/* A starts on 1. At 60: rho = 60 / 90, 1.818 rho = 1.212, cost 0.908 against 1
 * for staying. At 120, after one restart: rho = 90 / 150, 3.077 rho = 1.846,
 * cost 0.736 against 0.742. */
static void a_job_doubles_when_that_pays(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 8 gpus; A wants 1 from 1 to 8", NULL);
    expect(scene, 0, "A: n0[0]");
    expect(scene, 60, "A: n0[0-1]");
    expect(scene, 120, "A: n0[0-3]");
    /* 180, two restarts: rho = 120 / 210; 8 are 4.706 of one, times rho 2.689:
     * cost 0.610, more than the 0.570 of staying */
    expect(scene, 180, "A: n0[0-3]");
    scene_free(scene);
}

/* rho = 1020 / 2020: two GPUs would be worth 0.918 of the one it holds. If a
 * restart costs 10 s, rho = 1020 / 1030 and they are worth 1.8. */
static void restarts_weigh_on_changes(void **unused)
{
    (void)unused;
    const char *text = "1 node x 4 gpus; A wants 1 from 1 to 4 on n0[0]";
    struct scene *scene = open_scene(text, "sia.restart=1000");
    expect(scene, 1020, "A: n0[0]");
    scene_free(scene);
    scene = open_scene(text, "sia.restart=10");
    expect(scene, 1020, "A: n0[0-1]");
    scene_free(scene);
}

/* It is back at 100 and keeps its GPU until then. */
static void a_job_that_restarts_keeps_what_it_has(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 4 gpus; A wants 1 from 1 to 4", NULL);
    scene->restart_s = 100;
    expect(scene, 0, "A: n0[0]");
    expect(scene, 60, "A: n0[0]");
    expect(scene, 120, "A: n0[0-1]");
    scene_free(scene);
}

/* A holds both; rho = 600 / 630. Both to A cost 0.742 + 1.1 for B left out =
 * 1.842. One each: 1 / sqrt(0.952) + 1 = 2.025. If leaving out costs 2, it is
 * 2.742 against 2.025. */
static void lambda_is_the_cost_of_waiting(void **unused)
{
    (void)unused;
    const char *text = "1 node x 2 gpus; A wants 1 from 1 to 2 on n0[0-1]; "
                       "B wants 1 at 600";
    struct scene *scene = open_scene(text, NULL);
    expect(scene, 600, "A: n0[0-1]  B: -");
    assert_non_null(strstr(scene_job(scene, "B")->note, "worth more"));
    scene_free(scene);
    scene = open_scene(text, "sia.lambda=2");
    scene_decide(scene, 600);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 1);
    assert_int_equal(scene_job(scene, "B")->held.ngpus, 1);
    scene_free(scene);
}

/* 30 s into a round A stays on one GPU though it could have two, and B, which
 * comes then, has one of the others at once. */
static void between_rounds_only_arrivals_are_served(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "1 node x 4 gpus; A wants 1 from 1 to 4; B wants 1 at 30", NULL);
    expect(scene, 0, "A: n0[0]");
    expect(scene, 30, "A: n0[0]  B: n0[1]");
    expect(scene, 59, "A: n0[0]  B: n0[1]");
    scene_decide(scene, 60);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 2);
    scene_free(scene);
}

static void rounds_come_by_themselves(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "1 node x 4 gpus; A wants 1 from 1 to 2 for 150", "sia.interval=50");
    /* at 50: rho = 50 / 80, 1.818 rho = 1.136: it grows */
    assert_string_equal(scene_play(scene, 1e9), "0: START A n0[0]\n"
                                                "50: RESIZE A n0[0-1]\n"
                                                "150: DONE A\n");
    scene_free(scene);
}

static void gangs_get_what_they_asked_for_or_nothing(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 4 gpus; A wants 3; B wants 2", NULL);
    scene_decide(scene, 0);
    const struct firn_job *a = scene_job(scene, "A"),
                          *b = scene_job(scene, "B");
    assert_true((a->held.ngpus == 3 && b->held.ngpus == 0) ||
                (a->held.ngpus == 0 && b->held.ngpus == 2));
    scene_free(scene);
}

/* As good for the sum whichever runs: the one that does stays. */
static void of_equal_assignments_the_present_one_is_kept(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "1 node x 1 gpus; A wants 1 at 0; B wants 1 at 0 on n0[0]", NULL);
    for (int i = 0; i < 5; i++)
        expect(scene, 60 * i, "A: -  B: n0[0]");
    scene_free(scene);
}

/* ---- placing ---- */

/* C wants a whole node and neither has four free: A, the first small one to be
 * placed again, finds its node taken and moves to B's. */
static void small_jobs_move_out_of_the_way_of_a_whole_node(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene("2 nodes x 4 gpus; A wants 1 on n0[0]; "
                                     "B wants 1 on n1[0]; C wants 4",
                                     NULL);
    expect(scene, 0, "A: n1[1]  B: n1[0]  C: n0[0-3]");
    scene_free(scene);
}

static void a_job_that_keeps_its_configuration_keeps_its_gpus(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "2 nodes x 4 gpus; A wants 1 on n1[3]; B wants 2; C wants 4", NULL);
    expect(scene, 0, "A: n1[3]  B: n1[0-1]  C: n0[0-3]");
    scene_free(scene);
}

/* ---- types ---- */

/* Rates of jobs by name: A gains more from an A100 than B does; C is not known;
 * D runs on no T4. */
static double rate_of(void *state, const struct firn_job *job,
                      const struct firn_way *way, double now_s)
{
    static const double speed[][2] = {{10, 40}, {1, 2}, {NAN, NAN}, {0, 1}};
    (void)state;
    (void)now_s;
    return speed[job->spec.name[0] - 'A'][way->type] * way->gpus;
}

static const struct firn_forecast_def by_type = {.rate = rate_of};

static enum firn_status decide_knowing(void *state,
                                       const struct firn_view *view,
                                       struct firn_plan *plan)
{
    struct firn_view knowing = *view;
    knowing.forecast = &by_type;
    return sia_decide(state, &knowing, plan);
}

static void gives_of_types(const char *text, const char *expected)
{
    struct firn_policy_def def = *firn_policy_find("sia", NULL);
    def.decide = decide_knowing;
    struct scene *scene = scene_new(text, &def, NULL);
    expect(scene, 0, expected);
    scene_free(scene);
}

/* A on the A100 and B on the T4 cost 0.5 + 1, the other way 1 + 0.707, however
 * much larger A's rates are. */
static void the_fast_type_goes_to_the_job_it_helps_most(void **unused)
{
    (void)unused;
    gives_of_types("1 node x 1 gpus of t4; 1 node x 1 gpus of a100; "
                   "A wants 1; B wants 1",
                   "A: n1[0]  B: n0[0]");
    gives_of_types("1 node x 1 gpus of t4; 1 node x 1 gpus of a100; "
                   "B wants 1; A wants 1",
                   "B: n0[0]  A: n1[0]");
}

/* Alone, it takes the fast one; accepting none but the T4, it does not. */
static void a_job_stays_within_the_types_it_accepts(void **unused)
{
    (void)unused;
    gives_of_types("1 node x 1 gpus of t4; 1 node x 1 gpus of a100; A wants 1",
                   "A: n1[0]");
    gives_of_types("1 node x 1 gpus of t4; 1 node x 1 gpus of a100; "
                   "A wants 1 types t4",
                   "A: n0[0]");
}

/* Its fewest GPUs are worth 1 on either type: A, which is worth more on the
 * A100, leaves it the T4. */
static void a_job_never_seen_is_worth_one_on_any_type(void **unused)
{
    (void)unused;
    gives_of_types("1 node x 2 gpus of t4; 1 node x 2 gpus of a100; "
                   "A wants 2; C wants 1 from 1 to 8",
                   "A: n1[0-1]  C: n0[0]");
}

static void a_job_is_never_put_where_it_cannot_run(void **unused)
{
    (void)unused;
    gives_of_types("1 node x 1 gpus of t4; 1 node x 1 gpus of a100; "
                   "A wants 1; D wants 1",
                   "A: n1[0]  D: -");
}

/* A gang of 3 where each type has 2: types are not mixed, so that it can never
 * run. */
static void a_gang_larger_than_any_type_is_rejected(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "1 node x 2 gpus of t4; 1 node x 2 gpus of a100; A wants 3; B wants 2",
        NULL);
    scene_decide(scene, 0);
    assert_non_null(strstr(scene_steps(scene), "REJECT A"));
    assert_null(scene_job(scene, "A"));
    assert_int_equal(scene_job(scene, "B")->held.ngpus, 2);
    scene_free(scene);
}

/* But while a node is down that could hold it, it waits. */
static void a_gang_waits_for_a_node_that_is_down(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 2 gpus of t4; 1 node x 4 gpus of a100; n1 down; "
                   "A wants 3",
                   NULL);
    expect(scene, 0, "A: -");
    assert_non_null(strstr(scene_job(scene, "A")->note, "has 3 GPUs up"));
    assert_true(isinf(round_wake_s(scene->round))); /* no use in asking again */
    scene_node(scene, 1, true);
    expect(scene, 1, "A: n1[0-2]");
    scene_free(scene);
}

static double from_four(const struct firn_job *job, int gpus, int nodes)
{
    (void)job, (void)nodes;
    return gpus < 4 ? 0 : gpus;
}

static double from_nine(const struct firn_job *job, int gpus, int nodes)
{
    (void)job, (void)nodes;
    return gpus < 9 ? 0 : gpus;
}

/* A model that only four GPUs hold accepts one to eight: it does not begin
 * with one, and not with eight. */
static void a_job_begins_with_the_fewest_gpus_it_runs_on(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "1 node x 8 gpus of a100; A wants 4 from 1 to 8 for 1000", NULL);
    scene->speed = from_four;
    expect(scene, 0, "A: n0[0-3]");
    expect(scene, 600, "A: n0[0-7]"); /* then it may double */
    scene_free(scene);
}

static void a_job_that_runs_nowhere_is_rejected(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "1 node x 8 gpus of a100; A wants 16 from 1 to 16 for 1000", NULL);
    scene->speed = from_nine;
    scene_decide(scene, 0);
    assert_non_null(strstr(scene_steps(scene), "REJECT A"));
    scene_free(scene);
}

/* ---- cbc ---- */

/* With or without, and whether or not it is installed, the plan is as good;
 * these assignments are proven best, so that it is not even asked. */
static void cbc_may_be_asked(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("2 nodes x 4 gpus; A wants 2; B wants 4; C wants 2",
                   "sia.cbc=yes sia.gap=0");
    expect(scene, 0, "A: n1[0-1]  B: n0[0-3]  C: n1[2-3]");
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_doubles_when_that_pays),
        cmocka_unit_test(restarts_weigh_on_changes),
        cmocka_unit_test(a_job_that_restarts_keeps_what_it_has),
        cmocka_unit_test(lambda_is_the_cost_of_waiting),
        cmocka_unit_test(between_rounds_only_arrivals_are_served),
        cmocka_unit_test(rounds_come_by_themselves),
        cmocka_unit_test(gangs_get_what_they_asked_for_or_nothing),
        cmocka_unit_test(of_equal_assignments_the_present_one_is_kept),
        cmocka_unit_test(small_jobs_move_out_of_the_way_of_a_whole_node),
        cmocka_unit_test(a_job_that_keeps_its_configuration_keeps_its_gpus),
        cmocka_unit_test(the_fast_type_goes_to_the_job_it_helps_most),
        cmocka_unit_test(a_job_stays_within_the_types_it_accepts),
        cmocka_unit_test(a_job_never_seen_is_worth_one_on_any_type),
        cmocka_unit_test(a_job_is_never_put_where_it_cannot_run),
        cmocka_unit_test(a_gang_larger_than_any_type_is_rejected),
        cmocka_unit_test(a_gang_waits_for_a_node_that_is_down),
        cmocka_unit_test(a_job_begins_with_the_fewest_gpus_it_runs_on),
        cmocka_unit_test(a_job_that_runs_nowhere_is_rejected),
        cmocka_unit_test(cbc_may_be_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
