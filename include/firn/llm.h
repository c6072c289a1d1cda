/* llm.h - the shape of a transformer: by name or by numbers.
 *
 * Three families differ in what a layer is made of:
 *
 *   GPT2   layer norms with bias, one MLP of width `ffn` with the tanh GELU
 *          written out in single operations, learned positions, embedding and
 *          output tied, dropout 0.1
 *   BERT   the same with a fused GELU, token types and a pooler
 *   LLAMA  RMS norms without bias, rotary positions, a gated MLP (three
 *          matrices h x ffn), grouped queries (`kv_heads` < `heads`), no
 *          dropout
 *
 * The parameters are counted exactly: the counts agree with those published
 * for every named shape and with those of the measured tables.
 */
#ifndef FIRN_LLM_H
#define FIRN_LLM_H
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>

FIRN_C_BEGIN

enum firn_llm_family { FIRN_LLM_GPT2, FIRN_LLM_BERT, FIRN_LLM_LLAMA };

struct firn_llm_shape {
    const char *name; /* static or the caller's; NULL: by numbers */
    enum firn_llm_family family;
    bool is_tied;  /* output shares the embedding's weights */
    int hidden;    /* h */
    int layers;    /* l */
    int heads;     /* a; divides hidden */
    int kv_heads;  /* divides heads; 0: as many as heads */
    int ffn;       /* inner width of the MLP; 0: 4 h */
    int vocab;     /* V */
    int positions; /* learned ones; at least as many as the sequence is long */
};

/* Projections of a layer, for LoRA: a set of these. */
enum {
    FIRN_LLM_Q = 1,
    FIRN_LLM_K = 2,
    FIRN_LLM_V = 4,
    FIRN_LLM_O = 8,
    FIRN_LLM_GATE = 16, /* gated MLPs only */
    FIRN_LLM_UP = 32,
    FIRN_LLM_DOWN = 64,
};

/* All named shapes; `n` gets their number. */
FIRN_API const struct firn_llm_shape *firn_llm_shapes(size_t *n);

/* Before "1024x24x16x50257": hidden, layers, heads and words of a GPT2. */
#define FIRN_LLM_PREFIX "llm-"

/* The shape called `name` (case does not matter), or written in numbers behind
 * FIRN_LLM_PREFIX, into `out`. FIRN_ENOENT with the nearest name when there is
 * none. */
FIRN_API enum firn_status firn_llm_find(struct firn_llm_shape *out,
                                        const char *name,
                                        struct firn_error *err);

/* Zeros that stand for a default are filled in; FIRN_EINVAL when a number
 * makes no sense (the sentence says which). */
FIRN_API enum firn_status firn_llm_complete(struct firn_llm_shape *shape,
                                            struct firn_error *err);

/* The functions below want a complete shape. */

/* Parameters of one layer; of the whole model for sequences of `seq`. */
FIRN_API double firn_llm_layer_params(const struct firn_llm_shape *shape);
FIRN_API double firn_llm_params(const struct firn_llm_shape *shape, int seq);

/* Parameters that LoRA of rank `rank` adds on the projections `on`. */
FIRN_API double firn_llm_lora_params(const struct firn_llm_shape *shape,
                                     int rank, unsigned on);

FIRN_C_END

#endif
