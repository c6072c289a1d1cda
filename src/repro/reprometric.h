/* reprometric.h - numbers of a result by name.
 *
 * Every number of `firn sim -o json` that is not of one size class has its
 * name there. More are made from several, one line each in reprometric.c:
 *
 *     jct_small_s      mean JCT of jobs that ask for at most 4 GPUs
 *     jct_large_s      mean JCT of the others
 *     round_cpu_s      processor time of a round: view, policy, check and
 *                      changes; measured, so never twice the same
 *     together_share   jobs that were trained together with another, of all
 *     after_share      jobs that began with the weights of another, of all
 *     error_mean       of a model's predictions, as a share of what was
 *     error_max        measured: |predicted / measured - 1|
 *
 * and some are of one group of jobs, with its name behind an @: that of the
 * trace's column `group`, or for jobs without one their application ("-" for
 * those with neither):
 *
 *     jct_mean_s@G  queue_mean_s@G  queue_max_s@G  jobs@G
 */
#ifndef REPRO_METRIC_H
#define REPRO_METRIC_H
#include "model/evaluate.h"
#include <firn/sim.h>

/* What one run of a scenario has: a simulation, or the error of a model. */
struct repro_result {
    struct firn_sim_result sim;
    struct evaluate_error error;
};

struct metric {
    double (*read)(const struct metric *metric,
                   const struct repro_result *result);
    size_t offset;             /* within a result, or a group */
    char group[FIRN_NAME_MAX]; /* of those of a group */
    bool is_time;              /* in seconds: shown in the scenario's unit */
    bool is_more_good;         /* of two results the larger is the better */
};

/* FIRN_EINVAL with a sentence that names the nearest. */
enum firn_status metric_find(struct metric *out, const char *name,
                             struct firn_error *err);
/* NaN where the result has none. */
double metric_of(const struct metric *metric,
                 const struct repro_result *result);

#endif
