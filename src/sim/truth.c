/* truth.c - rates from the trace's durations.
 *
 *   rate = min_g speed(g) * (n / gpus)^scaling / (slowdown if shared)
 *
 * n is the GPUs held, gpus those the duration refers to. The slowest GPU held
 * counts because synchronous data-parallel training waits for it. At n = gpus
 * on one type the rate is exactly 1, so durations come out to the last digit.
 * Language models go as core/llmjobs.c says, jobs with measured plans as
 * core/planjobs.c does.
 * Elastic threads need not wait for the slowest: core/threads.c.
 */
#include "sim/truth.h"
#include "base/fmath.h"
#include "core/llmjobs.h"
#include "core/planjobs.h"
#include "core/threads.h"

static double slowest(const struct firn_cluster *cluster,
                      const struct firn_alloc *alloc)
{
    double speed = 0;
    for (int i = 0; i < alloc->nparts; i++) {
        firn_type_id type = cluster->nodes[alloc->parts[i].node].type;
        double s = cluster->types[type].speed;
        speed = i == 0 || s < speed ? s : speed;
    }
    return speed;
}

/* Of a language model: by its shape. */
static double llm_rate(const struct truth *truth, const struct firn_job *job,
                       const struct firn_alloc *alloc)
{
    struct llmjob llm =
        llmjobs_open(truth->cluster, &job->spec, job->type_mask);
    struct llmspot spot = llmjobs_held(truth->cluster, alloc);
    struct llmhow how = {.tensor = alloc->how.tensor,
                         .parallel = alloc->how.parallel,
                         .passes = alloc->how.passes};
    return llmjobs_rate(&llm, &spot, how);
}

/* Of a job whose plans were measured: by the fitted terms. */
static double plan_rate(const struct truth *truth, const struct firn_job *job,
                        const struct firn_alloc *alloc)
{
    struct planjob plan =
        planjobs_open(truth->cluster, &job->spec, job->type_mask, NULL);
    struct spread where = spread_of(truth->cluster, alloc);
    struct firn_layout how = {alloc->how.parallel, alloc->how.tensor,
                              alloc->how.stages};
    return planjobs_rate(&plan, truth->cluster, &where, &how, NULL);
}

static double rate(const struct truth *truth, const struct firn_job *job,
                   const struct firn_alloc *alloc, int sharers)
{
    double speed = slowest(truth->cluster, alloc);
    if (planjobs_is(&job->spec) || llmjobs_is(&job->spec)) {
        speed = planjobs_is(&job->spec) ? plan_rate(truth, job, alloc)
                                        : llm_rate(truth, job, alloc);
        return sharers > 1 ? speed / truth->share_slowdown : speed;
    }
    if (alloc->tunes & FIRN_TUNE_THREADS) {
        int counts[FIRN_TYPES_MAX];
        threads_count(truth->cluster, alloc, counts);
        speed =
            threads_rate(truth->cluster, truth->scaling, &job->spec, counts);
    } else if (alloc->ngpus != job->spec.gpus)
        speed *= fm_pow((double)alloc->ngpus / job->spec.gpus, truth->scaling);
    return sharers > 1 ? speed / truth->share_slowdown : speed;
}

struct truth truth_from_trace(const struct firn_cluster *cluster,
                              double scaling, double share_slowdown)
{
    return (struct truth){.name = "trace",
                          .cluster = cluster,
                          .scaling = scaling,
                          .share_slowdown = share_slowdown,
                          .rate = rate};
}
