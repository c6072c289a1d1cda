/* costs.c - restarts and resizes: whose number holds.
 *
 * Restart: --restart-cost all=TIME; else APP=TIME of the application; else
 * what the trace or the profile has (spec.restart_s); else --restart-cost TIME.
 * Resize: --resize-cost all=TIME; else APP=TIME; else what the profile has
 * measured; else --resize-cost TIME; else, and without --resize-cost, none: the
 * job is restarted.
 *
 * (1) A step is a resize if the engine of a host would make it one: the job
 *     runs, has no GPU shared before and after, is run in the same way and by
 *     itself, and its trainer can (FIRN_CAN_JOIN).
 * (2) A change to a part of the GPUs that the job has starts no process: no
 *     time to prepare.
 * (3) An engine that does part of a start ahead (--ahead) does as much of the
 *     preparation of a resize, under every policy: it orders the new processes
 *     itself, and starts them as it starts others.
 *
 * Cost: O(applications named) and a search of the profiles.
 */
#include "sim/costs.h"
#include "sim/truth_table.h"
#include <math.h>
#include <string.h>

double costs_restart_s(const struct simengine *engine,
                       const struct firn_job *job)
{
    const struct firn_sim_options *options = engine->world.options;
    if (options->restart_is_all)
        return options->restart_s;
    for (size_t i = 0; i < options->nrestarts; i++)
        if (strcmp(options->restarts[i].app, job->spec.app) == 0)
            return options->restarts[i].cost_s;
    return job->spec.restart_s >= 0 ? job->spec.restart_s : options->restart_s;
}

/* What is left of a start that was prepared in time; NULL: the engine does not
 * prepare jobs of this application. */
static const struct firn_restart_cost *prepared(const struct simengine *engine,
                                                const struct firn_job *job)
{
    const struct firn_sim_options *options = engine->world.options;
    for (size_t i = 0; i < options->nprepared && options->prepares > 0; i++)
        if (strcmp(options->prepared[i].app, job->spec.app) == 0)
            return &options->prepared[i];
    return NULL;
}

bool costs_is_prepared(const struct simengine *engine,
                       const struct firn_job *job)
{
    return prepared(engine, job) != NULL;
}

double costs_start_s(const struct simengine *engine, const struct firn_job *job,
                     double cost_s)
{
    const struct firn_restart_cost *least = prepared(engine, job);
    double came_s = job->starts == 0 ? job->spec.submit_s
                                     : engine->jobs.at[job->slot].since_s;
    size_t n = engine->starts.n;
    size_t most = (size_t)engine->world.options->prepares;
    if (least == NULL)
        return cost_s;
    if (n >= most && engine->starts.at[n - most] > came_s)
        came_s = engine->starts.at[n - most];
    double left_s = cost_s - fmax(engine->world.now_s - came_s, 0);
    return fmax(left_s, fmin(least->cost_s, cost_s));
}

/* Without what is done ahead. */
static bool whole_resize(const struct simengine *engine,
                         const struct firn_job *job, struct firn_cost *out)
{
    const struct firn_sim_options *options = engine->world.options;
    *out = (struct firn_cost){options->resize_s, options->resize_prepare_s,
                              options->resize_slowdown};
    if (options->resize_is_all)
        return out->pause_s >= 0;
    for (size_t i = 0; i < options->nresize_costs; i++)
        if (strcmp(options->resize_costs[i].app, job->spec.app) == 0) {
            *out = options->resize_costs[i].cost;
            return true;
        }
    const struct firn_profile *profile =
        engine->table != NULL ? known_find(&engine->table->tables.known,
                                           job->spec.app, job->type_mask)
                                    .profile
                              : NULL;
    if (profile != NULL && profile->resize.pause_s >= 0)
        *out = profile->resize;
    return out->pause_s >= 0;
}

bool costs_resize(const struct simengine *engine, const struct firn_job *job,
                  struct firn_cost *out)
{
    const struct firn_sim_options *options = engine->world.options;
    if (!options->resizes || !firn_job_can(job, FIRN_CAN_JOIN) ||
        !whole_resize(engine, job, out))
        return false;
    out->prepare_s = fmax(out->prepare_s - options->ahead_s, 0); /* (3) */
    return true;
}

/* Are all GPUs of `to` among those of `from`? */
static bool is_part(const struct firn_alloc *to, const struct firn_alloc *from)
{
    for (int i = 0; i < to->nparts; i++) {
        const struct firn_part *part = &to->parts[i];
        uint64_t left = part->gpus;
        for (int k = 0; k < from->nparts; k++)
            if (from->parts[k].node == part->node &&
                from->parts[k].board == part->board)
                left &= ~from->parts[k].gpus;
        if (left != 0)
            return false;
    }
    return true;
}

bool costs_of_resize(const struct simengine *engine,
                     const struct firn_step *step, struct firn_cost *out)
{
    const struct firn_alloc *held = &step->job->held;
    bool is_change =
        step->kind == FIRN_STEP_RESIZE || step->kind == FIRN_STEP_MOVE;
    if (!is_change || held->nparts == 0 || held->is_shared ||
        step->to->is_shared || !firn_how_equal(&held->how, &step->to->how) ||
        held->how.merged_with != FIRN_NO_JOB ||
        !costs_resize(engine, step->job, out)) /* (1) */
        return false;
    if (is_part(step->to, held)) /* (2) */
        out->prepare_s = 0;
    return true;
}

double costs_end_s(const struct firn_sim_options *options, const char *app)
{
    for (size_t i = 0; i < options->nends; i++)
        if (strcmp(options->ends[i].app, app) == 0)
            return options->ends[i].cost_s;
    return 0;
}

double costs_pair(const struct firn_sim_options *options, const char *app,
                  const char *other)
{
    for (size_t i = 0; i < options->npairs; i++)
        if (strcmp(options->pairs[i].app, app) == 0 &&
            strcmp(options->pairs[i].other, other) == 0)
            return options->pairs[i].slowdown;
    return 0;
}

void costs_forecast(void *state, const struct firn_job *job,
                    struct firn_costs *out)
{
    const struct simengine *engine = state;
    out->restart = (struct firn_cost){.pause_s = costs_restart_s(engine, job)};
    out->can_resize = costs_resize(engine, job, &out->resize);
    if (engine->world.cadence.charges_first_start)
        out->first_s = out->restart.pause_s;
    out->end_s = costs_end_s(engine->world.options, job->spec.app);
    out->idle_s = out->end_s; /* part of the duration */
    out->nprepared = engine->world.options->prepares;
    if (engine->world.options->prepares == 0 || job->held.nparts > 0 ||
        (job->starts == 0 && !engine->world.cadence.charges_first_start))
        return;
    out->is_saved_known = true;
    out->saved_s =
        out->restart.pause_s - costs_start_s(engine, job, out->restart.pause_s);
}
