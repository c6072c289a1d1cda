/* fmath.c - elementary functions from the four operations, in a fixed order.
 *
 * IEEE 754 fixes the result of +, -, *, / to the last bit, so a fixed sequence
 * of them gives the same bits everywhere, provided the compiler does not fuse
 * or reorder them (-ffp-contract=off, no -ffast-math). frexp, ldexp and floor
 * are exact.
 *
 * log   x = 2^k m with m in [sqrt 1/2, sqrt 2), s = (m-1)/(m+1), |s| < 0.172,
 *       log m = 2 (s + s^3/3 + s^5/5 + ...). s is kept as a sum of two doubles
 *       (`struct pair`), the small rest of the series as one; k log 2 is exact
 *       in its high part. The sum is good to about 2^-58.
 * exp   x = n log 2 + r with |r| < 0.35; Taylor series of e^r - 1; times 2^n.
 * pow   exp(y log x) with the product kept as a pair, else the error of log
 *       would be multiplied by |y log x|.
 * sin   the turn is reduced exactly to an eighth; Taylor series.
 *
 * Measured against long double: below 4e-16 relative for all four (pow for
 * |y log x| up to 700), except where the result is subnormal.
 */
#include "base/fmath.h"
#include <math.h>

/* hi + lo, |lo| at most half a unit in the last place of hi. */
struct pair {
    double hi, lo;
};

static const double LN2_HI = 0x1.62e42feep-1; /* 32 bits: k LN2_HI is exact */
static const double LN2_LO = 0x1.a39ef35793c76p-33;
static const double TWO_PI = 6.283185307179586;

static struct pair sum(double a, double b)
{
    double hi = a + b;
    double part = hi - a;
    return (struct pair){hi, (a - (hi - part)) + (b - part)};
}

/* The two halves of a double, 26 bits each. */
static struct pair halves(double a)
{
    double big = 134217729.0 * a; /* 2^27 + 1 */
    double hi = big - (big - a);
    return (struct pair){hi, a - hi};
}

static struct pair product(double a, double b)
{
    struct pair x = halves(a), y = halves(b);
    double hi = a * b;
    double lo = ((x.hi * y.hi - hi) + x.hi * y.lo + x.lo * y.hi) + x.lo * y.lo;
    return (struct pair){hi, lo};
}

static struct pair quotient(double a, struct pair b)
{
    double hi = a / b.hi;
    struct pair back = product(hi, b.hi);
    double rest = ((a - back.hi) - back.lo) - hi * b.lo;
    return (struct pair){hi, rest / b.hi};
}

/* s^2/3 + s^4/5 + ... to the 25th power of s. */
static double atanh_rest(double s)
{
    double z = s * s, rest = 0.0;
    for (int i = 25; i >= 3; i -= 2)
        rest = z * (1.0 / i + rest);
    return rest;
}

static struct pair log_pair(double x)
{
    int k = 0;
    double m = frexp(x, &k); /* [1/2, 1) */
    if (m < 0.7071067811865476) {
        m *= 2.0;
        k--;
    }
    struct pair s = quotient(m - 1.0, sum(m, 1.0));
    double rest = s.hi * atanh_rest(s.hi) + s.lo;
    struct pair high = sum(k * LN2_HI, 2.0 * s.hi);
    return sum(high.hi, high.lo + (2.0 * rest + k * LN2_LO));
}

double fm_log(double x)
{
    if (!(x > 0.0))
        return x == 0.0 ? -INFINITY : NAN;
    if (isinf(x))
        return x;
    return log_pair(x).hi;
}

static double exp_pair(struct pair x)
{
    if (x.hi > 710.0)
        return INFINITY;
    if (x.hi < -746.0)
        return 0.0;
    double n = floor(x.hi * 1.4426950408889634 + 0.5);
    double r = ((x.hi - n * LN2_HI) - n * LN2_LO) + x.lo;
    double series = 0.0;
    for (int i = 14; i >= 2; i--)
        series = r * (1.0 + series) / i;
    return ldexp(1.0 + (r + r * series), (int)n);
}

double fm_exp(double x)
{
    return isnan(x) ? x : exp_pair((struct pair){x, 0.0});
}

double fm_pow(double x, double y)
{
    if (y == 1.0 || x == 1.0)
        return x;
    if (y == 0.0)
        return 1.0;
    if (!(x > 0.0) || isinf(x) || !isfinite(y)) /* outside the contract */
        return x == 0.0 && y > 0.0 ? 0.0 : NAN;
    struct pair log_x = log_pair(x);
    if (fabs(y) > 1e300 || fabs(y * log_x.hi) > 800.0) /* product overflows */
        return exp_pair((struct pair){y * log_x.hi, 0.0});
    struct pair power = product(y, log_x.hi);
    power.lo += y * log_x.lo;
    return exp_pair(power);
}

static double sin_series(double a)
{
    double z = a * a, series = 0.0;
    for (int i = 18; i >= 2; i -= 2)
        series = -z * (1.0 + series) / (i * (i + 1));
    return a + a * series;
}

static double cos_series(double a)
{
    double z = a * a, series = 0.0;
    for (int i = 19; i >= 1; i -= 2)
        series = -z * (1.0 + series) / (i * (i + 1));
    return 1.0 + series;
}

double fm_sin_turn(double turns)
{
    double t = turns - floor(turns + 0.5); /* [-1/2, 1/2], exact */
    if (t > 0.25)
        t = 0.5 - t;
    if (t < -0.25)
        t = -0.5 - t;
    if (t > 0.125)
        return cos_series(TWO_PI * (0.25 - t));
    if (t < -0.125)
        return -cos_series(TWO_PI * (0.25 + t));
    return sin_series(TWO_PI * t);
}
