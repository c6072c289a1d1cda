/* fold.h - sums of gradients in one fixed order.
 *
 * Floating-point addition does not associate, so a sum is only the same for
 * every number of processes when its order is fixed: here the order of the
 * operands, ((x0 + x1) + x2) + ..., element by element, then one division.
 * The virtual ranks of a job are the operands, which is what makes training
 * bit for bit the same wherever they run (EasyScale, SC'22, section 3.3).
 *
 * No function here allocates, and none looks at the time. Operands may be
 * the output itself only where it says so. Compiled without contraction, so
 * that no multiply and add are ever fused.
 */
#ifndef FIRN_FOLD_H
#define FIRN_FOLD_H
#include <firn/status.h>
#include <stddef.h>

FIRN_C_BEGIN

/* out[i] = (((in[0][i] + in[1][i]) + in[2][i]) + ...) / divisor, for nin >= 1
 * and n elements. divisor 1: no division. `out` may be in[0]. Two, three,
 * four and eight operands are unrolled, others are made of these: a pass of
 * memory for every seven operands after the first eight. */
FIRN_API void firn_fold_f32(float *out, const float *const *in, size_t nin,
                            size_t n, float divisor);
FIRN_API void firn_fold_f64(double *out, const double *const *in, size_t nin,
                            size_t n, double divisor);

/* acc[i] += in[i]: the running form of the same sum, for operands that come
 * in order and are not kept. firn_fold_scale divides at the end. */
FIRN_API void firn_fold_add_f32(float *acc, const float *in, size_t n);
FIRN_API void firn_fold_add_f64(double *acc, const double *in, size_t n);
FIRN_API void firn_fold_scale_f32(float *acc, size_t n, float divisor);
FIRN_API void firn_fold_scale_f64(double *acc, size_t n, double divisor);

/* Copies `n` tensors one behind the other, or back. bytes[i] are those of
 * tensor i. */
FIRN_API void firn_fold_flatten(void *flat, const void *const *tensor,
                                const size_t *bytes, size_t n);
FIRN_API void firn_fold_spread(void *const *tensor, const void *flat,
                               const size_t *bytes, size_t n);

/* --- the order of gloo's ring -------------------------------------------- */

/* What gloo's all-reduce makes of these operands: the vector is cut into
 * segments, and the r-th group of them is summed in the order r-1, r-2, ...,
 * r (mod nin). The rule is private to gloo's version (checked with that of
 * PyTorch 1.13): an optional mode, never the reference. DDP divides before
 * it sums: do so before calling. `out` is none of the operands. */
FIRN_API void firn_fold_ring_f32(float *out, const float *const *in, size_t nin,
                                 size_t n);

FIRN_C_END

#endif
