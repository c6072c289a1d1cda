/* jobfile_tree.c - the events of libyaml made into a tree.
 *
 * The stack of open nodes is as deep as the tree may be; a key waits until its
 * value comes. A mapping's keys are compared with all before them, which is
 * why their number is bounded: 1024 keys are half a million comparisons.
 */
#include "daemon/jobfile_tree.h"
#include "base/yamltext.h"
#include <stdio.h>
#include <string.h>

struct build {
    struct arena *arena;
    struct tree *root;
    struct tree *open[TREE_DEPTH];
    int depth, ndocuments;
    const char *key; /* of the member whose value comes next */
    long key_line;
    char why[160];
};

/* C0, DEL, and C1 as UTF-8 writes them; ends of lines and tabs are fine where
 * `is_program`. */
static bool has_control(const char *text, size_t n, bool is_program)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        unsigned char next = (unsigned char)(i + 1 < n ? text[i + 1] : 0);
        if (is_program && (c == '\n' || c == '\t'))
            continue;
        if (c < ' ' || c == 0x7f || (c == 0xc2 && next < 0xa0))
            return true;
    }
    return false;
}

static struct tree *top(const struct build *b)
{
    return b->depth > 0 ? b->open[b->depth - 1] : NULL;
}

/* An argument of `run: [...]` or a value of `env: {...}`: bytes for a program,
 * which are always shown escaped. "python3 -c" takes programs of many lines. So
 * does the text of a config.json. */
static bool is_program(const struct build *b)
{
    const struct tree *parent = top(b);
    if (b->depth != 2 || parent->key == NULL)
        return false;
    if (parent->kind == TREE_LIST)
        return strcmp(parent->key, "run") == 0;
    if (b->key != NULL && strcmp(b->key, "config") == 0 &&
        strcmp(parent->key, "model") == 0)
        return true;
    return b->key != NULL && strcmp(parent->key, "env") == 0;
}

static const char *add(struct build *b, struct tree *node)
{
    struct tree *parent = top(b);
    if (parent == NULL) {
        b->root = node;
        return NULL;
    }
    if (parent->n == TREE_MEMBERS)
        return "too many entries";
    node->key = b->key;
    if (b->key != NULL)
        node->line = b->key_line;
    b->key = NULL;
    if (parent->last != NULL)
        parent->last->next = node;
    else
        parent->first = node;
    parent->last = node;
    parent->n++;
    return NULL;
}

static const char *take_key(struct build *b, const char *text, long line)
{
    for (const struct tree *t = top(b)->first; t != NULL; t = t->next)
        if (strcmp(t->key, text) == 0) {
            snprintf(b->why, sizeof b->why,
                     "'%.60s' is given twice, first in line %ld", text,
                     t->line);
            return b->why;
        }
    b->key = text;
    b->key_line = line;
    return NULL;
}

static const char *take_word(struct build *b, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    long line = (long)event->start_mark.line + 1;
    if (b->depth == 0)
        return "a single word, where 'run: ...' and other keys should be";
    if (event->data.scalar.tag != NULL || event->data.scalar.anchor != NULL)
        return "tags and anchors are not used in job files";
    if (has_control(text, event->data.scalar.length, is_program(b)))
        return "control characters are not used in job files";
    const char *kept = arena_strdup(b->arena, text);
    if (top(b)->kind == TREE_MAP && b->key == NULL)
        return take_key(b, kept, line);
    struct tree *node = arena_alloc(b->arena, sizeof *node);
    node->kind = TREE_WORD;
    node->text = kept;
    node->line = line;
    return add(b, node);
}

static const char *take_start(struct build *b, const yaml_event_t *event)
{
    bool is_map = event->type == YAML_MAPPING_START_EVENT;
    const yaml_char_t *tag =
        is_map ? event->data.mapping_start.tag : event->data.sequence_start.tag;
    const yaml_char_t *anchor = is_map ? event->data.mapping_start.anchor
                                       : event->data.sequence_start.anchor;
    if (tag != NULL || anchor != NULL)
        return "tags and anchors are not used in job files";
    if (b->depth == 0 && !is_map)
        return "a list, where 'run: ...' and other keys should be";
    if (b->depth > 0 && top(b)->kind == TREE_MAP && b->key == NULL)
        return "a key must be a word";
    if (b->depth == TREE_DEPTH)
        return "nested too deeply";
    struct tree *node = arena_alloc(b->arena, sizeof *node);
    node->kind = is_map ? TREE_MAP : TREE_LIST;
    node->text = "";
    node->line = (long)event->start_mark.line + 1;
    const char *why = add(b, node);
    b->open[b->depth++] = node;
    return why;
}

static const char *take(void *arg, const yaml_event_t *event)
{
    struct build *b = arg;
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return take_word(b, event);
    case YAML_MAPPING_START_EVENT:
    case YAML_SEQUENCE_START_EVENT:
        return take_start(b, event);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        b->depth--;
        return NULL;
    case YAML_ALIAS_EVENT:
        return "aliases are not used in job files";
    case YAML_DOCUMENT_START_EVENT:
        return ++b->ndocuments > 1 ? "a second document" : NULL;
    default:
        return NULL;
    }
}

enum firn_status tree_read(struct arena *arena, struct firn_bytes text,
                           const char *where, struct tree **out,
                           struct firn_error *err)
{
    struct build build = {.arena = arena};
    if (text.n > TREE_BYTES)
        return firn_fail(err, FIRN_EINVAL,
                         "%s: line 1: %zu bytes; a job file has at most %d",
                         where, text.n, TREE_BYTES);
    FIRN_TRY(yaml_walk(text, where, take, &build, err));
    if (build.root == NULL)
        return firn_fail(err, FIRN_EINVAL, "%s: line 1: says nothing", where);
    *out = build.root;
    return FIRN_OK;
}
