/* loop_life.c - what happens to a job: its facts are looked up, the table of
 * life.c says what follows, and the actions are taken.
 *
 * This is the one place that changes a job's state. Actions are taken in the
 * order of enum life_act_bit; the state is written where life.h says.
 *
 * (1) An event of a job that is over changes nothing: processes may report
 * after the end. (2) An event that the table does not know in that state is
 * logged and changes nothing. (3) When the book cannot write, the loop is
 * broken and ends, and no request is answered.
 *
 * (4) The first cause that stops an attempt is kept with it; every event of the
 * way from there to its end has it, too.
 *
 * An action may be the cause of another event of the same job (there are no
 * GPUs that it could be admitted to) or of its partner (it is to leave GPUs
 * that both hold); it is handled before the next action.
 */
#include "base/buf.h"
#include "base/log.h"
#include "daemon/announce.h"
#include "daemon/loopwork.h"
#include <math.h>
#include <stdio.h>

static const double SILENT_S = 600; /* of a partner whose lead reports */

/* --- facts ---------------------------------------------------------------- */

/* Does the round schedule it by something else than it asks for now? */
static bool is_outdated(const struct loop *loop, const struct live_job *job,
                        const struct firn_job *in_round)
{
    struct firn_job_spec spec;
    desk_spec(&loop->desk, job, &spec);
    if (loop->desk.readmits && in_round->held.nparts == 0)
        return true;
    return spec.gpus_min != in_round->spec.gpus_min ||
           spec.gpus_max != in_round->spec.gpus_max ||
           spec.gpus != in_round->spec.gpus ||
           spec.priority != in_round->spec.priority ||
           spec.mem_gib != in_round->spec.mem_gib ||
           (spec.mem_ratio != in_round->spec.mem_ratio &&
            in_round->held.nparts == 0) ||
           spec.cannot != in_round->spec.cannot;
}

static unsigned bit(bool holds, enum life_fact fact)
{
    return holds ? (unsigned)fact : 0;
}

bool loop_is_out_of_bounds(const struct live_job *job,
                           const struct firn_job *in_round)
{
    return in_round->held.nparts > 0 && desk_can_stop(job) &&
           job->ask.gpus_min > 0 &&
           (in_round->held.ngpus < job->ask.gpus_min ||
            in_round->held.ngpus > job->ask.gpus_max);
}

static unsigned facts_of(const struct loop *loop, const struct live_job *job,
                         enum life_event event)
{
    const struct track *track = desk_track(&loop->desk, job->id);
    const struct firn_job *in_round =
        track != NULL ? desk_job(&loop->desk, track) : NULL;
    const struct live_job *other = partner_of(loop->book, job);
    enum firn_phase phase = desk_phase(&loop->desk, job);
    bool is_granted = in_round != NULL && in_round->held.nparts > 0;
    bool is_changed = event == LIFE_CHANGED && in_round != NULL;
    return bit(job->is_ending, LIFE_IS_ENDING) |
           bit(job->is_held, LIFE_IS_HELD) |
           bit(job->ask.inbox[0] != '\0', LIFE_IS_INBOX) |
           bit(!desk_can_stop(job), LIFE_IS_RIGID) |
           bit(job->ask.can_checkpoint, LIFE_IS_CHECKPOINTS) |
           bit(track != NULL && track->is_pinned, LIFE_IS_PINNED) |
           bit(in_round != NULL, LIFE_IS_IN_ROUND) |
           bit(is_granted, LIFE_IS_GRANTED) |
           bit(is_granted && in_round->held.how.merged_with == FIRN_NO_JOB,
               LIFE_IS_GRANTED_ALONE) |
           bit(phase != FIRN_PHASE_GONE, LIFE_IS_PRESENT) |
           bit(phase == FIRN_PHASE_LEAVING, LIFE_IS_LEAVING) |
           bit(phase == FIRN_PHASE_RUNNING, LIFE_IS_ACTIVE) |
           bit(track != NULL && track->open_attempt != 0, LIFE_IS_OPEN) |
           bit(other != NULL && other->id > job->id, LIFE_IS_PARTNERED) |
           bit(other != NULL && other->id < job->id, LIFE_IS_TRAINED) |
           bit(partner_awaited(&loop->desk, job), LIFE_IS_AWAITS) |
           bit(track != NULL && track->is_lone, LIFE_IS_LONE) |
           bit(track != NULL && job->reported_attempt == track->open_attempt &&
                   job->last.progress >= 1,
               LIFE_IS_SAYS_DONE) |
           bit(is_changed && loop_is_out_of_bounds(job, in_round),
               LIFE_IS_OUT_OF_BOUNDS) |
           bit(is_changed && is_outdated(loop, job, in_round),
               LIFE_IS_OUTDATED);
}

/* --- actions -------------------------------------------------------------- */

static void engine_step(struct loop *loop, const struct live_job *job,
                        enum firn_step_kind kind, const struct firn_alloc *to)
{
    struct firn_error err = {0};
    struct firn_job as = {.id = job->id};
    struct firn_step step = {
        .kind = kind, .job = &as, .to = to, .at_s = dock_now_s(&loop->dock)};
    desk_spec(&loop->desk, job, &as.spec);
    if (loop->dock.engine->apply(loop->dock.engine_state, &step, &err) !=
        FIRN_OK)
        log_warn("job %d: %s", job->id, err.text);
}

static void stop_job(struct loop *loop, const struct live_job *job)
{
    static const struct firn_alloc nothing = FIRN_ALLOC_NONE;
    engine_step(loop, job, FIRN_STEP_STOP, &nothing);
}

static void start_job(struct loop *loop, const struct live_job *job)
{
    const struct firn_job *in_round =
        desk_job(&loop->desk, desk_track(&loop->desk, job->id));
    struct firn_alloc to = in_round->held;
    to.how = partner_how(&loop->desk, &in_round->held.how);
    engine_step(loop, job, FIRN_STEP_START, &to);
}

static bool adopt(struct loop *loop, const struct live_job *job,
                  const struct firn_alloc *held)
{
    static const struct firn_alloc nothing = FIRN_ALLOC_NONE;
    struct firn_error err = {0};
    struct firn_job as = {.id = job->id,
                          .held = held != NULL ? *held : nothing};
    as.held.how.merged_with = job->how.merged_with;
    desk_spec(&loop->desk, job, &as.spec);
    if (loop->dock.engine->adopt(loop->dock.engine_state, &as, job->attempt,
                                 &err) == FIRN_OK)
        return true;
    log_warn("job %d: %s", job->id, err.text);
    return false;
}

/* Its last GPUs and all that is known of it beside the book. */
static void end(struct loop *loop, struct live_job *job)
{
    struct firn_error err = {0};
    desk_track_drop(&loop->desk, job->id);
    liveforecast_forget(loop->desk.forecast, job->id);
    metrics_observe(loop->metrics, METRIC_JOB_S,
                    dock_now_s(&loop->dock) - job->submitted_s);
    book_wrote(loop->book, book_held(loop->book, job, "-", &err), &err);
}

/* What comes before the state is written. */
static void act_before(struct loop *loop, struct live_job *job,
                       const struct life_step *step,
                       const struct happening *what)
{
    struct track *track = desk_track_make(&loop->desk, job->id);
    if (step->acts & LIFE_DO_CLOSE_ATTEMPT)
        loop_close_attempt(loop, job, what->end);
    if (step->acts & LIFE_DO_PART_FOR_GOOD)
        track->is_lone = true;
    if (step->acts & LIFE_DO_FREE_TYPE)
        desk_type_free(&loop->desk, job);
    if (step->acts & LIFE_DO_LEARN) {
        desk_eta_ended(&loop->desk, track);
        desk_span_ended(&loop->desk, job, track);
        if (step->state == LIVE_SUCCEEDED)
            desk_task_ended(&loop->desk, job);
    }
    if (step->acts & LIFE_DO_UNPIN)
        desk_unpin(&loop->desk, track);
    if (step->acts & LIFE_DO_WITHDRAW)
        desk_withdraw(&loop->desk, track);
    if (step->acts & LIFE_DO_LEAVE_ROUND)
        desk_leave(&loop->desk, track, step->state == LIVE_SUCCEEDED);
    if (step->acts & LIFE_DO_END)
        end(loop, job);
}

static void write_state(struct loop *loop, struct live_job *job,
                        const struct life_step *step, double mem_gib)
{
    struct firn_error err = {0};
    enum firn_status status =
        step->acts & LIFE_DO_CHARGE_RETRY
            ? book_retry(loop->book, job, mem_gib, dock_now_s(&loop->dock),
                         step->why, &err)
            : book_state(loop->book, job, step->state, step->reason,
                         dock_now_s(&loop->dock), step->why, &err);
    book_wrote(loop->book, status, &err);
}

static void count(struct loop *loop, const struct live_job *job, unsigned acts,
                  const struct happening *what)
{
    if (acts & LIFE_DO_CHARGE_RETRY)
        metrics_add(loop->metrics, METRIC_RESTARTS,
                    what->event == LIFE_FAILED_MEMORY ? METRIC_RESTART_MEMORY
                    : what->event == LIFE_FAILED_LOST ? METRIC_RESTART_LOST
                                                      : METRIC_RESTART_FAILURE,
                    1);
    if (acts & LIFE_DO_COUNT_STOP)
        metrics_add(loop->metrics, METRIC_RESTARTS, METRIC_RESTART_PREEMPT, 1);
    if (acts & LIFE_DO_COUNT_RESIZE)
        metrics_add(loop->metrics, METRIC_RESTARTS, METRIC_RESTART_RESIZE, 1);
    if ((acts & LIFE_DO_COUNT_WAIT) && !what->has_run)
        metrics_observe(loop->metrics, METRIC_QUEUE_S,
                        dock_now_s(&loop->dock) - job->submitted_s);
}

/* Into the round unless something keeps it out. */
static void admit(struct loop *loop, struct live_job *job)
{
    struct firn_error err = {0};
    const struct track *track = desk_track_make(&loop->desk, job->id);
    if (job->is_held || job->is_ending || live_state_is_over(job->state) ||
        track->again_s > dock_now_s(&loop->dock) ||
        desk_phase(&loop->desk, job) != FIRN_PHASE_GONE ||
        loop_bars_keep_out(loop, job))
        return;
    if (desk_enter(&loop->desk, job, &err) == FIRN_OK)
        return;
    char lost[LIVE_TEXT];
    bool is_lost = desk_type_is_lost(&loop->desk, job);
    if (is_lost)
        desk_type_lost_text(&loop->desk, job, lost);
    loop_happens_why(loop, job, LIFE_NEVER_FITS, is_lost ? lost : err.text);
}

static void readmit(struct loop *loop, struct live_job *job)
{
    struct firn_error err = {0};
    bool is_waiting = false;
    if (desk_reenter(&loop->desk, job, &is_waiting, &err) != FIRN_OK)
        loop_sent_away(loop, job, err.text,
                       (struct live_stop){LIVE_CAUSE_BOUNDS, FIRN_NO_JOB});
    else if (is_waiting)
        admit(loop, job);
}

static void keep_gpus(struct loop *loop, struct live_job *job,
                      const struct happening *what)
{
    struct firn_buf text = {0};
    struct firn_error err = {0};
    firn_alloc_print(what->to, &text);
    book_wrote(loop->book, book_held(loop->book, job, text.at, &err), &err);
    buf_release(&text);
}

/* In the round and at the engine; the state is written. */
static void act_behind(struct loop *loop, struct live_job *job, unsigned acts,
                       struct happening *what)
{
    struct track *track = desk_track(&loop->desk, job->id);
    if (acts & LIFE_DO_RETRY_LATER) {
        track->again_s = dock_now_s(&loop->dock) + what->wait_s;
        vec_add(&loop->desk.later, job->id);
    }
    if (acts & LIFE_DO_OPEN_ATTEMPT)
        what->status = loop_open_attempt(loop, job, what->partner, what->err);
    if (acts & LIFE_DO_KEEP_GPUS)
        keep_gpus(loop, job, what);
    if (acts & LIFE_DO_PIN)
        desk_pin(&loop->desk, job);
    if (acts & LIFE_DO_PIN_LATER)
        vec_add(&loop->desk.started, job->id);
    if (acts & LIFE_DO_RESTORE)
        what->status = desk_restore(&loop->desk, job, what->to, what->err);
    if (acts & LIFE_DO_ADOPT)
        what->is_adopted = adopt(loop, job, what->to);
    if (acts & LIFE_DO_WATCH_PARTNER)
        vec_add(&loop->desk.led, job->id);
    if (acts & LIFE_DO_CHECK_PARTNERS)
        loop_check_partners(loop);
    if (acts & LIFE_DO_PIN_LEAVING)
        desk_pin_leaving(&loop->desk, job);
    if (acts & LIFE_DO_STOP)
        stop_job(loop, job);
    if (acts & LIFE_DO_STOP_PARTNER)
        stop_job(loop, partner_of(loop->book, job));
    if (acts & LIFE_DO_CANCEL)
        dock_cancel(&loop->dock, job->id);
    if (acts & LIFE_DO_LAUNCH)
        start_job(loop, job);
    if (acts & LIFE_DO_KEEP_BOUNDS)
        vec_add(&loop->desk.rebound, job->id);
    if (acts & LIFE_DO_READMIT)
        readmit(loop, job);
    if (acts & LIFE_DO_ADMIT)
        admit(loop, job);
}

/* --- causes --------------------------------------------------------------- */

/* Does the job leave its GPUs by this step, or has it left them? */
static bool is_leaving(const struct life_step *step)
{
    return step->is_said &&
           (step->state == LIVE_PREEMPTING || step->state == LIVE_RESIZING ||
            step->state == LIVE_COMPLETING || step->state == LIVE_PENDING ||
            step->state == LIVE_CANCELLED);
}

/* Has the attempt ended by no order of firnd? */
static bool left_by_itself(const struct loop *loop, const struct live_job *job,
                           const struct happening *what)
{
    const struct track *track = desk_track(&loop->desk, job->id);
    return what->event == LIFE_LEFT && what->end != NULL && track != NULL &&
           track->open_attempt != 0 &&
           what->end->attempt == track->open_attempt &&
           job->stop.cause == LIVE_CAUSE_NONE;
}

/* (4) Returns the cause that the events of this step get. */
static struct live_stop cause_of(struct loop *loop, struct live_job *job,
                                 const struct happening *what,
                                 const struct life_step *step)
{
    static const struct live_stop none = {LIVE_CAUSE_NONE, FIRN_NO_JOB};
    const struct track *track = desk_track(&loop->desk, job->id);
    struct firn_error err = {0};
    struct live_stop now = book_because(loop->book, none);
    book_because(loop->book, now);
    if (what->stop.cause != LIVE_CAUSE_NONE)
        now = what->stop;
    if (left_by_itself(loop, job, what))
        now = (struct live_stop){LIVE_CAUSE_BACKEND, FIRN_NO_JOB};
    if (what->event == LIFE_PARTNER_LEFT && job->stop.cause == LIVE_CAUSE_NONE)
        now = (struct live_stop){LIVE_CAUSE_PARTNER, FIRN_NO_JOB};
    bool is_stop = is_leaving(step) && track != NULL &&
                   track->open_attempt != 0 &&
                   job->stop.cause == LIVE_CAUSE_NONE;
    if (is_stop && now.cause != LIVE_CAUSE_NONE) {
        metrics_add(loop->metrics, METRIC_STOPS, (int)now.cause - 1, 1);
        book_wrote(loop->book, book_stopped(loop->book, job, &now, &err), &err);
    }
    if (now.cause != LIVE_CAUSE_NONE)
        return now;
    return is_leaving(step) || step->acts & LIFE_DO_CLOSE_ATTEMPT ? job->stop
                                                                  : none;
}

/* --- events --------------------------------------------------------------- */

void loop_happens(struct loop *loop, struct live_job *job,
                  struct happening *what)
{
    struct life_step step;
    struct firn_error err = {0};
    if (live_state_is_over(job->state)) /* (1) */
        return;
    struct live_job *partner = partner_of(loop->book, job);
    unsigned facts = facts_of(loop, job, what->event);
    facts = (facts | what->facts) & ~what->nofacts;
    what->has_run = job->started_s > 0;
    if (life_next(job->state, what->event, facts, &what->words, &step, &err) !=
        FIRN_OK) {
        log_warn("job %d: %s", job->id, err.text); /* (2) */
        what->status = FIRN_EINVAL;
        if (what->err != NULL)
            firn_fail(what->err, FIRN_EINVAL, "job %d: %s", job->id, err.text);
        return;
    }
    struct live_stop before =
        book_because(loop->book, cause_of(loop, job, what, &step));
    act_before(loop, job, &step, what);
    if (step.is_said)
        write_state(loop, job, &step, what->mem_gib);
    if (step.is_said)
        announce_state(loop->announce, job,
                       step.state == LIVE_PREEMPTING &&
                           step.reason != LIVE_BECAUSE_HELD);
    count(loop, job, step.acts, what);
    if (!live_state_is_over(job->state)) {
        act_behind(loop, job, step.acts, what);
    } else if (what->end == NULL && partner != NULL && partner->id > job->id) {
        /* No end of its processes will be heard any more. */
        struct firn_event lost = {.kind = FIRN_EVENT_LEFT,
                                  .end = FIRN_END_LOST};
        loop_partner_ends(loop, job, partner, &lost);
    }
    const struct track *track = desk_track(&loop->desk, job->id);
    if (step.acts & LIFE_DO_CLOSE_ATTEMPT &&
        (track == NULL || track->open_attempt == 0))
        job->stop = (struct live_stop){LIVE_CAUSE_NONE, FIRN_NO_JOB};
    book_because(loop->book, before);
}

void loop_happens_why(struct loop *loop, struct live_job *job,
                      enum life_event event, const char *why)
{
    loop_happens(loop, job,
                 &(struct happening){.event = event, .words = {.why = why}});
}

void loop_sent_away(struct loop *loop, struct live_job *job, const char *why,
                    struct live_stop stop)
{
    loop_happens(loop, job,
                 &(struct happening){.event = LIFE_SENT_AWAY,
                                     .words = {.why = why},
                                     .stop = stop});
}

void loop_cancelled(struct loop *loop, struct live_job *job)
{
    loop_happens_why(loop, job, LIFE_CANCEL, NULL);
}

void loop_changed(struct loop *loop, struct live_job *job)
{
    const struct track *track = desk_track_make(&loop->desk, job->id);
    bool is_in = desk_job(&loop->desk, track) != NULL;
    enum life_event event = LIFE_CHANGED;
    if (job->is_held)
        event = LIFE_HOLD;
    else if (!is_in && job->reason == LIVE_BECAUSE_HELD)
        event = LIFE_RELEASE;
    else if (!is_in && job->attempt == 0 && job->reason == LIVE_BECAUSE_NEW &&
             !job->is_ending)
        event = LIFE_SUBMITTED;
    loop_happens_why(loop, job, event, NULL);
}

/* --- partners ------------------------------------------------------------- */

void loop_partner_ends(struct loop *loop, const struct live_job *lead,
                       struct live_job *partner, const struct firn_event *event)
{
    const struct track *track = desk_track(&loop->desk, partner->id);
    const struct firn_job *in_round = desk_job(&loop->desk, track);
    struct firn_event its = *event;
    struct firn_buf gpus = {0};
    char why[LIVE_TEXT];
    its.job = partner->id;
    its.attempt = track->open_attempt;
    struct happening what = {.end = &its, .words = {.why = why}};
    if (event->kind == FIRN_EVENT_DONE) {
        what.event = LIFE_PARTNER_DONE;
    } else if (event->kind == FIRN_EVENT_LEFT) {
        what.event = LIFE_PARTNER_LEFT;
        loop_stopped_text(partner, event->end,
                          dock_now_s(&loop->dock) - track->opened_s, why);
    } else if (lead->state == LIVE_CANCELLED) {
        what.event = LIFE_PARTNER_CANCELLED;
    } else {
        what.event = LIFE_PARTNER_FAILED;
        loop_failed_text(event, why);
    }
    if (in_round != NULL)
        dock_alloc_text(&loop->dock, &in_round->held, &gpus);
    what.words.gpus = gpus.at;
    loop_happens(loop, partner, &what);
    buf_release(&gpus);
}

/* Has its present attempt reported? */
static bool is_heard(const struct live_job *job)
{
    return job->reported_s > 0 && job->reported_attempt == job->attempt;
}

/* Has its partner reported for long, and it has not? */
static bool is_silent(const struct loop *loop, const struct live_job *job,
                      const struct live_job *lead)
{
    struct track *track = desk_track(&loop->desk, job->id);
    double now_s = dock_now_s(&loop->dock);
    if (is_heard(job) || !is_heard(lead))
        track->unheard_s = 0;
    else if (track->unheard_s <= 0)
        track->unheard_s = now_s;
    return track->unheard_s > 0 && now_s >= track->unheard_s + SILENT_S;
}

/* True: it is to be looked at again. */
static bool check(struct loop *loop, struct live_job *job)
{
    const struct track *track = desk_track(&loop->desk, job->id);
    const struct live_job *lead = partner_lead(loop->book, job);
    const struct firn_job *in_round = desk_job(&loop->desk, track);
    if (lead != NULL) {
        if (track->is_lone || is_silent(loop, job, lead))
            loop_happens_why(loop, job, LIFE_PARTNER_SILENT, NULL);
        else if (partner_wanted(&loop->desk, job) != lead)
            loop_happens_why(loop, job, LIFE_PARTNER_UNWANTED, NULL);
        return true;
    }
    if (partner_awaited(&loop->desk, job))
        return true; /* its partner is to start */
    if (in_round != NULL && in_round->held.nparts > 0)
        loop_happens_why(loop, job, LIFE_PARTNER_GONE, NULL);
    return false;
}

void loop_check_partners(struct loop *loop)
{
    size_t kept = 0, n = loop->desk.led.n;
    for (size_t i = 0; i < n; i++) {
        firn_job_id id = loop->desk.led.at[i];
        struct live_job *job = book_job(loop->book, id);
        bool is_there = job != NULL && !live_state_is_over(job->state) &&
                        desk_track(&loop->desk, id) != NULL;
        for (size_t k = 0; k < kept; k++)
            is_there = is_there && loop->desk.led.at[k] != id;
        if (is_there && check(loop, job))
            loop->desk.led.at[kept++] = id;
    }
    loop->desk.led.n = kept;
}
