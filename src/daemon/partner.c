/* partner.c - two jobs that are trained by one set of processes.
 *
 * A policy may merge two fine-tuning jobs: both hold the same GPUs and name
 * each other. One set of processes trains both: that of the lead, the job with
 * the lower id. The engine knows of the lead alone, whose launch names the
 * partner; the partner has attempts with numbers of its own all the same,
 * opened and ended with the lead's, so that its reports and its history are
 * like any other job's. What happens to the two are events of life.h.
 *
 *     wanted   by the round: both hold GPUs and name each other there
 *     trained  by the book: live_job.how.merged_with of the present attempt,
 *              on disk with the numbers of both
 *
 * What is wanted comes true when the lead starts. What is wanted no more ends
 * with the lead's attempt: the lead is asked to write its checkpoints, one for
 * each job, and both go on alone from their own.
 *
 * (1) The attempts of both are on disk in one commit, and end in one. (2) The
 * partner has no processes of its own: none is started while the lead trains
 * it, and the lead trains it only when the engine has nothing of it. (3) When
 * the training is done, the partner is done if its last report says so; else it
 * goes on alone. A trainer that does not know of partners thus harms neither
 * job; one that reports for the lead alone is found out after ten minutes, and
 * the two are parted. (4) A training of two that fails counts as a failure of
 * neither: no retry is charged, both go on alone and are not merged again until
 * firnd is started again.
 *
 * Here is who the partner is. Cost: O(1), but for partner_recover().
 */
#include "base/buf.h"
#include "daemon/loopwork.h"

struct live_job *partner_of(struct book *book, const struct live_job *job)
{
    struct live_job *other = job->how.merged_with != FIRN_NO_JOB
                                 ? book_job(book, job->how.merged_with)
                                 : NULL;
    return other != NULL && other->how.merged_with == job->id ? other : NULL;
}

struct live_job *partner_lead(struct book *book, const struct live_job *job)
{
    struct live_job *other = partner_of(book, job);
    return other != NULL && other->id < job->id ? other : NULL;
}

struct live_job *partner_wanted(const struct loop *loop,
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

bool partner_awaited(const struct loop *loop, const struct live_job *job)
{
    const struct live_job *other = partner_wanted(loop, job);
    return other != NULL && other->id < job->id;
}

void partner_words(const struct loop *loop, const struct live_job *job,
                   struct firn_buf *out)
{
    const struct live_job *other = partner_of(loop->book, job);
    buf_clear(out);
    if (other == NULL)
        buf_puts(out, "");
    else if (other->id < job->id)
        buf_printf(out, ", trained by job %d (%s)", other->id, other->ask.name);
    else
        buf_printf(out, ", together with job %d (%s)", other->id,
                   other->ask.name);
}

struct firn_how partner_how(const struct loop *loop, const struct firn_how *how)
{
    struct firn_how out = *how;
    if (how->merged_with != FIRN_NO_JOB)
        out.merged_with = loop_book_id(loop, how->merged_with);
    if (how->after != FIRN_NO_JOB)
        out.after = loop_book_id(loop, how->after);
    return out;
}

void partner_relink(struct loop *loop, firn_job_id round_id)
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

void partner_recover(struct loop *loop)
{
    for (size_t i = 0; i < book_count(loop->book); i++) {
        struct live_job *job = book_at(loop->book, i);
        struct live_job *lead = live_state_is_over(job->state)
                                    ? NULL
                                    : partner_lead(loop->book, job);
        if (lead == NULL)
            continue;
        const struct track *a = loop_track(loop, lead->id);
        const struct track *b = loop_track(loop, job->id);
        if (a != NULL && b != NULL && a->round_id != FIRN_NO_JOB &&
            b->round_id != FIRN_NO_JOB) {
            round_merged(loop->round, a->round_id, b->round_id);
            round_merged(loop->round, b->round_id, a->round_id);
        }
        vec_add(&loop->riders, job->id);
    }
}
