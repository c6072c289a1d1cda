/* goodput.h - useful samples per second of a data-parallel job.
 *
 * goodput = throughput(shape) x efficiency(batch) x psi (Pollux, OSDI'21, with
 * IceFrog's frozen penalty). More GPUs make steps faster, but each sample
 * teaches less as the batch grows, and frozen layers learn nothing.
 *
 * Symbols: B total batch, B0 the batch that progress is counted in, scale =
 * B / B0, V and G the variance and squared norm of the gradient at B0.
 *
 *   gain(B)       = (V + G) / (V / scale + G)    steps at B0 in one step
 *   efficiency(B) = gain / scale                 in (0, 1] for B >= B0
 *
 * V / G x B0 is the gradient noise scale: up to it larger batches pay.
 *
 * psi is IceFrog (3), 1 when nothing is frozen; the product with efficiency is
 * the one of IceFrog Fig. 10c. Pure functions: no clock, no allocation.
 */
#ifndef FIRN_GOODPUT_H
#define FIRN_GOODPUT_H
#include <firn/itertime.h>

FIRN_C_BEGIN

/* Gradient statistics at the initial batch. Invariant: grad_sqr >= 0,
 * grad_var >= 0, not both 0, batch0 > 0. Unbiased estimates of grad_sqr can be
 * below 0: they count as 0. */
struct firn_noise {
    double grad_sqr, grad_var; /* G, V */
    double batch0;             /* B0, samples */
};

FIRN_API double firn_gain(const struct firn_noise *noise, double batch);
FIRN_API double firn_efficiency(const struct firn_noise *noise, double batch);

/* Useful samples a second of this shape, its batch being gpus x batch_per_gpu
 * x accum_steps. */
FIRN_API double firn_goodput_at(const struct firn_itertime *m,
                                const struct firn_noise *noise,
                                const struct firn_shape *shape, double psi);

/* What a job allows. Invariant: 0 < per_gpu_min <= per_gpu_max. */
struct firn_batch_limits {
    double per_gpu_min, per_gpu_max; /* b, samples a GPU and pass */
    double total_max;                /* Bmax */
};

struct firn_batch_choice {
    double goodput; /* 0: no batch is allowed */
    double batch_per_gpu;
    int accum_steps; /* >= 1 */
};

/* The best batch for a number of nodes and GPUs, as Pollux searches it: 50
 * total batches from max(B0, b_min r) to Bmax in equal ratios, each split into
 * the fewest passes that fit per_gpu_max, the batch per GPU rounded up to a
 * whole sample; a single GPU beyond B0 takes at least two passes, so that it
 * can measure its gradient noise. Candidates outside the limits are skipped;
 * the first of equal ones wins. `where` gives nodes, gpus and frozen shares. */
FIRN_API struct firn_batch_choice
firn_goodput_best(const struct firn_itertime *m, const struct firn_noise *noise,
                  const struct firn_batch_limits *limits,
                  const struct firn_shape *where, double psi);

FIRN_C_END

#endif
