/* quick.h - log and exp for models that are asked ten million times a second.
 *
 * Like base/fmath.h they use only operations that IEEE 754 fixes to the last
 * bit, in a fixed order, so every machine gives the same bits; they
 * take a tenth of its time because the series are cut where a double ends and
 * nothing is kept in two parts. Measured error: below 1e-15, relative for exp,
 * relative to max(1, |log x|) for log.
 *
 *   exp: x = n (log 2) / 32 + r, |r| < 0.011; 2^(n/32) from a table, e^r by
 *        its series to r^6
 *   log: x = 2^k m, m in [1, 2); the 64th part of [1, 2) that m lies in gives
 *        a c near 1/m, r = m c - 1, |r| < 1/64; log x = k log 2 - log c +
 *        r - r^2/2 + ... + r^8/8. No division.
 *
 * Inline, as the call would cost a third of the work.
 */
#ifndef MATH_QUICK_H
#define MATH_QUICK_H
#include <stdint.h>
#include <string.h>

extern const double quick_root[32], quick_inverse[64], quick_offset[64];

/* x in [-700, 700]; below that 0 is meant and e^-700 given. */
static inline double quick_exp(double x)
{
    const double whole = 6755399441055744.0; /* 1.5 x 2^52: adding rounds */
    x = x < -700 ? -700 : x;
    double n = (x * 0x1.71547652b82fep+5 + whole) - whole;
    double r = (x - n * 0x1.62e42fee00000p-6) - n * 0x1.a39ef35793c76p-38,
           r2 = r * r;
    int64_t k = (int64_t)n;
    uint64_t bits = (uint64_t)((k >> 5) + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    double tail = (0.5 + r * (1.0 / 6)) +
                  r2 * ((1.0 / 24 + r * (1.0 / 120)) + r2 * (1.0 / 720));
    double root = quick_root[k & 31];
    return (root + root * (r + r2 * tail)) * power;
}

/* x positive, finite and not subnormal. */
static inline double quick_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    double k = (double)((int64_t)(bits >> 52) - 1023), m;
    unsigned i = (unsigned)(bits >> 46) & 63;
    bits = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
    memcpy(&m, &bits, sizeof m);
    double r = m * quick_inverse[i] - 1, r2 = r * r;
    double tail = (-1.0 / 2 + r * (1.0 / 3)) +
                  r2 * ((-1.0 / 4 + r * (1.0 / 5)) +
                        r2 * ((-1.0 / 6 + r * (1.0 / 7)) + r2 * (-1.0 / 8)));
    return k * 0x1.62e42feep-1 +
           (quick_offset[i] + (r + r2 * tail) + k * 0x1.a39ef35793c76p-33);
}

#endif
