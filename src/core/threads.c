/* threads.c - elastic threads over unequal GPUs (EasyScale, SC 2023, 3.4).
 *
 * P threads share a total batch B that never changes: each has B / P, whatever
 * it runs on, so the training is the same to the bit. A GPU of type t runs its
 * A_t threads one after the other and synchronises once:
 *
 *     T = max over types of step_t + (A_t s_t - 1) (step_t - sync_t)
 *
 * with s_t passes to a thread where its share does not fit the GPU's memory.
 * That is the iteration of core/known.c with A_t s_t passes. The layout A is
 * the one with the least max A_t / C_t (firn_waste_best), where 1 / C_t is what
 * one more thread costs on that type, T at two threads less T at one. Switching
 * threads is free: it was measured at 1 % and less.
 *
 * A model that its profile spreads over GPUs is spread so under threads too.
 * Sharded, each GPU has its part of the states and threads of its own. In
 * pipelines of p stages a replica is p GPUs of a type, and A_t are the threads
 * of a replica; each runs in micro-batches of the profile's size (one with
 * fewer samples is taken to last as long), and all of a replica's fill its
 * pipeline one after the other: the iteration of core/known.c with A_t s_t
 * micro-batches. Where the GPUs of the types do not
 * divide by p, pipelines cross types and go as the slowest of them. A way in
 * which a thread does not fit into memory cannot be run; a job that is put
 * there all the same goes at a tenth of its speed, as a language model does
 * (sim/truth.c).
 *
 * Several executors: m processes of the job on a GPU, each with its share of
 * the GPU's threads and the share I of the speed, where the profile has a row
 * for that type, that mini-batch and m, and memory allows it. MC_t = m C_t I
 * and MA_t = m A_t; the step on that type is then 1 / I times as long (3.4.1).
 * firn_waste_choose() takes the m with the shortest step.
 *
 * Without a profile C_t is the type's speed, and with n GPUs that have threads,
 *
 *     rate = (perf / perf_ref) (n / gpus)^(scaling - 1),  perf = P / max A/C
 *
 * where perf_ref is that of `gpus` GPUs of speed 1: on one type whose number
 * divides P just what it is without threads (sim/truth.c).
 *
 * Invariants: (1) without a profile, with the GPUs asked for, of speed 1, the
 * rate is 1 exactly; (2) of the GPUs held only the types matter, and on how
 * many nodes they stand. Cost: O(types^2) and three iterations for each type
 * held.
 */
#include "core/threads.h"
#include "base/fmath.h"
#include <math.h>

int threads_number(const struct firn_job_spec *spec)
{
    int n = spec->threads > 0 ? spec->threads : spec->gpus_max;
    return n < FIRN_WASTE_THREADS_MAX ? n : FIRN_WASTE_THREADS_MAX;
}

void threads_count(const struct firn_cluster *cluster,
                   const struct firn_alloc *alloc, int *counts)
{
    for (int t = 0; t < cluster->ntypes; t++)
        counts[t] = 0;
    for (int i = 0; i < alloc->nparts; i++)
        counts[cluster->nodes[alloc->parts[i].node].type] +=
            __builtin_popcountll(alloc->parts[i].gpus);
}

bool threads_ask(const struct firn_cluster *cluster, const struct firn_job *job,
                 const struct firn_way *way, int *counts)
{
    bool has_type = way->type >= 0 && way->type < cluster->ntypes;
    int sum = 0;
    if (way->counts == NULL && !has_type)
        return false;
    for (int t = 0; t < cluster->ntypes; t++) {
        counts[t] =
            way->counts ? way->counts[t] : (t == way->type ? way->gpus : 0);
        if (counts[t] < 0 || (counts[t] > 0 && !(job->type_mask >> t & 1)))
            return false;
        sum += counts[t];
    }
    return sum > 0 && sum == way->gpus && way->nodes >= 0;
}

struct spread threads_spread(const struct firn_cluster *cluster,
                             const int *largest, const int *counts, int nodes)
{
    struct spread s = {0};
    for (int t = 0; t < cluster->ntypes; t++) {
        for (int left = counts[t]; left > 0; left -= largest[t]) {
            int here = left < largest[t] ? left : largest[t];
            if (s.nodes < SPREAD_NODES)
                s.each[s.nodes] = here;
            s.nodes++;
            s.fullest = here > s.fullest ? here : s.fullest;
        }
        s.gpus += counts[t];
        s.types |= counts[t] > 0 ? (uint32_t)1 << t : 0;
    }
    if (nodes == 0 || nodes == s.nodes)
        return s;
    struct spread wide = spread_over(0, cluster->ngpus, s.gpus, nodes);
    wide.types = s.types;
    if (nodes < s.nodes)
        wide.nodes = 0;
    return wide;
}

/* The layout on GPUs of these rates; `types` by type, `ways` too or NULL. */
static struct firn_waste lay_out(struct firn_waste_type *types,
                                 const struct firn_executor_ways *ways,
                                 int ntypes, int number)
{
    struct firn_waste waste = {0};
    if (!firn_waste_choose(types, ways, ntypes, number, &waste))
        FIRN_BUG("%d threads have no layout", number);
    return waste;
}

double threads_rate(const struct firn_cluster *c, double scaling,
                    const struct firn_job_spec *spec, const int *counts)
{
    struct firn_waste_type types[FIRN_TYPES_MAX] = {0};
    int number = threads_number(spec), used = 0;
    for (int t = 0; t < c->ntypes; t++)
        types[t] = (struct firn_waste_type){.ngpus = counts[t],
                                            .rate = c->types[t].speed};
    double step_s = lay_out(types, NULL, c->ntypes, number).step_s;
    for (int t = 0; t < c->ntypes; t++)
        used += types[t].threads > 0 ? counts[t] : 0;
    used = used < number ? used : number;
    double rate = ceil((double)number / spec->gpus) / step_s;
    if (used == spec->gpus || scaling == 1)
        return rate;
    return rate * fm_pow((double)used / spec->gpus, scaling - 1);
}

/* GPUs of a replica of the model: the stages of a pipeline, else 1. */
static int stages_of(const struct setting *setting)
{
    return setting->parallel == FIRN_PARALLEL_PIPELINE && setting->stages > 1
               ? setting->stages
               : 1;
}

/* The setting with that many threads of a replica on one type. */
static struct setting with_threads(const struct threads *t,
                                   const struct setting *frozen,
                                   firn_type_id type, int threads)
{
    struct setting setting = *frozen;
    double each = t->batch / t->number, slower;
    double most = known_local_max(t->known, t->app, (uint32_t)1 << type);
    if (setting.parallel == FIRN_PARALLEL_PIPELINE)
        most = fmax(
            known_gpu(t->known, t->app, type, &slower)->pipeline.micro_batch,
            1);
    double passes = most > 0 ? ceil(each / most * (1 - 1e-9)) : 1;
    passes = passes < 1 ? 1 : passes > 1e6 ? 1e6 : passes;
    setting.split.batch_per_gpu = each / passes;
    if (setting.parallel == FIRN_PARALLEL_PIPELINE)
        setting.split.batch_per_gpu = most;
    setting.split.accum_steps = (int)fmin(threads * passes, 1e9);
    return setting;
}

/* On one type alone, with that many threads on its fullest replica. */
static double on_type_s(const struct threads *t, const struct setting *frozen,
                        firn_type_id type, int threads)
{
    struct spread where = *t->where;
    struct setting setting = with_threads(t, frozen, type, threads);
    where.types = (uint32_t)1 << type;
    where.gpus -= where.gpus % stages_of(frozen);
    return t->iteration_s(t->known, t->app, &where, &setting);
}

bool threads_fit(const struct threads *t, const struct setting *setting)
{
    if (t->where->gpus < stages_of(setting))
        return false;
    for (int i = 0; i < t->known->cluster->ntypes; i++) {
        if (t->counts[i] == 0)
            continue;
        struct spread where = *t->where;
        struct setting here = with_threads(t, setting, i, t->number);
        where.types = (uint32_t)1 << i;
        if (!known_fits(t->known, t->app, &where, &here))
            return false;
    }
    return true;
}

/* Replicas by type in `out`: see above. */
static void count_replicas(const struct threads *t,
                           const struct setting *setting, int *out)
{
    int stages = stages_of(setting), slowest = -1, all = 0;
    int ntypes = t->known->cluster->ntypes;
    double slowest_s = 0;
    bool is_even = true;
    for (int i = 0; i < ntypes; i++) {
        out[i] = t->counts[i] / stages;
        is_even = is_even && t->counts[i] % stages == 0;
        all += t->counts[i];
    }
    for (int i = 0; i < ntypes && !is_even; i++) {
        double here_s = t->counts[i] > 0 ? on_type_s(t, setting, i, 1) : 0;
        slowest = here_s > slowest_s ? i : slowest;
        slowest_s = fmax(slowest_s, here_s);
        out[i] = 0;
    }
    if (slowest >= 0)
        out[slowest] = all > stages ? all / stages : 1;
}

int threads_executors(const struct known *known, const struct known_app *app,
                      firn_type_id type, double batch, int number,
                      struct firn_executor_ways *out)
{
    const struct firn_gpu_type *gpu = &known->cluster->types[type];
    double most = known_local_max(known, app, (uint32_t)1 << type);
    out->n = 0;
    if (app->profile == NULL || app->profile->nexecutors == 0 || !(batch > 0) ||
        (most > 0 && batch / number > most))
        return 0; /* a thread in several passes: no such row was measured */
    return firn_profile_executors(app->profile, gpu->name, gpu->mem_gib,
                                  batch / number, out);
}

void threads_lay_out(const struct threads *t, const struct setting *setting,
                     struct firn_waste_type *types)
{
    struct firn_executor_ways ways[FIRN_TYPES_MAX];
    int ntypes = t->known->cluster->ntypes, replicas[FIRN_TYPES_MAX];
    bool has_ways = false;
    count_replicas(t, setting, replicas);
    for (int i = 0; i < ntypes; i++) {
        types[i] = (struct firn_waste_type){0};
        ways[i].n = 0;
        if (replicas[i] == 0)
            continue;
        double one_s = on_type_s(t, setting, i, 1);
        double more_s = on_type_s(t, setting, i, 2) - one_s;
        types[i] = (struct firn_waste_type){
            .ngpus = replicas[i], .rate = 1 / (more_s > 0 ? more_s : one_s)};
        if (t->has_executors && stages_of(setting) == 1 &&
            threads_executors(t->known, t->app, i, t->batch, t->number,
                              &ways[i]) > 0)
            has_ways = true;
    }
    lay_out(types, has_ways ? ways : NULL, ntypes, t->number);
}

double threads_iteration_s(const struct threads *t,
                           const struct setting *setting)
{
    struct firn_waste_type types[FIRN_TYPES_MAX];
    double longest_s = 0;
    threads_lay_out(t, setting, types);
    for (int i = 0; i < t->known->cluster->ntypes; i++) {
        double share = types[i].interference > 0 ? types[i].interference : 1;
        if (types[i].threads > 0)
            longest_s = fmax(
                longest_s, on_type_s(t, setting, i, types[i].threads) / share);
    }
    return longest_s;
}
