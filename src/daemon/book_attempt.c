/* book_attempt.c - attempts of a job: their time on GPUs, and late ends.
 *
 * The time is summed from the rows on disk at its first use, and kept in memory
 * until an attempt begins or ends.
 */
#include "daemon/bookwork.h"
#include <firn/launch.h>
#include <math.h>
#include <stdio.h>

/* --- time on GPUs --------------------------------------------------------- */

static bool add_attempt(void *arg, const struct store_attempt *attempt)
{
    struct live_job *job = arg;
    if (attempt->end < 0)
        job->ran_since_s = attempt->started_s;
    else
        job->ran_s += fmax(attempt->ended_s - attempt->started_s, 0);
    return true;
}

double book_ran_s(struct book *book, const struct live_job *job, double now_s)
{
    struct firn_error ignored; /* shown as far as it can be read */
    if (job->attempt == 0)
        return 0;
    if (!job->is_ran_known) {
        struct live_job *cache = (struct live_job *)job;
        cache->ran_s = cache->ran_since_s = 0;
        store_each_attempt(book->store, job->id, add_attempt, cache, &ignored);
        cache->is_ran_known = true;
    }
    bool runs = job->ran_since_s > 0 && !live_state_is_over(job->state);
    return job->ran_s + (runs ? fmax(now_s - job->ran_since_s, 0) : 0);
}

/* --- stops ---------------------------------------------------------------- */

enum firn_status book_stopped(struct book *book, struct live_job *job,
                              const struct live_stop *stop,
                              struct firn_error *err)
{
    FIRN_TRY(book_may_change(book, job, err));
    if (job->attempt == 0 || job->stop.cause != LIVE_CAUSE_NONE)
        return FIRN_OK;
    job->stop = *stop;
    return store_stop_attempt(book->store, job->id, job->attempt, stop, err);
}

enum firn_status book_first_step(struct book *book, struct live_job *job,
                                 double first_step_s, struct firn_error *err)
{
    FIRN_TRY(book_may_change(book, job, err));
    return store_first_step(book->store, job->id, job->attempt, first_step_s,
                            err);
}

/* --- late ends ------------------------------------------------------------ */

enum firn_status book_close_attempts(struct book *book, struct live_job *job,
                                     const struct store_attempt *last,
                                     struct firn_error *err)
{
    static const char *const ends[] = {"done",   "checkpointed",  "failed",
                                       "killed", "out of memory", "lost"};
    char text[128];
    int nclosed = 0;
    struct store_attempt rows = *last;
    rows.job = job->id;
    if (last->end < 0 || last->end > FIRN_END_LOST)
        return firn_fail(err, FIRN_EINVAL, "%d is no end of an attempt",
                         last->end);
    FIRN_TRY(store_close_attempts(book->store, &rows, &nclosed, err));
    if (nclosed == 0)
        return FIRN_OK;
    job->is_ran_known = false;
    snprintf(text, sizeof text, "attempt %lld%s ended: %s, exit status %d",
             (long long)last->number,
             nclosed > 1 ? " and open ones before it" : "", ends[last->end],
             last->exit_status);
    return book_change(book, job, last->ended_s, "ended", text, err);
}

enum firn_status book_close_all(struct book *book, struct live_job *job,
                                enum live_state state, double now_s,
                                struct firn_error *err)
{
    enum firn_end end = state == LIVE_SUCCEEDED   ? FIRN_END_DONE
                        : state == LIVE_CANCELLED ? FIRN_END_KILLED
                        : state == LIVE_FAILED    ? FIRN_END_FAILED
                                                  : FIRN_END_LOST;
    struct store_attempt before = {
        .number = job->attempt - 1, .ended_s = now_s, .end = FIRN_END_LOST};
    struct store_attempt last = {.number = job->attempt,
                                 .ended_s = now_s,
                                 .end = (int)end,
                                 .exit_status = job->exit_status};
    if (job->attempt == 0)
        return FIRN_OK;
    FIRN_TRY(book_close_attempts(book, job, &before, err));
    return book_close_attempts(book, job, &last, err);
}
