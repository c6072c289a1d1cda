/* liveload.c - means of what was seen: a job that waits has not been seen
 * itself, but others of its application have.
 *
 * Utilisation is averaged, the newest counting for SAMPLE_RATE: a driver's
 * figure is of the last fraction of a second. Of memory the most counts.
 *
 * Cost: a look into a hash table. APPS_MAX applications; those that come later
 * are not known.
 */
#include "daemon/liveload.h"
#include "base/map.h"
#include "base/vec.h"
#include <math.h>

#define SAMPLE_RATE 0.3

enum { APPS_MAX = 4096 };

struct liveload {
    int ntypes;
    struct map names;
    VEC(struct firn_load) at; /* by number in `names`, then type */
};

struct liveload *liveload_new(int ntypes)
{
    struct liveload *l = mem_new(1, sizeof *l);
    l->ntypes = ntypes;
    return l;
}

void liveload_free(struct liveload *l)
{
    if (l == NULL)
        return;
    map_release(&l->names);
    vec_release(&l->at);
    mem_free(l);
}

void liveload_saw(struct liveload *l, const char *app, firn_type_id type,
                  const struct firn_load *seen)
{
    const struct firn_load unknown = {(double)NAN, (double)NAN};
    int number = map_find(&l->names, app);
    if (*app == '\0' || type < 0 || type >= l->ntypes ||
        (number < 0 && l->names.n >= APPS_MAX))
        return;
    if (number < 0) {
        number = map_add(&l->names, app);
        for (int t = 0; t < l->ntypes; t++)
            vec_add(&l->at, unknown);
    }
    struct firn_load *to = &l->at.at[number * l->ntypes + type];
    if (isnan(to->util))
        *to = *seen;
    to->util += SAMPLE_RATE * (seen->util - to->util);
    to->mem_gib = fmax(to->mem_gib, seen->mem_gib);
}

struct firn_load liveload_of(const struct liveload *l, const char *app,
                             firn_type_id type)
{
    int number = map_find(&l->names, app);
    return number >= 0 && type >= 0 && type < l->ntypes
               ? l->at.at[number * l->ntypes + type]
               : (struct firn_load){(double)NAN, (double)NAN};
}
