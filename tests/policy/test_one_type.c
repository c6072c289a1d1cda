/* test_one_type.c - policies and jobs that keep to one GPU type for life.
 *
 * That no plan mixes types for them is core's to see to, and test_all.c tries
 * it on every policy. Here: that those policies which think in sums of GPUs
 * neither starve such a job nor others for its sake, and that EasyScale, which
 * mixes where it can, does not mix it.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "scene.h"
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static struct scene *open_scene(const char *policy, const char *machines,
                                const char *jobs)
{
    char text[256];
    snprintf(text, sizeof text, "%s; %s", machines, jobs);
    /* firn's options of easyscale: its proposals are made in one decision */
    return scene_new(text, firn_policy_find(policy, NULL),
                     "easyscale.several=1 easyscale.again=1 "
                     "easyscale.release=1 easyscale.timeout=0");
}

static void gives(const char *policy, const char *machines, const char *jobs,
                  const char *expected)
{
    struct scene *scene = open_scene(policy, machines, jobs);
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), expected);
    scene_free(scene);
}

#define TWO_AND_TWO "1 node x 2 gpus of v100; 1 node x 2 gpus of t4"
#define SINGLES     "3 nodes x 1 gpus of v100; 3 nodes x 1 gpus of t4"

/* Scenes know no priorities. */
static void set_priority(struct scene *scene, const char *name, int priority)
{
    struct state *state = scene_state(scene);
    for (struct state_job *sj = state->first; sj; sj = sj->after)
        if (strcmp(sj->job.spec.name, name) == 0)
            sj->job.spec.priority = priority;
}

/* Mixing is faster, and it is not mixed; nor moved to the other type when the
 * GPUs of its own are taken. */
static void easyscale_does_not_mix_types_for_a_job_of_one_type(void **unused)
{
    (void)unused;
    for (int mixes = 0; mixes < 2; mixes++) {
        struct scene *scene = open_scene("easyscale", TWO_AND_TWO,
                                         mixes ? "A wants 4 from 1 to 4"
                                               : "A wants 4 from 1 to 4 alike");
        scene_decide(scene, 0);
        assert_string_equal(scene_text(scene),
                            mixes ? "A: n0[0-1] n1[0-1]" : "A: n0[0-1]");
        scene_submit(scene, "B wants 2 types v100");
        set_priority(scene, "B", 1);
        scene_decide(scene, 1);
        assert_string_equal(scene_text(scene), mixes ? "A: n1[0-1]  B: n0[0-1]"
                                                     : "A: -  B: n0[0-1]");
        scene_done(scene, "B");
        scene_decide(scene, 3);
        assert_true(scene_job(scene, "A")->held.ngpus >= 2);
        scene_free(scene);
    }
}

/* Two of each are free, and A must have three. */
static void easyscale_lets_it_wait_for_enough_of_one_type(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "easyscale", "1 node x 3 gpus of v100; 1 node x 2 gpus of t4",
        "X wants 1 on n0[0]; A wants 3 alike");
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), "X: n0[0]  A: -");
    assert_string_equal(scene_job(scene, "A")->note,
                        "needs 3 GPUs of one type: 4 free, 0 to take back");
    scene_done(scene, "X");
    scene_decide(scene, 1);
    assert_string_equal(scene_text(scene), "A: n0[0-2]");
    scene_free(scene);
    gives("easyscale", "1 node x 3 gpus of v100; 1 node x 2 gpus of t4",
          "X wants 1 on n0[0]; A wants 3", "X: n0[0]  A: n0[1-2] n1[0]");
}

/* B, of three v100s, takes back what A has of them beyond its minimum, and no
 * t4. */
static void easyscale_takes_back_gpus_of_one_type_for_it(void **unused)
{
    (void)unused;
    gives("easyscale", "1 node x 4 gpus of v100; 1 node x 2 gpus of t4",
          "A wants 4 from 1 to 4 on n0[0-1] n1[0-1]; "
          "X wants 1 on n0[2]; B wants 3 alike",
          "A: n1[0-1]  X: n0[2]  B: n0[0-1,3]");
}

/* By their sum A could have two; no type has them. */
static void optimus_gives_it_fewer_where_no_type_has_as_many(void **unused)
{
    (void)unused;
    gives("optimus", TWO_AND_TWO,
          "X wants 1 on n0[0]; Y wants 1 on n1[0]; A wants 4 from 1 to 4 alike",
          "X: n0[0]  Y: n1[0]  A: n0[1]");
    gives("optimus", TWO_AND_TWO,
          "X wants 1 on n0[0]; Y wants 1 on n1[0]; A wants 4 from 1 to 4",
          "X: n0[0]  Y: n1[0]  A: n0[1] n1[1]");
    gives("optimus", TWO_AND_TWO, "A wants 4 from 1 to 4 alike", "A: n0[0-1]");
}

/* B finds no three of one type; C, as large, may mix and starts. */
static void jobs_that_may_mix_types_do_not_wait_for_one_type(void **unused)
{
    (void)unused;
    static const char *const names[] = {"lucid", "frenzy", "sjf", "sjf-ffs"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct scene *scene =
            open_scene(names[i], SINGLES,
                       "X wants 1 on n0[0]; Y wants 1 on n3[0]; "
                       "B wants 3 for 100 alike; C wants 3 for 200");
        scene_decide(scene, 0);
        if (scene_job(scene, "B")->held.ngpus != 0 ||
            scene_job(scene, "C")->held.ngpus != 3)
            fail_msg("%s: %s", names[i], scene_text(scene));
        scene_free(scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(easyscale_does_not_mix_types_for_a_job_of_one_type),
        cmocka_unit_test(easyscale_lets_it_wait_for_enough_of_one_type),
        cmocka_unit_test(easyscale_takes_back_gpus_of_one_type_for_it),
        cmocka_unit_test(optimus_gives_it_fewer_where_no_type_has_as_many),
        cmocka_unit_test(jobs_that_may_mix_types_do_not_wait_for_one_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
