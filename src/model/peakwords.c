/* peakwords.c - the settings of a memory prediction by name and word.
 *
 * One table for the command line (`firn memory`) and for `model:` of a job
 * file, so that both take the same words. A row has the setting, where its
 * value goes and its words in the order of the values.
 */
#include <firn/peak.h>

#include "base/str.h"
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { WORDS_MAX = 9 };

static const struct choice {
    const char *setting;
    size_t offset; /* of an enum in the job */
    const char *words[WORDS_MAX];
} choices[] = {
    {"precision",
     offsetof(struct firn_peak_job, mode),
     {"fp32", "amp", "bf16", "bf16-master", "megatron"}},
    {"optimizer",
     offsetof(struct firn_peak_job, optimizer),
     {"adamw", "adamw-foreach", "adamw-fused", "adamw-8bit", "adafactor",
      "lion", "sgd", "sgd-plain"}},
    {"loss",
     offsetof(struct firn_peak_job, loss),
     {"plain", "chunked", "fused"}},
    {"checkpointing",
     offsetof(struct firn_peak_job, recompute),
     {"off", "selective", "layers"}},
    {"adapter",
     offsetof(struct firn_peak_job, adapter),
     {"none", "lora", "dora", "qlora"}},
};

static const struct flag_words {
    const char *setting;
    size_t offset;        /* of a bool in the job */
    const char *words[2]; /* of false and true */
} flags[] = {
    {"attention", offsetof(struct firn_peak_job, is_eager), {"sdpa", "eager"}},
    {"lora_precision",
     offsetof(struct firn_peak_job, is_adapter_half),
     {"fp32", "bf16"}},
    {"gradients",
     offsetof(struct firn_peak_job, keeps_gradients),
     {"free", "keep"}},
    {"reshard", offsetof(struct firn_peak_job, keeps_gathered), {"yes", "no"}},
    {"sequence", offsetof(struct firn_peak_job, is_sequence), {"no", "yes"}},
};

static const struct number {
    const char *setting;
    size_t offset; /* of an int in the job */
    long min, max;
} numbers[] = {
    {"zero", offsetof(struct firn_peak_job, zero), 0, 3},
    {"tp", offsetof(struct firn_peak_job, tp), 1, 1 << 20},
    {"dp", offsetof(struct firn_peak_job, dp), 1, 1 << 20},
    {"pp", offsetof(struct firn_peak_job, pp), 1, 1 << 20},
    {"ep", offsetof(struct firn_peak_job, ep), 1, 1 << 20},
    {"seq", offsetof(struct firn_peak_job, seq), 1, 1 << 24},
    {"micro_batch", offsetof(struct firn_peak_job, micro_batch), 1, 1 << 20},
    {"micro_batches", offsetof(struct firn_peak_job, micro_batches), 1,
     1 << 20},
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* The words of a set: bit i of the value is word i. */
static const char *const projections[] = {"q",  "k",    "v",   "o", "gate",
                                          "up", "down", "all", NULL};
static const char *const offloads[] = {"optimizer", "activations", NULL};

static enum firn_status unknown(const char *word, const char *const *words,
                                size_t n, struct firn_error *err)
{
    char known[160] = "";
    for (size_t i = 0, used = 0; i < n && words[i] && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                                 i ? ", " : "", words[i]);
    return firn_fail(err, FIRN_EINVAL, "'%.40s' is not one of %s", word, known);
}

static int place(const char *word, size_t length, const char *const *words,
                 size_t n)
{
    for (size_t i = 0; i < n && words[i]; i++)
        if (strlen(words[i]) == length && memcmp(words[i], word, length) == 0)
            return (int)i;
    return -1;
}

/* "q,v" or "q+v" to bits. */
static enum firn_status parse_set(const char *text, const char *const *words,
                                  size_t n, unsigned *out,
                                  struct firn_error *err)
{
    unsigned bits = 0;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",+");
        int i = place(at, length, words, n);
        if (i < 0)
            return unknown(text, words, n, err);
        bits |= 1U << i;
        at += length;
        if (*at == '\0')
            break;
    }
    *out = bits;
    return FIRN_OK;
}

static enum firn_status set_projections(struct firn_peak_job *job,
                                        const char *word,
                                        struct firn_error *err)
{
    unsigned bits;
    FIRN_TRY(parse_set(word, projections, COUNT(projections), &bits, err));
    job->on = bits & 128 ? 127 : bits;
    return FIRN_OK;
}

static enum firn_status set_offload(struct firn_peak_job *job, const char *word,
                                    struct firn_error *err)
{
    unsigned bits;
    FIRN_TRY(parse_set(word, offloads, COUNT(offloads), &bits, err));
    job->offloads_optimizer = bits & 1;
    job->offloads_activations = bits & 2;
    return FIRN_OK;
}

static enum firn_status set_rank(struct firn_peak_job *job, const char *word,
                                 struct firn_error *err)
{
    long rank;
    if (!str_int(word, 1, 1 << 20, &rank))
        return firn_fail(err, FIRN_EINVAL,
                         "'%.40s' is no rank: a whole number of at least 1",
                         word);
    job->rank = (int)rank;
    if (job->adapter == FIRN_ADAPTER_NONE)
        job->adapter = FIRN_ADAPTER_LORA;
    return FIRN_OK;
}

static enum firn_status set_number(struct firn_peak_job *job,
                                   const struct number *row, const char *word,
                                   struct firn_error *err)
{
    long value;
    if (!str_int(word, row->min, row->max, &value))
        return firn_fail(err, FIRN_EINVAL,
                         "'%.40s' is no whole number from %ld to %ld", word,
                         row->min, row->max);
    int number = (int)value;
    memcpy((char *)job + row->offset, &number, sizeof number);
    return FIRN_OK;
}

static enum firn_status set_flag(struct firn_peak_job *job,
                                 const struct flag_words *row, const char *word,
                                 struct firn_error *err)
{
    int i = place(word, strlen(word), row->words, 2);
    if (i < 0)
        return unknown(word, row->words, 2, err);
    bool is_on = i == 1;
    memcpy((char *)job + row->offset, &is_on, sizeof is_on);
    return FIRN_OK;
}

static enum firn_status set_choice(struct firn_peak_job *job,
                                   const struct choice *row, const char *word,
                                   struct firn_error *err)
{
    int i = place(word, strlen(word), row->words, WORDS_MAX);
    if (i < 0)
        return unknown(word, row->words, WORDS_MAX, err);
    /* every enum of the job is as wide as an int: checked below */
    memcpy((char *)job + row->offset, &i, sizeof i);
    return FIRN_OK;
}

_Static_assert(sizeof(enum firn_peak_mode) == sizeof(int) &&
                   sizeof(enum firn_peak_optimizer) == sizeof(int) &&
                   sizeof(enum firn_peak_loss) == sizeof(int) &&
                   sizeof(enum firn_peak_recompute) == sizeof(int) &&
                   sizeof(enum firn_peak_adapter) == sizeof(int),
               "an enum is an int");

enum firn_status firn_peak_set(struct firn_peak_job *job, const char *setting,
                               const char *word, struct firn_error *err)
{
    for (size_t i = 0; i < COUNT(choices); i++)
        if (strcmp(choices[i].setting, setting) == 0)
            return set_choice(job, &choices[i], word, err);
    for (size_t i = 0; i < COUNT(flags); i++)
        if (strcmp(flags[i].setting, setting) == 0)
            return set_flag(job, &flags[i], word, err);
    for (size_t i = 0; i < COUNT(numbers); i++)
        if (strcmp(numbers[i].setting, setting) == 0)
            return set_number(job, &numbers[i], word, err);
    if (strcmp(setting, "lora_on") == 0)
        return set_projections(job, word, err);
    if (strcmp(setting, "offload") == 0)
        return set_offload(job, word, err);
    if (strcmp(setting, "lora") == 0)
        return set_rank(job, word, err);
    return firn_fail(err, FIRN_ENOENT, "there is no setting '%.40s'", setting);
}

/* --- the breakdown ---------------------------------------------------------
 */

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
