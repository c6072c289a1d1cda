/* launch.h - what a live engine needs to run a job, beyond its spec.
 *
 * The simulator runs jobs by their spec alone. An engine with real processes
 * asks its host (the daemon) for the rest: command, environment, folders. Each
 * attempt to run a job has a number, one above all earlier ones of the job. It
 * is on the host's disk before a process gets it; a process of an older attempt
 * cannot start any more, and its reports are ignored.
 */
#ifndef FIRN_LAUNCH_H
#define FIRN_LAUNCH_H
#include <firn/job.h>
#include <stdint.h>

FIRN_C_BEGIN

/* The other job of a merge (firn/task.h): trained by the same processes. */
struct firn_launch_mate {
    firn_job_id job;
    int64_t attempt; /* number of its own attempt, which its reports name */
    const char *name;
    const char *const *argv; /* the command that runs it alone */
    const char *dataset;     /* as its job file names it */
    const char *ckpt;        /* where its checkpoints are, and are to go */
    const char *token;       /* for reports in its name */
    int threads;             /* as below */
    double freeze_max;       /* as below */
    double target_metric;    /* as below */
};

/* Borrowed from the host until the next call of `launch`. */
struct firn_launch {
    const char *name;
    const char *const *argv; /* ends with NULL; no shell sees it */
    const char *const *env;  /* "NAME=value", ends with NULL; on top of the
                                engine's own and of FIRN_*, torchrun's */
    const char *workdir;
    const char *folder;    /* of its control files, absolute: attempts, locks.
                              The job is not given its path */
    const char *log;       /* standard output and error go there, appended */
    int64_t log_max_bytes; /* the newest of it that are kept; 0: all */
    const char *url;       /* where trainers report; "" for nowhere */
    const char *token;     /* that they show; of this job alone */
    const char *ckpt;      /* folder of checkpoints; "" for none */
    const char *freeze;    /* off, penalty, freezeout; "": not set */
    double freeze_max;     /* share of layers that may be frozen; 0: not set */
    double target_metric;  /* that ends its training; 0 or less: not set */
    double ckpt_every_s;   /* seconds between its checkpoints; 0: not set */
    int threads;           /* elastic threads; 0: one a GPU */
    int gpus_max;          /* it never gets more GPUs; 0: not known */
    double grace_s;      /* from the request to checkpoint to SIGTERM, and from
                            there to SIGKILL; of two co-trained jobs the
                            longer one */
    bool can_checkpoint; /* answers SIGUSR1 with FIRN_EXIT_CHECKPOINT */
    bool is_per_node;    /* one process a node, not one a GPU */
    bool can_join;       /* processes may join and leave while it trains */
    const char *inbox;   /* firn_inbox.key of a job that the engine has already
                            and only has to let go; "" for ours */
    const struct firn_launch_mate *mate; /* the co-trained job; NULL: none */
    const char *after; /* checkpoints of the ended job whose weights it starts
                          from; "" for none */
    firn_job_id after_job; /* which one that is */
    int64_t anew; /* the first attempt that counts: checkpoints of earlier ones
                     are removed by the trainer; 0: all count */
    const char *trouble; /* why it cannot be started now, such as a folder that
                            could not be made; NULL: it can */
    bool has_run;      /* of a job that is taken over: its last attempt was seen
                          running, so it is not started again when its files are
                          gone */
    const char *model; /* JSON: shape of its language model; "": none */
    const char *precision; /* how the model trains; these four as in the job
                              file, "" where it does not say */
    const char *optimizer;
    const char *attention;
    const char *checkpointing;
    int batch; /* samples of a step over all GPUs: ordered, or of the job file
                  if it has a model; 0: not set */
    const char *batch_rule; /* of the learning rate; "" or NULL: not set */
    int frozen; /* layers to freeze at this start; negative: not set */
    const char *const *settings; /* "FIRN_LOSS=fused", ...: what else the job
                                    file says of its model, ends with NULL; or
                                    NULL */
    const int *executors; /* workers on each GPU, by GPU type of the cluster;
                             NULL: one */
    const char *user;     /* that submitted the job; NULL: not known */
    /* For an engine on another scheduler (Slurm), checked: further options of
     * the command that submits the job, and of the one that starts its workers,
     * each list ended by NULL; or NULL. */
    const char *const *submit_options, *const *step_options;
    double attempt_limit_s; /* time limit of an attempt; 0: not set */
    const char *constraint; /* features of its nodes; "" or NULL: none */
    int gpus_min;           /* it does not start with fewer; 0: not known */
    bool can_ahead; /* its processes may be started before its GPUs are free:
                     * they wait for them (firn/ahead.h) */
};

struct firn_engine_host {
    void *arg;
    /* Letters and digits, drawn once for a state folder, that all processes of
     * its jobs have in their environment (engine/herd.h). NULL: none. */
    const char *mark;
    /* False: no such job any more. */
    bool (*launch)(void *arg, firn_job_id job, struct firn_launch *out);
    /* The number of the next attempt. No process may get it before `keep` has
     * returned FIRN_OK. */
    enum firn_status (*next_attempt)(void *arg, firn_job_id job,
                                     int64_t *attempt, struct firn_error *err);
    /* All numbers given out so far are on disk when this returns FIRN_OK: one
     * commit for all jobs that start together. Otherwise those given out since
     * the last call are void, and the host has ended their attempts. NULL: a
     * number is on disk when `next_attempt` returns. */
    enum firn_status (*keep)(void *arg, struct firn_error *err);
};

/* Where an attempt of a job is. */
enum firn_phase {
    FIRN_PHASE_QUEUED,   /* to be started once its GPUs are really free */
    FIRN_PHASE_STARTING, /* asked for, not seen running */
    FIRN_PHASE_RUNNING,
    FIRN_PHASE_LEAVING, /* asked to checkpoint, or to end; still there */
    FIRN_PHASE_GONE     /* has ended, or there is none */
};

/* Why and how an attempt ended. */
enum firn_end {
    FIRN_END_DONE,       /* status 0 */
    FIRN_END_CHECKPOINT, /* left as it was asked to, to be resumed */
    FIRN_END_FAILED, /* another status, or a signal that firn did not send */
    FIRN_END_KILLED, /* by us, after its grace */
    FIRN_END_MEMORY, /* out of memory, of the GPU or of the host */
    FIRN_END_LOST    /* its host or its supervisor is gone */
};

FIRN_C_END

#endif
