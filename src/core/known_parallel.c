/* known_parallel.c - how an application's model is spread over its GPUs.
 *
 * An application may have its model sharded or cut into stages
 * (model/paralleltime.c). Where the policy does not choose, it is spread in the
 * way that has the most samples a second with nothing frozen, of those that
 * fit. Most applications have no choice: a whole copy is on each GPU, and
 * whether it fits was their user's care.
 *
 * On several types all of them must allow a way, and have memory for it.
 */
#include "core/known.h"

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
