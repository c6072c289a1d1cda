/* test_lucid.c - short jobs first, and pairs on the same GPUs.
 *
 * The schedules are worked out by hand above each case. In a scene every job
 * goes at rate 1, alone or not. A job's name says how busy it keeps a GPU: T is
 * tiny (0.1), M medium (0.4), J jumbo (0.9), of others nothing is known. A t4
 * has 16 GiB. "~" behind GPUs: held as half-shares.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "play.h"
#include "scene_random.h"
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- an engine that knows loads ---- */

static double slowdown_told = (double)NAN;

static struct firn_load load_of(void *state, const struct firn_job *job,
                                const struct firn_way *way)
{
    (void)way;
    static const double utils[] = {['T'] = 0.1, ['M'] = 0.4, ['J'] = 0.9};
    unsigned char c = (unsigned char)job->spec.name[0];
    (void)state;
    struct firn_load load = {(double)NAN, (double)NAN};
    if (c < sizeof utils / sizeof *utils && utils[c] > 0)
        load.util = utils[c];
    return load;
}

static double slowdown_of(void *state, const struct firn_job *job,
                          const struct firn_job *other)
{
    (void)state;
    /* Only the longer one suffers. */
    return job->spec.duration_s > other->spec.duration_s ? slowdown_told : 1;
}

static const struct firn_forecast_def forecast = {.slowdown = slowdown_of,
                                                  .load = load_of};

static enum firn_status decide_knowing(void *state,
                                       const struct firn_view *view,
                                       struct firn_plan *plan)
{
    struct firn_view knowing = *view;
    knowing.forecast = &forecast;
    return firn_policy_find("lucid", NULL)->decide(state, &knowing, plan);
}

static struct firn_policy_def lucid;

static struct scene *open_scene(const char *text, const char *settings)
{
    lucid = *firn_policy_find("lucid", NULL);
    lucid.decide = decide_knowing;
    return scene_new(text, &lucid, settings);
}

static void plays(const char *text, const char *settings, const char *expected)
{
    struct scene *scene = open_scene(text, settings);
    assert_string_equal(scene_play(scene, 1e9), expected);
    assert_int_equal(scene->did & ~(unsigned)FIRN_DOES_SHARE, 0);
    scene_free(scene);
}

/* ---- order ---- */

/* Run time x GPUs: A 100, B 40, C 50. B takes all four GPUs; C and then A get
 * theirs when it ends. */
static void the_smallest_run_time_times_gpus_goes_first(void **unused)
{
    (void)unused;
    plays("1 node x 4 gpus; A wants 1 for 100; B wants 4 for 10; "
          "C wants 1 for 50",
          NULL,
          "0: START B n0[0-3]\n"
          "10: DONE B; START A n0[1]; START C n0[0]\n"
          "60: DONE C\n"
          "110: DONE A\n");
}

/* B is shorter and wants all; it waits until A has ended. */
static void a_running_job_is_never_stopped(void **unused)
{
    (void)unused;
    plays("1 node x 2 gpus; A wants 1 for 1000; B wants 2 for 1 at 5", NULL,
          "0: START A n0[0]\n"
          "1000: DONE A; START B n0[0-1]\n"
          "1001: DONE B\n");
}

/* B (20) is before C (30) and does not fit beside A. C passes it, or not. */
static void
a_job_that_does_not_fit_is_passed_over_unless_skip_is_off(void **unused)
{
    const char *text = "1 node x 2 gpus; A wants 1 for 100; "
                       "B wants 2 for 10 at 5; C wants 1 for 30 at 5";
    (void)unused;
    plays(text, NULL,
          "0: START A n0[0]\n"
          "5: START C n0[1]\n"
          "35: DONE C\n"
          "100: DONE A; START B n0[0-1]\n"
          "110: DONE B\n");
    plays(text, "lucid.skip=0",
          "0: START A n0[0]\n"
          "100: DONE A; START B n0[0-1]\n"
          "110: DONE B; START C n0[0]\n"
          "140: DONE C\n");
}

/* One GPU is free on each node. C, of two, waits for a node with two, or is
 * spread when that is allowed. D wants more than any node has: it is spread in
 * any case. */
static void a_job_that_fits_on_a_node_waits_for_one(void **unused)
{
    const char *text = "2 nodes x 2 gpus; A wants 1 for 50 on n0[0]; "
                       "B wants 1 for 60 on n1[0]; C wants 2 for 10";
    (void)unused;
    plays(text, NULL,
          "50: DONE A; START C n0[0-1]\n"
          "60: DONE B; DONE C\n");
    plays(text, "lucid.one-node=0",
          "0: START C n0[1] n1[1]\n"
          "10: DONE C\n"
          "50: DONE A\n"
          "60: DONE B\n");
    plays("2 nodes x 2 gpus; D wants 3 for 10", NULL,
          "0: START D n0[0-1] n1[0]\n"
          "10: DONE D\n");
}

/* ---- pairs ---- */

static void expect_pair(const char *host, const char *guest,
                        const char *settings, bool is_pair)
{
    char text[256];
    snprintf(text, sizeof text,
             "1 node x 2 gpus of t4; %s on n0[0-1]~; %s at 5", host, guest);
    struct scene *scene = open_scene(text, settings);
    scene_decide(scene, 5);
    bool runs = strncmp(scene_steps(scene), "START", 5) == 0;
    if (runs != is_pair)
        fail_msg("%s; %s: steps '%s'", host, guest, scene_steps(scene));
    assert_int_equal(scene->did & ~(unsigned)FIRN_DOES_SHARE, 0);
    scene_free(scene);
}

/* J has both GPUs as half-shares from the start. T cannot have its own and
 * joins at 5; the others of the row end as if alone. */
static void a_tiny_job_joins_a_jumbo_one(void **unused)
{
    (void)unused;
    plays("1 node x 2 gpus; J wants 2 for 100 shares; "
          "T wants 2 for 10 at 5 shares",
          NULL,
          "0: START J n0[0-1]~\n"
          "5: START T n0[0-1]~\n"
          "15: DONE T\n"
          "100: DONE J\n");
}

/* Scores: T 0, M and unknown 1, J 2. */
static void scores_add_up_to_two_at_most(void **unused)
{
    static const struct {
        char host, guest;
        int sum;
    } pairs[] = {{'T', 'T', 0}, {'T', 'M', 1}, {'T', 'J', 2}, {'M', 'T', 1},
                 {'M', 'M', 2}, {'M', 'J', 3}, {'J', 'T', 2}, {'J', 'M', 3},
                 {'J', 'J', 4}, {'X', 'X', 2}, {'X', 'J', 3}, {'T', 'X', 1}};
    (void)unused;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int limit = 0; limit <= 4; limit++) {
            char host[64], guest[64], setting[64];
            snprintf(host, sizeof host, "%c1 wants 2 for 100 shares",
                     pairs[i].host);
            snprintf(guest, sizeof guest, "%c2 wants 2 for 50 shares",
                     pairs[i].guest);
            snprintf(setting, sizeof setting, "lucid.limit=%d", limit);
            expect_pair(host, guest, setting, pairs[i].sum <= limit);
            if (limit == 2)
                expect_pair(host, guest, NULL, pairs[i].sum <= 2);
        }
}

/* 0.4 is not below 0.4 and not above 0.4, but below 0.41 and above 0.39. */
static void thresholds_make_the_classes(void **unused)
{
    const char *m1 = "M1 wants 2 for 100 shares";
    const char *m2 = "M2 wants 2 for 50 shares";
    (void)unused;
    expect_pair(m1, m2, "lucid.limit=0 lucid.tiny-below=0.41", true);
    expect_pair(m1, m2, "lucid.limit=0 lucid.tiny-below=0.4", false);
    expect_pair(m1, m2, "lucid.jumbo-above=0.39", false);
    expect_pair(m1, m2, "lucid.jumbo-above=0.4", true);
}

/* 16 GiB a GPU: 10 + 6 fit, 10 + 6.5 do not; of 0.9 of them 10 + 4 do. */
static void memory_has_to_fit(void **unused)
{
    const char *host = "T1 wants 2 for 100 mem 10 shares";
    (void)unused;
    expect_pair(host, "T2 wants 2 for 50 mem 6 shares", NULL, true);
    expect_pair(host, "T2 wants 2 for 50 mem 6.5 shares", NULL, false);
    expect_pair(host, "T2 wants 2 for 50 mem 6 shares", "lucid.memory=0.9",
                false);
    expect_pair(host, "T2 wants 2 for 50 mem 4 shares", "lucid.memory=0.9",
                true);
    expect_pair(host, "T2 wants 2 for 50 shares", NULL, true); /* not known */
}

/* Twice as long as the host at most. */
static void a_guest_is_not_much_longer_than_its_host(void **unused)
{
    const char *host = "T1 wants 2 for 100 shares";
    (void)unused;
    expect_pair(host, "T2 wants 2 for 200 shares", NULL, true);
    expect_pair(host, "T2 wants 2 for 201 shares", NULL, false);
    expect_pair(host, "T2 wants 2 for 201 shares", "lucid.longer=3", true);
}

/* The host is the longer one and would be slowed. */
static void a_pair_that_slows_either_too_much_is_not_made(void **unused)
{
    const char *host = "T1 wants 2 for 100 shares";
    const char *guest = "T2 wants 2 for 50 shares";
    (void)unused;
    slowdown_told = 1.5;
    expect_pair(host, guest, NULL, true);
    slowdown_told = 1.51;
    expect_pair(host, guest, NULL, false);
    expect_pair("T1 wants 2 for 50 shares", "T2 wants 2 for 100 shares", NULL,
                false);
    expect_pair(host, guest, "lucid.slowdown=1.6", true);
    slowdown_told = (double)NAN;
}

/* A host that holds whole GPUs, a guest that does not share, another number of
 * GPUs, and packing turned off. */
static void a_job_that_does_not_share_is_left_alone(void **unused)
{
    const char *host = "T1 wants 2 for 100 shares";
    (void)unused;
    expect_pair(host, "T2 wants 2 for 50", NULL, false);
    expect_pair(host, "T2 wants 1 for 50 shares", NULL, false);
    expect_pair(host, "T2 wants 2 for 50 shares", "lucid.pack=0", false);
    plays("1 node x 2 gpus; T1 wants 2 for 100; T2 wants 2 for 50 at 5 shares",
          NULL,
          "0: START T1 n0[0-1]\n"
          "100: DONE T1; START T2 n0[0-1]~\n"
          "150: DONE T2\n");
}

/* Three jobs may share a GPU in this cluster; Lucid makes pairs. T3 waits until
 * T2 has ended at 55 and then joins T1; after T1, at 100, it is alone and T4
 * joins it. */
static void a_gpu_has_two_jobs_at_most(void **unused)
{
    (void)unused;
    plays("1 node x 1 gpus; 3 jobs per gpu; T1 wants 1 for 100 shares; "
          "T2 wants 1 for 50 at 5 shares; T3 wants 1 for 90 at 6 shares; "
          "T4 wants 1 for 95 at 7 shares",
          NULL,
          "0: START T1 n0[0]~\n"
          "5: START T2 n0[0]~\n"
          "55: DONE T2; START T3 n0[0]~\n"
          "100: DONE T1; START T4 n0[0]~\n"
          "145: DONE T3\n"
          "195: DONE T4\n");
}

/* n1 is free: T2 gets its own GPUs, though T1 would be a fine host. T3 then
 * joins T1, which has run longer than T2; T4 joins T2. */
static void own_gpus_come_before_a_host_and_old_hosts_before_new(void **unused)
{
    (void)unused;
    plays("2 nodes x 1 gpus; T1 wants 1 for 100 shares; "
          "T2 wants 1 for 100 at 5 shares; T3 wants 1 for 10 at 6 shares; "
          "T4 wants 1 for 10 at 7 shares",
          NULL,
          "0: START T1 n0[0]~\n"
          "5: START T2 n1[0]~\n"
          "6: START T3 n0[0]~\n"
          "7: START T4 n1[0]~\n"
          "16: DONE T3\n"
          "17: DONE T4\n"
          "100: DONE T1\n"
          "105: DONE T2\n");
}

/* Both come at once: A (10) starts, B joins it in the same round. */
static void a_job_just_started_is_a_host(void **unused)
{
    (void)unused;
    plays("1 node x 1 gpus; T1 wants 1 for 10 shares; T2 wants 1 for 20 shares",
          NULL,
          "0: START T1 n0[0]~; START T2 n0[0]~\n"
          "10: DONE T1\n"
          "20: DONE T2\n");
}

/* J and T are on two nodes each: no pair. */
static void distributed_jobs_are_not_packed(void **unused)
{
    (void)unused;
    plays("2 nodes x 2 gpus; J wants 4 for 100 shares; "
          "T wants 4 for 10 at 5 shares",
          NULL,
          "0: START J n0[0-1] n1[0-1]~\n"
          "100: DONE J; START T n0[0-1] n1[0-1]~\n"
          "110: DONE T\n");
}

/* 3 of 4 GPUs are held. At 0.75 T joins J; at 0.76 it waits until N is gone at
 * 20 and has GPUs of its own. */
static void packing_waits_for_a_busy_cluster(void **unused)
{
    const char *text = "1 node x 4 gpus; J wants 2 for 100 shares; "
                       "N wants 1 for 20; T wants 2 for 10 at 5 shares";
    (void)unused;
    plays(text, "lucid.busy=0.75",
          "0: START J n0[1-2]~; START N n0[0]\n"
          "5: START T n0[1-2]~\n"
          "15: DONE T\n"
          "20: DONE N\n"
          "100: DONE J\n");
    plays(text, "lucid.busy=0.76",
          "0: START J n0[1-2]~; START N n0[0]\n"
          "20: DONE N; START T n0[0,3]~\n"
          "30: DONE T\n"
          "100: DONE J\n");
}

static void expect_note(const char *text, const char *settings,
                        const char *note)
{
    struct scene *scene = open_scene(text, settings);
    scene_decide(scene, 5);
    assert_string_equal(scene_job(scene, "W")->note, note);
    scene_free(scene);
}

static void a_waiting_job_has_a_note_with_the_reason(void **unused)
{
    const char *text = "2 nodes x 1 gpus of t4; J1 wants 1 for 90 shares; "
                       "T1 wants 1 for 10 mem 16 shares; "
                       "W wants 1 for 91 mem 1 shares at 5";
    (void)unused;
    expect_note(text, NULL,
                "1 GPUs, 0 free; 2 hosts: 1 busy, 1 mem, 0 short, 0 slow");
    expect_note(text, "lucid.memory=0 lucid.limit=4",
                "1 GPUs, 0 free; 2 hosts: 0 busy, 2 mem, 0 short, 0 slow");
    expect_note(text, "lucid.longer=1 lucid.limit=3",
                "1 GPUs, 0 free; 2 hosts: 0 busy, 1 mem, 1 short, 0 slow");
    expect_note(text, "lucid.pack=0",
                "needs 1 GPUs, 0 free; no pairs are made now");
    expect_note("1 node x 2 gpus; A wants 1; W wants 2 at 5", NULL,
                "needs 2 GPUs, 1 free; does not accept sharing");
}

/* ---- run times that are learnt ---- */

/* One GPU. Told the run times, b1 (10) is first, then a2 (1), b2 (50) and a1
 * (100).
 *
 * Learning, all are alike at first and a1 goes by its id: 0 to 100. Then b1,
 * of an application not seen yet, counts as long as all did, 100, and so do the
 * others: by id b1, 100 to 110. Now application long takes 100 and short 10:
 * b2 goes before a2 and ends at 160, a2 at 161. */
static void history_tells_applications_apart(void **unused)
{
    struct play play;
    (void)unused;
    play_open(&play, "1x1:v100",
              "#firn-trace 1\nname,submit_s,gpus,duration_s,app\n"
              "a1,0,1,100,long\nb1,0,1,10,short\n"
              "a2,2,1,1,long\nb2,3,1,50,short\n");
    play_run(&play, "lucid");
    assert_true(play_end(&play, "b1") == 10);
    assert_true(play_end(&play, "a2") == 11);
    assert_true(play_end(&play, "b2") == 61);
    assert_true(play_end(&play, "a1") == 161);
    const char *settings[] = {"lucid.estimates=history"};
    play.options.settings = settings;
    play.options.nsettings = 1;
    play_run(&play, "lucid");
    assert_true(play_end(&play, "a1") == 100);
    assert_true(play_end(&play, "b1") == 110);
    assert_true(play_end(&play, "b2") == 160);
    assert_true(play_end(&play, "a2") == 161);
    play_close(&play);
}

/* What is learnt is the work, not the time it took beside another. a and b, 40
 * of work each, share the GPU at 1.5 times the step and end at 60; r, of
 * application z, runs alone from 60 to 110. Then application x is 40 and z is
 * 50, so xx goes first and ends at 115, zz at 120. By time x would be 60. */
static void history_counts_work_and_not_time(void **unused)
{
    const char *settings[] = {"lucid.estimates=history"};
    struct play play;
    (void)unused;
    play_open(&play, "1x1:v100",
              "#firn-trace 1\nname,submit_s,gpus,duration_s,app,may_share\n"
              "a,0,1,40,x,1\nb,0,1,40,x,1\nr,0,1,50,z,0\n"
              "zz,70,1,5,z,0\nxx,71,1,5,x,0\n");
    play.options.settings = settings;
    play.options.nsettings = 1;
    play.options.share_slowdown = 1.5;
    play_run(&play, "lucid");
    assert_true(play_near(play_end(&play, "a"), 60));
    assert_true(play_near(play_end(&play, "b"), 60));
    assert_true(play_near(play_end(&play, "r"), 110));
    assert_true(play_near(play_end(&play, "xx"), 115));
    assert_true(play_near(play_end(&play, "zz"), 120));
    play_close(&play);
}

/* ---- random scenes ---- */

static bool overlap(const struct firn_alloc *a, const struct firn_alloc *b)
{
    for (int i = 0; i < a->nparts; i++)
        for (int j = 0; j < b->nparts; j++)
            if (a->parts[i].node == b->parts[j].node &&
                a->parts[i].board == b->parts[j].board &&
                (a->parts[i].gpus & b->parts[j].gpus) != 0)
                return true;
    return false;
}

static void expect_pairs(const struct scene *scene, uint64_t seed, int *npairs)
{
    const struct state *state = scene_state(scene);
    for (struct state_job *a = state->first; a; a = a->after) {
        int others = 0;
        for (struct state_job *b = state->first; b; b = b->after) {
            if (a == b || !overlap(&a->job.held, &b->job.held))
                continue;
            others++;
            if (!firn_alloc_equal(&a->job.held, &b->job.held) ||
                firn_alloc_nodes(&a->job.held) != 1)
                fail_msg("seed %llu: %s and %s share other GPUs than all",
                         (unsigned long long)seed, a->job.spec.name,
                         b->job.spec.name);
        }
        if (others > 1)
            fail_msg("seed %llu: %d jobs beside %s", (unsigned long long)seed,
                     others, a->job.spec.name);
        *npairs += others;
    }
}

/* Three jobs may share a GPU, nodes come and go, run times are learnt. */
static void random_scenes_have_pairs_on_one_node_and_nothing_else(void **unused)
{
    const unsigned kinds = SCENE_TYPES | SCENE_SHARING;
    int npairs = 0;
    (void)unused;
    for (uint64_t seed = 0; seed < (uint64_t)trials(100); seed++) {
        struct rng rng;
        struct firn_buf text = {0};
        rng_seed(&rng, seed);
        struct firn_buf random = scene_random(&rng, kinds);
        buf_printf(&text, "3 jobs per gpu; %s", random.at);
        struct scene *scene = open_scene(
            text.at, seed % 2 ? "lucid.limit=4 lucid.estimates=history"
                              : "lucid.limit=4");
        for (int round = 0; round < 40; round++) {
            scene_decide(scene, scene->now_s);
            expect_pairs(scene, seed, &npairs);
            scene_shake(scene, &rng, kinds);
        }
        scene_free(scene);
        buf_release(&text);
        buf_release(&random);
    }
    assert_true(npairs > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_run_time_times_gpus_goes_first),
        cmocka_unit_test(a_running_job_is_never_stopped),
        cmocka_unit_test(
            a_job_that_does_not_fit_is_passed_over_unless_skip_is_off),
        cmocka_unit_test(a_job_that_fits_on_a_node_waits_for_one),
        cmocka_unit_test(a_tiny_job_joins_a_jumbo_one),
        cmocka_unit_test(scores_add_up_to_two_at_most),
        cmocka_unit_test(thresholds_make_the_classes),
        cmocka_unit_test(memory_has_to_fit),
        cmocka_unit_test(a_guest_is_not_much_longer_than_its_host),
        cmocka_unit_test(a_pair_that_slows_either_too_much_is_not_made),
        cmocka_unit_test(a_job_that_does_not_share_is_left_alone),
        cmocka_unit_test(a_gpu_has_two_jobs_at_most),
        cmocka_unit_test(own_gpus_come_before_a_host_and_old_hosts_before_new),
        cmocka_unit_test(a_job_just_started_is_a_host),
        cmocka_unit_test(distributed_jobs_are_not_packed),
        cmocka_unit_test(packing_waits_for_a_busy_cluster),
        cmocka_unit_test(a_waiting_job_has_a_note_with_the_reason),
        cmocka_unit_test(history_tells_applications_apart),
        cmocka_unit_test(history_counts_work_and_not_time),
        cmocka_unit_test(random_scenes_have_pairs_on_one_node_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
