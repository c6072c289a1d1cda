/* peakseen.h - predicted memory corrected by what was seen.
 *
 * Predictions of peak.h are off by the same factor for all runs of one model in
 * one mode: the factor is learnt from the peaks that trainers report. For a
 * prediction p and a peak s that was seen, x = s / p, within [0.5, 2]:
 *
 *   mean' = mean + (x - mean) / min(n + 1, 8)
 *
 * n counts the peaks, and the prediction itself, which is the first: the mean
 * of nothing is 1. The newest peak always counts for an eighth at least.
 *
 * An attempt that ran out of memory tells a lower bound. It had h on a GPU, the
 * prediction's high end was p at ratio 1, and it did not fit, so the ratio is
 * above h / p, and above the one that the attempt was planned with:
 *
 *   floor' = max(floor, 1.02 h / p, 1.1 ratio), at most 2
 *
 * The ratio is the larger of mean and floor. Pure functions.
 */
#ifndef FIRN_PEAKSEEN_H
#define FIRN_PEAKSEEN_H
#include <firn/api.h>

FIRN_C_BEGIN

#define FIRN_PEAK_RATIO_LEAST 0.5
#define FIRN_PEAK_RATIO_MOST  2.0

/* Zeroed: nothing was seen. */
struct firn_peak_seen {
    double mean, floor; /* 0: not known */
    int n;              /* peaks in the mean; at most a million are counted */
    int failures;       /* attempts that ran out of memory */
};

/* What to multiply predictions by: within [0.5, 2]; 1 when nothing was seen. */
FIRN_API double firn_peak_ratio(const struct firn_peak_seen *seen);
/* A peak, and what was predicted for it at ratio 1; both > 0, else nothing
 * changes. */
FIRN_API void firn_peak_saw(struct firn_peak_seen *seen, double predicted,
                            double peak);
/* Memory ran out: what there was, and the high end of the prediction at ratio
 * 1. */
FIRN_API void firn_peak_ran_out(struct firn_peak_seen *seen, double high,
                                double had);

FIRN_C_END

#endif
