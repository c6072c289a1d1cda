/* livejob.h - a job as the daemon knows it, from submit to its end.
 *
 * Policies see core's struct firn_job; this is the rest: its user and command,
 * its state and the reason for it, its attempts and its last report. Everything
 * here is on disk (daemon/store.h); the copy in memory is the same.
 */
#ifndef DAEMON_LIVEJOB_H
#define DAEMON_LIVEJOB_H
#include "core/jobfields.h"
#include <firn/job.h>
#include <firn/launch.h>
#include <firn/message.h>
#include <stdbool.h>
#include <stdint.h>

/* name in the API, has it finished */
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

/* Why a job is in its state. The API shows the name beside a sentence. */
#define LIVE_REASON_MAP(X)                                            \
    X(NONE, "none")                                                   \
    X(NEW, "new")               /* no round has seen it yet */        \
    X(CAPACITY, "capacity")     /* too few GPUs are free */           \
    X(FRAGMENTED, "fragmented") /* enough, but not together */        \
    X(MEMORY, "memory")         /* no free GPU has enough */          \
    X(TYPE, "type")             /* none of its types is free */       \
    X(PRIORITY, "priority")     /* others go first */                 \
    X(POLICY, "policy")         /* the policy's own words */          \
    X(HELD, "held")             /* by its user */                     \
    X(DRAINED, "drained")       /* nodes that it needs are */         \
    X(QUOTA, "quota")           /* its user or project is over one */ \
    X(SHARE, "share")           /* others have a larger claim */      \
    X(LEAVING, "leaving")       /* GPUs are being freed */            \
    X(ENGINE, "engine")         /* the engine is away */              \
    X(NEVER, "never")           /* the cluster has no such GPUs */    \
    X(RETRY, "retry")           /* after a failure */                 \
    X(OUT_OF_MEMORY, "out-of-memory")                                 \
    X(EXIT, "exit") /* its own status */                              \
    X(SIGNAL, "signal")                                               \
    X(USER, "user")         /* cancelled */                           \
    X(VANISHED, "vanished") /* its host or supervisor */

enum live_reason {
#define X(code, name) LIVE_BECAUSE_##code,
    LIVE_REASON_MAP(X)
#undef X
};
const char *live_reason_name(enum live_reason reason);
bool live_reason_named(const char *name, enum live_reason *out);

/* Who or what takes a job off its GPUs, by a decision that is not its own. */
#define LIVE_CAUSE_MAP(X)                                                     \
    X(POLICY, "policy")      /* the policy's decision */                      \
    X(SHARE, "share")        /* another user's or project's share */          \
    X(QUOTA, "quota")        /* its user or project is beyond a quota */      \
    X(ROOM, "consolidation") /* it is moved, to make room on a node */        \
    X(DRAIN, "drain")        /* its node is drained */                        \
    X(NODE, "node-down")     /* its node is down */                           \
    X(USER, "user")          /* its own user: cancel, hold */                 \
    X(OPERATOR, "operator")  /* another caller with that right */             \
    X(BOUNDS, "bounds")      /* its range of GPUs was changed */              \
    X(LIMIT, "time-limit")                                                    \
    X(IDLE, "idle")             /* it used no GPU: `idle.then: end` */        \
    X(DEPENDENCY, "dependency") /* a job that it waited for has failed */     \
    X(UNDONE, "undone")   /* sharing or a transfer did worse than expected */ \
    X(FOREIGN, "foreign") /* foreign processes took its GPUs */               \
    X(BACKEND, "backend") /* the backend refused or stopped it */             \
    X(PARTNER, "partner") /* the job that trained it left its GPUs */

enum live_cause {
    LIVE_CAUSE_NONE,
#define X(code, name) LIVE_CAUSE_##code,
    LIVE_CAUSE_MAP(X)
#undef X
};
/* "" for LIVE_CAUSE_NONE. */
const char *live_cause_name(enum live_cause cause);
/* LIVE_CAUSE_NONE for an unknown name. */
enum live_cause live_cause_named(const char *name);

/* The cause of a stop. */
struct live_stop {
    enum live_cause cause;
    firn_job_id for_job; /* the job that gets its GPUs; below 1: none */
};

enum { LIVE_TEXT = 256, LIVE_LAYERS = 256, LIVE_NAME_MAX = JOB_NAME_MAX };

/* What the user asked for, as read from a job file or options: a member for
 * each row of core/jobfields.def. Texts and lists are owned by the ask. A text
 * that was not given is "", a number 0. */
struct live_ask {
#define JOB_FIELD(member, kind, key, ...) job_c_##kind member;
#include "core/jobfields.def"
};
/* The member of a field. */
void *live_ask_member(const struct live_ask *ask, enum job_field_id id);
/* Texts and lists that are NULL become "" and the empty list. */
void live_ask_complete(struct live_ask *ask);
void live_ask_release(struct live_ask *ask);

struct live_job {
    firn_job_id id;
    struct live_ask ask;
    char *text;    /* the job file as it was sent, for `show` */
    char *request; /* id of the request that made it; "" for none */
    char token[65];
    double submitted_s, started_s, ended_s; /* since 1970; 0: not yet */
    enum live_state state;
    enum live_reason reason;
    char why[LIVE_TEXT];
    bool is_held;    /* not to be started */
    bool is_ending;  /* cancelled; its processes are being stopped */
    char *end_why;   /* by whom or for what it is cancelled; NULL: not known (it
                      * was cancelled before firnd was restarted) */
    int64_t attempt; /* number of the last attempt; 0: none */
    int nretries, exit_status;
    char gpu_type[FIRN_NAME_MAX]; /* that it keeps to, of one whose bits depend
                                   * on it; "": none yet, or any */
    char *held;          /* GPUs now, as firn_alloc_print has them; "-" */
    struct firn_how how; /* it is run on them; with ids of the book */
    struct firn_trainer_report last; /* its variance is `variance` */
    double *variance;                /* room for LIVE_LAYERS; NULL: none yet */
    double reported_s;               /* since 1970; 0: never */
    int64_t reported_attempt;        /* attempt that reported last */
    int64_t nreports;                /* on disk; 0: not counted yet */
    /* Of the last start whose processes were there before its GPUs were free:
     * how long before, and its first step's time after; 0: none, or another
     * firnd's. Not on disk. */
    double prepared_s, first_step_s;
    /* Token bucket of its reports: tokens and their time; see api_report.c. */
    double reports_left, reports_left_s;
    struct firn_orders orders; /* for its trainer */
    struct live_stop stop; /* why its attempt is being stopped; on disk with the
                            * attempt */
    int64_t anew; /* the attempt with which it began anew, without the weights
                   * of another job; 0: none. On disk by loop_guard.c */
    int start_frozen; /* layers to freeze at its next start; negative: as they
                       * were. Not on disk */
    unsigned char executors[FIRN_TYPES_MAX]; /* workers on a GPU, by type, at
                                              * its next start; 0: one. Not on
                                              * disk */
    /* Not on disk: book_ran_s() of book_attempt.c. */
    bool is_ran_known;
    double ran_s, ran_since_s; /* of attempts that ended; start of the open one,
                                * 0: none is */
};
/* Frees the job and everything it owns. */
void live_job_free(struct live_job *job);

#endif
