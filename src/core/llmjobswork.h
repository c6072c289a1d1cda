/* llmjobswork.h - what the files of llmjobs share. */
#ifndef CORE_LLMJOBSWORK_H
#define CORE_LLMJOBSWORK_H
#include "core/llmjobs.h"
#include <firn/llmplan.h>

#define MIB_PER_GIB 1024.0

/* GPUs of one type, looked up once for many placements. */
struct llmgpus {
    double mem_gib;
    struct firn_llm_speed speed;
    int node; /* GPUs of its largest node */
    int most; /* all of them */
};

/* The speed that counts as 1. */
double llmjobs_reference_speed(const struct firn_cluster *cluster);
struct llmgpus llmjobs_gpus_at(const struct firn_cluster *cluster,
                               firn_type_id type, double reference);
/* The same where the reference is not known. */
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

/* --- splits -------------------------------------------------------------- */

struct llmsplit {
    int t, d, zero, saves, passes, micro_batch;
    double samples_s, need_gib;
    double expected_gib; /* with the CUDA context */
    double tensors_gib, high_gib, reserved_gib;
    double marp_gib; /* of a plan, by Frenzy's formula */
};

static inline bool llmspot_fits(const struct llmspot *spot, double gib)
{
    return spot->mem_gib <= 0 || gib <= spot->mem_gib;
}

/* Sets the passes and what they need, by firn/peak.h. */
struct firn_peak llmsplit_need(const struct llmjob *llm, struct llmsplit *split,
                               int passes);
/* The same in one pass, for a model of firn/memory.h. */
void llmsplit_need_by_memory(const struct llmjob *llm, struct llmsplit *split);
double llmsplit_samples_s(const struct llmjob *llm, const struct llmspot *spot,
                          const struct llmsplit *split);
/* The number of passes behind `passes` that a copy of `mine` samples may be
 * divided into, evenly; 0: there is none. */
int llmsplit_next_passes(const struct llmjob *llm, int mine, int passes);
/* What may be saved, the cheapest first, as bits of enum firn_saves; -1 behind
 * the last. */
int llmsplit_nth_saves(const struct llmjob *llm, int n);
/* May a plan have this split? */
bool llmsplit_is_open(const struct llmjob *llm, const struct llmsplit *split);
struct llmplan llmsplit_plan(const struct llmsplit *split, firn_type_id type);

#endif
