/* test_truth_table.c - jobs that go as measured.
 *
 * A toy profile with round numbers is worked by hand; single jobs of Pollux
 * are compared with what its authors' simulator says; random scenes with
 * shipped profiles and noise must keep the books.
 */
#include "base/buf.h"
#include "base/rng.h"
#include "lib/data.h"
#include "lib/play.h"
#include "lib/temp.h"
#include "sim/truth_table.h"
#include <firn/policy.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A sample takes 0.1 s on a T4, which holds 10 of them, and 0.05 s on a V100,
 * which holds 5. No synchronisation. Two stages of 100 iterations at batch
 * 10: V = 9, G = 1, then G = 0. */
static const char toy[] =
    "app toy\nsource test\norigin invented\nhardware none\nmethod made up\n"
    "synthetic yes\nbatch_initial 10\nbatch_max 1000\nprogress 200\n"
    "restart_s 7\ntime t4 beta_s 0.1 batch_max 10\n"
    "time v100 beta_s 0.05 batch_max 5\nbeside toy 1.25\n"
    "batches 10 20\nstage 100 1 9 1 9\nstage 200 0 1 0 1\n";

static char folder[TEMP_FOLDER];

static int make_toy(void **state)
{
    (void)state;
    temp_open(folder);
    temp_write(folder, "toy.txt", toy);
    return 0;
}

static int remove_toy(void **state)
{
    (void)state;
    temp_close(folder);
    return 0;
}

#define COLUMNS                                                             \
    "#firn-trace 1\nname,submit_s,gpus,duration_s,app,batch,types,nominal," \
    "may_share\n"

/* Batch 15 on one T4: two passes of 8, so 16 samples in 1.6 s. Worth 10 / (9 /
 * 1.6 + 1) = 10 / 6.625 iterations in the first stage: 100 x 0.6625 x 1.6 =
 * 106 s; worth 1.6 in the second: 100 s. */
static void duration_is_the_stages_work_over_the_gain(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x1:t4", COLUMNS "a,0,1,5,toy,15,,1,0\n");
    play.options.profiles = folder;
    play_run(&play, "fifo");
    assert_true(play_near(play_end(&play, "a"), 206));
    assert_int_equal(play.result.nominal_jobs, 0);
    play_close(&play);
}

/* The same job, as recorded: 50 s are 50 s on what it asked for. */
static void recorded_durations_stay(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x1:t4", COLUMNS "a,0,1,50,toy,15,,0,0\n");
    play.options.profiles = folder;
    play_run(&play, "fifo");
    assert_true(play_near(play_end(&play, "a"), 50));
    play_close(&play);
}

/* A step takes 1 s and 0.1 s a sample. Ten samples on one GPU: 2 s; five on
 * each of two: 1.5 s, a speedup of 4/3. A nominal 100 s on two GPUs is the work
 * of 200 s on one, which takes 150 s; on one GPU nothing changes. */
static void nominal_work_is_slowed_by_the_measured_speedup(void **state)
{
    static const char flat[] =
        "app flat\nsource test\norigin invented\nhardware none\n"
        "method made up\nsynthetic yes\nrestart_s 7\n"
        "time t4 alpha_s 1 beta_s 0.1 batch_max 10\n";
    (void)state;
    struct play play;
    play_open(&play, "1x4:t4",
              COLUMNS "a,0,2,100,flat,10,,1,0\nb,0,1,200,flat,10,,1,0\n");
    temp_write(folder, "toy.txt", flat);
    play.options.profiles = folder;
    play_run(&play, "fifo");
    assert_true(play_near(play_end(&play, "a"), 150));
    assert_true(play_near(play_end(&play, "b"), 200));
    temp_write(folder, "toy.txt", toy);
    play_close(&play);
}

/* `a` would be packed on a T4 but those are taken. On the V100 batch 15 is
 * three passes of 5: 15 samples in 0.75 s, worth 10 / (9 / 1.5 + 1) = 10 / 7
 * in the first stage: 100 x 0.7 x 0.75 = 52.5 s; worth 1.5 in the second: 50
 * s. So its rate changes at 52.5, when 106 of its 206 reference seconds are
 * done: from 106 / 52.5 to 2. */
static void rate_changes_where_a_stage_ends(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "2x1:t4,1x1:v100",
              COLUMNS "x,0,1,1000,,0,t4,0,0\ny,0,1,1000,,0,t4,0,0\n"
                      "a,0,1,5,toy,15,,1,0\n");
    play.options.profiles = folder;
    play_run(&play, "fifo");
    assert_true(play_near(play_end(&play, "a"), 102.5));
    struct firn_buf log = play_read(play.log);
    assert_non_null(strstr(log.at, "52.5\trate\t2\t106\t2\t52.5\n"));
    buf_release(&log);
    assert_int_equal(play.result.unprofiled_jobs, 2);
    assert_string_equal(play.result.unprofiled, "");
    play_close(&play);
}

/* 200 iterations of 1 s on a T4. The A100 is not in the profile: it goes as a
 * T4 does, by the ratio of the cluster's speeds. */
static void unknown_types_go_by_their_speed(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "2x1:t4,1x1:a100",
              COLUMNS "x,0,1,1000,,0,t4,0,0\ny,0,1,1000,,0,t4,0,0\n"
                      "a,0,1,5,toy,10,,1,0\n");
    double speed =
        play.cluster.types[firn_cluster_type(&play.cluster, "a100")].speed;
    play.options.profiles = folder;
    play_run(&play, "fifo");
    assert_true(play_near(play_end(&play, "a"), 200 / speed));
    play_close(&play);
}

/* Beside itself 1.25, beside anything else the constant. */
static void neighbours_slow_as_measured(void **state)
{
    (void)state;
    struct firn_cluster cluster = {0};
    struct firn_error err = {0};
    struct truth_table *table = NULL;
    assert_int_equal(firn_cluster_open(&cluster, "1x2:t4", &err), FIRN_OK);
    assert_int_equal(
        truth_table_open(&table, folder, &cluster, FIRN_SIM_FREEZE_OFF, &err),
        FIRN_OK);
    struct truth base = truth_from_trace(&cluster, 1, 1.5);
    struct truth truth = truth_from_table(table, &base, "firn");
    struct firn_job job = {
        .spec = {.app = "toy", .gpus = 1, .batch = 10, .duration_s = 200},
        .type_mask = 1};
    struct firn_part part = {.node = 0, .gpus = 1};
    struct firn_alloc alloc = {
        .parts = &part, .nparts = 1, .ngpus = 1, .how = FIRN_HOW_AS_SUBMITTED};
    static const struct {
        int sharers, napps;
        const char *apps[2];
        double rate;
    } cases[] = {
        {1, 0, {NULL}, 1},          {2, 1, {"toy"}, 1 / 1.25},
        {2, 1, {"other"}, 1 / 1.5}, {2, 2, {"toy", "other"}, 1 / 1.5},
        {2, 0, {NULL}, 1 / 1.5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct truth_near near = {.sharers = cases[i].sharers,
                                  .napps = cases[i].napps,
                                  .apps = {cases[i].apps[0], cases[i].apps[1]}};
        struct truth_pace pace = truth.pace(&truth, &job, &alloc, &near, 0);
        assert_true(play_near(pace.rate, cases[i].rate));
        assert_true(isinf(pace.until_s));
    }
    part.gpus = 3; /* two GPUs: 5 samples each, twice as fast */
    alloc.ngpus = 2;
    assert_true(play_near(truth.rate(&truth, &job, &alloc, 1), 2));
    job.spec.app = "unheard of";
    assert_true(play_near(truth.rate(&truth, &job, &alloc, 1), 2));
    assert_false(truth.knows(&truth, "unheard of"));
    truth_table_free(table);
    firn_cluster_release(&cluster);
}

static void restart_cost_is_the_profiles_when_the_trace_has_none(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x1:t4", COLUMNS "a,0,1,5,toy,10,,1,0\n");
    play.options.profiles = folder;
    play.options.charges_first_start = true;
    play_run(&play, "fifo");
    assert_true(play_near(play_end(&play, "a"), 207));
    play_close(&play);
}

static void bad_profiles_stop_the_run_with_a_sentence(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x1:t4", "a,0,1,5\n");
    play.options.profiles = "no/such/folder";
    assert_int_equal(play_try(&play, "fifo"), FIRN_ENOENT);
    assert_non_null(strstr(play.err.text, "no/such/folder: not a folder"));
    play_close(&play);
}

/* One job alone, its start charged 30 s: completion as the AdaptDL simulator
 * has it. That one rounds each epoch to whole seconds, we do not. */
static void polluxs_jobs_take_as_long_as_in_its_simulator(void **state)
{
    (void)state;
    static const struct {
        const char *row;
        double end_s;
    } cases[] = {
        {"cifar10,6,2048", 940}, {"cifar10,12,4096", 654},
        {"bert,8,384", 2489},    {"imagenet,48,6400", 19719},
        {"yolov3,4,64", 14132},  {"deepspeech2,6,320", 4172},
        {"ncf,1,32768", 77},
    };
    const char *apps = data_path("pollux/apps.csv");
    if (apps == NULL) {
        print_message("no Pollux tables\n");
        skip();
    }
    char dir[512];
    snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(apps, '/') - apps), apps);
    *strrchr(dir, '/') = '\0';
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct play play;
        struct firn_restart_cost cost = {NULL, 30};
        char text[128], app[32];
        snprintf(text, sizeof text,
                 "name,time,application,num_replicas,batch_size\na,0,%s\n",
                 cases[i].row);
        snprintf(app, sizeof app, "%.*s", (int)strcspn(cases[i].row, ","),
                 cases[i].row);
        cost.app = app;
        play_open(&play, "pollux", "#");
        play_write(play.trace, text);
        play.options.profiles = dir;
        play.options.charges_first_start = true;
        play.options.restarts = &cost;
        play.options.nrestarts = 1;
        play_run(&play, "fifo");
        double end_s = play_end(&play, "a");
        printf("%-18s %.1f s, theirs %g s\n", cases[i].row, end_s,
               cases[i].end_s);
        assert_true(fabs(end_s - cases[i].end_s) <
                    0.025 * cases[i].end_s + 1.5);
        play.options.profiles = "builtin"; /* fitted, not looked up */
        play_run(&play, "fifo");
        assert_true(fabs(play_end(&play, "a") - end_s) < 0.2 * end_s);
        play_close(&play);
    }
}

/* ---- random scenes ---- */

static int below(struct rng *rng, int n)
{
    return (int)rng_below(rng, (uint64_t)n);
}

static void draw_trace(struct rng *rng, struct play *play)
{
    static const char *const apps[] = {
        "bert",     "cifar10",        "yolov3",     "vit@mnist",
        "resnet50", "bert-wikitext2", "yolov3-voc", "unheard"};
    enum { APPS = sizeof apps / sizeof *apps };
    struct firn_buf rows = {0};
    double at_s = 0;
    int n = 5 + below(rng, 60);
    buf_puts(&rows, COLUMNS);
    for (int i = 0; i < n; i++) {
        int gpus = 1 + below(rng, 4), app = below(rng, APPS);
        at_s += rng_exp(rng, 40);
        buf_printf(&rows, "j%d,%.17g,%d,%.17g,%s,%d,,%d,%d\n", i, at_s, gpus,
                   50 + rng_exp(rng, 2000), apps[app],
                   below(rng, 3) ? 1 + below(rng, 90) : 0,
                   app < APPS - 1 ? below(rng, 2) : 0, below(rng, 2));
    }
    play_write(play->trace, rows.at);
    buf_release(&rows);
}

static void draw_options(struct rng *rng, struct firn_sim_options *o)
{
    o->profiles = "builtin";
    o->freeze = (enum firn_sim_freeze)below(rng, 4);
    o->elastic_max = below(rng, 2) ? 8 : 0;
    o->elastic_min = 1;
    o->restart_s = 20 * rng_unit(rng);
    o->quantum_s = below(rng, 3) ? 0 : 1;
    o->interval_s = below(rng, 3) ? 0 : 60;
    o->charges_first_start = below(rng, 2);
    o->checkpoint_s = below(rng, 2) ? 100 : 0;
    o->mtbf_s = below(rng, 2) ? 20000 : 0;
    o->mttr_s = 100;
    o->seed = rng_u64(rng);
    if (below(rng, 2))
        o->noise = (struct firn_sim_noise){0.5, 1, 0.4, 0.1, 0.2};
}

static void check_books(const struct play *play, uint64_t seed,
                        const char *policy)
{
    const struct firn_sim_result *r = &play->result;
    double served = 0;
    for (size_t i = 0; i < play->done.n; i++)
        served += play->done.at[i].served_gpu_s;
    if (r->unfinished != 0 || (size_t)r->jobs != play->done.n ||
        !play_near(r->gpu_s_given, served) ||
        !play_near(r->gpu_s_given,
                   r->gpu_s_useful + r->gpu_s_overhead + r->gpu_s_lost))
        fail_msg("seed %llu, %s: the sums do not agree",
                 (unsigned long long)seed, policy);
}

/* How often a text occurs. */
static long count(const char *in, const char *text)
{
    long n = 0;
    for (; (in = strstr(in, text)) != NULL; in++)
        n++;
    return n;
}

static void measured_truth_and_noise_keep_the_books(void **state)
{
    (void)state;
    static const char *const clusters[] = {"sia", "4x4:t4",
                                           "2x4:v100,2x4:a100,1x4:p100"};
    size_t npolicies;
    const struct firn_policy_def *const *policies = firn_policies(&npolicies);
    const char *one = getenv("FIRN_SEED");
    uint64_t first = one ? strtoull(one, NULL, 10) : 1;
    long turns = 0; /* rates that no start, move or resize explains */
    uint64_t last = one                    ? first
                    : getenv("FIRN_SOAK")  ? 1000
                    : getenv("FIRN_QUICK") ? 1
                                           : 4;
    for (uint64_t seed = first; seed <= last; seed++) {
        struct rng rng;
        struct play play;
        rng_seed(&rng, seed);
        play_open(&play, clusters[below(&rng, 3)], "#");
        draw_trace(&rng, &play);
        draw_options(&rng, &play.options);
        for (size_t k = 0; k < npolicies; k++) {
            const char *name = policies[k]->name;
            struct firn_sim_result again = {0};
            if (play_try(&play, name) != FIRN_OK)
                fail_msg("FIRN_SEED=%llu, %s: %s", (unsigned long long)seed,
                         name, play.err.text);
            if (firn_sim_replay(play.log, &again, &play.err) != FIRN_OK)
                fail_msg("FIRN_SEED=%llu, %s: the replay says: %s",
                         (unsigned long long)seed, name, play.err.text);
            check_books(&play, seed, name);
            struct firn_buf was = play_read(play.log);
            turns += count(was.at, "\trate\t") - count(was.at, "\tstart\t") -
                     count(was.at, "\tmove\t") - count(was.at, "\tresize\t");
            play_try(&play, name);
            struct firn_buf is = play_read(play.log);
            assert_string_equal(was.at, is.at);
            buf_release(&was);
            buf_release(&is);
        }
        play_close(&play);
    }
    assert_true(turns > 0 || one != NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(duration_is_the_stages_work_over_the_gain),
        cmocka_unit_test(recorded_durations_stay),
        cmocka_unit_test(nominal_work_is_slowed_by_the_measured_speedup),
        cmocka_unit_test(rate_changes_where_a_stage_ends),
        cmocka_unit_test(unknown_types_go_by_their_speed),
        cmocka_unit_test(neighbours_slow_as_measured),
        cmocka_unit_test(restart_cost_is_the_profiles_when_the_trace_has_none),
        cmocka_unit_test(bad_profiles_stop_the_run_with_a_sentence),
        cmocka_unit_test(polluxs_jobs_take_as_long_as_in_its_simulator),
        cmocka_unit_test(measured_truth_and_noise_keep_the_books),
    };
    return cmocka_run_group_tests(tests, make_toy, remove_toy);
}
