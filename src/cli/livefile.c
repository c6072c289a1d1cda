/* livefile.c - reads a job file.
 */
#include "cli/livefile.h"
#include "base/buf.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { FILE_MAX = 1 << 20 };

enum firn_status live_file_read(struct firn_buf *out, const char *path,
                                struct firn_error *err)
{
    char piece[1 << 14];
    size_t n, total = 0;
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (file == NULL)
        return firn_fail(err, FIRN_EIO, "%s: %s", path, strerror(errno));
    errno = 0;
    while (total <= FILE_MAX && (n = fread(piece, 1, sizeof piece, file)) > 0) {
        buf_add(out, piece, n);
        total += n;
    }
    int code = ferror(file) ? errno : 0;
    if (file != stdin)
        (void)fclose(file);
    if (code != 0)
        return firn_fail(err, FIRN_EIO, "%s: %s", path, strerror(code));
    if (total == 0)
        return firn_fail(err, FIRN_EINVAL, "%s: the file is empty", path);
    if (total > FILE_MAX)
        return firn_fail(err, FIRN_EINVAL, "%s: the file is larger than 1 MiB",
                         path);
    return FIRN_OK;
}

void live_file_name_error(struct firn_error *err, const char *path)
{
    static const char start[] = "job file: ";
    size_t n = sizeof start - 1;
    if (path == NULL || strncmp(err->text, start, n) != 0)
        return;
    memmove(err->text, err->text + n, strlen(err->text + n) + 1);
    firn_fail_in(err, strcmp(path, "-") == 0 ? "standard input" : path);
}
