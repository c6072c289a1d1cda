/* fortran.c - the BLAS names under which frameworks call these kernels.
 *
 * What PyTorch's CPU build takes from a BLAS for real numbers, and whose
 * result depends on an order or on fusing: gemm, gemv, dot, axpy; and scal,
 * for alpha 0. Loaded before another BLAS (LD_PRELOAD), these are used and the
 * rest is still the other's. Arguments are Fortran's: everything by address,
 * matrices by columns, characters as their first letter, lengths of strings
 * never read. Bad arguments do nothing: a BLAS has no way to tell.
 *
 * Sums over k run in rising order from 0, then alpha * s + beta * y, as in
 * gemm.h; beta 0 does not read y. Vectors with a stride below 0 begin at their
 * other end.
 */
#include "blas/gemm.h"
#include <stdbool.h>

#define EXPORT __attribute__((visibility("default")))

enum { STRIP = 256 }; /* rows of a matrix whose sums are under way at once */

static bool is_turned(const char *letter)
{
    return *letter == 'T' || *letter == 't' || *letter == 'C' || *letter == 'c';
}

#define T       float
#define GEMM    d2_sgemm
#define MAT     d2_smat
#define OUT     d2_sout
#define NAME(x) s##x##_
#define OWN(x)  x##_f32
#include "blas/fortranbody.inc"
#undef T
#undef GEMM
#undef MAT
#undef OUT
#undef NAME
#undef OWN

#define T       double
#define GEMM    d2_dgemm
#define MAT     d2_dmat
#define OUT     d2_dout
#define NAME(x) d##x##_
#define OWN(x)  x##_f64
#include "blas/fortranbody.inc"
