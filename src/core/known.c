/* known.c - which profile a job has, and how fast it goes by the fit.
 *
 * A job trains at its total batch B on whatever it holds, split over GPUs and
 * passes by Pollux's rule (firn_profile_split); an iteration takes
 *
 *     T = step + (passes - 1) (step - sync)
 *
 * of the placement. A scheduler may ask for more passes than memory needs; the
 * total batch, and so what an iteration is worth, stays the same then. On
 * several types the slowest counts, and the least batch that fits all of them.
 * A type the profile does not know goes as the reference type does, times the
 * cluster's ratio of speeds. Placements name nodes in the order of their ids.
 *
 * With front layers frozen the fit has it from theta and omega.
 *
 * A part of training is a stage or an equal piece of one. Reference seconds
 * of stage i: work_i x Tref / gain_i(B'ref), scaled to the job's duration.
 */
#include "core/known.h"
#include "base/buf.h"
#include <math.h>
#include <string.h>

enum { PARTS_MIN = 20 }; /* of an application that may freeze layers */

/* --- which profile ------------------------------------------------------- */

/* The profile's source is the trace's own. */
static bool is_own(const struct known *known, const struct firn_profile *p)
{
    if (strcmp(known->format, "pollux") == 0)
        return strcmp(p->source, "pollux") == 0 ||
               strcmp(p->source, "sia") == 0;
    return strcmp(p->source, known->format) == 0;
}

static int count_types(const struct known *known, const struct firn_profile *p,
                       uint32_t types)
{
    const struct firn_cluster *c = known->cluster;
    int n = 0;
    for (int i = 0; i < c->ntypes; i++)
        n += (types >> i & 1) && firn_profile_gpu(p, c->types[i].name) != NULL;
    return n;
}

static firn_type_id reference(const struct known *known,
                              const struct firn_profile *p, uint32_t types)
{
    const struct firn_cluster *c = known->cluster;
    for (int i = 0; i < c->ntypes; i++)
        if ((types >> i & 1) && firn_profile_gpu(p, c->types[i].name) != NULL)
            return i;
    FIRN_BUG("profile %s knows no type of the job", p->app);
}

struct known_app known_find(const struct known *known, const char *app,
                            uint32_t types)
{
    struct known_app found = {0};
    int best = 0;
    for (size_t i = 0; i < known->profiles.n; i++) {
        const struct firn_profile *p = &known->profiles.at[i];
        if (!firn_profile_is(p, app))
            continue;
        int n = count_types(known, p, types);
        int score = n > 0 ? n + (is_own(known, p) ? FIRN_TYPES_MAX + 1 : 0) : 0;
        if (score > best) {
            found.profile = p;
            found.which = i;
            best = score;
        }
    }
    if (found.profile != NULL)
        found.ref = reference(known, found.profile, types);
    return found;
}

struct known_app known_by(const struct known *known,
                          const struct firn_profile *profile, size_t which,
                          uint32_t types)
{
    if (count_types(known, profile, types) == 0)
        return (struct known_app){0};
    return (struct known_app){profile, which, reference(known, profile, types)};
}

enum firn_status known_unheard(const struct known *known, const char *trace,
                               const struct firn_job_spec *spec,
                               struct firn_error *err)
{
    struct firn_buf names = {0};
    for (size_t i = 0; i < known->profiles.n; i++) {
        const struct firn_profile *p = &known->profiles.at[i];
        bool is_new = count_types(known, p, UINT32_MAX) > 0;
        for (size_t k = 0; k < i && is_new; k++)
            is_new =
                strcmp(known->profiles.at[k].app, p->app) != 0 ||
                count_types(known, &known->profiles.at[k], UINT32_MAX) == 0;
        if (is_new)
            buf_printf(&names, "%s%s", names.n > 0 ? ", " : "", p->app);
    }
    firn_fail(err, FIRN_EINVAL,
              "%.120s: line %ld: no profile of '%.40s', and no duration of its "
              "own; known on this cluster: %s",
              trace, spec->line, spec->app, names.n > 0 ? names.at : "none");
    buf_release(&names);
    return FIRN_EINVAL;
}

/* --- where a job is ------------------------------------------------------- */

int spread_largest(const struct firn_cluster *c, firn_type_id type)
{
    int most = 1;
    for (int i = 0; i < c->nnodes; i++)
        if (c->nodes[i].type == type && c->nodes[i].ngpus > most)
            most = c->nodes[i].ngpus;
    return most;
}

struct spread spread_packed(firn_type_id type, int most, int gpus)
{
    struct spread s = {.gpus = gpus, .types = (uint32_t)1 << type};
    for (int left = gpus; left > 0; left -= most) {
        if (s.nodes < SPREAD_NODES)
            s.each[s.nodes] = left < most ? left : most;
        s.nodes++;
    }
    s.fullest = gpus < most ? gpus : most;
    return s;
}

struct spread spread_over(firn_type_id type, int most, int gpus, int nodes)
{
    struct spread s = {.gpus = gpus, .types = (uint32_t)1 << type};
    int least = (gpus + most - 1) / most;
    if (nodes == 0 || nodes == least)
        return spread_packed(type, most, gpus);
    if (nodes < least || nodes > gpus)
        return s;
    s.nodes = nodes;
    s.fullest = (gpus + nodes - 1) / nodes;
    for (int i = 0; i < nodes && i < SPREAD_NODES; i++)
        s.each[i] = gpus / nodes + (i < gpus % nodes);
    return s;
}

struct spread spread_of(const struct firn_cluster *cluster,
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
        if (s.nodes <= SPREAD_NODES)
            s.each[s.nodes - 1] = here;
        s.fullest = here > s.fullest ? here : s.fullest;
        s.types |= (uint32_t)1 << cluster->nodes[part->node].type;
    }
    return s;
}

/* --- how long an iteration takes ------------------------------------------ */

const struct firn_profile_gpu *known_gpu(const struct known *known,
                                         const struct known_app *app,
                                         firn_type_id type, double *slower)
{
    const struct firn_gpu_type *types = known->cluster->types;
    const struct firn_profile_gpu *gpu =
        firn_profile_gpu(app->profile, types[type].name);
    *slower = gpu ? 1 : types[app->ref].speed / types[type].speed;
    return gpu ? gpu : firn_profile_gpu(app->profile, types[app->ref].name);
}

double known_local_max(const struct known *known, const struct known_app *app,
                       uint32_t types)
{
    double least = INFINITY, slower;
    const struct firn_profile *p = app->profile;
    for (; types != 0; types &= types - 1) {
        const struct firn_profile_gpu *gpu =
            known_gpu(known, app, __builtin_ctz(types), &slower);
        least =
            fmin(least, p->local_max > 0 ? p->local_max : gpu->time.batch_max);
    }
    return least;
}

double known_local_min(const struct known *known, const struct known_app *app,
                       uint32_t types)
{
    double most = 1, slower;
    const struct firn_profile *p = app->profile;
    for (; types != 0; types &= types - 1) {
        const struct firn_profile_gpu *gpu =
            known_gpu(known, app, __builtin_ctz(types), &slower);
        most =
            fmax(most, p->local_min > 0 ? p->local_min : gpu->time.batch_min);
    }
    return most;
}

struct setting known_passes(const struct known *known,
                            const struct known_app *app, uint32_t types,
                            const struct setting *setting, int passes)
{
    struct setting out = *setting;
    struct firn_batch_split *split = &out.split;
    double each = split->batch_per_gpu * split->accum_steps;
    if (passes <= split->accum_steps ||
        setting->parallel == FIRN_PARALLEL_PIPELINE)
        return out;
    double least = known_local_min(known, app, types);
    double b = fmax(ceil(each / passes), least);
    if (b < split->batch_per_gpu) {
        split->batch_per_gpu = b;
        split->accum_steps = (int)ceil(each / b);
    }
    return out;
}

static double fit_on(const struct firn_profile *p,
                     const struct firn_profile_gpu *gpu,
                     const struct spread *where, const struct setting *setting)
{
    struct firn_profile_frozen left = {0, 1, 1};
    struct parallel_run run = known_run(where, setting);
    if (setting->parallel > FIRN_PARALLEL_DATA)
        return parallel_iteration(p, gpu, &run);
    if (setting->frozen > 0)
        left = firn_profile_unfrozen(p, setting->frozen);
    run.shape.theta = left.theta;
    run.shape.omega = left.omega;
    return firn_itertime_iteration(&gpu->time, &run.shape);
}

double known_law_on_s(const struct firn_profile *profile,
                      const struct firn_profile_gpu *gpu,
                      const struct spread *where, const struct setting *setting)
{
    return fit_on(profile, gpu, where, setting);
}

double known_law_s(const struct known *known, const struct known_app *app,
                   const struct spread *where, const struct setting *setting)
{
    double longest_s = 0, slower;
    for (uint32_t types = where->types; types != 0; types &= types - 1) {
        const struct firn_profile_gpu *gpu =
            known_gpu(known, app, __builtin_ctz(types), &slower);
        longest_s =
            fmax(longest_s, slower * fit_on(app->profile, gpu, where, setting));
    }
    return longest_s;
}

double known_fit_s(const struct known *known, const struct known_app *app,
                   const struct spread *where, const struct setting *setting)
{
    struct setting plain = *setting;
    if (known->iteration_s != NULL)
        return known->iteration_s(known, app, where, setting);
    if (known->is_plain && setting->parallel > FIRN_PARALLEL_DATA) {
        double most = known_local_max(known, app, where->types);
        plain.parallel = FIRN_PARALLEL_DATA;
        plain.stages = 0;
        plain.split = firn_profile_split(app->profile, setting->split.total,
                                         where->gpus, most);
    }
    return known_law_s(known, app, where, &plain);
}

double running_rate(const struct firn_profile *profile, size_t stage,
                    const struct running *ref, const struct running *now)
{
    double gain = now->batch == ref->batch
                      ? 1
                      : firn_profile_gain(profile, stage, now->batch) /
                            firn_profile_gain(profile, stage, ref->batch);
    return gain * ref->iteration_s / now->iteration_s * now->psi;
}

/* --- how far it is -------------------------------------------------------- */

bool known_can_freeze(const struct firn_profile *profile, bool has_variance)
{
    return profile->nfrozen > 1 && profile->layers >= 2 &&
           (!has_variance || profile->stats.nlayers > 0);
}

struct parts known_parts(const struct firn_profile *profile, bool freezes)
{
    size_t stages = profile->stats.nstages > 0 ? profile->stats.nstages : 1;
    size_t pieces = freezes ? (PARTS_MIN + stages - 1) / stages : 1;
    return (struct parts){stages * pieces, pieces};
}

double known_work(const struct firn_profile *profile)
{
    size_t n = profile->stats.nstages;
    if (profile->progress > 0)
        return profile->progress;
    return n > 0 ? profile->stats.end[n - 1] : 0;
}

/* Work of one stage, in iterations at the initial batch; the last stage has
 * the rest. */
static double work_of(const struct firn_profile *p, size_t stage)
{
    const struct firn_profile_stats *s = &p->stats;
    double all = known_work(p);
    double from = stage > 0 ? s->end[stage - 1] : 0;
    bool is_last = stage + 1 == s->nstages;
    double to = is_last || s->end[stage] > all ? all : s->end[stage];
    return to > from ? to - from : 0;
}

double known_share(const struct firn_profile *profile, struct parts parts,
                   size_t k)
{
    size_t stage = k / parts.pieces, piece = k % parts.pieces;
    if (profile->stats.nstages == 0)
        return (double)k / (double)parts.n;
    double begin = stage > 0 ? profile->stats.end[stage - 1] : 0;
    double within = work_of(profile, stage) * (double)piece;
    return fmin(1,
                (begin + within / (double)parts.pieces) / known_work(profile));
}

double known_alone_s(const struct firn_profile *profile,
                     const struct running *ref)
{
    double sum = 0;
    if (profile->stats.nstages == 0)
        return profile->progress / firn_profile_gain(profile, 0, ref->batch) *
               ref->iteration_s;
    for (size_t i = 0; i < profile->stats.nstages; i++)
        sum += work_of(profile, i) / firn_profile_gain(profile, i, ref->batch) *
               ref->iteration_s;
    return sum;
}

double known_scale(const struct firn_profile *profile,
                   const struct running *ref, double duration_s)
{
    if (profile->stats.nstages == 0)
        return duration_s;
    return duration_s / known_alone_s(profile, ref);
}

double known_part_s(const struct firn_profile *profile, struct parts parts,
                    size_t k, const struct running *ref, double scale)
{
    if (profile->stats.nstages == 0)
        return scale / (double)parts.n;
    size_t stage = k / parts.pieces;
    return scale * work_of(profile, stage) /
           firn_profile_gain(profile, stage, ref->batch) * ref->iteration_s /
           (double)parts.pieces;
}
