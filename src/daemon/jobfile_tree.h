/* jobfile_tree.h - a small YAML text as a tree with lines.
 *
 * For files whose keys may have values of several kinds (a number or a range, a
 * text or a list), which a schema cannot say. Refused with a sentence and a
 * line: text that is not YAML, a second document, aliases, anchors, tags, keys
 * that are not scalars or come twice, control characters, also escaped ones
 * (but line feeds and tabs are allowed in items of `run`, values of `env` and
 * `config` of `model`),
 * and more than the limits below.
 */
#ifndef DAEMON_JOBFILE_TREE_H
#define DAEMON_JOBFILE_TREE_H
#include "base/arena.h"
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>

enum { TREE_BYTES = 1 << 18, TREE_DEPTH = 4, TREE_MEMBERS = 1024 };

enum tree_kind { TREE_WORD, TREE_LIST, TREE_MAP };

struct tree {
    enum tree_kind kind;
    const char *key;  /* of a mapping's member; NULL */
    const char *text; /* of a word; "" for nothing */
    long line;        /* of the key, if it has one */
    size_t n;
    struct tree *first, *last, *next;
};

/* The text's mapping, in the arena's memory. FIRN_EINVAL with `where` and
 * line. */
enum firn_status tree_read(struct arena *arena, struct firn_bytes text,
                           const char *where, struct tree **out,
                           struct firn_error *err);

#endif
