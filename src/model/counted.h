/* counted.h - how long jobs train whose number of iterations is known.
 *
 * Jobs of one application on as many GPUs train for
 *
 *     t = shift + slope x n                                               (1)
 *
 * seconds, n being their iterations. The slope is the time of an iteration; the
 * shift is what the first ones take in addition, while libraries choose their
 * kernels and memory is allocated. Both are learned from jobs that have ended,
 * by least squares with weights w = 1 / (NOISE x t)^2. The shift is drawn to 0,
 * as if its standard deviation were SHIFT_S, so that one job gives a slope:
 *
 *     (1 / SHIFT_S^2 + sum w) shift + (sum w n) slope             = sum w t
 *     (sum w n) shift + (sum w n^2) slope                         = sum w n t
 *
 * Where the shift would be below 0 it is 0, and the slope that of a line
 * through the origin: no job trains faster because it has begun.
 *
 * Invariants: (1) a zeroed struct gives 0, "not known"; (2) the answer is
 * positive and grows with n; (3) the last MEMORY jobs count.
 * Cost: a few multiplications.
 */
#ifndef MODEL_COUNTED_H
#define MODEL_COUNTED_H
#include <stdbool.h>

/* Sums over jobs that have ended, of w, w n, w n^2, w t and w n t. */
struct counted {
    double w, wn, wnn, wt, wnt;
};

/* A job of `iterations` would have trained for `trained_s` alone. Numbers that
 * are not above 0 are passed over. */
void counted_add(struct counted *counted, double iterations, double trained_s);

/* Seconds that a job of `iterations` trains alone, (1); 0: not known. */
double counted_training_s(const struct counted *counted, double iterations);

/* Are these sums of real jobs? Else they came from a broken file. */
bool counted_is_sound(const struct counted *counted);

#endif
