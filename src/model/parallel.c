/* parallel.c - sharded, pipeline, hybrid and tensor-parallel iteration time.
 *
 * The equations are in parallel.h. Invariants:
 *
 * (1) With nothing frozen (10) is (9), and (12) is (11).
 * (2) Freezing more never takes longer.
 * (3) One stage and one micro-batch is forward plus backward; one GPU of
 *     tensor or sharded parallel is the plain compute.
 *
 * What is left out: interleaved schedules, activation recomputation (a larger
 * forward_s says it) and contention between the kinds of messages.
 */
#include <firn/parallel.h>
#include <math.h>

static double law_at(const struct firn_sync_law *law,
                     const struct firn_shape *shape)
{
    struct firn_itertime only = {
        .gamma = 1, .local = *law, .pair = *law, .far = *law};
    struct firn_shape whole = *shape;
    whole.theta = whole.omega = 1;
    return firn_itertime_sync(&only, &whole);
}

static double at_most(double value, double limit)
{
    return value < limit ? value : limit;
}

double firn_sharded_backward(const struct firn_sharded *m,
                             const struct firn_shape *shape)
{
    double grad = firn_itertime_backward(&m->base, shape);
    double para = law_at(&m->gather, shape);
    if (shape->theta < 1 || shape->omega < 1)
        para =
            at_most(m->para_alpha_s + m->para_beta * shape->omega * para, para);
    return firn_overlap(grad, para, m->gamma_lm);
}

double firn_sharded_iteration(const struct firn_sharded *m,
                              const struct firn_shape *shape)
{
    double gather = law_at(&m->gather, shape);
    double forward = firn_itertime_parts(&m->base, shape).forward_s;
    double backward = firn_sharded_backward(m, shape);
    double sync = firn_itertime_sync(&m->base, shape);
    int passes = shape->accum_steps > 1 ? shape->accum_steps : 1;
    forward = firn_overlap(forward, gather, m->gamma_lm);
    return (passes - 1) * (forward + backward) + forward +
           firn_overlap(backward, sync, m->base.gamma);
}

/* (6) for stage j. */
static double stage_backward(const struct firn_stage *s,
                             const struct firn_freeze_law *f)
{
    if (s->theta <= 0)
        return 0;
    struct firn_itertime only = {.alpha_s = s->backward_s,
                                 .gamma = 1,
                                 .flop_alpha_s = f->flop_alpha_s,
                                 .flop_beta = f->flop_beta,
                                 .flop_gamma = f->flop_gamma};
    struct firn_shape shape = {
        .nodes = 1, .gpus = 1, .theta = s->theta, .omega = s->omega};
    return firn_itertime_backward(&only, &shape);
}

static bool is_frozen(const struct firn_stage *s)
{
    return s->theta < 1 || s->omega < 1;
}

double firn_pipeline_iteration(const struct firn_stage *stages, int p,
                               int micro_batches,
                               const struct firn_freeze_law *freeze)
{
    return firn_hybrid_iteration(stages, p, micro_batches, 1, freeze, 1);
}

double firn_hybrid_iteration(const struct firn_stage *stages, int p,
                             int micro_batches, int replicas,
                             const struct firn_freeze_law *freeze, double gamma)
{
    if (p < 1 || micro_batches < 1 || replicas < 1)
        return NAN;
    double forward_s = 0, backward_s = 0, slowest_s = 0, sync_s = 0;
    for (int j = 0; j < p; j++) {
        const struct firn_stage *s = &stages[j];
        double stage_s = stage_backward(s, freeze);
        forward_s += s->forward_s;
        backward_s += stage_s;
        if (j + 1 < p) {
            forward_s += s->act_s;
            backward_s += is_frozen(&stages[j + 1]) ? 0 : s->grad_s;
        }
        slowest_s = fmax(slowest_s, s->forward_s + stage_s);
        if (replicas == 1 || s->omega <= 0)
            continue;
        double frozen_s =
            freeze->sync_alpha_s + freeze->sync_beta * s->omega * s->sync_s;
        sync_s +=
            is_frozen(s) ? at_most(frozen_s, s->sync_s) : s->sync_s; /* (7) */
    }
    return forward_s + (micro_batches - 1) * slowest_s +
           firn_overlap(backward_s, sync_s, gamma);
}

double firn_tensor_step(const struct firn_tensor *m, double compute_s,
                        double batch, int t)
{
    double bytes = m->seq * batch * m->hidden * m->bytes_per_value;
    double ring = 2.0 * (t - 1) * m->latency_s +
                  2.0 * (t - 1) / t * bytes / m->bandwidth_bytes_s;
    return compute_s / t + (t > 1 ? 4 * m->layers * ring : 0);
}
