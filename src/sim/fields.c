/* fields.c - the tables of fields.def, with kinds found by the compiler.
 *
 * A kind comes from the member's type (_Generic), its offset and size from the
 * struct: nothing here can disagree with the header it was compiled with.
 * Cost: a linear search, once for each struct when a binding is loaded.
 */
#include <firn/fields.h>
#include <firn/policy.h>
#include <firn/sim.h>
#include <stdbool.h>
#include <string.h>

#define MEMBER(of, member) (((const struct of *)0)->member)

#define KIND(of, member) \
    _Generic(MEMBER(of, member),  \
        int: 'i',                 \
        unsigned: 'u',            \
        long: 'l',                \
        unsigned long: 'L',       \
        double: 'd',              \
        bool: 'b',                \
        const char *: KIND_TEXT(of, member), \
        default: 'x')

/* A const array of char decays to a const char *, as a text does. */
#define KIND_TEXT(of, member) \
    (sizeof(MEMBER(of, member)) == sizeof(char *) ? 's' : 't')

/* One list of all members; a struct's are between its begin and the next. */
static const struct firn_field all[] = {
#define STRUCT(of)
#define FIELD(of, member)                                    \
    {#member, KIND(of, member), offsetof(struct of, member), \
     sizeof(MEMBER(of, member))},
#include "sim/fields.def"
#undef STRUCT
#undef FIELD
};

enum at {
#define STRUCT(of)        FIRST_##of, BEFORE_##of = FIRST_##of - 1,
#define FIELD(of, member) AT_##of##_##member,
#include "sim/fields.def"
#undef STRUCT
#undef FIELD
    NFIELDS
};

static const struct table {
    const char *name;
    size_t first, size;
} tables[] = {
#define STRUCT(of) {#of, FIRST_##of, sizeof(struct of)},
#define FIELD(of, member)
#include "sim/fields.def"
#undef STRUCT
#undef FIELD
};

enum { NTABLES = sizeof tables / sizeof *tables };

_Static_assert(NFIELDS == sizeof all / sizeof *all, "one number a member");

const struct firn_field *firn_struct_fields(const char *name, size_t *n,
                                            size_t *size)
{
    for (size_t i = 0; i < NTABLES; i++) {
        if (strcmp(tables[i].name, name) != 0)
            continue;
        size_t end = i + 1 < NTABLES ? tables[i + 1].first : (size_t)NFIELDS;
        *n = end - tables[i].first;
        *size = tables[i].size;
        return &all[tables[i].first];
    }
    return NULL;
}
