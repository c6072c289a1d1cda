/* priced_fit.c - choices that fit, from the prices of priced.c.
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
 *           one over all options. Where an option of several pools lacks units
 *           of some, the ways of each of these pools are tried; a swap that
 *           does not fit as a whole is left to the search.
 *
 * Invariant: each step of fill and swap raises the value, so they end; the
 * number of swaps is bounded all the same.
 *
 * Cost: O(takes) for each change made, O(takes + units of the largest
 * option) for each swap.
 */
#include "base/arena.h"
#include "math/priced_work.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Item `i` takes option `k` from now on. */
static void change(struct priced_work *work, int i, int k)
{
    const struct priced_option *from = priced_option_of(work, work->chosen[i]);
    const struct priced_option *to = priced_option_of(work, k);
    priced_add_units(work, from, 1, work->free);
    priced_add_units(work, to, -1, work->free);
    work->value += to->value - from->value;
    work->chosen[i] = k;
}

/* Is there room for the takes at `more` instead of `from`? */
SELDOM static bool has_room_more(const struct priced_work *work,
                                 const struct priced_option *from, int more)
{
    for (const struct priced_take *t = &work->take[more]; t->pool >= 0; t++) {
        int need = t->units - priced_units_in(work, from, t->pool);
        if (need > 0 && need > work->free[t->pool])
            return false;
    }
    return true;
}

/* Is there room to take `to` instead of `from`, as far as it takes more? */
static inline bool has_room(const struct priced_work *work,
                            const struct priced_option *from,
                            const struct priced_option *to)
{
    int need = to->units - priced_units_in(work, from, to->pool);
    if (need > 0 && need > work->free[to->pool])
        return false;
    return to->more == 0 || has_room_more(work, from, to->more);
}

struct step {
    int item, option;
    double score;
};

/* The cheapest change of item `i` that helps `pool`, if cheaper than `best`. */
static void try_release(const struct priced_work *work, int i, int pool,
                        struct step *best)
{
    const struct priced_option *from = priced_option_of(work, work->chosen[i]);
    int has = priced_units_in(work, from, pool);
    if (has == 0)
        return;
    for (int k = work->first[i] - 1; k < work->first[i + 1]; k++) {
        int which = k < work->first[i] ? PRICED_NONE : k;
        const struct priced_option *to = priced_option_of(work, which);
        int freed = has - priced_units_in(work, to, pool);
        if (freed <= 0 || !has_room(work, from, to))
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

static bool fill_one(struct priced_work *work)
{
    struct step best = {0, PRICED_NONE, priced_tiny(work)};
    for (int i = 0; i < work->n; i++) {
        const struct priced_option *from =
            priced_option_of(work, work->chosen[i]);
        for (int k = work->first[i]; k < work->first[i + 1]; k++) {
            const struct priced_option *to = &work->option[k];
            double gain = to->value - from->value;
            if (gain > best.score && has_room(work, from, to))
                best = (struct step){i, k, gain};
        }
    }
    if (best.option == PRICED_NONE)
        return false;
    change(work, best.item, best.option);
    return true;
}

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

/* For each pool and d, how to have at least d units free in that pool. While a
 * pool has more units free than any option takes, no swap is needed there: fill
 * has given them. Otherwise free units and those that a change brings back are
 * fewer than twice the units of the largest option, so a table costs what the
 * options take, however large the pool is. */
struct table {
    struct ways *ways;
    int first[PRICED_POOLS_MAX]; /* where a pool's begin */
    int most[PRICED_POOLS_MAX];  /* units of the pool's largest option */
    int last[PRICED_POOLS_MAX];  /* the largest d */
};

static struct table new_table(const struct priced_work *work,
                              struct arena *scratch)
{
    struct table table = {0};
    size_t n = 0;
    for (int k = 0; k < work->first[work->n]; k++) {
        const struct priced_option *o = &work->option[k];
        priced_raise_to(&table.most[o->pool], o->units);
        for (const struct priced_take *t = &work->take[o->more]; t->pool >= 0;
             t++)
            priced_raise_to(&table.most[t->pool], t->units);
    }
    for (int p = 0; p < work->npools; p++) {
        int twice = 2 * table.most[p];
        table.last[p] = work->capacity[p] < twice ? work->capacity[p] : twice;
        table.first[p] = (int)n;
        n += (size_t)table.last[p] + 1;
    }
    table.ways = arena_alloc(scratch, (n + 1) * sizeof *table.ways);
    return table;
}

static struct ways *ways_of(const struct table *table, int pool, int units)
{
    return &table->ways[table->first[pool] + units];
}

/* Has the pool units for every option? */
static bool is_ample(const struct priced_work *work, const struct table *table,
                     int p)
{
    return work->free[p] >= table->most[p];
}

/* Lists the ways in which item `i` frees units of a pool. */
static void list_item(const struct priced_work *work, const struct table *table,
                      int i, int pool)
{
    const struct priced_option *from = priced_option_of(work, work->chosen[i]);
    int has = priced_units_in(work, from, pool);
    if (is_ample(work, table, pool))
        return;
    for (int k = work->first[i] - 1; k < work->first[i + 1]; k++) {
        int which = k < work->first[i] ? PRICED_NONE : k;
        const struct priced_option *to = priced_option_of(work, which);
        int freed = has - priced_units_in(work, to, pool);
        if (freed <= 0 || !has_room(work, from, to))
            continue;
        add_way(ways_of(table, pool, work->free[pool] + freed),
                (struct way){i, which, from->value - to->value});
    }
}

static void list_ways(const struct priced_work *work, const struct table *table)
{
    const struct way never = {-1, PRICED_NONE, INFINITY};
    for (int p = 0; p < work->npools; p++)
        for (int d = 0; d <= table->last[p]; d++)
            *ways_of(table, p, d) = (struct ways){{never, never}};
    for (int i = 0; i < work->n; i++) {
        const struct priced_option *from =
            priced_option_of(work, work->chosen[i]);
        if (from->units == 0)
            continue;
        list_item(work, table, i, from->pool);
        for (const struct priced_take *t = &work->take[from->more];
             t->pool >= 0; t++)
            list_item(work, table, i, t->pool);
    }
    for (int p = 0; p < work->npools; p++)
        for (int d = table->last[p]; d > 0; d--)
            for (int k = 0; k < 2; k++) {
                struct way way = ways_of(table, p, d)->at[k];
                if (way.item >= 0)
                    add_way(ways_of(table, p, d - 1), way);
            }
}

/* The best swap so far: `step`, with units that `with` gives up. */
struct swap {
    struct step step;
    struct way with;
};

/* Do both changes together fit? Those between options of one pool do: the way
 * frees what is needed, and takes units of another pool only. */
static bool fits_both(const struct priced_work *work, int i, int k,
                      const struct way *way)
{
    const struct priced_option *all[] = {
        priced_option_of(work, work->chosen[i]),
        priced_option_of(work, work->chosen[way->item]),
        priced_option_of(work, k), priced_option_of(work, way->option)};
    if ((all[0]->more | all[1]->more | all[2]->more | all[3]->more) == 0)
        return true;
    int left[PRICED_POOLS_MAX];
    memcpy(left, work->free, sizeof left);
    for (int a = 0; a < 4; a++)
        priced_add_units(work, all[a], a < 2 ? 1 : -1, left);
    for (int p = 0; p < work->npools; p++)
        if (left[p] < 0)
            return false;
    return true;
}

/* Item `i` takes option `k`, with units that one of the ways frees. */
static void try_swap(const struct priced_work *work, const struct ways *ways,
                     int i, int k, struct swap *best)
{
    double more =
        work->option[k].value - priced_value_of(work, work->chosen[i]);
    for (int w = 0; w < 2; w++) {
        const struct way *way = &ways->at[w];
        if (way->item == i)
            continue;
        if (!(more - way->loss > best->step.score))
            return;
        if (!fits_both(work, i, k, way))
            continue;
        *best = (struct swap){{i, k, more - way->loss}, *way};
        return;
    }
}

/* The same for each pool of the option's further takes. */
SELDOM static void try_swap_more(const struct priced_work *work,
                                 const struct table *table, int i, int k,
                                 struct swap *best)
{
    const struct priced_option *from = priced_option_of(work, work->chosen[i]);
    for (const struct priced_take *t = &work->take[work->option[k].more];
         t->pool >= 0; t++) {
        int need = t->units - priced_units_in(work, from, t->pool);
        if (need > work->free[t->pool])
            try_swap(work, ways_of(table, t->pool, need), i, k, best);
    }
}

static bool swap_one(struct priced_work *work, const struct table *table)
{
    struct swap best = {{0, PRICED_NONE, priced_tiny(work)}, {0, 0, 0}};
    list_ways(work, table);
    for (int i = 0; i < work->n; i++) {
        const struct priced_option *from =
            priced_option_of(work, work->chosen[i]);
        for (int k = work->first[i]; k < work->first[i + 1]; k++) {
            const struct priced_option *to = &work->option[k];
            if (to->value - from->value <= best.step.score)
                continue;
            int need = to->units - priced_units_in(work, from, to->pool);
            if (need > work->free[to->pool])
                try_swap(work, ways_of(table, to->pool, need), i, k, &best);
            if (to->more != 0)
                try_swap_more(work, table, i, k, &best);
        }
    }
    if (best.step.option == PRICED_NONE)
        return false;
    change(work, best.with.item, best.with.option);
    change(work, best.step.item, best.step.option);
    return true;
}

void priced_fill(struct priced_work *work, struct arena *scratch)
{
    struct table table = new_table(work, scratch);
    work->value = 0;
    for (int p = 0; p < work->npools; p++)
        work->free[p] = work->capacity[p];
    for (int i = 0; i < work->n; i++) {
        const struct priced_option *o = priced_option_of(work, work->chosen[i]);
        work->value += o->value;
        priced_add_units(work, o, -1, work->free);
    }
    repair(work);
    int swaps = 4 * work->n + 16;
    while (fill_one(work) || (swaps-- > 0 && swap_one(work, &table))) {
    }
}
