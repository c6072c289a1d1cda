/* sharing.c - time of sjf-bsbf's decision about one job on 10 000 GPUs.
 *
 * Every GPU has a job that accepts a second one, so an arriving job has 10 000
 * hosts to choose from. Jobs arrive one by one, a round each, timed from the
 * view to the steps, with an engine that only forecasts; the slowdown of two
 * jobs depends on their applications, of which there are 12. In the first run
 * sharing pays for most pairs, in the second for none, so that every host is
 * tried without success and earlier arrivals still wait; a round's time is
 * divided by the jobs that wait in it. Means over all jobs, best of some runs.
 */
#include "base/rng.h"
#include "core/round.h"
#include "lib/measure.h"
#include <firn/policy.h>
#include <stdio.h>

enum { GPUS = 10000, NODE = 8, APPS = 12, JOBS = 200, REFUSED = 20, RUNS = 3 };

static struct firn_cluster cluster;
static double xi[APPS][APPS];

static double rate(void *state, const struct firn_job *job,
                   const struct firn_way *way, double now)
{
    (void)state, (void)now;
    return (double)way->gpus / job->spec.gpus;
}

static double slowdown(void *state, const struct firn_job *job,
                       const struct firn_job *other)
{
    (void)state;
    return xi[job->id % APPS][other->id % APPS];
}

static struct firn_load load(void *state, const struct firn_job *job,
                             const struct firn_way *way)
{
    (void)state, (void)way;
    return (struct firn_load){0.5, 2 + job->id % 5};
}

static const struct firn_forecast_def forecast = {
    .rate = rate, .slowdown = slowdown, .load = load};

static bool submit(struct round *round, struct rng *rng, firn_job_id id)
{
    struct firn_job_spec spec = {.name = "job",
                                 .app = "",
                                 .group = "",
                                 .types = "",
                                 .gpus = id < GPUS ? 1 : 1 << rng_below(rng, 4),
                                 .duration_s = 60 + rng_exp(rng, 20000),
                                 .restart_s = -1,
                                 .may_share = true};
    spec.gpus_min = spec.gpus_max = spec.gpus;
    struct firn_event event = {
        .kind = FIRN_EVENT_SUBMIT, .job = id, .spec = &spec};
    return round_event(round, &event, NULL) == FIRN_OK;
}

/* Submits and starts a job on every GPU; each then reports that it runs. */
static bool fill(struct round *round, struct rng *rng)
{
    bool ok = true;
    for (int i = 0; ok && i < GPUS; i++)
        ok = submit(round, rng, i);
    ok = ok && round_decide(round, 0, NULL) == FIRN_OK;
    for (int i = 0; ok && i < GPUS; i++) {
        struct firn_event event = {
            .kind = FIRN_EVENT_REPORT, .job = i, .report.rate = 1};
        ok = round_event(round, &event, NULL) == FIRN_OK;
    }
    return ok;
}

/* Milliseconds a job; below 0 on failure. */
static double time_jobs(int n)
{
    struct firn_engine_def engine = measure_engine(&forecast);
    struct round_config config = {.cluster = &cluster,
                                  .policy = firn_policy_find("sjf-bsbf", NULL),
                                  .engine = &engine};
    struct round *round;
    struct rng rng;
    double sum_ms = 0;
    rng_seed(&rng, 1);
    if (round_new(&round, &config, NULL) != FIRN_OK)
        return -1;
    bool ok = fill(round, &rng);
    for (int i = 0; ok && i < n; i++) {
        ok = submit(round, &rng, GPUS + i);
        size_t waiting = round_state(round)->nwaiting;
        double from_s = measure_cpu_s();
        ok = ok && round_decide(round, 1 + i, NULL) == FIRN_OK;
        sum_ms += 1e3 * (measure_cpu_s() - from_s) / (double)waiting;
    }
    round_free(round);
    return ok ? sum_ms / n : -1;
}

static bool time_sharing(const char *what, double least, double more, int n)
{
    char name[96];
    struct rng rng;
    double best_ms = 1e9;
    rng_seed(&rng, 7);
    for (int a = 0; a < APPS; a++)
        for (int b = 0; b < APPS; b++)
            xi[a][b] = least + more * rng_unit(&rng);
    for (int run = 0; run < RUNS; run++) {
        double ms = time_jobs(n);
        if (ms < 0)
            return false;
        best_ms = ms < best_ms ? ms : best_ms;
    }
    snprintf(name, sizeof name, "sjf-bsbf, a job, %d hosts, %s", GPUS, what);
    measure_at_most(name, best_ms, 1, "ms");
    return true;
}

int main(void)
{
    char spec[32];
    snprintf(spec, sizeof spec, "%dx%d:v100", GPUS / NODE, NODE);
    if (firn_cluster_parse_spec(&cluster, spec, NULL) != FIRN_OK)
        return 1;
    bool ok = time_sharing("most pairs share", 1.05, 0.5, JOBS) &&
              time_sharing("none shares", 3, 2, REFUSED);
    firn_cluster_release(&cluster);
    return ok ? 0 : 1;
}
