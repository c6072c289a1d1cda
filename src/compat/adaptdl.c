/* adaptdl.c - the simulator of the Pollux paper, to the second.
 *
 * The rules of the simulator in AdaptDL's artifact branch (Qiao et al., Pollux,
 * OSDI 2021). Tiresias and Optimus come out with the authors' average
 * completion times to the last digit; Pollux is randomised there. Its quirks,
 * each marked by its number at the line that imitates it:
 *
 * Q1  Rounds of 60 s: jobs are advanced by a whole round, then the policy is
 *     called. The first decision is at 60 s, an arrival waits for the next
 *     multiple, and GPUs of a job that ends within a round idle to its end
 *     (compat/adaptdlrounds.c).
 * Q2  Every start and every change of GPUs costs 30 s, the first one too.
 * Q3  The seconds to the end of an epoch are rounded to an integer, half to
 *     even, and the job's progress is then set to the end of the epoch
 *     (compat/adaptdljob.c).
 * Q4  A placement is known by the rotation of its counts, in the order the
 *     policy listed the nodes; from five nodes on only the numbers of nodes
 *     and GPUs count (compat/adaptdlapp.c).
 * Q5  Placing takes the node with the most free GPUs first, again and again:
 *     no best fit for the remainder.
 * Q6  Tiresias: the second queue is in order of demotion.
 * Q7  Optimus knows the true step times, packed, but leaves the current epoch
 *     out of the work that remains, and believes that a job on one GPU always
 *     takes two passes.
 * Q8  ncf never gets more than one GPU; tuned, its batch is 32768. yolov3
 *     never has more than 8 samples on a GPU although 16 were measured.
 * Q9  The model a job learns keeps the first of several measurements with the
 *     same (nodes, GPUs, batch) (compat/adaptdlmodel.c).
 *
 * Left out, being off in the authors' runs: interference between distributed
 * jobs, and clusters that change their size.
 *
 * Cost: O(running) a round; a table is read when its application first comes.
 */
#include "base/buf.h"
#include "base/files.h"
#include "base/mem.h"
#include "base/vec.h"
#include "compat/adaptdlapp.h"
#include "compat/adaptdlrounds.h"
#include "compat/refuse.h"
#include "core/place.h"
#include <firn/policy.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ADL_NODES = 16,
    ADL_GPUS_PER_NODE = 4,
    ADL_GPUS = ADL_NODES * ADL_GPUS_PER_NODE,
    ROUND_S = 60,
    RESTART_S = 30,
    LISTS_ASCENDING = 1, /* quirk of a policy: nodes by number, not by count */
};

/* ---- applications ---- */

/* Iteration times at one total batch, by GPUs, as Optimus predicts them. */
struct guess {
    double batch;
    double iteration_s[ADL_GPUS + 1]; /* 0: not computed yet */
};

struct app {
    char *name;
    struct adlapp truth;
    struct adlsteps steps;
    struct adllimits limits;
    int gpus_max;       /* of one job; 0: as many as its batch allows */
    double tuned_batch; /* fixed batch of a tuned job; 0: it chooses */
    VEC(struct guess *) guesses;
};

/* Q8. 0: no exception. */
static const struct oddity {
    const char *app;
    double b_max;       /* samples on a GPU */
    int gpus_max;       /* of one job */
    double tuned_batch; /* of a job that may choose its batch */
} oddities[] = {{"yolov3", 8, 0, 0}, {"ncf", 0, 1, 32768}};

static void app_free(struct app *app)
{
    mem_free(app->name);
    adlapp_release(&app->truth);
    adlsteps_release(&app->steps);
    for (size_t i = 0; i < app->guesses.n; i++)
        mem_free(app->guesses.at[i]);
    vec_release(&app->guesses);
    mem_free(app);
}

static enum firn_status read_tables(struct app *app, const char *root,
                                    struct firn_error *err)
{
    struct firn_buf folder = {0}, places = {0}, scales = {0}, far = {0};
    buf_printf(&folder, "%s/pollux/apps/%s", root, app->name);
    buf_printf(&places, "%s/placements.csv", folder.at);
    buf_printf(&scales, "%s/scalability.csv", folder.at);
    buf_printf(&far, "%s/pollux/interpolated/%s-5plus.csv", root, app->name);
    enum firn_status status = adlapp_open(&app->truth, folder.at, err);
    if (status == FIRN_OK)
        status = adlsteps_open(&app->steps, places.at, scales.at, far.at, err);
    buf_release(&folder);
    buf_release(&places);
    buf_release(&scales);
    buf_release(&far);
    return status;
}

static void set_limits(struct app *app)
{
    const struct adlapp *truth = &app->truth;
    app->limits =
        (struct adllimits){.b0 = truth->batch[0],
                           .b_min = app->steps.b_min,
                           .b_max = app->steps.b_max,
                           .total_max = truth->batch[truth->nbatches - 1]};
    for (size_t i = 0; i < sizeof oddities / sizeof *oddities; i++) {
        if (strcmp(oddities[i].app, app->name) != 0)
            continue;
        if (oddities[i].b_max > 0)
            app->limits.b_max = oddities[i].b_max;
        app->gpus_max = oddities[i].gpus_max;
        app->tuned_batch = oddities[i].tuned_batch;
    }
}

/* FIRN_ENOENT with the applications that have tables, or where the tables are
 * expected if there are none. */
static enum firn_status not_there(const char *root, const char *name,
                                  struct firn_error *err)
{
    struct firn_buf folder = {0}, known = {0};
    struct files apps = {0};
    buf_printf(&folder, "%s/pollux/apps", root);
    (void)files_list(&apps, folder.at, "");
    for (size_t i = 0; i < apps.n; i++)
        buf_printf(&known, "%s%s", i > 0 ? ", " : "",
                   apps.at[i] + folder.n + 1);
    files_release(&apps);
    if (known.n > 0)
        firn_fail(err, FIRN_ENOENT,
                  "%s has no tables for application '%.40s'; known: %s",
                  folder.at, name, known.at);
    else
        firn_fail(err, FIRN_ENOENT,
                  "%s: the tables of the Pollux artifact are not there; set "
                  "FIRN_DATA to the folder that holds pollux/",
                  folder.at);
    buf_release(&folder);
    buf_release(&known);
    return FIRN_ENOENT;
}

static double iteration_s(const struct app *app, struct adlbatch batch,
                          int gpus)
{
    struct adlplace place = adlplace_packed(gpus, ADL_GPUS_PER_NODE);
    return adltime_iteration(adlsteps_at(&app->steps, &place, batch.b),
                             batch.s);
}

/* The predictions at one total batch; they live as long as the application. */
static struct guess *app_guess(struct app *app, double batch)
{
    for (size_t i = 0; i < app->guesses.n; i++)
        if (app->guesses.at[i]->batch == batch)
            return app->guesses.at[i];
    struct guess *guess = mem_new(1, sizeof *guess);
    guess->batch = batch;
    vec_add(&app->guesses, guess);
    return guess;
}

/* Q7: what Optimus believes one iteration takes on `gpus` packed GPUs: the
 * truth, but two passes on one GPU whatever the batch. */
static double guess_s(struct guess *guess, const struct app *app, int gpus)
{
    if (guess->iteration_s[gpus] == 0)
        guess->iteration_s[gpus] = iteration_s(
            app, adlbatch_fixed(&app->limits, guess->batch, gpus, true), gpus);
    return guess->iteration_s[gpus];
}

/* How long a job takes alone on packed GPUs, without rounds, rounding or
 * restarts. */
static double app_alone_s(const struct app *app, double batch, int gpus)
{
    const struct adlapp *truth = &app->truth;
    struct adlbatch split = adlbatch_fixed(&app->limits, batch, gpus, false);
    double total = adlbatch_total(split, gpus), duration_s = 0;
    double step_s = iteration_s(app, split, gpus);
    for (int e = 0; e < truth->epochs; e++) {
        struct firn_noise noise = adlapp_noise(truth, total, e);
        duration_s += (truth->progress[e + 1] - truth->progress[e]) * step_s /
                      adlapp_gain(truth, &noise, total);
    }
    return duration_s;
}

/* ---- the engine ---- */

/* A job that was submitted. */
struct run {
    struct adlrun run; /* first */
    struct app *app;
    struct guess *guess;
    double left; /* Q7: iterations after epoch `left_of` */
    int left_of;
    int nnodes; /* its nodes, by number */
    firn_node_id nodes[ADL_NODES];
    int counts[ADL_NODES];
};

struct adaptdl {
    struct adlrounds rounds; /* first */
    VEC(struct app *) apps;  /* of the arrivals so far */
    struct app *spec_app;    /* of the next arrival */
};

static struct run *run_of(const struct adaptdl *engine, firn_job_id id)
{
    return (struct run *)engine->rounds.runs.at[id];
}

/* Finds the application of the next arrival; reads its tables if it is new. */
static enum firn_status find(struct adlrounds *rounds, struct firn_error *err)
{
    struct adaptdl *engine = (struct adaptdl *)rounds;
    const char *name = rounds->spec.app,
               *root = rounds->world.options->profiles;
    struct firn_error why = {0};
    for (size_t i = 0; i < engine->apps.n; i++)
        if (strcmp(engine->apps.at[i]->name, name) == 0) {
            engine->spec_app = engine->apps.at[i];
            return FIRN_OK;
        }
    struct app *app = mem_new(1, sizeof *app);
    app->name = mem_strdup(name);
    enum firn_status status = read_tables(app, root, &why);
    if (status != FIRN_OK) {
        bool is_known = app->truth.epochs > 0;
        app_free(app);
        return status == FIRN_ENOENT && !is_known
                   ? not_there(root, name, err)
                   : firn_fail(err, status, "%s", why.text);
    }
    set_limits(app);
    vec_add(&engine->apps, app);
    engine->spec_app = app;
    return FIRN_OK;
}

static struct adlrun *arrive(struct adlrounds *rounds)
{
    struct firn_job_spec *spec = &rounds->spec;
    struct run *run = mem_new(1, sizeof *run);
    run->app = ((struct adaptdl *)rounds)->spec_app;
    double batch = spec->batch > 0 ? spec->batch : run->app->limits.b0;
    run->run.batch = batch;
    run->run.job.app = &run->app->truth;
    run->run.duration_s = app_alone_s(run->app, batch, spec->gpus);
    run->guess = app_guess(run->app, batch);
    run->left_of = -1;
    spec->restart_s = RESTART_S;
    return &run->run;
}

/* ---- steps ---- */

static enum firn_status apply(void *state, const struct firn_step *step,
                              struct firn_error *err)
{
    struct adaptdl *engine = state;
    struct run *run = (struct run *)adlrounds_step(&engine->rounds, step);
    const struct app *app = run->app;
    struct adljob *job = &run->run.job;
    const struct firn_alloc *to = step->to;
    (void)err;
    bool is_new = to->nparts != run->nnodes;
    for (int i = 0; i < to->nparts; i++) {
        int count = __builtin_popcountll(to->parts[i].gpus);
        is_new = is_new || run->nodes[i] != to->parts[i].node ||
                 run->counts[i] != count;
        run->nodes[i] = to->parts[i].node;
        run->counts[i] = count;
    }
    run->nnodes = to->nparts;
    if (step->kind == FIRN_STEP_STOP || !is_new)
        return FIRN_OK; /* other GPUs of the same nodes cost nothing */
    bool tunes = (step->to->tunes & FIRN_TUNE_BATCH) != 0;
    job->learns = tunes;
    job->fixed_batch = tunes ? app->tuned_batch : run->run.batch;
    /* Q4: nodes as the artifact's policies list them: by number, or as Q5
     * takes them, by falling count. */
    bool is_ascending =
        (engine->rounds.world.policy->quirks & LISTS_ASCENDING) != 0;
    struct adlplace place = {0};
    for (int g = ADL_GPUS_PER_NODE; g >= 1; g--)
        for (int i = 0; i < run->nnodes; i++)
            if (is_ascending ? g == 1 : run->counts[i] == g)
                adlplace_add(&place, run->counts[i]);
    adljob_place(job, 0, &app->steps, &app->limits, &place, RESTART_S); /* Q2 */
    return FIRN_OK;
}

/* ---- what policies may know ---- */

/* The rate by the goodput model, or for a fixed batch the true one; on packed
 * nodes if the way does not name a number of nodes. */
static double forecast_rate(void *state, const struct firn_job *job,
                            const struct firn_way *way, double now_s)
{
    struct adaptdl *engine = state;
    struct run *run = run_of(engine, job->id);
    struct app *app = run->app;
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
                           guess_s(run->guess, app, way->gpus));
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
    return guess_s(run->guess, run->app, way->gpus) * run->left;
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

/* ---- placing ---- */

static int by_node(const void *a, const void *b)
{
    const struct firn_part *x = a, *y = b;
    return (x->node > y->node) - (x->node < y->node);
}

/* Q5. Again and again the node with the most free GPUs, of several the lowest
 * number, gives all it has or all that is still wanted: the remainder of a job
 * breaks into the emptiest node rather than into one it would fill. Counts
 * taken never rise, so "by falling count" is the order in which nodes were
 * taken. O(nodes taken), for nodes of one type with at most 64 GPUs. */
static bool adaptdl_place(struct freemap *map, const struct firn_want *want,
                          uint32_t accepts, struct arena *scratch,
                          struct firn_alloc *out)
{
    (void)accepts; /* one type */
    if (want->gpus > map->free_gpus)
        return false;
    *out = (struct firn_alloc){.is_shared = want->shared,
                               .how = FIRN_HOW_AS_SUBMITTED};
    out->parts =
        arena_alloc(scratch, (size_t)map->cluster->nnodes * sizeof *out->parts);
    while (out->ngpus < want->gpus) {
        firn_node_id node = freemap_emptiest(map, 0);
        struct firn_part *part = &out->parts[out->nparts++];
        *part = (struct firn_part){.node = node};
        for (uint64_t free = map->free[map->first_board[node]];
             free != 0 && out->ngpus < want->gpus; free &= free - 1) {
            part->gpus |= free & -free;
            out->ngpus++;
        }
        struct firn_alloc one = {.parts = part,
                                 .nparts = 1,
                                 .ngpus = __builtin_popcountll(part->gpus),
                                 .is_shared = want->shared};
        freemap_take(map, &one);
    }
    qsort(out->parts, (size_t)out->nparts, sizeof *out->parts, by_node);
    return true;
}

/* ---- Tiresias ----
 *
 * A job falls to the second queue when GPUs x seconds held reach 16 GPU-hours
 * and never comes back. The first queue is in order of submission; the second
 * is in order of falling, which policy/tiresias.c does not know: there it is
 * by submission too, as a rank that depends on the job alone must be. That is
 * the one difference, worth up to 0.7 % of the average completion time on the
 * Pollux authors' workloads.
 *
 * Which jobs run is found by counting GPUs alone, the first queue before the
 * second; a job that does not fit is passed over and loses its GPUs. Running
 * jobs stay where they are, new ones are placed in the order of the queues.
 *
 * Cost: O(jobs log jobs) a decision.
 */

/* GPU-seconds after which a job falls to the second queue. */
static const double THRESHOLD_GPU_S = 57600;

struct queues {
    VEC(int) fell; /* by job id: its place in the second queue; 0: not in it */
    int nfell;
};

static int by_fall(const void *a, const void *b)
{
    const int *const *x = a, *const *y = b;
    return (**x > **y) - (**x < **y);
}

/* Q6: a job that reached the threshold goes to the end of the second queue. A
 * job falls once, so a second call at the same time changes nothing. */
static void demote(struct queues *queues, const struct firn_view *view)
{
    const struct firn_job *const *running = firn_view_running(view);
    for (size_t i = 0; i < view->nrunning; i++) {
        int *fell = &queues->fell.at[running[i]->id];
        if (*fell == 0 &&
            firn_job_served_gpu_s(running[i], view->now_s) >= THRESHOLD_GPU_S)
            *fell = ++queues->nfell;
    }
}

/* All jobs, the first queue before the second. */
static const struct firn_job **line_up(struct queues *queues,
                                       const struct firn_view *view)
{
    const struct firn_job *const *jobs = firn_view_jobs(view);
    const struct firn_job **line =
        firn_view_alloc(view, (view->njobs + 1) * sizeof *line);
    const int **second =
        firn_view_alloc(view, (view->njobs + 1) * sizeof *second);
    const struct firn_job **of =
        firn_view_alloc(view, ((size_t)queues->nfell + 1) * sizeof *of);
    size_t n = 0, nsecond = 0;
    for (size_t i = 0; i < view->njobs; i++) {
        const int *fell = &queues->fell.at[jobs[i]->id];
        if (*fell == 0)
            line[n++] = jobs[i];
        else
            second[nsecond++] = fell;
        of[*fell] = jobs[i];
    }
    if (nsecond > 1)
        qsort(second, nsecond, sizeof *second, by_fall);
    for (size_t i = 0; i < nsecond; i++)
        line[n++] = of[*second[i]];
    return line;
}

static enum firn_status decide_tiresias(void *state,
                                        const struct firn_view *view,
                                        struct firn_plan *plan)
{
    struct queues *queues = state;
    const struct firn_job *const *jobs = firn_view_jobs(view);
    if (view->njobs > 0)
        vec_reserve(&queues->fell, (size_t)jobs[view->njobs - 1]->id + 1);
    demote(queues, view);
    const struct firn_job **line = line_up(queues, view);
    int left = view->gpus_up;
    for (size_t i = 0; i < view->njobs; i++) {
        if (line[i]->spec.gpus > left) {
            firn_plan_note(plan, line[i], "%d GPUs wanted, %d left",
                           line[i]->spec.gpus, left);
            line[i] = NULL;
            continue;
        }
        left -= line[i]->spec.gpus;
        if (firn_plan_keep(plan, line[i]))
            line[i] = NULL;
    }
    for (size_t i = 0; i < view->njobs; i++)
        if (line[i] != NULL)
            firn_plan_give(plan, line[i], line[i]->spec.gpus);
    return FIRN_OK;
}

/* The time at which the next job falls. */
static double wake_tiresias(const void *state, const struct firn_view *view)
{
    const struct queues *queues = state;
    const struct firn_job *const *running = firn_view_running(view);
    double wake_s = INFINITY;
    for (size_t i = 0; i < view->nrunning; i++) {
        const struct firn_job *job = running[i];
        double left = THRESHOLD_GPU_S - firn_job_served_gpu_s(job, view->now_s);
        if (queues->fell.at[job->id] == 0)
            wake_s = fmin(wake_s, view->now_s + left / job->held.ngpus);
    }
    return wake_s;
}

static void close_tiresias(void *state)
{
    struct queues *queues = state;
    vec_release(&queues->fell);
}

static const struct firn_policy_def tiresias = {
    .size = sizeof(struct firn_policy_def),
    .name = "tiresias",
    .summary = "two queues by GPU service, the second in order of demotion",
    .does = FIRN_DOES_PREEMPT | FIRN_DOES_MOVE,
    .state_size = sizeof(struct queues),
    .decide = decide_tiresias,
    .wake_s = wake_tiresias,
    .fini = close_tiresias,
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
    engine->rounds.find = find;
    engine->rounds.arrive = arrive;
    return adlrounds_open(&engine->rounds, err);
}

static void close_engine(void *state)
{
    struct adaptdl *engine = state;
    adlrounds_close(&engine->rounds);
    for (size_t i = 0; i < engine->apps.n; i++)
        app_free(engine->apps.at[i]);
    vec_release(&engine->apps);
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

/* Intervals of 1 s: these policies decide in every round. */
static const char *const each_round[] = {"optimus.interval=1",
                                         "pollux.interval=1", NULL};

static const struct world_policy policies[] = {
    {.name = "tiresias", .def = &tiresias, .interval_s = ROUND_S},
    {.name = "optimus", .settings = each_round, .interval_s = ROUND_S},
    {.name = "pollux",
     .settings = each_round,
     .interval_s = ROUND_S,
     .quirks = LISTS_ASCENDING},
    {0},
};

const struct firn_world_def compat_adaptdl = {
    .name = "adaptdl",
    .summary = "the simulator of Pollux (OSDI 2021): 60 s rounds, 16x4 T4",
    .artifact = "AdaptDL's simulator",
    .engine = &engine_def,
    .policies = policies,
    .place = adaptdl_place,
    .suits = suits,
};
