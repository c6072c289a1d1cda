/* alloc.h - an allocation: the GPUs that one job holds, whole or shared.
 *
 * An allocation is a list of parts ordered by (node, board). A part names up
 * to 64 GPUs of one node by bit mask; a node with more GPUs than that has
 * several boards, so a 192-GPU node is three boards of 64. Each (node, board)
 * appears at most once in an allocation and no mask is empty.
 */
#ifndef FIRN_ALLOC_H
#define FIRN_ALLOC_H
#include <firn/cluster.h>
#include <stdint.h>

FIRN_C_BEGIN

typedef int firn_job_id;

enum { FIRN_NO_JOB = -1 };

/* Settings that a job's trainer may change by itself while it runs, at no
 * cost. All other settings stay as submitted. */
enum firn_tune {
    FIRN_TUNE_BATCH = 1,     /* total batch and passes, for the most goodput */
    FIRN_TUNE_FREEZE = 2,    /* how many front layers are not trained */
    FIRN_TUNE_THREADS = 4,   /* elastic threads: more of them on faster GPUs */
    FIRN_TUNE_EXECUTORS = 8, /* with elastic threads: several processes of the
                              * job on a GPU, where that is faster */
};

/* How a job is run on its GPUs, as far as a scheduler decides it. Start from
 * FIRN_HOW_AS_SUBMITTED: a zeroed one would name job 0 as partner, and core
 * refuses a plan with it. */
struct firn_how {
    int passes;   /* sub-batches a step, by gradient accumulation; 0: as
                   * few as memory allows */
    int tensor;   /* GPUs that a layer is split over; 0: none */
    int parallel; /* enum firn_parallel of firn/parallel.h, and FIRN_SAVES_* of
                   * it; 0: the best */
    int stages;   /* of its pipeline; they divide its GPUs. 0: none */
    firn_job_id merged_with; /* the job that it is trained together with;
                              * FIRN_NO_JOB: none */
    firn_job_id after;       /* the ended job whose weights it starts from;
                              * FIRN_NO_JOB: none */
    int ahead_s;    /* seconds of its start that are done before it gets its
                     * GPUs; not compared, as it ends with the start */
    bool unguarded; /* it keeps the weights of `after`, however it does with
                     * them; not compared */
};

/* The execution plan that a user asks for, as in struct firn_how. Zeroed: none.
 * The copies of the model follow from the GPUs. */
struct firn_layout {
    int parallel, tensor, stages;
};

#define FIRN_HOW_AS_SUBMITTED                          \
    {                                                  \
        0, 0, 0, 0, FIRN_NO_JOB, FIRN_NO_JOB, 0, false \
    }

struct firn_part {
    firn_node_id node;
    int board;     /* GPUs 64*board .. 64*board+63 of the node */
    uint64_t gpus; /* bit i: GPU 64*board + i */
};

struct firn_alloc {
    struct firn_part *parts; /* owned by the job (current) or the plan */
    int nparts;              /* 0: holds nothing */
    int ngpus;               /* bits set in all parts */
    bool is_shared;          /* half-shares: other jobs may join these GPUs */
    unsigned tunes;          /* FIRN_TUNE_*: what the trainer sets by itself */
    struct firn_how how;
};

/* No GPUs. */
#define FIRN_ALLOC_NONE                             \
    {                                               \
        NULL, 0, 0, false, 0, FIRN_HOW_AS_SUBMITTED \
    }

FIRN_API bool firn_how_equal(const struct firn_how *a,
                             const struct firn_how *b);

/* Same GPUs, same way of holding them and of running on them. Two allocations
 * without GPUs are equal. */
FIRN_API bool firn_alloc_equal(const struct firn_alloc *a,
                               const struct firn_alloc *b);

/* Have the two a GPU in common? */
FIRN_API bool firn_alloc_overlaps(const struct firn_alloc *a,
                                  const struct firn_alloc *b);

/* How many different nodes it touches. */
FIRN_API int firn_alloc_nodes(const struct firn_alloc *alloc);

/* "n0[0-3] n7[1,3]", "-" for nothing, "~" behind it when shared; before that
 * "/s" when its model is sharded, "/o" when offloaded, "/r" when it computes
 * activations again, "/p4" in four stages, "/p4t2" of two shares each; behind
 * that "+1" or "+2" with that stage of ZeRO, "+r" when it computes activations
 * again, "+o" with its optimizer on the host, "+1ro" with all three. */
FIRN_API void firn_alloc_print(const struct firn_alloc *alloc,
                               struct firn_buf *out);

FIRN_C_END

#endif
