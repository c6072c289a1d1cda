/* local.c - jobs as processes of this host.
 *
 * The engine has no job process as a child: each attempt has a shepherd
 * (engine/shepherd.h) that lives on when the engine dies. All knowledge of an
 * attempt comes from files and from the kernel, so taking over after a restart
 * is the same as watching from the start.
 *
 * Invariants:
 * (1) a GPU is given out only when every attempt that held it is gone: its lock
 *     is free and its end was read, or none of its processes is left; and a job
 *     is started only when no process of the host has its mark;
 * (2) a job has at most one attempt; a step during an attempt changes only what
 *     comes after it;
 * (3) the number of an attempt is on the host's disk before its shepherd
 *     exists;
 * (4) all that can change wakes the engine: an end, a file, the timer or a
 *     step. A turn that none of them woke does nothing. Every five seconds all
 *     attempts are looked at, so that a lost event delays a job and no more.
 *
 * Cost: a turn is one system call if nothing woke the engine. Otherwise it is
 * one for each attempt, and a few more for those with news; there are at most
 * as many attempts as GPUs times jobs that share one.
 */
#include "base/str.h"
#include "engine/cgroup.h"
#include "engine/holding.h"
#include "engine/localwork.h"
#include "engine/passenv.h"
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>

static struct localjob *find(const struct local *local, firn_job_id id)
{
    return (struct localjob *)roster_find(&local->roster, id);
}

static struct localjob *find_or_add(struct local *local, firn_job_id id)
{
    struct localjob *job = find(local, id);
    if (job != NULL)
        return job;
    job = (struct localjob *)roster_add(&local->roster, id, sizeof *job);
    job->pidfd = -1;
    return job;
}

static const double look_every_s = 0.05; /* where no event wakes the engine */
static const double exit_every_s = 5;    /* ... when an exit file appears */
static const double sweep_every_s = 5;   /* all attempts */

/* --- when to look --------------------------------------------------------- */

/* When the job has to be looked at although no event wakes the engine. */
static double due_s(const struct local *local, const struct localjob *job,
                    double now_s)
{
    if (job->base.held.nparts == 0)
        return roster_due_s(&job->base, local->turned_s);
    double due = job->base.phase == FIRN_PHASE_RUNNING
                     ? now_s + (job->base.watch < 0 ? exit_every_s : INFINITY)
                     : job->base.until_s;
    return local_is_blind(job) && now_s + look_every_s < due
               ? now_s + look_every_s
               : due;
}

/* When the next launch or request to leave is due, if there is one. */
static double paced_s(const struct local *local, double now_s)
{
    double due = INFINITY;
    for (size_t i = 0; i < local->roster.jobs.n; i++) {
        const struct localjob *job =
            (const struct localjob *)local->roster.jobs.at[i];
        if (job->base.is_numbered)
            due = fmin(due, pace_next_s(&local->launches, now_s));
        if (local_is_askable(job))
            due = fmin(due, pace_next_s(&local->asks, now_s));
    }
    return due;
}

/* Sets the timer, unless it is set: a time "from now on" must not move on with
 * each call. */
static void arm(void *state)
{
    struct local *local = state;
    if (!local->is_stale)
        return;
    double now_s = local_now_s(local);
    double due = fmin(local->foreign_s, paced_s(local, now_s));
    due = fmin(due, local_ahead_due_s(local));
    for (size_t i = 0; i < local->roster.jobs.n; i++) {
        const struct localjob *job =
            (const struct localjob *)local->roster.jobs.at[i];
        if (!job->base.is_numbered)
            due = fmin(due, due_s(local, job, now_s));
        if (job->base.held.nparts > 0)
            due = fmin(due, fmax(local->sweep_s, now_s));
        due = fmin(due, local_resize_due_s(local, job));
    }
    roster_wake_arm(&local->roster, now_s, local->has_changes ? now_s : due);
    local->is_stale = false;
}

/* Behind a step or a cancel. */
static void changed(struct local *local)
{
    local->has_changes = local->is_stale = true;
    arm(local);
}

static void turn(void *state)
{
    struct local *local = state;
    if (!local->has_changes && !roster_wake_is_set(&local->roster))
        return; /* (4) */
    local->has_changes = false;
    local->is_stale = true;
    roster_wake_drain(&local->roster);
    if (local->foreign_s <= local_now_s(local))
        local_foreign_look(local);
    for (size_t i = local->roster.jobs.n; i-- > 0;) { /* a job may be removed */
        struct localjob *job = (struct localjob *)local->roster.jobs.at[i];
        if (job->base.held.nparts > 0 && !job->base.is_numbered &&
            local_needs_look(local, job))
            local_look(local, job);
    }
    if (local->sweep_s <= local_now_s(local))
        local->sweep_s = local_now_s(local) + sweep_every_s;
    local_resize_some(local);
    local_ask_some(local);
    local->turned_s = local_now_s(local);
    local_start_some(local);
    local_ahead_turn(local);
}

/* --- the engine's functions ----------------------------------------------- */

static double now_s(void *state)
{
    return local_now_s(state);
}

static enum firn_status open_engine(void *state, struct firn_error *err)
{
    struct local *local = state;
    roster_open(&local->roster);
    local->launches = local->asks = (struct pace){.burst_s = 0.03};
    local->is_stale = local->has_changes = true;
    local->sweep_s = local_now_s(local) + sweep_every_s;
    FIRN_TRY(passenv_check(local->pass_env, err));
    FIRN_TRY(gpus_open(&local->gpus, local->spec, err));
    local_foreign_open(local);
    return roster_wake_open(&local->roster, -1, "processes", err);
}

/* Jobs keep running. */
static void close_engine(void *state)
{
    struct local *local = state;
    const struct roster *r = &local->roster;
    local_ahead_close(local);
    while (r->jobs.n > 0)
        local_drop(local, (struct localjob *)r->jobs.at[r->jobs.n - 1]);
    vec_release(&local->boards);
    roster_close(&local->roster);
    gpus_close(&local->gpus);
}

static enum firn_status discover(void *state, struct firn_cluster *out,
                                 struct firn_error *err)
{
    const struct local *local = state;
    return firn_cluster_parse_spec(out, local->gpus.spec.at, err);
}

static enum firn_status attach(void *state, const struct firn_engine_host *host,
                               struct firn_error *err)
{
    struct local *local = state;
    (void)err;
    local->host = *host;
    return FIRN_OK;
}

/* The job is not wanted any more: it ends with this event. */
static void end(struct local *local, struct localjob *job,
                enum firn_event_kind kind, enum firn_end reason)
{
    if (roster_unwant(&local->roster, &job->base, kind, reason))
        local_leave(local, job);
    else
        local_drop(local, job);
}

static enum firn_status apply(void *state, const struct firn_step *step,
                              struct firn_error *err)
{
    struct local *local = state;
    struct localjob *job = find(local, step->job->id);
    if (step->kind == FIRN_STEP_STOP) {
        if (job != NULL)
            end(local, job, FIRN_EVENT_LEFT, FIRN_END_CHECKPOINT);
        changed(local);
        return FIRN_OK;
    }
    if (step->to->nparts == 0 || !holding_is_on(&local->gpus.cluster, step->to))
        return firn_fail(err, FIRN_EINVAL,
                         "job %d: this host does not have the GPUs of the step",
                         step->job->id);
    job = find_or_add(local, step->job->id);
    if (job->base.is_cancelled)
        return FIRN_OK; /* its end will be reported */
    if (!local_resize(local, job, step->to) &&
        roster_move(&local->roster, &job->base, step->to))
        local_leave(local, job); /* (2) */
    changed(local);
    return FIRN_OK;
}

static enum firn_status settled(void *state, struct firn_error *err)
{
    struct local *local = state;
    (void)err;
    local_resize_some(local);
    local_start_some(local);
    changed(local);
    return FIRN_OK;
}

static bool next(void *state, double until_s, struct firn_event *out,
                 struct firn_error *err)
{
    struct local *local = state;
    const struct roster_work work = {turn, arm, local};
    (void)err;
    return roster_next(&local->roster, &work, until_s, out);
}

static enum firn_status adopt(void *state, const struct firn_job *job,
                              int64_t attempt, struct firn_error *err)
{
    struct local *local = state;
    if (job->held.nparts == 0 ||
        !holding_is_on(&local->gpus.cluster, &job->held))
        return firn_fail(err, FIRN_EINVAL,
                         "job %d held GPUs that this host does not have",
                         job->id);
    struct localjob *lj = find_or_add(local, job->id);
    roster_want(&local->roster, &lj->base, &job->held);
    if (attempt > 0) {
        lj->base.attempt = attempt;
        enum firn_status status = local_take_over(local, lj, err);
        if (status != FIRN_OK) {
            local_drop(local, lj);
            return status;
        }
    }
    changed(local);
    return FIRN_OK;
}

static void foresee(void *state, const struct firn_foreseen *jobs, size_t n)
{
    struct local *local = state;
    local_foresee(local, jobs, n);
    changed(local);
}

/* As many seconds as a preparation may last; what starts gain is measured by
 * the host. */
static int ahead_s(void *state)
{
    const struct local *local = state;
    return local->ahead > 0 && local->launcher[0] == '\0'
               ? (int)fmin(local->ahead_s, 86400)
               : 0;
}

static double prepared_s(void *state, firn_job_id job)
{
    return local_ahead_age_s(state, job);
}

static int prepares(void *state)
{
    return ahead_s(state) > 0 ? ((const struct local *)state)->ahead : 0;
}

static int wake_fd(void *state)
{
    return ((const struct local *)state)->roster.poll;
}

static void cancel(void *state, firn_job_id id)
{
    struct local *local = state;
    struct localjob *job = find(local, id);
    if (job == NULL)
        return;
    job->base.is_cancelled = true;
    end(local, job, FIRN_EVENT_FAIL, FIRN_END_KILLED);
    changed(local);
}

/* local_look() kills what has not ended in time. */
static void kill_job(void *state, firn_job_id id)
{
    struct local *local = state;
    struct localjob *job = find(local, id);
    if (job == NULL || job->base.held.nparts == 0 || job->base.is_numbered)
        return;
    job->needs_signal = false;
    job->base.until_s = local_now_s(local);
    changed(local);
}

/* The supervisor passes the signal on. One of a firnd that did not know the
 * signal would die of it: only one that blocks it gets it. */
static bool warn_job(void *state, firn_job_id id)
{
    const struct localjob *job = find(state, id);
    return job != NULL && job->pid != 0 && !job->is_over &&
           procs_blocks(job->pid, SIGUSR2) &&
           procs_signal(job->pid, job->start, SIGUSR2);
}

static enum firn_phase phase(void *state, firn_job_id id)
{
    const struct localjob *job = find(state, id);
    return job == NULL ? FIRN_PHASE_GONE : job->base.phase;
}

static bool gpu_load(void *state, firn_node_id node, int index, firn_job_id id,
                     struct firn_load *out)
{
    const struct local *local = state;
    (void)id;
    if (!local->gpus.has_nvml)
        return false;
    const struct gpu *gpu = gpus_at(&local->gpus, node, index);
    return gpu != NULL && nvml_load(&local->gpus.nvml, gpu->device, out);
}

static bool load(void *state, firn_job_id id, struct firn_load *out)
{
    const struct local *local = state;
    const struct localjob *job = find(local, id);
    struct firn_load most = {-1, -1}, one;
    if (job == NULL || !local->gpus.has_nvml)
        return false;
    for (int i = 0; i < job->base.held.nparts; i++) {
        const struct firn_part *part = &job->base.held.parts[i];
        for (int k = 0; k < FIRN_BOARD_GPUS; k++) {
            if ((part->gpus >> k & 1) == 0)
                continue;
            const struct gpu *gpu = gpus_at(&local->gpus, part->node,
                                            FIRN_BOARD_GPUS * part->board + k);
            if (gpu == NULL || !nvml_load(&local->gpus.nvml, gpu->device, &one))
                return false;
            most.util = fmax(most.util, one.util);
            most.mem_gib = fmax(most.mem_gib, one.mem_gib);
        }
    }
    if (most.util < 0)
        return false;
    *out = most;
    return true;
}

static const char *const cgroup_modes[] = {
    [CGROUP_AUTO] = "auto", [CGROUP_ON] = "on", [CGROUP_OFF] = "off", NULL};

static const struct firn_option options[] = {
    {.name = "gpus",
     .type = FIRN_OPTION_TEXT,
     .fallback = "",
     .help = "declared GPUs, such as 2x4:v100@16; empty: the driver's GPUs",
     .offset = offsetof(struct local, spec)},
    {.name = "shepherd",
     .type = FIRN_OPTION_TEXT,
     .fallback = "/proc/self/exe",
     .help = "supervisor program, run as PROGRAM --shepherd FOLDER",
     .offset = offsetof(struct local, shepherd)},
    {.name = "launcher",
     .type = FIRN_OPTION_TEXT,
     .fallback = "",
     .help = "socket of firn-launch, which runs jobs as their users; empty: "
             "jobs run as firnd's user",
     .offset = offsetof(struct local, launcher)},
    {.name = "pass-env",
     .type = FIRN_OPTION_TEXT,
     .fallback = "",
     .help = "firnd's variables that jobs get in addition: NAME,PREFIX_*",
     .offset = offsetof(struct local, pass_env)},
    {.name = "cgroup",
     .type = FIRN_OPTION_CHOICE,
     .fallback = "auto",
     .choices = cgroup_modes,
     .help = "a control group for each attempt: if delegated, always, never",
     .offset = offsetof(struct local, cgroup)},
    {.name = "force-s",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "10",
     .min = 0,
     .max = 3600,
     .help = "seconds after both graces until a hanging supervisor is killed",
     .offset = offsetof(struct local, force_s)},
    {.name = "join-s",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "600",
     .min = 0,
     .max = 86400,
     .help = "seconds for new processes to join a running job; 0: restart it",
     .offset = offsetof(struct local, join_s)},
    {.name = "ahead",
     .type = FIRN_OPTION_INT,
     .fallback = "1",
     .min = 0,
     .max = LOCAL_AHEAD,
     .help = "jobs whose processes are started before their GPUs are free",
     .offset = offsetof(struct local, ahead)},
    {.name = "ahead-s",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "120",
     .min = 1,
     .max = 86400,
     .help = "seconds that such processes wait for their GPUs at most",
     .offset = offsetof(struct local, ahead_s)},
    {.name = "spares",
     .type = FIRN_OPTION_INT,
     .fallback = "0",
     .min = 0,
     .max = LOCAL_SPARES,
     .help = "processes of a job that wait for further GPUs, to join faster",
     .offset = offsetof(struct local, spares)},
    {.name = "others-s",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "5",
     .min = 0.1,
     .max = 3600,
     .help = "seconds between checks for foreign processes on the GPUs",
     .offset = offsetof(struct local, foreign_every_s)},
    {.name = NULL},
};

const struct firn_engine_def firn_engine_local = {
    .name = "local",
    .summary = "runs jobs as processes of this host",
    .options = options,
    .state_size = sizeof(struct local),
    .open = open_engine,
    .close = close_engine,
    .now_s = now_s,
    .discover = discover,
    .apply = apply,
    .settled = settled,
    .next = next,
    .adopt = adopt,
    .attach = attach,
    .wake_fd = wake_fd,
    .cancel = cancel,
    .kill = kill_job,
    .warn = warn_job,
    .phase = phase,
    .load = load,
    .gpu_load = gpu_load,
    .has_executors = true,
    .ahead_s = ahead_s,
    .foresee = foresee,
    .prepared_s = prepared_s,
    .prepares = prepares,
};
