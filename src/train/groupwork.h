/* groupwork.h - what the files of a group share.
 *
 *   group.c         the calls of firn/group.h, placements, opening
 *   group_shm.c     the memory of one host: meeting, waiting, failing
 *   group_tcp.c     how the leaders of several hosts find each other
 *   group_callers.c connections to a leader until they are authenticated
 *   group_auth.c    how two leaders prove that they have the group's key
 *   group_sock.c    TCP sockets
 *   group_wire.c    messages between them
 *   group_lay.c     what each vector stands for, and where it lies
 *   group_reduce.c  the mean from slots and from sums of blocks
 *   group_chain.c   the mean by a sum that is handed on
 *   group_share.c   bcast, gather, max
 *
 * The local process 0 of each host is its leader and alone speaks to other
 * hosts. Processes of a host meet: each raises its own counter `at` and sleeps
 * on its own semaphore until the counters of all have come so far. There is no
 * lock that a killed process could leave held. What is staged in shared memory
 * alternates between two halves by `turn`; a half is written again only after
 * a later meeting, so no process can still be reading it.
 */
#ifndef TRAIN_GROUPWORK_H
#define TRAIN_GROUPWORK_H
#include "train/groupauth.h"
#include "train/tree.h"
#include <firn/group.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GRP_HALF = 128 * 1024, /* bytes of one half of a process's stage */
    GRP_TEXT = 256,
    GRP_ADDRESS = 64,
    GRP_NAME = 32,
    GRP_MAX_PROCS = 4096
};

/* One process of this host, in shared memory. */
struct grp_proc {
    _Alignas(128) _Atomic int64_t pid; /* 0: not here yet */
    _Atomic uint64_t started;          /* in clock ticks since boot; 0: ? */
    _Atomic uint64_t at;               /* meetings it has come to */
    _Atomic uint64_t summed; /* chain: reductions with its partial sum done */
    _Atomic int left, asleep;
    sem_t bell;
    int64_t value[2];
    uint64_t nbytes[2];
};

struct grp_place { /* a host */
    int first, nprocs;
};

/* The head of the shared memory; behind it `place` of nprocs, then the stages
 * of the processes of this host. */
struct grp_control {
    uint64_t magic, shape;
    _Atomic int ready;
    _Atomic int failed;     /* 1: being written, 2: the text is there */
    _Atomic uint64_t taken; /* chain: reductions whose incoming sum is here */
    char text[GRP_TEXT];
    int nhosts;
    uint64_t data_bytes;
    int64_t value[2];
    struct grp_proc proc[];
};

struct grp_host {
    int first, nprocs;
    int fd; /* leaders: the connection; -1: own host */
    uint64_t nout, nin;
    bool torn; /* stopped within a message */
    char address[GRP_ADDRESS];
    int port;
};

/* A leaf or a node: the sum of a block of threads (group_lay.c). */
struct grp_node {
    struct tree_block block;
    int host;
    size_t at;   /* of its vector or share, in floats of the data */
    size_t leaf; /* nodes: the first leaf in it */
};

/* Will processes that are waited for never come? Asked while a group is opened,
 * and in all waits of a group that keeps its watch. */
struct grp_watch {
    bool (*is_lost)(void *arg);
    void *arg;
    const char *why; /* the failure, in words */
    int listener;    /* 1 + the socket at which process 0 listens, which then
                        belongs to the group; 0: it opens one */
};

struct firn_group {
    struct grp_watch watch; /* no function: none */
    char *name;
    int rank, nprocs, local, nlocal, first;
    int nthreads;
    int *owner;
    size_t nelements;
    enum firn_sum sum;
    bool little; /* memory: no slots */
    double timeout_s;
    int *mine; /* threads of this process */
    size_t nmine;
    size_t *put; /* of each of mine: 1 + the start it was put from; 0: not */
    size_t nput;
    uint64_t shape;
    unsigned char key[GRP_KEY]; /* while the group is being opened */
    bool has_key;

    struct grp_control *control;
    size_t control_bytes;
    int fd; /* of the shared memory, while it is being mapped */
    char shm_name[GRP_NAME];
    bool named; /* by this process, and still there */
    float *data;
    size_t data_bytes;

    struct grp_host *host;
    int nhosts, at_host;
    struct grp_node *leaf, *node;
    size_t nleaves, nnodes;
    size_t *node_first, *leaf_first; /* threads, for the folds */
    size_t *proc_at;                 /* little: of each local process */
    size_t incoming_at;              /* chain: the sum of the hosts before */
    struct tree_block *block;        /* room for the blocks of all threads */
    int *places;                     /* room for the owner of each thread */
    const float **in;                /* operands, nthreads */
    uint64_t met, turn, nreduced, nbytes;
};

static inline bool grp_leads(const struct firn_group *g)
{
    return g->local == 0;
}

/* Is the sum of a block of threads made as they come? */
static inline bool grp_is_compact(const struct firn_group *g)
{
    return g->little && g->sum == FIRN_SUM_TREE;
}

/* Is the running sum handed from process to process? */
static inline bool grp_is_chain(const struct firn_group *g)
{
    return g->little && g->sum == FIRN_SUM_CHAIN;
}

static inline bool grp_is_here(const struct firn_group *g, int thread)
{
    int local = g->owner[thread] - g->first;
    return local >= 0 && local < g->nlocal;
}

/* Floats from one vector to the next. */
static inline size_t grp_stride(const struct firn_group *g)
{
    return (g->nelements + 15) / 16 * 16 + 16;
}

/* The mean of the last reduction. */
static inline float *grp_result(const struct firn_group *g)
{
    return g->data;
}

/* With little memory: the first vector of a local process, and the sum of the
 * hosts before this one. */
static inline float *grp_vector_of(const struct firn_group *g, int local)
{
    return g->data + g->proc_at[local];
}

static inline float *grp_incoming(const struct firn_group *g)
{
    return g->data + g->incoming_at;
}

/* Elements from `from` to before `to`. */
struct grp_range {
    size_t from, to;
};

static inline size_t grp_nbytes(struct grp_range r)
{
    return (r.to - r.from) * sizeof(float);
}

/* --- group.c --- */

/* firn_group_open() with a watch; NULL: none. */
enum firn_status firn_grp_open(struct firn_group **out,
                               const struct firn_group_config *config,
                               const struct grp_watch *watch,
                               struct firn_error *err);
/* A group that no process has met in: it knows its threads, and can be closed
 * and swapped, no more. */
enum firn_status firn_grp_plan(struct firn_group **out,
                               const struct firn_group_config *config,
                               struct firn_error *err);

/* --- group_shm.c --- */

/* When a process was started, in clock ticks since boot; 0: not known. */
uint64_t firn_grp_started(int64_t pid);
/* Has the process with this number and start ended? */
bool firn_grp_is_gone(int64_t pid, uint64_t started);
double firn_grp_now_s(void);
void firn_grp_nap(double seconds);
uint64_t firn_grp_hash(uint64_t hash, const void *bytes, size_t n);
/* All processes of this host are attached and the name is gone again. */
enum firn_status firn_grp_attach(struct firn_group *g, struct firn_error *err);
/* Collective on a host: `data_bytes` of shared memory at g->data. */
enum firn_status firn_grp_map_data(struct firn_group *g, size_t data_bytes,
                                   struct firn_error *err);
/* Maps all pages of the data now, which later costs no page faults. What is in
 * them stays. */
void firn_grp_touch(struct firn_group *g);
void firn_grp_detach(struct firn_group *g);
unsigned char *firn_grp_stage(struct firn_group *g, int local);
struct grp_place *firn_grp_places(struct firn_group *g);
/* Waits until all processes of this host came here. `patience`: times the
 * timeout. */
enum firn_status firn_grp_meet(struct firn_group *g, double patience,
                               struct firn_error *err);
/* Waits until `counter`, which belongs to a local process, is at `target`. */
enum firn_status firn_grp_await(struct firn_group *g, int local,
                                const _Atomic uint64_t *counter,
                                uint64_t target, struct firn_error *err);
/* Wakes the sleepers of this host. */
void firn_grp_ring(struct firn_group *g);
/* Fails the group for all processes of this host, with this text unless there
 * is one already, and returns the failure. */
enum firn_status firn_grp_fail(struct firn_group *g, struct firn_error *err,
                               const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* FIRN_OK, or the failure of the group. */
enum firn_status firn_grp_sound(struct firn_group *g, struct firn_error *err);

/* --- group_sock.c: leaders only --- */

void firn_grp_set_up(int fd);
/* Listens at the address, or at all when it is not one of this machine; -1:
 * errno tells why not. */
int firn_grp_listen(const char *address, int port);
/* A connection, or -1. */
int firn_grp_call(const char *address, int port, double until_s);
/* The port of one end of a connection, and its address; -1: it has none. */
int firn_grp_end_of(int fd, bool peer, char address[GRP_ADDRESS]);
bool firn_grp_wait_on(int fd, short events, double until_s);
bool firn_grp_send_all(int fd, const void *bytes, size_t n, double until_s);
bool firn_grp_read_all(int fd, void *bytes, size_t n, double until_s);

/* --- group_callers.c: leaders only --- */

struct grp_callers;
/* What becomes of callers that have proven the group's key. */
struct grp_door {
    int listener;
    const unsigned char *key;
    /* NULL: admitted. Else the reason why not. */
    const char *(*judge)(void *arg, const struct grp_claim *claim);
    /* The caller was admitted; the callee owns the connection. */
    void (*let_in)(void *arg, const struct grp_claim *claim, int fd);
    void *arg;
};
/* NULL: no memory. */
struct grp_callers *firn_grp_callers_new(void);
void firn_grp_callers_free(struct grp_callers *callers);
/* One wait, of `wait_ms` at most, for new callers and for what the present ones
 * send. */
void firn_grp_callers_hear(struct grp_callers *callers,
                           const struct grp_door *door, int wait_ms);
/* Callers that were sent away so far. */
int firn_grp_callers_refused(const struct grp_callers *callers);

/* --- group_tcp.c, group_wire.c: leaders only --- */

/* Fills g->host (nhosts of them, by first rank) with open connections. */
enum firn_status firn_grp_rendezvous(struct firn_group *g,
                                     const struct firn_group_config *config,
                                     struct firn_error *err);
void firn_grp_hang_up(struct firn_group *g);

struct grp_piece {
    void *at;
    size_t n;
};
/* What goes to one host and what comes from it, in pieces; no pieces: no
 * message. */
struct grp_flow {
    int host;
    struct grp_piece *out, *in;
    size_t nout, nin;
};
/* Does all flows at once. A failure fails the group here and tells the other
 * hosts. */
enum firn_status firn_grp_exchange(struct firn_group *g,
                                   const struct grp_flow *flow, size_t nflows,
                                   struct firn_error *err);
/* Tells the other hosts that this one has failed. */
void firn_grp_tell_failed(struct firn_group *g, const char *text);

/* --- group_lay.c --- */

/* Floats of shared memory for either order. */
size_t firn_grp_data_floats(struct firn_group *g);
/* Leaves, nodes and their places for the present order; floats needed. */
size_t firn_grp_lay_out(struct firn_group *g);

/* --- group_reduce.c --- */

/* Part `part` of `nparts` of a range; parts begin on a cache line. */
struct grp_range firn_grp_part(struct grp_range r, int part, int nparts);
/* Where a thread's gradient goes; not with little memory. */
float *firn_grp_slot(const struct firn_group *g, int thread);
/* With little memory: was every thread before this one handed in, and none
 * after it? */
enum firn_status firn_grp_in_order(const struct firn_group *g, size_t index,
                                   size_t start, struct firn_error *err);
enum firn_status firn_grp_tree_put(struct firn_group *g, size_t index,
                                   const float *grad, size_t start,
                                   struct firn_error *err);
enum firn_status firn_grp_leaves_reduce(struct firn_group *g, float *out,
                                        size_t start, float divisor,
                                        struct firn_error *err);
void firn_grp_copy_out(struct firn_group *g, float *out, struct grp_range all);

/* --- group_chain.c --- */

enum firn_status firn_grp_chain_put(struct firn_group *g, size_t index,
                                    const float *grad, size_t start,
                                    struct firn_error *err);
enum firn_status firn_grp_chain_reduce(struct firn_group *g, float *out,
                                       size_t start, float divisor,
                                       struct firn_error *err);
int firn_grp_host_of(const struct firn_group *g, int rank);

#endif
