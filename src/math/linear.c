/* linear.c - least squares by LAPACK, non-negative by an active set.
 *
 * The free problem is one call of dgelsy: QR with column pivoting and complete
 * orthogonal factorisation, so rank is decided rather than assumed. Columns
 * are scaled to length 1 first; without it bytes next to shares would make a
 * well-posed problem look singular.
 *
 * The non-negative problem is Lawson and Hanson's active set (Solving Least
 * Squares Problems, ch. 23). A set P of positive coordinates grows by the
 * coordinate with the steepest descent; the free problem on P is solved; as
 * long as its solution is not positive, the step is cut at the first
 * coordinate that reaches zero, which then leaves P.
 *
 * (1) x >= 0 at all times, and x[j] = 0 outside P.
 * (2) The cost falls with each coordinate that enters, so no P comes twice;
 *     rounding can break that, hence the limit on the number of rounds.
 *
 * The bits depend on the LAPACK that is installed; the same machine gives the
 * same bits.
 */
#include "math/linear.h"
#include "base/arena.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

static enum firn_status check(const struct linear_problem *p,
                              struct firn_error *err)
{
    if (p->rows == 0 || p->cols == 0)
        return firn_fail(err, FIRN_EDATA,
                         "least squares: %zu rows and %zu columns", p->rows,
                         p->cols);
    for (size_t i = 0; i < p->rows; i++) {
        bool is_finite = isfinite(p->y[i]);
        for (size_t j = 0; j < p->cols; j++)
            is_finite = is_finite && isfinite(p->a[i * p->cols + j]);
        if (!is_finite)
            return firn_fail(err, FIRN_EINVAL,
                             "least squares: row %zu is not finite", i + 1);
    }
    return FIRN_OK;
}

/* LAPACK's own, by reference as Fortran has it. Not through LAPACKE: that
 * library has 2560 symbols which the loader binds at every start of firn. */
extern void dgelsy_(const int *m, const int *n, const int *nrhs, double *a,
                    const int *lda, double *b, const int *ldb, int *jpvt,
                    const double *rcond, int *rank, double *work,
                    const int *lwork, int *info);

/* Length of column j, or 1 when it is all zeros. */
static double column_length(const struct linear_problem *p, size_t j)
{
    double sum = 0;
    for (size_t i = 0; i < p->rows; i++)
        sum += p->a[i * p->cols + j] * p->a[i * p->cols + j];
    return sum > 0 ? sqrt(sum) : 1;
}

/* Least squares over the columns with in[j]; z[j] = 0 for the others. */
static void solve(const struct linear_problem *p, const bool *in, double *z,
                  struct arena *scratch)
{
    size_t n = 0, m = p->rows;
    size_t *of = arena_alloc(scratch, p->cols * sizeof *of);
    for (size_t j = 0; j < p->cols; j++) {
        z[j] = 0;
        if (in[j])
            of[n++] = j;
    }
    if (n == 0)
        return;
    double *a = arena_alloc(scratch, m * n * sizeof *a);
    double *b = arena_alloc(scratch, (m > n ? m : n) * sizeof *b);
    double *length = arena_alloc(scratch, n * sizeof *length);
    int *pivot = arena_alloc(scratch, n * sizeof *pivot);
    for (size_t k = 0; k < n; k++) {
        length[k] = column_length(p, of[k]);
        for (size_t i = 0; i < m; i++)
            a[k * m + i] = p->a[i * p->cols + of[k]] / length[k];
    }
    memcpy(b, p->y, m * sizeof *b);
    const int rows = (int)m, cols = (int)n, one = 1,
              longer = m > n ? rows : cols;
    const double rcond = 1e-12;
    int rank = 0, bad = 0, size = -1; /* -1: asks for the size of `work` */
    double best = 0, *work = &best;
    for (int call = 0; call < 2 && bad == 0; call++) {
        dgelsy_(&rows, &cols, &one, a, &rows, b, &longer, pivot, &rcond, &rank,
                work, &size, &bad);
        if (call == 0) {
            size = (int)best;
            work = arena_alloc(scratch, (size_t)size * sizeof *work);
        }
    }
    if (bad != 0)
        FIRN_BUG("dgelsy: argument %d", -bad);
    for (size_t k = 0; k < n; k++)
        z[of[k]] = b[k] / length[k];
}

enum firn_status linear_fit(const struct linear_problem *problem, double *x,
                            struct arena *scratch, struct firn_error *err)
{
    FIRN_TRY(check(problem, err));
    bool *in = arena_alloc(scratch, problem->cols * sizeof *in);
    for (size_t j = 0; j < problem->cols; j++)
        in[j] = true;
    solve(problem, in, x, scratch);
    return FIRN_OK;
}

/* The coordinate outside P along which the cost falls fastest, per unit of
 * column length; -1 when none does. */
static long steepest(const struct linear_problem *p, const double *x,
                     const bool *in, double *residual)
{
    double scale = 0, best = 0;
    long at = -1;
    for (size_t i = 0; i < p->rows; i++) {
        residual[i] = p->y[i];
        for (size_t j = 0; j < p->cols; j++)
            residual[i] -= p->a[i * p->cols + j] * x[j];
        scale += p->y[i] * p->y[i];
    }
    for (size_t j = 0; j < p->cols; j++) {
        double w = 0;
        for (size_t i = 0; i < p->rows; i++)
            w += p->a[i * p->cols + j] * residual[i];
        w /= column_length(p, j);
        if (!in[j] && w > best && w > 1e-11 * sqrt(scale)) {
            best = w;
            at = (long)j;
        }
    }
    return at;
}

/* Goes from x towards z until a coordinate of P reaches zero; those leave.
 * False when z itself is reached. */
static bool step_is_cut(size_t cols, double *x, const double *z, bool *in)
{
    double share = 1;
    for (size_t j = 0; j < cols; j++)
        if (in[j] && z[j] <= 0 && x[j] / (x[j] - z[j]) < share)
            share = x[j] / (x[j] - z[j]);
    bool is_cut = false;
    for (size_t j = 0; j < cols; j++) {
        bool leaves = in[j] && z[j] <= 0 &&
                      x[j] - share * (x[j] - z[j]) <= 1e-14 * fabs(x[j] - z[j]);
        x[j] += share * (z[j] - x[j]);
        if (leaves || x[j] < 0)
            x[j] = 0;
        if (leaves)
            in[j] = false;
        is_cut = is_cut || leaves;
    }
    return is_cut;
}

enum firn_status linear_fit_nonneg(const struct linear_problem *problem,
                                   double *x, struct arena *scratch,
                                   struct firn_error *err)
{
    FIRN_TRY(check(problem, err));
    size_t n = problem->cols;
    bool *in = arena_alloc(scratch, n * sizeof *in);
    double *z = arena_alloc(scratch, n * sizeof *z);
    double *at = arena_alloc(scratch, n * sizeof *at);
    double *residual = arena_alloc(scratch, problem->rows * sizeof *residual);
    for (size_t round = 0; round < 3 * n + 10; round++) {
        long j = steepest(problem, at, in, residual);
        if (j < 0)
            break;
        in[j] = true;
        solve(problem, in, z, scratch);
        if (z[j] <= 0) { /* rounding: it would leave at once */
            in[j] = false;
            break;
        }
        while (step_is_cut(n, at, z, in))
            solve(problem, in, z, scratch);
    }
    memcpy(x, at, n * sizeof *x);
    return FIRN_OK;
}

double linear_cost(const struct linear_problem *problem, const double *x)
{
    double cost = 0;
    for (size_t i = 0; i < problem->rows; i++) {
        double r = -problem->y[i];
        for (size_t j = 0; j < problem->cols; j++)
            r += problem->a[i * problem->cols + j] * x[j];
        cost += r * r;
    }
    return cost;
}
