/* evaluate.h - how far predicted step times are from measured ones.
 *
 * The model is fitted on one set of measurements and asked about another. What
 * is compared: the step that synchronises, and the compute in it where it was
 * measured. Errors are shares (0.04 is 4 %). Prints nothing.
 */
#ifndef MODEL_EVALUATE_H
#define MODEL_EVALUATE_H
#include "model/correct.h"
#include <firn/itertime.h>
#include <stdint.h>

struct evaluate_error {
    size_t n;
    double mean, max; /* absolute percentage error; NaN when n is 0 */
    double median;
    double r2;
    size_t worst; /* index of the measurement with the largest error */
};

struct evaluate_options {
    enum firn_itertime_form form;
    bool is_corrected; /* with the learned correction of model/correct.h */
};

struct evaluate_result {
    struct firn_itertime model;
    struct correction correction;
    struct firn_itertime_fit fit;
    struct evaluate_error step, compute;
};

/* Fits on `train`, asks about the usable ones of `test`. FIRN_EDATA when there
 * is too little to fit or to test; `out` is then as it was. */
enum firn_status evaluate_steps(const struct evaluate_options *options,
                                const struct firn_step_obs *train,
                                size_t ntrain, const struct firn_step_obs *test,
                                size_t ntest, struct evaluate_result *out,
                                struct firn_error *err);

/* Shuffles the measurements; the first half (rounded up) is to be fitted on.
 * The same seed gives the same order everywhere. Returns its size. */
size_t evaluate_split(struct firn_step_obs *obs, size_t n, uint64_t seed);

/* The error of n predictions. Sorts nothing of the caller's. */
struct evaluate_error evaluate_error(const double *predicted,
                                     const double *measured, size_t n);

#endif
