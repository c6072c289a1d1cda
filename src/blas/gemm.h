/* gemm.h - matrix products whose bits depend on the operands alone.
 *
 * Each element of a product is one sum over k in rising order,
 *
 *     s = 0;  for p in 0..k-1:  s = s + a(i,p) * b(p,j)
 *     c(i,j) = alpha * s                   when beta is 0
 *     c(i,j) = alpha * s + beta * c(i,j)   otherwise
 *
 * with every operation rounded and none fused. Tiles, vector width, compiler,
 * machine and thread cannot be seen in the result. When alpha or k is 0, c is
 * beta * c (0 for beta 0), and a and b are not read.
 *
 * Matrices are given by two strides, so transposed and row-major ones need no
 * functions of their own: element (i, j) lies at at[i * row + j * col]. A
 * result must not overlap an operand. Nothing fails: when there is no memory
 * for packing, small tiles on the stack do it more slowly.
 */
#ifndef BLAS_GEMM_H
#define BLAS_GEMM_H
#include <stddef.h>

struct d2_smat { /* read */
    const float *at;
    ptrdiff_t row, col;
};
struct d2_dmat {
    const double *at;
    ptrdiff_t row, col;
};
struct d2_sout { /* written */
    float *at;
    ptrdiff_t row, col;
};
struct d2_dout {
    double *at;
    ptrdiff_t row, col;
};

/* c is m x n, a m x k, b k x n. */
struct d2_sgemm {
    size_t m, n, k;
    struct d2_smat a, b;
    struct d2_sout c;
    float alpha, beta;
};
struct d2_dgemm {
    size_t m, n, k;
    struct d2_dmat a, b;
    struct d2_dout c;
    double alpha, beta;
};

void d2_sgemm(const struct d2_sgemm *g);
void d2_dgemm(const struct d2_dgemm *g);

/* A dense matrix with `columns` columns, stored by rows; its transpose, which
 * is the same memory; and one to be written. */
struct d2_smat d2_srows(const float *at, size_t ncols);
struct d2_smat d2_srows_t(const float *at, size_t ncols);
struct d2_sout d2_srows_out(float *at, size_t ncols);

/* --- for tests: everything that must not be seen in a result -------------- */

/* Sizes of the pieces that are packed; the kernel's tile is rounded up to. */
struct d2_blocks {
    size_t m, n, k;
};
/* The kernels that this machine can run, the fastest last. */
size_t d2_kernel_count(void);
const char *d2_kernel_name(size_t kernel);
void d2_sgemm_by(const struct d2_sgemm *g, size_t kernel,
                 const struct d2_blocks *blocks);
void d2_dgemm_by(const struct d2_dgemm *g, size_t kernel,
                 const struct d2_blocks *blocks);

#endif
