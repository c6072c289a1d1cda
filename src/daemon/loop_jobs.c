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
    *track = (struct track){.id = id,
                            .round_id = FIRN_NO_JOB,
                            .granted = FIRN_ALLOC_NONE,
                            .blocked = FIRN_ALLOC_NONE};
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

enum firn_phase loop_phase(const struct loop *loop, const struct live_job *job)
{
    const struct live_job *lead = partner_lead(loop->book, job);
    return loop->engine->phase(loop->engine_state,
                               lead != NULL ? lead->id : job->id);
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
        partner_relink(loop, as.id);
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

enum firn_status loop_enter_round(struct loop *loop, struct live_job *job,
                                  struct firn_error *err)
{
    static const struct firn_alloc nothing = FIRN_ALLOC_NONE;
    const struct track *track = loop_track_make(loop, job->id);
    if (track->round_id != FIRN_NO_JOB || track->is_pinned)
        return FIRN_OK;
    return job->epoch == 0 ? submit(loop, job, err)
                           : loop_restore(loop, job, &nothing, err);
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
void loop_leave_round(struct loop *loop, struct track *track, bool is_done)
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

enum firn_status loop_reenter_round(struct loop *loop, struct live_job *job,
                                    bool *is_waiting, struct firn_error *err)
{
    struct track *track = loop_track(loop, job->id);
    const struct firn_job *before =
        track != NULL ? loop_round_job(loop, track) : NULL;
    *is_waiting = before == NULL || before->held.nparts == 0;
    if (*is_waiting) {
        if (before != NULL)
            loop_withdraw(loop, track);
        return FIRN_OK;
    }
    struct firn_alloc held = before->held;
    held.parts = mem_new((size_t)held.nparts, sizeof *held.parts);
    memcpy(held.parts, before->held.parts,
           (size_t)held.nparts * sizeof *held.parts);
    enum firn_status status = loop_restore(loop, job, &held, err);
    mem_free(held.parts);
    return status;
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

void loop_pin_leaving(struct loop *loop, struct live_job *job)
{
    struct track *track = loop_track(loop, job->id);
    struct firn_alloc has = FIRN_ALLOC_NONE;
    if (track->is_pinned || !recover_alloc(job->held, &has))
        return;
    if (has.nparts == 0 || has.is_shared) { /* the other job stays there */
        mem_free(has.parts);
        return;
    }
    mem_free(track->granted.parts);
    track->granted = has;
    loop_pin(loop, job);
}

/* --- steps that no round has planned -------------------------------------- */

static void engine_step(struct loop *loop, const struct live_job *job,
                        enum firn_step_kind kind, const struct firn_alloc *to)
{
    struct firn_error err = {0};
    struct firn_job as = {.id = job->id};
    struct firn_step step = {
        .kind = kind, .job = &as, .to = to, .at_s = loop_now_s(loop)};
    loop_spec(loop, job, &as.spec);
    if (loop->engine->apply(loop->engine_state, &step, &err) != FIRN_OK)
        log_warn("job %d: %s", job->id, err.text);
}

void loop_stop_job(struct loop *loop, const struct live_job *job)
{
    static const struct firn_alloc nothing = FIRN_ALLOC_NONE;
    engine_step(loop, job, FIRN_STEP_STOP, &nothing);
}

void loop_start_job(struct loop *loop, const struct live_job *job)
{
    const struct firn_job *in_round =
        loop_round_job(loop, loop_track(loop, job->id));
    struct firn_alloc to = in_round->held;
    to.how = partner_how(loop, &in_round->held.how);
    engine_step(loop, job, FIRN_STEP_START, &to);
}

bool loop_adopt(struct loop *loop, const struct live_job *job,
                const struct firn_alloc *held)
{
    struct firn_error err = {0};
    struct firn_job as = {.id = job->id, .held = *held};
    as.held.how.merged_with = job->how.merged_with;
    loop_spec(loop, job, &as.spec);
    if (loop->engine->adopt(loop->engine_state, &as, job->epoch, &err) ==
        FIRN_OK)
        return true;
    log_warn("job %d: %s", job->id, err.text);
    return false;
}
