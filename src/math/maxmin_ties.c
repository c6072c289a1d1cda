/* maxmin_ties.c - the cheapest assignment of tied menus to open slots.
 *
 * Leximin wants, level by level, the fewest menus left at the level. With
 * the numbers x_1, x_2, ... of menus left at the levels so far, a further
 * level is reached by all others exactly when the cheapest way of leaving x_j
 * menus at level j, and raising the rest, fits the capacity. That is a
 * transportation problem: members (menus) to slots (levels, x_j places each)
 * or to slot 0 (risen). Its optimum is kept by shortest paths between slots,
 * where an arc u -> w is the cheapest change of one member from u to w:
 *
 * raise   a member of slot 0 gets dearer there: it may push into a slot j if
 *         a chain j -> ... -> 0 makes it cheaper in all;
 * open    a new slot gets places one by one, each filled along the shortest
 *         chain 0 -> ... -> new, until spent <= capacity. The cost is convex
 *         in the number of places, so the first number that fits is the
 *         smallest.
 *
 * (1) The assignment is a cheapest one for the slots and numbers there are;
 *     so no cycle of arcs has a negative cost, and paths are simple.
 * (2) All slots are full: a place in a slot is strictly cheaper than rising,
 *     and one place fewer would not have fitted.
 * (3) All of a tied set left behind are fixed at once: no choice is in it.
 * (4) Slots that no chain from slot 0 reaches are fixed: whoever rises later
 *     joins only slots that are still to come.
 * (5) A member of a slot has its position where it would stand had it risen.
 *
 * Cost: with one slot a rise is O(log n), by a heap of its members; with more
 * it looks at the members of the slots whose row of arcs is stale, times the
 * slots; `work` counts these steps. When it is used up, or there are more
 * slots than TIES_SLOTS, the assignment is settled as it stands. Costs are
 * integers, so nothing is lost to rounding.
 */
#include "math/maxmin_ties.h"
#include "base/arena.h"
#include <string.h>

enum { STRIDE = TIES_SLOTS + 1 };

static const size_t none = SIZE_MAX;
static const int64_t far = INT64_MAX / 4;

void ties_init(struct ties *ties, const struct frontier *front,
               struct arena *scratch)
{
    size_t n = front->n;
    ties->front = front;
    ties->menu = arena_alloc(scratch, n * sizeof *ties->menu);
    ties->above = arena_alloc(scratch, n * sizeof *ties->above);
    ties->where = arena_alloc(scratch, n * sizeof *ties->where);
    ties->here = arena_alloc(scratch, n * sizeof *ties->here);
    ties->member = arena_alloc(scratch, n * sizeof *ties->member);
    ties->place = arena_alloc(scratch, n * STRIDE * sizeof *ties->place);
    for (size_t i = 0; i < n; i++)
        ties->member[i] = none;
}

bool ties_has(const struct ties *ties, size_t menu)
{
    return ties->nmembers > 0 && ties->member[menu] != none;
}

void ties_release(struct ties *ties)
{
    for (int u = 1; u <= TIES_SLOTS; u++)
        heap_release(&ties->up[u]);
}

/* --- members --------------------------------------------------------------
 */

static size_t add_member(struct ties *ties, size_t menu)
{
    size_t m = ties->nmembers++;
    ties->member[menu] = m;
    ties->menu[m] = menu;
    ties->where[m] = 0;
    ties->above[m] = ties->front->cost[ties->position[menu]];
    for (int w = 0; w < STRIDE; w++)
        ties->place[m * STRIDE + (size_t)w] = none;
    ties->fresh[0] = false;
    return m;
}

/* The last member takes its number. */
static void remove_member(struct ties *ties, size_t m)
{
    size_t last = --ties->nmembers;
    int slot = ties->where[m];
    if (slot != 0)
        heap_remove(&ties->up[slot], (int)ties->menu[m]);
    ties->member[ties->menu[m]] = none;
    if (m != last) {
        ties->menu[m] = ties->menu[last];
        ties->above[m] = ties->above[last];
        ties->where[m] = ties->where[last];
        ties->here[m] = ties->here[last];
        memcpy(&ties->place[m * STRIDE], &ties->place[last * STRIDE],
               STRIDE * sizeof *ties->place);
        ties->member[ties->menu[m]] = m;
        for (int w = 1; w <= ties->nslots; w++)
            if (ties->arc[ties->where[m]][w].member == last)
                ties->arc[ties->where[m]][w].member = m;
    }
    ties->fresh[slot] = false;
}

static int64_t cost_in(const struct ties *ties, size_t m, int slot)
{
    if (slot == 0)
        return ties->above[m];
    size_t place = ties->place[m * STRIDE + (size_t)slot];
    return place == none ? far : ties->front->cost[place];
}

/* Decides member m: where it waits, or, risen, no longer bound to a slot. */
static void fix_member(struct ties *ties, size_t m)
{
    size_t menu = ties->menu[m];
    int slot = ties->where[m];
    if (slot != 0) {
        ties->position[menu] = ties->place[m * STRIDE + (size_t)slot];
        ties->fixed[menu] = true;
    }
    remove_member(ties, m);
}

void ties_settle(struct ties *ties)
{
    while (ties->nmembers > 0)
        fix_member(ties, ties->nmembers - 1);
    ties->nslots = 0;
}

/* --- arcs and paths --------------------------------------------------------
 */

/* Of equal moves: into a slot goes the menu listed last, out of all slots
 * the one listed first. */
static bool is_better(const struct ties *ties, int64_t cost, size_t m,
                      struct ties_arc best)
{
    if (cost != best.cost || best.member == none)
        return cost < best.cost;
    return ties->menu[m] > ties->menu[best.member];
}

/* The arc u -> 0, u > 0. */
static struct ties_arc arc_up(const struct ties *ties, int u)
{
    const struct heap_item *top = heap_top(&ties->up[u]);
    if (top == NULL)
        return (struct ties_arc){far, none};
    return (struct ties_arc){(int64_t)top->key, ties->member[top->item]};
}

/* Member m waits, and what it would cost to let it rise has changed. */
static void note_up(struct ties *ties, size_t m)
{
    size_t menu = ties->menu[m];
    double cost = (double)(ties->above[m] - ties->here[m]);
    heap_set(&ties->up[ties->where[m]], (int)menu, cost, menu);
}

/* Brings row u of the arcs to slots up to date. */
static void refresh(struct ties *ties, int u)
{
    if (ties->fresh[u])
        return;
    struct ties_arc *row = ties->arc[u];
    for (int w = 1; w <= ties->nslots; w++)
        row[w] = (struct ties_arc){far, none};
    ties->work -= (int64_t)ties->nmembers;
    ties->fresh[u] = true;
    for (size_t m = 0; m < ties->nmembers; m++) {
        if (ties->where[m] != u)
            continue;
        int64_t from = cost_in(ties, m, u);
        ties->work -= ties->nslots;
        for (int w = 1; w <= ties->nslots; w++) {
            int64_t to = cost_in(ties, m, w);
            if (w != u && to < far && is_better(ties, to - from, m, row[w]))
                row[w] = (struct ties_arc){to - from, m};
        }
    }
}

static void move(struct ties *ties, size_t m, int to)
{
    ties->fresh[ties->where[m]] = false;
    ties->fresh[to] = false;
    if (ties->where[m] != 0)
        heap_remove(&ties->up[ties->where[m]], (int)ties->menu[m]);
    ties->where[m] = to;
    ties->here[m] = cost_in(ties, m, to);
    if (to != 0)
        note_up(ties, m);
}

/* Shortest distances from each slot to slot 0; next[u] is the slot after u. */
static void paths_up(struct ties *ties, int64_t *dist, int *next)
{
    dist[0] = 0;
    for (int u = 1; u <= ties->nslots; u++) {
        dist[u] = arc_up(ties, u).cost;
        next[u] = 0;
        if (ties->nslots > 1)
            refresh(ties, u);
    }
    for (int pass = 1, changed = 1; changed && pass < ties->nslots; pass++) {
        changed = 0;
        ties->work -= (int64_t)ties->nslots * ties->nslots;
        for (int u = 1; u <= ties->nslots; u++)
            for (int w = 1; w <= ties->nslots; w++)
                if (w != u && ties->arc[u][w].cost + dist[w] < dist[u]) {
                    dist[u] = ties->arc[u][w].cost + dist[w];
                    next[u] = w;
                    changed = 1;
                }
    }
}

/* Shortest distances from slot 0 to each; before[u] is the slot before u. */
static void paths_down(struct ties *ties, int64_t *dist, int *before)
{
    for (int u = 0; u <= ties->nslots; u++)
        refresh(ties, u);
    dist[0] = 0;
    for (int u = 1; u <= ties->nslots; u++) {
        dist[u] = ties->arc[0][u].cost;
        before[u] = 0;
    }
    for (int pass = 1, changed = 1; changed && pass < ties->nslots; pass++) {
        changed = 0;
        ties->work -= (int64_t)ties->nslots * ties->nslots;
        for (int u = 1; u <= ties->nslots; u++)
            for (int w = 1; w <= ties->nslots; w++)
                if (w != u && dist[w] + ties->arc[w][u].cost < dist[u]) {
                    dist[u] = dist[w] + ties->arc[w][u].cost;
                    before[u] = w;
                    changed = 1;
                }
    }
}

/* --- the two steps ---------------------------------------------------------
 */

/* What member m of slot 0 adds to the cheapest assignment when it costs
 * `above` there; *into is the slot it then pushes into, 0 for none, and next[]
 * the chain from there. */
static int64_t best_rise(struct ties *ties, size_t m, int64_t above, int *into,
                         int *next)
{
    int64_t dist[STRIDE], best = above;
    *into = 0;
    paths_up(ties, dist, next);
    for (int u = 1; u <= ties->nslots; u++) {
        int64_t cost = cost_in(ties, m, u);
        if (cost < far && cost + dist[u] < best) {
            best = cost + dist[u];
            *into = u;
        }
    }
    return best;
}

/* Member m costs `above` in slot 0 from now on. False, and nothing changed,
 * when that does not fit and it must: `must_fit`. */
static bool raise_member(struct ties *ties, size_t m, int64_t above,
                         bool must_fit)
{
    int next[STRIDE] = {0}, into = 0, from = ties->where[m];
    size_t who[STRIDE]; /* leaves slot u along the chain */
    if (from != 0) {
        ties->above[m] = above;
        note_up(ties, m);
        return true;
    }
    int64_t spent =
        ties->spent - ties->above[m] + best_rise(ties, m, above, &into, next);
    if (must_fit && spent > ties->capacity)
        return false;
    ties->spent = spent;
    ties->above[m] = above;
    ties->fresh[0] = false;
    for (int u = into; u != 0; u = next[u])
        who[u] = next[u] == 0 ? arc_up(ties, u).member
                              : ties->arc[u][next[u]].member;
    for (int u = into; u != 0; u = next[u])
        move(ties, who[u], next[u]);
    if (into != 0)
        move(ties, m, into);
    return true;
}

/* One more place in the newest slot, filled along the shortest chain. */
static void add_place(struct ties *ties)
{
    int64_t dist[STRIDE];
    int before[STRIDE] = {0};
    paths_down(ties, dist, before);
    if (dist[ties->nslots] >= 0)
        FIRN_BUG("leximin: a place in a slot saves nothing");
    ties->spent += dist[ties->nslots];
    for (int u = ties->nslots; u != 0; u = before[u])
        move(ties, ties->arc[before[u]][u].member, u);
}

/* --- closing ---------------------------------------------------------------
 */

/* Slot `slot` is gone; the last one takes its number. */
static void drop_slot(struct ties *ties, int slot)
{
    int last = ties->nslots--;
    struct heap empty = ties->up[slot];
    ties->up[slot] = ties->up[last];
    ties->up[last] = empty;
    for (size_t m = 0; m < ties->nmembers; m++) {
        size_t *place = &ties->place[m * STRIDE];
        place[slot] = place[last];
        place[last] = none;
        if (ties->where[m] == last)
            ties->where[m] = slot;
    }
    memset(ties->fresh, 0, sizeof ties->fresh);
}

/* (4): fixes the slots that slot 0 does not reach, and lets go of members
 * that can wait nowhere. */
static void close_slots(struct ties *ties)
{
    bool is_reached[STRIDE] = {true};
    for (int u = 0; u <= ties->nslots; u++)
        refresh(ties, u);
    for (int changed = 1; changed;) {
        changed = 0;
        for (int u = 0; u <= ties->nslots; u++)
            for (int w = 1; is_reached[u] && w <= ties->nslots; w++)
                if (!is_reached[w] && ties->arc[u][w].member != none)
                    is_reached[w] = (changed = 1);
    }
    for (size_t m = ties->nmembers; m-- > 0;)
        if (!is_reached[ties->where[m]])
            fix_member(ties, m);
    for (int u = ties->nslots; u >= 1; u--)
        if (!is_reached[u])
            drop_slot(ties, u);
    for (size_t m = ties->nmembers; m-- > 0;) {
        bool can_wait = false;
        for (int u = 1; u <= ties->nslots; u++)
            can_wait = can_wait || ties->place[m * STRIDE + (size_t)u] != none;
        if (!can_wait)
            remove_member(ties, m);
    }
}

/* What menu would cost one position further up. */
static int64_t cost_above(const struct ties *ties, size_t menu)
{
    size_t next = ties->position[menu] + 1;
    return next < ties->front->start[menu + 1] ? ties->front->cost[next]
                                               : TIES_NEVER;
}

/* Takes back the members after the first `n`, which wait nowhere. */
static void forget_from(struct ties *ties, size_t n)
{
    while (ties->nmembers > n)
        ties->member[ties->menu[--ties->nmembers]] = none;
    ties->fresh[0] = false;
}

void ties_start(struct ties *ties, const size_t *tied, size_t n, size_t nrise)
{
    ties->nslots = 1;
    for (size_t k = 0; k < n; k++) {
        size_t m = add_member(ties, tied[k]);
        int64_t above = cost_above(ties, tied[k]);
        ties->place[m * STRIDE + 1] = ties->position[tied[k]]++;
        ties->where[m] = k < nrise ? 0 : 1;
        ties->here[m] = ties->above[m];
        ties->spent += k < nrise ? above - ties->above[m] : 0;
        ties->above[m] = above;
        if (ties->where[m] != 0)
            note_up(ties, m);
    }
    memset(ties->fresh, 0, sizeof ties->fresh);
}

/* A member alone at its level: it rises, or stays where it stands; either
 * way the assignment of the others remains a cheapest one. */
static void lone_level(struct ties *ties, size_t menu)
{
    size_t m = ties->member[menu];
    if (raise_member(ties, m, cost_above(ties, menu), true)) {
        ties->position[menu]++; /* (5) */
        return;
    }
    ties->fixed[menu] = true;
    remove_member(ties, m);
}

void ties_level(struct ties *ties, const size_t *tied, size_t n)
{
    size_t nplaces = 0, nold = ties->nmembers;
    if (n == 1) {
        lone_level(ties, tied[0]);
        return;
    }
    for (size_t k = 0; k < n; k++) {
        if (ties->member[tied[k]] == none)
            add_member(ties, tied[k]);
        raise_member(ties, ties->member[tied[k]], cost_above(ties, tied[k]),
                     false);
    }
    if (ties->spent <= ties->capacity) {
        forget_from(ties, nold);
        for (size_t k = 0; k < n; k++)
            ties->position[tied[k]]++; /* (5) */
        return;
    }
    size_t slot = (size_t)++ties->nslots;
    memset(ties->fresh, 0, sizeof ties->fresh);
    for (size_t k = 0; k < n; k++)
        ties->place[ties->member[tied[k]] * STRIDE + slot] =
            ties->position[tied[k]];
    for (; ties->spent > ties->capacity; nplaces++)
        add_place(ties);
    for (size_t k = 0; k < n; k++)
        if (nplaces == n)
            fix_member(ties, ties->member[tied[k]]); /* (3) */
        else
            ties->position[tied[k]]++; /* (5) */
    if (nplaces == n)
        drop_slot(ties, (int)slot);
    close_slots(ties);
}
