/* local_epoch.c - an epoch from its first sign to its last.
 *
 * What is there is read from the folder and asked of the kernel, in this order:
 * is the shepherd over; is the lock free; is there an exit file. The lock is
 * looked at before the exit file: whoever let it go has written the file
 * before, so a free lock and no file mean that nobody will ever write it.
 *
 *     lock taken, shepherd lives     it runs (or is about to: no pid file yet)
 *     lock taken, shepherd is gone   strays: they are killed, known by the lock
 *                                    file that they have open, a variable of
 *                                    their environment and the control group
 *     lock free, exit file           it ended so
 *     lock free, no exit, a pid      LOST: its shepherd was killed; first all
 *                                    strays are waited for
 *     lock free, no exit, no pid     never started; fenced off for good
 *
 * One that has no pid after half a minute is killed, and counts as never
 * started.
 *
 * A free lock alone does not free GPUs where no shepherd has waited for its
 * processes: the kernel closes a dying process's files one after the other, the
 * lock before the GPU, and a program that closes what it inherits (Python's
 * subprocess does) never had the lock.
 */
#define _GNU_SOURCE
#include "base/log.h"
#include "engine/cage.h"
#include "engine/epochfiles.h"
#include "engine/holding.h"
#include "engine/localwork.h"
#include "engine/procs.h"
#include "engine/shepherd.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const double start_limit_s = 30;
static const double first_scan_s = 0.05, longest_scan_s = 10;

void local_forget_epoch(struct local *l, struct localjob *job)
{
    local_unwatch(l, job);
    mem_free(job->base.folder);
    holding_release(&job->base.held);
    job->base.folder = NULL;
    job->pid = 0;
    job->start = 0;
    job->is_over = job->owes_signal = false;
    vec_release(&job->strays.ids);
    job->scan_s = job->scan_wait_s = 0;
    job->base.is_planned = job->base.was_forced = false;
}

static void send_request(struct localjob *job)
{
    job->owes_signal = job->pid == 0;
    if (job->pid != 0 && !job->is_over)
        procs_signal(job->pid, job->start,
                     job->base.can_checkpoint ? SIGUSR1 : SIGTERM);
}

void local_leave(struct local *l, struct localjob *job)
{
    bool is_asked = job->base.is_planned;
    job->base.is_planned = true;
    if (is_asked)
        return;
    job->base.until_s = local_now_s(l) + 2 * job->base.grace_s + l->force_s;
    send_request(job);
    roster_phase(&l->roster, &job->base, FIRN_PHASE_LEAVING);
}

static bool end_cage(const struct local *l, const struct localjob *job)
{
    char name[CAGE_NAME];
    if (job->pid == 0)
        return false;
    cage_name(name, job->base.id, job->base.epoch, job->pid);
    return cage_end((enum cage_mode)l->cage, name);
}

/* Kills what belongs to the epoch without a shepherd. False: a look over all
 * processes of the host has found nobody. `above` is the job's folder. */
static bool kill_strays(const struct local *l, struct localjob *job, int above)
{
    struct stat st;
    char herd[EPOCH_HERD];
    if (fstatat(above, "lock", &st, 0) != 0)
        return false;
    epoch_herd(above, job->base.epoch, herd);
    bool is_caged = end_cage(l, job);
    const struct procs_marks marks = {st.st_dev, st.st_ino, job->pid, herd,
                                      job->start};
    return procs_kill_marked(&marks, &job->strays) > 0 || is_caged;
}

/* The same, but a look costs, and who does not die now may hang for hours: it
 * is rarer and rarer while nothing has changed. */
static bool has_strays(const struct local *l, struct localjob *job, int above)
{
    double now_s = local_now_s(l);
    bool had_some = job->strays.ids.n > 0;
    bool has_some = procs_left(&job->strays) > 0;
    if (now_s < job->scan_s && (has_some || !had_some))
        return true;
    double wait_s = fmax(first_scan_s, job->scan_wait_s);
    job->scan_wait_s = fmin(2 * wait_s, longest_scan_s);
    job->scan_s = now_s + wait_s;
    return kill_strays(l, job, above);
}

/* Everything that belongs to the epoch, and the shepherd. */
static void force(struct local *l, struct localjob *job)
{
    int above = open(job->base.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    job->base.until_s = local_now_s(l) + 1;
    if (job->pid != 0 && !job->is_over)
        procs_signal(job->pid, job->start, SIGKILL);
    if (above >= 0) {
        kill_strays(l, job, above);
        close(above);
    }
}

/* Its shepherd says that it runs. */
static void see_pid(struct local *l, struct localjob *job)
{
    struct epoch_pid pid;
    if (job->pid != 0 && job->base.phase != FIRN_PHASE_STARTING)
        return;
    int folder = epoch_folder(job->base.folder, job->base.epoch, false);
    bool is_there = folder >= 0 && epoch_pid_get(folder, &pid) &&
                    pid.epoch == job->base.epoch;
    if (folder >= 0)
        close(folder);
    if (!is_there)
        return;
    if (job->pid == 0) {
        job->pid = (pid_t)pid.pid;
        job->start = pid.start;
        local_watch_pid(l, job); /* then looked at: it is nobody else's */
        job->is_over = procs_start(job->pid) != job->start;
        if (job->is_over)
            local_unwatch_pid(job);
    }
    if (job->owes_signal)
        send_request(job);
    if (job->base.phase == FIRN_PHASE_STARTING && !job->is_over)
        roster_phase(&l->roster, &job->base, FIRN_PHASE_RUNNING);
}

/* Is the shepherd over? One that was when it was first looked at has no start.
 */
static bool is_ended(const struct localjob *job)
{
    struct pollfd fd = {.fd = job->pidfd, .events = POLLIN};
    if (job->pidfd >= 0)
        return poll(&fd, 1, 0) == 1;
    uint64_t start = procs_start(job->pid);
    return start == 0 || (job->start != 0 && start != job->start);
}

static void see_end(struct localjob *job)
{
    int status = 0;
    if (job->pid == 0 || job->is_over)
        return;
    job->is_over = is_ended(job);
    if (!job->is_over)
        return;
    if (waitpid(job->pid, &status, WNOHANG) == job->pid && status != 0)
        log_warn("job %d: the shepherd of epoch %lld ended with %d",
                 job->base.id, (long long)job->base.epoch,
                 WIFEXITED(status) ? WEXITSTATUS(status)
                                   : 128 + WTERMSIG(status));
    local_unwatch_pid(job);
}

/* What the end means, for what was wanted of the job. */
static enum firn_event_kind kind_of(const struct localjob *job,
                                    enum firn_end end, bool has_run)
{
    bool may_leave = !job->base.is_cancelled;
    if (end == FIRN_END_DONE)
        return FIRN_EVENT_DONE;
    if (end == FIRN_END_KILLED)
        may_leave = may_leave && job->base.is_planned;
    else if (end != FIRN_END_CHECKPOINT && has_run)
        may_leave = false;
    return may_leave ? FIRN_EVENT_LEFT : FIRN_EVENT_FAIL;
}

/* A shepherd that was killed has not cleaned up. */
static void clean_up(const struct local *l, const struct localjob *job)
{
    char name[CAGE_NAME];
    if (job->pid == 0)
        return;
    cage_name(name, job->base.id, job->base.epoch, job->pid);
    cage_remove((enum cage_mode)l->cage, name);
}

/* The epoch is gone: GPUs are free, somebody is told, and what is still wanted
 * waits for its start. */
static void finish(struct local *l, struct localjob *job,
                   const struct epoch_exit *how, bool has_run)
{
    struct firn_event event = {.job = job->base.id,
                               .epoch = job->base.epoch,
                               .phase = FIRN_PHASE_GONE};
    bool was_planned = job->base.is_planned;
    bool was_killed = job->base.was_forced && was_planned;
    /* A start that took too long is no fault of the job's, also when it came
     * to run in the very moment that it was killed. */
    bool was_late = job->base.was_forced && !was_planned && how == NULL;
    event.end = how != NULL  ? how->end
                : was_killed ? (int)FIRN_END_KILLED
                             : (int)FIRN_END_LOST;
    event.exit_status = how != NULL  ? how->status
                        : was_killed ? 128 + SIGKILL
                                     : 0;
    event.kind = kind_of(job, (enum firn_end)event.end, has_run && !was_late);
    if (how == NULL)
        clean_up(l, job);
    roster_tell(&l->roster, event);
    local_forget_epoch(l, job);
    if (event.kind != FIRN_EVENT_LEFT || job->base.want.nparts == 0) {
        local_drop(l, job);
        return;
    }
    roster_requeue(&l->roster, &job->base, was_planned);
}

/* Is it gone, and how? */
static void settle(struct local *l, struct localjob *job)
{
    struct epoch_exit how = {0};
    int above = open(job->base.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int lock = above >= 0 ? epoch_lock(above) : -2;
    bool is_nowhere = above < 0 && errno == ENOENT;
    if (lock < 0 && !is_nowhere) {
        if (lock == -1 && job->is_over)
            has_strays(l, job, above);
        if (above >= 0)
            close(above);
        return;
    }
    int folder = epoch_folder(job->base.folder, job->base.epoch, false);
    bool has_exit = folder >= 0 && epoch_exit_get(folder, &how) &&
                    how.epoch == job->base.epoch;
    bool has_run = folder >= 0 && faccessat(folder, "pid", F_OK, 0) == 0;
    bool is_alone = has_exit || !has_run || !has_strays(l, job, above);
    bool is_fenced =
        has_exit || job->is_over || is_nowhere ||
        epoch_fence_raise(above, job->base.epoch + 1, NULL) == FIRN_OK;
    if (folder >= 0)
        close(folder);
    if (lock >= 0)
        close(lock);
    if (above >= 0)
        close(above);
    if (is_fenced && is_alone)
        finish(l, job, has_exit ? &how : NULL, has_run);
}

void local_look(struct local *l, struct localjob *job)
{
    see_end(job); /* first: its last files are read after it */
    see_pid(l, job);
    bool is_late = !job->is_over && job->base.phase != FIRN_PHASE_RUNNING &&
                   local_now_s(l) >= job->base.until_s;
    if (is_late) {
        if (!job->base.was_forced)
            log_warn("job %d: epoch %lld does not go; it is killed",
                     job->base.id, (long long)job->base.epoch);
        job->base.was_forced = true;
        force(l, job);
    }
    if (job->is_over || job->pid == 0)
        settle(l, job);
}

enum firn_status local_take_over(struct local *l, struct localjob *job,
                                 struct firn_error *err)
{
    struct firn_launch launch = {0};
    FIRN_TRY(roster_launch(&job->base, &l->host, &launch, err));
    roster_take_over(&job->base, &launch);
    job->base.until_s = local_now_s(l) + start_limit_s;
    roster_watch(&l->roster, &job->base);
    local_look(l, job);
    return FIRN_OK;
}
