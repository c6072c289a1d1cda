/* batchrule.h - the learning rate of a job whose batch was changed.
 *
 * A scheduler may order another total batch than the job was submitted with
 * (Pollux, IceFrog with batches). A step of B samples then stands for several
 * of B0, and the learning rate is multiplied by a factor, by the rule that the
 * job's user chose:
 *
 *   none       1
 *   linear     B / B0                          (Goyal et al., 2017)
 *   sqrt       sqrt(B / B0)
 *   adascale   (s2 / B0 + g2) / (s2 / B + g2)  (Johnson et al., 2020)
 *
 * s2 is the variance of one sample's gradient, summed over its elements, and g2
 * the squared norm of the expected gradient. AdaScale's factor lies between 1
 * and B / B0: where noise prevails it is nearly linear, where there is none the
 * learning rate stays. It is worked out once, when the batch changes, from what
 * was measured in the epoch before.
 *
 * Pure functions; safe from any thread.
 */
#ifndef FIRN_BATCHRULE_H
#define FIRN_BATCHRULE_H
#include <firn/status.h>
#include <stdbool.h>

FIRN_C_BEGIN

enum firn_batch_rule {
    FIRN_BATCH_NONE,
    FIRN_BATCH_LINEAR,
    FIRN_BATCH_SQRT,
    FIRN_BATCH_ADASCALE
};

/* What gradients were measured to be like. Zeroed: not measured. */
struct firn_batch_noise {
    double variance; /* s2 */
    double square;   /* g2 */
};

/* "none", "linear", "sqrt", "adascale". False: another word. */
FIRN_API bool firn_batch_rule_named(const char *word,
                                    enum firn_batch_rule *out);

/* The factor on the learning rate of a batch of `batch` samples of a job that
 * was submitted with `batch0`; > 0. adascale without a measurement goes by
 * sqrt; so does `noise` NULL. 1 when a batch is not positive. */
FIRN_API double firn_batch_factor(enum firn_batch_rule rule, double batch0,
                                  double batch,
                                  const struct firn_batch_noise *noise);

/* s2 and g2 from what `nthreads` threads of `each` samples show: the variance
 * of a thread's gradient across threads, and the squared norm of their mean,
 * both summed over elements. The mean's norm has the noise of the whole batch
 * in it, which is taken out; what is left is never negative. Zeroed for fewer
 * than two threads or numbers that are not finite. */
FIRN_API struct firn_batch_noise firn_batch_noise_of(int nthreads, int each,
                                                     double variance,
                                                     double mean_square);

FIRN_C_END

#endif
