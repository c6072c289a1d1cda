/* plantime_fit.c - the terms of plantime.c, from measured steps.
 *
 * A step is linear in the terms, so a fit is one non-negative least squares of
 * relative errors for each kind of plan (math/linear.h). A few published rows
 * are off by a third from their neighbours; four rounds of Huber's weights keep
 * these from bending the rest: a row off by more than twice the median error
 * (at least 2 %) counts as much less. Rows of split models whose compute and
 * optimizer were measured apart are fitted in these parts: what is left of the
 * step is exchange.
 *
 * The host's part of offloading and its compute both go as 1 / d, and no row
 * tells them apart; compute is then that of whole copies, or of the split
 * model, and the rest of the fitted sum is the host's.
 *
 * With whole copies the ring's count is 2 - 2 / d: twice the host's less twice
 * that of compute. No row tells the three apart, so the host's constant is left
 * out there and counts as link and compute.
 *
 * plan_choose() is greedy D-optimal design: each row is scaled by the largest
 * count of each term, and the next one is the row with the largest leverage
 * x' M^-1 x, M being the sum of x x' so far. It needs no measured time, so it
 * is what a scheduler would run first of a model it does not know. Ties: the
 * first.
 *
 * Cost: O(rows terms^2) for a fit; O(chosen rows terms^2) to choose.
 */
#include "base/arena.h"
#include "base/sort.h"
#include "math/linear.h"
#include "model/plantime.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 4 };
#define HUBER_LEAST 0.02
#define RIDGE       1e-3

/* The terms that are fitted for a kind, by bits. */
#define BIT(term) (1u << (term))
static const unsigned uneven =
    BIT(PLAN_LONE) | BIT(PLAN_ODD) | BIT(PLAN_ODD_LARGE);
static const unsigned exchange = BIT(PLAN_LINK) | BIT(PLAN_NET);
static const unsigned split_compute = BIT(PLAN_HOST) | BIT(PLAN_COMPUTE) |
                                      BIT(PLAN_TENSOR) | BIT(PLAN_TENSOR_HOPS) |
                                      BIT(PLAN_STRADDLE) | BIT(PLAN_STAGE);

static unsigned terms_of(enum exec_kind kind)
{
    switch (kind) {
    case PLAN_DATA:
        return BIT(PLAN_COMPUTE) | BIT(PLAN_RECOMPUTE) | exchange |
               BIT(PLAN_RAIL) | uneven;
    case PLAN_ZERO:
        return BIT(PLAN_COMPUTE) | exchange | BIT(PLAN_RAIL) | BIT(PLAN_HOPS) |
               uneven;
    case PLAN_OFFLOAD:
        return BIT(PLAN_PCIE) | BIT(PLAN_RECOMPUTE) | exchange |
               BIT(PLAN_RAIL) | BIT(PLAN_CROWD);
    default:
        return split_compute | BIT(PLAN_OPTIMIZER) | exchange;
    }
}

/* What is fitted of a row. */
enum part { WHOLE, COMPUTE, OPTIMIZE, EXCHANGE };

static double part_s(const struct plan_row *row, enum part part)
{
    switch (part) {
    case COMPUTE:
        return row->compute_s;
    case OPTIMIZE:
        return row->optimize_s;
    case EXCHANGE:
        return fmax(row->step_s - row->compute_s - row->optimize_s, 0);
    default:
        return row->step_s;
    }
}

struct fit {
    const struct plan_row **rows; /* of one kind */
    size_t n;
    struct arena *scratch;
    double *a, *y, *weight, *error;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Huber's weights by the relative errors of `seconds`. */
static void weigh(struct fit *fit, const double *seconds, enum part part)
{
    double counts[PLAN_TERMS];
    double *sorted = arena_alloc(fit->scratch, fit->n * sizeof *sorted);
    for (size_t i = 0; i < fit->n; i++) {
        const struct plan_row *row = fit->rows[i];
        double sum = 0;
        plan_counts(&row->plan, &row->spot, counts);
        for (int k = 0; k < PLAN_TERMS; k++)
            sum += seconds[k] * counts[k];
        fit->error[i] = fabs(sum - part_s(row, part)) / row->step_s;
        sorted[i] = fit->error[i];
    }
    qsort(sorted, fit->n, sizeof *sorted, by_value);
    double limit = fmax(2 * sorted[fit->n / 2], HUBER_LEAST);
    for (size_t i = 0; i < fit->n; i++)
        fit->weight[i] = fit->error[i] > limit ? limit / fit->error[i] : 1;
}

/* Fits the terms of a mask to one part of the rows. */
static void fit_part(struct fit *fit, unsigned mask, enum part part,
                     double *seconds)
{
    int terms[PLAN_TERMS], nterms = 0;
    double counts[PLAN_TERMS], x[PLAN_TERMS], fitted[PLAN_TERMS] = {0};
    for (int k = 0; k < PLAN_TERMS; k++)
        if (mask >> k & 1)
            terms[nterms++] = k;
    for (size_t i = 0; i < fit->n; i++)
        fit->weight[i] = 1;
    for (int round = 0; round <= ROUNDS; round++) {
        for (size_t i = 0; i < fit->n; i++) {
            const struct plan_row *row = fit->rows[i];
            double w = sqrt(fit->weight[i]) / row->step_s;
            plan_counts(&row->plan, &row->spot, counts);
            for (int k = 0; k < nterms; k++)
                fit->a[i * (size_t)nterms + (size_t)k] = w * counts[terms[k]];
            fit->y[i] = w * part_s(row, part);
        }
        struct linear_problem problem = {fit->a, fit->y, fit->n,
                                         (size_t)nterms};
        struct firn_error err;
        if (linear_fit_nonneg(&problem, x, fit->scratch, &err) != FIRN_OK)
            FIRN_BUG("step times of plans: %s", err.text);
        for (int k = 0; k < nterms; k++)
            fitted[terms[k]] = x[k];
        weigh(fit, fitted, part);
    }
    for (int k = 0; k < nterms; k++)
        seconds[terms[k]] = x[k];
}

static bool is_apart(const struct fit *fit)
{
    for (size_t i = 0; i < fit->n; i++)
        if (!(fit->rows[i]->compute_s > 0) || !(fit->rows[i]->optimize_s > 0))
            return false;
    return true;
}

static void fit_kind(struct fit *fit, enum exec_kind kind, double *seconds)
{
    if (kind != PLAN_SPLIT || !is_apart(fit)) {
        fit_part(fit, terms_of(kind), WHOLE, seconds);
        return;
    }
    fit_part(fit, split_compute, COMPUTE, seconds);
    fit_part(fit, BIT(PLAN_OPTIMIZER), OPTIMIZE, seconds);
    fit_part(fit, exchange, EXCHANGE, seconds);
}

/* Of what goes as 1 / d, compute is known from another kind. */
static void split_host(struct plan_law *law)
{
    double *off = law->seconds[PLAN_OFFLOAD];
    double compute_s = law->seconds[PLAN_DATA][PLAN_COMPUTE];
    if (!(compute_s > 0))
        compute_s = law->seconds[PLAN_SPLIT][PLAN_COMPUTE];
    off[PLAN_COMPUTE] = fmin(compute_s, off[PLAN_PCIE]);
    off[PLAN_PCIE] -= off[PLAN_COMPUTE];
}

enum firn_status plan_fit(struct plan_law *out, const struct plan_row *rows,
                          size_t n, struct firn_error *err)
{
    struct arena scratch;
    struct plan_law law = {0};
    if (n == 0)
        return firn_fail(err, FIRN_EDATA, "no step times to fit");
    for (size_t i = 0; i < n; i++) {
        double counts[PLAN_TERMS];
        if (!(rows[i].step_s > 0) || !isfinite(rows[i].step_s) ||
            !plan_counts(&rows[i].plan, &rows[i].spot, counts))
            return firn_fail(err, FIRN_EINVAL,
                             "row %zu: a step of %g s, or a plan that is not "
                             "for its GPUs",
                             i + 1, rows[i].step_s);
    }
    arena_init(&scratch);
    struct fit fit = {
        .rows = arena_alloc(&scratch, n * sizeof *fit.rows),
        .scratch = &scratch,
        .a = arena_alloc(&scratch, n * PLAN_TERMS * sizeof *fit.a),
        .y = arena_alloc(&scratch, n * sizeof *fit.y),
        .weight = arena_alloc(&scratch, n * sizeof *fit.weight),
        .error = arena_alloc(&scratch, n * sizeof *fit.error),
    };
    for (int kind = 0; kind < PLAN_KINDS; kind++) {
        fit.n = 0;
        for (size_t i = 0; i < n; i++)
            if ((int)rows[i].plan.kind == kind)
                fit.rows[fit.n++] = &rows[i];
        if (fit.n > 0)
            fit_kind(&fit, (enum exec_kind)kind, law.seconds[kind]);
    }
    split_host(&law);
    arena_release(&scratch);
    *out = law;
    return FIRN_OK;
}

/* --- which rows to measure ----------------------------------------------- */

/* x' M^-1 x by elimination; M is positive definite. */
static double leverage(const double *m, const double *x, int n)
{
    double a[PLAN_TERMS][PLAN_TERMS + 1], sum = 0;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            a[i][j] = m[i * n + j];
        a[i][n] = x[i];
    }
    for (int i = 0; i < n; i++)
        for (int r = i + 1; r < n; r++) {
            double f = a[r][i] / a[i][i];
            for (int j = i; j <= n; j++)
                a[r][j] -= f * a[i][j];
        }
    for (int i = 0; i < n; i++) /* L y = x: the sum of y_i^2 / pivot_i */
        sum += a[i][n] * a[i][n] / a[i][i];
    return sum;
}

struct design {
    double x[PLAN_TERMS]; /* scaled counts of a row */
};

/* The scaled counts of one kind's rows; how many terms any of them has. */
static int scale(const struct plan_row *rows, const size_t *at, size_t n,
                 enum exec_kind kind, struct design *out)
{
    double counts[PLAN_TERMS], largest[PLAN_TERMS] = {0};
    unsigned mask = terms_of(kind);
    int nterms = 0;
    for (size_t i = 0; i < n; i++) {
        plan_counts(&rows[at[i]].plan, &rows[at[i]].spot, counts);
        for (int k = 0; k < PLAN_TERMS; k++)
            largest[k] = fmax(largest[k], counts[k]);
    }
    for (int k = 0; k < PLAN_TERMS; k++) {
        if (!(mask >> k & 1) || !(largest[k] > 0))
            continue;
        for (size_t i = 0; i < n; i++) {
            plan_counts(&rows[at[i]].plan, &rows[at[i]].spot, counts);
            out[i].x[nterms] = counts[k] / largest[k];
        }
        nterms++;
    }
    return nterms;
}

static void choose_kind(const size_t *at, size_t n, const struct design *rows,
                        int nterms, size_t extra, bool *chosen)
{
    double m[PLAN_TERMS * PLAN_TERMS] = {0};
    size_t want = (size_t)nterms + extra;
    want = want > n * 2 / 3 ? n * 2 / 3 : want;
    for (int i = 0; i < nterms; i++)
        m[i * nterms + i] = RIDGE;
    for (size_t c = 0; c < want; c++) {
        size_t best = 0;
        double most = -1;
        for (size_t i = 0; i < n; i++) {
            double lev = chosen[at[i]] ? -1 : leverage(m, rows[i].x, nterms);
            if (lev > most) {
                most = lev;
                best = i;
            }
        }
        chosen[at[best]] = true;
        for (int i = 0; i < nterms; i++)
            for (int j = 0; j < nterms; j++)
                m[i * nterms + j] += rows[best].x[i] * rows[best].x[j];
    }
}

void plan_choose(const struct plan_row *rows, size_t n, size_t extra,
                 bool *chosen)
{
    struct arena scratch;
    arena_init(&scratch);
    size_t *at = arena_alloc(&scratch, (n + 1) * sizeof *at);
    struct design *scaled = arena_alloc(&scratch, (n + 1) * sizeof *scaled);
    memset(chosen, 0, n * sizeof *chosen);
    for (int kind = 0; kind < PLAN_KINDS; kind++) {
        size_t count = 0;
        for (size_t i = 0; i < n; i++)
            if ((int)rows[i].plan.kind == kind)
                at[count++] = i;
        memset(scaled, 0, n * sizeof *scaled);
        int nterms = scale(rows, at, count, (enum exec_kind)kind, scaled);
        choose_kind(at, count, scaled, nterms, extra, chosen);
    }
    arena_release(&scratch);
}
