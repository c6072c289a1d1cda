/* reproyaml.h - a YAML text read by a schema of libcyaml, strictly.
 *
 * An unknown key, a key given twice, a list where a text should be, an alias
 * or a second document are errors with file and line. The lines of all words
 * are kept, so that who finds a word wrong later can say where it stands.
 */
#ifndef CLI_REPROYAML_H
#define CLI_REPROYAML_H
#include "base/arena.h"
#include <cyaml/cyaml.h>
#include <firn/bytes.h>
#include <firn/status.h>

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

/* Fills `*out` by `schema`, a mapping behind a pointer; yaml_free() gives it
 * back. `where` is the file's name in sentences. `words` is released by the
 * caller in any case. FIRN_EINVAL with file and line. */
enum firn_status yaml_read(void **out, const cyaml_schema_value_t *schema,
                           struct firn_bytes text, const char *where,
                           struct yaml_words *words, struct firn_error *err);
void yaml_free(void *data, const cyaml_schema_value_t *schema);

/* The line where `text` stands first; 1 when it stands nowhere. */
long yaml_line(const struct yaml_words *words, const char *text);
void yaml_words_release(struct yaml_words *words);

#endif
