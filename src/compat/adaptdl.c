/* adaptdl.c - the simulator of the Pollux paper, to the second.
 *
 * The rules of the simulator in AdaptDL's artifact branch (Qiao et al., Pollux,
 * OSDI 2021). Tiresias and Optimus come out with the authors' average
 * completion times to the last digit; Pollux is randomised there. What it does
 * that an honest simulator would not, marked Q1, Q2, ... where it is done:
 *
 * Q1  Rounds of 60 s. Jobs are advanced by a whole round, then the policy is
 *     called: the first decision is at 60 s, an arrival waits for the next
 *     multiple, and GPUs of a job that ends within a round idle to its end.
 * Q2  Every start and every change of GPUs costs 30 s, the first one too.
 * Q3  The seconds to the end of an epoch are rounded to an integer, half to
 *     even, and the job's progress is then set to the end of the epoch
 *     (compat/adaptdljob.c).
 * Q4  A placement is told by the rotation of its counts, in the order the
 *     policy listed the nodes; from five nodes on only the numbers of nodes
 *     and GPUs count (compat/adaptdlapp.c).
 * Q5  Placing takes the node with the most free GPUs first, again and again:
 *     no best fit for the remainder (compat/adaptdlplace.c).
 * Q6  Tiresias: the second queue is in order of demotion
 *     (compat/adaptdltiresias.c).
 * Q7  Optimus knows the true step times, packed, but leaves the current epoch
 *     out of the work that remains, and believes that a job on one GPU always
 *     takes two passes.
 * Q8  ncf never gets more than one GPU; tuned, its batch is 32768. yolov3
 *     never has more than 8 samples on a GPU although 16 were measured
 *     (compat/adaptdlshelf.c).
 * Q9  The model a job learns keeps the first of several measurements with the
 *     same (nodes, GPUs, batch) (compat/adaptdlmodel.c).
 *
 * Left out, being off in the authors' runs: interference between distributed
 * jobs, and clusters that change their size.
 *
 * Invariants:
 * (1) all jobs are advanced to the same multiple of the round, `round_s`, and
 *     every event before it is told before a decision is made there;
 * (2) a job is in `running` exactly while it holds GPUs and is not done;
 * (3) at a decision core's idea of a job's progress is the true one.
 *
 * Cost: O(running) a round; a table is read when its application first comes.
 */
#include "compat/adaptdljob.h"
#include "compat/adaptdlplace.h"
#include "compat/adaptdlshelf.h"
#include "compat/adaptdltiresias.h"
#include "compat/refuse.h"
#include "core/accept.h"
#include "sim/world.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUND_S = 60,
    RESTART_S = 30,
    LISTS_ASCENDING = 1, /* quirk of a policy: nodes by number, not by count */
};

/* ---- the engine ---- */

/* A job, from its submission on. */
struct run {
    struct adljob job;
    struct adlentry *app;
    double batch;      /* of the workload */
    double duration_s; /* alone on the GPUs it asked for */
    struct adlguess *guess;
    double left; /* Q7: iterations after epoch `left_of` */
    int left_of;
    struct firn_report told;
    int nnodes; /* where it is: nodes in order of number */
    firn_node_id nodes[ADL_NODES];
    int counts[ADL_NODES];
};

struct adaptdl {
    struct world world; /* first */
    struct adlshelf shelf;
    VEC(struct run *) runs; /* by id */
    VEC(firn_job_id) running;
    double interval_s, round_s; /* jobs are advanced until there: (1) */
    struct firn_job_spec spec;  /* the next arrival */
    struct adlentry *spec_app;
    bool has_spec, is_over;
    VEC(struct firn_event) events; /* of the round, by time */
    size_t next_event;
};

/* Steps at the first batch into reference seconds. */
static double in_reference_s(const struct run *run, double progress)
{
    return progress / run->app->truth.progress[run->app->truth.epochs] *
           run->duration_s;
}

static void tell(struct adaptdl *engine, enum firn_event_kind kind,
                 firn_job_id id, double at_s, struct firn_report report)
{
    struct firn_event event = {
        .kind = kind, .at_s = at_s, .job = id, .report = report};
    vec_add(&engine->events, event);
}

/* Core goes by the last report; another one only if that was wrong: (3). */
static void report(struct adaptdl *engine, firn_job_id id, struct run *run,
                   const struct adlstride *stride, double before)
{
    double start_s = engine->round_s, done_s = in_reference_s(run, before);
    double rate = stride->train_s > 0
                      ? in_reference_s(run, stride->gained) / stride->train_s
                      : 0;
    const struct firn_report *told = &run->told;
    double expected = told->done_s + told->rate * (start_s - told->resumes_s);
    if (stride->idle_s == 0 && fabs(rate - told->rate) <= 1e-12 * rate &&
        fabs(expected - done_s) <= 1e-9 * run->duration_s)
        return;
    run->told = (struct firn_report){done_s, rate, start_s + stride->idle_s};
    tell(engine, FIRN_EVENT_REPORT, id, start_s, run->told);
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

/* Q1: all jobs that hold GPUs live through one round. */
static void advance(struct adaptdl *engine)
{
    size_t kept = 0;
    struct world_spent *spent = &engine->world.spent;
    engine->events.n = engine->next_event = 0;
    for (size_t i = 0; i < engine->running.n; i++) {
        firn_job_id id = engine->running.at[i];
        struct run *run = engine->runs.at[id];
        double before = run->job.progress;
        struct adlstride stride = adljob_advance(&run->job, engine->interval_s);
        double held_s = stride.idle_s + stride.train_s;
        spent->given += run->job.place.gpus * held_s;
        spent->overhead += run->job.place.gpus * stride.idle_s;
        spent->useful += run->job.place.gpus * stride.train_s;
        report(engine, id, run, &stride, before);
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
static bool fetch(struct adaptdl *engine, struct firn_error *err)
{
    struct job_accept accept;
    char why[JOB_WHY_MAX];
    struct firn_job_spec *spec = &engine->spec;
    engine->has_spec = false;
    while (firn_trace_next(engine->world.trace, spec, err)) {
        if (!job_accept(spec, engine->world.options->cluster, &accept, why)) {
            if (firn_trace_refuse(engine->world.trace, spec, why, err) !=
                FIRN_OK)
                return false;
            continue;
        }
        if (adlshelf_find(&engine->shelf, spec->app, &engine->spec_app, err) !=
            FIRN_OK)
            return false;
        engine->has_spec = true;
        return true;
    }
    if (err->status == FIRN_OK)
        engine->is_over = engine->world.is_drained = true;
    return false;
}

/* The next arrival comes in. */
static void arrive(struct adaptdl *engine, struct firn_event *out)
{
    struct firn_job_spec *spec = &engine->spec;
    struct run *run = mem_new(1, sizeof *run);
    run->app = engine->spec_app;
    run->batch = spec->batch > 0 ? spec->batch : run->app->limits.b0;
    run->job.app = &run->app->truth;
    run->guess = adlentry_guess(run->app, run->batch);
    run->left_of = -1;
    run->duration_s = adlentry_alone_s(run->app, run->batch, spec->gpus);
    spec->duration_s = run->duration_s;
    spec->is_nominal = false;
    spec->restart_s = RESTART_S;
    *out = (struct firn_event){.kind = FIRN_EVENT_SUBMIT,
                               .at_s = spec->submit_s,
                               .job = (firn_job_id)engine->runs.n,
                               .spec = spec};
    vec_add(&engine->runs, run);
    engine->has_spec = false;
}

/* A multiple of the round at or after; times are whole seconds. */
static double round_up(const struct adaptdl *engine, double at_s)
{
    return ceil(at_s / engine->interval_s) * engine->interval_s;
}

/* Nothing runs: whole rounds may be passed over. */
static void skip_rounds(struct adaptdl *engine, double until_s)
{
    double to_s = until_s;
    if (engine->has_spec && engine->spec.submit_s < to_s)
        to_s = engine->spec.submit_s;
    to_s = round_up(engine, to_s);
    engine->events.n = engine->next_event = 0;
    engine->round_s = fmax(to_s, engine->round_s + engine->interval_s);
}

static bool next(void *state, double until_s, struct firn_event *out,
                 struct firn_error *err)
{
    struct adaptdl *engine = state;
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

/* Q1: a decision is made where the jobs stand. */
static double decide_s(const struct cadence *cadence, double now_s)
{
    const char *world = (const char *)cadence - offsetof(struct world, cadence);
    const struct adaptdl *engine = (const struct adaptdl *)(const void *)world;
    return fmax(engine->round_s, now_s);
}

/* ---- steps ---- */

/* Where a job is; true when that is somewhere else than before. */
static bool settle(struct run *run, const struct firn_alloc *to)
{
    bool is_new = to->nparts != run->nnodes;
    for (int i = 0; i < to->nparts; i++) {
        int count = __builtin_popcountll(to->parts[i].gpus);
        is_new = is_new || run->nodes[i] != to->parts[i].node ||
                 run->counts[i] != count;
        run->nodes[i] = to->parts[i].node;
        run->counts[i] = count;
    }
    run->nnodes = to->nparts;
    return is_new;
}

/* Q4: in the order the artifact's policies list nodes: by number, or as Q5
 * takes them, which is by falling count. */
static struct adlplace listed(const struct run *run, bool is_ascending)
{
    struct adlplace place = {0};
    for (int g = ADL_GPUS_PER_NODE; g >= 1; g--)
        for (int i = 0; i < run->nnodes; i++)
            if (is_ascending ? g == 1 : run->counts[i] == g)
                adlplace_add(&place, run->counts[i]);
    return place;
}

static void leave(struct adaptdl *engine, firn_job_id id)
{
    size_t kept = 0;
    for (size_t i = 0; i < engine->running.n; i++)
        if (engine->running.at[i] != id)
            engine->running.at[kept++] = engine->running.at[i];
    engine->running.n = kept;
}

static enum firn_status apply(void *state, const struct firn_step *step,
                              struct firn_error *err)
{
    struct adaptdl *engine = state;
    struct run *run = engine->runs.at[step->job->id];
    const struct adlentry *app = run->app;
    (void)err;
    engine->world.now_s = step->at_s;
    bool is_new = settle(run, step->to);
    run->told.rate = NAN; /* core has forgotten it */
    if (step->kind == FIRN_STEP_STOP) {
        adljob_clear(&run->job);
        leave(engine, step->job->id);
        return FIRN_OK;
    }
    if (step->kind == FIRN_STEP_START)
        vec_add(&engine->running, step->job->id);
    if (!is_new)
        return FIRN_OK; /* other GPUs of the same nodes */
    bool tunes = (step->to->tunes & FIRN_TUNE_BATCH) != 0;
    run->job.learns = tunes;
    run->job.fixed_batch = tunes ? app->tuned_batch : run->batch;
    const struct world_policy *policy = engine->world.policy;
    struct adlplace place =
        listed(run, (policy->quirks & LISTS_ASCENDING) != 0);
    adljob_place(&run->job, 0, &app->steps, &app->limits, &place,
                 RESTART_S); /* Q2 */
    return FIRN_OK;
}

/* ---- what policies may know ---- */

/* The goodput model, or for a fixed batch the truth; packed where the way does
 * not say. */
static double forecast_rate(void *state, const struct firn_job *job,
                            const struct firn_way *way, double now_s)
{
    struct adaptdl *engine = state;
    struct run *run = engine->runs.at[job->id];
    struct adlentry *app = run->app;
    (void)now_s;
    int packed = (way->gpus + ADL_GPUS_PER_NODE - 1) / ADL_GPUS_PER_NODE;
    int nodes = way->nodes > 0 ? way->nodes : packed;
    if (way->gpus > ADL_GPUS)
        return 0;
    if ((way->tunes & FIRN_TUNE_BATCH) == 0) {
        struct firn_noise noise =
            adlapp_noise(&app->truth, run->batch, run->job.epoch);
        return in_reference_s(run,
                              adlapp_gain(&app->truth, &noise, run->batch) /
                                  adlguess_s(run->guess, app, way->gpus));
    }
    struct adlmodel *model = &run->job.models[0];
    if (adlmodel_is_blank(model))
        return (double)NAN;
    struct adlbest best =
        adlmodel_best(model, &run->job.noise, &app->limits, nodes, way->gpus);
    return in_reference_s(run, best.goodput / app->limits.b0);
}

/* Q7 */
static double forecast_left_s(void *state, const struct firn_job *job,
                              const struct firn_way *way, double now_s)
{
    struct adaptdl *engine = state;
    struct run *run = engine->runs.at[job->id];
    (void)now_s;
    if (way->gpus > ADL_GPUS)
        return INFINITY;
    if (run->left_of != run->job.epoch) {
        run->left_of = run->job.epoch;
        run->left = adljob_iterations_left(&run->job, run->batch);
    }
    return adlguess_s(run->guess, run->app, way->gpus) * run->left;
}

static int forecast_gpus_max(void *state, const struct firn_job *job,
                             unsigned tunes)
{
    struct adaptdl *engine = state;
    const struct run *run = engine->runs.at[job->id];
    const struct adllimits *limits = &run->app->limits;
    if (run->app->gpus_max > 0)
        return run->app->gpus_max; /* Q8 */
    double most = tunes & FIRN_TUNE_BATCH ? limits->total_max : run->batch;
    return (int)(most / limits->b_min);
}

static const struct firn_forecast_def forecast = {
    .rate = forecast_rate,
    .left_s = forecast_left_s,
    .gpus_max = forecast_gpus_max,
};

/* ---- the world ---- */

static enum firn_status suits(const struct firn_sim_options *options,
                              struct firn_error *err)
{
    static const char artifact[] = "AdaptDL's simulator";
    const struct firn_cluster *cluster = options->cluster;
    bool is_theirs = cluster->nnodes == ADL_NODES && cluster->ntypes == 1;
    for (int i = 0; i < cluster->nnodes && is_theirs; i++)
        is_theirs = cluster->nodes[i].ngpus == ADL_GPUS_PER_NODE;
    if (!is_theirs)
        return firn_fail(err, FIRN_EINVAL,
                         "%s has %d nodes of %d GPUs of one type (%dx%d), "
                         "not %s",
                         artifact, ADL_NODES, ADL_GPUS_PER_NODE, ADL_NODES,
                         ADL_GPUS_PER_NODE, cluster->name);
    FIRN_TRY(refuse_options(artifact, options, REFUSE_BUT_INTERVALS, err));
    return refuse_no_tables(artifact, options, "pollux/", err);
}

static enum firn_status open_engine(void *state, struct firn_error *err)
{
    struct adaptdl *engine = state;
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
    const struct firn_trace_report *said =
        firn_trace_report(engine->world.trace);
    return firn_fail(err, FIRN_EINVAL,
                     "%s: not one job that can run; %ld bad rows%s%s",
                     options->trace, said->bad,
                     said->bad ? ", the first: " : "", said->first_bad[0]);
}

static void close_engine(void *state)
{
    struct adaptdl *engine = state;
    firn_trace_close(engine->world.trace);
    for (size_t i = 0; i < engine->runs.n; i++) {
        adljob_release(&engine->runs.at[i]->job);
        mem_free(engine->runs.at[i]);
    }
    adlshelf_release(&engine->shelf);
    vec_release(&engine->runs);
    vec_release(&engine->running);
    vec_release(&engine->events);
}

static double now_s(void *state)
{
    return ((struct adaptdl *)state)->world.now_s;
}

static const struct firn_engine_def engine_def = {
    .name = "adaptdl",
    .summary = "rounds of the Pollux authors' simulator",
    .gives = FIRN_NEED_DURATION | FIRN_NEED_TYPES | FIRN_NEED_FORECAST,
    .forecast = &forecast,
    .state_size = sizeof(struct adaptdl),
    .open = open_engine,
    .close = close_engine,
    .now_s = now_s,
    .apply = apply,
    .next = next,
};

/* Asking to decide again at once, a policy is called each round. */
static const char *const each_round[] = {"optimus.interval=1",
                                         "pollux.interval=1", NULL};

static const struct world_policy policies[] = {
    {.name = "tiresias", .def = &adaptdl_tiresias, .interval_s = ROUND_S},
    {.name = "optimus", .settings = each_round, .interval_s = ROUND_S},
    {.name = "pollux",
     .settings = each_round,
     .interval_s = ROUND_S,
     .quirks = LISTS_ASCENDING},
    {0},
};

const struct world_def compat_adaptdl = {
    .name = "adaptdl",
    .summary = "the simulator of Pollux (OSDI 2021): 60 s rounds, 16x4 T4",
    .artifact = "AdaptDL's simulator",
    .engine = &engine_def,
    .policies = policies,
    .place = adaptdl_place,
    .suits = suits,
};
