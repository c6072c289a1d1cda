/* digest.c - prints hashes of folds, variances and products.
 *
 * Built by several compilers by tests/e2e/930-*.sh, which compares what the
 * programs print. The numbers come from a generator of integers, so that the
 * operands are the same in all of them.
 */
#include "blas/gemm.h"
#include <firn/fold.h>
#include <firn/gradstat.h>
#include <stdint.h>
#include <stdio.h>

void sgemv_(const char *, const int *, const int *, const float *,
            const float *, const int *, const float *, const int *,
            const float *, float *, const int *);
double ddot_(const int *, const double *, const int *, const double *,
             const int *);

enum { RANKS = 20, N = 4999, SIDE = 160 };

static float grad[RANKS][N], sum[N];
static double wide[RANKS][N], wide_sum[N];
static float a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];
static double wa[SIDE * SIDE], wb[SIDE * SIDE], wc[SIDE * SIDE];
static uint64_t hash;

static void mix(const void *data, size_t n)
{
    const unsigned char *byte = data;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ byte[i]) * 1099511628211u;
}

static void tell(const char *what)
{
    printf("%s %016llx\n", what, (unsigned long long)hash);
    hash = 0;
}

static double draw(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) * 0x1p-53 - 0.5;
}

static void folds(void)
{
    const float *in[RANKS];
    const double *wide_in[RANKS];
    for (size_t v = 0; v < RANKS; v++) {
        in[v] = grad[v];
        wide_in[v] = wide[v];
        for (size_t i = 0; i < N; i++) {
            wide[v][i] = draw();
            grad[v][i] = (float)wide[v][i];
        }
    }
    for (size_t v = 1; v <= RANKS; v++) {
        firn_fold_f32(sum, in, v, N, (float)v);
        firn_fold_f64(wide_sum, wide_in, v, N, (double)v);
        mix(sum, sizeof sum);
        mix(wide_sum, sizeof wide_sum);
        firn_fold_tree_f32(sum, in, NULL, v, N, (float)v);
        firn_fold_tree_f64(wide_sum, wide_in, NULL, v, N, (double)v);
        mix(sum, sizeof sum);
        mix(wide_sum, sizeof wide_sum);
        firn_fold_ring_f32(sum, in, v, N);
        mix(sum, sizeof sum);
    }
    tell("folds");
}

static void variances(void)
{
    const size_t start[] = {0, 11, 2000, N};
    const float *in[RANKS];
    for (size_t v = 0; v < RANKS; v++)
        in[v] = grad[v];
    for (size_t v = 2; v < 10; v++) {
        double by_layer[3] = {0}, squares[3] = {0};
        firn_gradstat_across(by_layer, in, v, start, 3, 0);
        firn_gradstat_between(by_layer, in[0], in[v], start, 3, 0);
        firn_gradstat_squares(squares, in[1], start, 3, 0);
        firn_gradstat_from_squares(by_layer, squares, in[2], v, start, 3, 0);
        mix(by_layer, sizeof by_layer);
    }
    tell("variances");
}

static void products(void)
{
    for (size_t i = 0; i < SIDE * SIDE; i++) {
        a[i] = (float)(wa[i] = draw());
        b[i] = (float)(wb[i] = draw());
    }
    for (unsigned way = 0; way < 8; way++) {
        ptrdiff_t ar = way & 1 ? 1 : SIDE, br = way & 2 ? 1 : SIDE;
        ptrdiff_t cr = way & 4 ? 1 : SIDE;
        struct d2_sgemm g = {123,
                             77,
                             157,
                             {a, ar, SIDE + 1 - ar},
                             {b, br, SIDE + 1 - br},
                             {0},
                             0.7f,
                             way % 3 ? 0.3f : 0};
        struct d2_dgemm w = {123,
                             77,
                             157,
                             {wa, ar, SIDE + 1 - ar},
                             {wb, br, SIDE + 1 - br},
                             {0},
                             0.7,
                             way % 3 ? 0.3 : 0};
        g.c = (struct d2_sout){c, cr, SIDE + 1 - cr};
        w.c = (struct d2_dout){wc, cr, SIDE + 1 - cr};
        d2_sgemm(&g);
        d2_dgemm(&w);
        mix(c, sizeof c);
        mix(wc, sizeof wc);
    }
    tell("products");
}

static void vectors(void)
{
    const int m = 150, n = 101, ld = SIDE, one = 1;
    const float alpha = 0.9f, beta = 0.1f;
    sgemv_("N", &m, &n, &alpha, a, &ld, b, &one, &beta, c, &one);
    mix(c, sizeof c);
    sgemv_("T", &m, &n, &alpha, a, &ld, b, &one, &beta, c, &one);
    mix(c, sizeof c);
    double dot = ddot_(&m, wa, &one, wb, &one);
    mix(&dot, sizeof dot);
    tell("vectors");
}

int main(void)
{
    folds();
    variances();
    products();
    vectors();
    return 0;
}
