/* noise.h - errors in what jobs report.
 *
 * The rate that a job reports is the true one times
 *
 *     t x s x r,  each max(0.05, 1 + size x u), u uniform in [-1, 1)
 *
 * t (throughput) is drawn once for a job and s (sharing) too, which counts
 * only while it shares GPUs: wrong beliefs that stay. r (report) is drawn for
 * each report: measuring. `transfer` is drawn once for a job as well, for
 * predictions of the gain of transfer, and `iterations` twice, for predictions
 * of the work left; these are in no report. Every job has a stream of its
 * own, from the seed and its id, so that one job's reports do not change
 * another's.
 */
#ifndef SIM_NOISE_H
#define SIM_NOISE_H
#include "base/rng.h"
#include <firn/job.h>
#include <firn/sim.h>

struct noise {
    struct rng rng;
    double throughput, sharing, transfer; /* drawn; 1 without noise */
};

/* Any noise at all. */
bool noise_is_on(const struct firn_sim_noise *size);
/* The beliefs of a job. */
struct noise noise_of_job(const struct firn_sim_noise *size, uint64_t seed,
                          firn_job_id id);
/* The factor on the work that it is forecast to have left, alone or merged. */
double noise_iterations(const struct firn_sim_noise *size, uint64_t seed,
                        firn_job_id id, bool is_merged);
/* The factor of its next report. */
double noise_next(struct noise *noise, const struct firn_sim_noise *size,
                  bool is_sharing);

#endif
