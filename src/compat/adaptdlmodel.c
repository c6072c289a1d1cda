/* adaptdlmodel.c - the fit of seven parameters, and the best batch.
 *
 *   minimise  R1 + R2 + 1e-3 (g - 1)^2 + 1e-2 ((bn/an)^2 + (br/ar)^2)
 *   R1 = sqrt(mean (ln C - ln pass)^2),  R2 = sqrt(mean (ln T - ln step)^2)
 *
 * from a fixed start, between bounds, with exact derivatives. Frozen when the
 * observations say nothing of them: ac at half the mean pass (one batch seen),
 * an and bn (one node only), ar and br (never several GPUs of one node), bn
 * and br (never more than two GPUs). While no job of several nodes was seen,
 * an and bn are at least 1.1 ar and 1.1 br afterwards.
 *
 * The artifact minimises with scipy's L-BFGS-B. The objective has kinks where
 * a root mean square is 0, so two minimisers may stop at slightly different
 * places; in the fits whose results are known the parameters agree to a
 * thousandth.
 *
 * Invariants:
 * (1) a key (n, r, b) is in `seen` once, as it was seen first;
 * (2) `params` belong to `seen` unless is_stale;
 * (3) a grid's candidates belong to its version and limits.
 *
 * Cost: a fit is some tens of evaluations of O(seen); a new grid 50 powers, a
 * question asked again 50 divisions.
 */
#include "compat/adaptdlmodel.h"
#include "math/minimise.h"
#include "math/quick.h"
#include <math.h>

enum { CANDIDATES = 50 };

static const double SLACK = 1e-8, FLOOR = 1e-8;

/* A candidate batch, evaluated. */
struct candidate {
    struct adlbatch batch;
    double scale, throughput; /* B / B0; examples a second */
};

struct adlgrid {
    unsigned long version;
    struct adllimits limits;
    int n;
    bool fits[CANDIDATES]; /* within the limits of b */
    struct candidate at[CANDIDATES];
    struct firn_noise noise; /* of the last question; batch0 0: none */
    struct adlbest best;     /* and its answer */
};

void adlmodel_release(struct adlmodel *model)
{
    for (size_t i = 0; i < model->ngrids; i++)
        mem_free(model->grids[i]);
    mem_free(model->grids);
    vec_release(&model->seen);
    *model = (struct adlmodel){0};
}

bool adlmodel_is_blank(const struct adlmodel *model)
{
    return model->seen.n == 0;
}

struct adlseen adlseen(int nodes, int gpus, int b, struct adltime time)
{
    double pass_s = time.step_s - time.sync_s;
    return (struct adlseen){.nodes = nodes,
                            .gpus = gpus,
                            .b = b,
                            .pass_s = pass_s,
                            .step_s = time.step_s,
                            .log_pass = quick_log(pass_s),
                            .log_step = quick_log(time.step_s)};
}

bool adlmodel_observe(struct adlmodel *model, int nodes, int gpus, int b,
                      struct adltime time)
{
    for (size_t i = model->seen.n; i-- > 0;) {
        const struct adlseen *seen = &model->seen.at[i];
        if (seen->b == b && seen->gpus == gpus && seen->nodes == nodes)
            return false; /* (1) */
    }
    vec_add(&model->seen, adlseen(nodes, gpus, b, time));
    if (gpus > model->gpus_most)
        model->gpus_most = gpus;
    model->is_stale = true;
    return true;
}

/* ---- the model ---- */

/* The law of the network time: 0 or 1; -1 for one GPU. */
static int law_of(int nodes, int gpus)
{
    if (gpus == 1)
        return -1;
    return nodes > 1 ? ADL_AN : ADL_AR;
}

static double crowd(int gpus)
{
    return gpus > 2 ? gpus - 2 : FLOOR;
}

static double network_s(const struct adlparams *params, int nodes, int gpus)
{
    int law = law_of(nodes, gpus);
    if (law < 0)
        return FLOOR + FLOOR * FLOOR;
    return params->at[law] + params->at[law + 1] * crowd(gpus);
}

/* ln (C^g + N^g)^(1/g) from the logarithms, and C's share of the sum. */
static double log_overlap(double log_c, double log_n, double g, double *share)
{
    double high = log_c > log_n ? log_c : log_n;
    double low = log_c > log_n ? log_n : log_c;
    double away = g * (low - high);
    double part = away > -700 ? quick_exp(away) : 0;
    *share = (log_c > log_n ? 1 : part) / (1 + part);
    return high + (part > 0 ? quick_log(1 + part) / g : 0);
}

struct adlparts adlparams_parts(const struct adlparams *params, int nodes,
                                int gpus, int b)
{
    double share, pass_s = params->at[ADL_AC] + params->at[ADL_BC] * b;
    double sync_s = network_s(params, nodes, gpus);
    double log_s = log_overlap(quick_log(pass_s), quick_log(sync_s),
                               params->at[ADL_G], &share);
    return (struct adlparts){pass_s, sync_s, quick_exp(log_s)};
}

/* ---- the fit ---- */

/* Sums over all observations; the gradients are of half the squares. */
struct sums {
    double pass, step; /* squares */
    double pass_at[ADL_NP], step_at[ADL_NP];
};

static void add_seen(struct sums *sums, const double *p,
                     const struct adlseen *seen)
{
    const struct adlparams params = {
        {p[0], p[1], p[2], p[3], p[4], p[5], p[6]}};
    double c = p[ADL_AC] + p[ADL_BC] * seen->b, share;
    double n = network_s(&params, seen->nodes, seen->gpus);
    double log_c = quick_log(c), log_n = quick_log(n), g = p[ADL_G];
    double log_t = log_overlap(log_c, log_n, g, &share);
    double miss_pass = log_c - seen->log_pass;
    double miss_step = log_t - seen->log_step;
    sums->pass += miss_pass * miss_pass;
    sums->step += miss_step * miss_step;
    sums->pass_at[ADL_AC] += miss_pass / c;
    sums->pass_at[ADL_BC] += miss_pass * seen->b / c;
    sums->step_at[ADL_AC] += miss_step * share / c;
    sums->step_at[ADL_BC] += miss_step * share * seen->b / c;
    sums->step_at[ADL_G] +=
        miss_step * (share * log_c + (1 - share) * log_n - log_t) / g;
    int law = law_of(seen->nodes, seen->gpus);
    if (law < 0)
        return;
    sums->step_at[law] += miss_step * (1 - share) / n;
    sums->step_at[law + 1] += miss_step * (1 - share) * crowd(seen->gpus) / n;
}

/* The priors' value; adds to the gradient. */
static double add_priors(const double *p, double *gradient)
{
    double over = p[ADL_G] - 1, value = 1e-3 * over * over;
    gradient[ADL_G] += 2e-3 * over;
    for (int law = ADL_AN; law <= ADL_AR; law += 2) {
        double ratio = p[law + 1] / p[law];
        value += 1e-2 * ratio * ratio;
        gradient[law] -= 2e-2 * ratio * ratio / p[law];
        gradient[law + 1] += 2e-2 * ratio / p[law];
    }
    return value;
}

double adlmodel_objective(const struct adlparams *params,
                          const struct adlseen *seen, size_t nseen,
                          double *gradient)
{
    struct sums sums = {0};
    double count = (double)nseen, own[ADL_NP];
    for (size_t i = 0; i < nseen; i++)
        add_seen(&sums, params->at, &seen[i]);
    double pass = sqrt(sums.pass / count), step = sqrt(sums.step / count);
    for (int j = 0; j < ADL_NP; j++)
        own[j] = (pass > 0 ? sums.pass_at[j] / count / pass : 0) +
                 (step > 0 ? sums.step_at[j] / count / step : 0);
    double value = pass + step + add_priors(params->at, own);
    for (int j = 0; gradient != NULL && j < ADL_NP; j++)
        gradient[j] = own[j];
    return value;
}

static double evaluate(void *ctx, const double *x, double *gradient)
{
    const struct adlmodel *model = ctx;
    struct adlparams params;
    for (int j = 0; j < ADL_NP; j++)
        params.at[j] = x[j];
    return adlmodel_objective(&params, model->seen.at, model->seen.n, gradient);
}

/* What the observations determine. */
struct known {
    bool batches, nodes, local, many;
    double pass_s; /* mean */
};

static struct known look(const struct adlmodel *model)
{
    struct known known = {0};
    const struct adlseen *seen = model->seen.at;
    for (size_t i = 0; i < model->seen.n; i++) {
        known.batches |= seen[i].b != seen[0].b;
        known.nodes |= seen[i].nodes > 1;
        known.local |= seen[i].nodes == 1 && seen[i].gpus > 1;
        known.many |= seen[i].gpus > 2;
        known.pass_s += seen[i].pass_s / (double)model->seen.n;
    }
    return known;
}

void adlmodel_fit(struct adlmodel *model)
{
    double x[ADL_NP] = {0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001};
    double lower[ADL_NP] = {FLOOR, FLOOR, FLOOR, FLOOR, FLOOR, FLOOR, 1};
    double upper[ADL_NP] = {INFINITY, INFINITY, INFINITY, INFINITY,
                            INFINITY, INFINITY, 10};
    struct minimise_result result;
    if (!model->is_stale || adlmodel_is_blank(model))
        return; /* (2) */
    struct known known = look(model);
    if (!known.batches)
        lower[ADL_AC] = upper[ADL_AC] = x[ADL_AC] = known.pass_s / 2;
    const bool frozen[ADL_NP] = {[ADL_AN] = !known.nodes,
                                 [ADL_BN] = !known.nodes || !known.many,
                                 [ADL_AR] = !known.local,
                                 [ADL_BR] = !known.local || !known.many};
    for (int j = 0; j < ADL_NP; j++)
        if (frozen[j])
            x[j] = upper[j] = lower[j];
    struct minimise_problem problem = {.n = ADL_NP,
                                       .function = evaluate,
                                       .ctx = model,
                                       .lower = lower,
                                       .upper = upper,
                                       .f_tol = model->f_tol};
    if (minimise_run(&problem, x, &result, NULL) != FIRN_OK)
        FIRN_BUG("a fit of %zu observations cannot begin", model->seen.n);
    if (!known.nodes) {
        x[ADL_AN] = fmax(x[ADL_AN], 1.1 * x[ADL_AR]);
        x[ADL_BN] = fmax(x[ADL_BN], 1.1 * x[ADL_BR]);
    }
    for (int j = 0; j < ADL_NP; j++)
        model->params.at[j] = x[j];
    model->is_stale = false;
    model->version++;
}

/* ---- the best batch ---- */

/* How a total batch is split. */
static struct adlbatch split(const struct adllimits *limits, double total,
                             int gpus)
{
    double each = total / gpus;
    int s = (int)ceil(each / limits->b_max - SLACK) - 1;
    if (gpus == 1 && each > limits->b0 + SLACK && s < 1)
        s = 1;
    return (struct adlbatch){(int)ceil(each / (s + 1) - SLACK), s};
}

static void fill(struct adlgrid *grid, const struct adlparams *params,
                 int nodes, int gpus)
{
    const struct adllimits *limits = &grid->limits;
    double from = fmax(limits->b0, limits->b_min * gpus), share;
    double ratio = quick_log(limits->total_max / from) / (CANDIDATES - 1);
    double log_n = quick_log(network_s(params, nodes, gpus));
    grid->n = 0;
    for (int i = 0; i < CANDIDATES; i++) {
        double total = i == CANDIDATES - 1 ? limits->total_max
                       : i > 0             ? from * quick_exp(ratio * i)
                                           : from;
        struct adlbatch batch = split(limits, total, gpus);
        const struct candidate *last = &grid->at[grid->n - (grid->n > 0)];
        if (grid->n > 0 && last->batch.b == batch.b && last->batch.s == batch.s)
            continue;
        double pass_s = params->at[ADL_AC] + params->at[ADL_BC] * batch.b;
        double step_s = quick_exp(
            log_overlap(quick_log(pass_s), log_n, params->at[ADL_G], &share));
        struct candidate *to = &grid->at[grid->n];
        to->batch = batch;
        double realised = adlbatch_total(batch, gpus);
        to->scale = realised / limits->b0;
        to->throughput = realised / (batch.s * pass_s + step_s);
        grid->fits[grid->n++] =
            batch.b >= limits->b_min && batch.b <= limits->b_max;
    }
}

/* The candidates of (n, r), made if there are none or they are old: (3). */
static struct adlgrid *grid_of(struct adlmodel *model,
                               const struct adllimits *limits, int nodes,
                               int gpus)
{
    size_t at = 2 * (size_t)gpus + (nodes > 1);
    if (at >= model->ngrids) {
        size_t n = at + 16;
        model->grids = (struct adlgrid **)mem_grow(model->grids, model->ngrids,
                                                   n, sizeof *model->grids);
        model->ngrids = n;
    }
    struct adlgrid *grid = model->grids[at];
    if (grid == NULL)
        grid = model->grids[at] = mem_new(1, sizeof *grid);
    const struct adllimits *of = &grid->limits;
    if (grid->version != model->version || of->b0 != limits->b0 ||
        of->b_min != limits->b_min || of->b_max != limits->b_max ||
        of->total_max != limits->total_max) {
        grid->version = model->version;
        grid->limits = *limits;
        grid->noise.batch0 = 0;
        fill(grid, &model->params, nodes, gpus);
    }
    return grid;
}

struct adlbest adlmodel_best(struct adlmodel *model,
                             const struct firn_noise *noise,
                             const struct adllimits *limits, int nodes,
                             int gpus)
{
    adlmodel_fit(model);
    struct adlgrid *grid = grid_of(model, limits, nodes, gpus);
    double v = noise->grad_var, g = noise->grad_sqr;
    if (grid->noise.batch0 == noise->batch0 && grid->noise.grad_var == v &&
        grid->noise.grad_sqr == g)
        return grid->best;
    struct adlbest best = {0, grid->at[0].batch};
    for (int i = 0; i < grid->n; i++) { /* gain / scale, in one division */
        const struct candidate *at = &grid->at[i];
        double goodput = at->throughput * (v + g) / (v + g * at->scale);
        if (grid->fits[i] && goodput > best.goodput)
            best = (struct adlbest){goodput, at->batch};
    }
    grid->noise = *noise;
    grid->best = best;
    return best;
}
