/* peers.c - of equal jobs the one submitted first comes first.
 *
 * Jobs that never held GPUs are sorted twice: by request and id, and by
 * request, answer and id. Place k of the one order takes the answer at place k
 * of the other. Requests come first in both, so equal jobs stand at the same
 * places, and the answers move among them only.
 *
 * Invariants:
 * (1) `from` is a permutation;
 * (2) a job that has held GPUs keeps its answer: what it has done makes it
 *     different from all others.
 */
#include "policy/peers.h"
#include <stdlib.h>
#include <string.h>

/* A text that may be NULL, which means the same as "". */
static int compare_texts(const char *a, const char *b)
{
    return strcmp(a != NULL ? a : "", b != NULL ? b : "");
}

static int compare_sizes(const struct firn_job_spec *a,
                         const struct firn_job_spec *b)
{
    if (a->duration_s != b->duration_s)
        return firn_cmp(a->duration_s, b->duration_s);
    if (a->gpus != b->gpus)
        return firn_cmp(a->gpus, b->gpus);
    if (a->gpus_min != b->gpus_min)
        return firn_cmp(a->gpus_min, b->gpus_min);
    if (a->gpus_max != b->gpus_max)
        return firn_cmp(a->gpus_max, b->gpus_max);
    if (a->restart_s != b->restart_s)
        return firn_cmp(a->restart_s, b->restart_s);
    if (a->mem_gib != b->mem_gib)
        return firn_cmp(a->mem_gib, b->mem_gib);
    if (a->batch != b->batch)
        return firn_cmp(a->batch, b->batch);
    if (a->threads != b->threads)
        return firn_cmp(a->threads, b->threads);
    if (a->seq != b->seq)
        return firn_cmp(a->seq, b->seq);
    return firn_cmp(a->frozen_max, b->frozen_max);
}

static int flags_of(const struct firn_job_spec *spec)
{
    return spec->may_share | spec->may_merge << 1 | spec->one_type << 2 |
           spec->is_nominal << 3 | spec->one_node << 4;
}

/* By request; 0: the two ask for the same. */
static int compare_requests(const struct firn_job *x, const struct firn_job *y)
{
    const struct firn_job_spec *a = &x->spec, *b = &y->spec;
    int order = compare_sizes(a, b);
    if (order == 0)
        order = firn_cmp(a->priority, b->priority);
    if (order == 0)
        order = firn_cmp(x->gpus_cap, y->gpus_cap);
    if (order == 0)
        order = firn_cmp(flags_of(a), flags_of(b));
    if (order == 0)
        order = firn_cmp(a->cannot, b->cannot);
    if (order == 0)
        order = firn_cmp(x->type_mask, y->type_mask);
    if (order == 0)
        order = compare_texts(a->app, b->app);
    if (order == 0)
        order = compare_texts(a->types, b->types);
    return order != 0 ? order : compare_texts(a->merge_key, b->merge_key);
}

static bool is_new(const struct firn_job *job)
{
    return job->state == FIRN_JOB_WAITING && job->starts == 0; /* (2) */
}

bool peers_are(const struct firn_job *a, const struct firn_job *b)
{
    return is_new(a) && is_new(b) && compare_requests(a, b) == 0;
}

static int by_request(const struct peer *x, const struct peer *y)
{
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return compare_requests(x->job, y->job);
}

static int older_first(const void *a, const void *b)
{
    const struct peer *x = *(const struct peer *const *)a;
    const struct peer *y = *(const struct peer *const *)b;
    int order = by_request(x, y);
    return order != 0 ? order : firn_cmp(x->job->id, y->job->id);
}

static int best_first(const void *a, const void *b)
{
    const struct peer *x = *(const struct peer *const *)a;
    const struct peer *y = *(const struct peer *const *)b;
    int order = by_request(x, y);
    if (order == 0)
        order = firn_cmp(y->gets, x->gets);
    return order != 0 ? order : firn_cmp(x->job->id, y->job->id);
}

const size_t *peers_settle(const struct firn_view *view,
                           const struct peer *peers, size_t n)
{
    size_t *from = firn_view_alloc(view, (n + 1) * sizeof *from);
    const struct peer **old = firn_view_alloc(view, (n + 1) * sizeof *old);
    const struct peer **best = firn_view_alloc(view, (n + 1) * sizeof *best);
    size_t nnew = 0;
    for (size_t i = 0; i < n; i++) {
        from[i] = i;
        if (is_new(peers[i].job))
            old[nnew++] = &peers[i];
    }
    if (nnew < 2)
        return from;
    memcpy(best, old, nnew * sizeof *best);
    qsort(old, nnew, sizeof *old, older_first);
    qsort(best, nnew, sizeof *best, best_first);
    for (size_t k = 0; k < nnew; k++) /* (1) */
        from[old[k] - peers] = (size_t)(best[k] - peers);
    return from;
}
