/* test_trainer.c - tuned batches and frozen layers, worked by hand.
 *
 * What a trainer sets, what that makes of the truth, and what a whole run
 * makes of it. Toy profiles with round numbers; the published tables by frozen
 * layers where they are.
 */
#include "base/buf.h"
#include "lib/data.h"
#include "lib/play.h"
#include "sim/truth_table.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define HEAD                                                                  \
    "source test\norigin invented\nhardware none\nmethod made up\nsynthetic " \
    "yes\n"

/* An iteration takes 1 s a pass whatever the batch. */
static const char flat[] =
    "app flat\n" HEAD "batch_initial 10\nbatch_max 40\nlocal_min 4\n"
    "local_max 40\nprogress 200\ntime t4 alpha_s 1\n"
    "batches 10 20\nstage 100 1 9 1 9\nstage 200 0 1 0 1\n";

/* One second an iteration, all of it backward, which goes with theta. Four
 * layers, of variance 1 each in the first half and 0.6 in the second. */
static const char deep[] =
    "app deep\n" HEAD "batch_initial 10\nbatch_max 10\nprogress 200\n"
    "layer_count 4\ntime t4 beta_s 0.1 batch_max 10 flop_beta 1 flop_gamma 1\n"
    "frozen 0 1 1\nfrozen 1 0.5 0.75\nfrozen 2 0.25 0.5\nfrozen 3 0.2 0.25\n"
    "batches 10\nstage 100 1 9\nlayers 1 1 1 1\n"
    "stage 200 1 9\nlayers 0.6 0.6 0.6 0.6\n";

/* The same network without variances, and one whose variances are those of
 * eight layers of another. */
static const char bare[] =
    "app bare\n" HEAD "batch_initial 10\nbatch_max 10\nprogress 200\n"
    "layer_count 4\ntime t4 beta_s 0.1 batch_max 10 flop_beta 1 flop_gamma 1\n"
    "frozen 0 1 1\nfrozen 1 0.5 0.75\nfrozen 2 0.25 0.5\nfrozen 3 0.2 0.25\n";
static const char other[] =
    "app other\n" HEAD "local_max 10\nlayer_count 4\n"
    "time t4 beta_s 0.1 batch_max 10 flop_beta 1 flop_gamma 1\n"
    "frozen 0 1 1\nfrozen 1 0.5 0.75\nfrozen 2 0.25 0.5\nfrozen 3 0.2 0.25\n"
    "stats_of test/eight\n";
static const char eight[] =
    "app eight\n" HEAD "batch_initial 10\nbatch_max 10\nprogress 200\n"
    "batches 10\nstage 200 1 9\nlayers 1 2 3 4 0.5 0.5 -1 1\n";

static const struct {
    const char *name, *text;
} toys[] = {{"flat", flat},
            {"deep", deep},
            {"bare", bare},
            {"other", other},
            {"eight", eight}};
enum { TOYS = sizeof toys / sizeof *toys };

static char folder[64];

static void toy_path(char *out, size_t size, size_t i)
{
    snprintf(out, size, "%s/%s.txt", folder, toys[i].name);
}

static int make_toys(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/firn-trainer-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    for (size_t i = 0; i < TOYS; i++) {
        char path[96];
        toy_path(path, sizeof path, i);
        play_write(path, toys[i].text);
    }
    return 0;
}

static int remove_toys(void **state)
{
    (void)state;
    for (size_t i = 0; i < TOYS; i++) {
        char path[96];
        toy_path(path, sizeof path, i);
        unlink(path);
    }
    rmdir(folder);
    return 0;
}

/* One job on the first `gpus` GPUs of a node of four T4. */
struct scene {
    struct firn_cluster cluster;
    struct truth_table *table;
    struct truth truth;
    struct firn_job job;
    struct firn_part part;
    struct firn_alloc alloc;
};

static void scene_open(struct scene *s, const char *app, int gpus,
                       enum firn_sim_freeze freeze)
{
    struct firn_error err = {0};
    *s = (struct scene){0};
    assert_int_equal(firn_cluster_open(&s->cluster, "1x4:t4", &err), FIRN_OK);
    if (truth_table_open(&s->table, folder, &s->cluster, freeze, &err) !=
        FIRN_OK)
        fail_msg("%s", err.text);
    struct truth base = truth_from_trace(&s->cluster, 1, 1.5);
    s->truth = truth_from_table(s->table, &base, "firn");
    s->job = (struct firn_job){
        .spec = {.app = app, .gpus = 1, .batch = 10, .duration_s = 200},
        .type_mask = 1};
    s->part = (struct firn_part){.gpus = ((uint64_t)1 << gpus) - 1};
    s->alloc = (struct firn_alloc){.parts = &s->part,
                                   .nparts = 1,
                                   .ngpus = gpus,
                                   .how = FIRN_HOW_AS_SUBMITTED};
}

static void scene_close(struct scene *s)
{
    truth_table_free(s->table);
    firn_cluster_release(&s->cluster);
}

/* From `done_s` on at this rate until so much is done. */
static void check_pace(const struct scene *s, double done_s, double rate,
                       double until_s)
{
    struct truth_near alone = {.sharers = 1};
    struct truth_pace pace =
        s->truth.pace(&s->truth, &s->job, &s->alloc, &alone, done_s);
    if (!play_near(pace.rate, rate) ||
        !(isinf(until_s) ? isinf(pace.until_s)
                         : play_near(pace.until_s, until_s)))
        fail_msg("at %g: %.17g until %.17g, not %.17g until %.17g", done_s,
                 pace.rate, pace.until_s, rate, until_s);
}

/* 40 samples in two passes are worth 10 / 3.25 in the first stage and 4 in
 * the second, in 2 s; two GPUs need one pass. The first stage is the first 100
 * s of the job as submitted. */
static void a_tuned_batch_changes_the_rate_at_a_stages_end(void **state)
{
    (void)state;
    struct scene s;
    double gain = 10 / 3.25;
    scene_open(&s, "flat", 1, FIRN_SIM_FREEZE_OFF);
    check_pace(&s, 0, 1, INFINITY);
    s.alloc.tunes = FIRN_TUNE_BATCH;
    check_pace(&s, 0, gain / 2, 100);
    check_pace(&s, 99, gain / 2, 100);
    check_pace(&s, 100, 2, INFINITY);
    scene_close(&s);
    scene_open(&s, "flat", 2, FIRN_SIM_FREEZE_OFF);
    s.alloc.tunes = FIRN_TUNE_BATCH;
    check_pace(&s, 0, gain, 100);
    check_pace(&s, 150, 4, INFINITY);
    scene_close(&s);
}

/* No statistics: the batch stays as it is. */
static void a_batch_without_statistics_is_not_tuned(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, "bare", 1, FIRN_SIM_FREEZE_OFF);
    s.alloc.tunes = FIRN_TUNE_BATCH;
    check_pace(&s, 0, 1, INFINITY);
    scene_close(&s);
}

/* psi / theta of 0..3 frozen layers, at first: 1, 0.75 / 0.5, 0.5 / 0.25, 0.25
 * / 0.2: two layers, rate 2. In the second half the frozen two keep their
 * variance of 1 and the others have 0.6, of 3.2 in all: 1, 2.2 / 3.2 / 0.5 =
 * 1.375, 1.2 / 3.2 / 0.25 = 1.5, 0.6 / 3.2 / 0.2: still two. */
static void the_penalty_rule_freezes_what_pays(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, "deep", 1, FIRN_SIM_FREEZE_PENALTY);
    check_pace(&s, 0, 2, 100);
    check_pace(&s, 57, 2, 100);
    check_pace(&s, 100, 1.5, INFINITY);
    scene_close(&s);
    scene_open(&s, "deep", 1, FIRN_SIM_FREEZE_POLICY);
    check_pace(&s, 0, 1, INFINITY);
    s.alloc.tunes = FIRN_TUNE_FREEZE; /* its policy leaves it to the trainer */
    check_pace(&s, 0, 2, 100);
    s.alloc.tunes |= FIRN_TUNE_BATCH; /* there is one batch only */
    check_pace(&s, 150, 1.5, INFINITY);
    scene_close(&s);
}

/* Job 7 is believed to be twice as fast as it is with one layer frozen. */
static double one_layer_seems_fast(const void *arg,
                                   const struct trainer_ask *ask,
                                   size_t nfrozen)
{
    (void)arg;
    return ask->job == 7 && nfrozen == 1 ? 2 : 1;
}

/* The numbers of the case above, seen wrongly: 1, 2 x 1.5, 2, 1.25. One layer
 * seems best, and gives 1.5. In the second half it keeps its variance of 1, of
 * 2.8 in all: 1, 2 x 1.8 / 2.8 / 0.5, 1.2 / 2.8 / 0.25 = 1.71, 0.6 / 2.8 / 0.2:
 * still one layer, which gives 1.29. Job 8 is seen rightly. */
static void a_trainer_that_sees_wrong_speeds_freezes_wrong_layers(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, "deep", 1, FIRN_SIM_FREEZE_PENALTY);
    trainer_set_doubt(s.table->trainer,
                      (struct trainer_doubt){one_layer_seems_fast, NULL});
    s.job.id = 7;
    check_pace(&s, 0, 1.5, 100);
    check_pace(&s, 100, 1.8 / 2.8 / 0.5, INFINITY);
    s.job.id = 8;
    check_pace(&s, 0, 2, 100);
    scene_close(&s);
}

static void a_rule_holds_whatever_the_policy(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, "deep", 1, FIRN_SIM_FREEZE_OFF);
    s.alloc.tunes = FIRN_TUNE_FREEZE;
    check_pace(&s, 0, 1, INFINITY);
    scene_close(&s);
    scene_open(&s, "deep", 1, FIRN_SIM_FREEZE_FREEZEOUT);
    s.alloc.tunes = FIRN_TUNE_FREEZE;
    check_pace(&s, 0, 1, 110); /* as in the case below */
    check_pace(&s, 170, 5, INFINITY);
    scene_close(&s);
}

/* Layer i trains until (0.8 + 0.2 i / 3)^3: 0.512, 0.651, 0.813, 1. Rules are
 * applied at each twentieth: one layer from 0.55, two from 0.7, three from
 * 0.85 on; 1 / theta is 2, 4 and 5. */
static void freezeout_follows_its_schedule_and_owes_nothing(void **state)
{
    (void)state;
    struct scene s;
    static const char *const apps[] = {"deep", "bare"};
    for (int i = 0; i < 2; i++) {
        scene_open(&s, apps[i], 1, FIRN_SIM_FREEZE_FREEZEOUT);
        check_pace(&s, 0, 1, 110);
        check_pace(&s, 110, 2, 140);
        check_pace(&s, 140, 4, 170);
        check_pace(&s, 170, 5, INFINITY);
        scene_close(&s);
    }
}

/* t0 = 0.3 costs least of 0.3 .. 1 (0.027 + 0.1247 / 1.5 + 0.299 / 2 + 0.5493
 * / 1.25 = 0.699; 0.4: 0.704; 0.5: 0.717). Layers freeze from 0.05, 0.2 and
 * 0.5 on; three of them leave 0.6 of 1 + 1 + 0.6 + 0.6. */
static void tuned_freezeout_takes_the_schedule_that_ends_first(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, "deep", 1, FIRN_SIM_FREEZE_TUNED);
    check_pace(&s, 0, 1, 10);
    check_pace(&s, 10, 1.5, 40);
    check_pace(&s, 40, 2, 100);
    check_pace(&s, 100, 0.6 / 3.2 / 0.2, INFINITY);
    scene_close(&s);
}

/* 1 + 2, 3 + 4, 0.5 + 0.5, 1 - what is below 0 counts as 0 - of 12. Its batch
 * and its work are the other's too. */
static void statistics_of_another_come_with_its_layers(void **state)
{
    (void)state;
    struct known known = {0};
    struct firn_cluster cluster;
    struct firn_error err = {0};
    assert_int_equal(firn_cluster_open(&cluster, "1x4:t4", &err), FIRN_OK);
    assert_int_equal(known_open(&known, folder, &cluster, &err), FIRN_OK);
    firn_cluster_release(&cluster);
    const struct firn_profile *p =
        firn_profiles_find(&known.profiles, "other", NULL, &err);
    static const double want[] = {3, 7, 1, 1};
    assert_non_null(p);
    assert_int_equal(p->stats.nlayers, 4);
    for (int i = 0; i < 4; i++)
        assert_true(play_near(p->stats.layer_var[i], want[i]));
    assert_true(p->progress == 200 && p->batch0 == 10);
    assert_true(known_can_freeze(p, true));
    known_close(&known);
}

#define COLUMNS \
    "#firn-trace 1\nname,submit_s,gpus,duration_s,app,batch,nominal\n"

/* 110 s, then 30 at each of 2, 4 and 5: 138.5 in all. `b` never freezes. */
static void a_run_counts_the_jobs_that_cannot_freeze_by_its_rule(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x2:t4",
              COLUMNS "a,0,1,5,deep,10,1\nb,0,1,90,flat,10,0\n");
    play.options.profiles = folder;
    play.options.freeze = FIRN_SIM_FREEZE_FREEZEOUT;
    play_run(&play, "fifo");
    assert_true(play_near(play_end(&play, "a"), 138.5));
    assert_true(play_near(play_end(&play, "b"), 90));
    assert_int_equal(play.result.unfrozen_jobs, 1);
    assert_string_equal(play.result.unfrozen, "flat");
    play.options.freeze = FIRN_SIM_FREEZE_OFF;
    play_run(&play, "fifo");
    assert_true(play_near(play_end(&play, "a"), 200));
    assert_int_equal(play.result.unfrozen_jobs, 0);
    play_close(&play);
}

static void an_unknown_application_without_a_duration_stops_the_run(void **s)
{
    (void)s;
    struct play play;
    play_open(&play, "1x2:t4",
              COLUMNS "a,0,1,5,deep,10,1\nb,1,1,90,shallow,10,1\n");
    play.options.profiles = folder;
    assert_int_equal(play_try(&play, "fifo"), FIRN_EINVAL);
    assert_non_null(strstr(play.err.text, "line 4: no profile of 'shallow'"));
    assert_non_null(strstr(play.err.text, "bare, deep, flat, other"));
    play_write(play.trace, COLUMNS "b,1,1,90,shallow,10,0\n");
    play_run(&play, "fifo"); /* it has a duration of its own */
    assert_int_equal(play.result.unprofiled_jobs, 1);
    play_close(&play);
}

/* Rows of the published table: BERT on one GPU, 8 samples, 0 and 8 of 103
 * layers frozen; between them linearly, beyond 72 as there. A fit is not the
 * table. */
static void bert_by_frozen_layers_is_looked_up(void **state)
{
    (void)state;
    const char *path = data_path("icefrog/bert_wikitext2/placements.csv");
    struct tables tables = {0};
    struct firn_error err = {0};
    struct firn_cluster cluster;
    char dir[512];
    if (path == NULL) {
        print_message("no tables by frozen layers\n");
        skip();
    }
    snprintf(dir, sizeof dir, "%.*s", (int)(strstr(path, "icefrog") - path - 1),
             path);
    assert_int_equal(firn_cluster_open(&cluster, "1x4:v100", &err), FIRN_OK);
    if (tables_open(&tables, dir, &cluster, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    struct known_app app = known_find(&tables.known, "bert-wikitext2", 1);
    assert_int_equal(tables.of[app.which].nlevels, 10);
    struct spread where = spread_packed(0, 4, 1);
    struct setting s = {.split = {8, 1, 8}, .psi = 1};
    double none_s = 0.25934362411499023, eight_s = 0.2360566164317884;
    assert_true(
        play_near(tables_true_s(&tables.known, &app, &where, &s), none_s));
    s.frozen = 8;
    assert_true(
        play_near(tables_true_s(&tables.known, &app, &where, &s), eight_s));
    double fit_s = known_fit_s(&tables.known, &app, &where, &s);
    assert_true(fit_s != eight_s && fabs(fit_s / eight_s - 1) < 0.2);
    s.frozen = 2;
    assert_true(play_near(tables_true_s(&tables.known, &app, &where, &s),
                          none_s + (eight_s - none_s) / 4));
    s.frozen = 72;
    double last_s = tables_true_s(&tables.known, &app, &where, &s);
    s.frozen = 90;
    assert_true(tables_true_s(&tables.known, &app, &where, &s) == last_s);
    tables_close(&tables);
    firn_cluster_release(&cluster);
}

/* The shipped profiles that can freeze by penalty, one by one: never slower
 * than unfrozen by the fit that decides, and each job ends. */
static void shipped_profiles_gain_by_freezing(void **state)
{
    (void)state;
    static const char *const apps[] = {"bert-base",  "googlenet-c",
                                       "resnet18-c", "resnet50-c",
                                       "vgg19-c",    "mobilenetv2-c"};
    for (size_t i = 0; i < sizeof apps / sizeof *apps; i++) {
        struct play play;
        char text[160];
        snprintf(text, sizeof text, COLUMNS "a,0,1,1000,%s,0,0\n", apps[i]);
        play_open(&play, "1x1:h200", text);
        play.options.profiles = "builtin";
        for (int rule = FIRN_SIM_FREEZE_FREEZEOUT;
             rule <= FIRN_SIM_FREEZE_PENALTY; rule++) {
            play.options.freeze = (enum firn_sim_freeze)rule;
            play_run(&play, "fifo");
            assert_int_equal(play.result.unfrozen_jobs, 0);
            printf("%-14s %-16s %.1f s of 1000\n", apps[i],
                   firn_sim_freeze_name(play.options.freeze),
                   play_end(&play, "a"));
            assert_true(play_end(&play, "a") <= 1000 + 1e-6);
        }
        play_close(&play);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tuned_batch_changes_the_rate_at_a_stages_end),
        cmocka_unit_test(a_batch_without_statistics_is_not_tuned),
        cmocka_unit_test(the_penalty_rule_freezes_what_pays),
        cmocka_unit_test(a_trainer_that_sees_wrong_speeds_freezes_wrong_layers),
        cmocka_unit_test(a_rule_holds_whatever_the_policy),
        cmocka_unit_test(freezeout_follows_its_schedule_and_owes_nothing),
        cmocka_unit_test(tuned_freezeout_takes_the_schedule_that_ends_first),
        cmocka_unit_test(statistics_of_another_come_with_its_layers),
        cmocka_unit_test(a_run_counts_the_jobs_that_cannot_freeze_by_its_rule),
        cmocka_unit_test(
            an_unknown_application_without_a_duration_stops_the_run),
        cmocka_unit_test(bert_by_frozen_layers_is_looked_up),
        cmocka_unit_test(shipped_profiles_gain_by_freezing),
    };
    return cmocka_run_group_tests(tests, make_toys, remove_toys);
}
