/* jsonread.c - a strict JSON reader without memory.
 *
 * A cursor over the text. Invariants:
 * (1) start <= at <= end, and nothing at or behind `end` is read;
 * (2) depth <= JSONREAD_DEPTH; level[depth - 1] is the object or array inside
 *     of which `at` stands;
 * (3) after a failure nothing moves any more.
 *
 * A key twice is seen by a hash of its characters after escapes, so that
 * "a" and "\u0061" are the same key. Two different keys with one hash (one in
 * 2^58 for a full object) would be refused wrongly; nothing worse.
 *
 * Numbers are checked against JSON's grammar here and turned into doubles by
 * base/str.h, which rounds correctly in every locale. Cost: O(n), for an
 * object of k members O(k^2) comparisons of integers, k <= 64.
 */
#include "wire/jsonread.h"
#include "base/str.h"
#include "base/utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER_MAX = 64 };

void jsonread_init(struct jsonread *in, const char *text, size_t n,
                   struct firn_error *err)
{
    in->start = in->at = text;
    in->end = text + n;
    in->err = err;
    in->status = FIRN_OK;
    in->depth = 0;
}

void jsonread_fail(struct jsonread *in, const char *fmt, ...)
{
    if (in->status != FIRN_OK)
        return;
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    in->status = firn_fail(in->err, FIRN_EINVAL, "byte %zu: %s",
                           (size_t)(in->at - in->start) + 1, text);
}

static bool ended(const struct jsonread *in)
{
    return in->at >= in->end; /* (1) */
}

static void skip_space(struct jsonread *in)
{
    while (!ended(in) && (*in->at == ' ' || *in->at == '\t' ||
                          *in->at == '\n' || *in->at == '\r'))
        in->at++;
}

/* Is the next byte, white space apart, this one? Takes it then. */
static bool take(struct jsonread *in, char c)
{
    if (in->status != FIRN_OK)
        return false;
    skip_space(in);
    if (ended(in) || *in->at != c)
        return false;
    in->at++;
    return true;
}

static void want(struct jsonread *in, char c)
{
    if (!take(in, c))
        jsonread_fail(in,
                      ended(in) ? "the text ends where '%c' is wanted"
                                : "'%c' is wanted here",
                      c);
}

void jsonread_enter(struct jsonread *in, char open)
{
    want(in, open);
    if (in->status != FIRN_OK)
        return;
    if (in->depth == JSONREAD_DEPTH) {
        jsonread_fail(in, "more than %d levels of nesting", JSONREAD_DEPTH);
        return;
    }
    in->level[in->depth].close = open == '{' ? '}' : ']';
    in->level[in->depth].started = false;
    in->level[in->depth].nkeys = 0;
    in->depth++;
}

/* --- strings -------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The four digits behind \u; -1 when they are not there. */
static long read_hex(struct jsonread *in)
{
    long value = 0;
    for (int i = 0; i < 4; i++, in->at++) {
        int digit = ended(in) ? -1 : hex_digit(*in->at);
        if (digit < 0) {
            jsonread_fail(in, "\\u wants four hexadecimal digits");
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

/* What a \u escape stands for; halves of a pair must meet. */
static long read_escaped_point(struct jsonread *in)
{
    long high = read_hex(in);
    if (high < 0xd800 || high > 0xdfff)
        return high;
    if (high < 0xdc00 && in->end - in->at >= 2 && in->at[0] == '\\' &&
        in->at[1] == 'u') {
        in->at += 2;
        long low = read_hex(in);
        if (low >= 0xdc00 && low <= 0xdfff)
            return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        if (low < 0)
            return -1;
    }
    jsonread_fail(in, "half of a surrogate pair");
    return -1;
}

/* The bytes that the next character of a string stands for; 0 when it failed.
 */
static size_t read_character(struct jsonread *in, char out[4])
{
    char c = *in->at++;
    if (c != '\\') {
        out[0] = c;
        return 1;
    }
    if (ended(in))
        return 0;
    static const char letter[] = "\"\\/bfnrt";
    static const char means[] = "\"\\/\b\f\n\r\t";
    c = *in->at++;
    const char *found = c != '\0' ? strchr(letter, c) : NULL;
    if (found != NULL) {
        out[0] = means[found - letter];
        return 1;
    }
    if (c != 'u') {
        jsonread_fail(in, "a backslash before a character that needs none");
        return 0;
    }
    long point = read_escaped_point(in);
    return point < 0 ? 0 : utf8_encode((uint32_t)point, out);
}

/* Reads a string: its text into `out` as far as it fits (cut to "" when it
 * does not), its hash as the result. */
static uint64_t read_string(struct jsonread *in, char *out, size_t max)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    size_t n = 0;
    want(in, '"');
    while (in->status == FIRN_OK) {
        if (ended(in)) {
            jsonread_fail(in, "the text ends inside of a string");
            break;
        }
        if (*in->at == '"') {
            in->at++;
            break;
        }
        if ((unsigned char)*in->at < 0x20) {
            jsonread_fail(in, "a control character in a string");
            break;
        }
        char bytes[4];
        size_t nbytes = read_character(in, bytes);
        for (size_t i = 0; i < nbytes; i++, n++) {
            hash = (hash ^ (unsigned char)bytes[i]) * 1099511628211u;
            if (n + 1 < max)
                out[n] = bytes[i];
        }
    }
    if (max > 0)
        out[n + 1 <= max ? n : 0] = '\0';
    return hash;
}

/* --- objects and arrays --------------------------------------------------- */

/* Stands before the next member or element of the level, or leaves it. */
static bool next(struct jsonread *in, char close)
{
    if (in->status != FIRN_OK)
        return false;
    if (in->depth == 0 || in->level[in->depth - 1].close != close) {
        jsonread_fail(in, "nothing that ends with '%c' was entered", close);
        return false;
    }
    if (take(in, close)) {
        in->depth--;
        return false;
    }
    if (in->level[in->depth - 1].started)
        want(in, ',');
    in->level[in->depth - 1].started = true;
    return in->status == FIRN_OK;
}

bool jsonread_member(struct jsonread *in, char *key, size_t max)
{
    if (!next(in, '}'))
        return false;
    uint64_t hash = read_string(in, key, max);
    size_t *nkeys = &in->level[in->depth - 1].nkeys;
    uint64_t *keys = in->level[in->depth - 1].keys;
    for (size_t i = 0; i < *nkeys; i++)
        if (keys[i] == hash)
            jsonread_fail(in, "the key '%.40s' is there twice",
                          max > 0 ? key : "");
    if (*nkeys == JSONREAD_MEMBERS)
        jsonread_fail(in, "more than %d members", JSONREAD_MEMBERS);
    if (in->status == FIRN_OK)
        keys[(*nkeys)++] = hash;
    want(in, ':');
    return in->status == FIRN_OK;
}

bool jsonread_element(struct jsonread *in)
{
    return next(in, ']');
}

/* --- values --------------------------------------------------------------- */

static size_t digits_at(const char *at, const char *end)
{
    size_t n = 0;
    while (at + n < end && at[n] >= '0' && at[n] <= '9')
        n++;
    return n;
}

/* The length of the JSON number at `at`; 0 when there is none. */
static size_t number_length(const char *at, const char *end)
{
    const char *start = at;
    if (at < end && *at == '-')
        at++;
    size_t n = digits_at(at, end);
    if (n == 0 || (n > 1 && *at == '0'))
        return 0;
    at += n;
    if (at < end && *at == '.') {
        n = digits_at(at + 1, end);
        if (n == 0)
            return 0;
        at += n + 1;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        n = digits_at(at, end);
        if (n == 0)
            return 0;
        at += n;
    }
    return (size_t)(at - start);
}

static bool take_word(struct jsonread *in, const char *word)
{
    size_t n = strlen(word);
    skip_space(in);
    if ((size_t)(in->end - in->at) < n || memcmp(in->at, word, n) != 0)
        return false;
    in->at += n;
    return true;
}

static void read_number(struct jsonread *in, double *out)
{
    char text[NUMBER_MAX + 1];
    skip_space(in);
    size_t n = number_length(in->at, in->end);
    double value = 0;
    if (n == 0) {
        jsonread_fail(in, "a number is wanted here");
        return;
    }
    if (n > NUMBER_MAX) {
        jsonread_fail(in, "a number of %zu characters", n);
        return;
    }
    memcpy(text, in->at, n);
    text[n] = '\0';
    if (!str_double(text, &value)) {
        jsonread_fail(in, "%s is beyond all numbers", text);
        return;
    }
    in->at += n;
    *out = value;
}

void jsonread_number(struct jsonread *in, double *out, double none)
{
    if (in->status != FIRN_OK)
        return;
    if (take_word(in, "null"))
        *out = none;
    else
        read_number(in, out);
}

void jsonread_flag(struct jsonread *in, double *out, double none)
{
    if (in->status != FIRN_OK)
        return;
    if (take_word(in, "true"))
        *out = 1;
    else if (take_word(in, "false"))
        *out = 0;
    else
        jsonread_number(in, out, none);
}

/* The start of a value: a whole one, or the opening of an object or array. */
static void skip_start(struct jsonread *in)
{
    double number = 0;
    skip_space(in);
    char c = '\0';
    if (!ended(in))
        c = *in->at;
    if (c == '{' || c == '[')
        jsonread_enter(in, c);
    else if (c == '"')
        read_string(in, NULL, 0);
    else
        jsonread_flag(in, &number, 0);
}

void jsonread_skip(struct jsonread *in)
{
    size_t depth = in->depth;
    char key[48];
    if (in->status != FIRN_OK)
        return;
    skip_start(in);
    while (in->status == FIRN_OK && in->depth > depth) {
        bool more = in->level[in->depth - 1].close == '}'
                        ? jsonread_member(in, key, sizeof key)
                        : jsonread_element(in);
        if (more)
            skip_start(in);
    }
}

void jsonread_end(struct jsonread *in)
{
    if (in->status != FIRN_OK)
        return;
    skip_space(in);
    if (in->depth > 0 || !ended(in))
        jsonread_fail(in, "something follows the end");
}
