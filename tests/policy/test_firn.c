/* test_firn.c - the policy with all freedoms: order, hysteresis, bounds, notes.
 *
 * Unless a case says otherwise rates are the scene's: r / (1 + 0.1 (r - 1)) on
 * r times the GPUs asked for, and a restart is believed to cost 30 s.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "lib/play.h"
#include "policy/firn.h"
#include "scene.h"
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct scene *open_scene(const char *text, const char *settings)
{
    return scene_new(text, firn_policy_find("firn", NULL), settings);
}

static void expect(struct scene *scene, double now_s, const char *expected)
{
    scene_decide(scene, now_s);
    assert_string_equal(scene_text(scene), expected);
}

static int starts_of(const struct scene *scene, const char *name)
{
    return scene_job(scene, name)->starts;
}

/* When the job first got GPUs, by the log of a scene. */
static double start_s(const char *log, const char *name)
{
    struct firn_buf step = {0};
    buf_printf(&step, "START %s ", name);
    const char *at = strstr(log, step.at);
    buf_release(&step);
    assert_non_null(at);
    while (at > log && at[-1] != '\n')
        at--;
    return strtod(at, NULL);
}

/* ---- order ---- */

static void the_job_with_less_work_left_goes_first(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene("1 node x 4 gpus; A wants 4 for 10000; "
                                     "B wants 4 for 100",
                                     NULL);
    expect(scene, 0, "A: -  B: n0[0-3]");
    scene_free(scene);
}

/* alpha 0 counts work alone: the older of two equal ways. */
static void without_alpha_length_does_not_count(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene("1 node x 4 gpus; A wants 4 for 10000; "
                                     "B wants 4 for 100",
                                     "firn.alpha=0 firn.alpha-rigid=0");
    expect(scene, 0, "A: n0[0-3]  B: -");
    scene_free(scene);
}

/* A as a whole does eight times the work of B in a second. */
static void a_long_gang_does_not_go_before_a_short_job(void **unused)
{
    (void)unused;
    const char *text = "1 node x 8 gpus; A wants 8 for 1000; B wants 1 for 100";
    struct scene *scene = open_scene(text, NULL);
    expect(scene, 0, "A: -  B: n0[0]");
    scene_free(scene);
    scene = open_scene(text, "firn.alpha-rigid=0.35");
    expect(scene, 0, "A: n0[0-7]  B: -");
    scene_free(scene);
}

/* A has half the work of B. On a third GPU it would do 0.68 of what one does, B
 * on a second one 0.82. A can use four GPUs, B no more than two. */
static void a_job_that_can_use_few_gpus_counts_more(void **unused)
{
    (void)unused;
    const char *text = "1 node x 4 gpus; A wants 1 from 1 to 4 for 1400; "
                       "B wants 1 from 1 to 2 for 3000";
    struct scene *scene = open_scene(text, NULL);
    expect(scene, 0, "A: n0[0-1]  B: n0[2-3]");
    scene_free(scene);
    scene = open_scene(text, "firn.narrow=0");
    expect(scene, 0, "A: n0[0-2]  B: n0[3]");
    scene_free(scene);
}

static void elastic_jobs_share_the_gpus(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene("1 node x 4 gpus; A wants 2 from 1 to 4; "
                                     "B wants 2 from 1 to 4",
                                     NULL);
    expect(scene, 0, "A: n0[0-1]  B: n0[2-3]");
    scene_done(scene, "B");
    expect(scene, 1, "A: n0[0-3]");
    scene_free(scene);
}

/* ---- several types ---- */

#define TWO_TYPES "1 node x 2 gpus of v100; 1 node x 2 gpus of t4; "

static void a_job_has_several_types_where_none_has_enough(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(TWO_TYPES "A wants 4 from 1 to 4", NULL);
    expect(scene, 0, "A: n0[0-1] n1[0-1]");
    expect(scene, 1, "A: n0[0-1] n1[0-1]");
    scene_free(scene);
    scene = open_scene(TWO_TYPES "A wants 4 from 1 to 4", "firn.mixed=no");
    expect(scene, 0, "A: n0[0-1]");
    scene_free(scene);
}

/* A holds all GPUs of both types; B, which is short, can use the T4s only. */
static void a_mixed_job_gives_back_the_gpus_of_one_type(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene(TWO_TYPES "A wants 4 from 1 to 4 for 100000", NULL);
    expect(scene, 0, "A: n0[0-1] n1[0-1]");
    scene_submit(scene, "B wants 2 for 500 types t4");
    expect(scene, 3000, "A: n0[0-1]  B: n1[0-1]");
    scene_done(scene, "B");
    expect(scene, 6000, "A: n0[0-1] n1[0-1]");
    scene_free(scene);
}

/* Both GPUs are worth more to A, which is short, than one of them to B. Were
 * the mix made after the assignment, B would have that GPU. */
static void a_mix_is_chosen_before_a_longer_job(void **unused)
{
    (void)unused;
    const char *text = "1 node x 1 gpus of v100; 1 node x 1 gpus of t4; "
                       "A wants 2 from 1 to 2 for 1000; B wants 1 for 100000";
    struct scene *scene = open_scene(text, NULL);
    expect(scene, 0, "A: n0[0] n1[0]  B: -");
    scene_free(scene);
}

/* GPUs of one node slow each other down. */
static double crowded(const struct firn_job *job, int gpus, int nodes)
{
    (void)job;
    return sqrt(gpus) * (nodes > 1 ? 1.6 : 1);
}

/* The same, but for B, which is faster on one. */
static double crowded_but_b(const struct firn_job *job, int gpus, int nodes)
{
    return job->spec.name[0] == 'B' ? sqrt(gpus) / nodes
                                    : crowded(job, gpus, nodes);
}

/* On four GPUs of two nodes A goes at 3.2, of one at 2. */
static void what_a_job_holds_counts_by_its_rate_there(void **unused)
{
    static const struct {
        const char *held, *option, *after;
    } cases[] = {
        {"n0[0-1]", "firn.spread-min=0", "A: n0[0-3]"},
        {"n0[0] n1[0]", "firn.spread-min=0", "A: n0[0] n1[0]"},
        {"n0[0-1]", NULL, "A: n0[0-1] n1[0-1]"},
        {"n0[0-3]", NULL, "A: n0[0-1] n1[0-1]"},
        {"n0[0-2] n1[0]", NULL, "A: n0[0-2] n1[0]"},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct firn_buf text = {0};
        buf_printf(&text,
                   "2 nodes x 4 gpus; A wants 2 from 2 to 4 for 100000 on %s",
                   cases[i].held);
        struct scene *scene = open_scene(text.at, cases[i].option);
        scene->speed = crowded;
        expect(scene, 1, cases[i].after);
        scene_free(scene);
        buf_release(&text);
    }
}

static void a_job_is_on_more_nodes_than_it_needs_if_it_is_faster_there(void **u)
{
    static const struct {
        const char *text, *option, *after;
    } cases[] = {
        {"2 nodes x 4 gpus; A wants 4", NULL, "A: n0[0-1] n1[0-1]"},
        {"2 nodes x 4 gpus; A wants 4", "firn.spread-min=1.7", "A: n0[0-3]"},
        {"2 nodes x 4 gpus; A wants 4 shares", NULL, "A: n0[0-3]~"},
        {"1 node x 4 gpus; A wants 4", NULL, "A: n0[0-3]"},
        {"1 node x 8 gpus; 1 node x 4 gpus; B wants 7 on n0[0-6]; A wants 4",
         NULL, "B: n0[0-6]  A: n0[7] n1[0-2]"},
        {"3 nodes x 4 gpus; B wants 3 on n0[0-2]; A wants 4", NULL,
         "B: n0[0-2]  A: n1[0-1] n2[0-1]"},
        {"3 nodes x 4 gpus; B wants 2 on n0[0-1]; B1 wants 3 on n1[0-2]; "
         "B2 wants 3 on n2[0-2]; A wants 4",
         NULL, "B: n0[0-1]  B1: n1[0-2]  B2: n2[0-2]  A: n0[2-3] n1[3] n2[3]"},
        {"2 nodes x 4 gpus; B wants 4 on n0[0-3]; A wants 4", NULL,
         "B: n0[0-3]  A: n1[0-3]"},
    };
    (void)u;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene *scene = open_scene(cases[i].text, cases[i].option);
        scene->speed = crowded_but_b;
        expect(scene, 0, cases[i].after);
        scene_free(scene);
    }
}

static void of_equal_nodes_a_job_takes_those_it_is_on(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "3 nodes x 4 gpus; A wants 2 from 2 to 4 for 100000 on n2[0-1]", NULL);
    scene->speed = crowded;
    expect(scene, 1, "A: n0[0-1] n2[0-1]");
    scene_free(scene);
}

/* A came first and is spread only behind B, which needs a whole node. */
static void jobs_that_need_whole_nodes_are_placed_first(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "3 nodes x 4 gpus; A wants 4 for 1000; B wants 4 for 1000", NULL);
    scene->speed = crowded_but_b;
    expect(scene, 0, "A: n1[0-1] n2[0-1]  B: n0[0-3]");
    scene_free(scene);
}

/* With `resize=no` a job has what it asked for. */
static void a_freedom_can_be_switched_off(void **unused)
{
    (void)unused;
    struct scene *scene =
        open_scene("1 node x 4 gpus; A wants 2 from 1 to 4", "firn.resize=no");
    expect(scene, 0, "A: n0[0-1]");
    scene_free(scene);
}

/* Beside A a job goes at 1 / 1.1 of its speed, and so does A. Memory that is
 * not known is not risked, unless the user says so. */
static void a_job_that_got_no_gpu_runs_beside_another(void **unused)
{
    (void)unused;
    const char *text = "1 node x 4 gpus; A wants 4 for 1000 shares; "
                       "B wants 4 for 1000 shares";
    struct scene *scene = open_scene(text, "firn.unknown=yes");
    expect(scene, 0, "A: n0[0-3]~  B: n0[0-3]~");
    scene_free(scene);
    scene = open_scene(text, NULL);
    expect(scene, 0, "A: n0[0-3]~  B: -");
    scene_free(scene);
}

/* An elastic host could have fewer GPUs instead: its pairs are bounded. B
 * cannot run on fewer than 4. */
static void a_slow_pair_is_refused_where_the_host_can_shrink(void **unused)
{
    (void)unused;
    const char *text = "1 node x 4 gpus; A wants 4 from 2 to 4 for 100 shares; "
                       "B wants 4 for 1000 shares";
    struct scene *scene = open_scene(text, "firn.unknown=yes");
    expect(scene, 0, "A: n0[0-3]~  B: n0[0-3]~");
    scene_free(scene);
    scene = open_scene(text, "firn.unknown=yes firn.slowdown=1.05");
    expect(scene, 0, "A: n0[0-3]~  B: -");
    scene_free(scene);
}

/* All jobs may share, and their memory counts as small enough. */
static void let_share(struct play *play, double slowdown)
{
    static const char *const bold[] = {"firn.unknown=yes"};
    play->options.shares = true;
    play->options.share_slowdown = slowdown;
    play->options.settings = bold;
    play->options.nsettings = 1;
}

/* With `share-min` 0.5 a pair gains below 5 / 3, where 2 / x - 1 =
 * 0.5 (1 - 1 / x); with two more jobs behind it below 13 / 7, where
 * 3 (2 / x - 1) = 0.5 (1 - 1 / x). */
static void a_pair_shares_if_all_end_earlier_together(void **unused)
{
    static const struct {
        double slowdown;
        bool is_queue, shares;
    } cases[] = {{1.65, false, true},
                 {1.7, false, false},
                 {1.7, true, true},
                 {1.85, true, true},
                 {1.9, true, false}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct play play;
        play_open(&play, "1x1:h200",
                  cases[i].is_queue
                      ? "#firn-trace 1\nname,submit_s,gpus,duration_s\n"
                        "a,0,1,100\nb,0,1,200\nc,0,1,1000\nd,0,1,1000\n"
                      : "#firn-trace 1\nname,submit_s,gpus,duration_s\n"
                        "a,0,1,100\nb,0,1,200\n");
        let_share(&play, cases[i].slowdown);
        play_run(&play, "firn");
        assert_int_equal(play_job(&play, "b")->first_start_s == 0,
                         cases[i].shares);
        play_close(&play);
    }
}

/* Two that help each other are one seat; without a common key they are not. */
static void fine_tuning_jobs_are_trained_together(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene("1 node x 4 gpus; A wants 4 merges k; "
                                     "B wants 4 merges k; C wants 4 merges j",
                                     NULL);
    scene_decide(scene, 0);
    assert_int_equal(scene_job(scene, "A")->held.how.merged_with, 1);
    assert_int_equal(scene_job(scene, "B")->held.how.merged_with, 0);
    assert_int_equal(scene_job(scene, "C")->held.nparts, 0);
    scene_free(scene);
    scene =
        open_scene("1 node x 4 gpus; A wants 4 merges k; B wants 4 merges k",
                   "firn.merge=no");
    expect(scene, 0, "A: n0[0-3]  B: -");
    scene_free(scene);
}

/* ---- restarts ---- */

/* Two GPUs are free beside those of A. Four are 1.69 times as fast as two; over
 * the 40 s that are left of A a restart of 30 s does not pay, over 900 s it
 * does.
 */
static void a_change_must_pay_for_its_restart(void **unused)
{
    (void)unused;
    static const struct {
        const char *text, *after;
    } cases[] = {
        {"1 node x 4 gpus; A wants 2 from 1 to 4 for 1000 did 960 on n0[0-1]",
         "A: n0[0-1]"},
        {"1 node x 4 gpus; A wants 2 from 1 to 4 for 1000 did 100 on n0[0-1]",
         "A: n0[0-3]"},
    };
    for (size_t i = 0; i < 2; i++) {
        struct scene *scene = open_scene(cases[i].text, NULL);
        expect(scene, 1, cases[i].after);
        scene_free(scene);
    }
}

/* On twice the GPUs the 300 s that are left of A take half as long and a
 * restart of 30 s; Z waits for all GPUs. */
static void a_change_must_save_more_while_jobs_wait(void **unused)
{
    (void)unused;
    static const struct {
        const char *waits, *settings, *after;
    } cases[] = {
        {"", NULL, "A: n0[0-3]"},
        {"; Z wants 4 for 100000", NULL, "A: n0[0-1]  Z: -"},
        {"; Z wants 4 for 100000", "firn.keep-queue=0", "A: n0[0-3]  Z: -"},
    };
    for (size_t i = 0; i < 3; i++) {
        struct firn_buf text = {0};
        buf_printf(&text,
                   "1 node x 4 gpus; A wants 2 from 1 to 4 for 1000 did 700 on "
                   "n0[0-1]%s",
                   cases[i].waits);
        struct scene *scene = open_scene(text.at, cases[i].settings);
        expect(scene, 1, cases[i].after);
        scene_free(scene);
        buf_release(&text);
    }
}

/* Short jobs come every 100 s and would each take GPUs from A and give them
 * back; A may be restarted twice an hour. */
static void a_job_is_restarted_no_more_often_than_allowed(void **unused)
{
    (void)unused;
    struct firn_buf text = {0};
    buf_puts(&text, "1 node x 4 gpus; A wants 4 from 1 to 4 for 100000");
    for (int i = 0; i < 30; i++)
        buf_printf(&text, "; S%02d wants 2 for 30 at %d", i, 50 + 100 * i);
    struct scene *scene = open_scene(text.at, "firn.restarts=2");
    scene_play(scene, 3500);
    int few = starts_of(scene, "A");
    scene_free(scene);
    scene = open_scene(text.at, "firn.restarts=0");
    scene_play(scene, 3500);
    int many = starts_of(scene, "A");
    scene_free(scene);
    buf_release(&text);
    assert_in_range(few, 1, 3);
    assert_true(many > 10);
}

/* A trace of a, which could use all of four GPUs, and short jobs that take two
 * from it. */
static struct firn_buf disturbed(void)
{
    struct firn_buf text = {0};
    buf_puts(&text, "#firn-trace 1\nname,submit_s,gpus,duration_s,gpus_min,"
                    "gpus_max\na,0,4,100000,1,4\n");
    for (int i = 0; i < 30; i++)
        buf_printf(&text, "s%d,%d,2,30,2,2\n", i, 50 + 100 * i);
    return text;
}

/* It grows into their GPUs each time, until it has seen how short that lasts.
 * A restart costs 60 s. */
static void a_job_that_never_has_gpus_for_long_is_moved_less(void **unused)
{
    static const struct {
        const char *setting;
        int least, most;
    } cases[] = {{"firn.horizon-past=5", 20, 40},
                 {"firn.horizon-past=0", 60, 60}};
    (void)unused;
    struct firn_buf text = disturbed();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct play play;
        play_open(&play, "1x4:v100", text.at);
        play.options.restart_s = 60;
        play.options.settings =
            (const char *[]){"firn.restarts=0", cases[i].setting};
        play.options.nsettings = 2;
        play_run(&play, "firn");
        assert_in_range(play_job(&play, "a")->restarts, cases[i].least,
                        cases[i].most);
        play_close(&play);
    }
    buf_release(&text);
}

/* A restart costs 30 s; one that is prepared costs nothing, a resize without a
 * stop 1 s. */
static void a_restart_that_costs_little_counts_half(void **unused)
{
    static const struct {
        int ahead_s;
        bool resizes;
        int most;
    } cases[] = {{0, false, 9}, {30, false, 16}, {0, true, 16}};
    (void)unused;
    struct firn_buf text = disturbed();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct play play;
        play_open(&play, "1x4:v100", text.at);
        play.options.restart_s = 30;
        play.options.ahead_s = cases[i].ahead_s;
        play.options.resizes = cases[i].resizes;
        play.options.resize_s = 1;
        play.options.settings = (const char *[]){"firn.restarts=8"};
        play.options.nsettings = 1;
        play_run(&play, "firn");
        assert_int_equal(play_job(&play, "a")->restarts, cases[i].most);
        play_close(&play);
    }
    buf_release(&text);
}

/* b is shorter and needs all GPUs. To stop a costs 300 s, also where it could
 * be resized in one. */
static void a_job_that_resizes_is_not_stopped_sooner_than_others(void **unused)
{
    (void)unused;
    for (int resizes = 0; resizes < 2; resizes++) {
        struct play play;
        play_open(&play, "1x4:v100",
                  "#firn-trace 1\nname,submit_s,gpus,duration_s,gpus_min,"
                  "gpus_max\na,0,4,2000,3,4\nb,100,4,1200,4,4\n");
        play.options.restart_s = 300;
        play.options.resizes = resizes;
        play.options.resize_s = 1;
        play_run(&play, "firn");
        assert_int_equal(play_job(&play, "a")->restarts, 0);
        assert_true(play_end(&play, "a") == 2000);
        play_close(&play);
    }
}

/* b ends after 100 s, and a could have four GPUs instead of two, which double
 * its speed. The pause is 1 s, and the new ones are prepared for 60: with L
 * seconds left on two GPUs growing is worth 2 (L / 2) / (L / 2 + c) where c = 1
 * + `grow` x 60 x 2 / 4, and staying a little over 1, so that growing pays from
 * L = 2 c on: 2, 62 and 212 s for `grow` 0, 1 and 3.5. To three GPUs it is from
 * 3 c' on, c' = 1 + `grow` x 60 / 3: 3, 63 and 213 s. a has 200 or 1900 s left.
 */
static void a_job_grows_if_what_is_prepared_for_it_pays(void **unused)
{
    static const struct {
        const char *duration_s, *grow;
        bool grows;
    } cases[] = {{"300", "firn.grow=0", true},
                 {"300", "firn.grow=1", true},
                 {"300", "firn.grow=3.5", false},
                 {"300", "firn.keep=3", false}, /* the default of `grow` */
                 {"2000", "firn.grow=3.5", true}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct firn_buf text = {0};
        struct play play;
        buf_printf(&text,
                   "#firn-trace 1\nname,submit_s,gpus,duration_s,gpus_min,"
                   "gpus_max\na,0,2,%s,2,4\nb,0,2,100,2,2\n",
                   cases[i].duration_s);
        play_open(&play, "1x4:v100", text.at);
        play.options.restart_s = 300;
        play.options.resizes = true;
        play.options.resize_s = 1;
        play.options.resize_prepare_s = 60;
        play.options.settings = (const char *[]){
            "firn.horizon-jobs=0", "firn.horizon-past=0", cases[i].grow};
        play.options.nsettings = 3;
        play_run(&play, "firn");
        assert_int_equal(play_job(&play, "a")->restarts > 0, cases[i].grows);
        play_close(&play);
        buf_release(&text);
    }
}

/* How often A, which could use all GPUs, starts while jobs of 5 s come that
 * take some of them from it; and the GPUs it has at `until_s`. */
static int disturb(int njobs, double every_s, int wants, double until_s,
                   const char *settings, int *gpus)
{
    struct firn_buf text = {0};
    buf_puts(&text, "1 node x 4 gpus; A wants 4 from 1 to 4 for 100000");
    for (int i = 0; i < njobs; i++)
        buf_printf(&text, "; S%02d wants %d for 5 at %g", i, wants,
                   20 + every_s * i);
    struct scene *scene = open_scene(text.at, settings);
    scene_play(scene, until_s);
    int starts = starts_of(scene, "A");
    *gpus = scene_job(scene, "A")->held.ngpus;
    scene_free(scene);
    buf_release(&text);
    return starts;
}

/* A job comes every 15 s and takes two GPUs for 5 s. Twice the GPUs make A 1.69
 * times as fast. Over the 150 s in which ten jobs come, a restart of 30 s
 * leaves 5/6 of that, and what A holds counts 1 + 3 x 1/6: A does not grow once
 * the rate is known, but again after the last job. */
static void a_job_does_not_grow_while_others_come_all_the_time(void **unused)
{
    (void)unused;
    int gpus;
    int any =
        disturb(60, 15, 2, 920, "firn.restarts=0 firn.horizon-jobs=0", &gpus);
    int few = disturb(60, 15, 2, 920, "firn.restarts=0", &gpus);
    assert_int_equal(gpus, 2);
    assert_in_range(few, 2, any / 2);
    disturb(60, 15, 2, 2000, "firn.restarts=0", &gpus);
    assert_int_equal(gpus, 4);
}

/* A is restarted as often as it may be in the first minutes; it must not have
 * one GPU for the rest of the hour. */
static void a_job_that_was_restarted_often_grows_again_soon(void **unused)
{
    (void)unused;
    int gpus, starts;
    starts = disturb(20, 20, 3, 1500,
                     "firn.restarts=20 firn.keep=0 firn.horizon-jobs=0", &gpus);
    assert_in_range(starts, 11, 15);
    assert_int_equal(gpus, 4);
}

/* ---- waiting ---- */

/* G wants all GPUs; a job of one GPU comes every 100 s, takes 390 s and is
 * worth more. Under first come, first served G would start at 390. */
static struct firn_buf gang_and_stream(void)
{
    struct firn_buf text = {0};
    buf_puts(&text, "1 node x 4 gpus");
    for (int i = 0; i < 60; i++) {
        if (i == 1)
            buf_puts(&text, "; G wants 4 for 20000 at 100");
        buf_printf(&text, "; S%02d wants 1 for 390 at %d", i, 100 * i);
    }
    return text;
}

static double gang_start_s(const char *settings)
{
    struct firn_buf text = gang_and_stream();
    struct scene *scene = open_scene(text.at, settings);
    double at_s = start_s(scene_play(scene, 1e6), "G");
    scene_free(scene);
    buf_release(&text);
    return at_s;
}

static void no_job_waits_longer_than_the_bound(void **unused)
{
    (void)unused;
    double fifo_s = 390 - 100; /* S00 runs from 0 to 390, G came at 100 */
    assert_true(gang_start_s("firn.wait=0") > 5000);
    for (int times = 2; times <= 8; times *= 2) {
        struct firn_buf settings = {0};
        buf_printf(&settings, "firn.wait=%d firn.wait-least=0", times);
        double at_s = gang_start_s(settings.at);
        buf_release(&settings);
        /* within the time of one decision, at most 60 s apart */
        assert_true(at_s - 100 <= times * fifo_s + 60);
        assert_true(at_s - 100 >= times * fifo_s - 60);
    }
}

static void a_job_may_wait_for_the_least_time_in_any_case(void **unused)
{
    (void)unused;
    double at_s = gang_start_s("firn.wait=1 firn.wait-least=2000");
    assert_true(at_s >= 2100 && at_s <= 2160);
}

/* G has waited for 580 s and keeps its GPUs for half of that; S05 and later
 * jobs are worth more all the time. */
static void a_job_that_was_due_has_a_turn_by_its_wait(void **unused)
{
    (void)unused;
    struct firn_buf text = gang_and_stream();
    struct scene *scene =
        open_scene(text.at, "firn.wait=2 firn.wait-least=0 firn.turn=0.5");
    const char *log = scene_play(scene, 1e6);
    double began_s = start_s(log, "G");
    const char *stop = strstr(log, "STOP G");
    assert_non_null(stop);
    while (stop > log && stop[-1] != '\n')
        stop--;
    double turn_s = strtod(stop, NULL) - began_s;
    double half_s = (began_s - 100) / 2;
    assert_true(turn_s >= half_s && turn_s <= half_s + 60);
    scene_free(scene);
    buf_release(&text);
}

/* Job 1 is seen at 500, after jobs 0 and 2; it may wait for 600 s. */
static void a_job_that_a_quota_held_back_has_a_bound_on_its_wait(void **unused)
{
    (void)unused;
    struct one one = {.met_last = FIRN_NO_JOB,
                      .rules = {.wait_times = 3,
                                .wait_least_s = 600,
                                .turn = 0.1,
                                .knows = ONE_FORECAST}};
    struct firn_view view = {.now_s = 500};
    struct one_round round = {.one = &one, .view = &view};
    struct firn_job jobs[3];
    const struct firn_job *waiting[] = {&jobs[0], &jobs[1], &jobs[2]};
    one.queue.up[0] = one.queue.free[0] = 4;
    for (int i = 0; i < 3; i++)
        jobs[i] = (struct firn_job){.id = i,
                                    .type_mask = 1,
                                    .spec = {.app = "app",
                                             .group = "",
                                             .gpus = 1,
                                             .submit_s = i,
                                             .duration_s = 100}};
    one_meet(&one, &jobs[0]);
    one_meet(&one, &jobs[2]);
    assert_true(isinf(one_due_s(&round, &jobs[1])));
    for (int i = 0; i < 2; i++) { /* the second time changes nothing */
        one_meet_late(&one, waiting, 3, 500 + i);
        assert_int_equal(one.known.n, 3);
        assert_int_equal(one_known_of(&one, 2)->id, 2);
        assert_true(one_due_s(&round, &jobs[1]) == 500 + 600);
    }
    one_past_free(&one);
    vec_release(&one.queue.ends);
}

/* ---- what is known of the work ---- */

/* A has had 5000 s, B none: by service B is the shorter one, whatever the trace
 * says. */
static void without_durations_attained_service_decides(void **unused)
{
    (void)unused;
    const char *text = "1 node x 4 gpus; A wants 4 for 5100 did 5000; "
                       "B wants 4 for 90000";
    struct scene *scene = open_scene(text, "firn.knows=service");
    expect(scene, 0, "A: -  B: n0[0-3]");
    scene_free(scene);
    scene = open_scene(text, "firn.knows=forecast");
    expect(scene, 0, "A: n0[0-3]  B: -");
    scene_free(scene);
}

/* Jobs of application `long` took 6000 s, those of `brief` 60 s. Two more come
 * at once whose run times are the other way round: they are not looked at. */
static void ended_jobs_of_the_application_tell_the_work(void **unused)
{
    (void)unused;
    static const char rows[] =
        "#firn-trace 1\nname,submit_s,gpus,duration_s,app\n"
        "l1,0,4,6000,long\nb1,7000,4,60,brief\n"
        "l2,8000,4,60,long\nb2,8000,4,6000,brief\n";
    static const char *const history[] = {"firn.knows=history"};
    struct play play;
    play_open(&play, "1x4:v100", rows);
    play_run(&play, "firn");
    assert_true(play_job(&play, "l2")->first_start_s == 8000);
    assert_true(play_job(&play, "b2")->first_start_s > 8000);
    play.options.settings = history;
    play.options.nsettings = 1;
    play_run(&play, "firn");
    assert_true(play_job(&play, "b2")->first_start_s == 8000);
    assert_true(play_job(&play, "l2")->first_start_s > 8000);
    play_close(&play);
}

/* No job has ended, and `long` has done 100 s when `brief` comes and takes its
 * GPUs. By what both have had, `brief` is the longer one after 100 s. It has
 * reported by then that it has less left than `long`. */
static void a_job_tells_its_work_once_it_has_trained_for_a_minute(void **unused)
{
    (void)unused;
    static const char *const knows[] = {"firn.knows=progress",
                                        "firn.knows=history"};
    for (int k = 0; k < 2; k++) {
        struct play play;
        play_open(&play, "1x4:v100",
                  "#firn-trace 1\nname,submit_s,gpus,duration_s\n"
                  "long,0,4,9000\nbrief,100,4,190\n");
        play.options.restart_s = 0;
        play.options.settings = &knows[k];
        play.options.nsettings = 1;
        play_run(&play, "firn");
        assert_true(play_job(&play, "brief")->first_start_s == 100);
        double end_s = play_job(&play, "brief")->end_s;
        assert_true(k == 0 ? end_s == 290 : end_s > 300);
        play_close(&play);
    }
}

/* `first` has trained for 50 s when `second` comes, and keeps its GPUs until it
 * has reported, a minute after its start, that it has 9000 s left. */
static void a_job_tells_nothing_in_its_first_minute(void **unused)
{
    (void)unused;
    static const char *const progress[] = {"firn.knows=progress"};
    struct play play;
    play_open(&play, "1x4:v100",
              "#firn-trace 1\nname,submit_s,gpus,duration_s\n"
              "first,0,4,9060\nsecond,50,4,190\n");
    play.options.restart_s = 0;
    play.options.settings = progress;
    play.options.nsettings = 1;
    play_run(&play, "firn");
    assert_true(play_job(&play, "second")->first_start_s >= 60);
    assert_true(play_job(&play, "second")->first_start_s < 120);
    play_close(&play);
}

/* No job is looked at before it has trained: both came with what is
 * told of them the wrong way round, and the older one begins. */
static void progress_looks_at_no_job_that_has_not_trained(void **unused)
{
    (void)unused;
    static const char *const progress[] = {"firn.knows=progress"};
    struct play play;
    play_open(&play, "1x4:v100",
              "#firn-trace 1\nname,submit_s,gpus,duration_s\n"
              "long,0,4,9000\nbrief,0,4,190\n");
    play_run(&play, "firn");
    assert_true(play_job(&play, "brief")->first_start_s == 0);
    play.options.settings = progress;
    play.options.nsettings = 1;
    play_run(&play, "firn");
    assert_true(play_job(&play, "long")->first_start_s == 0);
    play_close(&play);
}

/* ---- starts that take as long as the jobs ---- */

static void open_starts(struct play *play, const char *rows)
{
    play_open(play, "1x1:h200", rows);
    play->options.restart_s = 10;
    play->options.charges_first_start = true;
}

/* The first start is paid whenever a job begins: it is no reason to prefer a
 * long job. 9 s and 17 s of work, 10 s of start. */
static void a_start_makes_no_short_job_wait_for_a_long_one(void **unused)
{
    (void)unused;
    struct play play;
    open_starts(&play, "#firn-trace 1\nname,submit_s,gpus,duration_s\n"
                       "a,0,1,5\nlong,1,1,17\nshort,2,1,9\n");
    play_run(&play, "firn");
    assert_true(play_job(&play, "short")->first_start_s == 15);
    assert_true(play_job(&play, "long")->first_start_s == 34);
    play_close(&play);
}

/* What users tell has the start in it: 10 and 2 s, 4 and 9 s. A before B takes
 * 12 + 25 s, B before A 13 + 25. */
static void a_start_is_counted_once_in_what_users_tell(void **unused)
{
    (void)unused;
    static const double starts_s[] = {10, 4};
    struct scene *scene = open_scene(
        "1 nodes x 1 gpus; A wants 1 for 12; B wants 1 for 13", NULL);
    scene->starts_s = starts_s;
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), "A: n0[0]  B: -");
    scene_free(scene);
}

/* A has one second of its start to go, and 8 s of training: it goes before B,
 * whose duration of 10 s has all of its start to come, also if the restart of A
 * does not count. */
static void a_job_is_not_stopped_at_the_end_of_its_start(void **unused)
{
    (void)unused;
    static const double starts_s[] = {12, 4};
    static const struct {
        const char *text, *first, *second;
    } cases[] = {
        {"1 nodes x 1 gpus; A wants 1 for 20; B wants 1 for 10 at 11",
         "A: n0[0]", "A: n0[0]  B: -"},
        {"1 nodes x 1 gpus; 1 jobs per gpu; A wants 1 for 20 shares; "
         "B wants 1 for 10 at 11 shares",
         "A: n0[0]~", "A: n0[0]~  B: -"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene *scene = open_scene(cases[i].text, "firn.keep=0");
        scene->restart_s = 12;
        scene->starts_s = starts_s;
        expect(scene, 0, cases[i].first);
        expect(scene, 11, cases[i].second);
        scene_free(scene);
    }
}

/* One job of x is prepared at a time; one that starts slows no other down. */
static void prepare_one(struct play *play)
{
    static const struct firn_restart_cost prepared = {"x", 0};
    play->options.quiet_starts = true;
    play->options.prepares = 1;
    play->options.prepared = &prepared;
    play->options.nprepared = 1;
}

/* Starts of 10 s, one job is prepared, two that train take twice as long. b is
 * prepared from 1 to 11 s and waits for a, which trains from 10 to 18 s: b
 * would train until 22 s, and c, prepared from 18 s on, from 28 s. At 11 s b
 * comes and costs a 4 s, for c can train from 22 s. Without c it waits. */
static void a_prepared_guest_makes_way_for_the_next_one(void **unused)
{
    (void)unused;
    for (int is_behind = 0; is_behind <= 1; is_behind++) {
        struct play play;
        open_starts(&play, is_behind ? "#firn-trace 1\n"
                                       "name,submit_s,gpus,duration_s,app\n"
                                       "a,0,1,8,x\nb,1,1,4,x\nc,11,1,4,x\n"
                                     : "#firn-trace 1\n"
                                       "name,submit_s,gpus,duration_s,app\n"
                                       "a,0,1,8,x\nb,1,1,4,x\nc,30,1,4,x\n");
        let_share(&play, 2);
        prepare_one(&play);
        play_run(&play, "firn");
        double comes_s = play_job(&play, "b")->first_start_s;
        assert_true(play_near(comes_s, is_behind ? 11 : 18));
        if (is_behind)
            assert_true(play_near(play_job(&play, "c")->first_start_s, 22));
        play_close(&play);
    }
}

/* The same, but a trains from 10 to 28 s, b is prepared from 2 to 12 s, and c
 * is there from 3 s on. If b comes at 12 s, it ends at 22 s, a at 33 s, and c
 * is ready by then. That gain grows until 12 s: b comes then, without an event.
 */
static void a_guest_comes_when_the_pair_gains_most(void **unused)
{
    (void)unused;
    struct play play;
    open_starts(&play, "#firn-trace 1\nname,submit_s,gpus,duration_s,app\n"
                       "a,0,1,18,x\nb,2,1,5,x\nc,3,1,6,x\n");
    let_share(&play, 2);
    prepare_one(&play);
    play_run(&play, "firn");
    assert_true(play_near(play_job(&play, "b")->first_start_s, 12));
    assert_true(play_near(play_job(&play, "b")->end_s, 22));
    assert_true(play_near(play_job(&play, "a")->end_s, 33));
    assert_true(play_near(play_job(&play, "c")->end_s, 39));
    play_close(&play);
}

/* Starts of 10 s, one job is prepared, two that train take 1.8 times as long. a
 * trains from 10 to 28 s, b of 5 s waits for its end. c of 18 s could train
 * from 13 s on: a would end at 40 s, c at 43 s, earlier than both after each
 * other (46 s), but b would wait. c does not come. b comes when it is prepared,
 * at 12 s, so that c is prepared in time for the end of a. */
static void a_long_guest_does_not_pass_a_short_one(void **unused)
{
    (void)unused;
    struct play play;
    open_starts(&play, "#firn-trace 1\nname,submit_s,gpus,duration_s,app\n"
                       "a,0,1,18,x\nb,2,1,5,x\nc,3,1,18,x\n");
    let_share(&play, 1.8);
    prepare_one(&play);
    play_run(&play, "firn");
    assert_true(play_near(play_job(&play, "b")->first_start_s, 12));
    assert_true(play_near(play_job(&play, "b")->end_s, 21));
    assert_true(play_near(play_job(&play, "a")->end_s, 32));
    assert_true(play_near(play_job(&play, "c")->end_s, 50));
    play_close(&play);
}

/* b is the shortest and would wait for the end of a, which trains from 10 to
 * 30 s, but has no room beside a. So that place is not kept for b: c, which
 * gains by it, comes at once. */
static void a_job_without_room_is_promised_no_place(void **unused)
{
    static const struct firn_pair_slowdown pairs[] = {{"x", "y", 3},
                                                      {"y", "x", 3}};
    (void)unused;
    struct play play;
    open_starts(&play, "#firn-trace 1\n"
                       "name,submit_s,gpus,duration_s,may_share,mem_gib,app\n"
                       "a,0,1,20,1,100,x\nb,1,1,5,1,100,y\nc,1,1,40,1,4,x\n");
    play.options.share_slowdown = 1.5;
    play.options.pairs = pairs;
    play.options.npairs = 2;
    play.options.quiet_starts = true;
    play_run(&play, "firn");
    assert_true(play_job(&play, "c")->first_start_s == 1);
    assert_true(play_job(&play, "b")->first_start_s > 30);
    play_close(&play);
}

/* b shares a's GPU; c comes and is as short: it does not take b's place, and no
 * job is restarted. */
static void a_guest_keeps_its_place(void **unused)
{
    (void)unused;
    struct play play;
    open_starts(&play, "#firn-trace 1\nname,submit_s,gpus,duration_s\n"
                       "a,0,1,7\nb,3,1,4\nc,6,1,4\n");
    let_share(&play, 1.05);
    play_run(&play, "firn");
    assert_true(play_job(&play, "b")->first_start_s == 3);
    assert_int_equal(play_job(&play, "b")->restarts, 0);
    assert_true(play_job(&play, "c")->first_start_s > 6);
    play_close(&play);
}

/* Starts take 10 s, in which a job does not train, and beside each other two
 * jobs do no more than one. a trains from 10 to 30 s: b starts when it has 10 s
 * left.
 */
static void a_guest_starts_beside_a_host_that_ends_soon(void **unused)
{
    (void)unused;
    struct play play;
    open_starts(&play, "#firn-trace 1\nname,submit_s,gpus,duration_s\n"
                       "a,0,1,20\nb,1,1,40\n");
    let_share(&play, 2);
    play_run(&play, "firn");
    assert_true(play_job(&play, "b")->first_start_s == 20);
    play_close(&play);
}

/* d runs beside b, c alone: three jobs on two GPUs, two GPUs are free. e needs
 * both and has them, although three jobs and e want five GPUs. */
static void a_job_gets_the_gpus_that_a_guest_does_not_need(void **unused)
{
    (void)unused;
    struct play play;
    play_open(&play, "1x4:v100@16",
              "#firn-trace 1\n"
              "name,submit_s,gpus,duration_s,may_share,restart_s,mem_gib\n"
              "a,0,2,930,0,1,4\nb,450,1,1220,1,20,4\nc,760,1,750,1,1,4\n"
              "d,850,1,600,1,20,4\ne,1160,2,900,0,1,4\n");
    play.options.share_slowdown = 1.05;
    play_run(&play, "firn");
    assert_true(play_job(&play, "d")->first_start_s == 850);
    assert_true(play_job(&play, "e")->first_start_s == 1160);
    play_close(&play);
}

/* c is a's guest, d and f those of b and e. When a ends, c is left alone on its
 * GPU. All four others are shorter and run on two GPUs: c keeps the third. */
static void a_guest_has_the_gpu_when_its_host_has_ended(void **unused)
{
    (void)unused;
    struct play play;
    play_open(&play, "1x3:h200",
              "#firn-trace 1\nname,submit_s,gpus,duration_s\n"
              "a,0,1,20\nb,0,1,100\ne,0,1,100\n"
              "c,1,1,1000\nd,2,1,100\nf,2,1,100\n");
    let_share(&play, 1.05);
    play_run(&play, "firn");
    assert_true(play_job(&play, "c")->first_start_s == 1);
    assert_int_equal(play_job(&play, "c")->restarts, 0);
    play_close(&play);
}

/* g is long and h's host. Both new jobs are shorter than g and longer than h:
 * none of them takes g's place while there are others. */
static void new_guests_leave_the_others_where_they_are(void **unused)
{
    (void)unused;
    struct play play;
    play_open(&play, "1x3:h200",
              "#firn-trace 1\nname,submit_s,gpus,duration_s\n"
              "g,0,1,400\nb,0,1,100\ne,0,1,100\n"
              "h,1,1,50\nd,2,1,150\nf,3,1,150\n");
    let_share(&play, 1.05);
    play_run(&play, "firn");
    assert_true(play_job(&play, "f")->first_start_s == 3);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(play_job(&play, (char[]){"gbehdf"[i], 0})->restarts,
                         0);
    play_close(&play);
}

/* Starts take 10 s. long runs beside short; new needs 60 s with its start. If
 * short ends before that, long would have its turn again at once: it stays. */
static void a_job_gives_way_only_if_that_pays_for_its_restart(void **unused)
{
    static const struct {
        const char *rows;
        int restarts;
    } cases[] = {{"long,0,1,1000\nshort,1,1,40\nnew,20,1,50\n", 0},
                 {"long,0,1,1000\nshort,1,1,400\nnew,20,1,50\n", 1}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct firn_buf rows = {0};
        struct play play;
        buf_printf(&rows, "#firn-trace 1\nname,submit_s,gpus,duration_s\n%s",
                   cases[i].rows);
        open_starts(&play, rows.at);
        let_share(&play, 1.3);
        play_run(&play, "firn");
        assert_int_equal(play_job(&play, "long")->restarts, cases[i].restarts);
        assert_int_equal(play_job(&play, "new")->first_start_s == 20,
                         cases[i].restarts == 1);
        play_close(&play);
        buf_release(&rows);
    }
}

/* new and next need 22 s each with their starts, host and guest another 31 s:
 * to stop one for new would save 9 s and cost a restart of 10 s. More jobs wait
 * than places come free, so only what it has left itself can tell. With 35 s
 * left it pays. */
static void a_job_gives_way_by_its_own_rest_where_many_wait(void **unused)
{
    static const char *const running[] = {"host,0,1,41\nguest,1,1,40\n",
                                          "host,0,1,45\nguest,1,1,44\n"};
    static const char *const settings[] = {"firn.unknown=yes", "firn.keep=0"};
    (void)unused;
    for (int pays = 0; pays <= 1; pays++) {
        struct firn_buf rows = {0};
        struct play play;
        buf_printf(&rows,
                   "#firn-trace 1\nname,submit_s,gpus,duration_s\n%s"
                   "new,20,1,12\nnext,20,1,12\n",
                   running[pays]);
        open_starts(&play, rows.at);
        let_share(&play, 1.0001);
        play.options.settings = settings;
        play.options.nsettings = 2;
        play_run(&play, "firn");
        assert_int_equal(play_job(&play, "new")->first_start_s == 20, pays);
        play_close(&play);
        buf_release(&rows);
    }
}

/* At 100 s a and l share a GPU and y is alone. b is shorter than a and l, would
 * get their GPU, and one of them would go to y. b goes there instead. */
static void
a_job_that_comes_takes_the_place_that_another_would_go_to(void **unused)
{
    static const char *const names[] = {"a", "x", "l", "y", "b"};
    (void)unused;
    struct play play;
    play_open(&play, "1x2:v100@16",
              "#firn-trace 1\n"
              "name,submit_s,gpus,duration_s,may_share,mem_gib\n"
              "a,0,1,1000,1,4\nx,0,1,50,0,4\nl,1,1,900,1,4\n"
              "y,60,1,200,1,4\nb,100,1,20,1,4\n");
    play.options.share_slowdown = 1.05;
    play.options.restart_s = 30;
    play_run(&play, "firn");
    assert_true(play_job(&play, "b")->first_start_s == 100);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(play_job(&play, names[i])->restarts, 0);
    play_close(&play);
}

/* Beside each other jobs are 1.4 times slower. a and c share a GPU. When b,
 * which has the other one, has ended, c has more than 700 s left. */
static void one_of_a_pair_moves_to_a_free_gpu_if_that_pays(void **unused)
{
    static const double costs_s[] = {30, 300};
    (void)unused;
    for (size_t i = 0; i < sizeof costs_s / sizeof *costs_s; i++) {
        struct play play;
        play_open(&play, "1x2:h200",
                  "#firn-trace 1\nname,submit_s,gpus,duration_s\n"
                  "a,0,1,2000\nb,0,1,300\nc,2,1,1000\n");
        let_share(&play, 1.4);
        play.options.restart_s = costs_s[i];
        play_run(&play, "firn");
        assert_int_equal(play_job(&play, "a")->restarts +
                             play_job(&play, "c")->restarts,
                         i == 0 ? 1 : 0);
        play_close(&play);
    }
}

/* ---- notes ---- */

/* Four GPUs make 3.08 of one, two 1.82. Under first come, first served B would
 * wait for the 5000 s of A; it may wait twice as long and came 100 s ago. */
static void waiting_and_resized_jobs_have_notes_with_numbers(void **unused)
{
    (void)unused;
    struct scene *scene = open_scene(
        "1 node x 4 gpus; A wants 2 from 1 to 4 for 5000 on n0[0-1]; "
        "B wants 4 for 1000000",
        "firn.wait=2 firn.wait-least=3600");
    scene_decide(scene, 100);
    assert_non_null(strstr(scene_job(scene, "A")->note,
                           "2 to 4 GPUs: 1.69 times as fast, costs 30 s"));
    assert_non_null(strstr(scene_job(scene, "B")->note, "within 9900 s"));
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_job_with_less_work_left_goes_first),
        cmocka_unit_test(without_alpha_length_does_not_count),
        cmocka_unit_test(a_long_gang_does_not_go_before_a_short_job),
        cmocka_unit_test(a_job_that_can_use_few_gpus_counts_more),
        cmocka_unit_test(elastic_jobs_share_the_gpus),
        cmocka_unit_test(a_start_makes_no_short_job_wait_for_a_long_one),
        cmocka_unit_test(a_start_is_counted_once_in_what_users_tell),
        cmocka_unit_test(a_job_is_not_stopped_at_the_end_of_its_start),
        cmocka_unit_test(a_prepared_guest_makes_way_for_the_next_one),
        cmocka_unit_test(a_guest_comes_when_the_pair_gains_most),
        cmocka_unit_test(a_long_guest_does_not_pass_a_short_one),
        cmocka_unit_test(a_job_without_room_is_promised_no_place),
        cmocka_unit_test(a_guest_keeps_its_place),
        cmocka_unit_test(a_job_has_several_types_where_none_has_enough),
        cmocka_unit_test(a_mixed_job_gives_back_the_gpus_of_one_type),
        cmocka_unit_test(a_mix_is_chosen_before_a_longer_job),
        cmocka_unit_test(what_a_job_holds_counts_by_its_rate_there),
        cmocka_unit_test(
            a_job_is_on_more_nodes_than_it_needs_if_it_is_faster_there),
        cmocka_unit_test(of_equal_nodes_a_job_takes_those_it_is_on),
        cmocka_unit_test(jobs_that_need_whole_nodes_are_placed_first),
        cmocka_unit_test(a_freedom_can_be_switched_off),
        cmocka_unit_test(a_job_that_got_no_gpu_runs_beside_another),
        cmocka_unit_test(a_slow_pair_is_refused_where_the_host_can_shrink),
        cmocka_unit_test(a_pair_shares_if_all_end_earlier_together),
        cmocka_unit_test(a_guest_starts_beside_a_host_that_ends_soon),
        cmocka_unit_test(a_job_gets_the_gpus_that_a_guest_does_not_need),
        cmocka_unit_test(a_guest_has_the_gpu_when_its_host_has_ended),
        cmocka_unit_test(new_guests_leave_the_others_where_they_are),
        cmocka_unit_test(a_job_gives_way_only_if_that_pays_for_its_restart),
        cmocka_unit_test(a_job_gives_way_by_its_own_rest_where_many_wait),
        cmocka_unit_test(
            a_job_that_comes_takes_the_place_that_another_would_go_to),
        cmocka_unit_test(one_of_a_pair_moves_to_a_free_gpu_if_that_pays),
        cmocka_unit_test(fine_tuning_jobs_are_trained_together),
        cmocka_unit_test(a_change_must_pay_for_its_restart),
        cmocka_unit_test(a_change_must_save_more_while_jobs_wait),
        cmocka_unit_test(a_job_is_restarted_no_more_often_than_allowed),
        cmocka_unit_test(a_job_that_never_has_gpus_for_long_is_moved_less),
        cmocka_unit_test(a_restart_that_costs_little_counts_half),
        cmocka_unit_test(a_job_that_resizes_is_not_stopped_sooner_than_others),
        cmocka_unit_test(a_job_grows_if_what_is_prepared_for_it_pays),
        cmocka_unit_test(a_job_does_not_grow_while_others_come_all_the_time),
        cmocka_unit_test(a_job_that_was_restarted_often_grows_again_soon),
        cmocka_unit_test(no_job_waits_longer_than_the_bound),
        cmocka_unit_test(a_job_may_wait_for_the_least_time_in_any_case),
        cmocka_unit_test(a_job_that_was_due_has_a_turn_by_its_wait),
        cmocka_unit_test(a_job_that_a_quota_held_back_has_a_bound_on_its_wait),
        cmocka_unit_test(without_durations_attained_service_decides),
        cmocka_unit_test(ended_jobs_of_the_application_tell_the_work),
        cmocka_unit_test(a_job_tells_its_work_once_it_has_trained_for_a_minute),
        cmocka_unit_test(a_job_tells_nothing_in_its_first_minute),
        cmocka_unit_test(progress_looks_at_no_job_that_has_not_trained),
        cmocka_unit_test(waiting_and_resized_jobs_have_notes_with_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
