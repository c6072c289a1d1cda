/* adaptdlrounds.h - the rounds of AdaptDL's simulator and its fork, Sia's.
 *
 * Jobs that hold GPUs are advanced by a whole round, then the policy is
 * called: the first decision is at the end of the first round, an arrival
 * waits for the next multiple, and GPUs of a job that ends within a round are
 * idle to its end. A world (compat/adaptdl.c, compat/sia.c) begins its state
 * with struct adlrounds and each of its jobs with struct adlrun, and says what
 * an arrival and a step are to it.
 */
#ifndef COMPAT_ADAPTDLROUNDS_H
#define COMPAT_ADAPTDLROUNDS_H
#include "base/vec.h"
#include "compat/adaptdljob.h"
#include "sim/world.h"

/* A job, from its submission on. */
struct adlrun {
    struct adljob job;
    double batch;      /* of the workload */
    double duration_s; /* alone on the GPUs it asked for */
    struct firn_report told;
};

struct adlrounds {
    struct world world; /* first */

    /* Set by the world before adlrounds_open(). */
    /* Is the application of `spec`, the next arrival, known? A sentence
     * without the place in the workload otherwise. */
    enum firn_status (*find)(struct adlrounds *rounds, struct firn_error *err);
    /* Makes the job of `spec` and completes it: duration, restart cost. */
    struct adlrun *(*arrive)(struct adlrounds *rounds);

    double interval_s;
    double round_s;            /* jobs are advanced until there */
    VEC(struct adlrun *) runs; /* by id */
    VEC(firn_job_id) running;  /* that hold GPUs and are not done */
    struct firn_job_spec spec; /* the next arrival */
    bool has_spec, is_over;
    VEC(struct firn_event) events; /* of the round, by time */
    size_t next_event;
};

/* Opens the workload. The interval is the option's, else the policy's. */
enum firn_status adlrounds_open(struct adlrounds *rounds,
                                struct firn_error *err);
void adlrounds_close(struct adlrounds *rounds);

/* As an engine has them; the state begins with struct adlrounds. */
bool adlrounds_next(void *state, double until_s, struct firn_event *out,
                    struct firn_error *err);
double adlrounds_now_s(void *state);

/* A step is applied: a job that starts or stops comes and goes. Returns it,
 * without its GPUs after a stop. */
struct adlrun *adlrounds_step(struct adlrounds *rounds,
                              const struct firn_step *step);

/* Steps at the first batch into reference seconds. */
double adlrun_in_reference_s(const struct adlrun *run, double progress);

#endif
