/* loop_engine.c - between the round and the engine, and back.
 *
 * The round drives an engine of the loop's own making, which passes steps on
 * under the book's ids, answers forecasts, and says in the book what is about
 * to happen. The real engine's events come back here.
 *
 * (1) A step that the engine refuses never breaks a round: the job is put back
 * behind it. (2) The attempts of two partners are on disk in one commit, and
 * end in one. (3) So are those of all jobs that the engine starts together: a
 * commit for each would hold up requests for as long as the disk takes for all
 * of them.
 */
#include "base/buf.h"
#include "base/log.h"
#include "daemon/abilities.h"
#include "daemon/loopwork.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

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

/* The batch and, for a start, the frozen layers that suit these GPUs best. A
 * trainer that takes orders of batches goes back to the submitted one where the
 * policy does not tune it. */
static void order_settings(struct loop *loop, struct live_job *job,
                           const struct firn_alloc *to,
                           struct firn_orders *orders)
{
    const struct track *track = desk_track(&loop->desk, job->id);
    const struct firn_job *in_round =
        track != NULL ? desk_job(&loop->desk, track) : NULL;
    struct firn_setting best = {0, -1, 1};
    bool takes_batch = job->ask.batch_rule[0] != '\0' &&
                       (abilities_of(job, NULL) & FIRN_CAN_BATCH);
    job->start_frozen = -1;
    if (in_round != NULL && to->tunes != 0) {
        struct firn_job as = *in_round;
        as.held = *to;
        struct firn_way way =
            liveforecast_held(loop->desk.forecast, job->id, &as);
        liveforecast_setting(loop->desk.forecast, job->id, &as, &way, &best);
    }
    if (to->tunes & FIRN_TUNE_FREEZE)
        job->start_frozen = best.nfrozen;
    if (takes_batch && (to->tunes & FIRN_TUNE_BATCH) && best.batch >= 1)
        orders->batch = (int)fmin(best.batch, 1e9);
    else if (takes_batch && job->ask.batch > 0)
        orders->batch = job->ask.batch;
    if (orders->batch > job->ask.batch_max && job->ask.batch_max > 0)
        orders->batch = job->ask.batch_max;
}

/* How many processes a GPU of each type gets when the job starts there. */
static void order_executors(struct loop *loop, struct live_job *job,
                            const struct firn_alloc *to)
{
    const struct track *track = desk_track(&loop->desk, job->id);
    const struct firn_job *in_round =
        track != NULL ? desk_job(&loop->desk, track) : NULL;
    struct firn_waste_type types[FIRN_TYPES_MAX];
    memset(job->executors, 0, sizeof job->executors);
    if (in_round == NULL || (to->tunes & FIRN_TUNE_EXECUTORS) == 0)
        return;
    struct firn_job as = *in_round;
    as.held = *to;
    if (!liveforecast_lay_out(loop->desk.forecast, job->id, &as, types))
        return;
    for (int t = 0; t < loop->dock.cluster.ntypes; t++)
        if (types[t].threads > 0)
            job->executors[t] = (unsigned char)types[t].executors;
}

void loop_orders(struct loop *loop, struct live_job *job,
                 const struct firn_alloc *to)
{
    struct firn_orders orders = firn_orders_none();
    struct firn_error err = {0};
    if (to->nparts > 0 && to->how.passes > 0)
        orders.passes = to->how.passes;
    if (to->nparts > 0 && (to->tunes & FIRN_TUNE_FREEZE) == 0 &&
        job->ask.freeze[0] != '\0')
        orders.nfrozen = 0; /* this policy leaves all layers in training */
    if (to->nparts > 0)
        order_settings(loop, job, to, &orders);
    order_executors(loop, job, to);
    book_wrote(loop->book, book_orders(loop->book, job, &orders, &err), &err);
}

/* The step as an event of the job's life. */
static enum life_event event_of(const struct loop *loop,
                                const struct firn_step *step)
{
    if (step->kind != FIRN_STEP_STOP)
        return LIFE_GIVEN;
    return loop->desk.is_draining ? LIFE_DRAINED
           : step->is_loss        ? LIFE_NODE_DOWN
                                  : LIFE_TAKEN;
}

/* Why the step takes GPUs from the job; none of a start. */
static struct live_stop cause_of(const struct loop *loop,
                                 const struct firn_step *step)
{
    static const enum live_cause causes[] = {
        [FIRN_CAUSE_POLICY] = LIVE_CAUSE_POLICY,
        [FIRN_CAUSE_SHARE] = LIVE_CAUSE_SHARE,
        [FIRN_CAUSE_QUOTA] = LIVE_CAUSE_QUOTA,
        [FIRN_CAUSE_ROOM] = LIVE_CAUSE_ROOM,
        [FIRN_CAUSE_NODE] = LIVE_CAUSE_NODE};
    struct live_stop stop = {causes[step->cause], FIRN_NO_JOB};
    if (step->kind == FIRN_STEP_START)
        stop.cause = LIVE_CAUSE_NONE;
    else if (loop->desk.is_draining)
        stop.cause = LIVE_CAUSE_DRAIN;
    if (step->for_job != FIRN_NO_JOB)
        stop.for_job = desk_book_id(&loop->desk, step->for_job);
    return stop;
}

/* The engine has taken the step, or is not to hear of it. */
static void tell_step(struct loop *loop, struct live_job *job,
                      const struct firn_step *step, firn_job_id lead)
{
    struct firn_buf to = {0}, from = {0};
    char partner[16];
    snprintf(partner, sizeof partner, "%d", lead);
    dock_alloc_text(&loop->dock, step->to, &to);
    dock_gpus_text(&loop->dock, job->held, &from);
    struct happening what = {.event = event_of(loop, step),
                             .facts = lead != FIRN_NO_JOB ? LIFE_IS_AWAITS : 0,
                             .nofacts =
                                 lead == FIRN_NO_JOB ? LIFE_IS_AWAITS : 0,
                             .words = {to.at, from.at, partner, NULL},
                             .to = step->to,
                             .stop = cause_of(loop, step)};
    loop_happens(loop, job, &what);
    buf_release(&to);
    buf_release(&from);
}

/* The partner whose processes shall train the job by this step. */
static firn_job_id lead_by(const struct loop *loop, const struct live_job *job,
                           const struct firn_step *step)
{
    firn_job_id with =
        step->to->nparts > 0 && step->to->how.merged_with != FIRN_NO_JOB
            ? desk_book_id(&loop->desk, step->to->how.merged_with)
            : FIRN_NO_JOB;
    return with < job->id ? with : FIRN_NO_JOB;
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
    to.how = partner_how(&loop->desk, &step->to->how);
    as.id = desk_book_id(&loop->desk, step->job->id);
    passed.job = &as;
    passed.to = &to;
    struct live_job *job = book_job(loop->book, as.id);
    struct track *track = desk_track(&loop->desk, as.id);
    if (job == NULL || track == NULL)
        FIRN_BUG("job %d of the round is in no book", step->job->id);
    copy_alloc(&track->granted, step->to);
    if (step->kind != FIRN_STEP_START && !step->is_loss)
        loop_costs_ordered(loop, job, track);
    loop_orders(loop, job, step->to);
    firn_job_id lead = lead_by(loop, job, step);
    bool is_led = lead != FIRN_NO_JOB || partner_lead(loop->book, job) != NULL;
    if (step->is_loss) /* a drained node lives: there is time to leave */
        passed.is_loss = !loop->desk.is_draining;
    if (!is_led && loop->dock.engine->apply(loop->dock.engine_state, &passed,
                                            &why) != FIRN_OK) {
        log_warn("job %d: %s", as.id, why.text); /* (1) */
        track->granted.nparts = track->granted.ngpus = 0;
        struct refused refused = {.job = as.id};
        snprintf(refused.why, sizeof refused.why, "%.200s", why.text);
        vec_add(&loop->desk.refused, refused);
        return FIRN_OK;
    }
    tell_step(loop, job, &passed, lead);
    return FIRN_OK;
}

static enum firn_status settled(void *state, struct firn_error *err)
{
    struct loop *loop = state;
    return loop->dock.engine->settled
               ? loop->dock.engine->settled(loop->dock.engine_state, err)
               : FIRN_OK;
}

enum firn_status loop_resize(struct loop *loop, struct live_job *job,
                             const struct firn_alloc *to,
                             struct firn_error *err)
{
    FIRN_TRY(desk_restore(&loop->desk, job, to, err));
    const struct firn_job *in_round =
        desk_job(&loop->desk, desk_track(&loop->desk, job->id));
    struct firn_step step = {.kind = FIRN_STEP_RESIZE,
                             .job = in_round,
                             .to = &in_round->held,
                             .at_s = dock_now_s(&loop->dock)};
    FIRN_TRY(apply(loop, &step, err));
    return settled(loop, err);
}

static double now_s(void *state)
{
    return dock_now_s(&((struct loop *)state)->dock);
}

static double rate(void *state, const struct firn_job *job,
                   const struct firn_way *way, double at_s)
{
    const struct loop *loop = state;
    (void)at_s;
    return liveforecast_rate(loop->desk.forecast,
                             desk_book_id(&loop->desk, job->id), job, way);
}

static int gpus_max(void *state, const struct firn_job *job, unsigned tunes)
{
    const struct loop *loop = state;
    return liveforecast_gpus_max(
        loop->desk.forecast, desk_book_id(&loop->desk, job->id), job, tunes);
}

static double slowdown(void *state, const struct firn_job *job,
                       const struct firn_job *other)
{
    const struct loop *loop = state;
    struct liveforecast_job a = {desk_book_id(&loop->desk, job->id), job};
    struct liveforecast_job b = {desk_book_id(&loop->desk, other->id), other};
    return liveforecast_slowdown(loop->desk.forecast, a, b);
}

static bool is_guess(void *state, const struct firn_job *job,
                     const struct firn_job *other)
{
    const struct loop *loop = state;
    struct liveforecast_job a = {desk_book_id(&loop->desk, job->id), job};
    struct liveforecast_job b = {desk_book_id(&loop->desk, other->id), other};
    return liveforecast_slowdown_is_guess(loop->desk.forecast, a, b);
}

static double slowdown_in(void *state, const struct firn_job *job,
                          const struct firn_way *way,
                          const struct firn_job *other,
                          const struct firn_way *other_way)
{
    const struct loop *loop = state;
    struct liveforecast_job a = {desk_book_id(&loop->desk, job->id), job};
    struct liveforecast_job b = {desk_book_id(&loop->desk, other->id), other};
    return liveforecast_slowdown_in(loop->desk.forecast, a, way, b, other_way);
}

static struct firn_load load(void *state, const struct firn_job *job,
                             const struct firn_way *way)
{
    return desk_load(&((const struct loop *)state)->desk, job, way);
}

static size_t llm_ways(void *state, const struct firn_job *job,
                       struct firn_llm_way *out, size_t max)
{
    const struct loop *loop = state;
    return liveforecast_llm_ways(
        loop->desk.forecast, desk_book_id(&loop->desk, job->id), job, out, max);
}

static bool merge(void *state, const struct firn_job *a,
                  const struct firn_job *b, enum firn_merge_kind kind,
                  const struct firn_way *way, double at_s,
                  struct firn_merge *out)
{
    struct desk_pair pair = {a, b, kind};
    return desk_merge(&((struct loop *)state)->desk, &pair, way, at_s, out);
}

static bool after(void *state, firn_job_id from, const struct firn_job *job,
                  struct firn_after *out)
{
    return desk_after(&((struct loop *)state)->desk, from, job, out);
}

static bool setting(void *state, const struct firn_job *job,
                    const struct firn_way *way, struct firn_setting *out)
{
    const struct loop *loop = state;
    return liveforecast_setting(
        loop->desk.forecast, desk_book_id(&loop->desk, job->id), job, way, out);
}

static int executors(void *state, const struct firn_job *job, firn_type_id type,
                     struct firn_executor_ways *out)
{
    const struct loop *loop = state;
    return liveforecast_executors(loop->desk.forecast,
                                  desk_book_id(&loop->desk, job->id), job, type,
                                  out);
}

static void costs(void *state, const struct firn_job *job,
                  struct firn_costs *out)
{
    desk_costs(&((const struct loop *)state)->desk, job, out);
}

static const struct firn_forecast_def forecast_def = {.merge = merge,
                                                      .after = after,
                                                      .costs = costs,
                                                      .executors = executors,
                                                      .setting = setting,
                                                      .rate = rate,
                                                      .gpus_max = gpus_max,
                                                      .slowdown = slowdown,
                                                      .is_guess = is_guess,
                                                      .slowdown_in =
                                                          slowdown_in,
                                                      .load = load,
                                                      .llm_ways = llm_ways};

/* What starts have gained here in the mean, those that were not prepared
 * included: a policy may count on no more. */
static int ahead_s(void *state)
{
    const struct dock *dock = &((const struct loop *)state)->dock;
    int most_s = dock->engine->ahead_s != NULL
                     ? dock->engine->ahead_s(dock->engine_state)
                     : 0;
    double saved_s = livecosts_all_mean(
        ((const struct loop *)state)->desk.costs, LIVECOST_SAVED);
    return (int)fmax(fmin(most_s, saved_s), 0);
}

void loop_engine_init(struct loop *loop)
{
    loop->desk.live = (struct firn_engine_def){
        .name = loop->dock.engine->name,
        .summary = loop->dock.engine->summary,
        .gives = loop->dock.engine->gives | FIRN_NEED_DURATION |
                 FIRN_NEED_TYPES | FIRN_NEED_FORECAST,
        .forecast = &forecast_def,
        .now_s = now_s,
        .apply = apply,
        .settled = settled,
        .ahead_s = ahead_s,
    };
}

/* --- the host as the engine sees it -------------------------------------- */

/* Before a job's attempt: opens that of the partner that it is to train, which
 * is in `out`; NULL: it trains none. FIRN_EINVAL: it cannot start yet. */
static enum firn_status begin_partner(struct loop *loop, struct live_job *job,
                                      struct live_job **out,
                                      struct firn_error *err)
{
    struct live_job *before = partner_of(loop->book, job);
    struct live_job *partner = partner_wanted(&loop->desk, job);
    const struct track *track = desk_track(&loop->desk, job->id);
    *out = NULL;
    if (before != NULL && before->id < job->id)
        return firn_fail(err, FIRN_EINVAL,
                         "job %d is still trained together with job %d",
                         job->id, before->id);
    /* The engine has queued the end of the attempt that trained both, and it
     * says whether a checkpoint was written: `before` ends with it. */
    if (before != NULL && before != partner && track->open_attempt != 0)
        return firn_fail(err, FIRN_EINVAL,
                         "the end of attempt %lld, which trained job %d too, "
                         "is not reported yet",
                         (long long)track->open_attempt, before->id);
    if (before != NULL && before != partner) { /* no end was reported */
        struct firn_event lost = {.kind = FIRN_EVENT_LEFT,
                                  .end = FIRN_END_LOST};
        loop_partner_ends(loop, job, before, &lost);
    }
    if (partner == NULL || partner->id < job->id || partner->is_ending ||
        partner->is_held)
        return FIRN_OK;
    if (dock_phase(&loop->dock, partner->id) != FIRN_PHASE_GONE)
        return firn_fail(err, FIRN_EINVAL,
                         "job %d, its partner, has not left its GPUs yet",
                         partner->id);
    struct happening what = {
        .event = LIFE_PARTNER_BEGINS, .partner = job, .err = err};
    loop_happens(loop, partner, &what);
    if (what.status == FIRN_OK)
        *out = partner;
    return what.status;
}

/* The number could not be written, so no process gets it. It is written with
 * its end, when there is room: each attempt has one. */
static void void_attempt(struct loop *loop, struct live_job *job)
{
    struct track *track = desk_track(&loop->desk, job->id);
    struct live_job *partner = partner_of(loop->book, job);
    struct firn_event lost = {.kind = FIRN_EVENT_LEFT,
                              .job = job->id,
                              .attempt = job->attempt,
                              .end = FIRN_END_LOST};
    if (partner != NULL && partner->id > job->id)
        loop_partner_ends(loop, job, partner, &lost);
    track->open_attempt = job->attempt;
    track->opened_s = dock_now_s(&loop->dock);
    loop_close_attempt(loop, job, &lost);
}

static enum firn_status next_attempt(void *arg, firn_job_id id,
                                     int64_t *attempt, struct firn_error *err)
{
    struct loop *loop = arg;
    struct live_job *job = book_job(loop->book, id), *partner = NULL;
    const struct track *track = desk_track(&loop->desk, id);
    if (job == NULL || track == NULL || live_state_is_over(job->state))
        return firn_fail(err, FIRN_ENOENT, "there is no job %d to start", id);
    if (store_trouble(loop->store) != NULL)
        return firn_fail(err, FIRN_EUNSAVED, "%s", store_trouble(loop->store));
    FIRN_TRY(begin_partner(loop, job, &partner, err));
    struct happening what = {
        .event = LIFE_ATTEMPT, .partner = partner, .err = err};
    loop_happens(loop, job, &what);
    if (what.status != FIRN_OK) {
        struct firn_event lost = {.kind = FIRN_EVENT_LEFT,
                                  .job = id,
                                  .attempt = job->attempt,
                                  .end = FIRN_END_LOST};
        if (partner != NULL)
            loop_partner_ends(loop, job, partner, &lost);
        return what.status;
    }
    *attempt = track->open_attempt;
    vec_add(&loop->dock.unkept, id);
    return FIRN_OK;
}

/* (3) */
static enum firn_status keep(void *arg, struct firn_error *err)
{
    struct loop *loop = arg;
    enum firn_status status = book_keep_attempts(loop->book, err);
    book_wrote(loop->book, status, err);
    for (size_t i = 0; status == FIRN_EUNSAVED && i < loop->dock.unkept.n; i++)
        void_attempt(loop, book_job(loop->book, loop->dock.unkept.at[i]));
    loop->dock.unkept.n = 0;
    return status;
}

static bool launch(void *arg, firn_job_id id, struct firn_launch *out)
{
    struct loop *loop = arg;
    if (!dock_launch(&loop->dock, id, out))
        return false;
    out->can_ahead = desk_can_ahead(&loop->desk, book_job(loop->book, id));
    return true;
}

struct firn_engine_host loop_engine_host(struct loop *loop)
{
    return (struct firn_engine_host){.arg = loop,
                                     .launch = launch,
                                     .next_attempt = next_attempt,
                                     .keep = keep};
}

/* --- events -------------------------------------------------------------- */

static void on_phase(struct loop *loop, struct live_job *job,
                     const struct firn_event *event)
{
    struct firn_buf on = {0}, with = {0};
    dock_gpus_text(&loop->dock, job->held, &on);
    partner_words(&loop->desk, job, &with);
    struct happening what = {.words = {.gpus = on.at, .partner = with.at}};
    if (event->phase == FIRN_PHASE_STARTING)
        what.event = LIFE_BEGINS;
    else
        what.event = LIFE_RUNS;
    if (event->phase == FIRN_PHASE_STARTING ||
        event->phase == FIRN_PHASE_RUNNING)
        loop_happens(loop, job, &what);
    buf_release(&on);
    buf_release(&with);
}

/* A resize of the running processes is over. */
static void on_resized(struct loop *loop, struct live_job *job,
                       const struct firn_event *event)
{
    struct firn_buf on = {0};
    char why[LIVE_TEXT];
    dock_gpus_text(&loop->dock, job->held, &on);
    struct firn_error err = {0};
    if (event->is_resized) {
        metrics_observe(loop->metrics, METRIC_PAUSE_S, event->pause_s);
        snprintf(why, sizeof why,
                 "resized without a stop: ready in %.3g s, paused for %.3g s",
                 event->prepare_s, event->pause_s);
    } else {
        if (!event->stays)
            metrics_add(loop->metrics, METRIC_JOINS_FAILED, 0, 1);
        snprintf(why, sizeof why, "%s: %.120s",
                 event->stays ? "not resized, it trains on as it was"
                              : "is restarted for its resize",
                 event->why != NULL ? event->why : "");
    }
    bool runs_on = event->is_resized || event->stays;
    if (runs_on)
        book_wrote(loop->book, book_resized(loop->book, job, why, &err), &err);
    struct happening what = {.event = runs_on ? LIFE_RESIZED : LIFE_NOT_RESIZED,
                             .words = {.gpus = on.at, .why = why}};
    loop_happens(loop, job, &what);
    buf_release(&on);
}

/* Processes of its next attempt wait for its GPUs. */
static void on_prepared(struct loop *loop, struct live_job *job,
                        const struct firn_event *event)
{
    struct firn_error err = {0};
    char text[LIVE_TEXT];
    snprintf(text, sizeof text,
             "its processes are prepared, in %.3g s, and wait for its GPUs",
             event->prepare_s);
    book_wrote(loop->book,
               book_say(loop->book, job, dock_now_s(&loop->dock), "prepared",
                        text, &err),
               &err);
}

/* LEFT, DONE or FAIL of a job, alone or with a partner. */
static void on_end(struct loop *loop, struct live_job *job,
                   const struct live_job *partner,
                   const struct firn_event *event)
{
    struct track *track = desk_track(&loop->desk, job->id);
    bool is_open =
        track->open_attempt != 0 && event->attempt == track->open_attempt;
    double ran_s =
        is_open ? dock_now_s(&loop->dock) - track->opened_s : (double)NAN;
    char why[LIVE_TEXT] = "";
    struct happening what = {.event = LIFE_DONE,
                             .end = event,
                             .nofacts = partner == NULL ? LIFE_IS_PARTNERED : 0,
                             .words = {.why = why}};
    loop_memory_ended(loop, job, event);
    if (is_open)
        loop_costs_ended(loop, job, track, event);
    if (event->kind == FIRN_EVENT_LEFT) {
        what.event = LIFE_LEFT;
        loop_stopped_text(job, event->end, ran_s, why);
    } else if (event->kind == FIRN_EVENT_FAIL) {
        loop_judge_failure(loop, job, &what, why);
        if (partner != NULL)
            loop_failed_text(event, why);
    }
    loop_happens(loop, job, &what);
}

static void on_job_event(struct loop *loop, const struct firn_event *event)
{
    struct live_job *job = book_job(loop->book, event->job);
    struct track *track = desk_track(&loop->desk, event->job);
    if (job == NULL || track == NULL || live_state_is_over(job->state))
        return;
    struct live_job *other = partner_of(loop->book, job);
    struct live_job *partner =
        event->kind == FIRN_EVENT_PHASE || event->attempt == track->open_attempt
            ? other
            : NULL;
    if (event->kind == FIRN_EVENT_PHASE) {
        if (event->phase == FIRN_PHASE_STARTING)
            loop_costs_begun(loop, track, event->prepare_s);
        on_phase(loop, job, event);
        if (partner != NULL)
            on_phase(loop, partner, event);
        return;
    }
    if (event->kind == FIRN_EVENT_RESIZED &&
        event->attempt == track->open_attempt) {
        loop_costs_resized(loop, job, track, event);
        on_resized(loop, job, event);
    }
    if (event->kind == FIRN_EVENT_PREPARED)
        on_prepared(loop, job, event);
    if (event->kind != FIRN_EVENT_LEFT && event->kind != FIRN_EVENT_DONE &&
        event->kind != FIRN_EVENT_FAIL)
        return;
    if (other != NULL && event->attempt > 0 &&
        event->attempt < track->open_attempt)
        loop_close_late(loop, other, other->attempt - 1, event);
    on_end(loop, job, partner, event);
    if (partner != NULL)
        loop_partner_ends(loop, job, partner, event);
    loop_check_partners(loop);
    if (event->kind == FIRN_EVENT_LEFT)
        loop_bars_left(loop, event->job);
}

void loop_event(struct loop *loop, const struct firn_event *event)
{
    switch (event->kind) {
    case FIRN_EVENT_NODE_UP:
    case FIRN_EVENT_NODE_DOWN:
        loop_node_event(loop, event);
        break;
    case FIRN_EVENT_TAKEN:
        foreign_taken(&loop->desk, &event->taken);
        break;
    case FIRN_EVENT_BARS:
        loop_bars_event(loop, event->job);
        break;
    case FIRN_EVENT_INBOX:
        loop_inbox_event(loop, event->inbox);
        break;
    case FIRN_EVENT_TIMES:
        loop_attempt_times(loop, event);
        break;
    default:
        on_job_event(loop, event);
    }
}
