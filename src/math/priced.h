/* priced.h - one choice for each item, out of shared pools.
 *
 * Items (jobs) have choices, each of which takes units (GPUs) from one pool
 * (the GPUs of one type), or from several, and has a value; an item makes at
 * most one choice, a pool has a capacity, and the sum of values is maximised.
 * Choosing nothing is worth 0. An item may be pinned to one of its choices,
 * whatever its value.
 *
 *     maximise   sum of value(i, choice of i)
 *     subject to sum of units taken from pool p <= capacity[p]
 *
 * To minimise costs with a price L for every item left out, as Sia does, give
 * L - cost as value: the two sums then add up to L * items.
 *
 * The answer comes with a bound that no choice can exceed, so how far it may
 * be from the best is known: with two or three pools and forty items it is
 * nearly always the best itself.
 */
#ifndef MATH_PRICED_H
#define MATH_PRICED_H
#include "base/arena.h"
#include <stdbool.h>

enum {
    PRICED_POOLS_MAX = 32,
    PRICED_NONE = -1, /* chooses nothing; is not pinned */
};

/* Units of one pool. */
struct priced_take {
    int pool;
    int units; /* >= 1 */
};

struct priced_choice {
    int pool;
    int units;    /* >= 1 */
    double value; /* finite; only a pinned choice is taken at <= 0 */
    const struct priced_take *more; /* units that it takes besides, of other
                                     * pools, each of them once; NULL: none */
    int nmore;
};

struct priced_item {
    const struct priced_choice *choices;
    int nchoices;
    int pinned; /* the choice it must make, or PRICED_NONE */
};

struct priced_problem {
    const struct priced_item *items;
    int nitems;
    const int *capacity; /* by pool */
    int npools;          /* <= PRICED_POOLS_MAX */
};

/* When to stop. */
struct priced_limits {
    double gap; /* relative: near enough to the bound; 0: the best */
    long nodes; /* of the search that closes the gap */
};

struct priced_result {
    double value; /* of what is chosen */
    double bound; /* no choice is worth more */
    double gap;   /* (bound - value) / bound, without what is pinned; 0 when
                   * nothing is worth anything */
    int prices;   /* how many sets of prices were tried */
    long nodes;   /* how many the search looked at */
    bool by_cbc;  /* the choices are cbc's */
};

/* Fills `chosen` (one index per item, or PRICED_NONE). False, and nothing
 * written, when the pinned choices alone do not fit. Equal input gives equal
 * output; of equal choices the first is taken. Takes memory from `scratch` at
 * the start only. About 0.2 ms for 40 items of 19 choices in 3 pools, each of
 * one pool. */
bool priced_solve(const struct priced_problem *problem,
                  const struct priced_limits *limits, struct arena *scratch,
                  int *chosen, struct priced_result *result);

struct cbc;

/* The same, but when the gap stays above `cbc_above`, cbc solves the problem.
 * Its answer is taken if it is better and within the bound, and counted as
 * CBC_LIED if it exceeds the bound. The bound returned is never cbc's, which
 * is not proven. */
bool priced_solve_or_ask(const struct priced_problem *problem,
                         const struct priced_limits *limits, double cbc_above,
                         struct cbc *cbc, struct arena *scratch, int *chosen,
                         struct priced_result *result);

#endif
