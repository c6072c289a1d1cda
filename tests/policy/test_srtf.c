/* test_srtf.c - shortest remaining time first, taking GPUs back.
 *
 * The schedules are worked out by hand above each case.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "scene.h"
#include <cmocka.h>

static struct scene *open_scene(const char *text)
{
    return scene_new(text, firn_policy_find("srtf", NULL), NULL);
}

static void plays(const char *text, double restart_s, const char *expected)
{
    struct scene *scene = open_scene(text);
    scene->restart_s = restart_s;
    assert_string_equal(scene_play(scene, 1e9), expected);
    scene_free(scene);
}

/* One GPU. A needs 100 and has 90 left at 10, when B comes with 30: B runs
 * 10-40, then A goes on where it was: 40 + 90 = 130. */
static void a_shorter_job_preempts_and_the_other_resumes(void **unused)
{
    (void)unused;
    plays("1 node x 1 gpus; A wants 1 for 100; B wants 1 for 30 at 10", 0,
          "0: START A n0[0]\n"
          "10: STOP A; START B n0[0]\n"
          "40: DONE B; START A n0[0]\n"
          "130: DONE A\n");
}

/* B comes at 75 with 30: A has 25 left and stays until 100; B 100-130. */
static void what_is_left_counts_and_not_the_whole_length(void **unused)
{
    (void)unused;
    plays("1 node x 1 gpus; A wants 1 for 100; B wants 1 for 30 at 75", 0,
          "0: START A n0[0]\n"
          "100: DONE A; START B n0[0]\n"
          "130: DONE B\n");
}

/* B comes at 70 with 30, and A has 30 left: equal, so the lower id goes on. */
static void equal_remaining_times_leave_the_earlier_job_running(void **unused)
{
    (void)unused;
    plays("1 node x 1 gpus; A wants 1 for 100; B wants 1 for 30 at 70", 0,
          "0: START A n0[0]\n"
          "100: DONE A; START B n0[0]\n"
          "130: DONE B\n");
}

/* A restart costs 10 s. A runs 0-20 of which 10 are restart: 10 done, 90
 * left. B (20) comes at 20 and ends at 20 + 10 + 20 = 50. C (85) comes at 50:
 * A waits with 90, so C goes first, 50 + 10 + 85 = 145. A: 145 + 10 + 90 =
 * 245. */
static void a_restart_is_part_of_the_remaining_time(void **unused)
{
    (void)unused;
    plays("1 node x 1 gpus; A wants 1 for 100; B wants 1 for 20 at 20; "
          "C wants 1 for 85 at 50",
          10,
          "0: START A n0[0]\n"
          "20: STOP A; START B n0[0]\n"
          "50: DONE B; START C n0[0]\n"
          "145: DONE C; START A n0[0]\n"
          "245: DONE A\n");
}

/* 4 GPUs. A 2x100 and B 2x50 run. C 4x10 comes at 5, shorter than both: both
 * stop, C runs 5-15. B goes on with 45 until 60, A with 95 until 110. */
static void a_gang_pushes_out_as_many_as_it_needs(void **unused)
{
    (void)unused;
    plays("1 node x 4 gpus; A wants 2 for 100; B wants 2 for 50; "
          "C wants 4 for 10 at 5",
          0,
          "0: START A n0[2-3]; START B n0[0-1]\n"
          "5: STOP A; STOP B; START C n0[0-3]\n"
          "15: DONE C; START A n0[2-3]; START B n0[0-1]\n"
          "60: DONE B\n"
          "110: DONE A\n");
}

/* 4 GPUs: A 3x100. B 2x50 comes at 5: A (95 left) gives way, though only 1 of
 * its 3 GPUs is missing; with B's 2 taken A's 3 do not fit. A: 55 + 95 =
 * 150. */
static void only_the_longest_give_way(void **unused)
{
    (void)unused;
    plays("1 node x 4 gpus; A wants 3 for 100; B wants 2 for 50 at 5", 0,
          "0: START A n0[0-2]\n"
          "5: STOP A; START B n0[0-1]\n"
          "55: DONE B; START A n0[0-2]\n"
          "150: DONE A\n");
}

/* 4 GPUs: A 1x100, B 3x80 run. C 2x10 comes at 1: B (79 left) is after C, A
 * (99) after B. C 2 + B 3 > 4: B is passed over; C 2 + A 1 fit, so A goes on
 * although it is the longest. */
static void a_pushed_job_is_passed_over_by_a_smaller_one(void **unused)
{
    (void)unused;
    plays("1 node x 4 gpus; A wants 1 for 100; B wants 3 for 80; "
          "C wants 2 for 10 at 1",
          0,
          "0: START A n0[3]; START B n0[0-2]\n"
          "1: STOP B; START C n0[0-1]\n"
          "11: DONE C; START B n0[0-2]\n"
          "90: DONE B\n"
          "100: DONE A\n");
}

/* 4 v100 and 2 t4. A, the shortest, runs on the t4 and counts there: the v100
 * are all free for C, which accepts no others. B, the longest, waits. */
static void a_running_job_counts_on_the_type_it_has(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 4 gpus of v100; 1 node x 2 gpus of t4; "
                   "A wants 2 for 10 on n1[0-1]; B wants 1 for 90 on n0[0]; "
                   "C wants 4 for 20 types v100");
    scene_decide(scene, 0);
    assert_string_equal(scene_steps(scene), "STOP B; START C n0[0-3]");
    scene_free(scene);
}

/* A, on t4 but able to use any, gives way to C, which accepts t4 alone and is
 * shorter; there is room on the v100, so A moves there and does not wait. */
static void a_job_moves_to_make_room_when_it_can(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 4 gpus of v100; 1 node x 2 gpus of t4; "
                   "A wants 2 for 50 on n1[0-1]; C wants 2 for 20 types t4");
    scene_decide(scene, 0);
    assert_string_equal(scene_steps(scene), "MOVE A n0[0-1]; START C n1[0-1]");
    scene_free(scene);
}

/* Work done before counts: B has done 90 of 100 and goes before A with 20. */
static void progress_made_earlier_counts(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 1 gpus; A wants 1 for 20; B wants 1 for 100 did "
                   "90 took 90 served 90");
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), "A: -  B: n0[0]");
    scene_free(scene);
}

/* One GPU, no preemption. A (100) runs to its end though B (30) comes at 10
 * and C (20) at 20; then C goes before B. */
static void without_preemption_only_the_waiting_are_ordered(void **unused)
{
    (void)unused;
    struct scene *scene =
        scene_new("1 node x 1 gpus; A wants 1 for 100; B wants 1 for 30 at 10; "
                  "C wants 1 for 20 at 20",
                  firn_policy_find("srtf", NULL), "srtf.preempt=no");
    assert_string_equal(scene_play(scene, 1e9), "0: START A n0[0]\n"
                                                "100: DONE A; START C n0[0]\n"
                                                "120: DONE C; START B n0[0]\n"
                                                "150: DONE B\n");
    scene_free(scene);
}

/* 4 GPUs, no preemption: A 3x100 runs. B 2x10 comes at 5 and has to wait,
 * C 1x50, longer, fits beside A at once. */
static void
without_preemption_a_job_that_does_not_fit_is_passed_over(void **unused)
{
    (void)unused;
    struct scene *scene =
        scene_new("1 node x 4 gpus; A wants 3 for 100; B wants 2 for 10 at 5; "
                  "C wants 1 for 50 at 5",
                  firn_policy_find("srtf", NULL), "srtf.preempt=no");
    assert_string_equal(scene_play(scene, 1e9), "0: START A n0[0-2]\n"
                                                "5: START C n0[3]\n"
                                                "55: DONE C\n"
                                                "100: DONE A; START B n0[0-1]\n"
                                                "110: DONE B\n");
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shorter_job_preempts_and_the_other_resumes),
        cmocka_unit_test(what_is_left_counts_and_not_the_whole_length),
        cmocka_unit_test(equal_remaining_times_leave_the_earlier_job_running),
        cmocka_unit_test(a_restart_is_part_of_the_remaining_time),
        cmocka_unit_test(a_gang_pushes_out_as_many_as_it_needs),
        cmocka_unit_test(only_the_longest_give_way),
        cmocka_unit_test(a_pushed_job_is_passed_over_by_a_smaller_one),
        cmocka_unit_test(a_running_job_counts_on_the_type_it_has),
        cmocka_unit_test(a_job_moves_to_make_room_when_it_can),
        cmocka_unit_test(progress_made_earlier_counts),
        cmocka_unit_test(without_preemption_only_the_waiting_are_ordered),
        cmocka_unit_test(
            without_preemption_a_job_that_does_not_fit_is_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
