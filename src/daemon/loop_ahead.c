/* loop_ahead.c - which waiting jobs start next, for an engine that prepares.
 *
 * An engine that can start the processes of a job before its GPUs are free is
 * told which jobs these are, when and where. The answer is that of the real
 * policy on a copy of the real state (dryrun.c), rolled forward to the first
 * few starts of jobs that may be prepared (desk_ahead.c): it holds for every
 * policy, and no policy has to know of it. A forecast that does not come true
 * costs a preparation for nothing.
 *
 * Before each decision and each forecast it is asked which of them have
 * processes already, and for how long (loop_ahead_look): a policy may start
 * these first, since they need less time on their GPUs (firn_costs.saved_s).
 *
 * (1) Nothing is forecast while no waiting job can be prepared.
 * (2) It is forecast again behind a decision or after LATEST_S, and never
 *     before REST times its own cost has passed: at most a fiftieth of the
 *     loop's time goes into it.
 */
#include "base/clock.h"
#include "daemon/dryrunwork.h"
#include <math.h>

static const double REST = 50, REST_LEAST_S = 0.1, LATEST_S = 5, MOST_S = 0.05;
enum { STARTS = 8 };

/* (1) */
static bool has_some(const struct loop *loop)
{
    const struct state *state = round_state(loop->desk.round);
    if (state->nwaiting == 0)
        return false;
    for (const struct state_job *sj = state->first; sj; sj = sj->after) {
        const struct live_job *job =
            sj->job.held.nparts == 0
                ? book_job(loop->book, desk_book_id(&loop->desk, sj->job.id))
                : NULL;
        if (job != NULL && desk_can_ahead(&loop->desk, job))
            return true;
    }
    return false;
}

/* The starts of jobs that can be prepared, in their order. */
static size_t pick(const struct loop *loop, const struct dryrun *dry,
                   struct firn_foreseen out[STARTS])
{
    size_t n = 0;
    for (size_t i = 0; i < dry->starts.n && n < STARTS; i++) {
        const struct dryrun_start *start = &dry->starts.at[i];
        const struct live_job *job =
            book_job(loop->book, desk_book_id(&loop->desk, start->job));
        bool is_alone = start->to.how.merged_with == FIRN_NO_JOB;
        if (job != NULL && is_alone && desk_can_ahead(&loop->desk, job))
            out[n++] = (struct firn_foreseen){job->id, start->in_s, &start->to};
    }
    return n;
}

/* Whom the engine is told of now. */
static void keep_told(struct loop *loop, const struct firn_foreseen *next,
                      size_t n)
{
    struct loop_ahead *ahead = &loop->ahead;
    for (size_t i = 0; i < ahead->told.n; i++) {
        struct track *track = desk_track(&loop->desk, ahead->told.at[i]);
        if (track != NULL)
            track->early_s = 0;
    }
    ahead->told.n = 0;
    for (size_t i = 0; i < n; i++)
        vec_add(&ahead->told, next[i].job);
}

void loop_ahead_look(struct loop *loop, double now_s)
{
    const struct dock *dock = &loop->dock;
    const struct firn_engine_def *engine = dock->engine;
    loop->desk.nprepared =
        engine->prepared_s != NULL && engine->prepares != NULL
            ? engine->prepares(dock->engine_state)
            : 0;
    if (loop->desk.nprepared == 0)
        return;
    for (size_t i = 0; i < loop->ahead.told.n; i++) {
        firn_job_id id = loop->ahead.told.at[i];
        struct track *track = desk_track(&loop->desk, id);
        double age_s = engine->prepared_s(dock->engine_state, id);
        if (track != NULL)
            track->early_s = age_s > 0 ? now_s - age_s : 0;
    }
}

static void foresee(struct loop *loop)
{
    const struct firn_engine_def *engine = loop->dock.engine;
    struct dryrun dry = {.stretch = 1, .most_s = MOST_S, .starts_most = STARTS};
    struct firn_foreseen next[STARTS];
    struct firn_error err = {0};
    size_t n = 0;
    loop_ahead_look(loop, dock_now_s(&loop->dock));
    if (has_some(loop) && dryrun_open_all(&dry, loop, &err) == FIRN_OK) {
        dryrun_roll(&dry);
        n = pick(loop, &dry, next);
    }
    if (n > 0 || loop->ahead.nforeseen > 0)
        engine->foresee(loop->dock.engine_state, next, n);
    keep_told(loop, next, n);
    loop_ahead_look(loop, dock_now_s(&loop->dock));
    loop->ahead.nforeseen = n;
    dryrun_close(&dry);
}

double loop_ahead(struct loop *loop, double now_s)
{
    const struct firn_engine_def *engine = loop->dock.engine;
    struct loop_ahead *ahead = &loop->ahead;
    if (engine->foresee == NULL || engine->ahead_s == NULL ||
        engine->ahead_s(loop->dock.engine_state) <= 0)
        return INFINITY;
    bool is_new = ahead->ndecided != loop->desk.ndecided;
    double due_s = is_new ? ahead->rest_s : fmax(ahead->rest_s, ahead->late_s);
    if (now_s < due_s) /* (2) */
        return due_s;
    double began_s = clock_elapsed_s();
    foresee(loop);
    double cost_s = clock_elapsed_s() - began_s;
    ahead->ndecided = loop->desk.ndecided;
    ahead->rest_s = now_s + fmax(REST * cost_s, REST_LEAST_S);
    ahead->late_s =
        ahead->nforeseen > 0 || has_some(loop) ? now_s + LATEST_S : INFINITY;
    return ahead->late_s;
}
