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
#include "engine/holding.h"
#include "engine/passenv.h"
#include "engine/slurmwork.h"
#include <string.h>

enum { COMMANDS_MAX = 8 };

struct slurmjob *slurm_find(const struct slurm *l, firn_job_id id)
{
    return (struct slurmjob *)roster_find(&l->roster, id);
}

static struct slurmjob *find_or_add(struct slurm *l, firn_job_id id)
{
    return (struct slurmjob *)roster_add(&l->roster, id,
                                         sizeof(struct slurmjob));
}

void slurm_drop(struct slurm *l, struct slurmjob *job)
{
    slurm_forget_epoch(l, job);
    roster_drop(&l->roster, &job->base);
}

static bool is_taken(const void *engine, const struct firn_alloc *gpus)
{
    return slurm_is_taken(engine, gpus);
}

static void start_all(struct slurm *l)
{
    const struct roster_limits limits = {l->cluster.jobs_per_gpu, is_taken, l};
    struct rosterjob *job;
    if (l->away_s > 0)
        return; /* (4) */
    while ((job = roster_next_to_start(&l->roster, &limits)) != NULL)
        slurm_start(l, (struct slurmjob *)job);
}

static void turn(void *state)
{
    struct slurm *l = state;
    l->is_stirred = roster_wake_drain(&l->roster) || l->is_stirred;
    if (!l->has_looked)
        slurm_nodes_first(l);
    l->has_looked = true;
    slurm_answers(l);
    double now_s = slurm_now_s(l);
    bool is_stirred = l->is_stirred;
    l->is_stirred = false;
    for (size_t i = l->roster.jobs.n; i-- > 0;) { /* it may leave the list */
        struct slurmjob *job = slurm_at(l, i);
        if (job->base.held.nparts > 0 && (is_stirred || now_s >= job->look_s))
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
    roster_open(&l->roster);
    FIRN_TRY(passenv_check(l->pass_env, err));
    FIRN_TRY(commands_open(&l->commands, COMMANDS_MAX, err));
    FIRN_TRY(slurm_open(l, err));
    FIRN_TRY(slurm_inbox_open(l, err));
    return roster_wake_open(&l->roster, commands_fd(l->commands), "commands",
                            err);
}

/* Jobs go on. */
static void close_engine(void *state)
{
    struct slurm *l = state;
    while (l->roster.jobs.n > 0)
        slurm_drop(l, slurm_at(l, l->roster.jobs.n - 1));
    for (size_t i = 0; i < l->rests.n; i++)
        holding_release(&l->rests.at[i].held);
    slurm_inbox_close(l);
    roster_close(&l->roster);
    commands_close(l->commands);
    vec_release(&l->rests);
    vec_release(&l->strays);
    vec_release(&l->hosts);
    vec_release(&l->names);
    buf_release(&l->spec);
    buf_release(&l->no_sharing);
    buf_release(&l->trouble);
    buf_release(&l->word);
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
    if (roster_unwant(&l->roster, &job->base, FIRN_EVENT_LEFT,
                      FIRN_END_CHECKPOINT))
        slurm_leave(l, job, is_loss);
    else
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
    if (job->base.is_cancelled)
        return FIRN_OK; /* its end is on the way */
    if (roster_move(&l->roster, &job->base, step->to))
        slurm_leave(l, job, step->is_loss); /* (2) */
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

static void arm(void *state)
{
    slurm_wake_arm(state);
}

static bool next(void *state, double until_s, struct firn_event *out,
                 struct firn_error *err)
{
    struct slurm *l = state;
    const struct roster_work work = {turn, arm, l};
    (void)err;
    return roster_next(&l->roster, &work, until_s, out);
}

static enum firn_status adopt(void *state, const struct firn_job *job,
                              int64_t epoch, struct firn_error *err)
{
    struct slurm *l = state;
    if (job->held.nparts == 0 || !holding_is_on(&l->cluster, &job->held))
        return firn_fail(err, FIRN_EINVAL,
                         "job %d held GPUs that Slurm does not have", job->id);
    struct slurmjob *sj = find_or_add(l, job->id);
    roster_want(&l->roster, &sj->base, &job->held);
    if (epoch > 0) {
        sj->base.epoch = epoch;
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
    return ((const struct slurm *)state)->roster.poll;
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
    job->base.is_cancelled = true;
    if (job->base.held.nparts == 0)
        slurm_inbox_end(l, id);
    if (roster_unwant(&l->roster, &job->base, FIRN_EVENT_FAIL, FIRN_END_KILLED))
        slurm_leave(l, job, false);
    else
        slurm_drop(l, job);
    slurm_wake_arm(l);
}

static enum firn_phase phase(void *state, firn_job_id id)
{
    const struct slurmjob *job = slurm_find(state, id);
    return job == NULL ? FIRN_PHASE_GONE : job->base.phase;
}

static const char *trouble(void *state)
{
    const struct slurm *l = state;
    return l->away_s > 0 ? l->trouble.at : NULL;
}

static const char *job_trouble(void *state, firn_job_id id)
{
    struct slurm *l = state;
    const struct slurmjob *job = slurm_find(l, id);
    buf_clear(&l->word);
    if (job == NULL || job->has_pid)
        return NULL;
    if (job->said[0] != '\0')
        buf_printf(&l->word, "Slurm does not take it: %s", job->said);
    else if (job->is_seen && job->state == SLURM_PENDING &&
             job->reason[0] != '\0' && strcmp(job->reason, "None") != 0)
        buf_printf(&l->word, "Slurm has it waiting as its job %lld: %s",
                   (long long)job->slurm_id, job->reason);
    return l->word.n > 0 ? l->word.at : NULL;
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
    {.name = "pass-env",
     .type = FIRN_OPTION_TEXT,
     .fallback = "",
     .help = "more variables of firnd's that jobs get: NAME,PREFIX_*",
     .offset = offsetof(struct slurm, pass_env)},
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
    .job_trouble = job_trouble,
    .no_sharing = no_sharing,
    .node_name = node_name,
    .node_why = node_why,
};
