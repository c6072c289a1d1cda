/* local_epoch.c - an epoch from its first sign to its last.
 *
 * What is there is read from the folder and asked of the kernel, in this order:
 * is the shepherd over; is the lock free; is there an exit file. The lock is
 * looked at before the exit file: whoever let it go has written the file
 * before, so a free lock and no file mean that nobody will ever write it.
 *
 *     lock taken, shepherd lives     it runs (or is about to: no pid file yet)
 *     lock taken, shepherd is gone   orphans: they are killed by the lock file
 *                                    that they have open
 *     lock free, exit file           it ended so
 *     lock free, no exit, a pid      LOST: its shepherd was killed
 *     lock free, no exit, no pid     never started; fenced off for good
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
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const double start_limit_s = 30;
static const double lived_s = 30; /* longer: no start in vain */

void local_forget_epoch(struct local *l, struct localjob *job)
{
    local_unwatch(l, job);
    mem_free(job->folder);
    mem_free(job->held.parts);
    job->folder = NULL;
    job->held = (struct firn_alloc){0};
    job->pid = 0;
    job->start = 0;
    job->is_over = job->owes_signal = false;
    job->is_planned = job->was_forced = false;
}

static void send_request(struct localjob *job)
{
    job->owes_signal = job->pid == 0;
    if (job->pid != 0 && !job->is_over)
        procs_signal(job->pid, job->start,
                     job->can_checkpoint ? SIGUSR1 : SIGTERM);
}

void local_leave(struct local *l, struct localjob *job)
{
    bool is_asked = job->is_planned;
    job->is_planned = true;
    if (is_asked)
        return;
    job->until_s = local_now_s(l) + 2 * job->grace_s + l->force_s;
    send_request(job);
    local_phase(l, job, FIRN_PHASE_LEAVING);
}

/* Everything that has the job's lock open, and the shepherd. */
static void force(struct local *l, struct localjob *job)
{
    struct stat st;
    int above = open(job->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    job->until_s = local_now_s(l) + 1;
    if (job->pid != 0 && !job->is_over)
        procs_signal(job->pid, job->start, SIGKILL);
    if (above >= 0 && fstatat(above, "lock", &st, 0) == 0)
        procs_kill_holders(st.st_dev, st.st_ino);
    if (above >= 0)
        close(above);
}

/* Its shepherd says that it runs. */
static void see_pid(struct local *l, struct localjob *job)
{
    struct epoch_pid pid;
    if (job->pid != 0 && job->phase != FIRN_PHASE_STARTING)
        return;
    int folder = epoch_folder(job->folder, job->epoch, false);
    bool is_there =
        folder >= 0 && epoch_pid_get(folder, &pid) && pid.epoch == job->epoch;
    if (folder >= 0)
        close(folder);
    if (!is_there)
        return;
    if (job->pid == 0) {
        job->pid = (pid_t)pid.pid;
        job->start = pid.start;
        job->is_over = procs_start(job->pid) != job->start;
        if (!job->is_over)
            local_watch_pid(l, job);
    }
    if (job->owes_signal)
        send_request(job);
    if (job->phase == FIRN_PHASE_STARTING && !job->is_over)
        local_phase(l, job, FIRN_PHASE_RUNNING);
}

static void see_end(struct localjob *job)
{
    int status = 0;
    if (job->pid == 0 || job->is_over)
        return;
    struct pollfd fd = {.fd = job->pidfd, .events = POLLIN};
    job->is_over = job->pidfd >= 0 ? poll(&fd, 1, 0) == 1
                                   : procs_start(job->pid) != job->start;
    if (!job->is_over)
        return;
    if (waitpid(job->pid, &status, WNOHANG) == job->pid && status != 0)
        log_warn("job %d: the shepherd of epoch %lld ended with %d", job->id,
                 (long long)job->epoch,
                 WIFEXITED(status) ? WEXITSTATUS(status)
                                   : 128 + WTERMSIG(status));
    if (job->pidfd >= 0)
        close(job->pidfd);
    job->pidfd = -1;
}

/* What the end means, for what was wanted of the job. */
static enum firn_event_kind kind_of(const struct localjob *job,
                                    enum firn_end end, bool has_run)
{
    bool may_leave = !job->is_cancelled;
    if (end == FIRN_END_DONE)
        return FIRN_EVENT_DONE;
    if (end == FIRN_END_KILLED)
        may_leave = may_leave && job->is_planned;
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
    cage_name(name, job->id, job->epoch, job->pid);
    cage_remove((enum cage_mode)l->cage, name);
}

/* The epoch is gone: GPUs are free, somebody is told, and what is still wanted
 * waits for its start. */
static void finish(struct local *l, struct localjob *job,
                   const struct epoch_exit *how, bool has_run)
{
    struct firn_event event = {
        .job = job->id, .epoch = job->epoch, .phase = FIRN_PHASE_GONE};
    bool was_planned = job->is_planned;
    bool was_short = local_now_s(l) - job->began_s < lived_s;
    event.end = how != NULL       ? how->end
                : job->was_forced ? (int)FIRN_END_KILLED
                                  : (int)FIRN_END_LOST;
    event.exit_status = how != NULL       ? how->status
                        : job->was_forced ? 128 + SIGKILL
                                          : 0;
    event.kind = kind_of(job, (enum firn_end)event.end, has_run);
    if (how == NULL)
        clean_up(l, job);
    local_tell(l, event);
    local_forget_epoch(l, job);
    if (event.kind != FIRN_EVENT_LEFT || job->want.nparts == 0) {
        local_drop(l, job);
        return;
    }
    job->phase = FIRN_PHASE_QUEUED;
    job->again_s = 0;
    if (was_planned || !was_short)
        job->ntries = 0;
    else
        local_again(l, job, "it ended as soon as it was started");
}

/* Is it gone, and how? */
static void settle(struct local *l, struct localjob *job)
{
    struct epoch_exit how = {0};
    int above = open(job->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int lock = above >= 0 ? epoch_lock(above) : -2;
    bool is_nowhere = above < 0 && errno == ENOENT;
    if (lock < 0 && !is_nowhere) {
        if (lock == -1 && job->is_over)
            force(l, job); /* orphans */
        if (above >= 0)
            close(above);
        return;
    }
    int folder = epoch_folder(job->folder, job->epoch, false);
    bool has_exit =
        folder >= 0 && epoch_exit_get(folder, &how) && how.epoch == job->epoch;
    bool has_run = folder >= 0 && faccessat(folder, "pid", F_OK, 0) == 0;
    bool is_fenced = has_exit || job->is_over || is_nowhere ||
                     epoch_fence_raise(above, job->epoch + 1, NULL) == FIRN_OK;
    if (folder >= 0)
        close(folder);
    if (lock >= 0)
        close(lock);
    if (above >= 0)
        close(above);
    if (is_fenced)
        finish(l, job, has_exit ? &how : NULL, has_run);
}

void local_look(struct local *l, struct localjob *job)
{
    see_end(job); /* first: its last files are read after it */
    see_pid(l, job);
    bool is_late = !job->is_over && job->phase != FIRN_PHASE_RUNNING &&
                   local_now_s(l) >= job->until_s;
    if (is_late) {
        if (!job->was_forced)
            log_warn("job %d: epoch %lld does not go; it is killed", job->id,
                     (long long)job->epoch);
        job->was_forced = true;
        force(l, job);
    }
    if (job->is_over || job->pid == 0)
        settle(l, job);
}

enum firn_status local_take_over(struct local *l, struct localjob *job,
                                 struct firn_error *err)
{
    struct firn_launch launch = {0};
    if (l->host.launch == NULL ||
        !l->host.launch(l->host.arg, job->id, &launch))
        return firn_fail(err, FIRN_ENOENT,
                         "job %d is to be taken over, and nobody knows it",
                         job->id);
    holding_copy(&job->held, &job->want);
    job->folder = mem_strdup(launch.folder);
    job->grace_s = launch.grace_s;
    job->can_checkpoint = launch.can_checkpoint;
    job->began_s = 0; /* long ago, for all we know */
    job->phase = FIRN_PHASE_STARTING;
    job->until_s = local_now_s(l) + start_limit_s;
    local_watch_epoch(l, job);
    local_look(l, job);
    return FIRN_OK;
}
