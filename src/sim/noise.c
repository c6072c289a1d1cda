/* noise.c - seeded errors in predictions and reports. */
#include "sim/noise.h"
#include <math.h>

#define LEAST 0.05

/* What a draw is for; part of its seed. */
enum purpose { WAY = 1, MEMORY, UTILISATION, SLOWDOWN, ITERATIONS, TRANSFER };

bool noise_is_on(const struct firn_sim_noise *size)
{
    return size->throughput > 0 || size->sharing > 0 || size->transfer > 0 ||
           size->report > 0 || size->iterations > 0;
}

static double uniform(struct rng *rng, double size)
{
    double factor = 1 + size * (2 * rng_unit(rng) - 1);
    return factor < LEAST ? LEAST : factor;
}

/* The next number of a chain that begins with the seed. */
static uint64_t mix(uint64_t chain, int64_t value)
{
    struct rng rng;
    rng_seed(&rng, chain ^ (uint64_t)value * 0x9e3779b97f4a7c15u);
    return rng_u64(&rng);
}

static uint64_t chain_of(uint64_t seed, firn_job_id id, enum purpose purpose)
{
    return mix(mix(mix(seed, 0), id), purpose);
}

static double gaussian(uint64_t chain, double size)
{
    struct rng rng;
    rng_seed(&rng, chain);
    double factor = 1 + size * rng_normal(&rng);
    return factor < LEAST ? LEAST : factor;
}

struct noise noise_of_job(uint64_t seed, firn_job_id id)
{
    struct noise noise;
    struct rng seeds;
    rng_seed(&seeds, seed);
    rng_seed(&noise.rng, rng_u64(&seeds) + (uint64_t)id);
    return noise;
}

double noise_next(struct noise *noise, const struct firn_sim_noise *size)
{
    return uniform(&noise->rng, size->report);
}

static uint64_t chain_of_way(uint64_t seed, firn_job_id id,
                             const struct firn_way *way, int ntypes)
{
    uint64_t chain = mix(chain_of(seed, id, WAY), way->gpus);
    for (int t = 0; way->counts != NULL && t < ntypes; t++)
        chain = mix(chain, way->counts[t]);
    chain = mix(chain, way->counts != NULL ? 0 : way->type);
    chain = mix(chain, way->tensor);
    chain = mix(chain, way->parallel);
    return mix(chain, way->stages);
}

double noise_way(const struct firn_sim_noise *size, uint64_t seed,
                 firn_job_id id, const struct firn_way *way, int ntypes)
{
    if (!(size->throughput > 0))
        return 1;
    return gaussian(chain_of_way(seed, id, way, ntypes), size->throughput);
}

double noise_layers(const struct firn_sim_noise *size, uint64_t seed,
                    firn_job_id id, const struct firn_way *way, int ntypes,
                    size_t nfrozen)
{
    if (!(size->throughput > 0))
        return 1;
    uint64_t chain = chain_of_way(seed, id, way, ntypes);
    return gaussian(mix(chain, 1 + (int64_t)nfrozen), size->throughput);
}

struct firn_load noise_load(const struct firn_sim_noise *size, uint64_t seed,
                            firn_job_id id, struct firn_load load)
{
    if (size->sharing > 0) {
        load.util *= gaussian(chain_of(seed, id, UTILISATION), size->sharing);
        load.mem_gib *= gaussian(chain_of(seed, id, MEMORY), size->sharing);
    }
    return load;
}

double noise_slowdown(const struct firn_sim_noise *size, uint64_t seed,
                      firn_job_id id, firn_job_id other, double slowdown)
{
    if (!(size->sharing > 0))
        return slowdown;
    uint64_t chain = mix(chain_of(seed, id, SLOWDOWN), other);
    return fmax(1, slowdown * gaussian(chain, size->sharing));
}

static double of_merge(double size, uint64_t seed, struct noise_merge merge,
                       enum purpose purpose)
{
    struct rng rng;
    if (!(size > 0))
        return 1;
    uint64_t chain = mix(chain_of(seed, merge.id, purpose), merge.with);
    rng_seed(&rng, merge.with != FIRN_NO_JOB ? mix(chain, merge.kind) : chain);
    return uniform(&rng, size);
}

double noise_iterations(const struct firn_sim_noise *size, uint64_t seed,
                        struct noise_merge merge)
{
    return of_merge(size->iterations, seed, merge, ITERATIONS);
}

double noise_transfer(const struct firn_sim_noise *size, uint64_t seed,
                      struct noise_merge merge)
{
    return of_merge(size->transfer, seed, merge, TRANSFER);
}
