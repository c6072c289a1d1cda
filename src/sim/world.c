/* world.c - which policies a world has.
 */
#include "sim/world.h"
#include "base/buf.h"
#include <firn/policy.h>
#include <string.h>

const struct firn_policy_def *
world_policy_find(const struct firn_world_def *def, const char *name,
                  const struct world_policy **as, struct firn_error *err)
{
    struct firn_buf known = {0};
    *as = NULL;
    if (def->policies == NULL)
        return firn_policy_find(name, err);
    for (const struct world_policy *p = def->policies; p->name != NULL; p++) {
        if (strcmp(p->name, name) == 0)
            *as = p;
        buf_printf(&known, "%s%s", known.n > 0 ? ", " : "", p->name);
    }
    if (*as == NULL)
        firn_fail(err, FIRN_EINVAL, "%s never had a policy '%.40s'; it had %s",
                  def->artifact, name, known.at);
    buf_release(&known);
    if (*as == NULL)
        return NULL;
    return (*as)->def ? (*as)->def : firn_policy_find(name, err);
}
