/* slurm_batch.c - the arguments of sbatch for an allocation.
 *
 * One Slurm job, pinned to nodes and to GPUs of each, with one task for each
 * worker. Slurm asks the same of all nodes of a job, so nodes with different
 * wants (type, number or slots of GPUs) become components of a heterogeneous
 * job, separated by ":".
 *
 *     slots   gpu:a100s1:1,gpu:a100s3:1         whole
 *             shard:a100s1:2,shard:a100s3:2     shared, an equal part of each
 *     counts  gpu:a100:2, or gpu:2 where GPUs have no type
 *
 * Arguments are numbers, Slurm's names of nodes, slurm.options, and what the
 * job's `slurm:` block says, whose letters the host has checked
 * (daemon/slurmask.c). sbatch runs with few variables, set by env(1),
 * because Slurm copies its whole environment into the job; the workers'
 * variables are in the launch file. For another user's job the launcher runs
 * sbatch (slurm_users.c), with a script and an environment of its own.
 */
#include "base/buf.h"
#include "engine/slurmwork.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is wanted of one node. */
struct want {
    firn_node_id node;
    const char *gres;
    int ntasks;
    bool is_put;
};
struct wants {
    VEC(struct want) at;
};

static void add_slots(const struct slurm *slurm, const struct firn_part *part,
                      bool is_shared, struct firn_buf *out)
{
    const struct slurm_host *host = &slurm->hosts.at[part->node];
    int n = is_shared ? host->shards_per_gpu / slurm->cluster.jobs_per_gpu : 1;
    const char *kind = !is_shared ? "gpu" : host->is_mps ? "mps" : "shard";
    for (int k = 0; k < FIRN_BOARD_GPUS; k++)
        if ((part->gpus >> k & 1) != 0)
            buf_printf(out, "%s%s:%ss%d:%d", out->n > 0 ? "," : "", kind,
                       host->type, FIRN_BOARD_GPUS * part->board + k, n);
}

static const char *gres_of(const struct slurm *slurm,
                           const struct firn_alloc *alloc, firn_node_id node,
                           struct arena *arena, int *ngpus)
{
    const struct slurm_host *host = &slurm->hosts.at[node];
    struct firn_buf text = {0};
    int n = 0;
    for (int i = 0; i < alloc->nparts; i++) {
        if (alloc->parts[i].node != node)
            continue;
        n += __builtin_popcountll(alloc->parts[i].gpus);
        if (host->naming == SLURM_SLOTS)
            add_slots(slurm, &alloc->parts[i], alloc->is_shared, &text);
    }
    if (host->naming != SLURM_SLOTS && strcmp(host->type, "gpu") == 0)
        buf_printf(&text, "gpu:%d", n);
    else if (host->naming != SLURM_SLOTS)
        buf_printf(&text, "gpu:%s:%d", host->type, n);
    const char *copy = arena_strdup(arena, text.at);
    buf_release(&text);
    *ngpus = n;
    return copy;
}

static void find_wants(const struct slurm *slurm,
                       const struct firn_alloc *alloc, bool is_per_node,
                       struct wants *out, struct arena *arena)
{
    for (int i = 0; i < alloc->nparts; i++) {
        firn_node_id node = alloc->parts[i].node;
        if (i > 0 && alloc->parts[i - 1].node == node)
            continue;
        int ngpus = 0;
        struct want want = {.node = node,
                            .gres = gres_of(slurm, alloc, node, arena, &ngpus)};
        want.ntasks = is_per_node ? 1 : ngpus;
        vec_add(&out->at, want);
    }
}

/* slurm.options, split at blanks. */
static void add_options(const struct slurm *slurm, struct slurm_argv *out,
                        struct arena *arena)
{
    for (const char *at = slurm->options; *at != '\0';) {
        size_t n = strcspn(at, " \t");
        if (n > 0)
            vec_add(&out->at, arena_printf(arena, "%.*s", (int)n, at));
        at += n + strspn(at + n, " \t");
    }
}

/* One component: all nodes with the same wants as the first. */
static void add_component(const struct slurm *slurm, const char *mark,
                          struct wants *wants, size_t first,
                          const struct firn_launch *launch,
                          struct slurm_argv *out, struct arena *arena)
{
    const struct want *like = &wants->at.at[first];
    struct firn_buf nodes = {0};
    int nnodes = 0;
    for (size_t i = first; i < wants->at.n; i++) {
        struct want *want = &wants->at.at[i];
        if (want->is_put || want->ntasks != like->ntasks ||
            strcmp(want->gres, like->gres) != 0)
            continue;
        buf_printf(&nodes, "%s%s", nnodes > 0 ? "," : "",
                   slurm->names.at[want->node]);
        want->is_put = true;
        nnodes++;
    }
    add_options(slurm, out, arena);
    vec_add(&out->at, arena_printf(arena, "--job-name=%s", mark));
    vec_add(&out->at, arena_printf(arena, "--comment=%s", mark));
    vec_add(&out->at, arena_printf(arena, "--partition=%s", slurm->partition));
    for (const char *const *at = launch->submit_options;
         at != NULL && *at != NULL; at++)
        vec_add(&out->at, *at); /* of two equal options the last counts */
    vec_add(&out->at, arena_printf(arena, "--nodes=%d", nnodes));
    vec_add(&out->at, arena_printf(arena, "--nodelist=%s", nodes.at));
    vec_add(&out->at,
            arena_printf(arena, "--ntasks-per-node=%d", like->ntasks));
    vec_add(&out->at, arena_printf(arena, "--gres=%s", like->gres));
    buf_release(&nodes);
}

/* env -i NAME=value ... sbatch */
static void add_environment(const struct slurm *slurm, struct slurm_argv *out,
                            struct arena *arena)
{
    static const char *const kept[] = {"PATH", "SLURM_CONF", "HOME",
                                       "USER", "LOGNAME",    "LD_LIBRARY_PATH"};
    vec_add(&out->at, "env");
    vec_add(&out->at, "-i");
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        const char *value = getenv(kept[i]);
        if (value != NULL)
            vec_add(&out->at, arena_printf(arena, "%s=%s", kept[i], value));
    }
    vec_add(&out->at, slurm->path[0] != '\0'
                          ? arena_printf(arena, "%s/sbatch", slurm->path)
                          : "sbatch");
}

/* The time limit, and a request for a checkpoint before it, but not before half
 * of the time has passed: an attempt that is asked at once gets no work done.
 * Where the site has PreemptParameters=send_user_signal, Slurm sends the same
 * request before it preempts the job. */
static void add_limit(const struct slurm *slurm, const struct slurmjob *job,
                      double own_s, double wall_s, struct slurm_argv *out,
                      struct arena *text)
{
    enum { LONGEST_S = 65535 }; /* sbatch's own limit */
    double limit_s = slurm->limit_s;
    if (own_s > 0 && (limit_s <= 0 || own_s < limit_s))
        limit_s = own_s;
    if (wall_s > 0 && (limit_s <= 0 || wall_s < limit_s))
        limit_s = wall_s;
    int minutes = (int)(limit_s / 60) + (limit_s >= 60 ? 0 : 1);
    double before_s = job->base.grace_s + 60;
    if (limit_s > 0) {
        before_s = fmin(before_s, 30.0 * minutes);
        vec_add(&out->at, arena_printf(text, "--time=%d", minutes));
    } else if (slurm->asks_unlimited) {
        vec_add(&out->at, "--time=UNLIMITED");
    }
    vec_add(&out->at, arena_printf(text, "--signal=B:USR1@%d",
                                   (int)fmin(before_s, LONGEST_S)));
}

/* For an allocation of these GPUs under this mark. */
static void add_all(const struct slurm *slurm, const struct slurmjob *job,
                    const struct firn_alloc *gpus, const char *mark,
                    const struct firn_launch *launch, struct slurm_argv *out,
                    struct arena *text)
{
    struct wants wants = {0};
    static const char *const fixed[] = {
        "--parsable",         "--export=ALL",      "--no-requeue",
        "--output=/dev/null", "--error=/dev/null", "--input=/dev/null",
        "--chdir=/"};
    const struct slurm_tag tag = {slurm->cell, job->base.id, job->base.attempt};
    find_wants(slurm, gpus, launch->is_per_node, &wants, text);
    if (job->user[0] != '\0')
        slurm_users_argv(slurm, "sbatch", job->user, &tag, out, text);
    else
        add_environment(slurm, out, text);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        vec_add(&out->at, fixed[i]);
    double wall_s = slurm_ahead_wall_s(slurm, launch);
    if (slurm->limit_s > 0 || slurm->asks_unlimited || wall_s > 0 ||
        launch->attempt_limit_s > 0 || job->base.can_checkpoint)
        add_limit(slurm, job, launch->attempt_limit_s, wall_s, out, text);
    for (size_t i = 0, n = 0; i < wants.at.n; i++) {
        if (wants.at.at[i].is_put)
            continue;
        if (n++ > 0)
            vec_add(&out->at, ":");
        add_component(slurm, mark, &wants, i, launch, out, text);
    }
    vec_add(&out->at, NULL);
    out->at.n--;
    vec_release(&wants.at);
}

void slurm_batch_argv(const struct slurm *slurm, const struct slurmjob *job,
                      const struct firn_launch *launch, struct slurm_argv *out,
                      struct arena *text)
{
    struct slurm_tag tag = {slurm->cell, job->base.id, job->base.attempt};
    char mark[SLURM_TAG_MAX];
    slurm_tag_print(&tag, mark);
    add_all(slurm, job, &job->base.held, mark, launch, out, text);
}

void slurm_batch_pilot(const struct slurm *slurm, const struct slurmjob *job,
                       const struct slurm_pilot *pilot,
                       const struct firn_launch *launch, struct slurm_argv *out,
                       struct arena *text)
{
    struct slurm_tag tag = {slurm->cell, job->base.id, job->base.attempt};
    struct firn_part part = pilot->part;
    struct firn_alloc gpus = job->base.held;
    char mark[SLURM_TAG_MAX];
    gpus.parts = &part;
    gpus.nparts = 1;
    gpus.ngpus = __builtin_popcountll(part.gpus);
    slurm_pilot_print(&tag, pilot->number, mark);
    add_all(slurm, job, &gpus, mark, launch, out, text);
}

/* Quotes a path for a shell; false: it has control characters. */
static bool add_quoted(struct firn_buf *out, const char *text)
{
    buf_putc(out, '\'');
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ')
            return false;
        if (*text == '\'')
            buf_puts(out, "'\\''");
        else
            buf_putc(out, *text);
    }
    buf_putc(out, '\'');
    return true;
}

static enum firn_status script(const struct slurm *slurm,
                               const struct slurmjob *job, const char *verb,
                               struct firn_buf *out, struct firn_error *err)
{
    char folder[4200];
    int n = snprintf(folder, sizeof folder, "%s/epoch-%lld", job->base.folder,
                     (long long)job->base.attempt);
    buf_puts(out, "#!/bin/sh\nexec ");
    bool is_good =
        n > 0 && (size_t)n < sizeof folder && add_quoted(out, slurm->program);
    buf_printf(out, " %s ", verb);
    is_good = is_good && add_quoted(out, folder);
    buf_puts(out, "\n");
    return is_good
               ? FIRN_OK
               : firn_fail(err, FIRN_EINVAL,
                           "the path of its folder is too long, or has control "
                           "characters");
}

enum firn_status slurm_batch_script(const struct slurm *slurm,
                                    const struct slurmjob *job,
                                    struct firn_buf *out,
                                    struct firn_error *err)
{
    return script(slurm, job, "--shepherd-slurm", out, err);
}

enum firn_status slurm_batch_pilot_script(const struct slurm *slurm,
                                          const struct slurmjob *job,
                                          struct firn_buf *out,
                                          struct firn_error *err)
{
    return script(slurm, job, "--pilot", out, err);
}
