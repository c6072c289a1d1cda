/* jsontext.h - indents JSON text without building a tree of values.
 *
 * A tree of a hundred thousand jobs costs seconds and a gigabyte; text is only
 * copied. The output is that of answer_print() (cli/answer.h): two blanks per
 * level, ASCII only, so that it cannot control a terminal.
 */
#ifndef CLI_JSONTEXT_H
#define CLI_JSONTEXT_H
#include <firn/bytes.h>
#include <stdbool.h>

/* Removes one value from the front of `rest` and appends it to `out` (NULL:
 * skips it), indented for that depth. False if it is not JSON; `out` is then
 * undefined. */
bool jsontext_value(struct firn_bytes *rest, int depth, struct firn_buf *out);

/* `rest` begins with an object, or with the rest of an object after a value.
 * Skips to the value of the next member called `key`; false if there is none.
 */
bool jsontext_find(struct firn_bytes *rest, const char *key);

/* Removes a list from the front of `rest` and appends its values, indented for
 * that depth and separated by commas. `*n` counts the values of several calls;
 * the first has no comma. */
bool jsontext_items(struct firn_bytes *rest, int depth, size_t *n,
                    struct firn_buf *out);

#endif
