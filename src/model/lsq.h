/* lsq.h - weighted rows for a linear fit, gathered one by one.
 *
 * What the models' fits do before they call math/linear.h: skip a row, weigh
 * it, add it. Memory is kept between fits and given back at the end.
 */
#ifndef MODEL_LSQ_H
#define MODEL_LSQ_H
#include "base/arena.h"
#include <stddef.h>

enum { LSQ_TERMS = 8 };

struct lsq {
    struct arena rows, scratch;
    double *a, *y;
    size_t terms, n;
};

/* Room for at most `max` rows of `terms` <= LSQ_TERMS numbers, and for one
 * lsq_shrink. */
void lsq_init(struct lsq *lsq, size_t terms, size_t max);
/* Forgets the rows. */
void lsq_clear(struct lsq *lsq);
/* Adds a finite row x[0..terms) that should give y, with weight w >= 0. */
void lsq_add(struct lsq *lsq, const double *x, double y, double w);
/* Pulls the coefficients from `first` on towards zero with the weight of `rows`
 * typical rows: keeps a fit to few rows sane. */
void lsq_shrink(struct lsq *lsq, size_t first, double rows);
/* The coefficients of any sign, or the best that are all >= 0. There must be
 * a row. */
void lsq_solve(struct lsq *lsq, double *coef);
void lsq_solve_positive(struct lsq *lsq, double *coef);
void lsq_release(struct lsq *lsq);

#endif
