/* group_reduce.c - the mean of the threads' gradients, in the job's order.
 *
 * Each leaf (group_lay.c) has a vector in the memory of its host. On one host
 * every process folds its share of the elements over all leaves into the result
 * and copies the whole of it out. With H hosts each host is responsible for one
 * H-th of the elements: it is sent that part of every foreign node, its
 * processes fold it, and the leaders send the folded parts around.
 *
 * With little memory and the tree a process has no slots: it adds each gradient
 * to the running sum of its block as it comes (a binary counter, tree.c).
 *
 * Invariants
 *   1. Every element is the sum over all threads in the group's order, then one
 *      division.
 *   2. Elements before `start` are not touched, sent or counted.
 *   3. `result` is written after a meeting that follows the copies of all, and
 *      leaves after a meeting that follows the last fold.
 *
 * Cost of slots: (V + 1) vectors of memory on a host, V/P + 1 passes over one
 * in each process; with little memory: B + log V vectors a process with B
 * blocks, and V/P passes while the process computes.
 */
#include "train/groupwork.h"
#include <firn/fold.h>
#include <stdlib.h>
#include <string.h>

struct grp_range firn_grp_part(struct grp_range r, int part, int nparts)
{
    size_t blocks = (r.to - r.from) / 16, n = (size_t)nparts, i = (size_t)part;
    struct grp_range out = {r.from + blocks * i / n * 16,
                            r.from + blocks * (i + 1) / n * 16};
    if (part == nparts - 1)
        out.to = r.to;
    return out;
}

/* --- handing in ------------------------------------------------------------
 */

enum firn_status firn_grp_in_order(const struct firn_group *g, size_t index,
                                   size_t start, struct firn_error *err)
{
    for (size_t i = 0; i < g->nmine; i++)
        if ((g->put[i] != 0) != (i < index) ||
            (i < index && g->put[i] != start + 1))
            return firn_fail(err, FIRN_EINVAL,
                             "group %s: with `chain` thread %d comes after all "
                             "before it, from the same element on",
                             g->name, g->mine[index]);
    return FIRN_OK;
}

float *firn_grp_slot(const struct firn_group *g, int thread)
{
    return g->data + g->leaf[thread].at;
}

/* to += from, elements `start` on. */
static void add(struct firn_group *g, float *to, const float *from,
                size_t start)
{
    if (g->nelements > start)
        firn_fold_add_f32(to + start, from + start, g->nelements - start);
}

/* The block that holds a thread of this process, and its place among the
 * process's blocks. */
static struct tree_block block_of(const struct firn_group *g, int thread,
                                  size_t *place)
{
    *place = 0;
    for (size_t i = 0;; i++) {
        struct tree_block b = g->leaf[i].block;
        if (thread < b.end)
            return b;
        *place += g->owner[b.first] == g->rank;
    }
}

enum firn_status firn_grp_tree_put(struct firn_group *g, size_t index,
                                   const float *grad, size_t start,
                                   struct firn_error *err)
{
    FIRN_TRY(firn_grp_in_order(g, index, start, err));
    size_t place, stride = grp_stride(g);
    struct tree_block b = block_of(g, g->mine[index], &place);
    size_t offset = (size_t)(g->mine[index] - b.first);
    size_t held = firn_tree_held(offset), merges = firn_tree_merges(offset);
    float *sum = grp_vector_of(g, g->local) + place * stride;
    float *top = sum + held * stride; /* behind the sums that are held */
    if (merges == 0 && g->nelements > start)
        memcpy(top + start, grad + start,
               (g->nelements - start) * sizeof *grad);
    if (merges > 0)
        add(g, top - stride, grad, start);
    for (size_t m = 1; m < merges; m++) {
        top -= stride;
        add(g, top - stride, top, start);
    }
    if (g->mine[index] == b.end - 1)
        for (size_t left = firn_tree_held(offset + 1); left > 1; left--)
            add(g, sum + (left - 2) * stride, sum + (left - 1) * stride, start);
    return FIRN_OK;
}

/* --- between hosts ---------------------------------------------------------
 */

/* The pieces of one message between hosts; freed by the caller. */
static struct grp_piece *new_pieces(struct firn_group *g,
                                    struct firn_error *err)
{
    size_t n = g->nnodes * (size_t)g->nhosts + 2 * (size_t)g->nhosts;
    struct grp_piece *pieces = malloc(n * sizeof *pieces);
    if (pieces == NULL)
        firn_grp_fail(g, err, "process %d has no memory", g->rank);
    return pieces;
}

/* Sends each host its share of the nodes here, takes in this host's share of
 * theirs. */
static enum firn_status swap_nodes(struct firn_group *g, struct grp_range all,
                                   struct grp_flow *flow,
                                   struct grp_piece *piece,
                                   struct firn_error *err)
{
    struct grp_range own = firn_grp_part(all, g->at_host, g->nhosts);
    size_t nflows = 0;
    for (int h = 0; h < g->nhosts; h++) {
        if (h == g->at_host)
            continue;
        struct grp_range theirs = firn_grp_part(all, h, g->nhosts);
        struct grp_flow *f = &flow[nflows++];
        *f = (struct grp_flow){.host = h, .out = piece};
        for (size_t i = 0; i < g->nnodes; i++)
            if (g->node[i].host == g->at_host)
                f->out[f->nout++] = (struct grp_piece){
                    g->data + g->node[i].at + theirs.from, grp_nbytes(theirs)};
        piece = f->in = f->out + f->nout;
        for (size_t i = 0; i < g->nnodes; i++)
            if (g->node[i].host == h)
                f->in[f->nin++] = (struct grp_piece){g->data + g->node[i].at,
                                                     grp_nbytes(own)};
        piece += f->nin;
        g->nbytes += f->nout * grp_nbytes(theirs) + f->nin * grp_nbytes(own);
    }
    return firn_grp_exchange(g, flow, nflows, err);
}

static enum firn_status swap_results(struct firn_group *g, struct grp_range all,
                                     struct grp_flow *flow,
                                     struct grp_piece *piece,
                                     struct firn_error *err)
{
    struct grp_range own = firn_grp_part(all, g->at_host, g->nhosts);
    float *result = grp_result(g);
    size_t nflows = 0;
    for (int h = 0; h < g->nhosts; h++) {
        if (h == g->at_host)
            continue;
        struct grp_range theirs = firn_grp_part(all, h, g->nhosts);
        piece[0] = (struct grp_piece){result + own.from, grp_nbytes(own)};
        piece[1] = (struct grp_piece){result + theirs.from, grp_nbytes(theirs)};
        flow[nflows++] = (struct grp_flow){h, piece, piece + 1, 1, 1};
        piece += 2;
        g->nbytes += grp_nbytes(own) + grp_nbytes(theirs);
    }
    return firn_grp_exchange(g, flow, nflows, err);
}

/* A leader's part between two meetings of its host. */
static enum firn_status swap(struct firn_group *g, struct grp_range all,
                             bool results, struct firn_error *err)
{
    if (!grp_leads(g) || g->nhosts == 1)
        return FIRN_OK;
    struct grp_piece *piece = new_pieces(g, err);
    struct grp_flow *flow = malloc((size_t)g->nhosts * sizeof *flow);
    enum firn_status status = FIRN_EIO;
    if (piece != NULL && flow != NULL)
        status = results ? swap_results(g, all, flow, piece, err)
                         : swap_nodes(g, all, flow, piece, err);
    else
        firn_grp_fail(g, err, "process %d has no memory", g->rank);
    free(piece);
    free(flow);
    return status;
}

/* --- folds -----------------------------------------------------------------
 */

/* Sums the leaves of each node of this host into its first one, this process's
 * part of all elements. */
static void fold_nodes(struct firn_group *g, struct grp_range all)
{
    struct grp_range part = firn_grp_part(all, g->local, g->nlocal);
    for (size_t i = 0; i < g->nnodes && part.to > part.from; i++) {
        const struct grp_node *node = &g->node[i];
        size_t n = 0;
        if (node->host != g->at_host)
            continue;
        for (size_t l = node->leaf;
             l < g->nleaves && g->leaf[l].block.first < node->block.end; l++) {
            struct tree_block b = g->leaf[l].block;
            g->in[n] = g->data + g->leaf[l].at + part.from;
            g->leaf_first[n++] = (size_t)(b.first - node->block.first);
            g->leaf_first[n] = (size_t)(b.end - node->block.first);
        }
        if (n > 1)
            firn_fold_tree_f32(g->data + node->at + part.from, g->in,
                               g->leaf_first, n, part.to - part.from, 1);
    }
}

static void fold_part(struct firn_group *g, struct grp_range share,
                      float divisor)
{
    struct grp_range part = firn_grp_part(share, g->local, g->nlocal);
    size_t n = part.to - part.from;
    float *out = grp_result(g) + part.from;
    for (size_t i = 0; i < g->nnodes; i++)
        g->in[i] = g->data + g->node[i].at +
                   (g->node[i].host == g->at_host ? part.from
                                                  : part.from - share.from);
    if (part.to <= part.from)
        return;
    if (g->sum == FIRN_SUM_CHAIN)
        firn_fold_f32(out, g->in, g->nnodes, n, divisor);
    else
        firn_fold_tree_f32(out, g->in, g->node_first, g->nnodes, n, divisor);
}

void firn_grp_copy_out(struct firn_group *g, float *out, struct grp_range all)
{
    if (all.to > all.from)
        memcpy(out + all.from, grp_result(g) + all.from, grp_nbytes(all));
    if (g->nprocs > 1)
        g->nbytes += grp_nbytes(all);
}

enum firn_status firn_grp_leaves_reduce(struct firn_group *g, float *out,
                                        size_t start, float divisor,
                                        struct firn_error *err)
{
    struct grp_range all = {start, g->nelements};
    /* Gradient bytes of this process that others read. */
    for (size_t i = 0; i < g->nleaves && g->nprocs > 1; i++)
        if (g->owner[g->leaf[i].block.first] == g->rank)
            g->nbytes += grp_nbytes(all);
    FIRN_TRY(firn_grp_meet(g, 1, err));
    if (g->nhosts > 1) {
        if (g->sum == FIRN_SUM_TREE) {
            fold_nodes(g, all);
            FIRN_TRY(firn_grp_meet(g, 1, err));
        }
        FIRN_TRY(swap(g, all, false, err));
        FIRN_TRY(firn_grp_meet(g, 2, err));
    }
    fold_part(g, firn_grp_part(all, g->at_host, g->nhosts), divisor);
    FIRN_TRY(firn_grp_meet(g, 1, err));
    if (g->nhosts > 1) {
        FIRN_TRY(swap(g, all, true, err));
        FIRN_TRY(firn_grp_meet(g, 2, err));
    }
    firn_grp_copy_out(g, out, all);
    return FIRN_OK;
}
