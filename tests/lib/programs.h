/* programs.h - problems of the solvers as mixed-integer programs for cbc.
 *
 * The oracles of tests/math and the comparisons of bench/. Memory is the
 * arena's; the problem is borrowed.
 */
#ifndef LIB_PROGRAMS_H
#define LIB_PROGRAMS_H
#include "math/cbc.h"
#include "math/menus.h"
#include "math/pairs.h"

/* Maximise t, the last column: one entry from each menu, each worth at least
 * t, within the capacity. start[0] is 0. */
struct milp program_of_menus(const struct menus *menus, struct arena *arena);

/* Maximise the sum of values, a column for each entry of the tasks alone and
 * then of the pairs: each task at most once, within the capacity. */
struct milp program_of_pairs(const struct pairs_problem *p,
                             struct arena *arena);

#endif
