/* freemap.h - which GPUs no job holds, indexed so that placing is quick.
 *
 * A GPU is free (up, no holder), held whole by one job, or held by up to
 * jobs_per_gpu jobs as half-shares. For each GPU type the nodes are kept in
 * buckets by their number of free GPUs; a bucket is a bit set over the type's
 * nodes in id order, so "the fullest node that still fits" is a few words to
 * scan and equal nodes come out by id.
 */
#ifndef CORE_FREEMAP_H
#define CORE_FREEMAP_H
#include <firn/alloc.h>

/* The nodes of one type, by number of free GPUs. */
struct freemap_type {
    int nnodes;
    firn_node_id *nodes; /* in id order */
    int max;             /* most GPUs on one node */
    size_t words;        /* 64-bit words in one bucket */
    uint64_t *bits;      /* (max + 1) buckets */
    int *count;          /* nodes in each bucket */
    uint64_t *filled;    /* bit f: bucket f is not empty */
    int free;            /* free GPUs of this type */
    int up;              /* GPUs of this type on nodes that are up */
};

struct freemap {
    const struct firn_cluster *cluster; /* its is_up flags are read */
    int *first_board; /* per node, and one past the end: index of its boards */
    uint64_t *free;   /* per board */
    uint64_t *shared; /* per board: held by at least one half-share */
    uint8_t *sharers; /* per GPU of a board: how many half-shares */
    int *node_free;   /* per node; 0 when down */
    int *rank;        /* per node: its place among its type's nodes */
    struct freemap_type types[FIRN_TYPES_MAX];
    int free_gpus, up_gpus;
    int stranded; /* free GPUs on nodes that are partly used */
};

/* Every GPU that is up is free. `cluster` is borrowed. O(nodes). */
void freemap_init(struct freemap *map, const struct firn_cluster *cluster);
void freemap_release(struct freemap *map);

/* May these GPUs be held now, whole or shared? Every node must be up. */
bool freemap_can_take(const struct freemap *map,
                      const struct firn_alloc *alloc);
/* Holds them; a bug if they may not be. O(parts). */
void freemap_take(struct freemap *map, const struct firn_alloc *alloc);
/* The reverse; a bug if they are not held so. O(parts). */
void freemap_give(struct freemap *map, const struct firn_alloc *alloc);

/* Takes free GPUs out of the map as if they were not there, and puts them back:
 * they count neither as free nor as up. Whole; O(parts). */
void freemap_block(struct freemap *map, const struct firn_alloc *alloc);
void freemap_unblock(struct freemap *map, const struct firn_alloc *alloc);

/* A node came up (nothing is held on it) or went down (everything on it has
 * been given back). Called after is_up has changed. */
void freemap_node_changed(struct freemap *map, firn_node_id node);

/* The node of `type` with the fewest free GPUs that still has `gpus`; the
 * lowest id of several; -1 for none. */
firn_node_id freemap_best_fit(const struct freemap *map, firn_type_id type,
                              int gpus);
/* The node of `type` with the most free GPUs, lowest id; -1 when none has
 * any. */
firn_node_id freemap_emptiest(const struct freemap *map, firn_type_id type);
/* On how many nodes of `type` that many GPUs can stand at the least; -1 when
 * there are not enough. */
int freemap_nodes_needed(const struct freemap *map, firn_type_id type,
                         int gpus);

#endif
