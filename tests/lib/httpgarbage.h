/* httpgarbage.h - requests that must change nothing, of every kind.
 *
 * Made from a seed: methods and paths that do not belong together, hostile ids
 * and names in every route of routes.def, hostile bodies, heads that can be
 * read in two ways, and beginnings of good requests.
 */
#ifndef LIB_HTTPGARBAGE_H
#define LIB_HTTPGARBAGE_H
#include "base/rng.h"
#include <stdbool.h>
#include <stddef.h>

enum { GARBAGE_BYTES = 2200000 };

/* A request, and what may be answered. */
struct garbage {
    char *bytes; /* GARBAGE_BYTES of room */
    size_t n;
    bool is_half; /* not whole: hang up after it */
    bool is_job;  /* a hostile job file, held; 201 is possible */
    const char *what;
};

void garbage_make(struct garbage *out, struct rng *rng);
/* May this be the status of its answer? 0: the server hung up. */
bool garbage_may(const struct garbage *garbage, int status);

#endif
