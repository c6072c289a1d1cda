/* noise.h - errors in predictions and in what jobs report.
 *
 * Predictions. A policy that asks for the rate of a job on some GPUs, or for
 * the load of a job that is to share one, is told the forecast times
 *
 *     max(0.05, 1 + size z),  z normal, mean 0 and deviation 1
 *
 * (IceFrog, Figs. 11e and 11f). z is drawn once for each job and way: number
 * and type of GPUs and how the model is spread over them (`throughput`), and
 * number of frozen layers where its trainer freezes layers. A trainer chooses
 * its layers by the same wrong throughputs: it takes the number whose product
 * of psi and throughput seems the largest, and goes as fast as that number
 * really is. z is drawn once
 * for each job's memory, once for its utilisation, and once for each pair of
 * jobs, whose slowdown is never below 1 (`sharing`). One draw for a whole job
 * would cancel wherever a policy compares the ways of one job. The same
 * question has the same answer for the whole simulation: a wrong belief that
 * stays.
 *
 * Reports. The rate that a job reports is the true one times max(0.05, 1 + size
 * u), u uniform in [-1, 1), drawn for each report (`report`). In the same way
 * `transfer` is drawn for each job, partner and kind of merge, for predictions
 * of the gain of transfer, and `iterations` for each job and again for each
 * partner and kind, for predictions of the work left (Ymir, Fig. 8); these are
 * in no report. One draw for all partners would cancel where a policy compares
 * partners.
 *
 * Every draw comes from a stream of its own, seeded by the simulation's seed,
 * the job and what the draw is for: no draw shifts another, and the order of
 * questions does not matter.
 */
#ifndef SIM_NOISE_H
#define SIM_NOISE_H
#include "base/rng.h"
#include <firn/forecast.h>
#include <firn/job.h>
#include <firn/sim.h>

/* The stream of a job's reports. */
struct noise {
    struct rng rng;
};

/* Any noise at all. */
bool noise_is_on(const struct firn_sim_noise *size);
struct noise noise_of_job(uint64_t seed, firn_job_id id);
/* The factor of its next report. */
double noise_next(struct noise *noise, const struct firn_sim_noise *size);

/* The factor on the rate that is forecast for the job, run that way, on a
 * cluster of `ntypes` GPU types. */
double noise_way(const struct firn_sim_noise *size, uint64_t seed,
                 firn_job_id id, const struct firn_way *way, int ntypes);
/* The same for the way in which a trainer has this number of front layers
 * frozen. */
double noise_layers(const struct firn_sim_noise *size, uint64_t seed,
                    firn_job_id id, const struct firn_way *way, int ntypes,
                    size_t nfrozen);
/* The load that is forecast, with its errors; what is not known stays so. */
struct firn_load noise_load(const struct firn_sim_noise *size, uint64_t seed,
                            firn_job_id id, struct firn_load load);
/* The slowdown that is forecast for job `id` beside another, with its error. */
double noise_slowdown(const struct firn_sim_noise *size, uint64_t seed,
                      firn_job_id id, firn_job_id other, double slowdown);
/* How a job is trained: by itself (`with` is FIRN_NO_JOB), or merged. */
struct noise_merge {
    firn_job_id id, with;
    enum firn_merge_kind kind;
};
/* The factor on the work that it is forecast to have left. */
double noise_iterations(const struct firn_sim_noise *size, uint64_t seed,
                        struct noise_merge merge);
/* The factor on the epochs that it is forecast to need when merged. */
double noise_transfer(const struct firn_sim_noise *size, uint64_t seed,
                      struct noise_merge merge);

#endif
