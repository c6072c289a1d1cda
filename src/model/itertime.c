/* itertime.c - evaluates the iteration time of data-parallel training.
 *
 * The equations and symbols are in itertime.h. Invariants:
 *
 * (1) Every part is >= 0 and finite for a valid model and shape.
 * (2) More samples, more replicas, a more crowded node or a larger unfrozen
 *     share never make an iteration faster: every coefficient is >= 0 and the
 *     overlap is increasing in both terms.
 * (3) max(B, N) <= overlap <= B + N.
 *
 * The overlap takes the larger term out, hi (1 + (lo/hi)^gamma)^(1/gamma): no
 * overflow, and two powers rather than three; a ratio below 1e-300 is none. The
 * fourth root in the compute term is two square roots, which IEEE 754 rounds
 * exactly.
 */
#include "math/quick.h"
#include <firn/itertime.h>
#include <math.h>

static inline double overlap(double a, double b, double gamma)
{
    double hi = a > b ? a : b, lo = a > b ? b : a;
    if (!(lo > hi * 1e-300))
        return hi;
    if (gamma == 1)
        return hi + lo;
    double x = quick_exp(gamma * quick_log(lo / hi));
    return hi * quick_exp(quick_log(1 + x) / gamma);
}

double firn_overlap(double a, double b, double gamma)
{
    return overlap(a, b, gamma);
}

static inline int fullest(const struct firn_shape *s)
{
    /* In doubles: exact for such integers and cheaper than integer division.
     * One node takes the same path: a mispredicted branch costs more. */
    int even = (int)((double)(s->gpus + s->nodes - 1) / (double)s->nodes);
    return s->gpus_on_fullest > 0 ? s->gpus_on_fullest : even;
}

static inline double compute(const struct firn_itertime *m, double b, int k)
{
    double c = m->alpha_s + (m->beta_s + m->curve_s * b) * b;
    if (m->floor_s > 0) {
        double c2 = c * c, f2 = m->floor_s * m->floor_s;
        c = sqrt(sqrt(c2 * c2 + f2 * f2));
    }
    return c * (1 + m->crowd * (k - 1));
}

double firn_itertime_compute(const struct firn_itertime *m,
                             const struct firn_shape *shape)
{
    return compute(m, shape->batch_per_gpu, fullest(shape));
}

static inline bool is_frozen(const struct firn_shape *s)
{
    return s->theta < 1 || s->omega < 1;
}

static inline double synchronise(const struct firn_itertime *m,
                                 const struct firn_shape *shape, int k)
{
    if (shape->gpus <= 1)
        return 0;
    const struct firn_sync_law *law = shape->nodes == 1   ? &m->local
                                      : shape->nodes == 2 ? &m->pair
                                                          : &m->far;
    double n = law->alpha_s + law->beta_s * (shape->gpus - 2) +
               law->crowd_s * (k - 1) + m->byte_s * m->message_bytes;
    if (!is_frozen(shape))
        return n;
    double frozen = m->sync_alpha_s + m->sync_beta * shape->omega * n;
    return frozen < n ? frozen : n;
}

double firn_itertime_sync(const struct firn_itertime *m,
                          const struct firn_shape *shape)
{
    return synchronise(m, shape, fullest(shape));
}

/* Forward's part of c seconds of compute. */
static inline double forward(const struct firn_itertime *m, double c, int k)
{
    double fixed = m->alpha_s * (1 + m->crowd * (k - 1));
    return m->phi * (c - fixed) + m->phi_fixed * fixed;
}

/* I(6) for a backward pass that takes b seconds unfrozen. */
static inline double backward(const struct firn_itertime *m,
                              const struct firn_shape *shape, double b)
{
    double theta = shape->theta;
    if (!is_frozen(shape))
        return b;
    double power = theta <= 0 ? 0
                   : m->flop_gamma == 1
                       ? theta
                       : quick_exp(m->flop_gamma * quick_log(theta));
    double frozen = m->flop_alpha_s + m->flop_beta * power * b;
    return frozen < b ? frozen : b;
}

double firn_itertime_backward(const struct firn_itertime *m,
                              const struct firn_shape *shape)
{
    int k = fullest(shape);
    double c = compute(m, shape->batch_per_gpu, k);
    return backward(m, shape, c - forward(m, c, k));
}

struct firn_itertime_parts firn_itertime_parts(const struct firn_itertime *m,
                                               const struct firn_shape *shape)
{
    struct firn_itertime_parts p;
    int k = fullest(shape);
    double c = compute(m, shape->batch_per_gpu, k);
    int passes = shape->accum_steps > 1 ? shape->accum_steps : 1;
    p.forward_s = forward(m, c, k);
    p.backward_s = backward(m, shape, c - p.forward_s);
    p.sync_s = synchronise(m, shape, k);
    p.step_s = p.forward_s + overlap(p.backward_s, p.sync_s, m->gamma);
    p.iteration_s = (passes - 1) * (p.forward_s + p.backward_s) + p.step_s;
    p.extrapolated = shape->batch_per_gpu < m->batch_min ||
                     shape->batch_per_gpu > m->batch_max ||
                     shape->gpus > m->gpus_max || shape->nodes > m->nodes_max ||
                     shape->theta < m->theta_min;
    return p;
}

double firn_itertime_iteration(const struct firn_itertime *m,
                               const struct firn_shape *shape)
{
    int k = fullest(shape);
    double c = compute(m, shape->batch_per_gpu, k);
    double f = forward(m, c, k), b = backward(m, shape, c - f);
    int passes = shape->accum_steps > 1 ? shape->accum_steps : 1;
    return (passes - 1) * (f + b) + f +
           overlap(b, synchronise(m, shape, k), m->gamma);
}

double firn_itertime_throughput(const struct firn_itertime *m,
                                const struct firn_shape *shape)
{
    int passes = shape->accum_steps > 1 ? shape->accum_steps : 1;
    return shape->gpus * shape->batch_per_gpu * passes /
           firn_itertime_iteration(m, shape);
}

void firn_itertime_default(struct firn_itertime *m)
{
    *m = (struct firn_itertime){
        .alpha_s = 0.5,
        .beta_s = 0.5,
        .phi = 0.33,
        .phi_fixed = 0.33,
        .gamma = 1.5,

        .flop_beta = 1,
        .flop_gamma = 1,
        .sync_beta = 1,
    };
}
