/* workerenv.h - the variables of an attempt's workers, for every engine.
 *
 * Ranks, addresses and firn's own settings become variables of a launch file.
 * An engine describes its GPUs; the rest follows from the allocation and the
 * job.
 */
#ifndef ENGINE_WORKERENV_H
#define ENGINE_WORKERENV_H
#include <firn/alloc.h>
#include <firn/launch.h>
#include <stdbool.h>

struct launchfile;

/* Borrowed from the engine. */
struct worker_gpu {
    const char *visible; /* for CUDA_VISIBLE_DEVICES; NULL for all GPUs: the
                          * engine does not set that variable */
    double mem_gib;
    const char *address; /* of its host, for FIRN_HOST; NULL: not set */
    int64_t pilot;       /* Slurm's job that a joiner's step runs in, for
                          * FIRN_PILOT; 0: no joiner */
};

struct workerenv {
    const struct firn_cluster *cluster;
    firn_job_id job;
    int64_t attempt;
    const struct firn_alloc *alloc;
    bool is_one_host; /* all nodes are on one host */
    bool has_driver;  /* CUDA is there: its variables are set too */
    const char *host; /* address of rank 0 */
    /* Names of nodes, by id, for FIRN_NODE; NULL: not set. */
    const char *const *names;
    struct worker_gpu (*gpu)(const void *arg, firn_node_id node, int index);
    const void *arg;
};

/* Fills `common`, `workers` and `own` of the launch file. */
void workerenv_add(const struct workerenv *env,
                   const struct firn_launch *launch, struct launchfile *out);

#endif
