/* local.c - jobs as processes of this host.
 *
 * The engine keeps no process of a job itself: each epoch has a shepherd
 * (engine/shepherd.h) that lives on when the engine dies. What is known of an
 * epoch is known from files and from the kernel, so that taking over after a
 * restart and watching from the start are one and the same.
 *
 * Invariants:
 * (1) a GPU is given out only when every epoch that held it is gone: its lock
 *     is free and its end is read, or no process is left that was its own; and
 *     a job is started only when no process of the host has its mark;
 * (2) a job has at most one epoch; a step while it has one changes only what
 *     comes after it;
 * (3) an epoch's number is on the host's disk before its shepherd exists.
 *
 * Cost: a turn looks at every epoch there is, by a few system calls each;
 * epochs are at most as many as GPUs times sharers.
 */
#include "base/str.h"
#include "engine/cage.h"
#include "engine/herd.h"
#include "engine/holding.h"
#include "engine/localwork.h"
#include "engine/passenv.h"
#include <errno.h>
#include <math.h>
#include <string.h>

static struct localjob *find(const struct local *l, firn_job_id id)
{
    return (struct localjob *)roster_find(&l->roster, id);
}

static struct localjob *find_or_add(struct local *l, firn_job_id id)
{
    struct localjob *job = find(l, id);
    if (job != NULL)
        return job;
    job = (struct localjob *)roster_add(&l->roster, id, sizeof *job);
    job->pidfd = -1;
    return job;
}

void local_drop(struct local *l, struct localjob *job)
{
    local_forget_epoch(l, job);
    roster_drop(&l->roster, &job->base);
}

static void start_all(struct local *l)
{
    const struct roster_limits limits = {.jobs_per_gpu =
                                             l->gpus.cluster.jobs_per_gpu};
    struct rosterjob *job;
    struct herd herd = {0};
    int error = -1; /* no look was taken */
    while ((job = roster_next_to_start(&l->roster, &limits)) != NULL) {
        if (error < 0)
            error = herd_look(&herd, l->host.mark) ? 0 : errno;
        if (error > 0)
            roster_again(&l->roster, job, strerror(error));
        else if (local_is_alone(l, job, &herd))
            local_start(l, (struct localjob *)job); /* else after a while */
    }
    herd_release(&herd);
}

static void turn(void *state)
{
    struct local *l = state;
    roster_wake_drain(&l->roster);
    if (l->others_s <= local_now_s(l))
        local_others_look(l);
    for (size_t i = l->roster.jobs.n; i-- > 0;) { /* it may leave the list */
        struct rosterjob *job = l->roster.jobs.at[i];
        if (job->held.nparts > 0)
            local_look(l, (struct localjob *)job);
    }
    start_all(l);
}

/* --- the engine's functions ------------------------------------------------
 */

static double now_s(void *state)
{
    return local_now_s(state);
}

static enum firn_status open_engine(void *state, struct firn_error *err)
{
    struct local *l = state;
    roster_open(&l->roster);
    FIRN_TRY(passenv_check(l->pass_env, err));
    FIRN_TRY(gpus_open(&l->gpus, l->spec, err));
    local_others_open(l);
    return roster_wake_open(&l->roster, -1, "processes", err);
}

/* Jobs go on. */
static void close_engine(void *state)
{
    struct local *l = state;
    const struct roster *r = &l->roster;
    while (r->jobs.n > 0)
        local_drop(l, (struct localjob *)r->jobs.at[r->jobs.n - 1]);
    vec_release(&l->boards);
    roster_close(&l->roster);
    gpus_close(&l->gpus);
}

static enum firn_status discover(void *state, struct firn_cluster *out,
                                 struct firn_error *err)
{
    const struct local *l = state;
    return firn_cluster_parse_spec(out, l->gpus.spec.at, err);
}

static enum firn_status attach(void *state, const struct firn_engine_host *host,
                               struct firn_error *err)
{
    struct local *l = state;
    (void)err;
    l->host = *host;
    return FIRN_OK;
}

static void stop(struct local *l, struct localjob *job)
{
    if (roster_unwant(&l->roster, &job->base, FIRN_EVENT_LEFT,
                      FIRN_END_CHECKPOINT))
        local_leave(l, job);
    else
        local_drop(l, job);
}

static enum firn_status apply(void *state, const struct firn_step *step,
                              struct firn_error *err)
{
    struct local *l = state;
    struct localjob *job = find(l, step->job->id);
    if (step->kind == FIRN_STEP_STOP) {
        if (job != NULL)
            stop(l, job);
        local_wake_arm(l);
        return FIRN_OK;
    }
    if (step->to->nparts == 0 || !holding_is_on(&l->gpus.cluster, step->to))
        return firn_fail(err, FIRN_EINVAL,
                         "job %d: GPUs that this host does not have",
                         step->job->id);
    job = find_or_add(l, step->job->id);
    if (job->base.is_cancelled)
        return FIRN_OK; /* its end is on the way */
    if (roster_move(&l->roster, &job->base, step->to))
        local_leave(l, job); /* (2) */
    local_wake_arm(l);
    return FIRN_OK;
}

static enum firn_status settled(void *state, struct firn_error *err)
{
    struct local *l = state;
    (void)err;
    start_all(l);
    local_wake_arm(l);
    return FIRN_OK;
}

static void arm(void *state)
{
    local_wake_arm(state);
}

static bool next(void *state, double until_s, struct firn_event *out,
                 struct firn_error *err)
{
    struct local *l = state;
    const struct roster_work work = {turn, arm, l};
    (void)err;
    return roster_next(&l->roster, &work, until_s, out);
}

static enum firn_status adopt(void *state, const struct firn_job *job,
                              int64_t epoch, struct firn_error *err)
{
    struct local *l = state;
    if (job->held.nparts == 0 || !holding_is_on(&l->gpus.cluster, &job->held))
        return firn_fail(err, FIRN_EINVAL,
                         "job %d held GPUs that this host does not have",
                         job->id);
    struct localjob *lj = find_or_add(l, job->id);
    roster_want(&l->roster, &lj->base, &job->held);
    if (epoch > 0) {
        lj->base.epoch = epoch;
        enum firn_status status = local_take_over(l, lj, err);
        if (status != FIRN_OK) {
            local_drop(l, lj);
            return status;
        }
    }
    local_wake_arm(l);
    return FIRN_OK;
}

static int wake_fd(void *state)
{
    return ((const struct local *)state)->roster.poll;
}

static void cancel(void *state, firn_job_id id)
{
    struct local *l = state;
    struct localjob *job = find(l, id);
    if (job == NULL)
        return;
    job->base.is_cancelled = true;
    if (roster_unwant(&l->roster, &job->base, FIRN_EVENT_FAIL, FIRN_END_KILLED))
        local_leave(l, job);
    else
        local_drop(l, job);
    local_wake_arm(l);
}

static enum firn_phase phase(void *state, firn_job_id id)
{
    const struct localjob *job = find(state, id);
    return job == NULL ? FIRN_PHASE_GONE : job->base.phase;
}

static bool load(void *state, firn_job_id id, struct firn_load *out)
{
    const struct local *l = state;
    const struct localjob *job = find(l, id);
    struct firn_load most = {-1, -1}, one;
    if (job == NULL || !l->gpus.has_nvml)
        return false;
    for (int i = 0; i < job->base.held.nparts; i++) {
        const struct firn_part *part = &job->base.held.parts[i];
        for (int k = 0; k < FIRN_BOARD_GPUS; k++) {
            if ((part->gpus >> k & 1) == 0)
                continue;
            const struct gpu *gpu = gpus_at(&l->gpus, part->node,
                                            FIRN_BOARD_GPUS * part->board + k);
            if (gpu == NULL || !nvml_load(&l->gpus.nvml, gpu->device, &one))
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

static const char *const cage_words[] = {
    [CAGE_AUTO] = "auto", [CAGE_ON] = "on", [CAGE_OFF] = "off", NULL};

static const struct firn_option options[] = {
    {.name = "gpus",
     .type = FIRN_OPTION_TEXT,
     .fallback = "",
     .help = "GPUs declared by hand, such as 2x4:v100@16; none: the driver's",
     .offset = offsetof(struct local, spec)},
    {.name = "shepherd",
     .type = FIRN_OPTION_TEXT,
     .fallback = "/proc/self/exe",
     .help = "the program that is run as PROGRAM --shepherd FOLDER",
     .offset = offsetof(struct local, shepherd)},
    {.name = "pass-env",
     .type = FIRN_OPTION_TEXT,
     .fallback = "",
     .help = "more variables of firnd's that jobs get: NAME,PREFIX_*",
     .offset = offsetof(struct local, pass_env)},
    {.name = "cgroup",
     .type = FIRN_OPTION_CHOICE,
     .fallback = "auto",
     .choices = cage_words,
     .help = "a control group for each epoch: where delegated, always, never",
     .offset = offsetof(struct local, cage)},
    {.name = "force-s",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "10",
     .min = 0,
     .max = 3600,
     .help = "after both graces, until a shepherd that hangs is killed too",
     .offset = offsetof(struct local, force_s)},
    {.name = "others-s",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "5",
     .min = 0.1,
     .max = 3600,
     .help = "so often the driver is asked who else uses its GPUs",
     .offset = offsetof(struct local, every_s)},
    {.name = NULL},
};

const struct firn_engine_def firn_engine_local = {
    .name = "local",
    .summary = "processes on this host, on its GPUs or on declared ones",
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
    .phase = phase,
    .load = load,
};
