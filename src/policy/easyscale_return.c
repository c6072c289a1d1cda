/* easyscale_return.c - the same GPUs again, within a time-out.
 *
 * EasyScale, SC 2023, 3.4.2: when GPUs are taken back from an elastic job, "the
 * cluster scheduler will try to allocate the same GPUs as preempted ones", and
 * after a time-out the job falls back to the GPUs that it still owns. Until
 * then the job does not train: it would have to be laid out anew, and once
 * more when the GPUs come. The same GPUs are as many of the same types; which
 * ones does not matter to the training.
 *
 * A job that waits is parked: it holds nothing in the plan, and what is left of
 * its GPUs (`has` of its seat, `rest` of its past) is given to no job that
 * could not have taken them from a running one. It comes in its place of the
 * order, so a job with a higher priority gets free GPUs first. One that
 * loses more while it waits goes on with what is left, or back to the queue.
 *
 * Invariants: (1) `rest` of all parked jobs is free in every view, or is cut
 * down to what is: a node may have gone meanwhile; (2) asked twice at one
 * moment, the answer is the same: a wait that is over is forgotten later.
 * Cost: O(types) a parked job.
 */
#include "policy/easyscale.h"
#include <math.h>
#include <string.h>

/* Its bounds allow it the GPUs of its seat and that many more. */
static bool can_have(const struct es_seat *seat, int more)
{
    int gpus = seat->has.gpus + more;
    return gpus >= seat->job->spec.gpus_min && gpus <= seat->job->spec.gpus_max;
}

void es_sit_parked(struct es_round *round, struct es_seat *seat)
{
    const struct es_past *past = seat->past;
    seat->has_waited = past != NULL && past->waits_until_s > 0;
    if (past == NULL || !(past->waits_until_s > 0) ||
        seat->job->held.nparts > 0 ||
        (past->waited_s > 0 && past->waited_s < round->view->now_s))
        return;
    for (int t = 0; t < round->ntypes; t++) {
        int left =
            past->rest[t] < round->free[t] ? past->rest[t] : round->free[t];
        seat->has.counts[t] = left;
        seat->has.gpus += left;
        round->free[t] -= left;
        round->nfree -= left;
    }
    seat->is_parked = seat->has.gpus > 0;
    seat->is_changed = seat->is_parked;
    memcpy(seat->lost, past->lost, sizeof seat->lost);
    if (!can_have(seat, 0)) { /* a node is gone, or it has other bounds */
        const int none[FIRN_TYPES_MAX] = {0};
        es_set(round, seat, none);
        seat->is_parked = false;
    }
}

void es_try_return(struct es_round *round, struct es_seat *seat)
{
    bool is_there = true;
    int nlost = 0;
    for (int t = 0; t < round->ntypes; t++) {
        is_there = is_there && seat->lost[t] <= round->free[t];
        nlost += seat->lost[t];
    }
    is_there = is_there && can_have(seat, nlost);
    if (!is_there && round->view->now_s < seat->past->waits_until_s)
        return;
    for (int t = 0; t < round->ntypes && is_there; t++)
        if (seat->lost[t] > 0)
            es_move(round, seat, t, seat->lost[t]);
    seat->is_parked = false;
}

void es_park(const struct es_round *round, struct es_seat *seat)
{
    const struct firn_job *job = seat->job;
    seat->is_parked = round->es->timeout_s > 0 && seat->has.gpus > 0 &&
                      job->held.nparts > 0 &&
                      job->spec.gpus_min < job->spec.gpus_max;
}

void es_remember_parked(const struct es_round *round,
                        const struct es_seat *seat, struct es_past *past)
{
    bool has_waited = seat->job->held.nparts == 0 && past->waits_until_s > 0;
    double now_s = round->view->now_s;
    if (!seat->is_parked && has_waited && !(past->waited_s > 0)) {
        past->waited_s = now_s; /* asked again now, it still waits: (2) */
    } else if (!seat->is_parked && seat->job->held.nparts > 0) {
        past->waits_until_s = past->waited_s = 0;
    } else if (seat->is_parked && !has_waited) {
        memcpy(past->lost, seat->lost, sizeof past->lost);
        memcpy(past->rest, seat->has.counts, sizeof past->rest);
        past->waits_until_s = now_s + round->es->timeout_s;
        past->waited_s = 0;
    }
}

double es_next_timeout_s(const struct easyscale *es, double now_s)
{
    double first_s = INFINITY;
    for (size_t i = 0; i < es->past.cap; i++) {
        const struct es_past *past = &es->past.at[i];
        if (past->id > 0 && past->waits_until_s > now_s)
            first_s = fmin(first_s, past->waits_until_s);
    }
    return first_s;
}
