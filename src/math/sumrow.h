/* sumrow.h - one entry from each menu for the largest sum of values.
 *
 * The multiple-choice knapsack problem: one capacity, whole costs, any values
 * (also negative). The answer is exact, up to the rounding of the sums.
 */
#ifndef MATH_SUMROW_H
#define MATH_SUMROW_H
#include "math/menus.h"

struct sumrow_result {
    double value; /* the sum of the values taken */
    double bound; /* no choice is worth more: the relaxation's value */
    double price; /* what one more unit of capacity is worth there */
    size_t core;  /* menus whose entry took more than the bound to decide */
};

/* Writes to entry[i] the place in the arrays of what menu i takes. Fails as
 * menus_check does. A few passes over the entries when the relaxation is
 * nearly whole, which it is with many menus; at worst
 * O(core entries * capacity) time and 4 * core * capacity bytes. */
enum firn_status sumrow_solve(const struct menus *menus, size_t *entry,
                              struct sumrow_result *result,
                              struct arena *scratch, struct firn_error *err);

#endif
