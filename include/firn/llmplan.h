/* llmplan.h - on which GPUs, and how split, a transformer can train.
 *
 * MARP's plans: for each GPU type, every tensor-parallel degree t and
 * data-parallel degree d such that
 *
 *   (1) t is a power of two, divides the heads and is not above the GPUs of a
 *       node;
 *   (2) d divides the global batch B, and each GPU gets B / d samples;
 *   (3) the cluster has t d GPUs of the type;
 *   (4) the upper end of the predicted memory fits (memory 0: not known, fits).
 *
 * The paper orders them by "training efficiency" without defining it; here:
 * more samples a second for each GPU, then fewer GPUs, then more memory left,
 * then type, t, d.
 *
 * The speed is a simple model, good enough to rank. A step takes
 *
 *   host     layer_s for each layer: launching kernels, and the optimizer
 *   compute  FLOPs B/(d t rate), FLOPs of a sample = 6 W s + 12 l h s^2
 *   matrices B/d a s^2 l / (t matrix_s): the attention matrices go through
 *            memory; only where attention is eager and not fp32, whose rate has
 *            them in it. These three are four thirds when checkpointing
 *   tensor   four all-reduces a layer of the layer's output, within the node:
 *            4 l (B/d) s h x 2 (t-1)/t / node_bytes_s
 *   data     one all-reduce of the gradients, 2 (d-1)/d bytes / bandwidth: the
 *            node's when t d GPUs fit in one, else the network's, which the
 *            GPUs of a node share
 *
 * and nothing overlaps. The constants are those of the GPU type
 * (model/llm_speeds.def says which are measured, and where). On the 47 steps of
 * GPT-2 measured on an H200 in Megatron's precision (124M to 7B, t 1 to 8, no
 * messages) host, compute and matrices together are off by 12 % in the mean and
 * 30 % at most: short steps wait for the host, whose time varies.
 */
#ifndef FIRN_LLMPLAN_H
#define FIRN_LLMPLAN_H
#include <firn/memory.h>

FIRN_C_BEGIN

struct firn_llm_gpus {
    const char *name; /* borrowed */
    double mem_gib;   /* 0: not known */
    double speed;     /* relative to a V100, > 0 */
    int node_gpus;    /* in the largest node */
    int count;        /* in all */
};

struct firn_llm_speed {
    double half_flops_s; /* in bf16 or fp16 */
    double fp32_flops_s;
    double node_bytes_s; /* between two GPUs of a node */
    double net_bytes_s;  /* of a node to the others */
    double layer_s;      /* of the host */
    double matrix_s;     /* numbers of attention matrices a second */
};

struct firn_llm_plan {
    int type; /* index into the GPU types */
    int t, d;
    int ngpus;       /* t d */
    int micro_batch; /* B / d */
    double samples_s, samples_s_gpu;
    double headroom_mib; /* capacity less device; 0 when not known */
    struct firn_memory memory;
};

/* The constants of a GPU type by its name. A type that is not in the table:
 * those of a V100, computing `speed` times as fast. */
FIRN_API struct firn_llm_speed firn_llm_speed_of(const char *type,
                                                 double speed);

/* Samples a second of the job (its tp, dp and micro_batch count) on `gpus`,
 * which compute gpus->speed times as fast as `speed` says. */
FIRN_API double firn_llm_samples_s(const struct firn_memory_job *job,
                                   const struct firn_llm_gpus *gpus,
                                   const struct firn_llm_speed *speed);

/* `fit` NULL: the default. `speed` NULL: that of each type by its name, and
 * their `speed` is not read for a type of the table. */
struct firn_llm_plan_options {
    const struct firn_llm_gpus *types;
    size_t ntypes;
    int batch; /* B */
    const struct firn_memory_fit *fit;
    const struct firn_llm_speed *speed;
};

/* Writes the best `max` plans for a global batch into `out`, best first, and
 * returns how many there are in all, which may be more. tp, dp and micro_batch
 * of the job are not read. O(P max)
 * for P plans. */
FIRN_API size_t firn_llm_plans(const struct firn_memory_job *job,
                               const struct firn_llm_plan_options *options,
                               struct firn_llm_plan *out, size_t max);

FIRN_C_END

#endif
