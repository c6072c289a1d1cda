/* easyscale.c - the trace simulator of EasyScale's artifact (SC 2023).
 *
 * Written from what that simulator does, not from the paper. A job has maxP
 * workers ("ESTs") of a fixed batch; a GPU of type i runs A_i of them one
 * after the other, so an iteration takes max over types of (mini-batch time x
 * A_i) and there is no communication. Every 60 s all jobs advance by 60 s, the
 * clock moves, and then the policy decides. The quirks, by name:
 *
 *   counters      three numbers of GPUs (32 v100, 16 p100, 16 t4), no nodes
 *   steps         nothing is decided between multiples of 60 s, nor at 0; a
 *                 job that ends keeps its GPUs until the next one, but its
 *                 completion is the exact moment inside the step
 *   one-cost      20 s once, before a job's first progress; every later change
 *                 of GPUs is free
 *   names         rows of one name are one job (easyscalejobs.c)
 *   serial-yarn   yarn-cs gives the first unfinished job, by row, all its GPUs
 *                 and no other job any; a job of an earlier row that arrives
 *                 later takes them away
 *   slow-start    a job starts with the slowest offer it has: one GPU
 *   stale-offer   a job that grows gets its own counts with one type raised,
 *                 but A and speedup of the offer, whose other counts may be
 *                 lower; A counts even for a type that is not held
 *   never-less    no job shrinks or stops under the elastic policies
 *   set-order     equal offers go by the order of a Python set
 *                 (easyscalemenu.c)
 *   stand-in      mini-batch times of another table of the artifact (or of two:
 *                 easyscale_fitted.c), and the older planner's least waste: as
 *                 published it does not run
 *
 * Its mean completion time is firn's. Its makespan is the last clock less
 * 60 s, where firn's is the last completion less the first submission.
 *
 * Beside its counts of GPUs a job has A and speedup, which the engine keeps.
 * The policies below read them through view->forecaster and plan counts only;
 * the engine finds the offer again from the job's former counts and the type
 * that grew (es_menu_grow(), a pure function), so plan and step agree.
 *
 * Invariants:
 * (1) all offers are made before the first decision; deciding changes nothing;
 * (2) a job's id is its place in es_jobs, its row is spec.line;
 * (3) given = useful + overhead, summed step by step.
 *
 * Cost: O(running x offers) a step; the menus are easyscalemenu.c's.
 */
#include "compat/easyscalefit.h"
#include "compat/easyscalejobs.h"
#include "compat/easyscalemenu.h"
#include "compat/refuse.h"
#include "sim/world.h"
#include <firn/policy.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double step_s = 60;  /* steps */
static const double start_s = 20; /* one-cost */

/* Which offers a policy looks at: world_policy.quirks. */
enum plan_for { WHOLE_GANG, ONE_TYPE, ALL_TYPES };

/* A job that has been submitted, by id. */
struct running {
    const struct es_menu *menu; /* NULL under WHOLE_GANG */
    struct es_offer holds;
    bool is_held;
    double progress;  /* samples */
    double pending_s; /* of the cost of the start */
};

struct easyscale {
    struct world world; /* first */
    struct es_jobs jobs;
    struct running *running;
    VEC(struct es_menu *) menus;
    firn_type_id types[ES_TYPES]; /* the cluster's */
    size_t submitted, ended;
    double next_step_s;
    VEC(struct firn_event) events;
    size_t next_event;
};

static const struct es_job *job_of(const struct easyscale *es, firn_job_id id)
{
    return &es->jobs.list.at[id];
}

/* ---- offers ---- */

/* The only type it may use, or ES_ANY. */
static int only_type(const struct easyscale *es, firn_job_id id)
{
    const struct es_job *job = job_of(es, id);
    bool is_any = es->world.policy->quirks == ALL_TYPES && job->mixes;
    return is_any ? ES_ANY : job->preferred;
}

static struct es_offer first_offer(const struct easyscale *es, firn_job_id id)
{
    if (es->world.policy->quirks == WHOLE_GANG)
        return es_job_whole(job_of(es, id));
    return *es_menu_slowest(es->running[id].menu, only_type(es, id));
}

static bool grow(const struct easyscale *es, firn_job_id id, int type,
                 struct es_offer *to, double *gain)
{
    const struct running *r = &es->running[id];
    return es_menu_grow(r->menu, only_type(es, id), &r->holds, type, to, gain);
}

/* ---- the engine: steps of 60 s ---- */

/* Reports a job's progress to core. */
static void tell(struct easyscale *es, firn_job_id id)
{
    const struct es_job *job = job_of(es, id);
    const struct running *r = &es->running[id];
    struct es_offer whole = es_job_whole(job);
    double unit = es_job_pace(job, whole.ests);
    struct firn_event event = {
        .kind = FIRN_EVENT_REPORT,
        .at_s = es->world.now_s,
        .job = id,
        .report = {.done_s = r->progress / unit,
                   .rate = es_job_pace(job, r->holds.ests) / unit,
                   .resumes_s = es->world.now_s + r->pending_s}};
    vec_add(&es->events, event);
}

/* Advances one job by the step that ends now. */
static void advance(struct easyscale *es, firn_job_id id)
{
    struct running *r = &es->running[id];
    double delay_s = fmin(r->pending_s, step_s), run_s = step_s - delay_s;
    double samples_s = es_job_pace(job_of(es, id), r->holds.ests);
    double left_s = (job_of(es, id)->samples - r->progress) / samples_s;
    r->pending_s -= delay_s;
    if (left_s <= run_s) {
        struct firn_event done = {.kind = FIRN_EVENT_DONE,
                                  .at_s = es->world.now_s,
                                  .job = id,
                                  .finished_s = es->world.now_s - step_s +
                                                delay_s + left_s};
        vec_add(&es->events, done);
        r->is_held = false;
        es->ended++;
        run_s = left_s;
    } else {
        r->progress += samples_s * run_s;
    }
    double gpus = es_gpus(r->holds.gpus);
    es->world.spent.given += gpus * step_s; /* (3) */
    es->world.spent.useful += gpus * run_s;
    es->world.spent.overhead += gpus * (step_s - run_s);
}

/* The first multiple of a step at or after `at_s`, but not 0. */
static double next_multiple(double at_s)
{
    return fmax(ceil(at_s / step_s) * step_s, step_s);
}

static double decide_s(const struct cadence *cadence, double at_s)
{
    (void)cadence;
    return next_multiple(at_s);
}

static void submit(struct easyscale *es, struct firn_event *out)
{
    const struct firn_job_spec *spec = &es->jobs.list.at[es->submitted].spec;
    es->world.now_s = fmax(es->world.now_s, spec->submit_s);
    if (es->submitted == es->ended)
        es->next_step_s = fmax(es->next_step_s, next_multiple(spec->submit_s));
    *out = (struct firn_event){.kind = FIRN_EVENT_SUBMIT,
                               .at_s = es->world.now_s,
                               .job = (firn_job_id)es->submitted++,
                               .spec = spec};
    es->world.is_drained = es->submitted == es->jobs.list.n;
}

static bool next(void *state, double until_s, struct firn_event *out,
                 struct firn_error *err)
{
    struct easyscale *es = state;
    (void)err;
    for (;;) {
        if (es->next_event < es->events.n) {
            *out = es->events.at[es->next_event++];
            return true;
        }
        es->next_event = es->events.n = 0;
        double turn_s = es->submitted > es->ended ? es->next_step_s : INFINITY;
        double submit_s = es->submitted < es->jobs.list.n
                              ? es->jobs.list.at[es->submitted].spec.submit_s
                              : INFINITY;
        double first_s = fmin(turn_s, submit_s);
        if (!(first_s <= until_s) || isinf(first_s)) {
            if (isfinite(until_s))
                es->world.now_s = fmax(es->world.now_s, until_s);
            return false;
        }
        if (submit_s < turn_s) {
            submit(es, out);
            return true;
        }
        es->world.now_s = es->next_step_s;
        for (size_t i = 0; i < es->submitted; i++)
            if (es->running[i].is_held)
                advance(es, (firn_job_id)i);
        struct firn_event timer = {.kind = FIRN_EVENT_TIMER,
                                   .at_s = es->world.now_s};
        vec_add(&es->events, timer);
        es->next_step_s += step_s;
    }
}

/* The offer with these counts: the first one, or growth by one type. */
static struct es_offer meant(const struct easyscale *es, firn_job_id id,
                             const int gpus[ES_TYPES])
{
    const struct running *r = &es->running[id];
    struct es_offer offer = {0};
    double gain;
    if (!r->is_held)
        offer = first_offer(es, id);
    for (int i = 0; i < ES_TYPES && r->is_held; i++)
        if (gpus[i] > r->holds.gpus[i])
            grow(es, id, i, &offer, &gain);
    if (memcmp(offer.gpus, gpus, sizeof offer.gpus) != 0)
        FIRN_BUG("job %s was never offered %d, %d and %d GPUs",
                 job_of(es, id)->spec.name, gpus[0], gpus[1], gpus[2]);
    return offer;
}

static enum firn_status apply(void *state, const struct firn_step *step,
                              struct firn_error *err)
{
    struct easyscale *es = state;
    struct running *r = &es->running[step->job->id];
    const struct firn_node *nodes = es->world.options->cluster->nodes;
    int gpus[ES_TYPES] = {0};
    (void)err;
    es->world.now_s = step->at_s;
    if (step->kind == FIRN_STEP_STOP) {
        r->is_held = false;
        return FIRN_OK;
    }
    for (int p = 0; p < step->to->nparts; p++)
        for (int i = 0; i < ES_TYPES; i++)
            if (nodes[step->to->parts[p].node].type == es->types[i])
                gpus[i] += __builtin_popcountll(step->to->parts[p].gpus);
    r->holds = meant(es, step->job->id, gpus);
    r->is_held = true;
    tell(es, step->job->id);
    return FIRN_OK;
}

static double now_s(void *state)
{
    return ((struct easyscale *)state)->world.now_s;
}

/* ---- opening ---- */

/* The menu for jobs of a kind; made once: (1). */
static const struct es_menu *menu_for(struct easyscale *es,
                                      const struct es_job *job)
{
    for (size_t i = 0; i < es->menus.n; i++) {
        const struct es_menu *menu = es->menus.at[i];
        if (menu->app == job->app && menu->batch == job->batch &&
            menu->workers == job->workers)
            return menu;
    }
    struct es_menu *menu = es_menu_new(job->app, job->batch, job->workers);
    vec_add(&es->menus, menu);
    return menu;
}

/* Sets the bounds on the job's GPUs that core checks, and its offers. */
static enum firn_status prepare(struct easyscale *es, size_t i,
                                struct firn_error *err)
{
    struct es_job *job = &es->jobs.list.at[i];
    bool is_gang = es->world.policy->quirks == WHOLE_GANG;
    es->running[i].pending_s = start_s;
    job->spec.gpus_min = is_gang ? job->workers : 1;
    job->spec.gpus_max = is_gang ? job->workers : ES_GPUS;
    if (is_gang && job->workers > es_type_gpus[job->preferred])
        return firn_fail(err, FIRN_EINVAL,
                         "%s: job %.40s wants %d %s, of which there are %d",
                         es->world.options->trace, job->spec.name, job->workers,
                         es_type_names[job->preferred],
                         es_type_gpus[job->preferred]);
    if (!is_gang)
        es->running[i].menu = menu_for(es, job);
    return FIRN_OK;
}

static enum firn_status open_engine(void *state, struct firn_error *err)
{
    struct easyscale *es = state;
    const struct firn_sim_options *options = es->world.options;
    es->world.cadence = cadence_every(step_s, 0, true);
    es->world.cadence.decide_s = decide_s;
    for (int i = 0; i < ES_TYPES; i++)
        es->types[i] = firn_cluster_type(options->cluster, es_type_names[i]);
    FIRN_TRY(es_jobs_read(&es->jobs, &es->world.trace, options, err));
    es->running = mem_new(es->jobs.list.n, sizeof *es->running);
    for (size_t i = 0; i < es->jobs.list.n; i++)
        FIRN_TRY(prepare(es, i, err));
    return FIRN_OK;
}

static void close_engine(void *state)
{
    struct easyscale *es = state;
    for (size_t i = 0; i < es->menus.n; i++)
        es_menu_free(es->menus.at[i]);
    vec_release(&es->menus);
    vec_release(&es->events);
    mem_free(es->running);
    es_jobs_release(&es->jobs);
    firn_trace_close(es->world.trace);
}

/* Alone on GPUs of one type. */
static double forecast_rate(void *state, const struct firn_job *job,
                            const struct firn_way *way, double at_s)
{
    const struct easyscale *es = state;
    const struct es_job *esjob = job_of(es, job->id);
    struct es_offer whole = es_job_whole(esjob);
    int ests[ES_TYPES] = {0};
    (void)at_s;
    for (int i = 0; i < ES_TYPES; i++)
        if (way->type == es->types[i] ||
            (way->type == FIRN_ANY_TYPE && i == esjob->preferred))
            ests[i] = (esjob->workers + way->gpus - 1) / way->gpus;
    return es_job_pace(esjob, ests) / es_job_pace(esjob, whole.ests);
}

static const struct firn_forecast_def forecast = {.rate = forecast_rate};

const struct firn_engine_def es_engine = {
    .name = "easyscale",
    .summary = "steps of 60 s over three counters",
    .gives = FIRN_NEED_DURATION | FIRN_NEED_TYPES | FIRN_NEED_FORECAST,
    .forecast = &forecast,
    .state_size = sizeof(struct easyscale),
    .open = open_engine,
    .close = close_engine,
    .now_s = now_s,
    .apply = apply,
    .next = next,
};

/* ---- the policies ---- */

/* The engine's state: these policies run in this world only. */
static const struct easyscale *world_of(const struct firn_view *view)
{
    if (view->forecast != &forecast)
        FIRN_BUG("a policy of EasyScale's artifact outside of it");
    return view->forecaster;
}

static int by_row(const struct firn_job *a, const struct firn_job *b,
                  const struct firn_view *view, const void *arg)
{
    (void)view;
    (void)arg;
    return (a->spec.line > b->spec.line) - (a->spec.line < b->spec.line);
}

static bool give(const struct easyscale *es, struct firn_plan *plan,
                 const struct firn_job *job, const struct es_offer *offer)
{
    int counts[FIRN_TYPES_MAX] = {0};
    for (int i = 0; i < ES_TYPES; i++)
        counts[es->types[i]] = offer->gpus[i];
    struct firn_want want = {.gpus = es_gpus(offer->gpus), .counts = counts};
    return firn_plan_give_want(plan, job, &want);
}

/* serial-yarn */
static enum firn_status decide_yarn(void *state, const struct firn_view *view,
                                    struct firn_plan *plan)
{
    const struct easyscale *es = world_of(view);
    (void)state;
    if (view->njobs == 0)
        return FIRN_OK;
    const struct firn_job *first = firn_view_sorted(view, by_row, NULL)[0];
    struct es_offer whole = es_job_whole(job_of(es, first->id));
    give(es, plan, first, &whole);
    return FIRN_OK;
}

/* A wish to grow by one type. */
struct wish {
    const struct firn_job *job;
    struct es_offer to;
    double gain;
    int type;
};

/* The largest gain first; equal ones by row, then type. */
static int by_gain(const void *a, const void *b)
{
    const struct wish *x = a, *y = b;
    int order = firn_cmp(y->gain, x->gain);
    if (order == 0)
        order = by_row(x->job, y->job, NULL, NULL);
    return order ? order : x->type - y->type;
}

/* New jobs first, each with its slowest offer; then growth, at most one type a
 * job (never-less). */
static enum firn_status decide_elastic(void *state,
                                       const struct firn_view *view,
                                       struct firn_plan *plan)
{
    const struct easyscale *es = world_of(view);
    const struct firn_job **jobs = firn_view_sorted(view, by_row, NULL);
    struct wish *all =
        firn_view_alloc(view, (view->njobs * ES_TYPES + 1) * sizeof *all);
    size_t n = 0;
    (void)state;
    firn_plan_keep_all(plan);
    for (size_t j = 0; j < view->njobs; j++) {
        firn_job_id id = jobs[j]->id;
        if (jobs[j]->state == FIRN_JOB_WAITING) {
            struct es_offer first = first_offer(es, id);
            give(es, plan, jobs[j], &first);
            continue;
        }
        for (int i = 0; i < ES_TYPES; i++) {
            all[n] = (struct wish){.job = jobs[j], .type = i};
            n += grow(es, id, i, &all[n].to, &all[n].gain);
        }
    }
    qsort(all, n, sizeof *all, by_gain);
    for (size_t i = 0; i < n; i++)
        if (firn_plan_of(plan, all[i].job)->ngpus == all[i].job->held.ngpus)
            give(es, plan, all[i].job, &all[i].to);
    return FIRN_OK;
}

static const struct firn_policy_def yarn = {
    .size = sizeof(struct firn_policy_def),
    .name = "yarn-cs",
    .summary = "the first job of the file has its GPUs, all others wait",
    .paper = "Li et al., EasyScale, SC 2023 (artifact)",
    .needs = FIRN_NEED_FORECAST,
    .does = FIRN_DOES_PREEMPT,
    .decide = decide_yarn,
};

static const struct firn_policy_def homo = {
    .size = sizeof(struct firn_policy_def),
    .name = "easyscale-homo",
    .summary = "elastic on the preferred GPU type",
    .paper = "Li et al., EasyScale, SC 2023 (artifact)",
    .needs = FIRN_NEED_FORECAST,
    .does = FIRN_DOES_RESIZE,
    .decide = decide_elastic,
};

static const struct firn_policy_def heter = {
    .size = sizeof(struct firn_policy_def),
    .name = "easyscale-heter",
    .summary = "elastic over all GPU types",
    .paper = "Li et al., EasyScale, SC 2023 (artifact)",
    .needs = FIRN_NEED_FORECAST,
    .does = FIRN_DOES_RESIZE,
    .decide = decide_elastic,
};

const struct world_policy es_policies[] = {
    {"yarn-cs", &yarn, .interval_s = 60, .quirks = WHOLE_GANG},
    {"easyscale-homo", &homo, .interval_s = 60, .quirks = ONE_TYPE},
    {"easyscale-heter", &heter, .interval_s = 60, .quirks = ALL_TYPES},
    {0},
};

/* ---- accepted options ---- */

enum firn_status es_suits(const struct firn_sim_options *options,
                          struct firn_error *err)
{
    static const char artifact[] = "EasyScale's simulator";
    if (strchr(options->trace, '#') != NULL)
        return firn_fail(err, FIRN_EINVAL, "%s never had groups in a trace",
                         artifact);
    FIRN_TRY(refuse_options(artifact, options, 0, err));
    FIRN_TRY(refuse_no_tables(artifact, options, "easyscale/", err));
    const struct firn_cluster *cluster = options->cluster;
    for (int i = 0; i < ES_TYPES; i++) { /* counters: any nodes will do */
        firn_type_id type = firn_cluster_type(cluster, es_type_names[i]);
        int has = type < 0 ? 0 : cluster->types[type].ngpus;
        if (has != es_type_gpus[i] || cluster->ntypes != ES_TYPES)
            return firn_fail(err, FIRN_EINVAL,
                             "%s has 32 v100, 16 p100 and 16 t4, such as "
                             "1x32:v100,1x16:p100,1x16:t4; cluster %s has %d "
                             "%s among its %d GPUs",
                             artifact, cluster->name, has, es_type_names[i],
                             cluster->ngpus);
    }
    return FIRN_OK;
}

const struct firn_world_def compat_easyscale = {
    .name = "easyscale",
    .summary = "EasyScale's trace simulator: steps of 60 s, free re-allocation",
    .artifact = "EasyScale's simulator",
    .engine = &es_engine,
    .policies = es_policies,
    .suits = es_suits,
};
