/* view.h - the frozen state of cluster and jobs that a policy decides on.
 *
 * A view lives for one round. Arrays that functions here return are made by
 * the call, live in the round's scratch memory and are ordered by job id unless
 * said otherwise. Jobs that have ended are not in a view.
 */
#ifndef FIRN_VIEW_H
#define FIRN_VIEW_H
#include <firn/job.h>

FIRN_C_BEGIN

struct firn_forecast_def;

struct firn_view {
    double now_s;
    const struct firn_cluster *cluster;
    size_t njobs;    /* waiting and running */
    size_t nwaiting; /* hold nothing */
    size_t nrunning; /* hold GPUs */
    int gpus_up;     /* GPUs on nodes that are up */
    int gpus_free;   /* of those, not held by a job */
    uint64_t seed;   /* for policies that draw: same seed, same plan */

    /* Used by the functions of firn/view.h and firn/forecast.h; policies leave
     * them alone. */
    void *scratch;
    const void *state;
    const struct firn_forecast_def *forecast;
    void *forecaster;

    int ahead_s; /* seconds of a start that the engine does before the GPUs of
                  * the job are free; 0: it starts nothing before */
};

/* All jobs; view->njobs of them. O(jobs). */
FIRN_API const struct firn_job *const *
firn_view_jobs(const struct firn_view *view);

/* The waiting jobs; view->nwaiting of them. O(waiting). */
FIRN_API const struct firn_job *const *
firn_view_waiting(const struct firn_view *view);

/* The waiting job after `job` by id, the first one for NULL; NULL at the end.
 * For policies that stop early: the list above costs O(waiting) at once. Costs
 * O(1), and one for each running job passed over. */
FIRN_API const struct firn_job *
firn_view_next_waiting(const struct firn_view *view,
                       const struct firn_job *job);

/* The running jobs; view->nrunning of them. O(running). */
FIRN_API const struct firn_job *const *
firn_view_running(const struct firn_view *view);

/* For policies that compare every job with every other: the running jobs, and
 * of a queue of more than `least` jobs only the foremost: of each kind (the
 * types it accepts, whether it mixes them, and its fewest GPUs) the first by
 * id, as many as would fill the cluster four times over. By id; `n` gets their
 * number. O(jobs). */
FIRN_API const struct firn_job *const *
firn_view_foremost(const struct firn_view *view, size_t least, size_t *n);

/* Compares two jobs: negative when `a` goes before `b`, 0 when they are equal.
 * The view has the time (view->now_s), without which the service of a running
 * job cannot be told; `arg` is what firn_view_sorted() was given. */
typedef int firn_job_order(const struct firn_job *a, const struct firn_job *b,
                           const struct firn_view *view, const void *arg);

/* The same with the first of each kind by `order`, ties by id, instead of by
 * id: for policies that serve by work left or by another order. O(jobs), and
 * the sort of the waiting ones. */
FIRN_API const struct firn_job *const *
firn_view_foremost_by(const struct firn_view *view, size_t least,
                      firn_job_order *order, const void *arg, size_t *n);

/* All jobs in the order given, ties by id. A fresh array each call. `arg` is
 * passed to `order` and may be NULL. O(n log n). */
FIRN_API const struct firn_job **firn_view_sorted(const struct firn_view *view,
                                                  firn_job_order *order,
                                                  const void *arg);

/* Zeroed memory that lives until the end of the round; never NULL. */
FIRN_API void *firn_view_alloc(const struct firn_view *view, size_t bytes);

FIRN_C_END

#endif
