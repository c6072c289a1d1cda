/* jsonwrite.c - numbers into JSON, in every locale the same.
 *
 * Keys are this program's own words and need no escapes. The text of a double
 * is the first of 15, 16 and 17 digits that reads back equal; whatever the
 * locale put between the digits is made a point.
 */
#include "wire/jsonwrite.h"
#include "base/str.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DOUBLE_MAX = 64 };

static void add(struct jsonwrite *w, const char *text, size_t n)
{
    if (w->n + n <= w->max && n > 0)
        memcpy(w->out + w->n, text, n);
    w->n += n;
}

static void add_key(struct jsonwrite *w, const char *key)
{
    if (w->comma)
        add(w, ",", 1);
    w->comma = true;
    if (key == NULL)
        return;
    add(w, "\"", 1);
    add(w, key, strlen(key));
    add(w, "\":", 2);
}

void jsonwrite_open(struct jsonwrite *w, const char *key, char open)
{
    add_key(w, key);
    add(w, &open, 1);
    w->comma = false;
}

void jsonwrite_close(struct jsonwrite *w, char close)
{
    add(w, &close, 1);
    w->comma = true;
}

/* Digits, sign and exponent stay; what the locale has for a point is a run of
 * other bytes. */
static void make_plain(char *text)
{
    size_t n = 0;
    bool in_point = false;
    for (const char *at = text; *at != '\0'; at++) {
        bool plain = (*at >= '0' && *at <= '9') || *at == '-' || *at == '+' ||
                     *at == 'e';
        if (plain)
            text[n++] = *at;
        else if (!in_point)
            text[n++] = '.';
        in_point = !plain;
    }
    text[n] = '\0';
}

void jsonwrite_double(struct jsonwrite *w, const char *key, double value)
{
    char text[DOUBLE_MAX];
    for (int digits = 15; digits <= 17; digits++) {
        double back = 0;
        snprintf(text, sizeof text, "%.*g", digits, value);
        make_plain(text);
        if (str_double(text, &back) && back == value)
            break;
    }
    add_key(w, key);
    add(w, text, strlen(text));
}

void jsonwrite_count(struct jsonwrite *w, const char *key, uint64_t value)
{
    char text[DOUBLE_MAX];
    int n = snprintf(text, sizeof text, "%" PRIu64, value);
    add_key(w, key);
    add(w, text, n > 0 ? (size_t)n : 0);
}
