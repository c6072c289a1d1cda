/* reprometric.h - numbers of a result by name.
 *
 * Every number of `firn sim -o json` that is not of one size class has its
 * name there; three more are made from several:
 *
 *     jct_small_s   mean JCT of jobs that ask for at most 4 GPUs
 *     jct_large_s   mean JCT of the others
 *     round_cpu_s   processor time of the whole run by its rounds: above what
 *                   a decision takes, and measured, so never twice the same
 */
#ifndef CLI_REPROMETRIC_H
#define CLI_REPROMETRIC_H
#include <firn/sim.h>

struct metric {
    double (*read)(const struct firn_sim_result *result, size_t offset);
    size_t offset;
    bool is_time;      /* in seconds: shown in the scenario's unit */
    bool is_more_good; /* of two results the larger is the better */
};

/* FIRN_EINVAL with a sentence that names the nearest. */
enum firn_status metric_find(struct metric *out, const char *name,
                             struct firn_error *err);
/* NaN where the result has none. */
double metric_of(const struct metric *metric,
                 const struct firn_sim_result *result);

#endif
