/* engine.h - engines run jobs: the simulator, processes on this host, Slurm.
 *
 * An engine turns steps into running jobs and reports what happens as events.
 * It owns the clock: core takes the time from events only. The simulator's
 * engine (sim/simengine.c) is one whose `next` moves virtual time; that is the
 * whole difference between `firn sim` and a live scheduler.
 */
#ifndef FIRN_ENGINE_H
#define FIRN_ENGINE_H
#include <firn/event.h>
#include <firn/forecast.h>
#include <firn/launch.h>
#include <firn/option.h>

FIRN_C_BEGIN

enum firn_step_kind {
    FIRN_STEP_START,  /* from nothing to `to` */
    FIRN_STEP_STOP,   /* from what it holds to nothing */
    FIRN_STEP_RESIZE, /* other number of GPUs */
    FIRN_STEP_MOVE,   /* as many GPUs, but others, or held another way */
};

/* One difference between what runs and what the plan wants. */
/* Why a job that runs loses GPUs. */
enum firn_cause {
    FIRN_CAUSE_POLICY, /* the policy decided so */
    FIRN_CAUSE_SHARE,  /* other users or projects have not had their share */
    FIRN_CAUSE_QUOTA,  /* its user or project is beyond a quota */
    FIRN_CAUSE_ROOM,   /* it is moved, to make room on a node */
    FIRN_CAUSE_NODE    /* its node is down or drained */
};

struct firn_step {
    enum firn_step_kind kind;
    const struct firn_job *job;  /* as it was before the step */
    const struct firn_alloc *to; /* nparts 0 for STOP; borrowed */
    double at_s;
    bool is_loss;          /* STOP because the node died: work may be lost */
    enum firn_cause cause; /* of a step that takes GPUs from the job */
    /* The job that gets the largest part of these GPUs; FIRN_NO_JOB: none does,
     * or the round was not asked to say so. */
    firn_job_id for_job;
};

/* What the system that runs the jobs does not let a job have at present. */
struct firn_bars {
    const uint64_t *nodes; /* that it would not be started on, a bit each as in
                            * firn_job.barred; NULL: none */
    int gpus_max;          /* the most GPUs that it may have; 0: no limit */
    double until_s;        /* it can be started nowhere before; 0: it can */
    const char *why;       /* in the words of that system */
};

/* A job that waits and is expected to start soon. */
struct firn_foreseen {
    firn_job_id job;
    double in_s;                 /* from now */
    const struct firn_alloc *to; /* that it is expected to get; borrowed */
};

struct firn_engine_def {
    const char *name, *summary;
    unsigned gives; /* FIRN_NEED_*: facts about jobs that it knows */
    /* The host of a live engine sets its option `state`, a text, before `open`:
     * the folder for files of both that outlive a restart. */
    const struct firn_option *options;
    const struct firn_forecast_def *forecast; /* with FIRN_NEED_FORECAST */
    size_t state_size;
    enum firn_status (*open)(void *state, struct firn_error *err);
    void (*close)(void *state);
    double (*now_s)(void *state);
    enum firn_status (*discover)(void *state, struct firn_cluster *out,
                                 struct firn_error *err);
    /* Never waits. All steps of a round that take GPUs away come before those
     * that give some. `settled` follows the last one: which jobs share GPUs is
     * known by then. */
    enum firn_status (*apply)(void *state, const struct firn_step *step,
                              struct firn_error *err);
    enum firn_status (*settled)(void *state, struct firn_error *err);
    /* The next event at or before `until_s`; false when there is none, and the
     * clock then stands at `until_s` (or where it was, if that is infinite).
     */
    bool (*next)(void *state, double until_s, struct firn_event *out,
                 struct firn_error *err);
    /* After a restart of the scheduler: the job held these GPUs in this attempt
     * (`attempt` is its number). Running processes are taken over; an attempt
     * whose processes are gone is reported as an event. */
    enum firn_status (*adopt)(void *state, const struct firn_job *job,
                              int64_t attempt, struct firn_error *err);

    /* Live engines only; NULL in the simulator's. `attach` comes before the
     * first step; `wake_fd` is readable when `next` may have something. */
    enum firn_status (*attach)(void *state, const struct firn_engine_host *host,
                               struct firn_error *err);
    int (*wake_fd)(void *state);
    /* Ends a job for good: grace, then force. Its FAIL or DONE still comes. */
    void (*cancel)(void *state, firn_job_id job);
    enum firn_phase (*phase)(void *state, firn_job_id job);
    /* Memory and utilisation of the fullest and the busiest of the job's GPUs,
     * all processes counted. False: not known; `out` is then untouched. MAY be
     * NULL. */
    bool (*load)(void *state, firn_job_id job, struct firn_load *out);
    /* Memory and utilisation of one GPU, all processes counted. `job` is a job
     * that holds it, or FIRN_NO_JOB. False and MAY be NULL as above. */
    bool (*gpu_load)(void *state, firn_node_id node, int gpu, firn_job_id job,
                     struct firn_load *out);

    /* Live engines that reach beyond this host; any MAY be NULL. */
    bool is_remote; /* workers are on other hosts: they report over TCP */
    /* Why it cannot be asked to do anything at present, in a sentence; NULL
     * when it can. Steps are taken all the same, and wait. */
    const char *(*trouble)(void *state);
    /* Why the job does not start though it has its GPUs, in the words of the
     * system that holds it back; valid until the next call. NULL: it is not
     * held back. */
    const char *(*job_trouble)(void *state, firn_job_id job);
    /* Seconds of a start (data loaders) that it does while other jobs still use
     * the GPUs of the job; at most these of a plan's ahead_s come true. NULL:
     * 0, it starts a job when its GPUs are free. */
    int (*ahead_s)(void *state);
    bool has_executors; /* starts several workers of a job on one GPU */
    /* Why no two jobs can share a GPU here; NULL: they can. */
    const char *(*no_sharing)(void *state);
    /* A node's own name; NULL: "n" and its number. */
    const char *(*node_name)(void *state, firn_node_id node);
    /* Why the node is out of service, in the words of the system that took it
     * out; NULL or "": not known. */
    const char *(*node_why)(void *state, firn_node_id node);
    /* Behind `cancel`: kills the processes of the job now, without its grace.
     * MAY be NULL: the grace cannot be cut short. */
    void (*kill)(void *state, firn_job_id job);
    /* What is barred to the job, held or waiting; false: nothing. Texts and
     * bits are valid until the next call. MAY be NULL: nothing ever is. */
    bool (*bars)(void *state, firn_job_id job, struct firn_bars *out);
    /* Sends SIGUSR2 to those processes of the job that handle it: its time
     * limit is near. False: the job has no processes. MAY be NULL. */
    bool (*warn)(void *state, firn_job_id job);
    /* Seconds until the system that runs the jobs expects to start the job,
     * which has GPUs of the plan; 0: it runs, or that is not known. MAY be
     * NULL: jobs start at once. */
    double (*starts_in_s)(void *state, firn_job_id job);
    /* The jobs that are expected to start next, in that order. The engine may
     * start their processes before their GPUs are free, of jobs that can wait
     * (firn_launch.can_ahead); what it has prepared of other jobs it ends. MAY
     * be NULL: it prepares nothing. */
    void (*foresee)(void *state, const struct firn_foreseen *jobs, size_t n);
    /* Seconds since the processes of the job, which waits, were started in
     * advance; 0: they were not. MAY be NULL: it does not say. */
    double (*prepared_s)(void *state, firn_job_id job);
    /* Jobs that it prepares at a time at most. NULL: 0. */
    int (*prepares)(void *state);
};

/* The engines of this build that run real jobs, in the order of engines.def.
 */
FIRN_API const struct firn_engine_def *const *firn_engines(size_t *n);

/* FIRN_ENOENT in `err`, with the nearest known name, and NULL when there is
 * none. */
FIRN_API const struct firn_engine_def *firn_engine_find(const char *name,
                                                        struct firn_error *err);

FIRN_C_END

#endif
