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
 * Here is who the partner is, by the book; desk_partner.c has who it is to be,
 * by the round.
 */
#include "daemon/partner.h"

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
