/* metrics.h - results of a run: completion times, ratios, fairness.
 *
 * Called at each change of the cluster and of each job that ends; everything is
 * an integral of piecewise constant functions, so it is exact however far
 * apart the events are.
 */
#ifndef SIM_METRICS_H
#define SIM_METRICS_H
#include "base/heap.h"
#include "base/vec.h"
#include "core/state.h"
#include "sim/timeline.h"
#include <firn/engine.h>
#include <firn/sim.h>

/* Integrals over time, from the first submission. */
struct metrics_sums {
    double up, held, free, stranded; /* GPU-seconds */
    double jobs;                     /* job-seconds in the system */
};

/* What a job was in before it ended, by slot. */
enum { METRICS_TOGETHER = 1, METRICS_AFTER = 2 };

struct metrics {
    double scaling; /* for the fair share's speed */
    int gpus;       /* of the whole cluster */
    const struct firn_cluster *cluster;
    bool has_begun;
    double begin_s, last_s, end_s;
    struct metrics_sums sums;
    struct metrics_sums until_end; /* as they were at the last completion */
    struct timeline_values now;    /* what held since last_s */
    long stranded, njobs;
    VEC(double) jobs_at_submit; /* by slot: sums.jobs then */
    VEC(double) jct_s, queue_s, rho;
    double class_sum_s[FIRN_CLASSES];
    long class_jobs[FIRN_CLASSES];
    struct firn_sim_group groups[FIRN_GROUPS]; /* sums, not yet means */
    int ngroups;
    VEC(unsigned char) merged; /* METRICS_*, by slot */
    long together_jobs, after_jobs;
    double samples_s; /* sum over language models that finished */
    long llms;        /* how many those are */
    long restarts, failures, rejected;
    struct heap resumes; /* slots that restart, by when they resume */
    VEC(int) resume_gpus;
    struct timeline *timeline; /* borrowed; may be NULL */
};

void metrics_init(struct metrics *metrics, const struct firn_cluster *cluster,
                  double scaling, struct timeline *timeline);
void metrics_release(struct metrics *metrics);

/* A job is about to be submitted: the sums up to now are without it. */
void metrics_arriving(struct metrics *metrics, double now_s);
void metrics_submitted(struct metrics *metrics, const struct firn_job *job);
/* After a change at `now_s`, how the cluster is from now on. */
void metrics_changed(struct metrics *metrics, const struct state *state,
                     double now_s);
void metrics_step(struct metrics *metrics, const struct firn_step *step);
/* A job makes progress from report->resumes_s on. */
void metrics_report(struct metrics *metrics, const struct firn_job *job,
                    double resumes_s, double now_s);
/* A job finished, at `finished_s` by its own account; it still holds its GPUs.
 * `waited_s` of the time that it held GPUs they were not free yet: queueing to
 * its group. Returns its rho. */
double metrics_done(struct metrics *metrics, const struct firn_job *job,
                    double now_s, double finished_s, double waited_s);
void metrics_result(struct metrics *metrics, struct firn_sim_result *out);

#endif
