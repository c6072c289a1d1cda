/* slurm.c - jobs as jobs of Slurm's, pinned to the GPUs of the plan.
 *
 * firn decides, Slurm launches. Driven by Slurm's commands alone, started
 * without a shell and never waited for (engine/childcmd.h). Each epoch is one
 * Slurm job whose batch step is a shepherd (engine/shepherd.h), so that a start
 * means the same as on one host: the same files, locks, fence and verdicts, on
 * a file system that all nodes see.
 *
 * Invariants:
 * (1) GPUs are given out when every epoch that held them is gone: its locks are
 *     free and its end is known;
 * (2) a job has at most one epoch; a step while it has one changes only what
 *     comes after it;
 * (3) an epoch is submitted at most once, under a tag of its own, after its
 *     number is on the host's disk;
 * (4) a controller that does not answer changes nothing: what runs runs on,
 *     what is wanted waits;
 * (5) nodes are never changed, nor jobs of others.
 *
 * Cost: two commands every `slurm.poll` seconds, a few system calls a second
 * for each epoch.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "engine/holding.h"
#include "engine/slurmwork.h"
#include <math.h>
#include <time.h>

enum { COMMANDS_MAX = 8 };

double slurm_now_s(const struct slurm *l)
{
    return clock_elapsed_s() + l->offset_s;
}

struct slurmjob *slurm_find(const struct slurm *l, firn_job_id id)
{
    for (size_t i = 0; i < l->jobs.n; i++)
        if (l->jobs.at[i]->id == id)
            return l->jobs.at[i];
    return NULL;
}

static struct slurmjob *find_or_add(struct slurm *l, firn_job_id id)
{
    struct slurmjob *job = slurm_find(l, id);
    if (job != NULL)
        return job;
    job = mem_new(1, sizeof *job);
    *job = (struct slurmjob){.id = id, .phase = FIRN_PHASE_QUEUED, .watch = -1};
    size_t i = l->jobs.n;
    vec_add(&l->jobs, job);
    for (; i > 0 && l->jobs.at[i - 1]->id > id; i--)
        l->jobs.at[i] = l->jobs.at[i - 1];
    l->jobs.at[i] = job;
    return job;
}

void slurm_drop(struct slurm *l, struct slurmjob *job)
{
    size_t i = 0;
    while (l->jobs.at[i] != job)
        i++;
    for (; i + 1 < l->jobs.n; i++)
        l->jobs.at[i] = l->jobs.at[i + 1];
    l->jobs.n--;
    slurm_forget_epoch(l, job);
    holding_release(&job->want);
    mem_free(job);
}

void slurm_tell(struct slurm *l, struct firn_event event)
{
    event.at_s = slurm_now_s(l);
    vec_add(&l->owed, event);
}

void slurm_phase(struct slurm *l, struct slurmjob *job, enum firn_phase phase)
{
    if (job->phase == phase)
        return;
    job->phase = phase;
    if (phase != FIRN_PHASE_QUEUED)
        slurm_tell(l, (struct firn_event){.kind = FIRN_EVENT_PHASE,
                                          .job = job->id,
                                          .epoch = job->epoch,
                                          .phase = (int)phase});
}

/* How many epochs are on this GPU, and is one of them not of a sharer? */
static int holders(const struct slurm *l, const struct firn_part *part,
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
static bool is_free(const struct slurm *l, const struct firn_alloc *want)
{
    int most = want->is_shared ? l->cluster.jobs_per_gpu : 1;
    if (slurm_is_taken(l, want))
        return false; /* by others */
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

static struct slurmjob *next_to_start(const struct slurm *l, double now_s)
{
    struct slurmjob *first = NULL;
    for (size_t i = 0; i < l->jobs.n; i++) {
        struct slurmjob *job = l->jobs.at[i];
        if (job->phase == FIRN_PHASE_QUEUED && job->want.nparts > 0 &&
            job->again_s <= now_s &&
            (first == NULL || job->turn < first->turn) &&
            is_free(l, &job->want))
            first = job;
    }
    return first;
}

static void start_all(struct slurm *l)
{
    struct slurmjob *job;
    if (l->away_s > 0)
        return; /* (4) */
    while ((job = next_to_start(l, slurm_now_s(l))) != NULL)
        slurm_start(l, job);
}

static void turn(struct slurm *l)
{
    slurm_wake_drain(l);
    if (!l->has_looked)
        slurm_nodes_first(l);
    l->has_looked = true;
    slurm_answers(l);
    double now_s = slurm_now_s(l);
    bool is_stirred = l->is_stirred;
    l->is_stirred = false;
    for (size_t i = l->jobs.n; i-- > 0;) { /* it may leave the list */
        struct slurmjob *job = l->jobs.at[i];
        if (job->held.nparts > 0 && (is_stirred || now_s >= job->look_s))
            slurm_look(l, job);
    }
    start_all(l);
    slurm_poll(l);
}

/* --- the engine's functions ----------------------------------------------- */

static double now_s(void *state)
{
    return slurm_now_s(state);
}

static enum firn_status open_engine(void *state, struct firn_error *err)
{
    struct slurm *l = state;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    l->offset_s =
        (double)t.tv_sec + 1e-9 * (double)t.tv_nsec - clock_elapsed_s();
    l->poll = l->timer = l->notes = -1;
    FIRN_TRY(commands_open(&l->commands, COMMANDS_MAX, err));
    FIRN_TRY(slurm_open(l, err));
    FIRN_TRY(slurm_inbox_open(l, err));
    return slurm_wake_open(l, err);
}

/* Jobs go on. */
static void close_engine(void *state)
{
    struct slurm *l = state;
    while (l->jobs.n > 0)
        slurm_drop(l, l->jobs.at[l->jobs.n - 1]);
    for (size_t i = 0; i < l->rests.n; i++)
        holding_release(&l->rests.at[i].held);
    slurm_inbox_close(l);
    slurm_wake_close(l);
    commands_close(l->commands);
    vec_release(&l->jobs);
    vec_release(&l->rests);
    vec_release(&l->strays);
    vec_release(&l->owed);
    vec_release(&l->hosts);
    vec_release(&l->names);
    buf_release(&l->spec);
    buf_release(&l->no_sharing);
    buf_release(&l->trouble);
    firn_cluster_release(&l->cluster);
    arena_release(&l->text);
}

static enum firn_status discover(void *state, struct firn_cluster *out,
                                 struct firn_error *err)
{
    const struct slurm *l = state;
    enum firn_status status = firn_cluster_parse_spec(out, l->spec.at, err);
    if (status == FIRN_OK)
        out->jobs_per_gpu = l->cluster.jobs_per_gpu;
    return status;
}

static enum firn_status attach(void *state, const struct firn_engine_host *host,
                               struct firn_error *err)
{
    struct slurm *l = state;
    (void)err;
    l->host = *host;
    return FIRN_OK;
}

static void stop(struct slurm *l, struct slurmjob *job, bool is_loss)
{
    holding_release(&job->want);
    if (job->held.nparts > 0) {
        slurm_leave(l, job, is_loss);
        return;
    }
    slurm_tell(l, (struct firn_event){.kind = FIRN_EVENT_LEFT,
                                      .job = job->id,
                                      .epoch = job->epoch,
                                      .end = FIRN_END_CHECKPOINT});
    slurm_drop(l, job);
}

static enum firn_status apply(void *state, const struct firn_step *step,
                              struct firn_error *err)
{
    struct slurm *l = state;
    struct slurmjob *job = slurm_find(l, step->job->id);
    if (step->kind == FIRN_STEP_STOP) {
        if (job != NULL)
            stop(l, job, step->is_loss);
        slurm_wake_arm(l);
        return FIRN_OK;
    }
    if (step->to->nparts == 0 || !holding_is_on(&l->cluster, step->to))
        return firn_fail(err, FIRN_EINVAL,
                         "job %d: GPUs that Slurm does not have",
                         step->job->id);
    if (step->to->is_shared && l->no_sharing.n > 0)
        return firn_fail(err, FIRN_EINVAL, "job %d cannot share GPUs: %s",
                         step->job->id, l->no_sharing.at);
    FIRN_TRY(slurm_inbox_check(l, step->job->id, step->to, err));
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
            slurm_leave(l, job, step->is_loss); /* (2) */
    }
    slurm_wake_arm(l);
    return FIRN_OK;
}

static enum firn_status settled(void *state, struct firn_error *err)
{
    struct slurm *l = state;
    (void)err;
    start_all(l);
    slurm_wake_arm(l);
    return FIRN_OK;
}

static bool pop(struct slurm *l, struct firn_event *out)
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
    struct slurm *l = state;
    (void)err;
    for (;;) {
        bool has_event = pop(l, out);
        if (!has_event) {
            turn(l);
            has_event = pop(l, out);
        }
        bool is_idle = l->jobs.n == 0 && isinf(until_s);
        if (has_event || is_idle || until_s <= slurm_now_s(l)) {
            slurm_wake_arm(l);
            return has_event;
        }
        slurm_wake_arm(l);
        slurm_wait(l, until_s);
    }
}

static enum firn_status adopt(void *state, const struct firn_job *job,
                              int64_t epoch, struct firn_error *err)
{
    struct slurm *l = state;
    if (job->held.nparts == 0 || !holding_is_on(&l->cluster, &job->held))
        return firn_fail(err, FIRN_EINVAL,
                         "job %d held GPUs that Slurm does not have", job->id);
    struct slurmjob *sj = find_or_add(l, job->id);
    holding_copy(&sj->want, &job->held);
    sj->turn = l->turns++;
    if (epoch > 0) {
        sj->epoch = epoch;
        enum firn_status status = slurm_take_over(l, sj, err);
        if (status != FIRN_OK) {
            slurm_drop(l, sj);
            return status;
        }
    }
    slurm_wake_arm(l);
    return FIRN_OK;
}

static int wake_fd(void *state)
{
    return ((const struct slurm *)state)->poll;
}

static void cancel(void *state, firn_job_id id)
{
    struct slurm *l = state;
    struct slurmjob *job = slurm_find(l, id);
    if (job == NULL) {
        slurm_inbox_end(l, id);
        slurm_wake_arm(l);
        return;
    }
    job->is_cancelled = true;
    holding_release(&job->want);
    if (job->held.nparts > 0) {
        slurm_leave(l, job, false);
    } else {
        slurm_inbox_end(l, id);
        slurm_tell(l, (struct firn_event){.kind = FIRN_EVENT_FAIL,
                                          .job = job->id,
                                          .epoch = job->epoch,
                                          .end = FIRN_END_KILLED});
        slurm_drop(l, job);
    }
    slurm_wake_arm(l);
}

static enum firn_phase phase(void *state, firn_job_id id)
{
    const struct slurmjob *job = slurm_find(state, id);
    return job == NULL ? FIRN_PHASE_GONE : job->phase;
}

static const char *trouble(void *state)
{
    const struct slurm *l = state;
    return l->away_s > 0 ? l->trouble.at : NULL;
}

static const char *no_sharing(void *state)
{
    const struct slurm *l = state;
    return l->no_sharing.n > 0 ? l->no_sharing.at : NULL;
}

static const char *node_name(void *state, firn_node_id node)
{
    const struct slurm *l = state;
    return node >= 0 && (size_t)node < l->names.n ? l->names.at[node] : NULL;
}

static const char *node_why(void *state, firn_node_id node)
{
    const struct slurm *l = state;
    return node >= 0 && (size_t)node < l->hosts.n ? l->hosts.at[node].why
                                                  : NULL;
}

static const struct firn_option options[] = {
    {.name = "partition",
     .type = FIRN_OPTION_TEXT,
     .fallback = "",
     .help = "where jobs are sent and whose nodes are ours; none: the default",
     .offset = offsetof(struct slurm, partition)},
    {.name = "poll",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "0.5",
     .min = 0.01,
     .max = 60,
     .help = "seconds between questions while something moves; else 4 times it",
     .offset = offsetof(struct slurm, poll_s)},
    {.name = "limit",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "0",
     .min = 0,
     .max = 1e8,
     .help = "time limit of each start in seconds; 0: the partition's own",
     .offset = offsetof(struct slurm, limit_s)},
    {.name = "force",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "10",
     .min = 0,
     .max = 3600,
     .help = "seconds after both graces until a job that hangs is killed",
     .offset = offsetof(struct slurm, force_s)},
    {.name = "options",
     .type = FIRN_OPTION_TEXT,
     .fallback = "",
     .help = "the site's own options of sbatch, such as --account=ml",
     .offset = offsetof(struct slurm, options)},
    {.name = "memory",
     .type = FIRN_OPTION_TEXT,
     .fallback = "",
     .help = "GiB of types that firn does not know, such as a100:80,x1:24",
     .offset = offsetof(struct slurm, memory)},
    {.name = "program",
     .type = FIRN_OPTION_TEXT,
     .fallback = "/proc/self/exe",
     .help = "firnd as the nodes see it; as given: where this one is",
     .offset = offsetof(struct slurm, program)},
    {.name = "path",
     .type = FIRN_OPTION_TEXT,
     .fallback = "",
     .help = "folder of Slurm's commands; none: PATH",
     .offset = offsetof(struct slurm, path)},
    {.name = "inbox",
     .type = FIRN_OPTION_TEXT,
     .fallback = "off",
     .help = "a closed partition whose waiting jobs are taken in; off: none",
     .offset = offsetof(struct slurm, inbox_partition)},
    {.name = "state",
     .type = FIRN_OPTION_TEXT,
     .fallback = "",
     .help = "folder where the nodes are kept; none: firnd's own",
     .offset = offsetof(struct slurm, state)},
    {.name = NULL},
};

const struct firn_engine_def firn_engine_slurm = {
    .name = "slurm",
    .summary = "jobs of a Slurm cluster, pinned to its nodes and GPUs",
    .options = options,
    .state_size = sizeof(struct slurm),
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
    .is_remote = true,
    .trouble = trouble,
    .no_sharing = no_sharing,
    .node_name = node_name,
    .node_why = node_why,
};
