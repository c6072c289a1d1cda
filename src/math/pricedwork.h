/* pricedwork.h - the state shared by the three files of priced.h's method.
 *
 * priced.c reduces the problem and finds prices; pricedfill.c turns an answer
 * to prices into one that fits and improves it; pricedsearch.c closes what is
 * left of the gap.
 */
#ifndef MATH_PRICEDWORK_H
#define MATH_PRICEDWORK_H
#include "math/priced.h"

/* A choice worth considering. */
struct option {
    int pool, units;
    double value;
    int origin; /* index among the item's choices */
};

struct priced_work {
    int n;                 /* items that are not pinned and have options */
    int *item;             /* their numbers in the problem */
    int *first;            /* options of the i-th: first[i] .. first[i + 1] */
    struct option *option; /* `none` is not among them */
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

static inline double priced_value(const struct priced_work *work, int option)
{
    return option == PRICED_NONE ? 0 : work->option[option].value;
}

/* Makes `chosen`, which may take more than there is, fit, fills what is free,
 * and exchanges units between two items while that gains. */
void priced_fill(struct priced_work *work, struct arena *scratch);

/* Looks for better choices among those the bound does not rule out, at most
 * `nodes` steps; all were looked at when true: the bound is then the value.
 * Stops when the gap is at most `gap`. */
bool priced_search(struct priced_work *work, double gap, long nodes,
                   struct arena *scratch, long *looked_at);

#endif
