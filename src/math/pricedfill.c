/* pricedfill.c - turns the choices at given prices into choices that fit.
 *
 * At the best prices the items take too much of some pools and leave units of
 * others idle. Three steps make the choices fit and use the idle units:
 *
 *   repair  while a pool is overdrawn, the change of one item that gives up
 *           least value for each unit it brings back;
 *   fill    while any item can better itself from what is free, the one that
 *           gains most;
 *   swap    an item betters itself with units that another one gives up, as
 *           long as the two together gain. For each pool and number of units,
 *           the cheapest two ways (of different items) to free that many are
 *           kept in a table, so that a pass over all pairs costs no more than
 *           one over all options.
 *
 * Invariant: each step of fill and swap raises the value, so they end; the
 * number of swaps is bounded all the same.
 *
 * Cost: O(options) for each change made, O(options + units) for each swap.
 */
#include "math/pricedwork.h"
#include <math.h>

static const struct option nothing = {-1, 0, 0, PRICED_NONE};

static const struct option *option_of(const struct priced_work *work, int k)
{
    return k == PRICED_NONE ? &nothing : &work->option[k];
}

/* Item `i` takes option `k` from now on. */
static void change(struct priced_work *work, int i, int k)
{
    const struct option *from = option_of(work, work->chosen[i]);
    const struct option *to = option_of(work, k);
    if (from->units > 0)
        work->free[from->pool] += from->units;
    if (to->units > 0)
        work->free[to->pool] -= to->units;
    work->value += to->value - from->value;
    work->chosen[i] = k;
}

/* Units needed beyond those of `from` to take `to` instead. */
static int extra(const struct option *from, const struct option *to)
{
    return from->pool == to->pool ? to->units - from->units : to->units;
}

/* ---- repair ---- */

struct step {
    int item, option;
    double score;
};

/* The cheapest change of item `i` that helps `pool`, if cheaper than `best`. */
static void try_release(const struct priced_work *work, int i, int pool,
                        struct step *best)
{
    const struct option *from = option_of(work, work->chosen[i]);
    if (from->pool != pool)
        return;
    for (int k = work->first[i] - 1; k < work->first[i + 1]; k++) {
        int which = k < work->first[i] ? PRICED_NONE : k;
        const struct option *to = option_of(work, which);
        int freed = from->units - (to->pool == pool ? to->units : 0);
        if (freed <= 0 || (to->units > 0 && to->pool != pool &&
                           to->units > work->free[to->pool]))
            continue;
        int useful = freed < -work->free[pool] ? freed : -work->free[pool];
        double score = (from->value - to->value) / useful;
        if (score < best->score)
            *best = (struct step){i, which, score};
    }
}

static void repair(struct priced_work *work)
{
    for (int p = 0; p < work->npools; p++)
        while (work->free[p] < 0) {
            struct step best = {0, PRICED_NONE, INFINITY};
            for (int i = 0; i < work->n; i++)
                try_release(work, i, p, &best);
            change(work, best.item, best.option);
        }
}

/* ---- fill ---- */

static bool fill_one(struct priced_work *work)
{
    struct step best = {0, PRICED_NONE, priced_tiny(work)};
    for (int i = 0; i < work->n; i++) {
        const struct option *from = option_of(work, work->chosen[i]);
        for (int k = work->first[i]; k < work->first[i + 1]; k++) {
            const struct option *to = &work->option[k];
            double gain = to->value - from->value;
            if (gain > best.score && extra(from, to) <= work->free[to->pool])
                best = (struct step){i, k, gain};
        }
    }
    if (best.option == PRICED_NONE)
        return false;
    change(work, best.item, best.option);
    return true;
}

/* ---- swap ---- */

/* A way to free units, and what it costs. */
struct way {
    int item, option;
    double loss;
};

/* The cheapest two ways of different items. */
struct ways {
    struct way at[2];
};

static void add_way(struct ways *ways, struct way way)
{
    struct way *at = ways->at;
    if (way.loss >= at[1].loss)
        return;
    if (way.item == at[0].item) {
        if (way.loss < at[0].loss)
            at[0] = way;
        return;
    }
    if (way.loss < at[0].loss) {
        at[1] = at[0];
        at[0] = way;
    } else {
        at[1] = way;
    }
}

/* For each pool and d, how to have at least d units free in that pool. */
struct table {
    struct ways *ways;
    int first[PRICED_POOLS_MAX]; /* where a pool's begin */
};

static struct table new_table(const struct priced_work *work,
                              struct arena *scratch)
{
    struct table table = {0};
    size_t n = 0;
    for (int p = 0; p < work->npools; p++) {
        table.first[p] = (int)n;
        n += (size_t)work->capacity[p] + 1;
    }
    table.ways = arena_alloc(scratch, (n + 1) * sizeof *table.ways);
    return table;
}

static struct ways *ways_of(const struct table *table, int pool, int units)
{
    return &table->ways[table->first[pool] + units];
}

static void list_ways(const struct priced_work *work, const struct table *table)
{
    const struct way never = {-1, PRICED_NONE, INFINITY};
    for (int p = 0; p < work->npools; p++)
        for (int d = 0; d <= work->capacity[p]; d++)
            *ways_of(table, p, d) = (struct ways){{never, never}};
    for (int i = 0; i < work->n; i++) {
        const struct option *from = option_of(work, work->chosen[i]);
        if (from->units == 0)
            continue;
        for (int k = work->first[i] - 1; k < work->first[i + 1]; k++) {
            int which = k < work->first[i] ? PRICED_NONE : k;
            const struct option *to = option_of(work, which);
            bool stays = to->pool == from->pool;
            int freed = from->units - (stays ? to->units : 0);
            if (freed <= 0 ||
                (to->units > 0 && !stays && to->units > work->free[to->pool]))
                continue;
            add_way(ways_of(table, from->pool, work->free[from->pool] + freed),
                    (struct way){i, which, from->value - to->value});
        }
    }
    for (int p = 0; p < work->npools; p++)
        for (int d = work->capacity[p]; d > 0; d--)
            for (int k = 0; k < 2; k++) {
                struct way way = ways_of(table, p, d)->at[k];
                if (way.item >= 0)
                    add_way(ways_of(table, p, d - 1), way);
            }
}

static bool swap_one(struct priced_work *work, const struct table *table)
{
    struct step best = {0, PRICED_NONE, priced_tiny(work)};
    struct way with = {0, 0, 0};
    list_ways(work, table);
    for (int i = 0; i < work->n; i++) {
        const struct option *from = option_of(work, work->chosen[i]);
        for (int k = work->first[i]; k < work->first[i + 1]; k++) {
            const struct option *to = &work->option[k];
            int need = extra(from, to);
            if (need <= 0 || to->value - from->value <= best.score)
                continue;
            const struct way *way = ways_of(table, to->pool, need)->at;
            if (way->item == i)
                way++;
            double gain = to->value - from->value - way->loss;
            if (gain > best.score) {
                best = (struct step){i, k, gain};
                with = *way;
            }
        }
    }
    if (best.option == PRICED_NONE)
        return false;
    change(work, with.item, with.option);
    change(work, best.item, best.option);
    return true;
}

void priced_fill(struct priced_work *work, struct arena *scratch)
{
    struct table table = new_table(work, scratch);
    work->value = 0;
    for (int p = 0; p < work->npools; p++)
        work->free[p] = work->capacity[p];
    for (int i = 0; i < work->n; i++) {
        const struct option *o = option_of(work, work->chosen[i]);
        work->value += o->value;
        if (o->units > 0)
            work->free[o->pool] -= o->units;
    }
    repair(work);
    int swaps = 4 * work->n + 16;
    while (fill_one(work) || (swaps-- > 0 && swap_one(work, &table))) {
    }
}
