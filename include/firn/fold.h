/* fold.h - sums of gradients in one fixed order.
 *
 * Floating-point addition does not associate, so a sum is only the same for
 * every number of processes when its order is fixed. The virtual ranks of a job
 * ("threads") are the operands, which is what makes training bit for bit the
 * same wherever they run (EasyScale, SC'22, section 3.3). There are two orders:
 *
 *   tree    the threads [0, V) are split at the largest power of two below V,
 *           both parts are summed likewise, then added. V = 6:
 *           ((g0 + g1) + (g2 + g3)) + (g4 + g5). The shape depends on V alone.
 *           A process that holds an aligned block of threads (its first thread
 *           a multiple of its size, a power of two; the last block of the job
 *           may be shorter) sums it by itself and sends one vector.
 *   chain   ((g0 + g1) + g2) + ..., the order of all jobs before there was the
 *           tree; only the process behind another can add to its sum.
 *
 * Then one division. For up to three operands both are the same.
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

/* The order of a job's sums. */
enum firn_sum {
    FIRN_SUM_DEFAULT, /* by the environment or a checkpoint, else the tree */
    FIRN_SUM_TREE,
    FIRN_SUM_CHAIN,
};
/* "tree" or "chain"; that of the default is "tree". */
FIRN_API const char *firn_sum_name(enum firn_sum sum);

/* The sum by the tree, by `divisor`, of n elements. first NULL: operand i is
 * thread i, of nin threads. Else operand i is the sum of the threads first[i]
 * to first[i + 1] - 1 (first has nin + 1 entries, first[0] is 0), which is an
 * aligned block. `out` may be any of the operands. nin >= 1, at most 2^20
 * threads. One pass of memory over all operands. */
FIRN_API void firn_fold_tree_f32(float *out, const float *const *in,
                                 const size_t *first, size_t nin, size_t n,
                                 float divisor);
FIRN_API void firn_fold_tree_f64(double *out, const double *const *in,
                                 const size_t *first, size_t nin, size_t n,
                                 double divisor);

/* out[i] = (((in[0][i] + in[1][i]) + in[2][i]) + ...) / divisor, for nin >= 1
 * and n elements. divisor 1: no division. `out` may be in[0]. Two, three,
 * four and eight operands are unrolled, others are made of these: a pass of
 * memory for every seven operands after the first eight. */
FIRN_API void firn_fold_f32(float *out, const float *const *in, size_t nin,
                            size_t n, float divisor);
FIRN_API void firn_fold_f64(double *out, const double *const *in, size_t nin,
                            size_t n, double divisor);

/* acc[i] += in[i]: the running form of the chain, for operands that come
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
