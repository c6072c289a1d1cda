/* store_suspect.c - a database that may be damaged is marked by a file beside
 * it, so that the next start checks all of it.
 */
#include "base/buf.h"
#include "daemon/storework.h"
#include <fcntl.h>
#include <unistd.h>

void store_suspect_path(const char *path, struct firn_buf *out)
{
    buf_printf(out, "%s-suspect", path);
}

void store_suspect(const struct store *store)
{
    struct firn_buf mark = {0};
    int code = sqlite3_errcode(store->db) & 0xff;
    if (code != SQLITE_CORRUPT && code != SQLITE_NOTADB)
        return;
    store_suspect_path(store->path, &mark);
    int fd = open(mark.at, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    buf_release(&mark);
}
