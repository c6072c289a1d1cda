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
 *
 * An application may have its model sharded or cut into stages
 * (model/paralleltime.c). Where the policy does not choose, it is spread in the
 * way that has the most samples a second with nothing frozen, of those that
 * fit; on several types all of them must allow it, and have memory for it. Most
 * applications have no choice: a whole copy is on each GPU, and whether it
 * fits was their user's care.
 *
 * Statistics that one profile takes from another are copied, with the batches
 * and the work they belong to. Variances by layer are brought to the number of
 * layers that the profile itself can freeze: two counts of one network differ
 * in what is a layer, so its cumulative variance is read at equal shares of
 * the layers. A profile may take the variances by layer from a third one
 * (layers_of), at equal shares of training: IceFrog's psi then comes from that
 * measurement, and Pollux's gains stay those of the statistics.
 */
#include "core/known.h"
#include "base/buf.h"
#include "base/mem.h"
#include "model/measured.h"
#include <math.h>
#include <string.h>

enum { PARTS_MIN = 20 }; /* of an application that may freeze layers */

/* --- opening -------------------------------------------------------------- */

static double *copy(const double *from, size_t n)
{
    double *at = mem_new(n, sizeof *at);
    if (n > 0)
        memcpy(at, from, n * sizeof *at);
    return at;
}

/* The statistics of `from`, and what they are counted in. */
static void borrow(struct firn_profile *p, const struct firn_profile *from)
{
    const struct firn_profile_stats *s = &from->stats;
    measured_stats_release(&p->stats);
    p->stats = (struct firn_profile_stats){
        .nbatches = s->nbatches,
        .nstages = s->nstages,
        .nlayers = s->nlayers,
        .batch = copy(s->batch, s->nbatches),
        .end = copy(s->end, s->nstages),
        .grad_sqr = copy(s->grad_sqr, s->nstages * s->nbatches),
        .grad_var = copy(s->grad_var, s->nstages * s->nbatches),
        .layer_var = copy(s->layer_var, s->nstages * s->nlayers),
    };
    p->batch0 = p->batch0 > 0 ? p->batch0 : from->batch0;
    p->batch_max = p->batch_max > 0 ? p->batch_max : from->batch_max;
    p->epochs = p->epochs > 0 ? p->epochs : from->epochs;
    p->progress = p->progress > 0 ? p->progress : from->progress;
}

/* The variance of the first `share` of n layers. */
static double sum_until(const double *var, size_t n, double share)
{
    double sum = 0, end = share * (double)n;
    for (size_t j = 0; j < n && (double)j < end; j++)
        sum += fmax(var[j], 0) * fmin(1, end - (double)j);
    return sum;
}

/* The variances by layer of `from` for each stage: those that it has in the
 * middle of the same share of training. */
static void borrow_layers(struct firn_profile *p,
                          const struct firn_profile *from)
{
    struct firn_profile_stats *s = &p->stats;
    const struct firn_profile_stats *f = &from->stats;
    if (s->nstages == 0 || f->nlayers == 0)
        return;
    double all = s->end[s->nstages - 1], all_from = f->end[f->nstages - 1];
    double *at = mem_new(s->nstages * f->nlayers, sizeof *at);
    for (size_t i = 0; i < s->nstages; i++) {
        double middle = 0.5 * ((i > 0 ? s->end[i - 1] : 0) + s->end[i]) / all;
        size_t k = firn_profile_stage(from, middle * all_from);
        memcpy(at + i * f->nlayers, f->layer_var + k * f->nlayers,
               f->nlayers * sizeof *at);
    }
    mem_free(s->layer_var);
    s->layer_var = at;
    s->nlayers = f->nlayers;
}

static void relayer(struct firn_profile *p)
{
    struct firn_profile_stats *s = &p->stats;
    size_t n = (size_t)p->layers;
    if (n == 0 || s->nlayers == 0 || s->nlayers == n)
        return;
    double *at = mem_new(s->nstages * n, sizeof *at);
    for (size_t i = 0; i < s->nstages; i++) {
        const double *var = s->layer_var + i * s->nlayers;
        for (size_t j = 0; j < n; j++)
            at[i * n + j] =
                sum_until(var, s->nlayers, (double)(j + 1) / (double)n) -
                sum_until(var, s->nlayers, (double)j / (double)n);
    }
    mem_free(s->layer_var);
    s->layer_var = at;
    s->nlayers = n;
}

enum firn_status known_link(struct known *known, struct firn_error *err)
{
    for (size_t i = 0; i < known->profiles.n; i++) {
        struct firn_profile *p = &known->profiles.at[i];
        if (p->stats_of[0] == '\0')
            continue;
        const struct firn_profile *from =
            firn_profiles_find(&known->profiles, p->stats_of, NULL, err);
        if (from == NULL)
            return FIRN_ENOENT;
        borrow(p, from);
    }
    for (size_t i = 0; i < known->profiles.n; i++) {
        struct firn_profile *p = &known->profiles.at[i];
        if (p->layers_of[0] == '\0')
            continue;
        const struct firn_profile *from =
            firn_profiles_find(&known->profiles, p->layers_of, NULL, err);
        if (from == NULL)
            return FIRN_ENOENT;
        borrow_layers(p, from);
    }
    for (size_t i = 0; i < known->profiles.n; i++)
        relayer(&known->profiles.at[i]);
    return FIRN_OK;
}

enum firn_status known_load(struct known *out, const char *profiles,
                            const struct firn_cluster *cluster,
                            struct firn_error *err)
{
    struct known known = {.format = "", .cluster = cluster};
    FIRN_TRY(strcmp(profiles, "builtin") == 0
                 ? firn_profiles_builtin(&known.profiles, err)
                 : firn_profiles_load(&known.profiles, profiles, err));
    *out = known;
    return FIRN_OK;
}

enum firn_status known_open(struct known *out, const char *profiles,
                            const struct firn_cluster *cluster,
                            struct firn_error *err)
{
    struct known known;
    FIRN_TRY(known_load(&known, profiles, cluster, err));
    enum firn_status status = known_link(&known, err);
    if (status == FIRN_OK)
        *out = known;
    else
        known_close(&known);
    return status;
}

void known_close(struct known *known)
{
    firn_profiles_release(&known->profiles);
    *known = (struct known){0};
}

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

/* --- how its model is spread ---------------------------------------------- */

struct parallel_run known_run(const struct spread *where,
                              const struct setting *setting)
{
    return (struct parallel_run){
        .shape = {.nodes = where->nodes,
                  .gpus = where->gpus,
                  .gpus_on_fullest = where->fullest,
                  .batch_per_gpu = setting->split.batch_per_gpu,
                  .accum_steps = setting->split.accum_steps,
                  .theta = 1,
                  .omega = 1},
        .parallel = setting->parallel,
        .stages = setting->stages,
        .frozen = setting->frozen,
    };
}

unsigned known_parallels(const struct known *known, const struct known_app *app,
                         uint32_t types)
{
    unsigned all = UINT32_MAX;
    double slower;
    for (; types != 0; types &= types - 1)
        all &=
            parallel_of(known_gpu(known, app, __builtin_ctz(types), &slower));
    return all;
}

double known_mem_mib(const struct known *known, const struct known_app *app,
                     const struct spread *where, firn_type_id type,
                     const struct setting *setting)
{
    double slower;
    struct parallel_run run = known_run(where, setting);
    return parallel_mem_mib(app->profile, known_gpu(known, app, type, &slower),
                            &run);
}

bool known_fits(const struct known *known, const struct known_app *app,
                const struct spread *where, const struct setting *setting)
{
    if (setting->parallel == FIRN_PARALLEL_OWN)
        return true;
    for (uint32_t types = where->types; types != 0; types &= types - 1) {
        firn_type_id type = __builtin_ctz(types);
        double gib = known->cluster->types[type].mem_gib;
        if (gib > 0 &&
            known_mem_mib(known, app, where, type, setting) > 1024 * gib)
            return false;
    }
    return true;
}

/* With the batch split for that way. */
static struct setting spread_as(const struct known *known,
                                const struct known_app *app,
                                const struct spread *where, double batch,
                                struct setting setting)
{
    double slower, most = known_local_max(known, app, where->types);
    struct parallel_run run = known_run(where, &setting);
    firn_type_id type = where->types ? __builtin_ctz(where->types) : app->ref;
    setting.split = parallel_split(
        app->profile, known_gpu(known, app, type, &slower), &run, batch, most);
    return setting;
}

/* It fits where the other does not, or is the faster. */
static bool is_better(const struct known *known, const struct known_app *app,
                      const struct spread *where, const struct setting *a,
                      const struct setting *b)
{
    bool fits = known_fits(known, app, where, a);
    if (fits != known_fits(known, app, where, b))
        return fits;
    return a->split.total / known_law_s(known, app, where, a) >
           b->split.total / known_law_s(known, app, where, b);
}

static struct setting best_spread(const struct known *known,
                                  const struct known_app *app,
                                  const struct spread *where, double batch,
                                  unsigned may)
{
    struct setting best = {0};
    for (int p = 0; p <= where->gpus && p <= PARALLEL_STAGES_MAX;
         p = p > 0 ? 2 * p : 1) {
        struct setting next = {.psi = 1,
                               .parallel = p == 0 ? FIRN_PARALLEL_SHARDED
                                                  : FIRN_PARALLEL_PIPELINE,
                               .stages = p};
        if (!(may >> next.parallel & 1) || (p > 0 && where->gpus % p != 0))
            continue;
        next = spread_as(known, app, where, batch, next);
        if (best.parallel == FIRN_PARALLEL_OWN ||
            is_better(known, app, where, &next, &best))
            best = next;
    }
    return best;
}

struct setting known_setting_as(const struct known *known,
                                const struct known_app *app,
                                const struct spread *where, double batch,
                                const struct setting *as)
{
    struct setting out = {.psi = 1};
    unsigned may = known_parallels(known, app, where->types);
    bool is_pipeline = as->parallel == FIRN_PARALLEL_PIPELINE;
    if (may == 0)
        return spread_as(known, app, where, batch, out);
    if (as->parallel == FIRN_PARALLEL_OWN || !(may >> as->parallel & 1) ||
        (is_pipeline && (as->stages < 1 || as->stages > PARALLEL_STAGES_MAX ||
                         where->gpus % as->stages != 0)))
        return best_spread(known, app, where, batch, may);
    out.parallel = as->parallel;
    out.stages = is_pipeline ? as->stages : 0;
    return spread_as(known, app, where, batch, out);
}

struct setting known_setting(const struct known *known,
                             const struct known_app *app,
                             const struct spread *where, double batch)
{
    struct setting any = {.psi = 1};
    return known_setting_as(known, app, where, batch, &any);
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
