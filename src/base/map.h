/* map.h - gives names small numbers: 0, 1, 2 in the order of their arrival.
 *
 * For interning the names of a trace (users, models, queues). Names are
 * copied; numbers never change. There is no way to walk it in hash order, so
 * nothing can depend on the hash.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H
#include "base/arena.h"
#include <stddef.h>
#include <stdint.h>

/* A zeroed struct is a valid empty map. */
struct map {
    struct arena text;
    const char **names; /* by number */
    size_t n, cap;
    struct map_cell *cells; /* by hash */
    size_t ncells;
};

/* The number of `name`, given now if it has none. O(length) expected. */
int map_add(struct map *map, const char *name);
/* The number of `name`, or -1. */
int map_find(const struct map *map, const char *name);
/* The name of a number below map->n; lives as long as the map. */
const char *map_name(const struct map *map, int number);
void map_release(struct map *map);

#endif
