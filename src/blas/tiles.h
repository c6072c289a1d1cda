/* tiles.h - the innermost loops of a matrix product, one set per machine.
 *
 * A tile is a block of rows and columns of the result. Its rows are
 * vectors; its columns are scalars that multiply them. `tall` works on all
 * `rows`, `low` on the first half of them, for the end of a matrix.
 */
#ifndef BLAS_TILES_H
#define BLAS_TILES_H
#include <stdbool.h>
#include <stddef.h>

/* to = alpha * s + beta * to, or, raw, to = s; where s begins as `from` (NULL:
 * zeros) and has had k products added. Row i of column j lies at [i + j * ld],
 * a(i, p) at a[i + p * step], b(p, j) at b[j + p * columns]. */
struct d2_stile {
    size_t k, step, from_ld, ld;
    const float *a, *b, *from;
    float *to, alpha, beta;
    bool raw;
};
struct d2_dtile {
    size_t k, step, from_ld, ld;
    const double *a, *b, *from;
    double *to, alpha, beta;
    bool raw;
};

struct d2_skernel {
    size_t rows, columns;
    void (*tall)(const struct d2_stile *t);
    void (*low)(const struct d2_stile *t);
};
struct d2_dkernel {
    size_t rows, columns;
    void (*tall)(const struct d2_dtile *t);
    void (*low)(const struct d2_dtile *t);
};

struct d2_kernel {
    const char *name;
    struct d2_skernel s;
    struct d2_dkernel d;
};

enum { D2_MAX_ROWS = 32, D2_MAX_COLUMNS = 8 };
/* Rows of all kernels, and columns, are multiples of this. */
enum { D2_STEP = 4 };

/* The i-th kernel that this machine can run, the fastest last; NULL past the
 * end. Any thread may ask at any time. */
const struct d2_kernel *d2_kernel_at(size_t i);
const struct d2_kernel *d2_kernel_best(void);

#endif
