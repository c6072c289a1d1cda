/* simforecast.c - rates by the fit, corrected by what jobs report.
 *
 *     forecast(way) = fit(way, part of training) x correction
 *     correction    = reported rate / fit(what it holds), of its last report
 *                     while it was alone on its GPUs; 1 before the first
 *
 * fit() is sim/truth_table.c's rate with step times of the profile's fit for
 * the job and its reference alike, never of a table. So at what a job holds
 * the forecast is what it reported, noise and all, and elsewhere it is wrong
 * as the fit is. The part of training follows from done_s as core believes it:
 * shares of the work do not depend on step times, so the parts of forecast
 * and truth are the same. Gradient statistics are those of that part: a
 * trainer measures them.
 *
 * Slowdowns: the profile's `beside`, else the simulation's constant, as one
 * observation; those made while jobs shared (corrected forecast alone /
 * reported rate) are averaged with it, by pair of profiles, in a pair table
 * of firn/sharing.h in which old news fade.
 *
 * Answers of fit() are remembered for each job in a table by way, which is
 * emptied when the job comes to another part. The correction is applied behind
 * it. Invariant: nothing here depends on who asked what before.
 *
 * Cost: a remembered answer is one hash and a comparison or two; a new one an
 * evaluation of the model, or the trainer's search when it tunes.
 */
#include "sim/simforecast.h"
#include "base/fmath.h"
#include "base/vec.h"
#include "sim/simengine.h"
#include "sim/truth_table.h"
#include <firn/sharing.h>
#include <math.h>
#include <string.h>

enum { CELLS_MIN = 64 };
#define SLACK 1e-9 /* of a duration: parts end where they end */

/* A remembered answer; key 0: none. */
struct cell {
    uint64_t key;
    double rate;
};

/* What is expected of one job, by slot. */
struct outlook {
    firn_job_id id; /* whose it is, from 1 on; 0: nobody's */
    struct known_app app;
    firn_type_id type;  /* its reference */
    struct running ref; /* by the fit */
    struct parts parts;
    double *ends; /* reference seconds at which each part ends */
    size_t part;
    double from_s, until_s; /* of done_s, while it is in `part` */
    double correction;
    struct cell *cells; /* a power of two of them */
    size_t ncells, nused;
};

struct forecast {
    struct truth base;
    struct truth_table *table;
    int largest[FIRN_TYPES_MAX]; /* node of each type */
    VEC(struct outlook) jobs;
    struct firn_pairs pairs; /* by profile */
    double *pairs_storage;
    int *class_of;
};

struct forecast *forecast_new(const struct truth *base,
                              struct truth_table *table)
{
    struct forecast *f = mem_new(1, sizeof *f);
    f->base = *base;
    f->table = table;
    for (int i = 0; i < base->cluster->ntypes; i++)
        f->largest[i] = spread_largest(base->cluster, i);
    if (table != NULL) {
        size_t n = table->known.profiles.n;
        f->pairs_storage =
            mem_new(FIRN_PAIRS_DOUBLES(n, 1), sizeof *f->pairs_storage);
        f->class_of = mem_new(n, sizeof *f->class_of);
        firn_pairs_init(&f->pairs, f->pairs_storage, n, f->class_of, 1,
                        base->share_slowdown);
    }
    return f;
}

void forecast_free(struct forecast *f)
{
    if (f == NULL)
        return;
    for (size_t i = 0; i < f->jobs.cap; i++) {
        mem_free(f->jobs.at[i].ends);
        mem_free(f->jobs.at[i].cells);
    }
    vec_release(&f->jobs);
    mem_free(f->pairs_storage);
    mem_free(f->class_of);
    mem_free(f);
}

/* --- one job ----------------------------------------------------------------
 */

/* Without a profile: the type that durations refer to, if the job may use it.
 */
static firn_type_id type_of(const struct forecast *f,
                            const struct firn_job *job)
{
    const struct firn_cluster *c = f->base.cluster;
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

static void lay_out(const struct forecast *f, struct outlook *o,
                    const struct firn_job *job)
{
    const struct known *known = &f->table->known;
    const struct firn_profile *p = o->app.profile;
    struct spread there =
        spread_packed(o->app.ref, f->largest[o->app.ref], job->spec.gpus);
    struct setting asked =
        known_setting(known, &o->app, &there, job->spec.batch);
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

static struct outlook *outlook_of(struct forecast *f,
                                  const struct firn_job *job)
{
    size_t slot = (size_t)job->slot;
    if (slot < f->jobs.cap && f->jobs.at[slot].id == job->id + 1)
        return &f->jobs.at[slot];
    vec_reserve(&f->jobs, slot + 1);
    struct outlook *o = &f->jobs.at[slot];
    mem_free(o->ends);
    mem_free(o->cells);
    *o = (struct outlook){.id = job->id + 1,
                          .correction = 1,
                          .until_s = INFINITY,
                          .ncells = CELLS_MIN};
    o->cells = mem_new(o->ncells, sizeof *o->cells);
    if (f->table != NULL)
        o->app = known_find(&f->table->known, job->spec.app, job->type_mask);
    if (o->app.profile != NULL)
        lay_out(f, o, job);
    else
        o->type = type_of(f, job);
    return o;
}

static void forget(struct outlook *o)
{
    memset(o->cells, 0, o->ncells * sizeof *o->cells);
    o->nused = 0;
}

/* Brings it to the part in which it has done so much. */
static void move_to(struct outlook *o, const struct firn_job *job,
                    double done_s)
{
    double at_s = done_s + SLACK * job->spec.duration_s;
    if (at_s >= o->from_s && at_s < o->until_s)
        return;
    size_t low = 0, high = o->parts.n - 1;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (at_s < o->ends[mid])
            high = mid;
        else
            low = mid + 1;
    }
    o->part = low;
    o->from_s = low > 0 ? o->ends[low - 1] : 0;
    o->until_s = o->ends[low];
    forget(o);
}

/* --- rates ------------------------------------------------------------------
 */

static double by_profile(const struct forecast *f, const struct outlook *o,
                         const struct firn_job *job, const struct spread *where,
                         unsigned tunes)
{
    const struct known *known = &f->table->known;
    struct trainer_ask ask = {&o->app, where, job->spec.batch, tunes};
    size_t stage = o->part / o->parts.pieces;
    bool is_cut = trainer_rule(f->table->trainer, o->app.profile, tunes) !=
                  FIRN_SIM_FREEZE_OFF;
    struct setting setting =
        trainer_setting(f->table->trainer, &ask, is_cut ? o->part : stage);
    struct running now = {known_fit_s(known, &o->app, where, &setting),
                          setting.split.total, setting.psi};
    return running_rate(o->app.profile, stage, &o->ref, &now);
}

static double fit(const struct forecast *f, const struct outlook *o,
                  const struct firn_job *job, const struct firn_way *way)
{
    const struct firn_cluster *c = f->base.cluster;
    firn_type_id type = way->type == FIRN_ANY_TYPE ? o->type : way->type;
    if (type < 0 || type >= c->ntypes || !(job->type_mask >> type & 1) ||
        way->gpus < 1 || way->nodes < 0)
        return 0;
    struct spread where =
        spread_over(type, f->largest[type], way->gpus, way->nodes);
    if (where.nodes == 0)
        return 0;
    if (o->app.profile != NULL)
        return by_profile(f, o, job, &where, way->tunes);
    double times = (double)way->gpus / job->spec.gpus;
    return c->types[type].speed *
           (times == 1 ? 1 : fm_pow(times, f->base.scaling));
}

/* Every way has a key of its own, none has 0. */
static uint64_t key_of(const struct firn_way *way)
{
    return (uint64_t)(uint32_t)way->gpus << 40 ^
           (uint64_t)((uint32_t)way->nodes & 0xffffffu) << 16 ^
           (uint64_t)((unsigned)(way->type + 1) & 0x3fffu) << 2 ^
           (way->tunes & 3u);
}

static size_t first_cell(const struct outlook *o, uint64_t key)
{
    return (size_t)(key * 0x9e3779b97f4a7c15u >> 32) & (o->ncells - 1);
}

static void put(struct outlook *o, struct cell cell)
{
    size_t i = first_cell(o, cell.key);
    while (o->cells[i].key != 0)
        i = (i + 1) & (o->ncells - 1);
    o->cells[i] = cell;
    o->nused++;
}

static void remember(struct outlook *o, struct cell cell)
{
    if (2 * (o->nused + 1) > o->ncells) {
        struct cell *was = o->cells;
        size_t n = o->ncells;
        o->ncells *= 2;
        o->nused = 0;
        o->cells = mem_new(o->ncells, sizeof *o->cells);
        for (size_t i = 0; i < n; i++)
            if (was[i].key != 0)
                put(o, was[i]);
        mem_free(was);
    }
    put(o, cell);
}

/* fit(), remembered. */
static double fitted(const struct forecast *f, struct outlook *o,
                     const struct firn_job *job, const struct firn_way *way)
{
    uint64_t key = key_of(way);
    for (size_t i = first_cell(o, key); o->cells[i].key != 0;
         i = (i + 1) & (o->ncells - 1))
        if (o->cells[i].key == key)
            return o->cells[i].rate;
    double rate = fit(f, o, job, way);
    remember(o, (struct cell){key, rate});
    return rate;
}

double forecast_rate(struct forecast *f, const struct firn_job *job,
                     const struct firn_way *way, double now_s)
{
    struct outlook *o = outlook_of(f, job);
    move_to(o, job, firn_job_done_s(job, now_s));
    return fitted(f, o, job, way) * o->correction;
}

/* --- what is learned
 * ---------------------------------------------------------- */

/* fit() of what it holds; of the slowest type it holds. */
static double fit_held(const struct forecast *f, struct outlook *o,
                       const struct firn_job *job)
{
    const struct firn_alloc *held = &job->held;
    const struct firn_cluster *c = f->base.cluster;
    struct firn_way way = {.gpus = held->ngpus,
                           .nodes = firn_alloc_nodes(held),
                           .tunes = held->tunes};
    uint32_t seen = 0;
    double least = INFINITY;
    for (int i = 0; i < held->nparts; i++) {
        way.type = c->nodes[held->parts[i].node].type;
        if (!(seen >> way.type & 1))
            least = fmin(least, fitted(f, o, job, &way));
        seen |= (uint32_t)1 << way.type;
    }
    return least;
}

void forecast_learn(struct forecast *f, const struct firn_job *job,
                    const struct firn_report *report,
                    const struct truth_near *near)
{
    struct outlook *o = outlook_of(f, job);
    if (job->held.nparts == 0 || !(report->rate > 0))
        return;
    move_to(o, job, report->done_s);
    double alone = fit_held(f, o, job);
    if (!(alone > 0))
        return;
    if (near->sharers < 2) {
        o->correction = report->rate / alone;
        return;
    }
    if (o->app.profile == NULL || near->napps != 1)
        return;
    struct known_app other =
        known_find(&f->table->known, near->apps[0], UINT32_MAX);
    if (other.profile != NULL)
        firn_pairs_add(&f->pairs, o->app.which, other.which,
                       alone * o->correction / report->rate, 1, NULL);
}

double forecast_slowdown(struct forecast *f, const struct firn_job *job,
                         const struct firn_job *other)
{
    const struct outlook *a = outlook_of(f, job);
    double xi = 0;
    if (a->app.profile == NULL)
        return f->base.share_slowdown;
    xi = firn_profile_beside(a->app.profile, other->spec.app);
    xi = xi > 0 ? xi : f->base.share_slowdown;
    struct known_app b =
        known_find(&f->table->known, other->spec.app, UINT32_MAX);
    if (b.profile == NULL)
        return xi;
    size_t at = a->app.which * f->pairs.napps + b.which;
    double weight = f->pairs.pair_weight[at];
    return (xi + weight * f->pairs.pair_mean[at]) / (1 + weight);
}

/* --- limits and loads
 * --------------------------------------------------------- */

int forecast_gpus_max(struct forecast *f, const struct firn_job *job,
                      unsigned tunes)
{
    const struct outlook *o = outlook_of(f, job);
    const struct firn_profile *p = o->app.profile;
    if (p == NULL)
        return job->spec.gpus_max;
    double batch = job->spec.batch > 0 ? job->spec.batch : p->batch0;
    if ((tunes & FIRN_TUNE_BATCH) && trainer_can_tune(p))
        batch = p->batch_max;
    double least =
        known_local_min(&f->table->known, &o->app, (uint32_t)1 << o->type);
    if (!(batch > 0) || batch / least > job->spec.gpus_max)
        return job->spec.gpus_max;
    return (int)(batch / least);
}

struct firn_load forecast_load(struct forecast *f, const struct firn_job *job)
{
    const struct outlook *o = outlook_of(f, job);
    struct firn_load load = {
        .util = (double)NAN,
        .mem_gib = job->spec.mem_gib > 0 ? job->spec.mem_gib : (double)NAN,
    };
    if (o->app.profile == NULL)
        return load;
    double slower;
    const struct known *known = &f->table->known;
    struct spread there =
        spread_packed(o->type, f->largest[o->type], job->spec.gpus);
    double samples = known_setting(known, &o->app, &there, job->spec.batch)
                         .split.batch_per_gpu;
    const struct firn_profile_gpu *gpu =
        known_gpu(known, &o->app, o->type, &slower);
    if (gpu->util > 0 || gpu->util_sample > 0)
        load.util = fmin(1, gpu->util + gpu->util_sample * samples);
    if (gpu->mem_mib > 0 || gpu->mem_sample_mib > 0)
        load.mem_gib = (gpu->mem_mib + gpu->mem_sample_mib * samples) / 1024;
    return load;
}

/* --- for core
 * ------------------------------------------------------------------ */

static double rate_of(void *state, const struct firn_job *job,
                      const struct firn_way *way, double now_s)
{
    return forecast_rate(((struct simengine *)state)->forecast, job, way,
                         now_s);
}

static int gpus_max_of(void *state, const struct firn_job *job, unsigned tunes)
{
    return forecast_gpus_max(((struct simengine *)state)->forecast, job, tunes);
}

static double slowdown_of(void *state, const struct firn_job *job,
                          const struct firn_job *other)
{
    return forecast_slowdown(((struct simengine *)state)->forecast, job, other);
}

static struct firn_load load_of(void *state, const struct firn_job *job)
{
    return forecast_load(((struct simengine *)state)->forecast, job);
}

const struct firn_forecast_def simengine_forecast = {
    .rate = rate_of,
    .gpus_max = gpus_max_of,
    .slowdown = slowdown_of,
    .load = load_of,
};
