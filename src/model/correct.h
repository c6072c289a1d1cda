/* correct.h - corrections to a smooth model, learned from its residuals.
 *
 * A convolution that takes twice as long at batch 23 as at 24, or a host whose
 * processors are too few for its eighth GPU, follows no formula, but happens
 * again each time. This is a table of multiplicative corrections to a
 * predicted step time, one family each by
 *
 *   batch size; node class (1, 2, 3+) x GPUs on the fullest node; replicas x
 *   node class; batch x frozen share; batch x GPUs on the fullest node; class
 *   x replicas x fullest node (nearly the placement); class x fullest node x
 *   frozen share; batch x fullest node x frozen share; placement x batch
 *
 * (the seventh and eighth for hosts that cannot feed their GPUs, whose steps
 * freezing does not shorten), each effect shrunk towards none according to its
 * own scatter. A shape that was not measured gets the effects of its
 * neighbours in batch and frozen share, or none if there is no neighbour. A
 * zeroed struct corrects nothing. Evaluation allocates nothing.
 */
#ifndef MODEL_CORRECT_H
#define MODEL_CORRECT_H
#include <firn/itertime.h>
#include <stdint.h>

enum {
    CORRECT_BATCHES = 48,
    CORRECT_THETAS = 16,
    CORRECT_FULLEST = 16,
    CORRECT_GPUS = 64,
    CORRECT_CLASSES = 3,
    CORRECT_CELLS = 2048, /* a power of two */
};

struct correction {
    int nbatches, nthetas;
    double batches[CORRECT_BATCHES]; /* ascending */
    double thetas[CORRECT_THETAS];   /* ascending */
    /* Logarithms of factors. */
    double by_batch[CORRECT_BATCHES];
    double by_place[CORRECT_CLASSES][CORRECT_FULLEST];
    double by_gpus[CORRECT_CLASSES][CORRECT_GPUS];
    double by_frozen[CORRECT_BATCHES][CORRECT_THETAS];
    double by_crowd[CORRECT_BATCHES][CORRECT_FULLEST];
    double by_spot[CORRECT_CLASSES][CORRECT_GPUS][CORRECT_FULLEST];
    double by_slack[CORRECT_CLASSES][CORRECT_FULLEST][CORRECT_THETAS];
    double by_stall[CORRECT_BATCHES][CORRECT_FULLEST][CORRECT_THETAS];
    /* A hash table of placement and batch, 0 for an empty slot; the last
     * effect, 0, is for keys that are not in the table. */
    uint32_t cells[CORRECT_CELLS];
    double by_cell[CORRECT_CELLS + 1];
};

/* The factor for this shape; 1 with a zeroed correction. */
double correction_factor(const struct correction *c,
                         const struct firn_shape *shape);

/* Learns the deviations of n measurements from `m`. Fewer than 8 usable
 * measurements leave the correction empty. */
void correction_learn(struct correction *c, const struct firn_itertime *m,
                      const struct firn_step_obs *obs, size_t n);

/* The same; with few measurements the model is refitted without the learned
 * effects, and these are learned anew, in turn, so that an odd batch does not
 * bend the curve through the others. `m` was fitted to these measurements in
 * this form. */
void correction_refine(struct correction *c, struct firn_itertime *m,
                       enum firn_itertime_form form,
                       const struct firn_step_obs *obs, size_t n);

#endif
