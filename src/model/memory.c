/* memory.c - Frenzy's MARP as printed, and a predictor that counts tensors.
 *
 * A step has few moments at which memory may peak. Weights and optimizer state
 * are present at all of them; in addition each holds:
 *
 *   loss      the activations of all layers and 12 bytes a logit (the logits,
 *             their softmax in fp32, and the gradient); autocast's bf16 copies
 *             of the weights, which the saved tensors keep alive
 *   loss, checkpointing   only the inputs of the layers. Before the backward
 *             pass autocast's copies are there and 10 bytes a logit; in it the
 *             copies are gone and there are 12
 *   layer, checkpointing  the inputs, and one layer's activations
 *   end       of the backward pass: one layer's activations
 *   step      the optimizer's scratch: one more tensor a parameter for Adam
 *
 * The gradients are there at all of them too, unless they are freed before
 * each pass: then only at the last two.
 *
 * Activations of a layer in bytes per token. x is the size of a number that a
 * matrix product gives (2 for amp and bf16, 4 for fp32), n of one on the
 * residual path (4, 2, 4); the first group is the same on all tensor-parallel
 * GPUs, the second is divided by t:
 *
 *   GPT2   h (2 n + 2 x + 2)      two norms' inputs and outputs, two masks
 *          h 4 x + f g            q, k, v, their product; g of the GELU: its
 *                                 five operations keep x each, under autocast
 *                                 4 + 4 + 4 + 2 + 2 since pow() is in fp32
 *   BERT   the same with g = 2 x: a fused GELU keeps input and output. Three
 *          projections take the same input, and autocast copies it for each:
 *          4 h more
 *   LLAMA  a norm keeps its input in fp32, the normalised one and its output:
 *          12 h in fp32, 8 h in bf16; under autocast 8 h and a copy of 2 h for
 *          each of the 3 and 2 projections that take it. Both norms: 24, 16,
 *          26. (2 h + 2 k) x + f 4 x: q, k, v, product; gate, its SiLU, up,
 *          product; k is narrower than h with grouped queries, but without a
 *          fused kernel keys and values are repeated: k = h
 *   Megatron precision: Korthikanti's 10 h + 24 h, of which 16 h = 4 f
 *
 * Eager attention keeps per token and head s times: softmax, mask and what
 * dropout leaves: 7 (amp), 9 (fp32), 5 (bf16, Megatron); LLaMA without
 * dropout 6, 4, 6. No fused kernel takes fp32 with grouped queries, so sdpa
 * keeps the matrices there too.
 *
 * Invariants:
 * (1) weights + gradients + optimizer + activations + overhead = expected.
 * (2) low <= expected <= high.
 *
 * Cost: some hundred floating-point operations, no allocation.
 *
 * Not modelled: pipelines, sequence parallel, offloading, a vocabulary in
 * chunks. LoRA is charged the activations of full training, which is an upper
 * bound; what calibration has not seen is marked extrapolated.
 */
#include <firn/memory.h>

#include "model/range.h"
#include <math.h>
#include <stdio.h>

#define MIB 1048576.0

/* All numbers are bytes on one GPU. */
enum { MEMORY_PHASES = 5 };

/* The bytes at one moment of a step at which memory may peak, without those
 * that are always present. */
struct memory_phase {
    double gradients;
    double casts;   /* copies of weights in the compute precision */
    double scratch; /* of the optimizer */
    double kept;    /* layer inputs kept by checkpointing */
    double acts, attn, logits;
};

struct memory_parts {
    double model_params; /* of the whole model, without adapters */
    double adapter_params;
    double params; /* of this GPU */
    double moved;  /* of those: copied or freed in a step, which fragments */
    double weights, optimizer; /* always present */
    double live; /* acts + attn + logits of the whole model; fragmentation */
    double kept; /* layer inputs + logits, when checkpointing */
    int nphases;
    struct memory_phase phases[MEMORY_PHASES];
};

/* How much wider the interval is for a job outside the measured range. */
static const double extrapolated_low = 0.95, extrapolated_high = 1.10;

double firn_marp_params(const struct firn_llm_shape *shape)
{
    double h = shape->hidden, l = shape->layers;
    return shape->vocab * h + l * (12 * h * h + 13 * h);
}

double firn_marp_bytes(const struct firn_llm_shape *shape, int seq, int batch,
                       int t, int d)
{
    double h = shape->hidden, l = shape->layers, a = shape->heads, s = seq;
    double dt = (double)d * t;
    return 20 * firn_marp_params(shape) / t +
           s * batch * h * l * (10.0 / d + 24 / dt + 5 * a * s / (dt * h));
}

enum firn_status firn_memory_check(struct firn_memory_job *job,
                                   struct firn_error *err)
{
    struct firn_memory_job j = *job;
    FIRN_TRY(firn_llm_complete(&j.shape, err));
    if (j.tp == 0)
        j.tp = 1;
    if (j.dp == 0)
        j.dp = 1;
    FIRN_TRY(range_check("the sequence length", j.seq, 1, 1 << 24, err));
    FIRN_TRY(range_check("the micro-batch", j.micro_batch, 1, 1 << 20, err));
    FIRN_TRY(range_check("the ZeRO stage", j.zero, 0, 3, err));
    FIRN_TRY(range_check("the LoRA rank", j.lora_rank, 0, j.shape.hidden, err));
    FIRN_TRY(
        range_check("the tensor-parallel degree", j.tp, 1, j.shape.heads, err));
    FIRN_TRY(range_check("the data-parallel degree", j.dp, 1, 1 << 20, err));
    FIRN_TRY(range_check("micro-batch x replicas", (long)j.micro_batch * j.dp,
                         1, 1 << 30, err));
    if (j.shape.heads % j.tp != 0)
        return firn_fail(err, FIRN_EINVAL,
                         "%d heads cannot be split over %d GPUs", j.shape.heads,
                         j.tp);
    if (j.lora_rank > 0 && j.lora_on == 0)
        return firn_fail(err, FIRN_EINVAL, "LoRA without a projection");
    *job = j;
    return FIRN_OK;
}

/* Bytes per trained parameter; `frozen`: per parameter that is not trained. */
struct per_param {
    double weight, gradient, moments, scratch, frozen, cast;
};

static struct per_param per_param(const struct firn_memory_job *job)
{
    double size = job->precision == FIRN_PRECISION_BF16 ? 2 : 4;
    bool is_adam = job->optimizer == FIRN_OPTIMIZER_ADAMW;
    int nmoments = is_adam ? 2 : job->optimizer == FIRN_OPTIMIZER_SGD;
    struct per_param p = {size, size, nmoments * size, is_adam ? size : 0,
                          size, 0};
    if (job->precision == FIRN_PRECISION_AMP)
        p.cast = 2;
    if (job->precision == FIRN_PRECISION_MEGATRON) {
        p.weight = 2;
        p.gradient = 2 + 4;             /* and the sum in fp32 */
        p.moments = 4 + nmoments * 4.0; /* and the fp32 weights */
        p.scratch = 0;                  /* a fused step */
        p.frozen = 2;
    }
    return p;
}

/* Does a fused kernel avoid the s x s matrices? */
static bool is_fused(const struct firn_memory_job *job)
{
    return job->attention == FIRN_ATTENTION_SDPA &&
           (job->precision != FIRN_PRECISION_FP32 ||
            job->shape.kv_heads == job->shape.heads);
}

/* Bytes of a layer per token: on every tensor-parallel GPU, and divided. */
static void layer_bytes(const struct firn_memory_job *job, double *shared,
                        double *divided)
{
    const struct firn_llm_shape *shape = &job->shape;
    double h = shape->hidden, f = shape->ffn;
    bool is_fp32 = job->precision == FIRN_PRECISION_FP32;
    bool is_amp = job->precision == FIRN_PRECISION_AMP;
    bool is_llama = shape->family == FIRN_LLM_LLAMA;
    double x = is_fp32 ? 4 : 2, n = is_fp32 || is_amp ? 4 : 2;
    double keys = h;
    if (shape->kv_heads != shape->heads && is_fused(job))
        keys = h / shape->heads * shape->kv_heads;
    if (job->precision == FIRN_PRECISION_MEGATRON) {
        *shared = 10 * h;
        *divided = 8 * h + (is_llama ? 8 : 4) * f;
    } else if (is_llama) {
        *shared = (is_fp32 ? 24 : is_amp ? 26 : 16) * h;
        *divided = (2 * h + 2 * keys) * x + 4 * x * f;
    } else {
        double unfused = is_amp ? 16 : 5 * x;
        bool has_copies = is_amp && shape->family == FIRN_LLM_BERT;
        *shared = (2 * n + 2 * x + 2 + (has_copies ? 4 : 0)) * h;
        *divided =
            4 * x * h + (shape->family == FIRN_LLM_GPT2 ? unfused : 2 * x) * f;
    }
}

/* Bytes of eager attention per token, head and position. */
static double attention_bytes(const struct firn_memory_job *job)
{
    static const double plain[] = {9, 5, 7, 5}, llama[] = {4, 6, 6, 5};
    if (is_fused(job))
        return 0;
    return (job->shape.family == FIRN_LLM_LLAMA ? llama
                                                : plain)[job->precision];
}

/* Bytes proportional to the parameters, present at some moments of a step. */
struct by_param {
    double gradients, buckets; /* of data parallel */
    double casts, scratch;
};

static struct by_param fill_static(const struct firn_memory_job *job,
                                   struct memory_parts *parts)
{
    struct per_param bytes = per_param(job);
    const struct firn_llm_shape *shape = &job->shape;
    double share = 1.0 / job->tp, d = job->dp;
    parts->model_params = firn_llm_params(shape, job->seq);
    parts->adapter_params = 0;
    if (job->lora_rank > 0)
        parts->adapter_params =
            firn_llm_lora_params(shape, job->lora_rank, job->lora_on);
    double all = parts->model_params * share;
    double added = parts->adapter_params * share;
    double trained = job->lora_rank > 0 ? added : all;
    double frozen = all + added - trained;
    parts->params = all + added;
    parts->moved = job->zero >= 3 ? trained / d : trained;
    parts->weights = trained * bytes.weight + frozen * bytes.frozen;
    parts->optimizer = trained * bytes.moments;
    struct by_param by = {.gradients = trained * bytes.gradient,
                          .casts = parts->params * bytes.cast,
                          .scratch = trained * bytes.scratch};
    if (job->zero == 0 && d > 1)
        by.buckets = by.gradients;
    if (job->zero >= 1) {
        parts->optimizer /= d;
        by.scratch /= d;
    }
    if (job->zero >= 2)
        by.gradients /= d;
    if (job->zero >= 3) {
        /* Two layers are whole at a time: in use, and fetched ahead. */
        double whole = 2 * firn_llm_layer_params(shape) * share;
        parts->weights /= d;
        by.casts = whole * (job->precision == FIRN_PRECISION_FP32 ? 4 : 2);
    }
    return by;
}

/* Bytes of all tokens: activations and attention of one layer, one byte a
 * logit, the input of one layer. */
struct by_token {
    double acts, attn, logit, input;
};

static struct by_token by_token(const struct firn_memory_job *job)
{
    double tokens = (double)job->micro_batch * job->seq;
    double share = 1.0 / job->tp;
    bool is_wide = job->precision == FIRN_PRECISION_FP32 ||
                   job->precision == FIRN_PRECISION_AMP;
    double shared, divided;
    layer_bytes(job, &shared, &divided);
    return (struct by_token){
        .acts = tokens * (shared + divided * share),
        .attn =
            tokens * attention_bytes(job) * job->shape.heads * job->seq * share,
        .logit = tokens * job->shape.vocab * share,
        .input = tokens * job->shape.hidden * (is_wide ? 4 : 2),
    };
}

static struct memory_parts memory_parts(const struct firn_memory_job *job)
{
    struct memory_parts parts; /* not zeroed: that costs a fifth of the time */
    struct by_param by = fill_static(job, &parts);
    struct by_token one = by_token(job);
    double l = job->shape.layers, kept = l * one.input;
    double layer_casts = by.casts / l;
    double after = by.gradients + by.buckets;
    double before = job->frees_gradients ? by.buckets : after;
    struct memory_phase *phase = parts.phases;
    parts.live = l * (one.acts + one.attn) + 12 * one.logit;
    parts.kept = kept + 12 * one.logit;
    if (job->is_checkpointing) {
        *phase++ = (struct memory_phase){.gradients = before,
                                         .casts = by.casts,
                                         .kept = kept,
                                         .logits = 10 * one.logit};
        *phase++ = (struct memory_phase){
            .gradients = before, .kept = kept, .logits = 12 * one.logit};
        *phase++ = (struct memory_phase){.gradients = before,
                                         .casts = layer_casts,
                                         .kept = kept,
                                         .acts = one.acts,
                                         .attn = one.attn};
    } else {
        *phase++ = (struct memory_phase){.gradients = before,
                                         .casts = by.casts,
                                         .acts = l * one.acts,
                                         .attn = l * one.attn,
                                         .logits = 12 * one.logit};
    }
    *phase++ = (struct memory_phase){.gradients = after,
                                     .casts = layer_casts,
                                     .acts = one.acts,
                                     .attn = one.attn};
    *phase++ = (struct memory_phase){.gradients = after, .scratch = by.scratch};
    parts.nphases = (int)(phase - parts.phases);
    return parts;
}

static double memory_static(const struct memory_parts *parts,
                            const struct memory_phase *phase)
{
    return parts->weights + parts->optimizer + phase->gradients;
}

/* The bytes of a phase beyond those that are always present. */
static double varying(const struct memory_phase *phase,
                      const struct firn_memory_fit *fit)
{
    return (1 + fit->static_share) * phase->gradients + phase->casts +
           phase->scratch + phase->kept + fit->act_scale * phase->acts +
           fit->attn_scale * phase->attn + fit->logit_scale * phase->logits;
}

/* The bytes of a phase by this fit, without fragmentation. */
static double memory_phase_bytes(const struct memory_parts *parts,
                                 const struct memory_phase *phase,
                                 const struct firn_memory_fit *fit)
{
    return fit->base_mib * MIB +
           (1 + fit->static_share) * (parts->weights + parts->optimizer) +
           varying(phase, fit);
}

/* The largest phase. */
static const struct memory_phase *memory_peak(const struct memory_parts *parts,
                                              const struct firn_memory_fit *fit)
{
    const struct memory_phase *best = parts->phases;
    double most = varying(best, fit);
    for (int i = 1; i < parts->nphases; i++) {
        double bytes = varying(&parts->phases[i], fit);
        if (bytes > most) {
            most = bytes;
            best = &parts->phases[i];
        }
    }
    return best;
}

/* Fragmentation in bytes. */
static double memory_frag(const struct memory_parts *parts,
                          bool is_checkpointing,
                          const struct firn_memory_fit *fit)
{
    double bytes = fit->frag_mib * MIB;
    if (is_checkpointing)
        return bytes + fit->frag_ckpt * parts->kept +
               fit->frag_param * parts->moved;
    return bytes + fit->frag_live * parts->live;
}

/* The table behind the default has GPT-2 shapes on one GPU: amp with either
 * attention, and checkpointing with sdpa; fp32 eager; bf16 sdpa. */
static bool is_unseen(const struct firn_memory_job *job, double params,
                      const struct firn_memory_fit *fit)
{
    if (job->shape.family != FIRN_LLM_GPT2 || job->tp > 1 || job->dp > 1 ||
        job->lora_rank > 0 || job->frees_gradients ||
        job->optimizer == FIRN_OPTIMIZER_SGD_PLAIN ||
        job->precision == FIRN_PRECISION_MEGATRON)
        return true;
    if (job->is_checkpointing && (job->precision != FIRN_PRECISION_AMP ||
                                  job->attention != FIRN_ATTENTION_SDPA))
        return true;
    return params < 0.5 * fit->params_min || params > 2 * fit->params_max ||
           job->seq < fit->seq_min || job->seq > fit->seq_max ||
           (double)job->micro_batch * job->seq > fit->tokens_max;
}

struct firn_memory firn_memory_of(const struct firn_memory_job *job,
                                  const struct firn_memory_fit *fit)
{
    if (!fit)
        fit = firn_memory_default();
    struct memory_parts parts = memory_parts(job);
    const struct memory_phase *peak = memory_peak(&parts, fit);
    int c = job->is_checkpointing;
    struct firn_memory m = {
        .weights_mib = (parts.weights + peak->casts) / MIB,
        .gradients_mib = peak->gradients / MIB,
        .optimizer_mib = (parts.optimizer + peak->scratch) / MIB,
        .activations_mib =
            (peak->kept + fit->act_scale * peak->acts +
             fit->attn_scale * peak->attn + fit->logit_scale * peak->logits) /
            MIB,
        .alloc_mib = memory_phase_bytes(&parts, peak, fit) / MIB,
        .is_extrapolated = is_unseen(job, parts.model_params, fit),
    };
    m.reserved_mib = m.alloc_mib + memory_frag(&parts, c, fit) / MIB;
    m.expected_mib = m.alloc_mib;
    m.overhead_mib = m.expected_mib - m.weights_mib - m.gradients_mib -
                     m.optimizer_mib - m.activations_mib;
    double low = fit->low[c], high = fit->high[c];
    if (m.is_extrapolated) {
        low *= extrapolated_low;
        high *= extrapolated_high;
    }
    m.low_mib = m.alloc_mib * low;
    m.high_mib = m.reserved_mib * high;
    m.device_mib = m.high_mib + fit->context_mib;
    m.params = parts.model_params;
    m.trained_params =
        job->lora_rank > 0 ? parts.adapter_params : parts.model_params;
    return m;
}

/* --- calibration ----------------------------------------------------------
 *
 * Two linear least squares, each on relative errors so that small models count
 * as much as large ones:
 *
 *   (a) alloc - counted = base + share static + (scales) parts, over the rows
 *       without checkpointing whose peak is the loss;
 *   (b) reserved - alloc as predicted by (a) = fragmentation, over all rows.
 *
 * Each unknown has a prior (that counting is right: scales 1, no share; some
 * hundred MiB; a few percent of fragmentation) with a width, which counts as
 * one more equation of weight 1 % error: an unknown that the table does not
 * determine keeps its prior, and the system is never singular. The priors are
 * round numbers, not the fitted default, so that a fit without some rows knows
 * nothing of them. The interval is the range of measured over predicted
 * reserved memory among the rows, separately for checkpointing, and holds 1.
 *
 * Rows with checkpointing do not enter (a): what they allocate follows from
 * the counting alone, which the measurements confirm.
 *
 * Cost: one pass over the rows for each fit and one for the interval; 5 x 5
 * normal equations. Nothing is allocated; the answer depends on the order of
 * the rows only in the last bits.
 */

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

/* Adds equation (a). False when the row does not enter it. */
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

/* Adds equation (b). */
static void add_frag(struct system *s, const struct firn_memory_job *job,
                     double reserved, const struct firn_memory_fit *fit)
{
    struct memory_parts parts = memory_parts(job);
    double alloc = memory_phase_bytes(&parts, memory_peak(&parts, fit), fit);
    int c = job->is_checkpointing;
    double x[UNKNOWNS] = {MIB / reserved, !c * parts.live / reserved,
                          c * parts.kept / reserved,
                          c * parts.moved / reserved};
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
