/* jsonread.h - JSON read strictly, member by member, without memory.
 *
 *     jsonread_init(&in, text, n, err);
 *     jsonread_enter(&in, '{');
 *     while (jsonread_member(&in, key, sizeof key))
 *         ... jsonread_number(&in, &x) or jsonread_skip(&in) ...
 *     jsonread_end(&in);
 *     return in.status;
 *
 * The first failure is kept in `status`, with a sentence that names the byte;
 * every later call does nothing then, so one look at the end is enough.
 * Refused: anything RFC 8259 refuses, a key twice in an object, more than
 * JSONREAD_DEPTH levels, more than JSONREAD_MEMBERS members of one object,
 * numbers beyond double or longer than 64 characters. Bytes above 127 in
 * strings are taken as they are.
 */
#ifndef WIRE_JSONREAD_H
#define WIRE_JSONREAD_H
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSONREAD_DEPTH = 8, JSONREAD_MEMBERS = 64 };

struct jsonread {
    const char *start, *at, *end;
    struct firn_error *err;
    enum firn_status status;
    size_t depth;
    struct {
        char close;   /* '}' or ']' */
        bool started; /* a member or element was given out */
        size_t nkeys;
        uint64_t keys[JSONREAD_MEMBERS]; /* hashes */
    } level[JSONREAD_DEPTH];
};

void jsonread_init(struct jsonread *in, const char *text, size_t n,
                   struct firn_error *err);
/* Goes into an object, '{', or an array, '['. */
void jsonread_enter(struct jsonread *in, char open);
/* The key of the next member of the object just entered; its value comes next.
 * A key longer than `max` - 1 bytes is given as "", which is no key of ours.
 * False: the object was left, or something failed. */
bool jsonread_member(struct jsonread *in, char *key, size_t max);
/* Is there a next element in the array just entered? False: it was left, or
 * something failed. */
bool jsonread_element(struct jsonread *in);
/* A number, or `null`, which is `none`. */
void jsonread_number(struct jsonread *in, double *out, double none);
/* The same, and `true` and `false` as 1 and 0. */
void jsonread_flag(struct jsonread *in, double *out, double none);
/* Any value. */
void jsonread_skip(struct jsonread *in);
/* Nothing but white space may be left. */
void jsonread_end(struct jsonread *in);
/* Makes the reader fail with a sentence of the caller's. */
void jsonread_fail(struct jsonread *in, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
