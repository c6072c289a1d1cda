/* yamltext.h - a YAML text read by a schema of libcyaml, strictly.
 *
 * Two passes. yaml_walk() goes through libyaml's events: a reader notes the
 * lines of scalars and refuses what libcyaml would accept wrongly or too
 * slowly. yaml_load() is libcyaml's pass; its errors (an unknown key, a key
 * given twice, a list in place of a text) become messages with file and line.
 * For a key libcyaml reports the place before it; the first pass knows the
 * right line.
 */
#ifndef BASE_YAMLTEXT_H
#define BASE_YAMLTEXT_H
#include "base/arena.h"
#include <cyaml/cyaml.h>
#include <firn/bytes.h>
#include <firn/status.h>
#include <yaml.h>

struct yaml_word {
    const char *text;
    long line;
};

/* Every scalar of a text, in its order. Zeroed is empty. */
struct yaml_words {
    struct arena arena;
    struct yaml_word *at;
    size_t n, cap;
};

/* Keeps a scalar and its line; its text as kept. */
const char *yaml_note(struct yaml_words *words, const yaml_event_t *event);
/* The first line with `text`; 1: none. */
long yaml_line(const struct yaml_words *words, const char *text);
void yaml_words_release(struct yaml_words *words);

/* Why this event is not allowed, or NULL. */
typedef const char *yaml_judge(void *arg, const yaml_event_t *event);

/* Calls `judge` for every event. FIRN_EINVAL with file (`where`) and line for
 * the first that is not allowed, or if the text is not YAML. */
enum firn_status yaml_walk(struct firn_bytes text, const char *where,
                           yaml_judge *judge, void *arg,
                           struct firn_error *err);

/* Fills `*out` by `schema`, a mapping behind a pointer; yaml_free() gives it
 * back. `words` are those of the same text. FIRN_EINVAL with file and line. */
enum firn_status yaml_load(void **out, const cyaml_schema_value_t *schema,
                           struct firn_bytes text, const char *where,
                           const struct yaml_words *words,
                           struct firn_error *err);
void yaml_free(void *data, const cyaml_schema_value_t *schema);

#endif
