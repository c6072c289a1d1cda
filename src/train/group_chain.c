/* group_chain.c - the running sum that is handed from process to process.
 *
 * For jobs whose order is the chain and that want one vector per process: each
 * process has one vector and holds a run of threads. The vector takes the first
 * gradient as it comes; at the second one, or at the reduction, the sum of the
 * processes before is added, and from there on each gradient as it comes: S + g
 * is g + S, so the bits are those of the fold. A process with two threads or
 * fewer therefore never waits for another while it computes. Between hosts the
 * leader hands on the sum of its last process, and takes in the sum of the host
 * before as soon as it has to wait itself.
 *
 * Invariants
 *   1. Every element is the left fold over all threads, then one division.
 *   2. Elements before `start` are not touched, sent or counted.
 *
 * Cost: P + 1 vectors; the passes over them are one after another.
 */
#include "train/groupwork.h"
#include <firn/fold.h>
#include <string.h>

/* The hosts before and behind this one in the chain; -1: none. */
static int host_before(const struct firn_group *g)
{
    int v = 0;
    while (!grp_is_here(g, v))
        v++;
    return v == 0 ? -1 : firn_grp_host_of(g, g->owner[v - 1]);
}

static int last_here(const struct firn_group *g)
{
    int v = g->nthreads - 1;
    while (!grp_is_here(g, v))
        v--;
    return v;
}

/* The leader takes in the sum of the host before, once for a reduction. */
static enum firn_status take_in(struct firn_group *g, struct grp_range all,
                                struct firn_error *err)
{
    int from = host_before(g);
    uint64_t turn = g->nreduced + 1;
    if (!grp_leads(g) || from < 0 || atomic_load(&g->control->taken) == turn)
        return FIRN_OK;
    struct grp_piece piece = {grp_incoming(g) + all.from, grp_nbytes(all)};
    struct grp_flow flow = {.host = from, .in = &piece, .nin = 1};
    FIRN_TRY(firn_grp_exchange(g, &flow, 1, err));
    g->nbytes += piece.n;
    atomic_store(&g->control->taken, turn);
    firn_grp_ring(g);
    return FIRN_OK;
}

/* Adds the sum of the threads before this process's first. */
static enum firn_status add_before(struct firn_group *g, struct grp_range all,
                                   struct firn_error *err)
{
    FIRN_TRY(take_in(g, all, err));
    /* The process before this one in the order of threads; -1: none. */
    int rank = g->mine[0] == 0 ? -1 : g->owner[g->mine[0] - 1];
    if (rank < 0)
        return FIRN_OK;
    uint64_t turn = g->nreduced + 1;
    int local = rank - g->first;
    const float *sum = grp_incoming(g);
    if (local >= 0 && local < g->nlocal) {
        FIRN_TRY(firn_grp_await(g, local, &g->control->proc[local].summed, turn,
                                err));
        sum = grp_vector_of(g, local);
    } else {
        FIRN_TRY(firn_grp_await(g, 0, &g->control->taken, turn, err));
    }
    if (all.to > all.from)
        firn_fold_add_f32(grp_vector_of(g, g->local) + all.from, sum + all.from,
                          all.to - all.from);
    g->nbytes += grp_nbytes(all);
    return FIRN_OK;
}

enum firn_status firn_grp_chain_put(struct firn_group *g, size_t index,
                                    const float *grad, size_t start,
                                    struct firn_error *err)
{
    struct grp_range all = {start, g->nelements};
    float *sum = grp_vector_of(g, g->local);
    size_t n = all.to - all.from;
    FIRN_TRY(firn_grp_in_order(g, index, start, err));
    if (index == 1)
        FIRN_TRY(add_before(g, all, err));
    if (index == 0 && n > 0)
        memcpy(sum + start, grad + start, n * sizeof *grad);
    else if (n > 0)
        firn_fold_add_f32(sum + start, grad + start, n);
    return FIRN_OK;
}

/* From the last host of the chain to all others, or from this host to the
 * next; the leader's part. */
static enum firn_status hand_on(struct firn_group *g, float *vector,
                                struct grp_range all, int to,
                                struct firn_error *err)
{
    struct grp_piece piece = {vector + all.from, grp_nbytes(all)};
    struct grp_flow flow = {.host = to, .out = &piece, .nout = 1};
    g->nbytes += piece.n;
    return firn_grp_exchange(g, &flow, 1, err);
}

static enum firn_status spread_result(struct firn_group *g,
                                      struct grp_range all,
                                      struct firn_error *err)
{
    int last = firn_grp_host_of(g, g->owner[g->nthreads - 1]);
    if (g->nhosts == 1 || !grp_leads(g))
        return FIRN_OK;
    if (last == g->at_host) {
        for (int h = 0; h < g->nhosts; h++)
            if (h != last)
                FIRN_TRY(hand_on(g, grp_result(g), all, h, err));
        return FIRN_OK;
    }
    struct grp_piece piece = {grp_result(g) + all.from, grp_nbytes(all)};
    struct grp_flow flow = {.host = last, .in = &piece, .nin = 1};
    g->nbytes += piece.n;
    return firn_grp_exchange(g, &flow, 1, err);
}

enum firn_status firn_grp_chain_reduce(struct firn_group *g, float *out,
                                       size_t start, float divisor,
                                       struct firn_error *err)
{
    struct grp_range all = {start, g->nelements};
    FIRN_TRY(take_in(g, all, err));
    if (g->nmine == 1)
        FIRN_TRY(add_before(g, all, err));
    atomic_store(&g->control->proc[g->local].summed, g->nreduced + 1);
    firn_grp_ring(g);
    FIRN_TRY(firn_grp_meet(g, 2, err));
    int thread = last_here(g);
    float *sum = grp_vector_of(g, g->owner[thread] - g->first);
    if (thread == g->nthreads - 1) {
        struct grp_range part = firn_grp_part(all, g->local, g->nlocal);
        const float *in = sum + part.from;
        if (part.to > part.from)
            firn_fold_f32(grp_result(g) + part.from, &in, 1,
                          part.to - part.from, divisor);
        FIRN_TRY(firn_grp_meet(g, 1, err));
        FIRN_TRY(spread_result(g, all, err));
    } else {
        int next = firn_grp_host_of(g, g->owner[thread + 1]);
        if (grp_leads(g))
            FIRN_TRY(hand_on(g, sum, all, next, err));
        FIRN_TRY(spread_result(g, all, err));
        FIRN_TRY(firn_grp_meet(g, 2, err));
    }
    firn_grp_copy_out(g, out, all);
    return FIRN_OK;
}
