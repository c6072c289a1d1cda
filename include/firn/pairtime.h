/* pairtime.h - two jobs for one set of GPUs: together now, or one by one?
 *
 * SJF-BSBF's Theorem 1. A new job could join the GPUs of a running one at any
 * moment until that one is done. While both are there a step of each takes xi
 * times as long. The mean time until the two are done is, as a function of the
 * moment, piecewise linear with one knee, and its least value lies at one of
 * the ends: join now, or wait until the running one is done.
 *
 * Times are seconds alone on the GPUs, > 0 and finite; each xi >= 1. O(1).
 */
#ifndef FIRN_PAIRTIME_H
#define FIRN_PAIRTIME_H
#include <firn/status.h>
#include <stdbool.h>

FIRN_C_BEGIN

struct firn_pairtime {
    double new_s, running_s;   /* left of each, alone */
    double new_xi, running_xi; /* step time beside the other / alone */
};

/* Mean seconds from now until the two are done, the new one joining `after_s`
 * from now: 0 for now; from running_s on, they never meet. */
FIRN_API double firn_pairtime_mean(const struct firn_pairtime *pair,
                                   double after_s);

/* The two ends: both from now on, and the new one behind the running one. */
FIRN_API double firn_pairtime_shared(const struct firn_pairtime *pair);
FIRN_API double firn_pairtime_in_turn(const struct firn_pairtime *pair);

/* The two never meet: the new one starts elsewhere, `wait_s` from now. */
FIRN_API double firn_pairtime_apart(const struct firn_pairtime *pair,
                                    double wait_s);

/* Joining now is better than waiting; when they are equal it is not. */
FIRN_API bool firn_pairtime_shares(const struct firn_pairtime *pair);

FIRN_C_END

#endif
