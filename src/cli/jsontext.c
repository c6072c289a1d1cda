/* jsontext.c - indents JSON text without building a tree of values.
 *
 * One loop over the events of base/jsonread, which holds the levels. A string
 * of ASCII without escapes is copied at once; else other characters become
 * \uXXXX, and invalid UTF-8 becomes U+FFFD. Cost: O(bytes).
 */
#include "cli/jsontext.h"
#include "base/buf.h"
#include "base/utf8.h"

/* Begins a line of that level; `level` below 0: all in one line. */
static void new_line(struct firn_buf *out, int level)
{
    static const char blanks[] = "\n                                        ";
    size_t n = 1 + 2 * (size_t)level;
    if (level < 0)
        return;
    if (n < sizeof blanks)
        buf_add(out, blanks, n);
    else
        buf_printf(out, "\n%*s", 2 * level, "");
}

/* Appends a valid JSON string in ASCII. */
static void put_ascii(struct firn_buf *out, struct firn_bytes string)
{
    const char *at = string.at, *end = at + string.n;
    while (at < end) {
        const char *from = at;
        while (at < end && (unsigned char)*at < 0x80 && *at != '\\')
            at++;
        buf_add(out, from, (size_t)(at - from));
        if (at == end)
            break;
        if (*at == '\\') { /* "\/" needs no backslash */
            buf_add(out, at[1] == '/' ? at + 1 : at, at[1] == '/' ? 1 : 2);
            at += 2;
            continue;
        }
        uint32_t c = UTF8_BAD;
        int length = utf8_decode(at, (size_t)(end - at), &c);
        at += length > 0 ? length : 1;
        c = length > 0 ? c : UTF8_BAD;
        if (c < 0x10000)
            buf_printf(out, "\\u%04X", (unsigned)c);
        else
            buf_printf(out, "\\u%04X\\u%04X", 0xD7C0 + (unsigned)(c >> 10),
                       0xDC00 + (unsigned)(c & 0x3FF));
    }
}

void jsontext_value(struct jsonread *in, int indent, struct firn_buf *out)
{
    unsigned top = in->depth;
    bool has_place = true; /* the line of the next event has begun */
    enum jsonread_event event;
    do {
        int level = indent < 0 ? -1 : indent + (int)(in->depth - top);
        event = jsonread_next(in);
        if (event == JSONREAD_FAILED || event == JSONREAD_END)
            return;
        if (event == JSONREAD_CLOSE) {
            if (!in->is_first)
                new_line(out, level - (level > 0));
        } else if (!has_place) {
            if (!in->is_first)
                buf_putc(out, ',');
            new_line(out, level);
        }
        has_place = event == JSONREAD_KEY;
        if ((event == JSONREAD_KEY || event == JSONREAD_STRING) &&
            !in->is_plain)
            put_ascii(out, in->token);
        else
            buf_add(out, in->token.at, in->token.n);
        if (event == JSONREAD_KEY)
            buf_add(out, ": ", indent < 0 ? 1 : 2);
    } while (in->depth > top || event == JSONREAD_KEY);
}

void jsontext_items(struct jsonread *in, int indent, size_t *n,
                    struct firn_buf *out)
{
    jsonread_enter(in, '[');
    while (jsonread_element(in)) {
        if ((*n)++ > 0)
            buf_putc(out, ',');
        new_line(out, indent);
        jsontext_value(in, indent, out);
    }
}
