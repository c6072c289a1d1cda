/* local_attempt.c - an attempt on this host, from its first sign to its last.
 *
 * Its state is read from its folder and from the kernel, in this order: has the
 * shepherd ended; is the lock free; is there an exit file. The lock comes
 * before the exit file: a shepherd writes the file before it frees the lock, so
 * a free lock without a file means that the file will never come.
 *
 *     lock held, shepherd lives      it runs, or is about to (no pid file yet)
 *     lock held, shepherd is gone    orphans, known by the lock file that they
 *                                    have open, the mark in their environment
 *                                    and the control group: they are killed
 *     lock free, exit file           it ended as the file says
 *     lock free, no exit file,
 *         a shepherd has its mark    it lives and its files were deleted: its
 *                                    process is watched instead
 *         other processes have it    orphans, as above
 *         it was seen to run         LOST: its shepherd was killed, or
 *                                    its files were deleted or damaged
 *         none of these              it never started; the fence keeps it out
 *     a file cannot be read          nothing is decided; read again later
 *     exit file, shepherd lives      after `force-s` the shepherd is killed;
 *                                    after twice that the file alone decides
 *
 * "Seen to run" means a pid file (also a damaged one), a process with its mark,
 * the phase RUNNING, or that the host says so. "It never started" is believed
 * only after all processes of the host were searched.
 *
 * An attempt without a pid file after half a minute is killed and counts as
 * never started.
 *
 * A free lock alone does not free GPUs if no shepherd has waited for the
 * processes: the kernel closes a dying process's files one after the other, the
 * lock before the GPU, and a program that closes inherited descriptors
 * (Python's subprocess does) never held the lock.
 */
#define _GNU_SOURCE
#include "base/log.h"
#include "base/str.h"
#include "engine/attemptfiles.h"
#include "engine/cgroup.h"
#include "engine/herd.h"
#include "engine/holding.h"
#include "engine/launcher.h"
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
/* The price of a request to leave (engine/pace.h): about the processor time
 * that a shepherd and its workers take to end. */
static const double ask_s = 0.002;

void local_watch_pid(struct local *local, struct localjob *job)
{
    job->pidfd = procs_open(job->pid);
    if (job->pidfd >= 0 && !roster_wake_add(&local->roster, job->pidfd)) {
        close(job->pidfd);
        job->pidfd = -1;
    }
}

static void unwatch_pid(struct localjob *job)
{
    if (job->pidfd >= 0)
        close(job->pidfd); /* and out of the set */
    job->pidfd = -1;
}

void local_forget_attempt(struct local *local, struct localjob *job)
{
    unwatch_pid(job);
    local_resize_forget(job);
    roster_unwatch(&local->roster, &job->base);
    mem_free(job->base.folder);
    holding_release(&job->base.held);
    job->base.folder = NULL;
    job->pid = 0;
    job->start = 0;
    job->is_over = job->needs_signal = false;
    vec_release(&job->orphans.ids);
    job->scan_s = job->scan_wait_s = job->exit_s = 0;
    job->base.is_planned = job->base.was_forced = false;
    job->base.has_run = job->base.is_unsure = false;
}

void local_drop(struct local *local, struct localjob *job)
{
    local_forget_attempt(local, job);
    roster_drop(&local->roster, &job->base);
}

bool local_is_askable(const struct localjob *job)
{
    return job->needs_signal && job->pid != 0;
}

void local_ask_some(struct local *local)
{
    struct roster *r = &local->roster;
    double now_s = local_now_s(local);
    for (size_t i = 0; i < r->jobs.n; i++) {
        struct localjob *job = (struct localjob *)r->jobs.at[i];
        if (!local_is_askable(job))
            continue;
        if (pace_next_s(&local->asks, now_s) > now_s)
            return;
        job->needs_signal = false;
        job->base.until_s =
            local_now_s(local) + 2 * job->base.grace_s + local->force_s;
        if (!job->is_over)
            procs_signal(job->pid, job->start,
                         job->base.can_checkpoint ? SIGUSR1 : SIGTERM);
        pace_pay(&local->asks, now_s, ask_s);
    }
}

void local_leave(struct local *local, struct localjob *job)
{
    bool is_asked = job->base.is_planned;
    job->base.is_planned = true;
    if (is_asked)
        return;
    job->base.until_s =
        local_now_s(local) + 2 * job->base.grace_s + local->force_s;
    job->needs_signal = true;
    if (local_is_askable(job))
        job->base.until_s = INFINITY; /* its time begins when it is asked */
    local_ask_some(local);
    roster_phase(&local->roster, &job->base, FIRN_PHASE_LEAVING);
}

bool local_is_blind(const struct localjob *job)
{
    return job->is_over || job->pidfd < 0 || job->exit_s > 0 ||
           job->base.is_unsure ||
           (job->base.phase == FIRN_PHASE_STARTING &&
            (job->base.watch < 0 || job->scan_s > 0)); /* its folder is gone */
}

/* Has the launcher kill what is left of a job's processes of other users, which
 * we can neither see nor signal; how many there were. */
static size_t launched_left(const struct local *local, struct localjob *job)
{
    struct launchmsg msg = {.kind = LAUNCHMSG_END, .job = job->base.id};
    struct firn_error err = {0};
    long number = 0;
    if (local->launcher[0] == '\0' ||
        !str_copy(msg.mark, sizeof msg.mark, local->host.mark))
        return 0;
    if (launcher_ask(local->launcher, &msg, &number, &err) != FIRN_OK) {
        roster_unsure(&job->base, "", EAGAIN);
        log_warn("job %d: %s", job->base.id, err.text);
        return 1; /* not known: it is asked again */
    }
    return number > 0 ? (size_t)number : 0;
}

/* Kills all processes of the attempt. False: a search of all processes of the
 * host found none. `above` is the job's folder; -1: it does not exist.
 * `with_shepherd` false: a shepherd that was not found before is left alone. It
 * has just begun: a process has its mark from execve() on. */
static bool kill_marked(const struct local *local, struct localjob *job,
                        int above, bool with_shepherd)
{
    struct stat st = {0};
    char by_lock[ATTEMPT_HERD] = "", worker[HERD_TEXT], shepherd[HERD_TEXT];
    struct procs_marks marks = {.session = job->pid, .since = job->start};
    if (above >= 0 && fstatat(above, "lock", &st, AT_SYMLINK_NOFOLLOW) == 0) {
        marks.device = st.st_dev;
        marks.inode = st.st_ino;
        attempt_herd(above, job->base.attempt, by_lock);
    }
    herd_worker(worker, local->host.mark, job->base.id, job->base.attempt);
    herd_shepherd(shepherd, local->host.mark, job->base.id, job->base.attempt);
    if (!with_shepherd)
        shepherd[0] = '\0';
    const char *const all[PROCS_VARIABLES] = {by_lock, worker, shepherd};
    for (int i = 0; i < PROCS_VARIABLES; i++)
        marks.variables[i] = all[i][0] != '\0' ? all[i] : NULL;
    char group[CGROUP_NAME];
    cgroup_name(group, job->base.id, job->base.attempt, job->pid);
    bool is_in_cgroup =
        job->pid != 0 && cgroup_end((enum cgroup_mode)local->cgroup, group);
    size_t n = procs_kill_marked(&marks, &job->orphans);
    n += launched_left(local, job);
    bool is_unsure = job->orphans.error != 0;
    if (is_unsure)
        roster_unsure(&job->base, "", job->orphans.error);
    job->base.has_run = job->base.has_run || n > (size_t)is_unsure;
    return n > 0 || is_in_cgroup;
}

/* Searches the host for processes with the attempt's mark: returns its shepherd
 * (pid 0: none) and whether it has workers. */
static struct procs_id look_for_mark(const struct local *local,
                                     struct localjob *job, bool *has_workers)
{
    struct herd herd;
    struct procs_id shepherd = {0};
    *has_workers = false;
    if (!herd_look(&herd, local->host.mark))
        roster_unsure(&job->base, "", errno);
    for (size_t i = 0; i < herd.at.n; i++) {
        const struct herd_process *process = &herd.at.at[i];
        if (process->job != job->base.id ||
            process->attempt != job->base.attempt)
            continue;
        if (process->is_shepherd)
            shepherd = process->id;
        else
            *has_workers = true;
    }
    herd_release(&herd);
    return shepherd;
}

static void note_that_it_runs(struct local *local, struct localjob *job)
{
    log_warn("job %d: attempt %lld runs as process %ld, and its control files "
             "are gone",
             job->base.id, (long long)job->base.attempt, (long)job->pid);
    if (job->base.phase == FIRN_PHASE_STARTING)
        roster_phase(&local->roster, &job->base, FIRN_PHASE_RUNNING);
}

/* Finds a shepherd without a pid file by its mark. True: it lives and is
 * watched from now on. */
static bool find_shepherd(struct local *local, struct localjob *job)
{
    bool has_workers = false;
    struct procs_id shepherd = look_for_mark(local, job, &has_workers);
    if (shepherd.pid == 0)
        return false;
    job->pid = shepherd.pid;
    job->start = shepherd.start;
    local_watch_pid(local, job); /* see_end() finds out if it has ended */
    if (has_workers)
        note_that_it_runs(local, job);
    return true;
}

/* A search reads all of /proc, and a process that hangs in the kernel may take
 * hours to die: each wait is twice the one before. */
static bool is_scan_due(const struct local *local, struct localjob *job)
{
    double now_s = local_now_s(local);
    if (now_s < job->scan_s)
        return false;
    double wait_s = fmax(first_scan_s, job->scan_wait_s);
    job->scan_wait_s = fmin(2 * wait_s, longest_scan_s);
    job->scan_s = now_s + wait_s;
    return true;
}

/* True: the attempt has processes, or may have some. They are killed, unless a
 * shepherd that was not known is found: that one is watched. One that begins
 * between the two searches waits for the lock, which the caller holds, and
 * finds the fence above its attempt then. Killing it would make an attempt that
 * never ran one that was lost. */
static bool has_processes(struct local *local, struct localjob *job, int above)
{
    bool had_some = job->orphans.ids.n > 0;
    bool has_some = procs_left(&job->orphans) > 0;
    if (had_some && !has_some)
        job->scan_s = 0; /* all known orphans are gone: search again now */
    if (!is_scan_due(local, job))
        return true;
    bool is_known = job->pid != 0;
    if (!is_known && find_shepherd(local, job))
        return true;
    return kill_marked(local, job, above, is_known);
}

/* Kills the shepherd and all processes of the attempt. */
static void force(struct local *local, struct localjob *job)
{
    int above = attempt_above(job->base.folder);
    job->base.until_s = local_now_s(local) + 1;
    if (job->pid != 0 && !job->is_over)
        procs_signal(job->pid, job->start, SIGKILL);
    kill_marked(local, job, above, true);
    if (above >= 0)
        close(above);
}

/* Reads the pid file; DAMAGED if it names another attempt. */
static enum attempt_found read_pid(const struct localjob *job, int folder,
                                   struct attempt_pid *out)
{
    enum attempt_found found = attempt_pid_get(folder, out);
    return found == ATTEMPT_PRESENT && out->attempt != job->base.attempt
               ? ATTEMPT_DAMAGED
               : found;
}

/* Watches the process that the pid file names, if it is still that process. */
static void take_pid(struct local *local, struct localjob *job,
                     const struct attempt_pid *pid)
{
    uint64_t start = 0;
    job->pid = (pid_t)pid->pid;
    job->start = pid->start;
    local_watch_pid(local,
                    job); /* before procs_look(): the number stays its own */
    enum procs_found found = procs_look(job->pid, &start);
    if (found == PROCS_UNKNOWN)
        roster_unsure(&job->base, "pid", errno);
    job->is_over = found != PROCS_UNKNOWN && start != job->start;
    if (job->is_over || found == PROCS_UNKNOWN)
        unwatch_pid(job);
    if (found == PROCS_UNKNOWN)
        job->pid = 0; /* tried again at the next look */
}

/* Finds workers of an attempt whose folder is gone: a job may delete its folder
 * before the engine has seen the pid file. */
static void see_workers(struct local *local, struct localjob *job)
{
    bool has_workers = false;
    if (job->pid == 0 || job->is_over ||
        job->base.phase != FIRN_PHASE_STARTING || !is_scan_due(local, job))
        return;
    look_for_mark(local, job, &has_workers);
    if (has_workers)
        note_that_it_runs(local, job);
}

/* Looks for the pid file, by which the shepherd says that it runs. */
static void see_pid(struct local *local, struct localjob *job)
{
    struct attempt_pid pid = {0};
    if (job->pid != 0 && job->base.phase != FIRN_PHASE_STARTING)
        return;
    int folder = attempt_folder(job->base.folder, job->base.attempt, false);
    enum attempt_found found =
        folder >= 0 ? read_pid(job, folder, &pid) : attempt_missing(errno);
    if (found == ATTEMPT_UNKNOWN)
        roster_unsure(&job->base, "pid", errno);
    bool is_late = local_now_s(local) >= job->base.until_s;
    if (found == ATTEMPT_ABSENT && (folder < 0 || is_late))
        see_workers(local, job);
    if (folder >= 0)
        close(folder);
    if (found != ATTEMPT_PRESENT)
        return;
    roster_sure(&job->base);
    if (job->pid == 0)
        take_pid(local, job, &pid);
    if (job->pid == 0)
        return;
    if (job->base.phase == FIRN_PHASE_STARTING && !job->is_over) {
        roster_phase(&local->roster, &job->base, FIRN_PHASE_RUNNING);
        local_resize_remind(job);
    }
}

/* Has the shepherd ended? `start` is 0 if it had when it was first looked at.
 */
static bool is_ended(const struct localjob *job)
{
    struct pollfd fd = {.fd = job->pidfd, .events = POLLIN};
    if (job->pidfd >= 0)
        return poll(&fd, 1, 0) == 1;
    uint64_t start = 0;
    enum procs_found found = procs_look(job->pid, &start);
    if (found == PROCS_UNKNOWN)
        return false; /* asked again soon */
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
        log_warn("job %d: the supervisor of attempt %lld ended with status %d",
                 job->base.id, (long long)job->base.attempt,
                 WIFEXITED(status) ? WEXITSTATUS(status)
                                   : 128 + WTERMSIG(status));
    unwatch_pid(job);
}

/* The event for an end, given what was wanted of the job. */
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

/* The attempt is gone: frees its GPUs, reports the end, and queues the job if
 * it is still wanted. `result` is NULL without an exit file. */
static void finish(struct local *local, struct localjob *job,
                   const struct attempt_exit *result, bool has_run)
{
    struct firn_event event = {.job = job->base.id,
                               .attempt = job->base.attempt,
                               .phase = FIRN_PHASE_GONE};
    bool was_planned = job->base.is_planned;
    bool was_killed = job->base.was_forced && was_planned;
    /* The job is not charged for a start that took too long, even if its
     * workers began just before they were killed. */
    bool was_late = job->base.was_forced && !was_planned && result == NULL;
    event.end = result != NULL ? result->end
                : was_killed   ? (int)FIRN_END_KILLED
                               : (int)FIRN_END_LOST;
    event.exit_status = result != NULL ? result->status
                        : was_killed   ? 128 + SIGKILL
                                       : 0;
    event.kind = kind_of(job, (enum firn_end)event.end, has_run && !was_late);
    if (result == NULL &&
        job->pid != 0) { /* a killed shepherd leaves its group */
        char name[CGROUP_NAME];
        cgroup_name(name, job->base.id, job->base.attempt, job->pid);
        cgroup_remove((enum cgroup_mode)local->cgroup, name);
    }
    roster_report(&local->roster, event);
    local_forget_attempt(local, job);
    if (event.kind != FIRN_EVENT_LEFT || job->base.want.nparts == 0) {
        local_drop(local, job);
        return;
    }
    roster_requeue(&local->roster, &job->base, was_planned);
}

/* What the folder shows of an attempt whose shepherd has ended or is unknown.
 */
struct signs {
    int above, lock; /* descriptors; lock -1: held, -2: not openable */
    enum attempt_found folder, exit, pid;
    struct attempt_exit result;
};

enum verdict {
    VERDICT_WAIT,   /* a file cannot be read */
    VERDICT_TAKEN,  /* a process holds its lock */
    VERDICT_ENDED,  /* as its exit file says */
    VERDICT_SEARCH, /* it was started: gone if a search finds no process */
    VERDICT_NEVER   /* no sign of a start: the same, and it never began */
};

static struct signs look_at(const struct localjob *job)
{
    struct attempt_pid pid;
    struct signs s = {.above = attempt_above(job->base.folder), .lock = -2};
    s.folder = s.above >= 0 ? ATTEMPT_PRESENT : attempt_missing(errno);
    if (s.above < 0)
        return s;
    s.lock = attempt_lock(s.above);
    if (s.lock == -2)
        s.folder = ATTEMPT_UNKNOWN;
    if (s.lock < 0)
        return s;
    int folder = attempt_folder(job->base.folder, job->base.attempt, false);
    if (folder < 0) {
        s.exit = s.pid = attempt_missing(errno);
        return s;
    }
    s.pid = read_pid(job, folder, &pid);
    if (s.pid != ATTEMPT_UNKNOWN)
        s.exit = attempt_exit_get(folder, &s.result);
    if (s.exit == ATTEMPT_PRESENT && s.result.attempt != job->base.attempt)
        s.exit = ATTEMPT_DAMAGED;
    int error = errno;
    close(folder);
    errno = error;
    return s;
}

static enum verdict judge(const struct signs *s, bool has_run)
{
    if (s->folder == ATTEMPT_UNKNOWN || s->pid == ATTEMPT_UNKNOWN ||
        s->exit == ATTEMPT_UNKNOWN)
        return VERDICT_WAIT;
    if (s->folder == ATTEMPT_PRESENT && s->lock == -1)
        return VERDICT_TAKEN;
    if (s->exit == ATTEMPT_PRESENT)
        return VERDICT_ENDED;
    return has_run || s->pid != ATTEMPT_ABSENT || s->exit != ATTEMPT_ABSENT
               ? VERDICT_SEARCH
               : VERDICT_NEVER;
}

/* True: the attempt has no process, and none can start any more. */
static bool is_gone(struct local *local, struct localjob *job,
                    const struct signs *s)
{
    struct firn_error err = {0};
    if (has_processes(local, job, s->above))
        return false;
    if (job->is_over || s->above < 0)
        return true;
    if (attempt_fence_raise(s->above, job->base.attempt + 1, &err) == FIRN_OK)
        return true;
    roster_unsure(&job->base, "fence", errno);
    return false;
}

/* Finds out whether the attempt is gone, and how it ended. */
static void settle(struct local *local, struct localjob *job)
{
    struct signs s = look_at(job);
    int error = errno;
    enum verdict verdict = judge(&s, job->base.has_run);
    bool is_over = verdict == VERDICT_ENDED;
    if (verdict == VERDICT_TAKEN)
        roster_sure(&job->base);
    if (verdict == VERDICT_WAIT)
        roster_unsure(&job->base,
                      s.folder == ATTEMPT_UNKNOWN ? "lock"
                      : s.pid == ATTEMPT_UNKNOWN  ? "pid"
                                                  : "exit",
                      error);
    else if (verdict == VERDICT_TAKEN && job->is_over)
        has_processes(local, job, s.above);
    else if (verdict == VERDICT_TAKEN && is_scan_due(local, job))
        find_shepherd(local, job);
    else if (verdict == VERDICT_SEARCH || verdict == VERDICT_NEVER)
        is_over = is_gone(local, job, &s);
    if (s.lock >= 0)
        close(s.lock);
    if (s.above >= 0)
        close(s.above);
    if (!is_over)
        return;
    roster_sure(&job->base);
    if (s.exit == ATTEMPT_DAMAGED)
        log_warn("job %d: the file 'exit' of attempt %lld is damaged; how the "
                 "attempt ended is not known",
                 job->base.id, (long long)job->base.attempt);
    bool has_run = verdict != VERDICT_NEVER || job->base.has_run;
    finish(local, job, verdict == VERDICT_ENDED ? &s.result : NULL, has_run);
}

/* True: the shepherd lives though it wrote an exit file; the file is read. */
static bool has_exit(const struct localjob *job, struct attempt_exit *out)
{
    int folder =
        job->pid != 0 && !job->is_over
            ? attempt_folder(job->base.folder, job->base.attempt, false)
            : -1;
    if (folder < 0)
        return false;
    bool has = attempt_exit_get(folder, out) == ATTEMPT_PRESENT &&
               out->attempt == job->base.attempt;
    close(folder);
    return has;
}

/* A shepherd exits right after it wrote how the attempt ended. One that hangs
 * is killed; if not even that ends it, the file decides: it was written when no
 * other process of the attempt was left. True: the job may be gone. */
static bool see_exit(struct local *local, struct localjob *job)
{
    struct attempt_exit result = {0};
    double now_s = local_now_s(local), wait_s = fmax(local->force_s, 1);
    if (!has_exit(job, &result)) {
        job->exit_s = 0;
        return false;
    }
    if (!(job->exit_s > 0))
        job->exit_s = now_s;
    if (now_s < job->exit_s + wait_s)
        return false;
    if (!job->base.was_forced)
        log_warn("job %d: the supervisor of attempt %lld (process %ld) did not "
                 "exit %.0f s after the attempt ended; firn kills it",
                 job->base.id, (long long)job->base.attempt, (long)job->pid,
                 wait_s);
    job->base.was_forced = true;
    procs_signal(job->pid, job->start, SIGKILL);
    if (now_s < job->exit_s + 2 * wait_s)
        return false;
    finish(local, job, &result, true);
    return true;
}

bool local_needs_look(const struct local *local, const struct localjob *job)
{
    return local_now_s(local) >= local->sweep_s || job->base.is_noted ||
           job->base.watch < 0 || local_is_blind(job) ||
           (job->base.phase != FIRN_PHASE_RUNNING &&
            local_now_s(local) >= job->base.until_s) ||
           is_ended(job);
}

void local_look(struct local *local, struct localjob *job)
{
    job->base.is_noted = false;
    see_end(job); /* first: the last files are written before the end */
    see_pid(local, job);
    local_resize_look(local, job);
    if (job->base.is_unsure && job->base.phase == FIRN_PHASE_STARTING)
        job->base.until_s =
            local_now_s(local) + start_limit_s; /* its time begins anew */
    bool is_late = !job->is_over && job->base.phase != FIRN_PHASE_RUNNING &&
                   local_now_s(local) >= job->base.until_s;
    if (is_late) {
        if (!job->base.was_forced)
            log_warn("job %d: attempt %lld did not end in time; firn kills it",
                     job->base.id, (long long)job->base.attempt);
        job->base.was_forced = true;
        force(local, job);
    }
    if (see_exit(local, job))
        return;
    if (job->is_over || job->pid == 0)
        settle(local, job);
}

enum firn_status local_take_over(struct local *local, struct localjob *job,
                                 struct firn_error *err)
{
    struct firn_launch launch = {0};
    FIRN_TRY(roster_launch(&job->base, &local->host, &launch, err));
    roster_take_over(&job->base, &launch);
    local_resize_recover(local, job);
    job->base.until_s = local_now_s(local) + start_limit_s;
    roster_watch(&local->roster, &job->base);
    local_look(local, job);
    return FIRN_OK;
}
