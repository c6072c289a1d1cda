/* jsonwrite.h - JSON written into memory of the caller's, or only measured.
 *
 * `n` counts all bytes, also those that did not fit; so a first pass with no
 * room measures and a second one writes. Commas come by themselves.
 */
#ifndef WIRE_JSONWRITE_H
#define WIRE_JSONWRITE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jsonwrite {
    char *out;
    size_t max, n;
    bool comma; /* the next member or element wants one before it */
};

/* '{' or '['; with a key (NULL: none) inside of an object. */
void jsonwrite_open(struct jsonwrite *w, const char *key, char open);
void jsonwrite_close(struct jsonwrite *w, char close);
/* Finite: the fewest digits that read back as the same number. */
void jsonwrite_double(struct jsonwrite *w, const char *key, double value);
void jsonwrite_count(struct jsonwrite *w, const char *key, uint64_t value);

#endif
