/* sjf.c - shortest job first; a running job runs to its end.
 *
 * Orders the waiting jobs by their run time, which must be known: from an
 * oracle in simulation, from the user's estimate in firnd. A job that does not
 * fit is passed over by default; with `skip=0` it blocks those behind it.
 *
 * Invariant: a running job is never touched.
 * Cost: O(log jobs) per job started.
 */
#include <firn/policy.h>

struct sjf {
    bool skip;
};

static const struct firn_option options[] = {
    FIRN_BOOL(struct sjf, skip, "skip", "1",
              "let longer jobs pass one that does not fit"),
    {0},
};

static struct firn_rank rank(const void *state, const struct firn_job *job,
                             double now_s)
{
    (void)state, (void)now_s;
    return (struct firn_rank){firn_job_work_s(job), INFINITY};
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    const struct sjf *sjf = state;
    firn_plan_serve(plan, view,
                    sjf->skip ? FIRN_SERVE_SKIP : FIRN_SERVE_STRICT);
    return FIRN_OK;
}

const struct firn_policy_def firn_policy_sjf = {
    .size = sizeof(struct firn_policy_def),
    .name = "sjf",
    .summary = "shortest job first, without preemption",
    .needs = FIRN_NEED_DURATION,
    .options = options,
    .state_size = sizeof(struct sjf),
    .decide = decide,
    .rank = rank,
};
