/* itertime.h - how long one iteration of data-parallel training takes.
 *
 * Symbols, with the equations they come from (I: IceFrog, S: SJF-BSBF, P:
 * Pollux). A shape runs r replicas on n nodes, k of them on the fullest node,
 * each with b samples per pass and s passes per iteration; theta and omega are
 * the shares of backward FLOPs and of parameters that are not frozen.
 *
 *   compute     C(b) = alpha + beta b                            S(3), P
 *   sync        N    = 0                            when r = 1
 *                    = local.alpha + local.beta (r-2)  n = 1     P
 *                    = alpha + beta (r-2)              n > 1     P
 *               N   += byte_s M                                  S(4)
 *   forward     F = phi C,  backward at theta = 1: B = C - F
 *   frozen      B(theta) = min(B, flop.alpha + flop.beta theta^flop.gamma B)
 *               N(omega) = min(N, sync.alpha + sync.beta omega N)    I(6)(7)
 *   step        F + (B^gamma + N^gamma)^(1/gamma)                I(5)
 *   iteration   (s - 1) (F + B) + step                           S(7)
 *
 * phi = 0 makes the step Pollux's and S(7)'s. I(5) is printed with l = 0 on
 * both terms; B(theta) and N(omega) stand there, as the text means. With
 * nothing frozen (theta = omega = 1) I(6)(7) are not applied: they speak of
 * T(m, l) given T(m, 0). The minimum says that freezing never costs time.
 *
 * What measurements demanded beyond the papers, each 0 in their special case
 * (phi_fixed: phi):
 *   C(b) = ((alpha + beta b + curve b^2)^4 + floor^4)^(1/4) (1 + crowd (k-1))
 *       a floor below which small batches do not go, a slight bend, and GPUs
 *       that share a host's processors and bus;
 *   F = phi (C - A) + phi_fixed A with A = alpha (1 + crowd (k-1)): the fixed
 *       part is kernel launches and the optimizer, which freezing cuts with
 *       the backward pass; phi_fixed = phi is the papers' F = phi C;
 *   N += crowd (k-1), for neighbours that share one network card; and two
 *       nodes apart from three and more, where rings and trees differ.
 *
 * Pure functions: no clock, no allocation, no globals. About 10^7 a second.
 */
#ifndef FIRN_ITERTIME_H
#define FIRN_ITERTIME_H
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>

FIRN_C_BEGIN

/* How a job is run. Invariant: 1 <= nodes <= gpus, batch_per_gpu > 0,
 * accum_steps >= 1, theta and omega in [0, 1]. */
struct firn_shape {
    int nodes, gpus;
    int gpus_on_fullest;  /* 0: spread evenly, ceil(gpus / nodes) */
    double batch_per_gpu; /* samples per pass */
    int accum_steps;      /* passes per iteration, S(7)'s s; 0 counts as 1 */
    double theta, omega;  /* unfrozen shares; 1, 1: nothing frozen */
};

/* Seconds: alpha + beta (r - 2) + crowd (k - 1). */
struct firn_sync_law {
    double alpha_s, beta_s, crowd_s;
};

/* What is fitted. All are >= 0. A zeroed struct with gamma = 1 is valid. */
struct firn_itertime {
    double alpha_s, beta_s; /* beta: per sample */
    double curve_s;         /* per sample^2 */
    double floor_s;
    double crowd;     /* share per further GPU on the node */
    double phi;       /* forward's share of compute, [0, 0.9] */
    double phi_fixed; /* and of its fixed part alpha; = phi in the papers */
    double gamma;     /* overlap: 1 none, 10 full */
    struct firn_sync_law local, pair, far;      /* 1 node, 2 nodes, 3 or more */
    double byte_s, message_bytes;               /* S(4): seconds per byte, M */
    double flop_alpha_s, flop_beta, flop_gamma; /* I(6), gamma in [0.5, 1.2] */
    double sync_alpha_s, sync_beta;             /* I(7) */

    /* The range it was fitted on; all zero when it was not. */
    double batch_min, batch_max, theta_min;
    int gpus_max, nodes_max;
};

/* The parts of one iteration, in seconds. */
struct firn_itertime_parts {
    double forward_s, backward_s; /* of one pass */
    double sync_s;                /* were it not overlapped */
    double step_s;                /* a pass that synchronises */
    double iteration_s;           /* all passes */
    bool extrapolated;            /* outside the fitted range */
};

FIRN_API double firn_itertime_compute(const struct firn_itertime *m,
                                      const struct firn_shape *shape);
FIRN_API double firn_itertime_sync(const struct firn_itertime *m,
                                   const struct firn_shape *shape);
FIRN_API double firn_itertime_backward(const struct firn_itertime *m,
                                       const struct firn_shape *shape);
/* The whole iteration; what a policy asks a million times. */
FIRN_API double firn_itertime_iteration(const struct firn_itertime *m,
                                        const struct firn_shape *shape);
FIRN_API struct firn_itertime_parts
firn_itertime_parts(const struct firn_itertime *m,
                    const struct firn_shape *shape);
/* Samples per second: gpus x batch x passes / iteration. */
FIRN_API double firn_itertime_throughput(const struct firn_itertime *m,
                                         const struct firn_shape *shape);

/* (a^gamma + b^gamma)^(1/gamma) for a, b >= 0, gamma >= 1: from a + b at 1 to
 * max(a, b) at infinity. */
FIRN_API double firn_overlap(double a, double b, double gamma);

/* One measurement: a step that synchronises, i.e. one pass; accum_steps is
 * not looked at. sync_s is the part of the step that is no compute, or NaN. */
struct firn_step_obs {
    struct firn_shape shape;
    double step_s, sync_s;
};

enum firn_itertime_form {
    FIRN_FORM_POLLUX, /* 7 parameters: alpha, beta, both laws, gamma */
    FIRN_FORM_PAPER,  /* and phi, I(6), I(7) */
    FIRN_FORM_FULL,   /* and what measurements demanded */
};

struct firn_itertime_fit {
    enum firn_itertime_form form;
    size_t nused;     /* measurements used */
    size_t nrejected; /* and those that were not positive and finite */
    double cost;      /* of the fit, see math/fit.h */
    bool converged;
};

/* What is assumed of a job that was never measured: half a second and half a
 * second per sample, a third of it forward, no sync cost. */
FIRN_API void firn_itertime_default(struct firn_itertime *m);

/* Refits from n borrowed measurements. On entry `m` is the prior; a job's last
 * fit, or firn_itertime_default(). What the measurements say nothing about
 * (no second node seen, one batch size, nothing frozen) stays as it follows
 * from the prior and from what was seen: multi-node sync is at least 1.1 times
 * that on one node (P). `fit` says the form and receives the counts.
 * FIRN_EDATA when fewer than two measurements are usable: `m` is unchanged and
 * the sentence names the first row that was rejected, if any. */
FIRN_API enum firn_status firn_itertime_refit(struct firn_itertime *m,
                                              const struct firn_step_obs *obs,
                                              size_t n,
                                              struct firn_itertime_fit *fit,
                                              struct firn_error *err);

/* Why a measurement is unusable, as words that follow "row 3: "; NULL when it
 * is usable. */
FIRN_API const char *firn_step_obs_fault(const struct firn_step_obs *obs);

/* S(4) from measured all-reduces: t = alpha + beta M, both >= 0, by least
 * squares. FIRN_EDATA when fewer than two sizes differ. */
FIRN_API enum firn_status firn_itertime_fit_message(const double *bytes,
                                                    const double *seconds,
                                                    size_t n, double *alpha_s,
                                                    double *byte_s,
                                                    struct firn_error *err);

FIRN_C_END

#endif
