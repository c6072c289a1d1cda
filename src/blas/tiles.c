/* tiles.c - the innermost loops of a matrix product, one set per machine.
 *
 * The file is compiled for the oldest machine of its kind; on x86-64 the
 * kernels with wider vectors are compiled for theirs and chosen when the
 * program runs. A kernel holds eight or sixteen vectors of sums in registers:
 * enough that none waits for its own last addition, and few enough columns
 * that the sizes of usual layers waste little of a tile. The vectors are the
 * compiler's own (vector_size), so the code is the same for every width.
 *
 * No kernel uses fused multiply-add: not every machine has it, and a product
 * that is rounded first is what all of them can do alike. That costs half of
 * the arithmetic peak, and is the price of the same bits everywhere.
 */
#include "blas/tiles.h"

#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

typedef float f32x4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef double f64x2 __attribute__((vector_size(16), aligned(8), may_alias));

#ifdef __x86_64__
typedef float f32x8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef double f64x4 __attribute__((vector_size(32), aligned(8), may_alias));
typedef float f32x16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef double f64x8 __attribute__((vector_size(64), aligned(8), may_alias));
#endif

/* --- float ---------------------------------------------------------------- */

#define T    float
#define TILE d2_stile

#ifdef __x86_64__
#define BASE_COLUMNS 4 /* 16 registers: 8 sums */
#else
#define BASE_COLUMNS 8 /* 32 registers: 16 sums */
#endif

#define VEC f32x4
#define MV  2
#define NR  BASE_COLUMNS
#define TARGET
#define NAME base_tall_f32
#include "blas/tile.inc"

#define VEC f32x4
#define MV  1
#define NR  BASE_COLUMNS
#define TARGET
#define NAME base_low_f32
#include "blas/tile.inc"

#ifdef __x86_64__
#define VEC    f32x8
#define MV     2
#define NR     4
#define TARGET __attribute__((target("avx2")))
#define NAME   avx2_tall_f32
#include "blas/tile.inc"

#define VEC    f32x8
#define MV     1
#define NR     4
#define TARGET __attribute__((target("avx2")))
#define NAME   avx2_low_f32
#include "blas/tile.inc"

#define VEC    f32x16
#define MV     2
#define NR     8
#define TARGET __attribute__((target("avx512f")))
#define NAME   avx512_tall_f32
#include "blas/tile.inc"

#define VEC    f32x16
#define MV     1
#define NR     8
#define TARGET __attribute__((target("avx512f")))
#define NAME   avx512_low_f32
#include "blas/tile.inc"
#endif

#undef T
#undef TILE

/* --- double --------------------------------------------------------------- */

#define T    double
#define TILE d2_dtile

#define VEC f64x2
#define MV  2
#define NR  BASE_COLUMNS
#define TARGET
#define NAME base_tall_f64
#include "blas/tile.inc"

#define VEC f64x2
#define MV  1
#define NR  BASE_COLUMNS
#define TARGET
#define NAME base_low_f64
#include "blas/tile.inc"

#ifdef __x86_64__
#define VEC    f64x4
#define MV     2
#define NR     4
#define TARGET __attribute__((target("avx2")))
#define NAME   avx2_tall_f64
#include "blas/tile.inc"

#define VEC    f64x4
#define MV     1
#define NR     4
#define TARGET __attribute__((target("avx2")))
#define NAME   avx2_low_f64
#include "blas/tile.inc"

#define VEC    f64x8
#define MV     2
#define NR     8
#define TARGET __attribute__((target("avx512f")))
#define NAME   avx512_tall_f64
#include "blas/tile.inc"

#define VEC    f64x8
#define MV     1
#define NR     8
#define TARGET __attribute__((target("avx512f")))
#define NAME   avx512_low_f64
#include "blas/tile.inc"
#endif

/* --- the choice ----------------------------------------------------------- */

static const struct d2_kernel kernels[] = {
    {"base",
     {8, BASE_COLUMNS, base_tall_f32, base_low_f32},
     {4, BASE_COLUMNS, base_tall_f64, base_low_f64}},
#ifdef __x86_64__
    {"avx2",
     {16, 4, avx2_tall_f32, avx2_low_f32},
     {8, 4, avx2_tall_f64, avx2_low_f64}},
    {"avx512",
     {32, 8, avx512_tall_f32, avx512_low_f32},
     {16, 8, avx512_tall_f64, avx512_low_f64}},
#endif
};

static size_t nkernels(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        return 3;
    if (__builtin_cpu_supports("avx2"))
        return 2;
#endif
    return 1;
}

const struct d2_kernel *d2_kernel_at(size_t i)
{
    return i < nkernels() ? &kernels[i] : NULL;
}

const struct d2_kernel *d2_kernel_best(void)
{
    return &kernels[nkernels() - 1];
}
