/* pairs_units.c - menus of units, and the row over them.
 *
 * A unit's menu is made by cost: for each cost the best way to spend it, in an
 * array over the costs up to the capacity. Entries that are worth no more than
 * a cheaper one are left out, so the row's solver gets sorted, short menus.
 */
#include "math/pairs_units.h"
#include "math/sumrow.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

static const size_t idle = SIZE_MAX;

/* A way to run a unit: together in pair k, or each of its tasks alone. */
struct way {
    double value;
    int pair;
    size_t entry[2];
};

/* The menus of all units, one after the other. */
struct unit_menus {
    size_t n, *start, *task; /* task[u]: the lower task of unit u */
    int *cost;
    double *value;
    struct way *way;
};

/* --- tables made once ------------------------------------------------------
 */

/* Counting sort of the pairs by their two tasks. */
static void index_pairs(struct units *units, struct arena *scratch)
{
    const struct pairs_problem *p = units->p;
    size_t n = p->alone.n, cells = n * n + 1, k = 0;
    size_t *start = arena_alloc(scratch, (cells + 1) * sizeof *start);
    int *list = arena_alloc(scratch, p->together.n * sizeof *list);
    for (int pass = 0; pass < 2; pass++) {
        for (k = 0; k < p->together.n; k++) {
            size_t a = (size_t)p->first[k], b = (size_t)p->second[k];
            size_t cell = a < b ? a * n + b : b * n + a;
            if (pass == 0)
                start[cell + 2]++;
            else
                list[start[cell + 1]++] = (int)k;
        }
        for (size_t c = 2; pass == 0 && c <= cells; c++)
            start[c] += start[c - 1];
    }
    units->index = (struct pairs_index){start, list};
}

/* Frontiers of the tasks alone, each with an idle entry at cost 0. */
static void make_frontier(struct units *units, struct arena *scratch)
{
    const struct menus *alone = &units->p->alone;
    size_t n = alone->n, from = n > 0 ? alone->start[0] : 0;
    size_t total = n > 0 ? alone->start[n] - from + n : 0, k = 0;
    size_t *start = arena_alloc(scratch, (n + 1) * sizeof *start);
    size_t *origin = arena_alloc(scratch, total * sizeof *origin);
    int *cost = arena_alloc(scratch, total * sizeof *cost);
    double *value = arena_alloc(scratch, total * sizeof *value);
    for (size_t i = 0; i < n; i++) {
        start[i] = k;
        origin[k++] = idle;
        for (size_t e = alone->start[i]; e < alone->start[i + 1]; e++, k++) {
            origin[k] = e;
            cost[k] = alone->cost[e];
            value[k] = alone->value[e];
        }
    }
    start[n] = k;
    struct menus with_idle = {n, start, cost, value, units->p->capacity};
    struct frontier f = menus_frontier(&with_idle, scratch);
    size_t *entry = arena_alloc(scratch, f.start[n] * sizeof *entry);
    for (size_t e = 0; e < f.start[n]; e++)
        entry[e] = origin[f.entry[e]];
    f.entry = entry;
    units->front = f;
}

void units_init(struct units *units, const struct pairs_problem *problem,
                struct arena *scratch)
{
    *units = (struct units){.p = problem};
    index_pairs(units, scratch);
    make_frontier(units, scratch);
}

void units_release(struct units *units)
{
    arena_release(&units->inner);
}

/* --- the menus of a pairing ------------------------------------------------
 */

static void offer(struct way *by_cost, int capacity, int cost, struct way way)
{
    if (cost <= capacity && way.value > by_cost[cost].value)
        by_cost[cost] = way;
}

/* All ways of tasks a and b (a itself when it is alone) into by_cost. */
static void list_ways(const struct units *units, size_t a, size_t b,
                      struct way *by_cost)
{
    const struct frontier *f = &units->front;
    const struct pairs_problem *p = units->p;
    for (size_t x = f->start[a]; x < f->start[a + 1]; x++) {
        if (f->cost[x] > p->capacity)
            break; /* costs rise */
        if (a == b)
            offer(by_cost, p->capacity, f->cost[x],
                  (struct way){f->value[x], PAIRS_NONE, {f->entry[x], idle}});
        for (size_t y = f->start[b]; a != b && y < f->start[b + 1] &&
                                     f->cost[y] <= p->capacity - f->cost[x];
             y++)
            offer(by_cost, p->capacity, f->cost[x] + f->cost[y],
                  (struct way){f->value[x] + f->value[y],
                               PAIRS_NONE,
                               {f->entry[x], f->entry[y]}});
    }
    if (a == b)
        return;
    size_t cell = a * p->alone.n + b;
    for (size_t k = units->index.start[cell]; k < units->index.start[cell + 1];
         k++) {
        size_t pair = (size_t)units->index.list[k];
        for (size_t e = p->together.start[pair];
             e < p->together.start[pair + 1]; e++)
            offer(by_cost, p->capacity, p->together.cost[e],
                  (struct way){p->together.value[e], (int)pair, {e, e}});
    }
}

/* Appends what by_cost has to the menus, and clears it. */
static void add_unit(struct unit_menus *menus, struct way *by_cost,
                     int capacity, size_t task)
{
    size_t k = menus->start[menus->n];
    double best = -INFINITY;
    menus->task[menus->n++] = task;
    for (int c = 0; c <= capacity; c++) {
        if (by_cost[c].value > best) {
            best = by_cost[c].value;
            menus->cost[k] = c;
            menus->value[k] = best;
            menus->way[k++] = by_cost[c];
        }
        by_cost[c].value = -INFINITY;
    }
    menus->start[menus->n] = k;
}

/* How many entries the menus of a pairing have at most. */
static size_t most_entries(const struct units *units, const int *mate)
{
    const struct pairs_problem *p = units->p;
    const struct frontier *f = &units->front;
    size_t n = p->alone.n, width = (size_t)p->capacity + 1, total = 0;
    for (size_t i = 0; i < n; i++) {
        size_t ways = f->start[i + 1] - f->start[i];
        if (mate[i] >= 0 && (size_t)mate[i] > i) {
            size_t j = (size_t)mate[i];
            size_t from = units->index.start[i * n + j];
            size_t to = units->index.start[i * n + j + 1];
            ways *= f->start[j + 1] - f->start[j];
            for (; from < to; from++) {
                size_t k = (size_t)units->index.list[from];
                ways += p->together.start[k + 1] - p->together.start[k];
            }
        }
        total += ways < width ? ways : width;
    }
    return total;
}

static struct unit_menus make_menus(struct units *units, const int *mate)
{
    size_t n = units->p->alone.n, width = (size_t)units->p->capacity + 1;
    size_t most = most_entries(units, mate);
    struct arena *inner = &units->inner;
    struct unit_menus menus = {0};
    arena_reset(inner);
    struct way *by_cost = arena_alloc(inner, width * sizeof *by_cost);
    menus.start = arena_alloc(inner, (n + 1) * sizeof *menus.start);
    menus.task = arena_alloc(inner, n * sizeof *menus.task);
    menus.cost = arena_alloc(inner, most * sizeof *menus.cost);
    menus.value = arena_alloc(inner, most * sizeof *menus.value);
    menus.way = arena_alloc(inner, most * sizeof *menus.way);
    for (size_t c = 0; c < width; c++)
        by_cost[c].value = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        size_t other = mate[i] < 0 ? i : (size_t)mate[i];
        if (other < i)
            continue;
        list_ways(units, i, other, by_cost);
        add_unit(&menus, by_cost, units->p->capacity, i);
    }
    return menus;
}

double units_solve(struct units *units, const int *mate,
                   struct pairs_choice *choice)
{
    struct unit_menus menus = make_menus(units, mate);
    struct sumrow_result r;
    struct menus row = {menus.n, menus.start, menus.cost, menus.value,
                        units->p->capacity};
    size_t *entry = arena_alloc(&units->inner, menus.n * sizeof *entry);
    if (sumrow_solve(&row, entry, &r, &units->inner, NULL) != FIRN_OK)
        FIRN_BUG("pairs: a unit that cannot be idle");
    for (size_t u = 0; u < menus.n; u++) {
        const struct way *way = &menus.way[entry[u]];
        size_t i = menus.task[u];
        choice[i] = (struct pairs_choice){way->pair, way->entry[0]};
        if (mate[i] >= 0)
            choice[mate[i]] = (struct pairs_choice){way->pair, way->entry[1]};
    }
    return r.value;
}
