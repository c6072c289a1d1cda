/* progress.h - work left, time to accuracy, and fairness.
 *
 *   (1)   T_acc = T_age + P / E                           IceFrog
 *   (16)  T_acc(a) = T_age + P / max over (m, l) of E(a, s, m, l)
 *   (17)  IceShare(a) = min over a' of T_acc(a') / T_acc(a)
 *         rho = T_shared / T_independent                  Themis
 *
 * T_age: seconds since submission; P: samples left to reach the target with
 * nothing frozen; E: effective progress in samples/s (freeze.h); a: GPUs.
 */
#ifndef FIRN_PROGRESS_H
#define FIRN_PROGRESS_H
#include <firn/status.h>
#include <stddef.h>

FIRN_C_BEGIN

/* P: max_epochs * epoch_samples less what was done, in samples that counted
 * (each sample at penalty psi counts psi); never below 0. */
FIRN_API double firn_progress_left(double max_epochs, double epoch_samples,
                                   double done_samples);

/* Samples that counted, of `samples` processed at penalty psi in [0, 1]. */
FIRN_API double firn_progress_done(double samples, double psi);

/* (1). With nothing left it is the age; infinite when E is not positive. */
FIRN_API double firn_progress_tacc(double age_s, double left_samples,
                                   double progress_samples_s);

/* (16) with nothing now: one interval of waiting, then the best rate. */
FIRN_API double firn_progress_tacc_idle(double age_s, double interval_s,
                                        double left_samples,
                                        double best_samples_s);

/* (17) for each of n allocations whose E is given; share[i] in [0, 1], the
 * best has 1. An E that is not positive has share 0; so have all when none
 * is. O(n). */
FIRN_API void firn_progress_shares(double age_s, double left_samples,
                                   const double *progress_samples_s, size_t n,
                                   double *share);

/* --- finish-time fairness ------------------------------------------- */

/* T_independent: the job alone with its share of the cluster. alone_s is its
 * time with all the GPUs it asked for; `contention` the mean over its life of
 * GPUs asked for by all jobs over GPUs there are (under 1 counts as 1). */
FIRN_API double firn_fairness_alone(double alone_s, double contention);

/* rho of a job that took (or will take) shared_s from submission to end. Above
 * 1: sharing the cluster cost it more than its fair share. NaN unless
 * independent_s is positive. */
FIRN_API double firn_fairness_rho(double shared_s, double independent_s);

/* Keeps the mean of contention over a life in pieces of constant load. Zero
 * it first. */
struct firn_contention {
    double span_s, area_s;
};
/* For span_s seconds jobs asked for `asked` of `gpus` GPUs. */
FIRN_API void firn_contention_add(struct firn_contention *contention,
                                  double span_s, double asked, double gpus);
/* At least 1; 1 when nothing was added. */
FIRN_API double firn_contention_mean(const struct firn_contention *contention);

/* Summary over n jobs. */
struct firn_fairness {
    double worst;        /* the largest rho */
    double mean;         /* of rho */
    double unfair_share; /* of jobs with rho > 1 */
    size_t njobs;        /* with a finite rho; the others are left out */
};
FIRN_API struct firn_fairness firn_fairness_of(const double *rho, size_t n);

FIRN_C_END

#endif
