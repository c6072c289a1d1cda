/* safetext.c - escapes foreign text for a terminal.
 *
 * One walk over UTF-8 (base/utf8.h). Each character is shown, escaped, or (in a
 * feed) cut off by the end of the piece.
 */
#include "cli/safetext.h"
#include "base/buf.h"
#include "base/utf8.h"
#include <stdint.h>
#include <string.h>

/* Is the character visible and without effect on the others? */
static bool is_shown(uint32_t c)
{
    static const uint32_t ranges[][2] = {
        {0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},
        {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069},
        {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1])
            return false;
    return true;
}

static void put(struct firn_buf *out, const char *s, int length, uint32_t c)
{
    if (length > 0 && is_shown(c))
        buf_add(out, s, (size_t)length);
    else if (length > 1)
        buf_printf(out, "\\u%04x", (unsigned)c);
    else
        buf_printf(out, "\\x%02x", (unsigned)(unsigned char)*s);
}

void safe_puts(struct firn_buf *out, const char *text)
{
    size_t n = strlen(text);
    while (n > 0) {
        uint32_t c = 0;
        int length = utf8_decode(text, n, &c);
        put(out, text, length > 0 ? length : 0, c);
        size_t step = length > 0 ? (size_t)length : 1;
        text += step;
        n -= step;
    }
}

bool safe_quote(struct firn_buf *out, const char *text)
{
    size_t before = out->n, n = strlen(text);
    buf_putc(out, '"');
    while (n > 0) {
        uint32_t c = 0;
        int length = utf8_decode(text, n, &c);
        if (length <= 0) {
            out->n = before;
            out->at[before] = '\0';
            return false;
        }
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", (char)c);
        else if (is_shown(c))
            buf_add(out, text, (size_t)length);
        else
            buf_printf(out, c > 0xffff ? "\\U%08x" : "\\u%04x", (unsigned)c);
        text += length;
        n -= (size_t)length;
    }
    buf_putc(out, '"');
    return true;
}

/* Appends one character of a feed. */
static void put_fed(struct safe_feed *feed, struct firn_buf *out, const char *s,
                    int length, uint32_t c)
{
    bool was_return = feed->was_return;
    feed->was_return = length == 1 && c == '\r';
    if (feed->was_return || (length == 1 && c == '\n' && !was_return))
        buf_putc(out, '\n');
    else if (length == 1 && c == '\t')
        buf_putc(out, '\t');
    else if (!(length == 1 && c == '\n'))
        put(out, s, length, c);
}

void safe_feed(struct safe_feed *feed, struct firn_buf *out,
               struct firn_bytes piece)
{
    size_t at = 0;
    while (at < piece.n) {
        char joined[8];
        uint32_t c = 0;
        size_t nheld = feed->n, more = piece.n - at;
        if (more > sizeof joined - nheld)
            more = sizeof joined - nheld;
        memcpy(joined, feed->held, nheld);
        memcpy(joined + nheld, piece.at + at, more);
        int length = utf8_decode(joined, nheld + more, &c);
        if (length < 0) { /* at most the last three bytes */
            memcpy(feed->held, joined, nheld + more);
            feed->n = nheld + more;
            return;
        }
        put_fed(feed, out, joined, length, c);
        size_t step = length > 0 ? (size_t)length : 1;
        if (step >= nheld) {
            at += step - nheld;
            feed->n = 0;
        } else {
            memmove(feed->held, feed->held + step, nheld - step);
            feed->n = nheld - step;
        }
    }
}

void safe_feed_end(struct safe_feed *feed, struct firn_buf *out)
{
    for (size_t i = 0; i < feed->n; i++)
        put(out, feed->held + i, 0, 0);
    feed->n = 0;
}

size_t safe_width(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++)
        n += utf8_is_first(*text);
    return n;
}

size_t safe_prefix(const char *text, size_t columns)
{
    size_t i = 0, n = 0;
    for (; text[i] != '\0'; i++) {
        n += utf8_is_first(text[i]);
        if (n > columns)
            break;
    }
    return i;
}
