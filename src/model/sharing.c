/* sharing.c - memory, utilisation and slowdown of jobs that share a GPU.
 *
 * Regression. IceFrog section III-D; the PRODUCT form adds what the linear
 * one cannot say: activations take m times a share of the network, and that
 * share is larger in front (theta^3 beside theta); libraries choose larger
 * workspaces for large batches (m^2). Utilisation cannot pass 100 %, so a row
 * at the cap is a bound and not a value: the fit is repeated with such rows
 * lifted to the prediction where that is higher, until nothing moves (the
 * usual way to fit censored data, with the noise left out).
 *
 * Pairs. Four means of xi, each shrunk to the next: this pair of
 * applications, what its two applications do elsewhere, this pair of classes,
 * everything. With w the weight of the pair's observations and k the shrink,
 *
 *     xi(a | b) = (w mean_ab + k mean_next) / (w + k)
 *
 * which is the Bayesian estimate for equal noise. A weight is capped at
 * `memory`, so that from there on the mean is an exponential average with
 * rate 1 / (memory + 1) and follows a change.
 *
 * For a pair never seen: R, how slow a gets beside others, and C, how slow b
 * makes others, multiply in what exceeds 1, relative to the mean of all,
 *
 *     xi = 1 + (R - 1) (C - 1) / (mean_all - 1),  at most R + C - 1
 *
 * since a job with R = 1 stays at 1 beside any job, and a job with C = 1
 * leaves every other at 1. On measured tables the error is less than half that
 * of one mean for all.
 *
 * Invariants. (1) Every mean is >= 1. (2) firn_pairs_xi is >= 1 and below
 * twice the largest xi ever added.
 */
#include "model/lsq.h"
#include <firn/sharing.h>
#include <math.h>
#include <string.h>

enum { CENSOR_ROUNDS = 30, LINEAR_TERMS = 4, ROWS_MIN = 4, PRODUCT_MIN = 8 };

/* The weight, in rows, with which all coefficients are pulled to zero. */
static const double linear_shrink = 0.1;

static bool positive(double x)
{
    return x > 0 && isfinite(x);
}

static double at_least_one(double xi)
{
    return xi > 1 ? xi : 1;
}

/* --- regression ---------------------------------------------------------- */

enum firn_status firn_usage_check(const struct firn_usage_obs *obs,
                                  struct firn_error *err)
{
    if (!positive(obs->value))
        return firn_fail(err, FIRN_EINVAL, "the measured value is %g",
                         obs->value);
    if (!positive(obs->batch))
        return firn_fail(err, FIRN_EINVAL, "the batch is %g", obs->batch);
    if (!(obs->theta >= 0 && obs->theta <= 1 && obs->omega >= 0 &&
          obs->omega <= 1))
        return firn_fail(err, FIRN_EINVAL,
                         "the shares left are theta %g and omega %g, not "
                         "within 0 and 1",
                         obs->theta, obs->omega);
    return FIRN_OK;
}

static int terms(enum firn_usage_form form, const struct firn_usage_obs *o,
                 double *x)
{
    double m = o->batch;
    x[0] = 1;
    x[1] = m;
    x[2] = o->omega;
    x[3] = o->theta;
    if (form == FIRN_USAGE_LINEAR)
        return LINEAR_TERMS;
    x[3] = m * o->theta;
    x[4] = m * o->theta * o->theta * o->theta;
    x[5] = m * m;
    return FIRN_USAGE_TERMS;
}

static double raw(const struct firn_usage *u, const struct firn_usage_obs *o)
{
    double x[FIRN_USAGE_TERMS];
    int n = terms(u->form, o, x);
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += u->coef[i] * x[i];
    return sum;
}

/* One least-squares pass; rows at the cap are lifted to `lifted` where it
 * predicts more (NULL: not lifted). */
static void solve(struct firn_usage *u, struct lsq *rows,
                  const struct firn_usage_obs *obs, size_t n,
                  const struct firn_usage *lifted)
{
    double x[FIRN_USAGE_TERMS];
    lsq_clear(rows);
    for (size_t i = 0; i < n; i++) {
        if (firn_usage_check(&obs[i], NULL) != FIRN_OK)
            continue;
        double y = obs[i].value;
        if (lifted != NULL && y >= u->cap)
            y = fmax(y, raw(lifted, &obs[i]));
        terms(u->form, &obs[i], x);
        lsq_add(rows, x, y, 1);
    }
    if (u->form == FIRN_USAGE_LINEAR)
        lsq_shrink(rows, 1, linear_shrink);
    lsq_solve(rows, u->coef);
}

enum firn_status firn_usage_fit(struct firn_usage *usage,
                                enum firn_usage_form form, double cap,
                                const struct firn_usage_obs *obs, size_t n,
                                struct firn_error *err)
{
    struct firn_usage u = {.form = form, .cap = cap};
    bool capped = false;
    for (size_t i = 0; i < n; i++) {
        if (firn_usage_check(&obs[i], NULL) != FIRN_OK) {
            u.nskipped++;
            continue;
        }
        const struct firn_usage_obs *o = &obs[i];
        bool is_first = u.nused++ == 0;
        u.batch_min = is_first ? o->batch : fmin(u.batch_min, o->batch);
        u.batch_max = is_first ? o->batch : fmax(u.batch_max, o->batch);
        u.theta_min = is_first ? o->theta : fmin(u.theta_min, o->theta);
        capped = capped || o->value >= cap;
    }
    if (u.nused < ROWS_MIN)
        return firn_fail(err, FIRN_EDATA,
                         "%zu usable rows (%zu refused): a regression on "
                         "batch, theta and omega needs %d",
                         u.nused, u.nskipped, ROWS_MIN);
    if (u.nused < PRODUCT_MIN)
        u.form = FIRN_USAGE_LINEAR;
    struct lsq rows;
    lsq_init(&rows,
             u.form == FIRN_USAGE_LINEAR ? LINEAR_TERMS : FIRN_USAGE_TERMS, n);
    solve(&u, &rows, obs, n, NULL);
    for (int i = 0; capped && i < CENSOR_ROUNDS; i++) {
        struct firn_usage before = u;
        solve(&u, &rows, obs, n, &before);
    }
    lsq_release(&rows);
    *usage = u;
    return FIRN_OK;
}

struct firn_usage_value firn_usage_at(const struct firn_usage *usage,
                                      const struct firn_usage_obs *at)
{
    struct firn_usage_value v = {fmin(fmax(raw(usage, at), 0), usage->cap),
                                 false};
    v.extrapolated = at->batch < usage->batch_min ||
                     at->batch > usage->batch_max ||
                     at->theta < usage->theta_min;
    return v;
}

/* --- rules ---------------------------------------------------------------- */

enum firn_share_verdict firn_share_check(const struct firn_share_need *need,
                                         size_t n, double gpu_mem_mib)
{
    double mem_mib = 0;
    double util_pct = 0;
    for (size_t i = 0; i < n; i++) {
        mem_mib += FIRN_SHARING_MARGIN * need[i].mem_mib;
        util_pct += need[i].util_pct;
    }
    if (!(mem_mib <= gpu_mem_mib))
        return FIRN_SHARE_MEMORY;
    return util_pct <= 100 ? FIRN_SHARE_OK : FIRN_SHARE_BUSY;
}

double firn_share_lambda(size_t others, enum firn_share_verdict verdict,
                         double lambda)
{
    if (others == 0)
        return 1;
    return verdict == FIRN_SHARE_OK ? lambda : 0;
}

/* --- pairs ---------------------------------------------------------------- */

void firn_pairs_init(struct firn_pairs *pairs, double *storage, size_t napps,
                     const int *class_of, size_t nclasses, double prior)
{
    size_t pair = napps * napps;
    size_t classes = nclasses * nclasses;
    memset(storage, 0, FIRN_PAIRS_DOUBLES(napps, nclasses) * sizeof *storage);
    double *single = storage + 2 * (pair + classes);
    *pairs = (struct firn_pairs){
        .napps = napps,
        .nclasses = nclasses,
        .class_of = class_of,
        .pair_mean = storage,
        .pair_weight = storage + pair,
        .class_mean = storage + 2 * pair,
        .class_weight = storage + 2 * pair + classes,
        .feels_mean = single,
        .feels_weight = single + napps,
        .does_mean = single + 2 * napps,
        .does_weight = single + 3 * napps,
        .all_mean = prior >= 1 && isfinite(prior) ? prior : 1.5,
        .all_weight = 1,
        .pair_shrink = 1,
        .class_shrink = 1,
        .memory = 20,
    };
}

/* Which class entry belongs to the pair; nclasses^2: none. */
static size_t class_entry(const struct firn_pairs *p, size_t a, size_t b)
{
    size_t none = p->nclasses * p->nclasses;
    if (p->class_of == NULL || p->class_of[a] < 0 || p->class_of[b] < 0)
        return none;
    size_t ca = (size_t)p->class_of[a];
    size_t cb = (size_t)p->class_of[b];
    return ca < p->nclasses && cb < p->nclasses ? ca * p->nclasses + cb : none;
}

static void fold(double *mean, double *weight, double x, double w, double most)
{
    double past = fmin(*weight, most);
    *mean = (past * *mean + w * x) / (past + w);
    *weight = past + w;
}

enum firn_status firn_pairs_add(struct firn_pairs *pairs, size_t a, size_t b,
                                double xi, double weight,
                                struct firn_error *err)
{
    if (a >= pairs->napps || b >= pairs->napps)
        return firn_fail(err, FIRN_EINVAL,
                         "pair %zu, %zu: the table has %zu applications", a, b,
                         pairs->napps);
    if (!positive(xi) || !positive(weight))
        return firn_fail(err, FIRN_EINVAL,
                         "pair %zu, %zu: slowdown %g with weight %g", a, b, xi,
                         weight);
    double x = at_least_one(xi);
    size_t i = a * pairs->napps + b;
    size_t c = class_entry(pairs, a, b);
    fold(&pairs->pair_mean[i], &pairs->pair_weight[i], x, weight,
         pairs->memory);
    if (c < pairs->nclasses * pairs->nclasses)
        fold(&pairs->class_mean[c], &pairs->class_weight[c], x, weight,
             (double)INFINITY);
    fold(&pairs->feels_mean[a], &pairs->feels_weight[a], x, weight,
         (double)INFINITY);
    fold(&pairs->does_mean[b], &pairs->does_weight[b], x, weight,
         (double)INFINITY);
    fold(&pairs->all_mean, &pairs->all_weight, x, weight, (double)INFINITY);
    return FIRN_OK;
}

static double shrunk(double mean, double weight, double to, double shrink)
{
    return weight > 0 ? (weight * mean + shrink * to) / (weight + shrink) : to;
}

/* The slowdown of a beside b, from their other pairs; `weight` is how often
 * the rarer of the two was observed. */
static double from_singles(const struct firn_pairs *p, size_t a, size_t b,
                           double *weight)
{
    double all = p->all_mean;
    double feels = shrunk(p->feels_mean[a], p->feels_weight[a], all, 1);
    double does = shrunk(p->does_mean[b], p->does_weight[b], all, 1);
    double most = feels + does - 1;
    *weight = fmin(p->feels_weight[a], p->does_weight[b]);
    if (!(all > 1))
        return most;
    return fmin(1 + (feels - 1) * (does - 1) / (all - 1), most);
}

struct firn_xi firn_pairs_xi(const struct firn_pairs *pairs, size_t a, size_t b)
{
    struct firn_xi out = {pairs->all_mean, 0, true};
    if (a >= pairs->napps || b >= pairs->napps)
        return out;
    size_t c = class_entry(pairs, a, b);
    if (c < pairs->nclasses * pairs->nclasses) {
        out.extrapolated = !(pairs->class_weight[c] > 0);
        out.xi = shrunk(pairs->class_mean[c], pairs->class_weight[c], out.xi,
                        pairs->class_shrink);
    }
    double known;
    double singles = from_singles(pairs, a, b, &known);
    out.xi = shrunk(singles, known, out.xi, pairs->class_shrink);
    size_t i = a * pairs->napps + b;
    out.weight = pairs->pair_weight[i];
    out.extrapolated = out.extrapolated && !(out.weight > 0) && !(known > 0);
    out.xi =
        shrunk(pairs->pair_mean[i], out.weight, out.xi, pairs->pair_shrink);
    return out;
}

int firn_share_class(double util_pct)
{
    return util_pct < 40 ? 0 : util_pct < 80 ? 1 : 2;
}

double firn_share_gain(double xi_a, double xi_b)
{
    return 1 / at_least_one(xi_a) + 1 / at_least_one(xi_b);
}

struct firn_share_rule firn_share_rule_default(void)
{
    return (struct firn_share_rule){
        .xi_max = 2.5, .gain_min = 1, .rate = 0.3, .settle = 3};
}

bool firn_share_watch(struct firn_share_watch *watch,
                      const struct firn_share_rule *rule, double xi_a,
                      double xi_b)
{
    if (positive(xi_a) && positive(xi_b)) {
        double rate = watch->n == 0 ? 1 : rule->rate;
        watch->xi_a += rate * (xi_a - watch->xi_a);
        watch->xi_b += rate * (xi_b - watch->xi_b);
        watch->n++;
    }
    if (watch->n < rule->settle || watch->n == 0)
        return false;
    return fmax(watch->xi_a, watch->xi_b) > rule->xi_max ||
           firn_share_gain(watch->xi_a, watch->xi_b) < rule->gain_min;
}
