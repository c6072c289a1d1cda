/* freeze.h - what freezing the front layers of a network costs and brings.
 *
 * Freezing the first l of L layers makes iterations shorter and each of them
 * worth less. IceFrog's frozen penalty psi says how much less:
 *
 *   (3)  psi(l) = V(l+1..L) / (V0(1..l) + V(l+1..L))
 *   (2)  E = psi(l) * T(a, s, m, l)             effective progress, samples/s
 *   (15) (m*, l*) = argmax over m, l of E        the layer tuner
 *   (6)  T_bwd(m, l) = alpha + beta theta^gamma T_bwd(m, 0)
 *
 * V: summed per-layer gradient variance now; V0: the variance a frozen layer
 * had when it was frozen; theta: share of FLOPs not frozen; omega: share of
 * parameters not frozen; m: batch on one GPU; a: GPUs; s: shares its GPU.
 * An iteration at penalty psi owes 1/psi - 1 more.
 *
 * Nothing here allocates or knows the time. Throughput comes in as a function,
 * so any model of it will do.
 */
#ifndef FIRN_FREEZE_H
#define FIRN_FREEZE_H
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>

FIRN_C_BEGIN

/* --- the frozen penalty ------------------------------------------------- */

/* The gradient variances of one job. `value` and `prefix` are borrowed, of
 * nlayers and nlayers + 1 doubles. value[i] is the variance recorded when
 * layer i was frozen (i < nfrozen) or the one last observed (the others);
 * prefix[i] sums the first i of them. Read-only for callers. */
struct firn_freeze {
    size_t nlayers, nfrozen;
    double *value, *prefix;
};

/* How many doubles of storage a job of this many layers needs. */
#define FIRN_FREEZE_DOUBLES(nlayers) (2 * (nlayers) + 1)

/* Nothing frozen, nothing observed. The storage is the caller's and must
 * outlive `freeze`. nlayers >= 1. */
FIRN_API void firn_freeze_init(struct firn_freeze *freeze, double *storage,
                               size_t nlayers);

/* New per-layer variances, one for each layer; those of frozen layers are
 * ignored (they have no gradient). Unbiased estimates may be negative: they
 * count as 0. FIRN_EINVAL for a wrong count or a value that is not finite,
 * naming the layer; nothing changes then. O(nlayers). */
FIRN_API enum firn_status firn_freeze_observe(struct firn_freeze *freeze,
                                              const double *variance, size_t n,
                                              struct firn_error *err);

/* From now on the first `nfrozen` layers are frozen. Newly frozen layers keep
 * the variance they have now as V0; layers that thaw come back with their
 * recorded variance until the next observation. */
FIRN_API enum firn_status firn_freeze_set(struct firn_freeze *freeze,
                                          size_t nfrozen,
                                          struct firn_error *err);

/* (3) for a candidate number of frozen layers, in [0, 1]. psi(0) = 1; a
 * candidate beyond nlayers, or any but 0 before the first observation, is 0.
 * O(1). */
FIRN_API double firn_freeze_penalty(const struct firn_freeze *freeze,
                                    size_t nfrozen);

/* Extra iterations owed for one iteration at this penalty: 1/psi - 1;
 * infinite for psi <= 0. */
FIRN_API double firn_freeze_owed(double psi);

/* --- the layer tuner ---------------------------------------------------- */

/* Samples/s with this batch per GPU and these layers frozen; 0: not possible
 * (does not fit). */
typedef double firn_freeze_rate(const void *context, int batch, size_t nfrozen);

struct firn_tuner {
    double max_share;  /* of layers frozen; 0.9 in the paper */
    double warmup;     /* progress in [0, 1] before which nothing freezes */
    double hysteresis; /* relative gain that a change must bring; 0: any */
    size_t layer_step; /* tries 0, step, 2 step, ...; 0 counts as 1 */
};
/* 0.9, no warm-up, no hysteresis, every layer. */
FIRN_API struct firn_tuner firn_tuner_default(void);

struct firn_tuner_ask {
    const struct firn_freeze *freeze;
    const int *batches; /* candidates for m */
    size_t nbatches;
    firn_freeze_rate *rate;
    const void *context; /* given to `rate` */
    double progress;     /* of the job, in [0, 1] */
    int batch_now;       /* 0: none yet, so no hysteresis */
};

struct firn_tuning {
    int batch;
    size_t nfrozen;
    double psi, rate_samples_s, progress_samples_s; /* (2) */
    bool kept; /* hysteresis held the present choice */
};

/* (15). Ties go to fewer frozen layers, then to the earlier batch. False when
 * no candidate has a positive rate; `out` is then untouched. Calls `rate` at
 * most nbatches * (nlayers / step + 2) times. */
FIRN_API bool firn_tuner_best(const struct firn_tuner *tuner,
                              const struct firn_tuner_ask *ask,
                              struct firn_tuning *out);

/* --- FreezeOut, the second rule ------------------------------------------ */

/* FreezeOut (Brock et al., 2017): layer i of L trains until the share t_i of
 * training and is frozen from there on, t_i rising linearly from `first` (the
 * first layer) to 1 (the last); cubic: t_i cubed. Until then its learning
 * rate falls along a half cosine from alpha (scaled: alpha / t_i) to 0. */
struct firn_freezeout {
    double first; /* t_0 in (0, 1]; 1: never freezes */
    bool cubic, scaled;
};

/* Layers frozen at a progress in [0, 1], at most nlayers - 1. O(log L). */
FIRN_API size_t firn_freezeout_frozen(const struct firn_freezeout *rule,
                                      size_t nlayers, double progress);
/* t_i, and the factor on the base learning rate of layer i. */
FIRN_API double firn_freezeout_end(const struct firn_freezeout *rule,
                                   size_t nlayers, size_t layer);
FIRN_API double firn_freezeout_lr(const struct firn_freezeout *rule,
                                  size_t nlayers, size_t layer,
                                  double progress);

/* Effective progress (2) at this point of training with these layers frozen,
 * in samples/s. */
typedef double firn_freezeout_gain(const void *context, double progress,
                                   size_t nfrozen);

/* Tuned FreezeOut: the t_0 among `firsts` with which the work from `progress`
 * on ends earliest, i.e. the least integral of d progress / E. The other
 * fields are taken from `rule`. Ties and the case that none can progress: the
 * largest t_0, the most careful. O(nfirsts * 64) calls. */
FIRN_API double firn_freezeout_tune(const struct firn_freezeout *rule,
                                    size_t nlayers, double progress,
                                    const double *firsts, size_t nfirsts,
                                    firn_freezeout_gain *gain,
                                    const void *context);

/* --- backward time under freezing ----------------------------------------- */

/* One measured backward pass. base_s is T_bwd(m, 0) at the same batch. */
struct firn_backward_obs {
    double batch, nlayers, nfrozen, theta, omega;
    double base_s, bwd_s;
};

enum {
    FIRN_BACKWARD_TERMS = 8,
    FIRN_BACKWARD_LEVELS = 16,
    FIRN_BACKWARD_BATCHES = 8
};

/* (6) made robust: a mixture of exponents with coefficients >= 0, so that it
 * never rises as layers freeze, and launch terms that go with the count of
 * layers left, u = 1 - l/L:
 *
 *   T = c0 + c1 u + T0 (c2 theta^0.5 + c3 theta + c4 theta^3 + c5 theta omega
 *                       + c6 theta^8 + c7 u)
 *
 * times what was seen beyond that at nearby frozen shares, at nearby batches,
 * and at nearby pairs of both. */
struct firn_backward {
    double coef[FIRN_BACKWARD_TERMS];
    size_t nlevels, nbatches, nused, nskipped;
    double level_at[FIRN_BACKWARD_LEVELS];  /* frozen share l/L, rising */
    double level_by[FIRN_BACKWARD_LEVELS];  /* factor there */
    double batch_at[FIRN_BACKWARD_BATCHES]; /* rising */
    double batch_by[FIRN_BACKWARD_BATCHES];
    double both_by[FIRN_BACKWARD_BATCHES][FIRN_BACKWARD_LEVELS];
    double theta_min; /* below it: extrapolated */
};

struct firn_backward_time {
    double bwd_s;
    bool extrapolated;
};

/* Before any measurement: half proportional to theta, half to its root. */
FIRN_API struct firn_backward firn_backward_prior(void);

/* What is wrong with a row, if anything: not finite, not positive, shares
 * outside [0, 1]. */
FIRN_API enum firn_status
firn_backward_check(const struct firn_backward_obs *obs,
                    struct firn_error *err);

/* Fits one application's rows; bad rows are skipped and counted. FIRN_EDATA
 * with fewer than four good ones, or when none is frozen; `model` is then
 * untouched. Relative errors are minimised. */
FIRN_API enum firn_status firn_backward_fit(struct firn_backward *model,
                                            const struct firn_backward_obs *obs,
                                            size_t n, struct firn_error *err);

/* The time of a row whose bwd_s is not known. O(1), tens of nanoseconds. */
FIRN_API struct firn_backward_time
firn_backward_at(const struct firn_backward *model,
                 const struct firn_backward_obs *at);

/* (6) as printed. */
FIRN_API double firn_backward_printed(double alpha_s, double beta, double gamma,
                                      double theta, double base_s);

FIRN_C_END

#endif
