/* memory_fit.c - the memory model's constants from measured peaks.
 *
 * Two linear least squares, each on relative errors so that small models count
 * as much as large ones:
 *
 *   (1) alloc - counted = base + share static + (scales) parts, over the rows
 *       without checkpointing whose peak is the loss;
 *   (2) reserved - alloc as predicted by (1) = fragmentation, over all rows.
 *
 * Each unknown has a prior (that counting is right: scales 1, no share; some
 * hundred MiB; a few percent of fragmentation) with a width, which counts as
 * one more equation of weight 1 % error: an unknown that the table does not
 * determine keeps its prior, and the system is never singular. The priors are
 * round numbers, not the fitted default, so that a fit without some rows knows
 * nothing of them. The interval is the range of measured over predicted
 * reserved memory among the rows, separately for checkpointing, and holds 1.
 *
 * Rows with checkpointing do not enter (1): what they allocate follows from
 * the counting alone, which the measurements confirm.
 *
 * Cost: one pass over the rows for each fit and one for the interval; 5 x 5
 * normal equations. Nothing is allocated; the answer depends on the order of
 * the rows only in the last bits.
 */
#include "model/memory_parts.h"
#include <math.h>
#include <stdio.h>

#define MIB 1048576.0

enum { UNKNOWNS = 5, ROWS_MIN = 8 };

/* Fitted to the 154 rows of $FIRN_DATA/h200/llm_memory.csv (one H200, PyTorch
 * 2.11, CUDA 13.0, GPT-2 shapes of 124, 354 and 774 million parameters);
 * tests/model/test_memory_fit.c fits them again. The context is the
 * largest of profiles/h200/context.csv. */
static const struct firn_memory_fit h200 = {
    .base_mib = 79.26,
    .static_share = 0.01053,
    .act_scale = 0.9994,
    .attn_scale = 0.9977,
    .logit_scale = 1.0084,
    .frag_mib = 169.5,
    .frag_live = 0.0339,
    .frag_ckpt = 0.1711,
    .frag_param = 1.577,
    .low = {0.96, 0.935},
    .high = {1.08, 1.061},
    .context_mib = 771,
    .params_min = 124046592,
    .params_max = 774030080,
    .seq_min = 512,
    .seq_max = 1024,
    .tokens_max = 16384,
    .nrows = 154,
};

/* The constants before any row is seen. */
static const struct firn_memory_fit prior = {
    .base_mib = 100,
    .act_scale = 1,
    .attn_scale = 1,
    .logit_scale = 1,
    .frag_mib = 100,
    .frag_live = 0.05,
    .frag_ckpt = 0.1,
    .frag_param = 1,
};

const struct firn_memory_fit *firn_memory_default(void)
{
    return &h200;
}

/* Normal equations that grow row by row. */
struct system {
    int n;
    double a[UNKNOWNS][UNKNOWNS], b[UNKNOWNS];
};

static void add_row(struct system *s, const double *x, double y)
{
    for (int i = 0; i < s->n; i++) {
        for (int j = 0; j < s->n; j++)
            s->a[i][j] += x[i] * x[j];
        s->b[i] += x[i] * y;
    }
}

/* The unknown i is `mean`, give or take `width`. */
static void add_prior(struct system *s, int i, double mean, double width)
{
    double x[UNKNOWNS] = {0};
    x[i] = 0.01 / width;
    add_row(s, x, x[i] * mean);
}

/* Gauss on a positive definite matrix: no pivots needed. The unknowns differ
 * by powers of ten, so the diagonal is brought to 1 first. */
static void solve(struct system *s, double *out)
{
    double scale[UNKNOWNS];
    int n = s->n;
    for (int i = 0; i < n; i++)
        scale[i] = 1 / sqrt(s->a[i][i]);
    for (int i = 0; i < n; i++) {
        s->b[i] *= scale[i];
        for (int j = 0; j < n; j++)
            s->a[i][j] *= scale[i] * scale[j];
    }
    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n; k++) {
            double f = s->a[k][i] / s->a[i][i];
            for (int j = i; j < n; j++)
                s->a[k][j] -= f * s->a[i][j];
            s->b[k] -= f * s->b[i];
        }
    for (int i = n - 1; i >= 0; i--) {
        for (int j = i + 1; j < n; j++)
            s->b[i] -= s->a[i][j] * s->b[j];
        s->b[i] /= s->a[i][i];
    }
    for (int i = 0; i < n; i++)
        out[i] = s->b[i] * scale[i];
}

static enum firn_status check_row(const struct firn_memory_row *row, size_t i,
                                  struct firn_memory_job *job,
                                  struct firn_error *err)
{
    *job = row->job;
    if (!isfinite(row->alloc_mib) || row->alloc_mib <= 0)
        return firn_fail(err, FIRN_EINVAL, "row %zu: allocated is %g MiB", i,
                         row->alloc_mib);
    if (!isfinite(row->reserved_mib) || row->reserved_mib < row->alloc_mib)
        return firn_fail(err, FIRN_EINVAL,
                         "row %zu: reserved is %g MiB, allocated %g", i,
                         row->reserved_mib, row->alloc_mib);
    if (firn_memory_check(job, err) != FIRN_OK) {
        char where[32];
        snprintf(where, sizeof where, "row %zu", i);
        return firn_fail_in(err, where);
    }
    return FIRN_OK;
}

/* Adds equation (1). False when the row does not enter it. */
static bool add_alloc(struct system *s, const struct firn_memory_job *job,
                      double alloc)
{
    struct memory_parts parts = memory_parts(job);
    const struct memory_phase *loss = &parts.phases[0];
    if (job->is_checkpointing || memory_peak(&parts, &prior) != loss)
        return false;
    double counted = memory_static(&parts, loss) + loss->casts;
    double x[UNKNOWNS] = {MIB / alloc, memory_static(&parts, loss) / alloc,
                          loss->acts / alloc, loss->attn / alloc,
                          loss->logits / alloc};
    add_row(s, x, (alloc - counted) / alloc);
    return true;
}

/* Adds equation (2). */
static void add_frag(struct system *s, const struct firn_memory_job *job,
                     double reserved, const struct firn_memory_fit *fit)
{
    struct memory_parts parts = memory_parts(job);
    double alloc = memory_phase_bytes(&parts, memory_peak(&parts, fit), fit);
    int c = job->is_checkpointing;
    double x[UNKNOWNS] = {MIB / reserved, !c * parts.live / reserved,
                          c * parts.kept / reserved,
                          c * parts.params / reserved};
    add_row(s, x, (reserved - alloc) / reserved);
}

static void fit_alloc_end(struct system *s, struct firn_memory_fit *fit)
{
    double x[UNKNOWNS] = {0};
    add_prior(s, 0, prior.base_mib, 100);
    add_prior(s, 1, prior.static_share, 0.01);
    add_prior(s, 2, prior.act_scale, 0.05);
    add_prior(s, 3, prior.attn_scale, 0.05);
    add_prior(s, 4, prior.logit_scale, 0.05);
    solve(s, x);
    fit->base_mib = x[0];
    fit->static_share = x[1];
    fit->act_scale = x[2];
    fit->attn_scale = x[3];
    fit->logit_scale = x[4];
}

static void fit_frag_end(struct system *s, struct firn_memory_fit *fit)
{
    double x[UNKNOWNS] = {0};
    add_prior(s, 0, prior.frag_mib, 100);
    add_prior(s, 1, prior.frag_live, 0.05);
    add_prior(s, 2, prior.frag_ckpt, 0.1);
    add_prior(s, 3, prior.frag_param, 1);
    solve(s, x);
    fit->frag_mib = x[0];
    fit->frag_live = x[1];
    fit->frag_ckpt = x[2];
    fit->frag_param = x[3];
}

/* Widens what the fit has seen, and its interval, by one row. */
static void see(struct firn_memory_fit *fit, const struct firn_memory_job *job,
                double reserved_mib)
{
    struct firn_memory m = firn_memory_of(job, fit);
    double ratio = reserved_mib / m.reserved_mib;
    int c = job->is_checkpointing;
    double tokens = (double)job->micro_batch * job->seq;
    fit->low[c] = fmin(fit->low[c], ratio);
    fit->high[c] = fmax(fit->high[c], ratio);
    bool is_first = fit->nrows++ == 0;
    if (is_first || m.params < fit->params_min)
        fit->params_min = m.params;
    if (is_first || m.params > fit->params_max)
        fit->params_max = m.params;
    if (is_first || job->seq < fit->seq_min)
        fit->seq_min = job->seq;
    if (is_first || job->seq > fit->seq_max)
        fit->seq_max = job->seq;
    if (is_first || tokens > fit->tokens_max)
        fit->tokens_max = tokens;
}

enum firn_status firn_memory_calibrate(const struct firn_memory_row *rows,
                                       size_t n, struct firn_memory_fit *out,
                                       struct firn_error *err)
{
    struct system alloc = {.n = 5}, frag = {.n = 4};
    struct firn_memory_job job;
    struct firn_memory_fit fit = h200;
    int used = 0;
    bool has_ckpt = false;
    for (size_t i = 0; i < n; i++) {
        FIRN_TRY(check_row(&rows[i], i, &job, err));
        used += add_alloc(&alloc, &job, rows[i].alloc_mib * MIB);
        has_ckpt |= job.is_checkpointing;
    }
    if (used < ROWS_MIN) {
        *out = h200;
        return firn_fail(err, FIRN_EDATA,
                         "%d rows whose peak is the loss; %d are needed", used,
                         ROWS_MIN);
    }
    fit_alloc_end(&alloc, &fit);
    for (size_t i = 0; i < n; i++) {
        check_row(&rows[i], i, &job, err);
        add_frag(&frag, &job, rows[i].reserved_mib * MIB, &fit);
    }
    fit_frag_end(&frag, &fit);
    fit.nrows = 0;
    for (int c = 0; c < 1 + has_ckpt; c++)
        fit.low[c] = fit.high[c] = 1;
    for (size_t i = 0; i < n; i++) {
        check_row(&rows[i], i, &job, err);
        see(&fit, &job, rows[i].reserved_mib);
    }
    *out = fit;
    return FIRN_OK;
}
