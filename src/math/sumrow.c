/* sumrow.c - multiple-choice knapsack: relax, prune, and a small exact table.
 *
 * 1. Of each menu's frontier only the upper hull of (cost, value) matters to
 *    the relaxation. Steps along the hulls are taken by falling worth per
 *    unit of cost until one does not fit. Its slope is the price p, and
 *
 *        bound = p capacity + sum_i h_i,  h_i = max_e (value_e - p cost_e).
 *
 * 2. The steps that still fit are taken after that (greedy), for a first
 *    choice of value `low`.
 * 3. An entry's loss is h_i - (value_e - p cost_e) >= 0. The value of any
 *    choice is exactly
 *
 *        bound - sum of losses - p (capacity - sum of costs),
 *
 *    so an entry whose loss exceeds bound - low is in no better choice.
 *    With hundreds of menus this leaves one entry in nearly all of them.
 * 4. The menus with several entries left (the core) go through a table over
 *    the sum of costs that holds the least sum of losses; states with more
 *    than bound - low, or from which the capacity can no longer be met
 *    closely enough, are never made.
 *
 * (1) The table only ever drops states that cannot lead to more than `low`.
 * (2) Rounding may make bound - low wrong in its last digits; a slack of
 *     1e-12 of the size of the sums is added, so that (1) holds.
 * Of equal choices the one found first stands: steps and entries in order.
 */
#include "math/sumrow.h"
#include "base/arena.h"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct knapsack {
    struct frontier front;
    int64_t capacity, spent;
    size_t *at;    /* [menu]: frontier position taken */
    size_t *next;  /* [menu]: the hull point after it, or the menu's end */
    double *slope; /* [menu]: of the step to it */
    size_t *heap;  /* menus with a step left, steepest first */
    size_t nheap;
    double price, bound, low, scale;
    double *best; /* [menu]: h_i */
    struct arena *scratch;
};

/* --- the relaxation ------------------------------------------------------ */

static bool is_before(const struct knapsack *k, size_t a, size_t b)
{
    return k->slope[a] != k->slope[b] ? k->slope[a] > k->slope[b] : a < b;
}

static void sift_down(struct knapsack *k, size_t at)
{
    size_t menu = k->heap[at];
    for (size_t child; (child = 2 * at + 1) < k->nheap; at = child) {
        if (child + 1 < k->nheap &&
            is_before(k, k->heap[child + 1], k->heap[child]))
            child++;
        if (!is_before(k, k->heap[child], menu))
            break;
        k->heap[at] = k->heap[child];
    }
    k->heap[at] = menu;
}

/* The steepest step from where the menu stands: the next point of its hull.
 * Of equal slopes the longest. False at the end. */
static bool find_step(struct knapsack *k, size_t menu)
{
    const struct frontier *f = &k->front;
    size_t at = k->at[menu], end = f->start[menu + 1];
    k->next[menu] = end;
    k->slope[menu] = -INFINITY;
    for (size_t e = at + 1; e < end; e++) {
        double slope =
            (f->value[e] - f->value[at]) / ((double)f->cost[e] - f->cost[at]);
        if (slope >= k->slope[menu]) {
            k->slope[menu] = slope;
            k->next[menu] = e;
        }
    }
    return at + 1 < end;
}

static void take_top(struct knapsack *k)
{
    size_t menu = k->heap[0];
    k->spent +=
        (int64_t)k->front.cost[k->next[menu]] - k->front.cost[k->at[menu]];
    k->at[menu] = k->next[menu];
    if (!find_step(k, menu))
        k->heap[0] = k->heap[--k->nheap];
    if (k->nheap > 0)
        sift_down(k, 0);
}

static bool top_fits(const struct knapsack *k)
{
    size_t menu = k->heap[0];
    return k->spent + k->front.cost[k->next[menu]] -
               k->front.cost[k->at[menu]] <=
           k->capacity;
}

static void start(struct knapsack *k, const struct menus *menus,
                  struct arena *scratch)
{
    size_t n = menus->n;
    *k = (struct knapsack){.front = menus_frontier(menus, scratch),
                           .capacity = menus->capacity,
                           .scratch = scratch};
    k->at = arena_alloc(scratch, n * sizeof *k->at);
    k->next = arena_alloc(scratch, n * sizeof *k->next);
    k->slope = arena_alloc(scratch, n * sizeof *k->slope);
    k->heap = arena_alloc(scratch, n * sizeof *k->heap);
    k->best = arena_alloc(scratch, n * sizeof *k->best);
    for (size_t i = 0; i < n; i++) {
        k->at[i] = k->front.start[i];
        k->spent += k->front.cost[k->at[i]];
        if (find_step(k, i))
            k->heap[k->nheap++] = i;
    }
    for (size_t i = k->nheap / 2; i-- > 0;)
        sift_down(k, i);
}

static double loss(const struct knapsack *k, size_t menu, size_t e)
{
    return k->best[menu] - (k->front.value[e] - k->price * k->front.cost[e]);
}

/* Price, bound and greedy choice. */
static void relax(struct knapsack *k)
{
    while (k->nheap > 0 && top_fits(k))
        take_top(k);
    k->price = k->nheap > 0 ? k->slope[k->heap[0]] : 0;
    k->bound = k->price * (double)k->capacity;
    k->scale = fabs(k->bound);
    for (size_t i = 0; i < k->front.n; i++) {
        k->best[i] =
            k->front.value[k->at[i]] - k->price * k->front.cost[k->at[i]];
        for (size_t e = k->front.start[i]; e < k->front.start[i + 1]; e++)
            k->best[i] = fmax(k->best[i],
                              k->front.value[e] - k->price * k->front.cost[e]);
        k->bound += k->best[i];
        k->scale += fabs(k->best[i]);
    }
    while (k->nheap > 0) {
        if (top_fits(k)) {
            take_top(k);
            continue;
        }
        k->heap[0] = k->heap[--k->nheap];
        if (k->nheap > 0)
            sift_down(k, 0);
    }
    for (size_t i = 0; i < k->front.n; i++)
        k->low += k->front.value[k->at[i]];
}

/* --- the core ------------------------------------------------------------ */

/* The entries that are left, menu by menu. Row j of the table stands for core
 * menu j; what is left to the others is in [rest_min, rest_max]. */
struct core {
    size_t n, *menu, *start, *entry;
    int64_t fixed;                /* cost of the menus with one entry left */
    int64_t *rest_min, *rest_max; /* [j]: of the core menus after j */
    double gap;                   /* losses beyond this are not wanted */
};

static struct core find_core(const struct knapsack *k, size_t *at)
{
    const struct frontier *f = &k->front;
    struct core c = {.gap = k->bound - k->low + 1e-12 * k->scale};
    size_t m = 0, n = f->n;
    c.menu = arena_alloc(k->scratch, n * sizeof *c.menu);
    c.start = arena_alloc(k->scratch, (n + 1) * sizeof *c.start);
    c.entry = arena_alloc(k->scratch, f->start[n] * sizeof *c.entry);
    for (size_t i = 0; i < n; i++) {
        size_t from = m;
        for (size_t e = f->start[i]; e < f->start[i + 1]; e++)
            if (loss(k, i, e) <= c.gap)
                c.entry[m++] = e;
        at[i] = c.entry[from];
        if (m == from + 1) {
            c.fixed += f->cost[c.entry[from]];
            m = from;
            continue;
        }
        c.start[c.n] = from;
        c.menu[c.n++] = i;
    }
    c.start[c.n] = m;
    c.rest_min = arena_alloc(k->scratch, (c.n + 1) * sizeof *c.rest_min);
    c.rest_max = arena_alloc(k->scratch, (c.n + 1) * sizeof *c.rest_max);
    for (size_t j = c.n; j-- > 1;) { /* costs rise along a frontier */
        c.rest_min[j - 1] = c.rest_min[j] + f->cost[c.entry[c.start[j]]];
        c.rest_max[j - 1] =
            c.rest_max[j] + f->cost[c.entry[c.start[j + 1] - 1]];
    }
    return c;
}

static int64_t at_least(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Sums of costs after core menu j from which the end can still be reached: at
 * most the capacity, and at least what leaves no more unused than gap pays. */
static void window(const struct knapsack *k, const struct core *c, size_t j,
                   int64_t *low, int64_t *high)
{
    double unused = k->price > 0 ? c->gap / k->price : (double)k->capacity;
    int64_t least = unused < (double)k->capacity
                        ? k->capacity - (int64_t)floor(unused) - 1
                        : 0;
    *low = at_least(0, least - c->rest_max[j]);
    *high = k->capacity - c->rest_min[j];
}

/* One row of the table: from `now` (losses by sum of costs in [*from, *to])
 * to `next`; `took` gets the entry's number within the menu. */
static void fill_row(const struct knapsack *k, const struct core *c, size_t j,
                     const double *now, double *next, uint32_t *took,
                     int64_t *from, int64_t *to)
{
    int64_t low, high, first = *from, last = *to;
    const size_t *entry = &c->entry[c->start[j]];
    size_t n = c->start[j + 1] - c->start[j];
    window(k, c, j, &low, &high);
    low = at_least(low, first + k->front.cost[entry[0]]);
    if (last + k->front.cost[entry[n - 1]] < high)
        high = last + k->front.cost[entry[n - 1]];
    for (int64_t s = low; s <= high; s++)
        next[s] = INFINITY;
    for (size_t e = 0; e < n; e++) {
        int64_t cost = k->front.cost[entry[e]];
        double lost = loss(k, c->menu[j], entry[e]);
        int64_t end = high < last + cost ? high : last + cost;
        for (int64_t s = at_least(low, first + cost); s <= end; s++)
            if (now[s - cost] + lost < next[s]) {
                next[s] = now[s - cost] + lost;
                took[s] = (uint32_t)e;
            }
    }
    while (low < high && !(next[low] <= c->gap))
        low++;
    while (high > low && !(next[high] <= c->gap))
        high--;
    *from = low;
    *to = high;
}

/* The best sum of costs, or -1 when no state is left. */
static int64_t best_state(const struct knapsack *k, const double *lost,
                          int64_t from, int64_t to)
{
    int64_t best = -1;
    double least = INFINITY;
    for (int64_t s = from; s <= to; s++) {
        double total = lost[s] + k->price * (double)(k->capacity - s);
        if (total < least) {
            least = total;
            best = s;
        }
    }
    return best;
}

/* Fills the table over the core and reads the choice back into at[]. False
 * when nothing in it can be better than the greedy choice. */
static bool solve_core(const struct knapsack *k, const struct core *c,
                       size_t *at)
{
    size_t width = (size_t)k->capacity + 1;
    int64_t from = c->fixed, to = c->fixed;
    if (c->fixed > k->capacity)
        return false;
    double *now = arena_alloc(k->scratch, width * sizeof *now);
    double *next = arena_alloc(k->scratch, width * sizeof *next);
    uint32_t *took = arena_alloc(k->scratch, c->n * width * sizeof *took);
    for (size_t j = 0; j < c->n; j++) {
        fill_row(k, c, j, now, next, &took[j * width], &from, &to);
        if (from > to)
            return false;
        double *spare = now;
        now = next;
        next = spare;
    }
    int64_t sum = best_state(k, now, from, to);
    if (sum < 0)
        return false;
    for (size_t j = c->n; j-- > 0;) {
        size_t e = c->start[j] + took[j * width + (size_t)sum];
        at[c->menu[j]] = c->entry[e];
        sum -= k->front.cost[c->entry[e]];
    }
    return true;
}

enum firn_status sumrow_solve(const struct menus *menus, size_t *entry,
                              struct sumrow_result *result,
                              struct arena *scratch, struct firn_error *err)
{
    FIRN_TRY(menus_check(menus, "sum over one row", err));
    struct knapsack k;
    start(&k, menus, scratch);
    relax(&k);
    struct core core = {0};
    if (k.bound - k.low > 0) {
        size_t *at = arena_alloc(scratch, menus->n * sizeof *at);
        core = find_core(&k, at);
        double sum = 0;
        bool is_found = solve_core(&k, &core, at);
        for (size_t i = 0; is_found && i < menus->n; i++)
            sum += k.front.value[at[i]];
        if (is_found && sum > k.low) {
            k.low = sum;
            memcpy(k.at, at, menus->n * sizeof *at);
        }
    }
    for (size_t i = 0; i < menus->n; i++)
        entry[i] = k.front.entry[k.at[i]];
    *result =
        (struct sumrow_result){k.low, fmax(k.bound, k.low), k.price, core.n};
    return FIRN_OK;
}
