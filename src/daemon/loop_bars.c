/* loop_bars.c - what the cluster's own scheduler does not let a job have.
 *
 * An engine on another scheduler (Slurm) learns that a job would not be started
 * on some nodes, with more than some number of GPUs, or anywhere at present,
 * and says so by FIRN_EVENT_BARS. Then:
 *
 *     nowhere for a while   the job leaves the round, waits that long with the
 *                           engine's words, and comes back: it blocks no job
 *                           behind it
 *     some nodes            they are barred to it in the round
 *     a number of GPUs      the round gives it no more than these
 *
 * The engine is asked, too, before a job enters the round: the decision behind
 * that would give it GPUs that it cannot use.
 *
 * A job keeps GPUs that it has: a bar only matters for a start, a move or a
 * resize.
 *
 * Cost: a question to the engine for each job that the event is about.
 */
#include "daemon/loopwork.h"
#include <math.h>
#include <string.h>

/* The job, if it has no attempt and may get one. */
static struct live_job *waiting(struct loop *loop, firn_job_id id)
{
    struct live_job *job = book_job(loop->book, id);
    return job == NULL || live_state_is_over(job->state) || job->is_ending ||
                   dock_phase(&loop->dock, id) != FIRN_PHASE_GONE
               ? NULL
               : job;
}

/* True: it cannot start anywhere for a while, and is not in the round. */
static bool leaves(struct loop *loop, struct live_job *job,
                   const struct track *track, const struct firn_bars *bars)
{
    double now_s = dock_now_s(&loop->dock), wait_s = bars->until_s - now_s;
    if (!(wait_s > 0) || track->again_s >= bars->until_s)
        return false;
    if (track->again_s > now_s && job->reason == LIVE_BECAUSE_ENGINE &&
        strcmp(job->why, bars->why) == 0)
        return true; /* it waits for the same already */
    loop_happens(loop, job,
                 &(struct happening){.event = LIFE_REFUSED,
                                     .wait_s = wait_s,
                                     .words = {.why = bars->why}});
    return true;
}

void loop_bars_left(struct loop *loop, firn_job_id id)
{
    struct firn_bars bars;
    const struct track *track = desk_track(&loop->desk, id);
    struct live_job *job = waiting(loop, id);
    if (job != NULL && track != NULL && dock_bars(&loop->dock, id, &bars))
        leaves(loop, job, track, &bars);
}

bool loop_bars_keep_out(struct loop *loop, struct live_job *job)
{
    struct firn_bars bars;
    const struct track *track = desk_track(&loop->desk, job->id);
    return dock_bars(&loop->dock, job->id, &bars) &&
           leaves(loop, job, track, &bars);
}

static void look(struct loop *loop, const struct track *track)
{
    struct firn_bars bars;
    struct live_job *job = waiting(loop, track->id);
    double now_s = dock_now_s(&loop->dock);
    if (job == NULL)
        return;
    bool is_barred = dock_bars(&loop->dock, job->id, &bars);
    if (is_barred && leaves(loop, job, track, &bars))
        return;
    if (!(is_barred && bars.until_s > now_s) && track->again_s > now_s &&
        job->reason ==
            LIVE_BECAUSE_ENGINE) { /* its bar ended before its time */
        desk_track(&loop->desk, job->id)->again_s = 0;
        loop_happens_why(loop, job, LIFE_RETRY_DUE, NULL);
        return;
    }
    if (desk_job(&loop->desk, track) == NULL)
        return;
    round_bar(loop->desk.round, track->round_id, is_barred ? bars.nodes : NULL);
    loop_happens_why(loop, job, LIFE_CHANGED, NULL);
}

void loop_bars_event(struct loop *loop, firn_job_id id)
{
    for (size_t i = 0; i < loop->desk.tracks.n; i++) {
        const struct track *track = loop->desk.tracks.at[i];
        if (track != NULL && (id == FIRN_NO_JOB || track->id == id))
            look(loop, track);
    }
}
