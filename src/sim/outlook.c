/* outlook.c - how fast a job would go some way, by the fit alone.
 *
 * The rate is sim/truth_table.c's, with step times of the profile's fit for
 * the job and its reference alike. Elastic threads go by sim/threads.c,
 * language models by core/llmjobs.c, and jobs without a profile by the trace,
 * as in sim/truth.c. The part of training is the one the job is in.
 *
 * Pure: what was reported does not come in here.
 */
#include "sim/outlook.h"
#include "base/fmath.h"
#include "sim/threads.h"
#include <math.h>

static double by_profile(const struct forecast *f, const struct outlook *o,
                         const struct firn_job *job, const struct spread *where,
                         const struct firn_way *way)
{
    const struct known *known = &f->table->known;
    unsigned tunes = way->tunes;
    struct trainer_ask ask = {.app = &o->app,
                              .where = where,
                              .batch = job->spec.batch,
                              .tunes = tunes,
                              .passes = way->passes,
                              .frozen_max = job->spec.frozen_max,
                              .parallel = (enum firn_parallel)way->parallel,
                              .stages = way->stages};
    size_t stage = o->part / o->parts.pieces;
    bool is_cut = trainer_rule(f->table->trainer, o->app.profile, tunes) !=
                  FIRN_SIM_FREEZE_OFF;
    struct setting setting =
        trainer_setting(f->table->trainer, &ask, is_cut ? o->part : stage);
    if (!known_fits(known, &o->app, where, &setting))
        return 0;
    struct running now = {known_fit_s(known, &o->app, where, &setting),
                          setting.split.total, setting.psi};
    return running_rate(o->app.profile, stage, &o->ref, &now);
}

/* The same of a way with elastic threads. */
static double fit_threads(const struct forecast *f, const struct outlook *o,
                          const struct firn_job *job,
                          const struct firn_way *way)
{
    const struct firn_cluster *c = f->base.cluster;
    int counts[FIRN_TYPES_MAX];
    if (!threads_ask(c, job, way, counts))
        return 0;
    struct spread where = threads_spread(c, f->largest, counts, way->nodes);
    if (where.nodes == 0)
        return 0;
    if (o->app.profile == NULL)
        return threads_rate(&f->base, &job->spec, counts);
    unsigned tunes = way->tunes & ~(unsigned)FIRN_TUNE_THREADS;
    struct trainer_ask ask = {.app = &o->app,
                              .where = &where,
                              .batch = job->spec.batch,
                              .tunes = tunes,
                              .frozen_max = job->spec.frozen_max};
    size_t stage = o->part / o->parts.pieces;
    bool is_cut = trainer_rule(f->table->trainer, o->app.profile, tunes) !=
                  FIRN_SIM_FREEZE_OFF;
    struct setting setting =
        trainer_setting(f->table->trainer, &ask, is_cut ? o->part : stage);
    struct threads threads = {
        &f->table->known,           &o->app,      &where,     counts,
        threads_number(&job->spec), o->ref.batch, known_fit_s};
    struct running now = {threads_iteration_s(&threads, &setting), o->ref.batch,
                          setting.psi};
    return running_rate(o->app.profile, stage, &o->ref, &now);
}

double outlook_fit(const struct forecast *f, const struct outlook *o,
                   const struct firn_job *job, const struct firn_way *way)
{
    const struct firn_cluster *c = f->base.cluster;
    firn_type_id type = way->type;
    if ((way->tunes & FIRN_TUNE_THREADS) && !o->is_llm)
        return fit_threads(f, o, job, way);
    if (type < 0 || type >= c->ntypes || !(job->type_mask >> type & 1) ||
        way->gpus < 1 || way->nodes < 0)
        return 0;
    struct spread where =
        spread_over(type, f->largest[type], way->gpus, way->nodes);
    if (where.nodes == 0)
        return 0;
    if (o->is_llm) {
        struct llmspot spot = llmjobs_packed(c, type, way->gpus, way->nodes);
        return llmjobs_expect(&o->llm, &spot, way->tensor, NULL);
    }
    if (o->app.profile != NULL)
        return by_profile(f, o, job, &where, way);
    double times = (double)way->gpus / job->spec.gpus;
    return c->types[type].speed *
           (times == 1 ? 1 : fm_pow(times, f->base.scaling));
}

/* Counts of one type are no counts; of several, there is no type. */
static void settle_counts(const struct forecast *f, struct firn_way *way)
{
    int ntypes = 0;
    if (way->counts == NULL || !(way->tunes & FIRN_TUNE_THREADS))
        return;
    struct firn_way one = *way;
    one.counts = NULL;
    for (int t = 0; t < f->base.cluster->ntypes; t++) {
        ntypes += way->counts[t] != 0;
        one.type = way->counts[t] != 0 ? t : one.type;
    }
    if (ntypes == 1 && way->counts[one.type] == way->gpus)
        *way = one;
    else
        way->type = FIRN_TYPES_MAX;
    if (way->counts != NULL && way->nodes == 0)
        way->nodes =
            threads_spread(f->base.cluster, f->largest, way->counts, 0).nodes;
}

struct firn_way outlook_plain(const struct forecast *f, const struct outlook *o,
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
