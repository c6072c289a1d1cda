/* sia.c - the simulator of the Sia paper.
 *
 * `firn sim --compat sia` runs a workload by the rules of the simulator in
 * Sia's artifact (Subramanya et al., SOSP 2023), which grew out of AdaptDL's:
 * how a job goes through a round, its epochs and its learned model are shared
 * (compat/adaptdljob.h). The policy is ours (policy/sia.h); what the artifact
 * does otherwise is here, each marked with its name at the line that does it:
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
 * Invariants:
 * (1) all jobs are advanced to the same multiple of the round, `round_s`, and
 *     every event before it is told before a decision is made there;
 * (2) a job is in `running` exactly while it holds GPUs and is not done;
 * (3) at a decision core knows a job's true progress, and when it resumes.
 *
 * Cost: O(running) a round, and the policy.
 */
#include "policy/sia.h"
#include "compat/adaptdljob.h"
#include "compat/refuse.h"
#include "compat/siashelf.h"
#include "core/accept.h"
#include "sim/world.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUND_S = 60, GPUS = 64 };

static const char *const spec_text = "6x4:t4,2x8:a100,3x8:2080ti";

/* ---- the engine ---- */

/* A job, from its submission on. */
struct run {
    struct adljob job;
    const struct siaapp *app;
    double batch;      /* of the workload */
    double duration_s; /* alone on the T4 it asked for, at that batch */
    struct firn_report told;
    bool has_run;
    int restarts; /* after the first start; not free ones */
};

struct sia_world {
    struct world world; /* first */
    struct siashelf shelf;
    VEC(struct run *) runs; /* by id */
    VEC(firn_job_id) running;
    double interval_s, round_s; /* jobs are advanced until there: (1) */
    struct firn_job_spec spec;  /* the next arrival */
    const struct siaapp *spec_app;
    bool has_spec, is_over;
    VEC(struct firn_event) events; /* of the round, by time */
    size_t next_event;
};

/* Steps at the first batch into reference seconds. */
static double in_reference_s(const struct run *run, double progress)
{
    const struct adlapp *truth = &run->app->truth;
    return progress / truth->progress[truth->epochs] * run->duration_s;
}

static void tell(struct sia_world *engine, enum firn_event_kind kind,
                 firn_job_id id, double at_s, struct firn_report report)
{
    struct firn_event event = {
        .kind = kind, .at_s = at_s, .job = id, .report = report};
    vec_add(&engine->events, event);
}

/* How it goes in the round that begins at round_s: (3). Core goes by the last
 * report, so none is needed where that still holds. */
static void report(struct sia_world *engine, firn_job_id id, struct run *run,
                   const struct adlstride *stride, struct firn_report now)
{
    const struct firn_report *told = &run->told;
    double start_s = engine->round_s;
    now.rate = stride->train_s > 0
                   ? in_reference_s(run, stride->gained) / stride->train_s
                   : 0;
    double waits_s = fmax(0, start_s - told->resumes_s);
    bool holds = fabs(told->done_s + told->rate * waits_s - now.done_s) <=
                     1e-9 * run->duration_s &&
                 fabs(told->rate - now.rate) <= 1e-12 * now.rate &&
                 (now.resumes_s == told->resumes_s ||
                  (now.resumes_s == start_s && told->resumes_s < start_s));
    if (holds)
        return;
    run->told = now;
    tell(engine, FIRN_EVENT_REPORT, id, start_s, now);
}

static int by_time(const void *a, const void *b)
{
    const struct firn_event *x = a, *y = b;
    if (x->at_s != y->at_s)
        return x->at_s < y->at_s ? -1 : 1;
    if (x->kind != y->kind) /* how fast it went, then that it is done */
        return x->kind == FIRN_EVENT_REPORT ? -1 : 1;
    return (x->job > y->job) - (x->job < y->job);
}

/* rounds: all jobs that hold GPUs live through one. */
static void advance(struct sia_world *engine)
{
    size_t kept = 0;
    struct world_spent *spent = &engine->world.spent;
    engine->events.n = engine->next_event = 0;
    for (size_t i = 0; i < engine->running.n; i++) {
        firn_job_id id = engine->running.at[i];
        struct run *run = engine->runs.at[id];
        struct firn_report now = {
            .done_s = in_reference_s(run, run->job.progress),
            .resumes_s = engine->round_s + run->job.countdown_s};
        struct adlstride stride = adljob_advance(&run->job, engine->interval_s);
        double held_s = stride.idle_s + stride.train_s;
        spent->given += run->job.place.gpus * held_s;
        spent->overhead += run->job.place.gpus * stride.idle_s;
        spent->useful += run->job.place.gpus * stride.train_s;
        report(engine, id, run, &stride, now);
        if (run->job.is_done)
            tell(engine, FIRN_EVENT_DONE, id, engine->round_s + held_s,
                 (struct firn_report){0});
        else
            engine->running.at[kept++] = id; /* (2) */
    }
    engine->running.n = kept;
    engine->round_s += engine->interval_s;
    if (engine->events.n > 1)
        qsort(engine->events.at, engine->events.n, sizeof *engine->events.at,
              by_time);
}

/* Reads arrivals until one the cluster can run; false when the workload has
 * failed (err) or is over. */
static bool fetch(struct sia_world *engine, struct firn_error *err)
{
    struct job_accept accept;
    char why[JOB_WHY_MAX];
    struct firn_error failed = {0};
    struct firn_job_spec *spec = &engine->spec;
    engine->has_spec = false;
    while (firn_trace_next(engine->world.trace, spec, err)) {
        if (!job_accept(spec, engine->world.options->cluster, &accept, why)) {
            if (firn_trace_refuse(engine->world.trace, spec, why, err) !=
                FIRN_OK)
                return false;
            continue;
        }
        if (siashelf_find(&engine->shelf, spec->app, &engine->spec_app,
                          &failed) != FIRN_OK) {
            firn_fail(err, failed.status, "%s: line %ld: %s",
                      engine->world.options->trace, spec->line, failed.text);
            return false;
        }
        engine->has_spec = true;
        return true;
    }
    if (err->status == FIRN_OK)
        engine->is_over = engine->world.is_drained = true;
    return false;
}

static void arrive(struct sia_world *engine, struct firn_event *out)
{
    struct firn_job_spec *spec = &engine->spec;
    struct run *run = mem_new(1, sizeof *run);
    run->app = engine->spec_app;
    run->batch = spec->batch > 0 ? spec->batch : run->app->limits[0].b0;
    run->job.app = &run->app->truth;
    run->job.slowdown = run->app->slowdown; /* slowdowns */
    run->job.learns = true;
    run->job.f_tol = 1e-5;
    run->duration_s = siaapp_alone_s(run->app, run->batch, spec->gpus);
    spec->duration_s = run->duration_s;
    spec->is_nominal = false;
    spec->restart_s = run->app->restart_s;
    *out = (struct firn_event){.kind = FIRN_EVENT_SUBMIT,
                               .at_s = spec->submit_s,
                               .job = (firn_job_id)engine->runs.n,
                               .spec = spec};
    vec_add(&engine->runs, run);
    engine->has_spec = false;
}

/* Nothing runs: whole rounds may be passed over. */
static void skip_rounds(struct sia_world *engine, double until_s)
{
    double every_s = engine->interval_s, to_s = until_s;
    if (engine->has_spec)
        to_s = fmin(to_s, engine->spec.submit_s);
    engine->events.n = engine->next_event = 0;
    engine->round_s =
        fmax(ceil(to_s / every_s) * every_s, engine->round_s + every_s);
}

static bool next(void *state, double until_s, struct firn_event *out,
                 struct firn_error *err)
{
    struct sia_world *engine = state;
    for (;;) {
        if (!engine->has_spec && !engine->is_over && !fetch(engine, err) &&
            err->status != FIRN_OK)
            return false;
        double event_s = engine->next_event < engine->events.n
                             ? engine->events.at[engine->next_event].at_s
                             : INFINITY;
        double submit_s = engine->has_spec ? engine->spec.submit_s : INFINITY;
        double limit_s = fmin(until_s, engine->round_s);
        if (fmin(event_s, submit_s) <= limit_s) {
            if (event_s <= submit_s)
                *out = engine->events.at[engine->next_event++];
            else
                arrive(engine, out);
            engine->world.now_s = fmax(engine->world.now_s, out->at_s);
            return true;
        }
        if (until_s <= engine->round_s) {
            engine->world.now_s = fmax(engine->world.now_s, until_s);
            return false;
        }
        if (engine->running.n > 0)
            advance(engine);
        else if (engine->has_spec || isfinite(until_s))
            skip_rounds(engine, until_s);
        else
            return false;
    }
}

/* rounds: a decision is made where the jobs stand. */
static double decide_s(const struct cadence *cadence, double now_s)
{
    const char *at = (const char *)cadence - offsetof(struct world, cadence);
    const struct sia_world *engine = (const struct sia_world *)(const void *)at;
    return fmax(engine->round_s, now_s);
}

/* ---- steps ---- */

static void leave(struct sia_world *engine, firn_job_id id)
{
    size_t kept = 0;
    for (size_t i = 0; i < engine->running.n; i++)
        if (engine->running.at[i] != id)
            engine->running.at[kept++] = engine->running.at[i];
    engine->running.n = kept;
}

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
    struct run *run = engine->runs.at[step->job->id];
    const struct siaapp *app = run->app;
    (void)err;
    engine->world.now_s = step->at_s;
    if (step->kind == FIRN_STEP_STOP) {
        adljob_clear(&run->job);
        leave(engine, step->job->id);
        return FIRN_OK;
    }
    if (step->kind == FIRN_STEP_START)
        vec_add(&engine->running, step->job->id);
    const struct firn_cluster *cluster = engine->world.options->cluster;
    int type = cluster->nodes[step->to->parts[0].node].type;
    struct adlplace place = shape_of(step->to);
    if (run->job.place.nodes > 0 && run->job.type == type &&
        adlplace_equal(&run->job.place, &place))
        return FIRN_OK; /* free-moves */
    struct adllimits limits = app->limits[type];
    limits.b_max =
        fmin(limits.b_max, adlsteps_b_max_at(&app->steps[type], &place));
    adljob_place(&run->job, type, &app->steps[type], &limits, &place,
                 app->restart_s); /* two-tables, first-start */
    run->restarts += run->has_run;
    run->has_run = true;
    return FIRN_OK;
}

/* ---- what the policy believes ---- */

/* batch-limits: examples a second and efficiency, on packed nodes. */
static double believed(struct run *run, int type, int gpus)
{
    struct adllimits limits = run->app->limits[type];
    int per_node = sia_types[type].per_node;
    int nodes = (gpus + per_node - 1) / per_node;
    limits.total_max = run->batch;
    return adlmodel_best(&run->job.models[type], &run->job.noise, &limits,
                         nodes, gpus)
        .goodput;
}

static double forecast_rate(void *state, const struct firn_job *job,
                            const struct firn_way *way, double now_s)
{
    struct sia_world *engine = state;
    struct run *run = engine->runs.at[job->id];
    const struct adlsteps *steps = run->app->steps;
    int type = way->type == FIRN_ANY_TYPE ? 0 : way->type, from = 0;
    (void)now_s;
    double ratio = 1;
    if (adlmodel_is_blank(&run->job.models[type])) { /* projection */
        while (from < SIA_TYPES && adlmodel_is_blank(&run->job.models[from]))
            from++;
        if (from == SIA_TYPES)
            return (double)NAN;
        ratio = steps[type].one_b / steps[type].one_s /
                (steps[from].one_b / steps[from].one_s);
    } else {
        from = type;
    }
    double goodput = believed(run, from, way->gpus) * ratio;
    return in_reference_s(run, goodput / run->app->limits[0].b0);
}

/* growth */
static int forecast_gpus_max(void *state, const struct firn_job *job,
                             unsigned tunes)
{
    struct sia_world *engine = state;
    const struct run *run = engine->runs.at[job->id];
    int most = 1;
    (void)tunes;
    for (int t = 0; t < SIA_TYPES; t++) {
        const struct adllimits *limits = &run->app->limits[t];
        int seen = 2 * run->job.models[t].gpus_most;
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
    const struct run *run = engine->runs.at[job->id];
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
    return FIRN_OK;
}

static const struct firn_policy_def policy = {
    .name = "sia",
    .summary = "goodput over GPU types, costs rounded",
    .paper = "Subramanya et al., Sia, SOSP 2023 (artifact)",
    .needs = FIRN_NEED_FORECAST | FIRN_NEED_TYPES,
    .does = FIRN_DOES_PREEMPT | FIRN_DOES_RESIZE | FIRN_DOES_MOVE,
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
    const struct firn_sim_options *options = engine->world.options;
    struct firn_trace_options reading = {
        .strict = options->strict, .trusts_order = engine->world.trusts_order};
    struct firn_error failed = {0};
    engine->shelf.root = options->profiles;
    engine->interval_s = options->interval_s > 0
                             ? options->interval_s
                             : engine->world.policy->interval_s;
    engine->round_s = engine->interval_s;
    engine->world.cadence = cadence_every(engine->interval_s, 0, true);
    engine->world.cadence.decide_s = decide_s;
    FIRN_TRY(
        firn_trace_open(&engine->world.trace, options->trace, &reading, err));
    if (fetch(engine, &failed))
        return FIRN_OK;
    if (failed.status != FIRN_OK)
        return firn_fail(err, failed.status, "%s", failed.text);
    return firn_fail(
        err, FIRN_EINVAL, "%s: not one job that can run; the first bad row: %s",
        options->trace, firn_trace_report(engine->world.trace)->first_bad[0]);
}

static void close_engine(void *state)
{
    struct sia_world *engine = state;
    firn_trace_close(engine->world.trace);
    for (size_t i = 0; i < engine->runs.n; i++) {
        adljob_release(&engine->runs.at[i]->job);
        mem_free(engine->runs.at[i]);
    }
    siashelf_release(&engine->shelf);
    vec_release(&engine->runs);
    vec_release(&engine->running);
    vec_release(&engine->events);
}

static double now_s(void *state)
{
    return ((struct sia_world *)state)->world.now_s;
}

static const struct firn_engine_def engine_def = {
    .name = "sia",
    .summary = "rounds of the Sia authors' simulator",
    .gives = FIRN_NEED_DURATION | FIRN_NEED_TYPES | FIRN_NEED_FORECAST,
    .forecast = &forecast,
    .state_size = sizeof(struct sia_world),
    .open = open_engine,
    .close = close_engine,
    .now_s = now_s,
    .apply = apply,
    .next = next,
};

const struct world_def compat_sia = {
    .name = "sia",
    .summary = "the simulator of Sia (SOSP 2023): 60 s rounds, three GPU types",
    .artifact = "Sia's simulator",
    .engine = &engine_def,
    .policies = policies,
    .suits = suits,
};
