/* group_lay.c - what each vector of a group stands for, and where it lies.
 *
 * A leaf is what a process hands in: the gradient of one thread (slots), or the
 * sum of an aligned block of its threads (little memory, order tree). A node is
 * an operand of the last fold. On one host nodes are the leaves. With several
 * hosts and the tree, the leaves of a host are first summed to the largest
 * aligned blocks that the host holds, so a host that holds an aligned block
 * sends one vector; in the order of the chain nodes stay leaves.
 *
 * Vectors of shared memory, one behind the other:
 *
 *   result                  the mean
 *   slots of this host      or, with little memory, some vectors of each
 * process shares of other hosts   an H-th of each foreign node incoming chain
 * with little memory: the sum handed in
 *
 * Invariants
 *   1. Leaves and nodes are rising, disjoint and cover all threads.
 *   2. A node of this host has the vector of its first leaf.
 *
 * The order may be changed between two reductions (a checkpoint names its own):
 * the memory is as large as the larger of both layouts.
 */
#include "train/groupwork.h"
#include <firn/fold.h>

static size_t share_stride_of(const struct firn_group *g)
{
    return g->nhosts > 1 ? (g->nelements / (size_t)g->nhosts + 47) / 16 * 16
                         : 0;
}

/* --- leaves and nodes ------------------------------------------------------
 */

static void add(struct grp_node *to, size_t *n, struct tree_block block,
                int host)
{
    to[(*n)++] = (struct grp_node){.block = block, .host = host};
}

/* The blocks of the owners in g->places. */
static void blocks(struct firn_group *g, struct grp_node *to, size_t *n)
{
    size_t nblocks = firn_tree_blocks(g->block, g->places, g->nthreads, -1);
    for (size_t b = 0; b < nblocks; b++)
        add(to, n, g->block[b],
            firn_grp_host_of(g, g->owner[g->block[b].first]));
}

static void find_leaves(struct firn_group *g)
{
    g->nleaves = 0;
    if (!grp_is_compact(g)) {
        for (int v = 0; v < g->nthreads; v++)
            add(g->leaf, &g->nleaves, (struct tree_block){v, v + 1},
                firn_grp_host_of(g, g->owner[v]));
        return;
    }
    for (int v = 0; v < g->nthreads; v++)
        g->places[v] = g->owner[v];
    blocks(g, g->leaf, &g->nleaves);
}

static void find_nodes(struct firn_group *g)
{
    g->nnodes = 0;
    if (g->nhosts == 1 || g->sum == FIRN_SUM_CHAIN) {
        while (g->nnodes < g->nleaves) {
            g->node[g->nnodes] = g->leaf[g->nnodes];
            g->nnodes++;
        }
        return;
    }
    for (int v = 0; v < g->nthreads; v++)
        g->places[v] = firn_grp_host_of(g, g->owner[v]);
    blocks(g, g->node, &g->nnodes);
}

/* --- places ----------------------------------------------------------------
 */

/* Vectors of a local process with little memory: its blocks in their order, and
 * behind the present one what its running sum needs. */
static size_t vectors_of(const struct firn_group *g, int rank)
{
    size_t most = 1, nblocks = 0;
    if (g->sum == FIRN_SUM_CHAIN)
        return most;
    for (size_t i = 0; i < g->nleaves; i++) {
        struct tree_block b = g->leaf[i].block;
        if (g->owner[b.first] != rank)
            continue;
        size_t need = nblocks++ + firn_tree_depth((size_t)(b.end - b.first));
        most = need > most ? need : most;
    }
    return most;
}

/* The leaves of this host; returns the end. */
static size_t lay_leaves(struct firn_group *g, size_t at, size_t stride)
{
    size_t ndone[GRP_MAX_PROCS] = {0};
    for (int q = 0; q < g->nlocal && g->little; q++) {
        g->proc_at[q] = at;
        at += stride * vectors_of(g, g->first + q);
    }
    for (size_t i = 0; i < g->nleaves; i++) {
        struct grp_node *leaf = &g->leaf[i];
        int local = g->owner[leaf->block.first] - g->first;
        if (leaf->host != g->at_host)
            continue;
        if (g->little) {
            leaf->at = g->proc_at[local] + ndone[local]++ * stride;
        } else {
            leaf->at = at;
            at += stride;
        }
    }
    return at;
}

/* The nodes: of this host at their first leaves, of others their shares. */
static size_t lay_nodes(struct firn_group *g, size_t at)
{
    size_t leaf = 0;
    for (size_t i = 0; i < g->nnodes; i++) {
        struct grp_node *node = &g->node[i];
        while (g->leaf[leaf].block.first < node->block.first)
            leaf++;
        node->leaf = leaf;
        node->at = g->leaf[leaf].at;
        if (node->host != g->at_host) {
            node->at = at;
            at += share_stride_of(g);
        }
        g->node_first[i] = (size_t)node->block.first;
    }
    g->node_first[g->nnodes] = (size_t)g->nthreads;
    return at;
}

size_t firn_grp_lay_out(struct firn_group *g)
{
    size_t stride = grp_stride(g);
    find_leaves(g);
    find_nodes(g);
    size_t at = lay_leaves(g, stride, stride);
    if (g->little && g->sum == FIRN_SUM_CHAIN) {
        g->incoming_at = at;
        return at + (g->nhosts > 1 ? stride : 0);
    }
    return lay_nodes(g, at);
}

size_t firn_grp_data_floats(struct firn_group *g)
{
    enum firn_sum sum = g->sum;
    g->sum = FIRN_SUM_CHAIN;
    size_t chain = firn_grp_lay_out(g);
    g->sum = FIRN_SUM_TREE;
    size_t tree = firn_grp_lay_out(g);
    g->sum = sum;
    firn_grp_lay_out(g);
    return chain > tree ? chain : tree;
}
