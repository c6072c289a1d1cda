/* output.c - results on standard output or in a file.
 */
#include "cli/output.h"
#include "base/buf.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

int output_write(const char *command, const struct firn_buf *text)
{
    errno = 0;
    size_t n = text->n ? fwrite(text->at, 1, text->n, stdout) : 0;
    if (n == text->n && fflush(stdout) == 0)
        return 0;
    if (errno != EPIPE)
        fprintf(stderr, "firn %s: standard output: %s\n", command,
                strerror(errno));
    return 1;
}

enum firn_status sink_open(struct sink *sink, const char *path,
                           struct firn_error *err)
{
    *sink = (struct sink){.file = stdout, .path = path};
    if (path == NULL)
        return FIRN_OK;
    sink->file = fopen(path, "wb");
    if (sink->file == NULL)
        return firn_fail(err, FIRN_EIO, "%s: %s", path, strerror(errno));
    return FIRN_OK;
}

void sink_flush(struct sink *sink, size_t enough)
{
    if (sink->buf.n == 0 || sink->buf.n < enough)
        return;
    if (fwrite(sink->buf.at, 1, sink->buf.n, sink->file) != sink->buf.n)
        sink->has_failed = true;
    buf_clear(&sink->buf);
}

enum firn_status sink_close(struct sink *sink, struct firn_error *err)
{
    sink_flush(sink, 0);
    sink->has_failed |= fflush(sink->file) != 0;
    if (sink->path != NULL)
        sink->has_failed |= fclose(sink->file) != 0;
    buf_release(&sink->buf);
    if (!sink->has_failed)
        return FIRN_OK;
    return firn_fail(err, FIRN_EIO, "%s: cannot be written",
                     sink->path != NULL ? sink->path : "standard output");
}

enum firn_status output_file(const char *path, const struct firn_buf *text,
                             struct firn_error *err)
{
    struct sink sink;
    FIRN_TRY(sink_open(&sink, path, err));
    buf_add(&sink.buf, text->at, text->n);
    return sink_close(&sink, err);
}
