/* trainer.c - batches tuned for goodput, layers frozen by rule.
 *
 * Batch: firn_goodput_best() of the fit on the GPUs held, first with the
 * gradient statistics at the initial batch, then once more with those at the
 * batch that gave, as a trainer that measures where it is would find. On
 * several types the slowest is asked. Without statistics or limits the batch
 * stays as submitted; where no batch is within them it is the initial one.
 *
 * Freezing, at the beginning of each part of training, by the rule given to
 * trainer_new(); without one by penalty if the policy leaves it to the trainer,
 * else not at all:
 *   freezeout        Brock et al.'s cubic schedule with t0 = 0.8. Nothing is
 *                    owed: what it costs in accuracy is not modelled.
 *   tuned-freezeout  t0 of 0.3 .. 1 (never) by which the whole training ends
 *                    first, counted in effective progress (IceFrog (2)).
 *   penalty          IceFrog's tuner (15): the layers with the most effective
 *                    progress now, at most 90 % of them.
 * The last two choose by fitted step times, or by wrong ones (a doubt): then
 * the choice may be a bad one, and what is expected of it wrong (`belief`).
 * They owe 1/psi - 1 iterations for each. psi (3) needs the variance each layer
 * had when it was frozen, hence what came before. That is taken as if the job
 * had always been where it is: so a setting is a pure function of where and how
 * far, and a job that comes back finds it unchanged. With the batch tuned too,
 * each part tunes the batch for the layers that were frozen in the part before,
 * then the layers for that batch.
 *
 * Invariants: (1) psi >= PSI_MIN, so every job ends; (2) settings do not
 * depend on the order of questions.
 *
 * Cost: 50 to 100 evaluations of the model a part for the batch, L/step for
 * layers, once for each (profile, place, batch, way); a look-up after that.
 */
#include "core/trainer.h"
#include "base/mem.h"
#include <firn/freeze.h>
#include <math.h>
#include <string.h>

#define PSI_MIN 0.01

/* What settings depend on, but for the part. */
struct course_key {
    size_t which;
    firn_type_id ref;
    uint32_t types;
    int nodes, gpus, fullest;
    double batch;
    int passes;
    double frozen_max;
    enum firn_parallel parallel;
    int stages;
    bool tunes_batch;
    enum freeze_rule rule;
    firn_job_id job; /* FIRN_NO_JOB without a doubt */
};

struct course {
    struct course_key key;
    size_t n, done; /* parts; those set, from the first on */
    struct setting *at;
    double *storage; /* behind `freeze`; NULL without variances */
    struct firn_freeze freeze;
    double first; /* t0 of FreezeOut */
};

struct trainer {
    const struct known *known;
    enum freeze_rule rule;
    struct trainer_doubt doubt;
    struct course **cells; /* by hash; a power of two of them */
    size_t ncells, n;
};

struct trainer *trainer_new(const struct known *known, enum freeze_rule rule)
{
    struct trainer *t = mem_new(1, sizeof *t);
    t->known = known;
    t->rule = rule;
    t->ncells = 64;
    t->cells = mem_new(t->ncells, sizeof(struct course *));
    return t;
}

void trainer_clear(struct trainer *t)
{
    for (size_t i = 0; i < t->ncells; i++) {
        if (t->cells[i] == NULL)
            continue;
        mem_free(t->cells[i]->at);
        mem_free(t->cells[i]->storage);
        mem_free(t->cells[i]);
        t->cells[i] = NULL;
    }
    t->n = 0;
}

void trainer_free(struct trainer *t)
{
    if (t == NULL)
        return;
    trainer_clear(t);
    mem_free(t->cells);
    mem_free(t);
}

void trainer_set_doubt(struct trainer *t, struct trainer_doubt doubt)
{
    trainer_clear(t);
    t->doubt = doubt;
}

enum freeze_rule trainer_rule(const struct trainer *trainer,
                              const struct firn_profile *profile,
                              unsigned tunes)
{
    enum freeze_rule rule = trainer->rule;
    if (rule == FREEZE_POLICY)
        rule = tunes & FIRN_TUNE_FREEZE ? FREEZE_PENALTY : FREEZE_OFF;
    if (rule == FREEZE_OFF ||
        !known_can_freeze(profile, rule != FREEZE_FREEZEOUT))
        return FREEZE_OFF;
    return rule;
}

bool trainer_can_tune(const struct firn_profile *profile)
{
    return profile->stats.nbatches > 0 && profile->stats.nstages > 0 &&
           profile->batch0 > 0 && profile->batch_max >= profile->batch0;
}

struct parts trainer_parts(const struct trainer *trainer,
                           const struct trainer_ask *ask)
{
    const struct firn_profile *p = ask->app->profile;
    return known_parts(p, trainer_rule(trainer, p, ask->tunes) != FREEZE_OFF);
}

/* --- the batch ------------------------------------------------------------ */

/* The type that takes longest for the batch as submitted. */
static const struct firn_profile_gpu *slowest(const struct trainer *t,
                                              const struct trainer_ask *ask,
                                              const struct setting *setting)
{
    const struct firn_profile_gpu *worst = NULL;
    double longest_s = 0, slower;
    for (uint32_t types = ask->where->types; types; types &= types - 1) {
        struct spread on = *ask->where;
        on.types = types & ~(types - 1);
        double time_s = known_fit_s(t->known, ask->app, &on, setting);
        if (worst == NULL || time_s > longest_s) {
            worst =
                known_gpu(t->known, ask->app, __builtin_ctz(types), &slower);
            longest_s = time_s;
        }
    }
    return worst;
}

static void tune_batch(const struct trainer *t, const struct trainer_ask *ask,
                       size_t stage, double frozen, struct setting *setting)
{
    const struct firn_profile *p = ask->app->profile;
    const struct spread *where = ask->where;
    const struct firn_profile_gpu *gpu = slowest(t, ask, setting);
    struct firn_profile_frozen left = firn_profile_unfrozen(p, frozen);
    struct firn_batch_limits limits = {
        .per_gpu_min = known_local_min(t->known, ask->app, where->types),
        .per_gpu_max = known_local_max(t->known, ask->app, where->types),
        .total_max = p->batch_max,
    };
    struct firn_shape shape = {
        .nodes = where->nodes,
        .gpus = where->gpus,
        .gpus_on_fullest = where->fullest,
        .theta = left.theta,
        .omega = left.omega,
    };
    double at = p->batch0;
    for (int pass = 0; pass < 2; pass++) {
        struct firn_noise noise = firn_profile_noise(p, stage, at);
        struct firn_batch_choice best =
            firn_goodput_best(&gpu->time, &noise, &limits, &shape, 1);
        if (!(best.goodput > 0))
            return;
        at = where->gpus * best.batch_per_gpu * best.accum_steps;
        setting->split =
            (struct firn_batch_split){best.batch_per_gpu, best.accum_steps, at};
    }
}

/* --- the layers ---------------------------------------------------------- */

/* For the callbacks of firn/freeze.h. */
struct layers_ask {
    const struct trainer *t;
    const struct trainer_ask *ask;
    struct setting setting;
};

static double belief(const struct layers_ask *a, size_t nfrozen)
{
    const struct trainer_doubt *doubt = &a->t->doubt;
    return doubt->factor != NULL ? doubt->factor(doubt->arg, a->ask, nfrozen)
                                 : 1;
}

static double samples_s(const void *context, int batch, size_t nfrozen)
{
    const struct layers_ask *a = context;
    struct setting setting = a->setting;
    (void)batch; /* one candidate: the one that is set */
    setting.frozen = (double)nfrozen;
    return belief(a, nfrozen) * setting.split.total /
           known_fit_s(a->t->known, a->ask->app, a->ask->where, &setting);
}

/* Effective progress with the variances that the stage there has. */
static double progress_s(const void *context, double progress, size_t nfrozen)
{
    const struct layers_ask *a = context;
    const struct firn_profile *p = a->ask->app->profile;
    const struct firn_profile_stats *s = &p->stats;
    size_t stage = firn_profile_stage(p, progress * known_work(p));
    const double *var = s->layer_var + stage * s->nlayers;
    double all = 0, left = 0;
    for (size_t i = 0; i < s->nlayers; i++) {
        double v = fmax(var[i], 0);
        all += v;
        left += i >= nfrozen ? v : 0;
    }
    double psi = all > 0 ? left / all : 1;
    return psi * samples_s(context, 0, nfrozen);
}

static const struct firn_freezeout freezeout = {
    .first = 0.8, .cubic = true, .scaled = true};

static double tune_first(const struct layers_ask *a, size_t nlayers)
{
    static const double firsts[] = {0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1};
    return firn_freezeout_tune(&freezeout, nlayers, 0, firsts,
                               sizeof firsts / sizeof *firsts, progress_s, a);
}

/* How many layers the rule freezes in part k. */
static size_t choose_layers(struct course *c, const struct layers_ask *a,
                            double share)
{
    size_t nlayers = (size_t)a->ask->app->profile->layers;
    if (c->key.rule == FREEZE_PENALTY) {
        struct firn_tuner tuner = firn_tuner_default();
        int batch = 1;
        struct firn_tuner_ask ask = {.freeze = &c->freeze,
                                     .batches = &batch,
                                     .nbatches = 1,
                                     .rate = samples_s,
                                     .context = a,
                                     .progress = share};
        struct firn_tuning best = {0};
        tuner.layer_step = 1 + nlayers / 32;
        if (c->key.frozen_max > 0)
            tuner.max_share = fmin(tuner.max_share, c->key.frozen_max);
        firn_tuner_best(&tuner, &ask, &best);
        return best.nfrozen;
    }
    if (c->done == 0)
        c->first = c->key.rule == FREEZE_FREEZEOUT ? freezeout.first
                                                   : tune_first(a, nlayers);
    struct firn_freezeout rule = freezeout;
    rule.first = c->first;
    size_t nfrozen = firn_freezeout_frozen(&rule, nlayers, share);
    if (c->key.frozen_max > 0)
        nfrozen =
            (size_t)fmin((double)nfrozen, c->key.frozen_max * (double)nlayers);
    return nfrozen;
}

static void freeze(struct course *c, const struct trainer *t,
                   const struct trainer_ask *ask, size_t stage, double share,
                   struct setting *setting)
{
    const struct firn_profile_stats *s = &ask->app->profile->stats;
    struct layers_ask a = {t, ask, *setting};
    struct firn_error err = {0};
    if (c->storage != NULL &&
        firn_freeze_observe(&c->freeze, s->layer_var + stage * s->nlayers,
                            s->nlayers, &err) != FIRN_OK)
        FIRN_BUG("%s", err.text);
    size_t nfrozen = choose_layers(c, &a, share);
    setting->frozen = (double)nfrozen;
    setting->belief = belief(&a, nfrozen);
    if (c->storage == NULL)
        return;
    setting->psi = fmax(firn_freeze_penalty(&c->freeze, nfrozen), PSI_MIN);
    if (firn_freeze_set(&c->freeze, nfrozen, &err) != FIRN_OK)
        FIRN_BUG("%s", err.text);
}

/* --- courses ------------------------------------------------------------- */

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static uint64_t hash(const struct course_key *k)
{
    uint64_t h = mix(k->which, (uint64_t)k->ref << 32 | k->types);
    h = mix(h, (uint64_t)k->gpus << 32 | (uint64_t)k->nodes);
    h = mix(h, (uint64_t)k->fullest << 32 | (uint64_t)(int64_t)k->batch);
    h = mix(h, (uint64_t)k->passes << 32 | (uint64_t)(1e6 * k->frozen_max));
    h = mix(h, (uint64_t)k->stages << 32 | (uint64_t)k->parallel);
    h = mix(h, (uint64_t)k->job);
    return mix(h, (uint64_t)k->rule << 1 | k->tunes_batch);
}

static bool is_same(const struct course_key *a, const struct course_key *b)
{
    return a->which == b->which && a->ref == b->ref && a->types == b->types &&
           a->nodes == b->nodes && a->gpus == b->gpus &&
           a->fullest == b->fullest && a->batch == b->batch &&
           a->passes == b->passes && a->tunes_batch == b->tunes_batch &&
           a->rule == b->rule && a->frozen_max == b->frozen_max &&
           a->parallel == b->parallel && a->stages == b->stages &&
           a->job == b->job;
}

/* Where the course of that key is or belongs. */
static struct course **cell_of(struct course **cells, size_t ncells,
                               const struct course_key *key)
{
    size_t i = (size_t)hash(key) & (ncells - 1);
    while (cells[i] != NULL && !is_same(&cells[i]->key, key))
        i = (i + 1) & (ncells - 1);
    return &cells[i];
}

static void grow(struct trainer *t)
{
    size_t ncells = 2 * t->ncells;
    struct course **cells = mem_new(ncells, sizeof(struct course *));
    for (size_t i = 0; i < t->ncells; i++)
        if (t->cells[i] != NULL)
            *cell_of(cells, ncells, &t->cells[i]->key) = t->cells[i];
    mem_free(t->cells);
    t->cells = cells;
    t->ncells = ncells;
}

static struct course *course_new(const struct course_key *key,
                                 const struct firn_profile *p, size_t n)
{
    struct course *c = mem_new(1, sizeof *c);
    c->key = *key;
    c->n = n;
    c->at = mem_new(n, sizeof *c->at);
    if (key->rule == FREEZE_TUNED || key->rule == FREEZE_PENALTY) {
        c->storage =
            mem_new(FIRN_FREEZE_DOUBLES(p->stats.nlayers), sizeof *c->storage);
        firn_freeze_init(&c->freeze, c->storage, p->stats.nlayers);
    }
    return c;
}

static struct course *course_of(struct trainer *t,
                                const struct trainer_ask *ask,
                                enum freeze_rule rule, size_t n)
{
    bool tunes = ask->tunes & FIRN_TUNE_BATCH;
    struct course_key key = {
        .which = ask->app->which,
        .ref = ask->app->ref,
        .types = ask->where->types,
        .nodes = ask->where->nodes,
        .gpus = ask->where->gpus,
        .fullest = ask->where->fullest,
        .frozen_max = ask->frozen_max,
        .parallel = ask->parallel,
        .stages = ask->stages,
        .tunes_batch = tunes && trainer_can_tune(ask->app->profile),
        .rule = rule,
        .job = t->doubt.factor != NULL ? ask->job : FIRN_NO_JOB,
    };
    key.batch = key.tunes_batch ? 0 : ask->batch;
    key.passes = key.tunes_batch ? 0 : ask->passes;
    struct course **cell = cell_of(t->cells, t->ncells, &key);
    if (*cell != NULL)
        return *cell;
    if (2 * ++t->n > t->ncells) {
        grow(t);
        cell = cell_of(t->cells, t->ncells, &key);
    }
    *cell = course_new(&key, ask->app->profile, n);
    return *cell;
}

/* As submitted, in that many passes. */
static struct setting asked(const struct trainer *t,
                            const struct trainer_ask *ask, double batch,
                            int passes)
{
    struct setting as = {.parallel = ask->parallel, .stages = ask->stages};
    struct setting setting =
        known_setting_as(t->known, ask->app, ask->where, batch, &as);
    if (passes == 0)
        return setting;
    return known_passes(t->known, ask->app, ask->where->types, &setting,
                        passes);
}

struct setting trainer_plain(const struct trainer *trainer,
                             const struct trainer_ask *ask)
{
    return asked(trainer, ask, ask->batch, ask->passes);
}

static struct setting set(struct course *c, const struct trainer *t,
                          const struct trainer_ask *ask, struct parts parts,
                          size_t k)
{
    struct setting setting = asked(t, ask, c->key.batch, c->key.passes);
    double was = k > 0 ? c->at[k - 1].frozen : 0;
    size_t stage = k / parts.pieces;
    if (c->key.tunes_batch)
        tune_batch(t, ask, stage, was, &setting);
    if (c->key.rule != FREEZE_OFF)
        freeze(c, t, ask, stage, known_share(ask->app->profile, parts, k),
               &setting);
    return setting;
}

struct setting trainer_setting(struct trainer *trainer,
                               const struct trainer_ask *ask, size_t k)
{
    const struct firn_profile *p = ask->app->profile;
    enum freeze_rule rule = trainer_rule(trainer, p, ask->tunes);
    bool freezes = rule != FREEZE_OFF;
    if (!freezes && !((ask->tunes & FIRN_TUNE_BATCH) && trainer_can_tune(p)))
        return asked(trainer, ask, ask->batch, ask->passes);
    struct parts parts = known_parts(p, freezes);
    struct course *c = course_of(trainer, ask, rule, parts.n);
    if (!freezes) { /* nothing depends on what came before */
        if (c->at[k].split.accum_steps == 0)
            c->at[k] = set(c, trainer, ask, parts, k);
        return c->at[k];
    }
    for (; c->done <= k; c->done++)
        c->at[c->done] = set(c, trainer, ask, parts, c->done);
    return c->at[k];
}
