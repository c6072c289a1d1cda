/* rng.h - seeded random numbers, the same on every machine.
 *
 * xoshiro256** seeded by splitmix64 (Blackman and Vigna). Derived draws use
 * fmath.h rather than libm, whose last bit differs between machines.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H
#include <stdint.h>

struct rng {
    uint64_t s[4];
};

void rng_seed(struct rng *rng, uint64_t seed);
uint64_t rng_u64(struct rng *rng);
/* Uniform in [0, 1). */
double rng_unit(struct rng *rng);
/* Uniform integer in [0, n), n >= 1, without bias. */
uint64_t rng_below(struct rng *rng, uint64_t n);
/* Exponential with this mean. */
double rng_exp(struct rng *rng, double mean);
/* Normal with mean 0 and deviation 1. */
double rng_normal(struct rng *rng);

#endif
