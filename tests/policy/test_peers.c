/* test_peers.c - equal jobs exchange their answers by age. */
#include "policy/peers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "scene.h"
#include <cmocka.h>

/* What a policy of this test saw and got. */
static size_t seen[8];
static double answers[8];
static uint64_t kinds[8];

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    const struct firn_job *const *jobs = firn_view_jobs(view);
    struct peer peers[8];
    (void)state;
    for (size_t i = 0; i < view->njobs; i++)
        peers[i] = (struct peer){jobs[i], kinds[i], answers[i]};
    const size_t *from = peers_settle(view, peers, view->njobs);
    for (size_t i = 0; i < view->njobs; i++)
        seen[i] = from[i];
    firn_plan_keep_all(plan);
    return FIRN_OK;
}

static const struct firn_policy_def policy = {.size = sizeof policy,
                                              .name = "probe",
                                              .summary = "settles peers",
                                              .decide = decide};

/* The answers of the jobs of `text`, by id, after they were settled. */
static void expect_from(const char *text, const double *gets,
                        const size_t *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        answers[i] = gets[i];
    struct scene *scene = scene_new(text, &policy, NULL);
    scene_decide(scene, 0);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(seen[i], from[i]);
    scene_free(scene);
}

static void of_equal_jobs_the_older_has_the_larger_answer(void **unused)
{
    (void)unused;
    expect_from("1 node x 4 gpus; A wants 1 for 6; B wants 1 for 6; "
                "C wants 1 for 6; D wants 1 for 6",
                (double[]){0, 2, 1, 2}, (size_t[]){1, 3, 2, 0}, 4);
}

static void unequal_jobs_keep_their_answers(void **unused)
{
    (void)unused;
    expect_from("1 node x 4 gpus; A wants 1 for 6; B wants 1 for 7; "
                "C wants 2 for 6; D wants 1 for 6 shares; E wants 1 for 6",
                (double[]){0, 2, 1, 2, 1}, (size_t[]){4, 1, 2, 3, 0}, 5);
}

static void a_job_that_holds_gpus_keeps_its_answer(void **unused)
{
    (void)unused;
    expect_from("1 node x 4 gpus; A wants 1 for 6 on n0[0]; B wants 1 for 6; "
                "C wants 1 for 6",
                (double[]){0, 1, 2}, (size_t[]){0, 2, 1}, 3);
}

static void jobs_of_different_kinds_keep_their_answers(void **unused)
{
    (void)unused;
    kinds[1] = 1;
    expect_from("1 node x 4 gpus; A wants 1 for 6; B wants 1 for 6",
                (double[]){0, 1}, (size_t[]){0, 1}, 2);
    kinds[1] = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_equal_jobs_the_older_has_the_larger_answer),
        cmocka_unit_test(unequal_jobs_keep_their_answers),
        cmocka_unit_test(a_job_that_holds_gpus_keeps_its_answer),
        cmocka_unit_test(jobs_of_different_kinds_keep_their_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
