/* peak.c - counts the tensors of a training step, moment by moment.
 *
 * Weights and optimizer state are there at all moments. In addition:
 *
 *   loss            the kept activations of all layers, casts, 10 bytes a logit
 *                   (bf16, its fp32 copy, log-softmax; 8 where logits are fp32)
 *   loss, backward  the same with 12 bytes a logit: log-softmax, the gradient
 *                   of the loss and of the logits
 *   head            2 bytes a logit and the gradient of the output matrix
 *   first           the backward pass of the last layer: activations of all
 *                   layers, the gradient of the output, the layer's work
 *   last            of the first layer: one layer's activations, all gradients
 *   embedding       all gradients, and of a tied embedding a second one
 *   step            all gradients, the optimizer's scratch
 *
 * With checkpointing the inputs of layers take the place of activations, and
 * first and last have one layer computed again. Gradients are there throughout
 * when they are accumulated.
 *
 * Kept bytes of a layer by token; c is the size of a number that a product
 * gives (2; fp32: 4), r of one on the residual path (bf16: 2; else 4), p the
 * products that take a norm's output (autocast copies it for each):
 *
 *   RMS norm    fp32 12, bf16 8, amp 8 + 2 p: the input in fp32, the normalised
 *               input, the output. Frozen: 4. Gemma keeps the normalised input
 *               in fp32: bf16 10
 *   layer norm  input r and output c; amp 4 + 2 p. Frozen: r
 *   norm behind attention or MLP   input and normalised input only
 *   attention   (2 q + k + v) c and 4 a for the kernel's sums. One matrix for
 *               q, k and v: the values are a part of its output and keep all of
 *               it. Latent: the same of keys and values
 *   MLP         gated 4 f c (frozen 3), plain 2 f c (ReLU: 1), GPT-2's GELU 5 f
 *               c (amp: 16 f)
 *   experts     for each of the k experts of a token: input, 4 e products, its
 *               output; the router's input in fp32
 *   adapters    the input in the adapter's precision, for each projection
 *
 * docs/memory.md compares them with peaks measured on an H200 and with those
 * that PyTorch computes on tensors without memory.
 *
 * Invariants:
 * (1) the terms add up to expected.
 * (2) low <= expected <= high <= 1.25 expected.
 *
 * Cost: below a microsecond, no allocation.
 */
#include <firn/peak.h>

#include <math.h>
#include <string.h>

#define MIB 1048576.0

/* Constants that counting does not give, from the 24 rows of
 * $FIRN_DATA/h200/modern_memory.csv: what libraries hold (the least that is
 * left in every row), and how the allocator's hold grows. */
static const double workspace_bytes = 66 * MIB;
static const double context_mib = 771; /* profiles/h200/context.csv */

static const char *const term_words[FIRN_TERMS][2] = {
    [FIRN_TERM_WEIGHTS] = {"weights",
                           "trained, in the precision they are kept in"},
    [FIRN_TERM_FROZEN] = {"frozen", "weights that are not trained"},
    [FIRN_TERM_ADAPTERS] = {"adapters", "weights of LoRA"},
    [FIRN_TERM_CASTS] = {"casts", "copies of weights in the precision used"},
    [FIRN_TERM_GATHERED] = {"gathered", "whole layers of sharded weights"},
    [FIRN_TERM_MASTER] = {"master", "weights in fp32 of the optimizer"},
    [FIRN_TERM_MOMENTS] = {"moments", "state of the optimizer"},
    [FIRN_TERM_SCRATCH] = {"scratch", "of the optimizer's step"},
    [FIRN_TERM_GRADIENTS] = {"gradients", ""},
    [FIRN_TERM_BUCKETS] = {"buckets", "copies of gradients that are reduced"},
    [FIRN_TERM_INPUTS] = {"inputs", "of layers, kept by checkpointing"},
    [FIRN_TERM_NORMS] = {"norms", "kept for the backward pass"},
    [FIRN_TERM_ATTENTION] = {"attention", "queries, keys, values, output"},
    [FIRN_TERM_MATRICES] = {"matrices", "of attention, position by position"},
    [FIRN_TERM_MLP] = {"mlp", "kept for the backward pass"},
    [FIRN_TERM_EXPERTS] = {"experts", "tokens and products of experts"},
    [FIRN_TERM_LORA] = {"lora", "inputs of adapters"},
    [FIRN_TERM_MASKS] = {"masks", "of dropout"},
    [FIRN_TERM_LOGITS] = {"logits", "with their copies in fp32 and gradients"},
    [FIRN_TERM_WORK] = {"work", "of the layer that is computed"},
    [FIRN_TERM_WORKSPACE] = {"workspace", "of libraries, rounding to blocks"},
};

const char *firn_peak_term_word(enum firn_peak_term term)
{
    return term_words[term][0];
}

const char *firn_peak_term_about(enum firn_peak_term term)
{
    return term_words[term][1];
}

const char *firn_peak_moment_word(enum firn_peak_moment moment)
{
    static const char *const words[] = {
        "loss, forward pass",
        "loss, backward pass",
        "gradient of the output matrix",
        "backward pass of the last layer",
        "backward pass of the first layer",
        "gradient of the embedding",
        "optimizer's step",
    };
    return words[moment];
}

static enum firn_status in_range(const char *what, long value, long min,
                                 long max, struct firn_error *err)
{
    if (value >= min && value <= max)
        return FIRN_OK;
    return firn_fail(err, FIRN_EINVAL, "%s is %ld; %ld to %ld are possible",
                     what, value, min, max);
}

static void at_least_one(int *degree)
{
    if (*degree == 0)
        *degree = 1;
}

static enum firn_status check_parallel(const struct firn_peak_job *j,
                                       struct firn_error *err)
{
    FIRN_TRY(
        in_range("the tensor-parallel degree", j->tp, 1, j->arch.heads, err));
    FIRN_TRY(in_range("the data-parallel degree", j->dp, 1, 1 << 20, err));
    FIRN_TRY(in_range("the pipeline degree", j->pp, 1, j->arch.layers, err));
    int experts = j->arch.experts > 0 ? j->arch.experts : 1;
    FIRN_TRY(in_range("the expert-parallel degree", j->ep, 1, experts, err));
    if (j->arch.heads % j->tp != 0)
        return firn_fail(err, FIRN_EINVAL,
                         "%d heads cannot be split over %d GPUs", j->arch.heads,
                         j->tp);
    if ((long)j->tp * j->dp % j->ep != 0)
        return firn_fail(err, FIRN_EINVAL,
                         "experts over %d GPUs: tensor x data parallel is %ld, "
                         "no multiple of it",
                         j->ep, (long)j->tp * j->dp);
    return in_range("the ZeRO stage", j->zero, 0, 3, err);
}

enum firn_status firn_peak_check(struct firn_peak_job *job,
                                 struct firn_error *err)
{
    struct firn_peak_job j = *job;
    FIRN_TRY(firn_arch_check(&j.arch, err));
    at_least_one(&j.tp);
    at_least_one(&j.dp);
    at_least_one(&j.pp);
    at_least_one(&j.ep);
    if (j.micro_batches == 0)
        j.micro_batches = j.pp;
    if (j.arch.kind == FIRN_ARCH_VISION) {
        int side = j.arch.image / j.arch.patch;
        j.seq = side * side + 1;
    }
    FIRN_TRY(in_range("the sequence length", j.seq, 1, 1 << 24, err));
    if (j.arch.learns_positions && j.arch.positions < j.seq)
        j.arch.positions = j.seq;
    FIRN_TRY(in_range("the micro-batch", j.micro_batch, 1, 1 << 20, err));
    FIRN_TRY(in_range("the number of micro-batches", j.micro_batches, 1,
                      1 << 20, err));
    FIRN_TRY(check_parallel(&j, err));
    if (j.adapter != FIRN_ADAPTER_NONE) {
        FIRN_TRY(in_range("the LoRA rank", j.rank, 1, j.arch.hidden, err));
        if (j.on == 0)
            return firn_fail(err, FIRN_EINVAL, "LoRA without a projection");
    }
    *job = j;
    return FIRN_OK;
}

/* --- sizes ---------------------------------------------------------------- */

struct sizes {
    double c, r;    /* of a product, of the residual path */
    double weight;  /* of a trained parameter */
    double frozen;  /* of one that is not */
    double grad;    /* with the fp32 sum of Megatron */
    double state;   /* of a moment */
    double master;  /* fp32 weights beside */
    double adapter; /* of an adapter's parameter */
    bool is_amp, is_frozen;
};

static struct sizes sizes_of(const struct firn_peak_job *job)
{
    bool is_fp32 = job->mode == FIRN_MODE_FP32;
    bool is_amp = job->mode == FIRN_MODE_AMP;
    bool is_frozen = job->adapter != FIRN_ADAPTER_NONE;
    double w = is_fp32 || is_amp ? 4 : 2;
    struct sizes s = {.c = is_fp32 ? 4 : 2,
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
    s.adapter = job->is_adapter_half ? 2 : 4;
    if (is_frozen) { /* adapters are trained, without a master copy */
        s.grad = s.state = s.adapter;
        s.master = 0;
    }
    return s;
}

/* --- activations ---------------------------------------------------------- */

/* Bytes a token of one layer: the same on all tensor-parallel GPUs, and
 * divided by their number. */
struct kept {
    double norms, masks; /* the same on all */
    double attention, mlp, experts, lora_all, lora_split;
    double matrices; /* divided; a head and position */
    double work;     /* divided: gradients in the layer's backward pass */
};

/* Bytes of a norm of width 1 whose output p products take; 0: none keeps it. */
static double norm_bytes(const struct firn_arch *a, const struct sizes *s,
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

static void keep_norms(const struct firn_peak_job *job, const struct sizes *s,
                       struct kept *out)
{
    const struct firn_arch *a = &job->arch;
    double h = a->hidden;
    int takers = a->is_fused_qkv ? 1 : a->kv_rank > 0 ? 2 : 3;
    int mlp = a->is_gated && !a->is_fused_qkv ? 2 : 1;
    out->norms = h * (norm_bytes(a, s, takers) + norm_bytes(a, s, mlp));
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
        out->masks = 2 * h + (a->kind == FIRN_ARCH_SEQ2SEQ ? a->ffn : 0);
}

/* A fused kernel avoids the s x s matrices. */
static bool is_fused(const struct firn_peak_job *job)
{
    const struct firn_arch *a = &job->arch;
    if (job->is_eager)
        return false;
    return job->mode != FIRN_MODE_FP32 || a->kv_heads == a->heads;
}

static void keep_attention(const struct firn_peak_job *job,
                           const struct sizes *s, struct kept *out)
{
    const struct firn_arch *a = &job->arch;
    double q = firn_arch_q_width(a), k = firn_arch_k_width(a);
    double v = firn_arch_v_width(a);
    bool has_rotation = !a->learns_positions && a->kind == FIRN_ARCH_DECODER;
    bool is_windowed = a->window > 0 && job->seq > a->window;
    if (!is_fused(job) || is_windowed || a->has_mask)
        k = v = fmax(q, k); /* repeated for each head */
    double wide = q + k + v;
    if (a->kv_rank > 0)
        wide = 2 * q + k + (double)a->heads * (a->nope_dim + a->v_dim);
    else if (a->is_fused_qkv)
        wide = (has_rotation ? q + k : 0) + q + 2 * k;
    double values = a->kv_rank > 0 ? v : q;
    out->attention = (wide + values) * s->c + 4.0 * a->heads;
    if (a->kv_rank > 0)
        out->attention += (a->q_rank + a->kv_rank) * norm_bytes(a, s, 1);
    if (a->has_qk_norm) {
        double middle = s->is_frozen                 ? 0
                        : a->norm == FIRN_NORM_GEMMA ? 4
                                                     : s->c;
        out->attention += (q + firn_arch_k_width(a)) * (4 + middle);
    }
    if (a->has_mask) /* a bias for each head and pair, the same for samples */
        out->matrices = a->heads * s->c / job->micro_batch;
    if (!is_fused(job)) {
        /* softmax, mask, what dropout leaves: fp32, amp, bf16 */
        static const double plain[] = {9, 7, 5}, decoder[] = {4, 6, 6};
        int m = job->mode < FIRN_MODE_BF16 ? (int)job->mode : 2;
        out->matrices = (a->has_dropout ? plain : decoder)[m] * a->heads;
    }
}

static double mlp_bytes(const struct firn_arch *a, const struct sizes *s,
                        double f)
{
    double taken = s->is_frozen ? 0 : s->c; /* by the last product */
    double act = s->c + taken;
    if (a->act == FIRN_ACT_RELU)
        act = s->c;
    if (a->act == FIRN_ACT_GELU_NEW)
        act = s->is_amp ? 16 : 5 * s->c;
    if (a->is_gated)
        act += 2 * s->c;
    return f * act;
}

/* The input of the router: DeepSeek's in fp32, autocast's copy. */
static double router_bytes(const struct firn_arch *a, const struct sizes *s)
{
    if (s->is_frozen)
        return 0;
    if (a->kv_rank > 0)
        return 4.0 * a->hidden;
    return s->is_amp ? 2.0 * a->hidden : 0;
}

static void keep_mlp(const struct firn_peak_job *job, const struct sizes *s,
                     bool is_dense, struct kept *out)
{
    const struct firn_arch *a = &job->arch;
    double h = a->hidden, f = a->ffn;
    if (a->experts == 0 || is_dense) {
        out->mlp = mlp_bytes(a, s, f);
        out->work = (a->is_gated ? 3 : 2) * f * s->c;
        return;
    }
    double e = a->expert_ffn, in = s->is_frozen ? 0 : s->c;
    out->mlp = mlp_bytes(a, s, a->shared_ffn);
    out->experts = a->active * (h * in + e * (3 * s->c + in) + h * s->c) +
                   router_bytes(a, s) + 12.0 * a->experts;
    out->work = a->active * (3 * e + 2 * h) * s->c;
}

/* Inputs of adapters: x r for each, in their precision. */
static void keep_adapters(const struct firn_peak_job *job,
                          const struct sizes *s, bool is_dense,
                          struct kept *out)
{
    const struct firn_arch *a = &job->arch;
    double h = a->hidden, q = firn_arch_q_width(a), each = s->adapter;
    double f = a->experts == 0 || is_dense ? a->ffn : a->shared_ffn;
    unsigned on = job->on;
    int first = !!(on & FIRN_LLM_Q) + !!(on & FIRN_LLM_K) + !!(on & FIRN_LLM_V);
    int second = !!(on & FIRN_LLM_GATE && a->is_gated) + !!(on & FIRN_LLM_UP);
    if (f <= 0)
        second = 0;
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
    out->lora_all = (first + second) * h * each + number * job->rank * each;
    out->lora_split = (o * q + third * f) * each;
    if (job->adapter == FIRN_ADAPTER_DORA)
        out->lora_split +=
            (first * q + second * f + (o + third) * h) * (s->c + each);
}

static struct kept kept_of(const struct firn_peak_job *job,
                           const struct sizes *s, bool is_dense)
{
    struct kept out = {0};
    keep_norms(job, s, &out);
    keep_attention(job, s, &out);
    keep_mlp(job, s, is_dense, &out);
    if (job->adapter != FIRN_ADAPTER_NONE)
        keep_adapters(job, s, is_dense, &out);
    return out;
}

/* What selective recomputation keeps: the outputs of matrix products. */
static struct kept only_products(const struct firn_peak_job *job,
                                 const struct sizes *s, struct kept all)
{
    double h = job->arch.hidden, f = job->arch.ffn;
    struct kept out = {.norms = h * (s->r + 2 * s->c),
                       .masks = all.masks,
                       .attention = all.attention,
                       .mlp = (job->arch.is_gated ? 2 : 1) * f * s->c,
                       .experts = all.experts / 2,
                       .work = all.work};
    return out;
}

/* --- one GPU -------------------------------------------------------------- */

/* Bytes of all tokens of this GPU in one layer, by term. */
struct layer {
    double terms[FIRN_TERMS];
    double input, work;
};

static struct layer layer_of(const struct firn_peak_job *job,
                             const struct sizes *s, struct kept k)
{
    double tokens = (double)job->micro_batch * job->seq, t = job->tp;
    double all = job->is_sequence ? tokens / t : tokens;
    struct layer out = {.input = all * job->arch.hidden * s->r};
    out.terms[FIRN_TERM_NORMS] = all * k.norms;
    out.terms[FIRN_TERM_MASKS] = all * k.masks;
    out.terms[FIRN_TERM_ATTENTION] = tokens * k.attention / t;
    out.terms[FIRN_TERM_MATRICES] = tokens * k.matrices * job->seq / t;
    out.terms[FIRN_TERM_MLP] = tokens * k.mlp / t;
    out.terms[FIRN_TERM_EXPERTS] = tokens * k.experts / t;
    out.terms[FIRN_TERM_LORA] = tokens * k.lora_all + tokens * k.lora_split / t;
    out.work = tokens * k.work / t + 2 * all * job->arch.hidden * s->r;
    return out;
}

/* Parameters of this GPU's stage of the pipeline. */
struct share {
    double layers; /* of this stage */
    double model;  /* all but experts */
    double experts;
    double embed, head; /* in `model` */
    double one_layer;   /* whole, of this tensor share */
    double adapters;
    double packed;  /* in 4 bits; in `model` and `experts` */
    double largest; /* tensor */
    double ranks;   /* over which ZeRO divides */
};

static struct share share_of(const struct firn_peak_job *job, int stage)
{
    const struct firn_arch *a = &job->arch;
    double t = job->tp, part = 1.0 / job->pp;
    bool has_embed = stage == 0, has_head = stage == 1 || job->pp == 1;
    double whole_embed = firn_arch_embed_params(a);
    double whole_head = firn_arch_head_params(a);
    double embed = whole_embed / t, head = whole_head / t;
    double experts = 0, all = firn_arch_params(a);
    double sparse = a->experts > 0 ? a->layers - a->dense_layers : 0;
    if (a->experts > 0)
        experts = sparse * firn_arch_experts_params(a);
    double layers = all - whole_embed - whole_head;
    struct share s = {.layers = a->layers * part,
                      .model = (layers - experts) * part / t,
                      .experts = experts * part / (t * job->ep),
                      .embed = has_embed ? embed : 0,
                      .head = has_head ? head : 0,
                      .ranks = job->dp};
    if (job->pp > 1 && stage == 1 && a->is_tied)
        s.head += embed; /* a second copy of the tied matrix */
    s.model += s.embed + s.head;
    s.one_layer = layers / (a->layers + a->decoder_layers) / t / job->ep;
    if (job->ep == 1)
        s.one_layer = layers / (a->layers + a->decoder_layers) / t;
    if (job->adapter != FIRN_ADAPTER_NONE) {
        double width;
        s.adapters =
            firn_arch_lora_params(a, job->rank, job->on, &width) * part / t;
        if (job->adapter == FIRN_ADAPTER_DORA)
            s.adapters += width * part / t;
    }
    if (job->adapter == FIRN_ADAPTER_QLORA)
        s.packed = firn_arch_matrix_params(a) * part / t;
    double row = a->experts > 0
                     ? 2.0 * a->experts * a->expert_ffn / job->ep
                     : (a->is_fused_qkv && a->is_gated ? 2.0 : 1) * a->ffn;
    s.largest = fmax(row, a->vocab) * a->hidden / t;
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
    [FIRN_OPT_ADAFACTOR] = {0, 0, 3},   [FIRN_OPT_LION] = {1, 0, 2},
    [FIRN_OPT_SGD] = {1, 0, 0},         [FIRN_OPT_SGD_PLAIN] = {0, 0, 0},
};

static double moment_bytes(const struct firn_peak_job *job, double size)
{
    if (job->optimizer == FIRN_OPT_ADAM_8BIT)
        return 2 + 2 * 4.0 / 256; /* a byte each, a scale for 256 */
    if (job->optimizer == FIRN_OPT_ADAFACTOR)
        return 4 * (1.0 / job->arch.hidden +
                    1.0 / (job->arch.ffn > 0 ? job->arch.ffn
                                             : job->arch.expert_ffn));
    return optimizers[job->optimizer].moments * size;
}

/* Bytes that do not depend on tokens. */
struct fixed {
    double always[FIRN_TERMS]; /* at all moments */
    double gradients, buckets; /* all of them */
    double head_gradient, embed_gradient, layer_gradient, work_gradient;
    double casts, head_cast, layer_cast;
    double scratch;
    double rests; /* of blocks, for one more copy of the weights */
};

static void fill_frozen(const struct firn_peak_job *job, const struct sizes *s,
                        const struct share *p, double shards, double *always)
{
    double base = p->model + p->experts - p->packed;
    always[FIRN_TERM_FROZEN] =
        (base * s->frozen + p->packed * packed_bytes) / shards;
    always[FIRN_TERM_ADAPTERS] = p->adapters * s->adapter / shards;
    if (job->adapter == FIRN_ADAPTER_QLORA) /* one matrix unpacked */
        always[FIRN_TERM_CASTS] =
            (double)job->arch.hidden * job->arch.ffn * s->c / job->tp;
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
                             const struct sizes *s, const struct share *p)
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

static struct fixed fixed_of(const struct firn_peak_job *job,
                             const struct sizes *s, const struct share *p)
{
    struct fixed f = {0};
    double all = p->model + p->experts, trained = all, d = p->ranks;
    double by_state = job->zero >= 1 ? d : 1, by_grad = job->zero >= 2 ? d : 1;
    double by_weight = job->zero >= 3 ? d : 1;
    if (s->is_frozen) {
        trained = p->adapters;
        fill_frozen(job, s, p, by_weight, f.always);
    } else {
        f.always[FIRN_TERM_WEIGHTS] = all * s->weight / by_weight;
    }
    f.always[FIRN_TERM_GATHERED] = gathered_bytes(job, s, p);
    double rests = job->zero > 0 ? 0 : layer_rests(job, s->weight, p->layers);
    double copies = s->is_frozen ? 1 : 1 + optimizers[job->optimizer].moments;
    f.always[FIRN_TERM_WORKSPACE] = workspace_bytes + copies * rests;
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
        double untied = job->arch.is_tied ? 0 : p->embed;
        f.casts = job->zero >= 3 ? 0 : 2 * (all - untied);
        f.head_cast = 2 * (job->arch.is_tied ? p->embed : p->head);
        f.layer_cast = 2 * p->one_layer;
    }
    return f;
}

/* Bytes of one logit of each moment. */
struct logits {
    double number, forward, backward, head;
};

static struct logits logits_of(const struct firn_peak_job *job,
                               const struct sizes *s)
{
    const struct firn_arch *a = &job->arch;
    double tokens = (double)job->micro_batch * job->seq;
    bool is_word = a->labels == 0 && a->vocab > 0;
    bool is_upcast = a->kind == FIRN_ARCH_DECODER || s->is_amp || s->c == 4;
    struct logits l = {.number = is_word ? tokens * a->vocab / job->tp : 0};
    if (!is_word && a->labels > 0)
        l.number = (double)job->micro_batch * a->labels;
    if (job->loss == FIRN_LOSS_CHUNKED) {
        l.forward = s->c + 1;
        l.backward = s->c + 1.5;
        l.head = s->c;
        return l;
    }
    if (job->loss == FIRN_LOSS_FUSED) {
        l.forward = l.backward = l.head = 12.0 / 8;
        return l;
    }
    l.forward = s->c == 4 ? 8 : is_upcast ? 10 : 4;
    l.backward = is_upcast ? 12 : 6;
    l.head = s->c;
    if (a->has_logit_cap) {
        l.forward += s->c;
        l.backward += s->c;
        l.head += s->c;
    }
    return l;
}

/* --- moments -------------------------------------------------------------- */

struct counting {
    const struct firn_peak_job *job;
    struct sizes s;
    struct share p;
    struct fixed f;
    struct logits logits;
    struct layer one;         /* kept by a layer until its backward pass */
    struct layer again;       /* computed again in it; zeros: nothing */
    double all[FIRN_TERMS];   /* kept by all layers of the stage, and the head
                               */
    double in_flight;         /* micro-batches of the pipeline's stage */
    double terms[FIRN_TERMS]; /* of the moment that is counted */
};

static void add_terms(double *to, const double *from, double times)
{
    for (int i = 0; i < FIRN_TERMS; i++)
        to[i] += times * from[i];
}

static void begin(struct counting *n, double gradients)
{
    memcpy(n->terms, n->f.always, sizeof n->terms);
    double kept = n->job->keeps_gradients ? n->f.gradients : gradients;
    n->terms[FIRN_TERM_GRADIENTS] = fmin(kept, n->f.gradients);
    n->terms[FIRN_TERM_BUCKETS] = n->f.buckets;
    if (n->job->keeps_gradients)
        n->terms[FIRN_TERM_WORKSPACE] += n->f.rests;
}

static void count_loss(struct counting *n, bool is_backward)
{
    bool is_again = n->job->recompute == FIRN_RECOMPUTE_LAYERS;
    begin(n, 0);
    add_terms(n->terms, n->all, 1);
    /* Checkpointed, autocast's copies live until the forward pass ends. */
    n->terms[FIRN_TERM_CASTS] +=
        is_again && is_backward ? n->f.head_cast : n->f.casts;
    n->terms[FIRN_TERM_LOGITS] =
        n->logits.number *
        (is_backward ? n->logits.backward : n->logits.forward);
}

static void count_head(struct counting *n)
{
    bool is_again = n->job->recompute == FIRN_RECOMPUTE_LAYERS;
    begin(n, n->f.head_gradient);
    add_terms(n->terms, n->all, 1);
    n->terms[FIRN_TERM_CASTS] += is_again ? n->f.head_cast : n->f.casts;
    if (n->s.is_amp && !n->s.is_frozen)
        n->terms[FIRN_TERM_WORK] += n->f.head_gradient / 2; /* in bf16 first */
    n->terms[FIRN_TERM_LOGITS] = n->logits.number * n->logits.head;
}

static void add_again(struct counting *n)
{
    add_terms(n->terms, n->again.terms, 1);
    n->terms[FIRN_TERM_WORK] += n->one.work + n->f.work_gradient;
}

static void count_first(struct counting *n)
{
    bool is_again = n->job->recompute == FIRN_RECOMPUTE_LAYERS;
    begin(n, n->f.head_gradient);
    add_terms(n->terms, n->all, 1);
    add_again(n);
    n->terms[FIRN_TERM_CASTS] += is_again ? n->f.layer_cast : n->f.casts;
}

/* The layer's own gradients come after its largest tensors are gone. */
static void count_last(struct counting *n)
{
    double gradients =
        n->f.gradients - n->f.embed_gradient - n->f.layer_gradient;
    if (n->job->arch.is_tied)
        gradients += n->f.head_gradient;
    begin(n, fmax(gradients, 0));
    add_terms(n->terms, n->one.terms, 1);
    add_again(n);
    n->terms[FIRN_TERM_CASTS] += n->f.layer_cast;
}

static void count_embedding(struct counting *n)
{
    begin(n, n->f.gradients);
    if (n->job->arch.is_tied)
        n->terms[FIRN_TERM_WORK] += n->f.embed_gradient;
}

static void count_step(struct counting *n)
{
    double copies = optimizers[n->job->optimizer].all;
    copies += !n->job->keeps_gradients;
    begin(n, n->f.gradients);
    n->terms[FIRN_TERM_SCRATCH] = n->f.scratch;
    n->terms[FIRN_TERM_WORKSPACE] += copies * n->f.rests;
}

static void count_moment(struct counting *n, enum firn_peak_moment moment)
{
    switch (moment) {
    case FIRN_MOMENT_LOSS:
        count_loss(n, false);
        break;
    case FIRN_MOMENT_LOSS_BACK:
        count_loss(n, true);
        break;
    case FIRN_MOMENT_HEAD:
        count_head(n);
        break;
    case FIRN_MOMENT_FIRST:
        count_first(n);
        break;
    case FIRN_MOMENT_LAST:
        count_last(n);
        break;
    case FIRN_MOMENT_EMBEDDING:
        count_embedding(n);
        break;
    case FIRN_MOMENT_STEP:
    case FIRN_MOMENTS:
        count_step(n);
        break;
    }
}

/* Three sums at once: an addition waits for the one before it. */
static double sum(const double *terms)
{
    double a = 0, b = 0, c = 0;
    _Static_assert(FIRN_TERMS % 3 == 0, "three sums take all terms");
    for (int i = 0; i < FIRN_TERMS; i += 3) {
        a += terms[i];
        b += terms[i + 1];
        c += terms[i + 2];
    }
    return a + b + c;
}

/* What all layers of the stage keep, and what is computed again. */
static void fill_layers(struct counting *n)
{
    const struct firn_peak_job *job = n->job;
    const struct firn_arch *a = &job->arch;
    struct kept sparse = kept_of(job, &n->s, false);
    struct layer whole = layer_of(job, &n->s, sparse);
    double layers = n->p.layers * n->in_flight, dense = 0;
    struct layer plain = whole;
    if (a->experts > 0 && a->dense_layers > 0) {
        plain = layer_of(job, &n->s, kept_of(job, &n->s, true));
        dense = layers * a->dense_layers / a->layers;
    }
    n->one = whole;
    if (job->recompute == FIRN_RECOMPUTE_NONE) {
        add_terms(n->all, whole.terms, layers - dense);
        add_terms(n->all, plain.terms, dense);
        return;
    }
    n->again = whole;
    memset(n->one.terms, 0, sizeof n->one.terms);
    if (job->recompute == FIRN_RECOMPUTE_SELECTIVE) {
        struct layer products =
            layer_of(job, &n->s, only_products(job, &n->s, sparse));
        memcpy(n->one.terms, products.terms, sizeof n->one.terms);
        add_terms(n->all, products.terms, layers);
    } else {
        double inputs = job->offloads_activations ? fmin(2, layers) : layers;
        n->one.terms[FIRN_TERM_INPUTS] = whole.input;
        n->all[FIRN_TERM_INPUTS] += inputs * whole.input;
    }
}

/* t5's decoder: attention twice and one more norm, of the same tokens. */
static void fill_decoder(struct counting *n)
{
    const struct firn_peak_job *job = n->job;
    double layers = job->arch.decoder_layers / (double)job->pp;
    struct layer more = n->again;
    if (job->recompute == FIRN_RECOMPUTE_NONE)
        more = n->one;
    for (int i = 0; i < FIRN_TERMS; i++)
        if (i == FIRN_TERM_ATTENTION || i == FIRN_TERM_MATRICES)
            more.terms[i] *= 2;
        else if (i == FIRN_TERM_NORMS || i == FIRN_TERM_MASKS)
            more.terms[i] *= 1.5;
    if (job->recompute == FIRN_RECOMPUTE_NONE) {
        add_terms(n->all, more.terms, layers);
        n->one = more;
    } else {
        n->all[FIRN_TERM_INPUTS] += layers * n->one.input;
        n->again = more;
    }
}

/* Kept behind the last layer, by token: the norm, bert's dense layer with its
 * GELU; and bert's norm in front of the first. */
static double head_bytes(const struct firn_peak_job *job, const struct sizes *s)
{
    const struct firn_arch *a = &job->arch;
    double out = a->hidden * norm_bytes(a, s, 1);
    if (a->has_head_dense)
        out += 2.0 * a->hidden * s->c;
    if (a->kind == FIRN_ARCH_ENCODER)
        out += a->hidden * (s->r + 1);
    return out;
}

static void fill(struct counting *n, const struct firn_peak_job *job, int stage)
{
    const struct firn_arch *a = &job->arch;
    double tokens = (double)job->micro_batch * job->seq;
    *n = (struct counting){.job = job, .s = sizes_of(job)};
    n->p = share_of(job, stage);
    n->f = fixed_of(job, &n->s, &n->p);
    int depth = stage == 0 ? job->pp : 1;
    n->in_flight = depth < job->micro_batches ? depth : job->micro_batches;
    fill_layers(n);
    if (a->kind == FIRN_ARCH_SEQ2SEQ)
        fill_decoder(n);
    if (stage == 1 || job->pp == 1) {
        n->logits = logits_of(job, &n->s);
        n->all[FIRN_TERM_NORMS] += tokens * head_bytes(job, &n->s);
    }
}

/* --- the answer ----------------------------------------------------------- */

/* Rows like it were measured: one GPU, full or LoRA, the library's loss. */
static bool is_measured(const struct firn_peak_job *job)
{
    bool is_one = job->tp == 1 && job->dp == 1 && job->pp == 1 && job->ep == 1;
    bool is_mode = job->mode == FIRN_MODE_AMP || job->mode == FIRN_MODE_BF16;
    bool is_adapter =
        job->adapter == FIRN_ADAPTER_NONE || job->adapter == FIRN_ADAPTER_LORA;
    bool is_optimizer = job->optimizer == FIRN_OPT_ADAMW ||
                        job->optimizer == FIRN_OPT_ADAMW_FUSED ||
                        job->optimizer == FIRN_OPT_SGD;
    return is_one && is_mode && is_adapter && is_optimizer &&
           job->loss == FIRN_LOSS_PLAIN &&
           job->recompute != FIRN_RECOMPUTE_SELECTIVE &&
           job->arch.kind == FIRN_ARCH_DECODER && job->arch.kv_rank == 0;
}

/* The allocator holds more than the tensors: blocks left by the loss when the
 * optimizer or a layer needs others, and rounding. */
static double reserved_of(const struct firn_peak_job *job,
                          const struct counting *n, double expected)
{
    double loss = n->logits.number * n->logits.backward;
    double casts = n->f.casts;
    double share = job->recompute == FIRN_RECOMPUTE_NONE ? 0.10 : 0.45;
    return expected * 1.02 + share * loss + 0.25 * casts + 100 * MIB;
}

static void set_interval(const struct firn_peak_job *job, double reserved,
                         struct firn_peak *out)
{
    double low = out->is_measured ? 0.97 : 0.92;
    double least = out->is_measured ? 1.03 : 1.08;
    double e = out->expected_mib;
    (void)job;
    out->reserved_mib = reserved / MIB;
    out->low_mib = low * e;
    out->high_mib = fmin(fmax(least * e, 1.06 * out->reserved_mib), 1.25 * e);
    out->device_mib = out->high_mib + context_mib;
}

struct firn_peak firn_peak_of(const struct firn_peak_job *job)
{
    struct firn_peak out = {.params = firn_arch_params(&job->arch)};
    struct counting n;
    double most = -1, reserved = 0;
    out.trained = out.params;
    if (job->adapter != FIRN_ADAPTER_NONE)
        out.trained =
            firn_arch_lora_params(&job->arch, job->rank, job->on, NULL);
    for (int stage = 0; stage < (job->pp > 1 ? 2 : 1); stage++) {
        fill(&n, job, stage);
        for (int m = 0; m < FIRN_MOMENTS; m++) {
            count_moment(&n, (enum firn_peak_moment)m);
            double bytes = sum(n.terms);
            if (bytes <= most)
                continue;
            most = bytes;
            out.moment = (enum firn_peak_moment)m;
            out.stage = stage;
            memcpy(out.terms_mib, n.terms, sizeof n.terms);
        }
        reserved = fmax(reserved, reserved_of(job, &n, most));
    }
    for (int i = 0; i < FIRN_TERMS; i++)
        out.terms_mib[i] *= 1 / MIB; /* exact: a power of two */
    out.expected_mib = most / MIB;
    out.is_measured = is_measured(job);
    set_interval(job, reserved, &out);
    return out;
}
