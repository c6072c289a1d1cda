/* loop_after.c - releases jobs when the jobs that they wait for have ended.
 *
 * The list has the jobs that are held for others (daemon/after.h). It is looked
 * at after new events only. A job that its user released, or that is over,
 * leaves the list.
 *
 * Cost: a look at each job of the list after a turn with events.
 */
#include "daemon/after.h"
#include "daemon/loopwork.h"

void loop_after_add(struct loop *loop, const struct live_job *job)
{
    if (job->is_held && job->ask.waits_for[0] != '\0')
        vec_add(&loop->waiting, job->id);
}

void loop_after_recover(struct loop *loop)
{
    for (size_t i = 0; i < book_count(loop->book); i++) {
        const struct live_job *job = book_at(loop->book, i);
        if (!live_state_is_over(job->state))
            loop_after_add(loop, job);
    }
}

/* True: the job stays in the list. */
static bool look_at(struct loop *loop, firn_job_id id, double now_s)
{
    struct live_job *job = book_job(loop->book, id);
    struct firn_error err = {0};
    char why[LIVE_TEXT];
    if (job == NULL || live_state_is_over(job->state) || !job->is_held ||
        job->is_ending)
        return false;
    switch (after_judge(loop->book, job->ask.waits_for, why)) {
    case AFTER_WAITS:
        return true;
    case AFTER_NEVER:
        book_because(loop->book,
                     (struct live_stop){LIVE_CAUSE_DEPENDENCY, FIRN_NO_JOB});
        if (book_wrote(loop->book,
                       book_cancel(loop->book, job, now_s, why, &err), &err))
            loop_cancelled(loop, job);
        book_because(loop->book,
                     (struct live_stop){LIVE_CAUSE_NONE, FIRN_NO_JOB});
        return false;
    case AFTER_READY:
        break;
    }
    if (book_wrote(loop->book,
                   book_hold_why(loop->book, job, false, now_s,
                                 "released: the jobs that it waited for have "
                                 "ended",
                                 &err),
                   &err))
        loop_changed(loop, job);
    return false;
}

void loop_after_look(struct loop *loop, double now_s)
{
    int64_t last = store_last_event(loop->store);
    if (loop->waiting.n == 0 || last == loop->after_seen)
        return;
    size_t nleft = 0, n = loop->waiting.n;
    loop->after_seen = last;
    for (size_t i = 0; i < n; i++) {
        firn_job_id id = loop->waiting.at[i];
        if (look_at(loop, id, now_s))
            loop->waiting.at[nleft++] = id;
    }
    loop->waiting.n = nleft;
}
