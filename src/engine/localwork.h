/* localwork.h - the local engine's state, shared by its files.
 *
 * For each job there is what is wanted (`want`, from the last step) and what is
 * there (`held`, the epoch that has processes or may have). Everything moves
 * the second towards the first:
 *
 *     want      there      then
 *     GPUs      nothing    start, once all of them are free   QUEUED
 *     GPUs      other      ask it to leave                    LEAVING
 *     nothing   something  ask it to leave                    LEAVING
 *     same      same       watch                              STARTING, RUNNING
 */
#ifndef ENGINE_LOCALWORK_H
#define ENGINE_LOCALWORK_H
#include "engine/gpus.h"
#include <firn/engine.h>
#include <sys/types.h>

struct localjob {
    firn_job_id id;
    uint64_t turn; /* who is to be started first */
    enum firn_phase phase;
    struct firn_alloc want, held; /* parts owned; nparts 0: nothing */
    bool is_cancelled;
    bool is_planned; /* it was asked to leave, by a step or a cancel */
    bool was_forced; /* we killed its tree ourselves */

    /* Of the epoch that is there. */
    int64_t epoch;
    char *folder; /* the job's */
    double grace_s, began_s;
    bool can_checkpoint;
    pid_t pid; /* its shepherd; 0: not known yet */
    uint64_t start;
    int pidfd;        /* -1: none */
    bool is_over;     /* the shepherd is */
    bool owes_signal; /* asked to leave before its shepherd was known */
    int watch;        /* on its folder; -1: none */
    double until_s;   /* STARTING, LEAVING: then it is forced */

    double again_s; /* QUEUED: not before */
    int ntries;     /* starts that came to nothing, in a row */
};

/* A board of the driver's GPUs, and who else is on it: local_others.c. */
struct localboard {
    struct firn_part taken; /* by others, as the host was told */
    uint64_t seen;          /* at the last look, even if not for sure */
};

struct local {
    char spec[FIRN_TEXT_MAX], shepherd[FIRN_TEXT_MAX];
    int cage;
    double force_s; /* after both graces */
    double every_s; /* between looks for others */
    struct gpus gpus;
    struct firn_engine_host host;
    VEC(struct localjob *) jobs;   /* by id */
    VEC(struct localboard) boards; /* none without a driver */
    double others_s;               /* the next look for others */
    VEC(struct firn_event) owed;
    size_t nowed_given;
    uint64_t turns;
    double offset_s;
    int poll, timer, notes; /* epoll, timerfd, inotify (-1: none) */
};

double local_now_s(const struct local *l);

/* Jobs: local.c. */
struct localjob *local_find(const struct local *l, firn_job_id id);
void local_tell(struct local *l, struct firn_event event);
/* Enters a phase and says so. */
void local_phase(struct local *l, struct localjob *job, enum firn_phase phase);

/* Starting: local_start.c. True: it was started, or failed for good (owed). */
bool local_start(struct local *l, struct localjob *job);
/* Not before a while, longer each time. */
void local_again(struct local *l, struct localjob *job, const char *why);
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
/* The job leaves the list. */
void local_drop(struct local *l, struct localjob *job);

/* Who else uses the driver's GPUs: local_others.c. */
void local_others_open(struct local *l);
/* Tells what has changed. */
void local_others_look(struct local *l);
/* Before a start: is somebody else there? What is sure of it is told. */
bool local_others_are_on(struct local *l, const struct firn_alloc *want);

/* Waking: local_wake.c. */
enum firn_status local_wake_open(struct local *l, struct firn_error *err);
void local_wake_close(struct local *l);
/* Reads away what made it readable. */
void local_wake_drain(struct local *l);
/* Sets the timer for the next thing that is due. */
void local_wake_arm(struct local *l);
void local_wait(struct local *l, double until_s);
void local_watch_epoch(struct local *l, struct localjob *job);
void local_watch_pid(struct local *l, struct localjob *job);
void local_unwatch(struct local *l, struct localjob *job);

#endif
