/* slurm_pilot_table.h - the states of a further allocation, as a pure table.
 *
 * A pilot is a Slurm job that holds GPUs for an attempt that already runs in
 * another one. Workers are put into it as steps and taken out of it while the
 * attempt trains (slurm_resize.c). What follows from an event is a function of
 * state and event alone, which tests/engine/test_slurm_pilot_table.c walks
 * through.
 *
 *               sbatch        Slurm starts it   a resize begins
 *     (nothing) -----> ASKED -> QUEUED -> HELD ----------------> JOINING
 *                        |         |        |                      | done
 *                        +----+----+--------+    failed            v
 *                             v       +--------------------------- USED
 *        GONE <------ RETURNING <-----+   done       begins to     |
 *             Slurm no longer has it  +------------ LEAVING <------+
 */
#ifndef ENGINE_SLURM_PILOT_TABLE_H
#define ENGINE_SLURM_PILOT_TABLE_H
#include <stdbool.h>

/* state, what holds in it */
#define PILOT_STATE_MAP(X)                                                \
    X(ASKED, "sbatch was started: Slurm may have it")                     \
    X(QUEUED, "it is pending in Slurm")                                   \
    X(HELD, "it runs, and has no worker")                                 \
    X(JOINING, "a resize puts workers into it")                           \
    X(USED, "workers train in it")                                        \
    X(LEAVING, "a resize takes its workers out of it")                    \
    X(RETURNING, "it is cancelled until Slurm does not have it any more") \
    X(GONE, "Slurm does not have it")

enum pilot_state {
#define X(code, words) PILOT_##code,
    PILOT_STATE_MAP(X)
#undef X
        PILOT_NSTATES
};

/* event, in words */
#define PILOT_EVENT_MAP(X)                                            \
    X(PENDING, "Slurm says that it is pending")                       \
    X(RUNS, "Slurm says that it runs")                                \
    X(OVER, "Slurm says that it is over")                             \
    X(MISSING, "Slurm does not know it, for two answers and a while") \
    X(REFUSED, "Slurm refused it")                                    \
    X(LATE, "it has been pending for too long")                       \
    X(FILL, "a resize begins that puts workers into it")              \
    X(EMPTY, "a resize begins that takes its workers out of it")      \
    X(DONE, "the resize is done")                                     \
    X(FAILED, "the resize failed: the old layout trains on")          \
    X(UNWANTED, "its GPUs are not wanted any more, or the attempt ended")

enum pilot_event {
#define X(code, words) PILOT_ON_##code,
    PILOT_EVENT_MAP(X)
#undef X
        PILOT_NEVENTS
};

/* What is to be done, in this order: bits. */
enum pilot_act {
    PILOT_DO_CANCEL = 1,  /* scancel, by its tag */
    PILOT_DO_FORGET = 2,  /* its GPUs are not ours any more */
    PILOT_DO_BAR = 4,     /* the host is told that Slurm does not give it */
    PILOT_DO_RESTART = 8, /* what Slurm refuses, a restart may get */
    PILOT_DO_LOSE = 16,   /* its workers are lost: the attempt leaves */
    PILOT_DO_ALL = 31
};

struct pilot_row {
    enum pilot_state next;
    unsigned acts;
};

/* False: the event cannot happen in that state, and nothing is to be done. */
bool pilot_next(enum pilot_state state, enum pilot_event event,
                struct pilot_row *out);
const char *pilot_state_words(enum pilot_state state);
const char *pilot_event_words(enum pilot_event event);

#endif
