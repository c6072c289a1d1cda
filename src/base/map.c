/* map.c - open addressing over an array of names.
 *
 * A cell holds the hash and the number of a name; the names lie in an arena in
 * the order they came. Hash: FNV-1a with a final mix, fixed, so memory use is
 * the same on every run (names come from the user's own files: no defence
 * against a chosen flood beyond being slow).
 *
 * Invariants:
 * (1) ncells is 0 or a power of two, and at most half of the cells are full,
 *     so a search ends;
 * (2) cell.number is 1 + the name's number, 0 for an empty cell.
 * Not here: removal.
 */
#include "base/map.h"
#include "base/mem.h"
#include <string.h>

struct map_cell {
    uint32_t hash;
    int number; /* (2) */
};

static uint32_t hash_of(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name != '\0'; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    h ^= h >> 32;
    h *= 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 32);
}

/* The cell of `name`, or the empty one where it would go. */
static struct map_cell *cell_of(const struct map *map, const char *name,
                                uint32_t hash)
{
    size_t mask = map->ncells - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        struct map_cell *cell = &map->cells[i];
        if (cell->number == 0)
            return cell;
        if (cell->hash == hash &&
            strcmp(map->names[cell->number - 1], name) == 0)
            return cell;
    }
}

static void grow(struct map *map)
{
    size_t ncells = map->ncells ? 2 * map->ncells : 16;
    struct map_cell *cells = mem_new(ncells, sizeof *cells);
    for (size_t i = 0; i < map->ncells; i++) {
        if (map->cells[i].number == 0)
            continue;
        size_t to = map->cells[i].hash & (ncells - 1);
        while (cells[to].number != 0)
            to = (to + 1) & (ncells - 1);
        cells[to] = map->cells[i];
    }
    mem_free(map->cells);
    map->cells = cells;
    map->ncells = ncells;
}

int map_add(struct map *map, const char *name)
{
    if (2 * (map->n + 1) > map->ncells)
        grow(map); /* (1) */
    uint32_t hash = hash_of(name);
    struct map_cell *cell = cell_of(map, name, hash);
    if (cell->number != 0)
        return cell->number - 1;
    if (map->n == map->cap) {
        size_t cap = map->cap ? 2 * map->cap : 16;
        map->names = mem_grow(map->names, map->cap, cap, sizeof *map->names);
        map->cap = cap;
    }
    map->names[map->n++] = arena_strdup(&map->text, name);
    *cell = (struct map_cell){.hash = hash, .number = (int)map->n};
    return (int)map->n - 1;
}

int map_find(const struct map *map, const char *name)
{
    if (map->n == 0)
        return -1;
    return cell_of(map, name, hash_of(name))->number - 1;
}

const char *map_name(const struct map *map, int number)
{
    return map->names[number];
}

void map_release(struct map *map)
{
    if (map == NULL)
        return;
    arena_release(&map->text);
    mem_free(map->names);
    mem_free(map->cells);
    *map = (struct map){0};
}
