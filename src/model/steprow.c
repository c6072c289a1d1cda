/* steprow.c - residuals of a step-time fit with their derivatives.
 *
 * The chain is that of itertime.h, C -> (F, B) -> overlap with N -> step, with
 * the derivative carried along. Where freezing does not pay (the minimum in
 * I(6)(7) takes the unfrozen time) the frozen parameters have no slope.
 * The overlap O = (B^g + N^g)^(1/g) has
 *
 *     dO/dB = (B/O)^(g-1)
 *     dO/dg = O/g ((B/O)^g ln(B/O) + (N/O)^g ln(N/O))
 *
 * all of which follow from the two powers that O itself needs.
 * Tested against finite differences.
 */
#include "model/steprow.h"
#include "math/quick.h"
#include <math.h>
#include <string.h>

#define COMPUTE_WEIGHT 0.3

/* Derivatives of one row's step and compute by all parameters. */
struct slopes {
    double step, comp;
    double dstep[NPARAMS], dcomp[NPARAMS];
};

/* d overlap by its two terms and its exponent. */
struct overlap {
    double by_b, by_n, by_gamma;
};

/* Frozen: alpha + beta power x, if less than x. Returns d/dx. */
static double shrink(const double *v, double power, double *x, double d[2])
{
    double less = v[0] + v[1] * power * *x;
    if (less >= *x)
        return 1;
    d[0] = 1;
    d[1] = power * *x;
    *x = less;
    return v[1] * power;
}

/* Adds the chain of compute: what depends on C by `by_c`. */
static void add_compute(const struct steprow *w, const double *v, double root,
                        double by_c, double *d)
{
    double crowd = 1 + v[CROWD] * w->k1;
    double a = v[ALPHA] + (v[BETA] + v[CURVE] * w->b) * w->b;
    double qa = a / root, qf = v[FLOOR] / root;
    double by_a = by_c * crowd * qa * qa * qa;
    d[ALPHA] += by_a;
    d[BETA] += by_a * w->b;
    d[CURVE] += by_a * w->b * w->b;
    d[FLOOR] += by_c * crowd * qf * qf * qf;
    d[CROWD] += by_c * root * w->k1;
}

/* Adds the slopes of F + B when dB/dB0 = g: F depends on C, on the fixed part
 * and on its two shares, and B0 = C - F. */
static void add_forward(const struct steprow *w, const double *v, double root,
                        double g, double *d)
{
    double crowd = 1 + v[CROWD] * w->k1, fixed = v[ALPHA] * crowd;
    double by_fixed = (1 - g) * (v[PHI_FIXED] - v[PHI]);
    add_compute(w, v, root, v[PHI] * (1 - g) + g, d);
    d[ALPHA] += by_fixed * crowd;
    d[CROWD] += by_fixed * v[ALPHA] * w->k1;
    d[PHI] += (1 - g) * (root * crowd - fixed);
    d[PHI_FIXED] += (1 - g) * fixed;
}

/* The overlap as firn_overlap gives it, and its slopes from the same two
 * powers: with x = (lo/hi)^g, (hi/O)^g is 1 / (1 + x). */
static double overlap_slopes(double b, double n, double gamma,
                             struct overlap *out)
{
    bool is_b = b > n;
    double hi = is_b ? b : n, lo = is_b ? n : b;
    *out = (struct overlap){.by_b = b > 0 ? 1 : 0, .by_n = n > 0 ? 1 : 0};
    if (!(lo > hi * 1e-300))
        return hi;
    double ratio = quick_log(lo / hi), x = quick_exp(gamma * ratio);
    double more = quick_log(1 + x) / gamma;
    double o = gamma == 1 ? hi + lo : hi * quick_exp(more);
    double share = 1 / (1 + x), by_hi = share * o / hi;
    double by_lo = x * share * o / lo;
    out->by_b = is_b ? by_hi : by_lo;
    out->by_n = is_b ? by_lo : by_hi;
    out->by_gamma = o / gamma * (x * share * ratio - more);
    return o;
}

static void row_slopes(const struct steprows *t, const struct steprow *w,
                       const double *v, struct slopes *out)
{
    memset(out, 0, sizeof *out);
    double a = v[ALPHA] + (v[BETA] + v[CURVE] * w->b) * w->b;
    double a2 = a * a, f2 = v[FLOOR] * v[FLOOR];
    double root = sqrt(sqrt(a2 * a2 + f2 * f2));
    double c = root * (1 + v[CROWD] * w->k1);
    double phi = v[PHI], more = v[PHI_FIXED] - phi, n = 0;
    double fixed = v[ALPHA] * (1 + v[CROWD] * w->k1);
    double f = phi * c + more * fixed, b = c - f;
    double by_flop[2] = {0}, by_sync[2] = {0}, b_by_b0 = 1, n_by_n0 = 1;
    double b0 = b, power = 0;
    if (w->law >= 0)
        n = v[w->law] + v[w->law + 1] * w->r2 + v[w->law + 2] * w->k1 +
            t->message_s;
    if (w->is_frozen) {
        power = w->theta >= 1e-300 ? quick_exp(v[FLOP + 2] * w->log_theta) : 0;
        b_by_b0 = shrink(v + FLOP, power, &b, by_flop);
        n_by_n0 = shrink(v + SYNC, w->omega, &n, by_sync);
    }
    struct overlap d;
    out->step = f + overlap_slopes(b, n, v[GAMMA], &d);
    out->comp = f + b;
    double *ds = out->dstep, *dc = out->dcomp, db = d.by_b, dn = d.by_n;
    add_forward(w, v, root, db * b_by_b0, ds);
    if (w->comp > 0)
        add_forward(w, v, root, b_by_b0, dc);
    ds[GAMMA] = d.by_gamma;
    for (int j = 0; j < 2; j++) {
        ds[FLOP + j] = db * by_flop[j];
        dc[FLOP + j] = by_flop[j];
        ds[SYNC + j] = dn * by_sync[j];
    }
    dc[FLOP + 2] = by_flop[0] * v[FLOP + 1] * power * w->log_theta * b0;
    ds[FLOP + 2] = db * dc[FLOP + 2];
    if (w->law >= 0) {
        ds[w->law] = dn * n_by_n0;
        ds[w->law + 1] = dn * n_by_n0 * w->r2;
        ds[w->law + 2] = dn * n_by_n0 * w->k1;
    }
}

void steprow_spread(const struct steprows *t, const double *p, double *v)
{
    for (int j = 0; j < NPARAMS; j++)
        v[j] = t->column[j] < 0 ? t->fixed[j] : p[t->column[j]];
}

/* The values alone, for evaluations that need no derivatives. */
static void row_values(const struct steprows *t, const struct steprow *w,
                       const double *v, struct slopes *out)
{
    double a = v[ALPHA] + (v[BETA] + v[CURVE] * w->b) * w->b;
    double a2 = a * a, f2 = v[FLOOR] * v[FLOOR], unused[2], n = 0;
    double c = sqrt(sqrt(a2 * a2 + f2 * f2)) * (1 + v[CROWD] * w->k1);
    double fixed = v[ALPHA] * (1 + v[CROWD] * w->k1);
    double f = v[PHI] * (c - fixed) + v[PHI_FIXED] * fixed, b = c - f;
    if (w->law >= 0)
        n = v[w->law] + v[w->law + 1] * w->r2 + v[w->law + 2] * w->k1 +
            t->message_s;
    if (w->is_frozen) {
        double power =
            w->theta >= 1e-300 ? quick_exp(v[FLOP + 2] * w->log_theta) : 0;
        shrink(v + FLOP, power, &b, unused);
        shrink(v + SYNC, w->omega, &n, unused);
    }
    out->comp = f + b;
    out->step = f + firn_overlap(b, n, v[GAMMA]);
}

/* The columns of the Jacobian for the fitted parameters. */
struct columns {
    int n;
    int from[NPARAMS], to[NPARAMS];
};

/* Two parameters may share a column. */
static void add_row(const struct columns *c, const double *slopes,
                    double factor, double *row)
{
    for (int i = 0; i < c->n; i++)
        row[c->to[i]] += factor * slopes[c->from[i]];
}

void steprow_residuals(void *ctx, const double *p, double *r, double *jac)
{
    const struct steprows *t = ctx;
    double v[NPARAMS];
    struct slopes s;
    struct columns columns = {0};
    size_t n = (size_t)t->ncolumns;
    for (int j = 0; j < NPARAMS; j++)
        if (t->column[j] >= 0) {
            columns.from[columns.n] = j;
            columns.to[columns.n++] = t->column[j];
        }
    steprow_spread(t, p, v);
    if (jac != NULL)
        memset(jac, 0, t->nresiduals * n * sizeof *jac);
    for (size_t i = 0; i < t->nrows; i++) {
        const struct steprow *w = &t->rows[i];
        bool has_comp = w->comp > 0;
        if (jac == NULL)
            row_values(t, w, v, &s);
        else
            row_slopes(t, w, v, &s);
        r[i] = quick_log(s.step / w->step);
        if (has_comp)
            r[w->comp_at] = COMPUTE_WEIGHT * quick_log(s.comp / w->comp);
        if (jac != NULL)
            add_row(&columns, s.dstep, 1 / s.step, jac + i * n);
        if (jac != NULL && has_comp)
            add_row(&columns, s.dcomp, COMPUTE_WEIGHT / s.comp,
                    jac + w->comp_at * n);
    }
}

void steprow_add(struct steprows *t, const struct firn_step_obs *obs)
{
    const struct firn_shape *s = &obs->shape;
    int k = s->gpus_on_fullest > 0 ? s->gpus_on_fullest
                                   : (s->gpus + s->nodes - 1) / s->nodes;
    struct steprow w = {.b = s->batch_per_gpu, .k1 = k - 1, .r2 = s->gpus - 2};
    w.step = obs->step_s;
    /* A step that is nearly all synchronisation is a clock error. */
    if (!isnan(obs->sync_s) && obs->sync_s < 0.95 * obs->step_s)
        w.comp = obs->step_s - obs->sync_s;
    w.theta = s->theta;
    w.omega = s->omega;
    w.log_theta = s->theta >= 1e-300 ? quick_log(s->theta) : 0;
    w.is_frozen = s->theta < 1 || s->omega < 1;
    w.law = s->gpus < 2     ? -1
            : s->nodes == 1 ? LOCAL
            : s->nodes == 2 ? PAIR
                            : FAR;
    t->rows[t->nrows++] = w;
}

void steprow_lay_out(struct steprows *t)
{
    t->nresiduals = t->nrows;
    for (size_t i = 0; i < t->nrows; i++)
        if (t->rows[i].comp > 0)
            t->rows[i].comp_at = t->nresiduals++;
}
