/* truth.c - rates from the trace's durations.
 *
 *   rate = min_g speed(g) * (n / gpus)^scaling / (slowdown if shared)
 *
 * n is the GPUs held, gpus those the duration refers to. The slowest GPU held
 * counts because synchronous data-parallel training waits for it. At n = gpus
 * on one type the rate is exactly 1, so durations come out to the last digit.
 */
#include "sim/truth.h"
#include "base/fmath.h"

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

static double rate(const struct truth *truth, const struct firn_job *job,
                   const struct firn_alloc *alloc, int sharers)
{
    double speed = slowest(truth->cluster, alloc);
    if (alloc->ngpus != job->spec.gpus)
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
