/* adaptdljob.h - one job of the AdaptDL simulator, advanced second by second.
 *
 * What AdaptDL's simulator and its fork, Sia's, do alike to a job. A world
 * (compat/adaptdl.c, compat/sia.c) decides where jobs run and calls
 *
 *     adljob_place()    its GPUs have changed: new batch, restart counts down
 *     adljob_clear()    it has lost its GPUs
 *     adljob_advance()  a round of T whole seconds passes
 *
 * Rules of a round: first the restart counts down, GPUs held and idle. Then,
 * until the seconds are used up: look the step time up, observe it, train at
 * gain / iteration / slowdown. If the epoch does not end in time, add up.
 * Otherwise the seconds to its end are rounded to an integer, half to even,
 * 0 possible; progress becomes exactly P(e + 1); and the job is done when its
 * last epoch is. After each of these passes the batch is set anew, at no cost.
 *
 * The batch: a job with fixed_batch > 0 keeps to it; one that tunes takes
 * max(B0, b_min r) until something was observed on that type of GPU, and then
 * what its model likes best.
 *
 *     struct adljob job = {.app = app, .fixed_batch = 2048};
 *     adljob_place(&job, 0, steps, &limits, &place, 30);
 *     struct adlstride stride = adljob_advance(&job, 60);
 *     adljob_release(&job);
 */
#ifndef COMPAT_ADAPTDLJOB_H
#define COMPAT_ADAPTDLJOB_H
#include "compat/adaptdlmodel.h"

enum { ADLJOB_TYPES = 8 };

struct adljob {
    /* Set by the world before the first call; borrowed. */
    const struct adlapp *app;
    double fixed_batch; /* > 0: the total batch; 0: tuned */
    bool learns;        /* its observations are fitted; needed by tuned jobs */
    double slowdown;    /* true goodput is divided by it; 0: not */
    double f_tol;       /* of the fit; 0: the usual one */

    /* Read by the world. */
    double progress; /* steps at B0 */
    int epoch;       /* completed */
    bool is_done;
    struct adlplace place; /* nodes 0: holds nothing */
    int type;              /* GPU type of the place */
    double countdown_s;    /* seconds of restart left */
    struct adlbatch batch;
    struct adllimits limits; /* on this place */
    struct firn_noise noise; /* as of the last pass; batch0 0: none yet */
    bool was_seen;           /* trained at least once */
    /* Learned, by GPU type; blank unless `learns`. */
    struct adlmodel models[ADLJOB_TYPES];

    const struct adlsteps *steps; /* of this type */
    double speed;        /* private: see adljob_speed(); NaN: to be looked up */
    struct adltime time; /* private: of this place with time_b samples */
    int time_b;
};

/* The result of one round. */
struct adlstride {
    double idle_s;  /* of the restart */
    double train_s; /* after it; until the end for a job that is done */
    double gained;  /* progress */
};

void adljob_release(struct adljob *job);

/* The job now runs on these GPUs after a restart of `restart_s`, which replaces
 * the rest of an earlier restart. `steps` is borrowed. */
void adljob_place(struct adljob *job, int type, const struct adlsteps *steps,
                  const struct adllimits *limits, const struct adlplace *place,
                  double restart_s);
void adljob_clear(struct adljob *job);

/* A round of whole seconds; a job without GPUs only waits. is_done is set when
 * it ends, idle_s + train_s seconds into the round. */
struct adlstride adljob_advance(struct adljob *job, double seconds);

/* True speed in steps at B0 a second, as it is now; 0 without GPUs. */
double adljob_speed(const struct adljob *job);

/* Iterations left as Optimus counts them: those of the epochs after this one,
 * at batch B; 1 in the last. */
double adljob_iterations_left(const struct adljob *job, double batch);

#endif
