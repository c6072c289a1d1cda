/* stats.h - how well predictions agree with measurements.
 *
 * Errors are shares, not percent: 0.04 is 4 %. Arrays are borrowed; a count
 * of zero gives NaN. O(n), except the median.
 */
#ifndef MATH_STATS_H
#define MATH_STATS_H
#include <stddef.h>

double stats_mean(const double *x, size_t n);

/* The middle value, or the mean of the two. Sorts `x` in place. */
double stats_median(double *x, size_t n);

/* Coefficient of determination 1 - SS_res / SS_tot; 1 is perfect, 0 is as good
 * as the mean. When all measurements are equal: 1 if all predictions agree,
 * else minus infinity. */
double stats_r2(const double *predicted, const double *measured, size_t n);

/* Mean and largest of |predicted / measured - 1|; measured must not be 0. */
double stats_mape(const double *predicted, const double *measured, size_t n);
double stats_max_ape(const double *predicted, const double *measured, size_t n);

#endif
