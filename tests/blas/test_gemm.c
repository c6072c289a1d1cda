/* test_gemm.c - matrix products against three plain loops, bit by bit. */
#include "base/rng.h"
#include "blas/gemm.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void sgemm_(const char *, const char *, const int *, const int *, const int *,
            const float *, const float *, const int *, const float *,
            const int *, const float *, float *, const int *);
void dgemm_(const char *, const char *, const int *, const int *, const int *,
            const double *, const double *, const int *, const double *,
            const int *, const double *, double *, const int *);
void sgemv_(const char *, const int *, const int *, const float *,
            const float *, const int *, const float *, const int *,
            const float *, float *, const int *);
void dgemv_(const char *, const int *, const int *, const double *,
            const double *, const int *, const double *, const int *,
            const double *, double *, const int *);
float sdot_(const int *, const float *, const int *, const float *,
            const int *);
double ddot_(const int *, const double *, const int *, const double *,
             const int *);
void saxpy_(const int *, const float *, const float *, const int *, float *,
            const int *);
void daxpy_(const int *, const double *, const double *, const int *, double *,
            const int *);
void sscal_(const int *, const float *, float *, const int *);
void dscal_(const int *, const double *, double *, const int *);

enum { ROOM = 90000 };

static float a[ROOM], b[ROOM], old[ROOM], got[ROOM], want[ROOM];
static double wa[ROOM], wb[ROOM], wold[ROOM], wgot[ROOM], wwant[ROOM];

/* Under a checker some of the ways are passed over. */
static unsigned step(unsigned usual)
{
    return getenv("FIRN_QUICK") != NULL ? usual * 5 : usual;
}

static void fill(struct rng *rng)
{
    for (size_t i = 0; i < ROOM; i++) {
        wa[i] = rng_normal(rng);
        wb[i] = rng_normal(rng);
        wold[i] = rng_normal(rng);
        a[i] = (float)wa[i];
        b[i] = (float)wb[i];
        old[i] = (float)wold[i];
    }
}

/* The formula of gemm.h, as it stands there. */
static void plain(const struct d2_sgemm *g, float *c)
{
    for (size_t i = 0; i < g->m; i++)
        for (size_t j = 0; j < g->n; j++) {
            ptrdiff_t ti = (ptrdiff_t)i, tj = (ptrdiff_t)j;
            float *to = c + ti * g->c.row + tj * g->c.col, s = 0;
            for (ptrdiff_t p = 0; p < (ptrdiff_t)g->k; p++)
                s = s + g->a.at[ti * g->a.row + p * g->a.col] *
                            g->b.at[p * g->b.row + tj * g->b.col];
            *to = g->beta == 0 ? g->alpha * s : g->alpha * s + g->beta * *to;
        }
}

static void wide_plain(const struct d2_dgemm *g, double *c)
{
    for (size_t i = 0; i < g->m; i++)
        for (size_t j = 0; j < g->n; j++) {
            ptrdiff_t ti = (ptrdiff_t)i, tj = (ptrdiff_t)j;
            double *to = c + ti * g->c.row + tj * g->c.col, s = 0;
            for (ptrdiff_t p = 0; p < (ptrdiff_t)g->k; p++)
                s = s + g->a.at[ti * g->a.row + p * g->a.col] *
                            g->b.at[p * g->b.row + tj * g->b.col];
            *to = g->beta == 0 ? g->alpha * s : g->alpha * s + g->beta * *to;
        }
}

/* Bits 0 to 2: whether a, b and c lie by rows. Leading sizes have gaps. */
static void product(struct d2_sgemm *g, struct d2_dgemm *w,
                    const size_t size[3], unsigned way)
{
    static const float alphas[] = {1, -0.7f, 1, 2.5f};
    static const float betas[] = {0, 1, -1.3f, 0.5f};
    ptrdiff_t m = (ptrdiff_t)size[0], n = (ptrdiff_t)size[1];
    ptrdiff_t k = (ptrdiff_t)size[2];
    *g = (struct d2_sgemm){.m = size[0], .n = size[1], .k = size[2]};
    g->alpha = alphas[way / 8 % 4];
    g->beta = betas[way / 8 % 4];
    g->a =
        way & 1 ? (struct d2_smat){a, k + 3, 1} : (struct d2_smat){a, 1, m + 1};
    g->b = way & 2 ? (struct d2_smat){b, n + 2, 1} : (struct d2_smat){b, 1, k};
    g->c =
        way & 4 ? (struct d2_sout){got, n + 5, 1} : (struct d2_sout){got, 1, m};
    *w = (struct d2_dgemm){
        .m = g->m,
        .n = g->n,
        .k = g->k,
        .alpha = (double)g->alpha,
        .beta = (double)g->beta,
        .a = {wa, g->a.row, g->a.col},
        .b = {wb, g->b.row, g->b.col},
        .c = {wgot, g->c.row, g->c.col},
    };
}

static void same(const void *x, const void *y, size_t n, const size_t size[3],
                 const char *what)
{
    if (memcmp(x, y, n) != 0)
        fail_msg("%s differs for %zu x %zu x %zu", what, size[0], size[1],
                 size[2]);
}

static size_t span(const struct d2_sgemm *g)
{
    size_t at = (g->m - 1) * (size_t)g->c.row + (g->n - 1) * (size_t)g->c.col;
    return at + 9; /* a little beyond: nothing is written there */
}

static const size_t shapes[][3] = {
    {1, 1, 1},   {2, 3, 4},    {8, 8, 8},    {9, 16, 77},  {16, 9, 77},
    {17, 5, 3},  {33, 17, 40}, {64, 10, 32}, {49, 64, 30}, {196, 16, 18},
    {31, 65, 7}, {100, 1, 50}, {1, 100, 50}, {70, 70, 70}, {5, 40, 130}};
enum { NSHAPES = sizeof shapes / sizeof *shapes };

/* All storage orders, several scalings, the choice left to the library. */
static void a_product_is_three_plain_loops(void **state)
{
    (void)state;
    struct d2_sgemm g;
    struct d2_dgemm w;
    for (size_t s = 0; s < NSHAPES; s++)
        for (unsigned way = 0; way < 32; way += step(1)) {
            product(&g, &w, shapes[s], way);
            memcpy(got, old, span(&g) * sizeof *got);
            memcpy(want, old, span(&g) * sizeof *got);
            memcpy(wgot, wold, span(&g) * sizeof *wgot);
            memcpy(wwant, wold, span(&g) * sizeof *wgot);
            d2_sgemm(&g);
            d2_dgemm(&w);
            plain(&g, want);
            wide_plain(&w, wwant);
            same(got, want, span(&g) * sizeof *got, shapes[s], "float");
            same(wgot, wwant, span(&g) * sizeof *wgot, shapes[s], "double");
        }
}

/* Every kernel of this machine, with blocks that cut all three sizes. */
static void kernels_and_blocks_do_not_change_the_bits(void **state)
{
    (void)state;
    static const struct d2_blocks blocks[] = {
        {1, 1, 1}, {32, 8, 7}, {48, 1000, 16}, {1000, 16, 33}};
    struct d2_sgemm g;
    struct d2_dgemm w;
    for (size_t s = 0; s < NSHAPES; s++)
        for (unsigned way = 0; way < 32; way += step(3)) {
            product(&g, &w, shapes[s], way);
            memcpy(want, old, span(&g) * sizeof *got);
            memcpy(wwant, wold, span(&g) * sizeof *wgot);
            plain(&g, want);
            wide_plain(&w, wwant);
            for (size_t i = 0; i < 4 * d2_kernel_count(); i++) {
                memcpy(got, old, span(&g) * sizeof *got);
                memcpy(wgot, wold, span(&g) * sizeof *wgot);
                d2_sgemm_by(&g, i / 4, &blocks[i % 4]);
                d2_dgemm_by(&w, i / 4, &blocks[i % 4]);
                same(got, want, span(&g) * sizeof *got, shapes[s],
                     d2_kernel_name(i / 4));
                same(wgot, wwant, span(&g) * sizeof *wgot, shapes[s],
                     d2_kernel_name(i / 4));
            }
        }
}

/* Long sums are cut by the usual blocks too. */
static void long_sums_go_on_where_they_were(void **state)
{
    (void)state;
    static const size_t shape[3] = {20, 11, 1300};
    struct d2_sgemm g;
    struct d2_dgemm w;
    for (unsigned way = 0; way < 4; way++) {
        product(&g, &w, shape, way);
        memcpy(got, old, span(&g) * sizeof *got);
        memcpy(want, old, span(&g) * sizeof *got);
        d2_sgemm(&g);
        plain(&g, want);
        same(got, want, span(&g) * sizeof *got, shape, "float");
    }
}

/* The failing twins: sums in two halves, and backwards, have other bits. */
static void other_orders_of_the_sum_give_other_bits(void **state)
{
    (void)state;
    static const size_t shape[3] = {20, 11, 130};
    struct d2_sgemm g, half;
    struct d2_dgemm w;
    product(&g, &w, shape, 0);
    d2_sgemm(&g);
    half = g;
    half.k = 65;
    half.beta = 0;
    half.c.at = want;
    d2_sgemm(&half);
    half.a.at += 65 * g.a.col;
    half.b.at += 65 * g.b.row;
    half.beta = 1; /* second half summed on its own, then added */
    d2_sgemm(&half);
    assert_memory_not_equal(got, want, span(&g) * sizeof *got - 36);
    half = g;
    half.c.at = want;
    half.a = (struct d2_smat){a + 129 * g.a.col, 1, -g.a.col};
    half.b = (struct d2_smat){b + 129, -1, g.b.col};
    d2_sgemm(&half);
    assert_memory_not_equal(got, want, span(&g) * sizeof *got - 36);
    plain(&half, got); /* and strides below 0 are as good as others */
    same(got, want, span(&g) * sizeof *got - 36, shape, "backwards");
}

static void alpha_0_and_beta_0_read_no_operand(void **state)
{
    (void)state;
    float nan[4] = {NAN, NAN, NAN, NAN}, one[4] = {1, 2, 3, 4}, c[4];
    struct d2_sgemm g = {.m = 2,
                         .n = 2,
                         .k = 2,
                         .a = d2_srows(nan, 2),
                         .b = d2_srows(one, 2),
                         .c = d2_srows_out(c, 2),
                         .alpha = 0,
                         .beta = 2};
    memcpy(c, one, sizeof c);
    d2_sgemm(&g);
    assert_true(c[0] == 2 && c[3] == 8);
    g.beta = 0;
    d2_sgemm(&g);
    assert_true(c[0] == 0 && c[3] == 0);
    memcpy(c, nan, sizeof c);
    g.a = d2_srows_t(one, 2);
    g.alpha = 1;
    d2_sgemm(&g); /* beta 0: what was in c is not read */
    assert_true(c[0] == 10 && c[1] == 14 && c[2] == 14 && c[3] == 20);
    g.k = 0;
    g.beta = 1;
    d2_sgemm(&g);
    assert_true(c[0] == 10 && c[3] == 20);
    g.m = 0;
    d2_sgemm(&g);
    assert_true(c[0] == 10 && c[3] == 20);
}

static void the_blas_names_do_the_same(void **state)
{
    (void)state;
    static const char letter[] = "NT";
    int m = 21, n = 13, k = 37, ld = 50;
    float alpha = 0.3f, beta = -2;
    double walpha = (double)alpha, wbeta = -2;
    for (int way = 0; way < 4; way++) {
        struct d2_sgemm g = {.m = 21,
                             .n = 13,
                             .k = 37,
                             .a = way & 1 ? d2_srows(a, 50) : d2_srows_t(a, 50),
                             .b = way & 2 ? d2_srows(b, 50) : d2_srows_t(b, 50),
                             .c = {got, 1, 50},
                             .alpha = alpha,
                             .beta = beta};
        struct d2_dgemm w = {21,
                             13,
                             37,
                             {wa, g.a.row, g.a.col},
                             {wb, g.b.row, g.b.col},
                             {wgot, 1, 50},
                             walpha,
                             wbeta};
        memcpy(got, old, 650 * sizeof *got);
        memcpy(want, old, 650 * sizeof *got);
        memcpy(wgot, wold, 650 * sizeof *wgot);
        memcpy(wwant, wold, 650 * sizeof *wgot);
        sgemm_(&letter[way & 1], &letter[way >> 1], &m, &n, &k, &alpha, a, &ld,
               b, &ld, &beta, got, &ld);
        dgemm_(&letter[way & 1], &letter[way >> 1], &m, &n, &k, &walpha, wa,
               &ld, wb, &ld, &wbeta, wgot, &ld);
        plain(&g, want);
        wide_plain(&w, wwant);
        assert_memory_equal(got, want, 650 * sizeof *got);
        assert_memory_equal(wgot, wwant, 650 * sizeof *wgot);
    }
}

/* gemv is gemm with one column, whatever the strides of its vectors. */
static void matrix_times_vector_is_the_same_sum(void **state)
{
    (void)state;
    static const int sizes[][2] = {
        {1, 1}, {7, 9}, {19, 8}, {300, 40}, {40, 300}};
    static const int steps[] = {1, 2, -1, -3};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (unsigned way = 0; way < 32; way += step(1)) {
            int m = sizes[s][0], n = sizes[s][1], ld = m + 2;
            int incx = steps[way / 2 % 4], incy = steps[way / 8];
            bool turned = way & 1;
            int rows = turned ? n : m, k = turned ? m : n;
            float alpha = 1.25f, beta = way % 3 ? 0.4f : 0;
            double walpha = 1.25, wbeta = (double)beta;
            ptrdiff_t x0 = incx < 0 ? -(k - 1) * incx : 0;
            ptrdiff_t y0 = incy < 0 ? -(rows - 1) * incy : 0;
            struct d2_sgemm g = {.m = (size_t)rows,
                                 .n = 1,
                                 .k = (size_t)k,
                                 .a = {a, turned ? ld : 1, turned ? 1 : ld},
                                 .b = {b + x0, incx, 1},
                                 .c = {want + y0, incy, 1},
                                 .alpha = alpha,
                                 .beta = beta};
            struct d2_dgemm w = {
                g.m, 1,    g.k,  {wa, g.a.row, g.a.col}, {wb + x0, incx, 1},
                {0}, 1.25, wbeta};
            w.c.row = incy;
            memcpy(got, old, 1000 * sizeof *got);
            memcpy(want, old, 1000 * sizeof *got);
            memcpy(wgot, wold, 1000 * sizeof *wgot);
            memcpy(wwant, wold, 1000 * sizeof *wgot);
            sgemv_(turned ? "t" : "n", &m, &n, &alpha, a, &ld, b, &incx, &beta,
                   got, &incy);
            dgemv_(turned ? "T" : "N", &m, &n, &walpha, wa, &ld, wb, &incx,
                   &wbeta, wgot, &incy);
            plain(&g, want + y0);
            wide_plain(&w, wwant + y0);
            assert_memory_equal(got, want, 1000 * sizeof *got);
            assert_memory_equal(wgot, wwant, 1000 * sizeof *wgot);
        }
}

static void dot_axpy_and_scal_agree_with_plain_loops(void **state)
{
    (void)state;
    int n = 501, one = 1, two = 2, back = -1;
    float s = 0, t = 0, by = 0.1f;
    double ws = 0, wby = 0.1;
    for (int i = 0; i < n; i++) {
        s = s + a[i] * b[2 * i];
        ws = ws + wa[i] * wb[2 * i];
        t = t + a[i] * b[n - 1 - i];
    }
    float dot = sdot_(&n, a, &one, b, &two);
    float turned = sdot_(&n, a, &one, b, &back);
    double wdot = ddot_(&n, wa, &one, wb, &two);
    assert_memory_equal(&dot, &s, sizeof s);
    assert_memory_equal(&turned, &t, sizeof t);
    assert_memory_equal(&wdot, &ws, sizeof ws);
    memcpy(got, old, sizeof got);
    memcpy(wgot, wold, sizeof wgot);
    saxpy_(&n, &by, a, &one, got, &one);
    saxpy_(&n, &by, b, &two, got, &one);
    daxpy_(&n, &wby, wa, &one, wgot, &one);
    daxpy_(&n, &wby, wb, &back, wgot, &one);
    sscal_(&n, &by, got, &one);
    dscal_(&n, &wby, wgot, &one);
    for (int i = 0; i < n; i++) {
        float y = old[i] + by * a[i];
        double wy = wold[i] + wby * wa[i];
        y = by * (y + by * b[2 * i]);
        wy = wby * (wy + wby * wb[n - 1 - i]);
        assert_memory_equal(&got[i], &y, sizeof y);
        assert_memory_equal(&wgot[i], &wy, sizeof wy);
    }
    assert_true(got[n] == old[n] && wgot[n] == wold[n]);
}

int main(void)
{
    struct rng rng;
    printf("seed 411, kernels:");
    for (size_t i = 0; i < d2_kernel_count(); i++)
        printf(" %s", d2_kernel_name(i));
    printf("\n");
    rng_seed(&rng, 411);
    fill(&rng);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product_is_three_plain_loops),
        cmocka_unit_test(kernels_and_blocks_do_not_change_the_bits),
        cmocka_unit_test(long_sums_go_on_where_they_were),
        cmocka_unit_test(other_orders_of_the_sum_give_other_bits),
        cmocka_unit_test(alpha_0_and_beta_0_read_no_operand),
        cmocka_unit_test(the_blas_names_do_the_same),
        cmocka_unit_test(matrix_times_vector_is_the_same_sum),
        cmocka_unit_test(dot_axpy_and_scal_agree_with_plain_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
