/* liveforecast.h - the live scheduler's forecasts.
 *
 * core/forecaster.h with what a live scheduler hands in: the shipped profiles
 * as priors, and what trainers report and the engine measures. Jobs go by the
 * book's ids, so that what was seen of a job outlives its being put into the
 * round anew.
 */
#ifndef DAEMON_LIVEFORECAST_H
#define DAEMON_LIVEFORECAST_H
#include "core/forecaster.h"

struct liveforecast;

/* `cluster` is borrowed. */
struct liveforecast *liveforecast_new(const struct firn_cluster *cluster);
void liveforecast_free(struct liveforecast *forecast);
/* No job has a lower id than this. Called before any job is named; 0 until
 * then. */
void liveforecast_first(struct liveforecast *forecast, firn_job_id id);

/* How a job goes with what it holds now, by its trainer's report. */
struct liveforecast_run {
    const struct firn_job *job; /* with what it holds, and how far it is */
    double rate;                /* reference seconds a second, > 0 */
    int sharers;                /* other jobs on its GPUs */
    const char *beside;         /* application of the other job, if it is one */
    double step_s; /* of a step; <= 0: these four are not reported */
    int batch, passes, nfrozen;
    const double *variance; /* by layer; NULL: not reported */
    size_t nlayers;
};
void liveforecast_saw(struct liveforecast *forecast, firn_job_id id,
                      const struct liveforecast_run *run);
/* What a GPU of the job needs by its trainer's report; negative: not reported.
 * The most counts. */
void liveforecast_load_seen(struct liveforecast *forecast, firn_job_id id,
                            double memory_mib, double utilisation);
/* How much a GPU of the job, alone on what it holds, is used at present, as the
 * engine measures it; it counts less than the trainer's report, and for other
 * jobs of the application. */
void liveforecast_sampled(struct liveforecast *forecast, firn_job_id id,
                          const struct firn_job *job,
                          const struct firn_load *load);
/* GiB of a GPU by the trainer's report; 0: not reported. */
double liveforecast_memory(struct liveforecast *forecast, firn_job_id id);
void liveforecast_forget(struct liveforecast *forecast, firn_job_id id);
/* The job has reported from GPUs that it had to itself. */
bool liveforecast_is_seen(struct liveforecast *forecast, firn_job_id id);

/* A job with the id it has in the book. */
struct liveforecast_job {
    firn_job_id id;
    const struct firn_job *job;
};
/* The two jobs slowed each other down too much: their slowdown is
 * FORECASTER_BAD from now on. By application; a job that names none counts
 * for itself alone. */
void liveforecast_part(struct liveforecast *forecast, struct liveforecast_job a,
                       struct liveforecast_job b);
/* Bad pairs of applications, over a restart. */
void liveforecast_save(const struct liveforecast *forecast,
                       struct firn_buf *out);
void liveforecast_load_pairs(struct liveforecast *forecast, const char *text);
/* Measured slowdowns of pairs, over a restart. */
void liveforecast_save_slowdowns(const struct liveforecast *forecast,
                                 struct firn_buf *out);
void liveforecast_load_slowdowns(struct liveforecast *forecast,
                                 const char *text);
/* Step times of applications alone on their GPUs, over a restart. */
void liveforecast_save_steps(const struct liveforecast *forecast,
                             struct firn_buf *out);
void liveforecast_load_steps(struct liveforecast *forecast, const char *text);

void liveforecast_each_pair(const struct liveforecast *forecast,
                            forecaster_pair *pair, void *arg);

/* As firn/forecast.h has them, of the job with this id in the book. */
double liveforecast_rate(struct liveforecast *forecast, firn_job_id id,
                         const struct firn_job *job,
                         const struct firn_way *way);
int liveforecast_gpus_max(struct liveforecast *forecast, firn_job_id id,
                          const struct firn_job *job, unsigned tunes);
/* Does the slowdown rest on no measurement? */
bool liveforecast_slowdown_is_guess(struct liveforecast *forecast,
                                    struct liveforecast_job job,
                                    struct liveforecast_job other);
/* With both run in these ways; 0: ways make no difference to this pair. */
double liveforecast_slowdown_in(struct liveforecast *forecast,
                                struct liveforecast_job job,
                                const struct firn_way *way,
                                struct liveforecast_job other,
                                const struct firn_way *other_way);
/* By what the two hold now. */
double liveforecast_slowdown_now(struct liveforecast *forecast,
                                 struct liveforecast_job job,
                                 struct liveforecast_job other);
double liveforecast_slowdown(struct liveforecast *forecast,
                             struct liveforecast_job job,
                             struct liveforecast_job other);
/* `way` NULL: as submitted. */
struct firn_load liveforecast_load(struct liveforecast *forecast,
                                   firn_job_id id, const struct firn_job *job,
                                   const struct firn_way *way);
size_t liveforecast_llm_ways(struct liveforecast *forecast, firn_job_id id,
                             const struct firn_job *job,
                             struct firn_llm_way *out, size_t max);
bool liveforecast_setting(struct liveforecast *forecast, firn_job_id id,
                          const struct firn_job *job,
                          const struct firn_way *way, struct firn_setting *out);
int liveforecast_executors(struct liveforecast *forecast, firn_job_id id,
                           const struct firn_job *job, firn_type_id type,
                           struct firn_executor_ways *out);
/* The executors of the job on the GPUs that it holds, by type; `types` has room
 * for FIRN_TYPES_MAX. False: one everywhere. */
bool liveforecast_lay_out(struct liveforecast *forecast, firn_job_id id,
                          const struct firn_job *job,
                          struct firn_waste_type *types);
/* The profile of its application; NULL: there is none. */
const struct firn_profile *
liveforecast_profile(const struct liveforecast *forecast,
                     const struct firn_job *job);
/* What the job holds, as a way; its `counts` until the next call. */
struct firn_way liveforecast_held(struct liveforecast *forecast, firn_job_id id,
                                  const struct firn_job *job);

#endif
