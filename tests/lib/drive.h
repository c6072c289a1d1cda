/* drive.h - the simulator's engine under a policy of the test's own.
 *
 * firn_sim_run() finds policies by name, so a toy is driven here: the same
 * engine and the same round, with a loop as short as can be, and what came out
 * written down as text. Each job's work is added up a second time, the naive
 * way; the test fails when it is not the duration (but for rates by profile,
 * which it does not know). At most 256 jobs, and no
 * checkpoints.
 */
#ifndef LIB_DRIVE_H
#define LIB_DRIVE_H
#include "lib/play.h"
#include "sim/simengine.h"
#include <firn/policy.h>

/* How a run went. */
struct drive {
    struct world_spent spent;
    struct firn_buf text; /* "a 130\n": jobs in order of their end */
    double end_s;         /* of the last one */
    long steps;
};

/* Runs the play's trace on its cluster under `policy` until no job is left.
 * The caller releases `out->text`. On failure `out` is as far as it came. */
enum firn_status drive_try(struct play *play,
                           const struct firn_policy_def *policy,
                           struct drive *out);

/* The same; fails the test unless the jobs ended as `want` says. */
struct drive drive_run(struct play *play, const struct firn_policy_def *policy,
                       const char *want);

#endif
