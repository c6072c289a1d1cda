/* minimise.h - the least value of a smooth function between simple bounds.
 *
 *     minimise f(x)  such that lower_j <= x_j <= upper_j
 *
 * for at most MINIMISE_VARS variables with an exact gradient. A local minimum
 * near the start. Deterministic and without allocation: no randomness, no
 * clock. Where f is a sum of squares of residuals, math/fit.h is faster.
 *
 * f need not be smooth at its minimum (a root mean square at zero is not): the
 * search then ends where no step lowers the value any more.
 */
#ifndef MATH_MINIMISE_H
#define MATH_MINIMISE_H
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>

enum { MINIMISE_VARS = 16 };

/* The value at x, and its derivatives into grad[0..n). x is within the
 * bounds. */
typedef double minimise_function(void *ctx, const double *x, double *grad);

struct minimise_problem {
    size_t n; /* variables */
    minimise_function *function;
    void *ctx;
    /* Each n long; may be infinite; lower == upper fixes a variable. */
    const double *lower, *upper;
    /* Stop when a step lowers f by no more than f_tol max(|f|, 1), or when no
     * component of the gradient that points into the box exceeds g_tol. 0: the
     * usual 2.2204460492503131e-9 and 1e-5. */
    double f_tol, g_tol;
    int max_evals; /* 0: 15000 */
};

struct minimise_result {
    double value;
    int iterations, evals;
    bool converged; /* false: out of evaluations, or at a kink, where the
                     * gradient promises a descent that no step finds; x is
                     * the best point all the same */
};

/* From x[0..n), moved inside the bounds, to the minimum, written into x; never
 * to a higher value. FIRN_EINVAL when there are no or too many variables,
 * bounds cross, or x or f at the start is not finite; x is then unchanged. */
enum firn_status minimise_run(const struct minimise_problem *problem, double *x,
                              struct minimise_result *result,
                              struct firn_error *err);

#endif
