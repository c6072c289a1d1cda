/* safetext.h - escapes foreign text for a terminal.
 *
 * Names, messages and logs come from jobs of other users. Control characters,
 * Unicode marks that change the direction of writing and bytes that are not
 * UTF-8 are escaped: \x1b, \u202e, \xff. All other characters stay, so that
 * names in any script are readable.
 */
#ifndef CLI_SAFETEXT_H
#define CLI_SAFETEXT_H
#include <firn/bytes.h>
#include <stdbool.h>

/* Appends `text` as one line: newlines and tabs are escaped too. */
void safe_puts(struct firn_buf *out, const char *text);

/* Appends a double-quoted YAML scalar that reads back as `text`. Returns false,
 * and appends nothing, if `text` is not UTF-8. */
bool safe_quote(struct firn_buf *out, const char *text);

/* Text that arrives in pieces, such as a log: newlines and tabs stay; a single
 * carriage return, as in progress bars, becomes a newline. Starts zeroed. */
struct safe_feed {
    char held[4]; /* bytes of an incomplete character */
    size_t n;
    bool was_return;
};

/* Appends the piece. An incomplete character at its end is held back until the
 * next piece or safe_feed_end(). */
void safe_feed(struct safe_feed *feed, struct firn_buf *out,
               struct firn_bytes piece);
void safe_feed_end(struct safe_feed *feed, struct firn_buf *out);

/* Number of characters of `text`, and number of bytes of its first `columns`
 * characters. */
size_t safe_width(const char *text);
size_t safe_prefix(const char *text, size_t columns);

#endif
