/* llmjobswork.h - what the files of llmjobs share. */
#ifndef CORE_LLMJOBSWORK_H
#define CORE_LLMJOBSWORK_H
#include "core/llmjobs.h"
#include <firn/llmplan.h>

/* GPUs of one type, looked up once for many placements. */
struct llmgpus {
    double mem_gib;
    struct firn_llm_speed speed;
    int node; /* GPUs of its largest node */
    int most; /* all of them */
};

struct llmgpus llmjobs_gpus_of(const struct firn_cluster *cluster,
                               firn_type_id type);
/* llmjobs_packed() on GPUs that were looked up before. */
struct llmspot llmjobs_packed_on(const struct llmgpus *of, int gpus, int nodes);

/* Types in the order of preference for being the reference: of speed 1 first;
 * -1 behind the last. */
firn_type_id llmjobs_nth_type(const struct firn_cluster *cluster,
                              uint32_t types, int n);
/* The job without its speed on the reference type. */
struct llmjob llmjobs_bare(const struct firn_job_spec *spec);
/* Samples a second of that many GPUs of the reference type. */
double llmjobs_reference_samples_s(const struct llmjob *llm,
                                   const struct firn_cluster *cluster,
                                   uint32_t types, int gpus);

#endif
