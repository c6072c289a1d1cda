/* recount.h - a result counted anew from a log's lines.
 *
 * The replay feeds it; recount_compare() then holds the numbers against the
 * summary that the run wrote. It shares nothing with sim/metrics.c.
 */
#ifndef SIM_RECOUNT_H
#define SIM_RECOUNT_H
#include "base/vec.h"
#include <firn/sim.h>

/* A zeroed struct is a valid empty count. */
struct recount {
    VEC(double) jct_s, queue_s;       /* of finished jobs */
    double class_jct_s[FIRN_CLASSES]; /* sums */
    long class_jobs[FIRN_CLASSES];
    long submitted, rejected, failed, restarts, steps, failures;
    double first_submit_s, last_done_s;
    double gpu_s_given;
    double busy_gpu_s, up_gpu_s;         /* since the first submission */
    double busy_end_gpu_s, up_end_gpu_s; /* the same at the last completion */
};

void recount_submit(struct recount *count, double at_s);
/* Time goes on by `dt_s` with `nbusy` GPUs held by jobs and `nup` up. */
void recount_pass(struct recount *count, double dt_s, int nbusy, int nup);
void recount_done(struct recount *count, int gpus, double finished_s,
                  double jct_s, double queue_s);
/* FIRN_EINVAL with the first field that differs. Sorts what it holds. */
enum firn_status recount_compare(struct recount *count,
                                 const struct firn_sim_result *said,
                                 struct firn_error *err);
void recount_release(struct recount *count);

#endif
