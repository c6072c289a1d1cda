/* peaklayer.c - what a layer keeps for its backward pass.
 *
 * Kept bytes of a layer by token; c is the size of a number that a product
 * gives (2; fp32: 4), r of one on the residual path (bf16: 2; else 4), p the
 * products that take a norm's output (autocast copies it for each):
 *
 *   RMS norm    fp32 12, bf16 8, amp 8 + 2 p: the input in fp32, the normalised
 *               input, the output. Frozen: 4. Gemma keeps the normalised input
 *               in fp32: bf16 10; t5 the input in both precisions: bf16 10
 *   layer norm  input r and output c; amp 4 + 2 p. Frozen: r
 *   norm behind attention or MLP   input and normalised input only
 *   attention   (2 q + k + v) c and 4 a for the kernel's sums. One matrix for
 *               q, k and v: the values are a part of its output and keep all of
 *               it; with rotated positions the library joins queries anew, and
 *               the kernel's output, laid out like them, is copied for the next
 *               product. Latent: the same of keys and values
 *   matrices    without a fused kernel, by head and position: softmax, mask
 *               of dropout, what it leaves; 2 more (fp32: 4) under tanh on the
 *               scores (gemma2). t5's learned bias takes PyTorch's plain
 *               kernel, which computes in fp32: 4 + 1 + 4, and q, k, v in fp32
 *   MLP         gated 4 f c (frozen 3), plain 2 f c (ReLU: 1; with dropout
 *               behind it 2), GPT-2's GELU 5 f c (amp: 16 f); in Megatron's
 *               precision its fused GELU, 2 f c
 *   experts     for each of the k experts of a token: input, 4 e products, its
 *               output; the router's input. Autocast does not reach them: amp
 *               keeps all this in fp32 and copies no expert's weights
 *   adapters    the input in the adapter's precision, for each projection. On
 *               experts peft adds them to the weights: one copy of the experts
 *               and of the adapters, in the precision of the weights. DoRA
 *               keeps the outputs in both precisions and computes the norm of
 *               one matrix with its adapters at a time
 *
 * Read from transformers 5.17 and peft 0.21, whose peaks were measured.
 * Cost: some dozens of operations.
 */
#include "model/arch.h"
#include "model/peakterms.h"
#include <math.h>
#include <string.h>

struct peak_sizes peak_sizes_of(const struct firn_peak_job *job)
{
    bool is_fp32 = job->mode == FIRN_MODE_FP32;
    bool is_amp = job->mode == FIRN_MODE_AMP;
    bool is_frozen = job->adapter != FIRN_ADAPTER_NONE;
    double w = is_fp32 || is_amp ? 4 : 2;
    struct peak_sizes s = {.c = is_fp32 ? 4 : 2,
                           .r = w,
                           .weight = w,
                           .frozen = w,
                           .grad = w,
                           .state = w,
                           .is_amp = is_amp,
                           .is_frozen = is_frozen};
    if (job->mode == FIRN_MODE_BF16_MASTER || job->mode == FIRN_MODE_MEGATRON) {
        s.master = 4;
        s.state = 4;
    }
    if (job->mode == FIRN_MODE_MEGATRON)
        s.grad = 6;
    s.is_megatron = job->mode == FIRN_MODE_MEGATRON;
    s.adapter = job->is_adapter_half ? 2 : 4;
    if (is_frozen) { /* adapters are trained, without a master copy */
        s.grad = s.state = s.adapter;
        s.master = 0;
    }
    return s;
}

/* Bytes a token of one layer: the same on all tensor-parallel GPUs, and
 * divided by their number. */
struct kept {
    double norms, masks; /* the same on all */
    double attention, mlp, experts, lora_all, lora_split;
    double matrices;    /* divided; a head and position */
    double work;        /* divided: gradients in the MLP's backward pass */
    double matrix_work; /* the same of attention, a head and position */
    double merged;      /* divided, of the layer: weights with adapters */
    double dora_work;   /* divided, of the layer: one matrix for its norm */
};

/* Bytes of a norm of width 1 whose output p products take; 0: none keeps it. */
static double norm_bytes(const struct firn_arch *a, const struct peak_sizes *s,
                         int p)
{
    double in = a->norm == FIRN_NORM_LAYER ? s->r : 4;
    if (s->is_frozen)
        return in;
    double middle = a->norm == FIRN_NORM_LAYER   ? 0
                    : a->norm == FIRN_NORM_GEMMA ? 4
                    : s->r == 2                  ? 2
                                                 : 4;
    double out = s->is_amp ? 2.0 * p : p > 0 ? s->c : 0;
    if (a->norm == FIRN_NORM_T5 && s->r == 2)
        in += 2;
    return in + middle + out;
}

/* How many products of the MLP take the norm's output as it is. */
static int mlp_takers(const struct firn_arch *a, const struct peak_sizes *s,
                      enum peak_layer_kind kind)
{
    bool has_experts = a->experts > 0 && kind != PEAK_LAYER_DENSE;
    if (has_experts && s->is_amp && a->shared_ffn == 0)
        return 0; /* router_bytes() has the router's copy */
    return a->is_gated && !a->is_fused_qkv ? 2 : 1;
}

static void keep_norms(const struct firn_peak_job *job,
                       const struct peak_sizes *s, enum peak_layer_kind kind,
                       struct kept *out)
{
    const struct firn_arch *a = &job->arch;
    double h = a->hidden;
    int takers = a->is_fused_qkv ? 1 : a->kv_rank > 0 ? 2 : 3;
    out->norms = h * (norm_bytes(a, s, takers) +
                      norm_bytes(a, s, mlp_takers(a, s, kind)));
    if (kind == PEAK_LAYER_CROSS) /* queries take it */
        out->norms += h * norm_bytes(a, s, 1);
    if (a->is_parallel)
        out->norms -= h * (a->norm == FIRN_NORM_LAYER ? s->r : 4);
    if (a->norms == 4) { /* behind attention and MLP, whose output is c wide */
        double in = a->norm == FIRN_NORM_LAYER ? s->c : 4;
        double middle = s->is_frozen                 ? 0
                        : a->norm == FIRN_NORM_GEMMA ? 4
                                                     : s->c;
        out->norms += 2 * h * (in + middle);
    }
    if (a->has_dropout)
        out->masks = (kind == PEAK_LAYER_CROSS ? 3 : 2) * h +
                     (a->kind == FIRN_ARCH_SEQ2SEQ ? a->ffn : 0);
}

/* A fused kernel avoids the s x s matrices; the library has none with tanh on
 * the scores. */
static bool is_fused(const struct firn_peak_job *job)
{
    const struct firn_arch *a = &job->arch;
    if (job->is_eager || a->has_score_cap)
        return false;
    return job->mode != FIRN_MODE_FP32 || a->kv_heads == a->heads;
}

/* By head and position: fp32, amp, bf16. Kept, and needed in addition by the
 * backward pass. */
static void keep_matrices(const struct firn_peak_job *job, struct kept *out)
{
    static const double plain[] = {9, 7, 5}, plain_work[] = {4, 4, 2};
    static const double decoder[] = {4, 6, 6}, decoder_work[] = {8, 6, 6};
    const struct firn_arch *a = &job->arch;
    int m = job->mode < FIRN_MODE_BF16 ? (int)job->mode : 2;
    out->matrices = (a->has_dropout ? plain : decoder)[m] * a->heads;
    out->matrix_work =
        (a->has_dropout ? plain_work : decoder_work)[m] * a->heads;
    if (a->has_score_cap)
        out->matrices += (m == 0 ? 4 : 2) * a->heads;
}

/* t5: the learned bias takes the plain kernel. Attention to the encoder has a
 * bias of zeros and a fused kernel; its backward pass is over when that of the
 * layer's other attention begins. */
static void keep_biased(const struct firn_peak_job *job,
                        const struct peak_sizes *s, enum peak_layer_kind kind,
                        struct kept *out)
{
    const struct firn_arch *a = &job->arch;
    double q = firn_arch_q_width(a);
    out->attention = q * (3 * 4 + s->c);
    out->matrices = 9.0 * a->heads;
    out->matrix_work = 4.0 * a->heads;
    if (kind == PEAK_LAYER_CROSS)
        out->attention += q * 4 * s->c + 4.0 * a->heads;
}

static void keep_attention(const struct firn_peak_job *job,
                           const struct peak_sizes *s,
                           enum peak_layer_kind kind, struct kept *out)
{
    const struct firn_arch *a = &job->arch;
    double q = firn_arch_q_width(a), k = firn_arch_k_width(a);
    double v = firn_arch_v_width(a);
    bool has_rotation = !a->learns_positions && a->kind == FIRN_ARCH_DECODER;
    bool is_windowed = a->window > 0 && job->seq > a->window;
    if (a->has_mask && is_fused(job)) {
        keep_biased(job, s, kind, out);
        return;
    }
    if (!is_fused(job) || is_windowed)
        k = v = fmax(q, k); /* repeated for each head */
    double wide = q + k + v;
    if (a->kv_rank > 0)
        wide = 2 * q + k + (double)a->heads * (a->nope_dim + a->v_dim);
    else if (a->is_fused_qkv)
        wide = (has_rotation ? q + k : 0) + q + 2 * k;
    double values = a->kv_rank > 0 ? v : q;
    if (a->is_fused_qkv && has_rotation && !s->is_frozen)
        values += q; /* the output in another order */
    out->attention = (wide + values) * s->c + 4.0 * a->heads;
    if (a->kv_rank > 0)
        out->attention += (a->q_rank + a->kv_rank) * norm_bytes(a, s, 1);
    if (a->has_qk_norm) {
        double middle = s->is_frozen                 ? 0
                        : a->norm == FIRN_NORM_GEMMA ? 4
                                                     : s->c;
        out->attention += (q + firn_arch_k_width(a)) * (4 + middle);
    }
    if (!is_fused(job))
        keep_matrices(job, out);
    if (kind == PEAK_LAYER_CROSS) { /* eager t5 */
        out->attention *= 2;
        out->matrices *= 2;
    }
}

static double mlp_bytes(const struct firn_arch *a, const struct peak_sizes *s,
                        double f)
{
    double taken = s->is_frozen ? 0 : s->c; /* by the last product */
    double act = s->c + taken;
    if (a->act == FIRN_ACT_RELU)
        act = a->kind == FIRN_ARCH_SEQ2SEQ ? s->c + taken : s->c;
    if (a->act == FIRN_ACT_GELU_NEW && !s->is_megatron)
        act = s->is_amp ? 16 : 5 * s->c;
    if (a->is_gated)
        act += 2 * s->c;
    return f * act;
}

/* The input of the router: DeepSeek's in fp32, autocast's copy. */
static double router_bytes(const struct firn_arch *a,
                           const struct peak_sizes *s)
{
    if (s->is_frozen)
        return 0;
    if (a->kv_rank > 0)
        return 4.0 * a->hidden;
    return s->is_amp ? 2.0 * a->hidden : 0;
}

/* peft adds the adapters of experts to their weights in the forward pass. */
static bool merges_experts(const struct firn_peak_job *job)
{
    unsigned mlp = FIRN_LLM_GATE | FIRN_LLM_UP | FIRN_LLM_DOWN;
    return job->adapter != FIRN_ADAPTER_NONE && job->arch.adapts_experts &&
           (job->on & mlp) != 0;
}

static void keep_experts(const struct firn_peak_job *job,
                         const struct peak_sizes *s, struct kept *out)
{
    const struct firn_arch *a = &job->arch;
    double h = a->hidden, e = a->expert_ffn, c = s->is_amp ? 4 : s->c;
    bool is_merged = merges_experts(job);
    double in = s->is_frozen && !is_merged ? 0 : c;
    out->mlp = mlp_bytes(a, s, a->shared_ffn);
    out->experts = a->active * (h * in + e * (3 * c + in) + h * c) +
                   router_bytes(a, s) + 12.0 * a->experts;
    out->work = a->active * (3 * e + 2 * h) * c;
    if (!is_merged)
        return;
    unsigned wide = FIRN_LLM_GATE | FIRN_LLM_UP;
    double third = firn_arch_experts_params(a) / 3;
    out->merged = s->c / job->ep *
                  ((job->on & wide ? 2 * third : 0) +
                   (job->on & FIRN_LLM_DOWN ? third : 0) +
                   arch_expert_lora_params(a, job->rank, job->on));
}

static void keep_mlp(const struct firn_peak_job *job,
                     const struct peak_sizes *s, enum peak_layer_kind kind,
                     struct kept *out)
{
    const struct firn_arch *a = &job->arch;
    if (a->experts > 0 && kind != PEAK_LAYER_DENSE) {
        keep_experts(job, s, out);
        return;
    }
    out->mlp = mlp_bytes(a, s, a->ffn);
    out->work = (a->is_gated ? 3 : 2) * a->ffn * s->c;
}

/* Inputs of adapters: x r for each, in their precision. */
static void keep_adapters(const struct firn_peak_job *job,
                          const struct peak_sizes *s, enum peak_layer_kind kind,
                          struct kept *out)
{
    const struct firn_arch *a = &job->arch;
    bool is_dense = a->experts == 0 || kind == PEAK_LAYER_DENSE;
    double h = a->hidden, q = firn_arch_q_width(a), each = s->adapter;
    double f = is_dense ? a->ffn : a->shared_ffn;
    unsigned on = job->on;
    int first = !!(on & FIRN_LLM_Q) + !!(on & FIRN_LLM_K) + !!(on & FIRN_LLM_V);
    int second = !!(on & FIRN_LLM_GATE && a->is_gated) + !!(on & FIRN_LLM_UP);
    if (f <= 0 || merges_experts(job))
        f = second = 0;
    if (a->is_fused_qkv) {
        first = first > 0;
        second = second > 0;
    }
    int third = (on & FIRN_LLM_DOWN) && f > 0, o = !!(on & FIRN_LLM_O);
    int number = first + second + third + o;
    if (job->is_adapter_half && s->c == 2) { /* no copy: the input itself */
        first = first > 0;
        second = second > 0;
    }
    double in = (first + second) * h;
    if (a->kv_rank > 0) { /* queries and latent keys and values */
        double q_in = a->q_rank > 0 ? a->q_rank : h;
        bool has_kv = on & (FIRN_LLM_K | FIRN_LLM_V);
        in = second * h + (on & FIRN_LLM_Q ? q_in : 0) +
             (has_kv ? a->kv_rank : 0);
    }
    double values = a->kv_rank > 0 ? firn_arch_v_width(a) : q;
    out->lora_all = in * each + number * job->rank * each;
    out->lora_split = (o * values + third * f) * each;
    if (job->adapter == FIRN_ADAPTER_DORA) {
        out->lora_split +=
            (first * q + second * f + (o + third) * h) * (s->c + each);
        /* The product of the adapters and its sum with the weights. */
        double widest = fmax(first + o > 0 ? q : 0, second + third > 0 ? f : 0);
        out->dora_work = h * widest * (s->c + each);
    }
}

static struct kept kept_of(const struct firn_peak_job *job,
                           const struct peak_sizes *s,
                           enum peak_layer_kind kind)
{
    struct kept out = {0};
    keep_norms(job, s, kind, &out);
    keep_attention(job, s, kind, &out);
    keep_mlp(job, s, kind, &out);
    if (job->adapter != FIRN_ADAPTER_NONE)
        keep_adapters(job, s, kind, &out);
    return out;
}

/* Attention's backward pass comes when the MLP's tensors are gone. */
static double work_of(const struct firn_peak_job *job,
                      const struct peak_sizes *s, const struct kept *k,
                      double all)
{
    double tokens = (double)job->micro_batch * job->seq / job->tp;
    double mlp = tokens * k->work;
    double attention = tokens * (k->matrix_work * job->seq - k->mlp);
    return fmax(mlp, attention) + 2 * all * job->arch.hidden * s->r +
           (k->merged * 2 / 3 + k->dora_work) / job->tp;
}

static struct peak_layer spread(const struct firn_peak_job *job,
                                const struct peak_sizes *s,
                                const struct kept *k)
{
    double tokens = (double)job->micro_batch * job->seq, t = job->tp;
    double all = job->is_sequence ? tokens / t : tokens;
    struct peak_layer out = {.input = all * job->arch.hidden * s->r};
    out.terms[FIRN_TERM_NORMS] = all * k->norms;
    out.terms[FIRN_TERM_MASKS] = all * k->masks;
    out.terms[FIRN_TERM_ATTENTION] = tokens * k->attention / t;
    out.terms[FIRN_TERM_MATRICES] = tokens * k->matrices * job->seq / t;
    out.terms[FIRN_TERM_MLP] = tokens * k->mlp / t;
    out.terms[FIRN_TERM_EXPERTS] = tokens * k->experts / t;
    out.terms[FIRN_TERM_LORA] =
        tokens * k->lora_all + tokens * k->lora_split / t;
    out.terms[FIRN_TERM_CASTS] = k->merged / t;
    out.total = out.terms[FIRN_TERM_NORMS] + out.terms[FIRN_TERM_MASKS] +
                out.terms[FIRN_TERM_ATTENTION] + out.terms[FIRN_TERM_MATRICES] +
                out.terms[FIRN_TERM_MLP] + out.terms[FIRN_TERM_EXPERTS] +
                out.terms[FIRN_TERM_LORA] + out.terms[FIRN_TERM_CASTS];
    out.work = work_of(job, s, k, all);
    return out;
}

struct peak_layer peak_layer_of(const struct firn_peak_job *job,
                                const struct peak_sizes *s,
                                enum peak_layer_kind kind)
{
    struct kept k = kept_of(job, s, kind);
    return spread(job, s, &k);
}

struct peak_layer peak_products_of(const struct firn_peak_job *job,
                                   const struct peak_sizes *s)
{
    double h = job->arch.hidden, f = job->arch.ffn;
    struct kept all = kept_of(job, s, PEAK_LAYER);
    struct kept out = {.norms = h * (s->r + 2 * s->c),
                       .masks = all.masks,
                       .attention = all.attention,
                       .mlp = (job->arch.is_gated ? 2 : 1) * f * s->c,
                       .experts = all.experts / 2,
                       .work = all.work};
    return spread(job, s, &out);
}

/* The norm behind the last layer, bert's dense layer with its GELU; bert's norm
 * in front of the first layer; t5's two norms, its encoder's output and the
 * masks of dropout at all four ends. */
double peak_ends_of(const struct firn_peak_job *job, const struct peak_sizes *s)
{
    const struct firn_arch *a = &job->arch;
    double out = a->hidden * norm_bytes(a, s, 1);
    if (a->has_head_dense)
        out += 2.0 * a->hidden * s->c;
    if (a->kind == FIRN_ARCH_ENCODER)
        out += a->hidden * (s->r + 1);
    if (a->kind == FIRN_ARCH_SEQ2SEQ)
        out += a->hidden * (norm_bytes(a, s, 1) + s->r + 4);
    return out;
}

struct peak_biases peak_biases_of(const struct firn_peak_job *job,
                                  const struct peak_sizes *s)
{
    const struct firn_arch *a = &job->arch;
    double one = (double)a->heads * job->seq * job->seq / job->tp;
    double indices = 16.0 * job->seq * job->seq; /* of both, int64 */
    if (!a->has_mask || !is_fused(job))
        return (struct peak_biases){0};
    if (job->recompute == FIRN_RECOMPUTE_NONE)
        return (struct peak_biases){.kept = one * s->c + indices};
    return (struct peak_biases){.kept = one * (2 * s->r + s->c) + indices,
                                .gradients = one * (s->r + s->c + 4)};
}
