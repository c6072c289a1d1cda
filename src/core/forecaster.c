/* forecaster.c - rates by the fit, corrected by what jobs report.
 *
 *     forecast(way) = fit(way, part of training) x correction(way)
 *
 * fit() is forecaster_fit.c's: a language model's shape, a profile, what jobs
 * of the application have reported (forecaster_law.c), or a plain law. It
 * never comes from a simulation's tables. The correction of a way that the job
 * was run in, alone on its GPUs, is reported rate / fit(what it held); that of
 * any other way is the geometric mean of these, 1 before the first. (The last
 * one alone would make a job look better or worse everywhere each time it is
 * moved, by whatever the fit is wrong at one placement, and elastic policies
 * would chase that.) So at what a job holds the forecast is what it reported,
 * noise and all, and elsewhere it is wrong as the fit is.
 *
 * Several reports in a row of one way, one start of the job, one part of
 * training and one setting of its trainer are repeated measurements of one
 * number: they are averaged, the newest counting REPORT_RATE. After a change
 * of any of these the first report replaces what was known. A simulated job
 * reports only when something changed, so its last report holds; a live one
 * reports every few seconds, and its noise is averaged out.
 *
 * The part of training follows from done_s: shares of the work do not depend
 * on step times, so a simulation's truth has the same parts. Rates are kept as
 * shares of the work a second besides, and the ratios worked out anew, when
 * the job's duration, its spec or its application's step times change.
 *
 * Where durations are users' estimates (priors.is_recorded is not set), a rate
 * can be compared with the fit only after the job was seen alone. One that was
 * only seen beside another is taken to be slowed by FIRN_SHARING_LAMBDA, which
 * is no reason to part the two. A job that has reported SETTLED times in a row
 * to be slower than SLOWER of what it did on fewer GPUs of the type has no use
 * for more than the fewer.
 *
 * Choices, and why:
 * - a way is told by all of its fields: as many GPUs on one node and on three
 *   go at different rates, and one correction for both would be wrong for both;
 * - the gain of a batch is that of the part that the job is in: a large batch
 *   is worth little at first and much later;
 * - a batch or layers that the way leaves to the trainer are predicted; where
 *   it leaves none, those that the trainer last reported hold, in every way;
 * - a type that a profile does not know goes as the reference type, times the
 *   ratio of speeds: the profile's other types say no more about it;
 * - a GPU has at least local_min samples of a batch, or one without a profile:
 *   more GPUs than that are of no use;
 * - what users say and what traces record is not equally exact: see
 *   priors.is_recorded for the three places where that counts.
 *
 * Invariants: (1) answers depend on observations, not on earlier questions;
 * (2) a rate is 0, > 0, or NaN; never negative.
 * Cost: a remembered answer is a look into an array; a new one an evaluation
 * of the model, or the trainer's search when it tunes.
 */
#include "core/forecaster.h"
#include "base/fmath.h"
#include "core/outlook.h"
#include "core/threads.h"
#include <math.h>
#include <string.h>

#define SLACK  1e-9 /* of a duration: parts end where they end */
#define SLOWER 0.9  /* of the rate on fewer GPUs */

enum { SETTLED = 3, ALONE_MIN = 2 };

struct forecaster *forecaster_new(const struct forecaster_priors *priors)
{
    struct forecaster *f = mem_new(1, sizeof *f);
    f->priors = *priors;
    for (int i = 0; i < priors->cluster->ntypes; i++)
        f->largest[i] = spread_largest(priors->cluster, i);
    return f;
}

static void release(struct outlook *o)
{
    mem_free(o->ends);
    mem_free(o->freeze_storage);
    waytable_release(&o->answers);
    vec_release(&o->tried);
    *o = (struct outlook){0};
}

void forecaster_free(struct forecaster *f)
{
    if (f == NULL)
        return;
    for (size_t i = 0; i < f->jobs.cap; i++)
        release(&f->jobs.at[i]);
    vec_release(&f->jobs);
    laws_release(f);
    pairs_release(f);
    map_release(&f->load_names);
    vec_release(&f->loads);
    mem_free(f);
}

/* --- one job ------------------------------------------------------------- */

static void correct_all(struct forecaster *f, struct outlook *o,
                        const struct firn_job *job);

/* With the profile, the step times and the duration of now. */
static void refresh(struct forecaster *f, struct outlook *o,
                    const struct firn_job *job)
{
    outlook_lay_out(f, o, job);
    o->is_laid_out = true;
    o->nfits = law_fits(f, job->spec.app);
    o->duration_s = job->spec.duration_s;
    o->version = f->version;
    waytable_clear(&o->answers);
    correct_all(f, o, job);
}

struct outlook *outlook_keep(struct forecaster *f, struct forecaster_key key)
{
    struct outlook *o = outlook_find(f, key);
    if (o != NULL)
        return o;
    vec_reserve(&f->jobs, (size_t)key.slot + 1);
    o = &f->jobs.at[key.slot];
    release(o);
    o->id = key.id + 1;
    o->version = f->version - 1; /* laid out when it is asked for */
    waytable_init(&o->answers, f->priors.cluster->ntypes);
    return o;
}

struct outlook *outlook_make(struct forecaster *f, struct forecaster_key key,
                             const struct firn_job *job)
{
    struct outlook *o = outlook_keep(f, key);
    if (o->is_laid_out && o->duration_s == job->spec.duration_s &&
        o->nfits == law_fits(f, job->spec.app))
        o->version = f->version; /* another application's law has changed */
    else
        refresh(f, o, job);
    return o;
}

void forecaster_forget(struct forecaster *f, struct forecaster_key key)
{
    struct outlook *o = outlook_find(f, key);
    if (o != NULL)
        release(o);
}

void forecaster_respec(struct forecaster *f, struct forecaster_key key)
{
    struct outlook *o = outlook_find(f, key);
    if (o != NULL) {
        o->is_laid_out = false;
        o->version = f->version - 1;
    }
}

static void turn(struct outlook *o, double at_s)
{
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

void outlook_move(struct outlook *o, const struct firn_job *job, double done_s)
{
    double at_s = done_s + SLACK * job->spec.duration_s;
    if (!(at_s >= o->from_s && at_s < o->until_s))
        turn(o, at_s);
}

/* --- rates --------------------------------------------------------------- */

static bool is_same(const struct firn_way *a, const struct firn_way *b)
{
    return a->gpus == b->gpus && a->nodes == b->nodes && a->type == b->type &&
           a->tunes == b->tunes && a->passes == b->passes &&
           a->tensor == b->tensor && a->parallel == b->parallel &&
           a->stages == b->stages;
}

/* It is the way that was tried. */
static bool is_tried(const struct forecaster *f, const struct tried *tried,
                     const struct firn_way *way)
{
    if (!is_same(&tried->way, way) || tried->is_mixed != (way->counts != NULL))
        return false;
    for (int t = 0; tried->is_mixed && t < f->priors.cluster->ntypes; t++)
        if (tried->counts[t] != way->counts[t])
            return false;
    return true;
}

/* The answer for a way that was not asked about in this part. */
static double look_up(const struct forecaster *f, const struct outlook *o,
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
static double expected(const struct forecaster *f, struct outlook *o,
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

double forecaster_rate(struct forecaster *f, struct forecaster_key key,
                       const struct firn_job *job, const struct firn_way *way,
                       double done_s)
{
    struct outlook *o = outlook_of(f, key, job);
    outlook_move(o, job, done_s);
    return expected(f, o, job, way);
}

bool forecaster_running(struct forecaster *f, struct forecaster_key key,
                        const struct firn_job *job, const struct firn_way *way,
                        double batch, struct running *now, struct running *ref)
{
    struct outlook *o = outlook_of(f, key, job);
    struct firn_way as = outlook_plain(f, o, way);
    if (o->app.profile == NULL || !(outlook_fit(f, o, job, &as) > 0))
        return false;
    const struct known *known = f->priors.known;
    struct spread where =
        spread_over(as.type, f->largest[as.type], as.gpus, as.nodes);
    struct setting setting = known_setting(known, &o->app, &where, batch);
    *now = (struct running){known_fit_s(known, &o->app, &where, &setting),
                            setting.split.total, 1};
    *ref = o->ref;
    return true;
}

/* --- what a job holds ---------------------------------------------------- */

/* As forecaster_held(); `rate` is its fit. A type that could not hold all of it
 * on these nodes is passed over; a simulation learns nothing from such a mix.
 */
static struct firn_way way_held(const struct forecaster *f,
                                const struct outlook *o,
                                const struct firn_job *job, int *counts,
                                double *rate)
{
    const struct firn_alloc *held = &job->held;
    const struct firn_cluster *c = f->priors.cluster;
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
        if (here > 0 ? here < *rate : f->priors.is_recorded) {
            *rate = here;
            slowest = way;
        }
    }
    *rate = isinf(*rate) ? 0 : *rate;
    return slowest;
}

struct firn_way forecaster_held(struct forecaster *f, struct forecaster_key key,
                                const struct firn_job *job, int *counts)
{
    double rate;
    return way_held(f, outlook_of(f, key, job), job, counts, &rate);
}

/* --- corrections --------------------------------------------------------- */

static void set_mean(struct outlook *o)
{
    double sum = 0;
    if (o->tried.n <= 1) {
        o->correction = o->tried.n == 1 ? o->tried.at[0].ratio : 1;
        return;
    }
    for (size_t i = 0; i < o->tried.n; i++)
        sum += fm_log(o->tried.at[i].ratio);
    o->correction = fm_exp(sum / (double)o->tried.n);
}

/* All ratios again, from what was reported. */
static void correct_all(struct forecaster *f, struct outlook *o,
                        const struct firn_job *job)
{
    const size_t part = o->part;
    const struct reported setting = o->setting;
    for (size_t i = 0; i < o->tried.n; i++) {
        struct tried *tried = &o->tried.at[i];
        struct firn_way way = tried->way;
        way.counts = tried->is_mixed ? tried->counts : NULL;
        o->setting = tried->setting;
        o->part = tried->part < o->parts.n ? tried->part : 0;
        double fit = outlook_fit(f, o, job, &way);
        tried->rate = tried->share * job->spec.duration_s;
        tried->ratio = fit > 0 ? tried->rate / fit : 1;
    }
    o->part = part;
    o->setting = setting;
    set_mean(o);
}

static struct tried *tried_of(const struct forecaster *f, struct outlook *o,
                              const struct firn_way *way)
{
    size_t i = 0;
    while (i < o->tried.n && !is_tried(f, &o->tried.at[i], way))
        i++;
    if (i == o->tried.n) {
        struct tried first = {.way = *way, .is_mixed = way->counts != NULL};
        for (int t = 0; first.is_mixed && t < f->priors.cluster->ntypes; t++)
            first.counts[t] = way->counts[t];
        first.way.counts = NULL;
        vec_add(&o->tried, first);
    }
    return &o->tried.at[i];
}

/* The GPUs of a type beyond which it was seen to get slower; 0: none. */
static int useful_gpus(const struct outlook *o)
{
    int most = 0;
    for (size_t i = 0; i < o->tried.n; i++)
        for (size_t k = 0; k < o->tried.n; k++) {
            const struct tried *few = &o->tried.at[i], *many = &o->tried.at[k];
            if (few->is_alone && many->is_alone &&
                few->way.type == many->way.type &&
                few->way.gpus < many->way.gpus && many->n >= SETTLED &&
                many->share < SLOWER * few->share &&
                (most == 0 || few->way.gpus < most))
                most = few->way.gpus;
        }
    return most;
}

/* Run that way, whose fit is `fit`, the job goes at `rate`. A way goes by up
 * to four names, all of which are to answer so at once. */
static void correct(const struct forecaster *f, struct outlook *o,
                    const struct firn_job *job, const struct firn_way *way,
                    double rate, double fit, bool is_alone)
{
    if (o->tried.n > 0 && !o->tried.at[0].is_alone && is_alone)
        o->tried.n = o->stay = 0; /* those were estimates */
    struct tried *tried = tried_of(f, o, way);
    size_t stay = (size_t)(tried - o->tried.at) + 1;
    bool is_more = o->stay == stay && tried->starts == job->starts &&
                   tried->part == o->part &&
                   tried->setting.batch == o->setting.batch &&
                   tried->setting.nfrozen == o->setting.nfrozen;
    if (is_more)
        rate = tried->rate + REPORT_RATE * (rate - tried->rate);
    o->stay = stay;
    tried->n = is_more ? tried->n + 1 : 1;
    tried->ratio = rate / fit;
    tried->rate = rate;
    tried->share = rate / job->spec.duration_s;
    tried->setting = o->setting;
    tried->part = o->part;
    tried->starts = job->starts;
    tried->is_alone = is_alone;
    for (int i = 0; i < 4; i++) {
        struct firn_way alias = *way;
        alias.nodes = i & 1 ? 0 : way->nodes;
        alias.type = i & 2 ? FIRN_ANY_TYPE : way->type;
        struct firn_way as = outlook_plain(f, o, &alias);
        if (is_same(&as, way) && waytable_holds(&alias))
            waytable_put(&o->answers, &alias, -rate);
    }
    set_mean(o);
    if (tried->n >= SETTLED || o->useful_gpus > 0)
        o->useful_gpus = useful_gpus(o);
}

/* --- reports ------------------------------------------------------------- */

static bool is_seen(const struct outlook *o)
{
    return o->tried.n > 0 && o->tried.at[0].is_alone;
}

bool forecaster_is_seen(const struct forecaster *f, struct forecaster_key key)
{
    const struct outlook *o = outlook_find(f, key);
    return o != NULL && is_seen(o);
}

/* Alone at last: what its pair cost. The first report after the other job has
 * left may be of both times. */
static void learn_past_pair(struct forecaster *f, struct outlook *o,
                            const struct firn_job *job,
                            const struct firn_way *way)
{
    if (o->nbeside == 0 || ++o->nalone < ALONE_MIN)
        return;
    o->nbeside = 0;
    if (is_same(&o->beside_way, way))
        pair_add(f, pair_number(f, job->spec.app), o->beside_app,
                 o->tried.at[o->stay - 1].share / o->beside_share);
}

/* Beside another job, and never seen alone; `fit` is that of the way. */
static void learn_first_pair(struct forecaster *f, struct outlook *o,
                             const struct forecaster_report *report,
                             const struct firn_way *way, double fit)
{
    const struct firn_job *job = report->job;
    int a = pair_number(f, job->spec.app), b = pair_number(f, report->beside);
    double share = report->rate / job->spec.duration_s;
    double alone_s = law_alone_s(f, report);
    if (alone_s > 0)
        pair_add(f, a, b, report->step_s / alone_s);
    if (b != o->beside_app || !is_same(&o->beside_way, way))
        o->nbeside = 0;
    if (o->nbeside++ == 0)
        o->beside_share = share;
    o->beside_share += REPORT_RATE * (share - o->beside_share);
    o->beside_app = b;
    o->beside_way = *way;
    o->beside_way.counts = NULL;
    correct(f, o, job, way, report->rate / FIRN_SHARING_LAMBDA, fit, false);
}

static void learn_pair(struct forecaster *f, struct outlook *o,
                       const struct forecaster_report *report,
                       const struct firn_way *way, double fit)
{
    const char *app = report->job->spec.app;
    const struct known *known = f->priors.known;
    if (f->priors.is_recorded &&
        (o->pair_app < 0 ||
         known_find(known, report->beside, UINT32_MAX).profile == NULL))
        return; /* its slowdown is a constant of the simulation */
    if (!f->priors.is_recorded && !is_seen(o)) {
        learn_first_pair(f, o, report, way, fit);
        return;
    }
    o->stay = 0;
    pair_add(f, o->pair_app >= 0 ? o->pair_app : pair_number(f, app),
             pair_number(f, report->beside),
             expected(f, o, report->job, way) / report->rate);
}

/* What the trainer reports of its settings. */
static void learn_setting(struct forecaster *f, struct outlook *o,
                          const struct forecaster_report *report)
{
    struct reported setting = {report->batch > 0 ? report->batch : 0,
                               report->nfrozen > 0 ? report->nfrozen : 0};
    if (!(report->step_s > 0) || (setting.batch == o->setting.batch &&
                                  setting.nfrozen == o->setting.nfrozen))
        return;
    o->setting = setting;
    refresh(f, o, report->job);
}

/* The variances that it reports are news: ways are worth something else. Those
 * of frozen layers stay as they were when they froze. */
static void learn_variance(struct forecaster *f, struct outlook *o,
                           const struct forecaster_report *report)
{
    size_t n = report->nlayers, nfrozen = (size_t)fmax(report->nfrozen, 0);
    struct firn_error ignored;
    if (report->variance == NULL || n < 2 || nfrozen >= n)
        return;
    bool is_same = o->freeze.nlayers == n && o->freeze.nfrozen == nfrozen;
    for (size_t i = nfrozen; i < n && is_same; i++)
        is_same = o->freeze.value[i] == fmax(report->variance[i], 0);
    if (is_same)
        return;
    if (o->freeze.nlayers != n) {
        mem_free(o->freeze_storage);
        o->freeze_storage =
            mem_new(FIRN_FREEZE_DOUBLES(n), sizeof *o->freeze_storage);
        firn_freeze_init(&o->freeze, o->freeze_storage, n);
    }
    if (firn_freeze_set(&o->freeze, nfrozen, &ignored) == FIRN_OK)
        firn_freeze_observe(&o->freeze, report->variance, n, &ignored);
    refresh(f, o, report->job);
}

bool forecaster_setting(struct forecaster *f, struct forecaster_key key,
                        const struct firn_job *job, const struct firn_way *way,
                        double done_s, struct firn_setting *out)
{
    struct outlook *o = outlook_of(f, key, job);
    outlook_move(o, job, done_s);
    struct firn_way as = outlook_plain(f, o, way);
    if (o->app.profile == NULL || !(outlook_fit(f, o, job, &as) > 0) ||
        (as.tunes & FIRN_TUNE_THREADS))
        return false;
    struct spread where =
        spread_over(as.type, f->largest[as.type], as.gpus, as.nodes);
    struct setting setting = outlook_setting(f, o, job, &where, &as);
    *out = (struct firn_setting){0, -1, setting.psi};
    if ((as.tunes & FIRN_TUNE_BATCH) && trainer_can_tune(o->app.profile))
        out->batch = floor(setting.split.total);
    if (o->freeze.nlayers > 1 && o->app.profile->layers >= 2)
        out->nfrozen = (int)floor(setting.frozen * (double)o->freeze.nlayers /
                                      o->app.profile->layers +
                                  0.5);
    return true;
}

void forecaster_learn(struct forecaster *f, struct forecaster_key key,
                      const struct forecaster_report *report)
{
    const struct firn_job *job = report->job;
    struct outlook *o = outlook_of(f, key, job);
    int counts[FIRN_TYPES_MAX];
    double fit;
    if (job->held.nparts == 0 || !(report->rate > 0) ||
        !(job->spec.duration_s > 0))
        return;
    learn_setting(f, o, report);
    learn_variance(f, o, report);
    outlook_move(o, job, report->done_s);
    struct firn_way way = way_held(f, o, job, counts, &fit);
    if (!(fit > 0))
        return;
    if (report->is_alone) {
        correct(f, o, job, &way, report->rate, fit, true);
        learn_past_pair(f, o, job, &way);
        law_learn(f, report);
    } else if (report->beside != NULL)
        learn_pair(f, o, report, &way, fit);
}

/* --- limits -------------------------------------------------------------- */

/* The GPUs that its batch can be split over; 0: not known. */
static double batch_gpus(const struct forecaster *f, const struct outlook *o,
                         const struct firn_job *job, unsigned tunes)
{
    const struct firn_profile *p = o->app.profile;
    double batch = job->spec.batch;
    if (p == NULL)
        return batch;
    batch = batch > 0 ? batch : p->batch0;
    if ((tunes & FIRN_TUNE_BATCH) && trainer_can_tune(p))
        batch = p->batch_max;
    return batch > 0 ? batch / known_local_min(f->priors.known, &o->app,
                                               (uint32_t)1 << o->type)
                     : 0;
}

int forecaster_gpus_max(struct forecaster *f, struct forecaster_key key,
                        const struct firn_job *job, unsigned tunes)
{
    const struct outlook *o = outlook_of(f, key, job);
    bool has_threads = (tunes & FIRN_TUNE_THREADS) != 0;
    int most = job->spec.gpus_max;
    double limit = o->is_llm     ? llmjobs_gpus_max(&o->llm)
                   : has_threads ? 0
                                 : batch_gpus(f, o, job, tunes);
    if (limit > 0 && limit < most)
        most = (int)limit;
    if (o->useful_gpus > 0 && o->useful_gpus < most)
        most = o->useful_gpus;
    if (has_threads || job->spec.threads > 0) {
        int threads = threads_number(&job->spec);
        most = threads < most ? threads : most;
    }
    return most;
}

size_t forecaster_llm_ways(struct forecaster *f, struct forecaster_key key,
                           const struct firn_job *job, struct firn_llm_way *out,
                           size_t max)
{
    const struct outlook *o = outlook_of(f, key, job);
    return o->is_llm ? llmjobs_ways(&o->llm, f->priors.cluster, job,
                                    o->correction, out, max)
                     : 0;
}

unsigned forecaster_parallels(struct forecaster *f, struct forecaster_key key,
                              const struct firn_job *job)
{
    const struct outlook *o = outlook_of(f, key, job);
    if (o->plan.model != NULL)
        return planjobs_parallels(&o->plan);
    if (o->app.profile == NULL || o->type < 0)
        return 0;
    return known_parallels(f->priors.known, &o->app, (uint32_t)1 << o->type);
}

int forecaster_executors(struct forecaster *f, struct forecaster_key key,
                         const struct firn_job *job, firn_type_id type,
                         struct firn_executor_ways *out)
{
    const struct outlook *o = outlook_of(f, key, job);
    out->n = 0;
    if (o->is_llm || o->app.profile == NULL)
        return 0;
    return threads_executors(f->priors.known, &o->app, type, o->ref.batch,
                             threads_number(&job->spec), out);
}

bool forecaster_lay_out(struct forecaster *f, struct forecaster_key key,
                        const struct firn_job *job, const struct firn_way *way,
                        struct firn_waste_type *types)
{
    const struct outlook *o = outlook_of(f, key, job);
    struct firn_way as = outlook_plain(f, o, way);
    return outlook_threads(f, o, job, &as, types);
}
