/* adaptdlplace.c - the node with the most free GPUs first.
 *
 * Again and again the node with the most free GPUs, the lowest number of
 * several, gives all it has or all that is still wanted (Q5 of
 * compat/adaptdl.c). The remainder of a job thus breaks into the emptiest node
 * rather than into one it would fill.
 *
 * Invariant: counts taken never rise, so "by falling count" is the order in
 * which nodes were taken.
 * Cost: O(nodes taken), for nodes of one type with at most 64 GPUs.
 */
#include "compat/adaptdlplace.h"
#include <stdlib.h>

static int by_node(const void *a, const void *b)
{
    const struct firn_part *x = a, *y = b;
    return (x->node > y->node) - (x->node < y->node);
}

bool adaptdl_place(struct freemap *map, const struct firn_want *want,
                   uint32_t accepts, struct arena *scratch,
                   struct firn_alloc *out)
{
    (void)accepts; /* one type */
    if (want->gpus > map->free_gpus)
        return false;
    *out = (struct firn_alloc){.is_shared = want->shared,
                               .how = FIRN_HOW_AS_SUBMITTED};
    out->parts =
        arena_alloc(scratch, (size_t)map->cluster->nnodes * sizeof *out->parts);
    while (out->ngpus < want->gpus) {
        firn_node_id node = freemap_emptiest(map, 0);
        struct firn_part *part = &out->parts[out->nparts++];
        *part = (struct firn_part){.node = node};
        for (uint64_t free = map->free[map->first_board[node]];
             free != 0 && out->ngpus < want->gpus; free &= free - 1) {
            part->gpus |= free & -free;
            out->ngpus++;
        }
        struct firn_alloc one = {.parts = part,
                                 .nparts = 1,
                                 .ngpus = __builtin_popcountll(part->gpus),
                                 .is_shared = want->shared};
        freemap_take(map, &one);
    }
    qsort(out->parts, (size_t)out->nparts, sizeof *out->parts, by_node);
    return true;
}
