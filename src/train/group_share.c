/* group_share.c - bytes from one process to all, from all to one, the largest.
 *
 * Small and rare next to gradients: orders, decisions, contexts for a
 * checkpoint. They go through the stages of the processes in shared memory,
 * a half at a time, with one meeting for each; leaders carry them between
 * hosts. The halves alternate (groupwork.h), also from one call to the next.
 */
#include "train/groupwork.h"
#include <stdlib.h>
#include <string.h>

static const uint64_t gather_max = (uint64_t)1 << 40;

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static enum firn_status notify_hosts(struct firn_group *g,
                                     enum firn_status status)
{
    if (status != FIRN_OK && grp_leads(g) && g->nhosts > 1)
        firn_grp_tell_failed(g, g->control->text);
    return status;
}

static unsigned char *half_of(struct firn_group *g, int local)
{
    return firn_grp_stage(g, local) + (g->turn & 1) * GRP_HALF;
}

/* The leader of `from` sends `n` bytes at `at` to all others. */
static enum firn_status send_round(struct firn_group *g, int from, void *at,
                                   size_t n, struct firn_error *err)
{
    struct grp_piece piece = {at, n};
    struct grp_flow flow = {.host = from, .in = &piece, .nin = 1};
    if (g->at_host != from)
        return firn_grp_exchange(g, &flow, 1, err);
    for (int h = 0; h < g->nhosts; h++) {
        flow = (struct grp_flow){.host = h, .out = &piece, .nout = 1};
        if (h != from)
            FIRN_TRY(firn_grp_exchange(g, &flow, 1, err));
    }
    return FIRN_OK;
}

static enum firn_status bcast_piece(struct firn_group *g, unsigned char *data,
                                    size_t n, int root, struct firn_error *err)
{
    unsigned char *half = half_of(g, 0);
    int from = firn_grp_host_of(g, root);
    if (g->rank == root)
        memcpy(half, data, n);
    if (grp_leads(g) && g->nhosts > 1 && from != g->at_host)
        FIRN_TRY(send_round(g, from, half, n, err));
    FIRN_TRY(firn_grp_meet(g, g->nhosts > 1 ? 2 : 1, err));
    if (grp_leads(g) && g->nhosts > 1 && from == g->at_host)
        FIRN_TRY(send_round(g, from, half, n, err));
    if (g->rank != root)
        memcpy(data, half, n);
    g->turn++;
    return FIRN_OK;
}

enum firn_status firn_group_bcast(struct firn_group *group, void *data,
                                  size_t nbytes, int root,
                                  struct firn_error *err)
{
    struct firn_group *g = group;
    if (root < 0 || root >= g->nprocs)
        return firn_fail(err, FIRN_EINVAL, "group %s: no process %d", g->name,
                         root);
    FIRN_TRY(firn_grp_sound(g, err));
    unsigned char *at = data;
    for (size_t done = 0; done < nbytes && g->nprocs > 1; done += GRP_HALF)
        FIRN_TRY(notify_hosts(g, bcast_piece(g, at + done,
                                             smaller(nbytes - done, GRP_HALF),
                                             root, err)));
    return FIRN_OK;
}

/* --- gather -------------------------------------------------------------- */

/* A leader's data of its host: sizes, and the bytes in a row. */
struct heap {
    uint64_t *size;
    unsigned char *at;
    uint64_t nbytes;
};

/* All processes of a host put their bytes into the leader's `heap`, which has
 * room for them. */
static enum firn_status pour(struct firn_group *g, const void *data,
                             size_t nbytes, uint64_t longest, struct heap *heap,
                             struct firn_error *err)
{
    const unsigned char *own = data;
    for (uint64_t done = 0; done < longest; done += GRP_HALF) {
        if (done < nbytes)
            memcpy(half_of(g, g->local), own + done,
                   smaller(nbytes - done, GRP_HALF));
        FIRN_TRY(firn_grp_meet(g, 1, err));
        uint64_t before = 0;
        for (int q = 0; q < g->nlocal && grp_leads(g); q++) {
            uint64_t n = heap->size[q];
            if (done < n)
                memcpy(heap->at + before + done, half_of(g, q),
                       smaller(n - done, GRP_HALF));
            before += n;
        }
        g->turn++;
    }
    return FIRN_OK;
}

/* Each process posts its size; returns the largest, and in the leader the sizes
 * of its host. */
static enum firn_status say_sizes(struct firn_group *g, size_t nbytes,
                                  struct heap *heap, uint64_t *longest,
                                  struct firn_error *err)
{
    uint64_t half = g->turn++ & 1;
    g->control->proc[g->local].nbytes[half] = nbytes;
    FIRN_TRY(firn_grp_meet(g, 1, err));
    *longest = 0;
    for (int q = 0; q < g->nlocal; q++) {
        uint64_t n = g->control->proc[q].nbytes[half];
        if (n > gather_max)
            return firn_grp_fail(g, err, "process %d gathers too much",
                                 g->first + q);
        *longest = n > *longest ? n : *longest;
        if (grp_leads(g))
            heap->size[q] = n;
        heap->nbytes += n;
    }
    return FIRN_OK;
}

/* Sizes or bytes of the other hosts to the leader of host 0, where they lie
 * behind its own. */
static enum firn_status bring(struct firn_group *g, struct grp_piece own,
                              struct grp_piece *theirs, struct firn_error *err)
{
    if (g->at_host != 0) {
        struct grp_flow flow = {.host = 0, .out = &own, .nout = 1};
        return firn_grp_exchange(g, &flow, 1, err);
    }
    for (int h = 1; h < g->nhosts; h++) {
        struct grp_flow flow = {.host = h, .in = &theirs[h], .nin = 1};
        FIRN_TRY(firn_grp_exchange(g, &flow, 1, err));
    }
    return FIRN_OK;
}

/* Leaders: the heaps of all hosts become that of host 0. */
static enum firn_status merge(struct firn_group *g, struct heap *heap,
                              struct grp_piece *theirs, struct firn_error *err)
{
    for (int h = 1; h < g->nhosts; h++)
        theirs[h] =
            (struct grp_piece){heap->size + g->host[h].first,
                               (size_t)g->host[h].nprocs * sizeof *heap->size};
    struct grp_piece own = {heap->size, (size_t)g->nlocal * sizeof *heap->size};
    FIRN_TRY(bring(g, own, theirs, err));
    uint64_t total = heap->nbytes;
    for (int h = 1; h < g->nhosts && g->at_host == 0; h++) {
        uint64_t n = 0;
        for (int r = 0; r < g->host[h].nprocs; r++) {
            uint64_t one = heap->size[g->host[h].first + r];
            if (one > gather_max)
                return firn_grp_fail(g, err, "process %d gathers too much",
                                     g->host[h].first + r);
            n += one;
        }
        theirs[h].n = (size_t)n;
        total += n;
    }
    if (g->at_host == 0) {
        unsigned char *more = realloc(heap->at, (size_t)total + 1);
        if (more == NULL)
            return firn_grp_fail(g, err, "process 0 has no memory");
        heap->at = more;
        uint64_t at = heap->nbytes;
        for (int h = 1; h < g->nhosts; at += theirs[h].n, h++)
            theirs[h].at = more + at;
    }
    own = (struct grp_piece){heap->at, (size_t)heap->nbytes};
    return bring(g, own, theirs, err);
}

static enum firn_status gather(struct firn_group *g, const void *data,
                               size_t nbytes, struct heap *heap,
                               struct firn_error *err)
{
    uint64_t longest;
    FIRN_TRY(say_sizes(g, nbytes, heap, &longest, err));
    if (grp_leads(g)) {
        heap->at = malloc((size_t)heap->nbytes + 1);
        if (heap->at == NULL)
            return firn_grp_fail(g, err, "process %d has no memory", g->rank);
    }
    FIRN_TRY(pour(g, data, nbytes, longest, heap, err));
    if (!grp_leads(g) || g->nhosts == 1)
        return FIRN_OK;
    struct grp_piece *theirs = calloc((size_t)g->nhosts, sizeof *theirs);
    if (theirs == NULL)
        return firn_grp_fail(g, err, "process %d has no memory", g->rank);
    enum firn_status status = merge(g, heap, theirs, err);
    free(theirs);
    return status;
}

enum firn_status firn_group_gather(struct firn_group *group, const void *data,
                                   size_t nbytes, void **all, size_t *nall,
                                   struct firn_error *err)
{
    struct firn_group *g = group;
    FIRN_TRY(firn_grp_sound(g, err));
    struct heap heap = {.size = calloc((size_t)g->nprocs, sizeof *heap.size)};
    if (heap.size == NULL)
        return firn_grp_fail(g, err, "process %d has no memory", g->rank);
    enum firn_status status =
        notify_hosts(g, gather(g, data, nbytes, &heap, err));
    if (status == FIRN_OK && g->rank == 0) {
        for (int r = 0; r < g->nprocs; r++)
            nall[r] = (size_t)heap.size[r];
        *all = heap.at;
        heap.at = NULL;
    } else if (status == FIRN_OK && all != NULL) {
        *all = NULL;
    }
    free(heap.at);
    free(heap.size);
    return status;
}

void firn_group_free(void *all)
{
    free(all);
}

/* On one host, and small: one meeting. */
static enum firn_status allgather_here(struct firn_group *g, const void *data,
                                       size_t nbytes, unsigned char *all,
                                       struct firn_error *err)
{
    memcpy(half_of(g, g->local), data, nbytes);
    FIRN_TRY(firn_grp_meet(g, 1, err));
    for (int q = 0; q < g->nlocal; q++)
        memcpy(all + (size_t)q * nbytes, half_of(g, q), nbytes);
    g->turn++;
    return FIRN_OK;
}

enum firn_status firn_group_allgather(struct firn_group *group,
                                      const void *data, size_t nbytes,
                                      void *all, struct firn_error *err)
{
    struct firn_group *g = group;
    FIRN_TRY(firn_grp_sound(g, err));
    if (g->nhosts == 1 && nbytes <= GRP_HALF)
        return allgather_here(g, data, nbytes, all, err);
    void *got = NULL;
    size_t *nall = calloc((size_t)g->nprocs, sizeof *nall);
    if (nall == NULL)
        return firn_grp_fail(g, err, "process %d has no memory", g->rank);
    enum firn_status status =
        firn_group_gather(g, data, nbytes, &got, nall, err);
    size_t total = (size_t)g->nprocs * nbytes;
    for (int r = 0; r < g->nprocs && status == FIRN_OK && g->rank == 0; r++)
        if (nall[r] != nbytes)
            status = firn_grp_fail(g, err, "process %d is in another call", r);
    if (got != NULL && status == FIRN_OK)
        memcpy(all, got, total);
    firn_group_free(got);
    free(nall);
    return status == FIRN_OK ? firn_group_bcast(g, all, total, 0, err)
                             : notify_hosts(g, status);
}

/* --- max ----------------------------------------------------------------- */

/* The leaders tell each other the largest of their hosts. */
static enum firn_status max_of_hosts(struct firn_group *g, int64_t *value,
                                     struct firn_error *err)
{
    int64_t own = *value;
    for (int h = 0; h < g->nhosts; h++) {
        int64_t other = own;
        struct grp_piece out = {&own, sizeof own}, in = {&other, sizeof other};
        struct grp_flow flow = {h, &out, &in, 1, 1};
        if (h != g->at_host)
            FIRN_TRY(firn_grp_exchange(g, &flow, 1, err));
        *value = other > *value ? other : *value;
    }
    return FIRN_OK;
}

static enum firn_status largest(struct firn_group *g, int64_t *value,
                                struct firn_error *err)
{
    uint64_t half = g->turn++ & 1;
    g->control->proc[g->local].value[half] = *value;
    FIRN_TRY(firn_grp_meet(g, 1, err));
    int64_t found = *value;
    for (int q = 0; q < g->nlocal; q++) {
        int64_t other = g->control->proc[q].value[half];
        found = other > found ? other : found;
    }
    if (g->nhosts > 1) {
        if (grp_leads(g)) {
            FIRN_TRY(max_of_hosts(g, &found, err));
            g->control->value[half] = found;
        }
        FIRN_TRY(firn_grp_meet(g, 2, err));
        found = g->control->value[half];
    }
    *value = found;
    return FIRN_OK;
}

enum firn_status firn_group_max(struct firn_group *group, int64_t *value,
                                struct firn_error *err)
{
    FIRN_TRY(firn_grp_sound(group, err));
    return notify_hosts(group, largest(group, value, err));
}
