/* pairs.h - tasks alone, in pairs or idle, one capacity, the largest sum.
 *
 * Each task has a menu of (cost, value) for running alone; some pairs of
 * tasks have a menu for running together. A task is used at most once, and an
 * idle one costs and is worth 0. The sum of the costs must not exceed the
 * capacity (Ymir, eqs. 6-11, with the sum maximised). The same two tasks may
 * be listed as a pair more than once: merged in another way.
 *
 * The answer is near-exact: it comes with a bound that no choice exceeds.
 */
#ifndef MATH_PAIRS_H
#define MATH_PAIRS_H
#include "math/menus.h"

/* Menus may be empty here, and their capacity is not read. */
struct pairs_problem {
    struct menus alone;        /* one for each task */
    struct menus together;     /* one for each pair k: */
    const int *first, *second; /* of these tasks, different ones */
    int capacity;
    double tolerance; /* stop at this relative gap; 0: 1e-6 */
    int rounds;       /* pairings tried after the bound is known; 0: 40 */
};

enum { PAIRS_NONE = -1 };

/* A task runs alone (pair is PAIRS_NONE) or in pair k; `entry` is the
 * place in the arrays of the menus, or SIZE_MAX when it is idle. */
struct pairs_choice {
    int pair;
    size_t entry;
};

struct pairs_result {
    double value; /* the sum of the values taken */
    double bound; /* no choice is worth more */
    double price; /* of one unit of capacity, at the bound */
    int pairings; /* matchings that were solved */
};

/* Writes choice[i] for each task. FIRN_EINVAL for a negative cost or
 * capacity, a value that is not finite, or a pair of invalid tasks; `choice` is
 * then unchanged. A few milliseconds for 40 tasks in all pairs. */
enum firn_status pairs_solve(const struct pairs_problem *problem,
                             struct pairs_choice *choice,
                             struct pairs_result *result, struct arena *scratch,
                             struct firn_error *err);

/* (bound - value) / bound; 0 when nothing is worth anything. */
double pairs_gap(const struct pairs_result *result);

#endif
