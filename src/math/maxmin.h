/* maxmin.h - one entry from each menu so that the worst off is best off.
 *
 * Max-min: the smallest value taken is as large as the capacity allows.
 * Leximin: then the second smallest is as large as possible, and so on; the
 * sorted list of values is the largest in lexicographic order. To weigh menus,
 * the caller multiplies their values.
 *
 * Both answers are exact (see maxmin.c for the one limit on leximin, which
 * the result names when it was met). Values are equal only when they are the
 * same double.
 */
#ifndef MATH_MAXMIN_H
#define MATH_MAXMIN_H
#include "math/menus.h"
#include <stdbool.h>
#include <stdint.h>

struct maxmin_result {
    double worst;      /* the smallest value taken; infinite without menus */
    int64_t spent;     /* the sum of the costs taken */
    bool is_exact;     /* false: ties were cut short, see maxmin_leximin */
    double exact_upto; /* values up to this one are exact */
};

/* Writes to entry[i] the place in the arrays of what menu i takes: its
 * cheapest entry that is worth at least result->worst. Fails as menus_check
 * does. O(entries + (n + capacity) log n) for menus sorted by cost. */
enum firn_status maxmin_worst(const struct menus *menus, size_t *entry,
                              struct maxmin_result *result,
                              struct arena *scratch, struct firn_error *err);

/* The same for leximin; among the optimal choices a cheapest. Of menus that
 * are alike the one listed first gets more. The time is that of maxmin_worst
 * unless many menus tie at a level where only some can rise; such ties cost
 * up to `work` steps (0: 20 million, some tens of milliseconds) before they
 * are settled as they stand and is_exact is false. The worst value is exact
 * in any case. */
enum firn_status maxmin_leximin(const struct menus *menus, int64_t work,
                                size_t *entry, struct maxmin_result *result,
                                struct arena *scratch, struct firn_error *err);

#endif
