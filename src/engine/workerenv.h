/* workerenv.h - what the workers of an attempt are told, whoever starts them.
 *
 * Ranks, addresses and firn's own words become variables of a launch file. An
 * engine says what it knows of the GPUs; the rest follows from the allocation
 * and from the job.
 */
#ifndef ENGINE_WORKERENV_H
#define ENGINE_WORKERENV_H
#include <firn/alloc.h>
#include <firn/launch.h>
#include <stdbool.h>

struct launchfile;

/* Borrowed from the engine. */
struct worker_gpu {
    const char *visible; /* for CUDA_VISIBLE_DEVICES; NULL: it is not ours to
                          * say, for any GPU of the cluster */
    double mem_gib;
};

struct workerenv {
    const struct firn_cluster *cluster;
    firn_job_id job;
    int64_t attempt;
    const struct firn_alloc *alloc;
    bool is_one_host; /* all GPUs are, whatever nodes they are of */
    bool has_driver;  /* CUDA is there: its own words are said too */
    const char *host; /* where rank 0 is */
    /* Names of nodes, by id; a worker is told its own as FIRN_NODE. NULL: it
     * is not. */
    const char *const *names;
    struct worker_gpu (*gpu)(const void *arg, firn_node_id node, int index);
    const void *arg;
};

/* Fills `common`, `workers` and `own` of the launch file. */
void workerenv_add(const struct workerenv *env,
                   const struct firn_launch *launch, struct launchfile *out);

#endif
