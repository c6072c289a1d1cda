/* sia.c - the simulator of the Sia paper.
 *
 * `firn sim --compat sia` runs a workload by the rules of the simulator in
 * Sia's artifact (Subramanya et al., SOSP 2023), which grew out of AdaptDL's:
 * how a job trains in a round, its epochs and its learned model are shared
 * (compat/adaptdlrounds.h, compat/adaptdljob.h). The policy is policy/sia.h;
 * the quirks of the artifact are here, each marked with its name at the line
 * that imitates it:
 *
 * rounds          Jobs are advanced by 60 s, then the policy is called: the
 *                 first decision is at 60 s, an arrival waits for the next
 *                 multiple, GPUs of a job that ends idle until the round does.
 * two-tables      The seconds that a restart takes and the seconds that the
 *                 policy believes it takes are different tables.
 * first-start     The first start costs a restart.
 * free-moves      Other nodes with the same counts of the same type cost
 *                 nothing, and are no restart. A resumed job pays always.
 * slowdowns       True speeds are divided by 1.2 to 1.8; what the policy
 *                 observes is not.
 * batch-limits    The policy thinks of total batches up to the workload's
 *                 batch_size, the running job goes up to the application's.
 *                 The job's b is limited by what was measured on its exact
 *                 placement, the policy's by the type's largest.
 * projection      On a type it never ran on a job is believed to have the
 *                 goodput of the first type that it did run on, on as many
 *                 GPUs packed into that type's nodes, times the ratio of
 *                 (largest b) / (largest step time) on one GPU.
 * growth          At most twice the GPUs it was seen to train on, and at most
 *                 (largest batch) / (smallest b), for the best type.
 * rounded-costs   Costs are rounded to two decimals, half to even, and cut at
 *                 3000, so that many assignments are equally good.
 * deepspeech-57   deepspeech2 has at most 57 samples on a 2080 Ti though 80
 *                 were measured (compat/siashelf.c, like the tables).
 *
 * Left out: rigid and fixed-batch jobs (no published workload has the column),
 * gpt_pmp, clusters beyond the default one, and the artifact's placement by a
 * moving pointer, which gives every job the same counts as ours and so, by
 * free-moves, the same speed.
 *
 * Cost: O(running) a round, and the policy.
 */
#include "policy/sia.h"
#include "base/mem.h"
#include "compat/adaptdlrounds.h"
#include "compat/refuse.h"
#include "compat/siashelf.h"
#include <math.h>
#include <string.h>

enum { ROUND_S = 60, GPUS = 64 };

static const char *const spec_text = "6x4:t4,2x8:a100,3x8:2080ti";

/* ---- the engine ---- */

/* A job that was submitted. */
struct run {
    struct adlrun run; /* first; alone means on the T4 it asked for */
    const struct siaapp *app;
    bool has_run;
    int restarts; /* after the first start; not free ones */
};

struct sia_world {
    struct adlrounds rounds; /* first */
    struct siashelf shelf;
    const struct siaapp *spec_app; /* of the next arrival */
};

static struct run *run_of(const struct sia_world *engine, firn_job_id id)
{
    return (struct run *)engine->rounds.runs.at[id];
}

static enum firn_status find(struct adlrounds *rounds, struct firn_error *err)
{
    struct sia_world *engine = (struct sia_world *)rounds;
    return siashelf_find(&engine->shelf, rounds->spec.app, &engine->spec_app,
                         err);
}

static struct adlrun *arrive(struct adlrounds *rounds)
{
    struct firn_job_spec *spec = &rounds->spec;
    struct run *run = mem_new(1, sizeof *run);
    run->app = ((struct sia_world *)rounds)->spec_app;
    double batch = spec->batch > 0 ? spec->batch : run->app->limits[0].b0;
    run->run = (struct adlrun){
        .batch = batch,
        .duration_s = siaapp_alone_s(run->app, batch, spec->gpus),
        .job = {.app = &run->app->truth,
                .slowdown = run->app->slowdown, /* slowdowns */
                .learns = true,
                .f_tol = 1e-5}};
    spec->restart_s = run->app->restart_s;
    return &run->run;
}

/* ---- steps ---- */

static struct adlplace shape_of(const struct firn_alloc *alloc)
{
    struct adlplace place = {0};
    for (int i = 0; i < alloc->nparts; i++)
        adlplace_add(&place, __builtin_popcountll(alloc->parts[i].gpus));
    return place;
}

static enum firn_status apply(void *state, const struct firn_step *step,
                              struct firn_error *err)
{
    struct sia_world *engine = state;
    struct run *run = (struct run *)adlrounds_step(&engine->rounds, step);
    const struct siaapp *app = run->app;
    (void)err;
    if (step->kind == FIRN_STEP_STOP)
        return FIRN_OK;
    const struct firn_cluster *cluster = engine->rounds.world.options->cluster;
    int type = cluster->nodes[step->to->parts[0].node].type;
    struct adlplace place = shape_of(step->to);
    if (run->run.job.place.nodes > 0 && run->run.job.type == type &&
        adlplace_equal(&run->run.job.place, &place))
        return FIRN_OK; /* free-moves */
    struct adllimits limits = app->limits[type];
    limits.b_max =
        fmin(limits.b_max, adlsteps_b_max_at(&app->steps[type], &place));
    adljob_place(&run->run.job, type, &app->steps[type], &limits, &place,
                 app->restart_s); /* two-tables, first-start */
    run->restarts += run->has_run;
    run->has_run = true;
    return FIRN_OK;
}

/* ---- forecasts for the policy ---- */

/* batch-limits: examples a second and efficiency, on packed nodes. */
static double believed(struct run *run, int type, int gpus)
{
    struct adllimits limits = run->app->limits[type];
    int per_node = sia_types[type].per_node;
    int nodes = (gpus + per_node - 1) / per_node;
    limits.total_max = run->run.batch;
    return adlmodel_best(&run->run.job.models[type], &run->run.job.noise,
                         &limits, nodes, gpus)
        .goodput;
}

static double forecast_rate(void *state, const struct firn_job *job,
                            const struct firn_way *way, double now_s)
{
    struct sia_world *engine = state;
    struct run *run = run_of(engine, job->id);
    const struct adlsteps *steps = run->app->steps;
    int type = way->type == FIRN_ANY_TYPE ? 0 : way->type, from = 0;
    (void)now_s;
    double ratio = 1;
    if (adlmodel_is_blank(&run->run.job.models[type])) { /* projection */
        while (from < SIA_TYPES &&
               adlmodel_is_blank(&run->run.job.models[from]))
            from++;
        if (from == SIA_TYPES)
            return (double)NAN;
        ratio = steps[type].one_b / steps[type].one_s /
                (steps[from].one_b / steps[from].one_s);
    } else {
        from = type;
    }
    double goodput = believed(run, from, way->gpus) * ratio;
    return adlrun_in_reference_s(&run->run, goodput / run->app->limits[0].b0);
}

/* growth */
static int forecast_gpus_max(void *state, const struct firn_job *job,
                             unsigned tunes)
{
    struct sia_world *engine = state;
    const struct run *run = run_of(engine, job->id);
    int most = 1;
    (void)tunes;
    for (int t = 0; t < SIA_TYPES; t++) {
        const struct adllimits *limits = &run->app->limits[t];
        int seen = 2 * run->run.job.models[t].gpus_most;
        int useful = (int)(limits->total_max / limits->b_min);
        int limit = useful < GPUS ? useful : GPUS;
        limit = seen < limit ? seen : limit;
        most = limit > most ? limit : most;
    }
    return most;
}

static const struct firn_forecast_def forecast = {
    .rate = forecast_rate,
    .gpus_max = forecast_gpus_max,
};

/* ---- the policy ---- */

/* two-tables, free-moves */
static double damping(const struct sia_rules *rules,
                      const struct firn_view *view, const struct firn_job *job)
{
    if (view->forecast != &forecast)
        FIRN_BUG("the policy of Sia's artifact outside of it");
    const struct sia_world *engine = view->forecaster;
    const struct run *run = run_of(engine, job->id);
    double restart_s = run->app->believed_s;
    double age_s = view->now_s - job->spec.submit_s;
    (void)rules;
    if (age_s < restart_s)
        return 1;
    return fmax(age_s - run->restarts * restart_s, 0) / (age_s + restart_s);
}

/* rounded-costs */
static double rounded(double cost)
{
    return fmin(nearbyint(100 * cost) / 100, 3000);
}

static enum firn_status init(void *state, struct firn_error *err)
{
    struct sia *sia = state;
    (void)err;
    sia->rules.damping = damping;
    sia->rules.rounded = rounded;
    sia->rules.as_solved = true;
    return FIRN_OK;
}

static const struct firn_policy_def policy = {
    .size = sizeof(struct firn_policy_def),
    .name = "sia",
    .summary = "goodput over GPU types, costs rounded",
    .paper = "Subramanya et al., Sia, SOSP 2023 (artifact)",
    .needs = FIRN_NEED_FORECAST | FIRN_NEED_TYPES,
    .does = FIRN_DOES_PREEMPT | FIRN_DOES_RESIZE | FIRN_DOES_MOVE |
            FIRN_DOES_REJECT,
    .tunes = FIRN_TUNE_BATCH,
    .options = sia_options,
    .state_size = sizeof(struct sia),
    .init = init,
    .decide = sia_decide,
    .wake_s = sia_wake_s,
};

static const struct world_policy policies[] = {
    {.name = "sia", .def = &policy, .interval_s = ROUND_S}, {0}};

/* ---- the world ---- */

static bool is_theirs(const struct firn_cluster *cluster)
{
    int node = 0;
    if (cluster->ntypes != SIA_TYPES)
        return false;
    for (int t = 0; t < SIA_TYPES; t++) {
        if (strcmp(cluster->types[t].name, sia_types[t].name) != 0)
            return false;
        for (int i = 0; i < sia_types[t].nodes; i++, node++)
            if (node >= cluster->nnodes || cluster->nodes[node].type != t ||
                cluster->nodes[node].ngpus != sia_types[t].per_node)
                return false;
    }
    return node == cluster->nnodes;
}

static enum firn_status suits(const struct firn_sim_options *options,
                              struct firn_error *err)
{
    static const char artifact[] = "Sia's simulator";
    if (!is_theirs(options->cluster))
        return firn_fail(err, FIRN_EINVAL,
                         "%s has the cluster %s, in that order, not %s",
                         artifact, spec_text, options->cluster->name);
    FIRN_TRY(refuse_options(artifact, options, REFUSE_BUT_INTERVALS, err));
    return refuse_no_tables(artifact, options, "sia/ and pollux/", err);
}

static enum firn_status open_engine(void *state, struct firn_error *err)
{
    struct sia_world *engine = state;
    engine->shelf.root = engine->rounds.world.options->profiles;
    engine->rounds.find = find;
    engine->rounds.arrive = arrive;
    return adlrounds_open(&engine->rounds, err);
}

static void close_engine(void *state)
{
    struct sia_world *engine = state;
    adlrounds_close(&engine->rounds);
    siashelf_release(&engine->shelf);
}

static const struct firn_engine_def engine_def = {
    .name = "sia",
    .summary = "rounds of the Sia authors' simulator",
    .gives = FIRN_NEED_DURATION | FIRN_NEED_TYPES | FIRN_NEED_FORECAST,
    .forecast = &forecast,
    .state_size = sizeof(struct sia_world),
    .open = open_engine,
    .close = close_engine,
    .now_s = adlrounds_now_s,
    .apply = apply,
    .next = adlrounds_next,
};

const struct firn_world_def compat_sia = {
    .name = "sia",
    .summary = "the simulator of Sia (SOSP 2023): 60 s rounds, three GPU types",
    .artifact = "Sia's simulator",
    .engine = &engine_def,
    .policies = policies,
    .suits = suits,
};
