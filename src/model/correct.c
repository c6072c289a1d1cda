/* correct.c - shrunken effects fitted to residuals, family by family.
 *
 * With e = ln(measured / predicted), each family f assigns row i to a cell;
 * the families are fitted in turn to what the others leave (backfitting,
 * ROUNDS times). A cell of n rows with mean e gets n e / (n + lambda), where
 * lambda = s2 / t2 is estimated anew from the scatter s2 within cells and the
 * variance t2 between them (the empirical Bayes estimate of a one-way random
 * effect). A family that says nothing gets t2 = 0 and drops out by itself, so
 * noise is not learned.
 *
 * (1) Residuals are cut at CUT times their median size, but not below
 *     LEAST_CUT: a stalled step is not a property of a shape, while one odd
 *     batch among many may well take half as long again.
 * (2) The order of rows does not matter beyond rounding; no randomness.
 *
 * Batches and frozen shares that were not measured lie between two that were:
 * effects are interpolated, in the logarithm of the batch. With more different
 * batches than fit, every second one is dropped until they do.
 */
#include "model/correct.h"
#include "base/mem.h"
#include "base/sort.h"
#include "math/quick.h"
#include "math/stats.h"
#include <math.h>
#include <string.h>

enum { FAMILIES = 5, ROUNDS = 6, LEAST_ROWS = 8 };
#define CUT       5
#define LEAST_CUT 0.5

/* Between knots i and i + 1, with weight w of the latter. */
struct between {
    int i;
    double w;
};

static struct between find(const double *knots, int n, double x)
{
    struct between at = {0, 0};
    int hi = n - 1;
    if (n < 2 || x <= knots[0])
        return at;
    while (at.i < hi) {
        int mid = (at.i + hi + 1) / 2;
        if (knots[mid] <= x)
            at.i = mid;
        else
            hi = mid - 1;
    }
    if (at.i < n - 1)
        at.w = (x - knots[at.i]) / (knots[at.i + 1] - knots[at.i]);
    return at;
}

/* Which cells a shape falls into. */
struct place {
    struct between batch, theta;
    int class, fullest, gpus;
};

static struct place locate(const struct correction *c,
                           const struct firn_shape *s)
{
    int k = s->gpus_on_fullest > 0 ? s->gpus_on_fullest
                                   : (s->gpus + s->nodes - 1) / s->nodes;
    struct place p;
    p.batch = find(c->batches, c->nbatches, s->batch_per_gpu);
    p.theta = find(c->thetas, c->nthetas, s->theta);
    p.class = (s->nodes < 3 ? s->nodes : 3) - 1;
    p.fullest = (k < CORRECT_FULLEST ? k : CORRECT_FULLEST) - 1;
    p.gpus = (s->gpus < CORRECT_GPUS ? s->gpus : CORRECT_GPUS) - 1;
    return p;
}

static double mix(double a, double b, double w)
{
    return w > 0 ? a + w * (b - a) : a;
}

static double effect(const struct correction *c, const struct place *p, int f)
{
    int i = p->batch.i, i2 = i + (p->batch.w > 0);
    int j = p->theta.i, j2 = j + (p->theta.w > 0);
    double w = p->batch.w;
    switch (f) {
    case 0:
        return mix(c->by_batch[i], c->by_batch[i2], w);
    case 1:
        return c->by_place[p->class][p->fullest];
    case 2:
        return c->by_gpus[p->class][p->gpus];
    case 3:
        return mix(mix(c->by_frozen[i][j], c->by_frozen[i2][j], w),
                   mix(c->by_frozen[i][j2], c->by_frozen[i2][j2], w),
                   p->theta.w);
    default:
        return mix(c->by_crowd[i][p->fullest], c->by_crowd[i2][p->fullest], w);
    }
}

double correction_factor(const struct correction *c,
                         const struct firn_shape *shape)
{
    if (c->nbatches == 0)
        return 1;
    struct place p = locate(c, shape);
    double sum = 0;
    for (int f = 0; f < FAMILIES; f++)
        sum += effect(c, &p, f);
    return quick_exp(sum);
}

/* The cell of a measured row: the nearer knot where it lies between two. */
static double *cell(struct correction *c, const struct place *p, int f)
{
    int i = p->batch.i + (p->batch.w > 0.5);
    int j = p->theta.i + (p->theta.w > 0.5);
    switch (f) {
    case 0:
        return &c->by_batch[i];
    case 1:
        return &c->by_place[p->class][p->fullest];
    case 2:
        return &c->by_gpus[p->class][p->gpus];
    case 3:
        return &c->by_frozen[i][j];
    default:
        return &c->by_crowd[i][p->fullest];
    }
}

/* Sums and counts by cell, in the layout of the correction itself. */
struct tally {
    struct correction sum, count;
};

/* Refits family f to residuals that do not contain it. */
static void refit(struct correction *c, struct tally *t, const struct place *at,
                  const double *e, size_t n, int f)
{
    double cells = 0, within = 0, between = 0, whole = 0;
    for (size_t i = 0; i < n; i++)
        *cell(&t->sum, &at[i], f) = *cell(&t->count, &at[i], f) = 0;
    for (size_t i = 0; i < n; i++) {
        *cell(&t->sum, &at[i], f) += e[i];
        *cell(&t->count, &at[i], f) += 1;
    }
    for (size_t i = 0; i < n; i++) {
        double rows = *cell(&t->count, &at[i], f);
        double mean = *cell(&t->sum, &at[i], f) / rows;
        cells += 1 / rows;
        within += (e[i] - mean) * (e[i] - mean);
        between += mean * mean;
        whole += e[i] * e[i];
    }
    double free_rows = (double)n - cells;
    double s2 = free_rows >= 3 ? within / free_rows : whole / (double)n;
    double t2 = (between / cells - s2) / ((double)n / cells);
    for (size_t i = 0; i < n; i++)
        *cell(c, &at[i], f) = t2 > 0
                                  ? *cell(&t->sum, &at[i], f) /
                                        (*cell(&t->count, &at[i], f) + s2 / t2)
                                  : 0;
}

/* The different values of x, ascending, at most `cap`. Sorts x. */
static int knots(double *x, size_t n, double *out, int cap)
{
    size_t different = 0;
    sort_doubles(x, n);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || x[i] != x[different - 1])
            x[different++] = x[i];
    while (different > (size_t)cap) {
        size_t half = 0;
        for (size_t i = 0; i < different; i += 2)
            x[half++] = x[i];
        different = half;
    }
    memcpy(out, x, different * sizeof *out);
    return (int)different;
}

static void cut(double *e, size_t n, double *scratch)
{
    for (size_t i = 0; i < n; i++)
        scratch[i] = fabs(e[i]);
    double limit = fmax(CUT * stats_median(scratch, n), LEAST_CUT);
    for (size_t i = 0; i < n; i++)
        e[i] = fmin(fmax(e[i], -limit), limit);
}

static void backfit(struct correction *c, struct tally *t,
                    const struct place *at, double *e, size_t n)
{
    for (int round = 0; round < ROUNDS; round++)
        for (int f = 0; f < FAMILIES; f++) {
            for (size_t i = 0; i < n; i++)
                e[i] += *cell(c, &at[i], f);
            refit(c, t, at, e, n, f);
            for (size_t i = 0; i < n; i++)
                e[i] -= *cell(c, &at[i], f);
        }
}

void correction_learn(struct correction *c, const struct firn_itertime *m,
                      const struct firn_step_obs *obs, size_t n)
{
    double *e = mem_new(n + 1, sizeof *e), *x = mem_new(n + 1, sizeof *x);
    double *y = mem_new(n + 1, sizeof *y);
    struct place *at = mem_new(n + 1, sizeof *at);
    struct tally *t = mem_new(1, sizeof *t);
    size_t rows = 0;
    memset(c, 0, sizeof *c);
    for (size_t i = 0; i < n; i++)
        if (firn_step_obs_fault(&obs[i]) == NULL) {
            x[rows] = obs[i].shape.batch_per_gpu;
            y[rows++] = obs[i].shape.theta;
        }
    if (rows >= LEAST_ROWS) {
        c->nbatches = knots(x, rows, c->batches, CORRECT_BATCHES);
        c->nthetas = knots(y, rows, c->thetas, CORRECT_THETAS);
        rows = 0;
        for (size_t i = 0; i < n; i++)
            if (firn_step_obs_fault(&obs[i]) == NULL) {
                at[rows] = locate(c, &obs[i].shape);
                struct firn_itertime_parts p =
                    firn_itertime_parts(m, &obs[i].shape);
                e[rows++] = quick_log(obs[i].step_s / p.step_s);
            }
        cut(e, rows, x);
        backfit(c, t, at, e, rows);
    }
    mem_free(e);
    mem_free(x);
    mem_free(y);
    mem_free(at);
    mem_free(t);
}
