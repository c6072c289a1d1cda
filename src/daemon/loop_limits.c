/* loop_limits.c - time limits of jobs, and jobs that use no GPU.
 *
 * A job with a limit may hold GPUs for that long, over all its attempts. A
 * while before (`warn`, 60 s) its processes get SIGUSR2 if they handle it; at
 * the limit the job is cancelled: SIGTERM, its grace, SIGKILL.
 *
 * A job is idle when its GPUs were seen at 0 % at every look for `idle.after`
 * (else the operator's idle-after) and it has reported no progress meanwhile.
 * It is reported once, as an event; `idle.then` may then take GPUs from it
 * (its fewest are left) or end it. Where the engine measures no GPU nothing is
 * idle: a trainer that reports no progress may be loading data.
 *
 * (1) Each of these happens once an attempt. (2) The times are summed from the
 * attempts on disk, so a restart of firnd does not begin them anew.
 *
 * Cost: O(jobs) every LOOK_S, and at the moment of the next limit.
 */
#include "base/log.h"
#include "core/jobvalue.h"
#include "daemon/loopwork.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double LOOK_S = 10, WARN_S = 60;

static void tell(struct loop *loop, struct live_job *job, double now_s,
                 const char *kind, const char *text)
{
    struct firn_error err = {0};
    book_wrote(loop->book, book_say(loop->book, job, now_s, kind, text, &err),
               &err);
}

static void end_job(struct loop *loop, struct live_job *job, double now_s,
                    const char *why, enum live_cause cause)
{
    struct firn_error err = {0};
    struct live_stop before =
        book_because(loop->book, (struct live_stop){cause, FIRN_NO_JOB});
    enum firn_status status = book_cancel(loop->book, job, now_s, why, &err);
    if (book_wrote(loop->book, status, &err)) {
        log_info("job %d: %s", job->id, why);
        loop_cancelled(loop, job);
    }
    book_because(loop->book, before);
}

/* --- time limits ---------------------------------------------------------- */

static void warn(struct loop *loop, struct live_job *job, struct track *track,
                 double left_s, double now_s)
{
    char text[LIVE_TEXT];
    bool has_signal = loop->dock.engine->warn != NULL &&
                      loop->dock.engine->warn(loop->dock.engine_state, job->id);
    track->warned_attempt = track->open_attempt; /* (1) */
    snprintf(text, sizeof text, "its time limit is reached in %.0f s%s", left_s,
             has_signal ? "; its processes get SIGUSR2" : "");
    tell(loop, job, now_s, "limit-near", text);
}

/* When to look again at this job. */
static double look_at_limit(struct loop *loop, struct live_job *job,
                            struct track *track, double now_s)
{
    double ran_s = book_ran_s(loop->book, job, now_s);
    double left_s = job->ask.limit_s - ran_s;
    double warn_s = job->ask.warn_s > 0 ? job->ask.warn_s : WARN_S;
    char why[LIVE_TEXT];
    if (left_s <= 0) {
        snprintf(why, sizeof why, "its time limit of %.0f s is reached",
                 job->ask.limit_s);
        end_job(loop, job, now_s, why, LIVE_CAUSE_LIMIT);
        return (double)INFINITY;
    }
    if (left_s <= warn_s && track->warned_attempt != track->open_attempt)
        warn(loop, job, track, left_s, now_s);
    return now_s + (left_s > warn_s ? left_s - warn_s : left_s);
}

/* --- idle jobs ------------------------------------------------------------ */

static double idle_after_s(const struct loop *loop, const struct live_job *job)
{
    double after_s = 0;
    if (job->ask.idle_s > 0)
        return job->ask.idle_s;
    if (loop->current->idle_after != NULL)
        value_time_s(loop->current->idle_after, &after_s);
    return after_s;
}

/* Does a GPU of it compute? Unknown is yes. */
static bool computes(const struct loop *loop, const struct live_job *job)
{
    struct firn_load load = {(double)NAN, (double)NAN};
    if (loop->dock.engine->load == NULL ||
        !loop->dock.engine->load(loop->dock.engine_state, job->id, &load))
        return true;
    return !(load.util <= 0);
}

static void shrink(struct loop *loop, struct live_job *job, double now_s)
{
    struct firn_error err = {0};
    int least = job->ask.gpus_min;
    if (!job->ask.is_elastic || job->ask.gpus_max <= least)
        return;
    enum firn_status status =
        book_bounds(loop->book, job, least, least, now_s, &err);
    if (book_wrote(loop->book, status, &err))
        loop_changed(loop, job);
}

static void is_idle(struct loop *loop, struct live_job *job, double idle_s,
                    double now_s)
{
    char text[LIVE_TEXT];
    const char *then = job->ask.idle_then;
    bool ends = strcmp(then, "end") == 0, shrinks = strcmp(then, "shrink") == 0;
    snprintf(text, sizeof text,
             "its GPUs have been at 0 %% for %.0f min, and it reported no "
             "progress%s",
             idle_s / 60,
             ends      ? "; it is ended"
             : shrinks ? "; it keeps its fewest GPUs"
                       : "");
    if (ends) {
        end_job(loop, job, now_s, text, LIVE_CAUSE_IDLE);
        return;
    }
    tell(loop, job, now_s, "idle", text);
    if (shrinks)
        shrink(loop, job, now_s);
}

static void look_at_load(struct loop *loop, struct live_job *job,
                         struct track *track, double now_s)
{
    double after_s = idle_after_s(loop, job);
    if (!(after_s > 0))
        return;
    bool works = computes(loop, job) ||
                 job->last.progress != track->idle_done ||
                 track->idle_attempt != track->open_attempt;
    if (works) {
        track->idle_since_s = now_s;
        track->idle_done = job->last.progress;
        track->idle_attempt = track->open_attempt;
        track->is_idle_told = false;
        return;
    }
    double idle_s = now_s - track->idle_since_s;
    if (idle_s < after_s || track->is_idle_told)
        return;
    track->is_idle_told = true; /* (1) */
    is_idle(loop, job, idle_s, now_s);
}

/* -------------------------------------------------------------------------- */

double loop_limits_look(struct loop *loop, double now_s)
{
    double next_s = now_s + LOOK_S;
    if (now_s < loop->desk.limits_s)
        return loop->desk.limits_s;
    for (size_t i = 0; i < loop->desk.tracks.n; i++) {
        struct track *track = loop->desk.tracks.at[i];
        if (track == NULL || track->open_attempt == 0)
            continue;
        struct live_job *job = book_job(loop->book, track->id);
        if (job == NULL || job->is_ending)
            continue;
        if (job->ask.limit_s > 0)
            next_s = fmin(next_s, look_at_limit(loop, job, track, now_s));
        if (!job->is_ending && !live_state_is_over(job->state))
            look_at_load(loop, job, track, now_s);
    }
    loop->desk.limits_s = fmax(next_s, now_s + 0.05);
    return loop->desk.limits_s;
}
