/* safetext.h - text of others, made fit for a terminal.
 *
 * Names, sentences and logs come from other users' jobs. Whatever a terminal
 * would act on instead of showing it (control characters, those of UTF-8 too,
 * marks that turn the direction of writing, bytes that are no UTF-8) becomes
 * visible: \x1b, \u202e, \xff. All else stays as it is, so that a name in any
 * script can be read.
 */
#ifndef CLI_SAFETEXT_H
#define CLI_SAFETEXT_H
#include <firn/bytes.h>
#include <stdbool.h>

/* One line: ends of lines and tabs are escaped too. */
void safe_puts(struct firn_buf *out, const char *text);

/* A double-quoted scalar of YAML that reads back as `text`. False, and nothing
 * is appended: it is not UTF-8. */
bool safe_quote(struct firn_buf *out, const char *text);

/* Text that comes in pieces, such as a log: ends of lines and tabs stay; a
 * lone carriage return, as progress bars write it, ends a line. Zeroed is the
 * beginning. */
struct safe_feed {
    char held[4]; /* of a character that is not whole yet */
    size_t n;
    bool was_return;
};

/* Appends the piece. What may be the first half of a character waits for the
 * next; safe_feed_end() gives it out. */
void safe_feed(struct safe_feed *feed, struct firn_buf *out,
               struct firn_bytes piece);
void safe_feed_end(struct safe_feed *feed, struct firn_buf *out);

/* How many columns `text` takes, by the count of its characters, and the
 * bytes of its first `columns` of them. */
size_t safe_width(const char *text);
size_t safe_prefix(const char *text, size_t columns);

#endif
