/* priced.c - prices for pools, by columns generated; the bound they prove.
 *
 * Let unit prices be p >= 0. If every item takes the choice with the largest
 * value - price * units (or none, at 0), then
 *
 *     bound(p) = sum over pools of p * capacity
 *              + sum over items of max(0, value - p * units)
 *
 * is at least the best sum that fits (Lagrangian relaxation of the capacity
 * rows). For a choice of several pools price * units is the sum over them; all
 * that follows holds for it too. The least bound over all p is the value of the
 * linear relaxation, which differs from the best by a few items at most, one
 * for each pool.
 *
 * The prices are those of a small linear program over whole answers k, each
 * with its value v_k and use u_k of the pools (Dantzig and Wolfe):
 *
 *     maximise sum x_k v_k,  sum x_k u_k <= capacity,  sum x_k = 1,  x >= 0
 *
 * Its rows are the pools and one more, so a basis is a matrix of this size;
 * the best answer to the present prices is the column that enters, and columns
 * that left are forgotten. Prices of early bases jump about, so answers are
 * asked for at prices half way to the best ones so far, and at the basis' own
 * only when those bring nothing (smoothing; Wentges 1997).
 *
 * Invariants:
 * (1) `bound` is bound(p) of `price`, whatever rounding does to the basis;
 * (2) a choice that takes at least as much of every pool as another one of the
 *     item, and is not worth more, is left out;
 * (3) `chosen` always fits;
 * (4) no two takes of a choice are of the same pool.
 *
 * Cost: a set of prices is O(takes of all choices + pools^2); 20 to 60 of them
 * as a rule. A choice of one pool has all its numbers in its option: further
 * takes are looked up only where there are some.
 */
#include "math/priced.h"
#include "base/arena.h"
#include "math/cbc.h"
#include "math/priced.h"
#include <firn/status.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = PRICED_POOLS_MAX + 1 };

/* A choice worth considering. */
struct option {
    int pool, units;
    double value;
    int origin; /* index among the item's choices */
    int more;   /* its further takes: work->take[more] until one of pool -1 */
};

struct work {
    int n;                 /* items that are not pinned and have options */
    int *item;             /* their numbers in the problem */
    int *first;            /* options of the i-th: first[i] .. first[i + 1] */
    struct option *option; /* `none` is not among them */
    struct priced_take *take; /* of all options; the first ends an empty list */
    int ntakes;               /* with the ends of lists */
    int npools;
    int capacity[PRICED_POOLS_MAX]; /* without what is pinned */
    double size;                    /* sum of the items' largest values */

    double price[PRICED_POOLS_MAX]; /* of the best bound */
    double bound;

    int *chosen; /* options, or PRICED_NONE; fits */
    double value;
    int free[PRICED_POOLS_MAX]; /* units that `chosen` leaves */
};

/* Differences below this are rounding. */
static double tiny(const struct work *work)
{
    return 1e-11 * work->size;
}

static double value_of(const struct work *work, int option)
{
    return option == PRICED_NONE ? 0 : work->option[option].value;
}

/* ---- further takes ----
 *
 * Most problems have none. What goes through them stays out of the loops of all
 * others. */

#define SELDOM __attribute__((noinline, cold))

SELDOM static double price_of(const struct work *work, int more,
                              const double *price)
{
    double sum = 0;
    for (const struct priced_take *t = &work->take[more]; t->pool >= 0; t++)
        sum += price[t->pool] * t->units;
    return sum;
}

/* Adds `sign` times the units to `units`, by pool. */
SELDOM static void add_more(const struct work *work, int more, int sign,
                            int *units)
{
    for (const struct priced_take *t = &work->take[more]; t->pool >= 0; t++)
        units[t->pool] += sign * t->units;
}

SELDOM static int more_in(const struct work *work, int more, int pool)
{
    for (const struct priced_take *t = &work->take[more]; t->pool >= 0; t++)
        if (t->pool == pool)
            return t->units;
    return 0;
}

static inline double net_of(const struct work *work, const struct option *o,
                            const double *price)
{
    double net = o->value - price[o->pool] * o->units;
    return o->more == 0 ? net : net - price_of(work, o->more, price);
}

/* Units that an option takes of a pool. */
static inline int units_in(const struct work *work, const struct option *o,
                           int pool)
{
    if (o->pool == pool)
        return o->units;
    return o->more == 0 ? 0 : more_in(work, o->more, pool);
}

/* Adds `sign` times the units of the option to `units`, by pool. */
static inline void add_units(const struct work *work, const struct option *o,
                             int sign, int *units)
{
    units[o->pool] += sign * o->units;
    if (o->more != 0)
        add_more(work, o->more, sign, units);
}

/* ---- reducing ---- */

/* Units that a choice takes of a pool. */
static int units_of(const struct priced_choice *choice, int pool)
{
    if (choice->pool == pool)
        return choice->units;
    for (int i = 0; i < choice->nmore; i++)
        if (choice->more[i].pool == pool)
            return choice->more[i].units;
    return 0;
}

/* Does `a` take no more of any pool than `b`? Then `is_less` says whether it
 * takes less of some. */
static bool takes_no_more(const struct priced_choice *a,
                          const struct priced_choice *b, bool *is_less)
{
    int theirs = units_of(b, a->pool);
    if (a->units > theirs || a->nmore > b->nmore)
        return false;
    *is_less = a->units < theirs || a->nmore < b->nmore;
    for (int i = 0; i < a->nmore; i++) {
        theirs = units_of(b, a->more[i].pool);
        if (a->more[i].units > theirs)
            return false;
        *is_less = *is_less || a->more[i].units < theirs;
    }
    return true;
}

static bool is_too_large(const struct priced_choice *choice,
                         const int *capacity)
{
    if (choice->units > capacity[choice->pool])
        return true;
    for (int i = 0; i < choice->nmore; i++)
        if (choice->more[i].units > capacity[choice->more[i].pool])
            return true;
    return false;
}

/* Is choice `c` never better than another one of the same item: (2)? */
static bool is_dominated_mixed(const struct priced_item *item, int c)
{
    const struct priced_choice *it = &item->choices[c];
    for (int k = 0; k < item->nchoices; k++) {
        const struct priced_choice *other = &item->choices[k];
        bool is_less;
        if (other->value < it->value || k == c ||
            !takes_no_more(other, it, &is_less))
            continue;
        if (is_less || other->value > it->value || k < c)
            return true;
    }
    return false;
}

/* The same of a choice of one pool: another one of that pool only can take no
 * more. */
static bool is_dominated(const struct priced_item *item, int c)
{
    const struct priced_choice *it = &item->choices[c];
    for (int k = 0; k < item->nchoices; k++) {
        const struct priced_choice *other = &item->choices[k];
        if (other->pool != it->pool || other->units > it->units ||
            other->value < it->value || k == c || other->nmore > 0)
            continue;
        if (other->units < it->units || other->value > it->value || k < c)
            return true;
    }
    return false;
}

static bool is_pointless(const struct priced_item *item, int c,
                         const int *capacity)
{
    const struct priced_choice *it = &item->choices[c];
    if (!(it->value > 0) || is_too_large(it, capacity))
        return true;
    return it->nmore == 0 ? is_dominated(item, c) : is_dominated_mixed(item, c);
}

static bool is_take(int pool, int units, int npools)
{
    return units >= 1 && pool >= 0 && pool < npools;
}

static inline bool is_valid(const struct priced_choice *choice, int npools)
{
    uint32_t pools = 0;
    if (!isfinite(choice->value) || choice->nmore < 0 ||
        !is_take(choice->pool, choice->units, npools))
        return false;
    pools |= (uint32_t)1 << choice->pool;
    for (int i = 0; i < choice->nmore; i++) {
        const struct priced_take *take = &choice->more[i];
        if (!is_take(take->pool, take->units, npools) ||
            (pools >> take->pool & 1) != 0) /* (4) */
            return false;
        pools |= (uint32_t)1 << take->pool;
    }
    return true;
}

/* Takes what is pinned, and counts the further takes of all choices; false when
 * it does not fit. */
static bool take_pinned(const struct priced_problem *problem, struct work *work,
                        double *value)
{
    for (int i = 0; i < problem->nitems; i++) {
        const struct priced_item *item = &problem->items[i];
        for (int c = 0; c < item->nchoices; c++) {
            if (!is_valid(&item->choices[c], problem->npools))
                FIRN_BUG("choice %d of item %d is invalid", c, i);
            if (item->choices[c].nmore > 0)
                work->ntakes += item->choices[c].nmore + 1;
        }
        if (item->pinned == PRICED_NONE)
            continue;
        const struct priced_choice *c = &item->choices[item->pinned];
        work->capacity[c->pool] -= c->units;
        for (int k = 0; k < c->nmore; k++)
            work->capacity[c->more[k].pool] -= c->more[k].units;
        *value += c->value;
    }
    for (int p = 0; p < problem->npools; p++)
        if (work->capacity[p] < 0)
            return false;
    return true;
}

/* Memory for the items and choices of the problem. */
static void new_lists(const struct priced_problem *problem, struct work *work,
                      struct arena *scratch)
{
    size_t n = (size_t)problem->nitems, m = 0;
    for (size_t i = 0; i < n; i++)
        m += (size_t)problem->items[i].nchoices;
    work->item = arena_alloc(scratch, (n + 1) * sizeof(int));
    work->first = arena_alloc(scratch, (n + 2) * sizeof(int));
    work->chosen = arena_alloc(scratch, (n + 1) * sizeof(int));
    work->option = arena_alloc(scratch, (m + 1) * sizeof(struct option));
    work->take =
        arena_alloc(scratch, (size_t)(work->ntakes + 1) * sizeof *work->take);
    work->take[0].pool = -1;
    work->ntakes = 1;
}

/* The choice as an option, with its further takes. */
static struct option option_from(struct work *work,
                                 const struct priced_choice *choice, int origin)
{
    struct option out = {choice->pool, choice->units, choice->value, origin, 0};
    if (choice->nmore == 0)
        return out;
    out.more = work->ntakes;
    for (int i = 0; i < choice->nmore; i++)
        work->take[work->ntakes++] = choice->more[i];
    work->take[work->ntakes++] = (struct priced_take){-1, 0};
    return out;
}

/* False when what is pinned does not fit. */
static bool reduce(const struct priced_problem *problem, struct work *work,
                   struct arena *scratch, double *pinned)
{
    if (problem->npools < 0 || problem->npools > PRICED_POOLS_MAX)
        FIRN_BUG("%d pools", problem->npools);
    work->npools = problem->npools;
    for (int p = 0; p < problem->npools; p++)
        work->capacity[p] = problem->capacity[p];
    if (!take_pinned(problem, work, pinned))
        return false;
    new_lists(problem, work, scratch);
    int at = 0;
    for (int i = 0; i < problem->nitems; i++) {
        const struct priced_item *item = &problem->items[i];
        double most = 0;
        if (item->pinned != PRICED_NONE)
            continue;
        for (int c = 0; c < item->nchoices; c++) {
            const struct priced_choice *it = &item->choices[c];
            if (is_pointless(item, c, work->capacity))
                continue;
            work->option[at++] = option_from(work, it, c);
            most = fmax(most, it->value);
        }
        if (at > work->first[work->n]) {
            work->item[work->n++] = i;
            work->first[work->n] = at;
            work->size += most;
        }
    }
    return true;
}

/* ---- prices ---- */

/* The small linear program: a basis by its inverse. */
struct master {
    int rows; /* pools, and one for "an answer" */
    double inverse[ROWS_MAX][ROWS_MAX];
    double level[ROWS_MAX]; /* of the basic columns */
    double cost[ROWS_MAX];  /* of the basic columns */
    double dual[ROWS_MAX];  /* cost * inverse */
};

static void master_duals(struct master *master)
{
    for (int c = 0; c < master->rows; c++) {
        double sum = 0;
        for (int r = 0; r < master->rows; r++)
            sum += master->cost[r] * master->inverse[r][c];
        master->dual[c] = sum;
    }
}

/* `column` enters; false when nothing can leave. */
static bool master_pivot(struct master *master, const double *column,
                         double cost)
{
    double way[ROWS_MAX];
    int out = -1;
    double least = INFINITY;
    for (int r = 0; r < master->rows; r++) {
        way[r] = 0;
        for (int c = 0; c < master->rows; c++)
            way[r] += master->inverse[r][c] * column[c];
        if (way[r] > 1e-9 && master->level[r] / way[r] < least) {
            least = master->level[r] / way[r];
            out = r;
        }
    }
    if (out < 0)
        return false;
    for (int c = 0; c < master->rows; c++)
        master->inverse[out][c] /= way[out];
    master->level[out] = least;
    master->cost[out] = cost;
    for (int r = 0; r < master->rows; r++) {
        if (r == out || way[r] == 0)
            continue;
        for (int c = 0; c < master->rows; c++)
            master->inverse[r][c] -= way[r] * master->inverse[out][c];
        master->level[r] = fmax(0, master->level[r] - way[r] * least);
    }
    master_duals(master);
    return true;
}

/* The choices of all items at given prices. */
struct answer {
    double value, bound;
    double use[ROWS_MAX]; /* and 1 behind the pools: a column */
    int *chosen;
};

static void add_use(const struct work *work, const struct option *o,
                    double *use)
{
    use[o->pool] += o->units;
    for (const struct priced_take *t = &work->take[o->more]; t->pool >= 0; t++)
        use[t->pool] += t->units;
}

static void ask(const struct work *work, const double *price,
                struct answer *out)
{
    out->value = 0;
    out->bound = 0;
    for (int p = 0; p < work->npools; p++) {
        out->use[p] = 0;
        out->bound += price[p] * work->capacity[p];
    }
    out->use[work->npools] = 1;
    for (int i = 0; i < work->n; i++) {
        double best = 0;
        int which = PRICED_NONE;
        for (int k = work->first[i]; k < work->first[i + 1]; k++) {
            const struct option *o = &work->option[k];
            double net = net_of(work, o, price);
            if (net > best) {
                best = net;
                which = k;
            }
        }
        out->chosen[i] = which;
        if (which == PRICED_NONE)
            continue;
        out->bound += best;
        out->value += work->option[which].value;
        add_use(work, &work->option[which], out->use);
    }
}

/* The least bound, its prices, and what is chosen at them (which need not
 * fit). Returns how many prices were tried. */
static int find_prices(struct work *work, struct arena *scratch)
{
    struct master master = {.rows = work->npools + 1};
    struct answer answer;
    int tried = 0, most = 60 + 20 * work->npools;
    answer.chosen = arena_alloc(scratch, (size_t)(work->n + 1) * sizeof(int));
    for (int r = 0; r < master.rows; r++) { /* all pools idle, no item served */
        master.inverse[r][r] = 1;
        master.level[r] = r < work->npools ? work->capacity[r] : 1;
    }
    work->bound = INFINITY;
    bool is_smooth = false;
    while (tried < most) {
        double price[PRICED_POOLS_MAX];
        double low = 0;
        int idle = -1;
        for (int p = 0; p < work->npools; p++)
            if (master.dual[p] < low - tiny(work))
                low = master.dual[idle = p];
        if (idle >= 0) { /* a pool should have been left idle */
            double column[ROWS_MAX] = {0};
            column[idle] = 1;
            if (!master_pivot(&master, column, 0))
                break;
            tried++; /* no endless loop whatever rounding does */
            continue;
        }
        for (int p = 0; p < work->npools; p++) {
            price[p] = fmax(0, master.dual[p]);
            if (is_smooth)
                price[p] = 0.5 * (price[p] + work->price[p]);
        }
        ask(work, price, &answer);
        tried++;
        if (answer.bound < work->bound) {
            work->bound = answer.bound;
            memcpy(work->price, price, sizeof price);
            memcpy(work->chosen, answer.chosen, (size_t)work->n * sizeof(int));
        }
        double worth = answer.value; /* > 0: the answer should enter */
        for (int r = 0; r < master.rows; r++)
            worth -= master.dual[r] * answer.use[r];
        bool enters = worth > tiny(work);
        if (!enters && !is_smooth)
            break; /* nothing is worth more than the basis: the least bound */
        is_smooth = enters;
        if (enters && !master_pivot(&master, answer.use, answer.value))
            break;
    }
    return tried;
}

/* ---- choices that fit ----
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

static const struct option nothing = {0, 0, 0, PRICED_NONE, 0};

static const struct option *option_of(const struct work *work, int k)
{
    return k == PRICED_NONE ? &nothing : &work->option[k];
}

/* Item `i` takes option `k` from now on. */
static void change(struct work *work, int i, int k)
{
    const struct option *from = option_of(work, work->chosen[i]);
    const struct option *to = option_of(work, k);
    add_units(work, from, 1, work->free);
    add_units(work, to, -1, work->free);
    work->value += to->value - from->value;
    work->chosen[i] = k;
}

/* Is there room for the takes at `more` instead of `from`? */
SELDOM static bool has_room_more(const struct work *work,
                                 const struct option *from, int more)
{
    for (const struct priced_take *t = &work->take[more]; t->pool >= 0; t++) {
        int need = t->units - units_in(work, from, t->pool);
        if (need > 0 && need > work->free[t->pool])
            return false;
    }
    return true;
}

/* Is there room to take `to` instead of `from`, as far as it takes more? */
static inline bool has_room(const struct work *work, const struct option *from,
                            const struct option *to)
{
    int need = to->units - units_in(work, from, to->pool);
    if (need > 0 && need > work->free[to->pool])
        return false;
    return to->more == 0 || has_room_more(work, from, to->more);
}

struct step {
    int item, option;
    double score;
};

/* The cheapest change of item `i` that helps `pool`, if cheaper than `best`. */
static void try_release(const struct work *work, int i, int pool,
                        struct step *best)
{
    const struct option *from = option_of(work, work->chosen[i]);
    int has = units_in(work, from, pool);
    if (has == 0)
        return;
    for (int k = work->first[i] - 1; k < work->first[i + 1]; k++) {
        int which = k < work->first[i] ? PRICED_NONE : k;
        const struct option *to = option_of(work, which);
        int freed = has - units_in(work, to, pool);
        if (freed <= 0 || !has_room(work, from, to))
            continue;
        int useful = freed < -work->free[pool] ? freed : -work->free[pool];
        double score = (from->value - to->value) / useful;
        if (score < best->score)
            *best = (struct step){i, which, score};
    }
}

static void repair(struct work *work)
{
    for (int p = 0; p < work->npools; p++)
        while (work->free[p] < 0) {
            struct step best = {0, PRICED_NONE, INFINITY};
            for (int i = 0; i < work->n; i++)
                try_release(work, i, p, &best);
            change(work, best.item, best.option);
        }
}

static bool fill_one(struct work *work)
{
    struct step best = {0, PRICED_NONE, tiny(work)};
    for (int i = 0; i < work->n; i++) {
        const struct option *from = option_of(work, work->chosen[i]);
        for (int k = work->first[i]; k < work->first[i + 1]; k++) {
            const struct option *to = &work->option[k];
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

static void raise_to(int *most, int units)
{
    *most = units > *most ? units : *most;
}

static struct table new_table(const struct work *work, struct arena *scratch)
{
    struct table table = {0};
    size_t n = 0;
    for (int k = 0; k < work->first[work->n]; k++) {
        const struct option *o = &work->option[k];
        raise_to(&table.most[o->pool], o->units);
        for (const struct priced_take *t = &work->take[o->more]; t->pool >= 0;
             t++)
            raise_to(&table.most[t->pool], t->units);
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
static bool is_ample(const struct work *work, const struct table *table, int p)
{
    return work->free[p] >= table->most[p];
}

/* Lists the ways in which item `i` frees units of a pool. */
static void list_item(const struct work *work, const struct table *table, int i,
                      int pool)
{
    const struct option *from = option_of(work, work->chosen[i]);
    int has = units_in(work, from, pool);
    if (is_ample(work, table, pool))
        return;
    for (int k = work->first[i] - 1; k < work->first[i + 1]; k++) {
        int which = k < work->first[i] ? PRICED_NONE : k;
        const struct option *to = option_of(work, which);
        int freed = has - units_in(work, to, pool);
        if (freed <= 0 || !has_room(work, from, to))
            continue;
        add_way(ways_of(table, pool, work->free[pool] + freed),
                (struct way){i, which, from->value - to->value});
    }
}

static void list_ways(const struct work *work, const struct table *table)
{
    const struct way never = {-1, PRICED_NONE, INFINITY};
    for (int p = 0; p < work->npools; p++)
        for (int d = 0; d <= table->last[p]; d++)
            *ways_of(table, p, d) = (struct ways){{never, never}};
    for (int i = 0; i < work->n; i++) {
        const struct option *from = option_of(work, work->chosen[i]);
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
static bool fits_both(const struct work *work, int i, int k,
                      const struct way *way)
{
    const struct option *all[] = {option_of(work, work->chosen[i]),
                                  option_of(work, work->chosen[way->item]),
                                  option_of(work, k),
                                  option_of(work, way->option)};
    if ((all[0]->more | all[1]->more | all[2]->more | all[3]->more) == 0)
        return true;
    int left[PRICED_POOLS_MAX];
    memcpy(left, work->free, sizeof left);
    for (int a = 0; a < 4; a++)
        add_units(work, all[a], a < 2 ? 1 : -1, left);
    for (int p = 0; p < work->npools; p++)
        if (left[p] < 0)
            return false;
    return true;
}

/* Item `i` takes option `k`, with units that one of the ways frees. */
static void try_swap(const struct work *work, const struct ways *ways, int i,
                     int k, struct swap *best)
{
    double more = work->option[k].value - value_of(work, work->chosen[i]);
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
SELDOM static void try_swap_more(const struct work *work,
                                 const struct table *table, int i, int k,
                                 struct swap *best)
{
    const struct option *from = option_of(work, work->chosen[i]);
    for (const struct priced_take *t = &work->take[work->option[k].more];
         t->pool >= 0; t++) {
        int need = t->units - units_in(work, from, t->pool);
        if (need > work->free[t->pool])
            try_swap(work, ways_of(table, t->pool, need), i, k, best);
    }
}

static bool swap_one(struct work *work, const struct table *table)
{
    struct swap best = {{0, PRICED_NONE, tiny(work)}, {0, 0, 0}};
    list_ways(work, table);
    for (int i = 0; i < work->n; i++) {
        const struct option *from = option_of(work, work->chosen[i]);
        for (int k = work->first[i]; k < work->first[i + 1]; k++) {
            const struct option *to = &work->option[k];
            if (to->value - from->value <= best.step.score)
                continue;
            int need = to->units - units_in(work, from, to->pool);
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

static void fill(struct work *work, struct arena *scratch)
{
    struct table table = new_table(work, scratch);
    work->value = 0;
    for (int p = 0; p < work->npools; p++)
        work->free[p] = work->capacity[p];
    for (int i = 0; i < work->n; i++) {
        const struct option *o = option_of(work, work->chosen[i]);
        work->value += o->value;
        add_units(work, o, -1, work->free);
    }
    repair(work);
    int swaps = 4 * work->n + 16;
    while (fill_one(work) || (swaps-- > 0 && swap_one(work, &table))) {
    }
}

/* ---- the rest of the gap ----
 *
 * At prices p, let loss(i, k) >= 0 be how much less item i nets with option k
 * than with its best one. Any choice that fits is worth exactly
 *
 *     bound(p) - sum of losses - sum over pools of p * units left idle
 *
 * so the best is the one that loses and idles least, and an option whose loss
 * alone is more than bound - value of the best known need not be looked at.
 * That leaves one option for most items. A depth-first search goes through the
 * rest, the options of an item in order of loss, and cuts a branch when its
 * losses so far, and the idling that the items to come cannot prevent even if
 * each takes all it can of each pool, cost as much as the best known.
 *
 * Invariants:
 * (a) every choice better than the incumbent by more than rounding is a leaf
 *     that is not cut: when the search ends by itself the incumbent is best;
 * (b) the incumbent only ever improves.
 *
 * An option of several pools differs in nothing: its loss is by the prices of
 * all its units.
 *
 * Cost: at most `nodes` steps of O(pools). Items whose second best option is
 * dear come first: few branches there, and the cheap exchanges at the end fit
 * the pieces together.
 */

/* One option of one item (or none), with its loss. */
struct branch {
    int option;
    int pool, units;
    int more; /* further takes, as of an option */
    double loss;
};

struct level {
    int item;
    struct branch *branches; /* ascending loss */
    int n;
    int fill[PRICED_POOLS_MAX]; /* most that this and later ones can take */
};

struct search {
    struct work *work;
    struct level *levels;
    int n;
    double budget; /* what the incumbent loses, less rounding */
    double enough; /* the loss at which the search may stop */
    long left;     /* steps */
    int *path;     /* branch of each level */
    int *best;     /* the incumbent's options by item */
    bool has_best;
};

static void add_branch(struct level *level, struct branch branch, double budget)
{
    if (!(branch.loss < budget))
        return;
    int at = level->n++;
    while (at > 0 && level->branches[at - 1].loss > branch.loss) {
        level->branches[at] = level->branches[at - 1];
        at--;
    }
    level->branches[at] = branch;
}

static void make_level(struct search *search, int i, struct branch *room)
{
    const struct work *work = search->work;
    struct level *level = &search->levels[i];
    double most = 0;
    for (int k = work->first[i]; k < work->first[i + 1]; k++) {
        const struct option *o = &work->option[k];
        most = fmax(most, net_of(work, o, work->price));
    }
    *level = (struct level){.item = i, .branches = room};
    for (int k = work->first[i]; k < work->first[i + 1]; k++) {
        const struct option *o = &work->option[k];
        double net = net_of(work, o, work->price);
        add_branch(level,
                   (struct branch){k, o->pool, o->units, o->more, most - net},
                   search->budget);
    }
    add_branch(level, (struct branch){PRICED_NONE, 0, 0, 0, most},
               search->budget);
}

/* Dear second options first. */
static int by_second_loss(const void *a, const void *b)
{
    const struct level *x = a, *y = b;
    double dx = x->branches[1].loss, dy = y->branches[1].loss;
    return dx != dy ? (dx < dy) - (dx > dy) : x->item - y->item;
}

static inline void give_back(const struct work *work,
                             const struct branch *branch, int *free)
{
    free[branch->pool] += branch->units;
    if (branch->more != 0)
        add_more(work, branch->more, 1, free);
}

/* Takes the further units of a branch; false, and nothing taken, when some are
 * missing. */
SELDOM static bool take_more(const struct work *work, int more, int *free)
{
    for (const struct priced_take *t = &work->take[more]; t->pool >= 0; t++)
        if (t->units > free[t->pool])
            return false;
    add_more(work, more, -1, free);
    return true;
}

/* Takes the branch's units; false, and nothing taken, when some are missing. */
static inline bool take_branch(const struct work *work,
                               const struct branch *branch, int *free)
{
    if (branch->units > free[branch->pool] ||
        (branch->more != 0 && !take_more(work, branch->more, free)))
        return false;
    free[branch->pool] -= branch->units;
    return true;
}

/* Items with one option left take it, the others stay as levels; false when
 * that alone does not fit. */
static bool settle(struct search *search, int *free)
{
    int n = 0;
    for (int i = 0; i < search->n; i++) {
        const struct level *level = &search->levels[i];
        if (level->n > 1) {
            search->levels[n++] = *level;
            continue;
        }
        const struct branch *only = &level->branches[0];
        search->best[level->item] = only->option;
        if (!take_branch(search->work, only, free))
            return false;
    }
    search->n = n;
    return true;
}

static void order_levels(struct search *search)
{
    qsort(search->levels, (size_t)search->n, sizeof *search->levels,
          by_second_loss);
    for (int i = search->n - 1; i >= 0; i--) {
        struct level *level = &search->levels[i];
        if (i + 1 < search->n)
            memcpy(level->fill, level[1].fill, sizeof level->fill);
        int most[PRICED_POOLS_MAX] = {0};
        for (int k = 0; k < level->n; k++) {
            const struct branch *branch = &level->branches[k];
            raise_to(&most[branch->pool], branch->units);
            for (const struct priced_take *t =
                     &search->work->take[branch->more];
                 t->pool >= 0; t++)
                raise_to(&most[t->pool], t->units);
        }
        for (int p = 0; p < search->work->npools; p++)
            level->fill[p] += most[p];
    }
}

/* The price of the units that must stay idle from level `at` on. */
static double idle_cost(const struct search *search, int at, const int *free)
{
    double sum = 0;
    for (int p = 0; p < search->work->npools; p++) {
        int most = at < search->n ? search->levels[at].fill[p] : 0;
        if (free[p] > most)
            sum += search->work->price[p] * (free[p] - most);
    }
    return sum;
}

/* False when the search is to stop. */
static bool descend(struct search *search, int at, double loss, int *free)
{
    if (loss + idle_cost(search, at, free) >= search->budget)
        return true;
    if (at == search->n) { /* a leaf, and better: (b) */
        search->budget = loss + idle_cost(search, at, free);
        search->budget -= tiny(search->work);
        search->has_best = true;
        for (int i = 0; i < search->n; i++)
            search->best[search->levels[i].item] =
                search->levels[i].branches[search->path[i]].option;
        return search->budget > search->enough;
    }
    const struct level *level = &search->levels[at];
    for (int k = 0; k < level->n; k++) {
        const struct branch *branch = &level->branches[k];
        if (loss + branch->loss >= search->budget)
            break; /* the options after it lose more */
        if (!take_branch(search->work, branch, free))
            continue;
        if (search->left-- <= 0)
            return false;
        search->path[at] = k;
        bool goes_on = descend(search, at + 1, loss + branch->loss, free);
        give_back(search->work, branch, free);
        if (!goes_on)
            return false;
    }
    return true;
}

/* The incumbent of the search becomes what is chosen. */
static void adopt(struct search *search)
{
    struct work *work = search->work;
    memcpy(work->free, work->capacity, sizeof work->free);
    work->value = 0;
    for (int i = 0; i < work->n; i++) {
        work->chosen[i] = search->best[i];
        work->value += value_of(work, work->chosen[i]);
        add_units(work, option_of(work, work->chosen[i]), -1, work->free);
    }
}

/* Looks for better choices among those the bound does not rule out, at most
 * `nodes` steps; all were looked at when true: the bound is then the value.
 * Stops when the gap is at most `gap`. */
static bool search_rest(struct work *work, double gap, long nodes,
                        struct arena *scratch, long *looked_at)
{
    size_t n = (size_t)work->n;
    size_t nbranches = (size_t)work->first[work->n] + n;
    struct search search = {
        .work = work,
        .n = work->n,
        .budget = work->bound - work->value - tiny(work),
        .enough = gap * work->bound,
        .left = nodes,
    };
    if (search.budget <= search.enough || nodes <= 0)
        return search.budget <= 0;
    search.levels = arena_alloc(scratch, n * sizeof *search.levels);
    search.path = arena_alloc(scratch, n * sizeof(int));
    search.best = arena_alloc(scratch, n * sizeof(int));
    struct branch *room = arena_alloc(scratch, nbranches * sizeof *room);
    for (int i = 0; i < work->n; i++)
        make_level(&search, i, room + work->first[i] + i);
    int free[PRICED_POOLS_MAX];
    memcpy(free, work->capacity, sizeof free);
    if (!settle(&search, free))
        return true; /* nothing better than the incumbent fits */
    order_levels(&search);
    bool is_complete = descend(&search, 0, 0, free);
    *looked_at = nodes - search.left;
    if (search.has_best)
        adopt(&search);
    return is_complete;
}

/* ---- the whole ---- */

bool priced_solve(const struct priced_problem *problem,
                  const struct priced_limits *limits, struct arena *scratch,
                  int *chosen, struct priced_result *result)
{
    struct work *work = arena_alloc(scratch, sizeof *work);
    double pinned = 0;
    struct priced_result out = {0};
    if (!reduce(problem, work, scratch, &pinned))
        return false;
    out.prices = find_prices(work, scratch);
    fill(work, scratch);
    if (search_rest(work, limits->gap, limits->nodes, scratch, &out.nodes))
        work->bound = fmin(work->bound, work->value + 2 * tiny(work));
    for (int i = 0; i < problem->nitems; i++)
        chosen[i] = problem->items[i].pinned;
    for (int i = 0; i < work->n; i++)
        if (work->chosen[i] != PRICED_NONE)
            chosen[work->item[i]] = work->option[work->chosen[i]].origin;
    out.value = work->value + pinned;
    out.bound = fmax(work->bound, work->value) + pinned;
    out.gap = work->bound > 0 ? (work->bound - work->value) / work->bound : 0;
    if (out.gap <= 1e-9) /* rounding */
        out.gap = 0;
    *result = out;
    return true;
}

/* ---- cbc ---- */

/* One whole column for each choice; a row for each item and for each pool. */
static struct milp as_milp(const struct priced_problem *problem,
                           struct arena *scratch)
{
    size_t n = (size_t)problem->nitems, m = 0, more = 0, nrows = 0, nterms = 0;
    for (size_t i = 0; i < n; i++) {
        m += (size_t)problem->items[i].nchoices;
        for (int c = 0; c < problem->items[i].nchoices; c++)
            more += (size_t)problem->items[i].choices[c].nmore;
    }
    struct milp_col *cols = arena_alloc(scratch, (m + 1) * sizeof *cols);
    struct milp_term *terms =
        arena_alloc(scratch, (2 * (m + 1) + more) * sizeof *terms);
    struct milp_row *rows =
        arena_alloc(scratch, (n + (size_t)problem->npools + 1) * sizeof *rows);
    int col = 0;
    for (size_t i = 0; i < n; i++) {
        const struct priced_item *item = &problem->items[i];
        rows[nrows++] = (struct milp_row){item->pinned == PRICED_NONE ? 0 : 1,
                                          1, terms + nterms, item->nchoices};
        for (int c = 0; c < item->nchoices; c++, col++) {
            cols[col] = (struct milp_col){-item->choices[c].value,
                                          item->pinned == c, 1, true};
            terms[nterms++] = (struct milp_term){col, 1};
        }
    }
    for (int p = 0; p < problem->npools; p++) {
        struct milp_row *row = &rows[nrows++];
        *row = (struct milp_row){0, problem->capacity[p], terms + nterms, 0};
        col = 0;
        for (size_t i = 0; i < n; i++)
            for (int c = 0; c < problem->items[i].nchoices; c++, col++) {
                int units = units_of(&problem->items[i].choices[c], p);
                if (units == 0)
                    continue;
                terms[nterms++] = (struct milp_term){col, units};
                row->nterms++;
            }
    }
    return (struct milp){cols, col, rows, (int)nrows};
}

static void ask_cbc(const struct priced_problem *problem, struct cbc *cbc,
                    struct arena *scratch, int *chosen,
                    struct priced_result *result)
{
    struct milp milp = as_milp(problem, scratch);
    double *x = arena_alloc(scratch, (size_t)(milp.ncols + 1) * sizeof(double));
    if (cbc_solve(cbc, &milp, scratch, x) != CBC_SOLVED)
        return;
    double value = -milp_value(&milp, x);
    double tiny = 1e-9 * fmax(1, fabs(result->bound));
    if (value > result->bound + tiny) {
        cbc->counts[CBC_SOLVED]--;
        cbc->counts[CBC_LIED]++;
        return;
    }
    if (value <= result->value)
        return;
    int col = 0;
    for (int i = 0; i < problem->nitems; i++) {
        chosen[i] = PRICED_NONE;
        for (int c = 0; c < problem->items[i].nchoices; c++, col++)
            if (x[col] == 1)
                chosen[i] = c;
    }
    result->gap *= (result->bound - value) / (result->bound - result->value);
    result->value = value;
    result->by_cbc = true;
}

bool priced_solve_or_ask(const struct priced_problem *problem,
                         const struct priced_limits *limits, double cbc_above,
                         struct cbc *cbc, struct arena *scratch, int *chosen,
                         struct priced_result *result)
{
    if (!priced_solve(problem, limits, scratch, chosen, result))
        return false;
    if (result->gap > cbc_above)
        ask_cbc(problem, cbc, scratch, chosen, result);
    return true;
}
