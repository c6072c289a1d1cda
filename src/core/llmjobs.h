/* llmjobs.h - jobs that are language models.
 *
 * A job is one when it has the text of a config.json, or its application names
 * a shape of firn/llm.h or a model of firn/arch.h, and its batch and the length
 * of its sequences are known.
 * What it needs and how fast it goes then follows from its shape
 * (firn/memory.h, firn/llmplan.h) or its architecture (firn/peak.h,
 * firn/peakplan.h); llmjobs.c says how. Its user may have said how many GPUs to
 * use, or nothing (spec.gpus 0, in a trace only).
 */
#ifndef CORE_LLMJOBS_H
#define CORE_LLMJOBS_H
#include "base/vec.h"
#include <firn/forecast.h>
#include <firn/llmplan.h>
#include <firn/memory.h>
#include <firn/peakplan.h>

struct llmjob {
    struct firn_memory_job job; /* micro_batch, tp and dp are not set */
    int batch;                  /* of all GPUs together */
    double params;              /* of job.shape; 0 with is_peak */
    double ref_samples_s;       /* on what duration_s refers to */
    bool is_peak; /* firn/peak.h predicts it: a model of firn/arch.h, or a word
                   * that firn/memory.h does not have. Of job.shape only h, l,
                   * a and V are set then */
    bool is_counted; /* firn/peak.h predicts its memory, and nothing else */
    struct firn_peak_job peak; /* the same is not set as in `job`. The members
                                * below are of jobs with is_peak alone */
    unsigned zeros;     /* ZeRO stages of several copies: bit per stage */
    bool has_said_zero; /* the one stage is its user's */
    int saves;          /* FIRN_SAVES_ACTIVATIONS and _HOST, where its user says
                         * nothing of them and its trainer can */
    int passes;         /* of a step; 0: as few as memory allows */
    unsigned cannot; /* FIRN_CAN_*, of its trainer. What its user says of ZeRO
                      * and passes, such a trainer does by itself */
    /* Of all jobs: */
    bool is_seen;     /* peaks of its model and mode were reported */
    double mem_ratio; /* on all its memory but the CUDA context */
};

/* How it is split, as far as that is decided; 0: the best there is, without
 * what has to be ordered: stages 1 and 2 of ZeRO, activations computed again,
 * the optimizer on the host. */
struct llmhow {
    int tensor, parallel, passes; /* as in struct firn_how */
    bool is_open; /* any way that its trainer can, as a plan may order it */
};

/* Where it is, or might be. */
struct llmspot {
    int gpus, nodes;
    int fullest;    /* GPUs on the node that has the most of them */
    int step;       /* largest power of two that divides those of each node */
    double mem_gib; /* of the smallest; 0: not known */
    struct firn_llm_speed speed; /* of the slowest */
};

/* One way to split it over GPUs of one type. */
struct llmplan {
    firn_type_id type;
    int t, d;        /* tensor, data parallel */
    int zero;        /* ZeRO stage; 3 is also FSDP */
    int saves;       /* FIRN_SAVES_ACTIVATIONS, _HOST: as a plan orders them */
    int passes;      /* of a step */
    int micro_batch; /* samples on one GPU in one pass */
    double samples_s;
    double samples_s_gpu; /* divided by the GPUs */
    double expected_gib;  /* the peak of all tensors */
    double high_gib;      /* the most that the allocator holds for them */
    double reserved_gib;  /* that the allocator is expected to hold */
    double need_gib;      /* what a GPU must have: high and the CUDA context */
    double marp_gib;      /* by Frenzy's formula, in 10^9 bytes; the same as
                           * need_gib of a job that firn/peak.h predicts, and
                           * of one whose memory was seen */
    double room_gib;      /* that need_gib leaves; 0 when memory is not known */
};

/* A way that does not fit. */
struct llmmiss {
    struct llmplan plan;      /* room_gib is what it lacks, below 0 */
    enum firn_peak_term term; /* the largest */
    double term_gib;
};

struct llmplans {
    struct llmplan *at;
    size_t n, cap; /* as VEC has them */
};

enum { LLMJOBS_TYPES_TEXT = FIRN_TYPES_MAX * (FIRN_NAME_MAX + 1) };

/* O(1) for a job without a sequence length. */
bool llmjobs_is(const struct firn_job_spec *spec);

/* The mask of types that its user allows, whatever their memory. */
uint32_t llmjobs_types(const struct firn_cluster *cluster,
                       const struct firn_job_spec *spec);

/* `spec` is a language model and names its GPUs. `types` is the mask of types
 * that it accepts. */
struct llmjob llmjobs_open(const struct firn_cluster *cluster,
                           const struct firn_job_spec *spec, uint32_t types);

struct llmspot llmjobs_packed(const struct firn_cluster *cluster,
                              firn_type_id type, int gpus, int nodes);
struct llmspot llmjobs_held(const struct firn_cluster *cluster,
                            const struct firn_alloc *alloc);

/* Reference seconds a second there, > 0 in any case: what does not fit its
 * GPUs spills to the host and crawls. */
double llmjobs_rate(const struct llmjob *llm, const struct llmspot *spot,
                    struct llmhow how);
/* The same as a forecast has it: 0 where it cannot run. `need_gib` (or NULL)
 * is what each GPU must have. */
double llmjobs_expect(const struct llmjob *llm, const struct llmspot *spot,
                      struct llmhow how, double *need_gib);
/* What is predicted of each GPU there: the plan that it runs by. False: it
 * cannot be split so. */
bool llmjobs_memory(const struct llmjob *llm, const struct llmspot *spot,
                    struct llmhow how, struct llmplan *out);

/* All splits whose memory fits by either figure, with gpus_min to gpus_max
 * GPUs of those types: most samples a second for each GPU first, then fewer
 * GPUs, more memory left, type, t. The caller releases. */
struct llmplans llmjobs_plans(const struct llmjob *llm,
                              const struct firn_cluster *cluster,
                              uint32_t types, int gpus_min, int gpus_max);

/* The `max` ways that come nearest to fitting a type, by what they lack, each
 * with as many passes as it may have; returns how many. Of a job that
 * firn/peak.h predicts; else 0. */
size_t llmjobs_misses(const struct llmjob *llm,
                      const struct firn_cluster *cluster, uint32_t types,
                      int gpus_max, struct llmmiss *out, size_t max);

/* The same as a forecast has them: at most `max`, and how many there are.
 * `correction` is on all rates. */
size_t llmjobs_ways(const struct llmjob *llm,
                    const struct firn_cluster *cluster,
                    const struct firn_job *job, double correction,
                    struct firn_llm_way *out, size_t max);

/* The most GPUs that a split of it has a use for. */
int llmjobs_gpus_max(const struct llmjob *llm);

/* Makes it a gang of the fewest GPUs that hold the model on the fastest type
 * that can, as a user would who knows its memory. The duration is changed so
 * that the work stays. Nothing changes where no type can hold it. */
void llmjobs_ask(const struct firn_cluster *cluster,
                 struct firn_job_spec *spec);

/* spec.gpus was 0: becomes the fewest with which the model fits on every type
 * that can hold it at all; the job may have other numbers. Leaves `spec` alone
 * where no type can hold it. */
void llmjobs_fill(const struct firn_cluster *cluster,
                  struct firn_job_spec *spec);

/* Only the types it fits on are left in spec.types, written into `text`;
 * where there are none, mem_gib becomes what it needs, and no cluster type
 * accepts it. */
void llmjobs_restrict(const struct firn_cluster *cluster,
                      struct firn_job_spec *spec,
                      char text[LLMJOBS_TYPES_TEXT]);

#endif
