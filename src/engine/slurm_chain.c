/* slurm_chain.c - a further allocation that Slurm will end soon.
 *
 * The Slurm job of a pilot says so by a file (shepherd_pilot.c): its time limit
 * is near, or a job of higher priority comes. The attempt then goes on without
 * it, and with the same GPUs again as soon as Slurm gives them, without a stop:
 *
 *     ask       a successor on the same GPUs; it is pending behind this pilot
 *               and has its place in Slurm's queue
 *     leave     a resize takes the workers out of the pilot; it goes back
 *     join      Slurm starts the successor: the usual growth (slurm_resize.c)
 *
 * Between `leave` and `join` the job trains on fewer GPUs with the same bits.
 * Two allocations cannot have one GPU at a time, and which other GPUs the job
 * might have is up to the policy, so the successor's workers do not join before
 * the pilot's have left.
 *
 * The first allocation is not chained: the supervisor, which holds the job's
 * lock, its log and the connections of srun, is its batch step. At the end of
 * that allocation the job writes a checkpoint and goes on in another attempt.
 *
 * Invariants
 *   1. Workers are ordered to leave a pilot once; if that fails, Slurm ends
 *      them, and the attempt goes on from a checkpoint as after any lost pilot.
 *   2. A pilot has one successor: one that is listed already is not asked for
 *      again, by a later firnd neither.
 *
 * Cost: one fstatat() for each pilot with workers whenever the engine looks.
 */
#define _GNU_SOURCE
#include "base/log.h"
#include "engine/holding.h"
#include "engine/slurmwork.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Has Slurm told this pilot that it will end? */
static bool is_told(int folder, const struct slurm_pilot *pilot)
{
    struct stat st;
    char name[ATTEMPT_ENDING];
    attempt_ending_name(pilot->slurm_id, name);
    return fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_same(const struct firn_part *a, const struct firn_part *b)
{
    return a->node == b->node && a->board == b->board && a->gpus == b->gpus;
}

/* A listed pilot on the same GPUs becomes the successor of pilot `i`: (2). */
static bool has_successor(struct slurmjob *job, size_t i)
{
    for (size_t k = 0; k < job->pilots.n; k++)
        if (k != i &&
            is_same(&job->pilots.at[k].part, &job->pilots.at[i].part)) {
            job->pilots.at[k].follows = job->pilots.at[i].number;
            return true;
        }
    return false;
}

static void note_end(struct slurm *slurm, struct slurmjob *job, size_t i)
{
    struct firn_error err = {0};
    int64_t number = job->pilots.at[i].number;
    struct firn_part part = job->pilots.at[i].part;
    log_info("job %d: Slurm will end its allocation %lld soon; its workers "
             "leave it, and another one is asked for",
             job->base.id, (long long)job->pilots.at[i].slurm_id);
    job->pilots.at[i].is_ending = true;
    if (has_successor(job, i))
        return;
    if (slurm_pilot_ask(slurm, job, &part, &err) == FIRN_OK)
        job->pilots.at[job->pilots.n - 1].follows = number;
    else
        log_warn("job %d: %s", job->base.id, err.text);
}

/* What it trains on, without pilots that end. */
static struct firn_alloc rest_of(const struct slurmjob *job)
{
    struct firn_alloc rest = slurm_resized_trains(job);
    for (size_t i = 0; i < job->pilots.n; i++) {
        const struct slurm_pilot *pilot = &job->pilots.at[i];
        if (pilot->state != PILOT_USED || !pilot->is_ending)
            continue;
        for (int k = 0; k < rest.nparts; k++)
            if (rest.parts[k].node == pilot->part.node &&
                rest.parts[k].board == pilot->part.board) {
                rest.parts[k].gpus &= ~pilot->part.gpus;
                rest.ngpus -= __builtin_popcountll(pilot->part.gpus);
            }
    }
    int n = 0;
    for (int k = 0; k < rest.nparts; k++)
        if (rest.parts[k].gpus != 0)
            rest.parts[n++] = rest.parts[k];
    rest.nparts = n;
    return rest;
}

static void leave(struct slurm *slurm, struct slurmjob *job)
{
    struct firn_error err = {0};
    struct firn_alloc rest = rest_of(job);
    const char *why = slurm_resize_obstacle(slurm, job, &rest);
    if (why == NULL && slurm_resize_begin(slurm, job, &rest, &err) != FIRN_OK)
        why = err.text;
    if (why != NULL)
        log_warn("job %d: its workers cannot leave an allocation that Slurm "
                 "will end: %s",
                 job->base.id, why[0] != '\0' ? why : "it takes no resize now");
    holding_release(&rest);
}

void slurm_chain_look(struct slurm *slurm, struct slurmjob *job)
{
    bool is_due = false;
    if (job->pilots.n == 0 || job->after.nparts > 0 || job->own.nparts == 0 ||
        job->base.phase != FIRN_PHASE_RUNNING || job->base.is_planned ||
        job->has_lost_pilot)
        return;
    int folder = attempt_folder(job->base.folder, job->base.attempt, false);
    for (size_t i = 0, n = job->pilots.n; folder >= 0 && i < n; i++) {
        struct slurm_pilot *pilot = &job->pilots.at[i];
        if (pilot->state == PILOT_USED && !pilot->is_ending &&
            pilot->slurm_id > 0 && is_told(folder, pilot))
            note_end(slurm, job, i);
    }
    if (folder >= 0)
        close(folder);
    for (size_t i = 0; i < job->pilots.n; i++) {
        struct slurm_pilot *pilot = &job->pilots.at[i];
        if (pilot->state != PILOT_USED || !pilot->is_ending || pilot->was_left)
            continue;
        pilot->was_left = true; /* (1) */
        is_due = true;
    }
    if (is_due)
        leave(slurm, job);
}
