/* loop_round.c - when a round is due, and what it leaves behind.
 *
 * Rounds are decided when an event asked for one or the policy's time has come,
 * but not more often than every LOOP_ROUND_MS: a thousand submits a second are
 * twenty rounds. A round whose plan core refuses changes nothing; it is said,
 * counted, and tried again a while later. While the engine cannot be asked to
 * do anything, nothing is decided: what would be started would only wait there.
 *
 * The policy can be changed while jobs run: a new round takes them all over as
 * they are, under the same ids, and its first decision changes what it likes.
 *
 * The policy's state is kept once a minute and at the end, in one transaction
 * with the round's ids of all jobs, since it may go by them.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/loopwork.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double SAVE_EVERY_S = 60, AGAIN_S = 5, TROUBLE_S = 1;

/* Started jobs that can never be stopped are pinned. */
static void pin_started(struct loop *loop)
{
    for (size_t i = 0; i < loop->desk.started.n; i++) {
        struct live_job *job = book_job(loop->book, loop->desk.started.at[i]);
        if (job != NULL && desk_track(&loop->desk, job->id) != NULL)
            desk_pin(&loop->desk, job);
    }
    loop->desk.started.n = 0;
}

/* Jobs whose steps the engine refused wait, and come back to the round after
 * AGAIN_S. */
static void take_back(struct loop *loop)
{
    for (size_t i = 0; i < loop->desk.refused.n; i++) {
        const struct refused *refused = &loop->desk.refused.at[i];
        struct live_job *job = book_job(loop->book, refused->job);
        const struct track *track = desk_track(&loop->desk, refused->job);
        if (job != NULL && track != NULL)
            loop_happens(
                loop, job,
                &(struct happening){.event = LIFE_REFUSED,
                                    .wait_s = AGAIN_S,
                                    .stop = {LIVE_CAUSE_BACKEND, FIRN_NO_JOB},
                                    .words = {.why = refused->why}});
    }
    loop->desk.refused.n = 0;
}

/* Jobs that the policy rejected are over. */
static void end_rejected(struct loop *loop)
{
    for (size_t i = 0; i < loop->desk.rejected.n; i++) {
        struct live_job *job =
            book_job(loop->book, loop->desk.rejected.at[i].job);
        struct track *track =
            desk_track(&loop->desk, loop->desk.rejected.at[i].job);
        if (job == NULL || track == NULL)
            continue;
        track->round_id = FIRN_NO_JOB; /* the round has forgotten it */
        loop_happens_why(loop, job, LIFE_REJECTED,
                         loop->desk.rejected.at[i].why);
    }
    loop->desk.rejected.n = 0;
}

static void on_end(void *arg, const struct firn_job *job, const char *how,
                   double now_s, double finished_s)
{
    struct loop *loop = arg;
    (void)now_s;
    (void)finished_s;
    if (strcmp(how, "reject") != 0)
        return;
    struct rejected rejected = {.job = desk_book_id(&loop->desk, job->id)};
    memcpy(rejected.why, job->note, sizeof rejected.why);
    vec_add(&loop->desk.rejected, rejected);
}

static void on_note(void *arg, const struct firn_job *in_round, double now_s)
{
    struct loop *loop = arg;
    struct live_job *job =
        book_job(loop->book, desk_book_id(&loop->desk, in_round->id));
    (void)now_s;
    enum gate_why gated = state_record(in_round)->gated;
    if (job != NULL && in_round->held.nparts == 0)
        book_note(job,
                  gated == GATE_OPEN    ? LIVE_BECAUSE_POLICY
                  : gated == GATE_SHARE ? LIVE_BECAUSE_SHARE
                                        : LIVE_BECAUSE_QUOTA,
                  in_round->note);
}

static void on_step(void *arg, const struct firn_step *step)
{
    struct loop *loop = arg;
    metrics_add(loop->metrics, METRIC_STEPS, (int)step->kind, 1);
    loop_guard_step(loop, step);
}

struct round_watch loop_watch(struct loop *loop)
{
    return (struct round_watch){.arg = loop,
                                .step = on_step,
                                .end = on_end,
                                .note = on_note,
                                .run = loop_think};
}

const char *loop_trouble(const struct loop *loop)
{
    if (store_trouble(loop->store) != NULL)
        return store_trouble(loop->store);
    return dock_trouble(&loop->dock);
}

double loop_decide(struct loop *loop, double now_s)
{
    struct firn_error err = {0};
    double earliest_s = loop->desk.decided_s + 1e-3 * LOOP_ROUND_MS;
    if (!api_resume(loop->api, clock_elapsed_s() + LOOP_SLICE_S))
        return now_s; /* (5) of loop_think.c */
    loop_settle_foreign(loop);
    round_tick(loop->desk.round, now_s);
    if (!round_is_due(loop->desk.round))
        return round_wake_s(loop->desk.round);
    if (loop_trouble(loop) != NULL)
        return now_s + TROUBLE_S;
    if (now_s < earliest_s)
        return earliest_s;
    long steps = round_steps(loop->desk.round);
    double began_s = clock_elapsed_s();
    loop->desk.decided_s = now_s;
    loop->desk.ndecided++;
    loop_ahead_look(loop, now_s);
    enum firn_status status = round_decide(loop->desk.round, now_s, &err);
    loop->desk.last_round_s = clock_elapsed_s() - began_s;
    metrics_add(loop->metrics, METRIC_ROUNDS, 0, 1);
    metrics_observe(loop->metrics, METRIC_ROUND_S, loop->desk.last_round_s);
    if (round_steps(loop->desk.round) > steps)
        metrics_add(loop->metrics, METRIC_DECISIONS, 0, 1);
    end_rejected(loop);
    pin_started(loop);
    loop_keep_bounds(loop);
    take_back(loop);
    loop_guard(loop);
    loop_check_partners(loop);
    loop_thought(loop);
    if (status != FIRN_OK) {
        metrics_add(loop->metrics, METRIC_REFUSED, 0, 1);
        log_warn("round: %s", err.text);
        return now_s + AGAIN_S;
    }
    if (round_is_due(loop->desk.round)) /* something of the above asks again */
        return earliest_s + 1e-3 * LOOP_ROUND_MS;
    return round_wake_s(loop->desk.round);
}

enum firn_status loop_new_round(struct loop *loop,
                                const struct firn_policy_def *policy,
                                struct firn_error *err)
{
    struct round *round = NULL;
    const struct firn_cluster *cluster =
        loop->desk.round != NULL ? &round_state(loop->desk.round)->cluster
                                 : &loop->dock.cluster;
    struct round_config as = {.cluster = cluster,
                              .policy = policy,
                              .settings = loop->desk.settings.at,
                              .nsettings = loop->desk.settings.n,
                              .seed = 1,
                              .engine = &loop->desk.live,
                              .engine_state = loop,
                              .accounts = loop->desk.accounts,
                              .names_takers = true,
                              .watch = loop_watch(loop)};
    FIRN_TRY(round_new(&round, &as, err));
    if (loop->desk.round != NULL) {
        enum firn_status status =
            desk_copy(&loop->desk, round, dock_now_s(&loop->dock), err);
        if (status != FIRN_OK) {
            round_free(round);
            return status;
        }
        round_free(loop->desk.round);
        log_info("policy %s", policy->name);
    }
    loop->desk.round = round;
    loop->desk.policy = policy;
    loop->dock.tunes = policy->tunes;
    return FIRN_OK;
}

/* The last jobs that are out of the round, "round book": a policy may want a
 * job to begin with the weights of one. */
static void save_gone(struct loop *loop)
{
    enum { LAST = 256 };
    struct firn_buf text = {0};
    struct firn_error err = {0};
    size_t n = loop->desk.books.n, nlast = 0;
    for (size_t i = n; i-- > 0 && nlast < LAST;) {
        firn_job_id id = loop->desk.books.at[i];
        const struct track *track = desk_track(&loop->desk, id);
        if (id == FIRN_NO_JOB ||
            (track != NULL && track->round_id == (firn_job_id)i))
            continue;
        buf_printf(&text, "%zu %d\n", i, id);
        nlast++;
    }
    struct firn_bytes bytes = {text.n > 0 ? text.at : "", text.n};
    book_wrote(loop->book, store_put_meta(loop->store, "gone", bytes, &err),
               &err);
    buf_release(&text);
}

/* "policy name", then "book round" lines, an empty line, then its bytes. */
void loop_save_policy(struct loop *loop, bool is_last)
{
    struct firn_buf text = {0};
    struct firn_error err = {0};
    double now_s = dock_now_s(&loop->dock);
    if (!is_last && (now_s < loop->desk.saved_s + SAVE_EVERY_S ||
                     store_room(loop->store) != ROOM_AMPLE))
        return;
    loop->desk.saved_s = now_s;
    buf_printf(&text, "%s %zu\n", loop->desk.policy->name, loop->desk.books.n);
    for (size_t i = 0; i < loop->desk.tracks.n; i++) {
        const struct track *track = loop->desk.tracks.at[i];
        if (track != NULL && track->round_id != FIRN_NO_JOB)
            buf_printf(&text, "%d %d\n", track->id, track->round_id);
    }
    buf_putc(&text, '\n');
    round_save(loop->desk.round, &text);
    enum firn_status status = store_put_meta(
        loop->store, "round", (struct firn_bytes){text.at, text.n}, &err);
    buf_release(&text);
    book_wrote(loop->book, status, &err);
    struct firn_buf pairs = {0};
    liveforecast_save(loop->desk.forecast, &pairs);
    if (pairs.n > 0)
        book_wrote(loop->book,
                   store_put_meta(loop->store, "bad-pairs",
                                  (struct firn_bytes){pairs.at, pairs.n}, &err),
                   &err);
    buf_release(&pairs);
    loop_costs_save(loop);
    struct firn_buf merges = {0};
    livemerge_save(loop->desk.merges, &merges);
    book_wrote(loop->book,
               store_put_meta(loop->store, "merges",
                              (struct firn_bytes){merges.at, merges.n}, &err),
               &err);
    buf_release(&merges);
    save_gone(loop);
}
