/* adaptdlrounds.c - rounds: advance the jobs, report events, decide.
 *
 * Invariants:
 * (1) all jobs are advanced to the same multiple of the round, `round_s`, and
 *     every event before it is reported before a decision is made there;
 * (2) a job is in `running` exactly while it holds GPUs and is not done;
 * (3) at a decision core knows a job's true progress, and when it resumes.
 *
 * Cost: O(running) a round; rounds in which nothing runs are passed over.
 */
#include "compat/adaptdlrounds.h"
#include "base/mem.h"
#include "core/accept.h"
#include <math.h>
#include <stdlib.h>

double adlrun_in_reference_s(const struct adlrun *run, double progress)
{
    const struct adlapp *app = run->job.app;
    return progress / app->progress[app->epochs] * run->duration_s;
}

/* ---- a round ---- */

static void tell(struct adlrounds *rounds, enum firn_event_kind kind,
                 firn_job_id id, double at_s, struct firn_report report)
{
    struct firn_event event = {
        .kind = kind, .at_s = at_s, .job = id, .report = report};
    vec_add(&rounds->events, event);
}

/* Reports a job's rate in the round that begins at round_s: (3). Core
 * extrapolates the last report, so none is needed as long as that is right. */
static void report(struct adlrounds *rounds, firn_job_id id,
                   const struct adlstride *stride, struct firn_report now)
{
    struct adlrun *run = rounds->runs.at[id];
    const struct firn_report *last = &run->reported;
    double start_s = rounds->round_s;
    now.rate =
        stride->train_s > 0
            ? adlrun_in_reference_s(run, stride->gained) / stride->train_s
            : 0;
    double waits_s = fmax(0, start_s - last->resumes_s);
    bool holds = fabs(last->done_s + last->rate * waits_s - now.done_s) <=
                     1e-9 * run->duration_s &&
                 fabs(last->rate - now.rate) <= 1e-12 * now.rate &&
                 (now.resumes_s == last->resumes_s ||
                  (now.resumes_s == start_s && last->resumes_s < start_s));
    if (holds)
        return;
    run->reported = now;
    tell(rounds, FIRN_EVENT_REPORT, id, start_s, now);
}

static int by_time(const void *a, const void *b)
{
    const struct firn_event *x = a, *y = b;
    if (x->at_s != y->at_s)
        return x->at_s < y->at_s ? -1 : 1;
    if (x->kind != y->kind) /* the rate before the end */
        return x->kind == FIRN_EVENT_REPORT ? -1 : 1;
    return (x->job > y->job) - (x->job < y->job);
}

/* Advances one job by a round; false when it is done. */
static bool advance_one(struct adlrounds *rounds, firn_job_id id)
{
    struct adlrun *run = rounds->runs.at[id];
    struct world_spent *spent = &rounds->world.spent;
    struct firn_report now = {
        .done_s = adlrun_in_reference_s(run, run->job.progress),
        .resumes_s = rounds->round_s + run->job.countdown_s};
    struct adlstride stride = adljob_advance(&run->job, rounds->interval_s);
    double held_s = stride.idle_s + stride.train_s;
    spent->given += run->job.place.gpus * held_s;
    spent->overhead += run->job.place.gpus * stride.idle_s;
    spent->useful += run->job.place.gpus * stride.train_s;
    report(rounds, id, &stride, now);
    if (run->job.is_done)
        tell(rounds, FIRN_EVENT_DONE, id, rounds->round_s + held_s,
             (struct firn_report){0});
    return !run->job.is_done;
}

static void advance(struct adlrounds *rounds)
{
    size_t kept = 0;
    rounds->events.n = rounds->next_event = 0;
    for (size_t i = 0; i < rounds->running.n; i++)
        if (advance_one(rounds, rounds->running.at[i]))
            rounds->running.at[kept++] = rounds->running.at[i]; /* (2) */
    rounds->running.n = kept;
    rounds->round_s += rounds->interval_s;
    if (rounds->events.n > 1)
        qsort(rounds->events.at, rounds->events.n, sizeof *rounds->events.at,
              by_time);
}

/* Skips whole rounds while nothing runs. */
static void skip_rounds(struct adlrounds *rounds, double until_s)
{
    double every_s = rounds->interval_s, to_s = until_s;
    if (rounds->has_spec)
        to_s = fmin(to_s, rounds->spec.submit_s);
    rounds->events.n = rounds->next_event = 0;
    rounds->round_s =
        fmax(ceil(to_s / every_s) * every_s, rounds->round_s + every_s);
}

/* ---- arrivals ---- */

/* Reads arrivals up to one that the cluster can run; false when the workload is
 * over or cannot be read (err). */
static bool fetch(struct adlrounds *rounds, struct firn_error *err)
{
    struct job_accept accept = {0};
    char why[JOB_WHY_MAX];
    struct firn_error failed = {0};
    struct firn_job_spec *spec = &rounds->spec;
    const struct firn_sim_options *options = rounds->world.options;
    rounds->has_spec = false;
    while (firn_trace_next(rounds->world.trace, spec, err)) {
        if (!job_accept(spec, options->cluster, &accept, why)) {
            if (firn_trace_refuse(rounds->world.trace, spec, why, err) !=
                FIRN_OK)
                return false;
            continue;
        }
        if (rounds->find(rounds, &failed) != FIRN_OK) {
            firn_fail(err, failed.status, "%s: line %ld: %s", options->trace,
                      spec->line, failed.text);
            return false;
        }
        rounds->has_spec = true;
        return true;
    }
    if (err->status == FIRN_OK)
        rounds->is_over = rounds->world.is_drained = true;
    return false;
}

/* Submits the next arrival. */
static void submit(struct adlrounds *rounds, struct firn_event *out)
{
    struct firn_job_spec *spec = &rounds->spec;
    struct adlrun *run = rounds->arrive(rounds);
    spec->duration_s = run->duration_s;
    spec->is_nominal = false;
    *out = (struct firn_event){.kind = FIRN_EVENT_SUBMIT,
                               .at_s = spec->submit_s,
                               .job = (firn_job_id)rounds->runs.n,
                               .spec = spec};
    vec_add(&rounds->runs, run);
    rounds->has_spec = false;
}

/* ---- the engine ---- */

bool adlrounds_next(void *state, double until_s, struct firn_event *out,
                    struct firn_error *err)
{
    struct adlrounds *rounds = state;
    for (;;) {
        if (!rounds->has_spec && !rounds->is_over && !fetch(rounds, err) &&
            err->status != FIRN_OK)
            return false;
        double event_s = rounds->next_event < rounds->events.n
                             ? rounds->events.at[rounds->next_event].at_s
                             : INFINITY;
        double submit_s = rounds->has_spec ? rounds->spec.submit_s : INFINITY;
        double limit_s = fmin(until_s, rounds->round_s);
        if (fmin(event_s, submit_s) <= limit_s) {
            if (event_s <= submit_s)
                *out = rounds->events.at[rounds->next_event++];
            else
                submit(rounds, out);
            rounds->world.now_s = fmax(rounds->world.now_s, out->at_s);
            return true;
        }
        if (until_s <= rounds->round_s) {
            rounds->world.now_s = fmax(rounds->world.now_s, until_s);
            return false;
        }
        if (rounds->running.n > 0)
            advance(rounds);
        else if (rounds->has_spec || isfinite(until_s))
            skip_rounds(rounds, until_s);
        else
            return false;
    }
}

double adlrounds_now_s(void *state)
{
    return ((struct adlrounds *)state)->world.now_s;
}

/* Decisions are made at the time to which the jobs are advanced. */
static double decide_s(const struct cadence *cadence, double now_s)
{
    const char *at = (const char *)cadence - offsetof(struct world, cadence);
    const struct adlrounds *rounds = (const struct adlrounds *)(const void *)at;
    return fmax(rounds->round_s, now_s);
}

enum firn_status adlrounds_open(struct adlrounds *rounds,
                                struct firn_error *err)
{
    struct world *world = &rounds->world;
    const struct firn_sim_options *options = world->options;
    struct firn_trace_options reading = {.strict = options->strict,
                                         .trusts_order = world->trusts_order};
    struct firn_error failed = {0};
    rounds->interval_s = options->interval_s > 0 ? options->interval_s
                                                 : world->policy->interval_s;
    rounds->round_s = rounds->interval_s;
    world->cadence = cadence_every(rounds->interval_s, 0, true);
    world->cadence.decide_s = decide_s;
    FIRN_TRY(firn_trace_open(&world->trace, options->trace, &reading, err));
    if (fetch(rounds, &failed))
        return FIRN_OK;
    if (failed.status != FIRN_OK)
        return firn_fail(err, failed.status, "%s", failed.text);
    const struct firn_trace_report *report = firn_trace_report(world->trace);
    return firn_fail(err, FIRN_EINVAL,
                     "%s: not one job that can run; %ld bad rows%s%s",
                     options->trace, report->bad,
                     report->bad ? ", the first: " : "", report->first_bad[0]);
}

void adlrounds_close(struct adlrounds *rounds)
{
    firn_trace_close(rounds->world.trace);
    for (size_t i = 0; i < rounds->runs.n; i++) {
        adljob_release(&rounds->runs.at[i]->job);
        mem_free(rounds->runs.at[i]);
    }
    vec_release(&rounds->runs);
    vec_release(&rounds->running);
    vec_release(&rounds->events);
}

struct adlrun *adlrounds_step(struct adlrounds *rounds,
                              const struct firn_step *step)
{
    struct adlrun *run = rounds->runs.at[step->job->id];
    rounds->world.now_s = step->at_s;
    run->reported.rate = NAN; /* core has forgotten it */
    if (step->kind == FIRN_STEP_STOP) {
        size_t kept = 0;
        adljob_clear(&run->job);
        for (size_t i = 0; i < rounds->running.n; i++)
            if (rounds->running.at[i] != step->job->id)
                rounds->running.at[kept++] = rounds->running.at[i];
        rounds->running.n = kept;
    } else if (step->kind == FIRN_STEP_START) {
        vec_add(&rounds->running, step->job->id);
    }
    return run;
}
