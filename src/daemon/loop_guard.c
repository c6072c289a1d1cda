/* loop_guard.c - what turned out worse than it was expected to be is undone.
 *
 * Sharing. A job beside another tells by each report how many times slower it
 * goes than alone. firn/sharing.h's watch averages that, and after a few
 * reports may call the pair bad: one of them is slowed too much, or both
 * together do clearly less than one after the other (TOGETHER_LEAST). On a GPU
 * that one job keeps busy two do as much as one and reports vary by some
 * percent; there a policy may share it while jobs start, and a stop costs more
 * than is lost. The forecast then says so of these two applications for good,
 * and a decision is asked for. A policy that can part them does (icefrog mostly
 * did before, by its own `evict`). If they are still together after that
 * decision, because the policy never takes a job off its GPUs or never asks,
 * the one that came later is stopped here by a checkpoint and waits again. One
 * that is parted a second time shares no more: its policy does not listen.
 *
 * Resizing. A report on other GPUs corrects the forecast there and with it what
 * the policy wants; liveforecast.c says from when on more GPUs are of no use.
 * Here it is only noticed that a resize went worse than expected, and counted
 * when it is taken back.
 *
 * Another job's weights. A job that began with them (firn_how.after) and that
 * they hurt (taskbook_hurts(): after two epochs or more its loss is above the
 * one that its task was seen to have without them, and it would meet its target
 * sooner from the start) begins anew: it is stopped, and its next attempts have
 * FIRN_ANEW, at which the trainer removes the checkpoints so far and begins
 * with the base's weights. Its progress counts from 0 again, and it is not
 * merged any more. Which jobs did so is on disk before they are stopped.
 *
 * Against flapping: averages, three reports before a pair is judged or more
 * GPUs are found useless, and memory: what was bad is not tried again.
 *
 * What was expected to end when is remembered of each job, and held against its
 * true end (firn_eta_error_ratio).
 *
 * Cost: O(pairs that share) a decision.
 */
#include "base/buf.h"
#include "base/log.h"
#include "daemon/loopwork.h"
#include <math.h>
#include <stdio.h>

/* More than a fifth slower than expected is worse. */
static const double WORSE = 0.8;
/* Of what two jobs do one after the other, together. */
static const double TOGETHER_LEAST = 0.9;

/* --- sharing ------------------------------------------------------------- */

static struct liveforecast_job named(const struct track *track,
                                     const struct firn_job *job)
{
    return (struct liveforecast_job){track->id, job};
}

static void forget_pair(struct track *track)
{
    track->sharer = 0;
    track->bad_at = 0;
    track->watch = (struct firn_share_watch){0};
}

/* It shares with that one from now on. */
static void watch_pair(struct loop *loop, struct track *track,
                       const struct firn_job *job, struct track *sharer,
                       const struct firn_job *beside)
{
    if (track->sharer == sharer->id)
        return;
    forget_pair(track);
    track->sharer = sharer->id;
    track->slow_expected = liveforecast_slowdown_now(
        loop->desk.forecast, named(track, job), named(sharer, beside));
    vec_add(&loop->desk.watched, track->id);
}

static void found_bad(struct loop *loop, struct track *track,
                      struct liveforecast_job job,
                      struct liveforecast_job sharer)
{
    struct firn_event ask = {.kind = FIRN_EVENT_TIMER,
                             .at_s = dock_now_s(&loop->dock)};
    struct firn_error err = {0};
    log_info("jobs %d and %d are bad for each other: %.2f and %.2f times "
             "slower",
             job.id, sharer.id, track->watch.xi_a, track->watch.xi_b);
    track->bad_at = loop->desk.ndecided + 1;
    liveforecast_part(loop->desk.forecast, job, sharer);
    if (round_event(loop->desk.round, &ask, &err) != FIRN_OK)
        log_warn("%s", err.text);
}

void loop_guard_share(struct loop *loop, struct track *track,
                      struct track *sharer, double rate)
{
    const struct firn_job *job = desk_job(&loop->desk, track);
    const struct firn_job *beside = desk_job(&loop->desk, sharer);
    struct firn_share_rule rule = firn_share_rule_default();
    rule.gain_min = TOGETHER_LEAST;
    if (job == NULL || beside == NULL)
        return;
    watch_pair(loop, track, job, sharer, beside);
    if (track->bad_at > 0 ||
        !liveforecast_is_seen(loop->desk.forecast, track->id))
        return; /* how it goes alone is not known */
    struct firn_way held =
        liveforecast_held(loop->desk.forecast, track->id, job);
    double alone =
        liveforecast_rate(loop->desk.forecast, track->id, job, &held);
    double other = sharer->sharer == track->id && sharer->watch.n > 0
                       ? sharer->watch.xi_a
                       : liveforecast_slowdown_now(loop->desk.forecast,
                                                   named(sharer, beside),
                                                   named(track, job));
    if (firn_share_watch(&track->watch, &rule, alone / rate, other))
        found_bad(loop, track, named(track, job), named(sharer, beside));
}

/* Both live and are where the round put them. */
static bool are_together(struct loop *loop, const struct track *track,
                         const struct track *sharer)
{
    const struct firn_job *a = desk_job(&loop->desk, track);
    const struct firn_job *b = desk_job(&loop->desk, sharer);
    return a != NULL && b != NULL && firn_alloc_overlaps(&a->held, &b->held);
}

/* Stops the one that came later; the policy has had its say. */
static void part(struct loop *loop, struct track *track, struct track *sharer)
{
    const struct firn_job *a = desk_job(&loop->desk, track);
    const struct firn_job *b = desk_job(&loop->desk, sharer);
    bool is_guest =
        a->since_s != b->since_s ? a->since_s > b->since_s : a->id > b->id;
    struct track *guest = is_guest ? track : sharer;
    struct live_job *job = book_job(loop->book, guest->id);
    char why[LIVE_TEXT];
    if (job == NULL)
        return;
    snprintf(why, sizeof why,
             "it and job %d slow each other down too much on shared GPUs",
             is_guest ? sharer->id : track->id);
    guest->nparted++;
    loop_sent_away(loop, job, why,
                   (struct live_stop){LIVE_CAUSE_UNDONE,
                                      is_guest ? sharer->id : track->id});
}

/* True: it is to be looked at again. */
static bool look_at(struct loop *loop, struct track *track)
{
    struct track *sharer = desk_track(&loop->desk, track->sharer);
    if (sharer == NULL) { /* it has ended */
        forget_pair(track);
        return false;
    }
    bool was_worse =
        track->bad_at > 0 || (track->watch.n > 0 &&
                              track->watch.xi_a * WORSE > track->slow_expected);
    if (are_together(loop, track, sharer)) {
        if (track->bad_at == 0 || track->bad_at > loop->desk.ndecided)
            return true;
        part(loop, track, sharer);
    }
    if (was_worse)
        metrics_add(loop->metrics, METRIC_UNDONE, METRIC_UNDO_SHARE, 1);
    if (sharer->sharer == track->id && was_worse)
        forget_pair(sharer);
    forget_pair(track);
    return false;
}

void loop_guard(struct loop *loop)
{
    size_t n = 0;
    for (size_t i = 0; i < loop->desk.watched.n; i++) {
        struct track *track = desk_track(&loop->desk, loop->desk.watched.at[i]);
        if (track != NULL && track->sharer > 0 && look_at(loop, track))
            loop->desk.watched.at[n++] = track->id;
    }
    loop->desk.watched.n = n;
}

/* --- resizing ------------------------------------------------------------ */

void loop_guard_step(struct loop *loop, const struct firn_step *step)
{
    struct track *track =
        desk_track(&loop->desk, desk_book_id(&loop->desk, step->job->id));
    if (track == NULL)
        return;
    int from = step->job->held.ngpus, to = step->to->ngpus;
    if (track->resized.is_worse && step->kind == FIRN_STEP_RESIZE &&
        (to < from) == (track->resized.from < from))
        metrics_add(loop->metrics, METRIC_UNDONE, METRIC_UNDO_RESIZE, 1);
    track->resized = (struct resized){0};
    if (step->kind != FIRN_STEP_RESIZE || !(track->rate > 0))
        return;
    struct firn_job then = *step->job;
    then.held = *step->to;
    struct firn_way way =
        liveforecast_held(loop->desk.forecast, track->id, &then);
    track->resized.from = from;
    track->resized.expected =
        liveforecast_rate(loop->desk.forecast, track->id, step->job, &way);
}

void loop_guard_alone(struct track *track, double rate)
{
    struct resized *r = &track->resized;
    if (r->from == 0)
        return;
    r->rate = r->n == 0 ? rate : r->rate + 0.5 * (rate - r->rate);
    r->n++;
    r->is_worse = r->rate < WORSE * r->expected;
}

/* --- another job's weights ----------------------------------------------- */

/* Lines "job attempt". */
static void save_anew(struct loop *loop)
{
    struct firn_buf text = {0};
    struct firn_error err = {0};
    buf_puts(&text, "");
    for (size_t i = 0; i < book_count(loop->book); i++) {
        const struct live_job *job = book_at(loop->book, i);
        if (job->anew > 0 && !live_state_is_over(job->state))
            buf_printf(&text, "%d %lld\n", job->id, (long long)job->anew);
    }
    book_wrote(loop->book,
               store_put_meta(loop->store, "anew",
                              (struct firn_bytes){text.at, text.n}, &err),
               &err);
    buf_release(&text);
}

bool loop_guard_after(struct loop *loop, struct live_job *job)
{
    struct track *track = desk_track(&loop->desk, job->id);
    double now_s = dock_now_s(&loop->dock);
    char why[LIVE_TEXT];
    if (job->state != LIVE_RUNNING || !desk_after_hurts(&loop->desk, job, why))
        return false;
    log_info("job %d %s", job->id, why);
    job->anew = job->attempt + 1;
    save_anew(loop);
    desk_task_anew(&loop->desk, job);
    metrics_add(loop->metrics, METRIC_UNDONE, METRIC_UNDO_TRANSFER, 1);
    struct firn_event back = {.kind = FIRN_EVENT_REPORT,
                              .at_s = now_s,
                              .job = track->round_id,
                              .report = {0, track->rate, now_s}};
    struct firn_error err = {0};
    if (track->round_id != FIRN_NO_JOB && track->rate > 0 &&
        round_event(loop->desk.round, &back, &err) != FIRN_OK)
        log_warn("job %d: %s", job->id, err.text);
    loop_sent_away(loop, job, why,
                   (struct live_stop){LIVE_CAUSE_UNDONE, FIRN_NO_JOB});
    return true;
}
