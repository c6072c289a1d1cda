/* steprow.h - a measured step, and the residuals a fit minimises.
 *
 * Private to the fit of the iteration-time model (itertime_fit.c): parameters
 * as a vector, measurements as rows, exact derivatives.
 */
#ifndef MODEL_STEPROW_H
#define MODEL_STEPROW_H
#include <firn/itertime.h>

/* The fitted parameters, in the order of a vector of NPARAMS doubles. */
enum {
    ALPHA,
    BETA,
    CURVE,
    FLOOR,
    CROWD,
    PHI,
    PHI_FIXED,
    GAMMA,
    LOCAL, /* alpha, beta, crowd of each law */
    PAIR = LOCAL + 3,
    FAR = PAIR + 3,
    FLOP = FAR + 3,  /* alpha, beta, gamma of I(6) */
    SYNC = FLOP + 3, /* alpha, beta of I(7) */
    NPARAMS = SYNC + 2,
};

/* A measurement, with all terms that do not depend on the parameters. */
struct steprow {
    double b, k1, r2;  /* batch; k - 1; r - 2 */
    double step, comp; /* comp: 0 when not measured */
    size_t comp_at;    /* where its residual is */
    double theta, omega, log_theta;
    int law; /* LOCAL, PAIR or FAR; -1 for one GPU */
    bool is_frozen;
};

struct steprows {
    struct steprow *rows;
    size_t nrows, nresiduals;
    double message_s;
    double fixed[NPARAMS]; /* values of those not fitted */
    int column[NPARAMS];   /* -1: fixed */
    int ncolumns;
};

/* Adds a usable measurement; `rows` has room. */
void steprow_add(struct steprows *t, const struct firn_step_obs *obs);

/* Lays the residuals out, once all rows are there. */
void steprow_lay_out(struct steprows *t);

/* All parameters from the fitted ones p. */
void steprow_spread(const struct steprows *t, const double *p, double *v);

/* A fit_residuals of math/fit.h; `ctx` is the struct steprows. One a row for
 * the step, then one for each row whose compute was measured. */
void steprow_residuals(void *ctx, const double *p, double *r, double *jac);

#endif
