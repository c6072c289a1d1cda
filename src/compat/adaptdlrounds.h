/* adaptdlrounds.h - the rounds of AdaptDL's simulator and its fork, Sia's.
 *
 * Jobs that hold GPUs are advanced by a whole round, then the policy is
 * called: the first decision is at the end of the first round, an arrival
 * waits for the next multiple, and GPUs of a job that ends within a round are
 * idle to its end. A world (compat/adaptdl.c, compat/sia.c) begins its state
 * with struct adlrounds and each of its jobs with struct adlrun, and provides
 * the functions for an arrival and for a step.
 */
#ifndef COMPAT_ADAPTDLROUNDS_H
#define COMPAT_ADAPTDLROUNDS_H
#include "base/vec.h"
#include "compat/adaptdljob.h"
#include "sim/world.h"

/* A job that was submitted. */
struct adlrun {
    struct adljob job;
    double batch;      /* of the workload */
    double duration_s; /* alone on the GPUs it asked for */
    struct firn_report reported;
};

struct adlrounds {
    struct world world; /* first */

    /* Set by the world before adlrounds_open(). */
    /* Is the application of `spec`, the next arrival, known? If not, the error
     * does not name the line of the workload: the caller does. */
    enum firn_status (*find)(struct adlrounds *rounds, struct firn_error *err);
    /* Makes the job of `spec` and completes it: duration, restart cost. */
    struct adlrun *(*arrive)(struct adlrounds *rounds);

    double interval_s;
    double round_s;            /* the time to which jobs are advanced */
    VEC(struct adlrun *) runs; /* by id */
    VEC(firn_job_id) running;  /* that hold GPUs and are not done */
    struct firn_job_spec spec; /* the next arrival */
    bool has_spec, is_over;
    VEC(struct firn_event) events; /* of the round, by time */
    size_t next_event;
};

/* Opens the workload. The interval is the option's or else the policy's. */
enum firn_status adlrounds_open(struct adlrounds *rounds,
                                struct firn_error *err);
void adlrounds_close(struct adlrounds *rounds);

/* Functions of struct firn_engine_def; the state begins with struct
 * adlrounds. */
bool adlrounds_next(void *state, double until_s, struct firn_event *out,
                    struct firn_error *err);
double adlrounds_now_s(void *state);

/* Applies a step: a job that starts joins the running ones, a job that stops
 * leaves them and loses its GPUs. Returns the job. */
struct adlrun *adlrounds_step(struct adlrounds *rounds,
                              const struct firn_step *step);

/* Steps at the first batch into reference seconds. */
double adlrun_in_reference_s(const struct adlrun *run, double progress);

#endif
