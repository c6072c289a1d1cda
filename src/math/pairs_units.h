/* pairs_units.h - the best entries for tasks already paired; for pairs.c.
 *
 * With the pairing given, each pair and each task left over is one unit with
 * one menu, and what remains is one capacity row (sumrow.h). The menu of a
 * pair also has all the ways to run its two tasks apart.
 */
#ifndef MATH_PAIRS_UNITS_H
#define MATH_PAIRS_UNITS_H
#include "base/arena.h"
#include "math/pairs.h"

/* The pairs by their tasks: those of tasks i < j are list[start[i * n + j]]
 * to the next start. */
struct pairs_index {
    size_t *start;
    int *list;
};

struct units {
    const struct pairs_problem *p;
    struct pairs_index index;
    struct frontier front; /* of the tasks alone, with idle in front */
    struct arena inner;    /* reset for each pairing */
};

void units_init(struct units *units, const struct pairs_problem *problem,
                struct arena *scratch);
void units_release(struct units *units);

/* The best choice when only tasks i and mate[i] may be paired. Writes `choice`
 * and returns its value. */
double units_solve(struct units *units, const int *mate,
                   struct pairs_choice *choice);

#endif
