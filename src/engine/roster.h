/* roster.h - the jobs that a live engine keeps, and what wakes it.
 *
 * What engines of processes have in common, wherever the processes are. For
 * each job there is what is wanted (`want`, from the last step) and what is
 * there (`held`, the epoch that has processes or may have). Everything moves
 * the second towards the first:
 *
 *     want      there      then
 *     GPUs      nothing    start, once all of them are free   QUEUED
 *     GPUs      other      ask it to leave                    LEAVING
 *     nothing   something  ask it to leave                    LEAVING
 *     same      same       watch                              STARTING, RUNNING
 *
 * How an epoch is started, asked to leave and looked at is the engine's own.
 * An engine's job begins with a struct rosterjob, so that a pointer to the one
 * is a pointer to the other.
 */
#ifndef ENGINE_ROSTER_H
#define ENGINE_ROSTER_H
#include "base/vec.h"
#include <firn/engine.h>
#include <firn/launch.h>

struct rosterjob {
    firn_job_id id;
    uint64_t turn; /* who is to be started first */
    enum firn_phase phase;
    struct firn_alloc want, held; /* parts owned; nparts 0: nothing */
    bool is_cancelled;
    bool is_planned; /* it was asked to leave, by a step or a cancel */
    bool was_forced; /* its time to leave had passed: we end it */

    /* Of the epoch that is there. */
    int64_t epoch;
    char *folder; /* the job's */
    double grace_s, began_s;
    bool can_checkpoint;
    bool has_run;   /* it was seen to run, by us or by a scheduler before us */
    bool is_unsure; /* a file of it could not be read; said in the log */
    int watch;      /* on its folder; -1: none */
    double until_s; /* LEAVING, and STARTING on this host: then it is forced */

    double again_s; /* QUEUED: not before */
    int ntries;     /* starts that came to nothing, in a row */
};

struct roster {
    VEC(struct rosterjob *) jobs; /* by id */
    VEC(struct firn_event) owed;
    size_t nowed_given;
    uint64_t turns;
    double offset_s;
    int poll, timer, notes; /* epoll, timerfd, inotify (-1: none) */
};

/* Its clock begins; nothing is watched yet. */
void roster_open(struct roster *r);
/* Jobs are dropped before. */
void roster_close(struct roster *r);
double roster_now_s(const struct roster *r);

/* --- jobs: roster.c, and roster_start.c --------------------------------------
 */

/* NULL: there is none. */
struct rosterjob *roster_find(const struct roster *r, firn_job_id id);
/* Finds it or adds one of `size` bytes, QUEUED, all zero behind its base. */
struct rosterjob *roster_add(struct roster *r, firn_job_id id, size_t size);
/* It leaves the list and is freed; its epoch is forgotten before. */
void roster_drop(struct roster *r, struct rosterjob *job);

/* These GPUs are wanted; others before have their turn before. */
void roster_want(struct roster *r, struct rosterjob *job,
                 const struct firn_alloc *gpus);
/* The same by a step, which also ends a back-off. True: what is there has to
 * leave for it. */
bool roster_move(struct roster *r, struct rosterjob *job,
                 const struct firn_alloc *gpus);
/* Nothing is wanted any more. True: what is there has to leave. False: there
 * was nothing, its end is told, and it is the engine's to drop. */
bool roster_unwant(struct roster *r, struct rosterjob *job,
                   enum firn_event_kind kind, enum firn_end end);

/* The host's word on a job that is to be taken over. */
enum firn_status roster_launch(const struct rosterjob *job,
                               const struct firn_engine_host *host,
                               struct firn_launch *out, struct firn_error *err);
/* Keeps what is needed of it while the epoch is there. */
void roster_enter(struct rosterjob *job, const struct firn_launch *launch);
/* An epoch that was there before us: held as wanted, STARTING. */
void roster_take_over(struct rosterjob *job, const struct firn_launch *launch);

struct launchfile;
/* What is the same of every launch file: the engine adds what it knows. */
void roster_launch_begin(const struct rosterjob *job,
                         const struct firn_launch *launch,
                         struct launchfile *out);
struct roster_file {
    const struct launchfile *file;
    bool is_far; /* on other hosts: told by words, with a lock for workers */
};
/* All that comes before a shepherd: the folder, the file, the fence. */
enum firn_status roster_prepare(struct rosterjob *job,
                                const struct firn_launch *launch,
                                const struct roster_file *how,
                                struct firn_error *err);

/* Its epoch, begun at `began_s`, is gone and it is still wanted: QUEUED, for a
 * while when it ended soon and by itself. */
void roster_requeue(struct roster *r, struct rosterjob *job, bool was_planned);

/* Not before a while, longer each time. */
void roster_again(struct roster *r, struct rosterjob *job, const char *why);

/* A file of its epoch ("": its folder) could not be read, for this errno. Says
 * so once; roster_sure() ends it. Nothing is decided in between. */
void roster_unsure(struct rosterjob *job, const char *file, int error);
void roster_sure(struct rosterjob *job);

/* What keeps GPUs from being given out, besides epochs that hold them. */
struct roster_limits {
    int jobs_per_gpu; /* of those that share */
    /* Do others use one of these? NULL: nobody does. */
    bool (*is_taken)(const void *engine, const struct firn_alloc *gpus);
    const void *engine;
};

/* Whose turn it is, of those whose GPUs are all free; NULL: nobody's. */
struct rosterjob *roster_next_to_start(const struct roster *r,
                                       const struct roster_limits *limits);
/* Does an epoch hold this GPU of the part's board? */
bool roster_is_held(const struct roster *r, const struct firn_part *part,
                    uint64_t bit);

/* --- events --------------------------------------------------------------- */

void roster_tell(struct roster *r, struct firn_event event);
/* One of these, of the job and its epoch. */
void roster_tell_end(struct roster *r, const struct rosterjob *job,
                     enum firn_event_kind kind, enum firn_end end);
/* Enters a phase and says so. */
void roster_phase(struct roster *r, struct rosterjob *job,
                  enum firn_phase phase);
bool roster_owes(const struct roster *r);

/* --- waking: roster_wake.c ------------------------------------------------ */

/* `also`: a descriptor that wakes us too; -1: none. `what` is for the sentence
 * of a failure. */
enum firn_status roster_wake_open(struct roster *r, int also, const char *what,
                                  struct firn_error *err);
bool roster_wake_add(const struct roster *r, int fd);
/* Reads away what made it readable. True: something happened in a folder. */
bool roster_wake_drain(const struct roster *r);
/* When a job without an epoch is to be looked at; INFINITY: never. */
double roster_due_s(const struct rosterjob *job, double now_s);
/* Sets the timer, for now if an event is owed. */
void roster_wake_arm(const struct roster *r, double now_s, double due_s);
/* Watches its epoch's folder, for files that get a name. */
void roster_watch(const struct roster *r, struct rosterjob *job);
void roster_unwatch(const struct roster *r, struct rosterjob *job);

/* What an engine does in its turn, and how it sets the timer. */
struct roster_work {
    void (*turn)(void *engine);
    void (*arm)(void *engine);
    void *engine;
};

/* The engine's next(): an event that is owed, after as many turns as it takes
 * until then. */
bool roster_next(struct roster *r, const struct roster_work *work,
                 double until_s, struct firn_event *out);

#endif
