/* adaptdl.c - the simulator of the Pollux paper, to the second.
 *
 * The rules of the simulator in AdaptDL's artifact branch (Qiao et al., Pollux,
 * OSDI 2021). Tiresias and Optimus come out with the authors' average
 * completion times to the last digit; Pollux is randomised there. What it does
 * that an honest simulator would not, marked Q1, Q2, ... where it is done:
 *
 * Q1  Rounds of 60 s: jobs are advanced by a whole round, then the policy is
 *     called. The first decision is at 60 s, an arrival waits for the next
 *     multiple, and GPUs of a job that ends within a round idle to its end
 *     (compat/adaptdlrounds.c).
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
 * Cost: O(running) a round; a table is read when its application first comes.
 */
#include "base/mem.h"
#include "compat/adaptdlplace.h"
#include "compat/adaptdlrounds.h"
#include "compat/adaptdlshelf.h"
#include "compat/adaptdltiresias.h"
#include "compat/refuse.h"
#include <math.h>

enum {
    ROUND_S = 60,
    RESTART_S = 30,
    LISTS_ASCENDING = 1, /* quirk of a policy: nodes by number, not by count */
};

/* ---- the engine ---- */

/* A job, from its submission on. */
struct run {
    struct adlrun run; /* first */
    struct adlentry *app;
    struct adlguess *guess;
    double left; /* Q7: iterations after epoch `left_of` */
    int left_of;
    int nnodes; /* where it is: nodes in order of number */
    firn_node_id nodes[ADL_NODES];
    int counts[ADL_NODES];
};

struct adaptdl {
    struct adlrounds rounds; /* first */
    struct adlshelf shelf;
    struct adlentry *spec_app; /* of the next arrival */
};

static struct run *run_of(const struct adaptdl *engine, firn_job_id id)
{
    return (struct run *)engine->rounds.runs.at[id];
}

static enum firn_status find(struct adlrounds *rounds, struct firn_error *err)
{
    struct adaptdl *engine = (struct adaptdl *)rounds;
    return adlshelf_find(&engine->shelf, rounds->spec.app, &engine->spec_app,
                         err);
}

static struct adlrun *arrive(struct adlrounds *rounds)
{
    struct firn_job_spec *spec = &rounds->spec;
    struct run *run = mem_new(1, sizeof *run);
    run->app = ((struct adaptdl *)rounds)->spec_app;
    double batch = spec->batch > 0 ? spec->batch : run->app->limits.b0;
    run->run.batch = batch;
    run->run.job.app = &run->app->truth;
    run->run.duration_s = adlentry_alone_s(run->app, batch, spec->gpus);
    run->guess = adlentry_guess(run->app, batch);
    run->left_of = -1;
    spec->restart_s = RESTART_S;
    return &run->run;
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

static enum firn_status apply(void *state, const struct firn_step *step,
                              struct firn_error *err)
{
    struct adaptdl *engine = state;
    struct run *run = (struct run *)adlrounds_step(&engine->rounds, step);
    const struct adlentry *app = run->app;
    struct adljob *job = &run->run.job;
    (void)err;
    bool is_new = settle(run, step->to);
    if (step->kind == FIRN_STEP_STOP || !is_new)
        return FIRN_OK; /* or other GPUs of the same nodes */
    bool tunes = (step->to->tunes & FIRN_TUNE_BATCH) != 0;
    job->learns = tunes;
    job->fixed_batch = tunes ? app->tuned_batch : run->run.batch;
    const struct world_policy *policy = engine->rounds.world.policy;
    struct adlplace place =
        listed(run, (policy->quirks & LISTS_ASCENDING) != 0);
    adljob_place(job, 0, &app->steps, &app->limits, &place, RESTART_S); /* Q2 */
    return FIRN_OK;
}

/* ---- what policies may know ---- */

/* The goodput model, or for a fixed batch the truth; packed where the way does
 * not say. */
static double forecast_rate(void *state, const struct firn_job *job,
                            const struct firn_way *way, double now_s)
{
    struct adaptdl *engine = state;
    struct run *run = run_of(engine, job->id);
    struct adlentry *app = run->app;
    (void)now_s;
    int packed = (way->gpus + ADL_GPUS_PER_NODE - 1) / ADL_GPUS_PER_NODE;
    int nodes = way->nodes > 0 ? way->nodes : packed;
    if (way->gpus > ADL_GPUS)
        return 0;
    if ((way->tunes & FIRN_TUNE_BATCH) == 0) {
        struct firn_noise noise =
            adlapp_noise(&app->truth, run->run.batch, run->run.job.epoch);
        return adlrun_in_reference_s(
            &run->run, adlapp_gain(&app->truth, &noise, run->run.batch) /
                           adlguess_s(run->guess, app, way->gpus));
    }
    struct adlmodel *model = &run->run.job.models[0];
    if (adlmodel_is_blank(model))
        return (double)NAN;
    struct adlbest best = adlmodel_best(model, &run->run.job.noise,
                                        &app->limits, nodes, way->gpus);
    return adlrun_in_reference_s(&run->run, best.goodput / app->limits.b0);
}

/* Q7 */
static double forecast_left_s(void *state, const struct firn_job *job,
                              const struct firn_way *way, double now_s)
{
    struct adaptdl *engine = state;
    struct run *run = run_of(engine, job->id);
    (void)now_s;
    if (way->gpus > ADL_GPUS)
        return INFINITY;
    if (run->left_of != run->run.job.epoch) {
        run->left_of = run->run.job.epoch;
        run->left = adljob_iterations_left(&run->run.job, run->run.batch);
    }
    return adlguess_s(run->guess, run->app, way->gpus) * run->left;
}

static int forecast_gpus_max(void *state, const struct firn_job *job,
                             unsigned tunes)
{
    struct adaptdl *engine = state;
    const struct run *run = run_of(engine, job->id);
    const struct adllimits *limits = &run->app->limits;
    if (run->app->gpus_max > 0)
        return run->app->gpus_max; /* Q8 */
    double most = tunes & FIRN_TUNE_BATCH ? limits->total_max : run->run.batch;
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
    engine->shelf.root = engine->rounds.world.options->profiles;
    engine->rounds.find = find;
    engine->rounds.arrive = arrive;
    return adlrounds_open(&engine->rounds, err);
}

static void close_engine(void *state)
{
    struct adaptdl *engine = state;
    adlrounds_close(&engine->rounds);
    adlshelf_release(&engine->shelf);
}

static const struct firn_engine_def engine_def = {
    .name = "adaptdl",
    .summary = "rounds of the Pollux authors' simulator",
    .gives = FIRN_NEED_DURATION | FIRN_NEED_TYPES | FIRN_NEED_FORECAST,
    .forecast = &forecast,
    .state_size = sizeof(struct adaptdl),
    .open = open_engine,
    .close = close_engine,
    .now_s = adlrounds_now_s,
    .apply = apply,
    .next = adlrounds_next,
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
