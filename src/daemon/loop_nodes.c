/* loop_nodes.c - nodes that are drained, down, and back.
 *
 * A node is in the round when its operator has not drained it and the engine
 * does not say that it is down; the two come and go in any order. Before it
 * changes in the round, every GPU that is blocked comes back, and behind it
 * those that still are to be blocked are: invariant of core/round.h.
 *
 * When it leaves by a drain there is time: its jobs are asked to write a
 * checkpoint. When it is down they are lost, and wait for other GPUs.
 */
#include "base/buf.h"
#include "base/log.h"
#include "daemon/loopwork.h"

/* --- in use or not ------------------------------------------------------- */

enum firn_status loop_node_follow(struct loop *loop, firn_node_id node,
                                  bool has_time, struct firn_error *err)
{
    bool is_up = !loop->dock.is_drained[node] && !loop->dock.is_down[node];
    if (round_state(loop->desk.round)->cluster.nodes[node].is_up == is_up)
        return FIRN_OK;
    struct firn_event event = {.kind = is_up ? FIRN_EVENT_NODE_UP
                                             : FIRN_EVENT_NODE_DOWN,
                               .at_s = dock_now_s(&loop->dock),
                               .node = node};
    desk_lift_pins(&loop->desk);
    foreign_lift(&loop->desk, node);
    loop->desk.is_draining = has_time;
    enum firn_status status = round_event(loop->desk.round, &event, err);
    loop->desk.is_draining = false;
    desk_set_pins(&loop->desk);
    loop_settle_foreign(loop);
    return status;
}

int loop_node_idle(const struct loop *loop, firn_node_id node)
{
    enum { BOARDS = FIRN_NODE_GPUS_MAX / FIRN_BOARD_GPUS + 1 };
    uint64_t held[BOARDS] = {0}; /* two jobs may share one */
    int idle =
        loop->dock.cluster.nodes[node].ngpus - foreign_count(&loop->desk, node);
    for (size_t i = 0; i < loop->desk.tracks.n; i++) {
        const struct track *track = loop->desk.tracks.at[i];
        const struct live_job *job =
            track != NULL ? book_job(loop->book, track->id) : NULL;
        struct firn_alloc has = FIRN_ALLOC_NONE;
        if (job == NULL || job->held[0] == '-' || /* nothing; most wait */
            !recover_alloc(job->held, &has))
            continue;
        for (int p = 0; p < has.nparts; p++)
            if (has.parts[p].node == node && has.parts[p].board < BOARDS)
                held[has.parts[p].board] |= has.parts[p].gpus;
        mem_free(has.parts);
    }
    for (size_t b = 0; b < BOARDS; b++)
        idle -= __builtin_popcountll(held[b]);
    return idle > 0 ? idle : 0;
}

enum firn_status loop_drain(struct loop *loop, firn_node_id node, bool drained,
                            struct firn_error *err)
{
    if (node < 0 || node >= loop->dock.cluster.nnodes)
        return firn_fail(err, FIRN_ENOENT, "there is no node %d", node);
    if (loop->dock.is_drained[node] == drained)
        return FIRN_OK;
    loop->dock.is_drained[node] = drained;
    enum firn_status status = loop_node_follow(loop, node, true, err);
    if (status != FIRN_OK) {
        loop->dock.is_drained[node] = !drained;
        return status;
    }
    return dock_keep_drained(&loop->dock, err);
}

enum firn_status loop_nodes_begin(struct loop *loop, struct firn_error *err)
{
    int nnodes = loop->dock.cluster.nnodes;
    bool *was_drained = mem_new((size_t)nnodes + 1, sizeof *was_drained);
    enum firn_status status =
        dock_recall_drained(&loop->dock, was_drained, err);
    for (int i = 0; i < nnodes && status == FIRN_OK; i++)
        if (was_drained[i])
            status = loop_drain(loop, i, true, err);
    for (int i = 0; i < nnodes && status == FIRN_OK; i++)
        if (loop->dock.is_down[i])
            status = loop_node_follow(loop, i, false, err);
    mem_free(was_drained);
    return status;
}

void loop_node_event(struct loop *loop, const struct firn_event *event)
{
    struct firn_error err = {0};
    bool is_down = event->kind == FIRN_EVENT_NODE_DOWN;
    if (event->node < 0 || event->node >= loop->dock.cluster.nnodes ||
        loop->dock.is_down[event->node] == is_down)
        return;
    const char *why = dock_node_why(&loop->dock, event->node);
    log_info("node %s is %s%s%s", dock_node_name(&loop->dock, event->node),
             is_down ? "out" : "back", is_down && why[0] != '\0' ? ": " : "",
             is_down ? why : "");
    loop->dock.is_down[event->node] = is_down;
    if (loop_node_follow(loop, event->node, event->is_drained, &err) != FIRN_OK)
        log_warn("%s", err.text);
}
