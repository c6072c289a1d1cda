/* local_ahead.c - processes of a job that is about to start, before its GPUs
 * are free.
 *
 * Which job that is comes from two places: a job that has GPUs of the plan
 * which another attempt has not left yet, and the jobs that the host foresees
 * (firn_engine_def.foresee), in the order of their starts. Of these the first
 * `ahead` are prepared, if their trainers wait for their GPUs when told to
 * (firn_launch.can_ahead) and the host has memory for them:
 *
 *     foreseen --park--> preparing --ready--> prepared --go--> an attempt
 *                            |                   |
 *                            +--- not needed ----+--> ends, nothing is lost
 *
 * A prepared job is a supervisor and its workers that wait
 * (engine/shepherd_ahead.c). It holds no GPU, has no number and no lock. When
 * the job starts, local_start.c writes number, launch file and fence as always
 * and says "go" where it would start a supervisor.
 *
 * Invariants
 *   1. At most `ahead` jobs are prepared, none of them with an attempt.
 *   2. A job is prepared for `ahead-s` seconds at most, and then not again for
 *      as long; one whose preparation fails is not prepared again.
 *   3. The line to the supervisor is closed by the end of firnd: what was
 *      prepared ends with it. Its processes have the job's mark, so that a job
 *      is not started beside those of an earlier firnd.
 *   4. Preparing is given up where it would need more than half of the host's
 *      free memory: as much as the largest one so far had, 1 GiB a process
 *      before that.
 *
 * Cost: one look at a list of `ahead` entries in a turn.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "engine/attemptfiles.h"
#include "engine/herd.h"
#include "engine/holding.h"
#include "engine/launchfile.h"
#include "engine/localwork.h"
#include "wire/aheadgate.h"
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const double first_mib = 1024; /* a process that was never measured */
static const double ask_every_s = 5;  /* about a job that cannot be prepared */
static const double end_s = 5;        /* for a supervisor that is told to end */

/* --- what is there ---------------------------------------------------------
 */

static struct localahead *find(const struct local *local, firn_job_id id)
{
    for (size_t i = 0; i < local->aheads.n; i++)
        if (local->aheads.at[i].job == id)
            return &local->aheads.at[i];
    return NULL;
}

bool local_ahead_has(const struct local *local, firn_job_id id)
{
    const struct localahead *at = find(local, id);
    return at != NULL && at->line >= 0;
}

bool local_ahead_ends(const struct local *local, firn_job_id id)
{
    const struct localahead *at = find(local, id);
    return at != NULL && at->line < 0;
}

double local_ahead_age_s(const struct local *local, firn_job_id id)
{
    const struct localahead *at = find(local, id);
    return at != NULL && at->line >= 0 ? local_now_s(local) - at->began_s : 0;
}

static void forget(struct local *local, struct localahead *at)
{
    if (at->line >= 0)
        close(at->line);
    if (at->pidfd >= 0)
        close(at->pidfd);
    *at = local->aheads.at[--local->aheads.n];
}

/* (2) */
static void bar(struct local *local, firn_job_id id, double until_s)
{
    struct localunfit unfit = {id, until_s};
    for (size_t i = 0; i < local->unfit.n; i++)
        if (local->unfit.at[i].job == id) {
            local->unfit.at[i] = unfit;
            return;
        }
    vec_add(&local->unfit, unfit);
}

static bool is_barred(struct local *local, firn_job_id id)
{
    for (size_t i = 0; i < local->unfit.n; i++)
        if (local->unfit.at[i].job == id)
            return local_now_s(local) < local->unfit.at[i].until_s;
    return false;
}

/* --- the end ---------------------------------------------------------------
 */

/* The supervisor ends its processes when its line is closed. */
static void end(struct local *local, struct localahead *at)
{
    if (at->line < 0)
        return;
    close(at->line);
    at->line = -1;
    at->until_s = local_now_s(local) + end_s;
}

void local_ahead_end(struct local *local, firn_job_id id)
{
    struct localahead *at = find(local, id);
    if (at != NULL)
        end(local, at);
}

static bool is_gone(const struct localahead *at)
{
    struct pollfd fd = {.fd = at->pidfd, .events = POLLIN};
    if (at->pidfd >= 0)
        return poll(&fd, 1, 0) == 1;
    uint64_t start = 0;
    enum procs_found found = procs_look(at->pid, &start);
    return found == PROCS_GONE || (found == PROCS_THERE && start != at->start);
}

/* --- what its supervisor says -----------------------------------------------
 */

static void hear(struct local *local, struct localahead *at)
{
    char text[256];
    double prepare_s = 0, mib = 0;
    ssize_t n = at->line >= 0
                    ? recv(at->line, text, sizeof text - 1, MSG_DONTWAIT)
                    : -1;
    if (n <= 0)
        return; /* its end is seen by its process */
    text[n] = '\0';
    char *next = NULL;
    if (strncmp(text, "ready ", 6) != 0)
        return;
    prepare_s = strtod(text + 6, &next);
    mib = strtod(next, NULL);
    at->is_ready = true;
    local->ahead_mib = fmax(local->ahead_mib, mib / at->nworkers);
    roster_report(&local->roster,
                  (struct firn_event){.kind = FIRN_EVENT_PREPARED,
                                      .job = at->job,
                                      .prepare_s = prepare_s});
}

/* --- the start --------------------------------------------------------------
 */

/* (4) */
static bool has_memory(const struct local *local, size_t nworkers)
{
    double each_mib = local->ahead_mib > 0 ? local->ahead_mib : first_mib;
    double free_mib = procs_free_mib();
    return free_mib < 0 || 2 * each_mib * (double)nworkers <= free_mib;
}

/* JOB/ahead with its launch file; -1: with a message. */
static int write_launch(const struct launchfile *file, const char *job_folder,
                        struct firn_error *err)
{
    struct firn_buf text = {0};
    int folder = attempt_ahead_folder(job_folder);
    if (folder < 0) {
        firn_fail(err, FIRN_EIO, "cannot create its folder: %s",
                  strerror(errno));
        return -1;
    }
    launchfile_write(file, &text);
    enum firn_status status = attempt_put(
        folder, "launch", (struct firn_bytes){text.at, text.n}, err);
    buf_release(&text);
    close(folder);
    return status == FIRN_OK ? 0 : -1;
}

static int spawn(struct local *local, const struct firn_launch *launch,
                 struct localahead *at)
{
    char folder[4200], mark[FIRN_GATE_MARK_TEXT];
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return errno;
    snprintf(folder, sizeof folder, "%s/ahead", launch->folder);
    firn_gate_mark(mark, local->host.mark, at->job);
    const struct local_program program = {"--shepherd-ahead", folder, mark,
                                          ends[1]};
    failpoint("engine.ahead.before");
    int error = local_spawn(local, &program, &at->pid);
    failpoint("engine.ahead.after");
    close(ends[1]);
    if (error != 0) {
        close(ends[0]);
        return error;
    }
    at->line = ends[0];
    at->start = procs_start(at->pid);
    at->pidfd = procs_open(at->pid);
    if (at->pidfd >= 0)
        roster_wake_add(&local->roster, at->pidfd);
    roster_wake_add(&local->roster, at->line);
    return 0;
}

/* Can the job be prepared, and how? */
static bool is_able(const struct local *local, firn_job_id id,
                    struct firn_launch *launch)
{
    return local->host.launch(local->host.arg, id, launch) &&
           launch->can_ahead && !launch->is_per_node && launch->mate == NULL &&
           launch->trouble == NULL && launch->argv != NULL &&
           launch->argv[0] != NULL;
}

static void park(struct local *local, firn_job_id id,
                 const struct firn_alloc *gpus)
{
    struct firn_launch launch = {0};
    struct firn_error err = {0};
    struct launchfile file;
    if (!is_able(local, id, &launch))
        return;
    struct localjob as = {.base = {.id = id, .want = *gpus}};
    roster_launch_begin(&as.base, &launch, &file);
    local_variables(local, &as, &launch, &file);
    file.attempt = 1; /* not read: the attempt's own file has its number */
    size_t n = file.workers.n;
    struct localahead at = {.job = id,
                            .line = -1,
                            .pidfd = -1,
                            .nworkers = (int)n,
                            .began_s = local_now_s(local),
                            .until_s = local_now_s(local) + local->ahead_s};
    bool fits = has_memory(local, n);
    int error = 0;
    if (fits && write_launch(&file, launch.folder, &err) == 0 &&
        (error = spawn(local, &launch, &at)) == 0)
        vec_add(&local->aheads, at);
    else
        bar(local, id, local_now_s(local) + local->ahead_s);
    if (error != 0)
        firn_fail(&err, FIRN_EIO, "%s", strerror(error));
    if (err.text[0] != '\0')
        log_warn("job %d cannot be prepared: %s", id, err.text);
    launchfile_release(&file);
}

/* --- which jobs -------------------------------------------------------------
 */

/* Waits for GPUs of the plan that another attempt still has. */
static bool is_next(const struct rosterjob *job)
{
    return job->want.nparts > 0 && job->held.nparts == 0 && !job->is_numbered &&
           !job->is_cancelled;
}

/* The jobs to be prepared, at most `ahead` of them, with their GPUs. */
struct wanted {
    struct {
        firn_job_id job;
        const struct firn_alloc *gpus;
    } at[LOCAL_AHEAD];
    size_t n;
};

/* One that cannot be prepared is not asked about again for a while. */
static void want(struct local *local, struct wanted *wanted, firn_job_id job,
                 const struct firn_alloc *gpus)
{
    struct firn_launch launch = {0};
    bool is_new = find(local, job) == NULL;
    for (size_t i = 0; i < wanted->n; i++)
        if (wanted->at[i].job == job)
            return;
    if (wanted->n >= (size_t)local->ahead || (is_new && is_barred(local, job)))
        return;
    if (is_new && !is_able(local, job, &launch)) {
        bar(local, job, local_now_s(local) + ask_every_s);
        return;
    }
    wanted->at[wanted->n].job = job;
    wanted->at[wanted->n++].gpus = gpus;
}

/* The first job behind this turn that waits for others to leave its GPUs. */
static const struct rosterjob *next_behind(const struct roster *r,
                                           uint64_t turn)
{
    const struct rosterjob *first = NULL;
    for (size_t i = 0; i < r->jobs.n; i++)
        if (is_next(r->jobs.at[i]) && r->jobs.at[i]->turn > turn &&
            (first == NULL || r->jobs.at[i]->turn < first->turn))
            first = r->jobs.at[i];
    return first;
}

static struct wanted find_wanted(struct local *local)
{
    struct wanted wanted = {.n = 0};
    const struct roster *r = &local->roster;
    const struct rosterjob *job = next_behind(r, 0);
    for (int i = 0; i < LOCAL_AHEAD && job != NULL; i++) {
        want(local, &wanted, job->id, &job->want);
        job = next_behind(r, job->turn);
    }
    for (size_t i = 0; i < local->foreseen.n; i++) {
        const struct localforeseen *at = &local->foreseen.at[i];
        job = roster_find(r, at->job);
        bool is_prepared = find(local, at->job) != NULL;
        if ((job == NULL || is_next(job)) &&
            (is_prepared || at->in_s <= local->ahead_s / 2))
            want(local, &wanted, at->job, &at->gpus);
    }
    return wanted;
}

void local_foresee(struct local *local, const struct firn_foreseen *jobs,
                   size_t n)
{
    for (size_t i = 0; i < local->foreseen.n; i++)
        holding_release(&local->foreseen.at[i].gpus);
    local->foreseen.n = 0;
    for (size_t i = 0; i < n; i++) {
        struct localforeseen at = {jobs[i].job, jobs[i].in_s, FIRN_ALLOC_NONE};
        if (jobs[i].to->nparts == 0 ||
            !holding_is_on(&local->gpus.cluster, jobs[i].to))
            continue;
        holding_copy(&at.gpus, jobs[i].to);
        vec_add(&local->foreseen, at);
    }
}

/* --- the turn ---------------------------------------------------------------
 */

static void look(struct local *local, struct localahead *at)
{
    double now_s = local_now_s(local);
    hear(local, at);
    if (is_gone(at)) {
        bool was_asked = at->line < 0;
        (void)waitpid(at->pid, NULL, WNOHANG);
        if (!was_asked) {
            log_warn("job %d: its preparation ended by itself; the job is not "
                     "prepared again",
                     at->job);
            bar(local, at->job, INFINITY);
        }
        forget(local, at);
        return;
    }
    if (now_s < at->until_s)
        return;
    if (at->line < 0) {
        procs_signal(at->pid, at->start, SIGKILL); /* workers die with it */
        at->until_s = now_s + 1;
        return;
    }
    bar(local, at->job, now_s + local->ahead_s);
    end(local, at);
}

void local_ahead_turn(struct local *local)
{
    if (local->aheads.n == 0 &&
        (local->ahead == 0 || local->launcher[0] != '\0'))
        return;
    for (size_t i = local->aheads.n; i-- > 0;)
        look(local, &local->aheads.at[i]);
    struct wanted wanted = find_wanted(local);
    for (size_t i = 0; i < local->aheads.n; i++) {
        bool is_wanted = false;
        for (size_t k = 0; k < wanted.n; k++)
            is_wanted =
                is_wanted || wanted.at[k].job == local->aheads.at[i].job;
        if (!is_wanted)
            end(local, &local->aheads.at[i]);
    }
    for (size_t k = 0; k < wanted.n; k++) /* (1) */
        if (local->aheads.n < (size_t)local->ahead &&
            find(local, wanted.at[k].job) == NULL)
            park(local, wanted.at[k].job, wanted.at[k].gpus);
}

double local_ahead_due_s(const struct local *local)
{
    double due = INFINITY;
    for (size_t i = 0; i < local->aheads.n; i++) {
        const struct localahead *at = &local->aheads.at[i];
        due = fmin(due, at->until_s);
        if (at->pidfd < 0)
            due = fmin(due, local_now_s(local) + 0.05);
    }
    return due;
}

bool local_ahead_go(struct local *local, struct localjob *job)
{
    struct localahead *at = find(local, job->base.id);
    char mark[HERD_TEXT], text[HERD_TEXT + 64];
    if (at == NULL || at->line < 0)
        return false;
    hear(local, at);
    herd_shepherd(mark, local->host.mark, job->base.id, job->base.attempt);
    int n = snprintf(text, sizeof text, "go %lld %s\n",
                     (long long)job->base.attempt, mark);
    failpoint("engine.go.before");
    bool is_told = send(at->line, text, (size_t)n,
                        MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)n;
    failpoint("engine.go.after");
    if (!is_told) {
        forget(local, at); /* it has just ended */
        return false;
    }
    job->base.prepared_s = local_now_s(local) - at->began_s;
    job->pid = at->pid;
    job->start = at->start;
    job->pidfd = at->pidfd;
    at->pidfd = -1;
    forget(local, at);
    return true;
}

void local_ahead_close(struct local *local)
{
    while (local->aheads.n > 0)
        forget(local, &local->aheads.at[local->aheads.n - 1]);
    local_foresee(local, NULL, 0);
    vec_release(&local->aheads);
    vec_release(&local->foreseen);
    vec_release(&local->unfit);
}
