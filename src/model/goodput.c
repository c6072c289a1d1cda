/* goodput.c - Pollux's goodput and its search over batch sizes.
 *
 * (1) gain(B0) = 1, gain rises with B and stays below 1 + V/G.
 * (2) efficiency falls with B from 1 at B0.
 *
 * The candidates are a geometric grid rather than an optimiser: 50 evaluations
 * a shape, the same everywhere, within 2 % of the best total batch even when
 * Bmax is 100 times B0; a candidate that is split as the one before is not
 * evaluated again. A zero noise scale (V = 0) makes every batch beyond B0
 * worthless and a zero gradient (G = 0) makes efficiency 1: both are limits of
 * the formula and need no special case.
 */
#include "base/fmath.h"
#include "math/quick.h"
#include <firn/goodput.h>
#include <math.h>

enum { CANDIDATES = 50 };
#define SLACK 1e-8

double firn_gain(const struct firn_noise *noise, double batch)
{
    double g = noise->grad_sqr > 0 ? noise->grad_sqr : 0;
    double v = noise->grad_var > 0 ? noise->grad_var : 0;
    if (g + v <= 0)
        return 1;
    return (v + g) / (v * noise->batch0 / batch + g);
}

double firn_efficiency(const struct firn_noise *noise, double batch)
{
    return firn_gain(noise, batch) * noise->batch0 / batch;
}

double firn_goodput_at(const struct firn_itertime *m,
                       const struct firn_noise *noise,
                       const struct firn_shape *shape, double psi)
{
    int passes = shape->accum_steps > 1 ? shape->accum_steps : 1;
    double batch = shape->gpus * shape->batch_per_gpu * passes;
    double g = noise->grad_sqr > 0 ? noise->grad_sqr : 0;
    double v = noise->grad_var > 0 ? noise->grad_var : 0;
    double useful = noise->batch0; /* batch x efficiency, one division less */
    if (g + v > 0)
        useful =
            batch * noise->batch0 * (v + g) / (v * noise->batch0 + g * batch);
    return useful * psi / firn_itertime_iteration(m, shape);
}

/* Splits a total batch into passes; false when it is outside the limits. */
static bool split(const struct firn_noise *noise,
                  const struct firn_batch_limits *limits, double total,
                  struct firn_shape *shape)
{
    double each = total / shape->gpus;
    double more = ceil(each / limits->per_gpu_max - SLACK) - 1;
    if (more < 0)
        more = 0;
    if (shape->gpus == 1 && each > noise->batch0 + SLACK && more < 1)
        more = 1;
    shape->accum_steps = (int)more + 1;
    shape->batch_per_gpu = ceil(each / (more + 1) - SLACK);
    return shape->batch_per_gpu >= limits->per_gpu_min &&
           shape->batch_per_gpu <= limits->per_gpu_max;
}

struct firn_batch_choice
firn_goodput_best(const struct firn_itertime *m, const struct firn_noise *noise,
                  const struct firn_batch_limits *limits,
                  const struct firn_shape *where, double psi)
{
    struct firn_batch_choice best = {0};
    struct firn_shape at = *where;
    double last_batch = 0;
    int last_passes = 0;
    double from = fmax(noise->batch0, limits->per_gpu_min * where->gpus);
    if (!(from <= limits->total_max))
        return best;
    double ratio = fm_log(limits->total_max / from) / (CANDIDATES - 1);
    for (int i = 0; i < CANDIDATES; i++) {
        double total = i == 0                ? from
                       : i == CANDIDATES - 1 ? limits->total_max
                                             : from * quick_exp(ratio * i);
        if (!split(noise, limits, total, &at) ||
            (at.batch_per_gpu == last_batch && at.accum_steps == last_passes))
            continue;
        last_batch = at.batch_per_gpu;
        last_passes = at.accum_steps;
        double goodput = firn_goodput_at(m, noise, &at, psi);
        if (goodput > best.goodput)
            best = (struct firn_batch_choice){goodput, at.batch_per_gpu,
                                              at.accum_steps};
    }
    return best;
}
