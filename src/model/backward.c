/* backward.c - time of the backward pass with frozen layers.
 *
 * IceFrog's (6), T_bwd(m, l) = alpha + beta theta^gamma T_bwd(m, 0), has one
 * exponent for all of a network. Measured on large GPUs that is too stiff in
 * two ways. Small models are bound by kernel launches: their time is
 * proportional to the number of layers left, not to FLOPs. Convolutional
 * networks spend more time per FLOP in their front layers, so the curve is
 * steep first and flat later.
 * The form here (freeze.h) is linear in its coefficients, so non-negative
 * least squares fits it exactly and fast, and with coefficients >= 0 every
 * term falls as layers freeze. alpha = c0, and one c alone is (6) with gamma
 * 0.5, 1 or 3.
 *
 * The remaining error is systematic by frozen share (where a block is cut), by
 * batch (which kernel the library picked) and by both together: its geometric
 * mean, shrunk, is kept for each and interpolated between them. A pair of
 * share and batch that was not seen is interpolated from the pairs of the same
 * batch. If there are more shares or batches than the struct holds, the later
 * ones are left out.
 *
 * How much the deviations of pairs mean differs: where the GPU is the bound
 * they are exact and belong to the kernels; where the host is, they are chance
 * and the mean over the batches predicts better. So each frozen share but the
 * smallest and the largest is left out in turn and predicted from the others
 * with each shrinkage, and the shrinkage with the least error is taken. Cost:
 * one more linear fit for each share, tens of microseconds each.
 *
 * Tried and worse on two measured tables: the larger (or the fourth-power mean)
 * of a launch floor per layer left and of compute; it follows the scatter of
 * launch-bound rows and bends where those with much compute do not. A choice of
 * shrinkage for each batch, or of further terms in omega, by the same means.
 */
#include "base/fmath.h"
#include "base/mem.h"
#include "model/lsq.h"
#include <firn/freeze.h>
#include <math.h>

/* Each mean is shrunk as if by this many rows without deviation. */
static const double level_shrink = 0.5;
static const double batch_shrink = 2;
/* Candidates. The first is taken when no share can be left out, and on ties. */
static const double both_shrinks[] = {0.5, 0, 3};
enum { SHRINKS = sizeof both_shrinks / sizeof both_shrinks[0] };

struct effects {
    size_t n, max;
    double *at, *by;
    double sum[FIRN_BACKWARD_LEVELS], count[FIRN_BACKWARD_LEVELS];
};

double firn_backward_printed(double alpha_s, double beta, double gamma,
                             double theta, double base_s)
{
    double share = theta > 0 ? fm_pow(theta, gamma) : 0;
    return alpha_s + beta * share * base_s;
}

struct firn_backward firn_backward_prior(void)
{
    return (struct firn_backward){.coef = {0, 0, 0.5, 0.5, 0, 0}};
}

static bool share(double x)
{
    return x >= 0 && x <= 1;
}

enum firn_status firn_backward_check(const struct firn_backward_obs *obs,
                                     struct firn_error *err)
{
    if (!(obs->bwd_s > 0) || !isfinite(obs->bwd_s))
        return firn_fail(err, FIRN_EINVAL, "the backward time is %g s",
                         obs->bwd_s);
    if (!(obs->base_s > 0) || !isfinite(obs->base_s))
        return firn_fail(err, FIRN_EINVAL,
                         "the backward time with nothing frozen is %g s",
                         obs->base_s);
    if (!(obs->batch > 0) || !isfinite(obs->batch))
        return firn_fail(err, FIRN_EINVAL, "the batch is %g", obs->batch);
    if (!(obs->nlayers > 0) || !share(obs->nfrozen / obs->nlayers))
        return firn_fail(err, FIRN_EINVAL, "%g of %g layers are frozen",
                         obs->nfrozen, obs->nlayers);
    if (!share(obs->theta) || !share(obs->omega))
        return firn_fail(err, FIRN_EINVAL,
                         "the shares left are theta %g and omega %g, not "
                         "within 0 and 1",
                         obs->theta, obs->omega);
    return FIRN_OK;
}

static void terms(const struct firn_backward_obs *o, double *x)
{
    double theta = o->theta;
    x[0] = 1;
    x[1] = 1 - o->nfrozen / o->nlayers;
    x[2] = o->base_s * sqrt(theta);
    x[3] = o->base_s * theta;
    x[4] = o->base_s * theta * theta * theta;
    x[5] = o->base_s * theta * o->omega;
    double square = theta * theta, fourth = square * square;
    x[6] = o->base_s * fourth * fourth;
    x[7] = o->base_s * x[1];
}

static double mixture(const struct firn_backward *m,
                      const struct firn_backward_obs *o)
{
    double x[FIRN_BACKWARD_TERMS];
    terms(o, x);
    double sum = 0;
    for (int i = 0; i < FIRN_BACKWARD_TERMS; i++)
        sum += m->coef[i] * x[i];
    return sum;
}

/* Finds *i such that x lies between at[*i] and at[*i + 1] of n rising numbers;
 * returns which share of the way. x beyond an end counts as that end. */
static double where(const double *at, size_t n, double x, size_t *i)
{
    *i = 0;
    if (n < 2 || x <= at[0])
        return 0;
    while (*i + 2 < n && x > at[*i + 1])
        (*i)++;
    return fmin(1, (x - at[*i]) / (at[*i + 1] - at[*i]));
}

static double blend(const double *by, size_t i, double share)
{
    return share > 0 ? by[i] + (by[i + 1] - by[i]) * share : by[i];
}

/* The product of all three factors; 1 for a factor that was not observed. */
static double factors(const struct firn_backward *m, double frozen,
                      double batch)
{
    size_t i, j;
    if (m->nlevels == 0)
        return 1;
    double a = where(m->level_at, m->nlevels, frozen, &i);
    if (m->nbatches == 0)
        return blend(m->level_by, i, a);
    double b = where(m->batch_at, m->nbatches, batch, &j);
    double both = blend(m->both_by[j], i, a);
    if (b > 0)
        both += (blend(m->both_by[j + 1], i, a) - both) * b;
    return both * blend(m->level_by, i, a) * blend(m->batch_by, j, b);
}

struct firn_backward_time firn_backward_at(const struct firn_backward *model,
                                           const struct firn_backward_obs *at)
{
    double s = mixture(model, at) *
               factors(model, at->nfrozen / at->nlayers, at->batch);
    bool out = model->nbatches == 0 || at->theta < model->theta_min ||
               at->batch < model->batch_at[0] ||
               at->batch > model->batch_at[model->nbatches - 1];
    return (struct firn_backward_time){s, out};
}

/* Adds one deviation to the kind at `key`, keeping the kinds in order. */
static void effect_add(struct effects *e, double key, double value)
{
    size_t i = 0;
    while (i < e->n && e->at[i] < key)
        i++;
    if (i == e->n || e->at[i] > key) {
        if (e->n == e->max)
            return;
        for (size_t j = e->n; j > i; j--) {
            e->at[j] = e->at[j - 1];
            e->sum[j] = e->sum[j - 1];
            e->count[j] = e->count[j - 1];
        }
        e->at[i] = key;
        e->sum[i] = e->count[i] = 0;
        e->n++;
    }
    e->sum[i] += value;
    e->count[i] += 1;
}

static void effect_close(struct effects *e, double shrink)
{
    for (size_t i = 0; i < e->n; i++)
        e->by[i] = fm_exp(e->sum[i] / (e->count[i] + shrink));
}

/* log(measured / predicted) by the model so far. */
static double deviation(const struct firn_backward *m,
                        const struct firn_backward_obs *o)
{
    double predicted = firn_backward_at(m, o).bwd_s;
    return predicted > 0 ? fm_log(o->bwd_s / predicted) : 0;
}

/* The deviations of one batch by level; levels it lacks are filled in from
 * their neighbours. */
static void fit_both(struct firn_backward *m, size_t b,
                     const struct firn_backward_obs *obs, const double *dev,
                     size_t n, double shrink)
{
    double at[FIRN_BACKWARD_LEVELS] = {0}, by[FIRN_BACKWARD_LEVELS] = {0};
    struct effects e = {.max = FIRN_BACKWARD_LEVELS, .at = at, .by = by};
    for (size_t i = 0; i < n; i++)
        if (fabs(obs[i].batch - m->batch_at[b]) <= 0)
            effect_add(&e, obs[i].nfrozen / obs[i].nlayers, dev[i]);
    effect_close(&e, shrink);
    for (size_t l = 0; l < m->nlevels; l++) {
        size_t i;
        double part = where(at, e.n, m->level_at[l], &i);
        m->both_by[b][l] = e.n > 0 ? blend(by, i, part) : 1;
    }
}

/* The deviations of all rows from the model so far. */
static void deviations(const struct firn_backward *m,
                       const struct firn_backward_obs *obs, size_t n,
                       double *dev)
{
    for (size_t i = 0; i < n; i++)
        dev[i] = deviation(m, &obs[i]);
}

/* Fits the effects of share, batch and pairs, each to the rest of those
 * before. */
static void fit_effects(struct firn_backward *m,
                        const struct firn_backward_obs *obs, size_t n,
                        double both_shrink)
{
    double *dev = mem_new(n, sizeof *dev);
    struct effects level = {.max = FIRN_BACKWARD_LEVELS};
    struct effects batch = {.max = FIRN_BACKWARD_BATCHES};
    level.at = m->level_at;
    level.by = m->level_by;
    batch.at = m->batch_at;
    batch.by = m->batch_by;
    m->nlevels = m->nbatches = 0;
    deviations(m, obs, n, dev);
    for (size_t i = 0; i < n; i++)
        effect_add(&level, obs[i].nfrozen / obs[i].nlayers, dev[i]);
    effect_close(&level, level_shrink);
    m->nlevels = level.n;
    deviations(m, obs, n, dev);
    for (size_t i = 0; i < n; i++)
        effect_add(&batch, obs[i].batch, dev[i]);
    effect_close(&batch, batch_shrink);
    m->nbatches = batch.n;
    for (size_t b = 0; b < m->nbatches; b++)
        for (size_t l = 0; l < m->nlevels; l++)
            m->both_by[b][l] = 1;
    deviations(m, obs, n, dev);
    for (size_t b = 0; b < m->nbatches; b++)
        fit_both(m, b, obs, dev, n, both_shrink);
    mem_free(dev);
}

/* Fits the form alone, without deviations; false if there are too few rows. */
static bool fit_form(struct firn_backward *m,
                     const struct firn_backward_obs *obs, size_t n)
{
    double x[FIRN_BACKWARD_TERMS];
    struct lsq rows;
    *m = (struct firn_backward){.theta_min = 1, .nused = n};
    lsq_init(&rows, FIRN_BACKWARD_TERMS, n);
    for (size_t i = 0; i < n; i++) {
        terms(&obs[i], x);
        lsq_add(&rows, x, obs[i].bwd_s, 1 / (obs[i].bwd_s * obs[i].bwd_s));
        m->theta_min = fmin(m->theta_min, obs[i].theta);
    }
    bool enough = n >= 4 && m->theta_min < 1;
    if (enough)
        lsq_solve_positive(&rows, m->coef);
    lsq_release(&rows);
    return enough;
}

/* Adds the error of each shrinkage at one frozen share, predicted by a fit to
 * the other shares. `rest` has room for n rows. */
static void leave_out(const struct firn_backward_obs *obs, size_t n,
                      double share, struct firn_backward_obs *rest, double *off)
{
    struct firn_backward m;
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (fabs(obs[i].nfrozen / obs[i].nlayers - share) > 0)
            rest[count++] = obs[i];
    if (!fit_form(&m, rest, count))
        return;
    for (int k = 0; k < SHRINKS; k++) {
        fit_effects(&m, rest, count, both_shrinks[k]);
        for (size_t i = 0; i < n; i++)
            if (!(fabs(obs[i].nfrozen / obs[i].nlayers - share) > 0))
                off[k] += fabs(deviation(&m, &obs[i]));
    }
}

/* The shrinkage that predicts left-out shares best; `m` lists the shares. */
static double choose_shrink(const struct firn_backward *m,
                            const struct firn_backward_obs *obs, size_t n)
{
    struct firn_backward_obs *rest = mem_new(n, sizeof *rest);
    double off[SHRINKS] = {0};
    int best = 0;
    for (size_t l = 1; l + 1 < m->nlevels; l++)
        leave_out(obs, n, m->level_at[l], rest, off);
    for (int k = 1; k < SHRINKS; k++)
        if (off[k] < off[best])
            best = k;
    mem_free(rest);
    return both_shrinks[best];
}

enum firn_status firn_backward_fit(struct firn_backward *model,
                                   const struct firn_backward_obs *obs,
                                   size_t n, struct firn_error *err)
{
    struct firn_backward_obs *good = mem_new(n + 1, sizeof *good);
    struct firn_backward m;
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (firn_backward_check(&obs[i], NULL) == FIRN_OK)
            good[count++] = obs[i];
    bool enough = fit_form(&m, good, count);
    if (enough) {
        m.nskipped = n - count;
        fit_effects(&m, good, count, both_shrinks[0]);
        fit_effects(&m, good, count, choose_shrink(&m, good, count));
        *model = m;
    }
    mem_free(good);
    if (enough)
        return FIRN_OK;
    return firn_fail(err, FIRN_EDATA,
                     "%zu backward times (%zu refused), %s frozen: a fit "
                     "needs four, some of them with layers frozen",
                     count, n - count, m.theta_min < 1 ? "some" : "none");
}
