/* reprometric.h - finds a number of a result by its name.
 *
 * A name is a key of `firn sim -o json` (except numbers of size classes), or
 * one of these, which are computed:
 *
 *     jct_small_s      mean JCT of jobs that request at most 4 GPUs
 *     jct_large_s      mean JCT of the other jobs
 *     jct_p40_s        40th and 80th percentile of the JCT
 *     jct_p80_s
 *     jct_low40_s      mean JCT of the 40 % of the jobs with the lowest
 *     round_cpu_s      processor time per scheduling round; measured, so it
 *                      differs from run to run
 *     together_share   share of jobs that were co-trained with another job
 *     after_share      share of jobs that started from another job's weights
 *     samples_rate     mean over language models of the samples a second that
 *                      they trained while they held GPUs
 *     error_mean       mean and largest error of a model's predictions:
 *     error_max        |predicted / measured - 1|
 *
 * METRIC@GROUP is the number of one group of jobs. The group of a job is the
 * column `group` of the trace, else its application, else "-":
 *
 *     jct_mean_s@G  queue_mean_s@G  queue_max_s@G  jobs@G
 */
#ifndef REPRO_METRIC_H
#define REPRO_METRIC_H
#include "model/evaluate.h"
#include <firn/sim.h>

/* Result of one run: a simulation, or the error of a model. */
struct repro_result {
    struct firn_sim_result sim;
    struct evaluate_error error;
};

struct metric {
    double (*read)(const struct metric *metric,
                   const struct repro_result *result);
    size_t offset;             /* in the result, or in the group */
    char group[FIRN_NAME_MAX]; /* of METRIC@GROUP */
    bool is_time;              /* in seconds: shown in the scenario's unit */
    bool is_more_good;         /* a larger value is better */
    bool is_measured; /* by a clock: the least of several runs counts */
};

/* FIRN_EINVAL with a message that suggests the nearest name. */
enum firn_status metric_find(struct metric *out, const char *name,
                             struct firn_error *err);
/* NaN if the result has no such number. */
double metric_of(const struct metric *metric,
                 const struct repro_result *result);

#endif
