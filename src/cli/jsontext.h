/* jsontext.h - JSON of another program laid out anew without being taken apart.
 *
 * A hundred thousand jobs as a tree of values cost seconds and a gigabyte; as
 * text they are copied. What comes out is what said_print() (cli/said.h) makes
 * of the same value: two blanks for each level, ASCII alone, so that nothing in
 * it can move a terminal's cursor.
 */
#ifndef CLI_JSONTEXT_H
#define CLI_JSONTEXT_H
#include <firn/bytes.h>
#include <stdbool.h>

/* Takes one value off the front of `rest` and appends it to `out` (NULL: passes
 * over it) as if it stood at that depth. False: it is no JSON; what was
 * appended is then of no use. */
bool jsontext_value(struct firn_bytes *rest, int depth, struct firn_buf *out);

/* `rest` begins with an object, or with what is left of one behind a value of
 * it. True: it now begins with the value of the next key of that name. Keys
 * before it have been passed over. */
bool jsontext_find(struct firn_bytes *rest, const char *key);

/* Takes a list off the front of `rest` and appends its values as if they stood
 * at that depth, a comma before each but the first of `*n`, which counts them.
 */
bool jsontext_items(struct firn_bytes *rest, int depth, size_t *n,
                    struct firn_buf *out);

#endif
