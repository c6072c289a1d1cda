/* buf.c - a growing text.
 *
 * Invariant: (1) cap is 0, or n < cap and at[n] is NUL.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void make_room(struct firn_buf *buf, size_t more)
{
    size_t want = buf->n + more + 1; /* (1) */
    if (want <= buf->cap)
        return;
    size_t cap = buf->cap ? 2 * buf->cap : 64;
    if (cap < want)
        cap = want;
    buf->at = mem_grow(buf->at, buf->cap, cap, 1);
    buf->cap = cap;
}

void buf_add(struct firn_buf *buf, const char *bytes, size_t n)
{
    make_room(buf, n);
    if (n > 0)
        memcpy(buf->at + buf->n, bytes, n);
    buf->n += n;
    buf->at[buf->n] = '\0';
}

void buf_puts(struct firn_buf *buf, const char *text)
{
    buf_add(buf, text, strlen(text));
}

void buf_putc(struct firn_buf *buf, char c)
{
    buf_add(buf, &c, 1);
}

void buf_printf(struct firn_buf *buf, const char *fmt, ...)
{
    make_room(buf, 0);
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    size_t room = buf->cap - buf->n;
    int n = vsnprintf(buf->at + buf->n, room, fmt, args);
    if (n >= 0 && (size_t)n >= room) {
        make_room(buf, (size_t)n);
        vsnprintf(buf->at + buf->n, (size_t)n + 1, fmt, again);
    }
    va_end(again);
    va_end(args);
    if (n > 0)
        buf->n += (size_t)n;
    buf->at[buf->n] = '\0';
}

void buf_double(struct firn_buf *buf, double value)
{
    char text[STR_DOUBLE_MAX];
    buf_puts(buf, double_text(value, text));
}

void buf_csv_string(struct firn_buf *buf, const char *text)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        buf_puts(buf, text);
        return;
    }
    buf_putc(buf, '"');
    for (; *text != '\0'; text++) {
        if (*text == '"')
            buf_putc(buf, '"');
        buf_putc(buf, *text);
    }
    buf_putc(buf, '"');
}

void buf_clear(struct firn_buf *buf)
{
    buf->n = 0;
    if (buf->at != NULL)
        buf->at[0] = '\0';
}

void buf_release(struct firn_buf *buf)
{
    if (buf == NULL)
        return;
    mem_free(buf->at);
    *buf = (struct firn_buf){0};
}

/* The two that programs outside firn need. */

void firn_buf_add(struct firn_buf *buf, const void *bytes, size_t n)
{
    buf_add(buf, bytes, n);
}

void firn_buf_release(struct firn_buf *buf)
{
    buf_release(buf);
}
