/* api_sums.c - sums for metrics: jobs by user and queue, GPUs by type, and
 * single GPUs.
 *
 * Counted when the metrics are asked for, as jobs and nodes are. A series is
 * there while its user or queue has a job that waits or runs; the first
 * NAMES_MAX names by the order of jobs have a series each, and those behind
 * them one together, `other`, so that a scrape stays small whatever users
 * submit. Utilisation and memory of a type are means over GPUs that the engine
 * measures.
 *
 * Cost: two passes over the jobs in memory, with a hash of two names each, and
 * one over the GPUs, with a question to the driver for each.
 */
#include "base/map.h"
#include "base/mem.h"
#include "daemon/apiwork.h"
#include "daemon/recover.h"

enum { NAMES_MAX = 200 };

struct sum {
    double running, pending, gpus, pending_gpus;
};

struct sums {
    struct map names;
    VEC(struct sum) at; /* by number of the name */
};

static struct sum *sum_of(struct sums *sums, const char *name)
{
    int number = map_find(&sums->names, name);
    if (number < 0)
        number =
            map_add(&sums->names, sums->names.n < NAMES_MAX ? name : "other");
    while (sums->at.n < sums->names.n)
        vec_add(&sums->at, (struct sum){0});
    return &sums->at.at[number];
}

static void add_job(struct sum *sum, const struct live_job *job)
{
    if (job->state == LIVE_PENDING) {
        sum->pending++;
        sum->pending_gpus += job->ask.gpus_min;
        return;
    }
    sum->running++;
    sum->gpus += job->held != NULL ? recover_gpus(job->held) : 0;
}

static void write_sums(struct metrics *metrics, struct sums *sums,
                       const enum metric ids[4])
{
    for (int k = 0; k < 4; k++)
        metrics_clear(metrics, ids[k]);
    for (size_t i = 0; i < sums->at.n; i++) {
        const struct sum *sum = &sums->at.at[i];
        const char *name = map_name(&sums->names, (int)i);
        const double values[] = {sum->running, sum->pending, sum->gpus,
                                 sum->pending_gpus};
        for (int k = 0; k < 4; k++)
            metrics_row(metrics, ids[k], name, values[k]);
    }
    map_release(&sums->names);
    vec_release(&sums->at);
}

static void sum_jobs(struct metrics *metrics, struct book *book)
{
    static const enum metric by_user[] = {METRIC_USER_RUNNING,
                                          METRIC_USER_PENDING, METRIC_USER_GPUS,
                                          METRIC_USER_PENDING_GPUS};
    static const enum metric by_queue[] = {
        METRIC_QUEUE_RUNNING, METRIC_QUEUE_PENDING, METRIC_QUEUE_GPUS,
        METRIC_QUEUE_PENDING_GPUS};
    struct sums users = {0}, queues = {0};
    for (size_t i = 0; i < book_count(book); i++) {
        const struct live_job *job = book_at(book, i);
        if (live_state_is_over(job->state))
            continue;
        add_job(sum_of(&users, job->ask.user), job);
        add_job(sum_of(&queues, job->ask.queue), job);
    }
    write_sums(metrics, &users, by_user);
    write_sums(metrics, &queues, by_queue);
}

/* --- types ---------------------------------------------------------------- */

struct type_sum {
    double gpus, held, measured, busy, mem_gib; /* the last two: sums */
};

struct types {
    struct map names;
    VEC(struct type_sum) at;
};

static struct type_sum *type_of(struct types *types, const char *name)
{
    int number = map_add(&types->names, name);
    while (types->at.n < types->names.n)
        vec_add(&types->at, (struct type_sum){0});
    return &types->at.at[number];
}

/* --- single GPUs ------------------------------------------------------- */

/* All GPUs, node by node: which job holds each. */
struct gpus {
    const struct api_node *nodes;
    size_t nnodes;
    int *first;           /* of each node, and the end */
    firn_job_id *holders; /* FIRN_NO_JOB: none; of two jobs the later one */
};

static void gpus_open(struct gpus *gpus)
{
    gpus->first = mem_new(gpus->nnodes + 1, sizeof *gpus->first);
    for (size_t i = 0; i < gpus->nnodes; i++)
        gpus->first[i + 1] = gpus->first[i] + gpus->nodes[i].ngpus;
    int n = gpus->first[gpus->nnodes];
    gpus->holders = mem_new((size_t)n + 1, sizeof *gpus->holders);
    for (int i = 0; i < n; i++)
        gpus->holders[i] = FIRN_NO_JOB;
}

static void gpus_hold(struct gpus *gpus, const struct live_job *job)
{
    struct firn_alloc held = {0};
    if (job->held == NULL || job->held[0] == '-' ||
        !recover_alloc(job->held, &held))
        return;
    for (int p = 0; p < held.nparts; p++) {
        const struct firn_part *part = &held.parts[p];
        if (part->node < 0 || (size_t)part->node >= gpus->nnodes)
            continue;
        for (int k = 0; k < FIRN_BOARD_GPUS; k++) {
            int gpu = FIRN_BOARD_GPUS * part->board + k;
            if ((part->gpus >> k & 1) != 0 &&
                gpu < gpus->nodes[part->node].ngpus)
                gpus->holders[gpus->first[part->node] + gpu] = job->id;
        }
    }
    mem_free(held.parts);
}

/* A row for the GPU, and its part of the sums of its type. */
static void add_gpu(struct metrics *metrics, const struct api_host *host,
                    const struct gpus *gpus, size_t node, int gpu,
                    struct type_sum *sum)
{
    struct firn_load load;
    firn_job_id holder = gpus->holders[gpus->first[node] + gpu];
    struct metric_gpu_name name = {gpus->nodes[node].name,
                                   gpus->nodes[node].type, gpu};
    bool is_held = holder != FIRN_NO_JOB;
    metrics_gpu_row(metrics, METRIC_ONE_HELD, &name, is_held);
    if (host->gpu_load == NULL ||
        !host->gpu_load(host->arg, (int)node, gpu, holder, &load))
        return;
    metrics_gpu_row(metrics, METRIC_ONE_BUSY, &name, load.util);
    metrics_gpu_row(metrics, METRIC_ONE_MEMORY, &name, load.mem_gib);
    sum->measured += is_held;
    sum->busy += is_held ? load.util : 0;
    sum->mem_gib += is_held ? load.mem_gib : 0;
}

static void sum_gpus(struct metrics *metrics, const struct api_host *host,
                     struct types *types, struct gpus *gpus)
{
    static const enum metric ids[] = {METRIC_ONE_BUSY, METRIC_ONE_MEMORY,
                                      METRIC_ONE_HELD};
    for (int k = 0; k < 3; k++)
        metrics_clear(metrics, ids[k]);
    gpus_open(gpus);
    for (size_t i = 0; i < book_count(host->book); i++)
        gpus_hold(gpus, book_at(host->book, i));
    for (size_t i = 0; i < gpus->nnodes; i++)
        for (int k = 0; k < gpus->nodes[i].ngpus; k++)
            add_gpu(metrics, host, gpus, i, k,
                    type_of(types, gpus->nodes[i].type));
    mem_free(gpus->first);
    mem_free(gpus->holders);
}

static void write_types(struct metrics *metrics, const struct types *types)
{
    static const enum metric ids[] = {METRIC_TYPE_GPUS, METRIC_TYPE_HELD,
                                      METRIC_TYPE_BUSY, METRIC_TYPE_MEMORY};
    for (int k = 0; k < 4; k++)
        metrics_clear(metrics, ids[k]);
    for (size_t i = 0; i < types->at.n; i++) {
        const struct type_sum *sum = &types->at.at[i];
        const char *name = map_name(&types->names, (int)i);
        metrics_row(metrics, METRIC_TYPE_GPUS, name, sum->gpus);
        metrics_row(metrics, METRIC_TYPE_HELD, name, sum->held);
        if (!(sum->measured > 0))
            continue;
        metrics_row(metrics, METRIC_TYPE_BUSY, name, sum->busy / sum->measured);
        metrics_row(metrics, METRIC_TYPE_MEMORY, name,
                    sum->mem_gib / sum->measured);
    }
}

void api_sums_count(struct metrics *metrics, const struct api_host *host)
{
    const struct api_node *nodes = NULL;
    struct types types = {0};
    size_t n = host->nodes != NULL ? host->nodes(host->arg, &nodes) : 0;
    sum_jobs(metrics, host->book);
    for (size_t i = 0; i < n; i++) {
        struct type_sum *sum = type_of(&types, nodes[i].type);
        sum->gpus += nodes[i].ngpus;
        sum->held += nodes[i].is_up
                         ? nodes[i].ngpus - nodes[i].nfree - nodes[i].noutside
                         : 0;
    }
    struct gpus gpus = {.nodes = nodes, .nnodes = n};
    sum_gpus(metrics, host, &types, &gpus);
    write_types(metrics, &types);
    map_release(&types.names);
    vec_release(&types.at);
}
