/* profiletext.h - the names of numbers in a profile's text.
 *
 * Shared by the reader and the writer, so that they cannot disagree. The
 * format is described in docs/profiles.md.
 */
#ifndef MODEL_PROFILETEXT_H
#define MODEL_PROFILETEXT_H
#include <firn/profile.h>

/* A number of struct firn_itertime. */
struct profiletext_field {
    const char *name;
    size_t at;       /* offset */
    double min, max; /* what is allowed */
    double unless;   /* the value that is not written */
    bool is_int;
};

extern const struct profiletext_field profiletext_fields[];
extern const size_t profiletext_nfields;

/* The one of that name; NULL for none. */
const struct profiletext_field *profiletext_find(const char *name);
/* `of` is what the offsets of its table count from. */
double profiletext_get(const struct profiletext_field *field, const void *of);
void profiletext_set(const struct profiletext_field *field, void *of,
                     double value);

/* A line KEY TYPE NAME X NAME X ... of one type of GPU, beside `time`: offsets
 * are in struct firn_profile_gpu, and the field `needed` must be above 0.
 * NULL-terminated by `key`, fields by name. */
struct profiletext_more {
    const char *key;
    const struct profiletext_field *fields, *needed;
};
extern const struct profiletext_more profiletext_mores[];

/* A sentence: the key and where its text is. NULL-terminated by `key`. */
struct profiletext_line {
    const char *key;
    size_t at, size;
};
extern const struct profiletext_line profiletext_lines[];

/* A number of the profile itself, on a line of its own. */
struct profiletext_number {
    const char *key;
    size_t at;
    double unless; /* the value that means: not known */
};
extern const struct profiletext_number profiletext_numbers[];

#endif
