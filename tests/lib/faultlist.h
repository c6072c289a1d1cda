/* faultlist.h - which faults a test plays: one, a sample, or all.
 *
 * A test has one function that plays its scenario with one fault and returns
 * whether all invariants held. A run without a fault counts the calls of each
 * kind (faultlist_count); then
 *
 *     FIRN_FAULT='daemon open EMFILE 94 10'   that one
 *     FIRN_FAULTS=n                           a sample of n, by FIRN_SEED
 *     FIRN_SOAK=1                             all, in several processes
 *
 * and without a variable a small sample. "All" is every call with every error
 * of its kind; of a kind with more than FAULTLIST_EACH calls (reading /proc,
 * memory) each k-th. In a sample one fault in three hits ten calls in a row.
 */
#ifndef TESTS_LIB_FAULTLIST_H
#define TESTS_LIB_FAULTLIST_H
#include "lib/faultplan.h"
#include <stdbool.h>

enum { FAULTLIST_EACH = 200 };

struct fault {
    enum fault_role role;
    enum fault_call call;
    int error;
    long nth, length; /* `nth` 0: no fault */
};

struct faultlist {
    enum fault_role first, last; /* roles that are hit */
    long counts[FAULT_ROLES][FAULT_CALLS];
};

typedef bool faultlist_play_fn(void *arg, const struct fault *fault);

/* Takes the plan's counts over after a run without a fault. */
void faultlist_count(struct faultlist *list, const struct faultplan *plan,
                     const struct fault *fault);
void faultlist_print(const struct faultlist *list);
/* The number of failures; ends early when there are many. With several
 * processes each has its own copy of `arg`. */
int faultlist_play(const struct faultlist *list, int nsample,
                   faultlist_play_fn *play, void *arg);
/* One failure in a line, with the value of FIRN_FAULT that plays it again. */
void faultlist_tell(const struct fault *fault, const char *where,
                    const char *said);

#endif
