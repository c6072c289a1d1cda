/* passes.h - a batch in several passes, with the gradient of the whole batch.
 *
 * When two jobs share a GPU, each may have to run its batch of B samples as s
 * smaller passes whose gradients are summed (SJF-BSBF's gradient accumulation).
 * The batch is cut into s runs of neighbouring samples whose sizes differ by at
 * most one, larger ones first. A loss that is a mean over its samples is
 * multiplied by size/B before its backward pass: the sum of the passes'
 * gradients is then the gradient of the mean over the whole batch, whatever s
 * is, up to rounding; and with the same s it has the same bits. (The plain 1/s
 * is wrong when s does not divide B.) A loss that is a sum needs no factor.
 *
 * What is not a sum over samples differs with s: BatchNorm in training mode
 * sees the pass, not the batch.
 *
 * Pure functions; safe from any thread.
 */
#ifndef FIRN_PASSES_H
#define FIRN_PASSES_H
#include <firn/status.h>
#include <stddef.h>

FIRN_C_BEGIN

/* Samples start .. start + size - 1 of the batch; `weight` is size / B. */
struct firn_pass {
    size_t start, size;
    double weight;
};

/* How many passes there really are: `npasses` within 1 and the batch. 0 for
 * an empty batch. */
FIRN_API size_t firn_passes_count(size_t batch, size_t npasses);
/* Pass `i` of firn_passes_count(); one beyond them is empty. */
FIRN_API struct firn_pass firn_passes_at(size_t batch, size_t npasses,
                                         size_t i);
/* For trainers that keep the gradients of their passes unscaled:
 * sum = weight * grad for the first pass (i = 0), sum += weight * grad for the
 * others, element by element in float. */
FIRN_API void firn_passes_add(float *sum, const float *grad, size_t n,
                              struct firn_pass pass, size_t i);

FIRN_C_END

#endif
