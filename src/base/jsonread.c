/* jsonread.c - the one JSON reader of text: strict, and without allocation.
 *
 * A cursor over the text. Invariants:
 * (1) start <= at <= end, and no byte at or after `end` is read;
 * (2) depth <= depth_max <= 64; bit depth - 1 of `objects` says whether `at` is
 *     inside of an object or of an array;
 * (3) after a failure nothing moves any more.
 *
 * A repeated key is found by a hash of its characters after escapes, so that
 * "a" and "\u0061" are the same key. Two different keys with one hash (one in
 * 2^58 for a full object) would be rejected wrongly; nothing worse.
 *
 * Numbers are checked against JSON's grammar here and turned into doubles by
 * base/str.h, which rounds correctly in every locale. Cost: O(n), for
 * jsonread_member() of k members O(k^2) comparisons of integers, k <= 64.
 *
 * Needs libc alone: libfirn_train has it, in programs of users.
 */
#include "base/jsonread.h"
#include "base/str.h"
#include "base/utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER_MAX = 64 };

void jsonread_init(struct jsonread *in, const char *text, size_t n,
                   struct firn_error *err)
{
    text = n > 0 ? text : "";
    *in = (struct jsonread){.start = text,
                            .at = text,
                            .end = text + n,
                            .err = err,
                            .status = FIRN_OK,
                            .depth_max = JSONREAD_DEPTH,
                            .wants_value = true};
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

/* The next byte that is not white space; NUL at the end. */
static char peek(struct jsonread *in)
{
    while (!ended(in) && (*in->at == ' ' || *in->at == '\t' ||
                          *in->at == '\n' || *in->at == '\r'))
        in->at++;
    return ended(in) ? '\0' : *in->at;
}

static bool want(struct jsonread *in, char c)
{
    if (peek(in) == c && !ended(in)) {
        in->at++;
        return true;
    }
    jsonread_fail(in,
                  ended(in) ? "the text ends where '%c' is wanted"
                            : "'%c' is wanted here",
                  c);
    return false;
}

static bool in_object(const struct jsonread *in)
{
    return in->depth > 0 && (in->objects >> (in->depth - 1) & 1) != 0;
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

/* Reads the four digits of \uXXXX; -1 on failure. */
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

/* Reads the character of a \u escape, which may be a surrogate pair. */
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

/* Reads an escape at its backslash; returns how many bytes its character has,
 * 0 on failure. */
static size_t read_escape(struct jsonread *in, char out[4])
{
    static const char letter[] = "\"\\/bfnrt";
    static const char means[] = "\"\\/\b\f\n\r\t";
    in->at++;
    if (ended(in)) {
        jsonread_fail(in, "the text ends inside of a string");
        return 0;
    }
    char c = *in->at++;
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

/* ASCII that stands for itself in a string. */
static bool is_plain(char c)
{
    return (signed char)c >= 0x20 && c != '"' && c != '\\';
}

/* Checks a string and makes it the token; false on failure. */
static bool read_string(struct jsonread *in)
{
    char unused[4];
    if (!want(in, '"'))
        return false;
    in->token.at = in->at - 1;
    in->is_plain = true;
    for (;;) {
        const char *at = in->at, *end = in->end;
        while (at < end && is_plain(*at))
            at++;
        in->at = at;
        if (at < end && *at == '"')
            break;
        in->is_plain = false;
        if (at == end)
            jsonread_fail(in, "the text ends inside of a string");
        else if ((unsigned char)*at < 0x20)
            jsonread_fail(in, "a control character in a string");
        else if (*at == '\\')
            read_escape(in, unused);
        else
            in->at++;
        if (in->status != FIRN_OK)
            return false;
    }
    in->at++;
    in->token.n = (size_t)(in->at - in->token.at);
    return true;
}

/* Stores the characters of the token, a string, as far as they fit ("" if they
 * do not); returns their hash. */
static uint64_t token_text(const struct jsonread *in, char *out, size_t max)
{
    struct jsonread string = {.at = in->token.at + 1,
                              .end = in->token.at + in->token.n - 1};
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    size_t n = 0;
    while (!ended(&string)) {
        char bytes[4] = {*string.at};
        size_t nbytes = 1;
        if (*string.at == '\\')
            nbytes = read_escape(&string, bytes);
        else
            string.at++;
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

/* --- events --------------------------------------------------------------- */

static const char *after_digits(const char *at, const char *end)
{
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at;
}

/* The length of the JSON number at `at`; 0 if there is none. */
static size_t number_length(const char *at, const char *end)
{
    const char *start = at;
    at += at < end && *at == '-';
    const char *digits = at;
    at = after_digits(at, end);
    if (at == digits || (*digits == '0' && at > digits + 1))
        return 0;
    if (at < end && *at == '.') {
        digits = ++at;
        at = after_digits(at, end);
        if (at == digits)
            return 0;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < end && (*at == '+' || *at == '-');
        digits = at;
        at = after_digits(at, end);
        if (at == digits)
            return 0;
    }
    return (size_t)(at - start);
}

static size_t word_length(const struct jsonread *in)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(in->end - in->at) >= n && memcmp(in->at, words[i], n) == 0)
            return n;
    }
    return 0;
}

static enum jsonread_event open_level(struct jsonread *in, char c)
{
    if (in->depth >= in->depth_max) {
        jsonread_fail(in, "more than %u levels of nesting", in->depth_max);
        return JSONREAD_FAILED;
    }
    uint64_t bit = (uint64_t)1 << in->depth++;
    in->objects = c == '{' ? in->objects | bit : in->objects & ~bit;
    in->is_new = true;
    in->token = (struct firn_bytes){in->at++, 1};
    return JSONREAD_OPEN;
}

static enum jsonread_event read_value(struct jsonread *in)
{
    char c = peek(in);
    in->wants_value = false;
    if (c == '"')
        return read_string(in) ? JSONREAD_STRING : JSONREAD_FAILED;
    if (c == '{' || c == '[')
        return open_level(in, c);
    bool is_word = c >= 'a';
    size_t n = is_word ? word_length(in) : number_length(in->at, in->end);
    if (n == 0) {
        jsonread_fail(in, "a number is wanted here");
        return JSONREAD_FAILED;
    }
    in->token = (struct firn_bytes){in->at, n};
    in->at += n;
    return is_word ? JSONREAD_WORD : JSONREAD_NUMBER;
}

enum jsonread_event jsonread_next(struct jsonread *in)
{
    if (in->status != FIRN_OK)
        return JSONREAD_FAILED; /* (3) */
    if (in->wants_value)
        return read_value(in);
    char c = peek(in);
    if (in->depth == 0) {
        if (ended(in))
            return JSONREAD_END;
        jsonread_fail(in, "something follows the end");
        return JSONREAD_FAILED;
    }
    bool is_object = in_object(in);
    in->is_first = in->is_new;
    in->is_new = false;
    if (c == (is_object ? '}' : ']')) {
        in->depth--;
        in->token = (struct firn_bytes){in->at++, 1};
        return JSONREAD_CLOSE;
    }
    if (!in->is_first && !want(in, ','))
        return JSONREAD_FAILED;
    if (!is_object)
        return read_value(in);
    if (!read_string(in) || !want(in, ':'))
        return JSONREAD_FAILED;
    in->wants_value = true;
    return JSONREAD_KEY;
}

/* --- members and values --------------------------------------------------- */

/* Fails at the last event. */
static void fail_at_token(struct jsonread *in, const char *message)
{
    if (in->status != FIRN_OK)
        return;
    in->at = in->token.at;
    jsonread_fail(in, "%s", message);
}

void jsonread_enter(struct jsonread *in, char open)
{
    if (in->status == FIRN_OK && in->wants_value && peek(in) != open)
        want(in, open);
    else if (jsonread_next(in) != JSONREAD_OPEN || *in->token.at != open)
        fail_at_token(in, open == '{' ? "'{' is wanted here"
                                      : "'[' is wanted here");
}

bool jsonread_member(struct jsonread *in, struct jsonread_keys *keys, char *key,
                     size_t max)
{
    enum jsonread_event event = jsonread_next(in);
    if (event != JSONREAD_KEY) {
        if (event != JSONREAD_CLOSE || *in->token.at != '}')
            fail_at_token(in, "a key is wanted here");
        return false;
    }
    uint64_t hash = token_text(in, key, max);
    for (size_t i = 0; i < keys->n; i++)
        if (keys->hash[i] == hash)
            jsonread_fail(in, "the key '%.40s' is there twice",
                          max > 0 ? key : "");
    if (keys->n == JSONREAD_MEMBERS)
        jsonread_fail(in, "more than %d members", JSONREAD_MEMBERS);
    if (in->status == FIRN_OK)
        keys->hash[keys->n++] = hash;
    return in->status == FIRN_OK;
}

bool jsonread_element(struct jsonread *in)
{
    if (in->status != FIRN_OK)
        return false;
    if (in->depth == 0 || in_object(in)) {
        jsonread_fail(in, "no array was entered");
        return false;
    }
    if (peek(in) != ']')
        return true; /* the next event is the element, or fails */
    jsonread_next(in);
    return false;
}

static bool is_word(const struct jsonread *in, enum jsonread_event event,
                    const char *word)
{
    return event == JSONREAD_WORD && in->token.n == strlen(word) &&
           memcmp(in->token.at, word, in->token.n) == 0;
}

/* Stores the value of a number or `null`, which was the last event. */
static void take_number(struct jsonread *in, enum jsonread_event event,
                        double *out, double none)
{
    char text[NUMBER_MAX + 1];
    double value = 0;
    if (is_word(in, event, "null")) {
        *out = none;
        return;
    }
    if (event != JSONREAD_NUMBER) {
        fail_at_token(in, "a number is wanted here");
        return;
    }
    if (in->token.n > NUMBER_MAX) {
        jsonread_fail(in, "a number of %zu characters", in->token.n);
        return;
    }
    memcpy(text, in->token.at, in->token.n);
    text[in->token.n] = '\0';
    if (str_double(text, &value))
        *out = value;
    else
        jsonread_fail(in, "%s is beyond all numbers", text);
}

void jsonread_number(struct jsonread *in, double *out, double none)
{
    enum jsonread_event event = jsonread_next(in);
    if (event != JSONREAD_FAILED)
        take_number(in, event, out, none);
}

void jsonread_flag(struct jsonread *in, double *out, double none)
{
    enum jsonread_event event = jsonread_next(in);
    if (is_word(in, event, "true"))
        *out = 1;
    else if (is_word(in, event, "false"))
        *out = 0;
    else if (event != JSONREAD_FAILED)
        take_number(in, event, out, none);
}

void jsonread_skip(struct jsonread *in)
{
    struct jsonread_keys keys;
    char key[48];
    keys.n = 0;
    enum jsonread_event event = jsonread_next(in);
    if (event != JSONREAD_OPEN) {
        if (event == JSONREAD_CLOSE || event == JSONREAD_KEY)
            fail_at_token(in, "a value is wanted here");
    } else if (in_object(in)) {
        while (jsonread_member(in, &keys, key, sizeof key))
            jsonread_skip(in); /* depth: (2) */
    } else {
        while (jsonread_element(in))
            jsonread_skip(in);
    }
}

void jsonread_end(struct jsonread *in)
{
    if (in->status == FIRN_OK && jsonread_next(in) != JSONREAD_END)
        fail_at_token(in, "something follows the end");
}
