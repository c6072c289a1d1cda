/* paralleltime.h - an application of a profile, sharded or in a pipeline.
 *
 * Between firn/profile.h, which says how an application's model may be spread
 * over GPUs, and firn/parallel.h, which has the equations. Pure functions.
 */
#ifndef MODEL_PARALLELTIME_H
#define MODEL_PARALLELTIME_H
#include <firn/profile.h>

enum { PARALLEL_STAGES_MAX = 64 };

/* How an application is run. In a pipeline, batch_per_gpu is the samples of a
 * micro-batch and accum_steps the micro-batches of each replica. theta and
 * omega of the shape are not read: they follow from `frozen`. */
struct parallel_run {
    struct firn_shape shape;
    enum firn_parallel parallel; /* not FIRN_PARALLEL_OWN */
    int stages;                  /* of a pipeline: 1 to 64, divides the GPUs */
    double frozen;               /* front layers */
};

/* Bit i: the application may be trained as enum firn_parallel i. 0: only as a
 * whole copy on each GPU; one stage of a pipeline is the same. */
unsigned parallel_of(const struct firn_profile_gpu *gpu);

/* Splits a total batch (<= 0: the initial one) over the GPUs: samples on a GPU
 * and passes, or samples of a micro-batch and number of micro-batches. */
struct firn_batch_split parallel_split(const struct firn_profile *profile,
                                       const struct firn_profile_gpu *gpu,
                                       const struct parallel_run *run,
                                       double batch, double local_max);

/* Seconds of an iteration; NaN when the application cannot be run so. */
double parallel_iteration(const struct firn_profile *profile,
                          const struct firn_profile_gpu *gpu,
                          const struct parallel_run *run);

/* Peak memory of a GPU; NaN: not known. */
double parallel_mem_mib(const struct firn_profile *profile,
                        const struct firn_profile_gpu *gpu,
                        const struct parallel_run *run);

#endif
