/* transfer.c - gains of transfer, the line that predicts them, merged work.
 *
 * Equations (1) and (4) of Ymir and the regression of its section 4.1; symbols
 * as in transfer.h. (5) needs no code here: S is a forecast, which core's
 * forecaster fits offline and corrects by what jobs report.
 *
 * The regression is ridge regression towards a prior line: with the scores x
 * counted from their mean m over the rows,
 *
 *     min  sum (y - a - b x)^2 + t (a - a0)^2 + t s^2 (b - b0)^2
 *
 * where a0, b0 are the prior's value at m and slope, t the rows that it counts
 * for and s = 0.1. As the x sum to 0, a and b separate.
 */
#include "base/fmath.h"
#include <firn/transfer.h>
#include <math.h>

static const double score_deviation = 0.1; /* s */
static const double least_gain = -0.95;    /* predictions are not below this */
static const double most_log = 20;

static bool positive(double x)
{
    return x > 0 && isfinite(x);
}

double firn_transfer_gain(double p_joint, double p_alone)
{
    if (!(p_alone > 0) || !isfinite(p_alone) || !isfinite(p_joint))
        return (double)NAN;
    return (p_joint - p_alone) / p_alone;
}

/* --- gain from similarity ------------------------------------------------- */

static bool usable(const struct firn_gain_obs *o)
{
    return isfinite(o->score) && isfinite(o->gain) && o->gain > -1;
}

struct sums {
    double score, log; /* means */
    double xx, xy, yy; /* about them */
};

static struct sums survey(struct firn_gain_model *m,
                          const struct firn_gain_obs *obs, size_t n)
{
    struct sums s = {0};
    for (size_t i = 0; i < n; i++) {
        if (!usable(&obs[i])) {
            m->nskipped++;
            continue;
        }
        m->nused++;
        s.score += obs[i].score;
        s.log += fm_log(1 + obs[i].gain);
    }
    if (m->nused > 0) {
        s.score /= (double)m->nused;
        s.log /= (double)m->nused;
    }
    for (size_t i = 0; i < n; i++) {
        if (!usable(&obs[i]))
            continue;
        double x = obs[i].score - s.score;
        double y = fm_log(1 + obs[i].gain) - s.log;
        s.xx += x * x;
        s.xy += x * y;
        s.yy += y * y;
    }
    return s;
}

enum firn_status firn_gain_fit(struct firn_gain_model *model,
                               const struct firn_gain_obs *obs, size_t n,
                               const struct firn_gain_model *prior,
                               double trust, struct firn_error *err)
{
    static const struct firn_gain_model none;
    struct firn_gain_model m = {0};
    struct sums s = survey(&m, obs, n);
    bool has_prior = prior != NULL && trust > 0;
    double t = has_prior ? trust : 0;
    const struct firn_gain_model *p = has_prior ? prior : &none;
    double rows = (double)m.nused;
    double spread = t * score_deviation * score_deviation;
    if (!has_prior && (m.nused < 2 || !(s.xx > 0)))
        return firn_fail(err, FIRN_EDATA,
                         "%zu usable transfer gains (%zu refused): a line "
                         "needs two different scores",
                         m.nused, m.nskipped);
    double level = p->intercept + p->slope * s.score; /* a0 */
    m.slope = (s.xy + spread * p->slope) / (s.xx + spread);
    level = (rows * s.log + t * level) / (rows + t);
    m.intercept = level - m.slope * s.score;
    m.pearson = s.xx > 0 && s.yy > 0 ? s.xy / sqrt(s.xx * s.yy) : 0;
    double gap = s.log - level;
    double rest =
        s.yy - 2 * m.slope * s.xy + m.slope * m.slope * s.xx + rows * gap * gap;
    m.scatter =
        sqrt((fmax(rest, 0) + t * p->scatter * p->scatter) / (rows + t));
    *model = m;
    return FIRN_OK;
}

double firn_gain_at(const struct firn_gain_model *model, double score)
{
    double y = model->intercept + model->slope * score;
    if (!isfinite(y))
        return 0;
    return fmax(fm_exp(fmin(fmax(y, -most_log), most_log)) - 1, least_gain);
}

double firn_gain_spatial_score(double score_ab, double score_ba)
{
    return (score_ab + score_ba) / 2;
}

/* --- Task2Vec --------------------------------------------------------- */

static const double alpha = 0.15; /* Task2Vec's */

/* Of an embedding and another one, or of the trivial one (NULL). */
static double alike(const double *f, const double *g, size_t n)
{
    double sum_f = 0, sum_g = g != NULL ? 0 : (double)n;
    double dot = 0, left = 0, right = 0;
    for (size_t i = 0; i < n; i++) {
        if (!(f[i] >= 0) || (g != NULL && !(g[i] >= 0)))
            return (double)NAN;
        sum_f += f[i];
        sum_g += g != NULL ? g[i] : 0;
    }
    if (!positive(sum_f) || !positive(sum_g))
        return (double)NAN;
    for (size_t i = 0; i < n; i++) {
        double a = f[i] / sum_f, b = (g != NULL ? g[i] : 1) / sum_g;
        if (!(a + b > 0))
            continue;
        dot += a / (a + b) * (b / (a + b));
        left += a / (a + b) * (a / (a + b));
        right += b / (a + b) * (b / (a + b));
    }
    double norm = sqrt(left) * sqrt(right);
    return norm > 0 ? fmin(dot / norm, 1) : 0;
}

double firn_transfer_score(const double *from, const double *to, size_t n)
{
    return alike(from, to, n) + alpha * (1 - alike(from, NULL, n));
}

/* --- spatial iterations --------------------------------------------- */

static bool sized(const struct firn_task_size *t)
{
    return positive(t->iterations) && positive(t->batch) &&
           positive(t->samples);
}

double firn_spatial_iterations(const struct firn_task_size *a,
                               const struct firn_task_size *b)
{
    if (!sized(a) || !sized(b))
        return (double)NAN;
    double epochs = fmax(a->iterations * a->batch / a->samples,
                         b->iterations * b->batch / b->samples);
    return epochs * (a->samples + b->samples) / (a->batch + b->batch);
}

/* --- the guard ------------------------------------------------------ */

bool firn_transfer_undo(const double *accuracy, size_t n, size_t epochs)
{
    if (n <= epochs)
        return false;
    for (size_t i = 1; i < n; i++)
        if (accuracy[i] > accuracy[0])
            return false;
    return true;
}
