/* merger.h - Ymir's task merger: GPUs and partners of the jobs of a round.
 *
 * Of the policy ymir; firn asks merger_harm() too. A unit is a job, or two that
 * are being trained together already. The merger gives each unit a number of
 * GPUs or none, and pairs some of those that may be paired, so that the
 * objective over all of them is best and no more GPUs are used than there are.
 */
#ifndef POLICY_MERGER_H
#define POLICY_MERGER_H
#include "math/pairs.h"
#include <firn/policy.h>

enum merger_objective {
    MERGER_SPEEDUP,  /* the largest sum of T_fair / T */
    MERGER_SLOWDOWN, /* the smallest sum of T / T_fair */
};

struct merger_rules {
    int objective;
    double interval_s; /* between two rounds */
    double wait;       /* SLOWDOWN: intervals that waiting is charged */
    double restart_s;  /* of jobs that name no cost */
    int ahead_s;       /* of each restart that cost nothing, where the engine
                        * prepares as many seconds */
    double weight_min; /* TranWt of pairs that are considered */
    int pool;          /* jobs that are considered for pairs */
    bool spatial, temporal;
    bool charges; /* T has the restart that a change of GPUs costs */
};

enum { MERGER_NONE = -1 };

struct merger_unit {
    const struct firn_job *job;
    const struct firn_job *with; /* trained together with it now; or NULL */
    double gain; /* speed-up by the weights that it is to begin with; 1: those
                    of the model */
    int pinned;  /* the number of GPUs that it has in any case; 0: the merger
                    decides */
    bool may_merge;  /* has made no progress: together with another */
    bool may_follow; /* the same: with the weights of another, after it */
    bool may_lead;   /* another may wait for its weights */

    /* What is decided. */
    int gpus;                  /* 0: none */
    int partner;               /* unit; or MERGER_NONE */
    enum firn_merge_kind kind; /* with a partner */
    bool is_second;            /* of a pair: AFTER, the one that waits */
    double follow_gain;        /* AFTER: speed-up by the wait */
};

/* Decides for n units over `capacity` GPUs; `result` gets the solver's sum and
 * its bound. O(units x counts + pairs) forecasts, and the solver. */
void merger_solve(const struct firn_view *view,
                  const struct merger_rules *rules, struct merger_unit *units,
                  size_t n, int capacity, struct pairs_result *result);

/* The counts in which a job may be run, rising: 1 to 4, whole multiples of 4,
 * and the fewest it accepts. In scratch memory. */
const int *merger_counts(const struct firn_view *view,
                         const struct firn_job *job, size_t *n);

/* Why two jobs that are being trained together should be parted, in words;
 * NULL: they should not. Without `guard` only where nothing is known of the
 * pair. */
const char *merger_harm(const struct firn_view *view, const struct firn_job *a,
                        const struct firn_job *b, bool guard);

#endif
