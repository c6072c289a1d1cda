/* simforecast.c - what a simulation hands to the forecaster.
 *
 * Priors: the profiles' fits, or what `--forecast` says; the exponent and the
 * slowdown that the simulation itself goes by for jobs without a profile;
 * durations as the trace records them. Observations: what simulated jobs
 * report, with the noise of sim/noise.h. The truth's tables are not handed in.
 *
 * A job that is trained together with another, or was until just now, or began
 * with another's weights, reports nothing of itself alone and is left out. What
 * a policy is told has the simulation's noise on throughput, sharing and
 * iterations: sim/noise.h.
 *
 * Cost: that of core/forecaster.c.
 */
#include "sim/simforecast.h"
#include "sim/costs.h"
#include "sim/noise.h"
#include "sim/simengine.h"
#include "sim/transfers.h"
#include "sim/truth_table.h"
#include <math.h>

struct forecaster *simforecast_new(const struct truth *base,
                                   struct truth_table *table)
{
    struct forecaster_priors priors = {.cluster = base->cluster,
                                       .scaling = base->scaling,
                                       .share_slowdown = base->share_slowdown,
                                       .is_recorded = true};
    if (table != NULL) {
        priors.known = &table->tables.known;
        priors.trainer = table->trainer;
    }
    return forecaster_new(&priors);
}

static struct forecaster_key key_of(const struct firn_job *job)
{
    return (struct forecaster_key){job->slot, job->id};
}

void simforecast_learn(struct forecaster *f, const struct firn_job *job,
                       const struct firn_report *report,
                       const struct truth_near *near)
{
    struct forecaster_report out = {.job = job,
                                    .rate = report->rate,
                                    .done_s = report->done_s,
                                    .is_alone = near->sharers < 2};
    if (job->held.how.merged_with != FIRN_NO_JOB)
        return;
    if (near->napps == 1)
        out.beside = near->apps[0];
    forecaster_learn(f, key_of(job), &out);
}

double simforecast_rate(struct forecaster *f, const struct firn_job *job,
                        const struct firn_way *way, double now_s)
{
    return forecaster_rate(f, key_of(job), job, way,
                           firn_job_done_s(job, now_s));
}

bool simforecast_running(struct forecaster *f, const struct firn_job *job,
                         const struct firn_way *way, double batch,
                         struct running *now, struct running *ref)
{
    return forecaster_running(f, key_of(job), job, way, batch, now, ref);
}

int simforecast_gpus_max(struct forecaster *f, const struct firn_job *job,
                         unsigned tunes)
{
    return forecaster_gpus_max(f, key_of(job), job, tunes);
}

double simforecast_slowdown(struct forecaster *f, const struct firn_job *job,
                            const struct firn_job *other)
{
    struct forecaster_job a = {key_of(job), job}, b = {key_of(other), other};
    return forecaster_slowdown(f, a, b);
}

double simforecast_slowdown_in(struct forecaster *f, const struct firn_job *job,
                               const struct firn_way *way,
                               const struct firn_job *other,
                               const struct firn_way *other_way)
{
    struct forecaster_job a = {key_of(job), job}, b = {key_of(other), other};
    return forecaster_slowdown_in(f, a, way, b, other_way);
}

struct firn_load simforecast_load(struct forecaster *f,
                                  const struct firn_job *job,
                                  const struct firn_way *way, double now_s)
{
    return forecaster_load(f, key_of(job), job, way,
                           firn_job_done_s(job, now_s));
}

/* --- for core ------------------------------------------------------------ */

static struct forecaster *of(void *state)
{
    return ((struct simengine *)state)->forecast;
}

/* By these throughputs trainers choose layers: sim/noise.h. */
static double layers_factor(const void *arg, const struct trainer_ask *ask,
                            size_t nfrozen)
{
    const struct firn_sim_options *options = arg;
    struct firn_way way = {.gpus = ask->where->gpus,
                           .type = __builtin_ctz(ask->where->types),
                           .parallel = (int)ask->parallel,
                           .stages = ask->stages};
    return noise_layers(&options->noise, options->seed, ask->job, &way,
                        options->cluster->ntypes, nfrozen);
}

void simforecast_doubt(struct truth_table *table,
                       const struct firn_sim_options *options)
{
    struct trainer_doubt doubt = {layers_factor, options};
    if (options->noise.throughput > 0)
        trainer_set_doubt(table->trainer, doubt);
}

/* What is expected of a job whose trainer freezes layers has its error
 * already. */
static double rate_of(void *state, const struct firn_job *job,
                      const struct firn_way *way, double now_s)
{
    const struct simengine *engine = state;
    const struct firn_sim_options *options = engine->world.options;
    double rate = simforecast_rate(engine->forecast, job, way, now_s);
    if (!(options->noise.throughput > 0) ||
        (engine->table != NULL &&
         truth_table_freezes(engine->table, job->spec.app, job->type_mask,
                             way->tunes)))
        return rate;
    return rate * noise_way(&options->noise, options->seed, job->id, way,
                            options->cluster->ntypes);
}

static double left_of(void *state, const struct firn_job *job,
                      const struct firn_way *way, double now_s)
{
    struct simengine *engine = state;
    const struct firn_sim_options *options = engine->world.options;
    double left_s = transfers_left_s(engine, job, now_s);
    double rate = rate_of(state, job, way, now_s);
    double belief = noise_iterations(
        &options->noise, options->seed,
        (struct noise_merge){.id = job->id, .with = FIRN_NO_JOB});
    return rate == 0 ? INFINITY : left_s * belief / rate;
}

static int gpus_max_of(void *state, const struct firn_job *job, unsigned tunes)
{
    return simforecast_gpus_max(of(state), job, tunes);
}

static double with_noise(const void *state, const struct firn_job *job,
                         const struct firn_job *other, double slowdown)
{
    const struct simengine *engine = state;
    const struct firn_sim_options *options = engine->world.options;
    return noise_slowdown(&options->noise, options->seed, job->id, other->id,
                          slowdown);
}

static double slowdown_of(void *state, const struct firn_job *job,
                          const struct firn_job *other)
{
    const struct simengine *engine = state;
    double named =
        engine->table == NULL
            ? costs_pair(engine->world.options, job->spec.app, other->spec.app)
            : 0;
    if (named > 0)
        return with_noise(state, job, other, named);
    return with_noise(state, job, other,
                      simforecast_slowdown(of(state), job, other));
}

static double slowdown_in_of(void *state, const struct firn_job *job,
                             const struct firn_way *way,
                             const struct firn_job *other,
                             const struct firn_way *other_way)
{
    return with_noise(
        state, job, other,
        simforecast_slowdown_in(of(state), job, way, other, other_way));
}

static struct firn_load load_of(void *state, const struct firn_job *job,
                                const struct firn_way *way)
{
    const struct simengine *engine = state;
    const struct firn_sim_options *options = engine->world.options;
    return noise_load(
        &options->noise, options->seed, job->id,
        simforecast_load(engine->forecast, job, way, engine->world.now_s));
}

static size_t llm_ways_of(void *state, const struct firn_job *job,
                          struct firn_llm_way *out, size_t max)
{
    return forecaster_llm_ways(of(state), key_of(job), job, out, max);
}

static unsigned parallels_of(void *state, const struct firn_job *job)
{
    return forecaster_parallels(of(state), key_of(job), job);
}

static int executors_of(void *state, const struct firn_job *job,
                        firn_type_id type, struct firn_executor_ways *out)
{
    return forecaster_executors(of(state), key_of(job), job, type, out);
}

const struct firn_forecast_def simengine_forecast = {
    .rate = rate_of,
    .left_s = left_of,
    .gpus_max = gpus_max_of,
    .slowdown = slowdown_of,
    .load = load_of,
    .llm_ways = llm_ways_of,
    .parallels = parallels_of,
    .merge = transfers_merge,
    .slowdown_in = slowdown_in_of,
    .executors = executors_of,
    .costs = costs_forecast,
    .after = transfers_saved,
};
