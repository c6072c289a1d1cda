/* loop_foreign.c - foreign processes on GPUs: they come out of the round.
 *
 * desk_foreign.c has the argument. A GPU that is free in the round is blocked;
 * one that the round has given to a job which the engine has not started is
 * taken from it, and the job waits again.
 *
 * Cost: all boards, and only while something is open.
 */
#include "daemon/loopwork.h"

static bool has_any(const struct firn_alloc *held, firn_node_id node, int board,
                    uint64_t gpus)
{
    for (int i = 0; i < held->nparts; i++)
        if (held->parts[i].node == node && held->parts[i].board == board &&
            (held->parts[i].gpus & gpus) != 0)
            return true;
    return false;
}

/* Takes these GPUs from jobs that have not begun to use them. */
static void put_back(void *arg, firn_node_id node, int board, uint64_t gpus)
{
    struct loop *loop = arg;
    for (size_t i = 0; i < loop->desk.tracks.n; i++) {
        struct track *track = loop->desk.tracks.at[i];
        if (track == NULL)
            continue;
        const struct firn_job *in_round = desk_job(&loop->desk, track);
        const struct firn_alloc *held = track->is_pinned   ? &track->blocked
                                        : in_round != NULL ? &in_round->held
                                                           : NULL;
        if (held == NULL || !has_any(held, node, board, gpus) ||
            dock_phase(&loop->dock, track->id) != FIRN_PHASE_QUEUED)
            continue;
        loop_happens(
            loop, book_job(loop->book, track->id),
            &(struct happening){.event = LIFE_PUT_BACK,
                                .stop = {LIVE_CAUSE_FOREIGN, FIRN_NO_JOB}});
    }
}

void loop_settle_foreign(struct loop *loop)
{
    foreign_settle(&loop->desk, put_back, loop);
}
