/* rounds.h - the timer of policies that divide the GPUs anew at intervals.
 *
 * Such a policy is asked at every event, but begins a round only when the
 * interval is over; between rounds it serves waiting jobs with free GPUs. The
 * time of the last round is all that has to outlive a restart.
 *
 * (1) Asked twice at one time, the timer gives the same answer: decide() must
 * plan the same when it is called again.
 */
#ifndef POLICY_ROUNDS_H
#define POLICY_ROUNDS_H
#include "base/keep.h"

struct rounds {
    bool has_begun;
    double last_s; /* when the latest round was */
};

/* The first multiple of `every_s` after `at_s`. */
double rounds_multiple_s(double at_s, double every_s);

/* Begins a round and returns true, unless one has begun before now and
 * `next_s` is still to come. */
bool rounds_begin(struct rounds *rounds, double now_s, double next_s);

void rounds_save(const struct rounds *rounds, struct firn_buf *out);
struct rounds rounds_load(struct keep *keep);

#endif
