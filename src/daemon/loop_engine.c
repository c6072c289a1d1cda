/* loop_engine.c - between the round and the engine, and back.
 *
 * The round drives an engine of the loop's own making, which passes steps on
 * under the book's ids, answers forecasts, and says in the book what is about
 * to happen. The real engine's events come back here.
 *
 * (1) What a job holds, as the book has it, is what its present epoch holds:
 * it is written with the epoch's number, before a process of it exists, so that
 * after a crash the book and the processes agree. What the round has given it
 * since is in the track. (2) A step that the engine refuses never breaks a
 * round: the job is put back behind it. (3) An end counts once, for the epoch
 * that is open.
 */
#include "base/buf.h"
#include "base/log.h"
#include "daemon/loopwork.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double FIXED = 0.5; /* memory of weights and the like, of all */

/* --- the engine as the round sees it ------------------------------------- */

static void copy_alloc(struct firn_alloc *to, const struct firn_alloc *from)
{
    struct firn_part *parts = mem_new((size_t)from->nparts + 1, sizeof *parts);
    if (from->nparts > 0)
        memcpy(parts, from->parts, (size_t)from->nparts * sizeof *parts);
    mem_free(to->parts);
    *to = *from;
    to->parts = parts;
}

void loop_say(struct loop *loop, struct live_job *job, enum live_state state,
              enum live_reason reason, const char *why)
{
    struct firn_error err = {0};
    enum firn_status status =
        book_state(loop->book, job, state, reason, loop_now_s(loop), why, &err);
    loop_wrote(loop, status, &err);
}

/* What its trainer is told from now on. */
static void give_orders(struct loop *loop, struct live_job *job,
                        const struct firn_alloc *to)
{
    struct firn_orders orders = firn_orders_none();
    struct firn_error err = {0};
    if (to->nparts > 0 && to->how.passes > 0)
        orders.passes = to->how.passes;
    if (to->nparts > 0 && (to->tunes & FIRN_TUNE_FREEZE) == 0 &&
        job->ask.freeze[0] != '\0')
        orders.nfrozen = 0; /* this policy leaves all layers in training */
    loop_wrote(loop, book_orders(loop->book, job, &orders, &err), &err);
}

/* The step as a sentence, and the state that it leads to. */
static void tell_step(struct loop *loop, struct live_job *job,
                      const struct firn_step *step)
{
    struct firn_buf to = {0}, named = {0}, from = {0};
    char why[LIVE_TEXT];
    firn_alloc_print(step->to, &to);
    loop_gpus_text(loop, to.at, &named);
    loop_gpus_text(loop, job->held, &from);
    enum firn_phase phase = loop->engine->phase(loop->engine_state, job->id);
    if (step->kind == FIRN_STEP_STOP) {
        metrics_add(loop->metrics, METRIC_RESTARTS, METRIC_RESTART_PREEMPT, 1);
        loop_say(loop, job, LIVE_PREEMPTING, LIVE_BECAUSE_POLICY,
                 loop->is_draining
                     ? job->ask.can_checkpoint
                           ? "its node is drained; it is asked to write a "
                             "checkpoint"
                           : "its node is drained; it is stopped without a "
                             "checkpoint, which it does not write"
                 : step->is_loss
                     ? "its node is down"
                     : "others go first; it is asked to leave its GPUs");
    } else if (phase == FIRN_PHASE_LEAVING) {
        snprintf(why, sizeof why, "from %.100s to %.100s", from.at, named.at);
        metrics_add(loop->metrics, METRIC_RESTARTS, METRIC_RESTART_RESIZE, 1);
        loop_say(loop, job, LIVE_RESIZING, LIVE_BECAUSE_POLICY, why);
    } else if (phase == FIRN_PHASE_RUNNING) { /* as before, but for a word */
        struct firn_error err = {0};
        loop_wrote(loop, book_held(loop->book, job, to.at, &err), &err);
    } else {
        snprintf(why, sizeof why, "starts on %.200s", named.at);
        loop_say(loop, job, LIVE_STARTING, LIVE_BECAUSE_NONE, why);
    }
    buf_release(&to);
    buf_release(&named);
    buf_release(&from);
}

static enum firn_status apply(void *state, const struct firn_step *step,
                              struct firn_error *err)
{
    struct loop *loop = state;
    struct firn_error why = {0};
    struct firn_job as = *step->job;
    struct firn_step passed = *step;
    (void)err;
    struct firn_alloc to = *step->to;
    to.how = ride_how(loop, &step->to->how);
    as.id = loop_book_id(loop, step->job->id);
    passed.job = &as;
    passed.to = &to;
    struct live_job *job = book_job(loop->book, as.id);
    struct track *track = loop_track(loop, as.id);
    if (job == NULL || track == NULL)
        FIRN_BUG("job %d of the round is in no book", step->job->id);
    copy_alloc(&track->granted, step->to);
    give_orders(loop, job, step->to);
    if (ride_takes_step(loop, job, step))
        return FIRN_OK;
    if (step->is_loss) /* a drained node lives: there is time to leave */
        passed.is_loss = !loop->is_draining;
    if (loop->engine->apply(loop->engine_state, &passed, &why) != FIRN_OK) {
        log_warn("job %d: %s", as.id, why.text); /* (2) */
        track->granted.nparts = track->granted.ngpus = 0;
        struct refused refused = {.job = as.id};
        snprintf(refused.why, sizeof refused.why, "%.200s", why.text);
        vec_add(&loop->refused, refused);
        return FIRN_OK;
    }
    tell_step(loop, job, &passed);
    if (step->kind == FIRN_STEP_START && !loop_can_stop(job))
        vec_add(&loop->started, as.id);
    return FIRN_OK;
}

static enum firn_status settled(void *state, struct firn_error *err)
{
    struct loop *loop = state;
    return loop->engine->settled
               ? loop->engine->settled(loop->engine_state, err)
               : FIRN_OK;
}

static double now_s(void *state)
{
    return loop_now_s(state);
}

static double rate(void *state, const struct firn_job *job,
                   const struct firn_way *way, double at_s)
{
    const struct loop *loop = state;
    (void)at_s;
    return liveforecast_rate(loop->forecast, loop_book_id(loop, job->id), job,
                             way);
}

static int gpus_max(void *state, const struct firn_job *job, unsigned tunes)
{
    const struct loop *loop = state;
    return liveforecast_gpus_max(loop->forecast, loop_book_id(loop, job->id),
                                 job, tunes);
}

static double slowdown(void *state, const struct firn_job *job,
                       const struct firn_job *other)
{
    const struct loop *loop = state;
    struct liveforecast_job a = {loop_book_id(loop, job->id), job};
    struct liveforecast_job b = {loop_book_id(loop, other->id), other};
    return liveforecast_slowdown(loop->forecast, a, b);
}

/* What goes with the batch is divided by the passes of a step; the rest, taken
 * to be half, is there whatever the batch. Elastic jobs take such orders. */
struct firn_load loop_load(const struct loop *loop, const struct firn_job *job,
                           const struct firn_way *way, bool is_elastic)
{
    struct firn_load load = liveforecast_load(
        loop->forecast, loop_book_id(loop, job->id), job, way);
    if (is_elastic && way->passes > 1)
        load.mem_gib *= FIXED + (1 - FIXED) / way->passes;
    return load;
}

static struct firn_load load(void *state, const struct firn_job *job,
                             const struct firn_way *way)
{
    const struct loop *loop = state;
    const struct live_job *live =
        book_job(loop->book, loop_book_id(loop, job->id));
    return loop_load(loop, job, way, live != NULL && live->ask.is_elastic);
}

static size_t llm_ways(void *state, const struct firn_job *job,
                       struct firn_llm_way *out, size_t max)
{
    const struct loop *loop = state;
    return liveforecast_llm_ways(loop->forecast, loop_book_id(loop, job->id),
                                 job, out, max);
}

static bool merge(void *state, const struct firn_job *a,
                  const struct firn_job *b, enum firn_merge_kind kind,
                  const struct firn_way *way, double at_s,
                  struct firn_merge *out)
{
    struct loop_pair pair = {a, b, kind};
    return loop_merge(state, &pair, way, at_s, out);
}

static const struct firn_forecast_def forecast_def = {.merge = merge,
                                                      .rate = rate,
                                                      .gpus_max = gpus_max,
                                                      .slowdown = slowdown,
                                                      .load = load,
                                                      .llm_ways = llm_ways};

void loop_engine_init(struct loop *loop)
{
    loop->live = (struct firn_engine_def){
        .name = loop->engine->name,
        .summary = loop->engine->summary,
        .gives = loop->engine->gives | FIRN_NEED_DURATION | FIRN_NEED_TYPES |
                 FIRN_NEED_FORECAST,
        .forecast = &forecast_def,
        .now_s = now_s,
        .apply = apply,
        .settled = settled,
    };
}

/* --- the host as the engine sees it -------------------------------------- */

/* The number of a start could not be written, so no process gets it. It is
 * written with its end, when there is room: no start is without one. */
static void never_started(struct loop *loop, struct live_job *job,
                          struct track *track)
{
    struct firn_event lost = {.kind = FIRN_EVENT_LEFT,
                              .job = job->id,
                              .epoch = job->epoch,
                              .end = FIRN_END_LOST};
    struct live_job *rider = ride_other(loop, job);
    if (rider != NULL)
        ride_ended(loop, job, rider, &lost);
    track->open_epoch = job->epoch;
    track->opened_s = loop_now_s(loop);
    loop_close_epoch(loop, job, &lost);
}

static enum firn_status next_epoch(void *arg, firn_job_id id, int64_t *epoch,
                                   struct firn_error *err)
{
    struct loop *loop = arg;
    struct live_job *job = book_job(loop->book, id);
    struct track *track = loop_track(loop, id);
    if (job == NULL || track == NULL || live_state_is_over(job->state))
        return firn_fail(err, FIRN_ENOENT, "there is no job %d to start", id);
    if (store_trouble(loop->store) != NULL)
        return firn_fail(err, FIRN_EUNSAVED, "%s", store_trouble(loop->store));
    struct firn_buf held = {0};
    struct firn_how how = ride_how(loop, &track->granted.how);
    if (job->state == LIVE_RUNNING) /* RUNNING is said of its last start only */
        loop_say(loop, job, LIVE_STARTING, LIVE_BECAUSE_LEAVING,
                 "starts again when its GPUs are free");
    FIRN_TRY(ride_open(loop, job, &how, err));
    firn_alloc_print(&track->granted, &held);
    enum firn_status status =
        book_held(loop->book, job, held.at, err); /* (1) */
    buf_release(&held);
    if (status == FIRN_OK)
        status = book_how(loop->book, job, &how, err);
    if (status == FIRN_OK)
        status = loop_type_keep(loop, job, track->granted.parts[0].node, err);
    if (status == FIRN_OK)
        status = book_next_epoch(loop->book, job, epoch, err);
    if (status == FIRN_EUNSAVED)
        never_started(loop, job, track);
    if (loop_wrote(loop, status, err)) {
        track->open_epoch = *epoch;
        track->opened_s = loop_now_s(loop);
    }
    return status;
}

enum firn_status loop_attach(struct loop *loop, struct firn_error *err)
{
    FIRN_TRY(loop_mark(loop, err));
    struct firn_engine_host host = {loop, loop->mark, loop_launch, next_epoch};
    return loop->engine->attach(loop->engine_state, &host, err);
}

/* --- events -------------------------------------------------------------- */

static void on_phase(struct loop *loop, struct live_job *job,
                     const struct firn_event *event)
{
    char why[LIVE_TEXT];
    struct firn_buf on = {0}, with = {0};
    loop_gpus_text(loop, job->held, &on);
    ride_words(loop, job, &with);
    if (event->phase == FIRN_PHASE_STARTING && !job->is_ending) {
        snprintf(why, sizeof why, "starts on %.120s%.100s", on.at, with.at);
        loop_say(loop, job, LIVE_STARTING, LIVE_BECAUSE_NONE, why);
    } else if (event->phase == FIRN_PHASE_RUNNING && !job->is_ending) {
        snprintf(why, sizeof why, "runs on %.120s%.100s", on.at, with.at);
        if (!(job->started_s > 0))
            metrics_observe(loop->metrics, METRIC_QUEUE_S,
                            loop_now_s(loop) - job->submitted_s);
        loop_say(loop, job, LIVE_RUNNING, LIVE_BECAUSE_NONE, why);
    }
    buf_release(&on);
    buf_release(&with);
}

/* The end of an attempt behind which the next one has begun. */
static void close_late(struct loop *loop, struct live_job *job, int64_t epoch,
                       const struct firn_event *event)
{
    struct firn_error err = {0};
    struct store_epoch last = {.epoch = epoch,
                               .ended_s = loop_now_s(loop),
                               .end = event->end,
                               .exit_status = event->exit_status};
    loop_wrote(loop, book_close_attempts(loop->book, job, &last, &err), &err);
}

/* (3) */
void loop_close_epoch(struct loop *loop, struct live_job *job,
                      const struct firn_event *event)
{
    struct firn_error err = {0};
    struct track *track = loop_track(loop, job->id);
    if (event->epoch > 0 && event->epoch < track->open_epoch)
        close_late(loop, job, event->epoch, event);
    if (track->open_epoch == 0 || event->epoch != track->open_epoch)
        return;
    struct store_epoch epoch = {.job = job->id,
                                .epoch = event->epoch,
                                .started_s = track->opened_s,
                                .ended_s = loop_now_s(loop),
                                .end = event->end,
                                .exit_status = event->exit_status,
                                .held = job->held};
    track->open_epoch = 0;
    track->rate = track->turn = track->best = 0;
    track->best_epoch = 0;
    metrics_add(loop->metrics, METRIC_ENDS, event->end, 1);
    loop_wrote(loop, book_epoch_ended(loop->book, job, &epoch, &err), &err);
    loop_wrote(loop, book_held(loop->book, job, "-", &err), &err);
}

void loop_pin_leaving(struct loop *loop, struct live_job *job)
{
    struct track *track = loop_track(loop, job->id);
    struct firn_alloc has = FIRN_ALLOC_NONE;
    if (track->is_pinned || !recover_alloc(job->held, &has))
        return;
    if (has.nparts == 0 || has.is_shared) { /* its mate stays there */
        mem_free(has.parts);
        return;
    }
    mem_free(track->granted.parts);
    track->granted = has;
    loop_pin(loop, job);
}

void loop_stopped_text(const struct live_job *job, int end, double ran_s,
                       char out[LIVE_TEXT])
{
    char since[32];
    if (ran_s > 120)
        snprintf(since, sizeof since, "%.0f min", ran_s / 60);
    else
        snprintf(since, sizeof since, "%.0f s", fmax(ran_s, 0));
    if (!(ran_s >= 0))
        snprintf(out, LIVE_TEXT,
                 "stopped before its processes began; waits for GPUs");
    else if (end == FIRN_END_CHECKPOINT)
        snprintf(out, LIVE_TEXT, "stopped by a checkpoint; waits for GPUs");
    else if (job->ask.can_checkpoint)
        snprintf(out, LIVE_TEXT,
                 "stopped after %s; no checkpoint was written then, and work "
                 "since the last one before, if there is any, is lost; waits "
                 "for GPUs",
                 since);
    else
        snprintf(out, LIVE_TEXT,
                 "stopped; it writes no checkpoints, and the work of attempt "
                 "%lld (%s) is lost; waits for GPUs",
                 (long long)job->epoch, since);
}

/* It gave its GPUs up as planned, after `ran_s`; NaN: it had no attempt. */
static void on_left(struct loop *loop, struct live_job *job,
                    struct track *track, int end, double ran_s)
{
    char why[LIVE_TEXT];
    enum firn_phase phase = loop->engine->phase(loop->engine_state, job->id);
    const struct firn_job *in_round = loop_round_job(loop, track);
    if (job->is_ending) {
        loop_end(loop, job, LIVE_CANCELLED, LIVE_BECAUSE_USER,
                 "cancelled by its user");
        return;
    }
    if (phase != FIRN_PHASE_GONE) {
        loop_say(loop, job, LIVE_STARTING, LIVE_BECAUSE_LEAVING,
                 "starts again when its GPUs are free");
        return;
    }
    if (job->is_held) {
        loop_unpin(loop, track);
        loop_say(loop, job, LIVE_PENDING, LIVE_BECAUSE_HELD,
                 "held back by its user");
        return;
    }
    if (ride_awaits(loop, job)) {
        loop_say(loop, job, LIVE_STARTING, LIVE_BECAUSE_LEAVING,
                 "starts again, trained by another job's processes");
        return;
    }
    loop_stopped_text(job, end, ran_s, why);
    loop_say(loop, job, LIVE_PENDING, LIVE_BECAUSE_PRIORITY, why);
    loop_unpin(loop, track);
    if (in_round != NULL && in_round->held.nparts > 0)
        loop_withdraw(loop, track); /* what the round gave it is gone */
    loop_admit(loop, job);
}

/* LEFT, DONE or FAIL of a job, alone or with a rider. */
static void on_end(struct loop *loop, struct live_job *job,
                   const struct live_job *rider, const struct firn_event *event)
{
    struct track *track = loop_track(loop, job->id);
    bool is_open = track->open_epoch != 0 && event->epoch == track->open_epoch;
    double ran_s = is_open ? loop_now_s(loop) - track->opened_s : (double)NAN;
    loop_close_epoch(loop, job, event);
    if (event->kind == FIRN_EVENT_LEFT)
        on_left(loop, job, track, event->end, ran_s);
    else if (event->kind == FIRN_EVENT_DONE)
        loop_end(loop, job, LIVE_SUCCEEDED, LIVE_BECAUSE_EXIT,
                 "ended with status 0");
    else if (rider != NULL)
        ride_failed(loop, job, event);
    else
        loop_failed(loop, job, event);
}

void loop_event(struct loop *loop, const struct firn_event *event)
{
    if (loop_outside_event(loop, event))
        return;
    struct live_job *job = book_job(loop->book, event->job);
    struct track *track = loop_track(loop, event->job);
    if (job == NULL || track == NULL || live_state_is_over(job->state))
        return;
    struct live_job *rider =
        event->kind == FIRN_EVENT_PHASE || event->epoch == track->open_epoch
            ? ride_other(loop, job)
            : NULL;
    if (event->kind == FIRN_EVENT_PHASE) {
        on_phase(loop, job, event);
        if (rider != NULL)
            on_phase(loop, rider, event);
        return;
    }
    if (event->kind != FIRN_EVENT_LEFT && event->kind != FIRN_EVENT_DONE &&
        event->kind != FIRN_EVENT_FAIL)
        return;
    struct live_job *other = ride_other(loop, job);
    if (other != NULL && event->epoch > 0 && event->epoch < track->open_epoch)
        close_late(loop, other, other->epoch - 1, event);
    on_end(loop, job, rider, event);
    if (rider != NULL)
        ride_ended(loop, job, rider, event);
    ride_check(loop);
}
