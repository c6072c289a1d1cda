/* pty.c - frames, and names of sockets: see the header.
 */
#include "cli/pty.h"
#include "base/buf.h"
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static const char before[] = "/tmp/firn-tty-";
enum { DIGITS = 32 };

enum firn_status pty_new_path(char out[PTY_PATH], struct firn_error *err)
{
    unsigned char bytes[DIGITS / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return firn_fail(err, FIRN_EIO, "the system gives no random bytes");
    int n = snprintf(out, PTY_PATH, "%s", before);
    for (size_t i = 0; i < sizeof bytes; i++)
        n += snprintf(out + n, PTY_PATH - (size_t)n, "%02x", bytes[i]);
    return FIRN_OK;
}

bool pty_is_path(const char *path)
{
    size_t n = sizeof before - 1;
    return strncmp(path, before, n) == 0 && strlen(path + n) == DIGITS &&
           strspn(path + n, "0123456789abcdef") == DIGITS;
}

void pty_frame(struct firn_buf *out, char kind, const void *bytes, size_t n)
{
    const char *at = bytes;
    do { /* a frame may be empty */
        size_t part = n < PTY_FRAME ? n : PTY_FRAME;
        buf_putc(out, kind);
        buf_putc(out, (char)(part & 0xff));
        buf_putc(out, (char)(part >> 8));
        buf_add(out, at, part);
        at += part;
        n -= part;
    } while (n > 0);
}

long pty_parse(struct firn_bytes in, char *kind, struct firn_bytes *payload)
{
    if (in.n < 3)
        return 0;
    size_t n = (size_t)(unsigned char)in.at[1] | (size_t)(unsigned char)in.at[2]
                                                     << 8;
    if (strchr("iwox", in.at[0]) == NULL || in.at[0] == '\0' || n > PTY_FRAME)
        return -1;
    if (in.n < 3 + n)
        return 0;
    *kind = in.at[0];
    *payload = (struct firn_bytes){in.at + 3, n};
    return (long)(3 + n);
}
