/* policy_table.c - the list of policies, and finding one by name.
 *
 * A list rather than constructors: a linker drops objects of a static library
 * that are not referred to, and here the order is in plain sight.
 */
#include <firn/policy.h>

#include "base/str.h"
#include "policy/policy_load.h"
#include <string.h>

#define POLICY(id) extern const struct firn_policy_def firn_policy_##id;
#include "policy/policies.def"
#undef POLICY

static const struct firn_policy_def *const table[] = {
#define POLICY(id) &firn_policy_##id,
#include "policy/policies.def"
#undef POLICY
};

enum { NPOLICIES = sizeof table / sizeof *table };

const struct firn_policy_def *const *firn_policies(size_t *n)
{
    *n = NPOLICIES;
    return table;
}

const struct firn_policy_def *firn_policy_find(const char *name,
                                               struct firn_error *err)
{
    const char *names[NPOLICIES];
    for (size_t i = 0; i < NPOLICIES; i++) {
        names[i] = table[i]->name;
        if (strcmp(name, names[i]) == 0)
            return table[i];
    }
    const struct firn_policy_def *loaded = policy_loaded(name);
    if (loaded != NULL)
        return loaded;
    int near = str_nearest(name, names, NPOLICIES);
    if (near >= 0)
        firn_fail(err, FIRN_ENOENT,
                  "there is no policy '%.60s'; did you mean '%s'?", name,
                  names[near]);
    else
        firn_fail(err, FIRN_ENOENT,
                  "there is no policy '%.60s'; `firn policies` lists them",
                  name);
    return NULL;
}
