/* test_tiresias.c - least attained service in discrete queues.
 *
 * Service is GPUs x seconds held. The schedules are worked out by hand above
 * each case; q0, q1, q2 are the queues.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "scene.h"
#include <cmocka.h>

static struct scene *open_scene(const char *text, const char *settings)
{
    return scene_new(text, firn_policy_find("tiresias", NULL), settings);
}

static void plays(const char *text, const char *settings, const char *expected)
{
    struct scene *scene = open_scene(text, settings);
    assert_string_equal(scene_play(scene, 1e9), expected);
    scene_free(scene);
}

/* Threshold 100. A holds 2 GPUs, so it falls to q1 at 100 / 2 = 50 s. B came
 * at 10 and is in q0, behind A while A is too; at 50 it takes the GPUs, ends
 * at 80 with 60 GPU-seconds, and A goes on with 950 left: 1030. */
static void a_job_falls_at_the_moment_it_reaches_the_threshold(void **unused)
{
    (void)unused;
    plays("1 node x 2 gpus; A wants 2 for 1000; B wants 2 for 30 at 10",
          "tiresias.thresholds=100",
          "0: START A n0[0-1]\n"
          "50: STOP A; START B n0[0-1]\n"
          "80: DONE B; START A n0[0-1]\n"
          "1030: DONE A\n");
}

/* A has 200 GPU-seconds already and is in q1: B, in q0, stops it on arrival
 * and falls itself at 5 + 100 = 105; then both are in q1 and A, which came
 * first, takes it back. A has done 5, 95 are left: 200. B has done 100, 900 are
 * left: 1100. */
static void a_lower_queue_goes_first(void **unused)
{
    (void)unused;
    plays("1 node x 1 gpus; A wants 1 for 100 served 200; "
          "B wants 1 for 1000 at 5",
          "tiresias.thresholds=100",
          "0: START A n0[0]\n"
          "5: STOP A; START B n0[0]\n"
          "105: STOP B; START A n0[0]\n"
          "200: DONE A; START B n0[0]\n"
          "1100: DONE B\n");
}

/* Threshold 20, one GPU. A 0-20 falls, B 20-40 falls; in q1 A came first and
 * runs from 40. C (10 s) comes at 45 in q0: 45-55. A has done 25 and goes on
 * 55-130; B has 80 left: 210. */
static void within_a_queue_the_job_submitted_first_goes_first(void **unused)
{
    (void)unused;
    plays("1 node x 1 gpus; A wants 1 for 100; B wants 1 for 100; "
          "C wants 1 for 10 at 45",
          "tiresias.thresholds=20",
          "0: START A n0[0]\n"
          "20: STOP A; START B n0[0]\n"
          "40: STOP B; START A n0[0]\n"
          "45: STOP A; START C n0[0]\n"
          "55: DONE C; START A n0[0]\n"
          "130: DONE A; START B n0[0]\n"
          "210: DONE B\n");
}

/* Thresholds 10 and 30, one GPU. A 0-10 to q1; B 10-20 to q1; A 20-40 has 30,
 * to q2; B 40-60 has 30, to q2; then A to its end, 70 left: 130; B 70 left:
 * 200. */
static void several_thresholds_make_several_queues(void **unused)
{
    (void)unused;
    plays("1 node x 1 gpus; A wants 1 for 100; B wants 1 for 100",
          "tiresias.thresholds=10,30",
          "0: START A n0[0]\n"
          "10: STOP A; START B n0[0]\n"
          "20: STOP B; START A n0[0]\n"
          "40: STOP A; START B n0[0]\n"
          "60: STOP B; START A n0[0]\n"
          "130: DONE A; START B n0[0]\n"
          "200: DONE B\n");
}

/* Thresholds 10 and 40; D has 15 and is in q1. A 0-10 falls to q1 and goes on,
 * having come before D. B (5 s) takes the GPU 20-25; A has 20 then and keeps
 * them: it falls to q2 after 20 more, at 45. D runs from 45 and reaches 40
 * after 25, at 70. Then A, 60 left: 130; D, 75 left: 205. */
static void a_preempted_job_keeps_its_service(void **unused)
{
    (void)unused;
    plays("1 node x 1 gpus; A wants 1 for 100; D wants 1 for 100 served 15; "
          "B wants 1 for 5 at 20",
          "tiresias.thresholds=10,40",
          "0: START A n0[0]\n"
          "20: STOP A; START B n0[0]\n"
          "25: DONE B; START A n0[0]\n"
          "45: STOP A; START D n0[0]\n"
          "70: STOP D; START A n0[0]\n"
          "130: DONE A; START D n0[0]\n"
          "205: DONE D\n");
}

/* Restarts of 10 s: the GPUs are held meanwhile, so they are served too. A
 * falls at 50 as without, having done 40. B (20) 50-80. A restarts until 90,
 * then 960 left: 1050. */
static void time_spent_restarting_is_service(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "1 node x 2 gpus; A wants 2 for 1000; B wants 2 for 20 at 10",
        "tiresias.thresholds=100");
    scene->restart_s = 10;
    assert_string_equal(scene_play(scene, 1e9), "0: START A n0[0-1]\n"
                                                "50: STOP A; START B n0[0-1]\n"
                                                "80: DONE B; START A n0[0-1]\n"
                                                "1050: DONE A\n");
    scene_free(scene);
}

/* 57600 GPU-seconds are 16 GPU-hours: 8 GPUs reach them in 2 hours, 1 GPU in
 * 16. */
static void the_default_threshold_is_sixteen_gpu_hours(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "1 node x 9 gpus; A wants 8 for 1e6; B wants 1 for 1e6", NULL);
    scene_decide(scene, 0);
    assert_true(round_wake_s(scene->round) == 7200);
    scene_decide(scene, 7200);
    assert_true(round_wake_s(scene->round) == 57600);
    assert_string_equal(scene_text(scene), "A: n0[0-7]  B: n0[8]");
    scene_free(scene);
}

/* At the threshold exactly a job is in the next queue; just below it is not. */
static void the_threshold_itself_belongs_to_the_next_queue(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 1 gpus; A wants 1 served 100; B wants 1 served 99",
                   "tiresias.thresholds=100");
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), "A: -  B: n0[0]");
    scene_free(scene);
}

/* 100 / 3 is no whole number of seconds: the moment is rounded, and the job
 * must fall at it all the same, once. The same late in a long run, where the
 * clock itself is coarser. */
static void falling_survives_rounding(void **unused)
{
    (void)unused;
    static const double starts_s[] = {0, 1e6 + 0.1, 1e9 + 0.3};
    for (int i = 0; i < 3; i++) {
        struct scene *scene =
            open_scene("1 node x 3 gpus", "tiresias.thresholds=100,1000");
        scene->now_s = starts_s[i];
        scene_submit(scene, "A wants 3 for 1e5");
        scene_decide(scene, starts_s[i]);
        scene_submit(scene, "B wants 3 for 1e5");
        scene_play(scene, starts_s[i] + 33);
        assert_string_equal(scene_text(scene), "A: n0[0-2]  B: -");
        scene_play(scene, starts_s[i] + 34);
        assert_string_equal(scene_text(scene), "A: -  B: n0[0-2]");
        assert_true(round_count(scene->round) <= 3);
        scene_free(scene);
    }
}

/* 4 GPUs, threshold 40. A 3 and B 1 run and fall at 40 / 3 = 13.3 and 40. C 2
 * comes at 20 in q0: A (q1) is after it and no longer fits; B (q0 until 40)
 * stays. */
static void only_jobs_behind_in_order_give_way(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 4 gpus; A wants 3; B wants 1; C wants 2 at 20",
                   "tiresias.thresholds=40");
    scene_play(scene, 19);
    assert_string_equal(scene_text(scene), "A: n0[0-2]  B: n0[3]");
    scene_play(scene, 20);
    assert_string_equal(scene_text(scene), "A: -  B: n0[3]  C: n0[0-1]");
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_falls_at_the_moment_it_reaches_the_threshold),
        cmocka_unit_test(a_lower_queue_goes_first),
        cmocka_unit_test(within_a_queue_the_job_submitted_first_goes_first),
        cmocka_unit_test(several_thresholds_make_several_queues),
        cmocka_unit_test(a_preempted_job_keeps_its_service),
        cmocka_unit_test(time_spent_restarting_is_service),
        cmocka_unit_test(the_default_threshold_is_sixteen_gpu_hours),
        cmocka_unit_test(the_threshold_itself_belongs_to_the_next_queue),
        cmocka_unit_test(falling_survives_rounding),
        cmocka_unit_test(only_jobs_behind_in_order_give_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
