/* sharing.h - two jobs on one GPU: may they, and how much slower do they go?
 *
 * IceFrog's answer has three parts. A job's memory and utilisation are linear
 * in (m, theta_l, omega_l): the batch on one GPU, the share of FLOPs and the
 * share of parameters that are not frozen. Jobs may share a GPU when (rule 1)
 * their predicted memory fits and (rule 2) their predicted utilisation does
 * not exceed 100 %. And
 *
 *   (8)  lambda = 1 alone, 0 when a rule is broken, otherwise a constant 0.9
 *
 * multiplies throughput. (The paper prints 0 for a job alone, which would stop
 * it.) SJF-BSBF asks for more: xi, the factor on the iteration time of a job
 * beside a given other. The pair table below holds measured xi by pair of
 * applications, by application and by pair of classes, and learns from what
 * is observed.
 *
 * Pure functions of fitted numbers; the memory is the caller's.
 */
#ifndef FIRN_SHARING_H
#define FIRN_SHARING_H
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>

FIRN_C_BEGIN

/* --- memory and utilisation ---------------------------------------------- */

/* One measured row of an application; `value` in MiB or percent. */
struct firn_usage_obs {
    double batch, theta, omega, value;
};

/* LINEAR is the paper's regression: 1, m, theta, omega. PRODUCT is linear in
 * products of the same three, as activations need memory m times what is
 * left to train: 1, m, omega, m theta, m theta^3, m^2. */
enum firn_usage_form { FIRN_USAGE_LINEAR, FIRN_USAGE_PRODUCT };

enum { FIRN_USAGE_TERMS = 6 };

struct firn_usage {
    enum firn_usage_form form;
    double coef[FIRN_USAGE_TERMS];
    double cap; /* answers lie in [0, cap]: 100 for a percentage */
    double batch_min, batch_max, theta_min; /* what was seen */
    size_t nused, nskipped;
};

struct firn_usage_value {
    double value;
    bool extrapolated;
};

/* What is wrong with a row, if anything. */
FIRN_API enum firn_status firn_usage_check(const struct firn_usage_obs *obs,
                                           struct firn_error *err);

/* Fits one application. Rows at or above `cap` (infinite: none) only say "at
 * least that much". Bad rows are skipped and counted. FIRN_EDATA with fewer
 * good rows than four; `usage` is then untouched. With fewer than eight the
 * LINEAR form is used whatever was asked. */
FIRN_API enum firn_status firn_usage_fit(struct firn_usage *usage,
                                         enum firn_usage_form form, double cap,
                                         const struct firn_usage_obs *obs,
                                         size_t n, struct firn_error *err);

/* O(1). `at->value` is not read. */
FIRN_API struct firn_usage_value firn_usage_at(const struct firn_usage *usage,
                                               const struct firn_usage_obs *at);

/* --- the packing rules ---------------------------------------------- */

/* The paper's factor on predicted memory, against running out of it. */
#define FIRN_SHARING_MARGIN 1.1
/* The paper's lambda for jobs that may share. */
#define FIRN_SHARING_LAMBDA 0.9

struct firn_share_need {
    double mem_mib;  /* predicted, without the margin */
    double util_pct; /* predicted */
};

enum firn_share_verdict {
    FIRN_SHARE_OK,
    FIRN_SHARE_MEMORY, /* rule 1 broken */
    FIRN_SHARE_BUSY    /* rule 2 broken */
};

/* Rules 1 and 2 for n jobs on a GPU of this memory. */
FIRN_API enum firn_share_verdict
firn_share_check(const struct firn_share_need *need, size_t n,
                 double gpu_mem_mib);

/* (8), for a job with `others` beside it. */
FIRN_API double firn_share_lambda(size_t others,
                                  enum firn_share_verdict verdict,
                                  double lambda);

/* --- the pair table ------------------------------------------------- */

/* xi by pair of applications; apps and classes are small integers of the
 * caller. The storage is the caller's: FIRN_PAIRS_DOUBLES(napps, nclasses).
 * An entry is a mean with a weight (a count of observations). Read-only. */
struct firn_pairs {
    size_t napps, nclasses;
    const int *class_of; /* borrowed: the class of each application */
    double *pair_mean, *pair_weight;   /* [a * napps + b]: a beside b */
    double *class_mean, *class_weight; /* [ca * nclasses + cb] */
    double *feels_mean, *feels_weight; /* [a]: a beside anything */
    double *does_mean, *does_weight;   /* [b]: anything beside b */
    double all_mean, all_weight;
    /* How many observations a more general mean counts for, and the most that
     * an entry's past may weigh: beyond it old news fades exponentially. */
    double pair_shrink, class_shrink, memory;
};

#define FIRN_PAIRS_DOUBLES(napps, nclasses) \
    (2 * ((napps) * (napps) + (nclasses) * (nclasses)) + 4 * (napps))

/* An empty table: every xi is `prior` (1.5 when it is not >= 1) until
 * something is seen. Shrinks of 1, memory of 20; the caller may change them. */
FIRN_API void firn_pairs_init(struct firn_pairs *pairs, double *storage,
                              size_t napps, const int *class_of,
                              size_t nclasses, double prior);

/* Job of application a ran `xi` times slower beside b: a row of a measured
 * table (weight: how many runs it stands for) or an observation (weight 1).
 * Values under 1 are noise and count as 1. FIRN_EINVAL when xi or the weight
 * is not finite and positive, or an application is not known. */
FIRN_API enum firn_status firn_pairs_add(struct firn_pairs *pairs, size_t a,
                                         size_t b, double xi, double weight,
                                         struct firn_error *err);

struct firn_xi {
    double xi;         /* >= 1 */
    double weight;     /* of observations of this very pair */
    bool extrapolated; /* nothing of the pair, its classes or both of its
                          applications was ever seen */
};

/* The pair's mean, shrunk to what its two applications do in other pairs,
 * that shrunk to the mean of its classes, and that to the mean of all. An
 * index out of range gets the mean of all. O(1). */
FIRN_API struct firn_xi firn_pairs_xi(const struct firn_pairs *pairs, size_t a,
                                      size_t b);

/* Lucid-like class of a job by its utilisation alone: 0 light (< 40 %), 1
 * medium (< 80 %), 2 heavy. */
FIRN_API int firn_share_class(double util_pct);

/* What a pair does together, over doing one after the other: 1/xi_a + 1/xi_b.
 * Not above 1: sharing does not pay. */
FIRN_API double firn_share_gain(double xi_a, double xi_b);

/* --- when to part them ---------------------------------------------------- */

/* Watches one running pair. Zero it when the pair starts. */
struct firn_share_watch {
    double xi_a, xi_b; /* exponential averages */
    size_t n;
};

struct firn_share_rule {
    double xi_max;   /* evict when a job is slowed more; infinite: never */
    double gain_min; /* evict when the pair together gains less */
    double rate;     /* of the exponential average, in (0, 1] */
    size_t settle;   /* observations before any verdict */
};
/* xi_max 2.5, gain_min 1, rate 0.3, settle 3. */
FIRN_API struct firn_share_rule firn_share_rule_default(void);

/* Takes one pair of observed slowdowns; true: evict, the pair is bad. Values
 * that are not finite and positive are ignored. */
FIRN_API bool firn_share_watch(struct firn_share_watch *watch,
                               const struct firn_share_rule *rule, double xi_a,
                               double xi_b);

FIRN_C_END

#endif
