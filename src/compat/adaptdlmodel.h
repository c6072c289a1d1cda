/* adaptdlmodel.h - the model that AdaptDL's policies learn of a running job.
 *
 * Each (nodes n, GPUs r, samples a GPU b) that a job trains with is observed
 * once, without noise; each new one makes the fit of seven parameters anew:
 *
 *   compute  C = ac + bc b
 *   network  N = 1e-8                        r = 1
 *              = ar + br max(r - 2, 1e-8)    n = 1
 *              = an + bn max(r - 2, 1e-8)    n > 1
 *   step     T = (C^g + N^g)^(1/g)
 *
 * by least sum of the two root mean squares of ln C - ln(step - sync) and of
 * ln T - ln step, with priors; parameters never observed stay at their bound
 * (Pollux, OSDI 2021, sections 4.1 and 5). From it comes goodput, examples a
 * second x efficiency, at the best batch for a number of nodes and GPUs.
 */
#ifndef COMPAT_ADAPTDLMODEL_H
#define COMPAT_ADAPTDLMODEL_H
#include "base/vec.h"
#include "compat/adaptdlapp.h"

enum adlparam { ADL_AC, ADL_BC, ADL_AN, ADL_BN, ADL_AR, ADL_BR, ADL_G, ADL_NP };

struct adlparams {
    double at[ADL_NP];
};

struct adlseen {
    int nodes, gpus, b;
    double pass_s, step_s; /* step - sync; step */
    double log_pass, log_step;
};

struct adlseen adlseen(int nodes, int gpus, int b, struct adltime time);

/* A zeroed struct has seen nothing. */
struct adlmodel {
    VEC(struct adlseen) seen;
    int gpus_most; /* the most GPUs seen */
    bool is_stale; /* something new was seen since the fit */
    struct adlparams params;
    double f_tol;           /* of the fit; 0: the usual one (Sia: 1e-5) */
    unsigned long version;  /* of params */
    struct adlgrid **grids; /* private: candidates of adlmodel_best() */
    size_t ngrids;
};

void adlmodel_release(struct adlmodel *model);

/* Remembers a pass, unless one with the same n, r and b was seen; true when it
 * is new. Does not fit yet. */
bool adlmodel_observe(struct adlmodel *model, int nodes, int gpus, int b,
                      struct adltime time);

/* Is there no observation, and so no model? */
bool adlmodel_is_blank(const struct adlmodel *model);

/* Fits if something new was seen. Called by adlmodel_best(). */
void adlmodel_fit(struct adlmodel *model);

/* The objective of the fit, and its gradient where that is not NULL. */
double adlmodel_objective(const struct adlparams *params,
                          const struct adlseen *seen, size_t nseen,
                          double *gradient);
/* C, N and T of a way to run. */
struct adlparts {
    double pass_s, network_s, step_s;
};
struct adlparts adlparams_parts(const struct adlparams *params, int nodes,
                                int gpus, int b);

struct adlbest {
    double goodput; /* examples a second x efficiency; 0: no batch fits */
    struct adlbatch batch;
};

/* The best batch: of 50 totals in equal ratios from max(B0, b_min r) to
 * total_max, each split into the fewest passes (two for one GPU beyond B0), b
 * rounded up, those outside [b_min, b_max] left out; the first of equal ones.
 * NOT yet cut to total_max (adlbatch_cut). Not blank. The candidates are kept
 * for each (n > 1, r) until the fit or the limits change, so that a question
 * with new statistics costs 50 products, and one asked again nothing. */
struct adlbest adlmodel_best(struct adlmodel *model,
                             const struct firn_noise *noise,
                             const struct adllimits *limits, int nodes,
                             int gpus);

#endif
