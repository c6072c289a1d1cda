/* loop_merge.c - which two jobs may be merged, and what their reports say.
 *
 * Two fine-tuning jobs can be trained as one when they name the same base and
 * different datasets, are run by the same program (one of them will train
 * both), and both allow it. What that is worth is liveforecast_merge.c's to
 * say.
 *
 * A trainer of two reports for each of them how long a step of it takes by the
 * clock, which counts the other one's steps in between, and how long its parts
 * take, which does not. So one report tells two rates: of the job as it is
 * trained, for the policy; and of the job alone, for the forecast. Their ratio
 * summed over both jobs is what the training of two is worth, which counts once
 * both have reported two epochs.
 *
 * The guard of the policy ymir speaks once two epochs have passed. By the clock
 * that is hard to tell of a job whose epochs are reported: `epoch_s` of a pair
 * that is being trained is not known before both have reported two epochs, and
 * half of the time since then. What it then compares is work in a second; a job
 * that ends by a target (target.metric) may end sooner for what it learns from
 * the other, which no rate tells. Of two such jobs the guard asks what Ymir
 * asks: has the metric got better in the last two epochs? While it does in
 * both, `epoch_s` stays unknown and the pair together. More is better.
 */
#include "base/log.h"
#include "daemon/loopwork.h"
#include <math.h>
#include <string.h>

static double epochs_said(const struct live_job *job)
{
    bool is_heard = job->reported_epoch == job->epoch && job->reported_s > 0;
    return is_heard ? (double)job->last.epoch : 0;
}

/* Has it a target, and come nearer to it in the last two epochs? */
static bool gets_better(const struct loop *loop, const struct live_job *job)
{
    const struct track *track = loop_track(loop, job->id);
    return job->ask.target_metric != 0 && track != NULL &&
           track->best_epoch > 0 && job->last.epoch < track->best_epoch + 2;
}

static bool look_at(const struct loop *loop, const struct firn_job *job,
                    const struct firn_way *way, double now_s,
                    struct livemerge_side *out)
{
    firn_job_id id = loop_book_id(loop, job->id);
    const struct live_job *live = book_job(loop->book, id);
    if (live == NULL)
        return false;
    double left_s = job->spec.duration_s - firn_job_done_s(job, now_s);
    double rate = liveforecast_rate(loop->forecast, id, job, way);
    *out = (struct livemerge_side){.base = live->ask.base,
                                   .dataset = live->ask.dataset,
                                   .alone_s = fmax(left_s, 1e-3) / rate,
                                   .epoch_s = (double)NAN,
                                   .is_new = left_s >= job->spec.duration_s};
    if (live->ask.target_epochs > 0)
        out->epoch_s =
            job->spec.duration_s / rate / (double)live->ask.target_epochs;
    return rate > 0;
}

static bool is_same_program(const struct live_job *a, const struct live_job *b)
{
    return a->ask.argv[0] != NULL && b->ask.argv[0] != NULL &&
           strcmp(a->ask.argv[0], b->ask.argv[0]) == 0;
}

bool loop_merge(struct loop *loop, const struct loop_pair *pair,
                const struct firn_way *way, double now_s,
                struct firn_merge *out)
{
    const struct firn_job *a = pair->a, *b = pair->b;
    struct livemerge_side side[2];
    if (!look_at(loop, a, way, now_s, &side[0]) ||
        !look_at(loop, b, way, now_s, &side[1]))
        return false;
    const struct live_job *one =
        book_job(loop->book, loop_book_id(loop, a->id));
    const struct live_job *two =
        book_job(loop->book, loop_book_id(loop, b->id));
    if (!is_same_program(one, two) ||
        !livemerge_expect(loop->merges, side, pair->kind, out))
        return false;
    if (ride_other(loop, one) == two) {
        double since_s = now_s - fmax(a->resumes_s, b->resumes_s);
        bool is_time = fmin(epochs_said(one), epochs_said(two)) >= 2 &&
                       !(gets_better(loop, one) && gets_better(loop, two));
        out->epoch_s = is_time ? since_s / 2 : (double)NAN;
    }
    return true;
}

/* Seconds of a step without what others do in between; 0: not known. */
static double own_s(const struct firn_trainer_report *report)
{
    double sum = 0;
    for (int i = 0; i < FIRN_STEP_NPARTS; i++)
        if (report->part_s[i] > 0)
            sum += report->part_s[i];
    return sum;
}

bool loop_merge_reported(struct loop *loop, struct live_job *job,
                         const struct firn_job *in_round)
{
    const struct live_job *other = ride_other(loop, job);
    struct track *track = loop_track(loop, job->id);
    double own = own_s(&job->last), step_s = job->last.step_s;
    if (other == NULL)
        return false;
    if (job->last.metric > track->best && job->last.epoch > 0) {
        track->best = job->last.metric;
        track->best_epoch = job->last.epoch;
    }
    if (!(own > 0) || !(step_s > 0) || !(track->rate > 0))
        return true;
    track->turn = fmin(own / step_s, 1);
    struct liveforecast_run alone = {
        .job = in_round, .rate = track->rate / track->turn, .beside = ""};
    liveforecast_saw(loop->forecast, job->id, &alone);
    const struct track *its = loop_track(loop, other->id);
    const struct livemerge_side side[2] = {
        {.base = job->ask.base, .dataset = job->ask.dataset},
        {.base = other->ask.base, .dataset = other->ask.dataset}};
    bool pays = gets_better(loop, job) && gets_better(loop, other);
    bool is_early = fmin(epochs_said(job), epochs_said(other)) < 2;
    if (its != NULL && its->turn > 0 && !pays && !is_early)
        livemerge_saw(loop->merges, side, track->turn + its->turn);
    return true;
}
