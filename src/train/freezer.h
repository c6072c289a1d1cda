/* freezer.h - what a freezer holds; for freezer.c and freezersave.c.
 *
 * The manual is firn/freezer.h.
 */
#ifndef TRAIN_FREEZER_H
#define TRAIN_FREEZER_H
#include <firn/freezer.h>

enum { FIRN_FREEZER_LAYERS = 1 << 20 };

struct firn_freezer {
    enum firn_freezer_rule rule;
    struct firn_tuner tuner;
    size_t most; /* layers that a rule may freeze */
    uint64_t warmup_epochs;
    struct firn_freezeout freezeout;
    firn_freezer_user *user;
    void *arg;

    double *theta, *omega; /* shares left, by the number of frozen layers */
    /* Ratios to forward, by frozen count; negative: never run so. */
    double *seen_backward, *seen_rest;
    struct firn_freeze freeze;

    double psi, owed, effective;
    uint32_t due, passes, batch;
    uint32_t rate;      /* millionths; 0: not decided */
    uint64_t last_step; /* of the last decision */

    struct firn_decision *log, *replay;
    size_t nlog, cap, nreplay, replayed;
};

/* Is it a decision that may stand behind one of step `last_step`? */
enum firn_status firn_freezer_check(const struct firn_decision *d,
                                    size_t nlayers, uint64_t last_step,
                                    struct firn_error *err);

#endif
