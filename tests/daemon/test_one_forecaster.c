/* test_one_forecaster.c - a live history, replayed through the simulator's
 * feeder and through the live scheduler's: the answers are equal to the last
 * bit.
 *
 * The two feeders (sim/simforecast.c, daemon/liveforecast.c) differ in what
 * they hand to core/forecaster.c. With the same priors (the shipped profiles,
 * the same exponent and slowdown) and the same reports nothing else may
 * differ. Left out, because the two differ there on purpose
 * (priors.is_recorded): jobs that were never seen alone on their GPUs,
 * slowdowns of pairs that no profile has, and memory that a user declares.
 *
 * A simulated job reports no step times; a report that has some is handed to
 * the simulator's forecaster as it is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fmath.h"
#include "base/rng.h"
#include "daemon/liveforecast.h"
#include "lib/trials.h"
#include "sim/simforecast.h"
#include "sim/truth_table.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 8, BOOK = 100 /* the first id in the book */ };

/* Nodes 0 to 2 have T4, nodes 3 and 4 H200. */
static const char cluster_spec[] = "3x4:t4@16,2x4:h200@141";

/* With and without a profile, a language model, elastic threads. */
static const struct firn_job_spec specs[JOBS] = {
    {.app = "cifar10", .gpus = 1, .gpus_max = 8, .batch = 256},
    {.app = "bert", .gpus = 2, .gpus_max = 8},
    {.app = "bert-base", .gpus = 1, .gpus_max = 4, .batch = 32},
    {.app = "vgg19-c", .gpus = 1, .gpus_max = 4, .batch = 64},
    {.app = "mine", .gpus = 1, .gpus_max = 6, .batch = 64},
    {.app = "", .gpus = 2, .gpus_max = 8},
    {.app = "gpt2", .gpus = 1, .gpus_max = 4, .batch = 8, .seq = 1024},
    {.app = "mine", .gpus = 2, .gpus_max = 8, .threads = 8},
};

struct pair {
    struct firn_cluster cluster;
    struct truth_table *table;
    struct forecaster *sim;
    struct liveforecast *live;
    struct firn_job jobs[JOBS];
    struct firn_part parts[JOBS][2];
};

static void open_pair(struct pair *p)
{
    struct firn_error err = {0};
    *p = (struct pair){0};
    assert_int_equal(firn_cluster_parse_spec(&p->cluster, cluster_spec, &err),
                     FIRN_OK);
    assert_int_equal(truth_table_open(&p->table, "builtin", &p->cluster,
                                      FIRN_SIM_FREEZE_POLICY, &err),
                     FIRN_OK);
    struct truth base =
        truth_from_trace(&p->cluster, fm_log(1.8) / fm_log(2), 1.5);
    truth_from_table(p->table, &base, "");
    p->sim = simforecast_new(&base, p->table);
    p->live = liveforecast_new(&p->cluster);
    liveforecast_first(p->live, BOOK);
    for (int i = 0; i < JOBS; i++) {
        p->jobs[i] = (struct firn_job){
            .id = i, .slot = i, .spec = specs[i], .type_mask = 3};
        p->jobs[i].spec.name = p->jobs[i].spec.group = p->jobs[i].spec.types =
            "";
        p->jobs[i].spec.gpus_min = 1;
        p->jobs[i].spec.duration_s = 1000 + 100 * i;
    }
}

static void close_pair(struct pair *p)
{
    forecaster_free(p->sim);
    liveforecast_free(p->live);
    truth_table_free(p->table);
    firn_cluster_release(&p->cluster);
}

/* --- the same report for both -------------------------------------------- */

/* A line of a history: job, GPUs on one or two nodes, how far and how fast. */
struct line {
    int job;
    int node, gpus, node2, gpus2; /* gpus2 0: on one node */
    unsigned tunes;
    double share, rate; /* of its work; reference seconds a second */
    const char *beside; /* NULL: alone */
    double step_s;      /* 0: it reports none of these */
    int batch, nfrozen;
    bool is_start; /* its first report since it got these GPUs */
};

static void replay(struct pair *p, const struct line *line)
{
    struct firn_job *job = &p->jobs[line->job];
    struct firn_part *parts = p->parts[line->job];
    parts[0] =
        (struct firn_part){line->node, 0, ((uint64_t)1 << line->gpus) - 1};
    parts[1] =
        (struct firn_part){line->node2, 0, ((uint64_t)1 << line->gpus2) - 1};
    job->held = (struct firn_alloc){.parts = parts,
                                    .nparts = line->gpus2 > 0 ? 2 : 1,
                                    .ngpus = line->gpus + line->gpus2,
                                    .tunes = line->tunes,
                                    .how = FIRN_HOW_AS_SUBMITTED};
    job->starts += line->is_start;
    job->done_s = line->share * job->spec.duration_s;

    struct liveforecast_run run = {.job = job,
                                   .rate = line->rate,
                                   .sharers = line->beside != NULL,
                                   .beside = line->beside,
                                   .step_s = line->step_s,
                                   .batch = line->batch,
                                   .passes = 1,
                                   .nfrozen = line->nfrozen};
    liveforecast_saw(p->live, BOOK + line->job, &run);
    if (line->step_s > 0) {
        struct forecaster_report report = {.job = job,
                                           .rate = line->rate,
                                           .done_s = job->done_s,
                                           .is_alone = line->beside == NULL,
                                           .beside = line->beside,
                                           .step_s = line->step_s,
                                           .batch = line->batch,
                                           .passes = 1,
                                           .nfrozen = line->nfrozen};
        forecaster_learn(p->sim, (struct forecaster_key){job->slot, job->id},
                         &report);
        return;
    }
    struct firn_report report = {.done_s = job->done_s, .rate = line->rate};
    struct truth_near near = {.sharers = line->beside != NULL ? 2 : 1,
                              .napps = line->beside != NULL,
                              .apps = {line->beside}};
    simforecast_learn(p->sim, job, &report, &near);
}

/* --- the same questions -------------------------------------------------- */

static void same(const char *what, int job, double sim, double live)
{
    if (memcmp(&sim, &live, sizeof sim) != 0 && !(isnan(sim) && isnan(live)))
        fail_msg("%s of job %d: simulator %.17g, live %.17g", what, job, sim,
                 live);
}

static void compare_way(struct pair *p, int i, const struct firn_way *way)
{
    const struct firn_job *job = &p->jobs[i];
    same("rate", i, simforecast_rate(p->sim, job, way, 0),
         liveforecast_rate(p->live, BOOK + i, job, way));
    struct firn_load sim = simforecast_load(p->sim, job, way, 0);
    struct firn_load live = liveforecast_load(p->live, BOOK + i, job, way);
    same("memory", i, sim.mem_gib, live.mem_gib);
    same("utilisation", i, sim.util, live.util);
}

/* Every way of up to 8 GPUs on up to 3 nodes; returns how many are known. */
static int compare_job(struct pair *p, int i)
{
    const struct firn_job *job = &p->jobs[i];
    struct firn_llm_way one[16], two[16];
    int known = 0;
    for (int gpus = 1; gpus <= 8; gpus++)
        for (int nodes = 0; nodes <= 3; nodes++)
            for (int type = -1; type < 2; type++)
                for (unsigned tunes = 0; tunes < 4; tunes++) {
                    struct firn_way way = {.gpus = gpus,
                                           .nodes = nodes,
                                           .type = type,
                                           .tunes = tunes};
                    compare_way(p, i, &way);
                    known += simforecast_rate(p->sim, job, &way, 0) > 0;
                }
    for (unsigned tunes = 0; tunes < 2; tunes++)
        same("most GPUs", i, simforecast_gpus_max(p->sim, job, tunes),
             liveforecast_gpus_max(p->live, BOOK + i, job, tunes));
    size_t n = forecaster_llm_ways(
        p->sim, (struct forecaster_key){job->slot, job->id}, job, one, 16);
    assert_int_equal(liveforecast_llm_ways(p->live, BOOK + i, job, two, 16), n);
    for (size_t k = 0; k < n && k < 16; k++)
        same("rate of a split", i, one[k].rate, two[k].rate);
    return known;
}

static void compare_all(struct pair *p)
{
    for (int i = 0; i < JOBS; i++)
        assert_true(compare_job(p, i) > 0);
    struct liveforecast_job a = {BOOK + 2, &p->jobs[2]},
                            b = {BOOK + 3, &p->jobs[3]};
    same("slowdown", 2, simforecast_slowdown(p->sim, &p->jobs[2], &p->jobs[3]),
         liveforecast_slowdown(p->live, a, b));
    same("slowdown", 3, simforecast_slowdown(p->sim, &p->jobs[3], &p->jobs[2]),
         liveforecast_slowdown(p->live, b, a));
}

static double rate_on(struct pair *p, int i, int gpus)
{
    struct firn_way way = {.gpus = gpus, .type = FIRN_ANY_TYPE};
    return liveforecast_rate(p->live, BOOK + i, &p->jobs[i], &way);
}

/* --- tests --------------------------------------------------------------- */

static void before_any_report_both_answer_alike(void **unused)
{
    (void)unused;
    struct pair p;
    open_pair(&p);
    compare_all(&p);
    close_pair(&p);
}

/* A day of eight jobs: resized, moved over nodes and types, beside each other,
 * reporting several times from one place, with batches tuned. */
static void a_history_of_progress_teaches_both_the_same(void **unused)
{
    (void)unused;
    static const struct line history[] = {
        {0, 0, 1, .share = 0.01, .rate = 0.93, .is_start = true},
        {0, 0, 1, .share = 0.05, .rate = 0.97},
        {0, 0, 1, .share = 0.09, .rate = 0.91},
        {1, 0, 2, .share = 0.02, .rate = 1.12, .is_start = true},
        {0, 0, 4, .share = 0.3, .rate = 2.4, .is_start = true},
        {0, 0, 4, 1, 4, .share = 0.5, .rate = 2.1, .is_start = true},
        {0, 0, 4, 1, 4, .share = 0.52, .rate = 2.3},
        {1, 3, 2, .share = 0.4, .rate = 9.1, .is_start = true},
        {1, 3, 2, .tunes = FIRN_TUNE_BATCH, .share = 0.6, .rate = 8,
         .is_start = true},
        {2, 3, 1, .share = 0.1, .rate = 1.05, .is_start = true},
        {3, 4, 1, .share = 0.1, .rate = 0.88, .is_start = true},
        {2, 3, 1, .share = 0.2, .rate = 0.5, .beside = "vgg19-c"},
        {3, 3, 1, .share = 0.2, .rate = 0.45, .beside = "bert-base"},
        {2, 3, 1, .share = 0.3, .rate = 0.55, .beside = "vgg19-c"},
        {2, 3, 1, .share = 0.4, .rate = 1.02},
        {4, 1, 1, .share = 0.1, .rate = 1.2, .is_start = true},
        {4, 1, 3, .share = 0.3, .rate = 2.2, .is_start = true},
        {4, 1, 3, 3, 1, .share = 0.4, .rate = 2.9, .is_start = true},
        {5, 2, 2, .share = 0.1, .rate = 0.8, .is_start = true},
        {6, 3, 1, .share = 0.1, .rate = 0.9, .is_start = true},
        {6, 3, 4, .share = 0.2, .rate = 3.1, .is_start = true},
        {7, 0, 4, 3, 2, .tunes = FIRN_TUNE_THREADS, .share = 0.3, .rate = 3,
         .is_start = true},
    };
    struct pair p;
    open_pair(&p);
    double before = rate_on(&p, 0, 8);
    for (size_t i = 0; i < sizeof history / sizeof *history; i++) {
        replay(&p, &history[i]);
        compare_job(&p, history[i].job);
    }
    compare_all(&p);
    assert_true(rate_on(&p, 0, 8) != before); /* they did learn */
    assert_true(fabs(rate_on(&p, 0, 1) - 0.93) < 0.05);
    close_pair(&p);
}

/* With step times, batch sizes and frozen layers: the law of an application is
 * learned from its jobs, and jobs that follow go by it. */
static void step_times_teach_both_the_same(void **unused)
{
    (void)unused;
    static const struct line history[] = {
        {4, 0, 1, .share = 0.1, .rate = 1, .step_s = 1, .batch = 64,
         .is_start = true},
        {4, 0, 1, .share = 0.2, .rate = 0.98, .step_s = 1.02, .batch = 64},
        {4, 0, 2, .share = 0.3, .rate = 1.1, .step_s = 0.9, .batch = 64,
         .is_start = true},
        {4, 0, 4, .share = 0.5, .rate = 1.18, .step_s = 0.85, .batch = 64,
         .is_start = true},
        {4, 0, 4, .share = 0.6, .rate = 1.3, .step_s = 0.8, .batch = 128},
        {2, 3, 1, .share = 0.1, .rate = 1, .step_s = 0.2, .batch = 32,
         .is_start = true},
        {2, 3, 1, .share = 0.2, .rate = 1.3, .step_s = 0.15, .batch = 32,
         .nfrozen = 62},
        {2, 3, 2, .share = 0.3, .rate = 2, .step_s = 0.1, .batch = 32,
         .nfrozen = 62, .is_start = true},
        {0, 0, 2, .tunes = FIRN_TUNE_BATCH, .share = 0.1, .rate = 1.6,
         .step_s = 0.3, .batch = 512, .is_start = true},
        {0, 1, 4, .tunes = FIRN_TUNE_BATCH, .share = 0.2, .rate = 2.6,
         .step_s = 0.33, .batch = 1024, .is_start = true},
    };
    struct pair p;
    open_pair(&p);
    double before = rate_on(&p, 7, 6);
    for (size_t i = 0; i < sizeof history / sizeof *history; i++) {
        replay(&p, &history[i]);
        compare_job(&p, history[i].job);
    }
    p.jobs[7].spec.batch = 64;
    p.jobs[7].id = 20; /* submitted now: the law of its application is known */
    p.jobs[7].slot = 8;
    struct firn_way way = {.gpus = 6, .type = FIRN_ANY_TYPE};
    double sim = simforecast_rate(p.sim, &p.jobs[7], &way, 0);
    double live = liveforecast_rate(p.live, BOOK + 20, &p.jobs[7], &way);
    same("rate", 7, sim, live);
    assert_true(live != before);
    compare_all(&p);
    close_pair(&p);
}

/* A line at random; a job is beside another only after it was seen alone. */
static struct line random_line(struct rng *rng, bool seen[JOBS])
{
    struct line line = {.job = (int)rng_below(rng, JOBS)};
    line.node = (int)rng_below(rng, 4);
    line.gpus = 1 + (int)rng_below(rng, 4);
    line.node2 = line.node + 1;
    line.gpus2 = rng_below(rng, 3) == 0 ? 1 + (int)rng_below(rng, 4) : 0;
    line.tunes = (unsigned)rng_below(rng, 4);
    line.share = rng_unit(rng);
    line.rate = 0.2 + 3 * rng_unit(rng);
    line.is_start = rng_below(rng, 2);
    if (rng_below(rng, 3) == 0) {
        line.step_s = 0.1 + rng_unit(rng);
        line.batch = 16 << rng_below(rng, 4);
        line.nfrozen = rng_below(rng, 4) == 0 ? (int)rng_below(rng, 20) : 0;
    }
    bool is_pair = line.job == 2 || line.job == 3;
    if (is_pair && seen[line.job] && rng_below(rng, 3) == 0)
        line.beside = specs[5 - line.job].app;
    return line;
}

static void random_history(uint64_t seed)
{
    struct pair p;
    struct rng rng;
    bool seen[JOBS] = {false};
    rng_seed(&rng, seed);
    open_pair(&p);
    for (int i = 0; i < 60; i++) {
        struct line line = random_line(&rng, seen);
        replay(&p, &line);
        seen[line.job] |= forecaster_is_seen(
            p.sim, (struct forecaster_key){line.job, line.job});
        if (rng_below(&rng, 8) == 0)
            compare_job(&p, (int)rng_below(&rng, JOBS));
    }
    compare_all(&p);
    close_pair(&p);
}

static void random_histories_teach_both_the_same(void **unused)
{
    (void)unused;
    const char *given = getenv("FIRN_SEED");
    if (given != NULL) {
        random_history(strtoull(given, NULL, 10));
        return;
    }
    for (int i = trials(6); i > 0; i--) {
        print_message("FIRN_SEED=%d\n", i);
        random_history((uint64_t)i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_any_report_both_answer_alike),
        cmocka_unit_test(a_history_of_progress_teaches_both_the_same),
        cmocka_unit_test(step_times_teach_both_the_same),
        cmocka_unit_test(random_histories_teach_both_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
