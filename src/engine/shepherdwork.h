/* shepherdwork.h - a shepherd's state, shared by its files.
 *
 * No file below depends on one above it:
 *
 *     shepherd.c, shepherd_task.c    the whole of a local, Slurm or task one
 *     shepherd_ahead.c               prepares workers before the attempt
 *     shepherd_start.c               starts the workers
 *     shepherd_watch.c               waits for them, asks them to exit
 *     shepherd_join.c                resizes an attempt that runs
 *     shepherd_spare.c               ... by processes started in advance
 *     shepherd_far.c                 ... whose workers share no memory
 *     shepherd_load.c                how much a task's GPU is used
 *     shepherd_enter.c               descriptors, signals, launch file, fence
 *     shepherd_verdict.c             how the attempt ended
 */
#ifndef ENGINE_SHEPHERDWORK_H
#define ENGINE_SHEPHERDWORK_H
#include "engine/attemptfiles.h"
#include "engine/cgroup.h"
#include "engine/farfile.h"
#include "engine/gpus.h"
#include "engine/identity.h"
#include "engine/joblog.h"
#include "engine/launchfile.h"
#include "engine/ports.h"
#include <signal.h>

enum shepherd_stage {
    STAGE_RUNNING,
    STAGE_ASKED, /* the workers were asked for a checkpoint */
    STAGE_ENDED, /* SIGTERM was sent to all processes */
    STAGE_KILLED /* SIGKILL is sent until no process is left */
};

/* Where the workers are. */
enum shepherd_kind {
    SHEPHERD_LOCAL, /* children of this process */
    SHEPHERD_SLURM, /* on other hosts, started by srun, a child of this process
                     */
    SHEPHERD_TASK   /* this process is a task of srun and has one worker */
};

struct worker {
    pid_t pid;
    bool is_over, was_asked;
    bool is_joiner; /* started for a resize that is not committed */
    bool is_leaver; /* not needed any more since a resize */
    char place[96]; /* SLURM: "NODE/ALLOCATION" */
};

struct joining; /* a resize under way: shepherd_join.c */

/* A worker that waits at its gate: shepherd_ahead.c. */
struct parked {
    pid_t pid; /* 0: it was let through, or killed */
    int gate;
    bool is_ready; /* it waits there */
};

/* Workers that wait at their gates for a resize: shepherd_spare.c. */
enum { SPARES = 16 };
struct spares {
    struct parked at[SPARES];
    size_t n, most;
    double from_s;       /* none is started before */
    struct parked taken; /* the last one that was taken */
};

struct shepherd {
    struct launchfile launch;
    pid_t self;
    int folder, above, lock, signals;
    int log; /* where workers write: output.out; TASK: srun's pipe */
    struct joblog output; /* LOCAL, SLURM */
    struct cgroup cgroup;
    struct worker *workers;
    size_t nworkers; /* joiners and leavers included */
    int nleft;       /* workers still there */
    enum shepherd_stage stage;
    double until_s; /* the end of the stage */
    bool has_checkpoint;
    int bad_status;          /* of the first worker that failed; -1: none */
    int ended_status;        /* of the first worker that we ended; -1: none */
    uint64_t ooms;           /* shepherd_ooms() at the start */
    int kernel;              /* the kernel's log since then; -1: not readable */
    char port[32];           /* "MASTER_PORT=..." */
    struct ports ports;      /* that port and the two above it, kept bound */
    char herd[ATTEMPT_HERD]; /* LOCAL: the variable that marks its processes */

    const struct identity *user; /* workers run as; NULL: as we do */
    /* LOCAL: resizes without a stop. */
    struct firn_join_board *board; /* NULL: none can be made */
    int board_fd;
    char join[48]; /* "FIRN_JOIN=...": where workers find the board */
    size_t *ranks; /* the worker of each rank */
    size_t nranks;
    int64_t resized; /* the number of the last resize that was asked for */
    struct joining *joining; /* NULL: none is under way */
    /* shepherd_start_joiner(), which depends on the file that watches. */
    void (*start_joiner)(struct shepherd *s, size_t worker,
                         const struct launchfile *launch, size_t rank,
                         const char *const *extra, size_t nextra);

    struct spares spares;
    /* shepherd_start_spare(), for the same reason. */
    bool (*start_spare)(struct shepherd *s, struct parked *spare);

    /* SLURM: shepherd_start_steps(): the joiners, by srun in their allocations.
     */
    void (*start_steps)(struct shepherd *s, const struct launchfile *launch,
                        int64_t number, size_t first);

    /* SLURM, TASK: the order that is or was under way; NULL: none can be. */
    struct far_order *far;
    uint64_t last_done;   /* SLURM: the last order that was DONE */
    uint64_t order;       /* TASK: that its worker was started for; 0: none */
    uint64_t far_seen;    /* TASK: the last order that is over, */
    uint64_t readied;     /* and that it was ready for */
    struct far_join told; /* TASK of process 0: what it last wrote */
    int rank;             /* TASK: of its worker; -1: it has none (yet) */
    double leaves_s;      /* TASK: when its worker is ended; 0: never */
    const char *extra[8]; /* TASK: variables of a joiner, */
    size_t nextra;
    char key[96], order_text[48], local_rank[32], local_world[32]; /* texts */

    /* LOCAL: workers that were started before the attempt. */
    struct parked *parked;
    size_t nparked;
    struct launchfile parked_launch; /* that they were started by */
    double waited_s;                 /* since then, until the attempt */
    int gate;                        /* of the worker that is started; -1 */

    enum shepherd_kind kind;
    int notes;               /* inotify on the folder; -1: none */
    bool was_asked_to_leave; /* by a signal or a request */
    const char *path;        /* of the attempt's folder */

    /* SLURM only. */
    pid_t runner;                      /* srun */
    enum attempt_request request_sent; /* to the workers */
    double killed_s;                   /* when KILLED began */
    double vanished_s; /* since when no worker is there; 0: a worker is */
    bool is_lost;      /* a worker ended without writing how */
    bool is_memory;    /* a worker ran out of memory */

    size_t worker;      /* TASK: the number of its worker */
    struct nvml nvml;   /* TASK: the driver of its node, */
    unsigned device;    /* and the worker's GPU there */
    double sampled_s;   /* when its load was last asked for; 0: never */
    bool has_no_driver; /* it cannot be asked for */
};

/* --- shepherd_enter.c ----------------------------------------------------- */

struct shepherd shepherd_new(const char *path, enum shepherd_kind kind);
/* Opens folders and the launch file, takes over signals. A shepherd_code. */
int shepherd_open(struct shepherd *s);
/* Reads the launch file of the folder. A shepherd_code. */
int shepherd_read_launch(struct shepherd *s);
/* Is the attempt still wanted? A shepherd_code. */
int shepherd_check_fence(const struct shepherd *s);
/* Writes a line "firn: ..." into the job's log. */
void shepherd_say(struct shepherd *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void shepherd_pause(double s);

/* --- shepherd_start.c ----------------------------------------------------- */

/* Starts all workers. A worker that cannot be started has failed. */
void shepherd_start(struct shepherd *s);
/* Starts all workers of an attempt that is still to come, each with a gate.
 * False: one could not be started. */
bool shepherd_park(struct shepherd *s);
/* Kills the prepared workers that were not let through. */
void shepherd_unpark(struct shepherd *s);
/* Starts worker `worker` with the variables of worker `rank` of another launch
 * file and `extra` ones; a spare process, if there is one, is let through. */
void shepherd_start_joiner(struct shepherd *s, size_t worker,
                           const struct launchfile *launch, size_t rank,
                           const char *const *extra, size_t nextra);
/* Starts a spare process. False: not; its pid is set if it will end. */
bool shepherd_start_spare(struct shepherd *s, struct parked *spare);
/* Starts srun, which starts the workers. */
void shepherd_start_srun(struct shepherd *s);
/* Starts the joiners of resize `number` as workers `first` on, by one srun in
 * each allocation that has some. */
void shepherd_start_steps(struct shepherd *s, const struct launchfile *launch,
                          int64_t number, size_t first);

/* --- shepherd_ahead.c ----------------------------------------------------- */

/* Starts the workers and waits until there is an attempt for them. A
 * shepherd_code; SHEPHERD_OVER: there is, and folder, `path` (of `size` bytes)
 * and launch file are the attempt's. */
int shepherd_ahead(struct shepherd *s, char *path, size_t size);

/* --- shepherd_watch.c ----------------------------------------------------- */

/* Returns when no child is left. */
void shepherd_watch(struct shepherd *s);
/* True: a request to leave came before any worker was started. */
bool shepherd_is_early(struct shepherd *s);
/* Notes a worker's end, by a status as wait() returns it. */
void shepherd_note(struct shepherd *s, struct worker *worker, int status);
/* SLURM: reads how every worker ended; false: workers may still be running. */
bool shepherd_gather(struct shepherd *s);

/* --- shepherd_join.c ------------------------------------------------------ */

/* Makes the board, before the workers start. */
void shepherd_join_open(struct shepherd *s);
void shepherd_join_close(struct shepherd *s);
/* Reads whether the engine asks for a resize, and begins it. */
void shepherd_join_look(struct shepherd *s);
/* Learns which workers join and leave, before ends of workers are judged. */
void shepherd_join_follow(struct shepherd *s);
/* Does what is due; milliseconds until the next look, -1: no resize. */
int shepherd_join_advance(struct shepherd *s);

/* --- shepherd_spare.c ----------------------------------------------------- */

/* How many there may be, by a launch file. */
void shepherd_spare_learn(struct shepherd *s, const struct launchfile *launch);
/* Starts and ends spare processes; milliseconds until the next look, -1: none
 * is needed. */
int shepherd_spare_advance(struct shepherd *s);
/* A child ended that is no worker. */
void shepherd_spare_note(struct shepherd *s, pid_t pid);
/* The oldest one, which is the caller's now; NULL: there is none. */
struct parked *shepherd_spare_take(struct shepherd *s);
void shepherd_spare_end(struct shepherd *s);

/* --- shepherd_far.c: workers that share no memory ------------------------- */

/* TASK: makes the worker's board. SLURM: the files and a mirror of the board.
 */
void shepherd_far_open(struct shepherd *s);
void shepherd_far_close(struct shepherd *s);
/* TASK: does what is due; milliseconds until the next look, -1: no resize. */
int shepherd_far_turn(struct shepherd *s);
/* TASK: its worker is not needed any more, and its time to exit has passed. */
bool shepherd_far_is_due(const struct shepherd *s);
/* SLURM: does the trainer take orders? */
bool shepherd_far_can(struct shepherd *s);
/* SLURM: gives an order; new_worker[rank] is the worker of each new rank. */
bool shepherd_far_give(struct shepherd *s, const struct firn_join_order *order,
                       uint64_t number, const int *new_worker);
void shepherd_far_give_up(struct shepherd *s, enum firn_join_event event,
                          const char *why);
/* SLURM: the workers that trained have ended, and with them whatever could have
 * ended the order: it failed, unless its end is known. */
void shepherd_far_abandon(struct shepherd *s);
/* SLURM: the mirror learns what process 0's board says. */
void shepherd_far_follow(struct shepherd *s);

/* --- shepherd_load.c ------------------------------------------------------ */

/* TASK: writes down how much the worker's GPU is used, every few seconds. */
void shepherd_load(struct shepherd *s);
/* The driver's number of the GPU at `place` (NULL: 0) of a list as of
 * CUDA_VISIBLE_DEVICES; false: there is none. */
bool shepherd_load_device(const struct nvml *nvml, const char *visible,
                          const char *place, unsigned *device);

/* --- shepherd_verdict.c --------------------------------------------------- */

/* How many processes the kernel has killed for lack of memory: in our control
 * group or, if that group has no counter, on the whole host. */
uint64_t shepherd_ooms(void);
/* The kernel's log, from now on; -1: not readable, or its process numbers are
 * of another namespace. */
int shepherd_kernel(void);
/* The record says that the kernel killed a process that is not a worker of ours
 * and was in a control group that does not contain ours, `group` ("/a/b"). */
bool shepherd_is_foreign_oom(const struct shepherd *s, const char *group,
                             const char *record);
/* How the attempt ended. */
struct attempt_exit shepherd_verdict(const struct shepherd *s);

#endif
