/* localwork.h - the local engine's state, shared by its files.
 *
 * What is wanted and what is there of each job is in its base
 * (engine/roster.h); here is what an epoch on this host has besides: a shepherd
 * that is a process of ours to see.
 */
#ifndef ENGINE_LOCALWORK_H
#define ENGINE_LOCALWORK_H
#include "engine/gpus.h"
#include "engine/procs.h"
#include "engine/roster.h"
#include <sys/types.h>

struct localjob {
    struct rosterjob base;

    /* Of the epoch that is there. */
    pid_t pid; /* its shepherd; 0: not known yet */
    uint64_t start;
    int pidfd;                /* -1: none */
    bool is_over;             /* the shepherd is */
    bool owes_signal;         /* asked to leave before its shepherd was known */
    struct procs_seen strays; /* killed when it had no shepherd any more */
    double scan_s;            /* not before, strays are looked for again ... */
    double scan_wait_s;       /* ... and so much later the next time */
};

/* A board of the driver's GPUs, and who else is on it: local_others.c. */
struct localboard {
    struct firn_part taken; /* by others, as the host was told */
    uint64_t seen;          /* at the last look, even if not for sure */
};

struct local {
    char spec[FIRN_TEXT_MAX], shepherd[FIRN_TEXT_MAX];
    char pass_env[FIRN_TEXT_MAX]; /* engine/passenv.h */
    int cage;
    double force_s; /* after both graces */
    double every_s; /* between looks for others */
    struct gpus gpus;
    struct firn_engine_host host;
    struct roster roster;          /* its jobs */
    VEC(struct localboard) boards; /* none without a driver */
    double others_s;               /* the next look for others */
};

static inline double local_now_s(const struct local *l)
{
    return roster_now_s(&l->roster);
}

/* Starting: local_start.c. True: it was started, or failed for good (owed). */
bool local_start(struct local *l, struct localjob *job);
/* Before it: no process of the host is of this job. Those that are, of attempts
 * which are over for all that files say, are killed, and the job waits. */
struct herd;
bool local_is_alone(struct local *l, struct rosterjob *job,
                    const struct herd *herd);
/* What the workers are told, by engine/workerenv.h. */
struct launchfile;
void local_variables(const struct local *l, const struct localjob *job,
                     const struct firn_launch *launch, struct launchfile *out);

/* An epoch's life: local_epoch.c. */
void local_leave(struct local *l, struct localjob *job);
/* Looks how it is; the job may be gone afterwards. */
void local_look(struct local *l, struct localjob *job);
/* Takes over what is in the folder. */
enum firn_status local_take_over(struct local *l, struct localjob *job,
                                 struct firn_error *err);
void local_forget_epoch(struct local *l, struct localjob *job);
/* The job leaves the roster. */
void local_drop(struct local *l, struct localjob *job);

/* Who else uses the driver's GPUs: local_others.c. */
void local_others_open(struct local *l);
/* Tells what has changed. */
void local_others_look(struct local *l);
/* Before a start: is somebody else there? What is sure of it is told. */
bool local_others_are_on(struct local *l, const struct firn_alloc *want);

/* Waking: local_wake.c. */
/* Sets the timer for the next thing that is due. */
void local_wake_arm(struct local *l);
void local_watch_pid(struct local *l, struct localjob *job);
void local_unwatch_pid(struct localjob *job);
void local_unwatch(struct local *l, struct localjob *job);

#endif
