/* test_sjf.c - shortest job first, without preemption.
 *
 * The schedules are worked out by hand above each case; "A 2x50" is a job of 2
 * GPUs for 50 seconds.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "scene.h"
#include <cmocka.h>

static void plays(const char *text, const char *settings, const char *expected)
{
    struct scene *scene =
        scene_new(text, firn_policy_find("sjf", NULL), settings);
    assert_string_equal(scene_play(scene, 1e9), expected);
    scene_free(scene);
}

/* One GPU, A 30, B 10, C 20 at 0: B 0-10, C 10-30, A 30-60. Mean completion
 * (10 + 30 + 60) / 3 = 33.3 where FIFO has (30 + 40 + 60) / 3 = 43.3. */
static void the_shortest_job_starts_first(void **unused)
{
    (void)unused;
    plays("1 node x 1 gpus; A wants 1 for 30; B wants 1 for 10; "
          "C wants 1 for 20",
          NULL,
          "0: START B n0[0]\n"
          "10: DONE B; START C n0[0]\n"
          "30: DONE C; START A n0[0]\n"
          "60: DONE A\n");
}

/* A 100 s runs; B 5 s, which comes at 1, waits for its end all the same. */
static void a_running_job_runs_to_its_end(void **unused)
{
    (void)unused;
    plays("1 node x 1 gpus; A wants 1 for 100; B wants 1 for 5 at 1", NULL,
          "0: START A n0[0]\n"
          "100: DONE A; START B n0[0]\n"
          "105: DONE B\n");
}

/* 4 GPUs: B 3x10, then C 3x20, then A 1x30. B runs; C does not fit in the GPU
 * left; A, the longest, does and passes it. C starts when B ends at 10. */
static void a_job_that_does_not_fit_is_passed_over(void **unused)
{
    (void)unused;
    plays("1 node x 4 gpus; A wants 1 for 30; B wants 3 for 10; "
          "C wants 3 for 20",
          NULL,
          "0: START A n0[3]; START B n0[0-2]\n"
          "10: DONE B; START C n0[0-2]\n"
          "30: DONE A; DONE C\n");
}

/* The same with skip=0: C blocks A until 10; A runs 10-40, C 10-30. */
static void without_skip_it_blocks(void **unused)
{
    (void)unused;
    plays("1 node x 4 gpus; A wants 1 for 30; B wants 3 for 10; "
          "C wants 3 for 20",
          "sjf.skip=0",
          "0: START B n0[0-2]\n"
          "10: DONE B; START A n0[3]; START C n0[0-2]\n"
          "30: DONE C\n"
          "40: DONE A\n");
}

/* Equal run times: the lower id, that is who came first. */
static void equal_run_times_go_by_submission(void **unused)
{
    (void)unused;
    plays("1 node x 1 gpus; C wants 1 for 10; B wants 1 for 10; "
          "A wants 1 for 10",
          NULL,
          "0: START C n0[0]\n"
          "10: DONE C; START B n0[0]\n"
          "20: DONE B; START A n0[0]\n"
          "30: DONE A\n");
}

/* The length alone counts, not GPUs x length: A 4x20 before B 1x30. */
static void the_number_of_gpus_does_not_matter_for_the_order(void **unused)
{
    (void)unused;
    plays("1 node x 4 gpus; B wants 1 for 30; A wants 4 for 20", NULL,
          "0: START A n0[0-3]\n"
          "20: DONE A; START B n0[0]\n"
          "50: DONE B\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shortest_job_starts_first),
        cmocka_unit_test(a_running_job_runs_to_its_end),
        cmocka_unit_test(a_job_that_does_not_fit_is_passed_over),
        cmocka_unit_test(without_skip_it_blocks),
        cmocka_unit_test(equal_run_times_go_by_submission),
        cmocka_unit_test(the_number_of_gpus_does_not_matter_for_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
