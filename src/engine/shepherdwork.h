/* shepherdwork.h - a shepherd's state, shared by its files.
 */
#ifndef ENGINE_SHEPHERDWORK_H
#define ENGINE_SHEPHERDWORK_H
#include "engine/cage.h"
#include "engine/epochfiles.h"
#include "engine/launchfile.h"
#include <signal.h>

enum shepherd_stage {
    STAGE_RUNNING,
    STAGE_ASKED, /* to write a checkpoint */
    STAGE_ENDED, /* SIGTERM was sent to all */
    STAGE_KILLED /* SIGKILL is sent until nobody is left */
};

struct herded {
    pid_t pid;
    bool is_over, was_asked;
};

struct shepherd {
    struct launchfile launch;
    pid_t self;
    int folder, above, lock, log, signals;
    off_t log_start;
    struct cage cage;
    struct herded *workers;
    int nleft; /* workers still there */
    enum shepherd_stage stage;
    double until_s; /* the stage's end */
    bool has_checkpoint;
    int bad_status;   /* of the first that failed by itself; -1: none */
    int ended_status; /* of the first that our signals ended; -1: none */
    uint64_t ooms;    /* of the whole system, at the start */
};

/* A remark into the job's log: "firn: ...". */
void shepherd_say(const struct shepherd *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Starts all workers; one that cannot be started has failed. */
void shepherd_start(struct shepherd *s);

/* A worker's end, by a status as wait() has it. */
void shepherd_note(struct shepherd *s, struct herded *worker, int status);
/* SIGTERM to all, then `grace_s`. */
void shepherd_end(struct shepherd *s, double grace_s);

/* The kernel's count of processes killed for want of memory. */
uint64_t shepherd_ooms(void);
/* How it all ended. */
struct epoch_exit shepherd_verdict(const struct shepherd *s);

#endif
