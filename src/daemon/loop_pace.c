/* loop_pace.c - how fast jobs train by the clock, which forecasts of ends go
 * by.
 *
 * The rate of a job is what it has done between its first and its last report,
 * on these GPUs and beside the same job, over the time between them. Step times
 * that trainers report leave out what is between steps.
 *
 * The first steps of a training are slow (libraries choose their kernels,
 * memory is allocated), and a few steps say little. So the rate that was
 * expected of the job counts as if it had been seen for EXPECTED_S: by its
 * iterations, else by the duration that its user gave and by what such
 * durations of its application were wrong by. Where no job of the application
 * has ended yet nothing is expected. Rates by step times, which policies go by,
 * are settled in the same way where they are below it: else a job with a slow
 * first step looks long and may be stopped for others. For the same reason a
 * pace counts from the second report on if that comes soon.
 *
 * What the first steps take longer than as many later ones (LIVECOST_FIRST; of
 * GPT-2 small on an H200 0.5 s, of ResNet50 0.9 s) is a part of the start: it
 * is nearly all work of the CPU, so that another job on the same GPU does not
 * make it longer and is not slowed down by it. It is measured of jobs that had
 * their GPUs alone until an early report, the first one behind 2 s or a fifth
 * of the training, t seconds behind the first step,
 *
 *     first = t - done(t) x (time alone from t on / work from t on).
 *
 * A tenth of the second term may be chance, and is none: a job that reports
 * once an hour would have minutes of slow first steps. In the time of training
 * that is learned, and in paces, `first` does not count. (When it did, ends of
 * twenty jobs on an H200, most of them beside another, were foretold 6 to 9 %
 * too late.)
 *
 * Invariants: (1) after a change of GPUs, or of the job beside it, what was
 * seen before counts as what is expected at most; (2) the measured costs
 * (loop_costs.c) are of what was seen alone; (3) a pace counts from a report
 * behind the slow first steps on.
 * Cost: O(jobs on its boards) for a report of a job that shares its GPUs.
 */
#include "daemon/loopwork.h"
#include <math.h>

/* A pace is taken from reports at least this far apart. */
static const double PACE_LEAST_S = 0.5;
/* The expected rate counts as much as this long of what is seen. */
static const double EXPECTED_S = 2;
/* A training is known if reports cover this share of it, and no more of them
 * than that came beside a job whose effect is a guess. */
static const double SEEN_LEAST = 0.5, GUESS_MOST = 0.1;
/* A first report that covers more of the training says nothing of its start. */
static const double SOON_MOST = 0.1;
/* A start takes at most this many times its mean. */
static const double START_MOST = 1.5;
/* The first steps are judged at the first report behind this share of the
 * training, or as many seconds. Below this share of what as many later steps
 * take, they were not slow. */
static const double EARLY_SHARE = 0.2, EARLY_S = 2, SLOW_LEAST = 0.1;

/* When the open attempt made its first step; 0: not known. */
static double began_s(const struct live_job *job, const struct track *track)
{
    return track->start_attempt == job->attempt && track->opened_s > 0 &&
                   track->launch_s > 0 && job->last.prepare_s > 0
               ? track->opened_s + track->launch_s + job->last.prepare_s
               : 0;
}

double desk_usual_from_s(const struct desk *desk, const struct live_job *job,
                         const struct track *track)
{
    double at_s = began_s(job, track);
    double first_s = livecosts_mean(desk->costs, job->ask.app, LIVECOST_FIRST);
    return at_s > 0 ? at_s + fmax(first_s, 0) : 0;
}

double desk_paced_from_s(const struct desk *desk, const struct live_job *job,
                         const struct track *track)
{
    double usual_s = desk_usual_from_s(desk, job, track);
    double pace = desk_pace(desk, job, track);
    if (!(track->mark_s < usual_s) || !(pace > 0) ||
        track->trained.attempt != job->attempt)
        return track->mark_s;
    double done_s = track->mark_done_s - track->trained.from_done_s;
    return usual_s + done_s / pace;
}

bool desk_is_training(const struct desk *desk, const struct track *track)
{
    const struct live_job *job = book_job(desk->book, track->id);
    if (job == NULL || track->open_attempt == 0 || track->last_step_s > 0)
        return false;
    if (track->mark_attempt == job->attempt && track->mark_s > 0)
        return dock_now_s(desk->dock) >= desk_usual_from_s(desk, job, track);
    double start_s = livecosts_start_s(desk->costs, job->ask.app);
    return dock_now_s(desk->dock) >= track->opened_s + START_MOST * start_s;
}

/* The job that trains on the same GPUs; 0: none. `slowdown` is by it, and may
 * be a guess. */
static firn_job_id beside_now(const struct desk *desk,
                              const struct track *track,
                              const struct firn_job *job, double *slowdown,
                              bool *is_guess)
{
    const struct state *state = round_state(desk->round);
    firn_job_id beside = 0;
    *slowdown = 1;
    *is_guess = false;
    if (job == NULL || !job->held.is_shared)
        return 0;
    for (const struct firn_job *at =
             state_sharer(state, &job->held, FIRN_NO_JOB);
         at != NULL; at = state_sharer(state, &job->held, at->id)) {
        firn_job_id id = desk_book_id(desk, at->id);
        const struct track *other = at != job ? desk_track(desk, id) : NULL;
        if (other == NULL || !desk_is_training(desk, other))
            continue;
        struct liveforecast_job me = {track->id, job}, it = {id, at};
        double xi = liveforecast_slowdown_now(desk->forecast, me, it);
        beside = id;
        if (xi < FORECASTER_BAD)
            *slowdown = fmax(*slowdown, xi);
        *is_guess |= xi >= FORECASTER_BAD ||
                     liveforecast_slowdown_is_guess(desk->forecast, me, it);
    }
    return beside;
}

/* The job's rate alone: what was seen, and what was expected before; 0: neither
 * is known. */
static double alone_of(const struct clocked *pace)
{
    double seen_s = pace->to_s - pace->from_s;
    double seen = pace->rate * pace->slowdown;
    if (!(pace->rate > 0) || !(pace->alone > 0))
        return pace->rate > 0 ? seen : pace->alone;
    return (seen * seen_s + pace->alone * EXPECTED_S) / (seen_s + EXPECTED_S);
}

double desk_expected_rate(const struct desk *desk, firn_job_id id,
                          const struct firn_job *job)
{
    struct firn_way way = liveforecast_held(desk->forecast, id, job);
    double rate = liveforecast_rate(desk->forecast, id, job, &way);
    rate = rate > 0 ? rate : 1;
    if (!job->spec.is_nominal && !liveforecast_is_seen(desk->forecast, id))
        rate /= desk_share_of_training(desk, &job->spec);
    return rate;
}

/* Is it known what durations of the application were wrong by, or how long the
 * job's iterations take? */
static bool is_judged(const struct desk *desk, const struct firn_job_spec *spec)
{
    return livecosts_own_mean(desk->costs, spec->app, LIVECOST_ESTIMATE) > 0 ||
           desk_counted_s(desk, spec) > 0;
}

/* The rate alone that is expected of a job before its first report from these
 * GPUs; 0: it names no application, or nothing that was measured says it. */
static double prior(const struct desk *desk, const struct track *track,
                    const struct firn_job *job)
{
    if (job == NULL || job->held.nparts == 0 || job->spec.is_nominal ||
        job->spec.app[0] == '\0' || !is_judged(desk, &job->spec))
        return 0;
    return desk_expected_rate(desk, track->id, job);
}

/* What the time between two moments would have been alone, of a job that is
 * slowed down from its usual steps on. */
static double alone_s(const struct trained *seen, double from_s, double to_s,
                      double slowdown)
{
    double slow_s = fmin(fmax(seen->usual_s - from_s, 0), to_s - from_s);
    return slow_s + (to_s - from_s - slow_s) / slowdown;
}

/* The first report of an attempt. Of the first one it counts from its first
 * step on: without that, what a slow step takes would be in neither the start
 * nor the training. */
static void begin_alone(struct trained *seen, const struct live_job *job,
                        const struct track *track)
{
    double from_s = began_s(job, track);
    if (job->attempt != 1 || !(from_s > 0) || !(from_s < seen->at_s) ||
        seen->from_done_s > SOON_MOST * track->duration_s)
        return;
    seen->began_s = from_s;
    seen->alone_s = alone_s(seen, from_s, seen->at_s, seen->slowdown);
    seen->from_done_s = 0;
}

/* The first report that says enough of how slow its first steps were. */
static void mark_early(struct trained *seen, const struct track *track)
{
    double early_s = seen->at_s - seen->began_s;
    bool is_enough = early_s >= EARLY_S ||
                     seen->to_done_s >= EARLY_SHARE * track->duration_s;
    if (!(seen->began_s > 0) || seen->early_s > 0 || seen->was_beside ||
        !is_enough)
        return;
    seen->early_s = early_s;
    seen->early_done_s = seen->to_done_s;
}

/* One more report: the time since the last counts as much as it did to a job
 * alone. */
static void count_alone(struct trained *seen, const struct trained *now,
                        bool is_guess)
{
    double more_s = alone_s(seen, seen->at_s, now->at_s,
                            (now->slowdown + seen->slowdown) / 2);
    seen->alone_s += now->ngpus == seen->ngpus ? more_s : (double)NAN;
    seen->guess_s += is_guess ? more_s : 0;
    seen->at_s = now->at_s;
    seen->to_done_s = now->to_done_s;
    seen->slowdown = now->slowdown;
    seen->was_beside |= now->was_beside;
}

/* Was enough of its training seen? */
static bool is_seen(const struct live_job *job, const struct track *track)
{
    const struct trained *seen = &track->trained;
    double part_s = seen->to_done_s - seen->from_done_s;
    return job->attempt == 1 && seen->attempt == 1 && seen->alone_s > 0 &&
           seen->guess_s <= GUESS_MOST * seen->alone_s &&
           part_s >= SEEN_LEAST * track->duration_s;
}

double desk_first_s(const struct live_job *job, const struct track *track)
{
    const struct trained *seen = &track->trained;
    double later_s = seen->alone_s - seen->early_s;
    double later_done_s = seen->to_done_s - seen->early_done_s;
    if (!is_seen(job, track) || !desk_steps_are_alike(job) ||
        !(seen->early_s > 0) ||
        !(later_done_s >= SEEN_LEAST * track->duration_s))
        return -1;
    double usual_s = seen->early_done_s * later_s / later_done_s;
    double first_s = seen->early_s - usual_s;
    return first_s > SLOW_LEAST * usual_s ? first_s : 0;
}

double desk_trained_s(const struct live_job *job, const struct track *track)
{
    const struct trained *seen = &track->trained;
    double first_s = desk_first_s(job, track);
    if (!is_seen(job, track))
        return 0;
    if (first_s < 0) /* as it was expected */
        first_s = fmax(seen->usual_s - seen->began_s, 0);
    if (!(seen->began_s > 0))
        first_s = 0; /* seen from a later report on */
    return fmax(seen->alone_s - first_s, 0.1 * seen->alone_s) *
           track->duration_s / (seen->to_done_s - seen->from_done_s);
}

void loop_costs_paced(struct loop *loop, const struct live_job *job,
                      struct track *track, double done_s)
{
    struct clocked *pace = &track->pace;
    const struct firn_job *in_round = desk_job(&loop->desk, track);
    double now_s = dock_now_s(&loop->dock), slowdown;
    double usual_s = desk_usual_from_s(&loop->desk, job, track);
    int ngpus = in_round != NULL ? in_round->held.ngpus : 0;
    bool is_guess;
    firn_job_id beside =
        beside_now(&loop->desk, track, in_round, &slowdown, &is_guess);
    struct trained now = {.attempt = job->attempt,
                          .ngpus = ngpus,
                          .from_done_s = done_s,
                          .to_done_s = done_s,
                          .at_s = now_s,
                          .slowdown = slowdown,
                          .was_beside = beside != 0};
    if (track->trained.attempt == job->attempt)
        count_alone(&track->trained, &now, is_guess);
    else {
        now.usual_s = usual_s;
        begin_alone(&now, job, track);
        track->trained = now;
    }
    mark_early(&track->trained, track);
    bool is_other = pace->attempt != job->attempt || pace->ngpus != ngpus ||
                    loop_costs_is_changing(track);
    if (is_other || pace->beside != beside) {
        double alone = is_other ? 0 : alone_of(pace); /* (1) */
        bool is_expected = !(alone > 0);
        if (is_expected)
            alone = prior(&loop->desk, track, in_round);
        *pace = (struct clocked){.attempt = job->attempt,
                                 .ngpus = ngpus,
                                 .beside = beside,
                                 .from_s = now_s,
                                 .to_s = now_s,
                                 .from_done_s = done_s,
                                 .slowdown = slowdown,
                                 .alone = alone,
                                 .is_expected = is_expected,
                                 .is_first = is_other};
        return;
    }
    pace->slowdown = slowdown; /* as it is known by now */
    if ((pace->is_first && now_s - pace->from_s < EXPECTED_S) ||
        pace->from_s < usual_s) { /* (3) */
        pace->from_s = now_s;
        pace->from_done_s = done_s;
    }
    pace->is_first = false;
    if (now_s - pace->from_s < PACE_LEAST_S || done_s <= pace->from_done_s)
        return;
    pace->rate = (done_s - pace->from_done_s) / (now_s - pace->from_s);
    pace->to_s = now_s;
}

double desk_pace(const struct desk *desk, const struct live_job *job,
                 const struct track *track)
{
    const struct clocked *pace = &track->pace;
    if (pace->attempt == job->attempt && (pace->rate > 0 || pace->alone > 0))
        return alone_of(pace) / pace->slowdown;
    double clock = livecosts_mean(desk->costs, job->ask.app, LIVECOST_CLOCK);
    return clock > 1 ? track->rate / clock : track->rate;
}

double desk_pace_alone(const struct desk *desk, const struct live_job *job,
                       const struct track *track)
{
    const struct clocked *pace = &track->pace;
    double rate = desk_pace(desk, job, track);
    return pace->attempt == job->attempt ? rate * pace->slowdown : rate;
}

double loop_pace_settled(const struct loop *loop, const struct live_job *job,
                         const struct track *track, double rate)
{
    const struct clocked *pace = &track->pace;
    double clock =
        livecosts_mean(loop->desk.costs, job->ask.app, LIVECOST_CLOCK);
    double expected = pace->alone / pace->slowdown * fmax(clock, 1);
    double seen_s = dock_now_s(&loop->dock) - pace->from_s;
    if (pace->attempt != job->attempt || !pace->is_expected ||
        !(pace->alone > 0) || !(rate > 0) || rate >= expected)
        return rate;
    return (rate * seen_s + expected * EXPECTED_S) / (seen_s + EXPECTED_S);
}
