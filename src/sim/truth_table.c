/* truth_table.c - rates from measured step times and gradient statistics.
 *
 * A job of an application with a profile trains at its total batch B on
 * whatever it holds: split over GPUs and passes by Pollux's rule
 * (firn_profile_split), an iteration takes
 *
 *     T = step + (passes - 1) (step - sync)
 *
 * of the placement, and is worth gain(B') iterations at the initial batch, B'
 * being the batch as rounded and the gain that of the stage of training. The
 * reference is the same job packed on the GPUs it asked for, of the first type
 * of the cluster that it accepts and the profile knows. Hence
 *
 *     rate = (gain(B') / T) / (gain(B'ref) / Tref)
 *     duration = sum over stages of work x Tref / gain(B'ref)
 *
 * so that done_s, counted in reference seconds, tells the stage. Where B' is
 * B'ref the gains cancel and the rate never changes. The duration replaces
 * only one that the trace did not record (spec.is_nominal), and only when the
 * profile says how much work there is.
 *
 * On several types the slowest counts. A type the profile does not know goes
 * as the reference type does, times the cluster's ratio of speeds. Placements
 * name nodes in the order of their ids. Shared GPUs: the largest measured
 * slowdown beside any of the neighbours; the constant for a neighbour it was
 * never measured beside.
 */
#include "sim/truth_table.h"
#include "base/mem.h"
#include "model/measured.h"
#include <firn/profile.h>
#include <math.h>
#include <string.h>

enum { NODES_MAX = 64 };

/* What belongs to one profile. */
struct known {
    struct steptable tables[FIRN_PROFILE_TYPES]; /* no rows: use the fit */
};

struct truth_table {
    struct firn_profiles profiles;
    struct known *known; /* by profile */
    const char *format;
    struct truth base;
};

/* GPUs on each node; `each` is exact up to NODES_MAX nodes. */
struct spread {
    int nodes, gpus, fullest;
    int each[NODES_MAX];
    uint32_t types; /* mask */
};

/* How a job is run somewhere. */
struct running {
    double iteration_s;
    double batch; /* realised */
};

/* --- which profile ------------------------------------------------------- */

/* The profile's source is the trace's own. */
static bool is_own(const struct truth_table *t, const struct firn_profile *p)
{
    if (strcmp(t->format, "pollux") == 0)
        return strcmp(p->source, "pollux") == 0 ||
               strcmp(p->source, "sia") == 0;
    return strcmp(p->source, t->format) == 0;
}

static int count_types(const struct truth_table *t,
                       const struct firn_profile *p, uint32_t types)
{
    const struct firn_cluster *c = t->base.cluster;
    int n = 0;
    for (int i = 0; i < c->ntypes; i++)
        n += (types >> i & 1) && firn_profile_gpu(p, c->types[i].name) != NULL;
    return n;
}

/* The one that knows most of the types, of the trace's own sources first. -1
 * when there is none that knows any. */
static int choose(const struct truth_table *t, const char *app, uint32_t types)
{
    int best = -1, best_score = 0;
    for (size_t i = 0; i < t->profiles.n; i++) {
        const struct firn_profile *p = &t->profiles.at[i];
        if (!firn_profile_is(p, app))
            continue;
        int n = count_types(t, p, types);
        int score = n > 0 ? n + (is_own(t, p) ? FIRN_TYPES_MAX + 1 : 0) : 0;
        if (score > best_score) {
            best = (int)i;
            best_score = score;
        }
    }
    return best;
}

static int reference(const struct truth_table *t, const struct firn_profile *p,
                     uint32_t types)
{
    const struct firn_cluster *c = t->base.cluster;
    for (int i = 0; i < c->ntypes; i++)
        if ((types >> i & 1) && firn_profile_gpu(p, c->types[i].name) != NULL)
            return i;
    FIRN_BUG("profile %s knows no type of the job", p->app);
}

/* --- how long an iteration takes ------------------------------------------ */

static double local_max(const struct firn_profile *p,
                        const struct firn_profile_gpu *gpu)
{
    return p->local_max > 0 ? p->local_max : gpu->time.batch_max;
}

static double iteration_s(const struct known *known,
                          const struct firn_profile *p,
                          const struct firn_profile_gpu *gpu,
                          const struct spread *where,
                          const struct firn_batch_split *split)
{
    const struct steptable *table = &known->tables[gpu - p->gpus];
    if (table->nrows > 0) {
        struct steptable_time at =
            where->nodes <= NODES_MAX
                ? steptable_at(table, where->each, where->nodes,
                               split->batch_per_gpu)
                : steptable_spread(table, where->gpus, where->nodes,
                                   split->batch_per_gpu);
        return at.step_s + (split->accum_steps - 1) * (at.step_s - at.sync_s);
    }
    struct firn_shape shape = {
        .nodes = where->nodes,
        .gpus = where->gpus,
        .gpus_on_fullest = where->fullest,
        .batch_per_gpu = split->batch_per_gpu,
        .accum_steps = split->accum_steps,
        .theta = 1,
        .omega = 1,
    };
    return firn_itertime_iteration(&gpu->time, &shape);
}

static struct running run(const struct truth_table *t, int which, int ref,
                          const struct spread *where, double batch)
{
    const struct firn_profile *p = &t->profiles.at[which];
    const struct firn_cluster *c = t->base.cluster;
    const struct firn_profile_gpu *of_ref =
        firn_profile_gpu(p, c->types[ref].name);
    double least = INFINITY;
    struct running out = {0};
    for (int i = 0; i < c->ntypes; i++) {
        const struct firn_profile_gpu *gpu =
            firn_profile_gpu(p, c->types[i].name);
        if (where->types >> i & 1)
            least = fmin(least, local_max(p, gpu ? gpu : of_ref));
    }
    struct firn_batch_split split =
        firn_profile_split(p, batch, where->gpus, least);
    for (int i = 0; i < c->ntypes; i++) {
        if (!(where->types >> i & 1))
            continue;
        const struct firn_profile_gpu *gpu =
            firn_profile_gpu(p, c->types[i].name);
        double slower = gpu ? 1 : c->types[ref].speed / c->types[i].speed;
        double time_s = slower * iteration_s(&t->known[which], p,
                                             gpu ? gpu : of_ref, where, &split);
        out.iteration_s = fmax(out.iteration_s, time_s);
    }
    out.batch = split.total;
    return out;
}

/* As many GPUs as asked for, packed on the largest nodes of the type. */
static struct spread packed(const struct firn_cluster *c, int type, int gpus)
{
    struct spread s = {.gpus = gpus, .types = (uint32_t)1 << type};
    int most = 1;
    for (int i = 0; i < c->nnodes; i++)
        if (c->nodes[i].type == type && c->nodes[i].ngpus > most)
            most = c->nodes[i].ngpus;
    for (int left = gpus; left > 0; left -= most) {
        if (s.nodes < NODES_MAX)
            s.each[s.nodes] = left < most ? left : most;
        s.nodes++;
    }
    s.fullest = gpus < most ? gpus : most;
    return s;
}

static struct spread spread_of(const struct firn_cluster *c,
                               const struct firn_alloc *alloc)
{
    struct spread s = {.gpus = alloc->ngpus};
    int here = 0;
    for (int i = 0; i < alloc->nparts; i++) {
        const struct firn_part *part = &alloc->parts[i];
        if (i == 0 || part->node != part[-1].node) {
            s.nodes++;
            here = 0;
        }
        here += __builtin_popcountll(part->gpus);
        if (s.nodes <= NODES_MAX)
            s.each[s.nodes - 1] = here;
        s.fullest = here > s.fullest ? here : s.fullest;
        s.types |= (uint32_t)1 << c->nodes[part->node].type;
    }
    return s;
}

/* --- work and rates ------------------------------------------------------- */

/* Work of one stage, in iterations at the initial batch; the last stage has
 * the rest. */
static double work_of(const struct firn_profile *p, size_t stage)
{
    const struct firn_profile_stats *s = &p->stats;
    double from = stage > 0 ? s->end[stage - 1] : 0;
    bool is_last = stage + 1 == s->nstages;
    double to =
        is_last || s->end[stage] > p->progress ? p->progress : s->end[stage];
    return to > from ? to - from : 0;
}

/* Seconds alone on the reference. */
static double alone_s(const struct firn_profile *p, const struct running *ref)
{
    double sum = 0;
    if (p->stats.nstages == 0)
        return p->progress / firn_profile_gain(p, 0, ref->batch) *
               ref->iteration_s;
    for (size_t i = 0; i < p->stats.nstages; i++)
        sum += work_of(p, i) / firn_profile_gain(p, i, ref->batch) *
               ref->iteration_s;
    return sum;
}

static double rate_in(const struct firn_profile *p, size_t stage,
                      const struct running *ref, const struct running *now)
{
    double gain = now->batch == ref->batch
                      ? 1
                      : firn_profile_gain(p, stage, now->batch) /
                            firn_profile_gain(p, stage, ref->batch);
    return gain * ref->iteration_s / now->iteration_s;
}

/* The rate at done_s, and the end of the stages that have the same. `scale`
 * turns the profile's seconds into the job's. */
static struct truth_pace pace_of(const struct firn_profile *p,
                                 const struct running *ref,
                                 const struct running *now, double scale,
                                 double done_s)
{
    struct truth_pace pace = {0, INFINITY};
    double end_s = 0;
    size_t n = p->stats.nstages;
    if (n == 0 || !(p->progress > 0) || now->batch == ref->batch) {
        pace.rate = rate_in(p, 0, ref, now);
        return pace;
    }
    for (size_t i = 0; i < n; i++) {
        double rate = rate_in(p, i, ref, now);
        if (pace.rate > 0 && rate != pace.rate) {
            pace.until_s = end_s;
            return pace;
        }
        end_s += scale * work_of(p, i) / firn_profile_gain(p, i, ref->batch) *
                 ref->iteration_s;
        if (pace.rate > 0 || done_s < end_s || i + 1 == n)
            pace.rate = rate;
    }
    return pace;
}

/* Step time on these GPUs over that alone. */
static double slowdown(const struct truth_table *t,
                       const struct firn_profile *p,
                       const struct truth_near *near)
{
    double worst = 1;
    if (near->sharers < 2)
        return 1;
    if (near->napps == 0)
        return t->base.share_slowdown;
    for (int i = 0; i < near->napps; i++) {
        double xi = firn_profile_beside(p, near->apps[i]);
        worst = fmax(worst, xi > 0 ? xi : t->base.share_slowdown);
    }
    return worst;
}

static struct truth_pace pace(const struct truth *truth,
                              const struct firn_job *job,
                              const struct firn_alloc *alloc,
                              const struct truth_near *near, double done_s)
{
    const struct truth_table *t = truth->state;
    const struct firn_job_spec *spec = &job->spec;
    int which = choose(t, spec->app, job->type_mask);
    if (which < 0) {
        double rate = t->base.rate(&t->base, job, alloc, near->sharers);
        return (struct truth_pace){rate, INFINITY};
    }
    const struct firn_profile *p = &t->profiles.at[which];
    int type = reference(t, p, job->type_mask);
    struct spread there = packed(t->base.cluster, type, spec->gpus);
    struct spread here = spread_of(t->base.cluster, alloc);
    struct running ref = run(t, which, type, &there, spec->batch);
    struct running now = run(t, which, type, &here, spec->batch);
    double scale = p->progress > 0 ? spec->duration_s / alone_s(p, &ref) : 1;
    struct truth_pace out = pace_of(p, &ref, &now, scale, done_s);
    out.rate /= slowdown(t, p, near);
    if (!(out.until_s < spec->duration_s))
        out.until_s = INFINITY;
    return out;
}

static double duration_s(const struct truth *truth, struct firn_job_spec *spec,
                         uint32_t types)
{
    const struct truth_table *t = truth->state;
    int which = choose(t, spec->app, types);
    if (which < 0)
        return (double)NAN;
    const struct firn_profile *p = &t->profiles.at[which];
    if (spec->restart_s < 0 && p->restart_s >= 0)
        spec->restart_s = p->restart_s;
    if (!(p->progress > 0))
        return (double)NAN;
    int type = reference(t, p, types);
    struct spread there = packed(t->base.cluster, type, spec->gpus);
    struct running ref = run(t, which, type, &there, spec->batch);
    return alone_s(p, &ref);
}

static bool knows(const struct truth *truth, const char *app)
{
    const struct truth_table *t = truth->state;
    return choose(t, app, UINT32_MAX) >= 0;
}

/* For callers that know of no neighbours and no progress. */
static double rate(const struct truth *truth, const struct firn_job *job,
                   const struct firn_alloc *alloc, int sharers)
{
    struct truth_near near = {.sharers = sharers};
    return pace(truth, job, alloc, &near, 0).rate;
}

/* --- opening -------------------------------------------------------------- */

/* Full tables instead of fits and thinned statistics, where there are any. */
static enum firn_status attach(struct truth_table *t, const char *dir,
                               struct firn_error *err)
{
    for (size_t i = 0; i < t->profiles.n; i++) {
        struct firn_profile *p = &t->profiles.at[i];
        struct firn_profile_stats stats = {0};
        for (size_t k = 0; k < p->ngpus; k++)
            FIRN_TRY(measured_table(&t->known[i].tables[k], p->source, p->app,
                                    p->gpus[k].type, dir, err));
        FIRN_TRY(measured_stats(&stats, p->source, p->app, dir, err));
        if (stats.nstages == 0)
            continue;
        struct firn_profile_stats thin = p->stats;
        p->stats = stats;
        measured_stats_release(&thin);
        if (p->progress > 0)
            p->progress = stats.end[stats.nstages - 1];
    }
    return FIRN_OK;
}

enum firn_status truth_table_open(struct truth_table **out,
                                  const char *profiles, struct firn_error *err)
{
    struct truth_table *t = mem_new(1, sizeof *t);
    bool is_data = measured_is_here(profiles);
    enum firn_status status =
        is_data || strcmp(profiles, "builtin") == 0
            ? firn_profiles_builtin(&t->profiles, err)
            : firn_profiles_load(&t->profiles, profiles, err);
    t->known = mem_new(t->profiles.n + 1, sizeof *t->known);
    if (status == FIRN_OK && is_data)
        status = attach(t, profiles, err);
    if (status == FIRN_OK)
        *out = t;
    else
        truth_table_free(t);
    return status;
}

void truth_table_free(struct truth_table *table)
{
    if (table == NULL)
        return;
    for (size_t i = 0; i < table->profiles.n; i++)
        for (size_t k = 0; k < FIRN_PROFILE_TYPES; k++)
            steptable_release(&table->known[i].tables[k]);
    firn_profiles_release(&table->profiles);
    mem_free(table->known);
    mem_free(table);
}

struct truth truth_from_table(struct truth_table *table,
                              const struct truth *base, const char *format)
{
    struct truth truth = *base;
    table->base = *base;
    table->format = format;
    truth.name = "table";
    truth.state = table;
    truth.rate = rate;
    truth.pace = pace;
    truth.duration_s = duration_s;
    truth.knows = knows;
    return truth;
}
