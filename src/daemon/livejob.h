/* livejob.h - a job as the daemon knows it, from submit to its end.
 *
 * core's struct firn_job is what policies see; this is the rest: who sent it,
 * what it runs, in which state and why, which epoch, what it last reported.
 * Everything here is on disk (daemon/store.h); the daemon's memory is a copy.
 */
#ifndef DAEMON_LIVEJOB_H
#define DAEMON_LIVEJOB_H
#include <firn/job.h>
#include <firn/launch.h>
#include <firn/message.h>
#include <stdbool.h>
#include <stdint.h>

/* name on the API, is it over */
#define LIVE_STATE_MAP(X)          \
    X(PENDING, "pending", 0)       \
    X(STARTING, "starting", 0)     \
    X(RUNNING, "running", 0)       \
    X(RESIZING, "resizing", 0)     \
    X(PREEMPTING, "preempting", 0) \
    X(COMPLETING, "completing", 0) \
    X(SUCCEEDED, "succeeded", 1)   \
    X(FAILED, "failed", 1)         \
    X(CANCELLED, "cancelled", 1)   \
    X(LOST, "lost", 1)

enum live_state {
#define X(code, name, over) LIVE_##code,
    LIVE_STATE_MAP(X)
#undef X
};
const char *live_state_name(enum live_state state);
bool live_state_is_over(enum live_state state);
/* False: no such name. */
bool live_state_named(const char *name, enum live_state *out);

/* Why a job is in its state: a closed list, one sentence each beside it. */
#define LIVE_REASON_MAP(X)                                      \
    X(NONE, "none")                                             \
    X(NEW, "new")               /* no round has seen it yet */  \
    X(CAPACITY, "capacity")     /* too few GPUs are free */     \
    X(FRAGMENTED, "fragmented") /* enough, but not together */  \
    X(MEMORY, "memory")         /* no free GPU has enough */    \
    X(TYPE, "type")             /* none of its types is free */ \
    X(PRIORITY, "priority")     /* others go first */           \
    X(POLICY, "policy")         /* the policy's own words */    \
    X(HELD, "held")             /* by its user */               \
    X(DRAINED, "drained")       /* nodes that it needs are */   \
    X(LEAVING, "leaving")       /* GPUs are being freed */      \
    X(ENGINE, "engine")         /* the engine is away */        \
    X(NEVER, "never")           /* no such GPUs here */         \
    X(RETRY, "retry")           /* after a failure */           \
    X(OUT_OF_MEMORY, "out-of-memory")                           \
    X(EXIT, "exit") /* its own status */                        \
    X(SIGNAL, "signal")                                         \
    X(USER, "user")         /* cancelled */                     \
    X(VANISHED, "vanished") /* its host or supervisor */

enum live_reason {
#define X(code, name) LIVE_BECAUSE_##code,
    LIVE_REASON_MAP(X)
#undef X
};
const char *live_reason_name(enum live_reason reason);
bool live_reason_named(const char *name, enum live_reason *out);

enum { LIVE_TEXT = 256, LIVE_LAYERS = 256, LIVE_NAME_MAX = 64 };

/* What the user asked for, as read from YAML or flags (daemon/jobfile.h). All
 * strings are owned by the ask. */
struct live_ask {
    char *name, *queue, *user, *app;
    int priority; /* 0..100 */
    char **argv, **env;
    char *workdir;
    int gpus_min, gpus_max; /* 0: a language model whose user did not say */
    char *types;            /* "a100|v100"; "" for any */
    bool may_share;
    char *model; /* JSON of a language model's shape; "" for none */
    int seq, batch;
    char *freeze;      /* rule; "" for no word */
    double freeze_max; /* share of layers; 0: no word */
    char *consistency; /* D0, D1, D2; "" for no word */
    int threads;
    char *base, *dataset, *objective; /* fine-tuning; "" for none */
    bool may_merge;
    char *ckpt_dir; /* "" for the job's own folder */
    double grace_s, ckpt_every_s;
    bool is_elastic, can_checkpoint, may_restart; /* from scratch */
    int retries_max;
    bool retry_on_failure, retry_on_lost;
    double duration_s; /* the user's guess; 0: none */
    double mem_gib;    /* on each GPU; 0: not known */
    double deadline_s; /* since the epoch; 0: none */
    uint64_t target_epochs, target_iterations;
    double target_metric; /* of its reports; 0: none */
    char *inbox;          /* firn_inbox.key of a job that came past us; "" for
                           * none. No file can say it */
};
void live_ask_release(struct live_ask *ask);

struct live_job {
    firn_job_id id;
    struct live_ask ask;
    char *text;    /* the job file as it was sent, for `show` */
    char *request; /* id of the request that made it; "" for none */
    char token[65];
    double submitted_s, started_s, ended_s; /* since the epoch; 0: not yet */
    enum live_state state;
    enum live_reason reason;
    char why[LIVE_TEXT];
    bool is_held;   /* not to be started */
    bool is_ending; /* cancelled; still there */
    int64_t epoch;  /* of the last start; 0: none */
    int nretries, exit_status;
    char gpu_type[FIRN_NAME_MAX]; /* that it keeps to, of one whose bits depend
                                   * on it; "": none yet, or any */
    char *held;          /* GPUs now, as firn_alloc_print has them; "-" */
    struct firn_how how; /* it is run on them; with ids of the book */
    struct firn_trainer_report last; /* its variance is `variance` */
    double *variance;                /* room for LIVE_LAYERS; NULL: none yet */
    double reported_s;               /* since the epoch; 0: never */
    int64_t reported_epoch;          /* of the start that it came from */
    int64_t nreports;                /* on disk; 0: not counted yet */
    /* How many reports it may send at once, at that moment; see api_report.c.
     */
    double reports_left, reports_left_s;
    struct firn_orders orders; /* what its trainer shall be told */
    /* Not on disk: book_ran_s() of book_attempt.c. */
    bool is_ran_known;
    double ran_s, ran_since_s; /* of attempts that ended; start of the open one,
                                * 0: none is */
};
/* With all that it owns. */
void live_job_free(struct live_job *job);

#endif
