/* forecaster_fit.c - how fast a job would go some way, by the fit alone.
 *
 *   language model    its shape's rate (core/llmjobs.h)
 *   measured plans    the rate of the plan (core/planjobs.h)
 *   elastic threads   core/threads.h
 *   step times known  (psi gain(B') / T) / (gain(B'ref) / Tref): by a profile,
 *                     or by what jobs of the application reported
 *   else              (n / gpus)^scaling, and the speed of the type
 *
 * T is the iteration of core/known.h on what the way names, with what the
 * trainer sets there (core/trainer.h): the batch and the layers that it tunes,
 * or those that it last reported, or as submitted. Layers are tuned by the
 * variances that the job itself has reported, once there are some; before that
 * by the profile's. The reference is the job as submitted, packed on the GPUs
 * it asked for: its rate is 1 by definition. The part of training is the one
 * that the job is in.
 *
 * Corrections do not come in here. Cost: one evaluation of the law; the
 * trainer's search when it tunes.
 */
#include "base/fmath.h"
#include "core/outlook.h"
#include "core/threads.h"
#include <math.h>

#define PSI_MIN 0.01 /* as of core/trainer.c: every job ends */

/* --- one job ------------------------------------------------------------- */

/* Without a profile: the type that durations refer to, if the job may use it.
 */
static firn_type_id type_of(const struct forecaster *f,
                            const struct firn_job *job)
{
    const struct firn_cluster *c = f->priors.cluster;
    firn_type_id first = -1;
    for (int i = 0; i < c->ntypes; i++) {
        if (!(job->type_mask >> i & 1))
            continue;
        if (c->types[i].speed == 1)
            return i;
        first = first < 0 ? i : first;
    }
    return first;
}

double outlook_batch(const struct outlook *o, const struct firn_job *job)
{
    return o->setting.batch > 0 ? o->setting.batch : job->spec.batch;
}

static void lay_out_parts(const struct forecaster *f, struct outlook *o,
                          const struct firn_job *job)
{
    const struct known *known = f->priors.known;
    const struct firn_profile *p = o->app.profile;
    struct spread there =
        spread_packed(o->app.ref, f->largest[o->app.ref], job->spec.gpus);
    struct setting asked =
        known_setting(known, &o->app, &there,
                      job->spec.batch > 0 ? job->spec.batch : o->setting.batch);
    o->type = o->app.ref;
    o->ref = (struct running){known_fit_s(known, &o->app, &there, &asked),
                              asked.split.total, 1};
    o->parts = known_parts(p, known_can_freeze(p, false));
    o->ends = mem_new(o->parts.n, sizeof *o->ends);
    double scale = known_scale(p, &o->ref, job->spec.duration_s);
    double end_s = 0;
    for (size_t k = 0; k < o->parts.n; k++) {
        end_s += known_part_s(p, o->parts, k, &o->ref, scale);
        o->ends[k] = end_s;
    }
    o->ends[o->parts.n - 1] = INFINITY;
    o->until_s = o->ends[0];
}

/* Measured plans that forecasts go by; NULL: none. */
static const struct plantable *plans_of(const struct forecaster *f)
{
    return f->priors.known != NULL ? f->priors.known->plans : NULL;
}

void outlook_lay_out(struct forecaster *f, struct outlook *o,
                     const struct firn_job *job)
{
    mem_free(o->ends);
    o->ends = NULL;
    o->app = (struct known_app){0};
    o->pair_app = -1;
    o->parts = (struct parts){1, 1};
    o->part = 0;
    o->from_s = 0;
    o->until_s = INFINITY;
    o->is_llm = llmjobs_is(&job->spec);
    o->plan = planjobs_open(f->priors.cluster, &job->spec, job->type_mask,
                            plans_of(f));
    if (o->plan.model != NULL) {
        o->type = o->plan.ref;
        return;
    }
    if (o->is_llm)
        o->llm = llmjobs_open(f->priors.cluster, &job->spec, job->type_mask);
    else if (f->priors.known != NULL && job->spec.gpus > 0) {
        o->app = known_find(f->priors.known, job->spec.app, job->type_mask);
        if (o->app.profile != NULL)
            o->pair_app = (int)o->app.which;
        struct known_app learned = law_find(f, job, outlook_batch(o, job));
        if (learned.profile != NULL)
            o->app = learned;
    }
    if (o->app.profile != NULL)
        lay_out_parts(f, o, job);
    else
        o->type = type_of(f, job);
}

/* --- one way ------------------------------------------------------------- */

/* For the callback of firn_tuner_best(). */
struct layers_ask {
    const struct forecaster *f;
    const struct outlook *o;
    const struct spread *where;
    struct setting setting;
};

/* The number of layers of the profile that corresponds to `nfrozen` layers as
 * the trainer counts them. */
static double profiled(const struct outlook *o, size_t nfrozen)
{
    return (double)nfrozen * o->app.profile->layers / (double)o->freeze.nlayers;
}

static double samples_s(const void *context, int batch, size_t nfrozen)
{
    const struct layers_ask *a = context;
    struct setting setting = a->setting;
    (void)batch; /* one candidate: the one that is set */
    setting.frozen = profiled(a->o, nfrozen);
    double step_s =
        known_fit_s(a->f->priors.known, &a->o->app, a->where, &setting);
    return step_s > 0 ? setting.split.total / step_s : 0;
}

/* IceFrog's (15) on what the job itself reported: the layers with the most
 * effective progress there, by its own variances. */
static void tune_layers(const struct forecaster *f, const struct outlook *o,
                        const struct firn_job *job, const struct spread *where,
                        struct setting *setting)
{
    struct layers_ask context = {f, o, where, *setting};
    struct firn_tuner tuner = firn_tuner_default();
    struct firn_tuning best = {.psi = 1};
    int batch = 1;
    struct firn_tuner_ask ask = {.freeze = &o->freeze,
                                 .batches = &batch,
                                 .nbatches = 1,
                                 .rate = samples_s,
                                 .context = &context,
                                 .progress = 1};
    tuner.layer_step = 1 + o->freeze.nlayers / 32;
    if (job->spec.frozen_max > 0)
        tuner.max_share = fmin(tuner.max_share, job->spec.frozen_max);
    firn_tuner_best(&tuner, &ask, &best);
    setting->frozen = profiled(o, best.nfrozen);
    setting->psi = fmax(best.psi, PSI_MIN);
}

struct setting outlook_setting(const struct forecaster *f,
                               const struct outlook *o,
                               const struct firn_job *job,
                               const struct spread *where,
                               const struct firn_way *way)
{
    unsigned tunes = way->tunes;
    bool is_measured = o->freeze.nlayers > 1 && (tunes & FIRN_TUNE_FREEZE) &&
                       o->app.profile->layers >= 2;
    if (is_measured)
        tunes &= ~(unsigned)FIRN_TUNE_FREEZE;
    struct trainer_ask ask = {.app = &o->app,
                              .where = where,
                              .batch = outlook_batch(o, job),
                              .tunes = tunes,
                              .passes = way->passes,
                              .frozen_max = job->spec.frozen_max,
                              .parallel = (enum firn_parallel)way->parallel,
                              .stages = way->stages,
                              .job = job->id};
    size_t stage = o->part / o->parts.pieces;
    bool is_cut =
        trainer_rule(f->priors.trainer, o->app.profile, tunes) != FREEZE_OFF;
    struct setting setting =
        trainer_setting(f->priors.trainer, &ask, is_cut ? o->part : stage);
    if (is_measured)
        tune_layers(f, o, job, where, &setting);
    else if (!is_cut && o->setting.nfrozen > 0)
        setting.frozen = o->setting.nfrozen; /* by its own account */
    return setting;
}

static double by_profile(const struct forecaster *f, const struct outlook *o,
                         const struct firn_job *job, const struct spread *where,
                         const struct firn_way *way)
{
    const struct known *known = f->priors.known;
    struct setting setting = outlook_setting(f, o, job, where, way);
    if (!known_fits(known, &o->app, where, &setting))
        return 0;
    struct running now = {known_fit_s(known, &o->app, where, &setting),
                          setting.split.total, setting.psi};
    return running_rate(o->app.profile, o->part / o->parts.pieces, &o->ref,
                        &now) *
           (setting.belief > 0 ? setting.belief : 1);
}

/* Elastic threads as a way has them, and what their trainer sets. */
struct threads_run {
    struct threads threads;
    struct setting setting;
    struct spread where;
    int counts[FIRN_TYPES_MAX];
    size_t stage;
};

/* `out->counts` and `out->where`; false when it cannot be run so. */
static bool find_gpus(const struct forecaster *f, const struct firn_job *job,
                      const struct firn_way *way, struct threads_run *out)
{
    const struct firn_cluster *c = f->priors.cluster;
    if (!threads_ask(c, job, way, out->counts))
        return false;
    out->where = threads_spread(c, f->largest, out->counts, way->nodes);
    return out->where.nodes > 0;
}

/* The rest of `out`, by the profile of the job. */
static void set_up(const struct forecaster *f, const struct outlook *o,
                   const struct firn_job *job, const struct firn_way *way,
                   struct threads_run *out)
{
    unsigned tunes =
        way->tunes & ~(unsigned)(FIRN_TUNE_THREADS | FIRN_TUNE_EXECUTORS);
    struct trainer_ask ask = {.app = &o->app,
                              .where = &out->where,
                              .batch = outlook_batch(o, job),
                              .tunes = tunes,
                              .frozen_max = job->spec.frozen_max,
                              .job = job->id};
    out->stage = o->part / o->parts.pieces;
    bool is_cut =
        trainer_rule(f->priors.trainer, o->app.profile, tunes) != FREEZE_OFF;
    out->setting =
        trainer_setting(f->priors.trainer, &ask, is_cut ? o->part : out->stage);
    if (!is_cut && o->setting.nfrozen > 0)
        out->setting.frozen = o->setting.nfrozen; /* by its own account */
    out->threads = (struct threads){.known = f->priors.known,
                                    .app = &o->app,
                                    .where = &out->where,
                                    .counts = out->counts,
                                    .number = threads_number(&job->spec),
                                    .batch = o->ref.batch,
                                    .has_executors =
                                        (way->tunes & FIRN_TUNE_EXECUTORS) != 0,
                                    .iteration_s = known_fit_s};
}

/* The same of a way with elastic threads. */
static double fit_threads(const struct forecaster *f, const struct outlook *o,
                          const struct firn_job *job,
                          const struct firn_way *way)
{
    struct threads_run run;
    if (!find_gpus(f, job, way, &run))
        return 0;
    if (o->app.profile == NULL)
        return threads_rate(f->priors.cluster, f->priors.scaling, &job->spec,
                            run.counts);
    set_up(f, o, job, way, &run);
    if (!threads_fit(&run.threads, &run.setting))
        return 0;
    struct running now = {threads_iteration_s(&run.threads, &run.setting),
                          o->ref.batch, run.setting.psi};
    return running_rate(o->app.profile, run.stage, &o->ref, &now) *
           (run.setting.belief > 0 ? run.setting.belief : 1);
}

bool outlook_threads(const struct forecaster *f, const struct outlook *o,
                     const struct firn_job *job, const struct firn_way *way,
                     struct firn_waste_type *types)
{
    struct threads_run run;
    if (o->is_llm || o->app.profile == NULL || !find_gpus(f, job, way, &run))
        return false;
    set_up(f, o, job, way, &run);
    threads_lay_out(&run.threads, &run.setting, types);
    return true;
}

double outlook_fit(const struct forecaster *f, const struct outlook *o,
                   const struct firn_job *job, const struct firn_way *way)
{
    const struct firn_cluster *c = f->priors.cluster;
    firn_type_id type = way->type;
    bool is_planned = o->plan.model != NULL;
    if ((way->tunes & FIRN_TUNE_THREADS) && !o->is_llm && !is_planned)
        return fit_threads(f, o, job, way);
    if (type < 0 || type >= c->ntypes || !(job->type_mask >> type & 1) ||
        way->gpus < 1 || way->nodes < 0)
        return 0;
    struct spread where =
        spread_over(type, f->largest[type], way->gpus, way->nodes);
    if (where.nodes == 0)
        return 0;
    if (is_planned) {
        struct firn_layout how = {way->parallel, way->tensor, way->stages};
        return planjobs_expect(&o->plan, c, &where, &how, plans_of(f));
    }
    if (o->is_llm) {
        struct llmspot spot = llmjobs_packed(c, type, way->gpus, way->nodes);
        struct llmhow how = {.tensor = way->tensor,
                             .parallel = way->parallel,
                             .passes = way->passes};
        return llmjobs_expect(&o->llm, &spot, how, NULL);
    }
    if (o->app.profile != NULL)
        return by_profile(f, o, job, &where, way);
    double times = (double)way->gpus / job->spec.gpus;
    double speed = c->types[type].speed;
    if (!f->priors.is_recorded)
        speed /= c->types[o->type].speed;
    return speed * (times == 1 ? 1 : fm_pow(times, f->priors.scaling));
}

/* Counts that name one type become that type; with several, `type` is none. */
static void settle_counts(const struct forecaster *f, struct firn_way *way)
{
    int ntypes = 0;
    if (way->counts == NULL || !(way->tunes & FIRN_TUNE_THREADS))
        return;
    struct firn_way one = *way;
    one.counts = NULL;
    for (int t = 0; t < f->priors.cluster->ntypes; t++) {
        ntypes += way->counts[t] != 0;
        one.type = way->counts[t] != 0 ? t : one.type;
    }
    if (ntypes == 1 && way->counts[one.type] == way->gpus)
        *way = one;
    else
        way->type = FIRN_TYPES_MAX;
    if (way->counts != NULL && way->nodes == 0)
        way->nodes =
            threads_spread(f->priors.cluster, f->largest, way->counts, 0).nodes;
}

struct firn_way outlook_plain(const struct forecaster *f,
                              const struct outlook *o,
                              const struct firn_way *way)
{
    struct firn_way out = *way;
    settle_counts(f, &out);
    if (out.type == FIRN_ANY_TYPE)
        out.type = o->type;
    if (out.nodes == 0 && out.type >= 0 && out.type < FIRN_TYPES_MAX) {
        int most = f->largest[out.type];
        out.nodes = out.gpus <= most ? 1 : (out.gpus + most - 1) / most;
    }
    return out;
}
