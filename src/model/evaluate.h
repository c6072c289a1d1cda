/* evaluate.h - how far predictions are from measurements.
 *
 * Models are fitted to one set of measurements and predict another.
 * evaluate_steps() does so for step times: the step with synchronisation, and
 * its compute part if that was measured. evaluate_fit() fits every model that a
 * measured table of one application allows: iteration, backward pass, memory
 * and utilisation. Errors are shares (0.04 is 4 %). Prints nothing.
 */
#ifndef MODEL_EVALUATE_H
#define MODEL_EVALUATE_H
#include "model/correct.h"
#include <firn/freeze.h>
#include <firn/itertime.h>
#include <firn/sharing.h>
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

/* Fits to `train`, predicts the usable rows of `test`. FIRN_EDATA when there
 * is too little to fit or to test; `out` is then unchanged. */
enum firn_status evaluate_steps(const struct evaluate_options *options,
                                const struct firn_step_obs *train,
                                size_t ntrain, const struct firn_step_obs *test,
                                size_t ntest, struct evaluate_result *out,
                                struct firn_error *err);

/* Shuffles the measurements and returns the size of the first half (rounded
 * up), the one to fit. The same seed gives the same order everywhere. */
size_t evaluate_split(struct firn_step_obs *obs, size_t n, uint64_t seed);

/* The error of n predictions. */
struct evaluate_error evaluate_error(const double *predicted,
                                     const double *measured, size_t n);

/* --- a measured table ----------------------------------------------------- */

enum evaluate_quantity {
    EVALUATE_ITERATION,   /* seconds, with synchronisation */
    EVALUATE_COMPUTE,     /* seconds, without; uncorrected model */
    EVALUATE_BACKWARD,    /* seconds */
    EVALUATE_MEMORY,      /* MiB, peak of allocated memory */
    EVALUATE_UTILISATION, /* percent */
    EVALUATE_QUANTITIES,
};

/* "iteration", "compute", "backward", "memory", "utilisation". */
const char *evaluate_quantity_name(enum evaluate_quantity quantity);

/* One measured row; what was not measured is NaN. */
struct evaluate_row {
    struct firn_shape shape;
    double nlayers, nfrozen; /* NaN: not known, so no backward model */
    double iter_s, sync_s, bwd_s, mem_mib, util_pct;
};

/* The fault of a row, as text that follows "row 3: "; NULL when it is usable.
 * Every measured number must be positive and finite. */
const char *evaluate_row_fault(const struct evaluate_row *row);

enum { EVALUATE_BASES = 32 };

/* The models of one application. */
struct evaluate_models {
    bool has[EVALUATE_QUANTITIES];
    struct firn_error why[EVALUATE_QUANTITIES]; /* why not, when !has */
    struct firn_itertime step;
    struct firn_itertime_fit step_fit;
    struct correction correction;
    struct firn_backward backward;
    /* Backward seconds with nothing frozen by batch, ascending; measured, or
     * guessed from rows with layers frozen. */
    double base_batch[EVALUATE_BASES], base_s[EVALUATE_BASES];
    bool base_is_guess[EVALUATE_BASES];
    int nbases;
    struct firn_usage memory, util;
};

/* Fits every model that the usable rows of one application allow. */
void evaluate_fit(struct evaluate_models *models,
                  const struct evaluate_row *rows, size_t n);

/* A quantity of a row as measured and as predicted; NaN when the row does not
 * have it, or the models do not. Prediction reads nothing that was measured.
 */
double evaluate_measured(const struct evaluate_row *row,
                         enum evaluate_quantity quantity);
double evaluate_predict(const struct evaluate_models *models,
                        const struct evaluate_row *row,
                        enum evaluate_quantity quantity);

/* The error over the usable rows that have the quantity; n may be 0 in it.
 * Indices of the worst refer to `rows`. */
struct evaluate_error evaluate_rows(const struct evaluate_models *models,
                                    const struct evaluate_row *rows, size_t n,
                                    enum evaluate_quantity quantity);

/* Shuffles rows as evaluate_split does; returns the size of the first half. */
size_t evaluate_halve(struct evaluate_row *rows, size_t n, uint64_t seed);

#endif
