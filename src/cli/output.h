/* output.h - results on standard output or in a file.
 *
 * Commands build their text in a buffer and write it at once, so that a full
 * disk is reported and a closed pipe (`firn ls | head`) is not.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stdio.h>

/* Writes `text` to standard output and flushes it. Returns the exit status: 0,
 * or 1 if writing failed, after an error message unless the pipe is closed. */
int output_write(const char *command, const struct firn_buf *text);

/* Writes `text` to a file. FIRN_EIO. */
enum firn_status output_file(const char *path, const struct firn_buf *text,
                             struct firn_error *err);

/* Long output, written piece by piece to standard output or to a file. */
struct sink {
    FILE *file;
    const char *path; /* NULL: standard output */
    struct firn_buf buf;
    bool has_failed;
};

/* FIRN_EIO if the file cannot be created. */
enum firn_status sink_open(struct sink *sink, const char *path,
                           struct firn_error *err);
/* Writes the buffer once it has `enough` bytes. */
void sink_flush(struct sink *sink, size_t enough);
/* Writes the rest and closes the file. FIRN_EIO if a write failed. */
enum firn_status sink_close(struct sink *sink, struct firn_error *err);

#endif
