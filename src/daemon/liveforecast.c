/* liveforecast.c - a plain prior, corrected by what jobs report.
 *
 *     forecast(way) = prior(way) x correction(way)
 *
 * The prior knows nothing of the job: twice the GPUs do 0.9 of twice the work,
 * GPUs of several types count by their speed, and on the GPUs it asked for, of
 * the reference type, a job goes at rate 1 by definition. A way that the job
 * was run in alone has reported rate / prior of its last report there as its
 * correction; every other way the geometric mean of these, 1 before the first.
 * (As the simulator does, sim/simforecast.c, for the same reason: the last one
 * alone would make policies chase the prior's error from place to place.)
 *
 * So at what a job holds the forecast is what it reports; a job that shares and
 * goes slower than its forecast alone says is seen by the policies, which undo
 * it; a resize that brought less than expected corrects what they expect of the
 * next.
 *
 * A language model (core/llmjobs.h) has its shape's speeds and memory as prior.
 *
 * Slowdowns beside another: by pair of applications, the mean of what was seen
 * and of one imagined observation of BESIDE. Apps without a name are of one
 * kind.
 *
 * Invariant: answers depend on what was seen, not on who asked what before.
 * Cost: O(ways tried) for an answer; a handful.
 */
#include "daemon/liveforecast.h"
#include "base/fmath.h"
#include "base/map.h"
#include "base/vec.h"
#include "core/llmjobs.h"
#include <math.h>
#include <string.h>

#define BESIDE   1.5
#define DOUBLING 1.8 /* work of twice the GPUs: 2 x 0.9 */

/* The job was run so; `ratio` is reported over prior. */
struct run_way {
    int gpus;
    firn_type_id type; /* the slowest it held */
    double ratio;
};

struct seen {
    VEC(struct run_way) ways;
    double correction; /* 0: nothing was seen */
    double mem_gib, util;
};

struct pair {
    double sum, n;
};

struct liveforecast {
    const struct firn_cluster *cluster;
    VEC(struct seen *) jobs; /* by id */
    struct map apps;
    VEC(struct pair) pairs; /* app x PAIR_APPS + other */
};

enum { PAIR_APPS = 256 };

struct liveforecast *liveforecast_new(const struct firn_cluster *cluster)
{
    struct liveforecast *f = mem_new(1, sizeof *f);
    f->cluster = cluster;
    return f;
}

void liveforecast_free(struct liveforecast *f)
{
    if (f == NULL)
        return;
    for (size_t i = 0; i < f->jobs.n; i++)
        liveforecast_forget(f, (firn_job_id)i);
    vec_release(&f->jobs);
    vec_release(&f->pairs);
    map_release(&f->apps);
    mem_free(f);
}

static struct seen *find(const struct liveforecast *f, firn_job_id id)
{
    return id >= 0 && (size_t)id < f->jobs.n ? f->jobs.at[id] : NULL;
}

static struct seen *find_or_make(struct liveforecast *f, firn_job_id id)
{
    struct seen *seen = find(f, id);
    if (seen != NULL || id < 0)
        return seen;
    vec_reserve(&f->jobs, (size_t)id + 1);
    if (f->jobs.n <= (size_t)id)
        f->jobs.n = (size_t)id + 1;
    return f->jobs.at[id] = mem_new(1, sizeof *seen);
}

void liveforecast_forget(struct liveforecast *f, firn_job_id id)
{
    struct seen *seen = find(f, id);
    if (seen == NULL)
        return;
    vec_release(&seen->ways);
    mem_free(seen);
    f->jobs.at[id] = NULL;
}

/* --- rates --------------------------------------------------------------- */

static double scaled(double gpus)
{
    return fm_pow(gpus, fm_log(DOUBLING) / fm_log(2));
}

static firn_type_id type_of(const struct liveforecast *f,
                            const struct firn_job *job, firn_type_id type)
{
    if (type >= 0 && type < f->cluster->ntypes)
        return type;
    for (int t = 0; t < f->cluster->ntypes; t++)
        if ((job->type_mask >> t & 1) && f->cluster->types[t].speed == 1)
            return t;
    for (int t = 0; t < f->cluster->ntypes; t++)
        if (job->type_mask >> t & 1)
            return t;
    return 0;
}

/* A language model's speed follows from its shape. */
static double model_prior(const struct liveforecast *f,
                          const struct firn_job *job,
                          const struct firn_way *way)
{
    struct llmjob llm = llmjobs_open(f->cluster, &job->spec, job->type_mask);
    struct llmspot spot = llmjobs_packed(f->cluster, type_of(f, job, way->type),
                                         way->gpus, way->nodes);
    return llmjobs_expect(&llm, &spot, way->tensor, NULL);
}

/* Without anything seen; 0 when it cannot be. */
static double prior(const struct liveforecast *f, const struct firn_job *job,
                    const struct firn_way *way)
{
    double power = 0;
    if (way->gpus < 1 || job->spec.gpus < 1)
        return 0;
    if (llmjobs_is(&job->spec))
        return model_prior(f, job, way);
    if (way->counts != NULL)
        for (int t = 0; t < f->cluster->ntypes; t++)
            power += way->counts[t] * f->cluster->types[t].speed;
    else
        power = way->gpus * f->cluster->types[type_of(f, job, way->type)].speed;
    return power > 0 ? scaled(power) / scaled(job->spec.gpus) : 0;
}

double liveforecast_rate(const struct liveforecast *f, firn_job_id id,
                         const struct firn_job *job, const struct firn_way *way)
{
    const struct seen *seen = find(f, id);
    double rate = prior(f, job, way);
    if (seen == NULL || seen->correction <= 0)
        return rate;
    firn_type_id type = type_of(f, job, way->type);
    for (size_t i = 0; way->counts == NULL && i < seen->ways.n; i++)
        if (seen->ways.at[i].gpus == way->gpus && seen->ways.at[i].type == type)
            return rate * seen->ways.at[i].ratio;
    return rate * seen->correction;
}

/* The slowest type among what it holds. */
static firn_type_id slowest(const struct liveforecast *f,
                            const struct firn_alloc *held)
{
    firn_type_id worst = -1;
    for (int i = 0; i < held->nparts; i++) {
        firn_type_id type = f->cluster->nodes[held->parts[i].node].type;
        if (worst < 0 ||
            f->cluster->types[type].speed < f->cluster->types[worst].speed)
            worst = type;
    }
    return worst;
}

static void correct(struct seen *seen, const struct run_way *way)
{
    double sum = 0;
    size_t i = 0;
    while (i < seen->ways.n && (seen->ways.at[i].gpus != way->gpus ||
                                seen->ways.at[i].type != way->type))
        i++;
    if (i == seen->ways.n)
        vec_add(&seen->ways, *way);
    seen->ways.at[i] = *way;
    for (i = 0; i < seen->ways.n; i++)
        sum += fm_log(seen->ways.at[i].ratio);
    seen->correction = fm_exp(sum / (double)seen->ways.n);
}

static struct pair *pair_of(struct liveforecast *f, const char *a,
                            const char *b)
{
    int i = map_add(&f->apps, a), k = map_add(&f->apps, b);
    if (i >= PAIR_APPS || k >= PAIR_APPS)
        return NULL;
    vec_reserve(&f->pairs, (size_t)PAIR_APPS * PAIR_APPS);
    return &f->pairs.at[i * PAIR_APPS + k];
}

void liveforecast_saw(struct liveforecast *f, firn_job_id id,
                      const struct liveforecast_run *run)
{
    const struct firn_job *job = run->job;
    struct firn_way way = {.gpus = job->held.ngpus,
                           .type = slowest(f, &job->held)};
    double alone = prior(f, job, &way);
    if (job->held.nparts == 0 || !(run->rate > 0) || !(alone > 0))
        return;
    if (run->sharers == 0) {
        correct(find_or_make(f, id),
                &(struct run_way){way.gpus, way.type, run->rate / alone});
        return;
    }
    const struct seen *seen = find(f, id);
    if (run->sharers > 1 || seen == NULL || seen->correction <= 0)
        return; /* how it goes alone is not known */
    double slower = liveforecast_rate(f, id, job, &way) / run->rate;
    struct pair *pair = pair_of(f, job->spec.app, run->beside);
    if (pair != NULL) {
        pair->sum += slower > 1 ? slower : 1;
        pair->n++;
    }
}

/* --- the rest ------------------------------------------------------------ */

double liveforecast_slowdown(const struct liveforecast *f,
                             const struct firn_job *job,
                             const struct firn_job *other)
{
    int i = map_find(&f->apps, job->spec.app);
    int k = map_find(&f->apps, other->spec.app);
    if (i < 0 || k < 0 || i >= PAIR_APPS || k >= PAIR_APPS || f->pairs.cap == 0)
        return BESIDE;
    const struct pair *pair = &f->pairs.at[i * PAIR_APPS + k];
    return (BESIDE + pair->sum) / (1 + pair->n);
}

int liveforecast_gpus_max(const struct liveforecast *f,
                          const struct firn_job *job, unsigned tunes)
{
    (void)f;
    int threads =
        job->spec.threads > 0 ? job->spec.threads : job->spec.gpus_max;
    int most = job->spec.gpus_max;
    if ((tunes & FIRN_TUNE_THREADS) != 0 || job->spec.threads > 0)
        most = threads < most ? threads : most;
    if (job->spec.batch > 0 && job->spec.batch < most)
        most = job->spec.batch;
    return most;
}

size_t liveforecast_llm_ways(const struct liveforecast *f, firn_job_id id,
                             const struct firn_job *job,
                             struct firn_llm_way *out, size_t max)
{
    const struct seen *seen = find(f, id);
    if (!llmjobs_is(&job->spec))
        return 0;
    struct llmjob llm = llmjobs_open(f->cluster, &job->spec, job->type_mask);
    double correction =
        seen != NULL && seen->correction > 0 ? seen->correction : 1;
    return llmjobs_ways(&llm, f->cluster, job, correction, out, max);
}

void liveforecast_load_seen(struct liveforecast *f, firn_job_id id,
                            double memory_mib, double utilisation)
{
    if (!(memory_mib > 0) && !(utilisation >= 0))
        return;
    struct seen *seen = find_or_make(f, id);
    if (memory_mib / 1024 > seen->mem_gib)
        seen->mem_gib = memory_mib / 1024;
    if (utilisation > seen->util)
        seen->util = utilisation;
}

double liveforecast_memory(const struct liveforecast *f, firn_job_id id)
{
    const struct seen *seen = find(f, id);
    return seen != NULL ? seen->mem_gib : 0;
}

struct firn_load liveforecast_load(const struct liveforecast *f, firn_job_id id,
                                   const struct firn_job *job)
{
    const struct seen *seen = find(f, id);
    struct firn_load load = {(double)NAN, (double)NAN};
    if (job->spec.mem_gib > 0)
        load.mem_gib = job->spec.mem_gib;
    if (seen != NULL && seen->mem_gib > 0 && !(load.mem_gib > seen->mem_gib))
        load.mem_gib = seen->mem_gib;
    if (seen != NULL && seen->util > 0)
        load.util = seen->util;
    return load;
}
