/* yamltext.h - a YAML text read by a schema of libcyaml, strictly.
 *
 * Two passes. yaml_walk() goes through the events of libyaml, by which a
 * reader notes where things stand and refuses what libcyaml would take too
 * kindly or too slowly. yaml_load() is libcyaml's pass; what it finds (an
 * unknown key, one given twice, a list where a text should be) becomes a
 * sentence with file and line. For a key libcyaml gives the place before it;
 * the words of the first pass have the true one.
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
/* The line where `text` stands first; 1 when it stands nowhere. */
long yaml_line(const struct yaml_words *words, const char *text);
void yaml_words_release(struct yaml_words *words);

/* Why this event cannot be, or NULL. */
typedef const char *yaml_judge(void *arg, const yaml_event_t *event);

/* Shows `judge` every event. FIRN_EINVAL with file (`where`) and line at the
 * first that cannot be, or when the text is no YAML. */
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
