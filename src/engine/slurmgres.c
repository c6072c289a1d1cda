/* slurmgres.c - lists of generic resources, and the GPUs in them.
 *
 * Three ways to name GPUs:
 *
 *     gpu:4                          no type; in use "gpu:2", or, where cores
 *                                    are bound to GPUs, "gpu:(null):2(IDX:0-1)"
 *     gpu:a100:4(S:0-1)              SLURM_COUNTS
 *     gpu:a100s0:1,gpu:a100s1:1      SLURM_SLOTS: 0 to n - 1, one of each
 *
 * With slots the index of a GPU is in its type, else in the brackets of
 * GresUsed, "gpu:a100:2(IDX:0,3)". If the brackets hold anything else, the
 * indices are unknown, and `nused` is an upper bound.
 *
 * Cost: O(bytes).
 */
#include "engine/slurmgres.h"
#include <string.h>

static const int64_t count_max = (int64_t)1 << 40;

static bool is(struct firn_bytes text, const char *name)
{
    return strlen(name) == text.n && memcmp(text.at, name, text.n) == 0;
}

static const char no_type[] = "(null)";
enum { NO_TYPE = sizeof no_type - 1 };

static bool same(struct firn_bytes a, struct firn_bytes b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.at, b.at, a.n) == 0);
}

/* --- entries -------------------------------------------------------------- */

/* Reads "4", "2K"; false: a type, not a count. */
static bool read_count(struct firn_bytes text, int64_t *out)
{
    static const char units[] = "KMGTP";
    const char *unit = text.n > 0 && text.at[text.n - 1] != '\0'
                           ? strchr(units, text.at[text.n - 1])
                           : NULL;
    int64_t value = 0;
    if (unit != NULL)
        text.n--;
    if (!slurm_number_read(text, count_max, &value))
        return false;
    for (const char *u = units; unit != NULL && u <= unit; u++)
        value = value > count_max / 1024 ? count_max : value * 1024;
    *out = value;
    return true;
}

/* Reads the parts between the colons. */
static bool read_words(struct firn_bytes text, struct gres *out)
{
    for (int i = 0;; i++) {
        const char *colon = memchr(text.at, ':', text.n);
        size_t n = colon != NULL ? (size_t)(colon - text.at) : text.n;
        struct firn_bytes word = {text.at, n};
        bool is_last = colon == NULL;
        bool is_untyped = i == 1 && !is_last && is(word, no_type);
        if (!slurm_is_name(word) && !is_untyped)
            return false;
        if (i == 0)
            out->kind = word;
        else if (is_untyped)
            out->type.n = 0;
        else if (is(word, "no_consume"))
            out->is_free = true;
        else if (is_last && read_count(word, &out->count))
            return true;
        else if (out->type.n == 0)
            out->type = word;
        else
            return false;
        if (is_last)
            return true;
        text.at += n + 1;
        text.n -= n + 1;
        if (text.n == 0)
            return false;
    }
}

enum found { ODD = -1, NONE, ONE };

/* Takes the next entry off. Commas within brackets are not between entries. */
static enum found gres_next(struct firn_bytes *rest, struct gres *out)
{
    *out = (struct gres){.count = 1};
    if (rest->n == 0)
        return NONE;
    size_t n = 0, open = 0, close = 0;
    for (; n < rest->n && (open > close || rest->at[n] != ','); n++) {
        if (n > 0 && rest->at[n - 1] == ':' && rest->n - n > NO_TYPE &&
            memcmp(rest->at + n, no_type, NO_TYPE) == 0 && open == 0)
            n += NO_TYPE - 1;
        else if (rest->at[n] == '(' && open == 0)
            open = n;
        else if (rest->at[n] == ')' && open > 0 && close == 0)
            close = n;
        else if (rest->at[n] == '(' || rest->at[n] == ')' || close > 0)
            return ODD;
    }
    struct firn_bytes entry = {rest->at, open > 0 ? open : n};
    if (open > close || n == 0 || !read_words(entry, out))
        return ODD;
    if (open > 0)
        out->where = (struct firn_bytes){rest->at + open + 1, close - open - 1};
    bool has_comma = n < rest->n;
    rest->at += n + has_comma;
    rest->n -= n + has_comma;
    return has_comma && rest->n == 0 ? ODD : ONE;
}

bool gres_read(struct gres_list *out, struct firn_bytes text)
{
    struct gres gres;
    enum found found = NONE;
    if (is(text, "(null)") || is(text, "N/A"))
        return true;
    while ((found = gres_next(&text, &gres)) == ONE)
        vec_add(&out->entries, gres);
    return found == NONE;
}

/* --- which GPUs there are ------------------------------------------------- */

/* "a100s12" is slot 12 of "a100"; -1: no slot. */
static int slot_of(struct firn_bytes type, struct firn_bytes *base)
{
    size_t n = type.n;
    int64_t slot = -1;
    if (n == 0)
        return -1;
    while (n > 0 && type.at[n - 1] >= '0' && type.at[n - 1] <= '9')
        n--;
    struct firn_bytes digits = {type.at + n, type.n - n};
    if (n < 2 || type.at[n - 1] != 's' ||
        (digits.n > 1 && digits.at[0] == '0') ||
        !slurm_number_read(digits, FIRN_NODE_GPUS_MAX - 1, &slot))
        return -1;
    *base = (struct firn_bytes){type.at, n - 1};
    return (int)slot;
}

static bool is_gpu(const struct gres *gres)
{
    return is(gres->kind, "gpu");
}

static bool is_share(const struct gres *gres)
{
    return is(gres->kind, "shard") || is(gres->kind, "mps");
}

static void set_bit(uint64_t *bits, int i)
{
    bits[i / 64] |= (uint64_t)1 << i % 64;
}

static int count_bits(const uint64_t bits[16])
{
    int n = 0;
    for (int i = 0; i < 16; i++)
        n += __builtin_popcountll(bits[i]);
    return n;
}

/* True: each GPU has one slot, and the slots are 0 to n - 1. */
static bool are_slots(const struct gres_list *list, int64_t ngpus,
                      struct firn_bytes *base)
{
    uint64_t seen[16] = {0};
    struct firn_bytes first = {0}, mine;
    if (ngpus < 1 || ngpus > FIRN_NODE_GPUS_MAX)
        return false;
    for (size_t i = 0; i < list->entries.n; i++) {
        const struct gres *gres = &list->entries.at[i];
        if (!is_gpu(gres))
            continue;
        int slot = slot_of(gres->type, &mine);
        if (gres->count != 1 || slot < 0 || slot >= ngpus)
            return false;
        if (first.n == 0)
            first = mine;
        if (!same(first, mine))
            return false;
        set_bit(seen, slot);
    }
    if (count_bits(seen) != (int)ngpus)
        return false;
    *base = first;
    return true;
}

/* Sets the shares of a GPU, if all GPUs have the same number. Slurm gives out
 * gres/mps of one GPU of a node at a time, so with more GPUs it is not used. */
static void set_shares(struct slurm_node *out, const struct gres_list *list,
                       const char *kind)
{
    uint64_t seen[16] = {0};
    int64_t each = 0;
    struct firn_bytes base;
    for (size_t i = 0; i < list->entries.n; i++) {
        const struct gres *gres = &list->entries.at[i];
        if (!is(gres->kind, kind))
            continue;
        int slot = slot_of(gres->type, &base);
        if (slot < 0 || slot >= out->ngpus || gres->count < 1 ||
            gres->count > INT32_MAX || (each > 0 && gres->count != each) ||
            !is(base, out->type))
            return;
        each = gres->count;
        set_bit(seen, slot);
    }
    if (count_bits(seen) != out->ngpus)
        return;
    out->is_mps = strcmp(kind, "mps") == 0;
    out->shards_per_gpu = out->is_mps && out->ngpus > 1 ? 0 : (int)each;
}

const char *gres_gpus(struct slurm_node *out, const struct gres_list *list,
                      struct arena *arena)
{
    int64_t ngpus = 0;
    bool has_one = false, is_mixed = false, is_free = false;
    struct firn_bytes type = {0};
    for (size_t i = 0; i < list->entries.n; i++) {
        const struct gres *gres = &list->entries.at[i];
        if (!is_gpu(gres))
            continue;
        is_mixed = is_mixed || (has_one && !same(type, gres->type));
        is_free = is_free || gres->is_free;
        type = gres->type;
        has_one = true;
        ngpus = ngpus > count_max ? ngpus : ngpus + gres->count;
    }
    bool by_slots = are_slots(list, ngpus, &type);
    if (is_free)
        return "its GPUs have no_consume: Slurm does not count their use";
    if (is_mixed && !by_slots)
        return "it has GPUs of several types, which is not supported";
    if (ngpus > FIRN_NODE_GPUS_MAX)
        return "it has more GPUs than firn supports";
    if (type.n >= FIRN_NAME_MAX)
        return "the name of its GPU type is too long";
    out->ngpus = (int)ngpus;
    out->naming = by_slots ? SLURM_SLOTS : SLURM_COUNTS;
    out->type = ngpus == 0 ? "" : type.n > 0 ? slurm_keep(arena, type) : "gpu";
    if (by_slots) {
        set_shares(out, list, "mps");
        set_shares(out, list, "shard"); /* preferred if there are both */
    }
    return NULL;
}

/* --- which of them are in use --------------------------------------------- */

/* Reads indices below n, "0-2,5"; false: anything else. */
static bool read_indices(struct firn_bytes text, int n, uint64_t out[16])
{
    while (text.n > 0) {
        const char *comma = memchr(text.at, ',', text.n);
        size_t size = comma != NULL ? (size_t)(comma - text.at) : text.n;
        const char *dash = memchr(text.at, '-', size);
        size_t nlow = dash != NULL ? (size_t)(dash - text.at) : size;
        struct firn_bytes low = {text.at, nlow}, high = low;
        int64_t a = 0, b = 0;
        if (dash != NULL)
            high = (struct firn_bytes){dash + 1, size - nlow - 1};
        if (!slurm_number_read(low, n - 1, &a) ||
            !slurm_number_read(high, n - 1, &b) || a > b)
            return false;
        for (int64_t i = a; i <= b; i++)
            set_bit(out, (int)i);
        if (comma != NULL && size + 1 == text.n)
            return false;
        text.at += size + (comma != NULL);
        text.n -= size + (comma != NULL);
    }
    return true;
}

/* Marks the GPUs of one entry as used; false: their indices are unknown. */
static bool set_used(struct slurm_node *out, const struct gres *gres)
{
    static const char head[] = "IDX:";
    enum { HEAD = sizeof head - 1 };
    if (out->ngpus == 0)
        return false;
    if (out->naming == SLURM_SLOTS) {
        struct firn_bytes base;
        int slot = slot_of(gres->type, &base);
        if (slot < 0 || slot >= out->ngpus || !is(base, out->type))
            return false;
        set_bit(out->used, slot);
        return true;
    }
    uint64_t bits[16] = {0};
    if (gres->where.n <= HEAD || memcmp(gres->where.at, head, HEAD) != 0 ||
        !read_indices(
            (struct firn_bytes){gres->where.at + HEAD, gres->where.n - HEAD},
            out->ngpus, bits))
        return false;
    for (int i = 0; i < 16; i++)
        out->used[i] |= bits[i];
    return gres->count <= count_bits(bits) || !is_gpu(gres);
}

void gres_used(struct slurm_node *out, const struct gres_list *list)
{
    int64_t unknown = 0;
    out->has_indices = true;
    for (size_t i = 0; i < list->entries.n; i++) {
        const struct gres *gres = &list->entries.at[i];
        if ((!is_gpu(gres) && !is_share(gres)) || gres->count == 0 ||
            set_used(out, gres))
            continue;
        out->has_indices = false;
        unknown = unknown > count_max ? unknown : unknown + gres->count;
    }
    int64_t nused = count_bits(out->used) + unknown;
    out->nused = nused < out->ngpus ? (int)nused : out->ngpus;
}
