/* fifo.c - first come, first served; a running job runs to its end.
 *
 * Strict by default: a job that does not fit blocks those behind it, so no job
 * is ever overtaken and none starves. With `skip` later jobs that fit may
 * pass, which uses the GPUs better and lets large jobs wait longer; published
 * simulators differ in this silently, and it moves the average completion time
 * by a tenth, so here it has a name.
 *
 * Invariant: among the jobs that have started, none was submitted after a
 * waiting one (strict).
 * Cost: O(log jobs) per job started.
 */
#include <firn/policy.h>

struct fifo {
    bool skip;
};

static const struct firn_option options[] = {
    FIRN_BOOL(struct fifo, skip, "skip", "0",
              "let later jobs pass one that does not fit"),
    {0},
};

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    const struct fifo *fifo = state;
    firn_plan_serve(plan, view,
                    fifo->skip ? FIRN_SERVE_SKIP : FIRN_SERVE_STRICT);
    return FIRN_OK;
}

const struct firn_policy_def firn_policy_fifo = {
    .size = sizeof(struct firn_policy_def),
    .name = "fifo",
    .summary = "first come, first served; a job that does not fit blocks",
    .options = options,
    .state_size = sizeof(struct fifo),
    .decide = decide,
    .rank = firn_rank_fcfs,
};
