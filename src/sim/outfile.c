/* outfile.c - a file that appears whole or not at all.
 *
 * Writing goes through one buffer in large pieces, so a log of ten million
 * lines costs a few thousand writes.
 */
#include "sim/outfile.h"
#include "base/buf.h"
#include "base/mem.h"
#include <errno.h>
#include <string.h>

enum { DRAIN_BYTES = 1 << 16 };

enum firn_status outfile_open(struct outfile *out, const char *path,
                              struct firn_error *err)
{
    struct firn_buf tmp = {0};
    buf_printf(&tmp, "%s.tmp", path);
    FILE *file = fopen(tmp.at, "wb");
    if (!file) {
        firn_fail(err, FIRN_EIO, "%s: cannot be written: %s", path,
                  strerror(errno));
        buf_release(&tmp);
        return FIRN_EIO;
    }
    *out = (struct outfile){.file = file, .path = mem_strdup(path)};
    out->tmp_path = mem_strdup(tmp.at);
    buf_release(&tmp);
    return FIRN_OK;
}

static void remember(struct outfile *out)
{
    if (out->failed == 0)
        out->failed = errno ? errno : EIO;
}

static void write_out(struct outfile *out)
{
    errno = 0;
    if (out->text.n > 0 && out->failed == 0 &&
        fwrite(out->text.at, 1, out->text.n, out->file) != out->text.n)
        remember(out);
    buf_clear(&out->text);
}

void outfile_drain(struct outfile *out)
{
    if (out->text.n >= DRAIN_BYTES)
        write_out(out);
}

static void release(struct outfile *out)
{
    buf_release(&out->text);
    mem_free(out->path);
    mem_free(out->tmp_path);
    *out = (struct outfile){0};
}

enum firn_status outfile_close(struct outfile *out, struct firn_error *err)
{
    enum firn_status status = FIRN_OK;
    write_out(out);
    errno = 0;
    if (fclose(out->file) != 0)
        remember(out);
    if (out->failed == 0 && rename(out->tmp_path, out->path) != 0)
        remember(out);
    if (out->failed != 0) {
        (void)remove(out->tmp_path);
        status = firn_fail(err, FIRN_EIO, "%s: cannot be written: %s",
                           out->path, strerror(out->failed));
    }
    release(out);
    return status;
}

void outfile_discard(struct outfile *out)
{
    (void)fclose(out->file);
    (void)remove(out->tmp_path);
    release(out);
}
