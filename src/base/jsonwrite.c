/* jsonwrite.c - the one JSON writer.
 *
 * Invariant: bytes 0 .. min(n, max) of `out` are written, and no others. Plain
 * texts, which nearly all are, are found by one walk and copied whole.
 *
 * Needs libc alone and never allocates: libfirn_train has it, in programs of
 * users. The part for growing buffers is in jsonbuf.c.
 */
#include "base/jsonwrite.h"
#include "base/str.h"
#include "base/utf8.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static void add(struct jsonwrite *w, const char *bytes, size_t n)
{
    if (w->n + n > w->max && w->grow != NULL)
        w->grow(w, n);
    if (w->n < w->max) {
        size_t room = w->max - w->n;
        memcpy(w->out + w->n, bytes, n < room ? n : room);
    }
    w->n += n;
}

/* Comma, key and colon. Room for all of it is made at once. */
static void add_key(struct jsonwrite *w, const char *key)
{
    bool comma = w->comma;
    w->comma = true;
    if (key == NULL) {
        if (comma)
            add(w, ", ", w->is_spaced ? 2 : 1);
        return;
    }
    size_t n = strlen(key);
    if (w->n + n + 6 > w->max && w->grow != NULL)
        w->grow(w, n + 6);
    if (w->n + n + 6 > w->max) { /* fixed memory: as much as fits */
        if (comma)
            add(w, ", ", w->is_spaced ? 2 : 1);
        add(w, "\"", 1);
        add(w, key, n);
        add(w, "\": ", w->is_spaced ? 3 : 2);
        return;
    }
    char *at = w->out + w->n;
    if (comma)
        *at++ = ',';
    if (comma && w->is_spaced)
        *at++ = ' ';
    *at++ = '"';
    while (*key != '\0')
        *at++ = *key++;
    *at++ = '"';
    *at++ = ':';
    if (w->is_spaced)
        *at++ = ' ';
    w->n = (size_t)(at - w->out);
}

void jsonwrite_open(struct jsonwrite *w, const char *key, char bracket)
{
    add_key(w, key);
    add(w, &bracket, 1);
    w->comma = false;
}

void jsonwrite_close(struct jsonwrite *w, char bracket)
{
    add(w, &bracket, 1);
    w->comma = true;
}

void jsonwrite_raw(struct jsonwrite *w, const char *key, const char *json)
{
    add_key(w, key);
    add(w, json, strlen(json));
}

void jsonwrite_double(struct jsonwrite *w, const char *key, double value)
{
    char text[STR_DOUBLE_MAX];
    jsonwrite_raw(w, key, isfinite(value) ? double_text(value, text) : "null");
}

static void add_whole(struct jsonwrite *w, uint64_t size, bool is_negative)
{
    char text[24], *end = text + sizeof text, *at = end;
    do {
        *--at = (char)('0' + size % 10);
        size /= 10;
    } while (size > 0);
    if (is_negative)
        *--at = '-';
    add(w, at, (size_t)(end - at));
}

void jsonwrite_int(struct jsonwrite *w, const char *key, int64_t value)
{
    add_key(w, key);
    add_whole(w, value < 0 ? -(uint64_t)value : (uint64_t)value, value < 0);
}

void jsonwrite_count(struct jsonwrite *w, const char *key, uint64_t value)
{
    add_key(w, key);
    add_whole(w, value, false);
}

void jsonwrite_bool(struct jsonwrite *w, const char *key, bool value)
{
    add_key(w, key);
    add(w, value ? "true" : "false", value ? 4 : 5);
}

/* --- texts ---------------------------------------------------------------- */

static bool is_plain(char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* One character that is not plain; returns how many bytes of `text` it had. */
static size_t add_odd(struct jsonwrite *w, const char *text)
{
    static const char special[] = "\"\\\b\f\n\r\t";
    static const char letter[] = "\"\\bfnrt";
    char escape[8];
    uint32_t c = 0;
    int length = utf8_decode(text, strnlen(text, 4), &c);
    if (length <= 0) {
        add(w, escape, utf8_encode(UTF8_BAD, escape));
        return 1;
    }
    const char *found = length == 1 ? strchr(special, *text) : NULL;
    if (found != NULL) {
        escape[0] = '\\';
        escape[1] = letter[found - special];
        add(w, escape, 2);
    } else if (c < 0x20) {
        snprintf(escape, sizeof escape, "\\u%04x", (unsigned)c);
        add(w, escape, 6);
    } else {
        add(w, text, (size_t)length);
    }
    return (size_t)length;
}

void jsonwrite_string(struct jsonwrite *w, const char *text)
{
    add(w, "\"", 1);
    while (*text != '\0') {
        size_t n = 0;
        while (is_plain(text[n]))
            n++;
        add(w, text, n);
        text += n;
        if (*text != '\0')
            text += add_odd(w, text);
    }
    add(w, "\"", 1);
}

void jsonwrite_text(struct jsonwrite *w, const char *key, const char *value)
{
    add_key(w, key);
    jsonwrite_string(w, value);
}

void jsonwrite_key(struct jsonwrite *w, const char *key)
{
    jsonwrite_text(w, NULL, key);
    add(w, ": ", w->is_spaced ? 2 : 1);
    w->comma = false;
}
