/* jsonread.h - the one JSON reader of text: strict, and without allocation.
 *
 * A pull reader. jsonread_next() returns the next part of the text as an event;
 * the functions below it read whole members and values:
 *
 *     jsonread_init(&in, text, n, err);
 *     jsonread_enter(&in, '{');
 *     while (jsonread_member(&in, &keys, key, sizeof key))
 *         ... jsonread_number(&in, &x, none) or jsonread_skip(&in) ...
 *     jsonread_end(&in);
 *     return in.status;
 *
 * The first failure is kept in `status`, with a sentence that names the byte;
 * every later call does nothing, so one check at the end is enough. Rejected:
 * anything that RFC 8259 rejects, and more than `depth_max` levels of nesting.
 * jsonread_member() also rejects a key that an object has twice and more than
 * JSONREAD_MEMBERS members; jsonread_number() numbers beyond double or longer
 * than 64 characters. Bytes above 127 in strings are accepted as they are.
 *
 * Where a tree of values is needed, firnd and the commands use jansson.
 */
#ifndef BASE_JSONREAD_H
#define BASE_JSONREAD_H
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSONREAD_DEPTH = 64, JSONREAD_MEMBERS = 64 };

enum jsonread_event {
    JSONREAD_FAILED, /* `status` and the error have the reason */
    JSONREAD_END,    /* the value is complete and nothing follows it */
    JSONREAD_OPEN,   /* '{' or '[' */
    JSONREAD_CLOSE,  /* '}' or ']' */
    JSONREAD_KEY,    /* a key and its colon */
    JSONREAD_STRING,
    JSONREAD_NUMBER,
    JSONREAD_WORD /* true, false or null */
};

struct jsonread {
    const char *start, *at, *end;
    struct firn_error *err;
    enum firn_status status;
    unsigned depth, depth_max; /* at most JSONREAD_DEPTH */
    uint64_t objects;          /* bit i: level i is an object, not an array */
    bool wants_value;          /* at the start, and after a key */
    bool is_new;               /* the innermost level had no event so far */
    /* Of the last event: */
    struct firn_bytes token; /* its text; a string with its quotes */
    bool is_plain;           /* a string of ASCII without escapes */
    bool is_first; /* a key, element or end with none before it in its level */
};

void jsonread_init(struct jsonread *in, const char *text, size_t n,
                   struct firn_error *err);
enum jsonread_event jsonread_next(struct jsonread *in);

/* The keys of one object so far, by hash; starts as {0}. */
struct jsonread_keys {
    size_t n;
    uint64_t hash[JSONREAD_MEMBERS];
};

/* Enters an object, '{', or an array, '['. */
void jsonread_enter(struct jsonread *in, char open);
/* Reads the key of the next member of the innermost object; its value comes
 * next. A key longer than `max` - 1 bytes reads as "". False: the object was
 * left, or something failed. */
bool jsonread_member(struct jsonread *in, struct jsonread_keys *keys, char *key,
                     size_t max);
/* Has the innermost array a next element? False: it was left, or something
 * failed. */
bool jsonread_element(struct jsonread *in);
/* Reads a number, or `null`, which is `none`. */
void jsonread_number(struct jsonread *in, double *out, double none);
/* The same, and `true` and `false` as 1 and 0. */
void jsonread_flag(struct jsonread *in, double *out, double none);
/* Reads any value. */
void jsonread_skip(struct jsonread *in);
/* Fails if anything but white space is left. */
void jsonread_end(struct jsonread *in);
/* Makes the reader fail with the caller's sentence. */
void jsonread_fail(struct jsonread *in, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
