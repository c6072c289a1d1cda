/* liveforecast.c - a prior by application, corrected by what jobs report.
 *
 *     forecast(way) = prior(way) x correction(way)
 *
 * The prior is liveprior.c's. A way that the job was run in alone has reported
 * rate / prior as its correction, the reports averaged with the newest counting
 * for REPORT_RATE; every other way has the geometric mean of these, 1 before
 * the first. (As the simulator does, sim/simforecast.c, for the same reason:
 * the last one alone would make policies chase the prior's error from place to
 * place.) Rates are kept as shares of the work a second, since what a second of
 * work is changes when a guessed duration is corrected.
 *
 * So at what a job holds the forecast is what it reports; a job that shares and
 * goes slower than its forecast alone says is seen by the policies, which undo
 * it; a resize that brought less than expected corrects what they expect of the
 * next. A job that was seen to go slower on more GPUs of a type, by SLOWER and
 * for SETTLED reports, has no use for more than the fewer.
 *
 * A job that has only been seen beside another is taken to be slowed by
 * FIRN_SHARING_LAMBDA, which is no reason to part them.
 *
 * Slowdowns beside another: the pair table of firn/sharing.h by application,
 * begun with the profile's measurement where there is one and with BESIDE
 * where there is none. Applications without a name are of one kind. Pairs that
 * were parted as bad ones stay bad. What alone is, a job has shown itself,
 * before or (once, when it has settled) after; or others of its application
 * have, by steps of the same shape.
 *
 * Invariant: answers depend on what was seen, not on who asked what before.
 * Cost: that of the prior, and O(ways tried); a handful.
 */
#include "daemon/liveforecast.h"
#include "base/buf.h"
#include "base/fmath.h"
#include "base/map.h"
#include "base/vec.h"
#include "core/llmjobs.h"
#include "daemon/liveload.h"
#include "daemon/liveprior.h"
#include <firn/sharing.h>
#include <math.h>
#include <string.h>

#define BESIDE      1.5
#define REPORT_RATE 0.5
#define SLOWER      0.9 /* of the rate on fewer GPUs */

enum { SETTLED = 3, SAMPLES_MIN = 2, PAIR_APPS = 256, BAD_MAX = 4096 };

/* The job was run so. */
struct run_way {
    int gpus, tensor;
    firn_type_id type; /* the slowest it held */
    struct prior_setting setting;
    double share; /* of its work a second */
    int n;        /* reports */
    bool is_alone;
};

struct seen {
    VEC(struct run_way) ways;
    struct prior_setting setting; /* by its last report */
    double mem_gib, util;         /* as it said */
    struct firn_load sampled;     /* as the engine saw it */
    int nsampled;
    /* Beside another before it was ever alone: share of its work a second. */
    struct run_way beside;
    int beside_app, nbeside, nalone;
};

/* Applications by number, or -1 - id for a job that names none. */
struct bad {
    int a, b; /* a <= b */
};

struct liveforecast {
    const struct firn_cluster *cluster;
    struct liveprior *prior;
    struct liveload *loads;
    VEC(struct seen *) jobs; /* by id from first_id on */
    firn_job_id first_id;
    struct map apps;
    struct firn_pairs pairs;
    double *pairs_storage; /* NULL: nothing was seen of any pair */
    int class_of[PAIR_APPS];
    VEC(struct bad) bad;
};

struct liveforecast *liveforecast_new(const struct firn_cluster *cluster)
{
    struct liveforecast *f = mem_new(1, sizeof *f);
    f->cluster = cluster;
    f->prior = liveprior_new(cluster);
    f->loads = liveload_new(cluster->ntypes);
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
    for (size_t i = 0; i < f->jobs.n; i++)
        liveforecast_forget(f, f->first_id + (firn_job_id)i);
    vec_release(&f->jobs);
    vec_release(&f->bad);
    mem_free(f->pairs_storage);
    map_release(&f->apps);
    liveprior_free(f->prior);
    liveload_free(f->loads);
    mem_free(f);
}

static struct seen *find(const struct liveforecast *f, firn_job_id id)
{
    size_t i = (size_t)(id - f->first_id);
    return id >= f->first_id && i < f->jobs.n ? f->jobs.at[i] : NULL;
}

static struct seen *find_or_make(struct liveforecast *f, firn_job_id id)
{
    struct seen *seen = find(f, id);
    if (seen != NULL || id < f->first_id)
        return seen;
    size_t i = (size_t)(id - f->first_id);
    vec_reserve(&f->jobs, i + 1);
    if (f->jobs.n <= i)
        f->jobs.n = i + 1;
    return f->jobs.at[i] = mem_new(1, sizeof *seen);
}

void liveforecast_forget(struct liveforecast *f, firn_job_id id)
{
    struct seen *seen = find(f, id);
    if (seen == NULL)
        return;
    vec_release(&seen->ways);
    mem_free(seen);
    f->jobs.at[id - f->first_id] = NULL;
}

bool liveforecast_is_seen(const struct liveforecast *f, firn_job_id id)
{
    const struct seen *seen = find(f, id);
    return seen != NULL && seen->ways.n > 0 && seen->ways.at[0].is_alone;
}

/* --- rates --------------------------------------------------------------- */

static struct prior_setting setting_of(const struct seen *seen)
{
    return seen != NULL ? seen->setting : (struct prior_setting){0};
}

/* What was seen over what was to be expected. */
static double ratio_of(const struct liveforecast *f, const struct firn_job *job,
                       const struct run_way *was)
{
    struct firn_way way = {
        .gpus = was->gpus, .type = was->type, .tensor = was->tensor};
    double prior = liveprior_rate(f->prior, job, &way, &was->setting);
    return prior > 0 ? was->share * job->spec.duration_s / prior : 1;
}

/* The geometric mean of all ways; 1 before the first. */
static double mean_ratio(const struct liveforecast *f,
                         const struct firn_job *job, const struct seen *seen)
{
    double sum = 0;
    if (seen == NULL || seen->ways.n == 0)
        return 1;
    if (seen->ways.n == 1)
        return ratio_of(f, job, &seen->ways.at[0]);
    for (size_t i = 0; i < seen->ways.n; i++)
        sum += fm_log(ratio_of(f, job, &seen->ways.at[i]));
    return fm_exp(sum / (double)seen->ways.n);
}

double liveforecast_rate(const struct liveforecast *f, firn_job_id id,
                         const struct firn_job *job, const struct firn_way *way)
{
    const struct seen *seen = find(f, id);
    struct prior_setting setting = setting_of(seen);
    double rate = liveprior_rate(f->prior, job, way, &setting);
    if (seen == NULL || seen->ways.n == 0 || !(rate > 0))
        return rate;
    firn_type_id type = way->type >= 0 && way->type < f->cluster->ntypes
                            ? way->type
                            : liveprior_type(f->prior, job);
    for (size_t i = 0; way->counts == NULL && i < seen->ways.n; i++)
        if (seen->ways.at[i].gpus == way->gpus &&
            seen->ways.at[i].type == type &&
            seen->ways.at[i].tensor == way->tensor)
            return rate * ratio_of(f, job, &seen->ways.at[i]);
    return rate * mean_ratio(f, job, seen);
}

/* The slowest type among what it holds. */
struct firn_way liveforecast_held(const struct liveforecast *f,
                                  const struct firn_job *job)
{
    const struct firn_alloc *held = &job->held;
    firn_type_id worst = FIRN_ANY_TYPE;
    for (int i = 0; i < held->nparts; i++) {
        firn_type_id type = f->cluster->nodes[held->parts[i].node].type;
        if (worst < 0 ||
            f->cluster->types[type].speed < f->cluster->types[worst].speed)
            worst = type;
    }
    return (struct firn_way){
        .gpus = held->ngpus, .type = worst, .tensor = held->how.tensor};
}

static bool is_same_way(const struct run_way *a, const struct run_way *b)
{
    return a->gpus == b->gpus && a->type == b->type && a->tensor == b->tensor;
}

/* Takes a way in; what was seen alone drives out what was not. */
static void keep(struct seen *seen, const struct run_way *way)
{
    size_t i = 0;
    if (seen->ways.n > 0 && !seen->ways.at[0].is_alone && way->is_alone)
        seen->ways.n = 0;
    while (i < seen->ways.n && !is_same_way(&seen->ways.at[i], way))
        i++;
    if (i == seen->ways.n)
        vec_add(&seen->ways, *way);
    struct run_way *to = &seen->ways.at[i];
    to->share += REPORT_RATE * (way->share - to->share);
    to->setting = way->setting;
    to->n++;
}

/* --- pairs --------------------------------------------------------------- */

/* The number of an application, its measured pairs taken in; -1: too many. */
static int app_of(struct liveforecast *f, const struct firn_job *job,
                  const char *name)
{
    int number = map_find(&f->apps, name);
    if (number >= 0)
        return number < PAIR_APPS ? number : -1;
    if (f->apps.n >= PAIR_APPS)
        return -1;
    if (f->pairs_storage == NULL) {
        f->pairs_storage =
            mem_new(FIRN_PAIRS_DOUBLES(PAIR_APPS, 1), sizeof *f->pairs_storage);
        firn_pairs_init(&f->pairs, f->pairs_storage, PAIR_APPS, f->class_of, 1,
                        BESIDE);
    }
    number = map_add(&f->apps, name);
    struct firn_job as = *job;
    for (int i = 0; i <= number; i++) {
        as.spec.app = map_name(&f->apps, i);
        double felt = liveprior_beside(f->prior, &as, name);
        if (felt > 0)
            firn_pairs_add(&f->pairs, (size_t)i, (size_t)number, felt, 1, NULL);
        as.spec.app = name;
        double done = liveprior_beside(f->prior, &as, map_name(&f->apps, i));
        if (done > 0 && i < number)
            firn_pairs_add(&f->pairs, (size_t)number, (size_t)i, done, 1, NULL);
    }
    return number;
}

static int key_of(struct liveforecast *f, struct liveforecast_job j)
{
    int number =
        j.job->spec.app[0] != '\0' ? app_of(f, j.job, j.job->spec.app) : -1;
    return number >= 0 ? number : -1 - j.id;
}

static bool is_bad(const struct liveforecast *f, int a, int b)
{
    for (size_t i = 0; i < f->bad.n; i++)
        if (f->bad.at[i].a == (a < b ? a : b) &&
            f->bad.at[i].b == (a < b ? b : a))
            return true;
    return false;
}

static void add_bad(struct liveforecast *f, int a, int b)
{
    struct bad bad = {a < b ? a : b, a < b ? b : a};
    if (f->bad.n < BAD_MAX && !is_bad(f, a, b))
        vec_add(&f->bad, bad);
}

void liveforecast_part(struct liveforecast *f, struct liveforecast_job a,
                       struct liveforecast_job b)
{
    add_bad(f, key_of(f, a), key_of(f, b));
}

void liveforecast_save(const struct liveforecast *f, struct firn_buf *out)
{
    for (size_t i = 0; i < f->bad.n; i++)
        if (f->bad.at[i].a >= 0)
            buf_printf(out, "%s\t%s\n", map_name(&f->apps, f->bad.at[i].a),
                       map_name(&f->apps, f->bad.at[i].b));
}

void liveforecast_load_pairs(struct liveforecast *f, const char *text)
{
    static const struct firn_job nobody = {.spec = {.app = ""}};
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        char *line = mem_new(n + 1, 1), *tab;
        memcpy(line, text, n);
        text += text[n] == '\n' ? n + 1 : n;
        if ((tab = strchr(line, '\t')) != NULL) {
            *tab = '\0';
            int a = app_of(f, &nobody, line), b = app_of(f, &nobody, tab + 1);
            if (a >= 0 && b >= 0)
                add_bad(f, a, b);
        }
        mem_free(line);
    }
}

double liveforecast_slowdown(const struct liveforecast *f,
                             struct liveforecast_job job,
                             struct liveforecast_job other)
{
    const char *name = job.job->spec.app, *beside = other.job->spec.app;
    int i = map_find(&f->apps, name), k = map_find(&f->apps, beside);
    if (f->bad.n > 0 && is_bad(f, *name && i >= 0 ? i : -1 - job.id,
                               *beside && k >= 0 ? k : -1 - other.id))
        return LIVEFORECAST_BAD;
    double measured = liveprior_beside(f->prior, job.job, beside);
    if (i < 0 || k < 0 || f->pairs_storage == NULL)
        return measured > 0 ? measured : BESIDE;
    return firn_pairs_xi(&f->pairs, (size_t)i, (size_t)k).xi;
}

/* --- what is learned ----------------------------------------------------- */

static void saw_step(struct liveforecast *f, const struct liveforecast_run *run,
                     const struct prior_setting *setting)
{
    struct prior_step step = {.job = run->job,
                              .setting = *setting,
                              .passes = run->passes,
                              .step_s = run->step_s};
    liveprior_saw(f->prior, &step);
}

static void saw_pair(struct liveforecast *f, int a, int b, double slower)
{
    if (a >= 0 && b >= 0 && slower > 0)
        firn_pairs_add(&f->pairs, (size_t)a, (size_t)b, slower, 1, NULL);
}

static void saw_alone(struct liveforecast *f, struct seen *seen,
                      const struct liveforecast_run *run,
                      const struct run_way *way)
{
    keep(seen, way);
    saw_step(f, run, &way->setting);
    /* The first report after the other has left may be of both times. */
    if (seen->nbeside == 0 || ++seen->nalone < SAMPLES_MIN)
        return;
    seen->nbeside = 0;
    if (is_same_way(&seen->beside, way))
        saw_pair(f, app_of(f, run->job, run->job->spec.app), seen->beside_app,
                 way->share / seen->beside.share);
}

/* Beside another, and never seen alone. */
static void saw_beside(struct liveforecast *f, struct seen *seen,
                       const struct liveforecast_run *run, struct run_way *way)
{
    int a = app_of(f, run->job, run->job->spec.app);
    int b = app_of(f, run->job, run->beside);
    const struct prior_step step = {.job = run->job,
                                    .setting = way->setting,
                                    .passes = run->passes,
                                    .step_s = run->step_s};
    double alone_s = liveprior_alone_s(f->prior, &step);
    if (alone_s > 0)
        saw_pair(f, a, b, run->step_s / alone_s);
    if (b != seen->beside_app || !is_same_way(&seen->beside, way))
        seen->nbeside = 0;
    seen->beside_app = b;
    if (seen->nbeside++ == 0)
        seen->beside = *way;
    seen->beside.share += REPORT_RATE * (way->share - seen->beside.share);
    way->share /= FIRN_SHARING_LAMBDA;
    keep(seen, way);
}

void liveforecast_saw(struct liveforecast *f, firn_job_id id,
                      const struct liveforecast_run *run)
{
    const struct firn_job *job = run->job;
    struct firn_way held = liveforecast_held(f, job);
    if (id < 0 || job->held.nparts == 0 || !(run->rate > 0) ||
        !(job->spec.duration_s > 0) || run->sharers > 1)
        return;
    struct seen *seen = find_or_make(f, id);
    struct run_way way = {.gpus = held.gpus,
                          .tensor = held.tensor,
                          .type = held.type,
                          .share = run->rate / job->spec.duration_s,
                          .is_alone = run->sharers == 0};
    if (run->step_s > 0) {
        seen->setting.batch = run->batch > 0 ? run->batch : 0;
        seen->setting.nfrozen = run->nfrozen > 0 ? run->nfrozen : 0;
    }
    way.setting = seen->setting;
    if (way.is_alone) {
        saw_alone(f, seen, run, &way);
    } else if (!liveforecast_is_seen(f, id)) {
        saw_beside(f, seen, run, &way);
    } else {
        double slower = liveforecast_rate(f, id, job, &held) / run->rate;
        saw_pair(f, app_of(f, job, job->spec.app), app_of(f, job, run->beside),
                 slower);
    }
}

/* --- the rest ------------------------------------------------------------ */

/* The GPUs of a type beyond which it was seen to get slower; 0: no word. */
static int useful_gpus(const struct seen *seen)
{
    int most = 0;
    for (size_t i = 0; seen != NULL && i < seen->ways.n; i++)
        for (size_t k = 0; k < seen->ways.n; k++) {
            const struct run_way *few = &seen->ways.at[i];
            const struct run_way *many = &seen->ways.at[k];
            if (few->is_alone && many->is_alone && few->type == many->type &&
                few->gpus < many->gpus && many->n >= SETTLED &&
                many->share < SLOWER * few->share &&
                (most == 0 || few->gpus < most))
                most = few->gpus;
        }
    return most;
}

int liveforecast_gpus_max(const struct liveforecast *f, firn_job_id id,
                          const struct firn_job *job, unsigned tunes)
{
    int threads =
        job->spec.threads > 0 ? job->spec.threads : job->spec.gpus_max;
    int most = job->spec.gpus_max;
    int limits[] = {liveprior_gpus_max(f->prior, job), job->spec.batch,
                    useful_gpus(find(f, id))};
    if ((tunes & FIRN_TUNE_THREADS) != 0 || job->spec.threads > 0)
        most = threads < most ? threads : most;
    for (int i = 0; i < 3; i++)
        if (limits[i] > 0 && limits[i] < most)
            most = limits[i];
    return most;
}

size_t liveforecast_llm_ways(const struct liveforecast *f, firn_job_id id,
                             const struct firn_job *job,
                             struct firn_llm_way *out, size_t max)
{
    if (!llmjobs_is(&job->spec))
        return 0;
    struct llmjob llm = llmjobs_open(f->cluster, &job->spec, job->type_mask);
    return llmjobs_ways(&llm, f->cluster, job, mean_ratio(f, job, find(f, id)),
                        out, max);
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

void liveforecast_sampled(struct liveforecast *f, firn_job_id id,
                          const struct firn_job *job,
                          const struct firn_load *load)
{
    struct seen *seen = find_or_make(f, id);
    if (seen == NULL || !(load->util >= 0) || !(load->mem_gib >= 0))
        return;
    if (seen->nsampled++ == 0)
        seen->sampled = *load;
    seen->sampled.util += REPORT_RATE * (load->util - seen->sampled.util);
    seen->sampled.mem_gib = fmax(seen->sampled.mem_gib, load->mem_gib);
    if (seen->nsampled >= SAMPLES_MIN)
        liveload_saw(f->loads, job->spec.app, liveforecast_held(f, job).type,
                     &seen->sampled);
}

double liveforecast_memory(const struct liveforecast *f, firn_job_id id)
{
    const struct seen *seen = find(f, id);
    return seen != NULL ? seen->mem_gib : 0;
}

struct firn_load liveforecast_load(const struct liveforecast *f, firn_job_id id,
                                   const struct firn_job *job,
                                   const struct firn_way *way)
{
    const struct seen *seen = find(f, id);
    struct prior_setting setting = setting_of(seen);
    struct firn_way whole = {.gpus = job->spec.gpus, .type = FIRN_ANY_TYPE};
    if (way != NULL)
        whole = *way;
    whole.passes = 0; /* what passes save is the caller's to say */
    struct firn_load load = liveprior_load(f->prior, job, &whole, &setting);
    struct firn_load others = liveload_of(
        f->loads, job->spec.app,
        whole.type >= 0 ? whole.type : liveprior_type(f->prior, job));
    if (isnan(load.util))
        load.util = others.util;
    if (isnan(load.mem_gib))
        load.mem_gib = others.mem_gib;
    if (job->spec.mem_gib > 0)
        load.mem_gib = job->spec.mem_gib;
    if (seen != NULL && seen->mem_gib > 0 && !(load.mem_gib > seen->mem_gib))
        load.mem_gib = seen->mem_gib;
    bool is_sampled = seen != NULL && seen->nsampled >= SAMPLES_MIN;
    if (is_sampled && isnan(load.mem_gib))
        load.mem_gib = seen->sampled.mem_gib;
    if (is_sampled)
        load.util = seen->sampled.util;
    if (seen != NULL && seen->util > 0)
        load.util = seen->util;
    return load;
}
