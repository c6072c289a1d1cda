/* lsq.c - gathers weighted rows and has math/linear.h solve them.
 *
 * A weight w becomes a factor sqrt(w) on both sides of its row. The callers
 * check rows and report bad ones, so an error of the solver is a bug.
 */
#include "model/lsq.h"
#include "math/linear.h"
#include <math.h>

void lsq_init(struct lsq *lsq, size_t terms, size_t max)
{
    *lsq = (struct lsq){.terms = terms};
    arena_init(&lsq->rows);
    arena_init(&lsq->scratch);
    lsq->a = arena_alloc(&lsq->rows, (max + terms) * terms * sizeof *lsq->a);
    lsq->y = arena_alloc(&lsq->rows, (max + terms) * sizeof *lsq->y);
}

void lsq_clear(struct lsq *lsq)
{
    lsq->n = 0;
}

void lsq_add(struct lsq *lsq, const double *x, double y, double w)
{
    double root = sqrt(w);
    for (size_t i = 0; i < lsq->terms; i++)
        lsq->a[lsq->n * lsq->terms + i] = root * x[i];
    lsq->y[lsq->n++] = root * y;
}

void lsq_shrink(struct lsq *lsq, size_t first, double rows)
{
    size_t n = lsq->n;
    for (size_t j = first; j < lsq->terms; j++) {
        double x[LSQ_TERMS] = {0};
        for (size_t i = 0; i < n; i++) {
            double v = lsq->a[i * lsq->terms + j];
            x[j] += v * v / (double)n;
        }
        x[j] = sqrt(x[j]);
        lsq_add(lsq, x, 0, rows);
    }
}

static struct linear_problem problem(const struct lsq *lsq)
{
    return (struct linear_problem){lsq->a, lsq->y, lsq->n, lsq->terms};
}

void lsq_solve(struct lsq *lsq, double *coef)
{
    struct linear_problem p = problem(lsq);
    struct firn_error err;
    if (linear_fit(&p, coef, &lsq->scratch, &err) != FIRN_OK)
        FIRN_BUG("least squares: %s", err.text);
    arena_reset(&lsq->scratch);
}

void lsq_solve_positive(struct lsq *lsq, double *coef)
{
    struct linear_problem p = problem(lsq);
    struct firn_error err;
    if (linear_fit_nonneg(&p, coef, &lsq->scratch, &err) != FIRN_OK)
        FIRN_BUG("least squares: %s", err.text);
    arena_reset(&lsq->scratch);
}

void lsq_release(struct lsq *lsq)
{
    arena_release(&lsq->rows);
    arena_release(&lsq->scratch);
}
