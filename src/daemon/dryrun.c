/* dryrun.c - what would happen: the real policy on a copy of the real state.
 *
 * A second round is made with the same policy, options, policy memory and jobs;
 * its engine starts nothing. Time is rolled forward from one expected end to
 * the next: a job that runs ends when the work it has left is done at the rate
 * it reports, or at the rate that is forecast for what the policy gave it. The
 * job in question starts where the policy first gives it GPUs.
 *
 * It is rolled three times, and once before if the engine prepares starts, for
 * their order (dryrun_ahead.c): with what jobs that do not report still need as
 * it is expected, half of it and twice as much. The first is the answer, all
 * three are its range; of MANY jobs once, and half and twice of the answer are
 * it. The range of an end has besides what nine of ten foretold ends were
 * within, a tenth at least (desk_eta_width).
 *
 * An unknown end is reported as unknown: when the answer hangs on the end of a
 * job that has no duration, does not report, and is the first of its kind, then
 * the answer is that, and whose end it is.
 *
 * What it leaves out: jobs that will be submitted meanwhile. Starts, changes of
 * GPUs and shared GPUs cost what was measured of them: dryrun_pace.c.
 *
 * Bound: an event is one simulated end of a job or one wake-up of the policy,
 * with the decision before it. Each future takes DRYRUN_EVENTS_MOST
 * events, MOST_S of processor time and PASSED_MOST_S in all at most; at the
 * first of the three limits it stops, and the answer says which limit it was.
 * The time in all is the longer one, since the machine may be busy and a solver
 * may be waited for. The daemon's jobs and GPUs stay as they are.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/dryrunwork.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MANY = 20000, PLACES_MOST = 500 };
/* Limits of one simulated future: processor time, and time by the clock. */
static const double MOST_S = 0.3, PASSED_MOST_S = 5;

/* --- an engine that does nothing ----------------------------------------- */

static double future_s(const void *future)
{
    return ((const struct dryrun *)future)->now_s;
}

static double now_s(void *state)
{
    return future_s(state);
}

void dryrun_gpus(struct dryrun *dry, const struct firn_alloc *held)
{
    struct firn_buf gpus = {0};
    firn_alloc_print(held, &gpus);
    dock_gpus_text(&dry->loop->dock, gpus.at, &dry->gpus);
    buf_release(&gpus);
}

/* The first start of a job, when all are in question. */
static void note_start(struct dryrun *dry, const struct firn_step *step)
{
    struct dryrun_seen *seen =
        (size_t)step->job->id < dry->nseen ? &dry->seen[step->job->id] : NULL;
    if (seen == NULL || !isnan(seen->start_s) || step->kind == FIRN_STEP_STOP)
        return;
    seen->start_s = dry->now_s - dry->began_s;
    seen->hung = dry->hung;
    if (dry->ngpus_kept >= PLACES_MOST)
        return;
    struct firn_buf gpus = {0};
    firn_alloc_print(step->to, &gpus);
    seen->gpus = gpus.at;
    dry->ngpus_kept++;
}

static enum firn_status apply(void *state, const struct firn_step *step,
                              struct firn_error *err)
{
    struct dryrun *dry = state;
    (void)err;
    dryrun_pace_step(dry, step);
    if (dry->starts.n < dry->starts_most && step->kind == FIRN_STEP_START) {
        struct dryrun_start start = {step->job->id, dry->now_s - dry->began_s,
                                     *step->to};
        size_t n = (size_t)step->to->nparts;
        start.to.parts = mem_new(n + 1, sizeof *start.to.parts);
        memcpy(start.to.parts, step->to->parts, n * sizeof *start.to.parts);
        vec_add(&dry->starts, start);
    }
    if (dry->seen != NULL)
        note_start(dry, step);
    if (step->job->id == dry->job && step->kind != FIRN_STEP_STOP &&
        isnan(dry->start_s)) {
        dry->start_s = dry->now_s - dry->began_s;
        dryrun_gpus(dry, step->to);
    }
    if (step->job->id != dry->job && (step->kind == FIRN_STEP_STOP ||
                                      step->to->ngpus < step->job->held.ngpus))
        dry->nslowed++;
    return FIRN_OK;
}

/* Its jobs have the ids of the real round's. */
static firn_job_id book_id(const struct dryrun *dry, const struct firn_job *job)
{
    return desk_book_id(&dry->loop->desk, job->id);
}

/* A policy counts on the same preparation of starts as the real round's. */
static int ahead_s(void *state)
{
    struct loop *loop = ((const struct dryrun *)state)->loop;
    return loop->desk.live.ahead_s(loop);
}

/* --- the copy ------------------------------------------------------------ */

static enum firn_status open_copy(struct dryrun *dry, struct loop *loop,
                                  struct firn_error *err)
{
    const struct state *state = round_state(loop->desk.round);
    dry->loop = loop;
    dry->began_s = dry->now_s = dock_now_s(&loop->dock);
    dry->start_s = dry->end_s = NAN;
    dry->job = dry->hung = FIRN_NO_JOB;
    dry->def = (struct firn_engine_def){.name = "dry run",
                                        .gives = loop->desk.live.gives,
                                        .forecast = loop->desk.live.forecast,
                                        .now_s = now_s,
                                        .apply = apply,
                                        .ahead_s = ahead_s};
    struct round_config as = {.cluster = &state->cluster,
                              .policy = loop->desk.policy,
                              .settings = loop->desk.settings.at,
                              .nsettings = loop->desk.settings.n,
                              .seed = 1,
                              .engine = &dry->def,
                              .engine_state = dry,
                              .forecaster = loop};
    if (loop->desk.accounts != NULL) {
        accounts_settle(loop->desk.accounts, dry->now_s);
        dry->accounts = accounts_copy(loop->desk.accounts);
    }
    as.accounts = dry->accounts;
    FIRN_TRY(round_new(&dry->round, &as, err));
    dryrun_pace_open(dry);
    loop->desk.future = (struct desk_future){dryrun_ahead_s, future_s, dry};
    FIRN_TRY(desk_copy(&loop->desk, dry->round, dry->now_s, err));
    struct firn_buf memory = {0};
    round_save(loop->desk.round, &memory);
    if (memory.n > 0 &&
        round_load(dry->round, (struct firn_bytes){memory.at, memory.n}, err) !=
            FIRN_OK)
        log_warn("dry run without the policy's memory: %s", err->text);
    buf_release(&memory);
    dryrun_ahead_open(dry);
    return FIRN_OK;
}

void dryrun_close(struct dryrun *dry)
{
    round_free(dry->round);
    accounts_free(dry->accounts);
    dryrun_pace_close(dry);
    dryrun_ahead_close(dry);
    if (dry->loop != NULL)
        dry->loop->desk.future = (struct desk_future){0};
    vec_release(&dry->pinned);
    buf_release(&dry->gpus);
    for (size_t i = 0; i < dry->nseen; i++)
        mem_free(dry->seen[i].gpus);
    mem_free(dry->seen);
    for (size_t i = 0; i < dry->starts.n; i++)
        mem_free(dry->starts.at[i].to.parts);
    vec_release(&dry->starts);
}

/* --- what is still to do -------------------------------------------------- */

/* Before anything is rolled. */
static void expect_all(struct dryrun *dry)
{
    struct loop *loop = dry->loop;
    const struct state *state = round_state(dry->round);
    for (const struct state_job *sj = state->first; sj; sj = sj->after) {
        const struct firn_job *job = &sj->job;
        const struct live_job *live = book_job(loop->book, book_id(dry, job));
        const struct track *track = desk_track(&loop->desk, book_id(dry, job));
        bool runs = job->held.nparts > 0;
        if (live != NULL && track != NULL && runs && !(job->rate > 0)) {
            struct desk_left left = desk_left(&loop->desk, live, track);
            dryrun_pace_silent(dry, job, track, left.left_s);
        } else if (live != NULL && track != NULL && runs) {
            dryrun_pace_heard(dry, job, live, track);
        } else if (!runs && dry->stretch != 1 && job->id != dry->job) {
            round_correct(dry->round, job->id,
                          job->spec.duration_s * dry->stretch, dry->now_s);
        }
    }
    for (size_t i = 0; i < loop->desk.tracks.n; i++) {
        const struct track *track = loop->desk.tracks.at[i];
        if (track == NULL || track->blocked.nparts == 0)
            continue;
        struct desk_left left =
            desk_left(&loop->desk, book_job(loop->book, track->id), track);
        double rest_s = left.left_s * (left.reports ? 1 : dry->stretch);
        struct pinned pinned = {track->id, &track->blocked,
                                dry->now_s + rest_s};
        vec_add(&dry->pinned, pinned);
    }
}

/* Is it known how long the job takes? */
static bool is_known(const struct loop *loop, firn_job_id id)
{
    const struct live_job *job = book_job(loop->book, id);
    const struct track *track = desk_track(&loop->desk, id);
    if (job == NULL || track == NULL)
        return true;
    return desk_left(&loop->desk, job, track).is_known;
}

/* --- rolling forward ----------------------------------------------------- */

/* When the job ends: some time behind its last step, which may be over. */
static double end_of(const struct dryrun *dry, const struct firn_job *job)
{
    double left_s = firn_job_left_s(job, dry->now_s);
    double last_s = dry->now_s + left_s;
    if (left_s <= 0 && job->rate > 0)
        last_s =
            fmin(last_s, job->resumes_s +
                             (job->spec.duration_s - job->done_s) / job->rate);
    return fmax(last_s + dryrun_end_s(dry, job), dry->now_s);
}

/* The job of the round that ends first; or NULL. */
static const struct firn_job *first_end(const struct dryrun *dry, double *at_s)
{
    const struct state *state = round_state(dry->round);
    const struct firn_job *first = NULL;
    *at_s = INFINITY;
    for (const struct state_job *sj = state->first; sj; sj = sj->after) {
        if (sj->job.held.nparts == 0)
            continue;
        double end_s = end_of(dry, &sj->job);
        if (end_s < *at_s) {
            *at_s = end_s;
            first = &sj->job;
        }
    }
    return first;
}

/* The pinned job that ends before `at_s`, by its place; -1: none. */
static int first_pinned(const struct dryrun *dry, double *at_s)
{
    int first = -1;
    for (size_t i = 0; i < dry->pinned.n; i++)
        if (dry->pinned.at[i].end_s < *at_s) {
            *at_s = dry->pinned.at[i].end_s;
            first = (int)i;
        }
    return first;
}

/* Notes a job that ends by a mere guess before the job in question starts. */
static void note_end(struct dryrun *dry, firn_job_id id)
{
    if (isnan(dry->start_s) && dry->hung == FIRN_NO_JOB &&
        !is_known(dry->loop, id))
        dry->hung = id;
}

/* The first end there is, in the round or beside it. False: none, or it was
 * that of the job in question. */
static bool end_one(struct dryrun *dry, struct firn_error *err)
{
    double end_s, wake_s = round_wake_s(dry->round);
    const struct firn_job *ends = first_end(dry, &end_s);
    int pinned = first_pinned(dry, &end_s);
    if (!isfinite(end_s) && !isfinite(wake_s))
        return false;
    wake_s = fmin(wake_s, dryrun_turn_s(dry));
    if (wake_s < end_s) {
        dry->now_s = wake_s > dry->now_s ? wake_s : dry->now_s;
        return true;
    }
    dry->now_s = end_s > dry->now_s ? end_s : dry->now_s;
    if (pinned >= 0) {
        note_end(dry, dry->pinned.at[pinned].id);
        const struct track *track =
            desk_track(&dry->loop->desk, dry->pinned.at[pinned].id);
        round_unblock(dry->round, dry->pinned.at[pinned].blocked);
        if (dry->accounts != NULL && track != NULL &&
            track->outside_member >= 0)
            accounts_hold_outside(dry->accounts, track->outside_member,
                                  -track->blocked.ngpus, dry->now_s);
        dry->pinned.at[pinned] = dry->pinned.at[--dry->pinned.n];
        return true;
    }
    if (ends->id == dry->job) {
        dry->end_s = end_s - dry->began_s;
        return false;
    }
    note_end(dry, book_id(dry, ends));
    if ((size_t)ends->id < dry->nseen)
        dry->seen[ends->id].end_s = end_s - dry->began_s;
    struct firn_event done = {
        .kind = FIRN_EVENT_DONE, .at_s = dry->now_s, .job = ends->id};
    return round_event(dry->round, &done, err) == FIRN_OK;
}

/* A decision, then to the next end or wake-up. */
static bool roll(struct dryrun *dry, struct firn_error *err)
{
    round_tick(dry->round, dry->now_s);
    dryrun_pace_last(dry);
    if (round_is_due(dry->round) &&
        round_decide(dry->round, dry->now_s, err) != FIRN_OK)
        return false;
    dryrun_pace_all(dry);
    dryrun_ahead_fill(dry);
    return end_one(dry, err);
}

void dryrun_roll(struct dryrun *dry)
{
    struct firn_error said = {0};
    double work_s = clock_cpu_s() + (dry->most_s > 0 ? dry->most_s : MOST_S);
    double until_s = clock_elapsed_s() + PASSED_MOST_S;
    int n = 0;
    while (dry->limit == DRYRUN_WITHIN &&
           (dry->starts_most == 0 || dry->starts.n < dry->starts_most) &&
           roll(dry, &said)) {
        n++;
        dry->limit = n >= DRYRUN_EVENTS_MOST        ? DRYRUN_EVENTS
                     : clock_cpu_s() >= work_s      ? DRYRUN_CPU
                     : clock_elapsed_s() >= until_s ? DRYRUN_WALL
                                                    : DRYRUN_WITHIN;
    }
    dry->nevents = n;
}

void dryrun_limit_text(const struct dryrun *dry, struct firn_buf *text)
{
    if (dry->limit == DRYRUN_EVENTS)
        buf_printf(text,
                   "the forecast stopped at its limit of %d simulated "
                   "events",
                   DRYRUN_EVENTS_MOST);
    else if (dry->limit != DRYRUN_WITHIN)
        buf_printf(text,
                   "the forecast stopped at its limit of %g s of %s, after %d "
                   "simulated events",
                   dry->limit == DRYRUN_WALL ? PASSED_MOST_S
                   : dry->most_s > 0         ? dry->most_s
                                             : MOST_S,
                   dry->limit == DRYRUN_CPU ? "processor time" : "time",
                   dry->nevents);
}

/* --- three times ---------------------------------------------------------- */

enum firn_status dryrun_open(struct dryrun *dry, struct loop *loop,
                             const struct question *q, struct firn_error *err)
{
    const struct track *track =
        q->job != NULL ? desk_track(&loop->desk, q->job->id) : NULL;
    const struct firn_job *now =
        track != NULL ? desk_job(&loop->desk, track) : NULL;
    FIRN_TRY(open_copy(dry, loop, err));
    dry->is_known = q->is_known;
    dry->job =
        track != NULL ? track->round_id : (firn_job_id)loop->desk.books.n;
    if (now != NULL && now->held.nparts > 0) {
        dry->rate = now->rate;
        dry->start_s = 0;
        dryrun_gpus(dry, &now->held);
    }
    expect_all(dry);
    if (q->job != NULL)
        return FIRN_OK;
    struct firn_job_spec spec = *q->spec;
    spec.duration_s *= dry->stretch;
    struct firn_event event = {.kind = FIRN_EVENT_SUBMIT,
                               .at_s = dry->now_s,
                               .job = dry->job,
                               .spec = &spec};
    return round_event(dry->round, &event, err);
}

enum firn_status dryrun_open_all(struct dryrun *dry, struct loop *loop,
                                 struct firn_error *err)
{
    const struct state *state;
    FIRN_TRY(open_copy(dry, loop, err));
    dry->nseen = loop->desk.books.n;
    dry->seen = mem_new(dry->nseen + 1, sizeof *dry->seen);
    for (size_t i = 0; i < dry->nseen; i++)
        dry->seen[i] = (struct dryrun_seen){NAN, NAN, FIRN_NO_JOB, NULL};
    state = round_state(dry->round);
    for (const struct state_job *sj = state->first; sj; sj = sj->after)
        if (sj->job.held.nparts > 0 && (size_t)sj->job.id < dry->nseen)
            dry->seen[sj->job.id].start_s = 0;
    expect_all(dry);
    return FIRN_OK;
}

void dryrun_widen(double range[2], double at_s)
{
    if (isnan(at_s))
        return;
    range[0] = isnan(range[0]) ? at_s : fmin(range[0], at_s);
    range[1] = isnan(range[1]) ? at_s : fmax(range[1], at_s);
}

/* Closes `dry` and rolls anew. */
static enum firn_status ask_once(struct dryrun *dry, struct loop *loop,
                                 const struct question *q, double stretch,
                                 struct dryrun_order *order,
                                 struct firn_error *err)
{
    dryrun_close(dry);
    *dry = (struct dryrun){.stretch = stretch};
    dryrun_ahead_expect(dry, order);
    FIRN_TRY(dryrun_open(dry, loop, q, err));
    dryrun_roll(dry);
    dryrun_ahead_keep(dry, order);
    return FIRN_OK;
}

enum firn_status dryrun_ask(struct dryrun *dry, struct loop *loop,
                            const struct question *q, struct range *range,
                            struct firn_error *err)
{
    static const double stretches[] = {0.5, 2, 1};
    const struct state *state = round_state(loop->desk.round);
    bool are_many = state->nwaiting + state->nrunning > MANY;
    enum firn_status status = FIRN_OK;
    struct dryrun_order order = {0};
    int nevents = 0;
    *range = (struct range){{NAN, NAN}, {NAN, NAN}, 0};
    if (!are_many && desk_prepares(&loop->desk) > 0)
        status = ask_once(dry, loop, q, 1, &order, err);
    for (int i = are_many ? 2 : 0; i < 3 && status == FIRN_OK; i++) {
        status = ask_once(dry, loop, q, stretches[i], &order, err);
        nevents += dry->nevents;
        dryrun_widen(range->start, dry->start_s);
        dryrun_widen(range->end, dry->end_s);
    }
    vec_release(&order);
    range->nevents = nevents;
    for (int i = 0; i < 2 && are_many; i++) {
        dryrun_widen(range->start, dry->start_s * stretches[i]);
        dryrun_widen(range->end, dry->end_s * stretches[i]);
    }
    return status;
}
