/* slurm_attempt.c - an attempt in Slurm, from its first sign to its last.
 *
 * What the engine sees, and what follows:
 *
 *     pid file                           it runs
 *     exit file, both locks free         it ended as the file says
 *     exit file, a lock held for a       the shepherd hangs: its Slurm job is
 *       while                            cancelled, and then as above
 *     Slurm says over, locks free        it ended as Slurm says
 *     Slurm does not know it in two      LOST: the controller forgot it, or it
 *       answers; locks free              was never submitted
 *     one of the last two, a lock held   processes outlived their Slurm job:
 *                                        ATTEMPT_KILL and the fence end them
 *     it ran, no exit file, locks free   LOST: its node died and came back, and
 *       for a while, Slurm says RUNNING  Slurm has not noticed; cancelled
 *     Slurm says PENDING, it ran         a crashed controller revived it:
 *                                        cancelled
 *     a file cannot be read              nothing is decided; read again later
 *     the exit file is damaged           as without one, but FAIL: the job may
 *                                        be done, so it is not run again
 *
 * Locks count only while the pid file lies beside them: a job that deletes its
 * files leaves locks that the next look creates anew, and free. Then the engine
 * waits until Slurm says that the job is over.
 *
 * An exit file is enough to free GPUs: it is written when the processes are
 * gone, and Slurm does not give the GPUs to another job before that. Only if
 * the end came from outside the engine, Slurm is asked for the cause (its node,
 * the time limit, or a person), for a bounded time while it answers.
 *
 * An attempt that Slurm or a node took away is LEFT, not FAIL: the job is
 * started again, unless it was cancelled or lost LOSSES_MAX attempts in a row.
 * A job that Slurm refused (a limit, an account) waits and is retried.
 *
 * An attempt of an earlier firnd is read the same way. While its folder, or the
 * cell by which the queue is searched, cannot be read, nothing is decided.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/launchfile.h"
#include "engine/slurmwork.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LOSSES_MAX = 8 };
static const double cancel_every_s = 1;
static const double slow_s = 30;        /* a longer wait is logged */
static const double inbox_again_s = 60; /* a refused job of the inbox */
static const double slurm_says_s = 30;  /* wait for Slurm's account of an end */

/* --- asked to leave ------------------------------------------------------- */

/* scancel, at most once a second. `is_gentle`: only while the job is pending.
 */
static void cancel(struct slurm *slurm, struct slurmjob *job, bool is_gentle)
{
    double now_s = slurm_now_s(slurm);
    if (job->inbox[0] != '\0') {
        slurm_inbox_cancel(slurm, job);
        return;
    }
    if (job->slurm_id == 0 || now_s < job->cancel_s + cancel_every_s)
        return;
    job->cancel_s = now_s;
    slurm_cancel(
        slurm, job->user,
        &(struct slurm_tag){slurm->cell, job->base.id, job->base.attempt},
        job->slurm_id, is_gentle);
    slurm_poll_soon(slurm);
}

static void force(struct slurm *slurm, struct slurmjob *job)
{
    if (!job->base.was_forced)
        log_warn("job %d: attempt %lld did not end in time; firn kills it",
                 job->base.id, (long long)job->base.attempt);
    job->base.was_forced = true;
    slurm_request(job, ATTEMPT_KILL);
    cancel(slurm, job, false);
}

void slurm_leave(struct slurm *slurm, struct slurmjob *job, bool is_loss)
{
    bool is_asked = job->base.is_planned;
    job->base.is_planned = true;
    job->look_s = 0;
    if (!is_asked) {
        job->base.until_s =
            slurm_now_s(slurm) + 2 * job->base.grace_s + slurm->force_s;
        slurm_request(job, job->base.can_checkpoint ? ATTEMPT_CHECKPOINT
                                                    : ATTEMPT_LEAVE);
        cancel(slurm, job, job->inbox[0] == '\0'); /* if it is still pending */
        roster_phase(&slurm->roster, &job->base, FIRN_PHASE_LEAVING);
    }
    if (is_loss && !job->base.was_forced) {
        job->base.was_forced = true; /* its node is lost: no grace */
        job->base.until_s = slurm_now_s(slurm);
        slurm_request(job, ATTEMPT_KILL);
        cancel(slurm, job, false);
    }
}

void slurm_withdraw(struct slurm *slurm, struct slurmjob *job)
{
    if (job->inbox[0] != '\0')
        return;
    if (!job->is_withdrawn)
        log_info("job %d: firn cancels Slurm's job %lld, which is pending: %s",
                 job->base.id, (long long)job->slurm_id,
                 job->gives_back ? job->reason : "foreign jobs use its GPUs");
    job->is_withdrawn = true;
    slurm_request(job, ATTEMPT_KILL);
    cancel(slurm, job, true);
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

static void finish(struct slurm *slurm, struct slurmjob *job,
                   const struct attempt_exit *result, bool has_run)
{
    struct firn_event event = {.job = job->base.id,
                               .attempt = job->base.attempt,
                               .phase = FIRN_PHASE_GONE,
                               .end = result->end,
                               .exit_status = result->status};
    bool was_planned = job->base.is_planned;
    if (job->base.ntries == 0)
        job->nlosses = 0;
    event.kind = kind_of(job, (enum firn_end)result->end, has_run);
    job->nlosses += result->end == FIRN_END_LOST && !job->is_refused;
    bool gives_back = job->gives_back || job->is_refused;
    char why[SLURM_EXCERPT + 32];
    snprintf(why, sizeof why, "Slurm refuses it: %s", job->refusal);
    firn_job_id id = job->base.id;
    slurm_report(slurm, event);
    bool is_refused = job->is_refused && job->base.want.nparts > 0 &&
                      event.kind == FIRN_EVENT_LEFT;
    double wait_s = job->inbox[0] != '\0' ? inbox_again_s : 0;
    if (event.kind != FIRN_EVENT_LEFT)
        slurm_bars_drop(slurm, id);
    slurm_forget_attempt(slurm, job);
    slurm_poll_soon(slurm);
    if (event.kind != FIRN_EVENT_LEFT || job->base.want.nparts == 0 ||
        gives_back) {
        slurm_drop(slurm, job);
        if (is_refused)
            slurm_bar_all(slurm, id, wait_s, why);
        return;
    }
    roster_requeue(&slurm->roster, &job->base, was_planned);
}

/* Slurm has no job of this attempt that could still run. */
static bool is_out(const struct slurm *slurm, const struct slurmjob *job)
{
    if (job->is_seen)
        return slurm_state_is_over(job->state);
    if (job->submit == SUBMIT_UNSURE)
        return job->nmissing >= 2 && slurm_now_s(slurm) >= job->settle_s;
    return job->submit == SUBMIT_DONE && job->nmissing >= 2;
}

/* An earlier firnd that had asked the attempt to leave may have cancelled the
 * Slurm job itself. What this one asks for after Slurm's word counts for
 * nothing. */
static bool is_cancelled_by_others(const struct slurmjob *job)
{
    return job->is_seen && job->state == SLURM_CANCELLED &&
           !job->base.is_planned && !job->is_withdrawn && !job->was_asked;
}

/* The end of an attempt whose time in Slurm was over. */
static struct attempt_exit by_limit(const struct slurmjob *job)
{
    log_warn("job %d: ended by Slurm's time limit%s", job->base.id,
             job->base.can_checkpoint ? "; it starts again" : "");
    if (job->base.can_checkpoint)
        return (struct attempt_exit){job->base.attempt, FIRN_END_LOST, 0};
    return (struct attempt_exit){job->base.attempt, FIRN_END_FAILED,
                                 128 + SIGTERM};
}

/* How the attempt ended by Slurm's account. */
static struct attempt_exit by_slurm(const struct slurmjob *job)
{
    struct attempt_exit result = {.attempt = job->base.attempt,
                                  .end = FIRN_END_LOST};
    if (job->base.was_forced ||
        (job->base.is_planned && job->is_seen &&
         job->state == SLURM_CANCELLED && job->has_pid)) {
        result.end = FIRN_END_KILLED;
        result.status = 128 + SIGKILL;
    } else if (!job->is_seen) {
        return result;
    } else if (job->state == SLURM_MEMORY) {
        result.end = FIRN_END_MEMORY;
        result.status = 128 + SIGKILL;
    } else if (job->state == SLURM_TIMEOUT) {
        result = by_limit(job);
    } else if (is_cancelled_by_others(job)) {
        result.end = FIRN_END_KILLED;
        result.status = 128 + SIGTERM;
    }
    return result;
}

/* The attempt was ended from outside the engine: Slurm may know the cause. Its
 * signals reach the workers, too, so a supervisor may take them for a failure
 * of the job; and a job that Slurm ends may have written a checkpoint, also one
 * that a person cancelled. */
static bool asks_slurm(const struct slurmjob *job,
                       const struct attempt_exit *result)
{
    bool by_signal =
        result->end == FIRN_END_KILLED || result->end == FIRN_END_CHECKPOINT ||
        (result->end == FIRN_END_FAILED &&
         (result->status == 128 + SIGTERM || result->status == 128 + SIGKILL));
    return (by_signal && !job->base.is_planned) || result->end == FIRN_END_LOST;
}

static void correct(const struct slurmjob *job, struct attempt_exit *result)
{
    if (job->has_lost_pilot && result->end != FIRN_END_DONE &&
        result->end != FIRN_END_CHECKPOINT)
        *result = (struct attempt_exit){result->attempt, FIRN_END_LOST, 0};
    if (!asks_slurm(job, result))
        return;
    if (is_cancelled_by_others(job)) {
        *result = (struct attempt_exit){result->attempt, FIRN_END_KILLED,
                                        128 + SIGTERM};
        return;
    }
    if (result->end == FIRN_END_CHECKPOINT)
        return;
    if (job->request == ATTEMPT_KILL &&
        result->end != FIRN_END_FAILED) /* by us, after Slurm lost it */
        *result = (struct attempt_exit){result->attempt, FIRN_END_LOST, 0};
    if (!job->is_seen)
        return;
    if (job->state == SLURM_LOST)
        *result = (struct attempt_exit){result->attempt, FIRN_END_LOST, 0};
    else if (job->state == SLURM_MEMORY)
        result->end = FIRN_END_MEMORY;
    else if (job->state == SLURM_TIMEOUT)
        *result = by_limit(job);
}

/* Both locks are free; false: a lock is held, or cannot be read. */
static bool is_deserted(int above)
{
    int lock = attempt_lock(above);
    int workers = lock >= 0 ? attempt_workers_lock(above, false) : -1;
    if (workers >= 0)
        close(workers);
    if (lock >= 0)
        close(lock);
    return lock >= 0 && workers >= 0;
}

/* The pid and exit files. A file of another attempt is DAMAGED; UNKNOWN is
 * logged. */
struct slurm_files {
    enum attempt_found pid, exit;
    struct attempt_exit result;
};

static enum attempt_found read_files(struct slurmjob *job,
                                     struct slurm_files *out)
{
    struct attempt_pid pid = {0};
    int folder = attempt_folder(job->base.folder, job->base.attempt, false);
    *out = (struct slurm_files){0};
    out->pid = out->exit = folder < 0 ? attempt_missing(errno) : ATTEMPT_ABSENT;
    if (folder >= 0)
        out->pid = attempt_pid_get(folder, &pid);
    if (folder >= 0 && out->pid != ATTEMPT_UNKNOWN)
        out->exit = attempt_exit_get(folder, &out->result);
    int error = errno;
    if (folder >= 0)
        close(folder);
    if (out->pid == ATTEMPT_UNKNOWN || out->exit == ATTEMPT_UNKNOWN) {
        roster_unsure(&job->base, out->pid == ATTEMPT_UNKNOWN ? "pid" : "exit",
                      error);
        return ATTEMPT_UNKNOWN;
    }
    roster_sure(&job->base);
    if (out->pid == ATTEMPT_PRESENT && pid.attempt != job->base.attempt)
        out->pid = ATTEMPT_DAMAGED;
    if (out->exit == ATTEMPT_PRESENT &&
        out->result.attempt != job->base.attempt)
        out->exit = ATTEMPT_DAMAGED;
    job->is_damaged = out->exit == ATTEMPT_DAMAGED;
    return out->exit;
}

static void see_pid(struct slurm *slurm, struct slurmjob *job,
                    const struct slurm_files *files)
{
    if (job->has_pid)
        return;
    job->has_pid = files->pid == ATTEMPT_PRESENT ||
                   files->pid == ATTEMPT_DAMAGED || job->base.has_run;
    if (job->has_pid && job->base.phase == FIRN_PHASE_STARTING)
        roster_phase(&slurm->roster, &job->base, FIRN_PHASE_RUNNING);
}

/* The attempt is out of Slurm without an exit file: fences it off, and reports
 * its end once its locks are free. */
static void settle(struct slurm *slurm, struct slurmjob *job)
{
    struct slurm_files files;
    int above = attempt_above(job->base.folder);
    if (above < 0 && attempt_missing(errno) == ATTEMPT_UNKNOWN) {
        roster_unsure(&job->base, "lock", errno);
        return;
    }
    slurm_request(job, ATTEMPT_KILL);
    bool is_fenced =
        above < 0 ||
        attempt_fence_raise(above, job->base.attempt + 1, NULL) == FIRN_OK;
    bool is_gone = is_fenced && (above < 0 || is_deserted(above));
    if (above >= 0)
        close(above);
    if (!is_gone || read_files(job, &files) == ATTEMPT_UNKNOWN)
        return;
    see_pid(slurm, job, &files);
    if (!job->has_pid && job->is_seen && job->state == SLURM_FAILED)
        log_warn("job %d: its supervisor did not start: check that the nodes "
                 "have '%s' and the state folder",
                 job->base.id, slurm->program);
    struct attempt_exit result = by_slurm(job);
    if (files.exit == ATTEMPT_PRESENT) { /* written meanwhile */
        result = files.result;
        correct(job, &result);
    }
    finish(slurm, job, &result, job->has_pid);
}

/* --- an attempt that an earlier firnd started ----------------------------- */

static bool is_held_node(const struct slurm *slurm, const struct slurmjob *job,
                         const char *name)
{
    for (int i = 0; i < job->base.held.nparts; i++)
        if (strcmp(slurm->names.at[job->base.held.parts[i].node], name) == 0)
            return true;
    return false;
}

/* Are the nodes in the attempt's launch file those of the allocation? Nodes are
 * kept by number, and numbers change when Slurm gets other nodes; the launch
 * file has names. ABSENT: the attempt is on other nodes. */
static enum attempt_found is_on_its_nodes(const struct slurm *slurm,
                                          const struct slurmjob *job,
                                          int folder)
{
    static const char name[] = "FIRN_NODE=";
    struct launchfile launch = {0};
    struct firn_buf text = {0};
    bool is_there = true;
    enum attempt_found found = attempt_get(folder, "launch", &text);
    int error = errno;
    if (found == ATTEMPT_PRESENT &&
        launchfile_read(&launch, (struct firn_bytes){text.at, text.n}, NULL) ==
            FIRN_OK)
        for (size_t i = 0; i < launch.own.n; i++)
            if (strncmp(launch.own.at[i], name, sizeof name - 1) == 0)
                is_there = is_there &&
                           is_held_node(slurm, job,
                                        launch.own.at[i] + sizeof name - 1);
    launchfile_release(&launch);
    buf_release(&text);
    errno = error;
    if (found == ATTEMPT_UNKNOWN)
        return found;
    return is_there ? ATTEMPT_PRESENT : ATTEMPT_ABSENT;
}

/* Reads the last request to an attempt of an earlier firnd, and checks its
 * nodes. `is_unread` stays set while that cannot be read. */
static void read_earlier(struct slurm *slurm, struct slurmjob *job)
{
    struct firn_error err = {0};
    if (slurm_cell(slurm, job->base.folder, &err) != FIRN_OK) {
        if (!job->is_unread)
            log_warn("job %d: %s; firn decides nothing about it until that "
                     "is readable",
                     job->base.id, err.text);
        job->is_unread = true;
        return;
    }
    int folder = attempt_folder(job->base.folder, job->base.attempt, false);
    enum attempt_found found =
        folder < 0 ? attempt_missing(errno)
                   : attempt_request_get(folder, "ask", &job->request);
    job->was_asked = job->request != ATTEMPT_GO;
    if (folder >= 0 && found != ATTEMPT_UNKNOWN) {
        enum attempt_found where = is_on_its_nodes(slurm, job, folder);
        found = where == ATTEMPT_UNKNOWN ? where : found;
        if (where == ATTEMPT_ABSENT) {
            log_warn(
                "job %d runs on other nodes than its allocation says; firn "
                "restarts it",
                job->base.id);
            slurm_request(job, ATTEMPT_KILL);
        }
    }
    job->is_unread = found == ATTEMPT_UNKNOWN;
    if (job->is_unread)
        roster_unsure(&job->base, "ask", errno);
    else if (job->request != ATTEMPT_KILL) /* it is on its nodes */
        slurm_resize_recover(slurm, job);
    if (folder >= 0)
        close(folder);
}

/* --- looking -------------------------------------------------------------- */

/* True: it ended, and the job may be gone. */
static bool see_exit(struct slurm *slurm, struct slurmjob *job,
                     const struct slurm_files *files)
{
    struct attempt_exit result = files->result;
    double now_s = slurm_now_s(slurm);
    if (files->exit != ATTEMPT_PRESENT)
        return false;
    int above = attempt_above(job->base.folder);
    bool is_gone = above >= 0 && is_deserted(above);
    if (above >= 0)
        close(above);
    job->exit_s = is_gone ? 0 : job->exit_s > 0 ? job->exit_s : now_s;
    if (!is_gone && now_s >= job->exit_s + fmax(slurm->force_s, 1)) {
        if (!job->is_withdrawn)
            log_warn(
                "job %d: the supervisor of attempt %lld did not exit after "
                "the attempt ended; firn cancels Slurm's job %lld",
                job->base.id, (long long)job->base.attempt,
                (long long)job->slurm_id);
        job->is_withdrawn = true;
        cancel(slurm, job, false);
    }
    if (!is_gone)
        return false;
    if (asks_slurm(job, &result) && !is_out(slurm, job)) {
        job->base.until_s = isfinite(job->base.until_s) ? job->base.until_s
                                                        : now_s + slurm_says_s;
        if (now_s < job->base.until_s || slurm->away_s > 0)
            return false;
    }
    if (slurm_pilots_are_unclear(slurm, job))
        return false;
    correct(job, &result);
    finish(slurm, job, &result, true);
    return true;
}

/* A job of the inbox: only Slurm knows its state. */
static void look_at_guest(struct slurm *slurm, struct slurmjob *job)
{
    struct attempt_exit result = {.attempt = job->base.attempt};
    if (job->base.is_planned)
        cancel(slurm, job, false);
    if (!job->is_seen)
        return;
    if (job->state == SLURM_RUNNING && job->base.phase == FIRN_PHASE_STARTING)
        roster_phase(&slurm->roster, &job->base, FIRN_PHASE_RUNNING);
    if (!slurm_state_is_over(job->state))
        return;
    if (job->state == SLURM_FAILED)
        result = (struct attempt_exit){job->base.attempt, FIRN_END_FAILED, 1};
    else if (job->state != SLURM_COMPLETED)
        result = by_slurm(job);
    finish(slurm, job, &result, true);
}

static void warn_if_slow(struct slurm *slurm, struct slurmjob *job)
{
    if (job->is_slow || job->base.phase != FIRN_PHASE_STARTING ||
        job->base.began_s <= 0 || /* an earlier firnd's: not known since when */
        slurm_now_s(slurm) < job->base.began_s + slow_s)
        return;
    job->is_slow = true;
    log_warn("job %d: Slurm's job %lld is pending for %.0f s", job->base.id,
             (long long)job->slurm_id, slurm_now_s(slurm) - job->base.began_s);
}

/* True: the attempt ran, its locks are free and it has no exit file, though
 * Slurm says RUNNING, for a while. A shepherd holds the lock until its exit
 * file is written; the wait is for file systems that show files late. */
static bool is_abandoned(struct slurm *slurm, struct slurmjob *job,
                         const struct slurm_files *files)
{
    struct slurm_files after;
    double now_s = slurm_now_s(slurm);
    bool may_be = files->pid == ATTEMPT_PRESENT && job->is_seen &&
                  job->state == SLURM_RUNNING && !(slurm->away_s > 0);
    int above = may_be ? attempt_above(job->base.folder) : -1;
    bool is_empty = above >= 0 && is_deserted(above) &&
                    read_files(job, &after) == ATTEMPT_ABSENT &&
                    after.pid == ATTEMPT_PRESENT;
    if (above >= 0)
        close(above);
    if (!is_empty) {
        job->deserted_s = 0;
    } else if (!(job->deserted_s > 0)) {
        job->deserted_s = now_s;
        slurm_poll_soon(slurm);
    }
    return is_empty && now_s >= job->deserted_s + slurm_settle_s(slurm);
}

void slurm_look(struct slurm *slurm, struct slurmjob *job)
{
    double now_s = slurm_now_s(slurm);
    job->look_s = now_s + (job->base.phase == FIRN_PHASE_RUNNING ? 1 : 0.1);
    if (job->inbox[0] != '\0') {
        look_at_guest(slurm, job);
        return;
    }
    struct slurm_files files;
    if (job->is_unread) {
        read_earlier(slurm, job);
        job->nmissing = 0; /* the queue was not searched for it */
        job->settle_s = now_s + slurm_settle_s(slurm);
    }
    bool is_known = read_files(job, &files) != ATTEMPT_UNKNOWN;
    if (is_known)
        see_pid(slurm, job, &files);
    if (is_known && see_exit(slurm, job, &files))
        return;
    if (job->nrevived >= 2) {
        job->is_withdrawn = true;
        slurm_request(job, ATTEMPT_KILL);
        cancel(slurm, job, false);
    } else if (job->base.phase == FIRN_PHASE_LEAVING &&
               now_s >= job->base.until_s) {
        force(slurm, job);
    } else if ((job->base.phase == FIRN_PHASE_LEAVING ||
                job->request == ATTEMPT_KILL) &&
               job->is_seen && job->state == SLURM_PENDING) {
        cancel(slurm, job, true);
    }
    warn_if_slow(slurm, job);
    if (!is_known || job->is_unread)
        return;
    bool is_alone = is_abandoned(slurm, job, &files);
    if (is_alone) {
        log_warn("job %d: attempt %lld vanished without an exit file, though "
                 "Slurm says RUNNING; firn cancels its Slurm job",
                 job->base.id, (long long)job->base.attempt);
        cancel(slurm, job, false);
    }
    if (is_alone || is_out(slurm, job))
        settle(slurm, job);
}

enum firn_status slurm_take_over(struct slurm *slurm, struct slurmjob *job,
                                 struct firn_error *err)
{
    struct firn_launch launch = {0};
    FIRN_TRY(roster_launch(&job->base, &slurm->host, &launch, err));
    roster_take_over(&job->base, &launch);
    slurm_user_of(slurm, job, &launch);
    job->base.until_s = INFINITY;
    job->submit = SUBMIT_UNSURE;
    job->known_s = slurm_now_s(slurm);
    job->settle_s = job->known_s + slurm_settle_s(slurm);
    if (launch.inbox != NULL && launch.inbox[0] != '\0') {
        FIRN_TRY(slurm_cell(slurm, launch.folder, err));
        str_copy(job->inbox, sizeof job->inbox, launch.inbox);
        slurm_inbox_start(slurm, job);
    } else {
        read_earlier(slurm, job);
        roster_watch(&slurm->roster, &job->base);
    }
    slurm_look(slurm, job);
    return FIRN_OK;
}
