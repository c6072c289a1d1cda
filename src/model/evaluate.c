/* evaluate.c - fit on one half, test on the other.
 *
 * A random half of the configurations is the test the papers use for their
 * throughput models: unseen combinations of placement, batch and frozen
 * layers, within the range that was seen. The compute part is scored without
 * the correction, which is learned from whole steps.
 *
 * The backward model starts from the pass with nothing frozen, T_bwd(m, 0). It
 * is taken from the rows that are fitted, never from those that are tested. For
 * a batch with such a row it is the measured time. For other fitted batches it
 * is guessed from the least frozen row by the prior, then moved by the error of
 * the fitted model on the rows of the batch, and fitted again, a few times. For
 * a batch that was not fitted it is interpolated (beyond the ends: along the
 * nearest two, never below half of the nearest).
 */
#include "model/evaluate.h"
#include "base/fmath.h"
#include "base/mem.h"
#include "base/rng.h"
#include "math/stats.h"
#include <math.h>
#include <string.h>

enum { BASE_ROUNDS = 6 };

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

/* Scores the model of `r`; the index `worst` refers to `test`. */
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
            correction_refine(&r->correction, &r->model, options->form, train,
                              ntrain);
        score(r, test, ntest);
        *out = *r;
    }
    mem_free(r);
    return status;
}

/* --- a measured table ----------------------------------------------------- */

const char *evaluate_quantity_name(enum evaluate_quantity quantity)
{
    static const char *const names[] = {"iteration", "compute", "backward",
                                        "memory", "utilisation"};
    return names[quantity];
}

static struct firn_step_obs step_of(const struct evaluate_row *row)
{
    return (struct firn_step_obs){row->shape, row->iter_s, row->sync_s};
}

/* A number that is given (not NaN) but not positive and finite. */
static bool is_wrong(double x)
{
    return !isnan(x) && !(x > 0 && isfinite(x));
}

const char *evaluate_row_fault(const struct evaluate_row *row)
{
    struct firn_step_obs step = step_of(row);
    const char *fault = firn_step_obs_fault(&step);
    if (fault != NULL)
        return fault;
    if (is_wrong(row->bwd_s))
        return "the backward time is not positive and finite";
    if (is_wrong(row->mem_mib))
        return "the memory is not positive and finite";
    if (is_wrong(row->util_pct) || row->util_pct > 100)
        return "the utilisation is not within 0 and 100 %";
    if (!isnan(row->nlayers) &&
        !(row->nlayers > 0 && row->nfrozen >= 0 && row->nfrozen < row->nlayers))
        return "the frozen layers are not fewer than the layers";
    return NULL;
}

static double ask_base(const struct evaluate_models *m, double batch)
{
    int n = m->nbases, i = 1;
    if (n == 1)
        return m->base_s[0];
    while (i < n - 1 && batch > m->base_batch[i])
        i++;
    double x0 = m->base_batch[i - 1], x1 = m->base_batch[i];
    double y0 = m->base_s[i - 1], y1 = m->base_s[i];
    double nearest = batch < x0 ? y0 : y1;
    double line = y0 + (y1 - y0) * (batch - x0) / (x1 - x0);
    return batch < x0 || batch > x1 ? fmax(line, nearest / 2) : line;
}

/* Inserts a base in order of the batch, unless one as good is there. */
static void add_base(struct evaluate_models *m, double batch, double base_s,
                     bool is_guess)
{
    int i = 0;
    while (i < m->nbases && m->base_batch[i] < batch)
        i++;
    if (m->nbases == EVALUATE_BASES ||
        (i < m->nbases && !(m->base_batch[i] > batch)))
        return;
    for (int j = m->nbases++; j > i; j--) {
        m->base_batch[j] = m->base_batch[j - 1];
        m->base_s[j] = m->base_s[j - 1];
        m->base_is_guess[j] = m->base_is_guess[j - 1];
    }
    m->base_batch[i] = batch;
    m->base_s[i] = base_s;
    m->base_is_guess[i] = is_guess;
}

/* The bases as measured, then guesses for the batches without one. */
static void find_bases(struct evaluate_models *m,
                       const struct evaluate_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i].bwd_s > 0 && rows[i].nfrozen <= 0)
            add_base(m, rows[i].shape.batch_per_gpu, rows[i].bwd_s, false);
    for (size_t i = 0; i < n; i++) {
        size_t best = i;
        if (!(rows[i].bwd_s > 0) || !(rows[i].shape.theta > 0))
            continue;
        for (size_t j = 0; j < n; j++)
            if (rows[j].bwd_s > 0 &&
                fabs(rows[j].shape.batch_per_gpu -
                     rows[i].shape.batch_per_gpu) <= 0 &&
                rows[j].shape.theta > rows[best].shape.theta)
                best = j;
        double theta = rows[best].shape.theta;
        add_base(m, rows[i].shape.batch_per_gpu,
                 rows[best].bwd_s / (0.5 * sqrt(theta) + 0.5 * theta), true);
    }
}

static struct firn_backward_obs backward_of(const struct evaluate_models *m,
                                            const struct evaluate_row *row)
{
    const struct firn_shape *s = &row->shape;
    return (struct firn_backward_obs){
        s->batch_per_gpu, row->nlayers, row->nfrozen,
        s->theta,         s->omega,     ask_base(m, s->batch_per_gpu),
        row->bwd_s};
}

static struct firn_usage_obs usage_of(const struct evaluate_row *row, double v)
{
    const struct firn_shape *s = &row->shape;
    return (struct firn_usage_obs){s->batch_per_gpu, s->theta, s->omega, v};
}

static void fit_steps(struct evaluate_models *m,
                      const struct evaluate_row *rows, size_t n)
{
    struct firn_step_obs *obs = mem_new(n, sizeof *obs);
    bool has_sync = false;
    for (size_t i = 0; i < n; i++) {
        obs[i] = step_of(&rows[i]);
        has_sync = has_sync || !isnan(rows[i].sync_s);
    }
    firn_itertime_default(&m->step);
    m->step_fit.form = FIRN_FORM_FULL;
    struct firn_error *err = &m->why[EVALUATE_ITERATION];
    m->has[EVALUATE_ITERATION] =
        firn_itertime_refit(&m->step, obs, n, &m->step_fit, err) == FIRN_OK;
    if (m->has[EVALUATE_ITERATION])
        correction_refine(&m->correction, &m->step, FIRN_FORM_FULL, obs, n);
    m->has[EVALUATE_COMPUTE] = has_sync && m->has[EVALUATE_ITERATION];
    if (!m->has[EVALUATE_COMPUTE])
        firn_fail(&m->why[EVALUATE_COMPUTE], FIRN_EDATA,
                  "the table does not tell compute from synchronisation");
    mem_free(obs);
}

/* Moves the guessed bases by the model's error on the rows of their batch. */
static void move_bases(struct evaluate_models *m,
                       const struct firn_backward_obs *obs, size_t n)
{
    for (int b = 0; b < m->nbases; b++) {
        double sum = 0, weight = 0;
        for (size_t i = 0; i < n && m->base_is_guess[b]; i++) {
            double predicted = firn_backward_at(&m->backward, &obs[i]).bwd_s;
            if (fabs(obs[i].batch - m->base_batch[b]) > 0 || !(predicted > 0))
                continue;
            sum += obs[i].theta * fm_log(obs[i].bwd_s / predicted);
            weight += obs[i].theta;
        }
        if (weight > 0)
            m->base_s[b] *= fm_exp(sum / weight);
    }
}

static void fit_backward(struct evaluate_models *m,
                         const struct evaluate_row *rows, size_t n)
{
    struct firn_error *err = &m->why[EVALUATE_BACKWARD];
    struct firn_backward_obs *obs = mem_new(n, sizeof *obs);
    find_bases(m, rows, n);
    if (m->nbases == 0)
        firn_fail(err, FIRN_EDATA, "no backward time was measured");
    for (int round = 0; round < BASE_ROUNDS && m->nbases > 0; round++) {
        size_t count = 0;
        for (size_t i = 0; i < n; i++)
            if (rows[i].bwd_s > 0 && rows[i].nlayers > 0)
                obs[count++] = backward_of(m, &rows[i]);
        m->has[EVALUATE_BACKWARD] =
            firn_backward_fit(&m->backward, obs, count, err) == FIRN_OK;
        if (!m->has[EVALUATE_BACKWARD] || round == BASE_ROUNDS - 1)
            break;
        move_bases(m, obs, count);
    }
    mem_free(obs);
}

static void fit_usage(struct evaluate_models *m,
                      const struct evaluate_row *rows, size_t n,
                      enum evaluate_quantity q)
{
    bool is_memory = q == EVALUATE_MEMORY;
    struct firn_usage_obs *obs = mem_new(n, sizeof *obs);
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        double value = evaluate_measured(&rows[i], q);
        if (!isnan(value))
            obs[count++] = usage_of(&rows[i], value);
    }
    m->has[q] =
        firn_usage_fit(is_memory ? &m->memory : &m->util,
                       is_memory ? FIRN_USAGE_PRODUCT : FIRN_USAGE_LINEAR,
                       is_memory ? (double)INFINITY : 100, obs, count,
                       &m->why[q]) == FIRN_OK;
    mem_free(obs);
}

void evaluate_fit(struct evaluate_models *models,
                  const struct evaluate_row *rows, size_t n)
{
    struct evaluate_row *good = mem_new(n, sizeof *good);
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (evaluate_row_fault(&rows[i]) == NULL)
            good[count++] = rows[i];
    memset(models, 0, sizeof *models);
    fit_steps(models, good, count);
    fit_backward(models, good, count);
    fit_usage(models, good, count, EVALUATE_MEMORY);
    fit_usage(models, good, count, EVALUATE_UTILISATION);
    mem_free(good);
}

double evaluate_measured(const struct evaluate_row *row,
                         enum evaluate_quantity quantity)
{
    switch (quantity) {
    case EVALUATE_ITERATION:
        return row->iter_s;
    case EVALUATE_COMPUTE:
        /* A step that is nearly all synchronisation is a clock error. */
        return row->sync_s < 0.95 * row->iter_s ? row->iter_s - row->sync_s
                                                : (double)NAN;
    case EVALUATE_BACKWARD:
        return row->bwd_s;
    case EVALUATE_MEMORY:
        return row->mem_mib;
    case EVALUATE_UTILISATION:
        return row->util_pct;
    case EVALUATE_QUANTITIES:
        break;
    }
    return (double)NAN;
}

double evaluate_predict(const struct evaluate_models *models,
                        const struct evaluate_row *row,
                        enum evaluate_quantity quantity)
{
    if (quantity >= EVALUATE_QUANTITIES || !models->has[quantity])
        return (double)NAN;
    struct firn_usage_obs usage = usage_of(row, 0);
    struct firn_itertime_parts parts;
    switch (quantity) {
    case EVALUATE_BACKWARD: {
        if (!(row->nlayers > 0))
            return (double)NAN;
        struct firn_backward_obs at = backward_of(models, row);
        return firn_backward_at(&models->backward, &at).bwd_s;
    }
    case EVALUATE_MEMORY:
        return firn_usage_at(&models->memory, &usage).value;
    case EVALUATE_UTILISATION:
        return firn_usage_at(&models->util, &usage).value;
    default:
        break;
    }
    parts = firn_itertime_parts(&models->step, &row->shape);
    if (quantity == EVALUATE_COMPUTE)
        return parts.forward_s + parts.backward_s;
    return parts.step_s * correction_factor(&models->correction, &row->shape);
}

struct evaluate_error evaluate_rows(const struct evaluate_models *models,
                                    const struct evaluate_row *rows, size_t n,
                                    enum evaluate_quantity quantity)
{
    double *predicted = mem_new(n, sizeof *predicted);
    double *measured = mem_new(n, sizeof *measured);
    size_t *of = mem_new(n + 1, sizeof *of);
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (evaluate_row_fault(&rows[i]) != NULL)
            continue;
        predicted[count] = evaluate_predict(models, &rows[i], quantity);
        measured[count] = evaluate_measured(&rows[i], quantity);
        of[count] = i;
        count += !isnan(predicted[count]) && !isnan(measured[count]);
    }
    struct evaluate_error e = evaluate_error(predicted, measured, count);
    e.worst = of[e.worst];
    mem_free(predicted);
    mem_free(measured);
    mem_free(of);
    return e;
}

size_t evaluate_halve(struct evaluate_row *rows, size_t n, uint64_t seed)
{
    struct rng rng;
    rng_seed(&rng, seed);
    for (size_t i = n; i > 1; i--) {
        size_t j = rng_below(&rng, i);
        struct evaluate_row kept = rows[i - 1];
        rows[i - 1] = rows[j];
        rows[j] = kept;
    }
    return (n + 1) / 2;
}
