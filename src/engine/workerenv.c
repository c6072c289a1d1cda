/* workerenv.c - the workers' variables: torchrun's and firn's own.
 *
 * One worker for each GPU, in the order of nodes and GPUs, or one for each
 * node. The driver's GPUs are all on one host, whatever nodes their types make:
 * a worker sees all GPUs of the job, and its local rank is its place among
 * them. Declared nodes are hosts of their own, with local ranks of their own,
 * as on a cluster.
 *
 * The trainer itself spreads elastic threads evenly. Where GPUs differ in speed
 * and the policy lets the trainer use that, faster GPUs get more threads: the
 * next thread goes to the GPU that would finish it first.
 *
 * Several executors: a GPU may have several workers of a job. Each of them then
 * sees its own GPU alone, as local rank 0 of a host with one worker: programs
 * take their local rank for the number of their GPU, and two would take two.
 * PyTorch trainers are told to add gradients by firn's own group
 * (FIRN_THROUGH), because NCCL refuses two processes on one GPU.
 */
#define _GNU_SOURCE
#include "engine/workerenv.h"
#include "base/buf.h"
#include "engine/launchfile.h"
#include <errno.h>
#include <firn/parallel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* A GPU of the job. */
struct place {
    int node, host; /* host: 0, 1, ... among those of the job */
    firn_node_id id;
    struct worker_gpu gpu;
    double speed;
};

struct places {
    VEC(struct place) at; /* of workers, unless there is one for a node */
    int nnodes, nhosts;
};

/* The workers of a job on one GPU of that type. */
static int executors_of(const struct workerenv *env,
                        const struct firn_launch *launch, firn_type_id type)
{
    bool may = launch->executors != NULL && !launch->is_per_node &&
               launch->mate == NULL &&
               (env->alloc->tunes & FIRN_TUNE_EXECUTORS) != 0;
    return may && launch->executors[type] > 1 ? launch->executors[type] : 1;
}

/* Some GPU has several workers, and there is a thread for each of them. */
static bool is_packed(const struct workerenv *env,
                      const struct firn_launch *launch)
{
    const struct firn_alloc *alloc = env->alloc;
    long nworkers = 0;
    for (int i = 0; i < alloc->nparts; i++) {
        firn_type_id type = env->cluster->nodes[alloc->parts[i].node].type;
        nworkers += (long)executors_of(env, launch, type) *
                    __builtin_popcountll(alloc->parts[i].gpus);
    }
    return nworkers > alloc->ngpus && nworkers <= launch->threads;
}

static struct places places_of(const struct workerenv *env,
                               const struct firn_launch *launch)
{
    bool packs = is_packed(env, launch);
    const struct firn_alloc *alloc = env->alloc;
    struct places out = {0};
    int last = -1;
    for (int i = 0; i < alloc->nparts; i++) {
        const struct firn_part *part = &alloc->parts[i];
        const struct firn_node *node = &env->cluster->nodes[part->node];
        out.nnodes += part->node != last;
        last = part->node;
        out.nhosts = env->is_one_host ? 1 : out.nnodes;
        for (int k = 0; k < FIRN_BOARD_GPUS; k++) {
            if ((part->gpus >> k & 1) == 0)
                continue;
            struct place place = {
                .node = out.nnodes - 1,
                .host = out.nhosts - 1,
                .id = part->node,
                .gpu = env->gpu(env->arg, part->node,
                                FIRN_BOARD_GPUS * part->board + k),
                .speed = env->cluster->types[node->type].speed};
            int n = packs ? executors_of(env, launch, node->type) : 1;
            place.speed /= n;
            for (int worker = 0; worker < n; worker++) {
                if (packs)
                    place.host = (int)out.at.n;
                vec_add(&out.at, place);
            }
        }
    }
    if (packs)
        out.nhosts = (int)out.at.n;
    return out;
}

/* CUDA_VISIBLE_DEVICES of one host: "0,1", or uuids. */
static const char *visible(const struct places *places, int host,
                           struct launchfile *out)
{
    struct firn_buf text = {0};
    buf_puts(&text, "CUDA_VISIBLE_DEVICES=");
    bool is_first = true;
    for (size_t i = 0; i < places->at.n; i++) {
        if (places->at.at[i].host != host)
            continue;
        buf_puts(&text, is_first ? "" : ",");
        buf_puts(&text, places->at.at[i].gpu.visible);
        is_first = false;
    }
    const char *copy = arena_strdup(&out->text, text.at);
    buf_release(&text);
    return copy;
}

/* The job shares its GPUs with a job other than its co-trained partner. */
static bool is_sharing(const struct workerenv *env,
                       const struct firn_launch *launch)
{
    return env->alloc->is_shared && launch->mate == NULL;
}

/* The memory limits of MPS, which numbers GPUs as the workers of a host see
 * them, from 0. */
static const char *limits(const struct workerenv *env,
                          const struct places *places, int host,
                          struct launchfile *out)
{
    struct firn_buf text = {0};
    buf_puts(&text, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=");
    int n = 0;
    for (size_t i = 0; i < places->at.n; i++)
        if (places->at.at[i].host == host) {
            buf_printf(&text, "%s%d=%.0fM", n > 0 ? "," : "", n,
                       places->at.at[i].gpu.mem_gib * 1024 /
                           env->cluster->jobs_per_gpu);
            n++;
        }
    const char *copy = arena_strdup(&out->text, text.at);
    buf_release(&text);
    return copy;
}

/* The place has a worker. */
static bool has_worker(const struct places *places, size_t i, bool is_per_node)
{
    return !is_per_node || i == 0 ||
           places->at.at[i].node != places->at.at[i - 1].node;
}

static void add_own_int(struct launchfile *out, const char *name, int value)
{
    launchfile_add_own(out, arena_printf(&out->text, "%s=%d", name, value));
}

static void add_workers(const struct workerenv *env,
                        const struct places *places,
                        const struct firn_launch *launch,
                        struct launchfile *out)
{
    bool is_per_node = launch->is_per_node;
    int rank = 0, local = 0, host = -1, nlocal = 0;
    for (size_t i = 0; i < places->at.n; i++) {
        const struct place *place = &places->at.at[i];
        if (!has_worker(places, i, is_per_node))
            continue;
        if (place->host != host) {
            host = place->host;
            local = 0;
            nlocal = 0;
            for (size_t k = i; k < places->at.n; k++) /* hosts are in a row */
                nlocal += places->at.at[k].host == host &&
                          has_worker(places, k, is_per_node);
        }
        launchfile_add_worker(out);
        add_own_int(out, "RANK", rank++);
        add_own_int(out, "LOCAL_RANK", local++);
        add_own_int(out, "LOCAL_WORLD_SIZE", nlocal);
        add_own_int(out, "GROUP_RANK", host);
        if (place->gpu.visible != NULL)
            launchfile_add_own(out, visible(places, host, out));
        if (env->has_driver && is_sharing(env, launch))
            launchfile_add_own(out, limits(env, places, host, out));
        if (env->names != NULL)
            launchfile_add_own(out, arena_printf(&out->text, "FIRN_NODE=%s",
                                                 env->names[place->id]));
        if (place->gpu.address != NULL)
            launchfile_add_own(out, arena_printf(&out->text, "FIRN_HOST=%s",
                                                 place->gpu.address));
        if (place->gpu.pilot > 0)
            launchfile_add_own(out, arena_printf(&out->text, "FIRN_PILOT=%lld",
                                                 (long long)place->gpu.pilot));
    }
}

/* "FIRN_LAYOUT=0,0,1": the GPU of each thread. Each GPU gets one, and faster
 * GPUs get the rest first. NULL: all GPUs have the same speed. */
static const char *layout(const struct places *places, int nthreads,
                          struct launchfile *out)
{
    size_t n = places->at.n;
    bool is_mixed = false;
    for (size_t i = 1; i < n; i++)
        is_mixed = is_mixed || places->at.at[i].speed != places->at.at[0].speed;
    if (!is_mixed || nthreads < (int)n)
        return NULL;
    int *share = mem_new(n, sizeof *share);
    for (int v = 0; v < nthreads; v++) {
        size_t best = 0;
        for (size_t i = 0; i < n; i++) {
            double a = (share[i] + 1) / places->at.at[i].speed;
            double b = (share[best] + 1) / places->at.at[best].speed;
            if (v < (int)n ? share[i] < share[best] : a < b)
                best = i;
        }
        share[best]++;
    }
    struct firn_buf text = {0};
    buf_puts(&text, "FIRN_LAYOUT=");
    for (size_t i = 0, nput = 0; i < n; i++)
        for (int k = 0; k < share[i]; k++, nput++)
            buf_printf(&text, "%s%zu", nput > 0 ? "," : "", i);
    const char *copy = arena_strdup(&out->text, text.at);
    buf_release(&text);
    mem_free(share);
    return copy;
}

static void add_text(struct launchfile *out, const char *name,
                     const char *value)
{
    if (value != NULL && value[0] != '\0')
        vec_add(&out->common, arena_printf(&out->text, "%s=%s", name, value));
}

static void add_int(struct launchfile *out, const char *name, long long value)
{
    vec_add(&out->common, arena_printf(&out->text, "%s=%lld", name, value));
}

static void add_number(struct launchfile *out, const char *name, double value)
{
    char number[STR_DOUBLE_MAX];
    if (value > 0)
        add_text(out, name, double_text(value, number));
}

/* How the policy splits the model: GPUs of a layer, stages, replicas. Without
 * these variables the trainer does not split it. */
static void add_split(const struct firn_alloc *alloc, struct launchfile *out)
{
    const struct firn_how *how = &alloc->how;
    int tensor = how->tensor > 0 ? how->tensor : 1;
    int stages = how->stages > 0 ? how->stages : 1;
    if (how->tensor > 0)
        add_int(out, "FIRN_TENSOR", tensor);
    if (how->stages > 0)
        add_int(out, "FIRN_STAGES", stages);
    int zero = firn_parallel_zero(how->parallel);
    if (zero == 3)
        vec_add(&out->common, "FIRN_SHARDED=1");
    if (zero > 0)
        add_int(out, "FIRN_ZERO", zero);
    if (firn_parallel_offloads(how->parallel))
        vec_add(&out->common, "FIRN_OFFLOAD=1");
    if (firn_parallel_recomputes(how->parallel))
        vec_add(&out->common, "FIRN_RECOMPUTE=1");
    if (how->tensor > 0 || how->stages > 0)
        add_int(out, "FIRN_REPLICAS", alloc->ngpus / (tensor * stages));
}

/* The language model of the job file and how it trains: a trainer that has no
 * other source builds the model from these. */
static void add_model(const struct firn_launch *launch, struct launchfile *out)
{
    if (launch->model == NULL || launch->model[0] == '\0')
        return;
    add_text(out, "FIRN_MODEL", launch->model);
    add_text(out, "FIRN_PRECISION", launch->precision);
    add_text(out, "FIRN_OPTIMIZER", launch->optimizer);
    add_text(out, "FIRN_ATTENTION", launch->attention);
    add_text(out, "FIRN_CHECKPOINTING", launch->checkpointing);
    for (const char *const *s = launch->settings; s != NULL && *s != NULL; s++)
        vec_add(&out->common, arena_strdup(&out->text, *s));
}

/* The co-trained job of these workers, and the job whose weights they begin
 * with. The arguments of the co-trained job's command are separated by 0x1f. */
static void add_related_jobs(const struct firn_launch *launch,
                             struct launchfile *out)
{
    const struct firn_launch_mate *mate = launch->mate;
    struct firn_buf words = {0};
    if (launch->after != NULL && launch->after[0] != '\0') {
        add_text(out, "FIRN_AFTER", launch->after);
        add_int(out, "FIRN_AFTER_JOB", launch->after_job);
    }
    if (launch->anew > 0)
        add_int(out, "FIRN_ANEW", launch->anew);
    if (mate == NULL)
        return;
    for (size_t i = 0; mate->argv != NULL && mate->argv[i] != NULL; i++)
        buf_printf(&words, "%s%s", i > 0 ? "\x1f" : "", mate->argv[i]);
    add_int(out, "FIRN_MATE_JOB", mate->job);
    add_int(out, "FIRN_MATE_ATTEMPT", mate->attempt);
    add_int(out, "FIRN_MATE_EPOCH", mate->attempt);
    add_text(out, "FIRN_MATE_TOKEN", mate->token);
    add_text(out, "FIRN_MATE_DIR", mate->ckpt);
    add_text(out, "FIRN_MATE_DATA", mate->dataset);
    add_text(out, "FIRN_MATE_ARGV", words.at);
    if (mate->threads > 0)
        add_int(out, "FIRN_MATE_THREADS", mate->threads);
    add_number(out, "FIRN_MATE_FREEZE_MAX", mate->freeze_max);
    add_number(out, "FIRN_MATE_TARGET_METRIC", mate->target_metric);
    buf_release(&words);
}

/* A random secret by which the workers of this attempt authenticate each other,
 * independent of the job's token. */
static void add_group_key(struct launchfile *out)
{
    unsigned char key[32];
    char hex[2 * sizeof key + 1];
    ssize_t n;
    while ((n = getrandom(key, sizeof key, 0)) < 0 && errno == EINTR)
        ;
    if (n != (ssize_t)sizeof key)
        return; /* workers on several hosts will refuse to start */
    for (size_t i = 0; i < sizeof key; i++)
        snprintf(hex + 2 * i, 3, "%02x", key[i]);
    add_text(out, "FIRN_GROUP_KEY", hex);
}

static void add_common(const struct workerenv *env,
                       const struct firn_launch *launch, struct launchfile *out)
{
    const struct firn_alloc *alloc = env->alloc;
    struct firn_buf gpus = {0};
    firn_alloc_print(alloc, &gpus);
    add_text(out, "FIRN_GPUS", gpus.at);
    buf_release(&gpus);
    add_text(out, "MASTER_ADDR", env->host);
    add_int(out, "FIRN_JOB", env->job);
    add_int(out, "FIRN_ATTEMPT", env->attempt);
    add_int(out, "FIRN_EPOCH", env->attempt); /* the name in older versions */
    add_text(out, "FIRN_URL", launch->url);
    add_text(out, "FIRN_TOKEN", launch->token);
    add_group_key(out);
    add_text(out, "FIRN_DIR", launch->ckpt);
    add_number(out, "FIRN_CKPT_EVERY_S", launch->ckpt_every_s);
    add_text(out, "FIRN_FREEZE", launch->freeze);
    add_number(out, "FIRN_FREEZE_MAX", launch->freeze_max);
    add_number(out, "FIRN_TARGET_METRIC", launch->target_metric);
    if (launch->threads > 0)
        add_int(out, "FIRN_THREADS", launch->threads);
    if (alloc->how.passes > 0)
        add_int(out, "FIRN_PASSES", alloc->how.passes);
    if (launch->batch > 0)
        add_int(out, "FIRN_BATCH", launch->batch);
    if (launch->batch_rule != NULL)
        add_text(out, "FIRN_BATCH_RULE", launch->batch_rule);
    if (launch->frozen >= 0 && launch->freeze != NULL &&
        strcmp(launch->freeze, "penalty") == 0)
        add_int(out, "FIRN_FROZEN", launch->frozen);
    add_split(alloc, out);
    add_model(launch, out);
    add_related_jobs(launch, out);
    if (env->has_driver)
        vec_add(&out->common, "CUDA_DEVICE_ORDER=PCI_BUS_ID");
}

void workerenv_add(const struct workerenv *env,
                   const struct firn_launch *launch, struct launchfile *out)
{
    struct places places = places_of(env, launch);
    int nworkers = launch->is_per_node ? places.nnodes : (int)places.at.n;
    add_common(env, launch, out);
    add_int(out, "WORLD_SIZE", nworkers);
    add_int(out, "GROUP_WORLD_SIZE", places.nhosts);
    if (nworkers > 1 && getenv("OMP_NUM_THREADS") == NULL)
        vec_add(&out->common, "OMP_NUM_THREADS=1"); /* as torchrun does */
    if (is_sharing(env, launch)) {
        vec_add(&out->common, "FIRN_SHARE=1");
        add_number(out, "FIRN_MEM_SHARE", 1.0 / env->cluster->jobs_per_gpu);
    }
    bool is_same_layout = launch->mate == NULL || /* one layout for both */
                          launch->mate->threads == launch->threads;
    if ((env->alloc->tunes & FIRN_TUNE_THREADS) != 0 && !launch->is_per_node &&
        is_same_layout) {
        const char *spread = layout(&places, launch->threads, out);
        if (spread != NULL)
            vec_add(&out->common, spread);
    }
    if (places.at.n > (size_t)env->alloc->ngpus)
        vec_add(&out->common, "FIRN_THROUGH=memory");
    add_workers(env, &places, launch, out);
    vec_release(&places.at);
}
