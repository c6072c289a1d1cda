/* test_fifo.c - first come, first served: strict, and with skipping.
 *
 * Every schedule is worked out by hand in the comment above it. "A 3x50" is a
 * job of 3 GPUs for 50 seconds.
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
    struct scene *scene =
        scene_new(text, firn_policy_find("fifo", NULL), settings);
    return scene;
}

static void plays(const char *text, const char *settings, const char *expected)
{
    struct scene *scene = open_scene(text, settings);
    assert_string_equal(scene_play(scene, 1e9), expected);
    scene_free(scene);
}

/* 4 GPUs; A 3x50, B 2x20, C 1x10, all at 0.
 *
 * Strict: A runs 0-50. B does not fit in the 1 GPU left and blocks C, so both
 * start at 50, when 4 are free; C ends at 60, B at 70. */
static void strict_fifo_lets_no_job_pass_one_that_does_not_fit(void **unused)
{
    (void)unused;
    plays("1 node x 4 gpus; A wants 3 for 50; B wants 2 for 20; "
          "C wants 1 for 10",
          NULL,
          "0: START A n0[0-2]\n"
          "50: DONE A; START B n0[0-1]; START C n0[2]\n"
          "60: DONE C\n"
          "70: DONE B\n");
}

/* The same with skip=1: C takes the GPU that is left, 0-10. B still waits
 * until 50 and ends at 70. */
static void with_skip_later_jobs_that_fit_pass(void **unused)
{
    (void)unused;
    plays("1 node x 4 gpus; A wants 3 for 50; B wants 2 for 20; "
          "C wants 1 for 10",
          "fifo.skip=1",
          "0: START A n0[0-2]; START C n0[3]\n"
          "10: DONE C\n"
          "50: DONE A; START B n0[0-1]\n"
          "70: DONE B\n");
}

/* A 2x100 at 0, B 4x10 at 5, C 2x10 at 6: C could run at 6 but B, which came
 * before, needs all 4: B runs 100-110, C 110-120. With skip C runs 6-16. */
static void a_later_job_waits_for_an_earlier_large_one(void **unused)
{
    (void)unused;
    plays("1 node x 4 gpus; A wants 2 for 100; B wants 4 for 10 at 5; "
          "C wants 2 for 10 at 6",
          NULL,
          "0: START A n0[0-1]\n"
          "100: DONE A; START B n0[0-3]\n"
          "110: DONE B; START C n0[0-1]\n"
          "120: DONE C\n");
    plays("1 node x 4 gpus; A wants 2 for 100; B wants 4 for 10 at 5; "
          "C wants 2 for 10 at 6",
          "fifo.skip=1",
          "0: START A n0[0-1]\n"
          "6: START C n0[2-3]\n"
          "16: DONE C\n"
          "100: DONE A; START B n0[0-3]\n"
          "110: DONE B\n");
}

/* Jobs of the same size start in the order they came: one GPU, four jobs of
 * 10 s, each after the one before. */
static void equal_jobs_go_in_the_order_they_came(void **unused)
{
    (void)unused;
    plays("1 node x 1 gpus; D wants 1 for 10; A wants 1 for 10 at 1; "
          "C wants 1 for 10 at 1; B wants 1 for 10 at 2",
          NULL,
          "0: START D n0[0]\n"
          "10: DONE D; START A n0[0]\n"
          "20: DONE A; START C n0[0]\n"
          "30: DONE C; START B n0[0]\n"
          "40: DONE B\n");
}

/* A gang may span nodes: B 6 of 8 GPUs takes the empty node whole and two of
 * the other. */
static void a_gang_spreads_when_no_node_holds_it(void **unused)
{
    (void)unused;
    plays("2 nodes x 4 gpus; A wants 1 for 10; B wants 6 for 10", NULL,
          "0: START A n0[0]; START B n0[1-2] n1[0-3]\n"
          "10: DONE A; DONE B\n");
}

/* Choosy jobs: A wants both t4 and blocks no job once it runs; B wants a t4,
 * none is left, and blocks C although v100 are free (strict). */
static void a_choosy_job_at_the_head_blocks_too(void **unused)
{
    (void)unused;
    static const char *const text =
        "1 node x 4 gpus of v100; 1 node x 2 gpus of t4; "
        "A wants 2 for 30 types t4; B wants 1 for 10 types t4; C wants 1 "
        "for 10 types v100";
    plays(text, NULL,
          "0: START A n1[0-1]\n"
          "30: DONE A; START B n1[0]; START C n0[0]\n"
          "40: DONE B; DONE C\n");
    plays(text, "fifo.skip=1",
          "0: START A n1[0-1]; START C n0[0]\n"
          "10: DONE C\n"
          "30: DONE A; START B n1[0]\n"
          "40: DONE B\n");
}

/* A, lost with its node at 10, is still first: it starts again on what is
 * left, before B, which waits behind it. */
static void a_job_that_lost_its_node_keeps_its_turn(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "2 nodes x 4 gpus; A wants 4 for 50; B wants 4 for 90; C wants 4 "
        "for 90",
        NULL);
    assert_string_equal(scene_play(scene, 10),
                        "0: START A n0[0-3]; START B n1[0-3]\n");
    scene->now_s = 10;
    scene_node(scene, 0, false);
    scene_decide(scene, 10);
    assert_string_equal(scene_text(scene), "A: -  B: n1[0-3]  C: -");
    scene_node(scene, 0, true);
    scene_decide(scene, 20);
    assert_string_equal(scene_text(scene), "A: n0[0-3]  B: n1[0-3]  C: -");
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strict_fifo_lets_no_job_pass_one_that_does_not_fit),
        cmocka_unit_test(with_skip_later_jobs_that_fit_pass),
        cmocka_unit_test(a_later_job_waits_for_an_earlier_large_one),
        cmocka_unit_test(equal_jobs_go_in_the_order_they_came),
        cmocka_unit_test(a_gang_spreads_when_no_node_holds_it),
        cmocka_unit_test(a_choosy_job_at_the_head_blocks_too),
        cmocka_unit_test(a_job_that_lost_its_node_keeps_its_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
