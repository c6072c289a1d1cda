/* llm.c - transformers by name, and how many parameters they have.
 *
 * With h hidden, f inner width, k = h kv_heads / heads, V tokens in the
 * vocabulary, P positions:
 *
 *   GPT2   V h + P h + l (12 h^2 + 13 h) + 2 h           (for f = 4 h, k = h)
 *   BERT   (V + P + 2) h + 2 h + l (12 h^2 + 13 h) + h^2 + h
 *   LLAMA  V h (twice when not tied) + l (2 h^2 + 2 h k + 3 h f + 2 h) + h
 *
 * GPT-2's is Frenzy's W = V h + l (12 h^2 + 13 h) plus positions and the last
 * norm. Counts are doubles: exact up to 2^53, and bytes are derived from them.
 */
#include <firn/llm.h>

#include "base/str.h"
#include "model/range.h"
#include <stdlib.h>
#include <string.h>

static const struct firn_llm_shape table[] = {
#define SHAPE(name, family, tied, hidden, layers, heads, kv_heads, ffn, vocab, \
              positions)                                                       \
    {name,  FIRN_LLM_##family, tied, hidden, layers,                           \
     heads, kv_heads,          ffn,  vocab,  positions},
#include "model/llm_shapes.def"
#undef SHAPE
};

enum { NTABLE = sizeof table / sizeof *table };

const struct firn_llm_shape *firn_llm_shapes(size_t *n)
{
    *n = NTABLE;
    return table;
}

/* Parses "llm-1024x24x16x50257"; false for any other name. */
static bool by_numbers(struct firn_llm_shape *out, const char *name)
{
    long number[4];
    char *end = NULL;
    if (strncmp(name, FIRN_LLM_PREFIX, strlen(FIRN_LLM_PREFIX)) != 0)
        return false;
    const char *at = name + strlen(FIRN_LLM_PREFIX);
    for (int i = 0; i < 4; i++, at = end + 1) {
        number[i] = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : 0;
        if (number[i] < 1 || number[i] > 1 << 26 ||
            *end != (i < 3 ? 'x' : '\0'))
            return false;
    }
    struct firn_llm_shape shape = {.family = FIRN_LLM_GPT2,
                                   .is_tied = true,
                                   .hidden = (int)number[0],
                                   .layers = (int)number[1],
                                   .heads = (int)number[2],
                                   .vocab = (int)number[3]};
    if (firn_llm_complete(&shape, NULL) != FIRN_OK)
        return false;
    *out = shape;
    return true;
}

enum firn_status firn_llm_find(struct firn_llm_shape *out, const char *name,
                               struct firn_error *err)
{
    const char *names[NTABLE];
    if (by_numbers(out, name))
        return FIRN_OK;
    for (int i = 0; i < NTABLE; i++) {
        names[i] = table[i].name;
        if (str_equal_nocase(names[i], name)) {
            *out = table[i];
            return FIRN_OK;
        }
    }
    int best = str_nearest(name, names, NTABLE);
    if (best < 0)
        return firn_fail(err, FIRN_ENOENT, "no model '%.40s'", name);
    return firn_fail(err, FIRN_ENOENT, "no model '%.40s'; did you mean '%s'?",
                     name, names[best]);
}

enum firn_status firn_llm_complete(struct firn_llm_shape *shape,
                                   struct firn_error *err)
{
    struct firn_llm_shape s = *shape;
    FIRN_TRY(range_check("hidden", s.hidden, 1, 1 << 20, err));
    FIRN_TRY(range_check("layers", s.layers, 1, 1 << 16, err));
    FIRN_TRY(range_check("heads", s.heads, 1, 1 << 16, err));
    FIRN_TRY(range_check("vocab", s.vocab, 1, 1 << 26, err));
    if (s.kv_heads == 0)
        s.kv_heads = s.heads;
    if (s.ffn == 0)
        s.ffn = 4 * s.hidden;
    FIRN_TRY(range_check("kv_heads", s.kv_heads, 1, s.heads, err));
    FIRN_TRY(range_check("ffn", s.ffn, 1, 1 << 24, err));
    if (s.hidden % s.heads != 0)
        return firn_fail(err, FIRN_EINVAL,
                         "hidden (%d) is no multiple of heads (%d)", s.hidden,
                         s.heads);
    if (s.heads % s.kv_heads != 0)
        return firn_fail(err, FIRN_EINVAL,
                         "heads (%d) is no multiple of kv_heads (%d)", s.heads,
                         s.kv_heads);
    if (s.positions < 0)
        return firn_fail(err, FIRN_EINVAL, "positions is %d", s.positions);
    *shape = s;
    return FIRN_OK;
}

/* Width of the keys, and of the values. */
static double kv_width(const struct firn_llm_shape *s)
{
    if (s->kv_heads == s->heads)
        return s->hidden;
    return (double)s->hidden / s->heads * s->kv_heads;
}

double firn_llm_layer_params(const struct firn_llm_shape *shape)
{
    double h = shape->hidden, f = shape->ffn, k = kv_width(shape);
    double attention = 2 * h * h + 2 * h * k;
    if (shape->family == FIRN_LLM_LLAMA)
        return attention + 3 * h * f + 2 * h;
    double biases = 2 * h + 2 * k + f + h;
    return attention + 2 * h * f + biases + 4 * h;
}

double firn_llm_params(const struct firn_llm_shape *shape, int seq)
{
    double h = shape->hidden;
    double tokens = (double)shape->vocab * h * (shape->is_tied ? 1 : 2);
    double layers = shape->layers * firn_llm_layer_params(shape);
    double positions = (shape->positions > seq ? shape->positions : seq) * h;
    switch (shape->family) {
    case FIRN_LLM_GPT2:
        return tokens + positions + layers + 2 * h;
    case FIRN_LLM_BERT:
        return tokens + positions + 2 * h + 2 * h + layers + h * h + h;
    case FIRN_LLM_LLAMA:
        break;
    }
    return tokens + layers + h;
}

double firn_llm_lora_params(const struct firn_llm_shape *shape, int rank,
                            unsigned on)
{
    double h = shape->hidden, f = shape->ffn, k = kv_width(shape);
    double sides = 0;
    if (on & FIRN_LLM_Q)
        sides += h + h;
    if (on & FIRN_LLM_K)
        sides += h + k;
    if (on & FIRN_LLM_V)
        sides += h + k;
    if (on & FIRN_LLM_O)
        sides += h + h;
    if ((on & FIRN_LLM_GATE) && shape->family == FIRN_LLM_LLAMA)
        sides += h + f;
    if (on & FIRN_LLM_UP)
        sides += h + f;
    if (on & FIRN_LLM_DOWN)
        sides += f + h;
    return rank * sides * shape->layers;
}
