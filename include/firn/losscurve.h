/* losscurve.h - how many iterations until a job has learnt enough.
 *
 * A fitted curve through the losses seen so far, read forward:
 *
 *   (3)  L(k) = 1 / (b3 k^2 + b2 k + b1) + b0      Ymir, coefficients >= 0
 *        L(k) = 1 / (b2 k + b1) + b0               Optimus: b3 = 0
 *   (2)  K = the first k with L(k) - L(k+1) <= 0.001
 *
 * k counts iterations, or epochs, or any other step: the caller's unit. Losses
 * are divided by the largest one seen before fitting, as the paper does, and
 * answers are in the caller's unit again; the tolerance of (2) is on the
 * divided scale. Anything that falls as the job learns will do as a loss, 1 -
 * accuracy for one.
 */
#ifndef FIRN_LOSSCURVE_H
#define FIRN_LOSSCURVE_H
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>

FIRN_C_BEGIN

enum firn_losscurve_form { FIRN_LOSSCURVE_YMIR, FIRN_LOSSCURVE_OPTIMUS };

struct firn_loss_obs {
    double k, loss;
};

struct firn_losscurve {
    double b[4];  /* b0..b3, all >= 0, on the divided scale */
    double scale; /* the loss that counts as 1 */
    double noise; /* deviation of the measurements from it, divided scale */
    double k_min, k_max; /* what was seen; beyond: extrapolated */
    size_t nused, nskipped;
};

struct firn_loss_value {
    double value;
    bool extrapolated;
};

/* The paper's tolerance in (2). */
#define FIRN_LOSSCURVE_TOLERANCE 0.001

/* What is wrong with a point, if anything: k negative, loss not positive. */
FIRN_API enum firn_status firn_loss_check(const struct firn_loss_obs *obs,
                                          struct firn_error *err);

/* Fits the points of one job so far, in any order. `floor_max` bounds b0 from
 * above in the caller's unit: a target that the job is known to be able to
 * reach lies above the floor (infinite: no such knowledge). Bad points are
 * skipped and counted. FIRN_EDATA with fewer than three at different k, or
 * when the loss does not fall at all; `curve` is then untouched. Half
 * a millisecond for ten points. */
FIRN_API enum firn_status firn_losscurve_fit(struct firn_losscurve *curve,
                                             enum firn_losscurve_form form,
                                             double floor_max,
                                             const struct firn_loss_obs *obs,
                                             size_t n, struct firn_error *err);

/* The loss after k steps. O(1). */
FIRN_API struct firn_loss_value
firn_losscurve_at(const struct firn_losscurve *curve, double k);

/* (2): the first whole k >= from at which one more step brings no more than
 * `tolerance`; k_limit when there is none before. O(log k_limit). */
FIRN_API double firn_losscurve_converge(const struct firn_losscurve *curve,
                                        double tolerance, double from,
                                        double k_limit);

/* The (real) k at which the curve itself meets `target`; infinite when the
 * floor is above it, 0 when it starts below. O(1). */
FIRN_API double firn_losscurve_reach(const struct firn_losscurve *curve,
                                     double target);

/* A job ends when a *measurement* meets the target, at one of the points
 * from + every, from + 2 every, ... up to `limit`, and measurements scatter
 * about the curve. This is the point by which that has happened with even
 * odds, `limit` if it is not before. O((limit - from) / every). */
FIRN_API double firn_losscurve_hit(const struct firn_losscurve *curve,
                                   double target, double from, double every,
                                   double limit);

/* The curve after a transfer of gain G: L / (1 + G). FIRN_EINVAL unless G is
 * finite and above -1. */
FIRN_API enum firn_status
firn_losscurve_transfer(const struct firn_losscurve *curve, double gain,
                        struct firn_losscurve *out, struct firn_error *err);

/* How many steps ahead of the curve a job is that starts from another's
 * weights: the mean over its first points of the k at which the curve has
 * their loss, less their own k. It then ends where the curve ends, that much
 * earlier. A point below the floor counts as twice the k seen; 0 without good
 * points. What is observed of a transfer says more than the gain predicted
 * for it. */
FIRN_API double firn_losscurve_head_start(const struct firn_losscurve *curve,
                                          const struct firn_loss_obs *obs,
                                          size_t n);

FIRN_C_END

#endif
