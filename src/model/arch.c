/* arch.c - transformers by name, and how many parameters they have.
 *
 * With h hidden, q and k the widths of all queries and of all keys (or values),
 * f the MLP's inner width, E experts of width e, V words, a layer has
 *
 *   attention   2 h q + 2 h k, biases q + 2 k and h, norms on q and k 2 d
 *   latent      h r_q + r_q + r_q a (n + p)   (h a (n + p) without r_q)
 *               + h (r + p) + r + r a (n + v) + a v h
 *   MLP         3 h f gated (bias 2 f + h), else 2 h f (bias f + h)
 *   experts     E 3 h e + h E for the router, 3 h s shared, h for its gate
 *   norms       h each, 2 h with a bias
 *
 * where n, p, v are the dimensions of a head without and with rotation and of
 * its values, r_q and r the latent ranks. t5's decoder has attention twice.
 * Counts are doubles: exact up to 2^53.
 *
 * Invariant: (1) the counts equal those of the transformers library's classes
 * for every file of tests/model/data/configs (test_arch.c).
 */
#include "model/arch.h"

#include "base/str.h"
#include "model/range.h"
#include <string.h>

static const struct firn_arch families[] = {
#define FAMILY(model_type, kind_, norm_, act_, norms_, biases_, ...) \
    {.family = model_type,                                           \
     .kind = FIRN_ARCH_##kind_,                                      \
     .norm = FIRN_NORM_##norm_,                                      \
     .act = FIRN_ACT_##act_,                                         \
     .norms = norms_,                                                \
     .biases = (biases_),                                            \
     __VA_ARGS__},
#include "model/arch_families.def"
#undef FAMILY
};

static const struct firn_arch named[] = {
#define ARCH(name_, family_, l, h, a, k, d, f, v, ...) \
    {.name = name_,                                    \
     .family = family_,                                \
     .layers = l,                                      \
     .hidden = h,                                      \
     .heads = a,                                       \
     .kv_heads = k,                                    \
     .head_dim = d,                                    \
     .ffn = f,                                         \
     .vocab = v,                                       \
     __VA_ARGS__},
#include "model/arch_names.def"
#undef ARCH
};

enum {
    NFAMILIES = sizeof families / sizeof *families,
    NNAMED = sizeof named / sizeof *named,
    NAMES_MAX = NNAMED + 64, /* with those of llm.h */
};

const struct firn_arch *arch_family(const char *model_type)
{
    for (int i = 0; i < NFAMILIES; i++)
        if (strcmp(families[i].family, model_type) == 0)
            return &families[i];
    return NULL;
}

void arch_adopt(struct firn_arch *arch, const struct firn_arch *family)
{
    str_copy(arch->family, sizeof arch->family, family->family);
    arch->kind = family->kind;
    arch->norm = family->norm;
    arch->act = family->act;
    arch->norms = family->norms;
    arch->biases = family->biases;
    arch->is_gated = arch->is_gated || family->is_gated;
    arch->is_fused_qkv = family->is_fused_qkv;
    arch->is_parallel = family->is_parallel;
    arch->has_qk_norm = family->has_qk_norm;
    arch->has_dropout = family->has_dropout;
    arch->has_mask = family->has_mask;
    arch->has_score_cap = family->has_score_cap;
    arch->adapts_experts = family->adapts_experts;
    arch->has_shared_gate = family->has_shared_gate;
    arch->learns_positions = family->learns_positions;
    arch->has_final_norm = family->kind != FIRN_ARCH_ENCODER;
    if (family->kind == FIRN_ARCH_SEQ2SEQ)
        arch->is_tied = true; /* in the library's classes from 5.0 on, whatever
                               * tie_word_embeddings says */
    if (family->kind == FIRN_ARCH_SEQ2SEQ && arch->is_gated)
        arch->act = FIRN_ACT_GELU_NEW; /* the library writes "gated-gelu" out */
}

size_t firn_arch_count(void)
{
    size_t n;
    firn_llm_shapes(&n);
    return n + NNAMED;
}

void firn_arch_at(size_t i, struct firn_arch *out)
{
    size_t n;
    const struct firn_llm_shape *shapes = firn_llm_shapes(&n);
    if (i < n) {
        *out = firn_arch_of_shape(&shapes[i]);
        return;
    }
    *out = named[i - n];
    arch_adopt(out, arch_family(out->family));
}

struct firn_arch firn_arch_of_shape(const struct firn_llm_shape *s)
{
    static const char *const types[] = {"gpt2", "bert", "llama"};
    struct firn_arch out = {
        .hidden = s->hidden,
        .layers = s->layers,
        .heads = s->heads,
        .kv_heads = s->kv_heads > 0 ? s->kv_heads : s->heads,
        .head_dim = s->heads > 0 ? s->hidden / s->heads : 0,
        .ffn = s->ffn > 0 ? s->ffn : 4 * s->hidden,
        .vocab = s->vocab,
        .is_tied = s->is_tied,
        .positions = s->positions,
    };
    str_copy(out.name, sizeof out.name, s->name ? s->name : "");
    arch_adopt(&out, arch_family(types[s->family]));
    if (s->family == FIRN_LLM_BERT) { /* BertModel: no output of words */
        out.types = 2;
        out.has_pooler = true;
        out.biases &= ~(unsigned)FIRN_BIAS_HEAD;
    }
    return out;
}

enum firn_status firn_arch_find(struct firn_arch *out, const char *name,
                                struct firn_error *err)
{
    const char *names[NAMES_MAX];
    struct firn_llm_shape shape;
    size_t nshapes, n = 0;
    if (firn_llm_find(&shape, name, NULL) == FIRN_OK) {
        *out = firn_arch_of_shape(&shape);
        return FIRN_OK;
    }
    const struct firn_llm_shape *shapes = firn_llm_shapes(&nshapes);
    for (size_t i = 0; i < nshapes && n < NAMES_MAX; i++)
        names[n++] = shapes[i].name;
    for (size_t i = 0; i < NNAMED && n < NAMES_MAX; i++) {
        names[n++] = named[i].name;
        if (!str_equal_nocase(named[i].name, name))
            continue;
        firn_arch_at(nshapes + i, out);
        return FIRN_OK;
    }
    int best = str_nearest(name, names, n);
    if (best < 0)
        return firn_fail(err, FIRN_ENOENT,
                         "no model '%.40s'; firn memory --model list prints "
                         "the known models",
                         name);
    return firn_fail(err, FIRN_ENOENT, "no model '%.40s'; did you mean '%s'?",
                     name, names[best]);
}

/* --- numbers that make sense ---------------------------------------------- */

struct limit {
    const char *what;
    int value;
    long min, max;
};

enum firn_status firn_arch_check(const struct firn_arch *arch,
                                 struct firn_error *err)
{
    bool is_image = arch->kind == FIRN_ARCH_VISION, is_moe = arch->experts > 0;
    const struct limit limits[] = {
        {"hidden_size", arch->hidden, 1, 1 << 20},
        {"num_hidden_layers", arch->layers, 1, 1 << 16},
        {"num_attention_heads", arch->heads, 1, 1 << 16},
        {"num_key_value_heads", arch->kv_heads, 1, arch->heads},
        {"head_dim", arch->head_dim, 1, 1 << 16},
        {"intermediate_size", arch->ffn, is_moe ? 0 : 1, 1 << 24},
        {"vocab_size", arch->vocab, is_image ? 0 : 1, 1 << 26},
        {"max_position_embeddings", arch->positions, 0, 1 << 26},
        {"type_vocab_size", arch->types, 0, 1 << 16},
        {"num_experts", arch->experts, 0, 1 << 16},
        {"num_experts_per_tok", arch->active, is_moe, arch->experts},
        {"moe_intermediate_size", arch->expert_ffn, is_moe, 1 << 24},
        {"shared_expert_intermediate_size", arch->shared_ffn, 0, 1 << 24},
        {"first_k_dense_replace", arch->dense_layers, 0, arch->layers},
        {"q_lora_rank", arch->q_rank, 0, 1 << 20},
        {"kv_lora_rank", arch->kv_rank, 0, 1 << 20},
        {"qk_nope_head_dim", arch->nope_dim, arch->kv_rank > 0, 1 << 16},
        {"qk_rope_head_dim", arch->rope_dim, arch->kv_rank > 0, 1 << 16},
        {"v_head_dim", arch->v_dim, arch->kv_rank > 0, 1 << 16},
        {"num_decoder_layers", arch->decoder_layers,
         arch->kind == FIRN_ARCH_SEQ2SEQ, 1 << 16},
        {"num_labels", arch->labels, 0, 1 << 26},
        {"image_size", arch->image, is_image, 1 << 16},
        {"patch_size", arch->patch, is_image, is_image ? arch->image : 1 << 16},
        {"num_channels", arch->channels, is_image, 1 << 16},
        {"sliding_window", arch->window, 0, 1L << 30},
        {"word_embed_proj_dim", arch->embed, 0, 1 << 20},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        FIRN_TRY(range_check(limits[i].what, limits[i].value, limits[i].min,
                             limits[i].max, err));
    if (arch->heads % arch->kv_heads != 0)
        return firn_fail(err, FIRN_EINVAL,
                         "num_attention_heads (%d) is no multiple of "
                         "num_key_value_heads (%d)",
                         arch->heads, arch->kv_heads);
    return FIRN_OK;
}

/* --- parameters ----------------------------------------------------------- */

double firn_arch_q_width(const struct firn_arch *arch)
{
    if (arch->kv_rank > 0)
        return (double)arch->heads * (arch->nope_dim + arch->rope_dim);
    return (double)arch->heads * arch->head_dim;
}

double firn_arch_k_width(const struct firn_arch *arch)
{
    if (arch->kv_rank > 0)
        return firn_arch_q_width(arch);
    return (double)arch->kv_heads * arch->head_dim;
}

double firn_arch_v_width(const struct firn_arch *arch)
{
    if (arch->kv_rank > 0)
        return (double)arch->heads * arch->v_dim;
    return firn_arch_k_width(arch);
}

/* The matrices of attention alone. */
static double attention_matrices(const struct firn_arch *a)
{
    double h = a->hidden, q = firn_arch_q_width(a), k = firn_arch_k_width(a);
    if (a->kv_rank == 0)
        return 2 * h * q + 2 * h * k;
    double r = a->kv_rank, out = h * (r + a->rope_dim) +
                                 r * a->heads * (a->nope_dim + a->v_dim) +
                                 (double)a->heads * a->v_dim * h;
    return out + (a->q_rank > 0 ? h * a->q_rank + a->q_rank * q : h * q);
}

static double attention_params(const struct firn_arch *a)
{
    double h = a->hidden, q = firn_arch_q_width(a), k = firn_arch_k_width(a);
    double out = attention_matrices(a);
    bool is_latent = a->kv_rank > 0;
    if (is_latent)
        out += a->q_rank + a->kv_rank; /* norms */
    if (a->biases & FIRN_BIAS_QKV)
        out += is_latent ? a->q_rank + a->kv_rank + a->rope_dim : q + 2 * k;
    if (a->biases & FIRN_BIAS_O)
        out += h;
    if (a->has_qk_norm)
        out += 2 * a->head_dim;
    return out;
}

static double mlp_params(const struct firn_arch *a)
{
    double h = a->hidden, f = a->ffn, n = a->is_gated ? 2 : 1;
    double biases = a->biases & FIRN_BIAS_MLP ? n * f + h : 0;
    return (n + 1) * h * f + biases;
}

double firn_arch_experts_params(const struct firn_arch *arch)
{
    return 3.0 * arch->experts * arch->hidden * arch->expert_ffn;
}

static double norm_params(const struct firn_arch *a)
{
    if (a->has_plain_norms)
        return 0;
    return a->norm == FIRN_NORM_LAYER ? 2.0 * a->hidden : a->hidden;
}

double firn_arch_layer_params(const struct firn_arch *arch, bool is_dense)
{
    double h = arch->hidden;
    double out = attention_params(arch) + arch->norms * norm_params(arch);
    if (arch->experts == 0 || is_dense)
        return out + mlp_params(arch);
    return out + firn_arch_experts_params(arch) + h * arch->experts +
           3 * h * arch->shared_ffn +
           (arch->shared_ffn > 0 && arch->has_shared_gate ? h : 0);
}

double firn_arch_decoder_params(const struct firn_arch *arch)
{
    return 2 * attention_params(arch) + mlp_params(arch) +
           (arch->norms + 1) * norm_params(arch);
}

double firn_arch_embed_params(const struct firn_arch *arch)
{
    double h = arch->hidden;
    if (arch->kind == FIRN_ARCH_VISION) {
        int side = arch->image / arch->patch; /* whole patches */
        return (double)arch->channels * arch->patch * arch->patch * h + h + h +
               ((double)side * side + 1) * h;
    }
    double width = arch->embed > 0 ? arch->embed : h;
    double out = arch->vocab * width + (double)arch->positions * h +
                 (double)arch->types * h;
    if (arch->kind == FIRN_ARCH_ENCODER)
        out += norm_params(arch);
    return out + (arch->embed > 0 ? 2 * width * h : 0);
}

double firn_arch_head_params(const struct firn_arch *arch)
{
    double h = arch->hidden, out = 0;
    if (arch->has_final_norm)
        out += norm_params(arch) * (arch->kind == FIRN_ARCH_SEQ2SEQ ? 2 : 1);
    if (arch->has_pooler)
        out += h * h + h;
    if (arch->has_head_dense)
        out += h * h + h + (arch->labels > 0 ? 0 : norm_params(arch));
    if (arch->labels > 0)
        return out + h * arch->labels + arch->labels;
    if (!arch->is_tied)
        out += arch->vocab * h;
    return out + (arch->biases & FIRN_BIAS_HEAD ? arch->vocab : 0);
}

double firn_arch_params(const struct firn_arch *arch)
{
    double out = firn_arch_embed_params(arch) + firn_arch_head_params(arch);
    int dense = arch->experts > 0 ? arch->dense_layers : arch->layers;
    out += dense * firn_arch_layer_params(arch, true);
    out += (arch->layers - dense) * firn_arch_layer_params(arch, false);
    if (arch->kind == FIRN_ARCH_SEQ2SEQ)
        out += arch->decoder_layers * firn_arch_decoder_params(arch) +
               2.0 * arch->buckets * arch->heads;
    return out;
}

double firn_arch_matrix_params(const struct firn_arch *arch)
{
    double h = arch->hidden, attention = attention_matrices(arch);
    double mlp = (arch->is_gated ? 3 : 2) * h * arch->ffn;
    double experts = firn_arch_experts_params(arch) + 3 * h * arch->shared_ffn;
    int dense = arch->experts > 0 ? arch->dense_layers : arch->layers;
    double out = dense * (attention + mlp) +
                 (arch->layers - dense) * (attention + experts);
    if (arch->kind == FIRN_ARCH_SEQ2SEQ)
        out += arch->decoder_layers * (2 * attention + mlp);
    return out;
}

/* --- LoRA ----------------------------------------------------------------- */

/* Inputs and outputs of the adapted matrices of one layer. */
struct sides {
    double in, out;
};

static void add_side(struct sides *s, bool is_on, double in, double out)
{
    if (is_on) {
        s->in += in;
        s->out += out;
    }
}

static void attention_sides(const struct firn_arch *a, unsigned on,
                            struct sides *s)
{
    double h = a->hidden, q = firn_arch_q_width(a), k = firn_arch_k_width(a);
    if (a->kv_rank > 0) {
        double kv = (double)a->heads * (a->nope_dim + a->v_dim);
        add_side(s, on & FIRN_LLM_Q, a->q_rank > 0 ? a->q_rank : h, q);
        add_side(s, on & (FIRN_LLM_K | FIRN_LLM_V), a->kv_rank, kv);
        add_side(s, on & FIRN_LLM_O, (double)a->heads * a->v_dim, h);
        return;
    }
    if (a->is_fused_qkv) {
        add_side(s, on & (FIRN_LLM_Q | FIRN_LLM_K | FIRN_LLM_V), h, q + 2 * k);
    } else {
        add_side(s, on & FIRN_LLM_Q, h, q);
        add_side(s, on & FIRN_LLM_K, h, k);
        add_side(s, on & FIRN_LLM_V, h, k);
    }
    add_side(s, on & FIRN_LLM_O, q, h);
}

static void mlp_sides(const struct firn_arch *a, unsigned on, double f,
                      struct sides *s)
{
    double h = a->hidden;
    bool is_pair =
        a->is_gated && a->is_fused_qkv; /* phi3: gate and up in one */
    if (is_pair) {
        add_side(s, on & (FIRN_LLM_GATE | FIRN_LLM_UP), h, 2 * f);
    } else {
        add_side(s, a->is_gated && (on & FIRN_LLM_GATE), h, f);
        add_side(s, on & FIRN_LLM_UP, h, f);
    }
    add_side(s, on & FIRN_LLM_DOWN, f, h);
}

/* peft 0.21 on transformers 5: an expert's gate and up are one matrix, whose
 * adapter has the rank of both. */
double arch_expert_lora_params(const struct firn_arch *arch, int rank,
                               unsigned on)
{
    double h = arch->hidden, e = arch->expert_ffn;
    int wide = !!(on & FIRN_LLM_GATE) + !!(on & FIRN_LLM_UP);
    if (!arch->adapts_experts || arch->experts == 0)
        return 0;
    return (double)rank * arch->experts *
           (wide * (h + 2 * e) + (on & FIRN_LLM_DOWN ? e + h : 0));
}

double firn_arch_lora_params(const struct firn_arch *arch, int rank,
                             unsigned on, double *width)
{
    struct sides dense = {0}, sparse = {0};
    double experts = arch_expert_lora_params(arch, rank, on);
    attention_sides(arch, on, &dense);
    if (experts > 0) /* no adapters on other MLPs */
        on &= ~(unsigned)(FIRN_LLM_GATE | FIRN_LLM_UP | FIRN_LLM_DOWN);
    sparse = dense;
    mlp_sides(arch, on, arch->ffn, &dense);
    if (arch->shared_ffn > 0)
        mlp_sides(arch, on, arch->shared_ffn, &sparse);
    int ndense = arch->experts > 0 ? arch->dense_layers : arch->layers;
    int nsparse = arch->layers - ndense;
    double out = rank * (ndense * (dense.in + dense.out) +
                         nsparse * (sparse.in + sparse.out)) +
                 nsparse * experts;
    double widths = ndense * dense.out + nsparse * sparse.out;
    if (arch->kind == FIRN_ARCH_SEQ2SEQ) {
        struct sides twice = {0};
        attention_sides(arch, on, &twice);
        attention_sides(arch, on, &twice);
        mlp_sides(arch, on, arch->ffn, &twice);
        out += arch->decoder_layers * rank * (twice.in + twice.out);
        widths += arch->decoder_layers * twice.out;
    }
    if (width)
        *width = widths;
    return out;
}
