/* jsontext.h - indents JSON text without building a tree of values.
 *
 * A tree of a hundred thousand jobs costs seconds and a gigabyte; text is only
 * copied. The output is ASCII only, so that it cannot control a terminal.
 */
#ifndef CLI_JSONTEXT_H
#define CLI_JSONTEXT_H
#include "base/jsonread.h"
#include <firn/bytes.h>

/* Reads one value and appends it: two blanks per level from level `indent` on,
 * or all in one line if `indent` is below 0. If it is not JSON, `in` has failed
 * and `out` has a part of it. */
void jsontext_value(struct jsonread *in, int indent, struct firn_buf *out);

/* Reads an array and appends its elements, each on a new line of that level,
 * separated by commas. `*n` counts the elements of several calls; the first has
 * no comma. */
void jsontext_items(struct jsonread *in, int indent, size_t *n,
                    struct firn_buf *out);

#endif
