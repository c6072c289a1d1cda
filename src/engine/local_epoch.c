/* local_epoch.c - an epoch from its first sign to its last.
 *
 * What is there is read from the folder and asked of the kernel, in this order:
 * is the shepherd over; is the lock free; is there an exit file. The lock is
 * looked at before the exit file: a shepherd writes the file before it lets the
 * lock go, so a free lock and no file mean that the file will never come.
 *
 *     lock taken, shepherd lives     it runs (or is about to: no pid file yet)
 *     lock taken, shepherd is gone   strays: they are killed, known by the lock
 *                                    file that they have open, the mark of
 *                                    their environment and the control group
 *     lock free, exit file           it ended so
 *     lock free, no exit file,       it lives and its files were deleted: it is
 *       a shepherd with its mark     taken over by the process
 *     lock free, no exit file,       strays, as above
 *       other marked processes
 *     lock free, no exit file,       LOST: its shepherd was killed, or its
 * files it was seen to run           were deleted or are damaged none of these
 * never started; fenced off for good a file cannot be read          nothing is
 * decided; it is looked at again
 *
 * "Seen to run" is a pid file, also a damaged one, a process with its mark, the
 * phase RUNNING, or the host's word for it. "Never started" is believed only
 * after a look at all processes of the host.
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
#include "engine/herd.h"
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
    job->base.has_run = job->base.is_unsure = false;
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

/* Kills what belongs to the epoch. False: a look over all processes of the host
 * has found none. `above` is the job's folder; -1: it has none. */
static bool kill_marked(const struct local *l, struct localjob *job, int above)
{
    struct stat st = {0};
    char by_lock[EPOCH_HERD] = "", worker[HERD_TEXT], shepherd[HERD_TEXT];
    struct procs_marks marks = {.session = job->pid, .since = job->start};
    if (above >= 0 && fstatat(above, "lock", &st, AT_SYMLINK_NOFOLLOW) == 0) {
        marks.device = st.st_dev;
        marks.inode = st.st_ino;
        epoch_herd(above, job->base.epoch, by_lock);
    }
    herd_worker(worker, l->host.mark, job->base.id, job->base.epoch);
    herd_shepherd(shepherd, l->host.mark, job->base.id, job->base.epoch);
    const char *const all[PROCS_VARIABLES] = {by_lock, worker, shepherd};
    for (int i = 0; i < PROCS_VARIABLES; i++)
        marks.variables[i] = all[i][0] != '\0' ? all[i] : NULL;
    bool is_caged = end_cage(l, job);
    size_t n = procs_kill_marked(&marks, &job->strays);
    bool is_unsure = job->strays.error != 0;
    if (is_unsure)
        roster_unsure(&job->base, "", job->strays.error);
    job->base.has_run = job->base.has_run || n > (size_t)is_unsure;
    return n > 0 || is_caged;
}

/* Its processes as they are known by the mark: whether it has workers, and its
 * shepherd; pid 0: there is none. */
static struct procs_id look_for_mark(const struct local *l,
                                     struct localjob *job, bool *has_workers)
{
    struct herd herd;
    struct procs_id shepherd = {0};
    *has_workers = false;
    if (!herd_look(&herd, l->host.mark))
        roster_unsure(&job->base, "", errno);
    for (size_t i = 0; i < herd.at.n; i++) {
        const struct herd_process *process = &herd.at.at[i];
        if (process->job != job->base.id || process->epoch != job->base.epoch)
            continue;
        if (process->is_shepherd)
            shepherd = process->id;
        else
            *has_workers = true;
    }
    herd_release(&herd);
    return shepherd;
}

static void say_it_runs(struct local *l, struct localjob *job)
{
    log_warn("job %d: attempt %lld runs as process %ld, and its control files "
             "are gone",
             job->base.id, (long long)job->base.epoch, (long)job->pid);
    if (job->base.phase == FIRN_PHASE_STARTING)
        roster_phase(&l->roster, &job->base, FIRN_PHASE_RUNNING);
}

/* Looks for its shepherd, which no file names, by its mark. True: it lives and
 * is watched from now on. */
static bool find_shepherd(struct local *l, struct localjob *job)
{
    bool has_workers = false;
    struct procs_id shepherd = look_for_mark(l, job, &has_workers);
    if (shepherd.pid == 0)
        return false;
    job->pid = shepherd.pid;
    job->start = shepherd.start;
    local_watch_pid(l, job); /* it may be over: see_end() tells */
    if (job->owes_signal)
        send_request(job);
    if (has_workers)
        say_it_runs(l, job);
    return true;
}

/* A look costs, and a process that does not die now may hang for hours: looks
 * are rarer and rarer. */
static bool is_scan_due(const struct local *l, struct localjob *job)
{
    double now_s = local_now_s(l);
    if (now_s < job->scan_s)
        return false;
    double wait_s = fmax(first_scan_s, job->scan_wait_s);
    job->scan_wait_s = fmin(2 * wait_s, longest_scan_s);
    job->scan_s = now_s + wait_s;
    return true;
}

/* Has it processes, or may it have some? They are killed, unless its shepherd
 * is among them, and not known before: that one is taken over. */
static bool has_processes(struct local *l, struct localjob *job, int above)
{
    bool had_some = job->strays.ids.n > 0;
    bool has_some = procs_left(&job->strays) > 0;
    if (had_some && !has_some)
        job->scan_s = 0; /* all that were known have gone */
    if (!is_scan_due(l, job))
        return true;
    if (job->pid == 0 && find_shepherd(l, job))
        return true;
    return kill_marked(l, job, above);
}

/* Everything that belongs to the epoch, and the shepherd. */
static void force(struct local *l, struct localjob *job)
{
    int above = epoch_above(job->base.folder);
    job->base.until_s = local_now_s(l) + 1;
    if (job->pid != 0 && !job->is_over)
        procs_signal(job->pid, job->start, SIGKILL);
    kill_marked(l, job, above);
    if (above >= 0)
        close(above);
}

/* The pid file, which may be of this epoch alone. */
static enum epoch_found read_pid(const struct localjob *job, int folder,
                                 struct epoch_pid *out)
{
    enum epoch_found found = epoch_pid_get(folder, out);
    return found == EPOCH_PRESENT && out->epoch != job->base.epoch
               ? EPOCH_DAMAGED
               : found;
}

/* Its shepherd is the process of the pid file. */
static void take_pid(struct local *l, struct localjob *job,
                     const struct epoch_pid *pid)
{
    uint64_t start = 0;
    job->pid = (pid_t)pid->pid;
    job->start = pid->start;
    local_watch_pid(l, job); /* then looked at: it is no other process */
    enum procs_found found = procs_look(job->pid, &start);
    if (found == PROCS_UNKNOWN)
        roster_unsure(&job->base, "pid", errno);
    job->is_over = found != PROCS_UNKNOWN && start != job->start;
    if (job->is_over || found == PROCS_UNKNOWN)
        local_unwatch_pid(job);
    if (found == PROCS_UNKNOWN)
        job->pid = 0; /* next time */
}

/* A start whose folder is gone: a job that deletes it as the first it does has
 * workers, though its pid file was never seen. */
static void see_workers(struct local *l, struct localjob *job)
{
    bool has_workers = false;
    if (job->pid == 0 || job->is_over ||
        job->base.phase != FIRN_PHASE_STARTING || !is_scan_due(l, job))
        return;
    look_for_mark(l, job, &has_workers);
    if (has_workers)
        say_it_runs(l, job);
}

/* Its shepherd says that it runs. */
static void see_pid(struct local *l, struct localjob *job)
{
    struct epoch_pid pid = {0};
    if (job->pid != 0 && job->base.phase != FIRN_PHASE_STARTING)
        return;
    int folder = epoch_folder(job->base.folder, job->base.epoch, false);
    enum epoch_found found =
        folder >= 0 ? read_pid(job, folder, &pid) : epoch_missing(errno);
    if (found == EPOCH_UNKNOWN)
        roster_unsure(&job->base, "pid", errno);
    bool is_late = local_now_s(l) >= job->base.until_s;
    if (found == EPOCH_ABSENT && (folder < 0 || is_late))
        see_workers(l, job);
    if (folder >= 0)
        close(folder);
    if (found != EPOCH_PRESENT)
        return;
    roster_sure(&job->base);
    if (job->pid == 0)
        take_pid(l, job, &pid);
    if (job->pid == 0)
        return;
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
    uint64_t start = 0;
    enum procs_found found = procs_look(job->pid, &start);
    if (found == PROCS_UNKNOWN)
        return false; /* looked at again soon */
    return found == PROCS_GONE || (job->start != 0 && start != job->start);
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

/* What can be seen of an epoch whose shepherd is over, or not known. */
struct signs {
    int above, lock; /* descriptors; lock -1: taken, -2: none */
    enum epoch_found folder, exit, pid;
    struct epoch_exit how;
};

enum verdict {
    VERDICT_WAIT,   /* something cannot be read */
    VERDICT_TAKEN,  /* processes have its lock */
    VERDICT_ENDED,  /* as its exit file says */
    VERDICT_SEARCH, /* it was started: it is gone when no process is left */
    VERDICT_NEVER   /* nothing of it is there: the same, and it never began */
};

static struct signs look_at(const struct localjob *job)
{
    struct epoch_pid pid;
    struct signs s = {.above = epoch_above(job->base.folder), .lock = -2};
    s.folder = s.above >= 0 ? EPOCH_PRESENT : epoch_missing(errno);
    if (s.above < 0)
        return s;
    s.lock = epoch_lock(s.above);
    if (s.lock == -2)
        s.folder = EPOCH_UNKNOWN;
    if (s.lock < 0)
        return s;
    int folder = epoch_folder(job->base.folder, job->base.epoch, false);
    if (folder < 0) {
        s.exit = s.pid = epoch_missing(errno);
        return s;
    }
    s.pid = read_pid(job, folder, &pid);
    if (s.pid != EPOCH_UNKNOWN)
        s.exit = epoch_exit_get(folder, &s.how);
    if (s.exit == EPOCH_PRESENT && s.how.epoch != job->base.epoch)
        s.exit = EPOCH_DAMAGED;
    int error = errno;
    close(folder);
    errno = error;
    return s;
}

static enum verdict judge(const struct signs *s, bool has_run)
{
    if (s->folder == EPOCH_UNKNOWN || s->pid == EPOCH_UNKNOWN ||
        s->exit == EPOCH_UNKNOWN)
        return VERDICT_WAIT;
    if (s->folder == EPOCH_PRESENT && s->lock == -1)
        return VERDICT_TAKEN;
    if (s->exit == EPOCH_PRESENT)
        return VERDICT_ENDED;
    return has_run || s->pid != EPOCH_ABSENT || s->exit != EPOCH_ABSENT
               ? VERDICT_SEARCH
               : VERDICT_NEVER;
}

static const char *unread(const struct signs *s)
{
    return s->folder == EPOCH_UNKNOWN ? "lock"
           : s->pid == EPOCH_UNKNOWN  ? "pid"
                                      : "exit";
}

/* No process of it is left, and none can start any more. */
static bool is_gone(struct local *l, struct localjob *job,
                    const struct signs *s)
{
    struct firn_error err = {0};
    if (has_processes(l, job, s->above))
        return false;
    if (job->is_over || s->above < 0)
        return true;
    if (epoch_fence_raise(s->above, job->base.epoch + 1, &err) == FIRN_OK)
        return true;
    roster_unsure(&job->base, "fence", errno);
    return false;
}

/* Is it gone, and how? */
static void settle(struct local *l, struct localjob *job)
{
    struct signs s = look_at(job);
    int error = errno;
    enum verdict verdict = judge(&s, job->base.has_run);
    bool is_over = verdict == VERDICT_ENDED;
    if (verdict == VERDICT_TAKEN)
        roster_sure(&job->base);
    if (verdict == VERDICT_WAIT)
        roster_unsure(&job->base, unread(&s), error);
    else if (verdict == VERDICT_TAKEN && job->is_over)
        has_processes(l, job, s.above);
    else if (verdict == VERDICT_TAKEN && is_scan_due(l, job))
        find_shepherd(l, job);
    else if (verdict == VERDICT_SEARCH || verdict == VERDICT_NEVER)
        is_over = is_gone(l, job, &s);
    if (s.lock >= 0)
        close(s.lock);
    if (s.above >= 0)
        close(s.above);
    if (!is_over)
        return;
    roster_sure(&job->base);
    if (s.exit == EPOCH_DAMAGED)
        log_warn("job %d: the file 'exit' of attempt %lld is damaged; how the "
                 "attempt ended is not known",
                 job->base.id, (long long)job->base.epoch);
    bool has_run = verdict != VERDICT_NEVER || job->base.has_run;
    finish(l, job, verdict == VERDICT_ENDED ? &s.how : NULL, has_run);
}

void local_look(struct local *l, struct localjob *job)
{
    see_end(job); /* first: its last files are read after it */
    see_pid(l, job);
    if (job->base.is_unsure && job->base.phase == FIRN_PHASE_STARTING)
        job->base.until_s = local_now_s(l) + start_limit_s; /* not its fault */
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
