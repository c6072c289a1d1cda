/* ledger.h - which jobs hold which GPU, counted from a log's text.
 *
 * The replay's own bookkeeping: it shares nothing with core, so that a mistake
 * there cannot hide itself. Nodes come in runs of equal ones; each GPU has two
 * counters, of jobs that hold it whole and of jobs that share it.
 */
#ifndef SIM_LEDGER_H
#define SIM_LEDGER_H
#include "base/vec.h"
#include <firn/bytes.h>
#include <firn/cluster.h>
#include <stdint.h>

enum { LEDGER_GPUS_MAX = 1 << 24, LEDGER_SHARERS_MAX = 64 };

struct ledger_run {
    int first, last; /* nodes */
    int ngpus;       /* of each */
    int first_gpu;   /* the number of GPU 0 of node `first` */
    bool is_up;      /* at the start */
};

struct ledger_gpu {
    uint8_t whole, shared;
};

struct ledger_node {
    int nheld; /* (job, GPU) pairs */
    bool is_up;
};

/* A zeroed struct is a valid empty ledger. */
struct ledger {
    VEC(struct ledger_run) runs;
    struct ledger_node *nodes;
    struct ledger_gpu *gpus;
    int nnodes, ngpus, jobs_per_gpu;
    int nbusy;                       /* GPUs held by a job */
    int nup;                         /* GPUs on nodes that are up */
    int nconflicts;                  /* GPUs held by more jobs than may */
    int conflict_node, conflict_gpu; /* the first of those */
    int nondown; /* (job, GPU) pairs on nodes that are down */
};

/* What one job holds: numbers of GPUs, ascending. */
struct holding {
    VEC(int) gpus;
    bool is_shared;
    int stages; /* of its model; 0: not cut, -1: sharded, -2: offloaded, -3:
                 * copies that compute activations again */
    int shares; /* of each stage; 1 */
    int saves;  /* bit i: the i-th mark of "12ro" stands behind a '+' */
};

/* Appends nodes; they must follow those before. FIRN_EINVAL when not, or when
 * there are too many. */
enum firn_status ledger_add(struct ledger *ledger, struct ledger_run run,
                            struct firn_error *err);
/* After the last node and before the first job. */
void ledger_seal(struct ledger *ledger, int jobs_per_gpu);
void ledger_release(struct ledger *ledger);

/* Reads "n0[0-3] n7[1,3]~". `text` is scribbled on. FIRN_EINVAL when it is not
 * an allocation on these nodes; `out` is then empty. */
enum firn_status ledger_read(const struct ledger *ledger, char *text,
                             struct holding *out, struct firn_error *err);
/* Appends it as firn_alloc_print() has it; returns on how many nodes it is. */
int ledger_print(const struct ledger *ledger, const struct holding *held,
                 struct firn_buf *out);
/* FIRN_EINVAL when a GPU is on a node that is down, or is held by absurdly
 * many. A GPU held by more jobs than may is counted in `nconflicts`: it may be
 * put right by a later line of the same moment. */
enum firn_status ledger_take(struct ledger *ledger, const struct holding *held,
                             struct firn_error *err);
void ledger_drop(struct ledger *ledger, const struct holding *held);
/* FIRN_EINVAL for a node that is not there or is in that state. */
enum firn_status ledger_node_set(struct ledger *ledger, int node, bool is_up,
                                 struct firn_error *err);

#endif
