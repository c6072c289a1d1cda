/* slurm_job.c - the record of one job: find, note what Slurm says, forget.
 *
 * Only the record changes here. The one thing that leaves it is a request to
 * the attempt's shepherd, by the file `ask` (engine/attemptfiles.h).
 */
#define _GNU_SOURCE
#include "base/log.h"
#include "base/str.h"
#include "engine/holding.h"
#include "engine/slurmwork.h"
#include <unistd.h>

struct slurmjob *slurm_find(const struct slurm *slurm, firn_job_id id)
{
    return (struct slurmjob *)roster_find(&slurm->roster, id);
}

void slurm_seen(struct slurm *slurm, struct slurmjob *job, int64_t id,
                enum slurm_state state)
{
    if (job->slurm_id != 0 && job->slurm_id != id)
        log_warn("job %d: the Slurm job of attempt %lld has a new number, %lld",
                 job->base.id, (long long)job->base.attempt, (long long)id);
    if (!job->is_seen || job->state != state)
        job->look_s = 0;
    job->slurm_id = id;
    job->submit = SUBMIT_DONE;
    if (job->inbox[0] == '\0')
        job->refusal[0] = '\0';
    job->is_seen = true;
    job->state = state;
    job->nmissing = 0;
    bool is_revived = state <= SLURM_BOOTING && job->has_pid;
    job->nrevived = is_revived ? job->nrevived + 1 : 0;
    if (slurm->away_s > 0)
        job->look_s = 0;
}

void slurm_request(struct slurmjob *job, enum attempt_request request)
{
    if (request <= job->request || job->inbox[0] != '\0')
        return;
    int folder = attempt_folder(job->base.folder, job->base.attempt, false);
    if (folder < 0)
        return;
    if (attempt_request_put(folder, "ask", request, NULL) == FIRN_OK)
        job->request = request;
    close(folder);
}

void slurm_forget_attempt(struct slurm *slurm, struct slurmjob *job)
{
    roster_unwatch(&slurm->roster, &job->base);
    slurm_return_all(slurm, job);
    if (job->base.held.nparts > 0 && job->submit != SUBMIT_NONE &&
        job->inbox[0] == '\0') {
        struct slurm_release release = {
            .tag = {slurm->cell, job->base.id, job->base.attempt},
            .held = job->base.held,
            .since_s = slurm_now_s(slurm),
            .was_withdrawn = !job->has_pid || job->base.was_forced ||
                             job->is_withdrawn || job->request == ATTEMPT_KILL};
        str_copy(release.user, sizeof release.user, job->user);
        vec_add(&slurm->releases, release); /* which owns `held` now */
        job->base.held = (struct firn_alloc)FIRN_ALLOC_NONE;
    }
    holding_release(&job->base.held);
    mem_free(job->base.folder);
    job->base.folder = NULL;
    job->submit = SUBMIT_NONE;
    job->slurm_id = 0;
    job->inbox[0] = job->user[0] = '\0';
    job->request = ATTEMPT_GO;
    job->was_asked = false;
    job->nmissing = job->nrevived = 0;
    job->known_s = job->settle_s = job->cancel_s = job->deserted_s = 0;
    job->exit_s = 0;
    job->has_pid = job->is_seen = job->is_slow = job->is_withdrawn = false;
    job->gives_back = false;
    job->idle_since_s = 0;
    job->is_refused = job->is_damaged = job->is_unread = false;
    job->reason[0] = '\0';
    job->expected_s = 0;
    job->base.is_planned = job->base.was_forced = false;
    job->base.has_run = job->base.is_unsure = false;
}

void slurm_drop(struct slurm *slurm, struct slurmjob *job)
{
    slurm_forget_attempt(slurm, job);
    roster_drop(&slurm->roster, &job->base);
}
