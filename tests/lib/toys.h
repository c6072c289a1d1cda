/* toys.h - small policies that test core and simulator without a real one.
 *
 * They are not in policies.def: no user sees them.
 */
#ifndef LIB_TOYS_H
#define LIB_TOYS_H
#include <firn/policy.h>

/* Leaves everything as it is. */
extern const struct firn_policy_def toy_do_nothing;
/* The job with the lowest id runs, alone. */
extern const struct firn_policy_def toy_one_by_one;
/* Every job that fits runs, by id. */
extern const struct firn_policy_def toy_greedy;
/* Jobs that accept it join others on their GPUs. */
extern const struct firn_policy_def toy_sharer;
/* Each round anew: each job the least, then all that is left, by id. */
extern const struct firn_policy_def toy_elastic;
/* Greedy until a TIMER event, then tells the lie its option names until the
 * next one. Declares nothing in `does`; tests change that in a copy. */
extern const struct firn_policy_def toy_liar;

#endif
