/* holding.c - allocations owned by an engine.
 */
#include "engine/holding.h"
#include "base/mem.h"
#include <string.h>

void holding_copy(struct firn_alloc *to, const struct firn_alloc *from)
{
    struct firn_part *parts = NULL;
    if (from->nparts > 0) {
        parts = mem_new((size_t)from->nparts, sizeof *parts);
        memcpy(parts, from->parts, (size_t)from->nparts * sizeof *parts);
    }
    mem_free(to->parts);
    *to = *from;
    to->parts = parts;
}

/* The part of this board; a new one in its place if there is none. */
static struct firn_part *part_of(struct firn_alloc *to,
                                 const struct firn_part *like)
{
    int i = 0;
    while (i < to->nparts && (to->parts[i].node < like->node ||
                              (to->parts[i].node == like->node &&
                               to->parts[i].board < like->board)))
        i++;
    if (i < to->nparts && to->parts[i].node == like->node &&
        to->parts[i].board == like->board)
        return &to->parts[i];
    to->parts = mem_grow(to->parts, (size_t)to->nparts, (size_t)to->nparts + 1,
                         sizeof *to->parts);
    memmove(&to->parts[i + 1], &to->parts[i],
            (size_t)(to->nparts - i) * sizeof *to->parts);
    to->nparts++;
    to->parts[i] = (struct firn_part){.node = like->node, .board = like->board};
    return &to->parts[i];
}

void holding_join(struct firn_alloc *to, const struct firn_alloc *more)
{
    for (int i = 0; i < more->nparts; i++) {
        struct firn_part *part = part_of(to, &more->parts[i]);
        for (uint64_t bits = more->parts[i].gpus & ~part->gpus; bits != 0;
             bits &= bits - 1)
            to->ngpus++;
        part->gpus |= more->parts[i].gpus;
    }
}

void holding_release(struct firn_alloc *alloc)
{
    mem_free(alloc->parts);
    *alloc = (struct firn_alloc)FIRN_ALLOC_NONE;
}

bool holding_is_same_run(const struct firn_alloc *held,
                         const struct firn_alloc *want)
{
    struct firn_alloc alike = *want;
    if (want->is_shared && !held->is_shared)
        return false;
    alike.is_shared = held->is_shared;
    alike.tunes = held->tunes;
    if (!want->is_shared)
        alike.how.passes = held->how.passes;
    alike.how.ahead_s = held->how.ahead_s;
    return firn_alloc_equal(held, &alike);
}

bool holding_is_on(const struct firn_cluster *cluster,
                   const struct firn_alloc *alloc)
{
    for (int i = 0; i < alloc->nparts; i++) {
        const struct firn_part *part = &alloc->parts[i];
        if (part->node < 0 || part->node >= cluster->nnodes)
            return false;
        int left =
            cluster->nodes[part->node].ngpus - FIRN_BOARD_GPUS * part->board;
        if (part->board < 0 || left <= 0 || part->gpus == 0 ||
            (left < FIRN_BOARD_GPUS && part->gpus >> left != 0))
            return false;
    }
    return true;
}

bool holding_has(const struct firn_alloc *held, const struct firn_part *part,
                 uint64_t bit)
{
    for (int k = 0; k < held->nparts; k++) {
        const struct firn_part *other = &held->parts[k];
        if (other->node == part->node && other->board == part->board &&
            (other->gpus & bit) != 0)
            return true;
    }
    return false;
}
