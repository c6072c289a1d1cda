/* loop_bounds.c - a running job whose user changed how many GPUs it may have.
 *
 * The job is in the round with its new bounds before the next decision, and
 * most policies that resize jobs resize it then. What the policy left outside
 * of the new bounds is dealt with here, behind the round: policies that never
 * resize, and jobs with one fixed number, which no policy resizes.
 *
 *   resized   where the trainer can do so without a stop (docs/resize.md): it
 *             gives up the GPUs above its new most, or gets GPUs of its own
 * node up to its new fewest sent away by a checkpoint, to be placed anew by the
 * policy: all others
 *
 * Invariants: (1) A job that shrinks keeps GPUs that it has. (2) A job grows
 * here only when no other job waits and no shares or quotas are set: nothing
 * that a policy or a quota withholds is taken. (3) A resize that the engine
 * cannot do without a stop becomes a restart on the same GPUs, by the engine.
 *
 * Cost: O(parts of the job's GPUs) for a change of bounds.
 */
#include "base/mem.h"
#include "daemon/loopwork.h"
#include <string.h>

/* Can processes of the running job come and go, one for each whole GPU? */
static bool joins(const struct loop *loop, const struct live_job *job,
                  const struct firn_job *in_round)
{
    const struct firn_alloc *held = &in_round->held;
    return job->state == LIVE_RUNNING &&
           desk_phase(&loop->desk, job) == FIRN_PHASE_RUNNING &&
           firn_job_can(in_round, FIRN_CAN_JOIN) && !held->is_shared &&
           held->how.merged_with == FIRN_NO_JOB && held->how.parallel == 0 &&
           held->how.tensor <= 1 && held->how.stages <= 1 &&
           partner_of(loop->book, job) == NULL;
}

/* Adds free GPUs of the boards that it is on, the lowest first, until it has
 * `fewest`; false: there are not enough. */
static bool grow(const struct freemap *map, struct firn_alloc *to, int fewest)
{
    for (int i = 0; i < to->nparts; i++) {
        struct firn_part *part = &to->parts[i];
        uint64_t free = map->free[map->first_board[part->node] + part->board];
        for (; free != 0 && to->ngpus < fewest; to->ngpus++) {
            part->gpus |= free & -free;
            free &= free - 1;
        }
    }
    return to->ngpus >= fewest;
}

/* Its GPUs within the new bounds; false: not without the policy. `parts` has
 * room for those that it holds. */
static bool within(const struct loop *loop, const struct live_job *job,
                   const struct firn_job *in_round, struct firn_part *parts,
                   struct firn_alloc *to)
{
    const struct state *state = round_state(loop->desk.round);
    *to = in_round->held;
    to->parts = parts;
    memcpy(parts, in_round->held.parts, (size_t)to->nparts * sizeof *parts);
    if (to->ngpus > job->ask.gpus_max) {
        /* Takes the highest GPUs away. (1) */
        while (to->ngpus > job->ask.gpus_max) {
            struct firn_part *last = &to->parts[to->nparts - 1];
            last->gpus &= ~(UINT64_C(1) << (63 - __builtin_clzll(last->gpus)));
            to->nparts -= last->gpus == 0;
            to->ngpus--;
        }
        return true;
    }
    return loop->desk.accounts == NULL && state->nwaiting == 0 && /* (2) */
           firn_alloc_nodes(to) == 1 &&
           grow(&state->map, to, job->ask.gpus_min);
}

/* Resizes a job without a stop; false: it is as it was. */
static bool resized(struct loop *loop, struct live_job *job,
                    const struct firn_job *in_round)
{
    struct firn_error err = {0};
    struct firn_alloc to;
    struct firn_part *parts =
        mem_new((size_t)in_round->held.nparts, sizeof *parts);
    bool is_resized = joins(loop, job, in_round) &&
                      within(loop, job, in_round, parts, &to) &&
                      loop_resize(loop, job, &to, &err) == FIRN_OK;
    mem_free(parts);
    return is_resized;
}

void loop_keep_bounds(struct loop *loop)
{
    for (size_t i = 0; i < loop->desk.rebound.n; i++) {
        struct live_job *job = book_job(loop->book, loop->desk.rebound.at[i]);
        const struct track *track =
            desk_track(&loop->desk, loop->desk.rebound.at[i]);
        const struct firn_job *in_round =
            track != NULL ? desk_job(&loop->desk, track) : NULL;
        if (job != NULL && in_round != NULL &&
            loop_is_out_of_bounds(job, in_round) &&
            !resized(loop, job, in_round))
            loop_sent_away(loop, job,
                           "its user changed its bounds: it is placed anew",
                           (struct live_stop){LIVE_CAUSE_BOUNDS, FIRN_NO_JOB});
    }
    loop->desk.rebound.n = 0;
}
