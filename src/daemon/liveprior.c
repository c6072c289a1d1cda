/* liveprior.c - rates by shape, by profile, by what others of the same
 * application reported, or by a plain law.
 *
 *     language model    its shape's (core/llmjobs.h)
 *     step times known  time(as submitted) / time(way)       firn/itertime.h
 *     else              twice the GPUs do 0.9 of twice the work
 *
 * and GPUs of a type that nothing is known of go by their speed. On the GPUs a
 * job asked for, of the reference type, the rate is 1 by definition.
 *
 * Step times of an application are known on a type of GPU when a profile has
 * them or when its jobs, alone on their GPUs, have reported two shapes (GPUs,
 * nodes, batch of a GPU, frozen layers) or more there. The reports of a shape
 * are averaged, the newest counting REPORT_RATE; a new shape, or one whose mean
 * has moved by a twentieth, refits the law (firn_itertime_refit) from the
 * profile's or, without one, from the law that no one has measured: what
 * was not seen stays as it was believed, so few reports change little.
 *
 * Reports of accumulated steps are not fitted: they are several passes.
 *
 * Cost: a look into a hash table and an evaluation of the law; a refit takes
 * milliseconds and comes with news only. SHAPES_MAX shapes a type, APPS_MAX
 * applications; what comes later goes by the plain law.
 */
#include "daemon/liveprior.h"
#include "base/fmath.h"
#include "base/log.h"
#include "base/map.h"
#include "base/vec.h"
#include "core/llmjobs.h"
#include <firn/profile.h>
#include <math.h>
#include <string.h>

#define DOUBLING    1.8 /* work of twice the GPUs: 2 x 0.9 */
#define REPORT_RATE 0.3
#define NEWS        0.05

enum { SHAPES_MAX = 32, APPS_MAX = 4096, SCALED_MAX = 256 };

/* A shape that was reported, and how long its steps were when last fitted. */
struct shape {
    struct firn_step_obs obs;
    double fitted_s;
};

/* The application on one type of the cluster. */
struct on_type {
    const struct firn_profile_gpu *gpu; /* NULL: the profile has none */
    bool is_known;
    struct firn_itertime time;
    VEC(struct shape) seen;
};

struct app {
    const struct firn_profile *profile; /* NULL: none */
    struct on_type *types;              /* of the cluster */
};

struct liveprior {
    const struct firn_cluster *cluster;
    struct firn_profiles profiles;
    struct map names;
    VEC(struct app) apps; /* by number in `names` */
    int largest[FIRN_TYPES_MAX];
    double scaled[SCALED_MAX]; /* work of so many GPUs by the plain law */
};

static double plain_law(int gpus)
{
    return fm_pow(gpus, fm_log(DOUBLING) / fm_log(2));
}

struct liveprior *liveprior_new(const struct firn_cluster *cluster)
{
    struct liveprior *prior = mem_new(1, sizeof *prior);
    struct firn_error err = {0};
    prior->cluster = cluster;
    for (int i = 1; i < SCALED_MAX; i++)
        prior->scaled[i] = plain_law(i);
    for (int i = 0; i < cluster->nnodes; i++) {
        const struct firn_node *node = &cluster->nodes[i];
        if (node->ngpus > prior->largest[node->type])
            prior->largest[node->type] = node->ngpus;
    }
    if (firn_profiles_builtin(&prior->profiles, &err) != FIRN_OK)
        log_warn("no profiles: %s", err.text);
    return prior;
}

void liveprior_free(struct liveprior *prior)
{
    if (prior == NULL)
        return;
    for (size_t i = 0; i < prior->apps.n; i++) {
        for (int t = 0; t < prior->cluster->ntypes; t++)
            vec_release(&prior->apps.at[i].types[t].seen);
        mem_free(prior->apps.at[i].types);
    }
    vec_release(&prior->apps);
    map_release(&prior->names);
    firn_profiles_release(&prior->profiles);
    mem_free(prior);
}

/* --- applications -------------------------------------------------------- */

/* The profile that knows most of the cluster's types; the first of them. */
static const struct firn_profile *best_profile(const struct liveprior *prior,
                                               const char *name)
{
    const struct firn_profile *best = NULL;
    int most = 0;
    for (size_t i = 0; *name != '\0' && i < prior->profiles.n; i++) {
        const struct firn_profile *p = &prior->profiles.at[i];
        int knows = 0;
        if (!firn_profile_is(p, name))
            continue;
        for (int t = 0; t < prior->cluster->ntypes; t++)
            knows += firn_profile_gpu(p, prior->cluster->types[t].name) != NULL;
        if (knows > most) {
            most = knows;
            best = p;
        }
    }
    return best;
}

/* NULL: it has no name, or there are too many. */
static struct app *app_of(struct liveprior *prior, const char *name)
{
    int number = map_find(&prior->names, name);
    if (number >= 0)
        return &prior->apps.at[number];
    if (*name == '\0' || prior->apps.n >= APPS_MAX)
        return NULL;
    map_add(&prior->names, name);
    struct app app = {
        best_profile(prior, name),
        mem_new((size_t)prior->cluster->ntypes, sizeof *app.types)};
    for (int t = 0; t < prior->cluster->ntypes; t++) {
        struct on_type *on = &app.types[t];
        firn_itertime_default(&on->time);
        on->gpu =
            app.profile != NULL
                ? firn_profile_gpu(app.profile, prior->cluster->types[t].name)
                : NULL;
        on->is_known = on->gpu != NULL;
        if (on->is_known)
            on->time = on->gpu->time;
    }
    vec_add(&prior->apps, app);
    return &prior->apps.at[prior->apps.n - 1];
}

firn_type_id liveprior_type(const struct liveprior *prior,
                            const struct firn_job *job)
{
    const struct firn_cluster *c = prior->cluster;
    for (int t = 0; t < c->ntypes; t++)
        if ((job->type_mask >> t & 1) && c->types[t].speed == 1)
            return t;
    for (int t = 0; t < c->ntypes; t++)
        if (job->type_mask >> t & 1)
            return t;
    return 0;
}

static firn_type_id type_of(const struct liveprior *prior,
                            const struct firn_job *job, firn_type_id type)
{
    return type >= 0 && type < prior->cluster->ntypes
               ? type
               : liveprior_type(prior, job);
}

/* --- step times ---------------------------------------------------------- */

/* Its step times on that type, or on the nearest in speed that has some, and
 * how many times slower that type is then. NULL: none are known. */
static const struct on_type *times_on(const struct liveprior *prior,
                                      const struct app *app, firn_type_id type,
                                      double *slower)
{
    const struct firn_gpu_type *types = prior->cluster->types;
    const struct on_type *best = NULL;
    double nearest = INFINITY;
    for (int t = 0; app != NULL && t < prior->cluster->ntypes; t++) {
        double ratio = types[t].speed / types[type].speed;
        double away = t == type ? 0 : ratio > 1 ? ratio : 1 / ratio;
        if (!app->types[t].is_known || away >= nearest)
            continue;
        nearest = away;
        best = &app->types[t];
        *slower = t == type ? 1 : ratio;
    }
    return best;
}

/* The batch, if one is known. */
static double batch_of(const struct app *app, const struct firn_job *job,
                       const struct prior_setting *setting)
{
    if (setting->batch > 0)
        return setting->batch;
    if (job->spec.batch > 0)
        return job->spec.batch;
    return app->profile != NULL && app->profile->batch0 > 0
               ? app->profile->batch0
               : 0;
}

/* How a batch is run on so many GPUs, in so many passes at least. */
static struct firn_batch_split split_of(const struct app *app,
                                        const struct on_type *on, double batch,
                                        int gpus, int passes)
{
    const struct firn_profile *p = app->profile;
    struct firn_batch_split split = {ceil(batch / gpus), 1, batch};
    if (p != NULL) {
        double most = p->local_max > 0 ? p->local_max : on->time.batch_max;
        split = firn_profile_split(p, batch, gpus, most);
    }
    if (passes > split.accum_steps) {
        double each = split.batch_per_gpu * split.accum_steps;
        split.batch_per_gpu = fmax(ceil(each / passes), 1);
        split.accum_steps = (int)ceil(each / split.batch_per_gpu);
    }
    return split;
}

/* Work a second there, in batches: NaN when no step times are known. */
static double speed(struct liveprior *prior, const struct firn_job *job,
                    const struct firn_way *way,
                    const struct prior_setting *setting)
{
    double slower = 1;
    struct app *app = app_of(prior, job->spec.app);
    firn_type_id type = type_of(prior, job, way->type);
    const struct on_type *on = times_on(prior, app, type, &slower);
    if (on == NULL)
        return (double)NAN;
    double batch = batch_of(app, job, setting);
    if (!(batch > 0))
        return (double)NAN;
    struct firn_batch_split split =
        split_of(app, on, batch, way->gpus, way->passes);
    int node = prior->largest[type] > 0 ? prior->largest[type] : 1;
    int fewest = (way->gpus + node - 1) / node;
    struct firn_shape shape = {.nodes = way->nodes > 0 ? way->nodes : fewest,
                               .gpus = way->gpus,
                               .batch_per_gpu = split.batch_per_gpu,
                               .accum_steps = split.accum_steps,
                               .theta = 1,
                               .omega = 1};
    if (shape.nodes > shape.gpus)
        return 0;
    if (app->profile != NULL && setting->nfrozen > 0) {
        struct firn_profile_frozen left =
            firn_profile_unfrozen(app->profile, setting->nfrozen);
        shape.theta = left.theta;
        shape.omega = left.omega;
    }
    double iteration_s = firn_itertime_iteration(&on->time, &shape) * slower;
    double worth = app->profile != NULL
                       ? firn_profile_gain(app->profile, 0, split.total)
                       : split.total / batch;
    return iteration_s > 0 ? worth / iteration_s : (double)NAN;
}

/* --- rates --------------------------------------------------------------- */

static double scaled(const struct liveprior *prior, int gpus)
{
    return gpus < SCALED_MAX ? prior->scaled[gpus] : plain_law(gpus);
}

/* A language model's speed follows from its shape. */
static double by_shape(const struct liveprior *prior,
                       const struct firn_job *job, const struct firn_way *way,
                       double *need_gib)
{
    struct llmjob llm =
        llmjobs_open(prior->cluster, &job->spec, job->type_mask);
    struct llmspot spot = llmjobs_packed(
        prior->cluster, type_of(prior, job, way->type), way->gpus, way->nodes);
    return llmjobs_expect(&llm, &spot, way->tensor, need_gib);
}

/* GPUs of several types: each type's part of the whole. */
static double by_counts(struct liveprior *prior, const struct firn_job *job,
                        const struct firn_way *way,
                        const struct prior_setting *setting)
{
    double sum = 0;
    int gpus = 0;
    for (int t = 0; t < prior->cluster->ntypes; t++)
        gpus += way->counts[t];
    for (int t = 0; gpus > 0 && t < prior->cluster->ntypes; t++) {
        struct firn_way one = *way;
        one.counts = NULL;
        one.type = t;
        one.gpus = gpus;
        if (way->counts[t] > 0)
            sum += way->counts[t] * liveprior_rate(prior, job, &one, setting) /
                   gpus;
    }
    return sum;
}

double liveprior_rate(struct liveprior *prior, const struct firn_job *job,
                      const struct firn_way *way,
                      const struct prior_setting *setting)
{
    const struct firn_gpu_type *types = prior->cluster->types;
    static const struct prior_setting as_submitted = {0};
    if (way->counts != NULL)
        return by_counts(prior, job, way, setting);
    if (way->gpus < 1 || job->spec.gpus < 1)
        return 0;
    if (llmjobs_is(&job->spec))
        return by_shape(prior, job, way, NULL);
    double now = speed(prior, job, way, setting);
    if (!isnan(now)) {
        struct prior_setting was = as_submitted;
        was.batch = setting->batch;
        struct firn_way ref = {.gpus = job->spec.gpus, .type = FIRN_ANY_TYPE};
        double then = speed(prior, job, &ref, &was);
        return then > 0 ? now / then : 0;
    }
    return scaled(prior, way->gpus) *
           types[type_of(prior, job, way->type)].speed /
           scaled(prior, job->spec.gpus) /
           types[liveprior_type(prior, job)].speed;
}

/* --- the rest ------------------------------------------------------------ */

struct firn_load liveprior_load(struct liveprior *prior,
                                const struct firn_job *job,
                                const struct firn_way *way,
                                const struct prior_setting *setting)
{
    struct firn_way one = {.gpus = job->spec.gpus, .type = FIRN_ANY_TYPE};
    struct firn_load load = {(double)NAN, (double)NAN};
    double slower;
    way = way != NULL ? way : &one;
    if (way->gpus < 1)
        return load;
    if (llmjobs_is(&job->spec)) {
        by_shape(prior, job, way, &load.mem_gib);
        return load;
    }
    const struct app *app = app_of(prior, job->spec.app);
    const struct on_type *on =
        times_on(prior, app, type_of(prior, job, way->type), &slower);
    if (on == NULL || on->gpu == NULL)
        return load;
    double batch = batch_of(app, job, setting);
    if (!(batch > 0))
        return load;
    struct firn_batch_split split =
        split_of(app, on, batch, way->gpus, way->passes);
    double theta = firn_profile_unfrozen(app->profile, setting->nfrozen).theta;
    double mib = firn_profile_mem_mib(on->gpu, split.batch_per_gpu, theta);
    load.util = firn_profile_util(on->gpu, split.batch_per_gpu, theta);
    if (!isnan(mib))
        load.mem_gib = mib / 1024;
    return load;
}

double liveprior_beside(struct liveprior *prior, const struct firn_job *job,
                        const char *other)
{
    const struct app *app = app_of(prior, job->spec.app);
    return app != NULL && app->profile != NULL
               ? firn_profile_beside(app->profile, other)
               : 0;
}

int liveprior_gpus_max(struct liveprior *prior, const struct firn_job *job)
{
    static const struct prior_setting as_submitted = {0};
    const struct app *app = app_of(prior, job->spec.app);
    if (app == NULL || app->profile == NULL)
        return 0;
    double batch = batch_of(app, job, &as_submitted);
    double least = app->profile->local_min > 1 ? app->profile->local_min : 1;
    return batch > 0 && batch / least < 1e6 ? (int)(batch / least) : 0;
}

/* --- what is learned ----------------------------------------------------- */

static bool is_same(const struct firn_shape *a, const struct firn_shape *b)
{
    return a->nodes == b->nodes && a->gpus == b->gpus &&
           a->gpus_on_fullest == b->gpus_on_fullest &&
           a->batch_per_gpu == b->batch_per_gpu && a->theta == b->theta &&
           a->omega == b->omega;
}

static size_t find(const struct on_type *on, const struct firn_shape *shape)
{
    size_t i = 0;
    while (i < on->seen.n && !is_same(&on->seen.at[i].obs.shape, shape))
        i++;
    return i;
}

/* Takes a step time in; true: it is news. */
static bool take(struct on_type *on, const struct firn_shape *shape,
                 double step_s)
{
    size_t i = find(on, shape);
    if (i == SHAPES_MAX)
        return false;
    if (i == on->seen.n) {
        struct shape first = {{*shape, step_s, (double)NAN}, 0};
        vec_add(&on->seen, first);
    }
    struct shape *seen = &on->seen.at[i];
    seen->obs.step_s += REPORT_RATE * (step_s - seen->obs.step_s);
    bool is_news =
        fabs(seen->obs.step_s - seen->fitted_s) > NEWS * seen->obs.step_s;
    if (is_news)
        seen->fitted_s = seen->obs.step_s;
    return is_news;
}

static void refit(struct on_type *on)
{
    struct firn_step_obs obs[SHAPES_MAX];
    struct firn_itertime_fit fit = {.form = FIRN_FORM_POLLUX};
    struct firn_itertime time;
    struct firn_error err = {0};
    if (on->seen.n < 2)
        return;
    firn_itertime_default(&time);
    if (on->gpu != NULL)
        time = on->gpu->time;
    for (size_t i = 0; i < on->seen.n; i++)
        obs[i] = on->seen.at[i].obs;
    if (firn_itertime_refit(&time, obs, on->seen.n, &fit, &err) != FIRN_OK)
        return;
    on->time = time;
    on->is_known = true;
}

/* All on one type, or -1. */
static firn_type_id held_type(const struct liveprior *prior,
                              const struct firn_alloc *held)
{
    firn_type_id type = -1;
    for (int i = 0; i < held->nparts; i++) {
        firn_type_id here = prior->cluster->nodes[held->parts[i].node].type;
        if (type >= 0 && here != type)
            return -1;
        type = here;
    }
    return type;
}

static int fullest(const struct firn_alloc *held)
{
    int most = 0, here = 0;
    for (int i = 0; i < held->nparts; i++) {
        if (i > 0 && held->parts[i].node != held->parts[i - 1].node)
            here = 0;
        here += __builtin_popcountll(held->parts[i].gpus);
        most = here > most ? here : most;
    }
    return most;
}

/* How a step was run; false: in a way that is not fitted. */
static bool shape_of(const struct app *app, const struct prior_step *step,
                     struct firn_shape *out)
{
    const struct firn_alloc *held = &step->job->held;
    if (app == NULL || step->passes > 1 || held->ngpus < 1 ||
        !(step->step_s > 0) || !isfinite(step->step_s) ||
        llmjobs_is(&step->job->spec))
        return false;
    double batch = batch_of(app, step->job, &step->setting);
    *out = (struct firn_shape){.nodes = firn_alloc_nodes(held),
                               .gpus = held->ngpus,
                               .gpus_on_fullest = fullest(held),
                               .batch_per_gpu = ceil(batch / held->ngpus),
                               .accum_steps = 1,
                               .theta = 1,
                               .omega = 1};
    if (!(batch > 0) || (step->setting.nfrozen > 0 && app->profile == NULL))
        return false;
    if (step->setting.nfrozen > 0) {
        struct firn_profile_frozen left =
            firn_profile_unfrozen(app->profile, step->setting.nfrozen);
        out->theta = left.theta;
        out->omega = left.omega;
    }
    return true;
}

void liveprior_saw(struct liveprior *prior, const struct prior_step *step)
{
    firn_type_id type = held_type(prior, &step->job->held);
    struct app *app = app_of(prior, step->job->spec.app);
    struct firn_shape shape;
    if (type >= 0 && shape_of(app, step, &shape) &&
        take(&app->types[type], &shape, step->step_s))
        refit(&app->types[type]);
}

double liveprior_alone_s(struct liveprior *prior, const struct prior_step *step)
{
    firn_type_id type = held_type(prior, &step->job->held);
    const struct app *app = app_of(prior, step->job->spec.app);
    struct firn_shape shape;
    if (type < 0 || !shape_of(app, step, &shape))
        return 0;
    const struct on_type *on = &app->types[type];
    size_t i = find(on, &shape);
    return i < on->seen.n ? on->seen.at[i].obs.step_s : 0;
}
