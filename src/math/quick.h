/* quick.h - log and exp for models that are asked ten million times a second.
 *
 * Like base/fmath.h they use only operations that IEEE 754 fixes to the last
 * bit, in a fixed order, so every machine gives the same bits; they
 * take a tenth of its time because the series are cut where a double ends and
 * nothing is kept in two parts. Measured error: below 1e-15, relative for exp,
 * relative to max(1, |log x|) for log.
 *
 *   exp: x = n log 2 + r, |r| < 0.35; the series of e^r to r^12, in the
 *        grouping of Estrin, so that the processor does halves at once
 *   log: x = 2^k m, m in [sqrt 1/2, sqrt 2), s = (m-1)/(m+1),
 *        log m = 2 (s + s^3/3 + ... + s^17/17)
 *
 * Inline, as the call would cost a third of the work.
 */
#ifndef MATH_QUICK_H
#define MATH_QUICK_H
#include <stdint.h>
#include <string.h>

/* x in [-700, 700]; below that 0 is meant and e^-700 given. */
static inline double quick_exp(double x)
{
    const double whole = 6755399441055744.0; /* 1.5 x 2^52: adding rounds */
    x = x < -700 ? -700 : x;
    double n = (x * 1.4426950408889634 + whole) - whole;
    double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
    double r2 = r * r, r4 = r2 * r2;
    double a = (1 + r) + r2 * (0.5 + r * (1.0 / 6));
    double b =
        (1.0 / 24 + r * (1.0 / 120)) + r2 * (1.0 / 720 + r * (1.0 / 5040));
    double c = (1.0 / 40320 + r * (1.0 / 362880)) +
               r2 * (1.0 / 3628800 + r * (1.0 / 39916800)) +
               r4 * (1.0 / 479001600);
    double power;
    uint64_t bits = (uint64_t)((int64_t)n + 1023) << 52;
    memcpy(&power, &bits, sizeof power);
    return (a + r4 * (b + r4 * c)) * power;
}

/* x positive, finite and not subnormal. */
static inline double quick_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    /* Moves sqrt 1/2 to the edge of a power of two. */
    uint64_t up = bits - 0x3fe6a09e667f3bcdu;
    int64_t k = (int64_t)up >> 52;
    bits = (up & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu;
    double m;
    memcpy(&m, &bits, sizeof m);
    double s = (m - 1) / (m + 1), z = s * s, z2 = z * z, z4 = z2 * z2;
    double a = (1.0 / 3 + z * (1.0 / 5)) + z2 * (1.0 / 7 + z * (1.0 / 9));
    double b = (1.0 / 11 + z * (1.0 / 13)) + z2 * (1.0 / 15 + z * (1.0 / 17));
    double rest = 2 * s * z * (a + z4 * b);
    double kd = (double)k;
    return kd * 0x1.62e42feep-1 + (2 * s + (rest + kd * 0x1.a39ef35793c76p-33));
}

#endif
