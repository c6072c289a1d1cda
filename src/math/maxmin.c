/* maxmin.c - max-min and leximin by raising the lowest.
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
 *     listed rise. Otherwise the choice stays open, and maxmin_ties.c keeps
 *     the cheapest way of making it. That is exact, and polynomial, but not
 *     near-linear; it is cut short after a given number of steps.
 */
#include "math/maxmin.h"
#include "base/arena.h"
#include "math/maxmin_ties.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t default_work = 20 * 1000 * 1000;

struct climb {
    struct frontier front;
    struct ties ties; /* spent, capacity, positions; open slots in (4) */
    bool has_ties;    /* the arrays for open slots are there */
    double *key;      /* [menu]: the value it stands at, or would (5) */
    size_t *heap;     /* menus, lowest key first, then lower number */
    size_t nheap;
    size_t *tied; /* the menus of the level being visited */
    size_t ntied;
    struct arena *scratch;
};

/* --- the heap --------------------------------------------------------------
 */

static bool is_before(const struct climb *c, size_t a, size_t b)
{
    return c->key[a] != c->key[b] ? c->key[a] < c->key[b] : a < b;
}

static void sift_down(struct climb *c, size_t at)
{
    size_t menu = c->heap[at];
    for (size_t child; (child = 2 * at + 1) < c->nheap; at = child) {
        if (child + 1 < c->nheap &&
            is_before(c, c->heap[child + 1], c->heap[child]))
            child++;
        if (!is_before(c, c->heap[child], menu))
            break;
        c->heap[at] = c->heap[child];
    }
    c->heap[at] = menu;
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
    size_t menu = c->heap[0];
    c->heap[0] = c->heap[--c->nheap];
    if (c->nheap > 0)
        sift_down(c, 0);
    return menu;
}

/* --- steps -----------------------------------------------------------------
 */

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

/* --- levels ----------------------------------------------------------------
 */

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

/* Sorts the tied menus by the cost of their step. Returns how many fit. */
static size_t cheapest_first(struct climb *c)
{
    struct rising *list = arena_alloc(c->scratch, c->ntied * sizeof *list);
    for (size_t k = 0; k < c->ntied; k++)
        list[k] = (struct rising){step_cost(c, c->tied[k]), c->tied[k]};
    qsort(list, c->ntied, sizeof *list, cheaper_first);
    size_t nrise = 0;
    int64_t sum = 0;
    for (size_t k = 0; k < c->ntied; k++) {
        c->tied[k] = list[k].menu;
        sum += list[k].cost;
        nrise += fits(c, sum);
    }
    return nrise;
}

/* (4): only some can rise, and no choice is open yet. */
static void split(struct climb *c)
{
    size_t nrise = cheapest_first(c);
    size_t nalike = 1;
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

/* A level without open choices: who is at the end of his menu is decided. */
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

static void open_level(struct climb *c)
{
    ties_level(&c->ties, c->tied, c->ntied);
    for (size_t k = 0; k < c->ntied; k++) {
        size_t menu = c->tied[k];
        if (!c->ties.fixed[menu] &&
            c->ties.position[menu] < c->front.start[menu + 1])
            push(c, menu);
    }
}

/* Does this level touch the open choices? */
static bool is_open(const struct climb *c)
{
    bool is_alone = c->ntied == 1 && !ties_has(&c->ties, c->tied[0]);
    return c->ties.nslots > 0 && !is_alone;
}

/* Could it take more steps than are left? At worst each tied menu takes one
 * look at all members and slots. */
static bool is_too_much(const struct climb *c)
{
    int64_t members = (int64_t)(c->ties.nmembers + c->ntied);
    return is_open(c) &&
           (c->ties.nslots == TIES_SLOTS ||
            (int64_t)c->ntied * members * (c->ties.nslots + 1) > c->ties.work);
}

/* Decides the open choices as they stand. */
static void settle(struct climb *c)
{
    size_t n = 0;
    ties_settle(&c->ties);
    for (size_t k = 0; k < c->ntied; k++)
        if (!c->ties.fixed[c->tied[k]])
            c->tied[n++] = c->tied[k];
    c->ntied = n;
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
        if (is_too_much(&c)) {
            r.is_exact = false;
            settle(&c);
        }
        if (c.ntied == 0)
            continue;
        if (r.is_exact)
            r.exact_upto = c.key[c.tied[0]];
        if (is_open(&c))
            open_level(&c);
        else
            plain_level(&c);
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
