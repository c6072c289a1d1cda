/* srtf.c - shortest remaining time first, taking GPUs back when needed.
 *
 * The job closest to its end goes first, and running jobs give way. A running
 * job's remaining time falls by a second a second, restarts included, so the
 * order among the running never changes and core keeps it without sorting.
 * Optimal for the mean completion time on one machine; with gangs and restart
 * costs only a good rule.
 *
 * With `preempt=no` a running job keeps its GPUs to its end and only the
 * waiting ones are ordered, as the simulators of Titan and Ymir have it. A job
 * that was stopped by a lost node still counts what it has done, which is the
 * difference to sjf.
 *
 * Cost: O(changes log jobs) a round where every job accepts every GPU.
 */
#include <firn/policy.h>

struct srtf {
    bool preempt;
};

static const struct firn_option options[] = {
    FIRN_BOOL(struct srtf, preempt, "preempt", "yes",
              "running jobs give way to shorter ones"),
    {0},
};

static struct firn_rank rank(const void *state, const struct firn_job *job,
                             double now_s)
{
    (void)state;
    double left_s = firn_job_left_s(job, now_s);
    if (job->belief > 0) { /* of all its work: so that it counts down */
        bool runs = job->state == FIRN_JOB_RUNNING && job->rate > 0;
        double restart_s =
            runs && job->resumes_s > now_s ? job->resumes_s - now_s : 0;
        left_s =
            restart_s + (firn_job_work_s(job) - firn_job_done_s(job, now_s)) /
                            (runs ? job->rate : 1);
    }
    return (struct firn_rank){left_s, INFINITY};
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    const struct srtf *srtf = state;
    unsigned how = srtf->preempt ? FIRN_SERVE_PREEMPT : 0;
    firn_plan_serve(plan, view, FIRN_SERVE_SKIP | how);
    return FIRN_OK;
}

const struct firn_policy_def firn_policy_srtf = {
    .size = sizeof(struct firn_policy_def),
    .name = "srtf",
    .summary = "shortest remaining time first, preemptive",
    .needs = FIRN_NEED_DURATION,
    .does = FIRN_DOES_PREEMPT | FIRN_DOES_MOVE,
    .options = options,
    .state_size = sizeof(struct srtf),
    .decide = decide,
    .rank = rank,
    .rank_counts_down = true,
};
