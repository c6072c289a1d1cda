/* local_foreign.c - foreign processes on this host's GPUs, as the driver says.
 *
 * The driver lists the processes that use a GPU (engine/gpus.h). Every few
 * seconds the engine looks at all GPUs and reports each board where the set of
 * GPUs with foreign processes has changed. A start looks too, because a GPU may
 * have been taken since: the job then waits.
 *
 * A process whose owner cannot be determined, or that any firnd started, counts
 * as:
 *
 *     an attempt of ours holds that GPU   ours
 *     else, seen by one look              a start waits, nothing is reported
 *     else, seen by two looks in a row    foreign
 *
 * So neither a worker that has just ended nor, where the driver numbers
 * processes differently (containers), a neighbour of a job counts as foreign. A
 * foreign process beside an attempt of ours is found when ours has left.
 *
 * Invariant: `taken` of a board is what was reported last.
 *
 * Cost: a call to the driver for each GPU, and the environment of each process
 * that the driver lists.
 */
#include "engine/localwork.h"
#include <math.h>

void local_foreign_open(struct local *local)
{
    local->foreign_s = local->gpus.has_nvml ? 0 : (double)INFINITY;
    for (int i = 0; local->gpus.has_nvml && i < local->gpus.cluster.nnodes; i++)
        for (int at = 0; at < local->gpus.cluster.nodes[i].ngpus;
             at += FIRN_BOARD_GPUS) {
            struct localboard board = {
                .taken = {.node = i, .board = at / FIRN_BOARD_GPUS}};
            vec_add(&local->boards, board);
        }
}

/* Splits the GPUs of `part` that have foreign processes: certain, uncertain. */
static void find_foreign(const struct local *local,
                         const struct firn_part *part, uint64_t *foreign,
                         uint64_t *unsure)
{
    *foreign = *unsure = 0;
    for (int k = 0; k < FIRN_BOARD_GPUS; k++) {
        uint64_t bit = (uint64_t)1 << k;
        const struct gpu *gpu = (part->gpus & bit) != 0
                                    ? gpus_at(&local->gpus, part->node,
                                              FIRN_BOARD_GPUS * part->board + k)
                                    : NULL;
        if (gpu == NULL)
            continue;
        enum gpu_use use = nvml_use(&local->gpus.nvml, gpu->device);
        if (use == GPU_FOREIGN && local->launcher[0] != '\0' &&
            roster_is_held(&local->roster, part, bit))
            use = GPU_OURS; /* the user's processes, whose environment firnd
                               may not read */
        if (use == GPU_FOREIGN)
            *foreign |= bit;
        else if (use == GPU_UNSURE &&
                 !roster_is_held(&local->roster, part, bit))
            *unsure |= bit;
    }
}

static void report(struct local *local, struct localboard *board,
                   uint64_t taken)
{
    if (board->taken.gpus == taken)
        return;
    board->taken.gpus = taken;
    roster_report(&local->roster, (struct firn_event){.kind = FIRN_EVENT_TAKEN,
                                                      .node = board->taken.node,
                                                      .taken = board->taken});
}

void local_foreign_look(struct local *local)
{
    for (size_t i = 0; i < local->boards.n; i++) {
        struct localboard *board = &local->boards.at[i];
        struct firn_part all = board->taken;
        uint64_t foreign, unsure;
        all.gpus = ~(uint64_t)0;
        find_foreign(local, &all, &foreign, &unsure);
        uint64_t before = board->taken.gpus | board->seen;
        board->seen = foreign | unsure;
        report(local, board, foreign | (unsure & before));
    }
    local->foreign_s = local->boards.n > 0
                           ? local_now_s(local) + local->foreign_every_s
                           : (double)INFINITY;
}

bool local_is_foreign_on(struct local *local, const struct firn_alloc *want)
{
    bool is_any = false;
    for (size_t i = 0; i < local->boards.n; i++)
        for (int k = 0; k < want->nparts; k++) {
            struct localboard *board = &local->boards.at[i];
            const struct firn_part *part = &want->parts[k];
            uint64_t foreign, unsure;
            if (part->node != board->taken.node ||
                part->board != board->taken.board)
                continue;
            find_foreign(local, part, &foreign, &unsure);
            report(local, board, board->taken.gpus | foreign);
            is_any = is_any || (foreign | unsure) != 0;
        }
    return is_any;
}
