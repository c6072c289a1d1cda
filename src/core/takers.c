/* takers.c - which job gets the GPUs that a step takes from another.
 *
 * A policy writes who holds what, not who gives way to whom; users ask the
 * second. It follows from the steps of one plan: the parts that jobs get are
 * sorted by board, and each part that a job loses is looked up among them.
 *
 * Invariants: (1) a job never takes GPUs from itself; (2) the answer depends on
 * the steps alone, ties go to the lower id; (3) a step whose GPUs no job of
 * the plan gets has FIRN_NO_JOB: they are kept free, or for a later decision.
 *
 * Cost: O(parts log parts) for a plan.
 */
#include "core/takers.h"
#include "base/arena.h"
#include <stdlib.h>
#include <string.h>

/* GPUs of a board that a step adds to its job. */
struct taken {
    firn_node_id node;
    int board;
    uint64_t gpus;
    size_t step;
};

static int by_board(const struct taken *a, const struct taken *b)
{
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    return (a->board > b->board) - (a->board < b->board);
}

static int by_board_then_step(const void *a, const void *b)
{
    const struct taken *x = a, *y = b;
    int order = by_board(x, y);
    return order != 0 ? order : (x->step > y->step) - (x->step < y->step);
}

/* The GPUs of `part` that `other` does not have. */
static uint64_t without(const struct firn_part *part,
                        const struct firn_alloc *other)
{
    uint64_t gpus = part->gpus;
    for (int i = 0; i < other->nparts; i++)
        if (other->parts[i].node == part->node &&
            other->parts[i].board == part->board)
            gpus &= ~other->parts[i].gpus;
    return gpus;
}

static struct taken *gather(const struct diff *diff, struct arena *scratch,
                            size_t *n)
{
    size_t most = 0;
    *n = 0;
    for (size_t i = 0; i < diff->nsteps; i++)
        most += (size_t)diff->steps[i].to->nparts;
    struct taken *all = arena_alloc(scratch, (most + 1) * sizeof *all);
    for (size_t i = 0; i < diff->nsteps; i++) {
        const struct firn_step *step = &diff->steps[i];
        for (int p = 0; p < step->to->nparts; p++) {
            const struct firn_part *part = &step->to->parts[p];
            uint64_t gpus = without(part, &step->job->held);
            if (gpus != 0)
                all[(*n)++] = (struct taken){part->node, part->board, gpus, i};
        }
    }
    if (*n > 1)
        qsort(all, *n, sizeof *all, by_board_then_step);
    return all;
}

/* The first of a board; n: none is there or behind it. */
static size_t first_of(const struct taken *all, size_t n,
                       const struct taken *board)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (by_board(&all[mid], board) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The step that gets the most of what `step` takes; `got` has a zero for each
 * step, before and after. diff->nsteps: none. */
static size_t best_taker(const struct diff *diff, const struct firn_step *step,
                         const struct taken *all, size_t n, int *got)
{
    size_t best = diff->nsteps;
    for (int round = 0; round < 2; round++) /* the second puts zeros back */
        for (int p = 0; p < step->job->held.nparts; p++) {
            const struct firn_part *part = &step->job->held.parts[p];
            uint64_t lost = without(part, step->to);
            struct taken board = {part->node, part->board, 0, 0};
            size_t i = lost != 0 ? first_of(all, n, &board) : n;
            for (; i < n && by_board(&all[i], &board) == 0; i++) {
                size_t at = all[i].step;
                int gpus = __builtin_popcountll(all[i].gpus & lost);
                if (gpus == 0 || diff->steps[at].job == step->job)
                    continue; /* (1) */
                got[at] = round == 0 ? got[at] + gpus : 0;
                if (round == 0 &&
                    (best == diff->nsteps || got[at] > got[best] ||
                     (got[at] == got[best] &&
                      diff->steps[at].job->id < diff->steps[best].job->id)))
                    best = at; /* (2) */
            }
        }
    return best;
}

void takers_find(const struct diff *diff, struct arena *scratch)
{
    size_t n;
    if (diff->nsteps == 0 || diff->steps[0].kind == FIRN_STEP_START)
        return; /* the first steps are those that free GPUs */
    const struct taken *all = gather(diff, scratch, &n);
    int *got = arena_alloc(scratch, diff->nsteps * sizeof *got);
    memset(got, 0, diff->nsteps * sizeof *got);
    for (size_t i = 0; i < diff->nsteps; i++) {
        struct firn_step *step = &diff->steps[i];
        if (step->kind == FIRN_STEP_START)
            break;
        size_t taker = best_taker(diff, step, all, n, got);
        if (taker < diff->nsteps)
            step->for_job = diff->steps[taker].job->id; /* (3) */
    }
}
