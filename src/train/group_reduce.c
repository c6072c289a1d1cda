/* group_reduce.c - the mean of the threads' gradients, in the order of threads.
 *
 * Slots: each thread has a vector in the memory of its host. On one host every
 * process folds its share of the elements over all slots into the result and
 * copies the whole of it out. With H hosts each host is responsible for one
 * H-th of the elements: it is sent that part of every foreign slot, its
 * processes fold it, and the leaders send the folded parts around.
 *
 * Chain: each process has one vector and holds a run of threads. The vector
 * takes the first gradient as it comes; at the second one, or at the
 * reduction, the sum of the processes before is added, and from there on each
 * gradient as it comes: S + g is g + S, so the bits are those of the fold.
 * A process with two threads or fewer therefore never waits for another while
 * it computes. Between hosts the leader hands on the sum of its last process,
 * and takes in the sum of the host before as soon as it has to wait itself.
 *
 * Invariants
 *   1. Every element is the left fold over all threads, then one division.
 *   2. Elements before `start` are not touched, sent or counted.
 *   3. `result` is written after a meeting that follows the copies of all.
 *
 * Cost of slots: (V + 1) vectors of memory on a host, V/P + 1 passes over one
 * in each process; of a chain: P + 1 vectors, and the passes are one after
 * another.
 */
#include "train/groupwork.h"
#include <firn/fold.h>
#include <stdlib.h>
#include <string.h>

struct range {
    size_t from, to;
};

/* Part `part` of `nparts` of a range; parts begin on a cache line. */
static struct range part_of(struct range r, int part, int nparts)
{
    size_t blocks = (r.to - r.from) / 16, n = (size_t)nparts, i = (size_t)part;
    struct range out = {r.from + blocks * i / n * 16,
                        r.from + blocks * (i + 1) / n * 16};
    if (part == nparts - 1)
        out.to = r.to;
    return out;
}

static size_t nbytes_of(struct range r)
{
    return (r.to - r.from) * sizeof(float);
}

/* --- where the vectors lie ----------------------------------------------- */

static size_t stride_of(const struct firn_group *g)
{
    return (g->nelements + 15) / 16 * 16 + 16;
}

static size_t share_stride_of(const struct firn_group *g)
{
    return g->nhosts > 1 ? (g->nelements / (size_t)g->nhosts + 47) / 16 * 16
                         : 0;
}

static bool is_here(const struct firn_group *g, int thread)
{
    int local = g->owner[thread] - g->first;
    return local >= 0 && local < g->nlocal;
}

size_t firn_grp_data_floats(const struct firn_group *g)
{
    size_t stride = stride_of(g);
    if (g->chain)
        return stride * ((size_t)g->nlocal + 1 + (g->nhosts > 1));
    size_t n = stride;
    for (int v = 0; v < g->nthreads; v++)
        n += is_here(g, v) ? stride : share_stride_of(g);
    return n;
}

void firn_grp_lay_out(struct firn_group *g)
{
    size_t stride = stride_of(g);
    float *at = g->data;
    g->result = at;
    at += stride;
    if (g->chain) {
        for (int q = 0; q < g->nlocal; q++, at += stride)
            g->vector[q] = at;
        g->incoming = at;
        return;
    }
    g->share_stride = share_stride_of(g);
    for (int v = 0; v < g->nthreads; v++) {
        g->vector[v] = at;
        at += is_here(g, v) ? stride : g->share_stride;
    }
}

/* --- slots --------------------------------------------------------------- */

/* The pieces of one message between hosts; freed by the caller. */
static struct grp_piece *new_pieces(struct firn_group *g,
                                    struct firn_error *err)
{
    size_t n = (size_t)g->nthreads * (size_t)g->nhosts + (size_t)g->nhosts;
    struct grp_piece *pieces = malloc(n * sizeof *pieces);
    if (pieces == NULL)
        firn_grp_fail(g, err, "process %d has no memory", g->rank);
    return pieces;
}

/* Sends each host its share of the slots here, takes in this host's share of
 * theirs. */
static enum firn_status swap_slots(struct firn_group *g, struct range all,
                                   struct grp_flow *flow,
                                   struct grp_piece *piece,
                                   struct firn_error *err)
{
    struct range own = part_of(all, g->at_host, g->nhosts);
    size_t nflows = 0;
    for (int h = 0; h < g->nhosts; h++) {
        if (h == g->at_host)
            continue;
        struct range theirs = part_of(all, h, g->nhosts);
        struct grp_flow *f = &flow[nflows++];
        *f = (struct grp_flow){.host = h, .out = piece};
        for (int v = 0; v < g->nthreads; v++)
            if (is_here(g, v))
                f->out[f->nout++] = (struct grp_piece){
                    g->vector[v] + theirs.from, nbytes_of(theirs)};
        piece = f->in = f->out + f->nout;
        for (int v = 0; v < g->nthreads; v++)
            if (firn_grp_host_of(g, g->owner[v]) == h)
                f->in[f->nin++] =
                    (struct grp_piece){g->vector[v], nbytes_of(own)};
        piece += f->nin;
        g->nbytes += f->nout * nbytes_of(theirs) + f->nin * nbytes_of(own);
    }
    return firn_grp_exchange(g, flow, nflows, err);
}

static enum firn_status swap_results(struct firn_group *g, struct range all,
                                     struct grp_flow *flow,
                                     struct grp_piece *piece,
                                     struct firn_error *err)
{
    struct range own = part_of(all, g->at_host, g->nhosts);
    size_t nflows = 0;
    for (int h = 0; h < g->nhosts; h++) {
        if (h == g->at_host)
            continue;
        struct range theirs = part_of(all, h, g->nhosts);
        piece[0] = (struct grp_piece){g->result + own.from, nbytes_of(own)};
        piece[1] =
            (struct grp_piece){g->result + theirs.from, nbytes_of(theirs)};
        flow[nflows++] = (struct grp_flow){h, piece, piece + 1, 1, 1};
        piece += 2;
        g->nbytes += nbytes_of(own) + nbytes_of(theirs);
    }
    return firn_grp_exchange(g, flow, nflows, err);
}

/* A leader's part between two meetings of its host. */
static enum firn_status swap(struct firn_group *g, struct range all,
                             bool results, struct firn_error *err)
{
    if (!grp_leads(g) || g->nhosts == 1)
        return FIRN_OK;
    struct grp_piece *piece = new_pieces(g, err);
    struct grp_flow *flow = malloc((size_t)g->nhosts * sizeof *flow);
    enum firn_status status = FIRN_EIO;
    if (piece != NULL && flow != NULL)
        status = results ? swap_results(g, all, flow, piece, err)
                         : swap_slots(g, all, flow, piece, err);
    else
        firn_grp_fail(g, err, "process %d has no memory", g->rank);
    free(piece);
    free(flow);
    return status;
}

static void fold_part(struct firn_group *g, struct range share, float divisor)
{
    struct range part = part_of(share, g->local, g->nlocal);
    for (int v = 0; v < g->nthreads; v++)
        g->in[v] =
            g->vector[v] + (is_here(g, v) ? part.from : part.from - share.from);
    if (part.to > part.from)
        firn_fold_f32(g->result + part.from, g->in, (size_t)g->nthreads,
                      part.to - part.from, divisor);
}

static void copy_out(struct firn_group *g, float *out, struct range all)
{
    if (all.to > all.from)
        memcpy(out + all.from, g->result + all.from, nbytes_of(all));
    if (g->nprocs > 1)
        g->nbytes += nbytes_of(all);
}

enum firn_status firn_grp_slots_reduce(struct firn_group *g, float *out,
                                       size_t start, float divisor,
                                       struct firn_error *err)
{
    struct range all = {start, g->nelements};
    FIRN_TRY(firn_grp_meet(g, 1, err));
    if (g->nhosts > 1) {
        FIRN_TRY(swap(g, all, false, err));
        FIRN_TRY(firn_grp_meet(g, 2, err));
    }
    fold_part(g, part_of(all, g->at_host, g->nhosts), divisor);
    FIRN_TRY(firn_grp_meet(g, 1, err));
    if (g->nhosts > 1) {
        FIRN_TRY(swap(g, all, true, err));
        FIRN_TRY(firn_grp_meet(g, 2, err));
    }
    copy_out(g, out, all);
    return FIRN_OK;
}

/* --- the chain ----------------------------------------------------------- */

/* The process before this one in the order of threads; -1: none. */
static int before(const struct firn_group *g)
{
    return g->mine[0] == 0 ? -1 : g->owner[g->mine[0] - 1];
}

/* The hosts before and behind this one in the chain; -1: none. */
static int host_before(const struct firn_group *g)
{
    int v = 0;
    while (!is_here(g, v))
        v++;
    return v == 0 ? -1 : firn_grp_host_of(g, g->owner[v - 1]);
}

static int last_here(const struct firn_group *g)
{
    int v = g->nthreads - 1;
    while (!is_here(g, v))
        v--;
    return v;
}

/* The leader takes in the sum of the host before, once for a reduction. */
static enum firn_status take_in(struct firn_group *g, struct range all,
                                struct firn_error *err)
{
    int from = host_before(g);
    uint64_t turn = g->nreduced + 1;
    if (!grp_leads(g) || from < 0 || atomic_load(&g->control->taken) == turn)
        return FIRN_OK;
    struct grp_piece piece = {g->incoming + all.from, nbytes_of(all)};
    struct grp_flow flow = {.host = from, .in = &piece, .nin = 1};
    FIRN_TRY(firn_grp_exchange(g, &flow, 1, err));
    g->nbytes += piece.n;
    atomic_store(&g->control->taken, turn);
    firn_grp_ring(g);
    return FIRN_OK;
}

/* Adds the sum of the threads before this process's first. */
static enum firn_status add_before(struct firn_group *g, struct range all,
                                   struct firn_error *err)
{
    FIRN_TRY(take_in(g, all, err));
    int rank = before(g);
    if (rank < 0)
        return FIRN_OK;
    uint64_t turn = g->nreduced + 1;
    int local = rank - g->first;
    const float *sum = g->incoming;
    if (local >= 0 && local < g->nlocal) {
        FIRN_TRY(firn_grp_await(g, local, &g->control->proc[local].summed, turn,
                                err));
        sum = g->vector[local];
    } else {
        FIRN_TRY(firn_grp_await(g, 0, &g->control->taken, turn, err));
    }
    if (all.to > all.from)
        firn_fold_add_f32(g->vector[g->local] + all.from, sum + all.from,
                          all.to - all.from);
    g->nbytes += nbytes_of(all);
    return FIRN_OK;
}

enum firn_status firn_grp_chain_put(struct firn_group *g, size_t index,
                                    const float *grad, size_t start,
                                    struct firn_error *err)
{
    struct range all = {start, g->nelements};
    float *sum = g->vector[g->local];
    size_t n = all.to - all.from;
    for (size_t i = 0; i < g->nmine; i++)
        if ((g->put[i] != 0) != (i < index) ||
            (i < index && g->put[i] != start + 1))
            return firn_fail(err, FIRN_EINVAL,
                             "group %s: in a chain thread %d comes after all "
                             "before it, from the same element on",
                             g->name, g->mine[index]);
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
                                struct range all, int to,
                                struct firn_error *err)
{
    struct grp_piece piece = {vector + all.from, nbytes_of(all)};
    struct grp_flow flow = {.host = to, .out = &piece, .nout = 1};
    g->nbytes += piece.n;
    return firn_grp_exchange(g, &flow, 1, err);
}

static enum firn_status spread_result(struct firn_group *g, struct range all,
                                      struct firn_error *err)
{
    int last = firn_grp_host_of(g, g->owner[g->nthreads - 1]);
    if (g->nhosts == 1 || !grp_leads(g))
        return FIRN_OK;
    if (last == g->at_host) {
        for (int h = 0; h < g->nhosts; h++)
            if (h != last)
                FIRN_TRY(hand_on(g, g->result, all, h, err));
        return FIRN_OK;
    }
    struct grp_piece piece = {g->result + all.from, nbytes_of(all)};
    struct grp_flow flow = {.host = last, .in = &piece, .nin = 1};
    g->nbytes += piece.n;
    return firn_grp_exchange(g, &flow, 1, err);
}

enum firn_status firn_grp_chain_reduce(struct firn_group *g, float *out,
                                       size_t start, float divisor,
                                       struct firn_error *err)
{
    struct range all = {start, g->nelements};
    FIRN_TRY(take_in(g, all, err));
    if (g->nmine == 1)
        FIRN_TRY(add_before(g, all, err));
    atomic_store(&g->control->proc[g->local].summed, g->nreduced + 1);
    firn_grp_ring(g);
    FIRN_TRY(firn_grp_meet(g, 2, err));
    int thread = last_here(g);
    float *sum = g->vector[g->owner[thread] - g->first];
    if (thread == g->nthreads - 1) {
        struct range part = part_of(all, g->local, g->nlocal);
        const float *in = sum + part.from;
        if (part.to > part.from)
            firn_fold_f32(g->result + part.from, &in, 1, part.to - part.from,
                          divisor);
        FIRN_TRY(firn_grp_meet(g, 1, err));
        FIRN_TRY(spread_result(g, all, err));
    } else {
        int next = firn_grp_host_of(g, g->owner[thread + 1]);
        if (grp_leads(g))
            FIRN_TRY(hand_on(g, sum, all, next, err));
        FIRN_TRY(spread_result(g, all, err));
        FIRN_TRY(firn_grp_meet(g, 2, err));
    }
    copy_out(g, out, all);
    return FIRN_OK;
}
