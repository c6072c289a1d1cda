/* peakplan.h - ways to train a model on given GPUs, and changes that make it
 * fit.
 *
 * A way is a tensor degree t, pipeline degree p, data degree d, ZeRO stage and
 * a micro-batch; the rest of the global batch is accumulated in passes. Memory
 * is peak.h's and does not depend on the GPU type, so it is counted once for
 * all types. The time of a step is a model, good enough to rank:
 *
 *   host      passes x layers / p x layer_s of the type
 *   compute   FLOPs / rate: 6 a parameter and token (4 when frozen, 2 more when
 *             computed again), 12 l q s for attention; times (m + p - 1) / m
 *             for the pipeline with m passes
 *   tensor    4 all-reduces a layer and pass, within the node
 *   data      one all-reduce of the gradients. ZeRO 1 scatters the gradients
 *             and gathers the new weights: as much in one precision. ZeRO 2
 *             scatters in every pass, ZeRO 3 also gathers the weights twice a
 *             pass
 *   offload   16 bytes a parameter over 20 GB/s
 *
 * one after the other (llmplan.h has the constants' sources). It has not been
 * measured with several GPUs.
 */
#ifndef FIRN_PEAKPLAN_H
#define FIRN_PEAKPLAN_H
#include <firn/llmplan.h>
#include <firn/peak.h>

FIRN_C_BEGIN

struct firn_peak_plan {
    int type; /* index into the GPU types */
    int t, p, d, zero;
    int ngpus;       /* t p d */
    int micro_batch; /* samples on one GPU in one pass */
    int passes;      /* of a step */
    double samples_s, samples_s_gpu;
    double headroom_mib; /* capacity less device; 0 when not known */
    double expected_mib, high_mib, device_mib;
};

struct firn_peak_search {
    const struct firn_llm_gpus *types;
    size_t ntypes;
    int batch;             /* global */
    int gpus_max;          /* of a plan; 0: as many as there are */
    int pp_max;            /* 0: no pipelines */
    bool has_zero;         /* tries the stages 0 to 3, else the job's own */
    bool has_accumulation; /* tries micro-batches below batch / d */
};

/* Why ways were refused: how many, and the one that came nearest. */
struct firn_peak_refused {
    size_t ways, fitting; /* with their GPUs at hand; of those, fitting */
    double least_mib;     /* device_mib of the smallest way */
    int t, p, d, zero, micro_batch;
    double most_gib; /* memory of the largest type */
};

/* Seconds of a step of `passes` micro-batches. `job` has passed
 * firn_peak_check(). */
FIRN_API double firn_peak_step_s(const struct firn_peak_job *job, int passes,
                                 const struct firn_llm_gpus *gpus,
                                 const struct firn_llm_speed *speed);

/* Writes the best `max` plans into `out` (most samples a second for each GPU,
 * then fewer GPUs, more memory left, type, t, p, zero, micro-batch) and returns
 * how many there are. `refused` may be NULL. */
FIRN_API size_t firn_peak_plans(const struct firn_peak_job *job,
                                const struct firn_peak_search *search,
                                struct firn_peak_plan *out, size_t max,
                                struct firn_peak_refused *refused);

/* The largest micro-batch whose device_mib fits `mem_gib`; 0: not even 1. */
FIRN_API int firn_peak_largest(const struct firn_peak_job *job, double mem_gib);

enum { FIRN_ADVICE_TEXT = 128 };

/* A change that makes a job fit. */
struct firn_peak_advice {
    char text[FIRN_ADVICE_TEXT]; /* "--checkpointing --loss fused" */
    double device_mib;
    double slowdown;       /* seconds a sample, over those without the change */
    bool changes_training; /* the result is another model or optimizer */
    int gpus;              /* that it takes */
};

/* Writes the cheapest changes (one, or up to four together) with which the
 * job fits `mem_gib`, the least slowdown first, and returns how many. A change
 * that trains something else counts three times its slowdown. 0 also when the
 * job fits as it is. */
FIRN_API size_t firn_peak_advise(const struct firn_peak_job *job,
                                 double mem_gib,
                                 const struct firn_llm_gpus *gpus,
                                 struct firn_peak_advice *out, size_t max);

FIRN_C_END

#endif
