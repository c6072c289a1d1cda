/* output.h - the last word on standard output.
 *
 * Commands build their text in a buffer and hand it over whole, so that a
 * full disk is noticed and a reader that left is not.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H
#include <firn/bytes.h>

/* Formats of -o, as the user types them: index of the one called `name` in
 * `names` (ends with NULL), or -1 after a sentence on standard error. */
int output_format(const char *command, const char *name,
                  const char *const *names);

/* Writes `text` to standard output and flushes it. Returns the exit status: 0,
 * or 1 when it could not be written; that nobody reads it any more goes
 * without saying. */
int output_write(const char *command, const struct firn_buf *text);

#endif
