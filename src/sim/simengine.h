/* simengine.h - the engine whose clock is virtual.
 *
 * Arrivals come from a trace, completions from rates, failures from a list;
 * `next` jumps to whichever is first. At one instant completions come before
 * node changes and those before arrivals.
 */
#ifndef SIM_SIMENGINE_H
#define SIM_SIMENGINE_H
#include "base/heap.h"
#include "base/vec.h"
#include "core/llmjobs.h"
#include "core/planjobs.h"
#include "sim/failure.h"
#include "sim/handover.h"
#include "sim/noise.h"
#include "sim/truth.h"
#include "sim/world.h"
#include <firn/forecast.h>

/* The truth about one job, by slot. */
struct simjob {
    const struct firn_job *job;
    struct firn_alloc alloc; /* parts kept only while shared */
    double since_s;          /* accounted for until here */
    double resumes_s;        /* no progress before */
    double rate;             /* reference seconds a second */
    double done_s;           /* at since_s */
    double run_s;            /* progressing since the last (re)start */
    double saved_s;          /* done_s at the last checkpoint */
    double until_s;          /* done_s at which the rate changes; infinity */
    double waited_s;         /* for GPUs that were not handed over yet */
    struct firn_report reported; /* without noise: the last report */
    struct noise noise;          /* on what it reports */
    int after; /* task whose weights it began with (transfers.h); 0: none */
    /* Fine-tuning (sim/taskfeed.h): its task, 0: none; the task that it is
     * merged with, 0: none, and how; the share of its work that was done when
     * that began; epochs reported since, and the least loss of them. */
    int task, with;
    enum firn_merge_kind kind;
    double from, least;
    int told;
    double latest; /* loss of the last of them */
    bool is_lone;  /* it began anew, and is not merged any more */
    double useful; /* GPU-seconds behind what it has done */
    int gpus;
    int used_gpus;     /* of these, those that train: fewer while a resize is
                        * prepared */
    double usual_rate; /* while it is prepared: without its slowdown */
    double ready_s;    /* when the processes of a resize are ready, and the */
    double pause_s;    /* time that the switch to them takes */
    bool is_preparing;
    int sharers;     /* most jobs on any of its GPUs, itself included */
    bool is_dirty;   /* the jobs it shares with have changed */
    bool is_quiet;   /* in its start or its end, and slows no other job down */
    bool is_ending;  /* in its end, and not slowed down by others */
    bool is_turning; /* in `finishes` with the time the rate changes */
};

/* A report that core has not had yet. */
struct simreport {
    struct firn_event event;
    int slot;
};

struct simengine {
    struct world world; /* first */
    struct truth truth;
    struct truth_table *table;          /* behind the truth; NULL for none */
    struct forecaster *forecast;        /* behind firn/forecast.h */
    struct taskfeed *tasks_told;        /* for merges; NULL without a table */
    double heard_s;                     /* when it last heard running jobs */
    struct firn_job_spec spec;          /* the next arrival */
    char llm_types[LLMJOBS_TYPES_TEXT]; /* its types, of a language model */
    bool has_spec, is_over; /* there is one; there will be no more */
    firn_job_id next_id;
    VEC(struct simjob) jobs;
    struct heap finishes; /* slots by time of completion, or of the next
                           * change of rate if that is before it */
    VEC(struct simreport) reports;
    size_t next_report;
    struct failures failures;
    struct handover handover;
    VEC(int) tasks; /* of fine-tuning jobs that have ended, by id; 0: of none */

    /* The jobs on each shared GPU, jobs_per_gpu slots each, GPUs numbered
     * through the nodes; made when the first job shares. */
    int *occupants, *first_gpu;
    VEC(int) dirty;
    VEC(double) starts; /* times of starts that could be prepared */
};

extern const struct firn_engine_def simengine_def;

#endif
