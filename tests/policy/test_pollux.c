/* test_pollux.c - goodput shared by the harmonic mean, on scenes.
 *
 * Unless a test says otherwise r GPUs are r times as fast as one, so that a
 * job's speedup is r / F, what it has over its fair share, and what counts is
 *
 *     u = r / F x (1 as it is, else (T - 30 R) / (T + 30)) + a little
 *
 * with T the age and R the restarts; sizes are compared by u F.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "scene.h"
#include <cmocka.h>

static double linear(const struct firn_job *job, int gpus, int nodes)
{
    (void)job;
    (void)nodes;
    return gpus;
}

static struct scene *open_scene(const char *text, const char *settings)
{
    struct scene *scene =
        scene_new(text, firn_policy_find("pollux", NULL), settings);
    scene->speed = linear;
    return scene;
}

static void decides(struct scene *scene, double now_s, const char *expected)
{
    scene_decide(scene, now_s);
    assert_string_equal(scene_text(scene), expected);
}

/* At most twice what it ever held, and only if that is worth the restart: at
 * 60 s 2 x 60/90 = 1.33 > 1; at 120 s 4 x (120 - 30)/150 = 2.4 > 2; at 180 s
 * 8 x (180 - 60)/210 = 4.6 > 4. */
static void a_job_doubles_as_it_ages(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("2 nodes x 4 gpus; A wants 1 from 1 to 8 for 9999", NULL);
    decides(scene, 0, "A: n0[0]");
    scene_decide(scene, 60);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 2);
    scene_decide(scene, 120);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 4);
    assert_int_equal(scene_job(scene, "A")->held.nparts, 1);
    decides(scene, 180, "A: n0[0-3] n1[0-3]");
    decides(scene, 240, "A: n0[0-3] n1[0-3]");
    scene_free(scene);
}

/* At 10 s 2 x 10/40 = 0.5 < 1; at 30 s 2 x 30/60 = 1, no gain; at 31 s there
 * is one. With restarts of 100 s the moment is 100 s. */
static void a_young_job_stays_as_it_is(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 4 gpus; A wants 1 from 1 to 4 for 9999", NULL);
    decides(scene, 0, "A: n0[0]");
    decides(scene, 10, "A: n0[0]");
    decides(scene, 30, "A: n0[0]");
    decides(scene, 31, "A: n0[0-1]");
    scene_free(scene);
    scene = open_scene("1 node x 4 gpus; A wants 1 from 1 to 4 for 9999",
                       "pollux.restart=100");
    decides(scene, 0, "A: n0[0]");
    decides(scene, 99, "A: n0[0]");
    decides(scene, 101, "A: n0[0-1]");
    scene_free(scene);
}

/* A has held all 4 for long; B comes. F = 2. B gets one GPU, all that a new
 * job may have; A goes down to 3: 1/(3 x 0.99) + 1/(1 x 0.25) beats all that
 * leaves B with nothing. Later B asks for 2: at 400 s it has
 * 2 x 400/430 = 1.86 against 1, and A loses one of 3. */
static void no_job_starves(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "1 node x 4 gpus; A wants 4 from 1 to 4 for 99999 on n0[0-3]", NULL);
    decides(scene, 6000, "A: n0[0-3]");
    scene_submit(scene, "B wants 1 from 1 to 4 for 99999");
    scene_decide(scene, 6010);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 3);
    assert_int_equal(scene_job(scene, "B")->held.ngpus, 1);
    scene_decide(scene, 6400);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 2);
    assert_int_equal(scene_job(scene, "B")->held.ngpus, 2);
    scene_free(scene);
}

/* Two gangs of 6 on 12 GPUs in nodes of 4 would meet on one node. */
static void jobs_over_several_nodes_keep_apart(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("3 nodes x 4 gpus; A wants 6; B wants 6; C wants 2", NULL);
    scene_decide(scene, 0);
    assert_int_equal(scene_state(scene)->map.free_gpus, 4);
    assert_int_equal(scene_job(scene, "C")->held.ngpus, 2);
    scene_free(scene);
    scene = open_scene("3 nodes x 4 gpus; A wants 6; B wants 6",
                       "pollux.avoid-interference=no");
    scene_decide(scene, 0);
    assert_int_equal(scene_state(scene)->map.free_gpus, 0);
    scene_free(scene);
}

static void a_job_never_mixes_types(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 2 gpus of v100; 2 nodes x 2 gpus of t4; "
                   "A wants 6; B wants 3; C wants 2 types v100",
                   NULL);
    decides(scene, 0, "A: -  B: n1[0-1] n2[0]  C: n0[0-1]");
    scene_free(scene);
}

static double unknown(const struct firn_job *job, int gpus, int nodes)
{
    (void)job;
    (void)gpus;
    (void)nodes;
    return NAN;
}

/* Going from 2 to 4 GPUs is no gain where speed ends at 2; where it is not
 * known it is taken for twice as fast. */
static double two_at_most(const struct firn_job *job, int gpus, int nodes)
{
    (void)job;
    (void)nodes;
    return gpus < 2 ? gpus : 2;
}

static void sizes_follow_the_forecast(void **unused)
{
    (void)unused;
    scene_speed *const speeds[] = {two_at_most, unknown};
    for (int i = 0; i < 2; i++) {
        struct scene *scene =
            open_scene("1 node x 4 gpus; A wants 1 from 1 to 4 for 9999", NULL);
        scene->speed = speeds[i];
        for (int k = 0; k < 20; k++)
            scene_decide(scene, 100 * k);
        assert_int_equal(scene_job(scene, "A")->held.ngpus, i == 0 ? 2 : 4);
        scene_free(scene);
    }
}

/* A stays where it is though the other node would do as well; what comes goes
 * where it fits best. */
static void what_runs_is_not_moved_without_gain(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("2 nodes x 4 gpus; A wants 3 on n1[1-3]; B wants 1", NULL);
    decides(scene, 100, "A: n1[1-3]  B: n1[0]");
    scene_submit(scene, "C wants 4");
    decides(scene, 200, "A: n1[1-3]  B: n1[0]  C: n0[0-3]");
    scene_free(scene);
}

/* Both waited, B came later. There is one GPU: B's u would be
 * 60/90 = 0.67, A's 100/130 = 0.77. */
static void of_two_waiting_jobs_the_older_is_worth_more(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "1 node x 1 gpus; A wants 1 for 9999; B wants 1 for 9999 at 40", NULL);
    decides(scene, 100, "A: n0[0]  B: -");
    scene_free(scene);
}

static void it_wakes_up_at_its_interval(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 4 gpus; A wants 1 from 1 to 2 for 100 at 10",
                   "pollux.interval=45");
    /* A second GPU at 55 s: 2 x 45/75 = 1.2 > 1. Jobs go at rate 1 here,
     * whatever the forecast said. */
    assert_string_equal(scene_play(scene, 1e6), "10: START A n0[0]\n"
                                                "55: RESIZE A n0[0-1]\n"
                                                "110: DONE A\n");
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_doubles_as_it_ages),
        cmocka_unit_test(a_young_job_stays_as_it_is),
        cmocka_unit_test(no_job_starves),
        cmocka_unit_test(jobs_over_several_nodes_keep_apart),
        cmocka_unit_test(a_job_never_mixes_types),
        cmocka_unit_test(sizes_follow_the_forecast),
        cmocka_unit_test(what_runs_is_not_moved_without_gain),
        cmocka_unit_test(of_two_waiting_jobs_the_older_is_worth_more),
        cmocka_unit_test(it_wakes_up_at_its_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
