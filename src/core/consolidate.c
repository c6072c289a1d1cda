/* consolidate.c - moves a running job so that a waiting one fits on one node.
 *
 * A job that keeps to one node (the key one-node) may find enough free GPUs,
 * but scattered. One job that can be stopped is then moved elsewhere if a node
 * has room for the waiting job without it. Policies place a job anywhere and do
 * not know of this; so core does it, behind their decision.
 *
 * It pays when the move costs fewer GPU-seconds than the wait: a restart of the
 * moved job on its GPUs, against the GPUs of the waiting job until the moved
 * job would have ended by itself. Of all moves that pay the cheapest is made;
 * ties go to the lower node, then to the lower job id.
 *
 * Invariants:
 * (1) at most one job is moved in a decision, onto as many GPUs of a type that
 *     it has;
 * (2) a job moves at most once in LEAST_S: what makes room is not undone at
 *     once;
 * (3) the map is as it was when nothing is found.
 *
 * Cost: O(jobs) while a job with the key waits, else one comparison.
 */
#include "core/consolidate.h"
#include "core/plan.h"
#include <firn/forecast.h>
#include <math.h>

static const double LEAST_S = 600;

/* Free GPUs of a node, as an allocation. */
static struct firn_alloc free_on(const struct state *state, firn_node_id node,
                                 struct arena *scratch)
{
    const struct freemap *map = &state->map;
    int first = map->first_board[node], last = map->first_board[node + 1];
    struct firn_alloc out = FIRN_ALLOC_NONE;
    out.parts =
        arena_alloc(scratch, (size_t)(last - first + 1) * sizeof *out.parts);
    for (int b = first; b < last; b++) {
        if (map->free[b] == 0)
            continue;
        out.parts[out.nparts++] =
            (struct firn_part){node, b - first, map->free[b]};
        out.ngpus += __builtin_popcountll(map->free[b]);
    }
    return out;
}

static double restart_s(const struct firn_job *job)
{
    return job->spec.restart_s >= 0 ? job->spec.restart_s
                                    : FIRN_RESTART_GUESS_S;
}

/* GPU-seconds that the move costs; infinity: it does not pay. */
static double cost_of(const struct firn_job *job, int wants, double now_s)
{
    double left_s = firn_job_left_s(job, now_s);
    double cost = restart_s(job) * job->held.ngpus;
    return cost < left_s * wants ? cost : (double)INFINITY;
}

/* May it be moved, and is it on this node alone? */
static bool is_movable(const struct firn_job *job, firn_node_id node,
                       double now_s)
{
    if (job->held.nparts == 0 || job->held.parts[0].node != node ||
        firn_alloc_nodes(&job->held) > 1)
        return false;
    return !job->spec.keeps_gpus && !job->held.is_shared &&
           job->held.how.merged_with == FIRN_NO_JOB && job->barred == NULL &&
           now_s >= job->since_s + LEAST_S;
}

/* Another place for the job, on other nodes; false: there is none. (3) */
static bool find_place(struct state *state, place_rule *place,
                       const struct firn_job *job, struct arena *scratch,
                       struct firn_alloc *out)
{
    firn_node_id node = job->held.parts[0].node;
    struct firn_alloc hidden = free_on(state, node, scratch);
    struct firn_want want = {.gpus = job->held.ngpus,
                             .one_type = true,
                             .one_node = job->spec.one_node};
    uint32_t type = (uint32_t)1 << state->cluster.nodes[node].type;
    if (hidden.nparts > 0)
        freemap_block(&state->map, &hidden);
    bool has_place = place(&state->map, &want, type, scratch, out);
    if (has_place)
        freemap_give(&state->map, out);
    if (hidden.nparts > 0)
        freemap_unblock(&state->map, &hidden);
    out->how = job->held.how;
    out->tunes = job->held.tunes;
    return has_place;
}

/* The cheapest move that makes room for `waiting`. */
static bool find_move(struct state *state, place_rule *place,
                      const struct firn_job *waiting, int gpus, double now_s,
                      struct arena *scratch, struct consolidation *out)
{
    double least = INFINITY;
    for (struct state_job *sj = state->first; sj; sj = sj->after) {
        struct firn_job *job = &sj->job;
        firn_node_id node = job->held.nparts > 0 ? job->held.parts[0].node : -1;
        struct firn_alloc to = FIRN_ALLOC_NONE;
        if (node < 0 || !is_movable(job, node, now_s) ||
            (waiting->type_mask >> state->cluster.nodes[node].type & 1) == 0 ||
            firn_job_is_barred(waiting, node) ||
            state->map.node_free[node] + job->held.ngpus < gpus)
            continue;
        double cost = cost_of(job, gpus, now_s);
        bool is_less = cost < least || (cost == least && isfinite(cost) &&
                                        node < out->job->held.parts[0].node);
        if (!is_less || !find_place(state, place, job, scratch, &to))
            continue;
        least = cost;
        *out = (struct consolidation){job, to, waiting->id};
    }
    return isfinite(least);
}

bool consolidate_find(struct state *state, place_rule *place, double now_s,
                      struct arena *scratch, struct consolidation *out)
{
    if (state->none_node == 0)
        return false;
    bool resizes = state->policy->does & FIRN_DOES_RESIZE;
    for (struct state_job *sj = state->first; sj; sj = sj->after) {
        const struct firn_job *job = &sj->job;
        int gpus = resizes ? job->spec.gpus_min : job->spec.gpus;
        int most = 0;
        if (!job->spec.one_node || job->state != FIRN_JOB_WAITING ||
            sj->gated != GATE_OPEN || gpus > state->map.free_gpus)
            continue;
        for (firn_node_id n = 0; n < state->cluster.nnodes; n++)
            if ((job->type_mask >> state->cluster.nodes[n].type & 1) &&
                state->map.node_free[n] > most)
                most = state->map.node_free[n];
        if (most >= gpus) /* the policy does not want it to run now */
            continue;
        if (find_move(state, place, job, gpus, now_s, scratch, out))
            return true;
    }
    return false;
}
