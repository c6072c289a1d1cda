/* peakfixed.c - bytes of a step that do not depend on tokens, and the logits.
 *
 * Weights, gradients and the optimizer's state by precision, ZeRO stage and
 * parallel degrees; autocast's copies of weights; 4-bit weights; whole layers
 * that ZeRO 3 gathers; blocks of the allocator that are larger than a tensor.
 *
 * Logits by moment, in bytes of one: the loss of the library's decoders takes
 * bf16, its fp32 copy and log-softmax (10; 8 where logits are fp32), and in its
 * backward pass log-softmax and two gradients in fp32 (12). The loss of bert
 * and t5 takes the logits as they come: bf16 4 and 6; amp 8, and 10 with a
 * gradient in bf16.
 *
 * Cost: some dozens of operations.
 */
#include "model/peakterms.h"

#include <math.h>

struct peak_counts peak_counts_of(const struct firn_peak_job *job)
{
    const struct firn_arch *a = &job->arch;
    struct peak_counts n = {.all = firn_arch_params(a),
                            .embed = firn_arch_embed_params(a),
                            .head = firn_arch_head_params(a)};
    n.layers = n.all - n.embed - n.head;
    if (a->experts > 0)
        n.experts = (a->layers - a->dense_layers) * firn_arch_experts_params(a);
    if (job->adapter != FIRN_ADAPTER_NONE)
        n.adapters = firn_arch_lora_params(a, job->rank, job->on, &n.widths);
    if (job->adapter == FIRN_ADAPTER_QLORA)
        n.matrices = firn_arch_matrix_params(a);
    if (a->kind == FIRN_ARCH_SEQ2SEQ)
        n.decoder = (a->decoder_layers - 1) * firn_arch_decoder_params(a);
    return n;
}

struct peak_share peak_share_of(const struct firn_peak_job *job,
                                const struct peak_counts *counts, int stage)
{
    const struct firn_arch *a = &job->arch;
    double by_t = 1.0 / job->tp, part = by_t / job->pp;
    bool has_embed = stage == 0, has_head = stage == 1 || job->pp == 1;
    double embed = counts->embed * by_t;
    struct peak_share s = {.layers = a->layers / (double)job->pp,
                           .model = (counts->layers - counts->experts) * part,
                           .experts = counts->experts * part / job->ep,
                           .embed = has_embed ? embed : 0,
                           .head = has_head ? counts->head * by_t : 0,
                           .adapters = counts->adapters * part,
                           .packed = counts->matrices * part,
                           .ranks = job->dp};
    if (job->pp > 1 && stage == 1 && a->is_tied)
        s.head += embed; /* a second copy of the tied matrix */
    s.model += s.embed + s.head;
    s.one_layer =
        counts->layers / (a->layers + a->decoder_layers) * by_t / job->ep;
    if (job->adapter == FIRN_ADAPTER_DORA)
        s.adapters += counts->widths * part;
    double row = a->experts > 0
                     ? 2.0 * a->experts * a->expert_ffn / job->ep
                     : (a->is_fused_qkv && a->is_gated ? 2.0 : 1) * a->ffn;
    s.largest = fmax(row, a->vocab) * a->hidden * by_t;
    return s;
}

/* nf4: half a byte, a byte for every 64 numbers and 4 for every 64 x 256. */
static const double packed_bytes = 0.5 + (1 + 4.0 / 256) / 64;

/* Moments by parameter in units of their size, and how much a step needs: of
 * all parameters, and of the largest tensor. */
static const struct {
    double moments, all, largest;
} optimizers[FIRN_OPTS] = {
    [FIRN_OPT_ADAMW] = {2, 0, 2},       [FIRN_OPT_ADAMW_FOREACH] = {2, 1, 0},
    [FIRN_OPT_ADAMW_FUSED] = {2, 0, 0}, [FIRN_OPT_ADAM_8BIT] = {0, 0, 0},
    [FIRN_OPT_ADAFACTOR] = {0, 0, 2},   [FIRN_OPT_LION] = {0, 0, 0},
    [FIRN_OPT_SGD] = {1, 0, 0},         [FIRN_OPT_SGD_PLAIN] = {0, 0, 0},
};

static double moment_bytes(const struct firn_peak_job *job, double size)
{
    if (job->optimizer == FIRN_OPT_ADAM_8BIT)
        return 2 + 2 * 4.0 / 256; /* a byte each, a scale for 256 */
    if (job->optimizer == FIRN_OPT_LION)
        return 4; /* bitsandbytes': in fp32 whatever the weights are in */
    if (job->optimizer == FIRN_OPT_ADAFACTOR)
        return 4 * (1.0 / job->arch.hidden +
                    1.0 / (job->arch.ffn > 0 ? job->arch.ffn
                                             : job->arch.expert_ffn));
    return optimizers[job->optimizer].moments * size;
}

static void fill_frozen(const struct peak_sizes *s, const struct peak_share *p,
                        double shards, double *always)
{
    double base = p->model + p->experts - p->packed;
    always[FIRN_TERM_FROZEN] =
        (base * s->frozen + p->packed * packed_bytes) / shards;
    always[FIRN_TERM_ADAPTERS] = p->adapters * s->adapter / shards;
}

/* The largest matrix of a layer, which 4 bits unpack for its products. */
static double unpacked_bytes(const struct firn_peak_job *job,
                             const struct peak_sizes *s)
{
    const struct firn_arch *a = &job->arch;
    double wide = a->ffn > 0 ? a->ffn : a->expert_ffn;
    if (job->adapter != FIRN_ADAPTER_QLORA)
        return 0;
    if (a->is_fused_qkv && a->is_gated)
        wide *= 2; /* gate and up are one */
    return a->hidden * wide * s->c / job->tp;
}

/* The allocator gives tensors from 10 MiB on blocks of 2 MiB, and does not
 * split off a rest of up to 1 MiB. */
static double rounding(double bytes)
{
    if (bytes < 10 * MIB)
        return 0;
    double rest = ceil(bytes / (2 * MIB)) * 2 * MIB - bytes;
    return rest <= MIB ? rest : 0;
}

/* Rests of the blocks of one stored copy of all layers. */
static double layer_rests(const struct firn_peak_job *job, double size,
                          double layers)
{
    const struct firn_arch *a = &job->arch;
    double each = size * a->hidden / job->tp;
    double q = firn_arch_q_width(a), k = firn_arch_k_width(a);
    int mlp = a->is_gated ? 3 : 2;
    double rests = 2 * rounding(each * q) + 2 * rounding(each * k);
    if (a->experts == 0)
        rests += mlp * rounding(each * a->ffn);
    return layers * rests;
}

/* ZeRO 3: which weights are whole at a time. */
static double gathered_bytes(const struct firn_peak_job *job,
                             const struct peak_sizes *s,
                             const struct peak_share *p)
{
    if (job->zero < 3 || job->dp == 1)
        return 0;
    double size = s->c;
    if (job->adapter == FIRN_ADAPTER_QLORA)
        size = packed_bytes;
    if (job->keeps_gathered)
        return (p->model + p->experts - p->packed) * s->c +
               p->packed * packed_bytes;
    /* The layer in use and the next; embedding and output are one unit. */
    double pair = p->layers > 1 ? 2 : 1;
    return pair * p->one_layer * size + (p->embed + p->head) * s->c;
}

struct peak_fixed peak_fixed_of(const struct firn_peak_job *job,
                                const struct peak_sizes *s,
                                const struct peak_share *p,
                                const struct peak_constants *constants)
{
    struct peak_fixed f = {0};
    double all = p->model + p->experts, trained = all, d = p->ranks;
    double by_state = job->zero >= 1 ? d : 1, by_grad = job->zero >= 2 ? d : 1;
    double by_weight = job->zero >= 3 ? d : 1;
    if (s->is_frozen) {
        trained = p->adapters;
        fill_frozen(s, p, by_weight, f.always);
        f.unpacked = unpacked_bytes(job, s);
    } else {
        f.always[FIRN_TERM_WEIGHTS] = all * s->weight / by_weight;
    }
    f.always[FIRN_TERM_GATHERED] = gathered_bytes(job, s, p);
    double rests = job->zero > 0 ? 0 : layer_rests(job, s->weight, p->layers);
    double copies = 1;
    if (!s->is_frozen && !job->offloads_optimizer)
        copies += optimizers[job->optimizer].moments;
    f.always[FIRN_TERM_WORKSPACE] =
        constants->workspace_mib * MIB + copies * rests;
    f.rests = s->is_frozen ? 0 : rests;
    if (!job->offloads_optimizer) {
        f.always[FIRN_TERM_MASTER] = trained * s->master / by_state;
        f.always[FIRN_TERM_MOMENTS] =
            trained * moment_bytes(job, s->state) / by_state;
        f.scratch = (optimizers[job->optimizer].all * trained * s->state +
                     optimizers[job->optimizer].largest *
                         (s->is_frozen ? 0 : p->largest) * s->state) /
                    by_state;
        if (job->mode == FIRN_MODE_BF16_MASTER && !s->is_frozen)
            f.scratch += 4 * trained / by_state; /* gradients in fp32 */
    }
    f.step_copies =
        job->offloads_optimizer ? 0 : optimizers[job->optimizer].all;
    f.gradients = trained * s->grad / by_grad;
    if (!s->is_frozen) {
        f.head_gradient = p->head * s->grad / by_grad;
        f.embed_gradient = p->embed * s->grad / by_grad;
        if (job->arch.is_tied && job->pp == 1)
            f.head_gradient = p->embed * s->grad / by_grad;
        f.layer_gradient = p->one_layer * s->grad / by_grad;
        f.work_gradient = job->zero >= 2 ? p->one_layer * s->c : 0;
    }
    if (d > 1 && job->zero < 2)
        f.buckets = f.gradients;
    if (s->is_amp) {
        /* Autocast does not reach the experts' kernel. */
        double untied = job->arch.is_tied ? 0 : p->embed;
        double cast = p->model - untied - fmin(p->packed, p->model);
        f.casts = job->zero >= 3 ? 0 : 2 * fmax(0, cast);
        f.head_cast = 2 * (job->arch.is_tied ? p->embed : p->head);
        f.layer_cast = 2 * fmax(0, p->one_layer - p->experts / p->layers);
        if (job->adapter == FIRN_ADAPTER_QLORA)
            f.layer_cast = 0; /* its matrices are unpacked instead */
    }
    for (int i = 0; i < FIRN_TERMS; i++)
        f.total += f.always[i];
    return f;
}

struct peak_logits peak_logits_of(const struct firn_peak_job *job,
                                  const struct peak_sizes *s)
{
    const struct firn_arch *a = &job->arch;
    double tokens = (double)job->micro_batch * job->seq;
    bool is_word = a->labels == 0 && a->vocab > 0;
    bool is_upcast = a->kind == FIRN_ARCH_DECODER || s->c == 4;
    struct peak_logits l = {.number =
                                is_word ? tokens * a->vocab / job->tp : 0};
    if (!is_word && a->labels > 0)
        l.number = (double)job->micro_batch * a->labels;
    if (job->loss == FIRN_LOSS_CHUNKED) {
        l.forward = s->c + 1;
        l.backward = s->c + 1.5;
        l.head = s->c;
        return l;
    }
    if (job->loss == FIRN_LOSS_FUSED) {
        l.forward = l.backward = l.head = 10.0 / 8;
        return l;
    }
    l.forward = s->c == 4 ? 8 : is_upcast ? 10 : 4;
    l.backward = is_upcast ? 12 : 6;
    l.head = s->c;
    if (s->is_amp && !is_upcast) {
        l.forward = 8;
        l.backward = 10;
    }
    if (a->has_logit_cap) {
        l.forward += s->c;
        l.backward += s->c;
        l.head += s->c;
    }
    return l;
}
