/* loop_report.c - what the round and the forecasts make of a trainer's report.
 *
 * A report says which share of the work is done and how long a step takes. In
 * the round work is counted in reference seconds, duration_s in all:
 *
 *     done = progress x duration_s        rate = done / steps / step_s
 *
 * The rate goes to the policy as the job's own, and to the forecasts as what
 * was seen on the GPUs it holds, alone or beside another. A job that says no
 * progress but has a target is measured by that; one that says nothing at all
 * goes at the rate that was guessed. loop_guard.c looks at whether it went as
 * was expected.
 */
#include "base/log.h"
#include "daemon/abilities.h"
#include "daemon/loopwork.h"
#include <math.h>

enum { MANY_SHARERS = 100 };

/* The share of its work that a job reports as done; negative: it does not. */
static double said_progress(const struct live_job *job)
{
    const struct firn_trainer_report *r = &job->last;
    const struct live_ask *ask = &job->ask;
    if (r->progress >= 0)
        return fmin(r->progress, 1);
    if (ask->target_iterations > 0 && r->step > 0)
        return fmin((double)r->step / (double)ask->target_iterations, 1);
    if (ask->target_epochs > 0 && r->epoch > 0)
        return fmin((double)r->epoch / (double)ask->target_epochs, 1);
    return -1;
}

/* Work a second: by its step time, else by what came since the last report. */
static double seen_rate(const struct track *track, const struct live_job *job,
                        double done_s, double now_s)
{
    const struct firn_trainer_report *r = &job->last;
    if (r->step_s > 0 && r->step > 0 && done_s > 0)
        return done_s / (double)r->step / r->step_s;
    if (track->mark_attempt == job->attempt && now_s > track->mark_s &&
        done_s > track->mark_done_s)
        return (done_s - track->mark_done_s) / (now_s - track->mark_s);
    return track->rate;
}

/* Did it make steps of the usual time from that moment on? */
static bool was_usual(const struct loop *loop, const struct track *track,
                      double since_s)
{
    const struct live_job *job = book_job(loop->book, track->id);
    return desk_is_training(&loop->desk, track) && job != NULL &&
           since_s >= desk_usual_from_s(&loop->desk, job, track);
}

/* Who shares its GPUs: how many, and the last of them. A job that did not make
 * steps of the usual time for all of this report's, which began at `since_s`,
 * slowed no other one down, or did for a part of it; nothing can be learned of
 * the two then, and it counts as many. */
static struct track *look_around(struct loop *loop, const struct firn_job *job,
                                 const struct track *track, double since_s,
                                 struct liveforecast_run *run)
{
    struct track *sharer = NULL;
    run->beside = "";
    if (!job->held.is_shared)
        return NULL;
    const struct state *state = round_state(loop->desk.round);
    for (const struct firn_job *at =
             state_sharer(state, &job->held, FIRN_NO_JOB);
         at != NULL; at = state_sharer(state, &job->held, at->id)) {
        if (at == job)
            continue;
        run->sharers++;
        run->beside = at->spec.app;
        sharer = desk_track(&loop->desk, desk_book_id(&loop->desk, at->id));
        if (sharer != NULL && (!was_usual(loop, sharer, since_s) ||
                               !was_usual(loop, track, since_s)))
            run->sharers = MANY_SHARERS;
    }
    return sharer;
}

/* What was expected of it as it is, before this report. */
static void judge_forecast(struct loop *loop, const struct track *track,
                           const struct firn_job *job,
                           const struct track *sharer)
{
    struct firn_way way =
        liveforecast_held(loop->desk.forecast, track->id, job);
    double expected =
        liveforecast_rate(loop->desk.forecast, track->id, job, &way);
    const struct firn_job *beside =
        sharer != NULL ? desk_job(&loop->desk, sharer) : NULL;
    if (job->spec.is_nominal &&
        !liveforecast_is_seen(loop->desk.forecast, track->id))
        return; /* the amount of work is a guess: no rate is expected */
    if (beside != NULL)
        expected /= liveforecast_slowdown(
            loop->desk.forecast, (struct liveforecast_job){track->id, job},
            (struct liveforecast_job){sharer->id, beside});
    metrics_observe(loop->metrics, METRIC_RATE_ERROR,
                    fabs(expected - track->rate) / track->rate);
}

/* It runs on what the round gave it, and said how fast, since `since_s`. */
static void learn(struct loop *loop, const struct live_job *job,
                  struct track *track, const struct firn_job *in_round,
                  double since_s)
{
    const struct firn_trainer_report *r = &job->last;
    struct liveforecast_run run = {.job = in_round,
                                   .rate = track->rate,
                                   .step_s = r->step_s,
                                   .batch = r->batch,
                                   .passes = r->passes,
                                   .nfrozen = r->nfrozen,
                                   .variance = r->variance,
                                   .nlayers = r->nlayers};
    struct track *sharer = look_around(loop, in_round, track, since_s, &run);
    judge_forecast(loop, track, in_round, sharer);
    if (in_round->held.how.merged_with != FIRN_NO_JOB)
        return; /* it is trained together with another */
    if (run.sharers == 0) {
        loop_guard_alone(track, track->rate);
        /* What its GPUs are used, by the engine's word. */
        struct firn_load load;
        if (loop->dock.engine->load != NULL &&
            loop->dock.engine->load(loop->dock.engine_state, job->id, &load)) {
            liveforecast_sampled(loop->desk.forecast, job->id, in_round, &load);
            loop_memory_sampled(loop, book_job(loop->book, job->id),
                                load.mem_gib);
        }
    } else if (run.sharers == 1 && sharer != NULL)
        loop_guard_share(loop, track, sharer, track->rate);
    liveforecast_saw(loop->desk.forecast, job->id, &run);
}

static void tell_round(struct loop *loop, const struct track *track,
                       const struct firn_report *report)
{
    struct firn_event event = {.kind = FIRN_EVENT_REPORT,
                               .at_s = report->resumes_s,
                               .job = track->round_id,
                               .report = *report};
    struct firn_error err = {0};
    if (round_event(loop->desk.round, &event, &err) != FIRN_OK)
        log_warn("job %d: %s", track->id, err.text);
}

/* Its trainer can do more or less than the round takes it to: it is scheduled
 * by the new set from now on, and orders that it does not obey are withdrawn.
 */
static void learn_abilities(struct loop *loop, struct live_job *job,
                            const struct track *track)
{
    const struct firn_job *in_round = desk_job(&loop->desk, track);
    unsigned cannot = desk_cannot(&loop->desk, job);
    if (in_round == NULL || in_round->spec.cannot == cannot)
        return;
    loop_changed(loop, job);
    in_round = desk_job(&loop->desk, track);
    if (in_round != NULL && in_round->held.nparts > 0)
        loop_orders(loop, job, &in_round->held);
}

void loop_reported(struct loop *loop, struct live_job *job)
{
    struct track *track = desk_track(&loop->desk, job->id);
    double progress = said_progress(job), now_s = dock_now_s(&loop->dock);
    if (track == NULL || live_state_is_over(job->state))
        return;
    learn_abilities(loop, job, track);
    desk_task_reported(&loop->desk, job);
    if (loop_guard_after(loop, job))
        return;
    liveforecast_load_seen(loop->desk.forecast, job->id, job->last.memory_mib,
                           job->last.utilisation);
    loop_memory_reported(loop, job);
    loop_costs_reported(loop, job, track);
    if (progress < 0 || !(track->duration_s > 0))
        return;
    double done_s = progress * track->duration_s;
    loop_costs_paced(loop, job, track, done_s);
    track->rate = loop_pace_settled(loop, job, track,
                                    seen_rate(track, job, done_s, now_s));
    double since_s = track->mark_attempt == job->attempt ? track->mark_s : 0;
    track->mark_s = now_s;
    track->mark_done_s = done_s;
    track->mark_attempt = job->attempt;
    if (!(track->rate > 0))
        return;
    if (!(track->eta.at_s > 0))
        desk_eta_told(track, now_s, (track->duration_s - done_s) / track->rate);
    const struct firn_job *in_round = desk_job(&loop->desk, track);
    if (in_round == NULL || in_round->held.nparts == 0)
        return;
    /* One that is leaving, or has left, speaks of GPUs that the round has given
     * away: how far it came, not how fast it is. */
    enum firn_phase phase = desk_phase(&loop->desk, job);
    bool is_on_them =
        phase == FIRN_PHASE_STARTING || phase == FIRN_PHASE_RUNNING;
    double rate = is_on_them ? track->rate : in_round->rate;
    tell_round(loop, track, &(struct firn_report){done_s, rate, now_s});
    if (phase == FIRN_PHASE_RUNNING && !loop_costs_is_changing(track) &&
        !desk_merge_reported(&loop->desk, job, in_round))
        learn(loop, job, track, in_round, since_s);
    if (phase == FIRN_PHASE_RUNNING && (in_round->held.tunes & FIRN_TUNE_BATCH))
        loop_orders(loop, job, &in_round->held); /* as far as it is now */
}
