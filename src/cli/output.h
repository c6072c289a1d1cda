/* output.h - results on standard output.
 *
 * Commands build their text in a buffer and write it at once, so that a full
 * disk is reported and a closed pipe (`firn ls | head`) is not.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H
#include <firn/bytes.h>

/* Writes `text` to standard output and flushes it. Returns the exit status: 0,
 * or 1 if writing failed, after an error message unless the pipe is closed. */
int output_write(const char *command, const struct firn_buf *text);

#endif
