/* forecaster_load.c - how much of a GPU a job takes up.
 *
 * Memory of a GPU, the first that is known:
 *   language model    what its shape needs (core/llmjobs.h)
 *   profile           with the batch and the layers of core/trainer.h, or
 *                     those last reported
 *   spec.mem_gib      before the profile where it is the user's own figure
 *   other jobs        the most that was measured of the application there
 * and never less than what the trainer reported of this very job. What was
 * measured of it from outside holds where nothing else is known.
 *
 * A profile says what more passes a step save. Of memory that was declared or
 * measured, FIXED is taken to be there whatever the batch (weights, optimizer),
 * and the rest to be divided by the passes; not where it is a trace's record,
 * which has no passes.
 *
 * Utilisation, the last that is known: the profile's, other jobs' of the
 * application, what was measured of this job, what its trainer reported.
 * Measurements of a job are averaged, the newest counting REPORT_RATE: a
 * driver's figure is of the last fraction of a second. They count from the
 * second on. Those of an application are averaged over its jobs, the newest
 * counting SAMPLE_RATE.
 *
 * Cost: a look into a hash table, and one evaluation of the profile. LOADS_MAX
 * applications; what comes later is not learned.
 */
#include "core/outlook.h"
#include <math.h>

#define SAMPLE_RATE 0.3
#define FIXED       0.5

enum { SAMPLES_MIN = 2, LOADS_MAX = 4096 };

static const struct firn_load unknown = {(double)NAN, (double)NAN};

/* --- observations -------------------------------------------------------- */

void forecaster_learn_load(struct forecaster *f, struct forecaster_key key,
                           const struct firn_load *load)
{
    if (!(load->mem_gib > 0) && !(load->util >= 0))
        return;
    struct outlook *o = outlook_keep(f, key);
    if (load->mem_gib > o->mem_gib)
        o->mem_gib = load->mem_gib;
    if (load->util > o->util)
        o->util = load->util;
}

/* Of all jobs of the application on that type. */
static void learn_app(struct forecaster *f, const char *app, firn_type_id type,
                      const struct firn_load *load)
{
    const int ntypes = f->priors.cluster->ntypes;
    int number = map_find(&f->load_names, app);
    if (*app == '\0' || type < 0 ||
        (number < 0 && f->load_names.n >= LOADS_MAX))
        return;
    if (number < 0) {
        number = map_add(&f->load_names, app);
        for (int t = 0; t < ntypes; t++)
            vec_add(&f->loads, unknown);
    }
    struct firn_load *to = &f->loads.at[number * ntypes + type];
    if (isnan(to->util))
        *to = *load;
    to->util += SAMPLE_RATE * (load->util - to->util);
    to->mem_gib = fmax(to->mem_gib, load->mem_gib);
}

void forecaster_learn_sample(struct forecaster *f, struct forecaster_key key,
                             const struct firn_job *job,
                             const struct firn_load *load)
{
    int counts[FIRN_TYPES_MAX];
    if (!(load->util >= 0) || !(load->mem_gib >= 0))
        return;
    struct outlook *o = outlook_of(f, key, job);
    if (o->nsampled++ == 0)
        o->sampled = *load;
    o->sampled.util += REPORT_RATE * (load->util - o->sampled.util);
    o->sampled.mem_gib = fmax(o->sampled.mem_gib, load->mem_gib);
    if (o->nsampled < SAMPLES_MIN)
        return;
    struct firn_load mean = o->sampled;
    struct firn_way held = forecaster_held(f, key, job, counts);
    if (held.counts == NULL)
        learn_app(f, job->spec.app, held.type, &mean);
}

double forecaster_memory(const struct forecaster *f, struct forecaster_key key)
{
    const struct outlook *o = outlook_find(f, key);
    return o != NULL ? o->mem_gib : 0;
}

/* --- answers ------------------------------------------------------------- */

/* What its trainer sets there: as submitted or last reported, or with the
 * layers that it has frozen now if that is asked for. */
static struct setting set_there(const struct forecaster *f,
                                const struct outlook *o,
                                const struct firn_job *job,
                                const struct firn_way *way,
                                const struct spread *there)
{
    struct trainer_ask ask = {.app = &o->app,
                              .where = there,
                              .batch = outlook_batch(o, job),
                              .passes = way->passes,
                              .frozen_max = job->spec.frozen_max,
                              .parallel = (enum firn_parallel)way->parallel,
                              .stages = way->stages,
                              .job = job->id};
    struct trainer *trainer = f->priors.trainer;
    if ((way->tunes & FIRN_TUNE_FREEZE) &&
        trainer_rule(trainer, o->app.profile, FIRN_TUNE_FREEZE) != FREEZE_OFF) {
        ask.tunes = FIRN_TUNE_FREEZE;
        return trainer_setting(trainer, &ask, o->part);
    }
    struct setting set = trainer_plain(trainer, &ask);
    if (o->setting.nfrozen > 0)
        set.frozen = o->setting.nfrozen;
    return set;
}

double outlook_samples(const struct forecaster *f, const struct outlook *o,
                       const struct firn_job *job, const struct firn_way *way)
{
    struct firn_way as = outlook_plain(f, o, way);
    if (o->app.profile == NULL || as.type < 0 ||
        as.type >= f->priors.cluster->ntypes || as.gpus <= 0)
        return 0;
    struct spread there = spread_packed(as.type, f->largest[as.type], as.gpus);
    return set_there(f, o, job, &as, &there).split.batch_per_gpu;
}

/* By the profile; NaN where it does not say. */
static struct firn_load by_profile(const struct forecaster *f,
                                   const struct outlook *o,
                                   const struct firn_job *job,
                                   const struct firn_way *way)
{
    const struct known *known = f->priors.known;
    double slower;
    struct spread there =
        spread_packed(way->type, f->largest[way->type], way->gpus);
    struct setting set = set_there(f, o, job, way, &there);
    const struct firn_profile_gpu *gpu =
        known_gpu(known, &o->app, way->type, &slower);
    double theta = firn_profile_unfrozen(o->app.profile, set.frozen).theta;
    return (struct firn_load){
        .util = firn_profile_util(gpu, set.split.batch_per_gpu, theta),
        .mem_gib =
            known_mem_mib(known, &o->app, &there, way->type, &set) / 1024};
}

/* Memory that is `gib` in one pass. */
static double in_passes(const struct forecaster *f, double gib, int passes)
{
    return passes > 1 && !f->priors.is_recorded
               ? gib * (FIXED + (1 - FIXED) / passes)
               : gib;
}

/* Before anything was seen of the job itself. */
static struct firn_load prior_of(const struct forecaster *f,
                                 const struct outlook *o,
                                 const struct firn_job *job,
                                 const struct firn_way *way)
{
    struct firn_load load = unknown;
    if (job->spec.mem_gib > 0)
        load.mem_gib = in_passes(f, job->spec.mem_gib, way->passes);
    bool is_said = load.mem_gib > 0 && !f->priors.is_recorded;
    if (o->is_llm) {
        double need_gib = load.mem_gib;
        struct llmspot spot =
            llmjobs_packed(f->priors.cluster, way->type, way->gpus, way->nodes);
        struct llmhow how = {.tensor = way->tensor,
                             .parallel = way->parallel,
                             .passes = way->passes};
        llmjobs_expect(&o->llm, &spot, how, &need_gib);
        load.mem_gib = is_said ? load.mem_gib : need_gib;
    }
    if (o->app.profile != NULL) {
        struct firn_load at = by_profile(f, o, job, way);
        load.util = at.util;
        if (!is_said && !isnan(at.mem_gib))
            load.mem_gib = at.mem_gib;
    }
    int number = map_find(&f->load_names, job->spec.app);
    if (number >= 0) {
        const struct firn_load *seen =
            &f->loads.at[number * f->priors.cluster->ntypes + way->type];
        load.util = isnan(load.util) ? seen->util : load.util;
        if (isnan(load.mem_gib))
            load.mem_gib = in_passes(f, seen->mem_gib, way->passes);
    }
    return load;
}

struct firn_load forecaster_load(struct forecaster *f,
                                 struct forecaster_key key,
                                 const struct firn_job *job,
                                 const struct firn_way *way, double done_s)
{
    struct outlook *o = outlook_of(f, key, job);
    struct firn_way as = outlook_plain(f, o, way);
    struct firn_load load = {
        .util = (double)NAN,
        .mem_gib = job->spec.mem_gib > 0 ? job->spec.mem_gib : (double)NAN,
    };
    if (as.type >= 0 && as.type < f->priors.cluster->ntypes && as.gpus > 0) {
        outlook_move(o, job, done_s);
        load = prior_of(f, o, job, &as);
    }
    bool is_sampled = o->nsampled >= SAMPLES_MIN;
    double reported = in_passes(f, o->mem_gib, way->passes);
    if (reported > 0 && !(load.mem_gib > reported))
        load.mem_gib = reported;
    if (is_sampled && isnan(load.mem_gib))
        load.mem_gib = in_passes(f, o->sampled.mem_gib, way->passes);
    if (is_sampled)
        load.util = o->sampled.util;
    if (o->util > 0)
        load.util = o->util;
    return load;
}
