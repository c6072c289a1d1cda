/* jsontext.c - indents JSON text without building a tree of values.
 *
 * Recursive descent; runs of ASCII characters are copied at once. Other
 * characters become \uXXXX, invalid UTF-8 becomes U+FFFD. Nesting beyond
 * DEPTH_MAX is rejected. Cost: O(bytes).
 */
#include "cli/jsontext.h"
#include "base/buf.h"
#include "base/utf8.h"
#include <string.h>

enum { DEPTH_MAX = 64 };

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static char peek(struct firn_bytes *rest)
{
    while (rest->n > 0 && is_blank(*rest->at)) {
        rest->at++;
        rest->n--;
    }
    return rest->n > 0 ? *rest->at : '\0';
}

static void drop(struct firn_bytes *rest, size_t n)
{
    rest->at += n;
    rest->n -= n;
}

static bool take(struct firn_bytes *rest, char c)
{
    if (peek(rest) != c || rest->n == 0)
        return false;
    drop(rest, 1);
    return true;
}

static void add(struct firn_buf *out, const char *text, size_t n)
{
    if (out != NULL && n > 0)
        buf_add(out, text, n);
}

static void new_line(struct firn_buf *out, int depth)
{
    static const char blanks[] = "\n                                        ";
    size_t n = 1 + 2 * (size_t)depth;
    if (n < sizeof blanks)
        add(out, blanks, n);
    else if (out != NULL)
        buf_printf(out, "\n%*s", 2 * depth, "");
}

/* --- texts --------------------------------------------------------------- */

static void put_letter(struct firn_buf *out, unsigned c)
{
    if (out == NULL)
        return;
    if (c < 0x10000) {
        buf_printf(out, "\\u%04X", c);
        return;
    }
    c -= 0x10000;
    buf_printf(out, "\\u%04X\\u%04X", 0xD800 + (c >> 10), 0xDC00 + (c & 0x3FF));
}

static bool is_plain(unsigned char c)
{
    return c >= ' ' && c < 0x80 && c != '"' && c != '\\';
}

/* Copies an escape such as "\n" or "\u00e4"; false if it is invalid. */
static bool take_escape(struct firn_bytes *rest, struct firn_buf *out)
{
    size_t n = rest->n > 1 && rest->at[1] == 'u' ? 6 : 2;
    if (rest->n < n || strchr("\"\\/bfnrtu", rest->at[1]) == NULL ||
        rest->at[1] == '\0')
        return false;
    for (size_t i = 2; i < n; i++)
        if (strchr("0123456789abcdefABCDEF", rest->at[i]) == NULL ||
            rest->at[i] == '\0')
            return false;
    if (rest->at[1] == '/')
        add(out, "/", 1);
    else
        add(out, rest->at, n);
    drop(rest, n);
    return true;
}

static bool take_text(struct firn_bytes *rest, struct firn_buf *out)
{
    if (!take(rest, '"'))
        return false;
    add(out, "\"", 1);
    while (rest->n > 0 && *rest->at != '"') {
        size_t n = 0;
        while (n < rest->n && is_plain((unsigned char)rest->at[n]))
            n++;
        add(out, rest->at, n);
        drop(rest, n);
        if (rest->n == 0 || *rest->at == '"')
            continue;
        if (*rest->at == '\\') {
            if (!take_escape(rest, out))
                return false;
            continue;
        }
        if ((unsigned char)*rest->at < ' ')
            return false;
        uint32_t c = UTF8_BAD;
        int length = utf8_decode(rest->at, rest->n, &c);
        put_letter(out, length > 0 ? c : UTF8_BAD);
        drop(rest, length > 0 ? (size_t)length : 1);
    }
    add(out, "\"", 1);
    return take(rest, '"');
}

/* --- values -------------------------------------------------------------- */

/* A number, true, false, null. */
static bool take_word(struct firn_bytes *rest, struct firn_buf *out)
{
    static const char *const words[] = {"true", "false", "null"};
    size_t n = 0;
    char c = peek(rest);
    for (size_t i = 0; i < 3; i++) {
        size_t len = strlen(words[i]);
        if (rest->n >= len && memcmp(rest->at, words[i], len) == 0)
            n = len;
    }
    if (n == 0 && (c == '-' || (c >= '0' && c <= '9')))
        while (n < rest->n && rest->at[n] != '\0' &&
               strchr("+-.0123456789eE", rest->at[n]) != NULL)
            n++;
    add(out, rest->at, n);
    drop(rest, n);
    return n > 0;
}

static bool take_key(struct firn_bytes *rest, struct firn_buf *out)
{
    bool is_there = take_text(rest, out) && take(rest, ':');
    add(out, ": ", 2);
    return is_there;
}

/* A list or an object. */
static bool take_parts(struct firn_bytes *rest, int depth, struct firn_buf *out)
{
    bool has_keys = peek(rest) == '{';
    char end = has_keys ? '}' : ']';
    size_t n = 0;
    if (depth >= DEPTH_MAX)
        return false;
    add(out, rest->at, 1);
    drop(rest, 1);
    if (take(rest, end)) {
        add(out, &end, 1);
        return true;
    }
    do {
        add(out, ",", n++ > 0);
        new_line(out, depth + 1);
        if ((has_keys && !take_key(rest, out)) ||
            !jsontext_value(rest, depth + 1, out))
            return false;
    } while (take(rest, ','));
    new_line(out, depth);
    add(out, &end, 1);
    return take(rest, end);
}

bool jsontext_value(struct firn_bytes *rest, int depth, struct firn_buf *out)
{
    char c = peek(rest);
    if (c == '{' || c == '[')
        return take_parts(rest, depth, out);
    return c == '"' ? take_text(rest, out) : take_word(rest, out);
}

bool jsontext_find(struct firn_bytes *rest, const char *key)
{
    size_t len = strlen(key);
    while (take(rest, '{') || take(rest, ',')) {
        peek(rest);
        struct firn_bytes name = *rest;
        if (!take_key(rest, NULL))
            return false;
        peek(rest);
        if (name.n > len + 2 && name.at[len + 1] == '"' &&
            memcmp(name.at + 1, key, len) == 0)
            return true;
        if (!jsontext_value(rest, 1, NULL))
            return false;
    }
    return false;
}

bool jsontext_items(struct firn_bytes *rest, int depth, size_t *n,
                    struct firn_buf *out)
{
    if (!take(rest, '['))
        return false;
    if (take(rest, ']'))
        return true;
    do {
        add(out, ",", (*n)++ > 0);
        new_line(out, depth);
        if (!jsontext_value(rest, depth, out))
            return false;
    } while (take(rest, ','));
    return take(rest, ']');
}
