/* losscurve.c - fits (3) of Ymir and reads it forward.
 *
 * For a given floor b0 the curve is linear: 1 / (L - b0) = b3 k^2 + b2 k + b1.
 * Fitting that directly would weigh the last, smallest losses most, so row i
 * is weighed by (L_i - b0)^4, which makes the residual that of L itself to
 * first order; non-negative least squares does the rest. The floor is found
 * on a grid over [0, least loss seen or floor_max], then on a finer grid about
 * the best: no derivative, no start value, no luck.
 *
 * (2) is used as printed, with one repair: where b2 is 0 the curve starts flat
 * and (2) would mean "converged" at k = 0; `from` lets the caller begin after
 * the points seen. Above the tolerance the fall per step is unimodal, so the
 * first k beneath it is found by doubling and bisection.
 *
 * The hitting time (firn_losscurve_hit) treats each evaluation as the curve
 * plus independent noise of the deviation seen in the fit, with a logistic in
 * place of the normal distribution (never more than 0.01 apart).
 *
 * Half way through a run, five noisy points predict the end of the job about
 * as badly as the ends of other jobs do: expect() weighs the two by the number
 * of points and returns their mean, which is never far off rather than often
 * exact. Its weights are not fitted to anything.
 *
 * Invariants. (1) b >= 0, so L falls with k. (2) L(k) >= b0 * scale.
 */
#include "base/fmath.h"
#include "model/lsq.h"
#include <firn/losscurve.h>
#include <math.h>

enum { GRID = 12, POINTS_MIN = 3 };

struct points {
    const struct firn_loss_obs *at;
    size_t n;
    double scale;
    int terms; /* 2 or 3 */
    struct lsq *rows;
};

static bool good(const struct firn_loss_obs *o)
{
    return o->k >= 0 && isfinite(o->k) && o->loss > 0 && isfinite(o->loss);
}

enum firn_status firn_loss_check(const struct firn_loss_obs *obs,
                                 struct firn_error *err)
{
    if (good(obs))
        return FIRN_OK;
    return firn_fail(err, FIRN_EINVAL, "the loss after %g steps is %g", obs->k,
                     obs->loss);
}

static double shape(const double *b, double k)
{
    double d = (b[3] * k + b[2]) * k + b[1];
    return b[0] + (d > 0 ? 1 / d : 1e12);
}

/* Fits b1..b3 for this floor; returns the summed squared error. */
static double fit_above(const struct points *p, double floor, double *b)
{
    lsq_clear(p->rows);
    for (size_t i = 0; i < p->n; i++) {
        if (!good(&p->at[i]))
            continue;
        double k = p->at[i].k;
        double z = fmax(p->at[i].loss / p->scale - floor, 1e-6);
        double x[3] = {1, k, k * k};
        lsq_add(p->rows, x, 1 / z, z * z * z * z);
    }
    double coef[LSQ_TERMS] = {0};
    lsq_solve_positive(p->rows, coef);
    b[0] = floor;
    b[1] = coef[0];
    b[2] = coef[1];
    b[3] = p->terms > 2 ? coef[2] : 0;
    double sum = 0;
    for (size_t i = 0; i < p->n; i++) {
        if (!good(&p->at[i]))
            continue;
        double e = p->at[i].loss / p->scale - shape(b, p->at[i].k);
        sum += e * e;
    }
    return sum;
}

/* Tries GRID + 1 floors in [low, high]; keeps the best in b. */
static double search(const struct points *p, double low, double high,
                     double least, double *b)
{
    for (int i = 0; i <= GRID; i++) {
        double at[4];
        double e = fit_above(p, low + (high - low) * i / GRID, at);
        if (!(e < least))
            continue;
        least = e;
        for (int j = 0; j < 4; j++)
            b[j] = at[j];
    }
    return least;
}

/* Counts, range and scale; the least loss. */
static double survey(struct firn_losscurve *c, const struct firn_loss_obs *obs,
                     size_t n)
{
    double least = (double)INFINITY;
    c->k_min = (double)INFINITY;
    c->k_max = -1;
    for (size_t i = 0; i < n; i++) {
        if (!good(&obs[i])) {
            c->nskipped++;
            continue;
        }
        c->nused++;
        c->k_min = fmin(c->k_min, obs[i].k);
        c->k_max = fmax(c->k_max, obs[i].k);
        c->scale = fmax(c->scale, obs[i].loss);
        least = fmin(least, obs[i].loss);
    }
    return least;
}

/* Three points at three different k. */
static bool spread(const struct firn_losscurve *c,
                   const struct firn_loss_obs *obs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (good(&obs[i]) && obs[i].k > c->k_min && obs[i].k < c->k_max)
            return true;
    return false;
}

enum firn_status firn_losscurve_fit(struct firn_losscurve *curve,
                                    enum firn_losscurve_form form,
                                    double floor_max,
                                    const struct firn_loss_obs *obs, size_t n,
                                    struct firn_error *err)
{
    struct firn_losscurve c = {0};
    double least = survey(&c, obs, n);
    if (c.nused < POINTS_MIN || !spread(&c, obs, n))
        return firn_fail(err, FIRN_EDATA,
                         "%zu usable losses (%zu refused): a curve needs %d, "
                         "at different steps",
                         c.nused, c.nskipped, POINTS_MIN);
    struct lsq rows;
    struct points p = {obs, n, c.scale, form == FIRN_LOSSCURVE_OPTIMUS ? 2 : 3,
                       &rows};
    lsq_init(&rows, (size_t)p.terms, n);
    double high = fmax(fmin(0.999 * least, floor_max) / c.scale, 0);
    double error = search(&p, 0, high, (double)INFINITY, c.b);
    double step = high / GRID;
    error = search(&p, fmax(c.b[0] - step, 0), fmin(c.b[0] + step, high), error,
                   c.b);
    lsq_release(&rows);
    if (!(c.b[2] + c.b[3] > 0))
        return firn_fail(err, FIRN_EDATA,
                         "the loss does not fall over %zu points", c.nused);
    size_t unknowns = (size_t)p.terms + 1;
    size_t freedom = c.nused > unknowns ? c.nused - unknowns : 1;
    c.noise = fmax(sqrt(error / (double)freedom), 1e-4);
    *curve = c;
    return FIRN_OK;
}

struct firn_loss_value firn_losscurve_at(const struct firn_losscurve *curve,
                                         double k)
{
    return (struct firn_loss_value){curve->scale * shape(curve->b, k),
                                    k < curve->k_min || k > curve->k_max};
}

static double fall(const struct firn_losscurve *c, double k)
{
    return shape(c->b, k) - shape(c->b, k + 1);
}

double firn_losscurve_converge(const struct firn_losscurve *curve,
                               double tolerance, double from, double k_limit)
{
    double low = ceil(fmax(from, 0));
    if (low >= k_limit || fall(curve, low) <= tolerance)
        return fmin(low, k_limit);
    double step = 1;
    double high = low + step;
    while (high < k_limit && fall(curve, high) > tolerance) {
        low = high;
        step *= 2;
        high = low + step;
    }
    if (high >= k_limit) {
        high = floor(k_limit);
        if (high <= low || fall(curve, high) > tolerance)
            return k_limit;
    }
    while (high - low > 1) {
        double mid = floor(low + (high - low) / 2);
        if (fall(curve, mid) > tolerance)
            low = mid;
        else
            high = mid;
    }
    return high;
}

double firn_losscurve_reach(const struct firn_losscurve *curve, double target)
{
    const double *b = curve->b;
    double above = target / curve->scale - b[0];
    if (!(above > 0))
        return (double)INFINITY;
    /* b3 k^2 + b2 k = need, by the form of the root that does not cancel */
    double need = 1 / above - b[1];
    if (need <= 0)
        return 0;
    double root = b[2] + sqrt(b[2] * b[2] + 4 * b[3] * need);
    return root > 0 ? 2 * need / root : (double)INFINITY;
}

/* The chance that one measurement at k meets the target. */
static double chance(const struct firn_losscurve *c, double target, double k)
{
    double x = (target / c->scale - shape(c->b, k)) / c->noise;
    x = fmin(fmax(x, -40), 40);
    return 1 / (1 + fm_exp(-1.702 * x));
}

double firn_losscurve_hit(const struct firn_losscurve *curve, double target,
                          double from, double every, double limit)
{
    double missed = 1;
    if (!(every > 0))
        return limit;
    for (long i = 1;; i++) {
        double k = from + (double)i * every;
        if (!(k < limit))
            return limit;
        missed *= 1 - chance(curve, target, k);
        if (missed <= 0.5)
            return k;
    }
}

enum firn_status firn_losscurve_transfer(const struct firn_losscurve *curve,
                                         double gain,
                                         struct firn_losscurve *out,
                                         struct firn_error *err)
{
    if (!(gain > -1) || !isfinite(gain))
        return firn_fail(err, FIRN_EINVAL, "the transfer gain is %g", gain);
    struct firn_losscurve c = *curve;
    c.b[0] /= 1 + gain;
    for (int i = 1; i < 4; i++)
        c.b[i] *= 1 + gain;
    c.noise /= 1 + gain;
    *out = c;
    return FIRN_OK;
}

double firn_losscurve_head_start(const struct firn_losscurve *curve,
                                 const struct firn_loss_obs *obs, size_t n)
{
    double sum = 0;
    double count = 0;
    for (size_t i = 0; i < n; i++) {
        if (!good(&obs[i]))
            continue;
        double k = firn_losscurve_reach(curve, obs[i].loss);
        sum += fmin(k, 2 * curve->k_max) - obs[i].k;
        count++;
    }
    return count > 0 ? sum / count : 0;
}
