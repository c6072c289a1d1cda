/* loopscene.h - a loop without HTTP over an engine that a test plays.
 *
 * The engine has a clock that stands still until it is moved, runs nothing, and
 * keeps of each job what it wants and what it has, as the real one does. A test
 * says what happens (runs, is done, fails) and looks at the jobs. State is in
 * the case's folder (lib/folder.h). Everything fails the test when it fails.
 */
#ifndef TESTS_DAEMON_LOOPSCENE_H
#define TESTS_DAEMON_LOOPSCENE_H
#include "daemon/loopwork.h"
#include "lib/folder.h"

#define CASE(name) \
    cmocka_unit_test_setup_teardown(name, folder_make, loopscene_remove)

/* The folder with all that is in it. */
int loopscene_remove(void **state);
/* All that is in the folder. */
void loopscene_remove_state(void);

struct loopscene {
    struct loop *loop;
    struct config config;
};

/* What the engine is like; set before or while a loop is open. Zeroed
 * behind each case. */
struct loopscene_play {
    bool is_stuck; /* nothing is started: all stays queued */
    bool is_remote;
    bool hears; /* requests, on the socket "s" in the folder */
    const char *trouble, *no_sharing;
    const char *const *names; /* of nodes; NULL: none */
    const char *node_why;
    unsigned nodes_down; /* when they are discovered; a bit for each */
    int ninbox_cancels;  /* of jobs that it has not begun */
    /* What GPUs are used; set before a loop is opened. */
    bool (*load)(void *state, firn_job_id job, struct firn_load *out);
    /* Jobs that it prepares at a time, and for how long each one is; set before
     * a loop is opened. */
    int (*prepares)(void *state);
    double (*prepared_s)(void *state, firn_job_id job);
    int (*ahead_s)(void *state);
    void (*foresee)(void *state, const struct firn_foreseen *jobs, size_t n);
};
extern struct loopscene_play loopscene_play;

/* Opens, or opens again with the processes there are, on these GPUs. */
void loopscene_open(struct loopscene *s, const char *gpus, const char *policy,
                    bool keeps);
/* As if killed: what is not committed is lost, and the engine's processes go
 * on. */
void loopscene_kill(struct loopscene *s);
void loopscene_close(struct loopscene *s);

/* A job from lines of a job file, `name` and `run` apart. */
struct live_job *loopscene_submit(struct loopscene *s, const char *name,
                                  const char *lines);
struct live_job *loopscene_job(struct loopscene *s, const char *name);
/* Turns until nothing is due at once; time moves by 100 ms for each. */
void loopscene_turn(struct loopscene *s);
void loopscene_pass(struct loopscene *s, double seconds);

/* What its user does. */
void loopscene_hold(struct loopscene *s, struct live_job *job, bool is_held);
void loopscene_cancel(struct loopscene *s, struct live_job *job);

/* What the engine sees. */
void loopscene_done(struct loopscene *s, const char *name);
void loopscene_fail(struct loopscene *s, const char *name, enum firn_end end,
                    int status);
/* Any other. */
void loopscene_event(struct loopscene *s, struct firn_event event);
void loopscene_taken(struct loopscene *s, firn_node_id node, uint64_t gpus);
void loopscene_node(struct loopscene *s, firn_node_id node, bool is_up);
/* It was asked to leave, and does. */
#define loopscene_leave(s, name) \
    loopscene_leave_as(s, name, FIRN_END_CHECKPOINT, 83)
/* The same with another end than a checkpoint: it was killed after its grace.
 */
void loopscene_leave_as(struct loopscene *s, const char *name,
                        enum firn_end end, int status);
/* A job's report: progress, seconds a step, MiB. */
void loopscene_report(struct loopscene *s, const char *name, double progress,
                      double step_s, double memory_mib);
/* When the job ends by `firn eta`, in seconds from now. */
double loopscene_ends_in_s(struct loopscene *s, const char *name);
/* "a running n0[0]; b pending -" */
const char *loopscene_text(struct loopscene *s);
/* Processes that the engine has, of all jobs. */
int loopscene_attempts(void);
/* The job that its launch names, to be trained with it, or before it; 0: none,
 * FIRN_NO_JOB: it has no processes. */
firn_job_id loopscene_mate(struct loopscene *s, const char *name);
firn_job_id loopscene_after(struct loopscene *s, const char *name);
/* The time its processes have to leave; -1: it has none. */
double loopscene_grace_s(struct loopscene *s, const char *name);
/* What its processes were told of freezing, threads and checkpoints: "freeze
 * 'penalty' 0.5, threads 4, grace 10, every 60, mate 0"; "never": they write
 * none. */
const char *loopscene_told(struct loopscene *s, const char *name);

/* A job that can be merged with another of the base, of another data set; the
 * cluster of one GPU on which two are, and how they are then. */
#define LOOPSCENE_TASK_IN(folder, set)                                  \
    "gpus: 1\nduration: 1h\ncheckpoint: {grace: 10}\nfinetune: {base: " \
    "base, dataset: " set ", sharing: allowed}" folder
#define LOOPSCENE_TASK(set) LOOPSCENE_TASK_IN("\nworkdir: /tmp", set)
#define LOOPSCENE_ONE       "1x1:v100@16"
#define LOOPSCENE_MERGED    "a running n0[0]~; b running n0[0]~"
/* Two such, a and b, submitted before the first round, which merges them. */
void loopscene_open_pair(struct loopscene *s);

extern const struct firn_engine_def loopscene_engine;

#endif
