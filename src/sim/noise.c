/* noise.c - seeded errors in predictions and reports. */
#include "sim/noise.h"
#include <math.h>

#define LEAST 0.05

/* What a draw is for; part of its seed. */
enum purpose { WAY = 1, MEMORY, UTILISATION, SLOWDOWN };

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

struct noise noise_of_job(const struct firn_sim_noise *size, uint64_t seed,
                          firn_job_id id)
{
    struct noise noise;
    struct rng seeds;
    rng_seed(&seeds, seed);
    rng_seed(&noise.rng, rng_u64(&seeds) + (uint64_t)id);
    noise.transfer = uniform(&noise.rng, size->transfer);
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

/* A stream of their own: these draws shift no others. */
double noise_iterations(const struct firn_sim_noise *size, uint64_t seed,
                        firn_job_id id, bool is_merged)
{
    struct rng rng;
    if (!(size->iterations > 0))
        return 1;
    rng_seed(&rng, ~seed);
    rng_seed(&rng, rng_u64(&rng) + 2 * (uint64_t)id + is_merged);
    return uniform(&rng, size->iterations);
}
