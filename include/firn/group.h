/* group.h - the processes of one job, and the mean of their gradients.
 *
 * V virtual ranks ("threads") live on P processes in any placement. Each
 * process puts the flat gradient of each of its threads; the mean comes back
 * in every process, summed in the job's order (firn/fold.h: by the tree, or in
 * a chain), hence with the same bits for every P and placement.
 *
 *   on one host     POSIX shared memory: a slot for each thread, every
 *                   process folds its share of the elements
 *   between hosts   TCP between one process of each host, by which the hosts
 *                   exchange sums of blocks of threads (in the chain: the
 *                   threads' slots), each host folding its share
 *   little memory   where `chain` is asked for there are no slots. In the tree
 *                   a process keeps the sums of its blocks and log2 V more
 *                   vectors; in the chain, where every process holds a run of
 *                   neighbouring threads, the running sum is handed from
 *                   process to process, and a process keeps one vector
 *
 * Processes of one host meet in shared memory that only their user can open.
 * Leaders of several hosts prove to each other that they have the group's key
 * before anything else is sent, by challenge and response; the key itself is
 * never sent. Later messages are neither encrypted nor protected against an
 * attacker who can change packets on the network between the hosts.
 *
 * All calls but firn_group_threads/slot/put/bytes are collective: every process
 * makes them in the same order. A peer that is gone or silent for longer than
 * timeout_s is FIRN_EIO with its rank in the sentence, in all the others; the
 * group is then good for closing only. Nothing is left behind in the system by
 * a process that is killed: the shared memory has no name once all are in.
 */
#ifndef FIRN_GROUP_H
#define FIRN_GROUP_H
#include <firn/fold.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

FIRN_C_BEGIN

struct firn_group;

struct firn_group_config {
    const char *name; /* of the job and attempt; the same in all processes, and
                         of no other group of this host and user */
    int rank, nprocs; /* this process among all */
    int local_rank, local_nprocs; /* among those of this host, whose ranks are
                                     neighbours in the order of their local
                                     ranks; local_nprocs 0: all on one host */
    int nthreads;                 /* V >= nprocs */
    const int *owner;    /* nthreads ranks: the process that has thread v. Each
                            has at least one. NULL: even, contiguous */
    size_t nelements;    /* of a gradient */
    bool chain;          /* little memory; in the order of the chain the
                            threads of a process, and those of a host, must
                            be neighbours */
    enum firn_sum sum;   /* the order; FIRN_SUM_DEFAULT: the tree */
    const char *address; /* rank 0's host and port, when there are several */
    int port;            /* hosts */
    const char *key;     /* 64 hexadecimal digits, the same in all processes
                            and a secret: a process that does not have it is
                            not let in. NULL: only where all are on one host */
    double timeout_s;    /* 0: 300 */
};

/* Waits until all processes are here. `config` is not kept. FIRN_EINVAL for a
 * placement that leaves a thread or a process without the other, FIRN_EIO for
 * peers that do not come in time. */
FIRN_API enum firn_status
firn_group_open(struct firn_group **out, const struct firn_group_config *config,
                struct firn_error *err);
FIRN_API void firn_group_close(struct firn_group *group);
/* Swaps what two handles mean; both stay valid. */
FIRN_API void firn_group_swap(struct firn_group *a, struct firn_group *b);

/* The order of the sums, and another one from the next put on: all processes
 * change it between the same two reductions. FIRN_EINVAL, and nothing changed,
 * where the config asked for little memory and the threads of a process are no
 * neighbours, which the chain needs. */
FIRN_API enum firn_sum firn_group_sum(const struct firn_group *group);
FIRN_API enum firn_status firn_group_set_sum(struct firn_group *group,
                                             enum firn_sum sum,
                                             struct firn_error *err);

/* The threads of this process, rising; returns their number. */
FIRN_API size_t firn_group_threads(const struct firn_group *group,
                                   const int **threads);

/* Where the gradient of one of this process's threads is to be written; no
 * copy is needed then. NULL with little memory. Good until the next reduce,
 * which may overwrite it. */
FIRN_API float *firn_group_slot(struct firn_group *group, int thread);

/* Hands in the gradient of a thread, elements `start` on (0: all; `grad` is
 * still the whole vector): copied to its slot, or with little memory added at
 * once, where threads must come in rising order; in the chain the second one
 * waits for the sum of the threads before this process's. `grad` may be the
 * slot itself; other memory is only read, and is the caller's again at once. */
FIRN_API enum firn_status firn_group_put(struct firn_group *group, int thread,
                                         const float *grad, size_t start,
                                         struct firn_error *err);

/* out[start..nelements) becomes the sum over all threads divided by
 * `divisor`; what is before `start` (frozen layers) is neither read, sent nor
 * written. FIRN_EINVAL when a thread of this process was not put. */
FIRN_API enum firn_status firn_group_reduce(struct firn_group *group,
                                            float *out, size_t start,
                                            float divisor,
                                            struct firn_error *err);

/* Bytes of `root` to all the others. */
FIRN_API enum firn_status firn_group_bcast(struct firn_group *group, void *data,
                                           size_t nbytes, int root,
                                           struct firn_error *err);
/* `nbytes` of every process, one behind the other by rank, into `*all` of
 * process 0 (NULL elsewhere). Sizes may differ: `nall` has room for nprocs of
 * them and is filled in process 0; the caller frees `*all` with
 * firn_group_free(). */
FIRN_API enum firn_status firn_group_gather(struct firn_group *group,
                                            const void *data, size_t nbytes,
                                            void **all, size_t *nall,
                                            struct firn_error *err);
FIRN_API void firn_group_free(void *all);
/* `nbytes`, the same number everywhere, of every process, one behind the other
 * by rank, into `all` (room for nprocs times nbytes) of every process. */
FIRN_API enum firn_status firn_group_allgather(struct firn_group *group,
                                               const void *data, size_t nbytes,
                                               void *all,
                                               struct firn_error *err);
/* The largest of the values of all processes, in all of them. */
FIRN_API enum firn_status firn_group_max(struct firn_group *group,
                                         int64_t *value,
                                         struct firn_error *err);

/* Seconds for which a process waits for another. */
FIRN_API double firn_group_timeout_s(const struct firn_group *group);

/* Gradient bytes that this process has handed to others or taken from them
 * (shared memory counts as well), since it was opened. */
FIRN_API uint64_t firn_group_bytes(const struct firn_group *group);

FIRN_C_END

#endif
