/* local.c - jobs as processes of this host.
 *
 * The engine keeps no process of a job itself: each epoch has a shepherd
 * (engine/shepherd.h) that lives on when the engine dies. What is known of an
 * epoch is known from files and from the kernel, so that taking over after a
 * restart and watching from the start are one and the same.
 *
 * Invariants:
 * (1) a GPU is given out only when every epoch that held it is gone: its lock
 *     is free (all processes are) and its end is read;
 * (2) a job has at most one epoch; a step while it has one changes only what
 *     comes after it;
 * (3) an epoch's number is on the host's disk before its shepherd exists;
 * (4) time is that of day at the beginning, and passes as the monotonic clock
 *     does: it never goes back and does not jump.
 *
 * Cost: a turn looks at every epoch there is, by a few system calls each;
 * epochs are at most as many as GPUs times sharers.
 */
#include "base/clock.h"
#include "base/str.h"
#include "engine/cage.h"
#include "engine/holding.h"
#include "engine/localwork.h"
#include <math.h>
#include <time.h>

double local_now_s(const struct local *l)
{
    return clock_elapsed_s() + l->offset_s; /* (4) */
}

struct localjob *local_find(const struct local *l, firn_job_id id)
{
    for (size_t i = 0; i < l->jobs.n; i++)
        if (l->jobs.at[i]->id == id)
            return l->jobs.at[i];
    return NULL;
}

static struct localjob *find_or_add(struct local *l, firn_job_id id)
{
    struct localjob *job = local_find(l, id);
    if (job != NULL)
        return job;
    job = mem_new(1, sizeof *job);
    *job = (struct localjob){
        .id = id, .phase = FIRN_PHASE_QUEUED, .pidfd = -1, .watch = -1};
    size_t i = l->jobs.n;
    vec_add(&l->jobs, job);
    for (; i > 0 && l->jobs.at[i - 1]->id > id; i--)
        l->jobs.at[i] = l->jobs.at[i - 1];
    l->jobs.at[i] = job;
    return job;
}

void local_drop(struct local *l, struct localjob *job)
{
    size_t i = 0;
    while (l->jobs.at[i] != job)
        i++;
    for (; i + 1 < l->jobs.n; i++)
        l->jobs.at[i] = l->jobs.at[i + 1];
    l->jobs.n--;
    local_forget_epoch(l, job);
    mem_free(job->want.parts);
    mem_free(job);
}

void local_tell(struct local *l, struct firn_event event)
{
    event.at_s = local_now_s(l);
    vec_add(&l->owed, event);
}

void local_phase(struct local *l, struct localjob *job, enum firn_phase phase)
{
    if (job->phase == phase)
        return;
    job->phase = phase;
    if (phase != FIRN_PHASE_QUEUED)
        local_tell(l, (struct firn_event){.kind = FIRN_EVENT_PHASE,
                                          .job = job->id,
                                          .epoch = job->epoch,
                                          .phase = (int)phase});
}

/* How many epochs are on this GPU, and is one of them not of a sharer? */
static int holders(const struct local *l, const struct firn_part *part,
                   uint64_t bit, bool *is_whole)
{
    int n = 0;
    for (size_t i = 0; i < l->jobs.n; i++) {
        const struct firn_alloc *held = &l->jobs.at[i]->held;
        if (!holding_has(held, part, bit))
            continue;
        n++;
        *is_whole = *is_whole || !held->is_shared;
    }
    return n;
}

/* (1) */
static bool is_free(const struct local *l, const struct firn_alloc *want)
{
    int most = want->is_shared ? l->gpus.cluster.jobs_per_gpu : 1;
    for (int i = 0; i < want->nparts; i++)
        for (int k = 0; k < FIRN_BOARD_GPUS; k++) {
            uint64_t bit = (uint64_t)1 << k;
            bool is_whole = false;
            if ((want->parts[i].gpus & bit) == 0)
                continue;
            int n = holders(l, &want->parts[i], bit, &is_whole);
            if (is_whole || n >= most)
                return false;
        }
    return true;
}

static struct localjob *next_to_start(const struct local *l, double now_s)
{
    struct localjob *first = NULL;
    for (size_t i = 0; i < l->jobs.n; i++) {
        struct localjob *job = l->jobs.at[i];
        if (job->phase == FIRN_PHASE_QUEUED && job->want.nparts > 0 &&
            job->again_s <= now_s &&
            (first == NULL || job->turn < first->turn) &&
            is_free(l, &job->want))
            first = job;
    }
    return first;
}

static void start_all(struct local *l)
{
    struct localjob *job;
    while ((job = next_to_start(l, local_now_s(l))) != NULL)
        local_start(l, job); /* else not before a while */
}

static void turn(struct local *l)
{
    local_wake_drain(l);
    if (l->others_s <= local_now_s(l))
        local_others_look(l);
    for (size_t i = l->jobs.n; i-- > 0;) /* it may leave the list */
        if (l->jobs.at[i]->held.nparts > 0)
            local_look(l, l->jobs.at[i]);
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
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    l->offset_s =
        (double)t.tv_sec + 1e-9 * (double)t.tv_nsec - clock_elapsed_s();
    l->poll = l->timer = l->notes = -1;
    FIRN_TRY(gpus_open(&l->gpus, l->spec, err));
    local_others_open(l);
    return local_wake_open(l, err);
}

/* Jobs go on. */
static void close_engine(void *state)
{
    struct local *l = state;
    while (l->jobs.n > 0)
        local_drop(l, l->jobs.at[l->jobs.n - 1]);
    vec_release(&l->jobs);
    vec_release(&l->owed);
    vec_release(&l->boards);
    local_wake_close(l);
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
    mem_free(job->want.parts);
    job->want = (struct firn_alloc){0};
    if (job->held.nparts > 0) {
        local_leave(l, job);
        return;
    }
    local_tell(l, (struct firn_event){.kind = FIRN_EVENT_LEFT,
                                      .job = job->id,
                                      .epoch = job->epoch,
                                      .end = FIRN_END_CHECKPOINT});
    local_drop(l, job);
}

static enum firn_status apply(void *state, const struct firn_step *step,
                              struct firn_error *err)
{
    struct local *l = state;
    struct localjob *job = local_find(l, step->job->id);
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
    if (job->is_cancelled)
        return FIRN_OK; /* its end is on the way */
    holding_copy(&job->want, step->to);
    job->turn = l->turns++;
    job->again_s = 0;
    job->ntries = 0;
    if (job->held.nparts > 0 && job->phase != FIRN_PHASE_LEAVING) {
        if (holding_is_same_run(&job->held, step->to))
            holding_copy(&job->held, step->to);
        else
            local_leave(l, job); /* (2) */
    }
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

static bool pop(struct local *l, struct firn_event *out)
{
    if (l->nowed_given == l->owed.n) {
        l->owed.n = l->nowed_given = 0;
        return false;
    }
    *out = l->owed.at[l->nowed_given++];
    return true;
}

static bool next(void *state, double until_s, struct firn_event *out,
                 struct firn_error *err)
{
    struct local *l = state;
    (void)err;
    for (;;) {
        bool has_event = pop(l, out);
        if (!has_event) {
            turn(l);
            has_event = pop(l, out);
        }
        bool is_idle = l->jobs.n == 0 && isinf(until_s);
        if (has_event || is_idle || until_s <= local_now_s(l)) {
            local_wake_arm(l);
            return has_event;
        }
        local_wake_arm(l);
        local_wait(l, until_s);
    }
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
    holding_copy(&lj->want, &job->held);
    lj->turn = l->turns++;
    if (epoch > 0) {
        lj->epoch = epoch;
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
    return ((const struct local *)state)->poll;
}

static void cancel(void *state, firn_job_id id)
{
    struct local *l = state;
    struct localjob *job = local_find(l, id);
    if (job == NULL)
        return;
    job->is_cancelled = true;
    mem_free(job->want.parts);
    job->want = (struct firn_alloc){0};
    if (job->held.nparts > 0) {
        local_leave(l, job);
    } else {
        local_tell(l, (struct firn_event){.kind = FIRN_EVENT_FAIL,
                                          .job = job->id,
                                          .epoch = job->epoch,
                                          .end = FIRN_END_KILLED});
        local_drop(l, job);
    }
    local_wake_arm(l);
}

static enum firn_phase phase(void *state, firn_job_id id)
{
    const struct localjob *job = local_find(state, id);
    return job == NULL ? FIRN_PHASE_GONE : job->phase;
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
};
