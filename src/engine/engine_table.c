/* engine_table.c - the list of engines, and finding one by name.
 *
 * A list rather than constructors: a static library drops objects without
 * references, and the list shows the order.
 */
#include <firn/engine.h>

#include "base/buf.h"
#include "base/str.h"
#include <string.h>

#define ENGINE(id) extern const struct firn_engine_def firn_engine_##id;
#include "engine/engines.def"
#undef ENGINE

static const struct firn_engine_def *const table[] = {
#define ENGINE(id) &firn_engine_##id,
#include "engine/engines.def"
#undef ENGINE
};

enum { NENGINES = sizeof table / sizeof *table };

const struct firn_engine_def *const *firn_engines(size_t *n)
{
    *n = NENGINES;
    return table;
}

const struct firn_engine_def *firn_engine_find(const char *name,
                                               struct firn_error *err)
{
    const char *names[NENGINES];
    for (size_t i = 0; i < NENGINES; i++) {
        names[i] = table[i]->name;
        if (strcmp(name, names[i]) == 0)
            return table[i];
    }
    int near = str_nearest(name, names, NENGINES);
    if (near >= 0) {
        firn_fail(err, FIRN_ENOENT,
                  "there is no engine '%.60s'; did you mean '%s'?", name,
                  names[near]);
        return NULL;
    }
    struct firn_buf all = {0};
    for (size_t i = 0; i < NENGINES; i++)
        buf_printf(&all, "%s%s", i > 0 ? ", " : "", names[i]);
    firn_fail(err, FIRN_ENOENT,
              "there is no engine '%.60s'; the engines are: %s", name, all.at);
    buf_release(&all);
    return NULL;
}
