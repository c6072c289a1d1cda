/* localwork.h - the local engine's state, shared by its files.
 *
 * What is wanted of each job and what it holds is in its base
 * (engine/roster.h). An attempt on this host has also a shepherd, whose process
 * the engine watches.
 */
#ifndef ENGINE_LOCALWORK_H
#define ENGINE_LOCALWORK_H
#include "engine/gpus.h"
#include "engine/pace.h"
#include "engine/procs.h"
#include "engine/roster.h"
#include <sys/types.h>

struct localjob {
    struct rosterjob base;

    /* The current attempt. */
    pid_t pid; /* its shepherd; 0: not known yet */
    uint64_t start;
    int pidfd;         /* -1: none */
    bool is_over;      /* the shepherd has ended */
    bool needs_signal; /* to be asked to leave: its shepherd was not known, or
                        * others are asked before it */
    double exit_s; /* when its exit file was seen while the shepherd lives */
    struct procs_seen orphans; /* processes killed after their shepherd died */
    double scan_s;             /* the next search for orphans */
    double scan_wait_s;        /* the wait after that search */

    /* Its resizes without a stop: local_resize.c. */
    int64_t nresizes;                /* of the attempt, asked for so far */
    struct firn_alloc before, after; /* of the one under way; no parts: none */
    double waits_s; /* since when it waits for the GPUs that it is to get; 0: it
                     * does not */
    bool must_restart; /* a resize failed: by a restart instead */
};
enum { LOCAL_WHYS = 64 }; /* texts of events that are not read yet */

/* A board of the driver's GPUs, and its foreign processes: local_foreign.c. */
struct localboard {
    struct firn_part taken; /* GPUs with foreign processes, as reported */
    uint64_t seen;          /* at the last look, certain or not */
};

/* A job whose processes wait for its GPUs: local_ahead.c. */
struct localahead {
    firn_job_id job;
    pid_t pid; /* its supervisor */
    uint64_t start;
    int pidfd, line; /* -1: none; line -1: it was told to end */
    int nworkers;
    bool is_ready;
    double began_s, until_s;
};
struct localforeseen {
    firn_job_id job;
    double in_s;
    struct firn_alloc gpus; /* owned */
};
struct localunfit { /* not to be prepared until then */
    firn_job_id job;
    double until_s;
};
enum { LOCAL_AHEAD = 16, LOCAL_SPARES = 16 };

struct local {
    char spec[FIRN_TEXT_MAX], shepherd[FIRN_TEXT_MAX];
    char pass_env[FIRN_TEXT_MAX]; /* engine/passenv.h */
    char launcher[FIRN_TEXT_MAX]; /* engine/launcher.h; "": none */
    int cgroup;
    double force_s;         /* wait after both graces */
    double foreign_every_s; /* between looks for foreign processes */
    double join_s;          /* limit for joiners to be ready; 0: all resizes are
                             * restarts */
    int ahead;              /* jobs that are prepared at most */
    double ahead_s;         /* for so long at most */
    int spares;             /* processes that wait to join, for each job */
    VEC(struct localahead) aheads;
    VEC(struct localforeseen) foreseen;
    VEC(struct localunfit) unfit;
    double ahead_mib; /* of the largest prepared process; 0: none yet */
    struct gpus gpus;
    struct firn_engine_host host;
    struct roster roster;          /* its jobs */
    VEC(struct localboard) boards; /* empty without a driver */
    double foreign_s;              /* the next look for foreign processes */
    struct pace launches, asks;    /* asks: requests to leave */
    double sweep_s;                /* the next look at all attempts */
    double turned_s;  /* jobs that may start at this time were looked for */
    bool has_changes; /* by a step: look, although nothing woke the engine */
    bool is_stale;    /* the timer is not set for the present state */
    char why[LOCAL_WHYS][200];
    unsigned nwhy;
};

static inline double local_now_s(const struct local *local)
{
    return roster_now_s(&local->roster);
}

/* --- local_start.c -------------------------------------------------------- */

/* Numbers all jobs whose GPUs are free, and launches numbered ones in their
 * order, as many as the pace allows. */
void local_start_some(struct local *local);
/* Adds the workers' variables to the launch file. */
struct launchfile;
void local_variables(const struct local *local, const struct localjob *job,
                     const struct firn_launch *launch, struct launchfile *out);

/* Starts a supervisor program in a session of its own: 0, or errno. */
struct local_program {
    const char *verb, *folder; /* its arguments */
    const char *mark;          /* a variable; "": none */
    int input;                 /* its standard input; -1: nothing */
};
int local_spawn(const struct local *local, const struct local_program *program,
                pid_t *pid);

/* --- local_ahead.c -------------------------------------------------------- */

/* The jobs that are expected to start next. */
void local_foresee(struct local *local, const struct firn_foreseen *jobs,
                   size_t n);
/* Prepares jobs, and ends what is not needed any more. */
void local_ahead_turn(struct local *local);
double local_ahead_due_s(const struct local *local);
/* Processes of the job wait for its GPUs; are told to end. */
bool local_ahead_has(const struct local *local, firn_job_id id);
bool local_ahead_ends(const struct local *local, firn_job_id id);
/* Seconds since its processes were started in advance; 0: they were not. */
double local_ahead_age_s(const struct local *local, firn_job_id id);
void local_ahead_end(struct local *local, firn_job_id id);
/* The prepared processes become the job's attempt, whose files are written.
 * False: there are none. */
bool local_ahead_go(struct local *local, struct localjob *job);
void local_ahead_close(struct local *local);

/* --- local_attempt.c ------------------------------------------------------ */

/* The attempt shall leave; local_ask_some() asks it to. */
void local_leave(struct local *local, struct localjob *job);
/* Shall it be asked to leave, and is its shepherd known? */
bool local_is_askable(const struct localjob *job);
/* Asks attempts to leave, in their order, as many as the pace allows. */
void local_ask_some(struct local *local);
/* Has the job to be looked at now? */
bool local_needs_look(const struct local *local, const struct localjob *job);
/* Can its attempt change without an event that wakes the engine? */
bool local_is_blind(const struct localjob *job);
/* Reads the attempt's state; the job may be gone afterwards. */
void local_look(struct local *local, struct localjob *job);
/* Takes over an attempt that an earlier firnd started. */
enum firn_status local_take_over(struct local *local, struct localjob *job,
                                 struct firn_error *err);
void local_forget_attempt(struct local *local, struct localjob *job);
/* Removes the job from the roster. */
void local_drop(struct local *local, struct localjob *job);
/* Lets the end of the shepherd wake the engine. */
void local_watch_pid(struct local *local, struct localjob *job);

/* --- local_devices.c ------------------------------------------------------ */

/* Sets the GPUs of a request to the launcher. */
struct launchmsg;
void local_devices(const struct local *local, const struct firn_alloc *alloc,
                   struct launchmsg *out);
/* Has the launcher open these GPUs for the attempt and close all others. False,
 * with a line in the log: it could not. Without a launcher: true. */
bool local_devices_change(const struct local *local, const struct localjob *job,
                          const struct firn_alloc *alloc);

/* --- local_resize.c ------------------------------------------------------- */

/* A step to other GPUs. True: the attempt is resized while it runs, now or as
 * soon as the GPUs are free. False: it has to be restarted for that, or holds
 * them. */
bool local_resize(struct local *local, struct localjob *job,
                  const struct firn_alloc *to);
/* Begins resizes of jobs whose new GPUs are free now. */
void local_resize_some(struct local *local);

/* --- local_resized.c ------------------------------------------------------ */

/* Reads whether the resize under way is over. */
void local_resize_look(struct local *local, struct localjob *job);
/* When the job has to be looked at for its resize; INFINITY: never. */
double local_resize_due_s(const struct local *local,
                          const struct localjob *job);
/* The attempt is gone. */
void local_resize_forget(struct localjob *job);
/* Of an attempt that is taken over: which GPUs it really holds. */
void local_resize_recover(struct local *local, struct localjob *job);
/* Its supervisor is known: reminds it of the resize under way. */
void local_resize_remind(struct localjob *job);

/* --- local_foreign.c ------------------------------------------------------ */

void local_foreign_open(struct local *local);
/* Reports boards whose foreign processes have changed. */
void local_foreign_look(struct local *local);
/* Before a start: does a foreign process use one of these GPUs? Reports the
 * certain ones. */
bool local_is_foreign_on(struct local *local, const struct firn_alloc *want);

#endif
