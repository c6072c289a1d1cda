/* place.c - fewest nodes, then best fit; one GPU type before several.
 *
 * On one type: while no single node can hold what is left, take the emptiest
 * node whole; then the fullest node that still fits the rest. Taking the
 * emptiest first uses the fewest nodes possible, and the last, best-fitting
 * node leaves the largest holes whole (the rule Shockwave and Tiresias use).
 *
 * Which type, when several can hold the job: the fewest nodes, then the
 * tightest fit, then the lower id. `fastest` asks for speed before fit. When
 * none can hold it alone the job is spread over types, those with the most
 * free GPUs first, so that few types are mixed.
 */
#include "core/place.h"
#include <stdlib.h>

/* Takes `gpus` of one node, lowest numbers first. */
static void take_node(struct freemap *map, firn_node_id node, int gpus,
                      struct firn_alloc *out)
{
    int first = map->first_board[node], end = map->first_board[node + 1];
    for (int b = first; b < end && gpus > 0; b++) {
        uint64_t mask = 0;
        for (uint64_t left = map->free[b]; left && gpus > 0;
             left &= left - 1, gpus--)
            mask |= left & -left;
        if (mask == 0)
            continue;
        struct firn_part *part = &out->parts[out->nparts++];
        *part = (struct firn_part){node, b - first, mask};
        out->ngpus += __builtin_popcountll(mask);
        struct firn_alloc one = {
            .parts = part, .nparts = 1, .is_shared = out->is_shared};
        freemap_take(map, &one);
    }
}

/* Takes `gpus` GPUs of one type that has that many. */
static void take_type(struct freemap *map, firn_type_id type, int gpus,
                      struct firn_alloc *out)
{
    while (gpus > 0) {
        firn_node_id node = freemap_best_fit(map, type, gpus);
        if (node < 0)
            node = freemap_emptiest(map, type);
        int some = map->node_free[node] < gpus ? map->node_free[node] : gpus;
        take_node(map, node, some, out);
        gpus -= some;
    }
}

struct choice {
    firn_type_id type;
    int nodes, spare; /* nodes needed; free GPUs left on the last one */
};

static bool better(const struct freemap *map, const struct firn_want *want,
                   const struct choice *a, const struct choice *b)
{
    const struct firn_gpu_type *types = map->cluster->types;
    if (want->fastest && types[a->type].speed != types[b->type].speed)
        return types[a->type].speed > types[b->type].speed;
    if (a->nodes != b->nodes)
        return a->nodes < b->nodes;
    return a->spare < b->spare;
}

/* The best single type that can hold all of it, or -1. */
static firn_type_id one_type(const struct freemap *map,
                             const struct firn_want *want, uint32_t accepts)
{
    struct choice best = {.type = -1};
    for (int t = 0; t < map->cluster->ntypes; t++) {
        if ((accepts >> t & 1) == 0)
            continue;
        firn_node_id fit = freemap_best_fit(map, t, want->gpus);
        int nodes = fit >= 0 ? 1 : freemap_nodes_needed(map, t, want->gpus);
        if (nodes < 0 || (want->one_node && nodes > 1))
            continue;
        int spare = fit >= 0 ? map->node_free[fit] - want->gpus : 0;
        struct choice c = {t, nodes, spare};
        if (best.type < 0 || better(map, want, &c, &best))
            best = c;
    }
    return best.type;
}

/* The accepted type to draw from next when mixing, or -1. */
static firn_type_id next_type(const struct freemap *map, bool fastest,
                              uint32_t accepts)
{
    firn_type_id best = -1;
    for (int t = 0; t < map->cluster->ntypes; t++) {
        if ((accepts >> t & 1) == 0 || map->types[t].free == 0)
            continue;
        const struct firn_gpu_type *types = map->cluster->types;
        bool wins =
            best < 0 || (fastest ? types[t].speed > types[best].speed
                                 : map->types[t].free > map->types[best].free);
        if (wins)
            best = t;
    }
    return best;
}

static int free_of(const struct freemap *map, uint32_t accepts)
{
    int free = 0;
    for (int t = 0; t < map->cluster->ntypes; t++)
        free += accepts >> t & 1 ? map->types[t].free : 0;
    return free;
}

static bool counts_fit(const struct freemap *map, const struct firn_want *want,
                       uint32_t accepts)
{
    int sum = 0, types = 0, last = 0;
    for (int t = 0; t < map->cluster->ntypes; t++) {
        int n = want->counts[t];
        if (n < 0 || n > map->types[t].free ||
            (n > 0 && (accepts >> t & 1) == 0))
            return false;
        sum += n;
        types += n > 0;
        last = n > 0 ? t : last;
    }
    if (types > 1 && (want->one_type || want->one_node))
        return false;
    if (want->one_node && freemap_best_fit(map, last, want->gpus) < 0)
        return false;
    return sum == want->gpus;
}

static void mix(struct freemap *map, const struct firn_want *want,
                uint32_t accepts, struct firn_alloc *out)
{
    for (int left = want->gpus; left > 0;) {
        firn_type_id type = next_type(map, want->fastest, accepts);
        int some = map->types[type].free < left ? map->types[type].free : left;
        take_type(map, type, some, out);
        left -= some;
    }
}

static int by_place(const void *a, const void *b)
{
    const struct firn_part *p = a, *q = b;
    if (p->node != q->node)
        return p->node < q->node ? -1 : 1;
    return (p->board > q->board) - (p->board < q->board);
}

bool place_take(struct freemap *map, const struct firn_want *want,
                uint32_t accepts, struct arena *scratch, struct firn_alloc *out)
{
    if (want->types != 0)
        accepts &= want->types;
    if (want->gpus < 1 || free_of(map, accepts) < want->gpus)
        return false;
    firn_type_id type = -1;
    if (want->counts != NULL) {
        if (!counts_fit(map, want, accepts))
            return false;
    } else {
        type = one_type(map, want, accepts);
        if (type < 0 && (want->one_type || want->one_node))
            return false;
    }
    /* Each GPU is in one part at most, so this is always room enough. */
    *out = (struct firn_alloc){.is_shared = want->shared,
                               .how = FIRN_HOW_AS_SUBMITTED};
    out->parts = arena_alloc(scratch, (size_t)want->gpus * sizeof *out->parts);
    if (want->counts != NULL) {
        for (int t = 0; t < map->cluster->ntypes; t++)
            take_type(map, t, want->counts[t], out);
    } else if (type >= 0) {
        take_type(map, type, want->gpus, out);
    } else {
        mix(map, want, accepts, out);
    }
    qsort(out->parts, (size_t)out->nparts, sizeof *out->parts, by_place);
    return true;
}
