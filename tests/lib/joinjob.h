/* joinjob.h - a toy training job that is resized while it trains.
 *
 * The caller is the supervisor: it makes the board, starts processes, gives
 * orders, starts joiners, waits for leavers and kills whom it likes. The
 * trainer has a random generator and a place for each thread and momentum that
 * all share, so a context that got lost on the way changes its bits. Training
 * waits at a gate, a number of steps, which the supervisor raises: a test does
 * not depend on how fast the machine is.
 */
#ifndef LIB_JOINJOB_H
#define LIB_JOINJOB_H
#include "wire/join.h"
#include <firn/train.h>
#include <sys/types.h>

enum { JOINJOB_PROCS = 8, JOINJOB_STEPS = 100000 };

enum joinjob_fault {
    JOINJOB_NONE,
    JOINJOB_JOINER_EARLY, /* a joiner is killed before it is ready */
    JOINJOB_JOINER_LATE,  /* ... when the switch begins */
    JOINJOB_JOINER_HANGS, /* a joiner stops in the switch */
    JOINJOB_MEMBER,       /* a process of the group is killed in the switch */
    JOINJOB_OTHER_MODEL   /* a joiner has named other tensors */
};

struct joinjob_share; /* memory of all processes */

struct joinjob {
    char dir[256];
    int nthreads;
    size_t nelements;
    uint64_t nsteps, every; /* steps of the job; between checkpoints */
    bool chain;
    bool is_far;    /* pairs of processes share memory, all else goes by TCP */
    double limit_s; /* of a switch */

    struct joinjob_share *share;
    struct firn_join_board *board;
    int fd;
    int attempt, nprocs;
    pid_t pid[JOINJOB_PROCS]; /* by rank */
    int nlost;                /* attempts that ended by a fault */
};

/* In an empty folder; `nelements` of a gradient. */
void joinjob_open(struct joinjob *job, const char *dir, int nthreads,
                  size_t nelements, uint64_t nsteps);
void joinjob_close(struct joinjob *job);
/* Starts the next attempt, which resumes from the last checkpoint. */
void joinjob_start(struct joinjob *job, int nprocs);
/* Resizes to `nprocs`; from[new rank] is the old one, -1: joins. The phase that
 * it ended in: DONE, FAILED (the old layout goes on), BROKEN (all processes are
 * gone: start anew). */
enum firn_join_phase joinjob_resize(struct joinjob *job, int nprocs,
                                    const int *from, enum joinjob_fault fault);
/* How the last resize went. */
struct firn_join_result joinjob_result(const struct joinjob *job);
/* Lets training go to its end; true: all processes ended with 0. */
bool joinjob_finish(struct joinjob *job);
/* Lets training come to this step. */
void joinjob_allow(struct joinjob *job, uint64_t step);
/* The step that process 0 has come to, and when it ended step `step`. */
uint64_t joinjob_step(const struct joinjob *job);
double joinjob_ended_s(const struct joinjob *job, uint64_t step);
/* The weights as hexadecimal digits of their bits, hashed, from the last
 * checkpoint. */
uint64_t joinjob_hash(const struct joinjob *job);

#endif
