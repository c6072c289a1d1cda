/* job.h - a job: what the user asked, and how far it is.
 *
 * `struct firn_job_spec` never changes after submission. `struct firn_job`
 * adds what core has seen: what the job holds, how long it has held GPUs, and
 * the last progress its engine reported. Progress is counted in reference
 * seconds: a job is done after `duration_s` of them, and gains `rate` of them
 * a second from `resumes_s` on (before that it is restarting).
 */
#ifndef FIRN_JOB_H
#define FIRN_JOB_H
#include <firn/alloc.h>
#include <firn/can.h>
#include <firn/memory.h>
#include <firn/status.h>
#include <stdint.h>

FIRN_C_BEGIN

struct firn_job_spec {
    const char *name;  /* unique in its trace; never NULL */
    const char *app;   /* application; "" when not known */
    const char *group; /* virtual cluster, user or trace; "" for none */
    double submit_s;   /* >= 0 */
    int gpus;          /* what `duration_s` refers to, >= 1; 0 in a trace only:
                        * a language model whose user did not say */
    int gpus_min;      /* a gang (gpus_min == gpus == gpus_max) holds exactly */
    int gpus_max;      /* that many or none; an elastic job min..max */
    double duration_s; /* run time on `gpus` reference GPUs, > 0; oracle */
    double restart_s;  /* cost of a restart; < 0: the simulation's default */
    double mem_gib;    /* memory it needs on each GPU; 0: not known */
    int batch;         /* total batch; 0: not known */
    int priority;      /* higher is more urgent; 0 */
    const char *types; /* "v100|a100": GPU types it accepts; "" for any */
    const char *merge_key; /* settings that co-trained jobs must have in common
                            * (program, environment, folder), as one text: only
                            * jobs with the same key are merged. NULL or "":
                            * none, as in every trace */
    int threads;           /* elastic threads; 0: gpus_max of them */
    int seq;               /* tokens of a sequence, of a language model; 0 */
    double frozen_max; /* share of its layers that may be frozen, to 1; 0: it
                        * sets no limit */
    bool may_share;    /* accepts half-shares */
    bool may_merge;    /* accepts to be trained together with another */
    bool one_type;     /* its GPUs are all of one type, the same for its whole
                        * life: its results depend on the type */
    bool is_nominal;   /* duration_s was estimated from the application's name,
                        * not recorded in the trace */
    bool best_effort;  /* no GPU is guaranteed to it (EasyScale's minP = 0): it
                        * has at least gpus_min GPUs, or none for a while */
    struct firn_training training; /* of a language model */
    unsigned cannot; /* FIRN_CAN_* (firn/can.h): what its trainer cannot do; 0:
                      * everything can be ordered, as of every trace's job */
    const char *config; /* of a language model: the text of its config.json
                         * (firn/arch.h); NULL or "": `app` names the model */
    double mem_ratio; /* of a language model: memory seen over memory predicted
                       * (firn/peakseen.h); 0: nothing was seen, 1 */
    struct firn_layout asked; /* execution plan of an application whose plans
                               * were measured (docs/plans.md) */
    long line;                /* where in the trace; 0 for none */
    const char *user;         /* that it is charged to; NULL or "": `group` */
    const char *project;      /* the same; NULL or "": the user's */
    bool keeps_gpus;          /* it cannot write checkpoints nor start over:
                               * core takes no GPU back from it */
    bool one_node;            /* its GPUs are all on one node */
    double deadline_s;        /* on the view's clock: to end by then; 0: none */
    double iterations;        /* that its user says it makes; 0: not known */
};

enum firn_job_state {
    FIRN_JOB_WAITING, /* submitted, holds nothing */
    FIRN_JOB_RUNNING, /* holds GPUs */
    FIRN_JOB_ENDED,   /* done, rejected or failed for good */
};

struct firn_job {
    firn_job_id id; /* in order of submission; stable for life */
    int slot;       /* small; reused after the job has ended */
    enum firn_job_state state;
    struct firn_job_spec spec;
    uint32_t type_mask; /* cluster types it may use; bit per firn_type_id. Of a
                         * spec.one_type job that has held GPUs: their type */

    struct firn_alloc held; /* what it holds now */
    double since_s;         /* when it last began or ceased to hold GPUs */
    double first_start_s;   /* NaN until it has started */
    double held_s;          /* time with GPUs, up to since_s */
    double served_gpu_s;    /* GPU-seconds held, up to since_s */
    int starts;             /* times it got GPUs or was moved or resized */
    int gpus_most;          /* the most GPUs it ever held */

    double done_s;          /* reference seconds done at `resumes_s` */
    double rate;            /* reference seconds a second while it holds GPUs */
    double resumes_s;       /* progress counts from here */
    char note[64];          /* why it waits: the policy's latest note */
    const uint64_t *barred; /* nodes that it cannot be given now, a bit each:
                             * node n is bit n % 64 of word n / 64. It stays on
                             * a node that it holds. NULL: none, as of every
                             * trace's job */
    double belief; /* its work as the scheduler believes it / as it is; 0: it is
                    * exact, 1. Policies read it by the functions below */
    int gpus_cap;  /* the most GPUs that its user's share leaves it at
                    * this moment; 0: no limit. firn_view_gpus_max()
                    * obeys it */
};

/* GPU-seconds held until now. */
FIRN_API double firn_job_served_gpu_s(const struct firn_job *job, double now_s);

/* Reference seconds done until now, going by the last report; never more than
 * the job has. */
FIRN_API double firn_job_done_s(const struct firn_job *job, double now_s);

/* Reference seconds that it has in all, and has left, as the scheduler
 * believes. spec.duration_s is the truth, which a simulation with errors in its
 * forecasts of work (--noise iterations) does not tell: policies use these.
 * Needs durations. */
FIRN_API double firn_job_work_s(const struct firn_job *job);
FIRN_API double firn_job_work_left_s(const struct firn_job *job, double now_s);

/* Seconds until it is done, as the scheduler believes: at its present rate,
 * with the rest of a restart, if it runs; on the GPUs it asked for if it waits.
 * Needs durations. */
FIRN_API double firn_job_left_s(const struct firn_job *job, double now_s);

/* May one set of processes train the two: do both accept it and can, with the
 * same key? Whether it pays is a question for firn_view_merge(). */
FIRN_API bool firn_job_may_merge(const struct firn_job *a,
                                 const struct firn_job *b);

/* Does the job's trainer obey orders of these kinds, FIRN_CAN_*? A job that
 * cannot resize is a gang of the GPUs it asked for: core sees to that when it
 * takes the job in. */
FIRN_API bool firn_job_can(const struct firn_job *job, unsigned what);
/* Of FIRN_TUNE_*, those that are left to this job's trainer. */
FIRN_API unsigned firn_job_tunes(const struct firn_job *job, unsigned tunes);
/* What the job would have to do to be run so and cannot, as FIRN_CAN_*; 0:
 * nothing. */
FIRN_API unsigned firn_job_lacks(const struct firn_job *job,
                                 const struct firn_how *how);

/* Is the node barred to the job? */
static inline bool firn_job_is_barred(const struct firn_job *job,
                                      firn_node_id node)
{
    return job->barred != NULL &&
           (job->barred[node / 64] >> node % 64 & 1) != 0;
}

/* A gang: only ever runs on exactly the GPUs it asked for. */
FIRN_API bool firn_job_is_gang(const struct firn_job *job);

/* Three-way comparison of two keys, for orders: -1, 0, 1. */
static inline int firn_cmp(double a, double b)
{
    return (a > b) - (a < b);
}

/* Facts that a policy reads and that some engines do not know. A policy is not
 * started with an engine that does not know the facts it needs. */
enum firn_need {
    FIRN_NEED_DURATION = 1, /* oracle run times: spec.duration_s */
    FIRN_NEED_TYPES = 2,    /* how fast each GPU type is */
    FIRN_NEED_FORECAST = 4, /* how fast jobs would go elsewhere */
};

FIRN_C_END

#endif
