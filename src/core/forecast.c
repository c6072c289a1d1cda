/* forecast.c - a policy's questions, passed on to the engine.
 *
 * Keeps answers within what a policy may rely on: a rate is never negative,
 * a limit never beyond the job's own or what is up, and no way is answered that
 * the job's trainer cannot obey (firn/can.h): its rate is 0, and a tuning that
 * the trainer lacks is not counted. So a policy need not ask what a job can do.
 */
#include <firn/forecast.h>

#include "core/state.h"
#include <firn/parallel.h>
#include <math.h>

/* Would its trainer have to do what it cannot? */
static bool is_beyond(const struct firn_job *job, const struct firn_way *way)
{
    struct firn_how how = FIRN_HOW_AS_SUBMITTED;
    how.passes = way->passes;
    how.tensor = way->tensor;
    how.parallel = way->parallel;
    how.stages = way->stages;
    return firn_job_lacks(job, &how) != 0;
}

/* The way with the tunings that the job's trainer has. */
static struct firn_way as_able(const struct firn_job *job,
                               const struct firn_way *way)
{
    struct firn_way able = *way;
    able.tunes = firn_job_tunes(job, way->tunes);
    return able;
}

double firn_view_rate(const struct firn_view *view, const struct firn_job *job,
                      const struct firn_way *way)
{
    if (view->forecast == NULL || view->forecast->rate == NULL)
        return (double)NAN;
    if (job->spec.cannot != 0 && is_beyond(job, way))
        return 0;
    struct firn_way able = as_able(job, way);
    double rate =
        view->forecast->rate(view->forecaster, job, &able, view->now_s);
    if (rate < 0)
        FIRN_BUG("job %d is forecast to go at rate %g", job->id, rate);
    return rate;
}

double firn_view_left_s(const struct firn_view *view,
                        const struct firn_job *job, const struct firn_way *way)
{
    const struct firn_forecast_def *forecast = view->forecast;
    if (job->spec.cannot != 0 && is_beyond(job, way))
        return INFINITY;
    struct firn_way able = as_able(job, way);
    if (forecast != NULL && forecast->left_s != NULL)
        return forecast->left_s(view->forecaster, job, &able, view->now_s);
    double left_s = firn_job_work_left_s(job, view->now_s);
    double rate = firn_view_rate(view, job, way);
    return rate == 0 ? INFINITY : left_s / rate;
}

/* The most GPUs that are up of those it can have at once. */
static int gpus_at_once(const struct firn_view *view,
                        const struct firn_job *job)
{
    const struct state *state = view->state;
    int most = 0;
    if (!job->spec.one_type)
        return view->gpus_up;
    for (int t = 0; t < view->cluster->ntypes; t++)
        if ((job->type_mask >> t & 1) && state->map.types[t].up > most)
            most = state->map.types[t].up;
    return most;
}

int firn_view_gpus_max(const struct firn_view *view, const struct firn_job *job,
                       unsigned tunes)
{
    const struct firn_forecast_def *forecast = view->forecast;
    int most = job->spec.gpus_max;
    if (forecast != NULL && forecast->gpus_max != NULL) {
        int useful = forecast->gpus_max(view->forecaster, job,
                                        firn_job_tunes(job, tunes));
        most = useful < most ? useful : most;
    }
    int up = gpus_at_once(view, job);
    most = up < most ? up : most;
    if (job->gpus_cap > 0 && job->gpus_cap < most)
        most = job->gpus_cap;
    return most > job->spec.gpus_min ? most : job->spec.gpus_min;
}

double firn_view_slowdown(const struct firn_view *view,
                          const struct firn_job *job,
                          const struct firn_job *other)
{
    const struct firn_forecast_def *forecast = view->forecast;
    if (forecast == NULL || forecast->slowdown == NULL)
        return (double)NAN;
    return forecast->slowdown(view->forecaster, job, other);
}

bool firn_view_slowdown_is_guess(const struct firn_view *view,
                                 const struct firn_job *job,
                                 const struct firn_job *other)
{
    const struct firn_forecast_def *forecast = view->forecast;
    return forecast != NULL && forecast->is_guess != NULL &&
           forecast->is_guess(view->forecaster, job, other);
}

double firn_view_slowdown_in(const struct firn_view *view,
                             const struct firn_job *job,
                             const struct firn_way *way,
                             const struct firn_job *other,
                             const struct firn_way *other_way)
{
    const struct firn_forecast_def *forecast = view->forecast;
    if (forecast == NULL || forecast->slowdown_in == NULL)
        return 0;
    return forecast->slowdown_in(view->forecaster, job, way, other, other_way);
}

struct firn_load firn_view_load(const struct firn_view *view,
                                const struct firn_job *job,
                                const struct firn_way *way)
{
    const struct firn_forecast_def *forecast = view->forecast;
    struct firn_way submitted = {.gpus = job->spec.gpus, .type = FIRN_ANY_TYPE};
    if (forecast == NULL || forecast->load == NULL)
        return (struct firn_load){(double)NAN, (double)NAN};
    submitted = as_able(job, way ? way : &submitted);
    return forecast->load(view->forecaster, job, &submitted);
}

bool firn_view_setting(const struct firn_view *view, const struct firn_job *job,
                       const struct firn_way *way, struct firn_setting *out)
{
    const struct firn_forecast_def *forecast = view->forecast;
    struct firn_way able = as_able(job, way);
    *out = (struct firn_setting){0, -1, 1};
    if (forecast == NULL || forecast->setting == NULL || able.tunes == 0 ||
        !forecast->setting(view->forecaster, job, &able, out))
        return false;
    if ((able.tunes & FIRN_TUNE_BATCH) == 0)
        out->batch = 0;
    if ((able.tunes & FIRN_TUNE_FREEZE) == 0) {
        out->nfrozen = -1;
        out->psi = 1;
    }
    return out->batch > 0 || out->nfrozen >= 0;
}

size_t firn_view_llm_ways(const struct firn_view *view,
                          const struct firn_job *job, struct firn_llm_way *out,
                          size_t max)
{
    const struct firn_forecast_def *forecast = view->forecast;
    if (forecast == NULL || forecast->llm_ways == NULL)
        return 0;
    size_t n = forecast->llm_ways(view->forecaster, job, out, max), kept = 0;
    if (firn_job_can(job, FIRN_CAN_TENSOR | FIRN_CAN_SHARDED | FIRN_CAN_PASSES |
                              FIRN_CAN_ZERO | FIRN_CAN_RECOMPUTE |
                              FIRN_CAN_OFFLOAD))
        return n;
    for (size_t i = 0; i < n && i < max; i++)
        if (!is_beyond(job, &out[i].way))
            out[kept++] = out[i];
    return kept;
}

unsigned firn_view_parallels(const struct firn_view *view,
                             const struct firn_job *job)
{
    const struct firn_forecast_def *forecast = view->forecast;
    if (forecast == NULL || forecast->parallels == NULL)
        return 0;
    unsigned all = forecast->parallels(view->forecaster, job), can = all;
    if (!firn_job_can(job, FIRN_CAN_SHARDED))
        can &= ~(1u << FIRN_PARALLEL_SHARDED | 1u << FIRN_PARALLEL_OFFLOAD);
    if (!firn_job_can(job, FIRN_CAN_OFFLOAD))
        can &= ~(1u << FIRN_PARALLEL_OFFLOAD);
    if (!firn_job_can(job, FIRN_CAN_RECOMPUTE))
        can &= ~(1u << FIRN_PARALLEL_RECOMPUTE);
    if (!firn_job_can(job, FIRN_CAN_PIPELINE))
        can &= ~(1u << FIRN_PARALLEL_PIPELINE);
    /* Without any of its ways the job is run as submitted. */
    return can;
}

bool firn_view_merge(const struct firn_view *view, const struct firn_job *a,
                     const struct firn_job *b, enum firn_merge_kind kind,
                     const struct firn_way *way, struct firn_merge *out)
{
    const struct firn_forecast_def *forecast = view->forecast;
    if (forecast == NULL || forecast->merge == NULL || a == b ||
        !a->spec.may_merge || !b->spec.may_merge ||
        (kind == FIRN_MERGE_TOGETHER && !firn_job_may_merge(a, b)) ||
        (kind == FIRN_MERGE_AFTER && !firn_job_can(b, FIRN_CAN_AFTER)))
        return false;
    return forecast->merge(view->forecaster, a, b, kind, way, view->now_s, out);
}

bool firn_view_after(const struct firn_view *view, firn_job_id from,
                     const struct firn_job *job, struct firn_after *out)
{
    const struct firn_forecast_def *forecast = view->forecast;
    if (forecast == NULL || forecast->after == NULL || from == FIRN_NO_JOB ||
        !job->spec.may_merge || !firn_job_can(job, FIRN_CAN_AFTER))
        return false;
    return forecast->after(view->forecaster, from, job, out);
}

struct firn_costs firn_view_costs(const struct firn_view *view,
                                  const struct firn_job *job)
{
    const struct firn_forecast_def *forecast = view->forecast;
    struct firn_costs costs = {.restart = {.pause_s = -1},
                               .resize = {.pause_s = -1}};
    if (forecast != NULL && forecast->costs != NULL)
        forecast->costs(view->forecaster, job, &costs);
    if (costs.restart.pause_s < 0)
        costs.restart = (struct firn_cost){
            .pause_s = job->spec.restart_s >= 0 ? job->spec.restart_s
                                                : FIRN_RESTART_GUESS_S};
    if (costs.resize.pause_s < 0 || !firn_job_can(job, FIRN_CAN_JOIN))
        costs.can_resize = false;
    if (!costs.can_resize)
        costs.resize = costs.restart;
    return costs;
}

double firn_view_change_s(const struct firn_view *view,
                          const struct firn_job *job, double guess_s)
{
    struct firn_costs costs = firn_view_costs(view, job);
    if (costs.can_resize && job->held.nparts > 0 && !job->held.is_shared)
        return firn_cost_lost_s(&costs.resize);
    if (costs.is_seen)
        return costs.restart.pause_s;
    return job->spec.restart_s >= 0 ? job->spec.restart_s : guess_s;
}

int firn_view_executors(const struct firn_view *view,
                        const struct firn_job *job, firn_type_id type,
                        struct firn_executor_ways *out)
{
    const struct firn_forecast_def *forecast = view->forecast;
    out->n = 0;
    if (forecast == NULL || forecast->executors == NULL ||
        !(firn_job_tunes(job, FIRN_TUNE_EXECUTORS) & FIRN_TUNE_EXECUTORS))
        return 0;
    return forecast->executors(view->forecaster, job, type, out);
}
