/* simengine.c - virtual time: jobs progress at constant rates between events.
 *
 * A job that gets GPUs at t makes no progress until t + restart cost (its
 * first start is free unless the cadence charges it), or, where handing over
 * takes time, until the last of its GPUs is free and that cost is over
 * (handover.h); then it gains `rate`
 * reference seconds a second, and completes when it has duration_s of them.
 * A start that is prepared (options->prepares) costs what is left of it. While
 * it lasts, a quiet job (options->quiet_starts) slows no other on its GPUs
 * down; it turns to its rate at its first step, and the others to theirs. At
 * its end (options->ends) a job is neither slowed down nor slows others. A job
 * that is resized without a stop (costs.h) goes on at its old rate while new
 * processes are prepared, and then pauses. A truth may limit a rate to a part
 * of the work; at its end the job turns to another rate, which is reported and
 * asks for no decision.
 *
 * Invariants:
 * (1) done_s is exact at since_s; between events nothing is computed;
 * (2) a job is in `finishes` exactly while it holds GPUs;
 * (3) given = useful + overhead + lost, each summed from the same intervals;
 * (4) equal times come out by kind, then by id.
 *
 * Cost: O(log running) per event.
 */
#include "sim/simengine.h"
#include "base/str.h"
#include "core/accept.h"
#include "sim/costs.h"
#include "sim/sharers.h"
#include "sim/simforecast.h"
#include "sim/taskfeed.h"
#include "sim/transfers.h"
#include "sim/truth_table.h"
#include <math.h>
#include <string.h>

/* As fmin and fmax, which are calls into libm; no argument is NaN. */
static double earlier(double a, double b)
{
    return a < b ? a : b;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* What a start of the job with the GPUs of the step costs it. */
static double start_cost_s(const struct simengine *engine,
                           const struct firn_step *step)
{
    const struct firn_job *job = step->job;
    if (job->starts == 0 && !engine->world.cadence.charges_first_start)
        return 0;
    return costs_restart_s(engine, job);
}

/* Brings a job up to now: (1), (3). */
static void account(struct simengine *engine, struct simjob *sj)
{
    double now_s = engine->world.now_s;
    double begin_s = earlier(later(sj->resumes_s, sj->since_s), now_s);
    double ran_s = now_s - begin_s;
    double left_s = sj->job->spec.duration_s - sj->done_s;
    bool is_done =
        engine->world.cadence.quantum_s > 0 && /* done, not yet seen */
        sj->rate * ran_s > left_s;
    if (is_done)
        ran_s = left_s / sj->rate;
    double idle_s = now_s - sj->since_s - ran_s;
    double every_s = engine->world.options->checkpoint_s;
    if (every_s > 0) {
        double last_s = floor((sj->run_s + ran_s) / every_s) * every_s;
        if (last_s > sj->run_s)
            sj->saved_s = sj->done_s + sj->rate * (last_s - sj->run_s);
    }
    sj->run_s += ran_s;
    sj->done_s =
        is_done ? sj->job->spec.duration_s : sj->done_s + sj->rate * ran_s;
    sj->since_s = now_s;
    engine->world.spent.given += sj->gpus * (idle_s + ran_s);
    engine->world.spent.overhead +=
        sj->gpus * idle_s + (sj->gpus - sj->used_gpus) * ran_s;
    engine->world.spent.useful += sj->used_gpus * ran_s;
    sj->useful += sj->used_gpus * ran_s;
}

/* Back to the last checkpoint: what was done since is lost. */
static void roll_back(struct simengine *engine, struct simjob *sj)
{
    double every_s = engine->world.options->checkpoint_s;
    if (every_s <= 0)
        return;
    double lost_s = sj->run_s - floor(sj->run_s / every_s) * every_s;
    sj->done_s = sj->saved_s;
    engine->world.spent.useful -= sj->used_gpus * lost_s;
    engine->world.spent.lost += sj->used_gpus * lost_s;
    sj->useful -= sj->used_gpus * lost_s;
}

/* What core believes of a job is not the truth. */
static bool is_off(const struct simengine *engine, const struct firn_job *job)
{
    if (noise_is_on(&engine->world.options->noise))
        return true;
    const struct simjob *sj = (size_t)job->slot < engine->jobs.cap
                                  ? &engine->jobs.at[job->slot]
                                  : NULL;
    return sj != NULL && sj->job == job && sj->with > 0;
}

/* Reports to core, with noise on the rate. */
static void report_to_core(struct simengine *engine, struct simjob *sj,
                           struct firn_report report)
{
    const struct firn_sim_noise *size = &engine->world.options->noise;
    if (noise_is_on(size))
        report.rate *= noise_next(&sj->noise, size);
    if (engine->tasks_told != NULL)
        report.rate *= taskfeed_belief(engine->tasks_told, sj);
    struct simreport out = {.event = {.kind = FIRN_EVENT_REPORT,
                                      .at_s = engine->world.now_s,
                                      .job = sj->job->id,
                                      .report = report},
                            .slot = sj->job->slot};
    vec_add(&engine->reports, out);
}

/* Without profiles: by the trace, and by pairs that the user names. */
static double rate_of(const struct simengine *engine, const struct simjob *sj,
                      const struct firn_alloc *alloc,
                      const struct truth_near *near)
{
    const struct truth *truth = &engine->truth;
    const struct firn_sim_options *options = engine->world.options;
    double worst = 0;
    for (int i = 0; i < near->napps && options->npairs > 0; i++) {
        double xi = costs_pair(options, sj->job->spec.app, near->apps[i]);
        worst = later(worst, xi > 0 ? xi : options->share_slowdown);
    }
    if (!(worst > 0))
        return truth->rate(truth, sj->job, alloc, near->sharers);
    return truth->rate(truth, sj->job, alloc, 1) / worst;
}

/* The work behind which it is at its end; infinite: it has none. */
static double ends_from_s(const struct simengine *engine,
                          const struct simjob *sj,
                          const struct firn_alloc *alloc)
{
    const struct firn_sim_options *options = engine->world.options;
    const struct firn_job_spec *spec = &sj->job->spec;
    double end_s = costs_end_s(options, spec->app);
    if (!alloc->is_shared || alloc->how.merged_with != FIRN_NO_JOB ||
        !(end_s > 0))
        return INFINITY;
    return spec->duration_s - end_s;
}

/* Asks the truth; `alloc` is what the job holds. */
static struct truth_pace ask(struct simengine *engine, struct simjob *sj,
                             const struct firn_alloc *alloc)
{
    const struct truth *truth = &engine->truth;
    struct truth_near near;
    struct truth_pace pace = {0, INFINITY};
    sharers_near(engine, sj, &near);
    near.after = sj->after;
    sj->sharers = near.sharers;
    if (engine->tasks_told != NULL) {
        taskfeed_tell(engine->tasks_told, sj, sj->done_s);
        taskfeed_turn(engine->tasks_told, sj, &near);
    }
    if (truth->pace != NULL)
        pace = truth->pace(truth, sj->job, alloc, &near, sj->done_s);
    else
        pace.rate = rate_of(engine, sj, alloc, &near);
    if (!(pace.rate > 0) || !(pace.until_s > sj->done_s))
        FIRN_BUG("job %d goes at rate %g until %g", sj->job->id, pace.rate,
                 pace.until_s);
    if (engine->tasks_told != NULL && !alloc->how.unguarded)
        pace.until_s =
            earlier(pace.until_s, taskfeed_look_s(engine->tasks_told, sj));
    if (!sj->is_ending)
        pace.until_s = earlier(pace.until_s, ends_from_s(engine, sj, alloc));
    return pace;
}

/* Files the completion, or the change of rate before it, and reports the rate
 * to core. */
static void schedule(struct simengine *engine, struct simjob *sj)
{
    const struct firn_job *job = sj->job;
    double begin_s = later(sj->resumes_s, engine->world.now_s);
    sj->is_turning = sj->until_s < job->spec.duration_s;
    double goal_s = sj->is_turning ? sj->until_s : job->spec.duration_s;
    double end_s = begin_s + later(goal_s - sj->done_s, 0) / sj->rate;
    heap_set(&engine->finishes, job->slot,
             sj->is_turning ? end_s
                            : engine->world.cadence.finish_s(
                                  &engine->world.cadence, end_s),
             (uint64_t)job->id);
    sj->reported = (struct firn_report){
        sj->is_ending ? job->spec.duration_s : sj->done_s, sj->rate, begin_s};
    report_to_core(engine, sj, sj->reported);
}

/* Remembers what the job holds, for when the truth is asked again. */
static void keep(struct simjob *sj, const struct firn_alloc *alloc)
{
    if (alloc->is_shared)
        return; /* kept by sharers_join */
    struct firn_part *parts =
        mem_grow(sj->alloc.parts, 0, (size_t)alloc->nparts, sizeof *parts);
    memcpy(parts, alloc->parts, (size_t)alloc->nparts * sizeof *parts);
    sj->alloc = *alloc;
    sj->alloc.parts = parts;
}

/* A job has ended: others may begin with its weights. */
static void leave_weights(struct simengine *engine, const struct firn_job *job)
{
    int task = engine->table ? transfers_task(job->spec.app) : 0;
    if (task == 0)
        return;
    while (engine->tasks.n <= (size_t)job->id)
        vec_add(&engine->tasks, 0);
    engine->tasks.at[job->id] = task;
}

static void start(struct simengine *engine, const struct firn_step *step)
{
    const struct firn_job *job = step->job;
    struct simjob *sj = &engine->jobs.at[job->slot];
    if (job->starts == 0) {
        *sj = (struct simjob){
            .alloc = {.parts = sj->alloc.parts, .how = FIRN_HOW_AS_SUBMITTED}};
        sj->task = engine->table ? transfers_task(job->spec.app) : 0;
        sj->least = INFINITY;
        if (noise_is_on(&engine->world.options->noise))
            sj->noise = noise_of_job(engine->world.options->seed, job->id);
    }
    sj->job = job;
    if (!(sj->done_s > 0))
        sj->after =
            sj->is_lone ? 0 : transfers_left_by(engine, step->to->how.after);
    sj->gpus = sj->used_gpus = step->to->ngpus;
    sj->is_preparing = false;
    double cost_s =
        costs_start_s(engine, job, start_cost_s(engine, step)) -
        earlier(step->to->how.ahead_s, engine->world.options->ahead_s);
    if (costs_is_prepared(engine, job))
        vec_add(&engine->starts, engine->world.now_s);
    sj->since_s = engine->world.now_s;
    double ready_s =
        handover_ready_s(&engine->handover, step->to, engine->world.now_s);
    sj->waited_s += ready_s - engine->world.now_s;
    sj->resumes_s = ready_s + later(cost_s, 0);
    sj->run_s = 0;
    sj->saved_s = sj->done_s;
    bool is_quiet_start = engine->world.options->quiet_starts &&
                          step->to->is_shared &&
                          step->to->how.merged_with == FIRN_NO_JOB &&
                          sj->resumes_s > engine->world.now_s;
    sj->is_ending = sj->done_s >= ends_from_s(engine, sj, step->to);
    sj->is_quiet = is_quiet_start || sj->is_ending;
    sharers_join(engine, sj, step->to);
    if (engine->truth.pace != NULL)
        keep(sj, step->to);
    struct truth_pace pace = ask(engine, sj, step->to);
    sj->rate = pace.rate;
    sj->until_s = is_quiet_start ? sj->done_s : pace.until_s;
    schedule(engine, sj);
}

/* The job has its new GPUs: it goes at their rate when it resumes. */
static void switch_over(struct simengine *engine, struct simjob *sj,
                        const struct firn_alloc *to)
{
    sj->is_preparing = false;
    sj->used_gpus = sj->gpus;
    struct truth_pace pace = ask(engine, sj, to);
    sj->rate = pace.rate;
    sj->until_s = pace.until_s;
    schedule(engine, sj);
}

/* From what it holds to the GPUs of the step without a stop (docs/resize.md):
 * it trains on until new processes are ready, then pauses. A job that does not
 * train yet resumes no earlier than it would have, and then pauses. A stage of
 * its training that ends while it prepares ends with the preparation. */
static void resize(struct simengine *engine, const struct firn_step *step,
                   const struct firn_cost *cost)
{
    struct simjob *sj = &engine->jobs.at[step->job->slot];
    double now_s = engine->world.now_s;
    double ready_s =
        cost->prepare_s + handover_ready_s(&engine->handover, step->to, now_s);
    double usual = sj->is_preparing ? sj->usual_rate : sj->rate;
    int before = sj->is_preparing ? sj->used_gpus : sj->gpus;
    sj->gpus = step->to->ngpus;
    sj->since_s = now_s;
    keep(sj, step->to);
    if (!(ready_s > now_s) || now_s < sj->resumes_s) {
        sj->resumes_s =
            later(later(sj->resumes_s, ready_s), now_s) + cost->pause_s;
        switch_over(engine, sj, step->to);
        return;
    }
    sj->is_preparing = true;
    sj->used_gpus = before < sj->gpus ? before : sj->gpus;
    sj->usual_rate = usual;
    sj->rate = usual / later(cost->slowdown, 1);
    sj->ready_s = ready_s;
    sj->pause_s = cost->pause_s;
    sj->resumes_s = now_s;
    sj->until_s = sj->done_s + sj->rate * (ready_s - now_s);
    schedule(engine, sj);
}

/* When a job that is told so now lets GPUs go: at the end of its mini-batch,
 * and when its checkpoint is written. One that does not run has nothing to
 * end. */
static double lets_go_s(const struct simengine *engine, const struct simjob *sj)
{
    const struct truth *truth = &engine->truth;
    double now_s = engine->world.now_s;
    if (now_s < sj->resumes_s || !(engine->world.options->handover_s > 0))
        return now_s;
    double step_s = truth->step_s != NULL
                        ? truth->step_s(truth, sj->job, &sj->job->held)
                        : 0;
    if (step_s > 0)
        now_s += step_s - fmod(sj->run_s, step_s);
    return now_s + engine->world.options->handover_s;
}

/* Until `now` the job held what it holds; then it does so no longer. `resize`
 * is the cost of a change that is made without a stop; NULL: it stops. */
static void stop(struct simengine *engine, const struct firn_step *step,
                 const struct firn_cost *resize)
{
    struct simjob *sj = &engine->jobs.at[step->job->slot];
    account(engine, sj);
    if (engine->tasks_told != NULL)
        taskfeed_tell(engine->tasks_told, sj, sj->done_s);
    if (engine->handover.free_s != NULL && !step->is_loss)
        handover_leave(&engine->handover, &step->job->held, step->to,
                       resize != NULL ? engine->world.now_s +
                                            resize->prepare_s + resize->pause_s
                                      : lets_go_s(engine, sj));
    if (step->is_loss)
        roll_back(engine, sj);
    sj->is_quiet = sj->is_ending = false;
    sharers_leave(engine, sj);
    heap_remove(&engine->finishes, step->job->slot);
}

static enum firn_status apply(void *state, const struct firn_step *step,
                              struct firn_error *err)
{
    struct simengine *engine = state;
    struct firn_cost cost;
    (void)err;
    engine->world.now_s = step->at_s;
    vec_reserve(&engine->jobs, (size_t)step->job->slot + 1);
    bool is_resize = costs_of_resize(engine, step, &cost);
    if (step->kind != FIRN_STEP_START)
        stop(engine, step, is_resize ? &cost : NULL);
    if (step->kind == FIRN_STEP_STOP &&
        (step->is_loss || is_off(engine, step->job))) {
        /* Core believes the last report; tell it what is left. */
        struct simjob *sj = &engine->jobs.at[step->job->slot];
        report_to_core(
            engine, sj,
            (struct firn_report){sj->done_s, 0, engine->world.now_s});
    }
    if (is_resize)
        resize(engine, step, &cost);
    else if (step->kind != FIRN_STEP_STOP)
        start(engine, step);
    return FIRN_OK;
}

/* Jobs whose neighbours changed go at another rate from now on. */
static void settle(struct simengine *engine)
{
    for (size_t i = 0; i < engine->dirty.n; i++) {
        struct simjob *sj = &engine->jobs.at[engine->dirty.at[i]];
        sj->is_dirty = false;
        bool runs = heap_has(&engine->finishes, engine->dirty.at[i]);
        if (!runs || !sj->alloc.is_shared)
            continue; /* whole GPUs have no neighbours */
        if (engine->truth.pace != NULL)
            account(engine, sj); /* what is done counts there */
        if (!(sj->done_s < sj->until_s))
            continue; /* turns at this very moment */
        struct truth_pace pace = ask(engine, sj, &sj->alloc);
        if (pace.rate == sj->rate && pace.until_s == sj->until_s)
            continue;
        account(engine, sj);
        sj->rate = pace.rate;
        sj->until_s = pace.until_s;
        schedule(engine, sj);
    }
    engine->dirty.n = 0;
}

static enum firn_status settled(void *state, struct firn_error *err)
{
    (void)err;
    settle(state);
    return FIRN_OK;
}

/* Makes the next arrival elastic or willing to share when that is asked for.
 * The GPUs it named stay within its bounds: its duration refers to them. */
static void stretch(const struct firn_sim_options *options,
                    struct firn_job_spec *spec)
{
    if (options->shares)
        spec->may_share = true;
    if (options->elastic_max == 0)
        return;
    spec->gpus_min =
        spec->gpus < options->elastic_min ? spec->gpus : options->elastic_min;
    spec->gpus_max =
        spec->gpus > options->elastic_max ? spec->gpus : options->elastic_max;
}

/* Reads arrivals until one that the cluster can run; false when the trace has
 * failed (err) or is over. */
static bool fetch(struct simengine *engine, struct firn_error *err)
{
    struct job_accept accept = {.resizes = engine->world.resizes};
    char why[JOB_WHY_MAX];
    engine->has_spec = false;
    while (firn_trace_next(engine->world.trace, &engine->spec, err)) {
        bool is_llm = llmjobs_is(&engine->spec);
        if (is_llm && engine->spec.gpus == 0) {
            /* Gives a language model the number of GPUs that its user left
             * open. */
            if (engine->world.options->asks_gpus)
                llmjobs_ask(engine->world.options->cluster, &engine->spec);
            else
                llmjobs_fill(engine->world.options->cluster, &engine->spec);
        }
        stretch(engine->world.options, &engine->spec);
        if (!engine->world.replans)
            planjobs_restrict(&engine->spec);
        if (is_llm && engine->spec.gpus > 0)
            llmjobs_restrict(engine->world.options->cluster, &engine->spec,
                             engine->llm_types);
        if (job_accept(&engine->spec, engine->world.options->cluster, &accept,
                       why)) {
            engine->has_spec = true;
            return true;
        }
        if (firn_trace_refuse(engine->world.trace, &engine->spec, why, err) !=
            FIRN_OK)
            return false;
    }
    engine->is_over = true;
    engine->world.is_drained = true;
    return false;
}

static enum firn_status open_engine(void *state, struct firn_error *err)
{
    struct simengine *engine = state;
    const struct firn_sim_options *options = engine->world.options;
    struct truth base = truth_from_trace(options->cluster, options->scaling,
                                         options->share_slowdown);
    engine->truth = base;
    engine->world.cadence = cadence_every(
        options->interval_s, options->quantum_s, options->charges_first_start);
    struct firn_trace_options reading = {
        .strict = options->strict, .trusts_order = engine->world.trusts_order};
    struct firn_error failed = {0};
    FIRN_TRY(
        firn_trace_open(&engine->world.trace, options->trace, &reading, err));
    if (options->failures != NULL)
        FIRN_TRY(failures_read(&engine->failures, options->failures,
                               options->cluster->nnodes, err));
    else if (options->mtbf_s > 0)
        failures_draw(&engine->failures, options->cluster->nnodes,
                      options->mtbf_s, options->mttr_s, options->seed);
    engine->world.fails_for_ever = failures_are_drawn(&engine->failures);
    if (options->profiles != NULL && strcmp(options->profiles, "none") != 0) {
        FIRN_TRY(truth_table_open(&engine->table, options->profiles,
                                  options->cluster, options->freeze, err));
        FIRN_TRY(
            tables_forecast_by(&engine->table->tables, options->forecast, err));
        if (options->slows_all)
            tables_forget_pairs(&engine->table->tables);
        simforecast_doubt(engine->table, options);
        engine->truth = truth_from_table(
            engine->table, &base, firn_trace_format(engine->world.trace)->name);
    }
    engine->forecast = simforecast_new(&base, engine->table);
    engine->heard_s = -1;
    if (engine->table != NULL)
        engine->tasks_told = taskfeed_new(options->seed, options->transfer_key);
    if (options->handover_s > 0 || options->resizes)
        handover_open(&engine->handover, options->cluster);
    fetch(engine, &failed);
    if (failed.status != FIRN_OK)
        return firn_fail(err, failed.status, "%s", failed.text);
    if (!engine->has_spec) {
        const struct firn_trace_report *report =
            firn_trace_report(engine->world.trace);
        return firn_fail(
            err, FIRN_EINVAL, "%s: not one job that can run; %ld bad rows%s%s",
            options->trace, report->bad, report->bad ? ", the first: " : "",
            report->first_bad[0]);
    }
    return FIRN_OK;
}

static void close_engine(void *state)
{
    struct simengine *engine = state;
    firn_trace_close(engine->world.trace);
    forecaster_free(engine->forecast);
    taskfeed_free(engine->tasks_told);
    truth_table_free(engine->table);
    for (size_t i = 0; i < engine->jobs.cap; i++)
        mem_free(engine->jobs.at[i].alloc.parts);
    vec_release(&engine->jobs);
    vec_release(&engine->reports);
    vec_release(&engine->dirty);
    vec_release(&engine->starts);
    vec_release(&engine->tasks);
    heap_release(&engine->finishes);
    failures_release(&engine->failures);
    handover_close(&engine->handover);
    mem_free(engine->occupants);
    mem_free(engine->first_gpu);
}

static double now_s(void *state)
{
    return ((struct simengine *)state)->world.now_s;
}

/* Hands the next report to core and to the forecaster. Core has applied the
 * step behind it by then, so the job holds the GPUs it reports from. */
static void learn(struct simengine *engine, const struct simreport *report)
{
    const struct simjob *sj = &engine->jobs.at[report->slot];
    struct truth_near near;
    if (engine->table == NULL && !noise_is_on(&engine->world.options->noise))
        return;
    if (sj->with > 0 || sj->is_preparing)
        return; /* not as it would go alone, or on what it holds */
    sharers_near(engine, sj, &near);
    simforecast_learn(engine->forecast, sj->job, &report->event.report, &near);
}

static bool next_report(struct simengine *engine, struct firn_event *out)
{
    if (engine->next_report >= engine->reports.n) {
        engine->reports.n = 0;
        engine->next_report = 0;
        return false;
    }
    const struct simreport *report = &engine->reports.at[engine->next_report++];
    *out = report->event;
    learn(engine, report);
    return true;
}

/* The guard of temporal transfer: a job that the weights of another hurt
 * begins anew on its GPUs, with the base's weights. What it did is lost, and a
 * restart is charged. It is not merged any more. */
static void begin_anew(struct simengine *engine, struct simjob *sj)
{
    struct world *world = &engine->world;
    if (engine->tasks_told == NULL || sj->job->held.how.unguarded)
        return;
    taskfeed_tell(engine->tasks_told, sj, sj->done_s);
    if (!taskfeed_hurts(engine->tasks_told, sj, world->anew,
                        sizeof world->anew))
        return;
    world->spent.useful -= sj->useful;
    world->spent.lost += sj->useful;
    sj->useful = sj->done_s = sj->saved_s = sj->run_s = 0;
    sj->after = 0;
    sj->is_lone = true;
    sj->resumes_s = world->now_s + costs_restart_s(engine, sj->job);
}

/* The job has come to where its rate changes. */
static void turn(struct simengine *engine, struct simjob *sj)
{
    account(engine, sj);
    sj->done_s = sj->until_s;
    if (sj->is_preparing) {
        sj->resumes_s = engine->world.now_s + sj->pause_s;
        switch_over(engine, sj, &sj->alloc);
        return;
    }
    bool was_quiet = sj->is_quiet;
    sj->is_ending = sj->done_s >= ends_from_s(engine, sj, &sj->alloc);
    sj->is_quiet = sj->is_ending;
    if (!was_quiet && !sj->is_ending)
        begin_anew(engine, sj);
    struct truth_pace pace = ask(engine, sj, &sj->alloc);
    sj->rate = pace.rate;
    sj->until_s = pace.until_s;
    schedule(engine, sj);
    if (was_quiet != sj->is_quiet) {
        sharers_touch(engine, sj);
        settle(engine);
    }
}

static void take_finish(struct simengine *engine, struct firn_event *out)
{
    int slot = heap_top(&engine->finishes)->item;
    struct simjob *sj = &engine->jobs.at[slot];
    if (sj->is_turning) {
        turn(engine, sj);
        next_report(engine, out);
        return;
    }
    account(engine, sj);
    heap_remove(&engine->finishes, slot);
    sharers_leave(engine, sj);
    leave_weights(engine, sj->job);
    if (engine->tasks_told != NULL)
        taskfeed_end(engine->tasks_told, sj);
    *out = (struct firn_event){.kind = FIRN_EVENT_DONE,
                               .at_s = engine->world.now_s,
                               .job = sj->job->id};
}

/* Counts a job, and keeps the application of the first of its kind. */
static void count(long *n, char *first, const char *app)
{
    if ((*n)++ == 0)
        str_copy(first, FIRN_NAME_MAX, app);
}

/* Replaces a nominal duration by a measured one; counts jobs without. A job
 * without a duration of its own, of an application without a profile, is an
 * error: nothing of it would be measured. */
static enum firn_status measure(struct simengine *engine,
                                struct firn_error *err)
{
    struct firn_job_spec *spec = &engine->spec;
    const struct truth *truth = &engine->truth;
    struct world *world = &engine->world;
    const struct firn_profiles *profiles =
        &engine->table->tables.known.profiles;
    struct job_accept accept = {.resizes = world->resizes};
    char why[JOB_WHY_MAX];
    if (!job_accept(spec, world->options->cluster, &accept, why) ||
        llmjobs_is(spec) || planjobs_is(spec)) /* its shape says all */
        return FIRN_OK;
    if (spec->is_nominal && spec->app[0] != '\0' &&
        firn_profiles_find(profiles, spec->app, NULL, NULL) == NULL)
        return known_unheard(&engine->table->tables.known,
                             world->options->trace, spec, err);
    double duration_s = truth->duration_s(truth, spec, accept.types);
    if (spec->is_nominal && duration_s > 0) {
        spec->duration_s = duration_s;
        spec->is_nominal = false;
    }
    if (!truth->knows(truth, spec->app))
        count(&world->unprofiled_jobs, world->unprofiled, spec->app);
    if (world->options->freeze > FIRN_SIM_FREEZE_OFF &&
        !truth_table_freezes(engine->table, spec->app, accept.types, 0))
        count(&world->unfrozen_jobs, world->unfrozen, spec->app);
    return FIRN_OK;
}

static void take_arrival(struct simengine *engine, struct firn_event *out)
{
    engine->world.nominal_jobs += engine->spec.is_nominal;
    engine->has_spec = false; /* fetched when next asked */
    *out = (struct firn_event){.kind = FIRN_EVENT_SUBMIT,
                               .at_s = engine->world.now_s,
                               .job = engine->next_id,
                               .spec = &engine->spec};
    const struct firn_sim_options *options = engine->world.options;
    if (options->noise.iterations > 0)
        out->belief = noise_iterations(
            &options->noise, options->seed,
            (struct noise_merge){.id = engine->next_id, .with = FIRN_NO_JOB});
    engine->next_id++;
}

static bool next(void *state, double until_s, struct firn_event *out,
                 struct firn_error *err)
{
    struct simengine *engine = state;
    if (next_report(engine, out))
        return true;
    if (!engine->has_spec && !engine->is_over && !fetch(engine, err) &&
        err->status != FIRN_OK)
        return false;
    const struct heap_item *top = heap_top(&engine->finishes);
    double finish_s = top ? top->key : INFINITY;
    double failure_s = failures_next_s(&engine->failures);
    engine->world.node_change_s = failure_s;
    double submit_s = engine->has_spec ? engine->spec.submit_s : INFINITY;
    double first_s = earlier(finish_s, earlier(failure_s, submit_s));
    if (!(first_s <= until_s) || isinf(first_s)) {
        if (isfinite(until_s))
            engine->world.now_s = later(engine->world.now_s, until_s);
        return false;
    }
    engine->world.now_s = later(engine->world.now_s, first_s);
    if (finish_s <= first_s) /* (4) */
        take_finish(engine, out);
    else if (failure_s <= first_s) {
        struct failure_row row = failures_take(&engine->failures);
        *out = (struct firn_event){.kind = row.is_up ? FIRN_EVENT_NODE_UP
                                                     : FIRN_EVENT_NODE_DOWN,
                                   .at_s = engine->world.now_s,
                                   .node = row.node};
    } else if (engine->table == NULL || measure(engine, err) == FIRN_OK)
        take_arrival(engine, out);
    else
        return false;
    return true;
}

static const struct firn_report *truth_of(const void *state,
                                          const struct firn_job *job)
{
    const struct simengine *engine = state;
    if (!is_off(engine, job))
        return NULL;
    return &engine->jobs.at[job->slot].reported;
}

static double waited_s(const void *state, const struct firn_job *job)
{
    const struct simengine *engine = state;
    return (size_t)job->slot < engine->jobs.cap
               ? engine->jobs.at[job->slot].waited_s
               : 0;
}

static int ahead_s(void *state)
{
    const struct simengine *engine = state;
    return (int)engine->world.options->ahead_s;
}

const struct firn_engine_def simengine_def = {
    .name = "sim",
    .summary = "virtual time over a trace",
    .gives = FIRN_NEED_DURATION | FIRN_NEED_TYPES | FIRN_NEED_FORECAST,
    .forecast = &simengine_forecast,
    .state_size = sizeof(struct simengine),
    .open = open_engine,
    .close = close_engine,
    .now_s = now_s,
    .apply = apply,
    .settled = settled,
    .next = next,
    .ahead_s = ahead_s,
};

const struct firn_world_def world_honest = {
    .name = "honest",
    .summary = "event-driven, every cost charged",
    .engine = &simengine_def,
    .truth_of = truth_of,
    .waited_s = waited_s,
};
