/* desk_foreign.c - GPUs that foreign processes use are not scheduled.
 *
 * An engine reports which GPUs of a board processes outside of firn use, each
 * time the whole set. These are blocked in the round, so that no policy sees
 * them. Two sets are kept of each board:
 *
 *     taken      of the engine's last report
 *     blocked    of these, what the round has out; none of a node that is not
 *                in the round
 *
 * The difference is settled before each decision. A GPU that is free in the
 * round is blocked; one that the round has given to a job which the engine has
 * not started is taken from it, and the job waits again; one on which a job of
 * ours runs is left to it, logged once, and blocked when the job leaves.
 *
 * Invariants: (1) `blocked` is a part of `taken` except while a report of the
 * engine is handled; (2) no GPU is blocked here and for a pinned job.
 *
 * Cost: a report costs its board; settling, all boards, and only while
 * something is open.
 */
#include "base/buf.h"
#include "base/log.h"
#include "daemon/desk.h"

struct foreign {
    int nboards;
    int *first; /* board of each node, and one behind the last */
    struct taken {
        uint64_t taken, blocked;
        uint64_t told; /* in the log: a job of ours runs there */
    } * boards;
    bool is_open; /* not all that is taken is blocked */
};

void foreign_open(struct desk *desk)
{
    struct foreign *o = mem_new(1, sizeof *o);
    const struct firn_cluster *c = &desk->dock->cluster;
    o->first = mem_new((size_t)c->nnodes + 1, sizeof *o->first);
    for (int i = 0; i < c->nnodes; i++) {
        o->first[i] = o->nboards;
        o->nboards +=
            (c->nodes[i].ngpus + FIRN_BOARD_GPUS - 1) / FIRN_BOARD_GPUS;
    }
    o->first[c->nnodes] = o->nboards;
    o->boards = mem_new((size_t)o->nboards, sizeof *o->boards);
    desk->foreign = o;
}

void foreign_close(struct desk *desk)
{
    if (desk->foreign == NULL)
        return;
    mem_free(desk->foreign->first);
    mem_free(desk->foreign->boards);
    mem_free(desk->foreign);
    desk->foreign = NULL;
}

int foreign_count(const struct desk *desk, firn_node_id node)
{
    const struct foreign *o = desk->foreign;
    int n = 0;
    for (int b = o->first[node]; b < o->first[node + 1]; b++)
        n += __builtin_popcountll(o->boards[b].taken);
    return n;
}

bool foreign_has(const struct desk *desk, firn_node_id node, int gpu)
{
    const struct foreign *o = desk->foreign;
    int board = o->first[node] + gpu / FIRN_BOARD_GPUS;
    return board < o->first[node + 1] &&
           (o->boards[board].taken >> (gpu % FIRN_BOARD_GPUS) & 1) != 0;
}

/* --- in the round -------------------------------------------------------- */

/* `gpus` of a board as an allocation over one part. */
static struct firn_alloc alloc_of(struct firn_part *part)
{
    return (struct firn_alloc){.parts = part,
                               .nparts = 1,
                               .ngpus = __builtin_popcountll(part->gpus),
                               .how = FIRN_HOW_AS_SUBMITTED};
}

/* Comes back from the round: these GPUs of the board. */
static void unblock(struct desk *desk, firn_node_id node, int board,
                    uint64_t gpus)
{
    struct taken *t =
        &desk->foreign->boards[desk->foreign->first[node] + board];
    struct firn_part part = {node, board, gpus & t->blocked};
    struct firn_alloc alloc = alloc_of(&part);
    if (part.gpus == 0)
        return;
    round_unblock(desk->round, &alloc);
    t->blocked &= ~part.gpus;
}

/* The board's `taken` into the round, as far as it goes. */
static bool settle(struct desk *desk, firn_node_id node, int board,
                   foreign_put_back *put_back, void *arg)
{
    int at = desk->foreign->first[node] + board;
    struct taken *t = &desk->foreign->boards[at];
    const struct state *state = round_state(desk->round);
    uint64_t open = t->taken & ~t->blocked;
    if (open == 0 || !state->cluster.nodes[node].is_up)
        return true; /* or when the node is back */
    put_back(arg, node, board, open);
    struct firn_part part = {node, board, open & state->map.free[at]};
    struct firn_alloc alloc = alloc_of(&part);
    if (part.gpus != 0 && round_block(desk->round, &alloc))
        t->blocked |= part.gpus;
    open = t->taken & ~t->blocked;
    if ((open & ~t->told) != 0)
        log_warn(
            "%d GPU%s of node %s are used by foreign processes and by a job of "
            "firn",
            __builtin_popcountll(open),
            __builtin_popcountll(open) > 1 ? "s" : "",
            dock_node_name(desk->dock, node));
    t->told = open;
    return open == 0;
}

void foreign_settle(struct desk *desk, foreign_put_back *put_back, void *arg)
{
    struct foreign *o = desk->foreign;
    if (!o->is_open)
        return;
    o->is_open = false;
    for (int i = 0; i < desk->dock->cluster.nnodes; i++)
        for (int b = o->first[i]; b < o->first[i + 1]; b++)
            if (!settle(desk, i, b - o->first[i], put_back, arg))
                o->is_open = true;
}

void foreign_lift(struct desk *desk, firn_node_id node)
{
    const struct foreign *o = desk->foreign;
    for (int b = o->first[node]; b < o->first[node + 1]; b++)
        unblock(desk, node, b - o->first[node], ~(uint64_t)0);
    desk->foreign->is_open = true;
}

void foreign_copy(const struct desk *desk, struct round *to)
{
    const struct foreign *o = desk->foreign;
    for (int i = 0; i < desk->dock->cluster.nnodes; i++)
        for (int b = o->first[i]; b < o->first[i + 1]; b++) {
            struct firn_part part = {i, b - o->first[i], o->boards[b].blocked};
            struct firn_alloc alloc = alloc_of(&part);
            if (part.gpus != 0 && !round_block(to, &alloc))
                FIRN_BUG("GPUs of foreign processes are given out");
        }
}

void foreign_taken(struct desk *desk, const struct firn_part *taken)
{
    const struct foreign *o = desk->foreign;
    firn_node_id node = taken->node;
    if (node < 0 || node >= desk->dock->cluster.nnodes || taken->board < 0 ||
        taken->board >= o->first[node + 1] - o->first[node])
        return;
    int left =
        desk->dock->cluster.nodes[node].ngpus - FIRN_BOARD_GPUS * taken->board;
    uint64_t there =
        left < FIRN_BOARD_GPUS ? ((uint64_t)1 << left) - 1 : ~(uint64_t)0;
    struct taken *t = &o->boards[o->first[node] + taken->board];
    t->taken = taken->gpus & there;
    unblock(desk, node, taken->board, ~t->taken);
    desk->foreign->is_open = true;
}
