/* evaluate.c - fit on one half, test on the other.
 *
 * A random half of the configurations is the test the papers use for their
 * throughput models: unseen combinations of placement, batch and frozen
 * layers, within the range that was seen. The compute part is scored without
 * the correction, which is learned from whole steps.
 */
#include "model/evaluate.h"
#include "base/mem.h"
#include "base/rng.h"
#include "math/stats.h"
#include <math.h>
#include <string.h>

struct evaluate_error evaluate_error(const double *predicted,
                                     const double *measured, size_t n)
{
    struct evaluate_error e = {.n = n};
    double *ape = mem_new(n + 1, sizeof *ape);
    for (size_t i = 0; i < n; i++) {
        ape[i] = fabs(predicted[i] / measured[i] - 1);
        if (ape[i] > ape[e.worst])
            e.worst = i;
    }
    e.mean = stats_mape(predicted, measured, n);
    e.max = stats_max_ape(predicted, measured, n);
    e.r2 = stats_r2(predicted, measured, n);
    e.median = stats_median(ape, n);
    mem_free(ape);
    return e;
}

size_t evaluate_split(struct firn_step_obs *obs, size_t n, uint64_t seed)
{
    struct rng rng;
    rng_seed(&rng, seed);
    for (size_t i = n; i > 1; i--) {
        size_t j = rng_below(&rng, i);
        struct firn_step_obs kept = obs[i - 1];
        obs[i - 1] = obs[j];
        obs[j] = kept;
    }
    return (n + 1) / 2;
}

/* Scores `r`'s model; indices of the worst refer to `test`. */
static void score(struct evaluate_result *r, const struct firn_step_obs *test,
                  size_t ntest)
{
    double *predicted = mem_new(2 * ntest, sizeof *predicted);
    double *measured = mem_new(2 * ntest, sizeof *measured);
    size_t *of = mem_new(2 * ntest, sizeof *of);
    size_t steps = 0, computes = 0;
    for (size_t i = 0; i < ntest; i++) {
        if (firn_step_obs_fault(&test[i]) != NULL)
            continue;
        struct firn_itertime_parts p =
            firn_itertime_parts(&r->model, &test[i].shape);
        predicted[steps] =
            p.step_s * correction_factor(&r->correction, &test[i].shape);
        measured[steps] = test[i].step_s;
        of[steps++] = i;
        if (isnan(test[i].sync_s) || test[i].sync_s >= 0.95 * test[i].step_s)
            continue;
        predicted[ntest + computes] = p.forward_s + p.backward_s;
        measured[ntest + computes] = test[i].step_s - test[i].sync_s;
        of[ntest + computes++] = i;
    }
    r->step = evaluate_error(predicted, measured, steps);
    r->step.worst = of[r->step.worst];
    r->compute = evaluate_error(predicted + ntest, measured + ntest, computes);
    r->compute.worst = of[ntest + r->compute.worst];
    mem_free(predicted);
    mem_free(measured);
    mem_free(of);
}

enum firn_status evaluate_steps(const struct evaluate_options *options,
                                const struct firn_step_obs *train,
                                size_t ntrain, const struct firn_step_obs *test,
                                size_t ntest, struct evaluate_result *out,
                                struct firn_error *err)
{
    size_t usable = 0;
    for (size_t i = 0; i < ntest; i++)
        usable += firn_step_obs_fault(&test[i]) == NULL;
    if (usable == 0)
        return firn_fail(err, FIRN_EDATA,
                         "evaluation: none of %zu test rows is usable", ntest);
    struct evaluate_result *r = mem_new(1, sizeof *r);
    firn_itertime_default(&r->model);
    r->fit.form = options->form;
    enum firn_status status =
        firn_itertime_refit(&r->model, train, ntrain, &r->fit, err);
    if (status == FIRN_OK) {
        if (options->is_corrected)
            correction_learn(&r->correction, &r->model, train, ntrain);
        score(r, test, ntest);
        *out = *r;
    }
    mem_free(r);
    return status;
}
