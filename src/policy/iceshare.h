/* iceshare.h - how many GPUs each job gets, so that the smallest share is
 * largest.
 *
 * The problem of IceFrog (18) without its jobs: each item makes one choice, a
 * choice takes units (half GPUs) from one pool (the GPUs of one type) and has
 * a value, and the values taken are to be as large as can be, the smallest
 * first. The first choice of an item is to take nothing.
 */
#ifndef POLICY_ICESHARE_H
#define POLICY_ICESHARE_H
#include "base/arena.h"
#include <firn/status.h>

enum iceshare_goal {
    ICESHARE_LEXIMIN, /* the smallest value, then the second smallest, ... */
    ICESHARE_HARMONIC /* the harmonic mean of the values */
};

struct iceshare_choice {
    int pool;
    int units;    /* 0 in the first choice only */
    double value; /* finite; a choice of less than the first is never made */
};

/* At least one choice; by pool, then by rising units. */
struct iceshare_item {
    const struct iceshare_choice *choices;
    size_t n;
};

struct iceshare_problem {
    const struct iceshare_item *items;
    size_t n;
    const int *capacity; /* units, by pool */
    int npools;
    enum iceshare_goal goal;
    size_t group; /* a pool with more items is split into groups of this many,
                     each with its part of the pool; 0: never */
};

/* Writes to chosen[i] the choice of item i; no pool gives more than it has.
 * Exact for one pool without groups, up to the limit on ties that
 * math/maxmin.h names. Fails only on wrong input. */
enum firn_status iceshare_solve(const struct iceshare_problem *problem,
                                size_t *chosen, struct arena *scratch,
                                struct firn_error *err);

#endif
