/* paralleltime.h - an application of a profile, sharded or in a pipeline.
 *
 * Between firn/profile.h, which says how an application's model may be spread
 * over GPUs, and firn/parallel.h, which has the equations. Pure functions.
 */
#ifndef MODEL_PARALLELTIME_H
#define MODEL_PARALLELTIME_H
#include <firn/profile.h>

enum { PARALLEL_STAGES_MAX = 64 };

/* How it is run. For a pipeline batch_per_gpu are the samples of a micro-batch
 * and accum_steps how many of those each replica has. theta and omega of the
 * shape are not read: `frozen` tells them. */
struct parallel_run {
    struct firn_shape shape;
    enum firn_parallel parallel; /* not FIRN_PARALLEL_OWN */
    int stages;                  /* of a pipeline: 1 to 64, divides the GPUs */
    double frozen;               /* front layers */
};

/* Bit i: it may be trained as enum firn_parallel i. 0: as a whole copy on each
 * GPU, and only so; of those that are pipelined one stage is that. */
unsigned parallel_of(const struct firn_profile_gpu *gpu);

/* Samples on a GPU and passes, or of a micro-batch and micro-batches, for a
 * total batch (<= 0: the initial one) on so many GPUs. */
struct firn_batch_split parallel_split(const struct firn_profile *profile,
                                       const struct firn_profile_gpu *gpu,
                                       const struct parallel_run *run,
                                       double batch, double local_max);

/* Seconds of an iteration; NaN when it cannot be run so. */
double parallel_iteration(const struct firn_profile *profile,
                          const struct firn_profile_gpu *gpu,
                          const struct parallel_run *run);

/* Peak memory of a GPU; NaN: not known. */
double parallel_mem_mib(const struct firn_profile *profile,
                        const struct firn_profile_gpu *gpu,
                        const struct parallel_run *run);

#endif
