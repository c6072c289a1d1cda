/* linear.h - small dense linear least squares, free or non-negative.
 *
 *     minimise |A x - y|,  or the same with every x[j] >= 0
 *
 * A has `rows` rows of `cols` numbers, row after row. Dependent columns are
 * fine: the free form then gives the shortest of the best x (in columns scaled
 * to length 1), the other one of the best. Meant for tens of columns and
 * thousands of rows. Everything is borrowed; scratch memory comes from the
 * arena.
 */
#ifndef MATH_LINEAR_H
#define MATH_LINEAR_H
#include <firn/status.h>
#include <stddef.h>

struct arena;

struct linear_problem {
    const double *a; /* rows x cols */
    const double *y; /* rows */
    size_t rows, cols;
};

/* Writes x[0..cols). FIRN_EDATA without rows or columns, FIRN_EINVAL when a
 * number is not finite; x is then unchanged. O(rows cols^2). */
enum firn_status linear_fit(const struct linear_problem *problem, double *x,
                            struct arena *scratch, struct firn_error *err);

/* The same with x >= 0. At most 3 cols + 10 such factorisations. */
enum firn_status linear_fit_nonneg(const struct linear_problem *problem,
                                   double *x, struct arena *scratch,
                                   struct firn_error *err);

/* |A x - y|^2. */
double linear_cost(const struct linear_problem *problem, const double *x);

#endif
