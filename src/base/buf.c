/* buf.c - a growing text, and numbers in their shortest exact form.
 *
 * Shortest form: a decimal of at most 15 digits survives the trip through a
 * double, and 17 digits always do, so the first of 15, 16 and 17 digits that
 * reads back equal is the shortest. Two shortcuts give the same text without
 * printf, because results hold millions of numbers: whole numbers below 2^53,
 * and numbers with up to six decimals. For the second, n / 10^k is correctly
 * rounded when n < 2^53 and k <= 22, so it is the very double that reading
 * "n / 10^k" gives; if it equals the value and n has at most 15 digits, those
 * digits are the answer.
 *
 * Invariants:
 * (1) cap is 0 or n < cap and at[n] is NUL;
 * (2) the text of a number does not depend on the locale;
 * (3) -0 is written as 0, which is equal to it.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
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

/* The digits of `n` so that they end at `end`; returns where they start. */
static char *digits_before(char *end, uint64_t n)
{
    do {
        *--end = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    return end;
}

static const char *whole_text(double size, bool is_negative,
                              char out[BUF_DOUBLE_MAX])
{
    char *end = out + BUF_DOUBLE_MAX - 1;
    *end = '\0';
    char *at = digits_before(end, (uint64_t)size);
    if (is_negative && size > 0.0) /* (3) */
        *--at = '-';
    return memmove(out, at, (size_t)(end - at) + 1);
}

/* "123.4736" when six decimals are enough, else NULL. */
static const char *decimal_text(double size, bool is_negative,
                                char out[BUF_DOUBLE_MAX])
{
    static const double tens[] = {1e1, 1e2, 1e3, 1e4, 1e5, 1e6};
    if (size < 1e-4 || size >= 1e9)
        return NULL;
    for (int k = 1; k <= 6; k++) {
        double scaled = floor(size * tens[k - 1] + 0.5);
        if (scaled >= 1e15)
            return NULL;
        if (scaled / tens[k - 1] != size)
            continue;
        uint64_t n = (uint64_t)scaled;
        uint64_t ten = (uint64_t)tens[k - 1];
        char *end = out + BUF_DOUBLE_MAX - 1;
        *end = '\0';
        char *dot = digits_before(end, n % ten + ten); /* keeps zeros */
        *dot = '.';
        char *at = digits_before(dot, n / ten);
        if (is_negative)
            *--at = '-';
        return memmove(out, at, (size_t)(end - at) + 1);
    }
    return NULL;
}

static const char *printed_text(double value, char out[BUF_DOUBLE_MAX])
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* (2) */
    locale_t before = uselocale(plain);
    int first = fabs(value) < DBL_MIN ? 1 : 15; /* subnormals have fewer */
    for (int digits = first; digits <= 17; digits++) {
        char text[64]; /* more than needed, which compilers cannot know */
        double back = 0.0;
        snprintf(text, sizeof text, "%.*g", digits, value);
        str_copy(out, BUF_DOUBLE_MAX, text); /* at most 24 bytes */
        if (digits == 17 || (str_double(out, &back) && back == value))
            break;
    }
    uselocale(before);
    freelocale(plain);
    return out;
}

const char *double_text(double value, char out[BUF_DOUBLE_MAX])
{
    double size = fabs(value);
    bool is_negative = value < 0.0;
    if (isnan(value) || isinf(value)) {
        str_copy(out, BUF_DOUBLE_MAX,
                 isnan(value)  ? "nan"
                 : is_negative ? "-inf"
                               : "inf");
        return out;
    }
    if (size < 9007199254740992.0 && floor(size) == size)
        return whole_text(size, is_negative, out);
    const char *text = decimal_text(size, is_negative, out);
    return text != NULL ? text : printed_text(value, out);
}

void buf_double(struct firn_buf *buf, double value)
{
    char text[BUF_DOUBLE_MAX];
    buf_puts(buf, double_text(value, text));
}

void buf_json_double(struct firn_buf *buf, double value)
{
    if (isfinite(value))
        buf_double(buf, value);
    else
        buf_puts(buf, "null");
}

/* How many bytes the UTF-8 character at `at` has; 0 when it is none. */
static size_t utf8_bytes(const unsigned char *at)
{
    size_t n = at[0] < 0x80                     ? 1
               : at[0] >= 0xc2 && at[0] <= 0xdf ? 2
               : at[0] >= 0xe0 && at[0] <= 0xef ? 3
               : at[0] >= 0xf0 && at[0] <= 0xf4 ? 4
                                                : 0;
    for (size_t i = 1; i < n; i++) /* a NUL stops this too */
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90))
        return 0; /* longer than needed */
    if ((at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf4 && at[1] > 0x8f))
        return 0; /* half of a pair; beyond the last character */
    return n;
}

static void add_json_ascii(struct firn_buf *buf, char c)
{
    static const char special[] = "\"\\\b\f\n\r\t";
    static const char letter[] = "\"\\bfnrt";
    const char *found = strchr(special, c);
    if (found != NULL) {
        buf_putc(buf, '\\');
        buf_putc(buf, letter[found - special]);
    } else if ((unsigned char)c < 0x20) {
        buf_printf(buf, "\\u%04x", (unsigned)c);
    } else {
        buf_putc(buf, c);
    }
}

void buf_json_string(struct firn_buf *buf, const char *text)
{
    buf_putc(buf, '"');
    while (*text != '\0') {
        size_t n = utf8_bytes((const unsigned char *)text);
        if (n == 1)
            add_json_ascii(buf, *text);
        else if (n == 0)
            buf_puts(buf, "\xef\xbf\xbd");
        else
            buf_add(buf, text, n);
        text += n ? n : 1;
    }
    buf_putc(buf, '"');
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
