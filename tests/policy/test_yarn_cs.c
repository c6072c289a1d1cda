/* test_yarn_cs.c - FIFO of gangs, each on one GPU type.
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

static void plays(const char *text, const char *expected)
{
    struct scene *scene =
        scene_new(text, firn_policy_find("yarn-cs", NULL), NULL);
    assert_string_equal(scene_play(scene, 1e9), expected);
    scene_free(scene);
}

/* 4 v100 and 2 t4. A 3x50 on v100, leaving 1 v100 and 2 t4: 3 GPUs in all. B
 * 3x20 would fit by mixing, but no type has 3: it waits until A's end at 50
 * and blocks C 1x10, for which there was room. */
static void a_job_never_mixes_types_and_blocks_those_behind(void **unused)
{
    (void)unused;
    plays("1 node x 4 gpus of v100; 1 node x 2 gpus of t4; A wants 3 for 50; "
          "B wants 3 for 20; C wants 1 for 10",
          "0: START A n0[0-2]\n"
          "50: DONE A; START B n0[0-2]; START C n0[3]\n"
          "60: DONE C\n"
          "70: DONE B\n");
}

/* 4 v100 and 4 t4. A 3 and B 3 leave one of each: 2 GPUs, but C's 2 would be
 * of two types. C waits for A's end at 20, and D, for which there was room,
 * behind it. */
static void gpus_of_two_types_are_no_room_for_one_job(void **unused)
{
    (void)unused;
    plays("1 node x 4 gpus of v100; 1 node x 4 gpus of t4; A wants 3 for 20; "
          "B wants 3 for 30; C wants 2 for 10; D wants 1 for 10 types t4",
          "0: START A n0[0-2]; START B n1[0-2]\n"
          "20: DONE A; START C n0[0-1]; START D n1[3]\n"
          "30: DONE B; DONE C; DONE D\n");
}

/* Two types with room: both jobs start, each within a type. A 4 fills the
 * v100; B 2 takes the t4; C 1 finds nothing until B ends at 30. */
static void jobs_of_different_types_run_side_by_side(void **unused)
{
    (void)unused;
    plays("1 node x 4 gpus of v100; 1 node x 2 gpus of t4; A wants 4 for 50; "
          "B wants 2 for 30; C wants 1 for 10",
          "0: START A n0[0-3]; START B n1[0-1]\n"
          "30: DONE B; START C n1[0]\n"
          "40: DONE C\n"
          "50: DONE A\n");
}

/* A single node holds A either way; on t4 no GPU is left over, on v100 four
 * are. */
static void a_job_goes_to_the_type_it_fits_best(void **unused)
{
    (void)unused;
    plays("2 nodes x 8 gpus of v100; 1 node x 4 gpus of t4; A wants 4 for 10",
          "0: START A n2[0-3]\n"
          "10: DONE A\n");
}

/* A type a job does not accept is no room for it: A has the t4, B waits for
 * them although 4 v100 are free, and blocks C. */
static void a_choosy_job_waits_for_its_type(void **unused)
{
    (void)unused;
    plays("1 node x 4 gpus of v100; 1 node x 2 gpus of t4; "
          "A wants 2 for 30 types t4; B wants 2 for 10 types t4; "
          "C wants 4 for 10",
          "0: START A n1[0-1]\n"
          "30: DONE A; START B n1[0-1]; START C n0[0-3]\n"
          "40: DONE B; DONE C\n");
}

/* On one type it is fifo: see test_fifo.c for the same schedule. */
static void a_job_larger_than_every_type_is_turned_away(void **unused)
{
    (void)unused;
    struct scene *scene =
        scene_new("1 node x 4 gpus of v100; 1 node x 2 gpus of t4; "
                  "A wants 5 for 20; B wants 2 for 10",
                  firn_policy_find("yarn-cs", NULL), NULL);
    scene_decide(scene, 0);
    assert_string_equal(scene_steps(scene), "START B n1[0-1]; REJECT A");
    assert_null(scene_job(scene, "A"));
    scene_free(scene);
}

static void on_one_type_it_is_fifo(void **unused)
{
    (void)unused;
    plays("1 node x 4 gpus; A wants 3 for 50; B wants 2 for 20; "
          "C wants 1 for 10",
          "0: START A n0[0-2]\n"
          "50: DONE A; START B n0[0-1]; START C n0[2]\n"
          "60: DONE C\n"
          "70: DONE B\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_never_mixes_types_and_blocks_those_behind),
        cmocka_unit_test(gpus_of_two_types_are_no_room_for_one_job),
        cmocka_unit_test(jobs_of_different_types_run_side_by_side),
        cmocka_unit_test(a_job_goes_to_the_type_it_fits_best),
        cmocka_unit_test(a_choosy_job_waits_for_its_type),
        cmocka_unit_test(a_job_larger_than_every_type_is_turned_away),
        cmocka_unit_test(on_one_type_it_is_fifo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
