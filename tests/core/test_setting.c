/* test_setting.c - what a trainer should set on the GPUs that its job gets.
 *
 * The batch is that of the application's profile (Pollux's goodput); the frozen
 * layers follow from the variances that the job itself reports.
 */
#include "core/forecaster.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include <cmocka.h>
#include <math.h>
#include <string.h>

struct bench {
    struct firn_cluster cluster;
    struct known known;
    struct trainer *trainer;
    struct forecaster *forecaster;
};

static struct bench *bench_open(const char *cluster)
{
    static struct bench bench;
    struct firn_error err = {0};
    if (firn_cluster_parse_spec(&bench.cluster, cluster, &err) != FIRN_OK ||
        known_open(&bench.known, "builtin", &bench.cluster, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    bench.trainer = trainer_new(&bench.known, FREEZE_POLICY);
    struct forecaster_priors priors = {.cluster = &bench.cluster,
                                       .known = &bench.known,
                                       .trainer = bench.trainer,
                                       .scaling = 0.85,
                                       .share_slowdown = 1.5};
    bench.forecaster = forecaster_new(&priors);
    return &bench;
}

static void bench_close(struct bench *bench)
{
    forecaster_free(bench->forecaster);
    trainer_free(bench->trainer);
    known_close(&bench->known);
    firn_cluster_release(&bench->cluster);
}

static struct firn_job job_of(const char *app, int gpus)
{
    return (struct firn_job){.id = 1,
                             .slot = 1,
                             .spec = {.name = "J",
                                      .app = app,
                                      .group = "",
                                      .types = "",
                                      .gpus = gpus,
                                      .gpus_min = 1,
                                      .gpus_max = gpus,
                                      .duration_s = 3600,
                                      .restart_s = -1},
                             .type_mask = 1};
}

static struct firn_setting setting_of(struct bench *bench,
                                      const struct firn_job *job, int gpus,
                                      unsigned tunes, double done_s)
{
    struct firn_way way = {.gpus = gpus, .nodes = 1, .type = 0, .tunes = tunes};
    struct firn_setting out = {0, -1, 1};
    struct forecaster_key key = {1, 1};
    if (!forecaster_setting(bench->forecaster, key, job, &way, done_s, &out))
        out.batch = -1;
    return out;
}

/* Pollux's profile of imagenet: 200 samples on one T4, more on four; more still
 * when noise prevails, late in training. Its limits hold. */
static void more_gpus_and_later_stages_are_worth_a_larger_batch(void **state)
{
    (void)state;
    struct bench *bench = bench_open("1x4:t4");
    struct firn_job job = job_of("imagenet", 4);
    double one = setting_of(bench, &job, 1, FIRN_TUNE_BATCH, 0).batch;
    double four = setting_of(bench, &job, 4, FIRN_TUNE_BATCH, 0).batch;
    double late = setting_of(bench, &job, 4, FIRN_TUNE_BATCH, 3500).batch;
    assert_true(one == 200 && four > one && late > four);
    assert_true(setting_of(bench, &job, 4, 0, 0).batch == 0);
    job = job_of("yolov3", 4); /* no statistics: its batch is not tuned */
    forecaster_forget(bench->forecaster, (struct forecaster_key){1, 1});
    assert_true(setting_of(bench, &job, 4, FIRN_TUNE_BATCH, 0).batch == 0);
    job = job_of("unheard-of", 4);
    forecaster_forget(bench->forecaster, (struct forecaster_key){1, 1});
    assert_true(setting_of(bench, &job, 4, FIRN_TUNE_BATCH, 0).batch == -1);
    bench_close(bench);
}

/* A report of a job with these variances on GPU 0. */
static void report(struct bench *bench, struct firn_job *job,
                   const double *variance, size_t n, int nfrozen)
{
    struct firn_part part = {0, 0, 1};
    struct firn_alloc held = FIRN_ALLOC_NONE;
    held.parts = &part;
    held.nparts = held.ngpus = 1;
    held.tunes = FIRN_TUNE_FREEZE;
    struct firn_job now = *job;
    now.held = held;
    struct forecaster_report r = {.job = &now,
                                  .rate = 1,
                                  .is_alone = true,
                                  .step_s = 0.1,
                                  .nfrozen = nfrozen,
                                  .variance = variance,
                                  .nlayers = n};
    forecaster_learn(bench->forecaster, (struct forecaster_key){1, 1}, &r);
}

/* Variances that lie in the last layer alone: the front layers cost nothing to
 * freeze, psi is 1, and as many are frozen as may be (90 %). In the first layer
 * alone: psi of freezing it is 0, and nothing is frozen. */
static void frozen_layers_follow_the_reported_variances(void **state)
{
    (void)state;
    double late[10] = {0}, early[10] = {0};
    late[9] = early[0] = 1;
    struct bench *bench = bench_open("1x4:v100");
    struct firn_job job = job_of("bert-wikitext2", 1);
    assert_int_equal(setting_of(bench, &job, 1, FIRN_TUNE_FREEZE, 0).nfrozen,
                     -1); /* nothing was reported */
    report(bench, &job, late, 10, 0);
    struct firn_setting best = setting_of(bench, &job, 1, FIRN_TUNE_FREEZE, 0);
    assert_int_equal(best.nfrozen, 9);
    assert_true(best.psi == 1);
    struct firn_way frozen = {.gpus = 1, .nodes = 1, .tunes = FIRN_TUNE_FREEZE},
                    whole = {.gpus = 1, .nodes = 1};
    struct forecaster_key key = {1, 1};
    assert_true(forecaster_rate(bench->forecaster, key, &job, &frozen, 0) >
                forecaster_rate(bench->forecaster, key, &job, &whole, 0));
    job.spec.frozen_max = 0.5;
    forecaster_respec(bench->forecaster, key);
    assert_int_equal(setting_of(bench, &job, 1, FIRN_TUNE_FREEZE, 0).nfrozen,
                     5);
    report(bench, &job, early, 10, 0);
    best = setting_of(bench, &job, 1, FIRN_TUNE_FREEZE, 0);
    assert_int_equal(best.nfrozen, 0);
    assert_true(best.psi == 1);
    bench_close(bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_gpus_and_later_stages_are_worth_a_larger_batch),
        cmocka_unit_test(frozen_layers_follow_the_reported_variances),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
