/* local_foreign.c - who else uses the GPUs of this host, as the driver sees it.
 *
 * The driver tells which processes are at work on a GPU (engine/gpus.h). A
 * look goes over all GPUs, every few seconds, and tells the host of each board
 * where the set of those that others use has changed. A start looks as well,
 * for a GPU may have been taken since: the job then waits.
 *
 * Of a process that nothing can be said of, and of one that some firnd started,
 * it is said:
 *
 *     an attempt of ours holds that GPU     it is ours
 *     else, seen by one look              a start waits, nobody is told
 *     else, seen by two looks in a row    it is somebody else's
 *
 * So neither a worker that has just ended nor, where the driver counts
 * processes otherwise than we do, a job beside its neighbour is taken for a
 * stranger; a stranger there is found once ours has left.
 *
 * Invariant: `taken` of a board is what the host was told last.
 *
 * Cost: a call to the driver for each GPU, and the environment of each process
 * that it names.
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

/* Of the GPUs of `part`: which others use, and which perhaps. */
static void ask(const struct local *local, const struct firn_part *part,
                uint64_t *others, uint64_t *unsure)
{
    *others = *unsure = 0;
    for (int k = 0; k < FIRN_BOARD_GPUS; k++) {
        uint64_t bit = (uint64_t)1 << k;
        const struct gpu *gpu = (part->gpus & bit) != 0
                                    ? gpus_at(&local->gpus, part->node,
                                              FIRN_BOARD_GPUS * part->board + k)
                                    : NULL;
        if (gpu == NULL)
            continue;
        enum gpu_use use = nvml_use(&local->gpus.nvml, gpu->device);
        if (use == GPU_FOREIGN)
            *others |= bit;
        else if (use == GPU_UNSURE &&
                 !roster_is_held(&local->roster, part, bit))
            *unsure |= bit;
    }
}

static void tell(struct local *local, struct localboard *board, uint64_t taken)
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
        uint64_t others, unsure;
        all.gpus = ~(uint64_t)0;
        ask(local, &all, &others, &unsure);
        uint64_t before = board->taken.gpus | board->seen;
        board->seen = others | unsure;
        tell(local, board, others | (unsure & before));
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
            uint64_t others, unsure;
            if (part->node != board->taken.node ||
                part->board != board->taken.board)
                continue;
            ask(local, part, &others, &unsure);
            tell(local, board, board->taken.gpus | others);
            is_any = is_any || (others | unsure) != 0;
        }
    return is_any;
}
