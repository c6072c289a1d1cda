/* correct.c - shrunken effects fitted to residuals, family by family.
 *
 * With e = ln(measured / predicted), each family f assigns row i to a cell;
 * the families are fitted in turn to what the others leave (backfitting,
 * ROUNDS times). A cell of n rows with mean e gets n e / (n + lambda), where
 * lambda = s2 / t2 is estimated anew from the scatter s2 within cells and the
 * variance t2 between them (the empirical Bayes estimate of a one-way random
 * effect). A family without effects gets t2 = 0 and drops out by itself, so
 * noise is not learned. If few cells have large effects and the others none,
 * this lambda shrinks the few too much: fractions of it are tried, and the one
 * by which rows are predicted best from the other rows of their cell is taken.
 *
 * (1) Residuals are cut at CUT times their median size, but not below
 *     LEAST_CUT: a stalled step is not a property of a shape, while one odd
 *     batch among many may well take half as long again.
 * (2) The order of rows does not matter beyond rounding; no randomness.
 *
 * Batches and frozen shares that were not measured lie between two that were:
 * effects are interpolated, in the logarithm of the batch. With more different
 * batches than fit, every second one is dropped until they do. Effects of a
 * placement and a batch together are for that batch only; they lie in a table
 * with open addressing, in which nothing depends on the order of insertion
 * but the slots.
 *
 * The model is fitted before its residuals are known, so odd rows have bent it
 * by then. correction_refine() goes round once more; with FEW_ROWS and above
 * it would change nothing that can be measured, and cost three times as much.
 *
 * Tried and no better: medians or Huber means in place of means.
 */
#include "model/correct.h"
#include "base/mem.h"
#include "base/sort.h"
#include "math/quick.h"
#include "math/stats.h"
#include <math.h>
#include <string.h>

enum { FAMILIES = 9, ROUNDS = 6, LEAST_ROWS = 8 };
enum { TURNS = 2, FEW_ROWS = 200 };
#define CUT       4
#define LEAST_CUT 0.4

/* Fractions of the moments' lambda, and how much better a smaller one must be.
 */
static const double shrinks[] = {1, 0.5, 0.25, 0.1};
enum { SHRINKS = sizeof shrinks / sizeof shrinks[0] };
#define CLEARLY 0.999

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

/* The cells of a shape. */
struct place {
    struct between batch, theta;
    int class, fullest, gpus;
    int cell; /* CORRECT_CELLS: none */
};

static uint32_t key_of(const struct place *p, const struct firn_shape *s)
{
    uint32_t nodes = (uint32_t)(s->nodes < 255 ? s->nodes : 255);
    return (nodes << 16 | (uint32_t)p->gpus << 10 | (uint32_t)p->fullest << 6 |
            (uint32_t)p->batch.i) +
           1;
}

/* The slot of a key, or the empty one where it would be. */
static int slot_of(const struct correction *c, uint32_t key)
{
    uint32_t at = key * 2654435761u >> 21;
    while (c->cells[at] != 0 && c->cells[at] != key)
        at = (at + 1) % CORRECT_CELLS;
    return (int)at;
}

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
    p.cell = CORRECT_CELLS;
    if (p.batch.w > 0)
        return p;
    int slot = slot_of(c, key_of(&p, s));
    if (c->cells[slot] != 0)
        p.cell = slot;
    return p;
}

static double mix(double a, double b, double w)
{
    return w > 0 ? a + w * (b - a) : a;
}

/* Interpolates between two batches, with the effects `lo` and `hi`, and between
 * two frozen shares. */
static double mix_four(const double *lo, const double *hi,
                       const struct place *p)
{
    int j = p->theta.i, j2 = j + (p->theta.w > 0);
    return mix(mix(lo[j], hi[j], p->batch.w), mix(lo[j2], hi[j2], p->batch.w),
               p->theta.w);
}

static double effect(const struct correction *c, const struct place *p, int f)
{
    int i = p->batch.i, i2 = i + (p->batch.w > 0);
    double w = p->batch.w;
    switch (f) {
    case 0:
        return mix(c->by_batch[i], c->by_batch[i2], w);
    case 1:
        return c->by_place[p->class][p->fullest];
    case 2:
        return c->by_gpus[p->class][p->gpus];
    case 3:
        return mix_four(c->by_frozen[i], c->by_frozen[i2], p);
    case 4:
        return mix(c->by_crowd[i][p->fullest], c->by_crowd[i2][p->fullest], w);
    case 5:
        return c->by_spot[p->class][p->gpus][p->fullest];
    case 6:
        return mix_four(c->by_slack[p->class][p->fullest],
                        c->by_slack[p->class][p->fullest], p);
    case 7:
        return mix_four(c->by_stall[i][p->fullest], c->by_stall[i2][p->fullest],
                        p);
    default:
        return c->by_cell[p->cell];
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
    case 4:
        return &c->by_crowd[i][p->fullest];
    case 5:
        return &c->by_spot[p->class][p->gpus][p->fullest];
    case 6:
        return &c->by_slack[p->class][p->fullest][j];
    case 7:
        return &c->by_stall[i][p->fullest][j];
    default:
        return &c->by_cell[p->cell];
    }
}

/* Sums and counts by cell, in the layout of the correction itself. */
struct tally {
    struct correction sum, count;
};

/* The variance within cells over the variance between them, by moments;
 * infinite when the cells differ no more than by chance. */
static double moments(struct tally *t, const struct place *at, const double *e,
                      size_t n, int f)
{
    double cells = 0, within = 0, between = 0, whole = 0;
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
    return t2 > 0 ? s2 / t2 : (double)INFINITY;
}

/* The summed error of rows predicted by the other rows of their cell. */
static double left_out(struct tally *t, const struct place *at, const double *e,
                       size_t n, int f, double lambda)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double others = *cell(&t->count, &at[i], f) - 1;
        double rest = *cell(&t->sum, &at[i], f) - e[i];
        sum += fabs(e[i] - (others > 0 ? rest / (others + lambda) : 0));
    }
    return sum;
}

/* Refits family f to residuals that do not contain it. */
static void refit(struct correction *c, struct tally *t, const struct place *at,
                  const double *e, size_t n, int f)
{
    for (size_t i = 0; i < n; i++)
        *cell(&t->sum, &at[i], f) = *cell(&t->count, &at[i], f) = 0;
    for (size_t i = 0; i < n; i++) {
        *cell(&t->sum, &at[i], f) += e[i];
        *cell(&t->count, &at[i], f) += 1;
    }
    double most = moments(t, at, e, n, f), lambda = most, least = INFINITY;
    for (int k = 0; k < SHRINKS && !isinf(most); k++) {
        double off = left_out(t, at, e, n, f, most * shrinks[k]);
        if (off >= least * CLEARLY)
            continue;
        least = off;
        lambda = most * shrinks[k];
    }
    for (size_t i = 0; i < n; i++)
        *cell(c, &at[i], f) = isinf(lambda)
                                  ? 0
                                  : *cell(&t->sum, &at[i], f) /
                                        (*cell(&t->count, &at[i], f) + lambda);
    c->by_cell[CORRECT_CELLS] = 0;
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

/* The cells of a measured row. Its placement and batch get a new cell as long
 * as a quarter of the table is empty. */
static struct place enter(struct correction *c, const struct firn_shape *s,
                          int *ncells)
{
    struct place p = locate(c, s);
    if (p.cell < CORRECT_CELLS || p.batch.w > 0 ||
        *ncells >= CORRECT_CELLS / 4 * 3)
        return p;
    uint32_t key = key_of(&p, s);
    p.cell = slot_of(c, key);
    c->cells[p.cell] = key;
    ++*ncells;
    return p;
}

/* Residuals and places of the usable rows. */
static void enter_all(struct correction *c, const struct firn_itertime *m,
                      const struct firn_step_obs *obs, size_t n,
                      struct place *at, double *e)
{
    int ncells = 0;
    size_t rows = 0;
    for (size_t i = 0; i < n; i++) {
        if (firn_step_obs_fault(&obs[i]) != NULL)
            continue;
        at[rows] = enter(c, &obs[i].shape, &ncells);
        double step_s = firn_itertime_parts(m, &obs[i].shape).step_s;
        e[rows++] = quick_log(obs[i].step_s / step_s);
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
        enter_all(c, m, obs, n, at, e);
        for (size_t i = 0; i < rows; i++)
            x[i] = fabs(e[i]);
        double limit = fmax(CUT * stats_median(x, rows), LEAST_CUT);
        for (size_t i = 0; i < rows; i++)
            e[i] = fmin(fmax(e[i], -limit), limit);
        for (int k = 0; k < ROUNDS * FAMILIES; k++) {
            for (size_t i = 0; i < rows; i++)
                e[i] += *cell(c, &at[i], k % FAMILIES);
            refit(c, t, at, e, rows, k % FAMILIES);
            for (size_t i = 0; i < rows; i++)
                e[i] -= *cell(c, &at[i], k % FAMILIES);
        }
    }
    mem_free(e);
    mem_free(x);
    mem_free(y);
    mem_free(at);
    mem_free(t);
}

void correction_refine(struct correction *c, struct firn_itertime *m,
                       enum firn_itertime_form form,
                       const struct firn_step_obs *obs, size_t n)
{
    correction_learn(c, m, obs, n);
    if (n >= FEW_ROWS)
        return;
    struct firn_step_obs *left = mem_new(n + 1, sizeof *left);
    for (int turn = 0; turn < TURNS; turn++) {
        struct firn_itertime_fit fit = {.form = form};
        for (size_t i = 0; i < n; i++) {
            left[i] = obs[i];
            if (firn_step_obs_fault(&obs[i]) != NULL)
                continue;
            double factor = correction_factor(c, &obs[i].shape);
            left[i].step_s /= factor;
            left[i].sync_s /= factor;
        }
        if (firn_itertime_refit(m, left, n, &fit, NULL) != FIRN_OK)
            break;
        correction_learn(c, m, obs, n);
    }
    mem_free(left);
}
