/* truth_table.c - rates from measured step times and gradient statistics.
 *
 * A job trains at the batch it was submitted with, or at what its trainer sets
 * (core/trainer.h) where it may set something. An iteration on what it holds
 * takes T (core/known.c) and is worth psi gain(B') iterations at the initial
 * batch, B' being the batch as rounded, the gain that of the stage of training
 * and psi below 1 where frozen layers cost progress. The reference is the same
 * job as submitted, packed on the GPUs it asked for, of the first type of the
 * cluster that it accepts and the profile knows. Hence
 *
 *     rate = (psi gain(B') / T) / (gain(B'ref) / Tref)
 *     duration = sum over stages of work x Tref / gain(B'ref)
 *
 * so that done_s, counted in reference seconds, tells the stage. Where B' is
 * B'ref and nothing is frozen the rate never changes. The duration replaces
 * only one that the trace did not record (spec.is_nominal). Where the profile
 * does not say how much work there is, a nominal duration does: it is that of
 * one GPU over the GPUs asked for, and what these lose to each other by
 * measurement is added.
 *
 * A trainer decides by the fits; how fast that really is, is measured.
 *
 * A job whose execution plans were measured goes by the row of its plan where
 * there is one, and by the fitted terms where there is none (core/planjobs.c).
 *
 * Fine-tuning tasks that are merged, or begin with another's weights, go as
 * transfers.c has it; the work of such a task is its epochs.
 *
 * Shared GPUs: the largest measured slowdown beside any of the neighbours; the
 * constant for a neighbour it was never measured beside. A profile may have a
 * table of them by GPU type and by the samples in a pass of the two; a job on
 * several types goes by the first.
 */
#include "sim/truth_table.h"
#include "base/mem.h"
#include "core/llmjobs.h"
#include "core/planjobs.h"
#include "core/threads.h"
#include "sim/transfers.h"
#include <math.h>

/* Of its speed, where elastic threads do not fit into memory. */
#define UNFIT 0.1

/* One job where it is. */
struct going {
    const struct truth_table *t;
    struct known_app app;
    struct spread here;
    struct trainer_ask ask; /* points to the two above */
    struct parts parts;
    struct running ref;
    struct threads threads; /* none: number 0 */
    int counts[FIRN_TYPES_MAX];
};

static struct running run(const struct truth_table *t,
                          const struct known_app *app,
                          const struct spread *where,
                          const struct setting *setting)
{
    return (struct running){
        .iteration_s = tables_true_s(&t->tables.known, app, where, setting),
        .batch = setting->split.total,
        .psi = setting->psi,
    };
}

/* At the batch submitted, packed on `gpus` GPUs of the reference type. */
static struct running packed(const struct truth_table *t,
                             const struct known_app *app,
                             const struct firn_job_spec *spec, int gpus)
{
    int most = spread_largest(t->tables.known.cluster, app->ref);
    struct spread there = spread_packed(app->ref, most, gpus);
    struct setting asked =
        known_setting(&t->tables.known, app, &there, spec->batch);
    return run(t, app, &there, &asked);
}

static struct running reference(const struct truth_table *t,
                                const struct known_app *app,
                                const struct firn_job_spec *spec)
{
    return packed(t, app, spec, spec->gpus);
}

static double rate_in(const struct going *g, size_t part)
{
    struct setting setting = trainer_setting(g->t->trainer, &g->ask, part);
    struct running now = {.batch = g->ref.batch, .psi = setting.psi};
    if (g->threads.number > 0)
        now.iteration_s = threads_iteration_s(&g->threads, &setting) /
                          (threads_fit(&g->threads, &setting) ? 1 : UNFIT);
    else
        now = run(g->t, &g->app, &g->here, &setting);
    return running_rate(g->app.profile, part / g->parts.pieces, &g->ref, &now);
}

/* Its trainer sets something, or its batch is not the reference's. */
static bool is_changing(const struct going *g)
{
    const struct firn_profile *p = g->app.profile;
    if (g->parts.n == 1)
        return false;
    if (trainer_rule(g->t->trainer, p, g->ask.tunes) != FREEZE_OFF)
        return true;
    if ((g->ask.tunes & FIRN_TUNE_BATCH) && trainer_can_tune(p))
        return true;
    return g->threads.number == 0 &&
           trainer_setting(g->t->trainer, &g->ask, 0).split.total !=
               g->ref.batch;
}

/* The rate at done_s, and the end of the parts that have the same. */
static struct truth_pace pace_of(const struct going *g, double duration_s,
                                 double done_s)
{
    struct truth_pace pace = {0, INFINITY};
    double end_s = 0;
    if (!is_changing(g)) {
        pace.rate = rate_in(g, 0);
        return pace;
    }
    double scale = known_scale(g->app.profile, &g->ref, duration_s);
    for (size_t k = 0; k < g->parts.n; k++) {
        double next_s =
            end_s + known_part_s(g->app.profile, g->parts, k, &g->ref, scale);
        if (pace.rate > 0 || done_s < next_s || k + 1 == g->parts.n) {
            double rate = rate_in(g, k);
            if (pace.rate > 0 && rate != pace.rate) {
                pace.until_s = end_s;
                return pace;
            }
            pace.rate = rate;
        }
        end_s = next_s;
    }
    return pace;
}

static void set_threads(struct going *g, const struct firn_job_spec *spec,
                        const struct firn_alloc *alloc)
{
    threads_count(g->t->tables.known.cluster, alloc, g->counts);
    g->ask.tunes &= ~(unsigned)(FIRN_TUNE_THREADS | FIRN_TUNE_EXECUTORS);
    g->threads = (struct threads){.known = &g->t->tables.known,
                                  .app = &g->app,
                                  .where = &g->here,
                                  .counts = g->counts,
                                  .number = threads_number(spec),
                                  .batch = g->ref.batch,
                                  .has_executors =
                                      (alloc->tunes & FIRN_TUNE_EXECUTORS) != 0,
                                  .iteration_s = tables_true_s};
}

/* Samples in a pass on a GPU as the job is run there; 0: not known. */
static double samples_of(const struct truth_table *t,
                         const struct firn_job *job,
                         const struct firn_alloc *alloc)
{
    struct known_app app =
        known_find(&t->tables.known, job->spec.app, job->type_mask);
    if (app.profile == NULL || llmjobs_is(&job->spec) ||
        planjobs_is(&job->spec))
        return 0;
    struct spread here = spread_of(t->tables.known.cluster, alloc);
    struct trainer_ask ask = {.app = &app,
                              .where = &here,
                              .batch = job->spec.batch,
                              .passes = alloc->how.passes,
                              .frozen_max = job->spec.frozen_max};
    return trainer_plain(t->trainer, &ask).split.batch_per_gpu;
}

/* By the profile's table of pairs on the type it is on. */
static double by_samples(const struct going *g, const struct truth_near *near,
                         double samples)
{
    const struct truth_table *t = g->t;
    const struct firn_cluster *cluster = t->tables.known.cluster;
    const char *type = cluster->types[__builtin_ctz(g->here.types)].name;
    double worst = 1;
    for (int i = 0; i < near->njobs; i++) {
        const struct firn_job *other = near->jobs[i].job;
        double theirs = samples_of(t, other, near->jobs[i].alloc);
        double xi = firn_profile_beside_at(g->app.profile, type, samples,
                                           other->spec.app, theirs);
        worst = fmax(worst, xi > 0 ? xi : t->base.share_slowdown);
    }
    return worst;
}

/* Step time on these GPUs over that alone. */
static double slowdown(const struct going *g, const struct firn_job *job,
                       const struct firn_alloc *alloc,
                       const struct truth_near *near)
{
    const struct truth_table *t = g->t;
    double worst = 1;
    if (near->sharers < 2)
        return 1;
    if (near->napps == 0)
        return t->base.share_slowdown;
    if (g->app.profile->nsharing > 0 && near->njobs > 0)
        return by_samples(g, near, samples_of(t, job, alloc));
    for (int i = 0; i < near->napps; i++) {
        double xi = firn_profile_beside(g->app.profile, near->apps[i]);
        worst = fmax(worst, xi > 0 ? xi : t->base.share_slowdown);
    }
    return worst;
}

/* The rate while both are trained as one; 0 when they are no pair. */
static double merged_rate(const struct going *g, const struct firn_job *job,
                          const struct firn_job *with)
{
    int task = transfers_task(job->spec.app);
    int other = transfers_task(with->spec.app);
    if (!transfers_is_pair(task, other) || job->spec.batch <= 0 ||
        with->spec.batch <= 0)
        return 0;
    struct setting both =
        known_setting(&g->t->tables.known, &g->app, &g->here,
                      (double)job->spec.batch + with->spec.batch);
    struct running joint = run(g->t, &g->app, &g->here, &both);
    double epochs = transfers_together(task, other);
    double ratio =
        (epochs > 0 ? epochs : TRANSFERS_NEVER) / transfers_epochs(task);
    return transfers_rate(task, other, ratio, &joint, &g->ref);
}

/* False when no profile says how it goes. */
static bool set_out(struct going *g, const struct truth_table *t,
                    const struct firn_job *job, const struct firn_alloc *alloc)
{
    const struct firn_job_spec *spec = &job->spec;
    *g = (struct going){.t = t};
    g->app = known_find(&t->tables.known, spec->app, job->type_mask);
    if (g->app.profile == NULL || llmjobs_is(spec) || planjobs_is(spec))
        return false;
    g->here = spread_of(t->tables.known.cluster, alloc);
    g->ask = (struct trainer_ask){.app = &g->app,
                                  .where = &g->here,
                                  .batch = spec->batch,
                                  .tunes = alloc->tunes,
                                  .passes = alloc->how.passes,
                                  .frozen_max = spec->frozen_max,
                                  .parallel =
                                      (enum firn_parallel)alloc->how.parallel,
                                  .stages = alloc->how.stages,
                                  .job = job->id};
    g->parts = trainer_parts(t->trainer, &g->ask);
    g->ref = reference(t, &g->app, spec);
    if (alloc->tunes & FIRN_TUNE_THREADS)
        set_threads(g, spec, alloc);
    return true;
}

/* Of all its threads, or of its batch; with nothing frozen. */
static double step_s(const struct truth *truth, const struct firn_job *job,
                     const struct firn_alloc *alloc)
{
    struct going g;
    if (!set_out(&g, truth->state, job, alloc))
        return 0;
    struct setting setting = trainer_setting(g.t->trainer, &g.ask, 0);
    if (g.threads.number > 0)
        return threads_iteration_s(&g.threads, &setting);
    return run(g.t, &g.app, &g.here, &setting).iteration_s;
}

/* Of a job whose plans were measured. */
static double plan_rate(const struct truth_table *t, const struct firn_job *job,
                        const struct firn_alloc *alloc,
                        const struct truth_near *near)
{
    const struct firn_cluster *cluster = t->tables.known.cluster;
    struct planjob plan =
        planjobs_open(cluster, &job->spec, job->type_mask, t->tables.plans);
    struct spread where = spread_of(cluster, alloc);
    struct firn_layout how = {alloc->how.parallel, alloc->how.tensor,
                              alloc->how.stages};
    double rate = planjobs_rate(&plan, cluster, &where, &how, t->tables.plans);
    return near->sharers > 1 ? rate / t->base.share_slowdown : rate;
}

static struct truth_pace pace(const struct truth *truth,
                              const struct firn_job *job,
                              const struct firn_alloc *alloc,
                              const struct truth_near *near, double done_s)
{
    const struct truth_table *t = truth->state;
    const struct firn_job_spec *spec = &job->spec;
    struct going g;
    if (planjobs_is(spec))
        return (struct truth_pace){plan_rate(t, job, alloc, near), INFINITY};
    if (!set_out(&g, t, job, alloc)) {
        double rate = t->base.rate(&t->base, job, alloc, near->sharers);
        return (struct truth_pace){rate, INFINITY};
    }
    double merged = near->merged ? merged_rate(&g, job, near->merged) : 0;
    if (merged > 0)
        return (struct truth_pace){merged, INFINITY};
    struct truth_pace out = pace_of(&g, spec->duration_s, done_s);
    out.rate *= transfers_gain(transfers_task(spec->app), near->after);
    out.rate /= slowdown(&g, job, alloc, near);
    if (!(out.until_s < spec->duration_s))
        out.until_s = INFINITY;
    return out;
}

static double duration_s(const struct truth *truth, struct firn_job_spec *spec,
                         uint32_t types)
{
    const struct truth_table *t = truth->state;
    struct known_app app = known_find(&t->tables.known, spec->app, types);
    if (app.profile == NULL || llmjobs_is(spec) || planjobs_is(spec))
        return (double)NAN;
    if (spec->restart_s < 0 && app.profile->restart_s >= 0)
        spec->restart_s = app.profile->restart_s;
    struct running ref = reference(t, &app, spec);
    int task = transfers_task(spec->app);
    if (task > 0)
        return transfers_epochs(task) * transfers_samples(task) / ref.batch *
               ref.iteration_s;
    if (app.profile->progress > 0)
        return known_alone_s(app.profile, &ref);
    if (!spec->is_nominal)
        return (double)NAN;
    if (spec->threads == spec->gpus) /* each does the same work anywhere */
        return spec->duration_s;
    struct running one = packed(t, &app, spec, 1);
    return spec->duration_s * spec->gpus /
           running_rate(app.profile, 0, &one, &ref);
}

static bool knows(const struct truth *truth, const char *app)
{
    const struct truth_table *t = truth->state;
    return known_find(&t->tables.known, app, UINT32_MAX).profile != NULL;
}

/* For callers that know of no neighbours and no progress. */
static double rate(const struct truth *truth, const struct firn_job *job,
                   const struct firn_alloc *alloc, int sharers)
{
    struct truth_near near = {.sharers = sharers};
    return pace(truth, job, alloc, &near, 0).rate;
}

const char *firn_sim_freeze_name(enum firn_sim_freeze rule)
{
    static const char *const names[] = {
        [FIRN_SIM_FREEZE_POLICY] = "policy",
        [FIRN_SIM_FREEZE_OFF] = "off",
        [FIRN_SIM_FREEZE_FREEZEOUT] = "freezeout",
        [FIRN_SIM_FREEZE_TUNED] = "tuned-freezeout",
        [FIRN_SIM_FREEZE_PENALTY] = "penalty",
    };
    size_t i = (size_t)rule;
    return i < sizeof names / sizeof *names ? names[i] : NULL;
}

_Static_assert((int)FREEZE_POLICY == (int)FIRN_SIM_FREEZE_POLICY &&
                   (int)FREEZE_OFF == (int)FIRN_SIM_FREEZE_OFF &&
                   (int)FREEZE_FREEZEOUT == (int)FIRN_SIM_FREEZE_FREEZEOUT &&
                   (int)FREEZE_TUNED == (int)FIRN_SIM_FREEZE_TUNED &&
                   (int)FREEZE_PENALTY == (int)FIRN_SIM_FREEZE_PENALTY,
               "the option's rules are the trainer's");

enum firn_status truth_table_open(struct truth_table **out,
                                  const char *profiles,
                                  const struct firn_cluster *cluster,
                                  enum firn_sim_freeze freeze,
                                  struct firn_error *err)
{
    struct truth_table *t = mem_new(1, sizeof *t);
    enum firn_status status = tables_open(&t->tables, profiles, cluster, err);
    if (status != FIRN_OK) {
        mem_free(t);
        return status;
    }
    t->trainer = trainer_new(&t->tables.known, (enum freeze_rule)freeze);
    *out = t;
    return FIRN_OK;
}

void truth_table_free(struct truth_table *table)
{
    if (table == NULL)
        return;
    trainer_free(table->trainer);
    tables_close(&table->tables);
    mem_free(table);
}

bool truth_table_freezes(const struct truth_table *table, const char *app,
                         uint32_t types, unsigned tunes)
{
    struct known_app found = known_find(&table->tables.known, app, types);
    return found.profile != NULL &&
           trainer_rule(table->trainer, found.profile, tunes) != FREEZE_OFF;
}

struct truth truth_from_table(struct truth_table *table,
                              const struct truth *base, const char *format)
{
    struct truth truth = *base;
    table->base = *base;
    table->tables.known.cluster = base->cluster;
    table->tables.known.format = format;
    truth.name = "table";
    truth.state = table;
    truth.rate = rate;
    truth.pace = pace;
    truth.step_s = step_s;
    truth.duration_s = duration_s;
    truth.knows = knows;
    return truth;
}
