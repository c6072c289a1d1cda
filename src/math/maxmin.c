/* maxmin.c - max-min and leximin by raising the lowest menu.
 *
 * All menus start at their cheapest entry. Again and again the menu with the
 * lowest value moves to its next entry, the cheapest that is worth more: this
 * is the search over thresholds (IceFrog, eq. 18: for a threshold each job
 * needs its cheapest allocation that reaches it, and the sum of these costs is
 * monotone), walked upwards. It visits only thresholds that fit, and each
 * step costs at least one unit, so there are at most capacity + n steps, each
 * O(log n) in a heap.
 *
 * Max-min stops at the first step that does not fit: the value it stands at
 * is the best worst value, since any choice with more would cost, in each
 * menu, at least what the steps so far and this one cost.
 *
 * Leximin goes on with the others. The sorted values of a choice are larger
 * in lexicographic order exactly when, at the first level (distinct value) at
 * which the numbers of menus left differ, fewer are left. So the levels are
 * visited upwards, at each the fewest are left, and all earlier numbers are
 * kept.
 *
 * (1) Every menu not decided stands at its cheapest entry above all levels
 *     visited; no choice that keeps the numbers so far costs less in all.
 * (2) One menu alone at a level: it rises if that fits, else it is decided.
 *     There is no choice in it, so with distinct values this is all, and
 *     exact: the next level is visited with (1).
 * (3) Several at a level, and all can rise, or none: the same.
 * (4) Several, and only some can rise: the cheapest rises give the largest
 *     number, but which of the menus stay decides what later levels cost. If
 *     the rest of their menus is alike it makes no difference, and the first
 *     listed rise. Otherwise the choice stays open: see below.
 */
#include "math/maxmin.h"
#include "base/arena.h"
#include "base/heap.h"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const int64_t default_work = 20 * 1000 * 1000;

/* --- open choices -----------------------------------------------------------
 *
 * A level at which only some of the tied menus can rise becomes a slot: a
 * number of places, and the members (menus) that may take one. Which members
 * take them stays open, since that decides how far the others get later.
 *
 * With the numbers x_1, x_2, ... of menus left at the levels so far, a further
 * level is reached by all others exactly when the cheapest way of leaving x_j
 * menus at level j, and raising the rest, fits the capacity. That is a
 * transportation problem: members to slots (levels, x_j places each) or to
 * slot 0 (risen). Its optimum is kept by shortest paths between slots, where
 * an arc u -> w is the cheapest change of one member from u to w:
 *
 * raise   a member of slot 0 gets dearer there: it may push into a slot j if
 *         a chain j -> ... -> 0 makes it cheaper in all;
 * open    a new slot gets places one by one, each filled along the shortest
 *         chain 0 -> ... -> new, until spent <= capacity. The cost is convex
 *         in the number of places, so the first number that fits is the
 *         smallest.
 *
 * (a) The assignment is a cheapest one for the slots and numbers there are;
 *     so no cycle of arcs has a negative cost, and paths are simple.
 * (b) All slots are full: a place in a slot is strictly cheaper than rising,
 *     and one place fewer would not have fitted.
 * (c) All of a tied set left behind are fixed at once: no choice is in it.
 * (d) Slots that no chain from slot 0 reaches are fixed: menus that rise later
 *     join only slots that are still to come.
 * (e) A member of a slot has its position where it would stand had it risen.
 *
 * Cost: with one slot a rise is O(log n), by a heap of its members; with more
 * it looks at the members of the slots whose row of arcs is stale, times the
 * slots; `work` counts these steps. When it is used up, or there are more
 * slots than TIES_SLOTS, the assignment is settled as it stands. Costs are
 * integers, so nothing is lost to rounding.
 */

enum { TIES_SLOTS = 32 };

/* Dearer than any capacity: the cost of rising above the top of a menu. */
#define TIES_NEVER ((int64_t)1 << 40)

/* The cheapest move of one member from a place of one slot to another. */
struct ties_arc {
    int64_t cost;
    size_t member;
};

/* Slot 0 means "above all levels so far"; it has room for all members. */
struct ties {
    const struct frontier *front;
    int64_t spent, capacity; /* spent: by all menus, members or not */
    int64_t work;            /* steps left */
    bool *fixed;             /* [menu]: decided */
    size_t *position;        /* [menu]: decided, or now, in the frontier */
    size_t nmembers;
    size_t *menu;   /* [member] */
    int64_t *above; /* [member]: its cost in slot 0 */
    int64_t *here;  /* [member]: its cost where it waits */
    int *where;     /* [member]: slot */
    size_t *place;  /* [member][slot]: frontier position, or none */
    size_t *member; /* [menu]: member, or none */
    int nslots;     /* slots 1 .. nslots are open */
    struct heap up[TIES_SLOTS + 1]; /* menus by the cost of arc u -> 0 */
    struct ties_arc arc[TIES_SLOTS + 1][TIES_SLOTS + 1];
    bool fresh[TIES_SLOTS + 1]; /* is row arc[u] up to date? */
};

enum { STRIDE = TIES_SLOTS + 1 };

static const size_t none = SIZE_MAX;
static const int64_t far = INT64_MAX / 4;

/* `fixed` and `position` are set by the caller, one element for each menu. */
static void ties_init(struct ties *ties, const struct frontier *front,
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

static bool ties_has(const struct ties *ties, size_t menu)
{
    return ties->nmembers > 0 && ties->member[menu] != none;
}

/* Frees the heaps; the arena owns the rest. */
static void ties_release(struct ties *ties)
{
    for (int u = 1; u <= TIES_SLOTS; u++)
        heap_release(&ties->up[u]);
}

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

/* Fixes every member where it stands. */
static void ties_settle(struct ties *ties)
{
    while (ties->nmembers > 0)
        fix_member(ties, ties->nmembers - 1);
    ties->nslots = 0;
}

/* Is this move better than `best`? Of equal moves the menu listed last goes
 * into a slot, and the one listed first out of all slots. */
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

/* The cost that member m of slot 0 adds to the cheapest assignment if it costs
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

/* (d): fixes the slots that slot 0 does not reach, and lets go of members
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

/* The cost of a menu one position further up. */
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

/* Opens the first slot: tied[0..n) stand at positions of one value and can
 * rise, the first `nrise` of them do, the others wait. The caller has chosen
 * the cheapest rises, as many as fit: 0 < nrise < n. */
static void ties_start(struct ties *ties, const size_t *tied, size_t n,
                       size_t nrise)
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
        ties->position[menu]++; /* (e) */
        return;
    }
    ties->fixed[menu] = true;
    remove_member(ties, m);
}

/* With slots open. The menus tied[0..n) stand at positions of one value. Finds
 * the fewest that must stay there, makes them wait in a slot or fixes them, and
 * moves the positions of the others up by one, for some past the end of their
 * menu: those wait in a slot and are done. Afterwards spent <= capacity. */
static void ties_level(struct ties *ties, const size_t *tied, size_t n)
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
            ties->position[tied[k]]++; /* (e) */
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
            fix_member(ties, ties->member[tied[k]]); /* (c) */
        else
            ties->position[tied[k]]++; /* (e) */
    if (nplaces == n)
        drop_slot(ties, (int)slot);
    close_slots(ties);
}

/* --- the climb
 * --------------------------------------------------------------*/

struct climb {
    struct frontier front;
    struct ties ties; /* spent, capacity, positions; open slots in (4) */
    bool has_ties;    /* the arrays for open slots are there */
    double *key;      /* [menu]: the value it stands at, or would (e) */
    size_t *heap;     /* menus, lowest key first, then lower number */
    size_t nheap;
    size_t *tied; /* the menus of the level being visited */
    size_t ntied;
    struct arena *scratch;
};

static bool is_before(const struct climb *c, size_t a, size_t b)
{
    return c->key[a] != c->key[b] ? c->key[a] < c->key[b] : a < b;
}

static void push(struct climb *c, size_t menu)
{
    size_t at = c->nheap++;
    c->key[menu] = c->front.value[c->ties.position[menu]];
    for (; at > 0 && is_before(c, menu, c->heap[(at - 1) / 2]);
         at = (at - 1) / 2)
        c->heap[at] = c->heap[(at - 1) / 2];
    c->heap[at] = menu;
}

static size_t pop(struct climb *c)
{
    size_t menu = c->heap[0], last = c->heap[--c->nheap], at = 0;
    for (size_t child; (child = 2 * at + 1) < c->nheap; at = child) {
        if (child + 1 < c->nheap &&
            is_before(c, c->heap[child + 1], c->heap[child]))
            child++;
        if (!is_before(c, c->heap[child], last))
            break;
        c->heap[at] = c->heap[child];
    }
    c->heap[at] = last;
    return menu;
}

static void start(struct climb *c, const struct menus *menus,
                  struct arena *scratch)
{
    size_t n = menus->n;
    *c = (struct climb){.front = menus_frontier(menus, scratch),
                        .scratch = scratch};
    c->ties.capacity = menus->capacity;
    c->ties.position = arena_alloc(scratch, n * sizeof *c->ties.position);
    c->ties.fixed = arena_alloc(scratch, n * sizeof *c->ties.fixed);
    c->key = arena_alloc(scratch, n * sizeof *c->key);
    c->heap = arena_alloc(scratch, n * sizeof *c->heap);
    c->tied = arena_alloc(scratch, n * sizeof *c->tied);
    for (size_t i = 0; i < n; i++) {
        c->ties.position[i] = c->front.start[i];
        c->ties.spent += c->front.cost[c->front.start[i]];
        push(c, i);
    }
}

/* The cost of the next step of a menu; TIES_NEVER at its end. */
static int64_t step_cost(const struct climb *c, size_t menu)
{
    size_t at = c->ties.position[menu];
    if (at + 1 >= c->front.start[menu + 1])
        return TIES_NEVER;
    return (int64_t)c->front.cost[at + 1] - c->front.cost[at];
}

static void rise(struct climb *c, size_t menu)
{
    c->ties.spent += step_cost(c, menu);
    c->ties.position[menu]++;
    push(c, menu);
}

static bool fits(const struct climb *c, int64_t more)
{
    return c->ties.spent + more <= c->ties.capacity;
}

static void finish(const struct climb *c, size_t *entry,
                   struct maxmin_result *result)
{
    result->spent = 0;
    for (size_t i = 0; i < c->front.n; i++) {
        entry[i] = c->front.entry[c->ties.position[i]];
        result->spent += c->front.cost[c->ties.position[i]];
    }
}

enum firn_status maxmin_worst(const struct menus *menus, size_t *entry,
                              struct maxmin_result *result,
                              struct arena *scratch, struct firn_error *err)
{
    FIRN_TRY(menus_check(menus, "max-min", err));
    struct climb c;
    start(&c, menus, scratch);
    while (c.nheap > 0 && fits(&c, step_cost(&c, c.heap[0])))
        rise(&c, pop(&c));
    double worst = c.nheap > 0 ? c.key[c.heap[0]] : (double)INFINITY;
    for (size_t i = 0; i < menus->n; i++) {
        /* Of menus tied at the worst value some may have risen beyond it. */
        size_t *at = &c.ties.position[i];
        while (*at > c.front.start[i] && c.front.value[*at - 1] >= worst)
            (*at)--;
    }
    *result = (struct maxmin_result){worst, 0, true, worst};
    finish(&c, entry, result);
    return FIRN_OK;
}

/* Takes all menus of the lowest level off the heap. */
static void pop_level(struct climb *c)
{
    c->ntied = 0;
    while (c->nheap > 0 &&
           (c->ntied == 0 || c->key[c->heap[0]] == c->key[c->tied[0]])) {
        size_t menu = pop(c);
        if (!c->ties.fixed[menu])
            c->tied[c->ntied++] = menu;
    }
}

/* From where they stand on, do two menus offer the same? */
static bool is_alike(const struct climb *c, size_t a, size_t b)
{
    size_t at = c->ties.position[a], bt = c->ties.position[b];
    size_t n = c->front.start[a + 1] - at;
    if (n != c->front.start[b + 1] - bt)
        return false;
    for (size_t k = 0; k < n; k++)
        if (c->front.cost[at + k] != c->front.cost[bt + k] ||
            c->front.value[at + k] != c->front.value[bt + k])
            return false;
    return true;
}

struct rising {
    int64_t cost;
    size_t menu;
};

static int cheaper_first(const void *left, const void *right)
{
    const struct rising *a = left, *b = right;
    if (a->cost != b->cost)
        return a->cost < b->cost ? -1 : 1;
    return a->menu < b->menu ? -1 : a->menu > b->menu;
}

/* (4): only some of the tied menus can rise, and no choice is open yet. */
static void split(struct climb *c)
{
    struct rising *list = arena_alloc(c->scratch, c->ntied * sizeof *list);
    for (size_t k = 0; k < c->ntied; k++)
        list[k] = (struct rising){step_cost(c, c->tied[k]), c->tied[k]};
    qsort(list, c->ntied, sizeof *list, cheaper_first);
    size_t nrise = 0, nalike = 1;
    int64_t sum = 0;
    for (size_t k = 0; k < c->ntied; k++) {
        c->tied[k] = list[k].menu;
        sum += list[k].cost;
        nrise += fits(c, sum);
    }
    while (nrise > 0 && nalike < c->ntied &&
           is_alike(c, c->tied[0], c->tied[nalike]))
        nalike++;
    if (nrise == 0 || nalike == c->ntied) {
        for (size_t k = 0; k < nrise; k++)
            rise(c, c->tied[k]);
        return;
    }
    if (!c->has_ties)
        ties_init(&c->ties, &c->front, c->scratch);
    c->has_ties = true;
    ties_start(&c->ties, c->tied, c->ntied, nrise);
    for (size_t k = 0; k < c->ntied; k++)
        push(c, c->tied[k]);
}

/* A level without open choices: a menu at its last entry is decided. */
static void plain_level(struct climb *c)
{
    size_t n = 0;
    int64_t sum = 0;
    for (size_t k = 0; k < c->ntied; k++)
        if (step_cost(c, c->tied[k]) < TIES_NEVER) {
            sum += step_cost(c, c->tied[k]);
            c->tied[n++] = c->tied[k];
        }
    c->ntied = n;
    if (!fits(c, sum)) {
        if (n > 1)
            split(c);
        return;
    }
    for (size_t k = 0; k < n; k++)
        rise(c, c->tied[k]);
}

/* Does this level touch the open choices? */
static bool is_open(const struct climb *c)
{
    bool is_alone = c->ntied == 1 && !ties_has(&c->ties, c->tied[0]);
    return c->ties.nslots > 0 && !is_alone;
}

/* Fixes the open choices as they stand if this level could take more steps
 * than are left; returns whether it did. At worst each tied menu takes one
 * look at all members and slots. */
static bool give_up(struct climb *c)
{
    int64_t members = (int64_t)(c->ties.nmembers + c->ntied);
    size_t n = 0;
    if (!is_open(c) ||
        (c->ties.nslots < TIES_SLOTS &&
         (int64_t)c->ntied * members * (c->ties.nslots + 1) <= c->ties.work))
        return false;
    ties_settle(&c->ties);
    for (size_t k = 0; k < c->ntied; k++)
        if (!c->ties.fixed[c->tied[k]])
            c->tied[n++] = c->tied[k];
    c->ntied = n;
    return true;
}

static void visit_level(struct climb *c)
{
    if (!is_open(c)) {
        plain_level(c);
        return;
    }
    ties_level(&c->ties, c->tied, c->ntied);
    for (size_t k = 0; k < c->ntied; k++) {
        size_t menu = c->tied[k];
        if (!c->ties.fixed[menu] &&
            c->ties.position[menu] < c->front.start[menu + 1])
            push(c, menu);
    }
}

enum firn_status maxmin_leximin(const struct menus *menus, int64_t work,
                                size_t *entry, struct maxmin_result *result,
                                struct arena *scratch, struct firn_error *err)
{
    FIRN_TRY(menus_check(menus, "leximin", err));
    struct climb c;
    start(&c, menus, scratch);
    c.ties.work = work > 0 ? work : default_work;
    struct maxmin_result r = {INFINITY, 0, true, -INFINITY};
    for (pop_level(&c); c.ntied > 0; pop_level(&c)) {
        if (give_up(&c))
            r.is_exact = false;
        if (c.ntied == 0)
            continue;
        if (r.is_exact)
            r.exact_upto = c.key[c.tied[0]];
        visit_level(&c);
    }
    ties_settle(&c.ties);
    ties_release(&c.ties);
    finish(&c, entry, &r);
    for (size_t i = 0; i < menus->n; i++)
        r.worst = fmin(r.worst, menus->value[entry[i]]);
    if (r.is_exact)
        r.exact_upto = INFINITY;
    *result = r;
    return FIRN_OK;
}
