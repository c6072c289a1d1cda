/* itertime_fit.c - fits the iteration-time model to measured steps.
 *
 * Minimised are the logarithms of predicted over measured step time, and with
 * a smaller weight the same for the compute part where it was measured,
 * under a soft L1 loss: relative errors count alike for all shapes, and a
 * stalled step (a slow data loader) does not distort the rest. Pollux minimises
 * the two root mean squares with equal weight; here the step weighs more, since
 * it is what callers ask for.
 *
 * The start is found by linear least squares: alpha and beta from compute
 * times, or from steps of one GPU if they were not measured; each
 * synchronisation law from the rest of the step. The start is also the prior,
 * unless the caller's model was fitted before: then that model is.
 *
 * (1) A parameter that the measurements do not determine is not touched by the
 *     fit: with one batch size alpha gets half of the time (Pollux); a node
 *     class that was not measured keeps its law, but at least 1.1 times that
 *     of one node; without rows of frozen layers I(6)(7) stay.
 * (2) Monotone by bounds: all coefficients >= 0, gamma in [1, 10], phi in
 *     [0, 0.9], I(6)'s exponent in [0.5, 1.2]: unconstrained, its three
 *     parameters are exchangeable and the fit is meaningless.
 *
 * Derivatives are exact. Cost: about 8 evaluations of all measurements;
 * the full form starts from two overlaps, as its cost has two valleys.
 */
#include "base/arena.h"
#include "math/fit.h"
#include "math/linear.h"
#include "model/steprow.h"
#include <firn/itertime.h>
#include <math.h>
#include <string.h>

#define SOFT  0.1
#define RIDGE 0.01
/* The share of a compute time guessed from synchronised steps that is used. */
#define UNSURE 0.7

static void pack(const struct firn_itertime *m, double *v)
{
    const struct firn_sync_law *laws[] = {&m->local, &m->pair, &m->far};
    double head[] = {m->alpha_s, m->beta_s, m->curve_s,   m->floor_s,
                     m->crowd,   m->phi,    m->phi_fixed, m->gamma};
    memcpy(v, head, sizeof head);
    for (int c = 0; c < 3; c++) {
        v[LOCAL + 3 * c] = laws[c]->alpha_s;
        v[LOCAL + 3 * c + 1] = laws[c]->beta_s;
        v[LOCAL + 3 * c + 2] = laws[c]->crowd_s;
    }
    v[FLOP] = m->flop_alpha_s;
    v[FLOP + 1] = m->flop_beta;
    v[FLOP + 2] = m->flop_gamma;
    v[SYNC] = m->sync_alpha_s;
    v[SYNC + 1] = m->sync_beta;
}

static void unpack(const double *v, struct firn_itertime *m)
{
    struct firn_sync_law *laws[] = {&m->local, &m->pair, &m->far};
    m->alpha_s = v[ALPHA];
    m->beta_s = v[BETA];
    m->curve_s = v[CURVE];
    m->floor_s = v[FLOOR];
    m->crowd = v[CROWD];
    m->phi = v[PHI];
    m->phi_fixed = v[PHI_FIXED];
    m->gamma = v[GAMMA];
    for (int c = 0; c < 3; c++) {
        laws[c]->alpha_s = v[LOCAL + 3 * c];
        laws[c]->beta_s = v[LOCAL + 3 * c + 1];
        laws[c]->crowd_s = v[LOCAL + 3 * c + 2];
    }
    m->flop_alpha_s = v[FLOP];
    m->flop_beta = v[FLOP + 1];
    m->flop_gamma = v[FLOP + 2];
    m->sync_alpha_s = v[SYNC];
    m->sync_beta = v[SYNC + 1];
}

const char *firn_step_obs_fault(const struct firn_step_obs *obs)
{
    const struct firn_shape *s = &obs->shape;
    if (!isfinite(obs->step_s) || !(obs->step_s > 0))
        return "the step time is not positive";
    if (isinf(obs->sync_s) || obs->sync_s < 0)
        return "the synchronisation time is negative or infinite";
    if (s->nodes < 1 || s->gpus < s->nodes || s->gpus_on_fullest > s->gpus)
        return "the nodes and GPUs do not go together";
    if (!isfinite(s->batch_per_gpu) || !(s->batch_per_gpu > 0))
        return "the batch is not positive";
    if (!(s->theta >= 0 && s->theta <= 1 && s->omega >= 0 && s->omega <= 1))
        return "an unfrozen share is not within 0 and 1";
    return NULL;
}

/* How many different values, up to three. */
static int distinct(const struct steprows *t, int law, bool of_crowd)
{
    double seen[3];
    int n = 0;
    for (size_t i = 0; i < t->nrows && n < 3; i++) {
        const struct steprow *w = &t->rows[i];
        if (law >= 0 && w->law != law)
            continue;
        double x = law < 0 ? w->b : of_crowd ? w->k1 : w->r2;
        bool is_new = true;
        for (int j = 0; j < n; j++)
            is_new = is_new && seen[j] != x;
        if (is_new)
            seen[n++] = x;
    }
    return n;
}

/* What rows without a measured compute time reveal of it. */
enum hint {
    HINT_MEASURED, /* nothing: other rows have a measured one */
    HINT_SINGLE,   /* steps of one GPU with two batch sizes are compute */
    HINT_NONE,
};

static enum hint hint(const struct steprows *t)
{
    const struct steprow *first = NULL;
    enum hint found = HINT_NONE;
    for (size_t i = 0; i < t->nrows; i++) {
        const struct steprow *w = &t->rows[i];
        if (w->comp > 0)
            return HINT_MEASURED;
        if (w->law >= 0 || w->is_frozen)
            continue;
        if (first != NULL && w->b != first->b)
            found = HINT_SINGLE;
        first = first != NULL ? first : w;
    }
    return found;
}

/* The synchronisation time of a step whose compute time was not measured: the
 * rest of the step beside the guessed compute time at an overlap exponent of
 * 2, and at least a tenth of the step. */
static double leftover(const struct steprow *w, const double *v, enum hint hint)
{
    double part = hint == HINT_SINGLE ? 1 : UNSURE;
    double c = part * (v[ALPHA] + v[BETA] * w->b);
    double left = w->step * w->step - c * c;
    if (hint == HINT_MEASURED)
        left = 0;
    return fmax(left > 0 ? sqrt(left) : 0, 0.1 * w->step);
}

/* y = x0 + x1 z, both >= 0, over unfrozen rows of a law (or compute: -1). */
static bool guess(const struct steprows *t, int law, const double *v,
                  double out[2], struct arena *scratch)
{
    double *a = arena_alloc(scratch, 2 * t->nrows * sizeof *a);
    double *y = arena_alloc(scratch, t->nrows * sizeof *y);
    struct linear_problem p = {.a = a, .y = y, .cols = 2};
    enum hint known = hint(t);
    for (size_t i = 0; i < t->nrows; i++) {
        const struct steprow *w = &t->rows[i];
        if ((law >= 0 && w->law != law) || (w->is_frozen && law >= 0))
            continue;
        if (law < 0 && known == HINT_SINGLE && w->law >= 0)
            continue;
        double have = law >= 0 ? w->step - w->comp : w->comp;
        if (!(w->comp > 0))
            have = law >= 0 ? leftover(w, v, known) : w->step;
        a[2 * p.rows] = 1 / w->step;
        a[2 * p.rows + 1] = (law >= 0 ? w->r2 : w->b) / w->step;
        y[p.rows++] = have / w->step;
    }
    return linear_fit_nonneg(&p, out, scratch, NULL) == FIRN_OK;
}

static void guess_all(struct steprows *t, double *v, struct arena *scratch)
{
    double x[2];
    if (guess(t, -1, v, x, scratch)) {
        v[ALPHA] = x[0];
        v[BETA] = x[1];
    }
    if (distinct(t, -1, false) < 2) { /* half and half, as in Pollux */
        double b = t->rows[0].b, whole = v[ALPHA] + v[BETA] * b;
        v[ALPHA] = whole / 2;
        v[BETA] = whole / 2 / b;
    }
    v[CURVE] = v[FLOOR] = v[CROWD] = 0;
    for (int law = LOCAL; law <= FAR; law += 3)
        if (guess(t, law, v, x, scratch)) {
            v[law] = x[0];
            v[law + 1] = x[1];
            v[law + 2] = 0;
        }
}

static void add_column(struct steprows *t, int param)
{
    t->column[param] = t->ncolumns++;
}

/* Chooses the parameters of the form that the measurements determine. */
static void choose_columns(struct steprows *t, enum firn_itertime_form form)
{
    bool is_frozen = false, has_law = false, is_full = form == FIRN_FORM_FULL;
    for (int j = 0; j < NPARAMS; j++)
        t->column[j] = -1;
    for (size_t i = 0; i < t->nrows; i++) {
        is_frozen = is_frozen || t->rows[i].is_frozen;
        has_law = has_law || t->rows[i].law >= 0;
    }
    int nbatches = distinct(t, -1, false);
    add_column(t, ALPHA);
    if (nbatches > 1)
        add_column(t, BETA);
    if (is_full && nbatches > 2) {
        add_column(t, CURVE);
        add_column(t, FLOOR);
    }
    if (is_full && has_law)
        add_column(t, CROWD);
    if (has_law)
        add_column(t, GAMMA);
    if (form != FIRN_FORM_POLLUX && (has_law || is_frozen))
        add_column(t, PHI);
    t->column[PHI_FIXED] = t->column[PHI];
    if (is_full && is_frozen && nbatches > 1)
        add_column(t, PHI_FIXED);
    for (int law = LOCAL; law <= FAR; law += 3) {
        int nsizes = distinct(t, law, false);
        if (nsizes > 0)
            add_column(t, law);
        if (nsizes > 1)
            add_column(t, law + 1);
        if (is_full && law != LOCAL && distinct(t, law, true) > 1)
            add_column(t, law + 2);
    }
    if (form != FIRN_FORM_POLLUX && is_frozen)
        for (int j = FLOP; j < NPARAMS; j++)
            add_column(t, j);
}

struct bounds {
    double lower[NPARAMS], upper[NPARAMS], scale[NPARAMS];
};

static void make_bounds(const struct steprows *t, struct bounds *out)
{
    double step = 0, batch = 0;
    for (size_t i = 0; i < t->nrows; i++) {
        step = fmax(step, t->rows[i].step);
        batch = fmax(batch, t->rows[i].b);
    }
    for (int j = 0; j < NPARAMS; j++) {
        out->lower[j] = 0;
        out->upper[j] = INFINITY;
        out->scale[j] = step / 10;
    }
    out->scale[BETA] = step / batch;
    out->scale[CURVE] = step / batch / batch;
    out->scale[CROWD] = 0.1;
    out->upper[CROWD] = 2;
    out->scale[PHI] = out->scale[PHI_FIXED] = 0.3;
    out->upper[PHI] = out->upper[PHI_FIXED] = 0.9;
    out->lower[GAMMA] = out->scale[GAMMA] = 1;
    out->upper[GAMMA] = 10;
    for (int law = LOCAL; law <= FAR; law += 3)
        out->scale[law + 1] = out->scale[law + 2] = step / 40;
    out->lower[FLOP + 1] = 0.2;
    out->upper[FLOP + 1] = out->upper[SYNC + 1] = 1;
    out->scale[FLOP + 1] = out->scale[SYNC + 1] = 0.3;
    out->lower[FLOP + 2] = 0.5;
    out->upper[FLOP + 2] = 1.2;
    out->scale[FLOP + 2] = 0.3;
}

/* Fits the columns from `prior`, starting with this overlap (0: prior's). */
static enum firn_status run(struct steprows *t, const double *prior,
                            double gamma, double *v, struct fit_result *result,
                            struct arena *scratch, struct firn_error *err)
{
    struct bounds all, some;
    double at[NPARAMS], start[NPARAMS], p[NPARAMS];
    make_bounds(t, &all);
    for (int j = 0; j < NPARAMS; j++) {
        int c = t->column[j];
        if (c < 0)
            continue;
        at[c] = prior[j];
        start[c] = j == GAMMA && gamma > 0 ? gamma : prior[j];
        some.lower[c] = all.lower[j];
        some.upper[c] = all.upper[j];
        some.scale[c] = all.scale[j];
    }
    memcpy(t->fixed, prior, sizeof t->fixed);
    struct fit_problem q = {.nparams = (size_t)t->ncolumns,
                            .nresiduals = t->nresiduals,
                            .residuals = steprow_residuals,
                            .ctx = t,
                            .start = start,
                            .lower = some.lower,
                            .upper = some.upper,
                            .prior = at,
                            .scale = some.scale,
                            .ridge = RIDGE,
                            .soft = SOFT,
                            .tolerance = 1e-4,
                            .max_evals = 60};
    FIRN_TRY(fit_run(&q, p, result, scratch, err));
    steprow_spread(t, p, v);
    return FIRN_OK;
}

/* Laws of node classes that were not measured: at least 1.1 times that of one
 * node (Pollux); two and three nodes share a law if only one was measured. */
static void fill_unseen(const struct steprows *t, double *v, bool is_merged)
{
    bool has_pair = t->column[PAIR] >= 0, has_far = t->column[FAR] >= 0;
    for (int j = 0; j < 3; j++) {
        if (has_pair && (is_merged || !has_far))
            v[FAR + j] = v[PAIR + j];
        if (has_far && !has_pair)
            v[PAIR + j] = v[FAR + j];
    }
    for (int j = 0; j < 2 && !has_pair && !has_far; j++) {
        v[PAIR + j] = fmax(v[PAIR + j], 1.1 * v[LOCAL + j]);
        v[FAR + j] = fmax(v[FAR + j], v[PAIR + j]);
    }
}

static void note_range(struct firn_itertime *m, const struct firn_step_obs *obs,
                       size_t n, bool was_fitted)
{
    if (!was_fitted) {
        m->batch_min = INFINITY;
        m->batch_max = 0;
        m->theta_min = 1;
        m->gpus_max = m->nodes_max = 0;
    }
    for (size_t i = 0; i < n; i++) {
        const struct firn_shape *s = &obs[i].shape;
        if (firn_step_obs_fault(&obs[i]) != NULL)
            continue;
        m->batch_min = fmin(m->batch_min, s->batch_per_gpu);
        m->batch_max = fmax(m->batch_max, s->batch_per_gpu);
        m->theta_min = fmin(m->theta_min, s->theta);
        m->gpus_max = s->gpus > m->gpus_max ? s->gpus : m->gpus_max;
        m->nodes_max = s->nodes > m->nodes_max ? s->nodes : m->nodes_max;
    }
}

static enum firn_status read_rows(struct steprows *t,
                                  const struct firn_step_obs *obs, size_t n,
                                  struct arena *scratch, struct firn_error *err)
{
    size_t first = n;
    t->rows = arena_alloc(scratch, (n + 1) * sizeof *t->rows);
    for (size_t i = 0; i < n; i++) {
        if (firn_step_obs_fault(&obs[i]) == NULL)
            steprow_add(t, &obs[i]);
        else if (first == n)
            first = i;
    }
    steprow_lay_out(t);
    if (t->nrows >= 2)
        return FIRN_OK;
    return firn_fail(err, FIRN_EDATA,
                     "iteration time: %zu usable measurements, 2 are needed%s"
                     "%.0zu%s%s",
                     t->nrows, first < n ? "; row " : "",
                     first < n ? first + 1 : 0, first < n ? ": " : "",
                     first < n ? firn_step_obs_fault(&obs[first]) : "");
}

static enum firn_status refit(struct firn_itertime *m, struct steprows *t,
                              struct firn_itertime_fit *fit,
                              struct arena *scratch, struct firn_error *err)
{
    double prior[NPARAMS], v[NPARAMS], other[NPARAMS];
    struct fit_result result, second;
    bool is_full = fit->form == FIRN_FORM_FULL;
    t->message_s = m->byte_s * m->message_bytes;
    /* The papers' forms have one law for all multi-node shapes. */
    for (size_t i = 0; i < t->nrows && !is_full; i++)
        if (t->rows[i].law == FAR)
            t->rows[i].law = PAIR;
    choose_columns(t, fit->form);
    pack(m, prior);
    if (m->gpus_max == 0)
        guess_all(t, prior, scratch);
    if (fit->form == FIRN_FORM_POLLUX)
        prior[PHI] = prior[PHI_FIXED] = 0;
    FIRN_TRY(run(t, prior, 0, v, &result, scratch, err));
    if (is_full && t->nrows >= 24 &&
        run(t, prior, 4, other, &second, scratch, NULL) == FIRN_OK &&
        second.cost < result.cost) {
        memcpy(v, other, sizeof v);
        result = second;
    }
    fill_unseen(t, v, !is_full);
    unpack(v, m);
    fit->nused = t->nrows;
    fit->cost = result.cost;
    fit->converged = result.converged;
    return FIRN_OK;
}

enum firn_status firn_itertime_refit(struct firn_itertime *m,
                                     const struct firn_step_obs *obs, size_t n,
                                     struct firn_itertime_fit *fit,
                                     struct firn_error *err)
{
    struct arena scratch;
    struct steprows task = {0};
    arena_init(&scratch);
    bool was_fitted = m->gpus_max > 0;
    enum firn_status status = read_rows(&task, obs, n, &scratch, err);
    if (status == FIRN_OK)
        status = refit(m, &task, fit, &scratch, err);
    if (status == FIRN_OK) {
        fit->nrejected = n - task.nrows;
        note_range(m, obs, n, was_fitted);
    }
    arena_release(&scratch);
    return status;
}

enum firn_status firn_itertime_fit_message(const double *bytes,
                                           const double *seconds, size_t n,
                                           double *alpha_s, double *byte_s,
                                           struct firn_error *err)
{
    struct arena scratch;
    arena_init(&scratch);
    double x[2], *a = arena_alloc(&scratch, (2 * n + 1) * sizeof *a);
    bool differ = false;
    for (size_t i = 0; i < n; i++) {
        a[2 * i] = 1;
        a[2 * i + 1] = bytes[i];
        differ = differ || bytes[i] != bytes[0];
    }
    struct linear_problem p = {.a = a, .y = seconds, .rows = n, .cols = 2};
    enum firn_status status =
        differ ? linear_fit_nonneg(&p, x, &scratch, err)
               : firn_fail(err, FIRN_EDATA,
                           "message time: fewer than two sizes were measured");
    if (status == FIRN_OK) {
        *alpha_s = x[0];
        *byte_s = x[1];
    }
    arena_release(&scratch);
    return status;
}
