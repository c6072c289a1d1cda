/* desk_partner.c - partners in the round: which job shall be trained with
 * which.
 *
 * partner.c has the argument. Ids: the round's and the book's differ; what is
 * kept on disk and told to the engine has the book's.
 */
#include "base/buf.h"
#include "daemon/desk.h"
#include "daemon/partner.h"

enum firn_phase desk_phase(const struct desk *desk, const struct live_job *job)
{
    const struct live_job *lead = partner_lead(desk->book, job);
    return dock_phase(desk->dock, lead != NULL ? lead->id : job->id);
}

struct live_job *partner_wanted(const struct desk *desk,
                                const struct live_job *job)
{
    const struct track *track = desk_track(desk, job->id);
    const struct firn_job *me = track != NULL ? desk_job(desk, track) : NULL;
    if (me == NULL || me->held.nparts == 0 ||
        me->held.how.merged_with == FIRN_NO_JOB)
        return NULL;
    const struct firn_job *them =
        state_job(round_state(desk->round), me->held.how.merged_with);
    if (them == NULL || them->held.nparts == 0 ||
        them->held.how.merged_with != me->id)
        return NULL;
    return book_job(desk->book, desk_book_id(desk, them->id));
}

bool partner_awaited(const struct desk *desk, const struct live_job *job)
{
    const struct live_job *other = partner_wanted(desk, job);
    return other != NULL && other->id < job->id;
}

void partner_words(const struct desk *desk, const struct live_job *job,
                   struct firn_buf *out)
{
    const struct live_job *other = partner_of(desk->book, job);
    buf_clear(out);
    if (other == NULL)
        buf_puts(out, "");
    else if (other->id < job->id)
        buf_printf(out, ", trained by job %d (%s)", other->id, other->ask.name);
    else
        buf_printf(out, ", together with job %d (%s)", other->id,
                   other->ask.name);
}

struct firn_how partner_how(const struct desk *desk, const struct firn_how *how)
{
    struct firn_how out = *how;
    if (how->merged_with != FIRN_NO_JOB)
        out.merged_with = desk_book_id(desk, how->merged_with);
    if (how->after != FIRN_NO_JOB)
        out.after = desk_book_id(desk, how->after);
    return out;
}

void partner_recover(struct desk *desk)
{
    for (size_t i = 0; i < book_count(desk->book); i++) {
        struct live_job *job = book_at(desk->book, i);
        struct live_job *lead = live_state_is_over(job->state)
                                    ? NULL
                                    : partner_lead(desk->book, job);
        if (lead == NULL)
            continue;
        const struct track *a = desk_track(desk, lead->id);
        const struct track *b = desk_track(desk, job->id);
        if (a != NULL && b != NULL && a->round_id != FIRN_NO_JOB &&
            b->round_id != FIRN_NO_JOB) {
            round_merged(desk->round, a->round_id, b->round_id);
            round_merged(desk->round, b->round_id, a->round_id);
        }
        vec_add(&desk->led, job->id);
    }
}
