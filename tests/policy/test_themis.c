/* test_themis.c - leases, filter and bids, worked out by hand.
 *
 * In a scene every job goes at rate 1 and restarts cost nothing, so `left` is
 * the duration less what is done and `alone` the duration. All leases here are
 * 100 s.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "lib/play.h"
#include "scene.h"
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static void plays(const char *text, const char *settings, const char *expected)
{
    struct scene *scene =
        scene_new(text, firn_policy_find("themis", NULL), settings);
    assert_string_equal(scene_play(scene, 1e9), expected);
    scene_free(scene);
}

/* Enough for all: no job has to bid again. */
static void jobs_that_fit_start_at_once_and_run_to_their_end(void **unused)
{
    (void)unused;
    plays("1 node x 4 gpus; A wants 2 for 1000; B wants 2 for 300 at 10",
          "themis.lease=100",
          "0: START A n0[0-1]\n"
          "10: START B n0[2-3]\n"
          "310: DONE B\n"
          "1000: DONE A\n");
}

/* One GPU. B comes at 10; A's lease ends at 100. Contention 2.
 *   A: (100 + 100 + 900) / (1000 x 2) = 0.55
 *   B: (90 + 100 + 50) / (50 x 2) = 2.4
 * One of the two is offered the GPU (0.2 x 2, rounded up): B. A goes on when B
 * is done, at 150, with 900 left. */
static void at_the_end_of_a_lease_the_worst_off_gets_the_gpu(void **unused)
{
    (void)unused;
    plays("1 node x 1 gpus; A wants 1 for 1000; B wants 1 for 50 at 10",
          "themis.lease=100",
          "0: START A n0[0]\n"
          "100: STOP A; START B n0[0]\n"
          "150: DONE B; START A n0[0]\n"
          "1050: DONE A\n");
}

/* The same with B as long as A: at 100
 *   A: (100 + 100 + 900) / 2000 = 0.55
 *   B: (90 + 100 + 1000) / 2000 = 0.595: B runs from 100.
 * At 200 it is A's turn, whose age is 200: (200 + 100 + 900) / 2000 = 0.6,
 * B's (190 + 100 + 900) / 2000 = 0.595. So they take turns. */
static void equal_jobs_take_turns(void **unused)
{
    (void)unused;
    struct scene *scene =
        scene_new("1 node x 1 gpus; A wants 1 for 1000; B wants 1 for 1000 "
                  "at 10",
                  firn_policy_find("themis", NULL), "themis.lease=100");
    assert_string_equal(scene_play(scene, 350), "0: START A n0[0]\n"
                                                "100: STOP A; START B n0[0]\n"
                                                "200: STOP B; START A n0[0]\n"
                                                "300: STOP A; START B n0[0]\n");
    scene_free(scene);
}

/* A ran alone until 250: its leases ended at 100 and 200 with no job waiting
 * and were renewed. B, who comes at 250, waits for the one that ends at 300. */
static void a_lease_that_ends_while_no_job_waits_is_renewed(void **unused)
{
    (void)unused;
    plays("1 node x 1 gpus; A wants 1 for 1000; B wants 1 for 50 at 250",
          "themis.lease=100",
          "0: START A n0[0]\n"
          "300: STOP A; START B n0[0]\n"
          "350: DONE B; START A n0[0]\n"
          "1050: DONE A\n");
}

/* Two GPUs. A's lease ends at 100 and B wants 2: with A's GPU alone there is
 * no room for it, so A is not stopped for nothing. C's lease (from 50) ends
 * at 150, the same. */
static void a_loser_whose_gpus_no_winner_takes_goes_on(void **unused)
{
    (void)unused;
    plays("1 node x 2 gpus; A wants 1 for 170; C wants 1 for 130 at 50; "
          "B wants 2 for 10 at 60",
          "themis.lease=100",
          "0: START A n0[0]\n"
          "50: START C n0[1]\n"
          "170: DONE A\n"
          "180: DONE C; START B n0[0-1]\n"
          "190: DONE B\n");
}

/* R is on the v100, L on the t4; both leases end at 100. W, who accepts v100
 * only, fares worst, then R, then L. By count W and R win; but R stays where
 * it is, W finds no v100, and L goes on rather than leave the t4 idle. */
static void a_loser_goes_on_when_the_winner_cannot_use_its_gpus(void **unused)
{
    (void)unused;
    plays("1 node x 1 gpus of v100; 1 node x 1 gpus of t4; R wants 1 for 1000; "
          "L wants 1 for 3000; W wants 1 for 50 at 10 types v100",
          "themis.lease=100",
          "0: START R n0[0]; START L n1[0]\n"
          "1000: DONE R; START W n0[0]\n"
          "1050: DONE W\n"
          "3000: DONE L\n");
}

/* One GPU, free from 100 on (A is done), lease 1000, contention 2.
 *   B: 400 s, came at 0: rho (100 + 1000 + 400) / 800 = 1.9, bid 1000 / 500
 *   C: 20 s, came at 99: rho (1 + 1000 + 20) / 40 = 25.5, bid 1000 / 21
 * C goes first by either. */
static void the_shorter_job_is_further_from_its_share(void **unused)
{
    (void)unused;
    plays("1 node x 1 gpus; A wants 1 for 100; B wants 1 for 400; "
          "C wants 1 for 20 at 99",
          "themis.lease=1000",
          "0: START A n0[0]\n"
          "100: DONE A; START C n0[0]\n"
          "120: DONE C; START B n0[0]\n"
          "520: DONE B\n");
}

/* One GPU, free at 100. Contention 2, lease 100.
 *   B: 150 s, came at 0:  rho (100 + 100 + 150) / 300 = 1.17, bid 100/250
 *   C: 130 s, came at 90: rho (10 + 100 + 130) / 260 = 0.92, bid 100/140
 * B fares worse and gets the only offer at filter 0.8; at filter 0 both bid
 * and C bids more. */
static void the_filter_puts_fairness_before_efficiency(void **unused)
{
    (void)unused;
    const char text[] = "1 node x 1 gpus; A wants 1 for 100; "
                        "B wants 1 for 150; C wants 1 for 130 at 90";
    struct scene *scene =
        scene_new(text, firn_policy_find("themis", NULL), "themis.lease=100");
    assert_string_equal(scene_play(scene, 110),
                        "0: START A n0[0]\n100: DONE A; START B n0[0]\n");
    assert_string_equal(
        scene_job(scene, "C")->note,
        "no lease: other jobs are further from their fair share");
    scene_free(scene);
    scene = scene_new(text, firn_policy_find("themis", NULL),
                      "themis.lease=100 themis.filter=0");
    assert_string_equal(scene_play(scene, 110),
                        "0: START A n0[0]\n100: DONE A; START C n0[0]\n");
    assert_string_equal(scene_job(scene, "B")->note,
                        "no lease: outbid by other jobs, or no room");
    scene_free(scene);
}

/* Four GPUs, free at 100; filter 0, lease 1000.
 *   B: 4 GPUs for 100, came at 50: 1000 / (150 x 4) = 1.7
 *   C: 1 GPU for 300, came at 50:  1000 / (350 x 1) = 2.9
 * C first, although it takes longer, and B, who then lacks a GPU, waits. */
static void bids_are_for_each_gpu(void **unused)
{
    (void)unused;
    plays("1 node x 4 gpus; A wants 4 for 100; B wants 4 for 100 at 50; "
          "C wants 1 for 300 at 50",
          "themis.lease=1000 themis.filter=0",
          "0: START A n0[0-3]\n"
          "100: DONE A; START C n0[0]\n"
          "400: DONE C; START B n0[0-3]\n"
          "500: DONE B\n");
}

/* Three jobs wait for two GPUs; one is offered them (0.2 x 3, rounded up), and
 * the one that is left over goes to the next in rho: no GPU idles.
 *   B: 20 s: (90 + 100 + 20) / (20 x c); C: 200 s: (90 + 100 + 200) /
 *   (200 x c); D: 100 s: (90 + 100 + 100) / (100 x c). B, then D. */
static void what_the_offered_leave_goes_to_the_others(void **unused)
{
    (void)unused;
    struct scene *scene =
        scene_new("1 node x 2 gpus; A wants 2 for 100; B wants 1 for 20 at 10; "
                  "C wants 1 for 200 at 10; D wants 1 for 100 at 10",
                  firn_policy_find("themis", NULL), "themis.lease=100");
    assert_string_equal(scene_play(scene, 110),
                        "0: START A n0[0-1]\n"
                        "100: DONE A; START B n0[0]; START D n0[1]\n");
    scene_free(scene);
}

/* With an interval of 60 a job that comes at 10 starts at 60, and a GPU freed
 * at 90 is given at 120. */
static void with_an_interval_auctions_wait_for_its_multiples(void **unused)
{
    (void)unused;
    plays("1 node x 1 gpus; A wants 1 for 30 at 10; B wants 1 for 30 at 20",
          "themis.lease=1000 themis.interval=60",
          "60: START A n0[0]\n"
          "90: DONE A\n"
          "120: START B n0[0]\n"
          "150: DONE B\n");
}

/* No job is stopped unless a lease of its own has ended: every time with GPUs
 * but the last is whole leases. */
static void gpus_are_taken_back_at_the_end_of_leases_only(void **unused)
{
    (void)unused;
    struct play play;
    play_open(&play, "2x4:v100",
              "a,0,4,3000\nb,10,4,2500\nc,20,8,700\nd,35,2,90\ne,47,1,4000\n"
              "f,205,3,333\ng,900,8,100\nh,1234,1,10\ni,1300,2,5000\n");
    static const char *const settings[] = {"themis.lease=100"};
    play.options.settings = settings;
    play.options.nsettings = 1;
    play_run(&play, "themis");
    assert_true(play.result.jobs == 9);
    assert_true(play.result.restarts > 0);
    struct firn_buf log = play_read(play.log);
    double began_s[9] = {0}, at_s;
    int id, nstops = 0;
    char kind[16];
    for (const char *line = log.at; line != NULL && *line != '\0';
         line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (sscanf(line, "%lf\t%15[a-z]\t%d", &at_s, kind, &id) != 3)
            continue;
        if (strcmp(kind, "start") == 0)
            began_s[id] = at_s;
        if (strcmp(kind, "stop") != 0)
            continue;
        double leases = (at_s - began_s[id]) / 100;
        assert_true(leases > 0.5 && play_near(leases, (int)(leases + 0.5)));
        nstops++;
    }
    assert_true(nstops > 0);
    buf_release(&log);
    play_close(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_that_fit_start_at_once_and_run_to_their_end),
        cmocka_unit_test(at_the_end_of_a_lease_the_worst_off_gets_the_gpu),
        cmocka_unit_test(equal_jobs_take_turns),
        cmocka_unit_test(a_lease_that_ends_while_no_job_waits_is_renewed),
        cmocka_unit_test(a_loser_whose_gpus_no_winner_takes_goes_on),
        cmocka_unit_test(a_loser_goes_on_when_the_winner_cannot_use_its_gpus),
        cmocka_unit_test(the_shorter_job_is_further_from_its_share),
        cmocka_unit_test(the_filter_puts_fairness_before_efficiency),
        cmocka_unit_test(bids_are_for_each_gpu),
        cmocka_unit_test(what_the_offered_leave_goes_to_the_others),
        cmocka_unit_test(with_an_interval_auctions_wait_for_its_multiples),
        cmocka_unit_test(gpus_are_taken_back_at_the_end_of_leases_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
