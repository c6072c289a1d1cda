/* gradstat.h - gradient variance by layer, and the times of a step.
 *
 * IceFrog's frozen penalty needs the variance of each layer's gradient. Two
 * estimators, both summed over a layer's elements (the mean would make the
 * small layers count for nothing), both in double:
 *
 *   (a) across the V virtual ranks, unbiased:
 *       sum over elements of sum_v (g_v - mean)^2 / (V - 1)
 *   (b) successive means, where V = 1: half the squared difference
 *
 * Values are averaged over the steps of an epoch. Elements are visited in
 * order, so the same gradients give the same bits.
 */
#ifndef FIRN_GRADSTAT_H
#define FIRN_GRADSTAT_H
#include <firn/message.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

FIRN_C_BEGIN

/* Adds (a) of this step to sum[layer], for the layers from `first_layer` on.
 * layer_start has nlayers + 1 offsets into each of the `nranks` >= 2
 * gradients. */
FIRN_API void firn_gradstat_across(double *sum, const float *const *grad,
                                   size_t nranks, const size_t *layer_start,
                                   size_t nlayers, size_t first_layer);
/* Adds (b): `before` is the mean gradient of the step before. */
FIRN_API void firn_gradstat_between(double *sum, const float *now,
                                    const float *before,
                                    const size_t *layer_start, size_t nlayers,
                                    size_t first_layer);
/* The part of (a) that one process can tell when the others' gradients are not
 * at hand: adds sum_v g_v and sum_v g_v^2 by layer and element block;
 * variance = (squares - (sum)^2 / V) / (V - 1). `squares` has nlayers. */
FIRN_API void firn_gradstat_squares(double *squares, const float *grad,
                                    const size_t *layer_start, size_t nlayers,
                                    size_t first_layer);
FIRN_API void firn_gradstat_from_squares(double *sum, const double *squares,
                                         const float *mean, size_t nranks,
                                         const size_t *layer_start,
                                         size_t nlayers, size_t first_layer);

/* The times of steps, each part a running mean over the steps since the last
 * reset. */

struct firn_steptimes { /* zeroed is empty */
    double sum_s[FIRN_STEP_NPARTS], now_s[FIRN_STEP_NPARTS];
    uint64_t nsteps;
};
FIRN_API void firn_steptimes_add(struct firn_steptimes *times,
                                 enum firn_step_part part, double seconds);
FIRN_API void firn_steptimes_end(struct firn_steptimes *times); /* of a step */
FIRN_API double firn_steptimes_mean(const struct firn_steptimes *times,
                                    enum firn_step_part part);
FIRN_API double firn_steptimes_step(const struct firn_steptimes *times);

FIRN_C_END

#endif
