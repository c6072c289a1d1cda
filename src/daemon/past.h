/* past.h - the run time of a finished job for a trace, from its attempts.
 *
 *     struct past past = {.cluster = &cluster, .type = job->gpu_type};
 *     past_add(&past, "n0[0-3]", 600);      each attempt, from the first on
 *     if (past.starts.n > 0)
 *         past_spec(&past, &spec);          GPUs, bounds and duration
 *     past_release(&past);
 */
#ifndef DAEMON_PAST_H
#define DAEMON_PAST_H
#include "base/vec.h"
#include <firn/cluster.h>
#include <firn/job.h>

struct past_start {
    struct firn_alloc held;
    double ran_s;
};

struct past {
    const struct firn_cluster *cluster; /* NULL: nothing is known of it */
    const char *type;                   /* GPU type that it kept to; "": none */
    bool may_stop; /* it could be stopped, and so be resized */
    VEC(struct past_start) starts;
};

/* Adds an attempt on these GPUs; without GPUs or time it is passed over. */
void past_add(struct past *past, const char *held, double ran_s);
void past_release(struct past *past);

/* `spec` has what its user asked for; it gets the GPUs of the last start, and
 * what the simulator is to take for the run time on as many GPUs of the
 * cluster's reference type. There is a start. */
void past_spec(const struct past *past, struct firn_job_spec *spec);

#endif
