/* dryrun_pace.c - how fast jobs go in a simulated future, and when they begin.
 *
 *   start     a job that gets GPUs makes no progress for the time that starts
 *             of its application took here, less what an engine that prepares
 *             starts will have done of it; one that runs and has not reported
 *             yet began when its attempt did
 *   change    a job that gets other GPUs pays for a resize without a stop, or
 *             for a stop and a start, as measured
 *   rate      as it reports, by the clock, or as forecast. A duration that its
 *             user gave is multiplied by what those of the application were
 *             wrong by; its start and its end are a part of it
 *   sharing   its rate alone, over the slowdown beside the job on its GPUs: by
 *             measured pairs, and anew when that job makes its first step or
 *             its last one, or goes
 *   end       a job holds its GPUs for some time behind its last step, and
 *             slows no other job down any more
 *
 * What was not measured yet costs nothing. A duration that was guessed from
 * the whole time of past jobs has start and end in it already.
 *
 * Invariant: `alone` is a running job's rate without neighbours; 0: not known.
 * Cost: O(running jobs^2) for those that share, at each event.
 */
#include "base/log.h"
#include "daemon/dryrunwork.h"
#include <math.h>

void dryrun_pace_open(struct dryrun *dry)
{
    dry->npaces = dry->loop->desk.books.n + 2;
    dry->paces = mem_new(dry->npaces, sizeof *dry->paces);
}

void dryrun_pace_close(struct dryrun *dry)
{
    mem_free(dry->paces);
    dry->paces = NULL;
    dry->npaces = 0;
}

static struct dryrun_pace *pace_of(const struct dryrun *dry,
                                   const struct firn_job *job)
{
    return job->id >= 0 && (size_t)job->id < dry->npaces ? &dry->paces[job->id]
                                                         : NULL;
}

/* A mean that was measured of its application, 0 if none was. */
static double measured_s(const struct dryrun *dry, const struct firn_job *job,
                         enum livecost which)
{
    if (job->spec.is_nominal)
        return 0;
    return fmax(livecosts_mean(dry->loop->desk.costs, job->spec.app, which), 0);
}

double dryrun_end_s(const struct dryrun *dry, const struct firn_job *job)
{
    return measured_s(dry, job, LIVECOST_END);
}

/* --- costs ---------------------------------------------------------------- */

/* A start, behind processes that were there for so long. */
static double start_s(const struct dryrun *dry, const struct firn_job *job,
                      double prepared_s)
{
    return job->spec.is_nominal
               ? 0
               : desk_start_s(&dry->loop->desk, job->spec.app, prepared_s);
}

void dryrun_pace_step(struct dryrun *dry, const struct firn_step *step)
{
    const struct firn_job *job = step->job;
    const struct firn_alloc *held = &job->held;
    struct dryrun_pace *pace = pace_of(dry, job);
    struct firn_costs costs = {.restart = {.pause_s = -1},
                               .resize = {.pause_s = -1}};
    if (pace == NULL)
        return;
    *pace = (struct dryrun_pace){0};
    if (step->kind == FIRN_STEP_STOP)
        return;
    if (step->kind == FIRN_STEP_START) {
        pace->cost_s = start_s(dry, job, dryrun_ahead_starts(dry, step));
        return;
    }
    pace->cost_s = start_s(dry, job, 0);
    desk_costs(&dry->loop->desk, job, &costs);
    if (costs.can_resize && firn_job_can(job, FIRN_CAN_JOIN) &&
        !held->is_shared && !step->to->is_shared &&
        firn_how_equal(&held->how, &step->to->how))
        pace->cost_s = firn_cost_lost_s(&costs.resize);
    else if (costs.restart.pause_s >= 0)
        pace->cost_s = costs.restart.pause_s;
}

/* --- rates ---------------------------------------------------------------- */

static firn_job_id book_id(const struct dryrun *dry, const struct firn_job *job)
{
    return desk_book_id(&dry->loop->desk, job->id);
}

/* Moments nearer than this are one. */
static const double SOON_S = 1e-6;

double dryrun_turn_s(const struct dryrun *dry)
{
    const struct state *state = round_state(dry->round);
    double first_s = (double)INFINITY;
    for (const struct state_job *sj = state->first; sj; sj = sj->after) {
        const struct firn_job *job = &sj->job;
        if (!job->held.is_shared || job->held.nparts == 0)
            continue;
        double left_s = firn_job_left_s(job, dry->now_s);
        if (job->resumes_s > dry->now_s + SOON_S)
            first_s = fmin(first_s, job->resumes_s);
        else if (left_s > SOON_S && dryrun_end_s(dry, job) > SOON_S)
            first_s = fmin(first_s, dry->now_s + left_s);
    }
    return first_s;
}

/* Is it between its first step and its last one? */
static bool is_training(const struct dryrun *dry, const struct firn_job *job)
{
    return job->resumes_s <= dry->now_s + SOON_S &&
           firn_job_left_s(job, dry->now_s) > SOON_S;
}

/* By how much the jobs on its GPUs slow it down: those that train. */
static double slowdown_of(struct dryrun *dry, const struct firn_job *job)
{
    const struct state *state = round_state(dry->round);
    double most = 1;
    if (!job->held.is_shared)
        return 1;
    for (const struct firn_job *at =
             state_sharer(state, &job->held, FIRN_NO_JOB);
         at != NULL; at = state_sharer(state, &job->held, at->id)) {
        if (at == job || !is_training(dry, at))
            continue;
        struct liveforecast_job a = {book_id(dry, job), job};
        struct liveforecast_job b = {book_id(dry, at), at};
        double xi = liveforecast_slowdown_now(dry->loop->desk.forecast, a, b);
        if (xi > most && xi < FORECASTER_BAD)
            most = xi;
    }
    return most;
}

static void report(struct dryrun *dry, const struct firn_job *job,
                   const struct firn_report *report)
{
    struct firn_error err = {0};
    struct firn_event event = {.kind = FIRN_EVENT_REPORT,
                               .at_s = dry->now_s,
                               .job = job->id,
                               .report = *report};
    if (round_event(dry->round, &event, &err) != FIRN_OK)
        log_warn("dry run: %s", err.text);
}

/* One that got GPUs in this future, or whose neighbours have changed. */
static void set_rate(struct dryrun *dry, const struct firn_job *job)
{
    struct dryrun_pace *pace = pace_of(dry, job);
    if (pace == NULL || job->held.nparts == 0)
        return;
    bool is_new = !(job->rate > 0);
    if (is_new)
        pace->alone =
            desk_expected_rate(&dry->loop->desk, book_id(dry, job), job);
    else if (!(pace->alone > 0)) /* as it reported, beside whom it is now */
        pace->alone = job->rate * slowdown_of(dry, job);
    double rate = pace->alone / slowdown_of(dry, job);
    if (!is_new && (fabs(rate - job->rate) <= 1e-9 * rate ||
                    !(firn_job_left_s(job, dry->now_s) > SOON_S)))
        return; /* as it was, or behind its last step */
    double resumes_s =
        is_new ? dry->now_s + pace->cost_s : fmax(job->resumes_s, dry->now_s);
    report(dry, job,
           &(struct firn_report){firn_job_done_s(job, dry->now_s), rate,
                                 resumes_s});
    if (job->id == dry->job)
        dry->rate = rate;
}

void dryrun_pace_last(struct dryrun *dry)
{
    const struct state *state = round_state(dry->round);
    for (const struct state_job *sj = state->first; sj; sj = sj->after) {
        const struct firn_job *job = &sj->job;
        if (job->held.nparts > 0 && job->held.is_shared && job->rate > 0 &&
            job->done_s < job->spec.duration_s &&
            !(firn_job_left_s(job, dry->now_s) > SOON_S))
            report(dry, job,
                   &(struct firn_report){job->spec.duration_s, job->rate,
                                         dry->now_s});
    }
}

void dryrun_pace_all(struct dryrun *dry)
{
    const struct state *state = round_state(dry->round);
    for (const struct state_job *sj = state->first; sj; sj = sj->after)
        if (sj->job.held.nparts > 0 && !(sj->job.rate > 0))
            set_rate(dry, &sj->job);
    /* Now it is known of all when they begin to train. */
    for (const struct state_job *sj = state->first; sj; sj = sj->after)
        if (sj->job.held.nparts > 0 && sj->job.held.is_shared)
            set_rate(dry, &sj->job);
}

/* --- jobs that run and have not reported -----------------------------------
 */

void dryrun_pace_silent(struct dryrun *dry, const struct firn_job *job,
                        const struct track *track, double left_s)
{
    double first_s = start_s(dry, job, track->prepared_s);
    double alone = desk_expected_rate(&dry->loop->desk, book_id(dry, job), job);
    double rate = alone / slowdown_of(dry, job);
    double begins_s = track->opened_s + first_s, done_s = job->done_s;
    double rest_s = left_s * dry->stretch * rate;
    bool is_measured = first_s > 0 || dryrun_end_s(dry, job) > 0;
    if (is_measured && track->open_attempt != 0) { /* how far it must be */
        double worked_s = fmax(dry->now_s - begins_s, 0) * rate;
        double all_s = job->spec.duration_s - job->done_s;
        rest_s = fmax(all_s - worked_s, 0.05 * all_s) * dry->stretch;
    }
    if (pace_of(dry, job) != NULL)
        pace_of(dry, job)->alone = alone;
    round_correct(dry->round, job->id, done_s + fmax(rest_s, 1e-3), dry->now_s);
    report(dry, job,
           &(struct firn_report){done_s, rate, fmax(begins_s, dry->now_s)});
}

void dryrun_pace_heard(struct dryrun *dry, const struct firn_job *job,
                       const struct live_job *live, const struct track *track)
{
    double pace = desk_pace(&dry->loop->desk, live, track);
    if (!(pace > 0) || track->mark_attempt != live->attempt)
        return;
    double from_s = desk_paced_from_s(&dry->loop->desk, live, track);
    double done_s = track->mark_done_s + pace * fmax(dry->now_s - from_s, 0);
    double last_s = /* its last step, which may be over */
        from_s + (job->spec.duration_s - track->mark_done_s) / pace;
    if (job->held.is_shared && pace_of(dry, job) != NULL)
        pace_of(dry, job)->alone =
            desk_pace_alone(&dry->loop->desk, live, track);
    report(dry, job,
           &(struct firn_report){
               fmin(done_s, job->spec.duration_s), pace,
               from_s > dry->now_s ? from_s : fmin(last_s, dry->now_s)});
}
