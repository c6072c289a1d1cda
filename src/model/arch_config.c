/* arch_config.c - reads the architecture from a Hugging Face config.json.
 *
 * The file is a flat object. The keys that decide sizes are in one table, with
 * the names that older families give them ("n_embd" is "hidden_size"); every
 * other key is skipped. "text_config" of a model with several parts takes the
 * place of the outer keys: the text part alone is counted.
 *
 * What a key that is missing means follows the classes of the library: as many
 * key/value heads as heads, head_dim = hidden / heads, 4 x hidden for GPT-2's
 * MLP. A number that no default stands for is asked for by its key's name.
 *
 * A model_type that firn does not know is read as llama when it has llama's
 * keys (an RMS norm, a gated MLP's width), and `taken` says so; else it is
 * refused by name.
 *
 * Cost: one pass over the text, no allocation.
 */
#include "base/jsonread.h"
#include "base/str.h"
#include "model/arch.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum key {
    K_HIDDEN,
    K_LAYERS,
    K_HEADS,
    K_KV_HEADS,
    K_HEAD_DIM,
    K_FFN,
    K_VOCAB,
    K_POSITIONS,
    K_TYPES,
    K_TIED,
    K_ATTENTION_BIAS,
    K_MLP_BIAS,
    K_QKV_BIAS,
    K_OPT_BIAS,
    K_WINDOW,
    K_USES_WINDOW,
    K_EXPERTS,
    K_ACTIVE,
    K_EXPERT_FFN,
    K_SHARED_FFN,
    K_SHARED_EXPERTS,
    K_FIRST_DENSE,
    K_SPARSE_STEP,
    K_DENSE_LIST, /* an array: how many elements */
    K_Q_RANK,
    K_KV_RANK,
    K_NOPE_DIM,
    K_ROPE_DIM,
    K_V_DIM,
    K_DECODER_LAYERS,
    K_BUCKETS,
    K_IMAGE,
    K_PATCH,
    K_CHANNELS,
    K_LABELS,
    K_LABEL_LIST, /* an object: how many members */
    K_EMBED,
    K_NORM_BEFORE,
    K_NORM_AFFINE,
    K_LOGIT_CAP,
    K_SCORE_CAP,
    K_PARALLEL,
    K_RMS_EPS,
    KEYS
};

static const struct {
    enum key key;
    const char *name;
} names[] = {
    {K_HIDDEN, "hidden_size"},
    {K_HIDDEN, "n_embd"},
    {K_HIDDEN, "d_model"},
    {K_LAYERS, "num_hidden_layers"},
    {K_LAYERS, "n_layer"},
    {K_LAYERS, "num_layers"},
    {K_HEADS, "num_attention_heads"},
    {K_HEADS, "n_head"},
    {K_HEADS, "num_heads"},
    {K_KV_HEADS, "num_key_value_heads"},
    {K_HEAD_DIM, "head_dim"},
    {K_HEAD_DIM, "d_kv"},
    {K_FFN, "intermediate_size"},
    {K_FFN, "n_inner"},
    {K_FFN, "ffn_dim"},
    {K_FFN, "d_ff"},
    {K_VOCAB, "vocab_size"},
    {K_POSITIONS, "max_position_embeddings"},
    {K_POSITIONS, "n_positions"},
    {K_TYPES, "type_vocab_size"},
    {K_TIED, "tie_word_embeddings"},
    {K_ATTENTION_BIAS, "attention_bias"},
    {K_MLP_BIAS, "mlp_bias"},
    {K_QKV_BIAS, "qkv_bias"},
    {K_OPT_BIAS, "enable_bias"},
    {K_WINDOW, "sliding_window"},
    {K_USES_WINDOW, "use_sliding_window"},
    {K_EXPERTS, "num_local_experts"},
    {K_EXPERTS, "num_experts"},
    {K_EXPERTS, "n_routed_experts"},
    {K_ACTIVE, "num_experts_per_tok"},
    {K_EXPERT_FFN, "moe_intermediate_size"},
    {K_SHARED_FFN, "shared_expert_intermediate_size"},
    {K_SHARED_EXPERTS, "n_shared_experts"},
    {K_FIRST_DENSE, "first_k_dense_replace"},
    {K_SPARSE_STEP, "decoder_sparse_step"},
    {K_DENSE_LIST, "mlp_only_layers"},
    {K_Q_RANK, "q_lora_rank"},
    {K_KV_RANK, "kv_lora_rank"},
    {K_NOPE_DIM, "qk_nope_head_dim"},
    {K_ROPE_DIM, "qk_rope_head_dim"},
    {K_V_DIM, "v_head_dim"},
    {K_DECODER_LAYERS, "num_decoder_layers"},
    {K_BUCKETS, "relative_attention_num_buckets"},
    {K_IMAGE, "image_size"},
    {K_PATCH, "patch_size"},
    {K_CHANNELS, "num_channels"},
    {K_LABELS, "num_labels"},
    {K_LABEL_LIST, "id2label"},
    {K_EMBED, "word_embed_proj_dim"},
    {K_NORM_BEFORE, "do_layer_norm_before"},
    {K_NORM_AFFINE, "layer_norm_elementwise_affine"},
    {K_LOGIT_CAP, "final_logit_softcapping"},
    {K_SCORE_CAP, "attn_logit_softcapping"},
    {K_PARALLEL, "use_parallel_residual"},
    {K_RMS_EPS, "rms_norm_eps"},
};

enum { NNAMES = sizeof names / sizeof *names, TEXT_MAX = 64 };

struct config {
    double number[KEYS]; /* NAN: not there, or null */
    const char *name[KEYS];
    char type[TEXT_MAX], head[TEXT_MAX], feed[TEXT_MAX];
    struct firn_error *err;
};

/* --- text to numbers ------------------------------------------------------ */

/* The text of a string token without its quotes, cut to `max`. */
static void copy_text(const struct jsonread *in, char *out, size_t max)
{
    size_t n = in->token.n >= 2 ? in->token.n - 2 : 0;
    n = n < max - 1 ? n : max - 1;
    memcpy(out, in->token.at + 1, n);
    out[n] = '\0';
}

/* Behind an opening bracket: skips to its end; how many members it has. */
static double count_members(struct jsonread *in)
{
    unsigned depth = in->depth;
    double n = 0;
    for (;;) {
        bool is_member = in->depth == depth;
        bool is_key = false;
        enum jsonread_event event = jsonread_next(in);
        if (event == JSONREAD_FAILED || event == JSONREAD_END)
            return n;
        if (event == JSONREAD_CLOSE && in->depth < depth)
            return n;
        is_key = event == JSONREAD_KEY;
        if (is_member && event != JSONREAD_CLOSE && !is_key)
            n++;
    }
}

static bool has_word(const struct jsonread *in, const char *word)
{
    return in->token.n == strlen(word) &&
           memcmp(in->token.at, word, in->token.n) == 0;
}

/* The value of a key of the table. */
static void read_number(struct config *c, struct jsonread *in, enum key key,
                        const char *name)
{
    char text[TEXT_MAX];
    bool is_list = key == K_DENSE_LIST || key == K_LABEL_LIST;
    double value = NAN;
    switch (jsonread_next(in)) {
    case JSONREAD_NUMBER:
        if (in->token.n >= sizeof text) {
            jsonread_fail(in, "%s has too many digits", name);
            return;
        }
        memcpy(text, in->token.at, in->token.n);
        text[in->token.n] = '\0';
        value = strtod(text, NULL);
        break;
    case JSONREAD_WORD:
        if (has_word(in, "true"))
            value = 1;
        else if (has_word(in, "false"))
            value = 0;
        break;
    case JSONREAD_OPEN:
        value = count_members(in);
        if (!is_list)
            jsonread_fail(in, "%s is no number", name);
        break;
    default:
        jsonread_fail(in, "%s is no number", name);
        return;
    }
    if (!isnan(value) || isnan(c->number[key])) {
        c->number[key] = value;
        c->name[key] = name;
    }
}

/* Any value; jsonread_skip() would refuse the thousand labels of a vit. */
static void skip(struct jsonread *in)
{
    if (jsonread_next(in) == JSONREAD_OPEN)
        count_members(in);
}

static void read_text(struct jsonread *in, char *out)
{
    enum jsonread_event event = jsonread_next(in);
    if (event == JSONREAD_STRING)
        copy_text(in, out, TEXT_MAX);
    else if (event == JSONREAD_OPEN)
        count_members(in);
}

/* architectures: the first of the list. */
static void read_first(struct jsonread *in, char *out)
{
    if (jsonread_next(in) != JSONREAD_OPEN)
        return;
    bool is_first = true;
    while (jsonread_next(in) == JSONREAD_STRING) {
        if (is_first)
            copy_text(in, out, TEXT_MAX);
        is_first = false;
    }
}

static void read_object(struct config *c, struct jsonread *in, bool is_inner);

static void read_member(struct config *c, struct jsonread *in, const char *key,
                        bool is_inner)
{
    for (int i = 0; i < NNAMES; i++)
        if (strcmp(key, names[i].name) == 0) {
            read_number(c, in, names[i].key, names[i].name);
            return;
        }
    if (strcmp(key, "model_type") == 0)
        read_text(in, c->type);
    else if (strcmp(key, "feed_forward_proj") == 0)
        read_text(in, c->feed);
    else if (strcmp(key, "architectures") == 0 && !is_inner)
        read_first(in, c->head);
    else if (strcmp(key, "text_config") == 0 && !is_inner)
        read_object(c, in, true);
    else
        skip(in);
}

static void read_object(struct config *c, struct jsonread *in, bool is_inner)
{
    char key[TEXT_MAX];
    if (jsonread_next(in) != JSONREAD_OPEN || *in->token.at != '{') {
        jsonread_fail(in, "an object is wanted here");
        return;
    }
    while (jsonread_next(in) == JSONREAD_KEY) {
        copy_text(in, key, sizeof key);
        read_member(c, in, key, is_inner);
    }
}

/* --- numbers to an architecture ------------------------------------------- */

static const char *name_of(const struct config *c, enum key key)
{
    if (c->name[key])
        return c->name[key];
    for (int i = 0; i < NNAMES; i++)
        if (names[i].key == key)
            return names[i].name;
    return "?";
}

static bool has(const struct config *c, enum key key)
{
    return !isnan(c->number[key]);
}

static bool flag(const struct config *c, enum key key, bool otherwise)
{
    return has(c, key) ? c->number[key] != 0 : otherwise;
}

/* A whole number from `min` to 2^30, or `otherwise` where the key is missing.
 */
static enum firn_status take(const struct config *c, enum key key, int min,
                             int otherwise, int *out)
{
    double value = c->number[key];
    if (isnan(value)) {
        *out = otherwise;
        return FIRN_OK;
    }
    if (value != floor(value) || value < min || value > 1 << 30)
        return firn_fail(c->err, FIRN_EINVAL,
                         "%s is %g; a whole number of at least %d is wanted",
                         name_of(c, key), value, min);
    *out = (int)value;
    return FIRN_OK;
}

static enum firn_status need(const struct config *c, enum key key, int *out)
{
    if (!has(c, key))
        return firn_fail(c->err, FIRN_EINVAL, "%s is missing", name_of(c, key));
    return take(c, key, 1, 0, out);
}

static enum firn_status take_attention(const struct config *c,
                                       struct firn_arch *a)
{
    FIRN_TRY(need(c, K_HEADS, &a->heads));
    FIRN_TRY(take(c, K_KV_HEADS, 1, a->heads, &a->kv_heads));
    FIRN_TRY(take(c, K_HEAD_DIM, 1, 0, &a->head_dim));
    if (a->head_dim == 0 && a->hidden % a->heads != 0)
        return firn_fail(c->err, FIRN_EINVAL,
                         "%s (%d) is no multiple of %s (%d), and head_dim is "
                         "missing",
                         name_of(c, K_HIDDEN), a->hidden, name_of(c, K_HEADS),
                         a->heads);
    if (a->head_dim == 0)
        a->head_dim = a->hidden / a->heads;
    if (a->kv_heads > a->heads || a->heads % a->kv_heads != 0)
        return firn_fail(
            c->err, FIRN_EINVAL, "%s is %d; it must divide %s, which is %d",
            name_of(c, K_KV_HEADS), a->kv_heads, name_of(c, K_HEADS), a->heads);
    FIRN_TRY(take(c, K_Q_RANK, 1, 0, &a->q_rank));
    FIRN_TRY(take(c, K_KV_RANK, 1, 0, &a->kv_rank));
    if (a->kv_rank == 0)
        return FIRN_OK;
    FIRN_TRY(need(c, K_NOPE_DIM, &a->nope_dim));
    FIRN_TRY(need(c, K_ROPE_DIM, &a->rope_dim));
    return need(c, K_V_DIM, &a->v_dim);
}

/* Layers with a plain MLP: the first ones, those of a list, and all but every
 * n-th. */
static enum firn_status take_dense(const struct config *c, struct firn_arch *a)
{
    int first, step, listed;
    FIRN_TRY(take(c, K_FIRST_DENSE, 0, 0, &first));
    FIRN_TRY(take(c, K_SPARSE_STEP, 1, 1, &step));
    FIRN_TRY(take(c, K_DENSE_LIST, 0, 0, &listed));
    int dense = first + listed + (a->layers - a->layers / step);
    a->dense_layers = dense < a->layers ? dense : a->layers;
    return FIRN_OK;
}

static enum firn_status take_experts(const struct config *c,
                                     struct firn_arch *a)
{
    int shared = 0;
    FIRN_TRY(take(c, K_EXPERTS, 0, 0, &a->experts));
    if (a->experts == 0)
        return FIRN_OK;
    FIRN_TRY(need(c, K_ACTIVE, &a->active));
    if (a->active > a->experts)
        return firn_fail(
            c->err, FIRN_EINVAL, "%s is %d; there are %d experts (%s)",
            name_of(c, K_ACTIVE), a->active, a->experts, name_of(c, K_EXPERTS));
    FIRN_TRY(take(c, K_EXPERT_FFN, 1, a->ffn, &a->expert_ffn));
    FIRN_TRY(take(c, K_SHARED_EXPERTS, 0, 0, &shared));
    FIRN_TRY(take(c, K_SHARED_FFN, 0, shared * a->expert_ffn, &a->shared_ffn));
    return take_dense(c, a);
}

static void set_bias(struct firn_arch *a, unsigned bits, bool is_on)
{
    a->biases = is_on ? a->biases | bits : a->biases & ~bits;
}

/* Keys of one family or a few. */
static void take_biases(const struct config *c, struct firn_arch *a)
{
    unsigned attention = FIRN_BIAS_QKV | FIRN_BIAS_O;
    bool is_qwen2 =
        strcmp(a->family, "qwen2") == 0 || strcmp(a->family, "qwen2_moe") == 0;
    if (has(c, K_ATTENTION_BIAS) && !is_qwen2)
        set_bias(a, attention, flag(c, K_ATTENTION_BIAS, false));
    if (has(c, K_MLP_BIAS))
        set_bias(a, FIRN_BIAS_MLP, flag(c, K_MLP_BIAS, false));
    if (has(c, K_QKV_BIAS))
        set_bias(a, FIRN_BIAS_QKV, flag(c, K_QKV_BIAS, true));
    if (has(c, K_OPT_BIAS))
        set_bias(a, attention | FIRN_BIAS_MLP, flag(c, K_OPT_BIAS, true));
}

/* bert and roberta: what stands behind the last layer. */
static void take_encoder_head(const struct config *c, struct firn_arch *a)
{
    bool is_bert = strcmp(a->family, "bert") == 0;
    bool is_classifier = strstr(c->head, "ForSequenceClassification") != NULL;
    bool is_bare = strcmp(c->head, "BertModel") == 0 ||
                   strcmp(c->head, "RobertaModel") == 0;
    a->has_pooler = is_bare || (is_classifier && is_bert);
    a->has_head_dense = !is_bare && !(is_classifier && is_bert);
    if (is_classifier)
        a->labels = has(c, K_LABEL_LIST) ? (int)c->number[K_LABEL_LIST] : 2;
    if (is_classifier || is_bare)
        a->biases &= ~(unsigned)FIRN_BIAS_HEAD;
}

static enum firn_status take_kind(const struct config *c, struct firn_arch *a)
{
    bool is_opt = strcmp(a->family, "opt") == 0;
    if (a->learns_positions)
        FIRN_TRY(need(c, K_POSITIONS, &a->positions));
    if (is_opt) {
        a->positions += 2; /* the library's offset */
        FIRN_TRY(take(c, K_EMBED, 1, a->hidden, &a->embed));
        a->embed = a->embed == a->hidden ? 0 : a->embed;
        a->has_final_norm = flag(c, K_NORM_BEFORE, true);
        a->has_plain_norms = !flag(c, K_NORM_AFFINE, true);
    }
    if (a->kind == FIRN_ARCH_ENCODER) {
        FIRN_TRY(take(c, K_TYPES, 0, 2, &a->types));
        take_encoder_head(c, a);
    }
    if (a->kind == FIRN_ARCH_SEQ2SEQ) {
        FIRN_TRY(take(c, K_DECODER_LAYERS, 1, a->layers, &a->decoder_layers));
        FIRN_TRY(take(c, K_BUCKETS, 1, 32, &a->buckets));
    }
    if (a->kind == FIRN_ARCH_VISION) {
        int listed;
        FIRN_TRY(take(c, K_LABEL_LIST, 0, 2, &listed));
        FIRN_TRY(take(c, K_LABELS, 1, listed, &a->labels));
        FIRN_TRY(take(c, K_IMAGE, 1, 224, &a->image));
        FIRN_TRY(take(c, K_PATCH, 1, 16, &a->patch));
        FIRN_TRY(take(c, K_CHANNELS, 1, 3, &a->channels));
    }
    return FIRN_OK;
}

/* The family of the file; an unknown one with llama's keys is taken for it. */
static enum firn_status choose_family(const struct config *c,
                                      struct firn_arch *a)
{
    const char *type = c->type;
    if (strcmp(type, "gemma3") == 0)
        type = "gemma3_text";
    const struct firn_arch *family = arch_family(type);
    if (type[0] == '\0')
        return firn_fail(c->err, FIRN_EINVAL, "model_type is missing");
    if (!family && has(c, K_RMS_EPS) && has(c, K_FFN) && has(c, K_HIDDEN) &&
        has(c, K_VOCAB)) {
        family = arch_family(has(c, K_EXPERTS) ? "mixtral" : "llama");
        str_copy(a->taken, sizeof a->taken, family->family);
    }
    if (!family)
        return firn_fail(c->err, FIRN_ENOENT,
                         "model_type '%.40s' is not known and has not the keys "
                         "of a llama",
                         type);
    if (c->feed[0] != '\0')
        a->is_gated = strncmp(c->feed, "gated", 5) == 0;
    arch_adopt(a, family);
    str_copy(a->name, sizeof a->name, c->type);
    return FIRN_OK;
}

static enum firn_status build(const struct config *c, struct firn_arch *a)
{
    FIRN_TRY(choose_family(c, a));
    FIRN_TRY(need(c, K_HIDDEN, &a->hidden));
    FIRN_TRY(need(c, K_LAYERS, &a->layers));
    FIRN_TRY(take_attention(c, a));
    bool is_gpt2 = strcmp(a->family, "gpt2") == 0;
    if (has(c, K_FFN) || !is_gpt2)
        FIRN_TRY(need(c, K_FFN, &a->ffn));
    else
        a->ffn = 4 * a->hidden;
    if (a->kind != FIRN_ARCH_VISION)
        FIRN_TRY(need(c, K_VOCAB, &a->vocab));
    FIRN_TRY(take_experts(c, a));
    const struct firn_arch *family = arch_family(a->family);
    if (a->kind != FIRN_ARCH_SEQ2SEQ)
        a->is_tied = flag(c, K_TIED, family->is_tied);
    if (flag(c, K_USES_WINDOW, true))
        FIRN_TRY(take(c, K_WINDOW, 0, 0, &a->window));
    /* gemma2 has both caps unless the file says null. */
    bool has_caps = family->has_score_cap;
    a->has_logit_cap = flag(c, K_LOGIT_CAP, has_caps && !c->name[K_LOGIT_CAP]);
    a->has_score_cap = flag(c, K_SCORE_CAP, has_caps && !c->name[K_SCORE_CAP]);
    if (strcmp(a->family, "gpt_neox") == 0)
        a->is_parallel = flag(c, K_PARALLEL, true);
    take_biases(c, a);
    FIRN_TRY(take_kind(c, a));
    return firn_arch_check(a, c->err);
}

enum firn_status firn_arch_read(struct firn_arch *out, struct firn_bytes text,
                                struct firn_error *err)
{
    struct jsonread in;
    struct config c = {.err = err};
    struct firn_arch arch = {0};
    for (int k = 0; k < KEYS; k++)
        c.number[k] = NAN;
    jsonread_init(&in, text.at, text.n, err);
    read_object(&c, &in, false);
    jsonread_end(&in);
    if (in.status != FIRN_OK)
        return in.status;
    FIRN_TRY(build(&c, &arch));
    *out = arch;
    return FIRN_OK;
}
