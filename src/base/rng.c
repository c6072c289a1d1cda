/* rng.c - xoshiro256** and the draws made from it.
 *
 * Algorithm: Blackman and Vigna, "Scrambled linear pseudorandom number
 * generators", ACM TOMS 2021. The seed goes through splitmix64, so nearby
 * seeds give unrelated streams and the state is never all zero.
 *
 * Invariant: every draw is a fixed function of the state with integer
 * arithmetic, IEEE +, -, *, / and sqrt (correctly rounded by the standard) and
 * fmath.h, so a stream is the same on every machine.
 */
#include "base/rng.h"
#include "base/fmath.h"
#include <math.h>

static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void rng_seed(struct rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        rng->s[i] = splitmix(&seed);
}

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

uint64_t rng_u64(struct rng *rng)
{
    uint64_t *s = rng->s;
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

double rng_unit(struct rng *rng)
{
    return (double)(rng_u64(rng) >> 11) * 0x1p-53;
}

uint64_t rng_below(struct rng *rng, uint64_t n)
{
    uint64_t spare = (0 - n) % n; /* 2^64 mod n: these would be drawn twice */
    uint64_t draw;
    do
        draw = rng_u64(rng);
    while (draw < spare);
    return draw % n;
}

double rng_exp(struct rng *rng, double mean)
{
    return -mean * fm_log(1.0 - rng_unit(rng)); /* 1 - u is never 0 */
}

double rng_normal(struct rng *rng)
{
    /* Box and Muller; the second of the pair is thrown away so that the state
     * is all there is. */
    double radius = sqrt(-2.0 * fm_log(1.0 - rng_unit(rng)));
    return radius * fm_sin_turn(rng_unit(rng));
}
