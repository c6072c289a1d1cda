/* desk.c - jobs into the round, out of it, and beside it.
 *
 * Invariants:
 * (1) a job is in the round, or pinned, or away, never two of them;
 * (2) a job comes into the round waiting only when the engine has nothing of
 *     it, so that a start never meets an attempt that is still leaving: the
 *     caller checks that;
 * (3) a job that is neither in the round nor pinned does not stay on GPUs that
 *     the round takes to be free: when it cannot come back with them, the
 *     caller is told, and sends it away.
 *
 * Pinned jobs: a job that can neither write a checkpoint nor start again from
 * the beginning is never stopped once it runs. No policy sees it any more; its
 * GPUs are blocked in the round until it ends. Such jobs do not share GPUs.
 *
 * Durations are in desk_span.c. Progress is a share of the whole, so a wrong
 * guess scales rate and work alike, and the time left of a job that reports is
 * right whatever was guessed.
 */
#include "daemon/desk.h"
#include "base/buf.h"
#include "base/log.h"
#include "core/accept.h"
#include "core/llmjobs.h"
#include "daemon/abilities.h"
#include "daemon/jobfile.h"
#include "daemon/mergekey.h"
#include "daemon/recover.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- tracks -------------------------------------------------------------- */

struct track *desk_track(const struct desk *desk, firn_job_id id)
{
    size_t i = (size_t)(id - desk->first_id);
    return id >= desk->first_id && i < desk->tracks.n ? desk->tracks.at[i]
                                                      : NULL;
}

struct track *desk_track_make(struct desk *desk, firn_job_id id)
{
    struct track *track = desk_track(desk, id);
    if (track != NULL)
        return track;
    size_t i = (size_t)(id - desk->first_id);
    vec_reserve(&desk->tracks, i + 1);
    if (i >= desk->tracks.n)
        desk->tracks.n = i + 1;
    track = mem_new(1, sizeof *track);
    *track = (struct track){.id = id,
                            .round_id = FIRN_NO_JOB,
                            .granted = FIRN_ALLOC_NONE,
                            .blocked = FIRN_ALLOC_NONE};
    return desk->tracks.at[i] = track;
}

void desk_track_drop(struct desk *desk, firn_job_id id)
{
    struct track *track = desk_track(desk, id);
    if (track == NULL)
        return;
    mem_free(track->granted.parts);
    mem_free(track->blocked.parts);
    mem_free(track);
    desk->tracks.at[id - desk->first_id] = NULL;
}

firn_job_id desk_book_id(const struct desk *desk, firn_job_id round_id)
{
    return round_id >= 0 && (size_t)round_id < desk->books.n
               ? desk->books.at[round_id]
               : FIRN_NO_JOB;
}

const struct firn_job *desk_job(const struct desk *desk,
                                const struct track *track)
{
    return track->round_id == FIRN_NO_JOB
               ? NULL
               : state_job(round_state(desk->round), track->round_id);
}

bool desk_can_stop(const struct live_job *job)
{
    return job->ask.can_checkpoint || job->ask.may_restart;
}

/* --- what the round is told ---------------------------------------------- */

double desk_guess_s(const struct desk *desk, const struct live_ask *ask)
{
    return livehistory_guess(desk->history, ask->user, ask->app);
}

/* What the job's elastic reach goes to here: the GPUs that it may have. */
static int reach(const struct desk *desk, const struct firn_job_spec *spec)
{
    struct firn_job_spec least = *spec;
    struct job_accept accept = {0};
    char why[JOB_WHY_MAX];
    least.gpus = least.gpus_min;
    if (!job_accept(&least, &desk->dock->cluster, &accept, why) ||
        accept.gpus >= spec->gpus_max)
        return spec->gpus_max;
    return accept.gpus;
}

/* What no job can do on this engine, whatever its trainer can. */
static unsigned engine_lacks(const struct desk *desk)
{
    return desk->dock->engine->has_executors ? 0 : FIRN_CAN_EXECUTORS;
}

/* Of a job whose user gave no duration: by its iterations, else what the user's
 * jobs took. */
static void guess_duration(const struct desk *desk, const struct live_ask *ask,
                           struct firn_job_spec *out)
{
    double whole_s = desk_counted_whole_s(desk, out);
    double guess_s = whole_s > 0 ? whole_s : desk_guess_s(desk, ask);
    if (guess_s > 0)
        out->duration_s = guess_s;
    out->is_nominal = !(whole_s > 0);
}

/* `keeps` is the GPU type that it keeps to; "" for none. A job that `runs`
 * stays where it is, whatever was seen of the memory of its model since. */
static void fill_spec(const struct desk *desk, const struct live_ask *ask,
                      double submit_s, const char *keeps, bool runs,
                      struct firn_job_spec *out)
{
    jobfile_spec(ask, submit_s, out);
    if (out->seq > 0 && desk->memory != NULL)
        out->mem_ratio =
            runs ? FIRN_PEAK_RATIO_LEAST : memseen_ratio(desk->memory, out);
    desk_type_spec(desk, keeps, out);
    out->cannot |= engine_lacks(desk);
    if (dock_no_sharing(desk->dock) != NULL)
        out->may_share = false; /* or a policy gives it half a GPU for ever */
    if (llmjobs_is(out)) {
        /* A language model: its memory says how many GPUs and of which types,
         * within what its user allows. The text lives until the next one. */
        if (out->gpus == 0)
            llmjobs_fill(&desk->dock->cluster, out);
        if (out->gpus > 0)
            llmjobs_restrict(&desk->dock->cluster, out, desk->types_text);
    } else
        out->gpus = reach(desk, out);
    if (out->is_nominal)
        guess_duration(desk, ask, out);
    out->submit_s = submit_s > 0 ? submit_s : 0;
    if (out->submit_s >
        dock_now_s(desk->dock)) /* the clock was put back since */
        out->submit_s = dock_now_s(desk->dock);
}

void desk_ask_spec(const struct desk *desk, const struct live_ask *ask,
                   double submit_s, struct firn_job_spec *out)
{
    fill_spec(desk, ask, submit_s, "", false, out);
}

/* The GPUs of a job that cannot resize: as many as it has, or last had, within
 * its bounds; before its first start the most that it may have. */
static int gpus_for_life(const struct desk *desk, const struct live_job *job,
                         const struct track *track,
                         const struct firn_job_spec *spec)
{
    const struct firn_job *now = track != NULL ? desk_job(desk, track) : NULL;
    int gpus = spec->gpus;
    if (now != NULL && now->held.nparts > 0)
        gpus = now->held.ngpus;
    else if (job->reported_s > 0 && job->last.nprocs > 0)
        gpus = job->last.nprocs;
    gpus = gpus < spec->gpus_max ? gpus : spec->gpus_max;
    return gpus > spec->gpus_min ? gpus : spec->gpus_min;
}

unsigned desk_cannot(const struct desk *desk, const struct live_job *job)
{
    return (FIRN_CAN_ALL & ~abilities_of(job, NULL)) | engine_lacks(desk);
}

/* No more GPUs than the engine lets it have, unless it has them. */
static void bound(const struct desk *desk, const struct live_job *job,
                  const struct track *track, struct firn_job_spec *out)
{
    struct firn_bars bars;
    const struct firn_job *now = track != NULL ? desk_job(desk, track) : NULL;
    int most = dock_bars(desk->dock, job->id, &bars) ? bars.gpus_max : 0;
    if (most <= 0 || most < out->gpus_min)
        return;
    if (now != NULL && now->held.ngpus > most)
        most = now->held.ngpus;
    if (out->gpus_max > most)
        out->gpus_max = most;
    if (out->gpus > most)
        out->gpus = most;
}

/* Nodes that are barred to it, in the round. */
static void bar(const struct desk *desk, const struct track *track)
{
    struct firn_bars bars;
    if (dock_bars(desk->dock, track->id, &bars) && bars.nodes != NULL)
        round_bar(desk->round, track->round_id, bars.nodes);
}

void desk_spec(const struct desk *desk, const struct live_job *job,
               struct firn_job_spec *out)
{
    const struct track *track = desk_track(desk, job->id);
    bool runs = job->held != NULL && strcmp(job->held, "-") != 0;
    fill_spec(desk, &job->ask, job->submitted_s, job->gpu_type, runs, out);
    out->cannot = desk_cannot(desk, job);
    bound(desk, job, track, out);
    if ((out->cannot & FIRN_CAN_RESIZE) && out->gpus > 0)
        out->gpus = out->gpus_min = out->gpus_max =
            gpus_for_life(desk, job, track, out);
    if (job->ask.base[0] != '\0' && job->last.prepare_s > 0)
        out->restart_s = job->last.prepare_s; /* as it was measured */
    if (track != NULL && track->nparted > 1)
        out->may_share = false; /* loop_guard.c */
    if (track != NULL && track->is_lone)
        out->may_merge = false;
    if (out->may_merge) {
        buf_clear(desk->merge_key);
        mergekey_text(&job->ask, job->id, desk->merge_key);
        out->merge_key = desk->merge_key->at;
    }
}

/* The share of its work that a new start begins with. */
static double progress_of(const struct live_job *job)
{
    double progress = job->last.progress;
    bool is_kept = job->ask.can_checkpoint && progress > 0 &&
                   job->reported_attempt >= job->anew;
    return is_kept ? fmin(progress, 1) : 0;
}

static firn_job_id new_round_id(struct desk *desk, firn_job_id book_id)
{
    vec_add(&desk->books, book_id);
    return (firn_job_id)desk->books.n - 1;
}

/* It has come back to the round under this id: its partner there shall name it
 * so. */
static void relink(struct desk *desk, firn_job_id round_id)
{
    const struct state *state = round_state(desk->round);
    const struct firn_job *job = state_job(state, round_id);
    const struct firn_job *other =
        job->held.nparts > 0 ? state_job(state, job->held.how.merged_with)
                             : NULL;
    if (other != NULL && other->held.how.merged_with != FIRN_NO_JOB &&
        desk_book_id(desk, other->held.how.merged_with) ==
            desk_book_id(desk, round_id))
        round_merged(desk->round, other->id, round_id);
}

/* What it holds, without the ways to run on it that its trainer has turned out
 * not to obey. Its partner stays: loop_life.c parts two that do not go. */
static struct firn_alloc as_able(const struct firn_job_spec *spec,
                                 const struct firn_alloc *held)
{
    struct firn_alloc able = *held;
    struct firn_job job = {.spec = *spec};
    unsigned lacks = firn_job_lacks(&job, &held->how);
    if (lacks & FIRN_CAN_PASSES)
        able.how.passes = 0;
    if (lacks & FIRN_CAN_TENSOR)
        able.how.tensor = 0;
    if (lacks & (FIRN_CAN_SHARDED | FIRN_CAN_PIPELINE | FIRN_CAN_ZERO |
                 FIRN_CAN_RECOMPUTE | FIRN_CAN_OFFLOAD))
        able.how.parallel = able.how.stages = 0;
    able.tunes = firn_job_tunes(&job, held->tunes);
    return able;
}

enum firn_status desk_restore(struct desk *desk, struct live_job *job,
                              const struct firn_alloc *held,
                              struct firn_error *err)
{
    struct track *track = desk_track_make(desk, job->id);
    double now_s = dock_now_s(desk->dock);
    struct firn_job_spec spec;
    desk_spec(desk, job, &spec);
    struct firn_alloc able = as_able(&spec, held);
    struct round_job as = {
        .id = new_round_id(desk, job->id), .spec = &spec, .held = &able};
    if (track->round_id != FIRN_NO_JOB)
        desk_withdraw(desk, track);
    as.past = track->past;
    if (as.past.since_s <= 0)
        as.past.since_s = now_s;
    as.past.report =
        (struct firn_report){progress_of(job) * spec.duration_s,
                             held->nparts ? track->rate : 0, now_s};
    enum firn_status status = round_restore(desk->round, &as, now_s, err);
    if (status == FIRN_OK) {
        track->round_id = as.id;
        track->duration_s = spec.duration_s;
        bar(desk, track);
        relink(desk, as.id);
    }
    return status;
}

static enum firn_status submit(struct desk *desk, struct live_job *job,
                               struct firn_error *err)
{
    struct track *track = desk_track_make(desk, job->id);
    struct firn_job_spec spec;
    desk_spec(desk, job, &spec);
    struct firn_event event = {.kind = FIRN_EVENT_SUBMIT,
                               .at_s = dock_now_s(desk->dock),
                               .job = new_round_id(desk, job->id),
                               .spec = &spec};
    FIRN_TRY(round_event(desk->round, &event, err));
    track->round_id = event.job;
    track->duration_s = spec.duration_s;
    bar(desk, track);
    return FIRN_OK;
}

enum firn_status desk_enter(struct desk *desk, struct live_job *job,
                            struct firn_error *err)
{
    static const struct firn_alloc nothing = FIRN_ALLOC_NONE;
    const struct track *track = desk_track_make(desk, job->id);
    if (track->round_id != FIRN_NO_JOB || track->is_pinned)
        return FIRN_OK;
    return job->attempt == 0 ? submit(desk, job, err)
                             : desk_restore(desk, job, &nothing, err);
}

/* What it had until now, for when it comes back. */
static void remember(struct desk *desk, struct track *track)
{
    const struct firn_job *job = desk_job(desk, track);
    double now_s = dock_now_s(desk->dock);
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
void desk_leave(struct desk *desk, struct track *track, bool is_done)
{
    struct firn_event event = {.kind =
                                   is_done ? FIRN_EVENT_DONE : FIRN_EVENT_FAIL,
                               .at_s = dock_now_s(desk->dock),
                               .job = track->round_id};
    struct firn_error err = {0};
    if (track->round_id == FIRN_NO_JOB)
        return;
    if (round_event(desk->round, &event, &err) != FIRN_OK)
        log_warn("job %d: %s", track->id, err.text);
    track->round_id = FIRN_NO_JOB;
}

void desk_withdraw(struct desk *desk, struct track *track)
{
    if (track->round_id == FIRN_NO_JOB)
        return;
    remember(desk, track);
    round_withdraw(desk->round, track->round_id, dock_now_s(desk->dock));
    track->round_id = FIRN_NO_JOB;
}

enum firn_status desk_reenter(struct desk *desk, struct live_job *job,
                              bool *is_waiting, struct firn_error *err)
{
    struct track *track = desk_track(desk, job->id);
    const struct firn_job *before =
        track != NULL ? desk_job(desk, track) : NULL;
    *is_waiting = before == NULL || before->held.nparts == 0;
    if (*is_waiting) {
        if (before != NULL)
            desk_withdraw(desk, track);
        return FIRN_OK;
    }
    struct firn_alloc held = before->held;
    held.parts = mem_new((size_t)held.nparts, sizeof *held.parts);
    memcpy(held.parts, before->held.parts,
           (size_t)held.nparts * sizeof *held.parts);
    enum firn_status status = desk_restore(desk, job, &held, err);
    mem_free(held.parts);
    return status;
}

/* --- pinned jobs --------------------------------------------------------- */

/* Charges the user of a pinned job for its GPUs, or (-1) no longer. */
static void charge_outside(struct desk *desk, struct track *track, int sign)
{
    const struct live_job *job = book_job(desk->book, track->id);
    if (desk->accounts == NULL || track->blocked.ngpus == 0)
        return;
    if (sign > 0)
        track->outside_member =
            job != NULL ? accounts_member(desk->accounts, job->ask.user,
                                          accounts_project(desk->accounts,
                                                           job->ask.user,
                                                           job->ask.project))
                        : -1;
    if (track->outside_member >= 0)
        accounts_hold_outside(desk->accounts, track->outside_member,
                              sign * track->blocked.ngpus,
                              dock_now_s(desk->dock));
}

/* Blocks those of its GPUs that are on nodes that are up. */
static void block(struct desk *desk, struct track *track)
{
    const struct firn_cluster *c = &round_state(desk->round)->cluster;
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
    if (to->nparts > 0 && !round_block(desk->round, to)) {
        log_warn("job %d has GPUs that are given out already", track->id);
        to->nparts = to->ngpus = 0;
    }
    charge_outside(desk, track, 1);
}

static void unblock(struct desk *desk, struct track *track)
{
    if (track->blocked.nparts > 0)
        round_unblock(desk->round, &track->blocked);
    charge_outside(desk, track, -1);
    track->blocked.nparts = track->blocked.ngpus = 0;
}

void desk_pin(struct desk *desk, struct live_job *job)
{
    struct track *track = desk_track_make(desk, job->id);
    if (track->is_pinned)
        return;
    desk_withdraw(desk, track);
    track->is_pinned = true;
    block(desk, track);
}

void desk_unpin(struct desk *desk, struct track *track)
{
    if (!track->is_pinned)
        return;
    unblock(desk, track);
    track->is_pinned = false;
}

void desk_lift_pins(struct desk *desk)
{
    for (size_t i = 0; i < desk->tracks.n; i++)
        if (desk->tracks.at[i] != NULL && desk->tracks.at[i]->is_pinned)
            unblock(desk, desk->tracks.at[i]);
}

void desk_set_pins(struct desk *desk)
{
    for (size_t i = 0; i < desk->tracks.n; i++)
        if (desk->tracks.at[i] != NULL && desk->tracks.at[i]->is_pinned)
            block(desk, desk->tracks.at[i]);
}

void desk_pin_leaving(struct desk *desk, struct live_job *job)
{
    struct track *track = desk_track(desk, job->id);
    struct firn_alloc has = FIRN_ALLOC_NONE;
    if (track->is_pinned || !recover_alloc(job->held, &has))
        return;
    if (has.nparts == 0 || has.is_shared) { /* the other job stays there */
        mem_free(has.parts);
        return;
    }
    mem_free(track->granted.parts);
    track->granted = has;
    desk_pin(desk, job);
}

/* --- another round ------------------------------------------------------- */

static enum firn_status copy_jobs(struct round *to, const struct state *from,
                                  double now_s, struct firn_error *err)
{
    for (const struct state_job *sj = from->first; sj; sj = sj->after) {
        const struct firn_job *job = &sj->job;
        struct firn_job_spec spec = job->spec;
        struct round_job as = {
            .id = job->id, .spec = &spec, .held = &job->held};
        desk_type_copied(from, job, &spec);
        as.past = (struct state_past){
            .since_s = job->since_s,
            .first_start_s = job->first_start_s,
            .held_s = job->held_s,
            .served_gpu_s = job->served_gpu_s,
            .starts = job->starts,
            .gpus_most = job->gpus_most,
            .report = {job->done_s, job->rate, job->resumes_s}};
        FIRN_TRY(round_restore(to, &as, now_s, err));
        round_bar(to, job->id, job->barred);
    }
    return FIRN_OK;
}

enum firn_status desk_copy(struct desk *desk, struct round *to, double now_s,
                           struct firn_error *err)
{
    FIRN_TRY(copy_jobs(to, round_state(desk->round), now_s, err));
    for (size_t i = 0; i < desk->tracks.n; i++) {
        const struct track *track = desk->tracks.at[i];
        if (track != NULL && track->blocked.nparts > 0)
            round_block(to, &track->blocked);
    }
    foreign_copy(desk, to);
    return FIRN_OK;
}

void desk_close(struct desk *desk)
{
    for (size_t i = 0; i < desk->tracks.n; i++)
        desk_track_drop(desk, desk->first_id + (firn_job_id)i);
    vec_release(&desk->tracks);
    vec_release(&desk->books);
    vec_release(&desk->refused);
    vec_release(&desk->started);
    vec_release(&desk->rejected);
    vec_release(&desk->arrived);
    vec_release(&desk->later);
    vec_release(&desk->rebound);
    vec_release(&desk->watched);
    vec_release(&desk->led);
    foreign_close(desk);
    liveforecast_free(desk->forecast);
    livecosts_free(desk->costs);
    livecounts_free(desk->counts);
    livehistory_free(desk->history);
    memseen_free(desk->memory);
    livemerge_free(desk->merges);
    accounts_free(desk->accounts);
    mem_free(desk->types_text);
    if (desk->merge_key != NULL)
        buf_release(desk->merge_key);
    mem_free(desk->merge_key);
    vec_release(&desk->settings);
    arena_release(&desk->settings_text);
}
