/* reprostat.h - a figure over the draws of a workload, with its 95 % interval.
 *
 * The figures of n draws x1 ... xn are one sample of a random variable. Its
 * mean m has the interval m +- t s / sqrt(n), where s is the standard deviation
 * of the sample (n - 1 in its denominator) and t the quantile 0.975 of
 * Student's distribution with n - 1 degrees of freedom.
 *
 * The effect of one policy against another is a ratio. Both policies run the
 * same draws, so each draw gives one ratio, from which the difficulty of the
 * draw cancels; the interval is that of the logarithms of the ratios. Their
 * mean is the geometric mean of the ratios: "twice as fast" and "half as fast"
 * cancel, whichever of the two policies is the denominator.
 *
 *     ratios 1.1, 1.2, 1.5: logarithms 0.0953, 0.1823, 0.4055, mean 0.2277,
 *     s = 0.1600, t = 4.303: 0.2277 +- 0.3974, which is 1.256 (0.844 to 1.868)
 */
#ifndef REPRO_STAT_H
#define REPRO_STAT_H

struct repro_figure {
    double at;        /* mean, or geometric mean; NaN: there is none */
    double low, high; /* its 95 % interval; both are `at` with one draw */
    int draws;
};

/* Quantile 0.975 of Student's distribution; `freedom` >= 1. */
double stat_t975(int freedom);

/* Mean of n numbers and its interval; `at` is NaN without a number. */
struct repro_figure stat_mean(const double *x, int n);

/* Geometric mean of n ratios and its interval. If a ratio is 0, infinite or
 * NaN, `at` is that ratio and the interval is NaN. */
struct repro_figure stat_ratio(const double *x, int n);

#endif
