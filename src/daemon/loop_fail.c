/* loop_fail.c - a job ended without being done: again, or over?
 *
 *     cancelled          CANCELLED; also a job of the inbox, by its own cluster
 *     out of memory      once more with more memory, whatever its retry rules
 *     failed, a signal   again if it says retry: {on: failure}, `max` times
 *     lost               again if it says retry: {on: lost}, `max` times; on a
 *                        cluster always, if it can be started again: nodes
 *                        come and go there, and no job is to blame
 *
 * A retry waits 1 s, then twice as long each time, 5 minutes at most. How much
 * memory the next try asks for: half more than it asked for or was expected to
 * need (by its profile or shape), or what it was seen to use if that is more;
 * and if it had a GPU for itself, more than that GPU has. When no GPU has so
 * much, it has failed. A language model whose memory firn/peak.h predicts gets
 * another plan instead, by a raised prediction (loop_memory.c).
 */
#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/loopwork.h"
#include "engine/joblog.h"
#include <math.h>
#include <stdio.h>

static const double FIRST_WAIT_S = 1, LONGEST_WAIT_S = 300;

/* The smallest memory of what it had; 0: not known. */
static double had_gib(const struct loop *loop, const struct firn_alloc *had)
{
    double least = 0;
    for (int i = 0; i < had->nparts; i++) {
        int type = loop->dock.cluster.nodes[had->parts[i].node].type;
        double gib = loop->dock.cluster.types[type].mem_gib;
        if (gib > 0 && (least <= 0 || gib < least))
            least = gib;
    }
    return least;
}

/* GiB that it was expected to need on each of its GPUs; 0: not known. */
static double expected_gib(const struct loop *loop, const struct live_job *job,
                           const struct track *track)
{
    const struct firn_job *in_round = desk_job(&loop->desk, track);
    struct firn_job as = {.id = job->id, .type_mask = ~(uint32_t)0};
    if (in_round != NULL)
        as = *in_round;
    else
        desk_spec(&loop->desk, job, &as.spec);
    as.held = track->granted;
    if (as.held.nparts == 0)
        return job->ask.mem_gib;
    struct firn_way way = liveforecast_held(loop->desk.forecast, job->id, &as);
    double gib =
        liveforecast_load(loop->desk.forecast, job->id, &as, &way).mem_gib;
    return isnan(gib) ? job->ask.mem_gib : fmax(gib, job->ask.mem_gib);
}

/* What to ask for after running out of memory; 0: there is no more to have. */
static double more_memory(const struct loop *loop, const struct live_job *job,
                          const struct track *track)
{
    double had = had_gib(loop, &track->granted);
    double most = desk_type_gib(&loop->desk, job);
    double need = fmax(1.5 * expected_gib(loop, job, track),
                       liveforecast_memory(loop->desk.forecast, job->id));
    if (had > 0 && !track->granted.is_shared && need <= had)
        need = had * 1.001; /* it did not fit there */
    if (most > 0 && need > most)
        need = track->granted.is_shared ? most : 0;
    return need;
}

/* Seconds before the next try, after `nretries` of them. */
static double wait_of(int nretries)
{
    double wait_s = FIRST_WAIT_S;
    for (int i = 0; i < nretries && wait_s < LONGEST_WAIT_S; i++)
        wait_s *= 2;
    return fmin(wait_s, LONGEST_WAIT_S);
}

/* Was the log no plain file? Then `why` says so. */
static bool is_log_refused(const struct loop *loop, const struct live_job *job,
                           char why[LIVE_TEXT])
{
    struct firn_buf path = {0};
    struct firn_error err = {0};
    dock_job_folder(&loop->dock, job->id, &path);
    buf_puts(&path, "/log");
    bool is_refused = joblog_check(path.at, &err) != FIRN_OK;
    if (is_refused)
        str_copy(why, LIVE_TEXT, err.text);
    buf_release(&path);
    return is_refused;
}

static void judge_memory(struct loop *loop, struct live_job *job,
                         struct happening *what, char why[LIVE_TEXT])
{
    int most = job->ask.retry_on_failure ? job->ask.retries_max : 0;
    char told[LIVE_TEXT] = "";
    enum loop_memory plan = loop_memory_ran_out(loop, job, told);
    const char *colon = told[0] != '\0' ? ": " : "";
    what->event = LIFE_FAILED_MEMORY;
    if (plan == LOOP_MEMORY_REPLAN || plan == LOOP_MEMORY_NO_PLAN) {
        if (plan == LOOP_MEMORY_REPLAN && job->nretries <= most)
            what->facts |= LIFE_IS_MAY_RETRY;
        snprintf(why, LIVE_TEXT, "ran out of memory: %.230s", told);
        return;
    }
    double need = more_memory(loop, job, desk_track(&loop->desk, job->id));
    if (job->nretries > most || need <= 0) {
        snprintf(why, LIVE_TEXT,
                 "ran out of memory%s%s%.90s; ask for larger GPUs (gpu:) or "
                 "use a smaller batch",
                 need > 0 ? " again"
                 : desk_type_is_fixed(&loop->desk, job)
                     ? " on the type of GPUs that it keeps to"
                     : " on the largest GPUs there are",
                 colon, told);
        return;
    }
    what->facts |= LIFE_IS_MAY_RETRY;
    what->mem_gib = need;
    snprintf(why, LIVE_TEXT,
             "ran out of memory%s%.90s; tried once more with %.1f GiB a GPU",
             colon, told, need);
}

void loop_judge_failure(struct loop *loop, struct live_job *job,
                        struct happening *what, char why[LIVE_TEXT])
{
    const struct firn_event *event = what->end;
    int status = event->exit_status;
    bool is_lost = event->end == FIRN_END_LOST;
    what->wait_s = wait_of(job->nretries);
    if (event->end == FIRN_END_KILLED && job->ask.inbox[0] != '\0') {
        what->event = LIFE_FAILED_INBOX;
        return;
    }
    if (event->end == FIRN_END_MEMORY) {
        judge_memory(loop, job, what, why);
        return;
    }
    what->event = is_lost        ? LIFE_FAILED_LOST
                  : status > 128 ? LIFE_FAILED_SIGNAL
                                 : LIFE_FAILED_EXIT;
    if (is_lost)
        snprintf(why, LIVE_TEXT, "its supervisor or host vanished");
    else if (status > 128)
        snprintf(why, LIVE_TEXT, "ended by signal %d", status - 128);
    else if (status != JOBLOG_REFUSED || !is_log_refused(loop, job, why))
        snprintf(why, LIVE_TEXT, "ended with status %d; firn logs %s", status,
                 job->ask.name);
    bool may = is_lost ? job->ask.retry_on_lost : job->ask.retry_on_failure;
    may = may && job->nretries < job->ask.retries_max;
    if (may || (is_lost && loop->dock.engine->is_remote && desk_can_stop(job)))
        what->facts |= LIFE_IS_MAY_RETRY;
}

void loop_wait_on(struct loop *loop, struct live_job *job, double failed_s)
{
    struct track *track = desk_track_make(&loop->desk, job->id);
    double now_s = dock_now_s(&loop->dock), wait_s = wait_of(job->nretries - 1);
    if (job->nretries < 1 || !(failed_s + wait_s > now_s))
        return;
    /* A clock that was put back makes no job wait longer. */
    track->again_s = fmin(failed_s, now_s) + wait_s;
    vec_add(&loop->desk.later, job->id);
}

double loop_retry(struct loop *loop, double now_s)
{
    double next_s = INFINITY;
    size_t n = 0;
    for (size_t i = 0; i < loop->desk.later.n; i++) {
        firn_job_id id = loop->desk.later.at[i];
        struct track *track = desk_track(&loop->desk, id);
        if (track == NULL || track->again_s <= 0)
            continue;
        if (track->again_s > now_s) {
            next_s = fmin(next_s, track->again_s);
            loop->desk.later.at[n++] = id;
            continue;
        }
        track->again_s = 0;
        loop_happens_why(loop, book_job(loop->book, id), LIFE_RETRY_DUE, NULL);
    }
    loop->desk.later.n = n;
    return next_s;
}
