/* arch.h - the architecture of a transformer, from a Hugging Face config.json.
 *
 * llm.h has the three shapes that the papers of firn's policies use. This
 * header has what users train: decoders (llama, mistral, qwen2, qwen3, gemma,
 * gemma2, gemma3, phi3, gpt_neox, opt, gpt2), mixtures of experts (mixtral,
 * qwen2_moe, qwen3_moe), latent attention (deepseek_v2, deepseek_v3), encoders
 * (bert, roberta), t5 and vit. An architecture is a list of numbers, so that
 * counting parameters (below) and bytes (peak.h) needs no name of a family.
 *
 * Parameters are counted exactly: tests/model/test_arch.c compares them with
 * those of the classes of the transformers library for every family.
 */
#ifndef FIRN_ARCH_H
#define FIRN_ARCH_H
#include <firn/bytes.h>
#include <firn/llm.h>

FIRN_C_BEGIN

enum firn_arch_kind {
    FIRN_ARCH_DECODER,
    FIRN_ARCH_ENCODER, /* bert, roberta */
    FIRN_ARCH_SEQ2SEQ, /* t5: `layers` of the encoder, `decoder_layers` */
    FIRN_ARCH_VISION,  /* vit: patches are the tokens */
};

enum firn_arch_norm {
    FIRN_NORM_RMS,
    FIRN_NORM_GEMMA, /* RMS, scaled by 1 + weight in fp32 */
    FIRN_NORM_LAYER, /* with weight and bias */
    FIRN_NORM_T5,    /* RMS, which keeps its input in both precisions */
};

/* How the MLP bends. The library computes each but the last in one kernel. */
enum firn_arch_act {
    FIRN_ACT_SMOOTH,   /* SiLU, GELU: keeps input and output */
    FIRN_ACT_RELU,     /* keeps the output, which the next product keeps too */
    FIRN_ACT_GELU_NEW, /* GPT-2's, written out in single operations */
};

/* Which matrices have a bias. */
enum {
    FIRN_BIAS_QKV = 1,
    FIRN_BIAS_O = 2,
    FIRN_BIAS_MLP = 4,
    FIRN_BIAS_HEAD = 8, /* the output */
};

enum { FIRN_ARCH_NAME_MAX = 48 };

struct firn_arch {
    char name[FIRN_ARCH_NAME_MAX];   /* as asked for; of a file: its family */
    char family[FIRN_ARCH_NAME_MAX]; /* model_type */
    char taken[FIRN_ARCH_NAME_MAX];  /* "": known; else what the unknown family
                                      * was taken for */
    enum firn_arch_kind kind;
    enum firn_arch_norm norm;
    enum firn_arch_act act;
    int hidden, layers, heads, kv_heads, head_dim, ffn, vocab;
    int norms;       /* of width hidden in a layer */
    unsigned biases; /* FIRN_BIAS_* */
    bool is_tied, is_gated;
    bool is_fused_qkv;     /* one matrix gives q, k and v */
    bool is_parallel;      /* attention and MLP take the same input */
    bool has_qk_norm;      /* of width head_dim, on q and on k */
    bool has_plain_norms;  /* norms without parameters */
    bool has_final_norm;   /* behind the last layer */
    bool has_dropout;      /* two masks a layer, of width hidden */
    bool has_mask;         /* attention adds a learned bias: no fused kernel */
    bool has_logit_cap;    /* tanh on the logits */
    bool has_score_cap;    /* tanh on the scores of attention: always eager */
    bool adapts_experts;   /* peft puts LoRA of MLPs on the experts alone */
    bool learns_positions; /* at least as many as the sequence is long */
    int positions, types;  /* learned positions; token types */
    int window;            /* of attention in tokens; 0: all */
    int embed;             /* width of the embedding when not hidden (OPT) */
    bool has_head_dense;   /* bert: h x h and a norm before the output */
    bool has_pooler;       /* bert: h x h */
    int labels;            /* classes; 0: the output is the vocabulary */
    /* Mixture of experts; 0: none. */
    int experts, active, expert_ffn;
    int shared_ffn;       /* of experts that every token passes; 0: none */
    bool has_shared_gate; /* a row of hidden weights in front of them */
    int dense_layers;     /* layers with an MLP of width ffn instead */
    /* Latent attention; kv_rank 0: none. */
    int q_rank, kv_rank, nope_dim, rope_dim, v_dim;
    /* t5 */
    int decoder_layers, buckets;
    /* vit */
    int image, patch, channels;
};

/* The architectures known by name: their number, and each. */
FIRN_API size_t firn_arch_count(void);
FIRN_API void firn_arch_at(size_t i, struct firn_arch *out);

/* The architecture called `name` (case does not matter); the shapes of llm.h
 * are found too. FIRN_ENOENT with the nearest name when there is none. */
FIRN_API enum firn_status
firn_arch_find(struct firn_arch *out, const char *name, struct firn_error *err);
FIRN_API struct firn_arch firn_arch_of_shape(const struct firn_llm_shape *s);

/* Reads the text of a config.json. FIRN_EINVAL names the key that is missing
 * or has a value that makes no sense; FIRN_ENOENT: the family is not known and
 * resembles none that is. */
FIRN_API enum firn_status firn_arch_read(struct firn_arch *out,
                                         struct firn_bytes text,
                                         struct firn_error *err);

/* FIRN_EINVAL, with the number that makes no sense. */
FIRN_API enum firn_status firn_arch_check(const struct firn_arch *arch,
                                          struct firn_error *err);

/* Width of all queries together, of the keys, and of the values. */
FIRN_API double firn_arch_q_width(const struct firn_arch *arch);
FIRN_API double firn_arch_k_width(const struct firn_arch *arch);
FIRN_API double firn_arch_v_width(const struct firn_arch *arch);

/* Parameters. Of a layer: `is_dense` chooses the MLP where others have experts;
 * for t5 a layer of the encoder. */
FIRN_API double firn_arch_layer_params(const struct firn_arch *arch,
                                       bool is_dense);
FIRN_API double firn_arch_decoder_params(const struct firn_arch *arch); /* t5 */
FIRN_API double firn_arch_experts_params(const struct firn_arch *arch);
FIRN_API double firn_arch_embed_params(const struct firn_arch *arch);
FIRN_API double firn_arch_head_params(const struct firn_arch *arch);
FIRN_API double firn_arch_params(const struct firn_arch *arch);

/* Parameters in matrices of layers, which 4-bit quantisation packs. */
FIRN_API double firn_arch_matrix_params(const struct firn_arch *arch);

/* Parameters that LoRA of rank `rank` adds on the projections `on`
 * (FIRN_LLM_*); `width` (or NULL) gets the sum of the output widths of a layer,
 * which DoRA has one magnitude for each. */
FIRN_API double firn_arch_lora_params(const struct firn_arch *arch, int rank,
                                      unsigned on, double *width);

FIRN_C_END

#endif
