/* test_icefrog.c - IceShare, the waiting rule, sharing, and the division.
 *
 * In scenes every job goes as the scene forecasts, S(r) = r / (1 + 0.1 (r - 1))
 * against one GPU unless a case says otherwise: 1, 1.818, 2.5, 3.077 on 1 to 4.
 * A job of age 0 that would be done after T seconds at best has the share
 * T / (T + 300) when it waits for the next round.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "lib/play.h"
#include "scene_random.h"
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct scene *open_scene(const char *text, const char *settings)
{
    return scene_new(text, firn_policy_find("icefrog", NULL), settings);
}

static void gives(const char *text, const char *settings, const char *expected)
{
    struct scene *scene = open_scene(text, settings);
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), expected);
    scene_free(scene);
}

/* ---- the division ---- */

/* One GPU. Waiting is worth 3000 / 3300 = 0.91 to A and 30 / 330 = 0.09 to B:
 * with B on the GPU the worst share is 0.91, with A on it 0.09. */
static void the_job_that_loses_most_by_waiting_is_served(void **unused)
{
    (void)unused;
    gives("1 node x 1 gpus; A wants 1 for 3000; B wants 1 for 30",
          "icefrog.idle=wait", "A: -  B: n0[0]");
}

/* Both are worth 0 without the GPU and 1 with it: the first has it. */
static void by_default_waiting_is_equally_bad_for_all(void **unused)
{
    (void)unused;
    gives("1 node x 1 gpus; A wants 1 for 3000; B wants 1 for 30", NULL,
          "A: n0[0]  B: -");
    /* as few as can be have nothing: B and C rather than A */
    gives("1 node x 2 gpus; A wants 2; B wants 1; C wants 1", NULL,
          "A: -  B: n0[0]  C: n0[1]");
}

/* Three GPUs, jobs of 1000, 550 and 400 s on 1, 2 and 3. Of equal jobs one has
 * two: 1 each leaves shares of 0.4, then one rises to 400 / 550 = 0.73. To wait
 * would be worth 400 / 700 = 0.57, more than one GPU: with that, one job has
 * all three and the other waits. */
static void leximin_raises_the_worst_first(void **unused)
{
    (void)unused;
    gives("1 node x 3 gpus; A wants 1 from 1 to 4; B wants 1 from 1 to 4", NULL,
          "A: n0[0-1]  B: n0[2]");
    gives("1 node x 3 gpus; A wants 1 from 1 to 4; B wants 1 from 1 to 4",
          "icefrog.idle=wait", "A: n0[0-2]  B: -");
}

/* A must have its three. To B, of 30000 s, waiting is worth 0.98 and the GPU
 * that is left 0.4, but no other job wants it. */
static void gpus_left_over_go_to_those_that_would_wait(void **unused)
{
    (void)unused;
    gives("1 node x 4 gpus; A wants 3 for 30; B wants 1 from 1 to 4 for 30000",
          "icefrog.idle=wait", "A: n0[0-2]  B: n0[3]");
}

/* A GPU of 8 does 0.59 of what one does alone, of 16 0.4, which is below the
 * least that is allowed. Two jobs have 8 each, a single one has all. */
static void badly_used_gpus_are_given_only_from_what_is_left(void **unused)
{
    (void)unused;
    gives("1 node x 16 gpus; A wants 1 from 1 to 16 for 100",
          "icefrog.efficiency=0.5", "A: n0[0-15]");
    gives("1 node x 16 gpus; A wants 1 from 1 to 16 for 100; "
          "B wants 1 from 1 to 16 for 100",
          "icefrog.idle=wait icefrog.efficiency=0.5",
          "A: n0[0-7]  B: n0[8-15]");
    gives("1 node x 16 gpus; A wants 1 from 1 to 16 for 1e6; "
          "B wants 1 from 1 to 16 for 1e6",
          "icefrog.idle=wait", "A: n0[0-15]  B: -");
}

/* On r GPUs a job of T s on one takes T (0.9 / r + 0.1): one more saves 0.9 T /
 * (r (r + 1)) and takes 0.1 T GPU-seconds, which on 16 GPUs are T n / 160 of n
 * jobs behind it. With ten of them that pays up to r (r + 1) = 14.4, 4 GPUs:
 * three jobs have 4 each, and then what is left over. With 0.15 x 16 or no job
 * 8 pay, 6375 s. Jobs wait for (0 + 30000 + 60000) / 3 / 16 = 1875 s on
 * average: to wait for 8 is worth 6375 / 8250 = 0.77 and 5 GPUs are worth 0.76.
 * Two have 8 and the third waits. A longer one is behind all of them: n = 3.4
 * of A's pays up to 42.4, 7 GPUs, and D, with no job behind it but those to
 * come, waits. */
static void waste_is_weighed_by_the_jobs_behind(void **unused)
{
    static const char three[] = "1 node x 16 gpus; "
                                "A wants 1 from 1 to 16 for 30000; "
                                "B wants 1 from 1 to 16 for 30000; "
                                "C wants 1 from 1 to 16 for 30000";
    (void)unused;
    gives(three,
          "icefrog.idle=wait icefrog.efficiency=0.5 icefrog.behind=0.625",
          "A: n0[0-5]  B: n0[6-10]  C: n0[11-15]");
    gives(three, "icefrog.idle=wait icefrog.efficiency=0.5 icefrog.behind=0",
          "A: n0[0-7]  B: n0[8-15]  C: -");
    gives(three, "icefrog.idle=wait icefrog.efficiency=0.5",
          "A: n0[0-7]  B: n0[8-15]  C: -");
    gives("1 node x 16 gpus; A wants 1 from 1 to 16 for 30000; "
          "B wants 1 from 1 to 16 for 30000; D wants 1 from 1 to 16 for 90000",
          "icefrog.idle=wait icefrog.efficiency=0.5",
          "A: n0[0-6]  B: n0[7-13]  D: n0[14-15]");
}

static double job_b_scales(const struct firn_job *job, int gpus, int nodes)
{
    (void)nodes;
    double lost = strcmp(job->spec.name, "B") == 0 ? 0.02 : 0.1;
    return gpus / (1 + lost * (gpus - 1));
}

static double both_plateau(const struct firn_job *job, int gpus, int nodes)
{
    (void)job;
    (void)nodes;
    return gpus / (1 + 0.1 * (gpus - 1));
}

/* The mean completion time of A and B when A has `gpus` of 24 at first. */
static double figure_2_mean_s(const struct scene *scene, int gpus)
{
    const struct firn_job *a = scene_job(scene, "A");
    const struct firn_job *b = scene_job(scene, "B");
    double b_s = 600 / job_b_scales(b, 24 - gpus, 1);
    double left = 600 - b_s * job_b_scales(a, gpus, 1);
    return (b_s + b_s + left / job_b_scales(a, 24, 1)) / 2;
}

/* Fig. 2: two jobs, 24 GPUs of six nodes; B has half its layers frozen. A
 * scheduler that does not know it gives 12 to each. With it B has S(12) =
 * 9.84, S(16) = 12.31, S(24) = 16.44 and A S(8) = 4.71, S(12) = 5.71, S(24) =
 * 7.27: 12 and 12 are shares of 0.786 and 0.599, 8 and 16 of 0.647 and 0.749,
 * 4 and 20 of 0.423 and more. */
static void figure_2_frozen_jobs_that_scale_get_more(void **unused)
{
    (void)unused;
    static const char two[] = "6 nodes x 4 gpus; "
                              "A wants 1 from 1 to 24 for 600; "
                              "B wants 1 from 1 to 24 for 600";
    struct scene *scene = open_scene(two, NULL);
    scene->speed = both_plateau;
    scene_decide(scene, 0);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 12);
    assert_int_equal(scene_job(scene, "B")->held.ngpus, 12);
    scene_free(scene);
    scene = open_scene(two, NULL);
    scene->speed = job_b_scales;
    scene_decide(scene, 0);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 8);
    assert_int_equal(scene_job(scene, "B")->held.ngpus, 16);
    /* Then A has all of them: both are done 4.1 s sooner, on average. */
    double agnostic_s = figure_2_mean_s(scene, 12);
    double aware_s = figure_2_mean_s(scene, 8);
    assert_true(fabs(agnostic_s - 78.3) < 0.1);
    assert_true(fabs(aware_s - 74.2) < 0.1);
    scene_free(scene);
}

static double unknown(const struct firn_job *job, int gpus, int nodes)
{
    (void)job;
    (void)gpus;
    (void)nodes;
    return (double)NAN;
}

static void without_a_forecast_jobs_get_what_they_asked_for(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "1 node x 8 gpus; A wants 2 from 1 to 4; B wants 3 from 1 to 8", NULL);
    scene->speed = unknown;
    scene_decide(scene, 0);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 2);
    assert_int_equal(scene_job(scene, "B")->held.ngpus, 3);
    scene_free(scene);
}

/* Fitness, two jobs, three GPUs: 2 and 1 are the harmonic best, and the first
 * has the two. Unlike IceShare's, its value does not know how long a job is. */
static void fitness_is_another_objective(void **unused)
{
    (void)unused;
    gives("1 node x 3 gpus; A wants 1 from 1 to 4 for 10000; "
          "B wants 1 from 1 to 4 for 10",
          "icefrog.objective=fitness", "A: n0[0-1]  B: n0[2]");
    gives("1 node x 3 gpus; A wants 1 from 1 to 4 for 10000; "
          "B wants 1 from 1 to 4 for 10",
          "icefrog.idle=wait", "A: -  B: n0[0-2]");
}

static void a_waiting_job_has_a_note_with_its_numbers(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 1 gpus; A wants 1 for 3000; B wants 1 for 30",
                   "icefrog.idle=wait");
    scene_decide(scene, 0);
    assert_string_equal(scene_job(scene, "A")->note,
                        "share 0.91 if it waits, 1.00 on 1 GPUs; 0 free");
    scene_free(scene);
    scene = open_scene("1 node x 4 gpus; n0 down; A wants 3", NULL);
    scene_decide(scene, 0);
    assert_non_null(strstr(scene_job(scene, "A")->note, "3 GPUs up"));
    scene_free(scene);
}

/* A hundred jobs for one GPU, and one more that comes between rounds. */
static void every_waiting_job_has_a_note(void **unused)
{
    (void)unused;
    struct firn_buf text = {0};
    buf_puts(&text, "1 node x 1 gpus");
    for (int i = 0; i < 100; i++)
        buf_printf(&text, "; j%d wants 1 for %d", i, 1000 + i);
    struct scene *scene = open_scene(text.at, NULL);
    scene_decide(scene, 0);
    int silent = 0;
    for (int i = 0; i < 100; i++) {
        char name[8];
        snprintf(name, sizeof name, "j%d", i);
        const struct firn_job *job = scene_job(scene, name);
        bool is_told = strncmp(job->note, "share 0.0", 9) == 0;
        silent += job->held.ngpus == 0 && !is_told;
    }
    assert_int_equal(silent, 0);
    scene_decide(scene, 100);
    scene_submit(scene, "Z wants 1 for 10");
    scene_decide(scene, 100);
    assert_string_equal(scene_job(scene, "Z")->note,
                        "1 of 1 GPUs are held; divided anew in 200 s");
    scene_free(scene);
    buf_release(&text);
}

/* ---- rounds ---- */

/* A has all GPUs. B comes at 10 and waits; the round at 300 divides anew. */
static void between_rounds_nothing_that_runs_is_touched(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 4 gpus; A wants 1 from 1 to 4 for 9000", NULL);
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), "A: n0[0-3]");
    assert_true(round_wake_s(scene->round) == 300);
    scene_decide(scene, 10);
    scene_submit(scene, "B wants 2 for 60");
    scene_decide(scene, 10);
    assert_string_equal(scene_steps(scene), "");
    assert_true(round_wake_s(scene->round) == 300);
    scene_decide(scene, 299);
    assert_string_equal(scene_steps(scene), "");
    scene_decide(scene, 300);
    assert_string_equal(scene_text(scene), "A: n0[0-1]  B: n0[2-3]");
    scene_free(scene);
}

static void with_between_new_jobs_start_on_free_gpus_at_once(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 4 gpus; A wants 2", "icefrog.between=yes");
    scene_decide(scene, 0);
    scene_decide(scene, 10);
    scene_submit(scene, "B wants 1 from 1 to 4 for 60");
    scene_decide(scene, 10);
    assert_string_equal(scene_steps(scene), "START B n0[2-3]");
    scene_free(scene);
}

/* The round at 0 had no job for n0[2-3]: B waits beside them until 300. */
static void by_the_paper_new_jobs_wait_for_the_next_round(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene("1 node x 4 gpus; A wants 2 for 100; "
                                     "B wants 1 for 60 at 10",
                                     NULL);
    assert_string_equal(scene_play(scene, 1000), "0: START A n0[0-1]\n"
                                                 "100: DONE A\n"
                                                 "300: START B n0[0]\n"
                                                 "360: DONE B\n");
    scene_free(scene);
}

/* Alone on four GPUs at n0 and n1, and with n2 free: to move saves 10 % of
 * 1000 s, more than the restart of 60 s; of 100 s it is not worth it. */
static void scattered_jobs_are_brought_together_if_that_pays(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("3 nodes x 2 gpus; A wants 2 for 1000 on n0[0] n1[0]",
                   "icefrog.gather=yes");
    scene_decide(scene, 0);
    assert_int_equal(firn_alloc_nodes(&scene_job(scene, "A")->held), 1);
    scene_free(scene);
    scene = open_scene("3 nodes x 2 gpus; A wants 2 for 100 on n0[0] n1[0]",
                       "icefrog.gather=yes");
    scene_decide(scene, 0);
    assert_string_equal(scene_steps(scene), "");
    scene_free(scene);
    scene =
        open_scene("3 nodes x 2 gpus; A wants 2 for 1000 on n0[0] n1[0]", NULL);
    scene_decide(scene, 0); /* the paper does not look at places */
    assert_string_equal(scene_steps(scene), "");
    scene_free(scene);
}

/* Of jobs without GPUs the most urgent is served first. With `idle=wait`
 * waiting is worth 0.5 to a, 0.5 / 2^3 to b and 1 to c: the same order. */
static void urgent_jobs_count_more(void **unused)
{
    (void)unused;
    static const char *const settings = "icefrog.idle=wait";
    for (int i = 0; i < 2; i++) {
        struct play play;
        play_open(&play, "1x1:v100",
                  "#firn-trace 1\nname,submit_s,gpus,duration_s,priority\n"
                  "a,0,1,300,0\nb,0,1,300,3\nc,0,1,300,-1\n");
        play.options.settings = &settings;
        play.options.nsettings = (size_t)i;
        play_run(&play, "icefrog");
        assert_true(play_near(play_end(&play, "b"), 300));
        assert_true(play_near(play_end(&play, "a"), 600));
        assert_true(play_near(play_end(&play, "c"), 900));
        play_close(&play);
    }
}

/* ---- sharing, by scenes: loads are not known there ---- */

static const char two[] = "1 node x 1 gpus; 2 jobs per gpu; "
                          "A wants 1 shares for 300; B wants 1 shares for 300";

/* By default two that have half a GPU each are better than one without any. */
static void jobs_share_rather_than_wait(void **unused)
{
    (void)unused;
    gives(two, "icefrog.unknown=yes", "A: n0[0]~  B: n0[0]~");
    gives("1 node x 1 gpus; 2 jobs per gpu; A wants 1 shares for 30000; "
          "B wants 1 shares for 100",
          "icefrog.unknown=yes", "A: n0[0]~  B: n0[0]~");
}

/* Four jobs of 4000 s on two GPUs wait for (0 + 4000 + 8000 + 12000) / 4 / 2 =
 * 3000 s on average: 4000 / 7000 = 0.57, and half a GPU is worth 0.9. After one
 * interval, 4000 / 4300 = 0.93, no job would share. Of a job of 4000 s and one
 * of 100 s the wait is (0 + 100) / 2 s, or rather an interval: 0.93 to the
 * first and 0.25 to the second, which has the GPU for itself. With half a GPU
 * at 0.95 of the rate they share. */
static void jobs_share_when_waiting_for_ones_turn_is_worse(void **unused)
{
    (void)unused;
    static const char unequal[] = "1 node x 1 gpus; 2 jobs per gpu; "
                                  "A wants 1 shares for 4000; "
                                  "B wants 1 shares for 100";
    gives("1 node x 2 gpus; 2 jobs per gpu; A wants 1 shares for 4000; "
          "B wants 1 shares for 4000; C wants 1 shares for 4000; "
          "D wants 1 shares for 4000",
          "icefrog.unknown=yes icefrog.idle=wait",
          "A: n0[0]~  B: n0[0]~  C: n0[1]~  D: n0[1]~");
    gives(unequal, "icefrog.unknown=yes icefrog.idle=wait", "A: -  B: n0[0]~");
    gives(unequal, "icefrog.unknown=yes icefrog.idle=wait icefrog.lambda=0.95",
          "A: n0[0]~  B: n0[0]~");
    gives(two, "icefrog.unknown=yes icefrog.idle=wait icefrog.lambda=0.4",
          "A: n0[0]~  B: -");
}

/* Equal jobs of different age: to have waited long makes waiting no better. */
static void with_idle_wait_the_oldest_of_equal_jobs_is_served(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 1 gpus; A wants 1 for 6; B wants 1 for 900 at 1; "
                   "C wants 1 for 900 at 5",
                   "icefrog.idle=wait icefrog.between=yes");
    scene_play(scene, 7);
    assert_string_equal(scene_text(scene), "B: n0[0]  C: -");
    scene_free(scene);
}

static void a_job_that_may_not_share_is_left_alone(void **unused)
{
    (void)unused;
    gives(two, NULL, "A: n0[0]  B: -"); /* loads not known */
    gives(two, "icefrog.unknown=yes icefrog.sharing=no", "A: n0[0]  B: -");
    gives("1 node x 1 gpus; 2 jobs per gpu; A wants 1 for 300; "
          "B wants 1 shares for 300",
          "icefrog.unknown=yes", "A: n0[0]  B: -");
    gives("1 node x 1 gpus; 1 jobs per gpu; A wants 1 shares for 300; "
          "B wants 1 shares for 300",
          "icefrog.unknown=yes", "A: n0[0]  B: -");
    /* not a job of two GPUs, though it shares */
    gives("1 node x 2 gpus; 2 jobs per gpu; A wants 2 shares for 300; "
          "B wants 2 shares for 300",
          "icefrog.unknown=yes", "A: n0[0-1]  B: -");
}

/* Three jobs, one GPU: one finds no partner and waits. */
static void halves_come_in_pairs(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 1 gpus; 2 jobs per gpu; "
                   "A wants 1 shares for 300; B wants 1 shares for 300; "
                   "C wants 1 shares for 300",
                   "icefrog.unknown=yes");
    scene_decide(scene, 0);
    int served = 0;
    for (const char *name = "ABC"; *name; name++) {
        char one[] = {*name, '\0'};
        served += scene_job(scene, one)->held.ngpus;
    }
    assert_int_equal(served, 2);
    scene_free(scene);
}

static void reports(struct scene *scene, const char *name, double rate)
{
    const struct firn_job *job = scene_job(scene, name);
    struct firn_event event = {
        .kind = FIRN_EVENT_REPORT,
        .job = job->id,
        .at_s = scene->now_s,
        .report = {firn_job_done_s(job, scene->now_s), rate, scene->now_s}};
    assert_int_equal(round_event(scene->round, &event, NULL), FIRN_OK);
}

/* Alone they would go at rate 1. 0.75 is well enough, 0.65 is not: the second
 * leaves, and they are not paired again though both wait for the GPU. */
static void a_pair_that_goes_badly_is_parted_for_good(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(two, "icefrog.unknown=yes");
    scene_decide(scene, 0);
    reports(scene, "A", 0.75);
    reports(scene, "B", 0.75);
    scene_decide(scene, 300);
    assert_string_equal(scene_steps(scene), "");
    reports(scene, "A", 0.65);
    scene_decide(scene, 600);
    assert_string_equal(scene_steps(scene), "STOP B");
    scene_decide(scene, 900);
    assert_string_equal(scene_text(scene), "A: n0[0]~  B: -");
    scene_free(scene);
}

/* When a GPU comes free the pair parts at the next round: each is better off
 * alone, and only the second moves. */
static void a_pair_parts_when_there_is_room(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 2 gpus; 2 jobs per gpu; X wants 1 for 10; "
                   "A wants 1 shares for 2000; B wants 1 shares for 2000",
                   "icefrog.unknown=yes");
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), "X: n0[0]  A: n0[1]~  B: n0[1]~");
    scene_done(scene, "X");
    scene_decide(scene, 300);
    assert_string_equal(scene_steps(scene), "MOVE B n0[0]");
    scene_free(scene);
}

/* ---- any scene ---- */

/* Core refuses wrong plans, and the scene fails on a refusal. */
static void
random_scenes_are_planned_validly_whatever_the_options(void **unused)
{
    (void)unused;
    static const char *const settings[] = {
        "icefrog.unknown=yes",
        "icefrog.unknown=yes icefrog.idle=wait icefrog.partition=2",
        "icefrog.unknown=yes icefrog.objective=fitness",
        "icefrog.efficiency=0.5 icefrog.partition=3 icefrog.interval=20",
        "icefrog.unknown=yes icefrog.interval=5 icefrog.evict=1 "
        "icefrog.charge=yes icefrog.gather=yes icefrog.idle=wait",
    };
    const struct firn_policy_def *def = firn_policy_find("icefrog", NULL);
    for (int i = 0; i < trials(150); i++) {
        struct rng rng;
        rng_seed(&rng, (uint64_t)i);
        unsigned kinds = (i % 2 ? SCENE_SHARING : 0) |
                         (i % 3 ? SCENE_ELASTIC : 0) |
                         (i % 5 > 2 ? SCENE_TYPES | SCENE_CHOOSY : 0);
        struct firn_buf text = scene_random(&rng, kinds);
        struct scene *scene = scene_new(text.at, def, settings[i % 5]);
        for (int round = 0; round < 30; round++) {
            struct firn_error err = {0};
            if (scene_try(scene, scene->now_s, &err) != FIRN_OK)
                fail_msg("seed %d, round %d: %s", i, round, err.text);
            scene_shake(scene, &rng, kinds);
        }
        buf_release(&text);
        scene_free(scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_job_that_loses_most_by_waiting_is_served),
        cmocka_unit_test(by_default_waiting_is_equally_bad_for_all),
        cmocka_unit_test(leximin_raises_the_worst_first),
        cmocka_unit_test(gpus_left_over_go_to_those_that_would_wait),
        cmocka_unit_test(badly_used_gpus_are_given_only_from_what_is_left),
        cmocka_unit_test(waste_is_weighed_by_the_jobs_behind),
        cmocka_unit_test(figure_2_frozen_jobs_that_scale_get_more),
        cmocka_unit_test(without_a_forecast_jobs_get_what_they_asked_for),
        cmocka_unit_test(fitness_is_another_objective),
        cmocka_unit_test(a_waiting_job_has_a_note_with_its_numbers),
        cmocka_unit_test(every_waiting_job_has_a_note),
        cmocka_unit_test(between_rounds_nothing_that_runs_is_touched),
        cmocka_unit_test(with_between_new_jobs_start_on_free_gpus_at_once),
        cmocka_unit_test(by_the_paper_new_jobs_wait_for_the_next_round),
        cmocka_unit_test(scattered_jobs_are_brought_together_if_that_pays),
        cmocka_unit_test(urgent_jobs_count_more),
        cmocka_unit_test(jobs_share_rather_than_wait),
        cmocka_unit_test(jobs_share_when_waiting_for_ones_turn_is_worse),
        cmocka_unit_test(with_idle_wait_the_oldest_of_equal_jobs_is_served),
        cmocka_unit_test(a_job_that_may_not_share_is_left_alone),
        cmocka_unit_test(halves_come_in_pairs),
        cmocka_unit_test(a_pair_that_goes_badly_is_parted_for_good),
        cmocka_unit_test(a_pair_parts_when_there_is_room),
        cmocka_unit_test(
            random_scenes_are_planned_validly_whatever_the_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
