/* minimise.c - quasi-Newton steps between bounds (L-BFGS-B).
 *
 * Byrd, Lu, Nocedal and Zhu, "A limited memory algorithm for bound constrained
 * optimization", SIAM J. Sci. Comput. 16 (1995), with the projected subspace
 * step of Morales and Nocedal (ACM TOMS 38, 2011) and the line search of More
 * and Thuente (ACM TOMS 20, 1994). The constants are those of the widely used
 * Fortran code, so fits that others made with it come out alike, not only at
 * the minimum but also where a search ends early. One iteration:
 *
 *   (1) B, the model of the second derivatives: theta times the unit matrix
 *       with the last PAIRS changes of x and of the gradient worked in (BFGS).
 *   (2) The Cauchy point: the first minimum of the quadratic model along the
 *       path x - t g bent at the bounds. What it puts on a bound stays there.
 *   (3) The minimum of the model over the other variables, pulled back into
 *       the box.
 *   (4) A step towards that point with enough descent and curvature.
 *
 * When (3) or (4) fails the model is forgotten and the iteration repeated from
 * the gradient alone; when that fails too, there is no descent to be found.
 *
 * B is kept as a plain matrix, made anew for each iteration: with 16 variables
 * at most that costs less than the compact form saves.
 *
 * Invariants: (a) x is inside the bounds whenever f is asked. (b) f(x) never
 * rises from one iteration to the next. (c) B is positive definite: a pair
 * without positive curvature is left out.
 */
#include "math/minimise.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { VARS = MINIMISE_VARS, PAIRS = 10, LINE_EVALS = 20 };

struct search {
    const struct minimise_problem *problem;
    size_t n;
    double x[VARS], g[VARS], f; /* where the search stands */
    int iterations, evals, max_evals;
    bool is_bounded, is_boxed; /* any bound at all; every bound finite */

    /* The pairs, oldest first: steps and changes of gradient. */
    double s[PAIRS][VARS], y[PAIRS][VARS], theta;
    size_t npairs;

    double b[VARS][VARS];
    double z[VARS];     /* Cauchy point, then the point to step towards */
    bool is_free[VARS]; /* not on a bound at the Cauchy point */
};

static double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static double evaluate(struct search *in, const double *x, double *g)
{
    in->evals++;
    return in->problem->function(in->problem->ctx, x, g);
}

static double clip(const struct search *in, size_t i, double x)
{
    return fmin(fmax(x, in->problem->lower[i]), in->problem->upper[i]);
}

/* The largest derivative along which x may still move down. */
static double slope_left(const struct search *in)
{
    double most = 0;
    for (size_t i = 0; i < in->n; i++) {
        double g = in->g[i];
        double room = g < 0 ? in->x[i] - in->problem->upper[i]
                            : in->x[i] - in->problem->lower[i];
        most = fmax(most, fabs(g < 0 ? fmax(room, g) : fmin(room, g)));
    }
    return most;
}

/* --- the quadratic model --------------------------------------------------*/

static void add_pair(struct search *in, const double *s, const double *y)
{
    if (in->npairs == PAIRS) {
        memmove(in->s[0], in->s[1], (PAIRS - 1) * sizeof in->s[0]);
        memmove(in->y[0], in->y[1], (PAIRS - 1) * sizeof in->y[0]);
        in->npairs--;
    }
    memcpy(in->s[in->npairs], s, in->n * sizeof *s);
    memcpy(in->y[in->npairs], y, in->n * sizeof *y);
    in->npairs++;
    in->theta = dot(y, y, in->n) / dot(s, y, in->n);
}

/* B + y y' / y's - (B s) (B s)' / s'B s, for each pair. */
static void make_model(struct search *in)
{
    size_t n = in->n;
    memset(in->b, 0, sizeof in->b);
    for (size_t i = 0; i < n; i++)
        in->b[i][i] = in->theta;
    for (size_t k = 0; k < in->npairs; k++) {
        const double *s = in->s[k], *y = in->y[k];
        double bs[VARS];
        for (size_t i = 0; i < n; i++)
            bs[i] = dot(in->b[i], s, n);
        double sy = 1 / dot(s, y, n), sbs = 1 / dot(s, bs, n);
        for (size_t i = 0; i < n; i++) {
            double ys = y[i] * sy, back = bs[i] * sbs, *b = in->b[i];
            for (size_t j = 0; j < n; j++)
                b[j] += ys * y[j] - back * bs[j];
        }
    }
}

static double curvature(const struct search *in, const double *a,
                        const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < in->n; i++)
        sum += a[i] * dot(in->b[i], b, in->n);
    return sum;
}

/* Where the path x - t g meets the bound of variable i; infinite for never. */
static double break_at(const struct search *in, size_t i)
{
    double g = in->g[i], lo = in->problem->lower[i], hi = in->problem->upper[i];
    if (lo == hi || (g == 0 && (in->x[i] <= lo || in->x[i] >= hi)))
        return 0;
    if (g == 0)
        return INFINITY;
    double bound = g > 0 ? lo : hi;
    return (in->x[i] - bound) / g;
}

/* Follows the bent path from x until the model turns upwards. */
static void cauchy_point(struct search *in)
{
    size_t n = in->n;
    double d[VARS] = {0}, at[VARS] = {0}, moved[VARS] = {0}, t = 0;
    for (size_t i = 0; i < n; i++) {
        at[i] = break_at(in, i);
        in->is_free[i] = at[i] > 0;
        d[i] = in->is_free[i] ? -in->g[i] : 0;
    }
    double f2_first = curvature(in, d, d);
    for (;;) {
        double f1 = dot(in->g, d, n) + curvature(in, d, moved);
        double f2 = fmax(curvature(in, d, d), DBL_EPSILON * f2_first);
        double go = f1 < 0 ? -f1 / f2 : 0;
        size_t next = n;
        for (size_t i = 0; i < n; i++)
            if (d[i] != 0 && (next == n || at[i] < at[next]))
                next = i;
        bool is_last = next == n || go < at[next] - t;
        double step = next == n ? 0 : is_last ? go : at[next] - t;
        t += step;
        for (size_t i = 0; i < n; i++)
            moved[i] += step * d[i];
        if (is_last)
            break;
        d[next] = 0;
        in->is_free[next] = false;
        moved[next] = (in->g[next] > 0 ? in->problem->lower[next]
                                       : in->problem->upper[next]) -
                      in->x[next];
    }
    for (size_t i = 0; i < n; i++)
        in->z[i] = clip(in, i, in->x[i] + moved[i]);
}

/* Solves A u = v of size m by Cholesky, in place; false when A is not positive
 * definite. */
static bool solve(double a[VARS][VARS], double *v, size_t m)
{
    for (size_t j = 0; j < m; j++) {
        double pivot = a[j][j] - dot(a[j], a[j], j);
        if (!(pivot > 0))
            return false;
        a[j][j] = sqrt(pivot);
        for (size_t i = j + 1; i < m; i++)
            a[i][j] = (a[i][j] - dot(a[i], a[j], j)) / a[j][j];
    }
    for (size_t i = 0; i < m; i++)
        v[i] = (v[i] - dot(a[i], v, i)) / a[i][i];
    for (size_t i = m; i-- > 0;) {
        for (size_t k = i + 1; k < m; k++)
            v[i] -= a[k][i] * v[k];
        v[i] /= a[i][i];
    }
    return true;
}

/* The step u from the Cauchy point to the minimum over its free variables. */
static bool newton_step(const struct search *in, double *u)
{
    double a[VARS][VARS], v[VARS], moved[VARS];
    size_t at[VARS], m = 0;
    for (size_t i = 0; i < in->n; i++) {
        moved[i] = in->z[i] - in->x[i];
        u[i] = 0;
        if (in->is_free[i])
            at[m++] = i;
    }
    for (size_t i = 0; i < m; i++) {
        v[i] = -in->g[at[i]] - dot(in->b[at[i]], moved, in->n);
        for (size_t j = 0; j <= i; j++)
            a[i][j] = in->b[at[i]][at[j]];
    }
    if (!solve(a, v, m))
        return false;
    for (size_t i = 0; i < m; i++)
        u[at[i]] = v[i];
    return true;
}

/* From the Cauchy point to the minimum over the free variables: each pulled
 * back into the box on its own or, if that is not downhill from x, the whole
 * step cut at the first bound. */
static bool subspace_point(struct search *in)
{
    double u[VARS], pulled[VARS], along = 0, share = 1;
    if (!newton_step(in, u))
        return false;
    for (size_t i = 0; i < in->n; i++) {
        double want = in->z[i] + u[i];
        pulled[i] = clip(in, i, want);
        along += in->g[i] * (pulled[i] - in->x[i]);
        if (pulled[i] != want)
            share = fmin(share, (pulled[i] - in->z[i]) / u[i]);
    }
    bool is_downhill = share == 1 || along <= 0;
    for (size_t i = 0; i < in->n; i++)
        in->z[i] =
            is_downhill ? pulled[i] : clip(in, i, in->z[i] + share * u[i]);
    return true;
}

/* --- the line search ------------------------------------------------------*/

struct probe {
    double t, f, g; /* a step length, the value and the slope there */
};

struct interval {
    struct probe best, other; /* the minimum lies between, once bracketed */
    bool is_bracketed;
};

/* Minimum of the cubic through both probes, as seen from `a`; `may_miss` when
 * there need not be one. */
static double cubic(struct probe a, struct probe b, bool may_miss, double *r)
{
    double theta = 3 * (a.f - b.f) / (b.t - a.t) + a.g + b.g;
    double s = fmax(fabs(theta), fmax(fabs(a.g), fabs(b.g)));
    double under = (theta / s) * (theta / s) - (a.g / s) * (b.g / s);
    double gamma = s * sqrt(may_miss ? fmax(under, 0) : under);
    if (b.t < a.t)
        gamma = -gamma;
    double q = gamma - a.g + gamma + b.g;
    *r = (gamma - a.g + theta) / q;
    return gamma;
}

static double secant(struct probe a, struct probe b)
{
    return b.t + b.g / (b.g - a.g) * (a.t - b.t);
}

/* More and Thuente, section 4: the next step length after probing `p`, and
 * the interval that is left. */
static double next_step(struct interval *in, struct probe p, double lo,
                        double hi)
{
    struct probe x = in->best;
    double r, t, gamma;
    bool turns = p.g * (x.g / fabs(x.g)) < 0;
    if (p.f > x.f) {
        cubic(x, p, false, &r);
        double c = x.t + r * (p.t - x.t);
        double q =
            x.t + x.g / ((x.f - p.f) / (p.t - x.t) + x.g) / 2 * (p.t - x.t);
        t = fabs(c - x.t) < fabs(q - x.t) ? c : c + (q - c) / 2;
        in->is_bracketed = true;
    } else if (turns) {
        cubic(p, x, false, &r);
        double c = p.t + r * (x.t - p.t), q = secant(x, p);
        t = fabs(c - p.t) > fabs(q - p.t) ? c : q;
        in->is_bracketed = true;
    } else if (fabs(p.g) < fabs(x.g)) {
        gamma = cubic(p, x, true, &r);
        double q = secant(x, p);
        double c = r < 0 && gamma != 0 ? p.t + r * (x.t - p.t)
                   : p.t > x.t         ? hi
                                       : lo;
        bool c_near = fabs(c - p.t) < fabs(q - p.t);
        t = c_near == in->is_bracketed ? c : q;
        if (in->is_bracketed) {
            double far = p.t + 0.66 * (in->other.t - p.t);
            t = p.t > x.t ? fmin(far, t) : fmax(far, t);
        } else {
            t = fmax(lo, fmin(hi, t));
        }
    } else if (in->is_bracketed) {
        cubic(p, in->other, false, &r);
        t = p.t + r * (in->other.t - p.t);
    } else {
        t = p.t > x.t ? hi : lo;
    }
    if (p.f > x.f) {
        in->other = p;
    } else {
        if (turns)
            in->other = x;
        in->best = p;
    }
    return t;
}

/* The longest step along d inside the box; 1 for the first, unscaled one. */
static double longest_step(const struct search *in, const double *d)
{
    double most = 1e10;
    if (!in->is_bounded)
        return most;
    if (in->iterations == 0)
        return 1;
    for (size_t i = 0; i < in->n; i++) {
        if (d[i] == 0)
            continue;
        double bound = d[i] < 0 ? in->problem->lower[i] : in->problem->upper[i];
        most = fmin(most, fmax((bound - in->x[i]) / d[i], 0));
    }
    return most;
}

static struct probe probe_at(struct search *in, const double *d, double t,
                             double *x, double *g)
{
    for (size_t i = 0; i < in->n; i++)
        x[i] = t == 1 ? in->z[i] : clip(in, i, in->x[i] + t * d[i]);
    struct probe p = {t, evaluate(in, x, g), 0};
    p.g = dot(g, d, in->n);
    return p;
}

static struct probe less_line(struct probe p, double slope)
{
    return (struct probe){p.t, p.f - p.t * slope, p.g - slope};
}

/* One round of the search: shrinks the interval by the probe `p` and returns
 * the next step length. Until a step with enough descent and a rising slope is
 * seen, the function less a line is searched, whose minimum has enough. */
static double narrow(struct interval *in, struct probe p, double slope,
                     bool with_line, const double *range)
{
    if (!with_line || p.f > in->best.f)
        return next_step(in, p, range[0], range[1]);
    in->best = less_line(in->best, slope);
    in->other = less_line(in->other, slope);
    double t = next_step(in, less_line(p, slope), range[0], range[1]);
    in->best = less_line(in->best, -slope);
    in->other = less_line(in->other, -slope);
    return t;
}

/* Steps from x along d to a point with enough descent and writes its x and g.
 * Returns the step length, or -1 when there is none. */
static double line_search(struct search *in, const double *d, double *x,
                          double *g, double *f)
{
    const double enough = 1e-3, flat = 0.9, narrowest = 0.1;
    double most = longest_step(in, d), norm = sqrt(dot(d, d, in->n));
    double t = in->iterations == 0 && !in->is_boxed ? fmin(1 / norm, most) : 1;
    struct probe start = {0, in->f, dot(in->g, d, in->n)};
    if (!(start.g < 0))
        return -1;
    struct interval gap = {start, start, false};
    double slope = enough * start.g, width[2] = {most, 2 * most};
    double range[2] = {0, 5 * t};
    bool first_stage = true;
    for (int k = 0; k < LINE_EVALS && in->evals < in->max_evals; k++) {
        struct probe p = probe_at(in, d, t, x, g);
        *f = p.f;
        if (!isfinite(p.f) || !isfinite(p.g))
            return -1;
        bool is_low = p.f <= in->f + t * slope;
        if (is_low && p.g >= slope)
            first_stage = false;
        bool is_stuck =
            gap.is_bracketed && (t <= range[0] || t >= range[1] ||
                                 range[1] - range[0] <= narrowest * range[1]);
        if (is_stuck || (t == most && is_low && p.g <= slope) ||
            (is_low && fabs(p.g) <= -flat * start.g))
            return t;
        t = narrow(&gap, p, slope, first_stage && !is_low, range);
        double lo = gap.best.t, hi = gap.other.t;
        if (gap.is_bracketed) {
            if (fabs(hi - lo) >= 0.66 * width[1])
                t = lo + (hi - lo) / 2;
            width[1] = width[0];
            width[0] = fabs(hi - lo);
        }
        range[0] = gap.is_bracketed ? fmin(lo, hi) : t + 1.1 * (t - lo);
        range[1] = gap.is_bracketed ? fmax(lo, hi) : t + 4 * (t - lo);
        t = fmin(fmax(t, 0), most);
        if (gap.is_bracketed && (t <= range[0] || t >= range[1] ||
                                 range[1] - range[0] <= narrowest * range[1]))
            t = lo;
    }
    return -1;
}

/* --- iterations -----------------------------------------------------------*/

/* One iteration. False when the model or the line search failed. */
static bool iterate(struct search *in)
{
    double d[VARS], x[VARS] = {0}, g[VARS] = {0}, y[VARS], f = in->f;
    make_model(in);
    cauchy_point(in);
    if (in->npairs > 0 && !subspace_point(in))
        return false;
    for (size_t i = 0; i < in->n; i++)
        d[i] = in->z[i] - in->x[i];
    /* Less than rounding to be gained: stop here rather than follow noise. */
    if (fabs(dot(in->g, d, in->n)) <= DBL_EPSILON * fmax(fabs(in->f), 1))
        return true;
    double t = line_search(in, d, x, g, &f);
    if (t < 0)
        return false;
    if (f > in->f)
        return true; /* invariant (b); a step without gain ends the search */
    for (size_t i = 0; i < in->n; i++) {
        d[i] = x[i] - in->x[i];
        y[i] = g[i] - in->g[i];
    }
    double bend = dot(d, y, in->n), drop = -dot(d, in->g, in->n);
    memcpy(in->x, x, sizeof in->x);
    memcpy(in->g, g, sizeof in->g);
    in->f = f;
    if (bend > DBL_EPSILON * drop)
        add_pair(in, d, y);
    in->iterations++;
    return true;
}

static bool run(struct search *in, double f_tol, double g_tol)
{
    while (slope_left(in) > g_tol) {
        double f = in->f;
        if (iterate(in)) {
            if (f - in->f <= f_tol * fmax(fmax(fabs(f), fabs(in->f)), 1))
                return true;
        } else if (in->npairs > 0 && in->evals < in->max_evals) {
            in->npairs = 0;
            in->theta = 1;
        } else {
            return false;
        }
    }
    return true;
}

static enum firn_status start(struct search *in, const double *x,
                              struct firn_error *err)
{
    const struct minimise_problem *p = in->problem;
    if (p->n == 0 || p->n > VARS)
        return firn_fail(err, FIRN_EINVAL,
                         "minimise: %zu variables, not 1 to %d", p->n, VARS);
    in->is_boxed = true;
    for (size_t i = 0; i < p->n; i++) {
        if (!(p->lower[i] <= p->upper[i]) || !isfinite(x[i]))
            return firn_fail(err, FIRN_EINVAL,
                             "minimise: variable %zu starts at %g in [%g, %g]",
                             i, x[i], p->lower[i], p->upper[i]);
        bool lower = isfinite(p->lower[i]), upper = isfinite(p->upper[i]);
        in->is_bounded |= lower || upper;
        in->is_boxed &= lower && upper;
        in->x[i] = clip(in, i, x[i]);
    }
    in->f = evaluate(in, in->x, in->g);
    if (!isfinite(in->f))
        return firn_fail(err, FIRN_EINVAL,
                         "minimise: the value at the start is %g", in->f);
    return FIRN_OK;
}

enum firn_status minimise_run(const struct minimise_problem *problem, double *x,
                              struct minimise_result *result,
                              struct firn_error *err)
{
    struct search in = {.problem = problem, .n = problem->n, .theta = 1};
    in.max_evals = problem->max_evals > 0 ? problem->max_evals : 15000;
    FIRN_TRY(start(&in, x, err));
    bool converged =
        run(&in, problem->f_tol > 0 ? problem->f_tol : 2.2204460492503131e-9,
            problem->g_tol > 0 ? problem->g_tol : 1e-5);
    memcpy(x, in.x, in.n * sizeof *x);
    *result =
        (struct minimise_result){in.f, in.iterations, in.evals, converged};
    return FIRN_OK;
}
