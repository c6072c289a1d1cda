/* handover.c - when each GPU is free, one number a GPU.
 *
 * A job that gets a GPU before it is free holds it and waits. If it loses it
 * again meanwhile there is nothing to end and nothing to save: the GPU is free
 * when it would have been. Cost: O(GPUs) of the allocations named.
 */
#include "sim/handover.h"
#include "base/mem.h"

void handover_open(struct handover *handover,
                   const struct firn_cluster *cluster)
{
    handover->free_s = mem_new((size_t)cluster->ngpus + 1, sizeof(double));
    handover->first_gpu = mem_new((size_t)cluster->nnodes + 1, sizeof(int));
    for (int i = 1; i < cluster->nnodes; i++)
        handover->first_gpu[i] =
            handover->first_gpu[i - 1] + cluster->nodes[i - 1].ngpus;
}

void handover_close(struct handover *handover)
{
    mem_free(handover->free_s);
    mem_free(handover->first_gpu);
    *handover = (struct handover){0};
}

static double *free_of(const struct handover *handover,
                       const struct firn_part *part, int gpu)
{
    return &handover->free_s[handover->first_gpu[part->node] +
                             part->board * FIRN_BOARD_GPUS + gpu];
}

/* The GPUs of that board in an allocation. */
static uint64_t on_board(const struct firn_alloc *alloc,
                         const struct firn_part *part)
{
    for (int i = 0; i < alloc->nparts; i++)
        if (alloc->parts[i].node == part->node &&
            alloc->parts[i].board == part->board)
            return alloc->parts[i].gpus;
    return 0;
}

void handover_leave(struct handover *handover, const struct firn_alloc *from,
                    const struct firn_alloc *to, double at_s)
{
    for (int i = 0; handover->free_s != NULL && i < from->nparts; i++) {
        const struct firn_part *part = &from->parts[i];
        uint64_t left = part->gpus & ~on_board(to, part);
        for (; left; left &= left - 1) {
            double *free_s = free_of(handover, part, __builtin_ctzll(left));
            *free_s = *free_s > at_s ? *free_s : at_s;
        }
    }
}

double handover_ready_s(const struct handover *handover,
                        const struct firn_alloc *alloc, double now_s)
{
    for (int i = 0; handover->free_s != NULL && i < alloc->nparts; i++) {
        const struct firn_part *part = &alloc->parts[i];
        for (uint64_t left = part->gpus; left; left &= left - 1) {
            double free_s = *free_of(handover, part, __builtin_ctzll(left));
            now_s = free_s > now_s ? free_s : now_s;
        }
    }
    return now_s;
}
