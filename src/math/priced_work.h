/* priced_work.h - a problem of priced.h while it is solved; private to it.
 *
 * priced.c reduces the problem and finds prices, priced_fit.c makes choices
 * that fit, priced_search.c closes what is left of the gap.
 *
 * Most options take from one pool and have all their numbers in themselves.
 * What goes through further takes stays out of the loops of all others: SELDOM.
 */
#ifndef MATH_PRICED_WORK_H
#define MATH_PRICED_WORK_H
#include "math/priced.h"

#define SELDOM __attribute__((noinline, cold))

/* A choice worth considering. */
struct priced_option {
    int pool, units;
    double value;
    int origin; /* index among the item's choices */
    int more;   /* its further takes: work->take[more] until one of pool -1 */
};

struct priced_work {
    int n;      /* items that are not pinned and have options */
    int *item;  /* their numbers in the problem */
    int *first; /* options of the i-th: first[i] .. first[i + 1] */
    struct priced_option *option; /* `none` is not among them */
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
static inline double priced_tiny(const struct priced_work *work)
{
    return 1e-11 * work->size;
}

static inline double priced_value_of(const struct priced_work *work, int option)
{
    return option == PRICED_NONE ? 0 : work->option[option].value;
}

/* Of the further takes at `more`: their price; adds `sign` times their units to
 * `units`, by pool; their units of one pool. */
SELDOM double priced_price_of(const struct priced_work *work, int more,
                              const double *price);
SELDOM void priced_add_more(const struct priced_work *work, int more, int sign,
                            int *units);
SELDOM int priced_more_in(const struct priced_work *work, int more, int pool);

static inline double priced_net_of(const struct priced_work *work,
                                   const struct priced_option *o,
                                   const double *price)
{
    double net = o->value - price[o->pool] * o->units;
    return o->more == 0 ? net : net - priced_price_of(work, o->more, price);
}

/* Units that an option takes of a pool. */
static inline int priced_units_in(const struct priced_work *work,
                                  const struct priced_option *o, int pool)
{
    if (o->pool == pool)
        return o->units;
    return o->more == 0 ? 0 : priced_more_in(work, o->more, pool);
}

/* Adds `sign` times the units of the option to `units`, by pool. */
static inline void priced_add_units(const struct priced_work *work,
                                    const struct priced_option *o, int sign,
                                    int *units)
{
    units[o->pool] += sign * o->units;
    if (o->more != 0)
        priced_add_more(work, o->more, sign, units);
}

static inline void priced_raise_to(int *most, int units)
{
    *most = units > *most ? units : *most;
}

/* An option, or nothing. */
static inline const struct priced_option *
priced_option_of(const struct priced_work *work, int k)
{
    static const struct priced_option nothing = {0, 0, 0, PRICED_NONE, 0};
    return k == PRICED_NONE ? &nothing : &work->option[k];
}

/* Makes what is chosen fit, and uses the units that are idle. */
void priced_fill(struct priced_work *work, struct arena *scratch);

/* Looks for better choices among those the bound does not rule out, at most
 * `nodes` steps; all were looked at when true: the bound is then the value.
 * Stops when the gap is at most `gap`. */
bool priced_search_rest(struct priced_work *work, double gap, long nodes,
                        struct arena *scratch, long *looked_at);

#endif
