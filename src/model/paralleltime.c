/* paralleltime.c - the equations of firn/parallel.h with a profile's numbers.
 *
 * A profile's step times are those of a whole copy on one GPU. Sharded, they
 * are (9)(10) with the profile's law of the gather for as many nodes.
 *
 * A pipeline of p stages has L / p layers of L in each. Stage j has the share
 *
 *     w_j = theta(first of j) - theta(first of j + 1),   theta(L) = 0
 *
 * of the FLOPs and the same of omega of the parameters, as the profile's
 * frozen shares say; 1 / p each where it has none. Its forward and backward
 * times are w_j of those of a micro-batch on one GPU; its synchronisation time
 * is its share of the parameters times that of a whole copy among d replicas.
 * With l layers frozen theta_j = (theta(l) - theta(first of j + 1)) / w_j,
 * between 0 and 1. GPUs are counted node by node: replica r has the GPUs r p to
 * r p + p - 1, so a message goes between nodes where a pipeline crosses into
 * the next one, and replicas are in one node only if all of them are.
 *
 * Memory: states are whole in a copy, 1/a of them sharded over a GPUs, 1/p in
 * a stage; a stage keeps the activations of at most p micro-batches of L / p
 * layers (one forward, one backward in turn).
 *
 * Invariants: one stage is a whole copy but for the gradients' overlap; one
 * GPU sharded is the plain step.
 */
#include "model/paralleltime.h"
#include <math.h>

unsigned parallel_of(const struct firn_profile_gpu *gpu)
{
    return (gpu->sharded.gamma_lm > 0 ? 1u << FIRN_PARALLEL_SHARDED : 0u) |
           (gpu->pipeline.micro_batch > 0 ? 1u << FIRN_PARALLEL_PIPELINE : 0u);
}

static double up(double x)
{
    return ceil(x - 1e-8);
}

struct firn_batch_split parallel_split(const struct firn_profile *profile,
                                       const struct firn_profile_gpu *gpu,
                                       const struct parallel_run *run,
                                       double batch, double local_max)
{
    int gpus = run->shape.gpus;
    if (run->parallel != FIRN_PARALLEL_PIPELINE)
        return firn_profile_split(profile, batch, gpus, local_max);
    double total = batch > 0 ? batch : profile->batch0;
    int replicas = gpus / run->stages;
    double each = up((total > 0 ? total : replicas) / replicas);
    double micro = fmax(gpu->pipeline.micro_batch, 1);
    double passes = fmin(fmax(up(each / micro), 1), 1e6);
    double b = up(each / passes);
    return (struct firn_batch_split){b, (int)passes, replicas * b * passes};
}

/* --- sharded ------------------------------------------------------------- */

static double sharded(const struct firn_profile_gpu *gpu,
                      const struct firn_shape *shape)
{
    const struct firn_profile_sharded *s = &gpu->sharded;
    struct firn_sharded m = {.base = gpu->time,
                             .gather = shape->nodes == 1   ? s->local
                                       : shape->nodes == 2 ? s->pair
                                                           : s->far,
                             .gamma_lm = s->gamma_lm,
                             .para_alpha_s = s->para_alpha_s,
                             .para_beta = s->para_beta};
    return firn_sharded_iteration(&m, shape);
}

/* --- pipeline ------------------------------------------------------------ */

/* The shares of FLOPs and parameters in the layers from `layer` on. */
static struct firn_profile_frozen from_layer(const struct firn_profile *p,
                                             double layer, double layers)
{
    double rest = 1 - layer / layers;
    if (layer >= layers || p->nfrozen < 2)
        return (struct firn_profile_frozen){layer, rest, rest};
    return firn_profile_unfrozen(p, layer);
}

/* The unfrozen share of a stage that lies between `first` and `next`, when
 * `left` is the unfrozen share of the network. */
static double left_of(double first, double next, double left)
{
    return first > next ? fmin(fmax((left - next) / (first - next), 0), 1) : 0;
}

/* Does stage j send its activations to another node? */
static bool is_far(const struct firn_shape *shape, int stages, int j)
{
    int most = shape->gpus_on_fullest;
    if (shape->nodes == 1)
        return false;
    if (stages > most)
        return (j + 1) % most == 0;
    return most % stages != 0 && j == 0; /* some replica is on two nodes */
}

/* Seconds to synchronise all parameters among the replicas. */
static double sync_of(const struct firn_profile_gpu *gpu,
                      const struct firn_shape *shape, int replicas)
{
    struct firn_shape among = *shape;
    among.gpus = replicas;
    among.nodes = shape->nodes < replicas ? shape->nodes : replicas;
    among.gpus_on_fullest = 0;
    among.theta = among.omega = 1;
    return firn_itertime_sync(&gpu->time, &among);
}

static void lay_out(const struct firn_profile *p,
                    const struct firn_profile_gpu *gpu,
                    const struct parallel_run *run, struct firn_stage *stages)
{
    const struct firn_shape *shape = &run->shape;
    struct firn_shape one = {.nodes = 1,
                             .gpus = 1,
                             .batch_per_gpu = shape->batch_per_gpu,
                             .theta = 1,
                             .omega = 1};
    struct firn_itertime_parts parts = firn_itertime_parts(&gpu->time, &one);
    double layers = p->layers > 0 ? p->layers : run->stages;
    double sync_s = sync_of(gpu, shape, shape->gpus / run->stages);
    struct firn_profile_frozen left =
        from_layer(p, fmin(run->frozen, layers), layers);
    for (int j = 0; j < run->stages; j++) {
        struct firn_profile_frozen first =
            from_layer(p, layers * j / run->stages, layers);
        struct firn_profile_frozen next =
            from_layer(p, layers * (j + 1) / run->stages, layers);
        double flops = first.theta - next.theta;
        double params = first.omega - next.omega;
        double send_s = is_far(shape, run->stages, j) ? gpu->pipeline.far_act_s
                                                      : gpu->pipeline.act_s;
        stages[j] = (struct firn_stage){
            .forward_s = flops * parts.forward_s,
            .backward_s = flops * parts.backward_s,
            .act_s = send_s * shape->batch_per_gpu,
            .grad_s = send_s * shape->batch_per_gpu,
            .sync_s = params * sync_s,
            .theta = left_of(first.theta, next.theta, left.theta),
            .omega = left_of(first.omega, next.omega, left.omega),
        };
    }
    stages[run->stages - 1].act_s = stages[run->stages - 1].grad_s = 0;
}

static double pipeline(const struct firn_profile *p,
                       const struct firn_profile_gpu *gpu,
                       const struct parallel_run *run)
{
    struct firn_stage stages[PARALLEL_STAGES_MAX];
    const struct firn_itertime *t = &gpu->time;
    struct firn_freeze_law freeze = {t->flop_alpha_s, t->flop_beta,
                                     t->flop_gamma, t->sync_alpha_s,
                                     t->sync_beta};
    if (run->stages < 1 || run->stages > PARALLEL_STAGES_MAX ||
        run->shape.gpus % run->stages != 0)
        return (double)NAN;
    lay_out(p, gpu, run, stages);
    return firn_hybrid_iteration(stages, run->stages, run->shape.accum_steps,
                                 run->shape.gpus / run->stages, &freeze,
                                 t->gamma);
}

double parallel_iteration(const struct firn_profile *profile,
                          const struct firn_profile_gpu *gpu,
                          const struct parallel_run *run)
{
    struct firn_profile_frozen left =
        firn_profile_unfrozen(profile, run->frozen);
    struct firn_shape shape = run->shape;
    shape.theta = left.theta;
    shape.omega = left.omega;
    if (run->parallel == FIRN_PARALLEL_SHARDED)
        return gpu->sharded.gamma_lm > 0 ? sharded(gpu, &shape) : (double)NAN;
    if (run->parallel == FIRN_PARALLEL_PIPELINE)
        return gpu->pipeline.micro_batch > 0 ? pipeline(profile, gpu, run)
                                             : (double)NAN;
    return firn_itertime_iteration(&gpu->time, &shape);
}

double parallel_mem_mib(const struct firn_profile *profile,
                        const struct firn_profile_gpu *gpu,
                        const struct parallel_run *run)
{
    double theta = firn_profile_unfrozen(profile, run->frozen).theta;
    double samples = run->shape.batch_per_gpu, parts = 1;
    if (run->parallel == FIRN_PARALLEL_SHARDED)
        parts = run->shape.gpus;
    if (run->parallel == FIRN_PARALLEL_PIPELINE && run->stages > 0) {
        parts = run->stages;
        samples *= fmin(run->shape.accum_steps, parts) / parts;
    }
    double rest = firn_profile_mem_mib(gpu, samples, theta);
    if (isnan(rest))
        rest = profile->states_mib > 0 ? 0 : (double)NAN;
    return rest + profile->states_mib / parts;
}
