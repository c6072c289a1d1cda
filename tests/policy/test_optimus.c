/* test_optimus.c - each GPU to the job it saves the most time.
 *
 * Forecasts are the scene's: speed S(r) of a job on r GPUs against one, with
 * left(r) = duration x S(asked) / S(r). Unless a case says otherwise, the jobs
 * scale as r / (1 + 0.1 (r - 1)): S = 1, 1.818, 2.5, 3.077, 3.571, 4. A job
 * that asked for one GPU and takes 1000 s there has left(r) = 1000, 550, 400,
 * 325, 280, 250: a second GPU saves it 450, a third 150, then 75, 45, 30.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "scene_random.h"
#include <cmocka.h>
#include <math.h>
#include <string.h>

static struct scene *open_scene(const char *text, const char *settings)
{
    return scene_new(text, firn_policy_find("optimus", NULL), settings);
}

static void gives(const char *text, const char *settings, const char *expected)
{
    struct scene *scene = open_scene(text, settings);
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), expected);
    scene_free(scene);
}

/* Four GPUs, two jobs of 1000 s and of 400 s on one GPU. One each; A's second
 * saves 450, B's 400 - 220 = 180; then A's third 150, less than B's second. */
static void a_gpu_goes_where_it_saves_most(void **unused)
{
    (void)unused;
    gives("1 node x 3 gpus; A wants 1 from 1 to 4 for 1000; "
          "B wants 1 from 1 to 4 for 400",
          NULL, "A: n0[1-2]  B: n0[0]");
    gives("1 node x 4 gpus; A wants 1 from 1 to 4 for 1000; "
          "B wants 1 from 1 to 4 for 400",
          NULL, "A: n0[0-1]  B: n0[2-3]");
    /* the fifth: A's third saves 150, B's 220 - 160 = 60 */
    gives("1 node x 5 gpus; A wants 1 from 1 to 4 for 1000; "
          "B wants 1 from 1 to 4 for 400",
          NULL, "A: n0[2-4]  B: n0[0-1]");
}

/* Equal jobs, one GPU too many: to the one that came first. */
static void of_equal_gains_the_earlier_job_is_served(void **unused)
{
    (void)unused;
    gives("1 node x 3 gpus; A wants 1 from 1 to 4; B wants 1 from 1 to 4", NULL,
          "A: n0[1-2]  B: n0[0]");
}

static void each_job_gets_one_gpu_first(void **unused)
{
    (void)unused;
    gives("1 node x 3 gpus; A wants 1 from 1 to 4 for 1e6; "
          "B wants 1 from 1 to 4 for 1; C wants 1 from 1 to 4 for 1; "
          "D wants 1 from 1 to 4 for 1e9",
          NULL, "A: n0[0]  B: n0[1]  C: n0[2]  D: -");
}

static void a_waiting_job_has_a_note_with_the_reason(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 1 gpus; A wants 1; B wants 1", NULL);
    scene_decide(scene, 0);
    assert_non_null(strstr(scene_job(scene, "B")->note, "earlier jobs"));
    scene_free(scene);
}

/* A gang of 3 does not fit beside A: it is passed over, and C is served. */
static void gangs_get_what_they_asked_for_or_nothing(void **unused)
{
    (void)unused;
    gives("1 node x 3 gpus; A wants 1; B wants 3; C wants 2", NULL,
          "A: n0[0]  B: -  C: n0[1-2]");
    gives("1 node x 4 gpus; A wants 1; B wants 3", NULL,
          "A: n0[0]  B: n0[1-3]");
}

static double no_better_beyond_two(const struct firn_job *job, int gpus,
                                   int nodes)
{
    (void)job;
    (void)nodes;
    return gpus == 1 ? 1 : gpus == 2 ? 1.5 : gpus == 3 ? 1.5 : 100;
}

/* The third GPU saves nothing: the job gets no more, although four would be
 * splendid, and the rest of the GPUs stay free. */
static void a_job_that_gains_nothing_is_not_looked_at_again(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 4 gpus; A wants 1 from 1 to 4", NULL);
    scene->speed = no_better_beyond_two;
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), "A: n0[0-1]");
    scene_free(scene);
}

static double unknown(const struct firn_job *job, int gpus, int nodes)
{
    (void)job;
    (void)gpus;
    (void)nodes;
    return (double)NAN;
}

static void
without_a_forecast_no_job_gets_more_than_its_fewest_gpus(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "1 node x 8 gpus; A wants 2 from 2 to 4; B wants 1 from 1 to 4", NULL);
    scene->speed = unknown;
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), "A: n0[1-2]  B: n0[0]");
    scene_free(scene);
}

/* A holds 2 of 4 GPUs and so does B: as many as they are to get, so they stay,
 * scattered as they are. */
static void equal_counts_keep_their_place(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("2 nodes x 2 gpus; A wants 1 from 1 to 4 on n0[0] n1[0]; "
                   "B wants 1 from 1 to 4 on n0[1] n1[1]",
                   NULL);
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), "A: n0[0] n1[0]  B: n0[1] n1[1]");
    assert_int_equal(scene->nsteps, 0);
    scene_free(scene);
}

/* C comes: A gives one of its three up and is placed anew, after C, which has
 * fewer; B keeps both of its own. */
static void the_others_are_placed_those_with_few_gpus_first(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 5 gpus; A wants 1 from 1 to 4 on n0[0-2]; "
                   "B wants 1 from 1 to 4 on n0[3-4]; "
                   "C wants 1 from 1 to 4 for 10",
                   NULL);
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), "A: n0[1-2]  B: n0[3-4]  C: n0[0]");
    scene_free(scene);
}

static void it_decides_again_after_the_interval(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene("1 node x 1 gpus; A wants 1 for 1000",
                                     "optimus.interval=25");
    scene_decide(scene, 0);
    assert_true(round_wake_s(scene->round) == 25);
    scene_free(scene);
}

/* ---- sharing ---- */

static const char two[] = "1 node x 1 gpus; 2 jobs per gpu; "
                          "A wants 1 shares for 100; B wants 1 shares for 100";

static void without_the_option_no_jobs_share(void **unused)
{
    (void)unused;
    gives(two, NULL, "A: n0[0]  B: -");
}

static void a_job_that_finds_no_gpu_joins_another(void **unused)
{
    (void)unused;
    gives(two, "optimus.sharing=1", "A: n0[0]~  B: n0[0]~");
}

/* The scene forecasts 1.1 for each pair. */
static void too_slow_a_pair_is_not_made(void **unused)
{
    (void)unused;
    gives(two, "optimus.sharing=1 optimus.slowdown=1.05", "A: n0[0]~  B: -");
}

static void a_job_that_does_not_share_is_left_alone(void **unused)
{
    (void)unused;
    gives("1 node x 1 gpus; A wants 1; B wants 1 shares", "optimus.sharing=1",
          "A: n0[0]  B: -");
    gives("1 node x 1 gpus; A wants 1 shares; B wants 1", "optimus.sharing=1",
          "A: n0[0]~  B: -");
}

/* A third job finds no host: at most two on a GPU. */
static void at_most_two_jobs_share_a_gpu(void **unused)
{
    (void)unused;
    gives("1 node x 1 gpus; A wants 1 shares; B wants 1 shares; "
          "C wants 1 shares",
          "optimus.sharing=1", "A: n0[0]~  B: n0[0]~  C: -");
}

/* When a GPU comes free, the guest gets it and the host is not disturbed. */
static void a_guest_leaves_for_a_gpu_of_its_own(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 2 gpus; X wants 1 on n0[1]; A wants 1 shares; "
                   "B wants 1 shares",
                   "optimus.sharing=1");
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), "X: n0[1]  A: n0[0]~  B: n0[0]~");
    scene_done(scene, "X");
    scene_decide(scene, 1);
    assert_string_equal(scene_steps(scene), "MOVE B n0[1]");
    scene_decide(scene, 2);
    assert_string_equal(scene_steps(scene), "");
    scene_free(scene);
}

/* And when the host ends, the guest has the GPU to itself where it is. */
static void a_guest_stays_when_its_host_ends(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(two, "optimus.sharing=1");
    scene_decide(scene, 0);
    scene_done(scene, "A");
    scene_decide(scene, 1);
    assert_string_equal(scene_steps(scene), "");
    assert_string_equal(scene_text(scene), "B: n0[0]~");
    scene_free(scene);
}

/* Core refuses wrong plans, and the scene fails on a refusal. */
static void random_scenes_with_sharing_are_planned_validly(void **unused)
{
    (void)unused;
    for (int i = 0; i < trials(60); i++) {
        struct rng rng;
        rng_seed(&rng, (uint64_t)i);
        unsigned kinds = SCENE_SHARING | (i % 2 ? SCENE_ELASTIC : 0) |
                         (i % 3 ? SCENE_TYPES | SCENE_CHOOSY : 0);
        struct firn_buf text = scene_random(&rng, kinds);
        struct scene *scene = open_scene(text.at, "optimus.sharing=1");
        for (int round = 0; round < 40; round++) {
            struct firn_error err = {0};
            if (scene_try(scene, scene->now_s, &err) != FIRN_OK)
                fail_msg("seed %d, round %d: %s", i, round, err.text);
            long before = scene->nsteps;
            if (scene_try(scene, scene->now_s, &err) != FIRN_OK)
                fail_msg("seed %d, round %d: %s", i, round, err.text);
            if (scene->nsteps != before)
                fail_msg("seed %d, round %d: asked again it plans '%s'", i,
                         round, scene_steps(scene));
            scene_shake(scene, &rng, kinds);
        }
        buf_release(&text);
        scene_free(scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gpu_goes_where_it_saves_most),
        cmocka_unit_test(of_equal_gains_the_earlier_job_is_served),
        cmocka_unit_test(each_job_gets_one_gpu_first),
        cmocka_unit_test(a_waiting_job_has_a_note_with_the_reason),
        cmocka_unit_test(gangs_get_what_they_asked_for_or_nothing),
        cmocka_unit_test(a_job_that_gains_nothing_is_not_looked_at_again),
        cmocka_unit_test(
            without_a_forecast_no_job_gets_more_than_its_fewest_gpus),
        cmocka_unit_test(equal_counts_keep_their_place),
        cmocka_unit_test(the_others_are_placed_those_with_few_gpus_first),
        cmocka_unit_test(it_decides_again_after_the_interval),
        cmocka_unit_test(without_the_option_no_jobs_share),
        cmocka_unit_test(a_job_that_finds_no_gpu_joins_another),
        cmocka_unit_test(too_slow_a_pair_is_not_made),
        cmocka_unit_test(a_job_that_does_not_share_is_left_alone),
        cmocka_unit_test(at_most_two_jobs_share_a_gpu),
        cmocka_unit_test(a_guest_leaves_for_a_gpu_of_its_own),
        cmocka_unit_test(a_guest_stays_when_its_host_ends),
        cmocka_unit_test(random_scenes_with_sharing_are_planned_validly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
