/* partition.h - one large problem as several small ones of equal weight.
 *
 * Users are split into k groups of nearly equal weight, and the capacity in
 * proportion, so that each group can be solved alone and all at once; the
 * choices put together use no more than the capacity there is (POP:
 * Narayanan et al., SOSP 2021). With many small users per group little is
 * lost; a user that needs more than a group's capacity cannot be served.
 */
#ifndef MATH_PARTITION_H
#define MATH_PARTITION_H
#include <stddef.h>

struct arena;

/* Writes to group[i], 0 .. k-1, the group of user i of weight[i] >= 0 (NULL:
 * all 1), and to share[g] the capacity of group g; the shares add up to
 * `capacity`. Heavy users are dealt first, each to the lightest group so far;
 * ties go to the lower number. k >= 1. O(n log n + n k). */
void partition_split(const double *weight, size_t n, size_t k, int capacity,
                     int *group, int *share, struct arena *scratch);

#endif
