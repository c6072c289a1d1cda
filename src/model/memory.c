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

#include "model/memory_parts.h"

#define MIB 1048576.0

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

static enum firn_status in_range(const char *what, long value, long min,
                                 long max, struct firn_error *err)
{
    if (value >= min && value <= max)
        return FIRN_OK;
    return firn_fail(err, FIRN_EINVAL, "%s is %ld; %ld to %ld are possible",
                     what, value, min, max);
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
    FIRN_TRY(in_range("the sequence length", j.seq, 1, 1 << 24, err));
    FIRN_TRY(in_range("the micro-batch", j.micro_batch, 1, 1 << 20, err));
    FIRN_TRY(in_range("the ZeRO stage", j.zero, 0, 3, err));
    FIRN_TRY(in_range("the LoRA rank", j.lora_rank, 0, j.shape.hidden, err));
    FIRN_TRY(
        in_range("the tensor-parallel degree", j.tp, 1, j.shape.heads, err));
    FIRN_TRY(in_range("the data-parallel degree", j.dp, 1, 1 << 20, err));
    FIRN_TRY(in_range("micro-batch x replicas", (long)j.micro_batch * j.dp, 1,
                      1 << 30, err));
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

struct memory_parts memory_parts(const struct firn_memory_job *job)
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

/* The bytes of a phase beyond those that are always present. */
static double varying(const struct memory_phase *phase,
                      const struct firn_memory_fit *fit)
{
    return (1 + fit->static_share) * phase->gradients + phase->casts +
           phase->scratch + phase->kept + fit->act_scale * phase->acts +
           fit->attn_scale * phase->attn + fit->logit_scale * phase->logits;
}

double memory_phase_bytes(const struct memory_parts *parts,
                          const struct memory_phase *phase,
                          const struct firn_memory_fit *fit)
{
    return fit->base_mib * MIB +
           (1 + fit->static_share) * (parts->weights + parts->optimizer) +
           varying(phase, fit);
}

const struct memory_phase *memory_peak(const struct memory_parts *parts,
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

double memory_frag(const struct memory_parts *parts, bool is_checkpointing,
                   const struct firn_memory_fit *fit)
{
    double bytes = fit->frag_mib * MIB;
    if (is_checkpointing)
        return bytes + fit->frag_ckpt * parts->kept +
               fit->frag_param * parts->params;
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
