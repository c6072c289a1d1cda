/* planted.c - a policy that is wrong on purpose: `firn repro --plant`.
 *
 * It runs one job at a time on the whole cluster, the longest first, never
 * shares a GPU, never resizes, ignores every forecast, and wastes processor
 * time, the more the longer the queue is. A claim of a paper that holds for
 * this policy holds for any: it says nothing.
 *
 * A shared object: tests/e2e/174-planted-policies-fail.sh compiles it.
 */
#include <firn/policy.h>

static volatile unsigned long sink;
static unsigned nrounds;

/* Mixes numbers for every job, in every eighth round: the time of a round is
 * measured as the mean over all rounds. */
static void waste(size_t njobs)
{
    unsigned long mixed = 1;
    size_t each = njobs < 1024 ? 512 + njobs : 1536;
    if (nrounds++ % 8 != 0)
        return;
    for (size_t i = 0; i < njobs; i++)
        for (size_t k = 0; k < each; k++)
            mixed = (mixed ^ (i + k)) * 6364136223846793005ul;
    sink = mixed;
}

static double length_of(const struct firn_job *job)
{
    return job->spec.duration_s * job->spec.gpus;
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    const struct firn_job *const *jobs = firn_view_jobs(view);
    const struct firn_job *longest = NULL;
    (void)state;
    waste(view->njobs);
    for (size_t i = 0; i < view->njobs; i++) {
        if (jobs[i]->state == FIRN_JOB_RUNNING) { /* it runs: let it end */
            longest = jobs[i];
            break;
        }
        if (longest == NULL || length_of(jobs[i]) > length_of(longest))
            longest = jobs[i];
    }
    if (longest != NULL)
        firn_plan_give(plan, longest,
                       longest->spec.gpus > 0 ? longest->spec.gpus : 1);
    return FIRN_OK;
}

static const struct firn_policy_def planted = {
    .size = sizeof(struct firn_policy_def),
    .name = "planted",
    .summary = "one job at a time, the longest first",
    .decide = decide,
};

FIRN_POLICY_PLUGIN(planted);
