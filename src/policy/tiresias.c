/* tiresias.c - two-dimensional least attained service in a few queues.
 *
 * A job's service is GPUs x seconds held. Queue 0 has the jobs below the first
 * threshold, queue 1 those below the second, and so on; lower queues go first,
 * within a queue by submission, and running jobs give way. Needs no run times,
 * which is its point; discretising keeps two jobs from swapping places over
 * and over (Gu et al., Tiresias, NSDI 2019, section 3).
 *
 * The default threshold, 16 GPU-hours, is the one the Pollux authors ran it
 * with. Promotion of starving jobs (the paper's PROMOTEKNOB) is off there, and
 * left out here.
 *
 * Invariant: a job leaves a queue only downwards.
 * Cost: O(changes log jobs) a round where every job accepts every GPU; one
 * more round per job and threshold crossed.
 */
#include <firn/policy.h>

struct tiresias {
    struct firn_list thresholds; /* GPU-seconds, ascending */
};

static const struct firn_option options[] = {
    FIRN_LIST(struct tiresias, thresholds, "thresholds", "57600", 1, 1e15,
              "GPU-seconds of service at which a job falls to the next queue"),
    {0},
};

static struct firn_rank rank(const void *state, const struct firn_job *job,
                             double now_s)
{
    const struct tiresias *tiresias = state;
    double served = firn_job_served_gpu_s(job, now_s);
    /* Service is the sum of a few products of times, so at the very moment of a
     * crossing it may be short of the threshold by rounding. */
    double reached = served + (1e-6 + 4e-15 * now_s * job->held.ngpus);
    int queue = 0;
    while (queue < tiresias->thresholds.n &&
           tiresias->thresholds.at[queue] <= reached)
        queue++;
    double until_s = INFINITY;
    if (job->state == FIRN_JOB_RUNNING && queue < tiresias->thresholds.n)
        until_s =
            now_s + (tiresias->thresholds.at[queue] - served) / job->held.ngpus;
    return (struct firn_rank){queue, until_s};
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    (void)state;
    firn_plan_serve(plan, view, FIRN_SERVE_SKIP | FIRN_SERVE_PREEMPT);
    return FIRN_OK;
}

const struct firn_policy_def firn_policy_tiresias = {
    .size = sizeof(struct firn_policy_def),
    .name = "tiresias",
    .summary = "least attained GPU service first, in discrete queues",
    .paper = "Gu et al., Tiresias, NSDI 2019",
    .does = FIRN_DOES_PREEMPT | FIRN_DOES_MOVE,
    .options = options,
    .state_size = sizeof(struct tiresias),
    .decide = decide,
    .rank = rank,
    .ages = true,
};
