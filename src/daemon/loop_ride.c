/* loop_ride.c - two jobs, one training: who rides with whom, and until when.
 *
 * A policy may merge two fine-tuning jobs: both hold the same GPUs and name
 * each other. One set of processes trains both. They are those of the lead, the
 * job with the lower id; the other one rides along. The engine knows of the
 * lead alone, whose launch tells of its mate; a rider has a start with a number
 * of its own all the same, opened and ended with the lead's, so that its
 * reports and its history are like any other job's.
 *
 *     wanted   the round's word: both hold, and name each other
 *     rides    the book's word: live_job.how.merged_with of the present start,
 *              on disk with the numbers of both
 *
 * What is wanted becomes a ride when the lead starts. What is wanted no more
 * ends with the lead's start: it is asked to write its checkpoints, one for
 * each job, and both go on alone from their own.
 *
 * (1) The starts of both are on disk in one commit, and end in one. (2) A rider
 * has no processes of its own: none is started while it rides, and it rides
 * only when the engine has nothing of it. (3) When the training is done, the
 * rider is done if its last report says so; else it goes on alone. (A trainer
 * that knows nothing of mates thus harms nobody; and one that reports for the
 * lead alone is found out: SILENT_S later the two are parted.) (4) A training
 * of two that fails is nobody's failure: neither is charged a retry, both go on
 * alone and are not merged again until the scheduler is started anew.
 *
 * Cost: each check looks at the riders only.
 */
#include "base/buf.h"
#include "base/log.h"
#include "daemon/loopwork.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const double SILENT_S = 600; /* of a rider whose lead reports */

/* --- who ----------------------------------------------------------------- */

struct live_job *ride_other(const struct loop *loop, const struct live_job *job)
{
    struct live_job *other = job->how.merged_with != FIRN_NO_JOB
                                 ? book_job(loop->book, job->how.merged_with)
                                 : NULL;
    return other != NULL && other->how.merged_with == job->id ? other : NULL;
}

/* The lead of a job that rides; NULL: it does not. */
static struct live_job *lead_of(const struct loop *loop,
                                const struct live_job *job)
{
    struct live_job *other = ride_other(loop, job);
    return other != NULL && other->id < job->id ? other : NULL;
}

/* Whom the round wants it to be trained together with; NULL: nobody. */
static struct live_job *wanted(const struct loop *loop,
                               const struct live_job *job)
{
    const struct track *track = loop_track(loop, job->id);
    const struct firn_job *me =
        track != NULL ? loop_round_job(loop, track) : NULL;
    if (me == NULL || me->held.nparts == 0 ||
        me->held.how.merged_with == FIRN_NO_JOB)
        return NULL;
    const struct firn_job *them =
        state_job(round_state(loop->round), me->held.how.merged_with);
    if (them == NULL || them->held.nparts == 0 ||
        them->held.how.merged_with != me->id)
        return NULL;
    return book_job(loop->book, loop_book_id(loop, them->id));
}

enum firn_phase loop_phase(const struct loop *loop, const struct live_job *job)
{
    const struct live_job *lead = lead_of(loop, job);
    return loop->engine->phase(loop->engine_state,
                               lead != NULL ? lead->id : job->id);
}

bool ride_rides(const struct loop *loop, const struct live_job *job)
{
    return lead_of(loop, job) != NULL;
}

bool ride_awaits(const struct loop *loop, const struct live_job *job)
{
    const struct live_job *other = wanted(loop, job);
    return other != NULL && other->id < job->id;
}

void ride_words(const struct loop *loop, const struct live_job *job,
                struct firn_buf *out)
{
    const struct live_job *other = ride_other(loop, job);
    buf_clear(out);
    if (other == NULL)
        buf_puts(out, "");
    else if (other->id < job->id)
        buf_printf(out, ", trained by job %d (%s)", other->id, other->ask.name);
    else
        buf_printf(out, ", together with job %d (%s)", other->id,
                   other->ask.name);
}

struct firn_how ride_how(const struct loop *loop, const struct firn_how *how)
{
    struct firn_how out = *how;
    if (how->merged_with != FIRN_NO_JOB)
        out.merged_with = loop_book_id(loop, how->merged_with);
    if (how->after != FIRN_NO_JOB)
        out.after = loop_book_id(loop, how->after);
    return out;
}

/* --- steps --------------------------------------------------------------- */

static void engine_step(struct loop *loop, struct live_job *job,
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

static void stop(struct loop *loop, struct live_job *job)
{
    static const struct firn_alloc nothing = FIRN_ALLOC_NONE;
    engine_step(loop, job, FIRN_STEP_STOP, &nothing);
}

/* By the nodes' names. */
static void put_gpus(const struct loop *loop, const struct firn_alloc *gpus,
                     struct firn_buf *out)
{
    struct firn_buf text = {0};
    firn_alloc_print(gpus, &text);
    loop_gpus_text(loop, text.at, out);
    buf_release(&text);
}

bool ride_takes_step(struct loop *loop, struct live_job *job,
                     const struct firn_step *step)
{
    const struct live_job *lead = lead_of(loop, job);
    firn_job_id with = FIRN_NO_JOB;
    if (step->to->nparts > 0 && step->to->how.merged_with != FIRN_NO_JOB)
        with = loop_book_id(loop, step->to->how.merged_with);
    bool will_ride = with != FIRN_NO_JOB && with < job->id;
    struct firn_buf to = {0}, from = {0};
    char why[LIVE_TEXT];
    if (lead == NULL && !will_ride)
        return false;
    put_gpus(loop, step->to, &to);
    vec_add(&loop->riders, job->id);
    if (lead == NULL) {
        if (loop->engine->phase(loop->engine_state, job->id) != FIRN_PHASE_GONE)
            stop(loop, job); /* (2) */
        snprintf(why, sizeof why, "starts on %.150s, trained by job %d", to.at,
                 with);
        loop_say(loop, job, LIVE_STARTING, LIVE_BECAUSE_NONE, why);
    } else if (step->to->nparts == 0) {
        loop_say(loop, job, LIVE_PREEMPTING, LIVE_BECAUSE_POLICY,
                 "others go first; it is asked to leave its GPUs");
    } else {
        loop_gpus_text(loop, job->held, &from);
        snprintf(why, sizeof why, "from %.100s to %.100s", from.at, to.at);
        loop_say(loop, job, LIVE_RESIZING, LIVE_BECAUSE_POLICY, why);
    }
    buf_release(&to);
    buf_release(&from);
    return true;
}

/* --- a start ------------------------------------------------------------- */

/* A rider writes nothing itself: its log says whose has its output. */
static void tell_log(const struct loop *loop, const struct live_job *rider,
                     const struct live_job *lead)
{
    struct firn_buf path = {0}, text = {0};
    buf_printf(&path, "%s/jobs", loop->config->state);
    mkdir(path.at, 0700); /* there already, or the next one fails */
    mkdir(loop_job_folder(loop, rider->id, &path), 0700);
    buf_puts(&path, "/log");
    int fd = open(path.at,
                  O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW |
                      O_NONBLOCK,
                  0600);
    buf_printf(&text,
               "firn: trained by job %d (%s), whose log has its output\n",
               lead->id, lead->ask.name);
    if (fd < 0 || write(fd, text.at, text.n) != (ssize_t)text.n)
        log_warn("%s: %s", path.at, strerror(errno));
    if (fd >= 0)
        close(fd);
    buf_release(&path);
    buf_release(&text);
}

static enum firn_status open_start(struct loop *loop, struct live_job *rider,
                                   const struct live_job *lead,
                                   struct firn_error *err)
{
    struct track *track = loop_track(loop, rider->id);
    const struct firn_job *in_round = loop_round_job(loop, track);
    struct firn_how how = ride_how(loop, &in_round->held.how);
    struct firn_buf held = {0};
    int64_t epoch = 0;
    how.merged_with = lead->id;
    firn_alloc_print(&in_round->held, &held);
    enum firn_status status = book_held(loop->book, rider, held.at, err);
    buf_release(&held);
    if (status == FIRN_OK)
        status = book_how(loop->book, rider, &how, err);
    if (status == FIRN_OK)
        status = loop_type_keep(loop, rider, in_round->held.parts[0].node, err);
    if (status == FIRN_OK)
        status = book_ride(loop->book, rider, &epoch, err); /* (1) */
    if (loop_wrote(loop, status, err)) {
        track->open_epoch = epoch;
        track->opened_s = loop_now_s(loop);
        tell_log(loop, rider, lead);
    }
    return status;
}

enum firn_status ride_open(struct loop *loop, struct live_job *job,
                           struct firn_how *how, struct firn_error *err)
{
    struct live_job *before = ride_other(loop, job);
    struct live_job *rider = wanted(loop, job);
    how->merged_with = FIRN_NO_JOB;
    if (before != NULL && before->id < job->id)
        return firn_fail(err, FIRN_EINVAL,
                         "job %d is still trained together with job %d",
                         job->id, before->id);
    if (before != NULL && before != rider) { /* a start of which no end came */
        struct firn_event lost = {.kind = FIRN_EVENT_LEFT,
                                  .end = FIRN_END_LOST};
        ride_ended(loop, job, before, &lost);
    }
    if (rider == NULL || rider->id < job->id || rider->is_ending ||
        rider->is_held)
        return FIRN_OK;
    if (loop->engine->phase(loop->engine_state, rider->id) != FIRN_PHASE_GONE)
        return firn_fail(err, FIRN_EINVAL,
                         "job %d, its mate, has not left its GPUs yet",
                         rider->id);
    how->merged_with = rider->id;
    return open_start(loop, rider, job, err);
}

/* --- an end -------------------------------------------------------------- */

/* It waits for the policy's next word. */
static void wait_again(struct loop *loop, struct live_job *job,
                       enum live_reason reason, const char *why)
{
    struct track *track = loop_track(loop, job->id);
    if (job->is_ending) {
        loop_end(loop, job, LIVE_CANCELLED, LIVE_BECAUSE_USER,
                 "cancelled by its user");
        return;
    }
    if (job->is_held)
        loop_say(loop, job, LIVE_PENDING, LIVE_BECAUSE_HELD,
                 "held back by its user");
    else
        loop_say(loop, job, LIVE_PENDING, reason, why);
    loop_withdraw(loop, track);
    loop_admit(loop, job);
}

/* It has GPUs of its own by now. */
static void start_alone(struct loop *loop, struct live_job *job,
                        const struct firn_job *in_round)
{
    struct firn_alloc to = in_round->held;
    struct firn_buf text = {0};
    char why[LIVE_TEXT];
    to.how = ride_how(loop, &in_round->held.how);
    engine_step(loop, job, FIRN_STEP_START, &to);
    put_gpus(loop, &to, &text);
    snprintf(why, sizeof why, "starts on %.200s, alone", text.at);
    buf_release(&text);
    loop_say(loop, job, LIVE_STARTING, LIVE_BECAUSE_NONE, why);
}

static void left(struct loop *loop, struct live_job *job, int end)
{
    char why[LIVE_TEXT];
    struct track *track = loop_track(loop, job->id);
    const struct firn_job *in_round = loop_round_job(loop, track);
    const struct live_job *other = wanted(loop, job);
    bool has_gpus = in_round != NULL && in_round->held.nparts > 0 &&
                    !job->is_ending && !job->is_held;
    if (track->is_lone)
        wait_again(loop, job, LIVE_BECAUSE_RETRY,
                   "the job that was to train it reports nothing of it; goes "
                   "on alone");
    else if (has_gpus && other != NULL && other->id < job->id)
        loop_say(loop, job, LIVE_STARTING, LIVE_BECAUSE_LEAVING,
                 "starts again when its GPUs are free");
    else if (has_gpus && in_round->held.how.merged_with == FIRN_NO_JOB)
        start_alone(loop, job, in_round);
    else {
        loop_stopped_text(job, end, loop_now_s(loop) - track->opened_s, why);
        wait_again(loop, job, LIVE_BECAUSE_PRIORITY, why);
    }
}

/* (3) */
static void done(struct loop *loop, struct live_job *job, int64_t epoch)
{
    bool is_done = job->reported_epoch == epoch && job->last.progress >= 1;
    if (is_done) {
        loop_end(loop, job, LIVE_SUCCEEDED, LIVE_BECAUSE_EXIT,
                 "trained to its end by another job's processes");
        return;
    }
    loop_track(loop, job->id)->is_lone = true;
    wait_again(loop, job, LIVE_BECAUSE_RETRY,
               "the job that trained it ended before it was done; goes on "
               "alone");
}

void ride_ended(struct loop *loop, struct live_job *lead,
                struct live_job *rider, const struct firn_event *event)
{
    struct track *track = loop_track(loop, rider->id);
    struct firn_event its = *event;
    its.job = rider->id;
    its.epoch = track->open_epoch;
    loop_close_epoch(loop, rider, &its);
    if (event->kind == FIRN_EVENT_DONE)
        done(loop, rider, its.epoch);
    else if (event->kind == FIRN_EVENT_LEFT)
        left(loop, rider, event->end);
    else if (lead->state == LIVE_CANCELLED)
        wait_again(loop, rider, LIVE_BECAUSE_RETRY,
                   "the job that trained it was cancelled; goes on alone");
    else
        ride_failed(loop, rider, event);
}

void ride_failed(struct loop *loop, struct live_job *job,
                 const struct firn_event *event)
{
    char why[LIVE_TEXT], how[64];
    int status = event->exit_status;
    loop_track(loop, job->id)->is_lone = true;
    snprintf(how, sizeof how, status > 128 ? "by signal %d" : "with status %d",
             status > 128 ? status - 128 : status);
    if (event->end == FIRN_END_LOST)
        snprintf(how, sizeof how, "as its supervisor or host vanished");
    else if (event->end == FIRN_END_MEMORY)
        snprintf(how, sizeof how, "for want of memory");
    snprintf(why, sizeof why,
             "the training of two jobs ended %s; goes on alone", how);
    wait_again(loop, job, LIVE_BECAUSE_RETRY, why);
}

/* --- all of them --------------------------------------------------------- */

/* Has its present start reported? */
static bool is_heard(const struct live_job *job)
{
    return job->reported_s > 0 && job->reported_epoch == job->epoch;
}

/* For long, its lead has reported and it has not. */
static bool is_untrained(const struct loop *loop, const struct live_job *job,
                         const struct live_job *lead)
{
    struct track *track = loop_track(loop, job->id);
    double now_s = loop_now_s(loop);
    if (is_heard(job) || !is_heard(lead))
        track->unheard_s = 0;
    else if (track->unheard_s <= 0)
        track->unheard_s = now_s;
    return track->unheard_s > 0 && now_s >= track->unheard_s + SILENT_S;
}

/* Is it still of interest? */
static bool check(struct loop *loop, struct live_job *job)
{
    struct live_job *lead = lead_of(loop, job);
    struct live_job *other = wanted(loop, job);
    struct track *track = loop_track(loop, job->id);
    const struct firn_job *in_round = loop_round_job(loop, track);
    if (lead != NULL) {
        enum firn_phase phase =
            loop->engine->phase(loop->engine_state, lead->id);
        track->is_lone = track->is_lone || is_untrained(loop, job, lead);
        if ((other != lead || track->is_lone) && phase != FIRN_PHASE_LEAVING &&
            phase != FIRN_PHASE_GONE)
            stop(loop, lead);
        return true;
    }
    if (other != NULL && other->id < job->id)
        return true; /* it is to start */
    if (in_round != NULL && in_round->held.nparts > 0 &&
        loop->engine->phase(loop->engine_state, job->id) == FIRN_PHASE_GONE)
        wait_again(loop, job, LIVE_BECAUSE_POLICY,
                   "the job that was to train it is gone; waits for GPUs");
    return false;
}

void ride_check(struct loop *loop)
{
    size_t kept = 0, n = loop->riders.n;
    for (size_t i = 0; i < n; i++) {
        firn_job_id id = loop->riders.at[i];
        struct live_job *job = book_job(loop->book, id);
        bool is_there = job != NULL && !live_state_is_over(job->state) &&
                        loop_track(loop, id) != NULL;
        for (size_t k = 0; k < kept; k++)
            is_there = is_there && loop->riders.at[k] != id;
        if (is_there && check(loop, job))
            loop->riders.at[kept++] = id;
    }
    loop->riders.n = kept;
}

/* --- other ids ----------------------------------------------------------- */

void ride_relink(struct loop *loop, firn_job_id round_id)
{
    const struct state *state = round_state(loop->round);
    const struct firn_job *job = state_job(state, round_id);
    const struct firn_job *other =
        job->held.nparts > 0 ? state_job(state, job->held.how.merged_with)
                             : NULL;
    if (other != NULL && other->held.how.merged_with != FIRN_NO_JOB &&
        loop_book_id(loop, other->held.how.merged_with) ==
            loop_book_id(loop, round_id))
        round_merged(loop->round, other->id, round_id);
}

void ride_recover(struct loop *loop)
{
    for (size_t i = 0; i < book_count(loop->book); i++) {
        struct live_job *rider = book_at(loop->book, i);
        struct live_job *lead =
            live_state_is_over(rider->state) ? NULL : lead_of(loop, rider);
        if (lead == NULL)
            continue;
        const struct track *a = loop_track(loop, lead->id);
        const struct track *b = loop_track(loop, rider->id);
        if (a != NULL && b != NULL && a->round_id != FIRN_NO_JOB &&
            b->round_id != FIRN_NO_JOB) {
            round_merged(loop->round, a->round_id, b->round_id);
            round_merged(loop->round, b->round_id, a->round_id);
        }
        vec_add(&loop->riders, rider->id);
        if (rider->is_ending)
            loop_cancelled(loop, rider);
        else if (rider->is_held)
            loop_changed(loop, rider);
    }
    ride_check(loop);
}
