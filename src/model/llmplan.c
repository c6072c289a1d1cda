/* llmplan.c - the feasible (type, t, d) of a transformer, best first.
 *
 * Plans are few (types x log node x divisors of the batch), so they are
 * enumerated and each is inserted in order into the caller's array, the worst
 * dropping out at the end. The order is total (type, t and d come last), so it
 * does not depend on the order of enumeration.
 */
#include <firn/llmplan.h>

#include "base/str.h"
#include "model/llmplan.h"
#include <string.h>

#define MIB_PER_GIB 1024.0

/* What an H200 reaches in Megatron's precision, of its nominal 989 TFLOP/s and
 * of 4800 GB/s: 729 TFLOP/s, and 74.3e9 numbers of attention matrices a second
 * (65 bytes each: they are written and read several times in both passes).
 * Least squares of relative errors with the host's time, over the 47 rows of
 * docs/measurements/h200/megatron_memory.csv and megatron_fused.csv. */
static const double peak_share = 0.737, matrices_per_byte = 0.01548;

static const struct known {
    const char *type;
    double peak, memory, fp32, layer, node, net;
} known[] = {
#define LLM_SPEED(type, peak, memory, fp32, layer, node, net) \
    {type, peak, memory, fp32, layer, node, net},
#include "model/llm_speeds.def"
#undef LLM_SPEED
};

enum { NKNOWN = sizeof known / sizeof *known };

static struct firn_llm_speed constants(const struct known *of, double factor)
{
    return (struct firn_llm_speed){
        .half_flops_s = factor * peak_share * of->peak * 1e12,
        .fp32_flops_s = factor * of->fp32 * 1e12,
        .node_bytes_s = of->node * 1e9,
        .net_bytes_s = of->net * 1e9,
        .layer_s = of->layer * 1e-3,
        .matrix_s = factor * matrices_per_byte * of->memory * 1e9,
    };
}

struct firn_llm_speed firn_llm_speed_of(const char *type, double speed)
{
    int v100 = 0;
    for (int i = 0; i < NKNOWN; i++)
        if (((known[i].type[0] ^ type[0]) & ~0x20) == 0 && /* but for case */
            str_equal_nocase(known[i].type, type))
            return constants(&known[i], 1);
    for (int i = 0; i < NKNOWN; i++)
        if (strcmp(known[i].type, "v100") == 0)
            v100 = i;
    return constants(&known[v100], speed);
}

/* Seconds in which each of n GPUs has the sum of all their `bytes`. */
static double all_reduce_s(double bytes, int n, double bytes_s)
{
    return 2.0 * (n - 1) / n * bytes / bytes_s;
}

double firn_llm_samples_s(const struct firn_memory_job *job,
                          const struct firn_llm_gpus *gpus,
                          const struct firn_llm_speed *speed)
{
    double params = firn_llm_params(&job->shape, job->seq);
    return llmplan_samples_s(job, params, gpus, speed);
}

double llmplan_samples_s(const struct firn_memory_job *job, double params,
                         const struct firn_llm_gpus *gpus,
                         const struct firn_llm_speed *speed)
{
    const struct firn_llm_shape *shape = &job->shape;
    bool is_fp32 = job->precision == FIRN_PRECISION_FP32;
    double size = is_fp32 ? 4 : 2;
    double gradient = job->precision == FIRN_PRECISION_AMP ? 4 : size;
    double s = job->seq, h = shape->hidden, l = shape->layers;
    double trained = params;
    if (job->lora_rank > 0)
        trained = firn_llm_lora_params(shape, job->lora_rank, job->lora_on);
    double flops = 6 * params * s + 12 * l * h * s * s;
    double rate = is_fp32 ? speed->fp32_flops_s : speed->half_flops_s;
    double sample_s = flops / rate;
    if (!is_fp32 && job->attention == FIRN_ATTENTION_EAGER)
        sample_s += shape->heads * s * s * l / speed->matrix_s;
    double compute_s = l * speed->layer_s +
                       sample_s * job->micro_batch / (job->tp * gpus->speed);
    if (job->is_checkpointing)
        compute_s *= 4.0 / 3;
    double tensor_s = 4 * l *
                      all_reduce_s(job->micro_batch * s * h * size, job->tp,
                                   speed->node_bytes_s);
    bool is_one_node = (long)job->tp * job->dp <= gpus->node_gpus;
    double bytes_s = is_one_node ? speed->node_bytes_s
                                 : speed->net_bytes_s / gpus->node_gpus;
    double data_s =
        all_reduce_s(gradient * trained / job->tp, job->dp, bytes_s);
    return (double)job->micro_batch * job->dp / (compute_s + tensor_s + data_s);
}

static bool is_better(const struct firn_llm_plan *a,
                      const struct firn_llm_plan *b)
{
    if (a->samples_s_gpu != b->samples_s_gpu)
        return a->samples_s_gpu > b->samples_s_gpu;
    if (a->ngpus != b->ngpus)
        return a->ngpus < b->ngpus;
    if (a->headroom_mib != b->headroom_mib)
        return a->headroom_mib > b->headroom_mib;
    if (a->type != b->type)
        return a->type < b->type;
    return a->t < b->t;
}

/* Inserts a plan in order among the n best, of which `max` are kept. */
static void keep(struct firn_llm_plan *out, size_t n, size_t max,
                 const struct firn_llm_plan *plan)
{
    if (max == 0 || (n >= max && !is_better(plan, &out[max - 1])))
        return;
    size_t at = n < max ? n : max - 1;
    for (; at > 0 && is_better(plan, &out[at - 1]); at--)
        out[at] = out[at - 1];
    out[at] = *plan;
}

/* False when the plan does not fit the memory. */
static bool make(struct firn_memory_job *job, int type,
                 const struct firn_llm_plan_options *options,
                 struct firn_llm_plan *out)
{
    const struct firn_llm_gpus *gpus = &options->types[type];
    job->micro_batch = options->batch / job->dp;
    struct firn_memory memory = firn_memory_of(job, options->fit);
    double room_mib = gpus->mem_gib * MIB_PER_GIB - memory.device_mib;
    if (gpus->mem_gib > 0 && room_mib < 0)
        return false;
    int ngpus = job->tp * job->dp;
    struct firn_llm_gpus one = *gpus;
    struct firn_llm_speed speed = firn_llm_speed_of(gpus->name, gpus->speed);
    if (options->speed != NULL)
        speed = *options->speed;
    else
        one.speed = 1;
    double samples_s = firn_llm_samples_s(job, &one, &speed);
    *out = (struct firn_llm_plan){
        .type = type,
        .t = job->tp,
        .d = job->dp,
        .ngpus = ngpus,
        .micro_batch = job->micro_batch,
        .samples_s = samples_s,
        .samples_s_gpu = samples_s / ngpus,
        .headroom_mib = gpus->mem_gib > 0 ? room_mib : 0,
        .memory = memory,
    };
    return true;
}

size_t firn_llm_plans(const struct firn_memory_job *job,
                      const struct firn_llm_plan_options *options,
                      struct firn_llm_plan *out, size_t max)
{
    struct firn_memory_job j = *job;
    struct firn_llm_plan plan;
    size_t n = 0;
    for (int type = 0; type < (int)options->ntypes; type++) {
        const struct firn_llm_gpus *gpus = &options->types[type];
        for (j.tp = 1; j.tp <= gpus->node_gpus && j.tp <= j.shape.heads;
             j.tp *= 2) {
            if (j.shape.heads % j.tp != 0)
                break;
            for (j.dp = 1; j.dp <= options->batch && j.dp <= gpus->count / j.tp;
                 j.dp++) {
                if (options->batch % j.dp != 0 ||
                    !make(&j, type, options, &plan))
                    continue;
                keep(out, n++, max, &plan);
            }
        }
    }
    return n;
}
