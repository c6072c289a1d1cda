/* stats.c - mean, median, R2 and absolute percentage errors.
 *
 * Sums run in array order, so the same input gives the same bits. R2 uses two
 * passes (mean first): the one-pass form loses all digits when the mean is
 * large against the spread, as it is for memory in bytes.
 */
#include "math/stats.h"
#include "base/sort.h"
#include <math.h>

double stats_mean(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return n == 0 ? NAN : sum / (double)n;
}

double stats_median(double *x, size_t n)
{
    if (n == 0)
        return NAN;
    sort_doubles(x, n);
    return n % 2 != 0 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
}

double stats_r2(const double *predicted, const double *measured, size_t n)
{
    double mean = stats_mean(measured, n), res = 0, tot = 0;
    for (size_t i = 0; i < n; i++) {
        double e = measured[i] - predicted[i], d = measured[i] - mean;
        res += e * e;
        tot += d * d;
    }
    if (n == 0)
        return NAN;
    if (tot > 0)
        return 1 - res / tot;
    return res > 0 ? -INFINITY : 1;
}

double stats_mape(const double *predicted, const double *measured, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += fabs(predicted[i] / measured[i] - 1);
    return n == 0 ? NAN : sum / (double)n;
}

double stats_max_ape(const double *predicted, const double *measured, size_t n)
{
    double max = n == 0 ? NAN : 0;
    for (size_t i = 0; i < n; i++) {
        double e = fabs(predicted[i] / measured[i] - 1);
        if (e > max)
            max = e;
    }
    return max;
}
