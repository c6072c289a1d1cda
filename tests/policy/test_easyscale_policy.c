/* test_easyscale_policy.c - elastic threads: minP, growth, taking back.
 *
 * A job "wants 4 from 1 to 4" has 4 threads. In scenes the forecast is r / (1 +
 * 0.1 (r - 1)) on r GPUs of whatever type, and every job reports rate 1; in
 * plays jobs go as a toy profile has it. OWN are firn's options, which are off
 * by default: the default is the paper's letter.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "lib/data.h"
#include "lib/play.h"
#include "lib/temp.h"
#include "scene_random.h"
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEVERAL                                                  \
    "easyscale.several=1 easyscale.again=1 easyscale.release=1 " \
    "easyscale.gain=0.25"
#define OWN SEVERAL " easyscale.worth=1 easyscale.timeout=0"

static struct scene *open_scene(const char *text, const char *settings)
{
    return scene_new(text, firn_policy_find("easyscale", NULL), settings);
}

static void gives(const char *text, const char *settings, const char *expected)
{
    struct scene *scene = open_scene(text, settings);
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), expected);
    scene_free(scene);
}

/* Scenes know no priorities. */
static void set_priority(struct scene *scene, const char *name, int priority)
{
    struct state *state = scene_state(scene);
    for (struct state_job *sj = state->first; sj; sj = sj->after)
        if (strcmp(sj->job.spec.name, name) == 0)
            sj->job.spec.priority = priority;
}

/* ---- growth ---- */

static void a_job_alone_takes_as_many_gpus_as_it_has_threads(void **unused)
{
    (void)unused;
    gives("1 node x 8 gpus; A wants 4 from 1 to 4", OWN, "A: n0[0-3]");
}

/* 8 threads are two to a GPU on 4 and on 7 GPUs. */
static void a_gpu_that_shortens_no_step_is_left_free(void **unused)
{
    (void)unused;
    gives("1 node x 7 gpus; A wants 1 from 1 to 8", OWN, "A: n0[0-3]");
    gives("1 node x 8 gpus; A wants 8 from 1 to 8", OWN, "A: n0[0-7]");
}

/* One each; then both propose a second GPU with the same speed-up, and there
 * is one. The other's proposal cannot be met: it is dropped, and that is it. */
static void proposals_that_cannot_be_met_are_dropped(void **unused)
{
    (void)unused;
    gives("1 node x 3 gpus; A wants 1 from 1 to 4; B wants 1 from 1 to 4", OWN,
          "A: n0[0-1]  B: n0[2]");
    gives("1 node x 4 gpus; A wants 2 from 2 to 4; B wants 2 from 2 to 4", OWN,
          "A: n0[0-1]  B: n0[2-3]");
}

/* A has 1 GPU of 4 threads: a second is worth 82 %. B has 2 of 4: two more,
 * one thread each, make 3.077 of 1.818, 35 % each. */
static void the_higher_speed_up_per_gpu_is_served_first(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 5 gpus; B wants 4 from 2 to 4 on n0[0-1]; "
                   "A wants 4 from 1 to 4 on n0[2]",
                   OWN);
    scene_decide(scene, 0);
    /* A has 2; then two more would be 35 % each for either, with one left */
    assert_string_equal(scene_text(scene), "B: n0[0-1]  A: n0[2-3]");
    scene_free(scene);
}

static double two_at_most(const struct firn_job *job, int gpus, int nodes)
{
    (void)job;
    (void)nodes;
    return gpus < 2 ? 1 : 1.5;
}

static void a_proposal_without_gain_in_the_forecast_is_dropped(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 8 gpus; A wants 4 from 1 to 4", OWN);
    scene->speed = two_at_most;
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), "A: n0[0-1]");
    scene_free(scene);
}

/* 10 s are left on one GPU; a second saves 4.5 s and a restart costs 20. */
static void a_running_job_grows_only_if_it_gains_the_restart_back(void **unused)
{
    (void)unused;
    const char text[] =
        "1 node x 2 gpus; A wants 1 from 1 to 2 for 10 on n0[0]";
    gives(text, OWN, "A: n0[0]");
    gives(text, OWN " easyscale.restart=4", "A: n0[0-1]");
}

static void gangs_hold_what_they_asked_for(void **unused)
{
    (void)unused;
    gives("1 node x 8 gpus; A wants 3; B wants 6; C wants 2", NULL,
          "A: n0[0-2]  B: -  C: n0[3-4]");
    gives("1 node x 8 gpus; A wants 3; B wants 6; C wants 2",
          "easyscale.skip=0", "A: n0[0-2]  B: -  C: -");
}

/* ---- the paper's letter ---- */

/* One GPU a round. 4 threads: two GPUs are twice as fast as one; three take as
 * long as two and waste 2 C / 2 of 3 C, a third, which is above 30 %. So the
 * job stays on two; with proposals of several GPUs it gets four. */
static void by_the_paper_a_job_asks_for_one_gpu_at_a_time(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 8 gpus; A wants 4 from 1 to 4 for 1e6", NULL);
    const int held[] = {1, 2, 2, 2};
    for (int i = 0; i < 4; i++) {
        scene_decide(scene, 60 * i);
        assert_int_equal(scene_job(scene, "A")->held.ngpus, held[i]);
    }
    scene_free(scene);
}

/* 3 threads on 2 GPUs waste 1 of 4 places, 25 %; on 3 nothing. */
static void by_the_paper_a_job_grows_round_by_round(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "1 node x 8 gpus; A wants 3 from 1 to 3 for 1e6; X wants 1", NULL);
    for (int i = 0; i < 3; i++) {
        scene_decide(scene, 60 * i);
        assert_int_equal(scene_job(scene, "A")->held.ngpus, i + 1);
    }
    scene_free(scene);
}

/* A has one thread on the T4; a V100 beside it is worth nothing to a job of one
 * thread in this forecast's eyes but a second one: both are kept, though the
 * layout would have both threads on the V100. With release=1 the T4 goes back
 * (a_job_moves_on_to_a_faster_gpu). */
static void by_the_paper_no_gpu_is_given_back_for_a_faster_one(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 1 gpus of v100; 1 node x 1 gpus of t4; "
                   "A wants 1 from 1 to 2 for 1e6 on n1[0]",
                   "easyscale.waste=1");
    scene_decide(scene, 0);
    scene_decide(scene, 60);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 2);
    scene_free(scene);
}

/* ---- the same GPUs, within a time-out ---- */

/* A has 4 GPUs, B takes one: A waits on the 3 left, for 10 s, and no job of its
 * own priority gets them. Then it goes on with 3. */
static void after_the_time_out_a_job_goes_on_with_the_rest(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 4 gpus; A wants 4 from 1 to 4 on n0[0-3]", NULL);
    scene_submit(scene, "B wants 1");
    scene_submit(scene, "C wants 1");
    set_priority(scene, "B", 1);
    scene_decide(scene, 0);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 0);
    assert_int_equal(scene_job(scene, "B")->held.ngpus, 1);
    assert_true(round_wake_s(scene->round) == 10);
    scene_done(scene, "C");
    scene_submit(scene, "D wants 1");
    scene_decide(scene, 5);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 0);
    scene_decide(scene, 10);
    assert_int_equal(scene_job(scene, "B")->held.ngpus, 1);
    assert_int_equal(scene_job(scene, "A")->held.ngpus +
                         scene_job(scene, "D")->held.ngpus,
                     3);
    assert_true(scene_job(scene, "A")->held.ngpus >= 2);
    scene_free(scene);
}

static void within_the_time_out_a_job_gets_as_many_gpus_again(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 4 gpus; A wants 4 from 1 to 4 on n0[0-3]", NULL);
    scene_submit(scene, "B wants 1");
    set_priority(scene, "B", 1);
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), "A: -  B: n0[0]");
    scene_done(scene, "B");
    scene_decide(scene, 4);
    assert_string_equal(scene_text(scene), "A: n0[0-3]");
    scene_free(scene);
}

/* GPUs of another type are not the same: A waits on for its V100s. */
static void gpus_of_another_type_do_not_end_the_wait(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 2 gpus of v100; 1 node x 2 gpus of t4; "
                   "A wants 2 from 1 to 2 on n0[0-1]",
                   NULL);
    scene_submit(scene, "B wants 1 types v100");
    set_priority(scene, "B", 1);
    scene_decide(scene, 0);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 0);
    scene_decide(scene, 9);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 0);
    scene_decide(scene, 10);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 1);
    scene_free(scene);
}

/* What is kept for A may still be taken by a job with a higher priority. */
static void a_waiting_job_loses_its_rest_to_priority(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 2 gpus; A wants 2 from 1 to 2 on n0[0-1]", NULL);
    scene_submit(scene, "B wants 1");
    set_priority(scene, "B", 1);
    scene_decide(scene, 0);
    scene_submit(scene, "C wants 1");
    set_priority(scene, "C", 1);
    scene_decide(scene, 5);
    assert_string_equal(scene_text(scene), "A: -  B: n0[0]  C: n0[1]");
    scene_done(scene, "B");
    scene_decide(scene, 6);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 1);
    scene_free(scene);
}

/* ---- minP = 0 ---- */

static void set_best_effort(struct scene *scene, const char *name)
{
    struct state *state = scene_state(scene);
    for (struct state_job *sj = state->first; sj; sj = sj->after)
        if (strcmp(sj->job.spec.name, name) == 0)
            sj->job.spec.best_effort = true;
}

/* B may have nothing: it takes no GPU from A, and starts on the first one that
 * is free. With a minimum it would get one of A's at once. */
static void a_job_without_a_minimum_takes_nothing_from_others(void **unused)
{
    (void)unused;
    for (int is_free = 0; is_free < 2; is_free++) {
        struct scene *scene =
            open_scene("1 node x 2 gpus; A wants 2 from 1 to 2 on n0[0-1]; "
                       "B wants 1 from 1 to 2",
                       NULL);
        if (is_free)
            set_best_effort(scene, "B");
        scene_decide(scene, 0);
        assert_int_equal(scene_job(scene, "B")->held.ngpus, !is_free);
        assert_string_equal(scene_job(scene, "B")->note,
                            is_free ? "needs 1 GPUs: 0 free, 1 to take back"
                                    : "");
        scene_done(scene, "A");
        scene_decide(scene, 1);
        assert_true(scene_job(scene, "B")->held.ngpus >= 1);
        scene_free(scene);
    }
}

/* B has a minimum of 2 and the same priority: A, without one, gives both and
 * stays in the queue; it comes back when they are free. */
static void a_job_without_a_minimum_may_lose_all_and_comes_back(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "1 node x 2 gpus; A wants 2 from 1 to 2 on n0[0-1]; B wants 2", NULL);
    set_best_effort(scene, "A");
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), "A: -  B: n0[0-1]");
    scene_done(scene, "B");
    scene_decide(scene, 1);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 1);
    scene_free(scene);
}

/* ---- guarantees ---- */

/* A holds all; B gets its two in the same decision, and A goes on. */
static void the_minimum_is_taken_back_in_one_decision(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "1 node x 4 gpus; A wants 4 from 1 to 4 on n0[0-3]; B wants 2", OWN);
    scene_decide(scene, 0);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 2);
    assert_int_equal(scene_job(scene, "B")->held.ngpus, 2);
    assert_int_equal(scene->nsteps, 2);
    assert_null(strstr(scene_steps(scene), "STOP"));
    scene_free(scene);
}

/* A's 4 threads on 3 GPUs take twice as long as on 4. C's 8 threads on 5 GPUs
 * need only 4 of them. */
static void gpus_are_taken_where_the_loss_is_least(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 9 gpus; A wants 4 from 1 to 4 on n0[0-3]; "
                   "C wants 8 from 1 to 8 on n0[4-8]; N wants 1",
                   OWN);
    scene_decide(scene, 0);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 4);
    assert_int_equal(scene_job(scene, "C")->held.ngpus, 4);
    assert_int_equal(scene_job(scene, "N")->held.ngpus, 1);
    scene_free(scene);
}

static void
no_job_falls_below_its_minimum_for_one_of_equal_priority(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "1 node x 4 gpus; A wants 4 from 2 to 4 on n0[0-3]; B wants 3", NULL);
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), "A: n0[0-3]  B: -");
    assert_string_equal(scene_job(scene, "B")->note,
                        "needs 3 GPUs: 0 free, 2 to take back");
    scene_free(scene);
}

/* With priority B takes what it needs, and when it is gone A is back. */
static void priority_takes_everything_and_gives_it_back(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "1 node x 4 gpus; A wants 4 from 2 to 4 on n0[0-3]; B wants 3", OWN);
    set_priority(scene, "B", 1);
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), "A: -  B: n0[0-2]");
    scene_done(scene, "B");
    scene_decide(scene, 1);
    assert_string_equal(scene_text(scene), "A: n0[0-3]");
    scene_free(scene);
}

/* B needs one: A scales in rather than stop; of two jobs the one with the
 * lower priority does, though A is the later. */
static void priority_takes_spare_gpus_before_it_stops_a_job(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 4 gpus; L wants 2 from 1 to 2 on n0[0-1]; "
                   "A wants 2 from 1 to 2 on n0[2-3]; B wants 1",
                   OWN);
    set_priority(scene, "A", 1);
    set_priority(scene, "B", 2);
    scene_decide(scene, 0);
    assert_int_equal(scene_job(scene, "L")->held.ngpus, 1);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 2);
    assert_int_equal(scene_job(scene, "B")->held.ngpus, 1);
    assert_int_equal(scene->did & FIRN_DOES_PREEMPT, 0);
    scene_free(scene);
}

static void expect_one_type(const struct scene *scene,
                            const struct firn_job *job, int seed)
{
    const struct firn_node *nodes = scene->cluster.nodes;
    for (int k = 1; k < job->held.nparts; k++)
        if (nodes[job->held.parts[k].node].type !=
            nodes[job->held.parts[0].node].type)
            fail_msg("seed %d: %s has several types", seed, job->spec.name);
}

/* Whatever happens: gpus_min to gpus_max or nothing; no job is stopped for a
 * job of the same priority. */
static void minima_are_kept_on_random_scenes(void **unused)
{
    (void)unused;
    for (int i = 0; i < trials(80); i++) {
        struct rng rng;
        rng_seed(&rng, (uint64_t)i);
        unsigned kinds = SCENE_ELASTIC | (i % 2 ? SCENE_TYPES : 0) |
                         (i % 4 == 3 ? SCENE_CHOOSY : 0);
        struct firn_buf text = scene_random(&rng, kinds);
        struct scene *scene =
            open_scene(text.at, i % 3 ? OWN : OWN " easyscale.types=one");
        for (int round = 0; round < 40; round++) {
            struct firn_error err = {0};
            if (scene_try(scene, scene->now_s, &err) != FIRN_OK)
                fail_msg("seed %d, round %d: %s", i, round, err.text);
            if (strstr(scene_steps(scene), "STOP") != NULL)
                fail_msg("seed %d, round %d: %s", i, round, scene_steps(scene));
            struct state *state = scene_state(scene);
            for (struct state_job *sj = state->first; sj; sj = sj->after) {
                const struct firn_job *job = &sj->job;
                int n = job->held.ngpus;
                if (n > 0 && (n < job->spec.gpus_min || n > job->spec.gpus_max))
                    fail_msg("seed %d, round %d: %s has %d GPUs", i, round,
                             job->spec.name, n);
                if (i % 3 == 0)
                    expect_one_type(scene, job, i);
            }
            scene_shake(scene, &rng, kinds);
        }
        buf_release(&text);
        scene_free(scene);
    }
}

/* ---- types ---- */

static void types_are_mixed_only_where_the_option_allows_it(void **unused)
{
    (void)unused;
    const char text[] = "1 node x 2 gpus of v100; 1 node x 2 gpus of t4; "
                        "A wants 4 from 1 to 4";
    gives(text, OWN, "A: n0[0-1] n1[0-1]");
    gives(text, OWN " easyscale.types=one", "A: n0[0-1]");
    gives("1 node x 2 gpus of v100; 1 node x 2 gpus of t4; "
          "A wants 1 from 1 to 4 types t4",
          OWN, "A: n1[0-1]");
}

/* D1: A began on V100s, which B takes; T4s are no place for it then. */
static void with_types_one_a_job_stays_on_its_first_type(void **unused)
{
    (void)unused;
    for (int is_mixed = 0; is_mixed < 2; is_mixed++) {
        struct scene *scene =
            open_scene("1 node x 2 gpus of v100; 1 node x 2 gpus of t4; "
                       "A wants 2 from 1 to 2",
                       is_mixed ? OWN : OWN " easyscale.types=one");
        scene_decide(scene, 0);
        assert_string_equal(scene_text(scene), "A: n0[0-1]");
        scene_submit(scene, "B wants 2 types v100");
        set_priority(scene, "B", 1);
        scene_decide(scene, 1);
        assert_string_equal(scene_text(scene), is_mixed
                                                   ? "A: n1[0-1]  B: n0[0-1]"
                                                   : "A: -  B: n0[0-1]");
        scene_done(scene, "B");
        scene_decide(scene, 3);
        assert_int_equal(scene_job(scene, "A")->held.ngpus, 2);
        scene_free(scene);
    }
}

static void a_gang_that_no_type_holds_is_mixed_or_rejected(void **unused)
{
    (void)unused;
    const char text[] = "1 node x 2 gpus of v100; 1 node x 4 gpus of t4; "
                        "A wants 6";
    gives(text, NULL, "A: n0[0-1] n1[0-3]");
    struct scene *scene = open_scene(text, "easyscale.types=one");
    scene_decide(scene, 0);
    assert_string_equal(scene_steps(scene), "REJECT A");
    scene_free(scene);
}

/* ---- falling back ---- */

/* A second GPU was to make 1.818 of 1, and A reports 1: it returns it, and
 * does not ask again for ten intervals. */
static void a_gain_that_is_not_seen_is_undone(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "1 node x 2 gpus; X wants 1 on n0[1]; A wants 1 from 1 to 2 on n0[0]",
        OWN);
    scene_decide(scene, 0);
    scene_done(scene, "X");
    scene_decide(scene, 10);
    assert_string_equal(scene_text(scene), "A: n0[0-1]");
    scene_decide(scene, 70);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 1);
    scene_decide(scene, 300);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 1);
    scene_decide(scene, 671);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 2);
    scene_free(scene);
}

static void with_gain_0_only_a_slower_job_falls_back(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "1 node x 2 gpus; X wants 1 on n0[1]; A wants 1 from 1 to 2 on n0[0]",
        OWN " easyscale.gain=0");
    scene_decide(scene, 0);
    scene_done(scene, "X");
    scene_decide(scene, 10);
    scene_decide(scene, 70);
    assert_string_equal(scene_text(scene), "A: n0[0-1]");
    scene_free(scene);
}

static void it_decides_again_after_the_interval(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 1 gpus; A wants 1", "easyscale.interval=25");
    scene_decide(scene, 0);
    assert_true(round_wake_s(scene->round) == 25);
    scene_free(scene);
}

/* ---- in the simulator ---- */

/* A sample takes 0.25 s on a V100, 1 / 2.1 s on a P100, 1 s on a T4. */
static const char toy[] =
    "app toy\nsource test\norigin none\nhardware none\nmethod made up\n"
    "synthetic yes\ntime v100 beta_s 0.25 batch_max 16\n"
    "time p100 beta_s 0.476190476190476 batch_max 16\n"
    "time t4 beta_s 1 batch_max 16\n";

/* The same on two types; two processes on a V100 are 1.6 times as fast as one.
 */
static const char packed[] =
    "app packed\nsource test\norigin invented\nhardware none\n"
    "method made up\nsynthetic yes\ntime v100 beta_s 0.25 batch_max 16\n"
    "time p100 beta_s 0.476190476190476 batch_max 16\n"
    "executors v100 2 1.6 20000 1\n";

static char folder[TEMP_FOLDER];

static int make_toy(void **state)
{
    (void)state;
    temp_open(folder);
    temp_write(folder, "toy.txt", toy);
    temp_write(folder, "packed.txt", packed);
    return 0;
}

static int remove_toy(void **state)
{
    (void)state;
    temp_close(folder);
    return 0;
}

#define COLUMNS    \
    "#firn-trace " \
    "1\nname,submit_s,gpus,duration_s,gpus_min,gpus_max,app,batch\n"

#define OWN_LIST                                                       \
    "easyscale.several=1", "easyscale.again=1", "easyscale.release=1", \
        "easyscale.gain=0.25", "easyscale.worth=1", "easyscale.timeout=0"
enum { OWN_COUNT = 6 };
static const char *const own[] = {OWN_LIST};

static double play_toy(const char *cluster, const char *row, const char *set,
                       int *gpus)
{
    struct play play;
    const char *settings[] = {OWN_LIST, set};
    char text[200];
    snprintf(text, sizeof text, COLUMNS "%s", row);
    play_open(&play, cluster, text);
    play.options.profiles = folder;
    play.options.settings = settings;
    play.options.nsettings = OWN_COUNT + (set != NULL);
    play_run(&play, "easyscale");
    double end_s = play_end(&play, "a");
    *gpus = (int)lround(play_job(&play, "a")->served_gpu_s / end_s);
    play_close(&play);
    return end_s;
}

/* 8 threads of one sample, 100 s on one V100 (2 s a step). On 1 V100, 1 P100
 * and 2 T4, 4 + 2 + 1 + 1 threads take 1 s, so 50 s; of the 8.1 samples a
 * second that they could do, 0.1 are wasted. */
static void the_papers_mix_is_used_whole(void **unused)
{
    (void)unused;
    int gpus = 0;
    const char cluster[] = "1x1:v100,1x1:p100,1x2:t4";
    double end_s = play_toy(cluster, "a,0,1,100,1,8,toy,8\n", NULL, &gpus);
    assert_true(play_near(end_s, 50));
    assert_int_equal(gpus, 4);
    end_s = play_toy(cluster, "a,0,1,100,1,8,toy,8\n", "easyscale.types=one",
                     &gpus);
    assert_true(play_near(end_s, 100));
    assert_int_equal(gpus, 1);
}

/* 2 threads: 0.5 s on the V100. One on each takes 1 / 2.1 s, a little less,
 * but of 4 + 2.1 samples a second 4.2 are done: 31 % are wasted. */
static void a_layout_that_wastes_too_much_is_ruled_out(void **unused)
{
    (void)unused;
    int gpus = 0;
    const char row[] = "a,0,2,1000,1,2,toy,2\n", mix[] = "1x1:v100,1x1:p100";
    assert_true(play_near(play_toy(mix, row, NULL, &gpus), 2000));
    assert_int_equal(gpus, 1);
    double end_s = play_toy(mix, row, "easyscale.waste=0.32", &gpus);
    assert_true(play_near(end_s, 1000 / 0.25 / 2.1));
    assert_int_equal(gpus, 2);
}

/* The same two threads by two processes on the V100: 1 / (4 x 0.8) = 0.3125 s.
 * One on each GPU takes 1 / 2.1 s, longer than that: the P100 is not asked for.
 */
static void several_executors_on_a_gpu_are_a_part_of_the_plan(void **unused)
{
    (void)unused;
    int gpus = 0;
    double end_s = play_toy("1x1:v100,1x1:p100", "a,0,2,1000,1,2,packed,2\n",
                            "easyscale.waste=0.32", &gpus);
    assert_true(play_near(end_s, 1000 / 0.25 * 0.3125));
    assert_int_equal(gpus, 1);
}

/* Two threads on a T4, 2 s a step, move on to the V100 that comes free, 0.5 s;
 * there is nothing left for the T4 to do, and it is given back. */
static void a_job_moves_on_to_a_faster_gpu(void **unused)
{
    (void)unused;
    struct play play;
    play_open(&play, "1x1:v100,1x1:t4",
              COLUMNS "x,0,1,100,1,1,toy,1\na,0,1,1000,1,2,toy,2\n");
    play.options.profiles = folder;
    play.options.settings = own;
    play.options.nsettings = OWN_COUNT;
    play_run(&play, "easyscale");
    assert_true(play_near(play_end(&play, "x"), 100));
    /* a quarter of the speed for 100 s, then 975 s more */
    assert_true(play_near(play_end(&play, "a"), 1075));
    assert_true(play_near(play_job(&play, "a")->served_gpu_s, 1075));
    play_close(&play);
}

/* Four elastic jobs fill what is free beside two servers, which come and go by
 * the minute. No server waits, no job is stopped, and all jobs end. */
static void servers_come_at_once_and_training_fills_the_rest(void **unused)
{
    (void)unused;
    struct play play;
    struct firn_buf text = {0};
    buf_puts(&text, "#firn-trace 1\nname,submit_s,gpus,duration_s,gpus_min,"
                    "gpus_max,priority\n");
    for (int i = 0; i < 4; i++)
        buf_printf(&text, "t%d,0,2,4000,1,4,0\n", i);
    for (int i = 0; i < 60; i++)
        buf_printf(&text, "s%d,%d,1,%d,1,1,100\n", i, 30 + 60 * i,
                   i % 2 ? 30 : 100);
    play_open(&play, "1x8:v100", text.at);
    play.options.restart_s = 5;
    play.options.settings = own;
    play.options.nsettings = OWN_COUNT;
    play_run(&play, "easyscale");
    assert_int_equal(play.result.jobs, 64);
    assert_int_equal(play.result.unfinished + play.result.rejected, 0);
    for (int i = 0; i < 60; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", i);
        assert_true(play_job(&play, name)->queue_s == 0);
    }
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        assert_true(play_job(&play, name)->queue_s == 0); /* never stopped */
    }
    assert_true(play.result.gpu_alloc_ratio > 0.9); /* the end: two jobs */
    play_close(&play);
    buf_release(&text);
}

static struct firn_sim_result published(const char *policy, const char *types,
                                        bool is_own)
{
    struct firn_sim_options options = firn_sim_defaults();
    struct firn_sim_result result;
    struct firn_cluster cluster;
    struct firn_error err = {0};
    const char *settings[] = {types, OWN_LIST};
    assert_int_equal(
        firn_cluster_open(&cluster, "1x32:v100,1x16:p100,1x16:t4", &err),
        FIRN_OK);
    options.trace = data_path("easyscale/workload.csv");
    options.cluster = &cluster;
    options.policy = policy;
    options.profiles = "builtin";
    options.settings = settings;
    options.nsettings = is_own ? 1 + OWN_COUNT : 1;
    if (firn_sim_run(&options, &result, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    firn_cluster_release(&cluster);
    return result;
}

/* With firn's options; and what the paper's letter is worth beside them. */
static void the_published_workload_gains_by_threads_and_by_mixing(void **unused)
{
    (void)unused;
    if (data_path("easyscale/workload.csv") == NULL) {
        print_message("no data: skipped\n");
        skip();
    }
    const char homo[] = "easyscale.types=one",
               heter[] = "easyscale.types=mixed";
    struct firn_sim_result yarn = published("yarn-cs", homo, false);
    struct firn_sim_result one = published("easyscale", homo, true);
    struct firn_sim_result mixed = published("easyscale", heter, true);
    struct firn_sim_result letter = published("easyscale", heter, false);
    assert_int_equal(one.jobs, 68);
    assert_int_equal(mixed.jobs, 68);
    assert_int_equal(letter.jobs, 68);
    assert_int_equal(mixed.failures + mixed.unfinished + mixed.rejected, 0);
    assert_true(yarn.jct_mean_s > 3 * one.jct_mean_s);
    assert_true(yarn.jct_mean_s > 3 * mixed.jct_mean_s);
    assert_true(yarn.makespan_s > one.makespan_s);
    assert_true(one.makespan_s > mixed.makespan_s);
    assert_true(yarn.jct_mean_s > letter.jct_mean_s);
    assert_true(letter.jct_mean_s > 1.2 * mixed.jct_mean_s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_alone_takes_as_many_gpus_as_it_has_threads),
        cmocka_unit_test(a_gpu_that_shortens_no_step_is_left_free),
        cmocka_unit_test(proposals_that_cannot_be_met_are_dropped),
        cmocka_unit_test(the_higher_speed_up_per_gpu_is_served_first),
        cmocka_unit_test(a_proposal_without_gain_in_the_forecast_is_dropped),
        cmocka_unit_test(a_running_job_grows_only_if_it_gains_the_restart_back),
        cmocka_unit_test(gangs_hold_what_they_asked_for),
        cmocka_unit_test(by_the_paper_a_job_asks_for_one_gpu_at_a_time),
        cmocka_unit_test(by_the_paper_a_job_grows_round_by_round),
        cmocka_unit_test(by_the_paper_no_gpu_is_given_back_for_a_faster_one),
        cmocka_unit_test(after_the_time_out_a_job_goes_on_with_the_rest),
        cmocka_unit_test(within_the_time_out_a_job_gets_as_many_gpus_again),
        cmocka_unit_test(gpus_of_another_type_do_not_end_the_wait),
        cmocka_unit_test(a_waiting_job_loses_its_rest_to_priority),
        cmocka_unit_test(a_job_without_a_minimum_takes_nothing_from_others),
        cmocka_unit_test(a_job_without_a_minimum_may_lose_all_and_comes_back),
        cmocka_unit_test(the_minimum_is_taken_back_in_one_decision),
        cmocka_unit_test(gpus_are_taken_where_the_loss_is_least),
        cmocka_unit_test(
            no_job_falls_below_its_minimum_for_one_of_equal_priority),
        cmocka_unit_test(priority_takes_everything_and_gives_it_back),
        cmocka_unit_test(priority_takes_spare_gpus_before_it_stops_a_job),
        cmocka_unit_test(minima_are_kept_on_random_scenes),
        cmocka_unit_test(types_are_mixed_only_where_the_option_allows_it),
        cmocka_unit_test(with_types_one_a_job_stays_on_its_first_type),
        cmocka_unit_test(a_gang_that_no_type_holds_is_mixed_or_rejected),
        cmocka_unit_test(a_gain_that_is_not_seen_is_undone),
        cmocka_unit_test(with_gain_0_only_a_slower_job_falls_back),
        cmocka_unit_test(it_decides_again_after_the_interval),
        cmocka_unit_test(the_papers_mix_is_used_whole),
        cmocka_unit_test(a_layout_that_wastes_too_much_is_ruled_out),
        cmocka_unit_test(several_executors_on_a_gpu_are_a_part_of_the_plan),
        cmocka_unit_test(a_job_moves_on_to_a_faster_gpu),
        cmocka_unit_test(servers_come_at_once_and_training_fills_the_rest),
        cmocka_unit_test(the_published_workload_gains_by_threads_and_by_mixing),
    };
    return cmocka_run_group_tests(tests, make_toy, remove_toy);
}
