/* slurm_pending.c - what follows from Slurm's reason why a job is pending.
 *
 *     Priority, Resources
 *         It has a place in Slurm's queue, and keeps it: submitted anew it
 *         would be the last again. It is withdrawn and goes elsewhere only if
 *         it is the next (Resources), foreign jobs use its GPUs, and enough
 *         others have been idle for IDLE_S, so that Slurm has no other job for
 *         them.
 *     ReqNodeNotAvail, May be reserved for other job
 *         Slurm keeps its GPUs for jobs before it: it has a place in the queue
 *         too, and keeps it. It goes elsewhere if enough other GPUs have been
 *         idle for IDLE_S (longer each time), or if a reservation of the site
 *         is the cause, as far as reservations are known (slurm_ahead.c).
 *     ReqNodeNotAvail otherwise, Reserved, BadConstraints, ...
 *         Slurm does not start it on these nodes: it gives its GPUs back, and
 *         the nodes are barred to it for a while.
 *     Assoc..., QOS...
 *         A limit: it gives its GPUs back and may have half of them. A job that
 *         needs more waits. The limits are read again at once
 *         (slurm_ahead.c): if the limit is one of those that firn knows, the
 *         job is submitted again when it has room; else after 2, 4, ... 60 s.
 *     others
 *         Slurm is at work, or a person holds it.
 *
 * A reason counts after the job was pending for a while: at first Slurm says
 * "None" or "Priority" of every job.
 *
 * Cost: O(jobs) for each answer of squeue.
 */
#include "base/log.h"
#include "engine/slurmwork.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double IDLE_S = 3;

/* GPUs that no job uses on nodes that are up and not the job's. */
static int idle_elsewhere(const struct slurm *slurm, const struct slurmjob *job)
{
    int n = 0;
    for (size_t i = 0; i < slurm->hosts.n; i++) {
        const struct slurm_host *host = &slurm->hosts.at[i];
        bool is_own = false;
        for (int k = 0; k < job->base.held.nparts; k++)
            is_own = is_own || job->base.held.parts[k].node == (firn_node_id)i;
        if (!is_own && host->is_up && host->is_there)
            n += host->ngpus - host->nused;
    }
    return n;
}

/* The job gives its GPUs back once its Slurm job is gone. */
static void give_back(struct slurm *slurm, struct slurmjob *job,
                      const char *why)
{
    if (!job->gives_back)
        log_info("job %d: %s; it gives its GPUs back", job->base.id, why);
    job->gives_back = true;
    slurm_withdraw(slurm, job);
}

/* The reason names a number of resources, not of jobs or minutes. */
static bool is_of_size(const char *reason)
{
    static const char *const words[] = {"GRES", "Cpu", "CPU", "Node", "Mem"};
    if (strstr(reason, "Minutes") != NULL || strstr(reason, "Wall") != NULL)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(reason, words[i]) != NULL)
            return true;
    return false;
}

/* Half of the GPUs that a limit refused; 0: the job may not have fewer, since
 * it needs more, or came back with more than its bar allows. */
static int fewer(struct slurm *slurm, const struct slurmjob *job)
{
    struct firn_bars bars;
    struct firn_launch launch = {0};
    int most = job->base.held.ngpus;
    if (slurm->host.launch(slurm->host.arg, job->base.id, &launch) &&
        most / 2 < launch.gpus_min)
        return 0;
    bool was_told = slurm_bars(slurm, job->base.id, &bars) &&
                    bars.gpus_max > 0 && bars.gpus_max < most;
    return is_of_size(job->reason) && !was_told ? most / 2 : 0;
}

/* Its GPUs are used by foreign jobs, or kept for them (`is_kept`), and enough
 * others are idle for good: between two short jobs of others, a GPU is idle
 * until Slurm starts the next. Idle GPUs may be kept for other jobs too, so a
 * job that was moved by that is moved later the next time. */
static bool may_go_elsewhere(struct slurm *slurm, struct slurmjob *job,
                             bool is_kept)
{
    double now_s = slurm_now_s(slurm), for_s = IDLE_S;
    if ((!is_kept && !slurm_is_taken(slurm, &job->base.held)) ||
        idle_elsewhere(slurm, job) < job->base.held.ngpus) {
        job->idle_since_s = 0;
        return false;
    }
    if (job->idle_since_s <= 0)
        job->idle_since_s = now_s;
    if (is_kept)
        for_s = fmax(for_s, slurm_bar_next_s(slurm, job->base.id));
    return now_s - job->idle_since_s >= for_s;
}

/* A reservation of the site is the cause, which Slurm calls by the same words
 * as GPUs that it keeps for a job of higher priority. */
static bool is_booked(struct slurm *slurm, const struct slurmjob *job)
{
    struct slurm_bounds bounds;
    struct firn_launch launch = {0};
    if (!slurm->host.launch(slurm->host.arg, job->base.id, &launch))
        return false;
    slurm->barred.n = 0;
    for (size_t i = 0; i < (slurm->hosts.n + 63) / 64; i++)
        vec_add(&slurm->barred, (uint64_t)0);
    slurm_ahead_bounds(slurm, job->base.id, &launch, &bounds);
    for (int k = 0; k < job->base.held.nparts && bounds.has_nodes; k++) {
        firn_node_id node = job->base.held.parts[k].node;
        if (slurm->barred.at[node / 64] >> node % 64 & 1)
            return true;
    }
    return false;
}

static void look(struct slurm *slurm, struct slurmjob *job, bool is_sure)
{
    char why[SLURM_EXCERPT];
    enum slurm_pending pending = slurm_pending_of(job->reason);
    firn_job_id id = job->base.id;
    if (pending == SLURM_WAITS_BEHIND &&
        (is_booked(slurm, job) ||
         (is_sure && may_go_elsewhere(slurm, job, true))))
        pending = SLURM_WAITS_NODES;
    snprintf(why, sizeof why, "Slurm does not start it: %.64s", job->reason);
    bool is_refused = pending == SLURM_WAITS_NODES ||
                      pending == SLURM_WAITS_LIMIT ||
                      pending == SLURM_WAITS_NEVER;
    bool is_next = !is_refused && is_sure && pending != SLURM_WAITS_PRIORITY &&
                   pending != SLURM_WAITS_BEHIND;
    if (job->gives_back || (is_next && may_go_elsewhere(slurm, job, false))) {
        slurm_withdraw(slurm, job);
    } else if (pending == SLURM_WAITS_NODES) {
        slurm_bar_nodes(slurm, id, &job->base.held, why);
        give_back(slurm, job, why);
    } else if (is_refused) {
        int gpus = pending == SLURM_WAITS_LIMIT ? fewer(slurm, job) : 0;
        if (gpus > 0)
            slurm_bar_gpus(slurm, id, gpus, why);
        else
            slurm_bar_all(slurm, id, 0, why);
        slurm_ahead_soon(slurm);
        give_back(slurm, job, why);
    }
}

void slurm_pending_look(struct slurm *slurm, bool is_sure)
{
    for (size_t i = 0; i < slurm->roster.jobs.n; i++) {
        struct slurmjob *job = slurm_at(slurm, i);
        if (job->inbox[0] == '\0' && slurm_is_waiting(slurm, job))
            look(slurm, job, is_sure);
    }
}
