/* compat_table.c - finds the worlds of compat.def by name. */
#include "sim/world.h"
#include <firn/compat.h>

#include "base/buf.h"
#include <string.h>

#define COMPAT(name) extern const struct firn_world_def compat_##name;
#include "compat/compat.def"
#undef COMPAT

static const struct firn_world_def *const table[] = {
#define COMPAT(name) &compat_##name,
#include "compat/compat.def"
#undef COMPAT
    NULL};

const struct firn_world_def *firn_compat_find(const char *name,
                                              struct firn_error *err)
{
    struct firn_buf known = {0};
    for (size_t i = 0; table[i] != NULL; i++) {
        if (strcmp(table[i]->name, name) == 0) {
            buf_release(&known);
            return table[i];
        }
        buf_printf(&known, "%s%s", i > 0 ? ", " : "", table[i]->name);
    }
    firn_fail(err, FIRN_ENOENT, "no simulator '%.40s' is imitated; known: %s",
              name, known.n > 0 ? known.at : "none");
    buf_release(&known);
    return NULL;
}

const struct firn_world_def *const *firn_compats(size_t *n)
{
    *n = sizeof table / sizeof *table - 1;
    return table;
}

const char *firn_compat_name(const struct firn_world_def *world)
{
    return world->name;
}

const char *firn_compat_summary(const struct firn_world_def *world)
{
    return world->summary;
}
