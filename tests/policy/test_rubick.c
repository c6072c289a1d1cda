/* test_rubick.c - GPUs and plans by sensitivity curves.
 *
 * Unless a case says otherwise speeds are the scene's, r / (1 + 0.1 (r - 1))
 * over that on the GPUs asked for: 1, 1.818, 2.5, 3.077 ... 4.706 on 1, 2, 3, 4
 * ... 8 GPUs of one node, concave. A restart is believed to cost 30 s.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/data.h"
#include "lib/play.h"
#include "scene.h"
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct scene *open_scene(const char *text, const char *settings)
{
    return scene_new(text, firn_policy_find("rubick", NULL), settings);
}

static void expect(struct scene *scene, double now_s, const char *expected)
{
    scene_decide(scene, now_s);
    assert_string_equal(scene_text(scene), expected);
}

static int held(struct scene *scene, const char *name)
{
    return scene_job(scene, name)->held.ngpus;
}

static void a_job_begins_on_every_gpu_that_makes_it_faster(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 8 gpus; A wants 2 from 1 to 8", NULL);
    expect(scene, 0, "A: n0[0-7]");
    scene_free(scene);
}

/* A alone has 8; B needs its 4 to be as fast as asked for. A falls least by
 * the 8th, then the 7th, ... GPU: 4 are left to each. */
static void a_waiting_job_gets_the_speed_it_asked_for_from_others(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene("1 node x 8 gpus; A wants 2 from 1 to 8; "
                                     "B wants 4 from 1 to 8 at 600",
                                     NULL);
    expect(scene, 0, "A: n0[0-7]");
    scene_decide(scene, 600);
    assert_int_equal(held(scene, "A"), 4);
    assert_int_equal(held(scene, "B"), 4);
    scene_free(scene);
}

/* Job 0 goes as fast on 2 GPUs as on 8. (It is of another kind: "mem 1".) */
static double flat_or_straight(const struct firn_job *job, int gpus, int nodes)
{
    (void)nodes;
    return job->id == 0 && gpus > 2 ? 2 + gpus * 1e-3 : gpus;
}

static void the_least_sensitive_job_shrinks_first(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 8 gpus; A wants 2 from 1 to 8 mem 1 on n0[0-3]; "
                   "B wants 2 from 1 to 8 on n0[4-7]; "
                   "C wants 2 from 1 to 2 at 6000",
                   NULL);
    scene->speed = flat_or_straight;
    scene_decide(scene, 6000);
    assert_int_equal(held(scene, "A"), 2);
    assert_int_equal(held(scene, "B"), 4);
    assert_int_equal(held(scene, "C"), 2);
    scene_free(scene);
}

static void the_most_sensitive_job_grows_first(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 8 gpus; A wants 1 from 1 to 8 mem 1 on n0[0]; "
                   "B wants 1 from 1 to 8 on n0[1]",
                   NULL);
    scene->speed = flat_or_straight;
    scene_decide(scene, 6000);
    assert_int_equal(held(scene, "A"), 2);
    assert_int_equal(held(scene, "B"), 6);
    scene_free(scene);
}

/* A and B hold what they asked for; C finds nothing, and nothing changes. */
static void a_guaranteed_job_is_never_slower_than_it_asked_for(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 8 gpus; A wants 3 from 1 to 8 on n0[0-3]; "
                   "B wants 4 from 1 to 8 on n0[4-7]; "
                   "C wants 2 from 1 to 8 at 6000",
                   NULL);
    expect(scene, 6000, "A: n0[0-3]  B: n0[4-7]  C: -");
    scene_free(scene);
}

/* The youngest first; A, which is guaranteed, keeps its speed. */
static void best_effort_jobs_stop_for_a_guaranteed_one(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 8 gpus; A wants 4 on n0[0-3]; "
                   "B wants 2 humble on n0[4-5]; C wants 2 humble on n0[6-7]; "
                   "D wants 2 at 6000",
                   NULL);
    expect(scene, 6000, "A: n0[0-3]  B: n0[4-5]  C: -  D: n0[6-7]");
    scene_free(scene);
}

/* A quarter of the GPUs is 0.45 of the speed; a share of 0.9 has it wait. */
static void a_best_effort_job_begins_on_what_is_free(void **unused)
{
    (void)unused;
    const char *text = "1 node x 8 gpus; A wants 6 on n0[0-5]; "
                       "B wants 8 from 1 to 8 humble at 60";
    struct scene *scene = open_scene(text, NULL);
    expect(scene, 60, "A: n0[0-5]  B: n0[6-7]");
    scene_free(scene);
    scene = open_scene(text, "rubick.least=0.9");
    expect(scene, 60, "A: n0[0-5]  B: -");
    scene_free(scene);
}

/* A has held GPUs for 600 s: of these one start at 400 s is more than half, one
 * at 200 s is not. Its 8th, 7th and 6th GPU are worth 0.18, 0.21 and 0.24, each
 * of B's three 1/3. */
static void a_job_that_just_started_is_left_alone(void **unused)
{
    (void)unused;
    const char *text = "1 node x 8 gpus; A wants 2 from 1 to 8 humble; "
                       "B wants 3 from 3 to 8 humble at 600";
    struct scene *scene = open_scene(text, "rubick.restart=400");
    expect(scene, 0, "A: n0[0-7]");
    expect(scene, 600, "A: n0[0-7]  B: -");
    scene_free(scene);
    scene = open_scene(text, "rubick.restart=200");
    expect(scene, 0, "A: n0[0-7]");
    scene_decide(scene, 600);
    assert_int_equal(held(scene, "A"), 5);
    assert_int_equal(held(scene, "B"), 3);
    scene_free(scene);
}

static void between_rounds_only_free_gpus_are_given(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "1 node x 8 gpus; A wants 2 from 1 to 6; B wants 4 from 1 to 8 at 630; "
        "C wants 2 at 640",
        NULL);
    expect(scene, 600, "A: n0[0-5]");
    expect(scene, 630, "A: n0[0-5]  B: -");
    expect(scene, 640, "A: n0[0-5]  B: -  C: n0[6-7]");
    scene_free(scene);
}

/* Over two nodes it goes at 0.9 of its speed: not what was guaranteed. */
static void a_guaranteed_job_does_not_begin_on_scattered_gpus(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("2 nodes x 2 gpus; A wants 1 on n0[0]; B wants 1 on n1[0]; "
                   "C wants 2 at 60",
                   NULL);
    expect(scene, 60, "A: n0[0]  B: n1[0]  C: -");
    scene_free(scene);
    scene =
        open_scene("2 nodes x 2 gpus; A wants 1 on n0[0]; B wants 1 on n1[0]; "
                   "C wants 2 humble at 60",
                   NULL);
    expect(scene, 60, "A: n0[0]  B: n1[0]  C: n0[1] n1[1]");
    scene_free(scene);
}

/* GPT-2 with ga on 4 GPUs: ZeRO on 8 takes half as long. */
static void a_job_gets_the_best_plan_with_its_gpus(void **unused)
{
    (void)unused;
    struct play play;
    char line[512];
    bool is_sharded = false;
    play_open(&play, "1x8:a800",
              "#firn-trace 1\n"
              "name,submit_s,gpus,duration_s,gpus_min,gpus_max,app,plan\n"
              "g,0,4,1000,1,64,gpt2,ga\n");
    play_run(&play, "rubick");
    assert_true(play_end(&play, "g") < 600);
    FILE *log = fopen(play.log, "r");
    assert_non_null(log);
    while (fgets(line, sizeof line, log) != NULL)
        is_sharded = is_sharded || strstr(line, "n0[0-7]/s") != NULL;
    fclose(log);
    assert_true(is_sharded);
    play_run(&play, "fifo"); /* as its user asked */
    assert_true(play_end(&play, "g") == 1000);
    play_close(&play);
}

/* The table has 1.0224 s for ga on 4 GPUs and 0.530168421 s for zero-dp on 8:
 * 1000 s become 518.552 s. */
static void a_measured_row_says_how_fast_a_plan_really_is(void **unused)
{
    (void)unused;
    static const char rel[] = "rubick/placements/gpt2.csv";
    const char *path = data_path(rel);
    char dir[4096];
    struct play play;
    if (path == NULL || data_path("pollux/apps") == NULL) {
        print_message("no table of Rubick: skipped\n");
        skip();
        return;
    }
    snprintf(dir, sizeof dir, "%.*s", (int)(strlen(path) - strlen(rel) - 1),
             path);
    play_open(&play, "1x8:a800",
              "#firn-trace 1\n"
              "name,submit_s,gpus,duration_s,gpus_min,gpus_max,app,plan\n"
              "g,0,4,1000,1,64,gpt2,ga\n");
    play.options.profiles = dir;
    play_run(&play, "rubick");
    double ratio = play_end(&play, "g") / (1000 * 0.530168421 / 1.0224);
    assert_true(ratio > 1 - 1e-9 && ratio < 1 + 1e-9);
    play_close(&play);
}

/* LLaMA-30B asked for 24 GPUs and there are 16: in another plan it runs. */
static void a_job_runs_on_fewer_gpus_than_its_plan_needs(void **unused)
{
    (void)unused;
    struct play play;
    play_open(&play, "2x8:a800",
              "#firn-trace 1\n"
              "name,submit_s,gpus,duration_s,gpus_min,gpus_max,app,plan\n"
              "l,0,24,1000,1,64,llama30,6x4x1\n");
    play_run(&play, "rubick");
    assert_true(play_end(&play, "l") < 2000);
    play_close(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_begins_on_every_gpu_that_makes_it_faster),
        cmocka_unit_test(a_waiting_job_gets_the_speed_it_asked_for_from_others),
        cmocka_unit_test(the_least_sensitive_job_shrinks_first),
        cmocka_unit_test(the_most_sensitive_job_grows_first),
        cmocka_unit_test(a_guaranteed_job_is_never_slower_than_it_asked_for),
        cmocka_unit_test(best_effort_jobs_stop_for_a_guaranteed_one),
        cmocka_unit_test(a_best_effort_job_begins_on_what_is_free),
        cmocka_unit_test(a_job_that_just_started_is_left_alone),
        cmocka_unit_test(between_rounds_only_free_gpus_are_given),
        cmocka_unit_test(a_guaranteed_job_does_not_begin_on_scattered_gpus),
        cmocka_unit_test(a_job_gets_the_best_plan_with_its_gpus),
        cmocka_unit_test(a_measured_row_says_how_fast_a_plan_really_is),
        cmocka_unit_test(a_job_runs_on_fewer_gpus_than_its_plan_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
