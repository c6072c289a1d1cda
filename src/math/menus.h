/* menus.h - n menus, one entry to be taken from each, one capacity.
 *
 * The common input of the solvers over one capacity row. Menu i has the
 * entries start[i] .. start[i+1]-1 of two arrays; an entry costs a whole
 * number of units (>= 0) and is worth a value. The order of the entries is
 * free; a menu sorted by cost saves a sort.
 *
 * The frontier of a menu is what is left of it once every entry that costs as
 * much as another and is worth no more is struck out: costs and values both
 * rise strictly. No solver that prefers more value ever needs the others.
 */
#ifndef MATH_MENUS_H
#define MATH_MENUS_H
#include <firn/status.h>
#include <stddef.h>

struct arena;

/* Borrowed arrays. start has n + 1 numbers; start[0] need not be 0. */
struct menus {
    size_t n;
    const size_t *start;
    const int *cost;
    const double *value;
    int capacity;
};

/* Menu i has the positions start[i] .. start[i+1]-1; entry[] is the place in
 * the arrays of the menus. Of equal entries the one listed first is kept. */
struct frontier {
    size_t n;
    const size_t *start;
    const int *cost;
    const double *value;
    const size_t *entry;
};

/* FIRN_EINVAL when a menu is empty, a cost is negative, a value is not finite
 * or the capacity is negative; FIRN_EDATA when the cheapest entries together
 * do not fit. `what` opens the sentence. O(entries). */
enum firn_status menus_check(const struct menus *menus, const char *what,
                             struct firn_error *err);

/* The frontiers, in `scratch`, and as long as it lives. Menus must have passed
 * menus_check. O(entries), and a sort for each menu not sorted by cost. */
struct frontier menus_frontier(const struct menus *menus,
                               struct arena *scratch);

#endif
