/* fields.h - where the members of public structs are, for other languages.
 *
 * A binding that repeats a struct reads wrong bytes when the struct has
 * changed. One that asks here follows the library it has loaded:
 * python/firn/_simlib.py makes its structures of these tables.
 */
#ifndef FIRN_FIELDS_H
#define FIRN_FIELDS_H
#include <firn/api.h>
#include <stddef.h>

FIRN_C_BEGIN

struct firn_field {
    const char *name;
    char kind; /* i int, u unsigned or enum, l long, L uint64_t or size_t,
                * d double, b bool, s text (a pointer), t text (an array),
                * x anything else: a struct, an array, a pointer */
    size_t offset, size;
};

/* The members of the struct called `name` ("firn_job_spec"), in the order of
 * the header; `n` gets their number and `size` the size of the struct. NULL for
 * a struct that has no table. */
FIRN_API const struct firn_field *firn_struct_fields(const char *name,
                                                     size_t *n, size_t *size);

FIRN_C_END

#endif
