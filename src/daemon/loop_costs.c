/* loop_costs.c - measures what starts, stops and resizes cost jobs here.
 *
 *   START     its first report of an attempt says how old its process was at
 *             its first step (prepare_s); with the time from the order to the
 *             process, which is that from the attempt to its phase STARTING
 *   PREPARED  the same of an attempt whose processes were there before its GPUs
 *             were free, for as long as a start takes; SAVED is START less
 *             that, of shorter preparations too, and 0 of other attempts
 *   WAITS     its first report of abilities has "ahead"
 *   STOP      from the order to stop, move or resize to LEFT
 *   END       from the report of the last step (progress 1) to DONE; of an
 *             application that has one, not beside the end of another job on
 *             the same GPUs, which makes both longer (GPT-2 on an H200: 4.6 to
 *             5.0 s instead of 3.6 to 4.3)
 *   PAUSE,    by the event RESIZED of an engine that resized it without a stop
 *   PREPARE
 *   SLOWDOWN  mean step time in reports between that order and RESIZED, over
 *             the step time in the last report before
 *
 *   CLOCK     at DONE, its rate by reported step times over that by the clock
 *   ESTIMATE  at DONE, over the duration that its user gave, the time that the
 *             job takes from start to end alone with what it asked for: its
 *             training, as reports show it, and a usual start and end
 *
 * livecosts.c keeps the means, by application. The meta entry "costs" of the
 * state file has them over a restart of firnd, "slowdowns" those of pairs on
 * shared GPUs, "steps" the step times alone that pairs are judged by, "told"
 * what is made of users' durations (model/told.h) and "counts" how long jobs
 * train by their iterations (livecounts.h).
 */
#include "base/buf.h"
#include "base/jsonwrite.h"
#include "daemon/loopwork.h"
#include <math.h>
#include <stdio.h>

static const char *app_of(const struct live_job *job)
{
    return job->ask.app;
}

static void load_costs(struct loop *loop, const char *text)
{
    livecosts_load(loop->desk.costs, text);
}

static void load_slowdowns(struct loop *loop, const char *text)
{
    liveforecast_load_slowdowns(loop->desk.forecast, text);
}

static void load_steps(struct loop *loop, const char *text)
{
    liveforecast_load_steps(loop->desk.forecast, text);
}

static void load_told(struct loop *loop, const char *text)
{
    livecosts_load_told(loop->desk.costs, text);
}

static void load_counts(struct loop *loop, const char *text)
{
    livecounts_load(loop->desk.counts, text);
}

static void save_costs(const struct loop *loop, struct firn_buf *text)
{
    livecosts_save(loop->desk.costs, text);
}

static void save_slowdowns(const struct loop *loop, struct firn_buf *text)
{
    liveforecast_save_slowdowns(loop->desk.forecast, text);
}

static void save_steps(const struct loop *loop, struct firn_buf *text)
{
    liveforecast_save_steps(loop->desk.forecast, text);
}

static void save_told(const struct loop *loop, struct firn_buf *text)
{
    livecosts_save_told(loop->desk.costs, text);
}

static void save_counts(const struct loop *loop, struct firn_buf *text)
{
    livecounts_save(loop->desk.counts, text);
}

/* Entries of the state file. */
static const struct kept {
    const char *key;
    void (*load)(struct loop *loop, const char *text);
    void (*save)(const struct loop *loop, struct firn_buf *text);
} kept[] = {{"costs", load_costs, save_costs},
            {"slowdowns", load_slowdowns, save_slowdowns},
            {"steps", load_steps, save_steps},
            {"told", load_told, save_told},
            {"counts", load_counts, save_counts}};
enum { NKEPT = sizeof kept / sizeof *kept };

void loop_costs_open(struct loop *loop)
{
    struct firn_buf text = {0};
    struct firn_error none = {0};
    loop->desk.costs = livecosts_new();
    loop->desk.counts = livecounts_new();
    for (int i = 0; i < NKEPT; i++) {
        buf_clear(&text);
        if (store_get_meta(loop->store, kept[i].key, &text, &none) == FIRN_OK &&
            text.n > 0)
            kept[i].load(loop, text.at);
    }
    buf_release(&text);
}

void loop_costs_save(struct loop *loop)
{
    struct firn_buf text = {0};
    struct firn_error err = {0};
    for (int i = 0; i < NKEPT; i++) {
        buf_clear(&text);
        kept[i].save(loop, &text);
        if (text.n > 0)
            book_wrote(loop->book,
                       store_put_meta(loop->store, kept[i].key,
                                      (struct firn_bytes){text.at, text.n},
                                      &err),
                       &err);
    }
    buf_release(&text);
}

static void put_pair(void *arg, const char *app, const char *other,
                     double slowdown)
{
    struct firn_buf *json = arg;
    jsonbuf_open(json, NULL, '{');
    jsonbuf_text(json, "app", app);
    jsonbuf_text(json, "other", other);
    jsonbuf_double(json, "slowdown", slowdown);
    jsonbuf_close(json, '}');
}

static void put_counts(const struct livecounts *counts, struct firn_buf *json)
{
    struct livecounts_row row;
    jsonbuf_open(json, "iterations", '[');
    for (size_t i = 0; livecounts_at(counts, i, &row); i++) {
        jsonbuf_open(json, NULL, '{');
        jsonbuf_text(json, "app", row.app);
        jsonbuf_int(json, "gpus", row.gpus);
        jsonbuf_text(json, "gpu", row.type);
        jsonbuf_int(json, "batch", row.batch);
        jsonbuf_double(json, "iteration_s", row.iteration_s);
        jsonbuf_double(json, "first_s", row.first_s);
        jsonbuf_close(json, '}');
    }
    jsonbuf_close(json, ']');
}

void loop_costs_json(const struct loop *loop, struct firn_buf *json)
{
    static const char *const names[LIVECOSTS] = {
        [LIVECOST_START] = "start_s",
        [LIVECOST_STOP] = "stop_s",
        [LIVECOST_END] = "end_s",
        [LIVECOST_PAUSE] = "pause_s",
        [LIVECOST_PREPARE] = "prepare_s",
        [LIVECOST_SLOWDOWN] = "slowdown",
        [LIVECOST_ESTIMATE] = "over_estimate",
        [LIVECOST_CLOCK] = "over_steps",
        [LIVECOST_PREPARED] = "prepared_start_s",
        [LIVECOST_SAVED] = "saved_s",
        [LIVECOST_WAITS] = "waits_for_gpus",
        [LIVECOST_FIRST] = "first_steps_s"};
    const struct livecosts *costs = loop->desk.costs;
    const struct firn_engine_def *engine = loop->dock.engine;
    const char *app;
    jsonbuf_open(json, NULL, '{');
    jsonbuf_int(json, "prepares",
                engine->prepares != NULL
                    ? engine->prepares(loop->dock.engine_state)
                    : 0);
    jsonbuf_open(json, "apps", '[');
    for (size_t i = 0; (app = livecosts_app(costs, i)) != NULL; i++) {
        jsonbuf_open(json, NULL, '{');
        jsonbuf_text(json, "app", app);
        for (int k = 0; k < LIVECOSTS; k++) {
            double value = livecosts_own_mean(costs, app, (enum livecost)k);
            jsonbuf_double(json, names[k], value >= 0 ? value : (double)NAN);
        }
        jsonbuf_close(json, '}');
    }
    jsonbuf_close(json, ']');
    jsonbuf_open(json, "pairs", '[');
    liveforecast_each_pair(loop->desk.forecast, put_pair, json);
    jsonbuf_close(json, ']');
    put_counts(loop->desk.counts, json);
    jsonbuf_close(json, '}');
}

bool loop_costs_is_changing(const struct track *track)
{
    return track->change.ordered_s > 0 &&
           track->change.attempt == track->open_attempt;
}

void loop_costs_ordered(struct loop *loop, const struct live_job *job,
                        struct track *track)
{
    if (track->open_attempt == 0 || loop_costs_is_changing(track))
        return;
    track->change = (struct change){.ordered_s = dock_now_s(&loop->dock),
                                    .attempt = track->open_attempt,
                                    .usual_step_s = job->last.step_s};
}

/* The round is told when the training of a job that has not reported its speed
 * on these GPUs begins. */
static void begins_at(struct loop *loop, const struct track *track, double at_s)
{
    const struct firn_job *in_round = desk_job(&loop->desk, track);
    if (in_round != NULL && in_round->held.nparts > 0 && !(in_round->rate > 0))
        round_starts(loop->desk.round, in_round->id, at_s,
                     dock_now_s(&loop->dock));
}

/* Is no other job on its GPUs? One that is there is alone no more. */
static bool has_gpus_alone(struct loop *loop, const struct track *track)
{
    const struct firn_alloc *gpus = &track->granted;
    const struct state *state = round_state(loop->desk.round);
    bool is_alone = gpus->how.merged_with == FIRN_NO_JOB;
    if (!gpus->is_shared)
        return is_alone;
    for (const struct firn_job *job = state_sharer(state, gpus, FIRN_NO_JOB);
         job != NULL; job = state_sharer(state, gpus, job->id)) {
        struct track *other =
            desk_track(&loop->desk, desk_book_id(&loop->desk, job->id));
        if (job->id == track->round_id || other == NULL)
            continue;
        is_alone = other->is_alone = false;
    }
    return is_alone;
}

void loop_costs_opened(struct loop *loop, const struct live_job *job,
                       struct track *track)
{
    track->is_alone = has_gpus_alone(loop, track);
    double start_s = livecosts_start_s(loop->desk.costs, app_of(job));
    if (start_s > 0)
        begins_at(loop, track, track->opened_s + start_s);
}

void loop_costs_begun(struct loop *loop, struct track *track, double prepared_s)
{
    const struct live_job *job = book_job(loop->book, track->id);
    track->launch_s = dock_now_s(&loop->dock) - track->opened_s;
    track->prepared_s = prepared_s;
    if (prepared_s > 0 && job != NULL)
        begins_at(loop, track,
                  track->opened_s +
                      desk_start_s(&loop->desk, app_of(job), prepared_s));
}

/* A preparation was whole if it lasted for this part of a usual start. One
 * that was cut short never waited for its GPUs, and with what came behind it is
 * a start like any other: one of less than HALF of a usual start, or one behind
 * which the rest took CLEARLY longer than it does behind whole ones. */
static const double WHOLE = 0.9, HALF = 0.5, CLEARLY = 2;

static bool was_cut_short(const struct livecosts *costs, const char *app,
                          double prepared_s, double start_s)
{
    double usual_s = livecosts_mean(costs, app, LIVECOST_START);
    double least_s = livecosts_own_mean(costs, app, LIVECOST_PREPARED);
    return prepared_s <= HALF * usual_s ||
           (least_s > 0 && start_s > CLEARLY * least_s);
}

/* The first step of an attempt came `start_s` after its GPUs were free. */
static void measure_start(struct loop *loop, struct live_job *job,
                          const struct track *track, double start_s)
{
    struct livecosts *costs = loop->desk.costs;
    struct firn_error err = {0};
    double usual_s = livecosts_mean(costs, app_of(job), LIVECOST_START);
    char text[LIVE_TEXT];
    bool may_wait =
        job->last.can >= 0 && ((unsigned)job->last.can & FIRN_CAN_AHEAD) != 0;
    if (may_wait && !(track->launch_s > 0))
        return; /* an earlier firnd started it: was it prepared? */
    metrics_observe(loop->metrics, METRIC_STARTUP_S, start_s);
    book_wrote(loop->book, book_first_step(loop->book, job, start_s, &err),
               &err);
    if (!(track->prepared_s > 0)) {
        livecosts_add(costs, app_of(job), LIVECOST_START, start_s);
        livecosts_add(costs, app_of(job), LIVECOST_SAVED, 0);
        return;
    }
    metrics_observe(loop->metrics, METRIC_PREPARED_S, start_s);
    if (track->prepared_s >= WHOLE * usual_s) /* not cut short by its GPUs */
        livecosts_add(costs, app_of(job), LIVECOST_PREPARED, start_s);
    else if (was_cut_short(costs, app_of(job), track->prepared_s, start_s))
        livecosts_add(costs, app_of(job), LIVECOST_START,
                      track->prepared_s + start_s);
    job->prepared_s = track->prepared_s;
    job->first_step_s = start_s;
    if (usual_s >= 0) /* what a start takes here without a preparation */
        livecosts_add(costs, app_of(job), LIVECOST_SAVED,
                      fmax(usual_s - start_s, 0));
    int n = snprintf(text, sizeof text,
                     "prepared for %.3g s before; its first step came %.3g s "
                     "after it had its GPUs",
                     track->prepared_s, start_s);
    if (usual_s >= 0)
        snprintf(text + n, sizeof text - (size_t)n,
                 ", %.3g s without preparation", usual_s);
    book_wrote(loop->book,
               book_say(loop->book, job, dock_now_s(&loop->dock), "prepared",
                        text, &err),
               &err);
}

/* Does its trainer wait for its GPUs? Learned of each attempt's first report
 * of abilities. */
static void learn_waits(struct loop *loop, const struct live_job *job,
                        struct track *track)
{
    if (job->last.can < 0 || track->waits_attempt == job->attempt ||
        app_of(job)[0] == '\0')
        return;
    track->waits_attempt = job->attempt;
    bool is_first =
        livecosts_own_mean(loop->desk.costs, app_of(job), LIVECOST_WAITS) < 0;
    livecosts_add(loop->desk.costs, app_of(job), LIVECOST_WAITS,
                  (unsigned)job->last.can & FIRN_CAN_AHEAD ? 1 : 0);
    if (is_first) /* a firnd that is killed now leaves it to its successor */
        loop_costs_save(loop);
}

/* Its last step is made: marks it, and others on its GPUs that have made theirs
 * and are still there, as those that end beside each other. */
static void begin_end(struct loop *loop, struct track *track)
{
    const struct state *state = round_state(loop->desk.round);
    const struct firn_job *job = desk_job(&loop->desk, track);
    track->last_step_s = dock_now_s(&loop->dock);
    if (job == NULL || !job->held.is_shared)
        return;
    for (const struct firn_job *at =
             state_sharer(state, &job->held, FIRN_NO_JOB);
         at != NULL; at = state_sharer(state, &job->held, at->id)) {
        struct track *other =
            desk_track(&loop->desk, desk_book_id(&loop->desk, at->id));
        if (other == NULL || other == track || !(other->last_step_s > 0))
            continue;
        track->ends_beside = other->ends_beside = true;
    }
}

/* It is gone. */
static void learn_end(struct loop *loop, const struct live_job *job,
                      const struct track *track)
{
    struct livecosts *costs = loop->desk.costs;
    const char *app = app_of(job);
    if (!(track->last_step_s > 0) ||
        (track->ends_beside &&
         livecosts_own_mean(costs, app, LIVECOST_END) >= 0))
        return;
    livecosts_add(costs, app, LIVECOST_END,
                  dock_now_s(&loop->dock) - track->last_step_s);
}

void loop_costs_reported(struct loop *loop, struct live_job *job,
                         struct track *track)
{
    struct change *change = &track->change;
    double launch_s = track->launch_s > 0 ? track->launch_s : 0;
    if (track->start_attempt != job->attempt && job->last.prepare_s > 0 &&
        job->last.step > 0) {
        track->start_attempt = job->attempt;
        measure_start(loop, job, track, launch_s + job->last.prepare_s);
    }
    learn_waits(loop, job, track); /* behind it: both are saved */
    if (job->last.step > 0)        /* it trains */
        begins_at(loop, track,
                  fmax(dock_now_s(&loop->dock),
                       desk_usual_from_s(&loop->desk, job, track)));
    if (job->last.progress >= 1 && !(track->last_step_s > 0))
        begin_end(loop, track);
    if (loop_costs_is_changing(track) && job->last.step_s > 0) {
        change->sum_s += job->last.step_s;
        change->nreports++;
    }
}

void loop_costs_resized(struct loop *loop, const struct live_job *job,
                        struct track *track, const struct firn_event *event)
{
    const struct change change = track->change;
    struct livecosts *costs = loop->desk.costs;
    const char *app = app_of(job);
    track->change = (struct change){0};
    if (event->stays)
        return;
    if (!event->is_resized) { /* from now on it is stopped */
        loop_costs_ordered(loop, job, track);
        return;
    }
    track->is_alone = false; /* not on the same GPUs from its start on */
    livecosts_add(costs, app, LIVECOST_PAUSE, event->pause_s);
    livecosts_add(costs, app, LIVECOST_PREPARE, event->prepare_s);
    if (change.nreports > 0 && change.usual_step_s > 0)
        livecosts_add(
            costs, app, LIVECOST_SLOWDOWN,
            fmax(change.sum_s / change.nreports / change.usual_step_s, 1));
}

/* From its start to its end, without a prepared start. */
static double whole_s(const struct loop *loop, const struct live_job *job,
                      const struct track *track)
{
    double all_s = dock_now_s(&loop->dock) - track->opened_s;
    double start_s = /* both without the first steps */
        livecosts_mean(loop->desk.costs, app_of(job), LIVECOST_START);
    return track->prepared_s > 0 && job->first_step_s > 0
               ? all_s + fmax(start_s - job->first_step_s, 0)
               : all_s;
}

/* How long it trained, and what the duration that its user gave was wrong by,
 * on the GPUs it asked for: by its training and a usual start and end; if
 * little of that was reported, by the clock where one attempt had them alone,
 * else by its last rate alone. */
static void judge_estimate(struct loop *loop, const struct live_job *job,
                           struct track *track)
{
    const struct firn_job *in_round = desk_job(&loop->desk, track);
    const struct clocked *pace = &track->pace;
    struct livecosts *costs = loop->desk.costs;
    bool has_pace =
        pace->attempt == job->attempt && pace->rate > 0 && pace->beside == 0;
    bool is_whole = job->attempt == 1 && track->is_alone;
    if (has_pace && track->rate > 0)
        livecosts_add(costs, app_of(job), LIVECOST_CLOCK,
                      fmax(track->rate / pace->rate, 1));
    livecosts_add(costs, app_of(job), LIVECOST_FIRST, desk_first_s(job, track));
    double trained_s = desk_trained_s(job, track);
    if (!(trained_s > 0 || has_pace || is_whole) ||
        (in_round != NULL && in_round->held.ngpus != in_round->spec.gpus) ||
        (in_round == NULL && job->ask.is_elastic))
        return;
    double around_s = livecosts_around_s(costs, app_of(job));
    double all_s = trained_s > 0 ? trained_s + around_s
                   : is_whole    ? whole_s(loop, job, track)
                                 : track->duration_s / pace->rate + around_s;
    track->trained_s = all_s - around_s;
    if (!(job->ask.duration_s > 0))
        return;
    livecosts_add(costs, app_of(job), LIVECOST_ESTIMATE,
                  all_s / job->ask.duration_s);
    livecosts_ended(costs, app_of(job), job->ask.duration_s, all_s);
}

void loop_costs_ended(struct loop *loop, const struct live_job *job,
                      struct track *track, const struct firn_event *event)
{
    const struct change change = track->change;
    double now_s = dock_now_s(&loop->dock);
    if (event->kind == FIRN_EVENT_LEFT && change.ordered_s > 0 &&
        change.attempt == event->attempt) {
        livecosts_add(loop->desk.costs, app_of(job), LIVECOST_STOP,
                      now_s - change.ordered_s);
        metrics_observe(loop->metrics, METRIC_STOP_S, now_s - change.ordered_s);
    }
    if (event->kind == FIRN_EVENT_DONE) {
        learn_end(loop, job, track);
        judge_estimate(loop, job, track);
    }
    track->change = (struct change){0};
    track->launch_s = track->last_step_s = track->prepared_s = 0;
    track->ends_beside = false;
}

double desk_share_of_training(const struct desk *desk,
                              const struct firn_job_spec *spec)
{
    double counted_s = desk_counted_s(desk, spec);
    if (!(spec->duration_s > 0))
        return 1;
    if (counted_s > 0)
        return counted_s / spec->duration_s;
    return livecosts_training_s(desk->costs, spec->app, spec->duration_s) /
           spec->duration_s;
}

double desk_training_s(const struct desk *desk, const struct live_job *job,
                       double duration_s, double *start_s, double *end_s)
{
    const char *app = app_of(job);
    const struct track *track = desk_track(desk, job->id);
    const struct firn_job *in_round =
        track != NULL ? desk_job(desk, track) : NULL;
    double counted_s =
        in_round != NULL ? desk_counted_s(desk, &in_round->spec) : 0;
    *start_s = *end_s = 0;
    if (!(job->ask.duration_s > 0) && !(counted_s > 0))
        return duration_s;
    *start_s = fmax(livecosts_start_s(desk->costs, app), 0);
    *end_s = fmax(livecosts_mean(desk->costs, app, LIVECOST_END), 0);
    return counted_s > 0 ? counted_s
                         : livecosts_training_s(desk->costs, app, duration_s);
}

double desk_start_s(const struct desk *desk, const char *app, double prepared_s)
{
    double start_s = livecosts_mean(desk->costs, app, LIVECOST_START);
    double all_s = fmax(livecosts_start_s(desk->costs, app), 0);
    double least_s = livecosts_mean(desk->costs, app, LIVECOST_PREPARED);
    if (!(prepared_s > 0) || !(start_s > 0))
        return all_s;
    least_s = fmin(fmax(least_s, 0), start_s);
    return all_s - fmin(prepared_s, start_s - least_s);
}

/* What a start saves by the processes that a waiting job has already. */
static void set_saved(const struct desk *desk, const struct firn_job *job,
                      struct firn_costs *out)
{
    double early_s;
    if (!desk_early_s(desk, job, &early_s))
        return;
    out->is_saved_known = true;
    out->saved_s = desk_start_s(desk, job->spec.app, 0) -
                   desk_start_s(desk, job->spec.app, early_s);
}

/* A user's duration counts from start to end, the steps of a job that was seen
 * do not. Progress is a share of the training, so that what is left of the
 * duration is as much training as all of it. (Before, all of the start and end
 * counted until a job was seen, however far it was: in a simulated future,
 * where no further job is seen, firn took jobs that trained for nearly done and
 * let others start beside them several seconds before it did so.) */
static void set_around(const struct desk *desk, const struct firn_job *job,
                       struct firn_costs *out)
{
    const struct desk_future *future = &desk->future;
    double now_s = future->now_s != NULL ? future->now_s(future->of)
                                         : dock_now_s(desk->dock);
    const struct firn_job_spec *spec = &job->spec;
    firn_job_id id = desk_book_id(desk, job->id);
    out->end_s = fmax(livecosts_mean(desk->costs, spec->app, LIVECOST_END), 0);
    if (!spec->is_nominal && !liveforecast_is_seen(desk->forecast, id))
        out->idle_s = (spec->duration_s - firn_job_done_s(job, now_s)) *
                      (1 - desk_share_of_training(desk, spec));
}

void desk_costs(const struct desk *desk, const struct firn_job *job,
                struct firn_costs *out)
{
    set_saved(desk, job, out);
    out->nprepared = desk->nprepared;
    set_around(desk, job, out);
    const struct firn_profile *profile =
        liveforecast_profile(desk->forecast, job);
    livecosts_of(desk->costs, job->spec.app, profile, out);
}
