/* slurm.c - runs jobs as Slurm jobs, pinned to the GPUs of the plan.
 *
 * firn decides, Slurm launches. The engine uses only Slurm's commands, without
 * a shell and without waiting for them (engine/childcmd.h). Each attempt is one
 * Slurm job whose batch step is a shepherd (engine/shepherd.h), so a start
 * works as on one host: the same files, locks, fence and verdicts, on a file
 * system that all nodes share.
 *
 * Invariants:
 * (1) a GPU is given out when every attempt that held it is gone: its locks are
 *     free and its end is known;
 * (2) a job has at most one attempt; a step during an attempt changes only what
 *     comes after it, or resizes it as it runs (slurm_resize.c);
 * (3) an attempt is submitted at most once, under its own tag, after its number
 *     is on the host's disk;
 * (4) while the controller does not answer, nothing changes: running attempts
 *     run on, starts wait;
 * (5) nodes and foreign jobs are never changed.
 *
 * Cost: two commands every `slurm.poll` seconds, and a few system calls a
 * second for each attempt.
 */
#include "base/buf.h"
#include "engine/holding.h"
#include "engine/passenv.h"
#include "engine/slurmticket.h"
#include "engine/slurmwork.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

enum { COMMANDS_MAX = 8 };

static struct slurmjob *find_or_add(struct slurm *slurm, firn_job_id id)
{
    return (struct slurmjob *)roster_add(&slurm->roster, id,
                                         sizeof(struct slurmjob));
}

static bool is_taken(const void *engine, const struct firn_alloc *gpus)
{
    return slurm_is_taken(engine, gpus);
}

static void start_all(struct slurm *slurm)
{
    const struct roster_starts starts = {
        .limits = {slurm->cluster.jobs_per_gpu, is_taken, slurm},
        .host = &slurm->host};
    struct rosterjob *job;
    if (slurm->away_s > 0)
        return; /* (4) */
    roster_number(&slurm->roster, &starts);
    while ((job = roster_next_to_launch(&slurm->roster)) != NULL)
        slurm_launch(slurm, (struct slurmjob *)job);
}

static void turn(void *state)
{
    struct slurm *slurm = state;
    slurm->has_changes =
        roster_wake_drain(&slurm->roster) || slurm->has_changes;
    if (!slurm->has_looked)
        slurm_nodes_first(slurm);
    slurm->has_looked = true;
    slurm_answers(slurm);
    double now_s = slurm_now_s(slurm);
    bool has_changes = slurm->has_changes;
    slurm->has_changes = false;
    for (size_t i = slurm->roster.jobs.n; i-- > 0;) { /* a job may be removed */
        struct slurmjob *job = slurm_at(slurm, i);
        if (job->base.held.nparts > 0 && (has_changes || now_s >= job->look_s))
            slurm_look(slurm, job);
    }
    for (size_t i = 0; i < slurm->roster.jobs.n; i++) {
        slurm_chain_look(slurm, slurm_at(slurm, i));
        if (slurm_resize_look(slurm, slurm_at(slurm, i)))
            slurm_leave(slurm, slurm_at(slurm, i), false);
    }
    slurm_bars_end(slurm);
    start_all(slurm);
    slurm_poll(slurm);
}

/* --- the engine's functions ----------------------------------------------- */

static double now_s(void *state)
{
    return slurm_now_s(state);
}

static enum firn_status open_engine(void *state, struct firn_error *err)
{
    struct slurm *slurm = state;
    roster_open(&slurm->roster);
    FIRN_TRY(passenv_check(slurm->pass_env, err));
    FIRN_TRY(commands_open(&slurm->commands, COMMANDS_MAX, err));
    slurm_users_open(slurm);
    FIRN_TRY(slurm_open(slurm, err));
    slurm_ahead_open(slurm);
    FIRN_TRY(slurm_inbox_open(slurm, err));
    return roster_wake_open(&slurm->roster, commands_fd(slurm->commands),
                            "commands", err);
}

/* Jobs keep running. */
static void close_engine(void *state)
{
    struct slurm *slurm = state;
    while (slurm->roster.jobs.n > 0)
        slurm_drop(slurm, slurm_at(slurm, slurm->roster.jobs.n - 1));
    for (size_t i = 0; i < slurm->releases.n; i++)
        holding_release(&slurm->releases.at[i].held);
    slurm_inbox_close(slurm);
    slurm_bars_close(slurm);
    slurm_ahead_close(slurm);
    roster_close(&slurm->roster);
    commands_close(slurm->commands);
    vec_release(&slurm->releases);
    vec_release(&slurm->orphans);
    vec_release(&slurm->returns);
    vec_release(&slurm->timed);
    vec_release(&slurm->users);
    vec_release(&slurm->hosts);
    vec_release(&slurm->names);
    buf_release(&slurm->spec);
    buf_release(&slurm->no_sharing);
    buf_release(&slurm->trouble);
    buf_release(&slurm->job_trouble);
    vec_release(&slurm->barred);
    firn_cluster_release(&slurm->cluster);
    arena_release(&slurm->text);
}

static enum firn_status discover(void *state, struct firn_cluster *out,
                                 struct firn_error *err)
{
    const struct slurm *slurm = state;
    enum firn_status status = firn_cluster_parse_spec(out, slurm->spec.at, err);
    if (status == FIRN_OK)
        out->jobs_per_gpu = slurm->cluster.jobs_per_gpu;
    return status;
}

static enum firn_status attach(void *state, const struct firn_engine_host *host,
                               struct firn_error *err)
{
    struct slurm *slurm = state;
    (void)err;
    slurm->host = *host;
    return FIRN_OK;
}

static enum firn_status apply(void *state, const struct firn_step *step,
                              struct firn_error *err)
{
    struct slurm *slurm = state;
    struct slurmjob *job = slurm_find(slurm, step->job->id);
    if (step->kind == FIRN_STEP_STOP) {
        if (job != NULL && roster_unwant(&slurm->roster, &job->base,
                                         FIRN_EVENT_LEFT, FIRN_END_CHECKPOINT))
            slurm_leave(slurm, job, step->is_loss);
        else if (job != NULL)
            slurm_drop(slurm, job);
        slurm_wake_arm(slurm);
        return FIRN_OK;
    }
    if (step->to->nparts == 0 || !holding_is_on(&slurm->cluster, step->to))
        return firn_fail(err, FIRN_EINVAL,
                         "job %d: Slurm does not have the GPUs of the step",
                         step->job->id);
    if (step->to->is_shared && slurm->no_sharing.n > 0)
        return firn_fail(err, FIRN_EINVAL, "job %d cannot share GPUs: %s",
                         step->job->id, slurm->no_sharing.at);
    FIRN_TRY(slurm_inbox_check(slurm, step->job->id, step->to, err));
    job = find_or_add(slurm, step->job->id);
    if (job->base.is_cancelled)
        return FIRN_OK; /* its end will be reported */
    if ((step->is_loss || !slurm_resize(slurm, job, step->to)) &&
        roster_move(&slurm->roster, &job->base, step->to))
        slurm_leave(slurm, job, step->is_loss); /* (2) */
    slurm_wake_arm(slurm);
    return FIRN_OK;
}

static enum firn_status settled(void *state, struct firn_error *err)
{
    struct slurm *slurm = state;
    (void)err;
    start_all(slurm);
    slurm_wake_arm(slurm);
    return FIRN_OK;
}

static bool next(void *state, double until_s, struct firn_event *out,
                 struct firn_error *err)
{
    struct slurm *slurm = state;
    const struct roster_work work = {turn, slurm_wake_arm, slurm};
    (void)err;
    return roster_next(&slurm->roster, &work, until_s, out);
}

static enum firn_status adopt(void *state, const struct firn_job *job,
                              int64_t attempt, struct firn_error *err)
{
    struct slurm *slurm = state;
    if (job->held.nparts == 0 || !holding_is_on(&slurm->cluster, &job->held))
        return firn_fail(err, FIRN_EINVAL,
                         "job %d held GPUs that Slurm does not have", job->id);
    struct slurmjob *sj = find_or_add(slurm, job->id);
    roster_want(&slurm->roster, &sj->base, &job->held);
    if (attempt > 0) {
        sj->base.attempt = attempt;
        enum firn_status status = slurm_take_over(slurm, sj, err);
        if (status != FIRN_OK) {
            slurm_drop(slurm, sj);
            return status;
        }
    }
    slurm_wake_arm(slurm);
    return FIRN_OK;
}

static int wake_fd(void *state)
{
    return ((const struct slurm *)state)->roster.poll;
}

static void cancel(void *state, firn_job_id id)
{
    struct slurm *slurm = state;
    struct slurmjob *job = slurm_find(slurm, id);
    if (job == NULL) {
        slurm_inbox_end(slurm, id);
        slurm_wake_arm(slurm);
        return;
    }
    job->base.is_cancelled = true;
    if (job->base.held.nparts == 0)
        slurm_inbox_end(slurm, id);
    if (roster_unwant(&slurm->roster, &job->base, FIRN_EVENT_FAIL,
                      FIRN_END_KILLED))
        slurm_leave(slurm, job, false);
    else
        slurm_drop(slurm, job);
    slurm_wake_arm(slurm);
}

static enum firn_phase phase(void *state, firn_job_id id)
{
    const struct slurmjob *job = slurm_find(state, id);
    return job == NULL ? FIRN_PHASE_GONE : job->base.phase;
}

static const char *trouble(void *state)
{
    const struct slurm *slurm = state;
    return slurm->away_s > 0 ? slurm->trouble.at : NULL;
}

static const char *job_trouble(void *state, firn_job_id id)
{
    struct slurm *slurm = state;
    const struct slurmjob *job = slurm_find(slurm, id);
    struct firn_bars bars;
    buf_clear(&slurm->job_trouble);
    if (job == NULL && slurm_bars(slurm, id, &bars) && bars.until_s > 0)
        return bars.why;
    if (job != NULL && job->is_seen && job->state == SLURM_SUSPENDED) {
        buf_printf(&slurm->job_trouble,
                   "suspended in Slurm: scontrol resume %lld",
                   (long long)job->slurm_id);
        return slurm->job_trouble.at;
    }
    if (job == NULL || job->has_pid)
        return NULL;
    if (job->refusal[0] != '\0')
        buf_printf(&slurm->job_trouble, "Slurm refuses it: %s", job->refusal);
    else if (job->is_seen && job->state == SLURM_PENDING &&
             job->reason[0] != '\0' && strcmp(job->reason, "None") != 0)
        buf_printf(&slurm->job_trouble, "pending as Slurm job %lld: %s",
                   (long long)job->slurm_id, job->reason);
    if (slurm->job_trouble.n > 0 && job->expected_s > slurm_now_s(slurm))
        buf_printf(&slurm->job_trouble,
                   "; Slurm expects to start it in %.0f min",
                   ceil((job->expected_s - slurm_now_s(slurm)) / 60));
    return slurm->job_trouble.n > 0 ? slurm->job_trouble.at : NULL;
}

/* Adds the nodes without the features that the job asks for to slurm->barred.
 */
static bool add_constraint(struct slurm *slurm,
                           const struct firn_launch *launch)
{
    bool has_any = false;
    if (launch->constraint == NULL || launch->constraint[0] == '\0')
        return false;
    for (size_t i = 0; i < slurm->hosts.n; i++)
        if (slurm_features_fit(launch->constraint,
                               slurm->hosts.at[i].features) == SLURM_FIT_NO) {
            slurm->barred.at[i / 64] |= (uint64_t)1 << i % 64;
            has_any = true;
        }
    return has_any;
}

/* What is known before Slurm refuses anything: slurm_ahead.c. */
static bool add_bounds(struct slurm *slurm, firn_job_id id,
                       const struct firn_launch *launch, struct firn_bars *out)
{
    struct slurm_bounds bounds;
    slurm_ahead_bounds(slurm, id, launch, &bounds);
    if (bounds.gpus_max > 0 &&
        (out->gpus_max <= 0 || bounds.gpus_max < out->gpus_max))
        out->gpus_max = bounds.gpus_max;
    out->until_s = fmax(out->until_s, bounds.until_s);
    if (bounds.why != NULL && (out->why[0] == '\0' || bounds.until_s > 0))
        out->why = bounds.why;
    if (bounds.has_nodes)
        out->nodes = slurm->barred.at;
    return bounds.why != NULL;
}

static bool bars(void *state, firn_job_id id, struct firn_bars *out)
{
    struct slurm *slurm = state;
    struct firn_launch launch = {0};
    bool has_bars = slurm_bars(slurm, id, out);
    const uint64_t *nodes = slurm_inbox_barred(slurm, id);
    size_t words = (slurm->hosts.n + 63) / 64;
    slurm->barred.n = 0;
    for (size_t i = 0; i < words; i++)
        vec_add(&slurm->barred, (nodes != NULL ? nodes[i] : 0) |
                                    (out->nodes != NULL ? out->nodes[i] : 0));
    bool is_known = slurm->host.launch != NULL &&
                    slurm->host.launch(slurm->host.arg, id, &launch);
    bool is_choosy = nodes != NULL;
    if (is_known)
        is_choosy = add_constraint(slurm, &launch) || is_choosy;
    if (!has_bars && is_choosy)
        out->why = "its constraint excludes the other nodes";
    if (is_choosy)
        out->nodes = slurm->barred.at;
    bool has_bounds = is_known && add_bounds(slurm, id, &launch, out);
    return has_bars || is_choosy || has_bounds;
}

static const char *no_sharing(void *state)
{
    const struct slurm *slurm = state;
    return slurm->no_sharing.n > 0 ? slurm->no_sharing.at : NULL;
}

static const char *node_name(void *state, firn_node_id node)
{
    const struct slurm *slurm = state;
    return node >= 0 && (size_t)node < slurm->names.n ? slurm->names.at[node]
                                                      : NULL;
}

static const char *node_why(void *state, firn_node_id node)
{
    const struct slurm *slurm = state;
    return node >= 0 && (size_t)node < slurm->hosts.n
               ? slurm->hosts.at[node].why
               : NULL;
}

/* The most of all its GPUs, as its supervisors on the nodes wrote it down. */
static bool load(void *state, firn_job_id id, struct firn_load *out)
{
    const struct slurmjob *job = slurm_find(state, id);
    struct firn_load most = {-1, -1}, one;
    if (job == NULL || job->base.folder == NULL)
        return false;
    int folder = attempt_folder(job->base.folder, job->base.attempt, false);
    if (folder < 0)
        return false;
    for (int i = 0; i < job->base.held.ngpus; i++) {
        if (attempt_load_get(folder, (size_t)i, job->base.attempt, &one) !=
            ATTEMPT_PRESENT)
            continue;
        most.util = fmax(most.util, one.util);
        most.mem_gib = fmax(most.mem_gib, one.mem_gib);
    }
    close(folder);
    if (most.util < 0)
        return false;
    *out = most;
    return true;
}

static double starts_in_s(void *state, firn_job_id id)
{
    const struct slurm *slurm = state;
    const struct slurmjob *job = slurm_find(slurm, id);
    bool is_pending = job != NULL && !job->has_pid && job->is_seen &&
                      job->state == SLURM_PENDING && job->expected_s > 0;
    return is_pending ? fmax(job->expected_s - slurm_now_s(slurm), 0) : 0;
}

/* The place of a GPU among those of the job, which is the number of the worker
 * that measures it; -1: the job does not hold it. */
static int place_of(const struct firn_alloc *held, firn_node_id node, int gpu)
{
    int n = 0;
    for (int i = 0; i < held->nparts; i++) {
        const struct firn_part *part = &held->parts[i];
        int bit = gpu - FIRN_BOARD_GPUS * part->board;
        uint64_t below = 0;
        if (part->node == node && bit >= 0 && bit < FIRN_BOARD_GPUS &&
            (part->gpus >> bit & 1) != 0) {
            below = part->gpus & ((UINT64_C(1) << bit) - 1);
            return n + __builtin_popcountll(below);
        }
        n += __builtin_popcountll(part->gpus);
    }
    return -1;
}

static bool gpu_load(void *state, firn_node_id node, int gpu, firn_job_id id,
                     struct firn_load *out)
{
    const struct slurmjob *job = slurm_find(state, id);
    if (job == NULL || job->base.folder == NULL)
        return false;
    int place = place_of(&job->base.held, node, gpu);
    int folder =
        place >= 0 ? attempt_folder(job->base.folder, job->base.attempt, false)
                   : -1;
    if (folder < 0)
        return false;
    bool is_known = attempt_load_get(folder, (size_t)place, job->base.attempt,
                                     out) == ATTEMPT_PRESENT;
    close(folder);
    return is_known;
}

static const struct firn_option options[] = {
    {.name = "partition",
     .type = FIRN_OPTION_TEXT,
     .fallback = "",
     .help = "partition for jobs; its nodes are used; empty: the default one",
     .offset = offsetof(struct slurm, partition)},
    {.name = "poll",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "0.5",
     .min = 0.01,
     .max = 60,
     .help = "seconds between polls while jobs start or leave; idle: 4 times",
     .offset = offsetof(struct slurm, poll_s)},
    {.name = "limit",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "0",
     .min = 0,
     .max = 1e8,
     .help = "time limit of each attempt in seconds; 0: the partition's own",
     .offset = offsetof(struct slurm, limit_s)},
    {.name = "force",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "10",
     .min = 0,
     .max = 3600,
     .help = "seconds after both graces until a hanging job is killed",
     .offset = offsetof(struct slurm, force_s)},
    {.name = "join-s",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "600",
     .min = 0,
     .max = 86400,
     .help = "seconds for new processes to join a running job; 0: restart it",
     .offset = offsetof(struct slurm, join_s)},
    {.name = "options",
     .type = FIRN_OPTION_TEXT,
     .fallback = "",
     .help = "additional sbatch options, such as --account=ml",
     .offset = offsetof(struct slurm, options)},
    {.name = "memory",
     .type = FIRN_OPTION_TEXT,
     .fallback = "",
     .help = "memory in GiB of GPU types, such as a100:80,x1:24",
     .offset = offsetof(struct slurm, memory)},
    {.name = "pass-env",
     .type = FIRN_OPTION_TEXT,
     .fallback = "",
     .help = "firnd's variables that jobs get in addition: NAME,PREFIX_*",
     .offset = offsetof(struct slurm, pass_env)},
    {.name = "program",
     .type = FIRN_OPTION_TEXT,
     .fallback = "/proc/self/exe",
     .help = "path of firnd on the nodes; default: the path of this one",
     .offset = offsetof(struct slurm, program)},
    {.name = "path",
     .type = FIRN_OPTION_TEXT,
     .fallback = "",
     .help = "folder of Slurm's commands; empty: searched along PATH",
     .offset = offsetof(struct slurm, path)},
    {.name = "inbox",
     .type = FIRN_OPTION_TEXT,
     .fallback = "off",
     .help = "a DOWN partition whose pending jobs firn schedules; off: none",
     .offset = offsetof(struct slurm, inbox_partition)},
    {.name = "state",
     .type = FIRN_OPTION_TEXT,
     .fallback = "",
     .help = "folder for the list of nodes; empty: firnd's state folder",
     .offset = offsetof(struct slurm, state)},
    {.name = "launcher",
     .type = FIRN_OPTION_TEXT,
     .fallback = "",
     .help = "socket of firn-launch: jobs are submitted as their users",
     .offset = offsetof(struct slurm, launcher)},
    {.name = NULL},
};

const struct firn_engine_def firn_engine_slurm = {
    .name = "slurm",
    .summary = "runs jobs in a Slurm cluster, pinned to nodes and GPUs",
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
    .load = load,
    .gpu_load = gpu_load,
    .bars = bars,
    .starts_in_s = starts_in_s,
};
