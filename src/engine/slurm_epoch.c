/* slurm_epoch.c - an epoch from its first sign to its last.
 *
 * What is there, and what follows:
 *
 *     pid file                           it runs
 *     exit file, both locks free         it ended so
 *     Slurm has it over, locks free      it ended as Slurm says
 *     Slurm does not know it, twice,     LOST: the controller forgot it, or it
 *       and answers; locks free          was never submitted
 *     one of the latter, a lock taken    processes outlived their Slurm job:
 *                                        the word EPOCH_KILL and the fence end
 *                                        them
 *     it ran, no exit file, locks free   LOST: its node died and came back, and
 *       for a while, Slurm has it        Slurm has not found out; it is
 *       running                          cancelled
 *     Slurm has it waiting, it ran       revived by a crashed controller: it is
 *                                        cancelled
 *     a file cannot be read              nothing is decided: it is looked at
 *                                        again
 *     the exit file is damaged           as without one, but FAIL: it may have
 *                                        done its work, and is not run again
 *
 * Locks are believed only while the pid file lies beside them: a job that
 * deletes its files leaves locks that the next look makes anew, and free. Then
 * Slurm's word that the job is over is waited for.
 *
 * An exit file is enough: GPUs are free when processes are gone, and Slurm
 * itself does not give them to the next job before that. Only when the end says
 * that somebody else ended it, Slurm is asked who (its node, the time limit, or
 * a person), and waited for while it does not answer.
 *
 * What Slurm or a node took away is LEFT, not FAIL: it is started again as it
 * was, unless it was cancelled or that happened many times in a row. What Slurm
 * did not even take (a limit, an account) waits, and is tried now and then.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/holding.h"
#include "engine/slurmwork.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { LOSSES_MAX = 8 };
static const double slow_s = 30;       /* waiting so long is worth a word */
static const double slurm_says_s = 30; /* how long Slurm is waited for */

void slurm_forget_epoch(struct slurm *l, struct slurmjob *job)
{
    roster_unwatch(&l->roster, &job->base);
    if (job->base.held.nparts > 0 && job->submit != SUBMIT_NONE &&
        job->inbox[0] == '\0') {
        struct slurm_rest rest = {
            .tag = {l->cell, job->base.id, job->base.epoch},
            .held = job->base.held,
            .since_s = slurm_now_s(l)};
        vec_add(&l->rests, rest); /* its GPUs with it */
        job->base.held = (struct firn_alloc)FIRN_ALLOC_NONE;
    }
    holding_release(&job->base.held);
    mem_free(job->base.folder);
    job->base.folder = NULL;
    job->submit = SUBMIT_NONE;
    job->slurm_id = 0;
    job->inbox[0] = '\0';
    job->word = EPOCH_GO;
    job->nmissing = job->nrevived = 0;
    job->known_s = job->settle_s = job->cancel_s = job->deserted_s = 0;
    job->has_pid = job->is_seen = job->is_slow = job->is_withdrawn = false;
    job->is_refused = job->is_damaged = job->owes_words = false;
    job->reason[0] = '\0';
    job->base.is_planned = job->base.was_forced = false;
    job->base.has_run = job->base.is_unsure = false;
}

/* --- words to it ---------------------------------------------------------- */

void slurm_say(struct slurmjob *job, enum epoch_word word)
{
    if (word <= job->word || job->inbox[0] != '\0')
        return;
    int folder = epoch_folder(job->base.folder, job->base.epoch, false);
    if (folder < 0)
        return;
    if (epoch_word_put(folder, "ask", word, NULL) == FIRN_OK)
        job->word = word;
    close(folder);
}

static void force(struct slurm *l, struct slurmjob *job)
{
    if (!job->base.was_forced)
        log_warn("job %d: epoch %lld does not go; it is killed", job->base.id,
                 (long long)job->base.epoch);
    job->base.was_forced = true;
    slurm_say(job, EPOCH_KILL);
    slurm_cancel(l, job, false);
}

void slurm_leave(struct slurm *l, struct slurmjob *job, bool is_loss)
{
    bool is_asked = job->base.is_planned;
    job->base.is_planned = true;
    job->look_s = 0;
    if (!is_asked) {
        job->base.until_s = slurm_now_s(l) + 2 * job->base.grace_s + l->force_s;
        slurm_say(job,
                  job->base.can_checkpoint ? EPOCH_CHECKPOINT : EPOCH_LEAVE);
        slurm_cancel(l, job, job->inbox[0] == '\0'); /* if it waits yet */
        roster_phase(&l->roster, &job->base, FIRN_PHASE_LEAVING);
    }
    if (is_loss && !job->base.was_forced) {
        job->base.was_forced = true; /* the rest of it is of no use */
        job->base.until_s = slurm_now_s(l);
        slurm_say(job, EPOCH_KILL);
        slurm_cancel(l, job, false);
    }
}

void slurm_withdraw(struct slurm *l, struct slurmjob *job)
{
    if (job->inbox[0] != '\0')
        return;
    if (!job->is_withdrawn)
        log_info("job %d: others have its GPUs; Slurm's job %lld is withdrawn",
                 job->base.id, (long long)job->slurm_id);
    job->is_withdrawn = true;
    slurm_say(job, EPOCH_KILL);
    slurm_cancel(l, job, true);
}

/* --- its end -------------------------------------------------------------- */

static enum firn_event_kind kind_of(const struct slurmjob *job,
                                    enum firn_end end, bool has_run)
{
    if (end == FIRN_END_DONE)
        return FIRN_EVENT_DONE;
    bool may_leave = end == FIRN_END_CHECKPOINT || !has_run;
    if (end == FIRN_END_KILLED)
        may_leave = job->base.is_planned;
    if (end == FIRN_END_LOST)
        may_leave =
            job->is_refused || (job->nlosses < LOSSES_MAX && !job->is_damaged);
    return may_leave && !job->base.is_cancelled ? FIRN_EVENT_LEFT
                                                : FIRN_EVENT_FAIL;
}

static void finish(struct slurm *l, struct slurmjob *job,
                   const struct epoch_exit *how, bool has_run)
{
    struct firn_event event = {.job = job->base.id,
                               .epoch = job->base.epoch,
                               .phase = FIRN_PHASE_GONE,
                               .end = how->end,
                               .exit_status = how->status};
    bool was_planned = job->base.is_planned;
    if (job->base.ntries == 0)
        job->nlosses = 0;
    event.kind = kind_of(job, (enum firn_end)how->end, has_run);
    job->nlosses += how->end == FIRN_END_LOST && !job->is_refused;
    slurm_tell(l, event);
    slurm_forget_epoch(l, job);
    slurm_poll_soon(l);
    if (event.kind != FIRN_EVENT_LEFT || job->base.want.nparts == 0) {
        slurm_drop(l, job);
        return;
    }
    roster_requeue(&l->roster, &job->base, was_planned);
}

double slurm_settle_s(const struct slurm *l)
{
    return 6 * l->poll_s;
}

/* Slurm has nothing of it that could still run. */
static bool is_out(const struct slurm *l, const struct slurmjob *job)
{
    if (job->is_seen)
        return slurm_state_is_over(job->state);
    if (job->submit == SUBMIT_UNSURE)
        return job->nmissing >= 2 && slurm_now_s(l) >= job->settle_s;
    return job->submit == SUBMIT_DONE && job->nmissing >= 2;
}

static bool is_cancelled_by_others(const struct slurmjob *job)
{
    return job->is_seen && job->state == SLURM_CANCELLED &&
           !job->base.is_planned && !job->is_withdrawn;
}

/* How it ended by Slurm's account, when there is no better one. */
static struct epoch_exit by_slurm(const struct slurmjob *job)
{
    struct epoch_exit how = {.epoch = job->base.epoch, .end = FIRN_END_LOST};
    if (job->base.was_forced ||
        (job->base.is_planned && job->is_seen &&
         job->state == SLURM_CANCELLED && job->has_pid)) {
        how.end = FIRN_END_KILLED;
        how.status = 128 + SIGKILL;
    } else if (!job->is_seen) {
        return how;
    } else if (job->state == SLURM_MEMORY) {
        how.end = FIRN_END_MEMORY;
        how.status = 128 + SIGKILL;
    } else if (job->state == SLURM_TIMEOUT) {
        how.end = FIRN_END_FAILED;
        how.status = 128 + SIGTERM;
    } else if (is_cancelled_by_others(job)) {
        how.end = FIRN_END_KILLED;
        how.status = 128 + SIGTERM;
    }
    return how;
}

/* An end that somebody else brought about: who was it? */
static bool asks_slurm(const struct slurmjob *job, const struct epoch_exit *how)
{
    return (how->end == FIRN_END_KILLED && !job->base.is_planned) ||
           how->end == FIRN_END_LOST;
}

static void correct(const struct slurmjob *job, struct epoch_exit *how)
{
    if (!asks_slurm(job, how))
        return;
    if (is_cancelled_by_others(job)) {
        *how = (struct epoch_exit){how->epoch, FIRN_END_KILLED, 128 + SIGTERM};
        return;
    }
    if (job->word == EPOCH_KILL) /* by us, since Slurm had lost it */
        *how = (struct epoch_exit){how->epoch, FIRN_END_LOST, 0};
    if (!job->is_seen)
        return;
    if (job->state == SLURM_LOST)
        *how = (struct epoch_exit){how->epoch, FIRN_END_LOST, 0};
    else if (job->state == SLURM_MEMORY)
        how->end = FIRN_END_MEMORY;
    else if (job->state == SLURM_TIMEOUT)
        how->end = FIRN_END_FAILED;
    if (job->state == SLURM_TIMEOUT)
        log_warn("job %d: Slurm's time limit ended it", job->base.id);
}

/* Both locks; false: somebody is there, or the file system is not. */
static bool is_deserted(int above)
{
    int lock = epoch_lock(above);
    int workers = lock >= 0 ? epoch_workers_lock(above, false) : -1;
    if (workers >= 0)
        close(workers);
    if (lock >= 0)
        close(lock);
    return lock >= 0 && workers >= 0;
}

/* Its pid and exit files, as they are now; a pid or an exit of another epoch is
 * damaged. UNKNOWN is said. */
struct slurm_files {
    enum epoch_found pid, exit;
    struct epoch_exit how;
};

static enum epoch_found read_files(struct slurmjob *job,
                                   struct slurm_files *out)
{
    struct epoch_pid pid = {0};
    int folder = epoch_folder(job->base.folder, job->base.epoch, false);
    *out = (struct slurm_files){0};
    out->pid = out->exit = folder < 0 ? epoch_missing(errno) : EPOCH_ABSENT;
    if (folder >= 0)
        out->pid = epoch_pid_get(folder, &pid);
    if (folder >= 0 && out->pid != EPOCH_UNKNOWN)
        out->exit = epoch_exit_get(folder, &out->how);
    int error = errno;
    if (folder >= 0)
        close(folder);
    if (out->pid == EPOCH_UNKNOWN || out->exit == EPOCH_UNKNOWN) {
        roster_unsure(&job->base, out->pid == EPOCH_UNKNOWN ? "pid" : "exit",
                      error);
        return EPOCH_UNKNOWN;
    }
    roster_sure(&job->base);
    if (out->pid == EPOCH_PRESENT && pid.epoch != job->base.epoch)
        out->pid = EPOCH_DAMAGED;
    if (out->exit == EPOCH_PRESENT && out->how.epoch != job->base.epoch)
        out->exit = EPOCH_DAMAGED;
    job->is_damaged = out->exit == EPOCH_DAMAGED;
    return out->exit;
}

static void see_pid(struct slurm *l, struct slurmjob *job,
                    const struct slurm_files *files)
{
    if (job->has_pid)
        return;
    job->has_pid = files->pid == EPOCH_PRESENT || files->pid == EPOCH_DAMAGED ||
                   job->base.has_run;
    if (job->has_pid && job->base.phase == FIRN_PHASE_STARTING)
        roster_phase(&l->roster, &job->base, FIRN_PHASE_RUNNING);
}

/* It is out of Slurm and has no exit. Nothing of it may ever start. */
static void settle(struct slurm *l, struct slurmjob *job)
{
    struct slurm_files files;
    int above = epoch_above(job->base.folder);
    if (above < 0 && epoch_missing(errno) == EPOCH_UNKNOWN) {
        roster_unsure(&job->base, "lock", errno);
        return;
    }
    slurm_say(job, EPOCH_KILL);
    bool is_fenced = above < 0 || epoch_fence_raise(above, job->base.epoch + 1,
                                                    NULL) == FIRN_OK;
    bool is_gone = is_fenced && (above < 0 || is_deserted(above));
    if (above >= 0)
        close(above);
    if (!is_gone || read_files(job, &files) == EPOCH_UNKNOWN)
        return;
    see_pid(l, job, &files);
    if (!job->has_pid && job->is_seen && job->state == SLURM_FAILED)
        log_warn("job %d: its shepherd did not start; is '%s' there on the "
                 "nodes, and the state folder?",
                 job->base.id, l->program);
    struct epoch_exit how = by_slurm(job);
    if (files.exit == EPOCH_PRESENT) { /* written while we looked */
        how = files.how;
        correct(job, &how);
    }
    finish(l, job, &how, job->has_pid);
}

/* --- looking -------------------------------------------------------------- */

/* True: it ended, and the job may be gone. */
static bool see_exit(struct slurm *l, struct slurmjob *job,
                     const struct slurm_files *files)
{
    struct epoch_exit how = files->how;
    if (files->exit != EPOCH_PRESENT)
        return false;
    int above = epoch_above(job->base.folder);
    bool is_gone = above >= 0 && is_deserted(above);
    if (above >= 0)
        close(above);
    if (!is_gone)
        return false;
    if (asks_slurm(job, &how) && !is_out(l, job)) {
        double now_s = slurm_now_s(l);
        job->base.until_s = isfinite(job->base.until_s) ? job->base.until_s
                                                        : now_s + slurm_says_s;
        if (now_s < job->base.until_s || l->away_s > 0)
            return false;
    }
    correct(job, &how);
    finish(l, job, &how, true);
    return true;
}

/* A job of Slurm's own users: Slurm's word is all there is. */
static void look_at_guest(struct slurm *l, struct slurmjob *job)
{
    struct epoch_exit how = {.epoch = job->base.epoch};
    if (job->base.is_planned)
        slurm_cancel(l, job, false);
    if (!job->is_seen)
        return;
    if (job->state == SLURM_RUNNING && job->base.phase == FIRN_PHASE_STARTING)
        roster_phase(&l->roster, &job->base, FIRN_PHASE_RUNNING);
    if (!slurm_state_is_over(job->state))
        return;
    if (job->state == SLURM_FAILED)
        how = (struct epoch_exit){job->base.epoch, FIRN_END_FAILED, 1};
    else if (job->state != SLURM_COMPLETED)
        how = by_slurm(job);
    finish(l, job, &how, true);
}

static void warn_if_slow(struct slurm *l, struct slurmjob *job)
{
    if (job->is_slow || job->base.phase != FIRN_PHASE_STARTING ||
        slurm_now_s(l) < job->base.began_s + slow_s)
        return;
    job->is_slow = true;
    log_warn("job %d: Slurm's job %lld waits since %.0f s", job->base.id,
             (long long)job->slurm_id, slurm_now_s(l) - job->base.began_s);
}

/* The locks are taken while anything of it is there, and its exit is written
 * before they are let go. Slurm is given the time to say that it is over: on
 * some file systems an exit is seen late. */
static bool is_abandoned(struct slurm *l, struct slurmjob *job,
                         const struct slurm_files *files)
{
    struct slurm_files after;
    double now_s = slurm_now_s(l);
    bool may_be = files->pid == EPOCH_PRESENT && job->is_seen &&
                  job->state == SLURM_RUNNING && !(l->away_s > 0);
    int above = may_be ? epoch_above(job->base.folder) : -1;
    bool is_empty = above >= 0 && is_deserted(above) &&
                    read_files(job, &after) == EPOCH_ABSENT &&
                    after.pid == EPOCH_PRESENT;
    if (above >= 0)
        close(above);
    if (!is_empty) {
        job->deserted_s = 0;
    } else if (!(job->deserted_s > 0)) {
        job->deserted_s = now_s;
        slurm_poll_soon(l);
    }
    return is_empty && now_s >= job->deserted_s + slurm_settle_s(l);
}

void slurm_look(struct slurm *l, struct slurmjob *job)
{
    double now_s = slurm_now_s(l);
    job->look_s = now_s + (job->base.phase == FIRN_PHASE_RUNNING ? 1 : 0.1);
    if (job->inbox[0] != '\0') {
        look_at_guest(l, job);
        return;
    }
    struct slurm_files files;
    if (job->owes_words) {
        slurm_take_words(l, job);
        job->nmissing = 0; /* without the cell it could not be found */
        job->settle_s = now_s + slurm_settle_s(l);
    }
    bool is_known = read_files(job, &files) != EPOCH_UNKNOWN;
    if (is_known)
        see_pid(l, job, &files);
    if (is_known && see_exit(l, job, &files))
        return;
    if (job->nrevived >= 2) {
        job->is_withdrawn = true;
        slurm_say(job, EPOCH_KILL);
        slurm_cancel(l, job, false);
    } else if (job->base.phase == FIRN_PHASE_LEAVING &&
               now_s >= job->base.until_s) {
        force(l, job);
    } else if ((job->base.phase == FIRN_PHASE_LEAVING ||
                job->word == EPOCH_KILL) &&
               job->is_seen && job->state == SLURM_PENDING) {
        slurm_cancel(l, job, true);
    }
    warn_if_slow(l, job);
    if (!is_known || job->owes_words)
        return;
    bool is_alone = is_abandoned(l, job, &files);
    if (is_alone) {
        log_warn("job %d: epoch %lld is gone without a word, though Slurm has "
                 "it running",
                 job->base.id, (long long)job->base.epoch);
        slurm_cancel(l, job, false);
    }
    if (is_alone || is_out(l, job))
        settle(l, job);
}
