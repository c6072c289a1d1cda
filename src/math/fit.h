/* fit.h - bounded non-linear least squares with a prior.
 *
 *     minimise  sum_i rho(r_i(p)) + ridge^2 sum_j ((p_j - prior_j)/scale_j)^2
 *     such that lower_j <= p_j <= upper_j
 *
 * The second term says what is believed before anything was measured: with few
 * points the answer stays near the prior, with many it does not matter. It
 * also makes the problem well posed from one residual on. `scale` is how far a
 * parameter is expected to go from its prior. rho(r) is r^2, or with
 * `soft` > 0 the soft L1 loss 2 soft^2 (sqrt(1 + (r/soft)^2) - 1), which grows
 * linearly, so that a stalled measurement does not drag the fit.
 *
 * Deterministic: no randomness, no clock. A local minimum near `start`.
 */
#ifndef MATH_FIT_H
#define MATH_FIT_H
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>

struct arena;

/* Writes r[0..nresiduals) at p and, when `jac` is not NULL, the derivatives
 * jac[i * nparams + j] = dr_i/dp_j. p is within the bounds. */
typedef void fit_residuals(void *ctx, const double *p, double *r, double *jac);

struct fit_problem {
    size_t nparams, nresiduals;
    fit_residuals *residuals;
    void *ctx;
    /* Each nparams long. Bounds may be infinite; lower < upper. A start
     * outside is moved inside. */
    const double *start, *lower, *upper, *prior, *scale;
    double ridge;     /* > 0: weight of the prior; 0.01 is weak */
    double soft;      /* 0: squares */
    double tolerance; /* relative, of cost and parameters; 0: 1e-10 */
    int max_evals;    /* 0: 200 */
};

struct fit_result {
    double cost; /* the minimised sum */
    int evals;
    bool converged; /* false: stopped at max_evals; p is still usable */
};

/* Writes p[0..nparams). FIRN_EDATA without residuals or parameters;
 * FIRN_EINVAL when bounds cross, a number is not finite, or the residuals at
 * the start are not finite; p is then unchanged. A typical refit (7
 * parameters, 60 residuals) takes a fraction of a millisecond. */
enum firn_status fit_run(const struct fit_problem *problem, double *p,
                         struct fit_result *result, struct arena *scratch,
                         struct firn_error *err);

#endif
