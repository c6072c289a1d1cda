/* shepherdwork.h - a shepherd's state, shared by its files.
 */
#ifndef ENGINE_SHEPHERDWORK_H
#define ENGINE_SHEPHERDWORK_H
#include "engine/cage.h"
#include "engine/epochfiles.h"
#include "engine/joblog.h"
#include "engine/launchfile.h"
#include "engine/ports.h"
#include <signal.h>

enum shepherd_stage {
    STAGE_RUNNING,
    STAGE_ASKED, /* to write a checkpoint */
    STAGE_ENDED, /* SIGTERM was sent to all */
    STAGE_KILLED /* SIGKILL is sent until nobody is left */
};

/* Where the workers are. */
enum shepherd_kind {
    HERD_HERE, /* children of ours */
    HERD_FAR,  /* on other hosts, started by Slurm's srun, a child of ours */
    HERD_ONE   /* we are one of those and have one worker */
};

struct herded {
    pid_t pid;
    bool is_over, was_asked;
};

struct shepherd {
    struct launchfile launch;
    pid_t self;
    int folder, above, lock, signals;
    int log;              /* what workers write to: output.out; ONE: srun's */
    struct joblog output; /* not of ONE */
    struct cage cage;
    struct herded *workers;
    int nleft; /* workers still there */
    enum shepherd_stage stage;
    double until_s; /* the stage's end */
    bool has_checkpoint;
    int bad_status;        /* of the first that failed by itself; -1: none */
    int ended_status;      /* of the first that our signals ended; -1: none */
    uint64_t ooms;         /* shepherd_ooms() at the start */
    int kernel;            /* its log since then; -1: not ours to read */
    char port[32];         /* "MASTER_PORT=..." */
    struct ports ports;    /* it, and those above it, held for the workers */
    char herd[EPOCH_HERD]; /* HERE: by it orphans are known */

    enum shepherd_kind kind;
    int notes;            /* inotify on the folder; -1: none */
    bool was_told;        /* to leave, by whoever */
    const char *path;     /* FAR: of the folder */
    pid_t runner;         /* FAR: srun */
    enum epoch_word told; /* FAR: to the workers */
    double killed_s;      /* FAR: since when */
    double vanished_s;    /* FAR: since when no worker is there; 0: some is */
    bool is_lost;         /* FAR: some worker did not say how it ended */
    bool is_memory;       /* FAR: a worker says that it ran out of it */
    size_t worker;        /* ONE: which */
};

/* Descriptors, signals, folders and the launch file; a shepherd_code. */
int shepherd_open(struct shepherd *s, const char *path);
/* Is the epoch still wanted? A shepherd_code. */
int shepherd_check_fence(const struct shepherd *s);
/* Until no child is left. */
void shepherd_watch(struct shepherd *s);
/* Asked to leave before there was anything: nothing is lost. */
bool shepherd_is_early(struct shepherd *s);
/* As a signal of that meaning. */
void shepherd_obey(struct shepherd *s, enum epoch_word word);
double shepherd_short_grace_s(const struct shepherd *s);
void shepherd_pause(double s);

/* A remark into the job's log: "firn: ...". */
void shepherd_say(struct shepherd *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Starts all workers; one that cannot be started has failed. */
void shepherd_start(struct shepherd *s);

/* Starts srun, and it the workers: shepherd_far.c. */
void shepherd_start_far(struct shepherd *s);
/* Takes in words and ends from the folder: shepherd_far.c. */
void shepherd_listen(struct shepherd *s);
/* Gives a word to the workers, once. */
void shepherd_tell(struct shepherd *s, enum epoch_word word);
/* All ends that there will be; false: workers may still be there. */
bool shepherd_gather(struct shepherd *s);

/* Starts a program, `argv` and `env` ending with NULL: 0, or errno. There may
 * be a child then all the same, which ends at once. */
int shepherd_spawn(struct shepherd *s, pid_t *child, char **env, char **argv);
void shepherd_pick_port(struct shepherd *s);

/* A worker's end, by a status as wait() has it. */
void shepherd_note(struct shepherd *s, struct herded *worker, int status);
/* SIGTERM to all, then `grace_s`. */
void shepherd_end(struct shepherd *s, double grace_s);

/* The kernel's count of processes killed for want of memory: in our control
 * group, or where nobody counts them there on the whole host. */
uint64_t shepherd_ooms(void);
/* The kernel's log, to be read from now on; -1: it is not ours to read, or has
 * other numbers for our processes than we have. */
int shepherd_kernel(void);
/* Does this record of it tell of somebody else who was killed so: no worker of
 * ours, and in a group of others? Ours is `group`, "/a/b". */
bool shepherd_is_foreign(const struct shepherd *s, const char *group,
                         const char *record);
/* How it all ended. */
struct epoch_exit shepherd_verdict(const struct shepherd *s);

#endif
