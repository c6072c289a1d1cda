/* liveforecast.c - what the live scheduler hands to the forecaster.
 *
 * Priors: the shipped profiles; twice the GPUs do 0.9 of twice the work where
 * no step times are known; a job on shared GPUs takes BESIDE times as long
 * where no pair was seen. Durations are users' estimates or guesses
 * (livehistory.c). Observations: trainers' reports, with their step times and
 * settings, and what the engine measures of GPUs.
 *
 * A job's slot in the forecaster is found by its id in the book. A job that is
 * not in the book (a plan's) has a slot that nothing is remembered in. A job
 * that is put into the round with another spec is laid out anew; what it
 * reported holds.
 *
 * Invariant: slot 0 is the one that nothing is remembered in; the slots of two
 * jobs that live at one time differ.
 * Cost: that of core/forecaster.c, and eight comparisons.
 */
#include "daemon/liveforecast.h"
#include "base/fmath.h"
#include "base/log.h"
#include "base/vec.h"
#include <string.h>

#define BESIDE   1.5
#define DOUBLING 1.8 /* work of twice the GPUs: 2 x 0.9 */

/* What of a job forecasts are laid out by. */
struct place {
    int gpus, batch, seq, threads;
    uint32_t types;
    double frozen_max, mem_ratio;
    unsigned cannot;
    struct firn_training training;
    char *app;
};

struct liveforecast {
    struct known known;
    struct trainer *trainer;
    struct forecaster *forecaster;
    VEC(int) slots; /* by id from first_id on; 0: none yet */
    firn_job_id first_id;
    VEC(struct place) places; /* by slot */
    VEC(int) unused;          /* slots */
    int nslots;
    firn_job_id scratch; /* the last id that was used in slot 0 */
    int counts[FIRN_TYPES_MAX];
};

struct liveforecast *liveforecast_new(const struct firn_cluster *cluster)
{
    struct liveforecast *f = mem_new(1, sizeof *f);
    struct firn_error err = {0};
    if (known_open(&f->known, "builtin", cluster, &err) != FIRN_OK) {
        log_warn("no profiles: %s", err.text);
        f->known = (struct known){.format = "", .cluster = cluster};
    }
    f->trainer = trainer_new(&f->known, FREEZE_POLICY);
    struct forecaster_priors priors = {
        .cluster = cluster,
        .known = &f->known,
        .trainer = f->trainer,
        .scaling = fm_log(DOUBLING) / fm_log(2),
        .share_slowdown = BESIDE,
    };
    f->forecaster = forecaster_new(&priors);
    f->nslots = 1;
    f->scratch = FIRN_NO_JOB;
    return f;
}

void liveforecast_first(struct liveforecast *f, firn_job_id id)
{
    f->first_id = id;
}

void liveforecast_free(struct liveforecast *f)
{
    if (f == NULL)
        return;
    for (size_t i = 0; i < f->places.n; i++)
        mem_free(f->places.at[i].app);
    vec_release(&f->places);
    vec_release(&f->slots);
    vec_release(&f->unused);
    forecaster_free(f->forecaster);
    trainer_free(f->trainer);
    known_close(&f->known);
    mem_free(f);
}

/* --- which job ----------------------------------------------------------- */

/* The slot of a job; NULL: the job is not in the book. */
static int *slot_of(struct liveforecast *f, firn_job_id id)
{
    if (id < f->first_id || id < 0)
        return NULL;
    size_t i = (size_t)(id - f->first_id);
    vec_reserve(&f->slots, i + 1);
    if (f->slots.n <= i)
        f->slots.n = i + 1;
    return &f->slots.at[i];
}

static struct forecaster_key key_of(struct liveforecast *f, firn_job_id id)
{
    int *slot = slot_of(f, id);
    if (slot != NULL && *slot == 0) {
        *slot = f->unused.n > 0 ? f->unused.at[--f->unused.n] : f->nslots++;
        vec_reserve(&f->places, (size_t)*slot + 1);
        if (f->places.n <= (size_t)*slot)
            f->places.n = (size_t)*slot + 1;
    }
    if (slot != NULL)
        return (struct forecaster_key){*slot, id};
    f->scratch = f->scratch > -1000000000 ? f->scratch - 1 : -2;
    return (struct forecaster_key){0, f->scratch};
}

/* The same, and the forecaster has the job's spec as it is now. */
static struct forecaster_key key_as(struct liveforecast *f, firn_job_id id,
                                    const struct firn_job *job)
{
    const struct firn_job_spec *spec = &job->spec;
    struct forecaster_key key = key_of(f, id);
    struct place *place = key.slot > 0 ? &f->places.at[key.slot] : NULL;
    if (place == NULL ||
        (place->gpus == spec->gpus && place->batch == spec->batch &&
         place->seq == spec->seq && place->threads == spec->threads &&
         place->types == job->type_mask &&
         place->frozen_max == spec->frozen_max &&
         place->mem_ratio == spec->mem_ratio && place->cannot == spec->cannot &&
         memcmp(&place->training, &spec->training, sizeof place->training) ==
             0 &&
         place->app != NULL && strcmp(place->app, spec->app) == 0))
        return key;
    mem_free(place->app);
    *place = (struct place){
        .gpus = spec->gpus,
        .batch = spec->batch,
        .seq = spec->seq,
        .threads = spec->threads,
        .types = job->type_mask,
        .frozen_max = spec->frozen_max,
        .mem_ratio = spec->mem_ratio,
        .cannot = spec->cannot,
        .training = spec->training,
        .app = mem_strdup(spec->app),
    };
    forecaster_respec(f->forecaster, key);
    return key;
}

static struct forecaster_job with_key(struct liveforecast *f,
                                      struct liveforecast_job job)
{
    return (struct forecaster_job){key_as(f, job.id, job.job), job.job};
}

void liveforecast_forget(struct liveforecast *f, firn_job_id id)
{
    int *slot = slot_of(f, id);
    if (slot == NULL || *slot == 0)
        return;
    forecaster_forget(f->forecaster, (struct forecaster_key){*slot, id});
    vec_add(&f->unused, *slot);
    mem_free(f->places.at[*slot].app);
    f->places.at[*slot] = (struct place){0};
    *slot = 0;
}

/* --- observations -------------------------------------------------------- */

void liveforecast_saw(struct liveforecast *f, firn_job_id id,
                      const struct liveforecast_run *run)
{
    if (id < 0 || run->sharers > 1)
        return;
    struct forecaster_report report = {.job = run->job,
                                       .rate = run->rate,
                                       .done_s = run->job->done_s,
                                       .is_alone = run->sharers == 0,
                                       .beside = run->beside,
                                       .step_s = run->step_s,
                                       .batch = run->batch,
                                       .passes = run->passes,
                                       .nfrozen = run->nfrozen,
                                       .variance = run->variance,
                                       .nlayers = run->nlayers};
    forecaster_learn(f->forecaster, key_as(f, id, run->job), &report);
}

void liveforecast_load_seen(struct liveforecast *f, firn_job_id id,
                            double memory_mib, double utilisation)
{
    struct firn_load load = {.util = utilisation, .mem_gib = memory_mib / 1024};
    forecaster_learn_load(f->forecaster, key_of(f, id), &load);
}

void liveforecast_sampled(struct liveforecast *f, firn_job_id id,
                          const struct firn_job *job,
                          const struct firn_load *load)
{
    forecaster_learn_sample(f->forecaster, key_as(f, id, job), job, load);
}

void liveforecast_part(struct liveforecast *f, struct liveforecast_job a,
                       struct liveforecast_job b)
{
    forecaster_part(f->forecaster, with_key(f, a), with_key(f, b));
}

void liveforecast_save(const struct liveforecast *f, struct firn_buf *out)
{
    forecaster_save_pairs(f->forecaster, out);
}

void liveforecast_load_pairs(struct liveforecast *f, const char *text)
{
    forecaster_load_pairs(f->forecaster, text);
}

void liveforecast_save_slowdowns(const struct liveforecast *f,
                                 struct firn_buf *out)
{
    forecaster_save_slowdowns(f->forecaster, out);
}

void liveforecast_load_slowdowns(struct liveforecast *f, const char *text)
{
    forecaster_load_slowdowns(f->forecaster, text);
}

void liveforecast_save_steps(const struct liveforecast *f, struct firn_buf *out)
{
    forecaster_save_steps(f->forecaster, out);
}

void liveforecast_load_steps(struct liveforecast *f, const char *text)
{
    forecaster_load_steps(f->forecaster, text);
}

void liveforecast_each_pair(const struct liveforecast *f, forecaster_pair *pair,
                            void *arg)
{
    forecaster_each_pair(f->forecaster, pair, arg);
}

/* --- answers ------------------------------------------------------------- */

double liveforecast_memory(struct liveforecast *f, firn_job_id id)
{
    return forecaster_memory(f->forecaster, key_of(f, id));
}

bool liveforecast_is_seen(struct liveforecast *f, firn_job_id id)
{
    return forecaster_is_seen(f->forecaster, key_of(f, id));
}

double liveforecast_rate(struct liveforecast *f, firn_job_id id,
                         const struct firn_job *job, const struct firn_way *way)
{
    return forecaster_rate(f->forecaster, key_as(f, id, job), job, way,
                           job->done_s);
}

int liveforecast_gpus_max(struct liveforecast *f, firn_job_id id,
                          const struct firn_job *job, unsigned tunes)
{
    return forecaster_gpus_max(f->forecaster, key_as(f, id, job), job, tunes);
}

double liveforecast_slowdown(struct liveforecast *f,
                             struct liveforecast_job job,
                             struct liveforecast_job other)
{
    return forecaster_slowdown(f->forecaster, with_key(f, job),
                               with_key(f, other));
}

bool liveforecast_slowdown_is_guess(struct liveforecast *f,
                                    struct liveforecast_job job,
                                    struct liveforecast_job other)
{
    return forecaster_slowdown_is_guess(f->forecaster, with_key(f, job),
                                        with_key(f, other));
}

double liveforecast_slowdown_in(struct liveforecast *f,
                                struct liveforecast_job job,
                                const struct firn_way *way,
                                struct liveforecast_job other,
                                const struct firn_way *other_way)
{
    return forecaster_slowdown_in(f->forecaster, with_key(f, job), way,
                                  with_key(f, other), other_way);
}

double liveforecast_slowdown_now(struct liveforecast *f,
                                 struct liveforecast_job job,
                                 struct liveforecast_job other)
{
    struct firn_way way = liveforecast_held(f, job.id, job.job);
    way.counts = NULL; /* the next answer overwrites them */
    struct firn_way theirs = liveforecast_held(f, other.id, other.job);
    double xi = liveforecast_slowdown_in(f, job, &way, other, &theirs);
    return xi > 0 ? xi : liveforecast_slowdown(f, job, other);
}

struct firn_load liveforecast_load(struct liveforecast *f, firn_job_id id,
                                   const struct firn_job *job,
                                   const struct firn_way *way)
{
    struct firn_way whole = {.gpus = job->spec.gpus, .type = FIRN_ANY_TYPE};
    if (way != NULL)
        whole = *way;
    return forecaster_load(f->forecaster, key_as(f, id, job), job, &whole,
                           job->done_s);
}

size_t liveforecast_llm_ways(struct liveforecast *f, firn_job_id id,
                             const struct firn_job *job,
                             struct firn_llm_way *out, size_t max)
{
    return forecaster_llm_ways(f->forecaster, key_as(f, id, job), job, out,
                               max);
}

bool liveforecast_setting(struct liveforecast *f, firn_job_id id,
                          const struct firn_job *job,
                          const struct firn_way *way, struct firn_setting *out)
{
    return forecaster_setting(f->forecaster, key_as(f, id, job), job, way,
                              job->done_s, out);
}

struct firn_way liveforecast_held(struct liveforecast *f, firn_job_id id,
                                  const struct firn_job *job)
{
    return forecaster_held(f->forecaster, key_as(f, id, job), job, f->counts);
}

const struct firn_profile *liveforecast_profile(const struct liveforecast *f,
                                                const struct firn_job *job)
{
    return known_find(&f->known, job->spec.app, job->type_mask).profile;
}

int liveforecast_executors(struct liveforecast *f, firn_job_id id,
                           const struct firn_job *job, firn_type_id type,
                           struct firn_executor_ways *out)
{
    return forecaster_executors(f->forecaster, key_as(f, id, job), job, type,
                                out);
}

bool liveforecast_lay_out(struct liveforecast *f, firn_job_id id,
                          const struct firn_job *job,
                          struct firn_waste_type *types)
{
    struct firn_way way = liveforecast_held(f, id, job);
    if ((way.tunes & FIRN_TUNE_EXECUTORS) == 0)
        return false;
    return forecaster_lay_out(f->forecaster, key_as(f, id, job), job, &way,
                              types);
}
