/* transfer.h - what one fine-tuning task gains from another (Ymir, section 4).
 *
 *   (1)  G(A,B) = (P(A,B) - P(B)) / P(B)          gain of B from A
 *        L(A,B)(k) = L(B)(k) / (1 + G(A,B))        losscurve.h
 *   (4)  K(A||B) = max(K_A M_A / D_A, K_B M_B / D_B)
 *                  * (D_A + D_B) / (M_A + M_B)     spatial: both together
 *   (5)  T(i,a) = S(a, cfgs) * K_i                 seconds
 *
 * P: performance with and without the other; K: iterations; M: global batch;
 * D: samples of the training set; S: seconds of an iteration on a GPUs, which
 * firn/forecast.h answers: fitted offline, corrected by reports. The paper
 * leaves P open ("e.g., accuracy"). Here P = 1 / loss after as many epochs:
 * with it the second line is (1) itself, so that each reported loss is a
 * measurement of G. The gain is predicted from a similarity of the tasks
 * (Task2Vec, firn/task.h, or any other score) by linear regression; for
 * spatial transfer the score is the mean of both directions.
 */
#ifndef FIRN_TRANSFER_H
#define FIRN_TRANSFER_H
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>

FIRN_C_BEGIN

/* (1). NaN unless p_alone > 0 and both are finite. */
FIRN_API double firn_transfer_gain(double p_joint, double p_alone);

/* --- Task2Vec ------------------------------------------------------------- */

/* How much a task is expected to learn from another, by their embeddings: n
 * bins of the mean squared gradient on a few batches at the weights that both
 * start from (the diagonal of the Fisher information, Achille et al., 2019).
 *
 *   sim(f, g)    cosine of f/(f+g) and g/(f+g), of embeddings of equal sum
 *   S(A, B)      sim(A, B) + alpha (1 - sim(A, 0)), alpha = 0.15
 *
 * 0 is the trivial task, all of whose bins are alike. So S(A, B) is Task2Vec's
 * asymmetric distance with its sign turned: a source that is far from trivial
 * teaches more. NaN when an embedding is all zero or not finite. O(n). */
FIRN_API double firn_transfer_score(const double *from, const double *to,
                                    size_t n);

/* --- gain from similarity ------------------------------------------------- */

struct firn_gain_obs {
    double score, gain;
};

/* ln(1 + G) = intercept + slope x score. The logarithm keeps 1 + G positive.
 */
struct firn_gain_model {
    double intercept, slope;
    double pearson; /* correlation of score and ln(1 + G) */
    double scatter; /* standard deviation of ln(1 + G) about the line */
    size_t nused, nskipped;
};

/* Least squares over rows of finite score and gain > -1; others are skipped
 * and counted. `prior` counts as `trust` more rows, spread about the mean of
 * the scores as those of the prior were (0.1, the deviation of a score, is
 * assumed); NULL or trust 0: none. FIRN_EDATA with fewer than two different
 * scores and no prior; `model` is then untouched. O(n). */
FIRN_API enum firn_status firn_gain_fit(struct firn_gain_model *model,
                                        const struct firn_gain_obs *obs,
                                        size_t n,
                                        const struct firn_gain_model *prior,
                                        double trust, struct firn_error *err);
/* The gain, > -1. A zeroed model answers 0: no transfer. O(1). */
FIRN_API double firn_gain_at(const struct firn_gain_model *model, double score);
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

/* --- the guard ------------------------------------------------------ */

/* Whether a merge should be undone: `accuracy` holds the task's validation
 * accuracy before it and after each epoch since (n values). True when `epochs`
 * of them have passed and none was better than the first. */
FIRN_API bool firn_transfer_undo(const double *accuracy, size_t n,
                                 size_t epochs);

FIRN_C_END

#endif
