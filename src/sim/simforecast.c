/* simforecast.c - rates by the fit, corrected by what jobs report.
 *
 *     forecast(way) = fit(way, part of training) x correction(way)
 *
 * The correction of a way the job was run in, alone on its GPUs, is reported
 * rate / fit(what it held) of its last report there; that of any other way is
 * the geometric mean of these, 1 before the first. (The last one alone would
 * make a job look better or worse everywhere each time it is moved, by
 * whatever the fit is wrong at one placement, and elastic policies would chase
 * that.)
 *
 * fit() is that of sim/outlook.c, never of a table. So at what a job holds
 * the forecast is what it reported, noise and all, and elsewhere it is wrong
 * as the fit is. The part of training follows from done_s as core believes it:
 * shares of the work do not depend on step times, so the parts of forecast
 * and truth are the same. Gradient statistics are those of that part: a
 * trainer measures them.
 *
 * A language model's fit is core/llmjobs.c's.
 *
 * Slowdowns: the profile's `beside`, else the simulation's constant, as one
 * observation; those made while jobs shared (corrected forecast alone /
 * reported rate) are averaged with it, by pair of profiles, in a pair table
 * of firn/sharing.h in which old news fade.
 *
 * Answers are remembered for each job in a table by way, which is emptied when
 * the job comes to another part; the mean correction is applied behind it.
 * Invariant: nothing here depends on who asked what before.
 *
 * Cost: a remembered answer is a look into an array; a new one an evaluation
 * of the model, or the trainer's search when it tunes.
 */
#include "sim/simforecast.h"
#include "base/fmath.h"
#include "sim/noise.h"
#include "sim/outlook.h"
#include "sim/simengine.h"
#include "sim/threads.h"
#include "sim/transfers.h"
#include "sim/truth_table.h"
#include <math.h>
#include <string.h>

#define SLACK 1e-9 /* of a duration: parts end where they end */

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
        waytable_release(&f->jobs.at[i].answers);
        vec_release(&f->jobs.at[i].tried);
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
    waytable_release(&o->answers);
    vec_release(&o->tried);
    *o = (struct outlook){
        .id = job->id + 1, .correction = 1, .until_s = INFINITY};
    waytable_init(&o->answers, f->base.cluster->ntypes);
    o->is_llm = llmjobs_is(&job->spec);
    if (o->is_llm)
        o->llm = llmjobs_open(f->base.cluster, &job->spec, job->type_mask);
    else if (f->table != NULL)
        o->app = known_find(&f->table->known, job->spec.app, job->type_mask);
    if (o->app.profile != NULL)
        lay_out(f, o, job);
    else
        o->type = type_of(f, job);
    return o;
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
    waytable_clear(&o->answers);
}

/* --- rates ------------------------------------------------------------------
 */

static bool is_same(const struct firn_way *a, const struct firn_way *b)
{
    return a->gpus == b->gpus && a->nodes == b->nodes && a->type == b->type &&
           a->tunes == b->tunes && a->passes == b->passes &&
           a->tensor == b->tensor && a->parallel == b->parallel &&
           a->stages == b->stages;
}

/* It is the way that was tried. */
static bool is_tried(const struct forecast *f, const struct tried *tried,
                     const struct firn_way *way)
{
    if (!is_same(&tried->way, way) || tried->is_mixed != (way->counts != NULL))
        return false;
    for (int t = 0; tried->is_mixed && t < f->base.cluster->ntypes; t++)
        if (tried->counts[t] != way->counts[t])
            return false;
    return true;
}

/* The answer for a way that was not asked about in this part. */
static double look_up(const struct forecast *f, const struct outlook *o,
                      const struct firn_job *job, const struct firn_way *way)
{
    struct firn_way as = outlook_plain(f, o, way);
    double rate = outlook_fit(f, o, job, &as);
    for (size_t i = 0; i < o->tried.n; i++)
        if (is_tried(f, &o->tried.at[i], &as) && rate > 0)
            return -rate * o->tried.at[i].ratio;
    return rate;
}

/* What is expected of a way. */
static double expected(const struct forecast *f, struct outlook *o,
                       const struct firn_job *job, const struct firn_way *way)
{
    bool is_kept = waytable_holds(way);
    double rate = is_kept ? waytable_get(&o->answers, way) : (double)NAN;
    if (isnan(rate)) {
        rate = look_up(f, o, job, way);
        if (is_kept)
            waytable_put(&o->answers, way, rate);
    }
    return rate < 0 ? -rate : rate * o->correction;
}

double forecast_rate(struct forecast *f, const struct firn_job *job,
                     const struct firn_way *way, double now_s)
{
    struct outlook *o = outlook_of(f, job);
    move_to(o, job, firn_job_done_s(job, now_s));
    return expected(f, o, job, way);
}

bool forecast_running(struct forecast *f, const struct firn_job *job,
                      const struct firn_way *way, double batch,
                      struct running *now, struct running *ref)
{
    struct outlook *o = outlook_of(f, job);
    struct firn_way as = outlook_plain(f, o, way);
    if (o->app.profile == NULL || !(outlook_fit(f, o, job, &as) > 0))
        return false;
    const struct known *known = &f->table->known;
    struct spread where =
        spread_over(as.type, f->largest[as.type], as.gpus, as.nodes);
    struct setting setting = known_setting(known, &o->app, &where, batch);
    *now = (struct running){known_fit_s(known, &o->app, &where, &setting),
                            setting.split.total, 1};
    *ref = o->ref;
    return true;
}

/* --- what is learned --------------------------------------------------- */

/* What it holds as a way; of several types the slowest, unless it has elastic
 * threads: then `counts` has them. `rate` is its fit. */
static struct firn_way way_held(const struct forecast *f,
                                const struct outlook *o,
                                const struct firn_job *job, int *counts,
                                double *rate)
{
    const struct firn_alloc *held = &job->held;
    const struct firn_cluster *c = f->base.cluster;
    struct firn_way way = {.gpus = held->ngpus,
                           .nodes = firn_alloc_nodes(held),
                           .type = FIRN_ANY_TYPE,
                           .tunes = held->tunes,
                           .passes = held->how.passes,
                           .tensor = held->how.tensor,
                           .parallel = held->how.parallel,
                           .stages = held->how.stages};
    struct firn_way slowest = way;
    *rate = INFINITY;
    if (held->tunes & FIRN_TUNE_THREADS) {
        threads_count(c, held, counts);
        way.counts = counts;
        way = outlook_plain(f, o, &way);
        *rate = outlook_fit(f, o, job, &way);
        return way;
    }
    for (int i = 0; i < held->nparts; i++) {
        firn_type_id type = c->nodes[held->parts[i].node].type;
        if (type == way.type)
            continue;
        way.type = type;
        double here = outlook_fit(f, o, job, &way);
        if (here < *rate) {
            *rate = here;
            slowest = way;
        }
    }
    return slowest;
}

/* Run that way, it went at `rate`, `ratio` times its fit. A way goes by up to
 * four names, all of which are to answer so at once. */
static void correct(const struct forecast *f, struct outlook *o,
                    const struct firn_way *way, double rate, double ratio)
{
    double sum = 0;
    size_t i = 0;
    while (i < o->tried.n && !is_tried(f, &o->tried.at[i], way))
        i++;
    if (i == o->tried.n)
        vec_add(&o->tried, (struct tried){0});
    struct tried *tried = &o->tried.at[i];
    *tried = (struct tried){.way = *way, .ratio = ratio};
    tried->is_mixed = way->counts != NULL;
    for (int t = 0; tried->is_mixed && t < f->base.cluster->ntypes; t++)
        tried->counts[t] = way->counts[t];
    tried->way.counts = NULL;
    for (i = 0; i < 4; i++) {
        struct firn_way alias = *way;
        alias.nodes = i & 1 ? 0 : way->nodes;
        alias.type = i & 2 ? FIRN_ANY_TYPE : way->type;
        struct firn_way as = outlook_plain(f, o, &alias);
        if (is_same(&as, way) && waytable_holds(&alias))
            waytable_put(&o->answers, &alias, -rate);
    }
    for (i = 0; i < o->tried.n; i++)
        sum += fm_log(o->tried.at[i].ratio);
    o->correction = o->tried.n == 1 ? ratio : fm_exp(sum / (double)o->tried.n);
}

void forecast_learn(struct forecast *f, const struct firn_job *job,
                    const struct firn_report *report,
                    const struct truth_near *near)
{
    struct outlook *o = outlook_of(f, job);
    double alone;
    if (job->held.nparts == 0 || !(report->rate > 0))
        return;
    move_to(o, job, report->done_s);
    int counts[FIRN_TYPES_MAX];
    struct firn_way way = way_held(f, o, job, counts, &alone);
    if (!(alone > 0))
        return;
    if (job->held.how.merged_with != FIRN_NO_JOB)
        return; /* trained together with another, or was until just now */
    if (near->sharers < 2) {
        correct(f, o, &way, report->rate, report->rate / alone);
        return;
    }
    if (o->app.profile == NULL || near->napps != 1)
        return;
    struct known_app other =
        known_find(&f->table->known, near->apps[0], UINT32_MAX);
    if (other.profile != NULL)
        firn_pairs_add(&f->pairs, o->app.which, other.which,
                       expected(f, o, job, &way) / report->rate, 1, NULL);
}

double forecast_slowdown(struct forecast *f, const struct firn_job *job,
                         const struct firn_job *other)
{
    struct known_app a = outlook_of(f, job)->app;
    struct known_app b = outlook_of(f, other)->app;
    if (a.profile == NULL)
        return f->base.share_slowdown;
    double xi = firn_profile_beside(a.profile, other->spec.app);
    xi = xi > 0 ? xi : f->base.share_slowdown;
    if (b.profile == NULL)
        return xi;
    size_t at = a.which * f->pairs.napps + b.which;
    double weight = f->pairs.pair_weight[at];
    return (xi + weight * f->pairs.pair_mean[at]) / (1 + weight);
}

/* --- limits and loads -------------------------------------------------------
 */

int forecast_gpus_max(struct forecast *f, const struct firn_job *job,
                      unsigned tunes)
{
    const struct outlook *o = outlook_of(f, job);
    const struct firn_profile *p = o->app.profile;
    int threads = threads_number(&job->spec);
    if (o->is_llm) {
        int most = llmjobs_gpus_max(&o->llm);
        return most < job->spec.gpus_max ? most : job->spec.gpus_max;
    }
    if (tunes & FIRN_TUNE_THREADS)
        return threads < job->spec.gpus_max ? threads : job->spec.gpus_max;
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

/* What its trainer sets there: as submitted, or with the layers that it has
 * frozen now if that is asked for. */
static struct setting set_there(const struct forecast *f,
                                const struct outlook *o,
                                const struct firn_job *job,
                                const struct firn_way *way,
                                const struct spread *there)
{
    struct trainer_ask ask = {.app = &o->app,
                              .where = there,
                              .batch = job->spec.batch,
                              .passes = way->passes,
                              .frozen_max = job->spec.frozen_max,
                              .parallel = (enum firn_parallel)way->parallel,
                              .stages = way->stages};
    struct trainer *trainer = f->table->trainer;
    if (!(way->tunes & FIRN_TUNE_FREEZE) ||
        trainer_rule(trainer, o->app.profile, FIRN_TUNE_FREEZE) ==
            FIRN_SIM_FREEZE_OFF)
        return trainer_plain(trainer, &ask);
    ask.tunes = FIRN_TUNE_FREEZE;
    return trainer_setting(trainer, &ask, o->part);
}

struct firn_load forecast_load(struct forecast *f, const struct firn_job *job,
                               const struct firn_way *way, double now_s)
{
    struct outlook *o = outlook_of(f, job);
    struct firn_load load = {
        .util = (double)NAN,
        .mem_gib = job->spec.mem_gib > 0 ? job->spec.mem_gib : (double)NAN,
    };
    struct firn_way as = outlook_plain(f, o, way);
    if (as.type < 0 || as.type >= f->base.cluster->ntypes)
        return load;
    if (o->is_llm) {
        struct llmspot spot =
            llmjobs_packed(f->base.cluster, as.type, as.gpus, as.nodes);
        llmjobs_expect(&o->llm, &spot, as.tensor, &load.mem_gib);
    }
    if (o->app.profile == NULL)
        return load;
    double slower;
    const struct known *known = &f->table->known;
    move_to(o, job, firn_job_done_s(job, now_s));
    struct spread there = spread_packed(as.type, f->largest[as.type], as.gpus);
    struct setting set = set_there(f, o, job, &as, &there);
    const struct firn_profile_gpu *gpu =
        known_gpu(known, &o->app, as.type, &slower);
    double theta = firn_profile_unfrozen(o->app.profile, set.frozen).theta;
    double mem_mib = known_mem_mib(known, &o->app, &there, as.type, &set);
    load.util = firn_profile_util(gpu, set.split.batch_per_gpu, theta);
    if (!isnan(mem_mib))
        load.mem_gib = mem_mib / 1024;
    return load;
}

size_t forecast_llm_ways(struct forecast *f, const struct firn_job *job,
                         struct firn_llm_way *out, size_t max)
{
    const struct outlook *o = outlook_of(f, job);
    return o->is_llm ? llmjobs_ways(&o->llm, f->base.cluster, job,
                                    o->correction, out, max)
                     : 0;
}

unsigned forecast_parallels(struct forecast *f, const struct firn_job *job)
{
    const struct outlook *o = outlook_of(f, job);
    if (o->app.profile == NULL || o->type < 0)
        return 0;
    return known_parallels(&f->table->known, &o->app, (uint32_t)1 << o->type);
}

/* --- for core ---------------------------------------------------------------
 */

static double rate_of(void *state, const struct firn_job *job,
                      const struct firn_way *way, double now_s)
{
    return forecast_rate(((struct simengine *)state)->forecast, job, way,
                         now_s);
}

static double left_of(void *state, const struct firn_job *job,
                      const struct firn_way *way, double now_s)
{
    const struct simengine *engine = state;
    const struct firn_sim_options *options = engine->world.options;
    double left_s = job->spec.duration_s - firn_job_done_s(job, now_s);
    double rate = forecast_rate(engine->forecast, job, way, now_s);
    double belief =
        noise_iterations(&options->noise, options->seed, job->id, false);
    return rate == 0 ? INFINITY : left_s * belief / rate;
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

static struct firn_load load_of(void *state, const struct firn_job *job,
                                const struct firn_way *way)
{
    const struct simengine *engine = state;
    return forecast_load(engine->forecast, job, way, engine->world.now_s);
}

static size_t llm_ways_of(void *state, const struct firn_job *job,
                          struct firn_llm_way *out, size_t max)
{
    return forecast_llm_ways(((struct simengine *)state)->forecast, job, out,
                             max);
}

static unsigned parallels_of(void *state, const struct firn_job *job)
{
    return forecast_parallels(((struct simengine *)state)->forecast, job);
}

const struct firn_forecast_def simengine_forecast = {
    .rate = rate_of,
    .left_s = left_of,
    .gpus_max = gpus_max_of,
    .slowdown = slowdown_of,
    .load = load_of,
    .llm_ways = llm_ways_of,
    .parallels = parallels_of,
    .merge = transfers_merge,
};
