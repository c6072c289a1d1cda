/* costs.h - what changes of GPUs cost in a simulation.
 *
 * The one place that reads --restart-cost, --resize-cost and the costs of
 * profiles: the engine charges by it, and policies are told the same.
 */
#ifndef SIM_COSTS_H
#define SIM_COSTS_H
#include "sim/simengine.h"

/* Seconds of a restart of the job. */
double costs_restart_s(const struct simengine *engine,
                       const struct firn_job *job);

/* Are processes of the job started before its GPUs are free? */
bool costs_is_prepared(const struct simengine *engine,
                       const struct firn_job *job);
/* What is left now of a start that takes `cost_s`: its processes were started
 * when the job came, or was stopped, and the engine had less than `prepares`
 * others to prepare. It prepares jobs in the order of their starts. */
double costs_start_s(const struct simengine *engine, const struct firn_job *job,
                     double cost_s);

/* What a resize of the job without a stop costs; false: it is restarted. */
bool costs_resize(const struct simengine *engine, const struct firn_job *job,
                  struct firn_cost *out);

/* Is the step made without a stop? `out` is then its cost; without time to
 * prepare where no process has to be started. */
bool costs_of_resize(const struct simengine *engine,
                     const struct firn_step *step, struct firn_cost *out);

/* The slowdown of the option --pair-slowdown; 0: it does not name the two. */
/* Behind the last step of its jobs; 0: none is named. */
double costs_end_s(const struct firn_sim_options *options, const char *app);
double costs_pair(const struct firn_sim_options *options, const char *app,
                  const char *other);

/* For struct firn_forecast_def. */
void costs_forecast(void *state, const struct firn_job *job,
                    struct firn_costs *out);

#endif
