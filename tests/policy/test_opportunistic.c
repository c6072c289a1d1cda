/* test_opportunistic.c - first come, first served, on the fastest GPUs.
 *
 * n0 has t4, n1 a100, n2 v100, four each; a100 are faster than v100, and those
 * faster than t4. What goes where is worked out above each case.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "scene.h"
#include <cmocka.h>

#define YARD                                                           \
    "1 node x 4 gpus of t4; 1 node x 4 gpus of a100; 1 node x 4 gpus " \
    "of v100; "

static void places(const char *text, const char *settings, const char *expected)
{
    struct scene *scene =
        scene_new(text, firn_policy_find("opportunistic", NULL), settings);
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), expected);
    scene_free(scene);
}

static void the_types_are_of_different_speed(void **unused)
{
    (void)unused;
    struct firn_cluster c;
    assert_int_equal(
        firn_cluster_parse_spec(&c, "1x4:t4,1x4:a100,1x4:v100", NULL), FIRN_OK);
    assert_true(c.types[1].speed > c.types[2].speed);
    assert_true(c.types[2].speed > c.types[0].speed);
    firn_cluster_release(&c);
}

/* A 2 on a100, 2 left. B 3 does not fit there: v100, 1 left. C 2 on a100,
 * full. D 4: only t4 hold it. */
static void the_fastest_type_that_holds_the_whole_job_is_taken(void **unused)
{
    (void)unused;
    places(YARD "A wants 2; B wants 3; C wants 2; D wants 4", NULL,
           "A: n1[0-1]  B: n2[0-2]  C: n1[2-3]  D: n0[0-3]");
}

/* A 2 leaves 2 a100, B 3 leaves 1 v100. C 5 fits no type alone: 2 a100, then
 * 1 v100, then 2 t4. */
static void when_no_type_holds_it_the_idle_ones_are_mixed(void **unused)
{
    (void)unused;
    places(YARD "A wants 2; B wants 3; C wants 5", NULL,
           "A: n1[0-1]  B: n2[0-2]  C: n0[0-1] n1[2-3] n2[3]");
}

/* The same with D behind, which accepts t4 alone: C goes where it went, and D
 * takes one of the two t4 left. */
static void
mixing_takes_the_fastest_first_even_when_a_job_is_choosy(void **unused)
{
    (void)unused;
    places(YARD "A wants 2; B wants 3; C wants 5; D wants 1 types t4", NULL,
           "A: n1[0-1]  B: n2[0-2]  C: n0[0-1] n1[2-3] n2[3]  D: n0[2]");
}

/* A takes a100; B accepts t4 and v100: the faster of them. */
static void only_accepted_types_are_taken(void **unused)
{
    (void)unused;
    places(YARD "A wants 1; B wants 2 types t4|v100; C wants 4 types a100",
           NULL, "A: n1[0]  B: n2[0-1]  C: -");
}

/* 12 GPUs: A 10, B 3 does not fit in the 2 left and blocks C, unless it may be
 * skipped. A takes a100, v100 and 2 t4. */
static void a_job_that_does_not_fit_blocks_unless_skip_is_set(void **unused)
{
    (void)unused;
    places(YARD "A wants 10; B wants 3; C wants 1", NULL,
           "A: n0[0-1] n1[0-3] n2[0-3]  B: -  C: -");
    places(YARD "A wants 10; B wants 3; C wants 1", "opportunistic.skip=1",
           "A: n0[0-1] n1[0-3] n2[0-3]  B: -  C: n0[2]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_types_are_of_different_speed),
        cmocka_unit_test(the_fastest_type_that_holds_the_whole_job_is_taken),
        cmocka_unit_test(when_no_type_holds_it_the_idle_ones_are_mixed),
        cmocka_unit_test(
            mixing_takes_the_fastest_first_even_when_a_job_is_choosy),
        cmocka_unit_test(only_accepted_types_are_taken),
        cmocka_unit_test(a_job_that_does_not_fit_blocks_unless_skip_is_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
