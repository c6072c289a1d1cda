/* jsonwrite.h - the one JSON writer: into fixed memory, or a growing buffer.
 *
 * Keys and values are written one after another; commas come by themselves.
 * Into fixed memory (struct jsonwrite) nothing is allocated: `n` counts all
 * bytes, also those that did not fit, so that a first pass without memory
 * measures and a second one writes. libfirn_train writes its reports so. The
 * functions jsonbuf_*() append to a struct firn_buf; whether a comma is missing
 * is seen by its last byte, so several functions may add to one object.
 */
#ifndef BASE_JSONWRITE_H
#define BASE_JSONWRITE_H
#include <firn/bytes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jsonwrite {
    char *out;
    size_t max, n;
    bool comma;     /* the next member or element needs one before it */
    bool is_spaced; /* a blank behind each comma and colon */
    /* Makes room for `more` bytes, or aborts; NULL: the memory is fixed. */
    void (*grow)(struct jsonwrite *w, size_t more);
};

/* `key` NULL: an element of a list, or the whole. The bracket is one of {}[].
 */
void jsonwrite_open(struct jsonwrite *w, const char *key, char bracket);
void jsonwrite_close(struct jsonwrite *w, char bracket);
/* The fewest digits that read back as the same number; null if not finite. */
void jsonwrite_double(struct jsonwrite *w, const char *key, double value);
void jsonwrite_int(struct jsonwrite *w, const char *key, int64_t value);
void jsonwrite_count(struct jsonwrite *w, const char *key, uint64_t value);
void jsonwrite_bool(struct jsonwrite *w, const char *key, bool value);
/* Escaped; bytes that are not UTF-8 become U+FFFD. */
void jsonwrite_text(struct jsonwrite *w, const char *key, const char *value);
/* JSON as it is. */
void jsonwrite_raw(struct jsonwrite *w, const char *key, const char *json);
/* A key that may need escapes; its value comes next, with `key` NULL. */
void jsonwrite_key(struct jsonwrite *w, const char *key);
/* The quoted text alone, without comma. */
void jsonwrite_string(struct jsonwrite *w, const char *text);

/* The same, appended to a buffer with blanks behind commas and colons. */
void jsonbuf_open(struct firn_buf *out, const char *key, char bracket);
void jsonbuf_close(struct firn_buf *out, char bracket);
void jsonbuf_text(struct firn_buf *out, const char *key, const char *value);
void jsonbuf_int(struct firn_buf *out, const char *key, int64_t value);
void jsonbuf_double(struct firn_buf *out, const char *key, double value);
void jsonbuf_bool(struct firn_buf *out, const char *key, bool value);
void jsonbuf_raw(struct firn_buf *out, const char *key, const char *json);
void jsonbuf_key(struct firn_buf *out, const char *key);

#endif
