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
 * goes at the rate that was guessed.
 */
#include "base/log.h"
#include "daemon/loopwork.h"
#include <math.h>

/* The share of its work that a job says is done; negative: no word. */
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
    if (track->mark_epoch == job->epoch && now_s > track->mark_s &&
        done_s > track->mark_done_s)
        return (done_s - track->mark_done_s) / (now_s - track->mark_s);
    return track->rate;
}

static bool overlaps(const struct firn_alloc *a, const struct firn_alloc *b)
{
    for (int i = 0; i < a->nparts; i++)
        for (int k = 0; k < b->nparts; k++)
            if (a->parts[i].node == b->parts[k].node &&
                a->parts[i].board == b->parts[k].board &&
                (a->parts[i].gpus & b->parts[k].gpus) != 0)
                return true;
    return false;
}

/* Who shares its GPUs, if somebody does. */
static void look_around(const struct loop *loop, const struct firn_job *job,
                        struct liveforecast_run *run)
{
    run->beside = "";
    if (!job->held.is_shared)
        return;
    const struct state *state = round_state(loop->round);
    for (const struct state_job *sj = state->first; sj; sj = sj->after)
        if (&sj->job != job && overlaps(&sj->job.held, &job->held)) {
            run->sharers++;
            run->beside = sj->job.spec.app;
        }
}

void loop_reported(struct loop *loop, struct live_job *job)
{
    struct track *track = loop_track(loop, job->id);
    double progress = said_progress(job), now_s = loop_now_s(loop);
    if (track == NULL || live_state_is_over(job->state))
        return;
    liveforecast_load_seen(loop->forecast, job->id, job->last.memory_mib,
                           job->last.utilisation);
    if (progress < 0 || !(track->duration_s > 0))
        return;
    double done_s = progress * track->duration_s;
    track->rate = seen_rate(track, job, done_s, now_s);
    track->mark_s = now_s;
    track->mark_done_s = done_s;
    track->mark_epoch = job->epoch;
    const struct firn_job *in_round = loop_round_job(loop, track);
    if (in_round == NULL || in_round->held.nparts == 0 || !(track->rate > 0))
        return;
    struct firn_event event = {.kind = FIRN_EVENT_REPORT,
                               .at_s = now_s,
                               .job = track->round_id,
                               .report = {done_s, track->rate, now_s}};
    struct firn_error err = {0};
    if (round_event(loop->round, &event, &err) != FIRN_OK)
        log_warn("job %d: %s", job->id, err.text);
    struct firn_way way = {.gpus = in_round->held.ngpus, .type = FIRN_ANY_TYPE};
    double expected =
        liveforecast_rate(loop->forecast, job->id, in_round, &way);
    metrics_observe(loop->metrics, METRIC_RATE_ERROR,
                    fabs(expected - track->rate) / track->rate);
    struct liveforecast_run run = {.job = in_round, .rate = track->rate};
    look_around(loop, in_round, &run);
    liveforecast_saw(loop->forecast, job->id, &run);
}
