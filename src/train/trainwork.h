/* trainwork.h - what the files of a training session share.
 *
 *   train.c         the loop, closing
 *   train_open.c    opening, and what all files ask of a session
 *   train_env.c     what the environment says
 *   train_decide.c  variances, decisions, reports
 *   train_batch.c   another batch, by order
 *   train_save.c    checkpoints and resuming
 *   train_layers.c  layers that are not one behind the other
 *   train_join.c    a resize without a stop
 *   mate.c          two sessions that take turns
 *
 * Words: a step is ordinary, or extra (owed for frozen layers); `ordinary`
 * counts the first kind and makes the epochs, `step` counts both. A pulse is
 * what the processes tell each other at the end of each step: losses, and
 * what they were ordered.
 */
#ifndef TRAIN_TRAINWORK_H
#define TRAIN_TRAINWORK_H
#include <firn/ahead.h>
#include <firn/join.h>
#include <firn/train.h>

enum {
    TRAIN_NAME = 128,
    TRAIN_MESSAGES = 1024,
    TRAIN_USES_RATE = 1 << 16 /* behind FIRN_CAN_*: calls firn_train_rate() */
};

#define TRAIN_SQUARES "firn-squares" /* a part of every thread */

struct train_env {
    char name[TRAIN_NAME];
    char group_name[2 * TRAIN_NAME + 32];
    const char *dir, *key, *address;
    int rank, nprocs, local_rank, local_nprocs, port, nthreads, passes;
    int *owner; /* of each thread; NULL: even */
    enum firn_freezer_rule rule;
    double frozen_max; /* a share of the layers; 0: not set */
    double every_s;    /* between checkpoints; 0: not set */
    int anew;          /* FIRN_ANEW; 0: not set */
    double target;     /* metric that ends the training; 0: none */
    double timeout_s;  /* to wait for a process; 0: the group's own */
    enum firn_sum sum;
    int batch;  /* samples of a step; 0: not set */
    int frozen; /* layers to freeze at the start; negative: not set */
    enum firn_batch_rule batch_rule;
};

struct train_shared {
    char *name;
    enum firn_ckpt_type type;
    void *data;
    size_t nbytes;
};

/* One process's; the losses of all threads stand behind it. */
struct train_pulse {
    int32_t stop;            /* ordered, or signalled to this process */
    int32_t nfrozen, passes; /* process 0: ordered; negative: none */
    int32_t save;            /* process 0: a checkpoint is due by its clock */
    int32_t batch;           /* process 0: ordered; negative: none */
    uint64_t resize;         /* process 0: the order to switch; 0: none */
};

enum train_state {
    TRAIN_RUNS,
    TRAIN_DONE,
    TRAIN_STOPPED,
    TRAIN_FAILED,
    TRAIN_LEFT /* the others go on without this process */
};

struct firn_train {
    char *name, *dir;
    int rank, nprocs, nthreads;
    size_t nlayers, nelements;
    size_t *layer_start;
    struct firn_train_range *range; /* by layer; NULL: one behind the other */
    size_t nranges;
    float *packed;     /* with ranges: a gradient, layer by layer */
    enum firn_sum sum; /* asked for by config or environment */
    uint64_t nepochs, steps_per_epoch, every_steps;
    unsigned keep;
    int report_every;

    struct firn_group *group;
    struct firn_threads *threads;
    struct firn_freezer *freezer;
    struct firn_reporter *reporter;
    struct firn_join *join; /* NULL: resized by a restart */
    char *group_name;       /* of the attempt: of all groups of it */
    bool is_chain;          /* little memory: config */
    double timeout_s;
    bool joins;     /* it waits to join: its group is only planned */
    bool is_joined; /* at this boundary: the others were here before it */
    struct train_shared *shared;
    size_t nshared;
    const int *mine; /* this process's threads, the group's */
    size_t nmine;

    uint64_t step, ordinary;
    unsigned due;     /* extra steps before the next ordinary one */
    uint64_t decided; /* 1 + the step of the last decision at an epoch's end */
    uint64_t saved;   /* 1 + the step of the last checkpoint */
    uint64_t nsaves;  /* checkpoints written */
    double saved_s;   /* when one was last tried, or training began */
    double every_s;   /* FIRN_CKPT_EVERY_S; 0: not set */
    bool is_finished; /* by the trainer, before its epochs are over */
    bool is_paired;   /* one of two that take turns: mate.c */
    uint64_t both[2]; /* steps of both, as the next checkpoint says */

    struct firn_sampler sampler; /* nthreads 0: none; `batch` is that of now */
    int batch0;                  /* of one thread, as submitted */
    uint64_t base_epoch, base_ordinary; /* epochs and ordinary steps done when
                                           the batch last changed */
    enum firn_batch_rule batch_rule;
    int batch_asked;    /* FIRN_BATCH; 0: not set */
    int frozen_asked;   /* FIRN_FROZEN, until it is obeyed; negative: none */
    double mean_square; /* of the mean gradient in the last epoch; with several
                           threads */

    bool in_step, inside;
    size_t turn; /* of mine, next to enter */
    enum train_state state;
    struct firn_error err;

    size_t pulse_bytes;
    unsigned char *pulse, *pulses; /* own; of all processes */
    bool has_pulse, stop;
    struct train_pulse word; /* process 0's orders */
    int passes_asked;        /* FIRN_PASSES; 0: not set */
    double target;           /* of the metric: the training ends; 0: none */
    double loss, metric, effective;

    bool measures; /* gradient variance; the same in all processes */
    bool decides;  /* by a rule or a replay */
    bool replays;
    double *squares;  /* of the thread inside, by layer; a part */
    double *meansq;   /* of the mean; V = 1: of successive differences */
    double *variance; /* process 0: of the last epoch */
    bool has_variance, has_before;
    float *before; /* V = 1: the mean of the step before */
    uint64_t nmeasured;

    struct firn_steptimes times, recent; /* since the last decision, report */
    double present_s[FIRN_STEP_NPARTS];  /* of the present step */
    double entered_s, compute_s, reduced_s, switched_s;
    double reported_s;      /* paired: when it last reported, */
    uint64_t reported_step; /* and at which step */
    unsigned *used;    /* FIRN_CAN_*: what the program was seen to call for; its
                        * own memory, as readers of a const session write it */
    int can;           /* as the program says; negative: it does not */
    uint64_t said_can; /* 1 + the step whose report first had it; 0: none */
    double probe[FIRN_MESSAGE_EMBEDDING]; /* squared gradients: probe.c */
    int nprobed;       /* gradients in it; negative: none are taken */
    int anew;          /* FIRN_ANEW: see firn_ckpt_anew(); 0: not set */
    double prepared_s; /* from the process's start to its first step; 0: none */
    char messages[TRAIN_MESSAGES];
};

/* --- ahead.c --- */

/* Waits for the GPUs in a process that was started early and has not waited
 * yet; false: it has nothing to wait for. */
bool firn_ahead_pass(void);
/* When they came, by CLOCK_MONOTONIC; 0: it was not started early. */
double firn_ahead_opened_s(void);

/* --- train_env.c --- */

/* Fills `env` from the config and the environment. owner is to be freed. */
enum firn_status firn_train_env(struct train_env *env,
                                const struct firn_train_config *c,
                                struct firn_error *err);

/* --- train_open.c --- */

void firn_train_release(struct firn_train *t);
double firn_train_now_s(void);
/* Adds a line to the session's messages. */
void firn_train_say(struct firn_train *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The program called for this: it can do it. */
void firn_train_uses(const struct firn_train *t, unsigned can);
/* What firn_train_start() and firn_train_passes() return; a call by the library
 * is no sign that the program obeys. */
size_t firn_train_first(const struct firn_train *t);
/* Has a sampler: its batch can be changed. */
bool firn_train_has_sampler(const struct firn_train *t);
/* Brings steps and epochs to the batch that was decided last, if it is new. */
void firn_train_rebatch(struct firn_train *t);
unsigned firn_train_npasses(const struct firn_train *t);

/* --- train_batch.c --- */

/* The total batch that is to be decided at this boundary; 0: none. The same in
 * all processes. */
int firn_train_batch_due(const struct firn_train *t);
/* The learning rate that goes with it, in millionths; process 0. */
int firn_train_rate_due(const struct firn_train *t, int batch);

/* --- mate.c --- */

/* Has the program asked for a partner in this process? */
bool firn_mate_is_asked(void);

/* --- train.c --- */

bool firn_train_is_done(const struct firn_train *t);
/* Keeps the first failure. */
void firn_train_fail(struct firn_train *t, const struct firn_error *err);

/* --- train_decide.c --- */

/* A gradient was handed in; the mean is there. */
void firn_train_measure(struct firn_train *t, const float *grad);

/* --- probe.c -------------------------------------------------------------- */

/* Takes one of the first gradients into the task's embedding. */
void firn_train_probe(struct firn_train *t, const float *grad);
/* The weights are not those that all jobs of the base begin with. */
void firn_train_unprobe(struct firn_train *t);
/* The embedding, if it is complete. */
void firn_train_probed(const struct firn_train *t,
                       struct firn_trainer_report *report);

void firn_train_measure_mean(struct firn_train *t, const float *mean);
/* The present step's times are complete. */
void firn_train_time_step(struct firn_train *t);
/* Takes the decisions that are due at this boundary, and sends them to all.
 * *decided: something was logged. */
enum firn_status firn_train_decide(struct firn_train *t, bool *decided,
                                   struct firn_error *err);
void firn_train_report(struct firn_train *t);
bool firn_train_at_epoch(const struct firn_train *t);

/* --- train_layers.c --- */

/* Checks layer_start or the ranges of a config. */
enum firn_status firn_train_check_layers(const struct firn_train_config *c,
                                         struct firn_error *err);
/* t->layer_start (room is there) and t->range; false: no memory. */
bool firn_train_place_layers(struct firn_train *t,
                             const struct firn_train_config *c);
/* The gradient of a thread, layer by layer: `grad` itself without ranges. */
const float *firn_train_pack(struct firn_train *t, int thread,
                             const float *grad);
/* Where the mean is to be written, layer by layer; then, of those not frozen,
 * from there into `mean`. */
float *firn_train_packed(struct firn_train *t, float *mean);
void firn_train_unpack(const struct firn_train *t, float *mean);

/* --- train_join.c --- */

/* The group that a process will be in once it has joined. */
enum firn_status firn_train_plan_group(struct firn_train *t,
                                       const struct firn_group_config *group,
                                       struct firn_error *err);
/* Joins the running group and takes over its state. */
enum firn_status firn_train_join(struct firn_train *t, struct firn_error *err);
/* Can this session be resized without a stop? */
bool firn_train_can_join(const struct firn_train *t);
/* Collective, between two steps: the switch to the layout of this order, or
 * none. FIRN_EIO: the group is broken. */
enum firn_status firn_train_switch(struct firn_train *t, uint64_t order,
                                   struct firn_error *err);

/* --- train_open.c --- */

/* Process 0 speaks to the scheduler; all listen to SIGUSR1. */
enum firn_status firn_train_open_reporter(struct firn_train *t,
                                          const struct firn_mate *as,
                                          struct firn_error *err);

/* --- train_save.c --- */

/* Collective. FIRN_EIO from the group is final; when the file cannot be
 * written, *written is false in all processes and `err` of process 0 says
 * why. */
enum firn_status firn_train_save(struct firn_train *t, bool *written,
                                 struct firn_error *err);
/* Resumes from the checkpoint of this step, if it exists and is complete. */
enum firn_status firn_train_resume_at(struct firn_train *t, uint64_t step,
                                      bool *found, struct firn_error *err);

#endif
