/* simforecast.h - what the honest simulator expects of jobs.
 *
 * Behind firn/forecast.h. It has what a live scheduler would: fitted profiles,
 * the stage a job is in by its own account, and its reports. simforecast.c says
 * how they go together.
 */
#ifndef SIM_SIMFORECAST_H
#define SIM_SIMFORECAST_H
#include "sim/truth.h"
#include <firn/event.h>
#include <firn/forecast.h>

struct forecast;
struct truth_table;

/* `base` is the truth of jobs without a profile; `table` may be NULL: there
 * are no profiles. Both are borrowed. The caller frees. */
struct forecast *forecast_new(const struct truth *base,
                              struct truth_table *table);
void forecast_free(struct forecast *forecast);

/* A job tells how fast it goes with what it holds, beside these neighbours. */
void forecast_learn(struct forecast *forecast, const struct firn_job *job,
                    const struct firn_report *report,
                    const struct truth_near *near);

/* As firn/forecast.h has them. */
double forecast_rate(struct forecast *forecast, const struct firn_job *job,
                     const struct firn_way *way, double now_s);
/* An iteration of that total batch in that way, and one of the job as
 * submitted, by the fit. False when it cannot run so or has no profile. */
struct running;
bool forecast_running(struct forecast *forecast, const struct firn_job *job,
                      const struct firn_way *way, double batch,
                      struct running *now, struct running *ref);
int forecast_gpus_max(struct forecast *forecast, const struct firn_job *job,
                      unsigned tunes);
double forecast_slowdown(struct forecast *forecast, const struct firn_job *job,
                         const struct firn_job *other);
struct firn_load forecast_load(struct forecast *forecast,
                               const struct firn_job *job,
                               const struct firn_way *way, double now_s);
unsigned forecast_parallels(struct forecast *forecast,
                            const struct firn_job *job);
size_t forecast_llm_ways(struct forecast *forecast, const struct firn_job *job,
                         struct firn_llm_way *out, size_t max);

/* The same for an engine whose state is a struct simengine. */
extern const struct firn_forecast_def simengine_forecast;

#endif
