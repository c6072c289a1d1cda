/* liveforecast.h - what the live scheduler expects of jobs, for policies.
 *
 * Behind firn/forecast.h. Jobs are known here by the book's ids, so that what
 * was seen of one outlives its being put into the round anew; liveforecast.c
 * says how expectation and observation go together.
 */
#ifndef DAEMON_LIVEFORECAST_H
#define DAEMON_LIVEFORECAST_H
#include <firn/forecast.h>

struct liveforecast;

/* `cluster` is borrowed. */
struct liveforecast *liveforecast_new(const struct firn_cluster *cluster);
void liveforecast_free(struct liveforecast *forecast);
/* No job has a lower id than this; before any is told of. 0 at first. */
void liveforecast_first(struct liveforecast *forecast, firn_job_id id);

/* How a job went with what it holds now. */
struct liveforecast_run {
    const struct firn_job *job; /* with what it holds */
    double rate;                /* reference seconds a second, > 0 */
    int sharers;                /* others on its GPUs */
    const char *beside;         /* the other one's app, if it is one; "" */
    double step_s;              /* of a step; <= 0: no word on these four */
    int batch, passes, nfrozen;
};
void liveforecast_saw(struct liveforecast *forecast, firn_job_id id,
                      const struct liveforecast_run *run);
/* What a GPU of it was seen to need; negative: no word. The most counts. */
void liveforecast_load_seen(struct liveforecast *forecast, firn_job_id id,
                            double memory_mib, double utilisation);
/* What a GPU of it, alone on what it holds, is seen to be used at present; it
 * counts less than the job's own word, and for others of its application. */
void liveforecast_sampled(struct liveforecast *forecast, firn_job_id id,
                          const struct firn_job *job,
                          const struct firn_load *load);
/* GiB; 0: nothing was seen. */
double liveforecast_memory(const struct liveforecast *forecast, firn_job_id id);
void liveforecast_forget(struct liveforecast *forecast, firn_job_id id);
/* Was it ever seen alone on GPUs? */
bool liveforecast_is_seen(const struct liveforecast *forecast, firn_job_id id);

/* A job with the id it has in the book. */
struct liveforecast_job {
    firn_job_id id;
    const struct firn_job *job;
};
/* The two were bad for each other: their slowdown is LIVEFORECAST_BAD from now
 * on. By application; a job that names none counts for itself alone. */
#define LIVEFORECAST_BAD 1e6
void liveforecast_part(struct liveforecast *forecast, struct liveforecast_job a,
                       struct liveforecast_job b);
/* Bad pairs of applications, over a restart. */
void liveforecast_save(const struct liveforecast *forecast,
                       struct firn_buf *out);
void liveforecast_load_pairs(struct liveforecast *forecast, const char *text);

/* As firn/forecast.h has them, of the job with this id in the book. */
double liveforecast_rate(const struct liveforecast *forecast, firn_job_id id,
                         const struct firn_job *job,
                         const struct firn_way *way);
int liveforecast_gpus_max(const struct liveforecast *forecast, firn_job_id id,
                          const struct firn_job *job, unsigned tunes);
double liveforecast_slowdown(const struct liveforecast *forecast,
                             struct liveforecast_job job,
                             struct liveforecast_job other);
/* In one pass, whatever the way says. */
struct firn_load liveforecast_load(const struct liveforecast *forecast,
                                   firn_job_id id, const struct firn_job *job,
                                   const struct firn_way *way);
size_t liveforecast_llm_ways(const struct liveforecast *forecast,
                             firn_job_id id, const struct firn_job *job,
                             struct firn_llm_way *out, size_t max);
/* What it holds, as a way. */
struct firn_way liveforecast_held(const struct liveforecast *forecast,
                                  const struct firn_job *job);

#endif
