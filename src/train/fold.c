/* fold.c - sums of gradients in one fixed order, as fast as memory allows.
 *
 * Each element of the result is the sum by the tree, or ((x0 + x1) + x2) + ...,
 * whatever the addresses of the operands, the compiler or the machine. The work
 * is memory traffic, so all operands of a sum are read in one pass: loops for
 * up to eight operands, in vectors of 16 bytes, which both SSE2 and NEON have
 * on every machine. The compilers' own vectorisers are not asked: at -O2 they
 * do not touch loops of unknown length.
 *
 * The tree of more than eight operands, or of operands that stand for blocks of
 * different sizes, is made in pieces that stay in the nearest cache: each half
 * is summed into a piece of scratch, then both are added. Memory is still read
 * once.
 *
 * Large results that are not operands are stored past the caches where the
 * machine has instructions for it (x86-64): an ordinary store first reads the
 * line that it overwrites, a quarter of all traffic for two operands. Other
 * hardware detects long runs of stores by itself.
 *
 * Invariants. (1) No operation but +, and one * or / at the end, once for each
 * element: nothing is fused (-ffp-contract=off) and nothing reassociated.
 * (2) All of a line is read before any of it is written, so that `out` may be
 * the first operand. (3) Nothing allocates or fails.
 *
 * A NaN in gives a NaN out; which of two NaNs survives is up to the machine.
 */
#include "train/tree.h"
#include <firn/fold.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define INLINE inline __attribute__((always_inline))

enum {
    MOST = 8,             /* operands of one loop */
    PIECE = 2048,         /* elements: operand and result stay in L1 */
    BIT = 256,            /* elements of one piece of scratch of a tree */
    DEPTH = 44,           /* pieces: two for each level of 2^20 threads */
    STREAM_FROM = 4 << 20 /* bytes: no use to keep them in a cache */
};

typedef float f32x4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef double f64x2 __attribute__((vector_size(16), aligned(8), may_alias));

#ifdef __SSE2__
#include <emmintrin.h>
#define STREAM_F32(p, v) _mm_stream_ps((p), (__m128)(v))
#define STREAM_F64(p, v) _mm_stream_pd((p), (__m128d)(v))
#define STREAM_END()     _mm_sfence()
#else
#define STREAM_F32(p, v) (*(f32x4 *)(p) = (v))
#define STREAM_F64(p, v) (*(f64x2 *)(p) = (v))
#define STREAM_END()     ((void)0)
#endif

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The most operands, up to nin, for which there is a loop. */
static size_t unrolled(size_t nin)
{
    return nin >= 8 ? 8 : nin >= 4 ? 4 : nin;
}

/* Operands i to j - 1 of a tree; first: see firn/fold.h. */
struct tree_part {
    const size_t *first;
    size_t i, j;
};

/* Do all operands stand for equally many threads, the last one for no more? The
 * tree then has the shape of one over single threads. */
static bool is_even(struct tree_part p)
{
    if (p.first == NULL)
        return true;
    size_t size = p.first[p.i + 1] - p.first[p.i];
    for (size_t k = p.i + 1; k < p.j; k++) {
        size_t next = p.first[k + 1] - p.first[k];
        if (k + 1 < p.j ? next != size : next > size)
            return false;
    }
    return true;
}

/* The operand with which the right half begins. */
static size_t split_of(struct tree_part p)
{
    if (p.first == NULL)
        return p.i + firn_tree_split(p.j - p.i);
    size_t middle = p.first[p.i] + firn_tree_split(p.first[p.j] - p.first[p.i]);
    size_t k = p.i + 1;
    while (k + 1 < p.j && p.first[k] < middle)
        k++;
    return k;
}

#define T            float
#define VEC          f32x4
#define STREAM(p, v) STREAM_F32(p, v)
#define NAME(x)      x##_f32
#include "train/foldbody.inc"

#define T            double
#define VEC          f64x2
#define STREAM(p, v) STREAM_F64(p, v)
#define NAME(x)      x##_f64
#include "train/foldbody.inc"

void firn_fold_flatten(void *flat, const void *const *tensor,
                       const size_t *bytes, size_t n)
{
    char *to = flat;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] > 0)
            memcpy(to, tensor[i], bytes[i]);
        to += bytes[i];
    }
}

void firn_fold_spread(void *const *tensor, const void *flat,
                      const size_t *bytes, size_t n)
{
    const char *from = flat;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] > 0)
            memcpy(tensor[i], from, bytes[i]);
        from += bytes[i];
    }
}
