/* loop_jobs.c - a job's life in the loop: into the round, out of it, changed.
 *
 * Invariants:
 * (1) a job is in the round, or pinned, or away, never two of them;
 * (2) a job comes into the round waiting only when the engine has nothing of
 *     it, so that a start never meets an epoch that is still leaving;
 * (3) every change of a job goes through the book; when the book cannot write,
 *     the loop is broken and ends, and nothing is answered;
 * (4) what the round does not have and nothing pins does not stay on GPUs that
 *     the round takes to be free: it is sent away.
 *
 * Pinned jobs: what can neither write a checkpoint nor be started again from
 * scratch is never stopped once it runs. No policy sees it any more; its GPUs
 * are blocked in the round until it ends. Such jobs do not share GPUs.
 *
 * Durations are in loop_span.c. Progress is a share of the whole, so a wrong
 * guess scales rate and work alike, and the time left of a job that reports is
 * right whatever was guessed.
 */
#include "base/buf.h"
#include "base/log.h"
#include "core/accept.h"
#include "core/llmjobs.h"
#include "daemon/jobfile.h"
#include "daemon/loopwork.h"
#include "daemon/mergekey.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- tracks -------------------------------------------------------------- */

double loop_now_s(const struct loop *loop)
{
    return loop->engine->now_s(loop->engine_state);
}

struct track *loop_track(const struct loop *loop, firn_job_id id)
{
    size_t i = (size_t)(id - loop->first_id);
    return id >= loop->first_id && i < loop->tracks.n ? loop->tracks.at[i]
                                                      : NULL;
}

struct track *loop_track_make(struct loop *loop, firn_job_id id)
{
    struct track *track = loop_track(loop, id);
    if (track != NULL)
        return track;
    size_t i = (size_t)(id - loop->first_id);
    vec_reserve(&loop->tracks, i + 1);
    if (i >= loop->tracks.n)
        loop->tracks.n = i + 1;
    track = mem_new(1, sizeof *track);
    *track = (struct track){.id = id, .round_id = FIRN_NO_JOB};
    return loop->tracks.at[i] = track;
}

void loop_track_drop(struct loop *loop, firn_job_id id)
{
    struct track *track = loop_track(loop, id);
    if (track == NULL)
        return;
    mem_free(track->granted.parts);
    mem_free(track->blocked.parts);
    mem_free(track);
    loop->tracks.at[id - loop->first_id] = NULL;
}

firn_job_id loop_book_id(const struct loop *loop, firn_job_id round_id)
{
    return round_id >= 0 && (size_t)round_id < loop->books.n
               ? loop->books.at[round_id]
               : FIRN_NO_JOB;
}

const struct firn_job *loop_round_job(const struct loop *loop,
                                      const struct track *track)
{
    return track->round_id == FIRN_NO_JOB
               ? NULL
               : state_job(round_state(loop->round), track->round_id);
}

bool loop_wrote(struct loop *loop, enum firn_status status,
                const struct firn_error *err)
{
    if (status == FIRN_OK)
        return true;
    if (status != FIRN_EUNSAVED && loop->broken.status == FIRN_OK) {
        loop->broken = *err;
        loop->broken.status = status;
    }
    return false;
}

bool loop_can_stop(const struct live_job *job)
{
    return job->ask.can_checkpoint || job->ask.may_restart;
}

/* --- what the round is told ---------------------------------------------- */

/* What the job's elastic reach goes to here: the GPUs that it may have. */
static int reach(const struct loop *loop, const struct firn_job_spec *spec)
{
    struct firn_job_spec least = *spec;
    struct job_accept accept = {0};
    char why[JOB_WHY_MAX];
    least.gpus = least.gpus_min;
    if (!job_accept(&least, &loop->cluster, &accept, why) ||
        accept.gpus >= spec->gpus_max)
        return spec->gpus_max;
    return accept.gpus;
}

/* A language model: its memory says how many GPUs and of which types, within
 * what its user allows. The text lives until the next one. */
static void shape_spec(const struct loop *loop, struct firn_job_spec *spec)
{
    if (spec->gpus == 0)
        llmjobs_fill(&loop->cluster, spec);
    if (spec->gpus > 0)
        llmjobs_restrict(&loop->cluster, spec, loop->types_text);
}

/* `keeps` is the GPU type that it keeps to; "" for none. */
static void fill_spec(const struct loop *loop, const struct live_ask *ask,
                      double submit_s, const char *keeps,
                      struct firn_job_spec *out)
{
    jobfile_spec(ask, submit_s, out);
    loop_type_spec(loop, keeps, out);
    if (loop_no_sharing(loop) != NULL)
        out->may_share = false; /* or a policy gives it half a GPU for ever */
    if (llmjobs_is(out))
        shape_spec(loop, out);
    else
        out->gpus = reach(loop, out);
    double guess_s = out->is_nominal ? loop_guess_s(loop, ask) : 0;
    if (guess_s > 0)
        out->duration_s = guess_s;
    out->submit_s = submit_s > 0 ? submit_s : 0;
    if (out->submit_s > loop_now_s(loop)) /* the clock was put back since */
        out->submit_s = loop_now_s(loop);
}

void loop_ask_spec(const struct loop *loop, const struct live_ask *ask,
                   double submit_s, struct firn_job_spec *out)
{
    fill_spec(loop, ask, submit_s, "", out);
}

void loop_spec(const struct loop *loop, const struct live_job *job,
               struct firn_job_spec *out)
{
    const struct track *track = loop_track(loop, job->id);
    fill_spec(loop, &job->ask, job->submitted_s, job->gpu_type, out);
    if (track != NULL && track->nparted > 1)
        out->may_share = false; /* loop_guard.c */
    if (track != NULL && track->is_lone)
        out->may_merge = false;
    if (out->may_merge) {
        buf_clear(loop->merge_key);
        mergekey_text(&job->ask, job->id, loop->merge_key);
        out->merge_key = loop->merge_key->at;
    }
}

/* The share of its work that a new start begins with. */
static double progress_of(const struct live_job *job)
{
    double progress = job->last.progress;
    bool is_kept = job->ask.can_checkpoint && progress > 0;
    return is_kept ? fmin(progress, 1) : 0;
}

static firn_job_id new_round_id(struct loop *loop, firn_job_id book_id)
{
    vec_add(&loop->books, book_id);
    return (firn_job_id)loop->books.n - 1;
}

enum firn_status loop_restore(struct loop *loop, struct live_job *job,
                              const struct firn_alloc *held,
                              struct firn_error *err)
{
    struct track *track = loop_track_make(loop, job->id);
    double now_s = loop_now_s(loop);
    struct firn_job_spec spec;
    loop_spec(loop, job, &spec);
    struct round_job as = {
        .id = new_round_id(loop, job->id), .spec = &spec, .held = held};
    if (track->round_id != FIRN_NO_JOB)
        loop_withdraw(loop, track);
    as.past = track->past;
    if (as.past.since_s <= 0)
        as.past.since_s = now_s;
    as.past.report =
        (struct firn_report){progress_of(job) * spec.duration_s,
                             held->nparts ? track->rate : 0, now_s};
    enum firn_status status = round_restore(loop->round, &as, now_s, err);
    if (status == FIRN_OK) {
        track->round_id = as.id;
        track->duration_s = spec.duration_s;
        ride_relink(loop, as.id);
    }
    return status;
}

static enum firn_status submit(struct loop *loop, struct live_job *job,
                               struct firn_error *err)
{
    struct track *track = loop_track_make(loop, job->id);
    struct firn_job_spec spec;
    loop_spec(loop, job, &spec);
    struct firn_event event = {.kind = FIRN_EVENT_SUBMIT,
                               .at_s = loop_now_s(loop),
                               .job = new_round_id(loop, job->id),
                               .spec = &spec};
    FIRN_TRY(round_event(loop->round, &event, err));
    track->round_id = event.job;
    track->duration_s = spec.duration_s;
    return FIRN_OK;
}

void loop_admit(struct loop *loop, struct live_job *job)
{
    static const struct firn_alloc nothing = FIRN_ALLOC_NONE;
    struct track *track = loop_track_make(loop, job->id);
    struct firn_error err = {0};
    bool is_away = job->is_held || job->is_ending ||
                   live_state_is_over(job->state) ||
                   track->again_s > loop_now_s(loop);
    if (is_away || track->round_id != FIRN_NO_JOB || track->is_pinned ||
        loop_phase(loop, job) != FIRN_PHASE_GONE) /* (2) */
        return;
    enum firn_status status = job->epoch == 0
                                  ? submit(loop, job, &err)
                                  : loop_restore(loop, job, &nothing, &err);
    if (status != FIRN_OK) {
        struct firn_error bad = {0};
        char lost[LIVE_TEXT];
        bool is_lost = loop_type_is_lost(loop, job);
        if (is_lost)
            loop_type_lost_text(loop, job, lost);
        status = book_state(loop->book, job, LIVE_PENDING, LIVE_BECAUSE_NEVER,
                            loop_now_s(loop), is_lost ? lost : err.text, &bad);
        loop_wrote(loop, status, &bad);
    }
}

/* What it had until now, for when it comes back. */
static void remember(struct loop *loop, struct track *track)
{
    const struct firn_job *job = loop_round_job(loop, track);
    double now_s = loop_now_s(loop);
    if (job == NULL)
        return;
    bool runs = job->held.nparts > 0;
    track->past = (struct state_past){
        .since_s = now_s,
        .first_start_s = job->first_start_s,
        .held_s = job->held_s + (runs ? now_s - job->since_s : 0),
        .served_gpu_s = firn_job_served_gpu_s(job, now_s),
        .starts = job->starts,
        .gpus_most = job->gpus_most};
}

/* Out of the round, as failed: the policy hears that it is gone. */
static void leave_round(struct loop *loop, struct track *track, bool is_done)
{
    struct firn_event event = {.kind =
                                   is_done ? FIRN_EVENT_DONE : FIRN_EVENT_FAIL,
                               .at_s = loop_now_s(loop),
                               .job = track->round_id};
    struct firn_error err = {0};
    if (track->round_id == FIRN_NO_JOB)
        return;
    if (round_event(loop->round, &event, &err) != FIRN_OK)
        log_warn("job %d: %s", track->id, err.text);
    track->round_id = FIRN_NO_JOB;
}

void loop_withdraw(struct loop *loop, struct track *track)
{
    if (track->round_id == FIRN_NO_JOB)
        return;
    remember(loop, track);
    round_withdraw(loop->round, track->round_id, loop_now_s(loop));
    track->round_id = FIRN_NO_JOB;
}

void loop_readmit(struct loop *loop, struct live_job *job)
{
    struct track *track = loop_track(loop, job->id);
    const struct firn_job *before =
        track != NULL ? loop_round_job(loop, track) : NULL;
    struct firn_error err = {0};
    if (before == NULL || before->held.nparts == 0) {
        if (before != NULL)
            loop_withdraw(loop, track);
        loop_admit(loop, job);
        return;
    }
    struct firn_alloc held = before->held;
    held.parts = mem_new((size_t)held.nparts, sizeof *held.parts);
    memcpy(held.parts, before->held.parts,
           (size_t)held.nparts * sizeof *held.parts);
    if (loop_restore(loop, job, &held, &err) != FIRN_OK) /* (4) */
        loop_send_away(loop, job, err.text);
    mem_free(held.parts);
}

/* --- pinned jobs --------------------------------------------------------- */

/* Blocks those of its GPUs that are on nodes that are up. */
static void block(struct loop *loop, struct track *track)
{
    const struct firn_cluster *c = &round_state(loop->round)->cluster;
    struct firn_alloc *to = &track->blocked;
    const struct firn_alloc *from = &track->granted;
    mem_free(to->parts);
    *to = (struct firn_alloc)FIRN_ALLOC_NONE;
    to->parts = mem_new((size_t)from->nparts + 1, sizeof *to->parts);
    for (int i = 0; i < from->nparts; i++) {
        if (!c->nodes[from->parts[i].node].is_up)
            continue;
        to->parts[to->nparts++] = from->parts[i];
        to->ngpus += __builtin_popcountll(from->parts[i].gpus);
    }
    if (to->nparts > 0 && !round_block(loop->round, to)) {
        log_warn("job %d has GPUs that are given out already", track->id);
        to->nparts = to->ngpus = 0;
    }
}

static void unblock(struct loop *loop, struct track *track)
{
    if (track->blocked.nparts > 0)
        round_unblock(loop->round, &track->blocked);
    track->blocked.nparts = track->blocked.ngpus = 0;
}

void loop_pin(struct loop *loop, struct live_job *job)
{
    struct track *track = loop_track_make(loop, job->id);
    if (track->is_pinned)
        return;
    loop_withdraw(loop, track);
    track->is_pinned = true;
    block(loop, track);
}

void loop_unpin(struct loop *loop, struct track *track)
{
    if (!track->is_pinned)
        return;
    unblock(loop, track);
    track->is_pinned = false;
}

void loop_pins_lift(struct loop *loop)
{
    for (size_t i = 0; i < loop->tracks.n; i++)
        if (loop->tracks.at[i] != NULL && loop->tracks.at[i]->is_pinned)
            unblock(loop, loop->tracks.at[i]);
}

void loop_pins_set(struct loop *loop)
{
    for (size_t i = 0; i < loop->tracks.n; i++)
        if (loop->tracks.at[i] != NULL && loop->tracks.at[i]->is_pinned)
            block(loop, loop->tracks.at[i]);
}

/* --- the end ------------------------------------------------------------- */

void loop_end(struct loop *loop, struct live_job *job, enum live_state state,
              enum live_reason reason, const char *why)
{
    struct track *track = loop_track(loop, job->id);
    struct firn_error err = {0};
    if (track != NULL) {
        if (state == LIVE_SUCCEEDED) {
            loop_guard_ended(loop, track);
            loop_span_ended(loop, job, track);
        }
        loop_unpin(loop, track);
        leave_round(loop, track, state == LIVE_SUCCEEDED);
        loop_track_drop(loop, job->id);
    }
    liveforecast_forget(loop->forecast, job->id);
    metrics_observe(loop->metrics, METRIC_JOB_S,
                    loop_now_s(loop) - job->submitted_s);
    enum firn_status status = book_held(loop->book, job, "-", &err);
    if (status == FIRN_OK)
        status = book_state(loop->book, job, state, reason, loop_now_s(loop),
                            why, &err);
    loop_wrote(loop, status, &err);
}

/* --- what users want ----------------------------------------------------- */

void loop_cancelled(struct loop *loop, struct live_job *job)
{
    static const char why[] = "cancelled by its user";
    struct track *track = loop_track_make(loop, job->id);
    struct firn_error err = {0};
    if (job->ask.inbox[0] == '\0' && /* else the engine has it, too */
        loop_phase(loop, job) == FIRN_PHASE_GONE) {
        loop_end(loop, job, LIVE_CANCELLED, LIVE_BECAUSE_USER, why);
        return;
    }
    enum firn_status status =
        book_state(loop->book, job, LIVE_COMPLETING, LIVE_BECAUSE_USER,
                   loop_now_s(loop), why, &err);
    loop_wrote(loop, status, &err);
    leave_round(loop, track, false);
    ride_check(loop);
    if (ride_rides(loop, job))
        return;
    loop_pin_leaving(loop, job);
    loop->engine->cancel(loop->engine_state, job->id);
}

/* A STOP that no round has planned. */
static void stop(struct loop *loop, struct live_job *job)
{
    static const struct firn_alloc nothing = FIRN_ALLOC_NONE;
    struct firn_error err = {0};
    struct firn_job as = {.id = job->id};
    loop_spec(loop, job, &as.spec);
    struct firn_step step = {.kind = FIRN_STEP_STOP,
                             .job = &as,
                             .to = &nothing,
                             .at_s = loop_now_s(loop)};
    if (loop->engine->apply(loop->engine_state, &step, &err) != FIRN_OK)
        log_warn("job %d: %s", job->id, err.text);
}

void loop_put_back(struct loop *loop, struct live_job *job,
                   enum live_reason reason, const char *why)
{
    struct track *track = loop_track_make(loop, job->id);
    struct firn_error err = {0};
    loop_unpin(loop, track);
    loop_withdraw(loop, track);
    enum firn_status status = book_state(loop->book, job, LIVE_PENDING, reason,
                                         loop_now_s(loop), why, &err);
    loop_wrote(loop, status, &err);
    stop(loop, job); /* when it has left, it is admitted again */
}

void loop_send_away(struct loop *loop, struct live_job *job, const char *why)
{
    struct track *track = loop_track_make(loop, job->id);
    struct firn_error err = {0};
    loop_withdraw(loop, track);
    enum firn_status status =
        book_state(loop->book, job, LIVE_PREEMPTING, LIVE_BECAUSE_POLICY,
                   loop_now_s(loop), why, &err);
    loop_wrote(loop, status, &err);
    metrics_add(loop->metrics, METRIC_RESTARTS, METRIC_RESTART_PREEMPT, 1);
    ride_check(loop);
    if (!ride_rides(loop, job))
        stop(loop, job);
}

/* Its user holds it back: off its GPUs if it can be, and out of the round. */
static void hold(struct loop *loop, struct live_job *job)
{
    struct track *track = loop_track_make(loop, job->id);
    struct firn_error err = {0};
    bool is_there = loop_phase(loop, job) != FIRN_PHASE_GONE;
    if (track->is_pinned || (is_there && job->ask.inbox[0] != '\0'))
        return; /* it goes on to its end */
    loop_withdraw(loop, track);
    enum firn_status status = book_state(
        loop->book, job, is_there ? LIVE_PREEMPTING : LIVE_PENDING,
        LIVE_BECAUSE_HELD, loop_now_s(loop), "held back by its user", &err);
    loop_wrote(loop, status, &err);
    ride_check(loop);
    if (!is_there || ride_rides(loop, job))
        return;
    loop_pin_leaving(loop, job);
    stop(loop, job);
}

static bool is_outside(const struct live_job *job, const struct firn_job *as)
{
    return as->held.nparts > 0 && loop_can_stop(job) && job->ask.gpus_min > 0 &&
           (as->held.ngpus < job->ask.gpus_min ||
            as->held.ngpus > job->ask.gpus_max);
}

/* Is what the round schedules it by not what it asks for now? */
static bool is_outdated(const struct loop *loop, const struct live_job *job,
                        const struct firn_job *in_round)
{
    struct firn_job_spec spec;
    loop_spec(loop, job, &spec);
    return spec.gpus_min != in_round->spec.gpus_min ||
           spec.gpus_max != in_round->spec.gpus_max ||
           spec.gpus != in_round->spec.gpus ||
           spec.priority != in_round->spec.priority ||
           spec.mem_gib != in_round->spec.mem_gib;
}

void loop_keep_bounds(struct loop *loop)
{
    for (size_t i = 0; i < loop->rebound.n; i++) {
        struct live_job *job = book_job(loop->book, loop->rebound.at[i]);
        const struct track *track = loop_track(loop, loop->rebound.at[i]);
        const struct firn_job *in_round =
            track != NULL ? loop_round_job(loop, track) : NULL;
        if (job != NULL && in_round != NULL && is_outside(job, in_round))
            loop_send_away(loop, job,
                           "its user changed its bounds: it is placed anew");
    }
    loop->rebound.n = 0;
}

void loop_changed(struct loop *loop, struct live_job *job)
{
    struct track *track = loop_track_make(loop, job->id);
    const struct firn_job *in_round = loop_round_job(loop, track);
    struct firn_error err = {0};
    if (live_state_is_over(job->state) || job->is_ending)
        return;
    if (job->is_held) {
        hold(loop, job);
        return;
    }
    if (in_round != NULL) {
        if (is_outside(job, in_round))
            vec_add(&loop->rebound, job->id);
        if (is_outdated(loop, job, in_round))
            loop_readmit(loop, job);
        return;
    }
    if (job->state == LIVE_PENDING && job->reason == LIVE_BECAUSE_HELD) {
        enum firn_status status = book_state(
            loop->book, job, LIVE_PENDING, LIVE_BECAUSE_NEW, loop_now_s(loop),
            "released; no round has seen it yet", &err);
        loop_wrote(loop, status, &err);
    }
    loop_admit(loop, job);
}
