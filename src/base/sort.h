/* sort.h - sorts doubles.
 */
#ifndef BASE_SORT_H
#define BASE_SORT_H
#include <stddef.h>

/* Ascending; -0 before 0; NaN last. O(n), with n doubles of memory beside. */
void sort_doubles(double *values, size_t n);

#endif
