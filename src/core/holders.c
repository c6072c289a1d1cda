/* holders.c - a list of jobs for each board, in no order.
 *
 * A board has few half-shares (jobs_per_gpu on each of 64 GPUs at most), so a
 * list is walked. Jobs that have their GPUs alone are in none.
 *
 * Invariant: a job is in the list of a board once for each part it holds there.
 */
#include "core/holders.h"

static struct holders_board *board_of(const struct holders *holders,
                                      const struct firn_part *part)
{
    return &holders
                ->boards[holders->map->first_board[part->node] + part->board];
}

static size_t nboards(const struct holders *holders)
{
    const struct freemap *map = holders->map;
    return (size_t)map->first_board[map->cluster->nnodes];
}

void holders_release(struct holders *holders)
{
    for (size_t i = 0; holders->boards != NULL && i < nboards(holders); i++)
        vec_release(&holders->boards[i].jobs);
    mem_free(holders->boards);
    holders->boards = NULL;
}

void holders_add(struct holders *holders, const struct firn_job *job)
{
    if (!job->held.is_shared)
        return;
    if (holders->boards == NULL)
        holders->boards = mem_new(nboards(holders), sizeof *holders->boards);
    for (int i = 0; i < job->held.nparts; i++)
        vec_add(&board_of(holders, &job->held.parts[i])->jobs, job);
}

void holders_remove(struct holders *holders, const struct firn_job *job)
{
    for (int i = 0; job->held.is_shared && i < job->held.nparts; i++) {
        struct holders_board *board = board_of(holders, &job->held.parts[i]);
        size_t at = 0;
        while (board->jobs.at[at] != job)
            at++;
        board->jobs.at[at] = board->jobs.at[--board->jobs.n];
    }
}

const struct firn_job *holders_next(const struct holders *holders,
                                    const struct firn_alloc *gpus,
                                    firn_job_id after)
{
    const struct firn_job *next = NULL;
    for (int i = 0; holders->boards != NULL && i < gpus->nparts; i++) {
        const struct holders_board *board = board_of(holders, &gpus->parts[i]);
        for (size_t k = 0; k < board->jobs.n; k++) {
            const struct firn_job *job = board->jobs.at[k];
            if (job->id > after && (next == NULL || job->id < next->id) &&
                firn_alloc_overlaps(&job->held, gpus))
                next = job;
        }
    }
    return next;
}
