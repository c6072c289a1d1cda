/* gemm.c - matrix products whose bits depend on the operands alone.
 *
 * A product is cut into blocks whose operands, packed into strips as the
 * kernels read them, fit the caches; a block is cut into tiles that fit the
 * registers (tiles.c). Only rows and columns are spread over vectors. Where k
 * is cut too, the sums wait in memory between two parts, unscaled, and go on
 * where they were: storing and loading a number does not change it.
 *
 * Invariants. (1) An element of c is one sum over rising p, begun with 0,
 * then scaled once: gemm.h has the formula. (2) Rows and columns that fill up
 * a tile are zeros or are left alone, and none of their results is stored.
 * (3) Nothing depends on addresses, threads, or on what was computed before.
 *
 * Cost: 2 m n k operations at half of the peak of a machine that fuses. Memory
 * from malloc for large products, given back at the end; without it, tiles on
 * the stack.
 */
#include "blas/gemm.h"
#include "blas/tiles.h"
#include <stdlib.h>

enum {
    SMALL = 16 << 10 /* bytes on the stack */
};

/* Operands of a block: a in the second cache, a strip of b in the first. */
static const struct d2_blocks usual = {256, 1024, 512};
/* What fits into SMALL for every kernel. */
static const struct d2_blocks least = {1, 1, 16};

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* --- four by four elements, copied or turned ------------------------------ */

typedef float f32x4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef double f64x2 __attribute__((vector_size(16), aligned(8), may_alias));

static inline void copy_step_f32(float *to, const float *from)
{
    *(f32x4 *)to = *(const f32x4 *)from;
}

static inline void copy_step_f64(double *to, const double *from)
{
    *(f64x2 *)to = *(const f64x2 *)from;
    *(f64x2 *)(to + 2) = *(const f64x2 *)(from + 2);
}

static inline void turn_step_f32(float *to, size_t width, const float *from,
                                 ptrdiff_t across)
{
    f32x4 a = *(const f32x4 *)from, b = *(const f32x4 *)(from + across);
    f32x4 c = *(const f32x4 *)(from + 2 * across);
    f32x4 d = *(const f32x4 *)(from + 3 * across);
    f32x4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    f32x4 cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    f32x4 ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    f32x4 cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(f32x4 *)to = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    *(f32x4 *)(to + width) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    *(f32x4 *)(to + 2 * width) = __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5);
    *(f32x4 *)(to + 3 * width) = __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7);
}

static inline void turn_step_f64(double *to, size_t width, const double *from,
                                 ptrdiff_t across)
{
    for (size_t p = 0; p < D2_STEP; p++)
        for (ptrdiff_t l = 0; l < D2_STEP; l++)
            to[p * width + (size_t)l] = from[l * across + (ptrdiff_t)p];
}

/* --- the two element types ------------------------------------------------ */

#define T       float
#define MAT     d2_smat
#define OUT     d2_sout
#define GEMM    d2_sgemm
#define TILE    d2_stile
#define KERNEL  d2_skernel
#define NAME(x) x##_f32
#include "blas/gemmbody.inc"
#undef T
#undef MAT
#undef OUT
#undef GEMM
#undef TILE
#undef KERNEL
#undef NAME

#define T       double
#define MAT     d2_dmat
#define OUT     d2_dout
#define GEMM    d2_dgemm
#define TILE    d2_dtile
#define KERNEL  d2_dkernel
#define NAME(x) x##_f64
#include "blas/gemmbody.inc"

void d2_sgemm(const struct d2_sgemm *g)
{
    product_f32(g, &d2_kernel_best()->s, &usual);
}

void d2_dgemm(const struct d2_dgemm *g)
{
    product_f64(g, &d2_kernel_best()->d, &usual);
}

struct d2_smat d2_srows(const float *at, size_t ncols)
{
    return (struct d2_smat){at, (ptrdiff_t)ncols, 1};
}

struct d2_smat d2_srows_t(const float *at, size_t ncols)
{
    return (struct d2_smat){at, 1, (ptrdiff_t)ncols};
}

struct d2_sout d2_srows_out(float *at, size_t ncols)
{
    return (struct d2_sout){at, (ptrdiff_t)ncols, 1};
}

size_t d2_kernel_count(void)
{
    size_t n = 0;
    while (d2_kernel_at(n) != NULL)
        n++;
    return n;
}

const char *d2_kernel_name(size_t kernel)
{
    return d2_kernel_at(kernel)->name;
}

void d2_sgemm_by(const struct d2_sgemm *g, size_t kernel,
                 const struct d2_blocks *blocks)
{
    product_f32(g, &d2_kernel_at(kernel)->s, blocks);
}

void d2_dgemm_by(const struct d2_dgemm *g, size_t kernel,
                 const struct d2_blocks *blocks)
{
    product_f64(g, &d2_kernel_at(kernel)->d, blocks);
}
