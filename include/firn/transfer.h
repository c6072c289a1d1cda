/* transfer.h - what one fine-tuning task gains from another (Ymir, section 4).
 *
 *   (1)  G(A,B) = (P(A,B) - P(B)) / P(B)          gain of B from A
 *        L(A,B)(k) = L(B)(k) / (1 + G(A,B))        losscurve.h
 *   (4)  K(A||B) = max(K_A M_A / D_A, K_B M_B / D_B)
 *                  * (D_A + D_B) / (M_A + M_B)     spatial: both together
 *   (5)  T(i,a) = S(a, cfgs) * K_i                 seconds
 *
 * P: performance (accuracy) with and without the other; K: iterations; M:
 * global batch; D: samples of the training set; S: seconds of an iteration on
 * a GPUs, from a table that is filled offline and corrected online. The gain
 * is predicted from a similarity of the tasks (Task2Vec or any other score)
 * by linear regression; for spatial transfer the score is the mean of both
 * directions.
 */
#ifndef FIRN_TRANSFER_H
#define FIRN_TRANSFER_H
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>

FIRN_C_BEGIN

/* (1). NaN unless p_alone > 0 and both are finite. */
FIRN_API double firn_transfer_gain(double p_joint, double p_alone);

/* --- gain from similarity ------------------------------------------------- */

struct firn_gain_obs {
    double score, gain;
};

struct firn_gain_model {
    double intercept, slope;
    double pearson; /* correlation of score and gain */
    double score_min, score_max;
    size_t nused, nskipped;
};

struct firn_gain_value {
    double gain; /* > -1 */
    bool extrapolated;
};

/* Least squares over rows of finite score and gain > -1; others are skipped
 * and counted. FIRN_EDATA with fewer than two different scores; `model` is
 * then untouched. */
FIRN_API enum firn_status firn_gain_fit(struct firn_gain_model *model,
                                        const struct firn_gain_obs *obs,
                                        size_t n, struct firn_error *err);
/* O(1). A zeroed model, the prior, answers 0, extrapolated: no transfer. */
FIRN_API struct firn_gain_value
firn_gain_at(const struct firn_gain_model *model, double score);
/* The score of training both together. */
FIRN_API double firn_gain_spatial_score(double score_ab, double score_ba);

/* --- spatial iterations --------------------------------------------- */

struct firn_task_size {
    double iterations; /* K, alone or after transfer */
    double batch;      /* M, global */
    double samples;    /* D */
};

/* (4): iterations of the merged job. NaN unless all sizes are positive. */
FIRN_API double firn_spatial_iterations(const struct firn_task_size *a,
                                        const struct firn_task_size *b);

/* --- the look-up table ---------------------------------------------- */

/* One configuration. `flags` holds the rest of cfgs (mixed precision,
 * checkpointing, pipeline, frozen layers), coded by the caller. */
struct firn_lut_key {
    int gpus, batch, accum;
    unsigned flags;
};

struct firn_lut_entry {
    struct firn_lut_key key;
    double iter_s;
    double weight; /* of what was seen online; 0: offline only */
};

/* Borrows `entries`, room for `cap`, kept sorted by (flags, gpus, accum,
 * batch). The drift is the mean of observed over tabled time, applied to
 * entries that were not seen online themselves. Zero it, then set entries and
 * cap. */
struct firn_lut {
    struct firn_lut_entry *entries;
    size_t n, cap;
    double log_drift, drift_weight;
    double drift; /* what it comes to: a factor, less 1 */
};

/* Puts an offline measurement in. FIRN_EINVAL when it is not positive;
 * FIRN_ENOMEM when the table is full. The same key again: replaced. O(n). */
FIRN_API enum firn_status firn_lut_put(struct firn_lut *lut,
                                       struct firn_lut_key key, double iter_s,
                                       struct firn_error *err);

/* An iteration of this kind took iter_s: corrects the entry (exponential
 * average after ten) and the drift; a key that is not there is added. */
FIRN_API enum firn_status firn_lut_observe(struct firn_lut *lut,
                                           struct firn_lut_key key,
                                           double iter_s,
                                           struct firn_error *err);

struct firn_lut_value {
    double iter_s;
    bool extrapolated; /* not between two tabled batches */
};

/* S(a, cfgs): the entry, or a straight line in the batch through its two
 * neighbours with the same flags, GPUs and accumulation, level beyond the
 * ends. False when there is no such neighbour; `out` is then untouched.
 * O(log n). */
FIRN_API bool firn_lut_find(const struct firn_lut *lut, struct firn_lut_key key,
                            struct firn_lut_value *out);

/* --- the guard ------------------------------------------------------ */

/* Whether a merge should be undone: `accuracy` holds the task's validation
 * accuracy before it and after each epoch since (n values). True when `epochs`
 * of them have passed and none was better than the first. */
FIRN_API bool firn_transfer_undo(const double *accuracy, size_t n,
                                 size_t epochs);

FIRN_C_END

#endif
