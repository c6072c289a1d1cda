/* noise.c - seeded factors on what jobs report. */
#include "sim/noise.h"

#define LEAST 0.05

bool noise_is_on(const struct firn_sim_noise *size)
{
    return size->throughput > 0 || size->sharing > 0 || size->transfer > 0 ||
           size->report > 0 || size->iterations > 0;
}

static double draw(struct rng *rng, double size)
{
    double factor = 1 + size * (2 * rng_unit(rng) - 1);
    return factor < LEAST ? LEAST : factor;
}

struct noise noise_of_job(const struct firn_sim_noise *size, uint64_t seed,
                          firn_job_id id)
{
    struct noise noise;
    struct rng seeds;
    rng_seed(&seeds, seed);
    rng_seed(&noise.rng, rng_u64(&seeds) + (uint64_t)id);
    noise.throughput = draw(&noise.rng, size->throughput);
    noise.sharing = draw(&noise.rng, size->sharing);
    noise.transfer = draw(&noise.rng, size->transfer);
    return noise;
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
    return draw(&rng, size->iterations);
}

double noise_next(struct noise *noise, const struct firn_sim_noise *size,
                  bool is_sharing)
{
    double factor = noise->throughput * draw(&noise->rng, size->report);
    return is_sharing ? factor * noise->sharing : factor;
}
