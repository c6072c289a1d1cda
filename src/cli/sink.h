/* sink.h - where long output goes: standard output, or a file.
 */
#ifndef CLI_SINK_H
#define CLI_SINK_H
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stdio.h>

struct sink {
    FILE *file;
    const char *path; /* NULL: standard output */
    struct firn_buf buf;
    bool has_failed;
};

/* FIRN_EIO when the file cannot be made. */
enum firn_status sink_open(struct sink *sink, const char *path,
                           struct firn_error *err);
/* Writes the buffer out once it holds `enough`. */
void sink_flush(struct sink *sink, size_t enough);
/* With all that is left. FIRN_EIO when something could not be written. */
enum firn_status sink_close(struct sink *sink, struct firn_error *err);

#endif
