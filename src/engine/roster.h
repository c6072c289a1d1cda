/* roster.h - the jobs of a live engine, and what wakes it.
 *
 * Shared by engines that start processes, here or elsewhere. Each job has what
 * is wanted (`want`, by the last step) and what it holds (`held`, the GPUs of
 * the attempt that has processes or may have). The engine moves the second
 * towards the first:
 *
 *     want      held       then
 *     GPUs      nothing    number, once all GPUs are free  QUEUED
 *     same      same       numbered: launch                QUEUED
 *     GPUs      others     ask the attempt to leave        LEAVING
 *     nothing   GPUs       ask the attempt to leave        LEAVING
 *     same      same       watch                           STARTING, RUNNING
 *
 * A start has two parts. All jobs whose GPUs are free get their attempts'
 * numbers together, which the host writes in one commit; then each is launched.
 * A job that is numbered and not launched has no process, so a step or a cancel
 * that comes in between takes the number back at once, and the attempt ends as
 * LOST.
 *
 * How an attempt is launched, asked to leave and watched is up to the engine.
 * An engine's job struct begins with a struct rosterjob, so a pointer to one is
 * a pointer to the other.
 */
#ifndef ENGINE_ROSTER_H
#define ENGINE_ROSTER_H
#include "base/vec.h"
#include <firn/engine.h>
#include <firn/launch.h>

struct rosterjob {
    firn_job_id id;
    uint64_t turn; /* the lowest is started first */
    enum firn_phase phase;
    struct firn_alloc want, held; /* parts owned; nparts 0: nothing */
    bool is_cancelled;
    bool is_planned; /* asked to leave, by a step or a cancel */
    bool was_forced; /* its time to leave had passed: the engine kills it */

    /* The current attempt. */
    int64_t attempt;
    bool is_numbered; /* on the host's disk, not launched yet */
    bool is_fresh;    /* its number is not on disk: roster_number() */
    char *folder;     /* the job's */
    double grace_s, began_s;
    double prepared_s; /* it was started this long before it had its GPUs */
    bool can_checkpoint;
    bool has_run;   /* seen running, by this firnd or an earlier one */
    bool is_unsure; /* one of its files could not be read; logged */
    int watch;      /* inotify watch on its folder; -1: none */
    bool is_noted;  /* a file appeared in its folder: roster_wake_drain() */
    double until_s; /* LEAVING, and STARTING on this host: killed then */

    double again_s; /* QUEUED: not started before */
    int ntries;     /* starts in a row that came to nothing */
};

struct roster {
    VEC(struct rosterjob *) jobs;  /* by id */
    VEC(struct firn_event) events; /* not yet returned, from `nreported` on */
    size_t nreported;
    uint64_t turns;
    double offset_s;
    int poll, timer, notes; /* epoll, timerfd, inotify (-1: none) */
};

/* Starts the clock; nothing is watched yet. */
void roster_open(struct roster *r);
/* Call after all jobs were dropped. */
void roster_close(struct roster *r);
double roster_now_s(const struct roster *r);

/* --- jobs: roster.c ------------------------------------------------------ */

/* NULL: no such job. */
struct rosterjob *roster_find(const struct roster *r, firn_job_id id);
/* Finds the job or adds one of `size` bytes: QUEUED, zero behind its base. */
struct rosterjob *roster_add(struct roster *r, firn_job_id id, size_t size);
/* Removes and frees the job. Call after its attempt was forgotten. */
void roster_drop(struct roster *r, struct rosterjob *job);

/* Sets the wanted GPUs; jobs that wanted GPUs before have their turn before. */
void roster_want(struct roster *r, struct rosterjob *job,
                 const struct firn_alloc *gpus);
/* The same for a step, which also ends a back-off. True: the current attempt
 * has to leave. */
bool roster_move(struct roster *r, struct rosterjob *job,
                 const struct firn_alloc *gpus);
/* Nothing is wanted any more. True: the current attempt has to leave. False:
 * there is none, the end was reported, and the engine drops the job. */
bool roster_unwant(struct roster *r, struct rosterjob *job,
                   enum firn_event_kind kind, enum firn_end end);

/* Asks the host how to launch a job that is taken over. */
enum firn_status roster_launch(const struct rosterjob *job,
                               const struct firn_engine_host *host,
                               struct firn_launch *out, struct firn_error *err);
/* Copies from the launch what is needed while the attempt lives. */
void roster_enter(struct rosterjob *job, const struct firn_launch *launch);
/* Takes over an attempt of an earlier firnd: held as wanted, STARTING. */
void roster_take_over(struct rosterjob *job, const struct firn_launch *launch);

/* The attempt is gone and the job is still wanted: QUEUED, after a wait if the
 * attempt ended soon and unasked. */
void roster_requeue(struct roster *r, struct rosterjob *job, bool was_planned);
/* Starts the job later; each call doubles the wait. */
void roster_retry(struct roster *r, struct rosterjob *job, const char *why);

/* A file of the attempt ("": its folder) could not be read, with this errno.
 * Logged once; nothing is decided until roster_sure(). */
void roster_unsure(struct rosterjob *job, const char *file, int error);
void roster_sure(struct rosterjob *job);

/* What keeps GPUs from being given out, besides attempts that hold them. */
struct roster_limits {
    int jobs_per_gpu; /* of jobs that share */
    /* Do foreign jobs use one of these GPUs? NULL: never. */
    bool (*is_taken)(const void *engine, const struct firn_alloc *gpus);
    const void *engine;
};

/* The next job to start, among those whose GPUs are all free; NULL: none. */
struct rosterjob *roster_next_to_start(const struct roster *r,
                                       const struct roster_limits *limits);
/* The next job to launch, among those with a number; NULL: none. */
struct rosterjob *roster_next_to_launch(const struct roster *r);
/* An attempt holds this GPU of the part's board. */
bool roster_is_held(const struct roster *r, const struct firn_part *part,
                    uint64_t bit);

/* --- events: roster.c ---------------------------------------------------- */

void roster_report(struct roster *r, struct firn_event event);
/* Reports the end of the job's attempt. */
void roster_report_end(struct roster *r, const struct rosterjob *job,
                       enum firn_event_kind kind, enum firn_end end);
/* Enters a phase and reports it. */
void roster_phase(struct roster *r, struct rosterjob *job,
                  enum firn_phase phase);
bool roster_has_events(const struct roster *r);

/* --- before a shepherd: roster_start.c ----------------------------------- */

/* What decides whether a job may be started. */
struct roster_starts {
    struct roster_limits limits;
    const struct firn_engine_host *host;
    /* False: it cannot be started now, and was put off by roster_retry().
     * NULL: it can. */
    bool (*may_start)(void *engine, struct rosterjob *job);
    void *engine;
};
/* Numbers the jobs whose GPUs are all free, in the order of their steps, with
 * one commit of the host; they hold their GPUs from then on. */
void roster_number(struct roster *r, const struct roster_starts *starts);
/* Takes the number of a job back that was not launched. */
void roster_unnumber(struct rosterjob *job);

struct launchfile;
/* Fills what is the same in every launch file; the engine adds the rest. */
void roster_launch_begin(const struct rosterjob *job,
                         const struct firn_launch *launch,
                         struct launchfile *out);
struct resize;
/* Before an attempt changes its size as it runs: writes the launch file of the
 * resize, then the resize. */
enum firn_status roster_resize_write(const struct rosterjob *job,
                                     const struct launchfile *file,
                                     const struct resize *resize,
                                     struct firn_error *err);
struct roster_file {
    const struct launchfile *file;
    bool is_remote; /* workers on other hosts: requests by files, a lock more */
};
/* Makes the folder, writes the launch file, raises the fence. */
enum firn_status roster_prepare(struct rosterjob *job,
                                const struct firn_launch *launch,
                                const struct roster_file *launch_file,
                                struct firn_error *err);

/* --- waking: roster_wake.c ----------------------------------------------- */

/* `also`: a descriptor that wakes the engine too; -1: none. `what` names the
 * watched things in an error. */
enum firn_status roster_wake_open(struct roster *r, int also, const char *what,
                                  struct firn_error *err);
bool roster_wake_add(const struct roster *r, int fd);
/* Is something there that wakes the engine? */
bool roster_wake_is_set(const struct roster *r);
/* Empties timer and inotify. True: a file appeared in a watched folder; the
 * jobs of those folders are noted. */
bool roster_wake_drain(const struct roster *r);
/* When a job without an attempt is due; INFINITY: never. Jobs that may start
 * were looked for at `looked_s`. */
double roster_due_s(const struct rosterjob *job, double looked_s);
/* Sets the timer; to now if an event waits. */
void roster_wake_arm(const struct roster *r, double now_s, double due_s);
/* Watches the attempt's folder for files that are renamed into place. */
void roster_watch(const struct roster *r, struct rosterjob *job);
void roster_unwatch(const struct roster *r, struct rosterjob *job);

/* An engine's turn, and how it sets the timer. */
struct roster_work {
    void (*turn)(void *engine);
    void (*arm)(void *engine);
    void *engine;
};

/* The engine's next(): runs turns until there is an event or it is `until_s`.
 */
bool roster_next(struct roster *r, const struct roster_work *work,
                 double until_s, struct firn_event *out);

#endif
