/* simforecast.h - the honest simulator's forecasts.
 *
 * core/forecaster.h with what a simulation hands in: the fits of its profiles
 * and its options as priors, and the reports of simulated jobs.
 */
#ifndef SIM_SIMFORECAST_H
#define SIM_SIMFORECAST_H
#include "core/forecaster.h"
#include "sim/truth.h"
#include <firn/event.h>
#include <firn/sim.h>

struct truth_table;

/* `base` is the truth of jobs without a profile: its cluster and options are
 * read. `table` has the profiles; NULL: there are none. The caller frees with
 * forecaster_free(). */
struct forecaster *simforecast_new(const struct truth *base,
                                   struct truth_table *table);

/* With noise on throughput, trainers choose layers by wrong throughputs. */
void simforecast_doubt(struct truth_table *table,
                       const struct firn_sim_options *options);

/* A job reports how fast it goes with what it holds, beside these. */
void simforecast_learn(struct forecaster *forecaster,
                       const struct firn_job *job,
                       const struct firn_report *report,
                       const struct truth_near *near);

/* As core/forecaster.h has them, at a time. */
double simforecast_rate(struct forecaster *forecaster,
                        const struct firn_job *job, const struct firn_way *way,
                        double now_s);
bool simforecast_running(struct forecaster *forecaster,
                         const struct firn_job *job, const struct firn_way *way,
                         double batch, struct running *now,
                         struct running *ref);
int simforecast_gpus_max(struct forecaster *forecaster,
                         const struct firn_job *job, unsigned tunes);
double simforecast_slowdown_in(struct forecaster *forecaster,
                               const struct firn_job *job,
                               const struct firn_way *way,
                               const struct firn_job *other,
                               const struct firn_way *other_way);
double simforecast_slowdown(struct forecaster *forecaster,
                            const struct firn_job *job,
                            const struct firn_job *other);
struct firn_load simforecast_load(struct forecaster *forecaster,
                                  const struct firn_job *job,
                                  const struct firn_way *way, double now_s);

/* The same for an engine whose state is a struct simengine. */
extern const struct firn_forecast_def simengine_forecast;

#endif
