/* desk_span.c - how long jobs take: guesses where no duration is given, and
 * better ones.
 *
 * A duration given by the user counts. Without one the guess is what jobs of
 * the same user and application took (livehistory.c), and an hour before the
 * first of them is done; if the user said how many iterations the job makes, it
 * is what these will take (desk_counts.c). When that changes much, waiting jobs
 * are corrected under their ids, so that each keeps its place in the queue.
 *
 * A job that reports how far it is needs no guess: progress is a share of the
 * whole, and the time left right whatever was guessed. One that runs and does
 * not report is believed until its time is nearly over; then it is taken to
 * need half as much again, and again. So are durations that users gave, times
 * what those of the application were wrong by.
 *
 * Cost: a walk over all jobs every LOOK_EVERY_S, with a forecast for those that
 * run, do not report and could be nearly over (is_early); O(jobs) when a mean
 * has moved.
 */
#include "daemon/desk.h"
#include <math.h>
#include <stdlib.h>

static const double LOOK_EVERY_S = 10, LONGER = 1.5, NEARLY = 0.95;
static const double BELIEVED_S = 60; /* at most, for rates are learned */
/* A duration below LEAST_S is taken for a missing one and replaced by
 * MISSING_S; above LONGEST_S it is stretched no further. */
static const double LEAST_S = 1e-3, MISSING_S = 3600, LONGEST_S = 1e9;
/* LONGER to the power of this is above LONGEST_S / LEAST_S. */
enum { MOST_STRETCHES = 80 };

/* --- those that ended ---------------------------------------------------- */

/* What is to be expected of a job without a duration; 0: nothing is known. */
static double expected_s(const struct desk *desk, const struct live_job *job,
                         const struct firn_job *in_round)
{
    double counted_s = desk_counted_whole_s(desk, &in_round->spec);
    return counted_s > 0 ? counted_s : desk_guess_s(desk, &job->ask);
}

/* Those that wait, have no duration of their own and are guessed otherwise by
 * now. */
static void tell_waiting(struct desk *desk)
{
    const struct state *state = round_state(desk->round);
    for (const struct state_job *sj = state->first; sj; sj = sj->after) {
        const struct firn_job *in_round = &sj->job;
        firn_job_id id = desk_book_id(desk, in_round->id);
        const struct live_job *job = book_job(desk->book, id);
        struct track *track = desk_track(desk, id);
        if (job == NULL || track == NULL || job->ask.duration_s > 0 ||
            in_round->starts > 0)
            continue;
        double guess_s = expected_s(desk, job, in_round);
        if (!(guess_s > 0) || guess_s == in_round->spec.duration_s)
            continue;
        round_correct(desk->round, in_round->id, guess_s,
                      dock_now_s(desk->dock));
        track->duration_s = guess_s;
    }
}

void desk_span_ended(struct desk *desk, const struct live_job *job,
                     const struct track *track)
{
    const struct firn_job *in_round = desk_job(desk, track);
    double now_s = dock_now_s(desk->dock);
    struct firn_job_spec spec;
    desk_spec(desk, job, &spec);
    double served_gpu_s =
        in_round != NULL ? firn_job_served_gpu_s(in_round, now_s)
                         : track->past.served_gpu_s +
                               track->granted.ngpus * (now_s - track->opened_s);
    bool is_news = desk_counts_ended(desk, job, track, &spec);
    if (spec.gpus > 0)
        is_news |= livehistory_done(desk->history, job->ask.user, job->ask.app,
                                    served_gpu_s / spec.gpus);
    if (is_news)
        tell_waiting(desk);
}

void desk_span_recover(struct desk *desk)
{
    for (size_t i = 0; i < book_count(desk->book); i++) {
        const struct live_job *job = book_at(desk->book, i);
        if (job->state == LIVE_SUCCEEDED && job->attempt == 1 &&
            !job->ask.is_elastic && job->started_s > 0)
            livehistory_done(desk->history, job->ask.user, job->ask.app,
                             job->ended_s - job->started_s);
    }
}

/* --- those that run ------------------------------------------------------ */

/* With what it holds; 1 where nothing is to be expected. */
static double rate_of(const struct desk *desk, const struct track *track)
{
    const struct firn_job *in_round = desk_job(desk, track);
    if (in_round == NULL || in_round->held.nparts == 0)
        return 1; /* pinned: on what it asked for */
    struct firn_way way =
        liveforecast_held(desk->forecast, track->id, in_round);
    double rate = liveforecast_rate(desk->forecast, track->id, in_round, &way);
    return rate > 0 ? rate : 1;
}

/* How long it has had its GPUs, at all its starts. */
static double ran_s(const struct desk *desk, const struct track *track)
{
    const struct firn_job *in_round = desk_job(desk, track);
    double now_s = dock_now_s(desk->dock);
    if (in_round != NULL)
        return in_round->held_s +
               (in_round->held.nparts > 0 ? now_s - in_round->since_s : 0);
    return track->past.held_s +
           (track->open_attempt != 0 ? now_s - track->opened_s : 0);
}

/* By how much the time of a whole run is longer than the duration that its
 * user gave, as far as it was measured of the application. */
static double times_wrong(const struct desk *desk, const struct track *track)
{
    const struct live_job *job = book_job(desk->book, track->id);
    double wrong =
        job != NULL && job->ask.duration_s > 0
            ? livecosts_own_mean(desk->costs, job->ask.app, LIVECOST_ESTIMATE)
            : 1;
    return wrong > 0 ? wrong : 1;
}

/* Has its user said how long it takes, or have jobs like it ended? */
static bool is_expected(const struct desk *desk, const struct live_job *job,
                        const struct track *track)
{
    const struct firn_job *in_round = desk_job(desk, track);
    return job->ask.duration_s > 0 || desk_guess_s(desk, &job->ask) > 0 ||
           (in_round != NULL && desk_counted_s(desk, &in_round->spec) > 0);
}

double desk_stretched(double duration_s, double done_s)
{
    if (!(duration_s >= LEAST_S))
        duration_s = MISSING_S;
    for (int i = 0; i < MOST_STRETCHES && duration_s < LONGEST_S &&
                    done_s > NEARLY * duration_s;
         i++)
        duration_s *= LONGER;
    return duration_s;
}

struct desk_left desk_left(const struct desk *desk, const struct live_job *job,
                           const struct track *track)
{
    struct desk_left left = {.reports = track->rate > 0,
                             .is_known = track->rate > 0 ||
                                         is_expected(desk, job, track)};
    double rate = rate_of(desk, track);
    if (job->is_ending || (job->is_held && desk_can_stop(job))) /* it leaves */
        return (struct desk_left){job->ask.grace_s, true, true};
    if (left.reports) {
        double since_s =
            dock_now_s(desk->dock) - desk_paced_from_s(desk, job, track);
        double rest_s = track->duration_s - track->mark_done_s;
        double start_s, end_s;
        desk_training_s(desk, job, 0, &start_s, &end_s);
        left.left_s =
            fmax(rest_s / desk_pace(desk, job, track) + end_s - since_s, 0);
        return left;
    }
    if (track->open_attempt != 0 && desk_job(desk, track) == NULL) {
        double start_s, end_s; /* pinned: on what it asked for */
        double all_s =
            desk_training_s(desk, job, track->duration_s, &start_s, &end_s);
        if (track->prepared_s > 0)
            start_s = desk_start_s(desk, job->ask.app, track->prepared_s);
        double done_s = dock_now_s(desk->dock) - track->opened_s - start_s;
        all_s = desk_stretched(all_s, done_s);
        left.left_s = fmax(all_s - done_s, 0) + end_s;
        return left;
    }
    double wrong = times_wrong(desk, track);
    double done_s = rate * ran_s(desk, track) / wrong;
    double rest_s = desk_stretched(track->duration_s, done_s) - done_s;
    left.left_s = rest_s > 0 ? rest_s * wrong / rate : 0;
    return left;
}

/* Is its time surely not nearly over? At the rate that was forecast at the last
 * look half of the time until then has not passed. */
static bool is_early(const struct track *track, const struct firn_job *job,
                     double now_s)
{
    const struct believed *b = &track->believed;
    return now_s < b->until_s && job->since_s == b->since_s &&
           track->duration_s == b->duration_s;
}

/* The duration that it is believed to have by now. */
static double look_at(const struct desk *desk, struct track *track,
                      const struct firn_job *job, double now_s)
{
    double a_second = rate_of(desk, track) / times_wrong(desk, track);
    double done_s = a_second * ran_s(desk, track);
    double duration_s = desk_stretched(track->duration_s, done_s);
    double rest_s = (NEARLY * duration_s - done_s) / a_second;
    track->believed =
        (struct believed){now_s + fmin(fmax(rest_s, 0) / 2, BELIEVED_S),
                          job->since_s, duration_s};
    return duration_s;
}

void desk_span_look(struct desk *desk, double now_s)
{
    if (now_s < desk->looked_s + LOOK_EVERY_S)
        return;
    desk->looked_s = now_s;
    const struct state *state = round_state(desk->round);
    for (const struct state_job *sj = state->first; sj; sj = sj->after) {
        if (sj->job.held.nparts == 0)
            continue;
        struct track *track = desk_track(desk, desk_book_id(desk, sj->job.id));
        if (track == NULL || track->rate > 0 ||
            is_early(track, &sj->job, now_s))
            continue;
        double duration_s = look_at(desk, track, &sj->job, now_s);
        if (duration_s == track->duration_s)
            continue;
        round_correct(desk->round, sj->job.id, duration_s, now_s);
        track->duration_s = duration_s;
    }
}

/* --- ends that were foretold --------------------------------------------- */

void desk_eta_told(struct track *track, double now_s, double left_s)
{
    if (isfinite(left_s) && left_s > 0)
        track->eta = (struct foretold){now_s, now_s + left_s};
}

void desk_eta_ended(struct desk *desk, const struct track *track)
{
    const struct foretold *eta = &track->eta;
    double now_s = dock_now_s(desk->dock);
    if (!(eta->at_s > 0) || !(now_s > eta->at_s))
        return;
    double error = fabs(eta->end_s - now_s) / (now_s - eta->at_s);
    metrics_observe(desk->metrics, METRIC_ETA_ERROR, error);
    desk->eta_errors[desk->neta_errors++ % ETA_ERRORS] = error;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double desk_eta_width(const struct desk *desk)
{
    double sorted[ETA_ERRORS];
    int n =
        desk->neta_errors < ETA_ERRORS ? (int)desk->neta_errors : ETA_ERRORS;
    for (int i = 0; i < n; i++)
        sorted[i] = desk->eta_errors[i];
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    return fmax(0.1, n > 0 ? sorted[(9 * n) / 10] : 0);
}

/* --- what they need ------------------------------------------------------ */

/* A job that takes no orders of passes needs what it needs in one. */
struct firn_load desk_load(const struct desk *desk, const struct firn_job *job,
                           const struct firn_way *way)
{
    struct firn_way as = *way;
    as.passes = firn_job_can(job, FIRN_CAN_PASSES) ? way->passes : 0;
    return liveforecast_load(desk->forecast, desk_book_id(desk, job->id), job,
                             &as);
}
