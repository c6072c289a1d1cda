/* train_page.c - output of `firn train diff` and `firn train show`.
 *
 * Sections of the kinds that are wanted are compared; without a wish all but
 * bookkeeping, which runs of the same training may have in different states
 * (one that reports also measures). First one sentence about the first
 * difference, then the differing sections, then a line per group. The group of
 * a section is the part of its name before the first '/', or one of: weights,
 * optimiser, thread contexts, progress. Values have enough digits to
 * distinguish neighbours; equal texts (NaNs) are followed by the bits.
 */
#include "cli/train_page.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/table.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { VALUE_MAX = 80, SHAPE_MAX = 200 };

/* --- groups --- */

/* Prefix of a section's name, and its group. */
static const char *const kinds[][2] = {
    {"thread/", "thread contexts"}, {"weight", "weights"},
    {"param", "weights"},           {"model", "weights"},
    {"optim", "optimiser"},         {"momentum", "optimiser"},
    {"train/", "progress"},
};

static void group_of(const char *section, char out[FIRN_CKPT_NAME + 1])
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(section, kinds[i][0], strlen(kinds[i][0])) == 0) {
            snprintf(out, FIRN_CKPT_NAME + 1, "%s", kinds[i][1]);
            return;
        }
    snprintf(out, FIRN_CKPT_NAME + 1, "%.*s", (int)strcspn(section, "/"),
             section);
}

/* --- kinds --- */

struct prefix {
    const char *text;
    enum train_kind kind;
};

/* Sections, and parts of a thread's context. The first prefix that fits. */
static const struct prefix sections[] = {
    {"weight", TRAIN_WEIGHTS},
    {"param", TRAIN_WEIGHTS},
    {"model", TRAIN_WEIGHTS},
    {"optim", TRAIN_OPTIMIZER},
    {"momentum", TRAIN_OPTIMIZER},
    {"train/", TRAIN_BOOKKEEPING},
    {"", TRAIN_OTHER},
};
static const struct prefix parts[] = {
    {"buffer", TRAIN_BUFFERS},    {"bn", TRAIN_BUFFERS},
    {"running", TRAIN_BUFFERS},   {"rng", TRAIN_GENERATORS},
    {"torch", TRAIN_GENERATORS},  {"cuda", TRAIN_GENERATORS},
    {"numpy", TRAIN_GENERATORS},  {"python", TRAIN_GENERATORS},
    {"loader", TRAIN_DATA},       {"place", TRAIN_DATA},
    {"sampler", TRAIN_DATA},      {"squares", TRAIN_BOOKKEEPING},
    {"firn-", TRAIN_BOOKKEEPING}, {"", TRAIN_OTHER},
};

static enum train_kind kind_of(const char *section)
{
    const struct prefix *p = sections;
    if (strncmp(section, "thread/", 7) == 0) {
        const char *part = strchr(section + 7, '/');
        section = part != NULL ? part + 1 : "";
        p = parts;
    }
    while (strncmp(section, p->text, strlen(p->text)) != 0)
        p++;
    return p->kind;
}

unsigned train_kinds(const char *words, char word[32])
{
    static const struct prefix names[] = {
        {"weights", TRAIN_WEIGHTS},
        {"optimizer", TRAIN_OPTIMIZER},
        {"optimiser", TRAIN_OPTIMIZER},
        {"buffers", TRAIN_BUFFERS},
        {"generators", TRAIN_GENERATORS},
        {"data", TRAIN_DATA},
        {"other", TRAIN_OTHER},
        {"all", TRAIN_ALL},
        {"bookkeeping", TRAIN_BOOKKEEPING},
        {0},
    };
    unsigned found = 0;
    for (const char *at = words;; at++) {
        size_t n = strcspn(at, ",");
        const struct prefix *p = names;
        while (p->text != NULL &&
               (strlen(p->text) != n || strncmp(at, p->text, n) != 0))
            p++;
        snprintf(word, 32, "%.*s", (int)(n < 31 ? n : 31), at);
        if (p->text == NULL)
            return 0;
        found |= (unsigned)p->kind;
        at += n;
        if (*at == '\0')
            return found;
    }
}

static struct train_group *find_group(struct train_diff *d, const char *section)
{
    char name[FIRN_CKPT_NAME + 1];
    group_of(section, name);
    for (size_t i = 0; i < d->ngroups; i++)
        if (strcmp(d->groups[i].name, name) == 0)
            return &d->groups[i];
    d->groups =
        mem_grow(d->groups, d->ngroups, d->ngroups + 1, sizeof *d->groups);
    struct train_group *group = &d->groups[d->ngroups++];
    memcpy(group->name, name, sizeof name);
    return group;
}

static void add_section(struct train_diff *d, const struct firn_ckpt_section *s)
{
    enum train_kind kind = kind_of(s->name);
    d->nbookkeeping += kind == TRAIN_BOOKKEEPING;
    if (((unsigned)kind & d->kinds) == 0)
        return;
    struct train_group *group = find_group(d, s->name);
    d->nsections++;
    group->nsections++;
    group->nelements += s->nbytes / firn_ckpt_type_bytes(s->type);
}

static void add_difference(void *arg, const struct firn_ckpt_difference *diff)
{
    struct train_diff *d = arg;
    enum train_kind kind = kind_of(diff->name);
    d->nbookkeeping_differ += kind == TRAIN_BOOKKEEPING;
    if (((unsigned)kind & d->kinds) == 0)
        return;
    struct train_group *group = find_group(d, diff->name);
    d->at = mem_grow(d->at, d->n, d->n + 1, sizeof *d->at);
    d->at[d->n++] = *diff;
    group->ndiffer++;
    group->nother +=
        diff->kind == FIRN_CKPT_OTHER_BITS ? diff->ndiffer : diff->nelements;
}

void train_diff_init(struct train_diff *d, const char *const paths[2],
                     const struct firn_ckpt *left,
                     const struct firn_ckpt *right, unsigned compared)
{
    const struct firn_ckpt_section *s;
    *d = (struct train_diff){.left_path = paths[0],
                             .right_path = paths[1],
                             .kinds = compared,
                             .left = left,
                             .right = right};
    for (size_t i = 0; (s = firn_ckpt_at(left, i)) != NULL; i++)
        add_section(d, s);
    for (size_t i = 0; (s = firn_ckpt_at(right, i)) != NULL; i++)
        if (firn_ckpt_find(left, s->name) == NULL)
            add_section(d, s);
    firn_ckpt_compare(left, right, add_difference, d);
}

void train_diff_release(struct train_diff *d)
{
    mem_free(d->at);
    mem_free(d->groups);
}

/* --- values and shapes --- */

/* "f32 16x3x3", or "24 bytes" without a shape */
static void shape_text(const struct firn_ckpt_section *s, char out[SHAPE_MAX])
{
    if (s->type == FIRN_CKPT_BYTES && s->ndims == 0) {
        snprintf(out, SHAPE_MAX, "%" PRIu64 " bytes", s->nbytes);
        return;
    }
    int n = snprintf(out, SHAPE_MAX, "%s", firn_ckpt_type_name(s->type));
    for (unsigned i = 0; i < s->ndims; i++)
        n += snprintf(out + n, SHAPE_MAX - (size_t)n, "%c%" PRIu64,
                      i == 0 ? ' ' : 'x', s->dims[i]);
}

/* "[3,0,1]" for a tensor, "17" for a vector */
static void place_text(const struct firn_ckpt_section *s, uint64_t element,
                       char out[SHAPE_MAX])
{
    uint64_t place[FIRN_CKPT_DIMS];
    int n = 0;
    if (s->ndims < 2) {
        snprintf(out, SHAPE_MAX, "%" PRIu64, element);
        return;
    }
    for (unsigned i = s->ndims; i-- > 0; element /= s->dims[i])
        place[i] = element % s->dims[i];
    for (unsigned i = 0; i < s->ndims; i++)
        n += snprintf(out + n, SHAPE_MAX - (size_t)n, "%c%" PRIu64,
                      i == 0 ? '[' : ',', place[i]);
    snprintf(out + n, SHAPE_MAX - (size_t)n, "]");
}

static const unsigned char *element_at(const struct firn_ckpt_section *s,
                                       uint64_t i)
{
    return (const unsigned char *)s->data + i * firn_ckpt_type_bytes(s->type);
}

/* `value` is the element as a double; 64-bit integers are read exactly. */
static void value_text(const struct firn_ckpt_section *s, uint64_t i,
                       double value, char out[VALUE_MAX])
{
    int64_t wide;
    switch (s->type) {
    case FIRN_CKPT_I64:
        memcpy(&wide, element_at(s, i), sizeof wide);
        snprintf(out, VALUE_MAX, "%" PRId64, wide);
        break;
    case FIRN_CKPT_BYTES:
    case FIRN_CKPT_U8:
    case FIRN_CKPT_I32:
        snprintf(out, VALUE_MAX, "%.0f", value);
        break;
    case FIRN_CKPT_F64:
        snprintf(out, VALUE_MAX, "%.17g", value);
        break;
    case FIRN_CKPT_F32:
        snprintf(out, VALUE_MAX, "%.9g", value);
        break;
    case FIRN_CKPT_F16:
    case FIRN_CKPT_BF16:
    case FIRN_CKPT_NTYPES:
        snprintf(out, VALUE_MAX, "%.5g", value);
    }
}

static void add_bits(const struct firn_ckpt_section *s, uint64_t i,
                     char out[VALUE_MAX])
{
    size_t n = strlen(out);
    n += (size_t)snprintf(out + n, VALUE_MAX - n, " (0x");
    for (size_t b = firn_ckpt_type_bytes(s->type); b-- > 0;)
        n += (size_t)snprintf(out + n, VALUE_MAX - n, "%02x",
                              element_at(s, i)[b]);
    snprintf(out + n, VALUE_MAX - n, ")");
}

struct pair {
    const struct firn_ckpt_section *left, *right;
    char first[2][VALUE_MAX]; /* the values of the first difference */
};

static struct pair pair_of(const struct train_diff *d,
                           const struct firn_ckpt_difference *diff)
{
    struct pair p = {.left = firn_ckpt_find(d->left, diff->name),
                     .right = firn_ckpt_find(d->right, diff->name)};
    if (diff->kind != FIRN_CKPT_OTHER_BITS)
        return p;
    value_text(p.left, diff->first, diff->left, p.first[0]);
    value_text(p.right, diff->first, diff->right, p.first[1]);
    if (strcmp(p.first[0], p.first[1]) == 0) {
        add_bits(p.left, diff->first, p.first[0]);
        add_bits(p.right, diff->first, p.first[1]);
    }
    return p;
}

/* --- the page of differences --- */

/* "part 'rng' of thread 3", "'weights/fc1'". */
static void title(const char *section, struct firn_buf *out)
{
    int thread = 0, end = 0;
    const char *part = NULL;
    if (strncmp(section, "thread/", 7) == 0) {
        for (end = 7; section[end] >= '0' && section[end] <= '9' && end < 16;)
            thread = thread * 10 + (section[end++] - '0');
        part = end > 7 && section[end] == '/' ? section + end + 1 : NULL;
    }
    if (part != NULL)
        buf_printf(out, "part '%s' of thread %d", part, thread);
    else
        buf_printf(out, "'%s'", section);
}

static void say_first(const struct train_diff *d, struct firn_buf *out)
{
    const struct firn_ckpt_difference *diff = &d->at[0];
    struct pair p = pair_of(d, diff);
    char shape[2][SHAPE_MAX], place[SHAPE_MAX];
    title(diff->name, out);
    if (diff->kind == FIRN_CKPT_ONLY_LEFT)
        buf_printf(out, " is only in %s", d->left_path);
    else if (diff->kind == FIRN_CKPT_ONLY_RIGHT)
        buf_printf(out, " is only in %s", d->right_path);
    else if (diff->kind == FIRN_CKPT_OTHER_SHAPE) {
        shape_text(p.left, shape[0]);
        shape_text(p.right, shape[1]);
        buf_printf(out, " is %s on the left, %s on the right", shape[0],
                   shape[1]);
    } else {
        shape_text(p.left, shape[0]);
        place_text(p.left, diff->first, place);
        buf_printf(out, " (%s): %s %s is %s on the left, %s on the right",
                   shape[0],
                   p.left->type == FIRN_CKPT_BYTES ? "byte" : "element", place,
                   p.first[0], p.first[1]);
    }
}

static void list_one(const struct train_diff *d,
                     const struct firn_ckpt_difference *diff, struct table *t)
{
    struct pair p = pair_of(d, diff);
    char shape[SHAPE_MAX], place[SHAPE_MAX], largest[STR_DOUBLE_MAX];
    static const char *const words[] = {
        [FIRN_CKPT_ONLY_LEFT] = "only on the left",
        [FIRN_CKPT_ONLY_RIGHT] = "only on the right",
        [FIRN_CKPT_OTHER_SHAPE] = "another shape",
    };
    const struct firn_ckpt_section *is = p.left != NULL ? p.left : p.right;
    table_cell(t, diff->name);
    shape_text(is, shape);
    table_cell(t, shape);
    if (diff->kind != FIRN_CKPT_OTHER_BITS) {
        table_cell(t, words[diff->kind]);
        for (int i = 0; i < 4; i++)
            table_cell(t, "-");
        return;
    }
    place_text(is, diff->first, place);
    table_cellf(t, "%" PRIu64 " of %" PRIu64, diff->ndiffer, diff->nelements);
    table_cell(t, place);
    table_cell(t, p.first[0]);
    table_cell(t, p.first[1]);
    bool is_number = is->type != FIRN_CKPT_BYTES;
    table_cell(t, is_number ? double_text(diff->largest, largest) : "-");
}

static void list_sections(const struct train_diff *d, size_t most,
                          struct firn_buf *out)
{
    struct table t;
    table_init(&t, "llrrrrr");
    const char *const head[] = {"section", "is",    "differ", "first",
                                "left",    "right", "largest"};
    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        table_cell(&t, head[i]);
    for (size_t i = 0; i < d->n && i < most; i++)
        list_one(d, &d->at[i], &t);
    table_print(&t, out);
    table_release(&t);
    if (d->n > most)
        buf_printf(out, "and %zu more; --all lists them\n", d->n - most);
}

static void list_groups(const struct train_diff *d, struct firn_buf *out)
{
    struct table t;
    table_init(&t, "lrr");
    table_cell(&t, "group");
    table_cell(&t, "sections that differ");
    table_cell(&t, "elements");
    for (size_t i = 0; i < d->ngroups; i++) {
        const struct train_group *g = &d->groups[i];
        table_cell(&t, g->name);
        table_cellf(&t, "%zu of %zu", g->ndiffer, g->nsections);
        table_cellf(&t, "%" PRIu64 " of %" PRIu64, g->nother, g->nelements);
    }
    table_print(&t, out);
    table_release(&t);
}

void train_diff_page(const struct train_diff *d, size_t most,
                     struct firn_buf *out)
{
    if (d->n == 0) {
        buf_printf(out, "equal: %zu sections, bit by bit\n", d->nsections);
    } else {
        buf_puts(out, "first difference: ");
        say_first(d, out);
        buf_puts(out, "\n\n");
        list_sections(d, most, out);
        buf_putc(out, '\n');
        list_groups(d, out);
    }
    if ((d->kinds & TRAIN_BOOKKEEPING) == 0 && d->nbookkeeping_differ > 0)
        buf_printf(out,
                   "not compared: bookkeeping, of which %zu of %zu sections "
                   "differ; --only bookkeeping lists them\n",
                   d->nbookkeeping_differ, d->nbookkeeping);
}

/* --- JSON --- */

static void json_shape(const struct firn_ckpt_section *s, struct firn_buf *out)
{
    buf_printf(out, "{\"type\":\"%s\",\"dims\":[",
               firn_ckpt_type_name(s->type));
    for (unsigned i = 0; i < s->ndims; i++)
        buf_printf(out, "%s%" PRIu64, i > 0 ? "," : "", s->dims[i]);
    buf_printf(out, "],\"bytes\":%" PRIu64 "}", s->nbytes);
}

static void json_difference(const struct train_diff *d,
                            const struct firn_ckpt_difference *diff,
                            struct firn_buf *out)
{
    static const char *const kind[] = {
        [FIRN_CKPT_ONLY_LEFT] = "only-left",
        [FIRN_CKPT_ONLY_RIGHT] = "only-right",
        [FIRN_CKPT_OTHER_SHAPE] = "shape",
        [FIRN_CKPT_OTHER_BITS] = "bits",
    };
    char group[FIRN_CKPT_NAME + 1];
    struct pair p = pair_of(d, diff);
    group_of(diff->name, group);
    buf_puts(out, "{\"section\":");
    buf_json_string(out, diff->name);
    buf_puts(out, ",\"group\":");
    buf_json_string(out, group);
    buf_printf(out, ",\"kind\":\"%s\",\"left\":", kind[diff->kind]);
    if (p.left != NULL)
        json_shape(p.left, out);
    else
        buf_puts(out, "null");
    buf_puts(out, ",\"right\":");
    if (p.right != NULL)
        json_shape(p.right, out);
    else
        buf_puts(out, "null");
    if (diff->kind == FIRN_CKPT_OTHER_BITS) {
        buf_printf(out,
                   ",\"elements\":%" PRIu64 ",\"differ\":%" PRIu64
                   ",\"first\":%" PRIu64 ",\"left_value\":\"%s\","
                   "\"right_value\":\"%s\",\"largest\":",
                   diff->nelements, diff->ndiffer, diff->first, p.first[0],
                   p.first[1]);
        buf_json_double(out, diff->largest);
    }
    buf_putc(out, '}');
}

void train_diff_json(const struct train_diff *d, struct firn_buf *out)
{
    struct firn_buf words = {0};
    buf_puts(out, "{\"left\":");
    buf_json_string(out, d->left_path);
    buf_puts(out, ",\"right\":");
    buf_json_string(out, d->right_path);
    buf_printf(out, ",\"equal\":%s,\"first\":", d->n == 0 ? "true" : "false");
    if (d->n > 0)
        say_first(d, &words);
    if (d->n > 0)
        buf_json_string(out, words.at);
    else
        buf_puts(out, "null");
    buf_puts(out, ",\"differences\":[");
    for (size_t i = 0; i < d->n; i++) {
        buf_puts(out, i > 0 ? "," : "");
        json_difference(d, &d->at[i], out);
    }
    buf_puts(out, "],\"groups\":[");
    for (size_t i = 0; i < d->ngroups; i++) {
        const struct train_group *g = &d->groups[i];
        buf_puts(out, i > 0 ? ",{\"group\":" : "{\"group\":");
        buf_json_string(out, g->name);
        buf_printf(out,
                   ",\"sections\":%zu,\"sections_differ\":%zu,"
                   "\"elements\":%" PRIu64 ",\"elements_differ\":%" PRIu64 "}",
                   g->nsections, g->ndiffer, g->nelements, g->nother);
    }
    buf_printf(out, "],\"bookkeeping_differ\":%zu}\n", d->nbookkeeping_differ);
    buf_release(&words);
}

/* --- one checkpoint --- */

void train_show_page(const struct firn_ckpt *c, const char *path,
                     struct firn_buf *out)
{
    struct table t;
    char shape[SHAPE_MAX], group[FIRN_CKPT_NAME + 1];
    uint64_t nbytes = 0;
    for (size_t i = 0; i < firn_ckpt_count(c); i++)
        nbytes += firn_ckpt_at(c, i)->nbytes;
    buf_printf(out,
               "%s: step %" PRIu64 ", %zu sections, %" PRIu64
               " bytes of data, all checksums are correct\n\n",
               path, firn_ckpt_step(c), firn_ckpt_count(c), nbytes);
    table_init(&t, "lllr");
    table_cell(&t, "section");
    table_cell(&t, "group");
    table_cell(&t, "is");
    table_cell(&t, "bytes");
    for (size_t i = 0; i < firn_ckpt_count(c); i++) {
        const struct firn_ckpt_section *s = firn_ckpt_at(c, i);
        shape_text(s, shape);
        group_of(s->name, group);
        table_cell(&t, s->name);
        table_cell(&t, group);
        table_cell(&t, shape);
        table_cellf(&t, "%" PRIu64, s->nbytes);
    }
    table_print(&t, out);
    table_release(&t);
}

void train_show_json(const struct firn_ckpt *c, const char *path,
                     struct firn_buf *out)
{
    buf_puts(out, "{\"file\":");
    buf_json_string(out, path);
    buf_printf(out, ",\"step\":%" PRIu64 ",\"sections\":[", firn_ckpt_step(c));
    for (size_t i = 0; i < firn_ckpt_count(c); i++) {
        const struct firn_ckpt_section *s = firn_ckpt_at(c, i);
        char group[FIRN_CKPT_NAME + 1];
        group_of(s->name, group);
        buf_puts(out, i > 0 ? ",{\"section\":" : "{\"section\":");
        buf_json_string(out, s->name);
        buf_puts(out, ",\"group\":");
        buf_json_string(out, group);
        buf_puts(out, ",\"is\":");
        json_shape(s, out);
        buf_putc(out, '}');
    }
    buf_puts(out, "]}\n");
}
